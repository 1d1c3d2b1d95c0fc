//! Forks of processes: the forking threads, the times, and the cost of copying page tables and tearing the
//! copies down.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use holdup_events::tables::{Frame, FrameKind, SampleRow};
use holdup_events::{FrameId, StackId, ThreadId, Timestamp, Trace};

use super::ledger::Ledger;

/// The kernel's functions that copy an address space.
const COPIES: [&str; 2] = ["dup_mmap", "dup_mm"];
/// … and that takes one down.
const TAKES_DOWN: &str = "exit_mmap";
/// Syscall numbers of execve and execveat (x86-64). A process that executes another program drops its copied
/// address space.
const BEGINNING: [i32; 2] = [59, 322];

/// Times at which each thread created a new process, ascending.
pub type Births = BTreeMap<ThreadId, BTreeSet<Timestamp>>;

/// Every birth that was recorded.
pub fn births(trace: &Trace) -> Births {
    let mut births = Births::new();
    for child in trace.threads.iter().filter(|child| !child.began_before) {
        let Some(parent) = child.parent else { continue };
        if trace.threads.get(parent.index()).is_some_and(|parent| parent.process != child.process) {
            births.entry(parent).or_default().insert(child.start);
        }
    }
    births
}

/// Samples in the copying of an address space, or in tearing down a copy that was hardly used. `posix_spawn`
/// needs neither.
pub struct Copying<'a> {
    trace: &'a Trace,
    copies: Vec<bool>,
    takes_down: Vec<bool>,
    of_stack: RefCell<HashMap<StackId, (bool, bool)>>,
}

impl<'a> Copying<'a> {
    /// Evaluates each frame once.
    pub fn new(trace: &'a Trace) -> Copying<'a> {
        let kernel = |is: fn(&str) -> bool| {
            let is = |frame: &Frame| frame.kind == FrameKind::Kernel && is(&frame.function);
            trace.frames.iter().map(is).collect()
        };
        Copying {
            trace,
            copies: kernel(|name| COPIES.contains(&name)),
            takes_down: kernel(|name| name == TAKES_DOWN),
            of_stack: RefCell::default(),
        }
    }

    /// Whether a sample is in one.
    pub fn holds(&self, sample: &SampleRow) -> bool {
        if !sample.in_kernel || sample.syscall < 0 {
            return false;
        }
        let look = || {
            let any = |of: &[bool]| {
                let mut frames = self.trace.stack_frames(sample.stack);
                frames.any(|frame: FrameId| of.get(frame.index()).copied().unwrap_or(false))
            };
            (any(&self.copies), any(&self.takes_down))
        };
        let (copies, takes_down) = *self.of_stack.borrow_mut().entry(sample.stack).or_insert_with(look);
        copies || takes_down && BEGINNING.contains(&sample.syscall)
    }

    /// Time of those threads in these functions (ns, by samples).
    pub fn of_threads(&self, ledger: &Ledger, which: impl Fn(ThreadId) -> bool) -> f64 {
        let of_thread = |id: ThreadId, running_ns: u64| {
            let samples = super::samples_of(self.trace, id);
            let held = samples.iter().filter(|sample| self.holds(sample)).count();
            running_ns as f64 * held as f64 / samples.len().max(1) as f64
        };
        let threads = ledger.threads.iter().filter(|one| which(one.thread));
        threads.map(|one| of_thread(one.thread, one.running_ns())).sum()
    }
}
