//! One capability: its Haskell threads and its part in collections.

use holdup_events::tables::SpanKind;
use holdup_events::{CpuId, WaitReason};

use super::id;
use crate::telling::{After, At, Found, Telling, Who};

/// State of a capability.
pub(super) struct Capability {
    pub who: Who,
    cpu: CpuId,
    /// The capability has work to run.
    busy: bool,
    /// The Haskell thread that it runs.
    thread: Option<String>,
    /// Time at which it requested a collection.
    asked: Option<u64>,
    /// Time since which it takes part in a collection.
    collecting: Option<u64>,
    /// The part of the collection that it is in, and since when.
    phase: Option<(u64, SpanKind, &'static str)>,
    /// The generation of the collection that it takes part in, if the statistics came before the end.
    generation: Option<u16>,
    /// The file has scheduler events. Otherwise the capability's states are unknown.
    has_states: bool,
    /// The collection that it just left, whose generation is still unknown.
    left: Option<Left>,
    /// Total bytes allocated so far, as reported.
    pub allocated: u64,
    sparks: std::collections::BTreeMap<&'static str, u64>,
}

/// A collection, from within (ns).
#[derive(Clone, Copy)]
struct Left {
    since: u64,
    at: u64,
    /// The capability requested the collection.
    leads: bool,
}

/// Why a Haskell thread blocks: `why_blocked` (GHC's `rts/include/rts/Constants.h`) plus six, because the
/// reasons of `StgThreadReturnCode` come first. `None` for other stop reasons. Valid since GHC 7.8.3, some
/// earlier versions differ.
fn blocked(reason: u16) -> Option<&'static str> {
    Some(match reason {
        7 => "blocked on MVar",
        8 => "blocked on black hole",
        9 => "blocked on read",
        10 => "blocked on write",
        11 => "blocked on delay",
        12 => "blocked on STM",
        13 => "blocked on process",
        16 => "blocked in foreign call",
        17 => "blocked in interruptible foreign call",
        18 => "blocked on exception",
        20 => "blocked on MVar read",
        _ => return None,
    })
}

impl Capability {
    /// One that has nothing to do yet.
    pub fn new(who: Who, number: u16, at: u64, telling: &mut Telling) -> Capability {
        telling.found(who, at, Found::Waits(WaitReason::Park));
        Capability { has_states: true, ..Capability::without_states(who, number, at, telling) }
    }

    /// One of a file without scheduler events.
    pub fn without_states(who: Who, number: u16, at: u64, telling: &mut Telling) -> Capability {
        telling.found(who, at, Found::Unknown);
        Capability {
            who,
            cpu: CpuId(number),
            busy: false,
            thread: None,
            asked: None,
            collecting: None,
            phase: None,
            generation: None,
            has_states: false,
            left: None,
            allocated: 0,
            sparks: std::collections::BTreeMap::new(),
        }
    }

    /// Begins or ceases to be busy.
    fn settle(&mut self, at: u64, telling: &mut Telling) {
        let busy = self.thread.is_some() || self.asked.is_some() || self.collecting.is_some();
        match (self.busy, busy) {
            _ if !self.has_states => {}
            (false, true) => {
                telling.woken(self.who, at, (None, self.cpu));
                telling.on(self.who, at, self.cpu);
            }
            (true, false) => {
                telling.off(self.who, at, (self.cpu, After::Waits(WaitReason::Park, At::default())))
            }
            _ => {}
        }
        self.busy = busy;
    }

    /// A Haskell thread has it.
    pub fn runs(&mut self, at: u64, name: String, telling: &mut Telling) {
        if let Some(before) = self.thread.take() {
            telling.end(self.who, at, &before);
        }
        self.thread = Some(name);
        self.settle(at, telling);
        telling.begin(self.who, at, SpanKind::User, self.thread.as_deref().unwrap_or(""));
    }

    /// The Haskell thread stops.
    pub fn stops(&mut self, at: u64, (thread, reason): (u32, u16), telling: &mut Telling) {
        if let Some(name) = self.thread.take() {
            telling.end(self.who, at, &name);
        }
        if let Some(why) = blocked(reason) {
            telling.mark(self.who, at, why, (thread.into(), ""));
        }
        self.settle(at, telling);
    }

    /// The capability requests that all others stop.
    pub fn requests(&mut self, at: u64, telling: &mut Telling) {
        self.asked.get_or_insert(at);
        self.settle(at, telling);
    }

    /// The capability enters the collection.
    pub fn collects(&mut self, at: u64, telling: &mut Telling) {
        self.emit_collection(None, telling);
        self.generation = None;
        self.collecting.get_or_insert(at);
        self.settle(at, telling);
    }

    /// In the collection, the capability works, searches for work, or waits for the others.
    pub fn phase(&mut self, at: u64, id: u16, telling: &mut Telling) {
        self.end_phase(at, telling);
        self.phase = self.collecting.map(|_| match id {
            id::GC_WORK => (at, SpanKind::GcWork, "gc working"),
            id::GC_IDLE => (at, SpanKind::GcWait, "gc idle"),
            _ => (at, SpanKind::GcWait, "gc done"),
        });
    }

    fn end_phase(&mut self, at: u64, telling: &mut Telling) {
        if let Some((since, kind, name)) = self.phase.take() {
            telling.span(self.who, (since, at), kind, name);
        }
    }

    /// The capability leaves the collection. Returns whether it requested the collection.
    pub fn collected(&mut self, at: u64, telling: &mut Telling) -> bool {
        let Some(since) = self.collecting.take() else { return false };
        self.end_phase(at, telling);
        let asked = self.asked.take();
        if let Some(asked) = asked {
            telling.span(self.who, (asked, since), SpanKind::GcWait, "gc request");
        }
        self.left = Some(Left { since, at, leads: asked.is_some() });
        if let Some(generation) = self.generation.take() {
            self.emit_collection(Some(generation), telling);
        }
        self.settle(at, telling);
        asked.is_some()
    }

    /// The statistics of a collection. The runtime writes them before the end, with a later time: a coarse clock has both at one moment.
    pub fn has_statistics(&mut self, generation: Option<u16>, telling: &mut Telling) {
        match self.left {
            Some(_) => self.emit_collection(generation, telling),
            None if self.collecting.is_some() => self.generation = generation,
            None => {}
        }
    }

    /// Emits the collection that the capability has left, with the generation if the capability collected it.
    /// The last collection of a program has no requester.
    pub fn emit_collection(&mut self, generation: Option<u16>, telling: &mut Telling) {
        let Some(Left { since, at, leads }) = self.left.take() else { return };
        let name = match generation {
            Some(generation) => format!("gc generation {generation}"),
            None if leads => "gc".to_owned(),
            None => "gc helper".to_owned(),
        };
        telling.span(self.who, (since, at), SpanKind::Stop, &name);
    }

    /// The collection that it takes part in is over.
    pub fn released(&mut self, at: u64, telling: &mut Telling) {
        if self.collecting.is_some() && self.asked.is_none() {
            self.collected(at, telling);
        }
    }

    /// A counter of sparks, if it has changed.
    pub fn sparks(&mut self, at: u64, name: &'static str, value: u64, telling: &mut Telling) {
        if self.sparks.insert(name, value).unwrap_or(0) != value {
            telling.counter(self.who, at, &format!("sparks_{name}"), value);
        }
    }
}
