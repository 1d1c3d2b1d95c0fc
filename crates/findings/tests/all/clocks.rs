//! Rules on threads that sleep by the clock, on pictures: one in which each fires, one in which it must stay silent.

use holdup_findings::{Confidence, analyse};
use holdup_testkit::check::{check_lanes, confidence, trace_of_lanes};

#[test]
fn poll_loop_fires_where_all_wait_for_a_clock() {
    // A hands work over and waits. B polls by its clock, and responds.
    let analysis = check_lanes(
        "@cpus 2\n@tick 100000\n@s sleep\n@c park\n@repeat 60\n\
         A  0ccccccccccccccccccc  holds s 0..1\n\
         B  ss1ssssssss1sssssss1  holds c 19..20\n\
        \x20       ^^^^^^             poll-loop holder=B\n",
    );
    assert_eq!(confidence(&analysis, "poll-loop"), Some(Confidence::Medium), "{:#?}", analysis.findings);
}

/// A sends a request. B, which polls for arbitrary descriptors, runs at once. It responds when its timers
/// have expired.
#[test]
fn what_an_event_loop_sleeps_for_are_timers() {
    let lanes = |calls: &str| {
        format!(
            "@cpus 2\n@tick 100000\n@e multiplex 232\n@timeout e 7\n@c park\n@s sleep\n@repeat 60\n\
             A  0ccccccccccccccccc0  holds e 0..1\n\
             B  {calls}  holds c 17..18\n"
        )
    };
    let analysis = check_lanes(&lanes("e1eeeeeee1eeeeeee11"));
    let finding = analysis.findings.iter().find(|finding| finding.rule == "poll-loop").unwrap();
    assert_eq!((finding.confidence, finding.gain.low), (Confidence::Low, 0.0), "{finding:#?}");
    assert!(finding.summary.iter().any(|line| line.contains("60 events ended such waits")), "{finding:#?}");
    // A thread that sleeps in between does not see incoming requests.
    let analysis = check_lanes(&lanes("e1sssssss1sssssss11"));
    assert_eq!(confidence(&analysis, "poll-loop"), Some(Confidence::Medium), "{:#?}", analysis.findings);
}

#[test]
fn a_housekeeping_thread_during_real_work_is_no_poll_loop() {
    check_lanes(
        "@cpus 2\n@tick 100000\n@s sleep\n@repeat 60\n@silent all\n\
         A  00000000000000000000\n\
         B  ssssssssss1sssssssss\n",
    );
}

/// All threads wait for the disk, while timers expire for which no thread waits.
#[test]
fn a_housekeeping_thread_without_waiters_delays_nothing() {
    check_lanes(
        "@cpus 2\n@tick 10000\n@s sleep\n@d disk\n@repeat 60\n@silent poll-loop\n@silent oversleep\n\
         A  0000000000000000000000000000000000000000dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd\n\
         B  ssssssssssssssssssssssssssssssssssssssssssssssssssssssssss1sssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssss\n",
    );
}

/// The object of its checks has a lock, for which other threads wait at times.
#[test]
fn a_housekeeper_may_hold_a_lock_while_it_looks() {
    let (work, disk) = ("0".repeat(100), "d".repeat(240));
    let (night, day) = ("s".repeat(56), "s".repeat(340));
    check_lanes(&format!(
        "@cpus 2\n@tick 10000\n@s sleep\n@d disk\n@repeat 60\n@silent poll-loop\n@silent oversleep\n\
         A  {}mm{work}{disk}\nB  {night}111{day}  holds m 56..59\n",
        "0".repeat(57)
    ));
}

#[test]
fn an_idle_server_with_a_clock_is_a_hint_at_most() {
    let analysis = check_lanes(
        "@cpus 2\n@tick 100000\n@s sleep\n@e multiplex\n@repeat 100\n@silent oversleep\n\
         A  0eeeeeeeeeeeeeeeeeee\n\
         B  ssssssssss1sssssssss\n",
    );
    let sure = confidence(&analysis, "poll-loop");
    assert!(sure.is_none() || sure == Some(Confidence::Low), "{sure:?}");
}

/// A loop whose own timer expires ten times a second, and no request arrives in between.
#[test]
fn an_event_loop_that_is_asked_nothing_holds_nothing_up() {
    check_lanes(
        "@cpus 2\n@tick 1000000\n@e multiplex 232\n@timeout e 100\n@repeat 20\n@silent oversleep\n@silent poll-loop\n\
         A  0eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee\n",
    );
    // Nor does a monitoring loop that runs concurrently.
    check_lanes(
        "@cpus 2\n@tick 1000000\n@s sleep\n@e multiplex 232\n@timeout e 100\n@repeat 20\n@silent oversleep\n@silent poll-loop\n\
         A  0eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee\n\
         B  sssssssssssssssssssssssssssssssssssssssssssssssss1sssssssssssssssssssssssssssssssssssssssssssssssssss\n",
    );
    // A loop with a timer, for whose result another thread waits.
    let analysis = check_lanes(
        "@cpus 2\n@tick 1000000\n@e multiplex 232\n@timeout e 99\n@c park\n@repeat 60\n\
         A  0ccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc0\n\
         B  eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee11  holds c 99..100\n",
    );
    assert!(analysis.findings.iter().any(|one| one.rule == "poll-loop"), "{:#?}", analysis.findings);
}

/// A cache that is asked nothing: what looks after its lists sleeps, and so does all else.
#[test]
fn a_housekeeping_thread_of_an_idle_server_delays_nothing() {
    let nights = format!("{}1", "s".repeat(149)).repeat(12);
    let idle = "e".repeat(nights.len() - 1);
    check_lanes(&format!(
        "@cpus 2\n@tick 1000000\n@s sleep\n@e multiplex\n@silent oversleep\n@silent poll-loop\n\
         A  {idle}0\nB  {nights}\n"
    ));
}

/// A server's own process repeats its work by timeout, and no thread waits for it.
#[test]
fn a_runtimes_thread_that_looks_after_it_does_not_sleep_for_the_program() {
    let sleeps = |begins_with: &str| {
        let analysis = check_lanes(&format!(
            "@cpus 2\n@tick 100000\n@e multiplex 232\n@timeout e 4\n@stack e main;PostmasterMain;{begins_with};WaitLatch\n@repeat 30\n\
             A  00eeee\n"
        ));
        analysis.findings.iter().any(|one| one.rule == "oversleep" || one.rule == "poll-loop")
    };
    assert!(!sleeps("BackgroundWriterMain") && sleeps("PostgresMain"));
}

#[test]
fn oversleep_fires_while_no_thread_works() {
    let analysis = check_lanes(
        "@cpus 2\n@s sleep\n@repeat 30\n\
         A  00ssss\n\
        \x20     ^^^^   oversleep holder=A cost=120\n",
    );
    let gain = analysis.findings[0].gain;
    assert!(gain.low == 0.0 && (gain.high - 2.0 / 3.0).abs() < 0.01, "{gain:?}");
}

#[test]
fn oversleep_knows_what_was_asked_for() {
    let analysis = check_lanes(
        "@cpus 2\n@s sleep\n@timeout s 1\n@repeat 30\n\
         A  00ssss\n\
        \x20     ^^^^   oversleep holder=A cost=120\n",
    );
    let finding = &analysis.findings[0];
    assert!((finding.gain.low - finding.gain.high * 0.75).abs() < 0.02, "{:?}", finding.gain);
    assert!(finding.summary[1].starts_with("They asked for 1.00 ms each on average, and woke 3.00 ms later"));
    assert!(finding.advice[0].contains("PR_SET_TIMERSLACK"));
}

#[test]
fn sleeping_while_another_thread_works_is_silent() {
    check_lanes(
        "@cpus 2\n@s sleep\n@repeat 30\n@silent all\n\
         A  00ssss\n\
         B  111111\n",
    );
    // One sleep is meant.
    check_lanes(
        "@cpus 2\n@s sleep\n@silent all\n\
         A  00ssssssssssssssssss00\n",
    );
}

/// A server without clients, to which one attaches, is busy for 1 % of the time. No client waits for its housekeeping.
#[test]
fn an_idle_process_that_was_attached_to_does_not_oversleep() {
    let oversleeps = |mode: &str, busy: usize| {
        let lane = format!("A  {}{}\n", "0".repeat(busy), "s".repeat(100 - busy));
        let (_, mut trace) = trace_of_lanes(&format!("@cpus 2\n@tick 10000000\n@s sleep\n@repeat 3\n{lane}"));
        trace.manifest.mode = mode.to_owned();
        trace.threads.iter_mut().for_each(|thread| thread.alive_at_end = true);
        analyse(&trace).findings.iter().any(|finding| finding.rule == "oversleep")
    };
    assert!(!oversleeps("attach", 1), "nearly idle");
    assert!(oversleeps("run", 1), "a run could be shorter");
    assert!(oversleeps("attach", 10), "it works now and then");
}

#[test]
fn a_few_long_sleeps_that_are_most_of_the_run_are_a_hint() {
    // A second and more of a back-off, three times.
    let analysis = check_lanes(
        "@cpus 2\n@tick 100000000\n@s sleep\n@repeat 3\n\
         A  00sssssssssssssssssss0\n\
        \x20    ^^^^^^^^^^^^^^^^^^^   oversleep holder=A\n",
    );
    assert_eq!(confidence(&analysis, "oversleep"), Some(Confidence::Low));
    check_lanes(
        "@cpus 2\n@tick 100000000\n@s sleep\n@repeat 3\n@silent all\n\
         A  00sss00000000000000000\n",
    );
    // Event loops that check periodically whether to exit, without any requests.
    check_lanes(
        "@cpus 2\n@tick 100000000\n@e multiplex 232\n@timeout e 10\n@repeat 3\n@silent oversleep\n\
         A  0eeeeeeeeee0eeeeeeeeee0\n\
         B  eeeee0eeeeeeeeee0eeeeee\n",
    );
    // The same with a thread that waits for requests, of which none arrives.
    check_lanes(
        "@cpus 2\n@tick 100000000\n@s sleep\n@e multiplex\n@repeat 3\n@silent oversleep\n\
         A  00sssssssssssssssssss0\n\
         B  eeeeeeeeeeeeeeeeeeeee1\n",
    );
}

#[test]
fn poll_loop_counts_the_waits_of_clients() {
    // A asks while B sleeps, and B answers when its clock has woken it.
    let analysis = check_lanes(
        "@cpus 2\n@tick 100000\n@s sleep\n@c park\n@repeat 60\n\
         A  0ccccccccc0\n\
         B  sssssssss11  holds c 9..10\n\
        \x20   ^^^^^^^      poll-loop holder=B\n",
    );
    let finding = analysis.findings.iter().find(|finding| finding.rule == "poll-loop").unwrap();
    assert!(finding.gain.low > 0.55 && finding.gain.high < 0.95, "{:?}", finding.gain);
}

/// A ticker refreshes a clock every 10 ms while the worker waits for a helper process. It is not joined before the
/// end. Where another thread waits for each of its ticks, its sleeps delay that thread.
#[test]
fn a_ticker_that_no_thread_waits_for_is_silent() {
    const TICKS: usize = 1200;
    let lane = |letter: char, body: &str, last: char| {
        let body: String = body.chars().cycle().take(TICKS - 4).collect();
        format!("{letter}  .{body}{last}..")
    };
    let is_reported = |waiter: &str| {
        let ticker = lane('T', &format!("22{}", "s".repeat(18)), '2');
        let wakes = (0..TICKS / 20 - 1).map(|lap| format!("  holds c {}..{}", 20 * lap + 21, 20 * lap + 22));
        let wakes: String = wakes.collect();
        let analysis = check_lanes(&format!(
            "@cpus 4\n@tick 500000\n@s sleep\n@j join\n@p socket\n@c park\n\
             A  0{}0.\n{}  holds j {}..{}\n{ticker}{wakes}\n{waiter}\n",
            "j".repeat(TICKS - 3),
            lane('B', "1pppppppppppppp111", '1'),
            TICKS - 3,
            TICKS - 2,
        ));
        analysis.findings.iter().any(|one| one.rule == "oversleep" || one.rule == "poll-loop")
    };
    assert!(!is_reported(""));
    // It runs a tick later than the ticker.
    let waits = format!("3{}", "c".repeat(19)).repeat(TICKS / 20 - 1);
    let waits = format!("C  {:.<TICKS$}", format!(".3{waits}3"));
    assert!(is_reported(&waits));
}
