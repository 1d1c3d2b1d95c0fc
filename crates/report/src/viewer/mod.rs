//! The viewer's responses (`docs/viewer-api.md`) about one recording held in memory.
//!
//! [`Viewer::answer`] takes the path and query of a request and returns JSON. It reads no file and uses no
//! socket. [`gate`] checks access, the binary has the socket, and [`bundle`] writes the responses into a
//! file.

mod ask;
pub mod bundle;
mod counters;
pub mod first_look;
mod flame;
pub mod gate;
mod lanes;
mod ledger;
mod opening;
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

use std::sync::{Mutex, OnceLock};

use holdup_events::recording::Manifest;
use holdup_events::{Duration, ThreadId, Timestamp, Trace};
use holdup_findings::Analysis;
use holdup_findings::analysis::{self, Begun};
use holdup_findings::derive::cpus::{self, CpuUse};
use holdup_findings::derive::ledger::Ledger;
use holdup_findings::derive::roles::Roles;
use holdup_findings::derive::timelines::Timelines;
use holdup_findings::derive::zoom::{CounterIndex, Overview, SpanIndex, Tile, Tiling, Zoom};
use serde::Serialize;
use serde_json::Value;

use ask::Ask;
pub use opening::{Opening, Stage};
pub use respond::{Response, respond};

/// Version of the questions and answers: raised when one changes its meaning or goes.
pub const API_VERSION: u32 = 1;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The question makes no sense.
    #[error("{0}")]
    Bad(String),
    /// The requested item does not exist.
    #[error("{0}")]
    NotThere(String),
    /// Not known yet: the client should retry soon.
    #[error("{}", .0.sentence())]
    Later(Stage),
}

impl Refusal {
    fn bad(text: &str) -> Refusal {
        Refusal::Bad(text.to_owned())
    }

    fn not_there(text: &str) -> Refusal {
        Refusal::NotThere(text.to_owned())
    }

    /// The HTTP status.
    pub fn status(&self) -> u16 {
        match self {
            Refusal::Bad(_) => 400,
            Refusal::NotThere(_) => 404,
            // No error: browsers note those.
            Refusal::Later(_) => 202,
        }
    }
}

/// Source and instructions of a function, from files that the viewer itself does not read.
pub type Annotator = Box<dyn Fn(&Trace, &str) -> Result<Value, String> + Send + Sync>;

/// A recording to view.
///
/// Lanes are available as soon as it is [begun](Viewer::begin). Findings are available once it is
/// [completed](Viewer::complete).
pub struct Viewer {
    trace: Trace,
    /// Findings and their basis.
    analysis: OnceLock<Analysis>,
    timelines: Timelines,
    roles: Roles,
    totals: Ledger,
    cpus: Vec<CpuUse>,
    zoom: Zoom,
    tiling: Tiling,
    overview: Overview,
    spans: SpanIndex,
    counters: CounterIndex,
    flames: Mutex<flame::Kept>,
    annotator: Option<Annotator>,
    against: Option<Against>,
}

/// A recording that flame graphs are compared with.
struct Against {
    manifest: Manifest,
    /// Read after the recording itself.
    trace: OnceLock<Trace>,
}

/// An endpoint: its name below `api/`, its parameters, and its function.
struct Endpoint {
    name: &'static str,
    parameters: &'static [&'static str],
    /// Whether it needs the whole analysis.
    late: bool,
    answer: fn(&Viewer, &Ask) -> Result<String, Refusal>,
}

const RANGE: &[&str] = &["from", "to", "threads"];
const TILE: &[&str] = &["level", "tile", "threads"];

/// All but the tables, which have a name below theirs.
const ENDPOINTS: &[Endpoint] = &[
    Endpoint { name: "summary", parameters: &["complete"], late: false, answer: summary::answer },
    Endpoint { name: "lanes", parameters: TILE, late: false, answer: lanes::answer },
    Endpoint {
        name: "cpus",
        parameters: &["level", "tile", "cpus"],
        late: false,
        answer: lanes::answer_cpus,
    },
    Endpoint { name: "counters", parameters: &["level", "tile"], late: false, answer: counters::answer },
    Endpoint { name: "samples", parameters: TILE, late: false, answer: samples::answer },
    Endpoint { name: "spans", parameters: TILE, late: false, answer: spans::answer },
    Endpoint { name: "wakeups", parameters: RANGE, late: false, answer: wakeups::answer },
    Endpoint { name: "slice", parameters: &["thread", "at", "row"], late: true, answer: slice::answer },
    Endpoint { name: "ledger", parameters: RANGE, late: false, answer: ledger::answer },
    Endpoint { name: "path", parameters: &["from", "to"], late: true, answer: path::answer },
    Endpoint { name: "flame", parameters: flame::PARAMETERS, late: false, answer: flame::answer },
    Endpoint { name: "search", parameters: &["q"], late: true, answer: search::answer },
    Endpoint { name: "annotate", parameters: &["function"], late: false, answer: annotate },
];

impl Viewer {
    /// Prepares to answer everything.
    pub fn new(trace: Trace, analysis: Analysis) -> Viewer {
        let timelines = Timelines::derive(&trace);
        let (roles, ledger) = (analysis.derived.roles.clone(), analysis.derived.ledger.clone());
        let viewer = Viewer::begin(trace, Begun { timelines, roles, ledger });
        let _ = viewer.analysis.set(analysis);
        viewer
    }

    /// Prepares to answer about lanes.
    pub fn begin(trace: Trace, Begun { timelines, roles, ledger }: Begun) -> Viewer {
        let zoom = Zoom::derive(&trace, &timelines, &roles);
        let tiling = Tiling::new(&trace);
        let overview = Overview::derive(&trace, &zoom);
        let (spans, counters) = (SpanIndex::derive(&trace), CounterIndex::derive(&trace));
        let cpus = cpus::derive_with(&trace, &timelines);
        Viewer {
            trace,
            analysis: OnceLock::new(),
            timelines,
            roles,
            totals: ledger,
            cpus,
            zoom,
            tiling,
            overview,
            spans,
            counters,
            flames: Mutex::default(),
            annotator: None,
            against: None,
        }
    }

    /// Derives the rest. From then on, all responses are available.
    pub fn complete(&self) {
        self.analysis.get_or_init(|| {
            let known = (self.roles.clone(), self.totals.clone());
            analysis::complete(&self.trace, &self.timelines, known)
        });
    }

    /// All is answered.
    pub fn is_complete(&self) -> bool {
        self.analysis.get().is_some()
    }

    /// Returns the whole analysis. Waits for it unless `is_complete`.
    fn analysis(&self) -> &Analysis {
        self.analysis.wait()
    }

    /// With source and instructions.
    pub fn with_annotator(mut self, annotator: Annotator) -> Viewer {
        self.annotator = Some(annotator);
        self
    }

    /// Adds a recording to compare flame graphs with, of which only the manifest is known.
    /// [`Viewer::compare`] adds the rest.
    pub fn with_against(mut self, manifest: Manifest) -> Viewer {
        self.against = Some(Against { manifest, trace: OnceLock::new() });
        self
    }

    /// The other recording was read.
    pub fn compare(&self, trace: Trace) {
        if let Some(against) = &self.against {
            let _ = against.trace.set(trace);
        }
    }

    /// The names of all questions but the tables.
    pub fn questions() -> impl Iterator<Item = &'static str> {
        ENDPOINTS.iter().map(|endpoint| endpoint.name).chain([opening::FIRST_LOOK])
    }

    /// The JSON that answers `path` (below `api/`) with `query`.
    ///
    /// # Errors
    /// Why there is none.
    pub fn answer(&self, path: &str, query: &str) -> Result<String, Refusal> {
        if let Some(table) = path.strip_prefix("tables/") {
            Ask::parse(query, &[])?;
            self.needs_all()?;
            return tables::answer(self, table);
        }
        let Some(endpoint) = ENDPOINTS.iter().find(|endpoint| endpoint.name == path) else {
            return Err(Refusal::not_there("there is no such question"));
        };
        let ask = Ask::parse(query, endpoint.parameters)?;
        if endpoint.late {
            self.needs_all()?;
        }
        (endpoint.answer)(self, &ask)
    }

    fn needs_all(&self) -> Result<(), Refusal> {
        if self.is_complete() { Ok(()) } else { Err(Refusal::Later(Stage::Findings)) }
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

/// Bytes of a response. Serializing numbers, texts and lists cannot fail.
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
