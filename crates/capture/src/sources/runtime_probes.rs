//! Spans of runtimes that record none themselves (a stop-the-world pause, a thread that reaches it). Probes
//! are set at their begin and end (`bpf/spans.h`), on functions that descriptors name.

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
