//! # task-lock: tasks wait for a lock, and the runtime's threads idle
//!
//! ## Symptoms
//! Tasks that a runtime carries on its threads (goroutines) and that wait for a lock, while threads of the
//! runtime are idle. Probes record each wait: its start, its lock, its place in the program, and the
//! releasing task. Without probes, the stack of a thread that releases such a lock and so wakes a thread
//! shows the wait.
//!
//! ## Why it hurts
//! The kernel does not see a task that waits for a lock: its thread takes another task, or idles. If many
//! tasks need one lock, the program seems to have no work, on idle CPUs.
//!
//! ## How it decides
//! It adds up the idle waits of threads during which tasks waited for a lock for most of their length. It
//! counts at most as many at once as tasks that waited. If waits were not recorded, it uses the mean number
//! from the recorded windows, and the idle waits that a lock's release ended. The upper bound of the gain is
//! that these threads had run on idle CPUs. It also removes the time in functions that are only called if a
//! thread waits. The lower bound is 0, because the work under a lock may have to be serialized. The finding
//! is a hint only if no wait was recorded and no running thread was sampled in functions of contended locks.
//!
//! ## What to do
//! As for any lock: hold it for less time, split it, or accumulate per task and merge once. The holder's
//! state shows the remedy. A holder that waits for a disk or a peer should do so before or after it holds the
//! lock.
//!
//! ## Blind spots
//! Waits are recorded with BPF (before Linux 6.6 as root only) if the runtime's functions are found (Go 1.17
//! and later, stripped or not). If tasks wait more than some thousand times a second, they are recorded in
//! windows of each second, and all figures are of these. The holder is the task that released the lock to the
//! next waiter. Other tasks may have held it in between. Channels are no locks: `pool-exhausted` reports those
//! that serve as semaphores.
//!
//! ## References
//! Go: `sync/mutex.go`, `runtime/sema.go`, runtime/pprof, the mutex profile.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use holdup_events::tables::{Slice, ThreadState};
use holdup_events::{ProcessId, StackId, ThreadId, Timestamp};

use crate::charge::Charge;
use crate::derive::class::Class;
use crate::derive::ledger::class_of_slice;
use crate::derive::own_places::{OwnFrames, Places};
use crate::derive::task_locks::{Held, TaskLock};
use crate::finding::{About, Confidence, Finding, Gain};
use crate::rule::{Charged, ChargedVerdict, Explains, Info, Rule};
use crate::scene::{GAIN_MIN, Scene};
use crate::wording::{count, percent, rounded, thread, time};

pub(super) static INFO: Info = Info {
    explains: &[
        // A task that waits for a lock resembles a worker without work next to a worker that is active alone.
        Explains::shared(&super::serial_section::INFO),
        // Tasks wait because the holder sleeps, or waits for a disk or a peer.
        Explains::shared(&super::oversleep::INFO),
        Explains::shared(&super::poll_loop::INFO),
        Explains::shared(&super::blocking_io::INFO),
        Explains::shared(&super::sync_per_item::INFO),
        // The task that releases such a lock wakes a worker for the next task.
        Explains::shared(&super::wakeup_ping_pong::INFO),
    ],
    ..Info::new("task-lock", "Tasks wait for a lock while the runtime's threads are idle")
};

/// Fewer such wakeups may be the start and the end of the tasks.
const WAKEUPS_MIN: u64 = 50;
/// Minimum number of recorded waits.
const WAITS_MIN: u64 = 10;

/// Minimum number of samples in functions of contended locks. Fewer may be chance.
const SAMPLES_MIN: usize = 5;
/// Maximum number of locks that are named after the first, and their minimum share of the waiting (0 to 1).
const OTHERS_MAX: usize = 2;
const OTHERS_SHARE_MIN: f64 = 0.1;
/// Minimum shares of the time (0 to 1) for a holder's state to be reported, and for advice about it.
const MEANWHILE_MIN: f64 = 0.05;
const ADVISED_MIN: f64 = 0.3;
/// Minimum share of holders' waits among a thread's waits of a class (0 to 1).
const HOLDERS_MIN: f64 = 0.6;
/// All of the time, as far as it is of interest (0 to 1).
const ALL: f64 = 0.97;

pub(super) struct TaskLockRule;

impl Rule for TaskLockRule {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
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
        let beside = idle_waits(scene);
        let is_it = |slice: &Slice| {
            if !idles(scene, slice) {
                return false;
            }
            if beside.contains(&(slice.thread, slice.start)) {
                return true;
            }
            !scene.derived.task_locks.observed.is_recorded(trace.threads[slice.thread.index()].process, slice)
                && trace.ended_by(slice).is_some_and(|wakeup| stacks[wakeup.stack.index()])
        };
        let charge = Charge::matching(trace, is_it);
        Ok(finding(scene, charge).into_iter().collect())
    }
}

/// The holders' waits while other tasks waited, if a thread's waits of a class are mostly such. For time
/// outside the windows, all of these waits.
fn held(scene: &Scene, lock: &TaskLock) -> Charge {
    let trace = scene.trace;
    let of_holders: BTreeSet<(ThreadId, Timestamp)> = lock.held.iter().copied().collect();
    let is_of = |slice: &Slice| trace.threads[slice.thread.index()].process == lock.process;
    let is_told = |slice: &Slice| scene.derived.task_locks.observed.is_recorded(lock.process, slice);
    let is_held = |slice: &Slice| of_holders.contains(&(slice.thread, slice.start));
    let mut waits: BTreeMap<(ThreadId, Class), (u64, u64)> = BTreeMap::new();
    let targets = trace.target_threads().filter(|id| trace.threads[id.index()].process == lock.process);
    for slice in targets.flat_map(|thread| trace.slices.of_thread(thread)).filter(|slice| is_told(slice)) {
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
    Charge::matching(trace, |slice| {
        let is_mostly = |class| mostly(slice.thread, class);
        is_of(slice) && waited(scene, slice).is_some_and(is_mostly) && (is_held(slice) || !is_told(slice))
    })
}

/// Class of a thread's wait, if it is not for another thread and no housekeeping.
fn waited(scene: &Scene, slice: &Slice) -> Option<Class> {
    if scene.derived.roles.is_idle_sleep(scene.trace, slice) {
        return None;
    }
    let wakeups = scene.trace.wakeups.of_thread(slice.thread);
    let before = wakeups.partition_point(|wakeup| wakeup.at < slice.start);
    let class = class_of_slice((scene.trace, &scene.derived.roles), slice, &mut &wakeups[before..])?;
    class.waits_outside_program().then_some(class)
}

/// A thread has nothing to do.
fn idles(scene: &Scene, slice: &Slice) -> bool {
    slice.state == ThreadState::Blocked && scene.class(slice) == Some(Class::WorkWait)
}

/// Idle waits of threads during which tasks wait.
fn idle_waits(scene: &Scene) -> BTreeSet<(ThreadId, Timestamp)> {
    let (trace, locks) = (scene.trace, &scene.derived.task_locks);
    let processes: BTreeSet<ProcessId> = locks.locks.iter().map(|lock| lock.process).collect();
    let mut beside = BTreeSet::new();
    for process in processes {
        let of_it = trace.target_threads().filter(|id| trace.threads[id.index()].process == process);
        let slices = of_it.flat_map(|id| trace.slices.of_thread(id));
        let idle: Vec<Slice> = slices.filter(|slice| idles(scene, slice)).collect();
        beside.extend(locks.observed.could_have_run(process, &idle));
    }
    beside
}

fn finding(scene: &Scene, charge: Charge) -> Option<Charged> {
    let (samples, share, places) = contended(scene);
    let stalled = scene.gain(&scene.stall(&charge), |_, _| 0.0).high;
    let called = scene.of_wall_if_run(share * scene.derived.ledger.running_ns() as f64);
    let gain = Gain { low: 0.0, high: (stalled + called).min(1.0) };
    let (first, told) = reported(scene, &charge);
    let enough = charge.count() >= WAKEUPS_MIN || first.is_some_and(|lock| lock.waits >= WAITS_MIN);
    if !enough || stalled < GAIN_MIN {
        return None;
    }
    let sampled = samples >= SAMPLES_MIN;
    let mut summary = told;
    summary.push(idled(scene, &charge, first.is_some()));
    if let (Some((place, _)), None) = (places.first().filter(|_| sampled), first) {
        summary.push(format!(
            "{} of the CPU time is in functions of contended locks, most often called by {place}.",
            count(samples as u64, "sample")
        ));
    }
    if first.is_none() {
        summary.push("Which task waited for which lock was not recorded.".into());
    }
    let finding = Finding {
        rule: INFO.name,
        about: About::Other,
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
    // Adds the holders' waits, which are reported with the lock.
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

/// The lock for which tasks of an idling process waited most, and its sentences.
fn reported<'a>(scene: &Scene<'a>, charge: &Charge) -> (Option<&'a TaskLock>, Vec<String>) {
    let trace = scene.trace;
    let all = &scene.derived.task_locks;
    let idling: BTreeSet<ProcessId> =
        charge.slices(trace).map(|slice| trace.threads[slice.thread.index()].process).collect();
    let process = all.locks.iter().map(|lock| lock.process).find(|process| idling.contains(process));
    let locks: Vec<&TaskLock> = all.locks.iter().filter(|lock| Some(lock.process) == process).collect();
    let Some(first) = locks.first().filter(|lock| lock.waits >= WAITS_MIN) else { return (None, Vec::new()) };
    let part = all.observed.recorded_share(trace, first.process);
    // A wait that lasts for a whole window is not seen.
    let (least, looked) = match part >= ALL {
        true => ("", String::new()),
        false => ("at least ", format!(" They were sampled in windows: {} of the time.", percent(part))),
    };
    let mut summary = vec![format!(
        "Tasks waited for {}: {least}{} on average, {}, at most {}.{looked}",
        lock_name(first),
        rounded(all.waiting(trace, first)),
        count(first.waits, "wait"),
        time(first.longest_ns),
    )];
    summary.extend(holders_sentence(first));
    let all_ns: u64 = locks.iter().map(|lock| lock.wait_ns).sum();
    let share = |lock: &TaskLock| lock.wait_ns as f64 / all_ns.max(1) as f64;
    let others = locks.iter().skip(1).filter(|lock| share(lock) >= OTHERS_SHARE_MIN).take(OTHERS_MAX);
    let others: Vec<String> = others
        .map(|lock| format!("{} of the waiting is for {}", percent(share(lock)), lock_name(lock)))
        .collect();
    if !others.is_empty() {
        summary.push(format!("{}.", others.join(", ")));
    }
    (Some(first), summary)
}

/// Which lock it is.
fn lock_name(lock: &TaskLock) -> String {
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

/// A sentence on the holders' states, and the places of their releases.
fn holders_sentence(lock: &TaskLock) -> Option<String> {
    let all_ns: u64 = lock.holder_activity.iter().map(|(_, ns)| ns).sum();
    let share = |ns: u64| ns as f64 / all_ns.max(1) as f64;
    let parts = lock.holder_activity.iter().filter(|(_, ns)| share(*ns) >= MEANWHILE_MIN);
    let parts: Vec<String> =
        parts.map(|(held, ns)| format!("{} {}", did(*held), percent(share(*ns)))).collect();
    if parts.is_empty() {
        return None;
    }
    let at = lock.let_go.first().filter(|(place, _)| *place != lock.place);
    let at = at.map_or_else(String::new, |(place, _)| format!(", in {place},"));
    Some(format!("During these waits the threads that release it{at} {}.", parts.join(", ")))
}

/// A verb that fits "the threads … at that time".
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
        Held::Waited(Class::WorkWait) => "were idle",
        Held::Waited(_) => "waited for another reason",
    }
}

fn advice(lock: Option<&TaskLock>) -> Vec<String> {
    let all_ns: u64 = lock.iter().flat_map(|lock| &lock.holder_activity).map(|(_, ns)| ns).sum();
    let share = |wanted: &dyn Fn(Held) -> bool| {
        let rows = lock.iter().flat_map(|lock| &lock.holder_activity);
        rows.filter(|(held, _)| wanted(*held)).map(|(_, ns)| *ns).sum::<u64>() as f64 / all_ns.max(1) as f64
    };
    let mut advice = Vec::new();
    if lock.is_none() {
        advice.push("Find the lock in the runtime's own trace (Go: runtime/trace, read by holdup import) or mutex profile".into());
    }
    if share(&|held| matches!(held, Held::Waited(class) if class.waits_outside_program())) >= ADVISED_MIN {
        advice.push("Do not wait while holding it: do so before taking it or after releasing it".into());
    }
    if share(&|held| held == Held::Waited(Class::RunQueue)) >= ADVISED_MIN {
        advice.push(
            "Its holder waits for a CPU: use fewer runnable threads than CPUs, or hold the lock for less time"
                .into(),
        );
    }
    advice.push("Hold it for less time, split it, or collect per task and merge once".into());
    advice
}

/// A sentence on the idle threads, and on the threads that most often ended their waits.
fn idled(scene: &Scene, charge: &Charge, told: bool) -> String {
    let (times, all) = (count(charge.count(), "time"), time(charge.ns()));
    let share = percent(scene.of_thread_time(charge.ns()));
    match told {
        true => format!(
            "{times}, {all} in total ({share} of all thread time), a thread was idle during that time."
        ),
        false => format!(
            "{times}, {all} in total ({share} of all thread time), threads idled until a lock of tasks was released, most often by {}.",
            wakers(scene, charge).first().map_or("?".to_owned(), |(id, _)| thread(scene.trace, *id)),
        ),
    }
}
/// Samples in functions that are called only if a thread waits for a lock. Returns their number, their share
/// of all samples (0 to 1), and their places in the program.
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
            // The runtime's functions on the way there are skipped if they belong to a lock.
            let caller = frames.find(|frame| code.get(frame.index()).copied().flatten().is_none());
            let caller = own_places.nearest_own(sample.stack).or(caller);
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

/// Releasing threads, by number of releases, the most frequent first.
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
