//! Phases that runtimes report for their threads, for the ledger: collecting, waiting for other threads'
//! collection, idle.
//!
//! Phases take precedence over stacks, because they are exact. Running time in a phase is the time in which
//! the scheduler ran the thread, without steal time.

use holdup_events::tables::{SampleRow, Slice, SpanKind, SpanRow, ThreadState};
use holdup_events::{ThreadId, Timestamp, Trace};

use super::class::Class;
use super::ledger::{steals_of, stolen};
use super::phases::{self, Phase};
use crate::derive::parallel;

/// Running time in phases (ns): collecting, and waiting at a barrier.
pub type Ran = [u64; 2];
/// The classes of [`Ran`].
pub const RAN: [Class; 2] = [Class::GcWork, Class::GcWait];

/// The phases of one thread.
#[derive(Clone, Debug, Default)]
struct Course {
    phases: Vec<Phase>,
    /// Running time before each phase, and after the last.
    before: Vec<Ran>,
}

/// The phases of every thread of the program.
#[derive(Clone, Debug, Default)]
pub struct RuntimePhases {
    /// By thread. Empty if no runtime reported phases.
    courses: Vec<Course>,
}

impl RuntimePhases {
    /// Lays all spans flat, but those that the program itself named and those of lanes that are not matched.
    pub fn derive(trace: &Trace) -> RuntimePhases {
        if trace.spans.is_empty() {
            return RuntimePhases::default();
        }
        let matched: Vec<bool> =
            (0..trace.lanes.len() as u32).map(|lane| phases::is_matched(trace, lane)).collect();
        let counts = |span: &&SpanRow| {
            matched.get(span.lane as usize) == Some(&true)
                && trace.event_name(span.name).kind != SpanKind::User
        };
        let courses = parallel::map(trace.threads.len(), |thread| {
            let thread = ThreadId(thread as u32);
            let spans: Vec<SpanRow> = trace.spans.of_thread(thread).iter().filter(counts).copied().collect();
            Course::new(trace, thread, phases::flat(trace, &spans))
        });
        RuntimePhases { courses }
    }

    fn course_of(&self, thread: ThreadId) -> Option<&Course> {
        self.courses.get(thread.index()).filter(|course| !course.phases.is_empty())
    }

    /// Class of a sample by its thread's phase.
    pub fn class_of_sample(&self, sample: &SampleRow) -> Option<Class> {
        let phase = self.course_of(sample.thread)?.at(sample.at)?;
        part(phase.kind).map(|part| RAN[part])
    }

    /// Class of a blocked slice by the phase at its start, because a sleeping thread reports nothing. Waits
    /// within the collector's work are not waits for the collector.
    pub fn class_of_wait(&self, slice: &Slice) -> Option<Class> {
        match self.course_of(slice.thread)?.at(slice.start)?.kind {
            SpanKind::GcWait | SpanKind::Stopped => Some(Class::GcWait),
            SpanKind::Idle => Some(Class::WorkWait),
            _ => None,
        }
    }

    /// Running time of a thread in phases between two moments, by class of [`RAN`]. A phase that is cut
    /// counts in proportion.
    pub fn ran(&self, thread: ThreadId, (from, to): (Timestamp, Timestamp)) -> Ran {
        let Some(course) = self.course_of(thread) else { return [0; 2] };
        let (start, end) = (course.ran_before(from), course.ran_before(to.max(from)));
        [end[0] - start[0], end[1] - start[1]]
    }
}

/// The place in [`Ran`] of a phase's running time.
fn part(kind: SpanKind) -> Option<usize> {
    match kind {
        SpanKind::GcWork | SpanKind::GcBeside | SpanKind::Stop | SpanKind::StopsAll => Some(0),
        SpanKind::GcWait | SpanKind::Stopped => Some(1),
        SpanKind::User | SpanKind::Idle => None,
    }
}

impl Course {
    fn new(trace: &Trace, thread: ThreadId, phases: Vec<Phase>) -> Course {
        let mut before = Vec::with_capacity(phases.len() + 1);
        let mut sums: Ran = [0; 2];
        for (phase, ran) in phases.iter().zip(ran_in(trace, thread, &phases)) {
            before.push(sums);
            if let Some(part) = part(phase.kind) {
                sums[part] += ran;
            }
        }
        before.push(sums);
        Course { phases, before }
    }

    fn at(&self, at: Timestamp) -> Option<&Phase> {
        let behind = self.phases.partition_point(|phase| phase.start <= at);
        self.phases.get(behind.checked_sub(1)?).filter(|phase| at < phase.end)
    }

    fn ran_before(&self, at: Timestamp) -> Ran {
        let behind = self.phases.partition_point(|phase| phase.start < at);
        let Some(last) = behind.checked_sub(1) else { return [0; 2] };
        let (start, end) = (self.before[last], self.before[behind]);
        let phase = &self.phases[last];
        let whole = phase.end.since(phase.start).0.max(1);
        let part = at.min(phase.end).since(phase.start).0;
        let share = |place: usize| {
            let ran = end[place] - start[place];
            start[place] + (u128::from(ran) * u128::from(part) / u128::from(whole)) as u64
        };
        [share(0), share(1)]
    }
}

/// Running time of the thread in each phase (ns), without steal time.
fn ran_in(trace: &Trace, thread: ThreadId, phases: &[Phase]) -> Vec<u64> {
    let mut ran = vec![0; phases.len()];
    let mut steals = steals_of(&trace.steals, thread);
    let mut first = 0;
    for slice in trace.slices.of_thread(thread).filter(|slice| slice.state == ThreadState::Running) {
        let length = slice.duration().0;
        let stolen = stolen(&mut steals, slice.start).min(length);
        while phases.get(first).is_some_and(|phase| phase.end <= slice.start) {
            first += 1;
        }
        for (place, phase) in phases.iter().enumerate().skip(first) {
            if phase.start >= slice.end {
                break;
            }
            let both = phase.end.min(slice.end).since(phase.start.max(slice.start)).0;
            let left = u128::from(both) * u128::from(length - stolen) / u128::from(length.max(1));
            ran[place] += left as u64;
        }
    }
    ran
}
