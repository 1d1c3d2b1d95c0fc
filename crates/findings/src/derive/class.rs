//! The ledger's classes, and which wait belongs to which.

use holdup_events::WaitReason;

/// A class of thread time. Every thread-nanosecond is in exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Class {
    /// Running user code that no narrower class claims.
    Useful = 0,
    /// Running in a syscall, fault or interrupt.
    Kernel = 1,
    /// Blocked on a contended lock.
    LockWait = 2,
    /// Blocked until another thread ends, or at a barrier.
    JoinWait = 3,
    /// Blocked with nothing to do: a condition variable, an empty queue, an idle event loop.
    WorkWait = 4,
    /// Blocked on the disk or a file system.
    IoWait = 5,
    /// Blocked on a socket.
    NetWait = 6,
    /// Blocked on a pipe.
    PipeWait = 7,
    /// Blocked on a timer that the thread set itself.
    Sleep = 8,
    /// Blocked until a child process ends or execs.
    ChildWait = 9,
    /// Blocked on a page fault or the address space's lock.
    FaultWait = 10,
    /// Blocked inside the kernel on something that no other class names.
    KernelWait = 11,
    /// Stopped by job control or a tracer.
    Stopped = 12,
    /// Could run, had no CPU.
    RunQueue = 13,
    /// Steal time: runnable on a virtual CPU while the hypervisor ran another guest.
    Stolen = 14,
    /// Unknown: events are missing, or no source records the time.
    Unknown = 15,
    /// Running in a loop that only waits.
    Spin = 16,
    /// Running a garbage collector's code.
    GcWork = 17,
    /// Blocked until a garbage collection goes on or ends.
    GcWait = 18,
}

/// Number of classes.
pub const CLASSES: usize = 19;

impl Class {
    /// Every class, in the order of reports.
    pub const ALL: [Class; CLASSES] = [
        Class::Useful,
        Class::Kernel,
        Class::GcWork,
        Class::Spin,
        Class::LockWait,
        Class::GcWait,
        Class::JoinWait,
        Class::WorkWait,
        Class::IoWait,
        Class::NetWait,
        Class::PipeWait,
        Class::Sleep,
        Class::ChildWait,
        Class::FaultWait,
        Class::KernelWait,
        Class::Stopped,
        Class::RunQueue,
        Class::Stolen,
        Class::Unknown,
    ];

    /// Classes into which samples divide running time. The first one is the remainder.
    pub const ON_CPU: [Class; 4] = [Class::Useful, Class::Kernel, Class::GcWork, Class::Spin];

    /// The stable name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Class::Useful => "useful",
            Class::Kernel => "kernel",
            Class::GcWork => "gc-work",
            Class::Spin => "spin",
            Class::LockWait => "lock-wait",
            Class::GcWait => "gc-wait",
            Class::JoinWait => "join-wait",
            Class::WorkWait => "work-wait",
            Class::IoWait => "io-wait",
            Class::NetWait => "net-wait",
            Class::PipeWait => "pipe-wait",
            Class::Sleep => "sleep",
            Class::ChildWait => "child-wait",
            Class::FaultWait => "fault-wait",
            Class::KernelWait => "kernel-wait",
            Class::Stopped => "stopped",
            Class::RunQueue => "run-queue",
            Class::Stolen => "stolen",
            Class::Unknown => "unknown",
        }
    }
}

impl Class {
    /// Class of a blocked thread's time, by the wait's reason. The ledger has one exception. A
    /// [`WaitReason::Multiplex`] that its timeout ended is a [`Class::Sleep`], unless a runtime reported it
    /// as idle.
    pub fn of_wait(reason: WaitReason) -> Class {
        use WaitReason::*;
        match reason {
            Lock | FileLock => Class::LockWait,
            Join | Barrier => Class::JoinWait,
            Park | Multiplex | EventFd | Signal | Device | Ipc | IoUring => Class::WorkWait,
            Sleep => Class::Sleep,
            Disk => Class::IoWait,
            Socket => Class::NetWait,
            Pipe => Class::PipeWait,
            Child => Class::ChildWait,
            Fault | MmapLock => Class::FaultWait,
            Kernel => Class::KernelWait,
            Stopped => Class::Stopped,
            Unknown => Class::Unknown,
        }
    }

    /// Whether it is CPU time, which samples divide.
    pub fn on_cpu(self) -> bool {
        Class::ON_CPU.contains(&self)
    }

    /// The class of a stable name.
    pub fn named(name: &str) -> Option<Class> {
        Class::ALL.into_iter().find(|class| class.name() == name)
    }

    /// Whether it is blocked time that a wakeup ends. Stops by job control or a tracer are excluded, because
    /// their waker does not matter.
    pub fn is_wait(self) -> bool {
        !self.on_cpu() && !matches!(self, Class::RunQueue | Class::Stolen | Class::Unknown | Class::Stopped)
    }

    /// Whether it is blocked time that no other thread of the program ends: disk, network, child, clock.
    pub fn waits_outside_program(self) -> bool {
        use Class::{ChildWait, FaultWait, IoWait, KernelWait, NetWait, PipeWait, Sleep};
        matches!(self, ChildWait | FaultWait | IoWait | KernelWait | NetWait | PipeWait | Sleep)
    }

    /// Whether it is blocked time that another thread ends: a lock, a join, an empty queue.
    pub fn waits_for_threads(self) -> bool {
        matches!(self, Class::LockWait | Class::GcWait | Class::JoinWait | Class::WorkWait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_index_the_list() {
        let codes: std::collections::BTreeSet<u8> = Class::ALL.iter().map(|class| *class as u8).collect();
        assert_eq!(codes.into_iter().collect::<Vec<_>>(), (0..CLASSES as u8).collect::<Vec<_>>());
    }

    #[test]
    fn no_wait_counts_as_running() {
        for reason in WaitReason::ALL {
            let class = Class::of_wait(*reason);
            assert!(!class.on_cpu() && !matches!(class, Class::RunQueue | Class::Stolen), "{reason:?}");
        }
    }
}
