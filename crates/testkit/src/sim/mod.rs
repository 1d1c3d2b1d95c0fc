//! A seeded simulator: a random program on a few CPUs, as events *and true figures*.
//!
//! Threads compute, lock, push to and pop from queues (condition variables) and pipes, wait at barriers,
//! share a pool's jobs, sleep and read the disk. Threads of other programs preempt them. The simulated
//! scheduler adds up the true figures, independently of the events. A [`Program`] is a value: the effect of
//! removing a lock, of faster code or of more CPUs is found by running the simulator again.

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

/// The true figures.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    /// Time by class of each target thread (TID). All running time is `Useful` (ns).
    pub classes: BTreeMap<u32, [u64; CLASSES]>,
    /// Time waited for each lock, by its futex address (ns).
    pub lock_wait_ns: BTreeMap<u64, u64>,
    /// Time that threads waited for a lock while another had it: by tid of the waiter, then of the owner (ns).
    pub held_ns: BTreeMap<(u32, u32), u64>,
    /// The blame for lock waits (ns), by lock (futex address), thread and class. The thread held the lock or
    /// was woken to take it (TID), and the class is its state during the wait.
    pub lock_blame_ns: BTreeMap<(u64, u32, Class), u64>,
    /// CPUs of the machine.
    pub cpus: u32,
    /// Time of all threads, foreign ones included, on CPUs (ns).
    pub running_ns: u64,
}

/// One simulated recording.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// Events of a source without losses, in order.
    pub events: Vec<Event>,
    /// The manifest.
    pub manifest: Manifest,
    /// The true figures.
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
