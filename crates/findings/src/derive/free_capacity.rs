//! Free CPU capacity over time: running threads, idle CPUs, and time without runnable threads.
//!
//! Stored in equal steps, so that any set of waits can be weighted without another walk through time. The
//! result is the saving if the waiters had run on idle CPUs.

use std::ops::Range;

use holdup_events::{Duration, ThreadId, Timestamp, Trace};

use super::occupancy::{FAIR_PART, Stall};
use super::parallelism::Parallelism;
use crate::charge::Charge;

/// Number of steps of a recording. Small compared with the slices, and large enough that activities within a
/// step mostly overlap.
const STEPS: u64 = 1 << 14;

/// Activity of the program and the CPUs in each step.
#[derive(Clone, Debug, Default)]
pub struct Room {
    start: Timestamp,
    step: Duration,
    /// Number of the first element of `steps`.
    first: u64,
    steps: Vec<Step>,
}

/// Activity of the program and the CPUs at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Doing {
    /// Threads of the program that run.
    pub runs: u32,
    /// Threads of the program that are running or runnable.
    pub wanting: u32,
    /// Idle CPUs.
    pub idle: u32,
    /// CPUs that run none of the program's threads.
    pub free: u32,
}

/// One step. All in thread- or CPU-nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Step {
    /// The program's threads ran.
    own: f64,
    /// CPUs were idle.
    idle: f64,
    /// CPUs were idle or ran another program. A runnable thread would get its fair share of them.
    free: f64,
    /// Wall time in which no thread of the program was running or runnable.
    quiet: f64,
}

impl Room {
    /// An empty window that starts at `from`.
    pub fn new(trace: &Trace, from: Timestamp) -> Room {
        let step = Duration(trace.wall().0.div_ceil(STEPS).max(1));
        let first = from.since(trace.start()).0 / step.0;
        Room { start: trace.start(), step, first, steps: Vec::new() }
    }

    /// Adds `start..end`, in which `runs` threads of the program were running and `wanting` running or
    /// runnable. `idle` CPUs were idle, and `free` CPUs ran none of its threads.
    pub fn add(&mut self, start: Timestamp, end: Timestamp, doing: Doing) {
        let mut at = start.since(self.start).0;
        let to = end.since(self.start).0;
        while at < to {
            let number = at / self.step.0;
            let until = to.min((number + 1) * self.step.0);
            let ns = (until - at) as f64;
            let step = self.slot(number);
            step.own += ns * f64::from(doing.runs);
            step.idle += ns * f64::from(doing.idle);
            step.free += ns * f64::from(doing.free);
            step.quiet += if doing.wanting == 0 { ns } else { 0.0 };
            at = until;
        }
    }

    /// Adds another window. Windows must come in time order.
    pub fn merge(&mut self, other: Room) {
        for (index, more) in other.steps.into_iter().enumerate() {
            let step = self.slot(other.first + index as u64);
            step.own += more.own;
            step.idle += more.idle;
            step.free += more.free;
            step.quiet += more.quiet;
        }
    }

    fn slot(&mut self, number: u64) -> &mut Step {
        let index = number.saturating_sub(self.first) as usize;
        if self.steps.len() <= index {
            self.steps.resize(index + 1, Step::default());
        }
        &mut self.steps[index]
    }

    /// Estimated saving if the threads of the charged slices had run during them, on CPUs that the program
    /// did not use.
    ///
    /// The same as in [`Stall`], but with means over a step, so approximate instead of exact.
    pub fn stall(&self, trace: &Trace, charge: &Charge) -> Stall {
        let waiting = self.waiting(trace, charge);
        let room = |(step, waiting): (&Step, &f64)| {
            let beside = waiting.min(step.idle);
            beside + FAIR_PART * (waiting - beside).min(step.free - step.idle).max(0.0)
        };
        let chance = |pair: (&Step, &f64)| if *pair.1 > 0.0 { room(pair) / pair.1 } else { 0.0 };
        let chances: Vec<f64> = self.steps.iter().zip(&waiting).map(chance).collect();
        let saved = self.steps.iter().zip(&waiting).map(|(step, waiting)| {
            let more = waiting.min(step.free);
            if more > 0.0 {
                self.step.0 as f64 * (more / (step.own + more)).min(more / self.step.0 as f64)
            } else {
                0.0
            }
        });
        let saved_ns = saved.sum();
        let idle = self.steps.iter().zip(&waiting).map(|(step, waiting)| step.idle.min(*waiting));
        Stall { idle_ns: idle.sum(), ..self.share_out(trace, charge, &chances, saved_ns) }
    }

    /// Estimated saving if the charged slices did not delay a program without runnable threads: waits for a
    /// timer, in which no CPU could help.
    pub fn stall_quiet(&self, trace: &Trace, charge: &Charge) -> Stall {
        let waiting = self.waiting(trace, charge);
        let quiet = |(step, waiting): (&Step, &f64)| step.quiet.min(*waiting);
        let saved_ns = self.steps.iter().zip(&waiting).map(quiet).sum();
        let share = |(step, waiting): (&Step, &f64)| {
            if *waiting > 0.0 { (step.quiet / self.step.0 as f64).min(1.0) } else { 0.0 }
        };
        let shares: Vec<f64> = self.steps.iter().zip(&waiting).map(share).collect();
        self.share_out(trace, charge, &shares, saved_ns)
    }

    /// The charged time in each step (thread-ns).
    fn waiting(&self, trace: &Trace, charge: &Charge) -> Vec<f64> {
        let count = self.steps.len();
        let (mut part, mut begun) = (vec![0.0; count], vec![0.0; count + 1]);
        let places = self.places();
        let spans = trace.target_threads().flat_map(|thread| charge.spans_of(trace, thread));
        for (_, span) in spans {
            let (from, to) = places.steps_of(&span);
            let (first, last) = (from as usize, to as usize);
            if last >= count {
                continue;
            }
            if first == last {
                part[first] += to - from;
                continue;
            }
            part[first] += (first + 1) as f64 - from;
            part[last] += to - last as f64;
            begun[first + 1] += 1.0;
            begun[last] -= 1.0;
        }
        let mut whole = 0.0;
        let step = self.step.0 as f64;
        let sum = |(part, begun): (f64, f64)| {
            whole += begun;
            (part + whole) * step
        };
        part.into_iter().zip(begun).map(sum).collect()
    }

    fn places(&self) -> Places {
        let end = (self.steps.len() as f64 - 1e-9).max(0.0);
        Places { start: self.start, per_ns: 1.0 / self.step.0.max(1) as f64, end }
    }

    /// Credits each thread with its charged time, weighed by what each step counts.
    fn share_out(&self, trace: &Trace, charge: &Charge, weights: &[f64], saved_ns: f64) -> Stall {
        let mut before = Vec::with_capacity(weights.len() + 1);
        let mut sum = 0.0;
        for weight in weights {
            before.push(sum);
            sum += weight;
        }
        before.push(sum);
        let until = |place: f64| {
            let whole = place as usize;
            let part = (place - whole as f64) * weights.get(whole).copied().unwrap_or(0.0);
            before.get(whole).copied().unwrap_or(sum) + part
        };
        let places = self.places();
        let mut stall = Stall { saved_ns, ..Stall::default() };
        for thread in trace.target_threads() {
            let mut own = 0.0;
            for (_, span) in charge.spans_of(trace, thread) {
                let (from, to) = places.steps_of(&span);
                own += (until(to) - until(from)) * self.step.0 as f64;
            }
            if own != 0.0 {
                stall.credit(thread, own);
                stall.idle_ns += own;
            }
        }
        stall
    }
}

/// Turns moments into places among the steps, without a division for each: there are as many as switches.
#[derive(Clone, Copy)]
struct Places {
    start: Timestamp,
    per_ns: f64,
    end: f64,
}

impl Places {
    /// Start and end of a slice, in steps.
    #[inline]
    fn steps_of(self, slice: &Range<Timestamp>) -> (f64, f64) {
        let place = |at: Timestamp| (at.since(self.start).0 as f64 * self.per_ns).min(self.end);
        (place(slice.start), place(slice.end))
    }
}

/// Maximum saved wall time if the program ran for `ns` less in total (ns), at its actual parallelism.
pub fn wall_of_running(parallelism: &Parallelism, running_ns: u64, ns: f64) -> f64 {
    let any_ran: u64 = parallelism.running_ns.iter().skip(1).sum();
    ns / running_ns.max(1) as f64 * any_ran as f64
}

/// Threads in `stall`, largest time first.
pub fn ranked(stall: &Stall) -> Vec<(ThreadId, f64)> {
    let mut threads: Vec<(ThreadId, f64)> = stall.by_thread.iter().map(|(id, ns)| (*id, *ns)).collect();
    threads.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    threads
}
