//! Cost of forks of a large process, in addition to the waits for its lock.

use holdup_events::tables::FrameKind;
use holdup_findings::{Finding, analyse};
use holdup_testkit::check::trace_of_lanes;

const CLONE: i32 = 56;
const EXECVE: i32 = 59;
const KERNEL: [&str; 3] = ["dup_mmap", "exit_mmap", "load_elf_binary"];

/// F forks, and then waits for the child. A allocates memory during that time. `made` and `dropped` are
/// kernel functions: F is in the first while it forks, and C in the second before exec.
fn forking(made: &str, dropped: &str) -> Finding {
    let picture = format!(
        "@cpus 3\n@m mmap-lock\n@v child\n@child C\n@repeat 20\n\
         @samples F 0..8 {CLONE} main;fork;{made}\n\
         @samples F 8..9 user main\n\
         @samples C 8..14 {EXECVE} main;execve;{dropped}\n\
         @samples A 0..1 user start_thread;serve\n\
         @samples A 7..14 user start_thread;serve\n\
         F  000000000vvvvv  holds m 0..8\n\
         A  1mmmmmm1111111\n\
         C  .......222222.\n"
    );
    let (_, mut trace) = trace_of_lanes(&picture);
    for frame in &mut trace.frames {
        if KERNEL.contains(&frame.function.as_str()) {
            frame.kind = FrameKind::Kernel;
        }
    }
    let analysis = analyse(&trace);
    let found = analysis.findings.into_iter().find(|finding| finding.rule == "fork-pause");
    found.expect("threads stood still")
}

#[test]
fn copies_and_what_takes_them_down_go_with_the_forks() {
    let (plain, copied) = (forking("wake_up_new_task", "load_elf_binary"), forking("dup_mmap", "exit_mmap"));
    let (without, with) = (plain.gain, copied.gain);
    assert!(with.low > without.low && with.high > without.high, "without copies {without:?}, with {with:?}");
    let says = |finding: &Finding| {
        finding.summary.iter().any(|line| line.contains("to free the copies before exec"))
    };
    assert!(says(&copied) && !says(&plain));
}
