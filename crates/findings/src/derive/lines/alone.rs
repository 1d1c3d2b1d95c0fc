//! What accesses to shared memory would cost if nobody else touched it: as told by the moments in which nobody did.
//!
//! Threads are preempted, begin and end at different times, and wait: in some samples a thread is in the same code while no other
//! thread that touches the memory runs. If of these the share at the accesses is smaller, the difference is what
//! sharing costs. Let `p` be the share of samples at the accesses among all in the functions that have them, shared
//! (`p1`) and alone (`p0`). If the rest of the code takes as long either way, the shared time shrinks to
//! `(1 - p1) / (1 - p0)` of itself. The rest need not: where much of the time goes by at the accesses, what is behind them
//! waits, too, for the value or because the CPU begins it anew when a line is taken away. So at the most all of the
//! functions' shared time would go, unless enough moments alone show that the accesses are as slow beside the rest then; and
//! that of functions which mostly call them, if they take no longer than these do: they wait for what is returned.
//!
//! Where registers count what the loop does ([`super::pace`]), its speed alone is known, whatever the rest is: of the shared
//! time `1 - 1 / speed` goes. A part of that may be that the other threads leave a core to it which has two CPUs. Atomic
//! accesses are slow alone, too, and whoever shares nothing needs none: that speed is only a lower end of what goes then.

use std::collections::{BTreeSet, HashMap, HashSet};

use holdup_events::tables::{AccessKind, ThreadState};
use holdup_events::{FrameId, ThreadId, Timestamp, Trace};

use super::Touch;
use super::pace::Paces;
use crate::derive::spin::{Functions, user_leaf};
use crate::derive::split::share_error;

/// Threads that are looked for at each moment.
const THREADS_MAX: usize = 64;

/// From this share of their functions' samples on, accesses may be what these wait for: a store that waits for its line holds up the
/// loads and the jump behind it as soon as the CPU has no room for more, and samples are told of these. Of a loop of three instructions
/// that went ten times as fast alone, 40 to 70 % of the samples hit the access, from machine to machine.
const MUCH: f64 = 0.25;
/// Fewer samples alone than this do not tell that the accesses are as slow then.
const ALONE_MIN: u64 = 40;
/// A function makes so many of the calls whose caller is known, or it is one of many callers.
const CALLS_MIN: f64 = 0.75;
/// So many levels of callers may wait for what is read.
const CALLERS_MAX: usize = 3;
/// Accesses that are not slower than this beside the rest of the code, in terms of how slow they are alone, are not what
/// the rest could wait for.
const SLOWER: f64 = 1.5;
/// Where less of the moments alone than this is beside the accesses, the rest passes behind them, and is no measure.
const REST_MIN: f64 = 0.1;
/// Alone a thread may go so many times as fast only because the CPU beside its own is idle: the two may be one core.
const CORE_SHARED: f64 = 2.0;
/// And at the most so many times as fast as in the moments alone if these did not end, each of which begins with lines that
/// others had: counters of two neighbours went 10 and 12 times as fast in such moments, and 13 times once they lay apart.
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

    /// There is enough beside the accesses to measure them by.
    fn rest_tells(self) -> bool {
        self.share().0 <= 1.0 - REST_MIN
    }
}

/// What would not be needed if nobody else touched the memory, from and to, in terms of the time at these accesses (1 is
/// all of that; more is time of what waits behind them).
pub fn saved(trace: &Trace, touches: &[&Touch]) -> (f64, f64) {
    let mut same = Functions::default();
    let mut functions: HashSet<FrameId> = HashSet::new();
    let mut threads: BTreeSet<ThreadId> = BTreeSet::new();
    let mut at_accesses: HashSet<(ThreadId, Timestamp)> = HashSet::new();
    for touch in touches {
        functions.extend(user_leaf(trace, &touch.sample).map(|frame| same.of(trace, frame)));
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
            let function = same.of(trace, frame);
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
        // An atomic access is slow alone, too; who shares nothing needs none.
        return (told.0.max(told_by_pace.0).min(told.1), told.1);
    }
    both(told, told_by_pace)
}

/// What goes of the shared `time`, if the loop is so many times as fast alone (from, to).
fn by_pace((low, high): (f64, f64), time: f64) -> (f64, f64) {
    let part = |speed: f64| (1.0 - 1.0 / speed.max(1.0)) * time;
    (part(low / CORE_SHARED), part(high * MOMENTS_SHORT))
}

/// What two ways agree on; all that either says, if they contradict each other.
fn both(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    let (low, high) = (a.0.max(b.0), a.1.min(b.1));
    if low <= high { (low, high) } else { (a.0.min(b.0), a.1.max(b.1)) }
}

/// The functions that call those which touch the memory, most of the times, and those that call them.
fn callers<'a>(trace: &'a Trace, touches: &[&Touch], same: &mut Functions<'a>) -> HashSet<FrameId> {
    let (mut callers, mut known) = (HashMap::<FrameId, usize>::new(), 0);
    for touch in touches {
        let frames: Vec<FrameId> =
            trace.stack_frames(touch.sample.stack).map(|frame| same.of(trace, frame)).collect();
        let leaf = user_leaf(trace, &touch.sample).map(|frame| same.of(trace, frame));
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

/// `behind`: samples in a function that may wait for what those at the accesses return.
fn part(alone: Seen, shared: Seen, behind: u64) -> (f64, f64) {
    let touched = (alone.at_accesses + shared.at_accesses).max(1) as f64;
    let (p1, error1) = shared.share();
    let (p0, error0) = if alone.rest_tells() { alone.share() } else { Seen::default().share() };
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
        // Nine tenths of the shared time is at the access: what is behind may wait for that, too.
        assert!((high - 10_000.0 / 19_000.0).abs() < 1e-9, "{high}");
        // And whoever waits for what these functions return.
        let high = part(seen(100_000, 10_000), seen(10_000, 9_000), 5_000).1;
        assert!((high - 15_000.0 / 19_000.0).abs() < 1e-9, "{high}");
        // As slow beside the rest as alone: nothing waits behind.
        let (low, high) = part(seen(10_000, 7_000), seen(10_000, 7_000), 5_000);
        assert!(low == 0.0 && high < 0.1, "{low} {high}");
        // The same either way: nothing to gain.
        let (low, high) = part(seen(1_000, 300), seen(1_000, 300), 0);
        assert!(low == 0.0 && high < 0.3, "{low} {high}");
        // Alone there is nothing but the accesses: how long these take does not show beside the rest.
        let (low, high) = part(seen(78, 75), seen(1_452, 1_312), 0);
        assert!(low == 0.0 && high >= 0.9, "{low} {high}");
        // Counters say that it is 10 to 14 times as fast alone: at most, 96 % of the shared time goes; at least, 80 %.
        let (low, high) = both((0.0, 1.2), by_pace((10.0, 14.0), 1.1));
        assert!((low - 0.88).abs() < 1e-9 && (high - 1.1 * (1.0 - 1.0 / 28.0)).abs() < 1e-9, "{low} {high}");
        // Where they contradict the shares, nobody is believed.
        assert_eq!(both((0.6, 0.9), by_pace((1.0, 1.0), 1.0)), (0.0, 0.9));
        // A third of the samples is enough where the accesses are much slower than alone.
        let high = part(seen(400, 40), seen(1_000, 330), 0).1;
        assert!((high - 1_000.0 / 370.0).abs() < 1e-9, "{high}");
        // Never alone: anything is possible.
        let (low, high) = part(seen(0, 0), seen(1_000, 300), 0);
        assert!(low == 0.0 && (high - 1_000.0 / 300.0).abs() < 1e-9, "{low} {high}");
        // Nor do a few moments tell that it would not be faster.
        let (low, high) = part(seen(16, 10), seen(1_150, 490), 0);
        assert!(low == 0.0 && high > 2.0, "{low} {high}");
        // A small part of the loop is not what the rest waits for.
        let high = part(seen(0, 0), seen(1_000, 100), 0).1;
        assert!(high <= 1.0, "{high}");
    }
}
