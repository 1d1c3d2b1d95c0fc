//! Compares a flight recorder's recording with the complete recording of the same program. From its begin on,
//! every thread must have the same states.

use std::collections::BTreeMap;
use std::path::PathBuf;

use holdup_decode::assemble::assemble;
use holdup_events::recording::ring::{EventRing, Keep};
use holdup_events::recording::{JournalReader, JournalWriter, Manifest};
use holdup_events::tables::ThreadState;
use holdup_events::{Duration, Event, ThreadId, Timestamp, Trace, WaitReason};
use holdup_testkit::sim::simulate;

/// State of a thread, as far as both recordings have it. The reason for a switch before the begin is not
/// included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Did {
    Ran,
    WaitedForCpu,
    Waited(WaitReason),
    Other(ThreadState),
}

/// Time of each of the program's threads from `from` on (ns).
fn sums(trace: &Trace, from: Timestamp) -> BTreeMap<(u32, Did), u64> {
    let mut sums = BTreeMap::new();
    for (id, thread) in (0..).map(ThreadId).zip(&trace.threads).filter(|(_, thread)| thread.target) {
        for slice in trace.slices.of_thread(id) {
            let did = match slice.state {
                ThreadState::Running => Did::Ran,
                ThreadState::Blocked => Did::Waited(trace.waits[slice.wait.index()].reason),
                state if state.waits_for_cpu() => Did::WaitedForCpu,
                state => Did::Other(state),
            };
            let length = slice.end.since(slice.start.max(from)).0;
            if length > 0 {
                *sums.entry((thread.tid, did)).or_default() += length;
            }
        }
    }
    sums
}

/// The recording saved at the end by a ring that keeps this part of the run: its begin, and its trace.
fn saved(events: &[Event], manifest: &Manifest, part: u64, name: &str) -> (Timestamp, Trace) {
    let wall_ns = manifest.end_ns - manifest.start_ns;
    let keep = Keep { time: Duration(wall_ns / part), bytes: 1 << 30 };
    let mut ring = EventRing::new(keep, ());
    ring.begin_at(Timestamp(manifest.start_ns), ());
    for event in events {
        ring.push(event);
        if ring.is_due() {
            ring.begin_segment(());
        }
    }
    let cut = ring.cut(Timestamp(manifest.end_ns)).unwrap();
    let start = cut.start;
    let directory: PathBuf =
        std::env::temp_dir().join(format!("holdup-flight-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let mut journal = JournalWriter::create(&directory, manifest).unwrap();
    cut.write(&mut journal);
    let left: Vec<Event> = JournalReader::open(&directory).unwrap().collect();
    std::fs::remove_dir_all(&directory).unwrap();
    (start, assemble(left, Manifest { start_ns: start.0, ..manifest.clone() }))
}

#[test]
fn from_where_it_begins_every_thread_did_the_same() {
    let seeds = if std::env::var_os("HOLDUP_QUICK").is_some() { 10 } else { 60 };
    let mut dropped = 0;
    for seed in 0..seeds {
        let simulation = simulate(seed);
        let whole = assemble(simulation.events.clone(), simulation.manifest.clone());
        for part in [2, 5] {
            let (start, trace) =
                saved(&simulation.events, &simulation.manifest, part, &format!("{seed}-{part}"));
            dropped += u64::from(start > whole.start());
            assert_eq!(sums(&trace, start), sums(&whole, start), "seed {seed}, a {part}th is kept");
            assert!(trace.losses.is_empty(), "{:?}", trace.losses);
        }
    }
    assert!(dropped > seeds, "most of them did drop something: {dropped}");
}
