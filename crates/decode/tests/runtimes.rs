//! Importers of runtimes' own recordings, compared with the output of the runtimes' tools for the same runs
//! (fixtures/runtimes). Complete, truncated and damaged files.

use std::collections::BTreeMap;

use holdup_decode::assemble;
use holdup_decode::readers::{self, Facts, ReadError, Wanted};
use holdup_events::recording::Manifest;
use holdup_events::tables::{SpanKind, SpanRow, ThreadState};
use holdup_events::{Event, Trace};
use proptest::prelude::*;

/// Each file, and its importer.
const ALL: &[(&str, &str)] = &[
    ("ghc902-pause.eventlog", "ghc-eventlog"),
    ("go126.trace.gz", "go-trace"),
    ("jdk17-safepoint-trace.log", "hotspot-log"),
    ("jdk17-default.log", "hotspot-log"),
    ("jdk25-zgc.log", "hotspot-log"),
    ("node20-events.json.gz", "chrome-trace"),
    ("node20-trace-gc.txt", "v8-gc"),
    ("node20-trace-gc-nvp.txt", "v8-gc"),
    ("ocaml-eventlog.json", "chrome-trace"),
    ("otp25-msacc.terms", "beam-msacc"),
];

fn text(name: &str) -> String {
    String::from_utf8(fixture(name)).unwrap()
}

fn fixture(name: &str) -> Vec<u8> {
    let path = format!("{}/../../fixtures/runtimes/{name}", env!("CARGO_MANIFEST_DIR"));
    let packed = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    readers::unpack(&packed, 1 << 24).unwrap().into_owned()
}

fn read(bytes: &[u8]) -> Result<(Vec<Event>, Facts), ReadError> {
    let mut events = Vec::new();
    let facts = readers::detect(bytes)?.read(bytes, &Wanted::default(), &mut |event| events.push(event))?;
    Ok((events, facts))
}

fn trace(bytes: &[u8]) -> Result<Trace, ReadError> {
    let (events, facts) = read(bytes)?;
    assert!(events.windows(2).all(|pair| !is_backwards(&pair[0], &pair[1])), "not in the order of time");
    let manifest = Manifest {
        start_ns: facts.span.0.0,
        end_ns: facts.span.1.0,
        backend: facts.backend,
        ..Manifest::default()
    };
    Ok(assemble(events, manifest))
}

fn is_backwards(before: &Event, after: &Event) -> bool {
    !matches!(before, Event::Loss(_) | Event::Stack(_)) && before.at() > after.at()
}

fn of_fixture(name: &str) -> Trace {
    trace(&fixture(name)).unwrap()
}

/// Spans of a name that begins so.
fn spans<'a>(trace: &'a Trace, name: &'a str) -> impl Iterator<Item = &'a SpanRow> {
    trace.spans.rows().iter().filter(move |span| trace.event_name(span.name).text.starts_with(name))
}

fn sum_us<'a>(spans: impl Iterator<Item = &'a SpanRow>) -> u64 {
    spans.map(|span| span.end.since(span.start).0).sum::<u64>() / 1000
}

/// Nanoseconds of all target threads by state. Slices tile each life.
fn states(trace: &Trace) -> BTreeMap<&'static str, u64> {
    let mut sums: BTreeMap<&'static str, u64> = BTreeMap::new();
    for id in trace.target_threads() {
        let thread = &trace.threads[id.index()];
        let mut until = None;
        for slice in trace.slices.of_thread(id) {
            assert!(until.is_none_or(|until| until == slice.start), "a hole in {}", thread.tid);
            *sums.entry(slice.state.name()).or_default() += slice.duration().0;
            until = Some(slice.end);
        }
        assert!(until.is_none_or(|until| until == thread.end), "{} ends early", thread.tid);
    }
    sums
}

/// The numbers in a text.
fn numbers(text: &str) -> Vec<f64> {
    let words = text.split(|letter: char| !letter.is_ascii_digit() && letter != '.');
    words.filter_map(|word| word.parse().ok()).collect()
}

#[test]
fn the_importer_of_each_fixture_is_detected_by_content() {
    for (name, reader) in ALL {
        assert_eq!(readers::detect(&fixture(name)).unwrap().info().name, *reader, "{name}");
        let trace = of_fixture(name);
        assert!(!trace.spans.is_empty() && trace.losses.is_empty(), "{name}: {:?}", trace.losses);
        states(&trace);
    }
}

#[test]
fn ghc_collections_are_those_of_its_statistics() {
    let (trace, stats) = (of_fixture("ghc902-pause.eventlog"), text("ghc902-stats.txt"));
    for generation in [0, 1] {
        let line = stats.lines().find(|line| line.contains(&format!("Gen  {generation}"))).unwrap();
        let collections = numbers(line)[1] as usize;
        assert_eq!(spans(&trace, &format!("gc generation {generation}")).count(), collections);
    }
    let elapsed = stats.lines().find(|line| line.contains("GC      time")).unwrap();
    let elapsed_us = numbers(elapsed)[1] * 1e6;
    let told_us = sum_us(spans(&trace, "gc generation")) as f64;
    // It rounds to milliseconds, and counts the way to the first capability's stop.
    assert!((told_us - elapsed_us).abs() < 1_500.0, "{told_us} µs told, {elapsed_us} µs by its statistics");
    assert_eq!(states(&trace).get(ThreadState::Unknown.name()), None);
}

#[test]
fn go_cycles_are_those_of_gctrace() {
    let (trace, lines) = (of_fixture("go126.trace.gz"), text("go126-gctrace.txt"));
    let cycles: Vec<Vec<f64>> = lines.lines().filter(|line| line.starts_with("gc ")).map(numbers).collect();
    assert_eq!(spans(&trace, "gc cycle").count(), cycles.len());
    // Each cycle stops the world twice. The first stop of the first cycle was before the trace began.
    let ends = spans(&trace, "stop the world: GC mark termination").count();
    let begins = spans(&trace, "stop the world: GC sweep termination").count();
    assert_eq!((begins + 1, ends), (cycles.len(), cycles.len()));
    let names: Vec<&str> = trace.target_threads().map(|id| &*trace.threads[id.index()].name).collect();
    for name in ["main.main", "main.produce", "main.allocate", "runtime.bgsweep"] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    let states = states(&trace);
    assert!(
        states[ThreadState::Running.name()] > 0 && states[ThreadState::Runnable.name()] > 0,
        "{states:?}"
    );
    assert_eq!(states.get(ThreadState::Unknown.name()), None, "{states:?}");
}

#[test]
fn hotspot_safepoints_are_those_of_its_sums() {
    for name in ["jdk17-safepoint-trace.log", "jdk17-default.log", "jdk25-zgc.log"] {
        let (trace, lines) = (of_fixture(name), text(name));
        let of = |key: &str| -> Vec<u64> {
            let told = lines.lines().filter_map(|line| line.split_once("Safepoint \"")?.1.split_once(key));
            told.map(|(_, rest)| numbers(rest)[0] as u64).collect()
        };
        let totals = of("Total: ");
        assert_eq!(spans(&trace, "safepoint ").count(), totals.len(), "{name}");
        assert_eq!(sum_us(spans(&trace, "safepoint ")), totals.iter().sum::<u64>() / 1000, "{name}");
        let reaching: u64 = of("Reaching safepoint: ").iter().sum();
        assert_eq!(sum_us(spans(&trace, "reaching safepoint")), reaching / 1000, "{name}");
    }
    let trace = of_fixture("jdk17-safepoint-trace.log");
    assert!(trace.marks.iter().any(|mark| trace.event_name(mark.name).text == "last at the safepoint"));
    assert!(spans(&trace, "Pause Full").count() == 1 && spans(&trace, "Pause Young").count() == 5);
}

#[test]
fn v8_trace_and_log_lines_agree() {
    let (events, lines) = (of_fixture("node20-events.json.gz"), of_fixture("node20-trace-gc.txt"));
    let young = |trace: &Trace, name| spans(trace, name).count();
    assert_eq!(young(&events, "MinorGC"), young(&lines, "Scavenge"));
    let printed: f64 = text("node20-trace-gc.txt")
        .lines()
        .filter_map(|line| line.split_once(" MB, ")?.1.split(' ').next()?.parse::<f64>().ok())
        .sum();
    let told_us = sum_us(lines.spans.rows().iter()) as f64;
    assert!((told_us - printed * 1000.0).abs() < 10.0, "{told_us} µs of {printed} ms");
    let beside = |span: &&SpanRow| events.event_name(span.name).kind == SpanKind::GcBeside;
    assert!(events.spans.rows().iter().any(|span| beside(&span)), "helpers are beside the program");
}

#[test]
fn the_old_eventlog_has_domains_of_one_process() {
    let trace = of_fixture("ocaml-eventlog.json");
    assert_eq!(trace.lanes.iter().map(|lane| lane.number).collect::<Vec<_>>(), [0, 1, 2]);
    let process = trace.lanes[0].process;
    assert!(trace.lanes.iter().all(|lane| lane.process == process && lane.runtime == "ocaml eventlog"));
    assert!(spans(&trace, "minor_gc").count() > 0);
}

#[test]
fn microstates_are_those_of_erlang() {
    let trace = of_fixture("otp25-msacc.terms");
    for line in text("otp25-msacc.txt").lines() {
        let mut words = line.split(' ');
        let (kind, id, sum) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
        let name = format!("{kind} {id}");
        let thread = trace.threads.iter().find(|thread| thread.name == name).unwrap();
        let lane = trace.lanes.iter().find(|lane| lane.number + 1 == thread.tid).unwrap();
        // All lanes were counted for equally long. The longest is the recording.
        assert!(lane.end.since(lane.start).0.abs_diff(sum.parse().unwrap()) < 5_000_000, "{line}");
    }
    assert!(states(&trace)[ThreadState::Running.name()] > 0);
}

#[test]
fn truncated_files_give_a_loss_or_an_error() {
    for (name, _) in ALL {
        let bytes = fixture(name);
        for cut in (0..bytes.len()).step_by(bytes.len() / 40 + 1) {
            if let Ok(trace) = trace(&bytes[..cut]) {
                states(&trace);
            }
        }
    }
    let bytes = fixture("ghc902-pause.eventlog");
    let half = trace(&bytes[..bytes.len() / 2]).unwrap();
    assert!(half.losses.iter().any(|loss| loss.reason == "truncated"), "{:?}", half.losses);
}

#[test]
fn what_gzip_promises_is_not_believed() {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(&vec![b' '; 4 << 20]).unwrap();
    let packed = encoder.finish().unwrap();
    assert!(matches!(readers::unpack(&packed, 1 << 20), Err(ReadError::Unsupported { .. })));
    assert_eq!(readers::unpack(&packed, 4 << 20).unwrap().len(), 4 << 20);
    // A truncated file gives the part before the cut.
    assert!(!readers::unpack(&packed[..packed.len() / 2], 4 << 20).unwrap().is_empty());
}

/// A fixture with some bytes changed, and perhaps its end cut.
fn broken() -> impl Strategy<Value = Vec<u8>> {
    let changes = proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40);
    (0..ALL.len(), changes, any::<prop::sample::Index>(), 0..4u8, any::<bool>()).prop_map(
        |(which, changes, cut, how, in_front)| {
            let mut bytes = fixture(ALL[which].0);
            let reach = if in_front { bytes.len().min(1200) } else { bytes.len() };
            for (index, byte) in changes {
                bytes[index.index(reach)] = byte;
            }
            if how == 0 {
                bytes.truncate(cut.index(bytes.len()));
            }
            bytes
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if std::env::var_os("HOLDUP_QUICK").is_some() { 32 } else { 300 }))]

    #[test]
    fn broken_files_do_no_harm(bytes in broken()) {
        if let Ok(trace) = trace(&bytes) {
            states(&trace);
            prop_assert!(trace.wall().0 <= 30 * 24 * 3_600 * 1_000_000_000);
        }
    }
}
