//! Page faults and TLB shootdowns. By thread: the kernel's counts. By function: sampled faults. The cost of
//! shootdowns comes from samples and from the time of their interrupt handlers.

use std::collections::{BTreeMap, HashMap};

use holdup_events::tables::{CountKind, Frame, FrameKind, SampleRow};
use holdup_events::{CpuId, FrameId, StackId, ThreadId, Timestamp, Trace, WaitReason};

use super::ledger::Ledger;
use super::occupancy::Stall;
use super::own_places::{OwnFrames, Places};
use super::samples_of;
use super::split::share_error;
use super::timelines::Timelines;

/// Page faults and shootdowns of a recording.
#[derive(Clone, Debug, Default)]
pub struct Paging {
    /// The kernel's counts were recorded.
    pub counted: bool,
    /// Sums over the program's threads.
    pub all: Counts,
    /// Threads with any count, most faults first.
    pub threads: Vec<(ThreadId, Counts)>,
    /// Shootdowns by the syscall that sent them, most first. -1 is a page fault.
    pub sent_in: Vec<(i32, u64)>,
    /// Time of memory reclaim by the program's threads (ns), by syscall, longest first. -1 is a page fault.
    pub reclaimed_in: Vec<(i32, u64)>,
    /// Bytes read from disks by the whole machine during the recording, if known.
    pub disk_read_bytes: u64,
    /// Part of them that had been in memory before (refaults).
    pub refault_bytes: u64,
    /// Shootdown interrupts of each CPU, from any process.
    pub cpus: Vec<(CpuId, u64)>,
    /// Functions with page faults, most faults first.
    pub sites: Vec<FaultSite>,
    /// Number of sampled faults.
    pub drawn: u64,
    /// Cost of sending shootdowns.
    pub sending: Sending,
}

/// Counts of one thread or of all threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Page faults without a disk.
    pub minor: u64,
    /// Page faults for which a disk was read.
    pub major: u64,
    /// Number of shootdowns sent.
    pub sent: u64,
    /// Number of shootdown interrupts received.
    pub interrupts: u64,
    /// Time in these interrupts' handlers (ns), without the CPU's interrupt entry and exit.
    pub interrupt_ns: u64,
    /// Stretches of its process's pages that became huge ones.
    pub huge_pages: u64,
    /// Number of direct reclaims at the limit of the memory cgroup.
    pub limit_reclaims: u64,
    /// Total time of these (ns), including waits.
    pub limit_reclaim_ns: u64,
    /// Number of direct reclaims because the machine's memory was full.
    pub direct_reclaims: u64,
    /// Total time of these (ns), including waits.
    pub direct_reclaim_ns: u64,
    /// Number of waits for the address space's lock (`mmap_lock`).
    pub lock_waits: u64,
    /// Total time of these (ns).
    pub lock_wait_ns: u64,
}

impl Counts {
    /// Page faults of both kinds.
    pub fn faults(&self) -> u64 {
        self.minor + self.major
    }

    /// Total time of direct reclaim (ns), including waits.
    pub fn reclaim_ns(&self) -> u64 {
        self.limit_reclaim_ns + self.direct_reclaim_ns
    }

    fn add(&mut self, other: &Counts) {
        self.minor += other.minor;
        self.major += other.major;
        self.sent += other.sent;
        self.interrupts += other.interrupts;
        self.interrupt_ns += other.interrupt_ns;
        self.huge_pages += other.huge_pages;
        self.limit_reclaims += other.limit_reclaims;
        self.limit_reclaim_ns += other.limit_reclaim_ns;
        self.direct_reclaims += other.direct_reclaims;
        self.direct_reclaim_ns += other.direct_reclaim_ns;
        self.lock_waits += other.lock_waits;
        self.lock_wait_ns += other.lock_wait_ns;
    }

    fn count(&mut self, what: CountKind, by: u64) {
        match what {
            CountKind::MinorFaults => self.minor += by,
            CountKind::MajorFaults => self.major += by,
            CountKind::ShootdownsSent => self.sent += by,
            CountKind::ShootdownInterrupts => self.interrupts += by,
            CountKind::ShootdownInterruptNs => self.interrupt_ns += by,
            CountKind::HugePages => self.huge_pages += by,
            CountKind::LimitReclaims => self.limit_reclaims += by,
            CountKind::LimitReclaimNs => self.limit_reclaim_ns += by,
            CountKind::DirectReclaims => self.direct_reclaims += by,
            CountKind::DirectReclaimNs => self.direct_reclaim_ns += by,
            _ => {}
        }
    }
}

/// A function of the program that touches pages which are not there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultSite {
    /// Function name, or `module+0xstart` without symbols.
    pub function: String,
    /// Path of its binary.
    pub module: String,
    /// Share of the program's faults (0 to 1), from sampled faults.
    pub share: f64,
    /// Half the width of the 95 % interval of `share`.
    pub share_error: f64,
    /// Faults of the whole program, as counted, times `share`.
    pub faults: u64,
    /// Number of these that are major faults.
    pub major: u64,
}

/// Cost of sending shootdowns, from samples in the kernel's functions for it.
#[derive(Clone, Debug, Default)]
pub struct Sending {
    /// Samples in them.
    pub samples: u64,
    /// Running time (ns, sampled).
    pub ns: u64,
    /// Half the width of its 95 % interval (ns).
    pub error_ns: u64,
    /// Cost for the run.
    pub stall: Stall,
    /// Some of the samples: thread and time.
    pub seen: Vec<(ThreadId, Timestamp)>,
}

/// Rows in [`Sending::seen`].
const SEEN_MAX: usize = 10;

/// The kernel's functions in which a CPU forgets translations: its own, or others', too.
const FLUSHES: [&str; 3] = ["flush_tlb_mm_range", "arch_tlbbatch_flush", "flush_tlb_kernel_range"];
/// Functions below these that send the request to other CPUs and wait for them …
const ASKS: [&str; 2] = ["on_each_cpu_cond_mask", "smp_call_function_many_cond"];
/// … and those that do both.
const ASKING_FLUSHES: [&str; 4] =
    ["native_flush_tlb_multi", "kvm_flush_tlb_multi", "hyperv_flush_tlb_multi", "xen_flush_tlb_multi"];

/// Derives it.
pub fn derive(trace: &Trace, ledger: &Ledger, timelines: &Timelines) -> Paging {
    let mut by_thread: BTreeMap<ThreadId, Counts> = BTreeMap::new();
    let mut sent_in: BTreeMap<i32, u64> = BTreeMap::new();
    let mut reclaimed_in: BTreeMap<i32, u64> = BTreeMap::new();
    let mut cpus: BTreeMap<CpuId, u64> = BTreeMap::new();
    let (mut disk_read_bytes, mut refault_bytes) = (0, 0);
    for row in &trace.kernel_counts {
        match (row.thread, row.what) {
            (None, CountKind::CpuShootdowns) => *cpus.entry(row.cpu).or_default() += row.count,
            (None, CountKind::DiskReadBytes) => disk_read_bytes += row.count,
            (None, CountKind::RefaultBytes) => refault_bytes += row.count,
            (Some(id), what) if trace.threads[id.index()].target => {
                by_thread.entry(id).or_default().count(what, row.count);
                match what {
                    CountKind::ShootdownsSent => *sent_in.entry(row.syscall).or_default() += row.count,
                    CountKind::LimitReclaimNs | CountKind::DirectReclaimNs => {
                        *reclaimed_in.entry(row.syscall).or_default() += row.count;
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }
    add_lock_waits(trace, &mut by_thread);
    let mut all = Counts::default();
    by_thread.values().for_each(|counts| all.add(counts));
    let mut threads: Vec<(ThreadId, Counts)> = by_thread.into_iter().collect();
    threads.sort_by_key(|(id, counts)| {
        (std::cmp::Reverse(counts.faults() + counts.sent + counts.interrupts), *id)
    });
    Paging {
        counted: trace.kernel_counts.iter().any(|row| row.thread.is_some()),
        sites: sites(trace, (&all, &threads)),
        threads,
        sent_in: most_first(sent_in),
        reclaimed_in: most_first(reclaimed_in),
        disk_read_bytes,
        refault_bytes,
        cpus: cpus.into_iter().collect(),
        drawn: trace.faults.len() as u64,
        sending: sending(trace, ledger, timelines),
        all,
    }
}

fn most_first(by_call: BTreeMap<i32, u64>) -> Vec<(i32, u64)> {
    let mut all: Vec<(i32, u64)> = by_call.into_iter().collect();
    all.sort_by_key(|(syscall, count)| (std::cmp::Reverse(*count), *syscall));
    all
}

fn add_lock_waits(trace: &Trace, by_thread: &mut BTreeMap<ThreadId, Counts>) {
    for id in trace.target_threads() {
        let waits =
            trace.slices.of_thread(id).filter(|slice| trace.wait(slice.wait).reason == WaitReason::MmapLock);
        let (count, ns) = waits.fold((0, 0), |(count, ns), slice| (count + 1, ns + slice.duration().0));
        if count > 0 {
            let counts = by_thread.entry(id).or_default();
            (counts.lock_waits, counts.lock_wait_ns) = (count, ns);
        }
    }
}

/// Number of a thread's counted faults per sampled fault. The samples only divide the kernel's count.
fn scales(trace: &Trace, by_thread: &[(ThreadId, Counts)]) -> BTreeMap<ThreadId, f64> {
    let mut drawn: BTreeMap<ThreadId, f64> = BTreeMap::new();
    for row in &trace.faults {
        *drawn.entry(row.thread).or_default() += row.stands_for.max(1) as f64;
    }
    let counted: BTreeMap<ThreadId, u64> =
        by_thread.iter().map(|(id, counts)| (*id, counts.faults())).collect();
    let scale = |(id, drawn): (ThreadId, f64)| {
        let faults = counted.get(&id).copied().unwrap_or(0);
        (id, if faults > 0 { faults as f64 / drawn } else { 1.0 })
    };
    drawn.into_iter().map(scale).collect()
}

/// Functions with page faults. Each sampled fault represents the faults of its CPU since the previous sample,
/// and shares are sums of these weights.
fn sites(trace: &Trace, (all, by_thread): (&Counts, &[(ThreadId, Counts)])) -> Vec<FaultSite> {
    let scales = scales(trace, by_thread);
    let own = OwnFrames::new(trace);
    let mut places = Places::new(trace, &own);
    let mut sums: BTreeMap<Option<FrameId>, [f64; 2]> = BTreeMap::new();
    let (mut weight, mut squares, mut major) = (0.0, 0.0, 0.0);
    for row in trace.faults.iter().filter(|row| trace.threads[row.thread.index()].target) {
        let stands_for = row.stands_for.max(1) as f64 * scales.get(&row.thread).copied().unwrap_or(1.0);
        let place = places.nearest_own(row.stack).or_else(|| trace.stack_frames(row.stack).next());
        let sum = sums.entry(place).or_default();
        sum[usize::from(row.major)] += stands_for;
        weight += stands_for;
        squares += stands_for * stands_for;
        major += if row.major { stands_for } else { 0.0 };
    }
    // Effective sample size: this number of equal samples would have the same error (Kish, Survey Sampling,
    // §11.7).
    let draws = if squares > 0.0 { weight * weight / squares } else { 0.0 };
    let site = |(frame, [minor, of_disk]): (Option<FrameId>, [f64; 2])| {
        let share = (minor + of_disk) / weight.max(1.0);
        let row = frame.and_then(|id| trace.frames.get(id.index()));
        FaultSite {
            function: frame.map_or_else(|| "(no stack)".to_owned(), |id| trace.frame_name(id)),
            module: row.map(|frame| frame.module.clone()).unwrap_or_default(),
            share,
            share_error: share_error((share * draws).round() as u64, draws.round() as u64),
            faults: (share * all.faults() as f64).round() as u64,
            major: (of_disk / f64::max(major, 1.0) * all.major as f64).round() as u64,
        }
    };
    let mut sites: Vec<FaultSite> = sums.into_iter().map(site).collect();
    sites.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| a.function.cmp(&b.function)));
    sites
}

/// Which stacks are within the kernel's functions that send shootdowns.
pub struct Flushing<'a> {
    trace: &'a Trace,
    frames: Vec<FlushPart>,
    of_stack: std::cell::RefCell<HashMap<StackId, bool>>,
}

/// Part of a frame in a shootdown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FlushPart {
    None,
    Flushes,
    Asks,
    Both,
}

impl<'a> Flushing<'a> {
    /// Evaluates each frame once.
    pub fn new(trace: &'a Trace) -> Flushing<'a> {
        let part = |frame: &Frame| match frame.function.as_str() {
            _ if frame.kind != FrameKind::Kernel => FlushPart::None,
            name if FLUSHES.contains(&name) => FlushPart::Flushes,
            name if ASKS.contains(&name) => FlushPart::Asks,
            name if ASKING_FLUSHES.contains(&name) => FlushPart::Both,
            _ => FlushPart::None,
        };
        Flushing { trace, frames: trace.frames.iter().map(part).collect(), of_stack: Default::default() }
    }

    /// Whether a sample is in one.
    pub fn holds(&self, sample: &SampleRow) -> bool {
        let look = || {
            let part = |frame: FrameId| self.frames.get(frame.index()).copied().unwrap_or(FlushPart::None);
            let has = |wanted: FlushPart| {
                let frames = self.trace.stack_frames(sample.stack);
                frames.map(part).any(|found| found == wanted || found == FlushPart::Both)
            };
            has(FlushPart::Flushes) && has(FlushPart::Asks)
        };
        sample.in_kernel && *self.of_stack.borrow_mut().entry(sample.stack).or_insert_with(look)
    }
}

fn sending(trace: &Trace, ledger: &Ledger, timelines: &Timelines) -> Sending {
    let flushing = Flushing::new(trace);
    let (mut sending, mut ns) = (Sending::default(), 0.0);
    for thread in &ledger.threads {
        let samples = samples_of(trace, thread.thread);
        let each = thread.running_ns() as f64 / samples.len().max(1) as f64;
        for sample in samples.iter().filter(|sample| flushing.holds(sample)) {
            sending.samples += 1;
            ns += each;
            sending.stall.add_sample(sample, each, timelines);
            if sending.seen.len() < SEEN_MAX {
                sending.seen.push((sample.thread, sample.at));
            }
        }
    }
    sending.ns = ns.round() as u64;
    let share = share_error(sending.samples, ledger.samples);
    sending.error_ns = (share * ledger.running_ns() as f64).round() as u64;
    sending
}
