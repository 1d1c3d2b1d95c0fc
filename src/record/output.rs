//! Where events go: to the journal of the recording, or round in a flight recorder's memory.

use std::rc::Rc;

use holdup_events::recording::JournalWriter;
use holdup_events::{Event, Loss, Timestamp};

use super::place::Begun;
use crate::watch::Flight;

/// See the module.
pub enum Output {
    /// To disk, all of them, into that recording.
    Journal(Box<JournalWriter>, Rc<Begun>),
    /// To memory, until something happens.
    Flight(Box<Flight>),
}

impl Output {
    /// Takes one event.
    pub fn push(&mut self, event: &Event) {
        match self {
            Output::Journal(journal, _) => journal.push(event),
            Output::Flight(flight) => flight.push(event),
        }
    }

    /// The recording begins: who reads the journal of a recorder that died goes by it. A flight recorder has to know more.
    pub fn begin_at(&mut self, start: Timestamp) {
        if let Output::Journal(journal, _) = self {
            journal.begin_at(start);
        }
    }

    /// Writes what has been pushed, where that goes to disk. Not before the program runs: from then on the recording is worth
    /// more than the one that it replaces.
    pub fn flush(&mut self) {
        if let Output::Journal(journal, place) = self {
            journal.flush();
            place.settle_anyhow();
        }
    }

    /// What could not be written.
    pub fn dropped(&self) -> Option<&Loss> {
        match self {
            Output::Journal(journal, _) => journal.dropped(),
            Output::Flight(_) => None,
        }
    }

    /// The end: what a flight recorder has handed over is written.
    pub fn land(self) {
        if let Output::Flight(flight) = self {
            flight.finish();
        }
    }
}
