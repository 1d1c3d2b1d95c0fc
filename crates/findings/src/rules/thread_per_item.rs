//! # thread-per-item: a thread is started for every small piece of work
//!
//! ## Symptoms
//! Threads of one process that start and exit within the recording, their lifetime, and their starters. It
//! sees samples inside the kernel of these threads, and of their starters in the calls that create a thread
//! and its stack.
//!
//! ## Why it hurts
//! A thread costs some 10 to 100 µs before and after its work. Its stack is mapped, protected and unmapped,
//! the kernel creates and frees a task, and selects a CPU. All threads of a process do that under one lock,
//! that of its address space. Shorter pieces of work should be handed to an existing thread.
//!
//! ## How it decides
//! A process must start many threads, half of which are short-lived. A tenth or more of all running time must
//! be spent inside the kernel starting and ending them. The lower bound of the gain removes this running
//! time, on as many parallel CPUs as the program used. It adds 10 µs for each handover to an existing thread,
//! and uses the lower end of the samples' interval. The upper bound adds nothing, and spreads the remaining
//! work over all CPUs. No thread waits for the starter then. Time in which one of them waits for a peer, a
//! disk or a clock remains, unless these waits were sequential. So do such waits of the starter (for a
//! connection) while none of them lives.
//!
//! Some runtimes build an interpreter for each thread (Node's workers). Then twenty threads that lived at
//! most a second must be sampled there for a tenth of all running time. The lower bound removes this time.
//! The upper bound removes all running time of these threads and of the runtime's compiler, except such
//! waits. It is not known which part of their work is code that runs for the first time.
//!
//! If at most one of them lives at a time, and its starter waits for each, the finding states that. It is
//! likely and not sure, because the next one may need the previous one's result.
//!
//! ## What to do
//! Start all of them before waiting for the first. Start as many threads as there are CPUs, once, and let
//! them take the pieces from a queue. Examples: a thread pool, an executor, `rayon`, `std::async` of a
//! library with a pool. Or give each thread a range of pieces.
//!
//! ## Blind spots
//! A runtime's user-space work for a thread (its stack, its thread-local data) is not counted, except the
//! parts that its descriptor names (`[[starting]]`, docs/descriptors.md: Node's). A thread whose work makes
//! many system calls looks more expensive than it is, because all kernel time of short-lived threads counts.
//!
//! ## References
//! Welsh, Culler, Brewer: SEDA (SOSP 2001) on a thread for each request. Linux `clone(2)`,
//! `pthread_attr_setstacksize(3)`.

use std::collections::{BTreeMap, BTreeSet};

use holdup_events::tables::{Slice, ThreadState};
use holdup_events::{FrameId, ProcessId, StackId, ThreadId, Trace, WaitReason};

use crate::charge::Charge;
use crate::derive::class::Class;
use crate::derive::cover::{Cover, Span};
use crate::derive::own_places::{self, OwnFrames};
use crate::derive::roles::file_name;
use crate::derive::split::share_error;
use crate::derive::stacks::folding::matches;
use crate::derive::{is_first_thread, samples_of};
use crate::descriptors::Runtime;
use crate::finding::{About, Confidence, Evidence, Finding, Gain};
use crate::rule::{Charged, ChargedVerdict, Explains, Info, Rule};
use crate::scene::{EVIDENCE_MAX, GAIN_MIN, Scene};
use crate::starting_up;
use crate::wording::{count, percent, time};

pub(super) static INFO: Info = Info {
    explains: &[
        // Short-lived threads contend for the locks under which their stacks are created, and queue for CPUs.
        Explains::shared(&super::lock_contention::INFO),
        Explains::shared(&super::lock_convoy::INFO),
        Explains::shared(&super::oversubscription::INFO),
        Explains::shared(&super::migration_churn::INFO),
        Explains::shared(&super::preempted_lock_holder::INFO),
        Explains::shared(&super::blocked_lock_holder::INFO),
    ],
    ..Info::new("thread-per-item", "A thread is started for every small piece of work")
};

/// Fewer threads are not one an item.
const THREADS_MIN: usize = 100;
/// Threads of which half live longer (ns) do more than start.
const LIFE_MAX_NS: u64 = 20_000_000;
/// Minimum share of all running time that is spent starting and ending them.
const SHARE_MIN: f64 = 0.1;
/// Minimum number of samples. Fewer may be chance.
const SAMPLES_MIN: u64 = 20;
/// Maximum time (ns) to hand a piece of work to an existing thread, and to wake it.
const HANDING_NS: f64 = 10_000.0;
/// Calls that make a thread and its stack: x86-64's numbers of clone, clone3, mmap, mprotect and munmap.
const STARTING: [i32; 5] = [56, 435, 9, 10, 11];

/// The short-lived threads of one process.
#[derive(Default)]
struct Brood {
    threads: BTreeSet<ThreadId>,
    starters: BTreeSet<ThreadId>,
    lives_ns: Vec<u64>,
    run_ns: u64,
}

/// Fewer at a time than this are started one after the other.
const ONE_MAX: f64 = 1.5;
/// The starter waits for such a part of the time in which there is one.
const JOINED_MIN: f64 = 0.5;

/// Samples of the short-lived threads of a process and their starters.
struct Starting<'a> {
    samples: u64,
    /// Running time (ns).
    ns: f64,
    error_ns: f64,
    /// The starters' place in the program.
    place: Option<String>,
    /// The runtime that starts most of them, for what the program asks of it.
    runtime: Option<&'a Runtime>,
    evidence: Vec<Evidence>,
}

pub(super) struct ThreadPerItem;

impl Rule for ThreadPerItem {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        if !scene.derived.ledger.split_known {
            return Err("there are no samples of what ran".to_owned());
        }
        let found = broods(scene).into_iter().filter_map(|(process, brood)| finding(scene, process, &brood));
        let found = found.chain(starting_up::finding(scene, INFO.name));
        Ok(found.max_by_key(|found| found.finding.cost_ns).into_iter().collect())
    }
}

/// Processes with many threads that lived shortly.
fn broods(scene: &Scene) -> BTreeMap<ProcessId, Brood> {
    let trace = scene.trace;
    let mut broods: BTreeMap<ProcessId, Brood> = BTreeMap::new();
    for ledger in &scene.derived.ledger.threads {
        let Some(thread) = trace.threads.get(ledger.thread.index()) else { continue };
        if is_first_thread(trace, ledger.thread) || thread.began_before || thread.alive_at_end {
            continue;
        }
        let brood = broods.entry(thread.process).or_default();
        brood.threads.insert(ledger.thread);
        brood.starters.extend(thread.parent);
        brood.lives_ns.push(ledger.life.0);
        brood.run_ns += ledger.running_ns();
    }
    broods.retain(|_, brood| {
        brood.lives_ns.sort_unstable();
        brood.lives_ns.len() >= THREADS_MIN && brood.lives_ns[brood.lives_ns.len() / 2] <= LIFE_MAX_NS
    });
    broods
}

fn starting<'a>(scene: &'a Scene, process: ProcessId, brood: &Brood) -> Starting<'a> {
    let mut stacks = Vec::new();
    let (mut samples, mut evidence) = (0, Vec::new());
    for thread in brood.threads.union(&brood.starters) {
        let is_short = brood.threads.contains(thread);
        for sample in samples_of(scene.trace, *thread).iter().filter(|sample| sample.in_kernel) {
            let starts = brood.starters.contains(thread) && STARTING.contains(&sample.syscall);
            if !is_short && !starts {
                continue;
            }
            samples += 1;
            if starts {
                stacks.push((*thread, sample.stack, 1));
            }
            if evidence.len() < EVIDENCE_MAX {
                let note = if is_short { "is starting or exiting" } else { "starts a thread" };
                evidence.push(Evidence::sample(*thread, sample.at, note.to_owned()));
            }
        }
    }
    let ledger = &scene.derived.ledger;
    let running = ledger.running_ns() as f64;
    let runtime = starting_runtime(scene, process, &stacks);
    Starting {
        samples,
        ns: samples as f64 / ledger.samples.max(1) as f64 * running,
        error_ns: share_error(samples, ledger.samples) * running,
        place: place(scene, runtime, &stacks),
        runtime,
        evidence,
    }
}

/// The runtime whose code is on more than half of the stacks that start threads, if it has advice to keep
/// threads.
fn starting_runtime<'a>(
    scene: &'a Scene,
    process: ProcessId,
    stacks: &[(ThreadId, StackId, u64)],
) -> Option<&'a Runtime> {
    let trace = scene.trace;
    let starts_most = |runtime: &&Runtime| {
        let through = |(_, stack, _): &&(ThreadId, StackId, u64)| {
            trace.stack_frames(*stack).any(|frame| is_of_runtime(trace, runtime, frame))
        };
        2 * stacks.iter().filter(through).count() > stacks.len()
    };
    let runtimes = scene.derived.roles.runtimes_in(process);
    runtimes.filter(|runtime| !runtime.keeps_threads.is_empty()).find(starts_most)
}

fn is_of_runtime(trace: &Trace, runtime: &Runtime, frame: FrameId) -> bool {
    let module = trace.frames.get(frame.index()).map_or("", |frame| frame.module.as_str());
    let file = file_name(module);
    runtime.module_marks.iter().any(|pattern| matches(pattern, &file))
}

/// The place at which the program starts most of the threads, or calls the runtime that starts them.
fn place(scene: &Scene, runtime: Option<&Runtime>, stacks: &[(ThreadId, StackId, u64)]) -> Option<String> {
    let trace = scene.trace;
    let own = OwnFrames::new(trace);
    let Some(runtime) = runtime else {
        return own_places::functions(trace, &own, stacks).into_iter().next().map(|(name, _)| name);
    };
    let mut times: BTreeMap<FrameId, u64> = BTreeMap::new();
    for (_, stack, _) in stacks {
        let mut outside = trace.stack_frames(*stack).filter(|frame| !is_of_runtime(trace, runtime, *frame));
        if let Some(frame) = outside.find_map(|frame| own.own_frame(frame)) {
            *times.entry(frame).or_default() += 1;
        }
    }
    let most = times.into_iter().max_by_key(|(frame, times)| (*times, std::cmp::Reverse(*frame)));
    most.map(|(frame, _)| trace.frame_name(frame))
}

fn finding(scene: &Scene, process: ProcessId, brood: &Brood) -> Option<Charged> {
    let starting = starting(scene, process, brood);
    let running = scene.derived.ledger.running_ns().max(1) as f64;
    let cpus = f64::from(scene.derived.occupancy.cpus.max(1));
    let (at_a_time, any_ns) = at_a_time(scene, brood);
    let in_turn = at_a_time < ONE_MAX && joined_ns(scene, brood) as f64 >= JOINED_MIN * any_ns as f64;
    let left_ns = (running - starting.ns - starting.error_ns).max(0.0) / cpus;
    // Their waits for the outside remain, unless these were sequential. So do waits for the external event
    // that starts the next one.
    let outside_ns = match in_turn {
        true => {
            Cover::from_spans(starting_up::waits_for_next(scene, &brood.threads, &brood.starters)).length_ns()
        }
        false => starting_up::outside_ns(scene, &brood.threads, &brood.starters),
    };
    let left = scene.of_wall(left_ns.max(outside_ns as f64));
    let high = scene.of_wall_if_run(starting.ns).max(1.0 - left).clamp(0.0, 1.0);
    if starting.samples < SAMPLES_MIN || starting.ns < SHARE_MIN * running || high < GAIN_MIN {
        return None;
    }
    let number = brood.lives_ns.len() as u64;
    let surely_ns = starting.ns - starting.error_ns - HANDING_NS * number as f64;
    let low = if surely_ns > 0.0 { scene.of_wall_if_run(surely_ns).min(high) } else { 0.0 };
    let charge = Charge::matching(scene.trace, |slice| is_wait_for_starting(scene, brood, slice));
    let name = scene.trace.process_name(process);
    // It is not known whether the next one needs the previous one's result.
    let sure = if in_turn { Confidence::Medium } else { Confidence::High };
    let finding = Finding {
        rule: INFO.name,
        about: About::Other,
        subject: match &starting.place {
            Some(place) => format!("{number} short-lived threads of {name}, started in {place}"),
            None => format!("{number} short-lived threads of {name}"),
        },
        summary: [
            Some(format!(
                "{name} started {} (median lifetime {}), {:.1} short-lived threads at a time on average.",
                count(number, "thread"),
                time(brood.lives_ns[brood.lives_ns.len() / 2]),
                at_a_time,
            )),
            in_turn.then(|| "Each was joined before the next was started.".to_owned()),
            Some(format!(
                "Starting and ending them took {} ± {} of CPU time in the kernel ({} of all, sampled). Each ran {} on average.",
                time(starting.ns as u64),
                time(starting.error_ns as u64),
                percent(starting.ns / running),
                time(brood.run_ns / number.max(1)),
            )),
        ]
        .into_iter()
        .flatten()
        .collect(),
        cost_ns: starting.ns as u64 + charge.ns(),
        gain: Gain { low, high },
        likely: None, confidence: scene.confidence(sure),
        evidence: starting.evidence,
        advice: advice(in_turn, starting.runtime),
    };
    Some(Charged { finding, charge })
}

fn advice(in_turn: bool, runtime: Option<&Runtime>) -> Vec<String> {
    if let Some(runtime) = runtime {
        return vec![runtime.keeps_threads.clone()];
    }
    let all =
        "Start all of them before the first join. The future of std::async joins at once if it is not kept";
    let pool = "Start as many threads as CPUs, once, and let them take work from a queue (a thread pool)";
    let range = "Or give each thread a range of items instead of one";
    let rest = [pool, range].map(String::from);
    in_turn.then(|| all.to_owned()).into_iter().chain(rest).collect()
}

/// How many of those that did not live long there were at a time while there was one, and for how long that was (ns).
fn at_a_time(scene: &Scene, brood: &Brood) -> (f64, u64) {
    let threads = brood.threads.iter().filter_map(|id| scene.trace.threads.get(id.index()));
    let lives = threads.map(|thread| (thread.start, thread.end));
    let short: Vec<Span> = lives.filter(|(start, end)| end.since(*start).0 <= LIFE_MAX_NS).collect();
    let all_ns: u64 = short.iter().map(|(start, end)| end.since(*start).0).sum();
    let any_ns = Cover::from_spans(short).length_ns();
    (all_ns as f64 / any_ns.max(1) as f64, any_ns)
}

/// How long the starters waited for others' ends (ns).
fn joined_ns(scene: &Scene, brood: &Brood) -> u64 {
    let starters = scene.derived.ledger.threads.iter().filter(|one| brood.starters.contains(&one.thread));
    starters.map(|one| one.classes[Class::JoinWait as usize]).sum()
}

/// Whether the slice is a wait of short-lived threads for a CPU. Also true for a wait of them or their
/// starters for the locks of stack creation.
fn is_wait_for_starting(scene: &Scene, brood: &Brood, slice: &Slice) -> bool {
    let is_short = brood.threads.contains(&slice.thread);
    match slice.state {
        ThreadState::Blocked => {
            let reason = scene.trace.wait(slice.wait).reason;
            matches!(reason, WaitReason::MmapLock | WaitReason::Lock)
                && (is_short || brood.starters.contains(&slice.thread))
        }
        ThreadState::Runnable | ThreadState::Preempted => is_short,
        _ => false,
    }
}
