//! Events of all threads in the order of time.

use super::ids;
use super::layout::{Batch, Layout, Numbers};
use crate::readers::ReadError;

/// One event.
#[derive(Clone, Copy, Debug)]
pub(super) struct TraceEvent {
    /// When (ns).
    pub at: u64,
    /// The thread that emitted it.
    pub thread: u64,
    pub generation: u64,
    pub id: u8,
    /// Arguments after the time.
    pub numbers: [u64; 4],
}

/// A later time is a broken file (ns: 300 years).
const AT_MAX: f64 = 1e19;

/// All events, and the number of batches that could not be read completely. Events of one thread with equal
/// times keep their order.
pub(super) fn events(layout: &Layout) -> Result<(Vec<TraceEvent>, u64), ReadError> {
    let mut all = Vec::new();
    let mut broken = 0;
    for batch in &layout.batches {
        broken += u64::from(take(batch, layout.tick_ns, &mut all).is_none());
    }
    all.sort_by_key(|event: &TraceEvent| event.at);
    if all.is_empty() { Err(ReadError::Empty) } else { Ok((all, broken)) }
}

/// The events of a batch. `None` if an id is unknown, because the events after it cannot be separated.
fn take(batch: &Batch, tick_ns: f64, all: &mut Vec<TraceEvent>) -> Option<()> {
    let mut rest = Numbers(batch.body);
    let mut ticks = batch.at;
    while !rest.0.is_empty() {
        let id = rest.byte()?;
        let length = ids::length(id)?;
        ticks = ticks.checked_add(rest.number()?)?;
        let mut numbers = [0; 4];
        for number in numbers.iter_mut().take(usize::from(length) - 1) {
            *number = rest.number()?;
        }
        let at = ticks as f64 * tick_ns;
        let at = if tick_ns.fract() == 0.0 { ticks.checked_mul(tick_ns as u64)? } else { at as u64 };
        (ticks as f64 * tick_ns < AT_MAX).then_some(())?;
        let Batch { thread, generation, .. } = *batch;
        all.push(TraceEvent { at, thread, generation, id, numbers });
    }
    Some(())
}
