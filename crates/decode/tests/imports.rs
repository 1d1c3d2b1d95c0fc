//! Readers on recordings of perf (fixtures/imports), whole, cut and broken.

use std::collections::BTreeMap;

use holdup_decode::assemble;
use holdup_decode::readers::{self, Facts, ReadError, Wanted};
use holdup_events::recording::{Backend, Manifest};
use holdup_events::tables::ThreadState;
use holdup_events::{Event, Trace};
use proptest::prelude::*;

fn fixture(name: &str) -> Vec<u8> {
    let path = format!("{}/../../fixtures/imports/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

const ALL: &[&str] =
    &["samples.perf", "switches.perf", "dwarf.perf", "sched.perf", "sched.txt", "switches.txt"];

fn read(bytes: &[u8], process: &str) -> Result<(Vec<Event>, Facts), ReadError> {
    let mut events = Vec::new();
    let wanted = Wanted { process: process.to_owned() };
    let facts = readers::detect(bytes)?.read(bytes, &wanted, &mut |event| events.push(event))?;
    Ok((events, facts))
}

fn trace(bytes: &[u8], process: &str) -> Result<Trace, ReadError> {
    let (events, facts) = read(bytes, process)?;
    let manifest = Manifest {
        start_ns: facts.span.0.0,
        end_ns: facts.span.1.0,
        backend: facts.backend,
        ..Manifest::default()
    };
    Ok(assemble(events, manifest))
}

/// Nanoseconds by state of each target thread. The sum must be its life.
fn states(trace: &Trace) -> BTreeMap<u32, BTreeMap<&'static str, u64>> {
    let mut all = BTreeMap::new();
    for id in trace.target_threads() {
        let thread = &trace.threads[id.index()];
        let mut sums: BTreeMap<&'static str, u64> = BTreeMap::new();
        let mut until = None;
        for slice in trace.slices.of_thread(id) {
            assert!(until.is_none_or(|until| until == slice.start), "a hole in {}", thread.tid);
            *sums.entry(slice.state.name()).or_default() += slice.end.since(slice.start).0;
            until = Some(slice.end);
        }
        assert!(until.is_none_or(|until| until == thread.end), "{} ends early", thread.tid);
        all.insert(thread.tid, sums);
    }
    all
}

fn running_us(trace: &Trace) -> Vec<(u32, u64)> {
    let running =
        |sums: &BTreeMap<&str, u64>| sums.get(ThreadState::Running.name()).copied().unwrap_or(0) / 1000;
    states(trace).iter().map(|(tid, sums)| (*tid, running(sums))).collect()
}

#[test]
fn the_importer_of_each_fixture_is_detected_by_content() {
    for name in ALL {
        let expected = if name.ends_with(".perf") { "perf-data" } else { "perf-script" };
        assert_eq!(readers::detect(&fixture(name)).unwrap().info().name, expected, "{name}");
    }
    assert_eq!(readers::detect(b"main;work 12\nmain 3\n").unwrap().info().name, "folded");
    for nothing in [&b""[..], b"\x7fELF\x02\x01", b"hello\n", b"1 2 three\n", b"\n\n"] {
        assert!(matches!(readers::detect(nothing), Err(ReadError::Unrecognised { .. })), "{nothing:?}");
    }
}

#[test]
fn scheduler_tracepoints_agree_with_perf() {
    // perf sched timehist --summary: run time in microseconds, without the time before the first and after
    // the last switch of a thread.
    for name in ["sched.perf", "sched.txt"] {
        let trace = trace(&fixture(name), "locked").unwrap();
        assert_eq!(trace.manifest.backend, Backend::Perf);
        let expected: &[(u32, u64)] = &[(15936, 215), (15938, 8558), (15939, 7678)];
        let running = running_us(&trace);
        for (tid, us) in expected {
            let ours = running.iter().find(|(ours, _)| ours == tid).map(|(_, us)| *us).unwrap();
            assert!(ours.abs_diff(*us) * 100 <= *us, "{name}: {tid} ran {ours} µs, by perf {us} µs");
        }
    }
}

#[test]
fn text_and_data_of_one_recording_agree() {
    let (data, text) = (trace(&fixture("sched.perf"), "locked"), trace(&fixture("sched.txt"), "locked"));
    let (data, text) = (running_us(&data.unwrap()), running_us(&text.unwrap()));
    for ((tid, data), (_, text)) in data.iter().zip(&text) {
        // The text has microseconds.
        assert!(data.abs_diff(*text) <= 60, "{tid}: {data} and {text}");
    }
    let samples = |name| trace(&fixture(name), "").unwrap().samples.len();
    assert_eq!(samples("switches.perf"), samples("switches.txt"));
}

#[test]
fn samples_alone_leave_the_rest_unknown() {
    let trace = trace(&fixture("samples.perf"), "").unwrap();
    assert_eq!(trace.manifest.backend, Backend::Proc);
    let sums = states(&trace);
    let total = |state: ThreadState| -> u64 { sums.values().filter_map(|sums| sums.get(state.name())).sum() };
    assert_eq!(total(ThreadState::Blocked) + total(ThreadState::Runnable), 0, "{sums:?}");
    assert!(total(ThreadState::Unknown) > 0);
    let sampled = trace.samples.len() as u64 * 1_003_009;
    let running = total(ThreadState::Running);
    assert!(running <= sampled && running * 10 > sampled * 8, "{running} of {sampled}");
}

#[test]
fn call_chains_have_the_kernel_first() {
    let (events, facts) = read(&fixture("samples.perf"), "").unwrap();
    assert_eq!((facts.host.cpus, facts.sample_period_ns), (2, 1_003_009));
    assert!(facts.command.iter().any(|word| word == "./locked"));
    let stacks: Vec<_> = events
        .iter()
        .filter_map(|event| if let Event::Stack(stack) = event { Some(stack) } else { None })
        .collect();
    assert!(stacks.iter().any(|stack| stack.addresses.len() > 2));
    for stack in stacks {
        let kernel = stack.addresses.iter().take_while(|address| **address >> 63 == 1).count();
        assert_eq!(kernel, usize::from(stack.kernel_frames), "{stack:?}");
    }
}

#[test]
fn user_stacks_come_with_what_unwinding_needs() {
    let (events, _) = read(&fixture("dwarf.perf"), "").unwrap();
    let mut copies = 0;
    for event in &events {
        let Event::Stack(stack) = event else { continue };
        let memory = stack.raw.as_ref().unwrap();
        assert!(memory.ip != 0 && memory.sp != 0 && !memory.bytes.is_empty() && memory.bytes.len() <= 512);
        assert_eq!(
            stack.addresses.len(),
            usize::from(stack.kernel_frames),
            "the user's part is to be walked"
        );
        copies += 1;
    }
    assert!(copies > 0);
}

/// The text names CPUs only where something happened.
#[test]
fn the_text_of_perf_gives_a_lower_bound_of_cpus() {
    let cpus = |name: &str| {
        let host = read(&fixture(name), "").unwrap().1.host;
        (host.cpus, host.cpus_lower_bound)
    };
    assert_eq!(cpus("sched.perf"), (2, false));
    assert_eq!(cpus("sched.txt"), (2, true));
}

#[test]
fn one_process_can_be_chosen() {
    let count = |process: &str| trace(&fixture("sched.txt"), process).unwrap().target_threads().count();
    assert_eq!(count("locked"), 3);
    assert!(count("") > 3);
    assert_eq!(count("no-such-process"), 0);
}

#[test]
fn folded_stacks_keep_their_shares() {
    let trace =
        trace(b"# by a tool\nmain;work;inner 3000000\nmain;read_[k] 1000000\n\nmain 2\n", "").unwrap();
    let mut by_stack: BTreeMap<u32, usize> = BTreeMap::new();
    for sample in &trace.samples {
        *by_stack.entry(sample.stack.0).or_default() += 1;
    }
    let counts: Vec<usize> = by_stack.values().copied().collect();
    // A millionth of a sample is left for the last stack: it is rounded up to one.
    assert_eq!(counts, [(1 << 20) * 3 / 4 - 1, (1 << 20) / 4, 1]);
    assert!(readers::detect(b"a;b 0\n").unwrap().read(b"a;b 0\n", &Wanted::default(), &mut |_| {}).is_err());
}

#[test]
fn unsupported_files_are_errors() {
    let mut pipe = b"PERFILE2".to_vec();
    pipe.extend(16u64.to_le_bytes());
    assert!(matches!(read(&pipe, ""), Err(ReadError::Unsupported { .. })));
    assert!(matches!(read(b"2ELIFREP", ""), Err(ReadError::Unsupported { .. })));
    assert!(matches!(read(b"PERFILE2", ""), Err(ReadError::Cut { .. })));
}

#[test]
fn a_writer_that_was_killed_leaves_what_it_wrote() {
    let mut bytes = fixture("samples.perf");
    let whole = trace(&bytes, "").unwrap().samples.len();
    // The length of the records is written in the end.
    bytes[48..56].fill(0);
    let records = u64::from_le_bytes(bytes[40..48].try_into().unwrap()) as usize;
    let length = u64::from_le_bytes(fixture("samples.perf")[48..56].try_into().unwrap()) as usize;
    bytes.truncate(records + length - 5);
    let trace = trace(&bytes, "").unwrap();
    assert!((1..=whole).contains(&trace.samples.len()));
    assert!(trace.losses.iter().any(|loss| loss.reason == "truncated"), "{:?}", trace.losses);
}

#[test]
fn a_cut_perf_data_is_an_error() {
    for name in ["samples.perf", "switches.perf", "dwarf.perf", "sched.perf"] {
        let bytes = fixture(name);
        for cut in (0..bytes.len()).step_by(if cfg!(debug_assertions) { 61 } else { 1 }) {
            assert!(read(&bytes[..cut], "").is_err(), "{name} cut at {cut}");
        }
    }
}

/// A file of random bytes, or a fixture with some bytes changed, and perhaps its end cut.
fn broken() -> impl Strategy<Value = Vec<u8>> {
    let changes = proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40);
    (0..ALL.len(), changes, any::<prop::sample::Index>(), 0..4u8, any::<bool>()).prop_map(
        |(which, changes, cut, how, in_front)| {
            let mut bytes = fixture(ALL[which]);
            // The front is where lengths and layouts are.
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
    #![proptest_config(ProptestConfig::with_cases(if std::env::var_os("HOLDUP_QUICK").is_some() { 64 } else { 600 }))]

    #[test]
    fn broken_files_do_no_harm(bytes in broken()) {
        if let Ok(trace) = trace(&bytes, "") {
            states(&trace);
            prop_assert!(trace.wall().0 <= 30 * 24 * 3_600 * 1_000_000_000);
        }
    }

    #[test]
    fn any_text_does_no_harm(text in "[ -~\n;]{0,400}") {
        let _ = trace(text.as_bytes(), "");
    }
}
