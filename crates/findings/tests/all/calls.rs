//! Rules on what syscalls move and how they end, on pictures.

use holdup_events::tables::CallPartKind;
use holdup_events::{ProcessId, ThreadId};
use holdup_findings::analyse;
use holdup_testkit::check::{check_lanes, trace_of_lanes};

/// One thread that spends most of its time in write(2). Each picture counts 20,000 calls in its first second.
fn picture(io: &str, rest: &str) -> String {
    format!(
        "@cpus 2\n@repeat 500\n@samples A 0..6 1 main;put\n@samples A 6..8 user main\n{io}\n{rest}\nA  00000000\n"
    )
}

#[test]
fn tiny_io_names_object_thread_and_sizes() {
    let text = picture("@io 0..100 A 1 20000 1 3000", "@silent syscall-storm\n@silent retry-storm");
    let analysis = check_lanes(&(text + "   ^^^^^^^^  tiny-io waiter=A holder=pipe:[77]\n"));
    let said = analysis.findings[0].summary.join(" ");
    assert!(
        said.contains("moves 1.0 bytes") && said.contains("15 % of these calls failed temporarily"),
        "{said}"
    );
    assert!(analysis.findings[0].gain.high > 0.6, "{:?}", analysis.findings[0].gain);
}

#[test]
fn tiny_io_is_silent_where_calls_move_much_or_are_few() {
    check_lanes(&picture("@io 0..100 A 1 20000 4096 0", "@silent tiny-io"));
    // A hundred calls a second.
    check_lanes(&picture("@io 0..1000 A 1 100 1 0", "@silent tiny-io"));
    // Most of the running time is elsewhere.
    let little = "@cpus 2\n@repeat 500\n@samples A 0..1 1 main;put\n@samples A 1..16 user main\n\
                  @io 0..100 A 1 20000 1 0\n@silent tiny-io\nA  0000000000000000\n";
    check_lanes(little);
}

#[test]
fn retry_storm_fires_where_most_calls_fail_for_now() {
    let text = picture("@io 0..100 A 1 20000 1 15000", "@silent syscall-storm\n@silent tiny-io");
    check_lanes(&(text + "   ^^^^^^^^  retry-storm waiter=A holder=EAGAIN\n"));
}

#[test]
fn tries_on_a_pipe_that_is_read_in_tiny_pieces_go_with_these() {
    // All @io lines are of one pipe: B's writes wait for A's reads of one byte.
    let text = "@cpus 2\n@repeat 500\n@samples A 0..6 0 main;get\n@samples A 6..8 user main\n\
                @samples B 0..6 1 main;put\n@samples B 6..8 user main\n\
                @io 0..100 A 0 20000 1 0\n@io 0..100 B 1 20000 1 15000\n@silent retry-storm\n\
                A  00000000\n   ^^^^^^^^  tiny-io waiter=A holder=pipe:[77]\nB  11111111\n";
    let analysis = check_lanes(text);
    assert!(analysis.findings[0].summary.join(" ").contains("write "), "{:?}", analysis.findings[0].summary);
    assert!(analysis.findings[0].gain.high > 0.6, "{:?}", analysis.findings[0].gain);
}

#[test]
fn a_storm_of_calls_that_go_with_tiny_ones_is_theirs() {
    // The writes take more time than the reads, but a part of them is refused: the reads are the dearest that move a byte.
    let picture = |object: &str| {
        format!(
            "@cpus 2\n@repeat 500\n@samples A 0..6 0 main;get\n@samples A 6..8 user main\n\
             @samples B 0..7 1 main;put\n@samples B 7..8 user main\n\
             @io 0..100 A 0 20000 1 0\n@io 0..100 B 1 20000 {object}\n\
             A  00000000\nB  11111111\n"
        )
    };
    let has_storm =
        |text: String| check_lanes(&text).findings.iter().any(|finding| finding.rule == "syscall-storm");
    assert!(!has_storm(picture("1 8000")));
    assert!(has_storm(picture("4096 0")), "large writes are not about the same");
}

#[test]
fn with_calls_goes_what_makes_them() {
    // Per 8 ms: 4 in the call, 2 in the library function that makes it, and 2 in this function of the
    // program.
    let gain = |place: &str| {
        let text = format!(
            "@cpus 2\n@repeat 500\n@samples A 0..4 1 main;put;core::write\n@samples A 4..6 user main;put;core::write\n\
             @samples A 6..8 user {place}\n@io 0..100 A 1 20000 1 0\nA  00000000\n"
        );
        check_lanes(&text).findings[0].gain
    };
    // The lower bound includes the library's time. An eighth of the calls is left.
    let beside = gain("main;work");
    assert!((0.5..0.68).contains(&beside.low) && (0.74..0.9).contains(&beside.high), "{beside:?}");
    // The upper bound includes the rest of the function, which mostly calls.
    let around = gain("main;put");
    assert!((around.low - beside.low).abs() < 0.01 && around.high > 0.97, "{around:?} {beside:?}");
}

#[test]
fn retry_storm_is_silent_where_calls_mostly_succeed() {
    check_lanes(&picture("@io 0..100 A 1 20000 4096 6000", "@silent retry-storm"));
}

#[test]
fn status_poll_fires_on_clocks_and_is_silent_on_work() {
    let asking = |number: u32| {
        format!(
            "@cpus 2\n@repeat 500\n@samples A 0..6 {number} main;now\n@samples A 6..8 user main\n\
             @io 0..100 A {number} 20000 1 0\n@silent {}\nA  00000000\n{}",
            if number == 228 { "syscall-storm" } else { "status-poll" },
            if number == 228 { "   ^^^^^^^^  status-poll waiter=A holder=clock_gettime\n" } else { "" },
        )
    };
    check_lanes(&asking(228));
    // munmap does something.
    check_lanes(&asking(11));
}

/// Closing descriptors that are not open: no buffer helps, and the finding names the error.
#[test]
fn a_storm_of_failing_calls_names_the_error() {
    const CLOSE: u32 = 3;
    const EBADF: u64 = 9;
    let storm = |failed: u64| {
        let (_, mut trace) = trace_of_lanes(&format!(
            "@cpus 2\n@repeat 500\n@samples A 0..6 {CLOSE} main;put\n@samples A 6..8 user main\n\
             @io 0..100 A {CLOSE} 20000 0 {failed}\nA  00000000\n"
        ));
        let errors = trace.calls.parts.iter_mut().filter(|part| part.what == CallPartKind::Error);
        errors.for_each(|part| part.key = EBADF);
        let findings = analyse(&trace).findings;
        let found = findings.into_iter().find(|finding| finding.rule == "syscall-storm").expect("a storm");
        (found.summary.join(" "), found.advice.join(" "))
    };
    let (summary, advice) = storm(19_000);
    assert!(summary.contains("95 % of the counted close calls fail, mostly with EBADF."), "{summary}");
    assert!(advice.contains("close_range"), "{advice}");
    let (summary, advice) = storm(2_000);
    assert!(!summary.contains("EBADF") && !advice.contains("close_range"), "{summary} {advice}");
}

#[test]
fn fork_pause_names_the_forking_thread() {
    check_lanes(
        "@cpus 3\n@m mmap-lock\n@child C\n@repeat 20\n@silent lock-contention\n\
         F  0000000000  holds m 0..8\n\
         A  1mmmmmm111\n\
        \x20    ^^^^^^     fork-pause waiter=A holder=F\n\
         C  .......22.\n",
    );
}

/// Two processes fork: one rarely and for longest, the other often. Only the second one is reported.
#[test]
fn fork_pause_reports_the_process_with_the_longest_waits() {
    let (_, mut trace) = trace_of_lanes(
        "@cpus 7\n@m mmap-lock\n@n mmap-lock\n@child C\n@child D\n\
         F  000000000000000000000000000000000000000000000000000000000000  holds m 0..12\n\
         A  1mmmmmmmmmm1111111111111111111111111111111111111111111111111\n\
         C  ...........66...............................................\n\
         G  333333333333333333333333333333333333333333333333333333333333  holds n 14..20  holds n 24..30  holds n 34..40\n\
         B  222222222222222nnnn222222nnnn222222nnnn222222222222222222222\n\
         E  444444444444444nnnn444444nnnn444444nnnn444444444444444444444\n\
         D  ...................55........55........55...................\n",
    );
    let other = ProcessId(trace.processes.len() as u32);
    trace.processes.push(trace.processes[0].clone());
    let forks = ThreadId(trace.threads.iter().position(|thread| thread.name == "G").unwrap() as u32);
    for thread in &mut trace.threads {
        match thread.name.as_str() {
            "G" | "B" | "E" => thread.process = other,
            "D" => thread.parent = Some(forks),
            _ => {}
        }
    }
    let analysis = analyse(&trace);
    let finding = analysis.findings.iter().find(|finding| finding.rule == "fork-pause").expect("a finding");
    assert!(finding.subject.starts_with("G ("), "{finding:#?}");
    assert!(
        finding.summary[0].contains("2 threads") && finding.summary[0].contains("3 forks"),
        "{finding:#?}"
    );
    assert_eq!(finding.cost_ns, 24_000_000, "{finding:#?}");
}

#[test]
fn fork_pause_is_silent_without_forks() {
    // Another thread maps memory.
    check_lanes(
        "@cpus 2\n@m mmap-lock\n@repeat 20\n@silent fork-pause\n\
         F  0000000000  holds m 0..8\n\
         A  1mmmmmm111\n",
    );
    // The child comes long after the wait.
    check_lanes(
        "@cpus 3\n@m mmap-lock\n@child C\n@repeat 20\n@silent fork-pause\n\
         F  000000000000000000  holds m 0..8\n\
         A  1mm111111111111111\n\
         C  ...............22.\n",
    );
}

/// Twenty sleeps, and `calls` calls of connect, of which `failed` fail.
fn sleeps_behind(calls: u64, failed: u64) -> Vec<String> {
    let (_, mut trace) = trace_of_lanes(&format!(
        "@cpus 2\n@tick 10000000\n@s sleep\n@repeat 20\n@io 0..200 A 42 {calls} 0 {failed}\nA  0sssssssss\n"
    ));
    // All calls were counted, not those in windows.
    trace.syscalls.clear();
    let analysis = analyse(&trace);
    let finding = analysis.findings.iter().find(|finding| finding.rule == "oversleep").expect("a finding");
    finding.summary.clone()
}

#[test]
fn calls_that_fail_once_per_sleep_are_reported() {
    let failing =
        |calls, failed| sleeps_behind(calls, failed).into_iter().find(|said| said.contains("failing call"));
    let told = failing(21, 20).expect("a sentence");
    assert!(told.contains("connect (EAGAIN, 20 times)"), "{told}");
    // Far more often, far less often, or mostly in order.
    for (calls, failed) in [(60, 60), (5, 5), (60, 20), (20, 0)] {
        assert_eq!(failing(calls, failed), None, "{calls} {failed}");
    }
}
