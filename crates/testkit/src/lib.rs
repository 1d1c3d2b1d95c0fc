//! What tests are made of: recordings drawn as text, and random programs with the truth about them.
//! For development only; no other crate depends on it but for its tests.

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
