//! A thread's spans laid flat: at each moment the innermost one.

use holdup_events::tables::{SpanKind, SpanRow};
use holdup_events::{ThreadId, Timestamp, Trace};

/// A stretch of time in which one span was the innermost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// Start.
    pub start: Timestamp,
    /// End of the phase. Not before the next phase, whose start is at least this.
    pub end: Timestamp,
    /// Kind of the time.
    pub kind: SpanKind,
    /// Row of [`Trace::names`].
    pub name: u32,
    /// Row of [`Trace::lanes`].
    pub lane: u32,
}

/// Whether the span belongs to a collector, or to the runtime that stops threads for it.
pub fn is_collectors(kind: SpanKind) -> bool {
    !matches!(kind, SpanKind::User | SpanKind::Idle)
}

/// Minimum share of a lane's events that must match a thread.
const MATCHED_MIN: f64 = 0.9;

/// Whether a lane's events are matched to its threads.
pub fn is_matched(trace: &Trace, lane: u32) -> bool {
    trace
        .lanes
        .get(lane as usize)
        .is_some_and(|lane| lane.events > 0 && lane.matched as f64 >= MATCHED_MIN * lane.events as f64)
}

/// The collector's spans of a thread, outer ones first.
pub fn collectors(trace: &Trace, thread: ThreadId) -> Vec<SpanRow> {
    let spans = trace.spans.of_thread(thread).iter();
    spans.filter(|span| is_collectors(trace.event_name(span.name).kind)).copied().collect()
}

/// Phases of spans that are sorted by start, outer spans first. There are no phases between spans.
pub fn flat(trace: &Trace, spans: &[SpanRow]) -> Vec<Phase> {
    let mut phases: Vec<Phase> = Vec::new();
    let mut open: Vec<SpanRow> = Vec::new();
    let mut at = Timestamp(0);
    let mut put = |span: &SpanRow, start: Timestamp, end: Timestamp| {
        if end > start {
            let kind = trace.event_name(span.name).kind;
            phases.push(Phase { start, end, kind, name: span.name, lane: span.lane });
        }
    };
    for span in spans {
        while let Some(inner) = open.last().copied().filter(|inner| inner.end <= span.start) {
            put(&inner, at, inner.end);
            at = at.max(inner.end);
            open.pop();
        }
        if let Some(outer) = open.last() {
            put(outer, at, span.start);
        }
        at = at.max(span.start);
        // A span that ends after its outer span is cut, because spans of a thread nest.
        let end = open.last().map_or(span.end, |outer| span.end.min(outer.end));
        open.push(SpanRow { end, ..*span });
    }
    while let Some(inner) = open.pop() {
        put(&inner, at, inner.end);
        at = at.max(inner.end);
    }
    phases
}

/// Outermost spans, merged if the gap is less than `gap_ns`: start and end.
pub fn joined(spans: &[SpanRow], gap_ns: u64) -> Vec<(Timestamp, Timestamp)> {
    let mut all: Vec<(Timestamp, Timestamp)> = Vec::new();
    for span in spans {
        match all.last_mut() {
            Some((_, end)) if span.start.0 <= end.0.saturating_add(gap_ns) => *end = (*end).max(span.end),
            _ => all.push((span.start, span.end)),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use holdup_events::tables::TellName;

    use super::*;

    fn trace() -> Trace {
        let name = |kind, text: &str| TellName { kind, text: text.to_owned() };
        Trace {
            names: vec![
                name(SpanKind::Stop, "outer"),
                name(SpanKind::GcWork, "a"),
                name(SpanKind::GcWait, "b"),
            ],
            ..Trace::default()
        }
    }

    fn spans(rows: &[(u64, u64, u32)]) -> Vec<SpanRow> {
        let row = |(start, end, name): &(u64, u64, u32)| SpanRow {
            start: Timestamp(*start),
            end: Timestamp(*end),
            name: *name,
            ..SpanRow::default()
        };
        rows.iter().map(row).collect()
    }

    fn flat_of(rows: &[(u64, u64, u32)]) -> Vec<(u64, u64, u32)> {
        let phases = flat(&trace(), &spans(rows));
        phases.iter().map(|phase| (phase.start.0, phase.end.0, phase.name)).collect()
    }

    #[test]
    fn the_innermost_span_has_the_time() {
        let rows = [(0, 100, 0), (10, 40, 1), (20, 30, 2), (40, 50, 2), (200, 210, 1)];
        let expected =
            [(0, 10, 0), (10, 20, 1), (20, 30, 2), (30, 40, 1), (40, 50, 2), (50, 100, 0), (200, 210, 1)];
        assert_eq!(flat_of(&rows), expected);
        // A span that ends after its outer one, and a span of length zero.
        assert_eq!(flat_of(&[(0, 10, 0), (5, 20, 1), (7, 7, 2)]), [(0, 5, 0), (5, 7, 1), (7, 10, 1)]);
        assert_eq!(flat_of(&[]), []);
    }

    #[test]
    fn pauses_that_touch_are_one() {
        let all = joined(&spans(&[(0, 100, 0), (10, 40, 1), (101, 110, 1), (200, 210, 1)]), 2);
        assert_eq!(all, [(Timestamp(0), Timestamp(110)), (Timestamp(200), Timestamp(210))]);
    }
}
