//! # migration-churn: threads move from CPU to CPU all the time
//!
//! ## What it sees
//! How often a thread goes on running on another CPU shortly after it ran on one: its caches were still warm there.
//!
//! ## Why it hurts
//! On the new CPU the thread finds none of its data in the nearest caches, and fills them again while it runs.
//! On a machine with several sockets its memory may be far away from then on.
//!
//! ## How it decides
//! It counts moves with a pause of less than a millisecond in between; after a longer one the caches are mostly
//! others'. No counter tells here what a move costs, so the gain is counted with the range that was measured
//! elsewhere: 1 to 20 µs each, of running time. It is a hint.
//!
//! ## What to do
//! Find out why threads are woken so often (sleeps, locks, handovers: see the other findings): a thread that is
//! not woken does not move. Bind threads to CPUs or nodes only if that does not help, and measure it.
//!
//! ## Blind spots
//! Moves between two hardware threads of a core, or two cores that share a cache, cost next to nothing; where CPUs
//! lie is not known here. What a thread loses after a long pause is not counted.
//!
//! ## References
//! Li, Ding, Shen: Quantifying the cost of context switch (ExpCS 2007). Linux `sched(7)`, `taskset(1)`.

use holdup_events::tables::{Slice, ThreadState};
use holdup_events::{CpuId, ThreadId};

use super::{Info, Verdict};
use crate::derive::parallel;
use crate::finding::{Confidence, Evidence, Finding, Gain};
use crate::scene::{EVIDENCE_MAX, GAIN_MIN, Scene};
use crate::wording::{count, rounded, thread};

pub(super) const INFO: Info = Info {
    name: "migration-churn",
    summary: "Threads move from CPU to CPU all the time and leave warm caches",
};

/// After a longer pause (ns) the caches are others', whichever CPU it is.
const WARM_NS: u64 = 1_000_000;

/// A move costs about this at least and at most (ns): see the references.
const COST_NS: (f64, f64) = (1_000.0, 20_000.0);

/// Moves of one thread.
struct Moves {
    thread: ThreadId,
    count: u64,
    first: Vec<Evidence>,
}

pub(super) fn judge(scene: &Scene) -> Verdict {
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
    let running_s = scene.derived.ledger.running_ns() as f64 / 1e9;
    Ok(vec![Finding {
        rule: INFO.name,
        subject: format!(
            "{}, most of all {}",
            count(all.len() as u64, "thread"),
            thread(scene.trace, worst.thread)
        ),
        summary: vec![format!(
            "{} to another CPU right after running on one: {} for each second of running; {} of them by {}.",
            count(moves, "move"),
            rounded(moves as f64 / running_s.max(1e-9)),
            worst.count,
            thread(scene.trace, worst.thread),
        )],
        cost_ns: (moves as f64 * COST_NS.0) as u64,
        gain,
        confidence: scene.confidence(Confidence::Low),
        evidence: worst.first.clone(),
        advice: vec![
            "Wake threads less often (see the other findings): a thread that is not woken does not move"
                .into(),
            "Try binding threads to CPUs (taskset, pthread_setaffinity_np), and measure it".into(),
        ],
    }])
}

fn moves_of(scene: &Scene, thread: ThreadId) -> Moves {
    let mut moves = Moves { thread, count: 0, first: Vec::new() };
    let mut last: Option<Slice> = None;
    for slice in scene.trace.slices.of(thread) {
        if slice.state != ThreadState::Running || slice.cpu == CpuId::NONE {
            continue;
        }
        let before = last.replace(slice);
        let Some(before) = before.filter(|before| before.cpu != slice.cpu) else { continue };
        if slice.start.since(before.end).0 > WARM_NS {
            continue;
        }
        moves.count += 1;
        if moves.first.len() < EVIDENCE_MAX {
            moves.first.push(Evidence {
                table: "slices",
                thread,
                start: slice.start,
                duration: slice.duration(),
                note: format!("on CPU {}, before that on CPU {}", slice.cpu.0, before.cpu.0),
            });
        }
    }
    moves
}
