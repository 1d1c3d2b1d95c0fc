//! One goroutine, and what the runtime's words for waits mean.

use holdup_events::{CpuId, WaitReason};

use crate::telling::Who;

/// A goroutine.
pub(super) struct Goroutine {
    pub who: Who,
    /// The P that it runs on.
    pub cpu: Option<CpuId>,
    /// The collector's work that the goroutine does whenever it runs.
    pub collects: Option<&'static str>,
    /// Go's reason while it waits for the collector.
    pub waits_for_collector: Option<String>,
}

impl Goroutine {
    /// One that does not run.
    pub fn new(who: Who, collects: Option<&'static str>) -> Goroutine {
        Goroutine { who, cpu: None, collects, waits_for_collector: None }
    }
}

/// The work of a collector goroutine, by its start function.
pub(super) fn is_collectors(function: &str) -> Option<&'static str> {
    match function.split(".func").next().unwrap_or(function) {
        "runtime.gcBgMarkWorker" => Some("mark"),
        "runtime.bgsweep" => Some("background sweep"),
        "runtime.bgscavenge" => Some("background scavenge"),
        _ => None,
    }
}

/// Why a goroutine waits (Go's `traceBlockReasonStrings`), and whether it waits for the collector. For
/// "sync", only the stack distinguishes a join from a lock.
pub(super) fn reason<'a>(word: &str, mut functions: impl Iterator<Item = &'a str>) -> (WaitReason, bool) {
    let reason = match word {
        "network" => WaitReason::Socket,
        "sleep" => WaitReason::Sleep,
        "sync" => {
            let is_join = |function: &str| function == "sync.(*WaitGroup).Wait";
            if functions.any(is_join) { WaitReason::Join } else { WaitReason::Lock }
        }
        _ => WaitReason::Park,
    };
    let for_collector = matches!(word, "GC mark assist wait for work" | "wait until GC ends");
    (reason, for_collector)
}

/// The function that asked for a lock, of a stack from its leaf on.
pub(super) fn lock_site<'a>(mut functions: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    const LOCKS: [&str; 4] = ["sync.", "internal/sync.", "runtime.semacquire", "runtime.gopark"];
    functions.find(|function| !LOCKS.iter().any(|prefix| function.starts_with(prefix)))
}
