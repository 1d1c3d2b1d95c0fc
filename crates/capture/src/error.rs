//! What can go wrong in capture, with what to do about it.

use std::io;

/// An error of capture.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The kernel refused the programs.
    #[error("the kernel refused holdup's BPF programs: {reason}")]
    Refused {
        /// Messages of libbpf and the verifier.
        reason: String,
    },
    /// A perf event cannot be opened.
    #[error("{what}: {reason}")]
    Event {
        /// Purpose of the event.
        what: &'static str,
        /// Why the kernel refused it, with the remedy if there is one.
        reason: String,
    },
    /// A tracepoint is not available.
    #[error("{reason}")]
    Tracepoint {
        /// Why.
        reason: String,
    },
    /// A function of a program cannot be probed.
    #[error("{reason}")]
    Probe {
        /// Why, and what helps.
        reason: String,
    },
    /// The command cannot be started.
    #[error("cannot run {command}: {error}")]
    Command {
        /// As given.
        command: String,
        /// The cause, already part of the message.
        error: io::Error,
    },
    /// A condition under which it was to be started cannot be set.
    #[error("cannot set {name} for the program: {reason}")]
    Condition {
        /// Which.
        name: &'static str,
        /// Why.
        reason: String,
    },
    /// There is no such process.
    #[error("there is no process {pid}")]
    NoProcess {
        /// The number given.
        pid: u32,
    },
    /// A system call of capture itself failed.
    #[error("{what}: {error}")]
    System {
        /// The attempted operation.
        what: &'static str,
        /// The cause, already part of the message.
        error: io::Error,
    },
}

impl CaptureError {
    /// The error of the last system call.
    pub(crate) fn last(what: &'static str) -> CaptureError {
        CaptureError::System { what, error: io::Error::last_os_error() }
    }
}
