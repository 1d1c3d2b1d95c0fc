//! What the runtimes' own words say of collections: which spans are one, of which generation, and what counters count.
//!
//! A runtime is told by the first word of its lanes' `runtime`.

/// Which part of the heap a collection is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Generation {
    /// What was allocated of late.
    Young,
    /// All of it, or a whole cycle of work on it.
    Old,
}

/// Of a runtime in which several threads take part in a collection, and one leads it.
pub(super) fn is_led(runtime: &str) -> bool {
    runtime.starts_with("ocaml")
}

/// Of a runtime whose lanes may have a second thread, which answers while the first is blocked in a call.
pub(super) fn has_deputies(runtime: &str) -> bool {
    runtime.starts_with("ocaml ") && !runtime.starts_with("ocaml eventlog")
}

/// Of a runtime whose threads try again and again, running, while another one leads.
pub(super) fn retries(runtime: &str) -> bool {
    has_deputies(runtime)
}

/// Spans of the thread that leads a collection of such a runtime.
pub(super) fn leads(name: &str) -> bool {
    matches!(name, "stw_leader" | "stw/leader")
}

/// Which collection a span is one of; several of one are counted as several.
pub(super) fn generation(runtime: &str, name: &str) -> Option<Generation> {
    use Generation::{Old, Young};
    match (runtime.split(' ').next().unwrap_or(""), name) {
        ("ocaml", "minor" | "minor_gc") => Some(Young),
        ("ocaml", "major_gc_cycle_domains" | "major_gc/cycle_domains") => Some(Old),
        ("ghc", "gc generation 0") => Some(Young),
        ("ghc", name) if name.starts_with("gc generation ") => Some(Old),
        ("go", "gc cycle" | "mark termination") => Some(Old),
        ("v8", "Scavenge" | "MinorGC" | "Minor Mark-Sweep" | "Minor Mark-Compact") => Some(Young),
        ("v8", "Mark-Compact" | "Mark-sweep" | "Mark-Sweep" | "MajorGC") => Some(Old),
        ("hotspot", "Minor Collection") => Some(Young),
        ("hotspot", "Major Collection" | "Garbage Collection") => Some(Old),
        ("hotspot", name) if name.starts_with("Pause Young") => Some(Young),
        // A cycle that marks beside the program has one; a full collection is one.
        ("hotspot", "Pause Full" | "Pause Remark" | "Pause Final Mark") => Some(Old),
        _ => None,
    }
}

/// Which collection a mark is one of: probes say by marks of which generation a collection is, and a log has marks for collections of
/// which it does not have the length.
pub(super) fn marked_generation(runtime: &str, name: &str) -> Option<Generation> {
    (runtime == "ghc" || runtime == "hotspot").then(|| generation(runtime, name)).flatten()
}

/// What a counter's value adds to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counts {
    /// Bytes allocated since the value before.
    Allocated,
    /// Bytes that survived, since the value before.
    Promoted,
    /// The heap's size, in units of so many bytes.
    Heap(u64),
}

/// What a counter counts.
pub(super) fn counts(name: &str) -> Option<Counts> {
    match name {
        "minor_allocated" | "allocated_bytes" => Some(Counts::Allocated),
        "minor_promoted" | "promoted_bytes" => Some(Counts::Promoted),
        "major_heap_words" | "major_heap_pool_words" => Some(Counts::Heap(8)),
        "heap_bytes" => Some(Counts::Heap(1)),
        _ => None,
    }
}
