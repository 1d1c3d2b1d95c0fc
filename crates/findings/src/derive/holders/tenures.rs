//! Holders of each lock over time, while threads waited for it.
//!
//! A release that wakes a waiter ends a *tenure*. The releaser held the lock since the previous release, or
//! acquired it after that. It cannot have acquired the lock before it ran. Until then the lock belongs to the
//! woken waiter, its next holder. While no thread waits, the holder is unknown.

use holdup_events::tables::{Slice, ThreadState};
use holdup_events::{ThreadId, Timestamp, Trace};

use super::Held;

/// Maximum number of slices from a wakeup to the run that follows it.
const LOOK_AHEAD: usize = 8;

/// One release of a lock to a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tenure {
    /// Which lock, as [`super::super::locks::LockIndex`] numbers them.
    pub lock: u32,
    /// Time of the release: the end of the tenure.
    pub until: Timestamp,
    /// Thread that released it.
    pub holder: ThreadId,
    /// Thread that the release woke: the next holder.
    pub heir: ThreadId,
    /// Whether the release was recorded: it woke `heir`. Otherwise `holder` was woken to take the lock, but
    /// had not taken it when `heir`, the next releaser, first ran.
    pub seen: bool,
}

/// The tenures of all locks.
#[derive(Clone, Debug, Default)]
pub struct Tenures {
    /// `of_lock[l]..of_lock[l + 1]` are the rows of lock `l`.
    of_lock: Vec<u32>,
    rows: Vec<Tenure>,
    /// Holder of each lock after its last release, if known.
    last: Vec<Option<ThreadId>>,
}

impl Tenures {
    /// From all releases in any order. `owners` are the last owners that a lock's word named to a thread that
    /// no release woke, with the time.
    pub(super) fn new(
        locks: usize,
        mut rows: Vec<Tenure>,
        owners: &[Option<(Timestamp, ThreadId)>],
    ) -> Tenures {
        rows.retain(|row| (row.lock as usize) < locks);
        rows.sort_unstable();
        let mut of_lock = vec![0u32; locks + 1];
        for row in &rows {
            of_lock[row.lock as usize + 1] += 1;
        }
        for lock in 0..locks {
            of_lock[lock + 1] += of_lock[lock];
        }
        let last = (0..locks).map(|lock| {
            let release = rows[of_lock[lock] as usize..of_lock[lock + 1] as usize].last();
            let named = owners.get(lock).copied().flatten();
            // A word read after the last release is valid. A word read before it is outdated, and the woken
            // waiter holds the lock.
            let named = named.filter(|(at, _)| release.is_none_or(|row| row.until < *at));
            named.map(|(_, owner)| owner).or_else(|| release.map(|row| row.heir))
        });
        let last = last.collect();
        Tenures { of_lock, rows, last }
    }

    /// Adds the time from a release to the first run of the next releaser, if that is not the woken waiter.
    pub(super) fn hand_over(rows: &mut Vec<Tenure>, trace: &Trace) {
        rows.sort_unstable();
        let pairs =
            rows.windows(2).filter(|pair| pair[0].lock == pair[1].lock && pair[0].heir != pair[1].holder);
        let between = pairs.filter_map(|pair| handed_over(trace, &pair[0], &pair[1]));
        let between: Vec<Tenure> = between.collect();
        rows.extend(between);
    }

    /// The tenures of one lock, in time order.
    pub fn of_lock(&self, lock: u32) -> &[Tenure] {
        match self.of_lock.get(lock as usize..lock as usize + 2) {
            Some([from, to]) => &self.rows[*from as usize..*to as usize],
            _ => &[],
        }
    }

    /// Holder of a lock just before `at`, if a thread waited for the lock then.
    pub fn before(&self, lock: u32, at: Timestamp) -> Option<ThreadId> {
        let rows = self.of_lock(lock);
        let row = rows.get(rows.partition_point(|row| row.until < at));
        row.map_or_else(|| self.last.get(lock as usize).copied().flatten(), |row| Some(row.holder))
    }

    /// Holders of a lock in `from..to`, in contiguous pieces.
    pub fn over(&self, lock: u32, from: Timestamp, to: Timestamp) -> impl Iterator<Item = Held> + '_ {
        let rows = self.of_lock(lock);
        let mut next = rows.partition_point(|row| row.until <= from);
        let last = self.last.get(lock as usize).copied().flatten();
        let mut at = from;
        std::iter::from_fn(move || {
            if at >= to {
                return None;
            }
            let (end, holder) = match rows.get(next) {
                Some(row) => (row.until.min(to), Some(row.holder)),
                None => (to, last),
            };
            next += 1;
            let held = Held { from: at, to: end, holder };
            at = end;
            Some(held)
        })
    }
}

/// Time in which the next holder of `one` was woken but not running, and `next`'s holder cannot have acquired
/// the lock yet.
fn handed_over(trace: &Trace, one: &Tenure, next: &Tenure) -> Option<Tenure> {
    let from = one.until;
    let first = |thread: ThreadId, wanted: fn(&Slice) -> bool| {
        let rows = trace.slices.rows(thread);
        let row = trace.slices.covering(thread, from).unwrap_or(rows.end);
        let slices = (row..rows.end.min(row + LOOK_AHEAD)).map(|row| trace.slices.at(thread, row));
        slices.take_while(|slice| slice.start < next.until).find(wanted).map(|slice| slice.start.max(from))
    };
    let took = first(next.holder, |slice| slice.state == ThreadState::Running)?;
    let ran = first(one.heir, |slice| slice.state == ThreadState::Running)?;
    let until = took.min(ran);
    let between = Tenure { until, holder: one.heir, heir: next.holder, seen: false, ..*one };
    (until > from).then_some(between)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenure(lock: u32, until: u64, holder: u32, heir: u32) -> Tenure {
        Tenure { lock, until: Timestamp(until), holder: ThreadId(holder), heir: ThreadId(heir), seen: true }
    }

    #[test]
    fn pieces_tile_and_the_heir_has_it_last() {
        let rows = vec![tenure(0, 30, 2, 1), tenure(0, 10, 1, 2), tenure(1, 5, 9, 8)];
        let tenures = Tenures::new(3, rows, &[None, None, Some((Timestamp(1), ThreadId(7)))]);
        let said: Vec<(u64, u64, Option<u32>)> = tenures
            .over(0, Timestamp(4), Timestamp(40))
            .map(|held| (held.from.0, held.to.0, held.holder.map(|id| id.0)))
            .collect();
        assert_eq!(said, [(4, 10, Some(1)), (10, 30, Some(2)), (30, 40, Some(1))]);
        let whole: Vec<Held> = tenures.over(2, Timestamp(0), Timestamp(3)).collect();
        assert_eq!(whole[0].holder, Some(ThreadId(7)), "by its word");
        assert_eq!(tenures.before(1, Timestamp(5)), Some(ThreadId(9)));
        assert_eq!(tenures.over(1, Timestamp(3), Timestamp(3)).count(), 0);
    }
}
