//! Processes with several children at a time, and the times in which only one child is alive.

use std::collections::{BTreeMap, BTreeSet};

use holdup_events::tables::ThreadState;
use holdup_events::{ProcessId, ThreadId, Timestamp, Trace};

use super::children::{ancestors, lives};
use super::cover::{Cover, Span};
use super::parallel;

/// A process whose children overlap in time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Job {
    /// The parent.
    pub parent: ProcessId,
    /// Children that lived in the recording.
    pub children: u64,
    /// The most of them at a time.
    pub most: u64,
    /// For how long two of them or more were there (ns).
    pub beside_ns: u64,
    /// Children that were there alone for long, the longest first.
    pub steps: Vec<Step>,
}

/// A child, and the times in which no other child of its parent was alive.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// The child.
    pub child: ProcessId,
    /// Times in which it was alone.
    pub alone: Cover,
    /// Time in which threads of the program were running or runnable during it (ns, summed over threads).
    pub active_ns: u64,
    /// Part of it by the child and its descendants (ns).
    pub own_ns: u64,
    /// Thread of these that ran most, with its running time (ns).
    pub busiest: Option<(ThreadId, u64)>,
}

/// Maximum number of steps per parent.
const STEPS_MAX: usize = 8;

/// Every process with at least two overlapping children, with the children that were alone for at least
/// `least_ns`. [`add_activity`] adds the activity during these times.
pub fn derive(trace: &Trace, least_ns: u64) -> Vec<Job> {
    let mut jobs: Vec<Job> =
        lives(trace).into_iter().filter_map(|(parent, lives)| job(parent, &lives)).collect();
    for job in &mut jobs {
        job.steps.retain(|step| step.alone.length_ns() >= least_ns.max(1));
        job.steps.sort_by_key(|step| (std::cmp::Reverse(step.alone.length_ns()), step.child));
        job.steps.truncate(STEPS_MAX);
    }
    jobs.retain(|job| !job.steps.is_empty());
    jobs
}

fn job(parent: ProcessId, lives: &[(ProcessId, Span)]) -> Option<Job> {
    // Ends before beginnings of the same moment.
    let mut changes: Vec<(Timestamp, bool, ProcessId)> = lives
        .iter()
        .filter(|(_, (start, end))| start < end)
        .flat_map(|(child, (start, end))| [(*start, true, *child), (*end, false, *child)])
        .collect();
    changes.sort_unstable();
    let mut job = Job { parent, children: lives.len() as u64, ..Job::default() };
    let (mut there, mut since) = (BTreeSet::new(), Timestamp(0));
    let mut alone: BTreeMap<ProcessId, Vec<Span>> = BTreeMap::new();
    for (at, begins, child) in changes {
        let length = at.since(since).0;
        match there.len() {
            1 if length > 0 => {
                let only = there.first().copied().unwrap_or(child);
                alone.entry(only).or_default().push((since, at));
            }
            0 | 1 => {}
            _ => job.beside_ns += length,
        }
        if begins {
            there.insert(child);
        } else {
            there.remove(&child);
        }
        job.most = job.most.max(there.len() as u64);
        since = at;
    }
    let step = |(child, spans)| Step { child, alone: Cover::from_spans(spans), ..Step::default() };
    job.steps = alone.into_iter().map(step).collect();
    (job.most > 1).then_some(job)
}

/// Adds the threads that were active while children were alone. Walks through all slices once.
pub fn add_activity(trace: &Trace, jobs: &mut [Job]) {
    let mut steps: Vec<&mut Step> = jobs.iter_mut().flat_map(|job| &mut job.steps).collect();
    if steps.is_empty() {
        return;
    }
    let alone: Vec<&Cover> = steps.iter().map(|step| &step.alone).collect();
    let groups = parallel::thread_groups(trace);
    let parts = parallel::map(groups.len(), |group| {
        let targets = groups[group].clone().map(ThreadId).filter(|id| trace.threads[id.index()].target);
        targets.flat_map(|thread| active(trace, thread, &alone)).collect::<Vec<Active>>()
    });
    for one in parts.into_iter().flatten() {
        let Some(step) = steps.get_mut(one.step) else { continue };
        step.active_ns += one.active_ns;
        let process = trace.threads[one.thread.index()].process;
        if process == step.child || ancestors(trace, process).contains(&step.child) {
            step.own_ns += one.active_ns;
            step.busiest =
                step.busiest.filter(|(_, most)| *most >= one.ran_ns).or(Some((one.thread, one.ran_ns)));
        }
    }
}

/// Activity of a thread during one of the steps (ns).
struct Active {
    step: usize,
    thread: ThreadId,
    active_ns: u64,
    ran_ns: u64,
}

fn active(trace: &Trace, thread: ThreadId, alone: &[&Cover]) -> Vec<Active> {
    let mut found: Vec<Active> =
        (0..alone.len()).map(|step| Active { step, thread, active_ns: 0, ran_ns: 0 }).collect();
    for slice in trace.slices.of_thread(thread) {
        let ran = slice.state == ThreadState::Running;
        if !ran && slice.state != ThreadState::Runnable {
            continue;
        }
        for (one, alone) in found.iter_mut().zip(alone) {
            let within = alone.within((slice.start, slice.end));
            let ns: u64 = within.map(|(from, to)| to.since(from).0).sum();
            one.active_ns += ns;
            one.ran_ns += if ran { ns } else { 0 };
        }
    }
    found.retain(|one| one.active_ns > 0);
    found
}
