//! The changes that remove a finding's cause in a replay, and the resulting gain.
//!
//! A forecast is about the same program without the cause, and about no single remedy. The lower bound
//! removes only the certain part: threads do not wait for a lock, and make no syscalls for it. The upper
//! bound also removes the possible part: the functions that take the lock. The forecast lies between the two
//! bounds, each with its error.

mod calls;
mod causes;
pub mod collectors;
mod division;
pub mod estimate;
mod forks;
mod peers;

use std::cell::OnceCell;

use holdup_events::recording::Backend;
use holdup_events::{ThreadId, Trace};

use crate::analysis::Derived;
use crate::charge::Charge;
use crate::derive::bound_threads;
use crate::derive::class::Class;
use crate::derive::handing::Handing;
use crate::derive::inverted;
use crate::derive::lock_calls::LockCalls;
use crate::derive::locks::LockUse;
use crate::derive::occupancy::FAIR_PART;
use crate::derive::replay::{Change, Facts, Forecast, Replays, forecast_between, unforeseen};
use crate::derive::round_trips;
use crate::finding::{Confidence, Finding, Gain};
use crate::low_cpu_waiters;
use crate::merging::Charged;
use crate::rules;

pub use causes::{TASKS_LEFT, herd_calls, lock};

/// Longer traces (in slices) are not replayed for each finding: that would take longer than all the rest. `holdup
/// whatif` replays them.
const SLICES_MAX: usize = 1_000_000;
/// Maximum number of slices for a replay of the findings with the largest upper bounds.
const SLICES_SOME: usize = 2_000_000;
/// How many findings these are.
const SOME: usize = 5;

/// Rules whose gain is forecast.
const FORECAST: [&str; 26] = [
    "lock-contention",
    "spin-wait",
    "serial-section",
    "oversubscription",
    "noisy-neighbour",
    "blocking-io",
    "sync-per-item",
    "temporary-file-per-item",
    "syscall-storm",
    "tiny-io",
    "retry-storm",
    "status-poll",
    "tlb-shootdown",
    "subprocess-per-item",
    "wakeup-ping-pong",
    "interpreter-lock",
    "blocked-lock-holder",
    "preempted-lock-holder",
    "lock-convoy",
    "thundering-herd",
    "delayed-ack",
    "fork-pause",
    "fine-tasks",
    "pool-exhausted",
    "answer-timeout",
    "connect-retry",
];

/// Rules that compute the saving exactly. Their gain still gets the margin for unforeseen effects of a
/// replay.
const COMPUTED: [&str; 9] = [
    "load-imbalance",
    "poll-loop",
    "cpu-throttled",
    "pinned-together",
    "page-fault-storm",
    "memory-reclaim",
    "mapped-file-faults",
    "allocation-hotspot",
    "stop-the-world-latecomer",
];

/// Share of all thread time below which a cause that may gain nothing is a hint. A higher cost is real, even
/// if a replay does not show the effect of its removal.
const COSTS_LITTLE: f64 = 0.1;

/// Waits for the outside, which healthy programs have too: the first read of a file, the last sleep of a
/// housekeeping thread.
const OUTSIDE: [&str; 2] = ["blocking-io", "oversleep"];

/// Margin of both bounds, as a share of the run. No two runs take equally long, and a fix changes slightly
/// more than the cause. On a quiet machine, 84 % of 98 pairs of programs lay between the bounds without the
/// margin, and 86 % with it. For 48 other pairs, which were not used to choose it, it was 73 % and 79 %.
const OFF: f64 = 0.02;

/// Maximum recording cost, as a share of the run, that a forecast is corrected for in proportion.
const RECORDING_MAX: f64 = 0.5;

/// Minimum lower bound of a gain. Below it, the gain may be nothing.
pub const SURELY: f64 = 0.01;

/// Sentence on the gain if threads work until a timer expires.
const BY_TIMER: &str =
    "The run ends when a timer expires: the gain is more work per second, not a shorter run.";

/// Changes that remove a cause.
#[derive(Clone, Debug, Default)]
pub struct Removal {
    /// Changes that certainly remove the cause.
    pub least: Vec<Change>,
    /// Changes that possibly go with the cause.
    pub most: Vec<Change>,
}

impl Removal {
    /// A removal with equal bounds.
    pub fn exact(changes: Vec<Change>) -> Removal {
        Removal { least: changes.clone(), most: changes }
    }

    /// The assumptions, in words.
    pub fn assumptions(&self) -> &'static str {
        match self.most.first() {
            Some(Change::WithoutLock(_)) => {
                "Assumes that locked sections run in parallel, take as long as before, and need no sleeps or wakeups. Upper bound: the lock is never taken"
            }
            Some(Change::WithoutClass(Class::RunQueue)) => "Assumes a CPU for every runnable thread",
            Some(Change::WithoutOthers) => "Assumes that other programs use no CPU",
            Some(Change::Ran(speed)) if speed.is_spread() => {
                "Assumes that all CPUs share what one thread did alone. Lower bound: three quarters of the added speed"
            }
            Some(Change::Ran(_)) => "Assumes that the removed code takes the CPU time that samples show",
            _ => "Assumes that these waits complete immediately",
        }
    }
}

/// The changes that remove a finding's cause. `None` if a replay cannot leave the cause out. `calls` is
/// computed for the first lock, and reused for the others.
pub fn of_finding<'a>(
    facts: Facts<'a>,
    derived: &Derived,
    (finding, charge): (&Finding, &Charge),
    calls: &OnceCell<LockCalls<'a>>,
) -> Option<Removal> {
    match finding.rule {
        "lock-contention" | "lock-convoy" => {
            let number = lock_of(facts, derived, (finding, charge))?;
            let calls = calls.get_or_init(|| LockCalls::new(facts.trace, facts.locks, facts.roles));
            Some(match finding.rule {
                "lock-convoy" => causes::lock_handovers(facts, calls, number),
                _ => causes::lock(calls, facts, &derived.lines, number),
            })
        }
        "spin-wait" => causes::spin(facts, derived, finding),
        "serial-section" => Some(causes::serial(facts, derived)),
        "oversubscription" => Some(Removal::exact(vec![Change::WithoutClass(Class::RunQueue)])),
        "noisy-neighbour" => Some(Removal::exact(vec![Change::WithoutOthers])),
        "blocking-io" if rules::asks_one_by_one(derived, first_word(finding)) => {
            Some(calls::with_waits(facts.trace, vec![Change::WithoutClass(Class::IoWait)]))
        }
        "blocking-io" => Some(Removal::exact(vec![Change::WithoutClass(Class::IoWait)])),
        "sync-per-item" => causes::syncs(facts.trace),
        "temporary-file-per-item" => calls::temporary_files(facts.trace, &derived.temporary_files, charge),
        "tiny-io" => calls::fewer(facts.trace, &rules::tiny_family(derived, first_word(finding))),
        "syscall-storm" | "retry-storm" | "status-poll" => {
            calls::fewer(facts.trace, &[part_of_calls(derived, finding, first_word(finding))])
        }
        "tlb-shootdown" => causes::shootdowns(facts.trace, derived),
        "fine-tasks" => causes::tasks(facts, derived),
        "subprocess-per-item" => causes::children(facts.trace, charge),
        _ if charge.is_empty() => None,
        "wakeup-ping-pong" => Some(causes::handovers(facts, charge)),
        // The threads idle because tasks wait, and idle threads show nothing about the tasks.
        "pool-exhausted" if is_of_idle_carriers(facts, charge) => None,
        // More pool items need not help: the resource behind the items may be slow.
        "pool-exhausted" => {
            Some(Removal { least: Vec::new(), most: vec![Change::WithoutSlices(charge.clone())] })
        }
        "fork-pause" => Some(forks::copies(facts.trace, charge)),
        "interpreter-lock" => Some(causes::interpreter(facts, charge)),
        "blocked-lock-holder" => Some(causes::waits_for_locks(facts, charge)),
        "preempted-lock-holder" => Some(causes::holders_queues(facts.trace, charge)),
        "thundering-herd" => {
            let calls = calls.get_or_init(|| LockCalls::new(facts.trace, facts.locks, facts.roles));
            Some(causes::herd(facts, derived, charge, calls))
        }
        "cpu-throttled" | "oversleep" | "poll-loop" | "delayed-ack" | "answer-timeout" | "connect-retry" => {
            Some(Removal::exact(vec![Change::WithoutSlices(charge.clone())]))
        }
        _ => None,
    }
}

/// Whether removing the cause of a finding is the same as removing the lock that is its subject.
pub(crate) fn is_of_lock(finding: &Finding) -> bool {
    finding.rule == "lock-contention"
}

/// The lock that a finding is about. Locks of two processes may have one name: then it is the one that the finding mostly charges.
fn lock_of(facts: Facts, derived: &Derived, (finding, charge): (&Finding, &Charge)) -> Option<u32> {
    let number = |lock: &LockUse| {
        let key = (lock.process, lock.object, lock.reason);
        Some(facts.locks.locks.iter().position(|known| *known == key)? as u32)
    };
    let named: Vec<u32> =
        derived.locks.iter().filter(|lock| lock.name == finding.subject).filter_map(number).collect();
    if named.len() < 2 {
        return named.first().copied();
    }
    let mut charged: Vec<(u64, u32)> = named.iter().map(|number| (0, *number)).collect();
    for slice in charge.slices(facts.trace) {
        let of = facts.locks.of_slice(&slice);
        if let Some((ns, _)) = charged.iter_mut().find(|(_, number)| Some(*number) == of) {
            *ns += slice.duration().0;
        }
    }
    charged.into_iter().rev().max_by_key(|(ns, _)| *ns).map(|(_, number)| number)
}

/// Replaces the rules' own estimates by forecasts of replays, for findings whose cause can be left out of a
/// replay.
///
/// The cause must be removable without side effects. The purpose of a sleep, or of a peer's delay, is not
/// known.
pub fn forecast_gains(facts: Facts, derived: &Derived, findings: &mut [Charged]) {
    let slices = facts.trace.slices.len();
    if facts.trace.manifest.backend != Backend::Bpf || slices > SLICES_SOME {
        return;
    }
    let enough = if slices > SLICES_MAX { promises(findings, SOME) } else { 0.0 };
    let (mut unchanged, calls) = (None, OnceCell::new());
    collectors::report_shared_collector(facts, derived, findings, &mut unchanged);
    for Charged { finding, charge } in findings {
        if COMPUTED.contains(&finding.rule) {
            finding.gain = widened(finding.gain);
            estimate::note_forecast(finding);
        }
        if !FORECAST.contains(&finding.rule) || finding.gain.high < enough {
            continue;
        }
        let Some(removal) = of_finding(facts, derived, (finding, charge), &calls) else { continue };
        let unchanged = unchanged.get_or_insert_with(|| Replays::new(facts));
        let forecast = forecast_between(facts, &removal.least, &removal.most, unchanged);
        let (_, timed) = unchanged.endings().count();
        finding.gain = merged((facts.trace, derived), (finding, charge), &forecast);
        if estimate::is_reproduced(forecast.unchanged) {
            estimate::note_forecast(finding);
            finding.summary.extend(causes::classes_removed(&forecast, &derived.ledger));
        }
        let cost = finding.cost_ns as f64 / derived.ledger.total_ns.max(1) as f64;
        let may_be_nothing = forecast.may_be_nothing() || is_there_anyway(finding);
        if may_be_nothing && cost < COSTS_LITTLE || is_a_hint((facts.trace, derived), (finding, charge)) {
            finding.confidence = Confidence::Low;
        }
        if finding.rule == "wakeup-ping-pong" && finding.gain.low < SURELY {
            finding.confidence = finding.confidence.min(Confidence::Medium);
        }
        if timed > 0 {
            finding.summary.push(BY_TIMER.to_owned());
        }
    }
}

/// Whether the gain of a computed finding, or of a wait for the outside, is below a tenth and may be nothing.
pub fn may_be_chance(finding: &Finding) -> bool {
    let is_one = COMPUTED.contains(&finding.rule) || OUTSIDE.contains(&finding.rule);
    is_one && gains_little(finding)
}

/// Where locks are taken often, or CPUs are busy, threads queue a little: that is no cause yet.
fn is_there_anyway(finding: &Finding) -> bool {
    matches!(finding.rule, "lock-convoy" | "oversubscription") && gains_little(finding)
}

/// Whether the gain may be nothing, and is below a tenth.
fn gains_little(finding: &Finding) -> bool {
    finding.gain.low < SURELY && finding.gain.high < COSTS_LITTLE
}

/// Corrects the gains for the cost of recording. Lower bound: all of that cost was part of the cause. Upper
/// bound: it was part of the remaining time.
pub fn without_recording(trace: &Trace, derived: &Derived, findings: &mut [Charged]) {
    let part = recording_part(trace, derived);
    if part <= 0.0 {
        return;
    }
    for Charged { finding, charge } in findings {
        finding.gain = unrecorded(finding.gain, part);
        if is_a_hint((trace, derived), (finding, charge)) {
            finding.confidence = Confidence::Low;
        }
    }
}

/// The cost of recording as a share of all running time. If less than one CPU was busy, as a share of the run.
pub fn recording_part(trace: &Trace, derived: &Derived) -> f64 {
    let cost = &trace.manifest.cost;
    let spent = cost.recorder_cpu_ns.saturating_add(cost.probes_cpu_ns) as f64;
    let running = derived.ledger.running_ns().max(trace.wall().0).max(1) as f64;
    (spent / running).min(RECORDING_MAX)
}

fn unrecorded(gain: Gain, part: f64) -> Gain {
    let (low, high) = ((gain.low - part) / (1.0 - part), gain.high / (1.0 - part));
    Gain { low: (low - OFF).max(0.0), high: (high + OFF).min(1.0) }
}

/// Whether the finding may gain nothing, and may be no cause.
fn is_a_hint((trace, derived): (&Trace, &Derived), (finding, charge): (&Finding, &Charge)) -> bool {
    let is_small = finding.rule == "pool-exhausted" && gains_little(finding);
    let is_only_taken =
        is_lock_only_taken(derived, finding) && !is_low_cpu_waiter((trace, derived), (finding, charge));
    is_small || is_only_taken || is_only_in_turn((trace, derived), (finding, charge))
}

/// Minimum gain, as a share of the run, for requests per piece of work to another process to be the cause.
const ASKING_MUCH: f64 = 0.5;

/// Whether threads wait for each other, and would wait as long with handovers that take no time. Their work
/// is slow, unless it can run in parallel, which the recording does not show.
fn is_only_in_turn((trace, derived): (&Trace, &Derived), (finding, charge): (&Finding, &Charge)) -> bool {
    let is_asking =
        || finding.gain.high >= ASKING_MUCH && round_trips::asked_by_many(trace, charge).is_some();
    let is_bound = || bound_threads::among(trace, &derived.roles, charge).is_some();
    let is_for_it = || Handing::derive((trace, &derived.roles), &derived.ledger, charge).is_most();
    finding.rule == "wakeup-ping-pong"
        && finding.gain.low < SURELY
        && !is_asking()
        && !is_bound()
        && !is_for_it()
}

/// A finding on such a lock.
fn is_lock_only_taken(derived: &Derived, finding: &Finding) -> bool {
    let cost = finding.cost_ns as f64 / derived.ledger.total_ns.max(1) as f64;
    finding.rule == "lock-contention" && is_only_taken(finding.gain, finding.confidence, cost)
}

/// Whether the lower bound of a lock's gain is 0. Its upper bound assumes that the lock is not taken at all,
/// which is not contention. `cost` is its share of all thread time. With few waits, the cost may be chance.
fn is_only_taken(gain: Gain, confidence: Confidence, cost: f64) -> bool {
    gain.low <= 0.0 && (cost < COSTS_LITTLE || confidence < Confidence::High)
}

/// The `count`-th largest upper bound among the findings that can be forecast.
fn promises(findings: &[Charged], count: usize) -> f64 {
    let forecast = findings.iter().map(|one| &one.finding).filter(|one| FORECAST.contains(&one.rule));
    let mut highs: Vec<f64> = forecast.map(|finding| finding.gain.high).collect();
    highs.sort_by(|a, b| b.total_cmp(a));
    highs.get(count.saturating_sub(1)).copied().unwrap_or(0.0)
}

fn widened(gain: Gain) -> Gain {
    let (low, high) = (gain.low - unforeseen(gain.low), gain.high + unforeseen(gain.high));
    Gain { low: low.max(0.0), high: high.min(1.0) }
}

/// The syscall that a finding is about.
fn first_word(finding: &Finding) -> &str {
    finding.subject.split(' ').next().unwrap_or_default()
}

/// The finding's share of the CPU time of all calls of that name. It is 1 if the finding is about more than
/// these calls.
fn part_of_calls(derived: &Derived, finding: &Finding, name: &str) -> (i32, f64) {
    let call = derived.syscalls.iter().find(|call| call.name == name);
    let (number, all) = call.map_or((-1, 0), |call| (call.number, call.cpu_ns));
    (number, (finding.cost_ns as f64 / all.max(1) as f64).min(1.0))
}

/// The share of the waits for CPUs used by other programs that is not due to the recorder.
fn other_programs_share(derived: &Derived, finding: &Finding) -> f64 {
    (finding.cost_ns as f64 / derived.ledger.run_queue.others_ns.max(1) as f64).min(1.0)
}

/// Running time of all threads without spinning (ns).
fn ledger_work(derived: &Derived) -> u64 {
    derived.ledger.running_ns().saturating_sub(derived.ledger.class_ns(Class::Spin))
}

/// Upper bound on the gain of fewer threads: the same work takes its CPU time on the same CPUs, without
/// spinning and idle time. Other programs remain, and keep their share of a CPU.
fn with_fewer_threads(trace: &Trace, derived: &Derived) -> f64 {
    let work = ledger_work(derived) as f64;
    let others: u64 = derived.cpus.iter().map(|cpu| cpu.others_ns).sum();
    let all = f64::from(derived.occupancy.cpus.max(1)) * trace.wall().0.max(1) as f64;
    let capacity = (all - (1.0 - FAIR_PART) * others as f64).max(all * FAIR_PART);
    (1.0 - work / capacity).max(0.0)
}

fn merged(
    (trace, derived): (&Trace, &Derived),
    (finding, charge): (&Finding, &Charge),
    forecast: &Forecast,
) -> Gain {
    let (_, low, high) = forecast.gain();
    let part = if finding.rule == "noisy-neighbour" { other_programs_share(derived, finding) } else { 1.0 };
    let forecast = Gain { low: (part * low).clamp(0.0, 1.0), high: (part * high).clamp(0.0, 1.0) };
    let own = finding.gain;
    // If the run is a single chain of thread activity, it becomes shorter by at most the removed part.
    let most = (finding.cost_ns as f64 / trace.wall().0.max(1) as f64).min(1.0);
    let narrowed = Gain { low: own.low.max(forecast.low), high: own.high.min(forecast.high).min(most) };
    let gain = match finding.rule {
        "noisy-neighbour" => narrowed,
        // A remedy may do less than leave the cause out: fewer threads are not more CPUs, and waits for the disk may
        // only be overlapped. What that gains is the rule's.
        "oversubscription" => {
            let most = own.low + with_fewer_threads(trace, derived);
            Gain { low: own.low, high: narrowed.high.min(most).max(own.low) }
        }
        "blocking-io" if rules::asks_one_by_one(derived, first_word(finding)) => {
            Gain { low: own.low, high: forecast.high.max(own.low) }
        }
        "blocking-io" => Gain { low: own.low, ..narrowed },
        // A replay gives a thread no CPU before the running threads are done. The kernel's scheduler prefers
        // threads that slept.
        "lock-contention"
            if own.high > forecast.high && is_low_cpu_waiter((trace, derived), (finding, charge)) =>
        {
            Gain { low: forecast.low, high: widened(own).high }
        }
        // Threads that wait in turn for pieces of one job would share the job evenly.
        "lock-contention" | "lock-convoy"
            if own.high > forecast.high && division::is_one_job(trace, charge) =>
        {
            Gain { low: forecast.low, high: widened(own).high }
        }
        // Tasks go on in whichever thread has time: that these come one after another is what a replay of threads keeps.
        "serial-section" if is_alone_with_tasks(trace, derived) => {
            Gain { low: 0.0, high: forecast.high.max(widened(own).high) }
        }
        // A peer that answers many at once is, in a replay, a chain of its own sleeps, which fewer waits do not shorten.
        "pool-exhausted" => Gain { low: own.low.min(forecast.high), high: own.high.max(forecast.high) },
        _ if is_kept((trace, derived), (finding, charge)) => {
            Gain { low: forecast.low, high: forecast.high.max(widened(own).high) }
        }
        // The accepting thread waits for the connecting thread. A replay removes the wait of one and leaves
        // it in the other.
        "connect-retry" => Gain { low: 0.0, high: forecast.high.max(widened(own).high) },
        // The spinning threads may wait for other threads' work. The lower bound assumes that no threads work
        // in parallel.
        "spin-wait" => {
            let work = ledger_work(derived) as f64 / trace.wall().0.max(1) as f64;
            let serial = widened(Gain { low: (1.0 - work).max(0.0), high: 1.0 });
            return Gain { low: forecast.low.min(serial.low), ..forecast };
        }
        _ => return forecast,
    };
    if gain.low <= gain.high {
        return gain;
    }
    // They contradict each other: neither is sure.
    let high = own.high.max(forecast.high).min(most);
    Gain { low: own.low.min(forecast.low).min(high), high }
}

/// An upper end is widened by less than this leaves.
const BESIDE_MIN: f64 = 0.75;

/// Whether the rule's upper bound comes from a thread that needs little CPU and could overlap with the
/// threads on the CPUs.
fn is_low_cpu_waiter((trace, derived): (&Trace, &Derived), (finding, charge): (&Finding, &Charge)) -> bool {
    let saved = low_cpu_waiters::saved_ns(trace, derived, charge) / trace.wall().0.max(1) as f64;
    finding.rule == "lock-contention" && saved > 0.0 && saved >= BESIDE_MIN * finding.gain.high
}

/// Whether a replay keeps effects that would go with the cause.
fn is_kept((trace, derived): (&Trace, &Derived), (finding, charge): (&Finding, &Charge)) -> bool {
    match finding.rule {
        // What one task waits for the disk, the next waits for it: whose thread this one ran on is what a replay keeps.
        "sync-per-item" => is_of_tasks(trace, derived, charge),
        // The time saved per request is also saved in the requested process. A replay keeps the turns of that
        // process's threads.
        "wakeup-ping-pong" => {
            round_trips::asked_by_many(trace, charge).is_some()
                || bound_threads::among(trace, &derived.roles, charge).is_some()
                || Handing::derive((trace, &derived.roles), &derived.ledger, charge).is_most()
        }
        "blocked-lock-holder" => peers::slept(trace, charge),
        // A replay keeps all work, and the end of the last work. It also keeps work that only runs until the
        // waiters are done.
        "preempted-lock-holder" => inverted::derive(trace, &derived.ledger, charge).is_some(),
        _ => false,
    }
}

/// Whether most of the charged time are waits in programs with a runtime whose threads carry tasks.
fn is_of_tasks(trace: &Trace, derived: &Derived, charge: &Charge) -> bool {
    let carries = |id: ThreadId| {
        let mut runtimes = derived.roles.runtimes_in(trace.threads[id.index()].process);
        runtimes.any(|runtime| runtime.carries_tasks)
    };
    let of_tasks: u64 =
        charge.slices(trace).filter(|slice| carries(slice.thread)).map(|one| one.duration().0).sum();
    2 * of_tasks > charge.ns()
}

/// Whether a finding charges only waits of threads for more tasks of a runtime.
fn is_of_idle_carriers(facts: Facts, charge: &Charge) -> bool {
    charge
        .slices(facts.trace)
        .all(|slice| facts.roles.rule_of_wait(&slice).is_some_and(|(runtime, _)| runtime.carries_tasks))
}

/// Whether the thread that most worked alone carries tasks of a runtime.
fn is_alone_with_tasks(trace: &Trace, derived: &Derived) -> bool {
    let lone = derived.occupancy.serial.lone();
    lone.is_some_and(|(lone, _)| derived.roles.carries_tasks(trace, lone))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gain_bounds_include_the_cost_of_recording() {
        let Gain { low, high } = unrecorded(Gain { low: 0.5, high: 0.8 }, 0.1);
        assert!(
            (low - 0.4 / 0.9 + OFF).abs() < 1e-9 && (high - 0.8 / 0.9 - OFF).abs() < 1e-9,
            "{low} {high}"
        );
        assert_eq!(unrecorded(Gain { low: 0.05, high: 0.95 }, 0.1), Gain { low: 0.0, high: 1.0 });
    }

    #[test]
    fn a_lock_that_is_taken_often_and_waited_for_seldom_is_a_hint() {
        let gain = |low| Gain { low, high: 0.2 };
        assert!(is_only_taken(gain(0.0), Confidence::High, 0.02));
        assert!(is_only_taken(gain(0.0), Confidence::Medium, 0.2), "waited for once");
        assert!(!is_only_taken(gain(0.0), Confidence::High, 0.2), "much is waited");
        assert!(!is_only_taken(gain(0.01), Confidence::High, 0.02), "some of it surely goes");
    }
}
