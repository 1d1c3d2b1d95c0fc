//! # mapped-file-faults: threads wait for the disk at pages of mapped files
//!
//! ## Symptoms
//! Page faults that read from a disk, as the kernel counts them, the threads' wait time in them, and their
//! kernel time (sampled). For sampled faults it sees the function that touched the page, and the order of the
//! addresses.
//!
//! ## Why it hurts
//! A thread that touches a page of a mapped file that is not in memory waits until the disk has read it. The
//! thread cannot send another request during that time, and no call in the program shows the wait. For
//! sequential access the kernel reads ahead, by default 128 KiB at a time, so that one fault in 32 waits.
//! Without readahead, each page is its own request: a hundred times as many, each with its round trip to the
//! disk.
//!
//! ## How it decides
//! There must be a thousand such faults or more, and they must be most of all faults. Or threads must have
//! waited in faults for a tenth of the run or more (data that is read ahead also comes from the disk). The
//! upper bound of the gain removes the waits for faults and their kernel time. The lower bound is 0, because
//! the data must be read once, and the disk's speed is not known. If most faults follow the previous one by
//! two pages or less, readahead is not effective. Then the finding is likely, otherwise a hint. There is no
//! finding if memory is short and the data had been in memory before (`memory-reclaim`).
//!
//! ## What to do
//! For sequential access: no `MADV_RANDOM` on that mapping, and a `read_ahead_kb` of the device that is not
//! 0. Use `MADV_SEQUENTIAL`, `MADV_WILLNEED` or `MADV_POPULATE_READ` for the next data, or `read()` in large
//! pieces. For random access: request many pages at once (`MADV_WILLNEED` for a list of them, io_uring, more
//! threads). Or place data together that is used together, or load all of it before (`MAP_POPULATE`, reading
//! the file once from end to end).
//!
//! ## Blind spots
//! Faults are sampled, so the order is that of the sampled faults. Swap counts as a file here. Unused
//! readahead is not seen. Network file systems count as disks.
//!
//! ## References
//! madvise(2). Linux `mm/filemap.c` (do_sync_mmap_readahead). Crotty, Leis, Pavlo: Are you sure you want to
//! use MMAP in your database management system? (CIDR 2022).

use holdup_events::WaitReason;
use holdup_events::tables::{Slice, ThreadState};

use super::memory_reclaim;
use crate::charge::Charge;
use crate::derive::fault_order::{self, FaultOrder};
use crate::derive::paging::Paging;
use crate::derive::services::Service;
use crate::finding::{About, Confidence, Finding, Gain};
use crate::rule::{Charged, ChargedVerdict, Estimate, Info, Rule};
use crate::scene::{GAIN_MIN, Scene};
use crate::wording::{bytes, count, percent, rounded, time};

pub(super) static INFO: Info = Info {
    estimate: Estimate::Computed,
    ..Info::new("mapped-file-faults", "Threads wait for the disk in page faults on mapped files")
};

/// A program that starts has some hundreds: its own files.
const FAULTS_MIN: u64 = 1000;
/// Fewer are hardly what a program waits for, ...
const READS_MIN: u64 = 20;
/// ... and minimum share of the run that its threads wait in faults in total, to be reported.
const WAITS_MIN: f64 = 0.1;
/// Minimum share of ascending faults, for a file that is read in order.
const UPWARDS_MIN: f64 = 0.7;
/// Maximum distance of sequential faults in pages without readahead. With readahead, faults are 32 pages
/// apart.
const PAGES_MAX: f64 = 2.0;
/// Functions that are named.
const SITES_MAX: usize = 2;

pub(super) struct MappedFileFaults;

impl Rule for MappedFileFaults {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        scene.needs_wait_reasons()?;
        let paging = &scene.derived.paging;
        if !paging.counted || memory_reclaim::is_short(paging) {
            return Ok(Vec::new());
        }
        let charge = Charge::matching(scene.trace, |slice| is_for_a_page(scene, slice));
        let waits_long = paging.all.major >= READS_MIN && scene.of_wall(charge.ns() as f64) >= WAITS_MIN;
        if !is_of_files(paging) && !waits_long {
            return Ok(Vec::new());
        }
        let stall = scene.stall(&charge);
        let waits = scene.gain_whoever_ran(&stall, |_, _| 0.0);
        let running = scene.derived.services.get(&Service::Fault);
        let ran = running.map_or(0.0, |faults| scene.gain(&faults.stall, |_, ns| ns).high);
        let gain = Gain { low: 0.0, high: (waits.high + ran).min(1.0) };
        if gain.high < GAIN_MIN {
            return Ok(Vec::new());
        }
        let order = fault_order::derive(scene.trace);
        let waited_ns = charge.ns();
        let ran_ns = running.map_or(0, |faults| faults.ns);
        let finding = Finding {
            rule: INFO.name,
            about: About::Other,
            subject: paging.sites.iter().max_by_key(|site| site.major).map_or_else(
                || "mapped files".to_owned(),
                |site| format!("mapped files touched in {}", site.function),
            ),
            summary: summary(scene, order, (&charge, waited_ns)),
            cost_ns: waited_ns + ran_ns,
            gain,
            likely: None,
            confidence: scene.confidence(match order {
                Some(order) if is_page_after_page(order) => Confidence::Medium,
                _ => Confidence::Low,
            }),
            evidence: scene.longest_of(&charge, |_| "waits for a page that is not in memory".to_owned()),
            advice: advice(order),
        };
        Ok(vec![Charged { finding, charge }])
    }
}

/// Most faults had a disk read, and they are many.
pub(super) fn is_of_files(paging: &Paging) -> bool {
    paging.all.major >= FAULTS_MIN && paging.all.major > paging.all.minor
}

fn is_for_a_page(scene: &Scene, slice: &Slice) -> bool {
    slice.state == ThreadState::Blocked && scene.trace.wait(slice.wait).reason == WaitReason::Fault
}

fn is_page_after_page(order: FaultOrder) -> bool {
    order.upwards - order.upwards_error >= UPWARDS_MIN && order.pages_each <= PAGES_MAX
}

fn summary(scene: &Scene, order: Option<FaultOrder>, (charge, waited_ns): (&Charge, u64)) -> Vec<String> {
    let paging = &scene.derived.paging;
    let threads = paging.threads.iter().filter(|(_, counts)| counts.major > 0).count();
    let mut summary = vec![format!(
        "{} had {} major page faults (counted by the kernel), and waited {} in them ({} of all thread time), {} each on average.",
        count(threads as u64, "thread"),
        rounded(paging.all.major as f64),
        time(waited_ns),
        percent(scene.of_thread_time(waited_ns)),
        time(waited_ns / charge.count().max(1)),
    )];
    if let Some(faults) = scene.derived.services.get(&Service::Fault) {
        summary.push(format!(
            "Page faults took {} ± {} of CPU time in the kernel (sampled).",
            time(faults.ns),
            time(faults.error_ns)
        ));
    }
    if paging.disk_read_bytes > 0 {
        let each = paging.disk_read_bytes / paging.all.major.max(1);
        summary.push(format!(
            "The machine read {} from disks during that time, {} per fault.",
            bytes(paging.disk_read_bytes),
            bytes(each)
        ));
    }
    let mut sites: Vec<_> = paging.sites.iter().filter(|site| site.major > 0).collect();
    sites.sort_by_key(|site| std::cmp::Reverse(site.major));
    let part = |major: u64| percent(major as f64 / paging.all.major.max(1) as f64);
    let named = sites.iter().take(SITES_MAX).map(|site| format!("{} {}", site.function, part(site.major)));
    let named: Vec<String> = named.collect();
    if !named.is_empty() {
        summary.push(format!("Faulting functions (sampled): {}.", named.join(", ")));
    }
    summary.extend(order.map(order_sentence));
    summary
}

fn order_sentence(order: FaultOrder) -> String {
    let (upwards, error) = (percent(order.upwards), percent(order.upwards_error));
    let each = format!("{:.1}", order.pages_each);
    match is_page_after_page(order) {
        true => format!(
            "{upwards} ± {error} of the sampled faults were sequential, {each} pages per fault: the file is read in order, but readahead is not effective."
        ),
        false if order.upwards >= UPWARDS_MIN && order.pages_each > PAGES_MAX => format!(
            "{upwards} ± {error} of the sampled faults were sequential, {each} pages per fault: readahead is effective."
        ),
        // The order is not sure.
        false if order.upwards >= UPWARDS_MIN => {
            format!("{upwards} ± {error} of the sampled faults were sequential, {each} pages per fault.")
        }
        false => format!("{upwards} ± {error} of the sampled faults were sequential: the access is random."),
    }
}

fn advice(order: Option<FaultOrder>) -> Vec<String> {
    let ahead = "Read pages before they are touched: MADV_WILLNEED or MADV_POPULATE_READ for the next range, io_uring, several threads";
    let [first, second] = match order {
        Some(order) if is_page_after_page(order) => [
            "Allow readahead: no MADV_RANDOM for a mapping that is read in order (use MADV_NORMAL or MADV_SEQUENTIAL), and a read_ahead_kb of the device above 0",
            "Or read() it in pieces of a megabyte instead of mapping it",
        ],
        Some(order) if order.upwards < UPWARDS_MIN => [
            ahead,
            "Store related data together, or load everything first (MAP_POPULATE, or read the file once from end to end)",
        ],
        _ => [ahead, "Or read() it in pieces of a megabyte instead of mapping it"],
    };
    vec![first.to_owned(), second.to_owned()]
}
