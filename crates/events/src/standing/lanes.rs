//! Which lanes live, and which spans are open on them.

use std::collections::BTreeMap;

use crate::event::{Tell, Told};
use crate::{Event, Timestamp};

/// Deeper nesting is no program's.
const DEPTH_MAX: usize = 1024;

/// What a lane has told that still holds.
#[derive(Clone, Debug, Default)]
struct Lane {
    start: Option<Tell>,
    open: Vec<Tell>,
}

/// Living lanes by process and number.
#[derive(Clone, Debug, Default)]
pub struct Lanes(BTreeMap<(u32, u32), Lane>);

impl Lanes {
    pub(super) fn tell(&mut self, tell: &Tell) {
        let key = (tell.tgid, tell.lane);
        if tell.what == Told::LaneEnd {
            self.0.remove(&key);
            return;
        }
        let lane = self.0.entry(key).or_default();
        match tell.what {
            Told::LaneStart => *lane = Lane { start: Some(tell.clone()), open: Vec::new() },
            Told::Gap => lane.open.clear(),
            Told::Begin(_) if lane.open.len() < DEPTH_MAX => lane.open.push(tell.clone()),
            Told::End => {
                if let Some(place) = lane.open.iter().rposition(|open| open.name == tell.name) {
                    lane.open.remove(place);
                }
            }
            _ => {}
        }
    }

    pub(super) fn retain(&mut self, lives: impl Fn(u32) -> bool) {
        self.0.retain(|(tgid, _), _| lives(*tgid));
    }

    /// Passes on that they began, and the spans that are open: since `at`, as far as the recording knows.
    pub(super) fn tell_open(&self, at: Timestamp, sink: &mut dyn FnMut(Event)) {
        for lane in self.0.values() {
            let told = lane.start.iter().chain(&lane.open);
            told.for_each(|tell| sink(Event::Tell(Tell { at, ..tell.clone() })));
        }
    }
}
