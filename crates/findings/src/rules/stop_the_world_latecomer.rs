//! # stop-the-world-latecomer: collections wait for one thread to stop
//!
//! ## What it sees
//! Each time that a runtime stopped all threads: who asked, when each thread came to the barrier, who came last, and
//! why that one was late. The runtime tells it itself (OCaml 5's runtime events).
//!
//! ## Why it hurts
//! Nobody goes on before the last has come. A thread that has lost its CPU, sleeps in a call or runs a long loop without
//! a poll stops everybody for as long, many times a second; and the more threads, the likelier that one of them is late.
//!
//! ## How it decides
//! The cost is what the others waited for the last, from the request on. It fires if that is worth a reader's time.
//! The upper end of the gain is that no thread had been late: the mean of what the members waited. The lower end
//! counts only time in which the last was ready to run and did not, after all others had come. Waiting at the end of a
//! collection, and retries of threads that want to stop the others at the same time, are in `holdup report gc`. They are
//! in the upper end, with the time without a CPU, if there is a domain that hardly allocates, another thread answers for it,
//! and a tenth of the lateness or more is that the last was woken first, or it had no CPU for a tenth of what the others waited:
//! such a domain is late at each step. How long it had none, beyond what others worked meanwhile, is then a lower end.
//!
//! Each pause has one cause, the one that took most of its lateness: the last waited for a CPU (and who had it); it slept
//! with nothing to do, or answers for a thread that does, and was woken late; it ran on without looking whether somebody
//! wants it to stop; it was in page faults; it slept in a call in which nobody may answer for it; its CPU was throttled
//! or stolen; or who asked lost the CPU before it had asked all. Shares are of the lateness. What it ran is sampled, the rest is exact.
//!
//! ## What to do
//! Late for want of a CPU: use fewer threads than CPUs, or keep other programs off them. Woken late: have idle domains
//! end, or wait in fewer of them; each takes part in every pause. Ran on: in C, let the runtime's lock go around the call
//! (`caml_enter_blocking_section`); in OCaml, let long straight code allocate or call `Domain.cpu_relax` now and then.
//! Asleep in a call: let the lock go around it. Page faults: touch memory in advance, or keep it. And collect less often:
//! a larger minor heap (`OCAMLRUNPARAM=s=…`) makes as many fewer pauses. Where the program asks for most of the stops itself
//! (Go's `runtime.ReadMemStats`), only to ask less often helps.
//!
//! ## Blind spots
//! Only runtimes that tell their pauses are seen. A thread that answers for one blocked in a call is a thread of its own:
//! if it is late, it was woken late or had no CPU. What a lost event told is missing. Lateness of less than 20 µs has no
//! cause but that a request is seen at the next poll.
//!
//! ## References
//! OCaml manual, *Runtime tracing with runtime events*. ocaml/ocaml issues 11818 and 13358.

use holdup_events::{ProcessId, ThreadId};

use super::{ChargedVerdict, Info};
use crate::collecting;
use crate::derive::rendezvous::{CauseUse, LateCause, SiteUse};
use crate::derive::requested::{self, Requested};
use crate::finding::{Confidence, Finding, Gain};
use crate::lateness;
use crate::merging::Charged;
use crate::scene::{GAIN_MIN, Scene};
use crate::wording::{count, time};

pub(super) const INFO: Info = Info {
    name: "stop-the-world-latecomer",
    summary: "Collections that stop all threads wait for the last one to stop",
    of_waits_alone: false,
};

/// From so many pauses on it is no chance.
const PAUSES_SURE: u64 = 20;

pub(super) fn judge(scene: &Scene) -> ChargedVerdict {
    scene.needs_wait_reasons()?;
    let rendezvous = &scene.derived.rendezvous;
    if rendezvous.sites.is_empty() && scene.derived.gc.lanes.is_empty() {
        return Ok(Vec::new());
    }
    let uses = rendezvous.uses.iter().filter(|used| rendezvous.stops_the_world(used));
    let late =
        |used: &&SiteUse| scene.of_wall((used.harm_each_ns as f64).max(for_idle_ns(scene, used))) >= GAIN_MIN;
    Ok(uses.filter(late).map(|used| charged(scene, used)).collect())
}

fn process(scene: &Scene, used: &SiteUse) -> Option<ProcessId> {
    scene.derived.rendezvous.sites.get(used.site as usize).map(|site| site.process)
}

/// What a domain waited in collections in which others took part that have nothing to do (ns).
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
        "{}; the last to stop was late by {} (median), {} (p99). The others waited {} in all.",
        count(used.meetings, "stop-the-world pause"),
        time(used.lateness_ns[0]),
        time(used.lateness_ns[1]),
        time(used.harm_ns),
    )];
    summary.push(format!("Last to stop: {}.", lateness::lasts(scene, used)));
    let causes = scene.derived.rendezvous.late_causes(Some(used.site));
    let why = lateness::why_late(scene, &causes).or_else(|| lateness::why(scene, used));
    summary.extend(why.map(|why| format!("Late because the last: {why}.")));
    let asked = process(scene, used).and_then(|process| asked(scene, process));
    summary.extend(asked.as_ref().map(collecting::said_asked));
    if let Some(process) = process(scene, used).filter(|_| for_idle > 0.0) {
        summary.push(format!(
            "{} with nothing to do must be woken and have a CPU for each step; all that a domain waited for others in collections is {}.",
            count(collecting::idle_domains(scene, process) as u64, "domain"),
            time(for_idle as u64),
        ));
    }
    let finding = Finding {
        rule: INFO.name,
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

/// Who asks for most of the stops, where the program does itself.
fn asked(scene: &Scene, process: ProcessId) -> Option<Requested> {
    let is_its =
        |thread: ThreadId| scene.trace.threads.get(thread.index()).is_some_and(|row| row.process == process);
    requested::derive(scene.trace, &scene.derived.roles, is_its).filter(Requested::is_most)
}

/// Causes of less than this part of the lateness get no advice.
const ADVISED_MIN: f64 = 0.2;
/// What helps against threads that only wait.
const END_IDLE: &str = "Let idle threads end, or wait in fewer of them: each takes part in every pause";

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

/// What helps against a cause.
fn against(scene: &Scene, used: &CauseUse) -> Option<String> {
    let place = used.place.map_or_else(|| "such calls".to_owned(), |place| scene.trace.frame_name(place));
    match used.cause {
        LateCause::NoCpu | LateCause::AskedLate | LateCause::Throttled | LateCause::Stolen => {
            Some("Use fewer threads than CPUs, or keep other programs off these CPUs".to_owned())
        }
        LateCause::WokenLate => Some(END_IDLE.to_owned()),
        LateCause::RanOn => Some(format!(
            "Let {place} allocate or poll now and then; if it is C, let it release the runtime's lock"
        )),
        LateCause::Slept => {
            Some(format!("Release the runtime's lock around {place}, so that others can answer"))
        }
        LateCause::Faulted => {
            Some(format!("Touch the memory of {place} in advance, or keep it and use it again"))
        }
        LateCause::Prompt | LateCause::Unknown => None,
    }
}
