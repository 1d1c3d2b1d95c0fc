//! The answers of `holdup diff`, `scale`, `sweep` and `try`: for a terminal, as Markdown, as JSON, as a picture.

mod diff;
mod diff_rows;
mod head;
mod html;
mod json;
mod page;
mod picture;
mod scale;
mod sweep;

use holdup_findings::experiment::collections::Collections;
use holdup_findings::experiment::compare::{Change, RUNS_MAX};
use holdup_findings::experiment::difference::Difference;
use holdup_findings::experiment::layout::Layout;
use holdup_findings::experiment::scaling::Scaling;
use holdup_findings::experiment::sizes::Sizes;
use holdup_findings::experiment::sweep::Sweep;
use holdup_findings::experiment::trials::Trial;
use holdup_findings::experiment::within::ClassChange;
use holdup_findings::experiment::{Experiment, Goal};
use serde_json::Value;

use crate::numbers;
use crate::text::Style;
use page::Page;
pub use picture::Picture;

/// The result of an experiment.
pub enum Answer {
    /// Two settings, or two recordings.
    Diff(Diff),
    /// Numbers of workers.
    Scale(Scaling),
    /// Values of knobs, with the trial of each setting except the baseline, if there are trials.
    Sweep(Sweep, Vec<Trial>),
    /// Memory layouts.
    Layout(Layout),
    /// Sizes of the input.
    Sizes(Sizes),
}

/// A comparison of two commands or recordings.
pub struct Diff {
    /// Names of the two.
    pub names: (String, String),
    /// The changes.
    pub difference: Difference,
    /// The effect of collections, if any.
    pub collections: Option<Collections>,
    /// Class by class over blocks of time, where there is one run of each.
    pub within: Vec<ClassChange>,
    /// Which rows of each table are shown.
    pub rows: RowChoice,
    /// The two recordings, where there are only these.
    pub recordings: Option<(String, String)>,
    /// Recordings of a run of each, for the hint at the differential flame graph.
    pub stacks: Option<(String, String)>,
}

/// Which rows of the tables of a [`Diff`] are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowChoice {
    /// Rows of each table at most.
    pub max: usize,
    /// Whether to also show rows for which the runs do not show whether they changed.
    pub undecided: bool,
}

/// The result to show, with its runs.
pub struct Shown<'a> {
    /// The runs.
    pub experiment: &'a Experiment,
    /// Where the runs are kept.
    pub set: Option<String>,
    /// The result.
    pub answer: &'a Answer,
}

impl Shown<'_> {
    /// For a terminal.
    pub fn render(&self, style: &Style) -> String {
        self.page().for_terminal(style)
    }

    /// For a pull request.
    pub fn markdown(&self) -> String {
        self.page().for_markdown()
    }

    /// As one file for a browser.
    pub fn html(&self) -> String {
        html::page(self)
    }

    /// For programs (docs/json-experiments.md).
    pub fn json(&self) -> Value {
        json::to_json(self)
    }

    fn page(&self) -> Page {
        let mut page = Page::default();
        match self.answer {
            Answer::Diff(diff) => diff::write(self, diff, &mut page),
            Answer::Scale(scaling) => scale::write(self, scaling, &mut page),
            Answer::Sweep(sweep, trials) => sweep::settings(self, (sweep, trials), &mut page),
            Answer::Layout(layout) => sweep::layout(self, layout, &mut page),
            Answer::Sizes(sizes) => sweep::sizes(self, sizes, &mut page),
        }
        page
    }
}

/// A value that runs are judged by.
fn value(goal: Goal, value: f64) -> String {
    match goal {
        Goal::Wall => numbers::duration((value * 1e9).round().max(0.0) as u64),
        Goal::Work => format!("{} a second", number(value)),
        Goal::Rate | Goal::Cost => number(value),
    }
}

/// A number with three or four digits that count.
fn number(value: f64) -> String {
    match value.abs() {
        magnitude if magnitude >= 1e15 => format!("{value:.3e}"),
        magnitude if magnitude >= 1000.0 => numbers::count(value.round() as u64),
        magnitude if magnitude >= 100.0 => format!("{value:.0}"),
        magnitude if magnitude >= 10.0 => format!("{value:.1}"),
        magnitude if magnitude >= 1.0 => format!("{value:.2}"),
        0.0 => "0".to_owned(),
        magnitude if magnitude >= 1e-3 => format!("{value:.4}"),
        _ => format!("{value:.2e}"),
    }
}

/// A change with its sign.
fn change(relative: f64) -> String {
    if !relative.is_finite() {
        return "?".to_owned();
    }
    let percent = relative * 100.0;
    match percent.abs() {
        size if size >= 99.95 => format!("{percent:+.0} %"),
        size if size < 0.05 => "0.0 %".to_owned(),
        _ => format!("{percent:+.1} %"),
    }
}

/// An interval of changes.
fn range(low: f64, high: f64) -> String {
    format!("{} to {}", change(low), change(high))
}

/// Note about a comparison that needs more runs than are made automatically.
fn beyond_reach(found: &Change, wanted: u32) -> String {
    // So many that the figure itself means little.
    let about = match wanted {
        0..1_000_000 => format!("about {}", numbers::count(u64::from(wanted))),
        _ => "more than a million".to_owned(),
    };
    let finds = found.finds.map_or(String::new(), |share| {
        format!(" The {} that were made would find a change of {}.", found.runs, numbers::percent(share))
    });
    format!(
        "Runs vary so much here that the smallest change that matters (--matters) needs {about} of each. That is more than the {} that are made by default.{finds} Longer runs or a quieter machine need fewer. -n sets the number.",
        numbers::count(u64::from(RUNS_MAX))
    )
}
