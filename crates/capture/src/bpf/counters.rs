//! Hardware counters: an event of each CPU for each, which the sampling program reads (`bpf/counters.h`).

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;

use libbpf_rs::{MapCore, MapFlags, Object};

use crate::error::CaptureError;
use crate::perf_ring::{self, Attr, TYPE_HARDWARE, TYPE_SOFTWARE, flag};

/// Maximum number of counters, as `WIRE_COUNTERS_MAX` in `bpf/wire.h`.
pub const COUNTERS_MAX: usize = 4;

/// A counter, by perf's name for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// As perf has it.
    pub name: &'static str,
    kind: u32,
    config: u64,
}

/// `enum perf_hw_id` and `enum perf_sw_ids` of include/uapi/linux/perf_event.h. The kernel counts the latter itself, everywhere.
const ALL: [Counter; 16] = [
    hardware("cycles", 0),
    hardware("instructions", 1),
    hardware("cache-references", 2),
    hardware("cache-misses", 3),
    hardware("branches", 4),
    hardware("branch-misses", 5),
    hardware("bus-cycles", 6),
    hardware("stalled-cycles-frontend", 7),
    hardware("stalled-cycles-backend", 8),
    hardware("ref-cycles", 9),
    software("cpu-clock", 0),
    software("page-faults", 2),
    software("minor-faults", 5),
    software("major-faults", 6),
    software("alignment-faults", 7),
    software("emulation-faults", 8),
];

/// The default counters: the speed of execution. No running code leaves these at zero.
pub const USUAL: [&str; 2] = ["cycles", "instructions"];

const fn hardware(name: &'static str, config: u64) -> Counter {
    Counter { name, kind: TYPE_HARDWARE, config }
}

const fn software(name: &'static str, config: u64) -> Counter {
    Counter { name, kind: TYPE_SOFTWARE, config }
}

impl Counter {
    /// By its name.
    pub fn named(name: &str) -> Option<Counter> {
        ALL.into_iter().find(|counter| counter.name == name)
    }

    /// The names of all.
    pub fn names() -> impl Iterator<Item = &'static str> {
        ALL.into_iter().map(|counter| counter.name)
    }

    /// Returns the CPU's own counters, in the order of `PERF_COUNT_HW_*`.
    pub(crate) fn of_hardware() -> impl Iterator<Item = Counter> {
        ALL.into_iter().filter(|counter| counter.kind == TYPE_HARDWARE)
    }

    /// How often it happened in this thread's own code while a loop of some microseconds ran.
    pub(crate) fn tried(self) -> io::Result<u64> {
        let attr = Attr::new(self.kind, self.config).with(flag::EXCLUDE_KERNEL | flag::EXCLUDE_HV);
        let mut file = File::from(perf_ring::open(&attr, 0, -1)?);
        for turn in 0..10_000u32 {
            std::hint::black_box(turn);
        }
        let mut value = [0; 8];
        file.read_exact(&mut value)?;
        Ok(u64::from_ne_bytes(value))
    }

    fn open(self, cpu: u16) -> io::Result<File> {
        perf_ring::open(&Attr::new(self.kind, self.config), -1, i32::from(cpu)).map(File::from)
    }

    /// Whether it counts on this machine.
    ///
    /// # Errors
    /// Why it does not, with what to do about it.
    pub fn check(self) -> Result<(), String> {
        let cpu = crate::host::online_cpus().into_iter().next().unwrap_or(0);
        self.open(cpu).map_err(|error| self.reason(&error))?;
        match self.tried() {
            // Some virtual machines have it, and leave it at zero.
            Ok(0) if USUAL.contains(&self.name) => {
                Err(format!("this machine has {} and does not count: see holdup doctor", self.name))
            }
            _ => Ok(()),
        }
    }

    fn reason(self, error: &io::Error) -> String {
        let name = self.name;
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV | libc::EINVAL) => format!(
                "this machine does not count {name}: usual in virtual machines; one with its CPUs' counters (bare metal, or an \
                 instance type that passes them on) does"
            ),
            Some(libc::EACCES | libc::EPERM) => {
                format!("counting {name} is not allowed: run as root, or with CAP_PERFMON")
            }
            Some(libc::EMFILE) => format!("{name}: too many open files: raise the limit (ulimit -n)"),
            _ => format!("{name}: {error}"),
        }
    }
}

/// Events of every CPU that was online when they were opened. They are closed when this value is dropped.
pub(super) struct Counters {
    events: Vec<File>,
}

/// Begins to count on every CPU. Their order is that of the values in records.
pub(super) fn start(object: &Object, counters: &[Counter]) -> Result<Counters, CaptureError> {
    let mut all = Counters { events: Vec::new() };
    all.add(object, counters, &crate::host::online_cpus())?;
    Ok(all)
}

impl Counters {
    /// Begins to count on these CPUs.
    pub fn add(&mut self, object: &Object, counters: &[Counter], cpus: &[u16]) -> Result<(), CaptureError> {
        let map = object.maps().find(|map| map.name() == "counter_events");
        let map = map.ok_or_else(|| CaptureError::Refused { reason: "no map counter_events".to_owned() })?;
        for cpu in cpus {
            for (nth, counter) in counters.iter().take(COUNTERS_MAX).enumerate() {
                let event = counter
                    .open(*cpu)
                    .map_err(|error| CaptureError::Refused { reason: counter.reason(&error) })?;
                let place = u32::from(*cpu) * COUNTERS_MAX as u32 + nth as u32;
                map.update(&place.to_ne_bytes(), &event.as_raw_fd().to_ne_bytes(), MapFlags::ANY)
                    .map_err(|error| CaptureError::Refused { reason: super::messages::reason(&error) })?;
                self.events.push(event);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_perfs_and_each_is_another_event() {
        for (at, one) in ALL.iter().enumerate() {
            assert_eq!(Counter::named(one.name), Some(*one));
            assert!(ALL[at + 1..].iter().all(|other| (other.kind, other.config) != (one.kind, one.config)));
        }
        assert_eq!(Counter::named("no-such-counter"), None);
        assert!(USUAL.iter().all(|name| Counter::named(name).is_some()));
    }

    #[test]
    fn missing_counters_are_reported_with_a_remedy() {
        let cycles = Counter::named("cycles").unwrap();
        let of = |error| cycles.reason(&io::Error::from_raw_os_error(error));
        assert!(of(libc::ENOENT).contains("virtual machines"));
        assert!(of(libc::EACCES).contains("CAP_PERFMON"));
    }
}
