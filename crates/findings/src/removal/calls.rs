//! Calls that do little each: a few do the work of all.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use holdup_events::tables::{FrameKind, SampleRow};
use holdup_events::{FrameId, StackId, Trace};

use super::{Removal, ran};
use crate::derive::own_places::{OwnFrames, Places};
use crate::derive::replay::Speed;
use crate::finding::{About, Finding};
use crate::rule::Cause;

/// Maximum share of the calls that is left if one call handles several small items. Such a call usually
/// handles at least eight items.
const CALLS_LEFT: f64 = 0.125;

/// Removes calls that do little each. `meant` is the share (0 to 1) of the calls of each syscall that goes.
/// The time in the library functions that make these calls goes too. Upper bound: so does the time in
/// functions of the program that mostly make these calls.
pub fn fewer(trace: &Trace, meant: &[(i32, f64)]) -> Option<Removal> {
    let parts = meant.iter().copied().collect();
    let code = Code::new(trace, &parts);
    let with = |left: f64, most: bool| {
        Speed::weighed(trace, |sample| {
            let part = code.part(sample).max(if most { code.part_around(sample) } else { 0.0 });
            (1.0 - left) * part
        })
    };
    let most = with(0.0, true);
    (!most.is_empty()).then(|| Removal { least: vec![ran(with(CALLS_LEFT, false))], most: vec![ran(most)] })
}

/// Removes the small calls of the syscall that the finding is about, as far as it is about them.
pub fn fewer_of_finding(cause: &Cause) -> Option<Removal> {
    fewer(cause.trace(), &[part_of_calls(cause)])
}

/// The finding's share of the CPU time of all calls of that name. It is 1 if the finding is about more than
/// these calls.
fn part_of_calls(cause: &Cause) -> (i32, f64) {
    let (name, finding) = (name(cause.finding), cause.finding);
    let call = cause.derived().syscalls.iter().find(|call| call.name == name);
    let (number, all) = call.map_or((-1, 0), |call| (call.number, call.cpu_ns));
    (number, (finding.cost_ns as f64 / all.max(1) as f64).min(1.0))
}

/// Name of the syscall that a finding is about. Empty if it is about none.
pub fn name(finding: &Finding) -> &'static str {
    match finding.about {
        About::Calls(name) => name,
        _ => "",
    }
}

/// Samples in calls, and in all of a piece of code.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    meant: f64,
    in_calls: f64,
    beside: f64,
}

/// Which code makes the calls.
struct Code<'a> {
    parts: &'a BTreeMap<i32, f64>,
    /// The function of a library by which each stack entered the kernel, or in which it is.
    makers: HashMap<StackId, Option<Function<'a>>>,
    of_maker: BTreeMap<Function<'a>, Seen>,
    places: HashMap<StackId, Option<FrameId>>,
    of_place: BTreeMap<FrameId, Seen>,
}

/// Module and name.
type Function<'a> = (&'a str, &'a str);

impl<'a> Code<'a> {
    fn new(trace: &'a Trace, parts: &'a BTreeMap<i32, f64>) -> Code<'a> {
        let own = OwnFrames::new(trace);
        let mut places = Places::new(trace, &own);
        let stacks: BTreeSet<StackId> = trace.samples.iter().map(|sample| sample.stack).collect();
        let mut code = Code {
            parts,
            makers: stacks.iter().map(|stack| (*stack, maker(trace, &own, *stack))).collect(),
            of_maker: BTreeMap::new(),
            places: stacks.iter().map(|stack| (*stack, places.nearest_own(*stack))).collect(),
            of_place: BTreeMap::new(),
        };
        for sample in &trace.samples {
            code.add(sample);
        }
        code
    }

    fn add(&mut self, sample: &SampleRow) {
        let meant = self.meant(sample);
        let add = |seen: &mut Seen| {
            seen.meant += meant;
            *(if sample.in_kernel { &mut seen.in_calls } else { &mut seen.beside }) += 1.0;
        };
        if let Some(maker) = self.makers[&sample.stack] {
            add(self.of_maker.entry(maker).or_default());
        }
        if let Some(place) = self.places[&sample.stack] {
            add(self.of_place.entry(place).or_default());
        }
    }

    fn meant(&self, sample: &SampleRow) -> f64 {
        let part = self.parts.get(&sample.syscall).filter(|_| sample.in_kernel);
        part.copied().unwrap_or(0.0)
    }

    /// The share of a sample that belongs to the calls. For a sample outside the kernel, the share of the
    /// calls of its function.
    fn part(&self, sample: &SampleRow) -> f64 {
        if sample.in_kernel {
            return self.meant(sample);
        }
        let seen =
            self.makers.get(&sample.stack).copied().flatten().and_then(|maker| self.of_maker.get(&maker));
        seen.map_or(0.0, |seen| seen.meant / seen.in_calls.max(1.0))
    }

    /// The same of a function of the program that is mostly about calls.
    fn part_around(&self, sample: &SampleRow) -> f64 {
        let place = self.places.get(&sample.stack).copied().flatten().filter(|_| !sample.in_kernel);
        let seen = place.and_then(|place| self.of_place.get(&place)).filter(|seen| seen.meant >= seen.beside);
        seen.map_or(0.0, |seen| seen.meant / seen.in_calls.max(1.0))
    }
}

/// The innermost function outside of the kernel, if it is one of a library.
fn maker<'a>(trace: &'a Trace, own: &OwnFrames, stack: StackId) -> Option<Function<'a>> {
    let outside =
        |id: &FrameId| trace.frames.get(id.index()).is_some_and(|frame| frame.kind != FrameKind::Kernel);
    let innermost = trace.stack_frames(stack).find(outside)?;
    let frame = trace.frames.get(innermost.index()).filter(|_| own.own_frame(innermost).is_none())?;
    (!frame.function.is_empty()).then_some((frame.module.as_str(), frame.function.as_str()))
}
