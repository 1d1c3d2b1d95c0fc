//! Syscalls: where they ran (sampled) and blocked (exact), and how often they were called (counted in windows).

use std::cmp::Reverse;
use std::collections::BTreeMap;

use holdup_events::tables::ThreadState;
use holdup_events::{ThreadId, Trace};

use super::ledger::Ledger;
use super::parallel;
use super::split::share_error;
use super::syscall_names::syscall_name;
use super::syscall_rates::{self, CallRate, SyscallRates};

/// One syscall number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SyscallUse {
    /// Number of the syscall. -1 for page faults and other exceptions.
    pub number: i32,
    /// Name of the syscall.
    pub name: &'static str,
    /// On-CPU samples inside it.
    pub samples: u64,
    /// Estimated CPU time in it (ns).
    pub cpu_ns: u64,
    /// Half the width of the 95 % interval of `cpu_ns`.
    pub cpu_error_ns: u64,
    /// Number of times a thread blocked in it (exact).
    pub blocked: u64,
    /// Total blocked time (ns, exact).
    pub blocked_ns: u64,
    /// Call rate. `None` if no window has a call.
    pub rate: Option<CallRate>,
    /// Estimated CPU time per call. `None` if the time or the rate is unknown.
    pub call: Option<CallTime>,
}

/// CPU time of a call, on average.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CallTime {
    /// Estimate (ns).
    pub cpu_ns: u64,
    /// Half the width of its 95 % confidence interval. `None` if the error of the rate is unknown.
    pub error_ns: Option<u64>,
}

impl CallTime {
    /// CPU time (sampled) over calls (counted in windows), of a recording of `wall_ns`.
    fn estimate(syscall: &SyscallUse, wall_ns: u64) -> Option<CallTime> {
        let (calls, error) = syscall.rate?.calls_in(wall_ns);
        if calls <= 0.0 || syscall.samples == 0 {
            return None;
        }
        let cpu_ns = syscall.cpu_ns as f64 / calls;
        let of_cpu = syscall.cpu_error_ns as f64 / calls;
        let error_ns = error.map(|error| of_cpu.hypot(cpu_ns * error / calls).round() as u64);
        Some(CallTime { cpu_ns: cpu_ns.round() as u64, error_ns })
    }
}

/// Derives it for every syscall seen, the costliest (CPU + blocked) first.
pub fn derive(trace: &Trace) -> Vec<SyscallUse> {
    derive_with(trace, &super::ledger::derive(trace), &syscall_rates::derive(trace))
}

/// Derives it from the ledger, whose running time the samples are scaled to, and the counted calls.
pub fn derive_with(trace: &Trace, ledger: &Ledger, rates: &SyscallRates) -> Vec<SyscallUse> {
    let mut by_number: BTreeMap<i32, SyscallUse> = BTreeMap::new();
    for sample in trace.samples.iter().filter(|sample| sample.in_kernel && sample.syscall >= -1) {
        if trace.threads.get(sample.thread.index()).is_some_and(|thread| thread.target) {
            by_number.entry(sample.syscall).or_default().samples += 1;
        }
    }
    for (number, blocked, blocked_ns) in blocked(trace) {
        let syscall = by_number.entry(number).or_default();
        syscall.blocked += blocked;
        syscall.blocked_ns += blocked_ns;
    }
    for (number, rate) in &rates.by_number {
        by_number.entry(*number).or_default().rate = Some(*rate);
    }
    let running = ledger.running_ns() as f64;
    let mut all: Vec<SyscallUse> = Vec::with_capacity(by_number.len());
    for (number, mut syscall) in by_number {
        syscall.number = number;
        syscall.name = syscall_name(number);
        if syscall.samples > 0 && ledger.samples > 0 {
            syscall.cpu_ns = (running * syscall.samples as f64 / ledger.samples as f64).round() as u64;
            syscall.cpu_error_ns = (running * share_error(syscall.samples, ledger.samples)).round() as u64;
        }
        syscall.call = CallTime::estimate(&syscall, trace.wall().0);
        all.push(syscall);
    }
    all.sort_by_key(|syscall| (Reverse(syscall.cpu_ns + syscall.blocked_ns), syscall.number));
    all
}

/// Number, times and time (ns) of blocking in each syscall that is known.
fn blocked(trace: &Trace) -> Vec<(i32, u64, u64)> {
    let groups = parallel::thread_groups(trace);
    let parts = parallel::map(groups.len(), |group| {
        let mut by_wait = vec![(0u64, 0u64); trace.waits.len()];
        for thread in groups[group].clone().map(ThreadId).filter(|id| trace.threads[id.index()].target) {
            for slice in trace.slices.of_thread(thread).filter(|slice| slice.state == ThreadState::Blocked) {
                if let Some((times, time)) = by_wait.get_mut(slice.wait.index()) {
                    *times += 1;
                    *time += slice.duration().0;
                }
            }
        }
        by_wait
    });
    let mut all = Vec::new();
    for (wait, row) in trace.waits.iter().enumerate().skip(1) {
        let times = parts.iter().map(|part| part[wait].0).sum();
        let time = parts.iter().map(|part| part[wait].1).sum();
        if wait_has_syscall(row.syscall) && times > 0 {
            all.push((row.syscall, times, time));
        }
    }
    all
}

fn wait_has_syscall(number: i32) -> bool {
    number >= -1
}
