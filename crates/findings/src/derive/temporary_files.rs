//! Files that a program makes and removes again, by the calls that were counted.

use std::collections::{BTreeMap, BTreeSet};

use holdup_events::{ObjectKind, ThreadId};

use super::calls::{CallUse, Calls};
use super::syscall_names::{CLOSE, CREAT, FTRUNCATE, LSEEK, OPEN, OPENAT, UNLINK, UNLINKAT, moves_bytes};

/// `O_CREAT` (include/uapi/asm-generic/fcntl.h): the call makes the file if there is none.
const O_CREAT: u32 = 0o100;
/// `AT_REMOVEDIR` (include/uapi/linux/fcntl.h): `unlinkat` removes a directory.
const AT_REMOVEDIR: u32 = 0x200;

/// Files that were made and removed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TemporaryFiles {
    /// Files opened with `O_CREAT`.
    pub made: u64,
    /// Files removed.
    pub removed: u64,
    /// Threads that make or remove them, with the calls of each, the most first.
    pub threads: Vec<(ThreadId, u64)>,
    /// The program's functions that make them, the most calls first.
    pub makers: Vec<(String, u64)>,
    /// Syscalls that make and remove these files, with the part of the calls that does (0 to 1).
    pub calls: Vec<(i32, f64)>,
    /// The same with those that write, read and close files in these threads. Some may be of other files.
    pub contents: Vec<(i32, f64)>,
}

impl TemporaryFiles {
    /// Files that were made and removed again, at most.
    pub fn count(&self) -> u64 {
        self.made.min(self.removed)
    }

    /// Which part of the files that were made or removed these are (0 to 1).
    pub fn part(&self) -> f64 {
        self.count() as f64 / self.made.max(self.removed).max(1) as f64
    }

    /// Whether most calls of this number make or remove them.
    pub fn is_mostly(&self, syscall: i32) -> bool {
        self.calls.iter().any(|(number, part)| *number == syscall && *part >= 0.5)
    }
}

/// Whether the call makes a file. Recordings of older versions have no flags: for them no call does.
fn makes(used: &CallUse) -> bool {
    used.syscall == CREAT || matches!(used.syscall, OPEN | OPENAT) && used.op & O_CREAT != 0
}

/// Whether the call removes a file.
fn removes(used: &CallUse) -> bool {
    used.syscall == UNLINK || used.syscall == UNLINKAT && used.op & AT_REMOVEDIR == 0
}

/// Whether the call reads, writes, truncates or positions in a file.
fn is_of_contents(used: &CallUse) -> bool {
    let is_file = matches!(used.object_kind, ObjectKind::File | ObjectKind::None);
    is_file && (moves_bytes(used.syscall) || matches!(used.syscall, LSEEK | FTRUNCATE))
}

/// Derives it. Everything is empty where no file was made or none removed.
pub fn derive(calls: &Calls) -> TemporaryFiles {
    let (making, removing): (Vec<&CallUse>, Vec<&CallUse>) = (
        calls.by_object.iter().filter(|used| makes(used)).collect(),
        calls.by_object.iter().filter(|used| removes(used)).collect(),
    );
    let succeeded = |uses: &[&CallUse]| uses.iter().map(|used| used.count - used.errors).sum::<u64>();
    let mut found = TemporaryFiles {
        made: succeeded(&making),
        removed: succeeded(&removing),
        ..TemporaryFiles::default()
    };
    if found.count() == 0 {
        return TemporaryFiles::default();
    }
    found.threads = ranked(making.iter().chain(&removing).flat_map(|used| used.threads.iter().copied()));
    found.makers = ranked(making.iter().flat_map(|used| used.callers.iter().cloned()));
    let count = found.count() as f64;
    let all =
        |syscall| calls.by_syscall.iter().find(|used| used.syscall == syscall).map_or(0, |one| one.count);
    let part = |meant: f64, syscall| (syscall, (meant / all(syscall).max(1) as f64).min(1.0));
    for (uses, files) in [(&making, found.made), (&removing, found.removed)] {
        for (syscall, calls) in by_syscall(uses.iter().map(|used| (used.syscall, used.count))) {
            found.calls.push(part(calls as f64 * count / files as f64, syscall));
        }
    }
    let threads: BTreeSet<ThreadId> = found.threads.iter().map(|(id, _)| *id).collect();
    let theirs = |used: &CallUse| -> u64 {
        used.threads.iter().filter(|(id, _)| threads.contains(id)).map(|(_, calls)| calls).sum()
    };
    let contents = calls.by_object.iter().filter(|used| is_of_contents(used));
    let contents = by_syscall(contents.map(|used| (used.syscall, theirs(used))));
    found.contents.clone_from(&found.calls);
    found.contents.extend(contents.into_iter().map(|(syscall, calls)| part(calls as f64, syscall)));
    found.contents.push(part(count, CLOSE));
    found
}

fn by_syscall(uses: impl Iterator<Item = (i32, u64)>) -> BTreeMap<i32, u64> {
    let mut sums = BTreeMap::new();
    uses.for_each(|(syscall, calls)| *sums.entry(syscall).or_default() += calls);
    sums
}

fn ranked<K: Ord>(counts: impl Iterator<Item = (K, u64)>) -> Vec<(K, u64)> {
    let mut sums: BTreeMap<K, u64> = BTreeMap::new();
    counts.for_each(|(key, calls)| *sums.entry(key).or_default() += calls);
    let mut all: Vec<(K, u64)> = sums.into_iter().collect();
    all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(syscall: i32, op: u32, thread: u32, count: u64) -> CallUse {
        CallUse { syscall, op, count, threads: vec![(ThreadId(thread), count)], ..CallUse::default() }
    }

    fn calls(by_object: Vec<CallUse>) -> Calls {
        let sums = by_syscall(by_object.iter().map(|used| (used.syscall, used.count)));
        let by_syscall = sums.into_iter().map(|(number, count)| used(number, 0, 0, count)).collect();
        Calls { by_object, by_syscall, ..Calls::default() }
    }

    #[test]
    fn parts_are_of_the_calls_that_make_and_remove() {
        let mut failed = used(OPENAT, 0xc1, 1, 25);
        failed.errors = 5;
        let write = CallUse { object_kind: ObjectKind::File, ..used(1, 0, 1, 40) };
        let pipe = CallUse { object_kind: ObjectKind::Pipe, ..used(1, 0, 1, 40) };
        let found = derive(&calls(vec![
            failed,
            used(OPENAT, 0, 2, 75),
            used(UNLINK, 0, 1, 20),
            used(UNLINKAT, AT_REMOVEDIR, 1, 7),
            used(CLOSE, 0, 1, 80),
            write,
            pipe,
            CallUse { object_kind: ObjectKind::File, ..used(0, 0, 2, 9) },
        ]));
        assert_eq!((found.made, found.removed, found.count()), (20, 20, 20));
        assert_eq!(found.threads, [(ThreadId(1), 45)]);
        assert_eq!(found.calls, [(OPENAT, 0.25), (UNLINK, 1.0)]);
        let rest = [(0, 0.0), (1, 0.5), (CLOSE, 0.25)];
        assert_eq!(found.contents[2..], rest, "what another thread reads is not theirs");
        assert!(found.is_mostly(UNLINK) && !found.is_mostly(OPENAT));
    }

    #[test]
    fn files_that_are_kept_or_were_there_are_not_temporary() {
        let kept = derive(&calls(vec![used(OPENAT, 0xc1, 1, 100), used(82, 0, 1, 100)]));
        let spool = derive(&calls(vec![used(OPENAT, 0, 1, 100), used(UNLINK, 0, 1, 100)]));
        assert_eq!((kept, spool), (TemporaryFiles::default(), TemporaryFiles::default()));
        let half = derive(&calls(vec![used(CREAT, 0, 1, 100), used(UNLINK, 0, 1, 50)]));
        assert_eq!((half.count(), half.part()), (50, 0.5));
        assert_eq!(half.calls, [(CREAT, 0.5), (UNLINK, 1.0)]);
    }
}
