//! Spans of time put together: when any of them was.

use holdup_events::Timestamp;

/// From, to.
pub type Span = (Timestamp, Timestamp);

/// Overlap of two spans (ns).
pub fn common_ns(one: Span, other: Span) -> u64 {
    one.1.min(other.1).since(one.0.max(other.0)).0
}

/// Disjoint spans in time order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cover {
    spans: Vec<Span>,
}

impl Cover {
    /// Union of spans in any order. Touching spans are merged.
    pub fn from_spans(mut spans: Vec<Span>) -> Cover {
        spans.sort_unstable();
        let mut merged: Vec<Span> = Vec::new();
        for (from, to) in spans {
            match merged.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => merged.push((from, to)),
            }
        }
        Cover { spans: merged }
    }

    /// All spans.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// For how long any of them was (ns).
    pub fn length_ns(&self) -> u64 {
        self.spans.iter().map(|(from, to)| to.since(*from).0).sum()
    }

    /// Parts of a span outside the union, in time order.
    pub fn without(&self, span: Span) -> Vec<Span> {
        let (mut left, mut at) = (Vec::new(), span.0);
        for (start, end) in self.within(span) {
            left.extend((start > at).then_some((at, start)));
            at = end;
        }
        left.extend((span.1 > at).then_some((at, span.1)));
        left
    }

    /// Parts of the union between two moments.
    pub fn within(&self, (from, to): Span) -> impl Iterator<Item = Span> + '_ {
        let first = self.spans.partition_point(|(_, end)| *end <= from);
        let within = self.spans[first..].iter().take_while(move |(start, _)| *start < to);
        within.map(move |(start, end)| ((*start).max(from), (*end).min(to)))
    }
}

/// Times in which at least `many` spans overlap, in time order.
pub fn all_at_once(spans: &[Span], many: usize) -> Vec<Span> {
    let mut changes: Vec<(Timestamp, bool)> =
        spans.iter().flat_map(|(from, to)| [(*from, true), (*to, false)]).collect();
    // Ends before beginnings of the same moment.
    changes.sort_unstable();
    let (mut now, mut since, mut found) = (0, Timestamp(0), Vec::new());
    for (at, begins) in changes {
        if now == many && !begins {
            found.push((since, at));
        }
        if begins {
            now += 1
        } else {
            now -= 1
        }
        since = at;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(spans: &[(u64, u64)]) -> Vec<Span> {
        spans.iter().map(|(from, to)| (Timestamp(*from), Timestamp(*to))).collect()
    }

    #[test]
    fn spans_that_meet_become_one_and_are_cut_to_what_is_asked_for() {
        let cover = Cover::from_spans(spans(&[(30, 40), (5, 12), (10, 20), (40, 45)]));
        assert_eq!(cover.spans(), spans(&[(5, 20), (30, 45)]));
        let within = |from, to| cover.within((Timestamp(from), Timestamp(to))).collect::<Vec<Span>>();
        assert_eq!(within(0, 50), spans(&[(5, 20), (30, 45)]));
        assert_eq!(within(7, 31), spans(&[(7, 20), (30, 31)]));
        assert_eq!(within(20, 30), []);
        assert_eq!(within(50, 60), []);
        let without = |from, to| cover.without((Timestamp(from), Timestamp(to)));
        assert_eq!(without(0, 50), spans(&[(0, 5), (20, 30), (45, 50)]));
        assert_eq!(without(7, 25), spans(&[(20, 25)]));
        assert_eq!(without(6, 19), []);
    }

    #[test]
    fn time_in_which_several_are_counts_once() {
        assert_eq!(Cover::from_spans(spans(&[(10, 20), (15, 30), (0, 5), (16, 18)])).length_ns(), 25);
        assert_eq!(Cover::default().length_ns(), 0);
    }

    #[test]
    fn ranges_with_at_least_n_overlapping_spans_are_found() {
        let all = spans(&[(0, 10), (4, 8), (9, 12), (12, 14), (12, 20)]);
        assert_eq!(all_at_once(&all, 2), spans(&[(4, 8), (9, 10), (12, 14)]));
        assert_eq!(all_at_once(&all, 3), []);
    }
}
