//! Syscalls by object, result, duration and size. Covers all calls if the recording counted them, otherwise
//! the calls in short windows.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use holdup_events::tables::{CallPartKind, CallRow};
use holdup_events::{ObjectKind, StackId, ThreadId, Trace};

use super::own_places::{OwnFrames, Places};
use super::syscall_names::{IO_URING_ENTER, is_ring_operation, syscall_name};

/// `errno` of a call that would have had to wait: EAGAIN, which is EWOULDBLOCK.
pub const EAGAIN: u64 = 11;
/// `errno` values of an interrupted call. Values other than 4 (EINTR) are internal to the kernel.
pub const INTERRUPTED: [u64; 5] = [4, 512, 513, 514, 516];

/// Statistics of all syscalls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Calls {
    /// All calls were counted, not only those in windows.
    pub exact: bool,
    /// Length of the counted time (ns).
    pub counted_ns: u64,
    /// By syscall, the most calls first.
    pub by_syscall: Vec<CallUse>,
    /// The same, by operation and object.
    pub by_object: Vec<CallUse>,
    /// The same by thread.
    pub by_thread: Vec<CallUse>,
    /// io_uring operations, which are not syscalls, most frequent first. Times are from submission to
    /// completion.
    pub ring_operations: Vec<CallUse>,
    /// The same, by object.
    pub ring_by_object: Vec<CallUse>,
}

impl Calls {
    /// Mean number of requests submitted per call of `io_uring_enter`, which returns their number.
    pub fn requests_each(&self) -> Option<f64> {
        let used = self.by_syscall.iter().find(|used| used.syscall == IO_URING_ENTER)?;
        Some(used.returned as f64 / used.count.saturating_sub(used.errors).max(1) as f64)
    }
}

/// Calls that have something in common.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallUse {
    /// Number of the syscall.
    pub syscall: i32,
    /// Name of the syscall.
    pub name: &'static str,
    /// Raw operation argument, if calls are distinguished by it. 0 otherwise.
    pub op: u32,
    /// Kind of `object`.
    pub object_kind: ObjectKind,
    /// Id of the object. 0 if there is none, or if calls are not distinguished by it.
    pub object: u64,
    /// Display name of the object. Empty if it has none.
    pub object_name: String,
    /// Calling threads with their number of calls, most calls first.
    pub threads: Vec<(ThreadId, u64)>,
    /// Number of calls.
    pub count: u64,
    /// Number of calls that failed.
    pub errors: u64,
    /// Failures by error (errno), most frequent first.
    pub by_error: Vec<(u64, u64)>,
    /// Sum of the results, of calls that return bytes or a number of events.
    pub returned: u64,
    /// Time from entry to return of `timed` calls (ns).
    pub time_ns: u64,
    /// The longest (ns).
    pub time_max_ns: u64,
    /// Number of timed calls.
    pub timed: u64,
    /// Times from entry to return (ns).
    pub times: Histogram,
    /// Size arguments.
    pub asked: Histogram,
    /// Results of calls that succeeded.
    pub results: Histogram,
    /// The program's calling functions, with the number of calls that their sampled stacks represent.
    pub callers: Vec<(String, u64)>,
}

/// Counts by powers of two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram(pub BTreeMap<u8, u64>);

impl Histogram {
    /// Number of values.
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// Number of values less than 2^`bits`.
    pub fn below(&self, bits: u8) -> u64 {
        self.0.range(..=bits).map(|(_, count)| count).sum()
    }

    /// Bounds of the bucket that contains the quantile `share`: lower bound, and exclusive upper bound.
    pub fn quantile(&self, share: f64) -> Option<(u64, u64)> {
        let wanted = (self.total() as f64 * share).max(f64::MIN_POSITIVE);
        let mut seen = 0;
        for (bucket, count) in &self.0 {
            seen += count;
            if seen as f64 >= wanted {
                return Some(bounds(*bucket));
            }
        }
        None
    }

    fn add(&mut self, bucket: u64, count: u64) {
        *self.0.entry(u8::try_from(bucket).unwrap_or(u8::MAX).min(63)).or_default() += count;
    }
}

/// The least value of a bucket, and the least above it.
pub fn bounds(bucket: u8) -> (u64, u64) {
    match bucket {
        0 => (0, 1),
        bucket => (1 << (bucket - 1).min(62), 1 << bucket.min(63)),
    }
}

impl CallUse {
    /// Number of calls that failed with one of these errors.
    pub fn failed_with(&self, errors: &[u64]) -> u64 {
        self.by_error.iter().filter(|(error, _)| errors.contains(error)).map(|(_, count)| count).sum()
    }

    /// Number of calls that would have blocked or were interrupted, and have to be repeated.
    pub fn again(&self) -> u64 {
        self.failed_with(&[EAGAIN]) + self.failed_with(&INTERRUPTED)
    }

    /// Time of a call on average (ns), if it is known.
    pub fn mean_ns(&self) -> Option<u64> {
        self.time_ns.checked_div(self.timed)
    }
}

/// Key that distinguishes calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    syscall: i32,
    op: u32,
    object_kind: ObjectKind,
    object: u64,
    thread: Option<ThreadId>,
}

/// Derives all statistics. Empty if no calls were counted.
pub fn derive(trace: &Trace) -> Calls {
    let rows = &trace.calls.rows;
    let all = |row: &CallRow| Key { syscall: row.syscall, ..Key::default() };
    let on = |row: &CallRow| Key { op: row.op, object_kind: row.object_kind, object: row.object, ..all(row) };
    let calls = |row: &CallRow| !is_ring_operation(row.syscall);
    let stretches: BTreeSet<_> = rows.iter().map(|row| (row.start, row.end)).collect();
    Calls {
        exact: !rows.is_empty() && trace.syscalls.is_empty(),
        counted_ns: stretches.iter().map(|(start, end)| end.since(*start).0).sum(),
        by_syscall: group(trace, all, calls),
        by_object: group(trace, on, calls),
        by_thread: group(trace, |row| Key { thread: row.thread, ..all(row) }, calls),
        ring_operations: group(trace, all, |row| !calls(row)),
        ring_by_object: group(trace, on, |row| !calls(row)),
    }
}

/// Sums, while they are made.
#[derive(Default)]
struct Sums {
    used: CallUse,
    threads: BTreeMap<ThreadId, u64>,
    errors: BTreeMap<u64, u64>,
    callers: BTreeMap<String, u64>,
}

fn group(trace: &Trace, key: impl Fn(&CallRow) -> Key, is_wanted: impl Fn(&CallRow) -> bool) -> Vec<CallUse> {
    let own = OwnFrames::new(trace);
    let mut places = Places::new(trace, &own);
    let mut groups: BTreeMap<Key, Sums> = BTreeMap::new();
    let mut parts = trace.calls.parts.iter().peekable();
    for (number, row) in trace.calls.rows.iter().enumerate() {
        if !is_wanted(row) {
            while parts.next_if(|part| part.call as usize <= number).is_some() {}
            continue;
        }
        let sums = groups.entry(key(row)).or_default();
        add(sums, row);
        while let Some(part) = parts.next_if(|part| part.call as usize <= number) {
            match part.what {
                CallPartKind::Time => sums.used.times.add(part.key, part.count),
                CallPartKind::Asked => sums.used.asked.add(part.key, part.count),
                CallPartKind::Returned => sums.used.results.add(part.key, part.count),
                CallPartKind::Error => *sums.errors.entry(part.key).or_default() += part.count,
                CallPartKind::Stack => {
                    let stack = StackId(u32::try_from(part.key).unwrap_or(0));
                    if let Some(frame) = places.nearest_own(stack) {
                        *sums.callers.entry(trace.frame_name(frame)).or_default() += part.count;
                    }
                }
            }
        }
    }
    let mut all: Vec<CallUse> = groups.into_iter().map(|(key, sums)| finished(trace, key, sums)).collect();
    all.sort_by_key(|used| (Reverse(used.count), used.syscall, used.op, used.object_kind, used.object));
    all
}

fn add(sums: &mut Sums, row: &CallRow) {
    let used = &mut sums.used;
    used.count += row.count;
    used.errors += row.errors;
    used.returned = used.returned.saturating_add(row.returned);
    used.time_ns = used.time_ns.saturating_add(row.time_ns);
    used.time_max_ns = used.time_max_ns.max(row.time_max_ns);
    used.timed += row.timed;
    if let Some(thread) = row.thread {
        *sums.threads.entry(thread).or_default() += row.count;
    }
}

fn finished(trace: &Trace, key: Key, sums: Sums) -> CallUse {
    CallUse {
        syscall: key.syscall,
        name: syscall_name(key.syscall),
        op: key.op,
        object_kind: key.object_kind,
        object: key.object,
        object_name: object_name(trace, key.object_kind, key.object),
        threads: ranked(sums.threads),
        by_error: ranked(sums.errors),
        callers: ranked(sums.callers),
        ..sums.used
    }
}

fn ranked<K: Ord>(counts: BTreeMap<K, u64>) -> Vec<(K, u64)> {
    let mut all: Vec<(K, u64)> = counts.into_iter().collect();
    all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    all
}

/// A file by its path, a pipe by its number, a socket by its ends.
fn object_name(trace: &Trace, kind: ObjectKind, object: u64) -> String {
    let told = trace.calls.name_of(kind, object);
    match kind {
        ObjectKind::None => String::new(),
        ObjectKind::File | ObjectKind::Device | ObjectKind::BlockDevice if !told.is_empty() => {
            told.to_owned()
        }
        ObjectKind::Socket if told.is_empty() || told.starts_with("unix") => {
            format!("socket:[{object}]{}", if told.is_empty() { "" } else { " " }) + told
        }
        ObjectKind::Socket => told.to_owned(),
        ObjectKind::Pipe => format!("pipe:[{object}]"),
        ObjectKind::Descriptor => "descriptor that is not open".to_owned(),
        ObjectKind::Epoll | ObjectKind::EventFd | ObjectKind::TimerFd => kind.name().to_owned(),
        kind => format!("{} {object}", kind.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::derive::syscall_names::RING_OPERATIONS;
    use holdup_events::Timestamp;
    use holdup_events::tables::CallPartRow;

    fn trace() -> Trace {
        let row = |syscall, object, count, errors| CallRow {
            thread: Some(ThreadId(0)),
            syscall,
            object_kind: ObjectKind::Pipe,
            object,
            start: Timestamp(0),
            end: Timestamp(1000),
            count,
            errors,
            time_ns: count * 10,
            timed: count,
            ..CallRow::default()
        };
        let part = |call, what, key, count| CallPartRow { call, what, key, count };
        let mut trace = Trace::default();
        trace.calls.rows = vec![row(1, 5, 10, 4), row(1, 6, 20, 0), row(0, 5, 3, 0)];
        trace.calls.parts = vec![
            part(0, CallPartKind::Error, EAGAIN, 4),
            part(0, CallPartKind::Returned, 1, 6),
            part(1, CallPartKind::Returned, 13, 20),
            part(2, CallPartKind::Returned, 0, 3),
        ];
        trace
    }

    #[test]
    fn sums_by_syscall_and_by_object_agree() {
        let calls = derive(&trace());
        assert!(calls.exact);
        assert_eq!(calls.counted_ns, 1000);
        let write = &calls.by_syscall[0];
        assert_eq!((write.name, write.count, write.errors, write.again()), ("write", 30, 4, 4));
        assert_eq!((write.results.total(), write.results.below(3)), (26, 6));
        assert_eq!(write.mean_ns(), Some(10));
        let all: u64 = calls.by_object.iter().map(|used| used.count).sum();
        assert_eq!((calls.by_object.len(), all), (3, 33));
        assert_eq!(calls.by_object[0].object_name, "pipe:[6]");
    }

    #[test]
    fn quantiles_are_buckets() {
        let write = derive(&trace()).by_syscall.remove(0);
        assert_eq!(write.results.quantile(0.1), Some((1, 2)));
        assert_eq!(write.results.quantile(0.5), Some((4096, 8192)));
        assert_eq!(Histogram::default().quantile(0.5), None);
        assert_eq!((bounds(0), bounds(1), bounds(11)), ((0, 1), (1, 2), (1024, 2048)));
    }

    #[test]
    fn operations_of_io_uring_are_no_syscalls() {
        let mut trace = trace();
        let before = derive(&trace);
        let (read, enter) = (RING_OPERATIONS + 22, IO_URING_ENTER);
        let row =
            |syscall, count, returned| CallRow { syscall, count, returned, errors: 0, ..trace.calls.rows[0] };
        let rows = [row(read, 32, 4096 * 32), row(enter, 2, 32)];
        let number = trace.calls.rows.len() as u32;
        trace.calls.rows.extend(rows);
        trace.calls.parts.push(CallPartRow { call: number, what: CallPartKind::Time, key: 12, count: 32 });
        let calls = derive(&trace);
        let [reads] = &calls.ring_operations[..] else { panic!("{:?}", calls.ring_operations) };
        assert_eq!((reads.name, reads.count, reads.times.total()), ("read", 32, 32));
        assert_eq!(calls.requests_each(), Some(16.0));
        assert_eq!((before.ring_operations.len(), before.requests_each()), (0, None));
        assert_eq!(calls.by_syscall.len(), before.by_syscall.len() + 1, "io_uring_enter alone");
        assert!(calls.by_object.iter().chain(&calls.by_thread).all(|used| used.syscall < RING_OPERATIONS));
    }
}
