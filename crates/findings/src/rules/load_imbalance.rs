//! # load-imbalance: threads at a barrier have unequal shares of work
//!
//! ## Symptoms
//! Barriers, ends of parallel loops and joins, the running time of each thread for each of them, and the last
//! thread to arrive.
//!
//! ## Why it hurts
//! All threads wait for the one with the most work. While they wait, sleeping or spinning, their CPUs do
//! nothing for the program. A loop takes as long as its longest share.
//!
//! ## How it decides
//! For each barrier it compares the running time of the last thread with the mean of all threads. With evenly
//! divided work, the barrier would be earlier by that difference. (With more threads than CPUs, it would be
//! earlier by less, because the CPUs do the work.) The difference is limited to the mean lead of the other
//! threads. The lower bound of the gain counts, per barrier, at most the last thread's delay after the second
//! to last. The upper bound also counts the last thread's waits for a CPU that threads of the program used.
//!
//! Threads that were blocked longer than they ran do other work, and have no share here. barrier-straggler
//! reports time in which the last thread did not run. If another program kept it off the CPU for half of its
//! lateness, the finding is a hint. A thread that shares its CPU with another program also runs more slowly.
//! It is also a hint if the last thread ran at most a tenth longer than the mean. With only a few barriers,
//! this limit is a fifth. CPUs differ that much if other threads run on their cores.
//!
//! ## What to do
//! Distribute smaller pieces to free threads (`schedule(dynamic)`, a work queue, work stealing). Or divide
//! the work by its cost and not by the number of items. If one piece alone is too long, split it.
//!
//! ## Blind spots
//! The running time of spinning members is only as exact as samples. An imbalance of less than a few
//! milliseconds per barrier is not seen there. Two threads that take turns on a condition variable are taken
//! for a queue. CPUs that are more unequal than that look like unequal work.
//!
//! ## References
//! DeRose, Homer, Johnson: Detecting application load imbalance on high end massively parallel systems
//! (Euro-Par 2007).

use crate::derive::rendezvous::SiteUse;
use crate::finding::Confidence;
use crate::lateness::{self, MEETINGS_SURE, Said};
use crate::rule::{ChargedVerdict, Estimate, Explains, Info, Rule};
use crate::scene::Scene;
use crate::wording::{percent, thread, time};

pub(super) static INFO: Info = Info {
    waits_only: true,
    estimate: Estimate::Computed,
    hints_explain: true,
    explains: &[
        // The thread with the most work runs alone at the end, while the other threads wait or spin.
        Explains::shared(&super::serial_section::INFO),
        Explains::shared(&super::spin_wait::INFO),
        // Two views of one rendezvous: the last thread to arrive had more work, or was delayed. The finding with the
        // larger gain is reported.
        Explains::ranked_lower(&INFO),
        Explains::ranked_lower(&super::barrier_straggler::INFO),
    ],
    ..Info::new(
        "load-imbalance",
        "Threads at a barrier have unequal shares of work, and wait for the largest",
    )
};

/// Share of the members' spinning (sampled) in the wait time beyond which a finding is at most likely.
const SPUN_LIKELY: f64 = 0.5;

/// Maximum difference of CPUs that count as equal, due to other threads on their cores, and interrupts. The
/// last of two threads with the same work had run 3.6 to 6.4 % longer than the mean, on a virtual machine
/// without other work.
const CPUS_DIFFER: f64 = 0.1;
/// The same with few barriers: one such run among some forty had 13.3 %.
const CPUS_DIFFER_ONCE: f64 = 0.2;

pub(super) struct LoadImbalance;

impl Rule for LoadImbalance {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        lateness::judge(scene, INFO.name, |used| used.imbalance, |used| describe(scene, used))
    }
}

fn describe(scene: &Scene, used: &SiteUse) -> Said {
    let spun = used.spun_ns as f64 > SPUN_LIKELY * used.harm_ns as f64;
    let by_strangers = used.is_due_to_other_programs() && 2 * used.strangers_ns > used.causes.total_ns();
    let confidence = match used.meetings {
        _ if by_strangers || cpus_may_differ(used) => Confidence::Low,
        MEETINGS_SURE.. if !spun => Confidence::High,
        _ => Confidence::Medium,
    };
    Said { summary: summary(scene, used), confidence, advice: advice(used) }
}

/// The last had run hardly longer than all on average: so do even shares on CPUs of which one is slower.
fn cpus_may_differ(used: &SiteUse) -> bool {
    let differ = if used.meetings < MEETINGS_SURE { CPUS_DIFFER_ONCE } else { CPUS_DIFFER };
    used.last_work_ns as f64 <= (1.0 + differ) * used.mean_work_ns as f64
}

fn summary(scene: &Scene, used: &SiteUse) -> Vec<String> {
    let mut lines = vec![lateness::waited(scene, used)];
    let each = |ns: u64| time(ns / used.compared.max(1));
    lines.push(format!(
        "Per barrier, the last thread to arrive had run for {}, the average thread for {}.",
        each(used.last_work_ns),
        each(used.mean_work_ns),
    ));
    if let (Some(most), Some(least)) = (used.work.first(), used.work.last()) {
        lines.push(format!(
            "In total {} ran most, {}, and {} least, {}.",
            thread(scene.trace, most.0),
            time(most.1),
            thread(scene.trace, least.0),
            time(least.1),
        ));
    }
    if let Some((last, times, _)) = used.by_last.first() {
        let share = *times as f64 / used.meetings.max(1) as f64;
        lines.push(format!("Most often last: {} ({}).", thread(scene.trace, *last), percent(share)));
    }
    let samples: u64 = used.late_at.iter().map(|(_, samples)| samples).sum();
    if let Some((place, seen)) = used.late_at.first() {
        let share = *seen as f64 / samples.max(1) as f64;
        lines.push(format!(
            "While the others waited, the last thread was mostly in {place} ({}).",
            percent(share)
        ));
    }
    lines
}

fn advice(used: &SiteUse) -> Vec<String> {
    let what = used.late_at.first().map_or(String::new(), |(place, _)| format!(" of {place}"));
    vec![
        format!(
            "Hand out smaller pieces{what} to idle threads: schedule(dynamic), a work queue, work stealing"
        ),
        "Divide the work by its cost, not by the number of items".into(),
    ]
}
