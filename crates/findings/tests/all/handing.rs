//! What threads run to wake each other and to go to sleep.

use holdup_events::tables::ThreadState;
use holdup_findings::analyse;
use holdup_findings::charge::Charge;
use holdup_findings::derive::handing::Handing;
use holdup_testkit::check::trace_of_lanes;

/// The handing of a pair that exchanges work, each sampled in `call` while it runs, asleep on `stack`.
fn of_a_pair(call: &str, stack: &str) -> Handing {
    let (_, trace) = trace_of_lanes(&format!(
        "@cpus 2\n@c park\n@d park\n@repeat 20\n@stack c {stack}\n@stack d {stack}\n\
         @samples A 0..2 {call}\n@samples A 2..3 user main;work\n@samples B 4..6 {call}\n@samples B 6..7 user main;work\n\
         A  000cccccr  holds d 2..3\n\
         B  dddr111dd  holds c 6..7\n"
    ));
    let charge = Charge::matching(&trace, |slice| slice.state == ThreadState::Blocked);
    let derived = analyse(&trace).derived;
    Handing::derive((&trace, &derived.roles), &derived.ledger, &charge)
}

#[test]
fn a_thread_mostly_in_futex_calls_hands_over() {
    let hands = of_a_pair("202 main;step;send", "main;step;recv");
    assert!(hands.is_most(), "{hands:?}");
    let part = hands.handing_ns as f64 / hands.running_ns as f64;
    assert!((0.6..0.7).contains(&part), "two samples of three: {part}");
}

#[test]
fn a_thread_that_spins_before_it_sleeps_hands_over() {
    assert!(of_a_pair("user main;step;spin~", "main;step;recv").is_most());
}

#[test]
fn a_thread_that_works_or_sends_messages_does_not_hand_over() {
    for call in ["user main;step;parse", "1 main;step;send"] {
        let hands = of_a_pair(call, "main;step;recv");
        assert!(!hands.is_most() && hands.running_ns > 0, "{call}: {hands:?}");
    }
}

/// Workers search for tasks, and wake each other for these.
#[test]
fn a_runtimes_workers_do_not() {
    let idle = "runtime.mcall;runtime.schedule;runtime.findRunnable;runtime.stopm;runtime.futexsleep";
    let hands = of_a_pair("202 main;step;send", idle);
    assert!(!hands.is_most() && hands.running_ns > 0, "{hands:?}");
}
