//! State at a moment, from all earlier events: what each thread does, what processes have mapped, which spans
//! are open. A recording that starts in the middle begins with this state ([`Standing::emit`]).
//!
//! Events may arrive slightly out of order. If two events concern the same state, the one with the later time
//! counts.

mod lanes;
mod threads;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::event::{ObjectName, RawMapping, TaskWindow};
use crate::{Duration, Event, ObjectKind, Timestamp};

use lanes::Lanes;
pub use threads::{Doing, StandingThread, Threads};

/// How long dead threads are remembered. A late event must not revive them.
const DEAD_KEPT: Duration = Duration(2_000_000_000);
/// Names of objects that are kept.
const NAMES_MAX: usize = 1 << 16;
/// Mappings of one process that are kept, the newest.
const MAPPINGS_MAX: usize = 1 << 14;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Standing {
    threads: Threads,
    /// By process, in the order of arrival. Shared with copies until they change.
    mappings: BTreeMap<u32, Arc<Vec<RawMapping>>>,
    lanes: Lanes,
    names: BTreeMap<(ObjectKind, u64), ObjectName>,
    /// The latest window event of each process.
    task_windows: BTreeMap<u32, TaskWindow>,
    newest: Timestamp,
}

impl Standing {
    /// Takes the next event. Stacks and samples leave nothing behind.
    pub fn fold(&mut self, event: &Event) {
        self.newest = self.newest.max(event.at());
        match event {
            Event::Switch(switch) => self.threads.switch(switch),
            Event::Waking(waking) => self.threads.waking(waking),
            Event::Lifecycle(change) => self.threads.lifecycle(change),
            Event::Snapshot(snapshot) => self.threads.snapshot(snapshot),
            Event::Affinity(affinity) => self.threads.affinity(affinity),
            Event::Loss(loss) => self.threads.doubt(loss),
            Event::Mapping(mapping) => self.map(mapping),
            Event::Runtime(tell) => self.lanes.fold(tell),
            Event::ObjectName(name) => self.name(name),
            Event::TaskWindow(window) => self.task_window(window),
            Event::Stack(_)
            | Event::Sample(_)
            | Event::SyscallCount(_)
            | Event::Calls(_)
            | Event::Allocated(_)
            | Event::Freed(_)
            | Event::Counted(_)
            | Event::Fault(_)
            | Event::TaskWait(_)
            | Event::Watched(_) => {}
        }
    }

    /// State of each thread.
    pub fn threads(&self) -> &Threads {
        &self.threads
    }

    /// The time of the newest event.
    pub fn newest(&self) -> Timestamp {
        self.newest
    }

    /// Forgets dead threads and their state.
    pub fn purge(&mut self) {
        let forgotten = self.threads.forget_dead(self.newest - DEAD_KEPT);
        let living = self.threads.processes();
        self.mappings.retain(|tgid, _| living.contains(tgid));
        self.task_windows.retain(|tgid, _| living.contains(tgid));
        // One of which nothing is known may live: its birth may have been lost.
        let is_others =
            |tgid, tid| self.threads.get(tid).is_some_and(|thread| thread.tgid != 0 && thread.tgid != tgid);
        self.lanes.retain(
            |tgid| living.contains(&tgid),
            |tgid, tid| forgotten.contains(&tid) || is_others(tgid, tid),
        );
    }

    /// Emits the events that describe the whole state, as of `at`.
    pub fn emit(&self, at: Timestamp, sink: &mut dyn FnMut(Event)) {
        let mut mappings: Vec<&RawMapping> =
            self.mappings.values().flat_map(|mappings| mappings.iter()).collect();
        mappings.sort_by_key(|mapping| mapping.at);
        mappings.into_iter().for_each(|mapping| sink(Event::Mapping(mapping.clone())));
        self.threads.emit(at, sink);
        self.lanes.emit_open(at, sink);
        let open = self.task_windows.values().filter(|window| window.opens);
        open.for_each(|window| sink(Event::TaskWindow(TaskWindow { at, ..*window })));
        self.names.values().for_each(|name| sink(Event::ObjectName(ObjectName { at, ..name.clone() })));
    }

    fn map(&mut self, new: &RawMapping) {
        let mappings = Arc::make_mut(self.mappings.entry(new.tgid).or_default());
        let is_hidden = |old: &RawMapping| old.at <= new.at && old.start >= new.start && old.end <= new.end;
        mappings.retain(|old| !is_hidden(old));
        if mappings.len() >= MAPPINGS_MAX {
            mappings.remove(0);
        }
        mappings.push(new.clone());
    }

    fn task_window(&mut self, window: &TaskWindow) {
        let last = self.task_windows.entry(window.tgid).or_insert(*window);
        if last.at <= window.at {
            *last = *window;
        }
    }

    fn name(&mut self, name: &ObjectName) {
        let key = (name.kind, name.object);
        if self.names.len() >= NAMES_MAX && !self.names.contains_key(&key) {
            self.names.pop_first();
        }
        self.names.insert(key, name.clone());
    }
}

#[cfg(test)]
mod tests;
