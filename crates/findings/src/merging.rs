//! Findings that are one cause seen twice become one: the root is kept, the symptom becomes its evidence.
//!
//! Which may be whose symptom is stated by the rules ([`crate::rule::Info::explains`]). Whether it is, is decided by the slices that both charge:
//! most of the symptom's lost time must be the root's, too.

use holdup_events::Trace;
use holdup_events::tables::ThreadState;

use crate::charge::Charge;
use crate::finding::{About, Confidence, Finding};
use crate::rule::{Explanation, Judged};
use crate::scene::EVIDENCE_MAX;
use crate::wording::percent;

/// A finding that became evidence of another.
#[derive(Clone, Debug, PartialEq)]
pub struct Symptom {
    /// Index of the root among the findings.
    pub root: usize,
    /// The share of its lost time that the root charges, too.
    pub shared: f64,
    /// The finding of the symptom's rule.
    pub finding: Finding,
}

/// Minimum share of a symptom's lost time that the root also charges. Below it, the rest would be
/// unexplained.
const SHARED_MIN: f64 = 0.6;

/// Minimum gain of a part relative to the whole, for the part to explain most of the cost.
const GAIN_SHARE_MIN: f64 = 0.5;

/// Minimum share of a part's lost time that the whole also charges. The rest is the holder's own waits.
const PART_SHARED_MIN: f64 = 0.3;

/// Findings, each of which is a cause of its own.
#[derive(Clone, Debug, Default)]
pub struct Merged {
    /// The findings that are kept.
    pub findings: Vec<Finding>,
    /// The slices that each of them charges.
    pub charges: Vec<Charge>,
    /// The findings that became evidence of others.
    pub symptoms: Vec<Symptom>,
}

/// Merges ranked findings. The ranks of those that are kept do not change.
pub(crate) fn merge(trace: &Trace, found: &[Judged]) -> Merged {
    let mut roots: Vec<Option<(usize, f64)>> = vec![None; found.len()];
    for index in 0..found.len() {
        // Two that share everything are not each other's symptoms: the one that ranks first is kept.
        roots[index] = root_of(trace, found, index).filter(|(root, _)| last_root(&roots, *root) != index);
    }
    let last_root = |index| last_root(&roots, index);
    let kept: Vec<usize> = (0..found.len()).filter(|index| last_root(*index) == *index).collect();
    let mut findings: Vec<Finding> = kept.iter().map(|index| found[*index].finding.clone()).collect();
    let mut symptoms = Vec::new();
    for (index, charged) in found.iter().enumerate() {
        let Some((_, shared)) = roots[index] else { continue };
        let Some(root) = kept.iter().position(|kept| *kept == last_root(index)) else { continue };
        show(&mut findings[root], &charged.finding, shared);
        symptoms.push(Symptom { root, shared, finding: charged.finding.clone() });
    }
    let charges = kept.iter().map(|index| found[*index].charge.clone()).collect();
    Merged { findings, charges, symptoms }
}

/// The end of the chain of roots. Chains have no cycles.
fn last_root(roots: &[Option<(usize, f64)>], mut index: usize) -> usize {
    while let Some((root, _)) = roots[index] {
        index = root;
    }
    index
}

/// The root of which the finding is a symptom, if any: the one that shares most of its lost time.
fn root_of(trace: &Trace, found: &[Judged], index: usize) -> Option<(usize, f64)> {
    let symptom = &found[index];
    if symptom.charge.is_empty() {
        return None;
    }
    let mut best: Option<(usize, f64)> = None;
    for (other, root) in found.iter().enumerate() {
        if other == index || root.charge.is_empty() || !outweighs(root, symptom) {
            continue;
        }
        let shared =
            explained(trace, root, symptom).or_else(|| seen_before(trace, &found[..index], other, symptom));
        if let Some(shared) = shared.filter(|shared| best.is_none_or(|(_, most)| *shared > most)) {
            best = Some((other, shared));
        }
    }
    best
}

/// The share of the symptom's lost time that is the root's, if that one explains it.
fn explained(trace: &Trace, root: &Judged, symptom: &Judged) -> Option<f64> {
    let shared = share_of(trace, symptom, root);
    let is_cause = match root.rule.info().explains(symptom.rule.info()) {
        Some(Explanation::Shared) => shared >= SHARED_MIN,
        Some(Explanation::Whole) => is_whole(trace, symptom, root),
        Some(Explanation::SharedWaits) => shared_waits(trace, root, symptom) >= SHARED_MIN,
        Some(Explanation::RankedLower) | None => return part(trace, root, symptom),
    };
    is_cause.then_some(shared)
}

/// The share of the symptom's lost time that is the root's, if the root may have further causes and the symptom is
/// one of them. For one lock, time lost to preempted or blocked holders is a subset of its total wait time.
fn part(trace: &Trace, root: &Judged, symptom: &Judged) -> Option<f64> {
    if symptom.rule.info().explains(root.rule.info()) != Some(Explanation::Whole) {
        return None;
    }
    let (is_same, shared) = (is_of_lock(root, symptom), share_of(trace, symptom, root));
    let is_part = !is_whole(trace, root, symptom)
        && (is_same || shared >= PART_SHARED_MIN)
        && middle(root) >= middle(symptom);
    is_part.then_some(if is_same { 1.0 } else { shared })
}

/// The share (0 to 1) of a finding's lost time that another one charges, too.
fn share_of(trace: &Trace, one: &Judged, other: &Judged) -> f64 {
    one.charge.shared_ns(trace, &other.charge) as f64 / one.charge.ns().max(1) as f64
}

/// Whether the part explains most of the cost and the gain of the whole.
fn is_whole(trace: &Trace, whole: &Judged, part: &Judged) -> bool {
    share_of(trace, whole, part) >= SHARED_MIN && middle(part) >= GAIN_SHARE_MIN * middle(whole)
}

/// Whether both findings are about one lock.
fn is_of_lock(root: &Judged, symptom: &Judged) -> bool {
    matches!((root.finding.about, symptom.finding.about), (About::Lock(one), About::Lock(other)) if one == other)
}

/// The share of the symptom's blocked time that the root charges, too.
fn shared_waits(trace: &Trace, root: &Judged, symptom: &Judged) -> f64 {
    let blocked: u64 = symptom
        .charge
        .slices(trace)
        .filter(|slice| slice.state == ThreadState::Blocked)
        .map(|slice| slice.duration().0)
        .sum();
    symptom.charge.shared_ns(trace, &root.charge) as f64 / blocked.max(1) as f64
}

/// The share of a finding's lost time that a higher-ranked finding charges from another view of the same event.
fn seen_before(trace: &Trace, before: &[Judged], other: usize, late: &Judged) -> Option<f64> {
    let first = before.get(other)?;
    let is_view = first.rule.info().explains(late.rule.info()) == Some(Explanation::RankedLower);
    let shared = share_of(trace, late, first);
    (is_view && shared >= SHARED_MIN).then_some(shared)
}

/// Midpoint of the finding's gain.
fn middle(charged: &Judged) -> f64 {
    f64::midpoint(charged.finding.gain.low, charged.finding.gain.high)
}

/// A hint explains nothing that is surer.
fn outweighs(root: &Judged, symptom: &Judged) -> bool {
    root.rule.info().hints_explain
        || root.finding.confidence >= symptom.finding.confidence.min(Confidence::Medium)
}

/// Adds the symptom to the root's summary and evidence.
fn show(root: &mut Finding, symptom: &Finding, shared: f64) {
    root.summary.push(format!(
        "This also accounts for {2} of the cost of {0} ({1}).",
        symptom.rule,
        symptom.subject,
        percent(shared)
    ));
    let room = EVIDENCE_MAX.saturating_sub(root.evidence.len()).max(2);
    root.evidence.extend(symptom.evidence.iter().take(room).cloned());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Gain;
    use crate::rules;

    #[test]
    fn findings_are_about_one_lock_if_its_number_is_the_same() {
        let judged = |about: About| Judged {
            rule: rules::named("lock-contention").unwrap(),
            finding: Finding {
                rule: "",
                about,
                subject: "mmap_lock of python".to_owned(),
                summary: Vec::new(),
                cost_ns: 0,
                gain: Gain::default(),
                likely: None,
                confidence: Confidence::High,
                evidence: Vec::new(),
                advice: Vec::new(),
            },
            charge: Charge::default(),
        };
        assert!(is_of_lock(&judged(About::Lock(3)), &judged(About::Lock(3))));
        assert!(!is_of_lock(&judged(About::Lock(3)), &judged(About::Lock(4))), "of another process");
        assert!(!is_of_lock(&judged(About::Other), &judged(About::Other)));
    }
}
