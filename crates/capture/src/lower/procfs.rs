//! Reads the state of a thread from /proc. Parsing is pure. Reading handles threads that exit at the same
//! time.

use std::collections::BTreeSet;
use std::{fs, io};

/// The fields of `/proc/PID/task/TID/stat` that holdup uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Name (`comm`).
    pub name: String,
    /// State letter: R S D T t Z X I …
    pub state: u8,
    /// Process that started the process.
    pub parent_tgid: u32,
    /// CPU that it runs on or ran on last.
    pub cpu: u16,
    /// Start time in clock ticks since boot. Distinguishes a reused TID.
    pub started_ticks: u64,
    /// Clock ticks spent waiting for block devices.
    pub block_delay_ticks: u64,
}

/// Reads a `stat` line. The name may hold spaces and parentheses, so fields count from the last `)`.
pub fn parse_stat(line: &str) -> Option<Stat> {
    let (head, tail) = line.rsplit_once(')')?;
    let (_, name) = head.split_once('(')?;
    // `tail` starts with field 3, the state.
    let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number.checked_sub(3)?).copied();
    let number = |index: usize| field(index).and_then(|text| text.parse::<u64>().ok());
    Some(Stat {
        name: name.to_owned(),
        state: *field(3)?.as_bytes().first()?,
        parent_tgid: number(4).and_then(|parent| u32::try_from(parent).ok()).unwrap_or(0),
        cpu: number(39).and_then(|cpu| u16::try_from(cpu).ok()).unwrap_or(u16::MAX),
        started_ticks: number(22).unwrap_or(0),
        block_delay_ticks: number(42).unwrap_or(0),
    })
}

/// A thread's scheduler totals, from `schedstat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedStat {
    /// CPU time in its life (ns).
    pub exec_ns: u64,
    /// Time on run queues in its life (ns).
    pub queue_ns: u64,
}

/// Reads a `schedstat` line. `None` also where the kernel keeps no such figures (all zero).
pub fn parse_schedstat(line: &str) -> Option<SchedStat> {
    let mut fields = line.split_ascii_whitespace().map(|text| text.parse::<u64>().ok());
    let (exec_ns, queue_ns, slices) = (fields.next()??, fields.next()??, fields.next()??);
    (exec_ns | queue_ns | slices != 0).then_some(SchedStat { exec_ns, queue_ns })
}

/// Content of `/proc/PID/task/TID/syscall`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InSyscall {
    /// Running or runnable.
    Running,
    /// Blocked outside of any syscall: a page fault or another exception.
    Exception,
    /// Blocked in this syscall with these arguments.
    Call {
        /// The syscall's number.
        number: i32,
        /// The six arguments.
        arguments: [u64; 6],
    },
}

/// Reads a `syscall` line. `None` also of a program of 32 bits: its calls have other numbers, and its arguments lie elsewhere.
pub fn parse_syscall(line: &str) -> Option<InSyscall> {
    let line = line.trim_end();
    if line == "running" {
        return Some(InSyscall::Running);
    }
    let mut words = line.split_ascii_whitespace();
    let number: i32 = words.next()?.parse().ok()?;
    if number < 0 {
        return Some(InSyscall::Exception);
    }
    let mut arguments = [0; 6];
    for argument in &mut arguments {
        *argument = hexadecimal(words.next()?)?;
    }
    let mut is_below_4_gib =
        || words.next().and_then(hexadecimal).is_some_and(|at| at <= u64::from(u32::MAX));
    let (stack, code) = (is_below_4_gib(), is_below_4_gib());
    if stack && code {
        return None;
    }
    Some(InSyscall::Call { number, arguments })
}

fn hexadecimal(word: &str) -> Option<u64> {
    u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()
}

/// `/proc/PID/task/TID/FILE`, or `None` if it vanished or may not be read.
pub fn read_thread_file(tgid: u32, tid: u32, file: &str) -> Option<String> {
    let bytes = fs::read(format!("/proc/{tgid}/task/{tid}/{file}")).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// A thread's `stat`.
pub fn stat(tgid: u32, tid: u32) -> Option<Stat> {
    parse_stat(&read_thread_file(tgid, tid, "stat")?)
}

/// A thread's `schedstat`.
pub fn schedstat(tgid: u32, tid: u32) -> Option<SchedStat> {
    parse_schedstat(&read_thread_file(tgid, tid, "schedstat")?)
}

/// Returns the id under which `/proc` shows a process's mappings, descriptors and root. After the exit of its
/// first thread, the directory of the PID is empty. The directory of another thread has everything, but is
/// not listed (proc(5)).
pub fn shown_as(tgid: u32) -> u32 {
    let lives = |tid: &u32| stat(tgid, *tid).is_some_and(|stat| !matches!(stat.state, b'Z' | b'X'));
    if lives(&tgid) { tgid } else { threads(tgid).into_iter().find(lives).unwrap_or(tgid) }
}

/// Whether a process has a thread that lives, those of `but` apart, though its first one may have ended. Looks no further than the first
/// that does: there may be ten thousand.
pub fn has_threads(tgid: u32, but: &[u32]) -> bool {
    let lives = |tid: u32| stat(tgid, tid).is_some_and(|stat| !matches!(stat.state, b'Z' | b'X'));
    let entries = std::fs::read_dir(format!("/proc/{tgid}/task")).into_iter().flatten().flatten();
    let mut threads = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    threads.any(|tid| !but.contains(&tid) && lives(tid))
}

/// A process that is there, though `/proc` does not show it: one that the caller may not trace, where that is mounted with `hidepid`.
pub fn is_hidden(tgid: u32) -> bool {
    // 0 would be our own process group.
    let Some(number) = i32::try_from(tgid).ok().filter(|number| *number > 0) else { return false };
    if fs::read_dir(format!("/proc/{tgid}/task")).is_ok() {
        return false;
    }
    // SAFETY: signal 0 sends nothing and only checks the permission.
    let told = unsafe { libc::kill(number, 0) };
    told == 0 || io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
}

/// The threads of a process, ascending. Empty if it has exited.
pub fn threads(tgid: u32) -> Vec<u32> {
    numbered_entries(&format!("/proc/{tgid}/task"))
}

/// The processes that the threads of `tgid` started and that live, ascending. Empty where the kernel does
/// not list children (CONFIG_PROC_CHILDREN).
pub fn children(tgid: u32) -> Vec<u32> {
    let mut found: Vec<u32> = threads(tgid)
        .into_iter()
        .filter_map(|tid| read_thread_file(tgid, tid, "children"))
        .flat_map(|line| {
            line.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>()
        })
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// A process and all its living descendants, without holdup. Processes started during the call may be
/// missing: repeat it until it returns nothing new.
pub fn process_tree(pid: u32) -> Vec<u32> {
    let own = std::process::id();
    let parents: Vec<(u32, u32)> = numbered_entries("/proc")
        .into_iter()
        .filter(|tgid| *tgid != own)
        .filter_map(|tgid| Some((tgid, stat(tgid, tgid)?.parent_tgid)))
        .collect();
    let mut tree = vec![pid];
    let mut seen = BTreeSet::from([pid]);
    let mut next = 0;
    while let Some(&parent) = tree.get(next) {
        let children = parents.iter().filter(|(child, of)| *of == parent && seen.insert(*child));
        tree.extend(children.map(|(child, _)| *child));
        next += 1;
    }
    tree
}

/// All entries of a directory whose names are numbers, ascending.
pub fn numbered_entries(directory: &str) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut numbers: Vec<u32> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_with_an_awkward_name() {
        let mut line = "42 (a) b (c)) S 7".to_owned();
        for field in 5..=52 {
            line.push_str(&format!(" {field}"));
        }
        let stat = parse_stat(&line).unwrap();
        assert_eq!(stat.name, "a) b (c)");
        assert_eq!((stat.state, stat.parent_tgid, stat.cpu), (b'S', 7, 39));
        assert_eq!((stat.started_ticks, stat.block_delay_ticks), (22, 42));
        assert_eq!(parse_stat("42 (x"), None);
        assert_eq!(parse_stat(""), None);
        assert_eq!(parse_stat("1 (x)"), None);
        assert_eq!(parse_stat("1 (x) Z").unwrap().cpu, u16::MAX);
    }

    #[test]
    fn schedstat_lines() {
        assert_eq!(parse_schedstat("5 6 7\n"), Some(SchedStat { exec_ns: 5, queue_ns: 6 }));
        assert_eq!(parse_schedstat("0 0 0\n"), None);
        assert_eq!(parse_schedstat("5 6"), None);
        assert_eq!(parse_schedstat("5 x 7"), None);
    }

    #[test]
    fn syscall_lines() {
        assert_eq!(parse_syscall("running\n"), Some(InSyscall::Running));
        assert_eq!(parse_syscall("-1 0x7ffe00001000 0x401000\n"), Some(InSyscall::Exception));
        let futex = parse_syscall("202 0x10 0x80 0x2 0x0 0x0 0x0 0x7ffe00001000 0x401000\n");
        assert_eq!(futex, Some(InSyscall::Call { number: 202, arguments: [0x10, 0x80, 2, 0, 0, 0] }));
        let narrow = "240 0x10 0x80 0x2 0x0 0x0 0x0 0xf7d1f0ac 0xf7f4e549\n";
        assert_eq!(parse_syscall(narrow), None, "202 is another call of such a program");
        assert_eq!(parse_syscall("202 0x10\n"), None);
        assert_eq!(parse_syscall("202 10 20 30 40 50 60\n"), None);
        assert_eq!(parse_syscall(""), None);
    }

    #[test]
    fn this_process_is_found() {
        let pid = std::process::id();
        assert!(threads(pid).contains(&pid));
        assert!(!stat(pid, pid).unwrap().name.is_empty());
        assert_eq!(stat(pid, u32::MAX), None);
        assert!(threads(u32::MAX).is_empty());
    }

    #[test]
    fn a_tree_is_the_process_and_what_is_below_it() {
        use std::io::{BufRead, BufReader};
        use std::process::{Command, Stdio};
        let script = "sh -c 'sleep 1000 & echo $!; wait' & wait";
        let mut shell = Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let sleeper: u32 = line.trim().parse().unwrap();
        let tree = process_tree(shell.id());
        assert_eq!((tree.len(), tree[0], tree[2]), (3, shell.id(), sleeper));
        assert!(!process_tree(std::os::unix::process::parent_id()).contains(&std::process::id()));
        let killed = Command::new("kill").arg(sleeper.to_string()).status().unwrap();
        assert!(killed.success());
        shell.wait().unwrap();
    }
}
