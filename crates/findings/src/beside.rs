//! Threads that wait for a lock while all CPUs are busy, and hardly need one: a feed that sends and waits for its answer, a pump of
//! messages. The CPUs have nothing to gain from their waiting, but what they wait for otherwise could go on beside the others' work.

use holdup_events::Trace;

use crate::analysis::Derived;
use crate::charge::Charge;
use crate::derive::ledger::ThreadLedger;

/// Who waits for less of the run than this loses little.
pub const WAITS_MIN: f64 = 0.1;
/// Who runs for more than this part of what it waits for a lock needs a CPU, which others have.
const RUNS_MAX: f64 = 0.1;

/// For more than this part of its waiting a CPU was idle: what that costs is told without this.
const IDLE_MAX: f64 = 0.25;

/// By how much (ns) the run would be shorter at the most if the waiting were not, as far as one such thread's course tells: that
/// becomes shorter by its waiting, and the run as short as this course, or as all running on all CPUs.
pub fn saved_ns(trace: &Trace, derived: &Derived, charge: &Charge) -> f64 {
    let wall = trace.wall().0 as f64;
    let ledger = &derived.ledger;
    let work = ledger.running_ns() as f64 / f64::from(derived.occupancy.cpus.max(1));
    let waiting = ledger.threads.iter().map(|thread| (thread, waited_ns(trace, charge, thread) as f64));
    let is_light = |(thread, waited): &(&ThreadLedger, f64)| {
        *waited >= WAITS_MIN * wall && thread.running_ns() as f64 <= RUNS_MAX * waited
    };
    let light: Vec<(&ThreadLedger, f64)> = waiting.filter(is_light).collect();
    if light.is_empty() {
        return 0.0;
    }
    let stall = derived.occupancy.room.stall(trace, charge);
    let saved = light.into_iter().filter_map(|(thread, waited)| {
        // Who could have had a CPU and waits all the same, for the one who waits for work, say, is seen by that.
        let idle = stall.by_thread.get(&thread.thread).copied().unwrap_or(0.0);
        let course = (thread.life.0 as f64 - waited).max(0.0);
        (idle <= IDLE_MAX * waited).then(|| waited.min(wall - course.max(work)))
    });
    saved.fold(0.0, f64::max)
}

fn waited_ns(trace: &Trace, charge: &Charge, thread: &ThreadLedger) -> u64 {
    charge.slices_of(trace, thread.thread).map(|slice| slice.duration().0).sum()
}
