//! The ledger of a range of time, of all threads or of some.

use holdup_events::{Duration, ThreadId, Timestamp, Trace};

use super::index::Queues;
use super::{Mark, STRIDE, Walk, Zoom};
use crate::derive::class::Class;
use crate::derive::ledger::{ByClass, RunQueueSplit};
use crate::derive::parallel;
use crate::derive::roles::Roles;
use crate::derive::split::{Parts, Split};
use crate::derive::timelines::Timelines;

/// Where the time of a range went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeLedger {
    /// Sum of the threads' lives in it (ns). Equals the sum of `classes`.
    pub total_ns: u64,
    /// Total of all requested threads.
    pub classes: ByClass,
    /// Half the width of the 95 % confidence interval of the classes of [`Class::ON_CPU`] (ns). All the
    /// running time if there are no samples.
    pub split_error_ns: Parts,
    /// On-CPU samples that the split rests on.
    pub samples: u64,
    /// The run-queue class, by occupant of the CPU.
    pub run_queue: RunQueueSplit,
    /// Each thread that lived in it.
    pub threads: Vec<(ThreadId, ByClass)>,
}

/// Adds up `threads` of the program in `from..to`.
pub fn range_ledger(
    (trace, timelines, zoom, roles): (&Trace, &Timelines, &Zoom, &Roles),
    threads: &[ThreadId],
    (from, to): (Timestamp, Timestamp),
) -> RangeLedger {
    let per_part = threads.len().div_ceil(16).max(16);
    let parts = parallel::map(threads.len().div_ceil(per_part), |part| {
        let mut queues = Queues { timelines, cursors: vec![0; timelines.len()] };
        let threads = threads[part * per_part..].iter().take(per_part);
        threads.map(|thread| (*thread, of_thread(zoom, (trace, &mut queues), *thread, (from, to)))).collect()
    });
    let mut wanted = vec![false; trace.threads.len()];
    threads.iter().filter_map(|id| wanted.get_mut(id.index()).map(|slot| *slot = true)).for_each(drop);
    let is_wanted = |id: ThreadId| wanted.get(id.index()).is_some_and(|wanted| *wanted);
    let mut split =
        Split::counting(trace, roles, |one| from <= one.at && one.at < to && is_wanted(one.thread));
    let mut ledger = RangeLedger::default();
    for (thread, (life, mut mark)) in parts.into_iter().flat_map(|part: Vec<_>| part) {
        let running = mark.classes[Class::Useful as usize];
        mark.classes[Class::Useful as usize] = 0;
        for (class, ns) in split.classes_ns((trace, roles), (thread, (from, to)), running) {
            mark.classes[class as usize] += ns;
        }
        ledger.total_ns += life.0;
        ledger.run_queue.add(mark.queued);
        for (sum, ns) in ledger.classes.iter_mut().zip(mark.classes) {
            *sum += ns;
        }
        ledger.threads.push((thread, mark.classes));
    }
    let split = split.finish();
    ledger.split_error_ns = split.error_ns;
    ledger.samples = split.samples;
    ledger
}

/// One thread's time in the range, and its activity. All running time is `Useful`.
fn of_thread(
    zoom: &Zoom,
    (trace, queues): (&Trace, &mut Queues),
    thread: ThreadId,
    (from, to): (Timestamp, Timestamp),
) -> (Duration, Mark) {
    let walk = Walk::new(zoom, trace, thread);
    let (from, to) = (from.max(walk.life.0), to.min(walk.life.1));
    if from >= to {
        return Default::default();
    }
    let mut classes =
        super::difference(&walk.before(walk.place(to), to), &walk.before(walk.place(from), from));
    let on_cpu = Class::ON_CPU.into_iter().chain([Class::Stolen]).map(|class| class as usize);
    let awake = awake(&walk, to).saturating_sub(awake(&walk, from)).min(classes[Class::GcWait as usize]);
    classes[Class::GcWait as usize] -= awake;
    let running: u64 = on_cpu.clone().map(|class| classes[class]).sum::<u64>() + awake;
    let stolen = stolen(zoom, trace, thread, (from, to)).min(running);
    on_cpu.for_each(|class| classes[class] = 0);
    classes[Class::Useful as usize] = running - stolen;
    classes[Class::Stolen as usize] = stolen;
    let told: u64 = classes.iter().sum();
    let life = to.since(from);
    classes[Class::Unknown as usize] += life.0.saturating_sub(told);
    queues.cursors.fill(0);
    let earlier = queued(&walk, (trace, thread), queues, from);
    let mut queued = queued(&walk, (trace, thread), queues, to);
    queued.subtract(earlier);
    (life, Mark { classes, awake_ns: 0, queued })
}

/// Running time (ns) before `at` that is coloured as waiting.
fn awake(walk: &Walk, at: Timestamp) -> u64 {
    let places = walk.place(at);
    // The last slice may have to be cut, so it is always counted again.
    let strides = places.saturating_sub(1) / STRIDE;
    let mark = strides.checked_sub(1).and_then(|mark| walk.marks.get(mark));
    let anew = (strides * STRIDE..places).filter(|place| walk.is_awake(*place));
    let anew = anew.map(|place| walk.end(place).min(at).since(walk.start(place)).0);
    mark.map_or(0, |mark| mark.awake_ns) + anew.sum::<u64>()
}

/// Run-queue time before `at`, by occupant of the CPU.
fn queued(
    walk: &Walk,
    (trace, thread): (&Trace, ThreadId),
    queues: &mut Queues,
    at: Timestamp,
) -> RunQueueSplit {
    let places = walk.place(at);
    // The last slice may have to be cut, so it is always counted again.
    let strides = places.saturating_sub(1) / STRIDE;
    let mark = strides.checked_sub(1).and_then(|mark| walk.marks.get(mark));
    let mut sums = mark.map_or(RunQueueSplit::default(), |mark| mark.queued);
    for place in strides * STRIDE..places {
        if walk.class(place) == Class::RunQueue as u8 {
            let mut slice = trace.slices.at(thread, walk.first + place);
            slice.start = walk.start(place);
            slice.end = walk.end(place).min(at);
            queues.add(&slice, &mut sums);
        }
    }
    sums
}

/// Steal time of a thread in a range (ns). A slice that the range cuts counts in proportion.
fn stolen(zoom: &Zoom, trace: &Trace, thread: ThreadId, (from, to): (Timestamp, Timestamp)) -> u64 {
    let before = |at: Timestamp| {
        let behind = trace.steals.partition_point(|steal| (steal.thread, steal.slice_start) < (thread, at));
        let sum = zoom.stolen_before.get(behind).copied().unwrap_or(0);
        let Some(last) = behind.checked_sub(1).map(|last| trace.steals[last]) else { return sum };
        let Some(row) = trace.slices.covering(thread, at).filter(|_| last.thread == thread) else {
            return sum;
        };
        let slice = trace.slices.at(thread, row);
        if slice.start != last.slice_start || slice.end <= slice.start {
            return sum;
        }
        let rest = u128::from(slice.end.since(at).0) * u128::from(last.stolen.0);
        sum - (rest / u128::from(slice.duration().0)) as u64
    };
    before(to).saturating_sub(before(from))
}
