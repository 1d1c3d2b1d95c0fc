//! What each CPU ran when: the running slices of all threads, by CPU.

use holdup_events::tables::ThreadState;
use holdup_events::{CpuId, ThreadId, Timestamp, Trace};

use super::parallel;

/// One stretch of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// From when.
    pub start: Timestamp,
    /// To when; never behind the next one's start.
    pub end: Timestamp,
    /// Who ran.
    pub thread: ThreadId,
    /// It is a thread of the traced program.
    pub own: bool,
}

/// One CPU's stretches in time order, not overlapping, with sums that answer "who ran between
/// two moments" without a walk over them.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    stretches: Vec<Stretch>,
    /// Time of own and of other threads before each [`STRIDE`]th stretch (ns).
    before: Vec<(u64, u64)>,
}

/// Stretches between two sums: a compromise of memory against steps per question.
const STRIDE: usize = 16;

impl Timeline {
    fn new(mut stretches: Vec<Stretch>) -> Timeline {
        stretches.sort_by_key(|stretch| stretch.start);
        for index in 1..stretches.len() {
            let next = stretches[index].start;
            let stretch = &mut stretches[index - 1];
            stretch.end = stretch.end.min(next);
        }
        let mut before = Vec::with_capacity(stretches.len() / STRIDE + 1);
        let mut sums = (0, 0);
        for (index, stretch) in stretches.iter().enumerate() {
            if index % STRIDE == 0 {
                before.push(sums);
            }
            add(&mut sums, stretch, stretch.end);
        }
        Timeline { stretches, before }
    }

    /// All of it.
    pub fn stretches(&self) -> &[Stretch] {
        &self.stretches
    }

    /// The stretches that overlap `from..to`, the first and last not cut.
    pub fn between(&self, from: Timestamp, to: Timestamp) -> &[Stretch] {
        let first = self.stretches.partition_point(|stretch| stretch.end <= from);
        let behind = self.stretches.partition_point(|stretch| stretch.start < to);
        self.stretches.get(first..behind).unwrap_or(&[])
    }

    /// How long own and other threads ran before `at` (ns). `cursor` is the answer's place; a
    /// caller that asks for ever later moments hands the same cursor on and pays for the distance only.
    fn ran_before(&self, at: Timestamp, cursor: &mut usize) -> (u64, u64) {
        *cursor = gallop(&self.stretches, at, *cursor);
        let block = cursor.saturating_sub(1) / STRIDE;
        let Some(mut sums) = self.before.get(block).copied() else { return (0, 0) };
        for stretch in &self.stretches[block * STRIDE..*cursor] {
            add(&mut sums, stretch, at);
        }
        sums
    }

    /// How long own and other threads ran in `from..to` (ns). See [`Timeline::ran_before`] for `cursor`.
    pub fn ran(&self, from: Timestamp, to: Timestamp, cursor: &mut usize) -> (u64, u64) {
        let earlier = self.ran_before(from, cursor);
        // The caller's next question may begin before `to` ends on another CPU, never before `from`.
        let mut end = *cursor;
        let later = self.ran_before(to, &mut end);
        (later.0 - earlier.0, later.1 - earlier.1)
    }
}

fn add(sums: &mut (u64, u64), stretch: &Stretch, to: Timestamp) {
    let length = stretch.end.min(to).since(stretch.start).0;
    if stretch.own {
        sums.0 += length;
    } else {
        sums.1 += length;
    }
}

/// How many stretches start before `at`; looks forward from `from` in doubling steps.
fn gallop(stretches: &[Stretch], at: Timestamp, from: usize) -> usize {
    let mut low = from.min(stretches.len());
    if low > 0 && stretches[low - 1].start >= at {
        return stretches[..low].partition_point(|stretch| stretch.start < at);
    }
    let mut step = 1;
    while low + step <= stretches.len() && stretches[low + step - 1].start < at {
        low += step;
        step *= 2;
    }
    let high = (low + step).min(stretches.len());
    low + stretches[low..high].partition_point(|stretch| stretch.start < at)
}

/// The timelines of all CPUs.
#[derive(Clone, Debug, Default)]
pub struct Timelines {
    cpus: Vec<Timeline>,
}

impl Timelines {
    /// Derives them from the running slices whose CPU is known.
    pub fn derive(trace: &Trace) -> Timelines {
        let groups = parallel::thread_groups(trace);
        let mut parts = parallel::map(groups.len(), |group| stretches_of(trace, groups[group].clone()));
        let cpus = parts.iter().map(Vec::len).max().unwrap_or(0);
        let mut by_cpu: Vec<std::sync::Mutex<Vec<Stretch>>> = Vec::new();
        for cpu in 0..cpus {
            let mut all = Vec::new();
            for part in &mut parts {
                if let Some(stretches) = part.get_mut(cpu) {
                    all.append(stretches);
                }
            }
            by_cpu.push(all.into());
        }
        let take =
            |cpu: usize| by_cpu[cpu].lock().map(|mut all| std::mem::take(&mut *all)).unwrap_or_default();
        Timelines { cpus: parallel::map(cpus, |cpu| Timeline::new(take(cpu))) }
    }

    /// One CPU's; `None` if it ran nothing, or if `cpu` is not known.
    pub fn of(&self, cpu: CpuId) -> Option<&Timeline> {
        self.cpus.get(usize::from(cpu.0)).filter(|timeline| !timeline.stretches.is_empty())
    }

    /// How many CPUs there are up to the highest number seen.
    pub fn len(&self) -> usize {
        self.cpus.len()
    }

    /// Nothing ran.
    pub fn is_empty(&self) -> bool {
        self.cpus.is_empty()
    }

    /// Every CPU that ran something, by number.
    pub fn iter(&self) -> impl Iterator<Item = (CpuId, &Timeline)> {
        let numbered = self.cpus.iter().enumerate().map(|(cpu, timeline)| (CpuId(cpu as u16), timeline));
        numbered.filter(|(_, timeline)| !timeline.stretches.is_empty())
    }
}

fn stretches_of(trace: &Trace, threads: std::ops::Range<u32>) -> Vec<Vec<Stretch>> {
    let mut by_cpu: Vec<Vec<Stretch>> = Vec::new();
    for thread in threads.map(ThreadId) {
        let own = trace.threads[thread.index()].target;
        for slice in trace.slices.of(thread) {
            if slice.state != ThreadState::Running || slice.cpu == CpuId::NONE || slice.end <= slice.start {
                continue;
            }
            let cpu = usize::from(slice.cpu.0);
            if by_cpu.len() <= cpu {
                by_cpu.resize(cpu + 1, Vec::new());
            }
            by_cpu[cpu].push(Stretch { start: slice.start, end: slice.end, thread, own });
        }
    }
    by_cpu
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alternating(count: u64) -> Timeline {
        let stretch = |index: u64| Stretch {
            start: Timestamp(index * 10),
            end: Timestamp(index * 10 + 8),
            thread: ThreadId(index as u32 % 3),
            own: index.is_multiple_of(3),
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
                    let cut = Stretch { start: stretch.start.max(from), ..*stretch };
                    add(&mut walked, &cut, to);
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
    fn overlap_is_cut() {
        let stretch = |start, end| Stretch {
            start: Timestamp(start),
            end: Timestamp(end),
            thread: ThreadId(0),
            own: true,
        };
        let timeline = Timeline::new(vec![stretch(0, 10), stretch(5, 15)]);
        assert_eq!(timeline.ran(Timestamp(0), Timestamp(20), &mut 0), (15, 0));
    }
}
