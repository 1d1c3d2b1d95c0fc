//! Java's flight recordings (`*.jfr`, version 2: since JDK 9): allocations that the JVM sampled.
//!
//! `jdk.ObjectAllocationSample` (since JDK 16) has a weight: the bytes that its thread allocated since its last one. Before, the first
//! allocation in each thread-local buffer was told, which stands for the buffer, and each one outside of them. How many objects that
//! were, and when they were collected, is not told.

mod chunk;
mod values;

use std::collections::{BTreeMap, HashMap};

use holdup_events::event::{Allocated, RawStack};
use holdup_events::recording::{Rung, SourceState};
use holdup_events::tables::{Frame, FrameKind};
use holdup_events::{Event, Timestamp};

use super::{Facts, Info, ReadError, Reader, Wanted};
use crate::imported::{Bytes, LaneThread, NAME_MAX, Names, TEXT_MAX, cut};
use chunk::Chunk;
use values::{Class, Value};

/// The format.
pub struct Format;

/// Allocations, and the field that has how many bytes they stand for. Where there are the first, the others are of the same bytes.
const SAMPLES: (&str, &str) = ("jdk.ObjectAllocationSample", "weight");
const BUFFERS: [(&str, &str); 2] =
    [("jdk.ObjectAllocationInNewTLAB", "tlabSize"), ("jdk.ObjectAllocationOutsideTLAB", "allocationSize")];
/// There is one process; a number has to be given.
const PID: u32 = 1;
/// A longer span is a broken clock, not a recording (ns: 30 days).
const SPAN_MAX_NS: u64 = 30 * 24 * 3_600 * 1_000_000_000;
/// Frames of a stack that are kept, the leaf's side.
const FRAMES_MAX: usize = 512;
/// Frames of all stacks that are kept: later stacks are left out.
const FRAMES_TOTAL_MAX: usize = 1 << 24;
/// Kinds of events that are not read and are named.
const KINDS_SHOWN: usize = 4;
/// No thread allocates more between two samples (bytes).
const WEIGHT_MAX: u64 = 1 << 48;

impl Reader for Format {
    fn info(&self) -> Info {
        Info { name: "jfr", summary: "Allocations in a Java flight recording (.jfr)" }
    }

    fn recognises(&self, bytes: &[u8]) -> bool {
        bytes.starts_with(chunk::MAGIC)
    }

    fn read(&self, bytes: &[u8], _: &Wanted, sink: &mut dyn FnMut(Event)) -> Result<Facts, ReadError> {
        let mut course = Course::default();
        let mut rest = bytes;
        while !rest.is_empty() {
            let offset = (bytes.len() - rest.len()) as u64;
            match Chunk::read(rest, offset) {
                Ok((chunk, behind)) => {
                    course.chunk(&chunk)?;
                    rest = behind;
                }
                // What was read before is whole.
                Err(_) if offset > 0 => {
                    course.lost += 1;
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        course.finish(sink)
    }
}

/// What has been read.
#[derive(Default)]
struct Course {
    /// First and last moment (ns since 1970).
    span: Option<(u64, u64)>,
    threads: BTreeMap<String, LaneThread>,
    names: Names,
    /// Stacks told, by their frames.
    stacks: HashMap<Vec<u64>, u64>,
    frames: usize,
    /// By what was told: the moment (ns since 1970) and the rest.
    samples: Vec<Allocated>,
    buffers: Vec<Allocated>,
    /// Events of other kinds, by the kind's name.
    others: BTreeMap<String, u64>,
    lost: u64,
}

impl Course {
    fn chunk(&mut self, chunk: &Chunk<'_>) -> Result<(), ReadError> {
        let (start, end) = chunk.span();
        let (first, last) = self.span.unwrap_or((start, end));
        let span = (first.min(start), last.max(end));
        if span.1.saturating_sub(span.0) > SPAN_MAX_NS {
            return Err(ReadError::Broken { what: "its times are more than 30 days apart", offset: 0 });
        }
        self.span = Some(span);
        let wanted = |(number, class): (&u64, &Class)| {
            let is = |(name, _): &&(&str, &str)| *class.name == **name;
            let (_, field) = std::iter::once(&SAMPLES).chain(&BUFFERS).find(is)?;
            Some((*number, (*field, &*class.name == SAMPLES.0)))
        };
        let wanted: HashMap<u64, (&str, bool)> = chunk.classes.iter().filter_map(wanted).collect();
        // Stacks and threads of this chunk, by their numbers.
        let (mut stacks, mut threads) = (HashMap::new(), HashMap::new());
        let mut others: HashMap<u64, u64> = HashMap::new();
        let lost = chunk.events(|kind, bytes| {
            let Some((field, is_sample)) = wanted.get(&kind) else {
                *others.entry(kind).or_insert(0u64) += 1;
                return;
            };
            let told = self.allocation(chunk, (kind, field), bytes, (&mut stacks, &mut threads));
            match told {
                Some(told) if *is_sample => self.samples.push(told),
                Some(told) => self.buffers.push(told),
                None => self.lost += 1,
            }
        });
        self.lost += lost;
        for (kind, events) in others {
            let name = chunk.classes.get(&kind).map_or("", |class| &class.name);
            *self.others.entry(name.to_owned()).or_default() += events;
        }
        Ok(())
    }

    fn allocation(
        &mut self,
        chunk: &Chunk<'_>,
        (kind, field): (u64, &str),
        mut bytes: Bytes<'_>,
        (stacks, threads): (&mut HashMap<u64, u64>, &mut HashMap<u64, u32>),
    ) -> Option<Allocated> {
        let class = chunk.classes.get(&kind)?;
        let all = values::fields(&chunk.classes, class, &mut bytes)?;
        let at = chunk.moment(class.get(&all, "startTime")?.number()?);
        let weight = class.get(&all, field)?.number()?.min(WEIGHT_MAX);
        let stack = match class.get(&all, "stackTrace") {
            Some(Value::Constant(of, number)) => {
                let known = stacks.get(number).copied();
                let id = known.unwrap_or_else(|| self.stack(chunk, (*of, *number)).unwrap_or(0));
                stacks.insert(*number, id);
                id
            }
            _ => 0,
        };
        let tid = match class.get(&all, "eventThread") {
            Some(Value::Constant(of, number)) => {
                let known = threads.get(number).copied();
                let tid = known.unwrap_or_else(|| self.thread(chunk, (*of, *number)));
                threads.insert(*number, tid);
                tid
            }
            _ => self.thread(chunk, (0, 0)),
        };
        // Of no known place: each one has its own, or it would be the end of another.
        let address = (self.samples.len() + self.buffers.len()) as u64 + 1;
        Some(Allocated {
            at: Timestamp(at),
            tid,
            tgid: PID,
            address,
            bytes: weight,
            stack,
            ..Allocated::default()
        })
    }

    /// The number of a thread, by its name: the same in every chunk.
    fn thread(&mut self, chunk: &Chunk<'_>, place: (u64, u64)) -> u32 {
        let told = || {
            let (class, values) = (chunk.classes.get(&place.0)?, chunk.constants.get(&place)?);
            let text = |field| {
                let text = chunk.text(class.get(values, field)?).filter(|text| !text.is_empty())?;
                Some(cut(text, NAME_MAX).to_owned())
            };
            let number = class.get(values, "osThreadId").and_then(Value::number);
            let name = text("javaName").or_else(|| text("osName"))?;
            Some((name, number.and_then(|number| u32::try_from(number).ok()).unwrap_or(0)))
        };
        let (name, number) = told().unwrap_or_else(|| ("unknown thread".to_owned(), 0));
        let next = u32::MAX / 2 + self.threads.len() as u32;
        let key = format!("{number} {name}");
        let tid = if number > PID { number } else { next };
        self.threads.entry(key).or_insert(LaneThread { tid, pid: PID, name }).tid
    }

    /// The number of a stack; `None` if there is none to be told.
    fn stack(&mut self, chunk: &Chunk<'_>, place: (u64, u64)) -> Option<u64> {
        let (class, values) = (chunk.classes.get(&place.0)?, chunk.constants.get(&place)?);
        let Value::Many(frames) = class.get(values, "frames")? else { return None };
        let of = class.fields.iter().find(|field| &*field.name == "frames")?.class;
        let class = chunk.classes.get(&of)?;
        let frame = |frame: &Value| match frame {
            Value::Many(values) => Some(self.names.frame(named(chunk, class, values)?)),
            _ => None,
        };
        let addresses: Vec<u64> = frames.iter().take(FRAMES_MAX).filter_map(frame).collect();
        if let Some(id) = self.stacks.get(&addresses) {
            return Some(*id);
        }
        self.frames += addresses.len();
        if addresses.is_empty() || self.frames > FRAMES_TOTAL_MAX {
            return None;
        }
        let id = self.stacks.len() as u64 + 1;
        self.stacks.insert(addresses, id);
        Some(id)
    }

    fn finish(self, sink: &mut dyn FnMut(Event)) -> Result<Facts, ReadError> {
        let is_sampled = !self.samples.is_empty();
        let mut told = if is_sampled { self.samples } else { self.buffers };
        let others = left_out(&self.others);
        let (start, end) = self.span.filter(|_| !told.is_empty()).ok_or_else(|| ReadError::Unsupported {
            what: format!("a flight recording without allocations{}", others.as_deref().unwrap_or("")),
            remedy: "only allocations are read (settings=profile, or async-profiler's alloc)",
        })?;
        told.sort_by_key(|allocated| allocated.at);
        self.threads.values().for_each(|thread| thread.begin(Timestamp(0), Timestamp(0), sink));
        let mut stacks: Vec<(u64, Vec<u64>)> =
            self.stacks.into_iter().map(|(addresses, id)| (id, addresses)).collect();
        stacks.sort_unstable();
        for (id, addresses) in stacks {
            sink(Event::Stack(RawStack { id, tgid: PID, addresses, ..RawStack::default() }));
        }
        let events = told.len() as u64;
        let length = end.saturating_sub(start);
        for allocated in told {
            let at = Timestamp(allocated.at.0.saturating_sub(start).min(length));
            sink(Event::Allocated(Allocated { at, ..allocated }));
        }
        let what =
            if is_sampled { "sampled allocations" } else { "allocations of new buffers and outside of them" };
        Ok(Facts {
            span: (Timestamp(0), Timestamp(length)),
            rung: Rung::Proc,
            limits: format!(
                "a flight recording: {what}, each of which stands for the bytes of its thread since the last; how many objects \
                 these were, when they were collected and when threads had a CPU is not known"
            ),
            sources: vec![SourceState {
                name: "allocations".to_owned(),
                active: true,
                missing: others
                    .map_or_else(String::new, |others| format!("only allocations are read{others}")),
                events,
                lost: self.lost,
            }],
            names: Some(self.names),
            ..Facts::default()
        })
    }
}

/// The kinds of events that are measurements and are not read, the most frequent first; `None` without one.
fn left_out(others: &BTreeMap<String, u64>) -> Option<String> {
    // A recorder's settings, and what it says of the machine, are no measurements.
    let is_setting = |name: &str| {
        ["Setting", "Information", "Flag", "Property", "Variable", "Recording", "Library", "Version"]
            .iter()
            .any(|part| name.contains(part))
    };
    let mut kinds: Vec<(&str, u64)> = others
        .iter()
        .filter(|(name, _)| !is_setting(name))
        .map(|(name, events)| (cut(name.rsplit('.').next().unwrap_or(name), NAME_MAX), *events))
        .collect();
    kinds.sort_by_key(|(_, events)| std::cmp::Reverse(*events));
    let shown: Vec<String> =
        kinds.iter().take(KINDS_SHOWN).map(|(name, events)| format!("{events} {name}")).collect();
    let rest = kinds.len().saturating_sub(KINDS_SHOWN);
    let more = if rest > 0 { format!(" and {rest} more kinds of events") } else { String::new() };
    (!shown.is_empty()).then(|| format!(", not its {}{more}", shown.join(", ")))
}

/// A frame, by its method's class and name.
fn named(chunk: &Chunk<'_>, class: &Class, values: &[Value]) -> Option<Frame> {
    let follow = |value: &Value| match value {
        Value::Constant(class, number) => {
            Some((chunk.classes.get(class)?, chunk.constants.get(&(*class, *number))?))
        }
        _ => None,
    };
    let symbol = |value: &Value| {
        let (class, values) = follow(value)?;
        Some(cut(chunk.text(class.get(values, "string")?)?, TEXT_MAX))
    };
    let (method, parts) = follow(class.get(values, "method")?)?;
    let name = symbol(method.get(parts, "name")?)?;
    let owner = method.get(parts, "type").and_then(follow);
    let owner = owner.and_then(|(class, values)| symbol(class.get(values, "name")?));
    let function = match owner {
        Some(owner) => format!("{}.{name}", owner.replace('/', ".")),
        None => name.to_owned(),
    };
    let line = class.get(values, "lineNumber").and_then(Value::number).unwrap_or(0);
    // -1: not known.
    let line = i32::try_from(line as i64).ok().and_then(|line| u32::try_from(line).ok()).unwrap_or(0);
    Some(Frame { kind: FrameKind::User, function, line, ..Frame::default() })
}
