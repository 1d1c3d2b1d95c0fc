//! Parents that wait for child processes: wait time, children, overlap of the children's lives, and time
//! classes of the children and their descendants.

use std::collections::{BTreeMap, BTreeSet};

use holdup_events::{ProcessId, StackId, ThreadId, Timestamp, Trace};

use super::blame::{Blame, Subject};
use super::class::{CLASSES, Class};
use super::cover::Span;
use super::holders::{Hold, HoldKind, Holders};
use super::ledger::{ByClass, Ledger};
use super::own_places::{self, OwnFrames};
use super::roles::Roles;
use crate::charge::Charge;

/// A process that waits for its children.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parent {
    /// The parent.
    pub process: ProcessId,
    /// Time in which its threads waited for children (ns): see [`waited`].
    pub wait_ns: u64,
    /// Running time of its own threads (ns).
    pub own_running_ns: u64,
    /// Children that lived in the recording.
    pub children: u64,
    /// Time in which any child lived, and the sum of the children's lives (ns). The two are equal if the
    /// children never overlapped.
    pub lives_ns: (u64, u64),
    /// The longest life of a child (ns). If all children ran in parallel, they would take this long.
    pub longest_ns: u64,
    /// Names of the children, most frequent first.
    pub names: Vec<(String, u64)>,
    /// Time classes of the threads of the children and their descendants (ns).
    pub classes: ByClass,
    /// Functions in which they ran while the parent waited, with the wait time (ns), longest first.
    pub functions: Vec<(String, u64)>,
}

impl Parent {
    /// Average number of children that lived in parallel.
    pub fn side_by_side(&self) -> f64 {
        self.lives_ns.1 as f64 / self.lives_ns.0.max(1) as f64
    }
}

/// Maximum number of parents, longest waits first, for which the children's functions are reported.
const TOLD_MAX: usize = 4;

/// Every process of the program whose threads waited for children, longest wait time first.
pub fn derive(
    (trace, roles): (&Trace, &Roles),
    ledger: &Ledger,
    (holders, blame): (&Holders, &Blame),
) -> Vec<Parent> {
    let process_of = |thread: ThreadId| trace.threads.get(thread.index()).map(|thread| thread.process);
    let mut parents: BTreeMap<ProcessId, Parent> = BTreeMap::new();
    for slice in waits((trace, roles), holders, |_| true).slices(trace) {
        let Some(process) = process_of(slice.thread) else { continue };
        let parent = parents.entry(process).or_insert_with(|| Parent { process, ..Parent::default() });
        parent.wait_ns += slice.duration().0;
    }
    for one in &ledger.threads {
        let Some(process) = process_of(one.thread) else { continue };
        if let Some(own) = parents.get_mut(&process) {
            own.own_running_ns += one.running_ns();
        }
        for ancestor in ancestors(trace, process) {
            let Some(parent) = parents.get_mut(&ancestor) else { continue };
            (0..CLASSES).for_each(|class| parent.classes[class] += one.classes[class]);
        }
    }
    add_lives(trace, &mut parents);
    let mut parents: Vec<Parent> = parents.into_values().collect();
    parents.sort_by_key(|parent| (std::cmp::Reverse(parent.wait_ns), parent.process));
    add_functions(trace, blame, &mut parents);
    parents
}

/// Waits of a process for its children. It waits for the end of a child, or for a message from a child or its
/// descendants (end of a pipe, signal).
pub fn waited(facts: (&Trace, &Roles), holders: &Holders, process: ProcessId) -> Charge {
    waits(facts, holders, |thread| {
        facts.0.threads.get(thread.index()).is_some_and(|one| one.process == process)
    })
}

/// A process with fewer children than this may have partners among them, which send messages and are not
/// finite pieces of work.
const CHILDREN_MANY: usize = 4;

/// Minimum number of socket messages between two partners.
const WORDS_MANY: u64 = 8;

/// Processes that have many.
fn have_many(trace: &Trace) -> BTreeSet<ProcessId> {
    let mut counts: BTreeMap<ProcessId, usize> = BTreeMap::new();
    for parent in trace.processes.iter().filter(|one| one.target).filter_map(|one| one.parent) {
        *counts.entry(parent).or_default() += 1;
    }
    counts.into_iter().filter(|(_, count)| *count >= CHILDREN_MANY).map(|(id, _)| id).collect()
}

/// Pairs of a process with many children and a descendant to which it repeatedly sends messages. The
/// descendant serves requests, so a wait for it is not a wait for its end, whatever other children exist.
fn partners(
    trace: &Trace,
    holders: &Holders,
    many: &BTreeSet<ProcessId>,
) -> BTreeSet<(ProcessId, ProcessId)> {
    let process_of = |thread: ThreadId| trace.threads.get(thread.index()).map(|thread| thread.process);
    let mut told: BTreeMap<(ProcessId, ProcessId), u64> = BTreeMap::new();
    for thread in trace.target_threads() {
        let Some(own) = process_of(thread) else { continue };
        let above: Vec<ProcessId> =
            ancestors(trace, own).into_iter().filter(|id| many.contains(id)).collect();
        if above.is_empty() {
            continue;
        }
        for hold in
            holders.of_thread(thread).filter(|hold| matches!(hold.kind, HoldKind::Poll | HoldKind::Socket))
        {
            if let Some(teller) = hold.holder.and_then(process_of).filter(|teller| above.contains(teller)) {
                *told.entry((teller, own)).or_default() += 1;
            }
        }
    }
    told.into_iter().filter(|(_, times)| *times >= WORDS_MANY).map(|(pair, _)| pair).collect()
}

fn waits(facts: (&Trace, &Roles), holders: &Holders, wanted: impl Fn(ThreadId) -> bool + Sync) -> Charge {
    let many = have_many(facts.0);
    let partners = partners(facts.0, holders, &many);
    Charge::of_rows(facts.0, |thread, take| {
        let of_thread = holders.of_thread(thread).filter(|_| wanted(thread));
        of_thread
            .filter(|hold| waits_for_child(facts, (thread, hold), (&many, &partners)))
            .for_each(|hold| take(hold.row as usize));
    })
}

/// Whether a wait is for the end of a child, or a pipe, poll or signal wait that a child or its descendant
/// ended.
fn waits_for_child(
    (trace, roles): (&Trace, &Roles),
    (thread, hold): (ThreadId, &Hold),
    (many, partners): (&BTreeSet<ProcessId>, &BTreeSet<(ProcessId, ProcessId)>),
) -> bool {
    let slice = trace.slices.at(thread, hold.row as usize);
    if roles.class_of_wait(trace, &slice) == Class::ChildWait {
        return true;
    }
    let tells = matches!(hold.kind, HoldKind::Poll | HoldKind::PipeEmpty | HoldKind::Work);
    let process_of = |thread: ThreadId| trace.threads.get(thread.index()).map(|thread| thread.process);
    let (Some(own), Some(teller)) = (process_of(thread), hold.holder.and_then(process_of)) else {
        return false;
    };
    let is_piece = many.contains(&own) && !partners.contains(&(own, teller));
    tells && own != teller && is_piece && ancestors(trace, teller).contains(&own)
}

/// Lifetimes of each process's children, taken from their first threads.
pub(super) fn lives(trace: &Trace) -> BTreeMap<ProcessId, Vec<(ProcessId, Span)>> {
    let mut lives: BTreeMap<ProcessId, Vec<(ProcessId, Span)>> = BTreeMap::new();
    for thread in trace.threads.iter().filter(|thread| thread.target) {
        let process = trace.processes.get(thread.process.index()).filter(|one| one.pid == thread.tid);
        if let Some(parent) = process.and_then(|process| process.parent) {
            lives.entry(parent).or_default().push((thread.process, (thread.start, thread.end)));
        }
    }
    lives
}

/// Counts and names the children, by their main threads.
fn add_lives(trace: &Trace, parents: &mut BTreeMap<ProcessId, Parent>) {
    let mut lives = lives(trace);
    for (process, parent) in parents {
        let children = lives.remove(process).unwrap_or_default();
        let mut names: BTreeMap<&str, u64> = BTreeMap::new();
        for (child, _) in &children {
            *names.entry(trace.processes[child.index()].name.as_str()).or_default() += 1;
        }
        let lives: Vec<Span> = children.into_iter().map(|(_, life)| life).collect();
        parent.children = lives.len() as u64;
        parent.longest_ns = lives.iter().map(|(start, end)| end.since(*start).0).max().unwrap_or(0);
        let added_up = lives.iter().map(|(start, end)| end.since(*start).0).sum();
        parent.lives_ns = (covered_ns(lives), added_up);
        parent.names = names.into_iter().map(|(name, times)| (name.to_owned(), times)).collect();
        parent.names.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    }
}

/// All ancestors of a process, nearest first. Limited in number in case of a cycle.
pub(super) fn ancestors(trace: &Trace, process: ProcessId) -> Vec<ProcessId> {
    const GENERATIONS_MAX: usize = 64;
    let parent = |id: &ProcessId| trace.processes.get(id.index()).and_then(|process| process.parent);
    std::iter::successors(parent(&process), parent).take(GENERATIONS_MAX).collect()
}

/// The time in which at least one of them lived (ns).
fn covered_ns(mut lives: Vec<(Timestamp, Timestamp)>) -> u64 {
    lives.sort_unstable();
    let (mut covered, mut until) = (0, Timestamp(0));
    for (start, end) in lives {
        covered += end.since(start.max(until)).0;
        until = until.max(end);
    }
    covered
}

/// Divides the blame of running threads among the parents that they descend from.
fn add_functions(trace: &Trace, blame: &Blame, parents: &mut [Parent]) {
    let subject = Subject::Kind(HoldKind::Child);
    let Some(blamed) = blame.subjects.iter().find(|one| one.subject == subject) else { return };
    let own = OwnFrames::new(trace);
    for parent in parents.iter_mut().take(TOLD_MAX) {
        let is_child = |thread: &ThreadId| {
            let process = trace.threads.get(thread.index()).map(|thread| thread.process);
            process.is_some_and(|process| ancestors(trace, process).contains(&parent.process))
        };
        let stacks: Vec<(ThreadId, StackId, u64)> =
            blamed.stacks.iter().filter(|(thread, ..)| is_child(thread)).copied().collect();
        parent.functions = own_places::functions(trace, &own, &stacks);
    }
}
