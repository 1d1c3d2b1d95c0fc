//! What the runtime's ids mean. The names are OCaml's own (`Runtime_events.runtime_phase_name`).

use holdup_events::tables::SpanKind;

use super::version::Numbering;

/// Phases of OCaml 5.0 to 5.2. In 5.0 and 5.1, `domain_resize_heap_reservation` is the last one.
const OLD: &[&str] = &[
    "explicit_gc_set",
    "explicit_gc_stat",
    "explicit_gc_minor",
    "explicit_gc_major",
    "explicit_gc_full_major",
    "explicit_gc_compact",
    "major",
    "major_sweep",
    "major_mark_roots",
    "major_mark",
    "minor",
    "minor_local_roots",
    "minor_finalized",
    "explicit_gc_major_slice",
    "finalise_update_first",
    "finalise_update_last",
    "interrupt_remote",
    "major_ephe_mark",
    "major_ephe_sweep",
    "major_finish_marking",
    "major_gc_cycle_domains",
    "major_gc_phase_change",
    "major_gc_stw",
    "major_mark_opportunistic",
    "major_slice",
    "major_finish_cycle",
    "minor_clear",
    "minor_finalizers_oldify",
    "minor_global_roots",
    "minor_leave_barrier",
    "stw_api_barrier",
    "stw_handler",
    "stw_leader",
    "major_finish_sweeping",
    "minor_finalizers_admin",
    "minor_remembered_set",
    "minor_remembered_set_promote",
    "minor_local_roots_promote",
    "domain_condition_wait",
    "domain_resize_heap_reservation",
    "compact",
    "compact_evacuate",
    "compact_forward",
    "compact_release",
];

/// Phases since OCaml 5.3. Version 5.4 added `empty_minor`.
const NEW: &[&str] = &[
    "explicit_gc_set",
    "explicit_gc_stat",
    "explicit_gc_minor",
    "explicit_gc_major",
    "explicit_gc_full_major",
    "explicit_gc_compact",
    "major",
    "major_sweep",
    "major_mark_roots",
    "major_memprof_roots",
    "major_mark",
    "minor",
    "minor_local_roots",
    "minor_memprof_roots",
    "minor_memprof_clean",
    "minor_finalized",
    "explicit_gc_major_slice",
    "finalise_update_first",
    "finalise_update_last",
    "interrupt_remote",
    "major_ephe_mark",
    "major_ephe_sweep",
    "major_finish_marking",
    "major_gc_cycle_domains",
    "major_gc_phase_change",
    "major_gc_stw",
    "major_mark_opportunistic",
    "major_slice",
    "major_finish_cycle",
    "minor_clear",
    "minor_finalizers_oldify",
    "minor_global_roots",
    "minor_leave_barrier",
    "stw_api_barrier",
    "stw_handler",
    "stw_leader",
    "major_finish_sweeping",
    "major_memprof_clean",
    "minor_finalizers_admin",
    "minor_remembered_set",
    "minor_remembered_set_promote",
    "minor_local_roots_promote",
    "domain_condition_wait",
    "domain_resize_heap_reservation",
    "compact",
    "compact_evacuate",
    "compact_forward",
    "compact_release",
    "empty_minor",
    "minor_ephe_clean",
];

/// Counters. OCaml 5.0 has the first 11, 5.1 and 5.2 the first 17, 5.3 and 5.4 the first 26.
const COUNTERS: &[&str] = &[
    "force_minor_alloc_small",
    "force_minor_make_vect",
    "force_minor_set_minor_heap_size",
    "force_minor_memprof",
    "minor_promoted",
    "minor_allocated",
    "request_major_alloc_shr",
    "request_major_adjust_gc_speed",
    "request_minor_realloc_ref_table",
    "request_minor_realloc_ephe_ref_table",
    "request_minor_realloc_custom_table",
    "major_heap_pool_words",
    "major_heap_pool_live_words",
    "major_heap_large_words",
    "major_heap_pool_frag_words",
    "major_heap_pool_live_blocks",
    "major_heap_large_blocks",
    "major_heap_words",
    "major_allocated_words",
    "major_allocated_work",
    "major_dependent_work",
    "major_extra_work",
    "major_work_counter",
    "major_alloc_counter",
    "major_slice_target",
    "major_slice_budget",
    "minor_allocated_words",
    "minor_promoted_words",
];

/// Id of the barrier of stopped threads, and ids of the spans that must contain it.
pub fn barrier_ids(numbering: Numbering) -> (u16, [u16; 2]) {
    let id = |name: &str| phases(numbering).iter().position(|phase| *phase == name).unwrap_or(0) as u16;
    (id("stw_api_barrier"), [id("stw_handler"), id("stw_leader")])
}

fn phases(numbering: Numbering) -> &'static [&'static str] {
    match numbering {
        Numbering::Old => OLD,
        Numbering::New => NEW,
    }
}

/// Name of a phase, if the version has it.
pub fn phase(numbering: Numbering, id: u16) -> Option<&'static str> {
    phases(numbering).get(usize::from(id)).copied()
}

/// Name of a counter.
pub fn counter(id: u16) -> Option<&'static str> {
    COUNTERS.get(usize::from(id)).copied()
}

/// Kind of a phase's time, without the phases nested in it.
pub fn phase_kind(name: &str) -> SpanKind {
    match name {
        "stw_api_barrier" | "minor_leave_barrier" => SpanKind::GcWait,
        "stw_leader" | "stw_handler" | "interrupt_remote" => SpanKind::Stop,
        // A program's own Condition.wait.
        "domain_condition_wait" => SpanKind::Idle,
        _ => SpanKind::GcWork,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_of_the_runtimes_headers() {
        assert_eq!((OLD.len(), NEW.len(), COUNTERS.len()), (44, 50, 28));
        for (numbering, name, id) in [
            (Numbering::Old, "minor", 10),
            (Numbering::Old, "stw_leader", 32),
            (Numbering::Old, "compact", 40),
            (Numbering::New, "minor", 11),
            (Numbering::New, "major_gc_stw", 25),
            (Numbering::New, "minor_leave_barrier", 32),
            (Numbering::New, "stw_leader", 35),
            (Numbering::New, "domain_condition_wait", 42),
            (Numbering::New, "empty_minor", 48),
        ] {
            assert_eq!(phase(numbering, id), Some(name));
        }
        assert_eq!((counter(5), counter(17)), (Some("minor_allocated"), Some("major_heap_words")));
        assert_eq!(barrier_ids(Numbering::New), (33, [34, 35]));
        assert_eq!(barrier_ids(Numbering::Old), (30, [31, 32]));
        assert_eq!(phase(Numbering::New, 50), None);
    }
}
