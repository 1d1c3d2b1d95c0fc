//! The text output of `perf script`, in its default layout or with `-F` fields in the same order: `comm
//! pid/tid [cpu] time: period event: …`, then the stack, with one frame per line.
//!
//! Functions are already resolved. Lines that cannot be parsed are counted as lost. Missing data (processes
//! of threads without `-F +pid`, the host) stays unknown.

mod line;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use holdup_events::event::{Outcome, Sample, TID_UNKNOWN, WakeContext, Waking};
use holdup_events::recording::{Backend, Host, SourceState};
use holdup_events::tables::{Frame, FrameKind};
use holdup_events::{CpuId, Event, Timestamp};

use self::line::{Head, Task, Usefulness};
use super::{Facts, Info, ReadError, Reader, Wanted};
use crate::imported::{
    ImportSummary, Kernel, Names, Record, Records, SAMPLES, SWITCHES, Sampled, Switched, TEXT_MAX, cut,
    retell, unknown_wait,
};

/// The format.
pub struct Format;

/// How far recognising looks for a first line, behind the header.
const LOOK_BYTES: usize = 1 << 16;
/// Deeper stacks lose their roots.
const DEPTH_MAX: usize = 1024;

impl Reader for Format {
    fn info(&self) -> Info {
        Info { name: "perf-script", summary: "The text that perf script prints, with or without stacks" }
    }

    fn recognises(&self, bytes: &[u8]) -> bool {
        // The header of `perf script --header` is long on large machines.
        let header = bytes.split_inclusive(|byte| *byte == b'\n').take_while(|line| line.starts_with(b"#"));
        let header: usize = header.map(<[u8]>::len).sum();
        let text = bytes.get(header..).unwrap_or_default();
        let start = text.get(..LOOK_BYTES).unwrap_or(text);
        !start.contains(&0) && lines(start).any(|line| Head::parse(&line).is_some())
    }

    fn read(&self, bytes: &[u8], wanted: &Wanted, sink: &mut dyn FnMut(Event)) -> Result<Facts, ReadError> {
        let text = Text::survey(bytes);
        let summary = retell(&text, wanted, sink)?;
        Ok(facts(text, summary))
    }
}

fn facts(text: Text<'_>, summary: ImportSummary) -> Facts {
    let mut missing = Vec::new();
    if summary.samples == 0 {
        missing.push("no samples of a clock or of cycles".to_owned());
    } else if summary.is_untimed() {
        missing
            .push("its samples are not proportional to time: running times cannot be estimated".to_owned());
    } else if summary.periods_vary {
        missing.push("its samples represent unequal times, counted as equal".to_owned());
    }
    if text.other_samples.get() > 0 {
        missing.push(format!("{} samples of other events are left out", text.other_samples.get()));
    }
    if !text.has_processes {
        missing
            .push("it has no process ids (perf script -F +pid): each thread counts as a process".to_owned());
    }
    let sources = vec![
        SourceState {
            name: SAMPLES.to_owned(),
            active: summary.samples > 0,
            missing: missing.join("; "),
            events: summary.samples,
            lost: summary.losses().0,
        },
        SourceState {
            name: SWITCHES.to_owned(),
            active: summary.switched,
            missing: summary.switches_missing("no context switches in the text"),
            events: summary.switches + summary.wakeups,
            lost: summary.losses().1,
        },
    ];
    Facts {
        host: Host {
            cpus: text.cpus,
            cpus_lower_bound: text.cpus > 0,
            cpus_allowed: text.cpus,
            ..Host::default()
        },
        command: Vec::new(),
        span: summary.span,
        backend: if summary.switched { Backend::Perf } else { Backend::Proc },
        limits: summary.limits("perf script"),
        sample_period_ns: summary.sample_period_ns,
        sources,
        names: Some(text.names.into_inner()),
        kernel: Kernel::default(),
    }
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = String> + '_ {
    bytes.split(|byte| *byte == b'\n').map(|line| String::from_utf8_lossy(line).into_owned())
}

/// The text, ready for iteration.
struct Text<'a> {
    bytes: &'a [u8],
    /// The event whose samples show where time goes.
    main: String,
    tracepoints: bool,
    wakings: bool,
    has_processes: bool,
    /// The highest CPU seen, and one.
    cpus: u32,
    names: RefCell<Names>,
    unreadable: Cell<u64>,
    /// Samples of events that are not used.
    other_samples: Cell<u64>,
}

impl<'a> Text<'a> {
    /// Determines which records and fields exist.
    fn survey(bytes: &'a [u8]) -> Text<'a> {
        let mut text = Text {
            bytes,
            main: String::new(),
            tracepoints: false,
            wakings: false,
            has_processes: false,
            cpus: 0,
            names: RefCell::default(),
            unreadable: Cell::new(0),
            other_samples: Cell::new(0),
        };
        let mut main = Usefulness::None;
        for line in lines(bytes) {
            let Some(head) = Head::parse(&line) else { continue };
            text.has_processes |= head.tgid != 0;
            if head.cpu != CpuId::NONE {
                text.cpus = text.cpus.max(u32::from(head.cpu.0) + 1);
            }
            text.tracepoints |= head.event == "sched:sched_switch";
            text.wakings |= head.event == "sched:sched_waking";
            if head.usefulness() > main {
                main = head.usefulness();
                head.event.clone_into(&mut text.main);
            }
        }
        text
    }

    /// The stack of the sample whose own line was the last that `lines` gave.
    fn stack(
        &self,
        lines: &mut std::iter::Peekable<impl Iterator<Item = String>>,
        head: &Head,
    ) -> (Vec<u64>, u16) {
        let mut names = self.names.borrow_mut();
        let mut stack =
            Stack { names: &mut names, addresses: Vec::new(), kernel_frames: 0, inlined: Vec::new() };
        stack.add(&head.rest);
        while let Some(line) =
            lines.next_if(|line| line.starts_with([' ', '\t']) && Head::parse(line).is_none())
        {
            stack.add(&line);
        }
        stack.finish()
    }

    fn record(&self, head: &Head, stack: impl FnOnce() -> (Vec<u64>, u16)) -> Option<Record> {
        let at = head.at;
        let (tid, tgid) = (head.tid, head.tgid);
        if let Some(task) = head.task() {
            return match task {
                Task::Name { tgid, tid, name, exec } => Some(Record::Name { at, tid, tgid, name, exec }),
                Task::Fork { tgid, tid, parent_tgid, parent_tid } => {
                    Some(Record::Fork { at, tid, tgid, parent_tid, parent_tgid })
                }
                Task::Exit { tgid, tid } => Some(Record::Exit { at, tid, tgid }),
                Task::Lost { events } => {
                    Some(Record::Lost { at, cpu: head.cpu, events, reason: "ring-full" })
                }
                Task::Switch { .. } if self.tracepoints => None,
                Task::Switch { out, preempted } => Some(context_switch(head, out, preempted)),
            };
        }
        match head.event.as_str() {
            "sched:sched_switch" => head.switch().map(Record::Switch),
            "sched:sched_waking" => self.waking(head),
            "sched:sched_wakeup" | "sched:sched_wakeup_new" if !self.wakings => self.waking(head),
            "" | "sched:sched_wakeup" | "sched:sched_wakeup_new" => None,
            _ if head.is_of(&self.main) => {
                let (addresses, kernel_frames) = stack();
                let in_kernel = kernel_frames > 0;
                Some(Record::Sample(Sampled {
                    sample: Sample {
                        at: Timestamp(at),
                        cpu: head.cpu,
                        tid,
                        tgid,
                        ip: 0,
                        in_kernel,
                        syscall: if in_kernel { i32::MIN } else { -1 },
                        stack: 0,
                        registers: None,
                    },
                    name: head.name.clone(),
                    addresses,
                    kernel_frames,
                    raw: None,
                    period_ns: head.period_ns(),
                }))
            }
            _ => {
                self.other_samples.set(self.other_samples.get() + 1);
                None
            }
        }
    }

    fn waking(&self, head: &Head) -> Option<Record> {
        let (name, wakee_tid) = head.wakee()?;
        let waking = Waking {
            at: Timestamp(head.at),
            cpu: head.cpu,
            wakee_tid,
            waker_tid: head.tid,
            context: WakeContext::Thread,
            waker_syscall: i32::MIN,
            ..Waking::default()
        };
        Some(Record::Waking(waking, name))
    }
}

/// A stack while its lines are read, leaf first.
struct Stack<'a> {
    names: &'a mut Names,
    addresses: Vec<u64>,
    kernel_frames: u16,
    /// Functions inlined into the next frame, whose module they share, and whether they belong to the kernel.
    inlined: Vec<(String, bool)>,
}

impl Stack<'_> {
    /// Adds a line. A line that is not a frame is ignored.
    fn add(&mut self, text: &str) {
        let is_full = self.addresses.len() + self.inlined.len() >= DEPTH_MAX;
        let Some(frame) = line::frame(text).filter(|_| !is_full) else { return };
        if frame.inlined && frame.module.is_empty() {
            self.inlined.push((cut(frame.function, TEXT_MAX).to_owned(), frame.in_kernel));
            return;
        }
        for (function, in_kernel) in std::mem::take(&mut self.inlined) {
            self.push(line::Frame { function: &function, in_kernel, inlined: true, ..frame });
        }
        self.push(frame);
    }

    fn push(&mut self, frame: line::Frame<'_>) {
        if frame.in_kernel && usize::from(self.kernel_frames) == self.addresses.len() {
            self.kernel_frames += 1;
        }
        self.addresses.push(self.names.frame(Frame {
            kind: if frame.in_kernel { FrameKind::Kernel } else { FrameKind::User },
            function: cut(frame.function, TEXT_MAX).to_owned(),
            module: cut(frame.module, TEXT_MAX).to_owned(),
            inlined: frame.inlined,
            ..Frame::default()
        }));
    }

    /// The frames, and the number of kernel frames.
    fn finish(mut self) -> (Vec<u64>, u16) {
        // Their caller is missing, so they become normal frames.
        for (function, in_kernel) in std::mem::take(&mut self.inlined) {
            self.push(line::Frame { function: &function, module: "", in_kernel, inlined: false });
        }
        (self.addresses, self.kernel_frames)
    }
}

impl Records for Text<'_> {
    fn each(&self, sink: &mut dyn FnMut(Record)) -> Result<(), ReadError> {
        let mut names: HashMap<u32, String> = HashMap::new();
        let mut lines = lines(self.bytes).peekable();
        let mut last = 0;
        self.unreadable.set(0);
        self.other_samples.set(0);
        while let Some(line) = lines.next() {
            let Some(head) = Head::parse(&line) else {
                if !line.trim().is_empty() && !line.starts_with(['#', ' ', '\t']) {
                    self.unreadable.set(self.unreadable.get() + 1);
                }
                continue;
            };
            last = head.at.max(last);
            // A thread's name may change without its own record.
            if head.task().is_none() && names.get(&head.tid) != Some(&head.name) && head.tid != 0 {
                names.insert(head.tid, head.name.clone());
                let (at, tid, tgid, name) = (head.at, head.tid, head.tgid, head.name.clone());
                sink(Record::Name { at, tid, tgid, name, exec: false });
            }
            if let Some(record) = self.record(&head, || self.stack(&mut lines, &head)) {
                sink(record);
            }
        }
        if self.unreadable.get() > 0 {
            let events = self.unreadable.get();
            sink(Record::Lost { at: last, cpu: CpuId::NONE, events, reason: "unreadable" });
        }
        Ok(())
    }

    fn exits_are_final(&self) -> bool {
        !self.tracepoints
    }
}

fn context_switch(head: &Head, out: bool, preempted: bool) -> Record {
    let nobody = Switched {
        at: head.at,
        cpu: head.cpu,
        prev_tid: TID_UNKNOWN,
        next_tid: TID_UNKNOWN,
        ..Switched::default()
    };
    let (tid, tgid, name) = (head.tid, head.tgid, head.name.clone());
    Record::Switch(match out {
        false => Switched { next_tid: tid, next_tgid: tgid, next_name: name, ..nobody },
        true => Switched {
            prev_tid: tid,
            prev_tgid: tgid,
            prev_name: name,
            outcome: if preempted { Outcome::Preempted } else { Outcome::Blocked(unknown_wait(0)) },
            ..nobody
        },
    })
}

#[cfg(test)]
#[path = "perf_script/tests.rs"]
mod tests;
