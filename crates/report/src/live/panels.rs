//! Summaries of an interval, one line each.

use holdup_findings::glance::Glance;

use super::Moment;
use crate::numbers::{bytes, count, counted, duration, percent, share};
use crate::text::clean;

/// A process's name and number.
pub(super) fn named(name: &str, pid: u32) -> String {
    match name {
        "" => pid.to_string(),
        name => format!("{} ({pid})", clean(name)),
    }
}

/// Other processes that ran, in shares of one CPU. `None` if there were none.
pub(super) fn other_processes(glance: &Glance, count_max: usize) -> Option<String> {
    let said = glance.strangers.iter().filter(|other| other.ran_ns > 0).take(count_max).map(|other| {
        let ran = percent(share(other.ran_ns, glance.length_ns()));
        format!("{} {ran}", if other.kernel { clean(&other.name) } else { named(&other.name, other.pid) })
    });
    let said = said.collect::<Vec<_>>().join(", ");
    (!said.is_empty()).then_some(said)
}

/// Collections reported by runtimes.
pub(super) fn collections(glance: &Glance) -> Option<String> {
    let told = glance.collections.as_ref()?;
    let pauses = match told.pauses {
        0 => "no pause".to_owned(),
        pauses => format!(
            "{}, {} in all, {} the longest",
            counted(pauses, "pause"),
            duration(told.paused_ns),
            duration(told.longest_ns)
        ),
    };
    let runtimes = told.runtimes.iter().map(|name| clean(name)).collect::<Vec<_>>().join(", ");
    Some(format!("{runtimes}: {} minor, {} major, {pauses}", count(told.minor), count(told.major)))
}

/// The cost of the recording, and the losses.
pub(super) fn own(moment: &Moment) -> String {
    let mut text = format!(
        "holdup itself: {} of all CPUs ({} in the kernel), {}, lost {}",
        percent(moment.own_share()),
        duration(moment.spent.kernel_cpu_ns),
        bytes(moment.spent.memory_bytes),
        count(moment.glance.lost),
    );
    if moment.skipped > 0 {
        text.push_str(&format!(", {} not examined", counted(moment.skipped, "interval")));
    }
    text
}
