//! What a ring held at a moment, as a journal that begins in the middle.

use std::collections::BTreeSet;

use super::{Chunk, named_stacks};
use crate::recording::journal::JournalWriter;
use crate::standing::{Doing, Standing};
use crate::{Event, Loss, Timestamp};

/// A chunk as it is, or the events of one that was taken apart.
type Part = Result<Chunk, Vec<Event>>;

/// See the module. Shares its chunks with the ring, and can be written while recording continues.
pub struct Cut<M> {
    /// First moment.
    pub start: Timestamp,
    /// Last moment.
    pub end: Timestamp,
    /// The recorder's mark of the first segment.
    pub mark: M,
    pub(super) standing: Standing,
    pub(super) chunks: Vec<Chunk>,
    pub(super) stacks: Vec<Chunk>,
}

impl<M> Cut<M> {
    /// Bytes of its events, as they are in memory.
    pub fn bytes(&self) -> u64 {
        self.chunks.iter().chain(&self.stacks).map(|chunk| chunk.bytes.len() as u64).sum()
    }

    /// Writes it: what stood at the beginning, then what came until the end. Chunks that reach beyond either are taken apart:
    /// some events come late, and what covers a stretch is left out where it began before.
    pub fn write(self, journal: &mut JournalWriter) {
        let (before, parts) = self.parts();
        before.iter().for_each(|event| journal.push(event));
        for part in parts {
            match part {
                Ok(chunk) => journal.append(&chunk.bytes, chunk.content),
                Err(events) => events.iter().for_each(|event| journal.push(event)),
            }
        }
        journal.flush();
    }

    /// The events that [`Cut::write`] writes, in the same order.
    pub fn events(self) -> Vec<Event> {
        let (mut all, parts) = self.parts();
        for part in parts {
            match part {
                Ok(chunk) => all.extend(chunk.events()),
                Err(events) => all.extend(events),
            }
        }
        all
    }

    /// Events for the state at `start`, and the events since.
    fn parts(mut self) -> (Vec<Event>, Vec<Part>) {
        let known = self.standing.clone();
        let whole = |chunk: &Chunk| chunk.content.span.0 >= self.start && chunk.content.span.1 <= self.end;
        let mut parts: Vec<Part> = Vec::new();
        for chunk in std::mem::take(&mut self.chunks) {
            if whole(&chunk) {
                parts.push(Ok(chunk));
                continue;
            }
            let mut within = Vec::new();
            for event in chunk.events() {
                let event = self.reaching_in(event);
                if event.at() < self.start {
                    self.standing.fold(&event);
                } else if event.at() <= self.end && !covers_earlier(&event, self.start, &known) {
                    within.push(event);
                }
            }
            parts.push(Err(within));
        }
        (self.before(&parts), parts)
    }

    /// A loss that spans `start` is cut to begin at `start`, because its missing events matter here, too.
    fn reaching_in(&self, event: Event) -> Event {
        match event {
            Event::Loss(loss) if loss.start < self.start && loss.end >= self.start => {
                Event::Loss(Loss { start: self.start, ..loss })
            }
            event => event,
        }
    }

    /// Events for the state at `start`, in time order: the initial state, and the stacks that this state or a
    /// part refers to.
    fn before(&self, parts: &[Part]) -> Vec<Event> {
        let mut stood = Vec::new();
        self.standing.emit(self.start, &mut |event| stood.push(event));
        // Only referenced stacks. Many more definitions are kept while space allows.
        let named = if self.stacks.is_empty() { BTreeSet::new() } else { named(&stood, parts) };
        let is_wanted = |event: &Event| {
            event.at() < self.start && matches!(event, Event::Stack(stack) if named.contains(&stack.id))
        };
        let stacks = self.stacks.iter().flat_map(Chunk::events);
        let mut all: Vec<Event> = stacks.filter(is_wanted).collect();
        all.append(&mut stood);
        all.sort_by_key(Event::at);
        all
    }
}

/// The stacks that any of these events names.
fn named(stood: &[Event], parts: &[Part]) -> BTreeSet<u64> {
    let mut named = BTreeSet::new();
    let mut note = |event: &Event| named_stacks(event, &mut |id| _ = named.insert(id));
    stood.iter().for_each(&mut note);
    for part in parts {
        match part {
            Ok(chunk) => chunk.events().for_each(|event| note(&event)),
            Err(events) => events.iter().for_each(&mut note),
        }
    }
    named
}

/// Whether an event covers time before `start`. An interval without a start begins with its thread.
fn covers_earlier(event: &Event, start: Timestamp, known: &Standing) -> bool {
    match event {
        Event::Counted(counted) if counted.at == Timestamp(0) => {
            let thread = known.threads().get(counted.tid);
            counted.tid == 0 || thread.is_some_and(|thread| thread.doing != Doing::Dead)
        }
        Event::Loss(_) => false,
        event => event.begin() < start,
    }
}
