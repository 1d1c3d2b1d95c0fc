//! Spans of runtimes without their own tracing: threads hit probes where a span begins or ends → spans on
//! lanes. Each thread that hits a probe is a lane with the thread's number.
//!
//! There are two kinds. A span for one function begins at its entry and ends at its return, on the same
//! thread. A span that ends at the entry of another function (for example "start the world") belongs to the
//! process. That entry ends the spans of all threads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdup_events::event::{RuntimeEvent, RuntimeEventKind};
use holdup_events::tables::SpanKind;
use holdup_events::{CpuId, Event, Loss, Timestamp};

/// The name of the source.
pub const SOURCE: &str = "runtime-probes";

/// Description of a span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meaning {
    /// The runtime that has it.
    pub runtime: Arc<str>,
    /// Name of the span.
    pub name: Arc<str>,
    /// Kind of the span's time.
    pub kind: SpanKind,
    /// The span is a mark without a duration.
    pub is_mark: bool,
    /// Any thread of the process ends it, for all threads.
    pub of_process: bool,
}

/// Effect of a probe hit on one span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Act {
    /// The span's number.
    pub span: u32,
    /// The span ends. False: it begins.
    pub ends: bool,
}

/// A thread passed a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hit {
    pub at: Timestamp,
    pub tid: u32,
    pub tgid: u32,
    pub place: u32,
    /// The probe is disabled in this process because it was hit too often.
    pub disarmed: bool,
}

/// Spans that are known, and those that are open.
#[derive(Default)]
pub struct Probed {
    meanings: Vec<Meaning>,
    places: BTreeMap<u32, Vec<Act>>,
    lanes: BTreeSet<(u32, u32)>,
    /// Threads that are in a span, by process and span.
    open: BTreeMap<(u32, u32), BTreeSet<u32>>,
    /// Spans that are disabled, by process and span.
    dead: BTreeSet<(u32, u32)>,
    useless: Vec<(u32, u32)>,
}

impl Probed {
    /// Adds a span. Returns its number.
    pub fn know(&mut self, meaning: Meaning) -> u32 {
        self.meanings.push(meaning);
        (self.meanings.len() - 1) as u32
    }

    /// Defines the effects of a probe, in order. Spans that begin there come outermost first. Spans that end
    /// there come innermost first.
    pub fn know_place(&mut self, place: u32, acts: Vec<Act>) {
        self.places.insert(place, acts);
    }

    /// Process and place of the probes that became useless since the last call.
    pub fn take_useless(&mut self) -> Vec<(u32, u32)> {
        std::mem::take(&mut self.useless)
    }

    /// Handles a record. Hits of unknown probes are ignored.
    pub(crate) fn take(&mut self, hit: Hit, sink: &mut dyn FnMut(Event)) {
        let acts = self.places.get(&hit.place).cloned().unwrap_or_default();
        if hit.disarmed {
            return self.disarm(hit, &acts, sink);
        }
        let is_open = |act: &Act| {
            !act.ends && self.open.get(&(hit.tgid, act.span)).is_some_and(|open| open.contains(&hit.tid))
        };
        if acts.iter().any(is_open) {
            // Its end was not seen: how long it was is not known.
            self.gap(&hit, hit.tid, sink);
        }
        for act in acts {
            let Some(meaning) = self.meanings.get(act.span as usize).cloned() else { continue };
            if self.dead.contains(&(hit.tgid, act.span)) {
                continue;
            }
            match act.ends {
                true => self.end((hit, act.span), &meaning, sink),
                false => self.begin((hit, act.span), &meaning, sink),
            }
        }
    }

    fn begin(&mut self, (hit, span): (Hit, u32), meaning: &Meaning, sink: &mut dyn FnMut(Event)) {
        if !meaning.is_mark {
            self.open.entry((hit.tgid, span)).or_default().insert(hit.tid);
        }
        if self.lanes.insert((hit.tgid, hit.tid)) {
            sink(event_on(&hit, hit.tid, RuntimeEventKind::LaneStart, &meaning.runtime));
        }
        let what = match meaning.is_mark {
            true => RuntimeEventKind::Mark { value: 0, text: "".into() },
            false => RuntimeEventKind::Begin(meaning.kind),
        };
        sink(event_on(&hit, hit.tid, what, &meaning.name));
    }

    fn end(&mut self, (hit, span): (Hit, u32), meaning: &Meaning, sink: &mut dyn FnMut(Event)) {
        let Some(open) = self.open.get_mut(&(hit.tgid, span)) else { return };
        let ended = match meaning.of_process {
            true => std::mem::take(open),
            false => open.take(&hit.tid).into_iter().collect(),
        };
        ended.into_iter().for_each(|tid| sink(event_on(&hit, tid, RuntimeEventKind::End, &meaning.name)));
    }

    /// Disables the spans that begin or end there. Probes without a remaining span become useless.
    fn disarm(&mut self, hit: Hit, acts: &[Act], sink: &mut dyn FnMut(Event)) {
        for act in acts {
            let Some(meaning) = self.meanings.get(act.span as usize) else { continue };
            if !self.dead.insert((hit.tgid, act.span)) {
                continue;
            }
            let reason = format!("too-often: {}", meaning.name);
            for tid in self.open.remove(&(hit.tgid, act.span)).unwrap_or_default() {
                self.gap(&hit, tid, sink);
            }
            sink(Event::Loss(Loss {
                source: SOURCE.to_owned(),
                reason,
                cpu: CpuId::NONE,
                start: hit.at,
                end: hit.at,
                events: 1,
            }));
        }
        let is_dead = |act: &Act| self.dead.contains(&(hit.tgid, act.span));
        let useless = self.places.iter().filter(|(_, acts)| acts.iter().all(is_dead));
        self.useless.extend(useless.map(|(place, _)| (hit.tgid, *place)));
    }

    /// All that a thread has open may have ended.
    fn gap(&mut self, hit: &Hit, tid: u32, sink: &mut dyn FnMut(Event)) {
        for (_, open) in self.open.range_mut((hit.tgid, 0)..=(hit.tgid, u32::MAX)) {
            open.remove(&tid);
        }
        sink(event_on(hit, tid, RuntimeEventKind::Gap, &"".into()));
    }

    /// The process exited. A later process with the same id starts from scratch.
    pub fn forget(&mut self, tgid: u32) {
        self.lanes.retain(|(of, _)| *of != tgid);
        self.dead.retain(|(of, _)| *of != tgid);
        self.open.retain(|(of, _), _| *of != tgid);
    }

    /// Records are missing, so open spans may have ended.
    pub(crate) fn lose(&mut self, at: Timestamp, sink: &mut dyn FnMut(Event)) {
        let open: BTreeSet<(u32, u32)> = std::mem::take(&mut self.open)
            .into_iter()
            .flat_map(|((tgid, _), open)| open.into_iter().map(move |tid| (tgid, tid)))
            .collect();
        for (tgid, tid) in open {
            let hit = Hit { at, tid, tgid, place: 0, disarmed: false };
            sink(event_on(&hit, tid, RuntimeEventKind::Gap, &"".into()));
        }
    }
}

/// Emits on the lane of a thread, which may differ from the thread that hit the probe.
fn event_on(hit: &Hit, tid: u32, what: RuntimeEventKind, name: &Arc<str>) -> Event {
    Event::Runtime(RuntimeEvent { at: hit.at, tgid: hit.tgid, tid, lane: tid, what, name: name.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans() -> Probed {
        let mut probed = Probed::default();
        let mut know = |name: &str, kind, of_process| {
            probed.know(Meaning { runtime: "go".into(), name: name.into(), kind, is_mark: false, of_process })
        };
        assert_eq!([know("stop", SpanKind::StopsAll, true), know("call", SpanKind::GcWait, false)], [0, 1]);
        let act = |span, ends| Act { span, ends };
        probed.know_place(0, vec![act(0, false), act(1, false)]);
        probed.know_place(1, vec![act(1, true)]);
        probed.know_place(2, vec![act(0, true)]);
        probed
    }

    fn emitted(probed: &mut Probed, hits: &[(u64, u32, u32)]) -> Vec<String> {
        let mut all = Vec::new();
        for (at, tid, place) in hits {
            let (place, disarmed) = (*place % 100, *place >= 100);
            let hit = Hit { at: Timestamp(*at), tid: *tid, tgid: 7, place, disarmed };
            probed.take(hit, &mut |event| all.push(shown(&event)));
        }
        all
    }

    fn shown(event: &Event) -> String {
        match event {
            Event::Runtime(tell) => {
                let what = match tell.what {
                    RuntimeEventKind::LaneStart => "lane",
                    RuntimeEventKind::Gap => "gap",
                    RuntimeEventKind::Begin(_) => "begin",
                    RuntimeEventKind::End => "end",
                    _ => "other",
                };
                assert_eq!((tell.tid, tell.tgid), (tell.lane, 7));
                format!("{} {} {what} {}", tell.at.0, tell.tid, tell.name)
            }
            Event::Loss(loss) => format!("{} loss {} {}", loss.start.0, loss.source, loss.reason),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn a_call_is_its_threads_and_a_stop_the_processs() {
        let hits = [(10, 1, 0), (12, 2, 0), (13, 2, 1), (14, 1, 1), (14, 1, 1), (15, 3, 2)];
        let expected = [
            "10 1 lane go",
            "10 1 begin stop",
            "10 1 begin call",
            "12 2 lane go",
            "12 2 begin stop",
            "12 2 begin call",
            "13 2 end call",
            "14 1 end call",
            "15 1 end stop",
            "15 2 end stop",
        ];
        assert_eq!(emitted(&mut spans(), &hits), expected);
    }

    #[test]
    fn an_end_that_was_missed_makes_no_long_span() {
        let hits = [(10, 1, 0), (11, 1, 2), (30, 1, 0), (31, 1, 1), (32, 1, 1)];
        let expected = [
            "10 1 lane go",
            "10 1 begin stop",
            "10 1 begin call",
            "11 1 end stop",
            "30 1 gap ",
            "30 1 begin stop",
            "30 1 begin call",
            "31 1 end call",
        ];
        assert_eq!(emitted(&mut spans(), &hits), expected);
    }

    #[test]
    fn what_comes_too_often_is_a_loss_and_closes_what_is_open() {
        let mut probed = spans();
        // The return probe is hit too often. The stop-the-world spans are still recorded.
        let expected = [
            "10 1 lane go",
            "10 1 begin stop",
            "10 1 begin call",
            "11 1 gap ",
            "11 loss runtime-probes too-often: call",
            "13 2 lane go",
            "13 2 begin stop",
            "14 2 end stop",
            "15 2 begin stop",
        ];
        assert_eq!(
            emitted(
                &mut probed,
                &[(10, 1, 0), (11, 1, 101), (12, 1, 2), (13, 2, 0), (14, 1, 2), (15, 2, 0), (15, 2, 55)]
            ),
            expected
        );
        assert_eq!((probed.take_useless(), probed.take_useless()), (vec![(7, 1)], vec![]));
        assert_eq!(
            emitted(&mut probed, &[(15, 1, 102)]),
            ["15 2 gap ", "15 loss runtime-probes too-often: stop"]
        );
        assert_eq!(probed.take_useless(), [(7, 0), (7, 1), (7, 2)]);
        // A process that gets the number is another one.
        probed.forget(7);
        assert_eq!(emitted(&mut probed, &[(20, 1, 0)]).len(), 3);
    }

    #[test]
    fn lost_records_close_what_is_open() {
        let mut probed = spans();
        emitted(&mut probed, &[(10, 1, 0)]);
        let mut all = Vec::new();
        probed.lose(Timestamp(20), &mut |event| all.push(shown(&event)));
        assert_eq!(all, ["20 1 gap "]);
        assert!(emitted(&mut probed, &[(21, 1, 1), (22, 1, 2)]).is_empty());
    }
}
