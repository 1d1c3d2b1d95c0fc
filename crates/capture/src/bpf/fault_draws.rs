//! Sampling of page faults with their stacks (`bpf/paging.h`), all the time or in windows. The caller decides
//! on the windows.
//!
//! An open software event slows down every fault of the machine, sampled or not. A disabled event still has
//! half of this cost. Only a closed event costs nothing.

use std::collections::BTreeMap;
use std::time::Instant;

use libbpf_rs::{MapCore, MapFlags, Object};

use super::sampler::{self, Opened, Pace, Sampler};
use crate::error::CaptureError;
use crate::perf_ring;

/// Maximum sampled page faults of a kind per second and CPU. No multiple of the tick rate.
const FAULTS_HZ: u32 = 199;

/// A window in which minor faults are sampled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FaultWindow {
    /// When it ends (ns of CLOCK_MONOTONIC): faults after it do not count, even if it is closed later.
    pub end_ns: u64,
    /// For how many times as many faults each stands: the stretch in which the window was placed at random, over its length.
    pub weight: f64,
    /// Samples one fault in this number. 0 for the default rate per second.
    pub every: u64,
}

impl FaultWindow {
    /// Until it is closed.
    pub const ALWAYS: FaultWindow = FaultWindow { end_ns: u64::MAX, weight: 1.0, every: 0 };

    /// `struct fault_window` of the kernel program, with the number of the event.
    fn bytes(&self, generation: u64) -> [u8; 24] {
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&self.end_ns.to_ne_bytes());
        bytes[8..16].copy_from_slice(&((self.weight * 256.0).round() as u64).max(1).to_ne_bytes());
        bytes[16..].copy_from_slice(&generation.to_ne_bytes());
        bytes
    }
}

/// The open events. Dropping it closes them.
#[derive(Default)]
pub(super) struct FaultDraws {
    /// Faults that read from disk have events of their own, which do not slow down minor faults.
    major: Option<Sampler>,
    minor: Option<Sampler>,
    /// The first events of each kind, opened before the rights to open them were given up.
    first_major: Option<Opened>,
    first_minor: Option<Opened>,
    /// By CPU, what the closed events of minor faults counted.
    counted: BTreeMap<u16, u64>,
    /// How many of them there were.
    generation: u64,
}

impl FaultDraws {
    /// Opens the first events, which sample nothing yet.
    pub fn open(&mut self) -> Result<(), CaptureError> {
        let pace = Pace::Hz(FAULTS_HZ);
        self.first_major = Some(sampler::open_draws(perf_ring::SW_MAJOR_FAULTS, pace)?);
        self.first_minor = Some(sampler::open_draws(perf_ring::SW_MINOR_FAULTS, pace)?);
        Ok(())
    }

    /// Samples major faults from now on, on every CPU that is online, with the events that [`FaultDraws::open`] opened if they are
    /// not in use yet.
    pub fn begin(&mut self, object: &Object) -> Result<(), CaptureError> {
        let opened = match self.first_major.take() {
            Some(opened) => opened,
            None => sampler::open_draws(perf_ring::SW_MAJOR_FAULTS, Pace::Hz(FAULTS_HZ))?,
        };
        self.major = Some(opened.attach(object, "on_major_fault")?);
        Ok(())
    }

    /// Draws minor faults from now on, in a window, or not at all.
    pub fn set(&mut self, object: &Object, window: Option<FaultWindow>) -> Result<(), CaptureError> {
        self.counted = self.counted();
        self.minor = None;
        self.generation += 1;
        let first = self.first_minor.take();
        let Some(window) = window else { return Ok(()) };
        let map = object.maps().find(|map| map.name() == "fault_window");
        let map = map.ok_or_else(|| CaptureError::Refused { reason: "no map fault_window".to_owned() })?;
        map.update(&0u32.to_ne_bytes(), &window.bytes(self.generation), MapFlags::ANY)
            .map_err(|error| CaptureError::Refused { reason: error.to_string() })?;
        let pace = if window.every > 0 { Pace::Every(window.every) } else { Pace::Hz(FAULTS_HZ) };
        let opened = match first.filter(|_| window.every == 0) {
            Some(opened) => opened,
            None => sampler::open_draws(perf_ring::SW_MINOR_FAULTS, pace)?,
        };
        self.minor = Some(opened.attach(object, "on_minor_fault")?);
        Ok(())
    }

    /// By CPU, the minor faults that events have counted so far: those that became slower.
    pub fn counted(&self) -> BTreeMap<u16, u64> {
        let mut counted = self.counted.clone();
        for (cpu, count) in self.minor.iter().flat_map(Sampler::counts) {
            *counted.entry(cpu).or_default() += count;
        }
        counted
    }

    /// Returns the slowdown of a fault by the event (ns), measured on faults of this process. Rounds with and
    /// without the event alternate, and the fastest round of each counts, because interference only slows a
    /// round down. `None` if nothing could be measured. Ends with the event closed.
    pub fn cost_ns(&mut self, object: &Object) -> Result<Option<f64>, CaptureError> {
        const TURNS: usize = 4;
        let Some(pages) = Pages::map() else { return Ok(None) };
        let (mut with, mut without) = (f64::MAX, f64::MAX);
        for _ in 0..TURNS {
            self.set(object, None)?;
            without = without.min(pages.fastest_fault_ns());
            self.set(object, Some(FaultWindow::ALWAYS))?;
            with = with.min(pages.fastest_fault_ns());
        }
        self.set(object, None)?;
        Ok(Some((with - without).max(0.0)))
    }
}

/// Memory of ours to fault on.
struct Pages {
    start: *mut u8,
}

impl Pages {
    const COUNT: usize = 64;
    const PAGE: usize = 4096;
    const BYTES: usize = Pages::COUNT * Pages::PAGE;

    fn map() -> Option<Pages> {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a mapping of its own, wherever there is room.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), Pages::BYTES, access, kind, -1, 0) };
        if start == libc::MAP_FAILED {
            return None;
        }
        // Larger pages would make fewer faults. SAFETY: advice on that mapping.
        unsafe { libc::madvise(start, Pages::BYTES, libc::MADV_NOHUGEPAGE) };
        Some(Pages { start: start.cast() })
    }

    /// Mean time of a fault in the fastest of several rounds (ns).
    fn fastest_fault_ns(&self) -> f64 {
        const ROUNDS: usize = 4;
        (0..ROUNDS).map(|_| self.a_round_ns()).fold(f64::MAX, f64::min)
    }

    fn a_round_ns(&self) -> f64 {
        let began = Instant::now();
        for page in 0..Pages::COUNT {
            // SAFETY: within the mapping, which lives as long as `self`, and which nothing else knows.
            unsafe { self.start.add(page * Pages::PAGE).write_volatile(1) };
        }
        let took_ns = began.elapsed().as_nanos() as f64;
        // SAFETY: the same mapping, whose content is not needed.
        unsafe { libc::madvise(self.start.cast(), Pages::BYTES, libc::MADV_DONTNEED) };
        took_ns / Pages::COUNT as f64
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`, and no longer used.
        unsafe { libc::munmap(self.start.cast(), Pages::BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_bytes_match_the_kernel_programs_layout() {
        let bytes = FaultWindow { end_ns: 7, weight: 16.5, every: 5 }.bytes(3);
        assert_eq!(bytes[..8], 7u64.to_ne_bytes());
        assert_eq!(bytes[8..16], (16 * 256 + 128u64).to_ne_bytes());
        assert_eq!(bytes[16..], 3u64.to_ne_bytes());
    }

    #[test]
    fn faults_on_our_own_pages_are_real_ones() {
        let faults = || {
            // SAFETY: an all-zero rusage is valid, and the call fills it.
            let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
            unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
            usage.ru_minflt
        };
        let pages = Pages::map().unwrap();
        let before = faults();
        assert!(pages.a_round_ns() > 0.0 && pages.a_round_ns() > 0.0);
        assert!(faults() - before >= 2 * Pages::COUNT as i64, "{}", faults() - before);
    }
}
