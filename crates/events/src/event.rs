//! An event: the meaning of a source's record, independent of the source.
//!
//! Events refer to threads by the kernel's `tid`. Dense ids are assigned when the tables are built.

use std::num::NonZeroU64;
use std::sync::Arc;

use crate::tables::{CallPartKind, ChannelWait, CountKind, FrameVia, SpanKind, StackEnd};
use crate::wait::{ObjectKind, WaitReason};
use crate::{CpuId, Duration, Loss, Timestamp};

/// An occurrence, an observation, or a known loss.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A CPU stops running one thread and starts running the next.
    Switch(Switch),
    /// A thread is made runnable.
    Waking(Waking),
    /// A CPU was interrupted to sample its current thread.
    Sample(Sample),
    /// The addresses of a stack that other events name.
    Stack(RawStack),
    /// A thread is born, renamed, replaces its program, or begins to exit.
    Lifecycle(Lifecycle),
    /// The state of one thread at one moment, from a task iterator or /proc.
    Snapshot(Snapshot),
    /// A file (or anonymous memory) is mapped executable.
    Mapping(RawMapping),
    /// How often a process asked for a syscall in a short window of time.
    SyscallCount(SyscallCount),
    /// Syscalls of one thread on one object in a stretch of the recording, all of them.
    Calls(Box<CallSums>),
    /// The name of an object that syscalls operate on.
    ObjectName(ObjectName),
    /// A sampled allocation of the program.
    Allocated(Allocated),
    /// A sampled allocation is freed.
    Freed(Freed),
    /// A count of the kernel grew.
    Counted(Counted),
    /// A sampled page fault of the program.
    Fault(FaultSample),
    /// A hardware watchpoint was on a few bytes for a while.
    Watched(Watched),
    /// A task of a runtime went on that had waited for a lock.
    TaskWait(TaskWait),
    /// Recording of a process' task waits starts (all of them are recorded) or stops (none is).
    TaskWindow(TaskWindow),
    /// The program or its runtime reports its own state.
    Runtime(RuntimeEvent),
    /// On how many CPUs a thread may run.
    Affinity(Affinity),
    /// Something is missing.
    Loss(Loss),
}

/// See [`Event::Switch`]. `prev_tid` or `next_tid` 0 is the idle thread.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Switch {
    /// When.
    pub at: Timestamp,
    /// On which CPU.
    pub cpu: CpuId,
    /// The thread that stops running. [`TID_UNKNOWN`] where a source sees only arrivals.
    pub prev_tid: u32,
    /// The thread that starts. [`TID_UNKNOWN`] where a source sees only departures.
    pub next_tid: u32,
    /// Process of `prev_tid`, 0 if unknown.
    pub prev_tgid: u32,
    /// State of `prev_tid` after the switch.
    pub outcome: Outcome,
    /// CPU time that the kernel has accounted to `prev_tid` in its life, stolen time excluded (ns).
    pub exec_ns: Option<u64>,
    /// Time that `prev_tid` has spent runnable on a run queue in its life, before this (ns).
    pub queue_ns: Option<u64>,
    /// Time that `prev_tid` ran by its run queue's clock (ns, steal time included). The scheduler uses this
    /// clock. The time ends at the last clock update, some time before `at`.
    pub clock_ran_ns: Option<NonZeroU64>,
}

/// A tid that the source does not record.
pub const TID_UNKNOWN: u32 = u32::MAX;

/// State of a thread after it stops running.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Outcome {
    /// The source does not follow this thread's waits (not a thread of the traced program).
    #[default]
    Untracked,
    /// Preempted in user or kernel mode: still runnable, but another thread runs.
    Preempted,
    /// The thread gave up the CPU (`sched_yield`).
    Yielded,
    /// The CPU bandwidth of the thread's group is used up.
    Throttled,
    /// The thread waits.
    Blocked(Box<RawWait>),
    /// The thread has exited.
    Dead,
}

/// A wait as the kernel shows it when the thread blocks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RawWait {
    /// Raw `__state` bits of the task (TASK_INTERRUPTIBLE = 1, TASK_UNINTERRUPTIBLE = 2, …).
    pub state: u32,
    /// `task_struct.in_iowait`.
    pub in_iowait: bool,
    /// The thread waits for its address space's `mmap_lock`.
    pub mmap_lock: bool,
    /// Syscall number, -1 for an exception, [`RawWait::KERNEL_THREAD`], or `i32::MIN` if unknown. Values
    /// slightly above `i32::MIN` encode a reason ([`RawWait::because`]).
    pub syscall: i32,
    /// Kind of `object`.
    pub object_kind: ObjectKind,
    /// Identity of the object waited for, 0 if unknown.
    pub object: u64,
    /// Raw futex operation, or the file descriptor.
    pub op: u32,
    /// Futex value argument, else 0. A thread id is in the PID namespace of the kernel's other events.
    pub value: u32,
    /// Owner recorded in a glibc mutex, unchecked, in the same PID namespace. 0 if none.
    pub owner_tid: u32,
    /// Id of an [`Event::Stack`], 0 if no stack was taken.
    pub stack: u64,
    /// The stack was taken with probability 1/`stack_every`. 0 if stacks were not requested.
    pub stack_every: u32,
    /// Timeout of the wait.
    pub timeout: Timeout,
}

/// Timeout that a thread passed to its wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Timeout {
    /// Without end, or not known.
    #[default]
    None,
    /// For so long, from the call on.
    After(Duration),
    /// Until a moment.
    Until(Timestamp),
    /// Until a wall-clock time (ns since 1970). That clock may be set during the wait.
    UntilDate(u64),
}

impl Timeout {
    /// When it is over, if that is known of a wait that began at `start`.
    pub fn due(self, start: Timestamp) -> Option<Timestamp> {
        match self {
            Timeout::None | Timeout::UntilDate(_) => None,
            Timeout::After(length) => Some(start + length),
            Timeout::Until(moment) => Some(moment),
        }
    }
}

/// See [`Event::Affinity`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Affinity {
    /// When.
    pub at: Timestamp,
    /// Which thread.
    pub tid: u32,
    /// On how many CPUs it may run.
    pub cpus: u32,
}

/// First of the [`RawWait::syscall`] values that encode a reason given by the source: this value plus the
/// reason's code.
const REASON_FIRST: i32 = i32::MIN + 1;

impl RawWait {
    /// Stored as the syscall of a kernel thread, which makes none (`WIRE_CALL_OF_KERNEL_THREAD` in `bpf/wire.h`).
    pub const KERNEL_THREAD: i32 = -2;

    /// Stored as the owner of a futex word in the latest frames of the waiter's own stack (`WIRE_OWNER_STACK` in
    /// `bpf/wire.h`).
    pub const ON_OWN_STACK: u32 = u32::MAX;

    /// A wait whose reason the source knows, instead of the kernel's view of it.
    pub fn because(reason: WaitReason) -> RawWait {
        RawWait { state: 1, syscall: REASON_FIRST + i32::from(reason as u8), ..RawWait::default() }
    }

    /// The reason, if the source recorded it.
    pub fn recorded_reason(&self) -> Option<WaitReason> {
        let code = self.syscall.checked_sub(REASON_FIRST)?;
        u8::try_from(code).ok().and_then(WaitReason::from_code)
    }
}

/// See [`Event::Waking`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Waking {
    /// When the waker called the wakeup. The wakee may reach a run queue later (by IPI).
    pub at: Timestamp,
    /// The CPU that the waker ran on.
    pub cpu: CpuId,
    /// The thread that becomes runnable.
    pub wakee_tid: u32,
    /// The thread running on `cpu`. It is the waker if `context` is [`WakeContext::Thread`].
    pub waker_tid: u32,
    /// On whose behalf.
    pub context: WakeContext,
    /// The waker's syscall, -1 none, `i32::MIN` not known.
    pub waker_syscall: i32,
    /// Futex address if the waker is in futex(2), else 0.
    pub waker_object: u64,
    /// The waker's stack, 0 if none was taken.
    pub stack: u64,
    /// The stack was taken with probability 1/`stack_every`. 0 if no stack was wanted: the waker is not a
    /// thread of the program, or stacks were not requested.
    pub stack_every: u32,
}

crate::wait::codes! {
    /// Context that made the wakeup. Codes equal `enum wire_context`.
    WakeContext {
        /// A running thread.
        Thread = 0 "thread",
        /// A timer that expired.
        Timer = 1 "timer",
        /// A soft interrupt: network, block completion, RCU.
        SoftIrq = 2 "softirq",
        /// A device's interrupt.
        Irq = 3 "irq",
    }
}

/// See [`Event::Sample`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// When.
    pub at: Timestamp,
    /// Where.
    pub cpu: CpuId,
    /// The running thread.
    pub tid: u32,
    /// Process id (tgid).
    pub tgid: u32,
    /// Instruction pointer, of the kernel if `in_kernel`.
    pub ip: u64,
    /// The CPU was in kernel mode.
    pub in_kernel: bool,
    /// Number of the current syscall, -1 if none (user mode, fault, interrupt).
    pub syscall: i32,
    /// Id of an [`Event::Stack`], 0 if none.
    pub stack: u64,
    /// The thread's registers, of a sample in user mode.
    pub registers: Option<Box<Registers>>,
}

/// The sixteen general registers of x86-64, in the order in which instructions number them: rax, rcx, rdx, rbx, rsp,
/// rbp, rsi, rdi, r8 to r15.
pub type Registers = [u64; 16];

/// See [`Event::Stack`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RawStack {
    /// When it was first seen: which mappings hold its addresses.
    pub at: Timestamp,
    /// Id by which other events refer to the stack. Unique per process and list of addresses.
    pub id: u64,
    /// Process of the user addresses.
    pub tgid: u32,
    /// Number of kernel addresses. They come first in `addresses`.
    pub kernel_frames: u16,
    /// Leaf first. All but the leaf are return addresses.
    pub addresses: Vec<u64>,
    /// How each user address was found. Shorter than the user part of `addresses` where the source does not
    /// record it.
    pub vias: Vec<FrameVia>,
    /// Why there are no more.
    pub end: StackEnd,
    /// Memory needed to unwind the stack later, if the binaries were not known yet. The user addresses are
    /// missing in that case.
    pub raw: Option<Box<RawMemory>>,
}

/// Registers, and a copy of the stack.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RawMemory {
    /// Instruction pointer.
    pub ip: u64,
    /// Stack pointer: where `bytes` begin.
    pub sp: u64,
    /// Frame pointer register.
    pub bp: u64,
    /// Register bx, in which some code holds its frame.
    pub bx: u64,
    /// The readable part of the stack, callers last.
    pub bytes: Vec<u8>,
}

/// See [`Event::Lifecycle`].
#[derive(Clone, Debug, PartialEq)]
pub struct Lifecycle {
    /// When.
    pub at: Timestamp,
    /// Kind of change.
    pub change: LifecycleChange,
    /// Thread id.
    pub tid: u32,
    /// Process id (tgid).
    pub tgid: u32,
    /// Thread name (`comm`) after the change.
    pub name: String,
    /// The thread belongs to the traced program.
    pub target: bool,
}

/// Change of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LifecycleChange {
    /// Born of `parent_tid`.
    Fork {
        /// The thread that called clone or fork.
        parent_tid: u32,
    },
    /// Runs another program now.
    Exec {
        /// The number that the thread had before: it takes that of its process' first thread. 0: the same, or not known.
        old_tid: u32,
    },
    /// Has another name now.
    Rename,
    /// The thread's id before exec, which gives it the id of its process' first thread. 0: the same id, or
    /// unknown.
    Exit,
}

/// See [`Event::Snapshot`].
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// When.
    pub at: Timestamp,
    /// Thread id.
    pub tid: u32,
    /// Process id (tgid).
    pub tgid: u32,
    /// Parent process (tgid), 0 if unknown.
    pub parent_tgid: u32,
    /// Thread name (`comm`).
    pub name: String,
    /// The thread belongs to the traced program.
    pub target: bool,
    /// State of the thread.
    pub state: SnapshotState,
    /// As in [`Switch::exec_ns`].
    pub exec_ns: Option<u64>,
    /// As in [`Switch::queue_ns`].
    pub queue_ns: Option<u64>,
}

/// State of a thread at one moment.
#[derive(Clone, Debug, PartialEq)]
pub enum SnapshotState {
    /// Running on this CPU ([`CpuId::NONE`] if unknown).
    Running(CpuId),
    /// Waiting for a CPU.
    Runnable,
    /// Blocked. The wait began before the snapshot.
    Blocked(Box<RawWait>),
    /// Exited or exiting.
    Dead,
    /// The thread exists, but its state is not recorded.
    Untracked,
}

/// See [`Event::Mapping`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RawMapping {
    /// When it came to be.
    pub at: Timestamp,
    /// In which process.
    pub tgid: u32,
    /// First address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// Offset of `start` in the file.
    pub file_offset: u64,
    /// The file as the process names it, or a name in brackets (`[vdso]`), or empty (anonymous).
    pub path: String,
    /// Build id, empty if none is known.
    pub build_id: Vec<u8>,
}

/// See [`Event::SyscallCount`]. A window in which nothing was called has one of process 0, syscall -1, count 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyscallCount {
    /// When the window began.
    pub at: Timestamp,
    /// When it ended.
    pub until: Timestamp,
    /// Which process called.
    pub tgid: u32,
    /// Number of the syscall.
    pub syscall: i32,
    /// Exactly how often within the window.
    pub count: u64,
    /// Time that counting added to each call (ns), 0 if unknown.
    pub cost_ns: u32,
}

/// See [`Event::Calls`], and [`crate::tables::CallRow`] for the fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallSums {
    /// When the stretch began.
    pub at: Timestamp,
    /// When it ended.
    pub until: Timestamp,
    /// The calling thread.
    pub tid: u32,
    /// Process id (tgid).
    pub tgid: u32,
    /// Number of the syscall.
    pub syscall: i32,
    /// Raw operation argument of the syscall, 0 if the operation is not one of its arguments.
    pub op: u32,
    /// Kind of `object`.
    pub object_kind: ObjectKind,
    /// Identity of the object, 0 if none.
    pub object: u64,
    /// How many calls returned.
    pub count: u64,
    /// How many of them failed.
    pub errors: u64,
    /// Sum of the results.
    pub returned: u64,
    /// Time of `timed` calls (ns).
    pub time_ns: u64,
    /// The longest so far (ns).
    pub time_max_ns: u64,
    /// Calls whose time is known.
    pub timed: u64,
    /// Kind, key and count. A stack's key is the id of an [`Event::Stack`].
    pub parts: Vec<(CallPartKind, u64, u64)>,
}

/// See [`Event::ObjectName`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectName {
    /// When the name was recorded.
    pub at: Timestamp,
    /// Kind of `object`.
    pub kind: ObjectKind,
    /// Identity of the object.
    pub object: u64,
    /// Name of the object.
    pub name: String,
}

/// See [`Event::Allocated`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allocated {
    /// When.
    pub at: Timestamp,
    /// The allocating thread.
    pub tid: u32,
    /// Process id (tgid).
    pub tgid: u32,
    /// Where the block lies.
    pub address: u64,
    /// How many bytes were asked for.
    pub bytes: u64,
    /// Mean sampling interval in bytes. Each byte is sampled independently
    /// ([`crate::tables::AllocationRow::probability`]).
    pub every_bytes: u64,
    /// Bytes added to the size of each allocation for sampling.
    pub own_bytes: u64,
    /// Id of an [`Event::Stack`], 0 for none.
    pub stack: u64,
}

/// See [`Event::Freed`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Freed {
    /// When.
    pub at: Timestamp,
    /// The freeing thread.
    pub tid: u32,
    /// Process id (tgid).
    pub tgid: u32,
    /// Where the block lay.
    pub address: u64,
}

/// See [`Event::Counted`], and [`crate::tables::KernelCountRow`] for the fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Start of the interval. 0: start of the thread or of the recording.
    pub at: Timestamp,
    /// When it ended.
    pub until: Timestamp,
    /// Thread id, 0 for counts of a CPU.
    pub tid: u32,
    /// Process id (tgid).
    pub tgid: u32,
    /// CPU, [`CpuId::NONE`] for counts of a thread.
    pub cpu: CpuId,
    /// Kind of count.
    pub what: CountKind,
    /// See [`crate::tables::KernelCountRow::syscall`].
    pub syscall: i32,
    /// By how much it grew.
    pub count: u64,
}

/// See [`Event::Fault`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultSample {
    /// When.
    pub at: Timestamp,
    /// The thread that touched the page.
    pub tid: u32,
    /// Process id (tgid).
    pub tgid: u32,
    /// Which address.
    pub address: u64,
    /// For how many faults it stands.
    pub stands_for: u64,
    /// A disk was read for it.
    pub major: bool,
    /// The kernel touched the page on the thread's behalf.
    pub in_kernel: bool,
    /// Id of an [`Event::Stack`], 0 for none.
    pub stack: u64,
}

/// See [`Event::Watched`], and [`crate::tables::WatchpointRow`] for the fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watched {
    /// When watching began.
    pub at: Timestamp,
    /// When it ended.
    pub until: Timestamp,
    /// The thread whose accesses were watched.
    pub tid: u32,
    /// Process id (tgid).
    pub tgid: u32,
    /// The first byte.
    pub address: u64,
    /// How many bytes.
    pub bytes: u32,
    /// How often the thread touched one of them.
    pub hits: u64,
    /// CPU time of the thread while the watchpoint was set (ns).
    pub ran_ns: u64,
}

/// See [`Event::TaskWait`], and [`crate::tables::TaskWaitRow`] for the fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskWait {
    /// When it was made to go on, or looking ended.
    pub at: Timestamp,
    /// When it began to wait, or looking did if that is not known.
    pub since: Timestamp,
    /// The task's thread when the wait began, `waker_tid` if unknown.
    pub tid: u32,
    /// Process id (tgid).
    pub tgid: u32,
    /// Identity of the lock waited for, 0 if the wait began before recording of task waits did.
    pub object: u64,
    /// Id of an [`Event::Stack`], 0 for none: where it began to wait.
    pub stack: u64,
    /// The thread that ended the wait, 0 if the task still waited when recording of task waits ended.
    pub waker_tid: u32,
    /// Id of an [`Event::Stack`], 0 for none: where that was.
    pub waker_stack: u64,
    /// The channel waited at. `None` if the wait is for a lock.
    pub channel: Option<ChannelWait>,
}

/// See [`Event::TaskWindow`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskWindow {
    /// When.
    pub at: Timestamp,
    /// Of which process.
    pub tgid: u32,
    /// Recording of task waits starts. False: it stops.
    pub opens: bool,
}

/// See [`Event::Runtime`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeEvent {
    /// When.
    pub at: Timestamp,
    /// Which process.
    pub tgid: u32,
    /// The thread if the source knows it, otherwise 0: a thread of the process that was running at the time.
    pub tid: u32,
    /// The runtime's number of the reporting lane: a domain, a capability, a processor.
    pub lane: u32,
    /// The reported content.
    pub what: RuntimeEventKind,
    /// The runtime's name for `what`. [`RuntimeEventKind::LaneStart`]: the runtime and its version.
    pub name: Arc<str>,
}

/// Content of a runtime's report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuntimeEventKind {
    /// The lane starts. Its number may have been used by an earlier lane.
    LaneStart,
    /// The lane ends.
    LaneEnd,
    /// Reports were lost here, and open spans may have ended.
    Gap,
    /// A span begins.
    Begin(SpanKind),
    /// The innermost open span of this name ends.
    End,
    /// A counter has this value.
    Counter(u64),
    /// Something happens, with a number or a text.
    Mark {
        /// A number, two's complement. 0 if none.
        value: u64,
        /// Empty if there is none.
        text: Arc<str>,
    },
}

impl Event {
    /// Start of the window or interval that the event covers. Equals [`Event::at`] for events at one moment.
    pub fn begin(&self) -> Timestamp {
        match self {
            Event::SyscallCount(count) => count.at,
            Event::Calls(calls) => calls.at,
            Event::Counted(counted) => counted.at,
            Event::Watched(watched) => watched.at,
            Event::TaskWait(wait) => wait.since,
            _ => self.at(),
        }
    }

    /// When the event happened. A loss returns its start, and a count returns the end of its window or
    /// interval.
    pub fn at(&self) -> Timestamp {
        match self {
            Event::Switch(switch) => switch.at,
            Event::Waking(waking) => waking.at,
            Event::Sample(sample) => sample.at,
            Event::Stack(stack) => stack.at,
            Event::Lifecycle(lifecycle) => lifecycle.at,
            Event::Snapshot(snapshot) => snapshot.at,
            Event::Mapping(mapping) => mapping.at,
            Event::SyscallCount(count) => count.until,
            Event::Calls(calls) => calls.until,
            Event::ObjectName(name) => name.at,
            Event::Allocated(allocated) => allocated.at,
            Event::Freed(freed) => freed.at,
            Event::Counted(counted) => counted.until,
            Event::Fault(fault) => fault.at,
            Event::Watched(watched) => watched.until,
            Event::TaskWait(wait) => wait.at,
            Event::TaskWindow(window) => window.at,
            Event::Runtime(tell) => tell.at,
            Event::Affinity(affinity) => affinity.at,
            Event::Loss(loss) => loss.start,
        }
    }
}
