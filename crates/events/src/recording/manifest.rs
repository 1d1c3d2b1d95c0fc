//! `manifest.json`: command, host, sources and cost of a recording.

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::RecordingError;
use crate::{CpuId, Timestamp};

/// Version of the format that this build writes. A reader refuses a greater one.
pub const FORMAT_VERSION: u32 = 2;

/// Metadata of a recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`FORMAT_VERSION`] of the writer.
    pub format: u32,
    /// Version of the holdup that wrote it.
    pub holdup: String,
    /// The command as given. For an attach, the target's own command line.
    pub command: Vec<String>,
    /// `run`, `attach`, `all`, `watch` or `import`.
    pub mode: String,
    /// Exit status of the command as a shell would give it, if it was run and ended.
    pub exit_status: Option<i32>,
    /// Number of the signal that ended the command, `None` if it exited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_signal: Option<i32>,
    /// Threads of the program that the recorder saw, whatever became of their events. 0 if they were not counted.
    #[serde(default)]
    pub threads_seen: u64,
    /// Maximum time by which an event reached the journal after newer events (ns). 0 if unknown.
    #[serde(default)]
    pub lag_ns: u64,
    /// The machine.
    pub host: Host,
    /// First moment of the recording (ns, CLOCK_MONOTONIC).
    pub start_ns: u64,
    /// Last moment.
    pub end_ns: u64,
    /// Unix time of `start_ns` in nanoseconds.
    pub start_unix_ns: u64,
    /// Which start of the machine it was (`/proc/sys/kernel/random/boot_id`), as long as the recording is a journal: processes and the
    /// kernel's addresses are those of one. Empty if not known, and once all is named.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub boot_id: String,
    /// Backend that recorded. Format 1 called it `rung`.
    #[serde(alias = "rung")]
    pub backend: Backend,
    /// Why a better backend is not used. Empty for the best one.
    #[serde(alias = "rung_reason")]
    pub backend_reason: String,
    /// Every source, with its state and its limits.
    pub sources: Vec<SourceState>,
    /// Cost of the recording itself.
    pub cost: Cost,
    /// Memory of the command, if holdup started it and it ended.
    #[serde(default)]
    pub memory: Option<MemoryUse>,
    /// Process id of the recorder, 0 if unknown.
    #[serde(default)]
    pub recorder_pid: u32,
    /// Recovered from the journal of a recorder that did not exit in order.
    pub recovered: bool,
    /// Interval of the on-CPU samples (ns), 0 if there were none.
    pub sample_period_ns: u64,
    /// How stacks of blocked threads were taken: `all`, `sampled`, `none`.
    pub stacks: String,
    /// Triggers that made a flight recorder save it. Empty for other recordings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fired: Vec<Fired>,
}

impl Manifest {
    /// Reads the JSON of one, which `path` has.
    ///
    /// # Errors
    /// [`RecordingError::Newer`] if a newer holdup wrote it, [`RecordingError::Manifest`] if it makes no sense.
    pub(super) fn parse(text: &[u8], path: &Path) -> Result<Manifest, RecordingError> {
        let broken = |error: serde_json::Error| RecordingError::Manifest {
            path: path.to_owned(),
            reason: error.to_string(),
        };
        let value: serde_json::Value = serde_json::from_slice(text).map_err(broken)?;
        let found = value.get("format").and_then(serde_json::Value::as_u64).unwrap_or(0);
        if found > u64::from(FORMAT_VERSION) {
            let holdup = value.get("holdup").and_then(serde_json::Value::as_str).unwrap_or("?").to_owned();
            let path = path.to_owned();
            return Err(RecordingError::Newer { path, holdup, found, known: FORMAT_VERSION });
        }
        serde_json::from_value(value).map_err(broken)
    }

    /// The recording begins at `start`. The day's clock may have been set since both clocks were read together.
    pub fn begin_at(&mut self, start: Timestamp) {
        self.start_unix_ns = self.start_unix_ns.saturating_add(start.0).saturating_sub(self.start_ns);
        self.start_ns = start.0;
    }
}

/// A trigger of a flight recorder that fired.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fired {
    /// The trigger as it was given.
    pub trigger: String,
    /// When (ns, CLOCK_MONOTONIC).
    pub at_ns: u64,
    /// Kernel thread id, 0 if none.
    pub tid: u32,
    /// Name of the thread.
    pub thread: String,
    /// The event, in words.
    pub what: String,
    /// Length of the event (ns), 0 if it has none.
    pub length_ns: u64,
}

/// Memory of a command: its process and the children that it waited for (exact, wait4(2)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryUse {
    /// Page faults for which the kernel did not read from a disk.
    pub minor_faults: u64,
    /// The most that one of the processes had in memory at a time (bytes).
    pub peak_bytes: u64,
    /// The smallest page, which is the least that a fault gives (bytes).
    pub page_bytes: u64,
}

/// The machine that was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Host name.
    pub name: String,
    /// Kernel release.
    pub kernel: String,
    /// Number of online CPUs, 0 if unknown.
    pub cpus: u32,
    /// `cpus` is a lower bound: the CPUs that events of an import name.
    #[serde(default)]
    pub cpus_lower_bound: bool,
    /// CPUs that the target may use.
    pub cpus_allowed: u32,
    /// Model of the CPU.
    pub cpu_model: String,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Topology of the CPUs, ascending by number. Empty in recordings of other tools and of older versions.
    #[serde(default)]
    pub places: Vec<CpuPlace>,
}

impl Host {
    /// Topology of a CPU, `None` if not recorded.
    pub fn place(&self, cpu: CpuId) -> Option<&CpuPlace> {
        let found = self.places.binary_search_by_key(&cpu.0, |place| place.cpu);
        found.ok().and_then(|index| self.places.get(index))
    }

    /// The memory nodes of its CPUs, ascending. Empty if they were not recorded.
    pub fn nodes(&self) -> BTreeSet<u32> {
        self.places.iter().map(|place| place.node).collect()
    }

    /// Whether `cpu` is slower than the fastest CPU of the machine (a hybrid CPU). Decided by the kernel's
    /// CPU capacity or the maximum frequency. False if not recorded.
    pub fn is_slow(&self, cpu: CpuId) -> bool {
        let Some(place) = self.place(cpu) else { return false };
        let below = |of: fn(&CpuPlace) -> u32| {
            let most = self.places.iter().map(of).max().unwrap_or(0);
            of(place) > 0 && u64::from(of(place)) * 100 < u64::from(most) * SLOW_PERCENT
        };
        below(|place| place.capacity) || below(|place| place.max_khz)
    }
}

/// A CPU is slow below this share of the fastest CPU's capacity or frequency: turbo frequencies of equal cores differ by a few percent.
const SLOW_PERCENT: u64 = 85;

/// Where a CPU is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuPlace {
    /// CPU number.
    pub cpu: u16,
    /// Memory node (NUMA), 0 on a machine without NUMA.
    pub node: u32,
    /// Package (socket).
    pub package: u32,
    /// Core number within the package. Hardware threads of a core share it.
    pub core: u32,
    /// The kernel's relative capacity, 1024 for the fastest kind of core. 0 if the kernel does not provide
    /// it.
    #[serde(default)]
    pub capacity: u32,
    /// Maximum frequency (kHz), 0 if the kernel does not provide it.
    #[serde(default)]
    pub max_khz: u32,
    /// The kernel stops its tick while one thread runs there (`nohz_full`).
    #[serde(default)]
    pub nohz_full: bool,
}

impl CpuPlace {
    /// The same for hardware threads of one core.
    pub fn core_key(&self) -> (u32, u32) {
        (self.package, self.core)
    }
}

/// How much of the kernel a recording could see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// BPF programs: every switch with its reason, every wakeup.
    #[default]
    Bpf,
    /// `perf_event_open` as an ordinary user: exact running times, no reasons, no wakers.
    Perf,
    /// Polling of /proc: all states sampled.
    Proc,
}

/// One source of the recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceState {
    /// Registry name of the source.
    pub name: String,
    /// The source delivered events.
    pub active: bool,
    /// Limits of the source, and the command that removes them. Empty if none.
    pub missing: String,
    /// Events delivered.
    pub events: u64,
    /// Events lost, exactly.
    pub lost: u64,
}

/// Cost of a recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// CPU time of the recorder's own process (ns; exact, getrusage).
    pub recorder_cpu_ns: u64,
    /// CPU time of the kernel programs, and of the interruptions by which threads are sampled (ns; mean cost of those that were
    /// timed × runs).
    pub probes_cpu_ns: u64,
    /// Standard error of `probes_cpu_ns`.
    pub probes_cpu_error_ns: u64,
    /// The part of the probes' CPU time spent on stacks of threads that block or wake others (ns). The budget
    /// limits this part.
    #[serde(default)]
    pub stacks_cpu_ns: u64,
    /// Maximum allowed cost, percent of all CPUs. 0: unlimited or unknown.
    #[serde(default)]
    pub budget_percent: f64,
    /// Context switches seen.
    pub switches: u64,
    /// Bytes of the recording on disk.
    pub bytes: u64,
    /// Peak resident memory of the recorder, bytes.
    pub recorder_memory_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_greater_format_is_a_newer_one() {
        let parse = |text: &str| Manifest::parse(text.as_bytes(), Path::new("t.holdup"));
        for format in ["3", "4294967297", "18446744073709551615"] {
            let error =
                parse(&format!(r#"{{"format": {format}, "holdup": "9.0"}}"#)).unwrap_err().to_string();
            assert!(error.contains(format) && error.contains("holdup 9.0"), "{error}");
        }
        let error = parse(r#"{"format": 1}"#).unwrap_err().to_string();
        assert!(error.contains("the manifest is damaged (missing field"), "{error}");
        let known = Manifest { format: FORMAT_VERSION, ..Manifest::default() };
        assert_eq!(parse(&serde_json::to_string(&known).unwrap()).unwrap(), known);
    }

    #[test]
    fn format_1_is_read_with_its_names_of_the_backend() {
        let recorded =
            Manifest { backend: Backend::Perf, backend_reason: "no BTF".to_owned(), ..Manifest::default() };
        let text = serde_json::to_string(&recorded).unwrap();
        assert!(text.contains(r#""backend":"perf","backend_reason":"no BTF""#), "{text}");
        let old = text.replace("\"backend", "\"rung");
        assert_eq!(Manifest::parse(old.as_bytes(), Path::new("t.holdup")).unwrap(), recorded);
    }

    #[test]
    fn slow_cores_are_those_well_below_the_fastest() {
        let host = |places: &[(u16, u32, u32)]| Host {
            places: places
                .iter()
                .map(|(cpu, capacity, max_khz)| CpuPlace {
                    cpu: *cpu,
                    capacity: *capacity,
                    max_khz: *max_khz,
                    ..CpuPlace::default()
                })
                .collect(),
            ..Host::default()
        };
        let hybrid = host(&[(0, 1024, 0), (64, 446, 0)]);
        assert!(!hybrid.is_slow(CpuId(0)) && hybrid.is_slow(CpuId(64)) && !hybrid.is_slow(CpuId(9)));
        let turbo = host(&[(0, 0, 4_900_000), (1, 0, 4_700_000), (2, 0, 3_600_000)]);
        assert!(!turbo.is_slow(CpuId(1)) && turbo.is_slow(CpuId(2)));
        assert!(!host(&[(0, 0, 0)]).is_slow(CpuId(0)));
    }

    #[test]
    fn the_begin_is_noted_by_the_clock_of_the_day_as_it_was_then() {
        let known = |start_ns, start_unix_ns| Manifest { start_ns, start_unix_ns, ..Manifest::default() };
        for (before, at, unix_ns) in [
            (known(400, 5_000_000), 1_000, 5_000_600),
            (known(400, 5_000_000), 300, 4_999_900),
            (known(400, 100), 0, 0),
        ] {
            let mut manifest = before;
            manifest.begin_at(Timestamp(at));
            assert_eq!((manifest.start_ns, manifest.start_unix_ns), (at, unix_ns));
        }
    }
}
