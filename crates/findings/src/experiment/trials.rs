//! Which advice of a recording's findings can be tried without a change of code, and how: a knob and values for each.

use std::collections::BTreeSet;

use holdup_events::Trace;
use serde::{Deserialize, Serialize};

use crate::Analysis;

/// One setting to try.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    /// The finding's rule.
    pub rule: String,
    /// The finding's subject.
    pub subject: String,
    /// The knob.
    pub knob: String,
    /// Value of the knob.
    pub value: String,
    /// The expected effect.
    pub hope: String,
}

/// A rule's advice as a setting.
struct Remedy {
    rule: &'static str,
    /// Required runtimes, of which one must be present. Empty: any.
    runtimes: &'static [&'static str],
    knob: &'static str,
    values: &'static [&'static str],
    hope: &'static str,
}

const fn remedy(
    rule: &'static str,
    runtimes: &'static [&'static str],
    knob: &'static str,
    values: &'static [&'static str],
    hope: &'static str,
) -> Remedy {
    Remedy { rule, runtimes, knob, values, hope }
}

/// As a value: the number of CPUs that the program may use.
const CPUS: &str = "CPUS";
/// Value for half of the machine's memory. A JVM uses a quarter by default.
const HALF_MEMORY: &str = "HALF-MEMORY";

const OPENMP: &[&str] = &["libgomp", "libomp"];
const OCAML: &[&str] = &["ocaml4", "ocaml5"];

const REMEDIES: &[Remedy] = &[
    remedy("gc-pressure", OCAML, "minor-heap", &["1M", "8M"], "fewer minor collections"),
    remedy("gc-heavy", OCAML, "minor-heap", &["1M", "8M"], "fewer minor collections"),
    remedy("stop-the-world-latecomer", OCAML, "minor-heap", &["1M", "8M"], "fewer pauses"),
    remedy("gc-pressure", &["go"], "gogc", &["200", "400"], "fewer collections"),
    remedy("gc-heavy", &["go"], "gogc", &["200", "400"], "fewer collections"),
    remedy("gc-heavy", &["hotspot"], "heap", &[HALF_MEMORY], "fewer collections"),
    remedy("oversubscription", &["go"], "gomaxprocs", &[CPUS], "as many running threads as CPUs"),
    remedy("oversubscription", OPENMP, "OMP_NUM_THREADS", &[CPUS], "as many OpenMP threads as CPUs"),
    remedy("oversubscription", &["rayon"], "RAYON_NUM_THREADS", &[CPUS], "as many threads as CPUs"),
    remedy("oversubscription", &["tokio"], "TOKIO_WORKER_THREADS", &[CPUS], "as many threads as CPUs"),
    remedy("oversubscription", &[], "policy", &["batch"], "longer time slices"),
    remedy("spin-wait", OPENMP, "OMP_WAIT_POLICY", &["passive"], "waiting without spinning"),
    remedy("spin-wait", OPENMP, "OMP_NUM_THREADS", &[CPUS], "a CPU for each spinning thread"),
    remedy("pinned-together", &[], "pin", &["spread"], "a CPU for each thread"),
    remedy("migration-churn", &[], "pin", &["spread"], "threads that stay near their data"),
    remedy("wakeup-ping-pong", &[], "cpus", &["0"], "partners on one CPU, without wakeups across CPUs"),
    remedy("preempted-lock-holder", &[], "policy", &["batch"], "holders that are not preempted"),
    remedy("lock-convoy", &[], "policy", &["batch"], "longer time slices"),
    remedy("noisy-neighbour", &[], "nice", &["-5"], "a larger CPU share than other programs"),
    remedy("lock-contention", &[], "MALLOC_ARENA_MAX", &["32"], "an allocator arena for each thread"),
];

/// Settings to try, each knob and value once, in the order of the findings.
pub fn suggest(trace: &Trace, analysis: &Analysis) -> Vec<Trial> {
    let runtimes: BTreeSet<&str> =
        analysis.derived.runtimes.iter().map(|runtime| runtime.name.as_str()).collect();
    let host = &trace.manifest.host;
    let value_of = |value: &str| match value {
        CPUS => host.cpus_allowed.max(1).to_string(),
        HALF_MEMORY => format!("{}m", (host.memory_bytes / 2) >> 20),
        _ => value.to_owned(),
    };
    let mut trials: Vec<Trial> = Vec::new();
    for finding in &analysis.findings {
        let fits = |remedy: &&Remedy| {
            let is_of_allocator = remedy.knob != "MALLOC_ARENA_MAX" || finding.subject.contains("arena");
            remedy.rule == finding.rule
                && (remedy.runtimes.is_empty() || remedy.runtimes.iter().any(|one| runtimes.contains(one)))
                && is_of_allocator
        };
        for remedy in REMEDIES.iter().filter(fits) {
            for value in remedy.values {
                let value = value_of(value);
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
    use crate::analysis::Derived;
    use crate::derive::runtimes::RuntimeUse;
    use crate::{Confidence, Finding, Gain};

    #[test]
    fn remedies_are_of_rules_that_there_are() {
        let known: Vec<&str> = crate::rules::all().iter().map(|rule| rule.name).collect();
        assert!(REMEDIES.iter().all(|remedy| known.contains(&remedy.rule)));
        let descriptors = crate::descriptors::Descriptors::built_in();
        let is_known = |name: &&str| descriptors.runtimes().iter().any(|runtime| runtime.name == **name);
        assert!(REMEDIES.iter().flat_map(|remedy| remedy.runtimes).all(is_known));
    }

    fn finding(rule: &'static str) -> Finding {
        Finding {
            rule,
            subject: "x".to_owned(),
            summary: Vec::new(),
            cost_ns: 1,
            gain: Gain::default(),
            likely: None,
            confidence: Confidence::High,
            evidence: Vec::new(),
            advice: Vec::new(),
        }
    }

    #[test]
    fn a_runtimes_knob_is_tried_where_that_runtime_is() {
        let tried = |runtime: &str| -> Vec<(String, String)> {
            let runtimes = vec![RuntimeUse { name: runtime.to_owned(), ..RuntimeUse::default() }];
            let derived = Derived { runtimes, ..Derived::default() };
            let findings = ["spin-wait", "oversubscription", "gc-heavy"].map(finding).to_vec();
            let mut trace = Trace::default();
            (trace.manifest.host.cpus_allowed, trace.manifest.host.memory_bytes) = (3, 4 << 30);
            let trials = suggest(&trace, &Analysis { derived, findings, ..Analysis::default() });
            trials.into_iter().map(|trial| (trial.knob, trial.value)).collect()
        };
        let pair = |knob: &str, value: &str| (knob.to_owned(), value.to_owned());
        let batch = pair("policy", "batch");
        let openmp = [pair("OMP_WAIT_POLICY", "passive"), pair("OMP_NUM_THREADS", "3"), batch.clone()];
        assert_eq!(tried("libgomp"), openmp);
        assert_eq!(tried("hotspot"), [batch.clone(), pair("heap", "2048m")]);
        assert_eq!(tried("rayon"), [pair("RAYON_NUM_THREADS", "3"), batch.clone()]);
        // A variable that nothing in the program reads would be refuted for no reason.
        assert_eq!(tried("glibc"), [batch]);
    }

    #[test]
    fn a_knob_is_tried_once() {
        let findings = ["lock-convoy", "preempted-lock-holder", "tiny-io"].map(finding).to_vec();
        let trials = suggest(&Trace::default(), &Analysis { findings, ..Analysis::default() });
        let tried: Vec<_> = trials
            .iter()
            .map(|trial| (trial.rule.as_str(), trial.knob.as_str(), trial.value.as_str()))
            .collect();
        assert_eq!(tried, [("lock-convoy", "policy", "batch")]);
    }
}
