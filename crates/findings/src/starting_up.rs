//! Short-lived threads for each of which a runtime builds an interpreter and loads the program's code into it
//! (`[[starting]]` of descriptors). `thread-per-item` uses this finding if this part takes the time, and not
//! the kernel's part.

use std::collections::{BTreeMap, BTreeSet};

use holdup_events::tables::{SampleRow, ThreadState};
use holdup_events::{ProcessId, ThreadId, WaitReason};

use crate::charge::Charge;
use crate::derive::class::Class;
use crate::derive::cover::{Cover, Span};
use crate::derive::known_stacks::KnownStacks;
use crate::derive::ledger::ThreadLedger;
use crate::derive::split::share_error;
use crate::derive::{is_first_thread, samples_of};
use crate::descriptors::{KnownWork, Role};
use crate::finding::{About, Confidence, Evidence, Finding, Gain};
use crate::rule::Charged;
use crate::scene::{EVIDENCE_MAX, GAIN_MIN, Scene};
use crate::wording::{count, percent, time};

/// Fewer that were seen at it may be a pool that starts.
const SEEN_MIN: usize = 20;
/// A thread that lives longer (ns) does more than start: the tenth of a second that an interpreter takes is little of that.
const LIFE_MAX_NS: u64 = 1_000_000_000;
/// Minimum share of all running time.
const SHARE_MIN: f64 = 0.1;
/// Minimum number of samples. Fewer may be chance.
const SAMPLES_MIN: u64 = 20;
/// Maximum time (ns) to hand a piece of work to an existing interpreter, with its copy and the result's
/// return.
const HANDING_NS: f64 = 100_000.0;

/// The short-lived threads of a process, and their samples.
#[derive(Default)]
struct Brood {
    threads: BTreeSet<ThreadId>,
    starters: BTreeSet<ThreadId>,
    /// Threads with a sample of their start-up.
    seen: BTreeSet<ThreadId>,
    lives_ns: Vec<u64>,
    run_ns: u64,
    samples: u64,
    /// Samples of their being built up, by kind.
    of_kind: BTreeMap<usize, u64>,
    evidence: Vec<Evidence>,
}

impl Brood {
    fn starting(&self) -> u64 {
        self.of_kind.values().sum()
    }
}

/// The process that loses most by it.
pub fn finding(scene: &Scene, rule: &'static str) -> Option<Charged> {
    let mut stacks = KnownStacks::new(scene.trace, &scene.derived.roles, |runtime| &runtime.starting)?;
    let broods = broods(scene, &mut stacks);
    let kinds = stacks.kinds();
    let found = broods.iter().filter_map(|(process, brood)| judged(scene, rule, (*process, brood), kinds));
    found.max_by_key(|found| found.finding.cost_ns)
}

/// Threads that lived shortly, by process, where a runtime that builds such is.
fn broods(scene: &Scene, stacks: &mut KnownStacks) -> BTreeMap<ProcessId, Brood> {
    let trace = scene.trace;
    let mut broods: BTreeMap<ProcessId, Brood> = BTreeMap::new();
    for ledger in scene.derived.ledger.threads.iter().filter(|ledger| lived_shortly(scene, ledger)) {
        let thread = &trace.threads[ledger.thread.index()];
        let process = thread.process;
        if !stacks.are_in(process) {
            continue;
        }
        let brood = broods.entry(process).or_default();
        brood.threads.insert(ledger.thread);
        brood.starters.extend(thread.parent);
        brood.lives_ns.push(ledger.life.0);
        brood.run_ns += ledger.running_ns();
        for sample in samples_of(trace, ledger.thread) {
            brood.samples += 1;
            let Some(kind) = stacks.innermost_kind(sample.stack, process) else { continue };
            *brood.of_kind.entry(kind).or_default() += 1;
            if brood.seen.insert(ledger.thread) && brood.evidence.len() < EVIDENCE_MAX {
                let note = "is starting up".to_owned();
                brood.evidence.push(Evidence::sample(ledger.thread, sample.at, note));
            }
        }
    }
    broods
}

fn lived_shortly(scene: &Scene, ledger: &ThreadLedger) -> bool {
    let Some(thread) = scene.trace.threads.get(ledger.thread.index()) else { return false };
    let is_whole =
        !thread.began_before && !thread.alive_at_end && !is_first_thread(scene.trace, ledger.thread);
    is_whole && ledger.life.0 <= LIFE_MAX_NS
}

fn judged(
    scene: &Scene,
    rule: &'static str,
    (process, brood): (ProcessId, &Brood),
    kinds: &[&KnownWork],
) -> Option<Charged> {
    let (kind, _) = brood.of_kind.iter().max_by_key(|(_, samples)| **samples)?;
    let running = scene.derived.ledger.running_ns().max(1) as f64;
    let (samples, run_ns) = (brood.starting(), brood.run_ns as f64);
    let ns = samples as f64 / brood.samples.max(1) as f64 * run_ns;
    let error_ns = share_error(samples, brood.samples) * run_ns;
    let compiling_ns = compiling_ns(scene, process, brood);
    let high = without(scene, brood, run_ns + compiling_ns);
    if brood.seen.len() < SEEN_MIN || samples < SAMPLES_MIN || ns < SHARE_MIN * running || high < GAIN_MIN {
        return None;
    }
    let surely_ns = ns - error_ns - HANDING_NS * brood.threads.len() as f64;
    let low = if surely_ns > 0.0 { scene.of_wall_if_run(surely_ns).min(high) } else { 0.0 };
    let charge = Charge::matching(scene.trace, |slice| {
        brood.threads.contains(&slice.thread)
            && matches!(slice.state, ThreadState::Runnable | ThreadState::Preempted)
    });
    let finding = Finding {
        rule,
        about: About::Other,
        subject: format!(
            "{} short-lived threads of {}",
            brood.threads.len(),
            scene.trace.process_name(process)
        ),
        summary: summary(scene, (process, brood), kinds[*kind], [ns, error_ns, compiling_ns]),
        cost_ns: ns as u64 + charge.ns(),
        gain: Gain { low, high },
        likely: None,
        // Samples do not show how much of the rest is code that a reused thread would already have loaded.
        confidence: scene.confidence(Confidence::Medium),
        evidence: brood.evidence.clone(),
        advice: vec![kinds[*kind].advice.clone()],
    };
    Some(Charged { finding, charge })
}

/// Time (ns) that a thread of `threads` waited outside the program, or that its starter did while none of
/// them lived. Such waits are for the next item (a connection, a point in time). An existing thread does not
/// make the item arrive earlier.
pub fn outside_ns(scene: &Scene, threads: &BTreeSet<ThreadId>, starters: &BTreeSet<ThreadId>) -> u64 {
    let mut spans = scene.outside(threads).spans().to_vec();
    spans.extend(waits_for_next(scene, threads, starters));
    Cover::from_spans(spans).length_ns()
}

/// The spans in which the starters of these threads waited outside the program while none of these threads
/// lived.
pub fn waits_for_next(
    scene: &Scene,
    threads: &BTreeSet<ThreadId>,
    starters: &BTreeSet<ThreadId>,
) -> Vec<Span> {
    let trace = scene.trace;
    let rows = threads.iter().filter_map(|id| trace.threads.get(id.index()));
    let lives = Cover::from_spans(rows.map(|thread| (thread.start, thread.end)).collect());
    // Peers may be waited for many at a time, too.
    let polls = starters.iter().flat_map(|id| trace.slices.of_thread(*id)).filter(|slice| {
        scene.class(slice) == Some(Class::WorkWait) && trace.wait(slice.wait).reason == WaitReason::Multiplex
    });
    let mut waits = scene.outside(starters).spans().to_vec();
    waits.extend(polls.map(|slice| (slice.start, slice.end)));
    Cover::from_spans(waits).spans().iter().flat_map(|span| lives.without(*span)).collect()
}

/// Upper bound on the share of the wall time saved without this running time. The rest is spread over all
/// CPUs. It takes at least as long as these threads and their starters wait outside the program.
fn without(scene: &Scene, brood: &Brood, removed_ns: f64) -> f64 {
    let running = scene.derived.ledger.running_ns() as f64;
    let cpus = f64::from(scene.derived.occupancy.cpus.max(1));
    let outside_ns = outside_ns(scene, &brood.threads, &brood.starters);
    let left_ns = ((running - removed_ns).max(0.0) / cpus).max(outside_ns as f64);
    scene.of_wall_if_run(removed_ns).max(1.0 - scene.of_wall(left_ns)).clamp(0.0, 1.0)
}

/// Running of the process' other threads in a compiler (ns): it compiles what the short-lived ones run for the first time, too.
fn compiling_ns(scene: &Scene, process: ProcessId, brood: &Brood) -> f64 {
    let (trace, roles, ledger) = (scene.trace, &scene.derived.roles, &scene.derived.ledger);
    let compiles = |sample: &&SampleRow| roles.role_of_sample(sample) == Some(Role::JitCompile);
    let others =
        ledger.threads.iter().map(|one| one.thread).filter(|thread| {
            trace.threads[thread.index()].process == process && !brood.threads.contains(thread)
        });
    let samples: usize = others.map(|one| samples_of(trace, one).iter().filter(compiles).count()).sum();
    samples as f64 / ledger.samples.max(1) as f64 * ledger.running_ns() as f64
}

fn summary(
    scene: &Scene,
    (process, brood): (ProcessId, &Brood),
    kind: &KnownWork,
    [ns, error_ns, compiling_ns]: [f64; 3],
) -> Vec<String> {
    let mut lives_ns = brood.lives_ns.clone();
    lives_ns.sort_unstable();
    let running = scene.derived.ledger.running_ns().max(1) as f64;
    let mut lines = vec![
        format!(
            "{} started {} (median lifetime {}). They ran for {} in total.",
            scene.trace.process_name(process),
            count(brood.threads.len() as u64, "short-lived thread"),
            time(lives_ns[lives_ns.len() / 2]),
            time(brood.run_ns)
        ),
        format!(
            "{} ± {} of that (sampled; {} of all running time) was spent where {}.",
            time(ns as u64),
            time(error_ns as u64),
            percent(ns / running),
            kind.what
        ),
        "The rest is their work and code that runs for the first time. Samples do not separate these."
            .to_owned(),
    ];
    if compiling_ns >= SHARE_MIN * running {
        lines.push(format!("Other threads compiled such code for {} (sampled).", time(compiling_ns as u64)));
    }
    lines
}
