//! The main ring, `bpf/ring.h`: one part per CPU, with slots of one size, read through memory maps.
//!
//! A slot is read once its `complete` marks its record as complete. Records of one CPU are in order.
//! [`SlotRing::drain`] merges the CPUs by time, so the records are in order even if the recorder was
//! preempted for long.

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
const PLACE_AT: usize = 48;
const READ_AT: usize = 64;
/// Fewer make no ring: `SLOTS_SPARE` of them stay free.
const SLOTS_MIN: u32 = 64;
/// Number of read slots after which they are reported to the kernel as free. Each report costs the producing
/// CPU a cache miss.
const FREED_EVERY: u64 = 256;

/// Number of records by which slots are prefetched: they are in the cache of the CPU that wrote them.
const FETCHED_AHEAD: u64 = 6;

/// Parts of the main ring: one per CPU that is online when the programs are loaded. Some smaller parts are
/// for CPUs that first come online later. A possible CPU that stays offline only takes [`ENDS_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// One more than the highest number of a possible CPU.
    pub cpus: u32,
    /// Parts of CPUs that are online.
    pub places: u32,
    /// log2 of the slots of such a part.
    pub slots_bits: u32,
    /// Parts for CPUs that come online later. A BPF program claims them (`bpf/common.h`).
    pub spares: u32,
    /// log2 of the slots of such a part.
    pub spare_bits: u32,
}

impl Layout {
    /// Spare parts, where there are possible CPUs that are offline: this many, and one more for each [`ONLINE_PER_SPARE`] CPUs online.
    const SPARES_MIN: u32 = 8;
    const ONLINE_PER_SPARE: u32 = 4;
    /// All spare parts together take at most this share of the ring's bytes.
    const SPARE_SHARE: u32 = 8;

    /// The largest for `bytes`, spare parts excluded.
    pub fn fitting(bytes: u32, online: &[u16], possible: &[u16]) -> Layout {
        let bits = |bytes: u32, parts: u32| (bytes / SLOT_BYTES as u32 / parts).max(SLOTS_MIN).ilog2();
        let highest = online.iter().chain(possible).max().copied().unwrap_or(0);
        let places = (online.len() as u32).max(1);
        let later = possible.iter().filter(|cpu| !online.contains(cpu)).count() as u32;
        let spares = later.min(Layout::SPARES_MIN + places / Layout::ONLINE_PER_SPARE);
        let slots_bits = bits(bytes, places);
        let spare_bits = bits(bytes / Layout::SPARE_SHARE, spares.max(1)).min(slots_bits);
        Layout { cpus: u32::from(highest) + 1, places, slots_bits, spares, spare_bits }
    }

    /// For the CPUs of this machine.
    pub fn of_machine(bytes: u32) -> Layout {
        Layout::fitting(bytes, &crate::host::online_cpus(), &crate::host::possible_cpus())
    }

    /// Slots of all parts.
    pub fn slots(self) -> u32 {
        (self.places << self.slots_bits) + (self.spares << self.spare_bits)
    }

    /// All parts: scratch memory has as many.
    pub fn all_places(self) -> u32 {
        self.places + self.spares
    }

    /// `WIRE_PLACE` of `bpf/wire.h`: the part of the CPU that is the `nth` of those online, from 0.
    fn place(self, nth: u32) -> u64 {
        u64::from(nth << self.slots_bits) | u64::from(nth + 1) << 32 | u64::from(self.slots_bits) << 48
    }

    /// Returns the slots of a place. `None` for 0, and for places outside the ring.
    fn span(self, place: u64) -> Option<Span> {
        let (first, bits) = (place as u32, (place >> 48) as u32);
        let slots = 1u32.checked_shl(bits)?;
        let end = first.checked_add(slots)?;
        (place != 0 && end <= self.slots()).then_some(Span { first, slots })
    }
}

/// The slots of one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    first: u32,
    /// A power of two.
    slots: u32,
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
    /// Maps the ring of a loaded object, and gives each of `online` its part. No program may be attached before.
    pub fn open(object: &Object, layout: Layout, online: &[u16]) -> Result<SlotRing, CaptureError> {
        let map = |name: &str, bytes, protection| {
            let map = object.maps().find(|map| map.name() == name);
            let map = map.ok_or_else(|| CaptureError::Refused { reason: format!("no map {name}") })?;
            Mapped::map(Some(map.as_fd()), bytes, protection)
        };
        let ring = SlotRing {
            slots: map("records", slots_bytes(layout), libc::PROT_READ)?,
            ends: map("ring_ends", ends_bytes(layout), libc::PROT_READ | libc::PROT_WRITE)?,
            layout,
            marked: None,
        };
        ring.place(online);
        Ok(ring)
    }

    /// Gives each of these CPUs its part, as far as there are parts.
    fn place(&self, online: &[u16]) {
        for (nth, cpu) in (0..self.layout.places).zip(online) {
            if u32::from(*cpu) < self.layout.cpus {
                self.word(u32::from(*cpu), PLACE_AT).store(self.layout.place(nth), Ordering::Release);
            }
        }
    }

    /// Returns the slots of a CPU. `None` if no program has used them yet.
    fn span(&self, cpu: u32) -> Option<Span> {
        self.layout.span(self.word(cpu, PLACE_AT).load(Ordering::Acquire))
    }

    /// Limits the next [`SlotRing::drain`] to the records that exist now.
    pub fn mark(&mut self) {
        self.marked = Some((0..self.layout.cpus).map(|cpu| self.taken(cpu)).collect());
    }

    /// How full the fullest part is, from 0 to 1.
    pub fn fill(&self) -> f64 {
        let fill = |cpu| {
            let waiting = self.taken(cpu).saturating_sub(self.read(cpu).load(Ordering::Relaxed));
            self.span(cpu).map_or(0.0, |span| waiting as f64 / f64::from(span.slots))
        };
        (0..self.layout.cpus).map(fill).fold(0.0, f64::max)
    }

    /// Number of switches and wakeups so far, including lost ones. Counted modulo 2³² per CPU.
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

    /// Passes on the records that exist now, or existed at [`SlotRing::mark`], merged by time over all CPUs.
    /// Later records are left for the next call, because a busy producer would never let a reader catch up.
    /// An incomplete record, and all later ones of its CPU, also wait for the next call. Returns the number
    /// of records.
    pub fn drain(&mut self, sink: &mut dyn FnMut(&[u8])) -> usize {
        if self.marked.is_none() {
            self.mark();
        }
        let ends = self.marked.take().unwrap_or_default();
        let part = |(cpu, end)| {
            let position = self.read(cpu).load(Ordering::Relaxed);
            // Without slots there is nothing to read.
            let (span, end) =
                self.span(cpu).map_or((Span { first: 0, slots: 1 }, position), |span| (span, end));
            Part { position, freed: position, end, span }
        };
        let mut parts: Vec<Part> = (0..).zip(ends).map(part).collect();
        let oldest = |(cpu, part): (u32, &Part)| Some(Reverse((time_of(self.record(part)?), cpu)));
        let mut heads: BinaryHeap<_> = (0..).zip(&parts).filter_map(oldest).collect();
        let mut records = 0;
        while let Some(Reverse((_, cpu))) = heads.pop() {
            let Some(part) = parts.get_mut(cpu as usize) else { break };
            let until = heads.peek().map_or(u64::MAX, |Reverse((at, _))| *at);
            let next = loop {
                let Some(record) = self.record(part) else { break None };
                let at = time_of(record);
                if at > until {
                    break Some(at);
                }
                self.fetch(part);
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
    fn record(&self, part: &Part) -> Option<&[u8]> {
        if part.position >= part.end {
            return None;
        }
        let slot = self.slot(part.span, part.position);
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
    fn slot(&self, span: Span, position: u64) -> *mut u8 {
        let index = span.first as usize + (position as usize & (span.slots as usize - 1));
        // SAFETY: `Layout::span` makes only spans that lie inside the ring, whose slots are a power of two.
        unsafe { self.slots.at.add(index * SLOT_BYTES) }
    }

    /// Asks for a slot that will be read soon, if it was given out: the CPU that writes to it next has it for itself.
    #[inline]
    fn fetch(&self, part: &Part) {
        let position = part.position + FETCHED_AHEAD;
        if position >= part.end {
            return;
        }
        let slot = self.slot(part.span, position);
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
    /// End of the records that exist now.
    end: u64,
    span: Span,
}

/// `wire_header.at_ns`
fn time_of(record: &[u8]) -> u64 {
    super::session::number(record, 0, 8)
}

fn slots_bytes(layout: Layout) -> usize {
    layout.slots() as usize * SLOT_BYTES
}

fn ends_bytes(layout: Layout) -> usize {
    layout.cpus as usize * ENDS_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ring that the test itself writes, as the kernel programs do.
    fn ring(cpus: u32, slots: u32) -> SlotRing {
        let layout = Layout { cpus, places: cpus, slots_bits: slots.ilog2(), spares: 0, spare_bits: 6 };
        let all: Vec<u16> = (0..cpus as u16).collect();
        ring_of(layout, &all)
    }

    fn ring_of(layout: Layout, online: &[u16]) -> SlotRing {
        let mapped = |bytes| Mapped::map(None, bytes, libc::PROT_READ | libc::PROT_WRITE).unwrap();
        let ring = SlotRing {
            slots: mapped(slots_bytes(layout)),
            ends: mapped(ends_bytes(layout)),
            layout,
            marked: None,
        };
        ring.place(online);
        ring
    }

    /// Does the same as `claim_place` of `bpf/common.h` for the `nth` CPU that comes online later, from 0.
    fn claim(ring: &SlotRing, cpu: u32, nth: u32) {
        let Layout { places, slots_bits, spare_bits, .. } = ring.layout;
        let first = u64::from((places << slots_bits) + (nth << spare_bits));
        let place = first | u64::from(places + nth + 1) << 32 | u64::from(spare_bits) << 48;
        ring.word(cpu, PLACE_AT).store(place, Ordering::Release);
    }

    /// Takes the next slot for a record of this time, complete or not.
    fn put(ring: &SlotRing, cpu: u32, at_ns: u64, whole: bool) -> u64 {
        let position = ring.taken(cpu);
        ring.word(cpu, 0).store(position + 1, Ordering::Release);
        let slot = ring.slot(ring.span(cpu).unwrap(), position);
        unsafe {
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
    fn timers_are_known_once_every_online_cpu_has_reported() {
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
        // The upper half of the word has other state of the programs.
        ring.word(0, NEXT_SEQ_AT).store(7 | 5 << 32, Ordering::Relaxed);
        ring.word(1, NEXT_SEQ_AT).store(3, Ordering::Relaxed);
        assert_eq!(ring.numbered(), 10);
    }

    fn cpus(numbers: impl IntoIterator<Item = u16>) -> Vec<u16> {
        numbers.into_iter().collect()
    }

    #[test]
    fn layouts_fit() {
        let all = |bytes, number: u16| Layout::fitting(bytes, &cpus(0..number), &cpus(0..number));
        let of = |cpus, slots_bits| (cpus, cpus, slots_bits, 0);
        let fields = |layout: Layout| (layout.cpus, layout.places, layout.slots_bits, layout.spares);
        assert_eq!(fields(all(64 << 20, 2)), of(2, 18));
        assert_eq!(fields(all(64 << 20, 12)), of(12, 15));
        assert_eq!(fields(all(64 << 20, 64)), of(64, 13));
        assert_eq!(fields(all(64 << 20, 256)), of(256, 11));
        assert_eq!(fields(all(4096, 64)), of(64, SLOTS_MIN.ilog2()));
        assert_eq!(fields(Layout::fitting(64 << 20, &[], &[])), of(1, 19));
    }

    #[test]
    fn possible_cpus_that_are_offline_take_little_of_the_ring() {
        for (online, possible) in [(2, 4), (2, 256), (8, 256), (64, 256), (255, 256)] {
            let layout = Layout::fitting(64 << 20, &cpus(0..online), &cpus(0..possible));
            let without = Layout::fitting(64 << 20, &cpus(0..online), &cpus(0..online));
            assert_eq!(layout.slots_bits, without.slots_bits, "{online} of {possible}");
            assert!(layout.spares >= 1 && layout.spare_bits >= 10, "{layout:?}");
            assert!(layout.slots() - without.slots() <= (64 << 20) / 128 / 8, "{layout:?}");
            assert_eq!(layout.cpus, u32::from(possible));
        }
    }

    #[test]
    fn cpu_numbers_with_holes_waste_no_slots() {
        let online = cpus((0..4).chain(64..68));
        let layout = Layout::fitting(64 << 20, &online, &online);
        assert_eq!((layout.cpus, layout.places, layout.slots()), (68, 8, (64 << 20) / 128));
        let mut ring = ring_of(layout, &online);
        for (at, cpu) in online.iter().enumerate() {
            put(&ring, u32::from(*cpu), at as u64 + 1, true);
        }
        let seen: Vec<u64> = drained(&mut ring).into_iter().map(|record| record.1).collect();
        assert_eq!(seen, [0, 1, 2, 3, 64, 65, 66, 67]);
    }

    #[test]
    fn parts_never_overlap() {
        for (online, possible) in [(cpus(0..64), cpus(0..256)), (cpus((0..256).step_by(3)), cpus(0..256))] {
            let ring = ring_of(Layout::fitting(1 << 20, &online, &possible), &online);
            let later = possible.iter().filter(|cpu| !online.contains(cpu)).take(ring.layout.spares as usize);
            later.zip(0..).for_each(|(cpu, nth)| claim(&ring, u32::from(*cpu), nth));
            let mut spans: Vec<Span> = (0..ring.layout.cpus).filter_map(|cpu| ring.span(cpu)).collect();
            assert_eq!(spans.len() as u32, ring.layout.all_places());
            spans.sort_by_key(|span| span.first);
            assert!(spans.windows(2).all(|pair| pair[0].first + pair[0].slots == pair[1].first));
            let last = spans.last().unwrap();
            assert_eq!(last.first + last.slots, ring.layout.slots());
        }
    }

    #[test]
    fn a_cpu_that_comes_online_later_is_read_from_a_spare_part() {
        let online = cpus(0..2);
        let mut ring = ring_of(Layout::fitting(1 << 20, &online, &cpus(0..256)), &online);
        put(&ring, 1, 10, true);
        claim(&ring, 200, 0);
        put(&ring, 200, 5, true);
        assert_eq!(drained(&mut ring), [(5, 200), (10, 1)]);
        // Round and round within its own, smaller part.
        let slots = 1 << ring.layout.spare_bits;
        for at in 0..3 * slots {
            put(&ring, 200, 20 + at, true);
            assert_eq!(drained(&mut ring), [(20 + at, 200)]);
        }
    }

    #[test]
    fn a_place_outside_the_ring_is_not_read() {
        let ring = ring(2, 64);
        let outside = [64 | 1 << 32 | 7 << 48, 128 | 1 << 32 | 6 << 48, u64::MAX, 1 << 32 | 40 << 48];
        for place in outside {
            ring.word(1, PLACE_AT).store(place, Ordering::Relaxed);
            assert_eq!(ring.span(1), None, "{place:x}");
        }
    }
}
