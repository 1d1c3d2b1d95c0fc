//! Eio: which fiber a domain runs, names of fibers, and the content of custom events.
//!
//! A domain runs one fiber at a time. Eio reports when a fiber starts running, yields or ends. Named spans
//! belong to their fiber, and continue when the fiber continues.

use std::collections::HashMap;

use holdup_events::event::RuntimeEventKind;
use holdup_events::tables::SpanKind;

use super::Name;

/// The span in which a domain has nothing to do.
pub(super) const IDLE: &str = "eio.suspend_domain";
/// Maximum number of fibers with their own name. Later ones are all named `fiber`, because a server makes one
/// per connection.
const NAMED_MAX: usize = 4_096;
/// Fibers whose open spans are kept while others run.
const ASLEEP_MAX: usize = 1 << 16;
/// Deeper nesting is no program's.
const DEPTH_MAX: usize = 64;

/// The fiber that a domain runs.
#[derive(Debug)]
struct Turn {
    /// Number and name. `None` if it started before the first event.
    fiber: Option<(u64, Name)>,
    /// Open spans of the fiber, outermost first.
    spans: Vec<Name>,
}

/// The running fiber of each slot.
#[derive(Debug, Default)]
pub(super) struct Fibers {
    turns: HashMap<u32, Turn>,
    /// Open spans of fibers that have given way, by slot and fiber: a fiber stays where it was made.
    asleep: HashMap<(u32, u64), Vec<Name>>,
    names: HashMap<u64, Name>,
    /// Name of fibers without their own name.
    others: Option<Name>,
}

impl Fibers {
    /// A custom event in a slot, with its number and text. Emits the spans that begin and end with it.
    pub fn take(
        &mut self,
        slot: u32,
        (event, value, text): (&str, u64, &Name),
        put: &mut dyn FnMut(RuntimeEventKind, Name),
    ) {
        match event {
            "eio.fiber" => {
                self.gives_way(slot, put);
                self.goes_on(slot, value, put);
            }
            "eio.suspend_fiber" | IDLE => self.gives_way(slot, put),
            "eio.exit_fiber" => {
                self.gives_way(slot, put);
                self.asleep.remove(&(slot, value));
            }
            "eio.enter_span" => {
                let turn = self.turns.entry(slot).or_insert_with(|| Turn { fiber: None, spans: Vec::new() });
                if turn.spans.len() < DEPTH_MAX {
                    turn.spans.push(text.clone());
                    put(RuntimeEventKind::Begin(SpanKind::User), text.clone());
                }
            }
            "eio.exit_span" => {
                if let Some(name) = self.turns.get_mut(&slot).and_then(|turn| turn.spans.pop()) {
                    put(RuntimeEventKind::End, name);
                }
            }
            _ => {}
        }
    }

    /// All that is open in a slot was closed: another domain has it, or something is missing.
    pub fn forget(&mut self, slot: u32) {
        self.turns.remove(&slot);
        self.asleep.retain(|(of, _), _| *of != slot);
    }

    fn gives_way(&mut self, slot: u32, put: &mut dyn FnMut(RuntimeEventKind, Name)) {
        let Some(Turn { fiber, spans }) = self.turns.remove(&slot) else { return };
        spans.iter().rev().for_each(|name| put(RuntimeEventKind::End, name.clone()));
        let Some((fiber, name)) = fiber else { return };
        put(RuntimeEventKind::End, name);
        if !spans.is_empty() && self.asleep.len() < ASLEEP_MAX {
            self.asleep.insert((slot, fiber), spans);
        }
    }

    fn goes_on(&mut self, slot: u32, fiber: u64, put: &mut dyn FnMut(RuntimeEventKind, Name)) {
        let name = self.name(fiber);
        let spans = self.asleep.remove(&(slot, fiber)).unwrap_or_default();
        put(RuntimeEventKind::Begin(SpanKind::User), name.clone());
        spans.iter().for_each(|name| put(RuntimeEventKind::Begin(SpanKind::User), name.clone()));
        self.turns.insert(slot, Turn { fiber: Some((fiber, name)), spans });
    }

    fn name(&mut self, fiber: u64) -> Name {
        if self.names.len() >= NAMED_MAX && !self.names.contains_key(&fiber) {
            return self.others.get_or_insert_with(|| "fiber".into()).clone();
        }
        self.names.entry(fiber).or_insert_with(|| format!("fiber {fiber}").into()).clone()
    }
}

/// Content of Eio's custom events: the object's number, then its kind, owner or text.
pub(super) fn value_and_text(name: &str, bytes: &[u8]) -> (u64, Vec<u8>) {
    let numbered = ["eio.create_obj", "eio.create_cc", "eio.create_fiber", "eio.name", "eio.error"];
    let Some((number, rest)) = bytes.split_first_chunk::<8>().filter(|_| numbered.contains(&name)) else {
        return (0, bytes.to_vec());
    };
    let kind = |kinds: &[(u8, &str)]| {
        let code = rest.first().copied().unwrap_or(0);
        let known = kinds.iter().find(|(known, _)| *known == code);
        known.map_or_else(|| code.to_string(), |(_, name)| (*name).to_owned()).into_bytes()
    };
    let text = match name {
        "eio.create_obj" => kind(&[(15, "promise"), (16, "semaphore"), (18, "stream"), (19, "mutex")]),
        "eio.create_cc" => kind(&[(3, "switch"), (4, "protect"), (5, "sub"), (6, "root"), (7, "any")]),
        "eio.create_fiber" => {
            let owner = rest.first_chunk::<8>().map_or(0, |bytes| i64::from_le_bytes(*bytes));
            format!("in {owner}").into_bytes()
        }
        _ => rest.to_vec(),
    };
    (u64::from_le_bytes(*number), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Emitted span events: `+` begins, `-` ends.
    fn emitted(fibers: &mut Fibers, events: &[(&str, u64, &str)]) -> String {
        let mut all = Vec::new();
        for (event, value, text) in events {
            fibers.take(0, (event, *value, &(*text).into()), &mut |what, name| {
                all.push(format!("{}{name}", if what == RuntimeEventKind::End { '-' } else { '+' }));
            });
        }
        all.join(" ")
    }

    #[test]
    fn a_span_of_a_fiber_goes_on_when_the_fiber_does() {
        let mut fibers = Fibers::default();
        let events = [
            ("eio.fiber", 1, ""),
            ("eio.enter_span", 0, "a"),
            ("eio.enter_span", 0, "b"),
            ("eio.fiber", 2, ""),
            ("eio.exit_span", 0, ""),
            ("eio.exit_fiber", 2, ""),
            (IDLE, 0, ""),
            ("eio.fiber", 1, ""),
            ("eio.exit_span", 0, ""),
            ("eio.suspend_fiber", 0, "sleep"),
        ];
        let expected = "+fiber 1 +a +b -b -a -fiber 1 +fiber 2 -fiber 2 +fiber 1 +a +b -b -a -fiber 1";
        assert_eq!(emitted(&mut fibers, &events), expected);
        // The missing events may have ended the spans.
        fibers.forget(0);
        assert_eq!(emitted(&mut fibers, &[("eio.fiber", 1, "")]), "+fiber 1");
    }

    #[test]
    fn a_fiber_without_a_recorded_start_has_only_spans() {
        let events =
            [("eio.exit_span", 0, ""), ("eio.enter_span", 0, "a"), ("eio.fiber", 3, ""), (IDLE, 0, "")];
        assert_eq!(emitted(&mut Fibers::default(), &events), "+a -a +fiber 3 -fiber 3");
    }

    #[test]
    fn fibers_without_number_are_called_alike() {
        let mut fibers = Fibers::default();
        (0..NAMED_MAX as u64).for_each(|fiber| drop(fibers.name(fiber)));
        assert_eq!([&*fibers.name(9), &*fibers.name(1 << 40)], ["fiber 9", "fiber"]);
    }

    #[test]
    fn eio_objects_have_numbers_and_kinds() {
        let bytes = |rest: &[u8]| [&7u64.to_le_bytes()[..], rest].concat();
        assert_eq!(value_and_text("eio.create_obj", &bytes(&[19])), (7, b"mutex".to_vec()));
        assert_eq!(value_and_text("eio.name", &bytes(b"main")), (7, b"main".to_vec()));
        assert_eq!(value_and_text("eio.create_fiber", &bytes(&3u64.to_le_bytes())), (7, b"in 3".to_vec()));
        assert_eq!(value_and_text("eio.log", b"text"), (0, b"text".to_vec()));
    }
}
