//! The part of garbage collections in the difference between two programs. Threads that share a collector,
//! and processes with one each, do the same work in different times.

use std::iter::once;

use super::difference::{Basis, Difference, RowChange};
use super::facts::ALL;
use super::run::{FactRow, Goal, Table};
use crate::Analysis;
use crate::derive::class::Class;

/// Minimum share of the change for which collections account, to be reported.
const SHARE_MIN: f64 = 0.2;
/// Waits of idle threads, or of threads for which other threads work. They last as long as the awaited event,
/// and are no cause.
const CAUSES_NOTHING: [Class; 7] = [
    Class::WorkWait,
    Class::JoinWait,
    Class::ChildWait,
    Class::PipeWait,
    Class::NetWait,
    Class::Sleep,
    Class::Stopped,
];

/// How much of a change is what collections cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Collections {
    /// Thread time a run that collections cost A (ns), on average.
    pub a_ns: f64,
    /// The same of B.
    pub b_ns: f64,
    /// How much longer B's threads ran, queued, and waited for others than A's, whatever for (ns).
    pub more_ns: f64,
    /// Cost of collections by part, the greatest change first.
    pub parts: Vec<Part>,
}

/// One way in which collections cost time: `gc-work`, `gc-wait` (asleep or awake), `spin` (tries again to lead), `run-queue` (no CPU in a
/// collection).
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// As the class of the ledger that it is like.
    pub name: String,
    /// Thread time a run in A (ns), on average.
    pub a_ns: f64,
    /// In B.
    pub b_ns: f64,
}

impl Collections {
    /// Additional cost of collections in B (ns). Negative if B has less.
    pub fn change_ns(&self) -> f64 {
        self.b_ns - self.a_ns
    }

    /// The part of [`Collections::more_ns`] that this is. More than 1 if B has less of everything else.
    pub fn share(&self) -> f64 {
        self.change_ns() / self.more_ns
    }
}

/// Cost of a recording's collections: the total and each part. For a runtime that reports no collections, by
/// the roles of its code.
pub(super) fn rows(analysis: &Analysis) -> Vec<FactRow> {
    let (gc, ledger) = (&analysis.derived.gc, &analysis.derived.ledger);
    let parts = match gc.lanes.is_empty() {
        true => {
            [(Class::GcWork, ledger.class_ns(Class::GcWork)), (Class::GcWait, ledger.class_ns(Class::GcWait))]
                .to_vec()
        }
        false => vec![
            (Class::GcWork, gc.all.work_ns),
            (Class::GcWait, gc.all.wait_running_ns + gc.all.wait_blocked_ns),
            (Class::Spin, gc.all.spin_ns),
            (Class::RunQueue, gc.all.queue_ns),
        ],
    };
    let sum = FactRow::time(Table::Collections, ALL, parts.iter().map(|(_, ns)| ns).sum());
    let parts = parts.iter().filter(|(_, ns)| *ns > 0);
    once(sum).chain(parts.map(|(class, ns)| FactRow::time(Table::Collections, class.name(), *ns))).collect()
}

/// The share of the change that collections cause. `None` if the share is small, or not shown.
pub fn explain(difference: &Difference, goal: Goal, matters: f64) -> Option<Collections> {
    let of = |table: Table| difference.rows.iter().filter(move |row| row.table == table);
    let all = of(Table::Collections).find(|row| row.name == ALL)?;
    // With one run of each, all statements hold for these two runs only.
    let is_shown = difference.basis == Basis::Blocks || all.main().trend.is_change();
    // Runs of one length do more work in it, and collect more for it.
    if goal != Goal::Wall || !is_shown {
        return None;
    }
    let counts =
        |row: &&RowChange| Class::named(&row.name).is_none_or(|class| !CAUSES_NOTHING.contains(&class));
    let sum = |side: fn(&RowChange) -> f64| of(Table::Ledger).filter(counts).map(side).sum::<f64>();
    let (a, b) = (sum(|row| row.main().a), sum(|row| row.main().b));
    let part = |row: &RowChange| Part { name: row.name.clone(), a_ns: row.main().a, b_ns: row.main().b };
    let parts = of(Table::Collections).filter(|row| row.name != ALL).map(part).collect();
    let found = Collections { a_ns: all.main().a, b_ns: all.main().b, more_ns: b - a, parts };
    let is_change = found.more_ns.abs() > matters * a.max(b) && found.share() >= SHARE_MIN;
    is_change.then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::compare::Question;
    use crate::experiment::run::{Experiment, Run, RunFacts, Setting};
    use crate::experiment::{difference, random::Random};

    const MATTERS: f64 = 0.03;
    const MS: u64 = 1_000_000;

    /// Time (ms) in classes, and what collections cost.
    type Side = (&'static [(Class, u64)], &'static [(Class, u64)]);

    /// Two programs, so many runs of each, that scatter by a hundredth.
    fn compared(sides: [Side; 2], rounds: u32) -> Difference {
        let mut random = Random::part(4, 4);
        let mut runs = Vec::new();
        for round in 0..rounds {
            for (setting, (ledger, collections)) in sides.into_iter().enumerate() {
                let mut near = |ms: u64| ((ms * MS) as f64 * (0.99 + 0.02 * random.unit())) as u64;
                let mut row = |table, name: &str, ms| FactRow::time(table, name, near(ms));
                let mut rows: Vec<FactRow> =
                    ledger.iter().map(|(class, ms)| row(Table::Ledger, class.name(), *ms)).collect();
                let parts = collections.iter().map(|(class, ms)| (class.name(), *ms));
                let all = collections.iter().map(|(_, ms)| ms).sum();
                rows.extend(
                    once((ALL, all)).chain(parts).map(|(name, ms)| row(Table::Collections, name, ms)),
                );
                let facts = Some(RunFacts { rows, ..RunFacts::default() });
                runs.push(Run { setting, round, wall_ns: MS, facts, ..Run::default() });
            }
        }
        let experiment = Experiment { settings: vec![Setting::default(); 2], runs, ..Experiment::default() };
        difference::between(&experiment, (0, 1), &Question { resamples: 500, ..Question::default() })
    }

    const PROCESSES: Side = (&[(Class::Useful, 100), (Class::GcWork, 5)], &[(Class::GcWork, 5)]);
    /// The same work, with an additional idle domain.
    const DOMAINS: Side = (
        &[
            (Class::Useful, 100),
            (Class::GcWork, 10),
            (Class::GcWait, 60),
            (Class::Spin, 40),
            (Class::RunQueue, 50),
            (Class::WorkWait, 300),
        ],
        &[(Class::GcWork, 10), (Class::GcWait, 60), (Class::Spin, 40), (Class::RunQueue, 25)],
    );

    #[test]
    fn the_extra_cost_of_domains_is_split_by_cause() {
        let found = explain(&compared([PROCESSES, DOMAINS], 10), Goal::Wall, MATTERS).expect("a cause");
        // 130 of 155 ms. The idle domain's 300 ms do not count.
        assert!((found.share() - 130.0 / 155.0).abs() < 0.02, "{found:?}");
        assert!((found.change_ns() - 130e6).abs() < 3e6, "{found:?}");
        let names: Vec<&str> = found.parts.iter().map(|part| part.name.as_str()).collect();
        assert_eq!(names, ["gc-wait", "spin", "run-queue", "gc-work"]);
        // The other way round it is what processes do not pay.
        let less = explain(&compared([DOMAINS, PROCESSES], 10), Goal::Wall, MATTERS).expect("a cause");
        assert!(less.change_ns() < 0.0 && less.more_ns < 0.0 && less.share() > 0.8, "{less:?}");
    }

    #[test]
    fn what_collections_did_not_change_is_not_theirs() {
        let is_told = |sides| explain(&compared(sides, 10), Goal::Wall, MATTERS).is_some();
        assert!(!is_told([DOMAINS, DOMAINS]));
        // More work, and as much for collections.
        let more: Side = (&[(Class::Useful, 200), (Class::GcWork, 5)], &[(Class::GcWork, 5)]);
        assert!(!is_told([PROCESSES, more]));
        // A tenth of a change, a wait that is no cause, and collections that cost more while the run takes
        // less.
        let tenth: Side = (&[(Class::Useful, 190), (Class::GcWork, 15)], &[(Class::GcWork, 15)]);
        assert!(!is_told([PROCESSES, tenth]));
        let idle: Side =
            (&[(Class::Useful, 100), (Class::GcWork, 5), (Class::WorkWait, 300)], &[(Class::GcWork, 5)]);
        assert!(!is_told([PROCESSES, idle]));
        let faster: Side = (&[(Class::Useful, 20), (Class::GcWork, 15)], &[(Class::GcWork, 15)]);
        assert!(!is_told([PROCESSES, faster]));
    }

    #[test]
    fn what_is_not_shown_or_not_known_explains_nothing() {
        let sides = [PROCESSES, DOMAINS];
        assert_eq!(explain(&compared(sides, 10), Goal::Work, MATTERS), None);
        // One run of each may be chance. Two recordings are compared by their blocks.
        let mut one = compared(sides, 1);
        assert_eq!(explain(&one, Goal::Wall, MATTERS), None);
        one.basis = Basis::Blocks;
        assert!(explain(&one, Goal::Wall, MATTERS).is_some());
        // An older set does not know what collections cost.
        let facts = |with: bool| {
            let rows = once(FactRow::time(Table::Collections, ALL, MS)).filter(|_| with).collect();
            Run { facts: Some(RunFacts { rows, ..RunFacts::default() }), ..Run::default() }
        };
        let known =
            |a, b| !difference::rows((&[facts(a)], &[facts(b)]), false, &Question::default()).is_empty();
        assert!(known(true, true) && !known(false, true));
    }
}
