//! Switches and wakeups, the most frequent events of a recording. A value that is predictable from earlier
//! events takes one bit.
//!
//! The thread that leaves a CPU is the one that was switched in last. Its process and the object it waits for
//! are mostly unchanged. A recently used thread has a one-byte number. Encoder and decoder keep the same
//! memory, which is reset with each chunk.

use std::num::NonZeroU64;

use super::bytes::{CodecError, Input, Short};
use super::decode::{Counters, Decoder};
use super::encode::Encoder;
use super::outcome;
use crate::event::{Outcome, RawWait, Switch, Timeout, WakeContext, Waking};
use crate::{Duration, ObjectKind, Timestamp};

/// Number of remembered threads and CPUs. Slots are chosen by number, and a shared slot only costs bytes.
const THREADS: usize = 256;
const CPUS: usize = 64;

/// Flags in the same byte as a switch's outcome.
mod switch {
    pub const PREV_FORETOLD: u8 = 0x20;
    pub const NEXT_KNOWN: u8 = 0x40;
    pub const NEXT_IDLE: u8 = 0x80;
}

/// Flags in the same byte as a wakeup's context.
mod waking {
    pub const CONTEXT: u8 = 0x07;
    pub const WAKER_FORETOLD: u8 = 0x08;
    pub const WAKEE_KNOWN: u8 = 0x10;
    pub const HAS_CALL: u8 = 0x20;
    pub const HAS_STACK: u8 = 0x40;
    pub const HAS_EVERY: u8 = 0x80;
}

/// Flags of a wait's first byte. The bits above them hold the code of its [`Timeout`].
mod wait {
    pub const AS_BEFORE: u8 = 0x01;
    pub const HAS_STACK: u8 = 0x02;
    pub const EVERY_AS_BEFORE: u8 = 0x04;
    pub const IN_IOWAIT: u8 = 0x08;
    pub const MMAP_LOCK: u8 = 0x10;
    pub const TIMEOUT_SHIFT: u8 = 5;
}

/// Last recorded values of a thread.
#[derive(Clone, Default)]
pub struct Known {
    tid: u32,
    tgid: u32,
    pub exec_ns: u64,
    pub queue_ns: u64,
    wait: RawWait,
}

/// State shared by encoder and decoder.
pub struct Memory {
    threads: Vec<Known>,
    /// Thread last switched in, by CPU.
    running: [u32; CPUS],
}

/// Encoding of the thread that is switched in.
#[derive(Clone, Copy)]
enum Next {
    Idle,
    Place(u8),
    Tid(u32),
}

impl Default for Memory {
    fn default() -> Memory {
        Memory { threads: vec![Known::default(); THREADS], running: [0; CPUS] }
    }
}

impl Memory {
    /// The remembered values of `tid`, to read and to update. Resets the slot if another thread used it.
    pub fn of_thread(&mut self, tid: u32) -> &mut Known {
        let known = &mut self.threads[tid as usize % THREADS];
        if known.tid != tid {
            *known = Known { tid, ..Known::default() };
        }
        known
    }

    /// The number of a thread that is remembered.
    fn place(&self, tid: u32) -> Option<u8> {
        let place = tid as usize % THREADS;
        (self.threads[place].tid == tid).then_some(place as u8)
    }

    fn place_of_next(&self, event: &Switch) -> Next {
        match self.place(event.next_tid) {
            _ if event.next_tid == 0 => Next::Idle,
            Some(place) => Next::Place(place),
            None => Next::Tid(event.next_tid),
        }
    }

    fn at(&self, place: u8) -> &Known {
        &self.threads[usize::from(place)]
    }

    fn running(&mut self, cpu: u16) -> &mut u32 {
        &mut self.running[usize::from(cpu) % CPUS]
    }
}

impl Encoder {
    pub(super) fn switch(&mut self, event: &Switch, out: &mut Vec<u8>) {
        let Encoder { last_at, memory, .. } = self;
        let came = std::mem::replace(memory.running(event.cpu.0), event.next_tid);
        // In the decoder's order, because the two threads may share a slot.
        memory.of_thread(event.prev_tid);
        let next = memory.place_of_next(event);
        let prev = memory.of_thread(event.prev_tid);
        let ran_ns = event.exec_ns.map(|exec| exec.wrapping_sub(prev.exec_ns));
        let clock_ns = event.clock_ran_ns.map(NonZeroU64::get);
        let foretold = came == event.prev_tid && prev.tgid == event.prev_tgid;
        prev.tgid = event.prev_tgid;
        let mut flags = outcome_code(event, clock_ns == ran_ns);
        flags |= if event.exec_ns.is_some() { outcome::HAS_EXEC } else { 0 };
        flags |= if event.queue_ns.is_some() { outcome::HAS_QUEUE } else { 0 };
        flags |= if foretold { switch::PREV_FORETOLD } else { 0 };
        flags |= match next {
            Next::Idle => switch::NEXT_IDLE,
            Next::Place(_) => switch::NEXT_KNOWN,
            Next::Tid(_) => 0,
        };
        Short::append(out, |short| {
            short.byte(super::tag::SWITCH);
            short.byte(flags);
            short.difference(event.at.0, std::mem::replace(last_at, event.at.0));
            short.varint(u64::from(event.cpu.0));
            if !foretold {
                short.varint(u64::from(event.prev_tid));
                short.varint(u64::from(event.prev_tgid));
            }
            match next {
                Next::Idle => {}
                Next::Place(place) => short.byte(place),
                Next::Tid(tid) => short.varint(u64::from(tid)),
            }
            if let Some(exec) = event.exec_ns {
                short.difference(exec, std::mem::replace(&mut prev.exec_ns, exec));
            }
            if let Some(queue) = event.queue_ns {
                short.difference(queue, std::mem::replace(&mut prev.queue_ns, queue));
            }
            if !matches!(flags & outcome::MASK, outcome::UNTRACKED | outcome::BLOCKED_CLOCK_FORETOLD) {
                short.difference(clock_ns.unwrap_or(0), ran_ns.unwrap_or(0));
            }
            if let Outcome::Blocked(wait) = &event.outcome {
                put_wait(wait, event.at, &mut prev.wait, short);
            }
        });
    }

    pub(super) fn waking(&mut self, event: &Waking, out: &mut Vec<u8>) {
        let Encoder { last_at, memory, .. } = self;
        let (foretold, wakee) =
            (*memory.running(event.cpu.0) == event.waker_tid, memory.place(event.wakee_tid));
        let called = event.waker_syscall != -1 || event.waker_object != 0;
        let mut flags = event.context as u8;
        flags |= if foretold { waking::WAKER_FORETOLD } else { 0 };
        flags |= if wakee.is_some() { waking::WAKEE_KNOWN } else { 0 };
        flags |= if called { waking::HAS_CALL } else { 0 };
        flags |= if event.stack != 0 { waking::HAS_STACK } else { 0 };
        flags |= if event.stack_every != 0 { waking::HAS_EVERY } else { 0 };
        Short::append(out, |short| {
            short.byte(super::tag::WAKING);
            short.byte(flags);
            short.difference(event.at.0, std::mem::replace(last_at, event.at.0));
            short.varint(u64::from(event.cpu.0));
            match wakee {
                Some(place) => short.byte(place),
                None => short.varint(u64::from(event.wakee_tid)),
            }
            if !foretold {
                short.varint(u64::from(event.waker_tid));
            }
            if called {
                short.difference(event.waker_syscall as i64 as u64, 0);
                short.varint(event.waker_object);
            }
            if event.stack != 0 {
                short.word(event.stack);
            }
            if event.stack_every != 0 {
                short.varint(u64::from(event.stack_every));
            }
        });
    }
}

/// `clock_foretold`: the run time by the run queue's clock equals the accounted run time.
fn outcome_code(event: &Switch, clock_foretold: bool) -> u8 {
    match &event.outcome {
        Outcome::Untracked if event.clock_ran_ns.is_none() => outcome::UNTRACKED,
        Outcome::Untracked => outcome::UNTRACKED_WITH_CLOCK,
        Outcome::Preempted => outcome::PREEMPTED,
        Outcome::Yielded => outcome::YIELDED,
        Outcome::Throttled => outcome::THROTTLED,
        Outcome::Blocked(_) if clock_foretold => outcome::BLOCKED_CLOCK_FORETOLD,
        Outcome::Blocked(_) => outcome::BLOCKED,
        Outcome::Dead => outcome::DEAD,
    }
}

/// `at`: start of the wait. `before`: the thread's previous wait, which is replaced by this one.
fn put_wait(event: &RawWait, at: Timestamp, before: &mut RawWait, out: &mut Short<'_>) {
    let (code, length_ns, from_ns) = match event.timeout {
        Timeout::None => (0, 0, 0),
        Timeout::After(length) => (1, length.0, length_before(before.timeout)),
        Timeout::Until(moment) => (2, moment.0, at.0),
        Timeout::UntilDate(date_ns) => (3, date_ns, length_before(before.timeout)),
    };
    let (same, every_same) = (is_same(event, before), event.stack_every == before.stack_every);
    let mut flags = code << wait::TIMEOUT_SHIFT;
    flags |= if same { wait::AS_BEFORE } else { 0 };
    flags |= if event.stack != 0 { wait::HAS_STACK } else { 0 };
    flags |= if every_same { wait::EVERY_AS_BEFORE } else { 0 };
    flags |= if event.in_iowait { wait::IN_IOWAIT } else { 0 };
    flags |= if event.mmap_lock { wait::MMAP_LOCK } else { 0 };
    out.byte(flags);
    if !same {
        out.byte(event.object_kind as u8);
        out.varint(u64::from(event.state));
        out.difference(event.syscall as i64 as u64, 0);
        for number in [event.object, u64::from(event.op), u64::from(event.value), u64::from(event.owner_tid)]
        {
            out.varint(number);
        }
    }
    if event.stack != 0 {
        out.word(event.stack);
    }
    if !every_same {
        out.varint(u64::from(event.stack_every));
    }
    if code != 0 {
        out.difference(length_ns, from_ns);
    }
    before.clone_from(event);
}

/// Whether two waits are for the same, however long and from wherever.
fn is_same(one: &RawWait, other: &RawWait) -> bool {
    one.object == other.object
        && one.op == other.op
        && one.value == other.value
        && one.owner_tid == other.owner_tid
        && one.syscall == other.syscall
        && one.state == other.state
        && one.object_kind == other.object_kind
}

fn length_before(timeout: Timeout) -> u64 {
    match timeout {
        Timeout::After(length) => length.0,
        Timeout::UntilDate(date_ns) => date_ns,
        Timeout::None | Timeout::Until(_) => 0,
    }
}

impl Decoder<'_> {
    pub(super) fn switch(&mut self) -> Result<Switch, CodecError> {
        let flags = self.input.byte()?;
        let at = self.at()?;
        let cpu = self.cpu()?;
        let came = *self.memory.running(cpu.0);
        let foretold = flags & switch::PREV_FORETOLD != 0;
        let prev_tid = if foretold { came } else { self.input.u32()? };
        let prev_tgid = if foretold { self.memory.of_thread(prev_tid).tgid } else { self.input.u32()? };
        self.memory.of_thread(prev_tid).tgid = prev_tgid;
        let next_tid = match flags & (switch::NEXT_IDLE | switch::NEXT_KNOWN) {
            0 => self.input.u32()?,
            switch::NEXT_KNOWN => self.memory.at(self.input.byte()?).tid,
            _ => 0,
        };
        *self.memory.running(cpu.0) = next_tid;
        let Counters { exec_ns, queue_ns, ran_ns } = self.counters(prev_tid, flags)?;
        let clock_ran_ns = match flags & outcome::MASK {
            outcome::UNTRACKED => None,
            outcome::BLOCKED_CLOCK_FORETOLD => NonZeroU64::new(ran_ns),
            _ => NonZeroU64::new(self.input.difference(ran_ns)?),
        };
        let outcome = match flags & outcome::MASK {
            outcome::UNTRACKED | outcome::UNTRACKED_WITH_CLOCK => Outcome::Untracked,
            outcome::PREEMPTED => Outcome::Preempted,
            outcome::YIELDED => Outcome::Yielded,
            outcome::THROTTLED => Outcome::Throttled,
            outcome::BLOCKED | outcome::BLOCKED_CLOCK_FORETOLD => {
                let wait = take_wait(&mut self.input, at, &mut self.memory.of_thread(prev_tid).wait)?;
                Outcome::Blocked(Box::new(wait))
            }
            outcome::DEAD => Outcome::Dead,
            other => return Err(self.input.unknown("outcome", other)),
        };
        Ok(Switch { at, cpu, prev_tid, next_tid, prev_tgid, outcome, exec_ns, queue_ns, clock_ran_ns })
    }

    pub(super) fn waking(&mut self) -> Result<Waking, CodecError> {
        let flags = self.input.byte()?;
        let code = flags & waking::CONTEXT;
        let context = WakeContext::from_code(code).ok_or_else(|| self.input.unknown("context", code))?;
        let at = self.at()?;
        let cpu = self.cpu()?;
        let wakee_tid = match flags & waking::WAKEE_KNOWN {
            0 => self.input.u32()?,
            _ => self.memory.at(self.input.byte()?).tid,
        };
        let foretold = flags & waking::WAKER_FORETOLD != 0;
        let waker_tid = if foretold { *self.memory.running(cpu.0) } else { self.input.u32()? };
        let (waker_syscall, waker_object) =
            if flags & waking::HAS_CALL != 0 { (self.input.i32()?, self.input.varint()?) } else { (-1, 0) };
        let stack = if flags & waking::HAS_STACK != 0 { self.input.word()? } else { 0 };
        let stack_every = if flags & waking::HAS_EVERY != 0 { self.input.u32()? } else { 0 };
        Ok(Waking { at, cpu, wakee_tid, waker_tid, context, waker_syscall, waker_object, stack, stack_every })
    }
}

fn take_wait(input: &mut Input<'_>, at: Timestamp, before: &mut RawWait) -> Result<RawWait, CodecError> {
    let flags = input.byte()?;
    let mut event = before.clone();
    event.in_iowait = flags & wait::IN_IOWAIT != 0;
    event.mmap_lock = flags & wait::MMAP_LOCK != 0;
    if flags & wait::AS_BEFORE == 0 {
        let kind = input.byte()?;
        event.object_kind = ObjectKind::from_code(kind).ok_or_else(|| input.unknown("object", kind))?;
        (event.state, event.syscall, event.object) = (input.u32()?, input.i32()?, input.varint()?);
        (event.op, event.value, event.owner_tid) = (input.u32()?, input.u32()?, input.u32()?);
    }
    event.stack = if flags & wait::HAS_STACK != 0 { input.word()? } else { 0 };
    if flags & wait::EVERY_AS_BEFORE == 0 {
        event.stack_every = input.u32()?;
    }
    event.timeout = match flags >> wait::TIMEOUT_SHIFT {
        0 => Timeout::None,
        1 => Timeout::After(Duration(input.difference(length_before(before.timeout))?)),
        2 => Timeout::Until(Timestamp(input.difference(at.0)?)),
        3 => Timeout::UntilDate(input.difference(length_before(before.timeout))?),
        other => return Err(input.unknown("time-out", other)),
    };
    before.clone_from(&event);
    Ok(event)
}
