//! Skew of work: similar processes that get their work from one other process, and send requests for it to
//! the same service. Work of each.
//!
//! Processes are similar if they have the same name and parent, and do not exchange messages with each other.
//! A process is at work while it runs, and during waits that a response of the service ended. Processes that
//! accept connections share one queue, and are excluded. With evenly divided work, each process would be at
//! work for the mean time.

use std::collections::{BTreeMap, BTreeSet};

use holdup_events::tables::ThreadState;
use holdup_events::{ProcessId, Timestamp, Trace};

use super::asking::{self, Heard};
use super::client_server::Spoken;
use super::cover::{Cover, Span};
use super::holders::Holders;
use super::in_flight::{self, Message};
use crate::charge::Charge;

/// Processes that are alike.
#[derive(Clone, Debug)]
pub struct Skew {
    /// The clients of the service, busiest first, then the others.
    pub workers: Vec<Worker>,
    /// The service: one process, or one for each client.
    pub peers: BTreeSet<ProcessId>,
    /// The process that all of them also exchange messages with.
    pub source: ProcessId,
    /// Time from the service's first response to its last (ns).
    pub span_ns: u64,
    /// Whether most of the responses certainly belong to requests.
    pub is_sure: bool,
    /// Waits of the clients for responses.
    pub waited: Charge,
    /// Sleeps of the service's threads during these waits.
    pub slept: Charge,
}

/// One of the processes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worker {
    /// The process.
    pub process: ProcessId,
    /// Number of responses that ended a wait of the process.
    pub answers: u64,
    /// Time at work between the service's first and last response (ns).
    pub at_work_ns: u64,
    /// Mean number of responses awaited in parallel.
    pub at_once: f64,
}

impl Skew {
    /// Maximum time at work (ns).
    pub fn longest_ns(&self) -> u64 {
        self.workers.iter().map(|one| one.at_work_ns).max().unwrap_or(0)
    }

    /// Mean time at work (ns).
    pub fn mean_ns(&self) -> u64 {
        self.workers.iter().map(|one| one.at_work_ns).sum::<u64>() / self.workers.len().max(1) as u64
    }
}

/// Minimum number of processes. Fewer may have different tasks.
const WORKERS_MIN: usize = 3;
/// Maximum start time of a process, as a share of the service's time. A later process could not share the
/// work.
const LATE_MAX: f64 = 0.1;

/// Derives all such groups, largest excess of the busiest process over the mean first.
pub fn derive(trace: &Trace, holders: &Holders, (spoken, directions): &Heard) -> Vec<Skew> {
    let mut askers: BTreeMap<(ProcessId, &str, ProcessId), Askers> = BTreeMap::new();
    for ((process, peer), is_sure) in directions {
        let parent = trace.processes.get(process.index()).and_then(|process| process.parent);
        let (Some(parent), Some(between)) = (parent, spoken.between(*process, *peer)) else { continue };
        let key = (parent, trace.process_name(*process), *peer);
        let asks = askers.entry(key).or_default();
        asks.peers.insert(*peer);
        let of_peer = |message: &&Message| trace.threads[message.from.index()].process == *peer;
        let answers: Vec<Message> = between.iter().filter(of_peer).copied().collect();
        asks.sure += if *is_sure { answers.len() } else { 0 };
        asks.answers.entry(*process).or_default().extend(answers);
    }
    let partners = partners(spoken);
    let mut found: Vec<Skew> = of_services(trace, askers)
        .into_iter()
        .filter_map(|(parent, name, asks)| {
            let there = there(trace, (parent, name), &asks)?;
            let (source, alike) = of_one_source(&partners, &there, &asks)?;
            // A process that waits for connections takes the next one as soon as it is free.
            let has_too_much = !alike.iter().any(|process| spoken.sides.accepts(*process));
            let alike = has_too_much.then_some(alike)?;
            Some(skew((trace, holders, spoken), source, &alike, &asks))
        })
        .collect();
    found.sort_by_key(|one| (std::cmp::Reverse(one.longest_ns() - one.mean_ns()), one.source));
    found
}

/// Clients of a service, with its responses.
#[derive(Default)]
struct Askers {
    /// Number of responses that certainly belong to requests.
    sure: usize,
    /// The service's processes.
    peers: BTreeSet<ProcessId>,
    answers: BTreeMap<ProcessId, Vec<Message>>,
}

impl Askers {
    /// From the first response to the last.
    fn span(&self) -> Option<Span> {
        let times = || self.answers.values().flatten().map(|message| message.at);
        times().min().zip(times().max())
    }
}

/// Merges services. A service may have a process for each client: like-named processes with a single client
/// each count as one service.
fn of_services<'a>(
    trace: &'a Trace,
    askers: BTreeMap<(ProcessId, &'a str, ProcessId), Askers>,
) -> Vec<(ProcessId, &'a str, Askers)> {
    let mut services = Vec::new();
    let mut own: BTreeMap<(ProcessId, &str, &str), Askers> = BTreeMap::new();
    for ((parent, name, peer), asks) in askers {
        if asks.answers.len() > 1 {
            services.push((parent, name, asks));
            continue;
        }
        let entry = own.entry((parent, name, trace.process_name(peer)));
        let all = entry.or_default();
        all.sure += asks.sure;
        all.peers.extend(asks.peers);
        for (process, answers) in asks.answers {
            all.answers.entry(process).or_default().extend(answers);
        }
    }
    services.extend(own.into_iter().map(|((parent, name, _), asks)| (parent, name, asks)));
    services
}

/// Processes with that parent and name that existed when the service began to respond, except the service.
fn there(trace: &Trace, (parent, name): (ProcessId, &str), asks: &Askers) -> Option<BTreeSet<ProcessId>> {
    let (from, to) = asks.span()?;
    let late = Timestamp(from.0 + (LATE_MAX * to.since(from).0 as f64) as u64);
    let alike = || {
        trace.threads.iter().filter(|thread| {
            let process = &trace.processes[thread.process.index()];
            let is_alike = process.parent == Some(parent) && process.name == name;
            let is_service = asks.peers.contains(&thread.process);
            thread.target && process.pid == thread.tid && is_alike && !is_service && thread.start <= late
        })
    };
    // A process without work may have ended before the first response, but not before all clients had
    // started.
    let ask = alike().filter(|thread| asks.answers.contains_key(&thread.process));
    let begun = ask.map(|thread| thread.start).max().map_or(from, |begun| begun.min(from));
    Some(alike().filter(|thread| thread.end >= begun).map(|thread| thread.process).collect())
}

/// By process: processes that it exchanges messages with.
type Partners = BTreeMap<ProcessId, BTreeSet<ProcessId>>;

fn partners(spoken: &Spoken) -> Partners {
    let mut partners = Partners::new();
    for (one, other) in spoken.messages.keys() {
        partners.entry(*one).or_default().insert(*other);
        partners.entry(*other).or_default().insert(*one);
    }
    partners
}

/// The process, besides the service, that most of these processes exchange messages with, and these
/// processes. All clients must be among them, and none may exchange messages with another process.
fn of_one_source(
    partners: &Partners,
    there: &BTreeSet<ProcessId>,
    asks: &Askers,
) -> Option<(ProcessId, BTreeSet<ProcessId>)> {
    let with = |source: &ProcessId| -> BTreeSet<ProcessId> {
        let speaks = |one: &&ProcessId| partners.get(source).is_some_and(|all| all.contains(one));
        there.iter().filter(speaks).copied().collect()
    };
    let sources =
        partners.keys().filter(|source| !asks.peers.contains(source)).map(|source| (*source, with(source)));
    let (source, alike) = sources.max_by_key(|(source, alike)| (alike.len(), std::cmp::Reverse(*source)))?;
    let is_alone = |one: &ProcessId| partners.get(one).is_none_or(|all| all.is_disjoint(&alike));
    let asking = asks.answers.keys().filter(|process| there.contains(process));
    let is_whole = asking.into_iter().all(|process| alike.contains(process));
    (alike.len() >= WORKERS_MIN && is_whole && alike.iter().all(is_alone)).then_some((source, alike))
}

fn skew(
    (trace, holders, spoken): (&Trace, &Holders, &Spoken),
    source: ProcessId,
    alike: &BTreeSet<ProcessId>,
    asks: &Askers,
) -> Skew {
    let span = asks.span().unwrap_or_default();
    let mut workers: Vec<Worker> =
        alike.iter().map(|process| worker((trace, spoken), (*process, span), asks)).collect();
    workers.sort_by_key(|one| (std::cmp::Reverse(one.at_work_ns), one.process));
    let answers =
        || asks.answers.iter().filter(|(process, _)| alike.contains(process)).flat_map(|(_, all)| all);
    let rows: BTreeSet<usize> = answers().map(|message| message.row as usize).collect();
    let threads: BTreeSet<_> = answers().map(|message| message.to).collect();
    let peers: BTreeSet<_> = answers().map(|message| message.from).collect();
    let meanwhile = Cover::from_spans(answers().map(|message| waited(trace, message)).collect());
    Skew {
        workers,
        peers: asks.peers.clone(),
        source,
        span_ns: span.1.since(span.0).0,
        is_sure: 2 * asks.sure > answers().count(),
        waited: Charge::of_rows(trace, |thread, take| {
            if threads.contains(&thread) {
                rows.range(trace.slices.rows(thread)).for_each(|row| take(*row));
            }
        }),
        slept: Charge::of_rows(trace, |thread, take| {
            if peers.contains(&thread) {
                for span in meanwhile.spans() {
                    asking::slept_within((trace, holders), thread, *span).for_each(&mut *take);
                }
            }
        }),
    }
}

/// The wait that a message ended.
fn waited(trace: &Trace, message: &Message) -> Span {
    let span = trace.slices.span(message.to, message.row as usize);
    (span.start, span.end)
}

fn worker((trace, spoken): (&Trace, &Spoken), (process, span): (ProcessId, Span), asks: &Askers) -> Worker {
    let answers = asks.answers.get(&process).map_or(&[][..], |answers| answers);
    let mut spans: Vec<Span> = answers.iter().map(|message| waited(trace, message)).collect();
    let number = answers.len() as u64;
    let at_once = at_once((trace, spoken), process, asks, &spans);
    for thread in trace.target_threads().filter(|thread| trace.threads[thread.index()].process == process) {
        let running = trace.slices.of_thread(thread).filter(|slice| slice.state == ThreadState::Running);
        spans.extend(running.map(|slice| -> (Timestamp, Timestamp) { (slice.start, slice.end) }));
    }
    let at_work = Cover::from_spans(spans);
    let at_work_ns = at_work.within(span).map(|(from, to)| to.since(from).0).sum();
    Worker { process, answers: number, at_work_ns, at_once }
}

/// Mean number of responses awaited in parallel. For a thread that polls for any event, from the messages
/// (`in_flight.rs`), otherwise from its waits.
fn at_once((trace, spoken): (&Trace, &Spoken), process: ProcessId, asks: &Askers, waits: &[Span]) -> f64 {
    let mut under_way = Vec::new();
    for peer in &asks.peers {
        let Some(between) = spoken.between(process, *peer) else { continue };
        under_way.extend(in_flight::asked(trace, *peer, between).answered.iter().map(|one| one.span));
    }
    let spans = if under_way.is_empty() { waits.to_vec() } else { under_way };
    let ns: u64 = spans.iter().map(|(from, to)| to.since(*from).0).sum();
    ns as f64 / Cover::from_spans(spans).length_ns().max(1) as f64
}

#[cfg(test)]
mod tests {
    use holdup_events::ThreadId;
    use holdup_events::tables::{Process, Thread};

    use super::*;

    #[test]
    fn an_idle_worker_may_have_exited_before_the_first_response() {
        let mut trace = Trace::default();
        let lives =
            [("parent", 0..90), ("worker", 0..9), ("worker", 10..80), ("worker", 11..12), ("worker", 70..80)];
        for (pid, (name, life)) in (1..).zip(lives) {
            let (id, parent) = (ProcessId(pid - 1), (pid > 1).then_some(ProcessId(0)));
            trace.processes.push(Process { pid, name: name.to_owned(), target: true, parent });
            let (start, end) = (Timestamp(life.start), Timestamp(life.end));
            trace.threads.push(Thread {
                tid: pid,
                process: id,
                start,
                end,
                target: true,
                ..Thread::default()
            });
        }
        let answer = |at: u64| Message { at: Timestamp(at), from: ThreadId(0), to: ThreadId(2), row: 0 };
        let asks =
            Askers { answers: [(ProcessId(2), vec![answer(20), answer(79)])].into(), ..Askers::default() };
        // The first ended before the others began, the last came late.
        let there = there(&trace, (ProcessId(0), "worker"), &asks);
        assert_eq!(there, Some([ProcessId(2), ProcessId(3)].into()));
    }
}
