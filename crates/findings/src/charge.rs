//! Which slices a finding charges: the rows that its cost is made of. Two findings that charge the same
//! rows speak of the same lost time.

use std::ops::Range;

use holdup_events::tables::Slice;
use holdup_events::{ThreadId, Timestamp, Trace};

use crate::derive::parallel;

/// A set of slices of target threads, one bit a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Charge {
    words: Vec<u64>,
    ns: u64,
}

const BITS: usize = u64::BITS as usize;

impl Charge {
    /// The slices of target threads that `matches`.
    pub fn matching(trace: &Trace, matches: impl Fn(&Slice) -> bool + Sync) -> Charge {
        Charge::of_rows(trace, |thread, take| {
            for (row, slice) in trace.slices.rows(thread).zip(trace.slices.of_thread(thread)) {
                if matches(&slice) {
                    take(row);
                }
            }
        })
    }

    /// The slices whose rows `pick` takes for each target thread. `pick` may take any row of that thread.
    pub fn of_rows(trace: &Trace, pick: impl Fn(ThreadId, &mut dyn FnMut(usize)) + Sync) -> Charge {
        let groups = parallel::thread_groups(trace);
        let parts = parallel::map(groups.len(), |group| {
            let mut words = Vec::new();
            let first = trace.slices.rows(ThreadId(groups[group].start)).start / BITS;
            for thread in groups[group].clone().map(ThreadId) {
                if trace.threads[thread.index()].target {
                    pick(thread, &mut |row| set(&mut words, row - first * BITS));
                }
            }
            (first, words)
        });
        let mut charge = Charge { words: vec![0; trace.slices.len().div_ceil(BITS)], ns: 0 };
        for (first, words) in parts {
            for (sum, word) in charge.words[first..].iter_mut().zip(words) {
                *sum |= word;
            }
        }
        charge.ns = charge.sum(trace, |word| word);
        charge
    }

    /// The rows of both.
    pub fn and(mut self, trace: &Trace, other: &Charge) -> Charge {
        for (word, more) in self.words.iter_mut().zip(&other.words) {
            *word |= more;
        }
        self.ns = self.sum(trace, |word| word);
        self
    }

    /// How long its slices are in all (ns).
    pub fn ns(&self) -> u64 {
        self.ns
    }

    /// Whether the charge has no slices.
    pub fn is_empty(&self) -> bool {
        self.ns == 0
    }

    /// How long the slices are that both charge (ns).
    pub fn shared_ns(&self, trace: &Trace, other: &Charge) -> u64 {
        let mut others = other.words.iter();
        self.sum(trace, |word| word & others.next().copied().unwrap_or(0))
    }

    /// The charged slices, by thread, then by time.
    pub fn slices<'a>(&'a self, trace: &'a Trace) -> impl Iterator<Item = Slice> + 'a {
        trace.target_threads().flat_map(move |thread| self.slices_of(trace, thread))
    }

    /// The charged slices of one thread, in time order.
    pub fn slices_of<'a>(&'a self, trace: &'a Trace, thread: ThreadId) -> impl Iterator<Item = Slice> + 'a {
        let rows = trace.slices.rows(thread);
        self.rows(rows.start, rows.end).map(move |row| trace.slices.at(thread, row))
    }

    /// The rows of its slices of one thread, and when each begins and ends: all that sums need.
    pub fn spans_of<'a>(
        &'a self,
        trace: &'a Trace,
        thread: ThreadId,
    ) -> impl Iterator<Item = (usize, Range<Timestamp>)> + 'a {
        let rows = trace.slices.rows(thread);
        self.rows(rows.start, rows.end).map(move |row| (row, trace.slices.span(thread, row)))
    }

    /// Whether it has the slice of that row.
    pub fn has(&self, row: usize) -> bool {
        self.words.get(row / BITS).is_some_and(|word| word & (1 << (row % BITS)) != 0)
    }

    /// How many slices it has.
    pub fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// The charged rows in `from..to`, in order.
    fn rows(&self, from: usize, to: usize) -> impl Iterator<Item = usize> + '_ {
        let last = to.div_ceil(BITS).min(self.words.len());
        (from / BITS..last).flat_map(move |index| {
            let mut word = self.words[index];
            std::iter::from_fn(move || {
                let bit = word.trailing_zeros() as usize;
                word &= word.wrapping_sub(1);
                (bit < BITS).then_some(index * BITS + bit)
            })
            .filter(move |row| (from..to).contains(row))
        })
    }

    /// Length of the slices whose bits `select` leaves of each word in turn (ns).
    fn sum(&self, trace: &Trace, mut select: impl FnMut(u64) -> u64) -> u64 {
        let picked = Charge { words: self.words.iter().map(|word| select(*word)).collect(), ns: 0 };
        let spans = trace.target_threads().flat_map(|thread| picked.spans_of(trace, thread));
        spans.map(|(_, span)| span.end.since(span.start).0).sum()
    }
}

fn set(words: &mut Vec<u64>, bit: usize) {
    let index = bit / BITS;
    if words.len() <= index {
        words.resize(index + 1, 0);
    }
    words[index] |= 1 << (bit % BITS);
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_events::Timestamp;
    use holdup_events::tables::{SliceRow, Slices, Thread};

    /// Three threads of 100 slices, 10 ns each. The second thread is no target.
    fn trace() -> Trace {
        let mut trace = Trace::default();
        let mut rows = Vec::new();
        for thread in 0..3 {
            trace.threads.push(Thread { target: thread != 1, end: Timestamp(1000), ..Thread::default() });
            let row = |n: u64| SliceRow {
                thread: ThreadId(thread),
                start: Timestamp(n * 10),
                ..SliceRow::default()
            };
            rows.extend((0..100).map(row));
        }
        trace.slices = Slices::freeze(&[rows], vec![Timestamp(1000); 3]);
        trace
    }

    #[test]
    fn sums_are_those_of_the_slices() {
        let trace = trace();
        let every = |n: u64| Charge::matching(&trace, move |slice| (slice.start.0 / 10).is_multiple_of(n));
        let (all, thirds, fifths) = (every(1), every(3), every(5));
        assert_eq!((all.count(), all.ns()), (200, 2000));
        assert_eq!((thirds.count(), thirds.ns()), (68, 680));
        assert_eq!(thirds.shared_ns(&trace, &fifths), 2 * 7 * 10);
        assert_eq!(thirds.slices(&trace).count(), 68);
        assert_eq!(thirds.and(&trace, &fifths).count(), 2 * (34 + 20 - 7));
        assert!(Charge::default().is_empty());
    }
}
