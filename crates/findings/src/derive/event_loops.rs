//! Single-threaded event loops, and functions that block them for long.
//!
//! A thread that polls for several events and is woken by other programs is an event loop. The time from one
//! blocking poll to the next is a turn. During a long turn no other event is served. Samples show the
//! functions in it.

use std::collections::{BTreeMap, BTreeSet};

use holdup_events::event::WakeContext;
use holdup_events::tables::{FrameKind, SampleRow, Slice, ThreadState};
use holdup_events::{FrameId, ProcessId, StackId, ThreadId, Timestamp, Trace, WaitReason};

use super::own_places::OwnFrames;
use super::standard_libraries::V8_BUILTINS;

/// Minimum number of polls that other programs ended, for a thread to be an event loop.
const POLLS_MIN: usize = 20;
/// Minimum length of a long turn. A network's round trip within a data centre takes up to a millisecond, people notice 100 ms.
const LONG_NS: u64 = 20_000_000;
/// A long turn is at least this many times as long as the median turn.
const TIMES_MEDIAN: u64 = 10;
/// Minimum share of a long turn in which the thread ran.
const RUNNING_MIN: f64 = 0.5;
/// Minimum number of samples in a long turn, for its function to be known.
const SAMPLES_MIN: usize = 4;
/// Minimum share of a turn's samples that have the function on their stack.
const COVERS_MIN: f64 = 0.9;
/// Minimum share of the samples that a function below it is named for.
const MOSTLY_MIN: f64 = 0.3;
/// Minimum factor by which the loop's own syscalls are rarer in long turns, for a function that holds the
/// turn with one call.
const CALLS_RARER: f64 = 4.0;
/// Maximum share of the samples of long turns in the loop's syscalls (upper end of the 95 % interval).
const CALLS_MAX: f64 = 0.04;
/// Minimum expected number of samples in the loop's syscalls, if the long turns were like the other turns.
const CALLS_EXPECTED_MIN: f64 = 8.0;
/// Minimum ratio of a loop's polls to its wakeups of the process's other threads, for threads that do not
/// work for the loop.
const WAKEUPS_RARER: usize = 10;
/// Syscalls of an event loop (numbers of x86-64): read, write, poll, readv, writev, select, connect to recvmsg, epoll_wait,
/// pselect6, ppoll, epoll_pwait, accept4, recvmmsg, sendmmsg, epoll_pwait2.
const LOOP_CALLS: [i32; 20] =
    [0, 1, 7, 19, 20, 23, 42, 43, 44, 45, 46, 47, 232, 270, 271, 281, 288, 299, 307, 441];

/// The source of [`holdup_events::tables::SyscallRow`]s that windows count.
const WINDOWS: &str = "syscall-windows";
/// Syscalls that poll: poll, select, epoll_wait, pselect6, ppoll, epoll_pwait, epoll_pwait2.
const POLL_CALLS: [i32; 7] = [7, 23, 232, 270, 271, 281, 441];
/// Minimum number of windows within long turns per poll in them. The poll that ends a turn may be counted in
/// a window that ends with it.
const POLLED_RARELY: usize = 4;

/// A function that held an event loop.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldLoop {
    /// The event loop.
    pub thread: ThreadId,
    /// The program's function that ran in the long turns. `None` if only functions of the interpreter have
    /// names.
    pub function: Option<String>,
    /// Function with most of the samples, among the functions that are not in nearly all of them, with its
    /// share (0 to 1).
    pub mostly_in: Option<(String, f64)>,
    /// Counted polls within the long turns.
    pub counted: Counted,
    /// The long turns, in time order.
    pub turns: Vec<Turn>,
    /// Median length of all turns of the loop (ns).
    pub median_ns: u64,
}

/// Windows within turns of a loop in which all syscalls were counted, exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Number of windows.
    pub windows: usize,
    /// Total length of the turns (ns).
    pub ns: u64,
    /// Number of polls in them, by the loop's process.
    pub polls: u64,
}

/// One turn of an event loop.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Turn {
    /// Time at which the previous poll returned.
    pub start: Timestamp,
    /// Start of the next blocking poll.
    pub end: Timestamp,
    /// Running time of the thread in the turn (ns).
    pub running_ns: u64,
}

impl Turn {
    /// Length (ns).
    pub fn ns(&self) -> u64 {
        self.end.since(self.start).0
    }
}

impl HeldLoop {
    /// Total length of the long turns (ns).
    pub fn total_ns(&self) -> u64 {
        self.turns.iter().map(Turn::ns).sum()
    }

    /// Running time in the long turns (ns).
    pub fn running_ns(&self) -> u64 {
        self.turns.iter().map(|turn| turn.running_ns).sum()
    }

    /// Mean time to the end of the turn for a request that arrives at a random moment of the long turns (ns).
    /// This is the mean residual life of renewal theory, Σ length² / (2 Σ length) (Cox: Renewal theory,
    /// 1962).
    pub fn mean_wait_ns(&self) -> u64 {
        let squares: f64 = self.turns.iter().map(|turn| (turn.ns() as f64).powi(2)).sum();
        (squares / (2.0 * self.total_ns().max(1) as f64)).round() as u64
    }
}

/// Functions that block event loops, the longest one for each loop. Longest first.
pub fn held(trace: &Trace) -> Vec<HeldLoop> {
    let loops: Vec<(ThreadId, ProcessId)> = trace
        .target_threads()
        .filter(|thread| is_event_loop(trace, *thread))
        .map(|thread| (thread, trace.threads[thread.index()].process))
        .collect();
    if loops.is_empty() {
        return Vec::new();
    }
    let own = OwnFrames::new(trace);
    let alone = |process: ProcessId| loops.iter().filter(|(_, other)| *other == process).count() == 1;
    let mut held: Vec<HeldLoop> = loops
        .iter()
        .filter(|(_, process)| alone(*process))
        .filter_map(|(thread, _)| held_by(trace, &own, *thread))
        .collect();
    held.sort_by(|a, b| b.total_ns().cmp(&a.total_ns()).then(a.thread.cmp(&b.thread)));
    held
}

/// Whether the thread is the only event loop of its process and rarely wakes the process's other threads.
/// Those threads then do not wait for its work.
pub fn serves_alone(trace: &Trace, thread: ThreadId) -> bool {
    let process_of = |thread: ThreadId| trace.threads.get(thread.index()).map(|thread| thread.process);
    let process = process_of(thread);
    let is_beside = |other: &ThreadId| *other != thread && process_of(*other) == process;
    let others: Vec<ThreadId> = trace.target_threads().filter(is_beside).collect();
    if !is_event_loop(trace, thread) || others.iter().any(|other| is_event_loop(trace, *other)) {
        return false;
    }
    let by_it = |other: ThreadId| {
        trace.wakeups.of_thread(other).iter().filter(|wakeup| wakeup.waker == thread).count()
    };
    others.into_iter().map(by_it).sum::<usize>() * WAKEUPS_RARER <= turns(trace, thread).len()
}

fn is_poll(trace: &Trace, slice: &Slice) -> bool {
    slice.state == ThreadState::Blocked && trace.wait(slice.wait).reason == WaitReason::Multiplex
}

fn is_event_loop(trace: &Trace, thread: ThreadId) -> bool {
    let process = trace.threads[thread.index()].process;
    let mut near = 0;
    let from_outside = |slice: &Slice| {
        let Some(wakeup) = trace.ended_by_near(slice, &mut near) else { return false };
        match wakeup.context {
            WakeContext::Timer => false,
            WakeContext::SoftIrq | WakeContext::Irq => true,
            WakeContext::Thread => {
                trace.threads.get(wakeup.waker.index()).is_some_and(|waker| waker.process != process)
            }
        }
    };
    let polls = trace.slices.of_thread(thread).filter(|slice| is_poll(trace, slice));
    polls.filter(from_outside).take(POLLS_MIN).count() == POLLS_MIN
}

/// Turns of an event loop. The time before its first poll and after its last one is left out.
fn turns(trace: &Trace, thread: ThreadId) -> Vec<Turn> {
    let mut turns = Vec::new();
    let mut open: Option<Turn> = None;
    for slice in trace.slices.of_thread(thread) {
        if is_poll(trace, &slice) {
            turns.extend(open.map(|turn| Turn { end: slice.start, ..turn }));
            open = Some(Turn { start: slice.end, end: slice.end, running_ns: 0 });
        } else if slice.state == ThreadState::Running
            && let Some(turn) = &mut open
        {
            turn.running_ns += slice.duration().0;
        }
    }
    turns
}

fn held_by(trace: &Trace, own: &OwnFrames, thread: ThreadId) -> Option<HeldLoop> {
    let turns = turns(trace, thread);
    let mut lengths: Vec<u64> = turns.iter().map(Turn::ns).collect();
    lengths.sort_unstable();
    let median_ns = lengths.get(lengths.len() / 2).copied()?;
    let is_long = |turn: &&Turn| {
        turn.ns() >= LONG_NS.max(TIMES_MEDIAN * median_ns)
            && turn.running_ns as f64 >= RUNNING_MIN * turn.ns() as f64
    };
    let samples = super::samples_of(trace, thread);
    let within = |turn: &Turn| {
        let from = samples.partition_point(|sample| sample.at < turn.start);
        let behind = samples.partition_point(|sample| sample.at < turn.end);
        samples.get(from..behind).unwrap_or_default()
    };
    let calls = Calls::new(trace, own, thread);
    let (mut by_function, mut others) =
        (BTreeMap::<Option<FrameId>, Vec<Turn>>::new(), LoopCalls::count(samples));
    for turn in turns.iter().filter(is_long) {
        others = others.without(LoopCalls::count(within(turn)));
        if let Some(function) = calls.common(within(turn)) {
            by_function.entry(function).or_default().push(*turn);
        }
    }
    let total = |turns: &[Turn]| turns.iter().map(Turn::ns).sum::<u64>();
    let (function, turns) = by_function.into_iter().max_by_key(|(_, turns)| total(turns))?;
    let inside =
        turns.iter().map(|turn| LoopCalls::count(within(turn))).fold(LoopCalls::default(), LoopCalls::with);
    let counted = counted_within(trace, trace.threads[thread.index()].process, &turns);
    // A loop that works in pieces polls between them without blocking.
    if !others.are_rarer(inside) || counted.polls as usize > counted.windows / POLLED_RARELY {
        return None;
    }
    let all: Vec<SampleRow> = turns.iter().flat_map(within).copied().collect();
    Some(HeldLoop {
        thread,
        function: function.map(|frame| trace.frames[frame.index()].function.clone()),
        mostly_in: calls.mostly_in(&all),
        counted,
        turns,
        median_ns,
    })
}

/// Counts in windows within turns. Empty if windows missed calls.
fn counted_within(trace: &Trace, process: ProcessId, turns: &[Turn]) -> Counted {
    if trace.losses.iter().any(|loss| loss.source == WINDOWS) {
        return Counted::default();
    }
    let mut windows: BTreeMap<(Timestamp, Timestamp), u64> = BTreeMap::new();
    for row in &trace.syscalls {
        let polls = row.process == Some(process) && POLL_CALLS.contains(&row.syscall);
        *windows.entry((row.start, row.end)).or_default() += if polls { row.count } else { 0 };
    }
    let is_within = |start: Timestamp, end: Timestamp| {
        let next = turns.partition_point(|turn| turn.end < end);
        turns.get(next).is_some_and(|turn| turn.start <= start)
    };
    windows.retain(|(start, end), _| is_within(*start, *end));
    Counted {
        windows: windows.len(),
        ns: windows.keys().map(|(start, end)| end.since(*start).0).sum(),
        polls: windows.values().sum(),
    }
}

/// Samples of an event loop, and how many of them were in its syscalls.
#[derive(Clone, Copy, Debug, Default)]
struct LoopCalls {
    samples: usize,
    calls: usize,
}

impl LoopCalls {
    fn count(samples: &[SampleRow]) -> LoopCalls {
        let calls = samples.iter().filter(|sample| LOOP_CALLS.contains(&sample.syscall)).count();
        LoopCalls { samples: samples.len(), calls }
    }

    fn with(self, more: LoopCalls) -> LoopCalls {
        LoopCalls { samples: self.samples + more.samples, calls: self.calls + more.calls }
    }

    fn without(self, part: LoopCalls) -> LoopCalls {
        LoopCalls { samples: self.samples - part.samples, calls: self.calls - part.calls }
    }

    /// Whether the loop's syscalls are rare enough `inside` long turns. Otherwise the turns are series of
    /// short requests.
    fn are_rarer(self, inside: LoopCalls) -> bool {
        let expected = self.share().0 * inside.samples as f64;
        expected >= CALLS_EXPECTED_MIN
            && inside.calls as f64 * CALLS_RARER <= expected
            && inside.share().1 <= CALLS_MAX
    }

    /// The 95 % interval of the share of samples in the loop's syscalls (Wilson's).
    fn share(self) -> (f64, f64) {
        const Z: f64 = 1.96;
        let (n, share) = (self.samples.max(1) as f64, self.calls as f64 / self.samples.max(1) as f64);
        let middle = share + Z * Z / (2.0 * n);
        let half = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
        let scale = 1.0 + Z * Z / n;
        ((middle - half) / scale, (middle + half) / scale)
    }
}

/// Functions on the stacks of samples: in how many samples each is, and the sum of its distances from the leaf.
type Counts = BTreeMap<FrameId, (usize, usize)>;

/// The functions that one event loop calls.
struct Calls<'a> {
    trace: &'a Trace,
    own: &'a OwnFrames,
    /// Functions on the stacks with which the thread polls: the loop itself.
    of_loop: BTreeSet<FrameId>,
}

impl<'a> Calls<'a> {
    fn new(trace: &'a Trace, own: &'a OwnFrames, thread: ThreadId) -> Calls<'a> {
        let polls = trace.slices.of_thread(thread).filter(|slice| is_poll(trace, slice));
        let stacks: BTreeSet<StackId> = polls.map(|slice| slice.stack).collect();
        let stacks = stacks.into_iter().filter(|stack| *stack != StackId::NONE);
        let of_loop = stacks
            .flat_map(|stack| trace.stack_frames(stack))
            .filter_map(|frame| own.own_frame(frame))
            .collect();
        Calls { trace, own, of_loop }
    }

    /// The functions of some samples besides the loop's own.
    fn counts(&self, samples: &[SampleRow]) -> Counts {
        let mut counts = Counts::new();
        for sample in samples {
            let mut seen = BTreeSet::new();
            for (depth, frame) in self.trace.stack_frames(sample.stack).enumerate() {
                let Some(function) = self.own.own_frame(frame).filter(|_| self.is_named(frame)) else {
                    continue;
                };
                if !self.of_loop.contains(&function) && seen.insert(function) {
                    let sums = counts.entry(function).or_default();
                    *sums = (sums.0 + 1, sums.1 + depth);
                }
            }
        }
        counts
    }

    fn is_named(&self, frame: FrameId) -> bool {
        let frame = self.trace.frames.get(frame.index());
        frame.is_some_and(|frame| frame.kind != FrameKind::Kernel && !frame.function.is_empty())
    }

    /// The program's function nearest to the leaf that is in nearly all samples, except the loop's own
    /// functions. The inner `None` means that only functions of the interpreter are there. The outer `None`
    /// means that no function is in nearly all samples.
    fn common(&self, samples: &[SampleRow]) -> Option<Option<FrameId>> {
        if samples.len() < SAMPLES_MIN {
            return None;
        }
        let covers = |count: usize| count as f64 >= COVERS_MIN * samples.len() as f64;
        let covering: Counts =
            self.counts(samples).into_iter().filter(|(_, (count, _))| covers(*count)).collect();
        let depth = |counts: &(usize, usize)| counts.1 as f64 / counts.0.max(1) as f64;
        let of_program = covering.iter().filter(|(frame, _)| !self.own.is_of_a_machine(**frame));
        let nearest = of_program.min_by(|(_, a), (_, b)| depth(a).total_cmp(&depth(b)));
        (!covering.is_empty()).then(|| nearest.map(|(frame, _)| *frame))
    }

    /// The outermost function that is in most samples, but not in nearly all of them, with its share.
    fn mostly_in(&self, samples: &[SampleRow]) -> Option<(String, f64)> {
        let share = |count: usize| count as f64 / samples.len().max(1) as f64;
        let names_work = |frame: &FrameId| !self.trace.frame_name(*frame).starts_with(V8_BUILTINS);
        let parts = self.counts(samples).into_iter().filter(|(frame, (count, _))| {
            names_work(frame) && (MOSTLY_MIN..COVERS_MIN).contains(&share(*count))
        });
        let (frame, (count, _)) = parts.max_by_key(|(_, counts)| *counts)?;
        Some((self.trace.frames[frame.index()].function.clone(), share(count)))
    }
}
