//! Everything that a report prints: derived facts and ranked findings of one trace.

use std::collections::BTreeMap;

use holdup_events::Trace;

use crate::charge::Charge;
use crate::computing::{self, Computes};
use crate::derive::{
    asked_in_groups, asking, blame, busiest, calls, children, clocked, cpu_times, cpus, critical_path,
    garbage, gc, hardware, holders, interpreted, known_work, ledger, lines, lock_holding, locks, nodes,
    occupancy, paging, parallel, parallelism, peers, regions, rendezvous, replay, roles, runtimes, services,
    skew, spin, stacks, syscall_rates, syscalls, task_locks, tasks, temporary_files, thread_shares,
    timelines,
};
use crate::descriptors::Descriptors;
use crate::finding::Finding;
use crate::merging::Symptom;
use crate::rules;

/// The derived facts that rules judge and reports print.
#[derive(Clone, Debug, Default)]
pub struct Derived {
    /// Where the time went.
    pub ledger: ledger::Ledger,
    /// The function in which most of the useful work is done.
    pub busiest: Option<busiest::Busiest>,
    /// The kind of work that takes much of the useful time, if a descriptor knows it.
    pub known_work: Option<known_work::Known>,
    /// A function that is interpreted all along, and takes much of the work.
    pub interpreted: Option<interpreted::Interpreted>,
    /// Time of each CPU by state.
    pub cpus: Vec<cpus::CpuUse>,
    /// Memory nodes, and moves between CPUs.
    pub nodes: nodes::Nodes,
    /// How each CPU spent its time by the kernel's account, over time.
    pub cpu_times: cpu_times::CpuTimes,
    /// Each lock that threads waited for, the costliest first.
    pub locks: Vec<locks::LockUse>,
    /// Syscalls by running time (sampled) and blocked time (exact), the costliest first.
    pub syscalls: Vec<syscalls::SyscallUse>,
    /// The windows in which syscalls were counted, and the rates found there.
    pub syscall_rates: syscall_rates::SyscallRates,
    /// The counted calls: their objects, results, durations and bytes.
    pub calls: calls::Calls,
    /// Files that were made and removed again, by the counted calls.
    pub temporary_files: temporary_files::TemporaryFiles,
    /// Barriers, joins and stop-the-world pauses, and the threads that arrived late.
    pub rendezvous: rendezvous::Rendezvous,
    /// Loops in which threads waited by running, the costliest first.
    pub spins: Vec<spin::SpinUse>,
    /// Memory that threads took from each other, the costliest first.
    pub lines: Vec<lines::SharedData>,
    /// Allocated memory by call stack, if allocations were recorded.
    pub allocated: stacks::Allocated,
    /// Work done on behalf of the program's functions: copying, formatting, page faults.
    pub services: BTreeMap<services::Service, services::ServiceUse>,
    /// Pieces of work that threads hand out and wait for, by process, the most often first.
    pub regions: Vec<regions::Regions>,
    /// Thread pools, and the work of their threads outside tasks, the costliest first.
    pub tasks: Vec<tasks::Handing>,
    /// Page faults and shootdowns.
    pub paging: paging::Paging,
    /// Cost of garbage collections, for runtimes that report them.
    pub gc: gc::Gc,
    /// The functions that allocate the memory that is collected.
    pub garbage: garbage::Garbage,
    /// Hardware counters, if they were recorded.
    pub hardware: hardware::Hardware,
    /// How many threads ran, over time.
    pub parallelism: parallelism::Parallelism,
    /// Why threads did not run on idle CPUs.
    pub occupancy: occupancy::Occupancy,
    /// The holder of each blocked thread's object. Locks are numbered as in `occupancy.locks`.
    pub holders: holders::Holders,
    /// State of the worst locks' holders while other threads waited, by the lock's number.
    pub lock_holding: Vec<lock_holding::LockHolding>,
    /// Locks that tasks of runtimes waited for.
    pub task_locks: task_locks::TaskLocks,
    /// The state of the thread at the end of each chain of holders.
    pub blame: blame::Blame,
    /// The same by kind of wait.
    pub waits: Vec<blame::KindBlame>,
    /// The peers for which threads waited at sockets.
    pub peers: peers::Peers,
    /// Processes that waited for their children, the longest waiting first.
    pub children: Vec<children::Parent>,
    /// The critical path of the run.
    pub critical_path: critical_path::CriticalPath,
    /// Each thread's part of the run's length, the greatest first.
    pub bottles: Vec<thread_shares::Bottle>,
    /// Threads that send a request to another program and wait for the response while no thread works on it.
    pub asking: Vec<asking::Asking>,
    /// Threads that send requests to a service in groups, and wait for the slowest response of each group.
    pub asked_in_groups: Vec<asked_in_groups::InGroups>,
    /// Processes that are alike, and how much each had to do.
    pub skews: Vec<skew::Skew>,
    /// Waits that a clock ended, by thread.
    pub clocked: Vec<clocked::Clocked>,
    /// Groups of similar processes, and the amount of work of each process.
    pub roles: roles::Roles,
    /// The same as sums, runtime by runtime.
    pub runtimes: Vec<runtimes::RuntimeUse>,
    /// Counts of the lanes, events and spans that each runtime reported.
    pub runtime_events: Vec<runtimes::Telling>,
}

/// The analysis of one trace.
#[derive(Clone, Debug, Default)]
pub struct Analysis {
    /// The facts.
    pub derived: Derived,
    /// The findings, the largest expected gain first.
    pub findings: Vec<Finding>,
    /// Findings that speak of the same lost time as one of `findings`, and became its evidence.
    pub symptoms: Vec<Symptom>,
    /// The slices that each finding charges, in the order of `findings`.
    pub charges: Vec<Charge>,
    /// Rules that could not be judged, with the reason.
    pub skipped: Vec<(&'static str, String)>,
}

impl Analysis {
    /// The summary for a compute-bound program, if useful work takes nearly all of the CPU time.
    pub fn computes(&self, trace: &Trace) -> Option<Computes> {
        computing::summarize(trace, self)
    }
}

/// Derives the facts and judges every rule.
pub fn analyse(trace: &Trace) -> Analysis {
    analyse_with(trace, &Descriptors::built_in())
}

/// The same, with these descriptors of runtimes.
pub fn analyse_with(trace: &Trace, descriptors: &Descriptors) -> Analysis {
    let Begun { timelines, roles, ledger } = begin(trace, descriptors);
    complete(trace, &timelines, (roles, ledger))
}

/// The first and shorter part of the analysis, sufficient for the timeline of every thread. [`complete`]
/// continues from here.
#[derive(Clone, Debug, Default)]
pub struct Begun {
    /// The threads that ran on each CPU.
    pub timelines: timelines::Timelines,
    /// See [`Derived::roles`].
    pub roles: roles::Roles,
    /// See [`Derived::ledger`].
    pub ledger: ledger::Ledger,
}

/// Where the time went, and no more.
pub fn begin(trace: &Trace, descriptors: &Descriptors) -> Begun {
    let timelines = timelines::Timelines::derive(trace);
    let roles = roles::Roles::derive(trace, descriptors);
    let ledger = ledger::derive_with(trace, &timelines, &roles);
    Begun { timelines, roles, ledger }
}

fn lock_uses(
    (trace, roles): (&Trace, &roles::Roles),
    index: &locks::LockIndex,
    blame: &blame::Blame,
) -> Vec<locks::LockUse> {
    let mut all = locks::derive_with(trace, roles);
    locks::add_holders(&mut all, trace, index, blame);
    all
}

fn allocated(trace: &Trace, roles: &roles::Roles) -> stacks::Allocated {
    let whole = stacks::Selection { descriptors: roles.descriptors.clone(), ..stacks::Selection::all() };
    stacks::Allocated::derive(trace, &whole, &stacks::Folding::built_in())
}

fn spun(
    trace: &Trace,
    ledger: &ledger::Ledger,
    (roles, timelines, rendezvous): (&roles::Roles, &timelines::Timelines, &rendezvous::Rendezvous),
) -> Vec<spin::SpinUse> {
    spin::derive(trace, ledger, &spin::Facts { roles, timelines, rendezvous })
}

/// Barriers, joins and stop-the-world pauses.
fn rendezvous_of(facts: replay::Facts) -> rendezvous::Rendezvous {
    let endings = replay::Endings::new(facts);
    rendezvous::derive(facts.trace, facts.roles.sample_classes(), (facts.timelines, facts.roles), &endings)
}

/// The rest: why, and what to do. `timelines`, `roles` and `ledger` are those of [`begin`].
pub fn complete(
    trace: &Trace,
    timelines: &timelines::Timelines,
    (roles, ledger): (roles::Roles, ledger::Ledger),
) -> Analysis {
    let (occupancy, parallelism, bottles) = occupancy::derive(trace, timelines, &roles);
    let syscall_rates = syscall_rates::derive(trace);
    let holders = holders::Holders::derive(trace, &occupancy.locks, &roles);
    let index = &occupancy.locks;
    let facts = blame::Facts { trace, timelines, locks: index, holders: &holders };
    let whole = replay::Facts { trace, timelines, roles: &roles, locks: index, cpus: occupancy.cpus };
    let meetings = || rendezvous_of(whole);
    // The walk of the critical path is sequential. All other facts are derived in parallel with it.
    let path = || critical_path::derive(trace, &roles, &holders);
    let (critical_path, others) = parallel::both(path, || {
        let (blame, rendezvous) = parallel::both(|| blame::derive(facts), meetings);
        let lock_uses = lock_uses((trace, &roles), index, &blame);
        let gc = gc::derive(trace, &roles);
        let said = &asking::heard(trace, &holders);
        let calls = calls::derive(trace);
        Derived {
            garbage: garbage::derive(trace, &gc, &ledger, (&roles, timelines)),
            gc,
            hardware: hardware::derive(trace, &roles, &ledger),
            lock_holding: lock_holding::derive_worst(trace, &roles, (index, &holders), &lock_uses),
            waits: blame::by_kind(trace, &blame),
            busiest: busiest::derive(trace, &roles),
            known_work: known_work::derive(trace, &ledger, &roles),
            interpreted: interpreted::derive(trace, &ledger, &roles),
            children: children::derive((trace, &roles), &ledger, (&holders, &blame)),
            clocked: clocked::derive(trace, |slice| roles.is_idle_sleep(trace, slice)),
            asking: asking::derive(trace, &holders, said),
            asked_in_groups: asked_in_groups::derive(trace, &holders, said),
            skews: skew::derive(trace, &holders, said),
            peers: peers::derive(trace, &said.0),
            blame,
            cpu_times: cpu_times::derive(trace, timelines),
            cpus: cpus::derive_with(trace, timelines),
            locks: lock_uses,
            syscalls: syscalls::derive_with(trace, &ledger, &syscall_rates),
            temporary_files: temporary_files::derive(&calls),
            calls,
            allocated: allocated(trace, &roles),
            paging: paging::derive(trace, &ledger, timelines),
            services: services::derive(trace, &ledger, (&roles, timelines)),
            regions: regions::derive(trace, &roles, &ledger),
            task_locks: task_locks::derive(trace, &roles, occupancy.cpus),
            tasks: tasks::derive(trace, &ledger, (&roles, timelines)),
            lines: lines::derive(trace, &ledger, (&roles, timelines)),
            spins: spun(trace, &ledger, (&roles, timelines, &rendezvous)),
            rendezvous,
            runtimes: runtimes::derive(trace, &roles, &ledger),
            runtime_events: runtimes::event_counts(trace),
            ..Derived::default()
        }
    });
    let derived = Derived {
        critical_path,
        bottles,
        syscall_rates,
        roles,
        ledger,
        parallelism,
        occupancy,
        holders,
        ..others
    };
    judged(trace, timelines, derived)
}

fn judged(trace: &Trace, timelines: &timelines::Timelines, derived: Derived) -> Analysis {
    let derived = Derived { nodes: nodes::derive(trace, &derived.cpus), ..derived };
    let facts = replay::Facts {
        trace,
        timelines,
        roles: &derived.roles,
        locks: &derived.occupancy.locks,
        cpus: derived.occupancy.cpus,
    };
    let rules::Judgement { findings, charges, symptoms, skipped } = rules::judge(facts, &derived);
    Analysis { derived, findings, symptoms, charges, skipped }
}
