//! # fine-tasks: tasks are so small that distributing them takes longer than running them
//!
//! ## Symptoms
//! Thread pools: code in which threads wait for work, and which calls the program's tasks. It sees CPU
//! samples in that code itself: creating a task, queueing it, taking it, waking a worker, awaiting the
//! result. The allocator, the locks and the syscalls below it are included.
//!
//! ## Why it hurts
//! Distributing a task costs some 50 ns to some microseconds, and more if the queue belongs to another CPU.
//! For a task of one addition this is nearly all of the time. With more threads, contention for the same
//! queues increases.
//!
//! ## How it decides
//! Half of the process's running time or more must be in the pool's own code. A tenth or more must be in
//! calls in which no thread ever waits for work: those of threads that submit tasks. A pool that searches for
//! work in vain does not have too many tasks. If its threads are mostly woken in vain, thundering-herd
//! reports them. A task must be sampled: a function that the pool calls, in 2 % of the running time with its
//! callees.
//!
//! The code of a pool is the source file or library of the function in which its threads wait for work. The
//! lower bound of the gain is that tasks are ten times as coarse: a tenth of the time remains. The upper
//! bound removes it all. It also removes the pool's callees in other files, the library time of tasks that
//! distribute others, and the collections that its garbage causes.
//!
//! ## What to do
//! Make tasks larger: below a threshold compute at once, without further tasks. Distribute ranges instead of
//! single items (chunk size, grain size, `with_min_len`). Create tasks only while threads are idle.
//!
//! ## Blind spots
//! A pool whose threads never waited for work is not recognised. A pool in the same file as its tasks counts
//! as one piece of code. Without debug information, so does all code with a common prefix of names. The
//! number of tasks is not counted.
//!
//! ## References
//! Acar, Charguéraud, Rainey: Oracle scheduling: controlling granularity in implicitly parallel languages
//! (2011). Reinders: Intel Threading Building Blocks (2007), chapter 3 on grain size.

use holdup_events::tables::SampleRow;

use crate::analysis::Derived;
use crate::derive::class::Class;
use crate::derive::replay::{Facts, Speed};
use crate::derive::tasks::Handing;
use crate::finding::{About, Confidence, Evidence, Finding};
use crate::removal::{Removal, ran};
use crate::rule::{Cause, ChargedVerdict, Estimate, Info, Rule, Verdict, uncharged};
use crate::scene::Scene;
use crate::wording::{percent, time};

pub(super) static INFO: Info = Info {
    estimate: Estimate::Replayed,
    ..Info::new("fine-tasks", "Tasks are so small that scheduling them takes longer than running them")
};

/// Minimum share of the process's running time that is spent distributing tasks.
const SHARE_MIN: f64 = 0.5;
/// Minimum share of it that is spent submitting tasks, not searching for them.
const GIVING_MIN: f64 = 0.1;
/// Minimum share of it in one function that the pool calls, including its callees. If the library hardly ever
/// calls it, the library does its own work.
const TASK_MIN: f64 = 0.02;
/// Minimum number of samples. Fewer may be chance.
const SAMPLES_MIN: u64 = 40;

pub(super) struct FineTasks;

impl Rule for FineTasks {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        uncharged(judge(scene))
    }

    fn removal(&self, cause: &Cause) -> Option<Removal> {
        coarser(cause.facts(), cause.derived())
    }
}

/// Share of the cost of distributing tasks that remains with tasks ten times as coarse.
const TASKS_LEFT: f64 = 0.1;

/// Makes tasks coarser, so that a part of the cost of distributing them remains. Upper bound: the whole cost
/// goes, and the collections caused by its allocations go too.
fn coarser(facts: Facts, derived: &Derived) -> Option<Removal> {
    let pool = costliest(derived)?;
    let part = pool.ns as f64 / (pool.ns + pool.task_ns).max(1) as f64;
    let hands = |sample: &SampleRow| {
        let class = facts.roles.class_of_sample(sample);
        pool.stacks.contains(&sample.stack) && matches!(class, Class::Useful | Class::Kernel)
    };
    let least = Speed::new(facts.trace, TASKS_LEFT, hands);
    let most = Speed::weighed(facts.trace, |sample| match facts.roles.class_of_sample(sample) {
        Class::GcWork => part,
        Class::Spin => 0.0,
        _ if pool.stacks.contains(&sample.stack) || pool.helping.contains(&sample.stack) => 1.0,
        _ => 0.0,
    });
    Some(Removal { least: vec![ran(least)], most: vec![ran(most)] })
}

fn judge(scene: &Scene) -> Verdict {
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
    let most = scene.gain(&pool.stall, |_, ns| ns * (1.0 - TASKS_LEFT));
    Finding {
        rule: INFO.name,
        about: About::Other,
        subject: format!(
            "tasks through {}",
            pool.functions.first().map_or("a pool", |(function, _)| function.as_str())
        ),
        summary: vec![
            format!(
                "Scheduling tasks took {} ± {} ({} of the CPU time), the tasks themselves {}.",
                time(pool.ns),
                time(pool.error_ns),
                percent(pool.ns as f64 / pool.running_ns.max(1) as f64),
                time(pool.task_ns),
            ),
            format!("Handing out: {}.", listed(&pool.functions, pool.running_ns)),
            format!("Tasks, including the functions they call: {}.", listed(&pool.tasks, pool.running_ns)),
        ],
        cost_ns: pool.ns,
        gain: most,
        likely: None,
        confidence: scene.confidence(Confidence::Medium),
        evidence: pool
            .seen
            .iter()
            .map(|(thread, at)| Evidence::sample(*thread, *at, "schedules tasks".to_owned()))
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
        format!("Let a task of {task} do more: below a threshold, compute at once without further tasks"),
        "Or schedule ranges of items instead of single ones (chunk size, grain size)".into(),
    ]
}
