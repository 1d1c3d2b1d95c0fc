//! Stalls: a single Java thread waits for the collector, while the others go on.

use std::collections::BTreeMap;

use holdup_events::tables::SpanKind;

use super::line::{Line, length};
use super::safepoints::RUNTIME;
use crate::telling::{APART_NS, Person, Telling, Who};

/// How coarse the log's clock may be (ns): stalls of one thread that overlap by less came one behind the other.
const CLOCK_NS: u64 = 1_000_000;

/// Content of a line about a stall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stall<'a> {
    pub name: &'a str,
    pub thread: &'a str,
    pub length_ns: u64,
}

/// `Allocation Stall (worker-0) 202.907ms`: a thread may have brackets in its name. Some versions put the collection's number before.
pub(super) fn stall(text: &str) -> Option<Stall<'_>> {
    let text = text.strip_prefix("GC(").and_then(|rest| Some(rest.split_once(") ")?.1)).unwrap_or(text);
    let (rest, length_text) = text.rsplit_once(") ")?;
    let (name, thread) = rest.split_once(" (")?;
    let known = name.ends_with(" Stall") && name.starts_with(|first: char| first.is_ascii_uppercase());
    let length_ns = length(length_text)?;
    known.then_some(Stall { name, thread, length_ns })
}

/// A stall of a thread.
#[derive(Clone, Debug)]
struct Span {
    tid: u32,
    thread: String,
    name: String,
    start: u64,
    end: u64,
}

/// All stalls of a log.
#[derive(Default)]
pub(super) struct Stalls(Vec<Span>);

impl Stalls {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the line that the thread writes when it goes on.
    pub fn take(&mut self, line: &Line, stall: &Stall) {
        let (thread, name) = (stall.thread.to_owned(), stall.name.to_owned());
        let start = line.at.saturating_sub(stall.length_ns);
        self.0.push(Span { tid: line.tid, thread, name, start, end: line.at });
    }

    /// Emits the stalls as spans of their threads. `known` are the threads with a number.
    pub fn emit(self, known: &BTreeMap<u32, Who>, pid: u32, telling: &mut Telling) {
        let mut threads: BTreeMap<(u32, String), (Who, u64)> = BTreeMap::new();
        for stall in self.0 {
            let number = threads.len() as u32;
            let key = (stall.tid, stall.thread.clone());
            if !threads.contains_key(&key) {
                let who = match known.get(&stall.tid) {
                    Some(who) => Some(*who),
                    None => telling.person(Person {
                        pid,
                        tid: stall.tid,
                        lane: if stall.tid > 0 { stall.tid } else { LANE_FIRST + number },
                        runtime: RUNTIME.to_owned(),
                        ..Person::default()
                    }),
                };
                let Some(who) = who else { return };
                if let Some(person) = telling.known(who) {
                    stall.thread.clone_into(&mut person.name);
                }
                threads.insert(key.clone(), (who, 0));
            }
            let Some((who, free)) = threads.get_mut(&key) else { continue };
            // Lengths are exact, the clock is coarse. A stall that begins long before the end of another one contains it.
            let is_behind = stall.start < *free && free.saturating_sub(stall.start) <= CLOCK_NS;
            let shift = if is_behind { free.saturating_add(APART_NS) - stall.start } else { 0 };
            let (start, end) = (stall.start.saturating_add(shift), stall.end.saturating_add(shift));
            *free = end.max(*free);
            telling.span(*who, (start, end), SpanKind::GcWait, &stall.name);
        }
    }
}

/// Lanes of threads without a number begin here: the VM's thread and the collector have 0 and 1.
const LANE_FIRST: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_names_its_thread() {
        let of = |text: &'static str| stall(text).map(|stall| (stall.name, stall.thread, stall.length_ns));
        assert_eq!(of("Allocation Stall (main) 202.907ms"), Some(("Allocation Stall", "main", 202_907_000)));
        assert_eq!(of("Relocation Stall (a (b) c) 0,5ms"), Some(("Relocation Stall", "a (b) c", 500_000)));
        assert_eq!(of("GC(3) Allocation Stall (x) 1.000s"), Some(("Allocation Stall", "x", 1_000_000_000)));
        for other in
            ["Allocation Stall (main)", "GC(0) Pause Young (x) 1.0ms", "Heap (x) 3.0ms", "Stall (a) 1ms"]
        {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
