//! # cpu-stolen: the hypervisor gives the CPUs to other guests
//!
//! ## Symptoms
//! Running time of the program's threads that the kernel did not account to them: the virtual CPU was not on
//! a real one.
//!
//! ## Why it hurts
//! The program runs, so the guest's scheduler cannot help, but it runs more slowly. A thread that loses its
//! virtual CPU while it holds a lock, or on its way to a barrier, delays all other threads too.
//!
//! ## How it decides
//! It compares the wall time of each running slice with the kernel's accounting. The upper bound of the gain
//! is that all running were shorter by the share of steal time. The lower bound is the saving of the active
//! thread that lost least.
//!
//! ## What to do
//! Use an instance with dedicated CPUs, or one whose CPU credits are not used up. Start fewer threads than
//! there are virtual CPUs. Measure at another time.
//!
//! ## Blind spots
//! Some hypervisors do not report steal time to their guests. Virtual CPUs that are threads of one core slow
//! each other down invisibly. Time that waiting threads lose through a holder's steal time is charged to the
//! lock.
//!
//! ## References
//! Linux `proc_stat(5)` (`steal`), `Documentation/virt/kvm/x86/msr.rst` (steal time).

use holdup_events::Duration;

use crate::derive::class::Class;
use crate::finding::{About, Confidence, Evidence, Finding, Gain};
use crate::rule::{ChargedVerdict, Info, Rule, Verdict, uncharged};
use crate::scene::{EVIDENCE_MAX, GAIN_MIN, Scene};
use crate::wording::{count, percent, thread, time};

pub(super) static INFO: Info = Info {
    waits_only: true,
    ..Info::new("cpu-stolen", "The hypervisor gives CPU time to other virtual machines while threads run")
};

pub(super) struct CpuStolen;

impl Rule for CpuStolen {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        uncharged(judge(scene))
    }
}

fn judge(scene: &Scene) -> Verdict {
    let ledger = &scene.derived.ledger;
    let stolen_ns = ledger.class_ns(Class::Stolen);
    let high = scene.of_wall_if_run(stolen_ns as f64 * share_that_ran(scene));
    if high < GAIN_MIN {
        return Ok(Vec::new());
    }
    let stolen = |thread: &&crate::derive::ledger::ThreadLedger| thread.classes[Class::Stolen as usize];
    let active = scene.active(|_| 0.0);
    let least = active.iter().map(stolen).min().unwrap_or(0);
    let Some(most) = active.iter().max_by_key(|thread| (stolen(thread), std::cmp::Reverse(thread.thread)))
    else {
        return Ok(Vec::new());
    };
    let cpus = scene.derived.cpus.iter().filter(|cpu| cpu.stolen_ns > 0).count();
    Ok(vec![Finding {
        rule: INFO.name,
        about: About::Other,
        subject: format!("{}, mostly {}", count(cpus as u64, "CPU"), thread(scene.trace, most.thread)),
        summary: vec![format!(
            "Steal time: {} ({} of the time on CPUs) was given to other virtual machines by the hypervisor.",
            time(stolen_ns),
            percent(stolen_ns as f64 / (stolen_ns + ledger.running_ns()).max(1) as f64),
        )],
        cost_ns: stolen_ns,
        gain: Gain { low: scene.of_wall(least as f64).min(high), high },
        likely: None,
        confidence: scene.confidence(Confidence::High),
        evidence: evidence(scene),
        advice: vec![
            "Run on CPUs that are not shared (a dedicated instance, pinned virtual CPUs)".into(),
            "Or start fewer threads than there are virtual CPUs".into(),
        ],
    }])
}

/// The share of the time on CPUs that was not stolen. Steal time is part of the wall time of running.
fn share_that_ran(scene: &Scene) -> f64 {
    let ledger = &scene.derived.ledger;
    let running = ledger.running_ns() as f64;
    running / (running + ledger.class_ns(Class::Stolen) as f64).max(1.0)
}

/// The slices that lost most.
fn evidence(scene: &Scene) -> Vec<Evidence> {
    let own = |thread: holdup_events::ThreadId| {
        scene.trace.threads.get(thread.index()).is_some_and(|thread| thread.target)
    };
    let mut steals: Vec<_> = scene.trace.steals.iter().filter(|steal| own(steal.thread)).collect();
    steals.sort_by_key(|steal| (std::cmp::Reverse(steal.stolen), steal.slice_start, steal.thread));
    let row = |steal: &&holdup_events::tables::Steal| {
        let row = scene.trace.slices.covering(steal.thread, steal.slice_start);
        let length = row.map_or(Duration(0), |row| scene.trace.slices.at(steal.thread, row).duration());
        Evidence {
            table: "slices",
            thread: steal.thread,
            start: steal.slice_start,
            duration: length,
            note: format!("{} of it was stolen", time(steal.stolen.0)),
        }
    };
    steals.iter().take(EVIDENCE_MAX).map(row).collect()
}
