//! A CPU that another program has is not lost to the program: a thread that wanted it would get its part.

use holdup_findings::{Confidence, analyse};
use holdup_testkit::check::{check_lanes, confidence, trace_of_lanes};

#[test]
fn a_lock_is_told_where_a_stranger_has_the_other_cpu() {
    let beside = |stranger: &str| {
        check_lanes(&format!(
            "@cpus 2\n@repeat 20\n\
             A        0000mmmm\n\
            \x20             ^^^^   lock-contention waiter=A holder=B cost=160\n\
             B        mmmm0000  holds m 4..8\n\
             ~backup  {stranger}\n"
        ))
    };
    let (quiet, shared) = (beside("........"), beside("11111111"));
    let (quiet, shared) = (&quiet.findings[0].gain, &shared.findings[0].gain);
    assert!(shared.high > 0.3 && shared.low <= quiet.low, "{quiet:?} {shared:?}");
}

#[test]
fn a_lone_worker_is_told_where_a_stranger_has_the_other_cpu() {
    let analysis = check_lanes(
        "@cpus 2\n@c park\n@repeat 20\n@samples A 0..8 user main;parse\n\
         A        00000000cc  holds c 0..8\n\
        \x20        ^^^^^^^^     serial-section holder=parse\n\
         B        cccccccc00  holds c 8..10\n\
         ~backup  1111111111\n",
    );
    assert!(confidence(&analysis, "serial-section").is_some());
}

#[test]
fn who_waits_for_a_strangers_cpu_is_no_lone_worker() {
    // A has no CPU: both are with others, and the one that it waits for would help nobody else.
    let (queued, parked) = ("r".repeat(38), "c".repeat(39));
    let (first, second) = (".".to_owned() + &"0".repeat(38), "1".repeat(41));
    check_lanes(&format!(
        "@cpus 2\n@c park\n@repeat 20\n@silent serial-section\n\
         A     0{queued}cc  holds c 0..39\n\
         B     {parked}00  holds c 39..41\n\
         ~one  {first}..\n\
         ~two  {second}\n"
    ));
}

#[test]
fn threads_bound_to_one_cpu_are_told_though_a_stranger_has_the_other() {
    let with = |cpus_allowed: u32| {
        let drawing = "@cpus 2\n@repeat 40\nA  00rr00\nB  rr00rr\n~backup  111111\n";
        let (_, mut trace) = trace_of_lanes(drawing);
        trace.threads.iter_mut().for_each(|thread| thread.cpus_allowed = cpus_allowed);
        confidence(&analyse(&trace), "pinned-together")
    };
    assert_eq!(with(1), Some(Confidence::High));
    assert_eq!(with(0), None, "a scheduler may leave them there: the other CPU is not idle");
}
