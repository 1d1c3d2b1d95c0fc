//! The column tables of a trace. Tables *append* while they are built, then are *frozen* in a
//! [`crate::Trace`]. A table with many rows keeps its columns apart (structure of arrays).

mod allocations;
mod calls;
mod catalogue;
mod kernel_counts;
mod near;
mod row_set;
mod samples;
mod sink;
mod slices;
mod spans;
mod stacks;
mod syscalls;
mod task_waits;
mod wakeups;
mod watchpoints;

pub use allocations::{ALLOCATION_LIBRARY, ALLOCATION_OWN_BYTES, AllocationRow, CENSUS};
pub use calls::{CallObject, CallPartKind, CallPartRow, CallRow, Calls};
pub use catalogue::{Mapping, Process, Processes, Thread, Threads, Variable, Waits};
pub use kernel_counts::{CountKind, FaultRow, KernelCountRow};
pub use near::partition_point_near;
pub use row_set::RowSet;
pub use samples::{AccessKind, Counter, DataAccess, SampleRow, Samples};
pub use sink::{Rows, TableSink};
pub use slices::{Deadline, Slice, SliceRow, Slices, SlicesOf, Steal, ThreadState};
pub use spans::{
    COUNTED_NS, CounterRow, HARDWARE, HARDWARE_LANES, Lane, MarkRow, SpanKind, SpanRow, Spans, TellName,
};
pub use stacks::{
    Frame, FrameKind, FrameSpin, FrameVia, Frames, GENERATED_MODULE, PYTHON_MODULE, StackEnd, StackRow,
    Stacks,
};
pub use syscalls::SyscallRow;
pub use task_waits::{ChannelWait, TaskWaitRow, TaskWaits, TaskWindowRow};
pub use wakeups::{LEAVING_MAX, Wakeup, Wakeups};
pub use watchpoints::WatchpointRow;
