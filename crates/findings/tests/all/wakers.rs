//! Waker chains: sums that hold for every random sample, and pictures with a countable truth.

use std::collections::BTreeMap;

use holdup_events::event::WakeContext;
use holdup_events::tables::{SliceRow, Slices, ThreadState, Wakeup, Wakeups};
use holdup_events::{StackId, ThreadId, Timestamp, Trace};
use holdup_findings::derive::class::Class;
use holdup_findings::derive::stacks::{Folding, Profile, Selection, wakers};
use holdup_testkit::assemble;
use holdup_testkit::check::trace_of_lanes;
use holdup_testkit::random::Random;
use holdup_testkit::sim::simulate;

const SEEDS: u64 = 100;

/// A thread's state from some moment on: blocked with a stack, or running.
type Stretch = (u64, Option<StackId>);

/// A trace of threads A (which waits for a lock), B, C, D with stacks of one function each, by name.
fn threads_with_stacks() -> (Trace, BTreeMap<String, StackId>) {
    let (_, mut trace) = trace_of_lanes(
        "@samples A 0..1 user wait\n@samples A 0..1 user f\n@samples A 0..1 user g\n@samples A 0..1 user h\n\
         A  0000mmmm\nB  11111111  holds m 4..8\nC  22222222\nD  33333333\n",
    );
    let name = |stack| trace.stack_frames(stack).map(|frame| trace.frame_name(frame)).collect::<String>();
    let stacks = trace.samples.iter().map(|sample| (name(sample.stack), sample.stack)).collect();
    trace.samples.clear();
    (trace, stacks)
}

fn lay_out(trace: &mut Trace, threads: &[Vec<Stretch>], every: u16, length_ns: u64) {
    let start = trace.start().0;
    let wait =
        trace.slices.of_thread(ThreadId(0)).find(|slice| slice.state == ThreadState::Blocked).unwrap().wait;
    let rows = threads.iter().enumerate().flat_map(|(thread, stretches)| {
        stretches.iter().map(move |(at, stack)| SliceRow {
            thread: ThreadId(thread as u32),
            start: Timestamp(start + at),
            state: if stack.is_some() { ThreadState::Blocked } else { ThreadState::Running },
            wait: if stack.is_some() { wait } else { Default::default() },
            stack: stack.unwrap_or_default(),
            stack_every: every,
            ..SliceRow::default()
        })
    });
    let end = Timestamp(start + length_ns);
    let ends = vec![end; threads.len()];
    trace.threads.iter_mut().for_each(|thread| thread.end = end);
    trace.slices = Slices::freeze(&[rows.collect()], ends);
}

fn wakeup(trace: &Trace, at: u64, (waker, wakee): (u32, u32), stack: StackId, every: u16) -> Wakeup {
    Wakeup {
        at: Timestamp(trace.start().0 + at),
        wakee: ThreadId(wakee),
        waker: ThreadId(waker),
        stack,
        stack_every: every,
        ..Wakeup::default()
    }
}

/// Each path as names, with its time.
fn paths(profile: &Profile) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for used in &profile.stacks {
        let names: Vec<&str> =
            profile.paths[used.path].iter().map(|id| profile.place(*id).name.as_str()).collect();
        *sums.entry(names.join(" ")).or_default() += used.tally.ns;
    }
    sums
}

fn derive(trace: &Trace) -> Profile {
    wakers::derive(trace, &Selection::all(), &Folding::none())
}

#[test]
fn a_chain_follows_wakers_that_waited_during_the_wait() {
    let (mut trace, stacks) = threads_with_stacks();
    let wait = Some(stacks["wait"]);
    // A waits 100..900. B, which wakes it, itself waited 200..800 for C. C's wait for D had ended before.
    let threads = [
        vec![(0, None), (100, wait), (900, None)],
        vec![(0, None), (200, wait), (800, None)],
        vec![(0, None), (20, wait), (50, None)],
        vec![(0, None)],
    ];
    lay_out(&mut trace, &threads, 1, 1_000);
    let rows = vec![
        wakeup(&trace, 900, (1, 0), stacks["f"], 1),
        wakeup(&trace, 800, (2, 1), stacks["g"], 1),
        wakeup(&trace, 50, (3, 2), stacks["h"], 1),
    ];
    trace.wakeups = Wakeups::freeze(rows, 4);
    let profile = derive(&trace);
    let wanted = [
        ("wait (woken by B) f (woken by C) g", 800),
        ("wait (woken by C) g", 600),
        ("wait (woken by D) h", 30),
    ];
    assert_eq!(paths(&profile), wanted.map(|(path, ns)| (path.to_owned(), ns)).into());
    assert!(profile.all.is_exact());
    let observed = &profile.observed;
    assert_eq!((observed.wakers, observed.wakers_with_stack, observed.wakers_sampled), (3, 3, false));
}

#[test]
fn what_is_no_thread_of_the_program_has_a_name_and_no_stack() {
    let (mut trace, stacks) = threads_with_stacks();
    let wait = Some(stacks["wait"]);
    let sleeps =
        vec![(0, wait), (100, None), (200, wait), (300, None), (400, wait), (500, None), (600, wait)];
    lay_out(&mut trace, &[sleeps, vec![(0, None)], vec![], vec![(0, None)]], 1, 1_000);
    let none = StackId::NONE;
    let mut rows = vec![
        wakeup(&trace, 100, (1, 0), none, 0),
        wakeup(&trace, 300, (3, 0), none, 0),
        wakeup(&trace, 500, (3, 0), none, 1),
    ];
    rows[0].context = WakeContext::Timer;
    trace.wakeups = Wakeups::freeze(rows, 4);
    trace.threads[0].alive_at_end = true;
    trace.threads[3].target = false;
    let wanted = [
        ("wait (still waiting at the end)", 400),
        ("wait (woken by D, another program)", 100),
        ("wait (woken by D, another program) (no stack of the waker)", 100),
        ("wait (woken by a timer)", 100),
    ];
    assert_eq!(paths(&derive(&trace)), wanted.map(|(path, ns)| (path.to_owned(), ns)).into());
}

/// A simulated program, with random stacks for waits and wakers, each with its probability.
fn traced(seed: u64) -> Trace {
    let simulation = simulate(seed);
    let mut trace = assemble(simulation.events, simulation.manifest);
    let (other, stacks) = threads_with_stacks();
    (trace.frames, trace.stacks) = (other.frames, other.stacks);
    trace.samples.clear();
    let stacks: Vec<StackId> = stacks.into_values().collect();
    let mut random = Random::new(seed ^ 0x3a4e);
    let draw = |random: &mut Random| {
        let every = [0, 1, 2, 8][random.within(0, 3) as usize];
        let taken = every > 0 && random.within(1, u64::from(every)) == 1;
        let stack = stacks[random.within(0, stacks.len() as u64 - 1) as usize];
        (every, if taken { stack } else { StackId::NONE })
    };
    let mut rows = Vec::new();
    for thread in (0..trace.threads.len() as u32).map(ThreadId) {
        for slice in trace.slices.of_thread(thread) {
            let blocked = slice.state == ThreadState::Blocked;
            let (stack_every, stack) = if blocked { draw(&mut random) } else { (0, StackId::NONE) };
            let (start, state, cpu, wait) = (slice.start, slice.state, slice.cpu, slice.wait);
            rows.push(SliceRow { thread, start, state, cpu, wait, stack, stack_every });
        }
    }
    trace.slices = Slices::freeze(&[rows], trace.threads.iter().map(|thread| thread.end).collect());
    let mut rows: Vec<Wakeup> = trace.wakeups.iter().copied().collect();
    for row in rows.iter_mut().filter(|row| row.context == WakeContext::Thread) {
        (row.stack_every, row.stack) = draw(&mut random);
    }
    trace.wakeups = Wakeups::freeze(rows, trace.threads.len());
    trace
}

#[test]
fn chains_divide_what_the_profile_of_waits_has() {
    let mut chained = 0;
    for seed in 0..SEEDS {
        let trace = traced(seed);
        let mut selection = Selection::all();
        if seed % 2 == 0 {
            let middle = trace.start().0 + trace.wall().0 / 3;
            (selection.from, selection.to) = (Timestamp(middle), Timestamp(middle + trace.wall().0 / 3));
        }
        let chains = wakers::derive(&trace, &selection, &Folding::none());
        let waits = Profile::derive(&trace, &selection.only(Class::is_wait), &Folding::none());
        assert_eq!(chains.all.ns, waits.all.ns, "seed {seed}");
        let sums = |profile: &Profile| {
            let mut by_thread: BTreeMap<_, u64> = BTreeMap::new();
            for used in &profile.stacks {
                *by_thread.entry((used.thread, used.class, used.reason)).or_default() += used.tally.ns;
            }
            by_thread
        };
        assert_eq!(sums(&chains), sums(&waits), "seed {seed}");
        chained += chains.observed.wakers_with_stack;
    }
    assert!(chained > SEEDS, "hardly any chain: {chained}");
}

/// Waits that two functions of one thread end, with sampled stacks of both sides. Over many random samples
/// the estimate of one function's time is unbiased, and its scatter agrees with its stated error.
#[test]
fn sampled_wakers_are_unbiased_and_know_their_error() {
    const DRAWS: u64 = 200;
    let (mut sum, mut within, mut truth) = (0.0, 0, 0.0);
    for seed in 0..DRAWS {
        let (mut trace, stacks) = threads_with_stacks();
        let mut random = Random::new(seed);
        let (mut waits, mut rows, mut at) = (Vec::new(), Vec::new(), 0);
        truth = 0.0;
        for number in 0..800u64 {
            let length = if number % 20 == 0 { 300_000 } else { 100_000 + number };
            let is_f = number * 7 % 10 < 3;
            truth += if is_f { length as f64 } else { 0.0 };
            let drawn = |random: &mut Random, stack| match random.within(1, 3) {
                1 => stack,
                _ => StackId::NONE,
            };
            waits.push((at, Some(drawn(&mut random, stacks["wait"]))));
            at += length;
            let waker = drawn(&mut random, stacks[if is_f { "f" } else { "g" }]);
            rows.push(wakeup(&trace, at, (1, 0), waker, 3));
            waits.push((at, None));
            at += 1_000;
        }
        lay_out(&mut trace, &[waits, vec![(0, None)], vec![], vec![]], 3, at);
        trace.wakeups = Wakeups::freeze(rows, 4);
        let profile = derive(&trace);
        assert!(profile.observed.wakers_sampled);
        let f = profile.flat().into_iter().find(|row| profile.place(row.place).name == "f").unwrap();
        let off = f.own.ns as f64 - truth;
        sum += f.own.ns as f64;
        within += u64::from(off.abs() <= f.own.error_ns(&profile.all) as f64);
    }
    let mean = sum / DRAWS as f64;
    assert!((mean / truth - 1.0).abs() < 0.03, "{mean} of {truth}");
    assert!(within >= DRAWS * 19 / 20, "{within} of {DRAWS}");
}
