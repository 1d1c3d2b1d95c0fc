//! Java flight recordings (`*.jfr`, version 2, since JDK 9): sampled allocations, and samples of running
//! threads.
//!
//! `jdk.ExecutionSample` shows where threads ran, not how long, because a recorder samples only some threads
//! at each moment.
//!
//! `jdk.ObjectAllocationSample` (since JDK 16) has a weight: the bytes that its thread allocated since its
//! last sample. Earlier JDKs record the first allocation in each thread-local buffer, which represents the
//! buffer, and each allocation outside of the buffers. The number of objects and the time of their collection
//! are not recorded.

mod chunk;
mod values;

use std::collections::{BTreeMap, HashMap};

use holdup_events::event::{Allocated, RawStack, Sample};
use holdup_events::recording::{Backend, SourceState};
use holdup_events::tables::{Frame, FrameKind};
use holdup_events::{CpuId, Event, Timestamp};

use super::{Facts, Info, ReadError, Reader, Wanted};
use crate::imported::{Bytes, LaneThread, NAME_MAX, Names, TEXT_MAX, cut};
use chunk::Chunk;
use values::{Class, Value};

/// The format.
pub struct Format;

/// Allocation events, and the field with the number of bytes that they represent. If the sample events exist,
/// the buffer events cover the same bytes.
const SAMPLES: (&str, &str) = ("jdk.ObjectAllocationSample", "weight");
const BUFFERS: [(&str, &str); 2] =
    [("jdk.ObjectAllocationInNewTLAB", "tlabSize"), ("jdk.ObjectAllocationOutsideTLAB", "allocationSize")];
/// Samples of running threads, and the state of those that async-profiler's wall clock saw asleep.
const EXECUTION: &str = "jdk.ExecutionSample";
const ASLEEP: &str = "STATE_SLEEPING";
/// Process id for the recording, which has only one process.
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
        Info { name: "jfr", summary: "Allocations and samples in a Java flight recording (.jfr)" }
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
                // Earlier chunks are complete.
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

/// Content read so far.
#[derive(Default)]
struct Course {
    /// First and last moment (ns since 1970).
    span: Option<(u64, u64)>,
    threads: BTreeMap<String, LaneThread>,
    names: Names,
    /// Defined stacks, by their frames.
    stacks: HashMap<Vec<u64>, u64>,
    frames: usize,
    /// Allocations by kind of event. Times are ns since 1970.
    samples: Vec<Allocated>,
    buffers: Vec<Allocated>,
    /// Samples of running threads, with times as above.
    ran: Vec<Sample>,
    /// Samples of threads that did not run.
    asleep: u64,
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
        let execution =
            chunk.classes.iter().find(|(_, class)| *class.name == *EXECUTION).map(|(number, _)| *number);
        let lost = chunk.events(|kind, bytes| {
            if Some(kind) == execution {
                let told = self.execution(chunk, kind, bytes, (&mut stacks, &mut threads));
                self.lost += u64::from(told.is_none());
                return;
            }
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
        let stack = self.stack_of(chunk, class.get(&all, "stackTrace"), stacks);
        let tid = self.thread_of(chunk, class.get(&all, "eventThread"), threads);
        // The address is unknown. Each allocation needs its own, because a repeated address would end the
        // previous allocation.
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

    /// A sample of a thread. Samples of sleeping threads are only counted.
    fn execution(
        &mut self,
        chunk: &Chunk<'_>,
        kind: u64,
        mut bytes: Bytes<'_>,
        (stacks, threads): (&mut HashMap<u64, u64>, &mut HashMap<u64, u32>),
    ) -> Option<()> {
        let class = chunk.classes.get(&kind)?;
        let all = values::fields(&chunk.classes, class, &mut bytes)?;
        let at = chunk.moment(class.get(&all, "startTime")?.number()?);
        let state = match class.get(&all, "state") {
            Some(Value::Constant(of, number)) => {
                chunk.constants.get(&(*of, *number)).and_then(|state| state.first())
            }
            _ => None,
        };
        if state.and_then(|state| chunk.text(state)) == Some(ASLEEP) {
            self.asleep += 1;
            return Some(());
        }
        let stack = self.stack_of(chunk, class.get(&all, "stackTrace"), stacks);
        let tid = self.thread_of(chunk, class.get(&all, "sampledThread"), threads);
        let (at, cpu) = (Timestamp(at), CpuId::NONE);
        self.ran.push(Sample { at, cpu, tid, tgid: PID, syscall: -1, stack, ..Sample::default() });
        Some(())
    }

    /// Id of an event's stack, 0 if none.
    fn stack_of(&mut self, chunk: &Chunk<'_>, value: Option<&Value>, known: &mut HashMap<u64, u64>) -> u64 {
        let Some(Value::Constant(of, number)) = value else { return 0 };
        let id = known.get(number).copied();
        let id = id.unwrap_or_else(|| self.stack(chunk, (*of, *number)).unwrap_or(0));
        known.insert(*number, id);
        id
    }

    /// The number of an event's thread.
    fn thread_of(&mut self, chunk: &Chunk<'_>, value: Option<&Value>, known: &mut HashMap<u64, u32>) -> u32 {
        let Some(Value::Constant(of, number)) = value else { return self.thread(chunk, (0, 0)) };
        let tid = known.get(number).copied();
        let tid = tid.unwrap_or_else(|| self.thread(chunk, (*of, *number)));
        known.insert(*number, tid);
        tid
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

    /// Id of a stack, `None` if it is not usable.
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
        let missing = self.missing();
        let is_sampled = !self.samples.is_empty();
        let told = if is_sampled { self.samples } else { self.buffers };
        let (allocations, samples) = (told.len() as u64, self.ran.len() as u64);
        let (start, end) =
            self.span.filter(|_| allocations + samples > 0).ok_or_else(|| ReadError::Unsupported {
                what: format!(
                    "a flight recording without allocations and samples of running threads{}",
                    missing.replacen("not read: ", ": it has ", 1)
                ),
                remedy: "only allocations and jdk.ExecutionSample are read (settings=profile)",
            })?;
        self.threads.values().for_each(|thread| thread.begin(Timestamp(0), Timestamp(0), sink));
        let mut stacks: Vec<(u64, Vec<u64>)> =
            self.stacks.into_iter().map(|(addresses, id)| (id, addresses)).collect();
        stacks.sort_unstable();
        for (id, addresses) in stacks {
            sink(Event::Stack(RawStack { id, tgid: PID, addresses, ..RawStack::default() }));
        }
        let length = end.saturating_sub(start);
        let moment = |at: Timestamp| Timestamp(at.0.saturating_sub(start).min(length));
        let told = told.into_iter().map(|told| Event::Allocated(Allocated { at: moment(told.at), ..told }));
        let ran = self.ran.into_iter().map(|ran| Event::Sample(Sample { at: moment(ran.at), ..ran }));
        let mut events: Vec<Event> = told.chain(ran).collect();
        events.sort_by_key(Event::at);
        events.into_iter().for_each(sink);
        let source = |name: &str, events, lost, missing: &str| SourceState {
            name: name.to_owned(),
            active: true,
            missing: missing.to_owned(),
            events,
            lost,
        };
        let mut sources = Vec::new();
        if allocations > 0 {
            sources.push(source("allocations", allocations, self.lost, &missing));
        }
        if samples > 0 {
            // Losses are counted for one source only.
            let (lost, missing) = if allocations > 0 { (0, "") } else { (self.lost, &*missing) };
            sources.push(source("java-samples", samples, lost, missing));
        }
        Ok(Facts {
            span: (Timestamp(0), Timestamp(length)),
            backend: Backend::Proc,
            limits: limits((allocations > 0).then_some(is_sampled), samples > 0),
            sources,
            names: Some(self.names),
            ..Facts::default()
        })
    }

    /// Description of the parts of the file that are not imported.
    fn missing(&self) -> String {
        let mut missing =
            left_out(&self.others).map_or_else(String::new, |others| format!("not read: {others}"));
        if self.asleep > 0 {
            let separator = if missing.is_empty() { "not read: " } else { ", " };
            missing.push_str(&format!("{separator}{} samples of threads that slept", self.asleep));
        }
        missing
    }
}

/// Limits of the file. `allocations`: whether they are sampled, if there are any.
fn limits(allocations: Option<bool>, has_samples: bool) -> String {
    let mut parts = Vec::new();
    if let Some(is_sampled) = allocations {
        let what =
            if is_sampled { "sampled allocations" } else { "allocations of new buffers and outside of them" };
        parts.push(format!(
            "{what}, each of which stands for the bytes of its thread since the last; how many objects these were and when they were \
             collected is not known"
        ));
    }
    if has_samples {
        parts.push(
            "samples of running threads, which do not stand for time: stacks and exports show each as 1 ms, so that only shares mean \
             something"
                .to_owned(),
        );
    }
    format!("a flight recording: {}. Times on CPUs are not known", parts.join("; "))
}

/// Types of measurement events that are not imported, the most frequent first. `None` if there are none.
fn left_out(others: &BTreeMap<String, u64>) -> Option<String> {
    // Settings and information about the host are not measurements.
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
    (!shown.is_empty()).then(|| format!("{}{more}", shown.join(", ")))
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
