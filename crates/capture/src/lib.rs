//! holdup-capture

pub mod perf_ring;
