//! Decodes the fields of each kind of record.

use std::array;
use std::num::NonZeroU64;

use holdup_events::event::{
    Affinity, Allocated, FaultSample, Freed, Lifecycle, LifecycleChange, Outcome, RawWait, Sample, Snapshot,
    SnapshotState, Switch, Timeout, WakeContext, Waking,
};
use holdup_events::tables::ALLOCATION_OWN_BYTES;
use holdup_events::{CpuId, Duration, Event, ObjectKind, Timestamp};

use super::layout::*;
use super::stacks;
use crate::counts::ThreadCounts;
use crate::hardware::Reading;
use crate::wait_reason;

/// The event of a self-contained record. `None` if the record is too short for its kind, or of another kind.
pub fn event(fields: &Fields<'_>, kind: u8) -> Option<Event> {
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
        KIND_STACK => Event::Stack(stacks::stack(fields)?),
        KIND_RAW_STACK | KIND_SNAPSHOT_STACK => Event::Stack(stacks::raw_stack(fields)?),
        KIND_SNAPSHOT => Event::Snapshot(snapshot(fields)),
        KIND_ALLOCATED => Event::Allocated(allocated(fields)),
        KIND_FREED => Event::Freed(freed(fields)),
        KIND_FAULT => Event::Fault(fault(fields)),
        _ => Event::Lifecycle(lifecycle(fields, kind)),
    })
}

/// One switch. `room`: where a wait may be put. Inlined: where `kind` and the length are known, little of it is left.
#[inline(always)]
pub fn switch(fields: &Fields<'_>, kind: u8, room: Option<Box<RawWait>>) -> Switch {
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
pub fn affinity(fields: &Fields<'_>, kind: u8) -> Option<Affinity> {
    let told = matches!(kind, KIND_EXIT | KIND_SNAPSHOT) && fields.u32(28) != 0;
    let cpus = fields.u32(48);
    (told && cpus > 0).then(|| Affinity { at: fields.at(), tid: fields.u32(16), cpus })
}

/// One wakeup.
#[inline(always)]
pub fn waking(fields: &Fields<'_>) -> Waking {
    let context = WakeContext::from_code(fields.flags()).unwrap_or_default();
    let waker_syscall = fields.i32(24);
    // Data that a thread sends to a local peer is delivered in a soft interrupt during its syscall, so the
    // thread is the waker. The syscall is checked, because some interrupts (of Hyper-V's bus) pass no
    // tracepoint, and may raise an unrelated soft interrupt.
    let context = match context {
        WakeContext::SoftIrq if wait_reason::reaches_peers(waker_syscall) => WakeContext::Thread,
        context => context,
    };
    let by_thread = context == WakeContext::Thread;
    Waking {
        at: fields.at(),
        cpu: fields.cpu(),
        wakee_tid: fields.u32(16),
        waker_tid: fields.u32(20),
        context,
        waker_syscall: if by_thread { waker_syscall } else { -1 },
        waker_object: fields.u64(32),
        stack: if by_thread { fields.u64(40) } else { 0 },
        stack_every: if by_thread { fields.u32(28) } else { 0 },
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

/// Hardware counters.
pub fn reading(fields: &Fields<'_>) -> Reading {
    Reading {
        at: fields.at(),
        tid: fields.u32(16),
        tgid: fields.u32(20),
        ran_ns: fields.u64(24),
        values: array::from_fn(|nth| fields.u64(32 + 8 * nth)),
    }
}

fn freed(fields: &Fields<'_>) -> Freed {
    Freed { at: fields.at(), tid: fields.u32(16), tgid: fields.u32(20), address: fields.u64(24) }
}

/// Page faults of one thread.
pub fn thread_counts(fields: &Fields<'_>) -> ThreadCounts {
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
        KIND_EXEC => LifecycleChange::Exec { old_tid: fields.u32(24) },
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
