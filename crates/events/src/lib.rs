//! The common data model of holdup's crates.
//!
//! `Record` (bytes of a source) → [`Event`] (its meaning) → [`Trace`] (frozen column tables) → findings. This
//! crate holds the identifiers, units of time, events, tables, and the recording on disk. It depends on no
//! other crate of the workspace.

pub mod condition;
pub mod event;
pub mod ids;
pub mod loss;
pub mod recording;
pub mod socket_name;
pub mod standing;
pub mod tables;
pub mod time;
pub mod trace;
pub mod wait;

pub use event::Event;
pub use ids::{CpuId, FrameId, ProcessId, StackId, ThreadId, WaitId};
pub use loss::Loss;
pub use time::{Duration, Timestamp};
pub use trace::Trace;
pub use wait::{ObjectKind, Wait, WaitReason};
