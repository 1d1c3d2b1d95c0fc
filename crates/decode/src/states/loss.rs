//! What a loss makes doubtful.

use holdup_events::tables::ThreadState;
use holdup_events::{CpuId, Loss};

use super::Builder;
use super::live::{Now, UNTIL_TOLD};

impl Builder<'_> {
    /// Scheduler records of a CPU are missing. A recorded thread that ran there may have left, and one that
    /// did not run may have run there. The kernel's counters in its next records resolve this.
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
                // A journal may lack any event of a thread, including the last one.
                let end = if is_journals { UNTIL_TOLD } else { loss.end };
                let (from, to) = live.doubt.unwrap_or((loss.start, end));
                live.doubt = Some((from.min(loss.start), to.max(end)));
            }
        }
    }
}
