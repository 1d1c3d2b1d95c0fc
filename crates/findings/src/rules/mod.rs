//! The rules: one file per cause. Its module documentation is the user's manual page.
//!
//! A new rule is one new file and one word in the list below.

use std::sync::LazyLock;

use holdup_events::tables::Thread;

use crate::analysis::Derived;
use crate::charge::Charge;
use crate::derive::parallel;
use crate::derive::replay::Facts;
use crate::derive::spin::SpinUse;
use crate::derive::tasks::Handing;
use crate::finding::{Confidence, Finding, Gain};
use crate::merging::{self, Charged, Symptom};
use crate::removal;
use crate::scene::{GAIN_MIN, Scene};
use crate::thread_functions;
use crate::too_short::is_too_short;

/// Public description of a rule.
#[derive(Clone, Copy, Debug)]
pub struct RuleInfo {
    /// Kebab-case id, for ever.
    pub name: &'static str,
    /// One line, at most 80 characters, no full stop.
    pub summary: &'static str,
    /// The manual page (Markdown), from the file's module documentation.
    pub manual: &'static str,
}

/// Description of a rule in its file.
#[derive(Clone, Copy, Debug)]
struct Info {
    name: &'static str,
    summary: &'static str,
    /// Whether the causes are only waits: without them the program does the same work.
    of_waits_alone: bool,
}

/// A rule's judgement: its findings, or why the recording does not allow one.
type Verdict = Result<Vec<Finding>, String>;

/// The same, with the slices that each finding charges, so that two which speak of the same lost time become one.
type ChargedVerdict = Result<Vec<Charged>, String>;

struct Rule {
    info: Info,
    source: &'static str,
    judge: fn(&Scene) -> ChargedVerdict,
}

macro_rules! rules {
    ($($module:ident,)*) => {
        $(mod $module;)*

        static ALL: &[Rule] = &[$(Rule {
            info: $module::INFO,
            source: include_str!(concat!(stringify!($module), ".rs")),
            judge: |scene| Ok($module::judge(scene)?.into_iter().map(Charged::from).collect()),
        },)*];
    };
}

rules! {
    long_pause,
    lock_contention,
    serial_section,
    lone_worker,
    blocked_event_loop,
    spin_wait,
    load_imbalance,
    barrier_straggler,
    oversubscription,
    noisy_neighbour,
    blocking_io,
    sync_per_item,
    temporary_file_per_item,
    tiny_io,
    retry_storm,
    status_poll,
    syscall_storm,
    wakeup_ping_pong,
    poll_loop,
    oversleep,
    answer_timeout,
    connect_retry,
    batch_straggler,
    skewed_workers,
    one_at_a_time,
    cpu_throttled,
    cpu_stolen,
    delayed_ack,
    subprocess_per_item,
    thread_per_item,
    child_wait,
    serial_step,
    preempted_lock_holder,
    blocked_lock_holder,
    lock_convoy,
    thundering_herd,
    migration_churn,
    pinned_together,
    interpreter_lock,
    pool_starved,
    pool_exhausted,
    task_lock,
    stop_the_world_latecomer,
    gc_pressure,
    gc_heavy,
    fine_tasks,
    fine_regions,
    stays_interpreted,
    false_sharing,
    shared_counter,
    copy_heavy,
    format_heavy,
    encode_heavy,
    handshake_heavy,
    allocation_hotspot,
    mapped_file_faults,
    page_fault_storm,
    memory_reclaim,
    tlb_shootdown,
    fork_pause,
    data_race,
}

/// The results of all rules.
#[derive(Debug, Default)]
pub struct Judgement {
    /// Ranked, the largest expected gain first.
    pub findings: Vec<Finding>,
    /// The slices that each of them charges.
    pub charges: Vec<Charge>,
    /// Findings that became evidence of others.
    pub symptoms: Vec<Symptom>,
    /// Rules that could not be judged, with the reason.
    pub skipped: Vec<(&'static str, String)>,
}

/// Rules about errors, not about lost time.
const WRONG: [&str; 1] = ["data-race"];

/// The rule about what a recording was saved for: it comes first, whatever the whole of it would gain.
const ASKED_FOR: &str = long_pause::INFO.name;

/// The rule that names the thread that determines the run's length, without a cause.
const FALLBACK: &str = lone_worker::INFO.name;

/// Share of that rule's gain at which a rule with a cause suppresses it.
const KNOWN_MIN: f64 = 0.5;

/// Only one thread of an interpreter works at a time, whatever the work.
const ALONE_BY_LOCK: &str = interpreter_lock::INFO.name;

/// Leaves it out where others know why.
fn without_fallback(found: &mut Vec<Charged>) {
    let others = found.iter().map(|one| &one.finding).filter(|one| one.rule != FALLBACK && !is_hint(one));
    let by_lock = others.clone().any(|finding| finding.rule == ALONE_BY_LOCK);
    let known = others.map(expected).fold(0.0, f64::max);
    found
        .retain(|one| one.finding.rule != FALLBACK || !by_lock && known < KNOWN_MIN * expected(&one.finding));
}

/// Whether the finding has a gain, reports an error, or was requested.
fn is_worth_it(finding: &Finding) -> bool {
    finding.gain.high >= GAIN_MIN || WRONG.contains(&finding.rule) || finding.rule == ASKED_FOR
}

/// Judges every rule.
///
/// What a flight recorder saved it for comes first. Hints come last, those with a lower bound of 0 after the others. Work that may be needed comes after what
/// surely gains something. Otherwise the expected gain decides, which is lower where the finding is doubtful ([`DOUBTFUL`]), then
/// confidence, then cost. The order of the registry breaks ties.
pub fn judge(facts: Facts, derived: &Derived) -> Judgement {
    let scene = Scene::new(facts.trace, derived, facts.timelines);
    let (mut found, mut skipped) = (Vec::new(), Vec::new());
    let verdicts = parallel::map(ALL.len(), |rule| (ALL[rule].judge)(&scene));
    for (rule, verdict) in ALL.iter().zip(verdicts) {
        match verdict {
            Ok(more) => found.extend(more.into_iter().filter(|one| is_worth_it(&one.finding))),
            Err(reason) => skipped.push((rule.info.name, reason)),
        }
    }
    removal::forecast_gains(facts, derived, &mut found);
    for one in found.iter_mut().filter(|one| removal::may_be_chance(&one.finding)) {
        one.finding.confidence = Confidence::Low;
    }
    // Errors, and the trigger of a flight recorder, do not depend on shares of the run.
    let rests_on_length = |finding: &Finding| !WRONG.contains(&finding.rule) && finding.rule != ASKED_FOR;
    if is_too_short(facts.trace) {
        for one in found.iter_mut().filter(|one| rests_on_length(&one.finding)) {
            one.finding.confidence = Confidence::Low;
        }
    }
    removal::without_recording(facts.trace, derived, &mut found);
    let recording = removal::recording_part(facts.trace, derived);
    removal::estimate::bound_by_cpus(facts.trace, derived, recording, &mut found);
    removal::estimate::estimate(&mut found);
    without_fallback(&mut found);
    let is_any_sure = found.iter().any(|one| !is_hint(&one.finding) && one.finding.gain.low >= SURE_GAIN);
    found.sort_by(|a, b| {
        let (a, b) = (&a.finding, &b.finding);
        let is_behind = |finding: &Finding| is_any_sure && may_be_needed(finding);
        let rank = |finding: &Finding| {
            (finding.rule != ASKED_FOR, is_hint(finding), may_be_nothing(finding), is_behind(finding))
        };
        rank(a)
            .cmp(&rank(b))
            .then_with(|| expected(b).total_cmp(&expected(a)))
            .then_with(|| b.confidence.cmp(&a.confidence))
            .then_with(|| b.cost_ns.cmp(&a.cost_ns))
    });
    let mut merged = merging::merge(facts.trace, found);
    let symptoms = merged.symptoms.iter_mut().map(|symptom| &mut symptom.finding);
    thread_functions::add_to(facts.trace, merged.findings.iter_mut().chain(symptoms));
    Judgement { findings: merged.findings, charges: merged.charges, symptoms: merged.symptoms, skipped }
}

/// Rules about work which may be what the program is for.
const NEEDED: [&str; 7] = [
    "copy-heavy",
    "encode-heavy",
    "format-heavy",
    "handshake-heavy",
    "page-fault-storm",
    "subprocess-per-item",
    FALLBACK,
];

/// Minimum lower bound of the gain of findings that rank before possibly necessary work.
const SURE_GAIN: f64 = 0.05;

/// Work of which nothing may go.
fn may_be_needed(finding: &Finding) -> bool {
    NEEDED.contains(&finding.rule) && finding.gain.low < removal::SURELY
}

/// The subject of a finding of spin-wait about that loop.
pub(crate) fn spin_subject(spin: &SpinUse) -> String {
    spin_wait::subject(spin)
}

/// Whether the process may be for one item, by [`subprocess_per_item::lives_shortly`].
pub(crate) fn child_lives_shortly(first: &Thread) -> bool {
    subprocess_per_item::lives_shortly(first) == Some(true)
}

/// See [`blocking_io::asks_one_by_one`].
pub(crate) fn asks_one_by_one(derived: &Derived, name: &str) -> bool {
    blocking_io::asks_one_by_one(derived, name)
}

/// See [`fine_tasks::costliest`].
pub(crate) fn fine_pool(derived: &Derived) -> Option<&Handing> {
    fine_tasks::costliest(derived)
}

/// Syscalls that go together with tiny calls of this name, each with the share of its calls.
pub(crate) fn tiny_family(derived: &Derived, name: &str) -> Vec<(i32, f64)> {
    tiny_io::family(&derived.calls, name)
}

/// How many CPUs could do what one thread did alone.
pub(crate) fn spread_over(facts: Facts, derived: &Derived) -> f64 {
    serial_section::spread(&Scene::new(facts.trace, derived, facts.timelines))
}

/// Weight of the part of a gain that is not sure: of the distance from the lower to the upper bound. The sure part has the weight 1.
const POSSIBLE: f64 = 0.5;

/// Weight of the gain of a finding whose confidence is not high: of two causes that may gain nearly the same, the surer
/// comes first.
const DOUBTFUL: f64 = 0.85;

/// The expected gain, by which findings are ranked.
fn expected(finding: &Finding) -> f64 {
    let Gain { low, high } = finding.gain;
    let weight = if finding.confidence == Confidence::High { 1.0 } else { DOUBTFUL };
    weight * (low + POSSIBLE * (high - low))
}

/// Whether the causes that a rule reports are waits alone: without them the program does the same work.
pub(crate) fn is_of_waits_alone(rule: &str) -> bool {
    ALL.iter().any(|one| one.info.name == rule && one.info.of_waits_alone)
}

fn is_hint(finding: &Finding) -> bool {
    finding.confidence == Confidence::Low
}

/// Whether the finding is a hint whose gain may be nothing. Such hints come last.
fn may_be_nothing(finding: &Finding) -> bool {
    is_hint(finding) && removal::estimate::is_nothing(finding.gain.low)
}

/// Every rule, in the order of the registry.
pub fn all() -> Vec<RuleInfo> {
    static MANUALS: LazyLock<Vec<String>> =
        LazyLock::new(|| ALL.iter().map(|rule| manual(rule.source)).collect());
    let info = |(rule, manual): (&Rule, &'static String)| RuleInfo {
        name: rule.info.name,
        summary: rule.info.summary,
        manual: manual.as_str(),
    };
    ALL.iter().zip(MANUALS.iter()).map(info).collect()
}

/// The module documentation of a source file.
pub(crate) fn manual(source: &str) -> String {
    let lines = source.lines().map_while(|line| line.strip_prefix("//!"));
    let mut text = String::new();
    for line in lines {
        text.push_str(line.strip_prefix(' ').unwrap_or(line));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADINGS: [&str; 6] =
        ["Symptoms", "Why it hurts", "How it decides", "What to do", "Blind spots", "References"];

    #[test]
    fn every_file_is_registered_under_its_name() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/rules");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|file| file.ends_with(".rs") && file != "mod.rs")
            .map(|file| file.trim_end_matches(".rs").replace('_', "-"))
            .collect();
        let mut names: Vec<&str> = ALL.iter().map(|rule| rule.info.name).collect();
        files.sort();
        names.sort();
        assert_eq!(files, names);
    }

    #[test]
    fn names_and_summaries_keep_to_the_form() {
        for rule in all() {
            let kebab = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(rule.name.chars().all(kebab) && !rule.name.starts_with('-'), "{}", rule.name);
            assert!(rule.summary.chars().count() <= 80 && !rule.summary.ends_with('.'), "{}", rule.summary);
        }
    }

    #[test]
    fn every_manual_has_all_headings_in_order() {
        for rule in all() {
            let headings: Vec<&str> =
                rule.manual.lines().filter_map(|line| line.strip_prefix("## ")).collect();
            assert_eq!(headings, HEADINGS, "{}", rule.name);
            assert!(rule.manual.starts_with("# "), "{}", rule.name);
        }
    }
}
