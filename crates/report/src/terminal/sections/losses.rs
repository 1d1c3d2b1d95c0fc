//! LOSSES: what each source knows that it did not see.

use holdup_events::{CpuId, Loss};

use crate::numbers::{count, duration};
use crate::terminal::View;
use crate::terminal::table::{self, Column};
use crate::text::clean;

pub(super) const SUMMARY: &str = "Events missing from the recording, and when";

const ROWS_MAX: usize = 40;

pub(super) fn lines(view: &View) -> Vec<String> {
    let losses = &view.trace.losses;
    let mut lines = view.heading("LOSSES");
    if losses.is_empty() {
        lines.push(super::nothing(view, "No events were lost."));
        return lines;
    }
    let columns = [
        Column::Text("source"),
        Column::Text("reason"),
        Column::Figure("cpu"),
        Column::Figure("from"),
        Column::Figure("for"),
        Column::Figure("events"),
    ];
    let rows: Vec<Vec<String>> = losses.iter().take(ROWS_MAX).map(|loss| row(view, loss)).collect();
    lines.extend(table::lines(&columns, &rows, view.style));
    if losses.len() > ROWS_MAX {
        lines.push(super::nothing(view, &format!("and {} more", losses.len() - ROWS_MAX)));
    }
    lines
}

fn row(view: &View, loss: &Loss) -> Vec<String> {
    let cpu = if loss.cpu == CpuId::NONE { "all".to_owned() } else { loss.cpu.0.to_string() };
    let events = if loss.events == 0 { "not known".to_owned() } else { count(loss.events) };
    vec![
        clean(&loss.source),
        clean(&loss.reason),
        cpu,
        duration(loss.start.since(view.trace.start()).0),
        duration(loss.end.since(loss.start).0),
        events,
    ]
}
