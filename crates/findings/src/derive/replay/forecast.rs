//! A forecast: how long the run would take with changes.

use std::sync::Arc;

use holdup_events::Trace;

use super::build::{Facts, build};
use super::change::{Change, Edit};
use super::endings::Endings;
use super::engine::{Grants, Outcome, run};
use super::speed::Speed;
use super::steps::Model;
use crate::derive::class::{CLASSES, Class};
use crate::derive::occupancy::FAIR_PART;
use crate::derive::parallel;

/// Forecast of the length of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Forecast {
    /// As recorded (ns).
    pub recorded_ns: u64,
    /// With the changes (ns).
    pub wall_ns: u64,
    /// Lower end (ns).
    pub low_ns: u64,
    /// Upper end (ns).
    pub high_ns: u64,
    /// By the recorded order, and first come, first served (ns).
    pub by_grants: [f64; 2],
    /// Length of the unchanged replay, relative to the recording.
    pub unchanged: f64,
    /// Thread time by class of the unchanged replay (ns). All running time is `Useful`.
    pub classes_before: [u64; CLASSES],
    /// The same with the changes (ns).
    pub classes: [u64; CLASSES],
    /// Waits that had to be ended by force, since their order could not be kept.
    pub forced: u64,
}

impl Forecast {
    /// Share of the recorded time that is saved: middle, lower and upper bound. Below 0 if the run would take
    /// longer.
    pub fn gain(&self) -> (f64, f64, f64) {
        let of = |ns: u64| 1.0 - ns as f64 / self.recorded_ns.max(1) as f64;
        (of(self.wall_ns), of(self.high_ns), of(self.low_ns))
    }
}

impl Forecast {
    /// Whether the gain may be zero. The interval includes zero, and another order of the same steps has at
    /// least the same effect.
    pub fn may_be_nothing(&self) -> bool {
        let (middle, low, _) = self.gain();
        low <= 0.0 && middle < ORDER
    }
}

/// The replays of one trace with nothing changed: what forecasts are compared with.
#[derive(Clone, Debug, Default)]
pub struct Replays {
    recorded: Outcome,
    fifo: Outcome,
    /// Replay in the recorded order in which other programs keep all their recorded CPU time.
    as_it_was: Outcome,
    endings: Endings,
}

impl Replays {
    /// Replays the trace as it was.
    pub fn new(facts: Facts) -> Replays {
        let endings = Endings::new(facts);
        let (recorded, fifo) = both(&build(facts, &Edit::default(), &endings));
        let stay = Edit { strangers_stay: true, ..Edit::default() };
        let as_it_was = run(&build(facts, &stay, &endings), Grants::Recorded);
        Replays { recorded, fifo, as_it_was, endings }
    }

    /// The way in which each thread ends.
    pub fn endings(&self) -> &Endings {
        &self.endings
    }

    /// Whether the first-come-first-served replay takes about as long as the recorded order. Otherwise the
    /// program's threads do not run in that order (priorities, pinned threads, lock barging). The order's
    /// forecast is then not used.
    fn is_fifo_alike(&self) -> bool {
        let ratio = self.fifo.wall_ns as f64 / self.recorded.wall_ns.max(1) as f64;
        (ratio - 1.0).abs() <= ALIKE
    }

    /// Length of the replay in the recorded order (ns).
    pub fn wall_ns(&self) -> u64 {
        self.as_it_was.wall_ns
    }

    /// Length of the first-come-first-served replay (ns).
    pub fn fifo_ns(&self) -> u64 {
        self.fifo.wall_ns
    }
}

fn both(model: &Model) -> (Outcome, Outcome) {
    let rules = [Grants::Recorded, Grants::Fifo];
    let outcomes = parallel::map(rules.len(), |rule| run(model, rules[rule]));
    (outcomes[0], outcomes[1])
}

/// `UNFORESEEN`: share of a change that waits which arise only after the change may cost. `ORDER`: share of
/// the run by which another order of the same steps may differ.
///
/// Both were fitted to random programs (seeds 0 to 149) so that nine of ten forecast intervals contain the
/// true time. `tests/replay.rs` checks them with other seeds (2000 and on).
const UNFORESEEN: f64 = 0.1;
const ORDER: f64 = 0.03;
/// Where little changes, little can be in another order.
const SMALL: f64 = 4.0;

/// By how much a gain (0 to 1) may differ because of what cannot be foreseen.
pub fn unforeseen(gain: f64) -> f64 {
    UNFORESEEN * gain + (SMALL * gain).min(ORDER)
}

/// Two replays that differ by no more than this part are of one program.
const ALIKE: f64 = 0.1;

/// Two standard errors.
const SURE: f64 = 2.0;

/// Forecasts the run with changes. `unchanged` is the replay of the same trace as it was.
pub fn forecast(facts: Facts, changes: &[Change], unchanged: &Replays) -> Forecast {
    let edit = edit(facts, changes);
    let model = build(facts, &edit, &unchanged.endings);
    let (recorded, fifo) = both(&model);
    let after = after_ns(facts.trace);
    let wall = facts.trace.wall().0 - after;
    let shortest = shortest_ns(&model, &edit, wall) as f64;
    let scaled = |changed: Outcome, before: Outcome| {
        let [changed, before] = [changed, before].map(|outcome| outcome.wall_ns.saturating_sub(after).max(1));
        (changed as f64 / before as f64 * wall as f64).max(shortest)
    };
    let by_recorded = scaled(recorded, unchanged.recorded);
    let by_rules = match unchanged.is_fifo_alike() {
        true => [by_recorded, scaled(fifo, unchanged.fifo)],
        false => [by_recorded, by_recorded],
    };
    let middle = f64::midpoint(by_rules[0], by_rules[1]);
    let change = by_rules.iter().map(|ns| (wall as f64 - ns).abs()).fold(0.0, f64::max);
    // What the replay does not get right of the run as it was, it may not get right of the changed one.
    let unchanged_ratio = unchanged.wall_ns() as f64 / facts.trace.wall().0.max(1) as f64;
    let off = (unchanged_ratio - 1.0).abs();
    // The removed time may not be on the critical path, and its removal may still change the order of other
    // steps.
    let moved = if edit.only_takes() { (model.taken_ns as f64).max(change) } else { wall as f64 };
    let unforeseen = UNFORESEEN * change + (SMALL * moved).min(ORDER * wall as f64);
    let error = middle * off + sampling_error(&edit, &model) * change + unforeseen;
    let low = by_rules.iter().copied().fold(f64::INFINITY, f64::min) - error;
    let high = by_rules.iter().copied().fold(0.0, f64::max) + error;
    let low = low.max(shortest - if is_sampled(&edit) { error } else { 0.0 });
    let low = shared_ns(facts, (&edit, &model), recorded, unchanged)
        .map_or(low, |shared| low.min(shared.max(shortest)));
    Forecast {
        recorded_ns: wall,
        wall_ns: middle as u64,
        low_ns: low as u64,
        high_ns: high as u64,
        by_grants: by_rules,
        unchanged: unchanged_ratio,
        classes_before: unchanged.recorded.classes,
        classes: recorded.classes,
        forced: recorded.forced + fifo.forced,
    }
}

/// Length of the changed run if its threads share the CPUs evenly at each moment (ns). A replay grants CPUs in the
/// recorded order, so that the last thread may be left alone at the end. The kernel lets threads take turns. No
/// order is faster than the longest chain of steps with a CPU for each thread. None is faster than the work on all
/// CPUs, without the part that other programs have of them. `None` if threads hardly wait for CPUs after the
/// changes.
fn shared_ns(
    facts: Facts,
    (edit, model): (&Edit, &Model),
    changed: Outcome,
    unchanged: &Replays,
) -> Option<f64> {
    let after = after_ns(facts.trace);
    let wall = facts.trace.wall().0 - after;
    let queued = changed.classes[Class::RunQueue as usize] as f64;
    if !edit.only_takes() || queued <= ORDER * wall as f64 {
        return None;
    }
    let free = Edit { queueless: true, ..edit.clone() };
    let chain = run(&build(facts, &free, &unchanged.endings), Grants::Recorded).wall_ns.saturating_sub(after);
    let before = unchanged.recorded.wall_ns.saturating_sub(after).max(1);
    let stretches = facts.timelines.iter().flat_map(|(_, line)| line.stretches());
    let others = stretches.filter(|stretch| !stretch.own()).map(|one| one.end().since(one.start()).0);
    let all = f64::from(model.cpus.max(1)) * wall.max(1) as f64;
    let capacity = (all - (1.0 - FAIR_PART) * others.sum::<u64>() as f64).max(all * FAIR_PART);
    let work = model.work_ns as f64 * wall as f64 / capacity;
    Some((chain as f64 / before as f64 * wall as f64).max(work.min(wall as f64)))
}

/// Time that the recording goes on after the program's last thread has ended (ns). The recorder needs this
/// time to notice, and no change shortens it. 0 if the program goes on.
fn after_ns(trace: &Trace) -> u64 {
    let threads = || trace.target_threads().map(|thread| &trace.threads[thread.index()]);
    let last = threads().map(|thread| thread.end).max();
    let has_ended = !threads().any(|thread| thread.alive_at_end);
    last.filter(|last| has_ended && *last > trace.start()).map_or(0, |last| trace.end().since(last).0)
}

/// Lower bound of the run's length (ns). The run is one chain of steps. Removed steps, with the waits for a
/// CPU that go with them, shorten it by at most their time. The remaining work also needs its CPU time.
fn shortest_ns(model: &Model, edit: &Edit, wall: u64) -> u64 {
    let taken_ns = model.taken_ns + model.queued_ns;
    let without_taken = if edit.only_takes() { wall.saturating_sub(taken_ns) } else { 0 };
    let work = model.work_ns / u64::from(model.cpus.max(1));
    // The unchanged work may exceed the capacity of the counted CPUs.
    without_taken.max(work.min(wall))
}

/// Forecasts the run without a cause whose remedy has an unknown effect, between the changes `least` and
/// `most`.
pub fn forecast_between(facts: Facts, least: &[Change], most: &[Change], unchanged: &Replays) -> Forecast {
    let (least, most) = (forecast(facts, least, unchanged), forecast(facts, most, unchanged));
    Forecast {
        wall_ns: u64::midpoint(least.wall_ns, most.wall_ns),
        low_ns: least.low_ns.min(most.low_ns),
        high_ns: least.high_ns.max(most.high_ns),
        by_grants: [0, 1].map(|rule| f64::midpoint(least.by_grants[rule], most.by_grants[rule])),
        forced: least.forced + most.forced,
        ..most
    }
}

/// Whether the removed time is known only from samples. The remaining work may also run faster because of
/// caches.
fn is_sampled(edit: &Edit) -> bool {
    edit.speeds.iter().any(|speed| speed.samples > 0)
}

/// Relative error of the removed time, from the error of its samples. Each part is weighted by its size,
/// because the large relative error of a small part matters little.
fn sampling_error(edit: &Edit, model: &Model) -> f64 {
    let sampled = || edit.speeds.iter().filter(|speed| speed.samples > 0);
    let of = |speed: &Arc<Speed>| SURE * ((1.0 - speed.share) / speed.samples as f64).sqrt() * speed.share;
    let squares: f64 = sampled().map(|speed| of(speed).powi(2)).sum();
    let shares: f64 = sampled().map(|speed| speed.share).sum();
    if shares <= 0.0 {
        return 0.0;
    }
    squares.sqrt() / shares * model.cut_ns as f64 / model.taken_ns.max(1) as f64
}

/// Converts the changes to edits of that trace's model.
fn edit(facts: Facts, changes: &[Change]) -> Edit {
    let trace = facts.trace;
    let mut edit = Edit::default();
    for change in changes {
        match change {
            Change::WithoutLock(lock) => drop(edit.locks.insert(*lock)),
            Change::WithoutSlices(charge) => edit.slices.push(charge.clone()),
            Change::KeptCpus(charge) => edit.kept_cpus.push(charge.clone()),
            Change::AtOnce(charge) => edit.at_once.push(charge.clone()),
            Change::Ran(speed) => edit.speeds.push(speed.clone()),
            Change::Faster(function, times) => {
                edit.speeds.push(Arc::new(Speed::of_function(trace, function, 1.0 / times)))
            }
            Change::Cpus(cpus) => edit.cpus = Some(*cpus),
            Change::NoPreempt => edit.no_preempt = true,
            Change::WithoutOthers => edit.without_others = true,
            Change::WithoutKernelThreads => edit.without_kernel_threads = true,
            Change::WithoutClass(class) => edit.without_class((trace, facts.roles), *class),
        }
    }
    edit
}
