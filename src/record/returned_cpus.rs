//! CPUs that come online while recording, again or for the first time. The kernel programs see their switches all the same. Samples and
//! mappings come from perf events, which the kernel ends when a CPU goes offline. They are opened again, and the time without them is
//! recorded as a loss.

use std::collections::BTreeSet;

use holdup_capture::bpf::Session;
use holdup_capture::lower;
use holdup_capture::mappings::MappingFeed;
use holdup_events::{CpuId, Event, Loss};

const EVERY_NS: u64 = 1_000_000_000;
/// Of both losses.
const REASON: &str = "cpu-was-away";

/// When they were looked for last.
#[derive(Default)]
pub struct ReturnedCpus {
    next_ns: u64,
}

impl ReturnedCpus {
    /// Checks about once per second. `sink` receives losses, and mappings of `targets` that were missed.
    pub fn step(
        &mut self,
        session: &mut Session,
        mappings: Option<&mut MappingFeed>,
        targets: &BTreeSet<u32>,
        sink: &mut dyn FnMut(Event),
    ) {
        let now_ns = lower::now().0;
        if now_ns >= self.next_ns {
            self.next_ns = now_ns + EVERY_NS;
            look(session, mappings, targets, sink);
        }
    }
}

/// Looks for them now.
pub fn look(
    session: &mut Session,
    mappings: Option<&mut MappingFeed>,
    targets: &BTreeSet<u32>,
    sink: &mut dyn FnMut(Event),
) {
    let returned = session.sample_new_cpus();
    let mut lose = |source: &str| {
        // An empty gap: nothing is sampled, and mappings are read again at once.
        for gap in returned.iter().filter(|gap| gap.start < gap.end) {
            let (source, reason, cpu) = (source.to_owned(), REASON.to_owned(), CpuId(gap.cpu));
            sink(Event::Loss(Loss { source, reason, cpu, start: gap.start, end: gap.end, events: 0 }));
        }
    };
    lose("cpu-samples");
    let Some(feed) = mappings.filter(|_| !returned.is_empty()) else { return };
    lose("mappings");
    // Refused: it is away once more.
    let _ = returned.iter().try_for_each(|gap| feed.begin_again(gap.cpu));
    targets.iter().flat_map(|tgid| feed.catch_up(*tgid)).map(Event::Mapping).for_each(sink);
}
