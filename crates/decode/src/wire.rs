//! Records of the kernel programs (`bpf/wire.h`) → events.
//!
//! Sequence numbers count per CPU and stream, lost records included: a gap is a [`Loss`] with its
//! exact number, and lies between two records that we have.

use std::array;
use std::num::NonZeroU64;

use holdup_events::event::{
    Affinity, Allocated, FaultSample, Freed, Lifecycle, LifecycleChange, Outcome, RawMemory, RawStack,
    RawWait, Sample, Snapshot, SnapshotState, Switch, TaskWait, TaskWindow, Timeout, WakeContext, Waking,
};
use holdup_events::tables::{ALLOCATION_OWN_BYTES, FrameVia, StackEnd};
use holdup_events::{CpuId, Duration, Event, Loss, ObjectKind, Timestamp};

use crate::counts::{Counts, ThreadCounts};
use crate::hardware::{self, Hardware, Reading};
use crate::interpreted::Interpreted;
use crate::probed::{self, Hit, Probed};
use crate::wait_reason;

/// Sizes of the structs of `bpf/wire.h`, in bytes.
pub mod size {
    /// `struct wire_header`
    pub const HEADER: usize = 16;
    /// `struct wire_switch`
    pub const SWITCH: usize = 32;
    /// `struct wire_switch_foreign`
    pub const SWITCH_FOREIGN: usize = SWITCH + 8;
    /// `struct wire_switch_out`
    pub const SWITCH_OUT: usize = 56;
    /// `struct wire_wait`
    pub const WAIT: usize = 48;
    /// `struct wire_switch_blocked`
    pub const SWITCH_BLOCKED: usize = SWITCH_OUT + WAIT;
    /// `struct wire_waking`
    pub const WAKING: usize = 48;
    /// `struct wire_sample`
    pub const SAMPLE: usize = 48;
    /// `struct wire_sample_user`
    pub const SAMPLE_USER: usize = SAMPLE + 16 * 8;
    /// `struct wire_stack` without its addresses
    pub const STACK: usize = 32;
    /// `struct wire_raw_stack` without what follows it
    pub const RAW_STACK: usize = 64;
    /// `struct wire_thread`
    pub const THREAD: usize = 56;
    /// `struct wire_snapshot`
    pub const SNAPSHOT: usize = 136;
    /// `struct wire_freed`
    pub const FREED: usize = HEADER + 16;
    /// `struct wire_allocated`
    pub const ALLOCATED: usize = FREED + 24;
    /// `struct wire_thread_counts`
    pub const THREAD_COUNTS: usize = HEADER + 32;
    /// `struct wire_fault`
    pub const FAULT: usize = HEADER + 32;
    /// `struct wire_counters`
    pub const COUNTERS: usize = HEADER + 16 + 8 * super::hardware::VALUES;
    /// `struct wire_place`
    pub const PLACE: usize = HEADER + 16;
    /// `struct wire_task_wait`
    pub const TASK_WAIT: usize = HEADER + 48;
}

const KIND_SWITCH: u8 = 1;
const KIND_SWITCH_OUT: u8 = 2;
const KIND_SWITCH_BLOCKED: u8 = 3;
const KIND_WAKING: u8 = 4;
const KIND_SAMPLE: u8 = 5;
const KIND_STACK: u8 = 6;
const KIND_FORK: u8 = 7;
const KIND_EXEC: u8 = 8;
const KIND_RENAME: u8 = 9;
const KIND_EXIT: u8 = 10;
const KIND_SNAPSHOT: u8 = 11;
const KIND_RAW_STACK: u8 = 12;
const KIND_SNAPSHOT_STACK: u8 = 13;
const KIND_SAMPLE_USER: u8 = 14;
const KIND_ALLOCATED: u8 = 15;
const KIND_FREED: u8 = 16;
const KIND_THREAD_COUNTS: u8 = 17;
const KIND_FAULT: u8 = 18;
const KIND_PLACE: u8 = 19;
const KIND_COUNTERS: u8 = 20;
const KIND_TASK_WAIT: u8 = 21;

const FLAG_PREEMPT: u8 = 0x01;
const FLAG_THROTTLED: u8 = 0x02;
const FLAG_IN_IOWAIT: u8 = 0x04;
const FLAG_MMAP_LOCK: u8 = 0x08;
const FLAG_YIELD: u8 = 0x20;
const FLAG_SAMPLE_KERNEL: u8 = 0x01;
const FLAG_COUNTS_LAST: u8 = 0x01;
const FLAG_FAULT_MAJOR: u8 = 0x01;
const FLAG_FAULT_IN_KERNEL: u8 = 0x02;
const FLAG_PLACE_DISARMED: u8 = 0x01;
const FLAG_TASKS_CLOSED: u8 = 0x01;

/// EXIT_DEAD | EXIT_ZOMBIE | TASK_DEAD (include/linux/sched.h).
const STATE_DEAD: u32 = 0x10 | 0x20 | 0x80;

/// A record that is shorter than its kind, or of no known kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a record of kind {kind} with {length} bytes")]
pub struct WireError {
    /// Its kind byte; 0 if it has not even a header.
    pub kind: u8,
    /// Its length.
    pub length: usize,
}

/// Little-endian fields by offset. Reads beyond the end give zero: callers check the length first.
struct Fields<'a>(&'a [u8]);

/// A record's kind, where it is known to have a header.
#[inline]
fn kind_of<const BYTES: usize>(record: &[u8; BYTES]) -> u8 {
    Fields(record).u8(14)
}

impl Fields<'_> {
    #[inline]
    fn u64(&self, at: usize) -> u64 {
        self.0.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
    }

    #[inline]
    fn u32(&self, at: usize) -> u32 {
        self.0.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes)
    }

    fn u16(&self, at: usize) -> u16 {
        self.0.get(at..at + 2).and_then(|bytes| bytes.try_into().ok()).map_or(0, u16::from_le_bytes)
    }

    fn u8(&self, at: usize) -> u8 {
        self.0.get(at).copied().unwrap_or(0)
    }

    fn i32(&self, at: usize) -> i32 {
        self.u32(at) as i32
    }

    fn at(&self) -> Timestamp {
        Timestamp(self.u64(0))
    }

    fn cpu(&self) -> CpuId {
        CpuId(self.u16(12))
    }

    fn flags(&self) -> u8 {
        self.u8(15)
    }

    fn name(&self, at: usize) -> String {
        let bytes = self.0.get(at..at + 16).unwrap_or_default();
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
    }
}

/// A short gap is believed only after this many more records: an interrupt's program may number and send
/// its record between another's numbering and sending.
const PATIENCE: u32 = 4;

/// The streams of `enum wire_stream`, by number: what they carry.
const STREAMS: [&str; 7] =
    ["sched", "cpu-samples", "definitions", "cpu-samples", "allocations", "page-faults", probed::SOURCE];
/// Of [`STREAMS`].
const SCHED_STREAM: u8 = 0;
const PLACES_STREAM: u8 = 6;

/// What is known of one CPU's stream.
#[derive(Clone, Default)]
struct Sequence {
    next: u32,
    last_at: Timestamp,
    seen: bool,
    /// A gap that may still fill: its numbers that have not come, and how many records came since.
    pending: Option<Gap>,
}

#[derive(Clone)]
struct Gap {
    first: u32,
    missing: u32,
    records_since: u32,
    start: Timestamp,
    end: Timestamp,
}

impl Sequence {
    /// Takes a number that is the next one, as nearly all are; `false`: it is not, or a gap is open.
    #[inline]
    fn take_next(&mut self, seq: u32, at: Timestamp) -> bool {
        let is_next = self.seen && self.next == seq && self.pending.is_none();
        if is_next {
            (self.next, self.last_at) = (seq.wrapping_add(1), at);
        }
        is_next
    }

    /// Takes the next number; gives the gap that is now certain, if any.
    fn take(&mut self, seq: u32, at: Timestamp) -> Option<Gap> {
        let ahead = seq.wrapping_sub(self.next);
        if self.seen && ahead > u32::MAX / 2 {
            // An earlier number comes late: it was not lost.
            if let Some(gap) = &mut self.pending
                && seq.wrapping_sub(gap.first) <= PATIENCE
            {
                gap.missing = gap.missing.saturating_sub(1);
            }
            return None;
        }
        let mut certain = None;
        if let Some(gap) = &mut self.pending {
            gap.records_since += 1;
            if gap.records_since > PATIENCE || ahead > 0 {
                certain = self.pending.take().filter(|gap| gap.missing > 0);
            }
        }
        if ahead > 0 {
            let gap = Gap {
                first: self.next,
                missing: ahead,
                records_since: 0,
                start: self.last_at.min(at),
                end: at,
            };
            if ahead < PATIENCE && self.seen && certain.is_none() {
                self.pending = Some(gap);
            } else if let Some(before) = certain {
                certain = Some(Gap { missing: before.missing + ahead, end: at, ..before });
            } else {
                certain = Some(gap);
            }
        }
        self.next = seq.wrapping_add(1);
        self.last_at = at;
        self.seen = true;
        certain
    }
}

/// Decodes records and watches their sequence numbers.
#[derive(Default)]
pub struct WireDecoder {
    /// By CPU.
    sequences: Vec<[Sequence; STREAMS.len()]>,
    lost: [u64; STREAMS.len()],
    counts: Counts,
    probed: Probed,
    hardware: Hardware,
    /// Processes whose tasks' waits are told no more, since the last [`WireDecoder::take_closed`].
    closed: Vec<(u32, Timestamp)>,
    task_waits: u64,
    /// Of the last event of [`WireDecoder::decode_seen`].
    spare: Option<Box<RawWait>>,
}

impl WireDecoder {
    /// Decodes one record and passes on its event, with a loss before it if records are missing there.
    pub fn decode(&mut self, record: &[u8], sink: &mut dyn FnMut(Event)) -> Result<(), WireError> {
        let fields = Fields(record);
        let kind = fields.u8(14);
        let bad = WireError { kind, length: record.len() };
        if kind == KIND_PLACE {
            return self.place(&fields, sink).ok_or(bad);
        }
        if kind == KIND_TASK_WAIT {
            return self.task_wait(&fields, sink).ok_or(bad);
        }
        let event = match kind {
            KIND_THREAD_COUNTS if record.len() >= size::THREAD_COUNTS => None,
            KIND_COUNTERS if record.len() >= size::COUNTERS => None,
            _ => Some(event(&fields, kind).ok_or(bad)?),
        };
        let counts = thread_counts(&fields);
        let iterated = kind == KIND_THREAD_COUNTS && !counts.last;
        if !matches!(kind, KIND_SNAPSHOT | KIND_SNAPSHOT_STACK)
            && !iterated
            && let Some(loss) = self.gap(&fields, stream(kind))
        {
            sink(Event::Loss(loss));
        }
        match event {
            Some(event) => sink(event),
            None if kind == KIND_COUNTERS => self.hardware.take(&reading(&fields), sink),
            None => self.counts.thread(&counts, sink),
        }
        if let Some(affinity) = affinity(&fields, kind) {
            sink(Event::Affinity(affinity));
        }
        Ok(())
    }

    /// As [`WireDecoder::decode`], for a sink that keeps no event: what a wait needs is not allocated anew for each. Switches
    /// and wakeups, of which there are most, take a shorter way: each has a length that is known here, so that no field of
    /// theirs is checked for where it ends.
    pub fn decode_seen(&mut self, record: &[u8], sink: &mut dyn FnMut(&Event)) -> Result<(), WireError> {
        if let Some(whole) = record.first_chunk::<{ size::SWITCH_BLOCKED }>()
            && kind_of(whole) == KIND_SWITCH_BLOCKED
        {
            let fields = Fields(whole);
            self.tell_gap(&fields, sink);
            let event = Event::Switch(switch(&fields, KIND_SWITCH_BLOCKED, self.spare.take()));
            sink(&event);
            if let Event::Switch(Switch { outcome: Outcome::Blocked(wait), .. }) = event {
                self.spare = Some(wait);
            }
            return Ok(());
        }
        if let Some(whole) = record.first_chunk::<{ size::WAKING }>()
            && kind_of(whole) == KIND_WAKING
        {
            let fields = Fields(whole);
            self.tell_gap(&fields, sink);
            sink(&Event::Waking(waking(&fields)));
            return Ok(());
        }
        if let Some(whole) = record.first_chunk::<{ size::SWITCH_FOREIGN }>()
            && kind_of(whole) == KIND_SWITCH
        {
            let fields = Fields(whole);
            self.tell_gap(&fields, sink);
            sink(&Event::Switch(switch(&fields, KIND_SWITCH, None)));
            return Ok(());
        }
        self.decode(record, &mut |event| sink(&event))
    }

    /// Takes the number of a switch or wakeup, and tells what is missing before it.
    #[inline]
    fn tell_gap(&mut self, fields: &Fields<'_>, sink: &mut dyn FnMut(&Event)) {
        let stream = usize::from(SCHED_STREAM);
        let sequence = self.sequences.get_mut(usize::from(fields.cpu().0)).and_then(|of| of.get_mut(stream));
        if sequence.is_some_and(|sequence| sequence.take_next(fields.u32(8), fields.at())) {
            return;
        }
        if let Some(loss) = self.gap(fields, SCHED_STREAM) {
            sink(&Event::Loss(loss));
        }
    }

    /// Records missing so far, by stream.
    pub fn lost(&self) -> [u64; STREAMS.len()] {
        self.lost
    }

    /// Spans by probes: what they mean is told before the first record of them comes.
    pub fn probed(&mut self) -> &mut Probed {
        &mut self.probed
    }

    /// Hardware counters: which they are is told before the first record of them comes.
    pub fn hardware(&mut self) -> &mut Hardware {
        &mut self.hardware
    }

    fn place(&mut self, fields: &Fields<'_>, sink: &mut dyn FnMut(Event)) -> Option<()> {
        if fields.0.len() < size::PLACE {
            return None;
        }
        self.places_gap(fields, sink);
        let hit = Hit {
            at: fields.at(),
            tid: fields.u32(16),
            tgid: fields.u32(20),
            place: fields.u32(24),
            disarmed: fields.flags() & FLAG_PLACE_DISARMED != 0,
        };
        self.probed.take(hit, sink);
        Some(())
    }

    fn task_wait(&mut self, fields: &Fields<'_>, sink: &mut dyn FnMut(Event)) -> Option<()> {
        if fields.0.len() < size::TASK_WAIT {
            return None;
        }
        self.places_gap(fields, sink);
        let (at, tgid) = (fields.at(), fields.u32(20));
        if fields.flags() & FLAG_TASKS_CLOSED != 0 {
            self.closed.push((tgid, at));
            sink(Event::TaskWindow(TaskWindow { at, tgid, opens: false }));
            return Some(());
        }
        self.task_waits += 1;
        sink(Event::TaskWait(TaskWait {
            at,
            since: Timestamp(fields.u64(24)),
            tid: fields.u32(56),
            tgid,
            object: fields.u64(32),
            stack: fields.u64(40),
            waker_tid: fields.u32(16),
            waker_stack: fields.u64(48),
        }));
        Some(())
    }

    /// Processes whose tasks wait too often for all that to be told, and until when it was.
    pub fn take_closed(&mut self) -> Vec<(u32, Timestamp)> {
        std::mem::take(&mut self.closed)
    }

    /// Waits of tasks so far.
    pub fn task_waits(&self) -> u64 {
        self.task_waits
    }

    fn places_gap(&mut self, fields: &Fields<'_>, sink: &mut dyn FnMut(Event)) {
        if let Some(loss) = self.gap(fields, PLACES_STREAM) {
            self.probed.lose(loss.end, sink);
            sink(Event::Loss(loss));
        }
    }

    fn gap(&mut self, fields: &Fields<'_>, stream: u8) -> Option<Loss> {
        let cpu = usize::from(fields.cpu().0);
        if cpu >= self.sequences.len() {
            self.sequences.resize_with(cpu + 1, Default::default);
        }
        let sequence = self.sequences.get_mut(cpu)?.get_mut(usize::from(stream))?;
        let gap = sequence.take(fields.u32(8), fields.at())?;
        let source = STREAMS.get(usize::from(stream))?;
        if let Some(lost) = self.lost.get_mut(usize::from(stream)) {
            *lost += u64::from(gap.missing);
        }
        Some(Loss {
            source: (*source).to_owned(),
            reason: "ring-full".to_owned(),
            cpu: fields.cpu(),
            start: gap.start,
            end: gap.end,
            events: u64::from(gap.missing),
        })
    }
}

fn reading(fields: &Fields<'_>) -> Reading {
    Reading {
        at: fields.at(),
        tid: fields.u32(16),
        tgid: fields.u32(20),
        ran_ns: fields.u64(24),
        values: array::from_fn(|nth| fields.u64(32 + 8 * nth)),
    }
}

fn stream(kind: u8) -> u8 {
    match kind {
        KIND_SWITCH | KIND_SWITCH_OUT | KIND_SWITCH_BLOCKED | KIND_WAKING => SCHED_STREAM,
        KIND_SAMPLE_USER => 1,
        KIND_SAMPLE => 3,
        KIND_ALLOCATED | KIND_FREED => 4,
        KIND_THREAD_COUNTS | KIND_FAULT => 5,
        _ => 2,
    }
}

fn event(fields: &Fields<'_>, kind: u8) -> Option<Event> {
    let least = match kind {
        KIND_SWITCH => size::SWITCH_FOREIGN,
        KIND_SWITCH_OUT => size::SWITCH_OUT,
        KIND_SWITCH_BLOCKED => size::SWITCH_BLOCKED,
        KIND_WAKING => size::WAKING,
        KIND_SAMPLE => size::SAMPLE,
        KIND_SAMPLE_USER => size::SAMPLE_USER,
        KIND_STACK => size::STACK,
        KIND_RAW_STACK | KIND_SNAPSHOT_STACK => size::RAW_STACK,
        KIND_FORK | KIND_EXEC | KIND_RENAME | KIND_EXIT => size::THREAD,
        KIND_SNAPSHOT => size::SNAPSHOT,
        KIND_ALLOCATED => size::ALLOCATED,
        KIND_FREED => size::FREED,
        KIND_FAULT => size::FAULT,
        _ => return None,
    };
    if fields.0.len() < least {
        return None;
    }
    Some(match kind {
        KIND_SWITCH | KIND_SWITCH_OUT | KIND_SWITCH_BLOCKED => Event::Switch(switch(fields, kind, None)),
        KIND_WAKING => Event::Waking(waking(fields)),
        KIND_SAMPLE | KIND_SAMPLE_USER => Event::Sample(sample(fields, kind)),
        KIND_STACK => Event::Stack(stack(fields)?),
        KIND_RAW_STACK | KIND_SNAPSHOT_STACK => Event::Stack(raw_stack(fields)?),
        KIND_SNAPSHOT => Event::Snapshot(snapshot(fields)),
        KIND_ALLOCATED => Event::Allocated(allocated(fields)),
        KIND_FREED => Event::Freed(freed(fields)),
        KIND_FAULT => Event::Fault(fault(fields)),
        _ => Event::Lifecycle(lifecycle(fields, kind)),
    })
}

/// `room`: where a wait may be put. Inlined: where `kind` and the length are known, little of it is left.
#[inline(always)]
fn switch(fields: &Fields<'_>, kind: u8, room: Option<Box<RawWait>>) -> Switch {
    let state = fields.u32(24);
    let flags = fields.flags();
    let outcome = if state & STATE_DEAD != 0 {
        Outcome::Dead
    } else if kind == KIND_SWITCH {
        Outcome::Untracked
    } else if kind == KIND_SWITCH_BLOCKED {
        let mut room = room.unwrap_or_default();
        *room = wait(fields, size::SWITCH_OUT, state, flags);
        Outcome::Blocked(room)
    } else if flags & FLAG_THROTTLED != 0 {
        Outcome::Throttled
    } else if flags & FLAG_YIELD != 0 && flags & FLAG_PREEMPT == 0 {
        Outcome::Yielded
    } else {
        Outcome::Preempted
    };
    let counters = kind != KIND_SWITCH;
    Switch {
        at: fields.at(),
        cpu: fields.cpu(),
        prev_tid: fields.u32(16),
        next_tid: fields.u32(20),
        prev_tgid: fields.u32(28),
        outcome,
        exec_ns: counters.then(|| fields.u64(32)),
        queue_ns: counters.then(|| fields.u64(40)).filter(|queue| *queue != u64::MAX),
        clock_ran_ns: NonZeroU64::new(fields.u64(if counters { 48 } else { 32 })),
    }
}

#[inline(always)]
fn wait(fields: &Fields<'_>, at: usize, state: u32, flags: u8) -> RawWait {
    RawWait {
        state,
        in_iowait: flags & FLAG_IN_IOWAIT != 0,
        mmap_lock: flags & FLAG_MMAP_LOCK != 0,
        syscall: fields.i32(at),
        object_kind: ObjectKind::from_code(fields.u32(at + 4) as u8).unwrap_or_default(),
        object: fields.u64(at + 8),
        op: fields.u32(at + 16),
        value: fields.u32(at + 20),
        owner_tid: fields.u32(at + 24),
        stack_every: fields.u32(at + 28),
        stack: fields.u64(at + 32),
        timeout: timeout(fields.u64(at + 40)),
    }
}

/// `enum wire_timeout` in the two highest bits.
fn timeout(raw: u64) -> Timeout {
    let ns = raw & (u64::MAX >> 2);
    match raw >> 62 {
        1 => Timeout::After(Duration(ns)),
        2 => Timeout::Until(Timestamp(ns)),
        3 => Timeout::UntilDate(ns),
        _ => Timeout::None,
    }
}

/// The last word on a thread is what counts: at its end, or at the recording's.
fn affinity(fields: &Fields<'_>, kind: u8) -> Option<Affinity> {
    let told = matches!(kind, KIND_EXIT | KIND_SNAPSHOT) && fields.u32(28) != 0;
    let cpus = fields.u32(48);
    (told && cpus > 0).then(|| Affinity { at: fields.at(), tid: fields.u32(16), cpus })
}

#[inline(always)]
fn waking(fields: &Fields<'_>) -> Waking {
    let context = WakeContext::from_code(fields.flags()).unwrap_or_default();
    let waker_syscall = fields.i32(24);
    // What a thread sends to a peer on its own machine is handed over in a soft interrupt of its own call: it is who woke.
    let context = match context {
        WakeContext::SoftIrq if wait_reason::sends(waker_syscall) => WakeContext::Thread,
        context => context,
    };
    Waking {
        at: fields.at(),
        cpu: fields.cpu(),
        wakee_tid: fields.u32(16),
        waker_tid: fields.u32(20),
        context,
        waker_syscall: if context == WakeContext::Thread { waker_syscall } else { -1 },
        waker_object: fields.u64(32),
        stack: fields.u64(40),
        stack_every: fields.u32(28),
    }
}

fn sample(fields: &Fields<'_>, kind: u8) -> Sample {
    Sample {
        at: fields.at(),
        cpu: fields.cpu(),
        tid: fields.u32(16),
        tgid: fields.u32(20),
        ip: fields.u64(24),
        in_kernel: fields.flags() & FLAG_SAMPLE_KERNEL != 0,
        syscall: fields.i32(32),
        stack: fields.u64(40),
        registers: (kind == KIND_SAMPLE_USER)
            .then(|| Box::new(array::from_fn(|number| fields.u64(size::SAMPLE + number * 8)))),
    }
}

fn stack(fields: &Fields<'_>) -> Option<RawStack> {
    let (kernel_frames, user_frames) = (fields.u16(28), fields.u16(30));
    let count = usize::from(kernel_frames) + usize::from(user_frames);
    let bytes = fields.0.get(size::STACK..size::STACK + count * 8)?;
    let sent = Fields(bytes);
    let user = usize::from(kernel_frames)..count;
    Some(RawStack {
        at: fields.at(),
        id: fields.u64(16),
        tgid: fields.u32(24),
        kernel_frames,
        addresses: (0..count)
            .map(|index| {
                let word = sent.u64(index * 8);
                if user.contains(&index) { user_address(word) } else { word }
            })
            .collect(),
        vias: user.map(|index| via_of(sent.u64(index * 8))).collect(),
        end: StackEnd::from_code(fields.flags()).unwrap_or_default(),
        raw: None,
    })
}

fn raw_stack(fields: &Fields<'_>) -> Option<RawStack> {
    let kernel_frames = fields.u16(28);
    let memory_at = size::RAW_STACK + usize::from(kernel_frames) * 8;
    let addresses = Fields(fields.0.get(size::RAW_STACK..memory_at)?);
    let memory = fields.0.get(memory_at..memory_at + usize::from(fields.u16(30)))?;
    Some(RawStack {
        at: fields.at(),
        id: fields.u64(16),
        tgid: fields.u32(24),
        kernel_frames,
        addresses: (0..usize::from(kernel_frames)).map(|index| addresses.u64(index * 8)).collect(),
        vias: Vec::new(),
        end: StackEnd::from_code(fields.flags()).unwrap_or_default(),
        raw: Some(Box::new(RawMemory {
            ip: fields.u64(32),
            sp: fields.u64(40),
            bp: fields.u64(48),
            bx: fields.u64(56),
            bytes: memory.to_vec(),
        })),
    })
}

/// User addresses have at most 56 bits; the rest is `enum wire_via`.
const USER_ADDRESS: u64 = u64::MAX >> 8;

/// What stands for a user frame.
fn user_address(word: u64) -> u64 {
    if Interpreted::of(word).is_some() { word } else { word & USER_ADDRESS }
}

/// How a user frame was found.
fn via_of(word: u64) -> FrameVia {
    if Interpreted::of(word).is_some() { FrameVia::Interpreted } else { via((word >> 56) as u8) }
}

/// `enum wire_via`; `enum wire_end` has the codes of [`StackEnd`].
fn via(code: u8) -> FrameVia {
    match code {
        0 => FrameVia::Registers,
        1 => FrameVia::Table,
        2 => FrameVia::FramePointer,
        3 => FrameVia::SignalFrame,
        4 => FrameVia::Scan,
        5 => FrameVia::LentFrame,
        _ => FrameVia::Unknown,
    }
}

fn freed(fields: &Fields<'_>) -> Freed {
    Freed { at: fields.at(), tid: fields.u32(16), tgid: fields.u32(20), address: fields.u64(24) }
}

fn thread_counts(fields: &Fields<'_>) -> ThreadCounts {
    ThreadCounts {
        at: fields.at(),
        tid: fields.u32(16),
        tgid: fields.u32(20),
        born_ns: fields.u64(24),
        minor: fields.u64(32),
        major: fields.u64(40),
        last: fields.flags() & FLAG_COUNTS_LAST != 0,
    }
}

fn fault(fields: &Fields<'_>) -> FaultSample {
    FaultSample {
        at: fields.at(),
        tid: fields.u32(16),
        tgid: fields.u32(20),
        address: fields.u64(24),
        stands_for: fields.u64(32),
        major: fields.flags() & FLAG_FAULT_MAJOR != 0,
        in_kernel: fields.flags() & FLAG_FAULT_IN_KERNEL != 0,
        stack: fields.u64(40),
    }
}

fn allocated(fields: &Fields<'_>) -> Allocated {
    Allocated {
        at: fields.at(),
        tid: fields.u32(16),
        tgid: fields.u32(20),
        address: fields.u64(24),
        bytes: fields.u64(32),
        every_bytes: fields.u64(40),
        own_bytes: ALLOCATION_OWN_BYTES,
        stack: fields.u64(48),
    }
}

fn lifecycle(fields: &Fields<'_>, kind: u8) -> Lifecycle {
    let change = match kind {
        KIND_FORK => LifecycleChange::Fork { parent_tid: fields.u32(24) },
        KIND_EXEC => LifecycleChange::Exec,
        KIND_RENAME => LifecycleChange::Rename,
        _ => LifecycleChange::Exit,
    };
    Lifecycle {
        at: fields.at(),
        change,
        tid: fields.u32(16),
        tgid: fields.u32(20),
        name: fields.name(32),
        target: fields.u32(28) != 0,
    }
}

fn snapshot(fields: &Fields<'_>) -> Snapshot {
    let state = fields.u32(80);
    let target = fields.u32(28) != 0;
    let state = if state & STATE_DEAD != 0 {
        SnapshotState::Dead
    } else if fields.u32(84) != 0 {
        SnapshotState::Running(CpuId::NONE)
    } else if !target {
        SnapshotState::Untracked
    } else if state == 0 {
        SnapshotState::Runnable
    } else {
        SnapshotState::Blocked(Box::new(wait(fields, 88, state, fields.flags())))
    };
    Snapshot {
        at: fields.at(),
        tid: fields.u32(16),
        tgid: fields.u32(20),
        parent_tgid: fields.u32(24),
        name: fields.name(32),
        target,
        state,
        exec_ns: target.then(|| fields.u64(64)),
        queue_ns: target.then(|| fields.u64(72)).filter(|queue| *queue != u64::MAX),
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
