//! A rule: its description, its judgement, and how the analysis treats its findings. Each file of `rules/`
//! implements [`Rule`].

use std::cell::OnceCell;

use holdup_events::Trace;

use crate::analysis::Derived;
use crate::charge::Charge;
use crate::derive::lock_calls::LockCalls;
use crate::derive::replay::{Facts, Forecast};
use crate::finding::{Confidence, Finding, Gain};
use crate::removal::Removal;
use crate::scene::Scene;

/// A rule's judgement: its findings, or why the recording does not allow one.
pub(crate) type Verdict = Result<Vec<Finding>, String>;

/// The same, with the slices that each finding charges.
pub(crate) type ChargedVerdict = Result<Vec<Charged>, String>;

/// A finding with the slices that it charges. Two findings that charge the same lost time become one.
#[derive(Clone, Debug)]
pub struct Charged {
    /// The rule's finding.
    pub finding: Finding,
    /// The slices that make up the cost. Empty if the cost is not made of slices, or if the rule does not
    /// report them.
    pub charge: Charge,
}

impl From<Finding> for Charged {
    fn from(finding: Finding) -> Charged {
        Charged { finding, charge: Charge::default() }
    }
}

/// A verdict whose findings charge no slices.
pub(crate) fn uncharged(verdict: Verdict) -> ChargedVerdict {
    Ok(verdict?.into_iter().map(Charged::from).collect())
}

/// One kind of cause.
pub(crate) trait Rule: Sync {
    /// Description and properties of the rule.
    fn info(&self) -> &'static Info;

    /// Judges a recording.
    ///
    /// # Errors
    ///
    /// Why the recording does not allow a judgement.
    fn judge(&self, scene: &Scene) -> ChargedVerdict;

    /// The changes of a replay that remove the cause. `None` if a replay cannot leave it out.
    fn removal(&self, _cause: &Cause) -> Option<Removal> {
        None
    }

    /// The gain, given the rule's own estimate (in the finding) and the forecast of a replay.
    fn gain(&self, _cause: &Cause, forecast: Gain) -> Gain {
        forecast
    }

    /// The highest confidence that the finding's gain allows.
    fn confidence_max(&self, _cause: &Cause) -> Confidence {
        Confidence::High
    }
}

/// Description of a rule, and how the analysis treats its findings.
pub(crate) struct Info {
    /// Kebab-case id. It never changes.
    pub name: &'static str,
    /// One line, at most 80 characters, no full stop.
    pub summary: &'static str,
    /// Whether the causes are only waits: without them the program does the same work.
    pub waits_only: bool,
    /// Place of its findings in the report.
    pub standing: Standing,
    /// Source of the gain's bounds.
    pub estimate: Estimate,
    /// Whether the work may be what the program is for. Without a certain gain, such findings rank behind those
    /// that have one.
    pub may_be_needed: bool,
    /// Whether healthy programs have such waits too: the first read of a file, the last sleep of a housekeeping
    /// thread.
    pub is_of_outside: bool,
    /// Whether busy CPUs or locks have a little of it without a cause.
    pub is_usual: bool,
    /// Whether the cause leaves one thread at a time, whatever the work.
    pub leaves_one_thread: bool,
    /// Whether its hints may explain more certain findings: the lost time is certain, and only its origin is not.
    pub hints_explain: bool,
    /// Place among the rules that report what a shared collector costs: the lowest one reports it. `None`: never.
    pub collector_place: Option<u8>,
    /// Rules whose findings its findings may explain.
    pub explains: &'static [Explains],
    /// Settings that may help.
    pub remedies: &'static [Remedy],
}

impl Info {
    /// A cause with the rule's own estimate.
    pub const fn new(name: &'static str, summary: &'static str) -> Info {
        Info {
            name,
            summary,
            waits_only: false,
            standing: Standing::Cause,
            estimate: Estimate::ByRule,
            may_be_needed: false,
            is_of_outside: false,
            is_usual: false,
            leaves_one_thread: false,
            hints_explain: false,
            collector_place: None,
            explains: &[],
            remedies: &[],
        }
    }

    /// How a finding of this rule may explain one of another. `None` if it may not.
    pub fn explains(&self, other: &Info) -> Option<Explanation> {
        self.explains.iter().find(|one| one.rule.name == other.name).map(|one| one.how)
    }
}

/// Place of a rule's findings in the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// A cause of lost time, ranked by its gain.
    Cause,
    /// An error of the program, whatever it gains.
    Error,
    /// The reason for which the recording was saved. It comes first, whatever it gains.
    Requested,
    /// The thread that determines the run's length, without a cause. Causes suppress it.
    Fallback,
}

/// Source of the bounds of a gain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Estimate {
    /// The rule's own bounds.
    ByRule,
    /// The rule computes the saving exactly. Its gain still gets the margin for unforeseen effects of a replay.
    Computed,
    /// A replay without the cause.
    Replayed,
}

/// A rule whose findings may be symptoms of this rule's findings.
pub(crate) struct Explains {
    rule: &'static Info,
    how: Explanation,
}

/// When a finding is a symptom of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Explanation {
    /// Most of its lost time is the other's, too.
    Shared,
    /// The same, and most of its gain: it may have other causes. Otherwise the explaining finding is a part of it.
    Whole,
    /// Most of its waits are the other's, too. Threads wait in turn, independent of the holder's speed. Without the
    /// holder's own waits they would wait as long.
    SharedWaits,
    /// The two are views of one event, and the other ranks higher.
    RankedLower,
}

impl Explains {
    /// See [`Explanation::Shared`].
    pub const fn shared(rule: &'static Info) -> Explains {
        Explains { rule, how: Explanation::Shared }
    }

    /// See [`Explanation::Whole`].
    pub const fn whole(rule: &'static Info) -> Explains {
        Explains { rule, how: Explanation::Whole }
    }

    /// See [`Explanation::SharedWaits`].
    pub const fn shared_waits(rule: &'static Info) -> Explains {
        Explains { rule, how: Explanation::SharedWaits }
    }

    /// See [`Explanation::RankedLower`].
    pub const fn ranked_lower(rule: &'static Info) -> Explains {
        Explains { rule, how: Explanation::RankedLower }
    }

    /// The rule that may be explained.
    #[cfg(test)]
    pub fn rule(&self) -> &'static Info {
        self.rule
    }
}

/// A setting that an experiment can try, instead of a change of code.
pub(crate) struct Remedy {
    /// Required runtimes, of which one must be present. Empty: any.
    pub runtimes: &'static [&'static str],
    /// The setting.
    pub knob: &'static str,
    /// The values to try. [`CPUS`] and [`HALF_MEMORY`] depend on the machine.
    pub values: &'static [&'static str],
    /// The expected effect.
    pub hope: &'static str,
    /// Whether only findings about an allocator's lock are concerned.
    pub is_for_allocators: bool,
}

impl Remedy {
    /// A setting for every finding of the rule.
    pub const fn new(
        runtimes: &'static [&'static str],
        knob: &'static str,
        values: &'static [&'static str],
        hope: &'static str,
    ) -> Remedy {
        Remedy { runtimes, knob, values, hope, is_for_allocators: false }
    }
}

/// As a value: the number of CPUs that the program may use.
pub(crate) const CPUS: &str = "CPUS";
/// As a value: half of the machine's memory. A JVM uses a quarter by default.
pub(crate) const HALF_MEMORY: &str = "HALF-MEMORY";
/// Names of the runtimes that read OpenMP's variables.
pub(crate) const OPENMP: &[&str] = &["libgomp", "libomp"];
/// Names of OCaml's runtimes.
pub(crate) const OCAML: &[&str] = &["ocaml4", "ocaml5"];

/// A finding of a rule, while the analysis weighs it against the others.
#[derive(Clone)]
pub(crate) struct Judged {
    /// The rule that found it.
    pub rule: &'static dyn Rule,
    /// The finding.
    pub finding: Finding,
    /// The slices that it charges.
    pub charge: Charge,
}

impl Judged {
    /// The finding as a cause that a replay may leave out.
    pub fn cause<'a, 't>(&'a self, known: &'a Known<'t>) -> Cause<'a, 't> {
        Cause { known, finding: &self.finding, charge: &self.charge }
    }
}

/// A recording with everything that removals of causes are computed from.
pub(crate) struct Known<'t> {
    /// Input of replays.
    pub facts: Facts<'t>,
    /// Results of the analysis.
    pub derived: &'t Derived,
    lock_calls: OnceCell<LockCalls<'t>>,
}

impl<'t> Known<'t> {
    /// Of this recording.
    pub fn new(facts: Facts<'t>, derived: &'t Derived) -> Known<'t> {
        Known { facts, derived, lock_calls: OnceCell::new() }
    }

    /// The functions that take locks. They are derived at the first use.
    pub fn lock_calls(&self) -> &LockCalls<'t> {
        self.lock_calls.get_or_init(|| LockCalls::new(self.facts.trace, self.facts.locks, self.facts.roles))
    }
}

/// A cause that a replay may leave out.
#[derive(Clone, Copy)]
pub(crate) struct Cause<'a, 't> {
    /// The recording and its analysis.
    pub known: &'a Known<'t>,
    /// The finding that reports it.
    pub finding: &'a Finding,
    /// The slices that it charges.
    pub charge: &'a Charge,
}

impl<'t> Cause<'_, 't> {
    /// Input of replays.
    pub fn facts(&self) -> Facts<'t> {
        self.known.facts
    }

    /// The recording.
    pub fn trace(&self) -> &'t Trace {
        self.known.facts.trace
    }

    /// Results of the analysis.
    pub fn derived(&self) -> &'t Derived {
        self.known.derived
    }

    /// The cost as a share (0 to 1) of all thread time.
    pub fn cost_share(&self) -> f64 {
        self.finding.cost_ns as f64 / self.derived().ledger.total_ns.max(1) as f64
    }
}

/// The gain of a forecast.
pub(crate) fn forecast_gain(forecast: &Forecast) -> Gain {
    let (_, low, high) = forecast.gain();
    Gain { low: low.clamp(0.0, 1.0), high: high.clamp(0.0, 1.0) }
}
