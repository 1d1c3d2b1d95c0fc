//! Bytes → events. Total: whatever the bytes are, the answer is an event or an error.

use std::sync::Arc;

use super::bytes::{CodecError, Input};
use super::foretold::Memory;
use super::{SAMPLE_HAS_REGISTERS, outcome, runtime_event_code, state, tag, wait_flag};
use crate::event::{
    Affinity, Allocated, CallSums, Counted, Event, FaultSample, Freed, Lifecycle, LifecycleChange,
    ObjectName, RawMapping, RawMemory, RawStack, RawWait, Registers, RuntimeEvent, RuntimeEventKind, Sample,
    Snapshot, SnapshotState, SyscallCount, TaskWait, TaskWindow, Timeout, Watched,
};
use crate::tables::{CallPartKind, ChannelWait, CountKind, FrameVia, SpanKind, StackEnd};
use crate::{CpuId, Duration, Loss, ObjectKind, Timestamp};

/// Decodes the events of one chunk, in order.
pub struct Decoder<'a> {
    pub(super) input: Input<'a>,
    last_at: u64,
    pub(super) memory: Memory,
    texts: Vec<Arc<str>>,
    /// Process, thread and lane of the last [`RuntimeEvent`].
    teller: [u32; 3],
}

/// A thread's counters, and the increase of the first one since its previous value.
#[derive(Default)]
pub struct Counters {
    pub exec_ns: Option<u64>,
    pub queue_ns: Option<u64>,
    pub ran_ns: u64,
}

impl<'a> Decoder<'a> {
    /// Decodes the bytes of one chunk.
    pub fn new(bytes: &'a [u8]) -> Decoder<'a> {
        Decoder {
            input: Input::new(bytes),
            last_at: 0,
            memory: Memory::default(),
            texts: Vec::new(),
            teller: [0; 3],
        }
    }

    /// The same decoder at the same position of `bytes`. Callers keep it over an empty slice between uses,
    /// and must pass the original bytes before the next use.
    pub(in crate::recording) fn over<'b>(self, bytes: &'b [u8]) -> Decoder<'b> {
        let Decoder { input, last_at, memory, texts, teller } = self;
        Decoder { input: input.over(bytes), last_at, memory, texts, teller }
    }

    fn event(&mut self) -> Result<Event, CodecError> {
        Ok(match self.input.byte()? {
            tag::SWITCH => Event::Switch(self.switch()?),
            tag::WAKING => Event::Waking(self.waking()?),
            tag::SAMPLE => Event::Sample(self.sample()?),
            tag::STACK => Event::Stack(self.stack()?),
            tag::LIFECYCLE => Event::Lifecycle(self.lifecycle()?),
            tag::SNAPSHOT => Event::Snapshot(self.snapshot()?),
            tag::MAPPING => Event::Mapping(self.mapping()?),
            tag::CALLS => Event::Calls(Box::new(self.calls()?)),
            tag::OBJECT_NAME => Event::ObjectName(self.object_name()?),
            tag::ALLOCATED => Event::Allocated(self.allocated()?),
            tag::FREED => Event::Freed(self.freed()?),
            tag::COUNTED => Event::Counted(self.counted()?),
            tag::FAULT => Event::Fault(self.fault()?),
            tag::WATCHED => Event::Watched(self.watched()?),
            tag::TASK_WAIT => Event::TaskWait(self.task_wait()?),
            tag::CHANNEL_WAIT => Event::TaskWait(self.channel_wait()?),
            tag::TASK_WINDOW => Event::TaskWindow(self.task_window()?),
            tag::TELL => Event::Runtime(self.runtime_event()?),
            tag::AFFINITY => Event::Affinity(self.affinity()?),
            tag::LOSS => Event::Loss(self.loss()?),
            tag::SYSCALL_COUNT => Event::SyscallCount(self.syscall_count()?),
            other => return Err(self.input.unknown("event", other)),
        })
    }

    pub(super) fn at(&mut self) -> Result<Timestamp, CodecError> {
        self.last_at = self.input.difference(self.last_at)?;
        Ok(Timestamp(self.last_at))
    }

    pub(super) fn cpu(&mut self) -> Result<CpuId, CodecError> {
        Ok(CpuId(self.input.varint()? as u16))
    }

    pub(super) fn counters(&mut self, tid: u32, flags: u8) -> Result<Counters, CodecError> {
        let last = self.memory.of_thread(tid);
        let mut read = Counters::default();
        if flags & outcome::HAS_EXEC != 0 {
            let exec_ns = self.input.difference(last.exec_ns)?;
            read.ran_ns = exec_ns.wrapping_sub(last.exec_ns);
            last.exec_ns = exec_ns;
            read.exec_ns = Some(exec_ns);
        }
        if flags & outcome::HAS_QUEUE != 0 {
            last.queue_ns = self.input.difference(last.queue_ns)?;
            read.queue_ns = Some(last.queue_ns);
        }
        Ok(read)
    }

    fn wait(&mut self) -> Result<RawWait, CodecError> {
        let flags = self.input.byte()?;
        let kind = self.input.byte()?;
        Ok(RawWait {
            in_iowait: flags & wait_flag::IN_IOWAIT != 0,
            mmap_lock: flags & wait_flag::MMAP_LOCK != 0,
            object_kind: ObjectKind::from_code(kind).ok_or_else(|| self.input.unknown("object", kind))?,
            state: self.input.u32()?,
            syscall: self.input.i32()?,
            object: self.input.varint()?,
            op: self.input.u32()?,
            value: self.input.u32()?,
            owner_tid: self.input.u32()?,
            stack: self.input.varint()?,
            stack_every: self.input.u32()?,
            timeout: match flags >> wait_flag::TIMEOUT_SHIFT {
                0 => Timeout::None,
                1 => Timeout::After(Duration(self.input.varint()?)),
                2 => Timeout::Until(Timestamp(self.input.varint()?)),
                3 => Timeout::UntilDate(self.input.varint()?),
                other => return Err(self.input.unknown("time-out", other)),
            },
        })
    }

    fn affinity(&mut self) -> Result<Affinity, CodecError> {
        Ok(Affinity { at: self.at()?, tid: self.input.u32()?, cpus: self.input.u32()? })
    }

    fn sample(&mut self) -> Result<Sample, CodecError> {
        let first = self.input.byte()?;
        Ok(Sample {
            in_kernel: first & !SAMPLE_HAS_REGISTERS != 0,
            at: self.at()?,
            cpu: self.cpu()?,
            tid: self.input.u32()?,
            tgid: self.input.u32()?,
            ip: self.input.varint()?,
            syscall: self.input.i32()?,
            stack: self.input.varint()?,
            registers: if first & SAMPLE_HAS_REGISTERS == 0 { None } else { Some(self.registers()?) },
        })
    }

    fn registers(&mut self) -> Result<Box<Registers>, CodecError> {
        let mut registers = Box::<Registers>::default();
        let mut last = 0;
        for register in registers.iter_mut() {
            last = self.input.difference(last)?;
            *register = last;
        }
        Ok(registers)
    }

    fn stack(&mut self) -> Result<RawStack, CodecError> {
        let at = self.at()?;
        let id = self.input.varint()?;
        let tgid = self.input.u32()?;
        let kernel_frames = self.input.varint()? as u16;
        let count = self.input.varint()?;
        // Grows with the bytes read, so that a wrong count allocates nothing.
        let mut addresses = Vec::new();
        let mut last = 0;
        for _ in 0..count {
            last = self.input.difference(last)?;
            addresses.push(last);
        }
        let end = StackEnd::from_code(self.input.byte()?).unwrap_or_default();
        let mut vias = Vec::new();
        for _ in 0..self.input.varint()? {
            let via = FrameVia::from_code(self.input.byte()?).unwrap_or_default();
            // Bounded by the number of addresses, so that a damaged run length allocates nothing.
            let run = usize::try_from(self.input.varint()?).unwrap_or(usize::MAX);
            vias.resize((vias.len().saturating_add(run)).min(addresses.len()), via);
        }
        let raw = match self.input.byte()? {
            0 => None,
            fields => Some(Box::new(self.raw_memory(fields)?)),
        };
        Ok(RawStack { at, id, tgid, kernel_frames, addresses, vias, end, raw })
    }

    /// `fields` is 1 where bx was not kept yet, else 2.
    fn raw_memory(&mut self, fields: u8) -> Result<RawMemory, CodecError> {
        let (ip, sp, bp) = (self.input.varint()?, self.input.varint()?, self.input.varint()?);
        let bx = if fields == 1 { 0 } else { self.input.varint()? };
        Ok(RawMemory { ip, sp, bp, bx, bytes: self.input.text()?.to_vec() })
    }

    fn lifecycle(&mut self) -> Result<Lifecycle, CodecError> {
        let code = self.input.byte()?;
        let at = self.at()?;
        let (tid, tgid, other) = (self.input.u32()?, self.input.u32()?, self.input.u32()?);
        let change = match code & 0x7f {
            0 => LifecycleChange::Fork { parent_tid: other },
            1 => LifecycleChange::Exec { old_tid: other },
            2 => LifecycleChange::Rename,
            3 => LifecycleChange::Exit,
            other => return Err(self.input.unknown("lifecycle", other)),
        };
        Ok(Lifecycle { at, change, tid, tgid, name: self.input.string()?, target: code & 0x80 != 0 })
    }

    fn snapshot(&mut self) -> Result<Snapshot, CodecError> {
        let code = self.input.byte()?;
        let at = self.at()?;
        let (tid, tgid, parent_tgid) = (self.input.u32()?, self.input.u32()?, self.input.u32()?);
        let name = self.input.string()?;
        let Counters { exec_ns, queue_ns, .. } = self.counters(tid, code)?;
        let state = match code & outcome::MASK {
            state::RUNNING => SnapshotState::Running(self.cpu()?),
            state::RUNNABLE => SnapshotState::Runnable,
            state::BLOCKED => SnapshotState::Blocked(Box::new(self.wait()?)),
            state::DEAD => SnapshotState::Dead,
            state::UNTRACKED => SnapshotState::Untracked,
            other => return Err(self.input.unknown("state", other)),
        };
        Ok(Snapshot { at, tid, tgid, parent_tgid, name, target: code & 0x80 != 0, state, exec_ns, queue_ns })
    }

    fn mapping(&mut self) -> Result<RawMapping, CodecError> {
        Ok(RawMapping {
            at: self.at()?,
            tgid: self.input.u32()?,
            start: self.input.varint()?,
            end: self.input.varint()?,
            file_offset: self.input.varint()?,
            path: self.input.string()?,
            build_id: self.input.text()?.to_vec(),
        })
    }

    fn syscall_count(&mut self) -> Result<SyscallCount, CodecError> {
        let until = self.at()?;
        Ok(SyscallCount {
            until,
            at: Timestamp(self.input.difference(until.0)?),
            tgid: self.input.u32()?,
            syscall: self.input.i32()?,
            count: self.input.varint()?,
            cost_ns: self.input.u32()?,
        })
    }

    fn object_kind(&mut self) -> Result<ObjectKind, CodecError> {
        let kind = self.input.byte()?;
        ObjectKind::from_code(kind).ok_or_else(|| self.input.unknown("object", kind))
    }

    fn object_name(&mut self) -> Result<ObjectName, CodecError> {
        Ok(ObjectName {
            kind: self.object_kind()?,
            at: self.at()?,
            object: self.input.varint()?,
            name: self.input.string()?,
        })
    }

    fn freed(&mut self) -> Result<Freed, CodecError> {
        Ok(Freed {
            at: self.at()?,
            tid: self.input.u32()?,
            tgid: self.input.u32()?,
            address: self.input.varint()?,
        })
    }

    fn allocated(&mut self) -> Result<Allocated, CodecError> {
        let Freed { at, tid, tgid, address } = self.freed()?;
        Ok(Allocated {
            at,
            tid,
            tgid,
            address,
            bytes: self.input.varint()?,
            every_bytes: self.input.varint()?,
            own_bytes: self.input.varint()?,
            stack: self.input.varint()?,
        })
    }

    fn counted(&mut self) -> Result<Counted, CodecError> {
        let code = self.input.byte()?;
        let what = CountKind::from_code(code).ok_or_else(|| self.input.unknown("count", code))?;
        let until = self.at()?;
        Ok(Counted {
            what,
            until,
            at: Timestamp(self.input.difference(until.0)?),
            syscall: self.input.i32()?,
            tid: self.input.u32()?,
            tgid: self.input.u32()?,
            cpu: self.cpu()?,
            count: self.input.varint()?,
        })
    }

    fn fault(&mut self) -> Result<FaultSample, CodecError> {
        let flags = self.input.byte()?;
        Ok(FaultSample {
            major: flags & 1 != 0,
            in_kernel: flags & 2 != 0,
            at: self.at()?,
            tid: self.input.u32()?,
            tgid: self.input.u32()?,
            address: self.input.varint()?,
            stands_for: self.input.varint()?,
            stack: self.input.varint()?,
        })
    }

    fn watched(&mut self) -> Result<Watched, CodecError> {
        let until = self.at()?;
        Ok(Watched {
            until,
            at: Timestamp(self.input.difference(until.0)?),
            tid: self.input.u32()?,
            tgid: self.input.u32()?,
            address: self.input.varint()?,
            bytes: self.input.u32()?,
            hits: self.input.varint()?,
            ran_ns: self.input.varint()?,
        })
    }

    fn task_wait(&mut self) -> Result<TaskWait, CodecError> {
        let at = self.at()?;
        Ok(TaskWait {
            at,
            since: Timestamp(self.input.difference(at.0)?),
            tid: self.input.u32()?,
            tgid: self.input.u32()?,
            object: self.input.varint()?,
            stack: self.input.varint()?,
            waker_tid: self.input.u32()?,
            waker_stack: self.input.varint()?,
            channel: None,
        })
    }

    fn channel_wait(&mut self) -> Result<TaskWait, CodecError> {
        let wait = self.task_wait()?;
        let channel = ChannelWait {
            sends: self.input.byte()? != 0,
            task: self.input.varint()?,
            waker_task: self.input.varint()?,
            slots: self.input.u32()?,
            item_bytes: self.input.u32()?,
        };
        Ok(TaskWait { channel: Some(channel), ..wait })
    }

    fn task_window(&mut self) -> Result<TaskWindow, CodecError> {
        let opens = self.input.byte()? != 0;
        Ok(TaskWindow { opens, at: self.at()?, tgid: self.input.u32()? })
    }

    fn calls(&mut self) -> Result<CallSums, CodecError> {
        let object_kind = self.object_kind()?;
        let until = self.at()?;
        let mut sums = CallSums {
            object_kind,
            until,
            at: Timestamp(self.input.difference(until.0)?),
            syscall: self.input.i32()?,
            tid: self.input.u32()?,
            tgid: self.input.u32()?,
            op: self.input.u32()?,
            object: self.input.varint()?,
            count: self.input.varint()?,
            errors: self.input.varint()?,
            returned: self.input.varint()?,
            time_ns: self.input.varint()?,
            time_max_ns: self.input.varint()?,
            timed: self.input.varint()?,
            parts: Vec::new(),
        };
        for _ in 0..self.input.varint()? {
            let code = self.input.byte()?;
            let what =
                CallPartKind::from_code(code).ok_or_else(|| self.input.unknown("part of calls", code))?;
            sums.parts.push((what, self.input.varint()?, self.input.varint()?));
        }
        Ok(sums)
    }

    fn runtime_event(&mut self) -> Result<RuntimeEvent, CodecError> {
        let code = self.input.byte()?;
        let at = self.at()?;
        if code & runtime_event_code::AGAIN == 0 {
            self.teller = [self.input.u32()?, self.input.u32()?, self.input.u32()?];
        }
        let [tgid, tid, lane] = self.teller;
        let name = self.text()?;
        let what = match code & runtime_event_code::MASK {
            runtime_event_code::LANE_START => RuntimeEventKind::LaneStart,
            runtime_event_code::LANE_END => RuntimeEventKind::LaneEnd,
            runtime_event_code::GAP => RuntimeEventKind::Gap,
            runtime_event_code::BEGIN => {
                let kind = (code & !runtime_event_code::AGAIN) >> runtime_event_code::KIND_SHIFT;
                RuntimeEventKind::Begin(SpanKind::from_code(kind).unwrap_or_default())
            }
            runtime_event_code::END => RuntimeEventKind::End,
            runtime_event_code::COUNTER => RuntimeEventKind::Counter(self.input.varint()?),
            runtime_event_code::MARK => {
                RuntimeEventKind::Mark { value: self.input.varint()?, text: self.text()? }
            }
            other => return Err(self.input.unknown("runtime event", other)),
        };
        Ok(RuntimeEvent { at, tgid, tid, lane, what, name })
    }

    /// See `Encoder::text`.
    fn text(&mut self) -> Result<Arc<str>, CodecError> {
        let number = self.input.varint()?;
        if let Some(text) = usize::try_from(number).ok().and_then(|number| self.texts.get(number)) {
            return Ok(text.clone());
        }
        let text: Arc<str> = self.input.string()?.into();
        self.texts.push(text.clone());
        Ok(text)
    }

    fn loss(&mut self) -> Result<Loss, CodecError> {
        let start = self.at()?;
        Ok(Loss {
            start,
            end: Timestamp(self.input.difference(start.0)?),
            cpu: self.cpu()?,
            events: self.input.varint()?,
            source: self.input.string()?,
            reason: self.input.string()?,
        })
    }
}

impl Iterator for Decoder<'_> {
    type Item = Result<Event, CodecError>;

    fn next(&mut self) -> Option<Result<Event, CodecError>> {
        if self.input.is_empty() {
            return None;
        }
        let event = self.event();
        if event.is_err() {
            self.input = Input::new(&[]);
        }
        Some(event)
    }
}
