//! Giving up privileges once the kernel programs are loaded: what a recorder still needs is little, and a
//! program run by root reads foreign bytes afterwards.

use std::io;

use crate::error::CaptureError;
use crate::host::capability;

/// What stays: maps and iterators of the loaded programs (BPF, PERFMON), other users' `/proc` and
/// binaries (SYS_PTRACE, DAC_READ_SEARCH), those that were replaced while they run (CHECKPOINT_RESTORE), the kernel's
/// symbols (SYSLOG), its own priority (SYS_NICE), a directory for the recording (DAC_OVERRIDE), and passing signals
/// on to a program that has changed its user (KILL).
const KEPT: u64 = 1 << capability::DAC_OVERRIDE
    | 1 << capability::DAC_READ_SEARCH
    | 1 << capability::KILL
    | 1 << capability::SYS_PTRACE
    | 1 << capability::SYS_NICE
    | 1 << capability::SYSLOG
    | 1 << capability::PERFMON
    | 1 << capability::BPF
    | 1 << capability::CHECKPOINT_RESTORE;

/// `_LINUX_CAPABILITY_VERSION_3` of linux/capability.h.
const VERSION: u32 = 0x2008_0522;

#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

/// Two of these hold 64 capabilities, the low half first.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Half {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Drops every capability of this thread, and of threads that it starts later, but the few that a recording
/// needs. Nothing that it executes can gain any. The traced program is not concerned: it was forked before.
pub fn drop_unneeded() -> Result<(), CaptureError> {
    let header = Header { version: VERSION, pid: 0 };
    let mut halves = [Half::default(); 2];
    // SAFETY: the kernel reads the header and fills two halves, as the version promises.
    let got = unsafe { libc::syscall(libc::SYS_capget, &raw const header, halves.as_mut_ptr()) };
    if got != 0 {
        return Err(CaptureError::last("reading the capabilities"));
    }
    for (half, kept) in halves.iter_mut().zip([KEPT as u32, (KEPT >> 32) as u32]) {
        half.effective &= kept;
        half.permitted &= kept;
        half.inheritable = 0;
    }
    // SAFETY: as above, read only.
    let set = unsafe { libc::syscall(libc::SYS_capset, &raw const header, halves.as_ptr()) };
    if set != 0 {
        return Err(CaptureError::System {
            what: "dropping capabilities",
            source: io::Error::last_os_error(),
        });
    }
    // SAFETY: plain numbers.
    unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    Ok(())
}

/// How much before others the recorder runs while it records: a full ring loses what nobody can bring back.
const RECORDER_NICE: libc::c_int = -10;
/// How much behind others tables are made while the program goes on.
const BACKGROUND_NICE: libc::c_int = 10;

/// Lets this thread run before others, if it may (CAP_SYS_NICE). Threads that it starts inherit that.
pub fn run_before_others() {
    set_nice(RECORDER_NICE);
}

/// Takes [`run_before_others`] back for this thread.
pub fn run_like_others() {
    set_nice(0);
}

/// Lets this thread, and those that it starts, run behind others: what it does can wait.
pub fn run_behind_others() {
    set_nice(BACKGROUND_NICE);
}

/// Runs this thread before real-time threads, or like others again. A program of real-time threads would else keep
/// the recorder from its CPU until the ring is full. Only while it is needed: it takes the CPU from them.
pub fn run_at_once(at_once: bool) {
    let (policy, priority) = if at_once { (libc::SCHED_RR, 99) } else { (libc::SCHED_OTHER, 0) };
    // SAFETY: a struct of plain numbers is cleared and read; 0 is the calling thread.
    unsafe {
        let mut parameters: libc::sched_param = std::mem::zeroed();
        parameters.sched_priority = priority;
        libc::sched_setscheduler(0, policy, &raw const parameters);
    }
}

fn set_nice(nice: libc::c_int) {
    // SAFETY: plain numbers; 0 is the calling thread. Without the right it stays as it was: slower, not wrong.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effective() -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    }

    #[test]
    fn only_what_is_needed_stays() {
        // In a thread of its own: other tests keep their rights.
        std::thread::spawn(|| {
            let before = effective();
            drop_unneeded().unwrap();
            assert_eq!(effective(), before & KEPT);
            assert_eq!(effective() & (1 << capability::SYS_ADMIN), 0);
        })
        .join()
        .unwrap();
    }
}
