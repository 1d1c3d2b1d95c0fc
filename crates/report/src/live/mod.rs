//! Live output of `holdup top` and `--metrics` for a running program: a screen, lines, JSON, and Prometheus'
//! text format. All figures come from one [`Glance`] per interval.

mod bars;
mod batch;
mod json;
mod metrics;
mod order;
mod panels;
mod screen;

use holdup_findings::glance::{Glance, Now, ThreadGlance, WaitKey};

pub use batch::lines;
pub use json::to_json as moment_json;
pub use metrics::Metrics;
pub use screen::{Ask, Key, Screen};

use crate::numbers::share;
use crate::text::clean;

/// One stretch, and what watching it cost.
#[derive(Clone, Debug, Default)]
pub struct Moment {
    /// The events of the interval.
    pub glance: Glance,
    /// When it ended by the calendar (ns since 1970).
    pub unix_ns: u64,
    /// Cost in the interval.
    pub spent: Spent,
    /// Preceding intervals that were skipped because the machine was too busy.
    pub skipped: u64,
}

/// CPU time and memory of holdup itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// CPU time of the process (ns).
    pub recorder_cpu_ns: u64,
    /// CPU time of its programs in the kernel (ns).
    pub kernel_cpu_ns: u64,
    /// Greatest memory of the process so far (bytes).
    pub memory_bytes: u64,
}

impl Moment {
    /// Cost of the recording, as a share of all CPUs' time.
    fn own_share(&self) -> f64 {
        let spent = self.spent.recorder_cpu_ns + self.spent.kernel_cpu_ns;
        share(spent, self.glance.length_ns() * self.glance.cpus.len().max(1) as u64)
    }
}

/// Reason of a wait: `lock-wait queue_lock`, or the wait's reason if it is more specific than its class.
fn waiting_for(key: &WaitKey) -> String {
    let class = key.class.name();
    let reason = key.reason.name();
    let what = match key.object.as_str() {
        "" if class.starts_with(reason) => String::new(),
        "" => format!(" ({reason})"),
        object => format!(" {}", clean(object)),
    };
    format!("{class}{what}")
}

/// A thread's latest state.
fn now(thread: &ThreadGlance) -> String {
    match &thread.now {
        Now::Unknown => "?".to_owned(),
        Now::Gone => "exited".to_owned(),
        Now::Running(cpu) => format!("on CPU {}", cpu.0),
        Now::Queued => "run-queue".to_owned(),
        Now::Waiting(key) => waiting_for(key),
    }
}
