//! A woken thread may preempt a running one. Linux's scheduler prefers threads that have slept.

use std::cmp::Reverse;

use super::engine::{Engine, Grants, NEVER};

impl Engine<'_> {
    /// Woken threads preempt running threads whose current work came later in the recording. If the running
    /// work came earlier, the preemption is checked again once it has caught up. Only woken threads preempt,
    /// because two threads that share a CPU would otherwise preempt each other without end.
    pub(super) fn preempt(&mut self) {
        while let Some(who) = self.newly_woken.pop() {
            if self.grants == Grants::Recorded && self.threads[who as usize].is_woken {
                self.preempt_for(who);
            }
        }
    }

    fn preempt_for(&mut self, woken: u32) {
        let place = |who: &u32| {
            let thread = &self.threads[*who as usize];
            let at = self.recorded(*who).saturating_add(self.now - thread.since);
            (!thread.keeps).then(|| (at.max(self.pace(*who).map_or(0, |pace| pace.saturating_add(1))), *who))
        };
        let Some((at, who)) = self.running.iter().filter_map(place).max() else { return };
        let wanted = if self.threads[woken as usize].keeps { 0 } else { self.turn(woken) };
        if at <= wanted {
            return self.look_again(who, (wanted - at).saturating_add(1));
        }
        self.ran(who);
        self.threads[who as usize].due = NEVER;
        self.release(who);
        self.queue(who);
        self.dispatch();
    }

    /// A running thread's piece ends after so long, if not before (ns).
    fn look_again(&mut self, who: u32, ns: u64) {
        let thread = &mut self.threads[who as usize];
        let then = self.now.saturating_add(ns);
        if then < thread.due {
            thread.due = then;
            self.due.push(Reverse((then, who)));
        }
    }
}
