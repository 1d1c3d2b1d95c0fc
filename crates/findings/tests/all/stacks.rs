//! Weighed stacks: sums that hold whatever was recorded, and pictures whose truth one can count.

use std::collections::BTreeSet;

use holdup_events::tables::{
    Counter, DataAccess, Frame, FrameKind, SampleRow, SliceRow, Slices, StackEnd, StackRow, Stacks,
    ThreadState,
};
use holdup_events::{CpuId, FrameId, StackId, ThreadId, Timestamp, Trace};
use holdup_findings::derive::class::Class;
use holdup_findings::derive::ledger;
use holdup_findings::derive::stacks::{Completeness, Direction, Folding, Profile, Selection, Tree, observe};
use holdup_testkit::assemble;
use holdup_testkit::check::trace_of_lanes;
use holdup_testkit::random::Random;
use holdup_testkit::sim::simulate;

const SEEDS: u64 = 200;
const FUNCTIONS: u32 = 7;

/// Some stacks over few functions, recursion among them.
fn invent_stacks(trace: &mut Trace, random: &mut Random) -> u32 {
    let function = |number| Frame {
        kind: FrameKind::User,
        function: format!("f{}", number % FUNCTIONS),
        module: "/bin/sim".into(),
        // One function has many frames.
        offset: u64::from(number),
        ..Frame::default()
    };
    trace.frames = (0..2 * FUNCTIONS).map(function).collect();
    trace.stacks = Stacks::default();
    for row in 1..40u64 {
        let frame = FrameId(random.within(0, u64::from(2 * FUNCTIONS) - 1) as u32);
        let parent = StackId(random.within(0, row - 1) as u32);
        trace.stacks.append(StackRow { frame, parent, ..StackRow::default() });
    }
    40
}

/// A simulated program whose samples and blocked slices got random stacks, each slice's with its probability.
fn traced(seed: u64) -> Trace {
    let simulation = simulate(seed);
    let mut trace = assemble(simulation.events.clone(), simulation.manifest.clone());
    let mut random = Random::new(seed ^ 0x57ac);
    let stacks = invent_stacks(&mut trace, &mut random);
    let any = |random: &mut Random| StackId(random.within(1, u64::from(stacks) - 1) as u32);
    let mut rows = Vec::new();
    trace.samples.clear();
    for thread in (0..trace.threads.len() as u32).map(ThreadId) {
        for slice in trace.slices.of_thread(thread) {
            let mut row = SliceRow {
                thread,
                start: slice.start,
                state: slice.state,
                cpu: slice.cpu,
                wait: slice.wait,
                ..SliceRow::default()
            };
            if slice.state == ThreadState::Blocked {
                row.stack_every = [0, 1, 2, 8][random.within(0, 3) as usize];
                if row.stack_every > 0 && random.within(1, u64::from(row.stack_every)) == 1 {
                    row.stack = any(&mut random);
                }
            }
            let mut at = slice.start.0 + random.within(0, 50_000);
            while slice.state == ThreadState::Running && at < slice.end.0 {
                let in_kernel = random.once_in(4);
                let stack = any(&mut random);
                trace.samples.push(SampleRow {
                    at: Timestamp(at),
                    thread,
                    cpu: CpuId(0),
                    in_kernel,
                    syscall: -1,
                    stack,
                    data: DataAccess::default(),
                    counter: Counter::default(),
                });
                at += 50_000;
            }
            rows.push(row);
        }
    }
    let ends = trace.threads.iter().map(|thread| thread.end).collect();
    trace.slices = Slices::freeze(&[rows], ends);
    trace
}

#[test]
fn classes_are_the_ledgers() {
    for seed in 0..SEEDS {
        let trace = traced(seed);
        let observed = observe(&trace, &Selection::all());
        let ledger = ledger::derive(&trace);
        assert_eq!(observed.classes, ledger.classes, "seed {seed}");
        assert_eq!(observed.total_ns, ledger.total_ns, "seed {seed}");
    }
}

#[test]
fn own_times_sum_to_the_classes_and_cumulated_holds_them() {
    for seed in 0..SEEDS {
        let trace = traced(seed);
        let mut random = Random::new(seed);
        let mut selection = Selection::all();
        if random.once_in(2) {
            selection = selection.only(|_| !random.once_in(3));
        }
        if random.once_in(2) {
            let middle = trace.start().0 + trace.wall().0 / 3;
            (selection.from, selection.to) = (Timestamp(middle), Timestamp(middle + trace.wall().0 / 3));
        }
        if random.once_in(2) {
            selection.threads = Some(trace.target_threads().step_by(2).collect());
        }
        for folding in [Folding::none(), Folding::built_in()] {
            let profile = Profile::derive(&trace, &selection, &folding);
            let classes: u64 = profile.observed.classes.iter().sum();
            assert_eq!(profile.all.ns, classes, "seed {seed}");
            let rows = profile.flat();
            assert_eq!(rows.iter().map(|row| row.own.ns).sum::<u64>(), classes, "seed {seed}");
            for row in &rows {
                assert!(row.own.ns <= row.cumulated.ns && row.cumulated.ns <= classes, "seed {seed}");
            }
            let by_thread: u64 = profile.by_thread(None).iter().map(|(_, tally)| tally.ns).sum();
            if selection == Selection::all() {
                for (thread, tally) in profile.by_thread(None) {
                    let life = &trace.threads[thread.index()];
                    assert_eq!(tally.ns, life.end.since(life.start).0, "seed {seed}");
                }
            }
            let by_class: u64 = profile.by_class(None).iter().map(|(_, tally)| tally.ns).sum();
            assert_eq!((by_thread, by_class), (classes, classes), "seed {seed}");
        }
    }
}

#[test]
fn trees_and_neighbours_add_up_to_the_flat_profile() {
    for seed in 0..SEEDS {
        let trace = traced(seed);
        let profile = Profile::derive(&trace, &Selection::all(), &Folding::none());
        for direction in [Direction::Down, Direction::Up] {
            let tree = Tree::derive(&profile, direction, None);
            let roots: u64 = tree.roots.iter().map(|row| tree.nodes[*row].cumulated.ns).sum();
            assert_eq!(roots, profile.all.ns, "seed {seed}");
            for node in &tree.nodes {
                let below: u64 = node.children.iter().map(|row| tree.nodes[*row].cumulated.ns).sum();
                assert_eq!(node.own.ns + below, node.cumulated.ns, "seed {seed}");
            }
        }
        for row in profile.flat() {
            let of = BTreeSet::from([row.place]);
            let around = profile.neighbours(&of);
            for list in [&around.callers, &around.callees] {
                let sum: u64 = list.iter().map(|(_, tally)| tally.ns).sum();
                assert_eq!(sum, row.cumulated.ns, "seed {seed}");
            }
            let tree = Tree::derive(&profile, Direction::Up, Some(&of));
            assert_eq!(tree.nodes[tree.roots[0]].cumulated.ns, row.cumulated.ns, "seed {seed}");
        }
    }
}

#[test]
fn functions_are_grouped_by_name_not_by_address() {
    let (_, mut trace) = trace_of_lanes("@samples A 0..4 user main;work\nA  00000000\n");
    let leaf = trace.samples[0].stack;
    let of_leaf = trace.stacks.rows()[leaf.index()].frame;
    let other = Frame { offset: 0x99, ..trace.frames[of_leaf.index()].clone() };
    trace.frames.push(other);
    let frame = FrameId(trace.frames.len() as u32 - 1);
    let parent = trace.stacks.rows()[leaf.index()].parent;
    trace.samples[0].stack = trace.stacks.append(StackRow { frame, parent, ..StackRow::default() });
    let profile = Profile::derive(&trace, &Selection::all(), &Folding::none());
    assert_eq!(profile.flat().iter().filter(|row| row.own.ns > 0).count(), 1);
}

#[test]
fn a_recursive_function_counts_once() {
    let (_, trace) = trace_of_lanes("@samples A 0..8 user main;f;g;f;f\nA  00000000\n");
    let profile = Profile::derive(&trace, &Selection::all(), &Folding::none());
    let row = profile.flat()[0];
    assert_eq!(profile.place(row.place).name, "f");
    assert_eq!((row.own.ns, row.cumulated.ns), (8_000_000, 8_000_000));
    let around = profile.neighbours(&profile.find("f"));
    assert_eq!(around.callers.len(), 1);
    assert_eq!(profile.place(around.callers[0].0.unwrap()).name, "main");
    assert_eq!(profile.place(around.callees[0].0.unwrap()).name, "g");
}

#[test]
fn time_is_that_of_the_ledger_not_of_the_sampling_rate() {
    // 4 samples of 8 ticks of running: half of them in the kernel.
    let (_, trace) =
        trace_of_lanes("@samples A 0..2 user main;work\n@samples A 4..6 0 main;read\nA  00000000\n");
    let profile = Profile::derive(&trace, &Selection::all(), &Folding::none());
    assert_eq!(profile.all.ns, 8_000_000);
    let by_class = profile.by_class(None);
    let sum = |class| by_class.iter().find(|(one, _)| *one == class).map_or(0, |(_, tally)| tally.ns);
    assert_eq!((sum(Class::Useful), sum(Class::Kernel)), (4_000_000, 4_000_000));
    let first_half = Selection { to: Timestamp(trace.start().0 + 4_000_000), ..Selection::all() };
    let profile = Profile::derive(&trace, &first_half, &Folding::none());
    let names: Vec<&str> = profile.flat().iter().map(|row| profile.place(row.place).name.as_str()).collect();
    assert_eq!((profile.all.ns, names), (4_000_000, vec!["work", "main"]));
}

#[test]
fn threads_too_short_to_be_seen_are_lent_the_stacks_of_their_like() {
    let (_, mut trace) = trace_of_lanes(
        "@samples A 0..3 user main;work\n@samples A 3..4 user main;rest\nA  0000....\nB  1111....\nC  22222222\n",
    );
    for thread in &mut trace.threads {
        thread.name = if thread.name == "C" { "other".into() } else { "worker".into() };
    }
    let profile = Profile::derive(&trace, &Selection::all(), &Folding::none());
    let flat = profile.flat();
    let own = |name: &str| {
        flat.iter()
            .find(|row| profile.place(row.place).name == name)
            .map_or((0, 0), |row| (row.own.ns, row.own.samples))
    };
    assert_eq!((own("work"), own("rest")), ((6_000_000, 3), (2_000_000, 1)));
    assert_eq!(own("(no stack: useful)"), (8_000_000, 0));
    let by_thread: Vec<u64> = profile.by_thread(None).iter().map(|(_, tally)| tally.ns).collect();
    assert_eq!(by_thread, [8_000_000, 4_000_000, 4_000_000]);
}

/// Slices whose lengths differ by a factor of a hundred, half of each with the stack `f`. Over many random
/// samples the estimate of `f`'s time is unbiased, and its scatter agrees with its stated error.
#[test]
fn sampled_stacks_are_unbiased_and_know_their_error() {
    let count = 400u64;
    let (mut sum, mut within) = (0.0, 0);
    let mut truth = 0.0;
    const DRAWS: u64 = 200;
    for seed in 0..DRAWS {
        let (_, mut trace) = trace_of_lanes("@samples A 0..1 user f\n@samples A 0..1 user g\nA  00000000\n");
        let stacks = [trace.samples[0].stack, trace.samples[1].stack];
        let mut random = Random::new(seed);
        let mut at = trace.start();
        let mut rows = Vec::new();
        truth = 0.0;
        for number in 0..count {
            let length = if number % 20 == 0 { 1_000_000 } else { 10_000 + number };
            let is_f = number * 7 % 10 < 5;
            truth += if is_f { length as f64 } else { 0.0 };
            let taken = random.within(1, 4) == 1;
            rows.push(SliceRow {
                thread: ThreadId(0),
                start: at,
                state: ThreadState::Blocked,
                stack: if taken { stacks[usize::from(!is_f)] } else { StackId::NONE },
                stack_every: 4,
                ..SliceRow::default()
            });
            at = Timestamp(at.0 + length);
        }
        trace.threads[0].end = at;
        trace.samples.clear();
        trace.slices = Slices::freeze(&[rows], vec![at]);
        let profile = Profile::derive(&trace, &Selection::all(), &Folding::none());
        assert!(profile.observed.slices_sampled);
        let f = profile.flat().into_iter().find(|row| profile.place(row.place).name == "f").unwrap();
        let off = f.own.ns as f64 - truth;
        sum += f.own.ns as f64;
        within += u64::from(off.abs() <= f.own.error_ns(&profile.all) as f64);
    }
    let mean = sum / DRAWS as f64;
    assert!((mean / truth - 1.0).abs() < 0.02, "{mean} of {truth}");
    assert!(within >= DRAWS * 19 / 20, "{within} of {DRAWS}");
}

#[test]
fn by_symbol_inlined_calls_belong_to_the_enclosing_function() {
    for seed in 0..20 {
        let mut trace = traced(seed);
        let inlined = |name: &str| name == "f2" || name == "f5";
        trace.frames.iter_mut().for_each(|frame| frame.inlined = inlined(&frame.function));
        let all = Selection::all();
        let profile = Profile::derive(&trace, &all, &Folding::none().without_inlined());
        assert!(profile.flat().iter().all(|row| !inlined(&profile.place(row.place).name)), "seed {seed}");
        assert_eq!(profile.all.ns, Profile::derive(&trace, &all, &Folding::none()).all.ns, "seed {seed}");
    }
}

#[test]
fn the_manual_lists_the_built_in_rules() {
    let manual = include_str!("../../../../docs/stacks.md");
    for (rule, why) in Folding::table() {
        assert!(manual.contains(&format!("| `{rule}` | {why} |")), "docs/stacks.md lacks: {rule}");
    }
}

#[test]
fn stacks_are_counted_by_the_end_of_their_outermost_frame() {
    let mut trace = traced(3);
    let rows = trace
        .stacks
        .rows()
        .iter()
        .enumerate()
        .map(|(row, stack)| StackRow { end: StackEnd::ALL[row % StackEnd::ALL.len()], ..*stack });
    trace.stacks = Stacks::from_rows(rows.collect());
    let counted = Completeness::derive(&trace);
    let of_target = |thread: ThreadId| trace.threads[thread.index()].target;
    let samples: Vec<_> = trace.samples.iter().filter(|sample| of_target(sample.thread)).collect();
    for (end, count) in counted.on_cpu.all() {
        let same = samples.iter().filter(|sample| trace.stacks.end(sample.stack) == end).count();
        assert_eq!(count, same as u64, "{}", end.name());
    }
    let told = |sample: &&&SampleRow| trace.stacks.end(sample.stack) != StackEnd::Unknown;
    assert_eq!(counted.on_cpu.stacks(), samples.iter().filter(told).count() as u64);
    let both = counted.on_cpu.merged(&counted.blocked);
    assert_eq!(both.stacks(), counted.on_cpu.stacks() + counted.blocked.stacks());
    assert_eq!(both.stacks(), both.complete() + both.cut_short().iter().map(|(_, count)| count).sum::<u64>());
    assert!(counted.blocked.stacks() > 0);
}
