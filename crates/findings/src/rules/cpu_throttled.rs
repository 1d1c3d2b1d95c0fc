//! # cpu-throttled: the cgroup's CPU quota is used up and threads must pause
//!
//! ## Symptoms
//! Runnable threads that are throttled. Either their control group has used its CPU time of this period
//! (`cpu.max`), or they have used the runtime that SCHED_DEADLINE gives them per period.
//!
//! ## Why it hurts
//! The quota is one sum for all threads. Many threads on many CPUs use it up in the first part of a period
//! (100 ms by default). Then all of them pause until the next period, even while they hold locks. Latencies
//! increase by tens of milliseconds while the machine looks idle.
//!
//! ## How it decides
//! It adds up the throttled time. The upper bound of the gain is that those threads had run on the CPUs that
//! were idle at the time. The lower bound is the saving of the active thread that was throttled least.
//!
//! ## What to do
//! Raise the quota (`cpu.max`, the container's CPU limit). Or start at most as many threads as the quota
//! divided by the period allows CPUs, so that the work is spread over the period. A shorter period makes the
//! pauses shorter.
//!
//! ## Blind spots
//! Which of the two limits applied is known only if there is a quota. Only throttling of threads that were on
//! a CPU, or came to one, is seen. The quota is read about once a second. A process that exits before then,
//! or is moved, had another quota.
//!
//! ## References
//! Linux `Documentation/scheduler/sched-bwc.rst`, `cgroups(7)`. Indeed Engineering: Unthrottled (2019).

use holdup_events::tables::{CountKind, ThreadState};

use crate::charge::Charge;
use crate::derive::{free_capacity, limits};
use crate::finding::{About, Confidence, Finding};
use crate::removal::Removal;
use crate::rule::{Cause, Charged, ChargedVerdict, Estimate, Explains, Info, Rule};
use crate::scene::{GAIN_MIN, Scene};
use crate::wording::{count, percent, thread, time};

pub(super) static INFO: Info = Info {
    waits_only: true,
    estimate: Estimate::Computed,
    explains: &[
        // A quota that is used up makes queues and late holders.
        Explains::shared(&super::preempted_lock_holder::INFO),
        Explains::shared(&super::oversubscription::INFO),
    ],
    ..Info::new(
        "cpu-throttled",
        "A CPU limit (cgroup quota, SCHED_DEADLINE) is used up and threads must pause",
    )
};

pub(super) struct CpuThrottled;

impl Rule for CpuThrottled {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        scene.needs_wait_reasons()?;
        let throttled_ns = scene.derived.ledger.run_queue.throttled_ns;
        if scene.of_wall(throttled_ns as f64) < GAIN_MIN {
            return Ok(Vec::new());
        }
        let quota = quota(scene);
        let advice = advice(quota.is_some());
        let charge = Charge::matching(scene.trace, |slice| slice.state == ThreadState::Throttled);
        let stall = scene.stall(&charge);
        let threads = free_capacity::ranked(&stall);
        let finding = Finding {
            rule: INFO.name,
            about: About::Other,
            subject: match threads.first() {
                Some((worst, _)) => {
                    format!(
                        "{}, mostly {}",
                        count(threads.len() as u64, "thread"),
                        thread(scene.trace, *worst)
                    )
                }
                None => count(threads.len() as u64, "thread"),
            },
            summary: vec![format!(
                "Threads were runnable but throttled for {} ({} of their time), {}, {} each on average.",
                time(throttled_ns),
                percent(scene.of_thread_time(throttled_ns)),
                count(charge.count(), "pause"),
                time(throttled_ns / charge.count().max(1)),
            )]
            .into_iter()
            .chain(quota)
            .collect(),
            cost_ns: throttled_ns,
            gain: scene.gain_whoever_ran(&stall, |_, waited| waited),
            likely: None,
            confidence: scene.confidence(Confidence::High),
            evidence: scene
                .longest_of(&charge, |_| "throttled: its CPU time of this period is used up".to_owned()),
            advice,
        };
        Ok(vec![Charged { finding, charge }])
    }

    fn removal(&self, cause: &Cause) -> Option<Removal> {
        Removal::slices(cause.charge)
    }
}

fn advice(has_quota: bool) -> Vec<String> {
    let mut advice = vec![
        "Raise the cgroup's CPU quota (cpu.max, the container's CPU limit)".into(),
        "Or start no more threads than the quota divided by its period".into(),
    ];
    if !has_quota {
        advice.push(
            "For a SCHED_DEADLINE thread (chrt -p TID): raise its runtime per period, or use another policy"
                .into(),
        );
    }
    advice
}

/// A sentence on the control group's quota, where it is known.
fn quota(scene: &Scene) -> Option<String> {
    let thousandths = limits::tightest(scene.trace, CountKind::CpuLimit)?;
    let cpus = thousandths as f64 / 1000.0;
    let said = if cpus == 1.0 { "1 CPU".to_owned() } else { format!("{cpus} CPUs") };
    Some(format!("Its cgroup may use {said} (cpu.max)."))
}
