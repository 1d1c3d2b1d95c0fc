//! Which advice of a recording's findings can be tried without a change of code, and how: a knob and values for each.

use std::collections::BTreeSet;

use holdup_events::Trace;
use serde::{Deserialize, Serialize};

use crate::Analysis;
use crate::rule::{CPUS, HALF_MEMORY, Remedy};
use crate::rules;

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
            (!remedy.is_for_allocators || finding.subject.contains("arena"))
                && (remedy.runtimes.is_empty() || remedy.runtimes.iter().any(|one| runtimes.contains(one)))
        };
        for remedy in rules::remedies(finding).iter().filter(fits) {
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
    use crate::finding::About;
    use crate::{Confidence, Finding, Gain};

    #[test]
    fn remedies_are_for_runtimes_that_exist() {
        let descriptors = crate::descriptors::Descriptors::built_in();
        let is_known = |name: &&str| descriptors.runtimes().iter().any(|runtime| runtime.name == **name);
        let mut remedies = rules::infos().flat_map(|info| info.remedies);
        assert!(remedies.all(|remedy| remedy.runtimes.iter().all(is_known)));
    }

    fn finding(rule: &'static str) -> Finding {
        Finding {
            rule,
            about: About::Other,
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
