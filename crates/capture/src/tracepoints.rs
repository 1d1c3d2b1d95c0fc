//! A kernel tracepoint by name: reports the threads that hit it on any CPU, with the kernel's own filter on
//! its fields.

use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use holdup_events::Timestamp;

use crate::error::CaptureError;
use crate::perf_ring::records::{self, Record};
use crate::perf_ring::{self, Attr, Ring, sample};

/// `PERF_TYPE_TRACEPOINT`.
const TYPE_TRACEPOINT: u32 = 2;
const SAMPLE_TYPE: u64 = sample::TID | sample::TIME | sample::CPU;
/// Per CPU: room for two thousand hits between two reads.
const RING_BYTES: usize = 64 << 10;
/// Where the kernel shows its tracepoints.
const TRACING: [&str; 2] = ["/sys/kernel/tracing/events", "/sys/kernel/debug/tracing/events"];

/// A thread passed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// When.
    pub at: Timestamp,
    /// Which thread.
    pub tid: u32,
}

/// An open one.
pub struct Tracepoint {
    rings: Vec<Ring>,
    bytes: Vec<u8>,
}

impl Tracepoint {
    /// Opens `category:name` on each of `cpus`. `filter`: a condition on its fields in the kernel's syntax,
    /// empty for none.
    ///
    /// # Errors
    /// If the tracepoint does not exist, is not permitted, or the kernel rejects the filter.
    pub fn open(category: &str, name: &str, filter: &str, cpus: &[u16]) -> Result<Tracepoint, CaptureError> {
        let refused = |reason: String| CaptureError::Tracepoint { reason };
        let place = place(category, name)?;
        let id = std::fs::read_to_string(place.join("id")).ok().and_then(|id| id.trim().parse().ok());
        let id: u64 = id.ok_or_else(|| refused(format!("{}: no number", place.display())))?;
        let filter =
            std::ffi::CString::new(filter).map_err(|_| refused("a filter has no zero byte".to_owned()))?;
        let attr = Attr { sample_period: 1, ..Attr::new(TYPE_TRACEPOINT, id) }.carrying(SAMPLE_TYPE);
        let mut rings = Vec::with_capacity(cpus.len());
        for &cpu in cpus {
            let failed = |error: io::Error| refused(format!("{category}:{name}: {error}"));
            let fd = perf_ring::open(&attr, -1, i32::from(cpu)).map_err(failed)?;
            if !filter.is_empty() {
                const IOC_SET_FILTER: libc::Ioctl = 0x4008_2406_u32 as libc::Ioctl;
                // SAFETY: the kernel reads a text that ends in 0.
                if unsafe { libc::ioctl(fd.as_raw_fd(), IOC_SET_FILTER, filter.as_ptr()) } != 0 {
                    let fields = fields(&place).join(", ");
                    return Err(refused(format!(
                        "the kernel does not understand the condition; {category}:{name} has the fields {fields}"
                    )));
                }
            }
            rings.push(Ring::map(fd, RING_BYTES).map_err(failed)?);
        }
        Ok(Tracepoint { rings, bytes: Vec::new() })
    }

    /// Returns the hits since the last call in time order, and the number of lost ones.
    pub fn drain(&mut self) -> (Vec<Pass>, u64) {
        let (mut passes, mut lost) = (Vec::new(), 0);
        for ring in &mut self.rings {
            lost += u64::from(!ring.take(&mut self.bytes));
            for parsed in records::split(&self.bytes).filter_map(|record| records::parse(record, SAMPLE_TYPE))
            {
                match parsed.record {
                    Record::Sample(_) => {
                        passes.push(Pass { at: Timestamp(parsed.origin.at_ns), tid: parsed.origin.tid });
                    }
                    Record::Lost(events) | Record::LostSamples(events) => lost += events,
                    _ => {}
                }
            }
        }
        passes.sort_by_key(|pass| (pass.at, pass.tid));
        (passes, lost)
    }
}

/// Where the kernel shows a tracepoint.
fn place(category: &str, name: &str) -> Result<PathBuf, CaptureError> {
    let refused = |reason: String| CaptureError::Tracepoint { reason };
    let is_name = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
    };
    if !is_name(category) || !is_name(name) {
        return Err(refused(format!("'{category}:{name}' is no name of a tracepoint")));
    }
    let Some(root) = TRACING.iter().find(|root| std::fs::read_dir(root).is_ok()) else {
        return Err(refused(format!(
            "{} cannot be read: be root, and `mount -t tracefs tracefs /sys/kernel/tracing`",
            TRACING[0]
        )));
    };
    let place = PathBuf::from(root).join(category).join(name);
    if place.join("id").exists() {
        return Ok(place);
    }
    Err(refused(format!(
        "this kernel has no tracepoint {category}:{name}; /sys/kernel/tracing/available_events lists them"
    )))
}

/// Names of its fields, except those that every tracepoint has.
fn fields(place: &std::path::Path) -> Vec<String> {
    let format = std::fs::read_to_string(place.join("format")).unwrap_or_default();
    let field = |line: &str| {
        let declared = line.trim().strip_prefix("field:")?.split(';').next()?;
        let name = declared.split_whitespace().next_back()?.trim_start_matches('*');
        (!name.starts_with("common_")).then(|| name.split('[').next().unwrap_or(name).to_owned())
    };
    format.lines().filter_map(field).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_no_path() {
        let refused = |category, name| place(category, name).err().map(|error| error.to_string());
        for (category, name) in [("..", "x"), ("sched", "../sched"), ("", "x"), ("a/b", "c")] {
            assert!(
                refused(category, name).is_some_and(|error| error.contains("is no name")),
                "{category}:{name}"
            );
        }
    }

    /// As far as this kernel allows it: a matching call is reported, another is filtered.
    #[test]
    fn matching_passes_are_reported_and_filtered_ones_are_not() {
        let cpus = crate::host::online_cpus();
        let open = |filter: &str| Tracepoint::open("syscalls", "sys_enter_getpriority", filter, &cpus);
        let (mut all, mut none) = match (open(""), open("which == 77")) {
            (Ok(all), Ok(none)) => (all, none),
            (Err(error), _) | (_, Err(error)) => return println!("skipped: {error}"),
        };
        // SAFETY: asks for a number.
        unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
        // SAFETY: as above.
        let tid = unsafe { libc::gettid() } as u32;
        assert_eq!(all.drain().0.iter().filter(|pass| pass.tid == tid).count(), 1);
        assert_eq!(none.drain(), (Vec::new(), 0));
        let error = open("no_such_field == 1").err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("which, who"), "{error}");
    }
}
