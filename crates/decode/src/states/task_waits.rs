//! Waits of runtimes' tasks, and when they were looked for.

use std::collections::BTreeMap;

use holdup_events::event::{TaskWait, TaskWindow};
use holdup_events::tables::{TaskWaitRow, TaskWaits, TaskWindowRow};
use holdup_events::{ProcessId, Timestamp};

use super::Builder;

/// Task waits so far.
#[derive(Default)]
pub(super) struct Tasks {
    all: TaskWaits,
    /// Start of the open window, by process.
    open: BTreeMap<ProcessId, Timestamp>,
}

impl Tasks {
    fn window(&mut self, process: ProcessId, at: Timestamp, opens: bool) {
        let before = match opens {
            true => self.open.insert(process, at),
            false => self.open.remove(&process),
        };
        if let Some(start) = before {
            self.all.windows.push(TaskWindowRow { process, start, end: at.max(start) });
        }
    }

    /// All that is open ends with the recording.
    pub(super) fn finish(mut self, end: Timestamp) -> TaskWaits {
        let open: Vec<ProcessId> = self.open.keys().copied().collect();
        open.into_iter().for_each(|process| self.window(process, end, false));
        self.all
    }
}

impl Builder<'_> {
    /// A wait from before the recording begins with it. A wait from before its window begins with the window.
    pub(super) fn task_wait(&mut self, event: &TaskWait) {
        let waiter = self.last_of(event.tid, event.tgid);
        let waker = (event.waker_tid != 0).then(|| self.last_of(event.waker_tid, event.tgid));
        let (tgid, end) = (self.names.process(event.tgid), event.at.max(self.start));
        let looked = self.tasks.open.get(&tgid).copied();
        let begins = match event.object {
            0 => looked.map_or(end, |looked| looked.max(event.since)),
            _ => event.since,
        };
        self.tasks.all.rows.push(TaskWaitRow {
            thread: self.live.at(waiter).id,
            start: begins.clamp(self.start, end),
            end,
            object: event.object,
            stack: self.names.intern_stack(event.stack),
            waker: waker.map(|waker| self.live.at(waker).id),
            waker_stack: self.names.intern_stack(event.waker_stack),
            channel: event.channel,
        });
    }

    pub(super) fn task_window(&mut self, event: &TaskWindow) {
        let process = self.names.process(event.tgid);
        self.tasks.window(process, event.at.max(self.start), event.opens);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_end_where_they_are_closed_and_with_the_recording() {
        let mut tasks = Tasks::default();
        let (one, other) = (ProcessId(1), ProcessId(2));
        for (process, at, opens) in [
            (one, 10, true),
            (other, 12, true),
            (one, 15, false),
            (one, 17, false),
            (one, 20, true),
            (one, 22, true),
        ] {
            tasks.window(process, Timestamp(at), opens);
        }
        let windows = tasks.finish(Timestamp(30)).windows;
        let row =
            |process, start, end| TaskWindowRow { process, start: Timestamp(start), end: Timestamp(end) };
        assert_eq!(windows, [row(one, 10, 15), row(one, 20, 22), row(one, 22, 30), row(other, 12, 30)]);
    }
}
