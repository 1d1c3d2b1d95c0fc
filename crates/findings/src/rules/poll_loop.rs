//! # poll-loop: a thread checks periodically for work
//!
//! ## Symptoms
//! Threads that a clock wakes (a sleep, or a timeout of a wait), that run briefly, then sleep for the same
//! object again. It reports how often they do so, and for how long no other thread of the program was
//! runnable in that time.
//!
//! ## Why it hurts
//! A polling thread notices an event late: by half a sleep on average. If other threads wait for it, all of
//! them wait for its clock. Shorter sleeps cost CPU time instead, and wake sleeping CPUs.
//!
//! ## How it decides
//! The thread must mostly poll. After most waits that a clock ended, it runs briefly compared with the wait,
//! and waits in the same way again. The upper bound of the gain is its sleeping time in which no thread of
//! the program was running or runnable. The lower bound is the time that other threads waited for it in its
//! last sleep. A thread that began to wait then, and was woken after the check, had its data ready. For
//! external events the recording does not show when they occurred.
//!
//! A housekeeping thread is left out: it hardly runs, only waits for clocks and wakes no thread, while other
//! threads do the work. So is a runtime's own thread that monitors the calls of other threads (Go's sysmon),
//! because users cannot change it. So are tickers
//! of a process that was recorded to its end. A ticker is not the first thread, its sleep is not on the critical
//! path, and no thread waits for its next wakeup.
//!
//! An event loop whose waits also end by events notices these at once. It sleeps for timers, whose purpose is
//! not known, so the finding is a hint. There is none if the threads that wait for its responses are known
//! (one-at-a-time, batch-straggler, skewed-workers). For timers of other loops, time with other activity
//! during such waits is not counted.
//!
//! The CPU time of the polling is reported, but not counted. The finding is only a hint if the program did
//! little work at all, or waits for the outside most of the time. An idle program looks the same.
//!
//! ## What to do
//! Wait for the event itself: a condition variable, an eventfd, a futex, inotify, a blocking read, with the
//! timeout as a fallback. If a clock is necessary, make the last sleeps shorter.
//!
//! ## Blind spots
//! A thread that polls without sleeping (yields, spins) runs all the time and is not seen here. Sleeping that
//! overlaps another thread's work is not counted, even if that work needs the CPU only briefly.
//!
//! ## References
//! Linux `timer_slack` in `prctl(2)`: a sleep takes at least 50 µs longer than requested. `eventfd(2)`,
//! `inotify(7)`.

use std::collections::BTreeSet;

use holdup_events::event::WakeContext;
use holdup_events::tables::{Slice, ThreadState};
use holdup_events::{ProcessId, ThreadId};

use super::{batch_straggler, one_at_a_time, oversleep, skewed_workers};
use crate::charge::Charge;
use crate::derive::class::{CLASSES, Class};
use crate::derive::clocked::{self, Clocked};
use crate::derive::{is_first_thread, ticker_handovers};
use crate::finding::{About, Confidence, Finding, Gain};
use crate::known_waits;
use crate::removal::Removal;
use crate::rule::{Cause, Charged, ChargedVerdict, Estimate, Explains, Info, Rule};
use crate::scene::{GAIN_MIN, Scene};
use crate::wording::{count, percent, thread, time};

pub(super) static INFO: Info = Info {
    estimate: Estimate::Computed,
    explains: &[
        // A clock that all wait for.
        Explains::shared(&super::oversleep::INFO),
    ],
    ..Info::new("poll-loop", "A thread sleeps and polls instead of waiting for the event")
};

/// Fewer looks are not a loop.
const LOOKS_MIN: u64 = 50;

/// Minimum share of the waits ended by a clock that only a check follows.
const LOOK_SHARE_MIN: f64 = 0.5;

/// Maximum mean sleep (ns) of a polling thread. With longer sleeps it is a housekeeping thread, and no thread
/// is meant to wait for it.
const SLEEP_MAX_NS: u64 = 200_000_000;

/// A program that runs less than this share of the wall time is idle, for all that can be seen.
const BUSY_MIN: f64 = 0.05;

/// Whether a thread looks again and again.
pub(super) fn is_it(one: &Clocked) -> bool {
    !one.keeps_house
        && !one.idles
        && one.looks >= LOOKS_MIN
        && one.looks as f64 >= LOOK_SHARE_MIN * one.sleeps as f64
        && one.sleep_ns / one.sleeps.max(1) <= SLEEP_MAX_NS
}

/// Whether it is a runtime's own thread that monitors the calls of other threads. Users cannot change its
/// sleeps.
pub(super) fn is_runtimes(scene: &Scene, one: &Clocked) -> bool {
    ticker_handovers::hands_over(scene.trace, &scene.derived.roles, one.thread)
}

/// Maximum share of a ticker's sleeping that is on the critical path, and for which other threads wait. At the
/// end of a run it is joined once, in the middle of a sleep.
const TICKER_MAX: f64 = 0.1;

/// Whether it is a ticker: a thread that sleeps for fixed times, and whose sleep delays no thread. The run ends
/// without it, because it is neither a process's first thread nor on the critical path. No other thread waits for
/// its next wakeup.
pub(super) fn is_ticker(scene: &Scene, one: &Clocked) -> bool {
    let trace = scene.trace;
    let process = |id: ThreadId| trace.threads[id.index()].process;
    let goes_on = |id: ThreadId| process(id) == process(one.thread) && trace.threads[id.index()].alive_at_end;
    // The path of a run that goes on depends on the thread that is last in the recording.
    if is_first_thread(trace, one.thread) || trace.target_threads().any(goes_on) {
        return false;
    }
    let few = |ns: u64| ns as f64 <= TICKER_MAX * one.sleep_ns as f64 && scene.of_wall(ns as f64) < GAIN_MIN;
    let path = scene.derived.critical_path.threads.iter().find(|(id, _)| *id == one.thread);
    let is_wait = |class: &Class| !class.on_cpu() && *class != Class::RunQueue;
    let waited_ns = |by_class: &[u64; CLASSES]| -> u64 {
        Class::ALL.into_iter().filter(is_wait).map(|class| by_class[class as usize]).sum()
    };
    few(path.map_or(0, |(_, by_class)| waited_ns(by_class)))
        && few(clocked::waited_for(trace, |id| id == one.thread))
}

pub(super) struct PollLoop;

impl Rule for PollLoop {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        scene.needs_wait_reasons()?;
        let looks = scene.derived.clocked.iter().copied().filter(is_it);
        let looks = looks.filter(|one| !is_runtimes(scene, one) && !is_ticker(scene, one));
        let open = Open::derive(scene);
        let (timers, polling): (Vec<Clocked>, Vec<Clocked>) = looks.partition(|one| open.holds(scene, one));
        // If the process's clients are known, they are reported. The purpose of its clock is not known here.
        let is_asked = |one: &Clocked| {
            process_of(scene, one).is_some_and(|process| {
                one_at_a_time::reports_waits_for(scene, process)
                    || batch_straggler::reports_requests_to(scene, process)
                    || skewed_workers::reports_requests_to(scene, process)
            })
        };
        let timers: Vec<Clocked> = timers.into_iter().filter(|one| !is_asked(one)).collect();
        let kinds = [(polling, false), (timers, true)];
        Ok(kinds.iter().filter_map(|(threads, are_timers)| finding(scene, threads, *are_timers)).collect())
    }

    fn removal(&self, cause: &Cause) -> Option<Removal> {
        Removal::slices(cause.charge)
    }
}

/// Processes in which a thread notices whatever comes while it sleeps.
struct Open(BTreeSet<ProcessId>);

impl Open {
    fn derive(scene: &Scene) -> Open {
        let open = scene.derived.clocked.iter().filter(|one| one.is_open());
        Open(open.filter_map(|one| process_of(scene, one)).collect())
    }

    /// Whether the thread holds up others itself, or another thread does that carries the same tasks.
    fn holds(&self, scene: &Scene, one: &Clocked) -> bool {
        let Some(process) = process_of(scene, one) else { return false };
        let carries = || scene.derived.roles.runtimes_in(process).any(|runtime| runtime.carries_tasks);
        one.is_open() || self.0.contains(&process) && carries()
    }
}

fn process_of(scene: &Scene, one: &Clocked) -> Option<ProcessId> {
    scene.trace.threads.get(one.thread.index()).map(|thread| thread.process)
}

/// The finding for polling threads, or for timers if the threads wait for arbitrary events in between.
fn finding(scene: &Scene, polling: &[Clocked], are_timers: bool) -> Option<Charged> {
    let most = polling.iter().max_by_key(|one| (one.look_ns, std::cmp::Reverse(one.thread)))?;
    let polls = |id: ThreadId| polling.binary_search_by_key(&id, |one| one.thread).is_ok();
    let charge =
        clocked::charge(scene.trace, polls, |slice| scene.derived.roles.is_idle_sleep(scene.trace, slice));
    let stall = scene.stall_quiet(&charge);
    let run_ns: u64 = polling.iter().map(|one| one.look_run_ns).sum();
    let own_ns = if are_timers { unexplained_ns(scene, &charge, stall.saved_ns) } else { stall.saved_ns };
    let high = scene.of_wall(own_ns).clamp(0.0, 1.0);
    if high < GAIN_MIN {
        return None;
    }
    let ready_ns = if are_timers { 0 } else { clocked::waited_for(scene.trace, polls) };
    let low = scene.of_wall(ready_ns as f64).min(high);
    let by_clock = |slice: &Slice| {
        let ended = || scene.trace.ended_by(slice).is_some_and(|wakeup| wakeup.context == WakeContext::Timer);
        slice.state == ThreadState::Blocked && polls(slice.thread) && ended()
    };
    let quiet = format!(
        "For {} ({} of the run) it slept while no thread of the program was runnable. Polling took {} of CPU time.",
        time(stall.saved_ns as u64),
        percent(scene.of_wall(stall.saved_ns)),
        time(run_ns),
    );
    let others = match are_timers {
        false => {
            format!("Other threads waited {} for its next poll, counted from their requests.", time(ready_ns))
        }
        true => format!(
            "{} ended such waits: events are noticed at once, and the sleeps are timers.",
            count(polling.iter().map(|one| one.events).sum(), "event"),
        ),
    };
    let tasks = if are_timers { oversleep::tasks(scene, polling) } else { None };
    let place =
        tasks.and_then(|tasks| oversleep::of_tasks(&tasks)).or_else(|| scene.waits_come_from(by_clock));
    let known = known_waits::find(scene, &charge, |runtime| &runtime.sleeping);
    let (said, known) = known.map(|known| (known.sentence, known.advice)).unzip();
    let summary = [Some(slept(polling, run_ns)), place, said, Some(quiet), Some(others)];
    let sure = if are_timers { Confidence::Low } else { sure(scene, polls) };
    let finding = Finding {
        rule: INFO.name,
        about: About::Other,
        subject: thread(scene.trace, most.thread),
        summary: summary.into_iter().flatten().collect(),
        cost_ns: stall.by_thread.values().sum::<f64>() as u64 + run_ns,
        gain: Gain { low, high },
        likely: None,
        confidence: scene.confidence(sure),
        evidence: scene.longest_of(&charge, |_| "sleeps before its next poll".to_owned()),
        advice: known.into_iter().chain(if are_timers { timers_advice() } else { advice(polling) }).collect(),
    };
    Some(Charged { finding, charge })
}

/// The part of the timers' quiet time that reported waits for responses do not cover (ns). These waits are
/// the better explanation.
fn unexplained_ns(scene: &Scene, timers: &Charge, quiet_ns: f64) -> f64 {
    let waits =
        one_at_a_time::waits(scene).chain(batch_straggler::waits(scene)).chain(skewed_workers::waits(scene));
    let Some(told) = waits.cloned().reduce(|all, one| all.and(scene.trace, &one)) else { return quiet_ns };
    let told_ns = scene.stall_quiet(&told).saved_ns;
    let both_ns = scene.stall_quiet(&told.and(scene.trace, timers)).saved_ns;
    quiet_ns.min(both_ns - told_ns)
}

/// How often, and for how long.
fn slept(polling: &[Clocked], run_ns: u64) -> String {
    let (looks, sleep_ns) =
        polling.iter().fold((0, 0), |(looks, ns), one| (looks + one.looks, ns + one.look_ns));
    format!(
        "{} slept {} and polled again: {} per sleep{} and {} per poll on average.",
        count(polling.len() as u64, "thread"),
        count(looks, "time"),
        time(sleep_ns / looks.max(1)),
        asked(polling),
        time(run_ns / looks.max(1)),
    )
}

fn timers_advice() -> Vec<String> {
    vec![
        "Check the purpose of its timers: a rate limit, a pause before a retry, a wait that simulates slow work".into(),
        "Or keep more requests in flight".into(),
    ]
}

fn advice(polling: &[Clocked]) -> Vec<String> {
    let mut advice = vec![
        "Wait for the event itself (condition variable, eventfd, futex, blocking read), with the timeout as a fallback"
            .to_owned(),
    ];
    match oversleep::Late::sum(polling).advice() {
        Some(slack) => advice.push(slack),
        None => advice.push("Or sleep for a shorter time while an event is expected".to_owned()),
    }
    advice
}

/// The requested time, if it is known for the sleeps.
fn asked(polling: &[Clocked]) -> String {
    let (times, ns) = polling.iter().fold((0, 0), |(times, ns), one| (times + one.asked, ns + one.asked_ns));
    ns.checked_div(times).map_or_else(String::new, |each| format!(" ({} asked for)", time(each)))
}

/// How sure one may be that sleeping holds the program up, and not that it has nothing to do.
pub(super) fn sure(scene: &Scene, sleeps: impl Fn(ThreadId) -> bool) -> Confidence {
    let busy = scene.of_wall(scene.derived.ledger.running_ns() as f64) >= BUSY_MIN;
    if busy && !listens(scene, sleeps) { Confidence::Medium } else { Confidence::Low }
}

/// Whether a thread other than the sleeping ones waits for external events for more than half of the time.
pub(super) fn listens(scene: &Scene, sleeps: impl Fn(ThreadId) -> bool) -> bool {
    let wall = scene.trace.wall().0;
    scene.derived.ledger.threads.iter().any(|one| {
        let outside = one.classes[Class::NetWait as usize].max(outside_ns(scene, one.thread));
        !sleeps(one.thread) && outside * 2 > wall
    })
}

/// Time (ns) that a thread waited for external events: several descriptors, a signal or a terminal.
fn outside_ns(scene: &Scene, thread: ThreadId) -> u64 {
    use holdup_events::WaitReason::{Device, Multiplex, Signal};
    let slices =
        scene.trace.slices.of_thread(thread).filter(|slice| scene.class(slice) == Some(Class::WorkWait));
    let outside =
        slices.filter(|slice| matches!(scene.trace.wait(slice.wait).reason, Multiplex | Signal | Device));
    outside.map(|slice| slice.duration().0).sum()
}
