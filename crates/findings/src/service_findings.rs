//! What copy-heavy, format-heavy, allocation-hotspot and page-fault-storm have in common: work that is done for the program's functions.

use crate::derive::services::{Service, ServiceUse};
use crate::finding::{About, Confidence, Evidence, Finding};
use crate::scene::Scene;
use crate::wording::{function, percent, time};

/// Minimum share of all running time that is reported.
pub const SHARE_MIN: f64 = 0.08;
/// Minimum share of the running time for a finding that is more than a hint.
pub const MOST: f64 = 0.5;
/// Minimum number of samples. Fewer may be chance.
const SAMPLES_MIN: u64 = 20;
/// Functions that are named.
const LISTED_MAX: usize = 3;

/// How a rule speaks of it.
pub struct Words {
    /// The rule's name.
    pub rule: &'static str,
    /// The activity, as in "was spent on copying memory".
    pub doing: &'static str,
    /// Actions to try, one each.
    pub advice: Vec<String>,
}

/// The rule's finding, if any. Err if the recording has no samples.
pub fn judge(scene: &Scene, service: Service, words: Words) -> Result<Vec<Finding>, String> {
    if !scene.derived.ledger.split_known {
        return Err("there are no samples of what ran".to_owned());
    }
    Ok(costly(scene, service).map(|used| finding(scene, used, words)).into_iter().collect())
}

/// [`judge`] for work that is rarely a program's purpose. The finding is a hint. From the share `much` (0 to
/// 1) of the running time on, its confidence is medium.
pub fn judge_as_hint(
    scene: &Scene,
    service: Service,
    much: f64,
    words: Words,
) -> Result<Vec<Finding>, String> {
    let mut found = judge(scene, service, words)?;
    let running = scene.derived.ledger.running_ns() as f64;
    for finding in found.iter_mut().filter(|finding| finding.cost_ns as f64 >= much * running) {
        finding.confidence = scene.confidence(Confidence::Medium);
    }
    Ok(found)
}

/// The service, if its cost is large enough to be reported.
pub fn costly<'a>(scene: &'a Scene, service: Service) -> Option<&'a ServiceUse> {
    let used = scene.derived.services.get(&service);
    used.filter(|used| used.samples >= SAMPLES_MIN && share(scene, used) >= SHARE_MIN)
}

fn share(scene: &Scene, used: &ServiceUse) -> f64 {
    used.ns as f64 / scene.derived.ledger.running_ns().max(1) as f64
}

fn finding(scene: &Scene, used: &ServiceUse, words: Words) -> Finding {
    let most = scene.gain(&used.stall, |_, ns| ns);
    Finding {
        rule: words.rule,
        about: About::Other,
        subject: used
            .callers
            .first()
            .map_or_else(|| "the program".to_owned(), |(name, _)| function(name).into_owned()),
        summary: vec![
            format!(
                "{0} ± {1} ({2} of all running time) was spent on {3}.",
                time(used.ns),
                time(used.error_ns),
                percent(share(scene, used)),
                words.doing,
            ),
            callers_sentence(used),
            format!("In: {}.", listed(&used.inside, used.samples)),
        ],
        cost_ns: used.ns,
        // A part of this work is necessary. Its size is not known.
        gain: crate::finding::Gain { low: 0.0, high: most.high },
        likely: None,
        // The samples prove the work, but not whether it is necessary.
        confidence: scene.confidence(Confidence::Low),
        evidence: used
            .seen
            .iter()
            .map(|(thread, at)| Evidence::sample(*thread, *at, words.doing.to_owned()))
            .collect(),
        advice: words.advice,
    }
}

fn callers_sentence(used: &ServiceUse) -> String {
    let callers = listed(&used.callers, used.ns);
    if used.called_by.is_empty() {
        return format!("Callers: {callers}.");
    }
    format!("Callers: {callers}. These are called by {}.", listed(&used.called_by, used.ns))
}

fn listed(list: &[(String, u64)], all: u64) -> String {
    let share = |part: u64| percent(part as f64 / all.max(1) as f64);
    let one = |(name, part): &(String, u64)| format!("{} {}", function(name), share(*part));
    let named: Vec<String> = list.iter().take(LISTED_MAX).map(one).collect();
    if named.is_empty() { "not known".to_owned() } else { named.join(", ") }
}
