//! Journals cut at every byte, with flipped bits, and garbage.

use super::chunk::{
    DROPPED_AT, HEADER, Header, Kind, MAGIC, PAYLOAD_MAX, RAW_MAX, dropped_events, dropped_word,
};
use super::pack::Packer;
use super::*;
use crate::event::{Event, ObjectName, Waking};
use crate::recording::codec::Encoder;
use crate::recording::{FORMAT_VERSION, Manifest, RecordingError};
use crate::{CpuId, Loss, Timestamp};

fn waking(at: u64) -> Event {
    Event::Waking(Waking { at: Timestamp(at), cpu: CpuId(1), wakee_tid: at as u32, ..Waking::default() })
}

/// A journal of three chunks with two events each, and where each chunk ends.
fn journal(name: &str) -> (Vec<u8>, Vec<usize>) {
    let dir = std::env::temp_dir().join(format!("holdup-journal-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let manifest = Manifest { command: vec!["x".to_owned()], ..Manifest::default() };
    let mut writer = JournalWriter::create(&dir, &manifest).unwrap();
    let mut ends = vec![writer.bytes() as usize];
    for chunk in 0..3 {
        writer.push(&waking(chunk * 10));
        writer.push(&waking(chunk * 10 + 1));
        writer.flush();
        ends.push(writer.bytes() as usize);
    }
    assert!(is_being_written(&dir));
    let bytes = std::fs::read(writer.path()).unwrap();
    drop(writer);
    assert!(!is_being_written(&dir));
    std::fs::remove_dir_all(&dir).unwrap();
    (bytes, ends)
}

/// A chunk of `raw` after the manifest of [`journal`]. Its header claims `events` events.
fn behind_the_manifest(name: &str, raw: &[u8], events: u32) -> Vec<u8> {
    let (mut bytes, ends) = journal(name);
    bytes.truncate(ends[0]);
    bytes.extend_from_slice(Packer::new().unwrap().seal(Kind::Events, raw, events).unwrap());
    bytes
}

fn encoded(events: &[Event]) -> Vec<u8> {
    let (mut encoder, mut bytes) = (Encoder::default(), Vec::new());
    events.iter().for_each(|event| encoder.encode(event, &mut bytes));
    bytes
}

fn losses(bytes: impl Read) -> Vec<(String, u64, u64, u64)> {
    let of = |event| match event {
        Event::Loss(loss) => Some((loss.reason, loss.start.0, loss.end.0, loss.events)),
        _ => None,
    };
    JournalReader::new(bytes).filter_map(of).collect()
}

fn read(bytes: &[u8]) -> (Vec<u64>, usize) {
    let (mut times, mut losses) = (Vec::new(), 0);
    for event in JournalReader::new(bytes) {
        match event {
            Event::Loss(_) => losses += 1,
            event => times.push(event.at().0),
        }
    }
    (times, losses)
}

#[test]
fn what_was_written_is_read() {
    let (bytes, _) = journal("whole");
    assert_eq!(read(&bytes), (vec![0, 1, 10, 11, 20, 21], 0));
    assert_eq!(JournalReader::new(&bytes[..]).manifest().unwrap().command, ["x"]);
}

#[test]
fn the_start_time_may_follow_earlier_events() {
    let dir = std::env::temp_dir().join(format!("holdup-journal-begin-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let manifest = Manifest { start_ns: 400, start_unix_ns: 5_000_000, ..Manifest::default() };
    let mut writer = JournalWriter::create(&dir, &manifest).unwrap();
    writer.push(&waking(500));
    writer.begin_at(Timestamp(1000));
    writer.push(&waking(1001));
    writer.flush();
    let bytes = std::fs::read(writer.path()).unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    assert_eq!(read(&bytes), (vec![500, 1001], 0));
    let mut reader = JournalReader::new(&bytes[..]);
    assert_eq!(reader.by_ref().count(), 2);
    let told = reader.manifest().unwrap();
    assert_eq!((told.start_ns, told.start_unix_ns), (1000, 5_000_600));
}

#[test]
fn a_journal_cut_anywhere_gives_whole_chunks_and_a_loss() {
    let (bytes, ends) = journal("cut");
    for cut in 0..=bytes.len() {
        let whole = ends.iter().filter(|end| **end <= cut).count();
        let (times, losses) = read(&bytes[..cut]);
        assert_eq!(times.len(), whole.saturating_sub(1) * 2, "cut at {cut}");
        let between = cut == 0 || ends.contains(&cut);
        assert_eq!(losses, usize::from(!between), "cut at {cut}");
    }
}

#[test]
fn a_flipped_bit_costs_one_chunk() {
    let (bytes, ends) = journal("flip");
    for at in 0..bytes.len() {
        for bit in [0, 3, 7] {
            let mut broken = bytes.clone();
            broken[at] ^= 1 << bit;
            let (times, losses) = read(&broken);
            let expected = if at < ends[0] { 6 } else { 4 };
            // The last four bytes of a header are not used.
            let unused = ends.iter().chain([&0]).any(|start| (start + 28..start + 32).contains(&at));
            assert_eq!(
                (times.len(), losses),
                if unused { (6, 0) } else { (expected, 1) },
                "byte {at} bit {bit}"
            );
        }
    }
}

#[test]
fn what_a_damaged_chunk_lacks_is_missing_up_to_the_next_whole_one() {
    let (bytes, ends) = journal("lacks");
    for (chunk, expected) in [(0, ("checksum", 0, 10)), (1, ("checksum", 1, 20)), (2, ("truncated", 11, 11))]
    {
        let mut broken = bytes.clone();
        broken[ends[chunk] + HEADER + 3] ^= 1;
        let (reason, start, end) = expected;
        assert_eq!(losses(&broken[..]), [(reason.to_owned(), start, end, 0)]);
    }
}

#[test]
fn events_that_this_version_does_not_know_are_missing_not_nothing() {
    // Two known events, then an unknown kind, which hides the rest.
    let mut raw = encoded(&[waking(5), waking(6)]);
    raw.extend([250, 1, 2, 3]);
    let mut bytes = behind_the_manifest("unknown", &raw, 5);
    let after = encoded(&[waking(9)]);
    bytes.extend_from_slice(Packer::new().unwrap().seal(Kind::Events, &after, 1).unwrap());
    assert_eq!(read(&bytes), (vec![5, 6, 9], 1));
    assert_eq!(losses(&bytes[..]), [("undecodable".to_owned(), 6, 9, 3)]);
    // So is what the header promises and the bytes do not have.
    let bytes = behind_the_manifest("promised", &encoded(&[waking(5)]), 4);
    assert_eq!(losses(&bytes[..]), [("undecodable".to_owned(), 5, 5, 3)]);
}

#[test]
fn a_journal_of_a_newer_version_is_an_error() {
    let dir = std::env::temp_dir().join(format!("holdup-journal-newer-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let manifest = Manifest { format: FORMAT_VERSION + 1, holdup: "99.0".to_owned(), ..Manifest::default() };
    drop(JournalWriter::create(&dir, &manifest).unwrap());
    let opened = JournalReader::open(&dir).map(|_| ());
    std::fs::remove_dir_all(&dir).unwrap();
    assert!(
        matches!(opened, Err(RecordingError::Newer { found, .. }) if found == u64::from(FORMAT_VERSION) + 1),
        "{opened:?}"
    );
}

#[test]
fn a_journal_without_a_manifest_has_none() {
    let (bytes, ends) = journal("none");
    let into = |bytes: &[u8]| {
        let mut reader = JournalReader::new(bytes);
        (reader.by_ref().count(), reader.into_manifest().map_err(|error| error.to_string()))
    };
    assert!(into(&bytes).1.is_ok_and(|manifest| manifest.command == ["x"]));
    let (events, manifest) = into(&bytes[ends[0]..]);
    assert_eq!(events, 6);
    assert_eq!(
        manifest.unwrap_err(),
        "journal: the manifest is damaged (this journal has none that is whole)"
    );
    assert!(into(&[]).1.is_err());
    // One that makes no sense is none either, but does not replace one that does.
    let mut packer = Packer::new().unwrap();
    let senseless = packer.seal(Kind::Manifest, b"{}", 0).unwrap();
    assert!(into(senseless).1.is_err_and(|error| error.contains("missing field")));
    let whole = [&bytes[..], senseless].concat();
    assert!(into(&whole).1.is_ok());
}

/// Returns some bytes, and then the error of an unreadable disk.
struct Failing<'a>(&'a [u8]);

impl Read for Failing<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        match self.0.read(into)? {
            0 => Err(std::io::Error::from_raw_os_error(5)),
            read => Ok(read),
        }
    }
}

#[test]
fn what_cannot_be_read_is_no_end() {
    let (bytes, ends) = journal("failing");
    for (length, expected) in [(ends[2], 11), (ends[2] + 3, 11), (ends[3], 21), (0, 0)] {
        let part = &bytes[..length];
        assert_eq!(losses(Failing(part)), [("unreadable".to_owned(), expected, expected, 0)], "{length}");
        let mut reader = JournalReader::new(Failing(part));
        assert_eq!(reader.by_ref().count() + reader.by_ref().count(), read(part).0.len() + 1);
        assert!(reader.take_failure().is_some_and(|error| error.to_string().contains("os error 5")));
    }
    let mut reader = JournalReader::new(&bytes[..]);
    assert_eq!(reader.by_ref().count(), 6);
    assert!(reader.take_failure().is_none());
}

#[test]
fn lies_about_lengths_cost_no_more_than_some_times_the_file() {
    let (mut bytes, ends) = journal("lies");
    let honest = bytes.split_off(ends[0]);
    // Each false header would have the whole rest of its payload checked: 200,000 times that many bytes.
    let lie = Header { kind: Kind::Events, stored: PAYLOAD_MAX / 4, raw: PAYLOAD_MAX, events: 1 };
    let mut lies = lie.encode(b"").repeat(200_000);
    lies.extend(honest);
    bytes.extend(lies);
    assert_eq!(read(&bytes), (vec![0, 1, 10, 11, 20, 21], 1));
}

#[test]
fn an_event_is_long_only_up_to_what_a_reader_believes() {
    let dir = std::env::temp_dir().join(format!("holdup-journal-long-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let mut writer = JournalWriter::create(&dir, &Manifest::default()).unwrap();
    // Nothing makes these bytes fewer.
    let mut state = 7u64;
    let mut text = |length: usize| -> String {
        let letters = (0..length).map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1442695040888963407);
            char::from(b' ' + (state >> 58) as u8)
        });
        letters.collect()
    };
    for (at, length) in [(1, 10), (2, RAW_MAX - 100), (3, RAW_MAX + 1), (4, 10)] {
        let name = text(length);
        writer.push(&Event::ObjectName(ObjectName { at: Timestamp(at), name, ..ObjectName::default() }));
        writer.flush();
    }
    assert!(writer.dropped().is_none());
    drop(writer);
    let read: Vec<(u64, usize)> = JournalReader::open(&dir)
        .unwrap()
        .map(|event| match event {
            Event::ObjectName(name) => (name.at.0, name.name.len()),
            Event::Loss(Loss { start, reason, events: 1, .. }) if reason == "too-long" => (start.0, 0),
            other => panic!("{other:?}"),
        })
        .collect();
    std::fs::remove_dir_all(&dir).unwrap();
    assert_eq!(read, [(1, 10), (2, RAW_MAX - 100), (3, 0), (4, 10)]);
}

#[test]
fn a_journal_is_held_beyond_its_writer() {
    let dir = std::env::temp_dir().join(format!("holdup-journal-held-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let writer = JournalWriter::create(&dir, &Manifest::default()).unwrap();
    let held = writer.hold();
    drop(writer);
    assert!(is_being_written(&dir), "its tables are being made");
    drop(held);
    assert!(!is_being_written(&dir));
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn garbage_is_no_journal_and_does_no_harm() {
    let mut state = 7u64;
    for length in [0usize, 1, 31, 32, 33, 1000, 200_000] {
        let bytes: Vec<u8> = (0..length)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1442695040888963407);
                (state >> 56) as u8
            })
            .collect();
        assert_eq!(read(&bytes).0.len(), 0);
    }
}

#[test]
fn the_number_of_dropped_events_survives_and_damage_is_no_number() {
    let header = |word: [u8; 4]| {
        let mut header = [0; HEADER];
        header[..MAGIC.len()].copy_from_slice(&MAGIC);
        header[DROPPED_AT..].copy_from_slice(&word);
        header
    };
    for events in [1, 2, 1_048_575, 1_048_576, 123_456_789, (1 << 35) - 1] {
        let read = dropped_events(&header(dropped_word(events)));
        assert!(read <= events && (events - read) * 500_000 <= events, "{events} read as {read}");
    }
    assert_eq!(dropped_events(&header([0; 4])), 0);
    for bit in 0..32 {
        let word = u32::from_le_bytes(dropped_word(77)) ^ 1 << bit;
        assert_eq!(dropped_events(&header(word.to_le_bytes())), 0, "bit {bit}");
        assert_eq!(dropped_events(&header((1u32 << bit).to_le_bytes())), 0, "bit {bit} of nothing");
    }
}
