//! `holdup watch`: a flight recorder. What is recorded goes round in memory, and is saved as a recording when a trigger fires,
//! with the time before and after it.

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

/// What the user asked for.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Time before the moment at which a trigger fires.
    pub keep: Duration,
    /// Time after it.
    pub after: Duration,
    /// Memory for what goes round (bytes).
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

/// What a flight recorder is made of.
pub struct Plan {
    /// How much is kept and saved.
    pub limits: Limits,
    /// When.
    pub triggers: Vec<Armed>,
    /// Whose threads may fire.
    pub processes: triggers::Processes,
    /// What to do with each recording.
    pub report: Report,
    /// Who looks at it meanwhile, and how often.
    pub live: Option<live::Plan>,
    /// Through which the program writes what triggers look at.
    pub pipes: triggers::output::Pipes,
}
