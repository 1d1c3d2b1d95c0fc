//! Pages that the kernel puts together into huge ones (`bpf/paging.h`).

use super::{Attached, Linux, Source};

/// See the module.
pub const SOURCE: Source = Source {
    name: "huge-pages",
    summary: "pages of a process that the kernel puts together into huge ones",
    programs: &["on_huge_page"],
    since: Linux(5, 15),
    attached: Attached::Throughout,
    without: "it is not known when pages become huge ones",
};
