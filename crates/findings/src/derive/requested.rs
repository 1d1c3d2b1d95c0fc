//! Garbage collections that the program requests itself, found by descriptors (`[[request]]`): their share of
//! the cost, and the requesting function.

use std::collections::{BTreeMap, HashMap};

use holdup_events::tables::{Slice, ThreadState};
use holdup_events::{FrameId, StackId, ThreadId, Trace};

use super::class::Class;
use super::cover::{Cover, Span};
use super::own_places::OwnFrames;
use super::roles::Roles;
use super::stacks::folding::matches;
use crate::descriptors::{Request, Role, plain_name};

/// Requested collections.
#[derive(Clone, Debug, PartialEq)]
pub struct Requested {
    /// Share of the time of collections, running or waiting, in requested collections (0 to 1). Only time
    /// with a stack counts.
    pub share: f64,
    /// Function that made the request, nearest to the program's own function.
    pub function: String,
    /// The program's own function that called it.
    pub place: Option<String>,
    /// Advice.
    pub advice: String,
}

impl Requested {
    /// Most of what collections cost is for these: whatever else helps against collections does not help.
    pub fn is_most(&self) -> bool {
        self.share >= MOST
    }
}

const MOST: f64 = 0.5;

/// Considers the processes' threads that `counts` accepts. `None` if no collection was requested.
pub fn derive(trace: &Trace, roles: &Roles, counts: impl Fn(ThreadId) -> bool) -> Option<Requested> {
    let requests: Vec<&Request> =
        roles.descriptors.runtimes().iter().flat_map(|runtime| &runtime.requests).collect();
    let mut asking = Asking::new(trace, requests);
    if asking.of_frame.is_empty() {
        return None;
    }
    let (mut all, mut asked) = (Vec::new(), Vec::new());
    let mut places: BTreeMap<Asked, u64> = BTreeMap::new();
    for thread in trace.target_threads().filter(|thread| counts(*thread)) {
        for (span, stack) in collecting(trace, roles, thread) {
            all.push(span);
            if let Some(one) = asking.request_on(stack) {
                asked.push(span);
                *places.entry(one).or_default() += span.1.since(span.0).0;
            }
        }
    }
    let ns = |spans: Vec<Span>| -> u64 { Cover::from_spans(spans).length_ns() };
    let (most, _) = places.into_iter().max_by_key(|(key, ns)| (*ns, std::cmp::Reverse(*key)))?;
    Some(Requested {
        share: ns(asked) as f64 / ns(all).max(1) as f64,
        function: plain_name(&trace.frame_name(most.frame)).into_owned(),
        place: most.place.map(|frame| trace.frame_name(frame)),
        advice: asking.requests[most.request].advice.clone(),
    })
}

/// Time ranges in which a thread waited for a collection or made one, with its stack. A sample covers the
/// time until the next one. A thread that only stands still in a probe's stop has no relevant stack, and does
/// not count.
fn collecting(trace: &Trace, roles: &Roles, thread: ThreadId) -> Vec<(Span, StackId)> {
    let waits = |slice: &Slice| {
        slice.state == ThreadState::Blocked
            && slice.stack != StackId::NONE
            && roles.rule_of_wait(slice).is_some_and(|(_, rule)| rule.role == Role::GcWait)
    };
    let waited =
        trace.slices.of_thread(thread).filter(waits).map(|slice| ((slice.start, slice.end), slice.stack));
    let mut all: Vec<(Span, StackId)> = waited.collect();
    let samples = super::samples_of(trace, thread);
    for pair in samples.windows(2).filter(|pair| roles.class_of_sample(&pair[0]) == Class::GcWork) {
        let end = trace.slices.covering(thread, pair[0].at).map(|row| trace.slices.at(thread, row).end);
        let end = end.map_or(pair[1].at, |end| end.min(pair[1].at));
        all.push(((pair[0].at, end.max(pair[0].at)), pair[0].stack));
    }
    all
}

/// A request on a stack.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Asked {
    /// Row of the request.
    request: usize,
    frame: FrameId,
    /// The program's own function nearest to it, of those that called it.
    place: Option<FrameId>,
}

/// Which request is on which stack.
struct Asking<'a> {
    trace: &'a Trace,
    own: OwnFrames,
    requests: Vec<&'a Request>,
    of_frame: HashMap<FrameId, usize>,
    known: HashMap<StackId, Option<Asked>>,
}

impl<'a> Asking<'a> {
    fn new(trace: &'a Trace, requests: Vec<&'a Request>) -> Asking<'a> {
        let of = |function: &str| {
            let name = plain_name(function);
            requests.iter().position(|request| request.any.iter().any(|pattern| matches(pattern, &name)))
        };
        let frames = trace.frames.iter().enumerate().filter(|(_, frame)| !frame.function.is_empty());
        let of_frame =
            frames.filter_map(|(row, frame)| Some((FrameId(row as u32), of(&frame.function)?))).collect();
        Asking { trace, own: OwnFrames::new(trace), requests, of_frame, known: HashMap::new() }
    }

    /// The first request in list order that is on the stack. If it has several frames, the one farthest from
    /// the leaf.
    fn request_on(&mut self, stack: StackId) -> Option<Asked> {
        let Asking { trace, own, of_frame, known, .. } = self;
        *known.entry(stack).or_insert_with(|| {
            let frames = || trace.stack_frames(stack).enumerate();
            let asks = frames().filter_map(|(depth, frame)| Some((*of_frame.get(&frame)?, depth, frame)));
            let (request, depth, frame) =
                asks.min_by_key(|(request, depth, _)| (*request, std::cmp::Reverse(*depth)))?;
            let mut callers = frames().filter(|(of, frame)| *of > depth && !of_frame.contains_key(frame));
            let place = callers.find_map(|(_, frame)| own.own_frame(frame));
            Some(Asked { request, frame, place })
        })
    }
}
