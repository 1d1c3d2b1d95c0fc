//! The Firefox Profiler's processed profile: each sample and each wait with a stack, at its time. Weights are
//! milliseconds, and the ledger's class is the category.

use std::collections::BTreeMap;
use std::io::{self, Write};

use fxprof_processed_profile as fx;
use holdup_events::{ProcessId, ThreadId, Trace};
use holdup_findings::Analysis;
use holdup_findings::derive::class::{CLASSES, Class};
use holdup_findings::derive::stacks::{Folding, Observation, Timeline};
use serde_json::Value;

use super::{Exporter, Holds, Info, Options};
use crate::text::clean;

pub(super) struct Format;

impl Exporter for Format {
    fn info(&self) -> Info {
        Info {
            name: "firefox",
            summary: "Stacks over time for profiler.firefox.com: on-CPU and by wait class",
            extension: "firefox.json",
            holds: Holds::Timeline,
            cannot_carry: "CPUs, wakeups, findings, errors of sampled figures, when time without a stack was",
        }
    }

    fn write(&self, trace: &Trace, _: &Analysis, options: &Options, out: &mut dyn Write) -> io::Result<()> {
        let folding = options.folding.clone().unwrap_or_else(Folding::none);
        let timeline = Timeline::derive(trace, &options.selection, &folding);
        let mut writer = Writer::new(trace, &timeline);
        for (seen, path) in &timeline.rows {
            writer.add(seen, *path);
        }
        let mut file = serde_json::to_value(&writer.profile).map_err(io::Error::from)?;
        with_weights(&mut file, &writer.weights_ms);
        serde_json::to_writer(out, &file).map_err(io::Error::from)
    }
}

struct Writer<'a> {
    trace: &'a Trace,
    timeline: &'a Timeline,
    profile: fx::Profile,
    categories: [fx::CategoryHandle; CLASSES],
    processes: BTreeMap<ProcessId, fx::ProcessHandle>,
    threads: BTreeMap<ThreadId, fx::ThreadHandle>,
    /// Remaining CPU time (ns) of each thread that was not written yet, because the format has whole
    /// microseconds.
    untold_ns: BTreeMap<ThreadId, u64>,
    /// Weights by row. The library only accepts whole weights, so each sample first gets its row here, and
    /// its weight afterwards.
    weights_ms: Vec<f64>,
}

impl<'a> Writer<'a> {
    fn new(trace: &'a Trace, timeline: &'a Timeline) -> Writer<'a> {
        let manifest = &trace.manifest;
        let start = std::time::Duration::from_nanos(manifest.start_unix_ns);
        let interval = match manifest.sample_period_ns {
            0 => fx::SamplingInterval::from_millis(1),
            ns => fx::SamplingInterval::from_nanos(ns),
        };
        let start = fx::ReferenceTimestamp::from_duration_since_unix_epoch(start);
        let mut profile = fx::Profile::new(&clean(&manifest.command.join(" ")), start, interval);
        profile.set_symbolicated(true);
        let categories = Class::ALL.map(|class| profile.add_category(class.name(), colour(class)));
        Writer {
            trace,
            timeline,
            profile,
            categories,
            processes: BTreeMap::new(),
            threads: BTreeMap::new(),
            untold_ns: BTreeMap::new(),
            weights_ms: Vec::new(),
        }
    }

    fn at(&self, at: holdup_events::Timestamp) -> fx::Timestamp {
        fx::Timestamp::from_nanos_since_reference(at.since(self.trace.start()).0)
    }

    fn add(&mut self, seen: &Observation, path: usize) {
        let thread = self.thread(seen.thread);
        let category = Class::ALL.iter().position(|class| *class == seen.class).unwrap_or(0);
        let category = self.categories[category];
        let mut stack = None;
        for id in &self.timeline.paths[path] {
            let place = &self.timeline.places[id.index()];
            let label = self.profile.intern_string(&clean(&place.name));
            let frame = fx::FrameInfo {
                frame: fx::Frame::Label(label),
                category_pair: category.into(),
                flags: fx::FrameFlags::empty(),
            };
            let frame = self.profile.intern_frame(thread, frame);
            stack = Some(self.profile.intern_stack(thread, stack, frame));
        }
        // Includes threads that ran too briefly for a sample.
        let cpu = match seen.class.on_cpu() {
            true => self.cpu(seen.thread, seen.weight_ns),
            false => fx::CpuDelta::ZERO,
        };
        // Lent stacks and time without one are of no moment: they stand within the thread's life.
        let life = &self.trace.threads[seen.thread.index()];
        let at = self.at(seen.at.clamp(life.start, life.end.max(life.start)));
        let Ok(row) = i32::try_from(self.weights_ms.len()) else { return };
        self.weights_ms.push(seen.weight_ns as f64 / 1e6);
        self.profile.add_sample(thread, at, stack, cpu, row);
    }

    /// Returns the whole microseconds of a sample's CPU time. The remainder is added to the thread's next
    /// sample. If it were dropped, a thread of short slices would lose a thousandth of its time.
    fn cpu(&mut self, thread: ThreadId, ns: u64) -> fx::CpuDelta {
        let untold = self.untold_ns.entry(thread).or_default();
        let all = *untold + ns;
        *untold = all % 1000;
        fx::CpuDelta::from_micros(all / 1000)
    }

    fn thread(&mut self, id: ThreadId) -> fx::ThreadHandle {
        if let Some(known) = self.threads.get(&id) {
            return *known;
        }
        let thread = &self.trace.threads[id.index()];
        let process = self.process(thread.process);
        let pid = self.trace.processes.get(thread.process.index()).map(|process| process.pid);
        let (start, end) = (self.at(thread.start), self.at(thread.end));
        let handle = self.profile.add_thread(process, thread.tid, start, pid == Some(thread.tid));
        self.profile.set_thread_name(handle, &clean(&thread.name));
        self.profile.set_thread_end_time(handle, end);
        self.profile.set_thread_samples_weight_type(handle, fx::WeightType::TracingMs);
        // The Firefox Profiler takes CPU time from the second sample on: the first is one of nothing.
        if let Ok(row) = i32::try_from(self.weights_ms.len()) {
            self.weights_ms.push(0.0);
            self.profile.add_sample(handle, start, None, fx::CpuDelta::ZERO, row);
        }
        self.threads.insert(id, handle);
        handle
    }

    fn process(&mut self, id: ProcessId) -> fx::ProcessHandle {
        if let Some(known) = self.processes.get(&id) {
            return *known;
        }
        let pid = self.trace.processes.get(id.index()).map_or(0, |process| process.pid);
        let start = fx::Timestamp::from_nanos_since_reference(0);
        let handle = self.profile.add_process(&clean(self.trace.process_name(id)), pid, start);
        self.processes.insert(id, handle);
        handle
    }
}

fn colour(class: Class) -> fx::CategoryColor {
    use fx::CategoryColor::*;
    match class {
        Class::Useful => Green,
        Class::Kernel => Orange,
        Class::Spin | Class::LockWait => Red,
        Class::GcWork | Class::GcWait => DarkGray,
        Class::JoinWait => Magenta,
        Class::WorkWait | Class::Sleep => LightBlue,
        Class::IoWait | Class::FaultWait => Brown,
        Class::NetWait | Class::PipeWait | Class::ChildWait => Blue,
        Class::RunQueue => Yellow,
        Class::Stolen => Purple,
        _ => Gray,
    }
}

/// Puts each sample's weight where its row number stands.
fn with_weights(file: &mut Value, weights_ms: &[f64]) {
    for thread in file["threads"].as_array_mut().into_iter().flatten() {
        for weight in thread["samples"]["weight"].as_array_mut().into_iter().flatten() {
            let row = weight.as_u64().unwrap_or(u64::MAX) as usize;
            *weight = weights_ms.get(row).copied().unwrap_or(0.0).into();
        }
    }
}

#[cfg(test)]
mod tests {
    use holdup_testkit::check::trace_of_lanes;

    use super::*;

    #[test]
    fn sample_weights_equal_the_ledger_by_category() {
        let (_, trace) =
            trace_of_lanes("@samples A 0..4 user main;work\nA  0000mmmm\nB  mmmm1111  holds m 4..8\n");
        let mut out = Vec::new();
        Format.write(&trace, &Analysis::default(), &Options::default(), &mut out).unwrap();
        let file: Value = serde_json::from_slice(&out).unwrap();
        let categories = file["meta"]["categories"].as_array().unwrap();
        let mut sums: BTreeMap<String, f64> = BTreeMap::new();
        for thread in file["threads"].as_array().unwrap() {
            let samples = &thread["samples"];
            assert_eq!(samples["weightType"], "tracing-ms");
            assert!(samples["stack"][0].is_null() && samples["weight"][0] == 0.0, "{samples}");
            assert_eq!(samples["threadCPUDelta"][0], 0);
            for (stack, weight) in
                samples["stack"].as_array().unwrap().iter().zip(samples["weight"].as_array().unwrap()).skip(1)
            {
                let frame = thread["stackTable"]["frame"][stack.as_u64().unwrap() as usize].as_u64().unwrap();
                let category = thread["frameTable"]["category"][frame as usize].as_u64().unwrap();
                let name = categories[category as usize]["name"].as_str().unwrap();
                *sums.entry(name.to_owned()).or_default() += weight.as_f64().unwrap();
            }
        }
        let wanted = [("lock-wait".to_owned(), 8.0), ("useful".to_owned(), 8.0)];
        assert_eq!(sums.into_iter().collect::<Vec<_>>(), wanted);
    }
    #[test]
    fn fractions_of_microseconds_carry_over_to_the_next_sample() {
        let picture = "@tick 1999\n@samples A 0..16 user main;work\nA  0m0m0m0m0m0m0m0m\nB  1111111111111111  holds m 0..16\n";
        let (_, trace) = trace_of_lanes(picture);
        let mut out = Vec::new();
        Format.write(&trace, &Analysis::default(), &Options::default(), &mut out).unwrap();
        let file: Value = serde_json::from_slice(&out).unwrap();
        let thread = file["threads"].as_array().unwrap().iter().find(|thread| thread["name"] == "A").unwrap();
        let deltas = thread["samples"]["threadCPUDelta"].as_array().unwrap();
        assert_eq!(deltas.iter().map(|delta| delta.as_u64().unwrap()).sum::<u64>(), 8 * 1999 / 1000);
    }

    #[test]
    fn a_thread_that_ran_without_a_sample_has_cpu_time_too() {
        let (_, trace) =
            trace_of_lanes("@samples A 0..4 user main;work\nA  0000mmmm\nB  mmmm1111  holds m 4..8\n");
        let mut out = Vec::new();
        Format.write(&trace, &Analysis::default(), &Options::default(), &mut out).unwrap();
        let file: Value = serde_json::from_slice(&out).unwrap();
        for thread in file["threads"].as_array().unwrap() {
            let deltas = thread["samples"]["threadCPUDelta"].as_array().unwrap();
            assert_eq!(
                deltas.iter().map(|delta| delta.as_u64().unwrap()).sum::<u64>(),
                4000,
                "{}",
                thread["name"]
            );
        }
    }
}
