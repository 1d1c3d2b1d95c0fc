//! Limits of the recorded processes' control groups. They are read repeatedly, since processes may be moved
//! and limits changed.

use std::collections::BTreeSet;

use holdup_capture::cgroup_limits::Limits;
use holdup_capture::lower;
use holdup_events::event::Counted;
use holdup_events::tables::CountKind;
use holdup_events::{CpuId, Event, Timestamp};

/// The first look is when a program has joined the group that it is to run in, ...
const FIRST_NS: u64 = 100_000_000;
/// ... and the others are as far apart as those at counts.
const EVERY_NS: u64 = 1_000_000_000;

/// Number of processes checked per read, with a few small files each.
const AT_ONCE: usize = 32;

/// The looks of one recording.
#[derive(Default)]
pub struct GroupLimits {
    /// When the next read is due (ns). 0 before the first call.
    next_ns: u64,
    /// Which process was the last, where there are too many.
    last: u32,
}

impl GroupLimits {
    /// Looks, if it is time to. `sink` gets what limits there are.
    pub fn step(&mut self, targets: &BTreeSet<u32>, sink: &mut dyn FnMut(Event)) {
        let now = lower::now().0;
        if self.next_ns == 0 {
            self.next_ns = now + FIRST_NS;
        }
        if now >= self.next_ns {
            self.next_ns = now + EVERY_NS;
            self.look(targets, Limits::of_process, sink);
        }
    }

    /// Checks some of the processes, and the others at the next call.
    fn look(&mut self, targets: &BTreeSet<u32>, of: impl Fn(&str) -> Limits, sink: &mut dyn FnMut(Event)) {
        let behind = targets.range(self.last.saturating_add(1)..).chain(targets.range(..=self.last));
        let round: Vec<u32> = behind.take(AT_ONCE).copied().collect();
        let Some(last) = round.last() else { return };
        self.last = *last;
        let until = lower::now();
        for tgid in round {
            let limits = of(&tgid.to_string());
            let told = [
                (CountKind::MemoryLimit, limits.memory_bytes),
                (CountKind::CpuLimit, limits.cpus.map(|cpus| (cpus * 1000.0).round() as u64)),
            ];
            for (what, count) in told.into_iter().filter_map(|(what, count)| Some((what, count?))) {
                sink(Event::Counted(Counted {
                    at: Timestamp(0),
                    until,
                    tid: tgid,
                    tgid,
                    cpu: CpuId::NONE,
                    what,
                    syscall: 0,
                    count,
                }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looked(limits: &mut GroupLimits, targets: &BTreeSet<u32>) -> Vec<(u32, CountKind, u64)> {
        let mut told = Vec::new();
        let of = |process: &str| match process {
            "7" => Limits { cpus: Some(0.5), memory_bytes: Some(4096) },
            _ => Limits { cpus: None, memory_bytes: Some(1 << 20) },
        };
        limits.look(targets, of, &mut |event| {
            if let Event::Counted(counted) = event {
                told.push((counted.tid, counted.what, counted.count));
            }
        });
        told
    }

    #[test]
    fn only_existing_limits_are_reported() {
        let told = looked(&mut GroupLimits::default(), &BTreeSet::from([7, 9]));
        let of_seven = [(7, CountKind::MemoryLimit, 4096), (7, CountKind::CpuLimit, 500)];
        assert_eq!(told, [&of_seven[..], &[(9, CountKind::MemoryLimit, 1 << 20)]].concat());
    }

    #[test]
    fn of_many_processes_each_gets_its_turn() {
        let targets: BTreeSet<u32> = (100..150).collect();
        let mut limits = GroupLimits::default();
        let seen: BTreeSet<u32> =
            (0..2).flat_map(|_| looked(&mut limits, &targets)).map(|(tid, ..)| tid).collect();
        assert_eq!(seen, targets);
    }
}
