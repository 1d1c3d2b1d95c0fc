//! Removal of the handovers between two threads.

use std::collections::BTreeMap;

use holdup_events::StackId;
use holdup_events::tables::SampleRow;

use crate::charge::Charge;
use crate::derive::replay::{Change, Facts, Speed};
use crate::derive::round_trips::RoundTrips;
use crate::derive::syscall_names::HANDING;
use crate::removal::{Removal, has, ran, threads_of};

/// Removes handovers between two threads: no time in the kernel, and none in functions that call it only when
/// a thread sleeps or is woken. Upper bound: both threads work in parallel, and take no locks for handovers.
pub(super) fn handovers(facts: Facts, charge: &Charge) -> Removal {
    let trace = facts.trace;
    let pair = threads_of(trace, charge);
    let code = facts.roles.lock_code(trace);
    let contended = |stack: StackId| {
        trace.stack_frames(stack).filter_map(|frame| code.get(frame.index()).copied().flatten()).max()
    };
    let mut of_stack: BTreeMap<StackId, Option<bool>> = BTreeMap::new();
    for sample in &trace.samples {
        of_stack.entry(sample.stack).or_insert_with(|| contended(sample.stack));
    }
    let hands = |sample: &SampleRow, with_locks: bool| {
        let in_code = of_stack.get(&sample.stack).copied().flatten();
        let in_call = sample.in_kernel && HANDING.contains(&sample.syscall);
        (in_call || in_code.is_some_and(|contended| contended || with_locks)) && has(&pair, sample.thread)
    };
    let asking = RoundTrips::derive(trace, charge);
    let asks =
        |sample: &SampleRow| asking.as_ref().is_some_and(|asking| asking.has((trace, facts.roles), sample));
    let least = ran(Speed::new(trace, 0.0, |sample| hands(sample, false)));
    let most = ran(Speed::new(trace, 0.0, |sample| hands(sample, true) || asks(sample)));
    Removal {
        least: vec![Change::AtOnce(charge.clone()), least],
        most: vec![Change::WithoutSlices(charge.clone()), most],
    }
}
