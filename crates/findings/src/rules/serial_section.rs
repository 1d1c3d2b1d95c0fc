//! # serial-section: one thread works while the others wait for it
//!
//! ## Symptoms
//! Moments in which exactly one thread of the program is running or runnable. At least one other waits for
//! threads (a join, a barrier, or work), and a CPU is idle or used by another program. It reports the thread
//! that works alone.
//!
//! ## Why it hurts
//! The serial part of a run bounds the speed-up, whatever the number of CPUs (Amdahl's law). With a tenth of
//! the run serial, no machine makes it more than ten times faster.
//!
//! ## How it decides
//! It adds up these moments by the thread that works alone. Other threads must be able to share the work: at
//! least two threads that each do a fair part of it, or a pool. A pool is two threads or more that wait for
//! the same object and are repeatedly woken by other threads. The other threads must wait for the lone
//! thread. Joins, barriers and waits for work that lead to it must last at least half as long as it worked
//! alone. They lead to it along the chain of threads that ended them (or have not ended them by the end of
//! the recording). The upper bound of the gain is that the serial work was spread over as many CPUs as there
//! are active threads. The lower bound loses a quarter of the speed that these add.
//!
//! The finding is a hint if the moments are the uneven ends of work that all threads do. This holds if
//! threads are alone equally often, and for less than a tenth of the run in total. It also holds if the lone
//! thread is in a function in which others are as well, for less than a quarter of the run. It is also a hint
//! if they are alone equally often, and each for less than a millisecond: they pass work on. Work that cannot
//! be split gains nothing, and the recording does not show that. Moments in which a thread waits for a lock
//! are not counted, because lock-contention judges those.
//!
//! ## What to do
//! Split the section over the threads, start it earlier in parallel with other work, or make it shorter. The
//! finding names the function in which the lone thread spent that time.
//!
//! ## Blind spots
//! The last thread of an unevenly divided loop looks like a serial section. A thread that spins while it
//! waits counts as working, so the section is not seen. The reason of a wait that the recording cuts off is
//! not known. A runtime's tasks continue on any free thread. The lone work of one thread may belong to
//! another task, and the gain is that of the time in which one thread worked alone.
//!
//! ## References
//! Amdahl: Validity of the single processor approach (1967). Du Bois et al.: Bottle graphs (OOPSLA 2013).

use std::collections::{BTreeMap, BTreeSet};

use holdup_events::event::WakeContext;
use holdup_events::{ProcessId, ThreadId, WaitReason};

use crate::analysis::Derived;
use crate::charge::Charge;
use crate::derive::blame::EndClass;
use crate::derive::class::Class;
use crate::derive::holders::HoldKind;
use crate::derive::occupancy::Serial;
use crate::derive::own_places::{OwnFrames, Places};
use crate::derive::replay::{Facts, Speed};
use crate::derive::{event_loops, samples_of};
use crate::finding::{About, Confidence, Evidence, Finding, Gain};
use crate::gains::widened;
use crate::removal::{Removal, ran};
use crate::rule::{Cause, Charged, ChargedVerdict, Estimate, Info, Rule};
use crate::scene::{GAIN_MIN, Scene};
use crate::wording::{count, percent, thread, time};

pub(super) static INFO: Info = Info {
    waits_only: true,
    estimate: Estimate::Replayed,
    ..Info::new("serial-section", "One thread works while the others wait for it and CPUs are idle")
};

/// A thread does a fair part of the work if it ran at least this share of what the busiest one ran.
const FAIR_PART: f64 = 0.1;

/// Minimum number of wakeups of a pool's thread by other threads. Fewer may be its start and end.
const POOL_WAKEUPS_MIN: usize = 10;

/// Others wait for the lone thread at least for this share of the time that it works alone.
const WAITED_FOR_MIN: f64 = 0.5;

/// Minimum number of samples to name a function.
const SAMPLES_MIN: u64 = 5;

pub(super) struct SerialSection;

impl Rule for SerialSection {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        scene.needs_wait_reasons()?;
        let serial = &scene.derived.occupancy.serial;
        let total: u64 = serial.by_thread.values().map(|(ns, _)| ns).sum();
        if scene.of_wall(total as f64) < GAIN_MIN {
            return Ok(Vec::new());
        }
        let workers = workers(scene);
        let (Some((lone, lone_ns)), true) = (serial.lone(), workers >= 2) else { return Ok(Vec::new()) };
        // An event loop of a server next to an idle pool: only its clients wait for its work.
        if event_loops::serves_alone(scene.trace, lone) {
            return Ok(Vec::new());
        }
        let (waited_for, cut_off) = waited_for(scene, lone);
        if (waited_for + cut_off) as f64 <= WAITED_FOR_MIN * lone_ns as f64 {
            return Ok(Vec::new());
        }
        let joins: u64 = serial.by_thread.values().map(|(_, ns)| ns).sum();
        let spread = spread(scene);
        let mut summary = vec![format!(
            "For {} ({} of the run) one thread worked alone while others waited and a CPU was free. {} accounts for {} of it.",
            time(total),
            percent(scene.of_wall(total as f64)),
            thread(scene.trace, lone),
            percent(lone_ns as f64 / total.max(1) as f64),
        )];
        let (place, share) = hottest(scene, lone);
        if let Some(place) = &place {
            summary.push(format!(
                "During that time it was mostly in {place} ({} of its samples).",
                percent(share)
            ));
        }
        let share = scene.of_wall(total as f64);
        let is_others_too = || place.as_ref().is_some_and(|name| other_threads_run(scene, lone, name));
        let confidence = match joins * 2 >= total {
            _ if is_anyones(serial, lone_ns) && (share < ENDS_MAX || total < TURN_MIN_NS * serial.turns) => {
                Confidence::Low
            }
            _ if share < OTHERS_TOO_MAX && is_others_too() => Confidence::Low,
            true => Confidence::High,
            false => Confidence::Medium,
        };
        let finding = Finding {
            rule: INFO.name,
            about: About::Other,
            subject: thread(scene.trace, lone),
            summary,
            cost_ns: waiting_ns(scene).min(total * (workers as u64 - 1)),
            gain: Gain { low: 0.0, high: scene.of_wall(total as f64 * (1.0 - 1.0 / spread)).clamp(0.0, 1.0) },
            likely: None,
            confidence: scene.confidence(confidence),
            evidence: evidence(scene),
            advice: vec![
                match place {
                    Some(place) => {
                        format!("Spread the work of {place} over {}", count(spread as u64, "thread"))
                    }
                    None => format!("Spread its work over {}", count(spread as u64, "thread")),
                },
                "Start it earlier, in parallel with other work, so that no thread waits for it".into(),
            ],
        };
        Ok(vec![Charged { finding, charge: charge(scene) }])
    }

    fn removal(&self, cause: &Cause) -> Option<Removal> {
        Some(spread_out(cause.facts(), cause.derived()))
    }

    fn gain(&self, cause: &Cause, forecast: Gain) -> Gain {
        // Tasks go on in whichever thread has time. A replay of threads keeps their order.
        if is_alone_with_tasks(cause) {
            return Gain { low: 0.0, high: forecast.high.max(widened(cause.finding.gain).high) };
        }
        forecast
    }
}

/// Share of the added speed that may be lost to splitting the work, distributing it, and uneven pieces.
const SPREAD_LOST: f64 = 0.25;

/// Spreads the time in which one thread ran alone over the CPUs. Upper bound: all work of the thread that
/// mostly ran alone is spread, because its work is the same when other threads run.
fn spread_out(facts: Facts, derived: &Derived) -> Removal {
    let over = spread(&Scene::new(facts.trace, derived, facts.timelines));
    let serial = &derived.occupancy.serial;
    let left = |added: f64| 1.0 / (1.0 + added.max(0.0));
    let alone = |added: f64| Speed::spread(facts.trace, serial, left(added));
    let most = match serial.lone() {
        Some((lone, _)) if serial.is_mostly(lone) => Speed::spread_thread(lone, left(over - 1.0)),
        _ => alone(over - 1.0),
    };
    Removal { least: vec![ran(alone((over - 1.0) * (1.0 - SPREAD_LOST)))], most: vec![ran(most)] }
}

/// Whether the thread that most worked alone carries tasks of a runtime.
fn is_alone_with_tasks(cause: &Cause) -> bool {
    let lone = cause.derived().occupancy.serial.lone();
    lone.is_some_and(|(lone, _)| cause.derived().roles.carries_tasks(cause.trace(), lone))
}

/// Others that worked alone for this part of the time for which the lone thread did, work alone as often as it.
const AS_OFTEN: f64 = 0.5;

/// Maximum share of the run (0 to 1) for uneven ends. Threads of one job never end at exactly the same
/// moment.
const ENDS_MAX: f64 = 0.1;

/// Threads that are alone in turn, each for less than this (ns), hand something to each other, or wait for a lock.
const TURN_MIN_NS: u64 = 1_000_000;

/// Now this thread is alone for a moment, now that one: the uneven ends of what all do, and not a part that one does.
fn is_anyones(serial: &Serial, lone_ns: u64) -> bool {
    let often = serial.by_thread.values().filter(|(ns, _)| *ns as f64 >= AS_OFTEN * lone_ns as f64);
    often.count() >= 2
}

/// The same for work that other threads do too. Only the distribution of the work keeps them from doing it.
const OTHERS_TOO_MAX: f64 = 0.25;

/// Minimum share of other threads' time (0 to 1) in a function, for it to be a part of all threads' work.
const DONE_BY_OTHERS: f64 = 0.2;

/// Whether another thread runs the lone thread's function when it is not alone.
fn other_threads_run(scene: &Scene, lone: ThreadId, function: &str) -> bool {
    let own = OwnFrames::new(scene.trace);
    let mut places = Places::new(scene.trace, &own);
    scene.trace.target_threads().filter(|thread| *thread != lone).any(|thread| {
        let samples = samples_of(scene.trace, thread);
        let mut named =
            |stack| places.nearest_own(stack).is_some_and(|frame| scene.trace.frame_name(frame) == function);
        let there = samples.iter().filter(|sample| named(sample.stack)).count();
        there as u64 >= SAMPLES_MIN && there as f64 >= DONE_BY_OTHERS * samples.len() as f64
    })
}

/// Minimum share of a wait during which another thread worked alone. A thread that waits for the end of all
/// other work waits longer. By the second value, its wait counts only if no other thread waits.
const ALONE_SHARES_MIN: [f64; 2] = [0.8, 0.5];

/// The waits for threads while one worked alone. The time of that is known in steps.
fn charge(scene: &Scene) -> Charge {
    let alone = AloneUntil::new(&scene.derived.occupancy.serial);
    let charges = ALONE_SHARES_MIN.map(|share_min| charge_from(scene, &alone, share_min));
    let [surely, mostly] = charges;
    if surely.is_empty() { mostly } else { surely }
}

fn charge_from(scene: &Scene, alone: &AloneUntil, share_min: f64) -> Charge {
    let start = scene.trace.start();
    Charge::matching(scene.trace, |slice| {
        let within = alone.at(slice.end.since(start).0) - alone.at(slice.start.since(start).0);
        // While threads wait for a lock, no thread counts as working alone.
        let waits = |class: Class| class.waits_for_threads() && class != Class::LockWait;
        scene.class(slice).is_some_and(waits) && within >= share_min * slice.duration().0 as f64
    })
}

/// How long one thread had worked alone by when (ns).
struct AloneUntil {
    /// Up to the beginning of each step.
    sums: Vec<u64>,
    step_ns: u64,
}

impl AloneUntil {
    fn new(serial: &Serial) -> AloneUntil {
        let mut of_step: BTreeMap<u64, u64> = BTreeMap::new();
        for ((_, step), ns) in &serial.alone_ns {
            *of_step.entry(*step).or_default() += ns;
        }
        let steps = of_step.last_key_value().map_or(0, |(step, _)| step + 1);
        let mut sums = vec![0];
        for step in 0..steps {
            sums.push(sums[step as usize] + of_step.get(&step).copied().unwrap_or(0));
        }
        AloneUntil { sums, step_ns: serial.step.0.max(1) }
    }

    fn at(&self, ns: u64) -> f64 {
        let step = (ns / self.step_ns) as usize;
        let last = self.sums.last().copied().unwrap_or(0);
        let sum = |step: usize| self.sums.get(step).copied().unwrap_or(last) as f64;
        let part = (ns % self.step_ns) as f64 / self.step_ns as f64;
        sum(step) + (sum(step + 1) - sum(step)) * part
    }
}

/// Over how many CPUs the work could be spread.
pub(super) fn spread(scene: &Scene) -> f64 {
    workers(scene).min(scene.derived.occupancy.cpus as usize).max(1) as f64
}

/// How many threads could share the work.
fn workers(scene: &Scene) -> usize {
    let threads = &scene.derived.ledger.threads;
    let busiest = threads.iter().map(|thread| thread.running_ns()).max().unwrap_or(0) as f64;
    let mut workers = BTreeSet::new();
    let mut pools: BTreeMap<(ProcessId, u64), Vec<ThreadId>> = BTreeMap::new();
    for thread in threads {
        let running = thread.running_ns() as f64;
        if running > 0.0 && running >= FAIR_PART * busiest {
            workers.insert(thread.thread);
        }
        let wakeups = scene.trace.wakeups.of_thread(thread.thread);
        let woken = wakeups.iter().filter(|wakeup| wakeup.context == WakeContext::Thread).count();
        if woken >= POOL_WAKEUPS_MIN
            && let Some(object) = waits_most_for(scene, thread.thread)
        {
            pools.entry(object).or_default().push(thread.thread);
        }
    }
    workers.extend(pools.into_values().filter(|threads| threads.len() >= 2).flatten());
    workers.len()
}

/// The object with the longest total wait of a thread among its waits for threads.
fn waits_most_for(scene: &Scene, thread: ThreadId) -> Option<(ProcessId, u64)> {
    let mut by_object: BTreeMap<(ProcessId, u64), u64> = BTreeMap::new();
    for slice in scene.trace.slices.of_thread(thread) {
        if scene.class(&slice).is_some_and(Class::waits_for_threads) {
            let wait = scene.trace.wait(slice.wait);
            *by_object.entry((wait.process, wait.object)).or_default() += slice.duration().0;
        }
    }
    let longest = by_object.into_iter().max_by_key(|(object, ns)| (*ns, std::cmp::Reverse(*object)));
    longest.map(|(object, _)| object).filter(|(_, object)| *object != 0)
}

/// Time that target threads waited for others, locks aside (ns).
fn waiting_ns(scene: &Scene) -> u64 {
    scene.derived.ledger.class_ns(Class::JoinWait) + scene.derived.ledger.class_ns(Class::WorkWait)
}

/// Time (ns) of other threads' waits that lead to this thread, and of waits that had not ended with the
/// recording.
fn waited_for(scene: &Scene, lone: ThreadId) -> (u64, u64) {
    let kinds = [HoldKind::Work, HoldKind::Join, HoldKind::Barrier];
    let (mut for_it, mut cut_off) = (0, 0);
    for (end, ns) in scene.derived.blame.ends_of(|subject| kinds.contains(&subject.kind())) {
        for_it += if end.thread == Some(lone) { ns } else { 0 };
        cut_off += if end.class == EndClass::StillWaiting && end.thread != Some(lone) { ns } else { 0 };
    }
    (for_it, cut_off)
}

/// Where the lone thread spent the serial time, with the share of its samples there.
fn hottest(scene: &Scene, lone: ThreadId) -> (Option<String>, f64) {
    let own = OwnFrames::new(scene.trace);
    let mut places = Places::new(scene.trace, &own);
    let mut by_name: BTreeMap<String, u64> = BTreeMap::new();
    let mut all = 0;
    for ((_, stack), samples) in
        scene.derived.occupancy.serial.samples.iter().filter(|((id, _), _)| *id == lone)
    {
        all += samples;
        let frame = places.nearest_own(*stack).or_else(|| scene.trace.stack_frames(*stack).next());
        if let Some(frame) = frame {
            *by_name.entry(scene.trace.frame_name(frame)).or_default() += samples;
        }
    }
    match by_name.into_iter().max_by(|a, b| a.1.cmp(&b.1).then_with(|| b.0.cmp(&a.0))) {
        Some((name, samples)) if samples >= SAMPLES_MIN => (Some(name), samples as f64 / all as f64),
        _ => (None, 0.0),
    }
}

fn evidence(scene: &Scene) -> Vec<Evidence> {
    let stretches = scene.derived.occupancy.serial.longest.iter();
    stretches
        .map(|(thread, start, duration)| Evidence {
            table: "slices",
            thread: *thread,
            start: *start,
            duration: *duration,
            note: format!(
                "works alone, others wait ({} or {})",
                WaitReason::Join.name(),
                WaitReason::Park.name()
            ),
        })
        .collect()
}
