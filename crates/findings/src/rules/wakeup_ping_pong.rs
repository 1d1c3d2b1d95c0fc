//! # wakeup-ping-pong: two threads hand every little piece to each other and sleep meanwhile
//!
//! ## What it sees
//! Two threads of which each waits until the other wakes it (a queue of one, a pipe, a socket, a condition
//! variable), again and again, and does little in between; and how long each handover took from the wakeup
//! until the woken thread ran.
//!
//! ## Why it hurts
//! Waking a thread on another CPU costs some microseconds, tens of them where the CPU has gone to sleep. Where
//! each piece of work is as short, the two threads spend their time with handing over, and never work side by
//! side: one thread alone would be faster.
//!
//! ## How it decides
//! It adds up, for each pair of threads, how often each ended the other's wait. It fires if both directions are
//! frequent and neither is much more so than the other, most of the waits of both are of this kind, the runs
//! between them are short, and the handovers take a fair part of the round and of what the two wait: where one
//! waits for somebody else before it answers, that is the cause. The lower end of the gain is the time between
//! wakeup and running, which larger pieces avoid; the upper end is that the two work side by side while one
//! waits. Where the two also wait for each other at a lock (a queue's own, say), that is charged with it; other
//! waits for locks are lock-contention's.
//!
//! ## What to do
//! Hand over many pieces at a time, or let a queue between the two hold more than one; or do both jobs on one
//! thread.
//!
//! ## Blind spots
//! More than two threads that pass a token round are judged pair by pair, and may stay unseen. A thread that
//! talks to one of another program is not seen, nor are two that talk over TCP: there the kernel's network
//! code wakes. Threads that spin before they sleep pay with running time instead.
//!
//! ## References
//! Gregg: Systems Performance, 2nd ed., 6.3 (2020). Linux `perf-sched(1)`.

use std::collections::BTreeMap;

use holdup_events::ThreadId;

use super::{ChargedVerdict, Info};
use crate::charge::Charge;
use crate::derive::handovers::{self, Handover};
use crate::finding::{Confidence, Finding, Gain};
use crate::merging::Charged;
use crate::scene::{GAIN_MIN, Scene};
use crate::wording::{count, percent, thread, time};

pub(super) const INFO: Info = Info {
    name: "wakeup-ping-pong",
    summary: "Two threads hand each little piece to each other and sleep in between",
};

/// Fewer rounds may be a start and an end.
const ROUNDS_MIN: u64 = 100;

/// Of the waits for work of either thread, at least this share is ended by the other.
const PARTNER_SHARE_MIN: f64 = 0.5;

/// Where one is woken this much less often than the other, it feeds the other, and does not wait for each answer.
const EVEN_MIN: f64 = 0.5;

/// Runs that are longer on average (ns) are work that is worth a handover, whatever that costs.
const RUN_MAX_NS: u64 = 200_000;

/// Handovers that take less than this of a round, and of what the two wait for each other, are not what it is slow for.
const LATE_SHARE_MIN: f64 = 0.1;

/// Pairs that are named; more would hide the first.
const PAIRS_MAX: usize = 3;

/// Both directions between two threads.
struct Pair {
    to: Handover,
    fro: Handover,
}

impl Pair {
    fn rounds(&self) -> u64 {
        self.to.count.min(self.fro.count)
    }

    fn late_ns(&self) -> u64 {
        self.to.late_ns + self.fro.late_ns
    }

    /// What the two wait for each other: handing over, and the other's work, and its waits for others.
    fn wait_ns(&self) -> u64 {
        self.to.wait_ns + self.fro.wait_ns
    }

    fn run_ns(&self) -> u64 {
        self.to.run_ns + self.fro.run_ns
    }

    fn has(&self, thread: ThreadId) -> bool {
        thread == self.to.waker || thread == self.to.wakee
    }

    fn other(&self, thread: ThreadId) -> ThreadId {
        if thread == self.to.waker { self.to.wakee } else { self.to.waker }
    }
}

pub(super) fn judge(scene: &Scene) -> ChargedVerdict {
    scene.needs_wait_reasons()?;
    let mut found: Vec<Charged> = pairs(scene)
        .iter()
        .map(|pair| finding(scene, pair))
        .filter(|charged| charged.finding.gain.high >= GAIN_MIN)
        .collect();
    found.sort_by(|a, b| b.finding.gain.high.total_cmp(&a.finding.gain.high));
    found.truncate(PAIRS_MAX);
    Ok(found)
}

fn pairs(scene: &Scene) -> Vec<Pair> {
    let handovers = handovers::derive(scene.trace, &scene.derived.roles);
    let mut waits: BTreeMap<ThreadId, u64> = BTreeMap::new();
    for one in &handovers {
        *waits.entry(one.wakee).or_default() += one.count;
    }
    let mostly = |one: &Handover| {
        let all = waits.get(&one.wakee).copied().unwrap_or(0);
        one.count as f64 >= PARTNER_SHARE_MIN * all as f64
    };
    let reverse = |one: &Handover| {
        let place =
            handovers.binary_search_by_key(&(one.wakee, one.waker), |other| (other.waker, other.wakee));
        place.ok().map(|index| handovers[index])
    };
    let forward = handovers.iter().filter(|one| one.waker < one.wakee && mostly(one));
    let both = forward.filter_map(|to| Some(Pair { to: *to, fro: reverse(to).filter(mostly)? }));
    both.filter(|pair| {
        let runs = pair.to.count + pair.fro.count;
        pair.rounds() >= ROUNDS_MIN
            && pair.rounds() as f64 >= EVEN_MIN * pair.to.count.max(pair.fro.count) as f64
            && pair.run_ns() / runs.max(1) <= RUN_MAX_NS
            && pair.late_ns() as f64
                >= LATE_SHARE_MIN * (pair.late_ns() + pair.run_ns()).max(pair.wait_ns()) as f64
    })
    .collect()
}

fn finding(scene: &Scene, pair: &Pair) -> Charged {
    let trace = scene.trace;
    let (a, b) = (pair.to.waker, pair.to.wakee);
    let charge = Charge::of_rows(trace, |id, take| {
        if !pair.has(id) {
            return;
        }
        let mut near = 0;
        for (row, slice) in trace.slices.rows(id).zip(trace.slices.of(id)) {
            let wakeup = handovers::ended_by_own(trace, &slice, &mut near);
            if wakeup.is_some_and(|wakeup| wakeup.waker == pair.other(id)) {
                take(row);
            }
        }
    });
    let runs = (pair.to.count + pair.fro.count).max(1);
    let low = scene.gain(&scene.stall(&charge), |_, waited| waited.min(pair.late_ns() as f64));
    let finding = Finding {
        rule: INFO.name,
        subject: format!("{} and {}", thread(trace, a), thread(trace, b)),
        summary: vec![
            format!(
                "{}: each wakes the other and waits, {} in all.",
                count(pair.rounds(), "round"),
                time(pair.wait_ns()),
            ),
            format!(
                "From a wakeup until the other ran it took {} on average, and then it ran {}: {} of a round is handing over.",
                time(pair.late_ns() / runs),
                time(pair.run_ns() / runs),
                percent(pair.late_ns() as f64 / (pair.late_ns() + pair.run_ns()).max(1) as f64),
            ),
        ],
        cost_ns: pair.wait_ns(),
        gain: Gain { low: low.low, high: low.high },
        confidence: scene.confidence(Confidence::High),
        evidence: scene.longest_of(&charge, |slice| {
            format!(
                "waits ({}) until {} wakes it",
                pair.to.reason.name(),
                thread(trace, pair.other(slice.thread))
            )
        }),
        advice: vec![
            "Hand over many pieces at a time: a queue between the two, a larger buffer".into(),
            "Or let one thread do both jobs".into(),
        ],
    };
    Charged { finding, charge }
}
