//! Thread ids in a thread's own PID namespace (a container's). A program stores and waits for these ids, but
//! kernel events have the ids of another namespace.

use std::collections::{HashMap, VecDeque};

use holdup_events::Event;
use holdup_events::event::{Outcome, RawWait, SnapshotState};

use super::layout::{Fields, KIND_EXEC, KIND_EXIT, KIND_FORK, KIND_RENAME, KIND_SNAPSHOT};

/// Number of ended threads to remember. A thread's end may be reported before the waits of other threads for
/// it.
const ENDED_MAX: usize = 4096;
/// `FUTEX_CMD_MASK`
const COMMAND: u32 = 0x7f;
/// `FUTEX_PRIVATE_FLAG`
const PRIVATE: u32 = 128;

/// Threads of the program by process and inner number. Empty where it is in the first namespace.
#[derive(Debug, Default)]
pub struct InnerTids {
    tids: HashMap<(u32, u32), u32>,
    ended: VecDeque<((u32, u32), u32)>,
}

impl InnerTids {
    /// Records the inner tid of a record's thread, if the record has it.
    pub fn note(&mut self, fields: &Fields<'_>, kind: u8) {
        if !matches!(kind, KIND_FORK | KIND_EXEC | KIND_RENAME | KIND_EXIT | KIND_SNAPSHOT) {
            return;
        }
        let (tid, tgid, target, inner) = (fields.u32(16), fields.u32(20), fields.u32(28), fields.u32(52));
        if target == 0 || inner == 0 {
            return;
        }
        self.tids.insert((tgid, inner), tid);
        if kind == KIND_EXIT {
            self.ended.push_back(((tgid, inner), tid));
        }
        while self.ended.len() > ENDED_MAX
            && let Some((key, tid)) = self.ended.pop_front()
        {
            // The inner tid may already be reused by another thread.
            if self.tids.get(&key) == Some(&tid) {
                self.tids.remove(&key);
            }
        }
    }

    /// How many.
    #[cfg(test)]
    pub fn known(&self) -> usize {
        self.tids.len()
    }

    /// Replaces inner tids in an event by the kernel's ids.
    pub fn put_in(&self, event: &mut Event) {
        if self.tids.is_empty() {
            return;
        }
        match event {
            Event::Switch(switch) => {
                if let Outcome::Blocked(wait) = &mut switch.outcome {
                    self.put_in_wait((switch.prev_tgid, switch.prev_tid), wait);
                }
            }
            Event::Snapshot(snapshot) => {
                if let SnapshotState::Blocked(wait) = &mut snapshot.state {
                    self.put_in_wait((snapshot.tgid, snapshot.tid), wait);
                }
            }
            _ => {}
        }
    }

    fn put_in_wait(&self, (tgid, tid): (u32, u32), wait: &mut RawWait) {
        let other = |inner: u32| self.tids.get(&(tgid, inner)).copied().filter(|other| *other != tid);
        wait.owner_tid = other(wait.owner_tid).unwrap_or(wait.owner_tid);
        // glibc's pthread_join waits for the kernel to clear the word that has the thread's number.
        if is_shared_wait(wait) {
            wait.value = other(wait.value).unwrap_or(wait.value);
        }
    }
}

/// `FUTEX_WAIT` or `FUTEX_WAIT_BITSET` on a word that other processes may share.
fn is_shared_wait(wait: &RawWait) -> bool {
    wait.syscall == crate::wait_reason::number::FUTEX
        && matches!(wait.op & COMMAND, 0 | 9)
        && wait.op & PRIVATE == 0
}
