//! # barrier-straggler: all wait for one thread that was held up
//!
//! ## What it sees
//! Meetings of threads (a barrier, the end of a parallel loop, threads that are joined), which of them came
//! last, and what that one did while the others waited: it ran, it waited for a CPU and who had that, it was blocked,
//! it was woken late.
//!
//! ## Why it hurts
//! A delay of one thread becomes a delay of all: a hundred threads that meet a hundred times each second meet each
//! disturbance of any of them.
//!
//! ## How it decides
//! It counts only time in which the last to come was ready for work and did not do it: waiting for a CPU, for the disk, a
//! lock, a fault, a timer. Waiting for other threads' work is not counted; its cause is elsewhere. The upper end of
//! the gain is that no such time had been on the last one's way to the meeting, at the most what it was behind the last but
//! one. The lower end counts only such time after all others had come. Where other programs had the CPU of whoever came
//! last for most of the time in which it did not run, the cause is theirs: noisy-neighbour tells it, and this is a hint.
//!
//! ## What to do
//! Take away what held it up: the summary names it. Fewer threads than CPUs leave room for other programs; pinning two
//! busy threads to one CPU makes each meeting wait for both, one after the other. Or meet less often.
//!
//! ## Blind spots
//! Where the last cannot be told (several threads spin and several do not) there is no cause. Time in the kernel
//! while it runs counts as running. A thread that always has more work is load-imbalance's.
//!
//! ## References
//! Petrini, Kerbyson, Pakin: The case of the missing supercomputer performance (SC 2003).

use super::{ChargedVerdict, Info};
use crate::derive::class::Class;
use crate::derive::rendezvous::{Causes, SiteUse};
use crate::finding::Confidence;
use crate::lateness::{self, MEETINGS_SURE, Said};
use crate::scene::Scene;

pub(super) const INFO: Info = Info {
    name: "barrier-straggler",
    summary: "Threads that meet wait for one that was held up on its way",
    of_waits_alone: true,
};

pub(super) fn judge(scene: &Scene) -> ChargedVerdict {
    lateness::judge(scene, INFO.name, |used| used.straggle, |used| said(scene, used))
}

fn said(scene: &Scene, used: &SiteUse) -> Said {
    let mut summary =
        vec![lateness::waited(used), format!("Last to come: {}.", lateness::lasts(scene, used))];
    summary.extend(lateness::why(scene, used).map(|why| format!("While others waited the last: {why}.")));
    let confidence = match used.meetings {
        _ if used.is_strangers() => Confidence::Low,
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
        advice.push("Use no more busy threads than CPUs, and pin no two of them to one CPU".to_owned());
    } else if queue >= blocked && causes.others_ns == queue {
        advice.push("Keep the other program off these CPUs (taskset, cpuset), or leave it one".to_owned());
    } else if queue >= blocked {
        advice.push("Raise the group's CPU quota, or use no more threads than it allows to run".to_owned());
    } else {
        advice.push(
            "Take what it waits for out of the way to the meeting: do it before, or in a thread of its own"
                .to_owned(),
        );
    }
    advice.push("Meet less often: more work between two meetings".to_owned());
    advice
}
