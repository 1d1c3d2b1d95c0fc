//! Cost of a clock event for the thread that it interrupts: the kernel's own part. On a virtual machine,
//! where the host keeps the timers, this is several times the cost of the sampling program.

use std::time::Duration;

use super::trial::Trial;
use crate::lower::now;
use crate::perf_ring::{self, Attr};

/// For so long a thread of ours is interrupted, so often: a hundred times.
const TRIED: Duration = Duration::from_millis(10);
const PERIOD_NS: u64 = 100_000;
/// A thread reads the clock in a loop. A step is an interrupt if it is at least `STEPS_MIN` times the median
/// step, and `GAP_MIN_NS` longer.
const STEPS_MIN: u64 = 4;
const GAP_MIN_NS: u64 = 200;
/// Maximum number of steps, with about 30 ns per step.
const STEPS: usize = 1 << 19;
/// With fewer it is not known.
const GAPS_MIN: usize = 20;

/// Measures the cost on this thread's CPU, which takes [`TRIED`]. `None` if unknown here.
pub(super) fn measure() -> Option<Trial> {
    let mut attr = Attr::new(perf_ring::TYPE_SOFTWARE, perf_ring::SW_CPU_CLOCK);
    attr.sample_period = PERIOD_NS;
    // The event records nothing, because its ring is not mapped. It is closed with the descriptor.
    let _event = perf_ring::open(&attr, 0, -1).ok()?;
    // Written to before: a page that is touched for the first time is an interruption, too.
    let mut steps = vec![u32::MAX; STEPS];
    let (begin, mut count) = (now().0, 0);
    let mut last = begin;
    while last - begin < TRIED.as_nanos() as u64
        && let Some(step) = steps.get_mut(count)
    {
        let at = now().0;
        *step = (at - last).min(u64::from(u32::MAX)) as u32;
        (last, count) = (at, count + 1);
    }
    of_steps(steps.get_mut(..count)?)
}

fn of_steps(steps: &mut [u32]) -> Option<Trial> {
    if steps.is_empty() {
        return None;
    }
    let usual = u64::from(*steps.select_nth_unstable(steps.len() / 2).1);
    let gap_min = (usual * STEPS_MIN).max(usual + GAP_MIN_NS);
    let above_usual = |step: u32| f64::from(step) - usual as f64;
    let long = steps.iter().copied().filter(|step| u64::from(*step) >= gap_min);
    let mut gaps: Vec<f64> = long.map(above_usual).collect();
    if gaps.len() < GAPS_MIN { None } else { Trial::from_times(&mut gaps) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interruptions_are_measured_from_steps_without_rare_long_ones() {
        let mut steps = vec![30; 100_000];
        steps.extend([2_030; 90]);
        steps.extend([1_000_000, 4_000_000]);
        assert_eq!(of_steps(&mut steps), Some(Trial { median_ns: 2_000.0, error_ns: 0.0 }));
        // Scattered evenly from 1 to 3 µs.
        let mut steps: Vec<u32> =
            (0..10_000).map(|_| 30).chain((0..100).map(|nth| 1_030 + nth * 20)).collect();
        let found = of_steps(&mut steps).unwrap();
        assert!(
            (found.median_ns - 2_000.0).abs() < 1.0 && (150.0..250.0).contains(&found.error_ns),
            "{found:?}"
        );
    }

    #[test]
    fn without_interruptions_it_is_not_known() {
        assert_eq!(of_steps(&mut []), None);
        assert_eq!(of_steps(&mut vec![30; 1000]), None);
        let mut steps = vec![30; 1000];
        steps.extend([5_000; GAPS_MIN - 1]);
        assert_eq!(of_steps(&mut steps), None);
    }
}
