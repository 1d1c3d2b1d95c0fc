//! Puts events that come from several rings and from polling into the order of time.

use holdup_events::{Event, Timestamp};

/// How long after it happened an event may still come out of a ring (ns): the kernel writes a record
/// at once, so this only has to cover interrupts and a hypervisor's pauses between stamp and write.
const LATE_MAX_NS: u64 = 2_000_000;

/// Events that wait for earlier ones.
#[derive(Default)]
pub struct Ordered {
    pending: Vec<Event>,
}

impl Ordered {
    /// Takes an event in. One that comes too late keeps its own time and goes out next.
    pub fn push(&mut self, event: Event) {
        self.pending.push(event);
    }

    /// Gives all that happened well before `seen`, the moment at which the rings were read.
    pub fn give_until(&mut self, seen: Timestamp, sink: &mut dyn FnMut(Event)) {
        let horizon = Timestamp(seen.0.saturating_sub(LATE_MAX_NS));
        self.pending.sort_by_key(Event::at);
        let ripe = self.pending.partition_point(|event| event.at() <= horizon);
        for event in self.pending.drain(..ripe) {
            sink(event);
        }
    }

    /// Gives all.
    pub fn give_all(&mut self, sink: &mut dyn FnMut(Event)) {
        self.give_until(Timestamp(u64::MAX), sink);
        self.pending.drain(..).for_each(sink);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_events::event::Sample;

    fn sample(at: u64) -> Event {
        Event::Sample(Sample { at: Timestamp(at), ..Sample::default() })
    }

    fn given(ordered: &mut Ordered, seen: Option<u64>) -> Vec<u64> {
        let mut times = Vec::new();
        let mut sink = |event: Event| times.push(event.at().0);
        match seen {
            Some(seen) => ordered.give_until(Timestamp(seen), &mut sink),
            None => ordered.give_all(&mut sink),
        }
        times
    }

    #[test]
    fn events_wait_for_earlier_ones() {
        let mut ordered = Ordered::default();
        for at in [9_000_000, 1_000_000, 5_000_000] {
            ordered.push(sample(at));
        }
        assert_eq!(given(&mut ordered, Some(7_000_000)), [1_000_000, 5_000_000]);
        ordered.push(sample(8_000_000));
        assert_eq!(given(&mut ordered, None), [8_000_000, 9_000_000]);
        assert_eq!(given(&mut ordered, None), [] as [u64; 0]);
    }
}
