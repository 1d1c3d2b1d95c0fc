//! On-CPU samples, and stacks.

use std::borrow::Cow;

use holdup_events::tables::{AccessKind, FrameKind, SampleRow};
use holdup_events::{FrameId, StackId};
use holdup_findings::derive::syscall_names::syscall_name;

use crate::facts::{Facts, cpu};
use crate::view::{Table, columns, int, non_empty, text};

pub(super) fn samples() -> Table<SampleRow> {
    Table {
        name: "samples",
        meaning: "one sample of a thread on a CPU. A CPU is sampled every sample_period_ns on average",
        columns: columns! { facts, row: SampleRow;
            Int "thread" "row in threads" = Some(i64::from(row.thread.0));
            Text "thread_name" "its name" = facts.thread_name(row.thread).and_then(text);
            Text "process_name" "name of its process" = facts.process_of(row.thread).and_then(|one| text(&one.name));
            Flag "target" "the thread belongs to the traced program" = facts.thread(row.thread).map(|one| one.target);
            Int "at_ns" "time of the sample (ns)" = int(row.at.0);
            Real "at_s" "the same, seconds since the recording began" = Some(facts.at_s(row.at));
            Int "cpu" "CPU of the sample" = cpu(row.cpu);
            Text "class" "class of the ledger: useful, kernel, gc-work or spin"
                = text(facts.begun().roles.class_of_sample(row).name());
            Flag "in_kernel" "the CPU was in kernel mode" = Some(row.in_kernel);
            Text "syscall" "syscall of the thread" = (row.syscall != -1).then(|| Cow::Borrowed(syscall_name(row.syscall)));
            Int "stack" "row in stacks" = Some(i64::from(row.stack.0)).filter(|id| *id > 0);
            Text "function" "function of the leaf frame" = leaf(facts, row.stack);
            Text "access" "memory access of the preceding instruction" = access(row);
            Int "period_ns" "mean time between samples of a CPU (ns)" = int(facts.trace.manifest.sample_period_ns);
        },
        places: |facts| facts.trace.samples.len(),
        rows: |facts, places| facts.trace.samples.get(places).unwrap_or(&[]).to_vec(),
    }
}

fn access(row: &SampleRow) -> Option<Cow<'static, str>> {
    (row.data.kind != AccessKind::None).then(|| Cow::Borrowed(row.data.kind.name()))
}

fn leaf(facts: &Facts, stack: StackId) -> Option<Cow<'_, str>> {
    facts.trace.stack_frames(stack).next().and_then(|frame| name(facts, frame))
}

fn name(facts: &Facts, frame: FrameId) -> Option<Cow<'_, str>> {
    match facts.trace.frames.get(frame.index()) {
        Some(row) if !row.function.is_empty() => text(&row.function),
        _ => Some(Cow::Owned(facts.trace.frame_name(frame))),
    }
}

pub(super) fn stacks() -> Table<StackId> {
    Table {
        name: "stacks",
        meaning: "a stack: its leaf, and all functions as text",
        columns: columns! { facts, row: StackId;
            Int "stack" "its id in this recording" = Some(i64::from(row.0));
            Text "function" "function of the leaf frame" = leaf(facts, *row);
            Text "module" "executable or library of the leaf"
                = leaf_row(facts, *row).and_then(|frame| non_empty(&frame.module));
            Text "file" "source file of the leaf, as debug information names it" = leaf_row(facts, *row).and_then(|frame| non_empty(&frame.file));
            Int "line" "line in that file" = leaf_row(facts, *row).map(|frame| i64::from(frame.line)).filter(|line| *line > 0);
            Flag "in_kernel" "the leaf is a kernel function" = leaf_row(facts, *row).map(|frame| frame.kind == FrameKind::Kernel);
            Int "depth" "number of frames" = Some(facts.trace.stack_frames(*row).count() as i64);
            Int "parent" "stack of the caller: row in stacks" = parent(facts, *row);
            Text "frames" "all functions, the root first, separated by semicolons" = Some(Cow::Owned(whole(facts, *row)));
        },
        places: |facts| facts.trace.stacks.rows().len(),
        rows: |_, places| places.filter(|row| *row > 0).map(|row| StackId(row as u32)).collect(),
    }
}

fn leaf_row(facts: &Facts, stack: StackId) -> Option<&holdup_events::tables::Frame> {
    facts.trace.stack_frames(stack).next().and_then(|frame| facts.trace.frames.get(frame.index()))
}

fn parent(facts: &Facts, stack: StackId) -> Option<i64> {
    let row = facts.trace.stacks.rows().get(stack.index())?;
    Some(i64::from(row.parent.0)).filter(|id| *id > 0)
}

fn whole(facts: &Facts, stack: StackId) -> String {
    let mut names: Vec<Cow<'_, str>> =
        facts.trace.stack_frames(stack).filter_map(|frame| name(facts, frame)).collect();
    names.reverse();
    names.join(";")
}
