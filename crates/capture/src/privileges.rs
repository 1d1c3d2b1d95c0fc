//! Drops privileges once the BPF programs are loaded. A recorder then needs few of them, and a recorder
//! started by root reads untrusted bytes.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use crate::error::CaptureError;
use crate::host::capability;

/// The kept capabilities:
/// - BPF, PERFMON: maps and iterators of the loaded programs
/// - SYS_PTRACE, DAC_READ_SEARCH: other users' `/proc` and binaries
/// - CHECKPOINT_RESTORE: binaries that were replaced while they run
/// - SYSLOG: the kernel's symbols
/// - SYS_NICE: the recorder's own priority
/// - DAC_OVERRIDE: the recording's directory
/// - KILL: forwarding signals to a program that has changed its user
const KEPT: u64 = 1 << capability::DAC_OVERRIDE
    | 1 << capability::DAC_READ_SEARCH
    | 1 << capability::KILL
    | 1 << capability::SYS_PTRACE
    | 1 << capability::SYS_NICE
    | 1 << capability::SYSLOG
    | 1 << capability::PERFMON
    | 1 << capability::BPF
    | 1 << capability::CHECKPOINT_RESTORE;

/// The capabilities granted by `setcap` or a container: `KEPT` without access to other users' directories
/// and signals to other users. A test compares them with the documents, the package and `./dev install`.
pub const LENT: [&str; 7] =
    ["bpf", "perfmon", "sys_ptrace", "dac_read_search", "syslog", "sys_nice", "checkpoint_restore"];

/// [`LENT`] as `setcap` takes it.
pub fn for_setcap() -> String {
    let names: Vec<String> = LENT.iter().map(|name| format!("cap_{name}")).collect();
    format!("{}+ep", names.join(","))
}

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
    change(|rights| Rights {
        // What the user named is open by now: see `open_own_files`.
        effective: (rights.effective | rights.permitted & OF_FILES) & KEPT,
        permitted: rights.permitted & KEPT,
    })?;
    // SAFETY: plain numbers.
    unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    Ok(())
}

/// Capabilities of the thread that opens perf events for the recorder. The kernel requires CAP_SYS_ADMIN for
/// events at functions of programs. The others resolve a path below another process's `/proc`.
const FOR_EVENTS: u64 = 1 << capability::SYS_ADMIN
    | 1 << capability::PERFMON
    | 1 << capability::DAC_READ_SEARCH
    | 1 << capability::SYS_PTRACE
    | 1 << capability::CHECKPOINT_RESTORE;

/// Whether this thread holds CAP_SYS_ADMIN.
pub fn may_open_any_event() -> bool {
    holds(capability::SYS_ADMIN)
}

/// Whether this thread's effective set holds a capability. False if /proc is not available.
fn holds(number: u32) -> bool {
    let Ok(status) = std::fs::read_to_string("/proc/thread-self/status") else { return false };
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    effective.is_some_and(|mask| mask >> number & 1 == 1)
}

/// Drops every capability of this thread except those that opening perf events takes.
pub fn keep_for_events() -> Result<(), CaptureError> {
    change(|rights| Rights {
        effective: rights.effective & FOR_EVENTS,
        permitted: rights.permitted & FOR_EVENTS,
    })?;
    // SAFETY: plain numbers.
    unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    Ok(())
}

/// Drops every capability of this thread, which needs none. Nothing that it executes can gain any.
pub fn drop_all() -> Result<(), CaptureError> {
    change(|_| Rights::default())?;
    // SAFETY: plain numbers.
    unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    Ok(())
}

/// Rights by which files are opened that the user may not.
const OF_FILES: u64 = 1 << capability::DAC_OVERRIDE | 1 << capability::DAC_READ_SEARCH;

/// Whether this process has its capabilities from its file (`setcap`) and not from its user. Then files that
/// the user names must be opened with the user's own rights.
pub fn are_lent() -> bool {
    // SAFETY: both read a number.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 && libc::geteuid() != 0 }
}

/// The package's copy of holdup that has capabilities. Only root and the group `holdup` may execute it.
pub const PRIVILEGED_COPY: &str = "/usr/libexec/holdup/holdup";
/// The package's binary for every user, of the same build.
const PACKAGED: &str = "/usr/bin/holdup";

/// Whether this process is the package's binary for every user.
pub fn is_packaged() -> bool {
    std::env::current_exe().is_ok_and(|own| own == Path::new(PACKAGED))
}

/// Executes [`PRIVILEGED_COPY`] with the same arguments instead of this process, if this process is the package's
/// binary and its user may execute the copy. Otherwise returns, and recordings use a lower backend.
pub fn become_privileged_copy() {
    // SAFETY: reads a number.
    let is_root = unsafe { libc::geteuid() } == 0;
    // A service has capabilities from systemd, which an executable with its own ones would replace.
    if is_root || holds(capability::BPF) || !is_packaged() {
        return;
    }
    let mut words = std::env::args_os();
    let name = words.next().unwrap_or_else(|| PACKAGED.into());
    // An error means that the copy does not exist or is not for this user.
    let _ = Command::new(PRIVILEGED_COPY).arg0(name).args(words).exec();
}

/// Drops every capability that the file grants to this thread, also for threads that it starts. The user's
/// own ones stay.
pub fn give_back() -> Result<(), CaptureError> {
    match are_lent() {
        true => change(|_| Rights::default()),
        false => Ok(()),
    }
}

/// Opens files by the user's own rights, until [`drop_unneeded`] takes up those that a recording needs.
pub fn open_own_files() -> Result<(), CaptureError> {
    match are_lent() {
        true => change(|rights| Rights { effective: rights.effective & !OF_FILES, ..rights }),
        false => Ok(()),
    }
}

/// One bit a capability.
#[derive(Clone, Copy, Default)]
struct Rights {
    effective: u64,
    permitted: u64,
}

/// Changes the rights of this thread. What a program that it executes would inherit goes.
fn change(to: impl FnOnce(Rights) -> Rights) -> Result<(), CaptureError> {
    let header = Header { version: VERSION, pid: 0 };
    let mut halves = [Half::default(); 2];
    // SAFETY: the kernel reads the header and fills two halves, as the version promises.
    let got = unsafe { libc::syscall(libc::SYS_capget, &raw const header, halves.as_mut_ptr()) };
    if got != 0 {
        return Err(CaptureError::last("reading the capabilities"));
    }
    let both = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
    let [low, high] = halves;
    let rights = to(Rights {
        effective: both(low.effective, high.effective),
        permitted: both(low.permitted, high.permitted),
    });
    for (half, shift) in halves.iter_mut().zip([0, 32]) {
        half.effective = (rights.effective >> shift) as u32;
        half.permitted = (rights.permitted >> shift) as u32;
        half.inheritable = 0;
    }
    // SAFETY: as above, read only.
    let set = unsafe { libc::syscall(libc::SYS_capset, &raw const header, halves.as_ptr()) };
    if set != 0 {
        return Err(CaptureError::System {
            what: "dropping capabilities",
            error: io::Error::last_os_error(),
        });
    }
    Ok(())
}

/// Nice value of the recorder while it records, because events lost in a full ring cannot be recovered.
const RECORDER_NICE: libc::c_int = -10;
/// How much behind others tables are made while the program goes on.
const BACKGROUND_NICE: libc::c_int = 10;

/// The nice value with which holdup was started, read at the first use. Threads in the background return to
/// it when the recording ends.
static OWN_NICE: OwnNice = OwnNice(OnceLock::new());

struct OwnNice(OnceLock<libc::c_int>);

impl OwnNice {
    fn get(&self) -> libc::c_int {
        *self.0.get_or_init(nice)
    }

    fn leave(&self, nice: libc::c_int) {
        self.get();
        set_nice(nice);
    }

    fn return_to(&self) {
        set_nice(self.get());
    }
}

/// Lets this thread run before others, if it may (CAP_SYS_NICE). Threads that it starts inherit that.
pub fn raise_priority() {
    OWN_NICE.leave(RECORDER_NICE);
}

/// Undoes [`raise_priority`] for this thread.
pub fn restore_priority() {
    OWN_NICE.return_to();
}

/// Lowers the priority of this thread, and of those that it starts, for work that can wait.
pub fn lower_priority() {
    let nice = BACKGROUND_NICE.max(OWN_NICE.get());
    OWN_NICE.leave(nice);
}

/// Runs this thread before real-time threads, or like others again. A program of real-time threads would else keep
/// the recorder from its CPU until the ring is full. Only while it is needed: it takes the CPU from them.
pub fn run_at_once(at_once: bool) {
    let (policy, priority) = if at_once { (libc::SCHED_RR, 99) } else { (libc::SCHED_OTHER, 0) };
    // SAFETY: the kernel reads one int, the only member of its struct sched_param. 0 is the calling thread. musl's
    // function of this name fails with ENOSYS.
    unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority) };
}

/// Nice value of the calling thread.
fn nice() -> libc::c_int {
    // SAFETY: plain numbers. 0 is the calling thread, which exists, so -1 is a nice value and no error.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
}

fn set_nice(nice: libc::c_int) {
    // SAFETY: plain numbers. 0 is the calling thread. Without the capability the value stays unchanged, which
    // is slower, not wrong.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_list_the_same_capabilities() {
        let top = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let text = |file: &str| std::fs::read_to_string(format!("{top}/{file}")).unwrap();
        for file in ["README.md", "docs/install.md", "packaging/scripts/after-install", "dev"] {
            assert!(text(file).contains(&format!("setcap {} ", for_setcap())), "{file}");
        }
        for file in ["docs/install.md", "packaging/Containerfile"] {
            let added = text(file).matches("--cap-add=").count();
            assert_eq!(added, LENT.len(), "{file}");
            for name in LENT {
                assert!(text(file).contains(&format!("--cap-add={}", name.to_uppercase())), "{file}: {name}");
            }
        }
    }

    #[test]
    fn raised_priority_is_restored_to_the_original_nice() {
        let ran = std::thread::spawn(|| {
            set_nice(7);
            let own = OwnNice(OnceLock::new());
            // Behind others: to go before them takes a right that this test may lack.
            own.leave(9);
            let meanwhile = nice();
            own.return_to();
            (meanwhile, nice(), own.get())
        });
        let (meanwhile, after, own) = ran.join().unwrap();
        assert_eq!((meanwhile, own), (9, 7));
        let may_go_before = effective() & 1 << capability::SYS_NICE != 0;
        assert_eq!(after, if may_go_before { 7 } else { 9 });
    }

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

    #[test]
    fn the_thread_that_opens_events_keeps_nothing_else() {
        std::thread::spawn(|| {
            let before = effective();
            assert_eq!(may_open_any_event(), before & (1 << capability::SYS_ADMIN) != 0);
            keep_for_events().unwrap();
            assert_eq!(effective(), before & FOR_EVENTS);
            assert_eq!(effective() & (1 << capability::DAC_OVERRIDE | 1 << capability::BPF), 0);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn rights_can_be_laid_down_and_taken_up() {
        std::thread::spawn(|| {
            let before = effective();
            change(|rights| Rights { effective: rights.effective & !OF_FILES, ..rights }).unwrap();
            assert_eq!(effective(), before & !OF_FILES);
            drop_unneeded().unwrap();
            assert_eq!(effective(), before & KEPT);
            change(|_| Rights::default()).unwrap();
            assert_eq!(effective(), 0);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn what_is_the_users_own_stays() {
        // A test's capabilities are no file's.
        std::thread::spawn(|| {
            let before = effective();
            give_back().unwrap();
            open_own_files().unwrap();
            assert_eq!(effective(), before);
        })
        .join()
        .unwrap();
    }
}
