//! On-CPU samples: one cpu-clock event a CPU, each with the sampling program (`bpf/samples.h`).

use super::{Attached, Linux, Source};

/// See the module.
pub const SOURCE: Source = Source {
    name: "cpu-samples",
    summary: "running threads, sampled by the CPU clock",
    programs: &["on_sample"],
    since: Linux(5, 15),
    attached: Attached::BySession,
    without: "running time is not split into user code and kernel",
};
