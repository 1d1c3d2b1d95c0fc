//! What a runtime tells, laid over slices: the account of collections, the ledger, and the rules that judge them.

use holdup_events::recording::{Host, Manifest};
use holdup_events::tables::{
    CounterRow, Frame, FrameKind, FrameSpin, Lane, Mapping, MarkRow, Process, SampleRow, Slice, SliceRow,
    Slices, SpanKind, SpanRow, Spans, StackRow, Stacks, TellName, Thread, ThreadState, Wakeup, Wakeups,
};
use holdup_events::{
    CpuId, FrameId, ProcessId, StackId, ThreadId, Timestamp, Trace, Wait, WaitId, WaitReason,
};
use holdup_findings::derive::class::{CLASSES, Class};
use holdup_findings::derive::ledger;
use holdup_findings::derive::roles::Roles;
use holdup_findings::derive::timelines::Timelines;
use holdup_findings::derive::zoom::{Zoom, range_ledger};
use holdup_findings::descriptors::Descriptors;
use holdup_findings::experiment::{RunFacts, Table};
use holdup_findings::what_if::{Ask, what_if};
use holdup_findings::{Analysis, Finding, analyse, analyse_with};

const ROUNDS: u64 = 100;
/// Length of a round (ns).
const ROUND: u64 = 1_000_000;
/// Domains A and B, and a thread of another program.
const A: ThreadId = ThreadId(0);
const B: ThreadId = ThreadId(1);
const OTHER: ThreadId = ThreadId(2);
/// A thread that answers for a domain with nothing to do: it sleeps until it is woken. Not in each picture.
const ANSWERS: ThreadId = ThreadId(3);
/// What it waits for.
const TO_ANSWER: u32 = 1;
/// When A wakes it, in microseconds from the begin of a round.
const WOKEN: u64 = 401;

const NAMES: [(SpanKind, &str); 9] = [
    (SpanKind::User, ""),
    (SpanKind::Stop, "stw_leader"),
    (SpanKind::Stop, "stw_handler"),
    (SpanKind::GcWait, "stw_api_barrier"),
    (SpanKind::GcWork, "minor"),
    (SpanKind::GcWait, "minor_leave_barrier"),
    (SpanKind::User, "minor_allocated"),
    (SpanKind::User, "domain_spawn"),
    (SpanKind::User, "my.span"),
];

fn name(text: &str) -> u32 {
    NAMES.iter().position(|(_, known)| *known == text).unwrap() as u32
}

/// What happens in a round, in microseconds from its begin.
#[derive(Default)]
struct Picture {
    slices: Vec<(ThreadId, u64, ThreadState, u16)>,
    spans: Vec<(ThreadId, u64, u64, &'static str)>,
}

/// 2 MiB allocated since the collection before.
fn allocated(thread: ThreadId, at: Timestamp) -> CounterRow {
    CounterRow { thread, at, lane: thread.0, name: name("minor_allocated"), value: 2 << 20 }
}

/// A wakes who answers, in each round, if it is in the picture.
fn woken(picture: &Picture) -> Vec<Wakeup> {
    let answers = picture.slices.iter().any(|(thread, ..)| *thread == ANSWERS);
    let at = |round: u64| Timestamp(round * ROUND + WOKEN * 1000);
    let wakeup = |round| Wakeup { at: at(round), wakee: ANSWERS, waker: A, ..Wakeup::default() };
    (0..if answers { ROUNDS } else { 0 }).map(wakeup).collect()
}

fn trace(picture: &Picture) -> Trace {
    let end = Timestamp(ROUNDS * ROUND);
    let at = |round: u64, us: u64| Timestamp(round * ROUND + us * 1000);
    let (mut slices, mut spans, mut counters) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        for (thread, start, state, cpu) in &picture.slices {
            let (thread, start, state, cpu) = (*thread, at(round, *start), *state, CpuId(*cpu));
            let wait = WaitId(if thread == ANSWERS { TO_ANSWER } else { 0 });
            slices.push(SliceRow { thread, start, state, cpu, wait, ..SliceRow::default() });
        }
        for (thread, start, end, text) in &picture.spans {
            let (start, end, name) = (at(round, *start), at(round, *end), name(text));
            spans.push(SpanRow { thread: *thread, start, end, lane: thread.0, name });
        }
        counters.extend([A, B].map(|thread| allocated(thread, at(round, 999))));
    }
    counters.sort_by_key(|row| (row.thread, row.at));
    let thread = |tid: u32, process: u32, target: bool| Thread {
        tid,
        process: ProcessId(process),
        name: format!("t{tid}"),
        target,
        end,
        ..Thread::default()
    };
    let process = |pid: u32, name: &str, target: bool| Process {
        pid,
        name: name.to_owned(),
        target,
        ..Process::default()
    };
    let runtime = || "ocaml 5.3".to_owned();
    let lane = |number: u32| Lane {
        number,
        end,
        runtime: runtime(),
        events: 1000,
        matched: 1000,
        ..Lane::default()
    };
    let mark = |thread: ThreadId| MarkRow {
        thread,
        lane: thread.0,
        name: name("domain_spawn"),
        ..MarkRow::default()
    };
    let mut threads = vec![thread(1, 0, true), thread(2, 0, true), thread(9, 1, false)];
    let wakeups = woken(picture);
    if !wakeups.is_empty() {
        threads.push(thread(3, 0, true));
    }
    Trace {
        manifest: Manifest {
            end_ns: end.0,
            host: Host { cpus: 2, cpus_allowed: 2, ..Host::default() },
            ..Manifest::default()
        },
        processes: vec![process(1, "program", true), process(9, "hog", false)],
        slices: Slices::freeze(&[slices], vec![end; threads.len()]),
        wakeups: Wakeups::freeze(wakeups, threads.len()),
        lanes: (0..threads.len() as u32).map(lane).collect(),
        threads,
        waits: vec![Wait::default(), Wait { reason: WaitReason::Park, ..Wait::default() }],
        spans: Spans::freeze(spans),
        counters,
        marks: vec![mark(A), mark(B)],
        names: NAMES.iter().map(|(kind, text)| TellName { kind: *kind, text: (*text).to_owned() }).collect(),
        ..Trace::default()
    }
}

use ThreadState::{Blocked, Preempted, Runnable, Running, Untracked};

/// A asks; B, which another program keeps from its CPU, comes 400 µs later.
fn late() -> Picture {
    Picture {
        slices: vec![
            (A, 0, Running, 0),
            (A, 410, Blocked, 0),
            (A, 800, Running, 0),
            (B, 0, Running, 1),
            (B, 300, Preempted, 1),
            (B, 790, Running, 1),
            (OTHER, 0, Untracked, 0),
            (OTHER, 300, Running, 1),
            (OTHER, 790, Untracked, 0),
        ],
        spans: vec![
            (A, 100, 200, "my.span"),
            (A, 400, 1000, "stw_leader"),
            (A, 400, 800, "stw_api_barrier"),
            (A, 800, 900, "minor"),
            (A, 900, 990, "minor_leave_barrier"),
            (B, 795, 1000, "stw_handler"),
            (B, 800, 801, "stw_api_barrier"),
            (B, 801, 900, "minor"),
        ],
    }
}

/// Both come at once, and little is to be done.
fn prompt() -> Picture {
    Picture {
        slices: vec![(A, 0, Running, 0), (B, 0, Running, 1), (OTHER, 0, Untracked, 0)],
        spans: vec![
            (A, 900, 930, "stw_leader"),
            (A, 900, 902, "stw_api_barrier"),
            (A, 902, 925, "minor"),
            (B, 901, 930, "stw_handler"),
            (B, 902, 903, "stw_api_barrier"),
            (B, 903, 925, "minor"),
        ],
    }
}

fn of_rule<'a>(analysis: &'a Analysis, rule: &str) -> Option<&'a Finding> {
    analysis.findings.iter().find(|finding| finding.rule == rule)
}

#[test]
fn a_pauses_time_is_told_apart_by_what_the_thread_did() {
    let analysis = analyse(&trace(&late()));
    let gc = &analysis.derived.gc;
    assert_eq!((gc.minor, gc.major, gc.lanes.len()), (ROUNDS, 0, 2));
    let us = |ns: u64| ns / 1000 / ROUNDS;
    let [a, b] = [&gc.lanes[0].times, &gc.lanes[1].times];
    // Of A: 10 and 90 µs ran at a barrier, 390 slept there, 100 of work, 10 of the leader's own.
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
        let rows = RunFacts::of(trace, &analyse(trace)).rows.into_iter();
        let of_them = rows.filter(|row| row.table == Table::Collections);
        of_them.map(|row| (row.name, row.amount / 1000 / ROUNDS)).collect::<Vec<_>>()
    };
    let named =
        |rows: &[(&str, u64)]| rows.iter().map(|(name, us)| ((*name).to_owned(), *us)).collect::<Vec<_>>();
    let parts = [("(all)", 805), ("gc-work", 314), ("gc-wait", 491)];
    assert_eq!(rows_of(&trace(&late())), named(&parts));
    // Of who has no collector it is known that nothing was.
    let mut without = trace(&late());
    (without.spans, without.lanes) = (Spans::default(), Vec::new());
    assert_eq!(rows_of(&without), named(&[("(all)", 0)]));
}

#[test]
fn the_ledger_has_what_the_runtime_told() {
    let trace = trace(&late());
    let ledger = analyse(&trace).derived.ledger;
    let us = |class: Class| ledger.of(class) / 1000 / ROUNDS;
    assert_eq!((us(Class::GcWork), us(Class::GcWait)), (110 + 204, 490 + 1));
    // A's own 400 µs, and B's 300 and 5.
    assert_eq!((us(Class::Useful), us(Class::RunQueue)), (705, 490));
    assert_eq!(ledger.classes.iter().sum::<u64>(), ledger.total_ns);
}

/// `late`, with a sample in each minor collection of each domain, and one of A's own work; every second one of A's collection is in
/// a loop that waits if `spins`.
fn sampled(spins: bool) -> Trace {
    let mut trace = trace(&late());
    let frame = |function: &str, spin| Frame {
        kind: FrameKind::User,
        function: function.into(),
        module: "/bin/program".into(),
        spin,
        ..Frame::default()
    };
    trace.frames = vec![frame("work", FrameSpin::No), frame("wait_for_header", FrameSpin::Pauses)];
    let row = |frame| StackRow { frame: FrameId(frame), ..StackRow::default() };
    trace.stacks = Stacks::from_rows(vec![StackRow::default(), row(0), row(1)]);
    let at = |thread, round: u64, us: u64, stack| SampleRow {
        thread,
        at: Timestamp(round * ROUND + us * 1000),
        stack: StackId(stack),
        ..SampleRow::default()
    };
    let inside = |round: u64| if spins && round.is_multiple_of(2) { 2 } else { 1 };
    let of_a = (0..ROUNDS).flat_map(|round| [at(A, round, 50, 1), at(A, round, 850, inside(round))]);
    trace.samples = of_a.chain((0..ROUNDS).map(|round| at(B, round, 850, 1))).collect();
    trace
}

#[test]
fn who_waits_awake_in_a_phase_of_work_spins() {
    let analysis = analyse(&sampled(true));
    let us = |ns: u64| ns / 1000 / ROUNDS;
    let (ledger, lanes) = (&analysis.derived.ledger, &analysis.derived.gc.lanes);
    let of = |class| us(ledger.of(class));
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
fn where_nobody_waits_awake_what_is_told_is_exact() {
    let analysis = analyse(&sampled(false));
    let ledger = &analysis.derived.ledger;
    assert_eq!(ledger.of(Class::GcWork) / 1000 / ROUNDS, 110 + 204);
    assert_eq!((ledger.of(Class::Spin), ledger.error_ns(Class::GcWork)), (0, 0));
    assert_eq!(analysis.derived.gc.all.spin_ns, 0);
}

#[test]
fn what_is_not_matched_to_threads_is_not_charged_to_them() {
    let mut trace = trace(&late());
    trace.lanes.iter_mut().for_each(|lane| lane.matched = lane.events / 2);
    let ledger = analyse(&trace).derived.ledger;
    assert_eq!((ledger.of(Class::GcWork), ledger.of(Class::GcWait)), (0, 0));
}

#[test]
fn stop_the_world_latecomer_names_who_had_the_cpu() {
    let analysis = analyse(&trace(&late()));
    let finding = of_rule(&analysis, "stop-the-world-latecomer").expect("a finding");
    assert_eq!(finding.cost_ns, ROUNDS * 400_000);
    let said = finding.summary.join(" ");
    assert!(said.contains("hog") && said.contains("t2"), "{said}");
    assert!(finding.gain.high > 0.3 && finding.gain.low <= finding.gain.high, "{:?}", finding.gain);
    assert!(finding.evidence.iter().all(|row| row.thread == B));
    // The same meetings are nobody else's.
    assert!(of_rule(&analysis, "barrier-straggler").is_none());
}

#[test]
fn who_seldom_comes_to_a_stop_makes_it_cost_no_less() {
    let mut picture = late();
    picture.slices.push((ANSWERS, 0, Blocked, 0));
    let mut trace = trace(&picture);
    let span = |start: u64, end: u64, text| SpanRow {
        thread: ANSWERS,
        start: Timestamp(start * 1000),
        end: Timestamp(end * 1000),
        lane: ANSWERS.0,
        name: name(text),
    };
    let seldom = [span(785, 1000, "stw_handler"), span(786, 801, "stw_api_barrier")];
    trace.spans = Spans::freeze([trace.spans.rows(), &seldom].concat());
    let analysis = analyse(&trace);
    let used = &analysis.derived.rendezvous.uses[0];
    assert_eq!((used.members.len(), used.harm_ns), (3, ROUNDS * 400_000 + 14_000));
    assert_eq!(used.harm_each_ns, (ROUNDS - 1) * 400_000 + 207_000);
    let finding = of_rule(&analysis, "stop-the-world-latecomer").expect("a finding");
    assert!(finding.gain.high > 0.39, "{:?}", finding.gain);
}

const POOL: &str = r#"
[runtime]
name = "pool"
title = "Pool"
fewer_collections = "POOL_HEAP=2G"
function = ["work"]

[[rule]]
role = "gc-work"
on = "cpu"
leaf = ["collect"]
"#;

/// `late` of a runtime of which probes tell, that does not say what it allocates.
fn untold() -> Trace {
    let mut trace = sampled(true);
    trace.frames[1] = Frame { function: "collect".into(), spin: FrameSpin::No, ..trace.frames[1].clone() };
    trace.mappings = vec![Mapping { path: "/bin/program".into(), end: 1, ..Mapping::default() }];
    trace.lanes.iter_mut().for_each(|lane| lane.runtime = "pool".to_owned());
    trace.counters.clear();
    trace
}

#[test]
fn probes_say_by_marks_of_which_generation_a_collection_is() {
    let mut trace = trace(&late());
    let name = trace.names.len() as u32;
    let generation = |number| TellName { text: format!("gc generation {number}"), ..TellName::default() };
    trace.names.extend([generation(0), generation(1)]);
    let mark = |thread: ThreadId, name| MarkRow { thread, lane: thread.0, name, ..MarkRow::default() };
    trace.marks = vec![mark(A, name), mark(A, name + 1), mark(B, name)];
    trace.lanes.iter_mut().for_each(|lane| lane.runtime = "ghc".to_owned());
    let gc = analyse(&trace).derived.gc;
    assert_eq!((gc.minor, gc.major), (2, 1));
    assert_eq!(gc.lanes.iter().map(|lane| lane.minor).collect::<Vec<_>>(), [1, 1]);
    // An eventlog has spans of them.
    trace.lanes.iter_mut().for_each(|lane| lane.runtime = "ghc 9.0.2".to_owned());
    assert_eq!(analyse(&trace).derived.gc.major, 0);
}

fn pool() -> Descriptors {
    Descriptors::none().with(&[POOL.to_owned()]).expect("it is sound")
}

#[test]
fn collections_of_a_runtime_that_does_not_say_what_it_allocates_are_judged_too() {
    let analysis = analyse_with(&untold(), &pool());
    let finding = of_rule(&analysis, "gc-heavy").expect("a finding");
    // The 400 of A's 490 µs that it waits for B to stop are told as that.
    assert_eq!(finding.cost_ns / 1000 / ROUNDS, 110 + 90 + 204);
    assert!(of_rule(&analysis, "gc-pressure").is_none());
    let latecomer = of_rule(&analysis, "stop-the-world-latecomer").expect("a finding");
    assert_eq!(latecomer.advice.last().map(String::as_str), Some("POOL_HEAP=2G"));
    // Of one that says it, gc-pressure knows more.
    let Trace { lanes, counters, .. } = trace(&late());
    let told = Trace { lanes, counters, ..untold() };
    let analysis = analyse_with(&told, &pool());
    assert!(of_rule(&analysis, "gc-heavy").is_none() && of_rule(&analysis, "gc-pressure").is_some());
}

/// Two threads on one CPU, which collect for themselves; each queues for it in its collections, or else in its own work.
fn crowded(in_collections: bool) -> Trace {
    let slices = vec![
        (A, 0, Running, 0),
        (A, 300, Preempted, 0),
        (A, 700, Running, 0),
        (B, 0, Runnable, 0),
        (B, 300, Running, 0),
        (B, 700, Preempted, 0),
    ];
    let spans = match in_collections {
        true => vec![(A, 200, 900, "minor"), (B, 0, 400, "minor"), (B, 600, 1000, "minor")],
        false => vec![(A, 50, 250, "minor"), (B, 350, 550, "minor")],
    };
    let mut trace = Trace { samples: Vec::new(), ..trace(&Picture { slices, spans }) };
    let host = Host { cpus: 1, cpus_allowed: 1, ..Host::default() };
    trace.manifest = Manifest { host, ..trace.manifest };
    let drawn = untold();
    let of_a = drawn.samples.iter().filter(|sample| sample.thread == A);
    let at = |sample: &SampleRow| match sample.stack {
        StackId(2) => SampleRow { at: Timestamp(sample.at.0 / ROUND * ROUND + 210_000), ..*sample },
        _ => SampleRow { at: Timestamp(sample.at.0 / ROUND * ROUND + 10_000), stack: StackId(1), ..*sample },
    };
    trace.samples = of_a.map(at).collect();
    trace.samples.sort_by_key(|sample| sample.at);
    Trace {
        frames: drawn.frames,
        stacks: drawn.stacks,
        mappings: drawn.mappings,
        lanes: drawn.lanes,
        counters: Vec::new(),
        ..trace
    }
}

#[test]
fn who_wants_a_cpu_to_collect_on_is_the_collectors_matter() {
    let analysis = analyse_with(&crowded(true), &pool());
    assert!(of_rule(&analysis, "gc-heavy").is_some() && of_rule(&analysis, "oversubscription").is_none());
    let told = analysis.symptoms.iter().any(|symptom| symptom.finding.rule == "oversubscription");
    assert!(told, "{:#?}", analysis.findings);
    // Who wants one for its own work is not.
    let analysis = analyse_with(&crowded(false), &pool());
    assert!(of_rule(&analysis, "gc-heavy").is_some() && of_rule(&analysis, "oversubscription").is_some());
}

#[test]
fn gc_pressure_says_which_heap_would_halve_the_collections() {
    let analysis = analyse(&trace(&late()));
    let finding = of_rule(&analysis, "gc-pressure").expect("a finding");
    // 2 MiB are 256 k words.
    assert!(finding.advice[0].contains("s=512k"), "{:?}", finding.advice);
    // What they wait for the CPU that another program has is not the price of what they allocate.
    assert!(finding.gain.low > 0.05 && (0.1..0.3).contains(&finding.gain.high), "{:?}", finding.gain);
}

#[test]
fn a_minor_heap_that_no_cache_holds_need_not_be_larger() {
    let mut trace = trace(&late());
    for counter in &mut trace.counters {
        let is_it = counter.name == name("minor_allocated");
        counter.value *= if is_it { 16 } else { 1 };
    }
    let analysis = analyse(&trace);
    let finding = of_rule(&analysis, "gc-pressure").expect("a finding");
    assert_eq!(
        (finding.gain.low, finding.confidence),
        (0.0, holdup_findings::Confidence::Low),
        "{finding:#?}"
    );
    assert!(!finding.advice.join(" ").contains("s="), "{:?}", finding.advice);
}

/// `prompt`, in which each round allocates 2 MiB: in half of A's samples, and where it collects, in `site`.
fn fast(site: &str) -> Trace {
    let mut trace = trace(&prompt());
    let frame = |function: &str| Frame {
        kind: FrameKind::User,
        function: function.into(),
        module: "/bin/program".into(),
        ..Frame::default()
    };
    let names = ["main", site, "caml_call_gc", "caml_alloc_small_dispatch", "caml_poll_gc_work"];
    trace.frames = names.map(frame).to_vec();
    let row =
        |frame, parent| StackRow { frame: FrameId(frame), parent: StackId(parent), ..StackRow::default() };
    let rows = [row(0, 0), row(1, 1), row(2, 2), row(3, 3), row(4, 4)];
    trace.stacks = Stacks::from_rows([vec![StackRow::default()], rows.to_vec()].concat());
    let at = |thread, round: u64, us: u64, stack| SampleRow {
        thread,
        at: Timestamp(round * ROUND + us * 1000),
        stack: StackId(stack),
        ..SampleRow::default()
    };
    let of_a =
        (0..ROUNDS).flat_map(|round| [at(A, round, 50, 1), at(A, round, 500, 2), at(A, round, 910, 5)]);
    trace.samples = of_a.chain((0..ROUNDS).map(|round| at(B, round, 500, 1))).collect();
    promote(&mut trace, 0.0);
    trace
}

/// Tells that this part of what was allocated was promoted.
fn promote(trace: &mut Trace, part: f64) {
    trace.names.push(TellName { kind: SpanKind::User, text: "minor_promoted".into() });
    let name = trace.names.len() as u32 - 1;
    let of = |row: &CounterRow| CounterRow { name, value: (row.value as f64 * part) as u64, ..*row };
    let promoted: Vec<CounterRow> = trace.counters.iter().map(of).collect();
    trace.counters.extend(promoted);
    trace.counters.sort_by_key(|row| (row.thread, row.at));
}

#[test]
fn who_allocates_fast_what_is_dead_at_once_is_named() {
    let analysis = analyse(&fast("compare"));
    let finding = of_rule(&analysis, "allocation-hotspot").expect("a finding");
    assert_eq!((finding.subject.as_str(), finding.confidence), ("compare", holdup_findings::Confidence::Low));
    let said = finding.summary.join(" ");
    assert!(said.contains("(100 stacks): compare 100 %"), "{said}");
    // A third of what A runs, of which so many bytes can take nearly all; A could go on sooner, B could not.
    assert!(finding.gain.low == 0.0 && (0.1..0.4).contains(&finding.gain.high), "{:?}", finding.gain);
}

#[test]
fn who_allocates_slowly_or_keeps_it_is_not() {
    let hot = |trace: &Trace| of_rule(&analyse(trace), "allocation-hotspot").is_some();
    let mut slowly = fast("compare");
    slowly.counters.iter_mut().for_each(|counter| counter.value /= 4);
    assert!(!hot(&slowly));
    // As much is promoted as a fifth of what is allocated.
    let mut kept = fast("compare");
    promote(&mut kept, 0.2);
    assert!(!hot(&kept));
    // Its runtime does not tell what is.
    let mut untold = fast("compare");
    untold.names.last_mut().expect("what fast told").text = "of_something_else".into();
    assert!(!hot(&untold));
    // Collections begin because somebody else asks.
    let mut asked = fast("compare");
    asked.frames[3].function = "caml_do_pending_actions_res".into();
    assert!(!hot(&asked));
}

/// A asks and B comes at once; who answers for a third domain comes at `comes`.
fn answered(comes: u64) -> Picture {
    Picture {
        slices: vec![
            (A, 0, Running, 0),
            (A, 410, Blocked, 0),
            (A, 800, Running, 0),
            (B, 0, Running, 1),
            (B, 410, Blocked, 1),
            (B, 800, Running, 1),
            (OTHER, 0, Untracked, 0),
            (ANSWERS, 0, Blocked, 1),
            (ANSWERS, WOKEN, Runnable, 1),
            (ANSWERS, comes, Running, 1),
            (ANSWERS, 799, Blocked, 1),
        ],
        spans: vec![
            (A, 400, 1000, "stw_leader"),
            (A, 400, 800, "stw_api_barrier"),
            (A, 800, 850, "minor"),
            (A, 850, 990, "minor_leave_barrier"),
            (B, 402, 1000, "stw_handler"),
            (B, 402, 800, "stw_api_barrier"),
            (B, 800, 850, "minor"),
            (ANSWERS, comes, 799, "stw_handler"),
            (ANSWERS, comes + 5, 799, "stw_api_barrier"),
        ],
    }
}

#[test]
fn a_domain_with_nothing_to_do_is_what_the_others_wait_for() {
    let analysis = analyse(&trace(&answered(790)));
    let late = of_rule(&analysis, "stop-the-world-latecomer").expect("a finding");
    assert!(late.summary.join(" ").contains("1 domain with nothing to do"), "{late:#?}");
    // Of A, 410 µs at the first barrier and 140 at the second; its work is 50 and the leader's 10.
    assert!((0.54..0.7).contains(&late.gain.high), "{:?}", late.gain);
    assert_eq!(analysis.findings[0].rule, "stop-the-world-latecomer", "{:#?}", analysis.findings);
    // Of B, whose handler takes 200 of 1000 µs behind the first barrier.
    let pressure = of_rule(&analysis, "gc-pressure").expect("a finding").gain;
    assert!((pressure.high - 0.2).abs() < 0.02, "{pressure:?}");
}

#[test]
fn a_domain_with_nothing_to_do_that_has_no_cpu_is_what_the_others_wait_for() {
    let mut picture = answered(WOKEN + 5);
    picture.slices.retain(|(thread, start, ..)| *thread != ANSWERS || *start <= WOKEN);
    picture.slices.extend([
        (ANSWERS, WOKEN + 5, Running, 0),
        (ANSWERS, WOKEN + 10, Runnable, 0),
        (ANSWERS, 790, Running, 0),
        (ANSWERS, 799, Blocked, 0),
    ]);
    let analysis = analyse(&trace(&picture));
    let late = of_rule(&analysis, "stop-the-world-latecomer").expect("a finding");
    assert!(late.summary.join(" ").contains("1 domain with nothing to do"), "{late:#?}");
    assert!(late.advice[0].contains("idle threads end"), "{:?}", late.advice);
    // It had no CPU for nearly all of the 390 µs that the others waited at the first barrier; they work 60 to 200.
    assert!((0.1..0.4).contains(&late.gain.low), "{:?}", late.gain);
    assert_eq!(analysis.findings[0].rule, "stop-the-world-latecomer", "{:#?}", analysis.findings);
}

#[test]
fn a_domain_with_nothing_to_do_that_answers_at_once_is_not() {
    let analysis = analyse(&trace(&answered(404)));
    let late = of_rule(&analysis, "stop-the-world-latecomer");
    let said = late.map_or(String::new(), |finding| finding.summary.join(" "));
    assert!(!said.contains("nothing to do"), "{said}");
    assert!(of_rule(&analysis, "gc-pressure").expect("a finding").gain.high > 0.5);
}

#[test]
fn prompt_and_cheap_collections_are_silent() {
    let analysis = analyse(&trace(&prompt()));
    assert_eq!(analysis.derived.gc.minor, ROUNDS);
    assert!(of_rule(&analysis, "stop-the-world-latecomer").is_none(), "{:#?}", analysis.findings);
    assert!(of_rule(&analysis, "gc-pressure").is_none(), "{:#?}", analysis.findings);
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
    let rows =
        [A, B, OTHER].into_iter().flat_map(|thread| trace.slices.of(thread).map(row).collect::<Vec<_>>());
    let ends = trace.threads.iter().map(|thread| thread.end).collect();
    trace.slices = Slices::freeze(&[rows.collect()], ends);
    analyse(&trace)
}

#[test]
fn who_sleeps_in_its_own_collection_until_its_helpers_are_done_waits_for_it() {
    let us = |ns: u64| ns / 1000 / ROUNDS;
    let times = |analysis: &Analysis| {
        let times = analysis.derived.gc.lanes[0].times;
        [times.work_ns, times.wait_blocked_ns, times.other_ns].map(us)
    };
    let (told, elsewhere) = (sleeping_in("v8::internal::Heap::CollectGarbage"), sleeping_in("fsync"));
    assert_eq!(times(&told), [210, 390, 0]);
    assert_eq!(us(told.derived.ledger.of(Class::GcWait)), 390);
    assert_eq!(times(&elsewhere), [210, 0, 390], "what it sleeps for there is not the collection's");
}

#[test]
fn lanes_have_the_colour_of_what_the_runtime_told_and_ranges_still_add_up() {
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

#[test]
fn who_collects_since_another_is_full_would_collect_less_often_alone() {
    let low_ns = |trace: &Trace| {
        let ask = Ask { without: vec!["gc-wait".to_owned()], ..Ask::default() };
        what_if(trace, &ask).expect("an answer").forecast.low_ns
    };
    let worker = |thread: ThreadId, at: u64| SampleRow {
        thread,
        at: Timestamp(at),
        stack: StackId(2),
        ..SampleRow::default()
    };
    let with = |of_b: u64| {
        let mut trace = Trace { samples: Vec::new(), ..untold() };
        let Trace { lanes, counters, .. } = self::trace(&late());
        (trace.lanes, trace.counters) = (lanes, counters);
        // Domains whose runtime's code is known by a name that a descriptor has.
        trace.frames[1].function = "oldify_one".into();
        let at = |round: u64| [worker(A, round * ROUND + 850_000), worker(B, round * ROUND + 850_000)];
        trace.samples = (0..ROUNDS).flat_map(at).collect();
        trace.samples.sort_by_key(|sample| (sample.thread, sample.at));
        trace.counters.iter_mut().filter(|row| row.thread == B).for_each(|row| row.value = of_b);
        trace
    };
    // B allocates half as much as A: as a process it would collect half as often.
    assert!(low_ns(&with(1 << 20)) < low_ns(&with(2 << 20)));
}

/// What is said of domains that share a collector.
fn told_apart(analysis: &Analysis) -> Vec<&String> {
    let lines = analysis.findings.iter().flat_map(|finding| &finding.summary);
    lines.filter(|line| line.contains("share a collector")).collect()
}

#[test]
fn domains_that_share_a_collector_are_told_what_processes_would_not_have() {
    let analysis = analyse(&trace(&late()));
    let told = told_apart(&analysis);
    assert_eq!(told.len(), 1, "{:?}", analysis.findings);
    assert!(told[0].starts_with("2 domains share a collector."), "{told:?}");
    // Each in a process of its own, they share none.
    let mut apart = trace(&late());
    apart.threads[B.index()].process = ProcessId(2);
    apart.lanes[B.index()].process = ProcessId(2);
    apart.processes.push(Process { pid: 2, name: "program".to_owned(), target: true, ..Process::default() });
    assert!(told_apart(&analyse(&apart)).is_empty());
}

#[test]
fn without_waiting_for_each_other_threads_still_collect() {
    let trace = trace(&late());
    let wall_ns = |subject: &str| {
        let ask = Ask { without: vec![subject.to_owned()], ..Ask::default() };
        let answer = what_if(&trace, &ask).expect("an answer");
        let waits = |(class, _, after): &(Class, u64, u64)| *class == Class::GcWait && *after > 0;
        assert!(!answer.classes().iter().any(waits), "{subject}");
        answer.forecast.wall_ns
    };
    assert!(wall_ns("gc") <= wall_ns("gc-wait"));
    assert!(wall_ns("gc-wait") <= trace.wall().0);
}
