//! Spin loops: place of the loops, polled variables, and the activity of the program's other threads at those
//! times.
//!
//! Sampled. A sample in a spin loop ([`holdup_events::tables::FrameSpin`]) represents its share of the
//! thread's running time. No event records which thread ends a busy-wait. Known are only the threads that
//! worked at these times, and the threads that were runnable without a CPU.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use holdup_events::tables::{FrameSpin, SampleRow, Slice, ThreadState};
use holdup_events::{FrameId, ProcessId, StackId, ThreadId, Timestamp, Trace};

use super::class::Class;
use super::ledger::Ledger;
use super::occupancy::Stall;
use super::on_cpu::SampleClasses;
use super::own_places::{OwnFrames, Places};
use super::rendezvous::Rendezvous;
use super::roles::Roles;
use super::split::share_error;
use super::timelines::Timelines;
use crate::descriptors::RuleId;

/// A spin loop: a place of one process, or one purpose of a runtime in like-named processes.
#[derive(Clone, Debug, Default)]
pub struct SpinUse {
    /// The function with the loop.
    pub function: String,
    /// The program's function that waits there. Empty if it is the function itself, or if no stack shows it.
    pub caller: String,
    /// Name of the polled variable, if the code shows it. Empty otherwise.
    pub watches: String,
    /// Kind of spin loop.
    pub how: FrameSpin,
    /// Purpose, if a runtime's descriptor knows the loop.
    pub purpose: Option<Purpose>,
    /// Process of the loop. The first one if there are several.
    pub process: ProcessId,
    /// Samples in it.
    pub samples: u64,
    /// Running time spent in it (ns, sampled).
    pub ns: u64,
    /// Half the width of its 95 % interval (ns).
    pub error_ns: u64,
    /// The same by thread, largest first.
    pub by_thread: Vec<(ThreadId, u64)>,
    /// Activity of the process's other threads at these times.
    pub meanwhile: Meanwhile,
    /// Part of `ns` at a barrier: row of [`Rendezvous::sites`], and time (ns).
    pub met: Vec<(u32, u64)>,
    /// Cost of the wait.
    pub stall: Stall,
    /// The stacks of its samples.
    pub stacks: BTreeSet<StackId>,
    /// Samples in it, the first of each of the longest uninterrupted rows: thread, first, last.
    pub longest: Vec<(ThreadId, Timestamp, Timestamp)>,
}

/// Purpose of a runtime's spin loop, from its descriptor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Purpose {
    /// The runtime, for people.
    pub runtime: String,
    /// Display text of the purpose.
    pub what: String,
    /// Advice to reduce it. May be empty.
    pub advice: String,
}

/// Activity of other threads at the samples in one loop.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Meanwhile {
    /// Number of evaluated samples.
    pub samples: u64,
    /// Samples at which another thread did work, by thread, most samples first, at most [`NAMED_MAX`].
    pub worked: Vec<(ThreadId, u64)>,
    /// Samples at which no other thread did work, but one was runnable without a CPU.
    pub starved: u64,
    /// The same by that thread, most samples first, at most [`NAMED_MAX`].
    pub wanted: Vec<(ThreadId, u64)>,
    /// Samples at which no other thread did work or was runnable.
    pub nobody: u64,
}

/// Threads that [`Meanwhile`] names.
pub const NAMED_MAX: usize = 8;
/// Rows in [`SpinUse::longest`].
const LONGEST_MAX: usize = 10;
/// Maximum number of evaluated samples. More would not reduce the error, which the samples themselves limit.
const MOMENTS_MAX: usize = 20_000;
/// Maximum number of threads evaluated per sample.
const THREADS_MAX: usize = 256;

/// Which loop a sample is in.
type Key = (ProcessId, Place);

/// Where a loop is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// The loops in which a runtime waits for one purpose.
    Runtimes(RuleId),
    /// Place of the loop and of its caller.
    Code(FrameId, Option<FrameId>),
}

/// Input besides the trace and its ledger.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    /// Classes of samples, and roles of runtimes' code.
    pub roles: &'a Roles,
    /// Occupation of each CPU.
    pub timelines: &'a Timelines,
    /// Barriers, joins and pauses.
    pub rendezvous: &'a Rendezvous,
}

/// Derives every loop, the costliest first.
pub fn derive(trace: &Trace, ledger: &Ledger, facts: &Facts) -> Vec<SpinUse> {
    let Facts { roles, timelines, rendezvous } = *facts;
    let met = Met::from_rendezvous(rendezvous);
    let found = Spins::collect(trace, ledger, roles);
    let moments: usize = found.loops.values().map(|one| one.samples.len()).sum();
    let every = moments.div_ceil(MOMENTS_MAX).max(1);
    let mut around = Around::new(trace, ledger, roles.sample_classes());
    let mut spins = Vec::new();
    for (key, one) in found.loops {
        let mut spin = one.finish(trace, key, ledger);
        spin.purpose = purpose(roles, key.1);
        spin.meanwhile = around.activity_during(one.samples.iter().step_by(every).map(|(sample, _)| sample));
        spin.met = met.sums(&one.samples);
        for (sample, ns) in &one.samples {
            spin.stall.add_sample(sample, *ns, timelines);
        }
        spins.push(spin);
    }
    spins.sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| a.function.cmp(&b.function)));
    spins
}

/// Samples of one loop, with the running time that each represents (ns).
#[derive(Default)]
struct Loop {
    frame: Option<FrameId>,
    /// Number of samples at each place, with the caller's place.
    places: BTreeMap<(FrameId, Option<FrameId>), u64>,
    samples: Vec<(SampleRow, f64)>,
    how: FrameSpin,
}

/// Times in which threads spun at barriers. By thread: start, end and site, in time order.
struct Met {
    spans: BTreeMap<ThreadId, Vec<(Timestamp, Timestamp, u32)>>,
}

impl Met {
    fn from_rendezvous(rendezvous: &Rendezvous) -> Met {
        let mut spans: BTreeMap<ThreadId, Vec<(Timestamp, Timestamp, u32)>> = BTreeMap::new();
        for meeting in &rendezvous.meetings {
            for arrival in rendezvous.members(meeting).iter().filter(|arrival| arrival.spun) {
                spans.entry(arrival.thread).or_default().push((arrival.at, meeting.release, meeting.site));
            }
        }
        spans.values_mut().for_each(|spans| spans.sort());
        Met { spans }
    }

    fn sums(&self, samples: &[(SampleRow, f64)]) -> Vec<(u32, u64)> {
        let mut sums: BTreeMap<u32, f64> = BTreeMap::new();
        for (sample, ns) in samples {
            let spans = self.spans.get(&sample.thread).map(Vec::as_slice).unwrap_or_default();
            let behind = spans.partition_point(|(from, ..)| *from <= sample.at);
            let last = spans.get(..behind).and_then(<[_]>::last).filter(|(_, to, _)| sample.at <= *to);
            if let Some((.., site)) = last {
                *sums.entry(*site).or_default() += ns;
            }
        }
        sums.into_iter().map(|(site, ns)| (site, ns.round() as u64)).collect()
    }
}

struct Spins {
    loops: BTreeMap<Key, Loop>,
}

impl Spins {
    fn collect(trace: &Trace, ledger: &Ledger, roles: &Roles) -> Spins {
        let (classes, mut loop_code) = (roles.sample_classes(), None);
        let own = OwnFrames::new(trace);
        let mut places = Places::new(trace, &own);
        let mut functions = Functions::default();
        let mut loops: BTreeMap<Key, Loop> = BTreeMap::new();
        let mut alike: HashMap<&str, ProcessId> = HashMap::new();
        for thread in &ledger.threads {
            let samples = super::samples_of(trace, thread.thread);
            let spinning = samples.iter().filter(|sample| classes.class_of(sample) == Class::Spin);
            let count = spinning.clone().count();
            if count == 0 {
                continue;
            }
            let each = thread.classes[Class::Spin as usize] as f64 / count as f64;
            let process = trace.threads[thread.thread.index()].process;
            let first = *alike.entry(trace.process_name(process)).or_insert(process);
            for sample in spinning {
                let Some(frame) = user_leaf(trace, sample) else { continue };
                let place = (functions.first_frame(trace, frame), places.nearest_own(sample.stack));
                let loop_code = loop_code.get_or_insert_with(|| roles.loop_code(trace));
                let known =
                    roles.of_loop(trace, loop_code, sample).filter(|rule| has_description(roles, *rule));
                // What a runtime waits for, it waits for in each of a pool's processes.
                let key = match known {
                    Some(rule) => (first, Place::Runtimes(rule)),
                    None => (process, Place::Code(place.0, place.1)),
                };
                let one = loops.entry(key).or_default();
                *one.places.entry(place).or_default() += 1;
                one.frame = one.frame.or(Some(frame).filter(|frame| is_named(trace, *frame)));
                one.how = one.how.max(classes.spin(sample));
                one.samples.push((*sample, each));
            }
        }
        Spins { loops }
    }
}

fn has_description(roles: &Roles, rule: RuleId) -> bool {
    roles.descriptors.rule(rule).is_some_and(|(_, rule)| !rule.what.is_empty())
}

fn purpose(roles: &Roles, place: Place) -> Option<Purpose> {
    let Place::Runtimes(rule) = place else { return None };
    let (runtime, rule) = roles.descriptors.rule(rule)?;
    Some(Purpose { runtime: runtime.title.clone(), what: rule.what.clone(), advice: rule.advice.clone() })
}

/// Maps each frame to the first frame of its function. A function has a frame per place in its code.
#[derive(Default)]
pub(super) struct Functions<'a> {
    first: HashMap<(&'a str, &'a str, u64), FrameId>,
}

impl<'a> Functions<'a> {
    pub(super) fn first_frame(&mut self, trace: &'a Trace, id: FrameId) -> FrameId {
        let Some(frame) = trace.frames.get(id.index()) else { return id };
        // Without a name, the start address identifies the function.
        let start = frame.offset.wrapping_sub(frame.function_offset);
        let start = if frame.function.is_empty() { start } else { 0 };
        *self.first.entry((frame.module.as_str(), frame.function.as_str(), start)).or_insert(id)
    }
}

/// The first frame that is not the kernel's.
pub(super) fn user_leaf(trace: &Trace, sample: &SampleRow) -> Option<FrameId> {
    let mut frames = trace.stack_frames(sample.stack);
    let is_kernel = |id: &FrameId| {
        let frame = trace.frames.get(id.index());
        frame.is_some_and(|frame| frame.kind == holdup_events::tables::FrameKind::Kernel)
    };
    let first = frames.next()?;
    if is_kernel(&first) { frames.find(|id| !is_kernel(id)).or(Some(first)) } else { Some(first) }
}

fn is_named(trace: &Trace, id: FrameId) -> bool {
    trace.frames.get(id.index()).is_some_and(|frame| !frame.watches.is_empty())
}

impl Loop {
    fn finish(&self, trace: &Trace, (process, _): Key, ledger: &Ledger) -> SpinUse {
        let most = self.places.iter().max_by_key(|(place, samples)| (**samples, std::cmp::Reverse(**place)));
        let (place, caller) = most.map(|(place, _)| *place).unwrap_or_default();
        let ns: f64 = self.samples.iter().map(|(_, ns)| ns).sum();
        let share = share_error(self.samples.len() as u64, ledger.samples);
        let mut by_thread: BTreeMap<ThreadId, f64> = BTreeMap::new();
        for (sample, ns) in &self.samples {
            *by_thread.entry(sample.thread).or_default() += ns;
        }
        let mut by_thread: Vec<(ThreadId, u64)> =
            by_thread.into_iter().map(|(thread, ns)| (thread, ns.round() as u64)).collect();
        by_thread.sort_by_key(|(thread, ns)| (std::cmp::Reverse(*ns), *thread));
        let function = trace.frame_name(place);
        let caller = caller.map(|caller| trace.frame_name(caller)).filter(|caller| *caller != function);
        let watched = self.frame.and_then(|frame| trace.frames.get(frame.index()));
        SpinUse {
            function,
            caller: caller.unwrap_or_default(),
            watches: watched.map_or(String::new(), |frame| frame.watches.clone()),
            how: self.how,
            process,
            samples: self.samples.len() as u64,
            ns: ns.round() as u64,
            error_ns: (share * ledger.running_ns() as f64).round() as u64,
            by_thread,
            stacks: self.samples.iter().map(|(sample, _)| sample.stack).collect(),
            longest: longest(trace, &self.samples),
            ..SpinUse::default()
        }
    }
}

/// The longest rows of samples of one thread without another between.
fn longest(trace: &Trace, samples: &[(SampleRow, f64)]) -> Vec<(ThreadId, Timestamp, Timestamp)> {
    let gap_max_ns = 2 * trace.manifest.sample_period_ns.max(1);
    let mut rows: Vec<(ThreadId, Timestamp, Timestamp)> = Vec::new();
    for (sample, _) in samples {
        match rows.last_mut() {
            Some((thread, _, last)) if *thread == sample.thread && sample.at.since(*last).0 <= gap_max_ns => {
                *last = sample.at;
            }
            _ => rows.push((sample.thread, sample.at, sample.at)),
        }
    }
    rows.sort_by_key(|(thread, from, to)| (std::cmp::Reverse(to.since(*from)), *from, *thread));
    rows.truncate(LONGEST_MAX);
    rows
}

/// Activity of threads at given times.
struct Around<'a> {
    trace: &'a Trace,
    classes: &'a SampleClasses,
    /// By process: the threads that ran most.
    threads: BTreeMap<ProcessId, Vec<ThreadId>>,
}

impl<'a> Around<'a> {
    fn new(trace: &'a Trace, ledger: &Ledger, classes: &'a SampleClasses) -> Around<'a> {
        let mut ran: Vec<_> = ledger.threads.iter().collect();
        ran.sort_by_key(|thread| (std::cmp::Reverse(thread.running_ns()), thread.thread));
        let mut threads: BTreeMap<ProcessId, Vec<ThreadId>> = BTreeMap::new();
        for thread in ran {
            let list = threads.entry(trace.threads[thread.thread.index()].process).or_default();
            if list.len() < THREADS_MAX {
                list.push(thread.thread);
            }
        }
        Around { trace, classes, threads }
    }

    fn activity_during<'s>(&mut self, samples: impl Iterator<Item = &'s SampleRow>) -> Meanwhile {
        let mut sums = Meanwhile::default();
        let (mut worked, mut wanted) = (BTreeMap::new(), BTreeMap::new());
        for sample in samples {
            sums.samples += 1;
            let process = self.trace.threads[sample.thread.index()].process;
            let others = self.threads.get(&process).into_iter().flatten().copied();
            let (mut working, mut wanting) = (0u64, 0u64);
            for other in others.filter(|other| *other != sample.thread) {
                let Some(slice) = self.slice(other, sample.at) else { continue };
                if slice.state.waits_for_cpu() {
                    wanting += 1;
                    *wanted.entry(other).or_insert(0u64) += 1;
                } else if slice.state == ThreadState::Running && !self.spins(other, &slice, sample.at) {
                    working += 1;
                    *worked.entry(other).or_insert(0u64) += 1;
                }
            }
            sums.starved += u64::from(working == 0 && wanting > 0);
            sums.nobody += u64::from(working == 0 && wanting == 0);
        }
        (sums.worked, sums.wanted) = (ranked(worked), ranked(wanted));
        sums
    }

    fn slice(&self, thread: ThreadId, at: Timestamp) -> Option<Slice> {
        let row = self.trace.slices.covering(thread, at)?;
        Some(self.trace.slices.at(thread, row))
    }

    /// Decided by the slice's sample nearest to that time. Without a sample, the thread counts as working.
    fn spins(&self, thread: ThreadId, slice: &Slice, at: Timestamp) -> bool {
        let samples = super::samples_of(self.trace, thread);
        let behind = samples.partition_point(|sample| sample.at < at);
        let near = [behind.checked_sub(1), Some(behind)].into_iter().flatten();
        let near = near.filter_map(|row| samples.get(row));
        let inside = near.filter(|sample| slice.start <= sample.at && sample.at <= slice.end);
        let nearest = inside.min_by_key(|sample| sample.at.0.abs_diff(at.0));
        nearest.is_some_and(|sample| self.classes.class_of(sample) == Class::Spin)
    }
}

fn ranked(counts: BTreeMap<ThreadId, u64>) -> Vec<(ThreadId, u64)> {
    let mut ranked: Vec<(ThreadId, u64)> = counts.into_iter().collect();
    ranked.sort_by_key(|(thread, count)| (std::cmp::Reverse(*count), *thread));
    ranked.truncate(NAMED_MAX);
    ranked
}
