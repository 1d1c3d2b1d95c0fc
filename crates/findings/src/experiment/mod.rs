//! Experiments: several runs of a program under different settings, and what may be said of them.
//!
//! Pure, like the rest of this crate: who runs the program keeps the runs, and gives the seed from which resampling
//! takes its randomness, so that the same runs always give the same answer. [`run`] is what is known of a run,
//! [`facts`] makes it from a recording, [`compare`] is the one comparison that all commands use.

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

/// What experiments find, beside the rules that judge one recording.
pub fn rules() -> Vec<RuleInfo> {
    static MANUALS: LazyLock<[String; 2]> =
        LazyLock::new(|| [include_str!("layout.rs"), include_str!("sizes.rs")].map(rules::manual));
    let [layout, sizes] = &*MANUALS;
    vec![
        RuleInfo {
            name: "layout-sensitive",
            summary: "The program's speed is luck of the memory layout",
            manual: layout,
        },
        RuleInfo { name: "superlinear-growth", summary: "Time grows faster than the input", manual: sizes },
    ]
}
