//! # task-lock: tasks wait for a lock, and the runtime's threads idle
//!
//! ## What it sees
//! Threads of a runtime that has tasks of its own (goroutines) which have nothing to run, until another thread lets a
//! lock go that tasks wait for: the stack with which they are woken says so. And samples of the CPU in the functions that
//! are called only where somebody waits for such a lock.
//!
//! ## Why it hurts
//! A task that waits for a lock sleeps without the kernel's knowing: its thread takes another task, or idles. Where
//! many tasks want one lock, the program looks as if it had nothing to do, on CPUs that are idle.
//!
//! ## How it decides
//! It adds up the waits for something to do that ended so. The upper end of the gain is that these threads had run
//! meanwhile on CPUs that were idle; the lower end is 0, for the recording does not show which task waited, since when,
//! and for which lock. It is a hint only, unless running threads were sampled in functions of contended locks, too.
//!
//! ## What to do
//! Find the lock: record the runtime's own trace (Go: `runtime/trace`, or `/debug/pprof/trace`) and read it with
//! `holdup import`, or use the runtime's mutex profile. Then as for any lock: hold it for less time, split it, or collect
//! per task and merge once.
//!
//! ## Blind spots
//! Locks that are handed on without any thread's being woken (the thread that let go runs the next task itself) are not
//! counted. What counts may be another thing that the runtime makes of the same parts: Go's WaitGroup and Cond.
//!
//! ## References
//! Go: `sync/mutex.go`, `runtime/sema.go`; runtime/pprof, the mutex profile.

use std::collections::{BTreeMap, HashMap};

use holdup_events::tables::{Slice, ThreadState};
use holdup_events::{StackId, ThreadId};

use super::{ChargedVerdict, Info};
use crate::charge::Charge;
use crate::derive::class::Class;
use crate::derive::own_places::{OwnFrames, Places};
use crate::finding::{Confidence, Finding, Gain};
use crate::merging::Charged;
use crate::scene::{GAIN_MIN, Scene};
use crate::wording::{count, percent, thread, time};

pub(super) const INFO: Info =
    Info { name: "task-lock", summary: "Tasks wait for a lock while their runtime's threads idle" };

/// Fewer such wakeups may be the start and the end of the tasks.
const WAKEUPS_MIN: u64 = 50;

/// So many samples in functions of contended locks are no chance.
const SAMPLES_MIN: usize = 5;

pub(super) fn judge(scene: &Scene) -> ChargedVerdict {
    scene.needs_wait_reasons()?;
    let trace = scene.trace;
    let unlocking = scene.derived.roles.unlocking_code(trace);
    if !unlocking.contains(&true) {
        return Ok(Vec::new());
    }
    let unlocks = |stack: StackId| {
        trace.stack_frames(stack).any(|frame| unlocking.get(frame.index()).copied().unwrap_or(false))
    };
    let stacks: Vec<bool> =
        (0..trace.stacks.rows().len() as u32).map(|stack| unlocks(StackId(stack))).collect();
    let is_it = |slice: &Slice| {
        slice.state == ThreadState::Blocked
            && scene.class(slice) == Some(Class::WorkWait)
            && trace.ended_by(slice).is_some_and(|wakeup| stacks[wakeup.stack.index()])
    };
    let charge = Charge::of(trace, is_it);
    Ok(finding(scene, charge).into_iter().collect())
}

fn finding(scene: &Scene, charge: Charge) -> Option<Charged> {
    let gain = scene.gain(&scene.stall(&charge), |_, _| 0.0);
    let wakeups = charge.count();
    if wakeups < WAKEUPS_MIN || gain.high < GAIN_MIN {
        return None;
    }
    let (samples, places) = contended(scene);
    let sure = samples >= SAMPLES_MIN;
    let by = wakers(scene, &charge);
    let mut summary = vec![format!(
        "{}, {} in all ({} of all thread time), threads idled until a lock of tasks was let go, most often by {}.",
        count(wakeups, "time"),
        time(charge.ns()),
        percent(scene.of_thread_time(charge.ns())),
        by.first().map_or("?".to_owned(), |(id, _)| thread(scene.trace, *id)),
    )];
    if let Some((place, _)) = places.first().filter(|_| sure) {
        summary.push(format!(
            "{} of the CPU are in functions of contended locks, most often called by {place}.",
            count(samples as u64, "sample")
        ));
    }
    summary
        .push("Which task waited, and for which lock, is not to be seen from outside of the runtime.".into());
    let finding = Finding {
        rule: INFO.name,
        subject: match places.first() {
            Some((place, _)) if sure => format!("locks taken in {place}"),
            _ => format!("locks of tasks in {}", process(scene, &charge)),
        },
        summary,
        cost_ns: charge.ns(),
        gain: Gain { low: 0.0, high: gain.high },
        confidence: scene.confidence(if sure { Confidence::Medium } else { Confidence::Low }),
        evidence: scene.longest_of(&charge, |_| "idles until a lock of tasks is let go".to_owned()),
        advice: vec![
            "Find the lock: the runtime's own trace (Go: runtime/trace, read by holdup import) or its mutex profile".into(),
            "Hold it for less time, split it, or collect per task and merge once".into(),
        ],
    };
    Some(Charged { finding, charge })
}

/// Samples in functions that are called only where somebody waits for a lock, and from where in the program they are.
fn contended(scene: &Scene) -> (usize, Vec<(String, u64)>) {
    let trace = scene.trace;
    let code = scene.derived.roles.lock_code(trace);
    let is_contended = |frame: usize| code.get(frame).copied().flatten() == Some(true);
    let own = OwnFrames::new(trace);
    let mut own_places = Places::new(trace, &own);
    let mut known: HashMap<StackId, Option<String>> = HashMap::new();
    let mut places: BTreeMap<String, u64> = BTreeMap::new();
    let targets = trace.samples.iter().filter(|sample| trace.threads[sample.thread.index()].target);
    for sample in targets {
        let place = known.entry(sample.stack).or_insert_with(|| {
            let mut frames = trace.stack_frames(sample.stack);
            frames.find(|frame| is_contended(frame.index()))?;
            // The runtime's functions that lead there say nothing, whichever of them are known to be a lock's.
            let caller = frames.find(|frame| code.get(frame.index()).copied().flatten().is_none());
            let caller = own_places.of(sample.stack).or(caller);
            Some(caller.map_or_else(String::new, |frame| trace.frame_name(frame)))
        });
        if let Some(place) = place {
            *places.entry(place.clone()).or_default() += 1;
        }
    }
    let samples = places.values().sum::<u64>() as usize;
    places.remove("");
    let mut places: Vec<(String, u64)> = places.into_iter().collect();
    places.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    (samples, places)
}

/// Who let go, by how often, the most first.
fn wakers(scene: &Scene, charge: &Charge) -> Vec<(ThreadId, u64)> {
    let mut wakers: BTreeMap<ThreadId, u64> = BTreeMap::new();
    for slice in charge.slices(scene.trace) {
        if let Some(wakeup) = scene.trace.ended_by(&slice) {
            *wakers.entry(wakeup.waker).or_default() += 1;
        }
    }
    let mut wakers: Vec<(ThreadId, u64)> = wakers.into_iter().collect();
    wakers.sort_by_key(|(id, times)| (std::cmp::Reverse(*times), *id));
    wakers
}

fn process(scene: &Scene, charge: &Charge) -> String {
    let first = charge.slices(scene.trace).next();
    first.map_or_else(String::new, |slice| {
        scene.trace.process_name(scene.trace.threads[slice.thread.index()].process).to_owned()
    })
}
