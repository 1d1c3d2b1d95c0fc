//! Meaning of each runtime's span, mark and counter names: collections, their generation, and heap sizes.
//!
//! The first word of a lane's `runtime` identifies the runtime.

/// Which part of the heap a collection is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Generation {
    /// Recently allocated objects.
    Young,
    /// The whole heap, or a whole cycle of work on it.
    Old,
}

/// Whether several threads take part in a collection of this runtime, and one leads it.
pub(super) fn is_led(runtime: &str) -> bool {
    runtime.starts_with("ocaml")
}

/// Whether a lane of this runtime may have a second thread, which answers while the first is blocked in a
/// call.
pub(super) fn has_deputies(runtime: &str) -> bool {
    runtime.starts_with("ocaml ") && !runtime.starts_with("ocaml eventlog")
}

/// Whether this runtime's threads retry in a loop while another thread leads.
pub(super) fn retries(runtime: &str) -> bool {
    has_deputies(runtime)
}

/// Spans of the thread that leads a collection of such a runtime.
pub(super) fn leads(name: &str) -> bool {
    matches!(name, "stw_leader" | "stw/leader")
}

/// Generation of a collection's span. `None` for other spans. Each of several spans of one collection counts.
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
        // A concurrent mark cycle has one of these pauses, and a full collection is one.
        ("hotspot", "Pause Full" | "Pause Remark" | "Pause Final Mark") => Some(Old),
        _ => None,
    }
}

/// Generation of a collection's mark. Probes report the generation of a collection by marks. Logs have marks
/// for collections of unknown length.
pub(super) fn marked_generation(runtime: &str, name: &str) -> Option<Generation> {
    (runtime == "ghc" || runtime == "hotspot").then(|| generation(runtime, name)).flatten()
}

/// Total that a counter's value adds to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counts {
    /// Bytes allocated since the value before.
    Allocated,
    /// Bytes that survived, since the value before.
    Promoted,
    /// Size of the heap, in units of this number of bytes.
    Heap(u64),
}

/// Meaning of a counter.
pub(super) fn counts(name: &str) -> Option<Counts> {
    match name {
        "minor_allocated" | "allocated_bytes" => Some(Counts::Allocated),
        "minor_promoted" | "promoted_bytes" => Some(Counts::Promoted),
        "major_heap_words" | "major_heap_pool_words" => Some(Counts::Heap(8)),
        "heap_bytes" => Some(Counts::Heap(1)),
        _ => None,
    }
}
