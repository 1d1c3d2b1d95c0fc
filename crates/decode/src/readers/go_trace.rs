//! Go's execution trace, of Go 1.22 and later (`runtime/trace`, `go test -trace`, `/debug/pprof/trace`).
//!
//! Each goroutine is shown as a thread and each P as a CPU: states are exact in these terms. What the operating system
//! did with the threads below, the trace does not know. A goroutine in a syscall is shown as waiting in the kernel.
//! Names are those of the functions that goroutines run.

mod course;
mod ids;
mod layout;
mod order;

use std::collections::HashMap;

use holdup_events::event::RawStack;
use holdup_events::recording::{Backend, Host, SourceState};
use holdup_events::{Event, Timestamp};

use super::{Facts, Info, ReadError, Reader, Wanted};
use crate::imported::Names;
use course::Course;
use layout::Layout;

/// The format.
pub struct Format;

/// Source name.
const SOURCE: &str = "go-trace";
/// The process has no number in it: that of its first goroutine.
const PID: u32 = 1;

impl Reader for Format {
    fn info(&self) -> Info {
        Info { name: "go-trace", summary: "Execution trace of a Go program (Go 1.22 and later)" }
    }

    fn recognises(&self, bytes: &[u8]) -> bool {
        layout::version(bytes).is_some()
    }

    fn read(&self, bytes: &[u8], _: &Wanted, sink: &mut dyn FnMut(Event)) -> Result<Facts, ReadError> {
        let layout = Layout::read(bytes)?;
        let mut stacks =
            Stacks { layout: &layout, names: Names::default(), ids: HashMap::new(), told: Vec::new() };
        let mut course = Course::new(&layout);
        let (told, broken) = order::events(&layout)?;
        course.survey(&told);
        for event in &told {
            course.take(event, &mut stacks);
        }
        let (mut telling, procs) = course.finish();
        if layout.cut {
            telling.lose("truncated");
        }
        (0..broken).for_each(|_| telling.lose("unreadable"));
        let start = Timestamp(told.first().map_or(0, |event| event.at));
        for stack in std::mem::take(&mut stacks.told) {
            sink(Event::Stack(RawStack { at: start, tgid: PID, ..stack }));
        }
        let whole = telling.finish(SOURCE, sink)?;
        Ok(Facts {
            // Each complete generation lists all Ps. In an incomplete one, idle Ps may be missing.
            host: Host { cpus: procs, cpus_lower_bound: layout.cut && procs > 0, ..Host::default() },
            span: whole.span,
            // The trace has every switch with its reason, and the waker of every wakeup.
            backend: Backend::Bpf,
            limits: format!(
                "an execution trace of Go 1.{}: goroutines are shown as threads and Ps as CPUs; when the threads below \
                 had a CPU is not known",
                layout.version
            ),
            sources: vec![SourceState {
                name: SOURCE.to_owned(),
                active: true,
                missing: String::new(),
                events: whole.events,
                lost: whole.lost,
            }],
            names: Some(stacks.names),
            ..Facts::default()
        })
    }
}

/// Stacks in use, each defined once.
struct Stacks<'a> {
    layout: &'a Layout<'a>,
    names: Names,
    ids: HashMap<(u64, u64), u32>,
    told: Vec<RawStack>,
}

impl Stacks<'_> {
    /// Id of a stack of a generation, 0 if none.
    fn stack_id(&mut self, generation: u64, stack: u64) -> u32 {
        if let Some(id) = self.ids.get(&(generation, stack)) {
            return *id;
        }
        let Some(frames) = self.layout.stacks.get(&(generation, stack)) else { return 0 };
        let addresses = frames
            .iter()
            .map(|function| self.names.place(self.layout.text(generation, *function), "", false));
        let addresses = addresses.collect();
        let id = self.told.len() as u32 + 1;
        self.told.push(RawStack { id: id.into(), addresses, ..RawStack::default() });
        self.ids.insert((generation, stack), id);
        id
    }
}

#[cfg(test)]
#[path = "go_trace/tests.rs"]
mod tests;
