//! A process that detects signals sent to several processes at once. It belongs to the recorder's process
//! group, session and cgroup, so a signal to one of these reaches it as well as the program. A signal to the
//! recorder alone does not. `signals` evaluates its reports.
//!
//! It dies with the recorder, keeps no descriptor and no directory open, and is reaped before the recorder
//! ends.

use std::ffi::CString;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, RawFd};

use super::{FORWARDED, pipe};
use crate::error::CaptureError;
use crate::lower::now;

/// A signal that came, as it goes through a pipe.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Arrival {
    /// The signal number.
    pub(super) signal: i32,
    /// The process that sent it. 0 if it is in a namespace that this one does not see.
    pub(super) sender: i32,
    /// When it was taken note of (CLOCK_MONOTONIC).
    pub(super) at_ns: u64,
}

impl Arrival {
    const SIZE: usize = size_of::<Arrival>();

    /// To a pipe, in one piece. Async-signal-safe.
    pub(super) fn send(&self, to: RawFd) -> bool {
        // SAFETY: reads a struct of plain numbers without padding.
        unsafe { libc::write(to, (&raw const *self).cast(), Arrival::SIZE) == Arrival::SIZE as isize }
    }

    /// Returns the next signal from a pipe. `None` at its end.
    pub(super) fn receive(from: &mut File) -> Option<Arrival> {
        let mut bytes = [0; Arrival::SIZE];
        from.read_exact(&mut bytes).ok()?;
        let (signal, rest) = bytes.split_first_chunk()?;
        let (sender, rest) = rest.split_first_chunk()?;
        let at_ns = u64::from_ne_bytes(*rest.first_chunk()?);
        Some(Arrival { signal: i32::from_ne_bytes(*signal), sender: i32::from_ne_bytes(*sender), at_ns })
    }
}

/// How long an answer may take (ms): it is asked of a process that only waits.
const ANSWER_MAX_MS: i32 = 1000;

/// The process, killed and reaped when dropped.
#[derive(Debug)]
pub(super) struct Canary {
    pid: i32,
    reports: File,
}

impl Canary {
    /// Forks it. `words` is the program's command line.
    pub(super) fn start(words: &[CString]) -> Result<Canary, CaptureError> {
        let (reports, report_to) = pipe()?;
        let title = Title::find(words);
        // SAFETY: plain system calls, and the child calls only async-signal-safe functions. Signals are
        // blocked during the fork and stay blocked in the child, so that none arrives before the child is
        // ready.
        unsafe {
            let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
            let parent = libc::getpid();
            let pid = libc::fork();
            if pid == 0 {
                watch(report_to.as_raw_fd(), parent, title.as_ref());
            }
            let error = CaptureError::last("forking");
            libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
            if pid < 0 { Err(error) } else { Ok(Canary { pid, reports }) }
        }
    }

    /// Returns the signals that reached it since the last call. `None` if it does not respond.
    pub(super) fn heard(&mut self) -> Option<Vec<Arrival>> {
        // Signals are received in the order of their numbers. When this one is reported, all earlier ones
        // have been.
        let question = libc::SIGRTMIN();
        // SAFETY: signals a child that has not been reaped.
        unsafe {
            // It may have been stopped together with us, and we alone continued.
            libc::kill(self.pid, libc::SIGCONT);
            libc::kill(self.pid, question);
        }
        let mut heard = Vec::new();
        loop {
            let mut ready = libc::pollfd { fd: self.reports.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one pollfd, for the length of the call.
            if unsafe { libc::poll(&mut ready, 1, ANSWER_MAX_MS) } == 0 {
                return None;
            }
            let arrival = Arrival::receive(&mut self.reports)?;
            if arrival.signal == question {
                return Some(heard);
            }
            heard.push(arrival);
        }
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        // SAFETY: our own child, not reaped before.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, std::ptr::null_mut(), 0);
        }
    }
}

/// The child: reports each signal. Does not allocate.
unsafe fn watch(report_to: RawFd, parent: libc::pid_t, title: Option<&Title>) -> ! {
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid() != parent {
            libc::_exit(0); // the parent died before the prctl took effect
        }
        close_all_but(report_to);
        libc::chdir(c"/".as_ptr());
        // A signal by process name (`pkill holdup`) is meant for the recorder. A signal by command line
        // (`pkill -f`) is meant for the program.
        libc::prctl(libc::PR_SET_NAME, c"canary".as_ptr());
        if let Some(title) = title {
            title.write();
        }
        let mut awaited: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut awaited);
        libc::sigaddset(&mut awaited, libc::SIGRTMIN());
        for signal in FORWARDED {
            libc::sigaddset(&mut awaited, signal);
        }
        loop {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let signal = libc::sigwaitinfo(&awaited, &mut info);
            if signal > 0 {
                let arrival = Arrival { signal, sender: info.si_pid(), at_ns: now().0 };
                if !arrival.send(report_to) {
                    libc::_exit(0);
                }
            }
        }
    }
}

/// Closes all descriptors except one: no process may wait for the end of a pipe because of the canary.
unsafe fn close_all_but(kept: RawFd) {
    let kept = kept as libc::c_uint;
    unsafe {
        let below = kept == 0 || libc::syscall(libc::SYS_close_range, 0, kept - 1, 0) == 0;
        if below && libc::syscall(libc::SYS_close_range, kept + 1, libc::c_uint::MAX, 0) == 0 {
            return;
        }
        // Before Linux 5.9.
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        for descriptor in 0..limit.rlim_cur.min(1 << 20) as libc::c_uint {
            if descriptor != kept {
                libc::close(descriptor as RawFd);
            }
        }
    }
}

/// Place of this process's command line in its memory. It ends with the program's own command line. The child
/// moves the program's part to the front. Then `pkill -f PROGRAM` reaches recorder, program and canary, and
/// `pkill -f holdup` does not reach the canary.
struct Title {
    start: usize,
    length: usize,
    kept: usize,
}

impl Title {
    /// Text before the program's words. It replaces `holdup` and has the same length.
    const PREFIX: &[u8] = b"canary\0";

    fn find(words: &[CString]) -> Option<Title> {
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        // The first field after the name is field 3. Fields 48 and 49 are the bounds.
        let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(45);
        let mut bound = || fields.next()?.parse::<usize>().ok();
        let (start, end) = (bound()?, bound()?);
        let line = words.iter().flat_map(|word| word.as_bytes_with_nul()).copied().collect::<Vec<u8>>();
        let length = end.checked_sub(start).filter(|length| start != 0 && *length >= line.len())?;
        // SAFETY: the kernel keeps the command line of a running process there, in its stack.
        let is_its_end = unsafe { std::slice::from_raw_parts(start as *const u8, length) }.ends_with(&line);
        is_its_end.then_some(Title { start, length, kept: line.len() })
    }

    /// In the child.
    unsafe fn write(&self) {
        let prefix = if self.length - self.kept >= Self::PREFIX.len() { Self::PREFIX } else { b"" };
        let (front, used) = (self.start as *mut u8, prefix.len() + self.kept);
        unsafe {
            std::ptr::copy(front.add(self.length - self.kept), front.add(prefix.len()), self.kept);
            std::ptr::copy_nonoverlapping(prefix.as_ptr(), front, prefix.len());
            std::ptr::write_bytes(front.add(used), 0, self.length - used);
        }
    }
}
