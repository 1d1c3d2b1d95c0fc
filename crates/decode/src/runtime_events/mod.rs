//! OCaml 5's runtime events: a file of rings, one a domain, that the program writes and anybody may read.
//!
//! [`Rings`] takes what is new since it last looked, from a file that a program is still writing or from one that is
//! whole. The bytes are foreign: lengths are checked, contradictions become a [`Loss`]. What ids mean changed between
//! versions of OCaml without a sign in the file: see [`version`].

mod eio;
mod layout;
mod meaning;
mod message;
mod tables;
mod version;

use std::sync::Arc;

use holdup_events::{CpuId, Event, Loss, Timestamp};
use thiserror::Error;

use layout::{Layout, Ring};
use meaning::Teller;
pub use version::{Version, is_ocaml};

/// Name of this source.
pub const SOURCE: &str = "runtime-events";

/// Words that are copied at a time.
const WORDS_AT_ONCE: u64 = 1 << 16;

/// Bytes that can be read at any offset, and that may change meanwhile.
pub trait ReadAt {
    /// Fills `into` from `offset` on; returns how many bytes there were.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> usize;
}

impl ReadAt for &[u8] {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> usize {
        let there = usize::try_from(offset).ok().and_then(|offset| self.get(offset..)).unwrap_or_default();
        let count = there.len().min(into.len());
        if let (Some(to), Some(from)) = (into.get_mut(..count), there.get(..count)) {
            to.copy_from_slice(from);
        }
        count
    }
}

/// Why a file is not read.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum RingError {
    /// Too short, or its first bytes are still zero: the program has not made it yet.
    #[error("there is no header yet")]
    NotYet,
    /// Of another format.
    #[error("the header is not one of OCaml 5's runtime events: {what} is {value}")]
    NotOurs {
        /// Which field.
        what: &'static str,
        /// What it holds.
        value: u64,
    },
}

/// Which of the things told are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// What is older was told before the recording.
    pub from: Timestamp,
    /// What is newer cannot have happened yet.
    pub until: Timestamp,
}

/// What was read so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Events passed on.
    pub events: u64,
    /// Words that were overwritten before they were read.
    pub words_lost: u64,
    /// Places where a ring contradicts itself.
    pub broken: u64,
}

/// The rings of one file.
pub struct Rings<R> {
    file: R,
    layout: Layout,
    /// Position of each domain slot: words read so far.
    positions: Vec<u64>,
    teller: Teller,
    tally: Tally,
    /// Words that the last look found in the fullest ring.
    found: u64,
    scratch: Vec<u8>,
}

impl<R: ReadAt> Rings<R> {
    /// Opens the file of process `tgid`. `version`: of the program, if its binary told; else the file must.
    ///
    /// # Errors
    /// The file is not one of runtime events, or not yet.
    pub fn open(file: R, tgid: u32, version: Option<Version>) -> Result<Rings<R>, RingError> {
        let layout = Layout::read(&file)?;
        let slots = layout.slots as usize;
        let mut rings = Rings {
            teller: Teller::new(tgid, Version::default(), slots),
            file,
            layout,
            positions: vec![0; slots],
            tally: Tally::default(),
            found: 0,
            scratch: Vec::new(),
        };
        let version = version.unwrap_or_else(|| rings.survey());
        rings.teller = Teller::new(tgid, version, slots);
        Ok(rings)
    }

    /// Passes over what was told before `from`, and over what has been overwritten already: neither is of the recording.
    pub fn skip_before(&mut self, from: Timestamp) {
        for (slot, ring) in self.layout.rings(&self.file, &mut self.scratch) {
            let position =
                if ring.is_sound(&self.layout) { self.first_since(slot, ring, from) } else { ring.tail };
            self.go_on_at(slot, position);
        }
    }

    /// Where the first message since `from` begins, or the next one that will be written.
    fn first_since(&mut self, slot: u32, ring: Ring, from: Timestamp) -> u64 {
        let mut at = ring.head;
        while at < ring.tail {
            let (words, behind) = self.copy(slot, at, ring.tail);
            // The program goes on writing, over the oldest ones.
            let head = self.layout.ring(&self.file, slot).map_or(at, |ring| ring.head.max(at));
            let whole =
                usize::try_from(head - at).ok().and_then(|torn| words.get(torn..)).unwrap_or_default();
            let older = message::before(whole, from.0);
            at = head + older;
            if older == 0 && head < behind {
                break;
            }
        }
        at
    }

    /// Which version the words are understood by.
    pub fn version(&self) -> &Version {
        self.teller.version()
    }

    /// What was read so far.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Which part of the fullest ring was new when it was read last, 1 if more than fits.
    pub fn filled(&self) -> f64 {
        self.found.min(self.layout.words) as f64 / self.layout.words as f64
    }

    /// What the events so far say of the version.
    fn survey(&mut self) -> Version {
        let mut evidence = version::Evidence::new(self.layout.customs_offset.is_some());
        for slot in 0..self.layout.slots {
            let ring = self.layout.ring(&self.file, slot).filter(|ring| ring.is_sound(&self.layout));
            let Some(ring) = ring else { continue };
            let mut from = ring.head;
            while from < ring.tail {
                let (words, behind) = self.copy(slot, from, ring.tail);
                let taken = message::each(&words, &mut |message| evidence.take(slot, &message));
                if behind == ring.tail || taken == 0 {
                    break;
                }
                from += taken;
            }
        }
        evidence.version()
    }

    /// Passes on what is new, the events of each domain in order.
    pub fn poll(&mut self, span: Span, sink: &mut dyn FnMut(Event)) {
        let rings = self.layout.rings(&self.file, &mut self.scratch);
        self.found = 0;
        for (slot, ring) in rings {
            let before = self.positions.get(slot as usize).copied().unwrap_or(0);
            self.found = self.found.max(ring.tail.saturating_sub(before));
            self.poll_ring(slot, ring, span, sink);
        }
    }

    fn poll_ring(&mut self, slot: u32, ring: Ring, span: Span, sink: &mut dyn FnMut(Event)) {
        let before = self.positions.get(slot as usize).copied().unwrap_or(0);
        if ring.tail == before {
            return;
        }
        if ring.tail < before || !ring.is_sound(&self.layout) {
            self.broken(slot, ring.tail, span, sink);
            return;
        }
        let mut from = self.skip_lost(slot, before, ring.head, span, sink);
        while from < ring.tail {
            let (words, _) = self.copy(slot, from, ring.tail);
            // What the program has written over meanwhile is not what we believe to have read.
            let head = self.layout.ring(&self.file, slot).map_or(from, |ring| ring.head);
            if head > from {
                if head >= ring.tail {
                    self.skip_lost(slot, from, ring.tail, span, sink);
                    return self.go_on_at(slot, ring.tail);
                }
                from = self.skip_lost(slot, from, head, span, sink);
                continue;
            }
            let Rings { teller, tally, file, layout, .. } = self;
            let mut names = |id: u16| layout.custom_name(&*file, id);
            let taken = message::each(&words, &mut |message| {
                if let Some(at) = teller.sane(slot, message.at, span) {
                    teller.tell((slot, at), &message, &mut names, &mut |event| {
                        tally.events += 1;
                        sink(event);
                    });
                }
            });
            if taken == 0 {
                return self.broken(slot, ring.tail, span, sink);
            }
            from += taken;
        }
        self.go_on_at(slot, from);
    }

    /// At most [`WORDS_AT_ONCE`] words of a ring from position `from`, and the position behind them.
    fn copy(&mut self, slot: u32, from: u64, tail: u64) -> (Vec<u64>, u64) {
        // The longest message has 1023 words: one that begins in these ends in the next.
        let to = tail.min(from.saturating_add(WORDS_AT_ONCE));
        (self.layout.words(&self.file, slot, (from, to), &mut self.scratch), to)
    }

    fn go_on_at(&mut self, slot: u32, position: u64) {
        if let Some(place) = self.positions.get_mut(slot as usize) {
            *place = position;
        }
    }

    /// From where to read when everything before `head` is gone.
    fn skip_lost(&mut self, slot: u32, from: u64, head: u64, span: Span, sink: &mut dyn FnMut(Event)) -> u64 {
        if head <= from {
            return from;
        }
        self.tally.words_lost = self.tally.words_lost.saturating_add(head - from);
        self.lose(slot, "ring-full", span, sink);
        head
    }

    fn broken(&mut self, slot: u32, tail: u64, span: Span, sink: &mut dyn FnMut(Event)) {
        self.tally.broken += 1;
        self.lose(slot, "unreadable", span, sink);
        self.go_on_at(slot, tail);
    }

    fn lose(&mut self, slot: u32, reason: &str, span: Span, sink: &mut dyn FnMut(Event)) {
        let start = self.teller.last(slot).max(span.from);
        sink(Event::Loss(Loss {
            source: SOURCE.to_owned(),
            reason: reason.to_owned(),
            cpu: CpuId::NONE,
            start,
            end: span.until.max(start),
            events: 0,
        }));
        self.teller.gap(slot, sink);
    }
}

/// A name that many events share.
type Name = Arc<str>;

#[cfg(test)]
mod tests;
