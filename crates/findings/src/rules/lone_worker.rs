//! # lone-worker: the run is as long as one thread's computation, and other threads wait for it
//!
//! ## Symptoms
//! A thread that runs on the critical path for more than half of the run, hardly in parallel with other
//! threads. Other threads or processes wait for its work. Examples: the only server of many clients, the
//! slowest stage of a pipeline, a pool of which one thread has all the work.
//!
//! ## Why it hurts
//! No change outside that thread matters: no other thread, no further CPU, no faster client makes the run
//! shorter. Only this thread's work counts, and whether other threads could do a part of it.
//!
//! ## How it decides
//! The critical path is walked back from the end of the run, from each wait to the thread that ended it. The
//! thread must run on the path for at least half of the run. It must also account for half of the run in the
//! bottle graph, in which parallel threads share the time. Other threads on the path must have waited for it
//! for at least half of its running time. Waits for work, for a response, and at a pipe count. Idle helpers
//! do not count, nor does a thread that only joins it or is its parent (except a parent with several active
//! children).
//!
//! There is no finding if a rule with a specific cause has at least half of the gain. Serial sections, locks,
//! collections and handovers have their own rules. A certain gain ranks before this finding. Upper bound: its
//! work in the named function goes (or half of its work, if no function has half of it). Idle CPUs take their
//! part of the rest. With too few samples all of it goes. The lower bound is 0, because it is not known
//! whether the work is necessary, or can be divided.
//!
//! A hint is given if no thread waits for it, but workers of its runtime (GHC, Go, tokio, ...) are idle for
//! nearly all of the run. Either there was no work for them, or their work stays undone until this thread
//! needs it (lazily computed values).
//!
//! ## What to do
//! Reduce that thread's work: the named function is the length of the run. Or divide its work into more
//! threads of that kind, more processes, or smaller pieces, so that idle CPUs take some of them.
//!
//! ## Blind spots
//! A spinning thread looks like a working one. Work that passes from thread to thread of one process, one at
//! a time, has no lone worker: serial-section reports it. For single-threaded programs for which no thread
//! waits, the busiest function above the findings is the result.
//!
//! ## References
//! Amdahl: Validity of the single processor approach (1967). Du Bois et al.: Bottle graphs (OOPSLA 2013).
//! Goldratt: The goal (1984), on the constraint of a line.

use std::collections::{BTreeMap, BTreeSet};

use holdup_events::event::WakeContext;
use holdup_events::tables::{SampleRow, ThreadState};
use holdup_events::{FrameId, ProcessId, StackId, ThreadId, Trace, WaitId};

use crate::derive::blame::Edge;
use crate::derive::busiest::{self, Busiest, MOST, SAMPLES_MIN};
use crate::derive::class::Class;
use crate::derive::holders::HoldKind;
use crate::derive::ledger::ThreadLedger;
use crate::derive::samples_of;
use crate::derive::split::share_error;
use crate::finding::{About, Confidence, Finding, Gain};
use crate::rule::{ChargedVerdict, Info, Rule, Standing, Verdict, uncharged};
use crate::scene::Scene;
use crate::wording::{self, count, percent, thread, time};

pub(super) static INFO: Info = Info {
    standing: Standing::Fallback,
    may_be_needed: true,
    ..Info::new("lone-worker", "The run takes as long as one thread computes while others wait for it")
};

/// Minimum share of the run on the critical path, and in the bottle graph.
const PATH_MIN: f64 = 0.5;

/// Maximum mean number of active threads while it is active, including itself.
const AT_ONCE_MAX: f64 = 1.5;

/// Others wait for it for this part of the time that it runs there.
const WAITED_FOR_MIN: f64 = 0.5;

/// A parent with this many children, of which this many live in parallel on average, makes them work in
/// parallel.
const POOL_MIN: u64 = 4;
const SIDE_BY_SIDE_MIN: f64 = 1.2;

/// Minimum mean number of idle CPUs, for other threads to do a part of the work.
const IDLE_MIN: f64 = 0.5;

pub(super) struct LoneWorker;

impl Rule for LoneWorker {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        uncharged(judge(scene))
    }
}

fn judge(scene: &Scene) -> Verdict {
    scene.needs_wait_reasons()?;
    let Some((lone, path_ns)) = on_the_path(scene) else { return Ok(Vec::new()) };
    let bottle = scene.derived.bottles.iter().find(|bottle| bottle.thread == lone);
    let (height_ns, at_once) = bottle.map_or((0.0, 0.0), |bottle| (bottle.height_ns, bottle.parallelism()));
    let share = scene.of_wall(path_ns as f64).min(scene.of_wall(height_ns));
    if share < PATH_MIN || at_once > AT_ONCE_MAX {
        return Ok(Vec::new());
    }
    let waited = Waited::for_thread(scene, lone);
    if waited.ns as f64 >= WAITED_FOR_MIN * path_ns as f64 {
        let beside = Beside {
            said: waited.sentence(),
            note: "works while others wait for it",
            sure: Confidence::Medium,
        };
        return Ok(vec![finding(scene, (lone, path_ns, at_once), beside)]);
    }
    let idle = idle_workers(scene, lone);
    let is_hint = idle > 0 && share >= ALL_BUT_ALONE_MIN && idle_cpus(scene) >= IDLE_MIN;
    let beside = || Beside {
        said: format!(
            "The runtime had {} idle during that time: their work was finished at once, or is computed only where its result is used.",
            count(idle, "worker")
        ),
        note: "works while the runtime's other workers are idle",
        sure: Confidence::Low,
    };
    Ok(is_hint.then(|| finding(scene, (lone, path_ns, at_once), beside())).into_iter().collect())
}

/// Sentences on the other threads.
struct Beside {
    said: String,
    /// The same of each row of evidence.
    note: &'static str,
    sure: Confidence,
}

/// Minimum share of the run for a thread next to which all other threads are idle, to be reported.
const ALL_BUT_ALONE_MIN: f64 = 0.75;
/// A worker has nothing to do if it waits for work for this part of its life, ...
const IDLE_LIFE_MIN: f64 = 0.9;
/// ... which is this part of the run.
const LIFE_MIN: f64 = 0.5;

/// Workers of the same process, of a runtime whose threads carry tasks, that had none.
fn idle_workers(scene: &Scene, lone: ThreadId) -> u64 {
    let process = |thread: ThreadId| scene.trace.threads[thread.index()].process;
    let roles = &scene.derived.roles;
    let carries = |thread: ThreadId| {
        let mut waits =
            scene.trace.slices.of_thread(thread).filter(|slice| slice.state == ThreadState::Blocked);
        waits.any(|slice| {
            roles.rule_of_wait(&slice).is_some_and(|(runtime, rule)| runtime.carries_tasks && rule.idle)
        })
    };
    let is_idle = |one: &&ThreadLedger| {
        one.classes[Class::WorkWait as usize] as f64 >= IDLE_LIFE_MIN * one.life.0 as f64
            && scene.of_wall(one.life.0 as f64) >= LIFE_MIN
            && one.thread != lone
            && process(one.thread) == process(lone)
            && carries(one.thread)
    };
    scene.derived.ledger.threads.iter().filter(is_idle).count() as u64
}

/// The thread that runs longest on the critical path, and how long (ns).
fn on_the_path(scene: &Scene) -> Option<(ThreadId, u64)> {
    let threads = scene.derived.critical_path.threads.iter();
    let running = threads.map(|(id, classes)| (*id, classes[Class::Useful as usize]));
    running.max_by_key(|(id, ns)| (*ns, std::cmp::Reverse(*id)))
}

/// Threads that waited for one thread, and continued with its results.
struct Waited {
    /// How long, of all waiters together (ns).
    ns: u64,
    /// How many there were.
    waiters: BTreeSet<ThreadId>,
}

impl Waited {
    fn sentence(&self) -> String {
        let waiters = count(self.waiters.len() as u64, "thread");
        format!("{waiters} waited for it, {} in total.", time(self.ns))
    }

    /// A helper that receives work waits too, but no thread waits for it, so it is not on the path. A thread
    /// that only joins the lone thread, or has forked it, has no other purpose.
    fn for_thread(scene: &Scene, lone: ThreadId) -> Waited {
        use HoldKind::*;
        let is_wait = |kind| matches!(kind, Work | Barrier | Socket | Poll | PipeFull | PipeEmpty);
        let path = &scene.derived.critical_path.threads;
        let on_path = path.iter().filter(|(_, classes)| classes[Class::Useful as usize] > 0);
        let on_path: BTreeSet<ThreadId> = on_path.map(|(id, _)| *id).collect();
        let pools = pools(scene);
        let process = |thread: ThreadId| scene.trace.threads[thread.index()].process;
        let is_pool = |edge: &Edge| edge.kind == Child && pools.contains(&process(edge.waiter));
        let of_it = |edge: &&Edge| {
            edge.holder == lone && (is_wait(edge.kind) || is_pool(edge)) && on_path.contains(&edge.waiter)
        };
        let edges: Vec<&Edge> = scene.derived.blame.edges.iter().filter(of_it).collect();
        let waiters: BTreeSet<ThreadId> = edges.iter().map(|edge| edge.waiter).collect();
        let looked_again = waiters.iter().map(|waiter| looked_again_ns(scene.trace, *waiter, lone));
        let ns = edges.iter().map(|edge| edge.ns).sum::<u64>() + looked_again.sum::<u64>();
        Waited { ns, waiters }
    }
}

/// Processes with several active children at a time. A thread that waits for the last child waits for one of
/// many.
fn pools(scene: &Scene) -> BTreeSet<ProcessId> {
    let parents = scene.derived.children.iter();
    parents
        .filter(|one| one.children >= POOL_MIN && one.side_by_side() >= SIDE_BY_SIDE_MIN)
        .map(|one| one.process)
        .collect()
}

/// Time (ns) that a thread waited with timeouts for an event that, mostly, the lone thread finally signalled.
fn looked_again_ns(trace: &Trace, waiter: ThreadId, lone: ThreadId) -> u64 {
    let mut of_wait: BTreeMap<WaitId, (u64, i64)> = BTreeMap::new();
    for slice in trace.slices.of_thread(waiter).filter(|slice| slice.state == ThreadState::Blocked) {
        let (timed_ns, told) = of_wait.entry(slice.wait).or_default();
        match trace.ended_by(&slice) {
            Some(end) if end.context == WakeContext::Thread => {
                *told += if end.waker == lone { 1 } else { -1 }
            }
            Some(end) if end.context == WakeContext::Timer => *timed_ns += slice.duration().0,
            _ => {}
        }
    }
    of_wait.into_values().filter(|(_, told)| *told > 0).map(|(timed_ns, _)| timed_ns).sum()
}

fn finding(scene: &Scene, (lone, path_ns, at_once): (ThreadId, u64, f64), beside: Beside) -> Finding {
    let name = thread(scene.trace, lone);
    let share = scene.of_wall(path_ns as f64);
    let busiest = busiest::of_thread(scene.trace, &scene.derived.roles, lone);
    let mut summary = vec![
        format!(
            "For {} ({} of the run) only this thread kept the run going ({at_once:.1} active threads on average).",
            time(path_ns),
            percent(share)
        ),
        beside.said,
    ];
    let mut less = "Have it do less: its work determines the run's length".to_owned();
    if let Some(busiest) = &busiest {
        let place = busiest.display_name();
        less = format!("Do less in {place}: it determines the run's length");
        let (share, error) = (percent(busiest.share), percent(busiest.error));
        summary.push(format!("{share} ± {error} of its useful work is in {place}."));
    }
    let mut advice = vec![less];
    if idle_cpus(scene) >= IDLE_MIN {
        advice.push(
            "Or divide its work: more threads or processes of that kind, smaller pieces or shards, the longest piece first".into(),
        );
    }
    Finding {
        rule: INFO.name,
        about: About::Other,
        subject: name,
        summary,
        cost_ns: path_ns,
        gain: Gain { low: 0.0, high: share.min(1.0) * removable(scene, lone, busiest.as_ref()) },
        likely: None,
        confidence: scene.confidence(beside.sure),
        evidence: scene.longest(
            |slice| slice.thread == lone && slice.state == ThreadState::Running,
            |_| beside.note.to_owned(),
        ),
        advice,
    }
}

/// Upper bound on the removable share of the thread's running time (0 to 1). It is its work in the function
/// with most of its work. It also includes the part of the rest that idle CPUs would take.
fn removable(scene: &Scene, lone: ThreadId, busiest: Option<&Busiest>) -> f64 {
    let samples = samples_of(scene.trace, lone);
    if (samples.len() as u64) < SAMPLES_MIN {
        return 1.0;
    }
    let idle = idle_cpus(scene).max(0.0);
    let rest = 1.0 - busiest.map_or(MOST, |one| part_in(scene.trace, samples, one));
    1.0 - rest / (1.0 + idle)
}

/// The part of these samples (0 to 1) in which that function is on the stack, the kernel's work for it included, with its error.
fn part_in(trace: &Trace, samples: &[SampleRow], busiest: &Busiest) -> f64 {
    let is_it = |frame: FrameId| wording::function(&trace.frame_name(frame)) == busiest.function;
    let mut of_stack: BTreeMap<StackId, bool> = BTreeMap::new();
    let mut inside = 0;
    for sample in samples {
        let holds = || trace.stack_frames(sample.stack).any(is_it);
        inside += u64::from(*of_stack.entry(sample.stack).or_insert_with(holds));
    }
    // A library without names is on no stack under its own.
    if inside == 0 {
        return busiest.share;
    }
    let all = samples.len() as u64;
    (inside as f64 / all as f64 + share_error(inside, all)).min(1.0)
}

/// How many of the CPUs did nothing for the program on average while any of its threads ran.
fn idle_cpus(scene: &Scene) -> f64 {
    let cpus = f64::from(scene.derived.occupancy.cpus);
    cpus - scene.derived.parallelism.running_mean()
}
