//! What locks themselves cost running threads: the calls that take them and let them go.
//!
//! A lock that nobody waits for is taken without the kernel, in some nanoseconds. One that is waited for is paid with
//! futex(2) for each sleep and each wakeup, and with cache lines that go to and fro. Samples in such a call count for
//! the locks that threads were seen to wait for, or to wake others from, at the same place of the program; where that
//! is several, each has its part of the waits.

use std::collections::{BTreeMap, HashMap};

use holdup_events::tables::{FrameKind, SampleRow, ThreadState};
use holdup_events::{FrameId, StackId, Trace, WaitReason};

use super::locks::LockIndex;
use super::own_places::{OwnFrames, Places};
use super::syscall_names::FUTEX;

/// How the functions of the usual libraries begin that take a lock or let it go, leading underscores aside.
const LOCKING: [&str; 14] = [
    "GI_pthread_mutex_",
    "pthread_mutex_",
    "pthread_rwlock_",
    "pthread_spin_",
    "lll_",
    "futex_",
    "parking_lot",
    "lock_api::",
    "std::sys::sync::mutex",
    "std::sys::sync::rwlock",
    "std::sync::poison::mutex",
    "std::sync::poison::rwlock",
    "std::sync::mutex",
    "absl::Mutex::",
];

/// The same of those that are called only where somebody waits for it.
const CONTENDED: [&str; 8] = [
    "lll_lock_w",
    "futex_",
    "lock_contended",
    "unlock_contended",
    "lock_slow",
    "unlock_slow",
    "lock_shared_slow",
    "futex::Mutex::wake",
];

/// Which locks are taken where.
pub struct LockCalls<'a> {
    trace: &'a Trace,
    own: OwnFrames,
    /// By place: how many waits on futexes began or ended there, and how many of them for each lock.
    places: BTreeMap<FrameId, Counts>,
    /// The same of all places.
    all: Counts,
}

/// Waits on futexes.
#[derive(Clone, Debug, Default)]
struct Counts {
    all: u64,
    of_lock: BTreeMap<u32, u64>,
}

impl Counts {
    fn add(&mut self, lock: Option<u32>, count: u64) {
        self.all += count;
        if let Some(lock) = lock {
            *self.of_lock.entry(lock).or_default() += count;
        }
    }

    fn share(&self, lock: u32) -> f64 {
        self.of_lock.get(&lock).copied().unwrap_or(0) as f64 / self.all.max(1) as f64
    }
}

/// Which samples count for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Calls {
    /// In the kernel, and in functions that are called for no other end: a lock that nobody waits for never goes there.
    Contended,
    /// And in the functions that take it and let it go.
    Whole,
}

impl<'a> LockCalls<'a> {
    /// Looks at all waits on futexes.
    pub fn new(trace: &'a Trace, locks: &LockIndex) -> LockCalls<'a> {
        let own = OwnFrames::new(trace);
        let (mut places, mut all) = (BTreeMap::<FrameId, Counts>::new(), Counts::default());
        let mut known = Places::new(trace, &own);
        for slice in trace.target_threads().flat_map(|thread| trace.slices.of(thread)) {
            let wait = trace.wait(slice.wait);
            if slice.state != ThreadState::Blocked || wait.syscall != FUTEX {
                continue;
            }
            let lock = locks.of(slice.wait).filter(|_| wait.reason != WaitReason::MmapLock);
            all.add(lock, 1);
            if let Some(place) = known.of(slice.stack) {
                places.entry(place).or_default().add(lock, u64::from(slice.stack_every.max(1)));
            }
            let wakeup = trace.ended_by(&slice);
            if let Some((place, wakeup)) = wakeup.and_then(|wakeup| Some((known.of(wakeup.stack)?, wakeup))) {
                places.entry(place).or_default().add(lock, u64::from(wakeup.stack_every.max(1)));
            }
        }
        drop(known);
        LockCalls { trace, own, places, all }
    }

    /// Of each sample, which share (0 to 1) of it is in calls for that lock.
    pub fn shares(&self, lock: u32, calls: Calls) -> impl Fn(&SampleRow) -> f64 + '_ {
        let mut of_stack: HashMap<StackId, (Option<FrameId>, Option<Calls>)> = HashMap::new();
        for sample in &self.trace.samples {
            of_stack.entry(sample.stack).or_insert_with(|| self.place(sample.stack));
        }
        move |sample| {
            let in_futex = sample.in_kernel && sample.syscall == FUTEX;
            let (place, reached) = of_stack.get(&sample.stack).copied().unwrap_or((None, None));
            if !in_futex && reached.is_none_or(|reached| reached > calls) {
                return 0.0;
            }
            match place.and_then(|place| self.places.get(&place)) {
                Some(counts) => counts.share(lock),
                // It is in futex(2), and no stack says for what.
                None if in_futex && place.is_none() => self.all.share(lock),
                None => 0.0,
            }
        }
    }

    /// Where in the program a stack is, and whether it is in a function there that takes or lets go a lock: which set of
    /// calls is the first to have it.
    fn place(&self, stack: StackId) -> (Option<FrameId>, Option<Calls>) {
        let mut reached: Option<Calls> = None;
        for id in self.trace.stack_frames(stack) {
            if let Some(place) = self.own.of(id) {
                return (Some(place), reached);
            }
            let frame = self.trace.frames.get(id.index()).filter(|frame| frame.kind != FrameKind::Kernel);
            let calls = frame.and_then(|frame| calls_of(&frame.function));
            reached = [reached, calls].into_iter().flatten().min();
        }
        (None, reached)
    }
}

/// Of a function by its name.
fn calls_of(name: &str) -> Option<Calls> {
    let name = name.trim_start_matches(['_', '<']);
    let is_locking = LOCKING.iter().any(|start| name.starts_with(start));
    let is_contended = is_locking && CONTENDED.iter().any(|part| name.contains(part));
    is_locking.then_some(if is_contended { Calls::Contended } else { Calls::Whole })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_into_the_kernel_is_known_by_name() {
        for name in [
            "__lll_lock_wait",
            "__lll_lock_wake",
            "futex_wait",
            "std::sys::sync::mutex::futex::Mutex::lock_contended",
        ] {
            assert_eq!(calls_of(name), Some(Calls::Contended), "{name}");
        }
        for name in ["___pthread_mutex_lock", "lll_mutex_unlock_optimized", "__pthread_mutex_unlock_usercnt"]
        {
            assert_eq!(calls_of(name), Some(Calls::Whole), "{name}");
        }
        assert_eq!((calls_of("malloc"), calls_of("count_word")), (None, None));
    }
}
