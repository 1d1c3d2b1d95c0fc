//! A runtime's events, combined with slices: the account of collections, the ledger, and the rules that judge
//! them.

mod account;
mod apart;
mod latecomers;
mod pool;
mod pressure;

use holdup_events::recording::{Host, Manifest};
use holdup_events::tables::ThreadState::{Blocked, Preempted, Running, Untracked};
use holdup_events::tables::{
    CounterRow, Frame, FrameKind, FrameSpin, Lane, MarkRow, Process, SampleRow, SliceRow, Slices, SpanKind,
    SpanRow, Spans, StackRow, Stacks, TellName, Thread, ThreadState, Wakeup, Wakeups,
};
use holdup_events::{
    CpuId, FrameId, ProcessId, StackId, ThreadId, Timestamp, Trace, Wait, WaitId, WaitReason,
};
use holdup_findings::{Analysis, Finding};

const ROUNDS: u64 = 100;
/// Length of a round (ns).
const ROUND: u64 = 1_000_000;
/// Domains A and B, and a thread of another program.
const A: ThreadId = ThreadId(0);
const B: ThreadId = ThreadId(1);
const OTHER: ThreadId = ThreadId(2);
/// A thread that answers for a domain with nothing to do: it sleeps until it is woken. Not in each picture.
const ANSWERS: ThreadId = ThreadId(3);
/// The wait's number.
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

/// The events of a round, in microseconds from its begin.
#[derive(Default)]
struct Picture {
    slices: Vec<(ThreadId, u64, ThreadState, u16)>,
    spans: Vec<(ThreadId, u64, u64, &'static str)>,
}

/// 2 MiB allocated since the collection before.
fn allocated(thread: ThreadId, at: Timestamp) -> CounterRow {
    CounterRow { thread, at, lane: thread.0, name: name("minor_allocated"), value: 2 << 20 }
}

/// In each round, A wakes the backup thread, if it is in the picture.
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

/// A requests a pause. B, displaced from its CPU by another program, arrives 400 µs later.
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

/// `late`, with a sample in each minor collection of each domain, and one of A's own work. If `spins`, every
/// second sample of A's collections is in a loop that waits.
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
