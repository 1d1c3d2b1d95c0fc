//! State of the standard streams, SIGPIPE and SIGCHLD at the start of this process, read before any code can
//! change it. The program gets it back.
//!
//! Rust's startup code ignores SIGPIPE. The parent may ignore it, too, as systemd does for services. Then a
//! program that writes to a closed peer gets an error instead of being killed. A process that ignores SIGCHLD
//! cannot wait for its children (wait(2)), which holdup must.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

static PIPE_IGNORED: AtomicBool = AtomicBool::new(false);
static CHILD_IGNORED: AtomicBool = AtomicBool::new(false);
/// Standard input, output and error that were closed, a bit for each.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// Runs before `main`, and so before Rust's start-up code.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = note;

extern "C" fn note() {
    for descriptor in 0..3 {
        // SAFETY: only asks for flags.
        if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } < 0 {
            CLOSED.fetch_or(1 << descriptor, Ordering::Relaxed);
        }
    }
    PIPE_IGNORED.store(is_ignored(libc::SIGPIPE), Ordering::Relaxed);
    if is_ignored(libc::SIGCHLD) {
        CHILD_IGNORED.store(true, Ordering::Relaxed);
        // SAFETY: sets the default action, in a process without threads yet.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    }
}

/// Whether standard input, output or error (0 to 2) was closed when this process began. Rust's start-up code opens
/// `/dev/null` there, so that writes seem to succeed.
pub fn was_closed(descriptor: RawFd) -> bool {
    CLOSED.load(Ordering::Relaxed) & 1 << descriptor != 0
}

pub(super) fn is_ignored(signal: i32) -> bool {
    // SAFETY: only queries. The kernel fills a struct of plain numbers.
    unsafe {
        let mut old: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut old);
        old.sa_sigaction == libc::SIG_IGN
    }
}

/// In the child that becomes the program. Async-signal-safe.
pub(super) unsafe fn restore() {
    let as_noted = |ignored: &AtomicBool| match ignored.load(Ordering::Relaxed) {
        true => libc::SIG_IGN,
        false => libc::SIG_DFL,
    };
    // SAFETY: changes what signals do to this process.
    unsafe {
        libc::signal(libc::SIGPIPE, as_noted(&PIPE_IGNORED));
        libc::signal(libc::SIGCHLD, as_noted(&CHILD_IGNORED));
    }
}
