//! # oversleep: the program sleeps by the clock while no other work is done
//!
//! ## Symptoms
//! Threads in a requested sleep (`nanosleep`, a timer, a wait that only its timeout ended), often, or a few
//! times for long. No thread of the program is running or runnable in that time.
//!
//! ## Why it hurts
//! A pause of fixed length is either too long or too short. Examples: a back-off, a retry after a while, a
//! rate limit by sleeps between items. Each one costs its length, and more: the kernel ends it up to 50 µs
//! late. The thread must be woken and refill its caches.
//!
//! ## How it decides
//! It adds up the sleeps of threads that sleep often, as far as no thread of the program was runnable. That
//! is the upper bound of the gain. A sleep may be intended, but its lateness is not. So the lower bound is
//! the lateness, as far as the requested time was recorded. poll-loop reports threads that only check and
//! sleep again. Housekeeping threads, for which no thread waits, are left out. So is a runtime's own thread
//! that monitors the calls of other threads (Go's sysmon). So are tickers
//! of a process that was recorded to its end. A ticker is not the first thread, its sleep is not on the critical
//! path, and no thread waits for its next wakeup.
//!
//! The finding is a hint only if the program does little work at all, or waits for the outside most of the
//! time. A few long sleeps may be intended. They are reported, as a hint, if they take half of the run,
//! except for an event loop's wait for events of which none occurs. There is one stronger pattern. Most of
//! the sleeps are waits for other threads until a timeout, after which the waiter continues and wakes other
//! threads. At other times, these threads end such waits. Then the awaited condition held and no thread
//! signalled it, and the finding is likely. If a runtime carries tasks (tokio, Go), the tasks sleep. The
//! stacks on which a task sets its timer, or checks it, show which ones.
//!
//! A program may send to a peer, wait until a timeout, and send again without a response. If this takes half
//! of the sleeping time, the program delays data for which the peer waits. The finding states that, and is
//! likely. If a library is known to poll with sleeps (SQLite, for another connection's lock), the awaited
//! event is named.
//!
//! ## What to do
//! Wait for the event instead of sleeping. Do other work during the wait. Retry at once first, and pause only
//! before later retries. If a runtime's clock has ticks (tokio: one millisecond), let each sleep cover more
//! work. Sleeps shorter than the timer slack last for the slack: set it (`PR_SET_TIMERSLACK`), or do not
//! sleep.
//!
//! ## Blind spots
//! An intended rate limit looks the same. The requested time is not known for wall-clock deadlines
//! (`CLOCK_REALTIME`) and for timers that were set before the wait. The failure before a retry's pause is
//! known only if all calls are counted (`--syscalls`).
//!
//! ## References
//! Linux `nanosleep(2)`, `prctl(2)` (`PR_SET_TIMERSLACK`).

use std::collections::BTreeSet;

use holdup_events::{ProcessId, ThreadId};

use super::poll_loop;
use crate::charge::Charge;
use crate::derive::clocked::{self, Clocked};
use crate::derive::delayed_sends::{self, KeptBack};
use crate::derive::free_capacity;
use crate::derive::ledger::is_nearly_idle;
use crate::derive::lost_wakeups::{self, Untold};
use crate::derive::occupancy::Stall;
use crate::derive::task_sleeps::{self, TaskSleeps};
use crate::finding::{About, Confidence, Finding, Gain};
use crate::removal::Removal;
use crate::rule::{Cause, Charged, ChargedVerdict, Explains, Info, Rule};
use crate::scene::{GAIN_MIN, Scene};
use crate::wording::{count, function, percent, thread, time};
use crate::{failing, known_waits};

pub(super) static INFO: Info = Info {
    waits_only: true,
    is_of_outside: true,
    explains: &[
        // A clock that all wait for.
        Explains::shared(&super::serial_section::INFO),
    ],
    ..Info::new("oversleep", "Threads sleep for fixed times, again and again, while nothing else runs")
};

/// A few sleeps are meant, ...
const SLEEPS_MIN: u64 = 10;
/// ... and minimum share of the run for a few long sleeps to be reported.
const LONG_MIN: f64 = 0.5;
/// Minimum total length (ns) of a few long sleeps.
const LONG_MIN_NS: u64 = 500_000_000;
/// Minimum share of the time in which all threads sleep that is waits without a signal from other threads, to
/// be reported.
const UNTOLD_MIN: f64 = 0.5;
/// Minimum share of the time in which all threads sleep that peers wait for delayed data, to be reported.
const KEPT_MIN: f64 = 0.5;
/// Advice for delayed data.
const KEPT_BACK: &str = "Find the data that it holds back until a timeout although its peer waits. Examples: a body behind HTTP's Expect: 100-continue (send it at once, or respond), a buffer or batch that only a timer flushes";
/// Fewer stacks of tasks' sleeps may be those of others.
const TASK_STACKS_MIN: u64 = 5;
/// Maximum length of a sleep, in ticks of a runtime's clock, for which less may have been requested.
const TICKS_MAX: u64 = 2;
/// From such a share of the sleeping on, its end being late is worth advice of its own.
const LATE_SHARE_MIN: f64 = 0.25;

pub(super) struct Oversleep;

impl Rule for Oversleep {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        scene.needs_wait_reasons()?;
        let Some(Slept { sleeping, charge, stall, is_often }) = slept(scene) else { return Ok(Vec::new()) };
        let sleeps = |id: ThreadId| sleeping.binary_search_by_key(&id, |one| one.thread).is_ok();
        let high = scene.of_wall(stall.saved_ns).clamp(0.0, 1.0);
        let Some((worst, _)) = free_capacity::ranked(&stall).first().copied() else { return Ok(Vec::new()) };
        let times: u64 = sleeping.iter().map(|one| one.sleeps).sum();
        let sleep_ns: u64 = sleeping.iter().map(|one| one.sleep_ns).sum();
        let mut summary = vec![format!(
            "For {} ({} of the run) threads slept while no thread of the program was runnable: {}, {} each on average.",
            time(stall.saved_ns as u64),
            percent(high),
            count(times, "sleep"),
            time(sleep_ns / times.max(1)),
        )];
        let late = Late::sum(&sleeping);
        summary.extend(late.sentence());
        summary.extend(failing::before_sleeps(scene, &sleeping));
        let delayed_sends = delayed_sends::derive(scene.trace, &charge)
            .filter(|kept| kept.times >= SLEEPS_MIN && kept.ns as f64 >= KEPT_MIN * stall.saved_ns);
        let tasks = tasks(scene, &sleeping);
        let place = tasks.as_ref().and_then(of_tasks).or_else(|| {
            scene.waits_come_from(|slice| {
                let row = || scene.trace.slices.covering(slice.thread, slice.start);
                sleeps(slice.thread) && row().is_some_and(|row| charge.has(row))
            })
        });
        // Stacks may be those of its peers' sleeps, where its own clock is a task's.
        summary.extend(place.filter(|_| delayed_sends.is_none()));
        let lost_wakeups = lost_wakeups::derive(scene.trace, &scene.derived.roles, &charge);
        let lost_wakeups = Some(lost_wakeups).filter(|lost| lost.ns as f64 >= UNTOLD_MIN * stall.saved_ns);
        summary.extend(lost_wakeups.map(lost_wakeup_sentence));
        let known = known_waits::find(scene, &charge, |runtime| &runtime.sleeping);
        summary.extend(known.iter().map(|known| known.sentence.clone()));
        summary.extend(delayed_sends.map(|kept| delayed_send_sentence(scene, kept)));
        let sure = match is_often {
            true => poll_loop::sure(scene, sleeps),
            false => Confidence::Low,
        };
        let is_known = known.is_some()
            || delayed_sends.is_some()
            || lost_wakeups.is_some_and(|lost| lost.waits >= SLEEPS_MIN);
        let confidence = scene.confidence(if is_known { sure.max(Confidence::Medium) } else { sure });
        // Without load no client waits for a server, which then does only its housekeeping.
        if confidence == Confidence::Low && is_nearly_idle(scene.trace, &scene.derived.ledger) {
            return Ok(Vec::new());
        }
        let finding = Finding {
            rule: INFO.name,
            about: About::Other,
            subject: thread(scene.trace, worst),
            summary,
            cost_ns: stall.by_thread.values().sum::<f64>() as u64,
            gain: Gain { low: late.share() * high, high },
            likely: None,
            confidence,
            evidence: scene.longest_of(&charge, |_| "sleeps until a timer expires".to_owned()),
            advice: known
                .map(|known| known.advice)
                .into_iter()
                .chain(late.advice())
                .chain(tasks.and_then(|tasks| late.of_ticks(tasks.tick_ns)))
                .chain(delayed_sends.map(|_| KEPT_BACK.to_owned()))
                .chain(lost_wakeups.map_or_else(|| advice(scene), signal_advice))
                .collect(),
        };
        Ok(vec![Charged { finding, charge }])
    }

    fn removal(&self, cause: &Cause) -> Option<Removal> {
        Removal::slices(cause.charge)
    }
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
        "The sleepers are tasks, mostly in {} ({of_it} of the {} in which a task set or checked its timer).",
        function(first),
        count(tasks.stacks, "stack"),
    ))
}

/// The sleeping threads, and their cost for the program.
struct Slept {
    /// By thread.
    sleeping: Vec<Clocked>,
    charge: Charge,
    stall: Stall,
    /// Whether the sleeps are frequent. Otherwise they are few and long.
    is_often: bool,
}

impl Slept {
    /// Whether most sleeps are waits for several objects that ended by timeout: those of an event loop
    /// without requests.
    fn are_open(&self) -> bool {
        let sum = |part: fn(&Clocked) -> u64| self.sleeping.iter().map(part).sum::<u64>();
        2 * sum(|one| one.open) >= sum(|one| one.sleeps)
    }
}

/// The threads that sleep often, if their cost is large enough. Otherwise all threads, if most of the run is
/// sleep.
fn slept(scene: &Scene) -> Option<Slept> {
    let of = |least: u64| {
        let counts = |one: &Clocked| one.sleeps >= least && !one.keeps_house && !one.idles;
        let is_sleeper = |one: &Clocked| counts(one) && !poll_loop::is_it(one);
        let is_elsewhere =
            |one: &Clocked| poll_loop::is_runtimes(scene, one) || poll_loop::is_ticker(scene, one);
        let is_one = |one: &Clocked| is_sleeper(one) && !is_elsewhere(one);
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
    // In a program that waits for requests, no thread waits for a few long sleeps. They are its housekeeping
    // while no request arrives.
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

/// A sentence on sleeping threads that wait for others, which do not signal them.
fn lost_wakeup_sentence(untold: Untold) -> String {
    format!(
        "{} of these were waits for another thread that ended by timeout ({} in total). The waiter then continued and woke other threads: the condition already held, but no thread had signalled it.",
        count(untold.waits, "sleep"),
        time(untold.ns),
    )
}

/// A sentence on sleeping threads that delay data for which a peer waits.
fn delayed_send_sentence(scene: &Scene, kept: KeptBack) -> String {
    let [by, from] = [kept.by, kept.from].map(|process| scene.trace.process_name(process));
    format!(
        "{} {by} sent to {from} (or to another peer), got no response, and sent again after the timeout, mostly behind {}. The peers waited for it, {} in total.",
        count(kept.times, "time"),
        time(kept.median_ns),
        time(kept.ns),
    )
}

/// Advice on how to signal waiters.
fn signal_advice(untold: Untold) -> Vec<String> {
    let shared = "Several threads wait at one place: signal for each new item, not only when there was none before. If they wait for different conditions, wake all of them (notify_all, broadcast), or use one condition variable per condition";
    let lost = "Signal the waiter when its condition becomes true: change the condition under the lock, then signal. A signal before the wait is lost";
    let first = if 2 * untold.shared > untold.waits { shared } else { lost };
    vec![first.to_owned(), "Or, if the timeout itself is wanted (a batch's end), make it shorter".to_owned()]
}

fn advice(scene: &Scene) -> Vec<String> {
    let retry = match scene.derived.calls.exact {
        true => "Retry at once first, and pause only after several failures",
        false => {
            "Retry at once first, and pause only after several failures (which call fails: holdup run --syscalls)"
        }
    };
    vec![
        "Wait for the event itself (a response, space in a queue), not for a time".to_owned(),
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
    pub(super) fn sum(sleeping: &[Clocked]) -> Late {
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
        (self.sleeps > 0).then(|| format!("They asked for {asked} each on average, and woke {late} later."))
    }

    /// Where a clock that ticks so gives no shorter sleeps.
    fn of_ticks(&self, tick_ns: u64) -> Option<String> {
        let each_ns = self.asked_ns / self.sleeps.max(1);
        (tick_ns > 0 && self.sleeps > 0 && each_ns <= TICKS_MAX * tick_ns).then(|| {
            format!(
                "The runtime's timer ticks every {}: a shorter sleep takes as long, so use fewer, longer sleeps (a larger burst, a larger batch)",
                time(tick_ns)
            )
        })
    }

    /// Where that is a good part of the sleeping.
    pub(super) fn advice(&self) -> Option<String> {
        let slack = "The sleeps are hardly longer than the kernel's timer slack of 50 µs: set it with prctl(PR_SET_TIMERSLACK), or do not sleep";
        (self.share() >= LATE_SHARE_MIN).then(|| slack.to_owned())
    }
}
