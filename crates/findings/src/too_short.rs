//! Recordings too short for a judgement: a few ticks of the scheduler and a handful of samples decide every share.

use holdup_events::Trace;

/// Minimum length of a recording that is judged (ns). It gives about 22 samples of a CPU at the default rate,
/// and 25 ticks of a kernel with 250 ticks per second. In a shorter run, the start of a process takes several
/// ms.
pub const JUDGED_NS_MIN: u64 = 100_000_000;

/// Modes in which holdup recorded the trace itself.
const RECORDED: [&str; 4] = ["run", "attach", "all", "watch"];

/// Whether holdup recorded the trace and its length is below [`JUDGED_NS_MIN`].
pub fn is_too_short(trace: &Trace) -> bool {
    RECORDED.contains(&trace.manifest.mode.as_str()) && trace.wall().0 < JUDGED_NS_MIN
}
