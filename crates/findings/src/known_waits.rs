//! Waits of which a descriptor knows what they mean by who is on the stack: inside of code that should not wait, because more than its
//! thread waits with it (`[[blocking]]`: an event loop's callback, a task on a runtime's worker), or for no reader to be left (`[[writing]]`).

use std::collections::HashMap;

use holdup_events::{StackId, WaitReason};

use crate::charge::Charge;
use crate::derive::known_work;
use crate::derive::syscall_names::polls_few;
use crate::descriptors::{KnownWork, Runtime};
use crate::scene::Scene;
use crate::wording::percent;

/// Less of the waiting than this says nothing of it.
const SHARE_MIN: f64 = 0.5;

/// What is said of such waits.
pub struct KnownWait {
    /// A sentence: how much of the waiting it is, and what that holds up.
    pub sentence: String,
    /// What to do about it.
    pub advice: String,
}

/// Of the charged waits, those of which stacks were taken: the kind of code that most of them are in, of those that `of_runtime` has.
pub fn of(
    scene: &Scene,
    charge: &Charge,
    of_runtime: impl Fn(&Runtime) -> &[KnownWork],
) -> Option<KnownWait> {
    let trace = scene.trace;
    let roles = &scene.derived.roles;
    let runtimes = roles.descriptors.runtimes().iter().enumerate();
    let (rows, kinds): (Vec<usize>, Vec<&KnownWork>) =
        runtimes.flat_map(|(row, runtime)| of_runtime(runtime).iter().map(move |kind| (row, kind))).unzip();
    let of_frame = known_work::of_frames(trace, &kinds);
    if of_frame.iter().all(Option::is_none) {
        return None;
    }
    let mut known: HashMap<StackId, Option<usize>> = HashMap::new();
    let (mut all, mut sums) = (0.0, vec![0.0; kinds.len()]);
    for slice in charge.slices(trace).filter(|slice| slice.stack != StackId::default()) {
        let ns = slice.duration().0 as f64 * f64::from(slice.stack_every.max(1));
        all += ns;
        // Who polls for whatever comes does not wait in a call.
        let wait = trace.wait(slice.wait);
        if wait.reason == WaitReason::Multiplex && !polls_few(wait.syscall) {
            continue;
        }
        let kind = *known.entry(slice.stack).or_insert_with(|| {
            trace.stack_frames(slice.stack).find_map(|frame| *of_frame.get(frame.index())?)
        });
        // Another program's function may have such a name, too.
        let process = trace.threads[slice.thread.index()].process;
        if let Some(kind) = kind.filter(|kind| roles.runtimes_of(process).contains(&rows[*kind])) {
            sums[kind] += ns;
        }
    }
    let (kind, ns) = sums.into_iter().enumerate().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let share = ns / f64::max(all, 1.0);
    (share >= SHARE_MIN).then(|| KnownWait {
        sentence: format!("In {} of it {}.", percent(share), kinds[kind].what),
        advice: kinds[kind].advice.clone(),
    })
}
