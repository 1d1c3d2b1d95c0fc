//! One recording by BPF: load, attach, drain, snapshot, finish.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;

use libbpf_rs::{Iter, Link, MapCore, MapFlags, Object};

use super::calls::{self, CountFrom, EntrySink};
use super::counters::{Counter, Counters as OpenCounters};
use super::events::Events;
use super::fault_draws::{FaultDraws, FaultWindow};
use super::interpreters::InterpreterTables;
use super::loading::{self, Loaded, MissingSource};
use super::probe_cost::{self, PROBES, ProbeCost, ProbeTime, SAMPLE_PROBE};
use super::programs::Skipped;
use super::ring::Ring;
use super::sampler::{self, NotSampled, Sampler};
use super::slots::{Layout, SlotRing};
use super::span_probes::{SpanPlace, SpanProbes};
use super::syscall_windows::{self, CallCost, SyscallCounts, Window};
use super::task_probes::{TaskPlaces, TaskProbes, Waiting};
use super::trial::Trial;
use super::unwind_tables::UnwindTables;
use super::uprobes::{ProbeForm, Uprobes};
use super::{entry, messages, programs};
use crate::error::CaptureError;
use crate::host::{OTHER_NUMBERS, is_in_first_pid_namespace};
use crate::sources;

/// The recorded processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A process and its future children. [`Session::add_target`] adds others.
    Process(u32),
    /// One process alone.
    Only(u32),
    /// Every process of the machine.
    All,
}

/// When the stack of a thread that blocks, or wakes another, is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stacks {
    /// Always.
    All,
    /// A random sample, as many as [`Session::allow_stacks`] permits.
    Budgeted,
    /// Never.
    None,
}

/// How to record.
#[derive(Clone, Debug)]
pub struct Options {
    /// The recorded processes.
    pub target: Target,
    /// On-CPU samples per second and CPU. 0 for none.
    pub sample_hz: u32,
    /// Stacks of threads that block, and of those that wake them.
    pub stacks: Stacks,
    /// Size of the main ring, all CPUs together.
    pub ring_bytes: u32,
    /// Whether every syscall is counted, throughout.
    pub syscalls: bool,
    /// Hardware counters read with samples, at most [`super::COUNTERS_MAX`].
    pub counters: Vec<Counter>,
    /// The library in the program that draws allocations (`preload/allocs.c`), if they are wanted.
    pub allocations: Option<PathBuf>,
    /// How functions of programs are probed.
    pub probes: ProbeForm,
}

impl Options {
    /// All programs that a recording may have, to check whether the kernel accepts them.
    pub(crate) fn everything() -> Options {
        Options {
            target: Target::Only(std::process::id()),
            sample_hz: 0,
            stacks: Stacks::All,
            ring_bytes: 4096,
            syscalls: true,
            counters: Vec::new(),
            allocations: Some(PathBuf::new()),
            probes: ProbeForm::Best,
        }
    }
}

/// The window in which stacks are rationed, as in `bpf/stacks.h`.
pub const STACK_WINDOW: std::time::Duration = std::time::Duration::from_millis(10);

/// How much of a stack [`Session::blocked_stacks`] copies at a time, as in `bpf/snapshot.h`.
pub const BLOCKED_STACK_BYTES: u32 = 30 * 1024;

/// Names of the streams of `enum wire_stream`, by number.
pub const STREAMS: [&str; 7] =
    ["sched", "cpu-samples", "definitions", "cpu-samples", "allocations", "page-faults", "runtime-probes"];

/// Index into [`STREAMS`] of the stream that is numbered in the main ring's ends.
const SCHED_STREAM: usize = 0;

/// Counts kept by the programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Records made, lost ones included, by stream.
    pub records: [u64; STREAMS.len()],
    /// Records lost because a ring was full, by stream.
    pub lost: [u64; STREAMS.len()],
}

/// A running recording. Dropping it detaches everything, and so does the death of this process.
pub struct Session {
    /// Until the recording begins.
    events: Events,
    sampler: Option<Sampler>,
    entry: Option<Trial>,
    interruption: Option<Trial>,
    counting: Option<OpenCounters>,
    counters_missing: String,
    faults: FaultDraws,
    links: Vec<Link>,
    timers: Vec<Link>,
    /// The programs at each timer were detached, because the bookkeeping of every CPU was known.
    timers_settled: bool,
    cpus: Vec<u16>,
    uprobes: Uprobes,
    spans: SpanProbes,
    tasks: TaskProbes,
    window: Option<Window>,
    records: SlotRing,
    definitions: Ring,
    missing: Vec<MissingSource>,
    allocations_missing: String,
    faults_missing: String,
    options: Options,
    stack_generation: u32,
    loaded: Loaded,
}

const DEFINITIONS_BYTES: usize = 8 << 20;

impl Session {
    /// Loads the programs. Recording starts with [`Session::begin`]. Only probes on the program's memory
    /// management record before, because they need a privilege that is dropped before the start. Perf events
    /// are opened here, too, since some kernels allow that only with CAP_SYS_ADMIN.
    pub fn load(options: &Options) -> Result<Session, CaptureError> {
        if !is_in_first_pid_namespace() {
            return Err(CaptureError::Refused { reason: OTHER_NUMBERS.to_owned() });
        }
        let layout = Layout::of_machine(options.ring_bytes);
        let loaded = loading::load(options, layout)?;
        let object = &loaded.object;
        if let Target::Process(tgid) | Target::Only(tgid) = options.target {
            programs::add_target(object, tgid)?;
        }
        let ring = |name: &str, bytes: usize| {
            let map = object.maps().find(|map| map.name() == name);
            Ring::open(map.ok_or(CaptureError::Refused { reason: format!("no map {name}") })?.as_fd(), bytes)
        };
        let cpus = crate::host::online_cpus();
        let records = SlotRing::open(object, layout, &cpus)?;
        let definitions = ring("definitions", DEFINITIONS_BYTES)?;
        let markers = options.allocations.as_ref().map(|library| programs::attach_markers(object, library));
        let (links, allocations_missing) = match markers.transpose() {
            Ok(links) => (links.unwrap_or_default(), String::new()),
            Err(error) => (Vec::new(), error.to_string()),
        };
        let events = Events::open(object, options)?;
        let uprobes = Uprobes::start(object);
        messages::take();
        Ok(Session {
            events,
            sampler: None,
            entry: None,
            interruption: None,
            counting: None,
            counters_missing: String::new(),
            faults: FaultDraws::default(),
            links,
            timers: Vec::new(),
            timers_settled: false,
            cpus,
            uprobes,
            spans: SpanProbes::default(),
            tasks: TaskProbes::default(),
            window: None,
            records,
            definitions,
            missing: Vec::new(),
            allocations_missing,
            faults_missing: String::new(),
            options: options.clone(),
            stack_generation: 0,
            loaded,
        })
    }

    /// Attaches the programs. From its return on, every event of the target is recorded.
    pub fn begin(&mut self) -> Result<(), CaptureError> {
        self.entry = entry::measure(&self.loaded.object);
        let mut attached = programs::attach(&self.loaded, &self.options)?;
        if self.entry.is_none() {
            let reason = "the cost of calling a program could not be measured";
            attached.lack(&sources::PROGRAM_CALLS, reason.to_owned());
        }
        self.links.extend(attached.links);
        (self.timers, self.missing) = (attached.timers, attached.missing);
        self.begin_events()?;
        if self.options.syscalls && !self.lacks("on_call_end") {
            self.links.push(programs::attach_one(&self.loaded.object, "on_call_end")?);
        }
        messages::take();
        Ok(())
    }

    /// Starts the events that [`Session::load`] opened.
    fn begin_events(&mut self) -> Result<(), CaptureError> {
        let events = std::mem::take(&mut self.events);
        self.interruption = events.interruption;
        match events.counting {
            Some(Ok(counting)) => self.counting = Some(counting),
            Some(Err(error)) => self.counters_missing = error.to_string(),
            None => {}
        }
        if let Some(clocks) = events.clocks.filter(|_| !self.lacks("on_sample")) {
            self.sampler = Some(clocks.attach(&self.loaded.object, "on_sample")?);
        }
        // Without it, page faults are counted all the same.
        let sampled = events.faults.map(|faults| {
            self.faults = faults?;
            self.faults.begin(&self.loaded.object)
        });
        if let Some(Err(error)) = sampled {
            self.faults_missing = format!("no stacks of page faults: {error}");
        }
        Ok(())
    }

    /// Detaches the programs at each timer once they have located on every CPU the kernel's own state of
    /// running timer handlers. From then on wakeups read that state. Call it now and then.
    pub fn settle(&mut self) {
        if !self.timers.is_empty() && self.records.knows_timers(&self.cpus) {
            self.timers.clear();
            self.timers_settled = true;
        }
    }

    /// Begins to sample CPUs that came online while recording: again, or for the first time. Returns them, and since when each was not
    /// sampled (no time at all where nothing is sampled). Call it now and then: it asks each CPU.
    pub fn sample_new_cpus(&mut self) -> Vec<NotSampled> {
        let online = crate::host::online_cpus();
        let hz = self.options.sample_hz;
        let again = match &mut self.sampler {
            Some(sampler) => sampler.begin_again(&self.loaded.object, hz, &online),
            None => sampler::came_online(&online, &self.cpus),
        };
        if online != self.cpus {
            self.follow_timers(&online);
            self.cpus = online;
        }
        if !again.is_empty() {
            self.follow_cpus(&again);
        }
        again
    }

    /// The programs at each timer are needed again until they have run on each CPU that is online for the first time.
    fn follow_timers(&mut self, online: &[u16]) {
        if self.timers_settled && !self.records.knows_timers(online) {
            self.timers = programs::attach_timers(&self.loaded.object);
            self.timers_settled = self.timers.is_empty();
        }
    }

    /// Opens the other events of these CPUs: page faults that read a disk, and hardware counters. Sampling windows of other faults open
    /// their own.
    fn follow_cpus(&mut self, again: &[NotSampled]) {
        if self.faults_missing.is_empty()
            && let Err(error) = self.faults.begin(&self.loaded.object)
        {
            self.faults_missing = format!("no stacks of page faults: {error}");
        }
        if let Some(counting) = &mut self.counting {
            let cpus: Vec<u16> = again.iter().map(|gap| gap.cpu).collect();
            // Refused: samples of these CPUs carry no counts, as on a CPU whose counters others use.
            let _ = counting.add(&self.loaded.object, &self.options.counters, &cpus);
        }
    }

    /// Makes one more process a target, with the children it starts from now on.
    pub fn add_target(&self, tgid: u32) -> Result<(), CaptureError> {
        programs::add_target(&self.loaded.object, tgid)
    }

    /// Where the walker of user stacks finds its tables. Once.
    pub fn unwind_tables(&self) -> Result<UnwindTables, CaptureError> {
        UnwindTables::open(&self.loaded.object)
    }

    /// Where the programs find which functions an interpreter runs.
    pub fn interpreter_tables(&self) -> Result<InterpreterTables, CaptureError> {
        InterpreterTables::open(&self.loaded.object)
    }

    /// Why user stacks are not recorded. Empty if they are.
    pub fn stacks_missing(&self) -> &str {
        &self.loaded.stacks_missing
    }

    /// A program is not loaded, although the recording would use it.
    fn lacks(&self, program: &str) -> bool {
        self.loaded.missing.iter().any(|missing| missing.name == program)
    }

    /// Why requested allocations are not recorded. Empty if they are.
    pub fn allocations_missing(&self) -> &str {
        &self.allocations_missing
    }

    /// Returns the parts of samples, or of their cost, that are missing, with one reason each. Call it before
    /// [`Session::detach`].
    pub fn samples_missing(&self) -> Vec<String> {
        const COST: &str =
            "what the clock's interruptions cost could not be tried out: it is not in the recording's cost";
        let cost = (self.options.sample_hz > 0 && self.interruption.is_none()).then(|| COST.to_owned());
        let new_cpus = self.sampler.iter().map(|sampler| sampler.missing().to_owned());
        cost.into_iter().chain(new_cpus).filter(|missing| !missing.is_empty()).collect()
    }

    /// Why requested hardware counters are not read. Empty if they are.
    pub fn counters_missing(&self) -> &str {
        &self.counters_missing
    }

    /// Why stacks of page faults are not recorded. Empty if they are.
    pub fn faults_missing(&self) -> &str {
        &self.faults_missing
    }

    /// Samples minor page faults with their stacks from now on, in a window, or not at all. Without on-CPU
    /// samples, faults are not sampled either.
    pub fn draw_faults(&mut self, window: Option<FaultWindow>) -> Result<(), CaptureError> {
        let wanted = self.options.sample_hz > 0 && self.faults_missing.is_empty();
        self.faults.set(&self.loaded.object, window.filter(|_| wanted))
    }

    /// Measures the slowdown of a minor page fault by sampling (ns). Sampling is off when it returns.
    pub fn fault_cost_ns(&mut self) -> Result<Option<f64>, CaptureError> {
        self.faults.cost_ns(&self.loaded.object)
    }

    /// By CPU, the minor page faults of all processes that sampling made slower so far.
    pub fn faults_counted(&self) -> BTreeMap<u16, u64> {
        self.faults.counted()
    }

    /// Sources that this recording lacks, each with the reason.
    pub fn missing(&self) -> &[MissingSource] {
        &self.missing
    }

    /// Passes on the pending definitions (names, thread starts and exits, stacks) and returns their number.
    /// Call it before [`Session::drain_records`], and merge both by time.
    pub fn drain_definitions(&mut self, sink: &mut dyn FnMut(&[u8])) -> usize {
        self.definitions.drain(sink)
    }

    /// Limits the next [`Session::drain_records`] to the records pending now. Later records may lack their
    /// definitions and stay.
    pub fn mark_records(&mut self) {
        self.records.mark();
    }

    /// Passes on the pending records (switches, wakeups, samples) and returns their number.
    pub fn drain_records(&mut self, sink: &mut dyn FnMut(&[u8])) -> usize {
        self.records.drain(sink)
    }

    /// Returns by CPU the number of its next switch or wakeup. Lower numbers that were not passed on were
    /// lost.
    pub fn next_numbers(&self) -> Vec<u32> {
        self.records.next_numbers().collect()
    }

    /// How full the fullest ring is, from 0 to 1: of the main ring that of the CPU that has the most waiting.
    pub fn fill(&self) -> f64 {
        self.records.fill().max(self.definitions.fill())
    }

    /// Can be read when definitions should be drained soon: a new program, or a ring that fills up.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.definitions.bell()
    }

    /// Passes on one `wire_snapshot` for each thread of the machine.
    pub fn snapshot(&mut self, sink: &mut dyn FnMut(&[u8])) -> Result<(), CaptureError> {
        const SNAPSHOT_BYTES: usize = 136;
        self.iterate("on_snapshot", SNAPSHOT_BYTES, sink)
    }

    /// Passes on one `wire_thread_counts` per thread of the targets. Passes on nothing if the kernel lacks
    /// the program.
    pub fn thread_counts(&self, sink: &mut dyn FnMut(&[u8])) -> Result<(), CaptureError> {
        const COUNTS_BYTES: usize = 48;
        if self.lacks("on_counts") {
            return Ok(());
        }
        self.iterate("on_counts", COUNTS_BYTES, sink)
    }

    /// Passes on every entry of the sums of `bpf/paging.h`: its key, and its value.
    pub fn paging(&self, sink: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), CaptureError> {
        calls::read(&self.loaded.object, "paging", &mut |key, values| {
            values.iter().for_each(|value| sink(key, value));
        })
    }

    /// Passes on one `wire_raw_stack` per blocked thread of the targets. Its id is the TID. It contains
    /// [`BLOCKED_STACK_BYTES`] from `skip` bytes after the stack pointer on, or less at the stack's end.
    /// Threads whose stack ends before are left out. Passes on nothing if the kernel lacks the program.
    pub fn blocked_stacks(&mut self, skip: u32, sink: &mut dyn FnMut(&[u8])) -> Result<(), CaptureError> {
        const STACK_BYTES: usize = 64 + BLOCKED_STACK_BYTES as usize;
        if self.lacks("on_blocked_stacks") {
            return Ok(());
        }
        let map = self.loaded.object.maps().find(|map| map.name() == "snapshot_skip");
        let told = map.map(|map| map.update(&0u32.to_ne_bytes(), &skip.to_ne_bytes(), MapFlags::ANY));
        match told {
            Some(Ok(())) => self.iterate("on_blocked_stacks", STACK_BYTES, sink),
            // Only the first part is available.
            _ if skip > 0 => Ok(()),
            _ => self.iterate("on_blocked_stacks", STACK_BYTES, sink),
        }
    }

    /// Runs an iterator program over all threads, which writes records of one size.
    fn iterate(
        &self,
        name: &str,
        record_bytes: usize,
        sink: &mut dyn FnMut(&[u8]),
    ) -> Result<(), CaptureError> {
        let program = self
            .loaded
            .object
            .progs_mut()
            .find(|program| program.name() == name)
            .ok_or_else(|| CaptureError::Refused { reason: format!("no program {name}") })?;
        let refused = |error| CaptureError::Refused { reason: messages::reason(&error) };
        let link = program.attach().map_err(refused)?;
        let mut iterator = Iter::new(&link).map_err(refused)?;
        let failed = |error| CaptureError::System { what: "reading the task iterator", error };
        // Record by record: all stacks of a big process at once would not fit a recorder's memory.
        let mut bytes = Vec::new();
        let mut part = vec![0; 64 << 10];
        loop {
            let read = iterator.read(&mut part).map_err(failed)?;
            bytes.extend_from_slice(part.get(..read).unwrap_or_default());
            let whole = bytes.len() / record_bytes * record_bytes;
            bytes.chunks_exact(record_bytes).for_each(&mut *sink);
            bytes.drain(..whole);
            if read == 0 {
                return Ok(());
            }
        }
    }

    /// How many stacks a CPU may take in [`STACK_WINDOW`]: of threads that block, and of wakers.
    pub fn allow_stacks(&self, per_window: [u32; 2]) {
        let Some(map) = self.loaded.object.maps().find(|map| map.name() == "stack_budget") else { return };
        for (draw, number) in (0u32..).zip(per_window) {
            // A refused update leaves the budget that was.
            let _ = map.update(&draw.to_ne_bytes(), &number.max(1).to_ne_bytes(), MapFlags::ANY);
        }
    }

    /// From now on every stack is recorded again, under a new id.
    pub fn restart_stacks(&mut self) -> Result<(), CaptureError> {
        let refused = |reason: String| CaptureError::Refused { reason };
        let map = self.loaded.object.maps().find(|map| map.name().to_string_lossy().contains("generation"));
        let map = map.ok_or_else(|| refused("no map of the stacks' generation".to_owned()))?;
        self.stack_generation = self.stack_generation.wrapping_add(1);
        map.update(&0u32.to_ne_bytes(), &self.stack_generation.to_ne_bytes(), MapFlags::ANY)
            .map_err(|error| refused(messages::reason(&error)))
    }

    /// Measures the slowdown of a syscall by counting. `None` if this kernel cannot count syscalls.
    pub fn syscall_cost(&self) -> Result<Option<CallCost>, CaptureError> {
        if self.lacks("on_call_end") {
            return Ok(None);
        }
        syscall_windows::cost_of_a_call(&self.loaded.object).map(Some)
    }

    /// Counts the target's syscalls from now on. Returns the start (ns of CLOCK_MONOTONIC). `None` if the
    /// start is unknown, and then counting is off. [`Session::close_syscall_window`] ends the window.
    pub fn open_syscall_window(&mut self) -> Result<Option<u64>, CaptureError> {
        self.window = None;
        self.window = Window::open(&self.loaded.object)?;
        Ok(self.window.as_ref().map(Window::start_ns))
    }

    /// Ends the open window and returns its counts. `None` without an open window, or if its end is unknown.
    pub fn close_syscall_window(&mut self) -> Result<Option<SyscallCounts>, CaptureError> {
        self.window.take().map_or(Ok(None), |window| window.close(&self.loaded.object))
    }

    /// Where [`Options::syscalls`] is set: counts them from now on, or from the next program on.
    pub fn count_calls(&self, from: CountFrom) -> Result<(), CaptureError> {
        calls::open(&self.loaded.object, from)
    }

    /// Passes every entry of one of [`super::CALL_MAPS`] to `sink`, or of a map with the layout of the last
    /// one. An entry is the key, and the value on each CPU or the only value.
    pub fn calls(&self, map: &str, sink: &mut EntrySink<'_>) -> Result<(), CaptureError> {
        calls::read(&self.loaded.object, map, sink)
    }

    /// Mean time of a trivial syscall of this process (ns). It grows when programs are attached to syscalls.
    pub fn time_of_a_call_ns(&self) -> f64 {
        syscall_windows::fastest_call_ns()
    }

    /// Shootdowns that were not counted for want of room.
    pub fn paging_uncounted(&self) -> u64 {
        per_cpu(&self.loaded.object).iter().map(|cpu| number(cpu, PAGING_UNCOUNTED_AT, 8)).sum()
    }

    /// Calls that were not counted for want of room.
    pub fn calls_uncounted(&self) -> u64 {
        per_cpu(&self.loaded.object).iter().map(|cpu| number(cpu, UNCOUNTED_AT, 8)).sum()
    }

    /// Records hits of a place from now on.
    ///
    /// # Errors
    /// If the probe cannot be set, with the reason.
    pub fn arm_place(&mut self, at: &SpanPlace<'_>) -> Result<(), CaptureError> {
        self.spans.arm(&self.loaded.object, &self.uprobes, at)
    }

    /// Takes the probe of a process's place away.
    pub fn disarm_place(&mut self, tgid: u32, place: u32) {
        self.spans.disarm(&self.loaded.object, (tgid, place));
    }

    /// Removes all probes of a process that has exited.
    pub fn forget_places(&mut self, tgid: u32) {
        self.spans.forget(&self.loaded.object, tgid);
    }

    /// Whether many probes of processes that exited are still being removed. New probes would delay the recorder's
    /// end.
    pub fn are_many_probes_being_removed(&self) -> bool {
        self.uprobes.are_many_being_removed()
    }

    /// Records from now on how long tasks of a process wait for locks.
    ///
    /// # Errors
    /// If the probes cannot be set, with the reason.
    pub fn arm_tasks(&mut self, at: &TaskPlaces<'_>) -> Result<(), CaptureError> {
        self.tasks.arm(&self.loaded.object, &self.uprobes, at)
    }

    /// Whether probes on a process's tasks are still being removed: [`Session::arm_tasks`] would wait for that.
    pub fn are_tasks_being_removed(&self, tgid: u32) -> bool {
        self.tasks.are_being_removed(&self.uprobes, tgid)
    }

    /// Removes the probes on a process's tasks. Returns the waiting tasks.
    pub fn disarm_tasks(&mut self, tgid: u32) -> Vec<Waiting> {
        self.tasks.disarm(&self.loaded.object, tgid)
    }

    /// Stops the programs. Records that wait can still be drained.
    pub fn detach(&mut self) {
        self.sampler = None;
        self.counting = None;
        self.faults = FaultDraws::default();
        self.window = None;
        self.spans.clear(&self.loaded.object);
        self.tasks.clear(&self.loaded.object);
        self.timers.clear();
        self.links.clear();
    }

    /// Returns the events recorded and lost so far.
    pub fn counters(&self) -> Counters {
        let mut counters = counters(&self.loaded.object);
        counters.records[SCHED_STREAM] = self.records.numbered();
        counters
    }

    /// Runs of programs that the kernel skipped, by source. They are of all processes, not only of targets.
    pub fn skipped_runs(&self) -> Vec<Skipped> {
        programs::skipped_runs(&self.loaded.object)
    }

    /// CPU time of the programs so far, and of the clock that interrupts the target for samples.
    pub fn cost(&self) -> ProbeCost {
        let cpus = per_cpu(&self.loaded.object);
        let probes = std::array::from_fn(|probe| time_of(&cpus, probe));
        let entries = self.entry.unwrap_or_default().times(probe_cost::calls(&probes));
        let interruptions = self.interruption.unwrap_or_default().times(probes[SAMPLE_PROBE].runs);
        probe_cost::estimate(&probes).and(entries).and(interruptions)
    }
}

/// Where `struct per_cpu` (`bpf/common.h`) has its counts of lost records and its times.
const LOST_AT: usize = 32;
const PROBES_AT: usize = 160;
const UNCOUNTED_AT: usize = PROBES_AT + PROBES * 32 + 16;
const PAGING_UNCOUNTED_AT: usize = UNCOUNTED_AT + 8;

/// `struct per_cpu` of every CPU, as bytes.
fn per_cpu(object: &Object) -> Vec<Vec<u8>> {
    let Some(map) = object.maps().find(|map| map.name() == "cpus") else { return Vec::new() };
    map.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY).ok().flatten().unwrap_or_default()
}

/// CPU time of one of the programs so far, on all CPUs.
pub(super) fn probe_time(object: &Object, probe: usize) -> ProbeTime {
    time_of(&per_cpu(object), probe)
}

fn time_of(cpus: &[Vec<u8>], probe: usize) -> ProbeTime {
    let mut sum = ProbeTime::default();
    for cpu in cpus {
        let word = |at: usize| number(cpu, PROBES_AT + probe * 32 + at * 8, 8);
        sum.runs += word(0);
        sum.timed_runs += word(1);
        sum.timed_ns += word(2);
        sum.timed_sq_ns2 += word(3);
    }
    sum
}

fn counters(object: &Object) -> Counters {
    let mut counters = Counters::default();
    for cpu in per_cpu(object) {
        for (stream, (records, lost)) in counters.records.iter_mut().zip(&mut counters.lost).enumerate() {
            *records += number(&cpu, stream * 4, 4);
            *lost += number(&cpu, LOST_AT + stream * 8, 8);
        }
    }
    counters
}

/// A little-endian field.
pub(super) fn number(bytes: &[u8], at: usize, width: usize) -> u64 {
    let field = bytes.get(at..at + width).unwrap_or_default();
    field.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}
