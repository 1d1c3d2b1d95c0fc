//! Runtime events of an OCaml 5 program, from the ring file that it leaves behind
//! (`OCAML_RUNTIME_EVENTS_PRESERVE`).
//!
//! The file has no scheduler data. Each domain becomes a thread with unknown states. A ring keeps only the
//! newest events.

use std::collections::BTreeMap;

use holdup_events::event::{RuntimeEvent, RuntimeEventKind, SnapshotState};
use holdup_events::recording::{Backend, SourceState};
use holdup_events::{Event, Timestamp};

use super::{Facts, Info, ReadError, Reader, Wanted};
use crate::imported::LaneThread;
use crate::runtime_events::{RingError, Rings, SOURCE, Span};

/// The format.
pub struct Format;

/// Process id if the file does not contain it.
const PID_UNKNOWN: u32 = 1;
/// A longer span is a broken clock, not a recording (ns: 30 days).
const SPAN_MAX_NS: u64 = 30 * 24 * 3_600 * 1_000_000_000;

impl Reader for Format {
    fn info(&self) -> Info {
        Info { name: "ocaml-events", summary: "Runtime events of an OCaml 5 program (PID.events)" }
    }

    fn recognises(&self, bytes: &[u8]) -> bool {
        // The first word is the version. Few formats begin with seven zero bytes.
        bytes.starts_with(&[1, 0, 0, 0, 0, 0, 0, 0]) && Rings::open(bytes, PID_UNKNOWN, None).is_ok()
    }

    fn read(&self, bytes: &[u8], _: &Wanted, sink: &mut dyn FnMut(Event)) -> Result<Facts, ReadError> {
        let mut rings = Rings::open(bytes, PID_UNKNOWN, None).map_err(|error| match error {
            RingError::NotYet => ReadError::Empty,
            RingError::NotOurs { what, .. } => ReadError::Broken { what, offset: 0 },
        })?;
        let mut told = Vec::new();
        rings.poll(Span { from: Timestamp(0), until: Timestamp(u64::MAX) }, &mut |event| told.push(event));
        let span = span_of(&told).ok_or(ReadError::Empty)?;
        if span.1.since(span.0).0 > SPAN_MAX_NS {
            return Err(ReadError::Broken { what: "its times are more than 30 days apart", offset: 0 });
        }
        let pid = pid_of(&told).unwrap_or(PID_UNKNOWN);
        let mut events = Vec::new();
        emit_lanes(told, pid, span, &mut |event| events.push(event));
        // A domain's end is known only when its number is given again.
        events.sort_by_key(Event::at);
        events.into_iter().for_each(sink);
        let tally = rings.tally();
        let lost = match tally.words_lost {
            0 => String::new(),
            words => format!("{words} words had been overwritten when the file was left behind"),
        };
        Ok(Facts {
            span,
            backend: Backend::Proc,
            limits: format!(
                "runtime events of OCaml {}: they tell spans, not when threads had a CPU; each domain is shown as one \
                 thread",
                rings.version().text
            ),
            sources: vec![SourceState {
                name: SOURCE.to_owned(),
                active: true,
                missing: lost,
                events: tally.events,
                lost: tally.broken,
            }],
            ..Facts::default()
        })
    }
}

fn span_of(events: &[Event]) -> Option<(Timestamp, Timestamp)> {
    let times = || events.iter().filter(|event| matches!(event, Event::Runtime(_))).map(Event::at);
    Some((times().min()?, times().max()?))
}

/// The process that the ring's first mark names.
fn pid_of(events: &[Event]) -> Option<u32> {
    events.iter().find_map(|event| match event {
        Event::Runtime(RuntimeEvent { what: RuntimeEventKind::Mark { value, .. }, name, .. })
            if matches!(&**name, "ring_start" | "domain_spawn") =>
        {
            u32::try_from(*value).ok().filter(|pid| (1..1 << 22).contains(pid))
        }
        _ => None,
    })
}

/// A life of a domain, as a thread.
struct Life {
    thread: LaneThread,
    last: Timestamp,
}

/// Emits all events in time order, with one thread per domain.
fn emit_lanes(mut told: Vec<Event>, pid: u32, span: (Timestamp, Timestamp), sink: &mut dyn FnMut(Event)) {
    for event in &mut told {
        if let Event::Loss(loss) = event {
            loss.start = loss.start.clamp(span.0, span.1);
            loss.end = loss.end.clamp(loss.start, span.1);
        }
    }
    told.sort_by_key(Event::at);
    let mut lives: BTreeMap<u32, Life> = BTreeMap::new();
    let mut next_tid = pid;
    for event in told {
        let Event::Runtime(mut tell) = event else {
            sink(event);
            continue;
        };
        tell.tgid = pid;
        if tell.what == RuntimeEventKind::LaneEnd
            && let Some(life) = lives.remove(&tell.lane)
        {
            tell.tid = life.thread.tid;
            life.thread.look(life.last, SnapshotState::Dead, sink);
        } else {
            let life = lives.entry(tell.lane).or_insert_with(|| {
                let tid = next_tid;
                next_tid = next_tid.wrapping_add(1).max(1);
                let thread = LaneThread { tid, pid, name: format!("domain {}", tell.lane) };
                thread.begin(tell.at, span.0, sink);
                Life { thread, last: tell.at }
            });
            life.last = tell.at;
            tell.tid = life.thread.tid;
        }
        sink(Event::Runtime(tell));
    }
}
