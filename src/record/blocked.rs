//! Stacks of threads that were blocked before the recording began. They are copied in parts, because a BPF
//! program passes on little data at a time. A single frame may be larger: CPython's `select` has 48 KiB on
//! its stack.

use std::collections::BTreeMap;

use anyhow::Result;
use holdup_capture::bpf::{BLOCKED_STACK_BYTES, Session};
use holdup_decode::wire::WireDecoder;
use holdup_events::Event;
use holdup_events::event::RawStack;

/// Maximum number of parts per stack.
const PARTS_MAX: u32 = 5;
/// Maximum number of stacks with more than one part, which bounds the memory use.
const LONG_STACKS_MAX: usize = 400;

/// Passes on the stack of each blocked thread. Returns the number of unreadable records.
pub fn stacks(session: &mut Session, decoder: &mut WireDecoder, sink: &mut dyn FnMut(Event)) -> Result<u64> {
    let mut long: BTreeMap<u64, RawStack> = BTreeMap::new();
    let mut bad_records = 0;
    for part in 0..PARTS_MAX {
        let skip = part * BLOCKED_STACK_BYTES;
        let mut came = part == 0;
        session.blocked_stacks(skip, &mut |record| {
            let taken = decoder.decode(record, &mut |event| match event {
                Event::Stack(stack) if part == 0 && is_full(&stack) && long.len() < LONG_STACKS_MAX => {
                    long.insert(stack.id, stack);
                }
                Event::Stack(stack) if part > 0 => came |= append(&mut long, stack, skip),
                event => sink(event),
            });
            bad_records += u64::from(taken.is_err());
        })?;
        if long.is_empty() || !came {
            break;
        }
    }
    long.into_values().for_each(|stack| sink(Event::Stack(stack)));
    Ok(bad_records)
}

/// Whether the copied part is full, so that the stack may be longer.
fn is_full(stack: &RawStack) -> bool {
    stack.raw.as_ref().is_some_and(|raw| raw.bytes.len() >= BLOCKED_STACK_BYTES as usize)
}

/// Adds a part `skip` bytes behind the stack pointer, if the thread is where it was and nothing is missing between.
fn append(long: &mut BTreeMap<u64, RawStack>, part: RawStack, skip: u32) -> bool {
    let Some(before) = long.get_mut(&part.id).and_then(|stack| stack.raw.as_mut()) else { return false };
    let Some(part) = part.raw else { return false };
    let fits = before.bytes.len() == skip as usize;
    if !fits || (before.ip, before.sp, before.bp) != (part.ip, part.sp, part.bp) {
        return false;
    }
    before.bytes.extend_from_slice(&part.bytes);
    true
}

#[cfg(test)]
mod tests {
    use holdup_events::event::RawMemory;

    use super::*;

    fn stack(id: u64, sp: u64, bytes: &[u8]) -> RawStack {
        let raw = RawMemory { sp, bytes: bytes.to_vec(), ..RawMemory::default() };
        RawStack { id, raw: Some(Box::new(raw)), ..RawStack::default() }
    }

    #[test]
    fn parts_of_a_thread_that_stood_still_are_joined() {
        let mut long = BTreeMap::from([(7, stack(7, 100, &[1, 2])), (8, stack(8, 100, &[1, 2]))]);
        assert!(append(&mut long, stack(7, 100, &[3]), 2));
        assert_eq!(long[&7].raw.as_ref().unwrap().bytes, [1, 2, 3]);
        // The thread has run, a part is missing, or the stack was not requested.
        assert!(!append(&mut long, stack(8, 96, &[3]), 2));
        assert!(!append(&mut long, stack(8, 100, &[3]), 4));
        assert!(!append(&mut long, stack(9, 100, &[3]), 2));
        assert_eq!(long[&8].raw.as_ref().unwrap().bytes, [1, 2]);
    }
}
