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

/// Sorts nearly sorted events.
pub struct Reorder {
    horizon: Duration,
    waiting: Vec<Event>,
    newest: Timestamp,
    /// Time of the newest BPF record. `None` where there are none (lower backends, importers).
    newest_record: Option<Timestamp>,
    /// Everything before has been released.
    released: Timestamp,
    late: u64,
    late_span: Option<(Timestamp, Timestamp)>,
    /// [`Reorder::watermark`] when `waiting` was last sorted.
    sorted_at: Timestamp,
}

impl Reorder {
    /// `horizon`: maximum delay of an event, [`HORIZON`] for recordings.
    pub fn new(horizon: Duration) -> Reorder {
        Reorder {
            horizon,
            waiting: Vec::new(),
            newest: Timestamp(0),
            newest_record: None,
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
        self.newest = self.newest.max(at);
        if matches!(event, Event::Switch(_) | Event::Waking(_)) {
            self.newest_record = self.newest_record.max(Some(at));
        }
        self.waiting.push(event);
        // Nearly sorted events are sorted in linear time, so each event is visited five times. A longer
        // interval would be cheaper, but the waiting events are most of the recorder's memory when a
        // recording ends.
        let watermark = self.watermark();
        if watermark.since(self.sorted_at) > Duration(self.horizon.0 / 4) {
            self.release(watermark - self.horizon, sink);
        }
    }

    /// Records that come later are at most `horizon` older than this.
    fn watermark(&self) -> Timestamp {
        self.newest_record.map_or(self.newest, |record| record.max(self.newest - AHEAD_MAX))
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
        self.released = self.released.max(before.min(self.newest));
        self.sorted_at = self.watermark();
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
    fn what_comes_too_late_is_kept_and_counted() {
        let (out, late) = reordered(&[0, 1000, 2000, 3000, 4000, 5], 100);
        assert_eq!(out.len(), 6);
        assert_eq!(late, 1);
    }
}
