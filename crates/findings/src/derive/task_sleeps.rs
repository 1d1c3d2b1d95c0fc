//! Places in which tasks sleep on a runtime's threads (`[sleep]` of descriptors). A thread that waits for its
//! next task does not show them. Setting and checking a timer takes time, and may take a lock or a wakeup.
//! The stacks recorded then are those of the tasks.

use std::collections::{BTreeMap, HashMap};

use holdup_events::{FrameId, StackId, ThreadId, Trace};

use super::own_places::OwnFrames;
use super::roles::Roles;
use super::stacks::folding::matches;
use crate::descriptors::plain_name;

/// Where tasks sleep.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskSleeps {
    /// The program's own functions with sleeping tasks, with their number of stacks, most stacks first.
    pub places: Vec<(String, u64)>,
    /// All stacks on which a task began or ended a sleep.
    pub stacks: u64,
    /// Resolution of the runtime's timer (ns). 0: that of the kernel.
    pub tick_ns: u64,
}

/// Considers the threads that `counts` accepts. `None` if no such stack was recorded.
pub fn derive(trace: &Trace, roles: &Roles, counts: impl Fn(ThreadId) -> bool) -> Option<TaskSleeps> {
    let mut sleeping = Sleeping::new(trace, roles);
    if sleeping.parts.is_empty() {
        return None;
    }
    let mut of_place: BTreeMap<String, u64> = BTreeMap::new();
    let (mut all, mut tick_ns) = (0, 0);
    for thread in trace.target_threads().filter(|thread| counts(*thread)) {
        let sampled = super::samples_of(trace, thread).iter().map(|sample| sample.stack);
        let waited = trace.slices.of_thread(thread).map(|slice| slice.stack);
        let wakers = trace.wakeups.of_thread(thread).iter().map(|wakeup| wakeup.stack);
        for (place, tick) in sampled.chain(waited).chain(wakers).filter_map(|stack| sleeping.sleep_in(stack))
        {
            all += 1;
            tick_ns = tick_ns.max(tick);
            if let Some(place) = place {
                *of_place.entry(trace.frame_name(place)).or_default() += 1;
            }
        }
    }
    let mut places: Vec<(String, u64)> = of_place.into_iter().collect();
    places.sort_by(|(one, its), (other, others)| others.cmp(its).then_with(|| one.cmp(other)));
    (all > 0).then_some(TaskSleeps { places, stacks: all, tick_ns })
}

/// Meaning of a frame.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The task sleeps by a timer with this resolution (ns).
    Sleeps(u64),
    /// The task waits for an event with a timeout.
    Beside,
}

/// A task's sleep on a stack: the program's own function that requests it, and the resolution of its timer
/// (ns).
type Slept = (Option<FrameId>, u64);

struct Sleeping<'a> {
    trace: &'a Trace,
    own: OwnFrames,
    parts: HashMap<FrameId, Part>,
    known: HashMap<StackId, Option<Slept>>,
}

impl<'a> Sleeping<'a> {
    fn new(trace: &'a Trace, roles: &Roles) -> Sleeping<'a> {
        let sleeps: Vec<_> = roles.descriptors.runtimes().iter().map(|runtime| &runtime.sleeps).collect();
        let of = |function: &str| {
            let name = plain_name(function);
            let is_in = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, &name));
            sleeps.iter().find_map(|sleeps| match (is_in(&sleeps.unless), is_in(&sleeps.by)) {
                (true, _) => Some(Part::Beside),
                (false, true) => Some(Part::Sleeps(sleeps.tick_ns)),
                (false, false) => None,
            })
        };
        let frames = trace.frames.iter().enumerate().filter(|(_, frame)| !frame.function.is_empty());
        let parts =
            frames.filter_map(|(row, frame)| Some((FrameId(row as u32), of(&frame.function)?))).collect();
        Sleeping { trace, own: OwnFrames::new(trace), parts, known: HashMap::new() }
    }

    fn sleep_in(&mut self, stack: StackId) -> Option<Slept> {
        let Sleeping { trace, own, parts, known } = self;
        *known.entry(stack).or_insert_with(|| {
            let part = |frame: &FrameId| parts.get(frame).copied();
            if trace.stack_frames(stack).any(|frame| part(&frame) == Some(Part::Beside)) {
                return None;
            }
            let outermost =
                trace.stack_frames(stack).enumerate().filter_map(|(depth, frame)| match part(&frame)? {
                    Part::Sleeps(tick_ns) => Some((depth, tick_ns)),
                    Part::Beside => None,
                });
            let (depth, tick_ns) = outermost.last()?;
            let place = trace.stack_frames(stack).skip(depth + 1).find_map(|frame| own.own_frame(frame));
            Some((place, tick_ns))
        })
    }
}
