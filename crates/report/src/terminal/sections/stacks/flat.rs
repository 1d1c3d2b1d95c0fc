//! One row a function, the one with the most own time first.

use holdup_findings::derive::stacks::{FlatRow, Profile};

use super::{error, is_shown, of_all};
use crate::numbers::duration;
use crate::terminal::View;
use crate::terminal::table::{self, Column};
use crate::text::clean;

/// More functions than this are summed up.
const ROWS_MAX: usize = 40;

pub(super) fn lines(view: &View, profile: &Profile) -> Vec<String> {
    let all = profile.flat();
    let rows: Vec<&FlatRow> = all.iter().filter(|row| is_shown(view, profile, &row.cumulated)).collect();
    let columns = [
        Column::Figure("self"),
        Column::Figure("±"),
        Column::Figure("share"),
        Column::Figure("cumulated"),
        Column::Figure("share"),
        Column::Text("function · file"),
    ];
    let cells: Vec<Vec<String>> = rows.iter().take(ROWS_MAX).map(|row| cells(profile, row)).collect();
    let mut lines = table::lines(&columns, &cells, view.style);
    let shown = cells.len();
    if all.len() > shown {
        let own: u64 = all.iter().map(|row| row.own.ns).sum();
        let told: u64 = rows.iter().take(ROWS_MAX).map(|row| row.own.ns).sum();
        let text = format!(
            "and {} more functions, together {} (--min 0 shows more)",
            all.len() - shown,
            duration(own - told)
        );
        lines.push(super::super::nothing(view, &text));
    }
    lines
}

fn cells(profile: &Profile, row: &FlatRow) -> Vec<String> {
    let place = profile.place(row.place);
    // For an address, the file is shown.
    let named = match place.file() {
        "" => clean(&place.name),
        file if place.name.strip_prefix(file).is_some_and(|rest| rest.starts_with("+0x")) => {
            clean(&place.name)
        }
        file => format!("{} · {}", clean(&place.name), clean(file)),
    };
    let own = |said: String| if row.own.ns > 0 { said } else { "-".to_owned() };
    vec![
        own(duration(row.own.ns)),
        error(&row.own, &profile.all),
        own(of_all(&row.own, &profile.all)),
        duration(row.cumulated.ns),
        of_all(&row.cumulated, &profile.all),
        named,
    ]
}
