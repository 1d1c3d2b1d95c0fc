//! The `bpf` backend: BPF programs (in `bpf/`). [`Session`] loads them, drains their rings, and takes
//! snapshots. Records are passed on as bytes (`bpf/wire.h`) and not decoded here.

mod calls;
mod choice;
mod clocks;
mod counters;
mod entry;
mod events;
mod examination;
mod fault_draws;
mod interpreters;
mod interruption;
mod kernel_types;
mod loading;
mod map_sizes;
mod messages;
mod prefetch;
mod probe_cost;
mod programs;
mod ring;
mod sampler;
mod session;
mod slots;
mod span_probes;
mod syscall_windows;
mod task_probes;
mod trial;
mod unwind_tables;
pub(crate) mod uprobes;

pub use calls::{CALL_MAPS, CallEntry, CountFrom, EntrySink};
pub use counters::{COUNTERS_MAX, Counter, USUAL};
pub use examination::{Examination, ProgramCheck, ProgramState, Verified, examine};
pub use fault_draws::FaultWindow;
pub use interpreters::InterpreterTables;
pub use loading::MissingSource;
pub use probe_cost::ProbeCost;
pub use programs::Skipped;
pub use sampler::NotSampled;
pub use session::{BLOCKED_STACK_BYTES, Counters, Options, STACK_WINDOW, STREAMS, Session, Stacks, Target};
pub use span_probes::SpanPlace;
pub use syscall_windows::{CallCost, SyscallCounts};
pub use task_probes::{ChannelRegisters, TaskPlaces, WaitPlace, Waiting, WakePlace};
pub use unwind_tables::{MAPPINGS_MAX, MappedRows, ROWS_PENDING, UnwindTables};
pub use uprobes::ProbeForm;
