//! Facts derived from the trace. They judge nothing.

pub mod class;
pub mod cpus;
pub mod ledger;
#[cfg(test)]
mod ledger_tests;
pub mod locks;
pub mod occupancy;
pub mod own_places;
pub mod parallel;
pub mod parallelism;
pub mod split;
pub mod stacks;
pub mod sweep;
pub mod syscall_names;
pub mod syscall_rates;
pub mod syscalls;
pub mod timelines;
pub mod why;
pub mod zoom;
