//! Messages → events: names, kinds, and where one life of a domain slot ends and the next begins.

use std::collections::HashMap;

use holdup_events::event::{RuntimeEvent, RuntimeEventKind};
use holdup_events::tables::SpanKind;
use holdup_events::{Event, Timestamp};

use super::eio::{self, Fibers};
use super::message::{Kind, Message};
use super::{Name, Span, Version, tables};

/// Texts of marks are cut to this many bytes.
const TEXT_MAX: usize = 256;
/// Distinct texts that are kept to be shared.
const TEXTS_MAX: usize = 1 << 16;

/// Lifecycle ids.
const DOMAIN_SPAWN: u16 = 6;
const LIFECYCLE: [&str; 8] = [
    "ring_start",
    "ring_stop",
    "ring_pause",
    "ring_resume",
    "fork_parent",
    "fork_child",
    "domain_spawn",
    "domain_terminate",
];

/// State of one slot.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// A domain lives in it.
    open: bool,
    /// Time of the last event.
    last: Timestamp,
}

/// Converts messages to events.
pub struct Teller {
    tgid: u32,
    version: Version,
    runtime: Name,
    slots: Vec<Slot>,
    // By id, of which a message has room for 8192.
    phases: Vec<Option<(Name, SpanKind)>>,
    counters: Vec<Option<Name>>,
    customs: Vec<Option<Name>>,
    texts: HashMap<Vec<u8>, Name>,
    fibers: Fibers,
    none: Name,
}

impl Teller {
    /// Of process `tgid`.
    pub fn new(tgid: u32, version: Version, slots: usize) -> Teller {
        Teller {
            tgid,
            runtime: format!("ocaml {}", version.text).into(),
            version,
            slots: vec![Slot::default(); slots],
            phases: Vec::new(),
            counters: Vec::new(),
            customs: Vec::new(),
            texts: HashMap::new(),
            fibers: Fibers::default(),
            none: "".into(),
        }
    }

    /// By which version it understands.
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// Time of a slot's last event.
    pub fn last(&self, slot: u32) -> Timestamp {
        self.slots.get(slot as usize).map_or(Timestamp(0), |slot| slot.last)
    }

    /// The time of a message, at least that of the previous one. `None` if it is outside of `span`.
    pub fn sane(&mut self, slot: u32, at: u64, span: Span) -> Option<Timestamp> {
        let slot = self.slots.get_mut(slot as usize)?;
        let at = Timestamp(at).max(slot.last);
        if at < span.from || at > span.until {
            return None;
        }
        slot.last = at;
        Some(at)
    }

    /// Messages of a slot are missing.
    pub fn gap(&mut self, slot: u32, sink: &mut dyn FnMut(Event)) {
        self.fibers.forget(slot);
        let Some(state) = self.slots.get(slot as usize).filter(|state| state.open) else { return };
        sink(Event::Runtime(RuntimeEvent {
            at: state.last,
            tgid: self.tgid,
            tid: 0,
            lane: slot,
            what: RuntimeEventKind::Gap,
            name: self.none.clone(),
        }));
    }

    /// Converts one message of a slot. `names` resolves the program's custom names.
    pub fn convert(
        &mut self,
        (slot, at): (u32, Timestamp),
        message: &Message,
        names: &mut dyn FnMut(u16) -> Option<String>,
        sink: &mut dyn FnMut(Event),
    ) {
        let tgid = self.tgid;
        let mut put =
            |what, name| sink(Event::Runtime(RuntimeEvent { at, tgid, tid: 0, lane: slot, what, name }));
        let spawned = message.kind == Kind::Lifecycle && message.id == DOMAIN_SPAWN;
        let Some(state) = self.slots.get_mut(slot as usize) else { return };
        let was_open = std::mem::replace(&mut state.open, true);
        // Events between the end of one domain and the start of the next belong to the first one.
        if spawned && was_open {
            put(RuntimeEventKind::LaneEnd, self.none.clone());
        }
        if spawned || !was_open {
            self.fibers.forget(slot);
            put(RuntimeEventKind::LaneStart, self.runtime.clone());
        }
        let value = message.payload.first().copied().unwrap_or(0);
        match message.kind {
            Kind::Lifecycle => {
                let name = LIFECYCLE.get(usize::from(message.id)).copied().unwrap_or("lifecycle");
                put(RuntimeEventKind::Mark { value, text: self.none.clone() }, self.text(name.as_bytes()));
            }
            Kind::Begin => {
                let (name, kind) = self.phase(message.id);
                put(RuntimeEventKind::Begin(kind), name);
            }
            Kind::End => put(RuntimeEventKind::End, self.phase(message.id).0),
            Kind::Counter => put(RuntimeEventKind::Counter(value), self.counter(message.id)),
            Kind::UserUnit | Kind::UserInt | Kind::UserBegin | Kind::UserEnd | Kind::UserBytes => {
                let name = self.custom(message.id, names);
                self.convert_user_event(slot, message, name, &mut put);
            }
            Kind::Other => {}
        }
    }

    /// An event of the program's own, or of a library of its.
    fn convert_user_event(
        &mut self,
        slot: u32,
        message: &Message,
        name: Name,
        put: &mut dyn FnMut(RuntimeEventKind, Name),
    ) {
        let number = || message.payload.first().copied().unwrap_or(0);
        let (value, text) = match message.kind {
            Kind::UserInt => (number(), self.none.clone()),
            Kind::UserBytes => {
                let (value, text) = eio::value_and_text(&name, &bytes_of(message.payload));
                (value, self.text(&text))
            }
            _ => (0, self.none.clone()),
        };
        let kind = if &*name == eio::IDLE { SpanKind::Idle } else { SpanKind::User };
        let mut own =
            |put: &mut dyn FnMut(RuntimeEventKind, Name)| self.fibers.take(slot, (&name, value, &text), put);
        match message.kind {
            // What a fiber has begun ends before the domain is idle.
            Kind::UserBegin => {
                own(put);
                put(RuntimeEventKind::Begin(kind), name.clone());
            }
            Kind::UserEnd => put(RuntimeEventKind::End, name),
            _ => {
                put(RuntimeEventKind::Mark { value, text: text.clone() }, name.clone());
                own(put);
            }
        }
    }

    fn phase(&mut self, id: u16) -> (Name, SpanKind) {
        let numbering = self.version.numbering;
        known(&mut self.phases, id, || match tables::phase(numbering, id) {
            Some(name) => (name.into(), tables::phase_kind(name)),
            None => (format!("phase_{id}").into(), SpanKind::GcWork),
        })
    }

    fn counter(&mut self, id: u16) -> Name {
        known(&mut self.counters, id, || match tables::counter(id) {
            Some(name) => name.into(),
            None => format!("counter_{id}").into(),
        })
    }

    /// A name is written before it is used, but not always seen as soon.
    fn custom(&mut self, id: u16, names: &mut dyn FnMut(u16) -> Option<String>) -> Name {
        if let Some(Some(name)) = self.customs.get(usize::from(id)) {
            return name.clone();
        }
        match names(id) {
            Some(name) => known(&mut self.customs, id, || name.into()),
            None => format!("user_{id}").into(),
        }
    }

    fn text(&mut self, bytes: &[u8]) -> Name {
        let bytes = bytes.get(..TEXT_MAX).unwrap_or(bytes);
        if let Some(text) = self.texts.get(bytes) {
            return text.clone();
        }
        let clean: String =
            String::from_utf8_lossy(bytes).chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let text: Name = clean.into();
        if self.texts.len() < TEXTS_MAX {
            self.texts.insert(bytes.to_vec(), text.clone());
        }
        text
    }
}

/// The value for an id, created at the first use.
fn known<T: Clone>(all: &mut Vec<Option<T>>, id: u16, make: impl FnOnce() -> T) -> T {
    let place = usize::from(id);
    if all.len() <= place {
        all.resize(place + 1, None);
    }
    match all.get_mut(place) {
        Some(kept) => kept.get_or_insert_with(make).clone(),
        None => make(),
    }
}

/// The bytes of a payload. The last byte is the number of unused bytes in the last word.
fn bytes_of(payload: &[u64]) -> Vec<u8> {
    let mut bytes: Vec<u8> = payload.iter().flat_map(|word| word.to_le_bytes()).collect();
    let unused = bytes.last().map_or(0, |last| usize::from(*last) + 1);
    bytes.truncate(bytes.len().saturating_sub(unused));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_payloads_end_at_their_padding_count() {
        let payload = |bytes: &[u8]| -> Vec<u64> {
            bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
        };
        assert_eq!(bytes_of(&payload(b"hello\0\0\x02")), b"hello");
        assert_eq!(bytes_of(&payload(b"1234567\0")), b"1234567");
        assert_eq!(bytes_of(&payload(b"\0\0\0\0\0\0\0\x07")), b"");
        assert_eq!(bytes_of(&payload(b"\0\0\0\0\0\0\0\xff")), b"");
        assert_eq!(bytes_of(&[]), b"");
    }
}
