//! Which spans are a runtime's garbage collector, by the names that the runtimes give them.

use holdup_events::tables::SpanKind;

/// V8's, in Node and Chrome.
const V8: &str = "v8";
/// Multicore OCaml's, before 5.0: it writes the domain's number for the process, too.
pub(super) const OCAML: &str = "ocaml eventlog";

/// The kind of a span with this category and name, and the runtime that emits it. Empty for the program's own
/// spans.
pub(super) fn span_kind(categories: &str, name: &str) -> (SpanKind, &'static str) {
    if let Some(kind) = of_v8(categories, name) {
        return (kind, V8);
    }
    if let Some(kind) = of_ocaml(categories, name) {
        return (kind, OCAML);
    }
    match categories.split(',').any(|category| category.trim().eq_ignore_ascii_case("gc")) {
        true => (SpanKind::GcWork, "gc"),
        false => (SpanKind::User, ""),
    }
}

fn of_v8(categories: &str, name: &str) -> Option<SpanKind> {
    if !categories.contains("v8") {
        return None;
    }
    match name {
        "MinorGC" | "MajorGC" => Some(SpanKind::Stop),
        "V8.GC_TIME_TO_SAFEPOINT" => Some(SpanKind::GcWait),
        // Helpers' part of it, on threads that run no JavaScript.
        _ if name.starts_with("V8.GC") && name.contains("BACKGROUND") => Some(SpanKind::GcBeside),
        _ if name.starts_with("V8.GC") => Some(SpanKind::GcWork),
        _ => None,
    }
}

/// The eventlog knows no categories.
fn of_ocaml(categories: &str, name: &str) -> Option<SpanKind> {
    let (area, what) = name.split_once('/').unwrap_or((name, ""));
    match (area, what) {
        _ if !categories.is_empty() => None,
        ("domain", "idle_wait") => Some(SpanKind::Idle),
        ("stw", "leader" | "handler") | ("handle_interrupt" | "handle_remote_interrupt", "") => {
            Some(SpanKind::Stop)
        }
        ("minor_gc" | "major_gc" | "stw" | "domain" | "compact", what) if what.contains("barrier") => {
            Some(SpanKind::GcWait)
        }
        ("minor_gc" | "major_gc" | "stw" | "domain" | "dispatch" | "compact", _) => Some(SpanKind::GcWork),
        _ => None,
    }
}
