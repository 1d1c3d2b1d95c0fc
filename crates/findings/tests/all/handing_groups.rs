//! Groups of more than two threads that pass small pieces of work to each other.

use holdup_events::ProcessId;
use holdup_findings::{Confidence, analyse};
use holdup_testkit::check::{check_lanes, confidence, trace_of_lanes};

/// A wakes B, B wakes C, C wakes A. Each works 10 µs, and takes 20 µs from its wakeup to run. The last waits
/// of B and C do not end.
#[test]
fn a_ring_of_three_hands_over() {
    let analysis = check_lanes(
        "@cpus 2\n@tick 10000\n@c park\n@d pipe\n@e park\n@repeat 300\n\
         A  0ccccccrr  holds d 0..1\n\
        \x20    ^^^^^^   wakeup-ping-pong cost=5393\n\
         B  drr1ddddd  holds e 3..4\n\
         C  eeeerr0ee  holds c 6..7\n",
    );
    let finding = &analysis.findings[0];
    assert_eq!(finding.rule, "wakeup-ping-pong", "{:#?}", analysis.findings);
    assert_eq!(finding.confidence, Confidence::High);
    assert!(finding.summary[0].contains("these 3 threads"), "{:?}", finding.summary);
    assert!(finding.subject.matches(" (").count() == 3, "{}", finding.subject);
    assert!(finding.gain.high > 0.3, "{:?}", finding.gain);
}

/// The same of threads that carry a runtime's tasks: which of these waited for which is not known.
#[test]
fn threads_that_wake_each_other_for_tasks_are_a_hint() {
    let idle = "runtime.mcall;runtime.schedule;runtime.findRunnable;runtime.stopm;runtime.futexsleep";
    let analysis = check_lanes(&format!(
        "@cpus 2\n@tick 10000\n@c park\n@d park\n@e park\n@repeat 300\n@stack c {idle}\n@stack d {idle}\n@stack e {idle}\n\
         A  0ccccccrr  holds d 0..1\n\
        \x20    ^^^^^^   wakeup-ping-pong cost=5393\n\
         B  drr1ddddd  holds e 3..4\n\
         C  eeeerr0ee  holds c 6..7\n"
    ));
    assert_eq!(confidence(&analysis, "wakeup-ping-pong"), Some(Confidence::Low));
}

/// … but where one of them has a task bound to it: each handover is a switch of threads.
#[test]
fn a_task_that_is_bound_to_a_thread_makes_switches_of_handovers() {
    let idle =
        |last: &str| format!("runtime.mcall;runtime.park_m;runtime.schedule;{last};runtime.futexsleep");
    let (free, bound) = (idle("runtime.stopm"), idle("runtime.stoplockedm"));
    let analysis = check_lanes(&format!(
        "@cpus 2\n@tick 10000\n@c park\n@d park\n@e park\n@repeat 300\n@stack c {bound}\n@stack d {free}\n@stack e {free}\n\
         @samples A 0..1 write runtime.goexit;main.New.gowrap1;main.loop\n@samples B 3..4 user runtime.goexit;main.ask\n\
         A  0ccccccrr  holds d 0..1\n\
         B  drr1ddddd  holds e 3..4\n\
         C  eeeerr0ee  holds c 6..7\n"
    ));
    let finding = &analysis.findings[0];
    assert_eq!((finding.rule, finding.confidence), ("wakeup-ping-pong", Confidence::Medium), "{finding:#?}");
    let said = finding.summary.join(" ");
    assert!(said.contains("A task (main.loop) is bound to A"), "{said}");
    assert!(finding.advice[0].contains("runtime.LockOSThread"), "{finding:#?}");
}

/// One that feeds two which never answer it, and rests on a clock.
#[test]
fn feeding_many_is_no_handing_to_and_fro() {
    check_lanes(
        "@cpus 3\n@tick 10000\n@d pipe\n@e park\n@repeat 300\n@silent wakeup-ping-pong\n\
         A  000000000  holds d 0..1 holds e 3..4\n\
         B  drr1ddddd\n\
         C  eeeerr2ee\n",
    );
}

/// The ring again, with a millisecond of work for each piece.
#[test]
fn a_ring_with_large_pieces_is_silent() {
    check_lanes(
        "@cpus 2\n@tick 10000\n@c park\n@d pipe\n@e park\n@repeat 120\n@silent wakeup-ping-pong\n\
         A  00000000000000000000000000000000ccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccrr  holds d 31..32\n\
         B  ddddddddddddddddddddddddddddddddrr11111111111111111111111111111111dddddddddddddddddddddddddddddddddd  holds e 65..66\n\
         C  eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeerr00000000000000000000000000000000  holds c 99..100\n",
    );
}

/// Two clients, processes of one name, each with its own thread in the server. Their requests are one cause.
#[test]
fn pairs_of_one_server_are_one_finding() {
    let pairs =
        "S  dr1d  holds c 2..3\nT  fr3f  holds e 2..3\nA  0ccr  holds d 0..1\nC  2eer  holds f 0..1\n";
    let head = "@cpus 4\n@tick 10000\n@c multiplex\n@d multiplex\n@e multiplex\n@f multiplex\n@repeat 300\n";
    let told = |children: &str| {
        let (_, mut trace) = trace_of_lanes(&format!("{head}{children}{pairs}"));
        let clients: Vec<_> = trace
            .threads
            .iter()
            .filter(|one| ["A", "C"].contains(&one.name.as_str()))
            .map(|one| one.process)
            .collect();
        for client in clients {
            trace.processes[client.index()].name = "client".to_owned();
        }
        let analysis = analyse(&trace);
        let of_rule = analysis.findings.into_iter().filter(|finding| finding.rule == "wakeup-ping-pong");
        of_rule.map(|finding| (finding.subject, finding.summary[0].clone())).collect::<Vec<_>>()
    };
    let together = told("@child A\n@child C\n");
    assert_eq!(together.len(), 1, "{together:?}");
    let (subject, said) = &together[0];
    assert!(subject.ends_with("and 1 more such pair") && said.contains("in 2 pairs"), "{together:?}");
    // Threads of one program are pairs of their own.
    assert_eq!(told("").len(), 2);
}

/// Two processes with two pairs of threads, in each of which the one of another process was born first.
#[test]
fn grouping_of_pairs_is_independent_of_birth_order() {
    let (_, mut trace) = trace_of_lanes(
        "@cpus 4\n@tick 10000\n@c multiplex\n@d multiplex\n@e multiplex\n@f multiplex\n@repeat 300\n\
         S  dr1d  holds c 2..3\nA  0ccr  holds d 0..1\nT  fr3f  holds e 2..3\nC  2eer  holds f 0..1\n",
    );
    let other = ProcessId(trace.processes.len() as u32);
    trace.processes.push(trace.processes[0].clone());
    for thread in trace.threads.iter_mut().filter(|one| ["A", "T"].contains(&one.name.as_str())) {
        thread.process = other;
    }
    let analysis = analyse(&trace);
    let of_rule: Vec<_> =
        analysis.findings.iter().filter(|finding| finding.rule == "wakeup-ping-pong").collect();
    assert!(of_rule.len() == 1 && of_rule[0].summary[0].contains("in 2 pairs"), "{of_rule:#?}");
}

/// The cost of requests from several processes to one includes the server's time to respond. It also includes
/// each client's time in the library that sends the requests.
#[test]
fn what_is_run_to_ask_and_to_answer_goes_with_the_asking() {
    let (_, mut trace) = trace_of_lanes(
        "@cpus 4\n@tick 10000\n@c multiplex\n@d multiplex\n@e multiplex\n@f multiplex\n@repeat 300\n@child A\n@child C\n\
         @stack c main;look_up;lib_ask;lib_wait\n@stack e main;look_up;lib_ask;lib_wait\n\
         @samples A 0..1 user main;look_up;lib_ask;lib_pack\n@samples A 1..4 user main;look_up\n\
         @samples C 0..1 user main;look_up;lib_ask;lib_pack\n@samples C 1..4 user main;look_up\n\
         @samples S 0..4 user main;serve\n@samples T 0..4 user main;serve\n\
         S  dr11  holds c 3..4\nT  fr33  holds e 3..4\nA  00cc  holds d 0..1\nC  22ee  holds f 0..1\n",
    );
    for client in [2, 3] {
        let process = trace.threads[client].process;
        trace.processes[process.index()].name = "client".to_owned();
    }
    for frame in trace.frames.iter_mut().filter(|frame| frame.function.starts_with("lib_")) {
        frame.file = "/home/me/.cargo/registry/src/index-1/lib-1.2.0/src/lib.rs".to_owned();
    }
    let finding = analyse(&trace).findings.into_iter().find(|finding| finding.rule == "wakeup-ping-pong");
    let finding = finding.expect("it is told");
    let said = finding.summary.join(" ");
    assert!(
        said.contains("S ran for 12.0 ms to respond, and the requesters ran for 6.00 ms to ask"),
        "{said}"
    );
    assert_eq!(finding.confidence, Confidence::Medium, "{finding:#?}");
    assert!(finding.gain.high > 0.7, "{:?}", finding.gain);
}

/// One client that asks a service for each piece: from where, and that it could ask for many at once.
#[test]
fn the_client_of_a_network_pair_is_reported() {
    let told = |waits: &str, children: &str| {
        let (_, trace) = trace_of_lanes(&format!(
            "@cpus 2\n@tick 10000\n@c {waits}\n@d {waits}\n@w child\n@repeat 300\n{children}@stack c main;look_up;receive\n\
             @stack d main;serve\nX  wwww\nS  dr1d  holds c 2..3\nA  0ccr  holds d 0..1\n"
        ));
        let analysis = analyse(&trace);
        let is_it = |finding: &&holdup_findings::Finding| finding.rule == "wakeup-ping-pong";
        let finding = analysis.findings.iter().find(is_it);
        let finding = finding.unwrap_or_else(|| panic!("{waits} {children}"));
        (
            finding.summary.join(" ").contains("comes from receive"),
            finding.advice[0].contains("Combine several requests"),
        )
    };
    let apart = "@child S\n@child A\n";
    assert_eq!(told("multiplex 7", apart), (true, true));
    // For two threads of one program, or with a pipe, no client is known.
    assert_eq!(told("multiplex 7", ""), (false, false));
    assert_eq!(told("pipe 0", apart), (false, false));
}
