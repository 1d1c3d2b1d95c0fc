//! Event loops of one thread, and long calls that hold them.

use holdup_events::event::WakeContext;
use holdup_events::tables::{SyscallRow, Wakeup, Wakeups};
use holdup_events::{CpuId, Duration, Loss, Trace};
use holdup_findings::finding::{Confidence, Finding};
use holdup_findings::{analyse, derive};
use holdup_testkit::check::trace_of_lanes;

/// A server that polls: short requests, then 30 ms with the samples of `long`. Other programs end its polls.
fn server(long: &str) -> Trace {
    let (_, mut trace) = trace_of_lanes(&format!(
        "@cpus 2\n@repeat 30\n@p multiplex\n@stack p main;serve;epoll_wait\n\
         @samples server 1..2 0 main;serve;answer;read\n@samples server 3..4 0 main;serve;answer;read\n\
         @samples server 5..6 1 main;serve;answer;write\n@samples server 7..8 1 main;serve;answer;write\n{long}\
         server  p0p0p0p0p000000000000000000000000000000p\n"
    ));
    let mut wakeups: Vec<Wakeup> = trace.wakeups.iter().copied().collect();
    wakeups.iter_mut().for_each(|wakeup| wakeup.context = WakeContext::SoftIrq);
    trace.wakeups = Wakeups::freeze(wakeups, trace.threads.len());
    count_polls(&mut trace, 0);
    trace
}

/// Syscalls were counted for 5 ms of the first four long turns, with `polls` polls in each.
fn count_polls(trace: &mut Trace, polls: u64) {
    let (process, start) = (Some(trace.threads[0].process), trace.start());
    let window = |turn: u64| SyscallRow {
        process,
        syscall: if polls > 0 { 232 } else { 39 },
        start: start + Duration((40 * turn + 15) * 1_000_000),
        end: start + Duration((40 * turn + 20) * 1_000_000),
        count: polls.max(1),
        cost_ns: 0,
    };
    trace.syscalls = (0..4).map(window).collect();
}

fn found(trace: &Trace) -> Option<Finding> {
    analyse(trace).findings.into_iter().find(|finding| finding.rule == "blocked-event-loop")
}

#[test]
fn one_long_call_that_holds_the_loop_is_named_with_its_length() {
    let trace = server("@samples server 9..39 user main;serve;answer;export;encode\n");
    let finding = found(&trace).expect("the finding");
    assert!(finding.subject.starts_with("encode in the event loop of server"), "{finding:#?}");
    assert!(
        finding.summary[0].contains("30 times it ran encode without a poll that blocks: median 30.0 ms"),
        "{finding:#?}"
    );
    assert!(finding.summary.iter().any(|line| line.contains("waits 15.0 ms on average")), "{finding:#?}");
    assert_eq!(finding.cost_ns, 30 * 30 * 1_000_000);
    assert!((finding.gain.high - 0.75).abs() < 0.02 && finding.gain.low == 0.0, "{:?}", finding.gain);
}

/// Polls that return at once are seen only where syscalls are counted: a loop that works in pieces polls between them.
#[test]
fn a_loop_that_polls_between_pieces_is_not_held() {
    let mut trace = server("@samples server 9..39 user main;serve;answer;export;encode\n");
    assert_eq!(found(&trace).map(|finding| finding.confidence), Some(Confidence::High));
    count_polls(&mut trace, 20);
    assert_eq!(found(&trace), None);
    // Windows that missed calls may have missed polls.
    count_polls(&mut trace, 0);
    trace.losses.push(Loss {
        source: "syscall-windows".into(),
        reason: "not looked at".into(),
        cpu: CpuId::NONE,
        start: trace.start(),
        end: trace.end(),
        events: 1,
    });
    assert_eq!(found(&trace), None);
    trace.losses.clear();
    trace.syscalls.clear();
    let analysis = analyse(&trace);
    assert!(analysis.findings.iter().all(|finding| finding.rule != "blocked-event-loop"));
    let skipped = analysis.skipped.iter().find(|(rule, _)| *rule == "blocked-event-loop");
    assert!(skipped.expect("a reason").1.contains("was not counted: record for longer"));
}

/// Many short requests without a poll that blocks: the loop's own calls are as frequent there as elsewhere.
#[test]
fn a_series_of_short_requests_is_no_long_call() {
    let calls: String = (9..39)
        .map(|tick| match tick % 2 {
            0 => format!("@samples server {tick}..{} 0 main;serve;answer;read\n", tick + 1),
            _ => format!("@samples server {tick}..{} user main;serve;answer;render\n", tick + 1),
        })
        .collect();
    assert_eq!(found(&server(&calls)), None);
}

/// No function is on nearly all stacks: several handlers in turn.
#[test]
fn several_functions_in_a_long_turn_are_no_long_call() {
    let long = "@samples server 9..24 user main;serve;list\n@samples server 24..39 user main;serve;export\n";
    assert_eq!(found(&server(long)), None);
}

/// A second loop may serve what the first one does not.
#[test]
fn several_event_loops_in_a_process_are_left_out() {
    let second = |lane: &str| {
        let mut trace =
            server(&format!("@samples server 9..39 user main;serve;answer;export\nother   {lane}\n"));
        let wakeups = trace.wakeups.iter().map(|wakeup| Wakeup { context: WakeContext::SoftIrq, ..*wakeup });
        trace.wakeups = Wakeups::freeze(wakeups.collect(), trace.threads.len());
        derive::event_loops::held(&trace).len()
    };
    assert_eq!(second("1p1pppppppppppppppppppppppppppppppppppp1"), 0);
    assert_eq!(second("1111111111111111111111111111111111111111"), 1);
}

/// A pool's threads wait for a server's loop only if it gives them work.
#[test]
fn an_idle_pool_does_not_wait_for_an_unrelated_event_loop() {
    let alone = |server_holds: &str, other_holds: &str| {
        let (_, mut trace) = trace_of_lanes(&format!(
            "@cpus 2\n@repeat 30\n@p multiplex\n@c park\n@stack p main;serve;epoll_wait\n\
             server  0p0p0p000000000000000000000000000000000p {server_holds}\n\
             first   1ccccccccccccccccccccccccccccccccccccccc\n\
             second  c1cccccccccccccccccccccccccccccccccccccc\n\
             ~other  ..1..................................... {other_holds}\n"
        ));
        let outside = |wakeup: &Wakeup| match trace.threads[wakeup.wakee.index()].name.as_str() {
            "server" => Wakeup { context: WakeContext::SoftIrq, ..*wakeup },
            _ => *wakeup,
        };
        let wakeups = trace.wakeups.iter().map(outside).collect();
        trace.wakeups = Wakeups::freeze(wakeups, trace.threads.len());
        analyse(&trace).findings.iter().any(|finding| finding.rule == "serial-section")
    };
    assert!(alone("holds c 0..40", ""), "it hands them work");
    assert!(!alone("", "holds c 0..40"), "it does not");
}
