//! BPF records (`bpf/wire.h`) → events.
//!
//! Sequence numbers count per CPU and stream, including lost records. A gap is a [`Loss`] with the exact
//! number of records, between two received records.

mod inner_tids;
mod layout;
mod records;
mod sequence;
mod stacks;

use holdup_events::event::{Outcome, RawWait, Switch, TaskWait, TaskWindow};
use holdup_events::tables::ChannelWait;
use holdup_events::{CpuId, Event, Loss, Timestamp};

use self::inner_tids::InnerTids;
use self::layout::*;
use self::records::{affinity, event, reading, switch, thread_counts, waking};
use self::sequence::Sequence;
use crate::counts::Counts;
use crate::hardware::Hardware;
use crate::probed::{self, Hit, Probed};

pub use self::layout::size;

/// A record that is shorter than its kind, or of no known kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a record of kind {kind} with {length} bytes")]
pub struct WireError {
    /// The kind byte, 0 for a record without a complete header.
    pub kind: u8,
    /// Length of the record in bytes.
    pub length: usize,
}

/// Content of the streams of `enum wire_stream`, by number.
const STREAMS: [&str; 7] =
    ["sched", "cpu-samples", "definitions", "cpu-samples", "allocations", "page-faults", probed::SOURCE];
/// Of [`STREAMS`].
const SCHED_STREAM: u8 = 0;
const PLACES_STREAM: u8 = 6;

/// Decodes records and watches their sequence numbers.
#[derive(Default)]
pub struct WireDecoder {
    /// By CPU.
    sequences: Vec<[Sequence; STREAMS.len()]>,
    lost: [u64; STREAMS.len()],
    counts: Counts,
    probed: Probed,
    hardware: Hardware,
    /// Processes whose task waits are not recorded any more, since the last [`WireDecoder::take_closed`].
    closed: Vec<(u32, Timestamp)>,
    task_waits: u64,
    inner_tids: InnerTids,
    /// Allocation reused from the last event of [`WireDecoder::decode_seen`].
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
        self.inner_tids.note(&fields, kind);
        match event {
            Some(Event::Switch(switch)) => {
                let mut event = Event::Switch(switch);
                self.inner_tids.put_in(&mut event);
                sink(event);
            }
            Some(event) => sink(event),
            None if kind == KIND_COUNTERS => self.hardware.take(&reading(&fields), sink),
            None => self.counts.thread(&counts, sink),
        }
        if let Some(affinity) = affinity(&fields, kind) {
            sink(Event::Affinity(affinity));
        }
        Ok(())
    }

    /// As [`WireDecoder::decode`], for a sink that keeps no event. The allocation for a wait is reused.
    /// Switches and wakeups, the most frequent events, use a fast path: their length is known at compile
    /// time, so fields need no bounds checks.
    pub fn decode_seen(&mut self, record: &[u8], sink: &mut dyn FnMut(&Event)) -> Result<(), WireError> {
        if let Some(whole) = record.first_chunk::<{ size::SWITCH_BLOCKED }>()
            && kind_of(whole) == KIND_SWITCH_BLOCKED
        {
            let fields = Fields(whole);
            self.emit_gap(&fields, sink);
            let mut event = Event::Switch(switch(&fields, KIND_SWITCH_BLOCKED, self.spare.take()));
            self.inner_tids.put_in(&mut event);
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
            self.emit_gap(&fields, sink);
            sink(&Event::Waking(waking(&fields)));
            return Ok(());
        }
        if let Some(whole) = record.first_chunk::<{ size::SWITCH_FOREIGN }>()
            && kind_of(whole) == KIND_SWITCH
        {
            let fields = Fields(whole);
            self.emit_gap(&fields, sink);
            sink(&Event::Switch(switch(&fields, KIND_SWITCH, None)));
            return Ok(());
        }
        self.decode(record, &mut |event| sink(&event))
    }

    /// Replaces inner tids in a snapshot, once all are known. The waiter's record may come before that of the
    /// awaited thread.
    pub fn with_outer_tids(&self, mut snapshot: Event) -> Event {
        self.inner_tids.put_in(&mut snapshot);
        snapshot
    }

    /// Takes the sequence number of a switch or wakeup, and emits a loss if numbers are missing before it.
    #[inline]
    fn emit_gap(&mut self, fields: &Fields<'_>, sink: &mut dyn FnMut(&Event)) {
        let stream = usize::from(SCHED_STREAM);
        let sequence = self.sequences.get_mut(usize::from(fields.cpu().0)).and_then(|of| of.get_mut(stream));
        if sequence.is_some_and(|sequence| sequence.take_next(fields.u32(8), fields.at())) {
            return;
        }
        if let Some(loss) = self.gap(fields, SCHED_STREAM) {
            sink(&Event::Loss(loss));
        }
    }

    /// Emits losses for switches and wakeups missing at the end. No record arrives after `end`. `next` has
    /// the next sequence number by CPU. The recording began at `begin`.
    pub fn emit_last_gaps(
        &mut self,
        next: &[u32],
        (begin, end): (Timestamp, Timestamp),
        sink: &mut dyn FnMut(Event),
    ) {
        let (stream, none) = (usize::from(SCHED_STREAM), Sequence::default());
        for (cpu, next) in (0..).zip(next) {
            let of_cpu = self.sequences.get(usize::from(cpu)).and_then(|of| of.get(stream)).unwrap_or(&none);
            let Some((missing, since)) = of_cpu.left(*next) else { continue };
            if let Some(lost) = self.lost.get_mut(stream) {
                *lost += u64::from(missing);
            }
            sink(Event::Loss(Loss {
                source: "sched".to_owned(),
                reason: "ring-full".to_owned(),
                cpu: CpuId(cpu),
                start: since.max(begin).min(end),
                end,
                events: u64::from(missing),
            }));
        }
    }

    /// Records missing so far, by stream.
    pub fn lost(&self) -> [u64; STREAMS.len()] {
        self.lost
    }

    /// Spans from probes. They must be defined before their first record.
    pub fn probed(&mut self) -> &mut Probed {
        &mut self.probed
    }

    /// Hardware counters. Their names must be set before their first record.
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
            channel: channel_wait(fields),
        }));
        Some(())
    }

    /// Processes with too many task waits, and the time at which their recording stopped.
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

/// The channel of a task's wait.
fn channel_wait(fields: &Fields<'_>) -> Option<ChannelWait> {
    let sends = match fields.u32(60) {
        TASK_RECEIVED => true,
        TASK_SENT => false,
        _ => return None,
    };
    let (task, waker_task) = (fields.u64(64), fields.u64(72));
    Some(ChannelWait { sends, task, waker_task, slots: fields.u32(80), item_bytes: fields.u32(84) })
}

#[cfg(test)]
mod tests;
