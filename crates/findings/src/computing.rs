//! The summary of a compute-bound program: its own work takes nearly all CPU time, and no other cause with a
//! large gain was found. The remaining advice is to make this work faster, or to do less of it.

use holdup_events::Trace;

use crate::analysis::Analysis;
use crate::derive::busiest;
use crate::derive::class::Class;
use crate::finding::{Confidence, Finding};
use crate::rules;
use crate::wording::{count, percent};

/// From such a part of the CPUs' time (0 to 1) on, what a program is slow for may be its work, ...
const MUCH: f64 = 0.8;
/// ... or at least this share if not even a hint is worth more than a tenth, ...
const MUCH_ALONE: f64 = 0.6;
/// ... or if with what the kernel does for it hardly anything is left, ...
const ALL: f64 = 0.9;
/// ... unless there is a cause, and no mere hint, which is worth more than this.
const CAUSE_MIN: f64 = 0.1;

/// The summary of a compute-bound program.
#[derive(Clone, Debug, PartialEq)]
pub struct Computes {
    /// Which part of the time of the CPUs that it may use is its useful work (0 to 1).
    pub share: f64,
    /// Half the width of its 95 % interval: it is sampled.
    pub error: f64,
    /// Sentences, for people.
    pub summary: Vec<String>,
    /// Actions to try, one each.
    pub advice: Vec<String>,
}

/// The summary, if useful work takes nearly all CPU time and no other cause was found.
pub fn summarize(trace: &Trace, analysis: &Analysis) -> Option<Computes> {
    let share = share(trace, analysis)?;
    let derived = &analysis.derived;
    let ledger = &derived.ledger;
    let error = share * ledger.error_ns(Class::Useful) as f64 / ledger.class_ns(Class::Useful).max(1) as f64;
    let in_what = derived.busiest.as_ref().map(|busiest| {
        let (part, off) = (percent(busiest.share), percent(busiest.error));
        let mostly = busiest.mostly_in.as_ref().map(|(callee, _)| format!(" (mostly in {callee})"));
        let for_whom = busiest.called_for.as_ref().map(|(name, _)| format!(" for {name}"));
        let (mostly, for_whom) = (mostly.unwrap_or_default(), for_whom.unwrap_or_default());
        format!(", {part} ± {off} of it in {}{mostly}{for_whom}", busiest.function)
    });
    let does = format!(
        "Compute-bound: the CPUs ran the program's own work for {} ± {} of their time{}.",
        percent(share),
        percent(error),
        in_what.unwrap_or_default()
    );
    let known = derived.known_work.as_ref();
    let sizes = "Check whether the time grows faster than the input, and in which function: holdup sweep --size N=1k,2k,4k -- CMD {N}";
    let advice = known.map(|known| known.advice.clone()).into_iter().chain([
        "Make this work faster, or do less of it: no other change gains more".to_owned(),
        sizes.to_owned(),
    ]);
    Some(Computes {
        share,
        error,
        summary: std::iter::once(does)
            .chain(known.map(|known| known.sentence()))
            .chain(queued(analysis))
            .collect(),
        advice: advice.collect(),
    })
}

/// Minimum share of all thread time in the run queue behind own threads, for the note on their number.
const QUEUE_MIN: f64 = 0.05;

/// A note for a program with more runnable threads than CPUs, if that is no finding.
fn queued(analysis: &Analysis) -> Option<String> {
    let derived = &analysis.derived;
    let (runnable, cpus) = (derived.parallelism.wanting_mean(), derived.occupancy.cpus);
    let is_much = derived.ledger.run_queue.own_ns as f64 >= QUEUE_MIN * derived.ledger.total_ns as f64;
    let is_found = analysis.findings.iter().any(rules::is_about_thread_count);
    (is_much && !is_found && runnable > f64::from(cpus)).then(|| {
        format!(
            "On average {runnable:.1} threads were runnable on {}. Fewer threads would have the same work.",
            count(u64::from(cpus), "CPU")
        )
    })
}

fn share(trace: &Trace, analysis: &Analysis) -> Option<f64> {
    let derived = &analysis.derived;
    let useful = busiest::useful_of_cpus(trace, &derived.ledger, (&derived.cpus, derived.occupancy.cpus));
    let worth = |finding: &&Finding| finding.gain.high >= CAUSE_MIN;
    let mut worthy = analysis.findings.iter().filter(worth).peekable();
    let least = if worthy.peek().is_some() { MUCH } else { MUCH_ALONE };
    let is_told = worthy.any(|finding| finding.confidence > Confidence::Low);
    // Its memory is given to it in the kernel: that is part of the work.
    let with_kernel = useful
        * (1.0
            + derived.ledger.class_ns(Class::Kernel) as f64
                / derived.ledger.class_ns(Class::Useful).max(1) as f64);
    let is_much = useful >= least || useful >= MUCH_ALONE && with_kernel >= ALL;
    // Where others have the CPUs, little of the program's own is all that is left of them.
    let wants_ns = derived.ledger.running_ns() + derived.ledger.class_ns(Class::RunQueue);
    let wants = wants_ns as f64 >= MUCH * trace.wall().0 as f64;
    (derived.ledger.split_known && wants && is_much && !is_told).then_some(useful)
}
