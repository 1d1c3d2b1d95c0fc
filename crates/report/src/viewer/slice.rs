//! `api/slice`: one slice with its details: stack, waker, occupants of its CPU, causes.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use holdup_events::event::WakeContext;
use holdup_events::tables::{FrameKind, Slice, ThreadState};
use holdup_events::{CpuId, Duration, StackId, ThreadId, Timestamp};
use holdup_findings::chain::Teller;
use holdup_findings::derive::syscall_names::syscall_name;
use holdup_findings::derive::why::{Facts, Link, occupants, why};
use serde_json::{Value, json};

use super::lanes::cpu_number;
use super::samples::of_thread;
use super::{Ask, Refusal, Viewer, or_none, to_text};

/// Functions of a running slice that are named.
const FUNCTIONS_MAX: usize = 10;
/// Frames of a stack.
const FRAMES_MAX: usize = 256;
/// Maximum number of threads that waited for the thread.
const KEPT_MAX: usize = 5;
/// Maximum number of threads that occupied the CPU.
const OCCUPANTS_MAX: usize = 10;

pub(super) fn answer(viewer: &Viewer, ask: &Ask) -> Result<String, Refusal> {
    let thread = ThreadId(u32::try_from(ask.needed("thread")?).unwrap_or(u32::MAX));
    let rows = viewer.trace.slices.rows(thread);
    let row = match (ask.number("row")?, ask.number("at")?) {
        (Some(row), None) => usize::try_from(row).ok().filter(|row| rows.contains(row)),
        (None, Some(at)) => viewer.trace.slices.covering(thread, viewer.trace.start() + Duration(at)),
        _ => return Err(Refusal::bad("either at or row is wanted")),
    };
    let Some(row) = row else { return Err(Refusal::not_there("that thread has no slice there")) };
    Ok(to_text(&to_json(viewer, thread, row)))
}

/// The answer for a slice that is there.
pub(super) fn to_json(viewer: &Viewer, thread: ThreadId, row: usize) -> Value {
    let trace = &viewer.trace;
    let (rows, slice) = (trace.slices.rows(thread), trace.slices.at(thread, row));
    let (stack, stack_from) = stack(viewer, &slice);
    let (occupied, occupants) = queued_behind(viewer, &slice);
    let stolen =
        trace.steals.binary_search_by_key(&(thread, slice.start), |one| (one.thread, one.slice_start));
    json!({
        "thread": thread.0,
        "row": row,
        "start_ns": viewer.since(slice.start),
        "end_ns": viewer.since(slice.end),
        "state": slice.state.name(),
        "class": or_none(viewer.zoom.class(row).map(|class| class as u8)),
        "cpu": cpu_number(slice.cpu),
        "stolen_ns": stolen.map_or(0, |at| trace.steals[at].stolen.0.min(slice.duration().0)),
        "previous": or_none((row > rows.start).then(|| row as i64 - 1)),
        "next": or_none((row + 1 < rows.end).then_some(row as i64 + 1)),
        "wait": wait(viewer, &slice),
        "stack": frames(viewer, stack),
        "stack_from": stack_from,
        "samples": functions(viewer, &slice),
        "waker": waker(viewer, &slice),
        "occupants": occupants,
        "occupied_cpu": cpu_number(occupied),
        "kept_waiting": kept_waiting(viewer, &slice),
        "why": why(facts(viewer), thread, row).iter()
            .map(|link| self::link(viewer, link)).collect::<Value>(),
    })
}

/// The slices of a chain, that one first.
pub(super) fn chain(viewer: &Viewer, thread: ThreadId, row: usize) -> Vec<(ThreadId, usize)> {
    let links = why(facts(viewer), thread, row);
    links.iter().filter_map(|link| Some((link.thread?, link.row?))).collect()
}

fn facts(viewer: &Viewer) -> Facts<'_> {
    let derived = &viewer.analysis().derived;
    Facts {
        trace: &viewer.trace,
        timelines: &viewer.timelines,
        zoom: &viewer.zoom,
        holders: &derived.holders,
        locks: &derived.occupancy.locks,
    }
}

fn teller(viewer: &Viewer) -> Teller<'_> {
    Teller { trace: &viewer.trace, derived: &viewer.analysis().derived }
}

/// Returns the most specific stack of a slice, and its origin.
fn stack(viewer: &Viewer, slice: &Slice) -> (StackId, &'static str) {
    if slice.stack != StackId::NONE {
        return (slice.stack, "blocked");
    }
    if slice.state != ThreadState::Running {
        return (StackId::NONE, "");
    }
    let middle = slice.start.0 / 2 + slice.end.0 / 2;
    let inside = samples_in(viewer, slice).iter().filter(|sample| sample.stack != StackId::NONE);
    let nearest = inside.min_by_key(|sample| sample.at.0.abs_diff(middle));
    nearest.map_or((StackId::NONE, ""), |sample| (sample.stack, "sample"))
}

fn samples_in<'a>(viewer: &'a Viewer, slice: &Slice) -> &'a [holdup_events::tables::SampleRow] {
    let samples = of_thread(viewer, slice.thread);
    let from = samples.partition_point(|sample| sample.at < slice.start);
    let behind = samples.partition_point(|sample| sample.at < slice.end);
    samples.get(from..behind).unwrap_or(&[])
}

pub(super) fn frames(viewer: &Viewer, stack: StackId) -> Value {
    let named = viewer.trace.stack_frames(stack).take(FRAMES_MAX).map(|id| {
        let frame = viewer.trace.frames.get(id.index()).cloned().unwrap_or_default();
        let kind = match frame.kind {
            FrameKind::User => "user",
            FrameKind::Kernel => "kernel",
            FrameKind::Unknown => "unknown",
        };
        json!({
            "name": viewer.trace.frame_name(id),
            "module": frame.module,
            "file": frame.file,
            "line": frame.line,
            "inlined": frame.inlined,
            "kind": kind,
        })
    });
    named.collect()
}

/// Where a running slice was seen: its samples by leaf.
fn functions(viewer: &Viewer, slice: &Slice) -> Value {
    if slice.state != ThreadState::Running {
        return json!([]);
    }
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for sample in samples_in(viewer, slice) {
        let leaf = viewer.trace.stack_frames(sample.stack).next();
        let name = leaf.map_or_else(|| "(no stack)".to_owned(), |leaf| viewer.trace.frame_name(leaf));
        *counts.entry(name).or_default() += 1;
    }
    let mut ranked: Vec<(String, u64)> = counts.into_iter().collect();
    ranked.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    ranked.truncate(FUNCTIONS_MAX);
    ranked.iter().map(|(name, samples)| json!({"name": name, "samples": samples})).collect()
}

fn wait(viewer: &Viewer, slice: &Slice) -> Value {
    if slice.state != ThreadState::Blocked {
        return Value::Null;
    }
    let wait = viewer.trace.wait(slice.wait);
    json!({
        "reason": wait.reason.name(),
        "object_kind": wait.object_kind.name(),
        "object": format!("0x{:x}", wait.object),
        "syscall": if wait.syscall == i32::MIN { "" } else { syscall_name(wait.syscall) },
        "name": teller(viewer).object_name(slice),
    })
}

fn waker(viewer: &Viewer, slice: &Slice) -> Value {
    if slice.state != ThreadState::Blocked {
        return Value::Null;
    }
    let Some(wakeup) = viewer.trace.ended_by(slice) else {
        return Value::Null;
    };
    let is_thread = wakeup.context == WakeContext::Thread;
    json!({
        "thread": if is_thread { i64::from(wakeup.waker.0) } else { -1 },
        "context": context_name(wakeup.context),
        "at_ns": viewer.since(wakeup.at),
        "cpu": cpu_number(wakeup.cpu),
        "stack": frames(viewer, wakeup.stack),
    })
}

fn context_name(context: WakeContext) -> &'static str {
    match context {
        WakeContext::Thread => "thread",
        WakeContext::Timer => "timer",
        WakeContext::SoftIrq => "soft-irq",
        WakeContext::Irq => "irq",
    }
}

/// Returns the CPU that a thread waited for, and the threads that occupied it.
fn queued_behind(viewer: &Viewer, slice: &Slice) -> (CpuId, Value) {
    if !slice.state.waits_for_cpu() {
        return (CpuId::NONE, json!([]));
    }
    let (cpu, ranked) = occupants(&viewer.trace, &viewer.timelines, slice);
    let longest = longest_turns(viewer, cpu, slice);
    let row = |(thread, length): (ThreadId, Duration)| {
        let at = longest.get(&thread).map_or(slice.start, |(_, Reverse(start))| *start);
        json!({"thread": thread.0, "ns": length.0, "at_ns": viewer.since(at)})
    };
    (cpu, ranked.into_iter().take(OCCUPANTS_MAX).map(row).collect())
}

/// Where each thread's longest turn on a CPU during a wait began: the middle of the wait may be in another's.
fn longest_turns(
    viewer: &Viewer,
    cpu: CpuId,
    slice: &Slice,
) -> BTreeMap<ThreadId, (Duration, Reverse<Timestamp>)> {
    let mut longest = BTreeMap::new();
    let timeline = viewer.timelines.of_cpu(cpu);
    for turn in timeline.map_or(&[][..], |timeline| timeline.between(slice.start, slice.end)) {
        let inside = turn.end().min(slice.end).since(turn.start().max(slice.start));
        let this = (inside, Reverse(turn.start()));
        let known = longest.entry(turn.thread()).or_insert(this);
        *known = this.max(*known);
    }
    longest
}

/// Threads that waited for this thread to arrive last.
fn kept_waiting(viewer: &Viewer, slice: &Slice) -> Value {
    let rendezvous = &viewer.analysis().derived.rendezvous;
    let kept = rendezvous.kept_waiting(slice.thread, (slice.start, slice.end));
    let named = |site: u32| rendezvous.uses.iter().find(|used| used.site == site).map(|used| &used.name);
    kept.iter()
        .take(KEPT_MAX)
        .map(|one| {
            let row = viewer.trace.slices.covering(one.thread, one.from);
            json!({
                "thread": one.thread.0,
                "start_ns": viewer.since(one.from),
                "end_ns": viewer.since(one.to),
                "row": or_none(row.map(|row| row as i64)),
                "name": named(one.site),
            })
        })
        .collect()
}

fn link(viewer: &Viewer, link: &Link) -> Value {
    let (text, basis) = teller(viewer).words(link);
    json!({
        "text": text,
        "thread": or_none(link.thread.map(|thread| thread.0)),
        "start_ns": viewer.since(link.start),
        "end_ns": viewer.since(link.end),
        "row": or_none(link.row.map(|row| row as i64)),
        "class": or_none(link.row.and_then(|row| viewer.zoom.class(row)).map(|class| class as u8)),
        "basis": basis,
    })
}
