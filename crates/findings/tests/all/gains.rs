//! The gain of a finding against the simulator. A remedy that divides the work evenly reaches the CPUs' capacity,
//! and the interval contains that gain.

use holdup_findings::analyse;
use holdup_findings::finding::Gain;
use holdup_testkit::assemble;
use holdup_testkit::random::Random;
use holdup_testkit::sim::{Op, Plan, Program, run};

/// The simulated recording costs nothing, so that the intervals get no margin for two runs of one program.
const EXACT: f64 = 0.005;
const MS: u64 = 1_000_000;

fn plan(ops: Vec<Op>, laps: u32) -> Plan {
    Plan { target: true, unborn: false, ops, laps: Some(laps) }
}

fn program(cpus: u32, threads: Vec<Plan>) -> Program {
    Program {
        cpus,
        quantum_ns: 3 * MS,
        length_ns: None,
        barriers: vec![threads.len() as u32],
        threads,
        locks: 1,
        barging: false,
        channels: Vec::new(),
        pipes: 0,
        pools: Vec::new(),
    }
}

/// Threads that do most of each piece of work under one lock, and the same without the lock.
fn under_one_lock(random: &mut Random) -> (Program, Program) {
    let threads = random.within(2, 9);
    let (under, beside) = (random.within(200_000, 2 * MS), random.within(50_000, 300_000));
    let lap = || vec![Op::Compute(beside), Op::Lock(0), Op::Compute(under), Op::Unlock(0)];
    let slow = program(random.within(2, 9) as u32, (0..threads).map(|_| plan(lap(), 60)).collect());
    let fixed = slow.clone().without_lock(0);
    (slow, fixed)
}

/// A producer, one slow stage and a consumer with bounded queues between them, and the same with two threads at
/// the slow stage. The items of the two threads are the even and the odd ones.
fn one_slow_stage(random: &mut Random) -> (Program, Program) {
    let [first, last] = [(); 2].map(|()| random.within(200_000, MS));
    let slow_ns = random.within(2 * MS, 4 * MS);
    let items = 60;
    let program = |stages: usize| {
        // Per slow thread: its items, and room for them. Then its results, and room for these.
        let (into, out) =
            (|at: usize| (2 * at, 2 * at + 1), |at: usize| (2 * stages + 2 * at, 2 * stages + 2 * at + 1));
        let mut feed = Vec::new();
        let mut drain = Vec::new();
        for at in 0..stages {
            feed.extend([Op::Compute(first), Op::Pop(into(at).1), Op::Push(into(at).0)]);
            drain.extend([Op::Pop(out(at).0), Op::Push(out(at).1), Op::Compute(last)]);
        }
        let laps = items / stages as u32;
        let slow = |at: usize| {
            let (into, out) = (into(at), out(at));
            vec![Op::Pop(into.0), Op::Push(into.1), Op::Compute(slow_ns), Op::Pop(out.1), Op::Push(out.0)]
        };
        let mut threads = vec![plan(feed, laps), plan(drain, laps)];
        threads.extend((0..stages).map(|at| plan(slow(at), laps)));
        Program { channels: [0, 4].repeat(2 * stages), ..program(2, threads) }
    };
    (program(1), program(2))
}

/// Threads with uneven shares of each step, and the same with even shares.
fn uneven_shares(random: &mut Random) -> (Program, Program) {
    let threads = random.within(2, 9);
    let shares: Vec<u64> = (0..threads).map(|_| random.within(MS, 12 * MS)).collect();
    let even = shares.iter().sum::<u64>() / threads;
    let step = |share: u64| vec![Op::Compute(share), Op::Meet(0)];
    let slow =
        program(random.within(2, 9) as u32, shares.iter().map(|share| plan(step(*share), 30)).collect());
    let fixed = Program { threads: (0..threads).map(|_| plan(step(even), 30)).collect(), ..slow.clone() };
    (slow, fixed)
}

/// The interval of the rule's finding, and the gain in the simulator.
fn gains(rule: &str, (slow, fixed): (Program, Program)) -> Option<(Gain, f64)> {
    let slow = run(&slow);
    let trace = assemble(slow.events.clone(), slow.manifest.clone());
    let analysis = analyse(&trace);
    let finding = analysis.findings.iter().find(|finding| finding.rule == rule)?;
    Some((finding.gain, 1.0 - run(&fixed).wall_ns() as f64 / slow.wall_ns() as f64))
}

fn covered(rule: &str, programs: fn(&mut Random) -> (Program, Program)) -> (u32, u32, u32) {
    let (mut all, mut inside, mut above) = (0, 0, 0);
    for seed in 0..60 {
        let Some((gain, truth)) = gains(rule, programs(&mut Random::new(seed))) else { continue };
        println!("{rule} {seed}: {:.3}..{:.3}, {truth:.3}", gain.low, gain.high);
        all += 1;
        inside += u32::from((gain.low - EXACT..=gain.high + EXACT).contains(&truth));
        above += u32::from(truth > gain.high + EXACT);
    }
    println!("{rule}: {inside} of {all} inside, {above} above");
    (all, inside, above)
}

#[test]
fn without_a_lock_threads_gain_what_the_cpus_allow() {
    let (all, inside, _) = covered("lock-contention", under_one_lock);
    assert!(all >= 40 && inside * 20 >= all * 19, "{inside} of {all}");
}

#[test]
fn even_shares_gain_what_the_cpus_allow() {
    let (all, inside, _) = covered("load-imbalance", uneven_shares);
    assert!(all >= 40 && inside * 20 >= all * 19, "{inside} of {all}");
}

#[test]
fn a_second_thread_at_the_slow_stage_gains_what_the_cpus_allow() {
    let rules = ["serial-section", "lone-worker"];
    let (mut all, mut inside) = (0, 0);
    for rule in rules {
        let (of_rule, within, _) = covered(rule, one_slow_stage);
        (all, inside) = (all + of_rule, inside + within);
    }
    assert!(all >= 40 && inside * 20 >= all * 19, "{inside} of {all}");
}
