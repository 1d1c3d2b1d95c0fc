//! # oversleep: the program sleeps by the clock while nothing else goes on
//!
//! ## What it sees
//! Threads in a sleep that they asked for (`nanosleep`, a timer, a wait that only its time-out ended), again and
//! again, or a few times for long, while no thread of the program runs or wants to.
//!
//! ## Why it hurts
//! A pause of fixed length is either too long or too short: a back-off, a retry after a while, a rate held by
//! sleeping between items. Each one costs its length, and more: the kernel ends it up to 50 µs late, and the
//! thread must be woken and find its caches again.
//!
//! ## How it decides
//! It adds up the sleeps of threads that sleep often, as far as nobody of the program wanted to run meanwhile.
//! That is the upper end of the gain. A sleep may be meant, but not that it lasts longer than asked for: the lower end
//! is the part by which they ended late, as far as the recording tells what was asked for. Threads that only look and
//! sleep again are poll-loop's; housekeepers, for whom nobody waits, are nobody's, nor
//! is a runtime's own thread that looks after the others' calls (Go's sysmon). It is a hint only if the program does little
//! at all, or waits for the outside world most of the time. A few long sleeps may well be meant: they are told, as a hint, where they
//! take half of the run, but where an event loop waits for whatever comes and nothing does. Where most of it are waits for other threads until a time-out, after which the waiter goes on and wakes others, and
//! others end such waits at other times, it says so, and it is likely: what it waited for was there, and nobody told it. Where a runtime carries tasks
//! (tokio, Go) it is these that sleep: the stacks on which one sets its clock, or looks whether it has run down, tell which.
//!
//! Where a program speaks to a peer, waits until a time is up, and speaks on without an answer, again and again for half of the sleeping, it
//! keeps something back that the peer waits for: that is said, and it is likely. Where a library sleeps that is known to look again after a
//! pause (SQLite, for another connection's lock), what it waits for is said.
//!
//! ## What to do
//! Wait for what the sleep is waiting for; put work in between; let the first retries come at once and only later
//! ones after a pause. Where a runtime's clock ticks (tokio: each millisecond), let each sleep stand for more. Sleeps shorter than the slack last for the slack: set it (`PR_SET_TIMERSLACK`), or do not sleep.
//!
//! ## Blind spots
//! A rate limit that is wanted looks the same. What was asked for is not known of moments of the calendar
//! (`CLOCK_REALTIME`) and of timers that were set before the wait. What failed before a retry's pause is known
//! only where all calls are counted (`--syscalls`).
//!
//! ## References
//! Linux `nanosleep(2)`, `prctl(2)` (`PR_SET_TIMERSLACK`).

use std::collections::BTreeSet;

use holdup_events::{ProcessId, ThreadId};

use super::{ChargedVerdict, Info, poll_loop};
use crate::charge::Charge;
use crate::derive::clocked::{self, Clocked};
use crate::derive::kept_back::{self, KeptBack};
use crate::derive::ledger::is_nearly_idle;
use crate::derive::occupancy::Stall;
use crate::derive::room;
use crate::derive::task_sleeps::{self, TaskSleeps};
use crate::derive::untold::{self, Untold};
use crate::failing;
use crate::finding::{Confidence, Finding, Gain};
use crate::known_waits;
use crate::merging::Charged;
use crate::scene::{GAIN_MIN, Scene};
use crate::wording::{count, function, percent, thread, time};

pub(super) const INFO: Info = Info {
    name: "oversleep",
    summary: "Threads sleep by the clock, again and again, while nothing else goes on",
    of_waits_alone: true,
};

/// A few sleeps are meant, ...
const SLEEPS_MIN: u64 = 10;
/// ... it seems, but where they take so much of the run.
const LONG_MIN: f64 = 0.5;
/// Shorter ones in all (ns) nobody waits for.
const LONG_MIN_NS: u64 = 500_000_000;
/// Waits for others that nobody ended are told where they are this part of the time in which all sleep.
const UNTOLD_MIN: f64 = 0.5;
/// What is kept back from peers is told where they wait for it for this part of the time in which all sleep.
const KEPT_MIN: f64 = 0.5;
/// What to do about that.
const KEPT_BACK: &str = "See what it keeps back until a time is up, though its peer waits for it: a body behind HTTP's Expect: 100-continue that nobody answers (send it at once, or answer), a buffer or a batch that only a timer flushes";
/// Fewer stacks of tasks' sleeps may be those of others.
const TASK_STACKS_MIN: u64 = 5;
/// Who sleeps for so many ticks of a runtime's clock may have asked for less.
const TICKS_MAX: u64 = 2;
/// From such a share of the sleeping on, its end being late is worth advice of its own.
const LATE_SHARE_MIN: f64 = 0.25;

pub(super) fn judge(scene: &Scene) -> ChargedVerdict {
    scene.needs_wait_reasons()?;
    let Some(Slept { sleeping, charge, stall, is_often }) = slept(scene) else { return Ok(Vec::new()) };
    let sleeps = |id: ThreadId| sleeping.binary_search_by_key(&id, |one| one.thread).is_ok();
    let high = scene.of_wall(stall.saved_ns).clamp(0.0, 1.0);
    let Some((worst, _)) = room::ranked(&stall).first().copied() else { return Ok(Vec::new()) };
    let times: u64 = sleeping.iter().map(|one| one.sleeps).sum();
    let sleep_ns: u64 = sleeping.iter().map(|one| one.sleep_ns).sum();
    let mut summary = vec![format!(
        "For {} ({} of the run) threads slept while none of the program wanted to run: {}, {} each on average.",
        time(stall.saved_ns as u64),
        percent(high),
        count(times, "sleep"),
        time(sleep_ns / times.max(1)),
    )];
    let late = Late::of(&sleeping);
    summary.extend(late.sentence());
    summary.extend(failing::before_sleeps(scene, &sleeping));
    let kept_back = kept_back::derive(scene.trace, &charge)
        .filter(|kept| kept.times >= SLEEPS_MIN && kept.ns as f64 >= KEPT_MIN * stall.saved_ns);
    let tasks = tasks(scene, &sleeping);
    let place = tasks.as_ref().and_then(of_tasks).or_else(|| {
        scene.waits_come_from(|slice| {
            let row = || scene.trace.slices.covering(slice.thread, slice.start);
            sleeps(slice.thread) && row().is_some_and(|row| charge.has(row))
        })
    });
    // Stacks may be those of its peers' sleeps, where its own clock is a task's.
    summary.extend(place.filter(|_| kept_back.is_none()));
    let untold = untold::derive(scene.trace, &scene.derived.roles, &charge);
    let untold = Some(untold).filter(|untold| untold.ns as f64 >= UNTOLD_MIN * stall.saved_ns);
    summary.extend(untold.map(said));
    let known = known_waits::of(scene, &charge, |runtime| &runtime.sleeping);
    summary.extend(known.iter().map(|known| known.sentence.clone()));
    summary.extend(kept_back.map(|kept| said_of_kept(scene, kept)));
    let sure = match is_often {
        true => poll_loop::sure(scene, sleeps),
        false => Confidence::Low,
    };
    let is_known =
        known.is_some() || kept_back.is_some() || untold.is_some_and(|untold| untold.waits >= SLEEPS_MIN);
    let confidence = scene.confidence(if is_known { sure.max(Confidence::Medium) } else { sure });
    // Without load nobody waits for a server, and its housekeeping is all that there is.
    if confidence == Confidence::Low && is_nearly_idle(scene.trace, &scene.derived.ledger) {
        return Ok(Vec::new());
    }
    let finding = Finding {
        rule: INFO.name,
        subject: thread(scene.trace, worst),
        summary,
        cost_ns: stall.by_thread.values().sum::<f64>() as u64,
        gain: Gain { low: late.share() * high, high },
        likely: None,
        confidence,
        evidence: scene.longest_of(&charge, |_| "sleeps until a clock wakes it".to_owned()),
        advice: known
            .map(|known| known.advice)
            .into_iter()
            .chain(late.advice())
            .chain(tasks.and_then(|tasks| late.of_ticks(tasks.tick_ns)))
            .chain(kept_back.map(|_| KEPT_BACK.to_owned()))
            .chain(untold.map_or_else(|| advice(scene), tell))
            .collect(),
    };
    Ok(vec![Charged { finding, charge }])
}

/// Where tasks sleep that the sleepers' processes carry, if enough of it was seen.
pub(super) fn tasks(scene: &Scene, sleeping: &[Clocked]) -> Option<TaskSleeps> {
    let process = |thread: ThreadId| scene.trace.threads.get(thread.index()).map(|row| row.process);
    let sleep: BTreeSet<ProcessId> = sleeping.iter().filter_map(|one| process(one.thread)).collect();
    let is_theirs = |thread: ThreadId| process(thread).is_some_and(|process| sleep.contains(&process));
    let tasks = task_sleeps::derive(scene.trace, &scene.derived.roles, is_theirs)?;
    (tasks.stacks >= TASK_STACKS_MIN && !tasks.places.is_empty()).then_some(tasks)
}

/// Which of the program's own functions tasks sleep in.
pub(super) fn of_tasks(tasks: &TaskSleeps) -> Option<String> {
    let (first, of_it) = tasks.places.first()?;
    Some(format!(
        "It is tasks that sleep, mostly in {} ({of_it} of the {} on which one set its clock or looked at it).",
        function(first),
        count(tasks.stacks, "stack"),
    ))
}

/// Who sleeps, and what that costs the program.
struct Slept {
    /// By thread.
    sleeping: Vec<Clocked>,
    charge: Charge,
    stall: Stall,
    /// Again and again; else a few times for long.
    is_often: bool,
}

impl Slept {
    /// Most are waits for several things at once of which none came until time was up: an event loop's, while nobody asks it anything.
    fn are_open(&self) -> bool {
        let sum = |part: fn(&Clocked) -> u64| self.sleeping.iter().map(part).sum::<u64>();
        2 * sum(|one| one.open) >= sum(|one| one.sleeps)
    }
}

/// Those who sleep often, if that is worth a word; else all, if most of the run is sleep.
fn slept(scene: &Scene) -> Option<Slept> {
    let of = |least: u64| {
        let counts = |one: &Clocked| one.sleeps >= least && !one.keeps_house && !one.idles;
        let is_sleeper = |one: &Clocked| counts(one) && !poll_loop::is_it(one);
        let is_one = |one: &Clocked| is_sleeper(one) && !poll_loop::is_runtimes(scene, one);
        let sleeping: Vec<Clocked> = scene.derived.clocked.iter().copied().filter(is_one).collect();
        let sleeps = |id: ThreadId| sleeping.binary_search_by_key(&id, |one| one.thread).is_ok();
        let charge = clocked::charge(scene.trace, sleeps, |slice| {
            scene.derived.roles.is_idle_sleep(scene.trace, slice)
        });
        let stall = scene.stall_quiet(&charge);
        Slept { sleeping, charge, stall, is_often: least > 1 }
    };
    let takes = |slept: &Slept, share: f64| scene.of_wall(slept.stall.saved_ns) >= share;
    let slept_ns: u64 = scene.derived.clocked.iter().map(|one| one.sleep_ns).sum();
    let few = || (slept_ns >= LONG_MIN_NS).then(|| of(1));
    // Of a program that waits for requests nobody waits for a few long sleeps: they are its housekeeping while none comes.
    let is_asked = |few: &Slept| {
        let sleeps = |id: ThreadId| few.sleeping.binary_search_by_key(&id, |one| one.thread).is_ok();
        poll_loop::listens(scene, sleeps)
    };
    Some(of(SLEEPS_MIN)).filter(|often| takes(often, GAIN_MIN)).or_else(|| {
        few().filter(|few| {
            few.charge.ns() >= LONG_MIN_NS && takes(few, LONG_MIN) && !is_asked(few) && !few.are_open()
        })
    })
}

/// That who sleeps waits for others, who do not tell it.
fn said(untold: Untold) -> String {
    format!(
        "{} of these were waits for another thread until time was up ({} in all), after which the waiter went on and woke others: what it waited for was there, and nobody had told it.",
        count(untold.waits, "sleep"),
        time(untold.ns),
    )
}

/// That who sleeps keeps something back from a peer that waits for it.
fn said_of_kept(scene: &Scene, kept: KeptBack) -> String {
    let [by, from] = [kept.by, kept.from].map(|process| scene.trace.process_name(process));
    format!(
        "{} {by} spoke to {from} (or to others of its peers), was not answered, and spoke on when the time was up, mostly behind {}: they waited for that meanwhile, {} in all.",
        count(kept.times, "time"),
        time(kept.median_ns),
        time(kept.ns),
    )
}

/// How waiters are told.
fn tell(untold: Untold) -> Vec<String> {
    let shared = "Several threads wait at one place: signal for each thing that comes, not only when there was none before; where they wait for different things, wake all of them (notify_all, broadcast), or give each kind a condition variable of its own";
    let lost = "Tell the waiter when what it waits for is there: change that under the lock, then signal; a signal before the wait is lost";
    let first = if 2 * untold.shared > untold.waits { shared } else { lost };
    vec![
        first.to_owned(),
        "Or, if the time-out is what is waited for (a batch's end), make it shorter".to_owned(),
    ]
}

fn advice(scene: &Scene) -> Vec<String> {
    let retry = match scene.derived.calls.exact {
        true => "Retry at once first, and pause only after several failures",
        false => {
            "Retry at once first, and pause only after several failures (which call fails: holdup run --syscalls)"
        }
    };
    vec![
        "Wait for what the sleep is there for (an event, an answer, room in a queue), not for a time"
            .to_owned(),
        retry.to_owned(),
    ]
}

/// How much longer than asked for threads slept.
pub(super) struct Late {
    sleeps: u64,
    asked_ns: u64,
    late_ns: u64,
}

impl Late {
    pub(super) fn of(sleeping: &[Clocked]) -> Late {
        let sum = |part: fn(&Clocked) -> u64| sleeping.iter().map(part).sum();
        Late {
            sleeps: sum(|one| one.asked),
            asked_ns: sum(|one| one.asked_ns),
            late_ns: sum(|one| one.late_ns),
        }
    }

    fn share(&self) -> f64 {
        self.late_ns as f64 / (self.asked_ns + self.late_ns).max(1) as f64
    }

    fn sentence(&self) -> Option<String> {
        let each = |ns: u64| time(ns / self.sleeps.max(1));
        let (asked, late) = (each(self.asked_ns), each(self.late_ns));
        (self.sleeps > 0).then(|| format!("They asked for {asked} each on average; it ended {late} later."))
    }

    /// Where a clock that ticks so gives no shorter sleeps.
    fn of_ticks(&self, tick_ns: u64) -> Option<String> {
        let each_ns = self.asked_ns / self.sleeps.max(1);
        (tick_ns > 0 && self.sleeps > 0 && each_ns <= TICKS_MAX * tick_ns).then(|| {
            format!(
                "The runtime's clock ticks every {}: to sleep for less takes as long, so let each sleep stand for more (a larger burst, a larger batch)",
                time(tick_ns)
            )
        })
    }

    /// Where that is a good part of the sleeping.
    pub(super) fn advice(&self) -> Option<String> {
        let slack = "The sleeps are hardly longer than the kernel's slack of 50 µs: set it by prctl(PR_SET_TIMERSLACK), or do not sleep";
        (self.share() >= LATE_SHARE_MIN).then(|| slack.to_owned())
    }
}
