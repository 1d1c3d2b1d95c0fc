//! Spans of runtimes that tell nothing by themselves: threads pass the places at which one begins or ends → spans on lanes.
//! A thread that passes such a place is a lane of its own, whose number is the thread's.
//!
//! Two forms. A span that one function is begins where that is entered and ends where it returns, on the same thread. A span
//! that ends where another function is entered (the world goes on) belongs to the process: whoever enters it ends those of all
//! threads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdup_events::event::{Tell, Told};
use holdup_events::tables::SpanKind;
use holdup_events::{CpuId, Event, Loss, Timestamp};

/// The name of the source.
pub const SOURCE: &str = "runtime-probes";

/// What a span is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meaning {
    /// The runtime that has it.
    pub runtime: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// What its time is.
    pub kind: SpanKind,
    /// It has no length: nothing ends it.
    pub is_mark: bool,
    /// Any thread of the process ends it, for all threads.
    pub of_process: bool,
}

/// What a pass of a place means for one span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Act {
    /// The span's number.
    pub span: u32,
    /// It ends here; else it begins.
    pub ends: bool,
}

/// A thread passed a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hit {
    pub at: Timestamp,
    pub tid: u32,
    pub tgid: u32,
    pub place: u32,
    /// Nothing more is told of this place in this process: it was passed too often.
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
    /// Spans of processes that can be told no more.
    dead: BTreeSet<(u32, u32)>,
    useless: Vec<(u32, u32)>,
}

impl Probed {
    /// One more span; gives its number.
    pub fn know(&mut self, meaning: Meaning) -> u32 {
        self.meanings.push(meaning);
        (self.meanings.len() - 1) as u32
    }

    /// What happens at a place, in this order: of spans that begin there the outermost comes first, of those that end there the
    /// innermost.
    pub fn know_place(&mut self, place: u32, acts: Vec<Act>) {
        self.places.insert(place, acts);
    }

    /// Process and number of the places of which nothing more can be told, since the last call.
    pub fn take_useless(&mut self) -> Vec<(u32, u32)> {
        std::mem::take(&mut self.useless)
    }

    /// A record: one of a place that nobody told of means nothing.
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
            sink(tell(&hit, hit.tid, Told::LaneStart, &meaning.runtime));
        }
        let what = match meaning.is_mark {
            true => Told::Mark { value: 0, text: "".into() },
            false => Told::Begin(meaning.kind),
        };
        sink(tell(&hit, hit.tid, what, &meaning.name));
    }

    fn end(&mut self, (hit, span): (Hit, u32), meaning: &Meaning, sink: &mut dyn FnMut(Event)) {
        let Some(open) = self.open.get_mut(&(hit.tgid, span)) else { return };
        let ended = match meaning.of_process {
            true => std::mem::take(open),
            false => open.take(&hit.tid).into_iter().collect(),
        };
        ended.into_iter().for_each(|tid| sink(tell(&hit, tid, Told::End, &meaning.name)));
    }

    /// The spans that begin or end there are told no more, nor is the place of any that is left without one.
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
        sink(tell(hit, tid, Told::Gap, &"".into()));
    }

    /// The process is gone: one that gets its number begins anew.
    pub fn forget(&mut self, tgid: u32) {
        self.lanes.retain(|(of, _)| *of != tgid);
        self.dead.retain(|(of, _)| *of != tgid);
        self.open.retain(|(of, _), _| *of != tgid);
    }

    /// Records are missing: of what is open nobody knows whether it still is.
    pub(crate) fn lose(&mut self, at: Timestamp, sink: &mut dyn FnMut(Event)) {
        let open: BTreeSet<(u32, u32)> = std::mem::take(&mut self.open)
            .into_iter()
            .flat_map(|((tgid, _), open)| open.into_iter().map(move |tid| (tgid, tid)))
            .collect();
        for (tgid, tid) in open {
            let hit = Hit { at, tid, tgid, place: 0, disarmed: false };
            sink(tell(&hit, tid, Told::Gap, &"".into()));
        }
    }
}

/// Said on the lane of a thread, which may be another than the one that passed the place.
fn tell(hit: &Hit, tid: u32, what: Told, name: &Arc<str>) -> Event {
    Event::Tell(Tell { at: hit.at, tgid: hit.tgid, tid, lane: tid, what, name: name.clone() })
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

    fn told(probed: &mut Probed, hits: &[(u64, u32, u32)]) -> Vec<String> {
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
            Event::Tell(tell) => {
                let what = match tell.what {
                    Told::LaneStart => "lane",
                    Told::Gap => "gap",
                    Told::Begin(_) => "begin",
                    Told::End => "end",
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
        assert_eq!(told(&mut spans(), &hits), expected);
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
        assert_eq!(told(&mut spans(), &hits), expected);
    }

    #[test]
    fn what_comes_too_often_is_a_loss_and_closes_what_is_open() {
        let mut probed = spans();
        // The return is passed too often: the stop is told on.
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
            told(
                &mut probed,
                &[(10, 1, 0), (11, 1, 101), (12, 1, 2), (13, 2, 0), (14, 1, 2), (15, 2, 0), (15, 2, 55)]
            ),
            expected
        );
        assert_eq!((probed.take_useless(), probed.take_useless()), (vec![(7, 1)], vec![]));
        assert_eq!(
            told(&mut probed, &[(15, 1, 102)]),
            ["15 2 gap ", "15 loss runtime-probes too-often: stop"]
        );
        assert_eq!(probed.take_useless(), [(7, 0), (7, 1), (7, 2)]);
        // A process that gets the number is another one.
        probed.forget(7);
        assert_eq!(told(&mut probed, &[(20, 1, 0)]).len(), 3);
    }

    #[test]
    fn lost_records_close_what_is_open() {
        let mut probed = spans();
        told(&mut probed, &[(10, 1, 0)]);
        let mut all = Vec::new();
        probed.lose(Timestamp(20), &mut |event| all.push(shown(&event)));
        assert_eq!(all, ["20 1 gap "]);
        assert!(told(&mut probed, &[(21, 1, 1), (22, 1, 2)]).is_empty());
    }
}
