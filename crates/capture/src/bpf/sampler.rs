//! cpu-clock sampling: one perf event per CPU, each with the sampling program.

use std::os::fd::IntoRawFd;

use libbpf_rs::{Link, Object};

use crate::error::CaptureError;
use crate::perf_ring::{self, Attr};

/// The links that keep the program on its events; each owns its event.
pub struct Sampler {
    _links: Vec<Link>,
}

/// The sampling interval for a rate (ns).
pub fn period_ns(hz: u32) -> u64 {
    1_000_000_000 / u64::from(hz.max(1))
}

/// Starts sampling every online CPU at `hz`.
pub fn start(object: &Object, hz: u32) -> Result<Sampler, CaptureError> {
    let program = object
        .progs_mut()
        .find(|program| program.name() == "on_sample")
        .ok_or(CaptureError::Refused { reason: "no sampling program".to_owned() })?;
    let mut attr = Attr::new(perf_ring::TYPE_SOFTWARE, perf_ring::SW_CPU_CLOCK);
    attr.sample_period = period_ns(hz);
    let mut links = Vec::new();
    for cpu in crate::host::online_cpus() {
        let descriptor = perf_ring::open(&attr, -1, i32::from(cpu))
            .map_err(|source| CaptureError::System { what: "opening a cpu-clock event", source })?;
        // libbpf's link closes the descriptor.
        let link = program
            .attach_perf_event(descriptor.into_raw_fd())
            .map_err(|error| CaptureError::Refused { reason: super::messages::reason(&error) })?;
        links.push(link);
    }
    Ok(Sampler { _links: links })
}
