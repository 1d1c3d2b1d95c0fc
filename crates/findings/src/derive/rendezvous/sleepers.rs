//! Threads that slept on a futex word until another thread woke them.

use std::collections::{BTreeMap, BTreeSet};

use holdup_events::event::WakeContext;
use holdup_events::tables::{Slice, ThreadState};
use holdup_events::{ObjectKind, ProcessId, StackId, ThreadId, Timestamp, Trace, WaitId, WaitReason};

use crate::derive::parallel;
use crate::derive::roles::Roles;

/// One sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sleep {
    /// Number of the futex word.
    pub word: u32,
    /// Time of the wakeup.
    pub woken: Timestamp,
    /// Thread that woke the sleeper.
    pub waker: ThreadId,
    /// The sleeper.
    pub thread: ThreadId,
    /// Start of the sleep.
    pub from: Timestamp,
    /// Time at which the sleeper ran again.
    pub resumed: Timestamp,
    /// Stack of the sleep, if recorded.
    pub stack: StackId,
}

/// The words on which threads slept, and the sleeps, by word, then time.
#[derive(Debug, Default)]
pub struct Sleepers {
    /// Process and address of each word.
    pub words: Vec<(ProcessId, u64)>,
    /// Whether the word's protocol is a barrier's round counter.
    pub counts_rounds: Vec<bool>,
    /// By word, then the moment of the wakeup.
    pub sleeps: Vec<Sleep>,
}

impl Sleepers {
    /// Collects the sleeps on words that at least two threads have to do with.
    pub fn collect(trace: &Trace, roles: &Roles) -> Sleepers {
        let words = words(trace, roles);
        let numbers: BTreeMap<(ProcessId, u64), u32> =
            words.keys().enumerate().map(|(number, word)| (*word, number as u32)).collect();
        let of_wait: Vec<Option<u32>> =
            trace.waits.iter().map(|wait| numbers.get(&(wait.process, wait.object)).copied()).collect();
        let groups = parallel::thread_groups(trace);
        let parts = parallel::map(groups.len(), |group| {
            let targets = groups[group].clone().map(ThreadId).filter(|id| trace.threads[id.index()].target);
            let mut sleeps = Vec::new();
            for thread in targets {
                add_thread(trace, thread, &of_wait, &mut sleeps);
            }
            sleeps
        });
        let mut sleeps = parts.concat();
        sleeps.sort_unstable_by_key(|sleep| (sleep.word, sleep.woken, sleep.thread));
        Sleepers {
            counts_rounds: words.values().copied().collect(),
            words: words.into_keys().collect(),
            sleeps,
        }
    }
}

/// The futex words that are no locks, and whether their protocol is a barrier's.
fn words(trace: &Trace, roles: &Roles) -> BTreeMap<(ProcessId, u64), bool> {
    // A counter of rounds passes through the values that other protocols use.
    let mut reasons: BTreeMap<(ProcessId, u64), BTreeSet<WaitReason>> = BTreeMap::new();
    for (id, wait) in trace.waits.iter().enumerate() {
        if wait.object_kind == ObjectKind::Futex && wait.object != 0 {
            // If each waiter of a lock has a futex word of its own, the lock may be passed on in one fixed
            // order. A single word then looks like a rendezvous of two threads.
            let is_lock = roles.lock(trace, WaitId(id as u32)).is_some();
            let reason = if is_lock { WaitReason::Lock } else { wait.reason };
            reasons.entry((wait.process, wait.object)).or_default().insert(reason);
        }
    }
    let word = |(word, reasons): ((ProcessId, u64), BTreeSet<WaitReason>)| {
        let rounds = reasons.contains(&WaitReason::Barrier);
        (rounds || reasons.contains(&WaitReason::Park)).then_some((word, rounds))
    };
    reasons.into_iter().filter_map(word).collect()
}

fn add_thread(trace: &Trace, thread: ThreadId, of_wait: &[Option<u32>], sleeps: &mut Vec<Sleep>) {
    let mut wakeups = trace.wakeups.of_thread(thread);
    let mut open: Option<Sleep> = None;
    for slice in trace.slices.of_thread(thread) {
        match slice.state {
            ThreadState::Blocked => {
                sleeps.extend(open.take());
                let word = of_wait.get(slice.wait.index()).copied().flatten();
                open = word.and_then(|word| sleep(&slice, word, &mut wakeups));
            }
            ThreadState::Running => {
                sleeps.extend(open.take().map(|sleep| Sleep { resumed: slice.start, ..sleep }))
            }
            _ => {}
        }
    }
    sleeps.extend(open);
}

/// The sleep of a slice, if a thread ended it.
fn sleep(slice: &Slice, word: u32, wakeups: &mut &[holdup_events::tables::Wakeup]) -> Option<Sleep> {
    let behind = wakeups.partition_point(|wakeup| wakeup.at <= slice.end);
    let (before, rest) = wakeups.split_at(behind);
    *wakeups = rest;
    let wakeup = before.last().filter(|wakeup| wakeup.at >= slice.start)?;
    (wakeup.context == WakeContext::Thread && wakeup.waker != slice.thread).then_some(Sleep {
        word,
        woken: wakeup.at,
        waker: wakeup.waker,
        thread: slice.thread,
        from: slice.start,
        resumed: slice.end,
        stack: slice.stack,
    })
}
