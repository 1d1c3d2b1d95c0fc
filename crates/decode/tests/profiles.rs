//! Profiles of runtimes and libraries, compared with the output of their own tools for the same files
//! (fixtures/profiles). Complete, truncated and damaged files.

use std::collections::BTreeMap;

use holdup_decode::Builder;
use holdup_decode::readers::{self, Facts, ReadError, Wanted};
use holdup_decode::symbols::NoFiles;
use holdup_events::tables::{AllocationRow, Frames, Rows, Stacks};
use holdup_events::{Event, StackId, Timestamp};
use proptest::prelude::*;

const ALL: &[(&str, &str)] = &[
    ("ocaml53-words.ctf.gz", "memtrace"),
    ("go126-heap.pb.gz", "pprof"),
    ("go126-cpu.pb.gz", "pprof"),
    ("jdk17-alloc.jfr.gz", "jfr"),
    ("jdk17-tlab.jfr.gz", "jfr"),
    ("../runtimes/ghc902-census.eventlog", "ghc-eventlog"),
];

fn path(name: &str) -> String {
    format!("{}/../../fixtures/profiles/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn fixture(name: &str) -> Vec<u8> {
    let packed = std::fs::read(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    readers::unpack(&packed, 1 << 24).unwrap().into_owned()
}

/// Figures in a tool's text, by the text after (or before) them. Only those below `# heading`, if given.
fn figures(name: &str, heading: Option<&str>) -> BTreeMap<String, u64> {
    let text = std::fs::read_to_string(path(name)).unwrap();
    let part =
        heading.map_or(&text[..], |heading| text.split("# ").find(|part| part.starts_with(heading)).unwrap());
    let words = part.lines().filter_map(|line| line.split_once(' '));
    let pairs = words.filter_map(|(left, right)| match (left.parse(), right.parse()) {
        (Ok(figure), _) => Some((right.to_owned(), figure)),
        (_, Ok(figure)) => Some((left.to_owned(), figure)),
        _ => None,
    });
    pairs.collect()
}

/// Content of a file, with its names.
struct Profile {
    allocations: Vec<AllocationRow>,
    threads: Vec<String>,
    samples: Vec<StackId>,
    stacks: Stacks,
    frames: Frames,
    facts: Facts,
}

impl Profile {
    fn read(bytes: &[u8]) -> Result<Profile, ReadError> {
        let (mut builder, mut rows) =
            (Builder::new((Timestamp(0), Timestamp(u64::MAX)), true, &NoFiles), Rows::default());
        let (mut last, mut sorted) = (Timestamp(0), true);
        let mut take = |event: Event| {
            if !matches!(event, Event::Stack(_)) {
                sorted &= last <= event.at();
                last = event.at();
            }
            builder.push(event, &mut rows);
        };
        let facts = readers::detect(bytes)?.read(bytes, &Wanted::default(), &mut take)?;
        assert!(sorted, "not in the order of time");
        let catalogue = builder.finish(&mut rows);
        let (stacks, frames) = facts.names.clone().unwrap_or_default().resolve(&catalogue);
        let samples = rows.samples.iter().map(|sample| sample.stack).collect();
        let threads = catalogue.threads.iter().map(|thread| thread.name.clone()).collect();
        Ok(Profile { allocations: catalogue.allocations, threads, samples, stacks, frames, facts })
    }

    fn of_fixture(name: &str) -> Profile {
        Profile::read(&fixture(name)).unwrap()
    }

    /// The leaf function of a stack, empty if there is no stack.
    fn leaf(&self, stack: StackId) -> String {
        if stack == StackId::NONE {
            return String::new();
        }
        self.frames[self.stacks.rows()[stack.index()].frame.index()].function.clone()
    }

    /// A sum over allocations, by the leaf's function.
    fn by_leaf(&self, of: impl Fn(&AllocationRow) -> f64) -> BTreeMap<String, f64> {
        let mut sums = BTreeMap::new();
        for row in &self.allocations {
            *sums.entry(self.leaf(row.stack)).or_default() += of(row);
        }
        sums
    }
}

fn bytes(row: &AllocationRow) -> f64 {
    row.bytes as f64 / row.probability()
}

#[test]
fn the_format_of_each_profile_is_detected_by_content() {
    for (name, reader) in ALL {
        assert_eq!(readers::detect(&fixture(name)).unwrap().info().name, *reader, "{name}");
    }
}

#[test]
fn memtrace_is_read_as_by_its_own_library() {
    let (profile, said) = (Profile::of_fixture("ocaml53-words.ctf.gz"), figures("ocaml53-words.txt", None));
    assert_eq!(profile.allocations.len() as u64, said["allocated"]);
    let freed = profile.allocations.iter().filter(|row| row.freed.is_some()).count();
    assert_eq!(freed as u64, said["collected"]);
    let drawn = profile.by_leaf(|_| 1.0);
    for name in ["Words.grow", "Words.table"] {
        assert_eq!(drawn[name] as u64, said[name], "{drawn:?}");
    }
    assert_eq!(profile.facts.sources[0].lost, 0);
    let tables = profile.allocations.iter().find(|row| profile.leaf(row.stack) == "Words.table").unwrap();
    assert_eq!(tables.bytes, 8_008, "a thousand words, and the one before them");
    let frame = profile.frames.iter().find(|frame| frame.function == "Words.table").unwrap();
    assert_eq!((&*frame.file, frame.line), ("words.ml", 9));
}

#[test]
fn memtrace_estimates_what_the_runtime_counted() {
    let (profile, said) = (Profile::of_fixture("ocaml53-words.ctf.gz"), figures("ocaml53-words.txt", None));
    let estimate: f64 = profile.allocations.iter().map(bytes).sum();
    let of = |row: &AllocationRow| (1.0 - row.probability()) * bytes(row).powi(2);
    let deviation = profile.allocations.iter().map(of).sum::<f64>().sqrt();
    let truth = said["bytes"] as f64;
    assert!((estimate - truth).abs() < 3.0 * deviation, "{estimate} ± {deviation}, {truth} counted");
    assert!(deviation < truth / 10.0);
}

#[test]
fn a_heap_profile_is_what_pprof_makes_of_it() {
    let profile = Profile::of_fixture("go126-heap.pb.gz");
    let (all, kept) = (profile.by_leaf(bytes), |row: &AllocationRow| row.freed.map_or(bytes(row), |_| 0.0));
    let kept = profile.by_leaf(kept);
    for (heading, sums) in [("alloc_space", &all), ("inuse_space", &kept)] {
        for (name, truth) in figures("go126-top.txt", Some(heading)) {
            // A row represents whole objects of a size rounded to its sampling interval.
            let off = (sums[&name] - truth as f64).abs();
            assert!(off <= truth as f64 / 1000.0, "{heading} of {name}: {} for {truth}", sums[&name]);
        }
    }
}

#[test]
fn a_cpu_profile_is_what_pprof_makes_of_it() {
    let profile = Profile::of_fixture("go126-cpu.pb.gz");
    let mut leaves: BTreeMap<String, u64> = BTreeMap::new();
    for stack in &profile.samples {
        *leaves.entry(profile.leaf(*stack)).or_default() += profile.facts.sample_period_ns / 1_000_000;
    }
    assert_eq!(leaves, figures("go126-top.txt", Some("cpu")));
    assert_eq!(profile.facts.span.1, Timestamp(570_000_000));
}

#[test]
fn a_flight_recording_is_what_the_jdk_makes_of_it() {
    for name in ["jdk17-alloc", "jdk17-tlab"] {
        let profile = Profile::of_fixture(&format!("{name}.jfr.gz"));
        let text = format!("{name}.txt");
        assert_eq!(profile.allocations.len() as u64, figures(&text, None)["events"], "{name}");
        assert!(profile.allocations.iter().all(AllocationRow::is_weight));
        let whole = |sums: BTreeMap<String, f64>| -> BTreeMap<String, u64> {
            sums.into_iter().map(|(name, bytes)| (name, bytes as u64)).collect()
        };
        let mut functions = figures(&text, Some("functions"));
        // A stack that is not there has no frame.
        functions.remove("(none)");
        let mut leaves = whole(profile.by_leaf(bytes));
        leaves.remove("");
        assert_eq!(leaves, functions, "{name}");
        let mut threads = BTreeMap::new();
        for row in &profile.allocations {
            *threads.entry(profile.threads[row.thread.index()].clone()).or_insert(0) += row.bytes;
        }
        assert_eq!(threads, figures(&text, Some("threads")), "{name}");
        assert_eq!(profile.facts.sources[0].lost, 0);
        let frame = profile.frames.iter().find(|frame| frame.function == "Alloc.pages").unwrap();
        assert_eq!(frame.line, 19, "{name}");
    }
}

#[test]
fn chunks_of_a_flight_recording_are_one_course() {
    let one = fixture("jdk17-tlab.jfr.gz");
    let alone = Profile::read(&one).unwrap();
    let twice = Profile::read(&[&one[..], &one].concat()).unwrap();
    assert_eq!(twice.allocations.len(), 2 * alone.allocations.len());
    assert_eq!(twice.threads.len(), alone.threads.len());
    // The second profile is truncated. The first one is complete, and the loss is reported.
    let cut = Profile::read(&[&one[..], &one[..one.len() / 2]].concat()).unwrap();
    assert_eq!((cut.allocations.len(), cut.facts.sources[0].lost), (alone.allocations.len(), 1));
    let mut unfinished = one.clone();
    unfinished[8..16].fill(0);
    assert!(matches!(Profile::read(&unfinished), Err(ReadError::Unsupported { .. })));
}

#[test]
fn truncated_files_give_a_loss_or_an_error() {
    for (name, _) in ALL {
        let bytes = fixture(name);
        for cut in (0..bytes.len()).step_by(if cfg!(debug_assertions) { 13 } else { 1 }) {
            let _ = Profile::read(&bytes[..cut]);
        }
    }
    let bytes = fixture("ocaml53-words.ctf.gz");
    let mut endless = bytes.clone();
    endless[22] = 7;
    assert!(Profile::read(&endless).unwrap().facts.span.1.0 < 1_000_000_000, "the first packet's end");
    let half = Profile::read(&bytes[..bytes.len() - 100]).unwrap();
    assert_eq!(half.facts.sources[0].lost, 1);
    assert!(half.allocations.len() > 400);
}

/// A fixture with some bytes changed.
fn broken() -> impl Strategy<Value = Vec<u8>> {
    let changes = proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20);
    (0..ALL.len(), changes).prop_map(|(which, changes)| {
        let mut bytes = fixture(ALL[which].0);
        for (index, byte) in changes {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if std::env::var_os("HOLDUP_QUICK").is_some() { 32 } else { 300 }))]

    #[test]
    fn broken_files_do_no_harm(bytes in broken()) {
        if let Ok(profile) = Profile::read(&bytes) {
            prop_assert!(profile.facts.span.1.0 <= 30 * 24 * 3_600 * 1_000_000_000);
            prop_assert!(profile.allocations.iter().all(|row| row.probability() > 0.0));
        }
    }
}

/// Closure types with their bytes, of the sample with the most in a file of GHC's own format.
fn largest_of_hp(text: &str) -> BTreeMap<String, u64> {
    let samples = text.split("BEGIN_SAMPLE").skip(1).map(|sample| {
        let pairs = sample.lines().filter_map(|line| line.rsplit_once('\t'));
        pairs.map(|(name, bytes)| (name.to_owned(), bytes.parse().unwrap())).collect::<BTreeMap<_, u64>>()
    });
    samples.max_by_key(|sample| sample.values().sum::<u64>()).unwrap()
}

#[test]
fn live_bytes_at_the_largest_census_match_ghcs_hp_file() {
    let profile = Profile::of_fixture("../runtimes/ghc902-census.eventlog");
    let mut told: BTreeMap<String, u64> = BTreeMap::new();
    for row in &profile.allocations {
        assert!(row.is_census() && row.freed.is_none());
        *told.entry(profile.leaf(row.stack)).or_default() += row.bytes;
    }
    let text = std::fs::read_to_string(path("../runtimes/ghc902-census.hp")).unwrap();
    let said: BTreeMap<_, _> = largest_of_hp(&text).into_iter().filter(|(_, bytes)| *bytes > 0).collect();
    assert!(said.len() > 20 && said.values().sum::<u64>() > 500_000);
    assert_eq!(told, said);
    assert!(
        profile.facts.limits.contains("by closure type: the largest of 2 censuses"),
        "{}",
        profile.facts.limits
    );
}
