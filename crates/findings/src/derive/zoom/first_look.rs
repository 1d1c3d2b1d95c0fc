//! Times in which threads ran, waited for a CPU, and waited, by cell. Slices are read once in storage order
//! and not kept. The purpose and cause of waits require the whole trace.

use holdup_events::tables::{Thread, ThreadState};
use holdup_events::{Duration, ThreadId, Timestamp, Trace};

use super::tiles::{CELLS, Tiling};
use crate::derive::parallel;

/// States that a first look distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// On a CPU.
    Running,
    /// Runnable without a CPU.
    RunQueue,
    /// Blocked or stopped.
    Waiting,
    /// Unknown.
    Unknown,
}

/// Number of states.
pub const DOINGS: usize = 4;

impl Doing {
    /// All, in the order of [`ByDoing`].
    pub const ALL: [Doing; DOINGS] = [Doing::Running, Doing::RunQueue, Doing::Waiting, Doing::Unknown];

    fn from_state(state: ThreadState) -> Doing {
        match state {
            ThreadState::Running => Doing::Running,
            state if state.waits_for_cpu() => Doing::RunQueue,
            ThreadState::Unknown => Doing::Unknown,
            _ => Doing::Waiting,
        }
    }
}

/// Time (ns) by [`Doing`].
pub type ByDoing = [u64; DOINGS];

/// Finest level of detail. Cells of the level above are sums of two cells.
const LEVEL: u32 = 1;
/// Maximum number of workers. Each has sums of its own, and more would gain little.
const WORKERS_MAX: usize = 8;
/// Maximum memory of the cells (bytes). If there are too many threads, the cells get coarser.
const BYTES_MAX: usize = 64 << 20;

/// One thread of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadLook {
    /// Total time by state.
    pub total: ByDoing,
    /// Number of slices.
    pub slices: u64,
    /// Time by state in each cell, and the number of slices that begin there.
    pub cells: Vec<(ByDoing, u32)>,
}

/// Sums by thread and cell, before the whole trace is available.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FirstLook {
    /// Length of a cell, a power of two.
    pub cell: Duration,
    /// By row of the trace's threads. Threads of other programs have no cells.
    pub threads: Vec<ThreadLook>,
}

impl FirstLook {
    /// Empty sums for these threads.
    fn begin(trace: &Trace) -> FirstLook {
        let targets = trace.threads.iter().filter(|thread| thread.target).count().max(1);
        let cell_max = Tiling::new(trace).base_ns() / CELLS as u64;
        let mut cell = Duration((cell_max >> LEVEL).max(1));
        let cells = |cell: Duration| trace.wall().0.max(1).div_ceil(cell.0) as usize;
        let bytes = targets * size_of::<(ByDoing, u32)>();
        while cells(cell) * bytes > BYTES_MAX && cells(cell) > 1 {
            cell = Duration(cell.0 * 2);
        }
        let look = |thread: &Thread| match thread.target {
            true => ThreadLook { cells: vec![Default::default(); cells(cell)], ..ThreadLook::default() },
            false => ThreadLook::default(),
        };
        FirstLook { cell, threads: trace.threads.iter().map(look).collect() }
    }

    /// Adds what another saw of the same threads.
    fn join(&mut self, other: &FirstLook) {
        for (to, from) in self.threads.iter_mut().zip(&other.threads) {
            to.slices += from.slices;
            add(&mut to.total, &from.total);
            for (to, from) in to.cells.iter_mut().zip(&from.cells) {
                add(&mut to.0, &from.0);
                to.1 += from.1;
            }
        }
    }

    /// Adds a slice of a thread. Times are cut to the thread's life.
    fn add(&mut self, trace: &Trace, thread: usize, (from, to, state): (Timestamp, Timestamp, ThreadState)) {
        let (Some(life), Some(look)) = (trace.threads.get(thread), self.threads.get_mut(thread)) else {
            return;
        };
        let doing = Doing::from_state(state) as usize;
        let begin = from.clamp(life.start, life.end).since(trace.start()).0;
        let end = to.clamp(life.start, life.end).since(trace.start()).0.max(begin);
        look.total[doing] += end - begin;
        look.slices += 1;
        // The length is a power of two.
        let shift = self.cell.0.ilog2();
        let (first, last) = ((begin >> shift) as usize, (end >> shift) as usize);
        if let Some(cell) = look.cells.get_mut(first) {
            cell.1 += 1;
            cell.0[doing] += end.min((first as u64 + 1) << shift) - begin;
        }
        for place in first + 1..=last.min(look.cells.len().saturating_sub(1)) {
            let start = (place as u64) << shift;
            look.cells[place].0[doing] += end.min(start + self.cell.0) - start;
        }
    }
}

fn add(to: &mut ByDoing, from: &ByDoing) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
}

/// Receives slices in storage order. Each lasts until the next slice of its thread begins.
pub struct Stretch<'a> {
    trace: &'a Trace,
    look: &'a mut FirstLook,
    /// By thread: start of the first slice, and the last slice, whose end is not yet known.
    ends: Vec<Option<(Timestamp, Timestamp, ThreadState)>>,
}

impl Stretch<'_> {
    /// The next slice of a thread.
    #[inline]
    pub fn push(&mut self, thread: ThreadId, at: Timestamp, state: ThreadState) {
        match self.ends.get_mut(thread.index()) {
            Some(Some((_, last, before))) => {
                let whole = (*last, at, *before);
                (*last, *before) = (at, state);
                self.look.add(self.trace, thread.index(), whole);
            }
            Some(none) => *none = Some((at, at, state)),
            None => {}
        }
    }
}

/// Reads `groups` groups of slices, each of which has a part of every thread's slices, in order. `visit`
/// passes a group's slices and returns whether it succeeded. `None` if it failed.
pub fn derive(
    trace: &Trace,
    groups: usize,
    visit: impl Fn(usize, &mut Stretch<'_>) -> bool + Sync,
) -> Option<FirstLook> {
    let workers = parallel::workers().min(groups).clamp(1, WORKERS_MAX);
    let parts = parallel::map(workers, |worker| {
        let mut look = FirstLook::begin(trace);
        let mut ends = Vec::new();
        for group in (worker..groups).step_by(workers) {
            let none = vec![None; trace.threads.len()];
            let mut stretch = Stretch { trace, look: &mut look, ends: none };
            if !visit(group, &mut stretch) {
                return None;
            }
            ends.push((group, stretch.ends));
        }
        Some((look, ends))
    });
    let (looks, ends): (Vec<_>, Vec<_>) = parts.into_iter().collect::<Option<Vec<_>>>()?.into_iter().unzip();
    let mut ends: Vec<_> = ends.into_iter().flatten().collect();
    ends.sort_unstable_by_key(|(group, _)| *group);
    let mut look = looks.into_iter().reduce(|mut all, one| {
        all.join(&one);
        all
    })?;
    // A slice that is open at the end of a group ends at the start of the thread's next slice. The last one
    // ends with its thread.
    for (thread, life) in trace.threads.iter().enumerate() {
        let mut parts = ends.iter().filter_map(|(_, ends)| ends[thread]).peekable();
        while let Some((_, at, state)) = parts.next() {
            let end = parts.peek().map_or(life.end, |(next, ..)| *next);
            look.add(trace, thread, (at, end, state));
        }
    }
    Some(look)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(lives: &[(u64, u64, bool)]) -> Trace {
        let mut trace = Trace::default();
        (trace.manifest.start_ns, trace.manifest.end_ns) = (1000, 1000 + 4096);
        let thread = |(start, end, target): &(u64, u64, bool)| Thread {
            start: Timestamp(1000 + start),
            end: Timestamp(1000 + end),
            target: *target,
            ..Thread::default()
        };
        trace.threads = lives.iter().map(thread).collect();
        trace
    }

    type Row = (u32, u64, ThreadState);

    fn look(trace: &Trace, groups: &[&[Row]]) -> FirstLook {
        let visit = |group: usize, to: &mut Stretch| {
            let rows = groups[group].iter();
            rows.for_each(|(thread, at, state)| to.push(ThreadId(*thread), Timestamp(1000 + at), *state));
            true
        };
        derive(trace, groups.len(), visit).expect("all groups are there")
    }

    #[test]
    fn slices_are_the_same_however_they_are_stored() {
        use ThreadState::{Blocked, Preempted, Running};
        let trace = trace(&[(0, 4096, true), (100, 3000, true), (0, 4096, false)]);
        let rows = [
            (0, 0, Running),
            (1, 100, Running),
            (2, 0, Running),
            (0, 7, Blocked),
            (0, 900, Running),
            (1, 2000, Preempted),
            (0, 4000, Blocked),
            (1, 2500, Running),
            (0, 4001, Running),
        ];
        let whole = look(&trace, &[&rows]);
        assert_eq!(whole.threads[0].total, [7 + 3100 + 95, 0, 893 + 1, 0]);
        assert_eq!(whole.threads[1].total, [1900 + 500, 500, 0, 0]);
        for at in 0..=rows.len() {
            assert_eq!(look(&trace, &[&rows[..at], &[], &rows[at..]]), whole, "cut at {at}");
        }
        for (thread, life) in [(0, 4096), (1, 2900)] {
            let cells = whole.threads[thread].cells.iter();
            assert_eq!(cells.clone().flat_map(|(ns, _)| ns).sum::<u64>(), life);
            assert_eq!(cells.map(|(_, begin)| u64::from(*begin)).sum::<u64>(), whole.threads[thread].slices);
        }
        assert!(whole.threads[2].cells.is_empty(), "nobody asks for lanes of others");
    }

    #[test]
    fn damage_is_cut_to_lives() {
        let trace = trace(&[(100, 200, true)]);
        let rows =
            [(0, 0, ThreadState::Running), (7, 5, ThreadState::Running), (0, 9000, ThreadState::Blocked)];
        assert_eq!(look(&trace, &[&rows]).threads[0].total, [100, 0, 0, 0]);
        assert_eq!(derive(&trace, 3, |group, _| group != 1), None);
        assert_eq!(derive(&trace, 0, |_, _| true).map(|look| look.threads[0].total), Some([0; DOINGS]));
    }
}
