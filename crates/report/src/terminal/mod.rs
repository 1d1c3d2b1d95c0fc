//! The report for a terminal: a head, then sections. Without names, the default sections.

mod ends;
mod head;
mod headline;
mod sections;
pub(crate) mod table;

use holdup_events::Trace;
use holdup_findings::Analysis;

use crate::stacks::StackAsk;
use crate::text::{Style, Tint, clean};

/// A section that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no section `{name}`: there are {}", names.join(", "))]
pub struct UnknownSection {
    /// The requested name, cleaned.
    pub name: String,
    /// The available names.
    pub names: Vec<&'static str>,
}

/// Input of sections.
pub(crate) struct View<'a> {
    /// The recording.
    pub trace: &'a Trace,
    /// The recording's analysis.
    pub analysis: &'a Analysis,
    /// The selection of stacks.
    pub stacks: &'a StackAsk,
    /// The recording's name on a command line, if known. Findings use it in the commands that they print.
    pub recording: Option<&'a str>,
    /// The sections were named by the user.
    pub chosen: bool,
    /// Properties of the output.
    pub style: &'a Style,
}

impl View<'_> {
    /// Whether it was imported from a file without times, so that durations are unknown.
    fn is_timeless(&self) -> bool {
        self.trace.manifest.mode == "import" && self.trace.wall().0 == 0
    }

    /// A heading, with room above.
    fn heading(&self, title: &str) -> Vec<String> {
        vec![String::new(), self.style.paint(Tint::Heading, title)]
    }

    /// A thread's name and number.
    fn thread(&self, id: holdup_events::ThreadId) -> String {
        clean(&holdup_findings::wording::thread(self.trace, id))
    }
}

/// Sections of a report without names.
const DEFAULT: [&str; 2] = ["ledger", "findings"];

/// The report: the head, then the named sections, or the default ones if none is named.
///
/// # Errors
/// If there is no section of a name.
pub fn render(
    trace: &Trace,
    analysis: &Analysis,
    sections: &[String],
    style: &Style,
) -> Result<String, UnknownSection> {
    render_with(trace, analysis, (sections, &StackAsk::default()), style)
}

/// Like [`render`], with a selection of stacks.
///
/// # Errors
/// If a section does not exist.
pub fn render_with(
    trace: &Trace,
    analysis: &Analysis,
    (sections, stacks): (&[String], &StackAsk),
    style: &Style,
) -> Result<String, UnknownSection> {
    render_named(trace, analysis, (sections, stacks), (style, None))
}

/// Like [`render_with`], for a recording with a name on a command line, which findings use in the commands
/// that they print.
///
/// # Errors
/// If a section does not exist.
pub fn render_named(
    trace: &Trace,
    analysis: &Analysis,
    (sections, stacks): (&[String], &StackAsk),
    (style, recording): (&Style, Option<&str>),
) -> Result<String, UnknownSection> {
    let view = View { trace, analysis, stacks, recording, chosen: !sections.is_empty(), style };
    let mut names: Vec<&str> = sections.iter().map(String::as_str).collect();
    // The whole head stands above the answer, not above each table that is asked for afterwards.
    let mut lines = match names.is_empty() {
        true => head::lines(&view),
        false => head::short(&view),
    };
    if names.is_empty() {
        names.extend(DEFAULT);
    }
    for name in names {
        let Some(section) = sections::ALL.iter().find(|section| section.name == name) else {
            return Err(UnknownSection { name: clean(name), names: section_names() });
        };
        lines.extend((section.lines)(&view));
    }
    Ok(style.finish(&lines))
}

/// Every section, in the order of the registry.
pub fn section_names() -> Vec<&'static str> {
    sections::ALL.iter().map(|section| section.name).collect()
}

/// Name and one-line summary of every section.
pub fn section_summaries() -> Vec<(&'static str, &'static str)> {
    sections::ALL.iter().map(|section| (section.name, section.summary)).collect()
}
