//! Threads that are only polled (backend `proc`). States between two polls are estimated from the kernel's
//! counters. Totals are correct, but the order within a step is unknown.

use holdup_events::event::{Snapshot, SnapshotState};
use holdup_events::tables::{SliceRow, TableSink, ThreadState};
use holdup_events::{CpuId, Duration, Timestamp};

use super::live::{Live, Now, Waited};

/// One poll of one thread.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// When.
    pub at: Timestamp,
    /// Up to this time, polls were late.
    pub late_until: Option<Timestamp>,
}

impl Live {
    /// Fills the time since the last poll. After a late poll, a thread with an unchanged wait is assumed to
    /// have waited all the time. For any other thread, the wait is unknown.
    pub fn poll(&mut self, look: Look, snapshot: &Snapshot, waited: Waited, sink: &mut dyn TableSink) {
        let at = look.at;
        let grown = |now: Option<u64>, before: Option<u64>| match (now, before) {
            (Some(now), Some(before)) => Some(Duration(now.saturating_sub(before))),
            _ => None,
        };
        let ran = grown(snapshot.exec_ns, self.exec_ns);
        let queued = grown(snapshot.queue_ns, self.queue_ns);
        // The kernel adds a wait for a CPU when it is over. To block, a thread would have had to run.
        let queues = snapshot.state == SnapshotState::Runnable
            && matches!(self.open.state, ThreadState::Running | ThreadState::Runnable)
            && (ran, queued) == (Some(Duration::ZERO), Some(Duration::ZERO));
        let since = self.polled_at.unwrap_or(self.open.start);
        let cpu = match snapshot.state {
            SnapshotState::Running(cpu) => cpu,
            _ => CpuId::NONE,
        };
        let late = look.late_until.is_some_and(|until| (since..=at).contains(&until) && since < until);
        let same = matches!(snapshot.state, SnapshotState::Blocked(_))
            && (self.open.state, self.open.wait) == (ThreadState::Blocked, waited.wait);
        // The source does not record why a thread is off its CPU.
        let rest = match snapshot.state {
            SnapshotState::Untracked => ThreadState::Unknown,
            _ if queues => ThreadState::Runnable,
            _ if late && !same => ThreadState::Unknown,
            _ => ThreadState::Blocked,
        };
        if let (Some(ran), Some(queued)) = (ran, queued) {
            let queued = self.newly_queued(queued, if queues { at.since(since) } else { Duration::ZERO });
            self.fill_step((since, at), (ran, queued), rest, (cpu, waited), sink);
        } else if late {
            sink.slice(self.row(rest, since));
        }
        self.exec_ns = snapshot.exec_ns;
        self.queue_ns = snapshot.queue_ns;
        self.polled_at = Some(at);
        self.doubt = None;
        self.now = Now::Off;
        let mut row = self.row(ThreadState::Unknown, at);
        match snapshot.state {
            SnapshotState::Running(cpu) => (row.state, row.cpu) = (ThreadState::Running, cpu),
            SnapshotState::Runnable => row.state = ThreadState::Runnable,
            SnapshotState::Blocked(_) => (row.state, row.wait) = (ThreadState::Blocked, waited.wait),
            SnapshotState::Dead | SnapshotState::Untracked => {}
        }
        self.open = row;
    }

    /// The kernel's increase of a thread's run-queue delay, minus the time already attributed. `known`: time
    /// that is attributed now, before the kernel counts it.
    fn newly_queued(&mut self, queued: Duration, known: Duration) -> Duration {
        if known > Duration::ZERO {
            self.queued_ahead += known;
            return queued;
        }
        let ahead = std::mem::take(&mut self.queued_ahead);
        Duration(queued.0.saturating_sub(ahead.0))
    }

    /// The step `since..at`: first running, then waiting for a CPU, then in state `rest`.
    fn fill_step(
        &mut self,
        (since, at): (Timestamp, Timestamp),
        (ran, queued): (Duration, Duration),
        rest: ThreadState,
        (cpu, waited): (CpuId, Waited),
        sink: &mut dyn TableSink,
    ) {
        let since = since.max(self.open.start);
        let blocked_wait = if self.open.state == ThreadState::Blocked { self.open.wait } else { waited.wait };
        let running_end = (since + ran).min(at);
        let queue_end = (running_end + queued).min(at);
        let steps = [
            (ThreadState::Running, since, running_end),
            (ThreadState::Runnable, running_end, queue_end),
            (rest, queue_end, at),
        ];
        for (state, start, _) in steps.into_iter().filter(|(_, start, end)| start < end) {
            let mut row: SliceRow = self.row(state, start);
            match state {
                ThreadState::Running => row.cpu = cpu,
                ThreadState::Blocked => row.wait = blocked_wait,
                _ => {}
            }
            sink.slice(row);
        }
    }
}
