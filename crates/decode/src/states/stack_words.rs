//! Futex words on the waiter's own stack that look like locks.
//!
//! musl's condition variables wait with 2, the value of a lock with waiters, on a word in the frame of the
//! waiting function. Without symbols, only the word's place distinguishes them from locks. A lock may lie in a
//! frame, too. Then other threads also wait for it, and for them the word is not on their own stack.

use std::collections::BTreeSet;

use holdup_events::event::RawWait;
use holdup_events::tables::Waits;
use holdup_events::{ProcessId, Wait, WaitReason};

fn is_on_own_stack(wait: &Wait) -> bool {
    wait.owner_tid == RawWait::ON_OWN_STACK
}

/// Makes waits on such words plain waits on a word ([`WaitReason::Park`]), except for locks that other threads
/// wait for.
pub(super) fn correct(waits: &mut Waits) {
    if !waits.iter().any(is_on_own_stack) {
        return;
    }
    let shared = waits.iter().filter(|wait| wait.reason == WaitReason::Lock && !is_on_own_stack(wait));
    let shared: BTreeSet<(ProcessId, u64)> = shared.map(|wait| (wait.process, wait.object)).collect();
    for wait in waits.iter_mut().filter(|wait| is_on_own_stack(wait)) {
        wait.owner_tid = 0;
        if wait.reason == WaitReason::Lock && !shared.contains(&(wait.process, wait.object)) {
            wait.reason = WaitReason::Park;
        }
    }
}

#[cfg(test)]
mod tests {
    use holdup_events::ObjectKind;

    use super::*;

    fn wait(object: u64, owner_tid: u32) -> Wait {
        Wait {
            reason: WaitReason::Lock,
            object_kind: ObjectKind::Futex,
            object,
            owner_tid,
            ..Wait::default()
        }
    }

    fn corrected(mut waits: Vec<Wait>) -> Vec<(WaitReason, u32)> {
        correct(&mut waits);
        waits.iter().map(|wait| (wait.reason, wait.owner_tid)).collect()
    }

    #[test]
    fn a_word_that_threads_wait_for_only_on_their_own_stack_is_no_lock() {
        let on_stack = RawWait::ON_OWN_STACK;
        let waits = vec![wait(0x7f00, on_stack), wait(0x7e00, on_stack), wait(0x4000, 0), wait(0x4010, 7)];
        let (park, lock) = (WaitReason::Park, WaitReason::Lock);
        assert_eq!(corrected(waits), [(park, 0), (park, 0), (lock, 0), (lock, 7)]);
    }

    #[test]
    fn a_lock_in_a_frame_that_other_threads_also_wait_for_stays_one() {
        let waits = vec![wait(0x7f00, RawWait::ON_OWN_STACK), wait(0x7f00, 0)];
        assert_eq!(corrected(waits), [(WaitReason::Lock, 0), (WaitReason::Lock, 0)]);
    }
}
