//! holdup-capture

pub mod lower;
pub mod mappings;
pub mod perf_ring;
