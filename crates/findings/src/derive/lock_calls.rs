//! CPU cost of locks: the calls that acquire and release them.
//!
//! An uncontended lock is acquired without the kernel, in a few nanoseconds. A contended lock costs a
//! futex(2) call per sleep and per wakeup, and cache-line transfers.
//!
//! Samples in such a call count for the locks that threads waited for, or woke waiters of, at the same place
//! of the program. If there are several, each gets its share of the waits. Descriptors define these functions
//! (role `lock`, on CPU). Accesses to the lock's word are found without them (`lock_lines`).

use std::collections::{BTreeMap, HashMap};

use holdup_events::tables::{SampleRow, ThreadState};
use holdup_events::{FrameId, StackId, Trace, WaitReason};

use super::lock_lines::LockLines;
use super::locks::LockIndex;
use super::own_places::OwnFrames;
use super::roles::Roles;
use super::syscall_names::FUTEX;

/// Which locks are taken where.
pub struct LockCalls<'a> {
    trace: &'a Trace,
    own: OwnFrames,
    /// By frame: which set of calls is the first to have its function.
    code: Vec<Option<Calls>>,
    /// By place: how many waits on futexes began or ended there, and how many of them for each lock.
    places: BTreeMap<FrameId, Counts>,
    /// The same for all places.
    all: Counts,
    /// Cost of the locks' cache lines.
    lines: LockLines,
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
    /// Samples in the kernel, in functions that only run under contention, and in transfers of the word's
    /// cache line. An uncontended lock has none of them.
    Contended,
    /// The same, and samples in the functions that acquire and release the lock.
    Whole,
}

impl<'a> LockCalls<'a> {
    /// Evaluates all futex waits.
    pub fn new(trace: &'a Trace, locks: &LockIndex, roles: &Roles) -> LockCalls<'a> {
        let calls = |contended| if contended { Calls::Contended } else { Calls::Whole };
        let code: Vec<Option<Calls>> =
            roles.lock_code(trace).into_iter().map(|contended| contended.map(calls)).collect();
        let own = OwnFrames::new(trace);
        let (mut places, mut all) = (BTreeMap::<FrameId, Counts>::new(), Counts::default());
        let mut known: HashMap<StackId, Option<FrameId>> = HashMap::new();
        let mut place_of =
            |stack| *known.entry(stack).or_insert_with(|| place(trace, (&own, &code), stack).0);
        for slice in trace.target_threads().flat_map(|thread| trace.slices.of_thread(thread)) {
            let wait = trace.wait(slice.wait);
            if slice.state != ThreadState::Blocked || wait.syscall != FUTEX {
                continue;
            }
            let lock = locks.of_slice(&slice).filter(|_| wait.reason != WaitReason::MmapLock);
            all.add(lock, 1);
            if let Some(place) = place_of(slice.stack) {
                places.entry(place).or_default().add(lock, u64::from(slice.stack_every.max(1)));
            }
            let wakeup = trace.ended_by(&slice);
            if let Some((place, wakeup)) = wakeup.and_then(|wakeup| Some((place_of(wakeup.stack)?, wakeup))) {
                places.entry(place).or_default().add(lock, u64::from(wakeup.stack_every.max(1)));
            }
        }
        LockCalls { trace, own, code, places, all, lines: LockLines::new(trace, locks) }
    }

    /// Share (0 to 1) of each sample that belongs to that lock.
    pub fn shares(&self, lock: u32, calls: Calls) -> impl Fn(&SampleRow) -> f64 + '_ {
        let mut of_stack: HashMap<StackId, (Option<FrameId>, Option<Calls>)> = HashMap::new();
        for sample in &self.trace.samples {
            let place = || place(self.trace, (&self.own, &self.code), sample.stack);
            of_stack.entry(sample.stack).or_insert_with(place);
        }
        move |sample| {
            let found = of_stack.get(&sample.stack).copied().unwrap_or((None, None));
            self.in_calls(sample, found, (lock, calls)).max(self.lines.share(self.trace, lock, sample))
        }
    }

    /// Which share (0 to 1) of a sample at that place is in calls for a lock.
    fn in_calls(
        &self,
        sample: &SampleRow,
        (place, reached): (Option<FrameId>, Option<Calls>),
        (lock, calls): (u32, Calls),
    ) -> f64 {
        let in_futex = sample.in_kernel && sample.syscall == FUTEX;
        if !in_futex && reached.is_none_or(|reached| reached > calls) {
            return 0.0;
        }
        match place.and_then(|place| self.places.get(&place)) {
            Some(counts) => counts.share(lock),
            // The sample is in futex(2), and no stack identifies the lock.
            None if in_futex && place.is_none() => self.all.share(lock),
            None => 0.0,
        }
    }
}

/// The program's function that a stack is in, and the first set of calls that contains the stack. A function
/// that acquires or releases a lock is not a place, even if it is in the program's own binary.
fn place(
    trace: &Trace,
    (own, code): (&OwnFrames, &[Option<Calls>]),
    stack: StackId,
) -> (Option<FrameId>, Option<Calls>) {
    let mut reached: Option<Calls> = None;
    for id in trace.stack_frames(stack) {
        let calls = code.get(id.index()).copied().flatten();
        if let Some(place) = own.own_frame(id).filter(|_| calls.is_none()) {
            return (Some(place), reached);
        }
        reached = [reached, calls].into_iter().flatten().min();
    }
    (None, reached)
}
