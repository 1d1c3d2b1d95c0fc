//! What a flight recorder saved a recording for.

use holdup_events::Trace;
use holdup_events::recording::Fired;
use holdup_findings::analyse;
use holdup_report::{Style, render};
use holdup_testkit::check::trace_of_lanes;

use super::{BUSY, manifest};

#[test]
fn what_a_flight_recorder_saved_it_for_comes_first() {
    let (_, mut trace) = trace_of_lanes(BUSY);
    manifest(&mut trace);
    let fired = |tid, what: &str| Fired {
        trigger: "pause:lock>20ms".into(),
        at_ns: trace.start().0 + 1_500_000,
        tid,
        thread: "worker\u{1b}[2J".into(),
        what: what.into(),
        length_ns: 0,
    };
    let all = vec![fired(7, "waited for a lock for 31.0 ms"), fired(0, "2"), fired(0, "3"), fired(0, "4")];
    trace.manifest.fired = all;
    let analysis = analyse(&trace);
    let wide = Style { colour: false, width: 100, ..Style::default() };
    let text = render(&trace, &analysis, &[], &wide).unwrap();
    let lines: Vec<&str> = text.lines().take(5).collect();
    assert!(lines[0].starts_with("Saved at 1.50 ms by pause:lock>20ms: thread 7 (worker"), "{lines:?}");
    assert!(!text.contains('\u{1b}'), "names are foreign text");
    assert_eq!(lines[3], "  and 1 more by the end");
}

/// A lane's wait that ended at that tick of [`BUSY`] fired.
pub fn pause_of(trace: &Trace, tick: u64) -> Fired {
    let length_ns = 4_000_000;
    let (tid, at_ns) = (trace.threads[0].tid, trace.start().0 + tick * 1_000_000);
    Fired {
        tid,
        at_ns,
        length_ns,
        trigger: "pause:lock>3ms".into(),
        what: "waited".into(),
        ..Fired::default()
    }
}

#[test]
fn a_pause_that_fired_is_explained_in_the_report() {
    let (_, mut trace) = trace_of_lanes(BUSY);
    manifest(&mut trace);
    trace.manifest.fired.push(pause_of(&trace, 8));
    let text =
        render(&trace, &analyse(&trace), &[], &Style { colour: false, width: 100, ..Style::default() })
            .unwrap();
    let lines: Vec<&str> = text.lines().take(3).collect();
    assert!(
        lines[1].starts_with("  worker-1 (") && lines[1].contains("waited 4.00 ms for a lock"),
        "{lines:?}"
    );
    assert!(
        lines[2].starts_with("  worker-2 (")
            && lines[2].contains(" held it, and ran in the kernel for 4.00 ms during that time"),
        "{lines:?}"
    );
    // There is no row for a time at which the thread did not wait, or outside of the recording.
    for (tick, length_ns) in [(3, 2_000_000), (900_000, 1_000)] {
        trace.manifest.fired = vec![Fired { length_ns, ..pause_of(&trace, tick) }];
        let text =
            render(&trace, &analyse(&trace), &[], &Style { colour: false, width: 100, ..Style::default() })
                .unwrap();
        assert!(
            text.lines().nth(1).is_some_and(|line| line.starts_with("stress is held up by ")),
            "{tick}: {text}"
        );
    }
}
