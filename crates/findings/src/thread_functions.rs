//! Adds a thread's function to its name in findings, where threads of one name run different functions.

use std::collections::BTreeMap;

use holdup_events::tables::{Frame, FrameKind};
use holdup_events::{StackId, ThreadId, Trace};

use crate::derive::samples_of;
use crate::finding::Finding;
use crate::wording::{function, thread};

/// Maximum number of a thread's stacks that are read.
const STACKS_MAX: usize = 64;

/// Modules whose functions start a process or a thread.
const STARTING_MODULES: [&str; 4] = ["libc.so", "libc-", "libpthread", "ld-"];

/// Functions, and namespaces with a trailing `::`, that start a process or a thread in any module.
const STARTERS: [&str; 10] = [
    "_start",
    "__libc_start_main",
    "__libc_start_call_main",
    "start_thread",
    "__clone",
    "clone3",
    "execute_native_thread_routine",
    "std::",
    "core::",
    "alloc::",
];

/// The outermost function of a thread's stacks that does not belong to the start of threads. The most
/// frequent one of the first [`STACKS_MAX`] samples, or waits if there are no samples.
fn started_with(trace: &Trace, id: ThreadId) -> Option<String> {
    let outermost = |stack: StackId| -> Option<String> {
        let frames: Vec<&Frame> =
            trace.stack_frames(stack).filter_map(|frame| trace.frames.get(frame.index())).collect();
        let first = frames.into_iter().rev().find(|frame| !starts_threads(frame))?;
        (first.kind != FrameKind::Kernel && !first.function.is_empty())
            .then(|| function(&first.function).into_owned())
    };
    let sampled = samples_of(trace, id).iter().take(STACKS_MAX).map(|sample| sample.stack);
    let waited =
        trace.slices.of_thread(id).map(|slice| slice.stack).filter(|stack| stack.0 > 0).take(STACKS_MAX);
    most_frequent(sampled.filter_map(outermost)).or_else(|| most_frequent(waited.filter_map(outermost)))
}

fn starts_threads(frame: &Frame) -> bool {
    let file = frame.module.rsplit('/').next().unwrap_or("");
    let name = frame.function.trim_start_matches('<');
    let is_starter = |one: &str| name == one || one.ends_with("::") && name.starts_with(one);
    STARTING_MODULES.iter().any(|module| file.starts_with(module)) || STARTERS.into_iter().any(is_starter)
}

fn most_frequent(names: impl Iterator<Item = String>) -> Option<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for name in names {
        *counts.entry(name).or_default() += 1;
    }
    counts.into_iter().max_by(|a, b| a.1.cmp(&b.1).then(b.0.cmp(&a.0))).map(|(name, _)| name)
}

/// Texts that name a thread, each with the text that also has its function. Only threads of the program whose
/// name repeats, with a function that not all of them have.
fn longer_names(trace: &Trace) -> Vec<(String, String)> {
    let mut same: BTreeMap<&str, Vec<ThreadId>> = BTreeMap::new();
    for id in trace.target_threads() {
        same.entry(trace.threads[id.index()].name.as_str()).or_default().push(id);
    }
    let mut longer = Vec::new();
    for threads in same.into_values().filter(|threads| threads.len() > 1) {
        let functions: Vec<Option<String>> = threads.iter().map(|id| started_with(trace, *id)).collect();
        let mut known = functions.iter().flatten();
        let first = known.next();
        if known.all(|one| Some(one) == first) {
            continue;
        }
        for (id, function) in threads.into_iter().zip(functions) {
            let short = thread(trace, id);
            let Some((function, bare)) = function.zip(short.strip_suffix(')')) else { continue };
            longer.push((short.clone(), format!("{bare}, {function})")));
        }
    }
    longer
}

/// Maximum number of threads for which functions are looked up.
const THREADS_MAX: usize = 1_000;

/// Adds the functions to the names in the findings' sentences.
pub fn add_to<'a>(trace: &Trace, findings: impl Iterator<Item = &'a mut Finding>) {
    if trace.target_threads().count() > THREADS_MAX {
        return;
    }
    let longer = longer_names(trace);
    for sentence in findings.flat_map(|finding| finding.summary.iter_mut()) {
        for (short, long) in &longer {
            if sentence.contains(short.as_str()) {
                *sentence = sentence.replace(short.as_str(), long);
            }
        }
    }
}
