//! Reports of programs and their runtimes → spans, counters and marks of threads.
//!
//! A span's begin and end are paired here, by lane. Rows wait until threads are assigned to lanes
//! ([`super::owners`]). In a long recording, assignment is done repeatedly, so that memory does not grow with
//! its length.

use std::collections::HashMap;
use std::sync::Arc;

use holdup_events::event::{RuntimeEvent, RuntimeEventKind};
use holdup_events::tables::{
    CounterRow, HARDWARE, HARDWARE_LANES, Lane, MarkRow, SpanKind, SpanRow, TableSink, TellName,
};
use holdup_events::{ProcessId, ThreadId, Timestamp};

use super::Builder;
use super::owners::{Owners, SetId};

/// Maximum number of waiting rows.
const WAITING_MAX: usize = 1 << 20;
/// More distinct names and texts than this are not kept.
const NAMES_MAX: usize = 1 << 20;
/// Deeper nesting is no program's.
const DEPTH_MAX: usize = 1024;

/// A span that has begun.
#[derive(Clone, Copy, Debug)]
struct Open {
    start: Timestamp,
    name: u32,
    text: u32,
    kind: SpanKind,
    by: Teller,
}

/// Candidates for the thread of a report.
#[derive(Clone, Copy, Debug)]
enum Teller {
    /// The threads known to be running at the end of this entry's wait.
    Entry(u32),
    /// A known set of threads.
    Set(SetId),
}

/// A recent report. The threads running at its time may still change.
#[derive(Clone, Copy, Debug)]
struct Entry {
    at: Timestamp,
    lane: u32,
    set: SetId,
}

/// A row whose thread is not known yet.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    lane: u32,
    by: Teller,
    name: u32,
    at: Timestamp,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Span { end: Timestamp },
    Counter { value: u64 },
    Mark { value: u64, text: u32 },
}

/// All lanes and their reports.
#[derive(Default)]
pub struct Lanes {
    rows: Vec<Lane>,
    open: Vec<Vec<Open>>,
    /// The living lane of a process and number.
    living: HashMap<(u32, u32), u32>,
    names: Vec<TellName>,
    name_ids: HashMap<(u32, SpanKind), u32>,
    texts: HashMap<Arc<str>, u32>,
    owners: Owners,
    log: Vec<Entry>,
    waiting: Vec<Waiting>,
    /// A thread of each lane's process, for reports without a known thread.
    anybody: Vec<ThreadId>,
}

impl Builder<'_> {
    pub(super) fn take_runtime_event(&mut self, tell: &RuntimeEvent, sink: &mut dyn TableSink) {
        let at = tell.at.max(self.start);
        let process = self.names.process(tell.tgid);
        let mut running: Vec<ThreadId> = if tell.tid != 0 {
            let index = self.last_of(tell.tid, tell.tgid);
            vec![self.live.at(index).id]
        } else {
            let own = |index: &usize| self.names.process_of(*index) == Some(process);
            let running: Vec<usize> = self.occupants.running().filter(own).collect();
            running.into_iter().map(|index| self.live.at(index).id).collect()
        };
        running.sort();
        running.dedup();
        let set = self.lanes.owners.intern(running);
        if self.lanes.is_new_lane(tell) {
            let main = self.last_of(tell.tgid, tell.tgid);
            let id = self.live.at(main).id;
            self.lanes.add(tell, (process, id), at);
        }
        self.lanes.take(tell, at, set);
        if self.lanes.log.len() >= WAITING_MAX || self.lanes.owners.is_full() {
            self.lanes.pass_on(sink);
        }
    }
}

impl Lanes {
    fn is_new_lane(&self, tell: &RuntimeEvent) -> bool {
        !self.living.contains_key(&(tell.tgid, tell.lane))
    }

    fn add(&mut self, tell: &RuntimeEvent, (process, anybody): (ProcessId, ThreadId), at: Timestamp) {
        if self.names.is_empty() {
            self.names.push(TellName::default());
        }
        let runtime = match tell.what {
            RuntimeEventKind::LaneStart => tell.name.to_string(),
            _ if tell.lane & HARDWARE_LANES != 0 => HARDWARE.to_owned(),
            _ => String::new(),
        };
        let lane = Lane { process, runtime, number: tell.lane, start: at, end: at, ..Lane::default() };
        self.living.insert((tell.tgid, tell.lane), self.rows.len() as u32);
        self.rows.push(lane);
        self.open.push(Vec::new());
        self.anybody.push(anybody);
    }

    fn take(&mut self, tell: &RuntimeEvent, at: Timestamp, set: SetId) {
        let Some(lane) = self.living.get(&(tell.tgid, tell.lane)).copied() else { return };
        if let Some(row) = self.rows.get_mut(lane as usize) {
            row.end = row.end.max(at);
        }
        let by = Teller::Entry(self.log.len() as u32);
        if !matches!(
            tell.what,
            RuntimeEventKind::LaneStart | RuntimeEventKind::LaneEnd | RuntimeEventKind::Gap
        ) {
            self.log.push(Entry { at, lane, set });
        }
        match &tell.what {
            RuntimeEventKind::LaneStart => {}
            RuntimeEventKind::LaneEnd => {
                self.close_all(lane);
                self.living.remove(&(tell.tgid, tell.lane));
            }
            RuntimeEventKind::Gap => self.close_all(lane),
            RuntimeEventKind::Begin(kind) => self.begin(lane, (at, by), *kind, &tell.name),
            RuntimeEventKind::End => self.end(lane, (at, by), &tell.name),
            RuntimeEventKind::Counter(value) => {
                let name = self.name(&tell.name, SpanKind::User);
                self.wait(lane, (at, by), name, What::Counter { value: *value });
            }
            RuntimeEventKind::Mark { value, text } => {
                let name = self.name(&tell.name, SpanKind::User);
                let text = if text.is_empty() { 0 } else { self.name(text, SpanKind::User) };
                self.wait(lane, (at, by), name, What::Mark { value: *value, text });
            }
        }
    }

    /// A thread turns out to have been running from then to then.
    pub fn ran_unseen(
        &mut self,
        (thread, process): (ThreadId, Option<ProcessId>),
        (from, to): (Timestamp, Timestamp),
    ) {
        let first = self.log.partition_point(|entry| entry.at < from);
        for entry in self.log.iter_mut().skip(first).take_while(|entry| entry.at <= to) {
            if self.rows.get(entry.lane as usize).map(|lane| lane.process) == process {
                entry.set = self.owners.with(entry.set, thread);
            }
        }
    }

    fn set(&self, by: Teller) -> SetId {
        match by {
            Teller::Set(set) => set,
            Teller::Entry(entry) => self.log.get(entry as usize).map_or(0, |entry| entry.set),
        }
    }

    fn begin(&mut self, lane: u32, (start, by): (Timestamp, Teller), kind: SpanKind, name: &Arc<str>) {
        let (text, name) = (self.text(name), self.name(name, kind));
        if let Some(open) = self.open.get_mut(lane as usize)
            && open.len() < DEPTH_MAX
        {
            open.push(Open { start, name, text, kind, by });
        }
    }

    /// Ends the innermost span of this name. If there are several, prefers one that the same thread may have
    /// begun, because a domain's threads take turns within spans that wait.
    fn end(&mut self, lane: u32, (at, by): (Timestamp, Teller), name: &Arc<str>) {
        let text = self.text(name);
        let Some(open) = self.open.get(lane as usize) else { return };
        let of_name = || open.iter().enumerate().rev().filter(|(_, span)| span.text == text);
        let shared = of_name().find(|(_, span)| self.owners.share(self.set(span.by), self.set(by)));
        let Some((place, span)) = shared.or_else(|| of_name().next()) else { return };
        let span = *span;
        // The collector's spans nest: one that is still open within this one has ended unseen.
        let within = open.get(place + 1..).unwrap_or_default();
        let is_user = |span: &Open| matches!(span.kind, SpanKind::User | SpanKind::Idle);
        let (kept, lost): (Vec<Open>, Vec<Open>) =
            within.iter().copied().partition(|inner| is_user(inner) || is_user(&span));
        if let Some(open) = self.open.get_mut(lane as usize) {
            open.truncate(place);
            open.extend(kept);
        }
        for span in lost.into_iter().chain([span]) {
            self.wait(lane, (span.start, span.by), span.name, What::Span { end: at });
        }
    }

    fn close_all(&mut self, lane: u32) {
        let end = self.rows.get(lane as usize).map_or(Timestamp(0), |row| row.end);
        let open = self.open.get_mut(lane as usize).map(std::mem::take).unwrap_or_default();
        for span in open {
            self.wait(lane, (span.start, span.by), span.name, What::Span { end: end.max(span.start) });
        }
    }

    fn wait(&mut self, lane: u32, (at, by): (Timestamp, Teller), name: u32, what: What) {
        self.waiting.push(Waiting { lane, by, name, at, what });
    }

    /// The number of a text.
    fn text(&mut self, text: &Arc<str>) -> u32 {
        if let Some(id) = self.texts.get(text) {
            return *id;
        }
        if self.texts.len() >= NAMES_MAX {
            return u32::MAX;
        }
        let id = self.texts.len() as u32;
        self.texts.insert(text.clone(), id);
        id
    }

    /// The row of a name, 0 if there are too many.
    fn name(&mut self, text: &Arc<str>, kind: SpanKind) -> u32 {
        let key = (self.text(text), kind);
        if let Some(id) = self.name_ids.get(&key) {
            return *id;
        }
        if key.0 == u32::MAX || self.names.len() >= NAMES_MAX {
            return 0;
        }
        let id = self.names.len() as u32;
        self.names.push(TellName { kind, text: text.to_string() });
        self.name_ids.insert(key, id);
        id
    }

    /// Decides whose threads are whose, and passes on the rows that waited for it.
    fn pass_on(&mut self, sink: &mut dyn TableSink) {
        for entry in &self.log {
            self.owners.note(entry.lane, entry.set);
        }
        self.owners.decide();
        for row in std::mem::take(&mut self.waiting) {
            let anybody = self.anybody.get(row.lane as usize).copied().unwrap_or_default();
            let thread = self.owners.thread(row.lane, self.set(row.by)).unwrap_or(anybody);
            let Waiting { lane, name, at, .. } = row;
            match row.what {
                What::Span { end } => sink.span(SpanRow { thread, start: at, end, lane, name }),
                What::Counter { value } => sink.counter(CounterRow { thread, at, lane, name, value }),
                What::Mark { value, text } => sink.mark(MarkRow { thread, at, lane, name, value, text }),
            }
        }
        let forget = self.owners.is_full();
        for span in self.open.iter_mut().flatten() {
            // Sets that are forgotten are lost to open spans too: their thread is then the lane's usual one.
            let set = match span.by {
                _ if forget => 0,
                Teller::Set(set) => set,
                Teller::Entry(entry) => self.log.get(entry as usize).map_or(0, |entry| entry.set),
            };
            span.by = Teller::Set(set);
        }
        self.log.clear();
        if forget {
            self.owners.forget();
        }
    }

    /// The recording ended: closes every lane. Returns lanes and names.
    pub fn finish(mut self, sink: &mut dyn TableSink) -> (Vec<Lane>, Vec<TellName>) {
        (0..self.rows.len() as u32).for_each(|lane| self.close_all(lane));
        self.pass_on(sink);
        for (row, lane) in self.rows.iter_mut().zip(0..) {
            (row.events, row.matched) = self.owners.matched(lane);
        }
        (self.rows, self.names)
    }
}
