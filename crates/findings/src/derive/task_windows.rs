//! When waits of a runtime's tasks were recorded, how many tasks waited, and which idle threads could have
//! run a waiting task.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use holdup_events::tables::{Slice, TaskWindowRow};
use holdup_events::{ProcessId, ThreadId, Timestamp, Trace};

/// The windows of a recording, and the waits of one kind within them.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Windows in which all waits of a process were recorded, in time order.
    windows: BTreeMap<ProcessId, Vec<(Timestamp, Timestamp)>>,
    /// Times in which at least one, two, … tasks of a process waited.
    levels: BTreeMap<ProcessId, Vec<Stretches>>,
}

/// Stretches of time that do not overlap, in order.
#[derive(Clone, Debug, Default)]
struct Stretches {
    all: Vec<(Timestamp, Timestamp)>,
    /// Total length of the previous stretches (ns).
    before_ns: Vec<u64>,
}

impl Stretches {
    fn push(&mut self, from: Timestamp, to: Timestamp) {
        if from >= to {
            return;
        }
        if let Some(last) = self.all.last_mut().filter(|last| last.1 >= from) {
            last.1 = last.1.max(to);
            return;
        }
        let before = self.all.last().map_or(0, |last| last.1.since(last.0).0);
        self.before_ns.push(self.before_ns.last().map_or(0, |ns| ns + before));
        self.all.push((from, to));
    }

    /// Total length up to a moment (ns).
    fn until(&self, at: Timestamp) -> u64 {
        let behind = self.all.partition_point(|(from, _)| *from < at);
        let Some(last) = behind.checked_sub(1) else { return 0 };
        let (from, to) = self.all[last];
        self.before_ns[last] + at.min(to).since(from).0
    }

    /// Total length within a range (ns).
    fn within(&self, from: Timestamp, to: Timestamp) -> u64 {
        self.until(to).saturating_sub(self.until(from))
    }
}

impl Observed {
    /// From the windows of a recording, without waits.
    pub(super) fn new(rows: &[TaskWindowRow]) -> Observed {
        Observed { windows: windows(rows), levels: BTreeMap::new() }
    }

    /// Adds the waits of a process's tasks. `cpus`: more tasks than these could not run at once.
    pub(super) fn add_waits(
        &mut self,
        process: ProcessId,
        spans: impl Iterator<Item = (Timestamp, Timestamp)>,
        cpus: u32,
    ) {
        self.levels.insert(process, levels(spans, cpus));
    }

    /// Share of a process's life in which its tasks' waits were recorded (0 to 1).
    pub fn recorded_share(&self, trace: &Trace, process: ProcessId) -> f64 {
        let (told_ns, life_ns) = self.recorded_ns(trace, process);
        (told_ns as f64 / life_ns.max(1) as f64).min(1.0)
    }

    /// Time in which waits of a process's tasks were recorded, and the length of its life (ns).
    pub fn recorded_ns(&self, trace: &Trace, process: ProcessId) -> (u64, u64) {
        let threads = || trace.threads.iter().filter(|thread| thread.process == process);
        let (Some(from), Some(to)) =
            (threads().map(|thread| thread.start).min(), threads().map(|thread| thread.end).max())
        else {
            return (0, 0);
        };
        let windows = self.windows.get(&process).into_iter().flatten();
        let inside = |(start, end): &(Timestamp, Timestamp)| (*end).min(to).since((*start).max(from)).0;
        (windows.map(inside).sum(), to.since(from).0)
    }

    /// Number of the window in which a moment lies, or of the last window before it. `None` before the first.
    pub(super) fn window(&self, process: ProcessId, at: Timestamp) -> Option<usize> {
        self.windows.get(&process)?.partition_point(|(start, _)| *start <= at).checked_sub(1)
    }

    /// Whether all waits of a process's tasks were recorded throughout a slice.
    pub fn is_recorded(&self, process: ProcessId, slice: &Slice) -> bool {
        let Some(windows) = self.windows.get(&process) else { return false };
        let behind = windows.partition_point(|(start, _)| *start <= slice.start);
        behind.checked_sub(1).is_some_and(|last| windows[last].1 >= slice.end)
    }

    /// Idle waits during most of which a task waited. At each time their number is at most that of
    /// the waiting tasks. Outside the windows, the number of waiting tasks is the smaller one of the windows
    /// before and after.
    pub fn could_have_run(&self, process: ProcessId, idle: &[Slice]) -> BTreeSet<(ThreadId, Timestamp)> {
        let none = Vec::new();
        let levels = self.levels.get(&process).unwrap_or(&none);
        let means = self.means(process);
        let mut order: Vec<&Slice> = idle.iter().collect();
        order.sort_by_key(|slice| (slice.start, slice.thread));
        let mut taken: BinaryHeap<Reverse<Timestamp>> = BinaryHeap::new();
        let mut could = BTreeSet::new();
        for slice in order {
            while taken.peek().is_some_and(|Reverse(end)| *end <= slice.start) {
                taken.pop();
            }
            let is_beside = match self.is_recorded(process, slice) {
                true => {
                    let level = levels.get(taken.len());
                    let beside = level.map_or(0, |level| level.within(slice.start, slice.end));
                    2 * beside > slice.duration().0
                }
                false => near(&means, slice) >= taken.len() as f64 + 1.0,
            };
            if is_beside {
                taken.push(Reverse(slice.end));
                could.insert((slice.thread, slice.start));
            }
        }
        could
    }

    /// Mean number of waiting tasks in each window, limited to the number that could have run in parallel.
    fn means(&self, process: ProcessId) -> Vec<(Timestamp, Timestamp, f64)> {
        let (Some(windows), Some(levels)) = (self.windows.get(&process), self.levels.get(&process)) else {
            return Vec::new();
        };
        let mean = |(from, to): &(Timestamp, Timestamp)| {
            let waited: u64 = levels.iter().map(|level| level.within(*from, *to)).sum();
            (*from, *to, waited as f64 / to.since(*from).0.max(1) as f64)
        };
        windows.iter().map(mean).collect()
    }
}

/// Smaller mean of the windows before and after a slice.
fn near(means: &[(Timestamp, Timestamp, f64)], slice: &Slice) -> f64 {
    let behind = means.partition_point(|(from, ..)| *from <= slice.start);
    let before = behind.checked_sub(1).and_then(|last| means.get(last));
    let sides = before.into_iter().chain(means.get(behind)).map(|(.., mean)| *mean);
    sides.reduce(f64::min).unwrap_or(0.0)
}

fn windows(rows: &[TaskWindowRow]) -> BTreeMap<ProcessId, Vec<(Timestamp, Timestamp)>> {
    let mut all: BTreeMap<ProcessId, Vec<(Timestamp, Timestamp)>> = BTreeMap::new();
    for row in rows {
        all.entry(row.process).or_default().push((row.start, row.end));
    }
    all.values_mut().for_each(|of| of.sort_unstable());
    all
}

/// Times in which at least one, two, … tasks waited.
fn levels(spans: impl Iterator<Item = (Timestamp, Timestamp)>, cpus: u32) -> Vec<Stretches> {
    let mut turns: Vec<(Timestamp, i64)> = spans.flat_map(|(start, end)| [(start, 1), (end, -1)]).collect();
    turns.sort_unstable();
    let mut levels = vec![Stretches::default(); cpus.max(1) as usize];
    let mut waiting = 0i64;
    let mut since = Timestamp(0);
    for (at, change) in turns {
        let many = usize::try_from(waiting).unwrap_or(0).min(levels.len());
        levels[..many].iter_mut().for_each(|level| level.push(since, at));
        (waiting, since) = (waiting + change, at);
    }
    levels
}
