//! Small eventlogs, written by hand.

use holdup_events::event::{Tell, Told as Word};

use super::*;

/// A file with these events: (id, time, capability, body).
fn log(events: &[(u16, u64, u16, &[u8])]) -> Vec<u8> {
    let mut bytes = layout::MAGIC.to_vec();
    let kinds: [(u16, u16); 8] = [
        (id::RUN_THREAD, 4),
        (id::STOP_THREAD, 10),
        (id::GC_START, 0),
        (id::GC_END, 0),
        (id::REQUEST_PAR_GC, 0),
        (id::GC_WORK, 0),
        (id::GC_STATS, u16::MAX),
        (18, 14),
    ];
    for (id, length) in kinds {
        bytes.extend(b"etb\0");
        bytes.extend(id.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        bytes.extend(1u32.to_be_bytes());
        bytes.extend(b"x");
        bytes.extend(0u32.to_be_bytes());
        bytes.extend(b"ete\0");
    }
    bytes.extend(b"hetehdredatb");
    for (id, at, capability, body) in events {
        for (id, body) in [(18, block(*capability)), (*id, body.to_vec())] {
            bytes.extend(id.to_be_bytes());
            bytes.extend(at.to_be_bytes());
            if id == super::id::GC_STATS {
                bytes.extend((body.len() as u16).to_be_bytes());
            }
            bytes.extend(body);
        }
    }
    bytes.extend([0xff, 0xff]);
    bytes
}

fn block(capability: u16) -> Vec<u8> {
    [&[0; 12][..], &capability.to_be_bytes()].concat()
}

fn read(bytes: &[u8]) -> Vec<String> {
    let mut lines = Vec::new();
    let told = Format.read(bytes, &Wanted::default(), &mut |event| {
        if let Event::Tell(Tell { at, lane, what, name, .. }) = event {
            let what = match what {
                Word::Begin(_) => "+",
                Word::End => "-",
                Word::Mark { .. } => "!",
                _ => return,
            };
            lines.push(format!("{} {lane} {what}{name}", at.0));
        }
    });
    told.unwrap();
    lines
}

#[test]
fn a_collection_of_two_ends_with_the_one_that_asked() {
    let generation: &[u8] = &[0, 0, 0, 0, 0, 1];
    let bytes = log(&[
        (id::RUN_THREAD, 5, 0, &[0, 0, 0, 7]),
        (id::STOP_THREAD, 10, 0, &[0, 0, 0, 7, 0, 7, 0, 0, 0, 0]),
        (id::REQUEST_PAR_GC, 10, 0, &[]),
        (id::GC_START, 12, 1, &[]),
        (id::GC_START, 13, 0, &[]),
        (id::GC_WORK, 14, 1, &[]),
        (id::GC_END, 20, 0, &[]),
        (id::GC_STATS, 21, 0, generation),
        (id::GC_END, 90, 1, &[]),
    ]);
    let expected = [
        "5 0 +thread 7",
        "10 0 -thread 7",
        "10 0 !blocked on MVar",
        "10 0 +gc request",
        "12 1 +gc helper",
        "13 0 -gc request",
        "13 0 +gc generation 1",
        "14 1 +gc working",
        "20 0 -gc generation 1",
        "20 1 -gc working",
        "20 1 -gc helper",
    ];
    assert_eq!(read(&bytes), expected);
}

#[test]
fn a_cut_log_is_a_loss() {
    let bytes = log(&[(id::RUN_THREAD, 5, 0, &[0, 0, 0, 7]), (id::GC_START, 9, 0, &[])]);
    let mut losses = 0;
    let facts = Format
        .read(&bytes[..bytes.len() - 3], &Wanted::default(), &mut |event| {
            losses += u64::from(matches!(event, Event::Loss(_)));
        })
        .unwrap();
    assert!(losses == 1 && facts.sources[0].lost == 1);
    assert!(Format.read(&bytes[..40], &Wanted::default(), &mut |_| {}).is_err());
}
