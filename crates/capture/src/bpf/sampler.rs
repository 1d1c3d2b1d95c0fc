//! Sampling: perf events of each CPU, each with a sampling program.

use std::fs::File;
use std::io::Read;
use std::os::fd::IntoRawFd;

use libbpf_rs::{Link, Object};

use crate::error::CaptureError;
use crate::perf_ring::{self, Attr, flag};

/// The links that keep programs on their events; each owns its event.
pub struct Sampler {
    _links: Vec<Link>,
    /// The same events: they end when neither is left.
    events: Vec<File>,
}

impl Sampler {
    /// What each CPU's event has counted, drawn or not.
    pub(super) fn counts(&self) -> Vec<u64> {
        let count = |mut event: &File| {
            let mut bytes = [0; 8];
            event.read_exact(&mut bytes).map_or(0, |()| u64::from_ne_bytes(bytes))
        };
        self.events.iter().map(count).collect()
    }
}

/// The sampling interval for a rate (ns).
pub fn period_ns(hz: u32) -> u64 {
    1_000_000_000 / u64::from(hz.max(1))
}

/// Starts sampling every online CPU's clock at `hz`.
pub fn start(object: &Object, hz: u32) -> Result<Sampler, CaptureError> {
    let mut attr = Attr::new(perf_ring::TYPE_SOFTWARE, perf_ring::SW_CPU_CLOCK);
    attr.sample_period = period_ns(hz);
    on_each_cpu(object, "on_sample", &attr)
}

/// How many events of a kind are drawn.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pace {
    /// Up to so many a second and CPU: the kernel follows their rate, and says for how many each stands. It takes a second or so
    /// to find it.
    Hz(u32),
    /// One in so many.
    Every(u64),
}

/// Starts drawing a kind of software event.
pub(super) fn start_draws(
    object: &Object,
    program: &str,
    (event, pace): (u64, Pace),
) -> Result<Sampler, CaptureError> {
    let mut attr = Attr::new(perf_ring::TYPE_SOFTWARE, event);
    match pace {
        Pace::Hz(hz) => {
            attr = attr.with(flag::FREQ);
            attr.sample_period = u64::from(hz);
        }
        Pace::Every(number) => attr.sample_period = number.max(1),
    }
    on_each_cpu(object, program, &attr)
}

fn on_each_cpu(object: &Object, program: &str, attr: &Attr) -> Result<Sampler, CaptureError> {
    let program = object
        .progs_mut()
        .find(|found| found.name() == program)
        .ok_or_else(|| CaptureError::Refused { reason: format!("no program {program}") })?;
    let (mut links, mut events) = (Vec::new(), Vec::new());
    let opening = |source| CaptureError::System { what: "opening an event for samples", source };
    for cpu in crate::host::online_cpus() {
        let descriptor = perf_ring::open(attr, -1, i32::from(cpu)).map_err(opening)?;
        events.push(File::from(descriptor.try_clone().map_err(opening)?));
        // libbpf's link closes the descriptor.
        let link = program
            .attach_perf_event(descriptor.into_raw_fd())
            .map_err(|error| CaptureError::Refused { reason: super::messages::reason(&error) })?;
        links.push(link);
    }
    Ok(Sampler { _links: links, events })
}
