//! The best backend: the loop that drains BPF's rings into the journal.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use holdup_capture::bpf::{Counters, Options, ProbeCost, ProbeForm, STREAMS, Session, Stacks, Target};
use holdup_capture::lower::procfs;
use holdup_capture::mappings::{MappingFeed, read_maps};
use holdup_capture::{host, launch, lower, privileges, sources};
use holdup_decode::wire::WireDecoder;
use holdup_events::event::{LifecycleChange, SnapshotState};
use holdup_events::recording::{Cost, SourceState};
use holdup_events::{CpuId, Event, Loss, Timestamp};

use super::allocations::Sampler;
use super::budget::Budget;
use super::calls::Calls;
use super::exited::Gone;
use super::fault_windows::FaultWindows;
use super::hardware::Counting;
use super::kernel_counts::KernelCounts;
use super::launcher::Launcher;
use super::limits::GroupLimits;
use super::line_watch::LineWatch;
use super::naps::{Found, Naps};
use super::returned_cpus::{self, ReturnedCpus};
use super::roots::Roots;
use super::runtime_events::RingFeed;
use super::runtime_names::RuntimeNames;
use super::skipped_runs;
use super::span_probes::SpanProbes;
use super::stack_tables::StackTables;
use super::syscall_windows::SyscallWindows;
use super::waited_names::WaitedNames;
use super::{Other, Outcome, Output, Recorder, Subject, Tally, Watched};
use crate::cli::StackChoice;

/// A ring that is so full is drained again without a pause.
const FILL_TO_GO_ON: f64 = 1.0 / 64.0;
/// Looks for processes below an attached one, until no more are found.
const TREE_PASSES_MAX: u32 = 5;
const FLUSH_EVERY: Duration = Duration::from_millis(250);
/// A drain longer than this is repeated. Records that are late by this time, plus four times as much, still
/// stay in order in a live view ([`holdup_decode::reorder::HORIZON`]).
const KEPT_LONG: Duration = Duration::from_millis(200);
/// Where each drain takes as long, all of them are this process's own work.
const DRAINS_MAX: u32 = 4;

/// Everything that one recording needs while it runs.
pub(super) struct Loop {
    pub(super) session: Session,
    pub(super) decoder: WireDecoder,
    pub(super) mappings: Option<MappingFeed>,
    pub(super) stack_tables: StackTables,
    pub(super) span_probes: SpanProbes,
    line_watch: LineWatch,
    runtime_names: RuntimeNames,
    targets: BTreeSet<u32>,
    launcher: Launcher,
    /// Processes that ran before the recording and belong to it.
    taken: BTreeSet<u32>,
    pub(super) roots: Roots,
    pub(super) journal: Output,
    pub(super) tally: Tally,
    bad_records: u64,
    syscalls: SyscallWindows,
    calls: Calls,
    waited_names: WaitedNames,
    gone: Gone,
    limits: GroupLimits,
    pub(super) counts: KernelCounts,
    faults: FaultWindows,
    returned: ReturnedCpus,
    /// Note on the source of allocations: whether it was requested, and why it has no samples.
    allocations: Option<String>,
    counting: Counting,
    rings: RingFeed,
    /// CPU time that the recording may use (percent of all CPUs). 0 if stacks are not sampled to stay within
    /// it.
    pub(super) budget_percent: f64,
    /// See [`Loop::keep_up`].
    urgent: bool,
    /// All that came before was drained.
    pub(super) drained: Timestamp,
}

/// A smaller kernel buffer loses events of a usual program.
const BUFFER_BYTES_MIN: u32 = 4 << 20;

/// [`open`] with a smaller kernel buffer where memory is limited (a cgroup): the buffer takes most of it.
fn open_in_memory(options: &mut Options) -> Result<(Session, std::io::Result<MappingFeed>)> {
    let wanted_mib = options.ring_bytes >> 20;
    loop {
        let error = match open(options) {
            Ok(opened) => {
                let buffer_mib = options.ring_bytes >> 20;
                if buffer_mib < wanted_mib {
                    say!(
                        "holdup: no memory for a kernel buffer of {wanted_mib} MiB; recording with {buffer_mib} MiB \
                         (remedy: raise the memory limit of the cgroup)"
                    );
                }
                return Ok(opened);
            }
            Err(error) => error,
        };
        let is_memory = format!("{error:#}").contains("(os error 12)");
        if !is_memory {
            return Err(error);
        }
        if options.ring_bytes / 2 < BUFFER_BYTES_MIN {
            return Err(error.context(format!(
                "no memory for a kernel buffer of {} MiB (remedy: raise the memory limit of the cgroup)",
                options.ring_bytes >> 20
            )));
        }
        options.ring_bytes /= 2;
    }
}

/// Takes what needs rights, and gives these up.
fn open(options: &Options) -> Result<(Session, std::io::Result<MappingFeed>)> {
    host::raise_descriptor_limit();
    let mappings = MappingFeed::open(&host::online_cpus());
    let session = Session::load(options)?;
    privileges::raise_priority();
    // Before any thread is started: capabilities are a thread's own.
    privileges::drop_unneeded()?;
    Ok((session, mappings))
}

/// A recording with attached BPF programs. The recorded program does not run yet.
pub struct Ready {
    recording: Loop,
    budget: Budget,
    length: Option<Duration>,
    start_ns: u64,
    mappings_missing: String,
}

/// Loads and attaches everything. All fallible steps happen here, before the program runs.
///
/// # Errors
/// If the kernel refuses a step. Everything already set up is removed.
pub fn prepare(subject: &Subject, recorder: Recorder) -> Result<Ready> {
    let counting = Counting::choose(&recorder.options);
    let mut options = options(subject, &recorder, &counting);
    let (session, mappings) = open_in_memory(&mut options)?;
    let mappings_missing = mappings.as_ref().err().map(ToString::to_string).unwrap_or_default();
    let stack_tables = StackTables::start(session.unwind_tables()?)?;
    let (span_probes, mut decoder) = SpanProbes::start(&recorder.descriptors)?;
    decoder.hardware().know(&counting.names());
    let cpus = host::online_cpus().len();
    let roots = Roots::default();
    let mut recording = Loop {
        // Where all are counted there is nothing to extrapolate.
        syscalls: SyscallWindows::new(if options.syscalls { 0.0 } else { recorder.options.budget }, cpus),
        calls: Calls::new(options.syscalls, &session),
        waited_names: WaitedNames::default(),
        gone: Gone::default(),
        limits: GroupLimits::default(),
        counts: KernelCounts::open(root_pid(subject)),
        faults: FaultWindows::new(recorder.options.budget),
        returned: ReturnedCpus::default(),
        allocations: recorder.allocations.as_ref().map(|sampler| sampler.missing().to_owned()),
        counting,
        rings: RingFeed::new(recorder.rings, !matches!(subject, Subject::Run(..)), lower::now()),
        runtime_names: RuntimeNames::new(roots.runtime_names.clone(), Some(session.interpreter_tables()?)),
        session,
        stack_tables,
        span_probes,
        line_watch: LineWatch::start(recorder.options.budget, cpus, roots.generated.clone())?,
        decoder,
        mappings: mappings.ok(),
        targets: BTreeSet::new(),
        launcher: Launcher::new(held_pid(subject)),
        taken: BTreeSet::new(),
        roots,
        journal: recorder.journal,
        tally: Tally::default(),
        bad_records: 0,
        budget_percent: match options.stacks {
            Stacks::All => 0.0,
            Stacks::Budgeted | Stacks::None => recorder.options.budget,
        },
        urgent: false,
        drained: Timestamp(0),
    };
    recording.know_mappings(subject)?;
    recording.expect(programs(recorder.program.as_deref(), recorder.allocations.as_deref()));
    let budget = Budget::new(recorder.options.budget, cpus);
    recording.session.allow_stacks(budget.first());
    recording.session.begin()?;
    recording.take_descendants(subject)?;
    recording.syscalls.prepare(&recording.session);
    recording.snapshot(!matches!(recorder.options.stacks, StackChoice::None))?;
    let start_ns = lower::now().0;
    recording.rings.begin(Timestamp(start_ns));
    recording.counts.begin(&recording.session, &mut recording.decoder);
    recording.calls.begin(&recording.session, matches!(subject, Subject::Run(..)));
    recording.faults.begin(&mut recording.session);
    // What may fail comes before: once the program runs, it is followed to its end.
    recording.begin_at(Timestamp(start_ns))?;
    Ok(Ready { recording, budget, length: recorder.length, start_ns, mappings_missing })
}

impl Ready {
    /// Records until the end.
    ///
    /// # Errors
    /// The program cannot be run.
    pub fn run(self, subject: Subject) -> Result<Outcome> {
        let Ready { mut recording, mut budget, length, start_ns, mappings_missing } = self;
        let mut watched = let_go(subject)?;
        let start_ns = watched.released().map_or(start_ns, |released| released.0);
        recording.restart_at(Timestamp(start_ns));
        recording.syscalls.begin(&recording.session);
        let before = super::own_cost();
        let left = super::start_clock(length);
        let ending = recording.run(&mut watched, &left, &mut budget);
        let outcome = recording.finish(start_ns, ending, (&before, &mappings_missing));
        let ending = outcome.ending.or_else(|| watched.wait());
        Ok(Outcome { ending, memory: watched.memory(), ..outcome })
    }
}

/// Files that will be mapped: the program and the library that samples allocations.
fn programs<'a>(
    program: Option<&'a OsStr>,
    allocations: Option<&'a Sampler>,
) -> impl Iterator<Item = &'a OsStr> {
    let library = allocations.and_then(Sampler::library);
    program.into_iter().chain(library.map(|library| library.as_os_str()))
}

/// Starts the command. A recording of other processes ends by signals to this process.
fn let_go(subject: Subject) -> Result<Watched> {
    let watched = match subject {
        Subject::Run(held, _) => return Ok(Watched::Child(held.release()?)),
        Subject::Attach { pid, .. } => Watched::Process(Other::new(pid)),
        Subject::All => Watched::Machine,
    };
    launch::watch_signals()?;
    Ok(watched)
}

/// The process that is started, which holdup's own program still is.
fn held_pid(subject: &Subject) -> Option<u32> {
    match subject {
        Subject::Run(held, _) => Some(held.pid()),
        _ => None,
    }
}

/// The process with which it begins.
fn root_pid(subject: &Subject) -> Option<u32> {
    match subject {
        Subject::Run(held, _) => Some(held.pid()),
        Subject::Attach { pid, .. } => Some(*pid),
        Subject::All => None,
    }
}

/// Returns the options of the BPF programs.
fn options(subject: &Subject, recorder: &Recorder, counting: &Counting) -> Options {
    Options {
        target: match subject {
            Subject::Run(held, _) => Target::Process(held.pid()),
            Subject::Attach { pid, only: false } => Target::Process(*pid),
            Subject::Attach { pid, only: true } => Target::Only(*pid),
            Subject::All => Target::All,
        },
        sample_hz: recorder.options.freq,
        stacks: match recorder.options.stacks {
            StackChoice::All => Stacks::All,
            StackChoice::Sampled => Stacks::Budgeted,
            StackChoice::None => Stacks::None,
        },
        ring_bytes: recorder.options.buffer << 20,
        syscalls: recorder.options.syscalls,
        counters: counting.counters.clone(),
        allocations: recorder.allocations.as_ref().and_then(|sampler| sampler.library().map(Path::to_owned)),
        probes: ProbeForm::Best,
    }
}

impl Loop {
    /// Reads the targets' existing mappings. A held child still has our own image. Its exec will report its
    /// mappings.
    fn know_mappings(&mut self, subject: &Subject) -> Result<()> {
        let pids: Vec<u32> = match subject {
            Subject::Run(..) => Vec::new(),
            Subject::Attach { pid, .. } => vec![*pid],
            Subject::All => std::fs::read_dir("/proc")
                .into_iter()
                .flatten()
                .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
                .collect(),
        };
        pids.into_iter().for_each(|pid| self.know_process(pid));
        self.pass_changed_mappings();
        self.take_descendants(subject)
    }

    fn know_process(&mut self, pid: u32) {
        let known = read_maps(pid);
        if !known.is_empty() {
            self.roots.note(pid);
        }
        if let Some(feed) = &mut self.mappings {
            feed.add_known(&known);
        }
        known.into_iter().for_each(|mapping| self.journal.push(&Event::Mapping(mapping)));
    }

    /// Adds the existing descendants of an attached process to the targets. Called before the BPF programs
    /// see forks, and again afterwards, so that none is missed.
    fn take_descendants(&mut self, subject: &Subject) -> Result<()> {
        let Subject::Attach { pid, only: false } = subject else { return Ok(()) };
        for _ in 0..TREE_PASSES_MAX {
            let tree = procfs::process_tree(*pid);
            let fresh: Vec<u32> = tree.into_iter().filter(|tgid| self.taken.insert(*tgid)).collect();
            if fresh.is_empty() {
                break;
            }
            for tgid in fresh.into_iter().filter(|tgid| tgid != pid) {
                self.session.add_target(tgid)?;
                self.know_process(tgid);
            }
        }
        self.pass_changed_mappings();
        Ok(())
    }

    fn run(
        &mut self,
        watched: &mut Watched,
        left: &dyn Fn() -> Duration,
        budget: &mut Budget,
    ) -> Option<launch::Ending> {
        let mut flushed = Instant::now();
        let mut mapped = Instant::now();
        let mut naps = Naps::default();
        budget.begin(self.probe_cost(), super::own_cost().recorder_cpu_ns);
        loop {
            let ended = watched.ended();
            let fill = self.session.fill();
            self.keep_up(fill);
            self.drain_to_now();
            self.session.settle();
            self.span_probes
                .step(&mut self.session, &mut self.decoder, &mut |event| self.journal.push(&event));
            self.line_watch.step(&mut |event| self.journal.push(&event));
            self.rings.step(&self.targets, &mut |event| self.journal.push(&event));
            self.syscalls.step(&mut self.session, &mut |event| self.journal.push(&event));
            self.faults.step(&mut self.session);
            self.calls.step(&self.session, &mut |event| self.journal.push(&event));
            self.waited_names.step(&self.session, &mut |event| self.journal.push(&event));
            self.gone.step(&mut self.targets);
            self.limits.step(&self.targets, &mut |event| self.journal.push(&event));
            self.counts.step(&self.session, &mut self.decoder, &mut |event| self.journal.push(&event));
            let Loop { session, mappings, targets, journal, .. } = self;
            self.returned.step(session, mappings.as_mut(), targets, &mut |event| journal.push(&event));
            let changed = self.pass_changed_mappings();
            if changed {
                mapped = Instant::now();
            }
            if let Some(ending) = ended {
                return ending;
            }
            if left().is_zero() || watched.stopped() || !self.step_flight() {
                return None;
            }
            if budget.is_due() {
                let spent = super::own_cost().recorder_cpu_ns;
                self.session.allow_stacks(budget.adjust(self.probe_cost(), spent));
                self.syscalls.allow(budget.left());
            }
            if flushed.elapsed() >= FLUSH_EVERY {
                self.journal.flush();
                flushed = Instant::now();
            }
            let found = Found { fill, since_mapped: mapped.elapsed(), runtimes: self.rings.fill() };
            let nap = naps.next(found).min(left());
            if self.session.fill() < FILL_TO_GO_ON {
                self.nap(watched, nap);
            }
        }
    }

    /// Returns the cost of the BPF programs so far, including the work per page fault.
    pub(super) fn probe_cost(&self) -> ProbeCost {
        let probes = self.session.cost();
        ProbeCost { total_ns: probes.total_ns + self.faults.cost_ns(&self.session), ..probes }
    }

    /// Sleeps until there is something to do.
    fn nap(&self, watched: &Watched, nap: Duration) {
        watched.pause(self.faults.pause(self.syscalls.pause(nap)), Some(self.session.bell()));
    }

    /// Files that are about to be mapped.
    fn expect<'a>(&mut self, files: impl Iterator<Item = &'a OsStr>) {
        files.for_each(|file| self.stack_tables.expect(file));
        self.stack_tables.flush();
    }

    /// Runs before everybody while the ring is filling up, until it is nearly empty.
    fn keep_up(&mut self, fill: f64) {
        let urgent = fill > if self.urgent { 1.0 / 32.0 } else { 0.25 };
        if urgent != self.urgent {
            self.urgent = urgent;
            privileges::run_at_once(urgent);
        }
    }

    /// Passes changed mappings on. Returns whether there were any.
    fn pass_changed_mappings(&mut self) -> bool {
        let changed = self.mappings.as_mut().map(MappingFeed::take_changed).unwrap_or_default();
        let any = !changed.is_empty();
        for (tgid, mappings) in changed {
            self.span_probes.process(tgid, &mappings);
            self.line_watch.process(tgid, &mappings);
            self.runtime_names.process(tgid, &mappings);
            self.stack_tables.process(tgid, mappings);
        }
        any
    }

    /// Drains the rings up to now, so that earlier records precede a following snapshot. This holds even if
    /// this process was preempted while it drained.
    pub(super) fn drain_to_now(&mut self) {
        for _ in 0..DRAINS_MAX {
            let begun = Instant::now();
            self.drained = lower::now();
            self.drain();
            if begun.elapsed() < KEPT_LONG {
                break;
            }
        }
    }

    /// Drains the rings. Definitions and mappings are rare and have rings of their own. They are merged into
    /// the records by time, so that the journal stays nearly sorted even if the recorder was preempted for
    /// long.
    fn drain(&mut self) -> usize {
        let Loop {
            session,
            decoder,
            mappings,
            line_watch,
            runtime_names,
            targets,
            launcher,
            roots,
            journal,
            tally,
            bad_records,
            ..
        } = self;
        let mut early = Vec::new();
        // Records from now on may precede their definitions.
        session.mark_records();
        let mut drained = session.drain_definitions(&mut |record| {
            let taken = decoder.decode(record, &mut |mut event| {
                note_target(targets, &event);
                tally.threads += u64::from(is_birth(&event));
                line_watch.note(&event);
                runtime_names.note(&event);
                if launcher.pass(&mut event) {
                    early.push(event);
                }
            });
            *bad_records += u64::from(taken.is_err());
        });
        if let Some(feed) = mappings {
            feed.drain(&|tgid| targets.contains(&tgid), &mut |event| early.push(event));
            early.extend(feed.catch_up_missed(targets.iter().copied()).into_iter().map(Event::Mapping));
        }
        let mapped = early.iter().filter_map(|event| match event {
            Event::Mapping(mapping) => Some(mapping.tgid),
            _ => None,
        });
        mapped.collect::<BTreeSet<u32>>().into_iter().for_each(|pid| roots.note(pid));
        early.sort_by_key(Event::at);
        let mut early = early.into_iter().peekable();
        drained += session.drain_records(&mut |record| {
            let taken = decoder.decode_seen(record, &mut |event| {
                // Peeks at each record: an earlier event is almost never pending.
                while early.peek().is_some_and(|earlier| earlier.at() <= event.at())
                    && let Some(earlier) = early.next()
                {
                    journal.push(&earlier);
                }
                tally.count(event);
                journal.push(event);
            });
            *bad_records += u64::from(taken.is_err());
        });
        early.for_each(|event| journal.push(&event));
        drained
    }

    /// Records the state of every thread. `with_stacks`: also the stacks of threads that are blocked already.
    pub(super) fn snapshot(&mut self, with_stacks: bool) -> Result<()> {
        let Loop { session, decoder, targets, launcher, journal, bad_records, .. } = self;
        let mut stacks = BTreeSet::new();
        if with_stacks {
            *bad_records += super::blocked::stacks(session, decoder, &mut |mut event| {
                if !launcher.pass(&mut event) {
                    return;
                }
                if let Event::Stack(stack) = &event {
                    stacks.insert(stack.id);
                }
                journal.push(&event);
            })?;
        }
        let (mut threads, mut found) = (Vec::new(), 0);
        session.snapshot(&mut |record| {
            let taken = decoder.decode(record, &mut |mut event| {
                note_target(targets, &event);
                found += u64::from(is_target(&event));
                give_stack(&mut event, &stacks);
                threads.push(event);
            });
            *bad_records += u64::from(taken.is_err());
        })?;
        threads.into_iter().for_each(|event| journal.push(&decoder.with_outer_tids(event)));
        // Those of a later one were born before it, or found by the first one.
        if self.tally.threads == 0 {
            self.tally.threads = found;
        }
        Ok(())
    }

    fn finish(
        mut self,
        start_ns: u64,
        ending: Option<launch::Ending>,
        (before, mappings_missing): (&Cost, &str),
    ) -> Outcome {
        let syscalls = self.syscalls.finish(&mut self.session, &mut |event| self.journal.push(&event));
        let runtime_names = self.runtime_names.finish();
        let line_watch = self.line_watch.finish(&mut |event| self.journal.push(&event));
        let unseen = self.snapshot(false).err();
        let counts =
            self.counts.finish(&self.session, &mut self.decoder, &mut |event| self.journal.push(&event));
        let Loop { session, mappings, targets, journal, .. } = &mut self;
        returned_cpus::look(session, mappings.as_mut(), targets, &mut |event| journal.push(&event));
        // Detaching takes up to 0.2 s on a busy machine, while programs are removed one by one. The recording
        // ends before that.
        let end_ns = lower::now().0;
        // Work after the end disturbs no thread of the recording.
        let before_end = super::cost_since(before);
        self.read_final_maps(Timestamp(end_ns));
        let (calls, calls_cpu_ns) =
            self.calls.finish(&self.session, Timestamp(end_ns), &mut |event| self.journal.push(&event));
        let samples_missing = self.session.samples_missing().join("; ");
        self.session.detach();
        while self.drain() > 0 {}
        // Rings were also reported during the detach.
        let rings =
            self.rings.finish((&self.targets, Timestamp(end_ns)), &mut |event| self.journal.push(&event));
        self.save_last(Timestamp(end_ns));
        let counters = self.session.counters();
        let cost = self.cost_until(&before_end, calls_cpu_ns);
        privileges::run_at_once(false);
        privileges::restore_priority();
        let (all, journal) = ((Timestamp(start_ns), Timestamp(end_ns)), &mut self.journal);
        self.decoder.emit_last_gaps(&self.session.next_numbers(), all, &mut |event| journal.push(&event));
        self.account_losses(&counters.lost, end_ns);
        self.journal.flush();
        let mut sources = recorded_streams(&counters);
        self.add_allocation_source(&mut sources);
        lacks(&mut sources, sources::CPU_SAMPLES, &[&samples_missing]);
        lacks(&mut sources, sources::PAGE_FAULTS, &[&counts, self.faults.missing()]);
        self.span_probes.finish(&mut sources, self.decoder.task_waits());
        let (untabled, files) = self.stack_tables.finish();
        self.roots.keep(files);
        sources.extend(unseen.map(|error| {
            source("last-snapshot", false, format!("what threads did in the end is less exact: {error:#}"))
        }));
        sources.push(source("mappings", self.mappings.is_some(), mappings_missing.to_owned()));
        sources.push(source("stack-tables", true, untabled.join("; ")));
        sources.extend(
            syscalls.into_iter().chain(calls).chain(self.counting.source(self.session.counters_missing())),
        );
        sources.extend(rings.into_iter().chain(line_watch).chain(runtime_names));
        add_missing_sources(&self.session, &mut sources);
        let (dropped, roots) = (self.journal.dropped().cloned(), std::mem::take(&mut self.roots));
        let lag_ns = self.journal.lag().0;
        self.journal.land();
        Outcome {
            start_ns,
            end_ns,
            threads_seen: self.tally.threads,
            lag_ns,
            ending,
            memory: None,
            cost,
            sources,
            dropped,
            roots,
        }
    }

    /// The cost of the recording. `recorder` is the recorder's part of it, and `calls_cpu_ns` that of counting syscalls.
    fn cost_until(&self, recorder: &Cost, calls_cpu_ns: u64) -> Cost {
        let probes = self.probe_cost();
        Cost {
            recorder_cpu_ns: recorder.recorder_cpu_ns,
            probes_cpu_ns: probes.total_ns as u64 + calls_cpu_ns,
            probes_cpu_error_ns: probes.error_ns as u64,
            stacks_cpu_ns: (probes.stacks_ns + probes.waker_stacks_ns) as u64,
            budget_percent: self.budget_percent,
            switches: self.tally.switches,
            ..super::own_cost()
        }
    }

    /// Reads the maps whose content is complete only at the end.
    fn read_final_maps(&mut self, end: Timestamp) {
        self.span_probes.end(&mut self.session, end, &mut |event| self.journal.push(&event));
        self.drain();
        self.waited_names.read(&self.session, end, &mut |event| self.journal.push(&event));
    }

    /// The stream of allocations is a source only where they are wanted.
    fn add_allocation_source(&self, sources: &mut Vec<SourceState>) {
        let name = sources::ALLOCATIONS;
        match &self.allocations {
            None => sources.retain(|source| source.name != name),
            Some(missing) => {
                let refused = self.session.allocations_missing();
                let missing = if missing.is_empty() { refused } else { missing };
                for source in sources.iter_mut().filter(|source| source.name == name) {
                    source.active = missing.is_empty();
                    missing.clone_into(&mut source.missing);
                }
            }
        }
    }

    /// Records lost after the last received one leave no gap in the numbering. They are taken from the
    /// kernel's own count.
    fn account_losses(&mut self, lost: &[u64; STREAMS.len()], end_ns: u64) {
        for ((name, lost), seen) in STREAMS.iter().zip(lost).zip(self.decoder.lost()) {
            let missing = lost.saturating_sub(seen);
            if missing > 0 {
                self.journal.push(&Event::Loss(loss_at_end(name, "ring-full", missing, end_ns)));
            }
        }
        for (name, skipped) in skipped_runs::other_events(&self.session) {
            self.journal.push(&Event::Loss(loss_at_end(name, Loss::SKIPPED, skipped, end_ns)));
        }
        if self.bad_records > 0 {
            self.journal.push(&Event::Loss(loss_at_end("records", "unreadable", self.bad_records, end_ns)));
        }
    }
}

fn source(name: &str, active: bool, missing: String) -> SourceState {
    SourceState { name: name.to_owned(), active, missing, ..SourceState::default() }
}

/// Returns the events received per source. One source may have two streams.
pub(super) fn recorded_streams(counters: &Counters) -> Vec<SourceState> {
    let mut sources: Vec<SourceState> = Vec::new();
    for ((name, records), lost) in STREAMS.iter().zip(counters.records).zip(counters.lost) {
        let events = records.saturating_sub(lost);
        match sources.iter_mut().find(|source| source.name == *name) {
            Some(source) => (source.events, source.lost) = (source.events + events, source.lost + lost),
            None => {
                let name = (*name).to_owned();
                sources.push(SourceState { name, active: true, events, lost, ..SourceState::default() });
            }
        }
    }
    sources
}

fn lacks(sources: &mut [SourceState], name: &str, missing: &[&str]) {
    let missing = missing.iter().filter(|text| !text.is_empty()).copied().collect::<Vec<_>>().join("; ");
    sources
        .iter_mut()
        .filter(|source| source.name == name)
        .for_each(|source| source.missing.clone_from(&missing));
}

/// The row of a source that is not recorded, or not in full.
fn not_recorded(sources: &mut Vec<SourceState>, name: &str, why: String) {
    match sources.iter_mut().find(|source| source.name == name) {
        Some(source) => {
            source.active &= source.events > 0;
            source.missing =
                if source.missing.is_empty() { why } else { format!("{}; {why}", source.missing) };
        }
        None => sources.push(source(name, false, why)),
    }
}

fn loss_at_end(source: &str, reason: &str, events: u64, end_ns: u64) -> Loss {
    Loss {
        source: source.to_owned(),
        reason: reason.to_owned(),
        cpu: CpuId::NONE,
        start: Timestamp(end_ns),
        end: Timestamp(end_ns),
        events,
    }
}

/// Stacks of threads that were blocked already have the thread's number for their id.
fn give_stack(event: &mut Event, stacks: &BTreeSet<u64>) {
    if let Event::Snapshot(snapshot) = event
        && let SnapshotState::Blocked(wait) = &mut snapshot.state
        && stacks.contains(&u64::from(snapshot.tid))
    {
        wait.stack = u64::from(snapshot.tid);
        wait.stack_every = 1;
    }
}

/// Adds the features that the kernel refused.
fn add_missing_sources(session: &Session, sources: &mut Vec<SourceState>) {
    let stacks = session.stacks_missing();
    if !stacks.is_empty() {
        sources.push(source("user-stacks", false, format!("{stacks}: no user stacks are recorded")));
    }
    for missing in session.missing() {
        let why = format!("{}: {}", missing.reason, missing.source.without);
        not_recorded(sources, missing.source.name, why);
    }
}

/// A thread of the program begins.
fn is_birth(event: &Event) -> bool {
    matches!(event, Event::Lifecycle(change) if change.target && matches!(change.change, LifecycleChange::Fork { .. }))
}

/// A thread of the program is there.
fn is_target(event: &Event) -> bool {
    matches!(event, Event::Snapshot(snapshot) if snapshot.target && snapshot.state != SnapshotState::Dead)
}

fn note_target(targets: &mut BTreeSet<u32>, event: &Event) {
    match event {
        Event::Lifecycle(change) if change.target && change.change != LifecycleChange::Exit => {
            targets.insert(change.tgid);
        }
        Event::Snapshot(snapshot) if snapshot.target && snapshot.state != SnapshotState::Dead => {
            targets.insert(snapshot.tgid);
        }
        _ => {}
    }
}
