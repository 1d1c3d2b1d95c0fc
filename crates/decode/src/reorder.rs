//! Puts events in the order of time.
//!
//! Each CPU's events arrive in order, but a CPU that the hypervisor stopped between taking the
//! time and reserving the record delivers late. So events wait until the newest is `horizon` ahead.
//!
//! Only the kernel programs' records count as the newest. The recorder's own events carry the time at which the recorder made them. If it
//! was slow, the records of the seconds before are still in the ring then, and follow later.

use holdup_events::{CpuId, Duration, Event, Loss, Timestamp};

/// How far a record may lag: three times the longest stolen interval seen (324 ms).
pub const HORIZON: Duration = Duration(1_000_000_000);

/// Maximum time that the recorder's own events may be ahead of the newest record before they count as the newest: bounds memory where
/// records stop.
const AHEAD_MAX: Duration = Duration(30_000_000_000);

/// Maximum horizon.
const HORIZON_MAX: Duration = Duration(120_000_000_000);

/// Maximum number of waiting events. With more, the older half is passed on early, which bounds memory.
const WAITING_MAX: usize = 4_000_000;

/// The newest events so far, in the order in which events arrive.
#[derive(Default)]
struct Newest {
    event: Timestamp,
    /// Time of the newest BPF record. `None` where there are none (lower backends, importers).
    record: Option<Timestamp>,
}

impl Newest {
    fn note(&mut self, event: &Event) {
        let at = event.at();
        self.event = self.event.max(at);
        if matches!(event, Event::Switch(_) | Event::Waking(_)) {
            self.record = self.record.max(Some(at));
        }
    }

    /// Records that come later are at most the horizon older than this.
    fn watermark(&self) -> Timestamp {
        self.record.map_or(self.event, |record| record.max(self.event - AHEAD_MAX))
    }
}

/// Measures how late events arrive.
#[derive(Default)]
pub struct Lag {
    newest: Newest,
    most: Duration,
}

impl Lag {
    /// Takes one event, in the order of arrival.
    pub fn note(&mut self, event: &Event) {
        // A loss states its own span.
        if !matches!(event, Event::Loss(_)) {
            self.most = self.most.max(self.newest.watermark().since(event.at()));
        }
        self.newest.note(event);
    }

    /// Maximum time by which an event was older than the newest one before it.
    pub fn most(&self) -> Duration {
        self.most
    }
}

/// Returns the horizon with which events are in order that were late by at most `lag`: at least [`HORIZON`], at most 2 min.
pub fn horizon_for(lag: Duration) -> Duration {
    Duration(lag.0.saturating_add(1)).clamp(HORIZON, HORIZON_MAX)
}

/// Sorts nearly sorted events.
pub struct Reorder {
    horizon: Duration,
    waiting: Vec<Event>,
    /// [`WAITING_MAX`], less in tests.
    waiting_max: usize,
    newest: Newest,
    /// Everything before has been released.
    released: Timestamp,
    late: u64,
    late_span: Option<(Timestamp, Timestamp)>,
    /// The watermark when `waiting` was last sorted.
    sorted_at: Timestamp,
}

impl Reorder {
    /// `horizon`: maximum delay of an event, [`HORIZON`] for recordings.
    pub fn new(horizon: Duration) -> Reorder {
        Reorder {
            horizon,
            waiting: Vec::new(),
            waiting_max: WAITING_MAX,
            newest: Newest::default(),
            released: Timestamp(0),
            late: 0,
            late_span: None,
            sorted_at: Timestamp(0),
        }
    }

    /// Takes one event. Passes on the events that are now safely in order.
    pub fn push(&mut self, event: Event, sink: &mut dyn FnMut(Event)) {
        let at = event.at();
        // A loss states its own span, which may have begun long ago.
        if at < self.released && !matches!(event, Event::Loss(_)) {
            self.note_late(at);
        }
        self.newest.note(&event);
        self.waiting.push(event);
        // Nearly sorted events are sorted in linear time, so each event is visited five times. A longer
        // interval would be cheaper, but the waiting events are most of the recorder's memory when a
        // recording ends.
        let watermark = self.newest.watermark();
        if watermark.since(self.sorted_at) > Duration(self.horizon.0 / 4) {
            self.release(watermark - self.horizon, sink);
        }
        if self.waiting.len() >= self.waiting_max {
            self.release_half(sink);
        }
    }

    /// Passes on the older half of the events. Events that come later and are older are late.
    fn release_half(&mut self, sink: &mut dyn FnMut(Event)) {
        self.waiting.sort_by_key(Event::at);
        if let Some(middle) = self.waiting.get(self.waiting.len() / 2) {
            self.release(middle.at() + Duration(1), sink);
        }
    }

    /// Passes on all that waits.
    pub fn finish(&mut self, sink: &mut dyn FnMut(Event)) {
        self.release(Timestamp(u64::MAX), sink);
        if let Some((start, end)) = self.late_span.take() {
            sink(Event::Loss(Loss {
                source: "order".to_owned(),
                reason: "late".to_owned(),
                cpu: CpuId::NONE,
                start,
                end,
                events: self.late,
            }));
        }
    }

    fn note_late(&mut self, at: Timestamp) {
        self.late += 1;
        let (start, end) = self.late_span.unwrap_or((at, self.released));
        self.late_span = Some((start.min(at), end.max(self.released)));
    }

    fn release(&mut self, before: Timestamp, sink: &mut dyn FnMut(Event)) {
        self.waiting.sort_by_key(Event::at);
        let ready = self.waiting.partition_point(|event| event.at() < before);
        self.released = self.released.max(before.min(self.newest.event));
        self.sorted_at = self.newest.watermark();
        self.waiting.drain(..ready).for_each(sink);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_events::event::{Affinity, Waking};

    fn waking(at_ns: u64) -> Event {
        Event::Waking(Waking { at: Timestamp(at_ns), ..Waking::default() })
    }

    fn reordered(times: &[u64], horizon: u64) -> (Vec<u64>, u64) {
        let (mut order, mut out, mut late) = (Reorder::new(Duration(horizon)), Vec::new(), 0);
        let mut sink = |event: Event| match event {
            Event::Loss(loss) => late += loss.events,
            event => out.push(event.at().0),
        };
        times.iter().for_each(|at| order.push(waking(*at), &mut sink));
        order.finish(&mut sink);
        (out, late)
    }

    #[test]
    fn inside_the_horizon_all_is_sorted() {
        let times: Vec<u64> = (0..1000u64).map(|i| i * 10 + (i * 7919) % 90).collect();
        let (out, late) = reordered(&times, 100);
        assert!(out.is_sorted());
        assert_eq!((out.len(), late), (1000, 0));
    }

    #[test]
    fn events_that_a_slow_recorder_makes_do_not_make_records_late() {
        let mut order = Reorder::new(Duration(100));
        let (mut out, mut late) = (Vec::new(), 0);
        let mut sink = |event: Event| match event {
            Event::Loss(loss) => late += loss.events,
            event => out.push(event.at().0),
        };
        let own = |at: u64| Event::Affinity(Affinity { at: Timestamp(at), tid: 1, cpus: 1 });
        order.push(waking(10), &mut sink);
        order.push(own(5_000), &mut sink);
        (20..4_000).step_by(10).for_each(|at| order.push(waking(at), &mut sink));
        order.finish(&mut sink);
        assert_eq!((out.len(), late), (400, 0));
        assert!(out.is_sorted());
    }

    #[test]
    fn a_loss_that_began_long_ago_is_not_late() {
        let (mut order, mut losses) = (Reorder::new(Duration(100)), Vec::new());
        let mut sink = |event: Event| {
            if let Event::Loss(loss) = event {
                losses.push(loss.source);
            }
        };
        (0..10).for_each(|at| order.push(waking(at * 1_000), &mut sink));
        let (start, end) = (Timestamp(10), Timestamp(9_000));
        let (source, reason) = ("cpu-samples".to_owned(), "cpu-was-away".to_owned());
        order.push(Event::Loss(Loss { source, reason, cpu: CpuId(1), start, end, events: 0 }), &mut sink);
        order.finish(&mut sink);
        assert_eq!(losses, ["cpu-samples"]);
    }

    #[test]
    fn with_the_horizon_for_the_measured_lag_nothing_is_late() {
        let times = [0, 2_000_000_000, 5_000_000_000, 1_500_000_000, 9_000_000_000, 9_100_000_000];
        let mut lag = Lag::default();
        times.iter().for_each(|at| lag.note(&waking(*at)));
        assert_eq!(lag.most(), Duration(3_500_000_000));
        assert_eq!(reordered(&times, HORIZON.0).1, 1);
        let (out, late) = reordered(&times, horizon_for(lag.most()).0);
        assert!(out.is_sorted());
        assert_eq!((out.len(), late), (times.len(), 0));
    }

    #[test]
    fn the_horizon_is_bounded() {
        assert_eq!(horizon_for(Duration(0)), HORIZON);
        assert_eq!(horizon_for(Duration(u64::MAX)), HORIZON_MAX);
    }

    #[test]
    fn few_events_wait_even_with_a_long_horizon() {
        let mut order = Reorder { waiting_max: 100, ..Reorder::new(HORIZON_MAX) };
        let mut out = Vec::new();
        for at in 0..1_000 {
            order.push(waking(at), &mut |event| out.push(event.at().0));
            assert!(order.waiting.len() < 100);
        }
        order.finish(&mut |event| out.push(event.at().0));
        assert_eq!(out, (0..1_000).collect::<Vec<u64>>());
    }

    #[test]
    fn a_loss_and_the_recorders_own_events_are_not_late() {
        let mut lag = Lag::default();
        let (source, reason) = ("cpu-samples".to_owned(), "cpu-was-away".to_owned());
        let (start, end) = (Timestamp(0), Timestamp(9));
        lag.note(&waking(4_000_000_000));
        lag.note(&Event::Loss(Loss { source, reason, cpu: CpuId(1), start, end, events: 0 }));
        lag.note(&Event::Affinity(Affinity { at: Timestamp(9_000_000_000), tid: 1, cpus: 1 }));
        lag.note(&waking(4_000_000_001));
        assert_eq!(lag.most(), Duration(0));
    }

    #[test]
    fn what_comes_too_late_is_kept_and_counted() {
        let (out, late) = reordered(&[0, 1000, 2000, 3000, 4000, 5], 100);
        assert_eq!(out.len(), 6);
        assert_eq!(late, 1);
    }
}
