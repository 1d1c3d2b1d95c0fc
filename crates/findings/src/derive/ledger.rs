//! The ledger: attribution of all thread time to classes.
//!
//! Slices cover each thread's life without gaps, so the classes sum to it exactly. All times are exact, with
//! two exceptions. Running time is split into the classes of [`Class::ON_CPU`] by samples (`split.rs`). If a
//! runtime's code decides a wait's class and only some stacks were recorded, the class is estimated
//! (`roles`).

use holdup_events::event::WakeContext;
use holdup_events::tables::{Slice, Steal, ThreadState, Wakeup};
use holdup_events::{CpuId, Duration, ThreadId, Trace, WaitReason};

use super::class::{CLASSES, Class};
use super::parallel;
use super::roles::Roles;
use super::split::{Parts, Split, SplitErrors};
use super::timelines::Timelines;

/// Nanoseconds by class, indexed by `Class as usize`.
pub type ByClass = [u64; CLASSES];

/// Time on a CPU (ns), steal time excluded.
pub fn on_cpu_ns(classes: &ByClass) -> u64 {
    Class::ON_CPU.iter().map(|class| classes[*class as usize]).sum()
}

/// Where the time went, of the traced program.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// Sum of the lives of all target threads (ns). Equals the sum of `classes`.
    pub total_ns: u64,
    /// Total of all target threads.
    pub classes: ByClass,
    /// Half the width of the 95 % confidence interval of each class of [`Class::ON_CPU`], whose split is
    /// sampled (ns). All the running time if `split_known` is false.
    pub split_error_ns: Parts,
    /// There are samples. Without any, all running time is counted as useful and kernel time is
    /// absent, not zero.
    pub split_known: bool,
    /// On-CPU samples that the split rests on.
    pub samples: u64,
    /// The run-queue class, by the occupant of the CPU.
    pub run_queue: RunQueueSplit,
    /// Each target thread, the longest-lived first.
    pub threads: Vec<ThreadLedger>,
}

/// Run-queue delay (ns), by the CPU's occupant. Sums to the class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunQueueSplit {
    /// Ran threads of the traced program.
    pub own_ns: u64,
    /// Ran others, kernel threads included.
    pub others_ns: u64,
    /// Throttled: the control group's CPU bandwidth or SCHED_DEADLINE's runtime is used up.
    pub throttled_ns: u64,
    /// Idle, or not known: waking up, migrating, or lost.
    pub idle_ns: u64,
}

/// One thread's share.
#[derive(Clone, Debug)]
pub struct ThreadLedger {
    /// The thread.
    pub thread: ThreadId,
    /// Lifetime of the thread within the recording.
    pub life: Duration,
    /// Sums to `life`.
    pub classes: ByClass,
    /// As in [`Ledger::run_queue`].
    pub run_queue: RunQueueSplit,
    /// Number of times the thread was switched out because it blocked.
    pub blocked: u64,
    /// Number of times the thread was preempted.
    pub preempted: u64,
    /// Number of times the thread resumed on another CPU.
    pub migrations: u64,
}

impl ThreadLedger {
    /// Time on a CPU, stolen time excluded (ns).
    pub fn running_ns(&self) -> u64 {
        on_cpu_ns(&self.classes)
    }
}

/// Maximum number of busy CPUs of a process that counts as idle: what its waits cost shows only under load.
const IDLE_CPUS_MAX: f64 = 0.02;

/// Whether the recording is of a process that was attached to, still runs, and was nearly idle.
pub fn is_nearly_idle(trace: &Trace, ledger: &Ledger) -> bool {
    let busy = ledger.running_ns() as f64 / trace.wall().0.max(1) as f64;
    trace.is_part_of_run() && busy < IDLE_CPUS_MAX
}

impl Ledger {
    /// Time of one class (ns).
    pub fn class_ns(&self, class: Class) -> u64 {
        self.classes[class as usize]
    }

    /// Time on a CPU without spinning, stolen time excluded (ns).
    pub fn work_ns(&self) -> u64 {
        self.running_ns().saturating_sub(self.class_ns(Class::Spin))
    }

    /// Time on a CPU, stolen time excluded (ns).
    pub fn running_ns(&self) -> u64 {
        on_cpu_ns(&self.classes)
    }

    /// Half the width of the 95 % confidence interval of a class's time (ns). 0 if it is exact.
    pub fn error_ns(&self, class: Class) -> u64 {
        let part = Class::ON_CPU.iter().position(|sampled| *sampled == class);
        part.filter(|_| self.split_known).map_or(0, |part| self.split_error_ns[part])
    }
}

impl RunQueueSplit {
    /// Adds another's.
    pub fn add(&mut self, other: RunQueueSplit) {
        self.own_ns += other.own_ns;
        self.others_ns += other.others_ns;
        self.throttled_ns += other.throttled_ns;
        self.idle_ns += other.idle_ns;
    }

    /// Adds a wait for a CPU. `cursors` are the places in each CPU's timeline, of waits in the order of time.
    pub(super) fn add_wait(&mut self, slice: &Slice, timelines: &Timelines, cursors: &mut [usize]) {
        let length = slice.duration().0;
        if slice.state == ThreadState::Throttled {
            self.throttled_ns += length;
            return;
        }
        let (own, others) = match timelines.of_cpu(slice.cpu) {
            Some(timeline) => timeline.ran(slice.start, slice.end, &mut cursors[usize::from(slice.cpu.0)]),
            None => (0, 0),
        };
        self.own_ns += own;
        self.others_ns += others;
        self.idle_ns += length.saturating_sub(own + others);
    }

    /// Subtracts an earlier state.
    pub(super) fn subtract(&mut self, earlier: RunQueueSplit) {
        self.own_ns = self.own_ns.saturating_sub(earlier.own_ns);
        self.others_ns = self.others_ns.saturating_sub(earlier.others_ns);
        self.throttled_ns = self.throttled_ns.saturating_sub(earlier.throttled_ns);
        self.idle_ns = self.idle_ns.saturating_sub(earlier.idle_ns);
    }
}

/// Derives the ledger.
pub fn derive(trace: &Trace) -> Ledger {
    derive_with(trace, &Timelines::derive(trace), &Roles::built_in(trace))
}

/// Derives the ledger, given what each CPU ran, and what the runtimes' code is for.
pub fn derive_with(trace: &Trace, timelines: &Timelines, roles: &Roles) -> Ledger {
    let groups = parallel::thread_groups(trace);
    let parts = parallel::map(groups.len(), |group| {
        let mut walk = Walk { trace, timelines, roles, cursors: vec![0; timelines.len()] };
        let targets = groups[group].clone().map(ThreadId).filter(|id| trace.threads[id.index()].target);
        targets.map(|thread| walk.thread(thread)).collect::<Vec<_>>()
    });
    let mut threads: Vec<ThreadLedger> = parts.into_iter().flatten().collect();
    let split = split_running(trace, roles, &mut threads);
    let mut ledger = Ledger {
        split_error_ns: split.error_ns,
        split_known: split.samples > 0,
        samples: split.samples,
        ..Ledger::default()
    };
    for thread in &threads {
        ledger.total_ns += thread.life.0;
        ledger.run_queue.add(thread.run_queue);
        for (sum, ns) in ledger.classes.iter_mut().zip(thread.classes) {
            *sum += ns;
        }
    }
    threads.sort_by_key(|thread| (std::cmp::Reverse(thread.life), thread.thread));
    ledger.threads = threads;
    ledger
}

/// Divides each thread's running time, which came as useful, by its samples.
fn split_running(trace: &Trace, roles: &Roles, threads: &mut [ThreadLedger]) -> SplitErrors {
    let mut split = Split::new(trace, roles);
    for thread in threads.iter_mut() {
        let running = thread.classes[Class::Useful as usize];
        let life = &trace.threads[thread.thread.index()];
        let range = (life.start, life.end);
        thread.classes[Class::Useful as usize] = 0;
        for (class, ns) in split.classes_ns((trace, roles), (thread.thread, range), running) {
            thread.classes[class as usize] += ns;
        }
    }
    split.finish()
}

/// The walk over one thread's slices after another's.
struct Walk<'a> {
    trace: &'a Trace,
    timelines: &'a Timelines,
    roles: &'a Roles,
    /// Place in each CPU's timeline.
    cursors: Vec<usize>,
}

impl Walk<'_> {
    fn thread(&mut self, id: ThreadId) -> ThreadLedger {
        self.cursors.fill(0);
        let thread = &self.trace.threads[id.index()];
        let life = thread.end.since(thread.start);
        let mut sums = ThreadLedger {
            thread: id,
            life,
            classes: [0; CLASSES],
            run_queue: RunQueueSplit::default(),
            blocked: 0,
            preempted: 0,
            migrations: 0,
        };
        let mut steals = steals_of(&self.trace.steals, id);
        let mut wakeups = self.trace.wakeups.of_thread(id);
        let mut last_cpu = CpuId::NONE;
        let mut first = true;
        for mut slice in self.trace.slices.of_thread(id) {
            let slice_start = slice.start;
            slice.start = slice.start.max(thread.start);
            slice.end = slice.end.min(thread.end).max(slice.start);
            let length = slice.duration().0;
            match slice.state {
                ThreadState::Running => {
                    let stolen = stolen(&mut steals, slice_start).min(length);
                    sums.classes[Class::Stolen as usize] += stolen;
                    sums.classes[Class::Useful as usize] += length - stolen;
                    if slice.cpu != CpuId::NONE {
                        sums.migrations += u64::from(last_cpu != CpuId::NONE && last_cpu != slice.cpu);
                        last_cpu = slice.cpu;
                    }
                }
                state if state.waits_for_cpu() => {
                    sums.preempted += u64::from(state == ThreadState::Preempted);
                    sums.classes[Class::RunQueue as usize] += length;
                    sums.run_queue.add_wait(&slice, self.timelines, &mut self.cursors);
                }
                ThreadState::Blocked => {
                    sums.blocked += u64::from(!(first && thread.began_before));
                    let class = class_of_blocked((self.trace, self.roles), &slice, &mut wakeups);
                    sums.classes[class as usize] += length;
                }
                _ => sums.classes[Class::Unknown as usize] += length,
            }
            first = false;
        }
        // The tables promise slices without gaps. Gaps in a damaged recording count as unknown.
        let told: u64 = sums.classes.iter().sum();
        sums.classes[Class::Unknown as usize] += life.0.saturating_sub(told);
        sums
    }
}

/// The class of a blocked slice: of the ledger, and of its colour. Consumes the wakeups up to its end.
pub(super) fn class_of_blocked(
    (trace, roles): (&Trace, &Roles),
    slice: &Slice,
    wakeups: &mut &[Wakeup],
) -> Class {
    let class = roles.class_of_wait(trace, slice);
    // Whether a poll with a timeout was a sleep is decided by its end, unless the runtime reported that it
    // was idle.
    let is_guess =
        matches!(class, Class::WorkWait | Class::NetWait) && roles.phases.class_of_wait(slice).is_none();
    let by_timer = is_guess && is_multiplex(trace, slice) && woken_by_timer(slice, wakeups);
    if by_timer { Class::Sleep } else { class }
}

/// Class of a target thread's whole slice. `None` while it runs, because samples divide running time.
/// `wakeups` are the thread's. The ones up to the slice's end are consumed.
pub fn class_of_slice(facts: (&Trace, &Roles), slice: &Slice, wakeups: &mut &[Wakeup]) -> Option<Class> {
    match slice.state {
        ThreadState::Running => None,
        state if state.waits_for_cpu() => Some(Class::RunQueue),
        ThreadState::Blocked => Some(class_of_blocked(facts, slice, wakeups)),
        _ => Some(Class::Unknown),
    }
}

/// Whether the thread waits for several descriptors, or for the timeout.
pub(super) fn is_multiplex(trace: &Trace, slice: &Slice) -> bool {
    trace.wait(slice.wait).reason == WaitReason::Multiplex
}

/// Whether a timer ended this blocked slice. Consumes the wakeups up to its end.
pub(super) fn woken_by_timer(slice: &Slice, wakeups: &mut &[Wakeup]) -> bool {
    let mut last = None;
    while let Some((wakeup, rest)) = wakeups.split_first() {
        if wakeup.at > slice.end {
            break;
        }
        last = Some(wakeup);
        *wakeups = rest;
    }
    last.is_some_and(|wakeup| wakeup.at >= slice.start && wakeup.context == WakeContext::Timer)
}

pub(super) fn steals_of(steals: &[Steal], thread: ThreadId) -> &[Steal] {
    let from = steals.partition_point(|steal| steal.thread < thread);
    let behind = steals.partition_point(|steal| steal.thread <= thread);
    &steals[from..behind]
}

/// Steal time of the slice that starts at `start` (ns). Consumes the rows up to it.
pub(super) fn stolen(steals: &mut &[Steal], start: holdup_events::Timestamp) -> u64 {
    while let Some((steal, rest)) = steals.split_first() {
        if steal.slice_start > start {
            break;
        }
        *steals = rest;
        if steal.slice_start == start {
            return steal.stolen.0;
        }
    }
    0
}
