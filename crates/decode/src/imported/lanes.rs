//! Threads of files that say nothing of a scheduler: each lane of a runtime is one, of whose states nothing is known.

use holdup_events::event::{Lifecycle, LifecycleChange, Snapshot, SnapshotState};
use holdup_events::{Event, Timestamp};

/// One of them.
#[derive(Clone, Debug)]
pub(crate) struct LaneThread {
    pub tid: u32,
    pub pid: u32,
    pub name: String,
}

impl LaneThread {
    /// It is there from `at` on; it was born then, if that is after the start of the file.
    pub fn begin(&self, at: Timestamp, start: Timestamp, sink: &mut dyn FnMut(Event)) {
        if at > start {
            sink(Event::Lifecycle(Lifecycle {
                at,
                change: LifecycleChange::Fork { parent_tid: self.pid },
                tid: self.tid,
                tgid: self.pid,
                name: self.name.clone(),
                target: true,
            }));
        }
        self.look(at, SnapshotState::Untracked, sink);
    }

    /// What is seen of it.
    pub fn look(&self, at: Timestamp, state: SnapshotState, sink: &mut dyn FnMut(Event)) {
        sink(Event::Snapshot(Snapshot {
            at,
            tid: self.tid,
            tgid: self.pid,
            parent_tgid: 0,
            name: self.name.clone(),
            target: true,
            state,
            exec_ns: None,
            queue_ns: None,
        }));
    }
}
