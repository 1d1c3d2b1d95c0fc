//! Converts lines to safepoints, collections, and late threads.

use std::collections::BTreeMap;

use holdup_events::Event;
use holdup_events::tables::SpanKind;

use super::collections::{Whole, collection, heap, whole};
use super::line::{Line, length};
use super::stalls::{Stalls, stall};
use crate::readers::ReadError;
use crate::telling::{self, APART_NS, Person, Telling, Who};

/// Name of the runtime.
pub(super) const RUNTIME: &str = "hotspot";
/// Span of a thread from its stop until all threads continue.
const STOPPED: &str = "stopped at safepoint";
/// Lines of JDK 9 to 12 at the end and at the start of a safepoint.
const STOPPED_FOR: &str = "Total time for which application threads were stopped: ";
const ENTERING: &str = "Entering safepoint region: ";
/// Maximum number of collections waiting for the line of their safepoint.
const PAUSES_MAX: usize = 256;

/// A collection's pause.
struct Pause {
    start: u64,
    end: u64,
    name: String,
}

/// Content of the log so far.
#[derive(Default)]
pub(super) struct Safepoints {
    telling: Telling,
    vm: Option<Who>,
    beside: Option<Who>,
    /// When the safepoint that is being waited for was asked for.
    asked: Option<u64>,
    /// Threads that were waited for, and when they still were.
    waited_for: BTreeMap<u32, u64>,
    threads: BTreeMap<u32, Who>,
    pauses: Vec<Pause>,
    /// Behind the last safepoint.
    free: u64,
    /// Bytes in use behind the last collection.
    after: Option<u64>,
    /// Operation of the entered safepoint.
    entered: String,
    /// When collections of the whole heap were announced, by their numbers.
    announced: BTreeMap<u64, u64>,
    stalls: Stalls,
    unmeasured: u64,
}

/// Whether a line is one that is read.
pub(super) fn is_known(text: &str) -> bool {
    text.starts_with("Safepoint \"")
        || text.starts_with(STOPPED_FOR)
        || collection(text).is_some()
        || whole(text).is_some_and(|whole| whole.ends)
        || stall(text).is_some()
}

impl Safepoints {
    /// Takes the next line.
    pub fn take(&mut self, line: &Line) {
        if line.text.starts_with("Safepoint synchronization initiated") {
            self.asked = Some(line.at);
            self.waited_for.clear();
        } else if let Some(thread) = waited_for(line.text) {
            self.waited_for.insert(thread, line.at);
        } else if let Some(safepoint) = Safepoint::parse(line.text) {
            self.safepoint(line, &safepoint);
        } else if let Some(operation) = line.text.strip_prefix(ENTERING) {
            operation.clone_into(&mut self.entered);
        } else if let Some((total_ns, reaching_ns)) = stopped_for(line.text) {
            let operation = std::mem::take(&mut self.entered);
            self.safepoint(line, &Safepoint { operation: &operation, reaching_ns, total_ns });
        } else if let Some((name, length_ns)) = collection(line.text) {
            self.collection(line, name, length_ns);
        } else if let Some(whole) = whole(line.text) {
            self.whole(line, &whole);
        } else if let Some(stall) = stall(line.text) {
            self.stalls.take(line, &stall);
        }
    }

    /// Some thread was named.
    pub fn named_late(&self) -> bool {
        !self.threads.is_empty()
    }

    /// Emits all events.
    pub fn finish(
        mut self,
        source: &'static str,
        sink: &mut dyn FnMut(Event),
    ) -> Result<telling::Whole, ReadError> {
        self.alone();
        let stalls = std::mem::take(&mut self.stalls);
        if let Some(vm) = self.vm(0).filter(|_| !stalls.is_empty()) {
            let pid = self.telling.known(vm).map_or(0, |person| person.pid);
            stalls.emit(&self.threads, pid, &mut self.telling);
        }
        self.telling.finish(source, sink)
    }

    fn vm(&mut self, tid: u32) -> Option<Who> {
        if self.vm.is_none() {
            let (name, runtime) = ("VM Thread".to_owned(), RUNTIME.to_owned());
            self.vm = self.telling.person(Person { tid, name, runtime, ..Person::default() });
        }
        self.vm
    }

    fn safepoint(&mut self, line: &Line, safepoint: &Safepoint) {
        let Some(vm) = self.vm(line.tid) else { return };
        // Durations are exact. If the clock is coarse, safepoints are laid out one after the other.
        let start = self.asked.take().unwrap_or_else(|| line.at.saturating_sub(safepoint.total_ns));
        let start = start.max(self.free);
        let end = start.saturating_add(safepoint.total_ns);
        let reached = start.saturating_add(safepoint.reaching_ns).min(end);
        self.free = end.saturating_add(APART_NS);
        self.telling.span(vm, (start, end), SpanKind::Stop, &format!("safepoint {}", safepoint.operation));
        if reached > start {
            self.telling.span(vm, (start, reached), SpanKind::GcWait, "reaching safepoint");
        }
        for pause in std::mem::take(&mut self.pauses) {
            // Those of before are without a safepoint of their own in the log.
            let length = pause.end - pause.start;
            let from = pause.start.clamp(reached, end.saturating_sub(length).max(reached));
            self.telling.span(
                vm,
                (from, from.saturating_add(length).min(end)),
                SpanKind::GcWork,
                &pause.name,
            );
        }
        self.late(vm, (reached, end));
    }

    /// Threads that the VM waited for. All but the last had stopped by the time of their last line.
    fn late(&mut self, vm: Who, (reached, end): (u64, u64)) {
        let last = self.waited_for.iter().max_by_key(|(_, at)| **at).map(|(thread, _)| *thread);
        for (thread, at) in std::mem::take(&mut self.waited_for) {
            let Some(who) = self.java_thread(vm, thread) else { return };
            let stopped = if Some(thread) == last { reached } else { at.min(reached) };
            self.telling.span(who, (stopped, end), SpanKind::User, STOPPED);
        }
        if let Some(thread) = last {
            self.telling.mark(vm, reached, "last at the safepoint", (thread.into(), ""));
        }
    }

    fn java_thread(&mut self, vm: Who, tid: u32) -> Option<Who> {
        if let Some(who) = self.threads.get(&tid) {
            return Some(*who);
        }
        let pid = self.telling.known(vm).map_or(0, |person| person.pid);
        let (name, runtime) = (format!("Java thread {tid}"), RUNTIME.to_owned());
        let who = self.telling.person(Person { pid, tid, lane: tid, name, runtime, ..Person::default() })?;
        self.threads.insert(tid, who);
        Some(who)
    }

    fn collection(&mut self, line: &Line, name: &str, length_ns: u64) {
        let Some(vm) = self.vm(line.tid) else { return };
        let start = line.at.saturating_sub(length_ns);
        self.memory(line, vm);
        if name.starts_with("Pause") {
            if self.pauses.len() >= PAUSES_MAX {
                self.alone();
            }
            self.pauses.push(Pause { start, end: line.at, name: name.to_owned() });
            return;
        }
        if let Some(who) = self.collector(vm) {
            self.telling.span(who, (start, line.at), SpanKind::GcBeside, name);
        }
    }

    /// Heap usage before and after a collection.
    fn memory(&mut self, line: &Line, vm: Who) {
        let Some(heap) = heap(line.text) else { return };
        if let Some(left) = self.after.replace(heap.after) {
            self.telling.counter(vm, line.at, "allocated_bytes", heap.before.saturating_sub(left));
        }
        self.telling.counter(vm, line.at, "used_bytes", heap.after);
        if let Some(size) = heap.size {
            self.telling.counter(vm, line.at, "heap_bytes", size);
        }
    }

    /// The collector that works while the program runs.
    fn collector(&mut self, vm: Who) -> Option<Who> {
        if self.beside.is_none() {
            let pid = self.telling.known(vm).map_or(0, |person| person.pid);
            let (name, runtime) = ("concurrent collector".to_owned(), RUNTIME.to_owned());
            let person = Person { pid, lane: 1, name, runtime, outside: true, ..Person::default() };
            self.beside = self.telling.person(person);
        }
        self.beside
    }

    /// A collection without a length: from its announcement on, or a mark where the log does not have that.
    fn whole(&mut self, line: &Line, whole: &Whole) {
        if !whole.ends {
            if self.announced.len() < PAUSES_MAX {
                self.announced.insert(whole.number, line.at);
            }
            return;
        }
        let Some(vm) = self.vm(line.tid) else { return };
        self.memory(line, vm);
        match self.announced.remove(&whole.number).filter(|start| *start <= line.at) {
            Some(start) => {
                if let Some(who) = self.collector(vm) {
                    self.telling.span(who, (start, line.at), SpanKind::GcBeside, whole.name);
                }
            }
            None => {
                self.unmeasured += 1;
                self.telling.mark(vm, line.at, whole.name, (0, whole.about));
            }
        }
    }

    /// Collections whose length the log does not have.
    pub fn unmeasured(&self) -> u64 {
        self.unmeasured
    }

    /// Pauses of a log without safepoints.
    fn alone(&mut self) {
        let Some(vm) = self.vm else { return };
        for pause in std::mem::take(&mut self.pauses) {
            let length = pause.end - pause.start;
            let start = pause.start.max(self.free);
            let end = start.saturating_add(length);
            self.free = end.saturating_add(APART_NS);
            self.telling.span(vm, (start, end), SpanKind::GcWork, &pause.name);
        }
    }
}

/// `Safepoint "OP", Time since last: 1 ns, Reaching safepoint: 2 ns, …, Total: 3 ns`: keys differ between versions.
struct Safepoint<'a> {
    operation: &'a str,
    reaching_ns: u64,
    total_ns: u64,
}

impl Safepoint<'_> {
    fn parse(text: &str) -> Option<Safepoint<'_>> {
        let (operation, rest) = text.strip_prefix("Safepoint \"")?.split_once('"')?;
        let value = |wanted: &str| {
            let pairs = rest.split(", ").filter_map(|pair| pair.split_once(": "));
            let found = pairs.filter(|(key, _)| *key == wanted).map(|(_, value)| value).next()?;
            found.strip_suffix(" ns")?.parse::<u64>().ok()
        };
        let reaching_ns = value("Reaching safepoint").unwrap_or(0);
        Some(Safepoint { operation, reaching_ns, total_ns: value("Total")? })
    }
}

/// `Total time for which application threads were stopped: 0.0003 seconds, Stopping threads took: 0.0001 seconds`: total and
/// reaching (ns).
fn stopped_for(text: &str) -> Option<(u64, u64)> {
    let (total, reaching) = text.strip_prefix(STOPPED_FOR)?.split_once(", Stopping threads took: ")?;
    Some((length(total)?, length(reaching)?))
}

/// `Thread: 0x00007f5e60125cd0  [0x1293] State: _running …`: the number of a thread that has not stopped yet.
fn waited_for(text: &str) -> Option<u32> {
    let (_, rest) = text.strip_prefix("Thread: 0x")?.split_once('[')?;
    let (number, state) = rest.split_once(']')?;
    let number = u32::from_str_radix(number.strip_prefix("0x")?, 16).ok()?;
    state.trim_start().starts_with("State: _running").then_some(number)
}

#[cfg(test)]
#[path = "safepoints_tests.rs"]
mod tests;
