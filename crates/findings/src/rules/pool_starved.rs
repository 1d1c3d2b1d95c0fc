//! # pool-starved: all workers of a pool wait for slow operations, and none takes the next piece of work
//!
//! ## Symptoms
//! Pools: threads of one process that wait for work at the same place. It reports the time in which all of
//! them are blocked on another object (disk, network, child, sleep), while work remains.
//!
//! ## Why it hurts
//! A pool as wide as the machine is right for computations. While a piece of work waits, its worker is
//! unavailable. If all workers wait, the program stands still, however much work is queued.
//!
//! ## How it decides
//! Work remains if the workers hardly ever wait for work. The rule adds up the time in which all workers of a
//! pool are blocked, none of them for work. The upper bound of the gain is all of that: more workers would
//! have continued. The lower bound is 0, because the disk or the peer may be slow, unless two facts hold.
//! First, the waits of several workers overlap: a request during other requests takes no longer, and
//! responses arrive close to each other. Second, the threads that distribute the work wait for the workers.
//! Then all work until they continue was already queued.
//!
//! That work is forecast with a worker for each wait. It takes the longest of three times. The first is
//! the longest wait. The second is all waits in sequence, for the part that may not overlap (with 95 %
//! certainty). The third is the CPU time of the responding processes.
//!
//! If a runtime identifies its pool's workers, the rule adds another time. In it all workers of a pool waited
//! for another task's result until a timeout. No thread of the program may have been running, runnable or
//! waiting for the outside in that time. The workers that would run those tasks are among the waiters. All of
//! that time is lost.
//!
//! ## What to do
//! Give work that waits its own pool, wider than the machine. Use asynchronous I/O. Do not wait for one piece
//! of work inside another on the same pool.
//!
//! ## Blind spots
//! A pool that never was without work has no common place, and is not recognised. lock-contention reports
//! workers that wait for a lock. A piece of work that waits several times counts as several pieces.
//!
//! ## References
//! Goetz et al.: Java Concurrency in Practice, 8.1 and 8.2 (2006).

use std::collections::{BTreeMap, BTreeSet};

use holdup_events::event::WakeContext;
use holdup_events::tables::{Slice, ThreadState};
use holdup_events::{ObjectKind, ProcessId, ThreadId, WaitId, WaitReason};

use crate::charge::Charge;
use crate::derive::class::Class;
use crate::derive::cover::{Cover, Span, all_at_once, common_ns};
use crate::derive::replay::unforeseen;
use crate::derive::side_by_side::exclusive_part;
use crate::derive::starved_pools::{self, Standstill};
use crate::finding::{About, Confidence, Finding, Gain};
use crate::rule::{Charged, ChargedVerdict, Explains, Info, Rule};
use crate::scene::{GAIN_MIN, Scene};
use crate::wording::{count, percent, thread, time};

pub(super) static INFO: Info = Info {
    waits_only: true,
    explains: &[
        // Slow work on the pool is the cause why no thread computes.
        Explains::shared(&super::oversleep::INFO),
        Explains::shared(&super::poll_loop::INFO),
        Explains::shared(&super::blocking_io::INFO),
        // A client that sends one request at a time waits for a timer of the server. If the client holds a lock
        // or a pool item during the request, then that is the cause.
        Explains::shared(&super::one_at_a_time::INFO),
    ],
    ..Info::new("pool-starved", "All workers of a pool are blocked while work is queued")
};

/// Workers that wait for work for more of their time than this have none left.
const IDLE_MAX: f64 = 0.1;

/// Fewer workers are no pool.
const WORKERS_MIN: usize = 2;

/// Maximum time (ns) of a check for work. Reading the work, and requesting more, takes longer.
const LOOK_MAX_NS: u64 = 4_000;

/// Maximum share of the workers' waits during their work that end by an unknown actor.
const UNKNOWN_MAX: f64 = 0.05;

pub(super) struct PoolStarved;

impl Rule for PoolStarved {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        scene.needs_wait_reasons()?;
        let mut found: Vec<Charged> =
            pools(scene).iter().filter_map(|workers| finding(scene, workers)).collect();
        let standing = starved_pools::derive(scene.trace, &scene.derived.roles);
        found.extend(standing.iter().filter_map(|one| nested(scene, one)));
        found.sort_by(|a, b| b.finding.gain.high.total_cmp(&a.finding.gain.high));
        found.truncate(1);
        Ok(found)
    }
}

/// Whether the slice is a worker's wait during its work.
fn is_slow(scene: &Scene, slice: &Slice) -> bool {
    scene.class(slice).is_some_and(Class::waits_outside_program)
}

/// Whether several workers may wait for work there. Each pool is identified by the place.
fn is_shared(kind: ObjectKind) -> bool {
    use ObjectKind::{Epoll, EventFd, Futex};
    matches!(kind, Epoll | EventFd | Futex)
}

/// Threads that wait for work at one place and seldom find none, each set once.
fn pools(scene: &Scene) -> BTreeSet<Vec<ThreadId>> {
    let trace = scene.trace;
    let mut places: BTreeMap<(ProcessId, u64), BTreeMap<ThreadId, u64>> = BTreeMap::new();
    for id in trace.target_threads() {
        let mut by_wait: BTreeMap<WaitId, u64> = BTreeMap::new();
        for slice in trace.slices.of_thread(id).filter(|slice| slice.state == ThreadState::Blocked) {
            if is_shared(trace.wait(slice.wait).object_kind) && scene.class(&slice) == Some(Class::WorkWait) {
                *by_wait.entry(slice.wait).or_default() += slice.duration().0;
            }
        }
        for (wait, ns) in by_wait {
            let wait = trace.wait(wait);
            let place = places.entry((wait.process, wait.object)).or_default();
            *place.entry(id).or_default() += ns;
        }
    }
    places.retain(|(_, object), _| *object != 0);
    let busy = |(id, idle_ns): &(&ThreadId, &u64)| {
        let life = trace.threads[id.index()].end.since(trace.threads[id.index()].start).0;
        **idle_ns as f64 <= IDLE_MAX * life as f64
    };
    // One that is idle could take the work: then the pool is not starved.
    let pool = |threads: BTreeMap<ThreadId, u64>| {
        threads.iter().all(|one| busy(&one)).then(|| threads.into_keys().collect())
    };
    places
        .into_values()
        .filter_map(pool)
        .filter(|workers: &Vec<ThreadId>| workers.len() >= WORKERS_MIN)
        .collect()
}

/// The waits of workers during their work. A worker that is woken and waits for the same object again has
/// only checked. A socket also wakes its reader when the peer reads the sent data.
fn slow_waits(scene: &Scene, workers: &[ThreadId]) -> Vec<Span> {
    let mut waits: Vec<Span> = Vec::new();
    for worker in workers {
        let mut last: Option<(WaitId, u64)> = None;
        for slice in scene.trace.slices.of_thread(*worker).filter(|slice| slice.end > slice.start) {
            match slice.state {
                ThreadState::Blocked if is_slow(scene, &slice) => {
                    let goes_on =
                        last.is_some_and(|(wait, ran_ns)| wait == slice.wait && ran_ns <= LOOK_MAX_NS);
                    match waits.last_mut().filter(|_| goes_on) {
                        Some((_, to)) => *to = slice.end,
                        None => waits.push((slice.start, slice.end)),
                    }
                    last = Some((slice.wait, 0));
                }
                ThreadState::Running => last.iter_mut().for_each(|(_, ns)| *ns += slice.duration().0),
                state if state.waits_for_cpu() => {}
                _ => last = None,
            }
        }
    }
    waits
}

/// Time on each CPU of other programs for which the workers may wait: the processes that end their waits, if
/// threads end them. Otherwise all other processes.
fn answering(scene: &Scene, workers: &[ThreadId]) -> Vec<Span> {
    let trace = scene.trace;
    let process = |thread: ThreadId| trace.threads.get(thread.index()).map(|thread| thread.process);
    let (mut answer, mut all_ns, mut unknown_ns) = (BTreeSet::new(), 0, 0);
    for slice in
        workers.iter().flat_map(|id| trace.slices.of_thread(*id)).filter(|slice| is_slow(scene, slice))
    {
        all_ns += slice.duration().0;
        match trace.ended_by(&slice) {
            Some(wakeup) if wakeup.context == WakeContext::Thread => answer.extend(process(wakeup.waker)),
            Some(wakeup) if wakeup.context == WakeContext::Timer => {}
            _ => unknown_ns += slice.duration().0,
        }
    }
    let is_known = unknown_ns as f64 <= UNKNOWN_MAX * all_ns as f64;
    let runs = scene.timelines.iter().flat_map(|(_, line)| line.stretches()).filter(|run| !run.own());
    let may = |thread: ThreadId| !is_known || process(thread).is_none_or(|of| answer.contains(&of));
    runs.filter(|run| may(run.thread())).map(|run| (run.start(), run.end())).collect()
}

/// Spans in which all distributing threads waited for the workers, in time order. Empty if one of these
/// threads is not known.
fn handed_out(scene: &Scene, workers: &[ThreadId]) -> Vec<Span> {
    let trace = scene.trace;
    let waker = |slice: &Slice| {
        let wakeup = trace.ended_by(slice).filter(|wakeup| wakeup.context == WakeContext::Thread)?;
        trace.threads.get(wakeup.waker.index()).is_some_and(|waker| waker.target).then_some(wakeup.waker)
    };
    let mut givers = BTreeSet::new();
    for slice in workers.iter().flat_map(|id| trace.slices.of_thread(*id)) {
        // A wait until the thread's exit was not for distributed work.
        let has_ended = slice.end < trace.threads[slice.thread.index()].end;
        if has_ended && scene.class(&slice) == Some(Class::WorkWait) {
            let Some(giver) = waker(&slice) else { return Vec::new() };
            givers.extend((!workers.contains(&giver)).then_some(giver));
        }
    }
    let waits = |giver: ThreadId| -> Vec<Span> {
        let slices = trace.slices.of_thread(giver).filter(|slice| slice.state == ThreadState::Blocked);
        let for_workers = slices.filter(|slice| waker(slice).is_some_and(|waker| workers.contains(&waker)));
        for_workers.map(|slice| (slice.start, slice.end)).collect()
    };
    let met = |one: Vec<Span>, other: Vec<Span>| {
        let other = Cover::from_spans(other);
        one.into_iter().flat_map(|span| other.within(span).collect::<Vec<Span>>()).collect()
    };
    givers.into_iter().map(waits).reduce(met).unwrap_or_default()
}

fn ns(spans: impl Iterator<Item = Span>) -> u64 {
    spans.map(|(from, to)| to.since(from).0).sum()
}

/// Activity until the distributing threads continued.
#[derive(Clone, Copy, Default)]
struct Round {
    /// All waits of workers (ns).
    waited: u64,
    longest: u64,
    /// All runs of those who may answer them (ns).
    answering: u64,
}

/// How much of the time in which all were blocked a worker for each wait would surely have saved (ns).
fn saved_ns(scene: &Scene, workers: &[ThreadId], (waits, blocked): (Vec<Span>, &[Span])) -> f64 {
    let handed_out = handed_out(scene, workers);
    if handed_out.is_empty() {
        return 0.0;
    }
    let mut rounds = vec![Round::default(); handed_out.len()];
    let mut each_part = |spans: &[Span], add: &dyn Fn(&mut Round, u64)| {
        for span in spans {
            let first = handed_out.partition_point(|(_, end)| *end <= span.0);
            let near = handed_out[first..].iter().take_while(|(start, _)| *start < span.1);
            for (round, of) in rounds[first..].iter_mut().zip(near) {
                add(round, common_ns(*span, *of));
            }
        }
    };
    each_part(&waits, &|round, ns| {
        (round.waited, round.longest) = (round.waited + ns, round.longest.max(ns))
    });
    each_part(&answering(scene, workers), &|round, ns| round.answering += ns);
    let blocked = Cover::from_spans(blocked.to_vec());
    let (exclusive, cpus) = (exclusive_part(waits), f64::from(scene.derived.occupancy.cpus.max(1)));
    let saved = |(of, round): (&Span, &Round)| {
        let answers = (exclusive * round.waited as f64).max(round.answering as f64 / cpus);
        (ns(blocked.within(*of)) as f64 - answers.max(round.longest as f64)).max(0.0)
    };
    handed_out.iter().zip(&rounds).map(saved).sum()
}

fn finding(scene: &Scene, workers: &[ThreadId]) -> Option<Charged> {
    let waits = slow_waits(scene, workers);
    let blocked = all_at_once(&waits, workers.len());
    let total = ns(blocked.iter().copied());
    let longest = blocked.iter().map(|(from, to)| to.since(*from)).max().unwrap_or_default();
    let high = scene.of_wall(total as f64).clamp(0.0, 1.0);
    if high < GAIN_MIN {
        return None;
    }
    let works = |id: ThreadId| workers.contains(&id);
    let charge = Charge::matching(scene.trace, |slice| works(slice.thread) && is_slow(scene, slice));
    let mut kinds: BTreeMap<WaitReason, u64> = BTreeMap::new();
    for slice in charge.slices(scene.trace) {
        *kinds.entry(scene.trace.wait(slice.wait).reason).or_default() += slice.duration().0;
    }
    let saved = scene.of_wall(saved_ns(scene, workers, (waits, &blocked)));
    let (kind, kind_ns) = kinds.into_iter().max_by_key(|(kind, ns)| (*ns, std::cmp::Reverse(*kind)))?;
    let finding = Finding {
        rule: INFO.name,
        about: About::Other,
        subject: subject(scene, workers),
        summary: vec![format!(
            "All of them were blocked in a task for {} ({} of the run, at most {} at a time): {} on {}.",
            time(total),
            percent(high),
            time(longest.0),
            percent(kind_ns as f64 / charge.ns().max(1) as f64),
            kind.name(),
        )],
        cost_ns: charge.ns(),
        gain: Gain { low: (saved - unforeseen(saved)).clamp(0.0, high), high },
        likely: None,
        confidence: scene.confidence(Confidence::Medium),
        evidence: scene.longest_of(&charge, |slice| {
            format!("a worker waits ({})", scene.trace.wait(slice.wait).reason.name())
        }),
        advice: vec![
            "Move work that waits to a separate pool with more threads, or use asynchronous I/O".into(),
        ],
    };
    Some(Charged { finding, charge })
}

fn subject(scene: &Scene, workers: &[ThreadId]) -> String {
    let first = workers.first().map_or_else(String::new, |first| thread(scene.trace, *first));
    format!("{} such as {first}", count(workers.len() as u64, "worker"))
}

/// A pool that stood still because its workers waited for tasks that only they could have done.
fn nested(scene: &Scene, one: &Standstill) -> Option<Charged> {
    let total = ns(one.spans.iter().copied());
    let longest = one.spans.iter().map(|(from, to)| to.since(*from)).max().unwrap_or_default();
    let high = scene.of_wall(total as f64).clamp(0.0, 1.0);
    if high < GAIN_MIN {
        return None;
    }
    let waits = |slice: &Slice| {
        one.workers.contains(&slice.thread)
            && starved_pools::timed_out(scene.trace, &scene.derived.roles, slice)
    };
    let charge = Charge::matching(scene.trace, waits);
    let said = format!(
        "For {} ({} of the run, at most {} at a time) every worker waited in a task for another task, until a timeout. No worker was free to run those tasks.",
        time(total),
        percent(high),
        time(longest.0),
    );
    let finding = Finding {
        rule: INFO.name,
        about: About::Other,
        subject: subject(scene, &one.workers),
        summary: [Some(said), scene.waits_come_from(waits)].into_iter().flatten().collect(),
        cost_ns: charge.ns(),
        gain: Gain { low: (high - unforeseen(high)).max(0.0), high },
        likely: None,
        confidence: scene.confidence(Confidence::Medium),
        evidence: scene.longest_of(&charge, |_| "a worker waits for another task's result".to_owned()),
        advice: vec![
            "Run the tasks that other tasks wait for in a separate pool".into(),
            "Or do not wait for a task inside another of the same pool: run it at once, or continue when it is finished"
                .into(),
        ],
    };
    Some(Charged { finding, charge })
}
