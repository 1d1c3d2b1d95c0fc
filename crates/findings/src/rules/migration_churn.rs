//! # migration-churn: threads move between CPUs all the time
//!
//! ## Symptoms
//! How often a thread continues on another CPU shortly after it ran on one, where its caches were still warm.
//!
//! ## Why it hurts
//! On the new CPU the thread finds none of its data in the nearest caches, and refills them while it runs. On
//! a machine with several sockets its memory may be remote from then on.
//!
//! ## How it decides
//! It counts moves with a pause of less than a millisecond in between. After a longer pause the caches mostly
//! contain other threads' data. Moves between hardware threads of one core do not count, because these share
//! all caches. Moves to another memory node (NUMA) are named and come first in the evidence. The cost of a
//! move is not measured. The gain uses the range that was measured elsewhere: 1 to 20 µs of running time
//! each. The finding is a hint.
//!
//! ## What to do
//! Find out why threads are woken so often (sleeps, locks, handovers: see the other findings). A thread that
//! is not woken does not move. Bind threads to CPUs or nodes only if that does not help, and measure the
//! effect.
//!
//! ## Blind spots
//! Moves between two cores that share a cache cost little. A move to another node may cost far more than
//! stated, because the memory stays on the old node. If recordings of other tools do not contain the CPU
//! topology, every move counts. Losses after a long pause are not counted.
//!
//! ## References
//! Li, Ding, Shen: Quantifying the cost of context switch (ExpCS 2007). Linux `sched(7)`, `taskset(1)`.

use holdup_events::tables::{Slice, ThreadState};
use holdup_events::{CpuId, ThreadId};

use crate::derive::nodes::{Distance, distance};
use crate::derive::parallel;
use crate::finding::{About, Confidence, Evidence, Finding, Gain};
use crate::rule::{ChargedVerdict, Info, Remedy, Rule, Verdict, uncharged};
use crate::scene::{EVIDENCE_MAX, GAIN_MIN, Scene};
use crate::wording::{count, rounded, thread};

pub(super) static INFO: Info = Info {
    remedies: &[Remedy::new(&[], "pin", &["spread"], "threads that stay near their data")],
    ..Info::new("migration-churn", "Threads migrate between CPUs all the time and lose warm caches")
};

/// After a longer pause (ns) the caches are others', whichever CPU it is.
const WARM_NS: u64 = 1_000_000;

/// A move costs about this at least and at most (ns): see the references.
const COST_NS: (f64, f64) = (1_000.0, 20_000.0);

/// Moves of one thread.
struct Moves {
    thread: ThreadId,
    count: u64,
    /// Number of these moves that went to another memory node.
    other_node: u64,
    /// The first ones, those to another node before the others.
    first: Vec<Evidence>,
}

pub(super) struct MigrationChurn;

impl Rule for MigrationChurn {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        uncharged(judge(scene))
    }
}

fn judge(scene: &Scene) -> Verdict {
    let groups = parallel::thread_groups(scene.trace);
    let parts = parallel::map(groups.len(), |group| {
        let targets = groups[group].clone().map(ThreadId).filter(|id| scene.trace.threads[id.index()].target);
        targets.map(|thread| moves_of(scene, thread)).filter(|moves| moves.count > 0).collect::<Vec<_>>()
    });
    let mut all: Vec<Moves> = parts.into_iter().flatten().collect();
    all.sort_by_key(|moves| (std::cmp::Reverse(moves.count), moves.thread));
    let moves: u64 = all.iter().map(|moves| moves.count).sum();
    let Some(worst) = all.first() else { return Ok(Vec::new()) };
    let gain = Gain {
        low: scene.of_wall_if_run(moves as f64 * COST_NS.0),
        high: scene.of_wall_if_run(moves as f64 * COST_NS.1),
    };
    if gain.high < GAIN_MIN {
        return Ok(Vec::new());
    }
    let other_node: u64 = all.iter().map(|moves| moves.other_node).sum();
    let running_s = scene.derived.ledger.running_ns() as f64 / 1e9;
    Ok(vec![Finding {
        rule: INFO.name,
        about: About::Other,
        subject: format!(
            "{}, mostly {}",
            count(all.len() as u64, "thread"),
            thread(scene.trace, worst.thread)
        ),
        summary: std::iter::once(format!(
            "{} to another CPU right after running: {} per second of running, {} of them by {}.",
            count(moves, "move"),
            rounded(moves as f64 / running_s.max(1e-9)),
            worst.count,
            thread(scene.trace, worst.thread),
        ))
        .chain((other_node > 0).then(|| other_node_line(other_node, moves)))
        .collect(),
        cost_ns: (moves as f64 * COST_NS.0) as u64,
        gain,
        likely: None,
        confidence: scene.confidence(Confidence::Low),
        evidence: worst.first.clone(),
        advice: vec![
            "Wake threads less often (see the other findings): a thread that is not woken does not migrate"
                .into(),
            if other_node > 0 {
                "Try binding the program to one node (numactl --cpunodebind=N --membind=N), and measure it"
                    .into()
            } else {
                "Try binding threads to CPUs (taskset, pthread_setaffinity_np), and measure it".into()
            },
        ],
    }])
}

fn other_node_line(other_node: u64, moves: u64) -> String {
    format!(
        "{} of these ({} %) to another NUMA node: the thread's memory stays on the previous node.",
        other_node,
        rounded(100.0 * other_node as f64 / moves.max(1) as f64),
    )
}

fn moves_of(scene: &Scene, thread: ThreadId) -> Moves {
    let host = &scene.trace.manifest.host;
    let mut moves = Moves { thread, count: 0, other_node: 0, first: Vec::new() };
    let mut other_node = Vec::new();
    let mut last: Option<Slice> = None;
    for slice in scene.trace.slices.of_thread(thread) {
        if slice.state != ThreadState::Running || slice.cpu == CpuId::NONE {
            continue;
        }
        let before = last.replace(slice);
        let Some(before) = before.filter(|before| before.cpu != slice.cpu) else { continue };
        let distance = distance(host, before.cpu, slice.cpu);
        if slice.start.since(before.end).0 > WARM_NS || distance == Distance::SameCore {
            continue;
        }
        moves.count += 1;
        let is_far = distance == Distance::OtherNode;
        moves.other_node += u64::from(is_far);
        let kept = if is_far { &mut other_node } else { &mut moves.first };
        if kept.len() < EVIDENCE_MAX {
            let far = if is_far { ", on another node" } else { "" };
            kept.push(Evidence {
                table: "slices",
                thread,
                start: slice.start,
                duration: slice.duration(),
                note: format!("on CPU {}, previously on CPU {}{far}", slice.cpu.0, before.cpu.0),
            });
        }
    }
    other_node.append(&mut moves.first);
    other_node.truncate(EVIDENCE_MAX);
    moves.first = other_node;
    moves
}
