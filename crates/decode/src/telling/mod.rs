//! Common code for importers of files in which a program's runtime reports about itself: reports about
//! threads (or domains, capabilities, goroutines) → events. Importers may add reports in any order of time.
//! They are sorted here.
//!
//! Some runtimes report when a thread has one of their processors. States are then exact in the runtime's
//! terms. Others report only spans. States are then unknown, and no thread is shown as running.

mod nesting;
mod words;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use holdup_events::event::{
    Lifecycle, LifecycleChange, Outcome, RawWait, RuntimeEvent, RuntimeEventKind, Snapshot, SnapshotState,
    Switch, WakeContext, Waking,
};
use holdup_events::tables::SpanKind;
use holdup_events::{CpuId, Event, Loss, Timestamp, WaitReason};

use crate::readers::ReadError;
use nesting::Span;
use words::{Word, Words};

/// A span of more than 30 days is a broken clock, not a recording (ns).
const SPAN_MAX_NS: u64 = 30 * 24 * 3_600 * 1_000_000_000;
/// More threads than this are no program's.
const TELLERS_MAX: usize = 1 << 20;
/// Bound of thread ids from files. Assigned ids of threads without one start here.
const TID_MAX: u32 = 1 << 30;

/// Distance between pauses that overlap because of a coarse clock (ns). Closer pauses count as one.
pub(crate) const APART_NS: u64 = 3_000;

/// A reporting thread, and its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Who(u32);

/// State of a thread after it leaves its processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// Runnable.
    Preempted,
    /// The thread yielded the processor.
    Yielded,
    /// The thread waits for this reason.
    Waits(WaitReason, At),
    /// The thread has exited.
    Gone,
}

/// Place of a wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct At {
    /// Id of the stack, 0 if none.
    pub stack: u32,
    /// Identity of the object waited for, 0 if unknown.
    pub object: u32,
}

/// Identity of a reporting thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Person {
    /// The process.
    pub pid: u32,
    /// Thread id, if the file has one that reports should use. Otherwise 0.
    pub tid: u32,
    /// The runtime's number.
    pub lane: u32,
    /// For people.
    pub name: String,
    /// The reporting runtime, with its version. Empty if the program itself reports.
    pub runtime: String,
    /// Not one of the program's threads.
    pub outside: bool,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Begin(SpanKind, Word),
    End(Word),
    Counter(Word, u64),
    Mark(Word, u64, Word),
    /// Gets the processor.
    On(CpuId),
    /// Leaves it.
    Off(CpuId, After),
    /// The thread is made runnable by another thread.
    Woken(Option<Who>, CpuId),
    /// The thread is created by another thread, and is runnable.
    Born(Option<Who>),
    /// The first that is known of it: it was there before.
    Found(Found),
    /// Ends while it has no processor.
    Vanishes,
}

/// State of a thread at the start of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The thread had this processor.
    On(CpuId),
    /// The thread was runnable.
    Runnable,
    /// The thread waited.
    Waits(WaitReason),
    /// Not reported.
    Unknown,
}

#[derive(Clone, Copy, Debug)]
struct Item {
    at: u64,
    who: Who,
    what: What,
}

/// Collects the reports of a file.
#[derive(Default)]
pub(crate) struct Telling {
    people: Vec<Person>,
    tids: HashSet<u32>,
    next_tid: u32,
    items: Vec<Item>,
    spans: Vec<Span>,
    words: Words,
    losses: BTreeMap<&'static str, u64>,
    /// The file reports states.
    has_states: bool,
}

/// Result of [`Telling::finish`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Whole {
    /// First and last moment.
    pub span: (Timestamp, Timestamp),
    /// Number of reports.
    pub events: u64,
    /// Number of reports that could not be interpreted.
    pub lost: u64,
}

impl Telling {
    /// For a file that reports when threads have a processor.
    pub fn with_states() -> Telling {
        Telling { has_states: true, ..Telling::default() }
    }

    /// Adds a thread. `None` if there are too many.
    pub fn person(&mut self, mut person: Person) -> Option<Who> {
        if self.people.len() >= TELLERS_MAX {
            self.lose("too-many-threads");
            return None;
        }
        if person.tid == 0 || person.tid >= TID_MAX || self.tids.contains(&person.tid) {
            self.next_tid = self.next_tid.max(TID_MAX) + 1;
            person.tid = self.next_tid;
        }
        self.tids.insert(person.tid);
        person.pid = if (1..TID_MAX).contains(&person.pid) { person.pid } else { person.tid };
        self.people.push(person);
        Some(Who(self.people.len() as u32 - 1))
    }

    /// The identity of a thread, for changes.
    pub fn known(&mut self, who: Who) -> Option<&mut Person> {
        self.people.get_mut(who.0 as usize)
    }

    /// Adds a complete span (ns).
    pub fn span(&mut self, who: Who, (start, end): (u64, u64), kind: SpanKind, name: &str) {
        let name = self.words.intern(name);
        self.spans.push(Span { who, start, end: end.max(start), kind, name });
    }

    /// Begins a span. It lasts until an [`Telling::end`] with its name, or until the end of the file.
    pub fn begin(&mut self, who: Who, at: u64, kind: SpanKind, name: &str) {
        let name = self.words.intern(name);
        self.put(at, who, What::Begin(kind, name));
    }

    /// The innermost open span of this name ends.
    pub fn end(&mut self, who: Who, at: u64, name: &str) {
        let name = self.words.intern(name);
        self.put(at, who, What::End(name));
    }

    /// A counter has this value.
    pub fn counter(&mut self, who: Who, at: u64, name: &str, value: u64) {
        let name = self.words.intern(name);
        self.put(at, who, What::Counter(name, value));
    }

    /// Something happens, with a number or a text.
    pub fn mark(&mut self, who: Who, at: u64, name: &str, (value, text): (u64, &str)) {
        let (name, text) = (self.words.intern(name), self.words.intern(text));
        self.put(at, who, What::Mark(name, value, text));
    }

    /// Gets a processor.
    pub fn on(&mut self, who: Who, at: u64, cpu: CpuId) {
        self.put(at, who, What::On(cpu));
    }

    /// Leaves the processor.
    pub fn off(&mut self, who: Who, at: u64, (cpu, after): (CpuId, After)) {
        self.put(at, who, What::Off(cpu, after));
    }

    /// Is made runnable, by `waker` on that processor if that is known.
    pub fn woken(&mut self, who: Who, at: u64, (waker, cpu): (Option<Who>, CpuId)) {
        self.put(at, who, What::Woken(waker, cpu));
    }

    /// Is born.
    pub fn born(&mut self, who: Who, at: u64, parent: Option<Who>) {
        self.put(at, who, What::Born(parent));
    }

    /// Was there when the file began.
    pub fn found(&mut self, who: Who, at: u64, found: Found) {
        self.put(at, who, What::Found(found));
    }

    /// Ends without a processor.
    pub fn vanishes(&mut self, who: Who, at: u64) {
        self.put(at, who, What::Vanishes);
    }

    /// Counts a report that could not be interpreted. `reason` is kebab-case.
    pub fn lose(&mut self, reason: &'static str) {
        *self.losses.entry(reason).or_default() += 1;
    }

    fn put(&mut self, at: u64, who: Who, what: What) {
        self.items.push(Item { at, who, what });
    }

    /// Emits all events in time order. `source` is the source in losses.
    ///
    /// # Errors
    /// The file has no reports, or its times are implausible.
    pub fn finish(mut self, source: &'static str, sink: &mut dyn FnMut(Event)) -> Result<Whole, ReadError> {
        let spans = std::mem::take(&mut self.spans);
        let events = (self.items.len() + spans.len()) as u64;
        nesting::unfold(spans, &mut |at, who, begins| {
            let what = match begins {
                (Some(kind), name) => What::Begin(kind, name),
                (None, name) => What::End(name),
            };
            self.items.push(Item { at, who, what });
        });
        let items = std::mem::take(&mut self.items);
        let start = items.iter().map(|item| item.at).min().ok_or(ReadError::Empty)?;
        let end = items.iter().map(|item| item.at).max().unwrap_or(start);
        if end - start > SPAN_MAX_NS {
            return Err(ReadError::Broken { what: "its times are more than 30 days apart", offset: 0 });
        }
        let span = (Timestamp(start), Timestamp(end));
        let lost = self.losses.values().sum();
        for (reason, events) in std::mem::take(&mut self.losses) {
            let (source, reason) = (source.to_owned(), reason.to_owned());
            sink(Event::Loss(Loss { source, reason, cpu: CpuId::NONE, start: span.0, end: span.1, events }));
        }
        self.emit_in_order(items, span, sink);
        Ok(Whole { span, events, lost })
    }

    fn emit_in_order(self, mut items: Vec<Item>, span: (Timestamp, Timestamp), sink: &mut dyn FnMut(Event)) {
        // A stable sort keeps the order of one thread's reports with equal times.
        items.sort_by_key(|item| item.at);
        let Telling { people, words, has_states, .. } = self;
        let mut narrator = Narrator {
            people,
            words: words.list(),
            has_states,
            span,
            stage: HashMap::new(),
            none: "".into(),
        };
        for item in items {
            narrator.emit(&item, sink);
        }
        narrator.close(sink);
    }
}

/// Emitted state of a thread.
#[derive(Clone, Copy, Debug, Default)]
struct Stage {
    born: bool,
    lane: bool,
    gone: bool,
}

/// Converts reports to events.
struct Narrator {
    people: Vec<Person>,
    words: Vec<Arc<str>>,
    has_states: bool,
    span: (Timestamp, Timestamp),
    stage: HashMap<Who, Stage>,
    none: Arc<str>,
}

impl Narrator {
    fn emit(&mut self, item: &Item, sink: &mut dyn FnMut(Event)) {
        let Item { who, what, .. } = *item;
        let at = Timestamp(item.at);
        if self.stage(who).gone {
            return;
        }
        match what {
            What::Born(parent) => self.bear(who, at, parent, sink),
            What::Found(found) => self.find(who, at, found, sink),
            _ if !self.stage(who).born => self.find(who, at, Found::Unknown, sink),
            _ => {}
        }
        match what {
            What::Born(_) | What::Found(_) => {}
            What::Begin(kind, name) => self.emit_on_lane(who, at, RuntimeEventKind::Begin(kind), name, sink),
            What::End(name) => self.emit_on_lane(who, at, RuntimeEventKind::End, name, sink),
            What::Counter(name, value) => {
                self.emit_on_lane(who, at, RuntimeEventKind::Counter(value), name, sink)
            }
            What::Mark(name, value, text) => {
                let text = self.word(text);
                self.emit_on_lane(who, at, RuntimeEventKind::Mark { value, text }, name, sink);
            }
            What::On(cpu) => {
                sink(Event::Switch(Switch { at, cpu, next_tid: self.tid(Some(who)), ..Switch::default() }))
            }
            What::Off(cpu, after) => self.leave(who, at, (cpu, after), sink),
            What::Woken(waker, cpu) => sink(Event::Waking(Waking {
                at,
                cpu,
                wakee_tid: self.tid(Some(who)),
                waker_tid: self.tid(waker),
                context: if waker.is_some() { WakeContext::Thread } else { WakeContext::Timer },
                waker_syscall: i32::MIN,
                ..Waking::default()
            })),
            What::Vanishes => self.leave(who, at, (CpuId::NONE, After::Gone), sink),
        }
    }

    fn stage(&mut self, who: Who) -> &mut Stage {
        self.stage.entry(who).or_default()
    }

    fn tid(&self, who: Option<Who>) -> u32 {
        who.and_then(|who| self.people.get(who.0 as usize)).map_or(0, |person| person.tid)
    }

    fn word(&self, word: Word) -> Arc<str> {
        self.words.get(word.0 as usize).unwrap_or(&self.none).clone()
    }

    fn bear(&mut self, who: Who, at: Timestamp, parent: Option<Who>, sink: &mut dyn FnMut(Event)) {
        if std::mem::replace(&mut self.stage(who).born, true) {
            return;
        }
        let parent_tid = self.tid(parent);
        let Some(person) = self.people.get(who.0 as usize) else { return };
        sink(Event::Lifecycle(Lifecycle {
            at,
            change: LifecycleChange::Fork { parent_tid },
            tid: person.tid,
            tgid: person.pid,
            name: person.name.clone(),
            target: !person.outside,
        }));
    }

    /// Begins the life of a thread without a reported start. Without states, a thread begins at its first
    /// report.
    fn find(&mut self, who: Who, at: Timestamp, found: Found, sink: &mut dyn FnMut(Event)) {
        if self.stage(who).born {
            return;
        }
        let began = if self.has_states { self.span.0 } else { at };
        if !self.has_states && at > self.span.0 {
            self.bear(who, at, None, sink);
        }
        self.stage(who).born = true;
        let state = match found {
            _ if !self.has_states => SnapshotState::Untracked,
            Found::On(cpu) => SnapshotState::Running(cpu),
            Found::Runnable => SnapshotState::Runnable,
            Found::Waits(reason) => SnapshotState::Blocked(Box::new(RawWait::because(reason))),
            Found::Unknown => SnapshotState::Untracked,
        };
        let Some(person) = self.people.get(who.0 as usize) else { return };
        sink(Event::Snapshot(Snapshot {
            // Threads from before the file start with it.
            at: if found == Found::Unknown { at } else { at.max(began) },
            tid: person.tid,
            tgid: person.pid,
            parent_tgid: 0,
            name: person.name.clone(),
            target: !person.outside,
            state,
            exec_ns: None,
            queue_ns: None,
        }));
    }

    fn leave(&mut self, who: Who, at: Timestamp, (cpu, after): (CpuId, After), sink: &mut dyn FnMut(Event)) {
        let outside = self.people.get(who.0 as usize).is_none_or(|person| person.outside);
        let outcome = match after {
            After::Gone => Outcome::Dead,
            _ if outside => Outcome::Untracked,
            After::Preempted => Outcome::Preempted,
            After::Yielded => Outcome::Yielded,
            After::Waits(reason, At { stack, object }) => {
                let (stack_every, stack, object) = (u32::from(stack > 0), stack.into(), object.into());
                let raw = RawWait { stack, stack_every, object, ..RawWait::because(reason) };
                Outcome::Blocked(Box::new(raw))
            }
        };
        if after == After::Gone {
            self.close_lane(who, at, sink);
            self.stage(who).gone = true;
        }
        let (prev_tid, prev_tgid) = self.people.get(who.0 as usize).map_or((0, 0), |who| (who.tid, who.pid));
        sink(Event::Switch(Switch { at, cpu, prev_tid, prev_tgid, outcome, ..Switch::default() }));
    }

    fn emit_on_lane(
        &mut self,
        who: Who,
        at: Timestamp,
        what: RuntimeEventKind,
        name: Word,
        sink: &mut dyn FnMut(Event),
    ) {
        let Some(person) = self.people.get(who.0 as usize) else { return };
        let (tgid, tid, lane) = (person.pid, person.tid, person.lane);
        let put = |what, name| Event::Runtime(RuntimeEvent { at, tgid, tid, lane, what, name });
        let runtime: Arc<str> = person.runtime.as_str().into();
        if !std::mem::replace(&mut self.stage(who).lane, true) {
            sink(put(RuntimeEventKind::LaneStart, runtime));
        }
        sink(put(what, self.word(name)));
    }

    fn close_lane(&mut self, who: Who, at: Timestamp, sink: &mut dyn FnMut(Event)) {
        if std::mem::take(&mut self.stage(who).lane)
            && let Some(person) = self.people.get(who.0 as usize)
        {
            let (tgid, tid, lane) = (person.pid, person.tid, person.lane);
            sink(Event::Runtime(RuntimeEvent {
                at,
                tgid,
                tid,
                lane,
                what: RuntimeEventKind::LaneEnd,
                name: self.none.clone(),
            }));
        }
    }

    /// All that is open ends with the file.
    fn close(&mut self, sink: &mut dyn FnMut(Event)) {
        let mut open: Vec<Who> =
            self.stage.iter().filter(|(_, stage)| stage.lane).map(|(who, _)| *who).collect();
        open.sort();
        for who in open {
            self.close_lane(who, self.span.1, sink);
        }
    }
}

#[cfg(test)]
mod tests;
