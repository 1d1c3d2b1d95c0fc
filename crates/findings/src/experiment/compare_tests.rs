//! Rates of wrong and missed differences.

use super::compare::*;
use super::random::Random;

const QUESTION: Question =
    Question { seed: 0, matters: 0.03, risk: 0.05, more_is_better: false, resamples: 500, trimmed: 0.2 };

/// Log-normal scatter of a few percent. One run in ten is disturbed, and takes up to twice as long.
fn noisy(random: &mut Random, scatter: f64, disturbed: bool) -> f64 {
    let normal = (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
    let disturbance = if disturbed && random.below(10) == 0 { random.unit() } else { 0.0 };
    (normal * scatter).exp() * (1.0 + disturbance)
}

fn pairs(seed: u64, count: usize, slower: f64, disturbed: bool) -> Vec<(f64, f64)> {
    let mut random = Random::part(seed, 77);
    let mut one = || noisy(&mut random, 0.03, disturbed);
    (0..count).map(|_| (one(), one() * (1.0 + slower))).collect()
}

fn called_different(
    count: usize,
    slower: f64,
    disturbed: bool,
    compare: impl Fn(&[(f64, f64)]) -> Change,
) -> usize {
    let different = |seed: &u64| {
        let change = compare(&pairs(*seed, count, slower, disturbed));
        matches!(change.verdict, Verdict::Faster | Verdict::Slower)
    };
    (0..200).filter(different).count()
}

fn groups(pairs: &[(f64, f64)]) -> Change {
    let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    unpaired(&a, &b, &QUESTION)
}

#[test]
fn the_same_is_called_different_in_one_case_of_twenty_at_most() {
    for count in [3, 5, 8, 12] {
        for disturbed in [false, true] {
            let of_pairs = called_different(count, 0.0, disturbed, |pairs| paired(pairs, &QUESTION));
            let of_groups = called_different(count, 0.0, disturbed, groups);
            // 10 of 200 are expected. 18 is two and a half standard deviations more.
            assert!(of_pairs <= 18 && of_groups <= 18, "{count} {disturbed}: {of_pairs}, {of_groups} of 200");
        }
    }
}

#[test]
fn five_percent_are_found_within_the_runs_that_are_proposed() {
    let question = Question { matters: 0.05, ..QUESTION };
    for disturbed in [false, true] {
        let found = |seed: &u64| {
            let pilot = paired(&pairs(*seed, 10, 0.05, disturbed), &question);
            let wanted = pilot.runs_wanted.unwrap_or(RUNS_MAX).clamp(10, RUNS_MAX) as usize;
            paired(&pairs(*seed, wanted, 0.05, disturbed), &question).verdict == Verdict::Slower
        };
        let found = (0..200).filter(found).count();
        assert!(found >= 160, "{disturbed}: {found} of 200");
    }
}

/// Like the runner: the pilot, then as many runs as the scatter of all runs requires, until no more are
/// required. The machine alternates between `quiet` quiet rounds and as many busy ones.
fn until_enough(seed: u64, slower: f64, quiet: usize) -> Verdict {
    let mut random = Random::part(seed, 78);
    let question = Question { matters: 0.05, ..QUESTION };
    let (mut pairs, mut goal) = (Vec::new(), 10);
    let from = random.below(2 * quiet);
    while pairs.len() < goal {
        while pairs.len() < goal {
            let scatter = [0.015, 0.06][(from + pairs.len()) / quiet % 2];
            let mut one = || noisy(&mut random, scatter, false);
            pairs.push((one(), one() * (1.0 + slower)));
        }
        goal = paired(&pairs, &question).runs_to_make().map_or(goal, |wanted| wanted as usize);
    }
    paired(&pairs, &question).verdict
}

#[test]
fn a_machine_that_is_busy_at_times_costs_neither_power_nor_truth() {
    let called = |slower: f64| {
        let is_different =
            |seed: &u64| matches!(until_enough(*seed, slower, 15), Verdict::Faster | Verdict::Slower);
        (0..200).filter(is_different).count()
    };
    let (same, slower) = (called(0.0), called(0.05));
    assert!(same <= 18 && slower >= 160, "{same} and {slower} of 200");
}

#[test]
fn equal_runs_are_no_difference_and_one_run_is_undecided() {
    let change = paired(&[(1.0, 1.001), (1.0, 0.999), (1.0, 1.0), (1.0, 1.0005)], &QUESTION);
    assert_eq!(change.verdict, Verdict::Same);
    let change = paired(&[(1.0, 2.0)], &QUESTION);
    assert_eq!((change.verdict, change.relative, change.runs_wanted), (Verdict::Unclear, 1.0, None));
    let change = paired(&[], &QUESTION);
    assert_eq!((change.verdict, change.runs), (Verdict::Unclear, 0));
    let exact = paired(&[(1.0, 1.1); 10], &QUESTION);
    assert_eq!(exact.verdict, Verdict::Slower);
    let rate = Question { more_is_better: true, ..QUESTION };
    assert_eq!(paired(&[(1.0, 1.1); 10], &rate).verdict, Verdict::Faster);
}

#[test]
fn noisy_runs_give_the_needed_runs_and_the_detectable_change() {
    let wild: Vec<(f64, f64)> = (0..10).map(|run| (1.0, [0.5, 2.0][run % 2])).collect();
    let change = paired(&wild, &QUESTION);
    assert_eq!((change.verdict, change.runs_to_make()), (Verdict::Unclear, None));
    let (wanted, finds) = (change.runs_wanted.unwrap(), change.finds.unwrap());
    assert!(change.is_beyond_reach() && wanted > RUNS_MAX && finds > QUESTION.matters, "{change:?}");
    // The same number of runs finds a change of `finds`: both figures follow one law.
    let easier = paired(&wild, &Question { matters: finds, ..QUESTION });
    assert!((8..=11).contains(&easier.runs_wanted.unwrap()), "{easier:?}");
    let calm = paired(&pairs(3, 12, 0.01, false), &QUESTION);
    assert!(!calm.is_beyond_reach() && calm.runs_to_make() == calm.runs_wanted);
}

#[test]
fn the_same_runs_and_seed_give_the_same_answer() {
    let runs = pairs(3, 12, 0.01, true);
    assert_eq!(paired(&runs, &QUESTION), paired(&runs, &QUESTION));
}
