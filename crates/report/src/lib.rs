//! Reports: what the analysis found, as text for a terminal, JSON, and other tools' formats.
//!
//! Only formats: every figure comes from [`holdup_findings::Analysis`] or the recording's manifest.

mod figures;
pub mod json;
pub mod numbers;
pub mod terminal;
pub mod text;

pub use json::to_json;
pub use terminal::{UnknownSection, render, section_names};
pub use text::Style;
