//! Blame window by window: what is at the end of a chain of holders at a moment depends on that moment alone. So a
//! recording is cut into windows that are short enough for the CPU's caches, and each is taken by itself.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use holdup_events::tables::{Slice, Thread};
use holdup_events::{ThreadId, Timestamp, Trace};

use super::flow::{follow, node};
use super::steps::Stretch;
use super::sums::Sums;
use super::{Blame, Edge, End, EndClass, Facts, Subject};
use crate::derive::holders::{Hold, HoldKind};
use crate::derive::parallel;

/// About so many slices are in a window.
const ROWS_PER_WINDOW: usize = 1 << 17;
/// More windows than this gain nothing.
const WINDOWS_MAX: u64 = 256;

pub(super) fn derive(facts: Facts, from: Timestamp, to: Timestamp) -> Blame {
    let cuts = cuts(facts.trace, from, to);
    let parts = parallel::map(cuts.len() - 1, |index| {
        let mut window = Window::new(facts, cuts[index]..cuts[index + 1], index == 0);
        for thread in facts.trace.target_threads() {
            window.thread(thread);
        }
        window.finish()
    });
    let mut subjects: BTreeMap<Subject, Sums> = BTreeMap::new();
    let mut edges: BTreeMap<(ThreadId, ThreadId, HoldKind), (u64, u64)> = BTreeMap::new();
    for (of_subjects, of_edges) in parts {
        for (subject, sums) in of_subjects {
            subjects.entry(subject).or_default().add(sums);
        }
        for (edge, (ns, waits)) in of_edges {
            let sums = edges.entry(edge).or_default();
            *sums = (sums.0 + ns, sums.1 + waits);
        }
    }
    let edge = |((waiter, holder, kind), (ns, waits))| Edge { waiter, holder, kind, ns, waits };
    let mut blame = Blame {
        total_ns: subjects.values().map(|sums| sums.waiting_ns).sum(),
        subjects: subjects.into_iter().map(|(subject, sums)| sums.finish(subject)).collect(),
        edges: edges.into_iter().map(edge).collect(),
    };
    blame.subjects.sort_by(|a, b| b.waiting_ns.cmp(&a.waiting_ns).then_with(|| a.subject.cmp(&b.subject)));
    blame.edges.sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| a.cmp(b)));
    blame
}

/// Where the windows of `from..to` begin, and where the last one ends.
fn cuts(trace: &Trace, from: Timestamp, to: Timestamp) -> Vec<Timestamp> {
    let start = trace.start().max(from);
    let length_ns = trace.end().min(to).since(start).0;
    let windows = ((trace.slices.len() / ROWS_PER_WINDOW) as u64 + 1).min(WINDOWS_MAX);
    let inner = (1..windows).map(|index| {
        let ns = u128::from(length_ns) * u128::from(index) / u128::from(windows);
        Timestamp(start.0 + ns as u64)
    });
    let mut cuts: Vec<Timestamp> = [from].into_iter().chain(inner).chain([to]).collect();
    cuts.dedup();
    if cuts.len() < 2 { vec![from, to] } else { cuts }
}

type Edges = HashMap<(ThreadId, ThreadId, HoldKind), (u64, u64)>;

/// The waits in a window.
struct Window<'a> {
    facts: Facts<'a>,
    time: Range<Timestamp>,
    /// Waits that began before it count here.
    first: bool,
    subjects: BTreeMap<Subject, (Sums, Vec<Stretch>)>,
    edges: Edges,
}

impl<'a> Window<'a> {
    fn new(facts: Facts<'a>, time: Range<Timestamp>, first: bool) -> Window<'a> {
        Window { facts, time, first, subjects: BTreeMap::new(), edges: HashMap::new() }
    }

    fn thread(&mut self, thread: ThreadId) {
        let Facts { trace, holders, .. } = self.facts;
        let life = &trace.threads[thread.index()];
        let before = trace.slices.starts(thread).partition_point(|start| *start <= self.time.start);
        let first = trace.slices.rows(thread).start + before.saturating_sub(1);
        let mut waking: BTreeMap<Subject, u64> = BTreeMap::new();
        for hold in holders.from_row(thread, first) {
            let slice = trace.slices.at(thread, hold.row as usize);
            if slice.start >= self.time.end {
                break;
            }
            if let Some((subject, ns)) = self.wait(&hold, &slice, life) {
                *waking.entry(subject).or_default() += ns;
            }
        }
        let end = End { class: EndClass::Waking, thread: Some(thread), occupant: None };
        for (subject, ns) in waking {
            *self.subjects.entry(subject).or_default().0.ends.entry(end).or_default() += ns;
        }
    }

    /// Takes what of a wait is in the window: for whom or what it was, and how long of it the thread was waking up (ns).
    fn wait(&mut self, hold: &Hold, slice: &Slice, life: &Thread) -> Option<(Subject, u64)> {
        let (begin, end) = (slice.start.max(life.start), slice.end.min(life.end));
        let begins = self.time.contains(&begin);
        let (start, end) = (begin.max(self.time.start), end.min(self.time.end));
        if start >= end && !begins {
            return None;
        }
        let length = end.since(start).0;
        let lock = self.facts.locks.of(slice.wait).filter(|_| hold.kind == HoldKind::Lock);
        let subject = lock.map_or(Subject::Kind(hold.kind), Subject::Lock);
        let counts = begins || self.first;
        let (sums, stretches) = self.subjects.entry(subject).or_default();
        sums.waits += u64::from(counts && !hold.false_wakeup);
        sums.false_wakeups += u64::from(counts && hold.false_wakeup);
        sums.waiting_ns += length;
        let woken = (slice.end - hold.transit).max(start).min(end.max(start));
        match node(hold, lock) {
            Some(node) => stretches.push(Stretch { node, from: start.0, to: woken.0, weight: 1 }),
            None => {
                let end = End { class: EndClass::of_wait(hold), thread: Some(slice.thread), occupant: None };
                *sums.ends.entry(end).or_default() += woken.since(start).0;
            }
        }
        if let Some(holder) = hold.holder {
            let sums = self.edges.entry((slice.thread, holder, hold.kind)).or_default();
            *sums = (sums.0 + length, sums.1 + u64::from(counts && !hold.false_wakeup));
        }
        Some((subject, end.since(woken).0))
    }

    fn finish(self) -> (BTreeMap<Subject, Sums>, Edges) {
        let facts = self.facts;
        let followed = self.subjects.into_iter().map(|(subject, (mut sums, stretches))| {
            follow(facts, stretches, &mut sums);
            (subject, sums)
        });
        (followed.collect(), self.edges)
    }
}
