//! # task-lock: tasks wait for a lock, and the runtime's threads idle
//!
//! ## What it sees
//! Tasks that a runtime carries on its threads (goroutines) which wait for a lock, while threads of the runtime have nothing to
//! run. Probes tell each wait: since when, for which lock, from where in the program, and who let the lock go. Where there were
//! none, who lets such a lock go and so wakes a thread: the stack with which that is woken says so.
//!
//! ## Why it hurts
//! A task that waits for a lock sleeps without the kernel's knowing: its thread takes another task, or idles. Where
//! many tasks want one lock, the program looks as if it had nothing to do, on CPUs that are idle.
//!
//! ## How it decides
//! It adds up the waits for something to do beside which tasks waited for a lock for most of their length, not more at once than
//! tasks that waited; where waits were not told, as many as waited when they were, and those that ended as a lock was let go. The
//! upper end of the gain is that these threads had run meanwhile on CPUs that were idle, and that nobody ran in functions which are
//! called only where somebody waits; the lower end is 0, since what is done under a lock may have to be done in turn. It is a hint
//! only where no wait was told and no running thread was sampled in functions of contended locks.
//!
//! ## What to do
//! As for any lock: hold it for less time, split it, or collect per task and merge once. What whoever held it did meanwhile says
//! which: who waits for a disk or a peer should do so before or behind the lock.
//!
//! ## Blind spots
//! Waits are recorded with BPF (before Linux 6.6 as root only) where the runtime's functions are found (Go 1.17 and later, stripped or not). Where tasks
//! wait more than some thousand times a second, they are looked at in windows of each second; what is said of them is of these. A
//! holder is whoever let the lock go to the next waiter: others may have had it in between. Channels are no locks.
//!
//! ## References
//! Go: `sync/mutex.go`, `runtime/sema.go`; runtime/pprof, the mutex profile.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use holdup_events::tables::{Slice, ThreadState};
use holdup_events::{ProcessId, StackId, ThreadId, Timestamp};

use super::{ChargedVerdict, Info};
use crate::charge::Charge;
use crate::derive::class::Class;
use crate::derive::ledger::class_of_slice;
use crate::derive::own_places::{OwnFrames, Places};
use crate::derive::task_locks::{Held, TaskLock};
use crate::finding::{Confidence, Finding, Gain};
use crate::merging::Charged;
use crate::scene::{GAIN_MIN, Scene};
use crate::wording::{count, percent, rounded, thread, time};

pub(super) const INFO: Info = Info {
    name: "task-lock",
    summary: "Tasks wait for a lock while their runtime's threads idle",
    of_waits_alone: false,
};

/// Fewer such wakeups may be the start and the end of the tasks.
const WAKEUPS_MIN: u64 = 50;
/// Fewer waits that were told are no habit.
const WAITS_MIN: u64 = 10;

/// So many samples in functions of contended locks are no chance.
const SAMPLES_MIN: usize = 5;
/// Locks that are named beside the first, with so much of the waiting (0 to 1).
const OTHERS_MAX: usize = 2;
const OTHERS_SHARE_MIN: f64 = 0.1;
/// What holders did is told if it is so much of the time, and advised about from so much on (0 to 1).
const MEANWHILE_MIN: f64 = 0.05;
const ADVISED_MIN: f64 = 0.3;
/// Waits of a class are holders' if so much of them is (0 to 1).
const HOLDERS_MIN: f64 = 0.6;
/// All of the time, as far as it is of interest (0 to 1).
const ALL: f64 = 0.97;

pub(super) fn judge(scene: &Scene) -> ChargedVerdict {
    scene.needs_wait_reasons()?;
    let trace = scene.trace;
    let unlocking = scene.derived.roles.unlocking_code(trace);
    if !unlocking.contains(&true) && scene.derived.task_locks.locks.is_empty() {
        return Ok(Vec::new());
    }
    let unlocks = |stack: StackId| {
        trace.stack_frames(stack).any(|frame| unlocking.get(frame.index()).copied().unwrap_or(false))
    };
    let stacks: Vec<bool> =
        (0..trace.stacks.rows().len() as u32).map(|stack| unlocks(StackId(stack))).collect();
    let beside = beside_waits(scene);
    let is_it = |slice: &Slice| {
        if !idles(scene, slice) {
            return false;
        }
        if beside.contains(&(slice.thread, slice.start)) {
            return true;
        }
        !scene.derived.task_locks.tells(trace.threads[slice.thread.index()].process, slice)
            && trace.ended_by(slice).is_some_and(|wakeup| stacks[wakeup.stack.index()])
    };
    let charge = Charge::of(trace, is_it);
    Ok(finding(scene, charge).into_iter().collect())
}

/// What holders waited for meanwhile, where a thread's waits of a class are mostly such; of time that was not looked at, all of
/// these.
fn held(scene: &Scene, lock: &TaskLock) -> Charge {
    let trace = scene.trace;
    let of_holders: BTreeSet<(ThreadId, Timestamp)> = lock.held.iter().copied().collect();
    let is_of = |slice: &Slice| trace.threads[slice.thread.index()].process == lock.process;
    let is_told = |slice: &Slice| scene.derived.task_locks.tells(lock.process, slice);
    let is_held = |slice: &Slice| of_holders.contains(&(slice.thread, slice.start));
    let mut waits: BTreeMap<(ThreadId, Class), (u64, u64)> = BTreeMap::new();
    let targets = trace.target_threads().filter(|id| trace.threads[id.index()].process == lock.process);
    for slice in targets.flat_map(|thread| trace.slices.of(thread)).filter(|slice| is_told(slice)) {
        if let Some(class) = waited(scene, &slice) {
            let sums = waits.entry((slice.thread, class)).or_default();
            sums.1 += slice.duration().0;
            sums.0 += if is_held(&slice) { slice.duration().0 } else { 0 };
        }
    }
    let mostly = |thread: ThreadId, class: Class| {
        let known = waits.get(&(thread, class));
        known.is_some_and(|(held, all)| *held as f64 >= HOLDERS_MIN * *all as f64)
    };
    Charge::of(trace, |slice| {
        let is_mostly = |class| mostly(slice.thread, class);
        is_of(slice) && waited(scene, slice).is_some_and(is_mostly) && (is_held(slice) || !is_told(slice))
    })
}

/// What else than another thread a thread waits for, if it does not only keep house.
fn waited(scene: &Scene, slice: &Slice) -> Option<Class> {
    if scene.derived.roles.is_idle_sleep(scene.trace, slice) {
        return None;
    }
    let wakeups = scene.trace.wakeups.of(slice.thread);
    let before = wakeups.partition_point(|wakeup| wakeup.at < slice.start);
    let class = class_of_slice((scene.trace, &scene.derived.roles), slice, &mut &wakeups[before..])?;
    class.waits_for_others().then_some(class)
}

/// A thread has nothing to do.
fn idles(scene: &Scene, slice: &Slice) -> bool {
    slice.state == ThreadState::Blocked && scene.class(slice) == Some(Class::WorkWait)
}

/// Who idles beside tasks that wait.
fn beside_waits(scene: &Scene) -> BTreeSet<(ThreadId, Timestamp)> {
    let (trace, locks) = (scene.trace, &scene.derived.task_locks);
    let processes: BTreeSet<ProcessId> = locks.locks.iter().map(|lock| lock.process).collect();
    let mut beside = BTreeSet::new();
    for process in processes {
        let of_it = trace.target_threads().filter(|id| trace.threads[id.index()].process == process);
        let slices = of_it.flat_map(|id| trace.slices.of(id));
        let idle: Vec<Slice> = slices.filter(|slice| idles(scene, slice)).collect();
        beside.extend(locks.could_have_run(process, &idle));
    }
    beside
}

fn finding(scene: &Scene, charge: Charge) -> Option<Charged> {
    let (samples, share, places) = contended(scene);
    let stalled = scene.gain(&scene.stall(&charge), |_, _| 0.0).high;
    let called = scene.of_wall_if_run(share * scene.derived.ledger.running_ns() as f64);
    let gain = Gain { low: 0.0, high: (stalled + called).min(1.0) };
    let (first, told) = told(scene, &charge);
    let enough = charge.count() >= WAKEUPS_MIN || first.is_some_and(|lock| lock.waits >= WAITS_MIN);
    if !enough || stalled < GAIN_MIN {
        return None;
    }
    let sampled = samples >= SAMPLES_MIN;
    let mut summary = told;
    summary.push(idled(scene, &charge, first.is_some()));
    if let (Some((place, _)), None) = (places.first().filter(|_| sampled), first) {
        summary.push(format!(
            "{} of the CPU are in functions of contended locks, most often called by {place}.",
            count(samples as u64, "sample")
        ));
    }
    if first.is_none() {
        summary.push("Which task waited, and for which lock, was not told.".into());
    }
    let finding = Finding {
        rule: INFO.name,
        subject: match (first, places.first()) {
            (Some(lock), _) if !lock.place.is_empty() => subject(lock),
            (_, Some((place, _))) if sampled => format!("locks taken in {place}"),
            _ => format!("locks of tasks in {}", process(scene, &charge)),
        },
        summary,
        cost_ns: charge.ns(),
        gain,
        likely: None,
        confidence: scene.confidence(match first {
            Some(_) => Confidence::High,
            None if sampled => Confidence::Medium,
            None => Confidence::Low,
        }),
        evidence: scene.longest_of(&charge, |_| "idles while tasks wait for a lock".to_owned()),
        advice: advice(first),
    };
    // Beside that, what whoever held it waited for: that is told with the lock.
    let charge = match first {
        Some(lock) => charge.and(scene.trace, &held(scene, lock)),
        None => charge,
    };
    Some(Charged { finding, charge })
}

fn subject(lock: &TaskLock) -> String {
    let locks = if lock.objects == 1 { "lock" } else { "locks" };
    format!("{locks} taken in {}", lock.place)
}

/// The lock that tasks of a process that idles waited for most, and what was told of it.
fn told<'a>(scene: &Scene<'a>, charge: &Charge) -> (Option<&'a TaskLock>, Vec<String>) {
    let trace = scene.trace;
    let all = &scene.derived.task_locks;
    let idling: BTreeSet<ProcessId> =
        charge.slices(trace).map(|slice| trace.threads[slice.thread.index()].process).collect();
    let process = all.locks.iter().map(|lock| lock.process).find(|process| idling.contains(process));
    let locks: Vec<&TaskLock> = all.locks.iter().filter(|lock| Some(lock.process) == process).collect();
    let Some(first) = locks.first().filter(|lock| lock.waits >= WAITS_MIN) else { return (None, Vec::new()) };
    let part = all.told_part(trace, first.process);
    // Who waited throughout a window is not seen.
    let (least, looked) = match part >= ALL {
        true => ("", String::new()),
        false => {
            ("at least ", format!(" They are many: they were looked at in {} of the time.", percent(part)))
        }
    };
    let mut summary = vec![format!(
        "Tasks waited for {}: {least}{} on average, {}, {} at the most.{looked}",
        said(first),
        rounded(all.waiting(trace, first)),
        count(first.waits, "wait"),
        time(first.longest_ns),
    )];
    summary.extend(meanwhile(first));
    let all_ns: u64 = locks.iter().map(|lock| lock.wait_ns).sum();
    let share = |lock: &TaskLock| lock.wait_ns as f64 / all_ns.max(1) as f64;
    let others = locks.iter().skip(1).filter(|lock| share(lock) >= OTHERS_SHARE_MIN).take(OTHERS_MAX);
    let others: Vec<String> =
        others.map(|lock| format!("{} of the waiting is for {}", percent(share(lock)), said(lock))).collect();
    if !others.is_empty() {
        summary.push(format!("{}.", others.join(", ")));
    }
    (Some(first), summary)
}

/// Which lock it is.
fn said(lock: &TaskLock) -> String {
    let place = if lock.place.is_empty() { "an unknown function" } else { &lock.place };
    let through = match lock.through.as_str() {
        "" => String::new(),
        through => format!(" ({through})"),
    };
    match lock.objects {
        1 => format!("a lock taken in {place}{through}"),
        many => format!("{many} locks taken in {place}{through}"),
    }
}

/// What holders did, and where they let it go.
fn meanwhile(lock: &TaskLock) -> Option<String> {
    let all_ns: u64 = lock.meanwhile.iter().map(|(_, ns)| ns).sum();
    let share = |ns: u64| ns as f64 / all_ns.max(1) as f64;
    let parts = lock.meanwhile.iter().filter(|(_, ns)| share(*ns) >= MEANWHILE_MIN);
    let parts: Vec<String> =
        parts.map(|(held, ns)| format!("{} {}", did(*held), percent(share(*ns)))).collect();
    if parts.is_empty() {
        return None;
    }
    let at = lock.let_go.first().filter(|(place, _)| *place != lock.place);
    let at = at.map_or_else(String::new, |(place, _)| format!(", in {place},"));
    Some(format!("The threads that let it go{at} meanwhile {}.", parts.join(", ")))
}

/// As in "the threads meanwhile …".
fn did(held: Held) -> &'static str {
    match held {
        Held::Ran => "ran",
        Held::Waited(Class::RunQueue) => "waited for a CPU",
        Held::Waited(Class::IoWait) => "waited for the disk",
        Held::Waited(Class::NetWait) => "waited for a peer",
        Held::Waited(Class::PipeWait) => "waited for a pipe",
        Held::Waited(Class::Sleep) => "slept",
        Held::Waited(Class::FaultWait) => "waited for a page",
        Held::Waited(Class::ChildWait) => "waited for a child process",
        Held::Waited(Class::WorkWait) => "had nothing to run",
        Held::Waited(_) => "waited for something else",
    }
}

fn advice(lock: Option<&TaskLock>) -> Vec<String> {
    let all_ns: u64 = lock.iter().flat_map(|lock| &lock.meanwhile).map(|(_, ns)| ns).sum();
    let share = |wanted: &dyn Fn(Held) -> bool| {
        let rows = lock.iter().flat_map(|lock| &lock.meanwhile);
        rows.filter(|(held, _)| wanted(*held)).map(|(_, ns)| *ns).sum::<u64>() as f64 / all_ns.max(1) as f64
    };
    let mut advice = Vec::new();
    if lock.is_none() {
        advice.push("Find the lock: the runtime's own trace (Go: runtime/trace, read by holdup import) or its mutex profile".into());
    }
    if share(&|held| matches!(held, Held::Waited(class) if class.waits_for_others())) >= ADVISED_MIN {
        advice.push(
            "Do not wait for anything while it is held: do that before it is taken, or after it is let go"
                .into(),
        );
    }
    if share(&|held| held == Held::Waited(Class::RunQueue)) >= ADVISED_MIN {
        advice.push(
            "Whoever holds it waits for a CPU: fewer threads than CPUs want to run, or a lock held for less"
                .into(),
        );
    }
    advice.push("Hold it for less time, split it, or collect per task and merge once".into());
    advice
}

/// Who idled, and who ended that most often.
fn idled(scene: &Scene, charge: &Charge, told: bool) -> String {
    let (times, all) = (count(charge.count(), "time"), time(charge.ns()));
    let share = percent(scene.of_thread_time(charge.ns()));
    match told {
        true => format!(
            "{times}, {all} in all ({share} of all thread time), a thread had nothing to run meanwhile."
        ),
        false => format!(
            "{times}, {all} in all ({share} of all thread time), threads idled until a lock of tasks was let go, most often by {}.",
            wakers(scene, charge).first().map_or("?".to_owned(), |(id, _)| thread(scene.trace, *id)),
        ),
    }
}
/// Samples in functions that are called only where somebody waits for a lock, which part of all they are (0 to 1), and from where in
/// the program.
fn contended(scene: &Scene) -> (usize, f64, Vec<(String, u64)>) {
    let trace = scene.trace;
    let code = scene.derived.roles.lock_code(trace);
    let is_contended = |frame: usize| code.get(frame).copied().flatten() == Some(true);
    let own = OwnFrames::new(trace);
    let mut own_places = Places::new(trace, &own);
    let mut known: HashMap<StackId, Option<String>> = HashMap::new();
    let mut places: BTreeMap<String, u64> = BTreeMap::new();
    let targets = trace.samples.iter().filter(|sample| trace.threads[sample.thread.index()].target);
    let mut all = 0usize;
    for sample in targets {
        all += 1;
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
    (samples, samples as f64 / all.max(1) as f64, places)
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
