//! `api/search`: threads, functions, spans, processes, locks and findings by a part of their name.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use holdup_events::ThreadId;
use holdup_events::tables::SpanRow;
use serde_json::{Value, json};

use super::summary::ranked_threads;
use super::{Ask, Refusal, Viewer, to_text};
use crate::numbers::{counted, duration};

/// Results of each kind.
const RESULTS_MAX: usize = 20;

pub(super) fn answer(viewer: &Viewer, ask: &Ask) -> Result<String, Refusal> {
    let wanted = ask.text("q").unwrap_or_default().to_lowercase();
    if wanted.is_empty() {
        return Ok(to_text(&json!({"results": []})));
    }
    let is_wanted = |name: &str| name.to_lowercase().contains(&wanted);
    let mut results = Vec::new();
    results.extend(findings(viewer, &is_wanted).into_iter().take(RESULTS_MAX));
    results.extend(threads(viewer, &is_wanted).into_iter().take(RESULTS_MAX));
    results.extend(functions(viewer, &is_wanted));
    results.extend(spans(viewer, &is_wanted));
    results.extend(processes(viewer, &is_wanted).into_iter().take(RESULTS_MAX));
    results.extend(locks(viewer, &is_wanted).into_iter().take(RESULTS_MAX));
    Ok(to_text(&json!({"results": results})))
}

fn result(kind: &str, name: &str, detail: &str, place: (i64, u64, u64)) -> Value {
    let (thread, start_ns, end_ns) = place;
    json!({"kind": kind, "name": name, "detail": detail, "thread": thread, "start_ns": start_ns, "end_ns": end_ns})
}

fn life(viewer: &Viewer, id: ThreadId) -> (i64, u64, u64) {
    let thread = &viewer.trace.threads[id.index()];
    (i64::from(id.0), viewer.since(thread.start), viewer.since(thread.end))
}

fn whole(viewer: &Viewer) -> (i64, u64, u64) {
    (-1, 0, viewer.trace.wall().0)
}

fn findings(viewer: &Viewer, is_wanted: &dyn Fn(&str) -> bool) -> Vec<Value> {
    let found =
        viewer.analysis().findings.iter().filter(|one| is_wanted(one.rule) || is_wanted(&one.subject));
    let row = |finding: &holdup_findings::Finding| {
        let place = finding.evidence.first().map_or(whole(viewer), |row| {
            (i64::from(row.thread.0), viewer.since(row.start), viewer.since(row.start + row.duration))
        });
        result("finding", finding.rule, &finding.subject, place)
    };
    found.map(row).collect()
}

fn threads(viewer: &Viewer, is_wanted: &dyn Fn(&str) -> bool) -> Vec<Value> {
    let foreign = (0..viewer.trace.threads.len() as u32).map(ThreadId);
    let foreign = foreign.filter(|id| !viewer.trace.threads[id.index()].target);
    let all = ranked_threads(viewer).into_iter().chain(foreign);
    let matching = all.filter(|id| {
        let thread = &viewer.trace.threads[id.index()];
        is_wanted(&thread.name) || is_wanted(&thread.tid.to_string())
    });
    let row = |id: ThreadId| {
        let thread = &viewer.trace.threads[id.index()];
        let process = viewer.trace.process_name(thread.process);
        result("thread", &thread.name, &format!("tid {} of {process}", thread.tid), life(viewer, id))
    };
    matching.take(RESULTS_MAX).map(row).collect()
}

fn functions(viewer: &Viewer, is_wanted: &dyn Fn(&str) -> bool) -> Vec<Value> {
    let mut found: BTreeSet<(&str, &str)> = BTreeSet::new();
    for frame in viewer.trace.frames.iter().filter(|frame| is_wanted(&frame.function)) {
        found.insert((frame.function.as_str(), frame.module.as_str()));
    }
    // Names equal to the text, or beginning with it, come first.
    let mut ranked: Vec<_> = found.into_iter().collect();
    ranked.sort_by_key(|(name, module)| (name.len(), *name, *module));
    let row = |(name, module): (&str, &str)| result("function", name, module, whole(viewer));
    ranked.into_iter().take(RESULTS_MAX).map(row).collect()
}

/// Summary of the spans of a name.
#[derive(Clone, Copy, Default)]
struct SpanUse {
    count: u64,
    longest: SpanRow,
}

/// Each name once, with its longest span. The longest spans come first.
fn spans(viewer: &Viewer, is_wanted: &dyn Fn(&str) -> bool) -> Vec<Value> {
    let names = &viewer.trace.names;
    // Each lane records a name separately. Here they are one.
    let mut wanted: BTreeMap<&str, SpanUse> = BTreeMap::new();
    let texts: Vec<Option<&str>> =
        names.iter().map(|name| Some(name.text.as_str()).filter(|text| is_wanted(text))).collect();
    if texts.iter().all(Option::is_none) {
        return Vec::new();
    }
    for span in viewer.trace.spans.rows() {
        let Some(text) = texts.get(span.name as usize).copied().flatten() else { continue };
        let found = wanted.entry(text).or_default();
        if found.count == 0 || length(&found.longest) < length(span) {
            found.longest = *span;
        }
        found.count += 1;
    }
    let mut found: Vec<(&str, SpanUse)> = wanted.into_iter().collect();
    found.sort_by_key(|(text, found)| (Reverse(length(&found.longest)), *text));
    let row = |(text, found): (&str, SpanUse)| {
        let SpanRow { thread, start, end, .. } = found.longest;
        let detail = match found.count {
            1 => duration(length(&found.longest)),
            many => format!("{}, the longest {}", counted(many, "span"), duration(length(&found.longest))),
        };
        result("span", text, &detail, (i64::from(thread.0), viewer.since(start), viewer.since(end)))
    };
    found.into_iter().take(RESULTS_MAX).map(row).collect()
}

fn length(span: &SpanRow) -> u64 {
    span.end.since(span.start).0
}

fn processes(viewer: &Viewer, is_wanted: &dyn Fn(&str) -> bool) -> Vec<Value> {
    let matching = viewer.trace.processes.iter().enumerate().filter(|(_, one)| is_wanted(&one.name));
    let row = |(number, process): (usize, &holdup_events::tables::Process)| {
        let first = viewer.trace.threads.iter().position(|thread| thread.process.index() == number);
        let place = first.map_or(whole(viewer), |thread| life(viewer, ThreadId(thread as u32)));
        result("process", &process.name, &format!("pid {}", process.pid), place)
    };
    matching.take(RESULTS_MAX).map(row).collect()
}

fn locks(viewer: &Viewer, is_wanted: &dyn Fn(&str) -> bool) -> Vec<Value> {
    let matching = viewer.analysis().derived.locks.iter().filter(|lock| is_wanted(&lock.name));
    let row = |lock: &holdup_findings::derive::locks::LockUse| {
        result("lock", &lock.name, &format!("{} waits", lock.waits), whole(viewer))
    };
    matching.map(row).collect()
}
