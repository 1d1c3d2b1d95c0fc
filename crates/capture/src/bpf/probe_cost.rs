//! What the kernel programs cost: the kernel times them itself (`BPF_ENABLE_STATS`) in short
//! windows, because timing costs about as much as a small program. Mean time a run × runs.

use std::os::fd::{FromRawFd, OwnedFd};

use libbpf_rs::Object;

use super::session::Counters;

/// CPU time of the kernel programs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProbeCost {
    /// Estimate (ns).
    pub total_ns: f64,
    /// One standard error, from the scatter between windows (ns).
    pub error_ns: f64,
    /// Mean of one record (ns).
    pub per_record_ns: f64,
}

/// Runs and time of all programs, as the kernel counted while stats were on.
#[derive(Clone, Copy, Debug, Default)]
struct Reading {
    run_ns: u64,
    records: u64,
}

/// Switches the kernel's timing on and off, and keeps one mean a window.
pub struct ProbeMeter {
    window: Option<(OwnedFd, Reading)>,
    /// (nanoseconds, records) of each window.
    windows: Vec<(f64, f64)>,
}

impl ProbeMeter {
    /// Off.
    pub fn new(_object: &Object) -> ProbeMeter {
        ProbeMeter { window: None, windows: Vec::new() }
    }

    /// Opens a window, or closes the open one.
    pub fn toggle(&mut self, object: &Object) {
        let now = read(object);
        if let Some((stats, before)) = self.window.take() {
            drop(stats);
            let records = now.records.saturating_sub(before.records);
            if records > 0 {
                self.windows.push((now.run_ns.saturating_sub(before.run_ns) as f64, records as f64));
            }
            return;
        }
        let descriptor = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
        if descriptor >= 0 {
            self.window = Some((unsafe { OwnedFd::from_raw_fd(descriptor) }, now));
        }
    }

    /// The estimate for `counters` records in all: the ratio of time to records over the windows,
    /// with the ratio estimator's standard error (Cochran, Sampling Techniques, §6.4).
    pub fn cost(&mut self, object: &Object, counters: &Counters) -> ProbeCost {
        if self.window.is_some() {
            self.toggle(object);
        }
        let all_records: u64 = counters.records.iter().sum();
        let (ns, records) =
            self.windows.iter().fold((0.0, 0.0), |sum, window| (sum.0 + window.0, sum.1 + window.1));
        if records <= 0.0 {
            return ProbeCost::default();
        }
        let mean = ns / records;
        let count = self.windows.len() as f64;
        let scatter: f64 = self.windows.iter().map(|(ns, records)| (ns - mean * records).powi(2)).sum();
        let error = if count > 1.0 {
            (scatter / (count - 1.0) / count).sqrt() / (records / count)
        } else {
            mean // one window says nothing about the scatter
        };
        let total = all_records as f64;
        ProbeCost { total_ns: mean * total, error_ns: error * total, per_record_ns: mean }
    }
}

fn read(object: &Object) -> Reading {
    let mut reading = Reading::default();
    for program in object.progs_mut() {
        let mut info = libbpf_sys::bpf_prog_info::default();
        let mut length = size_of::<libbpf_sys::bpf_prog_info>() as u32;
        use std::os::fd::{AsFd, AsRawFd};
        let failed = unsafe {
            libbpf_sys::bpf_prog_get_info_by_fd(program.as_fd().as_raw_fd(), &mut info, &mut length)
        };
        if failed == 0 {
            reading.run_ns += info.run_time_ns;
        }
    }
    reading.records = super::session::records_so_far(object).iter().sum();
    reading
}
