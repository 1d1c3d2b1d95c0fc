//! Flow of blame: all waits of one subject are followed down the chains of holders, one link at a time.
//!
//! A link is followed for all waiters of a thread or a lock at once. Their waits form a step function of
//! time, which is intersected with the holder's activity. A hundred idle threads that wait for one thread
//! therefore cost as much as one.
//!
//! A chain from wakeups has no cycle, because each link ends before the previous one. A chain from locks'
//! owner words may have one: a deadlock, or a word that was read too late.

use holdup_events::tables::{SampleRow, partition_point_near};
use holdup_events::{CpuId, Duration, ThreadId, Timestamp};

use super::steps::{LOCK, Stretch, merge};
use super::sums::Sums;
use super::{End, EndClass, Facts};
use crate::derive::holders::activity::{Activity, Piece, between_near};
use crate::derive::holders::{Hold, HoldKind};

/// Maximum number of links. Chains are hardly longer than the number of threads that block each other. The
/// value is even, so that a cycle of threads and locks ends at a thread, which has a name.
const LINKS_MAX: usize = 64;
/// Maximum number of CPU occupants that are recorded for one stretch in a run queue.
const OCCUPANTS_MAX: usize = 16;

/// Next node of a wait: the lock, or the holder.
pub(super) fn node(hold: &Hold, lock: Option<u32>) -> Option<u32> {
    match lock {
        Some(lock) => Some(lock | LOCK),
        None => hold.holder.map(|holder| holder.0),
    }
}

/// Charges what `stretches` wait for to the ends of its chains, and adds that to the subject's `sums`.
pub(super) fn follow(facts: Facts, stretches: Vec<Stretch>, sums: &mut Sums) {
    let at = At { stretch: vec![0; facts.timelines.len()], ..At::default() };
    Flow { facts, at, sums }.follow(stretches);
}

/// The blame of one subject while it is followed.
struct Flow<'a, 's> {
    facts: Facts<'a>,
    at: At,
    sums: &'s mut Sums,
}

/// State for the current thread. Stretches come by thread, then time, so blame and table positions are kept
/// per thread.
#[derive(Default)]
struct At {
    thread: Option<ThreadId>,
    /// Blame by class, not yet in [`Sums::ends`] (ns).
    by_class: [u64; EndClass::ALL.len()],
    /// Last occupant of the CPU that the thread waited for, with its blame, not yet in [`Sums::ends`] (ns).
    occupant: (Option<ThreadId>, u64),
    /// As in [`between_near`].
    row: usize,
    sample: usize,
    /// By CPU, as in [`crate::derive::timelines::Timeline::between_near`].
    stretch: Vec<usize>,
}

impl Flow<'_, '_> {
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

    /// Follows the first link, to the holders.
    fn first_link(&mut self, stretches: Vec<Stretch>) -> Vec<Stretch> {
        let mut held = merge(stretches);
        // Locks are sorted after all threads.
        let locks = held.split_off(held.partition_point(|stretch| stretch.node & LOCK == 0));
        for stretch in &locks {
            self.lock(stretch, &mut held);
        }
        for of_one in held.chunk_by(|a, b| a.node == b.node) {
            let Some(holder) = of_one.first().map(|stretch| ThreadId(stretch.node)) else { continue };
            *self.sums.holders.entry(holder).or_default() += of_one.iter().map(Stretch::ns).sum::<u64>();
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
            *self.sums.ends.entry(end).or_default() += ns;
        }
    }

    fn charge(&mut self, class: EndClass, thread: Option<ThreadId>, ns: u64) {
        *self.sums.ends.entry(End { class, thread, occupant: None }).or_default() += ns;
    }

    /// Follows a wait for a lock to the lock's holders over time.
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

    /// Follows a wait for a thread to that thread's activity over time.
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
                    let lock = piece.slice.and_then(|slice| facts.locks.of_slice(&slice));
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

    /// Blames the occupants of the CPU that the thread is queued for.
    fn queue(&mut self, piece: &Piece, weight: u64) {
        let facts = self.facts;
        let mut left = piece.to.since(piece.from).0;
        let cpu = piece.slice.map_or(CpuId::NONE, |slice| slice.cpu);
        if let (Some(timeline), Some(near)) =
            (facts.timelines.of_cpu(cpu), self.at.stretch.get_mut(usize::from(cpu.0)))
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
            *self.sums.stacks.entry((thread, sample.stack)).or_default() += weight;
        }
    }
}
