//! How long spans took that end.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdup_events::event::{Tell, Told};
use holdup_events::tables::SpanKind;
use holdup_events::{Duration, Timestamp};

/// Deeper nesting is no program's.
const DEPTH_MAX: usize = 1024;

/// A span that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// When.
    pub at: Timestamp,
    /// The thread that told it; 0 if that is not known.
    pub tid: u32,
    pub kind: SpanKind,
    pub name: Arc<str>,
    pub length: Duration,
}

struct Open {
    start: Timestamp,
    kind: SpanKind,
    name: Arc<str>,
}

/// Spans that have begun, by process and lane.
#[derive(Default)]
pub struct OpenSpans(BTreeMap<(u32, u32), Vec<Open>>);

impl OpenSpans {
    /// Takes what is told; gives the span that ended by it.
    pub fn take(&mut self, tell: &Tell) -> Option<Ended> {
        let key = (tell.tgid, tell.lane);
        match tell.what {
            Told::Begin(kind) => {
                let open = self.0.entry(key).or_default();
                if open.len() < DEPTH_MAX {
                    open.push(Open { start: tell.at, kind, name: tell.name.clone() });
                }
                None
            }
            Told::End => {
                let open = self.0.get_mut(&key)?;
                let place = open.iter().rposition(|open| open.name == tell.name)?;
                let Open { start, kind, name } = open.remove(place);
                Some(Ended { at: tell.at, tid: tell.tid, kind, name, length: tell.at.since(start) })
            }
            Told::LaneStart | Told::LaneEnd | Told::Gap => {
                self.0.remove(&key);
                None
            }
            Told::Counter(_) | Told::Mark { .. } => None,
        }
    }
}
