//! Events → bytes.

use std::collections::HashMap;
use std::sync::Arc;

use super::bytes::{put_difference, put_text, put_varint};
use super::foretold::Memory;
use super::{SAMPLE_HAS_REGISTERS, outcome, runtime_event_code, state, tag, wait_flag};
use crate::event::{
    Allocated, CallSums, Counted, Event, FaultSample, LifecycleChange, RawWait, RuntimeEvent,
    RuntimeEventKind, SnapshotState, TaskWait, Timeout, Watched,
};
use crate::{Loss, Timestamp};

/// Encodes the events of one chunk.
#[derive(Default)]
pub struct Encoder {
    pub(super) last_at: u64,
    pub(super) memory: Memory,
    /// Process, thread and lane of the last [`RuntimeEvent`].
    teller: Option<[u32; 3]>,
    /// Texts that were written out in this chunk, by their number.
    texts: HashMap<Arc<str>, u64>,
    /// Numbers of some texts by their address (`texts` keeps them alive), because a runtime repeats few names
    /// very often.
    places: Places,
}

/// Direct-mapped cache: address of a text, and its number.
struct Places([(usize, u64); 128]);

impl Default for Places {
    fn default() -> Places {
        Places([(0, 0); 128])
    }
}

impl Places {
    fn slot(&mut self, address: usize) -> &mut (usize, u64) {
        let count = self.0.len();
        // Two counters stand before the bytes, so that texts are 16 bytes apart at least.
        &mut self.0[address / 16 % count]
    }
}

impl Encoder {
    /// Appends `event` to `out`.
    pub fn encode(&mut self, event: &Event, out: &mut Vec<u8>) {
        match event {
            Event::Switch(switch) => self.switch(switch, out),
            Event::Waking(waking) => self.waking(waking, out),
            Event::Sample(sample) => self.sample(sample, out),
            Event::Stack(stack) => self.stack(stack, out),
            Event::Lifecycle(lifecycle) => self.lifecycle(lifecycle, out),
            Event::Snapshot(snapshot) => self.snapshot(snapshot, out),
            Event::Mapping(mapping) => self.mapping(mapping, out),
            Event::SyscallCount(count) => self.syscall_count(count, out),
            Event::Calls(calls) => self.calls(calls, out),
            Event::ObjectName(name) => {
                out.extend_from_slice(&[tag::OBJECT_NAME, name.kind as u8]);
                self.at(name.at, out);
                put_varint(out, name.object);
                put_text(out, name.name.as_bytes());
            }
            Event::Allocated(allocated) => self.allocated(allocated, out),
            Event::Freed(freed) => {
                out.push(tag::FREED);
                self.at(freed.at, out);
                for number in [u64::from(freed.tid), u64::from(freed.tgid), freed.address] {
                    put_varint(out, number);
                }
            }
            Event::Counted(counted) => self.counted(counted, out),
            Event::Fault(fault) => self.fault(fault, out),
            Event::Watched(watched) => self.watched(watched, out),
            Event::TaskWait(wait) => self.task_wait(wait, out),
            Event::TaskWindow(window) => {
                out.extend_from_slice(&[tag::TASK_WINDOW, u8::from(window.opens)]);
                self.at(window.at, out);
                put_varint(out, u64::from(window.tgid));
            }
            Event::Runtime(tell) => self.runtime_event(tell, out),
            Event::Affinity(affinity) => {
                out.push(tag::AFFINITY);
                self.at(affinity.at, out);
                put_varint(out, u64::from(affinity.tid));
                put_varint(out, u64::from(affinity.cpus));
            }
            Event::Loss(loss) => self.loss(loss, out),
        }
    }

    pub(super) fn at(&mut self, at: Timestamp, out: &mut Vec<u8>) {
        put_difference(out, at.0, self.last_at);
        self.last_at = at.0;
    }

    pub(super) fn counters(
        &mut self,
        tid: u32,
        exec_ns: Option<u64>,
        queue_ns: Option<u64>,
        out: &mut Vec<u8>,
    ) {
        let last = self.memory.of_thread(tid);
        if let Some(exec) = exec_ns {
            put_difference(out, exec, last.exec_ns);
            last.exec_ns = exec;
        }
        if let Some(queue) = queue_ns {
            put_difference(out, queue, last.queue_ns);
            last.queue_ns = queue;
        }
    }

    fn sample(&mut self, sample: &crate::event::Sample, out: &mut Vec<u8>) {
        let registers = sample.registers.as_deref();
        let has = if registers.is_some() { SAMPLE_HAS_REGISTERS } else { 0 };
        out.extend_from_slice(&[tag::SAMPLE, u8::from(sample.in_kernel) | has]);
        self.at(sample.at, out);
        for number in [u64::from(sample.cpu.0), u64::from(sample.tid), u64::from(sample.tgid), sample.ip] {
            put_varint(out, number);
        }
        put_difference(out, sample.syscall as i64 as u64, 0);
        put_varint(out, sample.stack);
        // Addresses, mostly: near another.
        let mut last = 0;
        for register in registers.into_iter().flatten() {
            put_difference(out, *register, last);
            last = *register;
        }
    }

    fn stack(&mut self, stack: &crate::event::RawStack, out: &mut Vec<u8>) {
        out.push(tag::STACK);
        self.at(stack.at, out);
        put_varint(out, stack.id);
        put_varint(out, u64::from(stack.tgid));
        put_varint(out, u64::from(stack.kernel_frames));
        put_varint(out, stack.addresses.len() as u64);
        let mut last = 0;
        for address in &stack.addresses {
            put_difference(out, *address, last);
            last = *address;
        }
        out.push(stack.end as u8);
        // Frames of one kind stand together: runs.
        let runs: Vec<_> = stack.vias.chunk_by(|a, b| a == b).collect();
        put_varint(out, runs.len() as u64);
        for run in runs {
            out.push(run.first().map_or(0, |via| *via as u8));
            put_varint(out, run.len() as u64);
        }
        out.push(if stack.raw.is_some() { 2 } else { 0 });
        if let Some(raw) = &stack.raw {
            for number in [raw.ip, raw.sp, raw.bp, raw.bx, raw.bytes.len() as u64] {
                put_varint(out, number);
            }
            out.extend_from_slice(&raw.bytes);
        }
    }

    fn lifecycle(&mut self, lifecycle: &crate::event::Lifecycle, out: &mut Vec<u8>) {
        let (code, other) = match lifecycle.change {
            LifecycleChange::Fork { parent_tid } => (0, parent_tid),
            LifecycleChange::Exec { old_tid } => (1, old_tid),
            LifecycleChange::Rename => (2, 0),
            LifecycleChange::Exit => (3, 0),
        };
        out.extend_from_slice(&[tag::LIFECYCLE, code | if lifecycle.target { 0x80 } else { 0 }]);
        self.at(lifecycle.at, out);
        for number in [lifecycle.tid, lifecycle.tgid, other] {
            put_varint(out, u64::from(number));
        }
        put_text(out, lifecycle.name.as_bytes());
    }

    fn snapshot(&mut self, snapshot: &crate::event::Snapshot, out: &mut Vec<u8>) {
        let code = match &snapshot.state {
            SnapshotState::Running(_) => state::RUNNING,
            SnapshotState::Runnable => state::RUNNABLE,
            SnapshotState::Blocked(_) => state::BLOCKED,
            SnapshotState::Dead => state::DEAD,
            SnapshotState::Untracked => state::UNTRACKED,
        };
        let has_exec = if snapshot.exec_ns.is_some() { outcome::HAS_EXEC } else { 0 };
        let has_queue = if snapshot.queue_ns.is_some() { outcome::HAS_QUEUE } else { 0 };
        let target = if snapshot.target { 0x80 } else { 0 };
        out.extend_from_slice(&[tag::SNAPSHOT, code | has_exec | has_queue | target]);
        self.at(snapshot.at, out);
        for number in [snapshot.tid, snapshot.tgid, snapshot.parent_tgid] {
            put_varint(out, u64::from(number));
        }
        put_text(out, snapshot.name.as_bytes());
        self.counters(snapshot.tid, snapshot.exec_ns, snapshot.queue_ns, out);
        match &snapshot.state {
            SnapshotState::Running(cpu) => put_varint(out, u64::from(cpu.0)),
            SnapshotState::Blocked(wait) => put_wait(wait, out),
            _ => {}
        }
    }

    fn mapping(&mut self, mapping: &crate::event::RawMapping, out: &mut Vec<u8>) {
        out.push(tag::MAPPING);
        self.at(mapping.at, out);
        for number in [u64::from(mapping.tgid), mapping.start, mapping.end, mapping.file_offset] {
            put_varint(out, number);
        }
        put_text(out, mapping.path.as_bytes());
        put_text(out, &mapping.build_id);
    }

    fn syscall_count(&mut self, count: &crate::event::SyscallCount, out: &mut Vec<u8>) {
        out.push(tag::SYSCALL_COUNT);
        self.at(count.until, out);
        put_difference(out, count.at.0, count.until.0);
        put_varint(out, u64::from(count.tgid));
        put_difference(out, count.syscall as i64 as u64, 0);
        put_varint(out, count.count);
        put_varint(out, u64::from(count.cost_ns));
    }

    fn calls(&mut self, calls: &CallSums, out: &mut Vec<u8>) {
        out.extend_from_slice(&[tag::CALLS, calls.object_kind as u8]);
        self.at(calls.until, out);
        put_difference(out, calls.at.0, calls.until.0);
        put_difference(out, calls.syscall as i64 as u64, 0);
        for number in [calls.tid, calls.tgid, calls.op] {
            put_varint(out, u64::from(number));
        }
        for number in [calls.object, calls.count, calls.errors, calls.returned, calls.time_ns] {
            put_varint(out, number);
        }
        for number in [calls.time_max_ns, calls.timed, calls.parts.len() as u64] {
            put_varint(out, number);
        }
        for (what, key, count) in &calls.parts {
            out.push(*what as u8);
            put_varint(out, *key);
            put_varint(out, *count);
        }
    }

    fn allocated(&mut self, allocated: &Allocated, out: &mut Vec<u8>) {
        out.push(tag::ALLOCATED);
        self.at(allocated.at, out);
        for number in [u64::from(allocated.tid), u64::from(allocated.tgid), allocated.address] {
            put_varint(out, number);
        }
        for number in [allocated.bytes, allocated.every_bytes, allocated.own_bytes, allocated.stack] {
            put_varint(out, number);
        }
    }

    fn counted(&mut self, counted: &Counted, out: &mut Vec<u8>) {
        out.extend_from_slice(&[tag::COUNTED, counted.what as u8]);
        self.at(counted.until, out);
        put_difference(out, counted.at.0, counted.until.0);
        put_difference(out, counted.syscall as i64 as u64, 0);
        for number in
            [u64::from(counted.tid), u64::from(counted.tgid), u64::from(counted.cpu.0), counted.count]
        {
            put_varint(out, number);
        }
    }

    fn fault(&mut self, fault: &FaultSample, out: &mut Vec<u8>) {
        out.extend_from_slice(&[tag::FAULT, u8::from(fault.major) | u8::from(fault.in_kernel) << 1]);
        self.at(fault.at, out);
        for number in
            [u64::from(fault.tid), u64::from(fault.tgid), fault.address, fault.stands_for, fault.stack]
        {
            put_varint(out, number);
        }
    }

    fn watched(&mut self, watched: &Watched, out: &mut Vec<u8>) {
        out.push(tag::WATCHED);
        self.at(watched.until, out);
        put_difference(out, watched.at.0, watched.until.0);
        for number in [u64::from(watched.tid), u64::from(watched.tgid), watched.address] {
            put_varint(out, number);
        }
        for number in [u64::from(watched.bytes), watched.hits, watched.ran_ns] {
            put_varint(out, number);
        }
    }

    fn task_wait(&mut self, wait: &TaskWait, out: &mut Vec<u8>) {
        out.push(if wait.channel.is_some() { tag::CHANNEL_WAIT } else { tag::TASK_WAIT });
        self.at(wait.at, out);
        put_difference(out, wait.since.0, wait.at.0);
        for number in [u64::from(wait.tid), u64::from(wait.tgid), wait.object, wait.stack] {
            put_varint(out, number);
        }
        put_varint(out, u64::from(wait.waker_tid));
        put_varint(out, wait.waker_stack);
        if let Some(channel) = wait.channel {
            out.push(u8::from(channel.sends));
            for number in [channel.task, channel.waker_task, channel.slots.into(), channel.item_bytes.into()]
            {
                put_varint(out, number);
            }
        }
    }

    fn runtime_event(&mut self, tell: &RuntimeEvent, out: &mut Vec<u8>) {
        let code = match &tell.what {
            RuntimeEventKind::LaneStart => runtime_event_code::LANE_START,
            RuntimeEventKind::LaneEnd => runtime_event_code::LANE_END,
            RuntimeEventKind::Gap => runtime_event_code::GAP,
            RuntimeEventKind::Begin(kind) => {
                runtime_event_code::BEGIN | (*kind as u8) << runtime_event_code::KIND_SHIFT
            }
            RuntimeEventKind::End => runtime_event_code::END,
            RuntimeEventKind::Counter(_) => runtime_event_code::COUNTER,
            RuntimeEventKind::Mark { .. } => runtime_event_code::MARK,
        };
        let teller = [tell.tgid, tell.tid, tell.lane];
        let again = self.teller == Some(teller);
        out.extend_from_slice(&[tag::TELL, code | if again { runtime_event_code::AGAIN } else { 0 }]);
        self.at(tell.at, out);
        if !again {
            teller.iter().for_each(|number| put_varint(out, u64::from(*number)));
            self.teller = Some(teller);
        }
        self.text(&tell.name, out);
        match &tell.what {
            RuntimeEventKind::Counter(value) => put_varint(out, *value),
            RuntimeEventKind::Mark { value, text } => {
                put_varint(out, *value);
                self.text(text, out);
            }
            _ => {}
        }
    }

    /// Written out the first time, by its number from then on.
    fn text(&mut self, text: &Arc<str>, out: &mut Vec<u8>) {
        let address = text.as_ptr().addr();
        let place = self.places.slot(address);
        if place.0 == address {
            return put_varint(out, place.1);
        }
        if let Some((kept, number)) = self.texts.get_key_value(text) {
            // Another of the same text may go, and another text come to where it was.
            if Arc::ptr_eq(kept, text) {
                *place = (address, *number);
            }
            return put_varint(out, *number);
        }
        let number = self.texts.len() as u64;
        *place = (address, number);
        put_varint(out, number);
        put_text(out, text.as_bytes());
        self.texts.insert(text.clone(), number);
    }

    fn loss(&mut self, loss: &Loss, out: &mut Vec<u8>) {
        out.push(tag::LOSS);
        self.at(loss.start, out);
        put_difference(out, loss.end.0, loss.start.0);
        put_varint(out, u64::from(loss.cpu.0));
        put_varint(out, loss.events);
        put_text(out, loss.source.as_bytes());
        put_text(out, loss.reason.as_bytes());
    }
}

fn put_wait(wait: &RawWait, out: &mut Vec<u8>) {
    let (code, timeout_ns) = match wait.timeout {
        Timeout::None => (0, 0),
        Timeout::After(length) => (1, length.0),
        Timeout::Until(moment) => (2, moment.0),
        Timeout::UntilDate(date_ns) => (3, date_ns),
    };
    let in_iowait = if wait.in_iowait { wait_flag::IN_IOWAIT } else { 0 };
    let mmap_lock = if wait.mmap_lock { wait_flag::MMAP_LOCK } else { 0 };
    out.push(in_iowait | mmap_lock | code << wait_flag::TIMEOUT_SHIFT);
    out.push(wait.object_kind as u8);
    put_varint(out, u64::from(wait.state));
    put_difference(out, wait.syscall as i64 as u64, 0);
    for number in [wait.object, u64::from(wait.op), u64::from(wait.value), u64::from(wait.owner_tid)] {
        put_varint(out, number);
    }
    put_varint(out, wait.stack);
    put_varint(out, u64::from(wait.stack_every));
    if code != 0 {
        put_varint(out, timeout_ns);
    }
}
