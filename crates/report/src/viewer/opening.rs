//! A recording that is being opened. A request before it is read gets the progress, or the cached response of
//! an earlier opening. Responses depend only on the recording and this program, so they can be cached. The
//! binary stores the cache.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use super::{Refusal, Viewer};

/// How far the opening is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The recording is being read.
    Reading,
    /// The recording is read, and the lanes are being made.
    Lanes,
    /// Lanes are available, and the findings are being derived.
    Findings,
    /// The recording that it is compared with is being read.
    Other,
}

impl Stage {
    /// As the page knows it.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Reading => "reading",
            Stage::Lanes => "lanes",
            Stage::Findings => "findings",
            Stage::Other => "other",
        }
    }

    /// For people.
    pub fn sentence(self) -> &'static str {
        match self {
            Stage::Reading => "the recording is being read",
            Stage::Lanes => "where the time went is being added up",
            Stage::Findings => "the findings are being worked out",
            Stage::Other => "the recording to compare with is being read",
        }
    }
}

/// Answers longer than this are not kept: they are of recordings with thousands of threads, and quickly made again.
const ANSWER_MAX_BYTES: usize = 4 << 20;
/// More than this is not kept of a recording.
const KEPT_MAX_BYTES: usize = 24 << 20;
/// Responses that depend on this machine's current files, or whose requests are rarely repeated.
const NEVER_KEPT: &[&str] = &["annotate", "search"];

/// The request for the preview.
pub(super) const FIRST_LOOK: &str = "first-look";

/// Answers by question.
#[derive(Default)]
struct Kept {
    answers: BTreeMap<String, String>,
    bytes: usize,
    changed: bool,
}

/// See the module.
pub struct Opening {
    /// Switches in the recording, as its recorder counted them: how long a reader will have to wait.
    pub switches: u64,
    stage: AtomicU8,
    viewer: OnceLock<Viewer>,
    /// The answer of `first_look`, if there is one.
    first_look: OnceLock<Option<String>>,
    kept: Mutex<Kept>,
}

impl Opening {
    /// Nothing has been read yet. `kept`: the bytes of [`Opening::to_keep`] at an earlier opening.
    pub fn new(switches: u64, kept: Option<&[u8]>) -> Opening {
        let answers = kept.and_then(unpack).unwrap_or_default();
        let bytes = answers.iter().map(|(question, answer)| question.len() + answer.len()).sum();
        Opening {
            switches,
            stage: AtomicU8::new(Stage::Reading as u8),
            viewer: OnceLock::new(),
            first_look: OnceLock::new(),
            kept: Mutex::new(Kept { answers, bytes, changed: false }),
        }
    }

    /// Sets the preview to show until the recording is read, or `None`.
    pub fn show_first(&self, look: Option<String>) {
        let _ = self.first_look.set(look);
    }

    /// The recording was read.
    pub fn has_read(&self) {
        self.stage.store(Stage::Lanes as u8, Ordering::Release);
    }

    /// Sets the viewer, which can at least respond about lanes. A second viewer is dropped.
    pub fn put(&self, viewer: Viewer) -> &Viewer {
        self.viewer.get_or_init(|| viewer)
    }

    /// The viewer, once there is one.
    pub fn viewer(&self) -> Option<&Viewer> {
        self.viewer.get()
    }

    /// Like [`Viewer::answer`].
    ///
    /// # Errors
    /// The same, and [`Refusal::Later`] if the response is not known yet.
    pub fn answer(&self, path: &str, query: &str) -> Result<String, Refusal> {
        if path == FIRST_LOOK {
            return self.first_look();
        }
        let question = question(path, query);
        let all = self.viewer.get().filter(|viewer| viewer.is_complete());
        if all.is_none()
            && let Some(known) = self.kept().answers.get(&question)
        {
            return Ok(known.clone());
        }
        let Some(viewer) = self.viewer.get() else { return Err(Refusal::Later(self.stage())) };
        let answer = viewer.answer(path, query)?;
        // A summary without findings is not the one to keep.
        if (path != "summary" || all.is_some()) && !NEVER_KEPT.contains(&path) {
            self.keep(question, &answer);
        }
        Ok(answer)
    }

    /// `null` where the rest is there, or will be so soon that nothing was made.
    fn first_look(&self) -> Result<String, Refusal> {
        match self.first_look.get() {
            Some(Some(look)) if self.viewer.get().is_none() => Ok(look.clone()),
            None if self.viewer.get().is_none() => Err(Refusal::Later(self.stage())),
            _ => Ok("null".to_owned()),
        }
    }

    fn stage(&self) -> Stage {
        match self.stage.load(Ordering::Acquire) {
            stage if stage == Stage::Reading as u8 => Stage::Reading,
            _ => Stage::Lanes,
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // A panic while it was locked has at most lost a response.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, question: String, answer: &str) {
        let mut kept = self.kept();
        let bytes = question.len() + answer.len();
        if answer.len() > ANSWER_MAX_BYTES || kept.bytes + bytes > KEPT_MAX_BYTES {
            return;
        }
        if kept.answers.insert(question, answer.to_owned()).is_none() {
            kept.bytes += bytes;
            kept.changed = true;
        }
    }

    /// Returns the responses to cache for the next opening, packed. `None` if there are no new ones since the
    /// last call.
    pub fn to_keep(&self) -> Option<Vec<u8>> {
        let mut kept = self.kept();
        if !std::mem::take(&mut kept.changed) {
            return None;
        }
        let answers = kept.answers.clone();
        drop(kept);
        let mut out = GzEncoder::new(Vec::new(), Compression::fast());
        let text = serde_json::to_vec(&answers).ok()?;
        out.write_all(&text).ok()?;
        out.finish().ok()
    }
}

/// The key of a request. Only complete summaries are cached, so both forms of that request have the same key.
fn question(path: &str, query: &str) -> String {
    match path {
        "summary" => path.to_owned(),
        path => format!("{path}?{query}"),
    }
}

fn unpack(bytes: &[u8]) -> Option<BTreeMap<String, String>> {
    let mut text = Vec::new();
    // Escaped, an answer has at most twice its length.
    GzDecoder::new(bytes).take(KEPT_MAX_BYTES as u64 * 2).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}
