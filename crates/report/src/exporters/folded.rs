//! Folded stacks, `state;process;thread;frame;frame count`, root first: what flame graph tools read.
//! All thread time, in µs: that of the ledger, divided by samples and by the stacks of blocked threads.

use std::collections::BTreeMap;
use std::io::{self, Write};

use holdup_events::Trace;
use holdup_findings::Analysis;
use holdup_findings::derive::class::Class;
use holdup_findings::derive::stacks::{Folding, Profile, StackUse};

use super::{Exporter, Holds, Info, Options};
use crate::text::clean;

pub(super) struct Format;

impl Exporter for Format {
    fn info(&self) -> Info {
        Info {
            name: "folded",
            summary: "Stacks with microseconds, for flame graphs: on-CPU and by wait reason",
            extension: "folded",
            holds: Holds::Stacks,
            cannot_carry: "times of day, CPUs, wakeups, findings, frames of time without a stack",
        }
    }

    fn write(&self, trace: &Trace, _: &Analysis, options: &Options, out: &mut dyn Write) -> io::Result<()> {
        let folding = options.folding.clone().unwrap_or_else(Folding::none);
        let profile = Profile::derive(trace, &options.selection, &folding);
        let mut lines: BTreeMap<String, u128> = BTreeMap::new();
        for used in &profile.stacks {
            *lines.entry(line(trace, &profile, used)).or_default() += u128::from(used.tally.ns);
        }
        for (line, ns) in lines.iter().filter(|(_, ns)| **ns >= 500) {
            writeln!(out, "{line} {}", (ns + 500) / 1000)?;
        }
        Ok(())
    }
}

fn line(trace: &Trace, profile: &Profile, used: &StackUse) -> String {
    let state = match used.class {
        Class::Useful => "running",
        class if class.on_cpu() || used.reason == holdup_events::WaitReason::Unknown => class.name(),
        _ => used.reason.name(),
    };
    let mut parts = vec![state.to_owned()];
    if let Some(thread) = trace.threads.get(used.thread.index()) {
        parts.push(part(trace.process_name(thread.process)));
        parts.push(part(&format!("{}-{}", thread.name, thread.tid)));
    }
    let frames = profile.paths[used.path].iter().filter(|id| !profile.is_bare(**id));
    parts.extend(frames.map(|id| part(&profile.place(*id).name)));
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
        Format.write(&trace, &Analysis::default(), &Options::default(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(
            text,
            "lock;A;A-100 4000\nlock;A;B-101 4000\nrunning;A;A-100;main;work 4000\nrunning;A;B-101 4000\n"
        );
    }
}
