//! Which stacks events name: definitions outlive them, and only those that are named are wanted with a stretch of events.

use crate::Event;
use crate::event::{Outcome, SnapshotState};
use crate::tables::CallPartKind;

/// Hands over the id of each stack that an event names.
pub fn named_stacks(event: &Event, sink: &mut dyn FnMut(u64)) {
    let one = match event {
        Event::Switch(switch) => match &switch.outcome {
            Outcome::Blocked(wait) => wait.stack,
            _ => 0,
        },
        Event::Snapshot(snapshot) => match &snapshot.state {
            SnapshotState::Blocked(wait) => wait.stack,
            _ => 0,
        },
        Event::Waking(waking) => waking.stack,
        Event::Sample(sample) => sample.stack,
        Event::Allocated(allocated) => allocated.stack,
        Event::Fault(fault) => fault.stack,
        Event::TaskWait(wait) => {
            [wait.stack, wait.waker_stack].into_iter().filter(|id| *id != 0).for_each(sink);
            return;
        }
        Event::Calls(calls) => {
            let stacks = calls.parts.iter().filter(|(kind, ..)| *kind == CallPartKind::Stack);
            return stacks.for_each(|(_, id, _)| sink(*id));
        }
        // A kind that is added is decided here.
        Event::Stack(_)
        | Event::Lifecycle(_)
        | Event::Mapping(_)
        | Event::SyscallCount(_)
        | Event::ObjectName(_)
        | Event::Freed(_)
        | Event::Counted(_)
        | Event::Watched(_)
        | Event::TaskWindow(_)
        | Event::Runtime(_)
        | Event::Affinity(_)
        | Event::Loss(_) => 0,
    };
    if one != 0 {
        sink(one);
    }
}
