//! CPU time of each CPU by the kernel's accounting, over the recording and by step, with the thread that ran
//! most in each step.
//!
//! The kernel counts in ticks (10 ms), so short steps are coarse. Threads come from context switches and are
//! exact.

use std::collections::BTreeMap;

use holdup_events::tables::CountKind;
use holdup_events::{CpuId, ProcessId, Timestamp, Trace};

use super::timelines::Timelines;

/// CPU times of a recording. Empty if they were not recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// Over the whole recording, by number.
    pub cpus: Vec<(CpuId, Times)>,
    /// At most [`STEPS_MAX`] consecutive steps.
    pub steps: Vec<CpuStep>,
}

/// One stretch of the recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuStep {
    /// Start …
    pub start: Timestamp,
    /// … to when.
    pub end: Timestamp,
    /// By number.
    pub cpus: Vec<(CpuId, Times)>,
    /// The processes that ran longest, with how long (ns, of all CPUs), at most [`WHO_MAX`].
    pub who: Vec<(ProcessId, u64)>,
}

/// Steps into which a recording is divided.
pub const STEPS_MAX: usize = 12;
/// Processes that are named of a step.
pub const WHO_MAX: usize = 2;

/// Time of one CPU, or several, by kind (ns).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// User mode.
    pub user: u64,
    /// User mode of niced threads.
    pub nice: u64,
    /// Kernel.
    pub system: u64,
    /// Interrupts.
    pub irq: u64,
    /// Soft interrupts.
    pub softirq: u64,
    /// Taken by the hypervisor.
    pub steal: u64,
    /// Idle with outstanding disk requests.
    pub disk_wait: u64,
    /// Idle.
    pub idle: u64,
}

impl Times {
    /// Total time.
    pub fn total(&self) -> u64 {
        let busy = self.user + self.nice + self.system + self.irq + self.softirq;
        busy + self.steal + self.disk_wait + self.idle
    }

    /// Adds another's.
    pub fn add(&mut self, other: &Times) {
        self.user += other.user;
        self.nice += other.nice;
        self.system += other.system;
        self.irq += other.irq;
        self.softirq += other.softirq;
        self.steal += other.steal;
        self.disk_wait += other.disk_wait;
        self.idle += other.idle;
    }

    /// The sum of several CPUs'.
    pub fn sum(cpus: &[(CpuId, Times)]) -> Times {
        let mut sum = Times::default();
        cpus.iter().for_each(|(_, times)| sum.add(times));
        sum
    }

    /// Field of a kind. `None` if the kind is not a CPU time.
    fn field_mut(&mut self, what: CountKind) -> Option<&mut u64> {
        Some(match what {
            CountKind::CpuUser => &mut self.user,
            CountKind::CpuNice => &mut self.nice,
            CountKind::CpuSystem => &mut self.system,
            CountKind::CpuIrq => &mut self.irq,
            CountKind::CpuSoftIrq => &mut self.softirq,
            CountKind::CpuSteal => &mut self.steal,
            CountKind::CpuDiskWait => &mut self.disk_wait,
            CountKind::CpuIdle => &mut self.idle,
            _ => return None,
        })
    }
}

/// Derives it.
pub fn derive(trace: &Trace, timelines: &Timelines) -> CpuTimes {
    // By end time, which all counts of one reading share.
    let mut looks: BTreeMap<Timestamp, (Timestamp, BTreeMap<CpuId, Times>)> = BTreeMap::new();
    for row in &trace.kernel_counts {
        let mut one = Times::default();
        let Some(place) = one.field_mut(row.what) else { continue };
        *place = row.count;
        let (start, cpus) = looks.entry(row.end).or_insert((row.start, BTreeMap::new()));
        *start = row.start.min(*start);
        cpus.entry(row.cpu).or_default().add(&one);
    }
    let looks: Vec<CpuStep> = looks
        .into_iter()
        .map(|(end, (start, cpus))| CpuStep { start, end, cpus: cpus.into_iter().collect(), who: Vec::new() })
        .collect();
    let each = looks.len().div_ceil(STEPS_MAX).max(1);
    let mut steps: Vec<CpuStep> = looks.chunks(each).map(joined).collect();
    for step in &mut steps {
        step.who = busiest_processes(trace, timelines, (step.start, step.end));
    }
    CpuTimes { cpus: joined(&steps).cpus, steps }
}

/// Merges consecutive steps.
fn joined(steps: &[CpuStep]) -> CpuStep {
    let mut cpus: BTreeMap<CpuId, Times> = BTreeMap::new();
    for (cpu, times) in steps.iter().flat_map(|step| &step.cpus) {
        cpus.entry(*cpu).or_default().add(times);
    }
    CpuStep {
        start: steps.first().map_or(Timestamp(0), |step| step.start),
        end: steps.last().map_or(Timestamp(0), |step| step.end),
        cpus: cpus.into_iter().collect(),
        who: Vec::new(),
    }
}

fn busiest_processes(
    trace: &Trace,
    timelines: &Timelines,
    (start, end): (Timestamp, Timestamp),
) -> Vec<(ProcessId, u64)> {
    let mut ran: BTreeMap<ProcessId, u64> = BTreeMap::new();
    for stretch in timelines.iter().flat_map(|(_, line)| line.between(start, end)) {
        let length = stretch.end().min(end).since(stretch.start().max(start)).0;
        *ran.entry(trace.threads[stretch.thread().index()].process).or_default() += length;
    }
    let mut ran: Vec<(ProcessId, u64)> = ran.into_iter().collect();
    ran.sort_by_key(|(process, ns)| (std::cmp::Reverse(*ns), *process));
    ran.truncate(WHO_MAX);
    ran
}
