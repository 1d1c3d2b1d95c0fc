//! The viewer's answers: what `docs/viewer-api.md` promises, of one recording held in memory.
//!
//! [`Viewer::answer`] takes the path and query of a question and gives JSON. It reads no file and knows no socket:
//! [`gate`] says which requests may ask at all, the binary has the socket, [`bundle`] writes the answers into a file.

mod ask;
pub mod bundle;
mod counters;
mod flame;
pub mod gate;
mod lanes;
mod ledger;
pub mod page;
mod path;
mod respond;
mod samples;
mod search;
mod slice;
mod spans;
mod summary;
mod tables;
mod wakeups;

use std::sync::Mutex;

use holdup_events::{Duration, ThreadId, Timestamp, Trace};
use holdup_findings::Analysis;
use holdup_findings::derive::timelines::Timelines;
use holdup_findings::derive::zoom::{CounterIndex, Overview, SpanIndex, Tile, Tiling, Zoom};
use serde::Serialize;
use serde_json::Value;

use ask::Ask;
pub use respond::{Response, respond};

/// Version of the questions and answers: raised when one changes its meaning or goes.
pub const API_VERSION: u32 = 1;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The question makes no sense.
    #[error("{0}")]
    Bad(String),
    /// What is asked for is not there.
    #[error("{0}")]
    NotThere(String),
}

impl Refusal {
    fn bad(text: &str) -> Refusal {
        Refusal::Bad(text.to_owned())
    }

    fn not_there(text: &str) -> Refusal {
        Refusal::NotThere(text.to_owned())
    }

    /// As HTTP says it.
    pub fn status(&self) -> u16 {
        match self {
            Refusal::Bad(_) => 400,
            Refusal::NotThere(_) => 404,
        }
    }
}

/// Source and instructions of a function, from files that the viewer itself does not read.
pub type Annotator = Box<dyn Fn(&Trace, &str) -> Result<Value, String> + Send + Sync>;

/// A recording that is looked at.
pub struct Viewer {
    trace: Trace,
    analysis: Analysis,
    timelines: Timelines,
    zoom: Zoom,
    tiling: Tiling,
    overview: Overview,
    spans: SpanIndex,
    counters: CounterIndex,
    flames: Mutex<flame::Kept>,
    annotator: Option<Annotator>,
}

/// An endpoint: its name below `api/`, the parameters that it knows, and who answers.
struct Endpoint {
    name: &'static str,
    parameters: &'static [&'static str],
    answer: fn(&Viewer, &Ask) -> Result<String, Refusal>,
}

const RANGE: &[&str] = &["from", "to", "threads"];
const TILE: &[&str] = &["level", "tile", "threads"];

/// All but the tables, which have a name below theirs.
const ENDPOINTS: &[Endpoint] = &[
    Endpoint { name: "summary", parameters: &[], answer: summary::answer },
    Endpoint { name: "lanes", parameters: TILE, answer: lanes::answer },
    Endpoint { name: "cpus", parameters: &["level", "tile", "cpus"], answer: lanes::answer_cpus },
    Endpoint { name: "counters", parameters: &["level", "tile"], answer: counters::answer },
    Endpoint { name: "samples", parameters: TILE, answer: samples::answer },
    Endpoint { name: "spans", parameters: TILE, answer: spans::answer },
    Endpoint { name: "wakeups", parameters: RANGE, answer: wakeups::answer },
    Endpoint { name: "slice", parameters: &["thread", "at", "row"], answer: slice::answer },
    Endpoint { name: "ledger", parameters: RANGE, answer: ledger::answer },
    Endpoint { name: "path", parameters: &["from", "to"], answer: path::answer },
    Endpoint { name: "flame", parameters: flame::PARAMETERS, answer: flame::answer },
    Endpoint { name: "search", parameters: &["q"], answer: search::answer },
    Endpoint { name: "annotate", parameters: &["function"], answer: annotate },
];

impl Viewer {
    /// Prepares to answer.
    pub fn new(trace: Trace, analysis: Analysis) -> Viewer {
        let timelines = Timelines::derive(&trace);
        let zoom = Zoom::derive(&trace, &timelines, &analysis.derived.roles);
        let tiling = Tiling::of(&trace);
        let overview = Overview::derive(&trace, &zoom);
        let (spans, counters) = (SpanIndex::derive(&trace), CounterIndex::derive(&trace));
        Viewer {
            trace,
            analysis,
            timelines,
            zoom,
            tiling,
            overview,
            spans,
            counters,
            flames: Mutex::default(),
            annotator: None,
        }
    }

    /// With source and instructions.
    pub fn with_annotator(mut self, annotator: Annotator) -> Viewer {
        self.annotator = Some(annotator);
        self
    }

    /// The names of all questions but the tables.
    pub fn questions() -> impl Iterator<Item = &'static str> {
        ENDPOINTS.iter().map(|endpoint| endpoint.name)
    }

    /// The JSON that answers `path` (below `api/`) with `query`.
    ///
    /// # Errors
    /// Why there is none.
    pub fn answer(&self, path: &str, query: &str) -> Result<String, Refusal> {
        if let Some(table) = path.strip_prefix("tables/") {
            Ask::parse(query, &[])?;
            return tables::answer(self, table);
        }
        let Some(endpoint) = ENDPOINTS.iter().find(|endpoint| endpoint.name == path) else {
            return Err(Refusal::not_there("there is no such question"));
        };
        (endpoint.answer)(self, &Ask::parse(query, endpoint.parameters)?)
    }

    /// Nanoseconds since the recording's start.
    fn since(&self, at: Timestamp) -> u64 {
        at.since(self.trace.start()).0
    }

    /// The tile that is asked for.
    fn tile(&self, ask: &Ask) -> Result<Tile, Refusal> {
        let level = u32::try_from(ask.needed("level")?).unwrap_or(u32::MAX);
        let found = self.tiling.tile(level, ask.needed("tile")?);
        found.ok_or_else(|| Refusal::not_there("there is no such tile"))
    }

    /// The range that is asked for, the whole recording if none is.
    fn range(&self, ask: &Ask) -> Result<(Timestamp, Timestamp), Refusal> {
        let at = |ns: Option<u64>, default| ns.map_or(default, |ns| self.trace.start() + Duration(ns));
        let from = at(ask.number("from")?, self.trace.start());
        let to = at(ask.number("to")?, self.trace.end());
        if from > to {
            return Err(Refusal::bad("the range ends before it begins"));
        }
        Ok((from, to.min(self.trace.end()).max(from)))
    }

    /// The threads that are asked for.
    fn threads(&self, ask: &Ask) -> Result<Option<Vec<ThreadId>>, Refusal> {
        let Some(numbers) = ask.numbers("threads")? else { return Ok(None) };
        if numbers.iter().any(|number| *number as usize >= self.trace.threads.len()) {
            return Err(Refusal::not_there("there is no such thread"));
        }
        Ok(Some(numbers.into_iter().map(ThreadId).collect()))
    }
}

/// Bytes of an answer. What is serialised are numbers, texts and lists: that cannot fail.
fn to_text(answer: &impl Serialize) -> String {
    serde_json::to_string(answer).unwrap_or_else(|error| format!("{{\"error\": \"{error}\"}}"))
}

/// "-1 is none", as in arrays of the answers.
fn or_none(number: Option<impl Into<i64>>) -> i64 {
    number.map_or(-1, Into::into)
}

fn annotate(viewer: &Viewer, ask: &Ask) -> Result<String, Refusal> {
    let Some(function) = ask.text("function") else { return Err(Refusal::bad("function is missing")) };
    // That a binary is not here is an answer, not a broken question: browsers log those.
    let answer = match &viewer.annotator {
        Some(annotator) => annotator(&viewer.trace, function),
        None => Err("this viewer reads no binaries".to_owned()),
    };
    Ok(to_text(&answer.unwrap_or_else(|reason| serde_json::json!({"error": reason}))))
}
