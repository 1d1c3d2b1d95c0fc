//! Holders: the thread that each blocked slice waited for, and the basis of that attribution.
//!
//! A wakeup shows which thread *ended* a wait. For a lock this is the thread that released it. For other
//! waits it is the producer, the peer, the child or the joined thread. Between two releases of one lock, its
//! holder is also known for all waiters of that time ([`Tenures`]).
//!
//! [`activity`] has the holder's activity during the wait. `derive/blame` has the ends of chains of holders.
//!
//! A holder is not necessarily *at fault*. The wait of an idle consumer has a holder, the producer, but is
//! not contention ([`HoldKind::Work`]).

pub mod activity;
pub(super) mod attribution;
mod tenures;

pub use tenures::{Tenure, Tenures};

use holdup_events::tables::{RowSet, Slice};
use holdup_events::{Duration, ThreadId, Timestamp, Trace, WaitReason};

use super::class::Class;
use super::locks::LockIndex;
use super::roles::Roles;

/// Purpose of a blocked thread's wait, by the kind of thread or event that can end it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum HoldKind {
    /// Unknown.
    #[default]
    Unknown = 0,
    /// A lock: another thread has it.
    Lock = 1,
    /// Something to do: a condition variable, a queue, an eventfd, a signal.
    Work = 2,
    /// The end of another thread.
    Join = 3,
    /// A barrier: the last thread to arrive.
    Barrier = 4,
    /// A child process.
    Child = 5,
    /// Space in a full pipe.
    PipeFull = 6,
    /// Bytes in an empty pipe.
    PipeEmpty = 7,
    /// The peer of a socket.
    Socket = 8,
    /// An event on one of several descriptors, or a completion.
    Poll = 9,
    /// A timer that the thread set itself.
    Sleep = 10,
    /// The disk or a file system.
    Disk = 11,
    /// A page fault.
    Fault = 12,
    /// Something inside the kernel, or a device.
    Kernel = 13,
    /// Stopped by job control or a tracer.
    Stopped = 14,
}

impl HoldKind {
    /// Every kind, by code.
    pub const ALL: [HoldKind; 15] = [
        HoldKind::Unknown,
        HoldKind::Lock,
        HoldKind::Work,
        HoldKind::Join,
        HoldKind::Barrier,
        HoldKind::Child,
        HoldKind::PipeFull,
        HoldKind::PipeEmpty,
        HoldKind::Socket,
        HoldKind::Poll,
        HoldKind::Sleep,
        HoldKind::Disk,
        HoldKind::Fault,
        HoldKind::Kernel,
        HoldKind::Stopped,
    ];

    /// The stable name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            HoldKind::Unknown => "unknown",
            HoldKind::Lock => "lock",
            HoldKind::Work => "work",
            HoldKind::Join => "join",
            HoldKind::Barrier => "barrier",
            HoldKind::Child => "child",
            HoldKind::PipeFull => "pipe-full",
            HoldKind::PipeEmpty => "pipe-empty",
            HoldKind::Socket => "socket",
            HoldKind::Poll => "poll",
            HoldKind::Sleep => "sleep",
            HoldKind::Disk => "disk",
            HoldKind::Fault => "fault",
            HoldKind::Kernel => "kernel",
            HoldKind::Stopped => "stopped",
        }
    }

    /// Kind of a wait by its reason and syscall (x86-64 number). The wakeup is not considered.
    pub fn from_wait(reason: WaitReason, syscall: i32) -> HoldKind {
        // write, pwrite64, writev, pwritev, pwritev2. splice, tee and vmsplice may read or write.
        let writes = matches!(syscall, 1 | 18 | 20 | 296 | 328);
        match reason {
            WaitReason::Lock | WaitReason::FileLock | WaitReason::MmapLock => HoldKind::Lock,
            WaitReason::Park | WaitReason::EventFd | WaitReason::Signal | WaitReason::Ipc => HoldKind::Work,
            WaitReason::Join => HoldKind::Join,
            WaitReason::Barrier => HoldKind::Barrier,
            WaitReason::Child => HoldKind::Child,
            WaitReason::Pipe if writes => HoldKind::PipeFull,
            WaitReason::Pipe => HoldKind::PipeEmpty,
            WaitReason::Socket => HoldKind::Socket,
            WaitReason::Multiplex | WaitReason::IoUring => HoldKind::Poll,
            WaitReason::Sleep => HoldKind::Sleep,
            WaitReason::Disk => HoldKind::Disk,
            WaitReason::Fault => HoldKind::Fault,
            WaitReason::Kernel | WaitReason::Device => HoldKind::Kernel,
            WaitReason::Stopped => HoldKind::Stopped,
            WaitReason::Unknown => HoldKind::Unknown,
        }
    }

    /// The kind, corrected by the wait's class if a runtime's code defines it.
    fn as_class(self, class: Class) -> HoldKind {
        match (class, self) {
            (Class::LockWait, _) => HoldKind::Lock,
            (Class::GcWait, _) => HoldKind::Barrier,
            (Class::JoinWait, kind) if kind != HoldKind::Join => HoldKind::Barrier,
            (Class::WorkWait, HoldKind::Lock | HoldKind::Join | HoldKind::Barrier) => HoldKind::Work,
            (Class::Sleep, _) => HoldKind::Sleep,
            (Class::IoWait, HoldKind::Poll) => HoldKind::Disk,
            (_, kind) => kind,
        }
    }

    /// Whether a thread can be the holder. Otherwise only a clock or a device can end the wait, or nothing.
    pub fn has_holder(self) -> bool {
        use HoldKind::*;
        matches!(
            self,
            Lock | Work | Join | Barrier | Child | PipeFull | PipeEmpty | Socket | Poll | Kernel | Unknown
        )
    }

    /// Whether another thread keeps the waiter from its work. Otherwise the waiter is idle or chose to wait.
    pub fn is_contention(self) -> bool {
        matches!(self, HoldKind::Lock | HoldKind::PipeFull | HoldKind::Barrier)
    }
}

/// Basis of the attribution to a holder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Basis {
    /// Unknown.
    #[default]
    Unknown = 0,
    /// The lock's own word named it when the waiter blocked.
    OwnerWord = 1,
    /// The holder woke the waiter when it released the lock.
    Releaser = 2,
    /// The holder released the lock later, to another waiter. This waiter was woken otherwise, or not at all.
    LaterReleaser = 3,
    /// The holder woke the waiter: it brought work, was the peer, or arrived last.
    Waker = 4,
    /// The holder exited: the child, or the joined thread.
    Exit = 5,
    /// No thread: a timer ended it.
    Timer = 6,
    /// No thread: a device or soft interrupt ended it (network, disk).
    Interrupt = 7,
    /// No thread: the wait lasted until the end of the recording or of the waiter.
    StillWaiting = 8,
}

impl Basis {
    /// Every basis, by code.
    pub const ALL: [Basis; 9] = [
        Basis::Unknown,
        Basis::OwnerWord,
        Basis::Releaser,
        Basis::LaterReleaser,
        Basis::Waker,
        Basis::Exit,
        Basis::Timer,
        Basis::Interrupt,
        Basis::StillWaiting,
    ];

    /// The stable name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Basis::Unknown => "unknown",
            Basis::OwnerWord => "owner-word",
            Basis::Releaser => "releaser",
            Basis::LaterReleaser => "later-releaser",
            Basis::Waker => "waker",
            Basis::Exit => "exit",
            Basis::Timer => "timer",
            Basis::Interrupt => "interrupt",
            Basis::StillWaiting => "still-waiting",
        }
    }
}

/// Attribution of one blocked slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hold {
    /// Row of the slice.
    pub row: u32,
    /// Kind of wait.
    pub kind: HoldKind,
    /// Holder at the end of the wait. A lock may have had other holders before: [`Holders::over`].
    pub holder: Option<ThreadId>,
    /// Basis of the attribution.
    pub basis: Basis,
    /// Whether the wakeup was in vain: the next wait continues this one, and has the same holder.
    pub false_wakeup: bool,
    /// Time from the wakeup until the thread was on a run queue: the last part of the slice. An
    /// interprocessor interrupt, or an idle CPU's exit latency, takes this time.
    pub transit: Duration,
}

/// Part of a wait, with the holder at that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Start.
    pub from: Timestamp,
    /// End.
    pub to: Timestamp,
    /// The holder. `None` if it is not a thread, or unknown.
    pub holder: Option<ThreadId>,
}

const NOBODY: u32 = u32::MAX;
const FALSE_WAKEUP: u8 = 1 << 7;

/// The holders of all blocked slices of target threads: one entry a slice, in columns.
#[derive(Clone, Debug, Default)]
pub struct Holders {
    /// `of_thread[t]..of_thread[t + 1]` are the entries of thread `t`.
    of_thread: Vec<u32>,
    row: Vec<u32>,
    rows: RowSet,
    holder: Vec<u32>,
    kind: Vec<HoldKind>,
    /// Code of the basis, and in the highest bit [`Hold::false_wakeup`].
    basis: Vec<u8>,
    /// [`Hold::transit`] of each wait (ns).
    transit_ns: Vec<u32>,
    /// Holders of each lock over time.
    pub tenures: Tenures,
}

impl Holders {
    /// Derives them all.
    pub fn derive(trace: &Trace, locks: &LockIndex, roles: &Roles) -> Holders {
        attribution::derive(trace, locks, roles)
    }

    /// Number of blocked slices.
    pub fn len(&self) -> usize {
        self.row.len()
    }

    /// Whether there is no blocked slice.
    pub fn is_empty(&self) -> bool {
        self.row.is_empty()
    }

    #[inline]
    fn entries(&self, thread: ThreadId) -> std::ops::Range<usize> {
        match self.of_thread.get(thread.index()..thread.index() + 2) {
            Some([from, to]) => *from as usize..*to as usize,
            _ => 0..0,
        }
    }

    #[inline]
    fn entry(&self, index: usize) -> Hold {
        let code = usize::from(self.basis[index] & !FALSE_WAKEUP);
        Hold {
            row: self.row[index],
            kind: self.kind[index],
            holder: (self.holder[index] != NOBODY).then_some(ThreadId(self.holder[index])),
            basis: Basis::ALL.get(code).copied().unwrap_or_default(),
            false_wakeup: self.basis[index] & FALSE_WAKEUP != 0,
            transit: Duration(u64::from(self.transit_ns[index])),
        }
    }

    /// The waits of one thread, in time order.
    pub fn of_thread(&self, thread: ThreadId) -> impl DoubleEndedIterator<Item = Hold> + '_ {
        self.entries(thread).map(|index| self.entry(index))
    }

    /// The waits of one thread from row `first` of the slice table on.
    pub fn from_row(&self, thread: ThreadId, first: usize) -> impl Iterator<Item = Hold> + '_ {
        let entries = self.entries(thread);
        (self.rows.before(first).max(entries.start)..entries.end).map(|index| self.entry(index))
    }

    /// The wait of a slice. `None` if the slice is not blocked, or belongs to another program.
    #[inline]
    pub fn at(&self, thread: ThreadId, row: usize) -> Option<Hold> {
        let number = self.rows.number(row)?;
        self.entries(thread).contains(&number).then(|| self.entry(number))
    }

    /// Holders during all of `slice`, in contiguous pieces.
    pub fn over(&self, trace: &Trace, locks: &LockIndex, slice: &Slice) -> Vec<Held> {
        let whole = |holder| vec![Held { from: slice.start, to: slice.end, holder }];
        let Some(row) = trace.slices.covering(slice.thread, slice.start) else { return whole(None) };
        let Some(hold) = self.at(slice.thread, row) else { return whole(None) };
        match locks.of_slice(slice) {
            Some(lock) if hold.kind == HoldKind::Lock => {
                let mut pieces: Vec<Held> = self.tenures.over(lock, slice.start, slice.end).collect();
                for piece in pieces.iter_mut().filter(|piece| piece.holder.is_none()) {
                    piece.holder = hold.holder;
                }
                pieces
            }
            _ => whole(hold.holder),
        }
    }
}
