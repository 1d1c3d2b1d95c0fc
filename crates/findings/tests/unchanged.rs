//! The replay with nothing changed takes as long as the recording, on pictures of what it must get right for that.

use holdup_events::event::WakeContext;
use holdup_events::tables::{Wakeup, Wakeups};
use holdup_events::{Timestamp, Trace};
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

#[test]
fn who_was_woken_on_its_way_to_sleep_sleeps_all_the_same() {
    let tick = 100_000;
    let (_, mut trace) = trace_of_lanes(&format!("@cpus 2\n@tick {tick}\n@repeat 50\nA  00mm\nB  11nn\n"));
    let [a, b] = [0, 1].map(holdup_events::ThreadId);
    let before_it_slept = |wakeup: &Wakeup| Wakeup {
        at: Timestamp(wakeup.at.0 - 2 * tick - 1000),
        waker: if wakeup.wakee == a { b } else { a },
        context: WakeContext::Thread,
        ..*wakeup
    };
    let wakeups = trace.wakeups.iter().map(before_it_slept).collect();
    trace.wakeups = Wakeups::freeze(wakeups, trace.threads.len());
    assert_alike(&trace);
}
