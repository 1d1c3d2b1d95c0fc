//! Signals to the recorder are recorded. In a run they are forwarded to the program, unless the program has
//! received them already. A signal to the whole process group or cgroup reaches the recorder and the program.
//! The canary detects such signals.

use std::fs::File;
use std::os::fd::{IntoRawFd, RawFd};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use super::canary::{Arrival, Canary};
use super::inherited::is_ignored;
use super::{Ending, end_like, pipe};
use crate::error::CaptureError;
use crate::lower::now;

/// Signals sent to the recorder that are meant for the program.
pub(super) const FORWARDED: [i32; 7] =
    [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2, libc::SIGWINCH];

/// A sender that signals several processes, as a group or one after the other, has finished after this time
/// (ns).
const GRACE_NS: u64 = 10_000_000;

/// Recorder and canary may note the same signal this far apart where they wait for a CPU (ns). A second one of the
/// same sender in this time counts as the same, as the kernel itself merges signals that wait.
const SAME_NS: u64 = 200_000_000;

/// Since handlers were installed, a bit for each signal.
static RECEIVED: AtomicU64 = AtomicU64::new(0);
/// Signals that are meant for the recorder itself, a bit for each.
static OWN: AtomicU64 = AtomicU64::new(0);
/// Signals of [`OWN`] that were ignored when this process began, one bit each. A program that it starts
/// inherits that.
static IGNORED: AtomicU64 = AtomicU64::new(0);
/// How many of them came.
static OWN_RECEIVED: [AtomicU64; SIGNALS] = [const { AtomicU64::new(0) }; SIGNALS];
/// Signal numbers that are no real-time ones are below this.
const SIGNALS: usize = 32;
/// Signals that were ignored when this process began, one bit each. Shells ignore interrupts of background
/// jobs. Such signals from a terminal are still ignored, those from a process (`kill -INT`) are accepted.
static BACKGROUND: AtomicU64 = AtomicU64::new(0);
/// Descriptor to which the handler reports signals. -1 without a receiver.
static ARRIVALS: AtomicI32 = AtomicI32::new(-1);
static ROUTE: Mutex<Option<Route>> = Mutex::new(None);

/// The recipient of forwarded signals.
struct Route {
    program: i32,
    canary: Option<Canary>,
    /// Signals that recently reached the canary.
    heard: Vec<Arrival>,
}

fn route() -> MutexGuard<'static, Option<Route>> {
    ROUTE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on signals to this process go to `program` and no longer end the recorder.
pub(super) fn forward_to(program: u32, canary: Canary) -> Result<(), CaptureError> {
    static THREAD: OnceLock<()> = OnceLock::new();
    if THREAD.get().is_none() {
        let (arrivals, tell) = pipe()?;
        let thread = std::thread::Builder::new().name("signals".to_owned());
        let started = thread.spawn(move || forward_all(arrivals));
        started.map_err(|error| CaptureError::System { what: "starting a thread", error })?;
        let tell = tell.into_raw_fd();
        // SAFETY: a full pipe must not hold up the handler.
        unsafe { libc::fcntl(tell, libc::F_SETFL, libc::O_NONBLOCK) };
        ARRIVALS.store(tell, Ordering::Relaxed);
        let _ = THREAD.set(());
    }
    *route() = Some(Route { program: program as i32, canary: Some(canary), heard: Vec::new() });
    watch_signals()
}

/// `program` has ended, and is still a zombie: its number becomes another's once it is reaped.
pub(super) fn stop_forwarding(program: u32) {
    let mut route = route();
    if route.as_ref().is_some_and(|route| route.program == program as i32) {
        *route = None;
    }
}

/// The thread: in the order in which they came.
fn forward_all(mut arrivals: File) {
    while let Some(arrival) = Arrival::receive(&mut arrivals) {
        std::thread::sleep(Duration::from_nanos((arrival.at_ns + GRACE_NS).saturating_sub(now().0)));
        if let Some(route) = route().as_mut() {
            route.forward(&arrival);
        }
    }
}

impl Route {
    fn forward(&mut self, arrival: &Arrival) {
        // A program that signals its parent, for example when it is ready, must not get that signal itself.
        if arrival.sender != self.program && !self.has_reached_all(arrival) {
            // SAFETY: kill(2) of a child that is not reaped before this route is removed.
            unsafe { libc::kill(self.program, arrival.signal) };
        }
    }

    fn has_reached_all(&mut self, arrival: &Arrival) -> bool {
        match self.canary.as_mut().map(Canary::heard) {
            Some(Some(heard)) => self.heard.extend(heard),
            // It was killed: from now on all is handed on.
            _ => self.canary = None,
        }
        self.heard.retain(|heard| heard.at_ns + SAME_NS >= arrival.at_ns);
        self.heard.iter().any(|heard| (heard.signal, heard.sender) == (arrival.signal, arrival.sender))
    }
}

extern "C" fn on_signal(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo with SA_SIGINFO. Only async-signal-safe calls are made, and
    // errno is preserved.
    unsafe {
        // A terminal (SI_KERNEL) signals the whole foreground group: the program has its own already.
        let from_a_process = (*info).si_code <= 0;
        if BACKGROUND.load(Ordering::Relaxed) & 1 << signal != 0 && !from_a_process {
            return;
        }
        RECEIVED.fetch_or(1 << signal, Ordering::Relaxed);
        let listener: RawFd = ARRIVALS.load(Ordering::Relaxed);
        let is_own = OWN.load(Ordering::Relaxed) & 1 << signal != 0;
        if is_own && let Some(count) = OWN_RECEIVED.get(signal as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        if listener >= 0 && from_a_process && !is_own {
            let errno = *libc::__errno_location();
            Arrival { signal, sender: (*info).si_pid(), at_ns: now().0 }.send(listener);
            *libc::__errno_location() = errno;
        }
    }
}

/// From now on signals no longer end this process. [`asked_to_stop`] reports them.
pub fn watch_signals() -> Result<(), CaptureError> {
    outlive_limits();
    FORWARDED.into_iter().try_for_each(heed)
}

/// Signals that ask a process to end.
const STOPPING: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// From now on a signal that asks to end is recorded ([`stopped_by`]). Incomplete files can then be removed
/// first.
pub fn watch_stopping_signals() -> Result<(), CaptureError> {
    outlive_limits();
    STOPPING.into_iter().try_for_each(heed)
}

/// A limit on file sizes is an error of our writes, not our end. The program was forked before: it keeps its own.
fn outlive_limits() {
    // SAFETY: changes what a signal does to this process.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// The signal that asked this process to end since [`watch_stopping_signals`].
pub fn stopped_by() -> Option<i32> {
    let received = RECEIVED.load(Ordering::Relaxed);
    STOPPING.into_iter().find(|signal| received & 1 << *signal != 0)
}

fn heed(signal: i32) -> Result<(), CaptureError> {
    match (signal, is_ignored(signal)) {
        (libc::SIGINT | libc::SIGQUIT, true) => {
            BACKGROUND.fetch_or(1 << signal, Ordering::Relaxed);
            install(signal)
        }
        // nohup: stays ignored by both
        (_, true) => Ok(()),
        (_, false) => install(signal),
    }
}

fn install(signal: i32) -> Result<(), CaptureError> {
    // SAFETY: installs a handler that only touches atomics and writes to a pipe.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        if libc::sigaction(signal, &action, std::ptr::null_mut()) != 0 {
            return Err(CaptureError::last("installing a signal handler"));
        }
    }
    Ok(())
}

/// From now on, `SIGUSR1` or `SIGUSR2` to this process is counted, does not end the process, and is not
/// forwarded to the program. This holds before capture begins, which may be seconds later. A program started
/// by this process inherits the original setting.
pub fn keep_signal(signal: i32) -> Result<(), CaptureError> {
    if !matches!(signal, libc::SIGUSR1 | libc::SIGUSR2) {
        return Ok(());
    }
    if is_ignored(signal) {
        IGNORED.fetch_or(1 << signal, Ordering::Relaxed);
    }
    OWN.fetch_or(1 << signal, Ordering::Relaxed);
    install(signal)
}

/// In the child that becomes the program. Async-signal-safe.
pub(super) unsafe fn ignore_as_inherited() {
    for signal in [libc::SIGUSR1, libc::SIGUSR2] {
        if IGNORED.load(Ordering::Relaxed) & 1 << signal != 0 {
            // SAFETY: changes what a signal does to this process.
            unsafe { libc::signal(signal, libc::SIG_IGN) };
        }
    }
}

/// Number of arrivals of a signal registered by [`keep_signal`].
pub fn times_received(signal: i32) -> u64 {
    OWN_RECEIVED.get(signal as usize).map_or(0, |count| count.load(Ordering::Relaxed))
}

/// Whether the user asked to stop: SIGINT, SIGTERM or SIGHUP has come since [`watch_signals`].
pub fn asked_to_stop() -> bool {
    let stop = (1 << libc::SIGINT) | (1 << libc::SIGTERM) | (1 << libc::SIGHUP);
    RECEIVED.load(Ordering::Relaxed) & stop != 0
}

/// How often [`tidy_when_stopped`] looks.
const LOOK: Duration = Duration::from_millis(50);

/// From now on a signal that would end this process first calls `tidy`, which removes incomplete files. For
/// commands that do not record. Callers of [`asked_to_stop`] handle their end themselves.
pub fn tidy_when_stopped(tidy: impl Fn() + Send + 'static) -> Result<(), CaptureError> {
    watch_signals()?;
    let thread = std::thread::Builder::new().name("tidy".to_owned());
    let look = move || loop {
        let received = RECEIVED.load(Ordering::Relaxed);
        let ends = |signal: &i32| *signal != libc::SIGWINCH && received & 1 << *signal != 0;
        if let Some(signal) = FORWARDED.into_iter().find(ends) {
            tidy();
            end_like(Ending::Killed(signal));
        }
        std::thread::sleep(LOOK);
    };
    thread.spawn(look).map_err(|error| CaptureError::System { what: "starting a thread", error })?;
    Ok(())
}
