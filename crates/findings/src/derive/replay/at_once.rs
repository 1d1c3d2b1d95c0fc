//! Events that the recording cannot order. In a replay they may come in another order. A thread that then
//! takes a CPU first would change everything after it.

use std::cmp::Reverse;

use super::engine::{Engine, Grants};

/// Events at most this far apart may come in another order in a replay (ns).
const AT_ONCE_NS: u64 = 1_000;

impl Engine<'_> {
    /// Takes the first runnable thread out of the queue. Threads that came before it in the recording and
    /// become runnable within [`AT_ONCE_NS`] are let in first.
    pub(super) fn first_ready(&mut self) -> Option<u32> {
        while let Some(Reverse((rank, _))) = self.ready.peek().copied()
            && self.grants == Grants::Recorded
        {
            let next = self.model.others.get(self.others).map(|(at, _)| *at);
            if let Some(at) = next.filter(|at| *at < rank && *at <= self.now.saturating_add(AT_ONCE_NS)) {
                self.queue_other_programs(at);
                break;
            }
            let Some(who) = self.almost_ready(rank).or_else(|| self.almost_due(rank)) else { break };
            self.is_due(who);
            while let Some(who) = self.woken.pop() {
                self.go_on(who);
            }
        }
        self.ready.pop().map(|Reverse((_, who))| who)
    }

    /// A thread whose delay ends within [`AT_ONCE_NS`] and whose next step was recorded before `rank`.
    fn almost_ready(&mut self, rank: u64) -> Option<u32> {
        while let Some(Reverse((idle_ns, who))) = self.lags.peek().copied()
            && idle_ns <= self.idle_ns.saturating_add(AT_ONCE_NS)
        {
            if self.threads[who as usize].lag == idle_ns {
                return self.is_before(who, rank).then_some(who);
            }
            self.lags.pop();
        }
        None
    }

    /// A thread whose absence ends within [`AT_ONCE_NS`] and whose next step was recorded before `rank`.
    fn almost_due(&mut self, rank: u64) -> Option<u32> {
        while let Some(Reverse((at, who))) = self.due.peek().copied()
            && at <= self.now.saturating_add(AT_ONCE_NS)
        {
            let thread = self.threads.get(who as usize)?;
            if thread.due == at {
                return (!thread.on_cpu && self.is_before(who, rank)).then_some(who);
            }
            self.due.pop();
        }
        None
    }

    fn is_before(&self, who: u32, rank: u64) -> bool {
        let thread = &self.threads[who as usize];
        let following = self.model.steps.get(thread.next as usize).filter(|_| thread.next < thread.end);
        following.is_some_and(|following| following.at < rank)
    }
}
