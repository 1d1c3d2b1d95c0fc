//! Blame by time window. The end of a chain of holders at a moment depends only on that moment. A recording
//! is cut into windows that fit into the CPU's caches, and each window is processed separately.

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

/// Approximate number of slices per window.
const ROWS_PER_WINDOW: u128 = 1 << 17;
/// More windows than this gain nothing.
const WINDOWS_MAX: u128 = 256;

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

/// Starts of the windows of `from..to`, and the end of the last one. Their number depends on the part of the
/// recording, because each start is searched for in every thread.
fn cuts(trace: &Trace, from: Timestamp, to: Timestamp) -> Vec<Timestamp> {
    let (start, end) = (trace.start().max(from), trace.end().min(to));
    let length_ns = u128::from(end.since(start).0);
    let rows = trace.slices.len() as u128 * length_ns / u128::from(trace.wall().0.max(1));
    let windows = (rows / ROWS_PER_WINDOW + 1).min(WINDOWS_MAX);
    // A range beyond the recording's end has no length, and one window.
    let inner = (1..windows).map(|index| Timestamp(start.0 + (length_ns * index / windows) as u64).min(to));
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

    /// Adds the part of a wait within the window. Returns its subject, and the time in which the thread was
    /// waking (ns).
    fn wait(&mut self, hold: &Hold, slice: &Slice, life: &Thread) -> Option<(Subject, u64)> {
        let (begin, end) = (slice.start.max(life.start), slice.end.min(life.end));
        let begins = self.time.contains(&begin);
        let (start, end) = (begin.max(self.time.start), end.min(self.time.end));
        if start >= end && !begins {
            return None;
        }
        let length = end.since(start).0;
        let lock = self.facts.locks.of_slice(slice).filter(|_| hold.kind == HoldKind::Lock);
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

#[cfg(test)]
mod tests {
    use holdup_events::tables::{SliceRow, Slices, ThreadState};

    use super::*;

    /// One thread that ran and waited by turns, 2^20 slices of 2 ns each from 1000 on.
    fn trace() -> Trace {
        const SLICES: u64 = 1 << 20;
        let mut trace = Trace::default();
        (trace.manifest.start_ns, trace.manifest.end_ns) = (1000, 1000 + 2 * SLICES);
        let life = Thread { target: true, start: trace.start(), end: trace.end(), ..Thread::default() };
        trace.threads.push(life);
        let state = |n: u64| if n.is_multiple_of(2) { ThreadState::Running } else { ThreadState::Blocked };
        let row =
            |n: u64| SliceRow { start: Timestamp(1000 + 2 * n), state: state(n), ..SliceRow::default() };
        trace.slices = Slices::freeze(&[(0..SLICES).map(row).collect()], vec![trace.end()]);
        trace
    }

    #[test]
    fn windows_follow_the_rows_of_the_range() {
        let trace = trace();
        let cuts = |from: u64, to: u64| cuts(&trace, Timestamp(from), Timestamp(to));
        let all = cuts(0, u64::MAX);
        assert_eq!(all.len(), 1 + 9, "2^20 rows by 2^17, and one more");
        assert_eq!((all[0], all[9]), (Timestamp(0), Timestamp(u64::MAX)));
        assert_eq!(all[1], Timestamp(1000 + (2 << 20) / 9));
        assert_eq!(cuts(1000, 1000 + (1 << 20)).len(), 1 + 5, "half of it");
        assert_eq!(cuts(5000, 9000), [Timestamp(5000), Timestamp(9000)], "few rows are one window");
    }

    #[test]
    fn windows_lie_in_the_range_wherever_that_is() {
        let trace = trace();
        let end = trace.end().0;
        for (from, to) in
            [(0, 10), (0, 1000), (end, end + 5), (end + 5, u64::MAX), (7, 7), (2000, 1500), (900, end + 9)]
        {
            let cuts = cuts(&trace, Timestamp(from), Timestamp(to));
            assert_eq!((cuts[0], cuts[cuts.len() - 1]), (Timestamp(from), Timestamp(to)));
            let inner = &cuts[1..cuts.len() - 1];
            assert!(inner.iter().all(|cut| from <= cut.0 && cut.0 <= to), "{from}..{to}: {cuts:?}");
        }
    }
}
