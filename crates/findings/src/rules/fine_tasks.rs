//! # fine-tasks: tasks are so small that handing them out takes longer than they do
//!
//! ## What it sees
//! Pools of threads: code in which threads wait for work, and which calls the program's tasks. Samples of the CPU in that
//! code itself: making a task, queueing it, taking it, waking who may do it, awaiting what it returns; with the
//! allocator, the locks and the calls of the kernel below it.
//!
//! ## Why it hurts
//! To hand out a task costs some 50 ns to some microseconds, more where the queue is another CPU's. A task of an addition is
//! lost in that, and the more threads take part, the more they meet at the same queues.
//!
//! ## How it decides
//! It fires if half of the process's running time or more goes into the pool's own code, and a tenth or more into calls of
//! it in which nobody ever waits for work, so those of who has a task to give: a pool that looks for work in vain has no tasks too many; nor has one whose threads are mostly woken in vain: that is thundering-herd's. A task
//! must be seen: a function that the pool calls, in 2 % of the running time with what it calls. The code of a
//! pool is the source file or library of the place where its threads wait for work. The lower end of the gain is that
//! tasks are ten times as coarse: a tenth of the time remains; the upper end that nothing does, nor of what
//! the pool calls in other files, what tasks that hand out others do in libraries, and of the collections that its garbage causes.
//!
//! ## What to do
//! Let a task do more: below a threshold compute at once, without further tasks; hand out ranges in place of single items
//! (chunk size, grain size, `with_min_len`); make tasks only while threads are idle.
//!
//! ## Blind spots
//! A pool whose threads never waited for work is not known to be one. A pool that is written in the same file as its tasks is
//! taken for one piece of code; without debug information, so is all that a prefix of names has in common. How many tasks there are is not
//! counted.
//!
//! ## References
//! Acar, Charguéraud, Rainey: Oracle scheduling: controlling granularity in implicitly parallel languages (2011).
//! Reinders: Intel Threading Building Blocks (2007), chapter 3 on grain size.

use super::{Info, Verdict};
use crate::analysis::Derived;
use crate::derive::tasks::Handing;
use crate::finding::{Confidence, Evidence, Finding};
use crate::removal;
use crate::scene::Scene;
use crate::wording::{percent, time};

pub(super) const INFO: Info = Info {
    name: "fine-tasks",
    summary: "Tasks are so small that handing them out takes longer than they do",
    of_waits_alone: false,
};

/// So much of the process's running time goes into handing out.
const SHARE_MIN: f64 = 0.5;
/// So much of it into giving, not looking for some.
const GIVING_MIN: f64 = 0.1;
/// And a function that the pool calls is in at least this part of it, with what it calls in turn. What a whole library
/// hardly ever calls is not what it works for: the library does its own work.
const TASK_MIN: f64 = 0.02;
/// So few samples may be chance.
const SAMPLES_MIN: u64 = 40;

pub(super) fn judge(scene: &Scene) -> Verdict {
    scene.needs_wait_reasons()?;
    if !scene.derived.ledger.split_known {
        return Err("there are no samples of what ran".to_owned());
    }
    let costliest =
        costliest(scene.derived).filter(|pool| !super::thundering_herd::is_sure(scene, pool.process));
    Ok(costliest.map(|pool| finding(scene, pool)).into_iter().collect())
}

/// The costliest pool of those whose tasks are too small.
pub(super) fn costliest(derived: &Derived) -> Option<&Handing> {
    derived.tasks.iter().find(|pool| is_fine(pool))
}

fn is_fine(pool: &Handing) -> bool {
    let of_running = |ns: u64| ns as f64 / pool.running_ns.max(1) as f64;
    pool.samples >= SAMPLES_MIN
        && pool.tasks.first().is_some_and(|(_, ns)| of_running(*ns) >= TASK_MIN)
        && of_running(pool.ns) >= SHARE_MIN
        && of_running(pool.giving_ns) >= GIVING_MIN
}

fn finding(scene: &Scene, pool: &Handing) -> Finding {
    let most = scene.gain(&pool.stall, |_, ns| ns * (1.0 - removal::TASKS_LEFT));
    Finding {
        rule: INFO.name,
        subject: format!(
            "tasks through {}",
            pool.functions.first().map_or("a pool", |(function, _)| function.as_str())
        ),
        summary: vec![
            format!(
                "{} ± {} ({} of the running time) went by handing out tasks, {} in the tasks themselves.",
                time(pool.ns),
                time(pool.error_ns),
                percent(pool.ns as f64 / pool.running_ns.max(1) as f64),
                time(pool.task_ns),
            ),
            format!("Handing out: {}.", listed(&pool.functions, pool.running_ns)),
            format!("Tasks, with what they call: {}.", listed(&pool.tasks, pool.running_ns)),
        ],
        cost_ns: pool.ns,
        gain: most,
        likely: None,
        confidence: scene.confidence(Confidence::Medium),
        evidence: pool
            .seen
            .iter()
            .map(|(thread, at)| Evidence::sample(*thread, *at, "hands out tasks".to_owned()))
            .collect(),
        advice: advice(pool),
    }
}

fn listed(functions: &[(String, u64)], all_ns: u64) -> String {
    let one = |(name, ns): &(String, u64)| format!("{name} {}", percent(*ns as f64 / all_ns.max(1) as f64));
    functions.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn advice(pool: &Handing) -> Vec<String> {
    let task = pool.tasks.first().map_or("the tasks", |(function, _)| function.as_str());
    vec![
        format!("Let a task of {task} do more: below a threshold compute at once, without further tasks"),
        "Or hand out ranges of items in place of single ones (chunk size, grain size)".into(),
    ]
}
