//! How long spans took that end.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdup_events::event::{RuntimeEvent, RuntimeEventKind};
use holdup_events::tables::SpanKind;
use holdup_events::{Duration, Timestamp};

/// Deeper nesting is no program's.
const DEPTH_MAX: usize = 1024;

/// A span that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// When.
    pub at: Timestamp,
    /// The thread that recorded it. 0 if unknown.
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
    /// Adds a record. Returns the span that it ends.
    pub fn take(&mut self, tell: &RuntimeEvent) -> Option<Ended> {
        let key = (tell.tgid, tell.lane);
        match tell.what {
            RuntimeEventKind::Begin(kind) => {
                let open = self.0.entry(key).or_default();
                if open.len() < DEPTH_MAX {
                    open.push(Open { start: tell.at, kind, name: tell.name.clone() });
                }
                None
            }
            RuntimeEventKind::End => {
                let open = self.0.get_mut(&key)?;
                let place = open.iter().rposition(|open| open.name == tell.name)?;
                let Open { start, kind, name } = open.remove(place);
                if open.is_empty() {
                    // Lanes of threads that are probed never end.
                    self.0.remove(&key);
                }
                Some(Ended { at: tell.at, tid: tell.tid, kind, name, length: tell.at.since(start) })
            }
            RuntimeEventKind::LaneStart | RuntimeEventKind::LaneEnd | RuntimeEventKind::Gap => {
                self.0.remove(&key);
                None
            }
            RuntimeEventKind::Counter(_) | RuntimeEventKind::Mark { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_without_an_open_span_takes_no_room() {
        let mut open = OpenSpans::default();
        for lane in 0..3 {
            let mut take = |at, what| {
                let name = "parse".into();
                open.take(&RuntimeEvent { at: Timestamp(at), tgid: 5, tid: 7, lane, what, name })
            };
            let begin = RuntimeEventKind::Begin(SpanKind::User);
            assert_eq!((take(1, begin.clone()), take(2, begin)), (None, None));
            let ended = [
                take(5, RuntimeEventKind::End),
                take(9, RuntimeEventKind::End),
                take(9, RuntimeEventKind::End),
            ];
            assert_eq!(ended.map(|span| span.map(|span| span.length.0)), [Some(3), Some(8), None]);
        }
        assert!(open.0.is_empty());
    }
}
