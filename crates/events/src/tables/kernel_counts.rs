//! Kernel counters of threads and CPUs by interval of the recording, and sampled page faults.

use crate::{CpuId, StackId, ThreadId, Timestamp};

crate::wait::codes! {
    /// Kind of count. Codes are stored in recordings: append, never renumber.
    CountKind {
        /// Page faults of a thread that needed no disk.
        MinorFaults = 0 "minor-faults",
        /// Page faults of a thread for which a disk was read.
        MajorFaults = 1 "major-faults",
        /// How often a thread asked other CPUs to forget translations of addresses, and waited until they had.
        ShootdownsSent = 2 "shootdowns-sent",
        /// How often a thread was interrupted to forget some.
        ShootdownInterrupts = 3 "shootdown-interrupts",
        /// Time in the handlers of these interrupts (ns).
        ShootdownInterruptNs = 4 "shootdown-interrupt-ns",
        /// Page ranges of a process collapsed into huge pages. Attributed to its first thread.
        HugePages = 5 "huge-pages",
        /// TLB shootdown interrupts of a CPU, from any requester.
        CpuShootdowns = 6 "cpu-shootdowns",
        /// Time of a CPU in user mode (ns).
        CpuUser = 7 "cpu-user",
        /// Time of a CPU in user mode, of niced threads (ns).
        CpuNice = 8 "cpu-nice",
        /// Time of a CPU in the kernel (ns).
        CpuSystem = 9 "cpu-system",
        /// Time of a CPU with nothing to do (ns).
        CpuIdle = 10 "cpu-idle",
        /// Time of a CPU with nothing to do but to wait for a disk (ns).
        CpuDiskWait = 11 "cpu-disk-wait",
        /// Time of a CPU in interrupts (ns).
        CpuIrq = 12 "cpu-irq",
        /// Time of a CPU in soft interrupts (ns).
        CpuSoftIrq = 13 "cpu-softirq",
        /// Time that the hypervisor took from a CPU (ns).
        CpuSteal = 14 "cpu-steal",
        /// How often a thread took memory back itself before it got more, since its memory cgroup was at its limit.
        LimitReclaims = 15 "limit-reclaims",
        /// Time from the beginning to the end of these (ns), waits and all.
        LimitReclaimNs = 16 "limit-reclaim-ns",
        /// How often it did so since the machine's memory was full.
        DirectReclaims = 17 "direct-reclaims",
        /// Time from the beginning to the end of these (ns), waits and all.
        DirectReclaimNs = 18 "direct-reclaim-ns",
        /// Memory of the whole machine that was read in again after the kernel had taken it back (bytes).
        RefaultBytes = 19 "refault-bytes",
        /// Bytes read from disks by the whole machine.
        DiskReadBytes = 20 "disk-read-bytes",
        /// Memory limit of a process (bytes): the tightest limit of its cgroup and its ancestors, at the end
        /// of the interval. Attributed to the first thread. The value is not a sum, and there is no row
        /// without a limit.
        MemoryLimit = 21 "memory-limit",
        /// CPU limit of a process, found in the same way (thousandths of a CPU).
        CpuLimit = 22 "cpu-limit",
        /// Connections that found the queue of a listening socket full, in the network namespace of the program.
        ListenOverflows = 23 "listen-overflows",
        /// First packets of TCP connections that were sent again, in the network namespace of the program.
        SynRetransmits = 24 "syn-retransmits",
    }
}

/// By how much one count grew in a stretch of the recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelCountRow {
    /// The thread. `None` for counts of a CPU or the whole machine, or if the thread is unknown.
    pub thread: Option<ThreadId>,
    /// The CPU. [`CpuId::NONE`] for counts of a thread or the whole machine.
    pub cpu: CpuId,
    /// Kind of count.
    pub what: CountKind,
    /// Syscall during which the events happened, -1 for none (a page fault). Only for
    /// [`CountKind::ShootdownsSent`] and the reclaims, else 0.
    pub syscall: i32,
    /// When the stretch began.
    pub start: Timestamp,
    /// When it ended.
    pub end: Timestamp,
    /// By how much.
    pub count: u64,
}

/// A sampled page fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultRow {
    /// The thread that touched the page.
    pub thread: ThreadId,
    /// When.
    pub at: Timestamp,
    /// Which address.
    pub address: u64,
    /// For how many faults it stands.
    pub stands_for: u64,
    /// A disk was read for it.
    pub major: bool,
    /// The kernel touched the page on the thread's behalf, in a syscall.
    pub in_kernel: bool,
    /// With which stack.
    pub stack: StackId,
}
