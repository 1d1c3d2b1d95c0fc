//! Why the last thread to stop for a collection was late: one picture per cause, in microseconds, and the
//! charged thread.

use holdup_events::event::WakeContext;
use holdup_events::recording::{Host, Manifest};
use holdup_events::tables::{
    Frame, FrameKind, Lane, Process, SampleRow, SliceRow, Slices, SpanKind, SpanRow, Spans, StackRow, Stacks,
    TellName, Thread, ThreadState, Wakeup, Wakeups,
};
use holdup_events::{
    CpuId, FrameId, ProcessId, StackId, ThreadId, Timestamp, Trace, Wait, WaitId, WaitReason,
};
use holdup_findings::analyse;
use holdup_findings::derive::rendezvous::{Late, LateCause};

/// The one that asks, the one that is late, and a thread of another program.
const A: ThreadId = ThreadId(0);
const B: ThreadId = ThreadId(1);
const OTHER: ThreadId = ThreadId(2);

/// Waits: for work, asleep, for a page.
const IDLE: u32 = 1;
const ASLEEP: u32 = 2;
const PAGE: u32 = 3;

/// Stacks: in `own_loop`, and in the kernel's fault handler for `toucher`.
const IN_LOOP: u32 = 1;
const IN_FAULT: u32 = 3;

use ThreadState::{Blocked, Preempted, Runnable, Running, Untracked};

/// B's life, in microseconds. It arrives at the barrier at 1400, 1000 after A's request.
#[derive(Default)]
struct Picture {
    /// State, wait and stack from that moment on.
    slices: &'static [(u64, ThreadState, u32, u32)],
    /// When A woke it.
    woken: Option<u64>,
    /// When it was sampled, with which stack.
    samples: &'static [(u64, u32)],
    /// When the other program ran on B's CPU.
    other: Option<(u64, u64)>,
    /// A comes to the barrier at the very moment of B, and goes on before B does.
    together: bool,
}

const END: u64 = 2000;

fn at(us: u64) -> Timestamp {
    Timestamp(us * 1000)
}

fn slices(picture: &Picture) -> Slices {
    let row = |thread, us, state, cpu| SliceRow {
        thread,
        start: at(us),
        state,
        cpu: CpuId(cpu),
        ..SliceRow::default()
    };
    let mut rows = vec![row(A, 0, Running, 0)];
    rows.extend(picture.slices.iter().map(|(us, state, wait, stack)| SliceRow {
        wait: WaitId(*wait),
        stack: StackId(*stack),
        stack_every: 1,
        ..row(B, *us, *state, 1)
    }));
    rows.push(row(OTHER, 0, Untracked, 1));
    if let Some((from, to)) = picture.other {
        rows.extend([row(OTHER, from, Running, 1), row(OTHER, to, Untracked, 1)]);
    }
    Slices::freeze(&[rows], vec![at(END); 3])
}

fn spans(together: bool) -> Spans {
    let span = |thread: ThreadId, from, to, name| SpanRow {
        thread,
        start: at(from),
        end: at(to),
        lane: thread.0,
        name,
    };
    let (came, went_on) = if together { ((1400, 1400), (1401, 1402)) } else { ((400, 1400), (1400, 1401)) };
    Spans::freeze(vec![
        span(A, 400, 1900, 1),
        span(A, came.0, went_on.0, 2),
        span(A, went_on.0, 1800, 3),
        span(B, 1399, 1900, 4),
        span(B, came.1, went_on.1, 2),
        span(B, went_on.1, 1800, 3),
    ])
}

fn stacks() -> (Vec<Frame>, Stacks) {
    let frame = |kind, function: &str| Frame {
        kind,
        function: function.to_owned(),
        module: if kind == FrameKind::Kernel { String::new() } else { "/bin/program".to_owned() },
        ..Frame::default()
    };
    let frames = vec![
        frame(FrameKind::User, ""),
        frame(FrameKind::User, "own_loop"),
        frame(FrameKind::User, "toucher"),
        frame(FrameKind::Kernel, "asm_exc_page_fault"),
    ];
    let row =
        |frame, parent| StackRow { frame: FrameId(frame), parent: StackId(parent), ..StackRow::default() };
    (frames, Stacks::from_rows(vec![row(0, 0), row(1, 0), row(2, 0), row(3, 2)]))
}

fn sample((us, stack): &(u64, u32)) -> SampleRow {
    SampleRow {
        at: at(*us),
        thread: B,
        cpu: CpuId(1),
        in_kernel: *stack == IN_FAULT,
        syscall: -1,
        stack: StackId(*stack),
        ..SampleRow::default()
    }
}

fn wakeup(us: u64) -> Wakeup {
    Wakeup {
        at: at(us),
        wakee: B,
        waker: A,
        cpu: CpuId(0),
        context: WakeContext::Thread,
        ..Wakeup::default()
    }
}

fn trace(picture: &Picture) -> Trace {
    let thread = |tid: u32, process: u32| Thread {
        tid,
        process: ProcessId(process),
        name: format!("t{tid}"),
        target: process == 0,
        end: at(END),
        ..Thread::default()
    };
    let wait = |reason| Wait { reason, ..Wait::default() };
    let name = |kind, text: &str| TellName { kind, text: text.to_owned() };
    let lane = |number| Lane {
        number,
        end: at(END),
        runtime: "ocaml 5.3".to_owned(),
        events: 100,
        matched: 100,
        ..Lane::default()
    };
    let (frames, stacks) = stacks();
    Trace {
        manifest: Manifest {
            end_ns: END * 1000,
            sample_period_ns: 100_000,
            host: Host { cpus: 2, cpus_allowed: 2, ..Host::default() },
            ..Manifest::default()
        },
        processes: vec![
            Process { pid: 1, name: "program".to_owned(), target: true, ..Process::default() },
            Process { pid: 9, name: "hog".to_owned(), ..Process::default() },
        ],
        threads: vec![thread(1, 0), thread(2, 0), thread(9, 1)],
        slices: slices(picture),
        waits: vec![
            Wait::default(),
            wait(WaitReason::Park),
            wait(WaitReason::Sleep),
            wait(WaitReason::Fault),
        ],
        wakeups: Wakeups::freeze(picture.woken.map(wakeup).into_iter().collect(), 3),
        samples: picture.samples.iter().map(sample).collect(),
        frames,
        stacks,
        spans: spans(picture.together),
        lanes: vec![lane(0), lane(1)],
        names: vec![
            name(SpanKind::User, ""),
            name(SpanKind::Stop, "stw_leader"),
            name(SpanKind::GcWait, "stw_api_barrier"),
            name(SpanKind::GcWork, "minor"),
            name(SpanKind::Stop, "stw_handler"),
        ],
        ..Trace::default()
    }
}

/// Why B was late, and the function that is named.
fn late(picture: &Picture) -> (Late, String) {
    let trace = trace(picture);
    let rendezvous = analyse(&trace).derived.rendezvous;
    let [late] = rendezvous.lates[..] else { panic!("{:?}", rendezvous.lates) };
    let meeting = &rendezvous.meetings[late.meeting as usize];
    assert_eq!((meeting.asked, meeting.release), (at(400), at(1400)));
    let last = if picture.together { A } else { B };
    assert_eq!((meeting.leader, meeting.last), (Some(A), Some(last)));
    let place = late.place.map_or_else(String::new, |place| trace.frame_name(place));
    (late, place)
}

#[test]
fn the_occupant_of_the_latecomers_cpu_is_named() {
    let (late, _) = late(&Picture {
        slices: &[(0, Running, 0, 0), (300, Preempted, 0, 0), (1390, Running, 0, 0)],
        other: Some((300, 1390)),
        ..Picture::default()
    });
    assert_eq!((late.cause, late.cause_ns, late.occupant), (LateCause::NoCpu, 990_000, Some(OTHER)));
}

#[test]
fn an_idle_sleeper_is_woken_late() {
    let slices = &[(0, Blocked, IDLE, 0), (410, Runnable, 0, 0), (1390, Running, 0, 0)];
    let (late, _) =
        late(&Picture { slices, woken: Some(410), other: Some((300, 1390)), ..Picture::default() });
    assert_eq!((late.cause, late.cause_ns, late.occupant), (LateCause::WokenLate, 980_000, Some(OTHER)));
}

#[test]
fn the_requester_of_a_stop_may_be_late() {
    let slices =
        &[(0, Running, 0, 0), (350, Blocked, IDLE, 0), (1350, Runnable, 0, 0), (1390, Running, 0, 0)];
    let (late, _) = late(&Picture { slices, woken: Some(1350), ..Picture::default() });
    assert_eq!((late.cause, late.cause_ns, late.occupant), (LateCause::AskedLate, 950_000, None));
}

#[test]
fn a_sleep_in_a_syscall_is_not_woken_late() {
    let slices = &[(0, Blocked, ASLEEP, IN_LOOP), (1390, Running, 0, 0)];
    let (late, place) = late(&Picture { slices, ..Picture::default() });
    assert_eq!((late.cause, late.cause_ns, place.as_str()), (LateCause::Slept, 990_000, "own_loop"));
}

#[test]
fn of_simultaneous_arrivals_the_first_to_continue_was_last() {
    let picture = Picture { slices: &[(0, Running, 0, 0)], together: true, ..Picture::default() };
    assert_eq!(late(&picture).0.cause, LateCause::RanOn);
}

#[test]
fn the_place_of_a_late_running_thread_is_named() {
    let slices = &[(0, Running, 0, 0)];
    for samples in [&[(700, IN_LOOP), (800, IN_FAULT), (900, IN_LOOP)][..], &[(350, IN_LOOP)]] {
        let (late, place) = late(&Picture { slices, samples, ..Picture::default() });
        assert_eq!((late.cause, place.as_str()), (LateCause::RanOn, "own_loop"));
    }
    // Its activity long before does not count.
    let (late, place) = late(&Picture { slices, samples: &[(50, IN_LOOP)], ..Picture::default() });
    assert_eq!((late.cause, late.cause_ns, place.as_str()), (LateCause::RanOn, 1_000_000, ""));
}

#[test]
fn running_and_blocked_page_faults_are_recognized() {
    let running = Picture {
        slices: &[(0, Running, 0, 0)],
        samples: &[(500, IN_FAULT), (600, IN_FAULT), (700, IN_LOOP)],
        ..Picture::default()
    };
    let (late_, place) = late(&running);
    assert_eq!((late_.cause, place.as_str()), (LateCause::Faulted, "toucher"));
    let waiting = Picture { slices: &[(0, Blocked, PAGE, 0), (1390, Running, 0, 0)], ..Picture::default() };
    assert_eq!(late(&waiting).0.cause, LateCause::Faulted);
}

#[test]
fn causes_add_up_to_the_pauses() {
    let picture = Picture { slices: &[(0, Running, 0, 0)], ..Picture::default() };
    let rendezvous = analyse(&trace(&picture)).derived.rendezvous;
    let causes = rendezvous.late_causes(None);
    assert_eq!(causes.iter().map(|used| used.times).sum::<u64>(), rendezvous.lates.len() as u64);
    assert_eq!(causes[0].late_ns, rendezvous.lates[0].cause_ns);
    assert_eq!(rendezvous.latest(10).len(), 1);
    assert!(rendezvous.late_causes(Some(99)).is_empty());
}

/// Spans from probes have their meaning in their kind. A stops all threads from 400 on, and all have stopped
/// at 1400. If `late`, B arrives after that.
fn probed(late: bool) -> Trace {
    let mut trace = trace(&Picture { slices: &[(0, Running, 0, 0)], ..Picture::default() });
    let kinds = [SpanKind::User, SpanKind::StopsAll, SpanKind::GcWait, SpanKind::Stopped];
    trace.names = kinds.map(|kind| TellName { kind, text: kind.name().to_owned() }).into();
    trace.lanes.iter_mut().for_each(|lane| lane.runtime = "any".to_owned());
    let span = |thread: ThreadId, from, to, name| SpanRow {
        thread,
        start: at(from),
        end: at(to),
        lane: thread.0,
        name,
    };
    let came = if late { 1401 } else { 1400 };
    trace.spans = Spans::freeze(vec![span(A, 400, 1900, 1), span(A, 400, 1400, 2), span(B, came, 1900, 3)]);
    trace
}

#[test]
fn stops_of_any_runtime_are_known_by_the_kinds_of_spans() {
    let rendezvous = analyse(&probed(false)).derived.rendezvous;
    let [meeting] = &rendezvous.meetings[..] else { panic!("{:?}", rendezvous.meetings) };
    assert_eq!((meeting.asked, meeting.release), (at(400), at(1400)));
    assert_eq!((meeting.leader, meeting.last), (Some(A), Some(B)));
    assert_eq!(rendezvous.lates[0].cause, LateCause::RanOn);
    // The pause lasts longer, so that no thread is delayed by a slow wakeup.
    assert!(rendezvous.members(meeting).iter().all(|arrival| arrival.resumed == at(1400)));
}

#[test]
fn an_arrival_after_the_stop_is_not_late() {
    assert!(analyse(&probed(true)).derived.rendezvous.meetings.is_empty());
}
