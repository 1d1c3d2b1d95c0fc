//! The eventlog of a program compiled by GHC (`+RTS -l`).
//!
//! Each capability is shown as one thread and as one CPU. It runs while it has a Haskell thread or takes part
//! in a collection, otherwise it is idle. Whether the operating system gave it a CPU is not in the file.
//! Haskell threads are spans of their capability. Times are relative to the program's start.

mod capability;
mod census;
mod layout;

use std::collections::BTreeMap;

use holdup_events::Event;
use holdup_events::recording::{Backend, Host, SourceState};
use holdup_events::tables::SpanKind;

use super::{Facts, Info, ReadError, Reader, Wanted};
use crate::imported::Names;
use crate::telling::{Person, Telling, Whole};
use capability::Capability;
use census::HeapProfile;
use layout::{Body, LoggedEvent};

/// The format.
pub struct Format;

/// Source name.
const SOURCE: &str = "ghc-eventlog";

/// Event ids (GHC's rts/include/rts/EventLogFormat.h). The file itself describes their payload lengths.
mod id {
    pub const RUN_THREAD: u16 = 1;
    pub const STOP_THREAD: u16 = 2;
    pub const GC_START: u16 = 9;
    pub const GC_END: u16 = 10;
    pub const REQUEST_SEQ_GC: u16 = 11;
    pub const REQUEST_PAR_GC: u16 = 12;
    pub const LOG_MSG: u16 = 16;
    pub const USER_MSG: u16 = 19;
    pub const GC_IDLE: u16 = 20;
    pub const GC_WORK: u16 = 21;
    pub const GC_DONE: u16 = 22;
    pub const RTS_IDENTIFIER: u16 = 29;
    pub const PROGRAM_ARGS: u16 = 30;
    pub const PROCESS_PID: u16 = 32;
    pub const SPARK_COUNTERS: u16 = 34;
    pub const THREAD_LABEL: u16 = 44;
    pub const HEAP_ALLOCATED: u16 = 49;
    pub const HEAP_SIZE: u16 = 50;
    pub const HEAP_LIVE: u16 = 51;
    pub const GC_STATS: u16 = 53;
    pub const USER_MARKER: u16 = 58;
    pub const CONCURRENT_MARK_BEGIN: u16 = 200;
    pub const CONCURRENT_MARK_END: u16 = 201;
    pub const CONCURRENT_SYNC_BEGIN: u16 = 202;
    pub const CONCURRENT_SYNC_END: u16 = 203;
    pub const CONCURRENT_SWEEP_BEGIN: u16 = 204;
    pub const CONCURRENT_SWEEP_END: u16 = 205;
}

impl Reader for Format {
    fn info(&self) -> Info {
        Info { name: "ghc-eventlog", summary: "Eventlog of a Haskell program (+RTS -l)" }
    }

    fn recognises(&self, bytes: &[u8]) -> bool {
        bytes.starts_with(layout::MAGIC)
    }

    fn read(&self, bytes: &[u8], _: &Wanted, sink: &mut dyn FnMut(Event)) -> Result<Facts, ReadError> {
        let (mut events, cut) = layout::events(bytes)?;
        // Buffers are written one capability at a time.
        events.sort_by_key(|event| event.at);
        let mut log = Log::new(&events);
        log.survey(&events);
        for event in &events {
            log.take(event);
        }
        if cut {
            log.telling.lose("truncated");
        }
        for _ in 0..log.heap.left_out {
            log.telling.lose("too-many-censuses");
        }
        let start = events.first().map_or(0, |event| event.at);
        if log.capabilities.is_empty() && !log.heap.is_empty() {
            // A census needs a thread that it belongs to.
            log.capability(0, start);
        }
        let Log { mut telling, mut capabilities, version, command, heap, has_states, .. } = log;
        capabilities.values_mut().for_each(|capability| capability.emit_collection(None, &mut telling));
        let cpus = capabilities.len() as u32;
        let first = capabilities.values().next().map(|capability| capability.who);
        let mut names = Names::default();
        let mut rows = Vec::new();
        if let Some(who) = first {
            heap.count(who, &mut telling);
            let whose = telling.known(who).map(|person| (person.tid, person.pid));
            rows = whose.map_or_else(Vec::new, |whose| heap.rows(whose, &mut names));
        }
        let has_rows = !rows.is_empty();
        let mut rows = rows.into_iter().peekable();
        let whole = telling.finish(SOURCE, &mut |event| {
            while let Some(row) = rows.next_if(|row| row.at() < event.at()) {
                sink(row);
            }
            sink(event);
        })?;
        rows.for_each(sink);
        let limits = limits(&version, has_states);
        Ok(Facts {
            host: Host { cpus, ..Host::default() },
            command,
            span: whole.span,
            backend: if has_states { Backend::Perf } else { Backend::Proc },
            limits: [Some(limits), heap.description(whole.span.0.0)]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join("; "),
            sources: sources(&whole, has_rows),
            names: has_rows.then_some(names),
            ..Facts::default()
        })
    }
}

fn limits(version: &str, has_states: bool) -> String {
    let shown = "each capability is shown as one thread";
    match has_states {
        true => format!(
            "an eventlog of {version}: {shown} and one CPU, running while it has a Haskell thread or collects; whether the system gave it \
             a CPU is not known"
        ),
        false => format!(
            "an eventlog of {version} without scheduler events (+RTS -l has them): {shown}, and when it ran is not known"
        ),
    }
}

fn sources(whole: &Whole, has_census: bool) -> Vec<SourceState> {
    let source = |name: &str, events, lost| SourceState {
        name: name.to_owned(),
        active: true,
        missing: String::new(),
        events,
        lost,
    };
    let census = has_census.then(|| source("allocations", 0, 0));
    [source(SOURCE, whole.events, whole.lost)].into_iter().chain(census).collect()
}

/// Content read so far.
#[derive(Default)]
struct Log {
    telling: Telling,
    capabilities: BTreeMap<u16, Capability>,
    labels: BTreeMap<u32, String>,
    version: String,
    command: Vec<String>,
    pid: u32,
    /// Lane of the concurrent collector.
    beside: Option<crate::telling::Who>,
    heap: HeapProfile,
    /// There are scheduler events.
    has_states: bool,
}

impl Log {
    fn new(events: &[LoggedEvent]) -> Log {
        let has_states = events.iter().any(|event| matches!(event.id, id::RUN_THREAD | id::STOP_THREAD));
        let telling = if has_states { Telling::with_states() } else { Telling::default() };
        Log { telling, has_states, ..Log::default() }
    }

    /// Reads what must be known before the first event is emitted.
    fn survey(&mut self, events: &[LoggedEvent]) {
        "GHC".clone_into(&mut self.version);
        for event in events {
            let mut body = Body(event.body);
            match event.id {
                id::RTS_IDENTIFIER if body.u32().is_some() => self.version = body.text(),
                id::PROGRAM_ARGS if body.u32().is_some() => {
                    self.command = body.text().split('\0').map(str::to_owned).collect();
                    self.command.retain(|word| !word.is_empty());
                }
                id::PROCESS_PID => self.pid = body.u32().and_then(|_| body.u32()).unwrap_or(0),
                id::THREAD_LABEL => {
                    if let Some(thread) = body.u32() {
                        self.labels.insert(thread, body.text());
                    }
                }
                _ => {}
            }
        }
    }

    fn take(&mut self, event: &LoggedEvent) {
        self.heap.take(event);
        if let (Some(number), true) = (event.capability, self.is_of_capability(event.id)) {
            self.capability(number, event.at);
            self.on_capability(number, event);
            return;
        }
        let (kind, begins) = match event.id {
            id::CONCURRENT_MARK_BEGIN => ("concurrent mark", true),
            id::CONCURRENT_MARK_END => ("concurrent mark", false),
            id::CONCURRENT_SWEEP_BEGIN => ("concurrent sweep", true),
            id::CONCURRENT_SWEEP_END => ("concurrent sweep", false),
            _ => return,
        };
        let person = Person {
            pid: self.pid,
            lane: u32::from(u16::MAX),
            name: "concurrent collector".to_owned(),
            runtime: runtime(&self.version),
            outside: true,
            ..Person::default()
        };
        self.beside = self.beside.or_else(|| self.telling.person(person));
        let Some(who) = self.beside else { return };
        match begins {
            true => self.telling.begin(who, event.at, SpanKind::GcBeside, kind),
            false => self.telling.end(who, event.at, kind),
        }
    }

    fn is_of_capability(&self, number: u16) -> bool {
        matches!(number, id::RUN_THREAD | id::STOP_THREAD | id::GC_START..=id::REQUEST_PAR_GC)
            || matches!(number, id::LOG_MSG | id::USER_MSG | id::GC_IDLE..=id::GC_DONE | id::USER_MARKER)
            || matches!(number, id::SPARK_COUNTERS | id::HEAP_ALLOCATED..=id::HEAP_LIVE | id::GC_STATS)
            || matches!(number, id::CONCURRENT_SYNC_BEGIN | id::CONCURRENT_SYNC_END)
    }

    /// Makes sure that it is known.
    fn capability(&mut self, number: u16, at: u64) {
        if self.capabilities.contains_key(&number) {
            return;
        }
        let person = Person {
            pid: self.pid,
            // The first one's number is the process's, so that it is its main thread.
            tid: if self.capabilities.is_empty() { self.pid } else { 0 },
            lane: number.into(),
            name: format!("capability {number}"),
            runtime: runtime(&self.version),
            outside: false,
        };
        if let Some(who) = self.telling.person(person) {
            let new = if self.has_states { Capability::new } else { Capability::without_states };
            self.capabilities.insert(number, new(who, number, at, &mut self.telling));
        }
    }

    fn on_capability(&mut self, number: u16, event: &LoggedEvent) {
        let Log { telling, capabilities, labels, .. } = self;
        let Some(own) = capabilities.get_mut(&number) else { return };
        let (at, mut body) = (event.at, Body(event.body));
        match event.id {
            id::RUN_THREAD => {
                let Some(thread) = body.u32() else { return };
                let label = labels.get(&thread).map(|label| format!("thread {thread} {label}"));
                own.runs(at, label.unwrap_or_else(|| format!("thread {thread}")), telling);
            }
            id::STOP_THREAD => {
                let (thread, reason) = (body.u32().unwrap_or(0), body.u16().unwrap_or(0));
                own.stops(at, (thread, reason), telling);
            }
            id::REQUEST_SEQ_GC | id::REQUEST_PAR_GC => own.requests(at, telling),
            id::GC_START => own.collects(at, telling),
            id::GC_WORK | id::GC_IDLE | id::GC_DONE => own.phase(at, event.id, telling),
            id::GC_STATS => {
                own.has_statistics(body.u32().and_then(|_| body.u16()), telling);
                if let Some(copied) = body.u64() {
                    telling.counter(own.who, at, "gc_copied_bytes", copied);
                }
            }
            id::GC_END if own.collected(at, telling) => {
                // All capabilities continue when the requester has finished. The others report it only when
                // they run next.
                for (_, other) in capabilities.iter_mut().filter(|(other, _)| **other != number) {
                    other.released(at, telling);
                }
            }
            id::GC_END => {}
            id::CONCURRENT_SYNC_BEGIN => telling.begin(own.who, at, SpanKind::Stop, "concurrent gc sync"),
            id::CONCURRENT_SYNC_END => telling.end(own.who, at, "concurrent gc sync"),
            id::HEAP_ALLOCATED => {
                if let Some(bytes) = body.u32().and_then(|_| body.u64()) {
                    let before = std::mem::replace(&mut own.allocated, bytes);
                    telling.counter(own.who, at, "allocated_bytes", bytes.saturating_sub(before));
                }
            }
            id::HEAP_SIZE | id::HEAP_LIVE => {
                let name = if event.id == id::HEAP_SIZE { "heap_bytes" } else { "live_bytes" };
                if let Some(bytes) = body.u32().and_then(|_| body.u64()) {
                    telling.counter(own.who, at, name, bytes);
                }
            }
            id::SPARK_COUNTERS => {
                for name in ["created", "dud", "overflowed", "converted", "collected", "fizzled", "left"] {
                    let Some(value) = body.u64() else { break };
                    own.sparks(at, name, value, telling);
                }
            }
            id::LOG_MSG | id::USER_MSG | id::USER_MARKER => {
                telling.mark(own.who, at, "message", (0, &body.text()));
            }
            _ => {}
        }
    }
}

/// The runtime, as lanes name it.
fn runtime(version: &str) -> String {
    let words = version.split(' ').next().unwrap_or("GHC");
    format!("ghc {}", words.trim_start_matches("GHC-"))
}

#[cfg(test)]
#[path = "ghc_eventlog/tests.rs"]
mod tests;
