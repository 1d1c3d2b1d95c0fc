//! What a loss makes doubtful.

use holdup_events::tables::ThreadState;
use holdup_events::{CpuId, Loss};

use super::Builder;
use super::live::{Now, UNTIL_TOLD};

impl Builder<'_> {
    /// Scheduler records of a CPU are missing: a followed thread that ran there may have left, and one that
    /// did not run may have run there. Its next records will tell, by the kernel's counters.
    pub(super) fn doubt(&mut self, loss: &Loss) {
        let is_journals = loss.source == "journal";
        if loss.source == "proc" || is_journals {
            self.late_poll = Some(loss.end);
        }
        if !matches!(loss.source.as_str(), "sched" | "journal" | "perf" | "perf-sched") {
            return;
        }
        for live in self.live.all_mut().filter(|live| live.target) {
            let concerned = match live.now {
                Now::Running { cpu, .. } => loss.cpu == CpuId::NONE || cpu == loss.cpu,
                Now::Off => live.open.state != ThreadState::Untracked,
                Now::Gone => false,
            };
            if concerned {
                // What a journal lacks may be anything that a thread did, also what it did last.
                let end = if is_journals { UNTIL_TOLD } else { loss.end };
                let (from, to) = live.doubt.unwrap_or((loss.start, end));
                live.doubt = Some((from.min(loss.start), to.max(end)));
            }
        }
    }
}
