//! The two backends without BPF.
//!
//! [`perf::PerfBackend`] uses `perf_event_open` as an ordinary user: exact running times, samples with stacks,
//! and waits from polling. [`proc::ProcBackend`] polls /proc, so all of its data is sampled. Both return
//! [`Event`]s in time order. `doctor` and the caller choose the backend.

mod access;
mod ordered;
pub mod perf;
pub mod proc;
pub mod procfs;
mod waits;

use std::io;
use std::time::Duration;

use holdup_events::Event;
use holdup_events::recording;

pub use access::hidden;

/// How the target came to be recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// A child started by holdup, suspended until the backend is ready.
    #[default]
    Run,
    /// A process that runs already, with those that it has started and will start.
    Attach,
    /// A process that runs already, without any other.
    Only,
}

/// The target of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// The process. `mode` determines whether other processes belong to it.
    pub pid: u32,
    /// How it came to be recorded.
    pub mode: Mode,
    /// On-CPU samples per second of CPU time. 0 for none.
    pub sample_hz: u32,
}

/// A source of events that needs no BPF.
pub trait Backend {
    /// Passes on the events since the last call, in time order. Call it about every [`Backend::interval`]. More
    /// frequent calls are harmless.
    fn drain(&mut self, sink: &mut dyn FnMut(Event));

    /// Passes on the rest. Call it once, when the target has exited or the recording ends.
    fn finish(&mut self, sink: &mut dyn FnMut(Event));

    /// Kind of the backend.
    fn backend(&self) -> recording::Backend;

    /// How long to wait between two drains.
    fn interval(&self) -> Duration {
        Duration::from_millis(5)
    }

    /// Returns the features that this backend lacks on this machine, as text. Empty if none.
    fn missing(&self) -> String {
        String::new()
    }
}

/// Starts `backend` on `target`. `Backend::Bpf` is not made here: `Unsupported`.
pub fn open(backend: recording::Backend, target: &Target) -> io::Result<Box<dyn Backend>> {
    match backend {
        recording::Backend::Bpf => Err(io::ErrorKind::Unsupported.into()),
        recording::Backend::Perf => Ok(Box::new(perf::PerfBackend::open(target)?)),
        recording::Backend::Proc => Ok(Box::new(proc::ProcBackend::open(target)?)),
    }
}

/// Now, on the clock of all events.
pub fn now() -> holdup_events::Timestamp {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec behind the pointer.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    holdup_events::Timestamp(
        (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64),
    )
}

/// CPU time of the calling thread (ns): what a poll costs.
pub fn thread_cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec behind the pointer.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
}
