//! Pools that a runtime's tasks wait for at channels.

use holdup_events::tables::{Slice, ThreadState};

use super::INFO;
use crate::charge::Charge;
use crate::derive::class::Class;
use crate::derive::task_pools::{self, Returns, TaskPool, TaskPools};
use crate::finding::{About, Confidence, Finding, Gain};
use crate::rule::Charged;
use crate::scene::Scene;
use crate::wording::{count, percent, rounded, time};

/// All of the time, as far as it is of interest (0 to 1).
const ALL: f64 = 0.97;

/// A finding for each pool.
pub(super) fn findings(scene: &Scene) -> Vec<Charged> {
    let all = task_pools::derive(scene.trace, scene.derived.occupancy.cpus);
    all.pools.iter().map(|pool| finding(scene, &all, pool)).collect()
}

fn finding(scene: &Scene, all: &TaskPools, pool: &TaskPool) -> Charged {
    let charge = idle(scene, all, pool);
    let recorded = all.observed.recorded_share(scene.trace, pool.process);
    let finding = Finding {
        rule: INFO.name,
        about: About::Other,
        subject: subject(pool),
        summary: summary(scene, pool, recorded),
        cost_ns: charge.ns(),
        gain: gain(scene, pool, recorded),
        likely: None,
        confidence: scene.confidence(match pool.returns {
            Returns::ByTakers => Confidence::Medium,
            Returns::ByOthers => Confidence::Low,
        }),
        evidence: scene.longest_of(&charge, |_| format!("idles while tasks wait for {}", item(pool))),
        advice: advice(pool),
    };
    Charged { finding, charge }
}

/// Idle waits of the process's threads during which tasks waited.
fn idle(scene: &Scene, all: &TaskPools, pool: &TaskPool) -> Charge {
    let trace = scene.trace;
    let of_it = trace.target_threads().filter(|id| trace.threads[id.index()].process == pool.process);
    let is_idle =
        |slice: &Slice| slice.state == ThreadState::Blocked && scene.class(slice) == Some(Class::WorkWait);
    let idle: Vec<Slice> =
        of_it.flat_map(|id| trace.slices.of_thread(id)).filter(|slice| is_idle(slice)).collect();
    let could = all.observed.could_have_run(pool.process, &idle);
    Charge::matching(trace, |slice| could.contains(&(slice.thread, slice.start)))
}

/// Number of tasks that waited at a time, on average, while any did.
fn waiting(pool: &TaskPool) -> f64 {
    pool.wait_ns as f64 / pool.waited_ns.max(1) as f64
}

fn gain(scene: &Scene, pool: &TaskPool, recorded: f64) -> Gain {
    if recorded <= 0.0 {
        return Gain { low: 0.0, high: 0.0 };
    }
    let waited = (scene.of_wall(pool.waited_ns as f64) / recorded).min(1.0);
    let slots = f64::from(pool.slots);
    // A holder that waits needs no CPU. One that runs does, however many permits there are.
    let on_cpus = pool.running / f64::from(scene.derived.occupancy.cpus.max(1));
    let in_use = match pool.returns {
        Returns::ByTakers => slots / (waiting(pool) + slots),
        // One waiting task may take permits for any number of other tasks.
        Returns::ByOthers => 0.0,
    };
    Gain { low: 0.0, high: waited * (1.0 - in_use.max(on_cpus.min(1.0))) }
}

fn item(pool: &TaskPool) -> &'static str {
    if pool.sends { "a permit" } else { "an item" }
}

fn subject(pool: &TaskPool) -> String {
    let place = if pool.place.is_empty() { "an unknown function" } else { &pool.place };
    format!("the channel from which tasks take {} in {place}", if pool.sends { "permits" } else { "items" })
}

fn summary(scene: &Scene, pool: &TaskPool, recorded: f64) -> Vec<String> {
    let few = match (pool.sends, pool.slots) {
        (true, 1) => "the only permit".to_owned(),
        (true, slots) => format!("one of {slots} permits"),
        (false, slots) => format!("one of at most {slots} items"),
    };
    let windows = match recorded >= ALL {
        true => String::new(),
        false => format!(" They were sampled in windows: {} of the time.", percent(recorded)),
    };
    let mut all = vec![format!(
        "{} waited {} for {few} that other tasks held: {} at a time on average, {} in total.{windows}",
        count(pool.tasks, "task"),
        count(pool.waits, "time"),
        rounded(waiting(pool)),
        time(pool.wait_ns),
    )];
    all.extend(returned_sentence(pool));
    let cpus = scene.derived.occupancy.cpus.max(1);
    all.push(format!(
        "During these waits the program's threads used {} of {}.",
        percent(pool.running / f64::from(cpus)),
        count(u64::from(cpus), "CPU"),
    ));
    if pool.returns == Returns::ByOthers {
        all.push(
            "Other tasks receive from this channel than send to it, and its items have no content. The channel \
             may count signals instead of permits."
                .to_owned(),
        );
    }
    all
}

fn returned_sentence(pool: &TaskPool) -> Option<String> {
    let (takes, returns) = match pool.sends {
        true => ("sending to", "receiving from"),
        false => ("receiving from", "sending to"),
    };
    if pool.place.is_empty() {
        return None;
    }
    let at = match pool.returned_in.as_str() {
        "" => String::new(),
        place => format!(" in {place}"),
    };
    let (item, place) = (item(pool), &pool.place);
    Some(format!("A task takes {item} by {takes} a channel in {place}, and returns it by {returns} it{at}."))
}

fn advice(pool: &TaskPool) -> Vec<String> {
    let (slots, item) = (pool.slots, item(pool));
    vec![
        format!("Take {item} later and return it sooner: hold it only for the work that needs it"),
        match pool.sends {
            true => format!("Or allow more permits than {slots}, as far as the resource behind them allows"),
            false => "Or make the pool larger, as far as the resource behind it allows".to_owned(),
        },
    ]
}
