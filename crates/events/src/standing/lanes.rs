//! Which lanes live, and which spans are open on them.

use std::collections::BTreeMap;

use crate::event::{RuntimeEvent, RuntimeEventKind};
use crate::{Event, Timestamp};

/// Deeper nesting is no program's.
const DEPTH_MAX: usize = 1024;

/// Current state of a lane.
#[derive(Clone, Debug, Default)]
struct Lane {
    start: Option<RuntimeEvent>,
    open: Vec<RuntimeEvent>,
}

/// Living lanes by process and number.
#[derive(Clone, Debug, Default)]
pub struct Lanes(BTreeMap<(u32, u32), Lane>);

impl Lane {
    /// The lane has no state to keep.
    fn is_empty(&self) -> bool {
        self.start.is_none() && self.open.is_empty()
    }

    /// The lane's first reporting thread, 0 if unknown.
    fn tid(&self) -> u32 {
        self.start.iter().chain(&self.open).map(|tell| tell.tid).next().unwrap_or(0)
    }
}

impl Lanes {
    pub(super) fn fold(&mut self, tell: &RuntimeEvent) {
        let key = (tell.tgid, tell.lane);
        match tell.what {
            RuntimeEventKind::LaneStart => {
                self.0.insert(key, Lane { start: Some(tell.clone()), open: Vec::new() });
            }
            RuntimeEventKind::LaneEnd => {
                self.0.remove(&key);
            }
            RuntimeEventKind::Begin(_) => {
                let lane = self.0.entry(key).or_default();
                if lane.open.len() < DEPTH_MAX {
                    lane.open.push(tell.clone());
                }
            }
            RuntimeEventKind::Gap => self.close(key, Vec::clear),
            RuntimeEventKind::End => self.close(key, |open| {
                if let Some(place) = open.iter().rposition(|open| open.name == tell.name) {
                    open.remove(place);
                }
            }),
            // Ignored: lanes with only counters and marks (hardware counters) would accumulate one entry per
            // thread ever seen.
            RuntimeEventKind::Counter(_) | RuntimeEventKind::Mark { .. } => {}
        }
    }

    fn close(&mut self, key: (u32, u32), close: impl FnOnce(&mut Vec<RuntimeEvent>)) {
        let Some(lane) = self.0.get_mut(&key) else { return };
        close(&mut lane.open);
        if lane.is_empty() {
            self.0.remove(&key);
        }
    }

    /// Keeps lanes whose process is alive, and whose thread is alive if known. For probed functions each
    /// thread has its own lane, and the end of that lane is never reported.
    pub(super) fn retain(&mut self, process_lives: impl Fn(u32) -> bool, is_gone: impl Fn(u32, u32) -> bool) {
        self.0.retain(|(tgid, _), lane| {
            let tid = lane.tid();
            process_lives(*tgid) && (tid == 0 || !is_gone(*tgid, tid))
        });
    }

    /// Passes on that they began, and the spans that are open: since `at`, as far as the recording knows.
    pub(super) fn emit_open(&self, at: Timestamp, sink: &mut dyn FnMut(Event)) {
        for lane in self.0.values() {
            let open_first = lane.start.iter().chain(&lane.open);
            open_first.for_each(|tell| sink(Event::Runtime(RuntimeEvent { at, ..tell.clone() })));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::SpanKind;

    #[test]
    fn a_lane_of_which_nothing_holds_takes_no_room() {
        let tell = |lanes: &mut Lanes, what| {
            let name = "minor".into();
            lanes.fold(&RuntimeEvent { at: Timestamp(1), tgid: 5, tid: 7, lane: 7, what, name });
            lanes.0.len()
        };
        let mut lanes = Lanes::default();
        let mark = RuntimeEventKind::Mark { value: 0, text: "".into() };
        for nothing in [RuntimeEventKind::Counter(3), mark, RuntimeEventKind::Gap, RuntimeEventKind::End] {
            assert_eq!(tell(&mut lanes, nothing), 0);
        }
        for closes in [RuntimeEventKind::End, RuntimeEventKind::Gap] {
            assert_eq!(tell(&mut lanes, RuntimeEventKind::Begin(SpanKind::User)), 1);
            assert_eq!(tell(&mut lanes, closes), 0);
        }
        assert_eq!(tell(&mut lanes, RuntimeEventKind::LaneStart), 1);
        assert_eq!(tell(&mut lanes, RuntimeEventKind::Gap), 1, "it lives");
        assert_eq!(tell(&mut lanes, RuntimeEventKind::LaneEnd), 0);
    }
}
