//! How much faster loops run while no other thread touches the memory, measured by registers that count
//! iterations.
//!
//! If nearly all time is spent at the accesses, shared or not, no other code measures their speed. A counter
//! register ([`holdup_events::tables::Counter`]) advances with the loop between two samples of a thread.
//! During part of that time another thread ran.
//!
//! Least squares separate the two speeds: `moved = v_shared * t_shared + v_alone * t_alone`. A thread is
//! rarely alone for the whole time between two samples. Errors are heteroscedasticity-consistent (White, HC3:
//! MacKinnon and White 1985), because a pair of samples with much time alone has much weight.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use holdup_events::tables::{SampleRow, ThreadState};
use holdup_events::{FrameId, ThreadId, Timestamp, Trace};

use crate::derive::split::ERRORS_95;

/// Maximum time between two samples of a thread at a place (ns). In a longer time the thread may have done
/// other work.
const PAIR_MAX_NS: u64 = 50_000_000;
/// Maximum number of slices of a memory's threads. The slices are sorted for each memory, so larger sets are
/// skipped.
const SLICES_MAX: usize = 250_000;
/// Pairs of samples that a speed takes, and such with time alone.
const PAIRS_MIN: usize = 30;
const ALONE_MIN: usize = 8;
/// Time alone in a pair counts from this part of its running time on.
const ALONE_PART: f64 = 0.05;
/// One pair in this number may move in the other direction, because the loop restarted.
const OTHER_WAY: usize = 32;
/// A register whose residual is below this, relative to its movement, is a clock.
const CLOCK: f64 = 1e-6;

/// Movement of one register between two samples of a thread at one place.
#[derive(Clone, Copy, Debug)]
struct Pair {
    /// Running time while other threads ran, and alone (ms).
    shared: f64,
    alone: f64,
    moved: f64,
}

/// A quantity and its variance.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    value: f64,
    variance: f64,
}

/// Collects the samples, one thread after the other.
pub struct Paces<'a> {
    trace: &'a Trace,
    /// Times in which several of the threads ran (ns), disjoint and ascending.
    several: Vec<(u64, u64)>,
    /// By thread, place and register.
    pairs: BTreeMap<(ThreadId, FrameId, u8), Vec<Pair>>,
    last: HashMap<(FrameId, u8), SampleRow>,
}

impl<'a> Paces<'a> {
    /// For these threads. `counters` is their number of samples with counters.
    pub fn new(trace: &'a Trace, threads: &BTreeSet<ThreadId>, counters: usize) -> Paces<'a> {
        let slices: usize = threads.iter().map(|thread| trace.slices.rows(*thread).len()).sum();
        let tells = counters > PAIRS_MIN && slices <= SLICES_MAX;
        let several = if tells { several(trace, threads) } else { Vec::new() };
        Paces { trace, several, pairs: BTreeMap::new(), last: HashMap::new() }
    }

    /// Forgets the last samples: the thread did other work, or another thread's samples begin.
    pub fn left(&mut self) {
        self.last.clear();
    }

    /// A sample at a place in the functions that touch the memory, or that call these.
    pub fn see(&mut self, sample: &SampleRow, place: FrameId) {
        let register = sample.counter.register;
        if register == 0 || self.several.is_empty() {
            return;
        }
        let Some(last) = self.last.insert((place, register), *sample) else { return };
        if sample.at.0.saturating_sub(last.at.0) > PAIR_MAX_NS {
            return;
        }
        let (ran, shared) = self.ran(sample.thread, (last.at, sample.at));
        let moved = sample.counter.value.wrapping_sub(last.counter.value) as i64 as f64;
        let pair = Pair { shared: shared as f64 / 1e6, alone: (ran - shared) as f64 / 1e6, moved };
        self.pairs.entry((sample.thread, place, register)).or_default().push(pair);
    }

    /// Running time of a thread between two moments, and the part of it while others ran (ns).
    fn ran(&self, thread: ThreadId, (from, to): (Timestamp, Timestamp)) -> (u64, u64) {
        let (mut ran, mut beside) = (0, 0);
        let Some(first) = self.trace.slices.covering(thread, from) else { return (0, 0) };
        for row in first..self.trace.slices.rows(thread).end {
            let slice = self.trace.slices.at(thread, row);
            if slice.start >= to {
                break;
            }
            if slice.state == ThreadState::Running {
                let (start, end) = (slice.start.max(from).0, slice.end.min(to).0);
                ran += end.saturating_sub(start);
                beside += overlap(&self.several, (start, end));
            }
        }
        (ran, beside.min(ran))
    }

    /// Speed alone relative to the shared speed: 95 % confidence interval. `None` if there are too few
    /// samples.
    pub fn alone(&self) -> Option<(f64, f64)> {
        let each: Vec<Estimate> = self.pairs.values().filter_map(|pairs| faster(pairs)).collect();
        let Estimate { value, variance } = combined(&each)?;
        let error = ERRORS_95 * variance.sqrt();
        Some(((value - error).max(1.0), (value + error).max(1.0)))
    }
}

/// Times in which at least two of the threads ran.
fn several(trace: &Trace, threads: &BTreeSet<ThreadId>) -> Vec<(u64, u64)> {
    let mut turns: Vec<(u64, bool)> = Vec::new();
    for thread in threads {
        for slice in trace.slices.of_thread(*thread).filter(|slice| slice.state == ThreadState::Running) {
            turns.extend([(slice.start.0, true), (slice.end.0, false)]);
        }
    }
    // At the same time, ends come before starts. Two consecutive slices do not overlap.
    turns.sort_unstable();
    let (mut several, mut running, mut since) = (Vec::new(), 0_usize, 0);
    for (at, begins) in turns {
        match (begins, running) {
            (true, 1) => since = at,
            (false, 2) if at > since => several.push((since, at)),
            _ => {}
        }
        running = if begins { running + 1 } else { running.saturating_sub(1) };
    }
    several
}

fn overlap(several: &[(u64, u64)], (from, to): (u64, u64)) -> u64 {
    let first = several.partition_point(|(_, end)| *end <= from);
    let inside = several.iter().skip(first).take_while(|(start, _)| *start < to);
    inside.map(|(start, end)| (*end).min(to).saturating_sub((*start).max(from))).sum()
}

/// Speed alone relative to the shared speed, by one register at one place.
fn faster(pairs: &[Pair]) -> Option<Estimate> {
    let down = pairs.iter().filter(|pair| pair.moved < 0.0).count();
    let up = pairs.iter().filter(|pair| pair.moved > 0.0).count();
    if up.min(down) * OTHER_WAY > pairs.len() {
        return None;
    }
    let sign = if up >= down { 1.0 } else { -1.0 };
    let pairs: Vec<Pair> = pairs
        .iter()
        .map(|pair| Pair { moved: pair.moved * sign, ..*pair })
        .filter(|pair| pair.moved >= 0.0 && pair.shared + pair.alone > 0.0)
        .collect();
    let has_alone = |pair: &&Pair| pair.alone >= ALONE_PART * (pair.shared + pair.alone);
    if pairs.len() < PAIRS_MIN || pairs.iter().filter(has_alone).count() < ALONE_MIN {
        return None;
    }
    ratio(&pairs)
}

fn ratio(pairs: &[Pair]) -> Option<Estimate> {
    let sum = |of: &dyn Fn(&Pair) -> f64| pairs.iter().map(of).sum::<f64>();
    let (ss, aa) = (sum(&|one| one.shared * one.shared), sum(&|one| one.alone * one.alone));
    let sa = sum(&|one| one.shared * one.alone);
    let (sm, am) = (sum(&|one| one.shared * one.moved), sum(&|one| one.alone * one.moved));
    let determinant = ss * aa - sa * sa;
    // The ratio of the two times is constant, so their speeds cannot be separated.
    if determinant <= 1e-6 * ss * aa {
        return None;
    }
    let (shared, alone) = ((aa * sm - sa * am) / determinant, (ss * am - sa * sm) / determinant);
    let squares = sum(&|one| one.moved * one.moved);
    let off = |one: &Pair| one.moved - shared * one.shared - alone * one.alone;
    if shared <= 0.0 || sum(&|one| off(one).powi(2)) <= CLOCK * squares {
        return None;
    }
    let value = alone / shared;
    // The ratio's derivative along each pair's own deviation, by the delta method.
    let variance = sum(&|one| {
        let of_shared = (aa * one.shared - sa * one.alone) / determinant;
        let of_alone = (ss * one.alone - sa * one.shared) / determinant;
        let leverage = one.shared * of_shared + one.alone * of_alone;
        let off = off(one) / (1.0 - leverage).max(0.05);
        ((of_alone - value * of_shared) * off / shared).powi(2)
    });
    Some(Estimate { value, variance })
}

/// Mean of the estimates, weighted by inverse variance. The variance is scaled up if they differ by more than
/// their errors.
fn combined(each: &[Estimate]) -> Option<Estimate> {
    let weight = |one: &Estimate| 1.0 / one.variance.max(1e-9);
    let weights: f64 = each.iter().map(weight).sum();
    if each.is_empty() {
        return None;
    }
    let value = each.iter().map(|one| weight(one) * one.value).sum::<f64>() / weights;
    let scatter: f64 = each.iter().map(|one| weight(one) * (one.value - value).powi(2)).sum();
    let widened = (scatter / (each.len() as f64 - 1.0).max(1.0)).max(1.0);
    Some(Estimate { value, variance: widened / weights })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `count` pairs of a loop that runs `alone` times as fast without others, with that scatter.
    fn pairs(alone: f64, scatter: f64, count: usize) -> Vec<Pair> {
        let mut random = 7_u64;
        let mut next = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 11) as f64 / (1_u64 << 53) as f64
        };
        let mut pair = |n: usize| {
            let part = if n.is_multiple_of(10) { next() * 0.5 } else { 0.0 };
            let (shared, part) = (1.0 - part, part);
            let moved = (shared + alone * part) * 1000.0 * (1.0 + scatter * (next() - 0.5));
            Pair { shared, alone: part, moved }
        };
        (0..count).map(&mut pair).collect()
    }

    #[test]
    fn speeds_are_estimated_although_no_pair_is_alone_throughout() {
        for truth in [1.0, 3.0, 12.0] {
            let Estimate { value, variance } = faster(&pairs(truth, 0.3, 2_000)).unwrap();
            let error = ERRORS_95 * variance.sqrt();
            assert!((value - truth).abs() <= error, "{truth}: {value} ± {error}");
            assert!(error < 0.2 * truth, "{truth}: ± {error}");
        }
        // Downwards it is the same.
        let down: Vec<Pair> =
            pairs(3.0, 0.3, 2_000).iter().map(|one| Pair { moved: -one.moved, ..*one }).collect();
        assert!((faster(&down).unwrap().value - 3.0).abs() < 0.6);
    }

    #[test]
    fn few_pairs_clocks_and_oscillating_counters_give_no_estimate() {
        assert!(faster(&pairs(3.0, 0.3, 20)).is_none(), "few pairs");
        let never: Vec<Pair> =
            pairs(3.0, 0.3, 2_000).iter().map(|one| Pair { shared: 1.0, alone: 0.0, ..*one }).collect();
        assert!(faster(&never).is_none(), "never alone");
        assert!(faster(&pairs(1.0, 0.0, 2_000)).is_none(), "as even as a clock");
        let mixed: Vec<Pair> = pairs(3.0, 0.3, 2_000)
            .iter()
            .enumerate()
            .map(|(n, one)| Pair { moved: if n % 4 == 0 { -one.moved } else { one.moved }, ..*one })
            .collect();
        assert!(faster(&mixed).is_none(), "a loop that often begins anew");
        assert!(combined(&[]).is_none());
    }

    #[test]
    fn those_that_differ_are_less_sure() {
        let one = |value| Estimate { value, variance: 0.01 };
        let same = combined(&[one(3.0), one(3.1)]).unwrap();
        let differ = combined(&[one(2.0), one(4.0)]).unwrap();
        assert!(same.variance < 0.006 && differ.variance > 0.5, "{same:?} {differ:?}");
    }

    #[test]
    fn overlapping_time_is_counted_once() {
        let several = [(10, 20), (30, 40)];
        assert_eq!(overlap(&several, (0, 100)), 20);
        assert_eq!(overlap(&several, (15, 35)), 10);
        assert_eq!(overlap(&several, (20, 30)), 0);
    }
}
