//! # interpreter-lock: threads of an interpreter take turns at its one lock
//!
//! ## Symptoms
//! In processes that run CPython, threads that wait for one object, and stop waiting after the interpreter's
//! switch interval (5 ms) to request it. CPython's threads wait for its global lock (GIL) in this way.
//!
//! ## Why it hurts
//! Only the thread that holds the lock runs Python code. Computing threads take turns of a few milliseconds
//! each. A thread that returns from I/O waits for up to a whole turn before it can continue.
//!
//! ## How it decides
//! The lock is recognised by its protocol, not by a symbol, so a stripped interpreter is sufficient. Several
//! threads of a process with CPython's binary or library wait at the same few words of memory. A timer ends
//! many of these waits after the interval. The gain is computed as for a lock. The upper bound is that
//! waiters had run on the CPUs that the program did not use. The lower bound is the wait of the active thread
//! that waited least. The functions of the holders during these waits are sampled. They are Python functions
//! if the interpreter's version is known.
//!
//! ## What to do
//! Use processes (`multiprocessing`, `ProcessPoolExecutor`) for computations. Or move these to code that
//! releases the lock (NumPy and other native code), or use a free-threaded build (3.13t and later). For
//! latency next to a computing thread, use a shorter `sys.setswitchinterval`.
//!
//! ## Blind spots
//! Threads that never wait as long as the interval (mostly I/O) are not reported. A custom interval of the
//! program is not known here. Locks of other interpreters (Ruby's) are judged as plain locks.
//!
//! ## References
//! Beazley: Understanding the Python GIL (PyCon 2010). PEP 703. CPython `Python/ceval_gil.c`.

use std::collections::{BTreeMap, BTreeSet};

use holdup_events::event::WakeContext;
use holdup_events::tables::{SampleRow, Slice, ThreadState};
use holdup_events::{ProcessId, ThreadId, WaitId, WaitReason};

use crate::charge::Charge;
use crate::derive::busiest;
use crate::derive::replay::{Change, Facts, Speed};
use crate::derive::syscall_names::FUTEX;
use crate::finding::{About, Confidence, Finding};
use crate::removal::{Removal, has, ran, threads_of};
use crate::rule::{Cause, Charged, ChargedVerdict, Estimate, Explains, Info, Rule};
use crate::scene::{GAIN_MIN, Scene};
use crate::wording::{count, function, percent, thread, time};

pub(super) static INFO: Info = Info {
    waits_only: true,
    leaves_one_thread: true,
    estimate: Estimate::Replayed,
    explains: &[
        // A lock whose holder waits for another lock: the last of the chain is the cause.
        Explains::shared(&super::lock_contention::INFO),
        Explains::shared(&super::lock_convoy::INFO),
        Explains::shared_waits(&super::preempted_lock_holder::INFO),
        Explains::shared(&super::wakeup_ping_pong::INFO),
        Explains::shared(&super::poll_loop::INFO),
        Explains::shared(&super::serial_section::INFO),
    ],
    ..Info::new("interpreter-lock", "Threads of an interpreter take turns with its global lock")
};

/// CPython's switch interval, and how late its timer may come (ns).
const INTERVAL_NS: std::ops::Range<u64> = 4_900_000..7_000_000;

/// Fewer waits that end by that interval may be somebody's own time-out.
const TIMEOUTS_MIN: u64 = 20;

/// Functions that are named.
const PLACES_MAX: usize = 3;
/// Minimum share of the waiting in which holders ran in one function, for it to be the first to change.
const MOST: f64 = 0.5;

/// Maximum distance of a condition variable's words, in bytes.
const WORDS_WITHIN: u64 = 64;

/// Waits at a few neighbouring words of one process.
#[derive(Default)]
struct Words {
    waits: Vec<WaitId>,
    timeouts: u64,
    by_thread: BTreeMap<ThreadId, u64>,
}

pub(super) struct InterpreterLock;

impl Rule for InterpreterLock {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        scene.needs_wait_reasons()?;
        let candidates = words(scene);
        if candidates.is_empty() {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        for (process, words) in tally(scene, candidates) {
            if words.timeouts >= TIMEOUTS_MIN && words.by_thread.len() >= 2 {
                found.extend(finding(scene, process, &words));
            }
        }
        Ok(found)
    }

    fn removal(&self, cause: &Cause) -> Option<Removal> {
        (!cause.charge.is_empty()).then(|| in_parallel(cause.facts(), cause.charge))
    }
}

/// Removes the interpreter's lock: its threads run in parallel. Upper bound: they make no syscalls for it.
/// They also do not wait at their other locks, whose order follows from the interpreter's lock.
fn in_parallel(facts: Facts, charge: &Charge) -> Removal {
    let trace = facts.trace;
    let waiters = threads_of(trace, charge);
    let calls =
        |sample: &SampleRow| sample.in_kernel && sample.syscall == FUTEX && has(&waiters, sample.thread);
    let at_locks = Charge::matching(trace, |slice| {
        slice.state == ThreadState::Blocked
            && has(&waiters, slice.thread)
            && facts.locks.of_slice(slice).is_some()
    });
    let least = vec![Change::WithoutSlices(charge.clone())];
    let mut most = least.clone();
    most.extend([Change::WithoutSlices(at_locks), ran(Speed::new(trace, 0.0, calls))]);
    Removal { least, most }
}

/// The futexes without a lock protocol in processes that run CPython, neighbours together.
fn words(scene: &Scene) -> Vec<(ProcessId, Words)> {
    let trace = scene.trace;
    let pythons = trace.mappings.iter().filter(|mapping| is_python(&mapping.path));
    let pythons: BTreeSet<ProcessId> = pythons.map(|mapping| mapping.process).collect();
    let mut addresses: BTreeMap<(ProcessId, u64), Vec<WaitId>> = BTreeMap::new();
    for (row, wait) in trace.waits.iter().enumerate() {
        if wait.reason == WaitReason::Park && wait.object != 0 {
            addresses.entry((wait.process, wait.object)).or_default().push(WaitId(row as u32));
        }
    }
    let mut all: Vec<(ProcessId, Words)> = Vec::new();
    let mut last: Option<(ProcessId, u64)> = None;
    for ((process, address), waits) in addresses {
        let near = last.is_some_and(|(other, first)| other == process && address - first <= WORDS_WITHIN);
        match all.last_mut().filter(|_| near) {
            Some((_, words)) => words.waits.extend(waits),
            None => {
                all.push((process, Words { waits, ..Words::default() }));
                last = Some((process, address));
            }
        }
    }
    all.retain(|(process, _)| pythons.contains(process));
    all.iter_mut().for_each(|(_, words)| words.waits.sort_unstable());
    all
}

fn is_python(path: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or("");
    ["python3", "libpython3", "python2", "libpython2"].iter().any(|start| file.starts_with(start))
}

fn is_here(words: &Words, slice: &Slice) -> bool {
    slice.state == ThreadState::Blocked && words.waits.binary_search(&slice.wait).is_ok()
}

/// Counts the threads that wait there, and their waits that lasted for the whole interval.
fn tally(scene: &Scene, mut all: Vec<(ProcessId, Words)>) -> Vec<(ProcessId, Words)> {
    let trace = scene.trace;
    let mut of_wait: Vec<Option<usize>> = vec![None; trace.waits.len()];
    for (group, (_, words)) in all.iter().enumerate() {
        words.waits.iter().for_each(|wait| of_wait[wait.index()] = Some(group));
    }
    let processes: BTreeSet<ProcessId> = all.iter().map(|(process, _)| *process).collect();
    for id in trace.target_threads().filter(|id| processes.contains(&trace.threads[id.index()].process)) {
        for slice in trace.slices.of_thread(id).filter(|slice| slice.state == ThreadState::Blocked) {
            let group = of_wait.get(slice.wait.index()).copied().flatten();
            let Some((_, words)) = group.and_then(|group| all.get_mut(group)) else { continue };
            *words.by_thread.entry(id).or_default() += slice.duration().0;
            if INTERVAL_NS.contains(&slice.duration().0) {
                let ended = trace.ended_by(&slice);
                words.timeouts += u64::from(ended.is_some_and(|wakeup| wakeup.context == WakeContext::Timer));
            }
        }
    }
    all
}

/// The functions in which holders ran during the waits, with their share of the waiting.
fn held_in(scene: &Scene, words: &Words) -> Vec<(String, f64)> {
    let number = words.waits.iter().find_map(|wait| scene.derived.occupancy.locks.of_word(*wait));
    let Some(lock) = number.and_then(|number| scene.lock(number)) else { return Vec::new() };
    let part = |(name, ns): &(String, u64)| (name.clone(), *ns as f64 / lock.wait_ns.max(1) as f64);
    lock.held_in.iter().take(PLACES_MAX).map(part).collect()
}

fn holder_sentence(places: &[(String, f64)]) -> Option<String> {
    let place = |(name, part): &(String, f64)| format!("{} ({})", function(name), percent(*part));
    let places: Vec<String> = places.iter().map(place).collect();
    (!places.is_empty())
        .then(|| format!("While others waited, the holder ran in {} (sampled).", places.join(", ")))
}

/// From this part of the run on, what one of the threads runs is about as long as the run itself.
const LONG_MIN: f64 = 0.75;

/// Sentences on a thread that computes for nearly all of the run without delay by the lock, and on the
/// remedy.
fn computing(scene: &Scene, words: &Words) -> Option<(String, String)> {
    let theirs = scene.derived.ledger.threads.iter().filter(|one| words.by_thread.contains_key(&one.thread));
    let most = theirs.max_by_key(|one| (one.running_ns(), std::cmp::Reverse(one.thread)))?;
    let share = scene.of_wall(most.running_ns() as f64);
    if share < LONG_MIN {
        return None;
    }
    let place = busiest::of_thread(scene.trace, &scene.derived.roles, most.thread)?.function;
    let said = format!(
        "{} ran for {} of the run, mostly in {place}: this takes as long without the lock, unless it only runs until it is stopped.",
        thread(scene.trace, most.thread),
        percent(share)
    );
    Some((said, format!("Do less in {place}, or stop it sooner")))
}

fn advice(places: &[(String, f64)]) -> Vec<String> {
    let processes = "Use processes for computation (multiprocessing, ProcessPoolExecutor)";
    let most = places.first().filter(|(_, part)| *part >= MOST);
    vec![
        most.map_or(processes.to_owned(), |(name, _)| {
            format!("{processes}, first of all for {}", function(name))
        }),
        "Move the work to native code that releases the lock, or to a free-threaded build".into(),
    ]
}

fn finding(scene: &Scene, process: ProcessId, words: &Words) -> Option<Charged> {
    let trace = scene.trace;
    let charge = Charge::matching(trace, |slice| is_here(words, slice));
    let stall = scene.stall(&charge);
    let gain = scene.gain(&stall, |_, waited| waited);
    if gain.high < GAIN_MIN {
        return None;
    }
    let mut ranked: Vec<(&ThreadId, &u64)> = words.by_thread.iter().collect();
    ranked.sort_by_key(|(id, ns)| (std::cmp::Reverse(**ns), **id));
    let most: Vec<String> = ranked.iter().take(3).map(|(id, _)| thread(trace, **id)).collect();
    let waited = format!(
        "{} waited {} for the interpreter's lock ({} of all thread time), {} until the switch interval expired. Mostly {}.",
        count(words.by_thread.len() as u64, "thread"),
        time(charge.ns()),
        percent(scene.of_thread_time(charge.ns())),
        count(words.timeouts, "time"),
        most.join(", "),
    );
    let places = held_in(scene, words);
    let (alone, less) = computing(scene, words).unzip();
    let finding = Finding {
        rule: INFO.name,
        about: About::Other,
        subject: format!("GIL of {}", trace.process_name(process)),
        summary: std::iter::once(waited).chain(holder_sentence(&places)).chain(alone).collect(),
        cost_ns: charge.ns(),
        gain,
        likely: None,
        confidence: scene.confidence(Confidence::High),
        evidence: scene.longest_of(&charge, |_| "waits for the interpreter's lock".to_owned()),
        advice: advice(&places).into_iter().chain(less).collect(),
    };
    Some(Charged { finding, charge })
}
