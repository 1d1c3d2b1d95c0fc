//! Facts of the machine and of this process's rights, read once. Judging them is `doctor`'s affair.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::LazyLock;

use holdup_events::recording;

use crate::cgroup_limits::Limits;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// Data for the manifest.
    pub host: recording::Host,
    /// The kernel describes its types (`/sys/kernel/btf/vmlinux`), which BPF programs need.
    pub btf: bool,
    /// `kernel.perf_event_paranoid`. `None` if the kernel has no such sysctl.
    pub perf_event_paranoid: Option<i64>,
    /// `kernel.unprivileged_bpf_disabled`.
    pub unprivileged_bpf_disabled: Option<i64>,
    /// `kernel.kptr_restrict`.
    pub kptr_restrict: Option<i64>,
    /// `kernel.yama.ptrace_scope`.
    pub ptrace_scope: Option<i64>,
    /// `none`, `integrity` or `confidentiality`. Empty if unknown.
    pub lockdown: String,
    /// Effective capabilities of this process, one bit each.
    pub capabilities: u64,
    /// Capabilities that a file could still give it (the bounding set).
    pub capabilities_possible: u64,
    /// 0 none, 1 strict, 2 filter.
    pub seccomp: u32,
    /// Kind of container of this process (`docker`, `podman`, `kubernetes`, …), if any.
    pub container: Option<String>,
    /// CPUs' worth of time that the cgroup may use, if it is limited.
    pub cpu_limit: Option<f64>,
    /// Bytes that the cgroup may use, if it is limited.
    pub memory_limit_bytes: Option<u64>,
    /// Bytes of swap in use.
    pub swap_used_bytes: u64,
}

/// Bits of [`Facts::capabilities`].
#[allow(missing_docs, reason = "the kernel's own names")]
pub mod capability {
    pub const DAC_OVERRIDE: u32 = 1;
    pub const DAC_READ_SEARCH: u32 = 2;
    pub const KILL: u32 = 5;
    pub const SYS_PTRACE: u32 = 19;
    pub const SYS_ADMIN: u32 = 21;
    pub const SYS_NICE: u32 = 23;
    pub const SYSLOG: u32 = 34;
    pub const PERFMON: u32 = 38;
    pub const BPF: u32 = 39;
    pub const CHECKPOINT_RESTORE: u32 = 40;
}

impl Facts {
    /// Reads them. What cannot be read stays empty.
    pub fn read() -> Facts {
        let status = text("/proc/self/status");
        let memory = text("/proc/meminfo");
        let cgroup = Limits::of_process("self");
        let bytes = |field| meminfo_bytes(&memory, field).unwrap_or(0);
        Facts {
            host: host(&memory),
            btf: fs::metadata("/sys/kernel/btf/vmlinux").is_ok(),
            perf_event_paranoid: perf_event_paranoid(),
            unprivileged_bpf_disabled: sysctl("kernel/unprivileged_bpf_disabled"),
            kptr_restrict: sysctl("kernel/kptr_restrict"),
            ptrace_scope: sysctl("kernel/yama/ptrace_scope"),
            lockdown: chosen_word(&text("/sys/kernel/security/lockdown")),
            capabilities: status_hex(&status, "CapEff").unwrap_or(0),
            capabilities_possible: status_hex(&status, "CapBnd").unwrap_or(0),
            seccomp: status_field(&status, "Seccomp").and_then(|word| word.parse().ok()).unwrap_or(0),
            container: container(),
            cpu_limit: cgroup.cpus,
            memory_limit_bytes: cgroup.memory_bytes,
            swap_used_bytes: bytes("SwapTotal").saturating_sub(bytes("SwapFree")),
        }
    }

    /// Whether this process has the capability with this number, or `CAP_SYS_ADMIN`, which includes the newer
    /// ones.
    pub fn may(&self, number: u32) -> bool {
        let has = |bit: u32| self.capabilities >> bit & 1 == 1;
        let newer = matches!(number, capability::PERFMON | capability::BPF);
        has(number) || newer && has(capability::SYS_ADMIN)
    }
}

fn host(memory: &str) -> recording::Host {
    recording::Host {
        name: text("/proc/sys/kernel/hostname").trim().to_owned(),
        kernel: kernel_release(),
        cpus: online_cpus().len() as u32,
        cpus_lower_bound: false,
        cpus_allowed: cpus_allowed("self"),
        cpu_model: cpu_model(&text("/proc/cpuinfo")),
        memory_bytes: meminfo_bytes(memory, "MemTotal").unwrap_or(0),
        places: crate::topology::read(&online_cpus()),
    }
}

/// The kernel's release, such as `6.1.0-50-amd64`. Empty if it cannot be read.
pub fn kernel_release() -> String {
    text("/proc/sys/kernel/osrelease").trim().to_owned()
}

/// Id of the current boot, which differs for each boot. Empty if the kernel does not report it.
pub fn boot_id() -> String {
    text("/proc/sys/kernel/random/boot_id").trim().to_owned()
}

/// Number of CPUs that process `pid` (or `self`) may use by its affinity. 0 if it has exited.
pub fn cpus_allowed(pid: &str) -> u32 {
    let status = text(&format!("/proc/{pid}/status"));
    status_field(&status, "Cpus_allowed_list").map_or(0, |list| parse_cpu_list(list).len() as u32)
}

/// Online CPUs, ascending. At least one.
pub fn online_cpus() -> Vec<u16> {
    match parse_cpu_list(&text("/sys/devices/system/cpu/online")) {
        cpus if cpus.is_empty() => vec![0],
        cpus => cpus,
    }
}

/// CPUs that may ever be online, ascending. Includes the online ones.
pub fn possible_cpus() -> Vec<u16> {
    let online = online_cpus();
    match parse_cpu_list(&text("/sys/devices/system/cpu/possible")) {
        possible if online.iter().all(|cpu| possible.contains(cpu)) => possible,
        _ => online,
    }
}

/// The kernel describes the arguments of a tracepoint, so that a `tp_btf` program can be put on it. Takes
/// its name or a program's section (`tp_btf/NAME`).
pub fn has_tracepoint_type(section: &str) -> bool {
    static TYPES: LazyLock<Vec<u8>> =
        LazyLock::new(|| fs::read("/sys/kernel/btf/vmlinux").unwrap_or_default());
    let name = section.rsplit('/').next().unwrap_or(section);
    has_type_name(&TYPES, &format!("btf_trace_{name}"))
}

/// The names of types lie in the file as strings with a zero byte on either side.
fn has_type_name(types: &[u8], name: &str) -> bool {
    let wanted = [b"\0", name.as_bytes(), b"\0"].concat();
    types.windows(wanted.len()).any(|window| window == wanted)
}

/// Parses a list such as `0-3,7`. Invalid parts are left out.
pub fn parse_cpu_list(text: &str) -> Vec<u16> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.trim().parse::<u16>(), last.trim().parse::<u16>()) {
            cpus.extend(first..=last);
        }
    }
    cpus
}

/// Bytes of a `/proc/meminfo` field.
pub fn meminfo_bytes(meminfo: &str, field: &str) -> Option<u64> {
    let kibibytes: u64 = status_field(meminfo, field)?.strip_suffix("kB")?.trim_end().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// The value of a `Field: value` line.
pub fn status_field<'a>(status: &'a str, field: &str) -> Option<&'a str> {
    status.lines().find_map(|line| Some(line.strip_prefix(field)?.strip_prefix(':')?.trim()))
}

fn status_hex(status: &str, field: &str) -> Option<u64> {
    u64::from_str_radix(status_field(status, field)?, 16).ok()
}

/// The word in brackets of `none [integrity] confidentiality`.
pub fn chosen_word(line: &str) -> String {
    let chosen = line.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    chosen.map_or_else(String::new, |(word, _)| word.to_owned())
}

fn cpu_model(cpuinfo: &str) -> String {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"));
    line.and_then(|line| line.split_once(':')).map_or_else(String::new, |(_, name)| name.trim().to_owned())
}

fn container() -> Option<String> {
    let exists = |path: &str| fs::metadata(path).is_ok();
    if exists("/.dockerenv") {
        return Some("docker".to_owned());
    }
    if exists("/run/.containerenv") {
        return Some("podman".to_owned());
    }
    if let Ok(kind) = fs::read_to_string("/run/systemd/container") {
        return Some(kind.trim().to_owned());
    }
    container_of_cgroups(&text("/proc/1/cgroup")).map(str::to_owned)
}

/// Returns the kind of container by the cgroups of the first process.
pub fn container_of_cgroups(cgroups: &str) -> Option<&'static str> {
    const MARKS: &[(&str, &str)] = &[
        ("kubepods", "kubernetes"),
        ("/docker", "docker"),
        ("docker-", "docker"),
        ("libpod", "podman"),
        ("/lxc", "lxc"),
        ("containerd", "containerd"),
        ("garden", "garden"),
    ];
    MARKS.iter().find(|(mark, _)| cgroups.contains(mark)).map(|(_, kind)| *kind)
}

/// `kernel.perf_event_paranoid`. `None` if the kernel has no such sysctl.
pub fn perf_event_paranoid() -> Option<i64> {
    sysctl("kernel/perf_event_paranoid")
}

fn sysctl(name: &str) -> Option<i64> {
    text(&format!("/proc/sys/{name}")).trim().parse().ok()
}

fn text(path: &str) -> String {
    fs::read(path).map_or_else(|_| String::new(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// `PROC_PID_INIT_INO` of include/linux/proc_ns.h: the namespace in which the machine began.
const FIRST_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// Error text for a process in another PID namespace.
pub(crate) const OTHER_NUMBERS: &str =
    "process ids here differ from the kernel's (a PID namespace): other processes would be recorded";

/// Whether our PIDs match the kernel's. `true` if unknown.
pub(crate) fn is_in_first_pid_namespace() -> bool {
    fs::metadata("/proc/self/ns/pid").map_or(true, |own| own.ino() == FIRST_PID_NAMESPACE)
}

/// Raises the limit of open descriptors to the maximum allowed. Events need a descriptor per CPU, with the
/// `perf` backend also per thread. A program forked before keeps its own limit.
pub fn raise_descriptor_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: reads and writes one rlimit behind the pointers.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 && limit.rlim_cur < limit.rlim_max {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists() {
        assert_eq!(parse_cpu_list("0-3,7\n"), [0, 1, 2, 3, 7]);
        assert_eq!(parse_cpu_list("5"), [5]);
        assert_eq!(parse_cpu_list(""), [] as [u16; 0]);
        assert_eq!(parse_cpu_list("x,2-1,99999999,4"), [4]);
    }

    #[test]
    fn names_of_types_are_whole() {
        let types = b"\0btf_trace_a\0btf_trace_bc\0";
        assert!(has_type_name(types, "btf_trace_a") && has_type_name(types, "btf_trace_bc"));
        assert!(!has_type_name(types, "btf_trace_b") && !has_type_name(b"", "x"));
    }

    #[test]
    fn status_lines() {
        let status = "CapEff:\t000001ffffffffff\nSeccomp:\t2\nSeccomp_filters:\t1\nMemTotal:       4 kB\n";
        assert_eq!(status_field(status, "Seccomp"), Some("2"));
        assert_eq!(status_hex(status, "CapEff"), Some(0x1ff_ffff_ffff));
        assert_eq!(meminfo_bytes(status, "MemTotal"), Some(4096));
        assert_eq!(status_field(status, "Missing"), None);
        assert_eq!(chosen_word("none [integrity] confidentiality\n"), "integrity");
        assert_eq!(chosen_word("none"), "");
    }

    #[test]
    fn containers_by_cgroup() {
        assert_eq!(container_of_cgroups("0::/kubepods/besteffort/pod1/docker-2"), Some("kubernetes"));
        assert_eq!(container_of_cgroups("3:cpu:/docker/123"), Some("docker"));
        assert_eq!(container_of_cgroups("0::/init.scope"), None);
    }

    #[test]
    fn capabilities_and_this_machine() {
        let facts = Facts { capabilities: 1 << capability::SYS_ADMIN, ..Facts::default() };
        assert!(facts.may(capability::BPF) && !facts.may(capability::SYS_PTRACE));
        let facts = Facts::read();
        assert!(facts.host.cpus >= 1 && facts.host.cpus_allowed >= 1);
        assert!(!facts.host.kernel.is_empty() && facts.host.memory_bytes > 0);
    }
}
