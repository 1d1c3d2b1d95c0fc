//! # stop-the-world-latecomer: collections wait for one thread to stop
//!
//! ## Symptoms
//! Each stop-the-world pause of a runtime: the requesting thread, the arrival of each thread at the barrier,
//! the last thread, and why it was late. The runtime reports these itself (OCaml 5's runtime events).
//!
//! ## Why it hurts
//! No thread continues before the last one has arrived. A thread may lose its CPU, sleep in a call or run a
//! long loop without a poll. It delays all threads by as long, many times a second. With more threads, a late
//! one is more likely.
//!
//! ## How it decides
//! The cost is the other threads' wait for the last one, from the request on. The finding needs a sufficient
//! cost. The upper bound of the gain is that no thread was late: the mean wait of the members. The lower
//! bound counts only time in which the last thread was runnable and did not run, after the arrival of all
//! others.
//!
//! `holdup report gc` shows waits at the end of a collection, and retries of threads that want to stop the
//! others at the same time. The upper bound includes these, and the runnable time, in one case. A domain
//! hardly allocates, and its backup thread takes part instead. Also, the last thread was woken first for a
//! tenth of the lateness or more. Or it was runnable for a tenth of the others' waits. Such a domain is late
//! at each step. The time in which it was runnable, minus the others' work in that time, is then the lower
//! bound.
//!
//! Each pause has one cause, which took most of its lateness:
//!
//! - The last thread was runnable (with the occupant of its CPU).
//! - It slept while idle, or is the backup thread of an idle one, and was woken late.
//! - It ran on without a check for the request.
//! - It was in page faults.
//! - It slept in a call in which no other thread may take part for it.
//! - Its CPU was throttled or stolen.
//! - The requesting thread lost its CPU before it had sent all requests.
//!
//! Shares are of the lateness. The running code is sampled, the rest is exact.
//!
//! ## What to do
//! Late because runnable: use fewer threads than CPUs, or keep other programs off them. Woken late: let idle
//! domains exit, or use fewer waiting domains, because each takes part in every pause. Ran on: in C, release
//! the runtime's lock around the call (`caml_enter_blocking_section`). In OCaml, let long straight code
//! allocate or call `Domain.cpu_relax` at times. Asleep in a call: release the lock around it. Page faults:
//! touch memory in advance, or keep it. Also collect less often: a larger minor heap (`OCAMLRUNPARAM=s=…`)
//! makes proportionally fewer pauses. If the program requests most pauses itself (Go's
//! `runtime.ReadMemStats`), only fewer requests help.
//!
//! ## Blind spots
//! Only runtimes that report their pauses are seen. The backup thread of a domain blocked in a call is a
//! separate thread: if it is late, it was woken late or was runnable. Facts of lost events are missing.
//! Lateness of less than 20 µs has no cause, because a request is only seen at the next poll.
//!
//! ## References
//! OCaml manual, *Runtime tracing with runtime events*. ocaml/ocaml issues 11818 and 13358.

use holdup_events::{ProcessId, ThreadId};

use crate::derive::rendezvous::{CauseUse, LateCause, SiteUse};
use crate::derive::requested::{self, Requested};
use crate::finding::{About, Confidence, Finding, Gain};
use crate::rule::{Charged, ChargedVerdict, Estimate, Info, OCAML, Remedy, Rule};
use crate::scene::{GAIN_MIN, Scene};
use crate::wording::{count, time};
use crate::{collecting, lateness};

pub(super) static INFO: Info = Info {
    collector_place: Some(1),
    estimate: Estimate::Computed,
    remedies: &[Remedy::new(OCAML, "minor-heap", &["1M", "8M"], "fewer pauses")],
    ..Info::new("stop-the-world-latecomer", "Stop-the-world pauses wait for the last thread to stop")
};

/// Minimum number of pauses for a sure finding.
const PAUSES_SURE: u64 = 20;

pub(super) struct StopTheWorldLatecomer;

impl Rule for StopTheWorldLatecomer {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        scene.needs_wait_reasons()?;
        let rendezvous = &scene.derived.rendezvous;
        if rendezvous.sites.is_empty() && scene.derived.gc.lanes.is_empty() {
            return Ok(Vec::new());
        }
        let uses = rendezvous.uses.iter().filter(|used| rendezvous.stops_the_world(used));
        let late = |used: &&SiteUse| {
            scene.of_wall((used.harm_each_ns as f64).max(for_idle_ns(scene, used))) >= GAIN_MIN
        };
        Ok(uses.filter(late).map(|used| charged(scene, used)).collect())
    }
}

fn process(scene: &Scene, used: &SiteUse) -> Option<ProcessId> {
    scene.derived.rendezvous.sites.get(used.site as usize).map(|site| site.process)
}

/// Time (ns) that a domain waited in collections with idle participants.
fn for_idle_ns(scene: &Scene, used: &SiteUse) -> f64 {
    let process = process(scene, used).filter(|process| collecting::idle_domains(scene, *process) > 0);
    process.map_or(0.0, |process| collecting::waited_most_ns(scene, process) as f64)
}

fn charged(scene: &Scene, used: &SiteUse) -> Charged {
    let confidence = if used.meetings >= PAUSES_SURE { Confidence::High } else { Confidence::Medium };
    let for_idle = for_idle_ns(scene, used);
    let high = scene.of_wall((used.harm_each_ns as f64).max(for_idle)).clamp(0.0, 1.0);
    let queued = process(scene, used).filter(|_| for_idle > 0.0);
    let queued = queued.map_or(0, |process| collecting::idle_queued_ns(scene, process));
    let low = scene.of_wall(used.straggle.low_ns.max(queued) as f64).clamp(0.0, high);
    let mut summary = vec![format!(
        "{}. The last thread stopped {} late (median), {} (p99). The others waited {} in total.",
        count(used.meetings, "stop-the-world pause"),
        time(used.lateness_ns[0]),
        time(used.lateness_ns[1]),
        time(used.harm_ns),
    )];
    summary.push(format!("Last to stop: {}.", lateness::lasts(scene, used)));
    let causes = scene.derived.rendezvous.late_causes(Some(used.site));
    let why = lateness::why_late(scene, &causes).or_else(|| lateness::why(scene, used));
    summary.extend(why.map(|why| format!("Reason for the delay: the last thread {why}.")));
    let asked = process(scene, used).and_then(|process| asked(scene, process));
    summary.extend(asked.as_ref().map(collecting::requested_sentence));
    if let Some(process) = process(scene, used).filter(|_| for_idle > 0.0) {
        summary.push(format!(
            "{} without work must be woken and need a CPU for each step. A domain waited {} in total for other domains in collections.",
            count(collecting::idle_domains(scene, process) as u64, "domain"),
            time(for_idle as u64),
        ));
    }
    let finding = Finding {
        rule: INFO.name,
        about: About::Other,
        subject: used.name.clone(),
        summary,
        cost_ns: used.harm_ns,
        gain: Gain { low, high },
        likely: None,
        confidence,
        evidence: Vec::new(),
        advice: match asked {
            Some(asked) => vec![asked.advice],
            None => advice(scene, process(scene, used), &causes, for_idle > 0.0),
        },
    };
    lateness::finding(scene, used, finding)
}

/// The function that requests most pauses, if the program does so itself.
fn asked(scene: &Scene, process: ProcessId) -> Option<Requested> {
    let is_its =
        |thread: ThreadId| scene.trace.threads.get(thread.index()).is_some_and(|row| row.process == process);
    requested::derive(scene.trace, &scene.derived.roles, is_its).filter(Requested::is_most)
}

/// Causes of less than this part of the lateness get no advice.
const ADVISED_MIN: f64 = 0.2;
/// Advice for threads that only wait.
const END_IDLE: &str = "Let idle threads exit, or use fewer waiting threads: each takes part in every pause";

fn advice(scene: &Scene, process: Option<ProcessId>, causes: &[CauseUse], with_idle: bool) -> Vec<String> {
    let total: u64 = causes.iter().map(|used| used.late_ns).sum();
    let matters = |used: &&CauseUse| used.late_ns as f64 >= ADVISED_MIN * total as f64;
    let mut advice: Vec<String> = with_idle.then(|| END_IDLE.to_owned()).into_iter().collect();
    for line in causes.iter().filter(matters).filter_map(|used| against(scene, used)) {
        if !advice.contains(&line) {
            advice.push(line);
        }
    }
    let lane = scene.derived.gc.lanes.iter().find(|lane| Some(lane.process) == process);
    advice.push(lane.map_or_else(
        || collecting::LARGER_HEAP.to_owned(),
        |lane| collecting::fewer_collections(scene, lane),
    ));
    advice
}

/// Advice for a cause.
fn against(scene: &Scene, used: &CauseUse) -> Option<String> {
    let place = used.place.map_or_else(|| "such calls".to_owned(), |place| scene.trace.frame_name(place));
    match used.cause {
        LateCause::NoCpu | LateCause::AskedLate | LateCause::Throttled | LateCause::Stolen => {
            Some("Use fewer threads than CPUs, or keep other programs off these CPUs".to_owned())
        }
        LateCause::WokenLate => Some(END_IDLE.to_owned()),
        LateCause::RanOn => Some(format!(
            "Let {place} reach a safepoint now and then (allocate or poll); if it is C, let it release the runtime's lock"
        )),
        LateCause::Slept => {
            Some(format!("Release the runtime's lock around {place}, so that other threads can respond"))
        }
        LateCause::Faulted => {
            Some(format!("Touch the memory of {place} in advance, or keep it and reuse it"))
        }
        LateCause::Prompt | LateCause::Unknown => None,
    }
}
