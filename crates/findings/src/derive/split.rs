//! How running time splits into user and kernel: by samples, with the error said.

use holdup_events::tables::SampleRow;
use holdup_events::{ThreadId, Trace};

/// A thread (or process) with fewer samples than this does not speak for itself alone: a share
/// of 30 samples has a standard error of at most 9 points.
pub const SAMPLES_ENOUGH: u64 = 30;

/// Samples of somebody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All.
    pub all: u64,
    /// In kernel mode.
    pub kernel: u64,
}

impl Counts {
    fn add(&mut self, other: Counts) {
        self.all += other.all;
        self.kernel += other.kernel;
    }

    /// The kernel's share; where the samples are few, drawn towards `prior` as if they were filled up
    /// to [`SAMPLES_ENOUGH`] with samples of that share.
    fn share(self, prior: f64) -> f64 {
        let lacking = SAMPLES_ENOUGH.saturating_sub(self.all) as f64;
        let filled = self.all as f64 + lacking;
        (self.kernel as f64 + lacking * prior) / filled
    }
}

/// One standard error of a share of which `hits` of `all` samples were seen. Never 0: the share
/// is taken a little towards a half (Wilson's plus four), since no hit in ten samples does not mean never.
pub fn share_error(hits: u64, all: u64) -> f64 {
    let n = all as f64 + 4.0;
    let p = (hits as f64 + 2.0) / n;
    (p * (1.0 - p) / n).sqrt()
}

/// What the split rests on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelShare {
    /// Samples of target threads.
    pub samples: u64,
    /// One standard error of the kernel time of all threads together (ns).
    pub error_ns: u64,
}

/// Splits the running time of thread after thread.
pub struct Split {
    threads: Vec<Counts>,
    processes: Vec<Counts>,
    program: Counts,
    /// Sum of squared errors of threads that speak for themselves (ns²).
    variance: f64,
    /// Running time of the threads whose share is borrowed (ns).
    borrowed_ns: u64,
}

impl Split {
    /// Counts the samples.
    pub fn new(trace: &Trace) -> Split {
        Split::counting(trace, |_| true)
    }

    /// Counts some of the samples.
    pub fn counting(trace: &Trace, counts: impl Fn(&SampleRow) -> bool) -> Split {
        let mut split = Split {
            threads: vec![Counts::default(); trace.threads.len()],
            processes: vec![Counts::default(); trace.processes.len()],
            program: Counts::default(),
            variance: 0.0,
            borrowed_ns: 0,
        };
        for sample in trace.samples.iter().filter(|sample| counts(sample)) {
            if let Some(counts) = split.threads.get_mut(sample.thread.index()) {
                counts.add(Counts { all: 1, kernel: u64::from(sample.in_kernel) });
            }
        }
        for (thread, counts) in trace.threads.iter().zip(&split.threads) {
            if thread.target {
                split.program.add(*counts);
                if let Some(process) = split.processes.get_mut(thread.process.index()) {
                    process.add(*counts);
                }
            }
        }
        split
    }

    /// The estimated kernel part of a thread's `running_ns`; 0 if there are no samples at all.
    pub fn kernel_ns(&mut self, trace: &Trace, thread: ThreadId, running_ns: u64) -> u64 {
        if self.program.all == 0 {
            self.borrowed_ns += running_ns;
            return 0;
        }
        let own = self.threads[thread.index()];
        if own.all >= SAMPLES_ENOUGH {
            self.variance += (running_ns as f64 * share_error(own.kernel, own.all)).powi(2);
        } else {
            self.borrowed_ns += running_ns;
        }
        let program = self.program.kernel as f64 / self.program.all as f64;
        let process = trace.threads[thread.index()].process;
        let process = self.processes.get(process.index()).map_or(program, |counts| counts.share(program));
        ((running_ns as f64 * own.share(process)).round() as u64).min(running_ns)
    }

    /// The error of it all.
    pub fn finish(self) -> KernelShare {
        if self.program.all == 0 {
            return KernelShare { samples: 0, error_ns: self.borrowed_ns };
        }
        // Threads that borrow their share err together, not independently.
        let borrowed = self.borrowed_ns as f64 * share_error(self.program.kernel, self.program.all);
        let error = (self.variance + borrowed * borrowed).sqrt();
        KernelShare { samples: self.program.all, error_ns: error.round() as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_samples_are_drawn_to_the_prior() {
        assert_eq!(Counts { all: 0, kernel: 0 }.share(0.25), 0.25);
        assert_eq!(Counts { all: 15, kernel: 15 }.share(0.0), 0.5);
        assert_eq!(Counts { all: 40, kernel: 10 }.share(0.9), 0.25);
    }

    #[test]
    fn no_hit_still_has_an_error() {
        assert!(share_error(0, 100) > 0.0);
        assert!((share_error(5000, 10000) - 0.005).abs() < 1e-4);
    }
}
