//! Threads that are started for little pieces of work, on pictures.

use holdup_events::ThreadId;
use holdup_events::tables::Mapping;
use holdup_findings::{Analysis, Confidence, analyse};
use holdup_testkit::check::{check_lanes, confidence, trace_of_lanes};

/// One thread that starts others, each of which lives for `ticks`. `inside` of four of their samples are in
/// the kernel.
fn short_threads(number: usize, ticks: usize, inside: usize) -> Analysis {
    let all = number * ticks;
    let mut text = "@cpus 2\n@tick 100000\n".to_owned();
    text += &format!("@samples starter 0..{all} 56 main;each_item;pthread_create\n");
    let mut lanes = format!("starter  {}\n", "0".repeat(all + 8));
    for child in 0..number {
        let (from, to) = (child * ticks + 1, (child + 1) * ticks + 1);
        let how = if child % 4 < inside { "60" } else { "user" };
        text += &format!("@samples t{child} {from}..{to} {how} work\n");
        lanes += &format!("t{child}  {}{}\n", ".".repeat(from), "1".repeat(ticks));
    }
    let (_, mut trace) = trace_of_lanes(&(text + &lanes));
    for thread in trace.threads.iter_mut().skip(1) {
        thread.parent = Some(ThreadId(0));
    }
    analyse(&trace)
}

#[test]
fn thread_per_item_fires_where_starting_takes_the_time() {
    let analysis = short_threads(200, 2, 3);
    let finding = &analysis.findings.iter().find(|finding| finding.rule == "thread-per-item").unwrap();
    assert!(finding.subject == "200 short-lived threads of starter, started in each_item", "{finding:#?}");
    // 7 of 8 samples. A handover would take 10 µs of the 400 that the two have for each.
    assert!(
        (0.87..0.91).contains(&finding.gain.high) && (0.78..0.86).contains(&finding.gain.low),
        "{:?}",
        finding.gain
    );
    assert_eq!(finding.confidence, Confidence::High);
}

/// OpenMP's runtime ends threads that the next region does not use, and starts new ones for a larger region.
/// The program's code requests regions and no threads.
#[test]
fn advice_for_a_runtime_that_starts_threads_per_region_is_how_to_keep_them() {
    let found = |library: &str| {
        let mut text = "@cpus 2\n@tick 100000\n".to_owned();
        text += "@samples starter 0..400 56 main;panel;GOMP_parallel;gomp_team_start;pthread_create\n";
        let mut lanes = format!("starter  {}\n", "0".repeat(408));
        for child in 0..200 {
            let from = 2 * child + 1;
            text += &format!("@samples t{child} {from}..{} 60 work\n", from + 2);
            lanes += &format!("t{child}  {}11\n", ".".repeat(from));
        }
        let (_, mut trace) = trace_of_lanes(&(text + &lanes));
        trace.threads.iter_mut().skip(1).for_each(|thread| thread.parent = Some(ThreadId(0)));
        let of_runtime = |name: &str| name.starts_with("GOMP_") || name.starts_with("gomp_");
        for frame in trace.frames.iter_mut().filter(|frame| of_runtime(&frame.function)) {
            frame.module = library.to_owned();
        }
        trace.mappings.push(Mapping { path: library.to_owned(), ..trace.mappings[0].clone() });
        let findings = analyse(&trace).findings;
        let found =
            findings.into_iter().find(|finding| finding.rule == "thread-per-item").expect("a finding");
        (found.subject, found.advice.join(" "))
    };
    for library in ["/usr/lib/x86_64-linux-gnu/libgomp.so.1.0.0", "/py/torch/lib/libgomp-a34b3233.so.1"] {
        let (subject, advice) = found(library);
        assert_eq!(subject, "200 short-lived threads of starter, started in panel", "{library}");
        assert!(advice.contains("one number of threads for all parallel regions"), "{advice}");
    }
    let (_, advice) = found("/usr/lib/libother.so");
    assert!(advice.contains("thread pool"), "{advice}");
}

/// The starter waits for each thread before it starts the next. One other thread stays.
#[test]
fn threads_joined_one_by_one_are_reported() {
    let mut text = "@cpus 2\n@tick 100000\n@j join\n".to_owned();
    let mut lanes = format!("starter  {}\n", "00jj".repeat(150));
    for child in 0..150 {
        let from = 4 * child + 2;
        text += &format!("@samples starter {}..{from} 56 main;send_tour;async\n", from - 2);
        text += &format!("@samples t{child} {from}..{} 60 work\n", from + 2);
        lanes += &format!("t{child}  {}11\n", ".".repeat(from));
    }
    lanes += &format!("stays  .1{}\n", "s".repeat(590));
    let (_, mut trace) = trace_of_lanes(&(text + "@s sleep\n" + &lanes));
    for thread in trace.threads.iter_mut().skip(1) {
        thread.parent = Some(ThreadId(0));
    }
    let analysis = analyse(&trace);
    let finding = &analysis.findings.iter().find(|finding| finding.rule == "thread-per-item").unwrap();
    assert!(finding.summary[0].ends_with("1.0 short-lived threads at a time on average."), "{finding:#?}");
    assert_eq!(finding.summary[1], "Each was joined before the next was started.");
    assert!(finding.advice[0].contains("std::async"), "{finding:#?}");
    let others = short_threads(200, 2, 3);
    let finding = &others.findings.iter().find(|finding| finding.rule == "thread-per-item").unwrap();
    assert!(!finding.advice[0].contains("std::async"), "who starts them works meanwhile: {finding:#?}");
}

/// Two or three at a time sleep for most of their lives. This time remains without the cost of starting them.
#[test]
fn what_short_threads_wait_for_outside_is_not_for_their_being_started() {
    let mut text = "@cpus 4\n@tick 100000\n@s sleep\n".to_owned();
    let mut lanes = format!("starter  {}\n", "00ssssssss".repeat(153));
    for child in 0..150 {
        let from = 10 * child + 2;
        text += &format!("@samples starter {}..{from} 56 main;each_item;pthread_create\n", from - 2);
        text += &format!("@samples t{child} {from}..{} 60 work\n", from + 1);
        lanes +=
            &format!("t{child}  {}{}{}{}\n", ".".repeat(from), child % 3 + 1, "s".repeat(23), child % 3 + 1);
    }
    let (_, mut trace) = trace_of_lanes(&(text + &lanes));
    for thread in trace.threads.iter_mut().skip(1) {
        thread.parent = Some(ThreadId(0));
    }
    let analysis = analyse(&trace);
    let finding = &analysis.findings.iter().find(|finding| finding.rule == "thread-per-item").unwrap();
    assert!(finding.gain.high < 0.5 && finding.confidence == Confidence::High, "{finding:#?}");
}

#[test]
fn threads_that_work_or_are_few_or_stay_are_no_items() {
    let silent = |analysis: Analysis| {
        assert_eq!(confidence(&analysis, "thread-per-item"), None, "{:#?}", analysis.findings)
    };
    silent(short_threads(50, 2, 3));
    silent(short_threads(120, 250, 3));
    let mut lanes = String::from("@cpus 2\n@tick 100000\n@samples A 0..100 56 main;pthread_create\n");
    lanes += &format!("A  {}\n", "0".repeat(100));
    silent(check_lanes(&lanes));
}

/// Workers of Node, `number` one after another, each of `ticks` milliseconds. `inside` of four of their
/// samples are set-up for the worker.
fn workers(number: usize, ticks: usize, inside: usize) -> Analysis {
    let mut text = "@cpus 2\n@s sleep\n".to_owned();
    let mut lanes = format!("node  {}\n", "s".repeat(number * ticks + 2));
    for child in 0..number {
        let (from, to) = (child * ticks + 1, (child + 1) * ticks + 1);
        let built = from + ticks * inside / 4;
        let run = "node::worker::Worker::Run()";
        if built > from {
            text += &format!("@samples t{child} {from}..{built} user {run};node::CreateEnvironment(int)\n");
        }
        if built < to {
            text += &format!("@samples t{child} {built}..{to} user {run};v8::internal::Invoke();render\n");
        }
        lanes += &format!("t{child}  {}{}\n", ".".repeat(from), "1".repeat(ticks));
    }
    let (_, mut trace) = trace_of_lanes(&(text + &lanes));
    for thread in trace.threads.iter_mut().skip(1) {
        thread.parent = Some(ThreadId(0));
    }
    analyse(&trace)
}

#[test]
fn an_interpreter_per_item_is_reported_with_its_startup_cost() {
    let analysis = workers(40, 40, 2);
    let finding = &analysis.findings.iter().find(|finding| finding.rule == "thread-per-item").expect("it");
    assert!(finding.subject == "40 short-lived threads of node", "{finding:#?}");
    assert!(finding.summary[1].contains("an isolate and an environment of Node are created"), "{finding:#?}");
    assert!(finding.advice[0].contains("piscina"), "{finding:#?}");
    // Half is known to be start-up. For the rest it is not known.
    let gain = finding.gain;
    assert!((0.4..0.5).contains(&gain.low) && gain.high > 0.95, "{gain:?}");
    assert_eq!(finding.confidence, Confidence::Medium);
}

#[test]
fn workers_that_stay_or_are_a_pool_or_work_are_no_items() {
    for (number, ticks, inside) in [(25, 1200, 2), (15, 40, 2), (40, 40, 0)] {
        let analysis = workers(number, ticks, inside);
        assert_eq!(confidence(&analysis, "thread-per-item"), None, "{number}: {:#?}", analysis.findings);
    }
}

/// A server that waits for connections most of the time, and starts a thread for each. `wait` is its kind of
/// wait.
fn idle_server(wait: &str, (ticks, inside): (usize, &str)) -> Analysis {
    let mut text = format!("@cpus 4\n@tick 100000\n@s {wait}\n");
    let each = ticks + 40;
    let mut lanes = format!("server  {}\n", ("00".to_owned() + &"s".repeat(each - 2)).repeat(120));
    for child in 0..120 {
        let from = each * child + 2;
        text += &format!("@samples server {}..{from} 56 main;serve;pthread_create\n", from - 2);
        text += &format!("@samples t{child} {from}..{} {inside}\n", from + ticks);
        lanes += &format!("t{child}  {}{}\n", ".".repeat(from), "1".repeat(ticks));
    }
    let (_, mut trace) = trace_of_lanes(&(text + &lanes));
    for thread in trace.threads.iter_mut().skip(1) {
        thread.parent = Some(ThreadId(0));
    }
    analyse(&trace)
}

#[test]
fn a_server_that_waits_for_connections_gets_these_no_sooner() {
    let node = "user node::worker::Worker::Run();node::CreateEnvironment(int)";
    for wait in ["socket", "multiplex"] {
        for threads in [(4, "60 work"), (4, node)] {
            let analysis = idle_server(wait, threads);
            let found = analysis.findings.iter().find(|finding| finding.rule == "thread-per-item");
            let finding = found.unwrap_or_else(|| panic!("{wait} {threads:?}"));
            // 38 of 44 ticks no thread lives.
            assert!(finding.gain.high < 0.2, "{wait} {threads:?}: {finding:#?}");
        }
    }
}
