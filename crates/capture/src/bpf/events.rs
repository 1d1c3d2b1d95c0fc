//! The perf events of a recording, opened while holdup still has all its privileges.
//!
//! Kernels of Debian and Ubuntu reserve `perf_event_open` for CAP_SYS_ADMIN if `kernel.perf_event_paranoid`
//! is above 2, their default. A recording drops this capability before it begins. Attaching a program to an
//! open event only needs CAP_PERFMON.

use libbpf_rs::Object;

use super::counters::{self, Counters};
use super::fault_draws::FaultDraws;
use super::interruption;
use super::sampler::{self, Opened};
use super::session::Options;
use super::trial::Trial;
use crate::error::CaptureError;

/// The open events. They do not sample yet.
#[derive(Default)]
pub(super) struct Events {
    /// The clock event of each CPU. `None` without samples.
    pub clocks: Option<Opened>,
    /// Cost of an interrupt by such an event.
    pub interruption: Option<Trial>,
    /// Hardware counters, or why those that are wanted cannot be read.
    pub counting: Option<Result<Counters, CaptureError>>,
    /// Page faults, or why they cannot be sampled.
    pub faults: Option<Result<FaultDraws, CaptureError>>,
}

impl Events {
    /// Opens what `options` ask for. Takes 10 ms where samples are wanted.
    ///
    /// # Errors
    /// The kernel refuses the clocks of samples.
    pub fn open(object: &Object, options: &Options) -> Result<Events, CaptureError> {
        if options.sample_hz == 0 {
            return Ok(Events::default());
        }
        let counts = !options.counters.is_empty();
        let mut faults = FaultDraws::default();
        Ok(Events {
            clocks: Some(sampler::open_clocks(options.sample_hz)?),
            interruption: interruption::measure(),
            counting: counts.then(|| counters::start(object, &options.counters)),
            faults: Some(faults.open().map(|()| faults)),
        })
    }
}
