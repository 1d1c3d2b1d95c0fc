//! Readers of data races on the reports of the tools (fixtures/races), whole, cut and broken.

use holdup_decode::readers::{self, Facts, ReadError, Wanted};
use holdup_events::Event;
use holdup_events::event::RuntimeEventKind;
use proptest::prelude::*;

const ALL: [(&str, &str); 4] = [
    ("tsan.txt", "thread-sanitizer"),
    ("go.txt", "go-race"),
    ("helgrind.txt", "valgrind-races"),
    ("drd.txt", "valgrind-races"),
];

fn fixture(name: &str) -> Vec<u8> {
    let path = format!("{}/../../fixtures/races/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn read(bytes: &[u8]) -> Result<(Vec<Event>, Facts), ReadError> {
    let mut events = Vec::new();
    let facts = readers::detect(bytes)?.read(bytes, &Wanted::default(), &mut |event| events.push(event))?;
    Ok((events, facts))
}

/// Marks of a report.
fn marks(events: &[Event]) -> Vec<(u64, String)> {
    let mark = |event: &Event| match event {
        Event::Runtime(tell) => match &tell.what {
            RuntimeEventKind::Mark { value, text } => Some((*value, text.to_string())),
            _ => None,
        },
        _ => None,
    };
    events.iter().filter_map(mark).collect()
}

#[test]
fn the_format_of_each_race_report_is_detected_by_content() {
    for (name, format) in ALL {
        assert_eq!(readers::detect(&fixture(name)).unwrap().info().name, format, "{name}");
    }
}

#[test]
fn both_accesses_and_the_memory_are_emitted() {
    let (events, facts) = read(&fixture("tsan.txt")).unwrap();
    let said = marks(&events);
    assert_eq!((facts.sources[0].events, said.len()), (2, 2));
    assert_eq!(said[0].0, 0x5555_5555_8070);
    let expected =
        "Read of size 8 by thread T2\nPrevious write of size 8 by thread T1\nglobal 'total' of size 8";
    assert!(said[0].1.starts_with(expected), "{}", said[0].1);

    let said = marks(&read(&fixture("go.txt")).unwrap().0);
    assert_eq!(said.len(), 1);
    assert_eq!(said[0].1, "Read by goroutine 8\nPrevious write by goroutine 7\n");

    let said = marks(&read(&fixture("helgrind.txt")).unwrap().0);
    assert!(said.len() >= 2, "{said:?}");
    assert!(
        said[0].1.starts_with("read of size 8 by thread #3\nwrite of size 8 by thread #2\n"),
        "{}",
        said[0].1
    );
    assert!(said[0].1.ends_with("data symbol \"total\""), "{}", said[0].1);

    let said = marks(&read(&fixture("drd.txt")).unwrap().0);
    assert!(said[0].1.starts_with("load of size 8 by thread 3\n"), "{}", said[0].1);
    assert!(said[0].1.contains("thread 2"), "{}", said[0].1);
}

#[test]
fn cut_reports_do_no_harm() {
    for (name, _) in ALL {
        let bytes = fixture(name);
        for length in 0..bytes.len() {
            let _ = read(&bytes[..length]);
        }
    }
}

proptest! {
    #[test]
    fn damaged_reports_do_no_harm(which in 0..ALL.len(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = fixture(ALL[which].0);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = read(&bytes);
    }
}
