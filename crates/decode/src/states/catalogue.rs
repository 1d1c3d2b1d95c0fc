//! Threads, processes and interned values: all small data that is complete only at the end.

use std::collections::HashMap;

use holdup_events::event::{
    Affinity, CallSums, Counted, ObjectName, RawMapping, RawStack, RawWait, SyscallCount, Watched,
};
use holdup_events::tables::{
    AllocationRow, CallObject, CallPartKind, CallPartRow, CallRow, Calls, FaultRow, KernelCountRow, Lane,
    Mapping, Process, Processes, SyscallRow, TaskWaits, TellName, Thread, Threads, Variable, Waits,
    WatchpointRow,
};
use holdup_events::{Loss, ProcessId, StackId, ThreadId, Timestamp, Wait, WaitId, WaitReason};

use super::bearers::Bearers;
use super::live::Waited;
use super::rounds::RoundCounters;
use super::stack_words;
use super::thread_words::ThreadWords;
use crate::accesses::Unread;
use crate::wait_reason;

/// Maximum number of distinct waits.
const WAITS_MAX: usize = 1 << 22;
/// More distinct stacks than this are not kept.
const STACKS_MAX: usize = 1 << 21;

/// Result of [`super::Builder::finish`]: the small tables of the trace.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    /// Row = [`ProcessId`].
    pub processes: Processes,
    /// Row = [`ThreadId`].
    pub threads: Threads,
    /// Row = [`WaitId`].
    pub waits: Waits,
    /// Row = [`StackId`]. `None` if the definition is missing, and for row 0.
    pub stacks: Vec<Option<RawStack>>,
    /// Executable memory.
    pub mappings: Vec<Mapping>,
    /// Memory that several threads accessed, not yet resolved to variables. Sorted by process, then address.
    pub variables: Vec<Variable>,
    /// Samples of which it is not known what memory they touched, since their code is not.
    pub unread: Unread,
    /// Syscalls in short windows.
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
    /// Lanes of spans, counters and marks.
    pub lanes: Vec<Lane>,
    /// Names of spans, counters and marks.
    pub names: Vec<TellName>,
    /// Known losses.
    pub losses: Vec<Loss>,
    /// Context switches seen.
    pub switches: u64,
}

/// Names and numbers while the trace is built.
pub(super) struct Names {
    threads: Threads,
    processes: Processes,
    /// tid → index of its last bearer.
    by_tid: HashMap<u32, usize>,
    bearers: Bearers,
    waits: Waits,
    wait_ids: HashMap<Wait, WaitId>,
    rounds: RoundCounters,
    thread_words: ThreadWords,
    stacks: Vec<Option<RawStack>>,
    stack_ids: HashMap<u64, StackId>,
    pub(super) mappings: Vec<Mapping>,
    syscalls: Vec<SyscallRow>,
    calls: Calls,
    kernel_counts: Vec<KernelCountRow>,
    pub(super) faults: Vec<FaultRow>,
    watchpoints: Vec<WatchpointRow>,
    pub(super) losses: Vec<Loss>,
}

impl Default for Names {
    fn default() -> Names {
        Names {
            threads: Vec::new(),
            processes: Vec::new(),
            by_tid: HashMap::new(),
            bearers: Bearers::default(),
            waits: vec![Wait::default()],
            wait_ids: HashMap::new(),
            rounds: RoundCounters::default(),
            thread_words: ThreadWords::default(),
            stacks: vec![None],
            stack_ids: HashMap::new(),
            mappings: Vec::new(),
            syscalls: Vec::new(),
            calls: Calls::default(),
            kernel_counts: Vec::new(),
            faults: Vec::new(),
            watchpoints: Vec::new(),
            losses: Vec::new(),
        }
    }
}

impl Names {
    pub(super) fn find(&self, tid: u32) -> Option<usize> {
        self.by_tid.get(&tid).copied()
    }

    pub(super) fn add_thread(&mut self, tid: u32, tgid: u32, at: Timestamp, began_before: bool) -> ThreadId {
        let process = self.process_with(tid, tgid, began_before);
        let id = ThreadId(self.threads.len() as u32);
        let name = if tid == 0 { "swapper" } else { "?" };
        self.threads.push(Thread {
            tid,
            process,
            name: name.to_owned(),
            start: at,
            end: at,
            began_before,
            ..Thread::default()
        });
        self.by_tid.insert(tid, id.index());
        id
    }

    /// Process of the thread.
    pub(super) fn process_of(&self, index: usize) -> Option<ProcessId> {
        self.threads.get(index).map(|thread| thread.process)
    }

    /// The row of the last process with this tgid, also if it has ended, because its events may arrive late.
    /// Added if the tgid is unknown.
    pub(super) fn process(&mut self, tgid: u32) -> ProcessId {
        match self.bearers.last(tgid) {
            Some(id) => id,
            None => self.add_process(tgid),
        }
    }

    /// The row of a process that has a thread more now.
    fn process_with(&mut self, tid: u32, tgid: u32, began_before: bool) -> ProcessId {
        let is_new = self.bearers.is_new(tid, tgid, began_before);
        let id = if is_new { self.add_process(tgid) } else { self.process(tgid) };
        self.bearers.begin(tgid);
        id
    }

    fn add_process(&mut self, tgid: u32) -> ProcessId {
        let id = ProcessId(self.processes.len() as u32);
        let name = if tgid == 0 { "kernel" } else { "?" };
        self.processes.push(Process { pid: tgid, name: name.to_owned(), ..Process::default() });
        self.bearers.give(tgid, id);
        id
    }

    /// A thread that calls exec takes the tid of its process' first thread, which has ended by then
    /// (`de_thread` in fs/exec.c). From now on, `tid` means this thread.
    pub(super) fn renumber(&mut self, index: usize, tid: u32) {
        let Some(thread) = self.threads.get_mut(index) else { return };
        self.by_tid.remove(&thread.tid);
        thread.tid = tid;
        self.by_tid.insert(tid, index);
        self.bearers.take_over(tid);
    }

    /// Whether the thread's process has this tgid.
    pub(super) fn is_of(&self, index: usize, tgid: u32) -> bool {
        let process = self.process_of(index).and_then(|process| self.processes.get(process.index()));
        process.is_some_and(|process| process.pid == tgid)
    }

    /// The thread's process is now known, if it was not.
    pub(super) fn belongs_to(&mut self, index: usize, tgid: u32) {
        let known = self.threads.get(index).is_some_and(|thread| {
            self.processes
                .get(thread.process.index())
                .is_some_and(|process| process.pid == tgid || process.pid != 0)
        });
        let Some(tid) = self.threads.get(index).map(|thread| thread.tid).filter(|_| tgid != 0 && !known)
        else {
            return;
        };
        let process = self.process_with(tid, tgid, true);
        if let Some(thread) = self.threads.get_mut(index) {
            thread.process = process;
        }
    }

    pub(super) fn follow(&mut self, index: usize) {
        let Some(thread) = self.threads.get_mut(index) else { return };
        thread.target = true;
        if let Some(process) = self.processes.get_mut(thread.process.index()) {
            process.target = true;
        }
    }

    /// A name of its main thread, or a new program, names the process too.
    pub(super) fn rename(&mut self, index: usize, name: &str, exec: bool) {
        let Some(thread) = self.threads.get_mut(index) else { return };
        if thread.name != name {
            name.clone_into(&mut thread.name);
        }
        if let Some(process) = self.processes.get_mut(thread.process.index())
            && (exec || thread.tid == process.pid || process.name == "?")
            && process.name != name
            && process.pid != 0
        {
            name.clone_into(&mut process.name);
        }
    }

    pub(super) fn parent(&mut self, index: usize, parent_tid: u32) {
        let parent = self.find(parent_tid);
        let parent_process = parent.and_then(|parent| self.threads.get(parent)).map(|parent| parent.process);
        let Some(thread) = self.threads.get_mut(index) else { return };
        thread.parent = parent.map(|parent| ThreadId(parent as u32));
        if let Some(process) = self.processes.get_mut(thread.process.index())
            && parent_process != Some(thread.process)
            && process.parent.is_none()
        {
            process.parent = parent_process;
        }
    }

    pub(super) fn parent_process(&mut self, index: usize, parent_tgid: u32) {
        let Some(parent) = self.bearers.last(parent_tgid) else { return };
        let Some(thread) = self.threads.get(index) else { return };
        let own = thread.process;
        if let Some(process) = self.processes.get_mut(own.index())
            && own != parent
            && process.parent.is_none()
        {
            process.parent = Some(parent);
        }
    }

    pub(super) fn may_run_on(&mut self, affinity: &Affinity) {
        let index = self.find(affinity.tid);
        if let Some(thread) = index.and_then(|index| self.threads.get_mut(index)) {
            thread.cpus_allowed = affinity.cpus;
        }
    }

    /// Moves the start of the thread's life to `at`, if it was earlier.
    pub(super) fn let_go(&mut self, id: ThreadId, at: Timestamp) {
        if let Some(thread) = self.threads.get_mut(id.index()) {
            thread.start = thread.start.max(at);
        }
    }

    pub(super) fn end(&mut self, id: ThreadId, at: Timestamp, alive: bool) {
        let Some(thread) = self.threads.get_mut(id.index()) else { return };
        thread.end = at.max(thread.start);
        thread.alive_at_end = alive;
        let pid = self.processes.get(thread.process.index()).map(|process| process.pid);
        if let Some(pid) = pid.filter(|_| !alive) {
            self.bearers.end(pid, thread.process, thread.tid == pid);
        }
    }

    pub(super) fn intern_wait(&mut self, index: usize, raw: &RawWait) -> Waited {
        let process = self.threads.get(index).map(|thread| thread.process).unwrap_or_default();
        let wait = Wait {
            reason: wait_reason::classify(raw),
            process,
            syscall: raw.recorded_reason().map_or(raw.syscall, |_| i32::MIN),
            object_kind: raw.object_kind,
            object: raw.object,
            op: raw.op,
            owner_tid: raw.owner_tid,
            ..Wait::default()
        };
        self.rounds.add(&wait, raw.value);
        self.thread_words.add(&wait, raw.value);
        // A wait without any information gets no row, so that a later snapshot may still set it
        // (Live::refine).
        let nothing_known = wait.reason == WaitReason::Unknown && raw.syscall == i32::MIN;
        let wait = match self.wait_ids.get(&wait) {
            _ if nothing_known => WaitId::NONE,
            Some(id) => *id,
            None if self.waits.len() >= WAITS_MAX => WaitId::NONE,
            None => {
                let id = WaitId(self.waits.len() as u32);
                self.waits.push(wait.clone());
                self.wait_ids.insert(wait, id);
                id
            }
        };
        Waited {
            wait,
            stack: self.intern_stack(raw.stack),
            every: u16::try_from(raw.stack_every).unwrap_or(u16::MAX),
        }
    }

    /// The row of a stack. It may be defined before or after its first reference.
    pub(super) fn intern_stack(&mut self, raw: u64) -> StackId {
        if raw == 0 {
            return StackId::NONE;
        }
        if let Some(id) = self.stack_ids.get(&raw) {
            return *id;
        }
        if self.stacks.len() >= STACKS_MAX {
            return StackId::NONE;
        }
        let id = StackId(self.stacks.len() as u32);
        self.stacks.push(None);
        self.stack_ids.insert(raw, id);
        id
    }

    pub(super) fn define_stack(&mut self, stack: RawStack) {
        let id = self.intern_stack(stack.id);
        if id != StackId::NONE
            && let Some(slot) = self.stacks.get_mut(id.index())
            && slot.is_none()
        {
            *slot = Some(stack);
        }
    }

    /// The process of a mapping. Mappings arrive in order, so a mapping after a process' end belongs to the
    /// next process.
    pub(super) fn map(&mut self, raw: RawMapping) -> ProcessId {
        let is_new = self.bearers.is_over(raw.tgid);
        let process = if is_new { self.add_process(raw.tgid) } else { self.process(raw.tgid) };
        self.mappings.push(Mapping::from_raw(process, raw));
        process
    }

    /// Counts arrive at the end of their window, and may belong to a process that has exited since.
    pub(super) fn count(&mut self, count: &SyscallCount) {
        let process = self.bearers.last(count.tgid).filter(|_| count.tgid != 0);
        self.syscalls.push(SyscallRow {
            process,
            syscall: count.syscall,
            start: count.at,
            end: count.until.max(count.at),
            count: count.count,
            cost_ns: count.cost_ns,
        });
    }

    /// As for windows: the sums of a stretch come when it is over.
    pub(super) fn count_calls(&mut self, sums: &CallSums) {
        let call = self.calls.rows.len() as u32;
        self.calls.rows.push(CallRow {
            thread: self.find(sums.tid).map(|index| ThreadId(index as u32)),
            syscall: sums.syscall,
            op: sums.op,
            object_kind: sums.object_kind,
            object: sums.object,
            start: sums.at,
            end: sums.until.max(sums.at),
            count: sums.count,
            errors: sums.errors,
            returned: sums.returned,
            time_ns: sums.time_ns,
            time_max_ns: sums.time_max_ns,
            timed: sums.timed,
        });
        for &(what, key, count) in &sums.parts {
            let key = match what {
                CallPartKind::Stack => u64::from(self.intern_stack(key).0),
                _ => key,
            };
            self.calls.parts.push(CallPartRow { call, what, key, count });
        }
    }

    /// As for calls. A stretch does not begin before its thread, nor before the recording.
    pub(super) fn counted(&mut self, counted: &Counted, start: Timestamp) {
        let thread = (counted.tid != 0).then(|| self.find(counted.tid)).flatten();
        let began = thread.and_then(|index| self.threads.get(index)).map_or(start, |thread| thread.start);
        let from = counted.at.max(began).max(start);
        self.kernel_counts.push(KernelCountRow {
            thread: thread.map(|index| ThreadId(index as u32)),
            cpu: counted.cpu,
            what: counted.what,
            syscall: counted.syscall,
            start: from,
            end: counted.until.max(from),
            count: counted.count,
        });
    }

    /// Watchpoints of unknown threads are dropped.
    pub(super) fn watched(&mut self, watched: &Watched) {
        let Some(thread) = self.find(watched.tid) else { return };
        self.watchpoints.push(WatchpointRow {
            thread: ThreadId(thread as u32),
            start: watched.at,
            end: watched.until.max(watched.at),
            address: watched.address,
            bytes: watched.bytes,
            hits: watched.hits,
            ran_ns: watched.ran_ns,
        });
    }

    /// The last name of an object is kept.
    pub(super) fn name_object(&mut self, name: ObjectName) {
        let row = CallObject { kind: name.kind, object: name.object, name: name.name };
        let rows = &mut self.calls.objects;
        let found = rows.binary_search_by_key(&(row.kind, row.object), |known| (known.kind, known.object));
        if let Err(at) = found {
            return rows.insert(at, row);
        }
        if let Some(known) = found.ok().and_then(|at| rows.get_mut(at)) {
            *known = row;
        }
    }

    pub(super) fn finish(mut self, start: Timestamp, end: Timestamp, switches: u64) -> Catalogue {
        self.rounds.correct(&mut self.waits);
        self.thread_words.correct(&mut self.waits, &self.threads);
        stack_words::correct(&mut self.waits);
        let mut threads = self.threads;
        for thread in &mut threads {
            thread.start = thread.start.clamp(start, end.max(start));
            thread.end = thread.end.clamp(thread.start, end.max(thread.start));
        }
        Catalogue {
            processes: self.processes,
            threads,
            waits: self.waits,
            stacks: self.stacks,
            mappings: self.mappings,
            variables: Vec::new(),
            unread: Unread::default(),
            syscalls: self.syscalls,
            calls: self.calls,
            allocations: Vec::new(),
            kernel_counts: self.kernel_counts,
            faults: self.faults,
            watchpoints: self.watchpoints,
            task_waits: TaskWaits::default(),
            losses: self.losses,
            lanes: Vec::new(),
            names: Vec::new(),
            switches,
        }
    }
}
