//! holdup-capture

pub mod host;
pub mod lower;
pub mod mappings;
pub mod perf_ring;
