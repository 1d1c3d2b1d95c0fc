//! Partial data is marked as partial: arrows, tables, files. Names in responses resolve to the right items.

use holdup_events::event::WakeContext;
use holdup_events::tables::{Process, SliceRow, Slices, Thread, ThreadState, Wakeup, Wakeups};
use holdup_events::{CpuId, Loss, ProcessId, ThreadId, Timestamp, Trace};
use holdup_report::viewer::bundle;
use holdup_testkit::check::trace_of_lanes;
use serde_json::json;

use super::{ask, assets, busy, number, unpacked, viewer};

#[test]
fn occupants_are_listed_with_the_awaited_cpu_and_their_places() {
    // A goes on at another CPU than the one that it lost and waited for.
    let picture = "@cpus 2\nA  00rrrrrrr11\nB  ..0bb0000..\nC  ...00bbbb..\nD  1111bbbbb..\n";
    let viewer = viewer(trace_of_lanes(picture).1);
    let threads = ask(&viewer, "summary")["threads"].clone();
    let id = |name: &str| {
        let found = threads.as_array().expect("threads").iter().find(|one| one["name"] == name);
        found.expect("it is there")["id"].clone()
    };
    let slice = ask(&viewer, &format!("slice?thread={}&at=4000000", id("A")));
    assert_eq!((&slice["state"], &slice["cpu"]), (&json!("preempted"), &json!(1)), "{slice}");
    assert_eq!(slice["occupied_cpu"], 0);
    let wanted = json!([
        {"thread": id("B"), "ns": 5_000_000, "at_ns": 5_000_000},
        {"thread": id("C"), "ns": 2_000_000, "at_ns": 3_000_000},
    ]);
    assert_eq!(slice["occupants"], wanted);
    let ran = ask(&viewer, &format!("slice?thread={}&at=0", id("A")));
    assert_eq!((&ran["occupied_cpu"], &ran["occupants"]), (&json!(-1), &json!([])));
}

#[test]
fn a_sandwich_is_of_the_function_of_that_very_name() {
    let picture = |first: &str, second: &str| {
        let samples = format!("@samples A 0..3 user main;{first}\n@samples A 3..8 user main;{second}");
        trace_of_lanes(&format!("{samples}\nA  00000000\n")).1
    };
    let (old, new) = (picture("hash", "sort_all"), picture("sort", "sort_all"));
    let viewer = viewer(new).with_against(old.manifest.clone());
    viewer.compare(old);
    for missing in ["sor", "sort_", "*sort", ""] {
        let refused = viewer.answer("flame", &format!("kind=on-cpu&function={missing}"));
        assert_eq!(refused.expect_err(missing).status(), 404, "{missing}");
    }
    for reverse in [0, 1] {
        let flame = ask(&viewer, &format!("flame?kind=on-cpu&function=sort&against=1&reverse={reverse}"));
        assert_eq!(number(&flame["total_ns"]), 3_000_000);
        assert_eq!(number(&flame["before_total_ns"]), 0, "that is another function: {flame}");
    }
}

#[test]
fn of_more_wakeups_than_can_be_drawn_all_times_and_threads_have_some() {
    let mut trace = trace_of_lanes("A  00000000\nB  11111111\n").1;
    let start = trace.start();
    let row = |wakee, step: u64| Wakeup {
        at: start + holdup_events::Duration(step * 1000),
        wakee: ThreadId(wakee),
        waker: ThreadId(1 - wakee),
        context: WakeContext::Thread,
        ..Wakeup::default()
    };
    let rows = (0..2).flat_map(|wakee| (0..4000).map(move |step| row(wakee, step))).collect();
    trace.wakeups = Wakeups::freeze(rows, 2);
    let viewer = viewer(trace);
    let all = ask(&viewer, "wakeups?threads=0,1");
    let at: Vec<u64> = all["at"].as_array().expect("times").iter().map(number).collect();
    assert!(at.len() <= 2000 && at.len() as u64 + number(&all["left_out"]) == 8000, "{}", at.len());
    assert!(at.is_sorted());
    for wakee in 0..2u64 {
        let wakees = all["wakee"].as_array().expect("wakees").iter().map(number);
        let own: Vec<u64> =
            at.iter().zip(wakees).filter(|(_, one)| *one == wakee).map(|(at, _)| *at).collect();
        let widest = own.windows(2).map(|pair| pair[1] - pair[0]).max().expect("some");
        assert!(own[0] < 10_000 && own[own.len() - 1] > 3_990_000 && widest < 10_000, "{wakee}: {widest}");
    }
    let few = ask(&viewer, "wakeups?threads=0,1&from=0&to=10000");
    assert_eq!((few["at"].as_array().map(Vec::len), &few["left_out"]), (Some(20), &json!(0)));
}

#[test]
fn a_truncated_table_gives_its_total() {
    let mut trace = trace_of_lanes("A  00000000\n").1;
    let loss = |at| Loss {
        source: "switches".into(),
        reason: "ring-full".into(),
        cpu: CpuId::NONE,
        start: Timestamp(at),
        end: Timestamp(at + 1),
        events: 1,
    };
    trace.losses = (0..10_001).map(loss).collect();
    let table = ask(&viewer(trace), "tables/losses");
    assert_eq!(table["rows"].as_array().map(Vec::len), Some(10_000));
    assert_eq!(table["places"].as_array().map(Vec::len), Some(10_000));
    assert_eq!(table["note"], "The first 10,000 of 10,001 rows.");
    assert_eq!(ask(&busy(), "tables/threads")["note"], "");
}

/// `threads` threads whose slices have little in common.
fn uneven(threads: u32) -> Trace {
    let mut trace = Trace::default();
    let end = Timestamp(1 << 30);
    trace.manifest.end_ns = end.0;
    trace.processes.push(Process { pid: 1, name: "uneven".into(), target: true, parent: None });
    let mut state = 1u64;
    let mut rows = Vec::new();
    for thread in 0..threads {
        let (tid, name) = (thread + 1, format!("worker {thread}"));
        trace.threads.push(Thread {
            tid,
            name,
            target: true,
            end,
            process: ProcessId(0),
            ..Thread::default()
        });
        let mut at = 0;
        while at < end.0 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let states = [ThreadState::Preempted, ThreadState::Running, ThreadState::Unknown];
            let (start, now) = (Timestamp(at), states[(state >> 60) as usize % 3]);
            rows.push(SliceRow {
                thread: ThreadId(thread),
                start,
                state: now,
                cpu: CpuId(0),
                ..SliceRow::default()
            });
            at += 1000 + (state >> 40) % 2_000_000;
        }
    }
    trace.slices = Slices::freeze(&[rows], vec![end; threads as usize]);
    trace
}

#[test]
fn a_file_keeps_its_size_and_lists_missing_lanes() {
    let viewer = viewer(uneven(150));
    let mut lanes = Vec::new();
    for bytes in [512u64 << 10, 1 << 20] {
        let page = bundle::page(&viewer, &assets(), bytes).expect("a page");
        assert!((page.html.len() as u64) < bytes + bytes / 8, "{} of {bytes}", page.html.len());
        let answers = unpacked(&page.html);
        let keys: Vec<&String> = answers.as_object().expect("an object").keys().collect();
        let told = keys.iter().filter(|key| key.starts_with("lanes/") && key.ends_with("/0/0")).count();
        let says = format!("This file has no lanes of {} of the program's threads.", 150 - told);
        assert_eq!(page.thinned.contains(&says), told < 150, "{told}: {:?}", page.thinned);
        assert!(page.thinned.iter().any(|one| one.contains("shorter than")), "{:?}", page.thinned);
        assert!(answers.get("counters/0/0").is_some());
        lanes.push(told);
    }
    assert!(0 < lanes[0] && lanes[0] < lanes[1], "{lanes:?}");
}

#[test]
fn a_file_notes_that_other_programs_have_no_lanes() {
    let says =
        |page: &bundle::Page| page.thinned.iter().any(|one| one.starts_with("Threads of other programs"));
    let page = bundle::page(&busy(), &assets(), 16 << 20).expect("a page");
    assert!(says(&page), "{:?}", page.thinned);
    let summary = unpacked(&page.html)["summary"].clone();
    let others = summary["threads"].as_array().expect("threads").iter().filter(|one| one["target"] == false);
    assert!(others.map(|one| one["name"].clone()).any(|name| name == "noisy"), "they have their names");
    let alone = viewer(trace_of_lanes("A  00000000\n").1);
    assert!(!says(&bundle::page(&alone, &assets(), 16 << 20).expect("a page")));
}
