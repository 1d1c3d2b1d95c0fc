//! Split of running time into user code, kernel, spinning and garbage collection, by samples, with its error.

use holdup_events::recording::Backend;
use holdup_events::tables::SampleRow;
use holdup_events::{ThreadId, Timestamp, Trace};

use super::class::Class;
use super::roles::Roles;
use super::runtime_phases::RAN;

/// A thread or process with fewer samples than this borrows from a larger group. With 30 samples, the error
/// of a share is at most 17 percentage points (95 %).
pub const SAMPLES_ENOUGH: u64 = 30;

/// Number of classes into which running time is split.
pub const PARTS: usize = Class::ON_CPU.len();

/// The place of [`Class::Spin`] there.
const SPIN: usize = 3;
const _: () = assert!(matches!(Class::ON_CPU[SPIN], Class::Spin));

/// Running time (ns) of each class of [`Class::ON_CPU`].
pub type Parts = [u64; PARTS];

/// Number of samples by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All.
    pub all: u64,
    /// By class, as in [`Class::ON_CPU`].
    pub parts: Parts,
}

impl Counts {
    fn add(&mut self, other: Counts) {
        self.all += other.all;
        for (sum, count) in self.parts.iter_mut().zip(other.parts) {
            *sum += count;
        }
    }

    /// Shares by class. With fewer than `enough` samples, the rest is filled up with samples distributed like
    /// `prior`.
    fn shares(self, enough: u64, prior: [f64; PARTS]) -> [f64; PARTS] {
        let lacking = enough.saturating_sub(self.all) as f64;
        let filled = self.all as f64 + lacking;
        std::array::from_fn(|part| (self.parts[part] as f64 + lacking * prior[part]) / filled)
    }
}

/// Number of standard errors in half a 95 % confidence interval. All stated errors (`error_ns`, `±`) use this
/// interval.
pub const ERRORS_95: f64 = 1.96;

/// Half the width of the 95 % confidence interval of a share with `hits` of `all` samples. Never 0, because
/// no hit in ten samples does not prove a share of zero. The share is moved towards one half (Agresti and
/// Coull's plus four), and the shift is added to the error. For few hits a plain standard error would be too
/// small.
pub fn share_error(hits: u64, all: u64) -> f64 {
    let n = all as f64 + 4.0;
    let p = (hits as f64 + 2.0) / n;
    let moved = if all == 0 { 0.0 } else { (p - hits as f64 / all as f64).abs() };
    ERRORS_95 * (p * (1.0 - p) / n).sqrt() + moved
}

/// Basis and errors of a split.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SplitErrors {
    /// Samples of target threads.
    pub samples: u64,
    /// Half the width of the 95 % interval of each class's time of all threads together (ns).
    pub error_ns: Parts,
}

/// Samples by thread, process and in all, and what dividing by them leaves in doubt.
struct Pool {
    threads: Vec<Counts>,
    processes: Vec<Counts>,
    program: Counts,
    /// Minimum number of samples for a thread or process to be split by its own samples.
    enough: u64,
    /// Sum of squared errors of threads that are split by their own samples (ns²), by class.
    variance: [f64; PARTS],
    /// Running time of the threads whose shares are borrowed (ns).
    borrowed_ns: u64,
}

impl Pool {
    fn new(trace: &Trace) -> Pool {
        Pool {
            threads: vec![Counts::default(); trace.threads.len()],
            processes: vec![Counts::default(); trace.processes.len()],
            program: Counts::default(),
            // In this backend the running times come from the samples themselves, so borrowing would change
            // counted values.
            enough: if trace.manifest.backend == Backend::Proc { 1 } else { SAMPLES_ENOUGH },
            variance: [0.0; PARTS],
            borrowed_ns: 0,
        }
    }

    fn add(&mut self, sample: &SampleRow, class: Class) {
        if let Some(counts) = self.threads.get_mut(sample.thread.index()) {
            let parts = std::array::from_fn(|part| u64::from(Class::ON_CPU[part] == class));
            counts.add(Counts { all: 1, parts });
        }
    }

    fn sum(&mut self, trace: &Trace) {
        for (thread, counts) in trace.threads.iter().zip(&self.threads) {
            if thread.target {
                self.program.add(*counts);
                if let Some(process) = self.processes.get_mut(thread.process.index()) {
                    process.add(*counts);
                }
            }
        }
    }

    /// Splits part of a thread's running time by class. Without any samples, all of it is in the first class.
    fn parts_ns(&mut self, trace: &Trace, thread: ThreadId, running_ns: u64) -> Parts {
        let mut parts = [0; PARTS];
        if self.program.all == 0 {
            self.borrowed_ns += running_ns;
            parts[0] = running_ns;
            return parts;
        }
        let own = self.threads[thread.index()];
        if own.all >= self.enough {
            for (sum, hits) in self.variance.iter_mut().zip(own.parts) {
                *sum += (running_ns as f64 * share_error(hits, own.all)).powi(2);
            }
        } else {
            self.borrowed_ns += running_ns;
        }
        let program = self.program.parts.map(|hits| hits as f64 / self.program.all as f64);
        let process = trace.threads[thread.index()].process;
        let process = self.processes.get(process.index());
        let process = process.map_or(program, |counts| counts.shares(self.enough, program));
        let shares = own.shares(self.enough, process);
        let mut left = running_ns;
        for (part, share) in parts.iter_mut().zip(shares).skip(1) {
            *part = ((running_ns as f64 * share).round() as u64).min(left);
            left -= *part;
        }
        parts[0] = left;
        parts
    }

    /// The square of the error of one class (ns²).
    fn squared_error(&self, part: usize) -> f64 {
        // Threads that borrow their shares err together, not independently.
        let share = share_error(self.program.parts[part], self.program.all);
        self.variance[part] + (self.borrowed_ns as f64 * share).powi(2)
    }
}

/// Splits the running time of thread after thread.
pub struct Split {
    /// Time without runtime events.
    rest: Pool,
    /// Time that a runtime reported as work, if samples show threads that spin in it. `None` if there is
    /// nothing to divide.
    told: Option<Pool>,
}

impl Split {
    /// Counts the samples.
    pub fn new(trace: &Trace, roles: &Roles) -> Split {
        Split::counting(trace, roles, |_| true)
    }

    /// Counts some of the samples.
    pub fn counting(trace: &Trace, roles: &Roles, counts: impl Fn(&SampleRow) -> bool) -> Split {
        let (mut rest, mut told) = (Pool::new(trace), Pool::new(trace));
        for sample in trace.samples.iter().filter(|sample| counts(sample)) {
            match roles.phases.class_of_sample(sample) {
                None => rest.add(sample, roles.class_of_sample(sample)),
                Some(Class::GcWork) => told.add(sample, roles.class_of_sample(sample)),
                Some(_) => {}
            }
        }
        rest.sum(trace);
        told.sum(trace);
        let waits = told.program.parts[SPIN] > 0;
        Split { rest, told: waits.then_some(told) }
    }

    /// A thread's running time in a range by class: as reported by its runtime, and the rest by samples.
    pub fn classes_ns(
        &mut self,
        (trace, roles): (&Trace, &Roles),
        (thread, range): (ThreadId, (Timestamp, Timestamp)),
        running_ns: u64,
    ) -> impl Iterator<Item = (Class, u64)> {
        let [work, wait] = roles.phases.ran(thread, range);
        let work = work.min(running_ns);
        let wait = wait.min(running_ns - work);
        let spun = self.told.as_mut().map_or(0, |told| told.parts_ns(trace, thread, work)[SPIN]);
        let parts = self.rest.parts_ns(trace, thread, running_ns - work - wait);
        let told = RAN.into_iter().zip([work - spun, wait]).chain([(Class::Spin, spun)]);
        Class::ON_CPU.into_iter().zip(parts).chain(told)
    }

    /// The errors of it all.
    pub fn finish(self) -> SplitErrors {
        let rest = &self.rest;
        if rest.program.all == 0 {
            return SplitErrors { samples: 0, error_ns: [rest.borrowed_ns; PARTS] };
        }
        let error = |part: usize| {
            // Most programs neither collect garbage nor spin. Without samples of a class, its error is not
            // shown.
            let is_seen =
                rest.program.parts[part] > 0 || matches!(Class::ON_CPU[part], Class::Useful | Class::Kernel);
            let outside = if is_seen { rest.squared_error(part) } else { 0.0 };
            // The time is either spinning or work, so both have the same error.
            let divided = matches!(Class::ON_CPU[part], Class::Spin | Class::GcWork);
            let told = self.told.as_ref().filter(|_| divided).map_or(0.0, |told| told.squared_error(SPIN));
            (outside + told).sqrt().round() as u64
        };
        SplitErrors { samples: rest.program.all, error_ns: std::array::from_fn(error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_samples_are_drawn_to_the_prior() {
        let shares = |all, parts, prior| Counts { all, parts }.shares(SAMPLES_ENOUGH, prior);
        assert_eq!(shares(0, [0; 4], [0.5, 0.25, 0.25, 0.0]), [0.5, 0.25, 0.25, 0.0]);
        assert_eq!(shares(15, [0, 15, 0, 0], [1.0, 0.0, 0.0, 0.0]), [0.5, 0.5, 0.0, 0.0]);
        assert_eq!(
            Counts { all: 2, parts: [1, 1, 0, 0] }.shares(1, [1.0, 0.0, 0.0, 0.0]),
            [0.5, 0.5, 0.0, 0.0]
        );
        assert_eq!(shares(40, [20, 10, 0, 10], [0.0, 0.9, 0.0, 0.1]), [0.5, 0.25, 0.0, 0.25]);
    }

    #[test]
    fn no_hit_still_has_an_error() {
        assert!(share_error(0, 100) > 0.0);
        assert!((share_error(5000, 10000) - 1.96 * 0.005).abs() < 1e-4);
    }

    /// The true value is in the interval in 95 % of the cases. In the worst cases, where few hits are
    /// expected, it is 93 %, because counts are integers.
    #[test]
    fn the_truth_is_inside_in_nineteen_of_twenty_cases() {
        for all in [30u64, 100, 1_000] {
            let mut shares = Vec::new();
            for per_mille in (2..1000).step_by(2) {
                let truth = f64::from(per_mille) / 1000.0;
                // As logarithms: the chance of no hit in a thousand is too small a number.
                let (mut inside, mut chance) = (0.0, all as f64 * (1.0 - truth).ln());
                for hits in 0..=all {
                    let off = (hits as f64 / all as f64 - truth).abs();
                    inside += if off <= share_error(hits, all) { chance.exp() } else { 0.0 };
                    chance += ((all - hits) as f64 / (hits + 1) as f64 * truth / (1.0 - truth)).ln();
                }
                shares.push(inside);
            }
            let mean = shares.iter().sum::<f64>() / shares.len() as f64;
            let worst = shares.iter().copied().fold(1.0, f64::min);
            assert!(mean >= 0.95 && worst >= 0.93, "{all} samples: {mean} on average, {worst} at the worst");
        }
    }
}
