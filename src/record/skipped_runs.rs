//! Losses of events whose program the kernel skipped.

use holdup_capture::bpf::Session;
use holdup_capture::sources;

/// Sources whose programs count or follow syscalls.
const OF_CALLS: [&str; 4] = ["syscalls", "syscall-windows", "ring-operations", "ring-answers"];
/// Sources whose records are in the stream `sched`.
const OF_SCHED: [&str; 2] = ["switches", "lifecycle"];

/// Number of syscalls and io_uring operations of all processes that no BPF program counted since the programs
/// were loaded.
pub(super) fn calls(session: &Session) -> u64 {
    session.skipped_runs().iter().filter(|row| OF_CALLS.contains(&row.source)).map(|row| row.runs).sum()
}

/// Numbers of other events that no BPF program saw, each with the name of the loss. A name may occur twice.
pub(super) fn other_events(session: &Session) -> impl Iterator<Item = (&'static str, u64)> {
    let is_other = |name: &str| !OF_CALLS.contains(&name) && name != sources::PROGRAM_CALLS.name;
    let others = session.skipped_runs().into_iter().filter(move |row| is_other(row.source));
    others.map(|row| (if OF_SCHED.contains(&row.source) { "sched" } else { row.source }, row.runs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_those_of_sources() {
        for name in OF_CALLS.iter().chain(&OF_SCHED) {
            assert!(sources::ALL.iter().any(|source| source.name == *name), "{name}");
        }
    }
}
