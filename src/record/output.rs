//! Where events go: to the journal of the recording, or round in a flight recorder's memory.

use std::rc::Rc;

use holdup_decode::reorder::Lag;
use holdup_events::recording::JournalWriter;
use holdup_events::{Duration, Event, Loss, Timestamp};

use super::place::Begun;
use crate::watch::Flight;

/// See the module.
pub enum Output {
    /// To disk, all of them, into that recording.
    Journal(Box<JournalWriter>, Rc<Begun>, Lag),
    /// To memory, until something happens.
    Flight(Box<Flight>),
}

impl Output {
    /// Takes one event.
    pub fn push(&mut self, event: &Event) {
        match self {
            Output::Journal(journal, _, lag) => {
                lag.note(event);
                journal.push(event);
            }
            Output::Flight(flight) => flight.push(event),
        }
    }

    /// Marks the start of the recording, which the recovery of a killed recorder's journal needs. A flight
    /// recorder needs more than that.
    pub fn begin_at(&mut self, start: Timestamp) {
        if let Output::Journal(journal, ..) = self {
            journal.begin_at(start);
        }
    }

    /// Writes pushed events to disk. Call it only when the program runs: from then on the new recording is
    /// worth more than the one that it replaces.
    pub fn flush(&mut self) {
        if let Output::Journal(journal, place, _) = self {
            journal.flush();
            place.settle_anyhow();
        }
    }

    /// Maximum time by which an event came after newer events. 0 in a flight recorder.
    pub fn lag(&self) -> Duration {
        match self {
            Output::Journal(_, _, lag) => lag.most(),
            Output::Flight(_) => Duration::ZERO,
        }
    }

    /// Events that could not be written.
    pub fn dropped(&self) -> Option<&Loss> {
        match self {
            Output::Journal(journal, ..) => journal.dropped(),
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
