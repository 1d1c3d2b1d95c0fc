//! What a blocked thread waits for.

use crate::ProcessId;

macro_rules! codes {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $code:literal $label:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $name {
            #[default]
            $($(#[$vdoc])* $variant = $code,)*
        }

        impl $name {
            /// Every value, in the order of its code.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// The stable kebab-case name, as printed and stored.
            pub fn name(self) -> &'static str {
                match self { $($name::$variant => $label,)* }
            }

            /// The value with this code, as stored in a recording.
            pub fn from_code(code: u8) -> Option<$name> {
                match code { $($code => Some($name::$variant),)* _ => None }
            }
        }
    };
}
pub(crate) use codes;

codes! {
    /// Why a thread is blocked, derived from the kernel's state, the syscall and its arguments.
    ///
    /// Codes are stored in recordings: append, never renumber.
    WaitReason {
        /// Unknown.
        Unknown = 0 "unknown",
        /// A contended lock: `FUTEX_WAIT` on a word with the value "locked, with waiters" (2).
        Lock = 1 "lock",
        /// A futex with no lock protocol: condition variable, semaphore, parked thread, queue.
        Park = 2 "park",
        /// The end of another thread (`pthread_join`: the kernel clears its tid word).
        Join = 3 "join",
        /// A barrier: `FUTEX_WAIT` on a round counter.
        Barrier = 4 "barrier",
        /// A timer the thread asked for (`nanosleep`, a timerfd).
        Sleep = 5 "sleep",
        /// Several descriptors at once (`epoll_wait`, `poll`, `select`): waits for something to do.
        Multiplex = 6 "multiplex",
        /// The disk, or a file system: read, write, fsync, page-cache miss.
        Disk = 7 "disk",
        /// A pipe's other end.
        Pipe = 8 "pipe",
        /// A socket's peer.
        Socket = 9 "socket",
        /// An eventfd, inotify, or another descriptor that carries events.
        EventFd = 10 "eventfd",
        /// A child process (`wait4`, `waitid`, vfork's parent).
        Child = 11 "child",
        /// A page fault that needs the disk or another's page.
        Fault = 12 "fault",
        /// The address space's own lock (`mmap_lock`): mmap, munmap, fork, faults of siblings.
        MmapLock = 13 "mmap-lock",
        /// A signal (`sigtimedwait`, `pause`).
        Signal = 14 "signal",
        /// Input from a terminal or another character device.
        Device = 15 "device",
        /// A lock on a file (`flock`, `fcntl`).
        FileLock = 16 "file-lock",
        /// Stopped by job control or a tracer.
        Stopped = 17 "stopped",
        /// Inside the kernel, in a known syscall, on something that no other reason names.
        Kernel = 18 "kernel",
        /// An io_uring completion.
        IoUring = 19 "io-uring",
        /// A message queue or System V semaphore.
        Ipc = 20 "ipc",
    }
}

codes! {
    /// Kind of the object that [`Wait::object`] identifies. Codes equal `enum wire_object` of `bpf/wire.h`.
    ObjectKind {
        /// Nothing known.
        None = 0 "none",
        /// A user address in the waiting process.
        Futex = 1 "futex",
        /// A pipe's inode: the same at both ends.
        Pipe = 2 "pipe",
        /// The inode of this end of a socket.
        Socket = 3 "socket",
        /// A regular file's or directory's inode.
        File = 4 "file",
        /// A character device's inode.
        Device = 5 "device",
        /// A block device's inode.
        BlockDevice = 6 "block-device",
        /// One eventfd.
        EventFd = 7 "eventfd",
        /// One timerfd.
        TimerFd = 8 "timerfd",
        /// One epoll instance.
        Epoll = 9 "epoll",
        /// One signalfd.
        SignalFd = 10 "signalfd",
        /// One inotify instance.
        Inotify = 11 "inotify",
        /// Another anonymous inode.
        Anonymous = 12 "anonymous",
        /// Only the number of the descriptor is known.
        Descriptor = 13 "descriptor",
    }
}

/// A distinct wait target, interned: one row however often threads wait for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Wait {
    /// Why.
    pub reason: WaitReason,
    /// The waiter's process. Futex addresses and descriptors are valid only within it.
    pub process: ProcessId,
    /// The syscall's number (x86-64), -1 for a page fault or another exception, `i32::MIN` if not known.
    pub syscall: i32,
    /// Kind of `object`.
    pub object_kind: ObjectKind,
    /// Identity of the object, 0 if unknown.
    pub object: u64,
    /// Raw futex operation, or the number of the file descriptor.
    pub op: u32,
    /// Owner tid stored in a glibc mutex when the thread blocked, 0 if none.
    pub owner_tid: u32,
    /// For a futex, the variable that holds the word: `symbol` or `symbol+0xoffset`, empty if unknown.
    pub symbol: String,
    /// The file whose variable that is (path as the process saw it), also where no symbol is known.
    pub module: String,
}
