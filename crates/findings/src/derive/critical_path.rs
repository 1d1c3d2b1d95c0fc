//! The critical path: what the run's length, or that of a stretch of it, depended on.
//!
//! It is walked backwards from the end: on the thread that ran last; where that thread had waited for another, on that
//! one from the moment of its wakeup; where it was born, on its parent. What no thread of the program was waited for in
//! (disk, timers, the network, other programs) is on the path itself, as is waiting for a CPU. The steps tile the
//! stretch exactly. Shortening what is not on the path gains nothing; shortening what is gains at most that.

use std::collections::{BTreeMap, HashMap};

use holdup_events::event::WakeContext;
use holdup_events::tables::{Slice, ThreadState};
use holdup_events::{StackId, ThreadId, Timestamp, Trace};

use super::class::{CLASSES, Class};
use super::holders::{HoldKind, Holders};
use super::ledger::ByClass;
use super::own_places::{self, OwnFrames};
use super::roles::Roles;

/// A thread in one state for a while, on the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// From when.
    pub from: Timestamp,
    /// To when: the next step's begin.
    pub to: Timestamp,
    /// Who.
    pub thread: ThreadId,
    /// In which class; all running time is [`Class::Useful`].
    pub class: Class,
}

/// The path through a stretch of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CriticalPath {
    /// In time order; they tile the stretch.
    pub steps: Vec<Step>,
    /// Their lengths by class (ns).
    pub classes: ByClass,
    /// Their lengths by thread and class (ns), the longest thread first.
    pub threads: Vec<(ThreadId, ByClass)>,
    /// Running time on it by stack (ns), the longest first; [`StackId::NONE`] where no sample tells.
    pub stacks: Vec<(ThreadId, StackId, u64)>,
    /// The same by the program's function; time of which no sample tells is in none.
    pub functions: Vec<(String, u64)>,
}

/// Derives the path through the whole recording.
pub fn derive(trace: &Trace, roles: &Roles, holders: &Holders) -> CriticalPath {
    within((trace, roles), holders, trace.start(), trace.end())
}

/// Derives the path through `from..to`.
pub fn within(
    (trace, roles): (&Trace, &Roles),
    holders: &Holders,
    from: Timestamp,
    to: Timestamp,
) -> CriticalPath {
    let Some(last) = ran_last(trace, to) else { return CriticalPath::default() };
    let mut walk = Walk { trace, roles, holders, from, at: to, thread: last, hops: 0, steps: Vec::new() };
    while walk.at > walk.from {
        walk.back();
    }
    walk.steps.reverse();
    summed(trace, walk.steps)
}

/// The thread of the program that ran last before `to`.
fn ran_last(trace: &Trace, to: Timestamp) -> Option<ThreadId> {
    let last_run = |thread: ThreadId| {
        let mut runs = trace.slices.of(thread).rev().filter(|slice| slice.state == ThreadState::Running);
        runs.find(|slice| slice.start < to).map(|slice| slice.end.min(to))
    };
    let threads = trace.target_threads();
    threads.max_by_key(|thread| {
        (last_run(*thread), trace.threads[thread.index()].end, std::cmp::Reverse(*thread))
    })
}

struct Walk<'a> {
    trace: &'a Trace,
    roles: &'a Roles,
    holders: &'a Holders,
    from: Timestamp,
    /// All behind is told.
    at: Timestamp,
    /// Whose time before `at` comes next.
    thread: ThreadId,
    /// Threads gone through at this moment.
    hops: usize,
    /// The last first.
    steps: Vec<Step>,
}

impl Walk<'_> {
    fn back(&mut self) {
        let thread = &self.trace.threads[self.thread.index()];
        let just_before = Timestamp(self.at.0 - 1);
        if let Some(row) = self.trace.slices.covering(self.thread, just_before) {
            let slice = self.trace.slices.at(self.thread, row);
            match self.waker(row, &slice) {
                Some((waker, at)) => self.hop(waker, at, &slice),
                None => self.step(slice.start, self.class(&slice)),
            }
        } else if self.at > thread.end {
            self.step(thread.end, Class::Unknown);
        } else {
            match thread.parent.filter(|id| self.is_target(*id) && self.hops < self.trace.threads.len()) {
                Some(parent) if self.at == thread.start => {
                    self.hops += 1;
                    self.thread = parent;
                }
                _ => self.step(self.from, Class::Unknown),
            }
        }
    }

    /// The path goes on here, back to `start`.
    fn step(&mut self, start: Timestamp, class: Class) {
        let from = start.max(self.from).min(self.at);
        if from < self.at {
            self.steps.push(Step { from, to: self.at, thread: self.thread, class });
            self.hops = 0;
        }
        self.at = from;
    }

    /// The path goes on with `waker`, from `at` back; the little between that and the end of the wait stays here.
    fn hop(&mut self, waker: ThreadId, at: Timestamp, slice: &Slice) {
        self.step(at, self.class(slice));
        self.thread = waker;
        self.hops += 1;
    }

    fn is_target(&self, id: ThreadId) -> bool {
        self.trace.threads.get(id.index()).is_some_and(|thread| thread.target)
    }

    /// Who of the program ended this slice, and when, if it is a wait that ended here.
    fn waker(&self, row: usize, slice: &Slice) -> Option<(ThreadId, Timestamp)> {
        if slice.state != ThreadState::Blocked || slice.end > self.at || self.hops > self.trace.threads.len()
        {
            return None;
        }
        let kind = self.holders.at(slice.thread, row).map_or(HoldKind::Unknown, |hold| hold.kind);
        let wakeup = self.trace.ended_by(slice)?;
        let by_thread = wakeup.context == WakeContext::Thread && wakeup.waker != slice.thread;
        (kind.has_holder() && by_thread && self.is_target(wakeup.waker))
            .then_some((wakeup.waker, wakeup.at.max(slice.start)))
    }

    fn class(&self, slice: &Slice) -> Class {
        match slice.state {
            ThreadState::Running => Class::Useful,
            state if state.waits_for_cpu() => Class::RunQueue,
            ThreadState::Blocked => self.roles.class_of_wait(self.trace, slice),
            _ => Class::Unknown,
        }
    }
}

fn summed(trace: &Trace, steps: Vec<Step>) -> CriticalPath {
    let mut path = CriticalPath::default();
    let mut threads: BTreeMap<ThreadId, ByClass> = BTreeMap::new();
    let mut sampled: HashMap<(ThreadId, StackId), u64> = HashMap::new();
    for step in &steps {
        let ns = step.to.since(step.from).0;
        path.classes[step.class as usize] += ns;
        threads.entry(step.thread).or_insert([0; CLASSES])[step.class as usize] += ns;
        if step.class == Class::Useful {
            let begin = (step.thread, step.from);
            let first = trace.samples.partition_point(|sample| (sample.thread, sample.at) < begin);
            let samples = trace.samples[first..].iter();
            for sample in samples.take_while(|sample| (sample.thread, sample.at) < (step.thread, step.to)) {
                *sampled.entry((step.thread, sample.stack)).or_default() += 1;
            }
        }
    }
    let running = threads.iter().map(|(thread, by_class)| (*thread, by_class[Class::Useful as usize]));
    path.stacks = super::blame::divide(&running.collect(), sampled);
    path.functions = own_places::functions(trace, &OwnFrames::new(trace), &path.stacks);
    path.threads = threads.into_iter().collect();
    path.threads.sort_by_key(|(thread, by_class)| (std::cmp::Reverse(by_class.iter().sum::<u64>()), *thread));
    path.steps = steps;
    path
}
