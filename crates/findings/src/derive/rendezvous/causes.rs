//! Why the last thread to arrive was late: its states while the other members waited for it.

use std::collections::BTreeMap;

use holdup_events::tables::{Slice, ThreadState};
use holdup_events::{CpuId, StackId, ThreadId, Timestamp, Trace};

use crate::derive::class::{CLASSES, Class};
use crate::derive::cover::Cover;
use crate::derive::on_cpu::SampleClasses;
use crate::derive::roles::Roles;
use crate::derive::samples_of;
use crate::derive::timelines::Timelines;

/// Time by state of the last threads to arrive, while the other members waited (ns). The sum is the lateness
/// of all rendezvous whose last thread is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Causes {
    /// Running time, exact. `samples` divide it.
    pub running_ns: u64,
    /// Runnable while threads of the program occupied the CPU.
    pub own_ns: u64,
    /// Runnable while other processes occupied the CPU, or occupied another CPU of the program to which the
    /// thread could have moved.
    pub others_ns: u64,
    /// Throttled: the cgroup's CPU bandwidth was used up.
    pub throttled_ns: u64,
    /// Woken, but not yet running, although the CPU was idle.
    pub woken_late_ns: u64,
    /// Blocked, by class.
    pub blocked_ns: [u64; CLASSES],
    /// Not known.
    pub unknown_ns: u64,
    /// Time by thread that occupied the CPU while the last thread was runnable (ns).
    pub occupants: BTreeMap<ThreadId, u64>,
    /// Samples while it ran, by class and stack.
    pub samples: BTreeMap<(Class, StackId), u64>,
}

impl Causes {
    /// Time between two moments in which a thread had work left but did not run. Waits for a rendezvous and
    /// for the work of other threads are left out, because their cause lies in those threads.
    pub(super) fn held_up_between(look: &Look, thread: ThreadId, range: (Timestamp, Timestamp)) -> Causes {
        let held_up = |slice: &Slice| match slice.state {
            ThreadState::Blocked => !is_elsewhere(look.roles.class_of_wait(look.trace, slice)),
            state => state.waits_for_cpu(),
        };
        let mut causes = Causes::default();
        let slices = slices_between(look.trace, thread, range).filter(held_up);
        slices.for_each(|slice| causes.add_slice(look, &slice));
        causes
    }

    /// Total time added (ns).
    pub fn total_ns(&self) -> u64 {
        let blocked: u64 = self.blocked_ns.iter().sum();
        let queue = self.own_ns + self.others_ns + self.throttled_ns + self.woken_late_ns;
        self.running_ns + queue + blocked + self.unknown_ns
    }

    /// Adds what `thread` did between two moments.
    pub(super) fn add(&mut self, look: &Look, thread: ThreadId, (from, to): (Timestamp, Timestamp)) {
        let told = self.total_ns();
        for slice in slices_between(look.trace, thread, (from, to)) {
            self.add_slice(look, &slice);
        }
        self.unknown_ns += to.since(from).0.saturating_sub(self.total_ns() - told);
        let samples = samples_of(look.trace, thread);
        let first = samples.partition_point(|sample| sample.at < from);
        for sample in samples.get(first..).unwrap_or_default().iter().take_while(|sample| sample.at < to) {
            *self.samples.entry((look.classes.class_of(sample), sample.stack)).or_default() += 1;
        }
    }

    fn add_slice(&mut self, look: &Look, slice: &Slice) {
        let ns = slice.duration().0;
        match slice.state {
            ThreadState::Running => self.running_ns += ns,
            ThreadState::Throttled => self.throttled_ns += ns,
            state if state.waits_for_cpu() => self.add_queue(look, slice),
            ThreadState::Blocked => {
                let class = look.roles.class_of_wait(look.trace, slice);
                self.blocked_ns[class as usize] += ns;
            }
            _ => self.unknown_ns += ns,
        }
    }

    fn add_queue(&mut self, look: &Look, slice: &Slice) {
        let timeline = if slice.cpu == CpuId::NONE { None } else { look.timelines.of_cpu(slice.cpu) };
        let mut left = slice.duration().0;
        for stretch in timeline.map(|timeline| timeline.between(slice.start, slice.end)).unwrap_or_default() {
            let ns = stretch.end().min(slice.end).since(stretch.start().max(slice.start)).0.min(left);
            left -= ns;
            *self.occupants.entry(stretch.thread()).or_default() += ns;
            if stretch.own() {
                let (from, to) = (stretch.start().max(slice.start), stretch.end().min(slice.end));
                let displaced = look.displaced.between(from, to).min(ns);
                self.others_ns += displaced;
                self.own_ns += ns - displaced;
            } else {
                self.others_ns += ns;
            }
        }
        self.woken_late_ns += left;
    }
}

/// Whether a wait of this class is for other threads. The cause of such a wait lies in those threads.
fn is_elsewhere(class: Class) -> bool {
    matches!(class, Class::JoinWait | Class::WorkWait | Class::Unknown)
}

/// The data that the causes are derived from.
#[derive(Clone, Copy)]
pub(super) struct Look<'a> {
    pub trace: &'a Trace,
    pub classes: &'a SampleClasses,
    pub timelines: &'a Timelines,
    pub roles: &'a Roles,
    pub displaced: &'a Displaced,
    /// CPUs that the program may use.
    pub cpus: u32,
}

/// Times in which another program occupied one of the program's CPUs. A thread that queued behind a thread of
/// its own program could have used that CPU.
#[derive(Default)]
pub(super) struct Displaced {
    /// Disjoint spans in time order, with the total length of all previous ones (ns).
    spans: Vec<(Timestamp, Timestamp, u64)>,
}

impl Displaced {
    /// On CPUs that the program was seen to use.
    pub(super) fn new(timelines: &Timelines) -> Displaced {
        let used = timelines.iter().filter(|(_, line)| line.stretches().iter().any(|stretch| stretch.own()));
        let foreign = used.flat_map(|(_, line)| line.stretches().iter().filter(|stretch| !stretch.own()));
        let cover = Cover::from_spans(foreign.map(|stretch| (stretch.start(), stretch.end())).collect());
        let mut before_ns = 0;
        let mut spans = Vec::with_capacity(cover.spans().len());
        for (from, to) in cover.spans() {
            spans.push((*from, *to, before_ns));
            before_ns += to.since(*from).0;
        }
        Displaced { spans }
    }

    /// Time between two moments (ns).
    fn between(&self, from: Timestamp, to: Timestamp) -> u64 {
        self.until(to).saturating_sub(self.until(from))
    }

    fn until(&self, at: Timestamp) -> u64 {
        let behind = self.spans.partition_point(|(from, ..)| *from <= at);
        let last = behind.checked_sub(1).and_then(|place| self.spans.get(place));
        last.map_or(0, |(from, to, before)| before + at.min(*to).since(*from).0)
    }
}

impl Look<'_> {
    /// The part of a thread's running time between two moments in which it did not spin, by its samples there.
    pub fn worked_ns(&self, thread: ThreadId, (from, to): (Timestamp, Timestamp), running_ns: u64) -> u64 {
        let samples = samples_of(self.trace, thread);
        let first = samples.partition_point(|sample| sample.at < from);
        let (mut all, mut spins) = (0u64, 0u64);
        for sample in samples.get(first..).unwrap_or_default().iter().take_while(|sample| sample.at < to) {
            all += 1;
            spins += u64::from(self.classes.class_of(sample) == Class::Spin);
        }
        match all {
            0 => running_ns,
            all => (u128::from(running_ns) * u128::from(all - spins) / u128::from(all)) as u64,
        }
    }
}

/// A thread's slices between two moments, cut to them.
pub(super) fn slices_between(
    trace: &Trace,
    thread: ThreadId,
    (from, to): (Timestamp, Timestamp),
) -> impl Iterator<Item = Slice> + '_ {
    let rows = trace.slices.rows(thread);
    let first = trace.slices.covering(thread, from).unwrap_or(rows.start);
    let slices = (first..rows.end).map(move |row| trace.slices.at(thread, row));
    slices.take_while(move |slice| slice.start < to).map(move |mut slice| {
        slice.start = slice.start.max(from);
        slice.end = slice.end.min(to).max(slice.start);
        slice
    })
}

/// Running time of threads before any moment.
pub(super) struct Ran<'a> {
    trace: &'a Trace,
    before: BTreeMap<ThreadId, Before>,
}

/// Prefix sums of one thread.
struct Before {
    /// Running and blocked time (ns) before each of its slices.
    sums: Vec<(u64, u64)>,
    /// Row of the last query. Queries come in time order.
    row: usize,
}

/// Rows to step through one by one before a binary search.
const STEPS_MAX: usize = 32;

impl<'a> Ran<'a> {
    pub(super) fn new(trace: &'a Trace) -> Ran<'a> {
        Ran { trace, before: BTreeMap::new() }
    }

    /// Running and blocked time (ns) of a thread between two moments.
    pub(super) fn between(&mut self, thread: ThreadId, (from, to): (Timestamp, Timestamp)) -> (u64, u64) {
        let (earlier, later) = (self.until(thread, from), self.until(thread, to));
        (later.0.saturating_sub(earlier.0), later.1.saturating_sub(earlier.1))
    }

    fn until(&mut self, thread: ThreadId, at: Timestamp) -> (u64, u64) {
        let trace = self.trace;
        let rows = trace.slices.rows(thread);
        let known = self.before.entry(thread);
        let known = known.or_insert_with(|| Before { sums: sums(trace, thread), row: rows.start });
        let covers = |row: usize| {
            let slice = trace.slices.at(thread, row);
            slice.start <= at && at < slice.end
        };
        let near = (known.row..rows.end).take(STEPS_MAX).find(|row| covers(*row));
        let Some(row) = near.or_else(|| trace.slices.covering(thread, at)) else {
            // Before the thread's start or after its end.
            let ended = trace.threads.get(thread.index()).is_some_and(|life| at >= life.end);
            return if ended { known.sums.last().copied().unwrap_or_default() } else { (0, 0) };
        };
        known.row = row;
        let (running, blocked) = known.sums.get(row - rows.start).copied().unwrap_or_default();
        let slice = trace.slices.at(thread, row);
        let inside = at.since(slice.start).0;
        match slice.state {
            ThreadState::Running => (running + inside, blocked),
            ThreadState::Blocked => (running, blocked + inside),
            _ => (running, blocked),
        }
    }
}

fn sums(trace: &Trace, thread: ThreadId) -> Vec<(u64, u64)> {
    let (mut running, mut blocked) = (0, 0);
    let mut sums = vec![(0, 0)];
    for slice in trace.slices.of_thread(thread) {
        match slice.state {
            ThreadState::Running => running += slice.duration().0,
            ThreadState::Blocked => blocked += slice.duration().0,
            _ => {}
        }
        sums.push((running, blocked));
    }
    sums
}
