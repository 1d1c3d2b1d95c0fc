//! Facts derived from the trace. They judge nothing.

pub mod allocators;
pub mod amount;
pub mod asked_in_groups;
pub mod asking;
pub mod blame;
pub mod bound_threads;
pub mod busiest;
pub mod calls;
pub mod children;
pub mod class;
pub mod client_server;
pub mod clocked;
pub mod connects;
pub mod cover;
pub mod cpu_times;
pub mod cpus;
pub mod critical_path;
pub mod delayed_sends;
pub mod displaced;
pub mod event_loops;
pub mod exchanges;
pub mod exhausted_pools;
pub mod fault_order;
pub mod forks;
pub mod free_capacity;
pub mod garbage;
pub mod gc;
pub mod handing;
pub mod handing_groups;
pub mod handovers;
pub mod hardware;
pub mod holders;
mod in_flight;
pub mod interpreted;
pub mod inverted;
pub mod kernel_threads;
pub mod known_stacks;
pub mod known_work;
pub mod ledger;
#[cfg(test)]
mod ledger_tests;
pub mod limits;
pub mod lines;
pub mod lock_calls;
mod lock_classes;
pub mod lock_holding;
mod lock_lines;
pub mod locks;
pub mod lone_children;
pub mod lost_wakeups;
pub mod name_groups;
pub mod nodes;
pub mod occupancy;
pub mod on_cpu;
pub mod own_places;
pub mod paging;
pub mod parallel;
pub mod parallelism;
pub mod partners;
pub mod peers;
pub mod phases;
pub mod regions;
pub mod rendezvous;
pub mod replay;
pub mod requested;
pub mod roles;
pub mod round_trips;
pub mod runtime_phases;
pub mod runtimes;
pub mod services;
pub mod side_by_side;
pub mod skew;
mod socket_sides;
pub mod spin;
pub mod split;
pub mod stacks;
pub mod standard_libraries;
pub mod starved_pools;
pub mod sweep;
pub mod syscall_names;
pub mod syscall_rates;
pub mod syscalls;
pub mod task_locks;
pub mod task_pools;
pub mod task_sleeps;
pub mod task_windows;
pub mod tasks;
pub mod temporary_files;
pub mod thread_shares;
pub mod thread_steps;
pub mod ticker_handovers;
pub mod timelines;
pub mod untimed;
pub mod waited_files;
pub mod why;
pub mod zoom;

use holdup_events::tables::SampleRow;
use holdup_events::{ThreadId, Trace};

/// Whether a thread is its process's main thread.
pub(crate) fn is_first_thread(trace: &Trace, thread: ThreadId) -> bool {
    let thread = trace.threads.get(thread.index());
    thread.is_some_and(|thread| {
        trace.processes.get(thread.process.index()).is_some_and(|process| process.pid == thread.tid)
    })
}

/// The samples of one thread, in time order.
pub(crate) fn samples_of(trace: &Trace, thread: ThreadId) -> &[SampleRow] {
    let from = trace.samples.partition_point(|sample| sample.thread < thread);
    let behind = trace.samples.partition_point(|sample| sample.thread <= thread);
    trace.samples.get(from..behind).unwrap_or_default()
}
