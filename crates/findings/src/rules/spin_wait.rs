//! # spin-wait: threads spin while they wait
//!
//! ## Symptoms
//! CPU samples inside loops that only wait: loops that read the same memory until it changes, that contain
//! `pause`, or that call `sched_yield`. It names the function with the loop, and the waiting function of the
//! program. It also names the polled variable if the code shows it, and the activity of other threads at the
//! same time.
//!
//! ## Why it hurts
//! A spinning thread looks busy and makes no progress. It keeps a CPU from a thread with work, possibly from
//! the thread that it waits for. It uses power, reduces its neighbours' clock boost and contends for the
//! cache line that it polls.
//!
//! ## How it decides
//! The loop's instructions decide whether it only waits, not names. An iteration must change only a counter,
//! must read the same memory as the previous one, and the value must decide whether the loop continues. Or
//! the loop contains a `pause`. A search or a sum advances and is work. The time is the sampled share of the
//! running time, with its error.
//!
//! The gain is that of the same run replayed without the spinning, widened by the samples' error. The lower
//! bound assumes that the spinning threads wait for other threads' work, and that all work is serialized. For
//! recordings that are too long to replay, the gain lies between two values. These are the time of the thread
//! that spun least, and the saving if evenly spread work replaced all spinning. load-imbalance and
//! barrier-straggler report spinning at barriers while the last thread is missing.
//!
//! Loops in which a runtime waits for one object are reported as one, with the text of its descriptor.
//!
//! ## What to do
//! If the awaited thread ran during the spinning: make its work shorter, or split the data it protects. If it
//! was runnable: use no more spinning threads than CPUs. Or let them sleep (a mutex or condition variable
//! instead of a spin lock, `OMP_WAIT_POLICY=passive`).
//!
//! ## Blind spots
//! Loops in code that a runtime generated, or whose binary no longer existed at the end of the recording, are
//! not decoded. Neither are loops that wait inside functions that they call (unoptimised code). Short
//! spinning before a sleep is part of many locks, and useful as long as it is rare. The event that ends such
//! a wait is not recorded. Threads that ran at the same time are a hint.
//!
//! ## References
//! Anderson: The performance of spin lock alternatives (1990). Intel: optimization manual, the PAUSE
//! instruction.

use std::collections::BTreeSet;

use holdup_events::ThreadId;
use holdup_events::tables::{FrameSpin, SampleRow};

use crate::analysis::Derived;
use crate::derive::class::Class;
use crate::derive::rendezvous::SiteUse;
use crate::derive::replay::{Facts, Speed};
use crate::derive::spin::SpinUse;
use crate::finding::{About, Confidence, Evidence, Finding, Gain};
use crate::gains::widened;
use crate::removal::{Removal, ran};
use crate::rule::{CPUS, Cause, ChargedVerdict, Estimate, Info, OPENMP, Remedy, Rule, Verdict, uncharged};
use crate::scene::{EVIDENCE_MAX, GAIN_MIN, Scene};
use crate::wording::{count, percent, thread, time};

pub(super) static INFO: Info = Info {
    estimate: Estimate::Replayed,
    remedies: &[
        Remedy::new(OPENMP, "OMP_WAIT_POLICY", &["passive"], "waiting without spinning"),
        Remedy::new(OPENMP, "OMP_NUM_THREADS", &[CPUS], "a CPU for each spinning thread"),
    ],
    ..Info::new("spin-wait", "Threads wait by running: loops that only poll")
};

/// Loops that are named.
const LOOPS_MAX: usize = 3;
/// Minimum number of samples. Fewer may be chance.
const SAMPLES_MIN: u64 = 10;
/// Minimum number of samples at which the share is known to a fifth of itself.
const SAMPLES_SURE: u64 = 30;
/// A loop is not named if at least this share of it is waiting at a barrier that another rule reports.
const TOLD_MIN: f64 = 0.6;
/// ... and if that rule's remedy would save this part of what the spinning costs.
const TOLD_SAVES_MIN: f64 = 0.25;
/// Minimum share of the moments in which a thread was runnable, for it to be the cause of the others' waits.
const STARVED: f64 = 0.25;

pub(super) struct SpinWait;

impl Rule for SpinWait {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        uncharged(judge(scene))
    }

    fn removal(&self, cause: &Cause) -> Option<Removal> {
        without_loop(cause.facts(), cause.derived(), cause.finding)
    }

    fn gain(&self, cause: &Cause, forecast: Gain) -> Gain {
        // The spinning threads may wait for other threads' work. The lower bound assumes that no threads work
        // in parallel.
        let work = cause.derived().ledger.work_ns() as f64 / cause.trace().wall().0.max(1) as f64;
        let serial = widened(Gain { low: (1.0 - work).max(0.0), high: 1.0 });
        Gain { low: forecast.low.min(serial.low), ..forecast }
    }
}

/// The loop that a finding is about.
fn without_loop(facts: Facts, derived: &Derived, finding: &Finding) -> Option<Removal> {
    let About::Loop(place) = finding.about else { return None };
    let spin = derived.spins.get(place)?;
    let threads: BTreeSet<ThreadId> = spin.by_thread.iter().map(|(id, _)| *id).collect();
    let spins = |sample: &SampleRow| {
        spin.stacks.contains(&sample.stack)
            && threads.contains(&sample.thread)
            && facts.roles.class_of_sample(sample) == Class::Spin
    };
    Some(Removal::exact(vec![ran(Speed::new(facts.trace, 0.0, spins))]))
}

fn judge(scene: &Scene) -> Verdict {
    if !scene.derived.ledger.split_known {
        return Err("there are no samples of what ran".to_owned());
    }
    let costly = |(_, spin): &(usize, &SpinUse)| {
        let saved = scene.of_wall(spin.stall.saved_ns);
        spin.samples >= SAMPLES_MIN && saved >= GAIN_MIN && !is_reported_elsewhere(scene, spin)
    };
    let mut findings: Vec<Finding> = scene
        .derived
        .spins
        .iter()
        .enumerate()
        .filter(costly)
        .map(|(place, spin)| finding(scene, place, spin))
        .collect();
    findings.sort_by(|a, b| b.gain.high.total_cmp(&a.gain.high));
    findings.truncate(LOOPS_MAX);
    Ok(findings)
}

/// Whether most of the spinning is waiting for the last thread at a barrier, which load-imbalance or
/// barrier-straggler reports.
fn is_reported_elsewhere(scene: &Scene, spin: &SpinUse) -> bool {
    // What the meeting's rules would save must be a fair part of what the spinning costs: else they speak of little.
    let speaks = |used: &&SiteUse| {
        let most = used.imbalance.high_ns.max(used.straggle.high_ns) as f64;
        scene.of_wall(most) >= GAIN_MIN && most >= TOLD_SAVES_MIN * spin.stall.saved_ns
    };
    let told = scene.derived.rendezvous.uses.iter().filter(speaks);
    let told: BTreeSet<u32> = told.map(|used| used.site).collect();
    let ns: u64 = spin.met.iter().filter(|(site, _)| told.contains(site)).map(|(_, ns)| ns).sum();
    ns as f64 >= TOLD_MIN * spin.ns as f64
}

fn finding(scene: &Scene, place: usize, spin: &SpinUse) -> Finding {
    let sure = if spin.samples >= SAMPLES_SURE { Confidence::High } else { Confidence::Medium };
    Finding {
        rule: INFO.name,
        about: About::Loop(place),
        subject: subject(spin),
        summary: summary(scene, spin),
        cost_ns: spin.ns,
        gain: scene.gain(&spin.stall, |_, spun| spun),
        likely: None,
        confidence: scene.confidence(sure),
        evidence: evidence(spin),
        advice: advice(scene, spin),
    }
}

pub(super) fn subject(spin: &SpinUse) -> String {
    if let Some(purpose) = &spin.purpose {
        return format!("{}: {}", purpose.runtime, purpose.what);
    }
    match (spin.caller.as_str(), spin.watches.as_str()) {
        ("", "") => spin.function.clone(),
        ("", watches) => format!("{} in {}", watches, spin.function),
        (caller, "") => format!("{} in {caller}", spin.function),
        (caller, watches) => format!("{watches} in {} of {caller}", spin.function),
    }
}

fn summary(scene: &Scene, spin: &SpinUse) -> Vec<String> {
    let how = match spin.how {
        FrameSpin::Yields => "called sched_yield in a loop",
        _ => "only polled for a change",
    };
    let whom: Vec<String> = spin
        .by_thread
        .iter()
        .take(3)
        .map(|(id, ns)| format!("{} {}", thread(scene.trace, *id), time(*ns)))
        .collect();
    let mut lines = vec![format!(
        "{} {how} for {} ± {} ({} of all running time): {}.",
        count(spin.by_thread.len() as u64, "thread"),
        time(spin.ns),
        time(spin.error_ns),
        percent(spin.ns as f64 / scene.derived.ledger.running_ns().max(1) as f64),
        whom.join(", "),
    )];
    if spin.purpose.is_some() {
        lines.push(format!("Mostly in {}.", spin.function));
    }
    if !spin.watches.is_empty() {
        lines.push(format!("They polled {}.", spin.watches));
    }
    lines.extend(other_activity(scene, spin));
    lines
}

/// Sentences on the activity of other threads while these threads spun.
fn other_activity(scene: &Scene, spin: &SpinUse) -> Vec<String> {
    let seen = &spin.meanwhile;
    let of = |times: u64| percent(times as f64 / seen.samples.max(1) as f64);
    let named = |list: &[(holdup_events::ThreadId, u64)]| {
        let names: Vec<String> = list
            .iter()
            .take(3)
            .map(|(id, times)| format!("{} {}", thread(scene.trace, *id), of(*times)))
            .collect();
        names.join(", ")
    };
    let mut lines = Vec::new();
    if !seen.worked.is_empty() {
        lines.push(format!("Working during that time: {}.", named(&seen.worked)));
    }
    if seen.starved > 0 {
        lines.push(format!(
            "For {} of it no other thread of the program worked, but some were runnable without a CPU: {}.",
            of(seen.starved),
            named(&seen.wanted),
        ));
    }
    if seen.nobody > 0 && seen.samples > 0 {
        lines.push(format!("For {} of it no other thread was runnable.", of(seen.nobody)));
    }
    lines
}

fn evidence(spin: &SpinUse) -> Vec<Evidence> {
    let rows = spin.longest.iter().take(EVIDENCE_MAX);
    rows.map(|(thread, from, to)| Evidence {
        table: "samples",
        thread: *thread,
        start: *from,
        duration: to.since(*from),
        note: format!("spins in {}", spin.function),
    })
    .collect()
}

fn advice(scene: &Scene, spin: &SpinUse) -> Vec<String> {
    let starved = spin.meanwhile.starved as f64 / spin.meanwhile.samples.max(1) as f64;
    let mut advice = Vec::new();
    let queue = &scene.derived.ledger.run_queue;
    if starved >= STARVED && queue.own_ns >= queue.others_ns {
        advice.push(
            "Use fewer of these threads than CPUs: they take CPU time from the threads that they wait for"
                .into(),
        );
    }
    let known = spin.purpose.as_ref().map(|purpose| purpose.advice.as_str()).filter(|text| !text.is_empty());
    advice.push(known.unwrap_or("Let them sleep until an event arrives: a mutex, condition variable or semaphore instead of the loop. For OpenMP: OMP_WAIT_POLICY=passive").into());
    if !spin.meanwhile.worked.is_empty() {
        advice.push(
            "Shorten or divide the work they wait for: the threads listed as working show where".into(),
        );
    }
    advice
}
