//! Whether work that waits in turn for a lock is one job, of which the threads take pieces.
//!
//! A replay leaves each thread its recorded work. If threads take pieces of one job in turn, the thread that
//! got the lock most often did the most. Without the lock they would share the job evenly.

use std::collections::BTreeMap;

use holdup_events::{FrameId, ThreadId, Trace};

use crate::charge::Charge;
use crate::derive::own_places::{OwnFrames, Places};
use crate::derive::samples_of;

/// Minimum number of samples to identify a thread's work.
const SAMPLES_MIN: u64 = 20;
/// Threads that do the same job have this part of their time in common with all of them.
const ALIKE_MIN: f64 = 0.7;

/// Whether the threads whose waits are charged all do the same work, as far as samples show it.
pub(in crate::rules) fn is_one_job(trace: &Trace, charge: &Charge) -> bool {
    let mut threads: Vec<ThreadId> = charge.slices(trace).map(|slice| slice.thread).collect();
    threads.dedup();
    let own = OwnFrames::new(trace);
    let mut places = Places::new(trace, &own);
    let mut of_threads: Vec<BTreeMap<FrameId, u64>> = Vec::new();
    for thread in threads {
        let mut of_thread: BTreeMap<FrameId, u64> = BTreeMap::new();
        let frames = samples_of(trace, thread).iter().filter_map(|sample| places.nearest_own(sample.stack));
        frames.for_each(|frame| *of_thread.entry(frame).or_default() += 1);
        if of_thread.values().sum::<u64>() >= SAMPLES_MIN {
            of_threads.push(of_thread);
        }
    }
    let mut all: BTreeMap<FrameId, u64> = BTreeMap::new();
    for (frame, samples) in of_threads.iter().flatten() {
        *all.entry(*frame).or_default() += samples;
    }
    of_threads.len() >= 2 && of_threads.iter().all(|one| in_common(one, &all) >= ALIKE_MIN)
}

/// Which part (0 to 1) of one distribution is in the other.
fn in_common(one: &BTreeMap<FrameId, u64>, all: &BTreeMap<FrameId, u64>) -> f64 {
    let whole = |of: &BTreeMap<FrameId, u64>| of.values().sum::<u64>().max(1) as f64;
    let (of_one, of_all) = (whole(one), whole(all));
    let share = |of: &BTreeMap<FrameId, u64>, frame: &FrameId, whole: f64| {
        of.get(frame).copied().unwrap_or(0) as f64 / whole
    };
    one.keys().map(|frame| share(one, frame, of_one).min(share(all, frame, of_all))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_have_in_common_is_the_lesser_part_of_each_place() {
        let of = |parts: &[(u32, u64)]| parts.iter().map(|(frame, n)| (FrameId(*frame), *n)).collect();
        let one: BTreeMap<FrameId, u64> = of(&[(1, 50), (2, 50)]);
        assert!((in_common(&one, &of(&[(1, 5), (2, 5)])) - 1.0).abs() < 1e-9);
        assert!((in_common(&one, &of(&[(1, 1), (3, 1)])) - 0.5).abs() < 1e-9);
        assert!(in_common(&one, &of(&[(4, 9)])) < 1e-9);
    }
}
