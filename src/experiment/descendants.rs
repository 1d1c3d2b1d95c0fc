//! What a run has started, however deep and wherever it went: one that is to end is ended with all of it.
//!
//! No process group does that: programs leave theirs (`setsid`, `timeout`, a shell with job control), and one in the background
//! may not read the terminal, which a program that asks for a password does. So orphans come to us in place of init, and
//! what descends from us is the run's but for what was there before it.

use std::collections::BTreeSet;
use std::process::Child;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use holdup_capture::lower::procfs;

use crate::record::process_exists;

/// Who was asked to end and has not is ended after this time; what is still there after as much again cannot be ended.
const GRACE: Duration = Duration::from_secs(3);
/// How often those that are to end are looked at.
const POLL: Duration = Duration::from_millis(10);

/// From now on who loses its parent, and descends from us, becomes our child.
pub fn adopt_orphans() -> Result<()> {
    // SAFETY: no memory is handed over.
    match unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) } {
        0 => Ok(()),
        _ => bail!("adopting orphans: {}", std::io::Error::last_os_error()),
    }
}

/// Lets orphans go that have ended: they would stay zombies. `own` is waited for by who started it; nobody else waits for a
/// child meanwhile.
pub fn reap_orphans(own: Option<u32>) {
    while let Some(pid @ 1..) = ended_child().filter(|pid| Some(*pid) != own) {
        // SAFETY: waits for a child that has ended; nothing is written.
        if unsafe { libc::waitpid(pid as i32, std::ptr::null_mut(), libc::WNOHANG) } <= 0 {
            return;
        }
    }
}

/// A child that has ended and is not waited for yet; 0 if all live; `None` if there is no child at all.
fn ended_child() -> Option<u32> {
    // SAFETY: asks about our own children without reaping one; writes one struct of plain numbers.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        (libc::waitid(libc::P_ALL, 0, &mut info, flags) == 0).then(|| info.si_pid() as u32)
    }
}

/// What descends from us, top down.
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
    /// Those that are there now: to be asked for before the run begins.
    pub fn now() -> Others {
        reap_orphans(None);
        Others(descendants().into_iter().filter_map(|pid| Some((pid, born(pid)?))).collect())
    }

    /// What belongs to the run and lives, top down.
    fn of_the_run(&self) -> Vec<u32> {
        let mut all = descendants();
        let are_there = self.0.iter().filter(|(pid, at)| all.contains(pid) && born(*pid) == Some(*at));
        // What these have started meanwhile is theirs.
        let spared: BTreeSet<u32> = are_there.flat_map(|(pid, _)| procfs::process_tree(*pid)).collect();
        all.retain(|pid| !spared.contains(pid) && process_exists(*pid));
        all
    }

    /// Asks the run to end, all that it has started and `recorder`, which may have ended; then does not ask. Gives back what
    /// cannot be ended.
    pub fn end_run(&self, recorder: &mut Child) -> Result<Vec<u32>> {
        // The recorder last: when it is told, its canary has been, and it does not tell the program once more.
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
            // While it lives there is something left, whoever else does.
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
