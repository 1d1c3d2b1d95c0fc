//! Starting the program: held before its first instruction until capture is attached, and
//! otherwise exactly as if the user's shell had started it.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use crate::error::CaptureError;

/// A child that waits for [`Held::release`] before it becomes the program.
pub struct Held {
    pid: u32,
    command: String,
    go: File,
    failure: File,
}

/// The program, running.
#[derive(Debug)]
pub struct Child {
    pid: u32,
    ended: Option<Ending>,
}

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It exited with this status.
    Exited(i32),
    /// This signal killed it.
    Killed(i32),
}

impl Ending {
    /// As a shell gives it: the status, or 128 + the signal's number.
    pub fn shell_status(self) -> i32 {
        match self {
            Ending::Exited(status) => status,
            Ending::Killed(signal) => 128 + signal,
        }
    }
}

fn pipe() -> Result<(File, File), CaptureError> {
    let mut ends = [0; 2];
    // SAFETY: the kernel writes two descriptors, which nobody else owns.
    unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(CaptureError::last("making a pipe"));
        }
        let [read, write] = ends.map(|end| File::from(OwnedFd::from_raw_fd(end)));
        Ok((read, write))
    }
}

/// Forks the child that will become `command`. It inherits everything that we inherited.
pub fn hold(command: &[OsString]) -> Result<Held, CaptureError> {
    let name = command.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    let error = |source| CaptureError::Command { command: name.clone(), source };
    let words: Result<Vec<CString>, _> = command.iter().map(|word| CString::new(word.as_bytes())).collect();
    let words = words.map_err(|_| error(io::Error::from(io::ErrorKind::InvalidInput)))?;
    let mut arguments: Vec<*const libc::c_char> = words.iter().map(|word| word.as_ptr()).collect();
    let Some(program) = arguments.first().copied() else {
        return Err(error(io::Error::from(io::ErrorKind::InvalidInput)));
    };
    arguments.push(std::ptr::null());
    let (go_read, go_write) = pipe()?;
    let (failure_read, failure_write) = pipe()?;
    // SAFETY: the child calls only async-signal-safe functions until it execs or exits.
    match unsafe { libc::fork() } {
        -1 => Err(CaptureError::last("forking")),
        0 => unsafe { become_program(program, &arguments, &go_read, &go_write, &failure_write) },
        pid => Ok(Held { pid: pid as u32, command: name, go: go_write, failure: failure_read }),
    }
}

/// In the child. Nothing is allocated here.
unsafe fn become_program(
    program: *const libc::c_char,
    arguments: &[*const libc::c_char],
    go: &File,
    go_writer: &File,
    failure: &File,
) -> ! {
    unsafe {
        // Ours too by the fork: the end of the pipe must come when the recorder dies.
        libc::close(go_writer.as_raw_fd());
        let mut byte = 0u8;
        let read = libc::read(go.as_raw_fd(), (&raw mut byte).cast(), 1);
        if read != 1 {
            libc::_exit(127);
        }
        // Rust's start-up code ignores SIGPIPE; the program must not inherit that.
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::execvp(program, arguments.as_ptr());
        let errno = (*libc::__errno_location()).to_ne_bytes();
        libc::write(failure.as_raw_fd(), errno.as_ptr().cast(), errno.len());
        libc::_exit(127);
    }
}

impl Held {
    /// The process that will be the program.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Lets it become the program; returns once it has, or could not.
    pub fn release(mut self) -> Result<Child, CaptureError> {
        watch_signals(self.pid)?;
        let mut child = Child { pid: self.pid, ended: None };
        let failed = |source| CaptureError::Command { command: self.command.clone(), source };
        self.go.write_all(&[1]).map_err(failed)?;
        let mut errno = [0u8; 4];
        match self.failure.read(&mut errno) {
            Ok(4) => {
                child.wait();
                Err(failed(io::Error::from_raw_os_error(i32::from_ne_bytes(errno))))
            }
            _ => Ok(child),
        }
    }
}

impl Child {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// How it ended, if it has.
    pub fn try_wait(&mut self) -> Option<Ending> {
        self.reap(libc::WNOHANG)
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> Ending {
        loop {
            if let Some(ending) = self.reap(0) {
                return ending;
            }
        }
    }

    fn reap(&mut self, flags: i32) -> Option<Ending> {
        if self.ended.is_none() {
            let mut status = 0;
            // SAFETY: waits for our own child; writes one integer.
            let pid = unsafe { libc::waitpid(self.pid as i32, &mut status, flags) };
            if pid == self.pid as i32 && libc::WIFEXITED(status) {
                self.ended = Some(Ending::Exited(libc::WEXITSTATUS(status)));
            } else if pid == self.pid as i32 && libc::WIFSIGNALED(status) {
                self.ended = Some(Ending::Killed(libc::WTERMSIG(status)));
            } else if pid < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ECHILD) {
                self.ended = Some(Ending::Exited(127));
            }
        }
        self.ended
    }
}

static FORWARD_TO: AtomicI32 = AtomicI32::new(0);
static RECEIVED: AtomicU64 = AtomicU64::new(0);

/// Signals sent to the recorder that are meant for the program.
const FORWARDED: [i32; 7] =
    [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2, libc::SIGWINCH];

extern "C" fn on_signal(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo with SA_SIGINFO; kill(2) is async-signal-safe.
    unsafe {
        RECEIVED.fetch_or(1 << signal, Ordering::Relaxed);
        let target = FORWARD_TO.load(Ordering::Relaxed);
        // A terminal (SI_KERNEL) signals the whole foreground group: the program has its own already.
        let from_a_process = (*info).si_code <= 0;
        if target > 0 && from_a_process {
            libc::kill(target, signal);
        }
    }
}

/// From now on signals to this process go to `pid` (0: to nobody) and no longer end the recorder.
pub fn watch_signals(pid: u32) -> Result<(), CaptureError> {
    FORWARD_TO.store(pid as i32, Ordering::Relaxed);
    // A limit on file sizes is an error of our writes, not our end. The program was forked before: it keeps its own.
    // SAFETY: changes what a signal does to this process.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    for signal in FORWARDED {
        // SAFETY: installs a handler that only touches atomics and calls kill.
        unsafe {
            let mut old: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &mut old);
            if old.sa_sigaction == libc::SIG_IGN {
                continue; // nohup: stays ignored by both
            }
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            if libc::sigaction(signal, &action, std::ptr::null_mut()) != 0 {
                return Err(CaptureError::last("installing a signal handler"));
            }
        }
    }
    Ok(())
}

/// Whether the user asked to stop: SIGINT, SIGTERM or SIGHUP has come since [`watch_signals`].
pub fn asked_to_stop() -> bool {
    let stop = (1 << libc::SIGINT) | (1 << libc::SIGTERM) | (1 << libc::SIGHUP);
    RECEIVED.load(Ordering::Relaxed) & stop != 0
}

/// Ends this process the way the program ended, so that our caller sees the same.
pub fn end_like(ending: Ending) -> ! {
    if let Ending::Killed(signal) = ending {
        // SAFETY: no core file of ours on top of the program's; then the same signal.
        unsafe {
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            libc::setrlimit(libc::RLIMIT_CORE, &none);
            libc::signal(signal, libc::SIG_DFL);
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, signal);
            libc::sigprocmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
            libc::kill(libc::getpid(), signal);
        }
    }
    std::process::exit(ending.shell_status())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(words: &[&str]) -> Result<Ending, CaptureError> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        Ok(hold(&words)?.release()?.wait())
    }

    #[test]
    fn endings_are_the_programs_own() {
        assert_eq!(run(&["sh", "-c", "exit 3"]).unwrap(), Ending::Exited(3));
        assert_eq!(run(&["sh", "-c", "kill -9 $$"]).unwrap(), Ending::Killed(9));
        assert_eq!(Ending::Killed(9).shell_status(), 137);
    }

    #[test]
    fn what_cannot_be_run_says_why() {
        let kind = |words: &[&str]| match run(words) {
            Err(CaptureError::Command { source, .. }) => source.kind(),
            other => panic!("{other:?}"),
        };
        assert_eq!(kind(&["/no/such/program"]), io::ErrorKind::NotFound);
        assert_eq!(kind(&["/dev/null"]), io::ErrorKind::PermissionDenied);
        assert_eq!(kind(&["a\0b"]), io::ErrorKind::InvalidInput);
        assert_eq!(kind(&[]), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn a_held_program_has_not_begun() {
        let held = hold(&["sh".into(), "-c".into(), "exit 0".into()]).unwrap();
        let name = std::fs::read_to_string(format!("/proc/{}/comm", held.pid())).unwrap();
        assert_ne!(name.trim(), "sh");
        assert_eq!(held.release().unwrap().wait(), Ending::Exited(0));
    }
}
