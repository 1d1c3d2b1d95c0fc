//! Imported samples that do not represent time, such as page faults, or cycles without a frequency. The
//! running time of threads is unknown. Known is the number of samples of each stack.

use holdup_events::tables::ThreadState;
use holdup_events::{ThreadId, Trace};

/// Stacks and exports show each sample as so long (ns), as an importer does of files without times.
pub const SHOWN_NS: u64 = 1_000_000;

/// Whether the recording has samples that do not represent time, and no other source for the running time of
/// threads.
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
        thread.target && trace.slices.of_thread(ThreadId(id)).any(|slice| slice.state == ThreadState::Running)
    };
    !(0..).zip(&trace.threads).any(ran)
}
