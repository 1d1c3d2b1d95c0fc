//! Two recordings of one run each: how the shares of their time differ, by blocks of time within each run.
//!
//! A block is a stretch of the recording; resampling blocks says how much a share varies *within* a run. It says nothing
//! of how one run differs from the next, so no verdict on the run's length rests on it.

use holdup_events::{ThreadId, Timestamp, Trace};

use super::compare::{self, Estimate, Question};
use crate::derive::class::Class;
use crate::derive::roles::Roles;
use crate::derive::timelines::Timelines;
use crate::derive::zoom::{Zoom, range_ledger};

/// Into how many blocks a recording is cut: long enough that one says little of the next.
const BLOCKS: usize = 24;

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
        let question = Question { seed: question.seed.wrapping_add(*class as u64), ..*question };
        let change = compare::two_centres(&a, &b, &question);
        ClassChange { class: *class, a: mean(&a), b: mean(&b), change }
    };
    let rows = Class::ALL.iter().map(change);
    rows.filter(|row| row.a > 0.0 || row.b > 0.0).collect()
}

/// For each block the mean number of threads in each class.
fn blocks(trace: &Trace) -> Vec<[f64; crate::derive::class::CLASSES]> {
    let roles = Roles::built_in(trace);
    let timelines = Timelines::derive(trace);
    let zoom = Zoom::derive(trace, &timelines, &roles);
    let threads: Vec<ThreadId> = trace.target_threads().collect();
    let wall = trace.wall().0;
    let at = |block: usize| {
        Timestamp(trace.start().0 + (u128::from(wall) * block as u128 / BLOCKS as u128) as u64)
    };
    let block = |block: usize| {
        let (from, to) = (at(block), at(block + 1));
        let ledger = range_ledger((trace, &timelines, &zoom, &roles), &threads, (from, to));
        ledger.classes.map(|ns| ns as f64 / to.since(from).0.max(1) as f64)
    };
    if wall < BLOCKS as u64 { Vec::new() } else { (0..BLOCKS).map(block).collect() }
}
