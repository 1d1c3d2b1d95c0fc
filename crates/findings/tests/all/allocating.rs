//! The unnecessary part of allocating and freeing, estimated from the peak of memory.

use holdup_events::recording::MemoryUse;
use holdup_findings::analyse;
use holdup_findings::finding::{Confidence, Finding};
use holdup_testkit::check::trace_of_lanes;

/// One thread that allocates and frees for 100 ms of 160, in functions with a self time of `own` per 8 ms.
/// The command's peak of memory was `peak_bytes`. 0: not known.
fn allocating(own: u64, peak_bytes: u64) -> Finding {
    let picture = format!(
        "@cpus 2\n@repeat 20\n@samples A 0..3 user start_thread;main;compare;malloc;_int_malloc\n\
         @samples A 3..5 user start_thread;main;compare;free;_int_free\n\
         @samples A 5..{} user start_thread;main;compare\n@samples A {}..8 user start_thread;main\n\
         A  00000000\n",
        5 + own,
        5 + own
    );
    let (_, mut trace) = trace_of_lanes(&picture);
    trace.manifest.memory = Some(MemoryUse { minor_faults: 1, peak_bytes, page_bytes: 4096 });
    let found = analyse(&trace).findings.into_iter().find(|finding| finding.rule == "allocation-hotspot");
    found.expect("a finding")
}

#[test]
fn blocks_beyond_the_most_memory_that_there_was_could_have_been_kept() {
    // 100,000 blocks of 16 bytes and more, in 100,000 bytes.
    let finding = allocating(0, 100_000);
    assert_eq!(finding.confidence, Confidence::Medium, "{finding:#?}");
    assert!((0.4..0.6).contains(&finding.gain.low), "{:?}", finding.gain);
    assert!(
        finding.summary.iter().any(|line| line.contains("reused memory of freed blocks")),
        "{:?}",
        finding.summary
    );
}

#[test]
fn blocks_that_may_all_have_been_kept_are_a_hint() {
    for peak_bytes in [10_000_000, 0] {
        let finding = allocating(0, peak_bytes);
        assert_eq!((finding.confidence, finding.gain.low), (Confidence::Low, 0.0), "{peak_bytes}");
    }
}

#[test]
fn functions_that_do_little_but_allocate_may_go_too() {
    let (without, with) = (allocating(1, 0).gain.high, allocating(2, 0).gain.high);
    assert!(with > without && without > 0.7, "{without} {with}");
}
