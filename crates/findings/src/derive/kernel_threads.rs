//! Which processes are the kernel's own.

use holdup_events::{ProcessId, Trace};

/// The process from which all kernel threads descend.
const KTHREADD: u32 = 2;

/// Name prefixes of the kernel's own threads, for recordings without parent processes.
const KERNEL_NAMES: [&str; 12] = [
    "kworker/",
    "ksoftirqd/",
    "migration/",
    "rcu_",
    "rcuc/",
    "kcompactd",
    "kswapd",
    "khugepaged",
    "irq/",
    "jbd2/",
    "cpuhp/",
    "kthreadd",
];

/// Whether a process is a thread of the kernel.
pub fn is_kernel_thread(trace: &Trace, id: ProcessId) -> bool {
    let Some(process) = trace.processes.get(id.index()) else { return false };
    let parent = process.parent.and_then(|parent| trace.processes.get(parent.index()));
    let by_name = parent.is_none() && KERNEL_NAMES.iter().any(|name| process.name.starts_with(name));
    process.pid == KTHREADD || by_name || parent.is_some_and(|parent| parent.pid == KTHREADD)
}
