//! STACKS: where in the program each kind of time went, as one asked (`StackAsk`).

mod around;
mod flat;
mod tree;

use holdup_findings::derive::class::Class;
use holdup_findings::derive::stacks::{Profile, Selection, Tally};
use holdup_findings::derive::untimed::SHOWN_NS;

use crate::numbers::{count, counted, duration, percent, seconds, share};
use crate::stacks::Shape;
use crate::terminal::View;
use crate::text::{Tint, wrap};

pub(super) const SUMMARY: &str = "Where in the program: flat, as a tree, around one function (--function)";

pub(super) fn lines(view: &View) -> Vec<String> {
    let selection = &view.stacks.selection;
    let mut lines = Vec::new();
    if view.stacks.wakers {
        lines.extend(part(view, "WAITS AND WHAT ENDED THEM", selection));
        return lines;
    }
    if view.stacks.classes_named {
        lines.extend(part(view, "STACKS", selection));
        return lines;
    }
    lines.extend(part(view, "STACKS ON A CPU", &selection.only(Class::on_cpu)));
    lines.extend(part(view, "STACKS OF THREADS THAT WAIT", &selection.only(Class::is_wait)));
    lines
}

fn part(view: &View, title: &str, selection: &Selection) -> Vec<String> {
    let profile = view.stacks.profile(view.trace, selection);
    let mut lines = view.heading(title);
    if profile.all.ns == 0 {
        lines.push(super::nothing(view, "No such time was recorded."));
        return lines;
    }
    for line in wrap(&basis(&profile), view.style.columns() - 2, 0) {
        lines.push(format!("  {}", view.style.paint(Tint::Faint, &line)));
    }
    match view.stacks.focus(&profile) {
        Some(focus) if focus.is_empty() => {
            lines.push(super::nothing(view, "No stack goes through that function."))
        }
        Some(focus) => {
            lines.extend(around::lines(view, &profile, &focus));
            if view.stacks.shape != Shape::Flat {
                lines.extend(tree::lines(view, &profile));
            }
        }
        None if view.stacks.shape == Shape::Flat => lines.extend(flat::lines(view, &profile)),
        None => lines.extend(tree::lines(view, &profile)),
    }
    lines
}

/// Basis and confidence of the figures.
fn basis(profile: &Profile) -> String {
    let observed = &profile.observed;
    let mut text = format!("{} in all", seconds(profile.all.ns));
    let classes: Vec<String> = profile
        .by_class(None)
        .iter()
        .map(|(class, tally)| format!("{} {}", class.name(), seconds(tally.ns)).replace(' ', "\u{a0}"))
        .collect();
    text.push_str(&format!(": {}. ", classes.join(", ")));
    if observed.untimed {
        let samples = counted(observed.samples, "sample");
        text.push_str(&format!(
            "{samples}, each shown as {}: they are not proportional to time, only their shares mean something. ",
            duration(SHOWN_NS)
        ));
    } else if observed.samples > 0 {
        text.push_str(&format!("{} divide the running time. ", counted(observed.samples, "sample")));
    }
    if observed.slices > 0 && observed.slices_sampled {
        let of = counted(observed.slices, "wait");
        text.push_str(&format!("Stacks of {} of {of}: an estimate. ", count(observed.slices_with_stack)));
    } else if observed.slices > 0 && observed.slices_with_stack > 0 {
        let of = counted(observed.slices, "wait");
        let with = count(observed.slices_with_stack);
        text.push_str(&format!("Stacks of {with} of {of}, each with its own time: exact. "));
    }
    if observed.wakers > 0 {
        let of = count(observed.wakers);
        let with = count(observed.wakers_with_stack);
        let sure = if observed.wakers_sampled { "an estimate" } else { "exact" };
        text.push_str(&format!(
            "Wakers' stacks of {with} of {of} that the program's threads ended: {sure}. "
        ));
    }
    if !profile.all.is_exact() {
        text.push_str("±: 95 % confidence interval.");
    }
    text
}

/// `± 1.2 ms`, or nothing where a sum is exact.
fn error(tally: &Tally, all: &Tally) -> String {
    match tally.error_ns(all) {
        0 => String::new(),
        ns => format!("± {}", duration(ns)),
    }
}

fn of_all(tally: &Tally, all: &Tally) -> String {
    percent(share(tally.ns, all.ns))
}

/// A row of this much time is shown.
fn is_shown(view: &View, profile: &Profile, tally: &Tally) -> bool {
    tally.ns > 0 && share(tally.ns, profile.all.ns) >= view.stacks.share_min
}
