//! Which advice of a recording's findings can be tried without a change of code, and how: a knob and values for each.

use std::collections::BTreeSet;

use holdup_events::Trace;
use serde::{Deserialize, Serialize};

use crate::Analysis;

/// One thing to try.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    /// The finding's rule.
    pub rule: String,
    /// The finding's subject.
    pub subject: String,
    /// The knob.
    pub knob: String,
    /// Its value.
    pub value: String,
    /// What is hoped for.
    pub hope: String,
}

/// What a rule's advice comes down to.
struct Remedy {
    rule: &'static str,
    /// Only if this runtime is there; any if empty.
    runtime: &'static str,
    knob: &'static str,
    values: &'static [&'static str],
    hope: &'static str,
}

const fn remedy(
    rule: &'static str,
    runtime: &'static str,
    knob: &'static str,
    values: &'static [&'static str],
    hope: &'static str,
) -> Remedy {
    Remedy { rule, runtime, knob, values, hope }
}

/// `CPUS` in a value stands for the number of CPUs that the program may use.
const CPUS: &str = "CPUS";

const REMEDIES: &[Remedy] = &[
    remedy("gc-pressure", "ocaml5", "minor-heap", &["1M", "8M"], "fewer minor collections"),
    remedy("stop-the-world-latecomer", "ocaml5", "minor-heap", &["1M", "8M"], "fewer pauses to be late for"),
    remedy("gc-pressure", "go", "gogc", &["200", "400"], "fewer collections"),
    remedy("oversubscription", "go", "gomaxprocs", &[CPUS], "as many running threads as CPUs"),
    remedy("oversubscription", "", "OMP_NUM_THREADS", &[CPUS], "as many OpenMP threads as CPUs"),
    remedy("oversubscription", "", "policy", &["batch"], "longer turns on a CPU"),
    remedy("spin-wait", "", "OMP_WAIT_POLICY", &["passive"], "waiting without running"),
    remedy("pinned-together", "", "pin", &["spread"], "a CPU for each thread"),
    remedy("migration-churn", "", "pin", &["spread"], "threads that stay where their data is"),
    remedy("wakeup-ping-pong", "", "cpus", &["0"], "partners on one CPU, without a wakeup across"),
    remedy("preempted-lock-holder", "", "policy", &["batch"], "holders that are not interrupted"),
    remedy("lock-convoy", "", "policy", &["batch"], "longer turns on a CPU"),
    remedy("noisy-neighbour", "", "nice", &["-5"], "a larger share against the others"),
    remedy("lock-contention", "", "MALLOC_ARENA_MAX", &["32"], "an allocator's lock for each thread"),
];

/// What can be tried, each knob and value once, in the order of the findings.
pub fn of(trace: &Trace, analysis: &Analysis) -> Vec<Trial> {
    let runtimes: BTreeSet<&str> =
        analysis.derived.runtimes.iter().map(|runtime| runtime.name.as_str()).collect();
    let cpus = trace.manifest.host.cpus_allowed.max(1).to_string();
    let mut trials: Vec<Trial> = Vec::new();
    for finding in &analysis.findings {
        let fits = |remedy: &&Remedy| {
            let is_of_allocator = remedy.knob != "MALLOC_ARENA_MAX" || finding.subject.contains("arena");
            remedy.rule == finding.rule
                && (remedy.runtime.is_empty() || runtimes.contains(remedy.runtime))
                && is_of_allocator
        };
        for remedy in REMEDIES.iter().filter(fits) {
            for value in remedy.values {
                let value = if *value == CPUS { cpus.clone() } else { (*value).to_owned() };
                if trials.iter().all(|trial| (trial.knob.as_str(), &trial.value) != (remedy.knob, &value)) {
                    trials.push(Trial {
                        rule: finding.rule.to_owned(),
                        subject: finding.subject.clone(),
                        knob: remedy.knob.to_owned(),
                        value,
                        hope: remedy.hope.to_owned(),
                    });
                }
            }
        }
    }
    trials
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Confidence, Finding, Gain};

    #[test]
    fn remedies_are_of_rules_that_there_are() {
        let known: Vec<&str> = crate::rules::all().iter().map(|rule| rule.name).collect();
        assert!(REMEDIES.iter().all(|remedy| known.contains(&remedy.rule)));
    }

    #[test]
    fn a_knob_is_tried_once() {
        let finding = |rule| Finding {
            rule,
            subject: "x".to_owned(),
            summary: Vec::new(),
            cost_ns: 1,
            gain: Gain::default(),
            confidence: Confidence::High,
            evidence: Vec::new(),
            advice: Vec::new(),
        };
        let findings = ["lock-convoy", "preempted-lock-holder", "tiny-io"].map(finding).to_vec();
        let trials = of(&Trace::default(), &Analysis { findings, ..Analysis::default() });
        let tried: Vec<_> = trials
            .iter()
            .map(|trial| (trial.rule.as_str(), trial.knob.as_str(), trial.value.as_str()))
            .collect();
        assert_eq!(tried, [("lock-convoy", "policy", "batch")]);
    }
}
