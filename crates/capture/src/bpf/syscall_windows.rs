//! Windows in which syscalls are counted (`bpf/calls.h`): opening one, and reading what was counted.
//! When they are opened, and for how long, is decided elsewhere.

use std::os::fd::AsRawFd;
use std::time::Instant;

use libbpf_rs::{Link, Object};

use super::calls::{self, CallEntry};
use super::programs;
use crate::error::CaptureError;
use crate::lower::now;

const PROGRAM: &str = "on_call_end";
/// The moment of opening or closing is known to half of this, else the window is given up (ns).
const DOUBT_MAX_NS: u64 = 20_000;

/// A window that is open.
pub(super) struct Window {
    start_ns: u64,
    /// Dropping it detaches the program.
    link: Link,
}

/// What was counted in a window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyscallCounts {
    /// When it began (ns of CLOCK_MONOTONIC).
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// What the maps held.
    pub entries: Vec<CallEntry>,
}

impl Window {
    /// Attaches the program, and opens the window. `None` if this process was kept from its CPU meanwhile: when the
    /// window began is not known.
    pub fn open(object: &Object) -> Result<Option<Window>, CaptureError> {
        let link = programs::attach_one(object, PROGRAM)?;
        match set(object, true)? {
            Some(start_ns) => Ok(Some(Window { start_ns, link })),
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
        let Window { start_ns, link } = self;
        let end_ns = set(object, false)?;
        drop(link);
        let entries = calls::take(object)?;
        Ok(end_ns.map(|end_ns| SyscallCounts { start_ns, end_ns, entries }))
    }
}

/// From now on calls are counted, or not; gives the moment, if it is known well enough.
fn set(object: &Object, open: bool) -> Result<Option<u64>, CaptureError> {
    let gate = calls::gate(object)?; // to find it takes longer than the moment may be in doubt
    let before = now();
    calls::set_gate(&gate, u32::from(open))?;
    let doubt_ns = now().since(before).0;
    Ok((doubt_ns <= DOUBT_MAX_NS).then(|| before.0.saturating_add(doubt_ns / 2)))
}

/// By how much counting makes a call slower (ns): tried on calls of this process that do next to nothing. The
/// fastest of several rounds each way: what disturbs a round only makes it slower.
pub(super) fn cost_of_a_call(object: &Object) -> Result<u32, CaptureError> {
    const TRIES: usize = 10;
    let without = fastest_call_ns();
    for _ in 0..TRIES {
        if let Some(window) = Window::open(object)? {
            let with = fastest_call_ns();
            window.close(object)?;
            return Ok((with - without).max(0.0).round() as u32);
        }
    }
    Ok(0)
}

/// Mean time of a call in the fastest of several rounds (ns).
pub(super) fn fastest_call_ns() -> f64 {
    const ROUNDS: usize = 7;
    (0..ROUNDS).map(|_| a_round_ns()).fold(f64::INFINITY, f64::min)
}

/// Mean time of a call (ns).
fn a_round_ns() -> f64 {
    const CALLS: u32 = 1000;
    // Of a descriptor: what it is, is asked too.
    let Ok(file) = std::fs::File::open("/dev/null") else { return 0.0 };
    let began = Instant::now();
    for _ in 0..CALLS {
        // SAFETY: the descriptor is open; nothing is read or written.
        unsafe { libc::lseek(file.as_raw_fd(), 0, libc::SEEK_CUR) };
    }
    began.elapsed().as_nanos() as f64 / f64::from(CALLS)
}
