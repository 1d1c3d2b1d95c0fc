//! Facts derived from the trace. They judge nothing.

pub mod class;
pub mod cpus;
pub mod ledger;
pub mod locks;
pub mod parallelism;
pub mod syscalls;
