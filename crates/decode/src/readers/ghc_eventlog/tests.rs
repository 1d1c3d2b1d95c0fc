//! Small eventlogs, written by hand.

use holdup_events::event::{RuntimeEvent, RuntimeEventKind as Word};

use super::*;

/// A file with these events: (id, time, capability, body).
fn log(events: &[(u16, u64, u16, &[u8])]) -> Vec<u8> {
    let mut bytes = layout::MAGIC.to_vec();
    let kinds: [(u16, u16); 14] = [
        (id::RUN_THREAD, 4),
        (id::STOP_THREAD, 10),
        (id::GC_START, 0),
        (id::GC_END, 0),
        (id::REQUEST_PAR_GC, 0),
        (id::GC_WORK, 0),
        (id::GC_STATS, u16::MAX),
        (18, 14),
        (census::id::BEGIN, u16::MAX),
        (census::id::COST_CENTRE, u16::MAX),
        (census::id::CENSUS_BEGIN, 8),
        (census::id::OF_COST_CENTRES, u16::MAX),
        (census::id::CENSUS_END, 8),
        (census::id::PAST_CENSUS_BEGIN, 16),
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
            if kinds.contains(&(id, u16::MAX)) {
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
        if let Event::Runtime(RuntimeEvent { at, lane, what, name, .. }) = event {
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
fn why_threads_stop_is_numbered_as_the_runtime_numbers_it() {
    // 5: finished. 14, 15 and 19 are not waits, or are obsolete.
    let events: Vec<(u64, [u8; 10])> =
        (5..22).map(|reason| (u64::from(reason) * 10, [0, 0, 0, 7, 0, reason, 0, 0, 0, 0])).collect();
    let events: Vec<_> = events
        .iter()
        .flat_map(|(at, stop)| {
            [(id::RUN_THREAD, *at, 0, &[0, 0, 0, 7][..]), (id::STOP_THREAD, at + 5, 0, &stop[..])]
        })
        .collect();
    let mut lines = read(&log(&events));
    lines.retain(|line| line.contains('!'));
    let expected = [
        "75 0 !blocked on MVar",
        "85 0 !blocked on black hole",
        "95 0 !blocked on read",
        "105 0 !blocked on write",
        "115 0 !blocked on delay",
        "125 0 !blocked on STM",
        "135 0 !blocked on process",
        "165 0 !blocked in foreign call",
        "175 0 !blocked in interruptible foreign call",
        "185 0 !blocked on exception",
        "205 0 !blocked on MVar read",
    ];
    assert_eq!(lines, expected);
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

/// `HEAP_PROF_SAMPLE_COST_CENTRE`: profile, bytes, depth, numbers of cost centres.
fn of_centres(bytes: u64, centres: &[u32]) -> Vec<u8> {
    let numbers = centres.iter().flat_map(|number| number.to_be_bytes());
    [0].into_iter().chain(bytes.to_be_bytes()).chain([centres.len() as u8]).chain(numbers).collect()
}

fn centre(number: u32, texts: &str) -> Vec<u8> {
    [&number.to_be_bytes()[..], texts.as_bytes(), &[0]].concat()
}

#[test]
fn a_census_by_cost_centres_has_their_stacks_and_biographical_ones_their_own_times() {
    let by_centres = [&[0][..], &1_000_000u64.to_be_bytes(), &1u32.to_be_bytes()].concat();
    let past = [&7u64.to_be_bytes()[..], &40u64.to_be_bytes()].concat();
    let number: &[u8] = &[0; 8];
    let bytes = log(&[
        (id::RUN_THREAD, 5, 0, &[0, 0, 0, 7]),
        (census::id::BEGIN, 6, 0, &by_centres),
        (census::id::COST_CENTRE, 6, 0, &centre(1, "main\0Main\0Main.hs:(3,1)-(9,4)\0\0")),
        (census::id::COST_CENTRE, 6, 0, &centre(2, "build\0Data.Tree\0<built-in>\0\0")),
        (census::id::CENSUS_BEGIN, 20, 0, number),
        (census::id::OF_COST_CENTRES, 21, 0, &of_centres(64, &[2, 1])),
        (census::id::CENSUS_END, 22, 0, number),
        // Not in a census.
        (census::id::OF_COST_CENTRES, 23, 0, &of_centres(4096, &[1])),
        (census::id::PAST_CENSUS_BEGIN, 60, 0, &past),
        (census::id::OF_COST_CENTRES, 61, 0, &of_centres(96, &[2, 1])),
        (census::id::OF_COST_CENTRES, 61, 0, &of_centres(32, &[2, 1])),
        (census::id::OF_COST_CENTRES, 61, 0, &of_centres(8, &[9])),
        (census::id::CENSUS_END, 62, 0, number),
        (id::STOP_THREAD, 70, 0, &[0, 0, 0, 7, 0, 7, 0, 0, 0, 0]),
    ]);
    let (mut rows, mut stacks, mut totals) = (Vec::new(), Vec::new(), Vec::new());
    let facts = Format
        .read(&bytes, &Wanted::default(), &mut |event| match event {
            Event::Allocated(row) => rows.push((row.at.0, row.bytes, row.stack)),
            Event::Stack(stack) => stacks.push(stack.addresses),
            Event::Runtime(RuntimeEvent { at, what: Word::Counter(value), name, .. })
                if &*name == "census_bytes" =>
            {
                totals.push((at.0, value));
            }
            _ => {}
        })
        .unwrap();
    assert_eq!((rows, totals), (vec![(40, 128, 1), (40, 8, 2)], vec![(20, 64), (40, 136)]));
    let (_, frames) = facts.names.unwrap().resolve(&crate::states::Catalogue::default());
    let named = |addresses: &[u64]| -> Vec<String> {
        let frame = |place: &u64| frames.get(*place as usize).unwrap();
        addresses.iter().map(frame).map(|of| format!("{} {}:{}", of.function, of.file, of.line)).collect()
    };
    assert_eq!(named(&stacks[0]), ["Data.Tree.build :0", "Main.main Main.hs:3"]);
    assert_eq!(named(&stacks[1]), ["cost centre 9 :0"]);
    assert!(facts.limits.contains("by cost centre: the largest of 2 censuses"), "{}", facts.limits);
}
