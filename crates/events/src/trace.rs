//! A trace: one recording in memory, frozen.

use crate::event::WakeContext;
use crate::recording::Manifest;
use crate::tables::{
    AllocationRow, Calls, CounterRow, Deadline, FaultRow, Frames, KernelCountRow, LEAVING_MAX, Lane, Mapping,
    MarkRow, Processes, Samples, Slice, Slices, Spans, Stacks, Steal, SyscallRow, TaskWaits, TellName,
    ThreadState, Threads, Variable, Waits, Wakeup, Wakeups, WatchpointRow, partition_point_near,
};
use crate::{Duration, FrameId, Loss, ProcessId, StackId, ThreadId, Timestamp, Wait, WaitId};

/// Everything known about one recording.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// Metadata: command, host, sources and cost.
    pub manifest: Manifest,
    /// Row = [`ProcessId`].
    pub processes: Processes,
    /// Row = [`ThreadId`].
    pub threads: Threads,
    /// State of each thread over time.
    pub slices: Slices,
    /// Running slices with steal time, sorted by thread, then slice start.
    pub steals: Vec<Steal>,
    /// Timeouts of blocked slices, sorted by thread, then slice start.
    pub deadlines: Vec<Deadline>,
    /// Row = [`WaitId`].
    pub waits: Waits,
    /// Wakeups with waker and wakee.
    pub wakeups: Wakeups,
    /// On-CPU samples, sorted by thread, then time.
    pub samples: Samples,
    /// Row = [`StackId`].
    pub stacks: Stacks,
    /// Row = [`FrameId`].
    pub frames: Frames,
    /// Syscalls in short windows, in the order of the windows' ends.
    pub syscalls: Vec<SyscallRow>,
    /// Syscalls that were all counted.
    pub calls: Calls,
    /// Sampled allocations, in time order.
    pub allocations: Vec<AllocationRow>,
    /// Kernel counts of threads and CPUs, ordered by the end of the interval.
    pub kernel_counts: Vec<KernelCountRow>,
    /// Sampled page faults, in time order.
    pub faults: Vec<FaultRow>,
    /// Results of hardware watchpoints, ordered by their end.
    pub watchpoints: Vec<WatchpointRow>,
    /// Waits of runtime tasks.
    pub task_waits: TaskWaits,
    /// Executable memory.
    pub mappings: Vec<Mapping>,
    /// Names of memory that several threads were seen to touch, sorted by process, then address.
    pub variables: Vec<Variable>,
    /// Spans reported by the program and its runtimes.
    pub spans: Spans,
    /// Reported counter values, sorted by thread, then time.
    pub counters: Vec<CounterRow>,
    /// Reports without a duration, sorted by thread, then time.
    pub marks: Vec<MarkRow>,
    /// Lanes of spans, counters and marks.
    pub lanes: Vec<Lane>,
    /// Names and texts of spans, counters and marks. Row 0 is empty.
    pub names: Vec<TellName>,
    /// Known losses.
    pub losses: Vec<Loss>,
}

impl Trace {
    /// When the recording began.
    pub fn start(&self) -> Timestamp {
        Timestamp(self.manifest.start_ns)
    }

    /// When it ended.
    pub fn end(&self) -> Timestamp {
        Timestamp(self.manifest.end_ns)
    }

    /// The program was attached to or watched and went on when the recording ended: there is no run that could be shorter.
    pub fn is_part_of_run(&self) -> bool {
        matches!(self.manifest.mode.as_str(), "all" | "attach" | "watch")
            && self.target_threads().any(|thread| self.threads[thread.index()].alive_at_end)
    }

    /// Wall time of the recording.
    pub fn wall(&self) -> Duration {
        self.end().since(self.start())
    }

    /// Threads of the traced program.
    pub fn target_threads(&self) -> impl Iterator<Item = ThreadId> + '_ {
        (0..self.threads.len() as u32).map(ThreadId).filter(|id| self.threads[id.index()].target)
    }

    /// The wait of a blocked slice.
    #[inline]
    pub fn wait(&self, id: WaitId) -> &Wait {
        static NONE: std::sync::LazyLock<Wait> = std::sync::LazyLock::new(Wait::default);
        self.waits.get(id.index()).unwrap_or(&NONE)
    }

    /// The wakeup that ended a blocked slice. A thread may be woken while it is on its way off its CPU, shortly before it
    /// is seen to leave.
    pub fn ended_by(&self, slice: &Slice) -> Option<&Wakeup> {
        let mut behind = self.wakeups.of_thread(slice.thread).partition_point(|row| row.at <= slice.end);
        self.ended_by_near(slice, &mut behind)
    }

    /// The same for a caller that walks through a thread's slices: `near` is the answer's place among the thread's
    /// wakeups, at first any.
    #[inline]
    pub fn ended_by_near(&self, slice: &Slice, near: &mut usize) -> Option<&Wakeup> {
        let rows = self.wakeups.of_thread(slice.thread);
        *near = partition_point_near(rows, *near, |row| row.at <= slice.end);
        let last = rows.get(..*near)?.last()?;
        if last.at >= slice.start {
            return Some(last);
        }
        self.while_leaving(slice, last)
    }

    /// A wakeup that came while the thread was on its way into `slice`.
    fn while_leaving<'a>(&self, slice: &Slice, last: &'a Wakeup) -> Option<&'a Wakeup> {
        if last.at + LEAVING_MAX < slice.start {
            return None;
        }
        let before = Timestamp(slice.start.0.saturating_sub(1));
        let before = self.slices.at(slice.thread, self.slices.covering(slice.thread, before)?);
        let leaving = before.state == ThreadState::Running && before.start < last.at;
        leaving.then_some(last)
    }

    /// When a blocked slice would have ended by itself, if its thread asked for that.
    pub fn due(&self, slice: &Slice) -> Option<Timestamp> {
        let key = (slice.thread, slice.start);
        let found = self.deadlines.binary_search_by_key(&key, |row| (row.thread, row.slice_start));
        found.ok().and_then(|row| self.deadlines.get(row)).map(|row| row.due)
    }

    /// Whether the timeout ended a blocked slice, as far as deadlines are known.
    pub fn timed_out(&self, slice: &Slice) -> bool {
        self.due(slice).is_some_and(|due| slice.end >= due)
            && self.ended_by(slice).is_some_and(|wakeup| wakeup.context == WakeContext::Timer)
    }

    /// Name of a frame for people: the function, else `module+0xstart` of the function, as far as its start is
    /// known.
    pub fn frame_name(&self, id: FrameId) -> String {
        match self.frames.get(id.index()) {
            None => "?".to_owned(),
            Some(frame) if !frame.function.is_empty() => frame.function.clone(),
            Some(frame) if frame.module.is_empty() => format!("0x{:x}", frame.offset),
            Some(frame) => {
                let file = frame.module.rsplit('/').next().unwrap_or(&frame.module);
                format!("{file}+0x{:x}", frame.offset.saturating_sub(frame.function_offset))
            }
        }
    }

    /// The name of a span, counter or mark.
    pub fn event_name(&self, name: u32) -> &TellName {
        static NONE: std::sync::LazyLock<TellName> = std::sync::LazyLock::new(TellName::default);
        self.names.get(name as usize).unwrap_or(&NONE)
    }

    /// The frames of a stack, leaf first.
    pub fn stack_frames(&self, stack: StackId) -> impl Iterator<Item = FrameId> + '_ {
        self.stacks.frames(stack)
    }

    /// A process's name and pid, for people.
    pub fn process_name(&self, id: ProcessId) -> &str {
        self.processes.get(id.index()).map_or("?", |process| process.name.as_str())
    }
}
