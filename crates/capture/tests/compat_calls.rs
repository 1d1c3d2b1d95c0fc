//! The table of calls of 32-bit programs that the BPF programs have, against the kernel's own headers.

use std::collections::BTreeMap;
use std::fs;

/// Names of the same syscall on x86-64, if they differ by more than the width.
const OTHER_NAMES: [(&str, &str); 25] = [
    ("mmap2", "mmap"),
    ("_llseek", "lseek"),
    ("_newselect", "select"),
    ("fstatat64", "newfstatat"),
    ("fadvise64_64", "fadvise64"),
    ("ugetrlimit", "getrlimit"),
    ("waitpid", "wait4"),
    ("sigreturn", "rt_sigreturn"),
    ("sigaction", "rt_sigaction"),
    ("sigprocmask", "rt_sigprocmask"),
    ("sigsuspend", "rt_sigsuspend"),
    ("sigpending", "rt_sigpending"),
    ("signal", "rt_sigaction"),
    ("ssetmask", "rt_sigprocmask"),
    ("sgetmask", "rt_sigprocmask"),
    ("oldstat", "stat"),
    ("oldlstat", "lstat"),
    ("oldfstat", "fstat"),
    ("readdir", "getdents"),
    ("nice", "setpriority"),
    ("umount", "umount2"),
    ("stime", "settimeofday"),
    ("olduname", "uname"),
    ("oldolduname", "uname"),
    ("prlimit", "prlimit64"),
];

fn numbers(header: &str) -> Option<BTreeMap<String, usize>> {
    let folders = ["/usr/include/x86_64-linux-gnu/asm", "/usr/include/asm"];
    let text = folders.iter().find_map(|folder| fs::read_to_string(format!("{folder}/{header}")).ok())?;
    let line = |line: &str| {
        let (name, number) = line.strip_prefix("#define __NR_")?.split_once(' ')?;
        Some((name.to_owned(), number.trim().parse().ok()?))
    };
    Some(text.lines().filter_map(line).collect())
}

/// By i386's number, as the BPF programs have it.
fn table() -> Vec<i16> {
    let text = include_str!("../../../bpf/compat_calls_x86_64.h");
    let (_, rows) = text.split_once("compat_calls[COMPAT_CALLS] = {").expect("the table");
    let rows = rows.split_once("};").expect("its end").0;
    let row = |line: &str| line.split_once("*/").map_or(String::new(), |(_, numbers)| numbers.to_owned());
    let all: String = rows.lines().map(row).collect();
    all.split(',').filter_map(|number| number.trim().parse().ok()).collect()
}

fn counterpart(name: &str, known: &BTreeMap<String, usize>) -> Option<usize> {
    let other = OTHER_NAMES.iter().find(|(narrow, _)| *narrow == name).map(|(_, wide)| *wide);
    let widths = ["_time64", "64", "32"].iter().filter_map(|width| name.strip_suffix(width));
    [Some(name), other].into_iter().flatten().chain(widths).find_map(|name| known.get(name).copied())
}

#[test]
fn calls_of_32_bits_have_the_numbers_of_the_same_calls() {
    let (Some(narrow), Some(wide)) = (numbers("unistd_32.h"), numbers("unistd_64.h")) else {
        println!("skipped: no headers of the kernel (linux-libc-dev)");
        return;
    };
    let table = table();
    // Headers older or newer than the table have fewer calls, or more.
    let known: Vec<(&String, usize)> = narrow
        .iter()
        .map(|(name, number)| (name, *number))
        .filter(|(_, number)| *number < table.len())
        .collect();
    assert!(known.len() > 400 && table.len() <= 512, "{} of {}", known.len(), table.len());
    for (name, number) in known {
        let expected = counterpart(name, &wide).and_then(|number| i16::try_from(number).ok()).unwrap_or(-1);
        assert_eq!(table[number], expected, "{name} ({number})");
    }
}
