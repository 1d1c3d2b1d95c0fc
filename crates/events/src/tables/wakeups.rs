//! Wakeups: the waker and the thread that became runnable.

use crate::event::WakeContext;
use crate::{CpuId, Duration, StackId, ThreadId, Timestamp};

/// One row as a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wakeup {
    /// When the waker did it.
    pub at: Timestamp,
    /// The thread that became runnable.
    pub wakee: ThreadId,
    /// The thread running on `cpu`. It is the waker if `context` is a thread, else it was interrupted by
    /// chance.
    pub waker: ThreadId,
    /// Where the waker ran.
    pub cpu: CpuId,
    /// Context of the wakeup.
    pub context: WakeContext,
    /// The waker's stack, if taken.
    pub stack: StackId,
    /// `stack` was taken with probability 1/`stack_every`, so it represents this many such wakeups. 0: none
    /// was wanted.
    pub stack_every: u16,
    /// Futex address if the waker was in futex(2), else 0.
    pub waker_object: u64,
}

/// Maximum time between a thread setting its sleep state, after which it can be woken, and the switch away
/// from it. It is hardly ever longer.
pub const LEAVING_MAX: Duration = Duration(5_000);

/// All wakeups of the traced program's threads, sorted by wakee, then time.
#[derive(Clone, Debug, Default)]
pub struct Wakeups {
    rows: Vec<Wakeup>,
    rows_of_wakee: Vec<u32>,
}

impl Wakeups {
    /// Freezes rows. Rows of one wakee must come in time order. `threads` is the number of threads.
    pub fn freeze(mut rows: Vec<Wakeup>, threads: usize) -> Wakeups {
        rows.sort_by_key(|row| (row.wakee, row.at));
        let mut rows_of_wakee = vec![0u32; threads + 1];
        for row in &rows {
            if let Some(count) = rows_of_wakee.get_mut(row.wakee.index() + 1) {
                *count += 1;
            }
        }
        for thread in 0..threads {
            rows_of_wakee[thread + 1] += rows_of_wakee[thread];
        }
        rows.truncate(rows_of_wakee[threads] as usize);
        Wakeups { rows, rows_of_wakee }
    }

    /// Builds the table from rows in final order. `rows_of_wakee` as in the table.
    pub(crate) fn from_sorted(rows: Vec<Wakeup>, rows_of_wakee: Vec<u32>) -> Wakeups {
        Wakeups { rows, rows_of_wakee }
    }

    /// How many rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Every wakeup, by wakee, then time.
    pub fn iter(&self) -> impl Iterator<Item = &Wakeup> {
        self.rows.iter()
    }

    /// The wakeups of one thread, in time order.
    #[inline]
    pub fn of_thread(&self, wakee: ThreadId) -> &[Wakeup] {
        match self.rows_of_wakee.get(wakee.index()..wakee.index() + 2) {
            Some([from, to]) => &self.rows[*from as usize..*to as usize],
            _ => &[],
        }
    }

    /// The last wakeup of `wakee` in `from..=to`. For a slice, [`crate::Trace::ended_by`] knows better.
    pub fn ending(&self, wakee: ThreadId, from: Timestamp, to: Timestamp) -> Option<&Wakeup> {
        let rows = self.of_thread(wakee);
        let behind = rows.partition_point(|row| row.at <= to);
        rows[..behind].last().filter(|row| row.at >= from)
    }
}
