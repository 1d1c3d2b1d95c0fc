//! Counts that only grow (of threads, of CPUs, in the kernel programs' map `paging`) → by how much they grew since the last
//! look.

use std::collections::BTreeMap;

use holdup_events::event::Counted;
use holdup_events::tables::CountKind;
use holdup_events::{CpuId, Event, Timestamp};

use crate::fields::Fields;

/// Sizes of the structs of `bpf/wire.h`, in bytes.
pub mod size {
    /// `struct wire_paging_key`
    pub const KEY: usize = 16;
    /// `struct wire_paging_sums`
    pub const SUMS: usize = 24;
}

/// Identity of a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    tid: u32,
    cpu: u16,
    /// Birth time of the thread (ns), which distinguishes threads with the same tid. 0 if unknown.
    born_ns: u64,
    what: CountKind,
    syscall: i32,
}

/// Last reported value of a count.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    at: Timestamp,
    total: u64,
}

/// The counts of a thread, as the kernel keeps them through its life.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ThreadCounts {
    pub at: Timestamp,
    pub tid: u32,
    pub tgid: u32,
    pub born_ns: u64,
    pub minor: u64,
    pub major: u64,
    /// The thread has exited.
    pub last: bool,
}

/// Remembers the last look.
#[derive(Default)]
pub struct Counts {
    last: BTreeMap<Key, Last>,
    bad: u64,
}

impl Counts {
    /// Takes a count of a CPU as it is now. A first look only remembers.
    pub fn cpu(
        &mut self,
        (cpu, what): (CpuId, CountKind),
        total: u64,
        at: Timestamp,
        sink: &mut dyn FnMut(Event),
    ) {
        let key = Key { tid: 0, cpu: cpu.0, born_ns: 0, what, syscall: 0 };
        let before = self.last.insert(key, Last { at, total });
        if let Some(before) = before {
            emit(key, 0, (before, Last { at, total }), sink);
        }
    }

    /// Takes the current value of an entry of the map `paging`, which is empty at the start. Invalid entries
    /// are counted.
    pub fn paging(&mut self, (key, value): (&[u8], &[u8]), at: Timestamp, sink: &mut dyn FnMut(Event)) {
        if self.read_paging((key, value), at, sink).is_none() {
            self.bad += 1;
        }
    }

    /// Entries that were not understood.
    pub fn bad(&self) -> u64 {
        self.bad
    }

    fn read_paging(
        &mut self,
        (key, value): (&[u8], &[u8]),
        at: Timestamp,
        sink: &mut dyn FnMut(Event),
    ) -> Option<()> {
        let (mut key, mut value) = (Fields(key), Fields(value));
        let (tid, what, syscall) = (key.u32()?, key.u32()?, key.u32()? as i32);
        let (count, ns, tgid) = (value.u64()?, value.u64()?, value.u32()?);
        let kinds: &[(CountKind, u64)] = match what {
            1 => &[(CountKind::ShootdownsSent, count)],
            2 => &[(CountKind::ShootdownInterrupts, count), (CountKind::ShootdownInterruptNs, ns)],
            3 => &[(CountKind::HugePages, count)],
            4 => &[(CountKind::LimitReclaims, count), (CountKind::LimitReclaimNs, ns)],
            5 => &[(CountKind::DirectReclaims, count), (CountKind::DirectReclaimNs, ns)],
            _ => return None,
        };
        for (what, total) in kinds {
            let key = Key { tid, cpu: CpuId::NONE.0, born_ns: 0, what: *what, syscall };
            self.grew(key, tgid, Last { at, total: *total }, sink);
        }
        Some(())
    }

    /// Takes what a thread has counted in its life. Its first look counts from its birth on.
    pub(crate) fn thread(&mut self, counts: &ThreadCounts, sink: &mut dyn FnMut(Event)) {
        for (what, total) in [(CountKind::MinorFaults, counts.minor), (CountKind::MajorFaults, counts.major)]
        {
            let key = Key { tid: counts.tid, cpu: CpuId::NONE.0, born_ns: counts.born_ns, what, syscall: 0 };
            self.grew(key, counts.tgid, Last { at: counts.at, total }, sink);
            if counts.last {
                self.last.remove(&key);
            }
        }
    }

    fn grew(&mut self, key: Key, tgid: u32, now: Last, sink: &mut dyn FnMut(Event)) {
        let before = self.last.insert(key, now).unwrap_or_default();
        emit(key, tgid, (before, now), sink);
    }
}

fn emit(key: Key, tgid: u32, (before, now): (Last, Last), sink: &mut dyn FnMut(Event)) {
    // The kernel's own times of a CPU may step back by a tick.
    let count = now.total.saturating_sub(before.total);
    if count > 0 {
        let Key { tid, cpu, what, syscall, .. } = key;
        let (at, until, cpu) = (before.at, now.at, CpuId(cpu));
        sink(Event::Counted(Counted { at, until, tid, tgid, cpu, what, syscall, count }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn emitted(take: impl FnOnce(&mut dyn FnMut(Event))) -> Vec<(CountKind, u64, u64)> {
        let mut all = Vec::new();
        take(&mut |event| match event {
            Event::Counted(counted) => all.push((counted.what, counted.at.0, counted.count)),
            other => panic!("{other:?}"),
        });
        all
    }

    fn thread(at: u64, born_ns: u64, minor: u64, last: bool) -> ThreadCounts {
        ThreadCounts { at: Timestamp(at), tid: 5, tgid: 4, born_ns, minor, major: 0, last }
    }

    #[test]
    fn increases_are_emitted_and_a_reused_tid_starts_at_zero() {
        let mut counts = Counts::default();
        assert_eq!(
            emitted(|sink| counts.thread(&thread(10, 1, 7, false), sink)),
            [(CountKind::MinorFaults, 0, 7)]
        );
        assert_eq!(emitted(|sink| counts.thread(&thread(20, 1, 7, false), sink)), []);
        assert_eq!(
            emitted(|sink| counts.thread(&thread(30, 1, 9, true), sink)),
            [(CountKind::MinorFaults, 20, 2)]
        );
        assert_eq!(
            emitted(|sink| counts.thread(&thread(40, 8, 3, false), sink)),
            [(CountKind::MinorFaults, 0, 3)]
        );
        assert_eq!(counts.last.len(), 2, "nothing is kept of who is gone");
    }

    #[test]
    fn a_cpus_first_look_is_where_it_begins_and_no_count_shrinks() {
        let mut counts = Counts::default();
        let key = (CpuId(1), CountKind::CpuIdle);
        let mut look = |at, total| emitted(|sink| counts.cpu(key, total, Timestamp(at), sink));
        assert_eq!(look(1, 1000), []);
        assert_eq!(look(2, 1500), [(CountKind::CpuIdle, 1, 500)]);
        assert_eq!(look(3, 1490), []);
    }

    #[test]
    fn entries_of_the_map_are_read_and_bad_ones_are_counted() {
        let mut counts = Counts::default();
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        let value = words(&[6, 0, 900, 0, 4, 0]);
        assert_eq!((words(&[5, 1, 10, 0]).len(), value.len()), (size::KEY, size::SUMS));
        let mut take = |key: &[u8]| emitted(|sink| counts.paging((key, &value), Timestamp(9), sink));
        assert_eq!(take(&words(&[5, 1, 10, 0])), [(CountKind::ShootdownsSent, 0, 6)]);
        let interrupts = [(CountKind::ShootdownInterrupts, 0, 6), (CountKind::ShootdownInterruptNs, 0, 900)];
        assert_eq!(take(&words(&[5, 2, 0, 0])), interrupts);
        let reclaims = [(CountKind::LimitReclaims, 0, 6), (CountKind::LimitReclaimNs, 0, 900)];
        assert_eq!(take(&words(&[5, 4, 0, 0])), reclaims);
        assert_eq!(take(&words(&[5, 9, 0, 0])), []);
        assert_eq!(take(&[1, 2]), []);
        assert_eq!(counts.bad(), 2);
    }
}
