//! Files in which a program's runtime tells about itself: from what it says of its threads (or domains, capabilities,
//! goroutines) to events. Readers say what they find in any order of time; it is sorted here, for all of them.
//!
//! Some runtimes tell when a thread of theirs had a processor of theirs: then states are exact in their terms. Others
//! tell spans alone: then nothing is known of states, and no thread is said to have run.

mod nesting;
mod words;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use holdup_events::event::{
    Lifecycle, LifecycleChange, Outcome, RawWait, Snapshot, SnapshotState, Switch, Tell, Told, WakeContext,
    Waking,
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
/// Numbers of threads end here; those that are given to threads without one begin here.
const TID_MAX: u32 = 1 << 30;

/// Pauses that a coarse clock makes overlap are laid so far apart (ns): what lies closer counts as one pause.
pub(crate) const APART_NS: u64 = 3_000;

/// Somebody who tells: a thread, and the lane of that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Who(u32);

/// What becomes of a thread that leaves its processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// It could go on.
    Preempted,
    /// It gave the processor away.
    Yielded,
    /// It waits, for this reason.
    Waits(WaitReason, At),
    /// It is gone.
    Gone,
}

/// Where somebody waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct At {
    /// The stack; 0 none.
    pub stack: u32,
    /// What tells the thing from others that are waited for; 0 nothing.
    pub object: u32,
}

/// Who somebody is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Person {
    /// The process.
    pub pid: u32,
    /// The thread, if the file names one that is wanted in reports; else 0.
    pub tid: u32,
    /// The runtime's number.
    pub lane: u32,
    /// For people.
    pub name: String,
    /// Which runtime tells, with its version; empty: none, the program itself.
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
    /// Is made runnable by somebody.
    Woken(Option<Who>, CpuId),
    /// Is born of somebody, and could run.
    Born(Option<Who>),
    /// The first that is known of it: it was there before.
    Found(Found),
    /// Ends while it has no processor.
    Vanishes,
}

/// What somebody did when the file began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// It had this processor.
    On(CpuId),
    /// It could run.
    Runnable,
    /// It waited.
    Waits(WaitReason),
    /// It is not told.
    Unknown,
}

#[derive(Clone, Copy, Debug)]
struct Item {
    at: u64,
    who: Who,
    what: What,
}

/// Collects what a file says.
#[derive(Default)]
pub(crate) struct Telling {
    people: Vec<Person>,
    tids: HashSet<u32>,
    next_tid: u32,
    items: Vec<Item>,
    spans: Vec<Span>,
    words: Words,
    losses: BTreeMap<&'static str, u64>,
    /// States are told.
    has_states: bool,
}

/// What [`Telling::finish`] found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Whole {
    /// First and last moment.
    pub span: (Timestamp, Timestamp),
    /// Things told.
    pub events: u64,
    /// Things that could not be made sense of.
    pub lost: u64,
}

impl Telling {
    /// For a file that tells when somebody has a processor.
    pub fn with_states() -> Telling {
        Telling { has_states: true, ..Telling::default() }
    }

    /// Somebody new. `None` if there are too many.
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

    /// What is known of somebody, to be changed.
    pub fn known(&mut self, who: Who) -> Option<&mut Person> {
        self.people.get_mut(who.0 as usize)
    }

    /// A span that is told whole (ns).
    pub fn span(&mut self, who: Who, (start, end): (u64, u64), kind: SpanKind, name: &str) {
        let name = self.words.of(name);
        self.spans.push(Span { who, start, end: end.max(start), kind, name });
    }

    /// A span begins; it lasts until an [`Telling::end`] of its name, or until all is over.
    pub fn begin(&mut self, who: Who, at: u64, kind: SpanKind, name: &str) {
        let name = self.words.of(name);
        self.put(at, who, What::Begin(kind, name));
    }

    /// The innermost open span of this name ends.
    pub fn end(&mut self, who: Who, at: u64, name: &str) {
        let name = self.words.of(name);
        self.put(at, who, What::End(name));
    }

    /// A counter has this value.
    pub fn counter(&mut self, who: Who, at: u64, name: &str, value: u64) {
        let name = self.words.of(name);
        self.put(at, who, What::Counter(name, value));
    }

    /// Something happens, with a number or a text.
    pub fn mark(&mut self, who: Who, at: u64, name: &str, (value, text): (u64, &str)) {
        let (name, text) = (self.words.of(name), self.words.of(text));
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

    /// Something could not be made sense of; `reason` is kebab-case.
    pub fn lose(&mut self, reason: &'static str) {
        *self.losses.entry(reason).or_default() += 1;
    }

    fn put(&mut self, at: u64, who: Who, what: What) {
        self.items.push(Item { at, who, what });
    }

    /// Tells all of it in the order of time. `source` is what losses name.
    ///
    /// # Errors
    /// There is nothing, or its times are absurd.
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
        self.tell_in_order(items, span, sink);
        Ok(Whole { span, events, lost })
    }

    fn tell_in_order(self, mut items: Vec<Item>, span: (Timestamp, Timestamp), sink: &mut dyn FnMut(Event)) {
        // Stable: what one thread tells at one moment keeps its order.
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
            narrator.tell(&item, sink);
        }
        narrator.close(sink);
    }
}

/// What has been told of somebody.
#[derive(Clone, Copy, Debug, Default)]
struct Stage {
    born: bool,
    lane: bool,
    gone: bool,
}

/// Says it in the words of events.
struct Narrator {
    people: Vec<Person>,
    words: Vec<Arc<str>>,
    has_states: bool,
    span: (Timestamp, Timestamp),
    stage: HashMap<Who, Stage>,
    none: Arc<str>,
}

impl Narrator {
    fn tell(&mut self, item: &Item, sink: &mut dyn FnMut(Event)) {
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
            What::Begin(kind, name) => self.say(who, at, Told::Begin(kind), name, sink),
            What::End(name) => self.say(who, at, Told::End, name, sink),
            What::Counter(name, value) => self.say(who, at, Told::Counter(value), name, sink),
            What::Mark(name, value, text) => {
                let text = self.word(text);
                self.say(who, at, Told::Mark { value, text }, name, sink);
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

    /// Begins a life that was not told to begin. Where no states are told, a thread is not there before it is heard of.
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
            // What was there before the file is told as of its beginning.
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

    fn say(&mut self, who: Who, at: Timestamp, what: Told, name: Word, sink: &mut dyn FnMut(Event)) {
        let Some(person) = self.people.get(who.0 as usize) else { return };
        let (tgid, tid, lane) = (person.pid, person.tid, person.lane);
        let put = |what, name| Event::Tell(Tell { at, tgid, tid, lane, what, name });
        let runtime: Arc<str> = person.runtime.as_str().into();
        if !std::mem::replace(&mut self.stage(who).lane, true) {
            sink(put(Told::LaneStart, runtime));
        }
        sink(put(what, self.word(name)));
    }

    fn close_lane(&mut self, who: Who, at: Timestamp, sink: &mut dyn FnMut(Event)) {
        if std::mem::take(&mut self.stage(who).lane)
            && let Some(person) = self.people.get(who.0 as usize)
        {
            let (tgid, tid, lane) = (person.pid, person.tid, person.lane);
            sink(Event::Tell(Tell { at, tgid, tid, lane, what: Told::LaneEnd, name: self.none.clone() }));
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
