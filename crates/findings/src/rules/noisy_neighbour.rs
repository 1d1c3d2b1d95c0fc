//! # noisy-neighbour: other programs use the CPUs
//!
//! ## Symptoms
//! Runnable threads that wait for a CPU used by a thread of another program, or of the kernel, and the name
//! of that thread. It also sees threads that wait behind a thread of their own program while another program
//! uses a CPU on which they might have run.
//!
//! ## Why it hurts
//! The program gets less of the machine than it seems. One thread that is delayed in this way delays all
//! threads that wait for it.
//!
//! ## How it decides
//! At each moment, it counts the threads that wait for a CPU and find none idle. It counts at most as many as
//! there are running threads of other programs. The upper bound of the gain assumes that they had run at once
//! and that the work was spread evenly. The lower bound is the wait of the active thread that waited least.
//!
//! Delays behind the program's own threads belong to oversubscription. The exception is if the CPUs would be
//! sufficient for all runnable threads without the other program. The waiting thread must be allowed on
//! another CPU. A thread that is bound to a CPU waits for its own. Programs whose names cannot be read
//! (outside this PID namespace) count as one. A program that repeatedly wakes the program's threads by its
//! own calls exchanges messages with it: a database or a client on the same machine. It is reported
//! separately, and only as a hint. CPU time of the recorder is part of the cost of recording.
//!
//! ## What to do
//! Move the neighbour (to another machine, or to other CPUs by `taskset` or cpusets), or run it at a lower
//! weight. Or start fewer threads than there are CPUs. For a kernel thread, find the source of its work.
//!
//! ## Blind spots
//! Time that a hypervisor gives to other guests is no neighbour on this machine: see the line `stolen`. A
//! neighbour that uses caches and memory bandwidth, but no CPU time, is not seen. Interrupts are charged to
//! the thread that they interrupt.
//!
//! ## References
//! Linux `sched(7)`, `cpuset(7)`, `taskset(1)`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use holdup_events::tables::{Slice, ThreadState};
use holdup_events::{ProcessId, ThreadId, Trace};

use crate::analysis::Derived;
use crate::charge::Charge;
use crate::derive::displaced::{Displaced, Elsewhere, may_move};
use crate::derive::parallel;
use crate::derive::partners::Partners;
use crate::derive::replay::Change;
use crate::finding::{About, Confidence, Finding, Gain};
use crate::gains::narrowed;
use crate::removal::Removal;
use crate::rule::{Cause, Charged, ChargedVerdict, Estimate, Info, Remedy, Rule};
use crate::scene::{GAIN_MIN, Scene};
use crate::wording::{count, other_program, percent, time};

pub(super) static INFO: Info = Info {
    waits_only: true,
    estimate: Estimate::Replayed,
    remedies: &[Remedy::new(&[], "nice", &["-5"], "a larger CPU share than other programs")],
    ..Info::new("noisy-neighbour", "Other programs use CPUs that the program's threads wait for")
};

/// Maximum number of time intervals used to attribute the waits, over all groups of threads: 20 million take
/// about a tenth of a second. Many threads may wait for one CPU at a time, and each wait covers all threads
/// that ran on the CPU during it.
const STRETCHES_MAX: usize = 20_000_000;

pub(super) struct NoisyNeighbour;

impl Rule for NoisyNeighbour {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        scene.needs_other_programs()?;
        let enough = |part: f64| part * scene.of_wall(scene.derived.occupancy.others.saved_ns) >= GAIN_MIN;
        if !enough(1.0) {
            return Ok(Vec::new());
        }
        let waits = Waits::derive(scene);
        let blame = blame(scene, &waits);
        let all: u64 = blame.iter().map(|(_, ns)| ns).sum();
        let partners = Partners::new(scene.trace);
        // The report's header states the cost of recording. It does not exist in production.
        let of_others = |is_partner: bool| {
            let others = blame.iter().filter(|(process, _)| !is_recorder(scene.trace, *process));
            let blame = others.filter(|(process, _)| partners.contains(*process) == is_partner);
            Neighbours::new(blame.copied().collect(), all)
        };
        let (strangers, working) = (of_others(false), of_others(true));
        let finding = if enough(strangers.part) {
            strangers.finding(scene, &waits)
        } else if enough(working.part) {
            working.partners_finding(scene, &waits, &partners)
        } else {
            None
        };
        let charged = finding.map(|finding| {
            let charge = waits.charge(scene);
            Charged { finding: Finding { evidence: scene.longest_queues(&charge), ..finding }, charge }
        });
        Ok(charged.into_iter().collect())
    }

    fn removal(&self, _cause: &Cause) -> Option<Removal> {
        Some(Removal::exact(vec![Change::WithoutOthers]))
    }

    fn gain(&self, cause: &Cause, forecast: Gain) -> Gain {
        let part = share_without_recorder(cause.derived(), cause.finding);
        narrowed(cause, Gain { low: part * forecast.low, high: part * forecast.high })
    }
}

/// The share of the waits for CPUs used by other programs that is not due to the recorder.
fn share_without_recorder(derived: &Derived, finding: &Finding) -> f64 {
    (finding.cost_ns as f64 / derived.ledger.run_queue.others_ns.max(1) as f64).min(1.0)
}

/// Other programs that had the CPUs, and what part of the waits is theirs.
struct Neighbours {
    /// Running time of each process while threads waited (ns), the longest first.
    blame: Vec<(ProcessId, u64)>,
    /// Share of the running time of all other processes.
    part: f64,
}

impl Neighbours {
    fn new(blame: Vec<(ProcessId, u64)>, all_ns: u64) -> Neighbours {
        let blamed: u64 = blame.iter().map(|(_, ns)| ns).sum();
        Neighbours { blame, part: blamed as f64 / all_ns.max(1) as f64 }
    }

    fn finding(&self, scene: &Scene, waits: &Waits) -> Option<Finding> {
        let (worst, _) = *self.blame.first()?;
        let part = self.part;
        let others_ns = (part * waits.how_long.all_ns() as f64).round() as u64;
        // The occupant of a bound thread's CPU is known. The free capacity of all CPUs together does not
        // apply.
        let most = scene.of_wall(others_ns as f64);
        let gain = scene.gain(&scene.derived.occupancy.others, |_, waited| waited);
        Some(Finding {
            rule: INFO.name,
            about: About::Other,
            subject: self.subject(scene),
            summary: self.summary(scene, waits, others_ns),
            cost_ns: others_ns,
            gain: Gain { low: (part * gain.low).min(most), high: (part * gain.high).min(most) },
            likely: None,
            confidence: scene.confidence(Confidence::High),
            evidence: Vec::new(),
            advice: vec![
                format!(
                    "Keep {} off these CPUs (taskset, cpuset) or run it elsewhere",
                    other_program(scene.trace, worst)
                ),
                "Or record again while the machine is otherwise idle: other causes may come first then"
                    .into(),
            ],
        })
    }

    /// The program that used most of these CPUs, or several if none used most.
    fn subject(&self, scene: &Scene) -> String {
        let blamed: u64 = self.blame.iter().map(|(_, ns)| ns).sum();
        let Some((worst, ns)) = self.blame.first() else { return String::new() };
        let name = other_program(scene.trace, *worst);
        if 2 * ns >= blamed {
            return name;
        }
        format!("{}, most of all {name}", count(self.blame.len() as u64, "other program"))
    }

    /// The finding where these programs are servers or clients of the target. Other CPUs for them help, leaving them out does not.
    fn partners_finding(&self, scene: &Scene, waits: &Waits, partners: &Partners) -> Option<Finding> {
        let (worst, _) = *self.blame.first()?;
        let mut finding = self.finding(scene, waits)?;
        finding.summary.push(format!(
            "This program exchanges messages with the target: its processes woke the target's threads {} by their own calls.",
            count(partners.wakeups_by(scene.trace, worst), "time")
        ));
        finding.confidence = scene.confidence(Confidence::Low);
        finding.advice = vec![
            format!(
                "Run {} on another machine or on CPUs of its own, as in production",
                other_program(scene.trace, worst)
            ),
            "Or exchange fewer messages with it: it works for the target, or the target for it".into(),
        ];
        Some(finding)
    }

    fn summary(&self, scene: &Scene, waits: &Waits, others_ns: u64) -> Vec<String> {
        let blamed: u64 = self.blame.iter().map(|(_, ns)| ns).sum();
        let share = |ns: u64| percent(ns as f64 / blamed.max(1) as f64);
        let named =
            |(id, ns): &(ProcessId, u64)| format!("{} {}", other_program(scene.trace, *id), share(*ns));
        let mut summary = Vec::new();
        if let Some((worst, ns)) = self.blame.first() {
            summary.push(format!(
                "Threads waited {} ({} of their time) for a CPU that another program used. {} accounts for {} of it.",
                time(others_ns),
                percent(scene.of_thread_time(others_ns)),
                other_program(scene.trace, *worst),
                share(*ns),
            ));
        }
        let rest: Vec<String> = self.blame.iter().skip(1).take(3).map(named).collect();
        if !rest.is_empty() {
            summary.push(format!("Also: {}.", rest.join(", ")));
        }
        if waits.elsewhere.is_some() {
            let elsewhere_ns = (self.part * waits.how_long.elsewhere_ns as f64).round() as u64;
            summary.push(format!(
                "{} of it was behind the program's own threads, which shared the CPUs that other programs left.",
                time(elsewhere_ns)
            ));
        }
        summary
    }
}

/// The waits that other programs cause.
struct Waits<'a> {
    how_long: Displaced,
    /// Threads that could have run on another CPU, and which these are, where that matters.
    elsewhere: Option<(BTreeSet<ThreadId>, Elsewhere<'a>)>,
}

impl<'a> Waits<'a> {
    fn derive(scene: &Scene<'a>) -> Waits<'a> {
        let (trace, derived) = (scene.trace, scene.derived);
        let how_long = Displaced::derive(trace, &derived.ledger, &derived.occupancy.others);
        if scene.of_wall(how_long.elsewhere_ns as f64) < GAIN_MIN {
            return Waits { how_long: Displaced { elsewhere_ns: 0, ..how_long }, elsewhere: None };
        }
        let movable = derived.ledger.threads.iter().filter(|thread| may_move(trace, thread));
        let movable = movable.map(|thread| thread.thread).collect();
        Waits { how_long, elsewhere: Some((movable, Elsewhere::new(trace, scene.timelines))) }
    }

    /// On which other CPUs the thread might run that waits.
    fn elsewhere(&self, thread: ThreadId) -> Option<&Elsewhere<'a>> {
        let elsewhere = self.elsewhere.as_ref().filter(|(movable, _)| movable.contains(&thread));
        elsewhere.map(|(_, elsewhere)| elsewhere)
    }

    fn charge(&self, scene: &Scene) -> Charge {
        let direct = scene.queues(false);
        if self.elsewhere.is_none() {
            return direct;
        }
        let elsewhere = Charge::of_rows(scene.trace, |thread, take| {
            let Some(elsewhere) = self.elsewhere(thread) else { return };
            let mut cursors = vec![0; scene.timelines.len()];
            for (row, slice) in scene.trace.slices.rows(thread).zip(scene.trace.slices.of_thread(thread)) {
                if is_cpu_wait(&slice) && elsewhere.is_taken(&slice, &mut cursors) {
                    take(row);
                }
            }
        });
        direct.and(scene.trace, &elsewhere)
    }
}

fn is_cpu_wait(slice: &Slice) -> bool {
    slice.state.waits_for_cpu() && slice.state != ThreadState::Throttled
}

/// Which foreign processes ran while target threads waited for that CPU, or for any if they might run there (ns), the
/// longest first.
fn blame(scene: &Scene, waits: &Waits) -> Vec<(ProcessId, u64)> {
    let trace = scene.trace;
    let groups = parallel::thread_groups(trace);
    let parts = parallel::map(groups.len(), |group| {
        let mut by_process: BTreeMap<ProcessId, u64> = BTreeMap::new();
        let mut budget = STRETCHES_MAX / groups.len();
        for thread in groups[group].clone().map(ThreadId) {
            if trace.threads[thread.index()].target {
                add_blame(scene, (thread, waits), &mut budget, &mut by_process);
            }
        }
        by_process
    });
    let mut by_process: BTreeMap<ProcessId, u64> = BTreeMap::new();
    for (process, ns) in parts.into_iter().flatten() {
        *by_process.entry(process).or_default() += ns;
    }
    let mut ranked: Vec<(ProcessId, u64)> = by_process.into_iter().collect();
    ranked.sort_by_key(|(process, ns)| (Reverse(*ns), *process));
    ranked
}

fn add_blame(
    scene: &Scene,
    (thread, waits): (ThreadId, &Waits),
    budget: &mut usize,
    sums: &mut BTreeMap<ProcessId, u64>,
) {
    let mut cursors = vec![0; scene.timelines.len()];
    for slice in scene.trace.slices.of_thread(thread).filter(is_cpu_wait) {
        let elsewhere =
            waits.elsewhere(thread).into_iter().flat_map(|elsewhere| elsewhere.other_cpus(&slice));
        for cpu in std::iter::once(slice.cpu).chain(elsewhere) {
            let (Some(timeline), Some(near)) =
                (scene.timelines.of_cpu(cpu), cursors.get_mut(usize::from(cpu.0)))
            else {
                continue;
            };
            let stretches = timeline.between_near(slice.start, slice.end, near);
            if stretches.len() >= *budget {
                return;
            }
            *budget -= stretches.len() + 1;
            for stretch in stretches.iter().filter(|stretch| !stretch.own()) {
                let ns = stretch.end().min(slice.end).since(stretch.start().max(slice.start)).0;
                let process = scene.trace.threads[stretch.thread().index()].process;
                *sums.entry(process).or_default() += ns;
            }
        }
    }
}

fn is_recorder(trace: &Trace, process: ProcessId) -> bool {
    let pid = trace.processes.get(process.index()).map_or(0, |process| process.pid);
    pid != 0 && pid == trace.manifest.recorder_pid
}
