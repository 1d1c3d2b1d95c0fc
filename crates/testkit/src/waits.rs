//! Waits as the kernel would show them, by the reason that they should be decoded to.

use holdup_events::event::RawWait;
use holdup_events::{ObjectKind, WaitReason};

const TASK_INTERRUPTIBLE: u32 = 1;
const TASK_UNINTERRUPTIBLE: u32 = 2;

const FUTEX: i32 = 202;
const FUTEX_WAIT_PRIVATE: u32 = 128;
/// Operation in glibc's condition variables.
const FUTEX_WAIT_BITSET_PRIVATE: u32 = 9 | 128;
/// Operation in glibc's `pthread_join`: not private, since the kernel wakes it, and by the real-time clock.
const FUTEX_WAIT_BITSET_REALTIME: u32 = 9 | 256;

/// A wait of that reason on that object. `None` for reasons that no test needs yet.
pub fn raw_wait(reason: WaitReason, object: u64) -> Option<RawWait> {
    let wait = |syscall, object_kind| RawWait {
        state: TASK_INTERRUPTIBLE,
        syscall,
        object_kind,
        object,
        ..RawWait::default()
    };
    let futex = |op, value| RawWait { op, value, ..wait(FUTEX, ObjectKind::Futex) };
    Some(match reason {
        WaitReason::Lock => futex(FUTEX_WAIT_PRIVATE, 2),
        // A round counter.
        WaitReason::Barrier => futex(FUTEX_WAIT_PRIVATE, 7),
        WaitReason::Park => futex(FUTEX_WAIT_BITSET_PRIVATE, 0),
        // As glibc 2.43 does: the state of the thread that is joined, not its number.
        WaitReason::Join => futex(FUTEX_WAIT_BITSET_REALTIME, 2),
        WaitReason::Sleep => RawWait { object: 0, ..wait(230, ObjectKind::None) },
        WaitReason::Multiplex => wait(232, ObjectKind::Epoll),
        WaitReason::Disk => {
            RawWait { state: TASK_UNINTERRUPTIBLE, in_iowait: true, ..wait(0, ObjectKind::File) }
        }
        WaitReason::Pipe => wait(0, ObjectKind::Pipe),
        WaitReason::IoUring => wait(426, ObjectKind::Anonymous),
        WaitReason::Socket => wait(45, ObjectKind::Socket),
        WaitReason::Child => RawWait { object: 0, ..wait(61, ObjectKind::None) },
        WaitReason::FileLock => wait(73, ObjectKind::File),
        WaitReason::MmapLock => {
            RawWait { state: TASK_UNINTERRUPTIBLE, mmap_lock: true, object: 0, ..wait(-1, ObjectKind::None) }
        }
        WaitReason::Fault => {
            RawWait { state: TASK_UNINTERRUPTIBLE, in_iowait: true, object: 0, ..wait(-1, ObjectKind::None) }
        }
        _ => return None,
    })
}

/// The same in a later round of its barrier, if it waits at one: the word counts rounds.
pub fn in_round(reason: WaitReason, round: u64, wait: RawWait) -> RawWait {
    let value =
        if reason == WaitReason::Barrier { wait.value.wrapping_add(round as u32) } else { wait.value };
    RawWait { value, ..wait }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_come_back() {
        for reason in WaitReason::ALL {
            if let Some(wait) = raw_wait(*reason, 5) {
                assert_eq!(holdup_decode::wait_reason::classify(&wait), *reason);
                let next = in_round(*reason, 1, wait);
                assert_eq!(holdup_decode::wait_reason::classify(&next), *reason);
            }
        }
    }
}
