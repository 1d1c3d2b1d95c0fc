//! `perf.data`: the output of `perf record` and `perf sched record` (little-endian, not written to a pipe).
//!
//! Imported are samples of one time-like event with call chains, context switches (sched tracepoints or
//! context-switch records), wakeups, names, forks, exits, mappings and losses. Not imported are other
//! counters, branch stacks, AUX traces and compressed files. No library is used, because on damaged files a
//! candidate panicked, and allocated as much as a length field claims.

mod attributes;
mod layout;
mod records;
mod samples;
mod tracepoints;

use holdup_events::recording::{Backend, Host, SourceState};

use holdup_events::{CpuId, Event, Loss, Timestamp};

use self::attributes::{Clock, Use};
use self::layout::{Feature, Layout};
use self::records::File;
use super::{Facts, Info, ReadError, Reader, Wanted};
use crate::imported::{Bytes, ImportSummary, Kernel, SAMPLES, SWITCHES, retell};

/// The format.
pub struct Format;

impl Reader for Format {
    fn info(&self) -> Info {
        Info { name: "perf-data", summary: "perf.data, as perf record and perf sched record write it" }
    }

    fn recognises(&self, bytes: &[u8]) -> bool {
        bytes.starts_with(b"PERFILE2") || bytes.starts_with(b"2ELIFREP") || bytes.starts_with(b"PERFFILE")
    }

    fn read(&self, bytes: &[u8], wanted: &Wanted, sink: &mut dyn FnMut(Event)) -> Result<Facts, ReadError> {
        let layout = Layout::parse(bytes)?;
        let file = File::open(layout)?;
        let mut first = true;
        let summary = retell(&file, wanted, &mut |event| {
            // The first pass over the file is complete here.
            if std::mem::take(&mut first) && file.user_stacks() > 0 {
                sink(Event::Loss(not_unwound(&file, event.at())));
            }
            sink(event);
        })?;
        Ok(facts(&file, &summary))
    }
}

/// User stacks were copied to be unwound later, but without registers of x86-64: their callers are missing.
fn not_unwound(file: &File<'_>, start: Timestamp) -> Loss {
    Loss {
        source: "user-stacks".to_owned(),
        reason: "not-unwound".to_owned(),
        cpu: CpuId::NONE,
        start,
        end: file.last().max(start),
        events: file.user_stacks(),
    }
}

fn facts(file: &File<'_>, summary: &ImportSummary) -> Facts {
    let layout = &file.layout;
    let samples_missing = samples_missing(file, summary);
    let mut sources = vec![SourceState {
        name: SAMPLES.to_owned(),
        active: summary.samples > 0,
        missing: samples_missing,
        events: summary.samples,
        lost: summary.losses().0,
    }];
    sources.push(SourceState {
        name: SWITCHES.to_owned(),
        active: summary.switched,
        missing: summary.switches_missing(
            "no context switches: record them with perf sched record, or perf record --switch-events",
        ),
        events: summary.switches + summary.wakeups,
        lost: summary.losses().1,
    });
    Facts {
        host: host(layout),
        command: layout.strings(Feature::CommandLine),
        span: summary.span,
        backend: if summary.switched { Backend::Perf } else { Backend::Proc },
        limits: summary.limits("perf.data"),
        sample_period_ns: summary.sample_period_ns,
        sources,
        names: None,
        kernel: Kernel { text_address: file.kernel_text(), build_id: layout.kernel_build_id() },
    }
}

/// Description of the data missing in the samples.
fn samples_missing(file: &File<'_>, summary: &ImportSummary) -> String {
    let mut missing = Vec::new();
    if summary.samples == 0 {
        missing.push("no samples of a clock or of cycles".to_owned());
    }
    if summary.is_untimed() {
        missing
            .push("its samples are not proportional to time: running times cannot be estimated".to_owned());
    } else if summary.periods_vary {
        missing.push("its samples represent unequal times, counted as equal".to_owned());
    }
    if file.other_samples() > 0 {
        missing.push(format!("{} samples of other events are left out", file.other_samples()));
    }
    if file.user_stacks() > 0 {
        missing.push(format!(
            "{} user stacks lack registers of x86-64 and are not unwound: only their leaf is kept",
            file.user_stacks()
        ));
    }
    missing.join("; ")
}

fn host(layout: &Layout<'_>) -> Host {
    let number = |feature| layout.feature(feature).map(Bytes);
    let cpus = number(Feature::CpuCount).and_then(|mut bytes| {
        let available = bytes.u32()?;
        Some(bytes.u32().filter(|online| *online > 0).unwrap_or(available))
    });
    let cpus = cpus.unwrap_or(0).min(8192);
    Host {
        name: layout.string(Feature::HostName),
        kernel: layout.string(Feature::KernelRelease),
        cpus,
        cpus_lower_bound: false,
        cpus_allowed: cpus,
        cpu_model: layout.string(Feature::CpuModel),
        // The file has KiB.
        memory_bytes: number(Feature::Memory)
            .and_then(|mut bytes| bytes.u64())
            .unwrap_or(0)
            .saturating_mul(1024),
        places: Vec::new(),
    }
}

/// CPU time that a sample of an event with this period represents (ns), 0 if unknown.
fn period_ns(use_: &Use, period: u64) -> u64 {
    match use_ {
        Use::Samples(Clock::Nanoseconds) => period,
        Use::Samples(Clock::Frequency(hz)) => 1_000_000_000 / (*hz).max(1),
        _ => 0,
    }
}

#[cfg(test)]
#[path = "perf_data/tests.rs"]
mod tests;
