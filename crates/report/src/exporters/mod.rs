//! Other tools' formats. A new one is one new file and one word in the list below.

use std::io::{self, Write};

use holdup_events::Trace;
use holdup_findings::Analysis;
use holdup_findings::derive::stacks::{Folding, Selection};

/// Description of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// Kebab-case id, for ever.
    pub name: &'static str,
    /// One line, at most 80 characters, no full stop.
    pub summary: &'static str,
    /// File extension, without the dot.
    pub extension: &'static str,
    /// Kind of content.
    pub holds: Holds,
    /// Data of a trace that the format cannot represent.
    pub cannot_carry: &'static str,
}

/// Kind of a format's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Stacks with their time.
    Stacks,
    /// Events over time.
    Timeline,
}

/// Returns why a recording has nothing for a format. `None` if it has something.
pub fn nothing_to_export(trace: &Trace, holds: Holds) -> Option<&'static str> {
    let any_lasts = |thread| trace.slices.of_thread(thread).any(|slice| slice.duration().0 > 0);
    let is_empty = match holds {
        Holds::Stacks => trace.samples.is_empty() && !trace.target_threads().any(any_lasts),
        Holds::Timeline => trace.wall().0 == 0 && trace.marks.is_empty() && trace.samples.is_empty(),
    };
    is_empty.then_some(match trace.allocations.is_empty() {
        true => "the recording has no time to export",
        false => {
            "the recording has no time to export, only allocations: `holdup report NAME allocs` shows them"
        }
    })
}

/// Which time a flame graph shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlameTime {
    /// Running.
    OnCpu,
    /// All else, by class.
    OffCpu,
    /// Waits, each stack going on with the threads that ended it.
    Wakers,
    /// On-CPU and off-CPU time together.
    #[default]
    All,
}

/// Options for formats of stacks. Other formats ignore them.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    /// Which part of the recording.
    pub selection: Selection,
    /// Frames to write. `None` for the format's default.
    pub folding: Option<Folding>,
    /// For a flame graph: class of time.
    pub flame: FlameTime,
    /// For a flame graph: an earlier recording to compare with.
    pub against: Option<&'a Trace>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options { selection: Selection::all(), folding: None, flame: FlameTime::All, against: None }
    }
}

/// A format that a trace can be written in.
pub trait Exporter: Sync {
    /// About the format.
    fn info(&self) -> Info;

    /// Writes it. The same trace gives the same bytes.
    ///
    /// # Errors
    /// Those of `out`.
    fn write(
        &self,
        trace: &Trace,
        analysis: &Analysis,
        options: &Options,
        out: &mut dyn Write,
    ) -> io::Result<()>;
}

macro_rules! exporters {
    ($($module:ident,)*) => {
        $(mod $module;)*

        static ALL: &[&dyn Exporter] = &[$(&$module::Format,)*];
    };
}

exporters! {
    chrome,
    firefox,
    flame,
    folded,
    perfetto,
    pprof,
    speedscope,
}

/// Every format, in the order of the registry.
pub fn all() -> &'static [&'static dyn Exporter] {
    ALL
}

/// The format of a name.
pub fn find(name: &str) -> Option<&'static dyn Exporter> {
    ALL.iter().copied().find(|exporter| exporter.info().name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_registered_under_its_name() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/exporters");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|file| file.ends_with(".rs") && file != "mod.rs")
            .map(|file| file.trim_end_matches(".rs").replace('_', "-"))
            .collect();
        let mut names: Vec<&str> = ALL.iter().map(|exporter| exporter.info().name).collect();
        files.sort();
        names.sort();
        assert_eq!(files, names);
        for info in ALL.iter().map(|exporter| exporter.info()) {
            assert!(info.summary.chars().count() <= 80 && !info.summary.ends_with('.'), "{}", info.summary);
            assert!(!info.cannot_carry.is_empty() && !info.extension.starts_with('.'));
            assert_eq!(find(info.name).map(|found| found.info()), Some(info));
        }
    }
}
