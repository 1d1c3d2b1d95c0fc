//! Reports: what the analysis found, as text for a terminal, JSON, and other tools' formats.
//!
//! Only formats: every figure comes from [`holdup_findings::Analysis`] or the recording's manifest.

pub mod annotate;
mod barriers;
pub mod damage;
pub mod doctor;
pub mod experiment;
pub mod explain;
pub mod exporters;
mod figures;
mod flame;
mod gains;
pub mod json;
pub mod list;
pub mod live;
mod moment;
pub mod numbers;
pub mod rows;
pub mod stacks;
pub mod terminal;
pub mod text;
mod throughput;
pub mod viewer;
mod what_if;

pub use doctor::{DoctorRow, DoctorStatus, ProgramRow, doctor_json, render_doctor, render_programs};
pub use json::{to_json, to_json_with};
pub use stacks::StackAsk;
pub use terminal::{UnknownSection, render, render_named, render_with, section_names};
pub use text::Style;
pub use what_if::{render_what_if, what_if_json};
