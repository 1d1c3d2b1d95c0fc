//! Two recordings of one run each: the differences of their shares of time, by blocks of time within each
//! run.
//!
//! A block is a part of the recording. Resampled blocks show how much a share varies *within* a run. They do
//! not show how one run differs from the next, so no verdict on the run's length rests on them.

use holdup_events::{ThreadId, Timestamp, Trace};

use super::blocks::{self, BLOCKS};
use super::compare::{self, Estimate, Question};
use super::difference::{self, Basis, Difference, Figure, RowChange};
use super::run::{Measure, Table};
use crate::Analysis;
use crate::derive::class::Class;
use crate::derive::roles::Roles;
use crate::derive::timelines::Timelines;
use crate::derive::zoom::{Zoom, range_ledger};

/// How many threads' time a class took, on average: of A, of B, and the change with its interval.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassChange {
    /// The class.
    pub class: Class,
    /// Mean number of threads in it, in A.
    pub a: f64,
    /// In B.
    pub b: f64,
    /// The change, over blocks within the runs.
    pub change: Option<Estimate>,
}

/// Compares class by class.
pub fn compare(a: &Trace, b: &Trace, question: &Question) -> Vec<ClassChange> {
    let (of_a, of_b) = (blocks(a), blocks(b));
    let change = |class: &Class| {
        let values = |blocks: &[[f64; crate::derive::class::CLASSES]]| -> Vec<f64> {
            blocks.iter().map(|block| block[*class as usize]).collect()
        };
        let (a, b) = (values(&of_a), values(&of_b));
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
        // A class that is there in some blocks alone must not be trimmed away.
        let seed = question.seed.wrapping_add(*class as u64);
        let question = Question { seed, trimmed: 0.0, ..*question };
        let change = compare::two_centres(&a, &b, &question);
        ClassChange { class: *class, a: mean(&a), b: mean(&b), change }
    };
    let rows = Class::ALL.iter().map(change);
    rows.filter(|row| row.a > 0.0 || row.b > 0.0).collect()
}

/// Gives the rows of two recordings of one run each their intervals, as far as blocks have them: locks, syscalls, allocations.
pub fn add_intervals(
    difference: &mut Difference,
    a: (&Trace, &Analysis),
    b: (&Trace, &Analysis),
    question: &Question,
) {
    let (of_a, of_b) = (blocks::runs(a.0, a.1), blocks::runs(b.0, b.1));
    let found = difference::rows((&of_a, &of_b), false, question);
    for row in &mut difference.rows {
        let same = |one: &&RowChange| one.table == row.table && one.name == row.name;
        let Some(blocks) = found.iter().find(same) else { continue };
        for figure in &mut row.figures {
            figure.change = match (row.table, figure.measure) {
                (Table::Syscall, Measure::Count) => {
                    counted(a, b, &row.name).map(|half| Estimate::within(figure.b - figure.a, half))
                }
                _ => blocks.figure(figure.measure).and_then(of_run),
            };
        }
    }
    difference.basis = Basis::Blocks;
    difference::judge(&mut difference.rows, question.matters);
    // More blocks are no more runs.
    difference.rows.iter_mut().flat_map(|row| &mut row.figures).for_each(|figure| figure.runs_wanted = None);
}

/// Half the width of the interval of the additional calls in B, by the scatter between the windows in which
/// calls were counted. `None` if it is not known, or if all calls were counted.
fn counted(a: (&Trace, &Analysis), b: (&Trace, &Analysis), name: &str) -> Option<f64> {
    let half = |(trace, analysis): (&Trace, &Analysis)| {
        let call = analysis.derived.syscalls.iter().find(|call| call.name == name);
        call.map_or(Some(0.0), |call| call.rate?.calls_in(trace.wall().0).1)
    };
    Some(half(a)?.hypot(half(b)?)).filter(|half| *half > 0.0)
}

/// The change of a whole run from that of a block: what adds up is as many times as great as there are blocks. The longest
/// wait of a run is not one of its blocks' mean.
fn of_run(figure: &Figure) -> Option<Estimate> {
    let times = if figure.measure.adds_up() { BLOCKS as f64 } else { 1.0 };
    let scaled = |found: &Estimate| Estimate {
        centre: found.centre * times,
        low: found.low * times,
        high: found.high * times,
        error: found.error * times,
        ..*found
    };
    figure.change.as_ref().filter(|_| figure.measure != Measure::Longest).map(scaled)
}

/// The mean number of threads in each class, for each block. Empty if the recording is too short.
fn blocks(trace: &Trace) -> Vec<[f64; crate::derive::class::CLASSES]> {
    let Some(bounds) = blocks::bounds(trace) else { return Vec::new() };
    let roles = Roles::built_in(trace);
    let timelines = Timelines::derive(trace);
    let zoom = Zoom::derive(trace, &timelines, &roles);
    let threads: Vec<ThreadId> = trace.target_threads().collect();
    let block = |ends: &[Timestamp]| {
        let (from, to) = (ends[0], ends[1]);
        let ledger = range_ledger((trace, &timelines, &zoom, &roles), &threads, (from, to));
        ledger.classes.map(|ns| ns as f64 / to.since(from).0.max(1) as f64)
    };
    bounds.windows(2).map(block).collect()
}
