//! Runs a command under a seccomp filter like a container's: bpf(2) and perf_event_open(2) give EPERM.
//! `confined CMD ARGS...`

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((program, rest)) = arguments.split_first() else {
        eprintln!("usage: confined CMD ARGS...");
        return ExitCode::from(2);
    };
    if let Err(error) = forbid(&[libc::SYS_bpf as u32, libc::SYS_perf_event_open as u32]) {
        eprintln!("confined: {error}");
        return ExitCode::FAILURE;
    }
    let error = Command::new(program).args(rest).exec();
    eprintln!("confined: {program}: {error}");
    ExitCode::from(127)
}

/// From now on these syscalls give EPERM, in this process and all it starts.
fn forbid(syscalls: &[u32]) -> std::io::Result<()> {
    const LOAD_WORD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const JUMP_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    // The first word is `seccomp_data.nr`. The numbers of 32-bit syscalls differ and are not handled.
    let mut filter = vec![step(LOAD_WORD, 0, 0, 0)];
    for &number in syscalls {
        filter.push(step(JUMP_EQUAL, 0, 1, number));
        filter.push(step(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32));
    }
    filter.push(step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW));
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: `program` and its steps live through the calls. The kernel copies and checks them.
    let outcome = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
            | libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
    };
    if outcome == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}
