//! # shared-counter: threads write to the same memory all the time
//!
//! ## Symptoms
//! CPU samples at memory accesses, with the address: bytes that threads on different CPUs repeatedly take
//! from each other, with at least one writer. Examples: a global counter, a reference count, a statistic, a
//! ticket, the state of a lock that is taken without waits.
//!
//! ## Why it hurts
//! A CPU that writes to a line of memory removes it from the other CPUs' caches. They wait some hundred
//! cycles at their next access. Atomic operations on the line are serialized, however many CPUs there are.
//!
//! ## How it decides
//! Like false-sharing, but at least a fifth of the accesses are to bytes that several threads access, or
//! threads sleep until a word there changes. In the second case the memory belongs to a lock or a queue,
//! whichever threads access its fields.
//!
//! The rules for locks report three cases instead. The first is memory whose threads wait for locks for a
//! tenth of their time or more. The second is memory that such threads access without atomic instructions,
//! because a lock serializes these accesses. The third is a line that contains a contended lock. For such a
//! lock, threads wait, or enter the kernel, for a hundredth of the run, and its upper bound includes the
//! line's cost.
//!
//! The time is the sampled time at these accesses, with its error. The removable part is estimated from
//! moments at which a thread ran the same code while no other thread that accesses the memory ran. If the
//! accesses took a smaller share of these moments, the difference is the cost of sharing. If the samples
//! there show little but the accesses, the rest overlaps with them and is no measure. Without such moments
//! the lower bound of the gain is 0, and the finding is at most likely. If most of a function's time is at
//! the accesses, the code after them may wait with them. Then the upper bound includes it, unless the
//! accesses are as slow relative to the rest when alone.
//!
//! ## What to do
//! Give each thread its own counter and sum up on demand. Count in batches. Assign numbers in ranges. Do not
//! change a reference count in an inner loop. Do not place read-mostly data next to frequently written data.
//!
//! ## Blind spots
//! Those of false-sharing. Memory that threads pass to each other on purpose (a lock-free queue) looks the
//! same.
//!
//! ## References
//! McKenney: Is parallel programming hard (chapter "Counting"). Boyd-Wickizer et al.: An analysis of Linux
//! scalability to many cores (2010).

use holdup_events::ThreadId;

use super::lock_contention;
use crate::derive::class::Class;
use crate::derive::lines::{SharedData, Sharing};
use crate::rule::{ChargedVerdict, Info, Rule, Verdict, uncharged};
use crate::scene::Scene;
use crate::sharing;

pub(super) static INFO: Info = Info::new(
    "shared-counter",
    "Threads write to the same memory and wait for its cache line (true sharing)",
);

/// Threads that wait for locks for more than this share of their time are put in order by these.
const LOCKED: f64 = 0.1;

pub(super) struct SharedCounter;

impl Rule for SharedCounter {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        uncharged(judge(scene))
    }
}

fn judge(scene: &Scene) -> Verdict {
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

/// Whether the memory contains a contended lock. lock-contention reports accesses to the lock's word, and to
/// the data next to it.
fn holds_contended_lock(scene: &Scene, data: &SharedData) -> bool {
    let locks = scene.derived.locks.iter();
    locks
        .filter_map(|lock| lock_contention::shared_with(scene, lock))
        .any(|shared| std::ptr::eq(shared, data))
}

/// Whether the memory's threads wait for locks for a large part of their time.
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
        "Give each thread its own copy on a separate cache line, and add them up when the value is read"
            .into(),
        "Or do it less often: in batches, in ranges, not in the inner loop".into(),
    ]
}
