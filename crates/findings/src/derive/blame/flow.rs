//! How blame flows: all waits of one subject together go down the chains, a link at a time.
//!
//! A link is taken for all waiters of a thread or a lock at once: their waits become a step function of time, laid
//! over what the holder did. So a hundred idle threads that wait for one cost as much as one does. A chain that the
//! wakeups tell cannot go round, since each link ends before the one that led to it; one that locks' words tell may:
//! that is a deadlock, or a word that was read too late.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;

use holdup_events::tables::{SampleRow, partition_point_near};
use holdup_events::{CpuId, Duration, StackId, ThreadId, Timestamp};

use super::steps::{LOCK, Stretch, merge};
use super::{Blame, Edge, End, EndClass, Facts, Subject, SubjectBlame, most_first};
use crate::derive::holders::meanwhile::{Activity, Piece, between_near};
use crate::derive::holders::{Hold, HoldKind};
use crate::derive::parallel;

/// Links that are followed; chains are hardly longer than there are threads that block each other. Even, so that a
/// circle of threads and locks in turn ends at a thread, which has a name.
const LINKS_MAX: usize = 64;
/// Who had the CPU is told of so many occupants of one stretch in its queue.
const OCCUPANTS_MAX: usize = 16;

pub(super) fn derive(facts: Facts, from: Timestamp, to: Timestamp) -> Blame {
    let groups = parallel::thread_groups(facts.trace);
    let parts = parallel::map(groups.len(), |group| {
        let mut gathered = Gathered::default();
        for thread in groups[group].clone().map(ThreadId) {
            gathered.thread(facts, thread, (from, to));
        }
        gathered
    });
    let mut subjects: BTreeMap<Subject, Waits> = BTreeMap::new();
    let mut blame = Blame::default();
    for part in parts {
        blame.edges.extend(part.edges);
        for (subject, waits) in part.subjects {
            subjects.entry(subject).or_default().merge(waits);
        }
    }
    // Each is taken by whoever follows it: there may be as many waits as switches.
    let subjects: Vec<(Subject, Mutex<Waits>)> =
        subjects.into_iter().map(|(subject, waits)| (subject, Mutex::new(waits))).collect();
    blame.subjects = parallel::map(subjects.len(), |index| {
        let (subject, waits) = &subjects[index];
        let mut waits = waits.lock().map(|mut waits| std::mem::take(&mut *waits)).unwrap_or_default();
        let mut flow = Flow::new(facts, std::mem::take(&mut waits.ends));
        flow.follow(std::mem::take(&mut waits.stretches));
        flow.finish(*subject, &waits)
    });
    blame.total_ns = blame.subjects.iter().map(|blame| blame.waiting_ns).sum();
    blame.subjects.sort_by(|a, b| b.waiting_ns.cmp(&a.waiting_ns).then_with(|| a.subject.cmp(&b.subject)));
    blame.edges.sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| a.cmp(b)));
    blame
}

/// The waits of one subject.
#[derive(Clone, Debug, Default)]
struct Waits {
    count: u64,
    false_wakeups: u64,
    total_ns: u64,
    /// Those that a thread or lock is waited for in.
    stretches: Vec<Stretch>,
    /// The others.
    ends: HashMap<End, u64>,
}

impl Waits {
    fn merge(&mut self, other: Waits) {
        self.count += other.count;
        self.false_wakeups += other.false_wakeups;
        self.total_ns += other.total_ns;
        if self.stretches.is_empty() {
            self.stretches = other.stretches;
        } else {
            self.stretches.extend(other.stretches);
        }
        for (end, ns) in other.ends {
            *self.ends.entry(end).or_default() += ns;
        }
    }
}

/// The waits of some threads, by subject.
#[derive(Default)]
struct Gathered {
    subjects: BTreeMap<Subject, Waits>,
    edges: Vec<Edge>,
}

impl Gathered {
    fn thread(&mut self, facts: Facts, thread: ThreadId, (from, to): (Timestamp, Timestamp)) {
        let mut edges: BTreeMap<(ThreadId, HoldKind), (u64, u64)> = BTreeMap::new();
        let mut waking: BTreeMap<Subject, u64> = BTreeMap::new();
        let life = &facts.trace.threads[thread.index()];
        for hold in facts.holders.of(thread) {
            let slice = facts.trace.slices.at(thread, hold.row as usize);
            let start = slice.start.max(life.start).max(from);
            let end = slice.end.min(life.end).min(to);
            if start >= end && (from > slice.start || to < slice.end) {
                continue;
            }
            let length = end.since(start).0;
            let lock = facts.locks.of(slice.wait).filter(|_| hold.kind == HoldKind::Lock);
            let subject = lock.map_or(Subject::Kind(hold.kind), Subject::Lock);
            let waits = self.subjects.entry(subject).or_default();
            waits.count += u64::from(!hold.false_wakeup);
            waits.false_wakeups += u64::from(hold.false_wakeup);
            waits.total_ns += length;
            let woken = (slice.end - hold.transit).max(start).min(end);
            match node(&hold, lock) {
                Some(node) => {
                    waits.stretches.push(Stretch { node, from: start.0, to: woken.0, weight: 1 });
                }
                None => *waits.ends.entry(end_of(thread, &hold)).or_default() += woken.since(start).0,
            }
            *waking.entry(subject).or_default() += end.since(woken).0;
            if let Some(holder) = hold.holder {
                let sums = edges.entry((holder, hold.kind)).or_default();
                *sums = (sums.0 + length, sums.1 + u64::from(!hold.false_wakeup));
            }
        }
        let end = End { class: EndClass::Waking, thread: Some(thread), occupant: None };
        for (subject, ns) in waking {
            *self.subjects.entry(subject).or_default().ends.entry(end).or_default() += ns;
        }
        let edge = |((holder, kind), (ns, waits))| Edge { waiter: thread, holder, kind, ns, waits };
        self.edges.extend(edges.into_iter().map(edge));
    }
}

/// Whom or what a wait is followed to.
fn node(hold: &Hold, lock: Option<u32>) -> Option<u32> {
    match lock {
        Some(lock) => Some(lock | LOCK),
        None => hold.holder.map(|holder| holder.0),
    }
}

fn end_of(thread: ThreadId, hold: &Hold) -> End {
    End { class: EndClass::of_wait(hold), thread: Some(thread), occupant: None }
}

/// The blame of one subject while it is followed.
struct Flow<'a> {
    facts: Facts<'a>,
    ends: HashMap<End, u64>,
    at: At,
    /// Who had it at the first link.
    holders: BTreeMap<Option<ThreadId>, u64>,
    /// Weight of samples in running time that is blamed.
    stacks: HashMap<(ThreadId, StackId), u64>,
}

/// Stretches come by thread, then time: what is charged to that thread, and where it is found in the tables.
#[derive(Default)]
struct At {
    thread: Option<ThreadId>,
    /// What is charged to it (ns), by class; not yet in [`Flow::ends`].
    by_class: [u64; EndClass::ALL.len()],
    /// The last who had the CPU that it waited for, and what is charged for that (ns); not yet in [`Flow::ends`].
    occupant: (Option<ThreadId>, u64),
    /// As in [`between_near`].
    row: usize,
    sample: usize,
    /// By CPU, as in [`crate::derive::timelines::Timeline::between_near`].
    stretch: Vec<usize>,
}

impl<'a> Flow<'a> {
    fn new(facts: Facts<'a>, ends: HashMap<End, u64>) -> Flow<'a> {
        let at = At { stretch: vec![0; facts.timelines.len()], ..At::default() };
        Flow { facts, ends, at, holders: BTreeMap::new(), stacks: HashMap::new() }
    }

    fn follow(&mut self, stretches: Vec<Stretch>) {
        let mut stretches = self.first_link(stretches);
        for _ in 0..LINKS_MAX {
            if stretches.is_empty() {
                return;
            }
            let mut next = Vec::new();
            for stretch in merge(stretches) {
                if stretch.node & LOCK != 0 {
                    self.lock(&stretch, &mut next);
                } else {
                    self.thread(&stretch, &mut next);
                }
            }
            self.turn_to(None);
            stretches = next;
        }
        for stretch in stretches {
            let thread = (stretch.node & LOCK == 0).then_some(ThreadId(stretch.node));
            self.charge(EndClass::Cycle, thread, stretch.ns());
        }
    }

    /// From what is waited for to who has it.
    fn first_link(&mut self, stretches: Vec<Stretch>) -> Vec<Stretch> {
        let mut held = merge(stretches);
        // Locks come behind all threads.
        let locks = held.split_off(held.partition_point(|stretch| stretch.node & LOCK == 0));
        for stretch in &locks {
            self.lock(stretch, &mut held);
        }
        for of_one in held.chunk_by(|a, b| a.node == b.node) {
            let holder = of_one.first().map(|stretch| ThreadId(stretch.node));
            *self.holders.entry(holder).or_default() += of_one.iter().map(Stretch::ns).sum::<u64>();
        }
        held
    }

    /// From now on, stretches are this thread's.
    fn turn_to(&mut self, thread: Option<ThreadId>) {
        if self.at.thread == thread {
            return;
        }
        self.settle_occupant(None);
        let by_class = std::mem::take(&mut self.at.by_class);
        for (class, ns) in EndClass::ALL.into_iter().map(|class| (class, by_class[class as usize])) {
            if ns > 0 {
                self.charge(class, self.at.thread, ns);
            }
        }
        self.at.thread = thread;
    }

    fn settle_occupant(&mut self, next: Option<ThreadId>) {
        let (occupant, ns) = std::mem::replace(&mut self.at.occupant, (next, 0));
        if ns > 0 {
            let end = End { class: EndClass::RunQueue, thread: self.at.thread, occupant };
            *self.ends.entry(end).or_default() += ns;
        }
    }

    fn charge(&mut self, class: EndClass, thread: Option<ThreadId>, ns: u64) {
        *self.ends.entry(End { class, thread, occupant: None }).or_default() += ns;
    }

    /// A lock is waited for: whoever has it at each moment.
    fn lock(&mut self, stretch: &Stretch, next: &mut Vec<Stretch>) {
        let (from, to) = (Timestamp(stretch.from), Timestamp(stretch.to));
        let facts = self.facts;
        for held in facts.holders.tenures.over(stretch.node & !LOCK, from, to) {
            let (from, to, weight) = (held.from.0, held.to.0, stretch.weight);
            match held.holder {
                Some(holder) => next.push(Stretch { node: holder.0, from, to, weight }),
                None => self.charge(EndClass::Unknown, None, (to - from) * u64::from(weight)),
            }
        }
    }

    /// A thread is waited for: what it does at each moment.
    fn thread(&mut self, stretch: &Stretch, next: &mut Vec<Stretch>) {
        let (thread, weight) = (ThreadId(stretch.node), u64::from(stretch.weight));
        self.turn_to(Some(thread));
        let (from, to) = (Timestamp(stretch.from), Timestamp(stretch.to));
        let facts = self.facts;
        for piece in between_near((facts.trace, facts.holders), thread, (from, to), &mut self.at.row) {
            let class = match piece.activity {
                Activity::Runs(_) => {
                    self.sample(thread, &piece, weight);
                    EndClass::Running
                }
                Activity::Queues { .. } => {
                    self.queue(&piece, weight);
                    continue;
                }
                Activity::Wakes => EndClass::Waking,
                Activity::Throttled => EndClass::Throttled,
                Activity::Waits(hold) => {
                    let lock = piece.slice.and_then(|slice| facts.locks.of(slice.wait));
                    let lock = lock.filter(|_| hold.kind == HoldKind::Lock);
                    if let Some(node) = node(&hold, lock) {
                        let (from, to) = (piece.from.0, piece.to.0);
                        next.push(Stretch { node, from, to, weight: stretch.weight });
                        continue;
                    }
                    EndClass::of_wait(&hold)
                }
                Activity::Elsewhere => EndClass::Outside,
                Activity::Absent | Activity::Unknown => EndClass::Unknown,
            };
            self.at.by_class[class as usize] += piece.to.since(piece.from).0 * weight;
        }
    }

    /// The thread has no CPU: whoever has that one.
    fn queue(&mut self, piece: &Piece, weight: u64) {
        let facts = self.facts;
        let mut left = piece.to.since(piece.from).0;
        let cpu = piece.slice.map_or(CpuId::NONE, |slice| slice.cpu);
        if let (Some(timeline), Some(near)) =
            (facts.timelines.of(cpu), self.at.stretch.get_mut(usize::from(cpu.0)))
        {
            let stretches = timeline.between_near(piece.from, piece.to, near);
            for stretch in stretches.iter().take(OCCUPANTS_MAX) {
                let ran = stretch.end().min(piece.to).since(stretch.start().max(piece.from));
                let ran = ran.min(Duration(left)).0;
                left -= ran;
                self.occupied(Some(stretch.thread()), ran * weight);
            }
        }
        self.occupied(None, left * weight);
    }

    fn occupied(&mut self, occupant: Option<ThreadId>, ns: u64) {
        if ns > 0 {
            if self.at.occupant.0 != occupant {
                self.settle_occupant(occupant);
            }
            self.at.occupant.1 += ns;
        }
    }

    fn sample(&mut self, thread: ThreadId, piece: &Piece, weight: u64) {
        let samples = &self.facts.trace.samples;
        let is_before = |sample: &SampleRow| (sample.thread, sample.at) < (thread, piece.from);
        self.at.sample = partition_point_near(samples, self.at.sample, is_before);
        let within = samples[self.at.sample..].iter();
        for sample in within.take_while(|sample| (sample.thread, sample.at) < (thread, piece.to)) {
            *self.stacks.entry((thread, sample.stack)).or_default() += weight;
        }
    }

    fn finish(mut self, subject: Subject, waits: &Waits) -> SubjectBlame {
        let running: BTreeMap<ThreadId, u64> = self
            .ends
            .iter()
            .filter(|(end, _)| end.class == EndClass::Running)
            .filter_map(|(end, ns)| Some((end.thread?, *ns)))
            .collect();
        let held: u64 = self.holders.values().sum();
        self.holders.insert(None, waits.total_ns - held);
        SubjectBlame {
            subject,
            waits: waits.count,
            false_wakeups: waits.false_wakeups,
            waiting_ns: waits.total_ns,
            holders: most_first(self.holders),
            ends: most_first(self.ends.into_iter().collect()),
            stacks: divide(&running, self.stacks),
        }
    }
}

/// Divides what each thread is charged with among its stacks as their samples weigh, without a remainder.
pub(in crate::derive) fn divide(
    running: &BTreeMap<ThreadId, u64>,
    sampled: HashMap<(ThreadId, StackId), u64>,
) -> Vec<(ThreadId, StackId, u64)> {
    let mut by_thread: BTreeMap<ThreadId, BTreeMap<StackId, u64>> = BTreeMap::new();
    for ((thread, stack), weight) in sampled {
        by_thread.entry(thread).or_default().insert(stack, weight);
    }
    let mut divided = Vec::new();
    for (thread, total) in running {
        let stacks = by_thread.remove(thread).unwrap_or_else(|| BTreeMap::from([(StackId::NONE, 1)]));
        let all: u128 = stacks.values().map(|weight| u128::from(*weight)).sum();
        let (mut before, mut given) = (0u128, 0u128);
        for (stack, weight) in stacks {
            before += u128::from(weight);
            let upto = u128::from(*total) * before / all.max(1);
            divided.push((*thread, stack, (upto - given) as u64));
            given = upto;
        }
    }
    divided.retain(|(_, _, ns)| *ns > 0);
    divided.sort_by(|a, b| b.2.cmp(&a.2).then_with(|| (a.0, a.1).cmp(&(b.0, b.1))));
    divided
}
