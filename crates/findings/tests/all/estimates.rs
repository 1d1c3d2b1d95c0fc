//! Off-CPU time by stack from a random sample of stacks: its deviation from the truth agrees with its stated
//! error.
//!
//! The truth is the same recording with every stack. So the sampling of stacks is the only difference.

use holdup_events::tables::{Frame, FrameKind, SliceRow, Slices, StackRow, Stacks, ThreadState};
use holdup_events::{FrameId, StackId, ThreadId, Timestamp, Trace};
use holdup_findings::derive::stacks::{Folding, Profile, Selection};
use holdup_testkit::check::trace_of_lanes;
use holdup_testkit::random::Random;

const FUNCTIONS: u32 = 16;
const SLICES: u64 = 3_000;

/// A slice that blocks: in which function, how long (ns).
struct Wait {
    function: u32,
    ns: u64,
}

/// Functions of known shares: the first wait often, some for much longer than others, each from half to three times
/// its usual time.
fn waits(random: &mut Random) -> Vec<Wait> {
    let wait = |random: &mut Random| {
        let function =
            random.within(0, u64::from(FUNCTIONS)).min(random.within(0, u64::from(FUNCTIONS))) as u32;
        let usual = 20_000 << (function * 5 % 7);
        Wait { function, ns: random.within(usual / 2, usual * 3) }
    };
    (0..SLICES).map(|_| wait(random)).collect()
}

/// A recording of two threads with these waits. `draw` returns whether a stack was recorded, and the sampling
/// interval.
fn recorded(waits: &[Vec<Wait>; 2], draw: &mut dyn FnMut() -> (bool, u16)) -> Trace {
    let (_, mut trace) = trace_of_lanes("A 0mm0\nB 1mm1\n");
    let function = |number| Frame {
        kind: FrameKind::User,
        function: format!("wait_{number}"),
        module: "/bin/waits".into(),
        ..Frame::default()
    };
    trace.frames = (0..FUNCTIONS).map(function).collect();
    trace.stacks = Stacks::default();
    for frame in (0..FUNCTIONS).map(FrameId) {
        trace.stacks.append(StackRow { frame, ..StackRow::default() });
    }
    trace.samples.clear();
    trace.wakeups = Default::default();
    let mut rows = Vec::new();
    for (thread, waits) in waits.iter().enumerate() {
        let id = ThreadId(thread as u32);
        let mut at = trace.threads[thread].start;
        for wait in waits {
            let (taken, every) = draw();
            let stack = if taken { StackId(wait.function + 1) } else { StackId::NONE };
            let blocked =
                SliceRow { thread: id, start: at, state: ThreadState::Blocked, ..SliceRow::default() };
            rows.push(SliceRow { stack, stack_every: every, ..blocked });
            at = Timestamp(at.0 + wait.ns);
            rows.push(SliceRow { thread: id, start: at, state: ThreadState::Running, ..SliceRow::default() });
            at = Timestamp(at.0 + 1_000);
        }
        trace.threads[thread].end = at;
    }
    let ends = trace.threads.iter().map(|thread| thread.end).collect();
    trace.slices = Slices::freeze(&[rows], ends);
    trace
}

/// Time and its error by function.
fn profile(trace: &Trace) -> (Vec<(u64, u64)>, u64) {
    let profile = Profile::derive(trace, &Selection::all(), &Folding::none());
    let mut rows = vec![(0, 0); FUNCTIONS as usize];
    for row in profile.flat() {
        let name = &profile.place(row.place).name;
        if let Some(number) = name.strip_prefix("wait_") {
            rows[number.parse::<usize>().unwrap()] = (row.own.ns, row.own.error_ns(&profile.all));
        }
    }
    (rows, profile.all.ns)
}

#[test]
fn are_within_their_stated_error_nineteen_times_of_twenty() {
    let (mut inside, mut all, mut seen, mut sigmas) = (0u32, 0u32, 0u32, 0.0);
    for seed in 0..80 {
        let mut random = Random::new(seed);
        let waits = [waits(&mut random), waits(&mut random)];
        let (truth, total) = profile(&recorded(&waits, &mut || (true, 1)));
        let every = [4, 16, 32][seed as usize % 3];
        let (estimate, _) = profile(&recorded(&waits, &mut || (random.once_in(u64::from(every)), every)));
        for ((truth, exact), (estimate, error)) in truth.into_iter().zip(estimate) {
            assert_eq!(exact, 0, "every stack was taken");
            if truth * 100 < total {
                continue;
            }
            all += 1;
            if error == 0 {
                assert_eq!(estimate, 0, "seed {seed}: an estimate without an error");
                continue; // none of its stacks was sampled, which counts against the estimates
            }
            let sigma = truth.abs_diff(estimate) as f64 / error as f64;
            (inside, seen, sigmas) = (inside + u32::from(sigma <= 1.0), seen + 1, sigmas + sigma * sigma);
        }
    }
    let spread = (sigmas / f64::from(seen)).sqrt();
    println!("{inside} of {all} shares are within their error; root mean square {spread:.2} errors");
    assert!(inside * 100 >= all * 95, "{inside} of {all} within their error");
    assert!(spread > 0.25, "the errors are so wide that they say nothing: {spread:.2}");
}
