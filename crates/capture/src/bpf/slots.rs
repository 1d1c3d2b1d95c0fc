//! The main ring, `bpf/ring.h`: one part a CPU, slots of one size, read through memory maps.
//!
//! A slot is read once its `complete` says that its record is whole. What a CPU has written is in its order;
//! between CPUs, [`SlotRing::drain`] passes on the oldest first, so what a recorder finds that was long kept from its
//! CPU is in order too.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use libbpf_rs::{MapCore, Object};

use super::prefetch;
use crate::error::CaptureError;

/// `struct wire_slot`: two words and the record.
const SLOT_BYTES: usize = 128;
const RECORD_AT: usize = 8;
/// `struct wire_ring_ends`.
const ENDS_BYTES: usize = 128;
const TIMERS_AT: usize = 16;
const NEXT_SEQ_AT: usize = 24;
const READ_AT: usize = 64;
/// Fewer make no ring: `SLOTS_SPARE` of them stay free.
const SLOTS_MIN: u32 = 64;
/// So often the kernel learns that slots are free: its CPU has to fetch that cache line anew each time.
const FREED_EVERY: u64 = 256;

/// Slots are asked for so many records before they are read: they lie in the cache of the CPU that wrote them.
const FETCHED_AHEAD: u64 = 6;

/// How many parts, and how big.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Parts, by the kernel's number of the CPU.
    pub cpus: u32,
    /// Slots of each: a power of two.
    pub slots: u32,
}

impl Layout {
    /// The largest that fits into `bytes`, for CPUs up to number `cpus - 1`.
    pub fn fitting(bytes: u32, cpus: u32) -> Layout {
        let cpus = cpus.max(1);
        let room = (bytes / SLOT_BYTES as u32 / cpus).max(SLOTS_MIN);
        Layout { cpus, slots: 1 << room.ilog2() }
    }

    /// For the CPUs that are online now. (Machines that might get more have room in their tables for many.)
    pub fn of_machine(bytes: u32) -> Layout {
        let last = crate::host::online_cpus().into_iter().max().unwrap_or(0);
        Layout::fitting(bytes, u32::from(last) + 1)
    }
}

/// Memory that this value maps.
struct Mapped {
    at: *mut u8,
    bytes: usize,
}

impl Mapped {
    fn map(
        descriptor: Option<BorrowedFd<'_>>,
        bytes: usize,
        protection: i32,
    ) -> Result<Mapped, CaptureError> {
        let (flags, descriptor) = match descriptor {
            Some(descriptor) => (libc::MAP_SHARED, descriptor.as_raw_fd()),
            None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1),
        };
        // SAFETY: a new mapping at an address that the kernel chooses.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, descriptor, 0) };
        if at == libc::MAP_FAILED {
            return Err(CaptureError::last("mapping the main ring"));
        }
        Ok(Mapped { at: at.cast(), bytes })
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: mapped by this value, whose pointers end with it.
        unsafe { libc::munmap(self.at.cast(), self.bytes) };
    }
}

/// The consumer's side.
pub(super) struct SlotRing {
    slots: Mapped,
    ends: Mapped,
    layout: Layout,
    /// By CPU, how much there was at [`SlotRing::mark`].
    marked: Option<Vec<u64>>,
}

// The mappings belong to this value alone.
unsafe impl Send for SlotRing {}

impl SlotRing {
    /// Maps the ring of a loaded object.
    pub fn open(object: &Object, layout: Layout) -> Result<SlotRing, CaptureError> {
        let map = |name: &str, bytes, protection| {
            let map = object.maps().find(|map| map.name() == name);
            let map = map.ok_or_else(|| CaptureError::Refused { reason: format!("no map {name}") })?;
            Mapped::map(Some(map.as_fd()), bytes, protection)
        };
        Ok(SlotRing {
            slots: map("records", slots_bytes(layout), libc::PROT_READ)?,
            ends: map("ring_ends", ends_bytes(layout), libc::PROT_READ | libc::PROT_WRITE)?,
            layout,
            marked: None,
        })
    }

    /// The next [`SlotRing::drain`] passes on what is there now.
    pub fn mark(&mut self) {
        self.marked = Some((0..self.layout.cpus).map(|cpu| self.taken(cpu)).collect());
    }

    /// How full the fullest part is, from 0 to 1.
    pub fn fill(&self) -> f64 {
        let waiting = |cpu| self.taken(cpu).saturating_sub(self.read(cpu).load(Ordering::Relaxed));
        let most = (0..self.layout.cpus).map(waiting).max().unwrap_or(0);
        most as f64 / f64::from(self.layout.slots)
    }

    /// Switches and wakeups that were numbered so far, lost ones included; modulo 2³² a CPU.
    pub fn numbered(&self) -> u64 {
        self.next_numbers().map(u64::from).sum()
    }

    /// By CPU, the number that the next switch or wakeup will have.
    pub fn next_numbers(&self) -> impl Iterator<Item = u32> {
        (0..self.layout.cpus).map(|cpu| self.word(cpu, NEXT_SEQ_AT).load(Ordering::Relaxed) as u32)
    }

    /// Whether the kernel programs know where each of these CPUs keeps its timers (`bpf/sched.h`).
    pub fn knows_timers(&self, cpus: &[u16]) -> bool {
        let known = |cpu: u32| self.word(cpu, TIMERS_AT).load(Ordering::Relaxed) != 0;
        cpus.iter().all(|cpu| u32::from(*cpu) < self.layout.cpus && known(u32::from(*cpu)))
    }

    /// Passes on what is there now, or was at [`SlotRing::mark`], the oldest of all CPUs first: not what comes meanwhile, because a
    /// busy producer would never let a reader catch up. What is being written when we come to it, and all of its CPU behind it, waits
    /// for the next call. Returns how many records.
    pub fn drain(&mut self, sink: &mut dyn FnMut(&[u8])) -> usize {
        if self.marked.is_none() {
            self.mark();
        }
        let ends = self.marked.take().unwrap_or_default();
        let part = |(cpu, end)| {
            let position = self.read(cpu).load(Ordering::Relaxed);
            Part { position, freed: position, end }
        };
        let mut parts: Vec<Part> = (0..).zip(ends).map(part).collect();
        let oldest = |(cpu, part): (u32, &Part)| Some(Reverse((time_of(self.record(cpu, part)?), cpu)));
        let mut heads: BinaryHeap<_> = (0..).zip(&parts).filter_map(oldest).collect();
        let mut records = 0;
        while let Some(Reverse((_, cpu))) = heads.pop() {
            let Some(part) = parts.get_mut(cpu as usize) else { break };
            let until = heads.peek().map_or(u64::MAX, |Reverse((at, _))| *at);
            let next = loop {
                let Some(record) = self.record(cpu, part) else { break None };
                let at = time_of(record);
                if at > until {
                    break Some(at);
                }
                self.fetch(cpu, part);
                sink(record);
                records += 1;
                part.position += 1;
                if part.position - part.freed >= FREED_EVERY {
                    self.free(cpu, part);
                }
            };
            match next {
                Some(at) => heads.push(Reverse((at, cpu))),
                None => self.free(cpu, part),
            }
        }
        records
    }

    /// The record at a part's position, if it is whole.
    fn record(&self, cpu: u32, part: &Part) -> Option<&[u8]> {
        if part.position >= part.end {
            return None;
        }
        let slot = self.slot(cpu, part.position);
        // SAFETY: it is a slot. The kernel writes to one only while it is free, which it is not before its position was
        // given back by `free`.
        unsafe {
            let complete = (*slot.cast::<AtomicU32>()).load(Ordering::Acquire);
            if complete != (part.position as u32).wrapping_add(1) {
                return None;
            }
            let bytes = *slot.add(4).cast::<u32>() as usize;
            Some(std::slice::from_raw_parts(slot.add(RECORD_AT), bytes.min(SLOT_BYTES - RECORD_AT)))
        }
    }

    /// Where the slot of a position is.
    #[inline]
    fn slot(&self, cpu: u32, position: u64) -> *mut u8 {
        let slots = self.layout.slots as usize;
        let index = cpu as usize * slots + (position as usize & (slots - 1));
        // SAFETY: callers name CPUs of the layout, so that `index` is below cpus × slots.
        unsafe { self.slots.at.add(index * SLOT_BYTES) }
    }

    /// Asks for a slot that will be read soon, if it was given out: the CPU that writes to it next has it for itself.
    #[inline]
    fn fetch(&self, cpu: u32, part: &Part) {
        let position = part.position + FETCHED_AHEAD;
        if position >= part.end {
            return;
        }
        let slot = self.slot(cpu, position);
        prefetch::soon_read(slot);
        prefetch::soon_read(slot.wrapping_add(SLOT_BYTES / 2));
    }

    fn free(&self, cpu: u32, part: &mut Part) {
        self.read(cpu).store(part.position, Ordering::Release);
        part.freed = part.position;
    }

    fn taken(&self, cpu: u32) -> u64 {
        self.word(cpu, 0).load(Ordering::Acquire)
    }

    fn read(&self, cpu: u32) -> &AtomicU64 {
        self.word(cpu, READ_AT)
    }

    fn word(&self, cpu: u32, at: usize) -> &AtomicU64 {
        // SAFETY: callers name CPUs of the layout.
        unsafe { &*self.ends.at.add(cpu as usize * ENDS_BYTES + at).cast::<AtomicU64>() }
    }
}

/// How far one CPU's part is read.
struct Part {
    position: u64,
    /// Up to here the kernel knows.
    freed: u64,
    /// What is there now ends here.
    end: u64,
}

/// `wire_header.at_ns`
fn time_of(record: &[u8]) -> u64 {
    super::session::number(record, 0, 8)
}

fn slots_bytes(layout: Layout) -> usize {
    layout.cpus as usize * layout.slots as usize * SLOT_BYTES
}

fn ends_bytes(layout: Layout) -> usize {
    layout.cpus as usize * ENDS_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ring that the test itself writes, as the kernel programs do.
    fn ring(cpus: u32, slots: u32) -> SlotRing {
        let layout = Layout { cpus, slots };
        let mapped = |bytes| Mapped::map(None, bytes, libc::PROT_READ | libc::PROT_WRITE).unwrap();
        SlotRing {
            slots: mapped(slots_bytes(layout)),
            ends: mapped(ends_bytes(layout)),
            layout,
            marked: None,
        }
    }

    /// Takes the next slot for a record of this time; whole or not yet.
    fn put(ring: &SlotRing, cpu: u32, at_ns: u64, whole: bool) -> u64 {
        let position = ring.taken(cpu);
        ring.word(cpu, 0).store(position + 1, Ordering::Release);
        let slots = ring.layout.slots;
        let index = cpu * slots + (position as u32 & (slots - 1));
        unsafe {
            let slot = ring.slots.at.add(index as usize * SLOT_BYTES);
            *slot.cast::<u32>() = position as u32 + u32::from(whole);
            *slot.add(4).cast::<u32>() = 16;
            *slot.add(RECORD_AT).cast::<u64>() = at_ns;
            *slot.add(RECORD_AT + 8).cast::<u64>() = u64::from(cpu);
        }
        position
    }

    fn drained(ring: &mut SlotRing) -> Vec<(u64, u64)> {
        let mut out = Vec::new();
        let count = ring.drain(&mut |record| {
            assert_eq!(record.len(), 16);
            out.push((time_of(record), super::super::session::number(record, 8, 8)));
        });
        assert_eq!(count, out.len());
        out
    }

    #[test]
    fn the_oldest_of_all_cpus_comes_first() {
        let mut ring = ring(3, 64);
        for (cpu, at) in [(0, 10), (0, 20), (0, 50), (2, 5), (2, 30), (2, 40)] {
            put(&ring, cpu, at, true);
        }
        assert_eq!(drained(&mut ring), [(5, 2), (10, 0), (20, 0), (30, 2), (40, 2), (50, 0)]);
        assert_eq!(drained(&mut ring), []);
    }

    #[test]
    fn what_comes_behind_a_mark_waits_for_the_next_time() {
        let mut ring = ring(2, 64);
        (1..4).for_each(|at| _ = put(&ring, 0, at, true));
        ring.mark();
        (4..6).for_each(|at| _ = put(&ring, 1, at, true));
        let times =
            |ring: &mut SlotRing| drained(ring).into_iter().map(|record| record.0).collect::<Vec<_>>();
        assert_eq!(times(&mut ring), [1, 2, 3]);
        assert_eq!(times(&mut ring), [4, 5]);
    }

    #[test]
    fn an_unfinished_record_holds_up_its_cpu_alone() {
        let mut ring = ring(2, 64);
        put(&ring, 0, 10, true);
        let position = put(&ring, 0, 20, false);
        put(&ring, 0, 30, true);
        put(&ring, 1, 40, true);
        assert_eq!(drained(&mut ring), [(10, 0), (40, 1)]);
        unsafe { *ring.slots.at.add(position as usize * SLOT_BYTES).cast::<u32>() += 1 };
        assert_eq!(drained(&mut ring), [(20, 0), (30, 0)]);
    }

    #[test]
    fn round_and_round_nothing_is_lost_or_read_twice() {
        let mut ring = ring(2, 64);
        let mut at = 0;
        for round in 0..100 {
            let mut expected = Vec::new();
            for _ in 0..=round % 50 {
                at += 1;
                put(&ring, (at % 2) as u32, at, true);
                expected.push((at, at % 2));
            }
            assert!(ring.fill() > 0.0);
            assert_eq!(drained(&mut ring), expected);
            assert_eq!(ring.fill(), 0.0);
        }
    }

    #[test]
    fn what_a_slot_held_the_round_before_is_not_read_again() {
        let mut ring = ring(1, 64);
        for at in 0..64 {
            put(&ring, 0, at, true);
        }
        assert_eq!(drained(&mut ring).len(), 64);
        // Taken, and nothing written yet.
        ring.word(0, 0).store(65, Ordering::Release);
        assert_eq!(drained(&mut ring), []);
    }

    #[test]
    fn timers_are_known_once_each_cpu_that_is_online_has_told() {
        let ring = ring(3, 64);
        let tell = |cpu| ring.word(cpu, TIMERS_AT).store(1 << 63, Ordering::Relaxed);
        tell(0);
        assert!(ring.knows_timers(&[0]) && !ring.knows_timers(&[0, 2]));
        tell(2);
        assert!(ring.knows_timers(&[0, 2]) && !ring.knows_timers(&[0, 1, 2]));
        assert!(!ring.knows_timers(&[0, 9]), "a CPU that came later has no part of the ring");
    }

    #[test]
    fn numbers_are_summed_over_cpus() {
        let ring = ring(2, 64);
        // Beside the number is what else the programs keep there.
        ring.word(0, NEXT_SEQ_AT).store(7 | 5 << 32, Ordering::Relaxed);
        ring.word(1, NEXT_SEQ_AT).store(3, Ordering::Relaxed);
        assert_eq!(ring.numbered(), 10);
    }

    #[test]
    fn layouts_fit() {
        assert_eq!(Layout::fitting(64 << 20, 2), Layout { cpus: 2, slots: 1 << 18 });
        assert_eq!(Layout::fitting(64 << 20, 12), Layout { cpus: 12, slots: 1 << 15 });
        assert_eq!(Layout::fitting(4096, 64), Layout { cpus: 64, slots: SLOTS_MIN });
    }
}
