//! The report's first sentence, to be pasted into a chat: the cause, its cost, and the gain of a fix.

use holdup_findings::too_short::is_too_short;
use holdup_findings::wording::percent;
use holdup_findings::{Confidence, Finding};

use crate::damage::is_damage;
use crate::gains;
use crate::numbers::{duration, share};
use crate::terminal::View;
use crate::text::clean;

/// The sentence. `None` for a recording that supports none: without times, too short, damaged, or of a program that
/// was nearly idle.
pub(super) fn sentence(view: &View) -> Option<String> {
    let is_damaged = view.trace.losses.iter().any(is_damage);
    if view.is_timeless()
        || is_damaged
        || is_too_short(view.trace)
        || view.analysis.derived.ledger.threads.is_empty()
    {
        return None;
    }
    if let Some(computes) = view.analysis.computes(view.trace) {
        return computes.summary.first().map(|text| clean(text));
    }
    match view.analysis.findings.first() {
        Some(finding) => held_up(view, finding),
        None => Some("No rule found a cause worth 2 % of the run.".to_owned()),
    }
}

fn held_up(view: &View, finding: &Finding) -> Option<String> {
    let gain = gains::clause(view.trace, &view.analysis.derived.ledger, finding)?;
    let (verb, confidence) = match finding.confidence {
        Confidence::High => ("is", "high"),
        Confidence::Medium => ("is", "medium"),
        Confidence::Low => ("may be", "low"),
    };
    let cost = match finding.cost_ns {
        0 => String::new(),
        ns => format!(
            ", which costs {} ({} of all thread time)",
            duration(ns),
            percent(share(ns, view.analysis.derived.ledger.total_ns).min(1.0))
        ),
    };
    Some(format!(
        "{} {verb} held up by {} ({}){cost}. Without it {gain} (confidence: {confidence}).",
        program(view),
        clean(finding.rule),
        clean(&finding.subject)
    ))
}

/// Name of the recorded program, without its folder.
fn program(view: &View) -> String {
    let name = view.trace.manifest.command.first().map(|word| clean(word)).unwrap_or_default();
    match name.rsplit('/').next().unwrap_or("") {
        _ if view.trace.manifest.mode == "all" => "The machine".to_owned(),
        "" => "The program".to_owned(),
        name => name.to_owned(),
    }
}
