//! Compares the ledger with independent data, on real programs. No timing is asserted: only sums that must
//! hold on any machine.

mod support;

use support::{Scratch, bpf_or_skip, class_sum, have, record_json, try_record_json};

/// The promises of every ledger: classes sum to the total, each thread's to its life.
fn adds_up(report: &serde_json::Value, what: &str) {
    let total = report["ledger"]["total_ns"].as_u64().expect("total");
    assert!(total > 0, "{what}: an empty ledger");
    assert_eq!(class_sum(&report["ledger"]["classes"]), total, "{what}: the ledger's classes");
    let mut lives = 0;
    for thread in report["threads"].as_array().expect("threads") {
        let life = thread["end_ns"].as_u64().expect("end") - thread["start_ns"].as_u64().expect("start");
        assert_eq!(class_sum(&thread["classes"]), life, "{what}: {thread}");
        lives += life;
    }
    assert_eq!(lives, total, "{what}: the threads' lives");
    let unknown = report["ledger"]["classes"]["unknown"].as_u64().unwrap_or(0);
    // A busy machine may delay the recorder: then it must report its losses.
    if report["loss"]["events"].as_u64() == Some(0) {
        assert!(unknown * 100 < total, "{what}: {unknown} of {total} ns unknown, though nothing was lost");
    } else {
        println!("{what}: lost on this busy machine: {}", report["loss"]);
    }
}

fn class_ns(report: &serde_json::Value, class: &str) -> u64 {
    report["ledger"]["classes"][class].as_u64().unwrap_or(0)
}

#[test]
fn ledgers_of_real_programs_add_up() {
    let scratch = Scratch::new("programs");
    if !bpf_or_skip(&scratch) {
        return;
    }
    let input = scratch.join("input");
    let noise: Vec<u8> = (0..6_000_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 27) as u8).collect();
    std::fs::write(&input, noise).expect("write");
    let input = input.to_str().expect("utf-8");
    for words in [
        vec!["pigz", "-p", "3", "-c", input],
        vec!["pbzip2", "-p2", "-c", input],
        vec!["xz", "-T2", "-0", "-c", input],
        vec![
            "python3",
            "-c",
            "import threading as t\nts=[t.Thread(target=lambda: sum(range(10**6))) for _ in range(3)]\n[x.start() for x in ts]\n[x.join() for x in ts]",
        ],
    ] {
        if have(words[0]) {
            adds_up(&record_json(&scratch, &[], &words), words[0]);
        }
    }
}

#[test]
fn ledgers_of_stressors_add_up() {
    let scratch = Scratch::new("stressors");
    if !bpf_or_skip(&scratch) || !have("stress-ng") {
        return;
    }
    for stressor in ["mutex", "futex", "switch", "pipe", "yield", "fork", "cpu", "hdd"] {
        let workers = format!("--{stressor}");
        let folder = scratch.0.to_str().expect("utf-8");
        let run = |seconds| {
            let words = ["stress-ng", workers.as_str(), "2", "-t", seconds, "--temp-path", folder, "-q"];
            try_record_json(&scratch, &["--buffer", "256"], &words)
        };
        // If its time limit ends before it has started a thread, it gives up, and reports missing resources.
        let report = match run("1") {
            Err(error) if error.contains("out of system resources") => run("10"),
            other => other,
        };
        adds_up(&report.unwrap_or_else(|error| panic!("{error}")), stressor);
    }
}

#[test]
fn a_pure_sleep_is_sleep() {
    let scratch = Scratch::new("sleep");
    if !bpf_or_skip(&scratch) {
        return;
    }
    let report = record_json(&scratch, &[], &["sleep", "0.5"]);
    adds_up(&report, "sleep");
    assert!(class_ns(&report, "sleep") >= 490_000_000, "{}", report["ledger"]);
}

#[test]
fn waits_are_distinguished() {
    let scratch = Scratch::new("waits");
    if !bpf_or_skip(&scratch) {
        return;
    }
    // At least this long is certain: each waits for something that a timer ends. The reader of the pipe may start late.
    for (class, script) in
        [("child-wait", "sleep 0.4; true"), ("pipe-wait", "(sleep 2; echo x) | cat >/dev/null")]
    {
        let report = record_json(&scratch, &[], &["sh", "-c", script]);
        adds_up(&report, class);
        assert!(class_ns(&report, class) >= 380_000_000, "{class}: {}", report["ledger"]);
    }
}

#[test]
fn every_backend_gives_a_ledger_that_adds_up() {
    let scratch = Scratch::new("backends");
    let best = support::backend_here(&scratch);
    for backend in ["perf", "proc"] {
        if best == "proc" && backend == "perf" {
            println!("skipped: perf_event_open is not allowed here");
            continue;
        }
        let report = record_json(
            &scratch,
            &["--backend", backend],
            &["sh", "-c", "sleep 0.3; i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"],
        );
        assert_eq!(report["backend"], backend);
        let total = report["ledger"]["total_ns"].as_u64().expect("total");
        assert_eq!(class_sum(&report["ledger"]["classes"]), total, "{backend}");
    }
}

#[test]
fn what_recording_costs_is_tried_out_and_counted() {
    let scratch = Scratch::new("cost");
    if !bpf_or_skip(&scratch) {
        return;
    }
    let report = record_json(&scratch, &["--stacks", "none", "--freq", "0"], &["sh", "-c", ": | : | : | :"]);
    let sources = report["sources"].as_array().expect("sources");
    let untried = sources.iter().find(|source| source["name"] == "program-calls");
    assert!(untried.is_none(), "the kernel's part of a program's cost could not be tried out: {untried:?}");
    let (probes, each) = (&report["cost"]["probes_cpu_ns"], report["cost"]["switches"].as_u64());
    let probes = probes.as_u64().expect("a number");
    // Nothing takes less: two readings of the clock, and a record of 64 bytes.
    assert!(probes > each.expect("a number") * 20, "{}", report["cost"]);
}
