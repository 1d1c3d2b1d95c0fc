//! Syscalls: where they ran (sampled) and blocked (exact).

use holdup_events::Trace;

/// One syscall number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SyscallUse {
    /// Its number; -1 for page faults and other exceptions.
    pub number: i32,
    /// Its name.
    pub name: &'static str,
    /// On-CPU samples inside it.
    pub samples: u64,
    /// Estimated CPU time in it (ns).
    pub cpu_ns: u64,
    /// One standard error of `cpu_ns`.
    pub cpu_error_ns: u64,
    /// How often a thread blocked in it (exact).
    pub blocked: u64,
    /// How long (ns, exact).
    pub blocked_ns: u64,
}

/// Derives it for every syscall seen, the costliest (CPU + blocked) first.
pub fn derive(_trace: &Trace) -> Vec<SyscallUse> {
    Vec::new()
}
