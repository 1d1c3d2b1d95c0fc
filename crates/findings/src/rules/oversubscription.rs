//! # oversubscription: more threads are runnable than there are CPUs
//!
//! ## Symptoms
//! Runnable threads that wait for a CPU used by another thread of the same program.
//!
//! ## Why it hurts
//! By itself, sharing CPUs costs little. It costs much if threads depend on each other. A thread that holds a
//! lock, or is the last to reach a barrier, waits for a CPU. All other threads wait for it, or spin on the
//! CPU that it needs.
//!
//! ## How it decides
//! Threads must spend a fair share of their time waiting for a CPU behind the program's own threads. More of
//! them must be runnable than there are CPUs. Two threads that share a CPU because another program uses the
//! other CPU are not too many.
//!
//! The lower bound of the gain is the direct cost of the switches that preemption forced. The upper bound is
//! the time that the run would be shorter if each of these threads had had a CPU at once. That needs as many
//! CPUs as threads. If the CPUs were used by spinning waiters, fewer threads have the same effect. It is at
//! most the CPUs' idle and spinning time, because fewer threads have the same work.
//!
//! Threads that only compute (they hardly wait for each other, spin or yield) give no finding: fewer threads
//! would have the same work. The report of a compute-bound program then has a note on their number.
//!
//! The finding is only a hint in three cases. In the first, the threads are hardly seen to spin or to yield,
//! so fewer threads would have to do the CPUs' work as well. In the second, the active threads hardly wait
//! for each other, and there are no samples. In the third, the mean number of runnable threads is at most the number of CPUs, so the
//! delays are due to their timing.
//!
//! ## What to do
//! Start as many threads as there are CPUs that the program may use (its affinity and cgroup limit count, not
//! the machine's size). Do not nest pools (a pool per library, each as wide as the machine). If a runtime's
//! threads are most of the busy ones, the finding names the runtime and the option for their number. If the
//! CPUs are used by work, it names the function with most of the work. It adds the work's purpose if a
//! descriptor knows it (docs/descriptors.md, `[[work]]`). Less of that work helps, fewer threads hardly do.
//!
//! ## Blind spots
//! A spinning thread looks like a working one, so the gain of fewer threads has bounds that are far apart.
//! Measure it with another number of threads.
//!
//! ## References
//! Ousterhout: Scheduling techniques for concurrent systems (1982). Linux `sched(7)`.

use std::collections::BTreeSet;

use holdup_events::tables::ThreadState;
use holdup_events::{ThreadId, Trace};

use crate::analysis::Derived;
use crate::charge::Charge;
use crate::derive::busiest::Busiest;
use crate::derive::class::Class;
use crate::derive::known_work::Known;
use crate::derive::occupancy::FAIR_PART;
use crate::derive::replay::Change;
use crate::derive::runtimes::RuntimeUse;
use crate::finding::{About, Confidence, Finding, Gain};
use crate::gains::narrowed;
use crate::removal::Removal;
use crate::rule::{CPUS, Cause, Charged, ChargedVerdict, Estimate, Info, OPENMP, Remedy, Rule};
use crate::scene::Scene;
use crate::wording::{count, percent, time};

pub(super) static INFO: Info = Info {
    waits_only: true,
    estimate: Estimate::Replayed,
    is_usual: true,
    remedies: &[
        Remedy::new(&["go"], "gomaxprocs", &[CPUS], "as many running threads as CPUs"),
        Remedy::new(OPENMP, "OMP_NUM_THREADS", &[CPUS], "as many OpenMP threads as CPUs"),
        Remedy::new(&["rayon"], "RAYON_NUM_THREADS", &[CPUS], "as many threads as CPUs"),
        Remedy::new(&["tokio"], "TOKIO_WORKER_THREADS", &[CPUS], "as many threads as CPUs"),
        Remedy::new(&[], "policy", &["batch"], "longer time slices"),
    ],
    ..Info::new("oversubscription", "The program has more runnable threads than CPUs")
};

/// Less of the threads' time on the queue than this is ordinary jitter.
const QUEUE_SHARE_MIN: f64 = 0.05;

/// Direct cost of a forced switch on current x86-64 machines (ns): 1 to 3 µs are usual figures.
const SWITCH_NS: f64 = 2000.0;

/// Active threads that wait for each other for this share of their time depend on each other.
const COUPLED_MIN: f64 = 0.02;

/// Minimum share of their CPU time that is spent spinning, for the waits themselves to use CPUs that working
/// threads need.
const SPIN_MIN: f64 = 0.05;

pub(super) struct Oversubscription;

impl Rule for Oversubscription {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        let (ledger, occupancy) = (&scene.derived.ledger, &scene.derived.occupancy);
        let own_ns = ledger.run_queue.own_ns.min(scene.derived.parallelism.beyond_ns(occupancy.cpus));
        // Threads also queue behind their own program if another program uses the other CPUs. Then the number of
        // threads is not the cause.
        let part = own_ns as f64 / ledger.run_queue.own_ns.max(1) as f64;
        let wanting = scene.derived.parallelism.wanting_mean();
        if scene.of_thread_time(own_ns) < QUEUE_SHARE_MIN {
            return Ok(Vec::new());
        }
        let preempted: u64 = ledger.threads.iter().map(|thread| thread.preempted).sum();
        let cpus = f64::from(occupancy.cpus);
        let high = scene.of_wall(part * occupancy.own.saved_ns).clamp(0.0, 1.0);
        let low = scene.of_wall(preempted as f64 * SWITCH_NS / cpus).min(high);
        let charge = scene.queues(true);
        let sharing = Sharing::derive(scene, &charge);
        let (dependence, runtime) = (dependence(scene), runtime_of(scene, sharing));
        if dependence == Dependence::None {
            return Ok(Vec::new());
        }
        let mut summary = vec![
            format!(
                "Threads spent {} ({} of their time) waiting for a CPU that another thread of the program used.",
                time(own_ns),
                percent(scene.of_thread_time(own_ns)),
            ),
            format!(
                "On average {wanting:.1} threads were runnable on {}. {}.",
                count(u64::from(occupancy.cpus), "CPU"),
                count(preempted, "preemption"),
            ),
        ];
        summary.extend(dependence.note().map(String::from));
        let work = scene.derived.busiest.as_ref().filter(|_| dependence.is_work());
        let known = scene.derived.known_work.as_ref().filter(|_| dependence.is_work());
        summary.extend(work.map(in_what));
        summary.extend(known.map(Known::sentence));
        // If the mean number of runnable threads is below the number of CPUs, the delays are due to their timing,
        // not to their number.
        let waste = dependence == Dependence::Wasteful && wanting > cpus;
        let confidence = if waste { Confidence::Medium } else { Confidence::Low };
        let finding = Finding {
            rule: INFO.name,
            about: About::Other,
            subject: format!(
                "{} for {}",
                sharing.threads_text(runtime),
                count(u64::from(occupancy.cpus), "CPU")
            ),
            summary,
            cost_ns: own_ns,
            gain: Gain { low, high },
            likely: None,
            confidence: scene.confidence(confidence),
            evidence: scene.longest_queues(&charge),
            advice: advice(scene, (runtime, dependence), (known, work)),
        };
        Ok(vec![Charged { finding, charge }])
    }

    fn removal(&self, _cause: &Cause) -> Option<Removal> {
        Some(Removal::exact(vec![Change::WithoutClass(Class::RunQueue)]))
    }

    fn gain(&self, cause: &Cause, forecast: Gain) -> Gain {
        // A remedy may do less than leave the cause out: fewer threads are not more CPUs.
        let own = cause.finding.gain;
        let most = own.low + with_fewer_threads(cause.trace(), cause.derived());
        Gain { low: own.low, high: narrowed(cause, forecast).high.min(most).max(own.low) }
    }
}

/// Upper bound on the gain of fewer threads: the same work takes its CPU time on the same CPUs, without
/// spinning and idle time. Other programs remain, and keep their share of a CPU.
fn with_fewer_threads(trace: &Trace, derived: &Derived) -> f64 {
    let work = derived.ledger.work_ns() as f64;
    let others: u64 = derived.cpus.iter().map(|cpu| cpu.others_ns).sum();
    let all = f64::from(derived.occupancy.cpus.max(1)) * trace.wall().0.max(1) as f64;
    let capacity = (all - (1.0 - FAIR_PART) * others as f64).max(all * FAIR_PART);
    (1.0 - work / capacity).max(0.0)
}

/// If the CPUs are used by work, less work helps. Otherwise fewer threads help.
fn advice(
    scene: &Scene,
    (runtime, dependence): (Option<&RuntimeUse>, Dependence),
    (known, work): (Option<&Known>, Option<&Busiest>),
) -> Vec<String> {
    let fewer = match runtime {
        Some(runtime) => runtime.fewer_threads.clone(),
        None => format!("Use {} or fewer", count(u64::from(scene.derived.occupancy.cpus), "thread")),
    };
    let sleep = "Use a blocking wait instead of a spinning one where threads wait for each other";
    let spins = dependence == Dependence::Wasteful;
    let less = known.map(|known| known.advice.clone()).into_iter().chain(work.map(less_of));
    less.chain([fewer]).chain(spins.then(|| sleep.to_owned())).collect()
}

/// In which function it is that they work.
fn in_what(work: &Busiest) -> String {
    let (share, error) = (percent(work.share), percent(work.error));
    let mostly = work.mostly_in.as_ref().map(|(name, _)| format!(", mostly in {name}"));
    format!(
        "{share} ± {error} of the useful work is in {}{}.",
        work.display_name(),
        mostly.unwrap_or_default()
    )
}

/// Advice for CPUs that are fully used by work.
fn less_of(work: &Busiest) -> String {
    format!("Do less in {}: several callers may share one result", work.function)
}

/// Threads that share the CPUs.
#[derive(Clone, Copy)]
enum Sharing {
    /// Number of busy threads.
    Busy(u64),
    /// At most as many threads as CPUs are busy. Number of threads that queued at some time.
    ByTurns(u64),
}

impl Sharing {
    fn derive(scene: &Scene, queues: &Charge) -> Sharing {
        let busy = scene.active(|_| 0.0).len() as u64;
        if busy > u64::from(scene.derived.occupancy.cpus) {
            return Sharing::Busy(busy);
        }
        let queued: BTreeSet<ThreadId> = queues.slices(scene.trace).map(|slice| slice.thread).collect();
        Sharing::ByTurns(queued.len() as u64)
    }

    fn threads_text(self, runtime: Option<&RuntimeUse>) -> String {
        let threads = match self {
            Sharing::Busy(busy) => count(busy, "busy thread"),
            Sharing::ByTurns(queued) => format!("{} by turns", count(queued, "thread")),
        };
        runtime.map_or(threads.clone(), |runtime| format!("{threads} of {}", runtime.title))
    }
}

/// The runtime that determines the number of threads: its code was sampled in most threads that share the
/// CPUs.
fn runtime_of<'a>(scene: &'a Scene, sharing: Sharing) -> Option<&'a RuntimeUse> {
    let (Sharing::Busy(threads) | Sharing::ByTurns(threads)) = sharing;
    let seen_at = |used: &RuntimeUse| {
        let ran = used.roles.iter().filter(|role| role.samples > 0);
        ran.map(|role| u64::from(role.threads)).max().unwrap_or(0)
    };
    let all = scene.derived.runtimes.iter().filter(|used| !used.fewer_threads.is_empty());
    let ran_ns = |used: &RuntimeUse| -> u64 { used.roles.iter().map(|role| role.running_ns).sum() };
    all.filter(|used| 2 * seen_at(used) > threads).max_by_key(|used| ran_ns(used))
}

/// How those that share the CPUs depend on each other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dependence {
    /// The threads only compute: they neither wait for each other, nor spin, nor collect garbage together.
    None,
    /// The threads hardly wait for each other, but collect garbage, or there are no samples of their code.
    Hardly,
    /// The threads wait for each other asleep.
    Asleep,
    /// The threads wait for each other. There are no samples of their code.
    Unseen,
    /// The threads spin or yield while they wait, on CPUs that working threads need.
    Wasteful,
}

impl Dependence {
    /// Whether the CPUs are used by work.
    fn is_work(self) -> bool {
        matches!(self, Dependence::None | Dependence::Hardly | Dependence::Asleep)
    }

    /// A note for users before they start fewer threads.
    fn note(self) -> Option<&'static str> {
        match self {
            Dependence::Hardly => {
                Some("The threads hardly wait for each other: fewer threads gain little, unless they spin.")
            }
            Dependence::Asleep => {
                Some("They hardly spin: the CPUs ran work that fewer threads would have to do as well.")
            }
            Dependence::Unseen => Some("Whether they spin while they wait is unknown: there are no samples."),
            Dependence::None | Dependence::Wasteful => None,
        }
    }
}

/// Whether the active threads wait for each other, and hand the CPU on or spin for that.
fn dependence(scene: &Scene) -> Dependence {
    let (mut waiting, mut life, mut yields, mut preempted) = (0, 0, 0u64, 0);
    let (mut spun, mut ran, mut collecting) = (0, 0, 0);
    for thread in scene.active(|_| 0.0) {
        let class = |class: Class| thread.classes[class as usize];
        waiting += class(Class::LockWait) + class(Class::JoinWait) + class(Class::WorkWait);
        spun += class(Class::Spin);
        collecting += class(Class::GcWork) + class(Class::GcWait);
        ran += thread.running_ns();
        life += thread.life.0;
        preempted += thread.preempted;
        let slices = scene.trace.slices.of_thread(thread.thread);
        yields += slices.filter(|slice| slice.state == ThreadState::Yielded).count() as u64;
    }
    let waits = waiting as f64 >= COUPLED_MIN * life as f64;
    let collects = collecting as f64 >= COUPLED_MIN * life as f64;
    match (yields > preempted || spun as f64 >= SPIN_MIN * ran.max(1) as f64, waits) {
        (true, _) => Dependence::Wasteful,
        (false, true) if !scene.derived.ledger.split_known => Dependence::Unseen,
        (false, true) => Dependence::Asleep,
        (false, false) if scene.derived.ledger.split_known && !collects => Dependence::None,
        (false, false) => Dependence::Hardly,
    }
}
