//! # shared-counter: threads write to the same memory all the time
//!
//! ## What it sees
//! Samples of the CPU at accesses to memory, with the address: bytes that threads on different CPUs take from each other
//! again and again, at least one of them writing: a global counter, a reference count, a statistic, a ticket, the state of
//! a lock that is taken without ever being waited for.
//!
//! ## Why it hurts
//! A CPU that writes to a line of memory takes it from the others, which wait some hundred cycles when they next touch it,
//! and atomic operations on it happen one after the other, however many CPUs there are.
//!
//! ## How it decides
//! As false-sharing does, but at least a fifth of the accesses are to bytes that several threads touch, or threads sleep
//! until a word there changes: then it is a lock's or a queue's, whoever touches which of its fields. That is left to the
//! rules for locks if its threads wait for locks for a tenth of their time or more; so is memory that is touched without
//! atomic instructions by such threads, since a lock puts these accesses in order, and a line in which a lock lies for which
//! threads wait, or enter the kernel, for a hundredth of the run: what the line costs is then in that one's upper end. The
//! time is the sampled time at these accesses, with its error.
//! What of it would go is told by moments at which a thread was in the same code while no other that touches the memory ran: if
//! the accesses took a smaller share of these, the difference is what sharing costs; where little but the accesses is seen
//! then, the rest passes behind them and is no measure. Without such moments the lower end of the gain is 0,
//! and the finding is likely at most. Where most of a function's time goes by at the accesses, what stands behind them may wait
//! with them: the upper end takes that, too, unless the accesses are as slow beside the rest when alone.
//!
//! ## What to do
//! Let each thread have its own and add up when somebody asks; count in batches; hand out numbers in ranges; do not touch a
//! reference count in an inner loop. What is mostly read should not lie beside what is often written.
//!
//! ## Blind spots
//! Those of false-sharing. Memory that threads hand to each other on purpose (a queue without locks) looks the same.
//!
//! ## References
//! McKenney: Is parallel programming hard (chapter "Counting"). Boyd-Wickizer et al.: An analysis of Linux
//! scalability to many cores (2010).

use holdup_events::ThreadId;

use super::{Info, Verdict, lock_contention};
use crate::derive::class::Class;
use crate::derive::lines::{SharedData, Sharing};
use crate::scene::Scene;
use crate::sharing;

pub(super) const INFO: Info = Info {
    name: "shared-counter",
    summary: "Threads write to the same memory all the time, and wait for its cache line",
    of_waits_alone: false,
};

/// Threads that wait for locks for more than this share of their time are put in order by these.
const LOCKED: f64 = 0.1;

pub(super) fn judge(scene: &Scene) -> Verdict {
    sharing::needs_addresses(scene)?;
    let is_true = |data: &&SharedData| {
        sharing::is_costly(scene, data)
            && (data.sharing == Sharing::True || data.is_waited_on)
            && !holds_contended_lock(scene, data)
            && (data.atomic * 2 >= data.samples && !data.is_waited_on || !is_locked(scene, data))
    };
    let shared = scene.derived.lines.iter().filter(is_true);
    let finding = |data| sharing::finding(scene, data, (INFO.name, "the same bytes", advice()));
    Ok(shared.take(sharing::NAMED_MAX).map(finding).collect())
}

/// A lock that threads wait for lies in it: that they touch its word, and what it guards beside it, is lock-contention's to tell.
fn holds_contended_lock(scene: &Scene, data: &SharedData) -> bool {
    let locks = scene.derived.locks.iter();
    locks
        .filter_map(|lock| lock_contention::shared_with(scene, lock))
        .any(|shared| std::ptr::eq(shared, data))
}

/// Its threads wait for locks for a good part of their time.
fn is_locked(scene: &Scene, data: &SharedData) -> bool {
    let touches = |thread: ThreadId| data.threads.iter().any(|one| one.thread == thread);
    let threads = scene.derived.ledger.threads.iter().filter(|thread| touches(thread.thread));
    let (mut locked, mut all) = (0, 0);
    for thread in threads {
        locked += thread.classes[Class::LockWait as usize];
        all += thread.classes.iter().sum::<u64>();
    }
    locked as f64 > LOCKED * all as f64
}

fn advice() -> Vec<String> {
    vec![
        "Let each thread have its own, on a cache line of its own, and add up when somebody asks".into(),
        "Or do it less often: in batches, in ranges, not in the inner loop".into(),
    ]
}
