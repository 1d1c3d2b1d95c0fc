//! Trace events of Chrome's format: order of begins and ends in the file.

use super::*;

/// Spans as (name, start, end), in µs.
fn spans(import: &Imported) -> Vec<(String, u64, u64)> {
    let trace = &import.trace;
    let name = |span: &holdup_events::tables::SpanRow| trace.event_name(span.name).text.to_string();
    let mut spans: Vec<_> =
        trace.spans.rows().iter().map(|span| (name(span), span.start.0 / 1000, span.end.0 / 1000)).collect();
    spans.sort();
    spans
}

fn of_events(events: &str) -> Imported {
    Imported::read(format!("[{events}]").as_bytes()).unwrap()
}

fn event(phase: &str, id: u32, ts: u32, name: &str) -> String {
    format!(r#"{{"ph":"{phase}","pid":1,"tid":1,"ts":{ts},"cat":"net","name":"{name}","id":{id}}}"#)
}

#[test]
fn an_asynchronous_end_may_stand_before_its_begin() {
    let import = Imported::from_fixture("chrome-async-end-first.json");
    let expected = [("loop".to_owned(), 0, 30), ("request".to_owned(), 10, 20)];
    assert_eq!((spans(&import), import.losses()), (expected.to_vec(), BTreeMap::new()));
}

#[test]
fn asynchronous_spans_of_one_id_nest_in_the_order_of_time() {
    // Each end comes before all begins. The second span with the id begins when the first one ends.
    let events = [
        event("e", 7, 30, "a"),
        event("e", 7, 10, "a"),
        event("e", 7, 8, "inner"),
        event("b", 7, 10, "a"),
        event("b", 7, 2, "inner"),
        event("b", 7, 0, "a"),
        // Without length, and of another id.
        event("e", 8, 5, "moment"),
        event("b", 8, 5, "moment"),
        // An end need not have a name.
        event("e", 9, 50, ""),
        event("b", 9, 40, "unnamed end"),
    ];
    let import = of_events(&events.join(","));
    let expected = [("a", 0, 10), ("a", 10, 30), ("inner", 2, 8), ("moment", 5, 5), ("unnamed end", 40, 50)];
    let expected: Vec<_> = expected.map(|(name, start, end)| (name.to_owned(), start, end)).to_vec();
    assert_eq!((spans(&import), import.losses()), (expected, BTreeMap::new()));
}

#[test]
fn ends_without_a_begin_are_counted_and_begins_without_an_end_last() {
    let events =
        [event("e", 1, 5, "gone"), event("b", 2, 6, "open"), event("b", 3, 7, "x"), event("e", 3, 9, "x")];
    let import = of_events(&events.join(","));
    let expected = [("open".to_owned(), 6, 9), ("x".to_owned(), 7, 9)];
    assert_eq!((spans(&import), import.losses()["end-without-begin"]), (expected.to_vec(), 1));
}
