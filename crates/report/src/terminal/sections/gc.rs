//! GC: cost of collections, combining the runtime's events with the scheduler's.

use holdup_events::ThreadId;
use holdup_findings::derive::gc::{BINS_NS, Gc, GcTimes, LaneGc, Pause, Pauses};
use holdup_findings::derive::rendezvous::CauseUse;

use crate::numbers::{bytes, count, counted, duration, percent, share};
use crate::terminal::View;
use crate::terminal::table::{self, Column};
use crate::text::{Tint, clean, cut, wrap};

pub(super) const SUMMARY: &str = "Garbage collection by domain: work, barriers, retries, pauses";

/// Longer names of lanes are cut (columns).
const TITLE_MAX: usize = 24;
/// Lanes that are shown one by one.
const LANES_MAX: usize = 32;
/// Functions that allocate.
const SITES_MAX: usize = 5;

pub(super) fn lines(view: &View) -> Vec<String> {
    let gc = &view.analysis.derived.gc;
    let mut lines = view.heading("GARBAGE COLLECTION");
    if gc.lanes.is_empty() {
        lines.push(super::nothing(view, "No runtime reported a collection."));
        return lines;
    }
    let mut runtimes: Vec<&str> = gc.lanes.iter().map(|lane| lane.runtime.as_str()).collect();
    runtimes.dedup();
    let runtimes = clean(&runtimes.join(", "));
    let collections = format!(
        "{}, {} of the old generation",
        counted(gc.minor, "minor collection"),
        counted(gc.major, "cycle")
    );
    let stopped =
        format!("the world stopped {} times, {} in total", count(gc.stops), duration(gc.stopped_ns));
    lines.push(match (gc.minor + gc.major, gc.stops) {
        (_, 0) => format!("  {runtimes}: {collections}."),
        // Probes at stop-the-world pauses do not report the cause of each.
        (0, _) => format!("  {runtimes}: {stopped}."),
        _ => format!("  {runtimes}: {collections}. {stopped}."),
    });
    lines.push(matched(view, gc));
    lines.extend(times(view, gc));
    lines.extend(memory(view, gc));
    lines.extend(pauses(view, gc));
    lines.extend(slowest(view, gc));
    lines.extend(stops(view));
    lines
}

/// The runtimes' term for a lane.
fn teller(gc: &Gc) -> &'static str {
    let is = |runtime: &str| gc.lanes.iter().all(|lane| lane.runtime.starts_with(runtime));
    match () {
        () if is("ocaml") => "domain",
        () if is("ghc ") => "capability",
        () if is("go ") => "goroutine",
        // Probes report threads.
        () if gc.stops > 0 => "thread",
        () => "lane",
    }
}

/// Name of a lane: its number, or its thread's name if that is more specific.
fn title(view: &View, lane: u32, thread: Option<ThreadId>) -> String {
    let number = view.trace.lanes.get(lane as usize).map_or_else(String::new, |lane| lane.number.to_string());
    let thread = thread.and_then(|thread| view.trace.threads.get(thread.index()));
    match (teller(&view.analysis.derived.gc), thread) {
        ("goroutine" | "thread", Some(thread)) => format!("{number} {}", clean(&thread.name)),
        ("lane", Some(thread)) => clean(&thread.name),
        _ => number,
    }
}

fn of_lane(view: &View, lane: &LaneGc) -> String {
    cut(&title(view, lane.lane, lane.threads.first().copied()), TITLE_MAX)
}

fn matched(view: &View, gc: &Gc) -> String {
    if view.trace.manifest.mode == "import" {
        return format!("  {} events, on the threads that the file names.", count(gc.events));
    }
    if gc.stops > 0 && gc.matched == gc.events {
        return format!("  {} events, on the threads that passed a probe.", count(gc.events));
    }
    format!(
        "  {} of {} events happened while a thread of their domain ran.",
        percent(share(gc.matched, gc.events)),
        count(gc.events)
    )
}

/// A column of times. Columns without any value are left out.
type Figure = (&'static str, fn(&GcTimes) -> u64);

const FIGURES: [Figure; 6] = [
    ("work", |times| times.work_ns),
    ("barrier", |times| times.wait_blocked_ns),
    ("spinning", |times| times.wait_running_ns),
    ("no CPU", |times| times.queue_ns),
    ("other", |times| times.other_ns),
    ("retries", |times| times.spin_ns),
];

/// Less than this share of the whole is not worth a column.
const SHOWN_MIN: f64 = 0.001;

fn times(view: &View, gc: &Gc) -> Vec<String> {
    let shown: Vec<Figure> =
        FIGURES.into_iter().filter(|(_, of)| share(of(&gc.all), gc.all.cost_ns()) >= SHOWN_MIN).collect();
    let mut columns = vec![Column::Text(teller(gc)), Column::Figure("lived"), Column::Figure("GC")];
    columns.extend(shown.iter().map(|(name, _)| Column::Figure(name)));
    let cells = |name: String, life_ns: u64, times: &GcTimes| {
        let mut cells = vec![name, duration(life_ns), percent(share(times.cost_ns(), life_ns))];
        cells.extend(shown.iter().map(|(_, of)| duration(of(times))));
        cells
    };
    let lanes = gc.lanes.iter().take(LANES_MAX);
    let mut rows: Vec<Vec<String>> =
        lanes.map(|lane| cells(of_lane(view, lane), lane.life_ns, &lane.times)).collect();
    rows.push(cells("all".to_owned(), gc.life_ns, &gc.all));
    let mut lines = vec![String::new()];
    lines.extend(table::lines(&columns, &rows, view.style));
    if gc.lanes.len() > LANES_MAX {
        lines.push(super::nothing(view, &format!("and {} more", gc.lanes.len() - LANES_MAX)));
    }
    lines.extend(notes(gc).iter().map(|note| super::nothing(view, note)));
    lines
}

fn notes(gc: &Gc) -> Vec<String> {
    let mut notes = Vec::new();
    if gc.all.spin_ns > 0 {
        notes.push(format!(
            "barrier: slept there · spinning: ran there. Retries are sampled, ± {}, the rest is exact.",
            duration(gc.all.spin_error_ns)
        ));
    }
    let answered: u64 = gc.lanes.iter().map(|lane| lane.answered.covered_ns()).sum();
    if answered > 0 {
        let said = duration(answered);
        notes.push(format!("{said} more in threads that respond for a domain that is blocked in a call."));
    }
    notes
}

fn memory(view: &View, gc: &Gc) -> Vec<String> {
    let columns = [
        Column::Text(teller(gc)),
        Column::Figure("minors"),
        Column::Figure("allocated"),
        Column::Figure("promoted"),
        Column::Figure("heap"),
        Column::Figure("pauses"),
        Column::Figure("p99"),
        Column::Figure("longest"),
    ];
    let row = |lane: &LaneGc| {
        vec![
            of_lane(view, lane),
            count(lane.minor),
            bytes(lane.allocated_bytes),
            lane.promoted_bytes.map_or("?".to_owned(), bytes),
            bytes(lane.heap_bytes),
            count(lane.pauses.count),
            duration(lane.pauses.p99_ns),
            duration(lane.pauses.max_ns),
        ]
    };
    let rows: Vec<Vec<String>> = gc.lanes.iter().take(LANES_MAX).map(row).collect();
    let mut lines = [vec![String::new()], table::lines(&columns, &rows, view.style)].concat();
    lines.extend(allocators(view));
    lines
}

/// Threads and functions that caused collections, as far as samples and stacks show it.
fn allocators(view: &View) -> Vec<String> {
    let seen = &view.analysis.derived.garbage;
    if seen.sites.is_empty() {
        return Vec::new();
    }
    let told = format!(
        "Allocating when collections began, by {}: {}.",
        counted(seen.stacks, "stack"),
        seen.named(SITES_MAX).join(", ")
    );
    wrap(&clean(&told), view.style.columns() - 2, 0).into_iter().map(|line| format!("  {line}")).collect()
}

fn pauses(view: &View, gc: &Gc) -> Vec<String> {
    let Pauses { count: all, total_ns, mean_ns, p50_ns, p90_ns, p99_ns, p999_ns, max_ns, bins, .. } =
        gc.pauses;
    if all == 0 {
        return vec![String::new(), super::nothing(view, "No pause of the program was reported.")];
    }
    let mut lines = vec![String::new()];
    lines.push(format!(
        "  {} as the program experienced them, {} in total, mean {}:",
        counted(all, "pause"),
        duration(total_ns),
        duration(mean_ns)
    ));
    lines.push(format!(
        "  half ≤ {}, 90 % ≤ {}, 99 % ≤ {}, 99.9 % ≤ {}, longest {}",
        duration(p50_ns),
        duration(p90_ns),
        duration(p99_ns),
        duration(p999_ns),
        duration(max_ns)
    ));
    let columns = [Column::Text("length"), Column::Figure("pauses"), Column::Figure("share")];
    let mut below = 0;
    let mut rows = Vec::new();
    for (bound, number) in BINS_NS.into_iter().zip(bins) {
        let name = match bound {
            u64::MAX => format!("≥ {}", duration(below)),
            _ => format!("< {}", duration(bound)),
        };
        below = bound;
        if number > 0 {
            rows.push(vec![name, count(number), percent(share(number, all))]);
        }
    }
    lines.extend(table::lines(&columns, &rows, view.style));
    lines
}

fn slowest(view: &View, gc: &Gc) -> Vec<String> {
    let columns = [
        Column::Text("slowest"),
        Column::Figure("from"),
        Column::Figure("to"),
        Column::Figure("ran"),
        Column::Figure(teller(gc)),
        Column::Text("mostly"),
    ];
    let since = |at: holdup_events::Timestamp| duration(at.since(view.trace.start()).0);
    let row = |pause: &Pause| {
        vec![
            duration(pause.end.since(pause.start).0),
            since(pause.start),
            since(pause.end),
            duration(pause.ran_ns),
            cut(&title(view, pause.lane, Some(pause.thread)), TITLE_MAX),
            format!("{} {}", clean(&pause.mostly), duration(pause.mostly_ns)),
        ]
    };
    let rows: Vec<Vec<String>> = gc.slowest.iter().map(row).collect();
    let mut lines = vec![String::new()];
    lines.extend(table::lines(&columns, &rows, view.style));
    let told = "Spans less than 2 µs apart are one pause. Times are from the start.";
    lines.push(view.style.paint(Tint::Faint, &view.style.fit(&format!("  {told}"), view.style.columns())));
    lines
}

/// Why the last thread to stop was late, by cause.
fn stops(view: &View) -> Vec<String> {
    let rendezvous = &view.analysis.derived.rendezvous;
    let causes = rendezvous.late_causes(None);
    if causes.is_empty() {
        return Vec::new();
    }
    let late: u64 = causes.iter().map(|used| used.late_ns).sum();
    let columns = [
        Column::Text("the last to stop"),
        Column::Figure("pauses"),
        Column::Figure("late"),
        Column::Figure("share"),
        Column::Text("mostly"),
    ];
    let mostly = |used: &CauseUse| match (used.occupant, used.place) {
        (Some(who), _) => format!("behind {}", view.thread(who)),
        (None, Some(place)) => format!("in {}", clean(&view.trace.frame_name(place))),
        (None, None) => String::new(),
    };
    let row = |used: &CauseUse| {
        vec![
            used.cause.name().replace('-', " "),
            count(used.times),
            duration(used.late_ns),
            percent(share(used.late_ns, late)),
            mostly(used),
        ]
    };
    let rows: Vec<Vec<String>> = causes.iter().map(row).collect();
    let mut lines = vec![String::new()];
    lines.extend(table::lines(&columns, &rows, view.style));
    lines
}
