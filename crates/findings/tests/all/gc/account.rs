//! What collections cost, thread by thread, and where it stands in the ledger.

use holdup_events::tables::ThreadState::{Blocked, Preempted, Running, Untracked};
use holdup_events::tables::{Frame, FrameKind, Mapping, Slice, SliceRow, Slices, Spans, StackRow, Stacks};
use holdup_events::{FrameId, StackId, Timestamp, Trace};
use holdup_findings::derive::class::{CLASSES, Class};
use holdup_findings::derive::ledger;
use holdup_findings::derive::roles::Roles;
use holdup_findings::derive::timelines::Timelines;
use holdup_findings::derive::zoom::{Zoom, range_ledger};
use holdup_findings::experiment::{RunFacts, Table};
use holdup_findings::{Analysis, analyse};

use super::{A, B, OTHER, Picture, ROUND, ROUNDS, late, sampled, trace};

#[test]
fn the_time_of_a_pause_is_split_by_thread_activity() {
    let analysis = analyse(&trace(&late()));
    let gc = &analysis.derived.gc;
    assert_eq!((gc.minor, gc.major, gc.lanes.len()), (ROUNDS, 0, 2));
    let us = |ns: u64| ns / 1000 / ROUNDS;
    let [a, b] = [&gc.lanes[0].times, &gc.lanes[1].times];
    // A: 10 and 90 µs ran at a barrier, 390 slept there, 100 of work, 10 of the leader's own.
    let parts = [a.work_ns, a.wait_running_ns, a.wait_blocked_ns, a.queue_ns, a.other_ns].map(us);
    assert_eq!(parts, [110, 100, 390, 0, 0]);
    assert_eq!([b.work_ns, b.wait_running_ns].map(us), [204, 1]);
    assert_eq!((gc.pauses.count, us(gc.pauses.max_ns * ROUNDS)), (2 * ROUNDS, 600));
    assert_eq!(gc.lanes[0].allocated_bytes, ROUNDS * (2 << 20));
    assert_eq!(gc.slowest[0].mostly, "stw_api_barrier");
}

#[test]
fn what_collections_cost_is_kept_of_a_run_part_by_part() {
    let rows_of = |trace: &Trace| {
        let rows = RunFacts::new(trace, &analyse(trace)).rows.into_iter();
        let of_them = rows.filter(|row| row.table == Table::Collections);
        of_them.map(|row| (row.name, row.amount / 1000 / ROUNDS)).collect::<Vec<_>>()
    };
    let named =
        |rows: &[(&str, u64)]| rows.iter().map(|(name, us)| ((*name).to_owned(), *us)).collect::<Vec<_>>();
    let parts = [("(all)", 805), ("gc-work", 314), ("gc-wait", 491)];
    assert_eq!(rows_of(&trace(&late())), named(&parts));
    // A program without a collector has no collections for certain.
    let mut without = trace(&late());
    (without.spans, without.lanes) = (Spans::default(), Vec::new());
    assert_eq!(rows_of(&without), named(&[("(all)", 0)]));
}

#[test]
fn the_ledger_includes_reported_runtime_phases() {
    let trace = trace(&late());
    let ledger = analyse(&trace).derived.ledger;
    let us = |class: Class| ledger.class_ns(class) / 1000 / ROUNDS;
    assert_eq!((us(Class::GcWork), us(Class::GcWait)), (110 + 204, 490 + 1));
    // A's own 400 µs, and B's 300 and 5.
    assert_eq!((us(Class::Useful), us(Class::RunQueue)), (705, 490));
    assert_eq!(ledger.classes.iter().sum::<u64>(), ledger.total_ns);
}

#[test]
fn waiting_awake_in_a_work_phase_is_spinning() {
    let analysis = analyse(&sampled(true));
    let us = |ns: u64| ns / 1000 / ROUNDS;
    let (ledger, lanes) = (&analysis.derived.ledger, &analysis.derived.gc.lanes);
    let of = |class| us(ledger.class_ns(class));
    // Half of A's 110.
    assert_eq!((of(Class::Spin), of(Class::GcWork), of(Class::GcWait)), (55, 55 + 204, 491));
    assert_eq!(ledger.classes.iter().sum::<u64>(), ledger.total_ns);
    let [work, spin] = [Class::GcWork, Class::Spin].map(|class| ledger.error_ns(class));
    assert!(spin > 0 && work == spin, "{work} {spin}");
    assert_eq!((us(lanes[0].times.work_ns), us(lanes[0].times.spin_ns)), (55, 55));
    assert_eq!((us(lanes[1].times.work_ns), us(lanes[1].times.spin_ns)), (204, 0));
    assert!(lanes[0].times.spin_error_ns > 0 && lanes[1].times.spin_error_ns == 0);
}

#[test]
fn without_spinning_the_reported_phases_are_exact() {
    let analysis = analyse(&sampled(false));
    let ledger = &analysis.derived.ledger;
    assert_eq!(ledger.class_ns(Class::GcWork) / 1000 / ROUNDS, 110 + 204);
    assert_eq!((ledger.class_ns(Class::Spin), ledger.error_ns(Class::GcWork)), (0, 0));
    assert_eq!(analysis.derived.gc.all.spin_ns, 0);
}

#[test]
fn what_is_not_matched_to_threads_is_not_charged_to_them() {
    let mut trace = trace(&late());
    trace.lanes.iter_mut().for_each(|lane| lane.matched = lane.events / 2);
    let ledger = analyse(&trace).derived.ledger;
    assert_eq!((ledger.class_ns(Class::GcWork), ledger.class_ns(Class::GcWait)), (0, 0));
}

/// A sleeps in its own collection from 410 to 800, in that function.
fn sleeping_in(function: &str) -> Analysis {
    let spans = vec![(A, 400, 1000, "minor")];
    let mut trace = trace(&Picture { spans, ..late() });
    let frame = |function: &str| Frame {
        kind: FrameKind::User,
        function: function.into(),
        module: "/bin/node".into(),
        ..Frame::default()
    };
    trace.frames = ["v8::internal::Isolate::Init", function].map(frame).into();
    let row = |frame| StackRow { frame: FrameId(frame), ..StackRow::default() };
    trace.stacks = Stacks::from_rows(vec![StackRow::default(), row(0), row(1)]);
    let app = Mapping { path: "/bin/node".into(), start: 0x1000, end: 0x2000, ..Mapping::default() };
    trace.mappings = vec![app];
    let stack = |state| StackId(if state == Blocked { 2 } else { 0 });
    let row = |slice: Slice| SliceRow {
        thread: slice.thread,
        start: slice.start,
        state: slice.state,
        cpu: slice.cpu,
        wait: slice.wait,
        stack: stack(slice.state),
        ..SliceRow::default()
    };
    let rows = [A, B, OTHER]
        .into_iter()
        .flat_map(|thread| trace.slices.of_thread(thread).map(row).collect::<Vec<_>>());
    let ends = trace.threads.iter().map(|thread| thread.end).collect();
    trace.slices = Slices::freeze(&[rows.collect()], ends);
    analyse(&trace)
}

#[test]
fn sleeping_for_gc_helpers_is_waiting_for_the_collection() {
    let us = |ns: u64| ns / 1000 / ROUNDS;
    let times = |analysis: &Analysis| {
        let times = analysis.derived.gc.lanes[0].times;
        [times.work_ns, times.wait_blocked_ns, times.other_ns].map(us)
    };
    let (told, elsewhere) = (sleeping_in("v8::internal::Heap::CollectGarbage"), sleeping_in("fsync"));
    assert_eq!(times(&told), [210, 390, 0]);
    assert_eq!(us(told.derived.ledger.class_ns(Class::GcWait)), 390);
    assert_eq!(times(&elsewhere), [210, 0, 390], "what it sleeps for there is not the collection's");
}

#[test]
fn lanes_show_runtime_phases_and_ranges_add_up() {
    let picture = Picture {
        slices: vec![
            (A, 0, Running, 0),
            (A, 400, Preempted, 0),
            (A, 402, Running, 0),
            (A, 700, Preempted, 0),
            (A, 702, Running, 0),
            (B, 0, Running, 1),
            (OTHER, 0, Untracked, 0),
        ],
        spans: vec![(A, 400, 700, "stw_api_barrier"), (A, 700, 1000, "minor")],
    };
    let trace = trace(&picture);
    let (timelines, roles) = (Timelines::derive(&trace), Roles::built_in(&trace));
    let zoom = Zoom::derive(&trace, &timelines, &roles);
    let first: Vec<Option<Class>> = (0..5).map(|row| zoom.class(row)).collect();
    let queue = Some(Class::RunQueue);
    assert_eq!(first, [Some(Class::Useful), queue, Some(Class::GcWait), queue, Some(Class::GcWork)]);
    let ledger = ledger::derive_with(&trace, &timelines, &roles);
    let parts = (&trace, &timelines, &zoom, &roles);
    // In pieces that cut slices, and as a whole.
    let middle = Timestamp(ROUND * 41 + 550_000);
    for ranges in [vec![(trace.start(), trace.end())], vec![(trace.start(), middle), (middle, trace.end())]] {
        let mut sums = [0u64; CLASSES];
        for range in ranges {
            let part = range_ledger(parts, &[A, B], range);
            assert_eq!(part.classes.iter().sum::<u64>(), part.total_ns);
            sums.iter_mut().zip(part.classes).for_each(|(sum, ns)| *sum += ns);
        }
        assert_eq!(sums[Class::GcWait as usize], ledger.classes[Class::GcWait as usize]);
        assert_eq!(sums.iter().sum::<u64>(), ledger.total_ns);
    }
}
