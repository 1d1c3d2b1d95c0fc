//! # thundering-herd: one event wakes many threads, and all but one go back to sleep
//!
//! ## What it sees
//! Threads that one call wakes together, that run for a moment, if need be wait for the lock that they need to look, and
//! wait for the same thing again: how often, and what CPU time, queueing and waiting for that lock took.
//!
//! ## Why it hurts
//! Each of them takes a CPU, its lock and its caches to find that another was faster. With n waiters an event
//! costs n times as much, and the one that does the work queues among those that do not.
//!
//! ## How it decides
//! A wakeup is in vain if its thread runs less than 10 µs (as long again for each lock that it waits for to look) and
//! waits for the same thing again, and if the same waker woke another thread for that thing at the same time. It fires if of the
//! waits for one thing many end so, and is sure if a thousand do, and most; of several such things it tells the costliest.
//! The gain is that of the same run replayed: at the least, without what these threads do until they sleep again, and nobody
//! is in the kernel to wake them; at the most, nobody queues for a lock at which mostly they queue, either.
//!
//! ## What to do
//! Wake one: `pthread_cond_signal` or `notify_one` in place of broadcast; `EPOLLEXCLUSIVE` or `EPOLLONESHOT`, or
//! one `SO_REUSEPORT` socket a thread; one queue a worker.
//!
//! ## Blind spots
//! Workers of a runtime that carries tasks (tokio, Go, rayon, ...) are none: what these cost is fine-tasks'.
//! Threads that wait for one socket by an epoll instance each are told as a herd only if one call wakes them, and all of a
//! process are told as one; those that use `poll` or `select` are not. A thread that looks for longer than 10 µs before it sleeps again counts as working.
//!
//! ## References
//! Linux `epoll_ctl(2)` (`EPOLLEXCLUSIVE`), `pthread_cond_broadcast(3p)`. Stevens, Fenner, Rudoff: UNIX Network
//! Programming, vol. 1, 30.6 (2003).

use std::collections::BTreeMap;

use holdup_events::tables::ThreadState;
use holdup_events::{ProcessId, ThreadId, Wait, WaitId, WaitReason};

use super::{ChargedVerdict, Info};
use crate::charge::Charge;
use crate::derive::class::Class;
use crate::derive::holders::Hold;
use crate::finding::{Confidence, Finding, Gain};
use crate::merging::Charged;
use crate::removal;
use crate::scene::{GAIN_MIN, Scene};
use crate::wording::{count, percent, thread, time};

pub(super) const INFO: Info = Info {
    name: "thundering-herd",
    summary: "One event wakes many threads, and all but one go back to sleep",
    of_waits_alone: false,
};

/// Fewer wakeups in vain may be starts and ends.
const VAIN_MIN: u64 = 100;

/// Of the wakeups of such threads, this share is in vain; else each mostly gets work.
const VAIN_SHARE_MIN: f64 = 0.3;

/// So many wakeups in vain, and of all this share, are no habit of threads that look for work before they sleep.
const SURE: (u64, f64) = (1000, 0.5);

/// What wakeups in vain cost.
#[derive(Default)]
struct Vain {
    count: u64,
    waits: u64,
    run_ns: u64,
    /// What they ran, queued, and waited for the locks that they need to look (ns).
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

/// Of what a process's threads are mostly woken in vain for, most wakeups are: what handing it out costs comes of that.
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

pub(super) fn judge(scene: &Scene) -> ChargedVerdict {
    scene.needs_wait_reasons()?;
    let trace = scene.trace;
    let holders = &scene.derived.holders;
    let vain = |id| holders.of(id).filter(|hold| hold.false_wakeup).count() as u64;
    if trace.target_threads().map(vain).sum::<u64>() < VAIN_MIN {
        return Ok(Vec::new());
    }
    // What follows is dear where threads wait often.
    let Some(vain) = &worst(scene) else { return Ok(Vec::new()) };
    let its = thing(trace.wait(vain.wait));
    let charge = Charge::of_rows(trace, |thread, take| {
        let is_its = |hold: &Hold| {
            thing(trace.wait(trace.slices.at(thread, hold.row as usize).wait)) == its
                && is_in_vain(scene, thread, hold)
        };
        for hold in holders.of(thread).filter(is_its) {
            runs_behind(scene, thread, hold.row as usize).for_each(&mut *take);
        }
    });
    let calls =
        removal::herd_calls(trace, scene.derived, &charge).taken() * scene.derived.ledger.running_ns() as f64;
    let high = scene.of_wall_if_run(vain.run_ns as f64 + calls);
    if high < GAIN_MIN {
        return Ok(Vec::new());
    }
    let most = vain.threads.iter().max_by_key(|(id, times)| (**times, std::cmp::Reverse(**id)));
    let finding = Finding {
        rule: INFO.name,
        subject: format!(
            "{} that wait for one thing ({}), most of all {}",
            count(vain.threads.len() as u64, "thread"),
            trace.wait(vain.wait).reason.name(),
            most.map_or("?".to_owned(), |(id, _)| thread(trace, *id)),
        ),
        summary: vec![format!(
            "{} of {} ended in vain ({}): the threads ran {} in all and went back to sleep.",
            count(vain.count, "wait"),
            vain.waits,
            percent(vain.count as f64 / vain.waits.max(1) as f64),
            time(vain.run_ns),
        )],
        cost_ns: charge.ns(),
        gain: Gain { low: 0.0, high },
        likely: None,
        confidence: scene.confidence(if vain.is_sure() { Confidence::High } else { Confidence::Medium }),
        evidence: scene.longest_of(&charge, |_| "woken in vain, together with others".to_owned()),
        advice: vec![
            "Wake one thread for one piece of work (signal, notify_one, EPOLLEXCLUSIVE), not all".into(),
            "Or give each thread a queue or socket of its own (SO_REUSEPORT)".into(),
        ],
    };
    Ok(vec![Charged { finding, charge }])
}

/// What threads wait for: a process and an object of it; of many instances of epoll, which stand for one socket, none.
type Thing = (ProcessId, Option<u64>);

fn thing(wait: &Wait) -> Thing {
    // A condition variable has two words.
    (wait.process, (wait.reason != WaitReason::Multiplex).then_some(wait.object & !7))
}

/// What wakeups in vain cost, by what was waited for.
fn tally(scene: &Scene) -> Vec<Vain> {
    let trace = scene.trace;
    let mut numbers: BTreeMap<Thing, usize> = BTreeMap::new();
    let mut number = |wait: &Wait| {
        let next = numbers.len();
        *numbers.entry(thing(wait)).or_insert(next)
    };
    let of_wait: Vec<usize> = trace.waits.iter().map(&mut number).collect();
    let mut things: Vec<Vain> = Vec::new();
    things.resize_with(numbers.len(), Vain::default);
    for id in trace.target_threads() {
        for hold in scene.derived.holders.of(id) {
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

/// A wait that ended in vain. A worker of a runtime that carries tasks waits for one: whom that wakes nobody can change, and a task may
/// be as short as a look.
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
