//! Cost of sharing memory: how much faster the accesses are while no other thread touches the memory.
//!
//! Threads are preempted, start and end at different times, and wait. In some samples a thread runs its code
//! while no other thread that touches the memory runs. If the share of samples at the accesses is smaller in
//! these samples, the difference is the cost of sharing.
//!
//! Let `p` be the share of samples at the accesses among all samples in their functions. `p1` is the share
//! while shared, `p0` alone. Assume that the rest of the code takes the same time in both cases. The shared
//! time then shrinks by the factor
//!
//! ```text
//! (1 - p1) / (1 - p0)
//! ```
//!
//! The rest may take longer while shared. If much of the time is spent at the accesses, the code after them
//! waits too. It waits for the value, or the CPU restarts it when the line is taken away. The upper bound is
//! therefore all of the functions' shared time. It includes functions that mostly call them and take no
//! longer themselves, because they wait for the result. The upper bound is lower if enough samples alone show
//! that the accesses are as slow relative to the rest.
//!
//! If registers count what the loop does ([`super::pace`]), the loop's speed alone is known directly. The
//! shared time then shrinks by the factor `1 / speed`. Part of it may come from an idle SMT sibling CPU.
//! Atomic accesses are slow alone too, and unshared code needs none. For them this value is only a lower
//! bound.

use std::collections::{BTreeSet, HashMap, HashSet};

use holdup_events::tables::{AccessKind, ThreadState};
use holdup_events::{FrameId, ThreadId, Timestamp, Trace};

use super::Touch;
use super::pace::Paces;
use crate::derive::spin::{Functions, user_leaf};
use crate::derive::split::share_error;

/// Maximum number of other threads to check per sample.
const THREADS_MAX: usize = 64;

/// Minimum share of their functions' samples for accesses that the rest may wait for. A store that waits for
/// its line blocks the following loads and jump once the CPU's buffers are full. The samples then hit those
/// instructions. In a loop of three instructions, ten times as fast alone, 40 to 70 % of the samples hit the
/// access, depending on the machine.
const MUCH: f64 = 0.25;
/// Minimum number of samples alone to prove that the accesses are as slow then.
const ALONE_MIN: u64 = 40;
/// Minimum share of the calls with a known caller that a function makes. Otherwise it is one of many callers.
const CALLS_MIN: f64 = 0.75;
/// Maximum number of caller levels that may wait for the value read.
const CALLERS_MAX: usize = 3;
/// Minimum slowdown of the accesses, relative to the rest of the code, shared versus alone. Below it the rest
/// does not wait for the accesses.
const SLOWER: f64 = 1.5;
/// Minimum share of samples alone that are outside the accesses. Below it, the rest of the code overlaps with
/// the accesses and is no measure.
const REST_MIN: f64 = 0.1;
/// Maximum speedup that an idle SMT sibling CPU may explain.
const CORE_SHARED: f64 = 2.0;
/// Maximum further speedup of a loop that is alone permanently. Each short time alone begins with lines that
/// other CPUs held. Counters of two neighbours were 10 and 12 times as fast in such times, and 13 times after
/// they were separated.
const MOMENTS_SHORT: f64 = 2.0;

/// Samples in the functions that touch the memory.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    all: u64,
    at_accesses: u64,
}

impl Seen {
    /// The share at the accesses, and how far off that may be.
    fn share(self) -> (f64, f64) {
        let error = if self.all == 0 { 1.0 } else { share_error(self.at_accesses, self.all) };
        (self.at_accesses as f64 / self.all.max(1) as f64, error)
    }

    /// Whether enough samples are outside the accesses to measure by them.
    fn can_measure_rest(self) -> bool {
        self.share().0 <= 1.0 - REST_MIN
    }
}

/// Time saved if no other thread touched the memory: lower and upper bound, relative to the time at these
/// accesses. 1 is all of that time. Values above 1 include code that waits for the accesses.
pub fn saved(trace: &Trace, touches: &[&Touch]) -> (f64, f64) {
    let mut same = Functions::default();
    let mut functions: HashSet<FrameId> = HashSet::new();
    let mut threads: BTreeSet<ThreadId> = BTreeSet::new();
    let mut at_accesses: HashSet<(ThreadId, Timestamp)> = HashSet::new();
    for touch in touches {
        functions.extend(user_leaf(trace, &touch.sample).map(|frame| same.first_frame(trace, frame)));
        threads.insert(touch.sample.thread);
        at_accesses.insert((touch.sample.thread, touch.sample.at));
    }
    let (mut alone, mut shared, mut behind) = (Seen::default(), Seen::default(), 0);
    let callers = callers(trace, touches, &mut same);
    let counters = touches.iter().filter(|touch| touch.sample.counter.register != 0).count();
    let mut paces = Paces::new(trace, &threads, counters);
    for thread in &threads {
        paces.left();
        let others: Vec<ThreadId> = threads.iter().copied().filter(|other| other != thread).collect();
        for sample in crate::derive::samples_of(trace, *thread) {
            let Some(frame) = user_leaf(trace, sample).filter(|_| !sample.in_kernel) else { continue };
            let function = same.first_frame(trace, frame);
            let touches = functions.contains(&function);
            if !touches && !callers.contains(&function) {
                paces.left();
                continue;
            }
            paces.see(sample, frame);
            let is_shared = others.iter().take(THREADS_MAX).any(|other| runs(trace, *other, sample.at));
            if !touches {
                behind += u64::from(is_shared);
                continue;
            }
            let seen = if is_shared { &mut shared } else { &mut alone };
            seen.all += 1;
            seen.at_accesses += u64::from(at_accesses.contains(&(*thread, sample.at)));
        }
    }
    let behind = if behind <= shared.all { behind } else { 0 };
    let told = part(alone, shared, behind);
    let Some(speed) = paces.alone() else { return told };
    let touched = (alone.at_accesses + shared.at_accesses).max(1) as f64;
    let told_by_pace = by_pace(speed, (shared.all + behind) as f64 / touched);
    let atomic = touches.iter().filter(|touch| touch.sample.data.kind == AccessKind::Atomic).count();
    if 2 * atomic > touches.len() {
        // An atomic access is slow alone too, and unshared code needs none.
        return (told.0.max(told_by_pace.0).min(told.1), told.1);
    }
    both(told, told_by_pace)
}

/// Part of the shared `time` that is saved if the loop is faster alone by these factors (lower and upper
/// bound).
fn by_pace((low, high): (f64, f64), time: f64) -> (f64, f64) {
    let part = |speed: f64| (1.0 - 1.0 / speed.max(1.0)) * time;
    (part(low / CORE_SHARED), part(high * MOMENTS_SHORT))
}

/// Intersection of two estimates. If they contradict each other, the range that covers both.
fn both(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    let (low, high) = (a.0.max(b.0), a.1.min(b.1));
    if low <= high { (low, high) } else { (a.0.min(b.0), a.1.max(b.1)) }
}

/// The functions that call those which touch the memory, most of the times, and those that call them.
fn callers<'a>(trace: &'a Trace, touches: &[&Touch], same: &mut Functions<'a>) -> HashSet<FrameId> {
    let (mut callers, mut known) = (HashMap::<FrameId, usize>::new(), 0);
    for touch in touches {
        let frames: Vec<FrameId> =
            trace.stack_frames(touch.sample.stack).map(|frame| same.first_frame(trace, frame)).collect();
        let leaf = user_leaf(trace, &touch.sample).map(|frame| same.first_frame(trace, frame));
        let from = frames.iter().position(|frame| Some(*frame) == leaf).map_or(0, |leaf| leaf + 1);
        let above: BTreeSet<FrameId> = frames.iter().skip(from).take(CALLERS_MAX).copied().collect();
        known += usize::from(!above.is_empty());
        above.into_iter().for_each(|frame| *callers.entry(frame).or_default() += 1);
    }
    let often = |times: usize| times as f64 >= CALLS_MIN * known as f64 && known * 4 >= touches.len();
    callers.into_iter().filter(|(_, times)| often(*times)).map(|(frame, _)| frame).collect()
}

fn runs(trace: &Trace, thread: ThreadId, at: Timestamp) -> bool {
    let row = trace.slices.covering(thread, at);
    row.is_some_and(|row| trace.slices.at(thread, row).state == ThreadState::Running)
}

/// Saved share of the time. `behind` is the number of samples in functions that may wait for the results of
/// the accesses.
fn part(alone: Seen, shared: Seen, behind: u64) -> (f64, f64) {
    let touched = (alone.at_accesses + shared.at_accesses).max(1) as f64;
    let (p1, error1) = shared.share();
    let (p0, error0) = if alone.can_measure_rest() { alone.share() } else { Seen::default().share() };
    // Samples that would not be taken, for each share alone that is possible.
    let saved = |p0: f64, p1: f64| {
        let kept = ((1.0 - p1) / (1.0 - p0).max(f64::MIN_POSITIVE)).min(1.0);
        (1.0 - kept) * shared.all as f64 / touched
    };
    let low = saved((p0 + error0).min(1.0), (p1 - error1).max(0.0));
    let at_accesses = saved((p0 - error0).max(0.0), (p1 + error1).min(1.0)).clamp(0.0, 1.0);
    let beside_rest = |p: f64| p / (1.0 - p).max(f64::MIN_POSITIVE);
    let slower = beside_rest((p1 + error1).min(1.0)) / beside_rest((p0 - error0).max(f64::MIN_POSITIVE));
    let waits_behind = p1 >= MUCH && (slower >= SLOWER || alone.all < ALONE_MIN);
    let high = if waits_behind { (shared.all + behind) as f64 / touched } else { at_accesses };
    (low.clamp(0.0, 1.0), high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_difference_is_what_sharing_costs() {
        let seen = |all, at_accesses| Seen { all, at_accesses };
        // Alone 1 of 10 samples is at the access, shared 9 of 10: of 10,000 shared ones 1,111 would be left.
        let (low, high) = part(seen(100_000, 10_000), seen(10_000, 9_000), 0);
        let true_part = (10_000.0 - 1_000.0 / 0.9) / 19_000.0;
        assert!(low < true_part && true_part - low < 0.02, "{low} {true_part}");
        // 90 % of the shared time is at the access, so the code after it may wait too.
        assert!((high - 10_000.0 / 19_000.0).abs() < 1e-9, "{high}");
        // The callers may wait for the result as well.
        let high = part(seen(100_000, 10_000), seen(10_000, 9_000), 5_000).1;
        assert!((high - 15_000.0 / 19_000.0).abs() < 1e-9, "{high}");
        // The accesses are as slow relative to the rest as alone, so no code waits for them.
        let (low, high) = part(seen(10_000, 7_000), seen(10_000, 7_000), 5_000);
        assert!(low == 0.0 && high < 0.1, "{low} {high}");
        // The same shares shared and alone: nothing to gain.
        let (low, high) = part(seen(1_000, 300), seen(1_000, 300), 0);
        assert!(low == 0.0 && high < 0.3, "{low} {high}");
        // Alone, almost all samples are at the accesses. Their duration cannot be measured by the rest of the
        // code.
        let (low, high) = part(seen(78, 75), seen(1_452, 1_312), 0);
        assert!(low == 0.0 && high >= 0.9, "{low} {high}");
        // Counters show 10 to 14 times the speed alone. At least 80 % and at most 96 % of the shared time is
        // saved.
        let (low, high) = both((0.0, 1.2), by_pace((10.0, 14.0), 1.1));
        assert!((low - 0.88).abs() < 1e-9 && (high - 1.1 * (1.0 - 1.0 / 28.0)).abs() < 1e-9, "{low} {high}");
        // If the speed contradicts the shares, the range covers both.
        assert_eq!(both((0.6, 0.9), by_pace((1.0, 1.0), 1.0)), (0.0, 0.9));
        // A third of the samples is enough where the accesses are much slower than alone.
        let high = part(seen(400, 40), seen(1_000, 330), 0).1;
        assert!((high - 1_000.0 / 370.0).abs() < 1e-9, "{high}");
        // Never alone: anything is possible.
        let (low, high) = part(seen(0, 0), seen(1_000, 300), 0);
        assert!(low == 0.0 && (high - 1_000.0 / 300.0).abs() < 1e-9, "{low} {high}");
        // A few samples alone do not prove that it would not be faster.
        let (low, high) = part(seen(16, 10), seen(1_150, 490), 0);
        assert!(low == 0.0 && high > 2.0, "{low} {high}");
        // A small part of the loop is not what the rest waits for.
        let high = part(seen(0, 0), seen(1_000, 100), 0).1;
        assert!(high <= 1.0, "{high}");
    }
}
