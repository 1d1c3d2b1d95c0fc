//! BARRIERS: places where threads wait for each other, the waiting time, the last thread to arrive, and why
//! it was late.

use holdup_findings::derive::class::Class;
use holdup_findings::derive::rendezvous::{Causes, SiteUse};

use crate::numbers::{count, duration, percent, share};
use crate::terminal::View;
use crate::terminal::table::{self, Column};
use crate::text::{Tint, clean};

pub(super) const SUMMARY: &str = "Barriers and joins, the last thread to arrive and why, the costliest first";

const SITES_MAX: usize = 20;
/// Causes, threads and places that are named of each.
const NAMED_MAX: usize = 3;

pub(super) fn lines(view: &View) -> Vec<String> {
    let uses = &view.analysis.derived.rendezvous.uses;
    let mut lines = view.heading("BARRIERS");
    if uses.is_empty() {
        lines.push(super::nothing(view, "No barriers or joins were seen."));
        return lines;
    }
    let columns = [
        Column::Text("where"),
        Column::Figure("times"),
        Column::Figure("threads"),
        Column::Figure("waited"),
        Column::Figure("late: median"),
        Column::Figure("p99"),
        Column::Figure("most"),
    ];
    let shown = &uses[..uses.len().min(SITES_MAX)];
    let rows: Vec<Vec<String>> = shown.iter().map(row).collect();
    let mut table = table::lines(&columns, &rows, view.style).into_iter();
    lines.extend(table.next());
    for (line, used) in table.zip(shown) {
        lines.push(line);
        lines.extend(details(view, used));
    }
    if uses.len() > SITES_MAX {
        lines.push(super::nothing(view, &format!("and {} more", uses.len() - SITES_MAX)));
    }
    lines
}

fn row(used: &SiteUse) -> Vec<String> {
    let [median, p99, most] = used.lateness_ns.map(duration);
    vec![
        clean(&used.name),
        count(used.meetings),
        used.members.len().to_string(),
        duration(used.harm_ns),
        median,
        p99,
        most,
    ]
}

fn details(view: &View, used: &SiteUse) -> Vec<String> {
    let last = used.by_last.iter().take(NAMED_MAX);
    let last: Vec<String> =
        last.map(|(thread, times, _)| format!("{} ×{}", view.thread(*thread), count(*times))).collect();
    let samples: u64 = used.late_at.iter().map(|(_, samples)| samples).sum();
    let places = used.late_at.iter().take(NAMED_MAX);
    let places: Vec<String> = places
        .map(|(function, seen)| format!("{} {}", clean(function), percent(share(*seen, samples))))
        .collect();
    let spun = (used.spun_ns > 0).then(|| format!("{} of it spinning (sampled)", duration(used.spun_ns)));
    let woken = (used.resume_ns > 0).then(|| format!("{} until they ran again", duration(used.resume_ns)));
    [
        ("last", last),
        ("which", causes(&used.causes)),
        ("in", places),
        ("others waited", spun.into_iter().chain(woken).collect()),
    ]
    .into_iter()
    .filter(|(_, names)| !names.is_empty())
    .map(|(what, names)| format!("    {what} {}", names.join(", ")))
    .map(|line| view.style.paint(Tint::Faint, &view.style.fit(&line, view.style.columns())))
    .collect()
}

/// Activities of the last thread while others waited, the largest parts first.
fn causes(causes: &Causes) -> Vec<String> {
    let mut list = vec![
        ("ran".to_owned(), causes.running_ns),
        ("queued behind own threads".to_owned(), causes.own_ns),
        ("queued behind other programs".to_owned(), causes.others_ns),
        ("was throttled".to_owned(), causes.throttled_ns),
        ("was woken late".to_owned(), causes.woken_late_ns),
        ("is not known".to_owned(), causes.unknown_ns),
    ];
    let blocked = |class: Class| (class.name().to_owned(), causes.blocked_ns[class as usize]);
    list.extend(Class::ALL.into_iter().map(blocked));
    list.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let total = causes.total_ns();
    let named = list.into_iter().filter(|(_, ns)| *ns > 0).take(NAMED_MAX);
    named.map(|(what, ns)| format!("{what} {}", percent(share(ns, total)))).collect()
}
