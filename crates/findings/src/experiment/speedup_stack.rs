//! Where the capacity of N workers is spent: N = useful work as at one worker + each cause of loss +
//! inflation.
//!
//! Each figure is in workers: thread time over the run's length. Running time (useful, kernel, gc-work, spin)
//! is the ledger's. The workers' other time is N minus the running time. It is divided in proportion to the
//! waits of the N threads that ran the most, and to the time with fewer threads than workers. Useful work
//! beyond the time of one worker is inflation, caused by shared caches, memory and other hardware.

use super::run::{Experiment, Run, Table};
use crate::derive::class::Class;

/// One number of workers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpeedupStack {
    /// N.
    pub workers: u32,
    /// Useful work at the time that one worker takes for it. Without losses it is the speed-up.
    pub useful: f64,
    /// Work that takes longer than at one worker.
    pub inflation: f64,
    /// Losses by class, the greatest first. `no thread` is the time without a thread for a worker.
    pub losses: Vec<(String, f64)>,
}

/// Name of the time with fewer threads than workers.
pub const NO_THREAD: &str = "no thread";

/// The stack of the setting with `workers`, against the setting with one worker. `None` without recordings of
/// both.
pub fn stack(experiment: &Experiment, (one, setting): (usize, usize), workers: u32) -> Option<SpeedupStack> {
    let stacks: Vec<SpeedupStack> = experiment
        .pairs((one, setting), |run| run.facts.is_some().then(|| run.clone()))
        .iter()
        .filter_map(|(alone, run)| of_run(alone, run, workers))
        .collect();
    mean(&stacks, workers)
}

fn of_run(alone: &Run, run: &Run, workers: u32) -> Option<SpeedupStack> {
    let wall = (run.wall_ns > 0).then_some(run.wall_ns as f64)?;
    // Work may differ where the length is fixed: a second's requests.
    let work = match (alone.progress, run.progress) {
        (Some(before), Some(now)) if before > 0.0 => now / before,
        _ => 1.0,
    };
    let on_cpu = |class: Class| run.ns(Table::Ledger, class.name()).unwrap_or(0) as f64 / wall;
    let useful_now = on_cpu(Class::Useful);
    let useful_alone = alone.ns(Table::Ledger, Class::Useful.name()).unwrap_or(0) as f64 * work / wall;
    let useful = useful_alone.min(useful_now.max(0.0));
    let mut losses: Vec<(String, f64)> = [Class::Kernel, Class::GcWork, Class::Spin]
        .into_iter()
        .map(|class| (class.name().to_owned(), on_cpu(class)))
        .collect();
    let running = useful_now + losses.iter().map(|(_, size)| size).sum::<f64>();
    let left = (f64::from(workers) - running).max(0.0);
    losses.extend(waiting(run, workers, left));
    losses.retain(|(_, size)| *size > 0.0);
    Some(SpeedupStack { workers, useful, inflation: useful_now - useful, losses })
}

/// Divides the workers' capacity that nothing ran on.
fn waiting(run: &Run, workers: u32, left: f64) -> Vec<(String, f64)> {
    let facts = run.facts.as_ref();
    let threads = facts.map_or(&[][..], |facts| &facts.threads[..facts.threads.len().min(workers as usize)]);
    let mut sums: std::collections::BTreeMap<&str, f64> = std::collections::BTreeMap::new();
    for (class, ns) in threads.iter().flat_map(|thread| &thread.classes) {
        if !Class::named(class).is_some_and(Class::on_cpu) {
            *sums.entry(class).or_default() += *ns as f64;
        }
    }
    let lived: f64 = threads.iter().map(|thread| thread.life_ns as f64).sum();
    let absent = (f64::from(workers) * run.wall_ns as f64 - lived).max(0.0);
    *sums.entry(NO_THREAD).or_default() += absent;
    let all: f64 = sums.values().sum();
    sums.into_iter().map(|(class, ns)| (class.to_owned(), left * ns / all.max(1.0))).collect()
}

fn mean(stacks: &[SpeedupStack], workers: u32) -> Option<SpeedupStack> {
    let count = stacks.len() as f64;
    if stacks.is_empty() {
        return None;
    }
    let of = |field: fn(&SpeedupStack) -> f64| stacks.iter().map(field).sum::<f64>() / count;
    let mut losses: std::collections::BTreeMap<&str, f64> = std::collections::BTreeMap::new();
    for (name, size) in stacks.iter().flat_map(|stack| &stack.losses) {
        *losses.entry(name).or_default() += size / count;
    }
    let mut losses: Vec<(String, f64)> =
        losses.into_iter().map(|(name, size)| (name.to_owned(), size)).collect();
    losses.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    Some(SpeedupStack {
        workers,
        useful: of(|stack| stack.useful),
        inflation: of(|stack| stack.inflation),
        losses,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::run::{FactRow, RunFacts, Setting, ThreadFacts};

    fn run(setting: usize, wall_ns: u64, threads: &[(u64, &[(&str, u64)])]) -> Run {
        let row = |class: &str| {
            let classes = threads.iter().flat_map(|thread| thread.1);
            let ns = classes.filter(|(name, _)| *name == class).map(|(_, ns)| ns).sum();
            FactRow::time(Table::Ledger, class, ns)
        };
        let thread = |(life_ns, classes): &(u64, &[(&str, u64)])| ThreadFacts {
            life_ns: *life_ns,
            running_ns: 0,
            classes: classes.iter().map(|(name, ns)| ((*name).to_owned(), *ns)).collect(),
        };
        let facts = RunFacts {
            rows: ["useful", "kernel", "lock-wait"].map(row).to_vec(),
            threads: threads.iter().map(thread).collect(),
            ..RunFacts::default()
        };
        Run { setting, wall_ns, facts: Some(facts), ..Run::default() }
    }

    #[test]
    fn a_stack_sums_to_the_workers() {
        let experiment = Experiment {
            settings: vec![Setting::default(); 2],
            runs: vec![
                run(0, 100, &[(100, &[("useful", 100)])]),
                // Length 60: two workers work 80 % of the time, and a sixth of that is inflation. One worker
                // begins late.
                run(1, 60, &[(60, &[("useful", 60)]), (50, &[("useful", 60), ("lock-wait", 10)])]),
            ],
            ..Experiment::default()
        };
        let found = stack(&experiment, (0, 1), 2).unwrap();
        let losses: f64 = found.losses.iter().map(|(_, size)| size).sum();
        assert!((found.useful + found.inflation + losses - 2.0).abs() < 1e-9, "{found:?}");
        assert!((found.useful - 100.0 / 60.0).abs() < 1e-9 && (found.inflation - 20.0 / 60.0).abs() < 1e-9);
        assert_eq!(stack(&experiment, (1, 0), 1).unwrap().workers, 1);
    }
}
