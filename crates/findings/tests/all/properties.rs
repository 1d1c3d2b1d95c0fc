//! Properties of the facts on random programs whose truth is known.

use holdup_events::tables::ThreadState;
use holdup_events::{CpuId, Event, Loss, Timestamp, Trace};
use holdup_findings::derive::class::{CLASSES, Class};
use holdup_findings::derive::ledger::{self, Ledger};
use holdup_findings::derive::{cpus, locks, timelines};
use holdup_findings::{Confidence, analyse};
use holdup_testkit::random::Random;
use holdup_testkit::sim::{Simulation, Truth, simulate};
use holdup_testkit::{assemble, sim};

const SEEDS: u64 = 300;

fn traced(seed: u64) -> (Simulation, Trace) {
    let simulation = simulate(seed);
    let trace = assemble(simulation.events.clone(), simulation.manifest.clone());
    (simulation, trace)
}

/// Differences between a ledger and the truth. Without samples all running time is useful in both.
fn difference(trace: &Trace, ledger: &Ledger, truth: &Truth) -> Option<String> {
    let targets = trace.target_threads().count();
    if truth.classes.len() != targets || ledger.threads.len() != targets {
        return Some(format!(
            "{} threads, {targets} traced, {} true",
            ledger.threads.len(),
            truth.classes.len()
        ));
    }
    for thread in &ledger.threads {
        let tid = trace.threads[thread.thread.index()].tid;
        let no_time = [0; CLASSES];
        let true_classes = truth.classes.get(&tid).unwrap_or(&no_time);
        if thread.classes != *true_classes {
            return Some(format!("thread {tid}: {:?}, truly {true_classes:?}", thread.classes));
        }
        if thread.classes.iter().sum::<u64>() != thread.life.0 {
            return Some(format!("thread {tid} does not add up"));
        }
    }
    (ledger.classes.iter().sum::<u64>() != ledger.total_ns).then(|| "the sums do not add up".to_owned())
}

#[test]
fn the_ledger_equals_the_truth() {
    for seed in 0..SEEDS {
        let (simulation, trace) = traced(seed);
        let ledger = ledger::derive(&trace);
        assert_eq!(difference(&trace, &ledger, &simulation.truth), None, "seed {seed}");
        let split = ledger.run_queue;
        let parts = split.own_ns + split.others_ns + split.throttled_ns + split.idle_ns;
        assert_eq!(parts, ledger.class_ns(Class::RunQueue), "seed {seed}");
    }
}

/// The canary: a ledger that forgets that a preempted thread waits for a CPU.
#[test]
fn a_broken_ledger_is_caught() {
    let broken = |trace: &Trace| {
        let mut ledger = ledger::derive(trace);
        for thread in &mut ledger.threads {
            let slices = trace.slices.of_thread(thread.thread);
            let preempted = slices.filter(|slice| slice.state == ThreadState::Preempted);
            let ns: u64 = preempted.map(|slice| slice.duration().0).sum();
            thread.classes[Class::RunQueue as usize] -= ns;
            thread.classes[Class::Useful as usize] += ns;
        }
        ledger
    };
    let caught = (0..SEEDS).filter(|seed| {
        let (simulation, trace) = traced(*seed);
        difference(&trace, &broken(&trace), &simulation.truth).is_some()
    });
    assert!(caught.count() as u64 > SEEDS / 4);
}

#[test]
fn slices_tile_each_life() {
    for seed in 0..SEEDS {
        let (_, trace) = traced(seed);
        for thread in trace.target_threads() {
            let life = &trace.threads[thread.index()];
            let mut at = life.start;
            for slice in trace.slices.of_thread(thread) {
                assert_eq!(slice.start, at, "seed {seed}");
                at = slice.end;
            }
            assert_eq!(at, life.end, "seed {seed}");
        }
    }
}

#[test]
fn no_cpu_runs_two_threads_and_none_more_than_the_wall() {
    for seed in 0..SEEDS {
        let (simulation, trace) = traced(seed);
        let mut running = Vec::new();
        for thread in (0..trace.threads.len() as u32).map(holdup_events::ThreadId) {
            let slices = trace.slices.of_thread(thread).filter(|slice| slice.state == ThreadState::Running);
            running.extend(slices.map(|slice| (slice.cpu, slice.start, slice.end)));
        }
        running.sort();
        for pair in running.windows(2) {
            assert!(pair[0].0 != pair[1].0 || pair[0].2 <= pair[1].1, "seed {seed}: {pair:?}");
        }
        let uses = cpus::derive(&trace);
        let total: u64 = uses.iter().map(|cpu| cpu.target_ns + cpu.others_ns).sum();
        assert_eq!(total, simulation.truth.running_ns, "seed {seed}");
        for cpu in uses {
            assert_eq!(cpu.target_ns + cpu.others_ns + cpu.idle_ns, trace.wall().0, "seed {seed}");
        }
        assert!(total <= trace.wall().0 * u64::from(simulation.truth.cpus), "seed {seed}");
    }
}

#[test]
fn waits_for_locks_equal_the_truth() {
    for seed in 0..SEEDS {
        let (simulation, trace) = traced(seed);
        let derived = locks::derive(&trace).into_iter().filter(|lock| lock.wait_ns > 0);
        let derived =
            derived.map(|lock| (lock.object, lock.wait_ns)).collect::<std::collections::BTreeMap<_, _>>();
        let mut truth = simulation.truth.lock_wait_ns;
        truth.retain(|_, ns| *ns > 0);
        assert_eq!(derived, truth, "seed {seed}");
    }
}

#[test]
fn parallelism_covers_the_wall_and_the_running_time() {
    for seed in 0..SEEDS {
        let (_, trace) = traced(seed);
        let analysis = analyse(&trace);
        let parallelism = &analysis.derived.parallelism;
        let wall = trace.wall().0;
        assert_eq!(parallelism.running_ns.iter().sum::<u64>(), wall, "seed {seed}");
        assert_eq!(parallelism.wanting_ns.iter().sum::<u64>(), wall, "seed {seed}");
        let weighted =
            |times: &[u64]| times.iter().enumerate().map(|(count, ns)| count as u64 * ns).sum::<u64>();
        let ledger = &analysis.derived.ledger;
        assert_eq!(weighted(&parallelism.running_ns), ledger.running_ns(), "seed {seed}");
        let wanting = ledger.running_ns() + ledger.class_ns(Class::RunQueue);
        assert_eq!(weighted(&parallelism.wanting_ns), wanting, "seed {seed}");
        let steps = parallelism.over_time.iter().enumerate().map(|(step, mean)| {
            let left = wall - step as u64 * parallelism.step.0;
            f64::from(*mean) * left.min(parallelism.step.0) as f64
        });
        let off = (steps.sum::<f64>() - ledger.running_ns() as f64).abs();
        assert!(off <= 1e-5 * ledger.running_ns() as f64 + 1.0, "seed {seed}: {off}");
    }
}

#[test]
fn gains_are_shares_and_the_same_each_time() {
    for seed in 0..SEEDS {
        let (_, trace) = traced(seed);
        let analysis = analyse(&trace);
        for finding in &analysis.findings {
            let gain = finding.gain;
            assert!(0.0 <= gain.low && gain.low <= gain.high && gain.high <= 1.0, "seed {seed}: {finding:?}");
            assert!(finding.cost_ns > 0 && !finding.evidence.is_empty(), "seed {seed}: {finding:?}");
        }
        assert_eq!(analysis.findings, analyse(&trace).findings, "seed {seed}");
    }
}

#[test]
fn a_walk_over_timelines_agrees_with_their_sums() {
    for seed in 0..50 {
        let (_, trace) = traced(seed);
        let timelines = timelines::Timelines::derive(&trace);
        let Some(timeline) = timelines.of_cpu(CpuId(0)) else { continue };
        let (mut cursor, mut at) = (0, trace.start().0);
        while at < trace.end().0 {
            let (from, to) = (Timestamp(at), Timestamp(at + 7_001));
            let (own, others) = timeline.ran(from, to, &mut cursor);
            let cut = |stretch: &timelines::Stretch| stretch.end().min(to).since(stretch.start().max(from)).0;
            let walked: u64 = timeline.between(from, to).iter().map(cut).sum();
            assert_eq!(own + others, walked, "seed {seed}");
            at += 3_001;
        }
    }
}

/// Whatever is missing: no panic, and if the loss is known, nothing above a hint.
#[test]
fn with_events_dropped_there_are_only_hints() {
    for seed in 0..SEEDS {
        let simulation = sim::simulate(seed);
        let mut random = Random::new(seed ^ 0xdead);
        let mut events = simulation.events.clone();
        let before = events.len() as u64;
        events.retain(|event| matches!(event, holdup_events::Event::Snapshot(_)) || !random.once_in(5));
        let left = events.len() as u64;
        let mut trace = assemble(events, simulation.manifest.clone());
        trace.losses.push(Loss {
            source: "sched".into(),
            reason: "ring-full".into(),
            cpu: CpuId::NONE,
            start: trace.start(),
            end: trace.end(),
            events: before - left,
        });
        let analysis = analyse(&trace);
        assert!(analysis.findings.iter().all(|finding| finding.confidence == Confidence::Low), "seed {seed}");
        for thread in &analysis.derived.ledger.threads {
            assert_eq!(thread.classes.iter().sum::<u64>(), thread.life.0, "seed {seed}");
        }
    }
}

/// The remaining events, and the losses as a recorder would report them: single ones (`burst` 1), or `burst`
/// in a row.
fn drop_some(
    simulation: &Simulation,
    random: &mut Random,
    one_in: u64,
    burst: u64,
) -> (Vec<Event>, Vec<Loss>) {
    let (mut kept, mut losses) = (Vec::new(), Vec::<Loss>::new());
    let mut left = 0;
    for event in &simulation.events {
        let stays = matches!(event, Event::Snapshot(_) | Event::Stack(_));
        if left == 0 && !stays && random.once_in(one_in * burst) {
            left = burst;
            losses.push(Loss {
                source: "sched".into(),
                reason: "ring-full".into(),
                cpu: CpuId::NONE,
                start: event.at(),
                end: event.at(),
                events: 0,
            });
        }
        if left == 0 || stays {
            kept.push(event.clone());
            continue;
        }
        left -= 1;
        if let Some(loss) = losses.last_mut() {
            (loss.end, loss.events) = (event.at(), loss.events + 1);
        }
    }
    (kept, losses)
}

/// Up to half of the events is missing, evenly or in bursts. There must be no panic, and no finding above a
/// hint that the whole recording does not have.
#[test]
fn losses_make_no_findings() {
    for seed in 0..SEEDS / 20 {
        let simulation = sim::run(&sim::whole(seed));
        let whole = analyse(&assemble(simulation.events.clone(), simulation.manifest.clone()));
        for (one_in, burst) in [(50, 1), (10, 1), (2, 1), (50, 40), (10, 40), (2, 40)] {
            let mut random = Random::new(seed ^ one_in << 8 ^ burst);
            let (events, losses) = drop_some(&simulation, &mut random, one_in, burst);
            let mut trace = assemble(events, simulation.manifest.clone());
            trace.losses.extend(losses);
            let known = |rule: &str, subject: &str| {
                let findings =
                    whole.findings.iter().chain(whole.symptoms.iter().map(|symptom| &symptom.finding));
                findings.into_iter().any(|finding| finding.rule == rule && finding.subject == subject)
            };
            for finding in analyse(&trace).findings {
                assert!(
                    finding.confidence == Confidence::Low || known(finding.rule, &finding.subject),
                    "seed {seed}, one in {one_in}, {burst} in a row: {finding:?}"
                );
            }
        }
    }
}

/// The remaining events, with each loss reported at its end, as a recorder does.
fn with_losses(simulation: &Simulation, random: &mut Random, one_in: u64, burst: u64) -> Vec<Event> {
    let (kept, losses) = drop_some(simulation, random, one_in, burst);
    let mut losses = losses.into_iter().peekable();
    let mut events = Vec::new();
    for event in kept {
        while let Some(loss) = losses.next_if(|loss| loss.end <= event.at()) {
            events.push(Event::Loss(loss));
        }
        events.push(event);
    }
    events.extend(losses.map(Event::Loss));
    events
}

/// A ledger's time in each class. Running time is one sum, because without samples it is not divided.
fn totals(ledger: &Ledger) -> Vec<u64> {
    let running = ledger.running_ns();
    let others = Class::ALL.into_iter().filter(|class| !class.on_cpu() && *class != Class::Unknown);
    std::iter::once(running).chain(others.map(|class| ledger.class_ns(class))).collect()
}

/// A ledger with losses states bounds: for each class at least its time, and at most that plus all unknown
/// time.
#[test]
fn what_is_known_and_what_is_unknown_are_bounds_of_the_truth() {
    let seeds = std::env::var("HOLDUP_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(SEEDS / 15);
    let (mut inside, mut all, mut wide) = (0u32, 0u32, 0.0);
    for seed in 1000..1000 + seeds {
        let simulation = sim::run(&sim::whole(seed));
        let whole = ledger::derive(&assemble(simulation.events.clone(), simulation.manifest.clone()));
        for (one_in, burst) in [(50, 1), (10, 1), (2, 1), (50, 40), (10, 40), (2, 40)] {
            let mut random = Random::new(seed ^ one_in << 8 ^ burst);
            let events = with_losses(&simulation, &mut random, one_in, burst);
            let lossy = ledger::derive(&assemble(events, simulation.manifest.clone()));
            let unknown = lossy.class_ns(Class::Unknown);
            // Maximum deviation of thread time: one part in a thousand.
            let slack = whole.total_ns / 1000;
            for (known, truth) in totals(&lossy).into_iter().zip(totals(&whole)) {
                if truth > slack {
                    all += 1;
                    inside += u32::from(known <= truth + slack && truth <= known + unknown + slack);
                    wide += unknown as f64 / whole.total_ns as f64;
                }
            }
        }
    }
    println!(
        "{inside} of {all} bounds hold the truth; they are {:.3} wide on average",
        wide / f64::from(all)
    );
    assert!(inside * 100 >= all * 95, "{inside} of {all} bounds hold the truth");
}
