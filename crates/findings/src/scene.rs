//! What rules judge by: the trace, its facts, and the measures that all rules share.

use std::collections::{BTreeMap, BTreeSet};

use holdup_events::recording::Backend;
use holdup_events::tables::{Slice, ThreadState};
use holdup_events::{Duration, ThreadId, Timestamp, Trace};

use crate::analysis::Derived;
use crate::charge::Charge;
use crate::derive::class::Class;
use crate::derive::cover::Cover;
use crate::derive::free_capacity;
use crate::derive::ledger::ThreadLedger;
use crate::derive::locks::LockUse;
use crate::derive::occupancy::Stall;
use crate::derive::own_places;
use crate::derive::parallel;
use crate::derive::syscall_names::syscall_name;
use crate::derive::timelines::Timelines;
use crate::derive::waited_files;
use crate::finding::{Confidence, Evidence, Gain};
use crate::wording::{count, percent};

/// The trace and its facts.
#[derive(Clone, Copy)]
pub struct Scene<'a> {
    /// The recording.
    pub trace: &'a Trace,
    /// Facts derived from the recording.
    pub derived: &'a Derived,
    /// The threads that ran on each CPU.
    pub timelines: &'a Timelines,
    confidence_max: Confidence,
}

/// Minimum gain of a finding, as a share of the wall time. Runs of the same program differ by as much.
pub const GAIN_MIN: f64 = 0.02;

/// A thread that ran or waited for less than this share of the wall time cannot be what the run's length
/// depends on throughout.
const ACTIVE_MIN: f64 = 0.05;

/// With more than this missing, a finding is a hint at most.
const LOSS_HINT: f64 = 0.02;
/// With more than this missing, a finding is likely at most.
const LOSS_LIKELY: f64 = 0.001;
/// With more thread time than this of unknown class, a finding is likely at most.
const UNKNOWN_LIKELY: f64 = 0.2;

/// Rows of evidence in a finding.
pub const EVIDENCE_MAX: usize = 10;

impl<'a> Scene<'a> {
    /// Limits the confidence by the share of lost events and of unknown time.
    pub fn new(trace: &'a Trace, derived: &'a Derived, timelines: &'a Timelines) -> Scene<'a> {
        let lost = loss_share(trace);
        let unknown = derived.ledger.class_ns(Class::Unknown) as f64 / derived.ledger.total_ns.max(1) as f64;
        let confidence_max = if lost > LOSS_HINT {
            Confidence::Low
        } else if lost > LOSS_LIKELY || unknown > UNKNOWN_LIKELY || trace.manifest.backend != Backend::Bpf {
            Confidence::Medium
        } else {
            Confidence::High
        };
        Scene { trace, derived, timelines, confidence_max }
    }

    /// `confidence`, or less where too much is missing.
    pub fn confidence(&self, confidence: Confidence) -> Confidence {
        confidence.min(self.confidence_max)
    }

    /// `ns` as a share of the wall time.
    pub fn of_wall(&self, ns: f64) -> f64 {
        ns / self.trace.wall().0.max(1) as f64
    }

    /// [`Scene::gain`] for waits that do not depend on CPUs. Other programs on these CPUs make the lower
    /// bound uncertain, but not the upper one.
    pub fn gain_whoever_ran(&self, stall: &Stall, saves: impl Fn(&ThreadLedger, f64) -> f64) -> Gain {
        Gain { high: self.of_wall(stall.saved_ns).clamp(0.0, 1.0), ..self.gain(stall, saves) }
    }

    /// `ns` as a share of all thread time.
    pub fn of_thread_time(&self, ns: u64) -> f64 {
        ns as f64 / self.derived.ledger.total_ns.max(1) as f64
    }

    /// Err if the recording does not contain wait reasons.
    pub fn needs_wait_reasons(&self) -> Result<(), String> {
        match self.trace.manifest.backend {
            Backend::Bpf => Ok(()),
            _ => Err("the recording does not contain wait reasons".to_owned()),
        }
    }

    /// Err if the recording does not see all that other programs did on the CPUs.
    pub fn needs_other_programs(&self) -> Result<(), String> {
        match self.trace.manifest.backend {
            Backend::Bpf => Ok(()),
            _ => Err("the recording does not contain the switches of other programs".to_owned()),
        }
    }

    /// Threads whose own running and `waited` time is a fair part of the run.
    pub fn active(&self, waited: impl Fn(ThreadId) -> f64) -> Vec<&'a ThreadLedger> {
        let enough = |thread: &&ThreadLedger| {
            self.of_wall(thread.running_ns() as f64 + waited(thread.thread)) >= ACTIVE_MIN
        };
        self.derived.ledger.threads.iter().filter(enough).collect()
    }

    /// The gain of ending a stall.
    ///
    /// - Upper bound: the waiting threads ran on the CPUs that were available, and the work was spread
    ///   evenly.
    /// - Lower bound: every active thread's course was shorter by `saves` of its own wait, and nothing else
    ///   changed. So it is 0 if an active thread does not wait.
    ///
    /// The lower bound counts idle CPUs only, because it is not known whether another program would release
    /// its CPU.
    pub fn gain(&self, stall: &Stall, saves: impl Fn(&ThreadLedger, f64) -> f64) -> Gain {
        let waited = |thread: ThreadId| stall.by_thread.get(&thread).copied().unwrap_or(0.0);
        let active = self.active(waited);
        let saved = active.iter().map(|thread| saves(thread, waited(thread.thread)));
        let low = saved.fold(f64::INFINITY, f64::min);
        // If the run is a single chain of thread activity, it becomes shorter by at most the removed waits.
        let all_ns: f64 = stall.by_thread.values().sum();
        let high = self.of_wall(stall.saved_ns.min(all_ns)).clamp(0.0, 1.0);
        let low = if low.is_finite() { self.of_wall(low * stall.idle_part()).clamp(0.0, high) } else { 0.0 };
        Gain { low, high }
    }

    /// The longest target slices that `matches`, as evidence.
    pub fn longest(
        &self,
        matches: impl Fn(&Slice) -> bool + Sync,
        note: impl Fn(&Slice) -> String,
    ) -> Vec<Evidence> {
        let groups = parallel::thread_groups(self.trace);
        let parts = parallel::map(groups.len(), |group| {
            let (mut best, mut enough) = (Vec::new(), Duration(0));
            let targets =
                groups[group].clone().map(ThreadId).filter(|id| self.trace.threads[id.index()].target);
            for slice in targets.flat_map(|thread| self.trace.slices.of_thread(thread)) {
                // To ask is dear, and most slices are too short to be among the longest.
                if slice.duration() >= enough && matches(&slice) {
                    enough = enough.max(add_longest(&mut best, slice));
                }
            }
            best
        });
        let mut best = parts.concat();
        keep_longest(&mut best);
        best.iter().map(|slice| evidence(slice, note(slice))).collect()
    }

    /// The saving if the charged slices' threads had run at the same time on CPUs that the program did not
    /// use.
    pub fn stall(&self, charge: &Charge) -> Stall {
        self.derived.occupancy.room.stall(self.trace, charge)
    }

    /// The saving if the charged slices did not delay the program at times when none of its threads was
    /// runnable.
    pub fn stall_quiet(&self, charge: &Charge) -> Stall {
        self.derived.occupancy.room.stall_quiet(self.trace, charge)
    }

    /// Share of the wall time that `ns` less of running in all would save at most.
    pub fn of_wall_if_run(&self, ns: f64) -> f64 {
        let running = self.derived.ledger.running_ns();
        self.of_wall(free_capacity::wall_of_running(&self.derived.parallelism, running, ns)).clamp(0.0, 1.0)
    }

    /// When at least one of these threads waited for a peer, a disk or a clock.
    pub fn outside(&self, threads: &BTreeSet<ThreadId>) -> Cover {
        let outside = [Class::NetWait, Class::IoWait, Class::Sleep, Class::PipeWait];
        let slices = threads.iter().flat_map(|thread| self.trace.slices.of_thread(*thread));
        let waits = slices.filter(|slice| self.class(slice).is_some_and(|class| outside.contains(&class)));
        Cover::from_spans(waits.map(|slice| (slice.start, slice.end)).collect())
    }

    /// The longest charged slices, as evidence.
    pub fn longest_of(&self, charge: &Charge, note: impl Fn(&Slice) -> String) -> Vec<Evidence> {
        let (mut best, mut enough) = (Vec::new(), Duration(0));
        for thread in self.trace.target_threads() {
            for (row, span) in charge.spans_of(self.trace, thread) {
                if span.end.since(span.start) >= enough {
                    enough = enough.max(add_longest(&mut best, self.trace.slices.at(thread, row)));
                }
            }
        }
        keep_longest(&mut best);
        best.iter().map(|slice| evidence(slice, note(slice))).collect()
    }

    /// The longest slices of each of two sets, half of the evidence each.
    pub fn longest_of_both(
        &self,
        first: (&Charge, &dyn Fn(&Slice) -> String),
        second: (&Charge, &dyn Fn(&Slice) -> String),
    ) -> Vec<Evidence> {
        let mut rows = self.longest_of(first.0, first.1);
        rows.truncate(EVIDENCE_MAX / 2);
        rows.extend(self.longest_of(second.0, second.1));
        rows.truncate(EVIDENCE_MAX);
        rows
    }

    /// A lock by its number in [`crate::derive::locks::LockIndex`].
    pub fn lock(&self, number: u32) -> Option<&LockUse> {
        let key = self.derived.occupancy.locks.locks.get(number as usize)?;
        self.derived.locks.iter().find(|lock| (lock.process, lock.object, lock.reason) == *key)
    }

    /// Every lock in the order of these numbers.
    pub fn locks(&self) -> Vec<Option<&'a LockUse>> {
        let known = self.derived.locks.iter().map(|lock| ((lock.process, lock.object, lock.reason), lock));
        let known: BTreeMap<_, &LockUse> = known.collect();
        self.derived.occupancy.locks.locks.iter().map(|key| known.get(key).copied()).collect()
    }

    /// Name of the lock.
    pub fn lock_name(&self, number: u32) -> String {
        self.lock(number).map_or("a lock".to_owned(), |lock| lock.name.clone())
    }

    /// The longest of these waits for a CPU, as evidence.
    pub fn longest_queues(&self, queues: &Charge) -> Vec<Evidence> {
        self.longest_of(queues, |slice| format!("{}, waits for CPU {}", slice.state.name(), slice.cpu.0))
    }

    /// All waits for a CPU that threads of the program (`own`) or others had, if only for a part.
    pub fn queues(&self, own: bool) -> Charge {
        Charge::of_rows(self.trace, |thread, take| {
            let mut cursors = vec![0; self.timelines.len()];
            for (row, slice) in self.trace.slices.rows(thread).zip(self.trace.slices.of_thread(thread)) {
                let cursor = cursors.get_mut(usize::from(slice.cpu.0));
                if cursor.is_some_and(|cursor| queues_behind(self.timelines, own, &slice, cursor)) {
                    take(row);
                }
            }
        })
    }

    /// Target threads' waits for the disk by syscall, the longest first.
    pub fn disk_waits(&self) -> Vec<DiskWaits> {
        let mut by_number: BTreeMap<i32, DiskWaits> = BTreeMap::new();
        let slices = self.trace.target_threads().flat_map(|thread| self.trace.slices.of_thread(thread));
        for slice in slices.filter(|slice| self.class(slice) == Some(Class::IoWait)) {
            let number = self.trace.wait(slice.wait).syscall;
            let sums = by_number.entry(number).or_insert(DiskWaits { number, waits: 0, ns: 0 });
            sums.waits += 1;
            sums.ns += slice.duration().0;
        }
        let mut calls: Vec<DiskWaits> = by_number.into_values().collect();
        calls.sort_by_key(|call| (std::cmp::Reverse(call.ns), call.number));
        calls
    }

    /// A sentence on the program's function that causes most of the waits that `matches`. `None` without
    /// stacks.
    pub fn waits_come_from(&self, matches: impl Fn(&Slice) -> bool + Sync) -> Option<String> {
        let places = own_places::waits(self.trace, matches);
        let (place, share) = places.first()?;
        let stacks = if self.trace.manifest.stacks == "all" { "" } else { ", by the sampled stacks" };
        Some(format!("{} of it comes from {place}{stacks}.", percent(*share)))
    }

    /// The same of the waits that are charged.
    pub fn charged_come_from(&self, charge: &Charge) -> Option<String> {
        self.waits_come_from(|slice| {
            self.trace.slices.covering(slice.thread, slice.start).is_some_and(|row| charge.has(row))
        })
    }

    /// A sentence on the file that causes most of the waits that `matches`. `None` if its name is not known.
    pub fn waits_are_for(&self, matches: impl Fn(&Slice) -> bool + Sync) -> Option<String> {
        let (named, files) = waited_files::waited(self.trace, matches);
        let most = named.first()?;
        let among =
            if files > 1 { format!(", one of {}", count(files as u64, "file")) } else { String::new() };
        Some(format!("{} of it is for {}{among}.", percent(most.share), most.path))
    }

    /// The class of a blocked slice, timers aside.
    pub fn class(&self, slice: &Slice) -> Option<Class> {
        (slice.state == ThreadState::Blocked).then(|| self.derived.roles.class_of_wait(self.trace, slice))
    }
}

/// Waits for the disk in one syscall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskWaits {
    /// Number of the syscall.
    pub number: i32,
    /// How many.
    pub waits: u64,
    /// How long in all.
    pub ns: u64,
}

impl DiskWaits {
    /// Name of the syscall.
    pub fn name(&self) -> &'static str {
        syscall_text(self.number)
    }
}

/// A syscall's name for people, also where none is known.
pub fn syscall_text(number: i32) -> &'static str {
    match number {
        -1 => "page faults",
        number if number < 0 => "an unknown syscall",
        number => syscall_name(number),
    }
}

/// Adds a slice. Returns the minimum duration of a slice to be among the longest.
fn add_longest(slices: &mut Vec<Slice>, slice: Slice) -> Duration {
    slices.push(slice);
    if slices.len() < 8 * EVIDENCE_MAX {
        return Duration(0);
    }
    keep_longest(slices);
    slices.last().map_or(Duration(0), Slice::duration)
}

/// Waits for a CPU that threads of the program (`own`) or others had, if only for a part. `cursor` is the place in that
/// CPU's timeline, as in [`crate::derive::timelines::Timeline::ran`].
fn queues_behind(timelines: &Timelines, own: bool, slice: &Slice, cursor: &mut usize) -> bool {
    if !slice.state.waits_for_cpu() || slice.state == ThreadState::Throttled {
        return false;
    }
    let Some(timeline) = timelines.of_cpu(slice.cpu) else { return false };
    let ran = timeline.ran(slice.start, slice.end, cursor);
    (if own { ran.0 } else { ran.1 }) > 0
}

fn keep_longest(slices: &mut Vec<Slice>) {
    slices.sort_by_key(|slice| (std::cmp::Reverse(slice.duration()), slice.start, slice.thread));
    slices.truncate(EVIDENCE_MAX);
}

fn evidence(slice: &Slice, note: String) -> Evidence {
    Evidence { table: "slices", thread: slice.thread, start: slice.start, duration: slice.duration(), note }
}

/// Sources whose losses make sampled figures coarser, or are one rule's alone ([`SHOOTDOWNS`]), but leave the scheduler's story whole.
const SAMPLED: [&str; 12] = [
    "cpu-samples",
    "perf-samples",
    "stacks",
    "user-stacks",
    "symbols",
    "mappings",
    "syscall-windows",
    "runtime-events",
    "runtime-probes",
    "allocations",
    "page-faults",
    SHOOTDOWNS,
];
/// The source of the counts that tlb-shootdown is about.
pub const SHOOTDOWNS: &str = "shootdowns";

/// Share of the scheduler's events that is missing: the maximum of two shares. One is the share of events,
/// for losses with a known number. The other is the share of time, for losses without one.
fn loss_share(trace: &Trace) -> f64 {
    let losses = || trace.losses.iter().filter(|loss| !SAMPLED.contains(&loss.source.as_str()));
    let mut spans: Vec<(Timestamp, Timestamp)> = losses()
        .filter(|loss| loss.events == 0)
        .map(|loss| (loss.start.max(trace.start()), loss.end.min(trace.end())))
        .filter(|(start, end)| end > start)
        .collect();
    spans.sort();
    let (mut covered, mut until) = (0, trace.start());
    for (start, end) in spans {
        covered += end.since(start.max(until)).0;
        until = until.max(end);
    }
    let of_time = covered as f64 / trace.wall().0.max(1) as f64;
    let lost: u64 = losses().map(|loss| loss.events).sum();
    // A switch ends one slice and begins another.
    let seen = (trace.slices.len() / 2 + trace.wakeups.len()) as u64;
    let of_events = lost as f64 / (lost + seen).max(1) as f64;
    of_time.max(of_events)
}
