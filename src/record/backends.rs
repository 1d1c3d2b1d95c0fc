//! The backends of a recording, tried from the highest down: one that cannot be opened gives way to the next. A program that was
//! asked for runs in any case, without a recording if no backend can be opened.

use anyhow::{Result, bail};
use holdup_capture::launch::Ending;
use holdup_capture::{doctor, privileges};
use holdup_events::recording::Backend;

use super::Subject;
use crate::cli::BackendChoice;

/// The backends that are left to try.
pub struct Backends {
    current: Backend,
    /// The user insists on it.
    is_only: bool,
    /// The first that the user wants, if holdup did not choose.
    asked: bool,
    /// Why each higher backend is not used.
    reasons: Vec<String>,
}

impl Backends {
    /// The highest backend of `choice` that this machine seems to allow.
    ///
    /// # Errors
    /// `choice` or `subject` needs BPF, which is not available.
    pub fn choose(choice: BackendChoice, subject: &Subject) -> Result<Backends> {
        let examined = || doctor::best_backend(&doctor::examine());
        let (current, reason) = match choice {
            BackendChoice::Auto => examined(),
            BackendChoice::Bpf => match examined() {
                (Backend::Bpf, _) => (Backend::Bpf, String::new()),
                (_, reason) => bail!("--backend bpf is not available here: {reason}. See `holdup doctor`"),
            },
            BackendChoice::Perf => (Backend::Perf, String::new()),
            BackendChoice::Proc => (Backend::Proc, String::new()),
        };
        let is_only = matches!(choice, BackendChoice::Bpf) || matches!(subject, Subject::All);
        if matches!(subject, Subject::All) && current != Backend::Bpf {
            let reason = if reason.is_empty() { "another backend was asked for".to_owned() } else { reason };
            bail!("--all needs BPF, which is not available here: {reason}. See `holdup doctor`");
        }
        let reasons = Some(reason).filter(|reason| !reason.is_empty()).into_iter().collect();
        Ok(Backends { current, is_only, asked: choice != BackendChoice::Auto, reasons })
    }

    /// The backend to try.
    pub fn current(&self) -> Backend {
        self.current
    }

    /// Why no better backend records. Empty for the best one.
    pub fn reason(&self) -> String {
        match self.reasons.is_empty() && self.asked && self.current != Backend::Bpf {
            true => "asked for with --backend".to_owned(),
            false => self.reasons.join("; "),
        }
    }

    /// Goes on with the next backend.
    ///
    /// # Errors
    /// `error`, why the current one could not be opened, if there is no other.
    pub fn next_after(&mut self, error: anyhow::Error) -> Result<()> {
        let next = match self.current {
            Backend::Bpf => Backend::Perf,
            Backend::Perf => Backend::Proc,
            Backend::Proc => return Err(error),
        };
        if self.is_only {
            return Err(error);
        }
        // Taken up for the recording that is not made.
        privileges::restore_priority();
        let reason = one_line(&error);
        self.reasons.push(match self.reasons.is_empty() {
            true => reason,
            false => format!("perf events are not available: {reason}"),
        });
        self.current = next;
        Ok(())
    }

    /// Whether a program runs though no backend can be opened: not if the user insists on one.
    pub fn may_run_without(&self, subject: &Subject) -> bool {
        !self.is_only && matches!(subject, Subject::Run(..))
    }

    /// Prints which backend records, unless it is the highest or the one that the user named.
    pub fn announce(&self) {
        if !self.reasons.is_empty() {
            let instead = match self.current {
                Backend::Bpf => return,
                Backend::Perf => "with perf events",
                Backend::Proc => "by polling /proc",
            };
            let missing = if self.asked { "the backend that was asked for" } else { "BPF" };
            say!("holdup: {missing} is not available: {}. Recording {instead} instead", self.reason());
        }
    }
}

/// An error with its causes, without line breaks.
fn one_line(error: &anyhow::Error) -> String {
    let text = holdup_report::text::clean_lines(&format!("{error:#}"));
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

/// Runs the program of `subject` without a recording, and prints the reason.
///
/// # Errors
/// `why` if `subject` has no program to start, or an error if the program cannot be run.
pub fn run_unrecorded(subject: Subject, why: anyhow::Error) -> Result<Ending> {
    let Subject::Run(held, _) = subject else { return Err(why) };
    say!("holdup: nothing is recorded: {}. The program runs without it", one_line(&why));
    Ok(held.release()?.wait())
}
