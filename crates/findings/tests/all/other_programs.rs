//! A CPU that another program has is not lost to the program: a thread that wanted it would get its part.

use holdup_events::event::WakeContext;
use holdup_events::tables::{ThreadState, Wakeup, Wakeups};
use holdup_events::{ThreadId, Timestamp};
use holdup_findings::charge::Charge;
use holdup_findings::derive::locks::LockIndex;
use holdup_findings::derive::replay::{Change, Facts, Replays, forecast};
use holdup_findings::derive::roles::Roles;
use holdup_findings::derive::timelines::Timelines;
use holdup_findings::{Confidence, analyse};
use holdup_testkit::check::{check_lanes, confidence, trace_of_lanes};

#[test]
fn a_lock_is_reported_while_another_program_uses_the_other_cpu() {
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
fn a_lone_worker_is_reported_while_another_program_uses_the_other_cpu() {
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
fn a_thread_queued_behind_another_program_is_no_lone_worker() {
    // A is runnable: other threads use both CPUs, and the thread that it waits for would help no other
    // thread.
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
fn pinned_threads_are_reported_while_another_program_uses_the_other_cpu() {
    let with = |cpus_allowed: u32| {
        let drawing = "@cpus 2\n@repeat 40\nA  00rr00\nB  rr00rr\n~backup  111111\n";
        let (_, mut trace) = trace_of_lanes(drawing);
        trace.threads.iter_mut().for_each(|thread| thread.cpus_allowed = cpus_allowed);
        confidence(&analyse(&trace), "pinned-together")
    };
    assert_eq!(with(1), Some(Confidence::High));
    assert_eq!(with(0), None, "a scheduler may leave them there: the other CPU is not idle");
}

#[test]
fn a_late_end_caused_by_another_program_is_no_serial_section() {
    // Both have eleven ticks of work. Another program used B's CPU for eight.
    let analysis = check_lanes(
        "@cpus 2\n@j join\n@k join\n\
         main     0jjjjjjjjjjj0kkkkkkk0\n\
         A        .00000000000.........  holds j 1..12\n\
         B        .rr1rr1rr1rr11111111.  holds k 1..20\n\
         ~backup  .11.11.11.11.........\n",
    );
    assert_eq!(confidence(&analysis, "barrier-straggler"), Some(Confidence::Low), "{:#?}", analysis.findings);
    assert!(
        analysis.findings.iter().all(|finding| finding.rule != "serial-section"),
        "{:#?}",
        analysis.findings
    );
}

#[test]
fn two_threads_on_one_cpu_are_no_oversubscription_with_another_program() {
    let picture = "@cpus 2\n@repeat 20\n\
         A        000rrr000mmm\n\
         B        rrr000rrr000  holds m 9..12\n";
    check_lanes(&format!("{picture}@silent oversubscription\n~backup  111111111111\n"));
    assert!(confidence(&check_lanes(&picture.replace("@cpus 2", "@cpus 1")), "oversubscription").is_some());
}

#[test]
fn now_this_one_and_now_that_one_alone_is_no_section_of_one() {
    let with = |first: &str, second: &str| {
        let (both, more) = ("0".repeat(30), "1".repeat(30));
        let analysis = check_lanes(&format!(
            "@cpus 2\n@c park\n@d park\n@repeat 20\n\
             A  {both}{first}  holds d 0..40\n\
             B  {more}{second}  holds c 0..40\n"
        ));
        confidence(&analysis, "serial-section")
    };
    assert!(with("0000000cc0", "1111d11111").is_none_or(|sure| sure == Confidence::Low));
    assert!(with("000000ccc0", "1111111111").is_some_and(|sure| sure > Confidence::Low));
}

#[test]
fn alone_in_what_all_do_is_an_uneven_end() {
    let with = |alone: &str| {
        let (both, more) = ("0".repeat(33), "1".repeat(33));
        let analysis = check_lanes(&format!(
            "@cpus 2\n@c park\n@repeat 20\n@samples A 0..33 user main;row\n@samples A 33..39 user main;{alone}\n\
             @samples B 0..33 user main;row\n\
             A  {both}000000c  holds c 0..40\n\
             B  {more}cccccc1  holds c 39..40\n"
        ));
        confidence(&analysis, "serial-section")
    };
    assert_eq!(with("row"), Some(Confidence::Low));
    assert!(with("merge").is_some_and(|sure| sure > Confidence::Low));
}

#[test]
fn a_pinned_thread_keeps_its_recorded_start() {
    // The lock's holder may only use the first CPU, which a thread with a higher priority uses. Another
    // program leaves gaps on the other CPU.
    let (waits, queues) = ("m".repeat(200), "r".repeat(200));
    let (runs, stranger) = ("0".repeat(200), "1111111.11".repeat(20));
    let (_, trace) = trace_of_lanes(&format!(
        "@cpus 2\n\
         low      00{queues}000\n\
         high     rr{runs}rrr\n\
         waiter   11{waits}m11\n\
         ~other   ..{stranger}...\n"
    ));
    let (timelines, roles) = (Timelines::derive(&trace), Roles::built_in(&trace));
    let locks = LockIndex::new(&trace, &roles);
    let facts = Facts { trace: &trace, timelines: &timelines, roles: &roles, locks: &locks, cpus: 2 };
    let off = Replays::new(facts).wall_ns() as f64 / trace.wall().0 as f64 - 1.0;
    assert!(off.abs() <= 0.01, "the replay with nothing changed is off by {off}");
}

#[test]
fn the_way_to_a_cpu_takes_its_time_in_a_replay_too() {
    // Each is woken a tick before it reaches a run queue: the other CPU hears of it no sooner.
    let (_, mut trace) = trace_of_lanes("@cpus 2\n@c park\n@d park\n@repeat 40\nA  00cccc\nB  ddd11d\n");
    let tick = 1_000_000;
    let of =
        |name: &str| ThreadId(trace.threads.iter().position(|thread| thread.name == name).unwrap() as u32);
    let (a, b) = (of("A"), of("B"));
    let on_its_way = |wakeup: &Wakeup| Wakeup {
        at: Timestamp(wakeup.at.0 - tick),
        waker: if wakeup.wakee == a { b } else { a },
        context: WakeContext::Thread,
        ..*wakeup
    };
    let wakeups = trace.wakeups.iter().map(on_its_way).collect();
    trace.wakeups = Wakeups::freeze(wakeups, trace.threads.len());
    let (timelines, roles) = (Timelines::derive(&trace), Roles::built_in(&trace));
    let locks = LockIndex::new(&trace, &roles);
    let facts = Facts { trace: &trace, timelines: &timelines, roles: &roles, locks: &locks, cpus: 2 };
    let replays = Replays::new(facts);
    let off = replays.wall_ns() as f64 / trace.wall().0 as f64 - 1.0;
    assert!(off.abs() <= 0.01, "the replay with nothing changed is off by {off}");
    // A thread that runs as soon as it is woken has no delay. That is a third of the run.
    let waits = Charge::matching(&trace, |slice| slice.state == ThreadState::Blocked);
    let (gain, ..) = forecast(facts, &[Change::AtOnce(waits)], &replays).gain();
    assert!((gain - 1.0 / 3.0).abs() < 0.02, "{gain}");
}

#[test]
fn without_spinning_no_cpu_is_lost_to_another_program() {
    // Both programs want the one CPU in turns: all that A does there is to spin, or it did so before, when it was alone.
    let gain = |own: &str, stranger: &str, spins: u32| {
        let (_, trace) = trace_of_lanes(&format!(
            "@cpus 1\n@samples A 0..{spins} user main;spin\n@samples A {spins}..40 user main;work\nA  {own}\n~s  {stranger}\n"
        ));
        let (timelines, roles) = (Timelines::derive(&trace), Roles::built_in(&trace));
        let locks = LockIndex::new(&trace, &roles);
        let facts = Facts { trace: &trace, timelines: &timelines, roles: &roles, locks: &locks, cpus: 1 };
        let faster = Change::Faster("spin".to_owned(), 1e9);
        forecast(facts, &[faster], &Replays::new(facts)).gain().0
    };
    let in_turns = gain(&"0r".repeat(20), &".0".repeat(20), 38);
    assert!(in_turns > 0.9, "the waits for the CPU go with what was spun: {in_turns}");
    let before = gain(&("0".repeat(20) + &"0r".repeat(10)), &(".".repeat(20) + &".0".repeat(10)), 20);
    assert!((before - 0.5).abs() < 0.05, "work still has to queue: {before}");
}
