//! Threads that wait for a lock while all CPUs are busy, and need little CPU themselves. Examples: a thread
//! that sends requests and waits for responses, or a message pump. Without the lock the CPUs gain nothing,
//! but the thread's other waits could overlap with the other threads' work.

use holdup_events::Trace;

use crate::analysis::Derived;
use crate::charge::Charge;
use crate::derive::ledger::ThreadLedger;

/// Minimum share of the run that such a thread waits for the lock.
pub const WAITS_MIN: f64 = 0.1;
/// Maximum running time of such a thread, as a share of its lock waits. With more, it needs a CPU that other
/// threads use.
const RUNS_MAX: f64 = 0.1;

/// Maximum share of its lock waits during which a CPU was idle. The cost of idle CPUs is reported separately.
const IDLE_MAX: f64 = 0.25;

/// Upper bound (ns) on the time that the run would be shorter without the waits of one such thread. The
/// thread's own course becomes shorter by its waits. The run becomes as short as this course, or as all
/// running time on all CPUs.
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
        // Skips threads that could have had an idle CPU and still waited, for example for the thread that
        // waits for work.
        let idle = stall.by_thread.get(&thread.thread).copied().unwrap_or(0.0);
        let course = (thread.life.0 as f64 - waited).max(0.0);
        (idle <= IDLE_MAX * waited).then(|| waited.min(wall - course.max(work)))
    });
    saved.fold(0.0, f64::max)
}

fn waited_ns(trace: &Trace, charge: &Charge, thread: &ThreadLedger) -> u64 {
    charge.slices_of(trace, thread.thread).map(|slice| slice.duration().0).sum()
}
