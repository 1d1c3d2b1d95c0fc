//! # stop-the-world-latecomer: collections wait for one thread to stop
//!
//! ## What it sees
//! Each time that a runtime stopped all threads: who asked, when each thread came to the barrier, who came last, and
//! what that one did meanwhile. The runtime tells it itself (OCaml 5's runtime events).
//!
//! ## Why it hurts
//! Nobody goes on before the last has come. A thread that has lost its CPU, sleeps in a call or runs a long loop without
//! a poll stops everybody for as long, many times a second; and the more threads, the likelier that one of them is late.
//!
//! ## How it decides
//! The cost is what the others waited for the last, from the request on. It fires if that is worth a reader's time.
//! The upper end of the gain is that no thread had been late: the mean of what the members waited. The lower end
//! counts only time in which the last was ready to run and did not, after all others had come. Waiting at the end of a
//! collection, and retries of threads that want to stop the others at the same time, are in `holdup report gc`.
//!
//! ## What to do
//! Late for want of a CPU: use fewer threads than CPUs, or keep other programs off them. Late in a loop: let it
//! allocate, or poll. Late out of a call: have idle domains end, or wait in fewer of them. And collect less often:
//! a larger minor heap (`OCAMLRUNPARAM=s=…`) makes as many fewer pauses.
//!
//! ## Blind spots
//! Only runtimes that tell their pauses are seen. A thread that answers for one blocked in a call is a thread of its own:
//! if it is late, it was woken late or had no CPU. What a lost event told is missing.
//!
//! ## References
//! OCaml manual, *Runtime tracing with runtime events*. ocaml/ocaml issues 11818 and 13358.

use super::{ChargedVerdict, Info};
use crate::derive::rendezvous::SiteUse;
use crate::finding::{Confidence, Finding, Gain};
use crate::lateness;
use crate::merging::Charged;
use crate::scene::{GAIN_MIN, Scene};
use crate::wording::{count, time};

pub(super) const INFO: Info = Info {
    name: "stop-the-world-latecomer",
    summary: "Collections that stop all threads wait for the last one to stop",
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
    let late = |used: &&SiteUse| scene.of_wall(waited_each(used)) >= GAIN_MIN;
    Ok(uses.filter(late).map(|used| charged(scene, used)).collect())
}

/// What each other member waited in all (ns), on average.
fn waited_each(used: &SiteUse) -> f64 {
    used.harm_ns as f64 / (used.members.len().max(2) - 1) as f64
}

fn charged(scene: &Scene, used: &SiteUse) -> Charged {
    let confidence = if used.meetings >= PAUSES_SURE { Confidence::High } else { Confidence::Medium };
    let high = scene.of_wall(waited_each(used)).clamp(0.0, 1.0);
    let low = scene.of_wall(used.straggle.low_ns as f64).clamp(0.0, high);
    let mut summary = vec![format!(
        "{}; the last to stop was late by {} (median), {} (p99). The others waited {} in all.",
        count(used.meetings, "stop-the-world pause"),
        time(used.lateness_ns[0]),
        time(used.lateness_ns[1]),
        time(used.harm_ns),
    )];
    summary.push(format!("Last to stop: {}.", lateness::lasts(scene, used)));
    summary.extend(lateness::why(scene, used).map(|why| format!("Late because the last: {why}.")));
    let finding = Finding {
        rule: INFO.name,
        subject: used.name.clone(),
        summary,
        cost_ns: used.harm_ns,
        gain: Gain { low, high },
        confidence,
        evidence: Vec::new(),
        advice: advice(used),
    };
    lateness::finding(scene, used, finding)
}

fn advice(used: &SiteUse) -> Vec<String> {
    let queue = used.causes.own_ns + used.causes.others_ns + used.causes.throttled_ns;
    let mut advice = Vec::new();
    if queue >= used.causes.running_ns {
        advice.push("Use fewer threads than CPUs, or keep other programs off these CPUs".to_owned());
    } else {
        advice.push("Let long loops allocate or poll, so that they see the request".to_owned());
    }
    advice
        .push("Collect less often: a larger minor heap (OCAMLRUNPARAM=s=1M words, then measure)".to_owned());
    advice
}
