//! Derives the holder of each blocked slice from its wait and the wakeup that ended it.

use std::collections::HashMap;

use holdup_events::event::WakeContext;
use holdup_events::tables::{LEAVING_MAX, RowSet, Slice, ThreadState, Wakeup};
use holdup_events::{ThreadId, Timestamp, Trace, Wait, WaitReason};

use super::tenures::{Tenure, Tenures};
use super::{Basis, FALSE_WAKEUP, HoldKind, Holders, NOBODY};
use crate::derive::locks::{self, LockIndex};
use crate::derive::parallel;
use crate::derive::roles::Roles;

/// Maximum running time between two waits on one object for a wakeup in vain (ns). Each lock wait in between,
/// taken to check the condition, adds the same time.
const FALSE_RUN_MAX_NS: u64 = 10_000;
/// Maximum time between wakeups by one call (ns).
const HERD_NS: u64 = 50_000;

pub(super) fn derive(trace: &Trace, locks: &LockIndex, roles: &Roles) -> Holders {
    let tids = Tids::new(trace);
    let groups = parallel::thread_groups(trace);
    let parts = parallel::map(groups.len(), |group| {
        let mut part = Part::default();
        for thread in groups[group].clone().map(ThreadId) {
            if trace.threads[thread.index()].target {
                Walk { trace, locks, roles, tids: &tids, part: &mut part }.thread(thread);
            }
            part.counts.push(part.row.len() as u32);
        }
        part
    });
    let mut herds: Vec<(Herd, ThreadId)> = Vec::new();
    for part in &parts {
        herds.extend(&part.woken);
    }
    herds.sort_unstable();
    let mut owners = vec![None; locks.locks.len()];
    let (mut holders, mut tenures, mut open) = (Holders::default(), Vec::new(), Vec::new());
    holders.of_thread.push(0);
    for part in parts {
        let before = holders.row.len() as u32;
        holders.of_thread.extend(part.counts.iter().map(|count| before + count));
        open.extend(
            part.open.into_iter().map(|entry| Open { index: entry.index + before as usize, ..entry }),
        );
        holders.row.extend(part.row);
        holders.holder.extend(part.holder);
        holders.kind.extend(part.kind);
        holders.basis.extend(part.basis);
        holders.transit_ns.extend(part.transit_ns);
        tenures.extend(part.tenures);
        for (lock, at, owner) in part.owners {
            owners[lock as usize] = owners[lock as usize].max(Some((at, owner)));
        }
        // From the end: the later of a chain is final when the earlier gets its holder.
        for candidate in part.falsely.iter().rev().filter(|candidate| is_herd(&herds, candidate)) {
            fold(&mut holders, before as usize + candidate.index, before as usize + candidate.next);
        }
    }
    holders.rows = RowSet::new(holders.row.iter().copied(), trace.slices.len());
    Tenures::hand_over(&mut tenures, trace);
    holders.tenures = Tenures::new(locks.locks.len(), tenures, &owners);
    for entry in open {
        if let Some(holder) = holders.tenures.before(entry.lock, entry.end).filter(|id| *id != entry.waiter) {
            holders.holder[entry.index] = holder.0;
            holders.basis[entry.index] = Basis::LaterReleaser as u8;
        }
    }
    holders
}

/// Process, object, waker and time of a wakeup.
type Herd = (u32, u64, u32, Timestamp);

/// A wait for a lock that no release attributes to a holder.
struct Open {
    index: usize,
    lock: u32,
    waiter: ThreadId,
    end: Timestamp,
}

/// A wait that was perhaps ended in vain: entry `next`, of the same thread, goes on with it.
struct Candidate {
    index: usize,
    next: usize,
    wakee: ThreadId,
    herd: Herd,
}

/// Entries of some threads.
#[derive(Default)]
struct Part {
    counts: Vec<u32>,
    row: Vec<u32>,
    holder: Vec<u32>,
    kind: Vec<HoldKind>,
    basis: Vec<u8>,
    transit_ns: Vec<u32>,
    tenures: Vec<Tenure>,
    open: Vec<Open>,
    owners: Vec<(u32, Timestamp, ThreadId)>,
    woken: Vec<(Herd, ThreadId)>,
    falsely: Vec<Candidate>,
}

/// Whether the same waker woke another thread from the same object in the same call.
fn is_herd(herds: &[(Herd, ThreadId)], candidate: &Candidate) -> bool {
    let (process, object, waker, at) = candidate.herd;
    let first = (process, object, waker, Timestamp(at.0.saturating_sub(HERD_NS)));
    let from = herds.partition_point(|(herd, _)| *herd < first);
    herds[from..]
        .iter()
        .take_while(|(herd, _)| {
            (herd.0, herd.1, herd.2) == (process, object, waker) && herd.3.0 <= at.0 + HERD_NS
        })
        .any(|(_, wakee)| *wakee != candidate.wakee)
}

/// Merges entry `index` into entry `next`, whose holder is final.
fn fold(holders: &mut Holders, index: usize, next: usize) {
    holders.holder[index] = holders.holder[next];
    holders.basis[index] = holders.basis[next] | FALSE_WAKEUP;
}

/// Threads by the kernel's number.
struct Tids {
    by_tid: HashMap<u32, Vec<ThreadId>>,
}

impl Tids {
    fn new(trace: &Trace) -> Tids {
        let mut by_tid: HashMap<u32, Vec<ThreadId>> = HashMap::new();
        for (row, thread) in trace.threads.iter().enumerate() {
            by_tid.entry(thread.tid).or_default().push(ThreadId(row as u32));
        }
        Tids { by_tid }
    }

    /// Thread that a lock's word names. It belongs to the waiter's process, or to another process of the
    /// program if the word is shared. It must be alive at that time and differ from the waiter.
    fn owner(&self, trace: &Trace, wait: &Wait, slice: &Slice) -> Option<ThreadId> {
        let named = self.by_tid.get(&wait.owner_tid).filter(|_| wait.owner_tid != 0)?;
        let fits = |id: &ThreadId| {
            let thread = &trace.threads[id.index()];
            let is_of_them = thread.process == wait.process || locks::is_shared(wait) && thread.target;
            is_of_them && thread.start <= slice.start && slice.start < thread.end
        };
        named.iter().copied().find(fits).filter(|id| *id != slice.thread)
    }
}

struct Walk<'a> {
    trace: &'a Trace,
    locks: &'a LockIndex,
    roles: &'a Roles,
    tids: &'a Tids,
    part: &'a mut Part,
}

/// The last wait of a thread while it is walked: index of its entry, its slice, and the run after it.
struct Last {
    index: usize,
    slice: Slice,
    woken_by: Option<Wakeup>,
    ran_ns: u64,
    /// Maximum running time for a wakeup in vain (ns).
    look_max_ns: u64,
}

impl Walk<'_> {
    fn thread(&mut self, thread: ThreadId) {
        let mut wakeups = self.trace.wakeups.of_thread(thread);
        let mut last: Option<Last> = None;
        for row in self.trace.slices.rows(thread) {
            let slice = self.trace.slices.at(thread, row);
            match slice.state {
                ThreadState::Blocked => {
                    let woken_by = ending(&slice, &mut wakeups);
                    let index = self.part.row.len();
                    self.entry(row, &slice, woken_by.as_ref());
                    last = Some(match last.take() {
                        Some(last) if self.is_on_the_way(&last, index) => {
                            Last { look_max_ns: last.look_max_ns + FALSE_RUN_MAX_NS, ..last }
                        }
                        before => {
                            if let Some(before) = before {
                                self.candidate(&before, &slice, index);
                            }
                            Last { index, slice, woken_by, ran_ns: 0, look_max_ns: FALSE_RUN_MAX_NS }
                        }
                    });
                }
                ThreadState::Running => {
                    if let Some(last) = &mut last {
                        last.ran_ns += slice.duration().0;
                    }
                }
                state if state.waits_for_cpu() => {}
                _ => last = None,
            }
        }
    }

    /// Whether entry `index` is for the lock that protects a condition, which a woken thread must take to
    /// check it (condition variable).
    fn is_on_the_way(&self, last: &Last, index: usize) -> bool {
        self.part.kind[last.index] == HoldKind::Work && self.part.kind[index] == HoldKind::Lock
    }

    fn entry(&mut self, row: usize, slice: &Slice, wakeup: Option<&Wakeup>) {
        let wait = self.trace.wait(slice.wait);
        let told = HoldKind::from_wait(wait.reason, wait.syscall);
        let mut kind = told.as_class(self.roles.class_of_wait(self.trace, slice));
        let by_timer = wakeup.is_some_and(|wakeup| wakeup.context == WakeContext::Timer);
        if kind == HoldKind::Poll && by_timer {
            kind = HoldKind::Sleep;
        }
        let lock = self.locks.of_slice(slice).filter(|_| kind == HoldKind::Lock);
        let (holder, basis) = match lock {
            Some(lock) => self.lock(lock, slice, wakeup),
            None if !kind.has_holder() => (None, without_holder(kind, wakeup)),
            None => by_waker(self.trace, kind, slice, wakeup),
        };
        let row = row as u32;
        self.part.row.push(row);
        self.part.holder.push(holder.map_or(NOBODY, |id| id.0));
        self.part.kind.push(kind);
        self.part.basis.push(basis as u8);
        let woken = wakeup.map_or(slice.end, |wakeup| wakeup.at.max(slice.start));
        self.part.transit_ns.push(u32::try_from(slice.end.since(woken).0).unwrap_or(u32::MAX));
        if let Some(herd) = wakeup.and_then(|wakeup| herd(kind, wait, wakeup)) {
            self.part.woken.push((herd, slice.thread));
        }
    }

    fn lock(&mut self, lock: u32, slice: &Slice, wakeup: Option<&Wakeup>) -> (Option<ThreadId>, Basis) {
        let wait = self.trace.wait(slice.wait);
        let owner = self.tids.owner(self.trace, wait, slice);
        let by_it = |wakeup: &&Wakeup| {
            let same = wait.reason != WaitReason::Lock || wakeup.waker_object == wait.object;
            by_thread(self.trace, wakeup) && same && wakeup.waker != slice.thread
        };
        if let Some(wakeup) = wakeup.filter(by_it) {
            let (holder, heir) = (wakeup.waker, slice.thread);
            self.part.tenures.push(Tenure { lock, until: wakeup.at, holder, heir, seen: true });
            let basis = if owner == Some(holder) { Basis::OwnerWord } else { Basis::Releaser };
            return (Some(holder), basis);
        }
        let index = self.part.row.len();
        match owner {
            Some(owner) => self.part.owners.push((lock, slice.start, owner)),
            None => self.part.open.push(Open { index, lock, waiter: slice.thread, end: slice.end }),
        }
        match owner {
            Some(owner) => (Some(owner), Basis::OwnerWord),
            None => (None, if wakeup.is_some() { Basis::Unknown } else { Basis::StillWaiting }),
        }
    }

    /// Records `last` as possibly woken in vain, if `next` waits on the same object.
    fn candidate(&mut self, last: &Last, slice: &Slice, next: usize) {
        let (one, other) = (self.trace.wait(last.slice.wait), self.trace.wait(slice.wait));
        let Some(woken_by) = &last.woken_by else { return };
        let same = one.object != 0
            && (one.process, one.reason) == (other.process, other.reason)
            && object_id(one) == object_id(other);
        let herd = herd(self.part.kind[last.index], one, woken_by);
        if let (true, Some(herd)) = (same && last.ran_ns <= last.look_max_ns, herd) {
            self.part.falsely.push(Candidate { index: last.index, next, wakee: slice.thread, herd });
        }
    }
}

/// Key of the call that woke a thread, which may have woken others from the same object. For epoll only the
/// waker and the time are compared. Each thread may have an epoll instance of its own for one socket, which a
/// packet wakes on any CPU.
fn herd(kind: HoldKind, wait: &Wait, wakeup: &Wakeup) -> Option<Herd> {
    const ANY_PROCESS: u32 = u32::MAX;
    match kind {
        HoldKind::Work if wait.object != 0 && wakeup.context == WakeContext::Thread => {
            Some((wait.process.0, object_id(wait), wakeup.waker.0, wakeup.at))
        }
        HoldKind::Poll if wakeup.context != WakeContext::Timer => {
            Some((ANY_PROCESS, 0, wakeup.waker.0, wakeup.at))
        }
        _ => None,
    }
}

/// Id of the object. A glibc condition variable has two adjacent futex words that it uses in turn, which get
/// the same id.
pub(in crate::derive) fn object_id(wait: &Wait) -> u64 {
    if wait.reason == WaitReason::Park { wait.object & !7 } else { wait.object }
}

/// The wakeup that ended this slice, as [`Trace::ended_by`] finds it. Consumes the wakeups up to its end.
fn ending(slice: &Slice, wakeups: &mut &[Wakeup]) -> Option<Wakeup> {
    let mut last = None;
    while let Some((wakeup, rest)) = wakeups.split_first() {
        if wakeup.at > slice.end {
            break;
        }
        last = Some(*wakeup);
        *wakeups = rest;
    }
    last.filter(|wakeup| wakeup.at + LEAVING_MAX >= slice.start)
}

fn without_holder(kind: HoldKind, wakeup: Option<&Wakeup>) -> Basis {
    match (kind, wakeup) {
        (_, None) => Basis::StillWaiting,
        (HoldKind::Sleep, Some(_)) => Basis::Timer,
        (HoldKind::Stopped, Some(_)) => Basis::Unknown,
        _ => Basis::Interrupt,
    }
}

/// A thread did it: not an interrupt, nor an idle CPU's own doing.
fn by_thread(trace: &Trace, wakeup: &Wakeup) -> bool {
    wakeup.context == WakeContext::Thread
        && trace.threads.get(wakeup.waker.index()).is_some_and(|thread| thread.tid != 0)
}

fn by_waker(
    trace: &Trace,
    kind: HoldKind,
    slice: &Slice,
    wakeup: Option<&Wakeup>,
) -> (Option<ThreadId>, Basis) {
    let Some(wakeup) = wakeup else { return (None, Basis::StillWaiting) };
    match wakeup.context {
        WakeContext::Timer => (None, Basis::Timer),
        WakeContext::Thread if wakeup.waker == slice.thread => (None, Basis::Unknown),
        WakeContext::Thread if by_thread(trace, wakeup) => match kind {
            HoldKind::Join | HoldKind::Child => (Some(wakeup.waker), Basis::Exit),
            _ => (Some(wakeup.waker), Basis::Waker),
        },
        _ => (None, Basis::Interrupt),
    }
}
