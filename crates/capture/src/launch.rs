//! Starting the program: held before its first instruction until capture is attached, and
//! otherwise exactly as if the user's shell had started it.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use holdup_events::Timestamp;
use holdup_events::recording::MemoryUse;

use crate::error::CaptureError;
use canary::Canary;
use signals::FORWARDED;

mod canary;
mod conditions;
mod inherited;
mod life;
mod parent;
mod signals;

pub use conditions::Conditions;
pub use inherited::was_closed;
pub use life::{Life, sleep};
pub use parent::end_with;
pub use signals::{
    asked_to_stop, keep_signal, stopped_by, tidy_when_stopped, times_received, watch_signals,
    watch_stopping_signals,
};

/// A child that waits for [`Held::release`] before it becomes the program.
pub struct Held {
    pid: u32,
    command: String,
    go: File,
    failure: File,
    canary: Canary,
}

/// The program, running.
#[derive(Debug)]
pub struct Child {
    pid: u32,
    ended: Option<Ending>,
    memory: Option<MemoryUse>,
    life: Option<Life>,
    released: Timestamp,
}

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The process exited with this status.
    Exited(i32),
    /// A signal with this number killed the process.
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

    /// Number of the signal that killed it.
    pub fn signal(self) -> Option<i32> {
        match self {
            Ending::Exited(_) => None,
            Ending::Killed(signal) => Some(signal),
        }
    }
}

fn pipe() -> Result<(File, File), CaptureError> {
    let mut ends = [0; 2];
    // SAFETY: the kernel writes two descriptors, which are ours.
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
    hold_with(command, &[])
}

/// Like [`hold`], with changes to the environment.
pub fn hold_with(command: &[OsString], changes: &[(OsString, OsString)]) -> Result<Held, CaptureError> {
    hold_under(command, changes, &Conditions::default())
}

/// ... and under these conditions.
pub fn hold_under(
    command: &[OsString],
    changes: &[(OsString, OsString)],
    conditions: &Conditions,
) -> Result<Held, CaptureError> {
    let name = command.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    let error = |error| CaptureError::Command { command: name.clone(), error };
    let words: Result<Vec<CString>, _> = command.iter().map(|word| CString::new(word.as_bytes())).collect();
    let words = words.map_err(|_| error(io::Error::from(io::ErrorKind::InvalidInput)))?;
    let mut arguments: Vec<*const libc::c_char> = words.iter().map(|word| word.as_ptr()).collect();
    let Some(program) = arguments.first().copied() else {
        return Err(error(io::Error::from(io::ErrorKind::InvalidInput)));
    };
    arguments.push(std::ptr::null());
    let environment = environment(changes);
    let mut variables: Vec<*const libc::c_char> = environment.iter().map(|line| line.as_ptr()).collect();
    variables.push(std::ptr::null());
    let variables = (!changes.is_empty()).then_some(&variables[..]);
    let canary = Canary::start(&words)?;
    let (go_read, go_write) = pipe()?;
    let (failure_read, failure_write) = pipe()?;
    // SAFETY: the child calls only async-signal-safe functions until it execs or exits.
    match unsafe { libc::fork() } {
        -1 => Err(CaptureError::last("forking")),
        0 => unsafe {
            if let Some(variables) = variables {
                environ = variables.as_ptr();
            }
            wait_for_go(&go_read, &go_write);
            if let Err(code) = conditions.apply() {
                fail(&failure_write, code);
            }
            become_program(program, &arguments, &failure_write)
        },
        pid => Ok(Held { pid: pid as u32, command: name, go: go_write, failure: failure_read, canary }),
    }
}

unsafe extern "C" {
    /// The environment that execvp passes on.
    static mut environ: *const *const libc::c_char;
}

/// Our environment with these changes.
fn environment(changes: &[(OsString, OsString)]) -> Vec<CString> {
    let is_changed = |name: &OsString| changes.iter().any(|(changed, _)| changed == name);
    let kept = std::env::vars_os().filter(|(name, _)| !is_changed(name));
    let lines = kept.chain(changes.iter().cloned()).map(|(mut name, value)| {
        name.push("=");
        name.push(value);
        CString::new(name.into_encoded_bytes())
    });
    lines.flatten().collect()
}

/// In the child. Nothing is allocated from here on.
unsafe fn wait_for_go(go: &File, go_writer: &File) {
    unsafe {
        // Ours too by the fork: the end of the pipe must come when the recorder dies.
        libc::close(go_writer.as_raw_fd());
        let mut byte = 0u8;
        let read = libc::read(go.as_raw_fd(), (&raw mut byte).cast(), 1);
        if read != 1 {
            libc::_exit(127);
        }
    }
}

/// In the child.
unsafe fn become_program(
    program: *const libc::c_char,
    arguments: &[*const libc::c_char],
    failure: &File,
) -> ! {
    unsafe {
        inherited::restore();
        signals::ignore_as_inherited();
        libc::execvp(program, arguments.as_ptr());
        fail(failure, 0)
    }
}

/// In the child: reports errno, and the code of the condition that could not be set. Code 0 means that the
/// program could not be run.
unsafe fn fail(failure: &File, code: u8) -> ! {
    unsafe {
        let [a, b, c, d] = (*libc::__errno_location()).to_ne_bytes();
        let told = [a, b, c, d, code];
        libc::write(failure.as_raw_fd(), told.as_ptr().cast(), told.len());
        libc::_exit(127);
    }
}

impl Held {
    /// The process that will be the program.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Lets the child become the program. Returns after its exec has succeeded or failed.
    pub fn release(mut self) -> Result<Child, CaptureError> {
        // Where no thread can be started, signals to the recorder end it and leave the program alone.
        let _ = signals::forward_to(self.pid, self.canary);
        // One that came before it could be handed on.
        if let Some(signal) = signals::stopped_by() {
            // SAFETY: kill(2) of our own child, which is not reaped.
            unsafe { libc::kill(self.pid as i32, signal) };
        }
        let (life, released) = (Life::open(self.pid), crate::lower::now());
        let mut child = Child { pid: self.pid, ended: None, memory: None, life, released };
        let failed = |error| CaptureError::Command { command: self.command.clone(), error };
        self.go.write_all(&[1]).map_err(failed)?;
        let mut told = [0u8; 5];
        match self.failure.read(&mut told) {
            Ok(5) => {
                child.wait();
                let [a, b, c, d, code] = told;
                let error = io::Error::from_raw_os_error(i32::from_ne_bytes([a, b, c, d]));
                Err(match code {
                    0 => failed(error),
                    _ => CaptureError::Condition {
                        name: conditions::name(code),
                        reason: conditions::explain(code, &error),
                    },
                })
            }
            _ => Ok(child),
        }
    }
}

impl Child {
    /// The PID.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// When it was released (CLOCK_MONOTONIC). Before, it waited for the recorder.
    pub fn released(&self) -> Timestamp {
        self.released
    }

    /// Memory use, once the process has exited.
    pub fn memory(&self) -> Option<MemoryUse> {
        self.memory
    }

    /// How it ended, if it has.
    pub fn try_wait(&mut self) -> Option<Ending> {
        self.reap(libc::WNOHANG)
    }

    /// Sleeps so long, or until it ends, `other` can be read, or a signal comes.
    pub fn sleep_until_exit(&self, pause: Duration, other: Option<BorrowedFd<'_>>) {
        // A debugger may keep its end from us.
        if sleep(pause, self.life.as_ref(), other) && !self.has_ended(libc::WNOHANG) {
            std::thread::sleep(pause.min(Duration::from_millis(1)));
        }
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
        if self.ended.is_none() && self.has_ended(flags) {
            signals::stop_forwarding(self.pid);
            let mut status = 0;
            // SAFETY: waits for our own child. Writes one integer, and one struct of plain numbers.
            let (pid, used) = unsafe {
                let mut used: libc::rusage = std::mem::zeroed();
                (libc::wait4(self.pid as i32, &mut status, 0, &mut used), used)
            };
            self.memory = (pid == self.pid as i32).then(|| memory(&used));
            self.ended = Some(match pid == self.pid as i32 {
                true if libc::WIFSIGNALED(status) => Ending::Killed(libc::WTERMSIG(status)),
                true => Ending::Exited(libc::WEXITSTATUS(status)),
                false => Ending::Exited(127),
            });
        }
        self.ended
    }

    /// Whether the process is a zombie, or not our child any more.
    fn has_ended(&self, flags: i32) -> bool {
        // SAFETY: queries our own child, without reaping it. Writes one struct of plain numbers.
        unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let flags = flags | libc::WEXITED | libc::WNOWAIT;
            match libc::waitid(libc::P_PID, self.pid, &mut info, flags) {
                0 => info.si_pid() == self.pid as i32,
                _ => io::Error::last_os_error().raw_os_error() == Some(libc::ECHILD),
            }
        }
    }
}

/// The kernel gives the peak in KiB.
fn memory(used: &libc::rusage) -> MemoryUse {
    // SAFETY: asks for a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    MemoryUse {
        minor_faults: used.ru_minflt as u64,
        peak_bytes: used.ru_maxrss as u64 * 1024,
        page_bytes: page.max(0) as u64,
    }
}

/// Ends this process the way the program ended, so that our caller sees the same.
pub fn end_like(ending: Ending) -> ! {
    if let Ending::Killed(signal) = ending {
        // SAFETY: first prevents a core dump of ours in addition to the program's, even to a pipe handler,
        // which the limit does not prevent. The status then lacks the "core dumped" flag, which only a dump
        // sets. Then sends the same signal.
        unsafe {
            libc::prctl(libc::PR_SET_DUMPABLE, 0);
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
    fn sleep_ends_when_the_program_exits() {
        let words = ["sh", "-c", "exit 5"].map(OsString::from);
        let mut child = hold(&words).unwrap().release().unwrap();
        while child.try_wait().is_none() {
            child.sleep_until_exit(Duration::from_secs(3600), None);
        }
        assert_eq!(child.wait(), Ending::Exited(5));
    }

    #[test]
    fn commands_that_cannot_run_give_the_error() {
        let kind = |words: &[&str]| match run(words) {
            Err(CaptureError::Command { error, .. }) => error.kind(),
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
        let still_held = crate::lower::now();
        let name = std::fs::read_to_string(format!("/proc/{}/comm", held.pid())).unwrap();
        assert_ne!(name.trim(), "sh");
        let mut child = held.release().unwrap();
        assert!(child.released() >= still_held);
        assert_eq!(child.wait(), Ending::Exited(0));
    }
}
