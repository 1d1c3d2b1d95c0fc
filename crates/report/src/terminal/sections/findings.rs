//! WHAT HOLDS IT UP: the ranked findings, what could not be judged, and honesty where nothing was found.

use holdup_findings::derive::class::Class;
use holdup_findings::{Confidence, Finding};

use crate::gains;
use crate::numbers::{counted, percent, share};
use crate::terminal::View;
use crate::text::{Tint, clean, shell_word, width, wrap};

pub(super) const SUMMARY: &str = "What holds the program up, the largest expected gain first";

const INDENT: usize = 3;

/// Maximum lines of findings printed in full without `--full`, so that the usual report has at most 40 lines. The
/// first finding is always in full. The others have a title line and their subject.
const IN_FULL_LINES_MAX: usize = 16;

pub(super) fn lines(view: &View) -> Vec<String> {
    let mut lines = view.heading("WHAT HOLDS IT UP");
    // What gains most comes first.
    let mut parts: Vec<Vec<String>> = computes(view).into_iter().collect();
    let all = &view.analysis.findings;
    let (in_full, others) = divided(view);
    parts.extend(in_full);
    if !others.is_empty() {
        let hint = view.style.paint(Tint::Faint, "  In full: holdup report --full");
        parts.push(others.into_iter().flatten().chain([hint]).collect());
    }
    if all.is_empty() && !view.is_timeless() {
        parts.push(paragraph(view, &nothing_found(view), INDENT - 1));
    }
    lines.extend(parts.join(&String::new()));
    if view.is_timeless() {
        lines.push(super::nothing(view, "Not judged: the recording has no times."));
        return lines;
    }
    lines.extend(skipped(view));
    lines
}

/// The findings in full, and the others with title and subject only.
fn divided(view: &View) -> (Vec<Vec<String>>, Vec<Vec<String>>) {
    let all = view.analysis.findings.iter().zip(1..);
    let mut in_full: Vec<Vec<String>> =
        all.clone().map(|(finding, number)| one(view, number, finding, true)).collect();
    if view.style.full || view.chosen {
        return (in_full, Vec::new());
    }
    let mut lines = 0;
    let fitting = in_full.iter().take_while(|finding| {
        lines += finding.len() + 1;
        lines <= IN_FULL_LINES_MAX + 1
    });
    let fitting = fitting.count().max(1);
    in_full.truncate(fitting);
    let others = all.skip(fitting).map(|(finding, number)| one(view, number, finding, false)).collect();
    (in_full, others)
}

/// A finding: its title line and subject, and in full its summary, advice and place.
fn one(view: &View, number: usize, finding: &Finding, in_full: bool) -> Vec<String> {
    let columns = view.style.columns();
    let (sure, tint) = match finding.confidence {
        Confidence::High => ("high", Tint::Good),
        Confidence::Medium => ("medium", Tint::Warning),
        Confidence::Low => ("low", Tint::Faint),
    };
    let gain = gains::short(view.trace, &view.analysis.derived.ledger, finding);
    let name = clean(finding.rule);
    let plain = format!("{number:>2} {name}   {gain}   confidence: {sure}");
    let head = format!(
        "{} {}   {}   confidence: {}",
        view.style.paint(Tint::Faint, &format!("{number:>2}")),
        view.style.paint(Tint::Strong, &name),
        view.style.paint(Tint::Accent, &gain),
        view.style.paint(tint, sure),
    );
    let mut lines = if width(&plain) <= columns { vec![head] } else { wrap(&plain, columns, INDENT) };
    if !in_full {
        lines.push(view.style.fit(&format!("{:INDENT$}{}", "", clean(&finding.subject)), columns));
        return lines;
    }
    let subject = paragraph(view, &clean(&finding.subject), INDENT);
    lines.extend(subject.iter().map(|line| view.style.paint(Tint::Strong, line)));
    for sentence in &finding.summary {
        lines.extend(paragraph(view, &clean(sentence), INDENT));
    }
    for (index, advice) in finding.advice.iter().enumerate() {
        lines.extend(advised(view, if index == 0 { "Try:" } else { "" }, advice));
    }
    lines.extend(seen_at(view, finding));
    lines
}

/// The command that shows where it was worst. Never wrapped: it is there to be copied.
fn seen_at(view: &View, finding: &Finding) -> Option<String> {
    let name = view.recording?;
    let worst = finding.evidence.first()?;
    let (_, start, length) = worst.slice(view.trace).unwrap_or((0, worst.start, worst.duration));
    let moment = moment_in(start.since(view.trace.start()).0, length.0);
    let place = shell_word(&format!("{}#t={moment}&thread={}", clean(name), worst.thread.0));
    Some(format!("{:INDENT$}{} holdup view {place}", "", view.style.paint(Tint::Accent, "See:")))
}

/// The shortest number of seconds that lies in a span of time (ns).
fn moment_in(start_ns: u64, length_ns: u64) -> String {
    const NS: u64 = 1_000_000_000;
    let digits = |count: u32| NS / 10u64.pow(count);
    let fits = |count: &u32| start_ns.next_multiple_of(digits(*count)) < start_ns + length_ns;
    let count = (3..9).find(fits).unwrap_or(9);
    let at = start_ns.div_ceil(digits(count));
    let whole = NS / digits(count);
    format!("{}.{:0width$}", at / whole, at % whole, width = count as usize)
}

fn paragraph(view: &View, text: &str, indent: usize) -> Vec<String> {
    let lines = wrap(text, view.style.columns() - indent, 0);
    lines.iter().map(|line| format!("{:indent$}{line}", "")).collect()
}

fn advised(view: &View, word: &str, advice: &str) -> Vec<String> {
    const BEHIND_WORD: usize = INDENT + 5;
    let wrapped = wrap(&clean(advice), view.style.columns() - BEHIND_WORD - 2, 0);
    let mut lines = Vec::new();
    for (index, line) in wrapped.iter().enumerate() {
        let word = if index == 0 { word } else { "" };
        let mark = if index == 0 { "·" } else { " " };
        lines.push(format!(
            "{:INDENT$}{} {mark} {line}",
            "",
            view.style.paint(Tint::Accent, &format!("{word:4}"))
        ));
    }
    lines
}

/// Text for a report without findings: that no rule fired does not mean that there is no problem.
fn nothing_found(view: &View) -> String {
    let ledger = &view.analysis.derived.ledger;
    if ledger.threads.is_empty() {
        return "No verdict: the recording holds no thread of the program.".to_owned();
    }
    let judged = holdup_findings::rules::all().len().saturating_sub(view.analysis.skipped.len());
    // Where no time is known to have been running, none is known to have been anything else.
    let is_known = ledger.total_ns > ledger.class_ns(Class::Unknown);
    let running = match is_known {
        true => {
            format!("{} of the thread time was running", percent(share(ledger.running_ns(), ledger.total_ns)))
        }
        false => "how much of the thread time was running is not known".to_owned(),
    };
    format!(
        "None of the {} that apply found a cause worth 2 % of the run. Something may still be slow: {running}, and running code can be made faster. A cause that no rule covers shows only in the ledger above.",
        counted(judged as u64, "rule"),
    )
}

/// Advice if the CPUs are busy with the program's own work, and nothing stronger than hints was found.
fn computes(view: &View) -> Option<Vec<String>> {
    let computes = view.analysis.computes(view.trace)?;
    let mut lines = paragraph(view, &clean(&computes.summary.join(" ")), INDENT);
    for (index, advice) in computes.advice.iter().enumerate() {
        lines.extend(advised(view, if index == 0 { "Try:" } else { "" }, advice));
    }
    Some(lines)
}

fn skipped(view: &View) -> Vec<String> {
    if view.analysis.skipped.is_empty() {
        return Vec::new();
    }
    // Rules with the same reason are listed together, in the order of the first.
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for (rule, reason) in &view.analysis.skipped {
        match reasons.iter_mut().find(|(known, _)| known == reason) {
            Some((_, rules)) => rules.push(rule),
            None => reasons.push((reason, vec![rule])),
        }
    }
    if !view.style.full && !view.chosen {
        let rules = counted(view.analysis.skipped.len() as u64, "rule");
        let verb = if view.analysis.skipped.len() == 1 { "lacks" } else { "lack" };
        let text = format!("{rules} {verb} data for a judgement (see holdup report --full).");
        return paragraph(view, &text, 2).iter().map(|line| view.style.paint(Tint::Faint, line)).collect();
    }
    let mut lines = vec![String::new()];
    for (reason, rules) in reasons {
        let text = format!("Not judged: {} ({}).", rules.join(", "), clean(reason));
        let wrapped = paragraph(view, &text, 2);
        lines.extend(wrapped.iter().map(|line| view.style.paint(Tint::Faint, line)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_lie_in_the_span_and_are_short() {
        assert_eq!(moment_in(4_212_100_000, 3_000_000), "4.213");
        assert_eq!(moment_in(4_212_000_000, 3_000_000), "4.212");
        assert_eq!(moment_in(1_234_567, 100_000), "0.0013");
        assert_eq!(moment_in(1_234_567_891, 0), "1.234567891");
        assert_eq!(moment_in(0, 0), "0.000000000");
    }
}
