//! Sampling: perf events of each CPU, each with a sampling program.

use std::os::fd::IntoRawFd;

use libbpf_rs::{Link, Object};

use crate::error::CaptureError;
use crate::perf_ring::{self, Attr, flag};

/// The links that keep programs on their events; each owns its event.
pub struct Sampler {
    _links: Vec<Link>,
}

/// So many page faults of each kind a second and CPU are drawn, at the most; no multiple of a tick's rate.
const FAULTS_HZ: u64 = 199;

/// The sampling interval for a rate (ns).
pub fn period_ns(hz: u32) -> u64 {
    1_000_000_000 / u64::from(hz.max(1))
}

/// Starts sampling every online CPU's clock at `hz`.
pub fn start(object: &Object, hz: u32) -> Result<Sampler, CaptureError> {
    let mut attr = Attr::new(perf_ring::TYPE_SOFTWARE, perf_ring::SW_CPU_CLOCK);
    attr.sample_period = period_ns(hz);
    Ok(Sampler { _links: on_each_cpu(object, "on_sample", &attr)? })
}

/// Starts drawing page faults: the kernel follows their rate, and says for how many each stands.
pub fn start_faults(object: &Object) -> Result<Sampler, CaptureError> {
    let mut links = Vec::new();
    for (program, event) in
        [("on_minor_fault", perf_ring::SW_MINOR_FAULTS), ("on_major_fault", perf_ring::SW_MAJOR_FAULTS)]
    {
        let mut attr = Attr::new(perf_ring::TYPE_SOFTWARE, event).with(flag::FREQ);
        attr.sample_period = FAULTS_HZ;
        links.extend(on_each_cpu(object, program, &attr)?);
    }
    Ok(Sampler { _links: links })
}

fn on_each_cpu(object: &Object, program: &str, attr: &Attr) -> Result<Vec<Link>, CaptureError> {
    let program = object
        .progs_mut()
        .find(|found| found.name() == program)
        .ok_or_else(|| CaptureError::Refused { reason: format!("no program {program}") })?;
    let mut links = Vec::new();
    for cpu in crate::host::online_cpus() {
        let descriptor = perf_ring::open(attr, -1, i32::from(cpu))
            .map_err(|source| CaptureError::System { what: "opening an event for samples", source })?;
        // libbpf's link closes the descriptor.
        let link = program
            .attach_perf_event(descriptor.into_raw_fd())
            .map_err(|error| CaptureError::Refused { reason: super::messages::reason(&error) })?;
        links.push(link);
    }
    Ok(links)
}
