//! Decodes bytes of any origin into events and tables, and resolves addresses to names. It is the only crate
//! that reads untrusted bytes. It never panics: unreadable input becomes a [`holdup_events::Loss`].

pub mod accesses;
pub mod assemble;
pub mod calls;
pub mod code;
pub mod counts;
pub mod cpython;
mod fields;
pub mod hardware;
pub mod hotspot;
mod imported;
pub mod interpreted;
pub mod loading;
pub mod probed;
pub mod probes;
pub mod process_memory;
pub mod readers;
pub mod reorder;
pub mod runtime_events;
mod spin;
pub mod states;
pub mod symbols;
mod telling;
pub mod unwind;
pub mod wait_reason;
pub mod wire;

pub use assemble::{assemble, assemble_named, until};
pub use states::{Builder, Catalogue};
