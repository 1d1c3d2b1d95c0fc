//! Sampling: perf events of each CPU, each with a sampling program.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{IntoRawFd, OwnedFd};

use holdup_events::Timestamp;
use libbpf_rs::{Link, Object, ProgramMut};

use super::clocks::Clocks;
use crate::error::CaptureError;
use crate::perf_ring::{self, Attr, flag};

/// An event of one CPU, with the link that keeps the program attached. The event ends when both are closed.
struct OnCpu {
    cpu: u16,
    _link: Link,
    event: File,
}

/// Opens an event that counts and samples nothing before a program is attached to it.
fn open_one(cpu: u16, attr: &Attr) -> io::Result<OwnedFd> {
    perf_ring::open(&attr.clone().with(flag::DISABLED), -1, i32::from(cpu))
}

/// Events of one kind, one per online CPU, which do not count yet. Opening them can need more privileges than
/// a recording keeps. [`Opened::attach`] does not.
pub(super) struct Opened {
    events: Vec<(u16, OwnedFd)>,
    /// When online CPUs were read.
    looked: Timestamp,
}

impl Opened {
    fn open(attr: &Attr) -> Result<Opened, CaptureError> {
        let looked = crate::lower::now();
        let mut events = Vec::new();
        for cpu in crate::host::online_cpus() {
            match open_one(cpu, attr) {
                Ok(event) => events.push((cpu, event)),
                // It went offline since the list was read.
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {}
                Err(error) => {
                    let (what, reason) = ("opening an event for samples", perf_ring::refusal(&error));
                    return Err(CaptureError::Event { what, reason });
                }
            }
        }
        Ok(Opened { events, looked })
    }

    /// Starts the events, with a program on each.
    pub fn attach(self, object: &Object, program: &str) -> Result<Sampler, CaptureError> {
        let program = self::program(object, program)?;
        let (mut on_cpus, mut clocks) = (Vec::new(), Clocks::default());
        for (cpu, descriptor) in self.events {
            on_cpus.push(OnCpu::attach(&program, cpu, descriptor)?);
            clocks.begin(cpu, crate::lower::now().0);
        }
        Ok(Sampler { on_cpus, clocks, looked: self.looked, missing: String::new() })
    }
}

impl OnCpu {
    /// libbpf enables the event once the program is attached.
    fn attach(program: &ProgramMut<'_>, cpu: u16, descriptor: OwnedFd) -> Result<OnCpu, CaptureError> {
        let duplicating = |error| CaptureError::System { what: "duplicating an event for samples", error };
        let event = File::from(descriptor.try_clone().map_err(duplicating)?);
        // libbpf's link closes the descriptor.
        let link = program
            .attach_perf_event(descriptor.into_raw_fd())
            .map_err(|error| CaptureError::Refused { reason: super::messages::reason(&error) })?;
        Ok(OnCpu { cpu, _link: link, event })
    }

    /// Number of counted events, sampled or not.
    fn count(&self) -> u64 {
        let (mut event, mut bytes) = (&self.event, [0; 8]);
        event.read_exact(&mut bytes).map_or(0, |()| u64::from_ne_bytes(bytes))
    }
}

/// One kind of event on every CPU.
pub struct Sampler {
    on_cpus: Vec<OnCpu>,
    clocks: Clocks,
    /// When online CPUs were read last.
    looked: Timestamp,
    /// Why a CPU that came online is not sampled. Empty if none.
    missing: String,
}

impl Sampler {
    /// Why a CPU that came online during the recording is not sampled. Empty if all are sampled.
    pub(super) fn missing(&self) -> &str {
        &self.missing
    }

    /// Opens a clock on a CPU that came online. `None`: the CPU is offline again, or the kernel refuses the event, which is noted.
    fn reopen(&mut self, program: &ProgramMut<'_>, cpu: u16, hz: u32) -> Option<OnCpu> {
        match open_one(cpu, &clock(hz)) {
            Ok(descriptor) => OnCpu::attach(program, cpu, descriptor).ok(),
            Err(error) => {
                if matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM)) {
                    let reason = perf_ring::refusal(&error);
                    self.missing = format!("CPU {cpu} came online and is not sampled: {reason}");
                }
                None
            }
        }
    }

    /// By CPU, the number of events that its sampler has counted, sampled or not.
    pub(super) fn counts(&self) -> impl Iterator<Item = (u16, u64)> {
        self.on_cpus.iter().map(|on_cpu| (on_cpu.cpu, on_cpu.count()))
    }

    /// For a sampler of [`open_clocks`]: samples each of `online` that has no event, because it was offline for a while or was never online
    /// before. Returns these CPUs, and since when each was not sampled.
    pub(super) fn begin_again(&mut self, object: &Object, hz: u32, online: &[u16]) -> Vec<NotSampled> {
        let Ok(program) = program(object, "on_sample") else { return Vec::new() };
        let mut again = Vec::new();
        let looked = std::mem::replace(&mut self.looked, crate::lower::now());
        for cpu in missing(online, self.on_cpus.iter().map(|on_cpu| on_cpu.cpu)) {
            let Some(opened) = self.reopen(&program, cpu, hz) else { continue };
            let now = crate::lower::now();
            self.on_cpus.push(opened);
            self.clocks.begin(cpu, now.0);
            again.push(NotSampled { cpu, start: looked, end: now });
        }
        let counts: Vec<(u16, u64)> = self.counts().collect();
        for (place, (cpu, count)) in counts.into_iter().enumerate() {
            let now = crate::lower::now();
            let Some(start_ns) = self.clocks.look(cpu, now.0, count) else { continue };
            let Some(opened) = self.reopen(&program, cpu, hz) else { continue };
            if let Some(on_cpu) = self.on_cpus.get_mut(place) {
                *on_cpu = opened;
            }
            self.clocks.begin(cpu, now.0);
            again.push(NotSampled { cpu, start: Timestamp(start_ns), end: now });
        }
        again
    }
}

/// The CPUs of `online` that were not in `before`, with an empty gap.
pub(super) fn came_online(online: &[u16], before: &[u16]) -> Vec<NotSampled> {
    let now = crate::lower::now();
    let gap = |cpu| NotSampled { cpu, start: now, end: now };
    missing(online, before.iter().copied()).into_iter().map(gap).collect()
}

/// Returns the CPUs of `online` that are not in `known`.
fn missing(online: &[u16], known: impl Iterator<Item = u16>) -> Vec<u16> {
    let known: BTreeSet<u16> = known.collect();
    online.iter().copied().filter(|cpu| !known.contains(cpu)).collect()
}

/// A time in which a CPU had no samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotSampled {
    /// The kernel's number of the CPU.
    pub cpu: u16,
    /// When the CPU went offline. For a CPU that was never online before: when it was last seen offline.
    pub start: Timestamp,
    /// When sampling of the CPU began.
    pub end: Timestamp,
}

/// The sampling interval for a rate (ns).
pub fn period_ns(hz: u32) -> u64 {
    1_000_000_000 / u64::from(hz.max(1))
}

/// Opens the events that sample every online CPU's clock at `hz`.
pub(super) fn open_clocks(hz: u32) -> Result<Opened, CaptureError> {
    Opened::open(&clock(hz))
}

fn clock(hz: u32) -> Attr {
    let mut attr = Attr::new(perf_ring::TYPE_SOFTWARE, perf_ring::SW_CPU_CLOCK);
    attr.sample_period = period_ns(hz);
    attr
}

/// Sampling rate of a kind of event.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pace {
    /// Up to this number per second and CPU. The kernel adapts the period to the rate, and reports the period
    /// of each sample. Adapting takes about a second.
    Hz(u32),
    /// One event in this number.
    Every(u64),
}

/// Opens the events that sample a kind of software event.
pub(super) fn open_draws(event: u64, pace: Pace) -> Result<Opened, CaptureError> {
    let mut attr = Attr::new(perf_ring::TYPE_SOFTWARE, event);
    match pace {
        Pace::Hz(hz) => {
            attr = attr.with(flag::FREQ);
            attr.sample_period = u64::from(hz);
        }
        Pace::Every(number) => attr.sample_period = number.max(1),
    }
    Opened::open(&attr)
}

fn program<'a>(object: &'a Object, name: &str) -> Result<ProgramMut<'a>, CaptureError> {
    let found = object.progs_mut().find(|found| found.name() == name);
    found.ok_or_else(|| CaptureError::Refused { reason: format!("no program {name}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_without_an_event_are_found_whatever_their_numbers() {
        let online: Vec<u16> = (0..4).chain(64..68).chain([255]).collect();
        assert_eq!(missing(&online, (0..4).chain([9])), [64, 65, 66, 67, 255]);
        assert_eq!(missing(&online, online.clone().into_iter()), [] as [u16; 0]);
    }
}
