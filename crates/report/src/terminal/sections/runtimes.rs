//! RUNTIMES: what the code of language runtimes and libraries did, role by role, and what their descriptors missed.

use holdup_findings::derive::runtimes::{RoleUse, RuntimeUse, Telling};

use crate::numbers::{count, counted, duration, percent, share};
use crate::terminal::View;
use crate::terminal::table::{self, Column};
use crate::text::{Tint, clean};

pub(super) const SUMMARY: &str = "What language runtimes and libraries did: collections, waits, spinning";

pub(super) fn lines(view: &View) -> Vec<String> {
    let runtimes = &view.analysis.derived.runtimes;
    let mut lines = view.heading("RUNTIMES");
    lines.extend(view.analysis.derived.runtime_events.iter().map(|telling| events_line(view, telling)));
    if runtimes.is_empty() {
        let seen = "No runtime was recognized by the code and files that were seen.";
        lines.extend(view.analysis.derived.runtime_events.is_empty().then(|| super::nothing(view, seen)));
        return lines;
    }
    for runtime in runtimes {
        lines.extend(one(view, runtime));
    }
    lines.push(super::nothing(view, "ran: sampled, kernel work for it included · ±: 95 % · waited: exact"));
    lines
}

/// One line about the events of a runtime. Events without a runtime belong to the program.
fn events_line(view: &View, telling: &Telling) -> String {
    let who = if telling.runtime.is_empty() { "the program".to_owned() } else { clean(&telling.runtime) };
    let line = format!(
        "  {who} reported {} on {} ({} of a known thread): {}, {} its own",
        counted(telling.events, "event"),
        counted(telling.lanes, "lane"),
        percent(share(telling.matched, telling.events)),
        counted(telling.spans, "span"),
        count(telling.spans - telling.own_spans),
    );
    view.style.fit(&line, view.style.columns())
}

fn one(view: &View, runtime: &RuntimeUse) -> Vec<String> {
    let processes = if runtime.processes == 1 { "" } else { "es" };
    let title =
        format!("  {} ({} process{processes})", clean(&runtime.title), count(runtime.processes.into()));
    let mut lines = vec![title];
    if !runtime.roles.is_empty() {
        let columns = [
            Column::Text("  role"),
            Column::Figure("threads"),
            Column::Figure("ran"),
            Column::Figure("±"),
            Column::Figure("waits"),
            Column::Figure("waited"),
            Column::Figure("inferred"),
        ];
        let rows: Vec<Vec<String>> = runtime.roles.iter().map(row).collect();
        lines.extend(table::lines(&columns, &rows, view.style));
    }
    lines.extend(unmatched(view, runtime));
    lines
}

fn row(used: &RoleUse) -> Vec<String> {
    let or_dash = |there: bool, text: String| if there { text } else { "-".to_owned() };
    vec![
        match used.what.as_str() {
            "" => format!("  {}", used.role.name()),
            what => format!("  {}: {}", used.role.name(), clean(what)),
        },
        used.threads.to_string(),
        or_dash(used.samples > 0, duration(used.running_ns)),
        or_dash(used.samples > 0, duration(used.running_error_ns)),
        or_dash(used.waits > 0, count(used.waits)),
        or_dash(used.waits > 0, duration(used.blocked_ns)),
        or_dash(used.waits > 0, percent(share(used.inferred_ns, used.blocked_ns))),
    ]
}

/// Rules of descriptors without a match: the program may not use such functions, or have other names for
/// them. JSON lists them all.
fn unmatched(view: &View, runtime: &RuntimeUse) -> Option<String> {
    let roles: Vec<&str> = runtime.unmatched.iter().map(String::as_str).collect();
    let text = format!("{} of {} rules matched nothing: {}", roles.len(), runtime.rules, roles.join("; "));
    let line = view.style.fit(&clean(&text), view.style.columns() - 4);
    (!roles.is_empty()).then(|| format!("    {}", view.style.paint(Tint::Faint, &line)))
}
