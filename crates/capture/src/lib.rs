//! Capture: the kernel, /proc and the perf interface → raw records. The only crate that touches
//! the kernel and privileges. It records addresses and mappings, never names of symbols.

pub mod bpf;
pub mod cgroup_limits;
pub mod cpu_counts;
pub mod error;
pub mod event_opener;
pub mod launch;

pub mod doctor;
pub mod host;
pub mod lower;
pub mod mappings;
pub mod memory;
pub mod network_counts;
pub mod perf_ring;
pub mod privileges;
pub mod probe_count;
pub mod process_memory;
pub mod ring_files;
pub mod sources;
pub mod topology;
pub mod tracepoints;
pub mod watchpoints;
