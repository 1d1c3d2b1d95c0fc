//! Single lines, of several versions of the JDK.

use super::super::collections::Heap;
use super::*;

#[test]
fn collections_have_name_and_length() {
    let of = |text| collection(text);
    assert_eq!(
        of("GC(3) Pause Young (Normal) (G1 Evacuation Pause) 27M->5M(64M) 139.931ms"),
        Some(("Pause Young (Normal)", 139_931_000))
    );
    assert_eq!(
        of("GC(5) Pause Full (System.gc()) 38M->3M(17M) 100.696ms"),
        Some(("Pause Full", 100_696_000))
    );
    assert_eq!(of("GC(7) Concurrent Mark Cycle 3.5ms"), Some(("Concurrent Mark Cycle", 3_500_000)));
    assert_eq!(of("GC(7) y: Pause Mark Start 0.005ms"), Some(("Pause Mark Start", 5_000)));
    assert_eq!(of("GC(2) Pause Remark 13M->13M(64M) 2.5ms"), Some(("Pause Remark", 2_500_000)));
    assert_eq!(
        of("GC(0) Major Collection (Warmup) 14M(11%)->12M(9%) 0.031s"),
        Some(("Major Collection", 31_000_000))
    );
    for other in
        ["GC(3) Pause Young (Normal) (G1 Evacuation Pause)", "GC(3) Using 2 workers", "GC(x) Pause 1ms"]
    {
        assert_eq!(of(other), None, "{other}");
    }
    let (before, after) = (27 << 20, 5 << 20);
    assert_eq!(
        heap("GC(3) Pause Young 27M->5M(64M) 1.0ms"),
        Some(Heap { before, after, size: Some(64 << 20) })
    );
    assert_eq!(
        heap("GC(3) Garbage Collection (x) 27M(62%)->5M(9%)"),
        Some(Heap { before, after, size: None })
    );
    // As other locales write it.
    assert_eq!(of("GC(3) Pause Remark 13M->13M(64M) 2,5ms"), Some(("Pause Remark", 2_500_000)));
}

#[test]
fn whole_collections_of_zgc_may_have_no_length() {
    let of = |text: &'static str| whole(text).map(|whole| (whole.number, whole.name, whole.ends));
    assert_eq!(of("GC(7) Garbage Collection (Warmup)"), Some((7, "Garbage Collection", false)));
    let ends = "GC(7) Garbage Collection (Allocation Stall) 40M(62%)->6M(9%)";
    assert_eq!(of(ends), Some((7, "Garbage Collection", true)));
    assert_eq!(of("GC(0) Major Collection (Warmup) 14M(11%)->12M(9%) 0.031s"), None, "it has one");
    assert_eq!(of("GC(0) Concurrent Mark"), None);
}

#[test]
fn safepoints_of_jdk_11_have_their_own_line() {
    let text = "Total time for which application threads were stopped: 0.0012340 seconds, Stopping threads took: 0,0000410 seconds";
    assert_eq!(stopped_for(text), Some((1_234_000, 41_000)));
    assert!(is_known(text) && !is_known("Application time: 0.1 seconds"));
}

#[test]
fn keys_of_safepoints_differ_between_versions() {
    let old = "Safepoint \"Cleanup\", Time since last: 1 ns, Reaching safepoint: 2 ns, Cleanup: 3 ns, At safepoint: 4 \
               ns, Total: 9 ns";
    let new = "Safepoint \"G1CollectFull\", Time since last: 1 ns, Reaching safepoint: 2 ns, At safepoint: 4 ns, \
               Leaving safepoint: 3 ns, Total: 9 ns, Threads: 1 runnable, 11 total";
    for (text, operation) in [(old, "Cleanup"), (new, "G1CollectFull")] {
        let safepoint = Safepoint::parse(text).unwrap();
        assert_eq!((safepoint.operation, safepoint.reaching_ns, safepoint.total_ns), (operation, 2, 9));
    }
    assert!(Safepoint::parse("Safepoint \"x\", Total: many ns").is_none());
    assert_eq!(waited_for("Thread: 0x00007f5e  [0x1293] State: _running _at_poll_safepoint 0"), Some(0x1293));
    assert_eq!(waited_for("Thread: 0x00007f5e  [0x1293] State: _at_safepoint"), None);
}
