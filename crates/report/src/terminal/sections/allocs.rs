//! ALLOCATIONS: allocated memory by site, the part that still lives, and the freeing threads.

use std::collections::BTreeSet;

use holdup_events::ThreadId;
use holdup_events::recording::SourceState;
use holdup_findings::derive::amount::Amount;
use holdup_findings::derive::stacks::{Allocated, PlaceId, Site};

use crate::numbers::{bytes, counted, percent, rounded, share};
use crate::terminal::View;
use crate::terminal::table::{self, Column};
use crate::text::{Tint, clean, wrap};

pub(super) const SUMMARY: &str =
    "Allocations by function (--allocs), and the threads that free them (--function)";

const ROWS_MAX: usize = 25;
/// Maximum number of rows of secondary lists.
const LIST_MAX: usize = 10;

pub(super) fn lines(view: &View) -> Vec<String> {
    let ask = view.stacks;
    let allocated = Allocated::derive(view.trace, &ask.selection, &ask.folding);
    let mut lines = view.heading("ALLOCATIONS");
    if allocated.all.drawn == 0 {
        lines.push(super::nothing(view, &why_none(view)));
        return lines;
    }
    for line in wrap(&basis(view, &allocated), view.style.columns() - 2, 0) {
        lines.push(format!("  {}", view.style.paint(Tint::Faint, &line)));
    }
    match ask.function.as_ref().map(|name| allocated.find(name)) {
        Some(of) if of.is_empty() => {
            lines.push(super::nothing(view, "Nothing was allocated through that function."))
        }
        Some(of) => lines.extend(around(view, &allocated, &of)),
        None => {
            lines.extend(sites(view, &allocated));
            if allocated.is_census {
                return lines;
            }
            lines.extend(threads(view, &allocated));
            lines.extend(handed(view, &allocated));
        }
    }
    lines
}

/// The recorder's note on allocations, if they were requested.
fn source<'a>(view: &'a View) -> Option<&'a SourceState> {
    view.trace.manifest.sources.iter().find(|source| source.name == "allocations")
}

/// Why there is nothing to show.
fn why_none(view: &View) -> String {
    match source(view) {
        None => "Allocations were not recorded: holdup run --allocs".to_owned(),
        Some(source) if !source.missing.is_empty() => clean(&source.missing),
        Some(_) => "No allocation was sampled: too little was allocated, or not with malloc.".to_owned(),
    }
}

/// Basis and confidence of the figures.
fn basis(view: &View, allocated: &Allocated) -> String {
    let all = &allocated.all;
    if allocated.is_census {
        return format!(
            "{} were alive when the collector counted, by the program's own profile. The total allocated is not known.",
            bytes(all.bytes()),
        );
    }
    let objects = match (all.objects(), all.objects_error()) {
        (Some(objects), Some(error)) => format!("{} ± {} objects", rounded(objects), rounded(error)),
        _ => "an unknown number of objects".to_owned(),
    };
    let mut text = format!(
        "{} ± {} in {objects}: {} sampled, one byte in {}. ",
        bytes(all.bytes()),
        bytes(all.bytes_error()),
        counted(all.drawn, "allocation"),
        bytes(allocated.every_bytes),
    );
    match allocated.frees_known {
        true => text.push_str(&format!(
            "{} ± {} not freed, {} freed by another thread than allocated them. ",
            bytes(allocated.live.bytes()),
            bytes(allocated.live.bytes_error()),
            percent(share(allocated.freed_by_others.bytes(), all.bytes())),
        )),
        false => text.push_str("Frees were not recorded. "),
    }
    if let Some(operations) = view.stacks.operations {
        text.push_str(&format!(
            "Per operation: {:.1} ± {:.1} bytes in {} objects. ",
            all.bytes() as f64 / operations as f64,
            all.bytes_error() as f64 / operations as f64,
            objects_each(all, operations),
        ));
    }
    if let Some(lost) = source(view).map(|source| source.lost).filter(|lost| *lost > 0) {
        let lost = counted(lost, "record");
        text.push_str(&format!("{lost} of allocations and frees were lost: all figures are too low. "));
    }
    text.push_str("±: 95 % confidence interval · kept: not freed · moved: freed by another thread.");
    text
}

fn sites(view: &View, allocated: &Allocated) -> Vec<String> {
    let per_operation = view.stacks.operations.is_some();
    let counted = if per_operation { ["bytes/op", "objects/op"] } else { ["objects", "each"] };
    let figures = ["bytes", "±", "share"].into_iter().chain(counted).chain(["kept", "moved"]);
    let columns: Vec<Column> =
        [Column::Text("function · place")].into_iter().chain(figures.map(Column::Figure)).collect();
    // Memory in use may have been allocated before.
    let enough = |site: &&Site| {
        let shares = [(&site.all, &allocated.all), (&site.live, &allocated.live)];
        shares.iter().any(|(part, all)| share(part.bytes(), all.bytes()) >= view.stacks.share_min)
    };
    let shown: Vec<&Site> = allocated.sites.iter().filter(enough).take(ROWS_MAX).collect();
    let rows: Vec<Vec<String>> = shown.iter().map(|site| row(view, allocated, site)).collect();
    let mut lines = table::lines(&columns, &rows, view.style);
    let left = allocated.sites.len() - shown.len();
    if left > 0 {
        let told = shown.iter().fold(0u64, |sum, site| sum.saturating_add(site.all.bytes()));
        let rest = bytes(allocated.all.bytes().saturating_sub(told));
        lines.push(super::nothing(
            view,
            &format!("and {left} more sites, together {rest} (--min 0 shows more)"),
        ));
    }
    lines
}

fn row(view: &View, allocated: &Allocated, site: &Site) -> Vec<String> {
    let module = site.module.rsplit('/').next().unwrap_or_default();
    let place = match site.file.rsplit('/').next() {
        Some(file) if !file.is_empty() => format!("{file}:{}", site.line),
        _ => module.to_owned(),
    };
    let named =
        if place.is_empty() { site.function.clone() } else { format!("{} · {place}", site.function) };
    let mut cells = vec![clean(&named)];
    cells.extend(figures(&site.all, &allocated.all));
    match view.stacks.operations {
        Some(operations) => {
            cells.push(format!("{:.1}", site.all.bytes() as f64 / operations as f64));
            cells.push(objects_each(&site.all, operations));
        }
        None => cells.extend([objects(&site.all), site.all.mean_bytes().map_or(NOT_COUNTED.into(), bytes)]),
    }
    cells.push(some(&site.live));
    cells.push(moved(site));
    cells
}

/// Instead of a number of objects that is unknown.
const NOT_COUNTED: &str = "?";

fn objects(amount: &Amount) -> String {
    amount.objects().map_or(NOT_COUNTED.to_owned(), rounded)
}

fn objects_each(amount: &Amount, operations: u64) -> String {
    let each = |objects| format!("{:.3}", objects as f64 / operations as f64);
    amount.objects().map_or(NOT_COUNTED.to_owned(), each)
}

/// Bytes, their error, their share of `all`.
fn figures(amount: &Amount, all: &Amount) -> Vec<String> {
    vec![bytes(amount.bytes()), error(amount), percent(share(amount.bytes(), all.bytes()))]
}

/// The error as a part of the bytes.
fn error(amount: &Amount) -> String {
    percent(share(amount.bytes_error(), amount.bytes()))
}

fn moved(site: &Site) -> String {
    match site.freed_by_others.drawn {
        0 => "-".to_owned(),
        _ => percent(share(site.freed_by_others.bytes(), site.all.bytes())),
    }
}

fn some(amount: &Amount) -> String {
    if amount.drawn == 0 { "-".to_owned() } else { bytes(amount.bytes()) }
}

fn list(view: &View, heading: &'static str, all: &Amount, rows: Vec<(String, Amount)>) -> Vec<String> {
    let columns = ["bytes", "±", "share", "objects"].map(Column::Figure).into_iter();
    let columns: Vec<Column> = columns.chain([Column::Text(heading)]).collect();
    let enough = |row: &&(String, Amount)| share(row.1.bytes(), all.bytes()) >= view.stacks.share_min;
    let cells: Vec<Vec<String>> = rows
        .iter()
        .filter(enough)
        .take(LIST_MAX)
        .map(|(name, amount)| {
            let mut cells = figures(amount, all);
            cells.extend([objects(amount), name.clone()]);
            cells
        })
        .collect();
    let mut lines = vec![String::new()];
    lines.extend(table::lines(&columns, &cells, view.style));
    if rows.len() > cells.len() {
        lines.push(super::nothing(view, &format!("and {} more", rows.len() - cells.len())));
    }
    lines
}

fn threads(view: &View, allocated: &Allocated) -> Vec<String> {
    let name = |(thread, amount): &(ThreadId, Amount)| (view.thread(*thread), *amount);
    list(view, "allocated by", &allocated.all, allocated.threads.iter().map(name).collect())
}

fn handed(view: &View, allocated: &Allocated) -> Vec<String> {
    if allocated.handed.is_empty() {
        return Vec::new();
    }
    let name = |from, to| format!("{} → {}", view.thread(from), view.thread(to));
    let rows = allocated.handed.iter().map(|handed| (name(handed.from, handed.to), handed.amount)).collect();
    list(view, "allocated by → freed by", &allocated.all, rows)
}

/// One function: callers above, callees below.
fn around(view: &View, allocated: &Allocated, of: &BTreeSet<PlaceId>) -> Vec<String> {
    let around = allocated.around(of);
    let place = |id: PlaceId| clean(&allocated.places[id.index()].name);
    let names: Vec<String> = of.iter().take(LIST_MAX).map(|id| place(*id)).collect();
    let named = |rows: &[(Option<PlaceId>, Amount)], none: &str| {
        let name = |id: Option<PlaceId>| id.map_or_else(|| none.to_owned(), place);
        rows.iter().map(|(id, amount)| (name(*id), *amount)).collect::<Vec<_>>()
    };
    let (callers, callees) =
        (named(&around.callers, "(none: it is the root)"), named(&around.callees, "(itself)"));
    let mut lines = list(view, "called by", &around.all, callers);
    lines.push(String::new());
    let whole = figures(&around.all, &allocated.all).join("  ");
    lines.push(format!("  {}  {whole}", view.style.paint(Tint::Strong, &names.join(", "))));
    lines.extend(list(view, "calls", &around.all, callees));
    lines
}
