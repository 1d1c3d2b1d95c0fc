//! OCaml 5's runtime events: a file of rings, one per domain, written by the program and readable by any
//! process.
//!
//! [`Rings`] reads the new messages since its last read, from a complete file or one still being written. The
//! bytes are untrusted: lengths are checked, and contradictions become a [`Loss`]. The meaning of ids differs
//! between versions of OCaml without a mark in the file: see [`version`].

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

/// Bytes that are readable at any offset, and may change during reading.
pub trait ReadAt {
    /// Fills `into` from `offset` on. Returns the number of bytes read.
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
        /// Value of the counter.
        value: u64,
    },
}

/// Time range of the wanted messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Older messages precede the recording.
    pub from: Timestamp,
    /// Newer messages have an invalid time.
    pub until: Timestamp,
}

/// Statistics of reading.
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
    /// Opens the file of process `tgid`. `version`: from the program's binary if known, otherwise derived
    /// from the file.
    ///
    /// # Errors
    /// The file does not hold runtime events, or is not initialized yet.
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

    /// Skips messages from before `from`, and messages already overwritten. Neither belong to the recording.
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

    /// Statistics so far.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Which part of the fullest ring was new when it was read last, 1 if more than fits.
    pub fn filled(&self) -> f64 {
        self.found.min(self.layout.words) as f64 / self.layout.words as f64
    }

    /// The version, derived from the messages so far.
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

    /// Passes on the new messages, those of each domain in order.
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
            // Discards the part that the program overwrote during reading.
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
                    teller.convert((slot, at), &message, &mut names, &mut |event| {
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

    /// Position at which to continue after everything before `head` was overwritten.
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
