//! Waits that a descriptor explains by a frame on their stack. The kinds:
//!
//! - `[[blocking]]`: inside code that should not wait, because more than its thread waits with it (an event
//!   loop's callback, a task on a runtime's worker)
//! - `[[writing]]`: until a reader has made space
//! - `[[sleeping]]`: by the clock for another event (a library that polls with a pause)

use holdup_events::{StackId, WaitReason};

use crate::charge::Charge;
use crate::derive::known_stacks::KnownStacks;
use crate::derive::syscall_names::polls_few;
use crate::descriptors::{KnownWork, Runtime};
use crate::scene::Scene;
use crate::wording::percent;

/// Minimum share of the waiting time that one kind must have.
const SHARE_MIN: f64 = 0.5;

/// The sentence and the advice for such waits.
pub struct KnownWait {
    /// A sentence: how much of the waiting it is, and what that holds up.
    pub sentence: String,
    /// The action to try.
    pub advice: String,
}

/// The kind of code that contains most of the charged waits, among the kinds of `of_runtime`. Only waits with
/// a recorded stack count.
pub fn find<'a>(
    scene: &Scene<'a>,
    charge: &Charge,
    of_runtime: impl Fn(&'a Runtime) -> &'a [KnownWork],
) -> Option<KnownWait> {
    let trace = scene.trace;
    let mut stacks = KnownStacks::new(trace, &scene.derived.roles, of_runtime)?;
    let (mut all, mut sums) = (0.0, vec![0.0; stacks.kinds().len()]);
    for slice in charge.slices(trace).filter(|slice| slice.stack != StackId::default()) {
        let ns = slice.duration().0 as f64 * f64::from(slice.stack_every.max(1));
        all += ns;
        // A poll for arbitrary descriptors is no wait in a call.
        let wait = trace.wait(slice.wait);
        if wait.reason == WaitReason::Multiplex && !polls_few(wait.syscall) {
            continue;
        }
        if let Some(kind) = stacks.innermost_kind(slice.stack, trace.threads[slice.thread.index()].process) {
            sums[kind] += ns;
        }
    }
    let (kind, ns) = sums.into_iter().enumerate().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let share = ns / f64::max(all, 1.0);
    (share >= SHARE_MIN).then(|| KnownWait {
        sentence: format!("For {} of it, {}.", percent(share), stacks.kinds()[kind].what),
        advice: stacks.kinds()[kind].advice.clone(),
    })
}
