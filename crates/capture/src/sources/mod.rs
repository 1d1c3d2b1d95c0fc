//! The sources of the `bpf` backend: the BPF programs of each one, and the data that is missing without it.
//!
//! A new source needs one file here, one word in the list below, and its programs in `bpf/`.

/// Description of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// Kebab-case id, for ever: recordings name it.
    pub name: &'static str,
    /// One line, no full stop.
    pub summary: &'static str,
    /// The programs in the object of `bpf/`.
    pub programs: &'static [&'static str],
    /// The first kernel that has the tracepoints and helper functions that its programs use.
    pub since: Linux,
    /// How its programs come to run.
    pub attached: Attached,
    /// The data that a recording lacks without it. Empty if no recording is possible without it.
    pub without: &'static str,
}

/// A version of the kernel: major and minor number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Linux(pub u32, pub u32);

impl std::fmt::Display for Linux {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}.{}", self.0, self.1)
    }
}

/// How programs come to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attached {
    /// At the tracepoint in their section, for the whole recording.
    Throughout,
    /// The same, if the user asks for it.
    OnDemand,
    /// At functions of a library that is loaded into the program, if the user asks for it.
    AtMarkers,
    /// At functions of the programs, as these are met.
    AtFunctions,
    /// By the session itself: on perf events, once for a snapshot, or for short windows.
    BySession,
}

impl Source {
    /// There is no recording without it.
    pub fn required(&self) -> bool {
        self.without.is_empty()
    }
}

macro_rules! sources {
    ($($module:ident,)*) => {
        $(mod $module;)*

        /// Every source.
        pub static ALL: &[Source] = &[$($module::SOURCE,)*];
    };
}

sources! {
    switches,
    wakeup_contexts,
    mmap_lock,
    lifecycle,
    program_calls,
    cpu_samples,
    snapshot,
    blocked_stacks,
    page_faults,
    shootdowns,
    huge_pages,
    reclaims,
    syscall_windows,
    syscalls,
    ring_operations,
    ring_answers,
    allocations,
    runtime_probes,
    task_waits,
}

/// The name of the source of allocations.
pub const ALLOCATIONS: &str = allocations::SOURCE.name;
/// The name of the source of runtimes' spans.
pub const RUNTIME_PROBES: &str = runtime_probes::SOURCE.name;
/// The name of the source of waits of runtimes' tasks.
pub const TASK_WAITS: &str = task_waits::SOURCE.name;

/// The name of the source of CPU samples.
pub const CPU_SAMPLES: &str = cpu_samples::SOURCE.name;
/// The trial of what every program costs.
pub static PROGRAM_CALLS: Source = program_calls::SOURCE;
/// The name of the source of page faults.
pub const PAGE_FAULTS: &str = page_faults::SOURCE.name;

/// The source that a kernel program belongs to.
pub fn of_program(program: &str) -> Option<&'static Source> {
    ALL.iter().find(|source| source.programs.contains(&program))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The programs that the C sources define: `SEC("…") int NAME(` and the macros that make them.
    fn programs_in_c() -> Vec<String> {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bpf");
        let mut programs = Vec::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
            for line in text.lines() {
                let starts = ["int BPF_PROG(", "CONTEXT_PROGRAM(", "int "];
                let name = starts.iter().find_map(|start| line.strip_prefix(start)).unwrap_or_default();
                let name = name.split([',', '(', ')']).next().unwrap_or_default();
                if name.starts_with("on_") {
                    programs.push(name.to_owned());
                }
            }
        }
        programs
    }

    #[test]
    fn every_program_belongs_to_one_source_and_every_name_to_one_program() {
        let in_c = programs_in_c();
        assert!(in_c.len() > 10, "{in_c:?}");
        for program in &in_c {
            let owners = ALL.iter().filter(|source| source.programs.contains(&program.as_str()));
            assert_eq!(owners.count(), 1, "{program}");
        }
        for source in ALL {
            for program in source.programs {
                assert!(in_c.iter().any(|name| name == program), "{program} of {}", source.name);
            }
        }
    }

    #[test]
    fn names_are_kebab_case_and_unique() {
        for source in ALL {
            assert!(source.name.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{}", source.name);
            assert_eq!(ALL.iter().filter(|other| other.name == source.name).count(), 1, "{}", source.name);
            assert!(!source.summary.ends_with('.'));
        }
    }
}
