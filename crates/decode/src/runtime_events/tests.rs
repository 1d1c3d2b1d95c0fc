//! Synthetic rings: overwritten during reading, incomplete, or inconsistent.

use std::cell::{Cell, RefCell};

use holdup_events::event::RuntimeEventKind;

use super::*;

const SLOTS: u64 = 2;
const WORDS: u64 = 64;
const HEADERS: usize = 64;
const DATA: usize = HEADERS + SLOTS as usize * 80;

/// A file that a program writes: it changes after each read of a ring's head and tail.
struct Living {
    bytes: RefCell<Vec<u8>>,
    looks: Cell<u32>,
    /// The number of the read, and the position that the program writes then.
    writes_at: Option<(u32, u64)>,
}

impl Living {
    fn new() -> Living {
        let mut bytes = vec![0; DATA + (SLOTS * WORDS * 8) as usize + (1 << 20)];
        let customs = (DATA as u64) + SLOTS * WORDS * 8;
        let header = [1, SLOTS, 80, WORDS * 8, WORDS, HEADERS as u64, DATA as u64, customs];
        for (place, word) in bytes.chunks_exact_mut(8).zip(header) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        Living { bytes: RefCell::new(bytes), looks: Cell::new(0), writes_at: None }
    }

    fn word(&self, offset: usize) -> u64 {
        u64::from_le_bytes(self.bytes.borrow()[offset..offset + 8].try_into().unwrap())
    }

    fn put(&self, offset: usize, word: u64) {
        self.bytes.borrow_mut()[offset..offset + 8].copy_from_slice(&word.to_le_bytes());
    }

    /// As the runtime does it: makes room by whole messages, writes, then moves the tail.
    fn write(&self, slot: usize, message: &[u64]) {
        let header = HEADERS + slot * 80;
        let (mut head, mut tail) = (self.word(header), self.word(header + 8));
        let place = |position: u64| DATA + slot * (WORDS * 8) as usize + (position % WORDS * 8) as usize;
        let to_end = WORDS - tail % WORDS;
        let padding = if to_end < message.len() as u64 { to_end } else { 0 };
        while tail + padding + message.len() as u64 - head > WORDS - 1 {
            head += self.word(place(head)) >> 54;
            self.put(header, head);
        }
        if padding > 0 {
            self.put(place(tail), padding << 54);
            tail += padding;
        }
        for word in message {
            self.put(place(tail), *word);
            tail += 1;
        }
        self.put(header + 8, tail);
    }
}

impl ReadAt for &Living {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> usize {
        if into.len() == 16 {
            self.looks.set(self.looks.get() + 1);
            if let Some((look, count)) = self.writes_at
                && look == self.looks.get()
            {
                (0..count).for_each(|n| self.write(0, &counter(9000 + n, n)));
            }
        }
        self.bytes.borrow().as_slice().read_at(offset, into)
    }
}

fn message(code: u64, id: u64, at: u64, payload: &[u64]) -> Vec<u64> {
    let header = (payload.len() as u64 + 2) << 54 | code << 49 | id << 36;
    [&[header, at], payload].concat()
}

fn counter(at: u64, value: u64) -> Vec<u64> {
    message(4, 4, at, &[value])
}

fn version() -> Option<Version> {
    Some(Version::default())
}

const ALWAYS: Span = Span { from: Timestamp(0), until: Timestamp(1 << 40) };

/// Values of counters, and the number of losses.
fn poll(rings: &mut Rings<&Living>) -> (Vec<u64>, usize) {
    let (mut values, mut losses) = (Vec::new(), 0);
    rings.poll(ALWAYS, &mut |event| match event {
        Event::Runtime(tell) => {
            if let RuntimeEventKind::Counter(value) = tell.what {
                values.push(value);
            }
        }
        Event::Loss(_) => losses += 1,
        _ => {}
    });
    (values, losses)
}

#[test]
fn what_is_read_in_time_is_read_once_also_around_the_end() {
    let file = Living::new();
    let mut rings = Rings::open(&file, 1, version()).unwrap();
    let mut all = Vec::new();
    for step in 0..50u64 {
        (0..1 + step % 15).for_each(|n| file.write(0, &counter(step * 100 + n, step * 100 + n)));
        let (values, losses) = poll(&mut rings);
        assert_eq!((values.len() as u64, losses), (1 + step % 15, 0));
        all.extend(values);
    }
    assert!(all.is_sorted());
    assert_eq!(rings.tally().words_lost, 0);
}

#[test]
fn what_is_overwritten_before_it_is_read_is_a_loss() {
    let file = Living::new();
    let mut rings = Rings::open(&file, 1, version()).unwrap();
    file.write(0, &counter(1, 1));
    assert_eq!(poll(&mut rings), (vec![1], 0));
    assert_eq!(rings.filled(), 3.0 / WORDS as f64);
    (0..100).for_each(|n| file.write(0, &counter(10 + n, n)));
    let (values, losses) = poll(&mut rings);
    assert_eq!(rings.filled(), 1.0);
    assert_eq!((values.last(), losses), (Some(&99), 1));
    assert!(values.windows(2).all(|pair| pair[1] == pair[0] + 1), "{values:?}");
    assert!(rings.tally().words_lost > 200);
}

#[test]
fn losses_that_no_number_holds_are_as_many_as_it_holds() {
    let file = Living::new();
    for slot in 0..2 {
        file.put(HEADERS + slot * 80, u64::MAX - 8);
        file.put(HEADERS + slot * 80 + 8, u64::MAX - 4);
    }
    let mut rings = Rings::open(&file, 1, version()).unwrap();
    assert!(poll(&mut rings).1 >= 2);
    assert_eq!(rings.tally().words_lost, u64::MAX);
}

#[test]
fn what_is_overwritten_while_it_is_read_is_not_believed() {
    for look in 1..6 {
        for count in [1, 5, 15, 40] {
            let mut file = Living::new();
            (0..15).for_each(|n| file.write(0, &counter(n, 1000 + n)));
            file.writes_at = Some((look, count));
            let mut rings = Rings::open(&file, 1, version()).unwrap();
            let (mut values, _) = poll(&mut rings);
            values.extend(poll(&mut rings).0);
            let old: Vec<u64> = values.iter().copied().filter(|value| *value >= 1000).collect();
            let new: Vec<u64> = values.iter().copied().filter(|value| *value < 1000).collect();
            assert!(old.windows(2).all(|pair| pair[1] == pair[0] + 1), "{look} {count} {values:?}");
            assert!(new.windows(2).all(|pair| pair[1] == pair[0] + 1), "{look} {count} {values:?}");
            assert!(new.is_empty() || new.last() == Some(&(count - 1)), "{look} {count} {values:?}");
        }
    }
}

#[test]
fn what_cannot_be_is_a_loss_and_reading_goes_on() {
    let file = Living::new();
    let mut rings = Rings::open(&file, 1, version()).unwrap();
    file.write(0, &counter(1, 1));
    file.write(0, &[0, 0, 0]);
    file.write(0, &counter(2, 2));
    assert_eq!(poll(&mut rings), (vec![1], 1));
    file.write(0, &counter(3, 3));
    assert_eq!(poll(&mut rings), (vec![3], 0));
    // A ring that goes back, and one that holds more than it can.
    file.put(HEADERS + 8, 1);
    assert_eq!(poll(&mut rings), (vec![], 1));
    file.put(HEADERS + 8, u64::MAX);
    assert_eq!(poll(&mut rings), (vec![], 1));
    assert_eq!(rings.tally().broken, 3);
}

#[test]
fn events_outside_the_recording_are_dropped() {
    let file = Living::new();
    let mut rings = Rings::open(&file, 1, version()).unwrap();
    for at in [5, 50, 1 << 50, 60] {
        file.write(0, &counter(at, at));
    }
    let mut values = Vec::new();
    rings.poll(Span { from: Timestamp(10), until: Timestamp(100) }, &mut |event| {
        if let Event::Runtime(tell) = event
            && let RuntimeEventKind::Counter(value) = tell.what
        {
            values.push((tell.at.0, value));
        }
    });
    assert_eq!(values, [(50, 50), (60, 60)]);
}

#[test]
fn events_before_the_recording_are_skipped_without_a_loss() {
    // Between looks the program writes over the oldest.
    for (count, writes_at) in [(10, None), (100, None), (100, Some((1, 3))), (100, Some((1, 60)))] {
        let mut file = Living::new();
        (0..count).for_each(|n| file.write(0, &counter(n, n)));
        file.writes_at = writes_at;
        let mut rings = Rings::open(&file, 1, version()).unwrap();
        rings.skip_before(Timestamp(count - 4));
        let (values, losses) = poll(&mut rings);
        let written = writes_at.map_or(0, |(_, count)| count);
        if written < 20 {
            let expected: Vec<u64> = (count - 4..count).chain(0..written).collect();
            assert_eq!((values, losses), (expected, 0));
        } else {
            assert_eq!((values.last(), rings.tally().broken), (Some(&(written - 1)), 0));
        }
    }
    let file = Living::new();
    (0..10).for_each(|n| file.write(1, &counter(n, n)));
    let mut rings = Rings::open(&file, 1, version()).unwrap();
    rings.skip_before(Timestamp(50));
    assert_eq!(poll(&mut rings), (vec![], 0));
    file.write(1, &counter(60, 60));
    assert_eq!(poll(&mut rings), (vec![60], 0));
}

#[test]
fn a_slot_that_is_used_again_is_another_lane() {
    let file = Living::new();
    let mut rings = Rings::open(&file, 1, version()).unwrap();
    for at in [10, 20] {
        file.write(1, &message(1, 6, at, &[1]));
        file.write(1, &message(2, 11, at + 1, &[]));
        file.write(1, &message(3, 11, at + 2, &[]));
        file.write(1, &message(1, 7, at + 3, &[1]));
        // Its last collection comes behind its end.
        file.write(1, &message(2, 24, at + 4, &[]));
    }
    let mut events = Vec::new();
    rings.poll(ALWAYS, &mut |event| {
        if let Event::Runtime(tell) = event {
            events.push((tell.at.0, tell.what, tell.name.to_string()));
        }
    });
    let lanes: Vec<u64> = events
        .iter()
        .filter(|(_, what, _)| *what == RuntimeEventKind::LaneStart)
        .map(|(at, ..)| *at)
        .collect();
    assert_eq!(lanes, [10, 20]);
    let ends: Vec<u64> =
        events.iter().filter(|(_, what, _)| *what == RuntimeEventKind::LaneEnd).map(|(at, ..)| *at).collect();
    assert_eq!(ends, [20]);
    assert!(events.iter().any(|(_, _, name)| name == "minor"));
}

#[test]
fn other_headers_are_refused_and_unfinished_ones_waited_for() {
    let file = Living::new();
    let error = |file: &Living| Rings::open(file, 1, None).err();
    assert_eq!(error(&file), None);
    for (place, value, expected) in [
        (0, 0, RingError::NotYet),
        (0, 2, RingError::NotOurs { what: "the version", value: 2 }),
        (8, 5000, RingError::NotOurs { what: "the number of rings", value: 5000 }),
        (16, 8, RingError::NotOurs { what: "the size of a ring's header", value: 8 }),
        (24, 7, RingError::NotOurs { what: "the size of a ring", value: 7 }),
        (32, 63, RingError::NotOurs { what: "the number of words", value: 63 }),
        (40, 1 << 60, RingError::NotOurs { what: "the place of the headers", value: 1 << 60 }),
        (48, 0, RingError::NotYet),
    ] {
        let before = file.word(place);
        file.put(place, value);
        assert_eq!(error(&file), Some(expected));
        file.put(place, before);
    }
    assert_eq!(Rings::open(&[0u8; 10][..], 1, None).err(), Some(RingError::NotYet));
}
