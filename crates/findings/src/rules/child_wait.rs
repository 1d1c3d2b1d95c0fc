//! # child-wait: a program waits while a child process works, one child after another
//!
//! ## Symptoms
//! Threads that wait for the exit of child processes (`waitpid`, `system`, `subprocess.run`, a shell's
//! commands). Build tools wait for their messages (the end of a pipe from them, a signal). It also sees the
//! children, whether they ran in parallel, and their activity.
//!
//! ## Why it hurts
//! A parent that starts one child, waits, and starts the next uses one CPU, however many there are. While the
//! parent waits, it does no work of its own, although it may have some.
//!
//! ## How it decides
//! There are two cases. In the first, four or more children run one after another, and none takes more than a
//! third of the waiting. (The steps of a script are one long child and some short ones, and mostly depend on
//! each other.) In the second, the parent has work of its own. The upper bound of the gain is that the waits
//! overlapped with other work on idle CPUs. There are at most as many parallel children as CPUs, and the
//! longest child still takes its time. In the second case, the parent's own work overlaps with its child. The
//! lower bound is 0, because a child may need its predecessor's output. A parent that only waits for one
//! child (a wrapper, a shell) has no finding. The slow part is in the child, and is judged there.
//!
//! ## What to do
//! Start the next child before the previous one exits (`make -j`, `xargs -P`, `&` and `wait`, a process
//! pool). Or continue with other work and wait at the end. The summary lists the children's time. Record one
//! child alone for more detail.
//!
//! ## Blind spots
//! Dependencies between children are not known. Children whose exit is only awaited by `epoll` on a pidfd
//! look like an idle event loop. subprocess-per-item reports many short children.
//!
//! ## References
//! POSIX `waitpid`, `system`. Linux `pidfd_open(2)`.

use crate::derive::children::{self, Parent};
use crate::derive::class::Class;
use crate::finding::{About, Confidence, Finding, Gain};
use crate::rule::{Charged, ChargedVerdict, Info, Rule};
use crate::scene::{GAIN_MIN, Scene};
use crate::wording::{percent, time};

pub(super) static INFO: Info = Info {
    waits_only: true,
    ..Info::new("child-wait", "A program waits while its child processes run one after another")
};

/// Minimum number of children one after another. Fewer are steps of a script.
const CHILDREN_MIN: u64 = 4;
/// A child that takes more of the waiting than this is a step of its own, not one of many alike.
const LONGEST_MAX: f64 = 1.0 / 3.0;
/// Maximum mean number of parallel children for children that are awaited one by one.
const SIDE_BY_SIDE_MAX: f64 = 1.3;
/// A parent that runs for less than this share of the run does nothing else.
const OWN_WORK_MIN: f64 = 0.05;
/// Minimum share of the children's time that is reported.
const PART_MIN: f64 = 0.05;
/// Maximum number of classes and functions that are reported.
const PARTS_MAX: usize = 4;

pub(super) struct ChildWait;

impl Rule for ChildWait {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        scene.needs_wait_reasons()?;
        let parents = scene.derived.children.iter();
        let mut found: Vec<Charged> = parents.filter_map(|parent| finding(scene, parent)).collect();
        found.sort_by(|a, b| b.finding.gain.high.total_cmp(&a.finding.gain.high));
        found.truncate(1);
        Ok(found)
    }
}

/// Many children alike, one after the other.
fn is_habit(parent: &Parent) -> bool {
    parent.children >= CHILDREN_MIN && parent.longest_ns as f64 <= LONGEST_MAX * parent.wait_ns as f64
}

/// The share of the waiting that could overlap with other work. 0 if there is no evidence.
fn avoidable(scene: &Scene, parent: &Parent) -> f64 {
    if parent.side_by_side() > SIDE_BY_SIDE_MAX || parent.children == 0 {
        return 0.0;
    }
    let at_a_time = parent.children.min(u64::from(scene.trace.manifest.host.cpus_allowed.max(1)));
    // However many at a time, the longest of them is waited for.
    let longest = parent.longest_ns as f64 / parent.wait_ns.max(1) as f64;
    let remaining = longest.clamp(1.0 / at_a_time.max(1) as f64, 1.0);
    let children = if is_habit(parent) { 1.0 - remaining } else { 0.0 };
    let works = scene.of_wall(parent.own_running_ns as f64) >= OWN_WORK_MIN;
    let own = if works { parent.own_running_ns as f64 / parent.wait_ns.max(1) as f64 } else { 0.0 };
    children.max(own).min(1.0)
}

fn finding(scene: &Scene, parent: &Parent) -> Option<Charged> {
    let avoidable = avoidable(scene, parent);
    if avoidable == 0.0 || scene.of_wall(parent.wait_ns as f64) < GAIN_MIN {
        return None;
    }
    let derived = scene.derived;
    let charge = children::waited((scene.trace, &derived.roles), &derived.holders, parent.process);
    let idle = scene.gain_whoever_ran(&scene.stall(&charge), |_, waited| waited).high;
    let high = idle.min(scene.of_wall(parent.wait_ns as f64) * avoidable);
    if high < GAIN_MIN {
        return None;
    }
    let confidence = if is_habit(parent) { Confidence::Medium } else { Confidence::Low };
    let finding = Finding {
        rule: INFO.name,
        about: About::Other,
        subject: subject(scene, parent),
        summary: summary(scene, parent),
        cost_ns: charge.ns(),
        gain: Gain { low: 0.0, high },
        likely: None,
        confidence: scene.confidence(confidence),
        evidence: scene.longest_of(&charge, |_| "waits for a child".to_owned()),
        advice: vec![
            "Start the next child before the previous one exits (make -j, xargs -P, a process pool)".into(),
            "Or continue with other work, and wait for the child only where its result is needed".into(),
        ],
    };
    Some(Charged { finding, charge })
}

fn subject(scene: &Scene, parent: &Parent) -> String {
    let whose = scene.trace.process_name(parent.process);
    match parent.names.first() {
        Some((name, times)) if *times > 1 => {
            format!("{whose} waits for {}, {times} of them {name}", children(parent))
        }
        Some((name, _)) => format!("{whose} waits for {}, such as {name}", children(parent)),
        None => format!("{whose} waits for {}", children(parent)),
    }
}

fn children(parent: &Parent) -> String {
    if parent.children == 1 { "1 child".to_owned() } else { format!("{} children", parent.children) }
}

fn summary(scene: &Scene, parent: &Parent) -> Vec<String> {
    let mut lines = vec![format!(
        "It waited {} ({} of the run) for {}, on average {:.1} of them alive at a time. It ran for {} itself.",
        time(parent.wait_ns),
        percent(scene.of_wall(parent.wait_ns as f64)),
        children(parent),
        parent.side_by_side(),
        time(parent.own_running_ns),
    )];
    let total: u64 = parent.classes.iter().sum();
    let mut parts: Vec<(Class, u64)> =
        Class::ALL.into_iter().map(|class| (class, parent.classes[class as usize])).collect();
    parts.sort_by_key(|(class, ns)| (std::cmp::Reverse(*ns), *class));
    let parts = parts.iter().map(|(class, ns)| (class.name(), *ns as f64 / total.max(1) as f64));
    if let Some(said) = joined(parts) {
        lines.push(format!("The children's time: {said}."));
    }
    let running: u64 = parent.functions.iter().map(|(_, ns)| ns).sum();
    let functions = parent.functions.iter();
    let functions = functions.map(|(name, ns)| (name.as_str(), *ns as f64 / running.max(1) as f64));
    if let Some(said) = joined(functions) {
        lines.push(format!("During that time the children ran mostly in {said} (sampled)."));
    }
    lines
}

/// The greatest parts, with their shares.
fn joined<'a>(parts: impl Iterator<Item = (&'a str, f64)>) -> Option<String> {
    let great = parts.filter(|(_, share)| *share >= PART_MIN).take(PARTS_MAX);
    let said: Vec<String> = great.map(|(name, share)| format!("{name} {}", percent(share))).collect();
    (!said.is_empty()).then(|| said.join(" · "))
}
