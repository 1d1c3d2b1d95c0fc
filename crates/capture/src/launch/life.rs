//! Whether a process lives, without asking for it by name each time.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// A pidfd of a process, which reports its exit (pidfd_open(2), Linux 5.3). It never refers to a later
/// process with the same PID.
#[derive(Debug)]
pub struct Life(OwnedFd);

impl Life {
    /// Opens a process. `None` if it does not exist, is a thread, or the kernel has no pidfds.
    pub fn open(pid: u32) -> Option<Life> {
        // SAFETY: plain numbers. The returned descriptor is ours.
        unsafe {
            let descriptor = libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0);
            (descriptor >= 0).then(|| Life(OwnedFd::from_raw_fd(descriptor as libc::c_int)))
        }
    }

    /// Whether all its threads have ended.
    pub fn is_over(&self) -> bool {
        sleep(Duration::ZERO, Some(self), None)
    }
}

/// Sleeps so long, or until `life` ends, `other` can be read, or a signal comes. Whether it has ended.
pub fn sleep(pause: Duration, life: Option<&Life>, other: Option<BorrowedFd<'_>>) -> bool {
    let wanted = |fd: &dyn AsRawFd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let mut all: Vec<libc::pollfd> = other.iter().map(|other| wanted(other)).collect();
    all.extend(life.map(|life| wanted(&life.0)));
    let time =
        libc::timespec { tv_sec: pause.as_secs() as _, tv_nsec: libc::c_long::from(pause.subsec_nanos()) };
    // SAFETY: `all` has open descriptors, with its length passed, and a timeout. The kernel writes one number
    // for each.
    unsafe { libc::ppoll(all.as_mut_ptr(), all.len() as libc::nfds_t, &time, std::ptr::null()) };
    life.is_some() && all.last().is_some_and(|life| life.revents != 0)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn an_exited_child_is_over_before_it_is_reaped() {
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let life = Life::open(child.id()).expect("Linux 5.3 has pidfd_open");
        assert!(!life.is_over());
        drop(child.stdin.take());
        while !sleep(Duration::from_secs(1), Some(&life), None) {}
        assert!(life.is_over());
        child.wait().unwrap();
        assert!(life.is_over());
        assert!(Life::open(u32::MAX / 4).is_none());
    }

    #[test]
    fn a_readable_descriptor_ends_a_sleep() {
        let (mut told, mut teller) = std::io::pipe().unwrap();
        let life = Life::open(std::process::id());
        teller.write_all(b"x").unwrap();
        assert!(!sleep(Duration::from_secs(3600), life.as_ref(), Some(told.as_fd())));
        told.read_exact(&mut [0]).unwrap();
        assert!(!sleep(Duration::from_millis(1), life.as_ref(), Some(told.as_fd())));
    }
}
