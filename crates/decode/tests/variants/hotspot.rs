//! HotSpot's logs: decimal commas, late lines, ZGC's collections and stalls.

use super::*;

/// Spans as (thread, name, length in ns), in the order of their starts.
fn spans(import: &Imported) -> Vec<(String, String, u64)> {
    let trace = &import.trace;
    let mut rows: Vec<_> = trace.spans.rows().iter().collect();
    rows.sort_by_key(|span| (span.start, std::cmp::Reverse(span.end)));
    let name = |span: &holdup_events::tables::SpanRow| trace.event_name(span.name).text.to_string();
    let thread = |span: &holdup_events::tables::SpanRow| trace.threads[span.thread.index()].name.clone();
    rows.iter().map(|span| (thread(span), name(span), span.end.since(span.start).0)).collect()
}

fn of_text(text: &str) -> Imported {
    Imported::read(text.as_bytes()).unwrap()
}

#[test]
fn a_decimal_comma_is_a_point() {
    let comma = Imported::from_fixture("hotspot-comma.log");
    let point = Imported::from_fixture("hotspot-point.log");
    let names = |import: &Imported| spans(import).into_iter().map(|(_, name, _)| name).collect::<Vec<_>>();
    assert_eq!(names(&comma), names(&point));
    assert!(names(&comma).iter().any(|name| name == "Pause Young (Normal)"));
    // The same log with the other sign is the same.
    let text = String::from_utf8(fixture("hotspot-comma.log")).unwrap();
    let digit = |at: Option<char>| at.is_some_and(|letter| letter.is_ascii_digit());
    let letters: Vec<char> = text.chars().collect();
    let as_point = |place: usize, letter: char| match letter {
        ',' if place > 0
            && digit(letters.get(place - 1).copied())
            && digit(letters.get(place + 1).copied()) =>
        {
            '.'
        }
        other => other,
    };
    let same: String = letters.iter().enumerate().map(|(place, letter)| as_point(place, *letter)).collect();
    assert_eq!(spans(&of_text(&same)), spans(&comma));
}

#[test]
fn the_first_pause_may_come_late() {
    let other =
        "[0.001s][info][os,thread] Thread 1 started (pthread id: 140000000001, attributes: guardsize: 0k).\n";
    let pause = "[1.481s][info][gc] GC(0) Pause Young (Normal) (G1 Evacuation Pause) 10M->1M(128M) 6.572ms\n";
    let import = of_text(&(other.repeat(2000) + pause));
    assert_eq!(spans(&import), [("VM Thread".to_owned(), "Pause Young (Normal)".to_owned(), 6_572_000)]);
    let error = Imported::read(other.repeat(20).as_bytes()).err().unwrap().to_string();
    assert!(error.starts_with("HotSpot's log without safepoints and collections"), "{error}");
}

#[test]
fn threads_that_stall_for_memory_wait() {
    let import = Imported::from_fixture("zgc-stalls.log");
    let stalls: Vec<_> = spans(&import).into_iter().filter(|(_, name, _)| name.contains("Stall")).collect();
    let expected =
        [("worker-0", "Allocation Stall", 202_907_000), ("worker-2", "Relocation Stall", 1_025_000)];
    let expected = expected.map(|(thread, name, ns)| (thread.to_owned(), name.to_owned(), ns));
    assert_eq!(stalls, expected);
    let kinds = import
        .trace
        .spans
        .rows()
        .iter()
        .filter(|span| import.trace.event_name(span.name).kind == SpanKind::GcWait)
        .count();
    assert_eq!((kinds, import.losses()), (2, BTreeMap::new()));
    // One that lies within another, and one behind the other by a coarse clock: each has its length.
    let import = Imported::from_fixture("zgc-default.log");
    let lengths: u64 = spans(&import).iter().map(|(_, _, ns)| ns).sum();
    assert_eq!(
        lengths,
        3_039_000 + 55_729_000 + 4_542_000 + 51_964_000 + 51_857_000 + 47_996_000 + 9_147_000
    );
}

#[test]
fn collections_of_zgc_without_a_length_are_counted() {
    let import = of_text(
        "[0.006s][info][gc] Using The Z Garbage Collector\n\
         [0.100s][info][gc] GC(0) Garbage Collection (Warmup) 20M(31%)->4M(6%)\n\
         [0.200s][info][gc] GC(1) Garbage Collection (Allocation Rate) 40M(62%)->6M(9%)\n",
    );
    let trace = &import.trace;
    let names: Vec<_> = trace.marks.iter().map(|mark| trace.event_name(mark.name).text.to_string()).collect();
    assert_eq!(names, ["Garbage Collection", "Garbage Collection"]);
    assert!(import.facts.sources[0].missing.contains("durations and pauses of 2 collections are not in it"));
    let value = |wanted: &str| {
        let rows = trace.counters.iter().filter(|row| &*trace.event_name(row.name).text == wanted);
        rows.map(|row| row.value).collect::<Vec<_>>()
    };
    assert_eq!((value("used_bytes"), value("allocated_bytes")), (vec![4 << 20, 6 << 20], vec![36 << 20]));
    // With the line that announces it, it has a length.
    let import = of_text(
        "[0.1s][info][gc,start] GC(0) Garbage Collection (Warmup)\n\
         [0.2s][info][gc] GC(0) Garbage Collection (Warmup) 20M(31%)->4M(6%)\n",
    );
    let expected = ("concurrent collector".to_owned(), "Garbage Collection".to_owned(), 100_000_000);
    assert_eq!((spans(&import), import.trace.marks.len()), (vec![expected], 0));
}

#[test]
fn safepoints_of_jdk_11_are_read() {
    let import = of_text(
        "[0.5s][info][safepoint] Entering safepoint region: G1CollectForAllocation\n\
         [0.6s][info][safepoint] Leaving safepoint region\n\
         [0.6s][info][safepoint] Total time for which application threads were stopped: 0,0010000 seconds, Stopping threads took: \
         0,0001000 seconds\n",
    );
    let expected = [("safepoint G1CollectForAllocation", 1_000_000), ("reaching safepoint", 100_000)];
    let expected = expected.map(|(name, ns)| ("VM Thread".to_owned(), name.to_owned(), ns));
    assert_eq!(spans(&import), expected);
}
