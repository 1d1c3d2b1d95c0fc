//! An event: what a source's record means, whatever the source.
//!
//! Events refer to threads by the kernel's `tid`; dense ids are given when the tables are built.

use std::num::NonZeroU64;
use std::sync::Arc;

use crate::tables::{CallPartKind, CountKind, FrameVia, SpanKind, StackEnd};
use crate::wait::{ObjectKind, WaitReason};
use crate::{CpuId, Duration, Loss, Timestamp};

/// One thing that happened, was seen, or is known to be missing.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A CPU stops running one thread and starts running the next.
    Switch(Switch),
    /// A thread is made runnable.
    Waking(Waking),
    /// A CPU was interrupted to see what it does.
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
    /// What an object of syscalls is called.
    ObjectName(ObjectName),
    /// An allocation was drawn of all that the program makes.
    Allocated(Allocated),
    /// One that was drawn is freed.
    Freed(Freed),
    /// A count of the kernel grew.
    Counted(Counted),
    /// A page fault was drawn of all that the program has.
    Fault(FaultSample),
    /// A hardware watchpoint was on a few bytes for a while.
    Watched(Watched),
    /// A task of a runtime went on that had waited for a lock.
    TaskWait(TaskWait),
    /// Such waits of a process are all told from now on, or none is.
    TaskWindow(TaskWindow),
    /// The program or its runtime tells something about itself.
    Tell(Tell),
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
    /// Process of `prev_tid`; 0 if not known.
    pub prev_tgid: u32,
    /// What becomes of `prev_tid`.
    pub outcome: Outcome,
    /// CPU time that the kernel has accounted to `prev_tid` in its life, stolen time excluded (ns).
    pub exec_ns: Option<u64>,
    /// Time that `prev_tid` has spent runnable on a run queue in its life, before this (ns).
    pub queue_ns: Option<u64>,
    /// How long `prev_tid` ran by its run queue's clock, which is what the kernel goes by: up to when that was read last,
    /// some time before `at` (ns, stolen time included).
    pub clock_ran_ns: Option<NonZeroU64>,
}

/// A tid that a source cannot tell.
pub const TID_UNKNOWN: u32 = u32::MAX;

/// What becomes of a thread that stops running.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Outcome {
    /// The source does not follow this thread's waits (not a thread of the traced program).
    #[default]
    Untracked,
    /// It could go on, but another runs: preempted in user or kernel mode.
    Preempted,
    /// It gave the CPU away itself (`sched_yield`).
    Yielded,
    /// Its group's CPU bandwidth is used up.
    Throttled,
    /// It waits.
    Blocked(Box<RawWait>),
    /// It is gone.
    Dead,
}

/// What the kernel shows of a wait at the moment when the thread blocks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RawWait {
    /// Raw `__state` bits of the task (TASK_INTERRUPTIBLE = 1, TASK_UNINTERRUPTIBLE = 2, …).
    pub state: u32,
    /// `task_struct.in_iowait`.
    pub in_iowait: bool,
    /// It waits for its address space's `mmap_lock`.
    pub mmap_lock: bool,
    /// Syscall number; -1 exception; [`RawWait::KERNEL_THREAD`]; `i32::MIN` not known; near that see [`RawWait::because`].
    pub syscall: i32,
    /// What `object` is.
    pub object_kind: ObjectKind,
    /// Identity of the thing waited for; 0 if not known.
    pub object: u64,
    /// Raw futex operation, or the file descriptor.
    pub op: u32,
    /// Futex value argument, else 0; of a thread's number, that which the kernel's other events have.
    pub value: u32,
    /// Owner that a glibc mutex names, unchecked, by the same number; 0 if none.
    pub owner_tid: u32,
    /// Id of an [`Event::Stack`]; 0 if none was taken.
    pub stack: u64,
    /// The stack was taken with probability 1/`stack_every`; 0 if stacks were not asked for.
    pub stack_every: u32,
    /// How long it asked to wait at the most.
    pub timeout: Timeout,
}

/// How long a thread asked to wait at the most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Timeout {
    /// Without end, or not known.
    #[default]
    None,
    /// For so long, from the call on.
    After(Duration),
    /// Until a moment.
    Until(Timestamp),
    /// Until a moment of the calendar (ns since 1970), which may be set meanwhile.
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

/// In [`RawWait::syscall`], the first of the numbers by which a source tells the reason itself: this plus its code.
const REASON_FIRST: i32 = i32::MIN + 1;

impl RawWait {
    /// Stored as the syscall of a kernel thread, which makes none (`WIRE_CALL_OF_KERNEL_THREAD` in `bpf/wire.h`).
    pub const KERNEL_THREAD: i32 = -2;

    /// A wait of which a source knows why, in place of what the kernel shows.
    pub fn because(reason: WaitReason) -> RawWait {
        RawWait { state: 1, syscall: REASON_FIRST + i32::from(reason as u8), ..RawWait::default() }
    }

    /// The reason, if the source told it.
    pub fn reason_told(&self) -> Option<WaitReason> {
        let code = self.syscall.checked_sub(REASON_FIRST)?;
        u8::try_from(code).ok().and_then(WaitReason::from_code)
    }
}

/// See [`Event::Waking`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Waking {
    /// When the waker decided it; the wakee reaches a run queue later (IPI).
    pub at: Timestamp,
    /// The CPU that the waker ran on.
    pub cpu: CpuId,
    /// Who becomes runnable.
    pub wakee_tid: u32,
    /// Who was running on `cpu`: the waker if `context` is [`WakeContext::Thread`].
    pub waker_tid: u32,
    /// On whose behalf.
    pub context: WakeContext,
    /// The waker's syscall, -1 none, `i32::MIN` not known.
    pub waker_syscall: i32,
    /// Futex address if the waker is in futex(2), else 0.
    pub waker_object: u64,
    /// The waker's stack, 0 if none was taken.
    pub stack: u64,
    /// The stack was taken with probability 1/`stack_every`; 0 if none was wanted: no thread of the program
    /// did it, or stacks were not asked for.
    pub stack_every: u32,
}

crate::wait::codes! {
    /// What made the wakeup. Codes equal `enum wire_context`.
    WakeContext {
        /// A thread, by what it does.
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
    /// Its process.
    pub tgid: u32,
    /// Instruction pointer, of the kernel if `in_kernel`.
    pub ip: u64,
    /// The CPU was in kernel mode.
    pub in_kernel: bool,
    /// The syscall it was in; -1 if none (user mode, fault, interrupt).
    pub syscall: i32,
    /// Id of an [`Event::Stack`]; 0 if none.
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
    /// What other events call it; unique for one process and list of addresses.
    pub id: u64,
    /// Whose user addresses they are.
    pub tgid: u32,
    /// How many of `addresses` are the kernel's; those come first.
    pub kernel_frames: u16,
    /// Leaf first. All but the leaf are return addresses.
    pub addresses: Vec<u64>,
    /// How each of the user's addresses was found; shorter than them where that is not told.
    pub vias: Vec<FrameVia>,
    /// Why there are no more.
    pub end: StackEnd,
    /// Where the binaries were not known yet: what is needed to walk the stack later. The user's addresses are
    /// then missing.
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
    /// What was readable of the stack, callers last.
    pub bytes: Vec<u8>,
}

/// See [`Event::Lifecycle`].
#[derive(Clone, Debug, PartialEq)]
pub struct Lifecycle {
    /// When.
    pub at: Timestamp,
    /// What happened.
    pub change: LifecycleChange,
    /// To whom.
    pub tid: u32,
    /// Its process.
    pub tgid: u32,
    /// Its name (`comm`) after the change.
    pub name: String,
    /// It belongs to the traced program.
    pub target: bool,
}

/// What happened to a thread.
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
    /// Begins to exit; it ends at its last switch.
    Exit,
}

/// See [`Event::Snapshot`].
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// When.
    pub at: Timestamp,
    /// Who.
    pub tid: u32,
    /// Its process.
    pub tgid: u32,
    /// The process that started its process; 0 if not known.
    pub parent_tgid: u32,
    /// Its name (`comm`).
    pub name: String,
    /// It belongs to the traced program.
    pub target: bool,
    /// What it does.
    pub state: SnapshotState,
    /// As in [`Switch::exec_ns`].
    pub exec_ns: Option<u64>,
    /// As in [`Switch::queue_ns`].
    pub queue_ns: Option<u64>,
}

/// What a thread does at one moment.
#[derive(Clone, Debug, PartialEq)]
pub enum SnapshotState {
    /// It runs there ([`CpuId::NONE`] if the source can't tell where).
    Running(CpuId),
    /// It waits for a CPU.
    Runnable,
    /// It waits for something; it began before this moment.
    Blocked(Box<RawWait>),
    /// It is gone, or going.
    Dead,
    /// Known to exist; its state is not followed.
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
    /// By how much counting made each call slower (ns); 0 if that is not known.
    pub cost_ns: u32,
}

/// See [`Event::Calls`], and [`crate::tables::CallRow`] for the fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallSums {
    /// When the stretch began.
    pub at: Timestamp,
    /// When it ended.
    pub until: Timestamp,
    /// Who called.
    pub tid: u32,
    /// Its process.
    pub tgid: u32,
    /// Number of the syscall.
    pub syscall: i32,
    /// What was asked of it, raw; 0 if that is no argument of its own.
    pub op: u32,
    /// What `object` is.
    pub object_kind: ObjectKind,
    /// Identity of the object; 0 if there is none.
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
    /// When it was told.
    pub at: Timestamp,
    /// What it is.
    pub kind: ObjectKind,
    /// Its identity.
    pub object: u64,
    /// Its name.
    pub name: String,
}

/// See [`Event::Allocated`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allocated {
    /// When.
    pub at: Timestamp,
    /// Who allocated.
    pub tid: u32,
    /// Its process.
    pub tgid: u32,
    /// Where the block lies.
    pub address: u64,
    /// How many bytes were asked for.
    pub bytes: u64,
    /// One byte in so many is drawn, each by itself ([`crate::tables::AllocationRow::probability`]).
    pub every_bytes: u64,
    /// So many bytes are added to each allocation when bytes are drawn.
    pub own_bytes: u64,
    /// Id of an [`Event::Stack`], 0 for none.
    pub stack: u64,
}

/// See [`Event::Freed`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Freed {
    /// When.
    pub at: Timestamp,
    /// Who freed.
    pub tid: u32,
    /// Its process.
    pub tgid: u32,
    /// Where the block lay.
    pub address: u64,
}

/// See [`Event::Counted`], and [`crate::tables::KernelCountRow`] for the fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// When the stretch began; 0: with the thread, or the recording.
    pub at: Timestamp,
    /// When it ended.
    pub until: Timestamp,
    /// Whose; 0: of a CPU.
    pub tid: u32,
    /// Its process.
    pub tgid: u32,
    /// Which CPU's; [`CpuId::NONE`]: a thread's.
    pub cpu: CpuId,
    /// What.
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
    /// Who touched the page.
    pub tid: u32,
    /// Its process.
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
    /// Whose accesses were watched.
    pub tid: u32,
    /// Its process.
    pub tgid: u32,
    /// The first byte.
    pub address: u64,
    /// How many bytes.
    pub bytes: u32,
    /// How often the thread touched one of them.
    pub hits: u64,
    /// How long it ran meanwhile (ns).
    pub ran_ns: u64,
}

/// See [`Event::TaskWait`], and [`crate::tables::TaskWaitRow`] for the fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskWait {
    /// When it was made to go on, or looking ended.
    pub at: Timestamp,
    /// When it began to wait, or looking did if that is not known.
    pub since: Timestamp,
    /// The thread that it was on then; if that is not known, `waker_tid`.
    pub tid: u32,
    /// Its process.
    pub tgid: u32,
    /// What it waited for; 0 if it began before looking did.
    pub object: u64,
    /// Id of an [`Event::Stack`], 0 for none: where it began to wait.
    pub stack: u64,
    /// Who made it go on; 0: it still waited when looking ended.
    pub waker_tid: u32,
    /// Id of an [`Event::Stack`], 0 for none: where that was.
    pub waker_stack: u64,
}

/// See [`Event::TaskWindow`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskWindow {
    /// When.
    pub at: Timestamp,
    /// Of which process.
    pub tgid: u32,
    /// They are told from now on; else no more.
    pub opens: bool,
}

/// See [`Event::Tell`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tell {
    /// When.
    pub at: Timestamp,
    /// Which process.
    pub tgid: u32,
    /// The thread, if the source knows it; 0: one of the process that was running then.
    pub tid: u32,
    /// The runtime's number for who tells: a domain, a capability, a processor.
    pub lane: u32,
    /// What.
    pub what: Told,
    /// The runtime's own word for it; of [`Told::LaneStart`] the runtime and its version.
    pub name: Arc<str>,
}

/// What is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// The lane begins to live; its number may have been another one's before.
    LaneStart,
    /// The lane ends.
    LaneEnd,
    /// Something was told here that is lost: open spans may have ended.
    Gap,
    /// A span begins.
    Begin(SpanKind),
    /// The innermost open span of this name ends.
    End,
    /// A counter has this value.
    Counter(u64),
    /// Something happens, with a number or a text.
    Mark {
        /// Two's complement; 0 if there is none.
        value: u64,
        /// Empty if there is none.
        text: Arc<str>,
    },
}

impl Event {
    /// When that began of which it tells: of a count its window or stretch; else [`Event::at`].
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

    /// When it happened; for a loss, when it began; for a count, when its window or stretch ended.
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
            Event::Tell(tell) => tell.at,
            Event::Affinity(affinity) => affinity.at,
            Event::Loss(loss) => loss.start,
        }
    }
}
