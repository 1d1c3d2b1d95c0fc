//! `holdup diff`: the verdict, then what changed in the recordings.

use holdup_findings::experiment::Goal;
use holdup_findings::experiment::collections::{Collections, Part};
use holdup_findings::experiment::compare::{BOOTSTRAP_MIN, Change, Verdict};

use super::page::Page;
use super::{Diff, Shown, beyond_reach, change, diff_rows, head, range, value};
use crate::numbers::{counted, duration, percent};
use crate::terminal::table::Column;
use crate::text::{Tint, clean, shell_word};

pub(super) fn write(shown: &Shown, diff: &Diff, page: &mut Page) {
    page.text(format!("A  {}", diff.names.0));
    page.text(format!("B  {}", diff.names.1));
    if diff.recordings.is_none() {
        head::settings(shown, page);
    }
    verdict(shown.experiment.goal, diff, page);
    if let Some(found) = &diff.collections {
        page.text(of_collections(found));
    }
    if diff.within.is_empty() {
        diff_rows::ledger(diff, page);
    } else {
        within(diff, page);
    }
    diff_rows::write(shown.experiment, diff, page);
    if let Some((a, b)) = diff.recordings.as_ref().or(diff.stacks.as_ref()) {
        // Not wrapped: it is there to be copied.
        let (a, b) = (shell_word(&clean(a)), shell_word(&clean(b)));
        page.picture(vec![format!("Stacks: holdup export {b} --to flame --against {a} -o diff.svg")]);
    }
    head::foot(shown, page);
}

fn verdict(goal: Goal, diff: &Diff, page: &mut Page) {
    let found = &diff.difference.goal;
    let values = format!("A {}, B {}", value(goal, found.a), value(goal, found.b));
    match found.runs {
        0 => {
            // Figures of no pair would be zeros.
            page.verdict(Tint::Warning, "No run of both succeeded: nothing can be compared.");
            return;
        }
        1 => {
            page.verdict(Tint::Strong, format!("B against A: {} ({values}).", change(found.relative)));
            page.text(
                "One run of each: the variation between runs is not known, so this may be chance. `holdup diff -n 10 --a CMD --b CMD` measures it.",
            );
            return;
        }
        _ => {}
    }
    let tint = match found.verdict {
        Verdict::Faster => Tint::Good,
        Verdict::Slower => Tint::Bad,
        Verdict::Same => Tint::Strong,
        Verdict::Unclear => Tint::Warning,
    };
    page.verdict(tint, verdict_text(goal, found));
    let unit = if diff.difference.paired { "pair" } else { "run" };
    let basis = if found.runs < BOOTSTRAP_MIN { "Student's t" } else { "bootstrap" };
    page.text(format!(
        "{values}, change {} (95 % interval by {basis}, {}).",
        range(found.low, found.high),
        counted(found.runs as u64, unit)
    ));
    more(found, page);
}

/// Why, as far as collections are the reason.
fn of_collections(found: &Collections) -> String {
    let time = |ns: f64| duration(ns.abs().round() as u64);
    let change = |ns: f64| format!("{}{}", if ns < 0.0 { '-' } else { '+' }, time(ns));
    let part = |part: &Part| format!("{} {}", part.name, change(part.b_ns - part.a_ns));
    let parts: Vec<String> = found.parts.iter().map(part).collect();
    let than = if found.more_ns < 0.0 { "shorter" } else { "longer" };
    // Where all else went the other way, they are more than the whole.
    let share = match found.share() {
        share if share > 1.0 => "more than all".to_owned(),
        share => percent(share),
    };
    format!(
        "Collections cost A {} of thread time and B {} ({}): {share} of the {} by which B's threads ran, queued and \
         waited for others {than}.",
        time(found.a_ns),
        time(found.b_ns),
        parts.join(", "),
        time(found.more_ns),
    )
}

/// The verdict in words.
fn verdict_text(goal: Goal, found: &Change) -> String {
    let what = match goal {
        Goal::Wall => "time",
        Goal::Work => "work a second",
        Goal::Rate | Goal::Cost => "of the measure",
    };
    let size = change(found.relative);
    match found.verdict {
        Verdict::Faster => format!("B is faster: {size} {what}."),
        Verdict::Slower => format!("B is slower: {size} {what}."),
        Verdict::Same => format!("No difference that matters: {size} {what}."),
        Verdict::Unclear => format!("Not decided: {size} {what}."),
    }
}

fn more(found: &Change, page: &mut Page) {
    if found.verdict != Verdict::Unclear {
        return;
    }
    match found.runs_wanted {
        Some(wanted) if found.is_beyond_reach() => page.text(beyond_reach(found, wanted)),
        Some(wanted) if wanted as usize > found.runs => page.text(format!(
            "{} more of each would find the smallest change that matters in four cases of five (--resume, -n {wanted}).",
            counted(u64::from(wanted) - found.runs as u64, "run")
        )),
        Some(_) => page.text("The change is near the smallest one that matters: more runs (-n) would narrow it down."),
        None => page.text("These runs do not show how many more are needed."),
    }
}

/// Threads in each class, over blocks of time.
fn within(diff: &Diff, page: &mut Page) {
    page.heading("WHERE THE TIME WENT (threads in each class, on average)");
    let rows = diff.within.iter().map(|row| {
        let interval = row.change.as_ref();
        vec![
            row.class.name().to_owned(),
            format!("{:.3}", row.a),
            format!("{:.3}", row.b),
            format!("{:+.3}", row.b - row.a),
            interval.map_or(String::new(), |found| format!("{:+.3} to {:+.3}", found.low, found.high)),
        ]
    });
    let columns = [
        Column::Text(""),
        Column::Figure("A"),
        Column::Figure("B"),
        Column::Figure("change"),
        Column::Figure("interval"),
    ];
    page.table(&columns, rows.collect());
    page.faint(
        "The intervals are over blocks of time within each run: they show whether the runs differed throughout, not whether another run would.",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collections_are_compared_in_words() {
        let part = |name: &str, a_ns, b_ns| Part { name: name.to_owned(), a_ns, b_ns };
        let parts = vec![part("gc-wait", 0.0, 60e6), part("gc-work", 6e6, 5e6)];
        let found = Collections { a_ns: 6e6, b_ns: 65e6, more_ns: 100e6, parts };
        assert_eq!(
            of_collections(&found),
            "Collections cost A 6.00 ms of thread time and B 65.0 ms (gc-wait +60.0 ms, gc-work -1.00 ms): 59.0 % of the 100 ms \
             by which B's threads ran, queued and waited for others longer."
        );
        let less = Collections { a_ns: 65e6, b_ns: 6e6, more_ns: -50e6, parts: Vec::new() };
        assert!(of_collections(&less).ends_with(
            "more than all of the 50.0 ms by which B's threads ran, queued and waited for others shorter."
        ));
    }
}
