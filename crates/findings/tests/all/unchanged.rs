//! An unchanged replay takes as long as the recording, on pictures of the behaviour that this requires.

use holdup_events::event::WakeContext;
use holdup_events::tables::{Wakeup, Wakeups};
use holdup_events::{ThreadId, Timestamp, Trace};
use holdup_findings::derive::locks::LockIndex;
use holdup_findings::derive::replay::{Facts, Replays};
use holdup_findings::derive::roles::Roles;
use holdup_findings::derive::timelines::Timelines;
use holdup_testkit::check::trace_of_lanes;

fn assert_alike(trace: &Trace) {
    let (timelines, roles) = (Timelines::derive(trace), Roles::built_in(trace));
    let locks = LockIndex::new(trace, &roles);
    let facts = Facts { trace, timelines: &timelines, roles: &roles, locks: &locks, cpus: 2 };
    let ratio = Replays::new(facts).wall_ns() as f64 / trace.wall().0 as f64;
    assert!((ratio - 1.0).abs() <= 0.01, "{ratio}");
}

/// Threads that wake each other, `moved` a microsecond before they leave their CPUs, which they then do all the same.
fn woken_on_the_way(lanes: &str, moved: &[u32]) -> Trace {
    let tick = 100_000;
    let (_, mut trace) = trace_of_lanes(&format!("@cpus 2\n@tick {tick}\n@repeat 50\n{lanes}"));
    let early = |wakeup: &Wakeup| Wakeup {
        at: Timestamp(wakeup.at.0 - if moved.contains(&wakeup.wakee.0) { 2 * tick + 1000 } else { 0 }),
        waker: ThreadId(1 - wakeup.wakee.0),
        context: WakeContext::Thread,
        ..*wakeup
    };
    let wakeups = trace.wakeups.iter().map(early).collect();
    trace.wakeups = Wakeups::freeze(wakeups, trace.threads.len());
    trace
}

#[test]
fn a_thread_woken_before_its_sleep_still_sleeps() {
    assert_alike(&woken_on_the_way("A  00mm\nB  11nn\n", &[0, 1]));
}

#[test]
fn a_thread_woken_before_a_barrier_arrived_before_its_waker() {
    assert_alike(&woken_on_the_way("@m barrier\nA  00mm00\nB  1111nn\n", &[0]));
}
