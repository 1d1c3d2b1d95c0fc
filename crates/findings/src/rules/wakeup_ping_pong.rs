//! # wakeup-ping-pong: threads pass each small piece of work to each other and sleep in between
//!
//! ## Symptoms
//! Threads of which each repeatedly waits until another of them wakes it, with little work in between. They
//! use a queue of one item, a pipe, a socket, or a condition variable. It reports the time of each handover,
//! from the wakeup until the woken thread ran. Mostly these are two threads. A ring of threads, and producers
//! and consumers at a small queue, are more.
//!
//! ## Why it hurts
//! Waking a thread on another CPU costs some microseconds, or tens of them if the CPU is in an idle state. If
//! each piece of work is as short, the threads spend their time on handovers, and hardly run in parallel. One
//! thread alone would be faster.
//!
//! ## How it decides
//! It counts how often each thread ended the wait of each other thread. Threads form a group if most waits of
//! each are ended by the others. Each must be woken by them about as often as it wakes some of them, or wait
//! as long as these. The runs between the waits must be short. The handovers must take a fair part of a
//! round, and of the threads' waits while one of them works. If one of them waits for a thread outside the
//! group before it responds, that is the cause. The lower bound of the gain is the time between wakeup and
//! running, which larger pieces avoid. The upper bound is that all threads work in parallel while one waits.
//!
//! Waits for each other at a lock (a queue's own) are charged to the finding, unless they are most of the
//! waiting. lock-contention reports other waits for locks. Three or more threads of a runtime that carry its
//! tasks wake each other for any of these tasks. Then the finding is a hint, with two exceptions. In the
//! first, one of the threads has a task bound to it. Each handover is then a thread switch that is avoidable,
//! and the upper bound is the threads' whole kernel time. In the second, most of the threads' running time is
//! in the calls by which they wake each other and go to sleep. The upper bound then removes all of it.
//!
//! Pairs with one side in one process, and the other side in processes of one name, are one cause. There the
//! upper bound is that each client already has the requested data, so that neither requests nor responses
//! remain. If two processes communicate over the network, the finding names the place of the requests, if it
//! is certain.
//!
//! ## What to do
//! Pass many pieces at a time, let a queue between the threads hold more than one item, or do all work on one
//! thread. Request many items from another process with one message, or cache its responses.
//!
//! ## Blind spots
//! A thread that communicates with one of another program, or of another machine, is not seen. Threads that
//! spin before they sleep pay with running time instead.
//!
//! ## References
//! Gregg: Systems Performance, 2nd ed., 6.3 (2020). Linux `perf-sched(1)`.

mod removal;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use holdup_events::{ProcessId, ThreadId, Trace};

use crate::charge::Charge;
use crate::derive::class::Class;
use crate::derive::handing::Handing;
use crate::derive::handing_groups::{self, Group};
use crate::derive::handovers::{self, Handover};
use crate::derive::round_trips::{RoundTrips, asked_by_many};
use crate::derive::{bound_threads, client_server, round_trips};
use crate::finding::{About, Confidence, Evidence, Finding, Gain};
use crate::gains::{SURELY, up_to_own_bound};
use crate::removal::Removal;
use crate::rule::{Cause, Charged, ChargedVerdict, Estimate, Explains, Info, Remedy, Rule};
use crate::scene::{GAIN_MIN, Scene};
use crate::wording::{count, function, percent, thread, time};

pub(super) static INFO: Info = Info {
    estimate: Estimate::Replayed,
    explains: &[
        // Handing to and fro looks as if one worked while the other waits, and meets at the queue's lock.
        Explains::shared(&super::serial_section::INFO),
        Explains::shared(&super::lock_contention::INFO),
    ],
    remedies: &[Remedy::new(&[], "cpus", &["0"], "partners on one CPU, without wakeups across CPUs")],
    ..Info::new(
        "wakeup-ping-pong",
        "Threads pass each small piece of work back and forth, and sleep in between",
    )
};

/// Runs that are longer on average (ns) are work that is worth a handover, whatever that costs.
const RUN_MAX_NS: u64 = 200_000;

/// Minimum share of handovers in a round, and in the threads' waits for each other. With less, they are not
/// the cause.
const LATE_SHARE_MIN: f64 = 0.1;

/// Maximum number of groups that are named. More would hide the first one.
const GROUPS_MAX: usize = 3;

/// Threads of a group that are named.
const NAMED_MAX: usize = 3;

/// Sums of a group's handovers.
struct Sums {
    count: u64,
    late_ns: u64,
    run_ns: u64,
    /// Handovers, the other threads' work, and their waits for any thread.
    wait_ns: u64,
}

impl Sums {
    fn of_group(group: &Group) -> Sums {
        Sums {
            count: group.sum(|one| one.count),
            late_ns: group.sum(|one| one.late_ns),
            run_ns: group.sum(|one| one.run_ns),
            wait_ns: group.sum(|one| one.wait_ns),
        }
    }

    /// Whether little work is done per handover, and handovers take a fair part of the time. While one of
    /// `members` threads works, all others wait.
    fn is_handing(&self, members: usize) -> bool {
        let waited = self.wait_ns / (members as u64 - 1).max(1);
        let round = (self.late_ns + self.run_ns).max(waited);
        self.run_ns / self.count.max(1) <= RUN_MAX_NS && self.late_ns as f64 >= LATE_SHARE_MIN * round as f64
    }
}

pub(super) struct WakeupPingPong;

impl Rule for WakeupPingPong {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        scene.needs_wait_reasons()?;
        let handovers = handovers::derive(scene.trace, &scene.derived.roles);
        let bound_threads = bound_threads::derive(scene.trace, &scene.derived.roles);
        let mut groups = handing_groups::derive(&handovers, &bound_threads);
        groups.retain(|group| Sums::of_group(group).is_handing(group.members.len()));
        let mut found: Vec<(Charged, Group, usize)> = alike(scene.trace, groups)
            .into_iter()
            .map(|(group, pairs)| (finding(scene, &group, pairs), group, pairs))
            .filter(|(charged, ..)| {
                charged.finding.gain.high >= GAIN_MIN && !is_at_locks(scene, &charged.charge)
            })
            .collect();
        found.sort_by(|(a, ..), (b, ..)| b.finding.gain.high.total_cmp(&a.finding.gain.high));
        found.truncate(GROUPS_MAX);
        Ok(found
            .into_iter()
            .map(|(charged, group, pairs)| with_advice(scene, charged, (&group, pairs)))
            .collect())
    }

    fn removal(&self, cause: &Cause) -> Option<Removal> {
        (!cause.charge.is_empty()).then(|| removal::handovers(cause.facts(), cause.charge))
    }

    fn gain(&self, cause: &Cause, forecast: Gain) -> Gain {
        // The time saved per request is also saved in the requested process. A replay keeps the turns of that
        // process's threads.
        if is_asking(cause) || is_bound_or_for_it(cause) {
            return up_to_own_bound(cause, forecast);
        }
        forecast
    }

    fn confidence_max(&self, cause: &Cause) -> Confidence {
        let finding = cause.finding;
        match finding.gain.low < SURELY {
            true if is_only_in_turn(cause) => Confidence::Low,
            true => Confidence::Medium,
            false => Confidence::High,
        }
    }
}

/// Minimum gain, as a share of the run, for requests per piece of work to another process to be the cause.
const ASKING_MUCH: f64 = 0.5;

/// Whether many threads ask another process.
fn is_asking(cause: &Cause) -> bool {
    round_trips::asked_by_many(cause.trace(), cause.charge).is_some()
}

/// Whether the threads may not leave their CPUs, or exist to hand work over.
fn is_bound_or_for_it(cause: &Cause) -> bool {
    let (trace, derived) = (cause.trace(), cause.derived());
    bound_threads::among(trace, &derived.roles, cause.charge).is_some()
        || Handing::derive((trace, &derived.roles), &derived.ledger, cause.charge).is_most()
}

/// Whether threads wait for each other, and would wait as long with handovers that take no time. Their work
/// is slow, unless it can run in parallel, which the recording does not show.
fn is_only_in_turn(cause: &Cause) -> bool {
    let asks_much = cause.finding.gain.high >= ASKING_MUCH && is_asking(cause);
    !asks_much && !is_bound_or_for_it(cause)
}

/// Groups, each with its number of pairs. Pairs of one process with others of one name are one group (clients
/// of a server, workers of a manager).
fn alike(trace: &Trace, groups: Vec<Group>) -> Vec<(Group, usize)> {
    let process = |id: ThreadId| trace.threads[id.index()].process;
    let across = |group: &Group| match group.members.as_slice() {
        [one, other] if process(*one) != process(*other) => Some((process(*one), process(*other))),
        _ => None,
    };
    let mut times: BTreeMap<ProcessId, usize> = BTreeMap::new();
    for (one, other) in groups.iter().filter_map(across) {
        *times.entry(one).or_default() += 1;
        *times.entry(other).or_default() += 1;
    }
    let (mut by_hub, mut all) = (BTreeMap::<(ProcessId, &str), (Group, usize)>::new(), Vec::new());
    for group in groups {
        let Some((one, other)) = across(&group) else {
            all.push((group, 1));
            continue;
        };
        // Where two have as many, the order of their threads must not matter.
        let is_hub = (times[&one], Reverse(one)) > (times[&other], Reverse(other));
        let (hub, other) = if is_hub { (one, other) } else { (other, one) };
        let (joined, pairs) = by_hub.entry((hub, trace.process_name(other))).or_default();
        joined.members.extend(group.members);
        joined.handovers.extend(group.handovers);
        *pairs += 1;
    }
    for (mut group, pairs) in by_hub.into_values() {
        group.members.sort_unstable();
        group.handovers.sort_by_key(|one| (one.waker, one.wakee));
        all.push((group, pairs));
    }
    all
}

/// All waits of the group's threads that others of it ended.
fn waits(trace: &Trace, group: &Group) -> Charge {
    Charge::of_rows(trace, |id, take| {
        if group.members.binary_search(&id).is_err() {
            return;
        }
        let mut near = 0;
        for (row, slice) in trace.slices.rows(id).zip(trace.slices.of_thread(id)) {
            let wakeup = handovers::ended_by_own(trace, &slice, &mut near);
            if wakeup.is_some_and(|wakeup| group.has(wakeup.waker, id)) {
                take(row);
            }
        }
    })
}

/// Whether most of the group's waits for each other are for locks. Other handovers follow from these.
fn is_at_locks(scene: &Scene, charge: &Charge) -> bool {
    let locks = charge.slices(scene.trace).filter(|slice| scene.class(slice) == Some(Class::LockWait));
    2 * locks.map(|slice| slice.duration().0).sum::<u64>() > charge.ns()
}

fn finding(scene: &Scene, group: &Group, pairs: usize) -> Charged {
    let (sums, charge) = (Sums::of_group(group), waits(scene.trace, group));
    let of_thread = |id: ThreadId| group.sum(|one| if one.wakee == id { one.late_ns } else { 0 });
    let is_pair = group.members.len() == 2;
    let mut gain = scene.gain(&scene.stall(&charge), |thread, waited| {
        waited.min(if is_pair { sums.late_ns } else { of_thread(thread.thread) } as f64)
    });
    let mut summary = summary(scene.trace, group, (&sums, pairs));
    let facts = (scene.trace, &scene.derived.roles);
    let asking = RoundTrips::derive(scene.trace, &charge);
    if let Some(asking) = &asking {
        let (answering_ns, asking_ns) = asking.ran_ns(facts, &scene.derived.ledger);
        let most = scene.of_wall_if_run((answering_ns + asking_ns) as f64);
        gain.high = gain.high.max(most);
        summary.push(format!(
            "{} ran for {} to respond, and the requesters ran for {} to ask (sampled).",
            scene.trace.process_name(asking.asked),
            time(answering_ns),
            time(asking_ns)
        ));
    }
    let bound_threads = bound_threads::among(scene.trace, &scene.derived.roles, &charge);
    if let Some((to, _)) = bound_threads {
        let switching = kernel_ns(scene, group);
        gain.high = gain.high.max(scene.of_wall_if_run(switching as f64));
        summary.push(format!(
            "A task{} is bound to {}: each time it becomes runnable, that thread is woken and another goes to sleep. These threads ran for {} in the kernel (sampled).",
            bound_threads::task(scene.trace, to).map_or_else(String::new, |task| format!(" ({})", function(&task))),
            thread(scene.trace, to),
            time(switching)
        ));
    }
    let handing = Handing::derive(facts, &scene.derived.ledger, &charge);
    if handing.is_most() {
        gain.high = gain.high.max(scene.of_wall_if_run(handing.handing_ns as f64));
        summary.push(format!(
            "{1} of their {0} of running time went into waking each other and going to sleep (sampled).",
            time(handing.running_ns),
            time(handing.handing_ns)
        ));
    }
    let finding = Finding {
        rule: INFO.name,
        about: About::Other,
        subject: subject(scene.trace, group, pairs),
        summary,
        cost_ns: sums.wait_ns,
        gain,
        likely: None,
        confidence: scene.confidence(match asking {
            // Whether they need to ask, only the reader knows.
            Some(_) => Confidence::Medium,
            None if bound_threads.is_some() => Confidence::Medium,
            None if pairs == 1 && is_handed_on(scene, group) => Confidence::Low,
            None => Confidence::High,
        }),
        evidence: evidence(scene, group, &charge),
        advice: bound_threads.map(|(_, advice)| advice.to_owned()).into_iter().collect(),
    };
    Charged { finding, charge }
}

/// Adds the advice, and the place of the requests. The identification of client and server is expensive.
fn with_advice(scene: &Scene, charged: Charged, (group, pairs): (&Group, usize)) -> Charged {
    let Charged { mut finding, charge } = charged;
    let asked = asked_by_many(scene.trace, &charge).map(|asked| (None, asked));
    let client = asked.or_else(|| asks(scene.trace, group));
    finding.summary.extend(client.and_then(|client| asks_from(scene, &charge, client)));
    finding.advice.extend(advice(group.members.len() == 2, client.is_some() || pairs > 1));
    Charged { finding, charge }
}

/// The client and the server, if the two are threads of two processes that communicate over the network.
fn asks(trace: &Trace, group: &Group) -> Option<(Option<ProcessId>, ProcessId)> {
    let [one, other] = group.members.as_slice() else { return None };
    let process = |id: &ThreadId| trace.threads[id.index()].process;
    let (one, other) = (process(one), process(other));
    let asks = (one != other).then(|| client_server::client_of(trace, (one, other)))??;
    Some((Some(asks), if asks == one { other } else { one }))
}

/// From where it is asked: by this process, or by all but the one that is asked.
fn asks_from(
    scene: &Scene,
    charge: &Charge,
    (asks, asked): (Option<ProcessId>, ProcessId),
) -> Option<String> {
    let trace = scene.trace;
    scene.waits_come_from(|slice| {
        let process = trace.threads[slice.thread.index()].process;
        let row = || trace.slices.covering(slice.thread, slice.start);
        process != asked
            && asks.is_none_or(|asks| process == asks)
            && row().is_some_and(|row| charge.has(row))
    })
}

fn advice(is_pair: bool, across: bool) -> Vec<String> {
    if across {
        return vec![
            "Combine several requests into one message, or cache the responses: each request is a round trip to another process".into(),
            "Or keep the data in each process (a copy, shared memory)".into(),
        ];
    }
    vec![
        format!(
            "Pass several pieces at a time: a queue between {}, a larger buffer",
            if is_pair { "the two" } else { "them that holds more" }
        ),
        format!("Or let one thread do {} jobs", if is_pair { "both" } else { "all" }),
    ]
}

/// Kernel time of a group's threads (ns).
fn kernel_ns(scene: &Scene, group: &Group) -> u64 {
    let members = scene.derived.ledger.threads.iter().filter(|one| group.members.contains(&one.thread));
    members.map(|one| one.classes[Class::Kernel as usize]).sum()
}

/// Whether many threads of a runtime wake each other for tasks, which may continue on any of them. The
/// awaited thread is not known then.
fn is_handed_on(scene: &Scene, group: &Group) -> bool {
    let carries = |thread: &&ThreadId| scene.derived.roles.carries_tasks(scene.trace, **thread);
    group.members.len() > 2 && 2 * group.members.iter().filter(carries).count() > group.members.len()
}

fn subject(trace: &Trace, group: &Group, pairs: usize) -> String {
    if pairs > 1 {
        let longest = group.handovers.iter().max_by_key(|one| (one.wait_ns, Reverse(one.wakee)));
        let said = |one: &Handover| {
            let (one, other) = (one.waker.min(one.wakee), one.waker.max(one.wakee));
            let names = format!("{} and {}", thread(trace, one), thread(trace, other));
            format!("{names}, and {} more such {}", pairs - 1, if pairs == 2 { "pair" } else { "pairs" })
        };
        return longest.map_or_else(String::new, said);
    }
    let mut busiest = group.members.clone();
    let woken = |id: ThreadId| group.sum(|one| if one.wakee == id { one.count } else { 0 });
    if busiest.len() > NAMED_MAX {
        busiest.sort_by_key(|id| (Reverse(woken(*id)), *id));
        busiest.truncate(NAMED_MAX);
    }
    let names: Vec<String> = busiest.iter().map(|id| thread(trace, *id)).collect();
    match group.members.len() - names.len() {
        0 => match names.split_last() {
            Some((last, others)) => format!("{} and {last}", others.join(", ")),
            None => String::new(),
        },
        more => format!("{} and {more} more", names.join(", ")),
    }
}

fn summary(trace: &Trace, group: &Group, (sums, pairs): (&Sums, usize)) -> Vec<String> {
    let each = sums.count.max(1);
    let first = match group.handovers.as_slice() {
        [to, fro] => format!(
            "{}: each wakes the other and waits, {} in total.",
            count(to.count.min(fro.count), "round"),
            time(sums.wait_ns)
        ),
        _ if pairs > 1 => format!(
            "{} in {pairs} pairs: each wakes the other and waits, {} in total.",
            count(sums.count / 2, "round"),
            time(sums.wait_ns)
        ),
        _ => format!(
            "{} between these {} threads: each is woken by others of the group, wakes some, and waits again, {} in total.",
            count(sums.count, "handover"),
            group.members.len(),
            time(sums.wait_ns)
        ),
    };
    let mut told = vec![
        first,
        format!(
            "From a wakeup until the other ran it took {} on average, and then it ran {}: {} of a round trip is the handover.",
            time(sums.late_ns / each),
            time(sums.run_ns / each),
            percent(sums.late_ns as f64 / (sums.late_ns + sums.run_ns).max(1) as f64),
        ),
    ];
    let most = group.handovers.iter().max_by_key(|one| (one.count, Reverse((one.waker, one.wakee))));
    if let Some(most) = most.filter(|_| group.members.len() > 2 && pairs == 1) {
        told.push(format!(
            "Most often {} wakes {}: {}.",
            thread(trace, most.waker),
            thread(trace, most.wakee),
            count(most.count, "time")
        ));
    }
    told
}

fn evidence(scene: &Scene, group: &Group, charge: &Charge) -> Vec<Evidence> {
    scene.longest_of(charge, |slice| {
        let waker = scene.trace.ended_by(slice).map(|wakeup| wakeup.waker);
        let handed = waker.and_then(|waker| {
            group.handovers.iter().find(|one| one.waker == waker && one.wakee == slice.thread)
        });
        let reason = handed.map_or("", |one| one.reason.name());
        let by = waker.map_or_else(|| "another".to_owned(), |waker| thread(scene.trace, waker));
        format!("waits ({reason}) until {by} wakes it")
    })
}
