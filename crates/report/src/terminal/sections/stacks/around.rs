//! One function: own and cumulative time, callers, callees, threads, classes.

use std::collections::BTreeSet;

use holdup_findings::derive::stacks::{PlaceId, Profile, Tally};

use super::{error, is_shown, of_all};
use crate::numbers::{duration, percent, share};
use crate::terminal::View;
use crate::terminal::table::{self, Column};
use crate::text::{Tint, clean};

/// Maximum number of names listed if a pattern matches several functions.
const NAMES_MAX: usize = 5;
/// Rows of each list.
const ROWS_MAX: usize = 15;

pub(super) fn lines(view: &View, profile: &Profile, of: &BTreeSet<PlaceId>) -> Vec<String> {
    let around = profile.neighbours(of);
    let mut whole = Tally::default();
    around.callers.iter().for_each(|(_, tally)| whole.merge(tally));
    let mut lines = vec![title(view, profile, of)];
    lines.push(format!(
        "  {} of {} {} cumulated",
        of_all(&whole, &profile.all),
        duration(profile.all.ns),
        error(&whole, &profile.all),
    ));
    let near = |id: &Option<PlaceId>, none: &str| match id {
        Some(id) => clean(&profile.place(*id).name),
        None => none.to_owned(),
    };
    let callers: Vec<(String, Tally)> =
        around.callers.iter().map(|(id, tally)| (near(id, "(none: it is the root)"), *tally)).collect();
    let callees: Vec<(String, Tally)> =
        around.callees.iter().map(|(id, tally)| (near(id, "(itself)"), *tally)).collect();
    let threads: Vec<(String, Tally)> =
        profile.by_thread(Some(of)).into_iter().map(|(id, tally)| (view.thread(id), tally)).collect();
    let classes: Vec<(String, Tally)> = profile
        .by_class(Some(of))
        .into_iter()
        .map(|(class, tally)| (class.name().to_owned(), tally))
        .collect();
    for (heading, rows) in
        [("called by", callers), ("calls", callees), ("thread", threads), ("class", classes)]
    {
        lines.push(String::new());
        lines.extend(list(view, profile, heading, &rows, &whole));
    }
    lines
}

fn title(view: &View, profile: &Profile, of: &BTreeSet<PlaceId>) -> String {
    let mut names: Vec<String> =
        of.iter().take(NAMES_MAX).map(|id| clean(&profile.place(*id).name)).collect();
    if of.len() > NAMES_MAX {
        names.push(format!("and {} more, as one", of.len() - NAMES_MAX));
    }
    let text = view.style.fit(&names.join(", "), view.style.columns() - 2);
    format!("  {}", view.style.paint(Tint::Strong, &text))
}

fn list(
    view: &View,
    profile: &Profile,
    heading: &'static str,
    rows: &[(String, Tally)],
    whole: &Tally,
) -> Vec<String> {
    let columns =
        [Column::Figure("time"), Column::Figure("±"), Column::Figure("share"), Column::Text(heading)];
    let shown: Vec<Vec<String>> = rows
        .iter()
        .filter(|(_, tally)| is_shown(view, profile, tally))
        .take(ROWS_MAX)
        .map(|(name, tally)| {
            let part = percent(share(tally.ns, whole.ns));
            vec![duration(tally.ns), error(tally, &profile.all), part, name.clone()]
        })
        .collect();
    let mut lines = table::lines(&columns, &shown, view.style);
    if rows.len() > shown.len() {
        lines.push(super::super::nothing(view, &format!("and {} more", rows.len() - shown.len())));
    }
    lines
}
