//! Imported samples that do not stand for time: of page faults, say, or of cycles without a frequency. How long threads ran is not
//! known; what is known is how often each stack was sampled.

use holdup_events::tables::ThreadState;
use holdup_events::{ThreadId, Trace};

/// Stacks and exports show each sample as so long (ns), as an importer does of files without times.
pub const SHOWN_NS: u64 = 1_000_000;

/// Whether the recording has samples that do not stand for time, and nothing else that says when its threads ran.
pub fn has_untimed_samples(trace: &Trace) -> bool {
    let manifest = &trace.manifest;
    // An importer of data races has a sample for each access: these show no places where a program was.
    let is_sampled = manifest
        .sources
        .iter()
        .any(|source| source.active && source.events > 0 && source.name.ends_with("-samples"));
    if manifest.mode != "import" || manifest.sample_period_ns > 0 || trace.samples.is_empty() || !is_sampled {
        return false;
    }
    let ran = |(id, thread): (u32, &holdup_events::tables::Thread)| {
        thread.target && trace.slices.of(ThreadId(id)).any(|slice| slice.state == ThreadState::Running)
    };
    !(0..).zip(&trace.threads).any(ran)
}
