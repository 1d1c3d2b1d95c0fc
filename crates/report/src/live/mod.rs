//! What `holdup top` shows and `--metrics` tells of a running program: a screen, lines, JSON, and Prometheus' text. All of it is
//! made of [`Glance`]s, one stretch after the other; figures are theirs.

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
    /// What happened.
    pub glance: Glance,
    /// When it ended by the calendar (ns since 1970).
    pub unix_ns: u64,
    /// What was spent in the stretch.
    pub spent: Spent,
    /// Stretches before it that were not looked at: the machine was too busy.
    pub skipped: u64,
}

/// What holdup itself used.
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
    /// What watching took, as a share of all CPUs' time.
    fn own_share(&self) -> f64 {
        let spent = self.spent.recorder_cpu_ns + self.spent.kernel_cpu_ns;
        share(spent, self.glance.length_ns() * self.glance.cpus.len().max(1) as u64)
    }
}

/// What a wait is for: `lock-wait queue_lock`, or its reason where that says more than its class.
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

/// What a thread did last.
fn now(thread: &ThreadGlance) -> String {
    match &thread.now {
        Now::Unknown => "?".to_owned(),
        Now::Gone => "gone".to_owned(),
        Now::Running(cpu) => format!("on CPU {}", cpu.0),
        Now::Queued => "run-queue".to_owned(),
        Now::Waiting(key) => waiting_for(key),
    }
}
