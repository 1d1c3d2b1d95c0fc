//! What each CPU ran when: the running slices of all threads, by CPU.

use std::ops::Range;
use std::slice::IterMut;
use std::sync::{Mutex, PoisonError};

use holdup_events::tables::{Slice, ThreadState, partition_point_near};
use holdup_events::{CpuId, Duration, ThreadId, Timestamp, Trace};

use super::parallel;

/// One stretch of a CPU, at most 4.29 s long (a longer run is several): 16 bytes, because there are as
/// many as switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    start: Timestamp,
    length_ns: u32,
    /// The thread's number, and in the highest bit whether it is the program's.
    who: u32,
}

const OWN: u32 = 1 << 31;

impl Stretch {
    /// A place for one.
    const NONE: Stretch = Stretch { start: Timestamp(0), length_ns: 0, who: 0 };

    /// `thread`, a thread of the traced program if `own`, ran from `start` for `length_ns`.
    pub fn new(start: Timestamp, length_ns: u32, thread: ThreadId, own: bool) -> Stretch {
        Stretch { start, length_ns, who: thread.0 & !OWN | if own { OWN } else { 0 } }
    }

    /// Start.
    #[inline]
    pub fn start(&self) -> Timestamp {
        self.start
    }

    /// End of the stretch. At most the start of the next one.
    #[inline]
    pub fn end(&self) -> Timestamp {
        self.start + Duration(u64::from(self.length_ns))
    }

    /// Thread that ran.
    #[inline]
    pub fn thread(&self) -> ThreadId {
        ThreadId(self.who & !OWN)
    }

    /// Whether the thread belongs to the traced program.
    #[inline]
    pub fn own(&self) -> bool {
        self.who & OWN != 0
    }

    /// Ends at `at` if it ended later.
    fn cut(&mut self, at: Timestamp) {
        let length = u32::try_from(at.since(self.start).0).unwrap_or(u32::MAX);
        self.length_ns = self.length_ns.min(length);
    }
}

/// One CPU's stretches in time order, without overlaps. Prefix sums answer "how long did each side run
/// between two moments" without a walk.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    stretches: Vec<Stretch>,
    /// Time of own and of other threads before each [`STRIDE`]th stretch (ns).
    before: Vec<(u64, u64)>,
}

/// Number of stretches between two prefix sums: a compromise between memory and steps per query.
const STRIDE: usize = 16;

impl Timeline {
    fn new(mut stretches: Vec<Stretch>) -> Timeline {
        // The input has sorted runs (one per thread), which a merge sort exploits.
        stretches.sort_by_key(|stretch| (stretch.start, stretch.length_ns, stretch.who));
        for index in 1..stretches.len() {
            let next = stretches[index].start;
            stretches[index - 1].cut(next);
        }
        let mut before = Vec::with_capacity(stretches.len() / STRIDE + 1);
        let mut sums = (0, 0);
        for (index, stretch) in stretches.iter().enumerate() {
            if index % STRIDE == 0 {
                before.push(sums);
            }
            add(&mut sums, stretch, stretch.end());
        }
        Timeline { stretches, before }
    }

    /// All stretches.
    pub fn stretches(&self) -> &[Stretch] {
        &self.stretches
    }

    /// Number of runs. A long run that is stored as several stretches counts once.
    pub fn runs(&self) -> u64 {
        let goes_on = |pair: &[Stretch]| pair[0].length_ns == u32::MAX && pair[0].end() == pair[1].start;
        let pieces = self.stretches.windows(2).filter(|pair| goes_on(pair) && pair[0].who == pair[1].who);
        (self.stretches.len() - pieces.count()) as u64
    }

    /// The stretches that overlap `from..to`, the first and last not cut.
    pub fn between(&self, from: Timestamp, to: Timestamp) -> &[Stretch] {
        let mut first = self.stretches.partition_point(|stretch| stretch.end() <= from);
        self.between_near(from, to, &mut first)
    }

    /// The same for a caller with queries near each other. `near` is the position of the answer, with any
    /// initial value.
    pub fn between_near(&self, from: Timestamp, to: Timestamp, near: &mut usize) -> &[Stretch] {
        *near = partition_point_near(&self.stretches, *near, |stretch| stretch.end() <= from);
        let behind = partition_point_near(&self.stretches, *near, |stretch| stretch.start < to);
        self.stretches.get(*near..behind).unwrap_or(&[])
    }

    /// The first stretch that overlaps `from..to`.
    pub fn first_in(&self, from: Timestamp, to: Timestamp) -> Option<&Stretch> {
        let first = self.stretches.partition_point(|stretch| stretch.end() <= from);
        self.stretches.get(first).filter(|stretch| stretch.start < to)
    }

    /// Stretch at a moment.
    pub fn at(&self, at: Timestamp) -> Option<&Stretch> {
        let behind = self.stretches.partition_point(|stretch| stretch.start <= at);
        self.stretches.get(behind.checked_sub(1)?).filter(|stretch| at < stretch.end())
    }

    /// Running time of own and other threads before `at` (ns). `cursor` is the position of the answer. If a
    /// caller passes the same cursor for ascending times, a query only costs the distance.
    fn ran_before(&self, at: Timestamp, cursor: &mut usize) -> (u64, u64) {
        *cursor = self.place(at, *cursor);
        let block = cursor.saturating_sub(1) / STRIDE;
        let Some(mut sums) = self.before.get(block).copied() else { return (0, 0) };
        for stretch in &self.stretches[block * STRIDE..*cursor] {
            add(&mut sums, stretch, at);
        }
        sums
    }

    /// Number of stretches that start before `at`.
    #[inline]
    fn place(&self, at: Timestamp, near: usize) -> usize {
        partition_point_near(&self.stretches, near, |stretch| stretch.start < at)
    }

    /// Running time of own and other threads in `from..to` of these stretches (ns).
    fn ran_in(&self, rows: Range<usize>, from: Timestamp, to: Timestamp) -> (u64, u64) {
        let mut sums = (0, 0);
        for stretch in self.stretches.get(rows).unwrap_or_default() {
            let length = stretch.end().min(to).since(stretch.start.max(from)).0;
            if stretch.own() {
                sums.0 += length;
            } else {
                sums.1 += length;
            }
        }
        sums
    }

    /// Running time of own and other threads in `from..to` (ns). `cursor` is as in [`Timeline::ran_before`].
    pub fn ran(&self, from: Timestamp, to: Timestamp, cursor: &mut usize) -> (u64, u64) {
        // The caller's next query may begin before `to` ends on another CPU, but never before `from`.
        *cursor = self.place(from, *cursor);
        let mut end = self.place(to, *cursor);
        if end - *cursor <= STRIDE {
            return self.ran_in(cursor.saturating_sub(1)..end, from, to);
        }
        let earlier = self.ran_before(from, cursor);
        let later = self.ran_before(to, &mut end);
        (later.0 - earlier.0, later.1 - earlier.1)
    }
}

fn add(sums: &mut (u64, u64), stretch: &Stretch, to: Timestamp) {
    let length = stretch.end().min(to).since(stretch.start).0;
    if stretch.own() {
        sums.0 += length;
    } else {
        sums.1 += length;
    }
}

/// The timelines of all CPUs.
#[derive(Clone, Debug, Default)]
pub struct Timelines {
    cpus: Vec<Timeline>,
}

impl Timelines {
    /// Derives them from running slices with a known CPU.
    pub fn derive(trace: &Trace) -> Timelines {
        let groups = parallel::thread_groups(trace);
        let counts = parallel::map(groups.len(), |group| count_by_cpu(trace, groups[group].clone()));
        let cpus = counts.iter().map(Vec::len).max().unwrap_or(0);
        // Each list is made once, in its final size: with tens of millions of rows, growing is what costs.
        let rows = |cpu: usize| counts.iter().filter_map(|count| count.get(cpu)).sum();
        let mut by_cpu: Vec<Vec<Stretch>> = (0..cpus).map(|cpu| vec![Stretch::NONE; rows(cpu)]).collect();
        let mut parts: Vec<Mutex<Vec<IterMut<Stretch>>>> = counts.iter().map(|_| Mutex::default()).collect();
        for (cpu, mut rest) in by_cpu.iter_mut().map(Vec::as_mut_slice).enumerate() {
            for (count, part) in counts.iter().zip(&mut parts) {
                let (own, others) = rest.split_at_mut(count.get(cpu).copied().unwrap_or(0).min(rest.len()));
                part.get_mut().unwrap_or_else(PoisonError::into_inner).push(own.iter_mut());
                rest = others;
            }
        }
        parallel::map(groups.len(), |group| {
            fill(
                trace,
                groups[group].clone(),
                &mut parts[group].lock().unwrap_or_else(PoisonError::into_inner),
            );
        });
        drop(parts);
        let by_cpu: Vec<Mutex<Vec<Stretch>>> = by_cpu.into_iter().map(Mutex::new).collect();
        let take =
            |cpu: usize| by_cpu[cpu].lock().map(|mut all| std::mem::take(&mut *all)).unwrap_or_default();
        Timelines { cpus: parallel::map(cpus, |cpu| Timeline::new(take(cpu))) }
    }

    /// Timeline of one CPU. `None` if it ran nothing, or if `cpu` is unknown.
    pub fn of_cpu(&self, cpu: CpuId) -> Option<&Timeline> {
        self.cpus.get(usize::from(cpu.0)).filter(|timeline| !timeline.stretches.is_empty())
    }

    /// Number of CPUs up to the highest recorded number.
    pub fn len(&self) -> usize {
        self.cpus.len()
    }

    /// Whether no thread ran.
    pub fn is_empty(&self) -> bool {
        self.cpus.is_empty()
    }

    /// Every CPU that ran something, by number.
    pub fn iter(&self) -> impl Iterator<Item = (CpuId, &Timeline)> {
        let numbered = self.cpus.iter().enumerate().map(|(cpu, timeline)| (CpuId(cpu as u16), timeline));
        numbered.filter(|(_, timeline)| !timeline.stretches.is_empty())
    }
}

/// The running slices of a thread that took time on a known CPU, in pieces that a stretch can hold.
fn running(trace: &Trace, thread: ThreadId) -> impl Iterator<Item = (usize, Stretch)> + '_ {
    const LONGEST: u64 = u32::MAX as u64;
    let own = trace.threads[thread.index()].target;
    let runs = trace.slices.of_thread(thread).filter(|slice| {
        slice.state == ThreadState::Running && slice.cpu != CpuId::NONE && slice.end > slice.start
    });
    runs.flat_map(move |slice: Slice| {
        let length = slice.duration().0;
        (0..length.div_ceil(LONGEST)).map(move |piece| {
            let start = slice.start + Duration(piece * LONGEST);
            let length_ns = (length - piece * LONGEST).min(LONGEST) as u32;
            (usize::from(slice.cpu.0), Stretch::new(start, length_ns, thread, own))
        })
    })
}

fn count_by_cpu(trace: &Trace, threads: Range<u32>) -> Vec<usize> {
    let mut counts = Vec::new();
    for (cpu, _) in threads.flat_map(|thread| running(trace, ThreadId(thread))) {
        if counts.len() <= cpu {
            counts.resize(cpu + 1, 0);
        }
        counts[cpu] += 1;
    }
    counts
}

/// Puts the runs of `threads` in their places, by CPU.
fn fill(trace: &Trace, threads: Range<u32>, places: &mut [IterMut<Stretch>]) {
    for (cpu, stretch) in threads.flat_map(|thread| running(trace, ThreadId(thread))) {
        if let Some(place) = places.get_mut(cpu).and_then(Iterator::next) {
            *place = stretch;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_events::tables::{SliceRow, Slices};

    fn alternating(count: u64) -> Timeline {
        let stretch = |index: u64| {
            Stretch::new(Timestamp(index * 10), 8, ThreadId(index as u32 % 3), index.is_multiple_of(3))
        };
        Timeline::new((0..count).map(stretch).collect())
    }

    #[test]
    fn sums_equal_a_walk() {
        let timeline = alternating(100);
        let mut cursor = 0;
        for from in (0..1000).step_by(7) {
            for to in [from, from + 1, from + 9, from + 333, 2000] {
                let (from, to) = (Timestamp(from), Timestamp(to));
                let mut walked = (0, 0);
                for stretch in timeline.between(from, to) {
                    let length = stretch.end().min(to).since(stretch.start.max(from)).0;
                    let sum = if stretch.own() { &mut walked.0 } else { &mut walked.1 };
                    *sum += length;
                }
                assert_eq!(timeline.ran(from, to, &mut cursor), walked, "{from:?} {to:?}");
            }
        }
    }

    #[test]
    fn a_cursor_that_is_too_far_goes_back() {
        let timeline = alternating(50);
        let mut cursor = 50;
        assert_eq!(timeline.ran(Timestamp(0), Timestamp(20), &mut cursor), (8, 8));
    }

    #[test]
    fn a_long_run_is_several_stretches_and_one_run() {
        let mut trace = Trace::default();
        trace.threads.push(holdup_events::tables::Thread { target: true, ..Default::default() });
        let row = SliceRow { state: ThreadState::Running, cpu: CpuId(0), ..SliceRow::default() };
        trace.slices = Slices::freeze(&[vec![row]], vec![Timestamp(10_000_000_000)]);
        let timelines = Timelines::derive(&trace);
        let timeline = timelines.of_cpu(CpuId(0)).unwrap();
        assert_eq!((timeline.stretches().len(), timeline.runs()), (3, 1));
        let all = (Timestamp(0), Timestamp(20_000_000_000));
        assert_eq!(timeline.ran(all.0, all.1, &mut 0), (10_000_000_000, 0));
    }

    #[test]
    fn overlap_is_cut() {
        let stretch = |start| Stretch::new(Timestamp(start), 10, ThreadId(0), true);
        let timeline = Timeline::new(vec![stretch(0), stretch(5)]);
        assert_eq!(timeline.ran(Timestamp(0), Timestamp(20), &mut 0), (15, 0));
    }
}
