//! What-if: replays the recorded run with a change.
//!
//! [`build`] turns the trace into a model. Each thread is a list of steps. A step runs for a time, waits for
//! a step of another thread, or waits for a clock or a device. CPUs are servers. Other programs are a load
//! that arrives at its recorded times. [`engine`] runs the model.
//!
//! A forecast is the ratio of two runs, with and without the change. It is made under both dispatch orders
//! ([`Grants`]): the recorded order, and first come, first served.
//!
//! Threads that run until a stop request do as much as the time allows ([`Endings`]). The work of the other
//! threads is fixed. If a timer decides the stop request, the forecast is the time for the same work, which
//! is a gain in work per second. Housekeeping threads work as long as the run lasts. A wait with a timeout
//! ends earlier if its condition holds earlier ([`naps`]).
//!
//! A replay cannot predict:
//!
//! - waits that occur only after the change (a lock without waiters, a queue that was never empty)
//! - work that would be divided differently
//! - effects on caches and memory

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
mod other_programs;
mod preempting;
mod speed;
mod steps;

pub use build::{Facts, build};
pub use change::{Change, Edit};
pub use endings::Endings;
pub use engine::{Grants, Outcome, run};
pub use forecast::{Forecast, Replays, forecast, forecast_between, unforeseen};
pub use speed::Speed;
pub use steps::Model;
