//! What each CPU did, and which other programs ran.

use std::collections::BTreeMap;

use holdup_events::{CpuId, ProcessId, Trace};

use super::{largest, pid};
use crate::derive::class::{CLASSES, Class};
use crate::derive::cpus::{self, CpuUse};
use crate::derive::kernel_threads::is_kernel_thread;
use crate::derive::ledger::ByClass;
use crate::derive::roles::Roles;
use crate::derive::timelines::Timelines;

/// Maximum number of other programs that are reported.
const STRANGERS_MAX: usize = 16;

/// One CPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CpuGlance {
    /// Which.
    pub cpu: CpuId,
    /// Time of the program's threads on this CPU (ns). The classes of [`Class::ON_CPU`] are divided by the
    /// CPU's samples. Steal time is a class of its own.
    pub classes: ByClass,
    /// Time of other programs (ns).
    pub others_ns: u64,
    /// Neither: idle, or not known (ns).
    pub idle_ns: u64,
    /// Switches onto it of any thread.
    pub switches: u64,
    /// The other program that ran longest there. Its time is 0 if none ran.
    pub most: Stranger,
}

/// Another program, or a thread of the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stranger {
    /// Name of the process.
    pub name: String,
    /// PID of the process.
    pub pid: u32,
    /// Whether it is a kernel thread.
    pub kernel: bool,
    /// How long it ran (ns).
    pub ran_ns: u64,
}

/// Every CPU that is online or ran something.
pub(super) fn derive(
    trace: &Trace,
    (timelines, roles): (&Timelines, &Roles),
    online: &[CpuId],
) -> Vec<CpuGlance> {
    let idle = |cpu: CpuId| CpuGlance { cpu, idle_ns: trace.wall().0, ..CpuGlance::default() };
    let mut all: BTreeMap<CpuId, CpuGlance> = online.iter().map(|cpu| (*cpu, idle(*cpu))).collect();
    let samples = samples(trace, roles);
    for used in cpus::derive_with(trace, timelines) {
        let counts = samples.get(&used.cpu).copied().unwrap_or_default();
        all.insert(used.cpu, glance(trace, &used, counts));
    }
    all.into_values().collect()
}

fn glance(trace: &Trace, used: &CpuUse, counts: [u64; CLASSES]) -> CpuGlance {
    let most = used.others.first().map(|(process, ns)| other_program(trace, *process, *ns));
    CpuGlance {
        cpu: used.cpu,
        classes: divided(used.target_ns, used.stolen_ns, counts),
        others_ns: used.others_ns,
        idle_ns: used.idle_ns,
        switches: used.switches,
        most: most.unwrap_or_default(),
    }
}

/// Samples of the program's threads by CPU and class.
fn samples(trace: &Trace, roles: &Roles) -> BTreeMap<CpuId, [u64; CLASSES]> {
    let mut counts: BTreeMap<CpuId, [u64; CLASSES]> = BTreeMap::new();
    let is_target =
        |thread: holdup_events::ThreadId| trace.threads.get(thread.index()).is_some_and(|row| row.target);
    for sample in trace.samples.iter().filter(|sample| is_target(sample.thread)) {
        counts.entry(sample.cpu).or_default()[roles.class_of_sample(sample) as usize] += 1;
    }
    counts
}

/// Divides `ran_ns` by the samples. The first class gets the rounding error, and all of the time if there is
/// no sample.
fn divided(ran_ns: u64, stolen_ns: u64, counts: [u64; CLASSES]) -> ByClass {
    let all: u64 = counts.iter().sum();
    let mut classes = [0; CLASSES];
    for class in Class::ON_CPU.into_iter().skip(1).filter(|_| all > 0) {
        classes[class as usize] =
            (u128::from(ran_ns) * u128::from(counts[class as usize]) / u128::from(all)) as u64;
    }
    classes[Class::Useful as usize] = ran_ns - classes.iter().sum::<u64>().min(ran_ns);
    classes[Class::Stolen as usize] = stolen_ns;
    classes
}

/// All that ran and is not the program's, on all CPUs together.
pub(super) fn other_programs(trace: &Trace, timelines: &Timelines) -> Vec<Stranger> {
    let mut ran: BTreeMap<ProcessId, u64> = BTreeMap::new();
    for stretch in timelines.iter().flat_map(|(_, line)| line.stretches()).filter(|stretch| !stretch.own()) {
        let process = trace.threads.get(stretch.thread().index()).map(|thread| thread.process);
        *ran.entry(process.unwrap_or_default()).or_default() += stretch.end().since(stretch.start()).0;
    }
    let rows = ran.into_iter().map(|(process, ns)| other_program(trace, process, ns)).collect();
    largest(rows, |row: &Stranger| row.ran_ns, STRANGERS_MAX)
}

fn other_program(trace: &Trace, process: ProcessId, ran_ns: u64) -> Stranger {
    Stranger {
        name: trace.process_name(process).to_owned(),
        pid: pid(trace, process),
        kernel: is_kernel_thread(trace, process),
        ran_ns,
    }
}
