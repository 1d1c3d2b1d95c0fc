//! What each table holds: the one place where files, columns and their units are named.

/// How a column is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nanoseconds or another 64-bit number that grows: delta-coded.
    Time,
    /// A 64-bit number.
    U64,
    /// A 32-bit number or id.
    U32,
    /// A signed 32-bit number.
    I32,
    /// UTF-8 text.
    Text,
    /// Bytes.
    Bytes,
}

/// One column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Column name, with the unit last.
    pub name: &'static str,
    /// How it is stored.
    pub kind: Kind,
}

/// One table: the file `NAME.parquet`.
#[derive(Clone, Copy, Debug)]
pub struct Schema {
    /// Table name.
    pub name: &'static str,
    /// Columns in order.
    pub columns: &'static [Column],
}

macro_rules! tables {
    ($($table:literal { $($column:literal $kind:ident),* $(,)? })*) => {
        /// Every table of a recording.
        pub const TABLES: &[Schema] = &[$(Schema {
            name: $table,
            columns: &[$(Column { name: $column, kind: Kind::$kind },)*],
        },)*];
    };
}

tables! {
    "processes" { "process" U32, "pid" U32, "name" Text, "target" U32, "parent" I32 }
    "threads" {
        "thread" U32, "tid" U32, "process" U32, "name" Text, "target" U32, "start_ns" Time, "end_ns" Time,
        "began_before" U32, "alive_at_end" U32, "parent" I32, "cpus_allowed" U32,
    }
    "slices" {
        "thread" U32, "start_ns" Time, "state" U32, "cpu" U32, "wait" U32, "stack" U32, "stack_every" U32,
    }
    "steals" { "thread" U32, "slice_start_ns" Time, "stolen_ns" U64 }
    "deadlines" { "thread" U32, "slice_start_ns" Time, "due_ns" Time }
    "waits" {
        "wait" U32, "reason" U32, "process" U32, "syscall" I32, "object_kind" U32, "object" U64, "op" U32,
        "owner_tid" U32, "symbol" Text, "module" Text,
    }
    "wakeups" {
        "wakee" U32, "at_ns" Time, "waker" U32, "cpu" U32, "context" U32, "stack" U32, "stack_every" U32,
        "waker_object" U64,
    }
    "samples" {
        "thread" U32, "at_ns" Time, "cpu" U32, "in_kernel" U32, "syscall" I32, "stack" U32, "data_address" U64,
        "data_access" U32, "data_bytes" U32, "counter" U32, "count" U64,
    }
    "stacks" { "stack" U32, "frame" U32, "parent" U32, "via" U32, "end" U32 }
    "frames" {
        "frame" U32, "kind" U32, "function" Text, "module" Text, "offset" U64, "function_offset" U64, "file" Text,
        "line" U32, "inlined" U32, "spin" U32, "watches" Text,
    }
    "mappings" {
        "process" U32, "at_ns" Time, "start" U64, "end" U64, "file_offset" U64, "path" Text, "build_id" Bytes,
    }
    "variables" { "process" U32, "address" U64, "name" Text, "part" Text, "module" Text }
    "syscalls" {
        "process" I32, "syscall" I32, "start_ns" Time, "end_ns" Time, "count" U64, "cost_ns" U32,
    }
    "calls" {
        "thread" I32, "syscall" I32, "op" U32, "object_kind" U32, "object" U64, "start_ns" Time, "end_ns" Time,
        "count" U64, "errors" U64, "returned" U64, "time_ns" U64, "time_max_ns" U64, "timed" U64,
    }
    "call_parts" { "call" U32, "what" U32, "key" U64, "count" U64 }
    "call_objects" { "object_kind" U32, "object" U64, "name" Text }
    "allocations" {
        "thread" U32, "at_ns" Time, "address" U64, "bytes" U64, "every_bytes" U64, "own_bytes" U64, "stack" U32,
        "freed" U32, "freed_ns" Time, "freed_by" I32,
    }
    "kernel_counts" {
        "thread" I32, "cpu" I32, "what" U32, "syscall" I32, "start_ns" Time, "end_ns" Time, "count" U64,
    }
    "faults" {
        "thread" U32, "at_ns" Time, "address" U64, "stands_for" U64, "major" U32, "in_kernel" U32, "stack" U32,
    }
    "watchpoints" {
        "thread" U32, "start_ns" Time, "end_ns" Time, "address" U64, "bytes" U32, "hits" U64, "ran_ns" U64,
    }
    "task_waits" {
        "thread" U32, "start_ns" Time, "end_ns" Time, "object" U64, "stack" U32, "waker" I32, "waker_stack" U32,
        "channel" U32, "task" U64, "waker_task" U64, "slots" U32, "item_bytes" U32,
    }
    "task_windows" { "process" U32, "start_ns" Time, "end_ns" Time }
    "spans" { "thread" U32, "start_ns" Time, "end_ns" Time, "lane" U32, "name" U32 }
    "counters" { "thread" U32, "at_ns" Time, "lane" U32, "name" U32, "value" U64 }
    "marks" { "thread" U32, "at_ns" Time, "lane" U32, "name" U32, "value" U64, "text" U32 }
    "lanes" {
        "lane" U32, "process" U32, "runtime" Text, "number" U32, "start_ns" Time, "end_ns" Time, "events" U64,
        "matched" U64,
    }
    "names" { "name" U32, "kind" U32, "text" Text }
    "loss" { "source" Text, "reason" Text, "cpu" U32, "start_ns" Time, "end_ns" Time, "events" U64 }
}

/// The schema of a table.
pub fn schema(name: &str) -> &'static Schema {
    const NONE: Schema = Schema { name: "", columns: &[] };
    TABLES.iter().find(|table| table.name == name).unwrap_or(&NONE)
}

impl Schema {
    /// As Parquet's own schema language has it.
    pub fn message(&self) -> String {
        let columns: String = self
            .columns
            .iter()
            .map(|column| match column.kind {
                Kind::Time | Kind::U64 => format!("required int64 {} (INTEGER(64,false)); ", column.name),
                Kind::U32 => format!("required int32 {} (INTEGER(32,false)); ", column.name),
                Kind::I32 => format!("required int32 {}; ", column.name),
                Kind::Text => format!("required binary {} (STRING); ", column.name),
                Kind::Bytes => format!("required binary {}; ", column.name),
            })
            .collect();
        format!("message {} {{ {columns}}}", self.name)
    }
}
