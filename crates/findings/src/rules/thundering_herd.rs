//! # thundering-herd: one event wakes many threads, and all but one go back to sleep
//!
//! ## Symptoms
//! Threads that one call wakes together, that run briefly, possibly wait for the lock of the shared state,
//! and wait for the same object again. It reports how often they do so, and their CPU time, queueing and
//! waits for that lock.
//!
//! ## Why it hurts
//! Each of them uses a CPU, the lock and its caches only to find that another thread was faster. With n
//! waiters an event costs n times as much, and the thread with the work queues among the others.
//!
//! ## How it decides
//! A wakeup is in vain if its thread runs less than 10 µs and waits for the same object again. Each lock for
//! which it waits adds 10 µs. The same waker must also have woken another thread of that object at the same
//! time. A finding needs many waits for one object that end so. It is sure with a thousand, and most of the
//! waits. The costliest of several such objects is reported. The gain is that of the same run replayed. Lower
//! bound: without the activity of these threads until they sleep again, and without the kernel time to wake
//! them. Upper bound: also without the queue for a lock at which mostly they wait.
//!
//! ## What to do
//! Wake one thread: `pthread_cond_signal` or `notify_one` instead of broadcast. For sockets use
//! `EPOLLEXCLUSIVE` or `EPOLLONESHOT`, or one `SO_REUSEPORT` socket per thread. Use one queue per worker.
//!
//! ## Blind spots
//! Workers of a runtime that carries tasks (tokio, Go, rayon, ...) are left out: fine-tasks reports their
//! cost. Threads that wait for one socket by an epoll instance each are only reported as a herd if one call
//! wakes them. All of a process are reported as one. Those that use `poll` or `select` are not reported. A
//! thread that runs for longer than 10 µs before it sleeps again counts as working.
//!
//! ## References
//! Linux `epoll_ctl(2)` (`EPOLLEXCLUSIVE`), `pthread_cond_broadcast(3p)`. Stevens, Fenner, Rudoff: UNIX
//! Network Programming, vol. 1, 30.6 (2003).

mod removal;

use std::collections::BTreeMap;

use holdup_events::tables::ThreadState;
use holdup_events::{ProcessId, ThreadId, Wait, WaitId, WaitReason};

use crate::charge::Charge;
use crate::derive::class::Class;
use crate::derive::holders::Hold;
use crate::finding::{About, Confidence, Finding, Gain};
use crate::removal::Removal;
use crate::rule::{Cause, Charged, ChargedVerdict, Estimate, Explains, Info, Rule};
use crate::scene::{GAIN_MIN, Scene};
use crate::wording::{count, percent, thread, time};

pub(super) static INFO: Info = Info {
    estimate: Estimate::Replayed,
    explains: &[
        // A herd meets at the lock that it needs to look.
        Explains::shared(&super::lock_contention::INFO),
        Explains::shared(&super::lock_convoy::INFO),
        Explains::shared(&super::oversubscription::INFO),
    ],
    ..Info::new("thundering-herd", "One event wakes many threads, and all but one go back to sleep")
};

/// Fewer wakeups in vain may be starts and ends.
const VAIN_MIN: u64 = 100;

/// Minimum share of such threads' wakeups that is in vain. With less, most wakeups deliver work.
const VAIN_SHARE_MIN: f64 = 0.3;

/// Minimum number of wakeups in vain, and their minimum share of all, for a sure finding. Threads that check
/// for work before they sleep have fewer.
const SURE: (u64, f64) = (1000, 0.5);

/// Cost of wakeups in vain.
#[derive(Default)]
struct Vain {
    count: u64,
    waits: u64,
    run_ns: u64,
    /// Running, queueing, and waits for the locks of the shared state (ns).
    cost_ns: u64,
    threads: BTreeMap<ThreadId, u64>,
    /// One of the waits.
    wait: WaitId,
}

impl Vain {
    fn is_herd(&self) -> bool {
        self.count >= VAIN_MIN && self.count as f64 >= VAIN_SHARE_MIN * self.waits as f64
    }

    fn is_sure(&self) -> bool {
        self.count >= SURE.0 && self.count as f64 >= SURE.1 * self.waits as f64
    }
}

/// Whether most wakeups for the object of a process with the most wakeups in vain are in vain. The cost of
/// distributing work then follows from them.
pub(super) fn is_sure(scene: &Scene, process: ProcessId) -> bool {
    let things = tally(scene).into_iter().filter(|vain| scene.trace.wait(vain.wait).process == process);
    let most = things.max_by_key(|vain| (vain.count, std::cmp::Reverse(vain.wait)));
    most.is_some_and(|vain| vain.is_sure())
}

/// The costliest herd.
fn worst(scene: &Scene) -> Option<Vain> {
    let herds = tally(scene).into_iter().filter(Vain::is_herd);
    herds.max_by_key(|vain| (vain.cost_ns, vain.count, std::cmp::Reverse(vain.wait)))
}

pub(super) struct ThunderingHerd;

impl Rule for ThunderingHerd {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        scene.needs_wait_reasons()?;
        let trace = scene.trace;
        let holders = &scene.derived.holders;
        let vain = |id| holders.of_thread(id).filter(|hold| hold.false_wakeup).count() as u64;
        if trace.target_threads().map(vain).sum::<u64>() < VAIN_MIN {
            return Ok(Vec::new());
        }
        // The following steps are expensive if threads wait often.
        let Some(vain) = &worst(scene) else { return Ok(Vec::new()) };
        let its = object_key(trace.wait(vain.wait));
        let charge = Charge::of_rows(trace, |thread, take| {
            let is_its = |hold: &Hold| {
                object_key(trace.wait(trace.slices.at(thread, hold.row as usize).wait)) == its
                    && is_in_vain(scene, thread, hold)
            };
            for hold in holders.of_thread(thread).filter(is_its) {
                runs_behind(scene, thread, hold.row as usize).for_each(&mut *take);
            }
        });
        let calls =
            removal::calls(trace, scene.derived, &charge).taken() * scene.derived.ledger.running_ns() as f64;
        let high = scene.of_wall_if_run(vain.run_ns as f64 + calls);
        if high < GAIN_MIN {
            return Ok(Vec::new());
        }
        let most = vain.threads.iter().max_by_key(|(id, times)| (**times, std::cmp::Reverse(**id)));
        let finding = Finding {
            rule: INFO.name,
            about: About::Other,
            subject: format!(
                "{} that wait for one event ({}), mostly {}",
                count(vain.threads.len() as u64, "thread"),
                trace.wait(vain.wait).reason.name(),
                most.map_or("?".to_owned(), |(id, _)| thread(trace, *id)),
            ),
            summary: vec![format!(
                "{} of {} were useless ({}): the threads ran {} in total and went back to sleep.",
                count(vain.count, "wait"),
                vain.waits,
                percent(vain.count as f64 / vain.waits.max(1) as f64),
                time(vain.run_ns),
            )],
            cost_ns: charge.ns(),
            gain: Gain { low: 0.0, high },
            likely: None,
            confidence: scene.confidence(if vain.is_sure() { Confidence::High } else { Confidence::Medium }),
            evidence: scene.longest_of(&charge, |_| "woken together with others, without work".to_owned()),
            advice: vec![
                "Wake one thread per piece of work (signal, notify_one, EPOLLEXCLUSIVE), not all".into(),
                "Or give each thread its own queue or socket (SO_REUSEPORT)".into(),
            ],
        };
        Ok(vec![Charged { finding, charge }])
    }

    fn removal(&self, cause: &Cause) -> Option<Removal> {
        (!cause.charge.is_empty()).then(|| removal::wakeups(cause))
    }
}

/// Awaited object: a process and an object of it. `None` for several epoll instances that represent one
/// socket.
type Thing = (ProcessId, Option<u64>);

fn object_key(wait: &Wait) -> Thing {
    // A condition variable has two words.
    (wait.process, (wait.reason != WaitReason::Multiplex).then_some(wait.object & !7))
}

/// Cost of wakeups in vain, by awaited object.
fn tally(scene: &Scene) -> Vec<Vain> {
    let trace = scene.trace;
    let mut numbers: BTreeMap<Thing, usize> = BTreeMap::new();
    let mut number = |wait: &Wait| {
        let next = numbers.len();
        *numbers.entry(object_key(wait)).or_insert(next)
    };
    let of_wait: Vec<usize> = trace.waits.iter().map(&mut number).collect();
    let mut things: Vec<Vain> = Vec::new();
    things.resize_with(numbers.len(), Vain::default);
    for id in trace.target_threads() {
        for hold in scene.derived.holders.of_thread(id) {
            let wait = trace.slices.at(id, hold.row as usize).wait;
            let thing = of_wait.get(wait.index()).and_then(|number| things.get_mut(*number));
            let Some(vain) = thing else { continue };
            vain.waits += 1;
            if !is_in_vain(scene, id, &hold) {
                continue;
            }
            vain.count += 1;
            vain.wait = wait;
            *vain.threads.entry(id).or_default() += 1;
            for slice in runs_behind(scene, id, hold.row as usize).map(|row| trace.slices.at(id, row)) {
                let ns = slice.duration().0;
                vain.cost_ns += ns;
                vain.run_ns += if slice.state == ThreadState::Running { ns } else { 0 };
            }
        }
    }
    things
}

/// Whether a wait ended in vain. A worker of a runtime that carries tasks waits for a task. Users cannot
/// change which worker is woken, and a task may be as short as an unsuccessful check.
fn is_in_vain(scene: &Scene, thread: ThreadId, hold: &Hold) -> bool {
    let rule = || scene.derived.roles.rule_of_wait(&scene.trace.slices.at(thread, hold.row as usize));
    hold.false_wakeup && !rule().is_some_and(|(runtime, rule)| runtime.carries_tasks && rule.idle)
}

/// The rows of what a thread did between a wait that ended in vain and the next one.
fn runs_behind<'a>(scene: &'a Scene<'a>, thread: ThreadId, wait: usize) -> impl Iterator<Item = usize> + 'a {
    let slices = &scene.trace.slices;
    (wait + 1..slices.rows(thread).end).take_while(move |row| {
        let slice = slices.at(thread, *row);
        slice.state != ThreadState::Blocked || scene.class(&slice) == Some(Class::LockWait)
    })
}
