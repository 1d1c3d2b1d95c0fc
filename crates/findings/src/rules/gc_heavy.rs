//! # gc-heavy: a collector that does not report allocations takes much of the threads' time
//!
//! ## Symptoms
//! Samples in the collector's functions, and waits for a collection to begin, continue or end. The
//! descriptors of runtimes identify them (`holdup report runtimes`), or probes do: Go, the JVM, GHC, V8,
//! CPython, BEAM, and OCaml programs to which holdup was attached. `gc-pressure` has more facts, and judges
//! programs whose runtime reports its allocations.
//!
//! ## Why it hurts
//! A thread that collects, or is stopped while others collect, makes no progress. With several threads a
//! pause also costs the time until the last of them has stopped. A long loop or copy that cannot be
//! interrupted delays all others.
//!
//! ## How it decides
//! It judges each thread with a fair share of the program's own work. Its cost is the time in which it
//! collected (sampled) or waited for a collection (exact). A finding needs a tenth of the time that such a
//! thread ran and waited for collections. The upper bound of the gain removes this time from the thread with
//! the highest cost, and its waits for a CPU to collect on. The lower bound is half as many collections, for
//! the thread with the lowest cost.
//!
//! stop-the-world-latecomer reports the waits for the last thread to stop, unless the program requests most
//! pauses itself. This rule reports threads that need more CPUs than there are because they collect.
//!
//! ## What to do
//! If the program requests the collections or pauses itself (`System.gc()`, also by direct buffers at their
//! limit; `runtime.ReadMemStats`), remove these calls. Allocate less where the collector is called from
//! (`report stacks`). Use a larger heap or nursery. Let threads stop sooner: shorter loops and copies without
//! a safepoint.
//!
//! ## Blind spots
//! The allocations between two collections are not known. Memory that is slower after a collection, and
//! barriers that the compiler adds to the program's code, are not seen. A concurrent collector's threads use
//! CPU time in parallel with the program, which is not in the gain.
//!
//! ## References
//! Jones, Hosking, Moss: The Garbage Collection Handbook (2nd edition, 2023).

use holdup_events::ThreadId;
use holdup_events::tables::{SampleRow, Slice, ThreadState};

use crate::charge::Charge;
use crate::collecting;
use crate::derive::class::Class;
use crate::derive::ledger::ThreadLedger;
use crate::derive::requested::{self, Requested};
use crate::derive::runtimes::{RoleUse, RuntimeUse};
use crate::derive::samples_of;
use crate::descriptors::Role;
use crate::finding::{About, Confidence, Finding, Gain};
use crate::rule::{Charged, ChargedVerdict, Explains, HALF_MEMORY, Info, OCAML, Remedy, Rule};
use crate::scene::{GAIN_MIN, Scene};
use crate::wording::{count, percent, thread, time};

pub(super) static INFO: Info = Info {
    explains: &[
        // Threads that wait for each other because they stop for a collection.
        Explains::shared(&super::barrier_straggler::INFO),
        Explains::shared(&super::wakeup_ping_pong::INFO),
        // Threads that want a CPU only to collect on it.
        Explains::shared(&super::oversubscription::INFO),
    ],
    remedies: &[
        Remedy::new(OCAML, "minor-heap", &["1M", "8M"], "fewer minor collections"),
        Remedy::new(&["go"], "gogc", &["200", "400"], "fewer collections"),
        Remedy::new(&["hotspot"], "heap", &[HALF_MEMORY], "fewer collections"),
    ],
    ..Info::new("gc-heavy", "Garbage collection without allocation counts takes a large part of the time")
};

/// Minimum share of the program's own work, for a thread to be one that collections delay.
const WORKS_MIN: f64 = 0.05;
/// Less of a thread's time is what collections cost everywhere.
const SHARE_MIN: f64 = 0.1;
/// Fewer samples and waits may be the program's start.
const SEEN_MIN: u64 = 20;
/// Minimum share of the collections' time that is due to requests by the program, to be reported.
const ASKED_MIN: f64 = 0.1;
/// Maximum number of parts that are reported individually.
const PARTS_MAX: usize = 5;

pub(super) struct GcHeavy;

impl Rule for GcHeavy {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        let telling = collecting::telling(&scene.derived.gc);
        let is_judged = |thread: ThreadId| {
            scene.trace.threads.get(thread.index()).is_some_and(|row| !telling.contains(&row.process))
        };
        let mut uses: Vec<(&RuntimeUse, &RoleUse)> = collectors(scene);
        let seen: u64 = uses.iter().map(|(_, part)| part.samples + part.waits).sum();
        if seen < SEEN_MIN {
            return Ok(Vec::new());
        }
        let asked = requested::derive(scene.trace, &scene.derived.roles, is_judged);
        // If the program requests the pauses, the lateness of the last thread to stop is part of their cost.
        let with_late = asked.as_ref().is_some_and(Requested::is_most);
        let costs = workers(scene).filter(|one| is_judged(one.thread)).map(|one| cost(scene, one, with_late));
        let works: Vec<Cost> = costs.collect();
        let heavy = works.iter().filter(|one| one.share() >= SHARE_MIN);
        let Some(worst) = heavy.max_by_key(|one| (one.ns(), std::cmp::Reverse(one.thread.thread))) else {
            return Ok(Vec::new());
        };
        // The reported collector is that of the thread's own runtime.
        uses.sort_by_key(|(runtime, _)| !has_runtime(scene, worst.thread.thread, &runtime.name));
        let high = scene.of_wall(worst.ns() as f64 + worst.queued_ns()).clamp(0.0, 1.0);
        let halved = works.iter().map(|one| scene.of_wall(one.work_ns as f64 / 2.0));
        let gain = Gain { low: halved.fold(high, f64::min), high };
        if high < GAIN_MIN {
            return Ok(Vec::new());
        }
        let waits = |slice: &Slice| {
            slice.state == ThreadState::Blocked
                && is_judged(slice.thread)
                && scene.class(slice) == Some(Class::GcWait)
        };
        let waited = Charge::matching(scene.trace, waits);
        let evidence = scene.longest_of(&waited, |_| "waits for a collection".to_owned());
        let asked = asked.filter(|asked| asked.share >= ASKED_MIN);
        let finding = Finding {
            rule: INFO.name,
            about: About::Other,
            subject: subject(&uses),
            summary: summary(scene, worst, &uses)
                .into_iter()
                .chain(asked.as_ref().map(collecting::requested_sentence))
                .collect(),
            cost_ns: works.iter().map(Cost::ns).sum(),
            gain,
            likely: None,
            confidence: scene.confidence(Confidence::Medium),
            evidence,
            advice: advice(&uses, asked.as_ref()),
        };
        let charge = waited.and(scene.trace, &collecting::queues(scene, is_judged));
        Ok(vec![Charged { finding, charge }])
    }
}

/// Cost of collections for one thread.
struct Cost<'a> {
    thread: &'a ThreadLedger,
    /// Collecting time (ns).
    work_ns: u64,
    /// Waits for collections (ns). Without the waits for the last thread to stop, unless the program requests
    /// most collections.
    wait_ns: u64,
}

impl Cost<'_> {
    fn ns(&self) -> u64 {
        self.work_ns + self.wait_ns
    }

    /// The cost as a share of the thread's running time and waits for collections.
    fn share(&self) -> f64 {
        self.ns() as f64 / (self.thread.running_ns() + self.wait_ns).max(1) as f64
    }

    /// Waits for a CPU to collect on (ns).
    fn queued_ns(&self) -> f64 {
        let queued = self.thread.classes[Class::RunQueue as usize] as f64;
        queued * self.work_ns as f64 / self.thread.running_ns().max(1) as f64
    }
}

fn cost<'a>(scene: &Scene, thread: &'a ThreadLedger, with_late: bool) -> Cost<'a> {
    let process = scene.trace.threads.get(thread.thread.index()).map(|row| row.process);
    let process = process.filter(|_| !with_late);
    let late = process.map_or(0, |process| collecting::waited_for_last_ns(scene, process));
    let [work_ns, wait_ns] = [Class::GcWork, Class::GcWait].map(|class| thread.classes[class as usize]);
    Cost { thread, work_ns, wait_ns: wait_ns.saturating_sub(late) }
}

/// Threads with a fair share of the program's own work. Pauses of a compiler thread delay no work.
fn workers<'a>(scene: &Scene<'a>) -> impl Iterator<Item = &'a ThreadLedger> {
    let (ledger, scene) = (&scene.derived.ledger, *scene);
    let enough = WORKS_MIN * ledger.class_ns(Class::Useful) as f64;
    ledger.threads.iter().filter(move |one| {
        let useful = one.classes[Class::Useful as usize];
        useful > 0 && useful as f64 >= enough && !compiles(&scene, one.thread)
    })
}

/// Whether a runtime's compiler is most of the thread's running time.
fn compiles(scene: &Scene, thread: ThreadId) -> bool {
    let roles = &scene.derived.roles;
    let is_compiling = |sample: &&SampleRow| roles.role_of_sample(sample) == Some(Role::JitCompile);
    let samples = samples_of(scene.trace, thread);
    2 * samples.iter().filter(is_compiling).count() > samples.len()
}

/// Runtimes with their collecting time, the costliest first.
fn collectors<'a>(scene: &Scene<'a>) -> Vec<(&'a RuntimeUse, &'a RoleUse)> {
    let runtimes = scene.derived.runtimes.iter();
    let mut uses: Vec<(&RuntimeUse, &RoleUse)> = runtimes
        .flat_map(|runtime| runtime.roles.iter().map(move |part| (runtime, part)))
        .filter(|(_, part)| matches!(part.role, Role::GcWork | Role::GcWait))
        .collect();
    uses.sort_by_key(|(_, part)| std::cmp::Reverse(part.running_ns + part.blocked_ns));
    uses
}

/// Whether a thread is of a process that has that runtime.
fn has_runtime(scene: &Scene, thread: ThreadId, name: &str) -> bool {
    let process = scene.trace.threads.get(thread.index()).map(|row| row.process);
    process.is_some_and(|process| scene.derived.roles.runtimes_in(process).any(|one| one.name == name))
}

fn subject(uses: &[(&RuntimeUse, &RoleUse)]) -> String {
    uses.first().map_or_else(String::new, |(runtime, _)| format!("collector of {}", runtime.title))
}

fn summary(scene: &Scene, worst: &Cost, uses: &[(&RuntimeUse, &RoleUse)]) -> Vec<String> {
    let mut lines = vec![format!(
        "{} collected for {} and waited for collections for {}: {} of their running and waiting time.",
        thread(scene.trace, worst.thread.thread),
        time(worst.work_ns),
        time(worst.wait_ns),
        percent(worst.share()),
    )];
    let said = |part: &RoleUse| {
        let what = if part.what.is_empty() { "collections" } else { part.what.as_str() };
        format!(
            "{what} {} ({})",
            time(part.running_ns + part.blocked_ns),
            count(u64::from(part.threads), "thread")
        )
    };
    let parts: Vec<String> = uses.iter().take(PARTS_MAX).map(|(_, part)| said(part)).collect();
    lines.push(format!("All threads: {}.", parts.join(" · ")));
    lines
}

fn advice(uses: &[(&RuntimeUse, &RoleUse)], asked: Option<&Requested>) -> Vec<String> {
    let knob = uses.first().map_or("", |(runtime, _)| runtime.fewer_collections.as_str());
    let knob = if knob.is_empty() { "Use a larger heap: fewer collections" } else { knob };
    match asked {
        // What asks for collections asks again, however large the heap is.
        Some(asked) if asked.is_most() => vec![asked.advice.clone()],
        asked => asked
            .map(|asked| asked.advice.clone())
            .into_iter()
            .chain([
                knob.to_owned(),
                "Allocate less where collections are triggered: holdup report stacks --callers".to_owned(),
            ])
            .collect(),
    }
}
