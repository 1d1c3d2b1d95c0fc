//! The critical path: the chain of steps that the length of the run, or of a part of it, depended on.
//!
//! The path is walked backwards from the end, starting with the thread that ran last:
//!
//! - If a thread was woken by another thread, the path continues on the waker from the time of the wakeup.
//! - If a thread was created, the path continues on its parent.
//! - If a runtime's ticker took work over from a thread in a call, the path continues on that thread.
//! - A runtime's ticker is on the path only since a thread waited for it.
//!
//! Waits that no thread of the program ends (disk, timers, network, other programs) are on the path
//! themselves, and so are waits for a CPU. The steps cover the range without gaps. Shortening work outside
//! the path gains nothing. Shortening a step of the path gains at most its length.

use std::cell::OnceCell;
use std::collections::HashMap;

use holdup_events::event::WakeContext;
use holdup_events::tables::{SampleRow, Slice, ThreadState, partition_point_near};
use holdup_events::{StackId, ThreadId, Timestamp, Trace};

use super::class::{CLASSES, Class};
use super::holders::{HoldKind, Holders};
use super::ledger::ByClass;
use super::own_places::{self, OwnFrames};
use super::roles::Roles;
use super::ticker_handovers::Takeovers;
use crate::descriptors::Role;

/// A thread in one state for a while, on the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Start.
    pub from: Timestamp,
    /// End: the start of the next step.
    pub to: Timestamp,
    /// The thread.
    pub thread: ThreadId,
    /// Class of the time. All running time is [`Class::Useful`].
    pub class: Class,
}

/// The path through a stretch of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CriticalPath {
    /// Steps in time order, without gaps. Only filled by [`within`], because there may be as many steps as
    /// context switches.
    pub steps: Vec<Step>,
    /// Number of steps.
    pub count: u64,
    /// Length by class (ns).
    pub classes: ByClass,
    /// Length by thread and class (ns), longest thread first.
    pub threads: Vec<(ThreadId, ByClass)>,
    /// Running time on the path by stack (ns), longest first. [`StackId::NONE`] for time without a sample.
    pub stacks: Vec<(ThreadId, StackId, u64)>,
    /// The same by the program's function. Time without a sample is left out.
    pub functions: Vec<(String, u64)>,
}

/// Derives the path through the whole recording: its sums.
pub fn derive(trace: &Trace, roles: &Roles, holders: &Holders) -> CriticalPath {
    walk((trace, roles), holders, (trace.start(), trace.end()), |_| ())
}

/// Derives the path through `from..to` with its steps.
pub fn within(facts: (&Trace, &Roles), holders: &Holders, from: Timestamp, to: Timestamp) -> CriticalPath {
    let mut steps = Vec::new();
    let path = walk(facts, holders, (from, to), |step| steps.push(step));
    steps.reverse();
    CriticalPath { steps, ..path }
}

/// Walks back through `from..to`, and hands every step on, the last first.
fn walk(
    (trace, roles): (&Trace, &Roles),
    holders: &Holders,
    (from, to): (Timestamp, Timestamp),
    keep: impl FnMut(Step),
) -> CriticalPath {
    let Some(thread) = ran_last(trace, to) else { return CriticalPath::default() };
    let (near, sums) = (vec![Near::default(); trace.threads.len()], Sums::new(trace));
    let takeovers = OnceCell::new();
    let mut walk = Walk {
        trace,
        roles,
        holders,
        takeovers,
        from,
        at: to,
        thread,
        hops: 0,
        asked: None,
        near,
        sums,
        keep,
    };
    while walk.at > walk.from {
        walk.back();
    }
    walk.sums.finish(trace)
}

/// The thread of the program that ran last before `to`.
fn ran_last(trace: &Trace, to: Timestamp) -> Option<ThreadId> {
    let last_run = |thread: ThreadId| {
        let mut runs =
            trace.slices.of_thread(thread).rev().filter(|slice| slice.state == ThreadState::Running);
        runs.find(|slice| slice.start < to).map(|slice| slice.end.min(to))
    };
    let threads = trace.target_threads();
    threads.max_by_key(|thread| {
        (last_run(*thread), trace.threads[thread.index()].end, std::cmp::Reverse(*thread))
    })
}

struct Walk<'a, K> {
    trace: &'a Trace,
    roles: &'a Roles,
    holders: &'a Holders,
    takeovers: OnceCell<Takeovers>,
    from: Timestamp,
    /// Current position. The path after it is complete.
    at: Timestamp,
    /// Thread that the path is on before `at`.
    thread: ThreadId,
    /// Threads visited at this moment.
    hops: usize,
    /// Thread that waited for `thread`, and the start of its wait.
    asked: Option<(ThreadId, Timestamp)>,
    /// By thread.
    near: Vec<Near>,
    sums: Sums,
    keep: K,
}

/// Where the path was last on a thread: it comes back not far from there.
#[derive(Clone, Copy, Default)]
struct Near {
    /// As in [`holdup_events::tables::Slices::covering_near`].
    row: usize,
    /// As in [`Trace::ended_by_near`].
    wakeup: usize,
    /// Among all samples.
    sample: usize,
}

impl<K: FnMut(Step)> Walk<'_, K> {
    fn back(&mut self) {
        let thread = &self.trace.threads[self.thread.index()];
        let just_before = Timestamp(self.at.0 - 1);
        let near = &mut self.near[self.thread.index()].row;
        if let Some(row) = self.trace.slices.covering_near(self.thread, just_before, near) {
            let slice = self.trace.slices.at(self.thread, row);
            match (self.waker(row, &slice), self.asked_in(&slice)) {
                (Some((waker, at)), _) => self.hop(waker, at, &slice),
                (None, Some((waiter, since))) => self.hand_back(waiter, since, &slice),
                (None, None) => self.step(slice.start, self.class(&slice)),
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
            let step = Step { from, to: self.at, thread: self.thread, class };
            self.sums.add(self.trace, &step, &mut self.near[self.thread.index()].sample);
            (self.keep)(step);
            self.hops = 0;
        }
        self.at = from;
    }

    /// Continues the path on `waker` from `at` backwards. The short time between `at` and the end of the wait
    /// stays on this thread.
    fn hop(&mut self, waker: ThreadId, at: Timestamp, slice: &Slice) {
        self.step(at, self.class(slice));
        let takeovers = self.takeovers.get_or_init(|| Takeovers::derive(self.trace, self.roles));
        self.thread = takeovers.had_by(self.trace, waker, at).unwrap_or(waker);
        self.asked = Some((slice.thread, slice.start));
        self.hops += 1;
    }

    /// A runtime's ticker runs independently of waiters. The path returns to the waiter's activity before its
    /// wait.
    fn hand_back(&mut self, waiter: ThreadId, since: Timestamp, slice: &Slice) {
        self.step(since, self.class(slice));
        (self.thread, self.asked) = (waiter, None);
        self.hops += 1;
    }

    /// The thread that began to wait for this thread during the slice, if the slice is a wait for a runtime's
    /// ticker.
    fn asked_in(&self, slice: &Slice) -> Option<(ThreadId, Timestamp)> {
        let asked = self.asked.filter(|(_, since)| (slice.start..self.at).contains(since))?;
        let is_blocked = slice.state == ThreadState::Blocked && self.hops <= self.trace.threads.len();
        let (rule, _) = self.roles.of_wait(slice).filter(|_| is_blocked)?;
        let (_, rule) = self.roles.descriptors.rule(rule)?;
        (rule.role == Role::Timer).then_some(asked)
    }

    fn is_target(&self, id: ThreadId) -> bool {
        self.trace.threads.get(id.index()).is_some_and(|thread| thread.target)
    }

    /// Thread of the program that ended this wait, and the time, if the wait ended here.
    fn waker(&mut self, row: usize, slice: &Slice) -> Option<(ThreadId, Timestamp)> {
        if slice.state != ThreadState::Blocked || slice.end > self.at || self.hops > self.trace.threads.len()
        {
            return None;
        }
        let kind = self.holders.at(slice.thread, row).map_or(HoldKind::Unknown, |hold| hold.kind);
        let wakeup = self.trace.ended_by_near(slice, &mut self.near[slice.thread.index()].wakeup)?;
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

/// Sums along the path.
struct Sums {
    count: u64,
    classes: ByClass,
    threads: Vec<ByClass>,
    sampled: HashMap<(ThreadId, StackId), u64>,
}

impl Sums {
    fn new(trace: &Trace) -> Sums {
        let threads = vec![[0; CLASSES]; trace.threads.len()];
        Sums { count: 0, classes: [0; CLASSES], threads, sampled: HashMap::new() }
    }

    /// Adds a step. `near` is the index of the thread's last sample, as a search hint with any initial value.
    fn add(&mut self, trace: &Trace, step: &Step, near: &mut usize) {
        let ns = step.to.since(step.from).0;
        self.count += 1;
        self.classes[step.class as usize] += ns;
        self.threads[step.thread.index()][step.class as usize] += ns;
        if step.class != Class::Useful {
            return;
        }
        let is_before = |sample: &SampleRow| (sample.thread, sample.at) < (step.thread, step.from);
        *near = partition_point_near(&trace.samples, *near, is_before);
        let samples = trace.samples[*near..].iter();
        for sample in samples.take_while(|sample| (sample.thread, sample.at) < (step.thread, step.to)) {
            *self.sampled.entry((step.thread, sample.stack)).or_default() += 1;
        }
    }

    fn finish(self, trace: &Trace) -> CriticalPath {
        let id = |index: usize| ThreadId(index as u32);
        let of_all = |by_class: &ByClass| by_class.iter().sum::<u64>();
        let numbered = self.threads.into_iter().enumerate().map(|(index, by_class)| (id(index), by_class));
        let mut threads: Vec<_> = numbered.filter(|(_, by_class)| of_all(by_class) > 0).collect();
        let running = threads.iter().map(|(thread, by_class)| (*thread, by_class[Class::Useful as usize]));
        let stacks = super::blame::divide(&running.collect(), self.sampled);
        let functions = own_places::functions(trace, &OwnFrames::new(trace), &stacks);
        threads.sort_by_key(|(thread, by_class)| (std::cmp::Reverse(of_all(by_class)), *thread));
        CriticalPath {
            steps: Vec::new(),
            count: self.count,
            classes: self.classes,
            threads,
            stacks,
            functions,
        }
    }
}
