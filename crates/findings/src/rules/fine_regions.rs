//! # fine-regions: parallel regions are so small that one thread alone would be faster
//!
//! ## Symptoms
//! A thread that distributes work and waits until all of it is done, many thousand times a second. The
//! program's threads together compute for less time than the run takes.
//!
//! ## Why it hurts
//! Waking a thread and receiving its completion takes the kernel some 10 to 20 µs. Each end of a region waits
//! for the slowest thread. If an innermost loop is divided, this is more than the loop took.
//!
//! ## How it decides
//! It counts the waits of a thread at joins and barriers that another thread of its process ended. There must
//! be at least a thousand, one every 100 µs or more often, and the thread must hardly wait for other events.
//! A finding needs a total computing time of all threads that is shorter than the run, including kernel time
//! other than handovers. Then one thread alone would have been faster. That is the lower bound of the gain.
//! The upper bound is that only the tasks are left, spread evenly over all CPUs.
//!
//! ## What to do
//! Divide an outer loop instead of the inner one, so that one region does the work of many. Below a size
//! compute without a region (`with_min_len`, the `if` clause of OpenMP). Keep the threads in one region over
//! many steps.
//!
//! ## Blind spots
//! Threads that only wait by spinning are not counted, because their waits leave no switch (see spin-wait).
//! The computing time is sampled.
//!
//! ## References
//! Chandra et al.: Parallel programming in OpenMP (2001), chapter 6 on the overhead of parallel loops. Bull:
//! Measuring synchronisation and scheduling overheads in OpenMP (1999).

use holdup_events::tables::Slice;

use crate::charge::Charge;
use crate::derive::class::Class;
use crate::derive::regions::Regions;
use crate::derive::syscall_names::{FUTEX, SCHED_YIELD};
use crate::finding::{About, Confidence, Finding, Gain};
use crate::rule::{Charged, ChargedVerdict, Info, Rule};
use crate::scene::{GAIN_MIN, Scene};
use crate::wording::{count, thread, time};

pub(super) static INFO: Info =
    Info::new("fine-regions", "Parallel regions are so small that one thread alone would be faster");

/// Longer regions (ns) than a few times what handing over takes have another cause.
const REGION_MAX_NS: u64 = 100_000;
/// Minimum number of regions. Fewer may be a program's start.
const REGIONS_MIN: u64 = 1_000;
/// Maximum share of its life that the distributing thread waits for other events than the regions' ends.
const ELSEWHERE_MAX: f64 = 0.2;

pub(super) struct FineRegions;

impl Rule for FineRegions {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        scene.needs_wait_reasons()?;
        if !scene.derived.ledger.split_known {
            return Err("there are no samples of what ran".to_owned());
        }
        let mut fine = scene.derived.regions.iter().filter(|regions| is_fine(regions));
        Ok(fine.find_map(|regions| finding(scene, regions)).into_iter().collect())
    }
}

fn is_fine(regions: &Regions) -> bool {
    let elsewhere = regions.elsewhere_ns as f64 / regions.life_ns.max(1) as f64;
    regions.joins >= REGIONS_MIN && regions.cycle_ns() <= REGION_MAX_NS && elsewhere <= ELSEWHERE_MAX
}

/// From one thread that computes all, to all CPUs that compute the tasks.
fn gain(scene: &Scene, regions: &Regions) -> Gain {
    // What the kernel does for the tasks stays.
    let hands_over = |number: i32| matches!(number, FUTEX | SCHED_YIELD);
    let calls = scene.derived.syscalls.iter().filter(|call| !hands_over(call.number));
    let called_ns: u64 = calls.map(|call| call.cpu_ns).sum();
    let pool = scene.derived.tasks.iter().find(|pool| pool.process == regions.process);
    let tasks_ns = pool.map_or(regions.useful_ns, |pool| pool.task_ns.min(regions.useful_ns));
    let at_once = f64::from(scene.trace.manifest.host.cpus_allowed.max(1));
    let error_ns = scene.derived.ledger.error_ns(Class::Useful);
    let saved = |left_ns: f64| scene.of_wall(regions.life_ns as f64 - left_ns).clamp(0.0, 1.0);
    Gain {
        low: saved((regions.useful_ns + error_ns + called_ns) as f64),
        high: saved((tasks_ns + called_ns) as f64 / at_once),
    }
}

fn finding(scene: &Scene, regions: &Regions) -> Option<Charged> {
    let gain = gain(scene, regions);
    if gain.low < GAIN_MIN {
        return None;
    }
    let who = regions.thread;
    let is_join = |slice: &Slice| slice.thread == who && scene.class(slice) == Some(Class::JoinWait);
    let mut summary = vec![
        format!(
            "It waited {} for other threads to finish a region, once in {} on average.",
            count(regions.joins, "time"),
            time(regions.cycle_ns())
        ),
        format!(
            "All threads together computed for {} ± {}, less than the run: one thread alone would have been faster.",
            time(regions.useful_ns),
            time(scene.derived.ledger.error_ns(Class::Useful))
        ),
        match regions.looking_ns {
            0 => format!("The kernel ran for another {}.", time(regions.kernel_ns)),
            looking_ns => format!(
                "They also looked for work for {}, and the kernel ran for {}.",
                time(looking_ns),
                time(regions.kernel_ns)
            ),
        },
    ];
    summary.extend(scene.waits_come_from(is_join));
    let charge = Charge::matching(scene.trace, is_join);
    let finding = Finding {
        rule: INFO.name,
        about: About::Other,
        subject: format!("the parallel regions of {}", thread(scene.trace, who)),
        summary,
        cost_ns: charge.ns() + regions.looking_ns + regions.kernel_ns,
        gain,
        likely: None,
        confidence: scene.confidence(Confidence::High),
        evidence: scene.longest_of(&charge, |_| "waits until the region is finished".to_owned()),
        advice: vec![
            "Parallelize an outer loop instead of the inner one, so that many regions become one".into(),
            "Run regions below a minimum size on the calling thread (with_min_len, OpenMP's if clause)"
                .into(),
        ],
    };
    Some(Charged { finding, charge })
}
