//! What the kernel counts of threads and CPUs anyway, by stretches of the recording; and page faults that were drawn of those.

use crate::{CpuId, StackId, ThreadId, Timestamp};

crate::wait::codes! {
    /// What is counted. Codes are stored in recordings: append, never renumber.
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
        /// Stretches of a process's pages that were put together into a huge one; of its first thread.
        HugePages = 5 "huge-pages",
        /// Interrupts of a CPU by which others had it forget translations, whoever asked.
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
        /// What the whole machine read from disks (bytes).
        DiskReadBytes = 20 "disk-read-bytes",
        /// What a process may have in memory at a time (bytes): the tightest limit of its cgroup and those above it, as it was when the
        /// stretch ended; of its first thread. No sum, and no row where there is no limit.
        MemoryLimit = 21 "memory-limit",
        /// What a process may use of CPUs, in the same way (thousandths of a CPU).
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
    /// Of which thread; `None` of a CPU or the whole machine, or if it is not known any more.
    pub thread: Option<ThreadId>,
    /// Of which CPU; [`CpuId::NONE`] of a thread, or of the whole machine.
    pub cpu: CpuId,
    /// What.
    pub what: CountKind,
    /// Of [`CountKind::ShootdownsSent`] and the reclaims the syscall in which they were, -1 none (a page fault); else 0.
    pub syscall: i32,
    /// When the stretch began.
    pub start: Timestamp,
    /// When it ended.
    pub end: Timestamp,
    /// By how much.
    pub count: u64,
}

/// One page fault that was drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultRow {
    /// Who touched the page.
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
