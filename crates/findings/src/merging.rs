//! Findings that are one cause seen twice become one: the root is kept, the symptom becomes its evidence.
//!
//! Which may be whose symptom is a table of rules. Whether it is, is decided by the slices that both charge:
//! most of the symptom's lost time must be the root's, too.

use std::collections::BTreeSet;

use holdup_events::tables::ThreadState;
use holdup_events::{ProcessId, Trace};

use crate::charge::Charge;
use crate::finding::{Confidence, Finding};
use crate::scene::EVIDENCE_MAX;
use crate::wording::percent;

/// A finding with the slices that it charges.
#[derive(Clone, Debug)]
pub struct Charged {
    /// The rule's finding.
    pub finding: Finding,
    /// The slices that make up the cost. Empty if the cost is not made of slices, or if the rule does not
    /// report them.
    pub charge: Charge,
}

impl From<Finding> for Charged {
    fn from(finding: Finding) -> Charged {
        Charged { finding, charge: Charge::default() }
    }
}

/// A finding that became evidence of another.
#[derive(Clone, Debug, PartialEq)]
pub struct Symptom {
    /// Index of the root among the findings.
    pub root: usize,
    /// The share of its lost time that the root charges, too.
    pub shared: f64,
    /// The finding of the symptom's rule.
    pub finding: Finding,
}

/// Which rule's finding (first) may explain which other's (second), and why.
const RELATIONS: &[(&str, &str)] = &[
    // Waiters wait because the holder waits for a CPU. The thread that preempted the holder, and the CPU's
    // queue, are part of the same finding.
    ("preempted-lock-holder", "lock-contention"),
    ("preempted-lock-holder", "lock-convoy"),
    ("preempted-lock-holder", "noisy-neighbour"),
    ("preempted-lock-holder", "oversubscription"),
    ("preempted-lock-holder", "serial-section"),
    // Waiters wait because the holder sleeps, or waits for a disk or a peer.
    ("blocked-lock-holder", "lock-contention"),
    ("blocked-lock-holder", "lock-convoy"),
    ("blocked-lock-holder", "oversleep"),
    ("blocked-lock-holder", "poll-loop"),
    ("blocked-lock-holder", "blocking-io"),
    ("blocked-lock-holder", "sync-per-item"),
    ("blocked-lock-holder", "subprocess-per-item"),
    // A lock whose holder waits for another lock: the last of the chain is the cause.
    ("lock-contention", "lock-contention"),
    ("lock-convoy", "lock-contention"),
    ("interpreter-lock", "lock-contention"),
    ("interpreter-lock", "lock-convoy"),
    ("interpreter-lock", "preempted-lock-holder"),
    ("interpreter-lock", "wakeup-ping-pong"),
    ("interpreter-lock", "poll-loop"),
    ("interpreter-lock", "serial-section"),
    // Threads that wait for each other because they stop for a collection.
    ("gc-heavy", "barrier-straggler"),
    ("gc-heavy", "wakeup-ping-pong"),
    // Threads that want a CPU only to collect on it.
    ("gc-heavy", "oversubscription"),
    // A task that waits for a lock resembles a worker without work next to a worker that is active alone.
    ("task-lock", "serial-section"),
    ("pool-exhausted", "serial-section"),
    // Tasks wait because the holder sleeps, or waits for a disk or a peer.
    ("task-lock", "oversleep"),
    ("task-lock", "poll-loop"),
    ("task-lock", "blocking-io"),
    ("task-lock", "sync-per-item"),
    // The task that releases such a lock wakes a worker for the next task.
    ("task-lock", "wakeup-ping-pong"),
    // A CPU that threads may not leave.
    ("pinned-together", "oversubscription"),
    ("pinned-together", "preempted-lock-holder"),
    // Starting children is what takes the time, not that they come one after the other.
    ("subprocess-per-item", "child-wait"),
    ("blocked-lock-holder", "child-wait"),
    // Slow work on the pool is the cause why no thread computes.
    ("pool-starved", "oversleep"),
    ("pool-starved", "poll-loop"),
    ("pool-starved", "blocking-io"),
    // Short-lived threads contend for the locks under which their stacks are created, and queue for CPUs.
    ("thread-per-item", "lock-contention"),
    ("thread-per-item", "lock-convoy"),
    ("thread-per-item", "oversubscription"),
    ("thread-per-item", "migration-churn"),
    ("thread-per-item", "preempted-lock-holder"),
    ("thread-per-item", "blocked-lock-holder"),
    // A quota that is used up makes queues and late holders.
    ("cpu-throttled", "preempted-lock-holder"),
    ("cpu-throttled", "oversubscription"),
    // A herd meets at the lock that it needs to look.
    ("thundering-herd", "lock-contention"),
    ("thundering-herd", "lock-convoy"),
    ("thundering-herd", "oversubscription"),
    // Handing to and fro looks as if one worked while the other waits, and meets at the queue's lock.
    ("wakeup-ping-pong", "serial-section"),
    ("wakeup-ping-pong", "lock-contention"),
    // The thread with the most work runs alone at the end, while the other threads wait or spin.
    ("load-imbalance", "serial-section"),
    ("load-imbalance", "spin-wait"),
    ("barrier-straggler", "serial-section"),
    ("barrier-straggler", "spin-wait"),
    // The address space's lock is held because its holder forks.
    ("fork-pause", "lock-contention"),
    ("fork-pause", "lock-convoy"),
    // Children that mostly take down the copy which the fork made.
    ("fork-pause", "subprocess-per-item"),
    ("fork-pause", "child-wait"),
    // The data that is read from the disk was in memory before.
    ("memory-reclaim", "blocking-io"),
    // The waits are for the directory's lock and the journal, behind which the files are made.
    ("temporary-file-per-item", "blocking-io"),
    // A clock that all wait for.
    ("poll-loop", "oversleep"),
    ("oversleep", "serial-section"),
    ("delayed-ack", "oversleep"),
    // A client that sends one request at a time waits for a timer of the server. If the client holds a lock
    // or a pool item during the request, then that is the cause.
    ("one-at-a-time", "oversleep"),
    ("one-at-a-time", "poll-loop"),
    ("batch-straggler", "oversleep"),
    ("batch-straggler", "poll-loop"),
    ("skewed-workers", "one-at-a-time"),
    ("skewed-workers", "oversleep"),
    ("skewed-workers", "poll-loop"),
    ("blocked-lock-holder", "one-at-a-time"),
    ("pool-exhausted", "one-at-a-time"),
    ("pool-starved", "one-at-a-time"),
    ("delayed-ack", "one-at-a-time"),
    ("answer-timeout", "one-at-a-time"),
    ("connect-retry", "one-at-a-time"),
    ("connect-retry", "answer-timeout"),
];

/// Minimum share of a symptom's lost time that the root also charges. Below it, the rest would be
/// unexplained.
const SHARED_MIN: f64 = 0.6;

/// Pairs in which a lock may have other causes besides the first finding. The first is a part of the second
/// if it explains less than most of the second's cost and gain.
const PARTS: [(&str, &str); 4] = [
    ("preempted-lock-holder", "lock-contention"),
    ("preempted-lock-holder", "lock-convoy"),
    ("blocked-lock-holder", "lock-contention"),
    ("blocked-lock-holder", "lock-convoy"),
];

/// Pairs in which waiters wait in turn, independent of the holder's speed. The holder's own waits do not
/// explain the waiters' time, because the waiters would wait without them too.
const TURNS: [(&str, &str); 1] = [("interpreter-lock", "preempted-lock-holder")];

/// Two views of one rendezvous: the last thread to arrive had more work, or was delayed. The finding with the
/// larger gain is reported.
const SIDES: [&str; 2] = ["load-imbalance", "barrier-straggler"];

/// Minimum gain of a part relative to the whole, for the part to explain most of the cost.
const GAIN_SHARE_MIN: f64 = 0.5;

/// Minimum share of a part's lost time that the whole also charges. The rest is the holder's own waits.
const PART_SHARED_MIN: f64 = 0.3;

/// Findings, each of which is a cause of its own.
#[derive(Clone, Debug, Default)]
pub struct Merged {
    /// The findings that are kept.
    pub findings: Vec<Finding>,
    /// The slices that each of them charges.
    pub charges: Vec<Charge>,
    /// The findings that became evidence of others.
    pub symptoms: Vec<Symptom>,
}

/// Merges ranked findings. The ranks of those that are kept do not change.
pub fn merge(trace: &Trace, found: Vec<Charged>) -> Merged {
    let mut roots: Vec<Option<(usize, f64)>> = vec![None; found.len()];
    for index in 0..found.len() {
        // Two that share everything are not each other's symptoms: the one that ranks first is kept.
        roots[index] = root_of(trace, &found, index).filter(|(root, _)| last_root(&roots, *root) != index);
    }
    let last_root = |index| last_root(&roots, index);
    let kept: Vec<usize> = (0..found.len()).filter(|index| last_root(*index) == *index).collect();
    let mut findings: Vec<Finding> = kept.iter().map(|index| found[*index].finding.clone()).collect();
    let mut symptoms = Vec::new();
    for (index, charged) in found.iter().enumerate() {
        let Some((_, shared)) = roots[index] else { continue };
        let Some(root) = kept.iter().position(|kept| *kept == last_root(index)) else { continue };
        show(&mut findings[root], &charged.finding, shared);
        symptoms.push(Symptom { root, shared, finding: charged.finding.clone() });
    }
    let charges = kept.iter().map(|index| found[*index].charge.clone()).collect();
    Merged { findings, charges, symptoms }
}

/// The end of the chain of roots. Chains have no cycles.
fn last_root(roots: &[Option<(usize, f64)>], mut index: usize) -> usize {
    while let Some((root, _)) = roots[index] {
        index = root;
    }
    index
}

/// The root of which the finding is a symptom, if any: the one that shares most of its lost time.
fn root_of(trace: &Trace, found: &[Charged], index: usize) -> Option<(usize, f64)> {
    let symptom = &found[index];
    if symptom.charge.is_empty() {
        return None;
    }
    let mut best: Option<(usize, f64)> = None;
    for (other, root) in found.iter().enumerate() {
        if other == index || root.charge.is_empty() || !outweighs(root, symptom) {
            continue;
        }
        let shared =
            explained(trace, root, symptom).or_else(|| seen_before(trace, &found[..index], other, symptom));
        if let Some(shared) = shared.filter(|shared| best.is_none_or(|(_, most)| *shared > most)) {
            best = Some((other, shared));
        }
    }
    best
}

/// The share of the symptom's lost time that is the root's, if that one explains it.
fn explained(trace: &Trace, root: &Charged, symptom: &Charged) -> Option<f64> {
    let names = (root.finding.rule, symptom.finding.rule);
    let shares = |of: &Charged| {
        let both = symptom.charge.shared_ns(trace, &root.charge) as f64;
        both / of.charge.ns().max(1) as f64
    };
    let is_whole = |whole: &Charged, part: &Charged| {
        shares(whole) >= SHARED_MIN && middle(part) >= GAIN_SHARE_MIN * middle(whole)
    };
    if RELATIONS.contains(&names) {
        let is_cause = match PARTS.contains(&names) {
            true => is_whole(symptom, root),
            false if TURNS.contains(&names) => shared_waits(trace, root, symptom) >= SHARED_MIN,
            false => shares(symptom) >= SHARED_MIN,
        };
        return is_cause.then(|| shares(symptom));
    }
    if !PARTS.contains(&(names.1, names.0)) {
        return None;
    }
    // For one lock, time lost to preempted or blocked holders is a subset of its total wait time.
    let is_same = is_of_lock(trace, root, symptom);
    let is_part = !is_whole(root, symptom)
        && (is_same || shares(symptom) >= PART_SHARED_MIN)
        && middle(root) >= middle(symptom);
    is_part.then(|| if is_same { 1.0 } else { shares(symptom) })
}

/// Whether a finding about a lock's holder is about the lock of the root: it names that first, and a process's threads wait in both.
fn is_of_lock(trace: &Trace, root: &Charged, symptom: &Charged) -> bool {
    let rest = symptom.finding.subject.strip_prefix(&root.finding.subject);
    let waiting = |of: &Charged| -> BTreeSet<ProcessId> {
        let threads = trace.target_threads().filter(|id| of.charge.spans_of(trace, *id).next().is_some());
        threads.map(|id| trace.threads[id.index()].process).collect()
    };
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(", "))
        && !waiting(root).is_disjoint(&waiting(symptom))
}

/// The share of the symptom's blocked time that the root charges, too.
fn shared_waits(trace: &Trace, root: &Charged, symptom: &Charged) -> f64 {
    let blocked: u64 = symptom
        .charge
        .slices(trace)
        .filter(|slice| slice.state == ThreadState::Blocked)
        .map(|slice| slice.duration().0)
        .sum();
    symptom.charge.shared_ns(trace, &root.charge) as f64 / blocked.max(1) as f64
}

/// The share of a finding's lost time that a higher-ranked finding charges from the other view (`SIDES`).
fn seen_before(trace: &Trace, before: &[Charged], other: usize, late: &Charged) -> Option<f64> {
    let first = before.get(other)?;
    let is_side = |one: &Charged| SIDES.contains(&one.finding.rule);
    let both = late.charge.shared_ns(trace, &first.charge) as f64;
    let shared = both / late.charge.ns().max(1) as f64;
    (is_side(first) && is_side(late) && shared >= SHARED_MIN).then_some(shared)
}

/// Midpoint of the finding's gain.
fn middle(charged: &Charged) -> f64 {
    f64::midpoint(charged.finding.gain.low, charged.finding.gain.high)
}

/// Rules whose hints are sure of what happened: only whose fault it is is another program's.
const SURE_OF_SLICES: [&str; 2] = ["barrier-straggler", "load-imbalance"];

/// A hint explains nothing that is surer.
fn outweighs(root: &Charged, symptom: &Charged) -> bool {
    SURE_OF_SLICES.contains(&root.finding.rule)
        || root.finding.confidence >= symptom.finding.confidence.min(Confidence::Medium)
}

/// Adds the symptom to the root's summary and evidence.
fn show(root: &mut Finding, symptom: &Finding, shared: f64) {
    root.summary.push(format!(
        "This also accounts for {2} of the cost of {0} ({1}).",
        symptom.rule,
        symptom.subject,
        percent(shared)
    ));
    let room = EVIDENCE_MAX.saturating_sub(root.evidence.len()).max(2);
    root.evidence.extend(symptom.evidence.iter().take(room).cloned());
}

#[cfg(test)]
mod tests {
    use holdup_events::tables::{SliceRow, Slices, Thread};
    use holdup_events::{ThreadId, Timestamp};

    use super::*;
    use crate::finding::Gain;
    use crate::rules;

    #[test]
    fn relations_name_rules_and_lead_to_an_end() {
        let known: Vec<&str> = rules::all().iter().map(|rule| rule.name).collect();
        for (root, symptom) in RELATIONS {
            assert!(known.contains(root) && known.contains(symptom), "{root} {symptom}");
        }
        for (root, symptom) in RELATIONS.iter().filter(|(root, symptom)| root != symptom) {
            assert!(!reaches(symptom, root, RELATIONS.len()), "{root} and {symptom} explain each other");
        }
    }

    /// A lock is known by its whole name, and by whose threads wait for it.
    #[test]
    fn findings_of_locks_with_a_common_name_prefix_are_not_merged() {
        let mut trace = Trace::default();
        let mut rows = Vec::new();
        for thread in 0..2 {
            let process = ProcessId(thread);
            trace.threads.push(Thread { target: true, process, end: Timestamp(10), ..Thread::default() });
            rows.push(SliceRow { thread: ThreadId(thread), ..SliceRow::default() });
        }
        trace.slices = Slices::freeze(&[rows], vec![Timestamp(10); 2]);
        let charged = |subject: &str, thread: u32| Charged {
            finding: Finding {
                rule: "",
                subject: subject.to_owned(),
                summary: Vec::new(),
                cost_ns: 0,
                gain: Gain::default(),
                likely: None,
                confidence: Confidence::High,
                evidence: Vec::new(),
                advice: Vec::new(),
            },
            charge: Charge::matching(&trace, |slice| slice.thread == ThreadId(thread)),
        };
        let lock = charged("mmap_lock of python", 0);
        assert!(is_of_lock(&trace, &lock, &charged("mmap_lock of python, held by worker (7)", 0)));
        assert!(!is_of_lock(&trace, &lock, &charged("mmap_lock of python3, held by worker (7)", 0)));
        assert!(!is_of_lock(&trace, &lock, &charged("mmap_lock of python, held by worker (7)", 1)));
    }

    fn reaches(from: &str, to: &str, steps: usize) -> bool {
        from == to
            || (steps > 0
                && RELATIONS
                    .iter()
                    .filter(|(root, symptom)| *root == from && root != symptom)
                    .any(|(_, symptom)| reaches(symptom, to, steps - 1)))
    }
}
