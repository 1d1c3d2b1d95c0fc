//! HotSpot functions that stay interpreted although they take much of the work, because the compiler gave up
//! on them or never took them.
//!
//! A frame of an interpreted function has the address of its `Method`, which is data and in no executable
//! mapping. Only callers show the position in its bytecode, so all its leaves are one place. Compiled code
//! has many places, all in executable memory.

use std::collections::{BTreeMap, HashMap};

use holdup_events::tables::{Frame, FrameKind, GENERATED_MODULE};
use holdup_events::{FrameId, ProcessId, StackId, Timestamp, Trace};

use super::class::Class;
use super::ledger::Ledger;
use super::roles::Roles;
use super::samples_of;
use super::split::share_error;

/// Less of the useful work than this is not what the program does.
const SHARE_MIN: f64 = 0.25;
/// Minimum number of samples. Fewer may be chance.
const SAMPLES_MIN: usize = 50;
/// Maximum warm-up time after a function's first sample (ns). HotSpot compiles after some thousand calls or
/// some ten thousand loop iterations, within tenths of a second. A function that is interpreted for longer
/// stays interpreted.
const WARM_UP_NS: u64 = 1_000_000_000;

/// A function that stays interpreted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Interpreted {
    /// Function name.
    pub function: String,
    /// Process of the function.
    pub process: ProcessId,
    /// Address of its `Method`.
    pub method: u64,
    /// Running time in it itself (ns, sampled).
    pub ns: u64,
    /// Half the width of the 95 % interval of `ns`.
    pub error_ns: u64,
    /// Share of the useful running time (0 to 1).
    pub share: f64,
    /// Times of its first and its last sample.
    pub seen: (Timestamp, Timestamp),
}

#[derive(Default)]
struct Sum {
    ns: f64,
    /// Times of its samples, one thread after the other.
    at: Vec<Timestamp>,
}

/// The function that takes most so, if it takes enough, for long enough.
pub fn derive(trace: &Trace, ledger: &Ledger, roles: &Roles) -> Option<Interpreted> {
    let is_interpreted: Vec<bool> = trace.frames.iter().map(may_be).collect();
    if !is_interpreted.contains(&true) {
        return None;
    }
    let executable = Executable::from_mappings(trace);
    let mut is_code: HashMap<(ProcessId, FrameId), bool> = HashMap::new();
    let (mut whole, mut whole_samples) = (0.0, 0);
    let mut sums: BTreeMap<(ProcessId, &str), (Sum, FrameId)> = BTreeMap::new();
    for thread in &ledger.threads {
        let process = trace.threads[thread.thread.index()].process;
        let samples = samples_of(trace, thread.thread);
        let each = thread.running_ns() as f64 / samples.len().max(1) as f64;
        for sample in samples.iter().filter(|sample| roles.class_of_sample(sample) == Class::Useful) {
            whole += each;
            whole_samples += 1;
            let Some(leaf) = leaf_of(trace, sample.stack).filter(|leaf| is_interpreted[leaf.index()]) else {
                continue;
            };
            let frame = &trace.frames[leaf.index()];
            if *is_code.entry((process, leaf)).or_insert_with(|| executable.has(process, frame.offset)) {
                continue;
            }
            let (sum, _) = sums.entry((process, &frame.function)).or_insert_with(|| (Sum::default(), leaf));
            sum.ns += each;
            sum.at.push(sample.at);
        }
    }
    let ((process, function), (sum, leaf)) = sums.into_iter().max_by(|a, b| a.1.0.ns.total_cmp(&b.1.0.ns))?;
    let (first, last) = (*sum.at.iter().min()?, *sum.at.iter().max()?);
    let late = sum.at.iter().filter(|at| at.since(first).0 > WARM_UP_NS).count();
    let share = sum.ns / f64::max(whole, 1.0);
    (share >= SHARE_MIN && late >= SAMPLES_MIN).then(|| Interpreted {
        function: function.to_owned(),
        process,
        method: trace.frames[leaf.index()].offset,
        ns: sum.ns as u64,
        error_ns: (share_error(sum.at.len() as u64, whole_samples) * whole) as u64,
        share,
        seen: (first, last),
    })
}

/// Generated code's name at its very beginning, where no sample of code that was compiled is again and again.
fn may_be(frame: &Frame) -> bool {
    frame.kind == FrameKind::User
        && frame.module == GENERATED_MODULE
        && frame.function_offset == 0
        && frame.offset != 0
        && !frame.function.is_empty()
        && !frame.inlined
}

fn leaf_of(trace: &Trace, stack: StackId) -> Option<FrameId> {
    trace.stacks.frames(stack).next()
}

/// Where a process has code.
struct Executable(HashMap<ProcessId, Vec<(u64, u64)>>);

impl Executable {
    fn from_mappings(trace: &Trace) -> Executable {
        let mut of: HashMap<ProcessId, Vec<(u64, u64)>> = HashMap::new();
        for row in &trace.mappings {
            of.entry(row.process).or_default().push((row.start, row.end));
        }
        Executable(of)
    }

    /// Whether the process may have code at the address. Always true without known mappings.
    fn has(&self, process: ProcessId, address: u64) -> bool {
        self.0
            .get(&process)
            .is_none_or(|own| own.iter().any(|(start, end)| (*start..*end).contains(&address)))
    }
}
