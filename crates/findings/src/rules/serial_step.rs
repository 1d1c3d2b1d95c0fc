//! # serial-step: a job of many processes waits for one of them while no other process works
//!
//! ## Symptoms
//! Processes that have several children at a time (`make -j`, a test runner, `xargs -P`, a script with `&`).
//! It sees the times in which only one of these is left, and the work in these times.
//!
//! ## Why it hurts
//! While one step must run before all others, or after them, the other CPUs do nothing for the job. More
//! CPUs, and a greater `-j`, do not change that part (Amdahl's law).
//!
//! ## How it decides
//! A process has four children or more, two or more of them in parallel for a tenth of the run. For a
//! twentieth of the run or more, one child was alone and its parent waited for it. Hardly more than one
//! thread of the program was active in that time, and it belonged to that child. The upper bound of the gain
//! assumes that this work is as parallel as that of the other children, on all CPUs. The lower bound is 0,
//! because it is not known whether the work can be divided, or started earlier.
//!
//! ## What to do
//! Start the long step earlier, in parallel with work that does not need it: state its exact dependents in
//! the build's rules. If it comes last because it is the longest step, start it first. Divide it, or make it
//! shorter: the finding names its function.
//!
//! ## Blind spots
//! Jobs that servers run for others (a build farm, a daemon) are no children. A step that waits for the
//! network or a disk is not active. Other rules report these waits.
//!
//! ## References
//! Amdahl: Validity of the single processor approach (1967).

use holdup_events::{ProcessId, Trace};

use crate::charge::Charge;
use crate::derive::lone_children::{self, Job, Step};
use crate::derive::{busiest, children};
use crate::finding::{About, Confidence, Finding, Gain};
use crate::rule::{Charged, ChargedVerdict, Info, Rule};
use crate::scene::{GAIN_MIN, Scene};
use crate::wording::{percent, thread, time};

pub(super) static INFO: Info = Info {
    waits_only: true,
    ..Info::new("serial-step", "A job of many processes waits for one process while nothing else runs")
};

/// Fewer children are a script's few steps.
const CHILDREN_MIN: u64 = 4;
/// Minimum share of the run with parallel children, for a job that can be divided.
const BESIDE_MIN: f64 = 0.1;
/// A child that is alone for less of the run is an uneven end.
const STEP_MIN: f64 = 0.05;
/// Range of the mean number of active threads in that time.
const ACTIVE: std::ops::RangeInclusive<f64> = 0.5..=1.25;
/// Minimum share of the activity that belongs to the child.
const OWN_MIN: f64 = 0.8;
/// The parent waits for this part of it.
const WAITED_MIN: f64 = 0.5;
/// Maximum number of steps that are named.
const TOLD_MAX: usize = 3;

pub(super) struct SerialStep;

impl Rule for SerialStep {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        scene.needs_wait_reasons()?;
        let least_ns = STEP_MIN * scene.trace.wall().0 as f64;
        let is_divided =
            |job: &Job| job.children >= CHILDREN_MIN && scene.of_wall(job.beside_ns as f64) >= BESIDE_MIN;
        let mut jobs = lone_children::derive(scene.trace, least_ns as u64);
        jobs.retain(is_divided);
        lone_children::add_activity(scene.trace, &mut jobs);
        let mut found: Vec<Charged> = jobs.into_iter().filter_map(|job| finding(scene, job)).collect();
        found.sort_by(|a, b| b.finding.gain.high.total_cmp(&a.finding.gain.high));
        found.truncate(1);
        Ok(found)
    }
}

/// One thread's work, which is the child's.
fn is_serial(step: &Step) -> bool {
    let active = step.active_ns as f64 / step.alone.length_ns().max(1) as f64;
    ACTIVE.contains(&active) && step.own_ns as f64 >= OWN_MIN * step.active_ns as f64
}

/// The parent's waits for its children that were mostly in one of the stretches.
fn waits(scene: &Scene, job: &Job) -> Charge {
    let trace = scene.trace;
    let all = children::waited((trace, &scene.derived.roles), &scene.derived.holders, job.parent);
    let alone_ns = |span| -> u64 {
        let within = job.steps.iter().flat_map(|step| step.alone.within(span));
        within.map(|(from, to)| to.since(from).0).sum()
    };
    Charge::of_rows(trace, |id, take| {
        if trace.threads[id.index()].process != job.parent {
            return;
        }
        for (row, slice) in trace.slices.rows(id).zip(trace.slices.of_thread(id)) {
            let span = (slice.start, slice.end);
            if all.has(row) && 2 * alone_ns(span) >= slice.duration().0 {
                take(row);
            }
        }
    })
}

fn finding(scene: &Scene, mut job: Job) -> Option<Charged> {
    job.steps.retain(is_serial);
    let first = job.steps.first()?;
    let total: u64 = job.steps.iter().map(|step| step.alone.length_ns()).sum();
    let spread = job.most.min(u64::from(scene.derived.occupancy.cpus)).max(1);
    let high = scene.of_wall(total as f64 * (1.0 - 1.0 / spread as f64)).clamp(0.0, 1.0);
    if high < GAIN_MIN {
        return None;
    }
    let charge = waits(scene, &job);
    if (charge.ns() as f64) < WAITED_MIN * total as f64 {
        return None;
    }
    let whose = scene.trace.process_name(job.parent);
    let finding = Finding {
        rule: INFO.name,
        about: About::Other,
        subject: format!("{whose} waits for {}", worker_name(scene.trace, first)),
        summary: summary(scene, &job, total),
        cost_ns: charge.ns(),
        gain: Gain { low: 0.0, high },
        likely: None, confidence: scene.confidence(Confidence::Medium),
        evidence: scene.longest_of(&charge, |_| "waits for its only running child".to_owned()),
        advice: vec![
            "Start it earlier, in parallel with independent steps (in a build: declare exact dependencies), and the longest step first".into(),
            "Or make it shorter, or divide it: nothing else of the job runs during it".into(),
        ],
    };
    Some(Charged { finding, charge })
}

/// The child, or its descendant that does the work.
fn worker_name(trace: &Trace, step: &Step) -> String {
    let name = |process: ProcessId| trace.process_name(process).to_owned();
    let Some((works, _)) = step.busiest else { return name(step.child) };
    let its = trace.threads[works.index()].process;
    if its == step.child {
        thread(trace, works)
    } else {
        format!("{} (of {})", thread(trace, works), name(step.child))
    }
}

fn summary(scene: &Scene, job: &Job, total_ns: u64) -> Vec<String> {
    let trace = scene.trace;
    let whose = trace.process_name(job.parent);
    let active_ns: u64 = job.steps.iter().map(|step| step.active_ns).sum();
    let mut lines = vec![format!(
        "For {} ({} of the run) only one child process of {whose} was running ({:.1} active threads on average). At other times up to {} ran in parallel ({} in total).",
        time(total_ns),
        percent(scene.of_wall(total_ns as f64)),
        active_ns as f64 / total_ns.max(1) as f64,
        job.most,
        time(job.beside_ns),
    )];
    let step = |step: &Step| {
        let from = step.alone.spans().first().map_or(0, |(from, _)| from.since(trace.start()).0);
        format!("{} for {} from {}", worker_name(trace, step), time(step.alone.length_ns()), time(from))
    };
    let steps: Vec<String> = job.steps.iter().take(TOLD_MAX).map(step).collect();
    lines.push(format!("That was {}.", steps.join(", ")));
    let works = job.steps.first().and_then(|step| step.busiest);
    if let Some(busiest) = works.and_then(|(id, _)| busiest::of_thread(trace, &scene.derived.roles, id)) {
        let (share, error) = (percent(busiest.share), percent(busiest.error));
        lines.push(format!(
            "{share} ± {error} of the first one's computing is in {}.",
            busiest.display_name()
        ));
    }
    lines
}
