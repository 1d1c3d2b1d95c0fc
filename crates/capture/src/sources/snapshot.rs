//! Every thread of the machine at one moment, by the task iterator (`bpf/snapshot.h`).

use super::{Attached, Linux, Source};

/// See the module.
pub const SOURCE: Source = Source {
    name: "snapshot",
    summary: "names and states of all threads when a recording begins and ends",
    programs: &["on_snapshot"],
    since: Linux(5, 15),
    attached: Attached::BySession,
    without: "",
};
