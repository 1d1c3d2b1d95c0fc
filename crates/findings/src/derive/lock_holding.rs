//! Activity of the holders of contended locks while other threads waited: running, off CPU, asleep, or
//! waiting for another lock. Also the time from a release until the next holder ran.

use std::collections::BTreeMap;

use holdup_events::tables::Slice;
use holdup_events::{CpuId, ThreadId, Timestamp, Trace};

use super::holders::activity::{self, Activity};
use super::holders::{HoldKind, Holders, Tenure};
use super::locks::{LockIndex, LockUse};
use super::parallel;
use super::roles::Roles;
use super::timelines::Timelines;
use crate::charge::Charge;

/// Activity of a holder while other threads wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holding {
    /// Running.
    Runs,
    /// Woken to take the lock, but not yet on a CPU.
    Arrives,
    /// Preempted, or runnable after a wait of its own.
    Queues,
    /// Throttled: the cgroup's CPU quota is used up.
    Throttled,
    /// Blocked on the lock with this number.
    Lock(u32),
    /// Blocked on another object.
    Waits(HoldKind),
    /// Not known.
    Unknown,
}

/// A time range in which a holder had one activity while other threads waited.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stretch {
    /// Start.
    pub from: Timestamp,
    /// End.
    pub to: Timestamp,
    /// Holder of the lock.
    pub holder: ThreadId,
    /// Activity of the holder.
    pub holding: Holding,
    /// The CPU that it waited for, if it was in a run queue.
    pub cpu: CpuId,
    /// Total time of the waiters (thread-ns).
    pub waiting_ns: u64,
    /// Time in which at least one thread waited (ns of wall time).
    pub contended_ns: u64,
}

/// One lock.
#[derive(Clone, Debug, Default)]
pub struct LockHolding {
    /// Number of the lock in the [`LockIndex`].
    pub lock: u32,
    /// Total wait time (ns).
    pub waiting_ns: u64,
    /// Time in which at least one thread waited (ns of wall time).
    pub contended_ns: u64,
    /// Number of releases to a waiter.
    pub releases: u64,
    /// Releases after which the woken waiter was the next to release the lock. No other thread acquired it in
    /// between.
    pub handed: u64,
    /// Wait time of other threads while the holder ran (thread-ns).
    pub run_waiting_ns: u64,
    /// Running time of holders in the kernel while other threads waited (ns, sampled), by syscall. In
    /// futex(2) they take the lock over from a previous holder, or wake the next one.
    pub calls_ns: BTreeMap<i32, u64>,
    /// All other ranges with waiters and a known holder, in time order.
    pub stretches: Vec<Stretch>,
}

impl LockHolding {
    /// Waiting in stretches that `matches` (thread-ns).
    pub fn waiting_while(&self, matches: impl Fn(Holding) -> bool) -> u64 {
        self.stretches.iter().filter(|one| matches(one.holding)).map(|one| one.waiting_ns).sum()
    }

    /// Wall time with waiters in ranges that `matches` accepts (ns).
    pub fn wall_while(&self, matches: impl Fn(Holding) -> bool) -> u64 {
        self.stretches.iter().filter(|one| matches(one.holding)).map(|one| one.contended_ns).sum()
    }

    /// Wall time with waiters in which the next holder was woken but not running (ns). Its CPU ran no other
    /// thread of the program during this time.
    pub fn on_the_way(&self, timelines: &Timelines) -> u64 {
        let arrivals = self.stretches.iter().filter(|one| one.holding == Holding::Arrives);
        arrivals.map(|one| one.contended_ns.min(without_own_threads_ns(timelines, one))).sum()
    }

    /// Holders' time in that syscall while other threads waited (ns, sampled).
    pub fn in_call(&self, syscall: i32) -> u64 {
        self.calls_ns.get(&syscall).copied().unwrap_or(0)
    }

    /// Holders in ranges that `matches` accepts, with the other threads' wait time (ns), largest first.
    pub fn holders_while(&self, matches: impl Fn(Holding) -> bool) -> Vec<(ThreadId, u64)> {
        let mut sums: BTreeMap<ThreadId, u64> = BTreeMap::new();
        for one in self.stretches.iter().filter(|one| matches(one.holding)) {
            *sums.entry(one.holder).or_default() += one.waiting_ns;
        }
        let mut ranked: Vec<(ThreadId, u64)> = sums.into_iter().collect();
        ranked.sort_by_key(|(thread, ns)| (std::cmp::Reverse(*ns), *thread));
        ranked
    }
}

/// Part of the range in which its CPU ran no other thread of the program (ns).
fn without_own_threads_ns(timelines: &Timelines, one: &Stretch) -> u64 {
    let whole = one.to.since(one.from).0;
    let ran = timelines.of_cpu(one.cpu).map_or(0, |timeline| timeline.ran(one.from, one.to, &mut 0).0);
    whole.saturating_sub(ran)
}

/// Maximum number of locks to analyze. Further locks are contended only for a short time.
const LOCKS_MAX: usize = 32;

/// The locks that cost most, by number.
pub fn derive_worst(
    trace: &Trace,
    roles: &Roles,
    locks: (&LockIndex, &Holders),
    uses: &[LockUse],
) -> Vec<LockHolding> {
    let number = |lock: &LockUse| {
        let place = locks.0.locks.iter().position(|key| *key == (lock.process, lock.object, lock.reason));
        place.map(|place| place as u32)
    };
    let mut wanted: Vec<u32> = uses.iter().take(LOCKS_MAX).filter_map(number).collect();
    wanted.sort_unstable();
    wanted.dedup();
    derive((trace, roles), locks, &wanted)
}

/// Waits for each of `wanted` (ascending numbers of locks), and what their holders did.
fn derive(
    (trace, roles): (&Trace, &Roles),
    (locks, holders): (&LockIndex, &Holders),
    wanted: &[u32],
) -> Vec<LockHolding> {
    let waits = waits_of((trace, roles), locks, wanted);
    let calls = KernelSamples::new(trace);
    parallel::map(wanted.len(), |index| {
        let tenures = holders.tenures.of_lock(wanted[index]);
        let mut walk = Walk {
            trace,
            roles,
            locks,
            holders,
            waiting: Waiting::new(&waits[index]),
            near: 0,
            sums: LockHolding {
                lock: wanted[index],
                releases: tenures.iter().filter(|tenure| tenure.seen).count() as u64,
                handed: handed(tenures),
                ..LockHolding::default()
            },
        };
        let Some(first) = walk.waiting.starts.first().copied() else { return walk.sums };
        let last = walk.waiting.ends.last().copied().unwrap_or(first);
        walk.waiting.at = first;
        let mut calls = calls.cursors();
        for held in holders.tenures.over(wanted[index], first, last) {
            if let Some(holder) = held.holder {
                calls.add_to(&mut walk.sums.calls_ns, (holder, held.from, held.to), &walk.waiting);
            }
            let heir = heir_at(tenures, held.from);
            walk.tenure(held.holder, heir, (held.from, held.to));
        }
        walk.sums
    })
}

/// Waits for the lock with at least the share `share_min` in ranges that `matches` accepts, and the holders'
/// slices there.
pub fn charge(
    (trace, roles): (&Trace, &Roles),
    (locks, holding): (&LockIndex, &LockHolding),
    share_min: f64,
    matches: impl Fn(Holding) -> bool,
) -> Charged {
    let spans: Vec<(Timestamp, Timestamp)> =
        holding.stretches.iter().filter(|one| matches(one.holding)).map(|one| (one.from, one.to)).collect();
    let mut before = vec![0];
    for (from, to) in &spans {
        before.push(before[before.len() - 1] + to.since(*from).0);
    }
    let until = |at: Timestamp| {
        let behind = spans.partition_point(|(from, _)| *from < at);
        let cut = behind.checked_sub(1).map_or(0, |last| spans[last].1.since(at.min(spans[last].1)).0);
        before[behind] - cut
    };
    let inside = |slice: &Slice| until(slice.end) - until(slice.start);
    let waits = Charge::matching(trace, |slice| {
        locks.waited((trace, roles), slice) == Some(holding.lock)
            && inside(slice) as f64 >= share_min * slice.duration().0.max(1) as f64
    });
    Charged { waits, held: of_holders(trace, holding, &matches) }
}

/// Cost of such ranges by thread.
#[derive(Clone, Debug, Default)]
pub struct Charged {
    /// The waits for the lock.
    pub waits: Charge,
    /// Activity of the holders during these waits.
    pub held: Charge,
}

impl Charged {
    /// Union of both.
    pub fn both(self, trace: &Trace) -> Charge {
        self.waits.and(trace, &self.held)
    }
}

/// The slices of the holders themselves in stretches that `matches`.
fn of_holders(trace: &Trace, holding: &LockHolding, matches: &impl Fn(Holding) -> bool) -> Charge {
    let mut rows: BTreeMap<ThreadId, Vec<usize>> = BTreeMap::new();
    for one in holding.stretches.iter().filter(|one| matches(one.holding)) {
        if let Some(row) = trace.slices.covering(one.holder, one.from) {
            rows.entry(one.holder).or_default().push(row);
        }
    }
    Charge::of_rows(trace, |thread, take| {
        rows.get(&thread).into_iter().flatten().for_each(|row| take(*row));
    })
}

/// Number of releases after which the woken waiter was the next to release the lock to a waiter.
fn handed(tenures: &[Tenure]) -> u64 {
    let mut seen = tenures.iter().filter(|tenure| tenure.seen).peekable();
    let mut handed = 0;
    while let Some(tenure) = seen.next() {
        handed += u64::from(seen.peek().is_some_and(|next| next.holder == tenure.heir));
    }
    handed
}

/// Waiter that the release at `at` woke.
fn heir_at(tenures: &[Tenure], at: Timestamp) -> Option<ThreadId> {
    let place = tenures.binary_search_by_key(&at, |tenure| tenure.until).ok()?;
    Some(tenures[place].heir)
}

/// The waits for each wanted lock: when they began, and when they ended.
fn waits_of(
    (trace, roles): (&Trace, &Roles),
    locks: &LockIndex,
    wanted: &[u32],
) -> Vec<Vec<(Timestamp, Timestamp)>> {
    let groups = parallel::thread_groups(trace);
    let parts = parallel::map(groups.len(), |group| {
        let mut waits: Vec<Vec<(Timestamp, Timestamp)>> = vec![Vec::new(); wanted.len()];
        let targets = groups[group].clone().map(ThreadId).filter(|id| trace.threads[id.index()].target);
        for slice in targets.flat_map(|thread| trace.slices.of_thread(thread)) {
            let place =
                locks.waited((trace, roles), &slice).and_then(|lock| wanted.binary_search(&lock).ok());
            if let Some(place) = place {
                waits[place].push((slice.start, slice.end));
            }
        }
        waits
    });
    let mut all: Vec<Vec<(Timestamp, Timestamp)>> = vec![Vec::new(); wanted.len()];
    for part in parts {
        for (sum, waits) in all.iter_mut().zip(part) {
            sum.extend(waits);
        }
    }
    all
}

/// Samples in syscalls.
struct KernelSamples {
    /// By thread, in time order.
    at: BTreeMap<ThreadId, Vec<(Timestamp, i32)>>,
    period_ns: u64,
}

impl KernelSamples {
    fn new(trace: &Trace) -> KernelSamples {
        let mut at: BTreeMap<ThreadId, Vec<(Timestamp, i32)>> = BTreeMap::new();
        // Samples are in the order of their threads, then time.
        for sample in trace.samples.iter().filter(|sample| sample.in_kernel && sample.syscall >= 0) {
            at.entry(sample.thread).or_default().push((sample.at, sample.syscall));
        }
        KernelSamples { at, period_ns: trace.manifest.sample_period_ns }
    }

    fn cursors(&self) -> KernelCursors<'_> {
        KernelCursors { samples: self, next: BTreeMap::new() }
    }
}

/// A walk over them.
struct KernelCursors<'a> {
    samples: &'a KernelSamples,
    next: BTreeMap<ThreadId, usize>,
}

impl KernelCursors<'_> {
    /// Adds the time of a thread's samples in a range (ns), if a thread waited at that time. The ranges must
    /// come in time order.
    fn add_to(
        &mut self,
        sums: &mut BTreeMap<i32, u64>,
        (thread, from, to): (ThreadId, Timestamp, Timestamp),
        waiting: &Waiting,
    ) {
        let Some(samples) = self.samples.at.get(&thread) else { return };
        let next = self.next.entry(thread).or_default();
        *next += samples[*next..].partition_point(|(at, _)| *at < from);
        while let Some((at, syscall)) = samples.get(*next).filter(|(at, _)| *at < to) {
            if waiting.has_waiter(*at) {
                *sums.entry(*syscall).or_default() += self.samples.period_ns;
            }
            *next += 1;
        }
    }
}

/// Number of waiters over time.
struct Waiting {
    starts: Vec<Timestamp>,
    ends: Vec<Timestamp>,
    begun: usize,
    ended: usize,
    at: Timestamp,
}

impl Waiting {
    fn new(waits: &[(Timestamp, Timestamp)]) -> Waiting {
        let mut starts: Vec<Timestamp> = waits.iter().map(|(start, _)| *start).collect();
        let mut ends: Vec<Timestamp> = waits.iter().map(|(_, end)| *end).collect();
        starts.sort_unstable();
        ends.sort_unstable();
        Waiting { starts, ends, begun: 0, ended: 0, at: Timestamp(0) }
    }

    /// Whether any thread waits at that moment.
    fn has_waiter(&self, at: Timestamp) -> bool {
        let begun = self.starts.partition_point(|start| *start <= at);
        begun > self.ends.partition_point(|end| *end <= at)
    }

    /// Advances to `to`. Returns the wait time (thread-ns) and the time with at least one waiter (ns).
    fn advance(&mut self, to: Timestamp) -> (u64, u64) {
        let (mut waited, mut contended) = (0, 0);
        while self.at < to {
            let change = |times: &[Timestamp], next: usize| times.get(next).copied().unwrap_or(to);
            while self.starts.get(self.begun).is_some_and(|start| *start <= self.at) {
                self.begun += 1;
            }
            while self.ends.get(self.ended).is_some_and(|end| *end <= self.at) {
                self.ended += 1;
            }
            let next = change(&self.starts, self.begun).min(change(&self.ends, self.ended)).min(to);
            let length = next.since(self.at).0;
            let count = self.begun.saturating_sub(self.ended) as u64;
            waited += length * count;
            contended += if count > 0 { length } else { 0 };
            self.at = next;
        }
        (waited, contended)
    }
}

/// The walk over one lock's tenures.
struct Walk<'a> {
    trace: &'a Trace,
    roles: &'a Roles,
    locks: &'a LockIndex,
    holders: &'a Holders,
    waiting: Waiting,
    /// As in [`activity::between_near`].
    near: usize,
    sums: LockHolding,
}

impl Walk<'_> {
    fn tenure(
        &mut self,
        holder: Option<ThreadId>,
        heir: Option<ThreadId>,
        (from, to): (Timestamp, Timestamp),
    ) {
        let Some(holder) = holder else {
            let (waited, contended) = self.waiting.advance(to);
            self.sums.waiting_ns += waited;
            self.sums.contended_ns += contended;
            return;
        };
        let mut arriving = heir == Some(holder);
        for piece in activity::between_near((self.trace, self.holders), holder, (from, to), &mut self.near) {
            let (waiting_ns, contended_ns) = self.waiting.advance(piece.to);
            self.sums.waiting_ns += waiting_ns;
            self.sums.contended_ns += contended_ns;
            let mut cpu = CpuId::NONE;
            let holding = match piece.activity {
                Activity::Runs(_) => Holding::Runs,
                Activity::Queues { cpu: wanted, .. } => {
                    cpu = wanted;
                    if arriving { Holding::Arrives } else { Holding::Queues }
                }
                Activity::Throttled => Holding::Throttled,
                // Woken to take the lock, but not yet on a run queue, because of an interprocessor interrupt
                // or an idle CPU's exit latency.
                Activity::Wakes if arriving => Holding::Arrives,
                Activity::Waits(hold) => self.waits_for(hold.kind, arriving, piece.slice),
                _ => Holding::Unknown,
            };
            arriving &= holding != Holding::Runs;
            if holding == Holding::Runs {
                self.sums.run_waiting_ns += waiting_ns;
            } else if waiting_ns > 0 {
                let (from, to) = (piece.from, piece.to);
                self.sums.stretches.push(Stretch {
                    from,
                    to,
                    holder,
                    holding,
                    cpu,
                    waiting_ns,
                    contended_ns,
                });
            }
        }
    }

    fn waits_for(&self, kind: HoldKind, arriving: bool, slice: Option<Slice>) -> Holding {
        match slice.and_then(|slice| self.locks.waited((self.trace, self.roles), &slice)) {
            // It is not awake yet, or found the lock taken and sleeps again.
            Some(lock) if lock == self.sums.lock && arriving => Holding::Arrives,
            // The thread acquired the lock later. Until then its holder is unknown.
            Some(lock) if lock == self.sums.lock => Holding::Unknown,
            Some(lock) => Holding::Lock(lock),
            None => Holding::Waits(kind),
        }
    }
}
