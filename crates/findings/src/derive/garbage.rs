//! Functions that fill the young generation: the functions in which threads had to collect because they
//! allocated.
//!
//! A collection begins when an allocation finds the young generation full. Collections therefore sample
//! functions in proportion to their allocated bytes. A collection counts if a sample fell into it, or if the
//! thread slept in it and its stack was recorded.

use std::collections::{BTreeMap, HashMap};

use holdup_events::tables::ThreadState;
use holdup_events::{FrameId, StackId, ThreadId, Timestamp, Trace};

use super::allocators::Allocators;
use super::class::Class;
use super::gc::{Gc, LaneGc};
use super::ledger::Ledger;
use super::occupancy::Stall;
use super::own_places::OwnFrames;
use super::roles::Roles;
use super::stacks::folding::matches;
use super::timelines::Timelines;
use crate::descriptors::{Descriptors, plain_name};
use crate::wording::percent;

/// Observed collections by the allocating function.
#[derive(Clone, Debug, Default)]
pub struct Garbage {
    /// Number of stacks of threads that collected because they allocated. A sampled stack counts with the
    /// inverse of its probability.
    pub stacks: u64,
    /// The allocating functions, most stacks first.
    pub sites: Vec<Site>,
    /// Some of the samples: thread and time.
    pub seen: Vec<(ThreadId, Timestamp)>,
}

impl Garbage {
    /// The functions seen most, with their parts of the stacks.
    pub fn named(&self, most: usize) -> Vec<String> {
        let part = |site: &Site| percent(site.stacks as f64 / self.stacks.max(1) as f64);
        self.sites.iter().take(most).map(|site| format!("{} {}", site.function, part(site))).collect()
    }
}

/// A function that allocates.
#[derive(Clone, Debug)]
pub struct Site {
    /// Function name.
    pub function: String,
    /// Number of stacks with the function.
    pub stacks: u64,
    /// Samples of its own code.
    pub samples: u64,
    /// Running time that these samples represent (ns).
    pub itself_ns: u64,
    /// Cost of that running time for the run.
    pub itself: Stall,
}

/// Rows in [`Garbage::seen`].
const SEEN_MAX: usize = 10;
/// Functions seen in less than this part of the stacks are not named.
const PART_MIN: f64 = 0.05;

/// Derives it for the processes that reported collections.
pub fn derive(trace: &Trace, gc: &Gc, ledger: &Ledger, (roles, timelines): (&Roles, &Timelines)) -> Garbage {
    let fills = |process| gc.lanes.iter().any(|lane| lane.process == process && lane.allocated_bytes > 0);
    let threads: Vec<ThreadId> = trace
        .target_threads()
        .filter(|id| trace.threads.get(id.index()).is_some_and(|row| fills(row.process)))
        .collect();
    if threads.is_empty() {
        return Garbage::default();
    }
    let mut asking = Asking::new(trace, &roles.descriptors);
    let mut garbage = Garbage::default();
    let mut counts: BTreeMap<FrameId, u64> = BTreeMap::new();
    for thread in &threads {
        for sample in super::samples_of(trace, *thread) {
            if let Some(site) = asking.requester(sample.stack) {
                *counts.entry(site).or_default() += 1;
                if garbage.seen.len() < SEEN_MAX {
                    garbage.seen.push((*thread, sample.at));
                }
            }
        }
        let waits = trace.slices.of_thread(*thread).filter(|slice| slice.state == ThreadState::Blocked);
        for slice in waits.filter(|slice| slice.stack != StackId::NONE) {
            let site = asking.requester(slice.stack);
            if let Some(site) = site.filter(|_| roles.class_of_wait(trace, &slice) == Class::GcWait) {
                *counts.entry(site).or_default() += u64::from(slice.stack_every.max(1));
            }
        }
    }
    garbage.stacks = counts.values().sum();
    counts.retain(|_, stacks| *stacks as f64 >= PART_MIN * garbage.stacks as f64);
    garbage.sites = sites(trace, ledger, (&asking.own, timelines), counts);
    garbage
}

/// Running time of the functions themselves, without their callees.
fn sites(
    trace: &Trace,
    ledger: &Ledger,
    (own, timelines): (&OwnFrames, &Timelines),
    counts: BTreeMap<FrameId, u64>,
) -> Vec<Site> {
    let new = |(frame, stacks): (FrameId, u64)| {
        let function = trace.frame_name(frame);
        (frame, Site { function, stacks, samples: 0, itself_ns: 0, itself: Stall::default() })
    };
    let mut sites: BTreeMap<FrameId, Site> = counts.into_iter().map(new).collect();
    for thread in &ledger.threads {
        let samples = super::samples_of(trace, thread.thread);
        let each = thread.running_ns() as f64 / samples.len().max(1) as f64;
        for sample in samples.iter().filter(|sample| !sample.in_kernel) {
            let leaf = trace.stack_frames(sample.stack).next().and_then(|leaf| own.own_frame(leaf));
            if let Some(site) = leaf.and_then(|leaf| sites.get_mut(&leaf)) {
                site.samples += 1;
                site.itself.add_sample(sample, each, timelines);
            }
        }
    }
    let mut sites: Vec<Site> = sites.into_values().collect();
    for site in &mut sites {
        site.itself_ns = site.itself.by_thread.values().sum::<f64>().round() as u64;
    }
    sites.sort_by(|a, b| b.stacks.cmp(&a.stacks).then_with(|| a.function.cmp(&b.function)));
    sites
}

/// The function that a stack's collection is for, cached by stack.
struct Asking<'a> {
    trace: &'a Trace,
    allocators: Allocators,
    own: OwnFrames,
    /// Whether each frame is on the path from an allocation to its collection.
    asks: Vec<bool>,
    known: HashMap<StackId, Option<FrameId>>,
}

impl<'a> Asking<'a> {
    fn new(trace: &'a Trace, descriptors: &Descriptors) -> Asking<'a> {
        let patterns: Vec<&String> =
            descriptors.runtimes().iter().flat_map(|runtime| &runtime.collects_for_memory).collect();
        let asks = trace.frames.iter().map(|frame| {
            let name = plain_name(&frame.function);
            !name.is_empty() && patterns.iter().any(|pattern| matches(pattern, &name))
        });
        Asking {
            trace,
            allocators: Allocators::new(trace, descriptors),
            own: OwnFrames::new(trace),
            asks: asks.collect(),
            known: HashMap::new(),
        }
    }

    /// The program's own function that wanted memory.
    fn requester(&mut self, stack: StackId) -> Option<FrameId> {
        let Asking { trace, allocators, own, asks, known } = self;
        let trace = *trace;
        *known.entry(stack).or_insert_with(|| {
            let mut above =
                trace.stack_frames(stack).skip_while(|id| !asks.get(id.index()).is_some_and(|is| *is));
            above.find_map(|id| if allocators.rule(id).is_some() { None } else { own.own_frame(id) })
        })
    }
}

/// Bytes that all lanes allocated, and the most that one of them did in a second of its life.
pub fn allocated(gc: &Gc) -> (u64, f64) {
    let rate = |lane: &LaneGc| lane.allocated_bytes as f64 / (lane.life_ns.max(1) as f64 / 1e9);
    let all = gc.lanes.iter().map(|lane| lane.allocated_bytes).sum();
    (all, gc.lanes.iter().map(rate).fold(0.0, f64::max))
}
