//! Checks which features work on this machine, why others do not, and the command that fixes them.
//!
//! Every check tries the feature itself. Sysctls and capabilities only serve to explain a refusal.
//! [`best_backend`] chooses the backend, which the caller may override.

mod hardware_counters;
mod programs;
mod tries;

use std::io;
use std::path::Path;

use holdup_events::recording::Backend;

use crate::bpf::uprobes;
use crate::host::{Facts, OTHER_NUMBERS, capability, is_in_first_pid_namespace};
use crate::privileges::{self, LENT, for_setcap};

pub use programs::examine_programs;
pub use tries::bpf_ready;

/// One check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The name, kebab-case.
    pub name: &'static str,
    /// How it went.
    pub ok: State,
    /// The result, a sentence without its full stop.
    pub what: String,
    /// The command that fixes it. Empty if none is needed, or none would help.
    pub remedy: String,
}

/// How a check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// The check passed.
    Ok,
    /// The ability works in part, or with less precise results.
    Degraded,
    /// The ability is missing.
    Missing,
}

/// All checks, in the order of what matters most.
const CHECKS: &[(&str, Try)] = &[
    ("bpf-programs", bpf_programs),
    ("bpf-maps", bpf_maps),
    ("kernel-types", kernel_types),
    ("pid-namespace", pid_namespace),
    ("perf-whole-machine", perf_whole_machine),
    ("perf-own-processes", perf_own_processes),
    ("perf-kernel", perf_kernel),
    ("tracepoints", tracepoints),
    ("runtime-probes", runtime_probes),
    ("hardware-counters", hardware_counters),
    ("hardware-watchpoints", hardware_watchpoints),
    ("scheduler-totals", scheduler_totals),
    ("wait-polling", wait_polling),
    ("other-users", other_users),
    ("steal-accounting", steal_accounting),
    ("kernel-symbols", kernel_symbols),
    ("debug-symbols", debug_symbols),
    ("cpu-limit", cpu_limit),
    ("memory", memory),
];

/// A check's outcome before it has its name.
type Finding = (State, String, String);

/// How a check is made.
type Try = fn(&Facts) -> Finding;

/// Runs all checks, which takes some milliseconds. Leaves nothing behind.
pub fn examine() -> Vec<Check> {
    let facts = Facts::read();
    let check = |&(name, try_it): &(&'static str, Try)| {
        let (ok, what, remedy) = try_it(&facts);
        Check { name, ok, what, remedy }
    };
    CHECKS.iter().map(check).collect()
}

/// Returns the best backend that works, and why no better one does (empty for the best one).
pub fn best_backend(checks: &[Check]) -> (Backend, String) {
    let missing = |names: &[&str]| {
        let check = checks.iter().find(|check| names.contains(&check.name) && check.ok == State::Missing)?;
        Some((check.what.as_str(), check.remedy.as_str()))
    };
    let for_bpf =
        ["bpf-programs", "bpf-maps", "kernel-types", "perf-whole-machine", "memory", "pid-namespace"];
    let Some(no_bpf) = missing(&for_bpf) else {
        return (Backend::Bpf, String::new());
    };
    match missing(&["perf-own-processes"]) {
        None => (Backend::Perf, with_remedy(no_bpf.0, no_bpf.1)),
        // Often one command mends both: it is named once.
        Some(no_perf) if no_bpf.1 == no_perf.1 => {
            (Backend::Proc, with_remedy(&format!("{}; {}", no_bpf.0, no_perf.0), no_bpf.1))
        }
        Some(no_perf) => (
            Backend::Proc,
            format!("{}; {}", with_remedy(no_bpf.0, no_bpf.1), with_remedy(no_perf.0, no_perf.1)),
        ),
    }
}

fn with_remedy(what: &str, remedy: &str) -> String {
    if remedy.is_empty() { what.to_owned() } else { format!("{what} (fix: {remedy})") }
}

fn good(what: impl Into<String>) -> Finding {
    (State::Ok, what.into(), String::new())
}

/// Finding for a refused operation, with the command that grants the capabilities.
fn refused(facts: &Facts, what: &str, error: &io::Error) -> Finding {
    let reason = match error.raw_os_error() {
        Some(libc::ENOSYS) => "this kernel does not have it".to_owned(),
        Some(libc::EPERM | libc::EACCES) => format!("not permitted{}", obstacle(facts)),
        _ => error.to_string(),
    };
    (State::Missing, format!("{what}: {reason}"), remedy_of_rights(facts))
}

/// Returns the reason for the refusal, as far as it is known.
fn obstacle(facts: &Facts) -> &'static str {
    let privileged = facts.may(capability::BPF) && facts.may(capability::PERFMON);
    match (privileged, facts.seccomp) {
        (true, 2) => ", although privileged: a seccomp filter forbids it",
        (false, 2) => ": a seccomp filter may forbid it, and cap_bpf and cap_perfmon are missing",
        (true, _) if facts.lockdown == "confidentiality" => ": the kernel is locked down",
        (true, _) => ", although privileged",
        (false, _) => ": cap_bpf and cap_perfmon are missing",
    }
}

fn remedy_of_rights(facts: &Facts) -> String {
    let possible = |bit: u32| facts.capabilities_possible >> bit & 1 == 1;
    if facts.seccomp == 2 || !possible(capability::BPF) || !possible(capability::PERFMON) {
        return in_container();
    }
    if facts.may(capability::BPF) && facts.may(capability::PERFMON) {
        return String::new();
    }
    if privileges::is_packaged() && Path::new(privileges::PRIVILEGED_COPY).exists() {
        return "sudo usermod -aG holdup \"$USER\", then log in again".to_owned();
    }
    let program =
        std::env::current_exe().map_or_else(|_| "holdup".to_owned(), |path| path.display().to_string());
    let is_plain = |letter: char| letter.is_alphanumeric() || "/._-+".contains(letter);
    let program = match program.chars().all(is_plain) {
        true => program,
        false => format!("'{}'", program.replace('\'', "'\\''")),
    };
    format!("sudo setcap {} {program}", for_setcap())
}

fn in_container() -> String {
    let added: Vec<String> = LENT.iter().map(|name| format!("--cap-add={}", name.to_uppercase())).collect();
    format!(
        "docker run --pid=host {} --security-opt seccomp=unconfined --security-opt apparmor=unconfined …",
        added.join(" ")
    )
}

fn bpf_programs(facts: &Facts) -> Finding {
    // A program that reads nothing would load all the same (LOCKDOWN_BPF_READ_KERNEL of include/linux/security.h).
    if facts.lockdown == "confidentiality" {
        let what = "the kernel is locked down (confidentiality): BPF programs may not read its memory";
        let remedy = "boot without lockdown=confidentiality";
        return (State::Missing, what.to_owned(), remedy.to_owned());
    }
    match bpf_ready() {
        Ok(()) => good("BPF programs can be loaded"),
        Err(error) => refused(facts, "loading a BPF program", &error),
    }
}

fn bpf_maps(facts: &Facts) -> Finding {
    match tries::bpf_map() {
        Ok(()) => good("BPF maps can be made"),
        Err(error) => refused(facts, "making a BPF map", &error),
    }
}

fn kernel_types(facts: &Facts) -> Finding {
    if facts.btf {
        return good("the kernel describes its types (BTF)");
    }
    let what = "the kernel does not describe its types: /sys/kernel/btf/vmlinux is not there";
    (State::Missing, what.to_owned(), "boot a kernel with CONFIG_DEBUG_INFO_BTF=y, or mount /sys".to_owned())
}

/// Kernel programs know processes by the numbers that they have for the machine.
fn pid_namespace(_: &Facts) -> Finding {
    if is_in_first_pid_namespace() {
        return good("processes have the same numbers here as for the kernel");
    }
    let remedy = "docker run --pid=host …, or hostPID: true of a pod";
    (State::Missing, OTHER_NUMBERS.to_owned(), remedy.to_owned())
}

fn perf_whole_machine(facts: &Facts) -> Finding {
    match tries::perf_cpu_clock(-1, 0, false) {
        Ok(()) => good("all CPUs can be sampled"),
        Err(error) => refused(facts, "sampling all CPUs", &error),
    }
}

fn perf_own_processes(facts: &Facts) -> Finding {
    match tries::perf_cpu_clock(0, -1, true) {
        Ok(()) => good("own processes can be sampled and their switches seen"),
        Err(error) => {
            let (state, what, remedy) = refused(facts, "perf events on own processes", &error);
            let strict = facts.perf_event_paranoid.is_some_and(|level| level > 2) && facts.seccomp != 2;
            (state, what, if strict { paranoid_remedy(1) } else { remedy })
        }
    }
}

fn perf_kernel(facts: &Facts) -> Finding {
    match tries::perf_cpu_clock(0, -1, false) {
        Ok(()) => good("samples see the kernel, and blocking threads give their stacks"),
        Err(_) if facts.perf_event_paranoid.is_some_and(|level| level > 1) => {
            let what = "samples do not see the kernel: kernel.perf_event_paranoid is above 1";
            (State::Degraded, what.to_owned(), paranoid_remedy(1))
        }
        Err(error) => {
            let (_, what, remedy) = refused(facts, "sampling the kernel", &error);
            (State::Degraded, what, remedy)
        }
    }
}

fn paranoid_remedy(level: u8) -> String {
    format!("sudo sysctl kernel.perf_event_paranoid={level}")
}

fn tracepoints(_: &Facts) -> Finding {
    match tries::tracepoint_id("sched/sched_switch") {
        Some(_) => good("tracepoint numbers can be read"),
        None => {
            let what = "tracepoint numbers cannot be read (not needed where kernel types are there)";
            (
                State::Degraded,
                what.to_owned(),
                "sudo mount -t tracefs -o mode=755 tracefs /sys/kernel/tracing".to_owned(),
            )
        }
    }
}

fn runtime_probes(facts: &Facts) -> Finding {
    const PROBED: &str =
        "functions of runtimes can be probed: stops of Go and HotSpot and waits of goroutines are recorded";
    let lacking = "stops of Go and HotSpot are known from stacks alone";
    // The form that a recording uses.
    let tried = match tries::function_probe() {
        Ok(()) if !uprobes::has_reliable_links() => tries::single_function_probe(),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => tries::single_function_probe(),
        tried => tried,
    };
    match tried {
        Ok(()) => good(PROBED),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            let what =
                format!("this kernel cannot probe functions of one process (Linux 5.15 can): {lacking}");
            (State::Degraded, what, String::new())
        }
        Err(error) if error.raw_os_error() == Some(libc::EACCES) && !facts.may(capability::SYS_ADMIN) => {
            let what = format!(
                "on this kernel probing functions of one process needs cap_sys_admin, which is missing: {lacking}"
            );
            (State::Degraded, what, "run holdup as root".to_owned())
        }
        Err(error) => {
            let (_, what, remedy) = refused(facts, "probing a function", &error);
            (State::Degraded, format!("{what}: {lacking}"), remedy)
        }
    }
}

fn hardware_counters(_: &Facts) -> Finding {
    hardware_counters::examine()
}

fn hardware_watchpoints(_: &Facts) -> Finding {
    match tries::perf_watchpoint() {
        Ok(()) => good("writers of shared cache lines can be watched"),
        Err(error) => {
            let what = format!("no hardware watchpoints: {error}: shared cache lines stay estimates");
            (State::Degraded, what, String::new())
        }
    }
}

fn scheduler_totals(_: &Facts) -> Finding {
    let own = std::process::id();
    match crate::lower::procfs::schedstat(own, own) {
        Some(_) => good("the kernel keeps run and queue times of each thread"),
        None => {
            let what = "the kernel keeps no run-queue times (/proc/PID/schedstat is empty)";
            (State::Degraded, what.to_owned(), "boot a kernel with CONFIG_SCHED_INFO=y".to_owned())
        }
    }
}

fn wait_polling(facts: &Facts) -> Finding {
    if std::fs::read("/proc/self/syscall").is_err() {
        let what = "/proc/PID/syscall cannot be read: the backends perf and proc have no wait reasons";
        return (State::Degraded, what.to_owned(), String::new());
    }
    match facts.ptrace_scope {
        Some(scope) if scope > 0 && !facts.may(capability::SYS_PTRACE) => {
            let what = "what threads wait for can be read of own children only (kernel.yama.ptrace_scope)";
            (State::Degraded, what.to_owned(), "sudo sysctl kernel.yama.ptrace_scope=0".to_owned())
        }
        _ => good("what own threads wait for can be read"),
    }
}

fn other_users(facts: &Facts) -> Finding {
    if facts.may(capability::SYS_PTRACE) && facts.may(capability::DAC_READ_SEARCH) {
        return good("other users' processes can be recorded");
    }
    let what = "only your own processes can be recorded: cap_sys_ptrace and cap_dac_read_search are missing";
    (State::Degraded, what.to_owned(), remedy_of_rights(facts))
}

fn steal_accounting(_: &Facts) -> Finding {
    match tries::steal() {
        tries::Steal::NoHypervisor => good("no hypervisor: there is no steal time"),
        tries::Steal::Reported => good("the hypervisor reports steal time"),
        tries::Steal::Silent => {
            let what = "a hypervisor is present and reported no steal time since boot: there was none, or it is not reported";
            (State::Degraded, what.to_owned(), String::new())
        }
    }
}

fn kernel_symbols(facts: &Facts) -> Finding {
    if tries::kernel_symbols_readable() {
        return good("names of kernel functions can be read");
    }
    let level =
        facts.kptr_restrict.map_or_else(String::new, |level| format!(" (kernel.kptr_restrict={level})"));
    let what = format!("names of kernel functions are hidden{level}");
    (State::Degraded, what, "sudo sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1".to_owned())
}

fn debug_symbols(_: &Facts) -> Finding {
    match std::env::var("DEBUGINFOD_URLS") {
        Ok(servers) if !servers.trim().is_empty() => good("a debuginfod server is set"),
        _ => {
            let what = "no debuginfod server: stripped binaries show addresses unless their debug packages are there";
            let remedy = "export DEBUGINFOD_URLS=https://debuginfod.elfutils.org";
            (State::Degraded, what.to_owned(), remedy.to_owned())
        }
    }
}

fn cpu_limit(facts: &Facts) -> Finding {
    let cpus = facts.host.cpus;
    match facts.cpu_limit {
        Some(limit) if limit < f64::from(cpus) => {
            let what =
                format!("the cgroup may use {limit:.2} of {cpus} CPUs: threads beyond that are throttled");
            (
                State::Degraded,
                what,
                "docker update --cpus=N CONTAINER, or systemctl set-property UNIT CPUQuota=".to_owned(),
            )
        }
        _ if facts.host.cpus_allowed < cpus => {
            let what = format!("this process may use {} of {cpus} CPUs (affinity)", facts.host.cpus_allowed);
            (State::Degraded, what, format!("taskset -c 0-{} CMD", cpus.saturating_sub(1)))
        }
        _ => good(format!("all {cpus} CPUs may be used")),
    }
}

fn memory(facts: &Facts) -> Finding {
    const RING_BYTES: u64 = 64 << 20;
    // A recording of a small program on two CPUs takes 119 MiB, or 82 MiB with a ring of 2 MiB. The kernel's
    // maps take 47 MiB of that without the ring, and exist before anything is recorded. Beyond the limit the
    // kernel kills the recorder or the program.
    const BPF_BYTES: u64 = 128 << 20;
    match facts.memory_limit_bytes {
        Some(limit) if limit < BPF_BYTES => {
            let what = format!("the cgroup may use {} MiB, recording by BPF takes about 120", limit >> 20);
            (State::Missing, what, "docker update --memory=2g CONTAINER".to_owned())
        }
        Some(limit) if limit < 8 * RING_BYTES => {
            let what =
                format!("the cgroup may use {} MiB, the recorder's ring takes 64 of them", limit >> 20);
            (State::Degraded, what, "docker update --memory=2g CONTAINER".to_owned())
        }
        _ if facts.swap_used_bytes > facts.host.memory_bytes / 10 => {
            let what = format!(
                "{} MiB are swapped out: waits for the disk may show anywhere",
                facts.swap_used_bytes >> 20
            );
            (State::Degraded, what, String::new())
        }
        _ => good("memory is not short"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &'static str, ok: State) -> Check {
        Check { name, ok, what: format!("{name} fails"), remedy: format!("repair {name}") }
    }

    #[test]
    fn the_backend_follows_what_is_missing() {
        let backend = |missing: &[&'static str]| {
            let checks: Vec<Check> = CHECKS
                .iter()
                .map(|(name, _)| check(name, if missing.contains(name) { State::Missing } else { State::Ok }))
                .collect();
            best_backend(&checks)
        };
        assert_eq!(backend(&[]), (Backend::Bpf, String::new()));
        assert_eq!(backend(&["kernel-types"]).0, Backend::Perf);
        assert_eq!(
            backend(&["bpf-maps"]),
            (Backend::Perf, "bpf-maps fails (fix: repair bpf-maps)".to_owned())
        );
        let (lowest, reason) = backend(&["bpf-programs", "perf-own-processes"]);
        assert_eq!(lowest, Backend::Proc);
        assert!(reason.contains("bpf-programs") && reason.contains("perf-own-processes"));
        assert_eq!(backend(&["memory"]).0, Backend::Perf, "else the kernel would end the recorder");
        assert_eq!(backend(&["hardware-counters"]).0, Backend::Bpf);
        assert_eq!(
            backend(&["perf-own-processes"]).0,
            Backend::Bpf,
            "the higher backend does not need the lower one"
        );
    }

    #[test]
    fn memory_is_enough_short_or_too_little() {
        let limited = |mib: u64| memory(&Facts { memory_limit_bytes: Some(mib << 20), ..Facts::default() }).0;
        assert_eq!(
            [64, 127, 128, 511].map(limited),
            [State::Missing, State::Missing, State::Degraded, State::Degraded]
        );
        assert_eq!(limited(512), State::Ok);
        assert_eq!(memory(&Facts::default()).0, State::Ok);
    }

    #[test]
    fn refusals_name_what_stands_in_the_way() {
        let denied = io::Error::from_raw_os_error(libc::EPERM);
        let ordinary = Facts { capabilities_possible: u64::MAX, ..Facts::default() };
        let (_, what, remedy) = refused(&ordinary, "x", &denied);
        assert!(what.contains("cap_bpf") && remedy.starts_with("sudo setcap"), "{what}: {remedy}");
        let root_in_container = Facts { capabilities: u64::MAX, seccomp: 2, ..Facts::default() };
        let (_, what, remedy) = refused(&root_in_container, "x", &denied);
        assert!(what.contains("seccomp") && remedy.starts_with("docker run"), "{what}: {remedy}");
        let absent = io::Error::from_raw_os_error(libc::ENOSYS);
        assert!(refused(&ordinary, "x", &absent).1.contains("does not have it"));
    }

    #[test]
    fn a_locked_down_kernel_is_named_as_the_reason() {
        let locked = |level: &str| bpf_programs(&Facts { lockdown: level.to_owned(), ..Facts::default() });
        let (state, what, _) = locked("confidentiality");
        assert!(state == State::Missing && what.contains("locked down"), "{what}");
        assert!(!locked("integrity").1.contains("locked down"), "integrity allows reads");
    }

    #[test]
    fn every_check_answers_and_names_are_unique() {
        let checks = examine();
        let mut names: Vec<&str> = checks.iter().map(|check| check.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CHECKS.len());
        assert!(checks.iter().all(|check| !check.what.is_empty()));
        assert!(checks.iter().all(|check| check.ok != State::Ok || check.remedy.is_empty()));
    }
}
