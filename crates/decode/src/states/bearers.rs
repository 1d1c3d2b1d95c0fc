//! The current or last process of each tgid.
//!
//! The kernel reuses a tgid only when its process has no thread left. The first thread may end before the
//! others (`pthread_exit` in main), and any thread may be the first to see `exit_group`. Events of a process
//! may arrive even later.

use std::collections::HashMap;

use holdup_events::ProcessId;

/// Bearers of numbers, by number.
#[derive(Debug, Default)]
pub(super) struct Bearers {
    by_tgid: HashMap<u32, Bearer>,
}

#[derive(Debug)]
struct Bearer {
    process: ProcessId,
    /// The first thread has ended.
    first_ended: bool,
    /// Threads that are known to be there.
    living: u32,
}

impl Bearers {
    /// The last process with this tgid.
    pub fn last(&self, tgid: u32) -> Option<ProcessId> {
        self.by_tgid.get(&tgid).map(|bearer| bearer.process)
    }

    /// Whether the last process with this tgid has no thread left.
    pub fn is_over(&self, tgid: u32) -> bool {
        self.by_tgid.get(&tgid).is_some_and(|bearer| bearer.first_ended && bearer.living == 0)
    }

    /// Whether a new thread belongs to a new process. That is so if the last process with its tgid has ended,
    /// or if a first thread is born, because a process has only one.
    pub fn is_new(&self, tid: u32, tgid: u32, began_before: bool) -> bool {
        let is_over = |bearer: &Bearer| bearer.living == 0 || (tid == tgid && !began_before);
        self.by_tgid.get(&tgid).is_some_and(|bearer| bearer.first_ended && is_over(bearer))
    }

    /// The number is that process'.
    pub fn give(&mut self, tgid: u32, process: ProcessId) {
        self.by_tgid.insert(tgid, Bearer { process, first_ended: false, living: 0 });
    }

    /// The bearer has a thread more.
    pub fn begin(&mut self, tgid: u32) {
        if let Some(bearer) = self.by_tgid.get_mut(&tgid) {
            bearer.living += 1;
        }
    }

    /// A thread of `process` has ended.
    pub fn end(&mut self, tgid: u32, process: ProcessId, is_first: bool) {
        if let Some(bearer) = self.by_tgid.get_mut(&tgid).filter(|bearer| bearer.process == process) {
            bearer.living = bearer.living.saturating_sub(1);
            bearer.first_ended |= is_first;
        }
    }

    /// Another thread is the first now.
    pub fn take_over(&mut self, tgid: u32) {
        if let Some(bearer) = self.by_tgid.get_mut(&tgid) {
            bearer.first_ended = false;
        }
    }
}
