//! A sweep through time over all threads: their activities between any two changes.
//!
//! Time is cut into windows that are processed in parallel. Each window sorts only its own changes.

use holdup_events::tables::{Slice, ThreadState};
use holdup_events::{CpuId, ThreadId, Timestamp, Trace};

use super::class::Class;
use super::locks::LockIndex;
use super::parallel;
use super::roles::Roles;
use super::timelines::{Timeline, Timelines};

/// Activity of a thread, as far as it affects others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Doing {
    /// Not alive, or a foreign thread that takes no usable CPU.
    #[default]
    Absent,
    /// A foreign thread on a CPU that the program may use.
    Foreign,
    /// On a CPU.
    Runs,
    /// Waits for a CPU.
    Queues,
    /// Waits until its group may run again.
    Throttled,
    /// Waits for the lock of that number.
    Lock(u32),
    /// Waits for another thread's end, or at a barrier.
    Join,
    /// Waits for something to do.
    Work,
    /// Waits for the disk.
    Io,
    /// Blocked on something else.
    Elsewhere,
}

/// A change of one thread's activity.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// When.
    pub at: Timestamp,
    /// The thread.
    pub thread: ThreadId,
    /// Activity before the change.
    pub from: Doing,
    /// Activity after the change.
    pub to: Doing,
}

/// Collects facts over one window.
pub trait Visitor: Send {
    /// A thread does something else from now on.
    fn change(&mut self, change: &Change);
    /// Called for a non-empty range `start..end` without changes.
    fn interval(&mut self, start: Timestamp, end: Timestamp);
    /// The window ends.
    fn finish(&mut self, end: Timestamp);
}

/// Two in one walk.
impl<A: Visitor, B: Visitor> Visitor for (A, B) {
    fn change(&mut self, change: &Change) {
        self.0.change(change);
        self.1.change(change);
    }

    fn interval(&mut self, start: Timestamp, end: Timestamp) {
        self.0.interval(start, end);
        self.1.interval(start, end);
    }

    fn finish(&mut self, end: Timestamp) {
        self.0.finish(end);
        self.1.finish(end);
    }
}

/// Input of the sweep besides the trace.
pub struct Sweep<'a> {
    trace: &'a Trace,
    locks: &'a LockIndex,
    roles: &'a Roles,
    usable: Vec<bool>,
    /// CPUs that the program may use.
    pub cpus: u32,
}

/// Rows a window: its changes stay in the cache while they are sorted.
const ROWS_PER_WINDOW: usize = 1 << 16;
const WINDOWS_MAX: usize = 4096;

/// CPUs that events name.
pub fn cpus_seen(timelines: &Timelines) -> u32 {
    timelines.iter().count() as u32
}

/// Number of CPUs that the program may use, at least 1.
pub fn usable_cpus(trace: &Trace, timelines: &Timelines) -> u32 {
    let host = &trace.manifest.host;
    let counts = [host.cpus_allowed, host.cpus, cpus_seen(timelines), 1];
    counts.into_iter().find(|count| *count > 0).unwrap_or(1)
}

/// CPUs that the program may use. If it may not use all CPUs, only the number is known, so the CPUs that it
/// ran on are returned.
pub fn which_usable(trace: &Trace, timelines: &Timelines) -> Vec<CpuId> {
    let all = usable_cpus(trace, timelines) >= cpus_seen(timelines).max(trace.manifest.host.cpus);
    let own = |timeline: &Timeline| timeline.stretches().iter().any(|stretch| stretch.own());
    timelines.iter().filter(|(_, timeline)| all || own(timeline)).map(|(cpu, _)| cpu).collect()
}

impl<'a> Sweep<'a> {
    /// Prepares a walk.
    pub fn new(trace: &'a Trace, locks: &'a LockIndex, roles: &'a Roles, timelines: &Timelines) -> Sweep<'a> {
        let mut usable = vec![false; timelines.len()];
        for cpu in which_usable(trace, timelines) {
            usable[usize::from(cpu.0)] = true;
        }
        Sweep { trace, locks, roles, usable, cpus: usable_cpus(trace, timelines) }
    }

    /// Walks through the recording with one visitor per window, in time order.
    pub fn walk<V: Visitor>(&self, visitor: impl Fn(Timestamp) -> V + Sync) -> Vec<V> {
        let (start, end) = (self.trace.start(), self.trace.end());
        let wall = end.since(start).0;
        let count = (self.trace.slices.len() / ROWS_PER_WINDOW + 1).min(WINDOWS_MAX) as u64;
        let length = wall.div_ceil(count).max(1);
        let windows = wall.div_ceil(length);
        parallel::map(windows as usize, |window| {
            let from = start.0 + window as u64 * length;
            let to = (from + length).min(end.0);
            let mut visitor = visitor(Timestamp(from));
            self.window(Timestamp(from), Timestamp(to), &mut visitor);
            visitor
        })
    }

    fn window(&self, from: Timestamp, to: Timestamp, visitor: &mut impl Visitor) {
        let mut changes = Vec::new();
        for thread in (0..self.trace.threads.len() as u32).map(ThreadId) {
            self.add_changes(thread, from, to, &mut changes);
        }
        changes.sort_by_key(|change| change.at);
        let mut at = from;
        for change in &changes {
            if change.at > at {
                visitor.interval(at, change.at);
                at = change.at;
            }
            visitor.change(change);
        }
        if to > at {
            visitor.interval(at, to);
        }
        visitor.finish(to);
    }

    /// Changes of one thread in `from..to`. Its activity before `from` is a change at `from`.
    fn add_changes(&self, id: ThreadId, from: Timestamp, to: Timestamp, changes: &mut Vec<Change>) {
        let Some(thread) = self.trace.threads.get(id.index()) else { return };
        if thread.end <= from || thread.start >= to {
            return;
        }
        let rows = self.trace.slices.rows(id);
        let first = self.trace.slices.covering(id, from).unwrap_or(rows.start);
        let mut last = Doing::Absent;
        for slice in self.trace.slices.from_row(id, first) {
            if slice.start >= to {
                return;
            }
            let doing = self.doing(&slice, thread.target);
            if doing != last && slice.end > slice.start {
                changes.push(Change { at: slice.start.max(from), thread: id, from: last, to: doing });
                last = doing;
            }
        }
        if last != Doing::Absent && thread.end < to {
            changes.push(Change { at: thread.end.max(from), thread: id, from: last, to: Doing::Absent });
        }
    }

    fn doing(&self, slice: &Slice, target: bool) -> Doing {
        if !target {
            let usable = slice.cpu != CpuId::NONE && self.usable.get(usize::from(slice.cpu.0)) == Some(&true);
            return if slice.state == ThreadState::Running && usable {
                Doing::Foreign
            } else {
                Doing::Absent
            };
        }
        match slice.state {
            ThreadState::Running => Doing::Runs,
            ThreadState::Throttled => Doing::Throttled,
            state if state.waits_for_cpu() => Doing::Queues,
            ThreadState::Blocked => self.blocked(slice),
            _ => Doing::Elsewhere,
        }
    }

    fn blocked(&self, slice: &Slice) -> Doing {
        match self.roles.class_of_wait(self.trace, slice) {
            // A fault's class holds waits for an address space's lock, too.
            Class::LockWait | Class::FaultWait => {
                self.locks.of_slice(slice).map_or(Doing::Elsewhere, Doing::Lock)
            }
            Class::JoinWait | Class::GcWait => Doing::Join,
            Class::WorkWait => Doing::Work,
            Class::IoWait => Doing::Io,
            _ => Doing::Elsewhere,
        }
    }
}
