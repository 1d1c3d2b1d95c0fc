//! Folded stacks, `state;process;thread;frame;frame count`, root first: what flame graph tools read.
//! On-CPU time is samples × period, off-CPU time is that of blocked slices; both in µs.

use std::collections::BTreeMap;
use std::io::{self, Write};

use holdup_events::tables::ThreadState;
use holdup_events::{StackId, ThreadId, Trace};
use holdup_findings::Analysis;

use super::{Exporter, Info};
use crate::text::clean;

pub(super) struct Format;

impl Exporter for Format {
    fn info(&self) -> Info {
        Info {
            name: "folded",
            summary: "Stacks with microseconds, for flame graphs: on-CPU and by wait reason",
            extension: "folded",
            cannot_carry: "times of day, CPUs, wakeups, findings; blocked time without a stack has no frames",
        }
    }

    fn write(&self, trace: &Trace, _: &Analysis, out: &mut dyn Write) -> io::Result<()> {
        let mut lines: BTreeMap<String, u128> = BTreeMap::new();
        for (key, ns) in time_by_stack(trace) {
            *lines.entry(line(trace, key)).or_default() += ns;
        }
        for (line, ns) in lines.iter().filter(|(_, ns)| **ns >= 500) {
            writeln!(out, "{line} {}", (ns + 500) / 1000)?;
        }
        Ok(())
    }
}

/// State, whose, with which stack.
type Key = (&'static str, ThreadId, StackId);

/// Time (ns) of each. A stack taken once in n times stands for n such slices; the slices it stands for
/// carry no stack and no time of their own, so that the sum stays about the time that passed.
fn time_by_stack(trace: &Trace) -> BTreeMap<Key, u128> {
    let mut sums: BTreeMap<Key, u128> = BTreeMap::new();
    let target = |thread: ThreadId| trace.threads.get(thread.index()).is_some_and(|it| it.target);
    for sample in trace.samples.iter().filter(|sample| target(sample.thread)) {
        let state = if sample.in_kernel { "kernel" } else { "running" };
        *sums.entry((state, sample.thread, sample.stack)).or_default() +=
            u128::from(trace.manifest.sample_period_ns);
    }
    let slices = trace.target_threads().flat_map(|thread| trace.slices.of(thread));
    for slice in slices.filter(|slice| slice.state == ThreadState::Blocked) {
        let (state, every) = (trace.wait(slice.wait).reason.name(), slice.stack_every.max(1));
        let weight = match slice.stack == StackId::NONE {
            true if every > 1 => continue,
            _ => u128::from(every),
        };
        *sums.entry((state, slice.thread, slice.stack)).or_default() +=
            u128::from(slice.duration().0) * weight;
    }
    sums
}

fn line(trace: &Trace, (state, id, stack): Key) -> String {
    let mut parts = vec![state.to_owned()];
    if let Some(thread) = trace.threads.get(id.index()) {
        parts.push(part(trace.process_name(thread.process)));
        parts.push(part(&format!("{}-{}", thread.name, thread.tid)));
    }
    let mut frames: Vec<String> =
        trace.stack_frames(stack).map(|frame| part(&trace.frame_name(frame))).collect();
    frames.reverse();
    parts.extend(frames);
    parts.join(";")
}

/// A name that separates nothing.
fn part(name: &str) -> String {
    clean(name).replace(';', ":")
}

#[cfg(test)]
mod tests {
    use holdup_testkit::check::trace_of_lanes;

    use super::*;

    #[test]
    fn on_and_off_cpu_time_add_up() {
        let (_, trace) = trace_of_lanes(
            "@samples A 0..4 user main;work\n\
             A  0000mmmm\n\
             B  mmmm1111  holds m 4..8\n",
        );
        let mut out = Vec::new();
        Format.write(&trace, &Analysis::default(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "lock;A;A-100 4000\nlock;A;B-101 4000\nrunning;A;A-100;main;work 4000\n");
    }
}
