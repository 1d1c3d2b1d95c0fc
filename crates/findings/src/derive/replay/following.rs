//! Threads that run until a stop request ("followers") keep pace with the threads that decide when to stop
//! ("deciders"). A follower does the work that it had done in the recording when the deciders were at their
//! current step. It leaves out the rest.

use super::engine::{Engine, Grants};
use super::steps::{Kind, Step};

/// A follower leaves nothing out while it is behind by less than 1 / this of the deciders' progress. Steps
/// may come in a slightly different order.
const BEHIND_MIN: u64 = 50;

impl Engine<'_> {
    /// Progress of a follower's deciders in the recording (ns since its start). `None` if the thread has work
    /// of its own.
    pub(super) fn pace(&self, who: u32) -> Option<u64> {
        let follower = self.model.followers.get(who as usize)?.as_ref()?;
        let far = follower.deciders.iter().map(|decider| self.reached(*decider)).max()?;
        Some(far.min(follower.until))
    }

    /// The same, if the thread is behind by more than the slack.
    fn pace_if_behind(&self, who: u32, at: u64) -> Option<u64> {
        let pace = self.pace(who)?;
        let is_told = self.model.followers[who as usize].as_ref().is_some_and(|one| pace == one.until);
        let slack = if is_told { 0 } else { pace / BEHIND_MIN };
        (pace > at + slack).then_some(pace)
    }

    /// The next step of a thread, or the rest of it. Signals in steps that were left out have been sent.
    pub(super) fn next_step(&mut self, who: u32) -> Step {
        let mut next = self.threads[who as usize].next;
        let step = self.model.steps[next as usize];
        let Some(pace) = self.pace_if_behind(who, step.at) else { return step };
        loop {
            let step = self.model.steps[next as usize];
            let behind = self.step_ends(who, next);
            if step.at >= pace || behind.is_none_or(|behind| pace < behind) {
                self.threads[who as usize].next = next;
                return behind.map_or(step, |behind| rest(step, pace, behind));
            }
            self.leave_out(who, step);
            next += 1;
        }
    }

    /// End of a step in the recording, taken from the start of the thread's next step.
    fn step_ends(&self, who: u32, step: u32) -> Option<u64> {
        let following = (step + 1 < self.threads[who as usize].end).then_some(step as usize + 1)?;
        self.model.steps.get(following).map(|following| following.at)
    }

    /// Shortens the run step of a follower that is behind its deciders.
    pub(super) fn catch_up_run(&mut self, who: u32) {
        let Some(pace) = self.pace_if_behind(who, self.recorded(who)) else { return };
        let number = self.threads[who as usize].next - 1;
        let Some(behind) = self.step_ends(who, number) else { return };
        let step = self.model.steps[number as usize];
        if step.kind == Kind::Run {
            let thread = &mut self.threads[who as usize];
            thread.left = thread.left.min(u64::from(rest(step, pace, behind).arg));
            thread.done = pace.min(behind) - step.at;
        }
    }

    fn leave_out(&mut self, who: u32, step: Step) {
        match step.kind {
            Kind::Signal => self.send(step.arg),
            Kind::Give if self.grants == Grants::Fifo => self.let_go(who, step.arg),
            _ => {}
        }
    }
}

/// Rest of a step that lasted until `behind`, for a thread that begins it at `pace`.
fn rest(step: Step, pace: u64, behind: u64) -> Step {
    let lasts = matches!(step.kind, Kind::Run | Kind::Away | Kind::Lag);
    if !lasts || pace <= step.at || behind <= step.at {
        return step;
    }
    let share = behind.saturating_sub(pace) as f64 / (behind - step.at) as f64;
    Step { at: pace.min(behind), arg: (f64::from(step.arg) * share) as u32, ..step }
}
