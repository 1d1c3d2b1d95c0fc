//! Spans of time put together: when any of them was.

use holdup_events::Timestamp;

/// From, to.
pub type Span = (Timestamp, Timestamp);

/// How much two spans have in common (ns).
pub fn common_ns(one: Span, other: Span) -> u64 {
    one.1.min(other.1).since(one.0.max(other.0)).0
}

/// Spans in time order, apart from each other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cover {
    spans: Vec<Span>,
}

impl Cover {
    /// Of spans in any order; those that meet become one.
    pub fn of(mut spans: Vec<Span>) -> Cover {
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

    /// All of them.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// Their parts between two moments.
    pub fn within(&self, (from, to): Span) -> impl Iterator<Item = Span> + '_ {
        let first = self.spans.partition_point(|(_, end)| *end <= from);
        let within = self.spans[first..].iter().take_while(move |(start, _)| *start < to);
        within.map(move |(start, end)| ((*start).max(from), (*end).min(to)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(spans: &[(u64, u64)]) -> Vec<Span> {
        spans.iter().map(|(from, to)| (Timestamp(*from), Timestamp(*to))).collect()
    }

    #[test]
    fn spans_that_meet_become_one_and_are_cut_to_what_is_asked_for() {
        let cover = Cover::of(spans(&[(30, 40), (5, 12), (10, 20), (40, 45)]));
        assert_eq!(cover.spans(), spans(&[(5, 20), (30, 45)]));
        let within = |from, to| cover.within((Timestamp(from), Timestamp(to))).collect::<Vec<Span>>();
        assert_eq!(within(0, 50), spans(&[(5, 20), (30, 45)]));
        assert_eq!(within(7, 31), spans(&[(7, 20), (30, 31)]));
        assert_eq!(within(20, 30), []);
        assert_eq!(within(50, 60), []);
    }
}
