//! # barrier-straggler: all threads wait for one thread that was delayed
//!
//! ## Symptoms
//! Barriers, ends of parallel loops and joins, and the last thread to arrive. It also sees the last thread's
//! state while the others waited: running, runnable (and the occupant of its CPU), blocked, or being woken.
//!
//! ## Why it hurts
//! A delay of one thread becomes a delay of all. With a hundred threads and a hundred barriers per second,
//! each disturbance of any thread delays all of them.
//!
//! ## How it decides
//! It counts only time in which the last thread had work and did not run. It waited for a CPU, the disk, a
//! lock, a fault or a timer. Waits for other threads' work do not count, because their cause is elsewhere.
//! The upper bound of the gain removes such time from the last thread's way to the barrier. It is at most the
//! delay after the second to last. The lower bound counts only such time after the arrival of all other
//! threads. If other programs used the last thread's CPU for most of this time, they are the cause.
//! noisy-neighbour reports it, and this finding is a hint.
//!
//! A thread that works on request of the waiting threads is no member of a barrier. An example is a background
//! thread that flushes what writers filled. It waits for the request where no member waits, and does nothing
//! of its own before that.
//!
//! ## What to do
//! Remove the delay that the summary names. Fewer threads than CPUs leave room for other programs. Two busy
//! threads pinned to one CPU make each barrier wait for both in turn. Or use fewer barriers.
//!
//! ## Blind spots
//! If the last thread is not known (several threads spin and several do not), there is no cause. Kernel time
//! of a running thread counts as running. load-imbalance reports a thread that always has more work.
//!
//! ## References
//! Petrini, Kerbyson, Pakin: The case of the missing supercomputer performance (SC 2003).

use crate::derive::class::Class;
use crate::derive::rendezvous::{Causes, SiteUse};
use crate::finding::Confidence;
use crate::lateness::{self, MEETINGS_SURE, Said};
use crate::rule::{ChargedVerdict, Explains, Info, Rule};
use crate::scene::Scene;

pub(super) static INFO: Info = Info {
    waits_only: true,
    hints_explain: true,
    explains: &[
        // The thread with the most work runs alone at the end, while the other threads wait or spin.
        Explains::shared(&super::serial_section::INFO),
        Explains::shared(&super::spin_wait::INFO),
        // Two views of one rendezvous: the last thread to arrive had more work, or was delayed. The finding with the
        // larger gain is reported.
        Explains::ranked_lower(&super::load_imbalance::INFO),
        Explains::ranked_lower(&INFO),
    ],
    ..Info::new("barrier-straggler", "Threads at a barrier wait for a thread that was delayed on its way")
};

pub(super) struct BarrierStraggler;

impl Rule for BarrierStraggler {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        lateness::judge(scene, INFO.name, |used| used.straggle, |used| describe(scene, used))
    }
}

fn describe(scene: &Scene, used: &SiteUse) -> Said {
    let mut summary =
        vec![lateness::waited(scene, used), format!("Last to arrive: {}.", lateness::lasts(scene, used))];
    summary.extend(
        lateness::why(scene, used).map(|why| format!("While the others waited, the last thread {why}.")),
    );
    let confidence = match used.meetings {
        _ if used.is_due_to_other_programs() => Confidence::Low,
        MEETINGS_SURE.. => Confidence::High,
        _ => Confidence::Medium,
    };
    Said { summary, confidence, advice: advice(&used.causes) }
}

fn advice(causes: &Causes) -> Vec<String> {
    let queue = causes.own_ns.max(causes.others_ns).max(causes.throttled_ns);
    let blocked = Class::ALL.into_iter().map(|class| causes.blocked_ns[class as usize]).max().unwrap_or(0);
    let mut advice = Vec::new();
    if queue >= blocked && causes.own_ns == queue {
        advice.push("Use no more busy threads than CPUs, and do not pin two of them to one CPU".to_owned());
    } else if queue >= blocked && causes.others_ns == queue {
        advice.push("Keep the other program off these CPUs (taskset, cpuset), or leave it a CPU".to_owned());
    } else if queue >= blocked {
        advice.push("Raise the cgroup's CPU quota, or use no more threads than it allows to run".to_owned());
    } else {
        advice.push(
            "Move this wait off the path to the barrier: wait earlier, or in a separate thread".to_owned(),
        );
    }
    advice.push("Synchronize less often: more work between two barriers".to_owned());
    advice
}
