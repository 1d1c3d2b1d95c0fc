//! Chrome's trace event format (JSON). It is written by Chrome, Node, Perfetto's older tools, compilers and
//! many programs, and as the eventlog of Multicore OCaml before 5.0.
//!
//! It holds spans, counters and marks of threads, but not when threads had a CPU. Spans of known runtimes
//! ([`kinds`]) are those of a garbage collector. All others belong to the program. Asynchronous spans get
//! their own lanes. Flows, samples, objects and memory dumps are dropped.

mod edges;
mod json;
mod kinds;
mod people;

use holdup_events::Event;
use holdup_events::recording::{Backend, SourceState};

use super::{Facts, Info, ReadError, Reader, Wanted};
use crate::telling::Telling;
use edges::{Edge, Edges};
use json::Entry;
use people::People;

/// The format.
pub struct Format;

/// Source name.
const SOURCE: &str = "chrome-trace";

impl Reader for Format {
    fn info(&self) -> Info {
        Info { name: "chrome-trace", summary: "Trace events as JSON (Chrome, Node, OCaml's old eventlog)" }
    }

    fn recognises(&self, bytes: &[u8]) -> bool {
        // Metadata may come first, and be long.
        let text = bytes.trim_ascii_start();
        let has = |word: &[u8]| text.windows(word.len()).any(|window| window == word);
        match text.first() {
            Some(b'{') => has(b"\"traceEvents\""),
            Some(b'[') => has(b"\"ph\""),
            _ => false,
        }
    }

    fn read(&self, bytes: &[u8], wanted: &Wanted, sink: &mut dyn FnMut(Event)) -> Result<Facts, ReadError> {
        let mut taker = Taker::default();
        let whole = json::each(bytes, &mut |entry| taker.take(&entry));
        if let Err(offset) = whole {
            if taker.taken == 0 {
                return Err(ReadError::Broken { what: "it is no JSON of trace events", offset });
            }
            taker.telling.lose("truncated");
        }
        let Taker { mut telling, mut people, edges, skipped, .. } = taker;
        edges.finish(&mut people, &mut telling);
        people.choose(&wanted.process, &mut telling);
        let runtime = people.runtime();
        if runtime == Some(kinds::OCAML) {
            people.be_one_process(&mut telling);
        }
        let told = telling.finish(SOURCE, sink)?;
        let missing = match skipped {
            0 => String::new(),
            count => format!("{count} events of kinds that are not kept: flows, samples, objects"),
        };
        Ok(Facts {
            span: told.span,
            backend: Backend::Proc,
            limits: format!(
                "trace events{}: they have spans, but not the times on CPUs",
                runtime.map(|runtime| format!(" of {runtime}")).unwrap_or_default()
            ),
            sources: vec![SourceState {
                name: SOURCE.to_owned(),
                active: true,
                missing,
                events: told.events,
                lost: told.lost,
            }],
            ..Facts::default()
        })
    }
}

/// Sorts entries by kind.
#[derive(Default)]
struct Taker {
    telling: Telling,
    people: People,
    edges: Edges,
    taken: u64,
    skipped: u64,
}

impl Taker {
    fn take(&mut self, entry: &Entry) {
        self.taken += 1;
        match entry.ph.as_ref() {
            "M" => self.people.describe(entry, &mut self.telling),
            "B" | "E" | "X" => self.on_thread(entry),
            "b" | "e" | "S" | "F" => match entry.ts.0 {
                Some(at) => self.edges.asynchronous(entry, at, matches!(entry.ph.as_ref(), "b" | "S")),
                None => self.telling.lose("no-time"),
            },
            "C" => self.count(entry),
            "i" | "I" | "R" | "n" => self.mark(entry),
            _ => self.skipped += 1,
        }
    }

    fn on_thread(&mut self, entry: &Entry) {
        let Some(at) = entry.ts.0 else { return self.telling.lose("no-time") };
        let Some(who) = self.people.of_entry(entry, &mut self.telling) else { return };
        let (kind, runtime) = kinds::span_kind(&entry.cat, &entry.name);
        if entry.ph != "E" {
            self.people.speaks(who, runtime, &mut self.telling);
        }
        match entry.ph.as_ref() {
            "X" => {
                let end = at.saturating_add(entry.dur.0.unwrap_or(0));
                self.telling.span(who, (at, end), kind, &entry.name);
            }
            phase => self.edges.push(Edge { who, at, begins: phase == "B", kind }, &entry.name),
        }
    }

    fn count(&mut self, entry: &Entry) {
        let Some(at) = entry.ts.0 else { return self.telling.lose("no-time") };
        let Some(who) = self.people.of_entry(entry, &mut self.telling) else { return };
        let values: Vec<(&str, u64)> = entry.numbers().collect();
        for (key, value) in &values {
            match values.len() {
                1 => self.telling.counter(who, at, &entry.name, *value),
                _ => self.telling.counter(who, at, &format!("{} {key}", entry.name), *value),
            }
        }
    }

    fn mark(&mut self, entry: &Entry) {
        let Some(at) = entry.ts.0 else { return self.telling.lose("no-time") };
        let Some(who) = self.people.of_entry(entry, &mut self.telling) else { return };
        self.telling.mark(who, at, &entry.name, (0, ""));
    }
}

#[cfg(test)]
#[path = "chrome_trace/tests.rs"]
mod tests;
