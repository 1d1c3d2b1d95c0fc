//! What is seen at a glance is what the whole analysis says.

use holdup_events::{CpuId, Trace};
use holdup_findings::analyse;
use holdup_findings::derive::class::Class;
use holdup_findings::descriptors::Descriptors;
use holdup_findings::glance::Glance;
use holdup_testkit::{assemble, sim};

const ONLINE: [CpuId; 2] = [CpuId(0), CpuId(1)];

fn simulated(seed: u64) -> Trace {
    let run = sim::simulate(seed);
    assemble(run.events, run.manifest)
}

#[test]
fn it_says_what_the_report_says() {
    for seed in 0..20 {
        let trace = simulated(seed);
        let glance = Glance::derive(&trace, &Descriptors::built_in(), &ONLINE);
        let derived = analyse(&trace).derived;
        assert_eq!(
            (glance.total_ns, glance.classes),
            (derived.ledger.total_ns, derived.ledger.classes),
            "{seed}"
        );
        assert_eq!(glance.run_queue, derived.ledger.run_queue, "{seed}");
        assert_eq!(glance.threads.len(), derived.ledger.threads.len(), "{seed}");
        for (lock, known) in glance.locks.iter().zip(&derived.locks) {
            assert_eq!(
                (&lock.name, lock.wait_ns, lock.waits),
                (&known.name, known.wait_ns, known.waits),
                "{seed}"
            );
        }
        for used in &derived.cpus {
            let cpu = glance.cpus.iter().find(|cpu| cpu.cpu == used.cpu).expect("every CPU that was used");
            let own: u64 = cpu.classes.iter().sum();
            assert_eq!((own, cpu.others_ns), (used.target_ns + used.stolen_ns, used.others_ns), "{seed}");
        }
    }
}

#[test]
fn waits_sum_to_the_ledgers() {
    for seed in 0..20 {
        let trace = simulated(seed);
        let glance = Glance::derive(&trace, &Descriptors::built_in(), &ONLINE);
        assert!(glance.waits.len() < 32, "none is left out");
        for class in Class::ALL.into_iter().filter(|class| class.is_wait()) {
            let waited: u64 =
                glance.waits.iter().filter(|wait| wait.key.class == class).map(|wait| wait.wait_ns).sum();
            assert_eq!(waited, glance.of(class), "{seed} {class:?}");
        }
    }
}

#[test]
fn a_cpu_that_ran_nothing_is_idle() {
    let trace = simulated(1);
    let glance = Glance::derive(&trace, &Descriptors::built_in(), &[CpuId(7)]);
    let idle = glance.cpus.iter().find(|cpu| cpu.cpu == CpuId(7)).expect("it is online");
    assert_eq!((idle.idle_ns, idle.classes.iter().sum::<u64>()), (trace.wall().0, 0));
}
