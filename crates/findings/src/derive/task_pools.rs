//! Pools whose permits or items a runtime's tasks take from a channel and return to it.
//!
//! Two forms occur. In the first, a task sends to a channel with few slots to take a permit, and receives from
//! it to return the permit. In the second, a task receives an item and sends it back. A queue of work looks
//! different: its senders never receive from it. A task that ends a wait at a pool has therefore taken a
//! permit there itself since it returned the previous one.
//!
//! A channel whose items have no content carries no work. If tasks wait to send to it, its slots are permits,
//! or its receivers count signals. The tasks that receive may then be others than those that send: a loop takes
//! a permit for each task that it starts. That evidence is weaker.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use holdup_events::tables::{ChannelWait, TaskWaitRow, ThreadState};
use holdup_events::{ProcessId, StackId, ThreadId, Trace};

use super::cover::{Cover, common_ns};
use super::own_places::OwnFrames;
use super::task_locks::{Named, ranked};
use super::task_windows::Observed;

/// Minimum number of waits. Fewer may be chance.
const WAITS_MIN: usize = 20;
/// Minimum number of tasks that take permits from a pool and return them.
const TASKS_MIN: usize = 2;
/// Minimum share of the waits that a task ended that had itself taken a permit since it returned one.
const RETURNED_MIN: f64 = 0.6;
/// Maximum share of the waits that one task ends. A task with a larger share is a consumer or a producer.
const ONE_TASK_MAX: f64 = 0.6;

/// Evidence that a channel is a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Returns {
    /// Items have no content, and other tasks receive them than send them.
    ByOthers,
    /// The tasks that end waits took a permit there themselves before.
    ByTakers,
}

/// A pool of permits or items that tasks wait for.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskPool {
    /// Process that has the pool.
    pub process: ProcessId,
    /// The program's function in which most of the waiting for it began.
    pub place: String,
    /// Function of the runtime or library through which tasks wait.
    pub through: String,
    /// Tasks send to take a permit. False: they receive an item.
    pub sends: bool,
    /// The tasks that return permits.
    pub returns: Returns,
    /// Slots of the channel: the number of permits, or the maximum number of items.
    pub slots: u32,
    /// Number of tasks that waited.
    pub tasks: u64,
    /// Number of waits.
    pub waits: u64,
    /// Total wait time (ns).
    pub wait_ns: u64,
    /// Time in which at least one task waited (ns of wall time).
    pub waited_ns: u64,
    /// Mean number of the process's threads that ran in that time.
    pub running: f64,
    /// The program's function that most often returned a permit. Empty if unknown.
    pub returned_in: String,
}

/// Pools of a recording.
#[derive(Clone, Debug, Default)]
pub struct TaskPools {
    /// Longest wait time first.
    pub pools: Vec<TaskPool>,
    /// When waits were recorded, and how many tasks waited for pools.
    pub observed: Observed,
}

/// Waits at one channel in one direction, in the order of their ends.
type Waits<'a> = Vec<(&'a TaskWaitRow, ChannelWait)>;

/// Finds all. `cpus`: more tasks than these could not run at once.
pub fn derive(trace: &Trace, cpus: u32) -> TaskPools {
    let mut found = TaskPools { observed: Observed::new(&trace.task_waits.windows), ..TaskPools::default() };
    let own = OwnFrames::new(trace);
    let mut named = Named::new(trace, &own);
    let mut by_process: BTreeMap<ProcessId, Vec<(Waits<'_>, Returns)>> = BTreeMap::new();
    for ((process, ..), waits) in by_channel(trace) {
        if let Some(returns) = returns(&found.observed, process, &waits) {
            by_process.entry(process).or_default().push((waits, returns));
        }
    }
    for (process, pools) in by_process {
        let rows = pools.iter().flat_map(|(waits, _)| waits);
        found.observed.add_waits(process, rows.map(|(row, _)| (row.start, row.end)), cpus);
        found.pools.extend(pools.iter().map(|(waits, returns)| pool(&mut named, trace, (waits, *returns))));
    }
    found.pools.sort_by(|a, b| b.wait_ns.cmp(&a.wait_ns).then_with(|| a.place.cmp(&b.place)));
    found
}

/// Waits at channels with slots, by process, channel and direction.
fn by_channel(trace: &Trace) -> BTreeMap<(ProcessId, u64, bool), Waits<'_>> {
    let mut all: BTreeMap<_, Waits<'_>> = BTreeMap::new();
    for row in &trace.task_waits.rows {
        let Some(channel) = row.channel.filter(|channel| channel.slots > 0) else { continue };
        let process = trace.threads[row.thread.index()].process;
        all.entry((process, row.object, channel.sends)).or_default().push((row, channel));
    }
    all.values_mut().for_each(|waits| waits.sort_by_key(|(row, _)| (row.end, row.start, row.thread)));
    all
}

/// Evidence that these waits are for a pool. `None` if they are not.
fn returns(observed: &Observed, process: ProcessId, waits: &Waits<'_>) -> Option<Returns> {
    if waits.len() < WAITS_MIN {
        return None;
    }
    let mut by_waker: BTreeMap<u64, usize> = BTreeMap::new();
    for (_, channel) in waits {
        *by_waker.entry(channel.waker_task).or_default() += 1;
    }
    let most = by_waker.values().max().copied().unwrap_or(0);
    let tasks: BTreeSet<u64> = waits.iter().map(|(_, channel)| channel.task).collect();
    let first = waits[0].1;
    let share = returned_share(observed, process, waits);
    if share >= RETURNED_MIN && tasks.len() >= TASKS_MIN {
        return Some(Returns::ByTakers);
    }
    let is_signal = first.sends && first.item_bytes == 0;
    let has_many = most as f64 <= ONE_TASK_MAX * waits.len() as f64;
    // A task that both takes and returns, but seldom in turn, is a worker that makes more work.
    let takers_return = by_waker.keys().any(|waker| tasks.contains(waker));
    (is_signal && has_many && !takers_return).then_some(Returns::ByOthers)
}

/// Share of the waits that ended by a permit which the returning task had itself waited for (0 to 1). When
/// recording begins, each permit may be held by a task whose wait was not recorded.
fn returned_share(observed: &Observed, process: ProcessId, waits: &Waits<'_>) -> f64 {
    let (mut returned, mut judged) = (0usize, 0usize);
    for of_window in
        waits.chunk_by(|(a, _), (b, _)| observed.window(process, a.end) == observed.window(process, b.end))
    {
        // Whether the task has taken a permit since it last returned one.
        let mut holds: HashMap<u64, bool> = HashMap::new();
        let (mut of_takers, mut unknown) = (0usize, 0usize);
        for (_, channel) in of_window {
            match holds.insert(channel.waker_task, false) {
                Some(true) => of_takers += 1,
                Some(false) => {}
                None => unknown += 1,
            }
            holds.insert(channel.task, true);
        }
        returned += of_takers;
        let slots = of_window.first().map_or(0, |(_, channel)| channel.slots as usize);
        judged += of_window.len() - unknown.min(slots);
    }
    returned as f64 / judged.max(1) as f64
}

fn pool(named: &mut Named<'_>, trace: &Trace, (waits, returns): (&Waits<'_>, Returns)) -> TaskPool {
    let (mut places, mut through) = (BTreeMap::<String, u64>::new(), BTreeMap::<String, u64>::new());
    let mut returned_in: BTreeMap<String, u64> = BTreeMap::new();
    let mut wait_ns = 0;
    for (row, _) in waits {
        let ns = row.end.since(row.start).0;
        wait_ns += ns;
        if row.stack != StackId::NONE {
            let (place, by) = named.names_of(row.stack).clone();
            *places.entry(place).or_default() += ns;
            *through.entry(by).or_default() += ns;
        }
        if row.waker_stack != StackId::NONE {
            *returned_in.entry(named.names_of(row.waker_stack).0.clone()).or_default() += 1;
        }
    }
    let process = trace.threads[waits[0].0.thread.index()].process;
    let waited = Cover::from_spans(waits.iter().map(|(row, _)| (row.start, row.end)).collect());
    let waited_ns = waited.length_ns();
    let most = |sums: &BTreeMap<String, u64>| {
        ranked(sums).into_iter().next().map(|(name, _)| name).unwrap_or_default()
    };
    TaskPool {
        process,
        place: most(&places),
        through: most(&through),
        sends: waits[0].1.sends,
        returns,
        slots: waits[0].1.slots,
        tasks: waits.iter().map(|(_, channel)| channel.task).collect::<BTreeSet<_>>().len() as u64,
        waits: waits.len() as u64,
        wait_ns,
        waited_ns,
        running: running_ns(trace, process, &waited) as f64 / waited_ns.max(1) as f64,
        returned_in: most(&returned_in),
    }
}

/// Running time of a process's threads within these times (ns).
fn running_ns(trace: &Trace, process: ProcessId, times: &Cover) -> u64 {
    let threads = (0..trace.threads.len() as u32).map(ThreadId);
    let of_process = threads.filter(|thread| trace.threads[thread.index()].process == process);
    let slices = of_process.flat_map(|thread| trace.slices.of_thread(thread));
    let ran = slices.filter(|slice| slice.state == ThreadState::Running);
    ran.map(|slice| {
        let span = (slice.start, slice.end);
        times.within(span).map(|time| common_ns(time, span)).sum::<u64>()
    })
    .sum()
}
