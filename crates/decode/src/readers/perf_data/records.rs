//! The records of a file, in the order of time, as [`Record`]s.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use holdup_events::event::{Outcome, RawMapping, Sample, TID_UNKNOWN, WakeContext, Waking};
use holdup_events::{CpuId, Timestamp};

use super::attributes::{self, Attribute, Use, has};
use super::layout::{Feature, Layout};
use super::samples::{self, Fields};
use super::tracepoints::Tracepoint;
use crate::imported::{
    Bytes, NAME_MAX, Record, Records, Sampled, Switched, THROTTLED, cpu, cut, unknown_wait,
};
use crate::readers::ReadError;

/// Numbers of records (`include/uapi/linux/perf_event.h`; from 64 on, `tools/lib/perf/include/perf/event.h`).
mod number {
    pub const MMAP: u32 = 1;
    pub const LOST: u32 = 2;
    pub const COMM: u32 = 3;
    pub const EXIT: u32 = 4;
    pub const THROTTLE: u32 = 5;
    pub const FORK: u32 = 7;
    pub const SAMPLE: u32 = 9;
    pub const MMAP2: u32 = 10;
    pub const LOST_SAMPLES: u32 = 13;
    pub const SWITCH: u32 = 14;
    pub const SWITCH_CPU_WIDE: u32 = 15;
    pub const USER: u32 = 64;
    pub const AUXTRACE: u32 = 71;
    pub const COMPRESSED: u32 = 81;
    pub const COMPRESSED2: u32 = 83;
}

/// Maximum number of inherited mappings emitted for forked processes, and maximum bytes of their paths. A
/// fork takes few bytes in the file, so the output needs a limit.
const INHERITED_MAX: usize = 1 << 20;
const INHERITED_BYTES_MAX: usize = 1 << 28;

/// A file, ready for iteration.
pub(super) struct File<'a> {
    pub layout: Layout<'a>,
    attributes: Vec<Attribute>,
    by_id: HashMap<u64, usize>,
    /// Time and offset of each record.
    index: Vec<(u64, u64)>,
    build_ids: BTreeMap<String, Vec<u8>>,
    /// Whether registers are those of x86-64, whose numbers are read.
    is_x86_64: bool,
    /// Scheduling data comes from tracepoints, not from context-switch records.
    tracepoints: bool,
    wakings: bool,
    /// The last record is cut, in a file whose writer did not end in order.
    cut: bool,
    kernel_text: Cell<u64>,
    other_samples: Cell<u64>,
    user_stacks: Cell<u64>,
    /// As the last going through has counted.
    user_stacks_whole: Cell<u64>,
}

/// One record.
#[derive(Clone, Copy)]
struct Raw<'a> {
    kind: u32,
    misc: u16,
    body: &'a [u8],
}

/// Content of the trailer of every record except samples.
#[derive(Clone, Copy, Default)]
struct Trailer {
    pid: u32,
    tid: u32,
    time: u64,
    cpu: CpuId,
}

impl<'a> File<'a> {
    /// Reads the descriptions and finds the records.
    pub fn open(layout: Layout<'a>) -> Result<File<'a>, ReadError> {
        let attributes = attributes::parse(&layout)?;
        let by_id = attributes
            .iter()
            .enumerate()
            .flat_map(|(index, attribute)| attribute.ids.iter().map(move |id| (*id, index)))
            .collect();
        let uses = |wanted: fn(&Tracepoint) -> bool| {
            attributes.iter().any(|one| matches!(&one.use_, Use::Tracepoint(point) if wanted(point)))
        };
        let mut file = File {
            tracepoints: uses(|point| matches!(point, Tracepoint::Switch { .. })),
            wakings: uses(|point| matches!(point, Tracepoint::Waking { .. })),
            build_ids: layout.build_ids(),
            // A file without a machine name is assumed to be from x86-64.
            is_x86_64: matches!(layout.string(Feature::Machine).as_str(), "x86_64" | ""),
            layout,
            attributes,
            by_id,
            index: Vec::new(),
            cut: false,
            kernel_text: Cell::new(0),
            other_samples: Cell::new(0),
            user_stacks: Cell::new(0),
            user_stacks_whole: Cell::new(0),
        };
        let sampled = file.find_records()?;
        attributes::choose_samples(&mut file.attributes, &sampled);
        Ok(file)
    }

    /// Address of the kernel's `_text`, 0 if the file does not contain it.
    pub fn kernel_text(&self) -> u64 {
        self.kernel_text.get()
    }

    /// Samples of events that are not used.
    pub fn other_samples(&self) -> u64 {
        self.other_samples.get()
    }

    /// Samples with a copied user stack that cannot be unwound: registers are missing, or another machine's.
    pub fn user_stacks(&self) -> u64 {
        self.user_stacks_whole.get()
    }

    /// The time of the last record.
    pub fn last(&self) -> Timestamp {
        Timestamp(self.index.last().map_or(0, |(time, _)| *time))
    }

    /// Makes the index. Returns the events that have samples, by their places.
    fn find_records(&mut self) -> Result<BTreeSet<usize>, ReadError> {
        let mut sampled = BTreeSet::new();
        let mut offset = self.layout.records.offset;
        let end = offset.saturating_add(self.layout.records.length);
        while offset < end {
            let broken = |what| ReadError::Broken { what, offset };
            let Some(raw) = self.raw(offset).filter(|raw| offset + 8 + raw.body.len() as u64 <= end) else {
                if self.layout.unfinished {
                    self.cut = true;
                    break;
                }
                return Err(broken("a record that is cut or has no length"));
            };
            let mut length = 8 + raw.body.len() as u64;
            match raw.kind {
                number::COMPRESSED | number::COMPRESSED2 => {
                    return Err(ReadError::Unsupported {
                        what: "this perf.data is compressed".to_owned(),
                        remedy: "record without -z, or import the output of `perf script`",
                    });
                }
                // Its data follow it.
                number::AUXTRACE => length = length.saturating_add(Bytes(raw.body).u64().unwrap_or(0)),
                number::USER.. => {}
                _ => {
                    if raw.kind == number::SAMPLE {
                        sampled.extend(self.attribute_place(raw));
                    }
                    self.index.push((self.time(raw), offset));
                }
            }
            offset = offset.saturating_add(length);
        }
        self.index.sort();
        Ok(sampled)
    }

    fn raw(&self, offset: u64) -> Option<Raw<'a>> {
        let mut header = Bytes(self.layout.bytes.get(usize::try_from(offset).ok()?..)?);
        let (kind, misc, size) = (header.u32()?, header.u16()?, header.u16()?);
        Some(Raw { kind, misc, body: header.take(u64::from(size).checked_sub(8)?)? })
    }

    fn time(&self, raw: Raw<'_>) -> u64 {
        match raw.kind {
            number::SAMPLE => self.attribute(raw).and_then(|attribute| sample_time(raw.body, attribute)),
            _ => Some(self.trailer(raw).time),
        }
        .unwrap_or(0)
    }

    /// The event that a record is of.
    fn attribute(&self, raw: Raw<'_>) -> Option<&Attribute> {
        self.attributes.get(self.attribute_place(raw)?)
    }

    fn attribute_place(&self, raw: Raw<'_>) -> Option<usize> {
        let first = self.attributes.first()?;
        if self.attributes.len() == 1 {
            return Some(0);
        }
        // With more than one, perf asks for the same place of the id in all of them.
        let id = if raw.kind == number::SAMPLE {
            let place = id_place(first.sample_type)?;
            Bytes(raw.body.get(place..)?).u64()?
        } else {
            if !first.sample_id_all() {
                return Some(0);
            }
            let behind = trailer_id(first.sample_type)?;
            Bytes(raw.body.get(raw.body.len().checked_sub(behind)?..)?).u64()?
        };
        Some(*self.by_id.get(&id).unwrap_or(&0))
    }

    fn trailer(&self, raw: Raw<'_>) -> Trailer {
        self.attribute(raw).and_then(|attribute| trailer(raw.body, attribute)).unwrap_or_default()
    }

    fn record(&self, raw: Raw<'_>) -> Option<Record> {
        let mut bytes = Bytes(raw.body);
        let trailer = self.trailer(raw);
        let at = trailer.time;
        match raw.kind {
            number::SAMPLE => self.sample(raw),
            number::COMM => {
                const EXEC: u16 = 1 << 13;
                let (tgid, tid) = (bytes.u32()?, bytes.u32()?);
                let (name, exec) = (cut(&Bytes::text(bytes.0), NAME_MAX).to_owned(), raw.misc & EXEC != 0);
                Some(Record::Name { at, tid, tgid, name, exec })
            }
            number::FORK | number::EXIT => {
                let (tgid, parent_tgid) = (bytes.u32()?, bytes.u32()?);
                let (tid, parent_tid, time) = (bytes.u32()?, bytes.u32()?, bytes.u64()?);
                let at = if at == 0 { time } else { at };
                match raw.kind {
                    number::FORK => Some(Record::Fork { at, tid, tgid, parent_tid, parent_tgid }),
                    _ => Some(Record::Exit { at, tid, tgid }),
                }
            }
            number::MMAP | number::MMAP2 => self.mapping(raw, at),
            number::LOST => {
                bytes.u64()?;
                Some(Record::Lost { at, cpu: trailer.cpu, events: bytes.u64()?, reason: "ring-full" })
            }
            number::LOST_SAMPLES => {
                Some(Record::Lost { at, cpu: trailer.cpu, events: bytes.u64()?, reason: "lost-samples" })
            }
            // The number of throttled samples is not recorded.
            number::THROTTLE => Some(Record::Lost { at, cpu: trailer.cpu, events: 0, reason: THROTTLED }),
            number::SWITCH | number::SWITCH_CPU_WIDE if !self.tracepoints => Some(switch(raw.misc, trailer)),
            _ => None,
        }
    }

    fn mapping(&self, raw: Raw<'_>, at: u64) -> Option<Record> {
        const DATA: u16 = 1 << 13;
        const BUILD_ID: u16 = 1 << 14;
        const EXECUTABLE: u32 = 4;
        let mut bytes = Bytes(raw.body);
        let (tgid, _) = (bytes.u32()?, bytes.u32()?);
        let (start, length, file_offset) = (bytes.u64()?, bytes.u64()?, bytes.u64()?);
        let mut build_id = Vec::new();
        let executable = if raw.kind == number::MMAP2 {
            let id = bytes.take(24)?;
            // If another recorder requested build ids, the kernel sets the build-id flag also on records that
            // hold a device and inode. The "length" is then part of the device number.
            let length = usize::from(*id.first()?);
            if raw.misc & BUILD_ID != 0 && (16..=20).contains(&length) {
                build_id = id.get(4..4 + length)?.to_vec();
            }
            let protection = bytes.u32()?;
            bytes.u32()?;
            protection & EXECUTABLE != 0
        } else {
            raw.misc & DATA == 0
        };
        let mut path = Bytes::text(bytes.0);
        if tgid == u32::MAX {
            // For the kernel, the offset is the address of the symbol named after the bracket.
            if path == "[kernel.kallsyms]_text" || path == "[kernel.kallsyms]_stext" {
                self.kernel_text.set(file_offset);
            }
            return None;
        }
        if path.starts_with("//") {
            path.clear();
        }
        if let Some(known) = self.build_ids.get(&path).filter(|_| build_id.is_empty()) {
            build_id.clone_from(known);
        }
        let (at, end) = (Timestamp(at), start.checked_add(length)?);
        let mapping = RawMapping { at, tgid, start, end, file_offset, path, build_id };
        executable.then_some(Record::Mapping(mapping))
    }

    fn sample(&self, raw: Raw<'_>) -> Option<Record> {
        let attribute = self.attribute(raw)?;
        let mut fields = samples::parse(raw.body, attribute, self.is_x86_64)?;
        match &attribute.use_ {
            Use::Samples(_) => Some(self.running(raw.misc, attribute, &mut fields)),
            Use::Tracepoint(tracepoint) => self.tracepoint(*tracepoint, &fields),
            Use::Nothing => {
                self.other_samples.set(self.other_samples.get() + 1);
                None
            }
        }
    }

    fn running(&self, misc: u16, attribute: &Attribute, fields: &mut Fields<'_>) -> Record {
        const MODE: u16 = 7;
        const KERNEL: u16 = 1;
        let in_kernel = misc & MODE == KERNEL;
        if fields.has_user_stack && fields.memory.is_none() {
            self.user_stacks.set(self.user_stacks.get() + 1);
        }
        let (addresses, kernel_frames) = samples::addresses(fields, in_kernel);
        Record::Sample(Sampled {
            sample: Sample {
                at: Timestamp(fields.time),
                cpu: fields.cpu.map_or(CpuId::NONE, cpu),
                tid: fields.tid,
                tgid: fields.pid,
                ip: fields.ip,
                in_kernel,
                syscall: if in_kernel { i32::MIN } else { -1 },
                stack: 0,
                registers: None,
            },
            name: String::new(),
            addresses,
            kernel_frames,
            raw: fields.memory.take(),
            period_ns: super::period_ns(&attribute.use_, fields.period.unwrap_or(attribute.period())),
        })
    }

    fn tracepoint(&self, tracepoint: Tracepoint, fields: &Fields<'_>) -> Option<Record> {
        let cpu = fields.cpu.map_or(CpuId::NONE, cpu);
        let raw = fields.raw;
        let tid = |field: super::tracepoints::Field| Some(field.number(raw)? as u32);
        match tracepoint {
            Tracepoint::Switch { prev_comm, prev_pid, prev_state, next_comm, next_pid } => {
                Some(Record::Switch(Switched {
                    at: fields.time,
                    cpu,
                    prev_tid: tid(prev_pid)?,
                    prev_tgid: if fields.pid == u32::MAX { 0 } else { fields.pid },
                    prev_name: prev_comm.text(raw),
                    next_tid: tid(next_pid)?,
                    next_tgid: 0,
                    next_name: next_comm.text(raw),
                    outcome: outcome(prev_state.number(raw)?),
                }))
            }
            Tracepoint::Waking { comm, pid } => Some(waking(fields, cpu, tid(pid)?, comm.text(raw))),
            Tracepoint::Wakeup { comm, pid } if !self.wakings => {
                Some(waking(fields, cpu, tid(pid)?, comm.text(raw)))
            }
            Tracepoint::Wakeup { .. } => None,
        }
    }
}

impl Records for File<'_> {
    fn each(&self, sink: &mut dyn FnMut(Record)) -> Result<(), ReadError> {
        self.other_samples.set(0);
        self.user_stacks.set(0);
        let mut inherited = Inherited::default();
        for (_, offset) in &self.index {
            let Some(raw) = self.raw(*offset) else { continue };
            let Some(record) = self.record(raw) else { continue };
            inherited.take(&record, sink);
            sink(record);
        }
        self.user_stacks_whole.set(self.user_stacks.get());
        if inherited.refused > 0 {
            let (at, events) = (self.last().0, inherited.refused);
            sink(Record::Lost { at, cpu: CpuId::NONE, events, reason: "too-many-inherited-mappings" });
        }
        if self.cut {
            sink(Record::Lost { at: self.last().0, cpu: CpuId::NONE, events: 0, reason: "truncated" });
        }
        Ok(())
    }

    fn exits_are_final(&self) -> bool {
        !self.tracepoints
    }
}

/// The mappings of each process, for its children: of these perf.data has no records.
#[derive(Default)]
struct Inherited {
    by_process: HashMap<u32, Vec<RawMapping>>,
    told: usize,
    told_bytes: usize,
    /// Mappings that were more than that.
    refused: u64,
}

impl Inherited {
    fn take(&mut self, record: &Record, sink: &mut dyn FnMut(Record)) {
        match record {
            Record::Mapping(mapping) => {
                self.by_process.entry(mapping.tgid).or_default().push(mapping.clone());
            }
            Record::Name { tgid, exec: true, .. } => {
                self.by_process.remove(tgid);
            }
            Record::Fork { at, tgid, parent_tgid, .. } if tgid != parent_tgid && *at > 0 => {
                let Some(mappings) = self.by_process.get(parent_tgid) else { return };
                let bytes = mappings.iter().map(|mapping| mapping.path.len() + mapping.build_id.len());
                self.told_bytes = self.told_bytes.saturating_add(bytes.sum());
                self.told = self.told.saturating_add(mappings.len());
                if self.told > INHERITED_MAX || self.told_bytes > INHERITED_BYTES_MAX {
                    self.refused += mappings.len() as u64;
                    return;
                }
                let mut mappings = mappings.clone();
                for mapping in &mut mappings {
                    (mapping.at, mapping.tgid) = (Timestamp(*at), *tgid);
                    sink(Record::Mapping(mapping.clone()));
                }
                self.by_process.insert(*tgid, mappings);
            }
            _ => {}
        }
    }
}

fn sample_time(body: &[u8], attribute: &Attribute) -> Option<u64> {
    let before = [has::IDENTIFIER, has::IP, has::TID];
    let words = before.iter().filter(|bit| attribute.sample_type & **bit != 0).count();
    if attribute.sample_type & has::TIME == 0 {
        return None;
    }
    Bytes(body.get(words * 8..)?).u64()
}

/// Where in a sample the number of its event is.
fn id_place(sample_type: u64) -> Option<usize> {
    if sample_type & has::IDENTIFIER != 0 {
        return Some(0);
    }
    let before = [has::IP, has::TID, has::TIME, has::ADDR];
    let words = before.iter().filter(|bit| sample_type & **bit != 0).count();
    (sample_type & has::ID != 0).then_some(words * 8)
}

/// How far from the end of other records it is.
fn trailer_id(sample_type: u64) -> Option<usize> {
    if sample_type & has::IDENTIFIER != 0 {
        return Some(8);
    }
    let behind = [has::ID, has::STREAM_ID, has::CPU];
    let words = behind.iter().filter(|bit| sample_type & **bit != 0).count();
    (sample_type & has::ID != 0).then_some(words * 8)
}

fn trailer(body: &[u8], attribute: &Attribute) -> Option<Trailer> {
    if !attribute.sample_id_all() {
        return None;
    }
    let there = |bit| attribute.sample_type & bit != 0;
    let parts = [has::TID, has::TIME, has::ID, has::STREAM_ID, has::CPU, has::IDENTIFIER];
    let length = parts.iter().filter(|bit| there(**bit)).count() * 8;
    let mut bytes = Bytes(body.get(body.len().checked_sub(length)?..)?);
    let mut trailer = Trailer { cpu: CpuId::NONE, ..Trailer::default() };
    if there(has::TID) {
        (trailer.pid, trailer.tid) = (bytes.u32()?, bytes.u32()?);
    }
    if there(has::TIME) {
        trailer.time = bytes.u64()?;
    }
    for bit in [has::ID, has::STREAM_ID] {
        if there(bit) {
            bytes.u64()?;
        }
    }
    if there(has::CPU) {
        trailer.cpu = cpu(bytes.u32()?);
    }
    Some(trailer)
}

/// PERF_RECORD_SWITCH: the thread that the trailer names comes or goes.
fn switch(misc: u16, trailer: Trailer) -> Record {
    const OUT: u16 = 1 << 13;
    const PREEMPTED: u16 = 1 << 14;
    let (tid, tgid) = (trailer.tid, trailer.pid);
    let nobody = Switched {
        at: trailer.time,
        cpu: trailer.cpu,
        prev_tid: TID_UNKNOWN,
        next_tid: TID_UNKNOWN,
        ..Switched::default()
    };
    Record::Switch(match (misc & OUT != 0, misc & PREEMPTED != 0) {
        (false, _) => Switched { next_tid: tid, next_tgid: tgid, ..nobody },
        (true, preempted) => Switched {
            prev_tid: tid,
            prev_tgid: tgid,
            outcome: if preempted { Outcome::Preempted } else { Outcome::Blocked(unknown_wait(0)) },
            ..nobody
        },
    })
}

/// `prev_state` as reported by sched_switch: bits of TASK_REPORT. No bit means runnable, and so does the bit
/// above them.
pub(in crate::readers) fn outcome(prev_state: u64) -> Outcome {
    const DEAD: u64 = 0x10 | 0x20;
    const IDLE: u64 = 0x80;
    const PREEMPTED: u64 = 0x100;
    match prev_state {
        state if state & DEAD != 0 => Outcome::Dead,
        state if state & PREEMPTED != 0 || state & 0xff == 0 => Outcome::Preempted,
        state if state & IDLE != 0 => Outcome::Blocked(unknown_wait(2)),
        state => Outcome::Blocked(unknown_wait((state & 0xf) as u32)),
    }
}

fn waking(fields: &Fields<'_>, cpu: CpuId, wakee_tid: u32, name: String) -> Record {
    const HARD_INTERRUPT: u8 = 8;
    const SOFT_INTERRUPT: u8 = 16;
    // Every tracepoint begins: u16 number, u8 flags.
    let flags = fields.raw.get(2).copied().unwrap_or(0);
    let context = match flags {
        flags if flags & HARD_INTERRUPT != 0 => WakeContext::Irq,
        flags if flags & SOFT_INTERRUPT != 0 => WakeContext::SoftIrq,
        _ => WakeContext::Thread,
    };
    let waking = Waking {
        at: Timestamp(fields.time),
        cpu,
        wakee_tid,
        waker_tid: fields.tid,
        context,
        waker_syscall: i32::MIN,
        ..Waking::default()
    };
    Record::Waking(waking, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_paths_are_not_inherited_without_end() {
        let mut inherited = Inherited::default();
        let mut told = Vec::new();
        let path = "/".repeat(1 << 15);
        let mapping = RawMapping { tgid: 1, path, ..RawMapping::default() };
        let fork = |tgid| Record::Fork { at: 5, tid: tgid, tgid, parent_tid: 1, parent_tgid: 1 };
        inherited.take(&Record::Mapping(mapping), &mut |_| {});
        let mut take = |inherited: &mut Inherited, tgid| {
            inherited.take(&fork(tgid), &mut |record| told.push(record));
            told.len()
        };
        assert_eq!(take(&mut inherited, 2), 1);
        inherited.told_bytes = INHERITED_BYTES_MAX - (1 << 15);
        assert_eq!((take(&mut inherited, 3), take(&mut inherited, 4)), (2, 2));
        assert_eq!(inherited.refused, 1);
    }
}
