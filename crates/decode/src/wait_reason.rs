//! The reason of a wait, derived from the kernel's state, the syscall and its arguments.
//!
//! The syscall alone is misleading: a thread in `clock_nanosleep` may block on a copy-on-write fault of its
//! stack. The task's state is therefore evaluated first (Linux, include/linux/sched.h).

use holdup_events::event::{RawWait, Timeout};
use holdup_events::{ObjectKind, WaitReason};

/// TASK_UNINTERRUPTIBLE.
const UNINTERRUPTIBLE: u32 = 0x2;
/// TASK_STOPPED | TASK_TRACED.
const STOPPED: u32 = 0x4 | 0x8;

pub(crate) mod number {
    //! x86-64 syscall numbers (arch/x86/entry/syscalls/syscall_64.tbl).
    pub const FUTEX: i32 = 202;
    pub const VFORK: i32 = 58;
    pub const CLONE: i32 = 56;
    pub const CLONE3: i32 = 435;
    pub const IO_URING_ENTER: i32 = 426;
}

/// Whether the syscall may notify a peer: by sending data, by freeing buffer space after receiving, or by
/// closing the connection.
pub(crate) fn reaches_peers(syscall: i32) -> bool {
    match syscall {
        // write writev sendfile connect sendto sendmsg shutdown splice sendmmsg pwritev2
        1 | 20 | 40 | 42 | 44 | 46 | 48 | 275 | 307 | 328 => true,
        // read ioctl readv accept recvfrom recvmsg setsockopt getsockopt accept4 recvmmsg preadv2
        0 | 16 | 19 | 43 | 45 | 47 | 54 | 55 | 288 | 299 | 327 => true,
        // close dup2 execve exit exit_group dup3 execveat close_range
        3 | 33 | 59 | 60 | 231 | 292 | 322 | 436 => true,
        _ => syscall == number::IO_URING_ENTER,
    }
}

/// Why the thread is blocked.
pub fn classify(wait: &RawWait) -> WaitReason {
    if let Some(reason) = wait.recorded_reason() {
        return reason;
    }
    if wait.state & STOPPED != 0 {
        return WaitReason::Stopped;
    }
    if wait.mmap_lock {
        return WaitReason::MmapLock;
    }
    if wait.syscall == i32::MIN {
        return WaitReason::Unknown;
    }
    if wait.syscall == RawWait::KERNEL_THREAD {
        return if wait.in_iowait { WaitReason::Disk } else { WaitReason::Kernel };
    }
    if wait.state & UNINTERRUPTIBLE != 0 { uninterruptible(wait) } else { interruptible(wait) }
}

/// Reason of a wait in state D. Interruptible syscalls do not wait in this state, only a fault inside them
/// does. If the object has an internal kernel lock (a pipe, socket, device or epoll instance), that lock is
/// assumed, because faults rarely wait without `in_iowait`.
fn uninterruptible(wait: &RawWait) -> WaitReason {
    if wait.syscall < 0 {
        return WaitReason::Fault;
    }
    let by_number = by_syscall(wait);
    match by_number {
        WaitReason::Child if matches!(wait.syscall, number::VFORK | number::CLONE | number::CLONE3) => {
            by_number
        }
        WaitReason::Disk | WaitReason::IoUring => by_number,
        _ if is_file_syscall(wait.syscall) || wait.in_iowait => WaitReason::Disk,
        WaitReason::Pipe
        | WaitReason::Socket
        | WaitReason::Device
        | WaitReason::Multiplex
        | WaitReason::Kernel => by_number,
        _ => WaitReason::Fault,
    }
}

/// TASK_FREEZABLE, since Linux 6.1 (include/linux/sched.h).
const FREEZABLE: u32 = 0x2000;

fn interruptible(wait: &RawWait) -> WaitReason {
    if wait.syscall < 0 && wait.state & FREEZABLE != 0 {
        // Frozen in user code (do_freezer_trap in kernel/signal.c). A userfaultfd wait is not freezable.
        return WaitReason::Stopped;
    }
    if wait.syscall < 0 {
        // A fault that waits interruptibly (userfaultfd).
        return WaitReason::Fault;
    }
    match wait.syscall {
        number::VFORK | number::CLONE | number::CLONE3 => WaitReason::Child,
        _ => by_syscall(wait),
    }
}

/// By the syscall and its arguments alone.
fn by_syscall(wait: &RawWait) -> WaitReason {
    match wait.syscall {
        number::FUTEX => futex(wait),
        // futex_wait (6.7) has no separate lock protocol word. futex_waitv waits for any of several futexes.
        449 | 455 => WaitReason::Park,
        456 => WaitReason::Lock,
        35 | 230 => WaitReason::Sleep,
        // poll select epoll_wait pselect6 ppoll epoll_pwait epoll_pwait2
        7 | 23 | 232 | 270 | 271 | 281 | 441 => WaitReason::Multiplex,
        // vfork clone clone3 wait4 waitid
        number::VFORK | number::CLONE | number::CLONE3 | 61 | 247 => WaitReason::Child,
        // pause rt_sigtimedwait rt_sigsuspend
        34 | 128 | 130 => WaitReason::Signal,
        // connect accept sendto recvfrom sendmsg recvmsg shutdown accept4 recvmmsg sendmmsg
        42..=48 | 288 | 299 | 307 => WaitReason::Socket,
        // read write pread64 pwrite64 readv writev sendfile splice tee vmsplice preadv pwritev (2)
        0 | 1 | 17..=20 | 40 | 275 | 276 | 278 | 295 | 296 | 327 | 328 => by_object(wait.object_kind),
        // msync fsync fdatasync sync sync_file_range syncfs fallocate copy_file_range
        26 | 74 | 75 | 162 | 277 | 306 | 285 | 326 => WaitReason::Disk,
        72 | 73 => WaitReason::FileLock,
        // io_getevents io_pgetevents io_uring_enter
        208 | 333 | number::IO_URING_ENTER => WaitReason::IoUring,
        // semop semtimedop msgsnd msgrcv mq_timedsend mq_timedreceive
        65 | 220 | 69 | 70 | 242 | 243 => WaitReason::Ipc,
        16 => match wait.object_kind {
            ObjectKind::Device => WaitReason::Device,
            _ => WaitReason::Kernel,
        },
        _ => WaitReason::Kernel,
    }
}

/// The protocol of the futex word, derived from the operation and the expected value.
///
/// - 2 is "locked, with waiters" in the low-level locks of glibc and musl, in Rust's std, and in Go's runtime
///   lock.
/// - glibc's pthread_join waits on the kernel's tid word with a shared futex. Since 2.43, it waits on its own
///   word with the value 2 or 1. It then uses FUTEX_WAIT_BITSET with CLOCK_REALTIME, which no shared mutex
///   uses without a timeout.
/// - 1 is a flag (`parking_lot` parks a thread with it). Rounds of glibc's and libgomp's barriers increase by
///   at least 2.
///
/// Whether other words count rounds is decided when more of their values are known.
fn futex(wait: &RawWait) -> WaitReason {
    const PRIVATE: u32 = 128;
    const REALTIME: u32 = 256;
    let shared = wait.op & PRIVATE == 0;
    let is_untimed_by_date = wait.op & REALTIME != 0 && wait.timeout == Timeout::default();
    match (wait.op & 0x7f, wait.value) {
        // FUTEX_LOCK_PI, FUTEX_LOCK_PI2, FUTEX_WAIT_REQUEUE_PI
        (6 | 13, _) => WaitReason::Lock,
        (11, _) => WaitReason::Park,
        (9, 1 | 2) if shared && is_untimed_by_date => WaitReason::Join,
        (0 | 9, 2) => WaitReason::Lock,
        (0 | 9, value) if is_owned_with_waiters(value) => WaitReason::Lock,
        // A tid: small, positive, never 0. Process-shared objects also use small counters, but the tids of
        // joined threads are above the first few hundred.
        (0 | 9, value) if shared && (300..0x40_0000).contains(&value) => WaitReason::Join,
        (0, 0 | 1 | u32::MAX) => WaitReason::Park,
        (0, _) if !shared => WaitReason::Barrier,
        (0 | 9, _) => WaitReason::Park,
        _ => WaitReason::Kernel,
    }
}

/// The highest bit means that threads wait, and the remaining value is small. That is the owner's tid in a
/// robust mutex of glibc (FUTEX_WAITERS in include/uapi/linux/futex.h) and in a mutex of musl. In musl's
/// internal lock it is the number of threads.
fn is_owned_with_waiters(value: u32) -> bool {
    const WAITERS: u32 = 0x8000_0000;
    const NUMBER: u32 = 0x3fff_ffff;
    const NUMBER_MAX: u32 = 0x40_0000;
    value & WAITERS != 0 && (1..NUMBER_MAX).contains(&(value & NUMBER))
}

fn by_object(kind: ObjectKind) -> WaitReason {
    match kind {
        ObjectKind::Pipe => WaitReason::Pipe,
        ObjectKind::Socket => WaitReason::Socket,
        ObjectKind::File | ObjectKind::BlockDevice => WaitReason::Disk,
        ObjectKind::Device => WaitReason::Device,
        ObjectKind::TimerFd => WaitReason::Sleep,
        ObjectKind::EventFd | ObjectKind::SignalFd | ObjectKind::Inotify => WaitReason::EventFd,
        ObjectKind::Epoll => WaitReason::Multiplex,
        ObjectKind::Anonymous | ObjectKind::Descriptor | ObjectKind::None | ObjectKind::Futex => {
            WaitReason::Kernel
        }
    }
}

/// Syscalls on names and files that may need the disk or a file system's locks.
fn is_file_syscall(number: i32) -> bool {
    matches!(
        number,
        // open close stat fstat lstat lseek, access, truncate ftruncate getdents .. rename mkdir rmdir creat
        // link unlink symlink readlink .. chown. Then utime mknod, statfs, sync mount, getdents64, *xattr
        2..=6 | 8 | 21 | 76..=95 | 132..=133 | 137 | 138 | 161 | 162 | 165 | 166 | 188..=199 | 217
            // openat mkdirat .. faccessat, fadvise, renameat2, openat2, statx, execve, execveat
            | 257..=269 | 221 | 316 | 332 | 437 | 439 | 59 | 322
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(state: u32, syscall: i32) -> WaitReason {
        classify(&RawWait { state, syscall, ..RawWait::default() })
    }

    fn futex_reason(op: u32, value: u32) -> WaitReason {
        classify(&RawWait { state: 0x2001, syscall: 202, op, value, ..RawWait::default() })
    }

    fn on(kind: ObjectKind, state: u32, syscall: i32) -> WaitReason {
        classify(&RawWait { state, syscall, object_kind: kind, ..RawWait::default() })
    }

    #[test]
    fn futexes_by_their_protocol() {
        assert_eq!(futex_reason(128, 2), WaitReason::Lock, "pthread_mutex_lock");
        assert_eq!(futex_reason(137, 2), WaitReason::Lock, "Rust std Mutex");
        assert_eq!(futex_reason(393, 0), WaitReason::Park, "pthread_cond_wait, sem_wait");
        assert_eq!(futex_reason(137, u32::MAX), WaitReason::Park, "Rust thread::park");
        assert_eq!(futex_reason(128, 0), WaitReason::Park, "Go notesleep");
        assert_eq!(futex_reason(128, 1), WaitReason::Park, "parking_lot");
        assert_eq!(futex_reason(128, 7), WaitReason::Barrier, "pthread_barrier_wait");
        assert_eq!(futex_reason(265, 4711), WaitReason::Join, "pthread_join");
        assert_eq!(futex_reason(134, 0), WaitReason::Lock, "priority inheritance");
        assert_eq!(futex_reason(0, 0x8000_1267), WaitReason::Lock, "a robust mutex of glibc");
        assert_eq!(futex_reason(128, 0x8000_1267), WaitReason::Lock, "a mutex of musl");
        assert_eq!(futex_reason(128, 0x8000_0002), WaitReason::Lock, "musl's internal lock");
        assert_eq!(futex_reason(265, 2), WaitReason::Join, "pthread_join of glibc 2.43");
        assert_eq!(futex_reason(265, 1), WaitReason::Join, "pthread_join of glibc 2.43");
        let timeout = Timeout::After(holdup_events::Duration(1));
        let timed = RawWait { state: 0x2001, syscall: 202, op: 265, value: 2, timeout, ..RawWait::default() };
        assert_eq!(classify(&timed), WaitReason::Lock, "a process-shared mutex with a timeout");
    }

    #[test]
    fn frozen_threads_are_stopped() {
        assert_eq!(reason(0x2001, -1), WaitReason::Stopped);
        assert_eq!(reason(0x1, -1), WaitReason::Fault, "userfaultfd");
    }

    #[test]
    fn kernel_threads_have_no_page_faults() {
        for state in [0x1, 0x2, 0x2001, 0x402] {
            assert_eq!(reason(state, RawWait::KERNEL_THREAD), WaitReason::Kernel, "{state:#x}");
        }
        let syscall = RawWait::KERNEL_THREAD;
        let reads = RawWait { state: 2, in_iowait: true, syscall, ..RawWait::default() };
        assert_eq!(classify(&reads), WaitReason::Disk);
    }

    #[test]
    fn descriptors_by_what_they_are() {
        assert_eq!(on(ObjectKind::Pipe, 1, 0), WaitReason::Pipe);
        assert_eq!(on(ObjectKind::Socket, 1, 0), WaitReason::Socket);
        assert_eq!(on(ObjectKind::EventFd, 1, 0), WaitReason::EventFd);
        assert_eq!(on(ObjectKind::TimerFd, 1, 0), WaitReason::Sleep);
        assert_eq!(on(ObjectKind::Device, 1, 0), WaitReason::Device);
        assert_eq!(on(ObjectKind::File, 2, 74), WaitReason::Disk, "fsync");
        assert_eq!(on(ObjectKind::File, 0x102, 17), WaitReason::Disk, "a page-cache miss");
    }

    #[test]
    fn the_plain_ones() {
        assert_eq!(reason(0x2001, 230), WaitReason::Sleep);
        assert_eq!(reason(0x2001, 128), WaitReason::Signal);
        assert_eq!(reason(1, 45), WaitReason::Socket);
        assert_eq!(reason(1, 232), WaitReason::Multiplex);
        assert_eq!(reason(1, 61), WaitReason::Child);
        assert_eq!(reason(0x2102, 58), WaitReason::Child, "vfork's parent");
        assert_eq!(reason(1, 73), WaitReason::FileLock);
        assert_eq!(reason(4, 230), WaitReason::Stopped);
        assert_eq!(reason(1, i32::MIN), WaitReason::Unknown);
    }

    #[test]
    fn a_fault_inside_a_syscall_is_a_fault() {
        assert_eq!(
            reason(0x102, 230),
            WaitReason::Fault,
            "clock_nanosleep writes to a page that fork shares"
        );
        assert_eq!(reason(0x102, -1), WaitReason::Fault);
        let in_mmap = RawWait { state: 2, syscall: 11, mmap_lock: true, ..RawWait::default() };
        assert_eq!(classify(&in_mmap), WaitReason::MmapLock);
        assert_eq!(reason(2, 11), WaitReason::Kernel);
    }

    #[test]
    fn the_kernels_lock_of_what_a_call_is_about_is_no_fault() {
        assert_eq!(on(ObjectKind::Pipe, 2, 1), WaitReason::Pipe, "write: another one writes");
        assert_eq!(on(ObjectKind::None, 2, 44), WaitReason::Socket, "sendto: __lock_sock");
        assert_eq!(on(ObjectKind::Device, 2, 16), WaitReason::Device, "ioctl");
        assert_eq!(on(ObjectKind::Epoll, 2, 232), WaitReason::Multiplex, "epoll_wait");
        let page = RawWait {
            state: 2,
            syscall: 1,
            in_iowait: true,
            object_kind: ObjectKind::Pipe,
            ..RawWait::default()
        };
        assert_eq!(classify(&page), WaitReason::Disk, "a page of what is written");
        for (state, syscall) in [(2, 34), (2, 449), (2, 202), (0x102, 35)] {
            assert_eq!(reason(state, syscall), WaitReason::Fault, "{syscall}");
        }
    }
}
