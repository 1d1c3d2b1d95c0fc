//! Shared parts of the rules about garbage collections: which rule judges a process, and how waits in
//! collections are reported.
//!
//! An idle domain takes part in each collection. Its backup thread must be woken, and needs a CPU, at each
//! step. The other domains wait, retry or queue for a CPU during that time. That cost is not due to their
//! allocations. The same holds for waits while another program uses a CPU that one of the domains needs.

use std::collections::BTreeSet;

use holdup_events::{ProcessId, ThreadId};

use crate::charge::Charge;
use crate::derive::class::Class;
use crate::derive::gc::{Gc, LaneGc};
use crate::derive::ledger::ThreadLedger;
use crate::derive::phases;
use crate::derive::rendezvous::LateCause;
use crate::derive::requested::Requested;
use crate::scene::Scene;
use crate::wording::{function, percent};

/// A domain that allocates less than this part of all is not what makes collections necessary.
pub const ALLOCATES_MIN: f64 = 0.05;
/// Minimum share of the lateness that is due to late wakeups, for pauses to be attributed to them.
const WOKEN_LATE_MIN: f64 = 0.1;
/// Minimum share of a domain's waits in collections that is due to idle domains queueing for a CPU.
const QUEUED_MIN: f64 = 0.1;

/// Less of a domain's time is what collections cost everywhere.
const SHARE_MIN: f64 = 0.1;

/// Collections take much of the time of a domain that allocates: enough for gc-pressure to speak of them.
pub fn is_pressed(gc: &Gc) -> bool {
    let share = |lane: &LaneGc| lane.times.cost_ns() as f64 / lane.life_ns.max(1) as f64;
    allocating(gc).into_iter().any(|lane| share(lane) >= SHARE_MIN)
}

/// Where nothing better is known.
pub const LARGER_HEAP: &str = "Collect less often: a larger heap";

/// Whether the lane is an OCaml domain.
pub fn is_ocaml(lane: &LaneGc) -> bool {
    runtime_of(lane) == "ocaml"
}

fn runtime_of(lane: &LaneGc) -> &str {
    lane.runtime.split(' ').next().unwrap_or_default()
}

/// Advice on how to make the runtime of a lane collect less often.
pub fn fewer_collections(scene: &Scene, lane: &LaneGc) -> String {
    if is_ocaml(lane) {
        return "Collect less often: a larger minor heap (OCAMLRUNPARAM=s=1M words, then measure)".to_owned();
    }
    // Not of those that were seen at work: what another tool recorded shows no code, and names the runtime all the same.
    let described = scene.derived.roles.descriptors.runtimes();
    let knob = described.iter().find(|one| one.name == runtime_of(lane)).map(|one| &one.fewer_collections);
    knob.filter(|knob| !knob.is_empty()).cloned().unwrap_or_else(|| LARGER_HEAP.to_owned())
}

/// Processes whose runtime reports its allocations, so that they can be compared with the collections.
/// `gc-pressure` judges these processes, `gc-heavy` all other processes.
pub fn telling(gc: &Gc) -> BTreeSet<ProcessId> {
    gc.lanes.iter().filter(|lane| lane.allocated_bytes > 0).map(|lane| lane.process).collect()
}

/// Mean time (ns) that each other thread of a process waited for the last thread to stop.
/// `stop-the-world-latecomer` reports this time.
pub fn waited_for_last_ns(scene: &Scene, process: ProcessId) -> u64 {
    let rendezvous = &scene.derived.rendezvous;
    let is_its = |site: u32| rendezvous.sites.get(site as usize).is_some_and(|site| site.process == process);
    let uses = rendezvous.uses.iter().filter(|used| is_its(used.site) && rendezvous.stops_the_world(used));
    uses.map(|used| used.harm_each_ns).sum()
}

/// A sentence for programs that request collections or pauses themselves.
pub fn requested_sentence(asked: &Requested) -> String {
    let place = asked.place.as_ref().map(|place| format!(" for {}", function(place)));
    format!(
        "The program itself requests collections with {}{}: {} of the time in which threads collect or wait for a collection, by the sampled stacks.",
        asked.function,
        place.unwrap_or_default(),
        percent(asked.share),
    )
}

/// Waits for a CPU to collect on, of the threads that `is_judged`. Includes all such waits in a reported
/// collection. Includes all such waits of threads that spend most of their running time on collections.
pub fn queues(scene: &Scene, is_judged: impl Fn(ThreadId) -> bool + Sync) -> Charge {
    let collects = |one: &&ThreadLedger| {
        one.running_ns() > 0 && 2 * one.classes[Class::GcWork as usize] > one.running_ns()
    };
    let helpers: BTreeSet<ThreadId> =
        scene.derived.ledger.threads.iter().filter(collects).map(|one| one.thread).collect();
    Charge::of_rows(scene.trace, |thread, take| {
        if !is_judged(thread) {
            return;
        }
        let told = phases::joined(&phases::collectors(scene.trace, thread), 0);
        let mut rest = told.as_slice();
        for (row, slice) in scene.trace.slices.rows(thread).zip(scene.trace.slices.of_thread(thread)) {
            while let Some((_, behind)) = rest.split_first().filter(|((_, end), _)| *end <= slice.start) {
                rest = behind;
            }
            // A queued thread passes no probe. A reported collection begins before the wait and ends after
            // it.
            let is_told = rest.first().is_some_and(|(start, _)| *start <= slice.start);
            if slice.state.waits_for_cpu() && (is_told || helpers.contains(&thread)) {
                take(row);
            }
        }
    })
}

/// Domains that do a fair part of all allocating.
pub fn allocating(gc: &Gc) -> Vec<&LaneGc> {
    let all: u64 = gc.lanes.iter().map(|lane| lane.allocated_bytes).sum();
    let enough = |lane: &&LaneGc| lane.allocated_bytes as f64 >= ALLOCATES_MIN * all as f64;
    gc.lanes.iter().filter(enough).filter(|lane| lane.allocated_bytes > 0).collect()
}

/// The domains of a process that have nothing to do while others collect, and hold these up.
pub fn idle_domains(scene: &Scene, process: ProcessId) -> usize {
    let gc = &scene.derived.gc;
    let lanes = || gc.lanes.iter().filter(|lane| lane.process == process);
    let all: u64 = lanes().map(|lane| lane.allocated_bytes).sum();
    let allocates = |lane: &&LaneGc| lane.allocated_bytes as f64 >= ALLOCATES_MIN * all as f64;
    let woken_late = || late_part(scene, process, LateCause::WokenLate) >= WOKEN_LATE_MIN;
    let queued = || {
        let ns: u64 = lanes().filter(|lane| !allocates(lane)).map(|lane| lane.answered.queue_ns).sum();
        ns > 0 && ns as f64 >= QUEUED_MIN * waited_most_ns(scene, process) as f64
    };
    if !lanes().any(|lane| allocates(&lane)) || !(woken_late() || queued()) {
        return 0;
    }
    lanes().filter(|lane| !allocates(lane) && answers(lane)).count()
}

/// Another thread answers for the domain, which is blocked, more than it takes part itself.
fn answers(lane: &LaneGc) -> bool {
    lane.answered.covered_ns() > lane.times.covered_ns()
}

/// Time (ns) that the backup threads of idle domains were runnable in collections, minus the maximum work of
/// a domain in collections. During this time no domain could continue.
pub fn idle_queued_ns(scene: &Scene, process: ProcessId) -> u64 {
    let lanes = || scene.derived.gc.lanes.iter().filter(|lane| lane.process == process);
    let queued: u64 = lanes().filter(|lane| answers(lane)).map(|lane| lane.answered.queue_ns).sum();
    let work = lanes().map(|lane| lane.times.work_ns).max().unwrap_or(0);
    queued.saturating_sub(work)
}

/// Cost (ns) of other programs for a domain in collections: they used its CPU, or the CPU of the domain for
/// which it waited.
pub fn other_programs_ns(scene: &Scene, lane: &LaneGc) -> u64 {
    let queued = &scene.derived.ledger.run_queue;
    let theirs = queued.others_ns as f64 / (queued.own_ns + queued.others_ns).max(1) as f64;
    let times = &lane.times;
    let behind = late_part(scene, lane.process, LateCause::NoCpu)
        * (times.wait_running_ns + times.wait_blocked_ns) as f64;
    (theirs * (times.queue_ns as f64 + behind)) as u64
}

/// The part of a process's lateness that has this cause.
fn late_part(scene: &Scene, process: ProcessId, why: LateCause) -> f64 {
    let rendezvous = &scene.derived.rendezvous;
    let (mut its, mut all) = (0, 0);
    for used in rendezvous.uses.iter().filter(|used| rendezvous.stops_the_world(used)) {
        if rendezvous.sites.get(used.site as usize).is_none_or(|site| site.process != process) {
            continue;
        }
        for cause in rendezvous.late_causes(Some(used.site)) {
            all += cause.late_ns;
            its += if cause.cause == why { cause.late_ns } else { 0 };
        }
    }
    its as f64 / all.max(1) as f64
}

/// Time (ns) that a domain waited in collections: at barriers, for a CPU, or to become the leader.
pub fn waited_ns(lane: &LaneGc) -> u64 {
    let times = &lane.times;
    times.wait_running_ns + times.wait_blocked_ns + times.queue_ns + times.spin_ns
}

/// Maximum over the domains of a process of the time (ns) waited in collections. See [`waited_ns`] for the
/// parts.
pub fn waited_most_ns(scene: &Scene, process: ProcessId) -> u64 {
    let lanes = scene.derived.gc.lanes.iter().filter(|lane| lane.process == process);
    lanes.map(waited_ns).max().unwrap_or(0)
}
