//! # subprocess-per-item: a process is started for every small piece of work
//!
//! ## Symptoms
//! Processes that one process starts one after another, their lifetime, and the time that threads wait for
//! their exit.
//!
//! ## Why it hurts
//! A process costs about a millisecond before its first line runs: fork copies page tables, exec maps and
//! links, the interpreter starts. Work that takes less than that should be a function call.
//!
//! ## How it decides
//! A process must start many short-lived children, and its threads must wait for them. (Most of its children
//! must be short-lived. Those that are young at the end of the recording do not count.) The upper bound of
//! the gain removes the waits while any of these children was running or runnable. Their work inside the
//! parent takes no time. The children's own sleeps and waits are not counted, nor is the work of children
//! that lived longer. The lower bound is the children's sampled running time inside the kernel, which is
//! nearly all start and exit. It is divided by the number of parallel children, and limited to the parent's
//! waits.
//!
//! The parent may hardly wait, like a server that forks a process for each connection. Then the upper bound
//! is that the children do not run at all, on CPUs that the program keeps busy. The lower bound is 0, because
//! their work may be necessary.
//!
//! ## What to do
//! Call a library instead of a program. Start one process and send it all the items (`xargs` without `-n 1`,
//! a co-process, a batch option). Keep connections to a server that has a process for each open (a pool with
//! as many as are used). In shell scripts use the shell's built-ins instead of `sed`, `cut`, `expr`.
//!
//! ## Blind spots
//! Children that do much work in a short time look the same. Only the split of their running time shows
//! whether start-up or work is the cost. The linker's and the interpreter's own start counts as work.
//!
//! ## References
//! Baumann et al.: A fork() in the road (HotOS 2019). Linux `vfork(2)`, `posix_spawn(3)`.

mod removal;

use std::collections::{BTreeMap, BTreeSet};

use holdup_events::tables::{Thread, ThreadState};
use holdup_events::{ProcessId, ThreadId};

use crate::charge::Charge;
use crate::derive::class::Class;
use crate::derive::cover::Cover;
use crate::derive::ledger::ThreadLedger;
use crate::finding::{About, Confidence, Finding, Gain};
use crate::removal::Removal;
use crate::rule::{Cause, Charged, ChargedVerdict, Estimate, Explains, Info, Rule};
use crate::scene::{GAIN_MIN, Scene};
use crate::wording::{percent, time};

pub(super) static INFO: Info = Info {
    estimate: Estimate::Replayed,
    may_be_needed: true,
    explains: &[
        // Starting children is what takes the time, not that they come one after the other.
        Explains::shared(&super::child_wait::INFO),
    ],
    ..Info::new("subprocess-per-item", "A process is started for every small piece of work")
};

/// Fewer children are not one an item.
const CHILDREN_MIN: usize = 20;

/// Children that live longer (median, ns) do more than start.
const LIFE_MAX_NS: u64 = 100_000_000;

/// Minimum share of the run for a likely finding about children for which no thread waits.
const MUCH: f64 = 0.1;

/// The short-lived children of one process.
#[derive(Default)]
struct Brood {
    /// Lifetimes of the short-lived children.
    lives_ns: Vec<u64>,
    /// How many of them ended.
    ended: usize,
    /// How many live longer.
    others: usize,
    kernel_ns: u64,
    /// Time in which they reclaimed memory, including waits. It is not start-up time, because a call instead
    /// of a process would reclaim it too.
    taken_back_ns: u64,
    running_ns: u64,
    /// The short-lived children.
    short: BTreeSet<ProcessId>,
    names: BTreeMap<String, u64>,
}

pub(super) struct SubprocessPerItem;

impl Rule for SubprocessPerItem {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        scene.needs_wait_reasons()?;
        let mut best: Option<Charged> = None;
        for (parent, brood) in broods(scene) {
            let charge = waited(scene, parent);
            let is_waited_for = scene.of_wall(longest_ns(scene, &charge) as f64) >= GAIN_MIN;
            let found = match is_waited_for {
                true => finding(scene, parent, brood, charge),
                false => unwaited(scene, parent, &brood),
            };
            if best.as_ref().is_none_or(|best| best.finding.gain.high < found.finding.gain.high) {
                best = Some(found);
            }
        }
        Ok(best.into_iter().collect())
    }

    fn removal(&self, cause: &Cause) -> Option<Removal> {
        removal::children(cause.trace(), cause.charge)
    }
}

/// Processes with many short-lived children, which are most of theirs.
fn broods(scene: &Scene) -> BTreeMap<ProcessId, Brood> {
    let trace = scene.trace;
    let mut broods: BTreeMap<ProcessId, Brood> = BTreeMap::new();
    let taken_back: BTreeMap<ThreadId, u64> =
        scene.derived.paging.threads.iter().map(|(thread, counts)| (*thread, counts.reclaim_ns())).collect();
    let child = |ledger: &ThreadLedger| {
        let thread = trace.threads.get(ledger.thread.index()).filter(|thread| !thread.began_before)?;
        let process = trace.processes.get(thread.process.index())?;
        Some((process.parent?, thread, process))
    };
    for ledger in &scene.derived.ledger.threads {
        let Some((parent, thread, process)) = child(ledger) else { continue };
        if thread.tid != process.pid {
            continue;
        }
        let brood = broods.entry(parent).or_default();
        let is_short = lives_shortly(thread);
        brood.ended += usize::from(is_short == Some(true));
        if is_short.unwrap_or(true) {
            brood.short.insert(thread.process);
            brood.lives_ns.push(ledger.life.0);
            *brood.names.entry(process.name.clone()).or_default() += 1;
        } else {
            brood.others += 1;
        }
    }
    for ledger in &scene.derived.ledger.threads {
        let Some((parent, thread, _)) = child(ledger) else { continue };
        if let Some(brood) = broods.get_mut(&parent).filter(|one| one.short.contains(&thread.process)) {
            brood.kernel_ns += ledger.classes[Class::Kernel as usize];
            brood.taken_back_ns += taken_back.get(&ledger.thread).copied().unwrap_or(0);
            brood.running_ns += ledger.running_ns();
        }
    }
    broods.retain(|_, brood| {
        brood.lives_ns.sort_unstable();
        // Those that are young yet are as these were.
        brood.ended >= CHILDREN_MIN && brood.ended >= brood.others
    });
    broods
}

/// Whether a child did only a small piece of work. `None` if the recording ends before that is known.
pub(super) fn lives_shortly(thread: &Thread) -> Option<bool> {
    let is_young = thread.end.since(thread.start).0 <= LIFE_MAX_NS;
    (!is_young || !thread.alive_at_end).then_some(is_young)
}

/// Time (ns) in which any of the short-lived children was in such a state. Parallel children count once.
fn any_ns(scene: &Scene, brood: &Brood, is_one: impl Fn(ThreadState) -> bool) -> u64 {
    let trace = scene.trace;
    let theirs = trace.target_threads().filter(|id| brood.short.contains(&trace.threads[id.index()].process));
    let slices = theirs.flat_map(|id| trace.slices.of_thread(id)).filter(|slice| is_one(slice.state));
    Cover::from_spans(slices.map(|slice| (slice.start, slice.end)).collect()).length_ns()
}

/// The waits of a process's threads for the exit of children.
fn waited(scene: &Scene, parent: ProcessId) -> Charge {
    let is_parent =
        |id: ThreadId| scene.trace.threads.get(id.index()).is_some_and(|thread| thread.process == parent);
    Charge::matching(scene.trace, |slice| {
        scene.class(slice) == Some(Class::ChildWait) && is_parent(slice.thread)
    })
}

/// The longest total wait of a thread (ns).
fn longest_ns(scene: &Scene, charge: &Charge) -> u64 {
    let mut by_thread: BTreeMap<ThreadId, u64> = BTreeMap::new();
    for slice in charge.slices(scene.trace) {
        *by_thread.entry(slice.thread).or_default() += slice.duration().0;
    }
    by_thread.values().max().copied().unwrap_or(0)
}

fn subject(scene: &Scene, parent: ProcessId, brood: &Brood) -> String {
    let common = brood.names.iter().max_by_key(|(name, times)| (**times, std::cmp::Reverse(*name)));
    let (children, whose) = (brood.lives_ns.len(), scene.trace.process_name(parent));
    match common {
        Some((name, times)) => format!("{children} short-lived processes of {whose}, {times} of them {name}"),
        None => whose.to_owned(),
    }
}

/// The finding for children for whose exit no thread waits, but that use CPUs which are needed.
fn unwaited(scene: &Scene, parent: ProcessId, brood: &Brood) -> Charged {
    let trace = scene.trace;
    let whose = trace.process_name(parent);
    let high = scene.of_wall_if_run(brood.running_ns as f64).min(1.0);
    let is_one =
        |id: ThreadId| trace.threads.get(id.index()).is_some_and(|one| brood.short.contains(&one.process));
    let sure = if high >= MUCH { Confidence::Medium } else { Confidence::Low };
    Charged::from(Finding {
        rule: INFO.name,
        about: About::Other,
        subject: subject(scene, parent, brood),
        summary: vec![format!(
            "{whose} started {} short-lived processes (median lifetime {}). They ran {} in total, {} of it in the kernel (sampled).",
            brood.lives_ns.len(),
            time(brood.lives_ns[brood.lives_ns.len() / 2]),
            time(brood.running_ns),
            time(brood.kernel_ns),
        )],
        cost_ns: brood.running_ns,
        gain: Gain { low: 0.0, high },
        likely: None,
        confidence: scene.confidence(sure),
        evidence: scene.longest(
            |slice| slice.state == ThreadState::Running && is_one(slice.thread),
            |_| "runs, and exits soon".to_owned(),
        ),
        advice: vec![
            "If each is for a connection: keep connections open, in a pool as large as the number in use"
                .into(),
            "Or use long-lived worker processes that take one item after another".into(),
        ],
    })
}

fn finding(scene: &Scene, parent: ProcessId, brood: Brood, charge: Charge) -> Charged {
    let trace = scene.trace;
    let longest = longest_ns(scene, &charge) as f64;
    let lived_ns: u64 = brood.lives_ns.iter().sum();
    // A call instead of the children would sleep and wait as long.
    let busy_ns = any_ns(scene, &brood, |state| state == ThreadState::Running || state.waits_for_cpu());
    let high = scene.of_wall(longest.min(busy_ns as f64)).clamp(0.0, 1.0);
    let starting_ns = brood.kernel_ns.saturating_sub(brood.taken_back_ns) as f64;
    let any_ran_ns = any_ns(scene, &brood, |state| state == ThreadState::Running) as f64;
    let surely_ns = starting_ns * any_ran_ns / brood.running_ns.max(1) as f64;
    let children = brood.lives_ns.len() as u64;
    let finding = Finding {
        rule: INFO.name,
        about: About::Other,
        subject: subject(scene, parent, &brood),
        summary: vec![
            format!(
                "{} started {children} short-lived processes (median lifetime {}), and waited {} for its children ({} of the run).",
                trace.process_name(parent),
                time(brood.lives_ns[brood.lives_ns.len() / 2]),
                time(charge.ns()),
                percent(scene.of_wall(charge.ns() as f64)),
            ),
            in_kernel(&brood),
        ],
        // The cost is at most their lifetime. Longer waits are for other children.
        cost_ns: charge.ns().min(lived_ns),
        gain: Gain { low: scene.of_wall(surely_ns).min(high), high },
        likely: None,
        confidence: scene.confidence(Confidence::Medium),
        evidence: scene.longest_of(&charge, |_| "waits for a child".to_owned()),
        advice: vec![
            "Do the work with a library call, or with the shell's built-ins, instead of a program".into(),
            "Or start one process and pass it all the items".into(),
        ],
    };
    Charged { finding, charge }
}

fn in_kernel(brood: &Brood) -> String {
    let kernel = time(brood.kernel_ns);
    match brood.taken_back_ns * 10 > brood.kernel_ns {
        true => format!(
            "They ran {kernel} in the kernel (sampled): {} to free memory, the rest mostly to start and exit.",
            time(brood.taken_back_ns)
        ),
        false => format!("They ran {kernel} in the kernel (sampled), mostly to start and exit."),
    }
}
