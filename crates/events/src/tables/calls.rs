//! Syscalls counted exactly, where a recording was asked for them: sums by thread, number and object, with
//! histograms.

use crate::{ObjectKind, ThreadId, Timestamp};

/// All of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Sums, in the order of the stretches' ends.
    pub rows: Vec<CallRow>,
    /// What the sums are made of, in the order of `rows`.
    pub parts: Vec<CallPartRow>,
    /// Names of objects, sorted by kind, then object.
    pub objects: Vec<CallObject>,
}

/// The calls of one thread, with one number, on one object, that returned in a stretch of the recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallRow {
    /// Who called; `None` if it is not known any more.
    pub thread: Option<ThreadId>,
    /// Number of the syscall.
    pub syscall: i32,
    /// What was asked of `ioctl`, `fcntl`, `futex` or `epoll_ctl`, or which clock, raw; else 0.
    pub op: u32,
    /// What `object` is: that of the descriptor in the first argument.
    pub object_kind: ObjectKind,
    /// Identity of the object, as in waits; 0 if there is none.
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
    /// Its place among the rows.
    pub call: u32,
    /// What.
    pub what: CallPartKind,
    /// The bucket, error or stack.
    pub key: u64,
    /// How many.
    pub count: u64,
}

crate::wait::codes! {
    /// What [`CallPartRow::key`] is. Bucket b counts values from 2^(b-1) on and below 2^b; bucket 0 counts zeros, the
    /// last one all that are greater.
    CallPartKind {
        /// The bucket of the time from entry to return (ns), 0 to 39.
        Time = 0 "time",
        /// The bucket of the size argument, 0 to 32.
        Asked = 1 "asked",
        /// The bucket of the result, 0 to 32.
        Returned = 2 "returned",
        /// The error's number.
        Error = 3 "error",
        /// A row of the stacks; the count is an estimate from a sample.
        Stack = 4 "stack",
    }
}

/// What an object is called.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallObject {
    /// What it is.
    pub kind: ObjectKind,
    /// Its identity.
    pub object: u64,
    /// Its path within its file system, its addresses, or its other end.
    pub name: String,
}

impl Calls {
    /// The name of an object; empty if none is known.
    pub fn name_of(&self, kind: ObjectKind, object: u64) -> &str {
        let found = self.objects.binary_search_by_key(&(kind, object), |row| (row.kind, row.object));
        found.ok().and_then(|at| self.objects.get(at)).map_or("", |row| row.name.as_str())
    }
}
