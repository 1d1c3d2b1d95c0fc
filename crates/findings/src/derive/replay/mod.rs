//! What-if: the recorded run again, with something changed.
//!
//! The trace is made into a model ([`build`]): each thread a list of steps (it runs for so long, waits for what
//! another thread does at one of its steps, waits for a clock or a device), the CPUs as many servers, other programs as
//! load that comes when it came. [`engine`] runs it. A forecast is the ratio of two such runs, with and without the
//! change, under each of two rules of who goes first ([`Grants`]): as it was recorded, and first come, first served.
//!
//! Threads that go on until they are told to stop do as much as there is time for ([`Endings`]); the others' work is given. Where
//! a timer decides when they are told, the answer is how long the same work would take: a gain in work per second. Who keeps house
//! does as much of it as the run lasts, and a wait with a time-out ends when what it is for comes earlier ([`naps`]).
//!
//! What it cannot know: waits that would come to be only after the change (a lock that nobody waited for, a queue
//! that was never empty), work that would be divided otherwise, and effects on caches and memory.

mod at_once;
mod build;
mod change;
mod endings;
mod engine;
mod following;
mod forecast;
mod kept_cpus;
mod lag;
mod naps;
mod preempting;
mod speed;
mod steps;
mod strangers;

pub use build::{Facts, build};
pub use change::{Change, Edit};
pub use endings::Endings;
pub use engine::{Grants, Outcome, run};
pub use forecast::{Forecast, Replays, forecast, forecast_between, unforeseen};
pub use speed::Speed;
pub use steps::Model;
