//! What a blocked thread waits for, learnt from /proc while it is blocked.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use holdup_events::ObjectKind;
use holdup_events::event::RawWait;

use super::procfs::{self, InSyscall};
use crate::process_memory;

/// The wait of a thread of which nothing is known but that it is blocked.
pub fn unknown_wait() -> RawWait {
    RawWait { syscall: i32::MIN, ..RawWait::default() }
}

/// Returns the wait of a thread that `stat` shows in state `letter`. `None` if it runs or has exited.
pub fn read_wait(tgid: u32, tid: u32, letter: u8) -> Option<RawWait> {
    let mut wait = RawWait { state: state_bits(letter)?, ..unknown_wait() };
    match procfs::read_thread_file(tgid, tid, "syscall").as_deref().and_then(procfs::parse_syscall) {
        // It woke between the two reads.
        Some(InSyscall::Running) => return None,
        Some(InSyscall::Exception) => wait.syscall = -1,
        Some(InSyscall::Call { number, arguments }) => {
            wait.syscall = number;
            add_object(&mut wait, tgid, &arguments);
        }
        // Another user's process, or forbidden. The state is still useful.
        None => (),
    }
    if letter == b'D' {
        let place = procfs::read_thread_file(tgid, tid, "wchan").unwrap_or_default();
        add_kernel_place(&mut wait, place.trim());
    }
    Some(wait)
}

/// Returns the `__state` bits of a state letter in `stat`. `None` for running and dead threads.
pub fn state_bits(letter: u8) -> Option<u32> {
    match letter {
        b'S' => Some(0x1),
        b'D' => Some(0x2),
        b'T' => Some(0x4),
        b't' => Some(0x8),
        b'I' => Some(0x402),
        b'P' => Some(0x40),
        _ => None,
    }
}

/// The argument that names the awaited object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Names {
    Futex,
    Descriptor(usize),
    Nothing,
}

fn names(syscall: i32) -> Names {
    match syscall {
        // futex, futex_wait
        202 | 455 => Names::Futex,
        // read, write, ioctl, pread64, pwrite64, readv, writev
        0 | 1 | 16..=20 => Names::Descriptor(0),
        // sendfile, connect, accept, sendto, recvfrom, sendmsg, recvmsg
        40 | 42..=47 => Names::Descriptor(0),
        // fcntl, flock, fsync, fdatasync, ftruncate, getdents, getdents64
        72..=75 | 77 | 78 | 217 => Names::Descriptor(0),
        // epoll_wait, epoll_pwait, epoll_pwait2
        232 | 281 | 441 => Names::Descriptor(0),
        // splice, tee, sync_file_range, vmsplice, fallocate, accept4
        275..=278 | 285 | 288 => Names::Descriptor(0),
        // preadv, pwritev, recvmmsg, syncfs, sendmmsg, copy_file_range, preadv2, pwritev2, io_uring_enter
        295 | 296 | 299 | 306 | 307 | 326..=328 | 426 => Names::Descriptor(0),
        _ => Names::Nothing,
    }
}

/// `FUTEX_WAIT` on a word with the value of "locked, with waiters".
fn is_lock_wait(op: u32, value: u32) -> bool {
    op & 0x7f == 0 && value == 2
}

fn add_object(wait: &mut RawWait, tgid: u32, arguments: &[u64; 6]) {
    match names(wait.syscall) {
        Names::Nothing => (),
        Names::Futex => {
            wait.object_kind = ObjectKind::Futex;
            wait.object = arguments[0];
            // futex_wait(2) has no operation. Its second argument is the value.
            (wait.op, wait.value) = match wait.syscall {
                202 => (arguments[1] as u32, arguments[2] as u32),
                _ => (0, arguments[1] as u32),
            };
            if is_lock_wait(wait.op, wait.value) {
                wait.owner_tid = mutex_owner(tgid, wait.object);
            }
        }
        Names::Descriptor(index) => {
            let descriptor = arguments.get(index).copied().unwrap_or(0) as u32;
            wait.op = descriptor;
            (wait.object_kind, wait.object) = descriptor_object(tgid, descriptor);
        }
    }
}

/// Returns the owner's TID in a glibc mutex, 8 bytes after its futex word. Not verified, and 0 if unreadable.
fn mutex_owner(tgid: u32, futex: u64) -> u32 {
    let mut owner = [0; 4];
    let address = futex.checked_add(8);
    match address.and_then(|address| process_memory::read(tgid, address, &mut owner).ok()) {
        Some(4) => u32::from_ne_bytes(owner),
        _ => 0,
    }
}

/// Returns the kind of object of descriptor `number` of a process.
fn descriptor_object(tgid: u32, number: u32) -> (ObjectKind, u64) {
    let link = format!("/proc/{tgid}/fd/{number}");
    let unknown = (ObjectKind::Descriptor, u64::from(number));
    let Ok(target) = fs::read_link(&link) else { return unknown };
    if let Some(object) = named_object(&target.to_string_lossy(), tgid, number) {
        return object;
    }
    let Ok(metadata) = fs::metadata(&link) else { return unknown };
    let kind = metadata.file_type();
    let object_kind = if kind.is_char_device() {
        ObjectKind::Device
    } else if kind.is_block_device() {
        ObjectKind::BlockDevice
    } else if kind.is_fifo() {
        ObjectKind::Pipe
    } else {
        ObjectKind::File
    };
    // Inodes of two file systems have the same numbers.
    let device = if object_kind == ObjectKind::File { metadata.dev() << 32 } else { 0 };
    (object_kind, metadata.ino() ^ device)
}

/// Returns the object named by the link of a descriptor, if the link suffices. Anonymous inodes share one
/// inode number, so process and descriptor identify them.
fn named_object(link: &str, tgid: u32, number: u32) -> Option<(ObjectKind, u64)> {
    let inode = |rest: &str| rest.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    if let Some(rest) = link.strip_prefix("pipe:") {
        return Some((ObjectKind::Pipe, inode(rest)?));
    }
    if let Some(rest) = link.strip_prefix("socket:") {
        return Some((ObjectKind::Socket, inode(rest)?));
    }
    let kind = match link.strip_prefix("anon_inode:")?.trim_matches(['[', ']']) {
        "eventfd" => ObjectKind::EventFd,
        "timerfd" => ObjectKind::TimerFd,
        "eventpoll" => ObjectKind::Epoll,
        "signalfd" => ObjectKind::SignalFd,
        "inotify" => ObjectKind::Inotify,
        _ => ObjectKind::Anonymous,
    };
    Some((kind, u64::from(tgid) << 32 | u64::from(number)))
}

/// Adds the kind of wait by the kernel function in which an uninterruptible thread sleeps. `place` is empty
/// or `0` if it is hidden.
fn add_kernel_place(wait: &mut RawWait, place: &str) {
    const DISK: &[&str] = &["io_schedule", "folio_wait_bit", "wait_on_page", "blkdev", "jbd2", "submit_bio"];
    wait.in_iowait = DISK.iter().any(|name| place.contains(name));
    // brk, mmap, mprotect, munmap, mremap, madvise, clone, fork, vfork, clone3, or a fault
    let on_address_space = matches!(wait.syscall, -1 | 9..=12 | 25 | 28 | 56..=58 | 435);
    wait.mmap_lock = on_address_space && (place.contains("rwsem_down") || place.contains("mmap_lock"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_descriptors() {
        assert_eq!(named_object("pipe:[77]", 1, 2), Some((ObjectKind::Pipe, 77)));
        assert_eq!(named_object("socket:[78]", 1, 2), Some((ObjectKind::Socket, 78)));
        assert_eq!(named_object("anon_inode:[eventfd]", 1, 2), Some((ObjectKind::EventFd, 1 << 32 | 2)));
        assert_eq!(named_object("anon_inode:inotify", 1, 2), Some((ObjectKind::Inotify, 1 << 32 | 2)));
        assert_eq!(named_object("anon_inode:[io_uring]", 0, 3), Some((ObjectKind::Anonymous, 3)));
        assert_eq!(named_object("/dev/null", 1, 2), None);
        assert_eq!(named_object("pipe:[x]", 1, 2), None);
    }

    #[test]
    fn futex_arguments() {
        let mut wait = RawWait { syscall: 202, ..RawWait::default() };
        add_object(&mut wait, 0, &[0x1000, 0x189, 5, 0, 0, 0]);
        assert_eq!((wait.object_kind, wait.object), (ObjectKind::Futex, 0x1000));
        assert_eq!((wait.op, wait.value, wait.owner_tid), (0x189, 5, 0));
        assert!(is_lock_wait(0x80, 2) && !is_lock_wait(0x189, 2) && !is_lock_wait(0x80, 1));
    }

    #[test]
    fn kernel_places() {
        let at = |syscall, place| {
            let mut wait = RawWait { syscall, ..RawWait::default() };
            add_kernel_place(&mut wait, place);
            (wait.in_iowait, wait.mmap_lock)
        };
        assert_eq!(at(17, "folio_wait_bit_common"), (true, false));
        assert_eq!(at(9, "rwsem_down_write_slowpath"), (false, true));
        assert_eq!(at(83, "rwsem_down_write_slowpath"), (false, false));
        assert_eq!(at(-1, "0"), (false, false));
    }

    #[test]
    fn own_memory_names_a_mutex_owner() {
        let mutex = [2u32, 0, 4711];
        let address = mutex.as_ptr() as u64;
        let owner = mutex_owner(std::process::id(), address);
        assert!(owner == 4711 || owner == 0, "readable, or forbidden here");
        assert_eq!(mutex_owner(std::process::id(), u64::MAX), 0);
    }

    #[test]
    fn a_thread_at_a_mutex_names_its_owner() {
        struct Shared(std::cell::UnsafeCell<libc::pthread_mutex_t>);
        // SAFETY: a pthread mutex may be shared, and is only accessed through pthread calls.
        unsafe impl Sync for Shared {}
        let mutex = Shared(std::cell::UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
        let (tell, told) = std::sync::mpsc::channel();
        // SAFETY: asks for a number.
        let own = unsafe { libc::gettid() } as u32;
        let shared = &mutex;
        std::thread::scope(|scope| {
            // SAFETY (all three calls): the mutex outlives the scope and is unlocked by its owner.
            unsafe { libc::pthread_mutex_lock(mutex.0.get()) };
            scope.spawn(move || {
                let _ = tell.send(unsafe { libc::gettid() } as u32);
                unsafe {
                    libc::pthread_mutex_lock(shared.0.get());
                    libc::pthread_mutex_unlock(shared.0.get());
                }
            });
            let waiter = told.recv().unwrap();
            let wait = await_futex_wait(waiter);
            unsafe { libc::pthread_mutex_unlock(mutex.0.get()) };
            let Some(wait) = wait else { return println!("skipped: /proc/PID/syscall is not readable") };
            assert_eq!((wait.object_kind, wait.object), (ObjectKind::Futex, mutex.0.get() as u64));
            assert_eq!((wait.value, wait.state), (2, 1));
            assert!(wait.owner_tid == own || wait.owner_tid == 0, "readable, or forbidden here: {wait:?}");
        });
    }

    fn await_futex_wait(tid: u32) -> Option<RawWait> {
        let own = std::process::id();
        procfs::read_thread_file(own, tid, "syscall")?;
        loop {
            match procfs::stat(own, tid).and_then(|stat| read_wait(own, tid, stat.state)) {
                Some(wait) if wait.syscall == i32::MIN => return None,
                Some(wait) if wait.syscall == 202 => return Some(wait),
                _ => std::thread::yield_now(),
            }
        }
    }
}
