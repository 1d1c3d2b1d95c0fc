//! Access checks for a running process, and the command that grants access. The `perf` and `proc` backends
//! read its `/proc` files with the user's rights.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;

/// Returns why the waits of process `pid` are hidden from us, and how to show them, without a full stop.
/// `None` if they are visible.
pub fn hidden(pid: u32) -> Option<String> {
    let read = fs::read(format!("/proc/{pid}/task/{pid}/syscall"));
    match read.map_err(|error| error.kind()) {
        Err(ErrorKind::PermissionDenied) => Some(explain(pid, owner(pid), own_user())),
        _ => None,
    }
}

fn owner(pid: u32) -> Option<u32> {
    fs::metadata(format!("/proc/{pid}")).ok().map(|entry| entry.uid())
}

fn own_user() -> u32 {
    // SAFETY: takes and changes nothing.
    unsafe { libc::geteuid() }
}

const ROOT: u32 = 0;

fn explain(pid: u32, owner: Option<u32>, user: u32) -> String {
    let whose = match owner {
        _ if user == ROOT => format!(
            "permission to read process {pid} is denied even to root (no CAP_SYS_PTRACE, or a security module)"
        ),
        Some(owner) if owner != user => {
            format!("process {pid} is user {owner}'s and you are user {user}: permission denied")
        }
        _ => format!(
            "permission to read process {pid} is denied (kernel.yama.ptrace_scope, or a setuid program)"
        ),
    };
    let unknown = format!("{whose}, so the waits of its threads are not known");
    match user {
        ROOT => unknown,
        _ => format!("{unknown} (`sudo holdup attach {pid}` sees them)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_and_the_remedy_are_named() {
        let text = explain(7, Some(0), 1000);
        assert!(text.starts_with("process 7 is user 0's and you are user 1000: permission denied"), "{text}");
        assert!(text.ends_with("(`sudo holdup attach 7` sees them)"), "{text}");
        assert!(explain(7, Some(1000), 1000).contains("ptrace_scope"));
        for owner in [Some(0), Some(1000), None] {
            let text = explain(7, owner, ROOT);
            assert!(text.contains("even to root") && !text.contains("sudo"), "{text}");
        }
        assert_eq!(hidden(std::process::id()), None);
        assert_eq!(hidden(u32::MAX), None);
    }
}
