//! Rules on waiting for each other, for clocks, peers and children, on pictures: one in which each fires, one in
//! which it must stay silent.

use holdup_events::event::WakeContext;
use holdup_events::recording::CpuPlace;
use holdup_events::tables::{CountKind, KernelCountRow, Process, Steal, Wakeup, Wakeups};
use holdup_events::{Duration, ProcessId, Trace};
use holdup_findings::{Confidence, analyse};
use holdup_testkit::check::{check_lanes, confidence, trace_of_lanes};

#[test]
fn ping_pong_fires_where_handing_over_is_most_of_the_round() {
    // 20 µs of work and 20 µs from wakeup to running, in turn.
    let analysis = check_lanes(
        "@cpus 2\n@tick 20000\n@c park\n@d pipe\n@repeat 300\n\
         A  0ccr  holds d 0..1\n\
        \x20    ^^     wakeup-ping-pong holder=B cost=1199\n\
         B  dr1d  holds c 2..3\n",
    );
    let gain = analysis.findings[0].gain;
    assert_eq!(analysis.findings[0].rule, "wakeup-ping-pong", "{:#?}", analysis.findings);
    assert!(gain.low > 0.3 && gain.high > gain.low, "{gain:?}");
}

#[test]
fn ping_pong_fires_where_one_waits_seldom_and_as_long() {
    // A hands over three pieces in a row, and waits for the answer to the last of them.
    check_lanes(
        "@cpus 2\n@tick 20000\n@c park\n@d pipe\n@repeat 300\n\
         A  0000000ccccr  holds d 0..7\n\
        \x20          ^^^^     wakeup-ping-pong holder=B\n\
         B  dr1dr1dr1111  holds c 9..11\n",
    );
}

#[test]
fn handing_over_large_pieces_is_no_ping_pong() {
    // 1 ms of work each time. A handover costs little in comparison.
    check_lanes(
        "@cpus 2\n@tick 20000\n@c park\n@d pipe\n@repeat 120\n@silent wakeup-ping-pong\n\
         A  00000000000000000000ccccccccccccccccccccc  holds d 0..20\n\
         B  dddddddddddddddddddd111111111111111111111  holds c 20..41\n",
    );
    // One that feeds another which never answers.
    check_lanes(
        "@cpus 2\n@tick 20000\n@d pipe\n@repeat 300\n@silent wakeup-ping-pong\n\
         A  0000  holds d 0..4\n\
         B  ddr1\n",
    );
    // One that feeds another, and is woken by it once for three pieces.
    check_lanes(
        "@cpus 2\n@tick 20000\n@c park\n@d pipe\n@repeat 300\n@silent wakeup-ping-pong\n\
         A  0000000000cr  holds d 0..1 holds d 3..4 holds d 6..7\n\
         B  dr1dr1dr111d  holds c 10..11\n",
    );
}

#[test]
fn one_that_waits_for_a_lock_before_it_answers_is_no_ping_pong() {
    check_lanes(
        "@cpus 3\n@tick 20000\n@c park\n@d pipe\n@repeat 300\n@silent wakeup-ping-pong\n\
         A  0ccccccccccccccccccccccccccccr  holds d 0..1\n\
         B  dr1mmmmmmmmmmmmmmmmmmmmmmmmr1d  holds c 28..29\n\
         C  222222222222222222222222222222  holds m 3..27\n",
    );
}

/// Two threads pass small pieces of work, and wait much longer for each other's lock.
#[test]
fn threads_that_wait_for_one_lock_are_no_ping_pong() {
    check_lanes(
        "@cpus 2\n@tick 20000\n@c park\n@d pipe\n@repeat 300\n@silent wakeup-ping-pong\n\
         A  0ccr0mmmmmmmmmr  holds d 0..1\n\
        \x20         ^^^^^^^^^   lock-contention holder=B\n\
         B  dr111111111111d  holds c 2..3 holds m 3..14\n",
    );
}

#[test]
fn cpu_throttled_fires_on_pauses_of_the_group() {
    let analysis = check_lanes(
        "@cpus 2\n@repeat 20\n\
         A  000000tttt\n\
        \x20         ^^^^   cpu-throttled holder=A cost=160\n\
         B  111111tttt\n",
    );
    let gain = analysis.findings[0].gain;
    // Four tenths, and what cannot be foreseen.
    assert!((0.32..=0.4).contains(&gain.low) && (0.4..=0.48).contains(&gain.high), "{gain:?}");
}

/// The group's limit is reported if it was read.
#[test]
fn cpu_throttled_reports_the_quota() {
    let (_, mut trace) = trace_of_lanes("@cpus 2\n@repeat 20\nA  000000tttt\nB  111111tttt\n");
    let first = trace.target_threads().next().expect("a thread");
    let row = |count| KernelCountRow {
        thread: Some(first),
        what: CountKind::CpuLimit,
        count,
        ..KernelCountRow::default()
    };
    let texts = |trace: &Trace| {
        let finding = analyse(trace).findings.into_iter().find(|one| one.rule == "cpu-throttled");
        let finding = finding.expect("the finding");
        (finding.summary.join(" "), finding.advice.join(" "))
    };
    let (summary, advice) = texts(&trace);
    assert!(!summary.contains("may use"), "{summary}");
    assert!(advice.contains("SCHED_DEADLINE"), "without a quota it may be the other limit: {advice}");
    trace.kernel_counts.push(row(1500));
    let (summary, advice) = texts(&trace);
    assert!(summary.contains("Its cgroup may use 1.5 CPUs (cpu.max)."), "{summary}");
    assert!(!advice.contains("SCHED_DEADLINE"), "{advice}");
}

#[test]
fn a_queue_is_not_throttling() {
    check_lanes(
        "@cpus 1\n@repeat 20\n@silent cpu-throttled\n\
         A  000rrr\n\
         B  rrr000\n",
    );
}

#[test]
fn cpu_stolen_fires_on_what_the_hypervisor_took() {
    let (_, mut trace) = trace_of_lanes("@cpus 2\n@repeat 20\nA  0000000mmm\nB  111111mmmm\n");
    assert!(!analyse(&trace).findings.iter().any(|finding| finding.rule == "cpu-stolen"));
    let running: Vec<_> = trace.target_threads().flat_map(|thread| trace.slices.of_thread(thread)).collect();
    let running = running.iter().filter(|slice| slice.state.name() == "running");
    let quarter = |slice: &holdup_events::tables::Slice| Duration(slice.duration().0 / 4);
    trace.steals = running
        .map(|slice| Steal { thread: slice.thread, slice_start: slice.start, stolen: quarter(slice) })
        .collect();
    let analysis = analyse(&trace);
    let finding = analysis.findings.iter().find(|finding| finding.rule == "cpu-stolen").unwrap();
    assert!((finding.gain.low - 0.15).abs() < 0.01 && finding.gain.high < 0.19, "{finding:#?}");
}

#[test]
fn delayed_ack_fires_on_waits_of_forty_milliseconds() {
    check_lanes(
        "@cpus 2\n@n socket\n@repeat 20\n\
         A  00nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn\n\
        \x20     ^^^^^^^^^^^^^^^^^                           delayed-ack holder=A cost=779\n",
    );
}

#[test]
fn a_peer_that_takes_its_time_is_no_delayed_ack() {
    // As long on average, but never the same.
    check_lanes(
        "@cpus 2\n@n socket\n@repeat 20\n@silent delayed-ack\n\
         A  00nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn0nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn\n",
    );
    check_lanes(
        "@cpus 2\n@n socket\n@repeat 20\n@silent delayed-ack\n\
         A  00nnnnnnnnnnnnnnnnnnnn\n",
    );
}

#[test]
fn thundering_herd_fires_where_all_but_one_sleep_again() {
    // A wakes three threads each time. One has 80 µs of work, two have none.
    check_lanes(
        "@cpus 4\n@tick 5000\n@c park\n@repeat 200\n\
         A  00000000000000000000  holds c 0..20\n\
         B  ccccc1111111111ccccc\n\
         C  ccccc2cccccccccccccc\n\
        \x20       ^                thundering-herd waiter=C\n\
         D  ccccc3cccccccccccccc\n",
    );
}

/// Users cannot change which threads a runtime wakes for its tasks. A task may also be as short as an
/// unsuccessful check.
#[test]
fn workers_of_a_runtime_that_carries_tasks_are_no_herd() {
    let herd = |stack: &str| {
        let analysis = check_lanes(&format!(
            "@cpus 4\n@tick 5000\n@c park\n@repeat 200\n@stack c {stack}\n\
             A  00000000000000000000  holds c 0..20\n\
             B  ccccc1111111111ccccc\n\
             C  ccccc2cccccccccccccc\n\
             D  ccccc3cccccccccccccc\n"
        ));
        confidence(&analysis, "thundering-herd").is_some()
    };
    assert!(herd("main;take;wait"));
    assert!(!herd("runtime.mcall;runtime.schedule;runtime.findRunnable;runtime.stopm;runtime.futexsleep"));
}

#[test]
fn a_herd_is_sure_where_nearly_all_wake_in_vain_all_the_time() {
    let herd = |repeat: u32| {
        check_lanes(&format!(
            "@cpus 2\n@tick 5000\n@c park\n@repeat {repeat}\n\
             A  00000rr0000000000000  holds c 0..20\n\
             B  ccccc1111111111ccccc\n\
             C  ccccc0cccccccccccccc\n\
             D  cccccr0ccccccccccccc\n"
        ))
    };
    assert_eq!(confidence(&herd(1000), "thundering-herd"), Some(Confidence::High));
    assert_eq!(confidence(&herd(200), "thundering-herd"), Some(Confidence::Medium));
}

/// More waits for `e` end in vain than for `c`. But most waits for `c` do, and few for `e`.
#[test]
fn a_herd_is_reported_without_the_busy_queue() {
    let analysis = check_lanes(
        "@cpus 5\n@tick 5000\n@c park\n@e park\n@repeat 100\n\
         A  0000000000000000000000000000000000000000  holds c 0..40  holds e 0..40\n\
         B  cccc111ccccccccccccccccccccccccccccccccc\n\
         C  cccc2ccccccccccccccccccccccccccccccccccc\n\
        \x20      ^                                    thundering-herd waiter=C holder=C cost=200\n\
         D  cccc3ccccccccccccccccccccccccccccccccccc\n\
         G  eeeeeeee111e111e111e111e111e111e111e1111\n\
         H  eeeeeeee2eeeeeeeeeeeeeeeeeeeeeeeeeeeeeee\n\
         I  eeeeeeee3eeeeeeeeeeeeeeeeeeeeeeeeeeeeeee\n\
         J  eeeeeeee4eeeeeeeeeeeeeeeeeeeeeeeeeeeeeee\n",
    );
    let herd = analysis.findings.iter().find(|finding| finding.rule == "thundering-herd").unwrap();
    assert!(herd.subject.starts_with("2 threads"), "{herd:#?}");
}

#[test]
fn waking_one_or_workers_that_all_work_is_no_herd() {
    check_lanes(
        "@cpus 4\n@tick 5000\n@c park\n@repeat 200\n@silent thundering-herd\n\
         A  00000000000000000000  holds c 0..20\n\
         B  ccccc1cccccccccccccc\n\
         C  cccccccccccccccccccc\n",
    );
    check_lanes(
        "@cpus 4\n@tick 5000\n@c park\n@repeat 200\n@silent thundering-herd\n\
         A  00000000000000000000  holds c 0..20\n\
         B  ccccc1111111111ccccc\n\
         C  ccccc2222222222ccccc\n\
         D  ccccc3333333333ccccc\n",
    );
}

#[test]
fn migration_churn_is_a_hint_where_threads_move_all_the_time() {
    let analysis = check_lanes(
        "@cpus 2\n@tick 50000\n@c park\n@repeat 100\n\
         A  00c11c\n\
        \x20      ^^   migration-churn holder=A\n",
    );
    assert_eq!(confidence(&analysis, "migration-churn"), Some(Confidence::Low));
}

/// Two CPUs at these (node, core), and a thread that moves between them all the time.
fn moving_between(places: [(u32, u32); 2]) -> holdup_findings::Analysis {
    let (_, mut trace) = trace_of_lanes("@cpus 2\n@tick 50000\n@c park\n@repeat 100\nA  00c11c\n");
    let place = |(cpu, (node, core))| CpuPlace { cpu, node, package: node, core, ..CpuPlace::default() };
    trace.manifest.host.places = (0..).zip(places).map(place).collect();
    analyse(&trace)
}

#[test]
fn migration_churn_names_moves_to_another_node() {
    let analysis = moving_between([(0, 0), (1, 0)]);
    let found = analysis.findings.iter().find(|finding| finding.rule == "migration-churn").unwrap();
    assert!(found.summary[1].contains("(100 %) to another NUMA node"), "{:?}", found.summary);
    assert!(found.evidence[0].note.ends_with(", on another node"), "{:?}", found.evidence);
    let nodes = &analysis.derived.nodes;
    assert_eq!((nodes.moves.other_node, nodes.moves.total()), (199, 199));
    assert_eq!(nodes.nodes.iter().map(|node| node.threads).sum::<u64>(), 1);

    let near = moving_between([(0, 0), (0, 1)]);
    let found = near.findings.iter().find(|finding| finding.rule == "migration-churn").unwrap();
    assert_eq!(found.summary.len(), 1, "{:?}", found.summary);
}

#[test]
fn moves_between_hardware_threads_of_a_core_are_no_churn() {
    let analysis = moving_between([(0, 0), (0, 0)]);
    assert!(analysis.findings.iter().all(|finding| finding.rule != "migration-churn"));
    assert_eq!(analysis.derived.nodes.moves.same_core, 199);
}

#[test]
fn moving_after_a_long_pause_is_no_churn() {
    check_lanes(
        "@cpus 2\n@tick 500000\n@c park\n@repeat 100\n@silent migration-churn\n\
         A  00ccc11ccc\n",
    );
    check_lanes(
        "@cpus 2\n@tick 50000\n@c park\n@repeat 100\n@silent migration-churn\n\
         A  00c00c\n",
    );
}

#[test]
fn pinned_together_fires_with_an_idle_cpu() {
    let analysis = check_lanes(
        "@cpus 2\n@repeat 30\n\
         A  00rr00\n\
         B  rr00rr\n\
        \x20      ^^  pinned-together holder=A\n",
    );
    assert_eq!(analysis.findings[0].rule, "pinned-together", "{:#?}", analysis.findings);
    // Half of the time, and what cannot be foreseen.
    assert!((0.5..=0.6).contains(&analysis.findings[0].gain.high), "{:#?}", analysis.findings[0].gain);
}

/// Two threads on one of two CPUs. Their affinity mask has `cpus_allowed` CPUs.
fn on_one_cpu(cpus_allowed: u32) -> holdup_findings::Analysis {
    let (_, mut trace) = trace_of_lanes("@cpus 2\n@repeat 30\nA  00rr00\nB  rr00rr\n");
    trace.threads.iter_mut().for_each(|thread| thread.cpus_allowed = cpus_allowed);
    analyse(&trace)
}

#[test]
fn pinned_together_knows_where_threads_may_run() {
    assert_eq!(confidence(&on_one_cpu(0), "pinned-together"), Some(Confidence::Medium));
    assert_eq!(confidence(&on_one_cpu(1), "pinned-together"), Some(Confidence::High));
    assert_eq!(confidence(&on_one_cpu(2), "pinned-together"), None, "they stayed there by chance");
}

#[test]
fn sharing_a_cpu_where_no_other_is_idle_is_not_pinning() {
    check_lanes(
        "@cpus 2\n@repeat 30\n@silent pinned-together\n\
         A  00rr00\n\
         B  rr00rr\n\
         C  111111\n",
    );
    // They moved before: they may.
    check_lanes(
        "@cpus 2\n@repeat 30\n@silent pinned-together\n\
         A  00rr001111\n\
         B  rr00rr0000\n",
    );
}

#[test]
fn pool_starved_fires_where_all_workers_wait_in_the_middle_of_work() {
    let analysis = check_lanes(
        "@cpus 2\n@n socket\n@c park\n@repeat 20\n\
         B  0nnnnnnnnr0c\n\
         C  1nnnnnnnnn1c\n\
        \x20   ^^^^^^^^^     pool-starved\n",
    );
    let starved = analysis.findings.iter().find(|finding| finding.rule == "pool-starved").unwrap();
    assert!((starved.gain.high - 8.0 / 12.0).abs() < 0.03, "{starved:#?}");
}

/// Two workers send requests to a server until the work that M distributed is done. M waits for that.
/// `answer` returns the tick of the response to a request at `at`, if the server is free from `free` on.
fn pool_that_asks(answer: impl Fn(usize, usize, usize) -> usize) -> holdup_findings::Analysis {
    const TICKS: usize = 3000;
    let mut lanes = ["cc0".to_owned(), "cc1".to_owned()];
    let mut free = 0;
    let mut random = 42u64;
    loop {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let who = usize::from(lanes[1].len() < lanes[0].len());
        let at = lanes[who].len();
        let to = answer(at, free, 9 + (random >> 33) as usize % 5);
        if to + 1 >= TICKS {
            break;
        }
        free = free.max(to);
        lanes[who] += &format!("{}{who}", "n".repeat(to - at));
    }
    // B does the last of it, and wakes M.
    let filled = |worker: usize, tick: &str| {
        let lane = &lanes[worker];
        format!("{lane}{}", tick.repeat(TICKS - lane.len()))
    };
    check_lanes(&format!(
        "@cpus 3\n@n socket\n@c park\n@d park\n@repeat 2\n\
         M  222{}2  holds c 0..{TICKS}\nB  {}  holds d 0..{TICKS}\nC  {}\n",
        "d".repeat(TICKS - 4),
        filled(0, "0"),
        filled(1, "c")
    ))
}

#[test]
fn a_pool_gains_for_sure_where_waits_go_on_side_by_side() {
    let gain = |analysis: &holdup_findings::Analysis| {
        analysis.findings.iter().find(|finding| finding.rule == "pool-starved").unwrap().gain
    };
    let any_number = gain(&pool_that_asks(|at, _, ticks| at + ticks));
    assert!(any_number.low > 0.3 && any_number.high > 0.6, "{any_number:?}");
    let one_at_a_time = gain(&pool_that_asks(|at, free, ticks| at.max(free) + ticks));
    assert!(one_at_a_time.low == 0.0 && one_at_a_time.high > 0.6, "{one_at_a_time:?}");
}

#[test]
fn a_pool_with_an_idle_worker_is_not_starved() {
    check_lanes(
        "@cpus 2\n@n socket\n@c park\n@repeat 20\n@silent pool-starved\n\
         B  0nnnnnnnn00c\n\
         C  1nnnnnnnnn1c\n\
         D  cccccccccccc\n",
    );
}

/// Two threads that take turns of 5 ms. A timer ends every wait. `file` is mapped as their program.
fn turns(file: &str) -> holdup_findings::Analysis {
    timed_turns(file, "A  ccccc00000\nB  11111ccccc\n")
}

fn timed_turns(file: &str, lanes: &str) -> holdup_findings::Analysis {
    let (_, mut trace) = trace_of_lanes(&format!("@cpus 2\n@c park\n@p park\n@repeat 40\n{lanes}"));
    let timers =
        trace.wakeups.iter().map(|wakeup| Wakeup { context: WakeContext::Timer, ..*wakeup }).collect();
    trace.wakeups = Wakeups::freeze(timers, trace.threads.len());
    trace.mappings.iter_mut().for_each(|mapping| mapping.path = file.to_owned());
    analyse(&trace)
}

#[test]
fn interpreter_lock_fires_where_pythons_threads_take_turns() {
    let analysis = turns("/usr/bin/python3.11");
    assert_eq!(analysis.findings[0].rule, "interpreter-lock", "{:#?}", analysis.findings);
    assert!((analysis.findings[0].gain.high - 0.5).abs() < 0.02, "{:#?}", analysis.findings[0].gain);
}

/// The work of a thread that computes all the time takes as long without the lock.
#[test]
fn interpreter_lock_names_the_function_that_dominates_the_run() {
    let work = "@samples A 1..9 user main;collect\nA  c00000000\nB  1ccccc1pp\n";
    let analysis = timed_turns("/usr/bin/python3.11", work);
    let finding = analysis.findings.iter().find(|finding| finding.rule == "interpreter-lock").unwrap();
    assert!(
        finding.summary.iter().any(|line| line.contains("89 % of the run, mostly in collect")),
        "{finding:?}"
    );
    assert!(finding.advice.iter().any(|advice| advice.contains("Do less in collect")), "{finding:?}");
    let turns = turns("/usr/bin/python3.11");
    assert!(turns.findings[0].summary.iter().all(|line| !line.contains("of the run, mostly")), "{turns:?}");
}

#[test]
fn turns_in_another_program_are_no_interpreter_lock() {
    let analysis = turns("/usr/bin/turns");
    assert!(analysis.findings.iter().all(|finding| finding.rule != "interpreter-lock"));
}

/// A parent that starts 40 children one after another and waits for each. A tick has `tick_ns`.
fn children(tick_ns: u64) -> holdup_findings::Analysis {
    let (_, mut trace) = trace_of_lanes(&format!(
        "@cpus 2\n@tick {tick_ns}\n@w child\n@repeat 40\nparent  0wwww\nchild   .1111  holds w 1..5\n"
    ));
    let parent = trace.threads[0].process;
    for thread in trace.threads.iter_mut().filter(|thread| thread.name == "child") {
        thread.process = ProcessId(trace.processes.len() as u32);
        thread.tid = 1000 + thread.process.0;
        let name = "child".to_owned();
        trace.processes.push(Process { pid: thread.tid, name, target: true, parent: Some(parent) });
    }
    analyse(&trace)
}

#[test]
fn subprocess_per_item_fires_on_many_short_children() {
    let analysis = children(1_000_000);
    let finding = analysis.findings.iter().find(|finding| finding.rule == "subprocess-per-item").unwrap();
    assert!(finding.subject.starts_with("40 short-lived processes of parent"), "{finding:#?}");
    // The parent waits for 0.8 of the run. The margin for unforeseen effects is added.
    assert!((0.8..0.92).contains(&finding.gain.high), "{:#?}", finding.gain);
}

#[test]
fn processes_without_waiters_cost_their_running_time() {
    // A server hands each of 40 connections to a new process, on a CPU that is always busy.
    let (_, mut trace) = trace_of_lanes(
        "@cpus 1\n@tick 1000000\n@q multiplex 232\n@repeat 40\nserver  0qqqq\nchild   .0000  holds q 4..5\n",
    );
    let parent = trace.threads[0].process;
    for thread in trace.threads.iter_mut().filter(|thread| thread.name == "child") {
        thread.process = ProcessId(trace.processes.len() as u32);
        thread.tid = 1000 + thread.process.0;
        let (pid, name) = (thread.tid, "child".to_owned());
        trace.processes.push(Process { pid, name, target: true, parent: Some(parent) });
    }
    let analysis = analyse(&trace);
    let finding = analysis.findings.iter().find(|finding| finding.rule == "subprocess-per-item").unwrap();
    assert_eq!(finding.confidence, Confidence::Medium, "{finding:#?}");
    assert!(finding.gain.low < 0.01 && (0.78..0.86).contains(&finding.gain.high), "{:?}", finding.gain);
}

/// Workers that are forked shortly before the recording ends, if they `stay` behind it.
fn young_workers(stay: bool) -> holdup_findings::Analysis {
    let mut text = "@cpus 1\n@s sleep\n".to_owned();
    let mut lanes = format!("server  {}{}\n", "0".repeat(350), "s".repeat(48));
    for child in 0..24 {
        text += &format!("@child c{child}\n");
        lanes += &format!(
            "c{child}  {}00{}\n",
            ".".repeat(350 + 2 * child),
            if stay { "s" } else { "." }.repeat(46 - 2 * child)
        );
    }
    let (_, mut trace) = trace_of_lanes(&(text + &lanes));
    for thread in trace.threads.iter_mut().skip(1) {
        thread.alive_at_end = stay;
    }
    analyse(&trace)
}

#[test]
fn workers_that_are_young_when_the_recording_ends_are_no_items() {
    assert!(confidence(&young_workers(false), "subprocess-per-item").is_some());
    assert_eq!(confidence(&young_workers(true), "subprocess-per-item"), None);
}

#[test]
fn children_that_do_much_are_no_items() {
    assert!(children(50_000_000).findings.iter().all(|finding| finding.rule != "subprocess-per-item"));
}

#[test]
fn child_wait_fires_where_long_children_come_one_after_the_other() {
    let analysis = children(50_000_000);
    let finding = analysis.findings.iter().find(|finding| finding.rule == "child-wait").unwrap();
    assert_eq!(finding.subject, "parent waits for 40 children, 40 of them child");
    // Two at a time on two CPUs: half of the waiting.
    assert!(finding.gain.low == 0.0 && (finding.gain.high - 0.4).abs() < 0.02, "{:?}", finding.gain);
    assert!(finding.summary[1].contains("useful 100 %"), "{:#?}", finding.summary);
    let parent = &analysis.derived.children[0];
    assert_eq!((parent.children, parent.wait_ns), (40, 8_000_000_000));
    assert!((parent.side_by_side() - 1.0).abs() < 0.01, "{parent:?}");
}

/// A build tool that waits in poll for the pipes of `children` children, one after another.
fn polled(children: usize) -> Option<Confidence> {
    let life = 20;
    let mut lanes = format!("@cpus 2\n@w multiplex 271\ntool  {}\n", "w".repeat(life * children - 1) + "0");
    for child in 0..children {
        let (before, after) = (life * child, life * (children - child - 1));
        let end = before + life - 1;
        let ticks = ".".repeat(before) + &"1".repeat(life - 1) + "." + &".".repeat(after);
        lanes += &format!("c{child}  {ticks}  holds w {}..{end}\n", end - 1);
    }
    let (_, mut trace) = trace_of_lanes(&lanes);
    let parent = trace.threads[0].process;
    for thread in trace.threads.iter_mut().filter(|thread| thread.name != "tool") {
        thread.process = ProcessId(trace.processes.len() as u32);
        let (pid, name) = (thread.tid, "cc".to_owned());
        trace.processes.push(Process { pid, name, target: true, parent: Some(parent) });
    }
    confidence(&analyse(&trace), "child-wait")
}

#[test]
fn polling_for_output_of_children_is_a_wait_for_them() {
    assert_eq!(polled(8), Some(Confidence::Medium));
    assert_eq!(polled(2), None, "partners");
}

#[test]
fn a_wrapper_and_children_side_by_side_are_no_child_wait() {
    let told = |lanes: &str, children: usize| {
        let (_, mut trace) = trace_of_lanes(lanes);
        let parent = trace.threads[0].process;
        for thread in trace.threads.iter_mut().skip(1).take(children) {
            thread.process = ProcessId(trace.processes.len() as u32);
            let (pid, name) = (thread.tid, thread.name.clone());
            trace.processes.push(Process { pid, name, target: true, parent: Some(parent) });
        }
        confidence(&analyse(&trace), "child-wait")
    };
    let long = "1".repeat(99);
    let waits = "w".repeat(99);
    assert_eq!(
        told(&format!("@cpus 2\n@w child\nparent  0{waits}\nchild   .{long}  holds w 1..99\n"), 1),
        None
    );
    let two = "0".repeat(99);
    assert_eq!(
        told(
            &format!("@cpus 4\n@w child\nparent  3{waits}\na       .{two}  holds w 1..99\nb       .{long}\n"),
            2
        ),
        None
    );
    // A script: steps that are short, and one that is most of it, or all.
    let short: String =
        (1..5).map(|nth| format!("s{nth}      {}1  holds w {nth}..{}\n", ".".repeat(nth), nth + 1)).collect();
    for long in [30, 395] {
        let lanes = format!(
            "@cpus 4\n@w child\nparent  0{}\n{short}pack    .....{}  holds w 5..{}\n",
            "w".repeat(long + 4),
            "1".repeat(long),
            long + 5
        );
        assert_eq!(told(&lanes, 5), None);
    }
}

/// Three that wake at once, and are done long before they do so again: fewer of them would not do the work sooner.
#[test]
fn rare_queueing_is_only_a_hint_of_oversubscription() {
    let spinning = "@samples A 0..1 user main;take;spin_lock~\n@samples B 1..2 user main;take;spin_lock~\n";
    let analysis = check_lanes(&format!(
        "@cpus 1\n@p park\n@repeat 40\n{spinning}\
         A  0ppppppp\n\
         B  r0pppppp\n\
         C  rr0ppppp\n",
    ));
    assert_eq!(confidence(&analysis, "oversubscription"), Some(Confidence::Low));
    // As many as want to run all the time are too many.
    let analysis = check_lanes(&format!(
        "@cpus 1\n@m lock\n@repeat 40\n{spinning}\
         A  0rr0rr0m  holds m 0..7\n\
         B  r0rr0rr0\n\
         C  rr0rr0rm\n",
    ));
    assert_eq!(
        confidence(&analysis, "oversubscription"),
        Some(Confidence::Medium),
        "{:#?}",
        analysis.findings
    );
}
