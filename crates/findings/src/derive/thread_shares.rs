//! Bottle graph: each thread's part of the run's length, and the parallelism during its activity.
//!
//! When `n` threads are running or runnable, each gets `1/n` of the time (Du Bois et al., OOPSLA 2013). The
//! sum is a thread's *height*. Heights sum to the time in which any thread was active. A tall thread with a
//! parallelism near one is serial code that limits the run. A runnable thread counts as active. Otherwise a
//! busy machine would look like serial code.

use std::collections::BTreeMap;

use holdup_events::{ThreadId, Timestamp};

use super::sweep::{Change, Doing, Visitor};

/// One thread's box.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bottle {
    /// The thread.
    pub thread: ThreadId,
    /// Time in which it ran or waited for a CPU (ns).
    pub active_ns: u64,
    /// Height: the thread's share of the time in which any thread was active (ns).
    pub height_ns: f64,
}

impl Bottle {
    /// Mean number of active threads while it was: the width of its box.
    pub fn parallelism(&self) -> f64 {
        if self.height_ns > 0.0 { self.active_ns as f64 / self.height_ns } else { 0.0 }
    }
}

/// The boxes, the tallest first, of all windows of a [`super::sweep::Sweep`].
pub fn of_windows(windows: impl Iterator<Item = Window>) -> Vec<Bottle> {
    let mut sums: BTreeMap<ThreadId, (u64, f64)> = BTreeMap::new();
    for window in windows {
        for (thread, (active_ns, height_ns)) in window.sums {
            let sum = sums.entry(thread).or_default();
            *sum = (sum.0 + active_ns, sum.1 + height_ns);
        }
    }
    let bottle =
        |(thread, (active_ns, height_ns)): (ThreadId, (u64, f64))| Bottle { thread, active_ns, height_ns };
    let mut bottles: Vec<Bottle> = sums.into_iter().map(bottle).collect();
    bottles.sort_by(|a, b| b.height_ns.total_cmp(&a.height_ns).then_with(|| a.thread.cmp(&b.thread)));
    bottles
}

/// Facts of one window while it is walked.
pub struct Window {
    at: Timestamp,
    active: u32,
    /// Integral of 1/active over time (ns).
    shared_ns: f64,
    /// Active threads, with their start and the integral at that time.
    since: BTreeMap<ThreadId, (Timestamp, f64)>,
    sums: BTreeMap<ThreadId, (u64, f64)>,
}

fn is_active(doing: Doing) -> bool {
    matches!(doing, Doing::Runs | Doing::Queues | Doing::Throttled)
}

impl Window {
    /// An empty window that starts at `at`.
    pub fn new(at: Timestamp) -> Window {
        Window { at, active: 0, shared_ns: 0.0, since: BTreeMap::new(), sums: BTreeMap::new() }
    }

    fn end(&mut self, thread: ThreadId, at: Timestamp) {
        let Some((since, shared_ns)) = self.since.remove(&thread) else { return };
        let sum = self.sums.entry(thread).or_default();
        *sum = (sum.0 + at.since(since).0, sum.1 + self.shared_ns - shared_ns);
    }
}

impl Visitor for Window {
    fn change(&mut self, change: &Change) {
        match (is_active(change.from), is_active(change.to)) {
            (false, true) => {
                self.active += 1;
                self.since.insert(change.thread, (change.at.max(self.at), self.shared_ns));
            }
            (true, false) => {
                self.active -= 1;
                self.end(change.thread, change.at.max(self.at));
            }
            _ => {}
        }
    }

    fn interval(&mut self, start: Timestamp, end: Timestamp) {
        if self.active > 0 {
            self.shared_ns += end.since(start).0 as f64 / f64::from(self.active);
        }
        self.at = end;
    }

    fn finish(&mut self, end: Timestamp) {
        let threads: Vec<ThreadId> = self.since.keys().copied().collect();
        threads.into_iter().for_each(|thread| self.end(thread, end));
    }
}
