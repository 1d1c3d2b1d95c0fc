//! The descendants of a run at any depth, which are ended together with it.
//!
//! A process group does not suffice: programs leave it (`setsid`, `timeout`, a shell with job control). A
//! background group may not read the terminal, which a program that asks for a password does. Therefore this
//! process adopts orphans instead of init. All descendants belong to the run, except those that existed
//! before it.

use std::collections::BTreeSet;
use std::process::Child;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use holdup_capture::lower::procfs;

use crate::record::process_exists;

/// Time between SIGTERM and SIGKILL. A process that still exists after twice this time cannot be ended.
const GRACE: Duration = Duration::from_secs(3);
/// Interval for checking whether the processes have exited.
const POLL: Duration = Duration::from_millis(10);

/// Makes this process the subreaper: it becomes the parent of descendants whose own parent exits.
pub fn adopt_orphans() -> Result<()> {
    // SAFETY: no memory is handed over.
    match unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) } {
        0 => Ok(()),
        _ => bail!("adopting orphans: {}", std::io::Error::last_os_error()),
    }
}

/// Reaps orphans that have exited, which would stay zombies. The caller waits for `own` itself. No other code
/// may wait for children at the same time.
pub fn reap_orphans(own: Option<u32>) {
    while let Some(pid @ 1..) = ended_child().filter(|pid| Some(*pid) != own) {
        // SAFETY: reaps a child that has exited. The null pointer for the status is allowed.
        if unsafe { libc::waitpid(pid as i32, std::ptr::null_mut(), libc::WNOHANG) } <= 0 {
            return;
        }
    }
}

/// Returns a child that has exited and has not been reaped. 0 if all children live, `None` without children.
fn ended_child() -> Option<u32> {
    // SAFETY: queries our own children without reaping one. Writes one struct of plain numbers.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        (libc::waitid(libc::P_ALL, 0, &mut info, flags) == 0).then(|| info.si_pid() as u32)
    }
}

/// Returns all descendants, parents before children.
fn descendants() -> Vec<u32> {
    match ended_child() {
        Some(_) => procfs::process_tree(std::process::id()).split_off(1),
        None => Vec::new(),
    }
}

/// When a process was born: its id may be another's later.
fn born(pid: u32) -> Option<u64> {
    Some(procfs::stat(pid, pid)?.started_ticks)
}

/// The descendants that a run is not charged with: what earlier ones left on purpose, such as a server.
pub struct Others(BTreeSet<(u32, u64)>);

impl Others {
    /// Returns the existing descendants. Call it before the run starts.
    pub fn now() -> Others {
        reap_orphans(None);
        Others(descendants().into_iter().filter_map(|pid| Some((pid, born(pid)?))).collect())
    }

    /// Returns the living processes of the run, parents before children.
    fn of_the_run(&self) -> Vec<u32> {
        let mut all = descendants();
        let are_there = self.0.iter().filter(|(pid, at)| all.contains(pid) && born(*pid) == Some(*at));
        // Processes started by spared processes since then are spared, too.
        let spared: BTreeSet<u32> = are_there.flat_map(|(pid, _)| procfs::process_tree(*pid)).collect();
        all.retain(|pid| !spared.contains(pid) && process_exists(*pid));
        all
    }

    /// Sends SIGTERM to all processes of the run and to `recorder`, which may have exited. After [`GRACE`]
    /// sends SIGKILL. Returns the processes that cannot be ended.
    pub fn end_run(&self, recorder: &mut Child) -> Result<Vec<u32>> {
        // The recorder is signalled last. By then its canary process has been signalled, so the recorder does
        // not signal the program a second time.
        let mut asked = self.of_the_run();
        asked.retain(|pid| *pid != recorder.id());
        signal(&asked, libc::SIGTERM);
        if recorder.try_wait()?.is_none() {
            signal(&[recorder.id()], libc::SIGTERM);
        }
        let begun = Instant::now();
        loop {
            reap_orphans(Some(recorder.id()));
            let has_ended = recorder.try_wait()?.is_some();
            let waited = begun.elapsed();
            // The run is not over while the recorder lives, even if all other processes have exited.
            if has_ended || waited > GRACE {
                let mut left = self.of_the_run();
                if has_ended && (left.is_empty() || waited > GRACE * 2) {
                    reap_orphans(None);
                    return Ok(left);
                }
                if waited > GRACE {
                    left.extend((!has_ended).then(|| recorder.id()));
                    signal(&left, libc::SIGKILL);
                }
            }
            std::thread::sleep(POLL);
        }
    }
}

fn signal(pids: &[u32], signal: i32) {
    for pid in pids {
        // SAFETY: kill(2) of what descends from us and lived a moment ago.
        unsafe { libc::kill(*pid as i32, signal) };
    }
}
