//! Complete spans → begins and ends, in the order in which a thread would have reported them.

use holdup_events::tables::SpanKind;

use super::Who;
use super::words::Word;

/// A span of a thread (ns).
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub who: Who,
    pub start: u64,
    pub end: u64,
    pub kind: SpanKind,
    pub name: Word,
}

/// A begin has its kind, an end has none.
pub(super) type Edge = (Option<SpanKind>, Word);

/// Passes on each begin and end, in the order of time for each thread. One that outlasts the span it began in is kept.
pub(super) fn unfold(mut spans: Vec<Span>, put: &mut dyn FnMut(u64, Who, Edge)) {
    spans.sort_by_key(|span| (span.who, span.start, std::cmp::Reverse(span.end)));
    let mut open: Vec<Span> = Vec::new();
    for span in spans {
        let until =
            if open.last().is_some_and(|outer| outer.who == span.who) { span.start } else { u64::MAX };
        close(&mut open, until, put);
        put(span.start, span.who, (Some(span.kind), span.name));
        // Sorted by end, the first to end last: mostly it goes on top.
        let place = open.partition_point(|outer| outer.end >= span.end);
        open.insert(place, span);
    }
    close(&mut open, u64::MAX, put);
}

/// Ends those that end by then.
fn close(open: &mut Vec<Span>, until: u64, put: &mut dyn FnMut(u64, Who, Edge)) {
    while let Some(span) = open.last().copied().filter(|span| span.end <= until) {
        put(span.end, span.who, (None, span.name));
        open.pop();
    }
}
