//! WHERE THE TIME WENT: every class of thread time, and whether they add up.

use holdup_findings::derive::class::{CLASSES, Class};
use holdup_findings::rules;
use holdup_findings::wording::percent as rounded;

use crate::numbers::{percent, seconds, share};
use crate::terminal::View;
use crate::text::{Tint, bar, clean, left, right, width, wrap};

pub(super) const SUMMARY: &str = "Where every thread-second went";

const NAME_WIDTH: usize = 12;
const SECONDS_WIDTH: usize = 10;
const ERROR_WIDTH: usize = 11;
const PERCENT_WIDTH: usize = 8;
/// All that stands before the bar, blanks included.
const BEFORE_BAR: usize = 2 + NAME_WIDTH + SECONDS_WIDTH + ERROR_WIDTH + PERCENT_WIDTH + 2;

pub(super) fn lines(view: &View) -> Vec<String> {
    let ledger = &view.analysis.derived.ledger;
    let mut lines = view.heading("WHERE THE TIME WENT");
    if view.is_timeless() {
        lines.push(super::nothing(view, "Not known: the recording has no times."));
        return lines;
    }
    for class in
        Class::ALL.into_iter().filter(|class| ledger.class_ns(*class) > 0 || *class == Class::Unknown)
    {
        lines.extend(class_lines(view, class));
        if class == Class::Useful && !ledger.split_known {
            let text = "(kernel code included: there are no samples to separate it)";
            let wrapped = wrap(text, view.style.columns() - 4, 1);
            lines.extend(wrapped.iter().map(|line| note(view, line)));
        }
        if class == Class::Useful {
            lines.extend(busiest(view));
            lines.extend(known_work(view));
        }
        if class == Class::RunQueue {
            lines.extend(run_queue(view));
        }
    }
    lines.extend(sum(view));
    lines
}

fn class_lines(view: &View, class: Class) -> Vec<String> {
    let ledger = &view.analysis.derived.ledger;
    let ns = ledger.class_ns(class);
    let error = match ledger.error_ns(class) {
        0 => String::new(),
        ns => format!(" ± {}", seconds(ns)),
    };
    let is_narrow = view.style.columns() < BEFORE_BAR;
    let error_width = if is_narrow { 0 } else { ERROR_WIDTH };
    let part = share(ns, ledger.total_ns);
    let columns = view.style.columns().saturating_sub(BEFORE_BAR);
    let tint = match class {
        Class::Useful => Tint::Good,
        Class::Kernel => Tint::Accent,
        Class::Unknown => Tint::Faint,
        Class::Spin | Class::LockWait | Class::RunQueue | Class::Stolen => Tint::Bad,
        _ => Tint::Warning,
    };
    let line = format!(
        "  {}{}{}{}  {}",
        left(class.name(), NAME_WIDTH),
        right(&seconds(ns), SECONDS_WIDTH),
        view.style.paint(Tint::Faint, &left(&error, error_width)),
        right(&percent(part), PERCENT_WIDTH),
        view.style.paint(tint, &bar(part, columns)),
    );
    // Where a line has no room for it, the error stands below.
    let below = (is_narrow && !error.is_empty()).then(|| note(view, &format!("({})", error.trim())));
    [line].into_iter().chain(below).collect()
}

fn note(view: &View, text: &str) -> String {
    format!("    {}", view.style.paint(Tint::Faint, text))
}

/// The function with most of the work.
fn busiest(view: &View) -> Vec<String> {
    let Some(busiest) = &view.analysis.derived.busiest else { return Vec::new() };
    let for_whom = busiest.called_for.as_ref();
    let for_whom = for_whom.map(|(name, part)| format!(", {} of that for {}", rounded(*part), clean(name)));
    let mostly = busiest.mostly_in.as_ref();
    let mostly = mostly.map(|(name, _)| format!(", mostly in {}", clean(name)));
    let text = format!(
        "({} ± {} of it in {}{}{})",
        rounded(busiest.share),
        rounded(busiest.error),
        clean(&busiest.function),
        mostly.unwrap_or_default(),
        for_whom.unwrap_or_default()
    );
    wrap(&text, view.style.columns() - 4, 1).iter().map(|line| note(view, line)).collect()
}

/// The known kind of much of the work, if any.
fn known_work(view: &View) -> Vec<String> {
    let Some(known) = &view.analysis.derived.known_work else { return Vec::new() };
    let text = format!("({} ± {} of it: {})", rounded(known.share), rounded(known.error), clean(&known.what));
    wrap(&text, view.style.columns() - 4, 1).iter().map(|line| note(view, line)).collect()
}

fn run_queue(view: &View) -> Vec<String> {
    let split = &view.analysis.derived.ledger.run_queue;
    let others = match neighbour(view) {
        Some(name) => format!("behind other programs, mostly {name}"),
        None => "behind other programs".to_owned(),
    };
    let parts: Vec<String> = [
        (split.own_ns, "behind the program's own threads"),
        (split.others_ns, others.as_str()),
        (split.throttled_ns, "throttled by a limit"),
        (split.idle_ns, "wakeup latency or unknown"),
    ]
    .iter()
    .filter(|(ns, _)| *ns > 0)
    .map(|(ns, what)| format!("{} {what}", seconds(*ns)))
    .collect();
    let text = format!("({})", parts.join(" · "));
    wrap(&text, view.style.columns() - 4, 1).iter().map(|line| note(view, line)).collect()
}

/// The foreign process that the rule about neighbours blames most, as it names it.
fn neighbour(view: &View) -> Option<String> {
    let finding = view.analysis.findings.iter().find(|one| rules::is_about_other_program(one))?;
    Some(clean(&finding.subject))
}

fn sum(view: &View) -> Vec<String> {
    let ledger = &view.analysis.derived.ledger;
    let mut sum: u128 = 0;
    for index in 0..CLASSES {
        sum += u128::from(ledger.classes[index]);
    }
    let yes = sum == u128::from(ledger.total_ns);
    let (tint, verdict) = if yes {
        (Tint::Good, "= sum of all threads' lifetimes".to_owned())
    } else {
        let apart = sum.abs_diff(u128::from(ledger.total_ns)).min(u128::from(u64::MAX)) as u64;
        (Tint::Bad, format!("differs from the sum of all threads' lifetimes by {}", seconds(apart)))
    };
    let sampled = Class::ALL.into_iter().any(|class| ledger.error_ns(class) > 0);
    let sure = if sampled && yes { " · ±: 95 % confidence interval" } else { "" };
    let before = format!("  total {} ", seconds(ledger.total_ns));
    let plain = format!("{before}{verdict}{sure}");
    if width(&plain) > view.style.columns() {
        return wrap(plain.trim_start(), view.style.columns() - 2, 0)
            .iter()
            .map(|l| format!("  {l}"))
            .collect();
    }
    let (verdict, sure) = (view.style.paint(tint, &verdict), view.style.paint(Tint::Faint, sure));
    vec![format!("{before}{verdict}{sure}")]
}
