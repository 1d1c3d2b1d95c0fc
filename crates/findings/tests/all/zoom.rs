//! Tiles, lanes and ranges against a plain walk over the slices, on random programs and on pictures.

use holdup_events::tables::ThreadState;
use holdup_events::{CpuId, Duration, ThreadId, Timestamp, Trace};
use holdup_findings::derive::class::{CLASSES, Class};
use holdup_findings::derive::holders::{Basis, Holders};
use holdup_findings::derive::ledger::{self, ByClass};
use holdup_findings::derive::locks::LockIndex;
use holdup_findings::derive::roles::Roles;
use holdup_findings::derive::timelines::Timelines;
use holdup_findings::derive::why::{Facts, What, occupants, why};
use holdup_findings::derive::zoom::cpus::Ran;
use holdup_findings::derive::zoom::lanes::LaneWhat;
use holdup_findings::derive::zoom::{CELLS, Overview, Tile, Tiling, Zoom, cpu_lane, lane, range_ledger};
use holdup_testkit::assemble;
use holdup_testkit::check::trace_of_lanes;
use holdup_testkit::random::Random;
use holdup_testkit::sim::simulate;

const SEEDS: u64 = 60;

struct Looked {
    trace: Trace,
    timelines: Timelines,
    zoom: Zoom,
    roles: Roles,
    tiling: Tiling,
}

fn looked_at(trace: Trace) -> Looked {
    let timelines = Timelines::derive(&trace);
    let roles = Roles::built_in(&trace);
    let zoom = Zoom::derive(&trace, &timelines, &roles);
    let tiling = Tiling::new(&trace);
    Looked { trace, timelines, zoom, roles, tiling }
}

fn random(seed: u64) -> Looked {
    let simulation = simulate(seed);
    looked_at(assemble(simulation.events, simulation.manifest))
}

/// A thread that does little more than switch: every zoom has much to merge.
fn switching() -> Looked {
    let (_, trace) = trace_of_lanes(
        "@cpus 2\n@tick 1000\n@repeat 700\n@d disk\nA 0mm0r0dd000\nB 11111yy11mm holds m 1..3\n~f ....0.1....\n",
    );
    looked_at(trace)
}

impl Looked {
    fn threads(&self) -> impl Iterator<Item = ThreadId> {
        (0..self.trace.threads.len() as u32).map(ThreadId)
    }

    fn tiles(&self) -> Vec<Tile> {
        let mut random = Random::new(7);
        let mut tiles = Vec::new();
        for level in 0..=self.tiling.level_max() {
            for index in [0, random.bits() % self.tiling.tiles(level), self.tiling.tiles(level) - 1] {
                tiles.extend(self.tiling.tile(level, index));
            }
        }
        tiles
    }

    /// Time by class in a range, slice by slice.
    fn walked(&self, thread: ThreadId, from: Timestamp, to: Timestamp) -> ByClass {
        let mut sums = [0; CLASSES];
        for row in self.trace.slices.rows(thread) {
            let slice = self.trace.slices.at(thread, row);
            if let Some(class) = self.zoom.class(row) {
                sums[class as usize] += slice.end.min(to).since(slice.start.max(from)).0;
            }
        }
        sums
    }
}

fn check_lanes(looked: &Looked, said: &str) {
    for thread in looked.threads() {
        let life = &looked.trace.threads[thread.index()];
        for tile in looked.tiles() {
            let lane = lane(&looked.trace, &looked.zoom, thread, &tile);
            assert!(lane.rows.len() <= 2 * CELLS + 1, "{said}: {} rows", lane.rows.len());
            let mut sums: ByClass = [0; CLASSES];
            let mut at = Timestamp(0);
            for row in &lane.rows {
                assert!(row.start >= at && row.end > row.start, "{said}: {row:?} {at:?}");
                assert!(row.end > tile.start && row.start < tile.end, "{said}: {row:?} outside {tile:?}");
                at = row.end;
                match row.what {
                    LaneWhat::Slice(number) => {
                        let slice = looked.trace.slices.at(thread, number);
                        assert_eq!((slice.start, slice.end), (row.start, row.end), "{said}");
                        sums[row.class as usize] += row.end.min(tile.end).since(row.start.max(tile.start)).0;
                    }
                    LaneWhat::Merged(slices, classes) => {
                        assert!(
                            slices >= 2 && row.end.since(row.start).0 < 2 * tile.cell.0,
                            "{said}: {row:?}"
                        );
                        assert_eq!(classes.iter().max(), Some(&classes[row.class as usize]), "{said}");
                        assert!(!lane.complete, "{said}");
                        sums.iter_mut().zip(classes).for_each(|(sum, ns)| *sum += ns);
                    }
                }
            }
            let (from, to) = (tile.start.max(life.start), tile.end.min(life.end));
            assert_eq!(sums, looked.walked(thread, from, to), "{said}, {thread:?}, {tile:?}");
        }
    }
}

#[test]
fn lanes_cover_all_time_at_every_zoom() {
    for seed in 0..SEEDS {
        check_lanes(&random(seed), &format!("seed {seed}"));
    }
    check_lanes(&switching(), "switching");
}

#[test]
fn the_deepest_zoom_merges_nothing_that_lasts() {
    let looked = switching();
    let whole = looked.tiling.tile(0, 0).expect("there");
    let first = ThreadId(0);
    assert!(!lane(&looked.trace, &looked.zoom, first, &whole).complete);
    let deep = looked.tiling.tile(6, 3).expect("there");
    let lane = lane(&looked.trace, &looked.zoom, first, &deep);
    assert!(lane.complete && lane.rows.len() > 10, "{lane:?}");
}

#[test]
fn cpu_lanes_cover_all_running_time_at_every_zoom() {
    let all = (0..SEEDS).map(random).chain([switching()]);
    for (number, looked) in all.enumerate() {
        for (cpu, timeline) in looked.timelines.iter() {
            for tile in looked.tiles() {
                let lane = cpu_lane(timeline, &tile);
                let mut at = Timestamp(0);
                let mut ran = 0;
                for row in &lane.rows {
                    assert!(row.start >= at && row.end > row.start, "{number} {cpu:?}: {row:?}");
                    at = row.end;
                    ran += match row.who {
                        Ran::Thread(_) => row.end.min(tile.end).since(row.start.max(tile.start)).0,
                        Ran::Merged(_, own, others) => own + others,
                    };
                }
                let mut cursor = 0;
                let (own, others) = timeline.ran(tile.start, tile.end, &mut cursor);
                assert_eq!(ran, own + others, "{number} {cpu:?} {tile:?}");
                assert!(lane.rows.len() <= 2 * CELLS + 1);
            }
        }
    }
}

#[test]
fn the_overview_is_the_sum_of_the_lanes() {
    for (number, looked) in (0..20).map(random).chain([switching()]).enumerate() {
        let overview = Overview::derive(&looked.trace, &looked.zoom);
        for tile in looked.tiles() {
            let cells = overview.tile(&looked.trace, &looked.zoom, &tile);
            for probe in [0, 1, 17, CELLS / 2, CELLS - 1] {
                let from = tile.start + Duration(tile.cell.0 * probe as u64);
                let mut sums: ByClass = [0; CLASSES];
                for thread in looked.trace.target_threads() {
                    let part = looked.walked(thread, from, from + tile.cell);
                    sums.iter_mut().zip(part).for_each(|(sum, ns)| *sum += ns);
                }
                assert_eq!(cells[probe], sums, "{number}, cell {probe} of {tile:?}");
            }
        }
    }
}

#[test]
fn the_range_of_everything_is_the_ledger() {
    for (number, looked) in (0..SEEDS).map(random).chain([switching()]).enumerate() {
        let whole = ledger::derive_with(&looked.trace, &looked.timelines, &looked.roles);
        let threads: Vec<ThreadId> = looked.trace.target_threads().collect();
        let parts = (&looked.trace, &looked.timelines, &looked.zoom, &looked.roles);
        let range = range_ledger(parts, &threads, (looked.trace.start(), looked.trace.end()));
        assert_eq!((range.total_ns, range.classes), (whole.total_ns, whole.classes), "{number}");
        assert_eq!(range.run_queue, whole.run_queue, "{number}");
        assert_eq!((range.samples, range.split_error_ns), (whole.samples, whole.split_error_ns), "{number}");
    }
}

#[test]
fn ranges_add_up() {
    for (number, looked) in (0..SEEDS).map(random).chain([switching()]).enumerate() {
        let threads: Vec<ThreadId> = looked.trace.target_threads().collect();
        let parts = (&looked.trace, &looked.timelines, &looked.zoom, &looked.roles);
        let mut random = Random::new(number as u64);
        let at = |ns: u64| looked.trace.start() + Duration(ns);
        let middle = random.within(0, looked.trace.wall().0);
        let (a, b) = (random.within(0, middle), random.within(middle, looked.trace.wall().0));
        let [whole, left, right] = [(a, b), (a, middle), (middle, b)]
            .map(|(from, to)| range_ledger(parts, &threads, (at(from), at(to))));
        assert_eq!(whole.total_ns, left.total_ns + right.total_ns, "{number}");
        assert_eq!(whole.classes.iter().sum::<u64>(), whole.total_ns, "{number}");
        for class in Class::ALL.into_iter().filter(|class| !class.on_cpu() && *class != Class::Stolen) {
            let class = class as usize;
            assert_eq!(whole.classes[class], left.classes[class] + right.classes[class], "{number}");
        }
        let queued = |one: &holdup_findings::derive::zoom::RangeLedger| {
            let split = one.run_queue;
            split.own_ns + split.others_ns + split.throttled_ns + split.idle_ns
        };
        assert_eq!(queued(&whole), whole.classes[Class::RunQueue as usize], "{number}");
        assert_eq!(queued(&whole), queued(&left) + queued(&right), "{number}");
    }
}

/// B held m, and another program used its CPU. That is why A waited.
#[test]
fn the_reason_chain_leads_to_the_occupant_of_the_holders_cpu() {
    let (_, trace) =
        trace_of_lanes("@cpus 2\nA 0mmmmmmmmm00\nB 111rrrrr1111 holds m 0..10\n~stranger ...11111....\n");
    let looked = looked_at(trace);
    let thread = |name: &str| {
        let found = looked.trace.threads.iter().position(|thread| thread.name == name);
        ThreadId(found.expect("drawn") as u32)
    };
    let slices = looked.trace.slices.rows(thread("A"));
    let blocked = |row: &usize| looked.trace.slices.at(thread("A"), *row).state == ThreadState::Blocked;
    let row = slices.clone().find(blocked).expect("A waits");
    let locks = LockIndex::new(&looked.trace, &looked.roles);
    let holders = Holders::derive(&looked.trace, &locks, &looked.roles);
    let Looked { trace, timelines, zoom, .. } = &looked;
    let links = why(Facts { trace, timelines, zoom, holders: &holders, locks: &locks }, thread("A"), row);
    let said: Vec<(Option<ThreadId>, &What)> = links.iter().map(|link| (link.thread, &link.what)).collect();
    assert_eq!(said.len(), 4, "{links:#?}");
    assert_eq!(said[0], (Some(thread("A")), &What::Slice));
    let had_it = |what: &What| matches!(what, What::Held(hold, _) if hold.basis == Basis::Releaser);
    assert!(said[1].0 == Some(thread("B")) && had_it(said[1].1), "{links:#?}");
    assert_eq!(said[2], (Some(thread("B")), &What::Slice));
    let what = What::HadCpu(CpuId(1), Duration(5_000_000), 0);
    assert_eq!(said[3], (Some(thread("stranger")), &what));
}

/// A was preempted on CPU 0, where the other program continued, and found CPU 1 free at the end.
#[test]
fn a_preempted_thread_queues_behind_the_preempting_one() {
    let (_, trace) = trace_of_lanes("@cpus 2\nA 000rrrrr1111\nB 11111111....\n~stranger ...000000000\n");
    let looked = looked_at(trace);
    let all = looked.threads().flat_map(|thread| looked.trace.slices.of_thread(thread));
    let slice = all.filter(|slice| slice.state.waits_for_cpu()).max_by_key(|slice| slice.duration());
    let slice = slice.expect("A waits for a CPU");
    assert_eq!(slice.cpu, CpuId(1), "{slice:?}");
    let (_, ranked) = occupants(&looked.trace, &looked.timelines, &slice);
    assert_eq!(ranked.iter().map(|(_, length)| length.0).sum::<u64>(), slice.duration().0);
}

#[test]
fn nothing_is_asked_of_an_empty_recording_in_vain() {
    let looked = looked_at(Trace::default());
    let tile = looked.tiling.tile(0, 0).expect("there is always one");
    assert!(lane(&looked.trace, &looked.zoom, ThreadId(0), &tile).rows.is_empty());
    let parts = (&looked.trace, &looked.timelines, &looked.zoom, &looked.roles);
    assert_eq!(range_ledger(parts, &[], (Timestamp(0), Timestamp(9))).total_ns, 0);
    let cells = Overview::derive(&looked.trace, &looked.zoom).tile(&looked.trace, &looked.zoom, &tile);
    assert!(cells.iter().flatten().all(|ns| *ns == 0));
}
