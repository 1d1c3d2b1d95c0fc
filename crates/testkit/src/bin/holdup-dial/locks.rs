//! The mutexes shared by a worker and its partner: glibc's, whose word contains the owner, and the standard
//! library's, whose word does not.

use std::cell::UnsafeCell;
use std::sync::Mutex;

/// Which mutex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// `pthread_mutex_t`.
    Pthread,
    /// `std::sync::Mutex`.
    Std,
}

impl LockKind {
    /// As on the command line.
    pub fn from_name(name: &str) -> Option<LockKind> {
        match name {
            "pthread" => Some(LockKind::Pthread),
            "std" => Some(LockKind::Std),
            _ => None,
        }
    }
}

/// One of the two. glibc's mutex must not move, so it is boxed.
pub enum Lock {
    Pthread(Box<UnsafeCell<libc::pthread_mutex_t>>),
    Std(Mutex<()>),
}

// SAFETY: a pthread mutex may be used by several threads, and never moves out of its box.
unsafe impl Sync for Lock {}
// SAFETY: as above, and a free mutex belongs to no thread.
unsafe impl Send for Lock {}

impl Lock {
    /// A free one.
    pub fn new(kind: LockKind) -> Lock {
        match kind {
            LockKind::Pthread => Lock::Pthread(Box::new(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER))),
            LockKind::Std => Lock::Std(Mutex::new(())),
        }
    }

    /// Does it with the mutex held.
    pub fn hold(&self, body: impl FnOnce()) {
        match self {
            Lock::Pthread(mutex) => {
                // SAFETY: initialized in `new`, and unlocked below by the same thread.
                unsafe { libc::pthread_mutex_lock(mutex.get()) };
                body();
                // SAFETY: this thread holds it.
                unsafe { libc::pthread_mutex_unlock(mutex.get()) };
            }
            Lock::Std(mutex) => {
                let _held = mutex.lock();
                body();
            }
        }
    }
}
