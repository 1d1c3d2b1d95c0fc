//! `holdup watch`: a flight recorder. Events are kept in a ring in memory. When a trigger fires, they are
//! saved as a recording, with the time before and after it.

mod cooldown;
mod flight;
mod saver;
pub mod triggers;

use std::path::PathBuf;
use std::time::Duration;

use crate::live;

pub use flight::{Flight, Mark, Saving};
pub use saver::{Job, Report};
pub use triggers::Armed;

/// The user's limits.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Time before the moment at which a trigger fires.
    pub keep: Duration,
    /// Time after it.
    pub after: Duration,
    /// Memory for the ring (bytes).
    pub keep_bytes: u64,
    /// Recordings to save at most, except those that a signal asks for.
    pub max_saves: u32,
    /// Time after a recording in which no trigger saves, except by a signal.
    pub cooldown: Duration,
    /// Disk for all of them (bytes).
    pub quota: u64,
    /// Where they go: `NAME.holdup` becomes `NAME-1.holdup` and so on.
    pub output: Option<PathBuf>,
}

/// Configuration of a flight recorder.
pub struct Plan {
    /// How much is kept and saved.
    pub limits: Limits,
    /// When.
    pub triggers: Vec<Armed>,
    /// Processes whose threads may fire triggers.
    pub processes: triggers::Processes,
    /// Called for each recording.
    pub report: Report,
    /// The live view, if any.
    pub live: Option<live::Plan>,
    /// The pipes for the program's output, which triggers match.
    pub pipes: triggers::output::Pipes,
}
