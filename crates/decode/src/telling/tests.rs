//! Reports in any order are emitted in time order, and slices tile.

use super::*;

fn events(build: impl FnOnce(&mut Telling)) -> (Vec<Event>, Whole) {
    let (mut telling, mut events) = (Telling::default(), Vec::new());
    build(&mut telling);
    let whole = telling.finish("test", &mut |event| events.push(event)).unwrap();
    (events, whole)
}

fn person(tid: u32, name: &str) -> Person {
    Person { pid: 7, tid, lane: tid, name: name.to_owned(), ..Person::default() }
}

fn emitted(events: &[Event]) -> Vec<(u64, u32, String)> {
    let text = |tell: &RuntimeEvent| match &tell.what {
        RuntimeEventKind::Begin(_) => format!("+{}", tell.name),
        RuntimeEventKind::End => format!("-{}", tell.name),
        RuntimeEventKind::Counter(value) => format!("{}={value}", tell.name),
        what => format!("{what:?}"),
    };
    let of = |event: &Event| match event {
        Event::Runtime(tell) => Some((tell.at.0, tell.lane, text(tell))),
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

#[test]
fn spans_nest_whatever_the_order() {
    let (events, whole) = events(|telling| {
        let who = telling.person(person(8, "a")).unwrap();
        telling.span(who, (20, 30), SpanKind::GcWork, "inner");
        telling.counter(who, 25, "words", 3);
        telling.span(who, (10, 40), SpanKind::Stop, "outer");
        telling.span(who, (30, 35), SpanKind::User, "next");
    });
    assert_eq!(whole.span, (Timestamp(10), Timestamp(40)));
    let expected = [
        (10, "LaneStart"),
        (10, "+outer"),
        (20, "+inner"),
        (25, "words=3"),
        (30, "-inner"),
        (30, "+next"),
        (35, "-next"),
        (40, "-outer"),
        (40, "LaneEnd"),
    ];
    let expected: Vec<(u64, u32, String)> =
        expected.into_iter().map(|(at, text)| (at, 8, text.to_owned())).collect();
    assert_eq!(emitted(&events), expected);
}

#[test]
fn threads_with_equal_or_no_tids_get_distinct_tids() {
    let mut telling = Telling::default();
    let first = telling.person(person(8, "a")).unwrap();
    let second = telling.person(person(8, "b")).unwrap();
    let third = telling.person(person(0, "c")).unwrap();
    let mut tid = |who| telling.known(who).unwrap().tid;
    let tids = [tid(first), tid(second), tid(third)];
    assert_eq!(tids, [8, TID_MAX + 1, TID_MAX + 2]);
}

#[test]
fn a_file_without_states_gives_no_states() {
    let (events, _) = events(|telling| {
        let (a, b) = (telling.person(person(8, "a")).unwrap(), telling.person(person(9, "b")).unwrap());
        telling.begin(a, 5, SpanKind::User, "x");
        telling.begin(b, 9, SpanKind::User, "y");
    });
    let born = events.iter().find_map(|event| match event {
        Event::Lifecycle(born) => Some((born.at.0, born.tid)),
        _ => None,
    });
    assert_eq!(born, Some((9, 9)), "the second was not heard of before");
    let states = events.iter().filter_map(|event| match event {
        Event::Snapshot(look) => Some(&look.state),
        _ => None,
    });
    assert!(
        states.clone().count() == 2 && states.into_iter().all(|state| *state == SnapshotState::Untracked)
    );
}

#[test]
fn nothing_and_absurd_times_are_errors() {
    assert_eq!(Telling::default().finish("test", &mut |_| {}), Err(ReadError::Empty));
    let mut telling = Telling::default();
    let who = telling.person(person(8, "a")).unwrap();
    telling.counter(who, 0, "c", 0);
    telling.counter(who, u64::MAX, "c", 0);
    assert!(matches!(telling.finish("test", &mut |_| {}), Err(ReadError::Broken { .. })));
}
