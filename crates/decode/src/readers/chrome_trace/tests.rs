//! Each kind of entry, as writers write it.

use holdup_events::event::{RuntimeEvent, RuntimeEventKind};
use holdup_events::tables::SpanKind;

use super::*;

fn read(text: &str) -> Result<(Vec<String>, Facts), ReadError> {
    let mut lines = Vec::new();
    assert!(Format.recognises(text.as_bytes()), "{text}");
    let facts = Format.read(text.as_bytes(), &Wanted::default(), &mut |event| match event {
        Event::Runtime(RuntimeEvent { at, tid, what, name, .. }) => {
            let what = match what {
                RuntimeEventKind::Begin(SpanKind::User) => "+".to_owned(),
                RuntimeEventKind::Begin(kind) => format!("+{} ", kind.name()),
                RuntimeEventKind::End => "-".to_owned(),
                RuntimeEventKind::Counter(value) => format!("={value} "),
                RuntimeEventKind::Mark { .. } => "!".to_owned(),
                _ => return,
            };
            lines.push(format!("{} {tid} {what}{name}", at.0));
        }
        Event::Loss(loss) => lines.push(format!("lost {} {}", loss.events, loss.reason)),
        _ => {}
    })?;
    Ok((lines, facts))
}

#[test]
fn spans_counters_and_marks() {
    let (lines, facts) = read(
        r#"{"displayTimeUnit":"ns","traceEvents":[
        {"ph":"M","pid":3,"tid":4,"name":"thread_name","args":{"name":"main"}},
        {"ph":"X","pid":3,"tid":4,"ts":10,"dur":5.5,"name":"outer","cat":"a"},
        {"ph":"E","pid":3,"tid":4,"ts":"12.25"},
        {"ph":"B","pid":3,"tid":4,"ts":11,"name":"inner"},
        {"ph":"C","pid":3,"tid":4,"ts":12,"name":"heap","args":{"used":7,"free":1.9}},
        {"ph":"i","pid":3,"tid":4,"ts":13,"name":"now","s":"t"},
        {"ph":"s","pid":3,"tid":4,"ts":13,"name":"flow","id":1}]}"#,
    )
    .unwrap();
    let expected = [
        "10000 4 +outer",
        "11000 4 +inner",
        "12000 4 =1 heap free",
        "12000 4 =7 heap used",
        "12250 4 -inner",
        "13000 4 !now",
        "15500 4 -outer",
    ];
    assert_eq!(lines, expected);
    assert!(facts.sources[0].missing.starts_with("1 events of kinds"));
}

#[test]
fn a_list_without_its_end_is_a_loss() {
    let (lines, _) =
        read("[{\"ph\":\"X\",\"ts\":1,\"dur\":1,\"name\":\"a\",\"pid\":1,\"tid\":1},\n").unwrap();
    assert_eq!(lines, ["lost 1 truncated", "1000 1 +a", "2000 1 -a"]);
    assert!(matches!(read("[{\"ph\""), Err(ReadError::Broken { .. })));
}

#[test]
fn asynchronous_spans_get_lanes() {
    let (lines, _) = read(
        r#"[{"ph":"b","pid":1,"ts":1,"id":"0x1","cat":"io","name":"read"},
            {"ph":"b","pid":1,"ts":2,"id":"0x2","cat":"io","name":"read"},
            {"ph":"e","pid":1,"ts":4,"id":"0x1","cat":"io","name":"read"},
            {"ph":"e","pid":1,"ts":5,"id":"0x2","cat":"io","name":"read"},
            {"ph":"e","pid":1,"ts":6,"id":"0x3","cat":"io","name":"read"}]"#,
    )
    .unwrap();
    let tid: Vec<&str> = lines.iter().filter_map(|line| line.split(' ').nth(1)).collect();
    assert_eq!(lines[0], "lost 1 end-without-begin");
    assert!(lines.len() == 5 && tid[1] == tid[3] && tid[2] == tid[4] && tid[1] != tid[2], "{lines:?}");
}

#[test]
fn collectors_are_known_by_their_words() {
    let of = |category, name| kinds::span_kind(category, name).0;
    assert_eq!(of("devtools.timeline,v8", "MinorGC"), SpanKind::Stop);
    assert_eq!(of("disabled-by-default-v8.gc", "V8.GC_SCAVENGER_BACKGROUND_SCAVENGE"), SpanKind::GcBeside);
    assert_eq!(of("", "domain/idle_wait"), SpanKind::Idle);
    assert_eq!(of("", "minor_gc/leave_barrier"), SpanKind::GcWait);
    assert_eq!(of("", "dispatch"), SpanKind::GcWork);
    // The words of others are theirs.
    assert_eq!(of("app", "dispatch"), SpanKind::User);
    assert_eq!(of("app", "MinorGC"), SpanKind::User);
}
