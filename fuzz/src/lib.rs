//! Every place where bytes of others come in, one function each. None may panic, hang, or take memory without bound.
//! Fuzzers and `tests/mutations.rs` share them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use holdup_capture::lower::procfs;
use holdup_capture::mappings::parse_maps;
use holdup_capture::perf_ring::{records, sample};
use holdup_decode::accesses::GeneratedCode;
use holdup_decode::cpython::{self, Interpreter, Layout};
use holdup_decode::hotspot::SavedMemory;
use holdup_decode::process_memory::{Memory, Names};
use holdup_decode::readers::{self, Wanted};
use holdup_decode::reorder::{HORIZON, Reorder};
use holdup_decode::runtime_events::{Rings, Span};
use holdup_decode::symbols::{Bytes, Files, NoFiles, Symbols};
use holdup_decode::unwind::Table;
use holdup_decode::wire::WireDecoder;
use holdup_decode::{Builder, Catalogue};
use holdup_events::event::{RawMapping, RawStack, Sample};
use holdup_events::recording::{self, Decoder, JournalReader};
use holdup_events::tables::{Mapping, Process, Rows};
use holdup_events::{Event, Timestamp};
use holdup_report::Style;

mod sections;

pub use sections::{DEBUG_SECTIONS, debug_info, frames, lines_known, rows_made};

/// Takes bytes as they come.
pub type Target = fn(&[u8]);

/// All of them, by name.
pub const TARGETS: &[(&str, Target)] = &[
    ("journal", journal),
    ("codec", codec),
    ("wire", wire),
    ("elf", elf),
    ("frames", frames),
    ("debug_info", debug_info),
    ("generated_code", generated_code),
    ("hotspot", hotspot),
    ("cpython", cpython),
    ("perf_ring", perf_ring),
    ("maps", maps),
    ("recording", recording),
    ("packed", packed),
    ("runtime_events", runtime_events),
    ("chrome_trace", chrome_trace),
    ("ghc_eventlog", ghc_eventlog),
    ("go_trace", go_trace),
    ("hotspot_log", hotspot_log),
    ("v8_gc", v8_gc),
    ("beam_msacc", beam_msacc),
    ("thread_sanitizer", thread_sanitizer),
    ("valgrind_races", valgrind_races),
    ("go_race", go_race),
    ("memtrace", memtrace),
    ("pprof", pprof),
    ("jfr", jfr),
    ("perf_data", perf_data),
    ("perf_script", perf_script),
    ("folded", folded),
];

/// For targets behind which the library catches panics and returns errors. The fuzzer's own hook would end
/// the process earlier. A panic that is not caught still ends it.
#[allow(dead_code, reason = "only the fuzzers call it, not the tests that include this file")]
pub fn let_caught_panics_pass() {
    std::panic::set_hook(Box::new(|panic| {
        if panic.location().is_none_or(|place| !place.file().contains("/registry/")) {
            eprintln!("{panic}");
        }
    }));
}

/// Files of a recording, in the order in which the first byte of [`recording`] chooses.
pub fn files() -> Vec<String> {
    let tables = recording::TABLES.iter().map(|table| format!("{}.parquet", table.name));
    std::iter::once("manifest.json".to_owned()).chain(tables).collect()
}

/// A journal, and the tables that are made of its events.
pub fn journal(bytes: &[u8]) {
    let reader = JournalReader::new(bytes);
    let manifest = reader.manifest().cloned().unwrap_or_default();
    build(reader, manifest.start_ns, manifest.end_ns);
}

/// The payload of a chunk.
pub fn codec(bytes: &[u8]) {
    build(Decoder::new(bytes).map_while(Result::ok), 0, u64::MAX);
}

/// BPF records: length (2 bytes), then the record. Both decoding paths must give the same result.
pub fn wire(bytes: &[u8]) {
    let (mut decoder, mut events) = (WireDecoder::default(), Vec::new());
    let (mut seeing, mut seen) = (WireDecoder::default(), Vec::new());
    let mut rest = bytes;
    while let Some((length, behind)) = rest.split_at_checked(2) {
        let length = usize::from(u16::from_le_bytes([length[0], length[1]])).min(behind.len());
        let (record, behind) = behind.split_at(length);
        let kept = decoder.decode(record, &mut |event| events.push(event));
        let looked_at = seeing.decode_seen(record, &mut |event| seen.push(event.clone()));
        assert_eq!(kept.is_ok(), looked_at.is_ok(), "one way takes what the other refuses");
        rest = behind;
    }
    assert_eq!(events, seen, "two ways to decode differ");
    let (next, all) = ([bytes.len() as u32; 4], (Timestamp(0), Timestamp(u64::MAX)));
    decoder.emit_last_gaps(&next, all, &mut |event| events.push(event));
    build(events.into_iter().map(|event| decoder.with_outer_tids(event)), 0, u64::MAX);
}

/// Rings of an OCaml program's runtime events, as a file that is whole.
pub fn runtime_events(bytes: &[u8]) {
    let Ok(mut rings) = Rings::open(bytes, 1, None) else { return };
    let mut events = Vec::new();
    rings.poll(Span { from: Timestamp(0), until: Timestamp(u64::MAX) }, &mut |event| events.push(event));
    build(events, 0, u64::MAX);
}

/// Trace events as JSON, also packed.
pub fn chrome_trace(bytes: &[u8]) {
    import("chrome-trace", bytes);
}

/// An eventlog of GHC.
pub fn ghc_eventlog(bytes: &[u8]) {
    import("ghc-eventlog", bytes);
}

/// An execution trace of Go.
pub fn go_trace(bytes: &[u8]) {
    import("go-trace", bytes);
}

/// A log of HotSpot's.
pub fn hotspot_log(bytes: &[u8]) {
    import("hotspot-log", bytes);
}

/// Lines that V8 prints of its collections.
pub fn v8_gc(bytes: &[u8]) {
    import("v8-gc", bytes);
}

/// Microstate accounting of the Erlang VM.
pub fn beam_msacc(bytes: &[u8]) {
    import("beam-msacc", bytes);
}

/// Races that ThreadSanitizer reported.
pub fn thread_sanitizer(bytes: &[u8]) {
    import("thread-sanitizer", bytes);
}

/// Races that Helgrind or DRD reported.
pub fn valgrind_races(bytes: &[u8]) {
    import("valgrind-races", bytes);
}

/// Races that Go's detector reported.
pub fn go_race(bytes: &[u8]) {
    import("go-race", bytes);
}

/// Allocations that memtrace drew.
pub fn memtrace(bytes: &[u8]) {
    import("memtrace", bytes);
}

/// A Java flight recording.
pub fn jfr(bytes: &[u8]) {
    import("jfr", bytes);
}

/// A profile of pprof's, also packed.
pub fn pprof(bytes: &[u8]) {
    import("pprof", bytes);
}

/// A `perf.data` file.
pub fn perf_data(bytes: &[u8]) {
    import("perf-data", bytes);
}

/// Output of `perf script`.
pub fn perf_script(bytes: &[u8]) {
    import("perf-script", bytes);
}

/// Folded stacks.
pub fn folded(bytes: &[u8]) {
    import("folded", bytes);
}

/// Runs one importer on a file, whether it recognises the file or not.
fn import(name: &str, bytes: &[u8]) {
    let reader = readers::all().iter().find(|reader| reader.info().name == name).expect("a reader");
    let Ok(bytes) = readers::unpack(bytes, 64 << 20) else { return };
    let _ = readers::detect(&bytes);
    let mut events = Vec::new();
    let Ok(facts) = reader.read(&bytes, &Wanted::default(), &mut |event| events.push(event)) else { return };
    build(events, facts.span.0.0, facts.span.1.0);
}

/// Symbols and unwind tables of an ELF file, what its code touches, and the names of that.
pub fn elf(bytes: &[u8]) {
    let _ = Table::compile(bytes);
    let _ = holdup_decode::loading::why_not_preloaded(bytes);
    let _ = (holdup_decode::probes::function(bytes, "main"), holdup_decode::probes::usdt(bytes, "a", "b"));
    let offsets = (0..bytes.len() as u64).step_by(997).chain([1 << 39]);
    name(Foreign { binary: Some(bytes.to_vec()), map: None }, offsets);
    touch(&Foreign { binary: Some(bytes.to_vec()), map: None }, (0..bytes.len() as u64).step_by(61));
}

/// Two threads at each of `offsets`, with registers that point into the file.
fn touch(files: &Foreign, offsets: impl Iterator<Item = u64>) {
    let mapping = RawMapping { tgid: 1, end: 1 << 40, path: "/bin/app".to_owned(), ..RawMapping::default() };
    let (mut builder, mut rows) = (Builder::new((Timestamp(0), Timestamp(1)), false, files), Rows::default());
    builder.push(Event::Mapping(mapping), &mut rows);
    for ip in offsets {
        for tid in [1, 2] {
            let registers = Some(Box::new(std::array::from_fn(|number| ip + number as u64)));
            let sample = Sample { tid, tgid: 1, ip, syscall: -1, registers, ..Sample::default() };
            builder.push(Event::Sample(sample), &mut rows);
        }
    }
    let mut catalogue = builder.finish(&mut rows);
    Symbols::new(files, "").name_words(&mut catalogue);
}

/// A runtime's `perf-PID.map` and `jit-PID.dump`, and its memory.
pub fn generated_code(bytes: &[u8]) {
    // As much as is read of it around a place.
    let code = GeneratedCode { start: 4096, bytes: bytes.iter().copied().take(3 << 12).collect() };
    let places = (0..code.bytes.len() as u64 + 2).step_by(61);
    places.for_each(|into| _ = code.around(4096 - 1 + into));
    name(Foreign { binary: Some(bytes.to_vec()), map: Some(bytes.to_vec()) }, (0..1 << 16).step_by(997));
}

/// Memory of a Java virtual machine, as it was saved.
pub fn hotspot(bytes: &[u8]) {
    let _ = SavedMemory::parse(bytes).map(|memory| memory.name());
}

/// The binary of a Python interpreter, and its memory: [`PYTHON`] is where that begins, with the interpreter's own table.
pub fn cpython(bytes: &[u8]) {
    let _ = cpython::symbols(bytes);
    let memory = Image(bytes);
    let by_name = cpython::Symbols { runtime: PYTHON, code_type: PYTHON, version: None };
    let by_table = cpython::Symbols { version: Some(PYTHON + 8), ..by_name };
    let versions = (8..=12).map(|minor| (by_name, Some(minor))).chain([(by_table, None)]);
    for layout in versions.filter_map(|(symbols, named)| Layout::read(&memory, &symbols, 0, named).ok()) {
        let interpreter = Interpreter::new(layout);
        for code in (PYTHON..PYTHON + bytes.len() as u64).step_by(16).take(CODES_MAX) {
            let places = [None, Some(0), Some(7)].map(|units| layout.place(&memory, code, units));
            places.into_iter().flatten().for_each(|place| _ = interpreter.code_at(&memory, place));
        }
    }
}

/// Where [`cpython`]'s bytes begin, and the type of code objects is.
pub const PYTHON: u64 = 1 << 16;
/// Maximum number of places that are treated as code.
const CODES_MAX: usize = 256;

/// Memory from [`PYTHON`] on.
struct Image<'a>(&'a [u8]);

impl Memory for Image<'_> {
    fn read(&self, address: u64, bytes: &mut [u8]) -> Option<()> {
        let from = usize::try_from(address.checked_sub(PYTHON)?).ok()?;
        bytes.copy_from_slice(self.0.get(from..from.checked_add(bytes.len())?)?);
        Some(())
    }
}

/// Files that are all the same.
struct Foreign {
    binary: Option<Vec<u8>>,
    map: Option<Vec<u8>>,
}

impl Files for Foreign {
    fn binary(&self, _pid: u32, _mapping: &Mapping, take: &mut dyn FnMut(Bytes) -> bool) {
        if let Some(bytes) = &self.binary {
            take(Arc::new(bytes.clone()));
        }
    }

    fn perf_map(&self, _pid: u32) -> Option<Bytes> {
        Some(Arc::new(self.map.clone()?))
    }
}

/// Resolves `offsets` of a mapping that covers nearly everything. Returns the number of places with a known
/// line.
fn name(files: Foreign, offsets: impl Iterator<Item = u64>) -> usize {
    let path = if files.map.is_some() { "/tmp/jit-1.dump" } else { "/bin/app" };
    let addresses: Vec<u64> = offsets.collect();
    let catalogue = Catalogue {
        processes: vec![Process { pid: 1, ..Process::default() }],
        mappings: vec![Mapping { end: 1 << 40, path: path.to_owned(), ..Mapping::default() }],
        stacks: vec![None, Some(RawStack { tgid: 1, addresses, ..RawStack::default() })],
        ..Catalogue::default()
    };
    let (_, frames) = Symbols::new(&files, "").resolve(&catalogue);
    frames.iter().filter(|frame| frame.line > 0).count()
}

/// A perf ring's records, with the sample types that the backends request.
pub fn perf_ring(bytes: &[u8]) {
    use sample::{CALLCHAIN, CPU, IDENTIFIER, IP, TID, TIME};
    for sample_type in [IDENTIFIER | IP | TID | TIME | CPU | CALLCHAIN, IDENTIFIER | TID | TIME | CPU] {
        for record in records::split(bytes) {
            let _ = records::parse(record, sample_type);
        }
        let _ = records::parse(bytes, sample_type);
    }
}

/// Files in /proc.
pub fn maps(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = parse_maps(&text, 1, Timestamp(0));
    for line in text.lines() {
        let _ = procfs::parse_stat(line);
        let _ = procfs::parse_schedstat(line);
        let _ = procfs::parse_syscall(line);
    }
}

/// A recording with one file replaced. The first byte selects one of [`files`].
pub fn recording(bytes: &[u8]) {
    let Some((choice, content)) = bytes.split_first() else { return };
    let files = files();
    let name = &files[usize::from(*choice) % files.len()];
    with_recording(|dir| {
        let path = dir.join(name);
        let before = std::fs::read(&path).ok();
        std::fs::write(&path, content).expect("a scratch directory");
        judge(dir);
        match before {
            Some(before) => std::fs::write(&path, before).expect("a scratch directory"),
            None => std::fs::remove_file(&path).expect("a scratch directory"),
        }
    });
}

/// A recording in one file.
pub fn packed(bytes: &[u8]) {
    let path = scratch("packed");
    std::fs::write(&path, bytes).expect("a scratch directory");
    judge(&path);
    std::fs::remove_file(&path).expect("a scratch directory");
}

/// Typical use of a recording: facts, findings, and the whole report of the readable part.
fn judge(path: &Path) {
    let Ok(trace) = recording::open(path) else { return };
    let analysis = holdup_findings::analyse(&trace);
    let total: u64 = analysis.derived.ledger.classes.iter().sum();
    assert_eq!(total, analysis.derived.ledger.total_ns, "the ledger does not add up");
    let style = Style { colour: false, width: 80, ..Style::default() };
    let sections: Vec<String> = holdup_report::section_names().into_iter().map(str::to_owned).collect();
    let _ = holdup_report::render(&trace, &analysis, &sections, &style);
    let _ = holdup_report::to_json(&trace, &analysis);
}

fn build(events: impl IntoIterator<Item = Event>, start_ns: u64, end_ns: u64) {
    let span = (Timestamp(start_ns), Timestamp(end_ns));
    let (mut builder, mut rows) = (Builder::new(span, false, &NoFiles), Rows::default());
    let mut order = Reorder::new(HORIZON);
    for event in events {
        order.push(event, &mut |event| builder.push(event, &mut rows));
    }
    order.finish(&mut |event| builder.push(event, &mut rows));
    let _ = builder.finish(&mut rows);
}

fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("holdup-fuzz-{name}-{}", std::process::id()))
}

/// The recording that is damaged: an own copy of the directory `HOLDUP_FUZZ_RECORDING`, else an empty one.
fn with_recording(damage: impl FnOnce(&Path)) {
    let dir = scratch("recording");
    if !dir.exists() {
        std::fs::create_dir_all(&dir).expect("a scratch directory");
        let template = std::env::var_os("HOLDUP_FUZZ_RECORDING").map(PathBuf::from);
        for file in template.iter().flat_map(|dir| std::fs::read_dir(dir).into_iter().flatten().flatten()) {
            std::fs::copy(file.path(), dir.join(file.file_name())).expect("a scratch directory");
        }
    }
    damage(&dir);
}
