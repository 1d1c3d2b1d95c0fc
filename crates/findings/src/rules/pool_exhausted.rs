//! # pool-exhausted: threads or tasks wait for a pool item, and all items are in use
//!
//! ## Symptoms
//! Threads that wait at one place until another thread gives back an item: a connection of a pool, a buffer, a
//! permit. That thread waits there itself at other times. It reports how many of them hold an item at a time,
//! and the holders' activity. Tasks of a runtime (goroutines) wait in the same way at a channel that serves as
//! a semaphore or a pool.
//!
//! ## Why it hurts
//! The number of items limits the number of threads that make progress, each for as long as it keeps its
//! item. An item that is kept during a slow operation (a network call, a query, a log line) is unused in that
//! time.
//!
//! ## How it decides
//! No word of memory shows the pool. Three in four of the waits at a place are ended by varying threads that
//! wait there too. While any thread waits, the number of threads that do not is nearly constant: it is the
//! number of items. Workers that create tasks for each other vary in number. Idle workers, as a runtime's
//! descriptor identifies them, are left out.
//!
//! Probes record waits of tasks at channels. A channel is a pool if the tasks that end waits there have taken a
//! permit there themselves since they returned the last one. The senders of a work queue never receive from
//! it. It is also reported, as a hint, if tasks wait to send items without content, which carry no work, and
//! other tasks receive them.
//!
//! The upper bound of the gain is that all waiters continue at the same time, as far as there are CPUs for
//! their running part. The lower bound is one more item, for the time in which a holder is blocked. A replay
//! without these waits limits it, because the resource behind the items may be slow. For tasks the lower bound
//! is 0: what a task does while it holds a permit is not known if it waits.
//!
//! ## What to do
//! Take an item later and return it sooner: do slow operations before or after. If the whole holding time is
//! necessary, use more items, as many as the resource behind them can serve.
//!
//! ## Blind spots
//! A pool of tasks in which each task creates another one looks the same: there the tasks are scarce. A
//! thread with long other work that needs no item counts as a holder. Waits of tasks are recorded at Go's
//! channels only, not in its other libraries (`semaphore.Weighted`, `sql.DB`) and not in tokio. A channel
//! without a buffer is never a pool.
//!
//! ## References
//! Little: A proof for the queuing formula L = λW (1961). Goetz et al.: Java Concurrency in Practice, 5.5.3
//! and 8.1 (2006).

mod tasks;

use crate::derive::exhausted_pools::{self, GivenBack};
use crate::derive::replay::Change;
use crate::finding::{About, Confidence, Finding, Gain};
use crate::gains::gains_little;
use crate::removal::Removal;
use crate::rule::{Cause, Charged, ChargedVerdict, Estimate, Explains, Info, Rule};
use crate::scene::{GAIN_MIN, Scene};
use crate::wording::{self, count, percent, thread, time};

pub(super) static INFO: Info = Info {
    waits_only: true,
    estimate: Estimate::Replayed,
    explains: &[
        // A task that waits for a permit resembles a worker without work next to a worker that is active alone.
        Explains::shared(&super::serial_section::INFO),
        // A client that sends one request at a time waits for a timer of the server. If the client holds a lock
        // or a pool item during the request, then that is the cause.
        Explains::shared(&super::one_at_a_time::INFO),
    ],
    ..Info::new("pool-exhausted", "Threads or tasks wait for an item of a pool that others hold")
};

/// Maximum number of places that are named. More would hide the first one.
const PLACES_MAX: usize = 3;

/// Minimum share of the holding time in which holders were blocked, for the place of their waits to be
/// reported.
const MOSTLY: f64 = 0.5;

pub(super) struct PoolExhausted;

impl Rule for PoolExhausted {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        scene.needs_wait_reasons()?;
        let all = exhausted_pools::derive(scene.trace, &scene.derived.roles);
        let mut found: Vec<Charged> = all.into_iter().map(|pool| finding(scene, pool)).collect();
        found.extend(tasks::findings(scene));
        found.retain(|one| one.finding.gain.high >= GAIN_MIN);
        found.sort_by(|a, b| b.finding.gain.high.total_cmp(&a.finding.gain.high));
        found.truncate(PLACES_MAX);
        Ok(found)
    }

    fn removal(&self, cause: &Cause) -> Option<Removal> {
        // More pool items need not help: the resource behind the items may be slow.
        let most = vec![Change::WithoutSlices(cause.charge.clone())];
        let is_known = !cause.charge.is_empty() && !is_of_idle_carriers(cause);
        is_known.then_some(Removal { least: Vec::new(), most })
    }

    fn gain(&self, cause: &Cause, forecast: Gain) -> Gain {
        // A peer that answers many at once is, in a replay, a chain of its own sleeps, which fewer waits do not
        // shorten.
        let own = cause.finding.gain;
        Gain { low: own.low.min(forecast.high), high: own.high.max(forecast.high) }
    }

    fn confidence_max(&self, cause: &Cause) -> Confidence {
        if gains_little(cause.finding) { Confidence::Low } else { Confidence::High }
    }
}

/// Whether a finding charges only waits of threads for more tasks of a runtime. Such threads idle because tasks
/// wait, and show nothing about the tasks.
fn is_of_idle_carriers(cause: &Cause) -> bool {
    let roles = cause.facts().roles;
    cause
        .charge
        .slices(cause.trace())
        .all(|slice| roles.rule_of_wait(&slice).is_some_and(|(runtime, _)| runtime.carries_tasks))
}

/// How many waited at a time, on average, while any did.
fn waiting(pool: &GivenBack) -> f64 {
    pool.wait_ns as f64 / pool.waited_ns.max(1) as f64
}

fn gain(scene: &Scene, pool: &GivenBack) -> Gain {
    let waited = scene.of_wall(pool.waited_ns as f64);
    let things = pool.things as f64;
    // Blocked holders need no CPU. Running ones do, however many items there are.
    let on_cpus = things * (1.0 - pool.blocked) / f64::from(scene.derived.occupancy.cpus.max(1));
    let high = waited * (1.0 - (things / (waiting(pool) + things)).max(on_cpus.min(1.0)));
    let low = waited / (things + 1.0) * pool.blocked;
    Gain { low: low.min(high), high: high.min(1.0) }
}

fn finding(scene: &Scene, pool: GivenBack) -> Charged {
    let trace = scene.trace;
    let place = wording::function(&trace.frame_name(pool.place)).into_owned();
    let finding = Finding {
        rule: INFO.name,
        about: About::Other,
        subject: format!("the pool that threads wait for in {place}"),
        summary: summary(&pool),
        cost_ns: pool.wait_ns,
        gain: gain(scene, &pool),
        likely: None,
        confidence: scene.confidence(Confidence::Medium),
        evidence: scene.longest_of(&pool.charge, |slice| match trace.ended_by(slice) {
            Some(wakeup) => format!("waits for an item until {} returns one", thread(trace, wakeup.waker)),
            None => "waits for an item".to_owned(),
        }),
        advice: advice(&pool),
    };
    Charged { finding, charge: pool.charge }
}

fn summary(pool: &GivenBack) -> Vec<String> {
    let few = match pool.things {
        1 => "an item".to_owned(),
        things => format!("one of {things} items"),
    };
    vec![
        format!(
            "{} waited {} for {few} that other threads held. For {} of that time all items were in use. {:.1} threads waited at a time, {} in total.",
            count(pool.members.len() as u64, "thread"),
            count(pool.waits, "time"),
            percent(pool.same),
            waiting(pool),
            time(pool.wait_ns),
        ),
        blocked_sentence(pool),
    ]
}

fn blocked_sentence(pool: &GivenBack) -> String {
    let blocked = percent(pool.blocked);
    match &pool.blocked_in {
        Some((place, part)) if pool.blocked >= MOSTLY => {
            format!(
                "During these waits the other threads were blocked for {blocked} of their time, in {} for {} of that.",
                wording::function(place),
                percent(*part)
            )
        }
        _ => format!("During these waits the other threads were blocked for {blocked} of their time."),
    }
}

fn advice(pool: &GivenBack) -> Vec<String> {
    let slow = match &pool.blocked_in {
        Some((place, _)) if pool.blocked >= MOSTLY => {
            format!(
                "Take an item later and return it sooner: move the wait in {} out of that time",
                wording::function(place)
            )
        }
        _ => "Take an item later and return it sooner: hold it only for the work that needs it".to_owned(),
    };
    vec![slow, "Or make the pool larger, as far as the resource behind it allows".to_owned()]
}
