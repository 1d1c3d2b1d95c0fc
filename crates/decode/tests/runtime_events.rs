//! The runtime's events on rings that OCaml 5.3 wrote (fixtures/runtime_events), whole and damaged.

use std::collections::BTreeMap;
use std::io::Read;

use holdup_decode::assemble;
use holdup_decode::readers::{self, Facts, Wanted};
use holdup_decode::runtime_events::{Rings, Span, Version, is_ocaml};
use holdup_events::event::{Lifecycle, LifecycleChange, Outcome, Snapshot, SnapshotState, Switch};
use holdup_events::recording::Manifest;
use holdup_events::tables::SpanKind;
use holdup_events::{CpuId, Event, Timestamp, Trace};

const ALL: &[&str] = &[
    "alloc2-d4-e14",
    "wrapped-d4-e8",
    "userevents-slotreuse-d8-e12",
    "forkchild",
    "sigkill-norringstop",
    "eio-d4-e12",
];
const ALWAYS: Span = Span { from: Timestamp(0), until: Timestamp(u64::MAX) };

fn folder(name: &str) -> String {
    format!("{}/../../fixtures/runtime_events/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn fixture(name: &str) -> Vec<u8> {
    unpacked(&format!("ocaml53-{name}.events.gz"))
}

fn unpacked(file: &str) -> Vec<u8> {
    let file = std::fs::File::open(folder(file)).unwrap();
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(file).read_to_end(&mut bytes).unwrap();
    bytes
}

fn import(bytes: &[u8]) -> (Trace, Facts) {
    let mut events = Vec::new();
    let reader = readers::detect(bytes).unwrap();
    assert_eq!(reader.info().name, "ocaml-events");
    let facts = reader.read(bytes, &Wanted::default(), &mut |event| events.push(event)).unwrap();
    assert!(
        events.iter().filter(|event| !matches!(event, Event::Loss(_))).is_sorted_by_key(|event| event.at())
    );
    let manifest = Manifest {
        start_ns: facts.span.0.0,
        end_ns: facts.span.1.0,
        backend: facts.backend,
        ..Manifest::default()
    };
    (assemble(events, manifest), facts)
}

/// Count and length (ns) of the spans of a name, by number of the lane.
fn spans(trace: &Trace, name: &str) -> BTreeMap<u32, (usize, u64)> {
    let mut sums = BTreeMap::new();
    for span in trace.spans.rows().iter().filter(|span| trace.event_name(span.name).text == name) {
        let sum: &mut (usize, u64) = sums.entry(trace.lanes[span.lane as usize].number).or_default();
        sum.0 += 1;
        sum.1 += span.end.since(span.start).0;
    }
    sums
}

#[test]
fn spans_match_an_independent_decoder() {
    let (trace, facts) = import(&fixture("alloc2-d4-e14"));
    // What a decoder written apart from this one finds in the same file.
    let sums = |name| -> Vec<(usize, u64)> {
        spans(&trace, name).values().map(|(count, ns)| (*count, (ns + 500) / 1000)).collect()
    };
    assert_eq!(sums("minor"), [(40, 1192), (39, 88_734), (40, 74_132)]);
    assert_eq!(sums("minor_leave_barrier")[0].1, 28_421);
    assert_eq!(sums("stw_api_barrier").iter().map(|sum| sum.1).collect::<Vec<_>>(), [1406, 2618, 5892]);
    assert_eq!(sums("stw_handler").iter().map(|sum| sum.1).collect::<Vec<_>>(), [43_300, 94_023, 86_998]);
    assert_eq!(sums("domain_condition_wait"), [(1, 222_370)]);
    assert!(facts.limits.contains("OCaml 5.3 or later"), "{}", facts.limits);
    assert_eq!(
        trace.lanes.iter().map(|lane| lane.runtime.as_str()).collect::<Vec<_>>(),
        ["ocaml 5.3 or later"; 3]
    );
    assert!(trace.losses.is_empty());
    assert_eq!(trace.target_threads().count(), 3);
    // Each lane's spans nest.
    for thread in trace.target_threads() {
        let mut open: Vec<Timestamp> = Vec::new();
        for span in trace.spans.of_thread(thread) {
            while open.last().is_some_and(|end| *end <= span.start) {
                open.pop();
            }
            assert!(open.last().is_none_or(|end| span.end <= *end), "{span:?}");
            open.push(span.end);
        }
    }
}

#[test]
fn a_wrapped_ring_reports_its_lost_start() {
    let (trace, facts) = import(&fixture("wrapped-d4-e8"));
    assert_eq!(trace.losses.len(), 2);
    assert!(trace.losses.iter().all(|loss| loss.reason == "ring-full" && loss.end <= trace.end()));
    assert!(facts.sources[0].missing.contains("2746 words"), "{}", facts.sources[0].missing);
    assert!(!trace.spans.is_empty());
}

#[test]
fn the_programs_own_events_and_slots_used_again() {
    let (trace, _) = import(&fixture("userevents-slotreuse-d8-e12"));
    assert_eq!(trace.lanes.iter().map(|lane| lane.number).collect::<Vec<_>>(), [0, 1, 1, 1]);
    let name = |row: u32| trace.event_name(row).text.as_str();
    let marks =
        |wanted: &str| trace.marks.iter().filter(|mark| name(mark.name) == wanted).collect::<Vec<_>>();
    let mut ints: Vec<i64> = marks("my.int").iter().map(|mark| mark.value as i64).collect();
    ints.sort();
    assert_eq!(ints, [-7, 1, 2, 3, 123_456_789]);
    let texts: Vec<&str> = marks("my.str").iter().map(|mark| name(mark.text)).collect();
    assert_eq!(texts, ["", "hello", "1234567", "12345678", "a longer string with words"]);
    assert_eq!((marks("my.unit").len(), spans(&trace, "my.span")[&0].0), (1, 1));
    assert_eq!(marks("ring_stop").len(), 1);
}

/// The sums are those of a decoder written apart from this one.
#[test]
fn fibers_of_eio_and_what_they_name_are_spans_and_an_idle_domain_is_idle() {
    let (trace, _) = import(&fixture("eio-d4-e12"));
    let mut turns: BTreeMap<u32, (usize, u64)> = BTreeMap::new();
    let mut fibers = std::collections::BTreeSet::new();
    for span in trace.spans.rows() {
        let name = trace.event_name(span.name);
        if name.text.starts_with("fiber ") {
            assert_eq!(name.kind, SpanKind::User);
            let sum = turns.entry(trace.lanes[span.lane as usize].number).or_default();
            *sum = (sum.0 + 1, sum.1 + span.end.since(span.start).0);
            fibers.insert(&name.text);
        }
    }
    let turns: Vec<(usize, u64)> = turns.into_values().collect();
    assert_eq!(turns, [(54, 359_058), (20, 95_699_069), (20, 40_142_003)]);
    assert_eq!(fibers.len(), 18);
    let all =
        |name| spans(&trace, name).into_values().fold((0, 0), |sum, lane| (sum.0 + lane.0, sum.1 + lane.1));
    // A span goes on with its fiber: four naps of four fibers, each before and after its sleep.
    assert_eq!((all("nap"), all("hard")), ((32, 37_025), (8, 48_996_564)));
    assert_eq!((all("all too hard"), all("Domain.join")), ((8, 20_025_710), (2, 217_378)));
    let idle: Vec<u64> = spans(&trace, "eio.suspend_domain").values().map(|sum| sum.1).collect();
    assert_eq!(idle, [100_844_508, 5_110_472, 60_420_977]);
    let kind_of = |wanted: &str| trace.names.iter().find(|name| name.text == wanted).map(|name| name.kind);
    assert_eq!(kind_of("eio.suspend_domain"), Some(SpanKind::Idle));
    let name = |row: u32| trace.event_name(row).text.as_str();
    let marks = |wanted: &str| trace.marks.iter().filter(|mark| name(mark.name) == wanted).count();
    assert_eq!((marks("eio.fiber"), marks("eio.suspend_fiber"), marks("eio.put")), (94, 61, 16));
    let logged = trace.marks.iter().filter(|mark| name(mark.name) == "eio.log");
    assert_eq!(logged.map(|mark| name(mark.text)).collect::<Vec<_>>(), ["got 1", "got 2", "got 3", "got 4"]);
}

#[test]
fn a_killed_programs_open_spans_end_with_it() {
    let (trace, _) = import(&fixture("sigkill-norringstop"));
    assert!(trace.marks.iter().all(|mark| trace.event_name(mark.name).text != "ring_stop"));
    assert!(trace.spans.rows().iter().all(|span| span.end <= trace.end()));
    let (child, _) = import(&fixture("forkchild"));
    assert!(child.marks.iter().any(|mark| child.event_name(mark.name).text == "fork_child"));
}

/// Scheduling of `alloc2-d4-e14`: the running threads over time, recorded by another tool in the same run.
fn switches() -> Vec<Event> {
    let text = std::fs::read_to_string(folder("ocaml53-alloc2.oncpu.csv")).unwrap();
    let mut changes: Vec<(u64, bool, u32)> = Vec::new();
    for line in text.lines().skip(1) {
        let fields: Vec<u64> = line.split(',').map(|field| field.parse().unwrap()).collect();
        let [tid, on, off] = fields[..] else { panic!("{line}") };
        changes.extend([(on, true, tid as u32), (off, false, tid as u32)]);
    }
    // At equal times, departures come before arrivals.
    changes.sort();
    let mut cpus: Vec<Option<u32>> = vec![None; 8];
    let mut events = Vec::new();
    for (at, comes, tid) in changes {
        let place = cpus.iter().position(|who| *who == if comes { None } else { Some(tid) }).unwrap();
        cpus[place] = comes.then_some(tid);
        let (prev_tid, next_tid) = if comes { (0, tid) } else { (tid, 0) };
        let outcome = if comes { Outcome::Untracked } else { Outcome::Preempted };
        let (at, cpu, prev_tgid) = (Timestamp(at), CpuId(place as u16), if comes { 0 } else { 9758 });
        let counters = (None, None);
        events.push(Event::Switch(Switch {
            at,
            cpu,
            prev_tid,
            next_tid,
            prev_tgid,
            outcome,
            exec_ns: counters.0,
            queue_ns: counters.1,
            clock_ran_ns: None,
        }));
    }
    events
}

fn known(tid: u32, at: Timestamp) -> Event {
    let (tgid, name, target) = (9758, "alloc".to_owned(), true);
    if tid == tgid {
        let state = SnapshotState::Runnable;
        return Event::Snapshot(Snapshot {
            at,
            tid,
            tgid,
            parent_tgid: 0,
            name,
            target,
            state,
            exec_ns: None,
            queue_ns: None,
        });
    }
    let change = LifecycleChange::Fork { parent_tid: tgid };
    Event::Lifecycle(Lifecycle { at, change, tid, tgid, name, target })
}

/// A program of OCaml 4 has no runtime events, and is not asked for them. A binary with the text of version 5
/// but without its events is not of version 5 either.
#[test]
fn a_program_of_ocaml_4_has_no_events() {
    let mut program = unpacked("ocaml414-strings.gz");
    program.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = 0);
    assert!(program.windows(8).any(|text| text == b"\x004.14.0\0"));
    assert!(!is_ocaml(&program));
    assert_eq!(Version::of_binary(&program), None);
    program.extend(b"5.3.0\0");
    assert_eq!(Version::of_binary(&program), None);
    // With what switches events on it is one of 5, and of that version.
    program.extend(b"OCAML_RUNTIME_EVENTS_START\0");
    assert_eq!(Version::of_binary(&program).map(|version| version.text).as_deref(), Some("5.3.0"));
}

#[test]
fn every_event_is_on_the_thread_that_ran() {
    let mut events = switches();
    let start = events.iter().map(Event::at).min().unwrap();
    let mut firsts: BTreeMap<u32, Timestamp> = BTreeMap::new();
    for event in &events {
        if let Event::Switch(Switch { at, next_tid, .. }) = event
            && *next_tid != 0
        {
            firsts.entry(*next_tid).or_insert(*at);
        }
    }
    let bytes = fixture("alloc2-d4-e14");
    Rings::open(&bytes[..], 9758, None).unwrap().poll(ALWAYS, &mut |event| events.push(event));
    let end = events.iter().map(Event::at).max().unwrap();
    events.extend(firsts.iter().map(|(tid, at)| known(*tid, Timestamp(at.0 - u64::from(*tid != 9758)))));
    events.sort_by_key(|event| (event.at(), matches!(event, Event::Runtime(_))));
    let trace = assemble(events, Manifest { start_ns: start.0, end_ns: end.0, ..Manifest::default() });
    let told: u64 = trace.lanes.iter().map(|lane| lane.events).sum();
    let matched: u64 = trace.lanes.iter().map(|lane| lane.matched).sum();
    assert_eq!((told, matched), (5226, 5226));
    let mut owners: BTreeMap<u32, u32> = BTreeMap::new();
    for span in trace.spans.rows() {
        let tid = trace.threads[span.thread.index()].tid;
        assert_eq!(*owners.entry(tid).or_insert(span.lane), span.lane);
    }
    // The main thread waits in a join while its backup thread answers for it.
    assert_eq!(owners, [(9758, 0), (9760, 1), (9762, 0), (9763, 2)].into());
}

#[test]
fn damaged_rings_do_no_harm() {
    std::thread::scope(|scope| ALL.iter().for_each(|name| drop(scope.spawn(|| damage(name)))));
}

fn damage(name: &str) {
    let mut seed = name.len() as u64;
    let mut random = move |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % below.max(1) as u64) as usize
    };
    let rounds = if std::env::var_os("HOLDUP_QUICK").is_some() { 400 } else { 10_000 };
    let mut bytes = fixture(name);
    // Where there is something: a ring is mostly zeros.
    let places: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != 0).collect();
    for _ in 0..rounds {
        let mut undo = Vec::new();
        for _ in 0..1 + random(4) {
            let at = places[random(places.len())] & !7;
            let extreme = [0, 1, 0xff, 1 << 31, 1 << 53, 1 << 63, u64::MAX, random(usize::MAX) as u64];
            let word: [u8; 8] = bytes[at..at + 8].try_into().unwrap();
            undo.push((at, word));
            let new = match random(3) {
                0 => extreme[random(extreme.len())],
                1 => u64::from_le_bytes(word) ^ 1 << random(64),
                _ => u64::from_le_bytes(word).wrapping_add(random(9) as u64).wrapping_sub(4),
            };
            bytes[at..at + 8].copy_from_slice(&new.to_le_bytes());
        }
        let length = if random(4) == 0 { random(bytes.len()) } else { bytes.len() };
        if let Ok(mut rings) = Rings::open(&bytes[..length], 1, None) {
            let mut count = 0;
            rings.poll(ALWAYS, &mut |_| count += 1);
            assert!(count <= 100_000, "{count} events");
        }
        undo.into_iter().rev().for_each(|(at, word)| bytes[at..at + 8].copy_from_slice(&word));
    }
}
