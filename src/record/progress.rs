//! Prints slow phases before and after a recording on standard error. On a busy machine the kernel takes
//! seconds to verify BPF programs. Symbols and causes are only resolved after the recording.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Shorter phases are not printed.
const LONG: Duration = Duration::from_secs(2);

/// Whether lines are wanted, and since when the command runs.
pub struct Progress {
    is_wanted: bool,
    started: Instant,
}

impl Progress {
    /// Called when the command starts. Prints nothing unless `is_wanted`.
    pub fn new(is_wanted: bool) -> Progress {
        Progress { is_wanted, started: Instant::now() }
    }

    /// The recording begins now.
    pub fn recording_begins(&self) {
        if let Some(line) = began_late(self.started.elapsed()).filter(|_| self.is_wanted) {
            say!("holdup: {line}");
        }
    }

    /// Starts a phase, which ends when the result is dropped. Prints `what` if it takes long.
    pub fn phase(&self, what: &'static str) -> Option<Phase> {
        self.is_wanted.then(|| Phase::start(LONG, move || say!("holdup: {what}")))
    }
}

/// Returns the note if recording began this late after the command.
fn began_late(after: Duration) -> Option<String> {
    (after > LONG).then(|| format!("recording began after {:.1} s of preparation", after.as_secs_f64()))
}

/// Something that may take long.
pub struct Phase {
    /// Closed at its end.
    end: Option<Sender<()>>,
    waiter: Option<JoinHandle<()>>,
}

impl Phase {
    /// Calls `tell` unless the phase ends within `long`. If no thread can be started, nothing is printed.
    fn start(long: Duration, tell: impl FnOnce() + Send + 'static) -> Phase {
        let (end, ended) = channel();
        let wait = move || {
            if ended.recv_timeout(long) == Err(RecvTimeoutError::Timeout) {
                tell();
            }
        };
        let waiter = std::thread::Builder::new().name("progress".to_owned()).spawn(wait).ok();
        Phase { end: Some(end), waiter }
    }
}

impl Drop for Phase {
    fn drop(&mut self) {
        self.end = None;
        let _ = self.waiter.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_phase_is_reported_while_it_runs() {
        let (tell, told) = channel();
        let phase = Phase::start(Duration::ZERO, move || tell.send(()).unwrap());
        assert_eq!(told.recv(), Ok(()));
        drop(phase);
    }

    #[test]
    fn a_phase_that_ends_before_is_not() {
        let (tell, told) = channel::<()>();
        drop(Phase::start(Duration::from_secs(1_000_000), move || tell.send(()).unwrap()));
        assert!(told.recv().is_err());
    }

    #[test]
    fn only_a_late_start_is_reported() {
        assert_eq!(began_late(Duration::from_millis(1_900)), None);
        let line = began_late(Duration::from_millis(4_260));
        assert_eq!(line.as_deref(), Some("recording began after 4.3 s of preparation"));
    }

    #[test]
    fn progress_is_printed_only_on_request() {
        assert!(Progress::new(false).phase("").is_none());
        assert!(Progress::new(true).phase("").is_some());
    }
}
