//! Hardware counts between two samples of a thread (`bpf/counters.h`), emitted as counters of a lane per
//! thread.

use std::sync::Arc;

use holdup_events::event::{RuntimeEvent, RuntimeEventKind};
use holdup_events::tables::{COUNTED_NS, HARDWARE_LANES};
use holdup_events::{Event, Timestamp};

/// Number of values in a record, as `WIRE_COUNTERS_MAX` in `bpf/wire.h`.
pub(crate) const VALUES: usize = 4;
/// The value of one that did not count.
const NOT_COUNTED: u64 = u64::MAX;

/// A record (`struct wire_counters`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reading {
    pub at: Timestamp,
    pub tid: u32,
    pub tgid: u32,
    /// Since the thread's sample before (ns).
    pub ran_ns: u64,
    pub values: [u64; VALUES],
}

/// Which counters these are.
#[derive(Debug, Default)]
pub struct Hardware {
    names: Vec<Arc<str>>,
}

impl Hardware {
    /// The counters in the order of their values.
    pub fn know(&mut self, names: &[&str]) {
        self.names = names.iter().map(|name| Arc::from(*name)).collect();
    }

    /// Lanes are known by their numbers, so no lane start is emitted or kept.
    pub(crate) fn take(&self, reading: &Reading, sink: &mut dyn FnMut(Event)) {
        let Reading { at, tid, tgid, .. } = *reading;
        let lane = HARDWARE_LANES | tid;
        let mut tell =
            |what, name: Arc<str>| sink(Event::Runtime(RuntimeEvent { at, tgid, tid, lane, what, name }));
        tell(RuntimeEventKind::Counter(reading.ran_ns), COUNTED_NS.into());
        for (name, value) in self.names.iter().zip(reading.values) {
            if value != NOT_COUNTED {
                tell(RuntimeEventKind::Counter(value), name.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_a_lane_and_unavailable_counters_are_omitted() {
        let mut hardware = Hardware::default();
        hardware.know(&["cycles", "instructions"]);
        let mut told = Vec::new();
        for at in [7, 9] {
            let values = [3_000_000, if at == 7 { 4_500_000 } else { NOT_COUNTED }, 0, 0];
            let reading = Reading { at: Timestamp(at), tid: 12, tgid: 11, ran_ns: 1_000_000, values };
            hardware.take(&reading, &mut |event| {
                let Event::Runtime(tell) = event else { panic!("{event:?}") };
                assert_eq!((tell.tgid, tell.tid, tell.lane), (11, 12, HARDWARE_LANES | 12));
                told.push((tell.at.0, tell.name.to_string(), tell.what));
            });
        }
        let counter = |at, name: &str, value| (at, name.to_owned(), RuntimeEventKind::Counter(value));
        let expected = [
            counter(7, "counted_ns", 1_000_000),
            counter(7, "cycles", 3_000_000),
            counter(7, "instructions", 4_500_000),
            counter(9, "counted_ns", 1_000_000),
            counter(9, "cycles", 3_000_000),
        ];
        assert_eq!(told, expected);
    }
}
