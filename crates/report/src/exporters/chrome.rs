//! The Trace Event Format of chrome://tracing, Perfetto and speedscope. It has each thread's classes of time,
//! spans, counters and marks of runtimes and the program, wakeups, and stacks of blocking and sampled
//! threads. Times are microseconds since the recording's start. Events are not in time order: importers sort
//! them.

use std::io::{self, Write};

use holdup_events::event::WakeContext;
use holdup_events::tables::{HARDWARE_LANES, Slice, StackRow, ThreadState};
use holdup_events::{CpuId, StackId, ThreadId, Timestamp, Trace};
use holdup_findings::Analysis;
use holdup_findings::derive::timelines::Timelines;
use holdup_findings::derive::zoom::Zoom;
use serde_json::{Value, json};

use super::{Exporter, Holds, Info, Options};
use crate::text::clean;

pub(super) struct Format;

impl Exporter for Format {
    fn info(&self) -> Info {
        Info {
            name: "chrome",
            summary: "Threads by class, spans, marks, wakeups, stacks for chrome://tracing and others",
            extension: "trace.json",
            holds: Holds::Timeline,
            cannot_carry: "the ledger's errors, findings, other programs on the CPUs, holders",
        }
    }

    fn write(&self, trace: &Trace, analysis: &Analysis, _: &Options, out: &mut dyn Write) -> io::Result<()> {
        let zoom = Zoom::derive(trace, &Timelines::derive(trace), &analysis.derived.roles);
        let mut events = Events { trace, out, first: true };
        events.out.write_all(b"{\"displayTimeUnit\":\"ns\",\"otherData\":")?;
        let manifest = &trace.manifest;
        let command: Vec<String> = manifest.command.iter().map(|word| clean(word)).collect();
        let about =
            json!({"holdup": manifest.holdup, "command": command, "start_unix_ns": manifest.start_unix_ns});
        serde_json::to_writer(&mut *events.out, &about)?;
        events.out.write_all(b",\"traceEvents\":[")?;
        events.names()?;
        for thread in (0..trace.threads.len() as u32).map(ThreadId) {
            events.slices(thread, &zoom)?;
        }
        events.samples()?;
        events.spans()?;
        events.counters()?;
        events.marks()?;
        events.wakeups()?;
        events.out.write_all(b"],\"stackFrames\":{")?;
        events.stacks()?;
        events.out.write_all(b"}}\n")
    }
}

struct Events<'a> {
    trace: &'a Trace,
    out: &'a mut dyn Write,
    first: bool,
}

impl Events<'_> {
    fn put(&mut self, event: &Value) -> io::Result<()> {
        if !std::mem::take(&mut self.first) {
            self.out.write_all(b",\n")?;
        }
        serde_json::to_writer(&mut *self.out, event).map_err(io::Error::from)
    }

    /// Microseconds since the start, to the nanosecond.
    fn us(&self, at: Timestamp) -> f64 {
        at.since(self.trace.start()).0 as f64 / 1000.0
    }

    /// The kernel's numbers of a thread and its process.
    fn ids(&self, thread: ThreadId) -> (u32, u32) {
        let Some(row) = self.trace.threads.get(thread.index()) else { return (0, 0) };
        (self.trace.processes.get(row.process.index()).map_or(0, |process| process.pid), row.tid)
    }

    fn names(&mut self) -> io::Result<()> {
        let trace = self.trace;
        for process in &trace.processes {
            let name = json!({"name": clean(&process.name)});
            self.put(
                &json!({"ph": "M", "name": "process_name", "pid": process.pid, "tid": 0, "args": name}),
            )?;
        }
        for (number, thread) in trace.threads.iter().enumerate() {
            let (pid, tid) = self.ids(ThreadId(number as u32));
            let name = json!({"name": clean(&thread.name)});
            self.put(&json!({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": name}))?;
        }
        Ok(())
    }

    fn slices(&mut self, thread: ThreadId, zoom: &Zoom) -> io::Result<()> {
        let trace = self.trace;
        let (pid, tid) = self.ids(thread);
        for row in trace.slices.rows(thread) {
            let (slice, Some(class)) = (trace.slices.at(thread, row), zoom.class(row)) else { continue };
            let mut event = json!({
                "ph": "X",
                "name": class.name(),
                "cat": slice.state.name(),
                "pid": pid,
                "tid": tid,
                "ts": self.us(slice.start),
                "dur": slice.duration().0 as f64 / 1000.0,
                "args": arguments(trace, &slice),
            });
            if slice.stack != StackId::NONE {
                event["sf"] = json!(slice.stack.0);
            }
            self.put(&event)?;
        }
        Ok(())
    }

    fn samples(&mut self) -> io::Result<()> {
        let trace = self.trace;
        for sample in trace.samples.iter() {
            let (pid, tid) = self.ids(sample.thread);
            let mut event = json!({
                "ph": "P", "name": "sample", "cat": "sample", "pid": pid, "tid": tid, "ts": self.us(sample.at),
            });
            if sample.stack != StackId::NONE {
                event["sf"] = json!(sample.stack.0);
            }
            self.put(&event)?;
        }
        Ok(())
    }

    /// Spans overlap slices as they like: so they are asynchronous, each thread's in a row of its own.
    fn spans(&mut self) -> io::Result<()> {
        let trace = self.trace;
        for thread in (0..trace.threads.len() as u32).map(ThreadId) {
            let (pid, tid) = self.ids(thread);
            for span in trace.spans.of_thread(thread) {
                let told = trace.event_name(span.name);
                for (phase, at) in [("b", span.start), ("e", span.end)] {
                    self.put(&json!({
                        "ph": phase, "name": clean(&told.text), "cat": told.kind.name(), "id": tid, "pid": pid,
                        "tid": tid, "ts": self.us(at),
                    }))?;
                }
            }
        }
        Ok(())
    }

    fn counters(&mut self) -> io::Result<()> {
        for counter in &self.trace.counters {
            let (pid, tid) = self.ids(counter.thread);
            let name = clean(&self.trace.event_name(counter.name).text);
            let lane =
                self.trace.lanes.get(counter.lane as usize).map_or(0, |lane| lane.number) & !HARDWARE_LANES;
            self.put(&json!({
                "ph": "C", "name": format!("{name} {lane}"), "pid": pid, "tid": tid, "ts": self.us(counter.at),
                "args": {"value": counter.value},
            }))?;
        }
        Ok(())
    }

    /// Writes marks, which have no length, at their threads.
    fn marks(&mut self) -> io::Result<()> {
        let trace = self.trace;
        for mark in &trace.marks {
            let (pid, tid) = self.ids(mark.thread);
            let told = trace.event_name(mark.name);
            let mut event = json!({
                "ph": "i", "s": "t", "name": clean(&told.text), "cat": told.kind.name(), "pid": pid, "tid": tid,
                "ts": self.us(mark.at), "args": {"value": mark.value as i64},
            });
            if mark.text != 0 {
                event["args"]["text"] = json!(clean(&trace.event_name(mark.text).text));
            }
            self.put(&event)?;
        }
        Ok(())
    }

    /// Arrows from wakers to the threads that ran next because of them.
    fn wakeups(&mut self) -> io::Result<()> {
        let trace = self.trace;
        for (number, wakeup) in trace.wakeups.iter().enumerate() {
            let is_thread = wakeup.context == WakeContext::Thread;
            for (phase, thread) in [("s", wakeup.waker), ("f", wakeup.wakee)] {
                let (pid, tid) = self.ids(thread);
                if is_thread {
                    self.put(&json!({
                        "ph": phase, "bp": "e", "name": "wakes", "cat": "wakeup", "id": number, "pid": pid, "tid": tid,
                        "ts": self.us(wakeup.at),
                    }))?;
                }
            }
        }
        Ok(())
    }

    fn stacks(&mut self) -> io::Result<()> {
        let trace = self.trace;
        for (number, StackRow { frame, parent, .. }) in trace.stacks.rows().iter().enumerate() {
            let module =
                trace.frames.get(frame.index()).map(|frame| clean(&frame.module)).unwrap_or_default();
            let mut entry = json!({"name": clean(&trace.frame_name(*frame)), "category": module});
            if *parent != StackId::NONE {
                entry["parent"] = json!(parent.0);
            }
            write!(self.out, "{}\"{number}\":", if number > 0 { ",\n" } else { "" })?;
            serde_json::to_writer(&mut *self.out, &entry)?;
        }
        Ok(())
    }
}

/// Properties of a slice in addition to its class.
fn arguments(trace: &Trace, slice: &Slice) -> Value {
    let mut out = json!({});
    if slice.cpu != CpuId::NONE {
        out["cpu"] = json!(slice.cpu.0);
    }
    if slice.state == ThreadState::Blocked {
        let wait = trace.wait(slice.wait);
        out["reason"] = json!(wait.reason.name());
        out["object"] = json!(format!("0x{:x}", wait.object));
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use holdup_events::tables::{MarkRow, TellName};
    use holdup_findings::analyse;
    use holdup_testkit::check::trace_of_lanes;

    use super::*;

    fn written() -> (Trace, Value) {
        let drawn = "@samples A 0..4 user main;work\nA  0000mmmm\nB  mmmm1111  holds m 4..8\n~C 1111....\n";
        let (_, trace) = trace_of_lanes(drawn);
        let mut out = Vec::new();
        Format.write(&trace, &analyse(&trace), &Options::default(), &mut out).unwrap();
        (trace, serde_json::from_slice(&out).unwrap())
    }

    /// Fields that the format's description requires for an event of each phase.
    #[test]
    fn events_have_the_fields_that_the_format_asks_for() {
        let (_, file) = written();
        let wanted: BTreeMap<&str, &[&str]> = [
            ("M", &["name", "pid", "tid", "args"][..]),
            ("X", &["name", "cat", "pid", "tid", "ts", "dur"]),
            ("P", &["name", "pid", "tid", "ts"]),
            ("s", &["name", "cat", "id", "pid", "tid", "ts"]),
            ("f", &["name", "cat", "id", "pid", "tid", "ts", "bp"]),
        ]
        .into();
        let mut seen = BTreeSet::new();
        for event in file["traceEvents"].as_array().unwrap() {
            let phase = event["ph"].as_str().unwrap();
            let fields = wanted.get(phase).unwrap_or_else(|| panic!("{event}"));
            assert!(fields.iter().all(|field| !event[*field].is_null()), "{event}");
            let frame = &event["sf"];
            assert!(frame.is_null() || !file["stackFrames"][frame.to_string()].is_null(), "{event}");
            seen.insert(phase);
        }
        assert_eq!(seen, wanted.into_keys().collect());
        for frame in file["stackFrames"].as_object().unwrap().values() {
            let parent = &frame["parent"];
            assert!(parent.is_null() || !file["stackFrames"][parent.to_string()].is_null(), "{frame}");
        }
    }

    #[test]
    fn a_mark_is_a_moment_of_its_thread() {
        let (mut trace, _) = written();
        let name = |text: &str| TellName { text: text.to_owned(), ..TellName::default() };
        trace.names = vec![name(""), name("request"), name("GET /")];
        let at = Timestamp(trace.start().0 + 1_500);
        trace.marks.push(MarkRow { thread: ThreadId(0), at, lane: 0, name: 1, value: -3i64 as u64, text: 2 });
        let mut out = Vec::new();
        Format.write(&trace, &analyse(&trace), &Options::default(), &mut out).unwrap();
        let file: Value = serde_json::from_slice(&out).unwrap();
        let is = |event: &&Value| event["ph"] == "i";
        let mark = file["traceEvents"].as_array().unwrap().iter().find(is).unwrap();
        assert_eq!((&mark["name"], &mark["ts"], &mark["s"]), (&json!("request"), &json!(1.5), &json!("t")));
        assert_eq!(mark["args"], json!({"value": -3, "text": "GET /"}));
        assert_eq!(mark["tid"], json!(trace.threads[0].tid));
    }

    #[test]
    fn slices_of_a_thread_tile_its_life_as_in_the_recording() {
        let (trace, file) = written();
        let events = file["traceEvents"].as_array().unwrap();
        for (number, thread) in trace.threads.iter().enumerate().filter(|(_, thread)| thread.target) {
            let own = |event: &&Value| event["ph"] == "X" && event["tid"] == thread.tid;
            let ns = |value: &Value| (value.as_f64().unwrap() * 1000.0).round() as u64;
            let spans: Vec<(u64, u64)> =
                events.iter().filter(own).map(|event| (ns(&event["ts"]), ns(&event["dur"]))).collect();
            assert_eq!(spans.len(), trace.slices.of_thread(ThreadId(number as u32)).count());
            assert!(spans.windows(2).all(|pair| pair[0].0 + pair[0].1 == pair[1].0), "{spans:?}");
            assert_eq!(spans.iter().map(|span| span.1).sum::<u64>(), thread.end.since(thread.start).0);
        }
    }
}
