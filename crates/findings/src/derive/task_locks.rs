//! Locks that a runtime's tasks wait for: kind, place, wait time, and the holders' activity. Also the idle
//! threads that could have run a waiting task.
//!
//! A lock is identified by its address. Locks that are acquired at one place of the program are one kind
//! (such as the shards of a map). The holder is the thread that releases the lock to the next waiter, since
//! the previous release. Other threads may acquire a runtime's lock in between without having waited. Their
//! time is included.

use std::collections::{BTreeMap, HashMap};

use holdup_events::tables::TaskWaitRow;
use holdup_events::{FrameId, ProcessId, StackId, ThreadId, Timestamp, Trace};

use super::class::Class;
use super::ledger::class_of_slice;
use super::own_places::{OwnFrames, Places};
use super::roles::Roles;
use super::task_windows::Observed;

/// Locks that tasks take at one place of the program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskLock {
    /// Process of the lock.
    pub process: ProcessId,
    /// Where most of the waiting for it began.
    pub place: String,
    /// Function of the runtime or library through which tasks acquire it: the kind of lock.
    pub through: String,
    /// Number of locks.
    pub objects: u64,
    /// Waits that were seen.
    pub waits: u64,
    /// Total wait time (ns).
    pub wait_ns: u64,
    /// Longest wait (ns).
    pub longest_ns: u64,
    /// Other places of waits, by wait time (ns), largest first.
    pub elsewhere: Vec<(String, u64)>,
    /// Places of the releases, by the wait time that they ended (ns), largest first.
    pub let_go: Vec<(String, u64)>,
    /// Activity of the releasing threads while tasks waited (ns), largest first.
    pub holder_activity: Vec<(Held, u64)>,
    /// Waits of the releasing threads that mostly overlap with other waits for the lock: thread and start.
    pub held: Vec<(ThreadId, Timestamp)>,
}

/// Activity of a lock's holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Held {
    /// Running.
    Ran,
    /// Waiting for a CPU, or blocked.
    Waited(Class),
}

/// The locks of a recording's tasks.
#[derive(Clone, Debug, Default)]
pub struct TaskLocks {
    /// Longest wait time first.
    pub locks: Vec<TaskLock>,
    /// When waits were recorded, and how many tasks waited for locks.
    pub observed: Observed,
}

impl TaskLocks {
    /// Mean number of tasks that waited for a lock while waits were recorded. Tasks that waited throughout a
    /// window are not included.
    pub fn waiting(&self, trace: &Trace, lock: &TaskLock) -> f64 {
        let (told_ns, _) = self.observed.recorded_ns(trace, lock.process);
        lock.wait_ns as f64 / told_ns.max(1) as f64
    }
}

/// Derives them. `cpus`: more tasks than these could not run at once.
pub fn derive(trace: &Trace, roles: &Roles, cpus: u32) -> TaskLocks {
    let all = &trace.task_waits;
    let mut found = TaskLocks { observed: Observed::new(&all.windows), ..TaskLocks::default() };
    if all.rows.is_empty() {
        return found;
    }
    let known = locks_of_wakers(trace, roles);
    let mut by_process: BTreeMap<ProcessId, Vec<(u64, &TaskWaitRow)>> = BTreeMap::new();
    for row in &all.rows {
        let process = trace.threads[row.thread.index()].process;
        if let Some(lock) = known.lock(process, row) {
            by_process.entry(process).or_default().push((lock, row));
        }
    }
    let own = OwnFrames::new(trace);
    let mut named = Named::new(trace, &own);
    for (process, mut rows) in by_process {
        rows.sort_by_key(|(_, row)| (row.end, row.start, row.thread));
        let spans = rows.iter().map(|(_, row)| (row.start, row.end));
        found.observed.add_waits(process, spans, cpus);
        found.locks.extend(locks(&mut named, (trace, roles), process, &rows));
    }
    found.locks.sort_by(|a, b| b.wait_ns.cmp(&a.wait_ns).then_with(|| a.place.cmp(&b.place)));
    found
}

/// Which wait is for which lock.
struct LocksOf {
    /// By stack: whether tasks begin to wait for locks there.
    stacks: Vec<bool>,
    /// By stack of the release: the lock, for waits on an unknown object.
    let_go: HashMap<(ProcessId, StackId), u64>,
}

impl LocksOf {
    fn lock(&self, process: ProcessId, row: &TaskWaitRow) -> Option<u64> {
        match row.object {
            0 => self.let_go.get(&(process, row.waker_stack)).copied(),
            object => self.stacks.get(row.stack.index()).is_some_and(|is_one| *is_one).then_some(object),
        }
    }
}

/// Assigns releasing stacks to locks. A stack mostly releases the same lock.
fn locks_of_wakers(trace: &Trace, roles: &Roles) -> LocksOf {
    let code = roles.task_lock_code(trace);
    let is_code = |frame: FrameId| code.get(frame.index()).copied().unwrap_or(false);
    let stacks = 0..trace.stacks.rows().len() as u32;
    let stacks = stacks.map(|stack| trace.stack_frames(StackId(stack)).any(is_code)).collect();
    let mut found = LocksOf { stacks, let_go: HashMap::new() };
    let mut votes: BTreeMap<(ProcessId, StackId), BTreeMap<u64, u64>> = BTreeMap::new();
    for row in trace.task_waits.rows.iter().filter(|row| row.object != 0 && row.waker_stack != StackId::NONE)
    {
        let process = trace.threads[row.thread.index()].process;
        // Waits that are not for a lock vote too.
        let lock = found.lock(process, row).unwrap_or(0);
        *votes.entry((process, row.waker_stack)).or_default().entry(lock).or_default() += 1;
    }
    for (by, votes) in votes {
        let most = ranked(&votes).first().map_or(0, |(lock, _)| *lock);
        if most != 0 {
            found.let_go.insert(by, most);
        }
    }
    found
}

/// Names of places by stack, each found once.
pub(super) struct Named<'a> {
    trace: &'a Trace,
    own: &'a OwnFrames,
    places: Places<'a>,
    names: HashMap<StackId, (String, String)>,
}

impl<'a> Named<'a> {
    pub(super) fn new(trace: &'a Trace, own: &'a OwnFrames) -> Named<'a> {
        Named { trace, own, places: Places::new(trace, own), names: HashMap::new() }
    }

    /// The program's own function nearest to the leaf, and the library function through which it waits there.
    pub(super) fn names_of(&mut self, stack: StackId) -> &(String, String) {
        let Named { trace, own, places, names } = self;
        names.entry(stack).or_insert_with(|| {
            let name = |frame| trace.frame_name(frame);
            let place = places.nearest_own(stack).map(name).unwrap_or_default();
            let through = own.asked_through(trace, stack).map(name).unwrap_or_default();
            (place, through)
        })
    }
}

/// The waits for one lock, in the order of their ends.
fn locks(
    named: &mut Named<'_>,
    facts: (&Trace, &Roles),
    process: ProcessId,
    rows: &[(u64, &TaskWaitRow)],
) -> Vec<TaskLock> {
    let mut by_object: BTreeMap<u64, Vec<&TaskWaitRow>> = BTreeMap::new();
    for (lock, row) in rows {
        by_object.entry(*lock).or_default().push(row);
    }
    let mut kinds: BTreeMap<String, Sums> = BTreeMap::new();
    for rows in by_object.values() {
        let mut places: BTreeMap<String, u64> = BTreeMap::new();
        let mut through: BTreeMap<String, u64> = BTreeMap::new();
        for row in rows.iter().filter(|row| row.stack != StackId::NONE) {
            let ns = row.end.since(row.start).0;
            let (place, by) = named.names_of(row.stack).clone();
            *places.entry(place).or_default() += ns;
            *through.entry(by).or_default() += ns;
        }
        let first = ranked(&places).first().map(|(place, _)| place.clone()).unwrap_or_default();
        let sums = kinds.entry(first).or_default();
        sums.objects += 1;
        sums.add(named, facts, rows);
        places.into_iter().for_each(|(place, ns)| *sums.places.entry(place).or_default() += ns);
        through.into_iter().for_each(|(by, ns)| *sums.through.entry(by).or_default() += ns);
    }
    kinds.into_iter().map(|(place, sums)| sums.lock(process, place)).collect()
}

#[derive(Default)]
struct Sums {
    objects: u64,
    waits: u64,
    wait_ns: u64,
    longest_ns: u64,
    places: BTreeMap<String, u64>,
    through: BTreeMap<String, u64>,
    let_go: BTreeMap<String, u64>,
    holder_activity: BTreeMap<Held, u64>,
    /// For each wait of a holder: the part that overlaps with other waits for the lock, and its length (ns).
    held: BTreeMap<(ThreadId, Timestamp), (u64, u64)>,
}

impl Sums {
    /// Waits for one lock, in the order of their ends.
    fn add(&mut self, named: &mut Named<'_>, facts: (&Trace, &Roles), rows: &[&TaskWaitRow]) {
        for row in rows {
            let ns = row.end.since(row.start).0;
            self.waits += 1;
            self.wait_ns += ns;
            self.longest_ns = self.longest_ns.max(ns);
            let (place, _) = named.names_of(row.waker_stack);
            if row.waker.is_some() && !place.is_empty() {
                *self.let_go.entry(place.clone()).or_default() += ns;
            }
        }
        self.hold(facts, rows);
    }

    /// Adds the activity of the releasing thread since the first waiter arrived and since the previous
    /// release. A thread that releases several waiters at once, like a writer that releases readers, counts
    /// once.
    fn hold(&mut self, (trace, roles): (&Trace, &Roles), rows: &[&TaskWaitRow]) {
        let woken = rows.iter().filter_map(|row| Some((row.waker?, *row)));
        let runs = woken.map(|(waker, row)| ((waker, trace.slices.covering(waker, row.end)), row));
        let runs: Vec<_> = runs.collect();
        let mut let_go_at = Timestamp(0);
        for of_one in runs.chunk_by(|(one, _), (other, _)| one == other) {
            let starts = of_one.iter().map(|(_, row)| row.start);
            let (Some(since), Some(((waker, _), last))) = (starts.min(), of_one.last()) else { continue };
            self.did((trace, roles), *waker, (since.max(let_go_at), last.end));
            let_go_at = last.end;
        }
    }

    /// Adds a thread's activity in a time range in which it held the lock.
    fn did(
        &mut self,
        (trace, roles): (&Trace, &Roles),
        thread: ThreadId,
        (from, to): (Timestamp, Timestamp),
    ) {
        let Some(first) = trace.slices.covering(thread, from).filter(|_| to > from) else { return };
        let rows = first..trace.slices.rows(thread).end;
        for slice in rows.map(|row| trace.slices.at(thread, row)).take_while(|slice| slice.start < to) {
            let ns = slice.end.min(to).since(slice.start.max(from)).0;
            let wakeups = trace.wakeups.of_thread(thread);
            let before = wakeups.partition_point(|wakeup| wakeup.at < slice.start);
            let class = class_of_slice((trace, roles), &slice, &mut &wakeups[before..]);
            *self.holder_activity.entry(class.map_or(Held::Ran, Held::Waited)).or_default() += ns;
            if class.is_some_and(Class::waits_outside_program) {
                let sums = self.held.entry((thread, slice.start)).or_insert((0, slice.duration().0));
                sums.0 += ns;
            }
        }
    }

    fn lock(self, process: ProcessId, place: String) -> TaskLock {
        let elsewhere =
            ranked(&self.places).into_iter().filter(|(other, _)| *other != place && !other.is_empty());
        TaskLock {
            process,
            through: ranked(&self.through).into_iter().next().map(|(by, _)| by).unwrap_or_default(),
            objects: self.objects,
            waits: self.waits,
            wait_ns: self.wait_ns,
            longest_ns: self.longest_ns,
            elsewhere: elsewhere.collect(),
            let_go: ranked(&self.let_go),
            holder_activity: ranked(&self.holder_activity),
            held: self.held.iter().filter(|(_, (ns, all))| 2 * ns > *all).map(|(of, _)| *of).collect(),
            place,
        }
    }
}

pub(super) fn ranked<K: Clone + Ord>(sums: &BTreeMap<K, u64>) -> Vec<(K, u64)> {
    let mut all: Vec<(K, u64)> = sums.iter().map(|(key, ns)| (key.clone(), *ns)).collect();
    all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    all
}
