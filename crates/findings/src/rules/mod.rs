//! The rules: one file per cause. Its module documentation is the user's manual page.
//!
//! A new rule is one new file and one line in the list below.

use std::sync::LazyLock;

use holdup_events::Trace;

use crate::analysis::Derived;
use crate::charge::Charge;
use crate::derive::parallel;
use crate::derive::replay::Facts;
use crate::finding::{Confidence, Finding, Gain};
use crate::gains::{self, estimate};
use crate::merging::{self, Symptom};
use crate::rule::{Charged, Judged, Known, Remedy, Rule, Standing};
use crate::scene::{GAIN_MIN, Scene};
use crate::thread_functions;
use crate::too_short::is_too_short;

#[cfg(test)]
use crate::rule::{Explains, Explanation, Info};

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

struct Registered {
    rule: &'static dyn Rule,
    source: &'static str,
}

macro_rules! rules {
    ($($module:ident :: $rule:ident,)*) => {
        $(mod $module;)*

        static ALL: &[Registered] = &[$(Registered {
            rule: &$module::$rule,
            source: include_str!(concat!(stringify!($module), ".rs")),
        },)*];
    };
}

rules! {
    long_pause::LongPause,
    lock_contention::LockContention,
    serial_section::SerialSection,
    lone_worker::LoneWorker,
    blocked_event_loop::BlockedEventLoop,
    spin_wait::SpinWait,
    load_imbalance::LoadImbalance,
    barrier_straggler::BarrierStraggler,
    oversubscription::Oversubscription,
    noisy_neighbour::NoisyNeighbour,
    blocking_io::BlockingIo,
    sync_per_item::SyncPerItem,
    temporary_file_per_item::TemporaryFilePerItem,
    tiny_io::TinyIo,
    retry_storm::RetryStorm,
    status_poll::StatusPoll,
    syscall_storm::SyscallStorm,
    wakeup_ping_pong::WakeupPingPong,
    poll_loop::PollLoop,
    oversleep::Oversleep,
    answer_timeout::AnswerTimeout,
    connect_retry::ConnectRetry,
    batch_straggler::BatchStraggler,
    skewed_workers::SkewedWorkers,
    one_at_a_time::OneAtATime,
    cpu_throttled::CpuThrottled,
    cpu_stolen::CpuStolen,
    delayed_ack::DelayedAck,
    subprocess_per_item::SubprocessPerItem,
    thread_per_item::ThreadPerItem,
    child_wait::ChildWait,
    serial_step::SerialStep,
    preempted_lock_holder::PreemptedLockHolder,
    blocked_lock_holder::BlockedLockHolder,
    lock_convoy::LockConvoy,
    thundering_herd::ThunderingHerd,
    migration_churn::MigrationChurn,
    pinned_together::PinnedTogether,
    interpreter_lock::InterpreterLock,
    pool_starved::PoolStarved,
    pool_exhausted::PoolExhausted,
    task_lock::TaskLockRule,
    stop_the_world_latecomer::StopTheWorldLatecomer,
    gc_pressure::GcPressure,
    gc_heavy::GcHeavy,
    fine_tasks::FineTasks,
    fine_regions::FineRegions,
    stays_interpreted::StaysInterpreted,
    false_sharing::FalseSharing,
    shared_counter::SharedCounter,
    copy_heavy::CopyHeavy,
    format_heavy::FormatHeavy,
    encode_heavy::EncodeHeavy,
    handshake_heavy::HandshakeHeavy,
    allocation_hotspot::AllocationHotspot,
    mapped_file_faults::MappedFileFaults,
    page_fault_storm::PageFaultStorm,
    memory_reclaim::MemoryReclaim,
    tlb_shootdown::TlbShootdown,
    fork_pause::ForkPause,
    data_race::DataRace,
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

/// Share of the fallback's gain at which a rule with a cause suppresses it.
const KNOWN_MIN: f64 = 0.5;

/// Leaves out the fallback where others know the cause.
fn without_fallback(found: &mut Vec<Judged>) {
    let is_fallback = |one: &Judged| one.rule.info().standing == Standing::Fallback;
    let others = found.iter().filter(|one| !is_fallback(one) && !is_hint(&one.finding));
    let is_explained = others.clone().any(|one| one.rule.info().leaves_one_thread);
    let known = others.map(|one| expected(&one.finding)).fold(0.0, f64::max);
    found.retain(|one| !is_fallback(one) || !is_explained && known < KNOWN_MIN * expected(&one.finding));
}

/// Whether the finding's place depends on its gain. Errors, and the trigger of a flight recorder, do not depend on
/// shares of the run.
fn depends_on_gain(one: &Judged) -> bool {
    matches!(one.rule.info().standing, Standing::Cause | Standing::Fallback)
}

/// Whether the finding has a gain, reports an error, or was requested.
fn is_worth_it(one: &Judged) -> bool {
    one.finding.gain.high >= GAIN_MIN || !depends_on_gain(one)
}

/// Judges every rule, forecasts the gains, ranks the findings and merges those that are one cause seen twice.
pub fn judge(facts: Facts, derived: &Derived) -> Judgement {
    let known = Known::new(facts, derived);
    let (mut found, skipped) = judge_each(facts, derived);
    gains::forecast(&known, &mut found);
    for one in found.iter_mut().filter(|one| gains::may_be_chance(one)) {
        one.finding.confidence = Confidence::Low;
    }
    if is_too_short(facts.trace) {
        for one in found.iter_mut().filter(|one| depends_on_gain(one)) {
            one.finding.confidence = Confidence::Low;
        }
    }
    gains::without_recording(&known, &mut found);
    let recording = gains::recording_part(facts.trace, derived);
    estimate::bound_by_cpus(facts.trace, derived, recording, &mut found);
    estimate::estimate(&mut found);
    without_fallback(&mut found);
    rank(&mut found);
    let mut merged = merging::merge(facts.trace, &found);
    let symptoms = merged.symptoms.iter_mut().map(|symptom| &mut symptom.finding);
    thread_functions::add_to(facts.trace, merged.findings.iter_mut().chain(symptoms));
    Judgement { findings: merged.findings, charges: merged.charges, symptoms: merged.symptoms, skipped }
}

/// Rules that could not be judged, with the reason.
type Skipped = Vec<(&'static str, String)>;

/// The findings of every rule, in the order of the registry.
fn judge_each(facts: Facts, derived: &Derived) -> (Vec<Judged>, Skipped) {
    let scene = Scene::new(facts.trace, derived, facts.timelines);
    let (mut found, mut skipped) = (Vec::new(), Vec::new());
    let verdicts = parallel::map(ALL.len(), |rule| ALL[rule].rule.judge(&scene));
    for (Registered { rule, .. }, verdict) in ALL.iter().zip(verdicts) {
        match verdict {
            Ok(more) => found.extend(more.into_iter().map(|one| judged(*rule, one)).filter(is_worth_it)),
            Err(reason) => skipped.push((rule.info().name, reason)),
        }
    }
    (found, skipped)
}

fn judged(rule: &'static dyn Rule, Charged { finding, charge }: Charged) -> Judged {
    Judged { rule, finding, charge }
}

/// Orders findings. What a flight recorder was triggered by comes first. Hints come last, those with a lower bound
/// of 0 after the others. Work that may be needed comes after what certainly gains something. Otherwise the expected
/// gain decides, which is lower where the finding is doubtful ([`DOUBTFUL`]), then confidence, then cost. The order of
/// the registry breaks ties.
fn rank(found: &mut [Judged]) {
    let is_any_sure = found.iter().any(|one| !is_hint(&one.finding) && one.finding.gain.low >= SURE_GAIN);
    let group = |one: &Judged| {
        let finding = &one.finding;
        let is_requested = one.rule.info().standing == Standing::Requested;
        (!is_requested, is_hint(finding), may_be_nothing(finding), is_any_sure && may_be_needed(one))
    };
    found.sort_by(|a, b| {
        group(a)
            .cmp(&group(b))
            .then_with(|| expected(&b.finding).total_cmp(&expected(&a.finding)))
            .then_with(|| b.finding.confidence.cmp(&a.finding.confidence))
            .then_with(|| b.finding.cost_ns.cmp(&a.finding.cost_ns))
    });
}

/// Merges ranked findings of known rules. Findings of unknown rules are left out.
pub fn merge(trace: &Trace, found: Vec<Charged>) -> merging::Merged {
    let known: Vec<Judged> =
        found.into_iter().filter_map(|one| Some(judged(named(one.finding.rule)?, one))).collect();
    merging::merge(trace, &known)
}

/// The rule with this name.
pub(crate) fn named(name: &str) -> Option<&'static dyn Rule> {
    ALL.iter().map(|one| one.rule).find(|rule| rule.info().name == name)
}

/// Settings that may help against the finding's cause.
pub(crate) fn remedies(finding: &Finding) -> &'static [Remedy] {
    named(finding.rule).map_or(&[], |rule| rule.info().remedies)
}

/// Whether removing the cause of a finding is the same as removing the lock that is its subject.
pub(crate) fn is_about_lock(finding: &Finding) -> bool {
    finding.rule == lock_contention::INFO.name
}

/// Whether the finding is about more threads than CPUs.
pub(crate) fn is_about_thread_count(finding: &Finding) -> bool {
    finding.rule == oversubscription::INFO.name
}

/// Whether the finding is about another program that uses the CPUs.
pub fn is_about_other_program(finding: &Finding) -> bool {
    finding.rule == noisy_neighbour::INFO.name
}

/// Minimum lower bound of the gain of findings that rank before possibly necessary work.
const SURE_GAIN: f64 = 0.05;

/// Whether the finding is about work of which nothing may go.
fn may_be_needed(one: &Judged) -> bool {
    one.rule.info().may_be_needed && one.finding.gain.low < gains::SURELY
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

fn is_hint(finding: &Finding) -> bool {
    finding.confidence == Confidence::Low
}

/// Whether the finding is a hint whose gain may be nothing. Such hints come last.
fn may_be_nothing(finding: &Finding) -> bool {
    is_hint(finding) && estimate::is_nothing(finding.gain.low)
}

/// The descriptions of all rules, in the order of the registry.
#[cfg(test)]
pub(crate) fn infos() -> impl Iterator<Item = &'static Info> {
    ALL.iter().map(|one| one.rule.info())
}

/// Every rule, in the order of the registry.
pub fn all() -> Vec<RuleInfo> {
    static MANUALS: LazyLock<Vec<String>> =
        LazyLock::new(|| ALL.iter().map(|rule| manual(rule.source)).collect());
    let info = |(one, manual): (&Registered, &'static String)| RuleInfo {
        name: one.rule.info().name,
        summary: one.rule.info().summary,
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
        let mut names: Vec<&str> = infos().map(|info| info.name).collect();
        files.sort();
        names.sort();
        assert_eq!(files, names);
    }

    #[test]
    fn explanations_lead_to_an_end() {
        fn reaches(from: &Info, to: &Info, steps: usize) -> bool {
            from.name == to.name || steps > 0 && causes(from).any(|one| reaches(one, to, steps - 1))
        }
        fn causes(info: &Info) -> impl Iterator<Item = &'static Info> {
            let explained = info.explains.iter().map(Explains::rule);
            explained.filter(|other| info.explains(other) != Some(Explanation::RankedLower))
        }
        for root in infos() {
            for symptom in causes(root).filter(|symptom| symptom.name != root.name) {
                assert!(
                    !reaches(symptom, root, ALL.len()),
                    "{} and {} explain each other",
                    root.name,
                    symptom.name
                );
            }
        }
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
