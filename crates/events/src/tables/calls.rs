//! Syscalls counted exactly, where a recording was asked for them: sums by thread, number and object, with
//! histograms.

use crate::{ObjectKind, ThreadId, Timestamp};

/// All of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Sums, in the order of the stretches' ends.
    pub rows: Vec<CallRow>,
    /// Components of the sums, in the order of `rows`.
    pub parts: Vec<CallPartRow>,
    /// Names of objects, sorted by kind, then object.
    pub objects: Vec<CallObject>,
}

/// The calls of one thread, with one number, on one object, that returned in a stretch of the recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallRow {
    /// The calling thread, `None` if unknown.
    pub thread: Option<ThreadId>,
    /// Number of the syscall.
    pub syscall: i32,
    /// Raw operation of `ioctl`, `fcntl`, `futex` or `epoll_ctl`, or the clock id. Otherwise 0.
    pub op: u32,
    /// Kind of `object`: the object behind the descriptor in the first argument.
    pub object_kind: ObjectKind,
    /// Identity of the object, as in waits. 0 if none.
    pub object: u64,
    /// When the stretch began.
    pub start: Timestamp,
    /// When it ended.
    pub end: Timestamp,
    /// Exactly how often.
    pub count: u64,
    /// How many of them failed.
    pub errors: u64,
    /// Sum of the results, of calls that return bytes or a number of events.
    pub returned: u64,
    /// Time from entry to return, of `timed` calls (ns).
    pub time_ns: u64,
    /// The longest so far (ns).
    pub time_max_ns: u64,
    /// How many calls `time_ns` is the time of.
    pub timed: u64,
}

/// How many calls of a [`CallRow`] had something in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallPartRow {
    /// Index of the row.
    pub call: u32,
    /// Kind of the part.
    pub what: CallPartKind,
    /// The bucket, error or stack.
    pub key: u64,
    /// How many.
    pub count: u64,
}

crate::wait::codes! {
    /// Meaning of [`CallPartRow::key`]. Bucket b counts values of at least 2^(b-1) and below 2^b. Bucket 0
    /// counts zeros, and the last bucket counts all greater values.
    CallPartKind {
        /// The bucket of the time from entry to return (ns), 0 to 39.
        Time = 0 "time",
        /// The bucket of the size argument, 0 to 32.
        Asked = 1 "asked",
        /// The bucket of the result, 0 to 32.
        Returned = 2 "returned",
        /// The error's number.
        Error = 3 "error",
        /// A row of the stacks. The count is an estimate from a sample.
        Stack = 4 "stack",
    }
}

/// Name of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallObject {
    /// Kind of the object.
    pub kind: ObjectKind,
    /// Identity of the object.
    pub object: u64,
    /// Path within its file system, its addresses, or its peer.
    pub name: String,
}

impl Calls {
    /// The name of an object, empty if unknown.
    pub fn name_of(&self, kind: ObjectKind, object: u64) -> &str {
        let found = self.objects.binary_search_by_key(&(kind, object), |row| (row.kind, row.object));
        found.ok().and_then(|at| self.objects.get(at)).map_or("", |row| row.name.as_str())
    }
}
