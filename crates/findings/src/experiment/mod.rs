//! Experiments: several runs of a program under different settings, and the conclusions from them.
//!
//! Pure, like the rest of this crate. The caller runs the program, keeps the runs, and passes the seed of the
//! resampling. So the same runs always give the same result. [`run`] holds the data of a run, [`facts`]
//! derives them from a recording. [`compare`] is the comparison that all commands use.

mod blocks;
pub mod collections;
pub mod compare;
#[cfg(test)]
mod compare_tests;
pub mod difference;
pub mod discoveries;
pub mod distributions;
pub mod facts;
pub mod growth;
pub mod layout;
pub mod random;
pub mod run;
pub mod scaling;
pub mod sizes;
pub mod speedup_stack;
pub mod surroundings;
pub mod sweep;
pub mod trials;
pub mod usl;
pub mod within;

pub use compare::{Change, Verdict};
pub use run::{Drift, Experiment, FactRow, Goal, Measure, Run, RunFacts, Setting, Table, ThreadFacts};

use std::sync::LazyLock;

use crate::rules::{self, RuleInfo};

/// The findings of experiments, in addition to the rules that judge one recording.
pub fn rules() -> Vec<RuleInfo> {
    static MANUALS: LazyLock<[String; 2]> =
        LazyLock::new(|| [include_str!("layout.rs"), include_str!("sizes.rs")].map(rules::manual));
    let [layout, sizes] = &*MANUALS;
    vec![
        RuleInfo {
            name: "layout-sensitive",
            summary: "The program's speed depends on the memory layout",
            manual: layout,
        },
        RuleInfo { name: "superlinear-growth", summary: "Time grows faster than the input", manual: sizes },
    ]
}
