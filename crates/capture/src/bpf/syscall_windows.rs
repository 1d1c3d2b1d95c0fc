//! Windows in which syscalls are counted (`bpf/calls.h`): opens a window and reads its counts. The caller
//! decides on the windows.

use std::os::fd::AsRawFd;
use std::time::Instant;

use libbpf_rs::{Link, Object};

use super::calls::{self, CallEntry};
use super::probe_cost::{ProbeTime, SYSCALL_PROBE};
use super::{programs, session};
use crate::error::CaptureError;
use crate::lower::now;

const PROGRAM: &str = "on_call_end";
/// The moment of opening or closing is known to half of this, else the window is given up (ns).
const DOUBT_MAX_NS: u64 = 20_000;
/// Minimum number of timed runs for a usable mean.
const TIMED_MIN: u64 = 16;

/// A window that is open.
pub(super) struct Window {
    start_ns: u64,
    /// Cost of the program before the window.
    before: ProbeTime,
    /// Dropping it detaches the program.
    link: Link,
}

/// The counts of a window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SyscallCounts {
    /// When it began (ns of CLOCK_MONOTONIC).
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// Mean time of the program in the window (ns). `None` if too few of its runs were timed.
    pub program_ns: Option<f64>,
    /// Content of the maps.
    pub entries: Vec<CallEntry>,
}

/// By how much counting makes a call slower, as tried on calls of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CallCost {
    /// In all (ns).
    pub call_ns: f64,
    /// The part of `call_ns` that the program measures itself (ns).
    pub program_ns: Option<f64>,
}

impl CallCost {
    /// For calls of which the program took `program_ns`: what the kernel spends around it is the same for all.
    pub fn for_call(&self, program_ns: Option<f64>) -> f64 {
        let more = program_ns.zip(self.program_ns).map_or(0.0, |(now, tried)| now - tried);
        (self.call_ns + more).max(0.0)
    }
}

impl Window {
    /// Attaches the program, and opens the window. `None` if this process was preempted during the call,
    /// because then the start is not known precisely.
    pub fn open(object: &Object) -> Result<Option<Window>, CaptureError> {
        let link = programs::attach_one(object, PROGRAM)?;
        let before = session::probe_time(object, SYSCALL_PROBE);
        match set(object, true)? {
            Some(start_ns) => Ok(Some(Window { start_ns, before, link })),
            None => {
                set(object, false)?;
                drop(link);
                calls::take(object)?;
                Ok(None)
            }
        }
    }

    /// When it began (ns of CLOCK_MONOTONIC).
    pub fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// Ends it, and reads and clears the counts. `None` if it is not known when it ended.
    pub fn close(self, object: &Object) -> Result<Option<SyscallCounts>, CaptureError> {
        let Window { start_ns, before, link } = self;
        let end_ns = set(object, false)?;
        drop(link);
        let program_ns = mean_ns(&before, &session::probe_time(object, SYSCALL_PROBE));
        let entries = calls::take(object)?;
        Ok(end_ns.map(|end_ns| SyscallCounts { start_ns, end_ns, program_ns, entries }))
    }
}

/// Turns counting on or off. Returns the time of the change, if it is known precisely enough.
fn set(object: &Object, open: bool) -> Result<Option<u64>, CaptureError> {
    let gate = calls::gate(object)?; // to find it takes longer than the moment may be in doubt
    let before = now();
    calls::set_gate(&gate, u32::from(open))?;
    let doubt_ns = now().since(before).0;
    Ok((doubt_ns <= DOUBT_MAX_NS).then(|| before.0.saturating_add(doubt_ns / 2)))
}

/// Mean time of the runs between two reads (ns).
fn mean_ns(before: &ProbeTime, after: &ProbeTime) -> Option<f64> {
    let timed = after.timed_runs.saturating_sub(before.timed_runs);
    (timed >= TIMED_MIN).then(|| after.timed_ns.saturating_sub(before.timed_ns) as f64 / timed as f64)
}

/// By how much counting makes a call slower: tried on calls of this process that do next to nothing. The
/// fastest of several rounds each way: what disturbs a round only makes it slower.
pub(super) fn cost_of_a_call(object: &Object) -> Result<CallCost, CaptureError> {
    const TRIES: usize = 10;
    let without = fastest_call_ns();
    for _ in 0..TRIES {
        if let Some(window) = Window::open(object)? {
            let (with, program_ns) = fastest(|| {
                let before = session::probe_time(object, SYSCALL_PROBE);
                (a_round_ns(), mean_ns(&before, &session::probe_time(object, SYSCALL_PROBE)))
            });
            window.close(object)?;
            return Ok(CallCost { call_ns: (with - without).max(0.0), program_ns });
        }
    }
    Ok(CallCost::default())
}

/// Mean time of a call in the fastest of several rounds (ns).
pub(super) fn fastest_call_ns() -> f64 {
    fastest(|| (a_round_ns(), ())).0
}

/// Returns the fastest of several rounds, with its observations.
fn fastest<T>(round: impl Fn() -> (f64, T)) -> (f64, T) {
    const ROUNDS: usize = 7;
    let mut best = round();
    for _ in 1..ROUNDS {
        let next = round();
        if next.0 < best.0 {
            best = next;
        }
    }
    best
}

/// Mean time of a call (ns).
fn a_round_ns() -> f64 {
    const CALLS: u32 = 1000;
    // lseek on an open device: fast, and takes a descriptor like most syscalls.
    let Ok(file) = std::fs::File::open("/dev/null") else { return 0.0 };
    let began = Instant::now();
    for _ in 0..CALLS {
        // SAFETY: the descriptor is open, and nothing is read or written.
        unsafe { libc::lseek(file.as_raw_fd(), 0, libc::SEEK_CUR) };
    }
    began.elapsed().as_nanos() as f64 / f64::from(CALLS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slower_programs_make_dearer_calls() {
        let cost = CallCost { call_ns: 300.0, program_ns: Some(180.0) };
        assert_eq!(
            (cost.for_call(None), cost.for_call(Some(180.0)), cost.for_call(Some(80.0))),
            (300.0, 300.0, 200.0)
        );
        assert_eq!(CallCost { program_ns: None, ..cost }.for_call(Some(80.0)), 300.0);
        assert_eq!(CallCost { call_ns: 10.0, program_ns: Some(50.0) }.for_call(Some(20.0)), 0.0);
    }

    #[test]
    fn a_mean_needs_timed_runs() {
        let time = |timed_runs, timed_ns| ProbeTime { timed_runs, timed_ns, ..ProbeTime::default() };
        assert_eq!(mean_ns(&time(4, 400), &time(24, 2400)), Some(100.0));
        assert_eq!(mean_ns(&time(4, 400), &time(8, 2400)), None);
    }
}
