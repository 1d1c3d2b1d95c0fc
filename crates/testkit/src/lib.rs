//! Tools for tests: recordings as text pictures, and random programs with their true figures. For development
//! only: other crates use it only in their tests.

pub mod bpf_host;
pub mod check;
pub mod drawing;
pub mod lanes;
pub mod random;
pub mod saved;
pub mod sim;
pub mod stopped;
pub mod waits;

pub use check::check_lanes;
pub use holdup_decode::assemble;
