//! The lines that V8 prints for its collections: `node --trace-gc`, with or without `--trace-gc-nvp`.
//!
//! Each isolate (a worker has its own) is shown as one thread. A line contains when a collection ended, in
//! milliseconds since the isolate's start, and how long it stopped the program. Concurrent work is not
//! included. Other output of the program is skipped.

use std::collections::BTreeMap;

use holdup_events::Event;
use holdup_events::recording::{Backend, SourceState};
use holdup_events::tables::SpanKind;

use super::{Facts, Info, ReadError, Reader, Wanted};
use crate::telling::{APART_NS, Person, Telling, Who};

/// The format.
pub struct Format;

/// Source name.
const SOURCE: &str = "v8-gc";

impl Reader for Format {
    fn info(&self) -> Info {
        Info { name: "v8-gc", summary: "Collections as V8 prints them (node --trace-gc)" }
    }

    fn recognises(&self, bytes: &[u8]) -> bool {
        // The program's own output may come first, and be long.
        lines(bytes).next().is_some()
    }

    fn read(&self, bytes: &[u8], _: &Wanted, sink: &mut dyn FnMut(Event)) -> Result<Facts, ReadError> {
        let mut telling = Telling::default();
        let mut isolates: BTreeMap<(u32, String), Isolate> = BTreeMap::new();
        for line in lines(bytes) {
            let number = isolates.len() as u32;
            let key = (line.pid, line.isolate.to_owned());
            if let std::collections::btree_map::Entry::Vacant(free) = isolates.entry(key) {
                let person = Person {
                    pid: line.pid,
                    tid: if number == 0 { line.pid } else { 0 },
                    lane: number,
                    name: format!("isolate {number}"),
                    runtime: "v8".to_owned(),
                    outside: false,
                };
                let Some(who) = telling.person(person) else { break };
                free.insert(Isolate { who, free: 0, after: None });
            }
            if let Some(isolate) = isolates.get_mut(&(line.pid, line.isolate.to_owned())) {
                isolate.take(&line, &mut telling);
            }
        }
        let told = telling.finish(SOURCE, sink)?;
        Ok(Facts {
            span: told.span,
            backend: Backend::Proc,
            limits: "V8's own lines about its collections: only pauses, no times on CPUs. Their ends have a resolution of 1 ms, and each isolate counts from its own start"
                .to_owned(),
            sources: vec![SourceState {
                name: SOURCE.to_owned(),
                active: true,
                missing: String::new(),
                events: told.events,
                lost: told.lost,
            }],
            ..Facts::default()
        })
    }
}

struct Isolate {
    who: Who,
    /// Behind its last pause (ns).
    free: u64,
    /// Bytes that were left then.
    after: Option<u64>,
}

impl Isolate {
    fn take(&mut self, line: &Line, telling: &mut Telling) {
        // Pauses do not overlap. Their durations are exact, and their end times are rounded.
        let start = line.end_ns.saturating_sub(line.pause_ns).max(self.free);
        let end = start.saturating_add(line.pause_ns);
        self.free = end.saturating_add(APART_NS);
        telling.span(self.who, (start, end), SpanKind::Stop, line.name);
        if line.safepoint_ns > 0 {
            let reached = start.saturating_add(line.safepoint_ns).min(end);
            telling.span(self.who, (start, reached), SpanKind::GcWait, "time to safepoint");
        }
        if let (Some(after), Some(before)) = (self.after, line.before_bytes) {
            telling.counter(self.who, end, "allocated_bytes", before.saturating_sub(after));
        }
        if let Some(promoted) = line.promoted_bytes {
            telling.counter(self.who, end, "promoted_bytes", promoted);
        }
        if let Some(after) = line.after_bytes {
            telling.counter(self.who, end, "heap_bytes", after);
        }
        self.after = line.after_bytes;
    }
}

/// One collection.
#[derive(Debug, PartialEq, Eq)]
struct Line<'a> {
    pid: u32,
    isolate: &'a str,
    end_ns: u64,
    name: &'a str,
    pause_ns: u64,
    safepoint_ns: u64,
    before_bytes: Option<u64>,
    after_bytes: Option<u64>,
    promoted_bytes: Option<u64>,
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = Line<'_>> {
    bytes.split(|byte| *byte == b'\n').filter_map(|line| parse(std::str::from_utf8(line).ok()?))
}

/// `[pid:isolate]  T ms: …`
fn parse(line: &str) -> Option<Line<'_>> {
    let (who, rest) = line.strip_prefix('[')?.split_once(']')?;
    let (pid, isolate) = who.split_once(':')?;
    let (pid, isolate) = (pid.parse().ok()?, isolate.starts_with("0x").then_some(isolate)?);
    let (end, rest) = rest.split_once(" ms: ")?;
    let end_ns = millis(end)?;
    if rest.starts_with("pause=") { named(rest) } else { sentence(rest) }.map(|line| Line {
        pid,
        isolate,
        end_ns,
        ..line
    })
}

/// `Scavenge 4.1 (4.2) -> 3.4 (5.2) MB, 5.54 / 0.00 ms  …`, since Node 24 with `pooled: 0 MB, ` before the
/// times.
fn sentence(text: &str) -> Option<Line<'_>> {
    let name_end = text.find(|letter: char| letter.is_ascii_digit())?;
    let (name, rest) = text.split_at_checked(name_end)?;
    let (sizes, rest) = rest.split_once(" MB, ")?;
    let (before, after) = sizes.split_once(" -> ")?;
    let size = |text: &str| {
        let megabytes: f64 = text.split(' ').next()?.parse().ok()?;
        Some((megabytes.max(0.0) * (1u64 << 20) as f64) as u64)
    };
    let rest = match rest.strip_prefix("pooled: ") {
        Some(pooled) => pooled.split_once(" MB, ")?.1,
        None => rest,
    };
    let pause = rest.split([' ', '/']).next()?;
    let name = name.trim().trim_end_matches("(reduce)").trim_end();
    Some(Line {
        name: Some(name).filter(|name| !name.is_empty())?,
        pause_ns: millis(pause)?,
        before_bytes: size(before),
        after_bytes: size(after),
        ..Line::empty()
    })
}

/// `pause=23.0 mutator=96.8 gc=s …`
fn named(text: &str) -> Option<Line<'_>> {
    let value = |wanted: &str| {
        text.split(' ')
            .filter_map(|word| word.split_once('='))
            .find(|(key, _)| *key == wanted)
            .map(|pair| pair.1)
    };
    let bytes = |wanted: &str| value(wanted)?.parse().ok();
    let name = match value("gc")? {
        "s" => "Scavenge",
        "ms" | "mc" => "Mark-Compact",
        "mmc" | "mms" => "Minor Mark-Sweep",
        other => other,
    };
    Some(Line {
        name,
        pause_ns: millis(value("pause")?)?,
        safepoint_ns: value("time_to_safepoint").and_then(millis).unwrap_or(0),
        before_bytes: bytes("total_size_before"),
        after_bytes: bytes("total_size_after"),
        promoted_bytes: bytes("promoted"),
        ..Line::empty()
    })
}

impl Line<'_> {
    fn empty() -> Line<'static> {
        Line {
            pid: 0,
            isolate: "",
            end_ns: 0,
            name: "",
            pause_ns: 0,
            safepoint_ns: 0,
            before_bytes: None,
            after_bytes: None,
            promoted_bytes: None,
        }
    }
}

/// Nanoseconds of a number of milliseconds.
fn millis(text: &str) -> Option<u64> {
    let ns = text.trim().parse::<f64>().ok()? * 1e6;
    (0.0..1e18).contains(&ns).then_some(ns.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_lines() {
        let text =
            "[6832:0x17bfec40]      104 ms: Scavenge 4.0 (4.2) -> 3.0 (5.2) MB, 5.54 / 0.00 ms  (average)";
        let line = parse(text).unwrap();
        assert_eq!((line.pid, line.isolate, line.name), (6832, "0x17bfec40", "Scavenge"));
        assert_eq!((line.end_ns, line.pause_ns), (104_000_000, 5_540_000));
        assert_eq!((line.before_bytes, line.after_bytes), (Some(4 << 20), Some(3 << 20)));
        let text = "[1:0x2]  9 ms: Mark-Compact (reduce) 4.5 (8.5) -> 2.8 (8.0) MB, 41.00 / 0.00 ms  testing";
        assert_eq!(parse(text).unwrap().name, "Mark-Compact");
        let text = "[7:0x5] 6508 ms: Mark-Compact (reduce) 4.5 (8.0) -> 3.5 (7.7) MB, pooled: 12.5 MB, 36.70 / 0.00 ms  (+ 0.0 ms";
        let line = parse(text).unwrap();
        assert_eq!((line.name, line.pause_ns, line.after_bytes), ("Mark-Compact", 36_700_000, Some(7 << 19)));
        assert_eq!(parse("[7:0x5] 6508 ms: Scavenge 4.5 (8.0) -> 3.5 (7.7) MB, pooled: 12.5 MB"), None);
        let text = "[1:0x2]  136 ms: pause=23.1 mutator=96.8 gc=s time_to_safepoint=0.25 promoted=191448";
        let line = parse(text).unwrap();
        assert_eq!((line.name, line.pause_ns, line.safepoint_ns), ("Scavenge", 23_100_000, 250_000));
        assert_eq!(line.promoted_bytes, Some(191_448));
        for other in ["", "[1:0x2]", "[1:2] 1 ms: x", "[1:0x2] 1 ms: hello 3", "Scavenge 4.1 -> 3 MB, 1 ms"] {
            assert_eq!(parse(other), None, "{other}");
        }
    }

    #[test]
    fn pauses_keep_their_length_where_ends_are_rounded() {
        let text = "[1:0x2] 10 ms: pause=4.0 gc=s\n[1:0x2] 11 ms: pause=3.5 gc=s\n";
        let mut times = Vec::new();
        let facts = Format.read(text.as_bytes(), &Wanted::default(), &mut |event| {
            if let Event::Runtime(tell) = event {
                times.push(tell.at.0 / 100_000);
            }
        });
        facts.unwrap();
        assert_eq!(times, [60, 60, 100, 100, 135, 135]);
    }
}
