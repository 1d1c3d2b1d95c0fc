//! Threads of files without scheduler data: each lane of a runtime is a thread with unknown states.

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
    /// Emits the thread's start. It is a fork if `at` is after the start of the file.
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

    /// Emits a snapshot of the thread.
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
