//! What the trace means: the ledger and other derived facts, and the rules that judge them.
//! Pure functions from a frozen [`holdup_events::Trace`]: no I/O, no clock, no randomness.

pub mod analysis;
mod counted_calls;
mod low_cpu_waiters;

pub mod chain;
pub mod charge;
mod collecting;
pub mod computing;
pub mod derive;
pub mod descriptors;
pub mod experiment;
mod failing;
pub mod finding;
mod gains;
pub mod glance;
mod haskell_names;
mod known_waits;
mod lateness;
pub mod merging;
pub mod moment;
mod removal;
mod rings;
pub mod rule;
pub mod rules;
pub mod scene;
mod service_findings;
mod sharing;
mod short_lived;
mod starting_up;
mod thread_functions;
pub mod too_short;
pub mod what_if;
pub mod wording;

pub use analysis::{Analysis, analyse, analyse_with};
pub use finding::{Confidence, Evidence, Finding, Gain};
