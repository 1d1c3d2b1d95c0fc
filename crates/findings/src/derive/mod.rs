//! Facts derived from the trace. They judge nothing.

pub mod blame;
pub mod bottle;
pub mod class;
pub mod clocked;
pub mod cpus;
pub mod critical_path;
pub mod handovers;
pub mod holders;
pub mod ledger;
#[cfg(test)]
mod ledger_tests;
pub mod lock_holding;
pub mod locks;
pub mod occupancy;
pub mod own_places;
pub mod parallel;
pub mod parallelism;
pub mod room;
pub mod split;
pub mod stacks;
pub mod sweep;
pub mod syscall_names;
pub mod syscall_rates;
pub mod syscalls;
pub mod timelines;
