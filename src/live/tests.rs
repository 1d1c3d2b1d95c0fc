//! The live view of an interval equals the report of a recording of the same interval.

use holdup_events::recording::ring::{EventRing, Keep};
use holdup_events::recording::{self, JournalWriter};
use holdup_events::{Duration, Timestamp};
use holdup_findings::analysis;
use holdup_testkit::sim;

use super::*;
use crate::record::finish;

/// A simulated program's intervals, as they are cut from a ring, and as recordings.
fn intervals(seed: u64, mut check: impl FnMut(Moment, recording::Manifest, Cut<Mark>)) {
    let run = sim::simulate(seed);
    let wall = Duration(run.wall_ns());
    let keep = Keep { time: wall, bytes: 64 << 20 };
    let mut ring = EventRing::new(keep, Mark::default());
    ring.begin_at(Timestamp(run.manifest.start_ns), Mark::default());
    let mut looker = Looker::new(run.manifest.clone(), Descriptors::built_in());
    let (mut from, mut stacks) = (Timestamp(run.manifest.start_ns), Vec::new());
    let mut look = |ring: &mut EventRing<Mark>, stacks: &mut Vec<RawStack>| {
        ring.begin_segment(Mark::default());
        let cut = ring.cut_ended_since(from).unwrap();
        let same = ring.cut_ended_since(from).unwrap();
        from = cut.end + Duration(1);
        let manifest = Manifest { start_ns: cut.start.0, end_ns: cut.end.0, ..run.manifest.clone() };
        let (spent, roots) = (Cost::default(), Roots::default());
        let stacks = std::mem::take(stacks);
        check(looker.look(Stretch { cut, stacks, is_anew: false, spent, roots, skipped: 0 }), manifest, same);
    };
    let count = run.events.len();
    for (number, event) in run.events.iter().enumerate() {
        if let holdup_events::Event::Stack(stack) = event {
            stacks.push(stack.clone());
        }
        ring.push(event);
        if number == count / 3 || number == 2 * count / 3 {
            look(&mut ring, &mut stacks);
        }
    }
    look(&mut ring, &mut stacks);
}

#[test]
fn an_interval_equals_its_recording() {
    for seed in 0..6 {
        let mut number = 0;
        intervals(seed, |moment, mut manifest, cut| {
            number += 1;
            let name = format!("holdup-live-{}-{seed}-{number}", std::process::id());
            let dir = std::env::temp_dir().join(name);
            std::fs::create_dir_all(&dir).unwrap();
            let mut journal = JournalWriter::create(&dir, &manifest).unwrap();
            cut.write(&mut journal);
            drop(journal);
            finish::finish(&dir, &mut manifest, None, &Roots::default()).unwrap();
            let trace = recording::open(&dir).unwrap();
            std::fs::remove_dir_all(&dir).unwrap();
            let ledger = analysis::begin(&trace, &Descriptors::built_in()).ledger;
            let glance = moment.glance;
            assert_eq!((glance.start, glance.end), (trace.start(), trace.end()), "{seed} {number}");
            assert_eq!(
                (glance.total_ns, glance.classes),
                (ledger.total_ns, ledger.classes),
                "{seed} {number}"
            );
            assert_eq!(glance.run_queue, ledger.run_queue, "{seed} {number}");
        });
        assert_eq!(number, 3);
    }
}

/// Values that do not depend on samples are exact for any division of a run into intervals.
#[test]
fn intervals_add_up_to_the_whole() {
    for seed in 0..10 {
        let run = sim::simulate(seed);
        let (mut queue, mut total, mut end) = (0, 0, 0);
        intervals(seed, |moment, manifest, _| {
            queue += moment.glance.class_ns(holdup_findings::derive::class::Class::RunQueue);
            total += moment.glance.total_ns;
            end = manifest.end_ns;
        });
        let whole = holdup_testkit::assemble(run.events, Manifest { end_ns: end, ..run.manifest });
        let ledger = analysis::begin(&whole, &Descriptors::built_in()).ledger;
        // Each cut leaves out the nanosecond between two intervals, of each thread.
        let gaps = 2 * whole.threads.len() as u64;
        assert!(ledger.total_ns.abs_diff(total) <= gaps, "{seed}: {} {total}", ledger.total_ns);
        let known = ledger.class_ns(holdup_findings::derive::class::Class::RunQueue);
        assert!(known.abs_diff(queue) <= gaps, "{seed}: {known} {queue}");
    }
}
