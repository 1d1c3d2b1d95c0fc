//! Spans of runtimes that tell nothing by themselves (a stop of the world, who comes to it): probes where they begin and end
//! (`bpf/spans.h`), as descriptors name the functions.

use super::{Attached, Linux, Source};

/// See the module.
pub const SOURCE: Source = Source {
    name: "runtime-probes",
    summary: "spans of runtimes at the functions that descriptors name, such as Go's and HotSpot's stops of the world",
    programs: &["on_place"],
    since: Linux(5, 15),
    attached: Attached::AtFunctions,
    without: "stops of the world of Go and HotSpot are known from stacks alone",
};
