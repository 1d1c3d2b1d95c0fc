//! Changes that users apply to a replay, and the resulting forecast: `holdup whatif`.

use std::cell::OnceCell;

use holdup_events::Trace;
use holdup_events::recording::Backend;

use crate::analysis::{Analysis, analyse};
use crate::derive::class::{CLASSES, Class};
use crate::derive::gc;
use crate::derive::ledger;
use crate::derive::lines;
use crate::derive::lock_calls::LockCalls;
use crate::derive::locks::{self, LockIndex};
use crate::derive::replay::{Change, Facts, Forecast, Replays, forecast_between};
use crate::derive::roles::Roles;
use crate::derive::stacks::folding;
use crate::derive::sweep::{self, Sweep};
use crate::derive::timelines::Timelines;
use crate::finding::Finding;
use crate::gains::estimate;
use crate::removal::{Removal, collectors, locks as lock_removal};
use crate::rule::{Cause, Known};
use crate::rules;

/// The changes to apply.
#[derive(Clone, Debug, Default)]
pub struct Ask {
    /// `lock:NAME`, `rule:N` or `rule:NAME`, `others`, `gc`, or a class of the ledger.
    pub without: Vec<String>,
    /// Functions, and how many times faster.
    pub faster: Vec<(String, f64)>,
    /// CPUs that the program may use.
    pub cpus: Option<u32>,
    /// No thread preempts a running thread.
    pub no_preempt: bool,
}

/// The answer.
#[derive(Clone, Debug, Default)]
pub struct WhatIf {
    /// The changes, in words.
    pub changes: Vec<String>,
    /// Assumptions of the forecast, in words.
    pub assumed: Vec<String>,
    /// How long it would take. Where a finding of the report is about the same change, the bounds are those of the report.
    pub forecast: Forecast,
    /// Whether `forecast.wall_ns` is the likely length. `false` if it could not be estimated.
    pub is_estimated: bool,
}

impl WhatIf {
    /// Thread time by class: before, after, as the replays have it (ns). Empty classes are left out.
    pub fn classes(&self) -> Vec<(Class, u64, u64)> {
        let of = |class: &Class| {
            let (before, after) = (&self.forecast.classes_before, &self.forecast.classes);
            (*class, before[*class as usize], after[*class as usize])
        };
        debug_assert_eq!(Class::ALL.len(), CLASSES);
        Class::ALL.iter().map(of).filter(|(_, before, after)| before + after > 0).collect()
    }
}

/// Replays a trace with the changes. Err if a change is not understood, or cannot be forecast.
pub fn what_if(trace: &Trace, ask: &Ask) -> Result<WhatIf, String> {
    if trace.manifest.backend != Backend::Bpf {
        return Err("the recording has no wakeups: it cannot be replayed".to_owned());
    }
    let (timelines, roles) = (Timelines::derive(trace), Roles::built_in(trace));
    let index = LockIndex::new(trace, &roles);
    let cpus = Sweep::new(trace, &index, &roles, &timelines).cpus;
    let facts = Facts { trace, timelines: &timelines, roles: &roles, locks: &index, cpus };
    let mut answer = WhatIf::default();
    let mut removal = Removal::default();
    let analysis = OnceCell::new();
    for subject in &ask.without {
        let more = without(facts, subject, &analysis, &mut answer)?;
        removal.least.extend(more.least);
        removal.most.extend(more.most);
    }
    let mut changes = Vec::new();
    for (function, times) in &ask.faster {
        changes.push(faster(trace, function, *times, &mut answer)?);
    }
    if let Some(count) = ask.cpus {
        change_cpus(facts, count, &mut answer)?;
        changes.push(Change::Cpus(count));
    }
    if ask.no_preempt {
        answer.changes.push("no thread preempts a running thread".to_owned());
        answer.assumed.push("A thread keeps its CPU until it waits. Other programs use no CPU.".to_owned());
        changes.push(Change::NoPreempt);
    }
    removal.least.extend(changes.iter().cloned());
    removal.most.extend(changes);
    let unchanged = Replays::new(facts);
    answer.forecast = forecast_between(facts, &removal.least, &removal.most, &unchanged);
    answer.is_estimated = estimate::is_reproduced(answer.forecast.unchanged);
    if let Some(finding) = ask.only_subject().and_then(|subject| reported(&analysis, subject)) {
        answer.take_from(finding);
    }
    answer.assumed.extend(endings(unchanged.endings().count()));
    answer.assumed.push(
        "Waits that did not occur in the recording are not forecast: another lock or queue may become the next bottleneck."
            .to_owned(),
    );
    Ok(answer)
}

/// Adds the change of the number of CPUs to the answer. Err if the recorded number of CPUs is not known.
fn change_cpus(facts: Facts, count: u32, answer: &mut WhatIf) -> Result<(), String> {
    let (manifest, cpus) = (&facts.trace.manifest, facts.cpus);
    let is_unknown = manifest.host.cpus == 0 && manifest.mode == "import";
    if is_unknown && sweep::cpus_seen(facts.timelines) == 0 {
        return Err("the import does not contain the number of CPUs: --cpus cannot be forecast".to_owned());
    }
    if !is_unknown && !manifest.host.cpus_lower_bound {
        answer.changes.push(format!("{count} CPUs instead of {cpus}"));
        return Ok(());
    }
    answer.changes.push(format!("{count} CPUs (at least {cpus} were seen in the import)"));
    answer.assumed.push(format!(
        "The import does not contain the number of CPUs. The replay uses {cpus}, those that its events name."
    ));
    Ok(())
}

/// A sentence on threads that run until they are stopped, or until a timer expires.
fn endings((told, timed): (usize, usize)) -> Option<String> {
    let threads =
        |count: usize| if count == 1 { "1 thread runs".to_owned() } else { format!("{count} threads run") };
    match (told, timed) {
        (0, 0) => None,
        (1, 0) => Some(
            "1 thread runs on until it is stopped, and can be stopped earlier: the amount of its work follows from how long the other threads take."
                .to_owned(),
        ),
        (told, 0) => Some(format!(
            "{} on until they are stopped, and can be stopped earlier: the amount of their work follows from how long the other threads take.",
            threads(told)
        )),
        (_, timed) => Some(format!(
            "{} on until a timer expires, which does not change. The forecast is how long the same work would take: a gain in work per second.",
            threads(timed)
        )),
    }
}

impl Ask {
    /// The one subject to leave out, if there is no other change.
    fn only_subject(&self) -> Option<&str> {
        match &self.without[..] {
            [subject] if self.faster.is_empty() && self.cpus.is_none() && !self.no_preempt => Some(subject),
            _ => None,
        }
    }
}

impl WhatIf {
    /// Takes the gain from the report, so that both give one answer.
    fn take_from(&mut self, finding: &Finding) {
        let recorded_ns = self.forecast.recorded_ns as f64;
        let left_ns = |gain: f64| (recorded_ns * (1.0 - gain)) as u64;
        (self.forecast.low_ns, self.forecast.high_ns) =
            (left_ns(finding.gain.high), left_ns(finding.gain.low));
        self.is_estimated = finding.likely.is_some();
        self.forecast.wall_ns =
            finding.likely.map_or(u64::midpoint(self.forecast.low_ns, self.forecast.high_ns), left_ns);
    }
}

/// The finding of the report that is about this subject: one by its number or rule, or a lock's.
fn reported<'a>(analysis: &'a OnceCell<Analysis>, subject: &str) -> Option<&'a Finding> {
    let findings = &analysis.get()?.findings;
    if let Some(name) = subject.strip_prefix("rule:") {
        return findings.get(place_of(findings, name)?);
    }
    let name = subject.strip_prefix("lock:")?;
    findings.iter().find(|finding| rules::is_about_lock(finding) && folding::matches(name, &finding.subject))
}

/// Position of a finding by its number in the report, or by its rule's name.
fn place_of(findings: &[Finding], name: &str) -> Option<usize> {
    match name.parse::<usize>() {
        Ok(number) => number.checked_sub(1).filter(|place| *place < findings.len()),
        Err(_) => findings.iter().position(|finding| finding.rule == name),
    }
}

fn without(
    facts: Facts,
    subject: &str,
    analysis: &OnceCell<Analysis>,
    answer: &mut WhatIf,
) -> Result<Removal, String> {
    if let Some(name) = subject.strip_prefix("lock:") {
        let removal = without_lock(facts, name, answer)?;
        analysis.get_or_init(|| analyse(facts.trace));
        return Ok(removal);
    }
    if let Some(name) = subject.strip_prefix("rule:") {
        return without_finding(facts, name, analysis.get_or_init(|| analyse(facts.trace)), answer);
    }
    if subject == "others" {
        answer.changes.push("without other programs".to_owned());
        return Ok(Removal::exact(vec![Change::WithoutOthers]));
    }
    if subject == "gc" {
        return Ok(without_gc(facts, answer));
    }
    if subject == Class::GcWait.name() {
        return Ok(without_gc_wait(facts, answer));
    }
    let Some(class) = Class::named(subject) else {
        let classes: Vec<&str> = Class::ALL.iter().map(|class| class.name()).collect();
        return Err(format!(
            "'{subject}' is not known: choose lock:NAME, rule:N, others, gc, or one of {}",
            classes.join(", ")
        ));
    };
    answer.changes.push(format!("without {subject}"));
    match class {
        Class::Stolen | Class::Unknown | Class::Stopped => {
            return Err(format!(
                "{subject} cannot be removed in a replay: it consists neither of waits nor of sampled running time"
            ));
        }
        Class::RunQueue => answer.assumed.push("Every runnable thread has a CPU.".to_owned()),
        class if class.on_cpu() => {
            answer.assumed.push(format!("The running time of class {subject} is estimated from samples."));
        }
        _ => answer.assumed.push(format!("Waits of class {subject} complete immediately.")),
    }
    Ok(Removal::exact(vec![Change::WithoutClass(class)]))
}

/// Between a collector each and none.
fn without_gc(facts: Facts, answer: &mut WhatIf) -> Removal {
    answer.changes.push("without gc".to_owned());
    answer.assumed.extend(retries(facts.trace));
    answer.assumed.push(
        "Lower bound: threads collect for themselves and wait for no other thread, as separate processes would (`--without gc-wait` removes only that). Upper bound: they do not collect at all."
            .to_owned(),
    );
    collectors::without_collections(facts)
}

/// Each thread collects for itself, as processes do.
fn without_gc_wait(facts: Facts, answer: &mut WhatIf) -> Removal {
    answer.changes.push("without gc-wait".to_owned());
    answer.assumed.extend(retries(facts.trace));
    answer.assumed.push(
        "Threads collect as much as before, each for itself, and wait for no other thread. Upper bound: they also wake no thread, no idle domain takes part, and each collects only when its own young generation is full."
            .to_owned(),
    );
    collectors::apart(facts)
}

fn retries(trace: &Trace) -> Option<String> {
    gc::has_retries(trace).then(|| "Assumes that only threads which request a collection spin.".to_owned())
}

fn without_lock(facts: Facts, name: &str, answer: &mut WhatIf) -> Result<Removal, String> {
    let all = locks::derive(facts.trace);
    let number = |lock: &locks::LockUse| {
        let key = (lock.process, lock.object, lock.reason);
        facts.locks.locks.iter().position(|known| *known == key)
    };
    let named =
        all.iter().filter(|lock| folding::matches(name, &lock.name) || format!("{:#x}", lock.object) == name);
    let calls = LockCalls::new(facts.trace, facts.locks, facts.roles);
    let ledger = ledger::derive_with(facts.trace, facts.timelines, facts.roles);
    let lines = lines::derive(facts.trace, &ledger, (facts.roles, facts.timelines));
    let mut removal = Removal::default();
    for lock in named {
        let Some(number) = number(lock) else { continue };
        answer.changes.push(format!("without lock {}", lock.name));
        let of_lock = lock_removal::without(&calls, facts, &lines, number as u32);
        removal.least.extend(of_lock.least);
        removal.most.extend(of_lock.most);
    }
    if removal.least.is_empty() {
        let known: Vec<&str> = all.iter().take(5).map(|lock| lock.name.as_str()).collect();
        return Err(match known.is_empty() {
            true => "no thread waited for a lock in this recording".to_owned(),
            false => format!("no lock is named '{name}' (the locks are: {})", known.join(", ")),
        });
    }
    answer.assumed.push(format!("{}.", removal.assumptions()));
    Ok(removal)
}

/// Leaves out what a finding of the report is about: by its number there, or by its rule's name.
fn without_finding(
    facts: Facts,
    name: &str,
    analysis: &Analysis,
    answer: &mut WhatIf,
) -> Result<Removal, String> {
    let Some(place) = place_of(&analysis.findings, name) else {
        let known: Vec<String> =
            (1..).zip(&analysis.findings).map(|(n, one)| format!("{n} {}", one.rule)).collect();
        return Err(match known.is_empty() {
            true => "the report has no finding".to_owned(),
            false => format!("there is no finding '{name}' (the findings are: {})", known.join(", ")),
        });
    };
    let finding = &analysis.findings[place];
    let charge = analysis.charges.get(place).cloned().unwrap_or_default();
    let known = Known::new(facts, &analysis.derived);
    let cause = Cause { known: &known, finding, charge: &charge };
    let Some(removal) = rules::named(finding.rule).and_then(|rule| rule.removal(&cause)) else {
        return Err(format!("{} does not consist of waits that a replay could remove", finding.rule));
    };
    answer.changes.push(format!("without {} of {}", finding.rule, finding.subject));
    answer.assumed.push(format!("{}.", removal.assumptions()));
    Ok(removal)
}

fn faster(trace: &Trace, function: &str, times: f64, answer: &mut WhatIf) -> Result<Change, String> {
    let named =
        |stack| trace.stack_frames(stack).any(|frame| folding::matches(function, &trace.frame_name(frame)));
    let mut known = std::collections::HashMap::new();
    let samples = trace.samples.iter().filter(|sample| trace.threads[sample.thread.index()].target);
    let (mut all, mut hits) = (0u64, 0u64);
    for sample in samples {
        all += 1;
        hits += u64::from(*known.entry(sample.stack).or_insert_with(|| named(sample.stack)));
    }
    if hits == 0 {
        return Err(format!("no sample is in '{function}': `holdup report stacks` lists the functions"));
    }
    answer.changes.push(format!("{function} {times} times as fast"));
    answer.assumed.push(format!(
        "{function} and its callees take the CPU time that {hits} of {all} samples show ({:.1} %).",
        hits as f64 / all as f64 * 100.0
    ));
    Ok(Change::Faster(function.to_owned(), times))
}

#[cfg(test)]
mod tests {
    use holdup_events::recording::Manifest;
    use holdup_testkit::{assemble, sim};

    use super::*;

    /// The forecast for 4 CPUs, after a change of the recording.
    fn on_four_cpus(change: impl FnOnce(&mut Trace)) -> Result<WhatIf, String> {
        let run = sim::simulate(3);
        let mut trace = assemble(run.events, run.manifest);
        change(&mut trace);
        what_if(&trace, &Ask { cpus: Some(4), ..Ask::default() })
    }

    #[test]
    fn the_number_of_cpus_of_a_recording_is_the_machines() {
        let answer = on_four_cpus(|trace| trace.manifest.host.cpus_allowed = 3).unwrap();
        assert_eq!(answer.changes, ["4 CPUs instead of 3"]);
    }

    #[test]
    fn cpus_that_an_import_names_are_a_lower_bound() {
        let change = |cpus| {
            move |trace: &mut Trace| {
                trace.manifest.mode = "import".to_owned();
                let host = &mut trace.manifest.host;
                (host.cpus, host.cpus_allowed, host.cpus_lower_bound) = (cpus, 0, cpus > 0);
            }
        };
        let answer = on_four_cpus(change(2)).unwrap();
        assert_eq!(answer.changes, ["4 CPUs (at least 2 were seen in the import)"]);
        assert!(
            answer.assumed.iter().any(|line| line.contains("does not contain the number of CPUs")),
            "{answer:?}"
        );
        let seen = {
            let run = sim::simulate(3);
            Timelines::derive(&assemble(run.events, run.manifest)).iter().count()
        };
        let answer = on_four_cpus(change(0)).unwrap();
        assert_eq!(answer.changes, [format!("4 CPUs (at least {seen} were seen in the import)")]);
    }

    #[test]
    fn an_import_without_cpus_is_refused() {
        let answer = on_four_cpus(|trace| {
            let manifest =
                Manifest { mode: "import".to_owned(), backend: Backend::Bpf, ..Manifest::default() };
            *trace = Trace { manifest, ..Trace::default() };
        });
        assert!(answer.unwrap_err().contains("does not contain the number of CPUs"));
    }
}
