//! A seeded simulator: a random program on a few CPUs, as events *and the truth*.
//!
//! Threads compute, lock, push to and pop from queues (condition variables) and pipes, meet at barriers, share a
//! pool's jobs, sleep and read the disk; others, foreign, take CPUs away. The truth is added up by the simulated
//! scheduler itself, not from the events. A [`Program`] is a value: what would happen without a lock, with faster
//! code or with more CPUs is the simulator itself, run again.

mod machine;
mod program;
mod random_programs;

use std::collections::BTreeMap;

use holdup_events::event::Event;
use holdup_events::recording::Manifest;
use holdup_findings::derive::class::{CLASSES, Class};

pub use machine::function_address;
pub use program::{Op, Plan, Program};
pub use random_programs::{endless, whole};

/// What really happened.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    /// Time by class of each target thread (tid); all running time is `Useful` (ns).
    pub classes: BTreeMap<u32, [u64; CLASSES]>,
    /// Time waited for each lock, by its futex address (ns).
    pub lock_wait_ns: BTreeMap<u64, u64>,
    /// Time that threads waited for a lock while another had it: by tid of the waiter, then of the owner (ns).
    pub held_ns: BTreeMap<(u32, u32), u64>,
    /// Time waited for each lock (its futex address), by who had it at each moment or was woken to take it (tid), and
    /// what that one did (ns): the blame for it.
    pub lock_blame_ns: BTreeMap<(u64, u32, Class), u64>,
    /// CPUs of the machine.
    pub cpus: u32,
    /// Time of all threads, foreign ones included, on CPUs (ns).
    pub running_ns: u64,
}

/// One simulated recording.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// What a perfect source delivers, in order.
    pub events: Vec<Event>,
    /// What was recorded where.
    pub manifest: Manifest,
    /// What really happened.
    pub truth: Truth,
}

impl Simulation {
    /// How long the run took (ns).
    pub fn wall_ns(&self) -> u64 {
        self.manifest.end_ns - self.manifest.start_ns
    }
}

/// The endless program that a seed names, cut off at a random moment.
pub fn simulate(seed: u64) -> Simulation {
    run(&endless(seed))
}

/// Runs a program.
pub fn run(program: &Program) -> Simulation {
    machine::run(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_names_one_simulation() {
        let (one, two) = (simulate(7), simulate(7));
        assert_eq!(one.events, two.events);
        assert_ne!(one.events, simulate(8).events);
    }

    #[test]
    fn cpus_are_never_more_than_full() {
        for seed in 0..50 {
            for simulation in [simulate(seed), run(&whole(seed))] {
                let wall = simulation.wall_ns();
                assert!(
                    simulation.truth.running_ns <= wall * u64::from(simulation.truth.cpus),
                    "seed {seed}"
                );
            }
        }
    }

    #[test]
    fn whole_programs_end_with_all_their_work_done() {
        for seed in 0..60 {
            let program = whole(seed);
            let simulation = run(&program);
            let targets = program.threads.iter().filter(|plan| plan.target).count();
            assert_eq!(simulation.truth.classes.len(), targets, "seed {seed}");
            let shorter = run(&program.clone().with_cpus(64));
            assert!(
                shorter.wall_ns() <= simulation.wall_ns() * 11 / 10,
                "seed {seed}: more CPUs make nothing much longer"
            );
        }
    }

    #[test]
    fn owners_are_charged_with_what_was_waited() {
        for seed in 0..50 {
            let truth = run(&whole(seed)).truth;
            let waited: u64 = truth.lock_wait_ns.values().sum();
            assert!(truth.held_ns.values().sum::<u64>() <= waited, "seed {seed}");
        }
    }
}
