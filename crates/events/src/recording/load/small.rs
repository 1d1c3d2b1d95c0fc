//! Reading the small tables.

use parquet::errors::Result;

use super::{Place, calls, contained, task_waits};
use crate::event::WakeContext;
use crate::recording::parquet::TableReader;
use crate::tables::{
    AllocationRow, CountKind, FaultRow, Frame, FrameKind, FrameSpin, FrameVia, KernelCountRow, Mapping,
    Process, StackEnd, StackRow, Stacks, SyscallRow, Thread, Variable, WatchpointRow,
};
use crate::{
    CpuId, FrameId, Loss, ObjectKind, ProcessId, StackId, ThreadId, Timestamp, Trace, Wait, WaitReason,
};

/// Fills the small tables of `trace`. Names of unreadable tables go to `unreadable`.
pub fn read(place: &Place<'_>, trace: &mut Trace, unreadable: &mut Vec<&'static str>) {
    let mut load = |name: &'static str, read: &mut dyn FnMut(&TableReader) -> Result<()>| {
        if contained(|| read(&place.table(name)?)).is_none() {
            unreadable.push(name);
        }
    };
    load("processes", &mut |table| processes(table).map(|rows| trace.processes = rows));
    load("threads", &mut |table| threads(table).map(|rows| trace.threads = rows));
    load("waits", &mut |table| waits(table).map(|rows| trace.waits = rows));
    load("stacks", &mut |table| stacks(table).map(|rows| trace.stacks = rows));
    load("frames", &mut |table| frames(table).map(|rows| trace.frames = rows));
    load("variables", &mut |table| variables(table).map(|rows| trace.variables = rows));
    load("mappings", &mut |table| mappings(table).map(|rows| trace.mappings = rows));
    // Recordings of version 0.1 lack it.
    if place.has("syscalls") {
        load("syscalls", &mut |table| syscalls(table).map(|rows| trace.syscalls = rows));
    }
    // Older recordings lack these.
    if place.has("calls") {
        load("calls", &mut |table| calls::rows(table).map(|rows| trace.calls.rows = rows));
        load("call_parts", &mut |table| calls::parts(table).map(|rows| trace.calls.parts = rows));
        load("call_objects", &mut |table| calls::objects(table).map(|rows| trace.calls.objects = rows));
    }
    if place.has("allocations") {
        load("allocations", &mut |table| allocations(table).map(|rows| trace.allocations = rows));
    }
    if place.has("kernel_counts") {
        load("kernel_counts", &mut |table| kernel_counts(table).map(|rows| trace.kernel_counts = rows));
    }
    if place.has("faults") {
        load("faults", &mut |table| faults(table).map(|rows| trace.faults = rows));
    }
    if place.has("watchpoints") {
        load("watchpoints", &mut |table| watchpoints(table).map(|rows| trace.watchpoints = rows));
    }
    if place.has("task_waits") {
        load("task_waits", &mut |table| task_waits::rows(table).map(|rows| trace.task_waits.rows = rows));
        load("task_windows", &mut |table| {
            task_waits::windows(table).map(|rows| trace.task_waits.windows = rows)
        });
    }
    load("loss", &mut |table| losses(table).map(|rows| trace.losses = rows));
}

/// Reads only processes, threads and losses.
pub fn read_threads(place: &Place<'_>, trace: &mut Trace) -> Result<()> {
    trace.processes = processes(&place.table("processes")?)?;
    trace.threads = threads(&place.table("threads")?)?;
    trace.losses = losses(&place.table("loss")?)?;
    Ok(())
}

pub(super) fn optional(id: i32) -> Option<u32> {
    (id >= 0).then_some(id as u32)
}

/// Takes the next value of a column. A column that is too short yields the default.
pub(super) fn next<T: Default>(column: &mut std::vec::IntoIter<T>) -> T {
    column.next().unwrap_or_default()
}

fn processes(table: &TableReader) -> Result<Vec<Process>> {
    let mut pids = table.all_u32("pid")?.into_iter();
    let mut targets = table.all_u32("target")?.into_iter();
    let mut parents = table.all_i32("parent")?.into_iter();
    let names = table.all_text("name")?;
    Ok(names
        .into_iter()
        .map(|name| Process {
            pid: next(&mut pids),
            name,
            target: next(&mut targets) != 0,
            parent: optional(next(&mut parents)).map(ProcessId),
        })
        .collect())
}

fn threads(table: &TableReader) -> Result<Vec<Thread>> {
    let mut tids = table.all_u32("tid")?.into_iter();
    let mut processes = table.all_u32("process")?.into_iter();
    let mut targets = table.all_u32("target")?.into_iter();
    let mut starts = table.all_u64("start_ns")?.into_iter();
    let mut ends = table.all_u64("end_ns")?.into_iter();
    let mut before = table.all_u32("began_before")?.into_iter();
    let mut alive = table.all_u32("alive_at_end")?.into_iter();
    let mut parents = table.all_i32("parent")?.into_iter();
    // Recordings of version 0.1 lack it.
    let mut cpus = table.all_u32("cpus_allowed").unwrap_or_default().into_iter();
    let names = table.all_text("name")?;
    Ok(names
        .into_iter()
        .map(|name| Thread {
            tid: next(&mut tids),
            process: ProcessId(next(&mut processes)),
            name,
            target: next(&mut targets) != 0,
            start: Timestamp(next(&mut starts)),
            end: Timestamp(next(&mut ends)),
            began_before: next(&mut before) != 0,
            alive_at_end: next(&mut alive) != 0,
            parent: optional(next(&mut parents)).map(ThreadId),
            cpus_allowed: next(&mut cpus),
        })
        .collect())
}

fn waits(table: &TableReader) -> Result<Vec<Wait>> {
    let mut processes = table.all_u32("process")?.into_iter();
    let mut syscalls = table.all_i32("syscall")?.into_iter();
    let mut kinds = table.all_u32("object_kind")?.into_iter();
    let mut objects = table.all_u64("object")?.into_iter();
    let mut ops = table.all_u32("op")?.into_iter();
    let mut owners = table.all_u32("owner_tid")?.into_iter();
    // Recordings of version 0.1 lack these.
    let mut symbols = table.all_text("symbol").unwrap_or_default().into_iter();
    let mut modules = table.all_text("module").unwrap_or_default().into_iter();
    let reasons = table.all_u32("reason")?;
    Ok(reasons
        .into_iter()
        .map(|reason| Wait {
            reason: WaitReason::from_code(reason as u8).unwrap_or_default(),
            process: ProcessId(next(&mut processes)),
            syscall: next(&mut syscalls),
            object_kind: ObjectKind::from_code(next(&mut kinds) as u8).unwrap_or_default(),
            object: next(&mut objects),
            op: next(&mut ops),
            owner_tid: next(&mut owners),
            symbol: next(&mut symbols),
            module: next(&mut modules),
        })
        .collect())
}

fn stacks(table: &TableReader) -> Result<Stacks> {
    let mut parents = table.all_u32("parent")?.into_iter();
    let frames = table.all_u32("frame")?;
    // Recordings of the first format have neither.
    let mut vias = table.all_u32("via").unwrap_or_default().into_iter();
    let mut ends = table.all_u32("end").unwrap_or_default().into_iter();
    let rows = frames
        .into_iter()
        .map(|frame| StackRow {
            frame: FrameId(frame),
            parent: StackId(next(&mut parents)),
            via: FrameVia::from_code(next(&mut vias) as u8).unwrap_or_default(),
            end: StackEnd::from_code(next(&mut ends) as u8).unwrap_or_default(),
        })
        .collect();
    Ok(Stacks::from_rows(rows))
}

fn frames(table: &TableReader) -> Result<Vec<Frame>> {
    let mut functions = table.all_text("function")?.into_iter();
    let mut modules = table.all_text("module")?.into_iter();
    let mut offsets = table.all_u64("offset")?.into_iter();
    let mut distances = table.all_u64("function_offset")?.into_iter();
    // Recordings of version 0.1 lack these.
    let mut files = table.all_text("file").unwrap_or_default().into_iter();
    let mut lines = table.all_u32("line").unwrap_or_default().into_iter();
    let mut inlined = table.all_u32("inlined").unwrap_or_default().into_iter();
    let mut spins = table.all_u32("spin").unwrap_or_default().into_iter();
    let mut watches = table.all_text("watches").unwrap_or_default().into_iter();
    let kinds = table.all_u32("kind")?;
    Ok(kinds
        .into_iter()
        .map(|kind| Frame {
            kind: FrameKind::from_code(kind as u8).unwrap_or_default(),
            function: next(&mut functions),
            module: next(&mut modules),
            offset: next(&mut offsets),
            function_offset: next(&mut distances),
            file: next(&mut files),
            line: next(&mut lines),
            inlined: next(&mut inlined) != 0,
            spin: FrameSpin::from_code(next(&mut spins) as u8).unwrap_or_default(),
            watches: next(&mut watches),
        })
        .collect())
}

fn mappings(table: &TableReader) -> Result<Vec<Mapping>> {
    let mut times = table.all_u64("at_ns")?.into_iter();
    let mut starts = table.all_u64("start")?.into_iter();
    let mut ends = table.all_u64("end")?.into_iter();
    let mut offsets = table.all_u64("file_offset")?.into_iter();
    let mut paths = table.all_text("path")?.into_iter();
    let mut build_ids = table.all_bytes("build_id")?.into_iter();
    let processes = table.all_u32("process")?;
    Ok(processes
        .into_iter()
        .map(|process| Mapping {
            process: ProcessId(process),
            at: Timestamp(next(&mut times)),
            start: next(&mut starts),
            end: next(&mut ends),
            file_offset: next(&mut offsets),
            path: next(&mut paths),
            build_id: next(&mut build_ids),
        })
        .collect())
}

fn variables(table: &TableReader) -> Result<Vec<Variable>> {
    let mut addresses = table.all_u64("address")?.into_iter();
    let mut names = table.all_text("name")?.into_iter();
    let mut parts = table.all_text("part")?.into_iter();
    let mut modules = table.all_text("module")?.into_iter();
    let row = |process| Variable {
        process: ProcessId(process),
        address: next(&mut addresses),
        name: next(&mut names),
        part: next(&mut parts),
        module: next(&mut modules),
    };
    let mut rows: Vec<Variable> = table.all_u32("process")?.into_iter().map(row).collect();
    rows.sort_by_key(|row| (row.process, row.address));
    Ok(rows)
}

fn syscalls(table: &TableReader) -> Result<Vec<SyscallRow>> {
    let mut processes = table.all_i32("process")?.into_iter();
    let mut starts = table.all_u64("start_ns")?.into_iter();
    let mut ends = table.all_u64("end_ns")?.into_iter();
    let mut counts = table.all_u64("count")?.into_iter();
    let mut costs = table.all_u32("cost_ns")?.into_iter();
    let syscalls = table.all_i32("syscall")?;
    Ok(syscalls
        .into_iter()
        .map(|syscall| SyscallRow {
            process: optional(next(&mut processes)).map(ProcessId),
            syscall,
            start: Timestamp(next(&mut starts)),
            end: Timestamp(next(&mut ends)),
            count: next(&mut counts),
            cost_ns: next(&mut costs),
        })
        .collect())
}

fn allocations(table: &TableReader) -> Result<Vec<AllocationRow>> {
    let mut moments = table.all_u64("at_ns")?.into_iter();
    let mut addresses = table.all_u64("address")?.into_iter();
    let mut bytes = table.all_u64("bytes")?.into_iter();
    let mut every = table.all_u64("every_bytes")?.into_iter();
    let mut own = table.all_u64("own_bytes")?.into_iter();
    let mut stacks = table.all_u32("stack")?.into_iter();
    let mut freed = table.all_u32("freed")?.into_iter();
    let mut freed_at = table.all_u64("freed_ns")?.into_iter();
    let mut freed_by = table.all_i32("freed_by")?.into_iter();
    let row = |thread| AllocationRow {
        thread: ThreadId(thread),
        at: Timestamp(next(&mut moments)),
        address: next(&mut addresses),
        bytes: next(&mut bytes),
        every_bytes: next(&mut every),
        own_bytes: next(&mut own),
        stack: StackId(next(&mut stacks)),
        freed: Some(Timestamp(next(&mut freed_at))).filter(|_| next(&mut freed) != 0),
        freed_by: optional(next(&mut freed_by)).map(ThreadId),
    };
    Ok(table.all_u32("thread")?.into_iter().map(row).collect())
}

fn kernel_counts(table: &TableReader) -> Result<Vec<KernelCountRow>> {
    let mut cpus = table.all_i32("cpu")?.into_iter();
    let mut kinds = table.all_u32("what")?.into_iter();
    let mut syscalls = table.all_i32("syscall")?.into_iter();
    let mut starts = table.all_u64("start_ns")?.into_iter();
    let mut ends = table.all_u64("end_ns")?.into_iter();
    let mut counts = table.all_u64("count")?.into_iter();
    let row = |thread| {
        let what = u8::try_from(next(&mut kinds)).ok().and_then(CountKind::from_code);
        let row = KernelCountRow {
            thread: optional(thread).map(ThreadId),
            cpu: optional(next(&mut cpus)).map_or(CpuId::NONE, |cpu| CpuId(cpu as u16)),
            what: what.unwrap_or_default(),
            syscall: next(&mut syscalls),
            start: Timestamp(next(&mut starts)),
            end: Timestamp(next(&mut ends)),
            count: next(&mut counts),
        };
        // A kind of a later version is none of ours.
        what.map(|_| row)
    };
    Ok(table.all_i32("thread")?.into_iter().filter_map(row).collect())
}

fn faults(table: &TableReader) -> Result<Vec<FaultRow>> {
    let mut moments = table.all_u64("at_ns")?.into_iter();
    let mut addresses = table.all_u64("address")?.into_iter();
    let mut weights = table.all_u64("stands_for")?.into_iter();
    let mut major = table.all_u32("major")?.into_iter();
    let mut in_kernel = table.all_u32("in_kernel")?.into_iter();
    let mut stacks = table.all_u32("stack")?.into_iter();
    let row = |thread| FaultRow {
        thread: ThreadId(thread),
        at: Timestamp(next(&mut moments)),
        address: next(&mut addresses),
        stands_for: next(&mut weights),
        major: next(&mut major) != 0,
        in_kernel: next(&mut in_kernel) != 0,
        stack: StackId(next(&mut stacks)),
    };
    Ok(table.all_u32("thread")?.into_iter().map(row).collect())
}

fn watchpoints(table: &TableReader) -> Result<Vec<WatchpointRow>> {
    let mut starts = table.all_u64("start_ns")?.into_iter();
    let mut ends = table.all_u64("end_ns")?.into_iter();
    let mut addresses = table.all_u64("address")?.into_iter();
    let mut bytes = table.all_u32("bytes")?.into_iter();
    let mut hits = table.all_u64("hits")?.into_iter();
    let mut ran = table.all_u64("ran_ns")?.into_iter();
    let row = |thread| WatchpointRow {
        thread: ThreadId(thread),
        start: Timestamp(next(&mut starts)),
        end: Timestamp(next(&mut ends)),
        address: next(&mut addresses),
        bytes: next(&mut bytes),
        hits: next(&mut hits),
        ran_ns: next(&mut ran),
    };
    Ok(table.all_u32("thread")?.into_iter().map(row).collect())
}

fn losses(table: &TableReader) -> Result<Vec<Loss>> {
    let mut reasons = table.all_text("reason")?.into_iter();
    let mut cpus = table.all_u32("cpu")?.into_iter();
    let mut starts = table.all_u64("start_ns")?.into_iter();
    let mut ends = table.all_u64("end_ns")?.into_iter();
    let mut events = table.all_u64("events")?.into_iter();
    let sources = table.all_text("source")?;
    Ok(sources
        .into_iter()
        .map(|source| Loss {
            source,
            reason: next(&mut reasons),
            cpu: CpuId(next(&mut cpus) as u16),
            start: Timestamp(next(&mut starts)),
            end: Timestamp(next(&mut ends)),
            events: next(&mut events),
        })
        .collect())
}

/// The context with this code.
pub fn context(code: i32) -> WakeContext {
    WakeContext::from_code(code as u8).unwrap_or_default()
}
