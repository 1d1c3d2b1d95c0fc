//! Unwind tables: a binary's `.eh_frame` (or `.debug_frame`) compiled to rows that BPF walks
//! (`bpf/unwind.h`).
//!
//! This module only converts bytes to rows. The capture crate handles mappings and BPF maps.

mod expression;
mod frames;
mod go;
pub mod kept;
mod late_calls;
mod later;
mod needed;
mod row;
mod table;
mod walk;

pub use later::walk_raw_stacks;
pub use needed::needed;
pub use row::{Kind, Row};
pub use table::{Segment, Table, TableError, build_id};
pub use walk::{Code, Registers, Walked, walk};

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
