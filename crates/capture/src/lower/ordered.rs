//! Merges items from several rings and from polling by time.

use holdup_events::Timestamp;

/// Maximum delay of a record in a ring (ns). The kernel writes a record at once, so the delay only covers
/// interrupts and a hypervisor's pauses between timestamp and write.
const LATE_MAX_NS: u64 = 2_000_000;

/// Items that wait for earlier ones.
pub struct Ordered<T> {
    pending: Vec<(Timestamp, T)>,
}

impl<T> Default for Ordered<T> {
    fn default() -> Ordered<T> {
        Ordered { pending: Vec::new() }
    }
}

impl<T> Ordered<T> {
    /// Takes an item in. One that comes too late keeps its own time and goes out next.
    pub fn push(&mut self, at: Timestamp, item: T) {
        self.pending.push((at, item));
    }

    /// Returns all items from well before `seen`, the time at which the rings were read. Items with equal
    /// times keep their order.
    pub fn ripe(&mut self, seen: Timestamp) -> Vec<(Timestamp, T)> {
        let horizon = Timestamp(seen.0.saturating_sub(LATE_MAX_NS));
        self.pending.sort_by_key(|(at, _)| *at);
        let ripe = self.pending.partition_point(|(at, _)| *at <= horizon);
        self.pending.drain(..ripe).collect()
    }

    /// All.
    pub fn rest(&mut self) -> Vec<(Timestamp, T)> {
        self.pending.sort_by_key(|(at, _)| *at);
        std::mem::take(&mut self.pending)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_wait_for_earlier_ones() {
        let mut ordered = Ordered::default();
        for (at, name) in [(9_000_000, 'd'), (1_000_000, 'a'), (5_000_000, 'b'), (5_000_000, 'c')] {
            ordered.push(Timestamp(at), name);
        }
        let names =
            |items: Vec<(Timestamp, char)>| items.into_iter().map(|(_, name)| name).collect::<String>();
        assert_eq!(names(ordered.ripe(Timestamp(7_000_000))), "abc");
        ordered.push(Timestamp(8_000_000), 'x');
        assert_eq!(names(ordered.rest()), "xd");
        assert_eq!(names(ordered.rest()), "");
    }
}
