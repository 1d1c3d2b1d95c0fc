//! Journals cut at every byte, with flipped bits, and garbage.

use super::chunk::{DROPPED_AT, HEADER, MAGIC, dropped_events, dropped_word};
use super::*;
use crate::event::{Event, Waking};
use crate::recording::Manifest;
use crate::{CpuId, Timestamp};

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
fn when_it_begins_is_told_behind_what_was_found() {
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
fn cut_anywhere_it_gives_the_whole_chunks_and_says_so() {
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
