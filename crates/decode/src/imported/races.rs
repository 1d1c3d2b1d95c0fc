//! Data races that another tool found → samples of the two accesses, at one moment, and a mark that ties them.
//! Such reports have no times: the moments are their order.

use std::collections::BTreeMap;

use holdup_events::event::{RawStack, RuntimeEvent, RuntimeEventKind, Sample, Snapshot, SnapshotState};
use holdup_events::recording::{Backend, SourceState};
use holdup_events::{CpuId, Event, Timestamp};

use super::{Facts, Names};
use crate::readers::ReadError;

/// Content of a report line.
pub(crate) enum Line<'a> {
    /// Another race.
    Begin,
    /// One of the race's two accesses: its kind, and its thread.
    Access { what: String, thread: String, address: u64 },
    /// A function of the last access's stack, leaf first.
    Frame(String),
    /// Where the last function is.
    Place(&'a str),
    /// Which memory it is.
    Location(String),
    /// The stack of something else follows.
    Aside,
    /// The race ends here.
    End,
    /// Nothing of interest.
    Nothing,
}

/// No stack is deeper.
const FRAMES_MAX: usize = 256;
const TGID: u32 = 1;

#[derive(Default)]
struct Access {
    what: String,
    thread: String,
    address: u64,
    frames: Vec<String>,
}

#[derive(Default)]
struct Race {
    accesses: Vec<Access>,
    location: String,
    /// The next lines belong to the last access.
    open: bool,
}

/// Emits the races of a report. `parse_line` parses its lines.
pub(crate) fn emit<'a>(
    tool: &str,
    lines: impl Iterator<Item = &'a str>,
    parse_line: impl Fn(&'a str) -> Line<'a>,
    sink: &mut dyn FnMut(Event),
) -> Result<Facts, ReadError> {
    let races = collect(lines, parse_line);
    if races.is_empty() {
        return Err(ReadError::Empty);
    }
    let mut names = Names::default();
    let mut tids: BTreeMap<String, u32> = BTreeMap::new();
    for access in races.iter().flat_map(|race| &race.accesses) {
        let next = TGID + tids.len() as u32;
        tids.entry(access.thread.clone()).or_insert_with_key(|name| {
            sink(Event::Snapshot(thread(next, name)));
            next
        });
    }
    let mut id = 0;
    for (number, race) in (1u64..).zip(&races) {
        for access in &race.accesses {
            id += 1;
            let tid = tids.get(&access.thread).copied().unwrap_or(TGID);
            emit_access(access, (Timestamp(number), id, tid), &mut names, sink);
        }
        emit_mark(race, Timestamp(number), &tids, sink);
    }
    Ok(facts(tool, names, races.len() as u64))
}

fn collect<'a>(lines: impl Iterator<Item = &'a str>, parse_line: impl Fn(&'a str) -> Line<'a>) -> Vec<Race> {
    let mut races: Vec<Race> = Vec::new();
    let mut now: Option<Race> = None;
    for line in lines {
        match parse_line(line) {
            Line::Begin => races.extend(now.replace(Race::default())),
            Line::End => races.extend(now.take()),
            said => {
                if let Some(race) = &mut now {
                    race.take(said);
                }
            }
        }
    }
    races.extend(now);
    races.retain(|race| !race.accesses.is_empty());
    races
}

impl Race {
    fn take(&mut self, said: Line) {
        let known = self.accesses.len();
        let last = self.accesses.last_mut().filter(|_| self.open);
        match (said, last) {
            (Line::Access { what, thread, address }, _) => {
                self.open = known < 2;
                if self.open {
                    self.accesses.push(Access { what, thread, address, frames: Vec::new() });
                }
            }
            (Line::Frame(function), Some(access)) if access.frames.len() < FRAMES_MAX => {
                access.frames.push(function);
            }
            (Line::Place(place), Some(access)) => {
                if let Some(frame) = access.frames.last_mut() {
                    frame.push_str(&format!(" ({})", short(place)));
                }
            }
            (Line::Location(location), _) => {
                self.location = location;
                self.open = false;
            }
            (Line::Aside, _) => self.open = false,
            _ => {}
        }
    }
}

/// A path's last part, with its line.
pub(crate) fn short(place: &str) -> &str {
    place.rsplit('/').next().unwrap_or(place)
}

fn thread(tid: u32, name: &str) -> Snapshot {
    Snapshot {
        at: Timestamp(0),
        tid,
        tgid: TGID,
        parent_tgid: 0,
        name: name.to_owned(),
        target: true,
        state: SnapshotState::Untracked,
        exec_ns: None,
        queue_ns: None,
    }
}

fn emit_access(
    access: &Access,
    (at, id, tid): (Timestamp, u64, u32),
    names: &mut Names,
    sink: &mut dyn FnMut(Event),
) {
    let addresses = access.frames.iter().map(|frame| names.place(frame, "", false)).collect();
    sink(Event::Stack(RawStack { at, id, tgid: TGID, addresses, ..RawStack::default() }));
    sink(Event::Sample(Sample {
        at,
        cpu: CpuId::NONE,
        tid,
        tgid: TGID,
        syscall: -1,
        stack: id,
        ..Sample::default()
    }));
}

fn emit_mark(race: &Race, at: Timestamp, tids: &BTreeMap<String, u32>, sink: &mut dyn FnMut(Event)) {
    let said = |access: &Access| format!("{} by {}", access.what, access.thread);
    let mut texts: Vec<String> = race.accesses.iter().map(said).collect();
    texts.resize(2, String::new());
    texts.push(race.location.clone());
    let Some(first) = race.accesses.first() else { return };
    sink(Event::Runtime(RuntimeEvent {
        at,
        tgid: TGID,
        tid: tids.get(&first.thread).copied().unwrap_or(TGID),
        lane: 0,
        what: RuntimeEventKind::Mark { value: first.address, text: texts.join("\n").into() },
        name: "data-race".into(),
    }));
}

fn facts(tool: &str, names: Names, races: u64) -> Facts {
    Facts {
        backend: Backend::Proc,
        limits: format!(
            "a report of {tool}: it has data races, but neither times nor CPUs, so there is no ledger"
        ),
        span: (Timestamp(0), Timestamp(races + 1)),
        sources: vec![SourceState {
            name: "data-races".to_owned(),
            active: true,
            events: races,
            ..SourceState::default()
        }],
        names: Some(names),
        ..Facts::default()
    }
}
