//! Cache line of a lock's word: the cost of its transfers between CPUs.
//!
//! A lock that several CPUs use in turns costs time at each acquisition and release, because the instruction
//! waits for the line. This holds even if no thread sleeps for the lock. The recording has the samples that
//! touched the line ([`super::lines`]). They do not depend on function names or inlining.

use std::collections::BTreeMap;

use holdup_events::tables::{AccessKind, SampleRow};
use holdup_events::{ProcessId, ThreadId, Timestamp, Trace, WaitReason};

use super::lines::{LINE_BYTES, TURNS_MIN};
use super::locks::LockIndex;

/// Cost of an atomic access (0 to 1) that remains if no other CPU takes the line away. Measured for an
/// addition: 5.5 of 16 ns. The two CPUs, on one chip, did nothing else and therefore kept the line for
/// several accesses. With other work in between, or more distant CPUs, the remainder is smaller.
const ALONE_LEFT: f64 = 0.35;
/// Expected share of turns for two threads that use a line at random: every second sample is by the other
/// thread. Fewer turns mean fewer transfers.
const TURNS_BY_CHANCE: f64 = 0.5;

/// Lines that hold locks and that CPUs take from each other.
pub struct LockLines {
    /// By line: share of an access that is the transfer from another CPU (0 to 1).
    of_line: BTreeMap<(ProcessId, u64), f64>,
    /// By lock: its line.
    of_lock: Vec<Option<(ProcessId, u64)>>,
}

/// A sample at such a line.
type Touch = (Timestamp, ThreadId, holdup_events::CpuId);

impl LockLines {
    /// Evaluates the samples that touched the locks' lines.
    pub fn new(trace: &Trace, locks: &LockIndex) -> LockLines {
        let line = |&(process, object, reason): &(ProcessId, u64, WaitReason)| {
            (reason == WaitReason::Lock).then_some((process, object / LINE_BYTES))
        };
        let of_lock: Vec<_> = locks.locks.iter().map(line).collect();
        let mut touches: BTreeMap<(ProcessId, u64), Vec<Touch>> =
            of_lock.iter().flatten().map(|line| (*line, Vec::new())).collect();
        for thread in trace.target_threads() {
            let process = trace.threads[thread.index()].process;
            for sample in super::samples_of(trace, thread) {
                if let Some(touches) = line_of(process, sample).and_then(|line| touches.get_mut(&line)) {
                    touches.push((sample.at, thread, sample.cpu));
                }
            }
        }
        let of_line = touches.into_iter().map(|(line, touches)| (line, way_of(touches))).collect();
        LockLines { of_line, of_lock }
    }

    /// Share (0 to 1) of a sample that is a transfer of the lock's line from another CPU.
    pub fn share(&self, trace: &Trace, lock: u32, sample: &SampleRow) -> f64 {
        let own = self.of_lock.get(lock as usize).copied().flatten();
        let process = trace.threads.get(sample.thread.index()).map(|thread| thread.process);
        let touched = process.and_then(|process| line_of(process, sample));
        match own.filter(|own| touched == Some(*own)) {
            Some(line) => self.of_line.get(&line).copied().unwrap_or(0.0),
            None => 0.0,
        }
    }
}

fn line_of(process: ProcessId, sample: &SampleRow) -> Option<(ProcessId, u64)> {
    (sample.data.kind != AccessKind::None).then_some((process, sample.data.address / LINE_BYTES))
}

/// Which part of accesses to a line is its way from another CPU (0 to 1).
fn way_of(mut touches: Vec<Touch>) -> f64 {
    touches.sort_unstable();
    let turns =
        touches.windows(2).filter(|pair| pair[0].1 != pair[1].1 && pair[0].2 != pair[1].2).count() as u64;
    let count = touches.len() as u64;
    if turns < TURNS_MIN {
        return 0.0;
    }
    // Locks are acquired and released by atomic instructions.
    (turns as f64 / (count as f64 * TURNS_BY_CHANCE)).min(1.0) * (1.0 - ALONE_LEFT)
}

#[cfg(test)]
mod tests {
    use holdup_events::CpuId;

    use super::*;

    fn touches(on: impl Fn(u64) -> u32) -> Vec<Touch> {
        (0..100).map(|at| (Timestamp(at), ThreadId(on(at)), CpuId(on(at) as u16))).collect()
    }

    #[test]
    fn a_line_that_two_take_in_turns_is_paid_for_and_one_that_is_used_one_after_the_other_is_not() {
        let in_turns = way_of(touches(|at| (at % 2) as u32));
        assert!(in_turns > 0.6, "{in_turns}");
        assert_eq!(way_of(touches(|at| u32::from(at > 50))), 0.0);
        let now_and_then = way_of(touches(|at| (at / 10 % 2) as u32));
        assert!(now_and_then > 0.0 && now_and_then < 0.2, "{now_and_then}");
    }
}
