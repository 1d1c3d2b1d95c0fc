//! Windows in which syscalls are counted (`bpf/syscalls.h`): opening one, and reading what was counted.
//! When they are opened, and for how long, is decided elsewhere.

use std::time::Instant;

use libbpf_rs::{Link, Map, MapCore, MapFlags, Object};

use super::messages;
use crate::error::CaptureError;
use crate::lower::now;

const PROGRAM: &str = "on_syscall";
/// Between the moment when a window is announced and its begin: longer than the announcement takes.
const LEAD_NS: u64 = 50_000;

/// A window that is open.
pub(super) struct Window {
    start_ns: u64,
    end_ns: u64,
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
    /// Process (tgid), number of the syscall, how often; by process, then number.
    pub counts: Vec<(u32, i32, u64)>,
}

impl Window {
    /// Attaches the program, and opens the window. `None` if this process was kept from its CPU meanwhile: the
    /// window would not be whole.
    pub fn open(object: &Object, length_ns: u64) -> Result<Option<Window>, CaptureError> {
        let refused = |error| CaptureError::Refused { reason: messages::reason(&error) };
        let program = object.progs_mut().find(|program| program.name() == PROGRAM);
        let program =
            program.ok_or_else(|| CaptureError::Refused { reason: format!("no program {PROGRAM}") })?;
        let link = program.attach().map_err(refused)?;
        let start_ns = now().0.saturating_add(LEAD_NS);
        let window = Window { start_ns, end_ns: start_ns.saturating_add(length_ns), link };
        announce(object, window.start_ns, window.end_ns)?;
        if now().0 >= start_ns {
            window.close(object)?;
            return Ok(None);
        }
        Ok(Some(window))
    }

    /// When it ends (ns of CLOCK_MONOTONIC).
    pub fn end_ns(&self) -> u64 {
        self.end_ns
    }

    /// Ends it, now if it is not over yet, and reads and clears the counts.
    pub fn close(self, object: &Object) -> Result<SyscallCounts, CaptureError> {
        let Window { start_ns, mut end_ns, link } = self;
        let at = now().0;
        if at < end_ns {
            announce(object, start_ns, at)?;
            end_ns = at.max(start_ns);
        }
        drop(link);
        announce(object, 0, 0)?;
        Ok(SyscallCounts { start_ns, end_ns, counts: take_counts(object)? })
    }
}

fn map<'a>(object: &'a Object, name: &str) -> Result<Map<'a>, CaptureError> {
    let found = object.maps().find(|map| map.name() == name);
    found.ok_or_else(|| CaptureError::Refused { reason: format!("no map {name}") })
}

/// From when until when calls count (`struct syscall_window`).
fn announce(object: &Object, start_ns: u64, end_ns: u64) -> Result<(), CaptureError> {
    let mut value = [0; 16];
    for (field, number) in value.chunks_exact_mut(8).zip([start_ns, end_ns]) {
        field.copy_from_slice(&number.to_ne_bytes());
    }
    let updated = map(object, "syscall_window")?.update(&0u32.to_ne_bytes(), &value, MapFlags::ANY);
    updated.map_err(|error| CaptureError::Refused { reason: messages::reason(&error) })
}

fn take_counts(object: &Object) -> Result<Vec<(u32, i32, u64)>, CaptureError> {
    let map = map(object, "syscall_counts")?;
    let keys: Vec<Vec<u8>> = map.keys().collect();
    let mut counts = Vec::new();
    for key in keys {
        let by_cpu = map.lookup_percpu(&key, MapFlags::ANY).ok().flatten().unwrap_or_default();
        let count = by_cpu.iter().map(|value| super::session::number(value, 0, 8)).sum();
        // Deleting what is there is not refused.
        let _ = map.delete(&key);
        let tgid = super::session::number(&key, 0, 4) as u32;
        if tgid != std::process::id() {
            counts.push((tgid, super::session::number(&key, 4, 4) as u32 as i32, count));
        }
    }
    counts.sort_unstable();
    Ok(counts)
}

/// By how much counting makes a call slower (ns): tried on calls of this process that do next to nothing. The
/// fastest of several rounds each way: what disturbs a round only makes it slower.
pub(super) fn cost_of_a_call(object: &Object) -> Result<u32, CaptureError> {
    const ROUNDS: usize = 7;
    let fastest = || (0..ROUNDS).map(|_| a_round_ns()).fold(f64::INFINITY, f64::min);
    let without = fastest();
    let Some(window) = Window::open(object, 1_000_000_000)? else { return Ok(0) };
    while now().0 < window.start_ns {}
    let with = fastest();
    window.close(object)?;
    Ok((with - without).max(0.0).round() as u32)
}

/// Mean time of a call (ns).
fn a_round_ns() -> f64 {
    const CALLS: u32 = 1000;
    let began = Instant::now();
    for _ in 0..CALLS {
        // SAFETY: takes nothing and cannot fail.
        unsafe { libc::getppid() };
    }
    began.elapsed().as_nanos() as f64 / f64::from(CALLS)
}
