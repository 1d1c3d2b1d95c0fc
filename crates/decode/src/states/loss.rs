//! What a loss makes doubtful.

use holdup_events::tables::ThreadState;
use holdup_events::{CpuId, Loss};

use super::Builder;
use super::live::Now;

impl Builder<'_> {
    /// Scheduler records of a CPU are missing: a followed thread that ran there may have left, and one that
    /// did not run may have run there. Its next records will tell, by the kernel's counters.
    pub(super) fn doubt(&mut self, loss: &Loss) {
        if loss.source == "proc" {
            self.late_poll = Some(loss.end);
        }
        if !matches!(loss.source.as_str(), "sched" | "journal" | "perf") {
            return;
        }
        for live in self.live.all_mut().filter(|live| live.target) {
            let concerned = match live.now {
                Now::Running { cpu, .. } => loss.cpu == CpuId::NONE || cpu == loss.cpu,
                Now::Off => live.open.state != ThreadState::Untracked,
                Now::Gone => false,
            };
            if concerned {
                let (from, to) = live.doubt.unwrap_or((loss.start, loss.end));
                live.doubt = Some((from.min(loss.start), to.max(loss.end)));
            }
        }
    }
}
