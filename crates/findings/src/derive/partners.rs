//! Other programs that work for the program. They are a database or cache on the same machine that serves its
//! requests, or the reader of its output.
//!
//! A program is a partner if its threads repeatedly wake the program's threads by their own calls (send,
//! write, close). Wakeups from interrupts do not count, because their waker is the interrupted thread.
//! Processes that woke no thread count as part of a partner if they are its children. The same holds for
//! children of the same parent with the same name: a server's workers.

use std::collections::{BTreeMap, BTreeSet};

use holdup_events::event::WakeContext;
use holdup_events::{ProcessId, Trace};

use super::kernel_threads::is_kernel_thread;

/// Fewer wakeups may be a signal, or the end of a pipe.
const WAKEUPS_MIN: u64 = 20;

/// Other programs that work for the program.
#[derive(Clone, Debug, Default)]
pub struct Partners {
    /// Number of wakeups of the program's threads by each process. 0 for workers without wakeups of their
    /// own.
    wakeups: BTreeMap<ProcessId, u64>,
}

impl Partners {
    /// Finds them.
    pub fn new(trace: &Trace) -> Partners {
        let mut wakeups: BTreeMap<ProcessId, u64> = BTreeMap::new();
        for wakeup in trace.wakeups.iter().filter(|wakeup| wakeup.context == WakeContext::Thread) {
            let waker = trace.threads.get(wakeup.waker.index()).filter(|waker| !waker.target);
            if let Some(waker) = waker {
                *wakeups.entry(waker.process).or_default() += 1;
            }
        }
        wakeups.retain(|process, times| *times >= WAKEUPS_MIN && !is_kernel_thread(trace, *process));
        let parent = |id: ProcessId| trace.processes.get(id.index()).and_then(|process| process.parent);
        let families: BTreeSet<(ProcessId, &str)> =
            wakeups.keys().filter_map(|id| Some((parent(*id)?, trace.process_name(*id)))).collect();
        let others = (0..trace.processes.len()).map(|row| ProcessId(row as u32));
        let is_worker = |id: &ProcessId| {
            let its_parent = parent(*id).filter(|_| !trace.processes[id.index()].target);
            its_parent.is_some_and(|parent| {
                wakeups.contains_key(&parent) || families.contains(&(parent, trace.process_name(*id)))
            })
        };
        let workers: Vec<ProcessId> =
            others.filter(|id| !wakeups.contains_key(id)).filter(is_worker).collect();
        wakeups.extend(workers.into_iter().map(|id| (id, 0)));
        Partners { wakeups }
    }

    /// Whether that process works for the program.
    pub fn contains(&self, process: ProcessId) -> bool {
        self.wakeups.contains_key(&process)
    }

    /// Number of wakeups of the program's threads by that process, by others with its name, and by its parent.
    pub fn wakeups_by(&self, trace: &Trace, process: ProcessId) -> u64 {
        let parent = trace.processes.get(process.index()).and_then(|process| process.parent);
        let name = trace.process_name(process);
        let is_of_it = |id: ProcessId| trace.process_name(id) == name || Some(id) == parent;
        self.wakeups.iter().filter(|(id, _)| is_of_it(**id)).map(|(_, times)| times).sum()
    }
}
