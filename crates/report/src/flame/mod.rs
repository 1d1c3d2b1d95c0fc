//! Flame graphs: from weighed paths to boxes (`layout`), from boxes to one self-contained SVG (`svg`).
//! Knows nothing of recordings.

mod layout;
mod svg;

pub(crate) use layout::{Graph, Path, Step};
pub(crate) use svg::{Words, write};
