//! Allocations of an OCaml program, sampled and written by the library memtrace (`*.ctf`, versions 1 to 3).
//!
//! Each word is sampled with the same probability. An object with a sampled word is recorded with its
//! backtrace and the time when the collector frees it. Sizes are heap sizes: an object has one header word.
//! Each domain is shown as a thread with unknown states.

mod backtraces;
mod locations;
mod packets;

use std::collections::{BTreeMap, HashMap};

use holdup_events::event::{Allocated, Freed, RawStack};
use holdup_events::recording::{Backend, Host, SourceState};
use holdup_events::tables::{Frame, FrameKind};
use holdup_events::{Event, Timestamp};

use super::{Facts, Info, ReadError, Reader, Wanted};
use crate::imported::{Bytes, LaneThread, Names};
use backtraces::Backtraces;
use locations::{Location, Locations};
use packets::{Packet, Said};

/// The format.
pub struct Format;

/// A longer span is a broken clock, not a recording (µs: 30 days).
const SPAN_MAX_US: u64 = 30 * 24 * 3_600 * 1_000_000;
/// Frames of a stack that are kept, the leaf's side.
const FRAMES_MAX: usize = 512;
/// Frames of all stacks that are kept: later stacks are left out.
const FRAMES_TOTAL_MAX: usize = 1 << 24;
/// A larger object is a broken file's (words).
const WORDS_MAX: u64 = 1 << 48;

impl Reader for Format {
    fn info(&self) -> Info {
        Info { name: "memtrace", summary: "Allocations of an OCaml program, sampled by memtrace (.ctf)" }
    }

    fn recognises(&self, bytes: &[u8]) -> bool {
        bytes.starts_with(&packets::MAGIC.to_le_bytes())
    }

    fn read(&self, bytes: &[u8], _: &Wanted, sink: &mut dyn FnMut(Event)) -> Result<Facts, ReadError> {
        let (length, mut rest) = (bytes.len() as u64, Bytes(bytes));
        let first = packets::next(&mut rest, length)?.ok_or(ReadError::Cut {
            what: "its first packet",
            end: length + 1,
            length,
        })?;
        let mut course = Course::new(first)?;
        while !rest.0.is_empty() {
            match packets::next(&mut rest, length)? {
                Some(packet) => course.packet(packet)?,
                None => {
                    course.lost += 1;
                    break;
                }
            }
        }
        course.finish(sink)
    }
}

/// State of one domain across its packets.
struct Domain {
    thread: LaneThread,
    began: u64,
    backtraces: Backtraces,
    locations: Locations,
}

/// The way through the file.
struct Course {
    info: packets::Info,
    pid: u64,
    /// First and last moment (µs since 1970).
    span: (u64, u64),
    domains: BTreeMap<u16, Domain>,
    places: HashMap<u64, Vec<Location>>,
    stacks: Stacks,
    events: Vec<Event>,
    /// Packets that could not be read, or not wholly.
    lost: u64,
}

impl Course {
    fn new(first: Packet<'_>) -> Result<Course, ReadError> {
        let Packet { header, mut events, .. } = first;
        let info = packets::event(&header, &mut events)
            .filter(|(_, said)| *said == Said::Info)
            .and_then(|_| packets::Info::read(&header, &mut events))
            .ok_or(ReadError::Broken { what: "its first packet does not describe the program", offset: 0 })?;
        if !(info.rate > 0.0 && info.rate <= 1.0 && matches!(info.word_bits, 32 | 64)) {
            return Err(ReadError::Broken { what: "its rate or its words' size is none", offset: 0 });
        }
        Ok(Course {
            info,
            pid: header.pid,
            // The first packet is written at one moment. Its end time is not reliable.
            span: (header.moments.0, header.moments.0),
            domains: BTreeMap::new(),
            places: HashMap::new(),
            stacks: Stacks::default(),
            events: Vec::new(),
            lost: 0,
        })
    }

    fn packet(&mut self, packet: Packet<'_>) -> Result<(), ReadError> {
        let Packet { header, mut events, is_cut } = packet;
        // A child that was forked writes a few packets into its parent's file.
        if header.pid != self.pid {
            self.lost += 1;
            return Ok(());
        }
        if header.moments.1.saturating_sub(self.span.0) > SPAN_MAX_US {
            return Err(ReadError::Broken { what: "its times are more than 30 days apart", offset: 0 });
        }
        self.span.1 = self.span.1.max(header.moments.1);
        let tid = (self.pid as u32 & i32::MAX as u32).max(1);
        let domain = self.domains.entry(header.domain).or_insert_with(|| Domain {
            thread: LaneThread {
                tid: tid.wrapping_add(header.domain.into()),
                pid: tid,
                name: format!("domain {}", header.domain),
            },
            began: header.moments.0,
            backtraces: Backtraces::default(),
            locations: Locations::default(),
        });
        if !domain.backtraces.agrees(header.check) {
            self.lost += 1;
            return Ok(());
        }
        let mut next_object = header.first_object;
        let mut is_whole = !is_cut;
        while !events.0.is_empty() {
            if self.event(&header, &mut events, &mut next_object).is_none() {
                is_whole = false;
                break;
            }
        }
        self.lost += u64::from(!is_whole);
        Ok(())
    }

    /// Handles one event. `None` if it cannot be read.
    fn event(
        &mut self,
        header: &packets::Header,
        bytes: &mut Bytes<'_>,
        next_object: &mut u64,
    ) -> Option<()> {
        let (at, said) = packets::event(header, bytes)?;
        let domain = self.domains.get_mut(&header.domain)?;
        let (tid, tgid) = (domain.thread.tid, domain.thread.pid);
        let at = Timestamp(at.saturating_sub(self.span.0).saturating_mul(1_000));
        match said {
            Said::Info => return None,
            Said::Promoted => {}
            Said::Location => {
                let (code, locations) = domain.locations.read(bytes)?;
                self.places.insert(code, locations);
            }
            Said::Allocated { words, outside, shared, codewords } => {
                let backtrace = domain.backtraces.read(bytes, shared, codewords)?;
                let stack = self.stacks.stack_id(backtrace);
                let word = u64::from(self.info.word_bits / 8);
                // Memory outside of the heap has no word before it.
                let words = words.min(WORDS_MAX) + u64::from(!outside);
                self.events.push(Event::Allocated(Allocated {
                    at,
                    tid,
                    tgid,
                    address: *next_object,
                    bytes: words * word,
                    every_bytes: ((word as f64 / self.info.rate).round() as u64).max(1),
                    own_bytes: 0,
                    stack,
                }));
                *next_object = next_object.wrapping_add(1);
            }
            Said::Collected { before } => {
                let address = next_object.wrapping_sub(1).wrapping_sub(before);
                // By the collector, whichever domain it worked in.
                self.events.push(Event::Freed(Freed { at, tid: 0, tgid, address }));
            }
        }
        Some(())
    }

    fn finish(mut self, sink: &mut dyn FnMut(Event)) -> Result<Facts, ReadError> {
        if self.events.is_empty() {
            return Err(ReadError::Empty);
        }
        let moment = |us: u64| Timestamp(us.saturating_sub(self.span.0).saturating_mul(1_000));
        let mut names = Names::default();
        let mut threads = Vec::new();
        for domain in self.domains.values() {
            let began = moment(domain.began);
            domain.thread.begin(began, Timestamp(0), &mut |event| threads.push(event));
        }
        let tgid = self.domains.values().next().map_or(1, |domain| domain.thread.pid);
        let mut room = FRAMES_TOTAL_MAX;
        for (id, backtrace) in std::mem::take(&mut self.stacks.told) {
            let addresses = addresses(&backtrace, &self.places, &mut names);
            // Up to 255 calls are inlined at one place, so there may be that many times more calls than
            // places.
            let Some(left) = room.checked_sub(addresses.len()) else { break };
            room = left;
            sink(Event::Stack(RawStack { at: Timestamp(0), id, tgid, addresses, ..RawStack::default() }));
        }
        let count = self.events.len() as u64;
        threads.append(&mut self.events);
        // Domains write packets when these are full. Allocation is sorted before freeing.
        threads.sort_by_key(|event| (event.at(), matches!(event, Event::Freed(_))));
        threads.into_iter().for_each(sink);
        Ok(Facts {
            host: Host { name: self.info.host.clone(), ..Host::default() },
            command: vec![self.info.program.clone()],
            span: (Timestamp(0), moment(self.span.1)),
            backend: Backend::Proc,
            limits: limits(&self.info),
            sources: vec![SourceState {
                name: "allocations".to_owned(),
                active: true,
                missing: String::new(),
                events: count,
                lost: self.lost,
            }],
            names: Some(names),
            ..Facts::default()
        })
    }
}

fn limits(info: &packets::Info) -> String {
    let context = match info.context.is_empty() {
        true => String::new(),
        false => format!(" ({})", info.context),
    };
    format!(
        "allocations that memtrace drew{context}: when domains had a CPU is not known; each is shown as one thread"
    )
}

/// Distinct backtraces.
#[derive(Default)]
struct Stacks {
    ids: HashMap<Vec<u64>, u64>,
    told: Vec<(u64, Vec<u64>)>,
    frames: usize,
}

impl Stacks {
    /// Id of a backtrace, which is given root first. 0 if empty.
    fn stack_id(&mut self, backtrace: &[u64]) -> u64 {
        let kept = backtrace.get(backtrace.len().saturating_sub(FRAMES_MAX)..).unwrap_or_default();
        if let Some(id) = self.ids.get(kept) {
            return *id;
        }
        self.frames += kept.len();
        if kept.is_empty() || self.frames > FRAMES_TOTAL_MAX {
            return 0;
        }
        let id = self.told.len() as u64 + 1;
        self.told.push((id, kept.to_vec()));
        self.ids.insert(kept.to_vec(), id);
        id
    }
}

/// Addresses, leaf first. A call inlined at a place comes before the place.
fn addresses(backtrace: &[u64], places: &HashMap<u64, Vec<Location>>, names: &mut Names) -> Vec<u64> {
    let locations = backtrace.iter().rev().filter_map(|code| places.get(code));
    let locations = locations.flat_map(|locations| locations.iter().enumerate().rev());
    let frame = |(index, location): (usize, &Location)| {
        names.frame(Frame {
            kind: FrameKind::User,
            function: location.function.to_string(),
            file: location.file.to_string(),
            line: location.line,
            inlined: index > 0,
            ..Frame::default()
        })
    };
    locations.take(FRAMES_MAX).map(frame).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_inlined_does_not_make_stacks_longer_than_they_may_be() {
        let location = |line| Location { function: "f".into(), file: "f.ml".into(), line };
        let places = HashMap::from([(1, (0..255).map(location).collect()), (2, vec![location(900)])]);
        let mut names = Names::default();
        assert_eq!(addresses(&[1, 1, 1, 2], &places, &mut names).len(), FRAMES_MAX);
        // Leaf first, with inlined calls before their caller. A place without a definition is unknown.
        assert_eq!(addresses(&[1, 3, 2], &places, &mut names).get(..3), Some(&[0, 1, 2][..]));
        assert_eq!(names.frame(Frame { kind: FrameKind::User, ..Frame::default() }), 256);
    }
}
