//! Whether a process lives, without asking for it by name each time.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// Holds on to a process: tells when it ends (pidfd_open(2), Linux 5.3), never by a successor of the same number.
#[derive(Debug)]
pub struct Life(OwnedFd);

impl Life {
    /// Of a process that is there; `None` if it is not, is no process but a thread, or the kernel cannot.
    pub fn of(pid: u32) -> Option<Life> {
        // SAFETY: plain numbers; what it returns nobody else owns.
        unsafe {
            let descriptor = libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0);
            (descriptor >= 0).then(|| Life(OwnedFd::from_raw_fd(descriptor as libc::c_int)))
        }
    }

    /// Whether all its threads have ended.
    pub fn is_over(&self) -> bool {
        self.sleep_beside(Duration::ZERO)
    }

    /// Sleeps so long, or until it ends, or a signal comes; whether it has ended.
    pub fn sleep_beside(&self, pause: Duration) -> bool {
        let mut wanted = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let time = libc::timespec {
            tv_sec: pause.as_secs() as libc::time_t,
            tv_nsec: libc::c_long::from(pause.subsec_nanos()),
        };
        // SAFETY: one descriptor that we own, and a time; the kernel writes one number.
        unsafe { libc::ppoll(&mut wanted, 1, &time, std::ptr::null()) };
        wanted.revents != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_has_ended_is_over_before_anybody_waits_for_it() {
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let life = Life::of(child.id()).expect("Linux 5.3 has pidfd_open");
        assert!(!life.is_over());
        drop(child.stdin.take());
        while !life.sleep_beside(Duration::from_secs(1)) {}
        assert!(life.is_over());
        child.wait().unwrap();
        assert!(life.is_over());
        assert!(Life::of(u32::MAX / 4).is_none());
    }
}
