//! Programs made by real compilers, when they are at hand: named from debug files, from Go's table, from the cache.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use holdup_events::ProcessId;
use holdup_events::event::RawStack;
use holdup_events::tables::{Frame, Mapping, Process, Processes};

use super::elf::Elf;
use super::*;

const C_SOURCE: &str = "\
#include <stdlib.h>
static inline __attribute__((always_inline)) int inner(int x) {
    return x * rand();
}
__attribute__((noinline)) int outer(int x) {
    return inner(x) + 1;
}
int main(int argc, char **argv) {
    return outer(argc);
}
";

const GO_SOURCE: &str = "package main

import \"os\"

//go:noinline
func work(x int) int {
	return x*len(os.Args) + 1
}

func main() { os.Exit(work(3)) }
";

/// A temporary directory, removed on drop.
pub struct Scratch(PathBuf);

impl Scratch {
    /// An empty one.
    pub fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("holdup-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    /// Runs a program there. `None`: it is not installed, or refuses.
    pub fn run(&self, program: &str, arguments: &[&str]) -> Option<()> {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(&self.0)
            .env("GOCACHE", self.0.join("cache"))
            .env("GO111MODULE", "off");
        let ran = command.output();
        let done = ran.as_ref().is_ok_and(|output| output.status.success());
        if !done {
            println!("skipped: {program} {arguments:?}: {ran:?}");
        }
        done.then_some(())
    }

    /// A file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A C program with an inlined call, as `app`.
pub fn c_program(scratch: &Scratch) -> Option<PathBuf> {
    std::fs::write(scratch.path("app.c"), C_SOURCE).unwrap();
    scratch.run("cc", &["-g", "-O1", "-Wl,--build-id", "-o", "app", "app.c"])?;
    Some(scratch.path("app"))
}

/// A program on disk, perhaps with a debug file.
#[derive(Default)]
struct OnDisk {
    binary: PathBuf,
    debug: Option<PathBuf>,
    kept: Mutex<BTreeMap<String, Vec<u8>>>,
}

fn read(path: &Path) -> Bytes {
    Arc::new(std::fs::read(path).unwrap())
}

impl Files for OnDisk {
    fn binary(&self, _pid: u32, _mapping: &Mapping, take: &mut dyn FnMut(Bytes) -> bool) {
        take(read(&self.binary));
    }

    fn debug(&self, _wanted: &DebugFile<'_>, take: &mut dyn FnMut(Bytes) -> bool) {
        if let Some(debug) = &self.debug {
            take(read(debug));
        }
    }

    fn recall(&self, key: &str) -> Option<Bytes> {
        Some(Arc::new(self.kept.lock().unwrap().get(key)?.clone()))
    }

    fn remember(&self, key: &str, bytes: &[u8]) {
        self.kept.lock().unwrap().insert(key.to_owned(), bytes.to_vec());
    }
}

/// A recording of a stack at each of these offsets in the file.
pub fn catalogue_at(offsets: &[u64]) -> Catalogue {
    let stack =
        |offset: &u64| Some(RawStack { tgid: 7, addresses: vec![1 << 40 | offset], ..RawStack::default() });
    let (start, end) = (1 << 40, 2 << 40);
    Catalogue {
        processes: vec![Process { pid: 7, ..Process::default() }],
        mappings: vec![Mapping { start, end, path: "/bin/app".to_owned(), ..Mapping::default() }],
        stacks: [None].into_iter().chain(offsets.iter().map(stack)).collect(),
        ..Catalogue::default()
    }
}

/// Offsets of the function's bytes, and the frames that were found there.
fn frames_of(files: &OnDisk, offsets: &[u64]) -> (Vec<Frame>, Vec<String>) {
    let catalogue = catalogue_at(offsets);
    let mut symbols = Symbols::new(files, "");
    let (_, frames) = symbols.resolve(&catalogue);
    (frames, symbols.notes().to_vec())
}

/// File offset of a function, by the symbol table.
fn offset_of(binary: &Path, function: &str) -> u64 {
    let bytes = std::fs::read(binary).unwrap();
    let elf = Elf::parse(&bytes).unwrap();
    let address = elf.function_address(function).unwrap();
    (0..bytes.len() as u64).find(|offset| elf.address(*offset) == Some(address)).unwrap()
}

fn has_inlined_call(frames: &[Frame]) -> bool {
    let inner = |frame: &Frame| frame.function == "inner" && frame.inlined && frame.line == 3;
    let outer = |frame: &Frame| frame.function == "outer" && !frame.inlined && frame.line == 6;
    frames.iter().any(inner)
        && frames.iter().any(outer)
        && frames.iter().any(|frame| frame.file.ends_with("app.c"))
}

#[test]
fn a_stripped_program_is_named_by_its_debug_file_and_by_no_other() {
    let scratch = Scratch::new("debug-file");
    let Some(app) = c_program(&scratch) else { return };
    let start = offset_of(&app, "outer");
    let offsets: Vec<u64> = (start..start + 12).collect();
    let whole = OnDisk { binary: app.clone(), ..OnDisk::default() };
    assert!(has_inlined_call(&frames_of(&whole, &offsets).0));

    let made = scratch.run("objcopy", &["--only-keep-debug", "app", "app.debug"]);
    if made.and_then(|()| scratch.run("strip", &["-o", "bare", "app"])).is_none() {
        return;
    }
    let debug = Some(scratch.path("app.debug"));
    let with_debug = OnDisk { binary: scratch.path("bare"), debug, ..OnDisk::default() };
    assert_eq!(frames_of(&with_debug, &offsets), frames_of(&whole, &offsets));

    std::fs::write(scratch.path("other.c"), "int main(void) { return 7; }\n").unwrap();
    scratch.run("cc", &["-g", "-Wl,--build-id", "-o", "other", "other.c"]).unwrap();
    let debug = Some(scratch.path("other"));
    let wrong = OnDisk { binary: scratch.path("bare"), debug, ..OnDisk::default() };
    let (frames, notes) = frames_of(&wrong, &offsets);
    assert!(frames.iter().all(|frame| frame.function.is_empty()));
    assert!(
        notes[0].contains("stripped: no symbol for this code, and no debug file for build id"),
        "{notes:?}"
    );
}

#[test]
fn what_was_looked_up_once_is_kept() {
    let scratch = Scratch::new("names-kept");
    let Some(app) = c_program(&scratch) else { return };
    let start = offset_of(&app, "outer");
    let (some, more): (Vec<u64>, Vec<u64>) = ((start..start + 6).collect(), (start..start + 12).collect());
    let files = OnDisk { binary: app, ..OnDisk::default() };
    let first = frames_of(&files, &some);
    assert_eq!(files.kept.lock().unwrap().len(), 1);
    assert_eq!(frames_of(&files, &some), first);
    let (frames, _) = frames_of(&files, &more);
    assert!(has_inlined_call(&frames));
    // Truncated names are looked up again.
    files.kept.lock().unwrap().values_mut().for_each(|bytes| bytes.truncate(bytes.len() / 2));
    assert_eq!(frames_of(&files, &more).0, frames);
}

#[test]
fn a_stripped_go_program_names_its_functions() {
    let scratch = Scratch::new("go-stripped");
    std::fs::write(scratch.path("app.go"), GO_SOURCE).unwrap();
    if scratch.run("go", &["build", "-o", "app", "app.go"]).is_none() {
        return;
    }
    let start = offset_of(&scratch.path("app"), "main.work");
    if scratch.run("strip", &["-o", "bare", "app"]).is_none() {
        return;
    }
    let files = OnDisk { binary: scratch.path("bare"), ..OnDisk::default() };
    let (frames, notes) = frames_of(&files, &[start + 3]);
    assert_eq!(frames[0].function, "main.work");
    assert!(frames[0].file.ends_with("app.go") && (6..=7).contains(&frames[0].line), "{:?}", frames[0]);
    assert_eq!(frames[0].function_offset, 3);
    assert_eq!(notes, [] as [&str; 0]);
}

const VARIABLES_SOURCE: &str = "\
struct pair { int left; volatile long right; };
typedef struct { char name[6]; struct pair pairs[2][3]; union { int number; float share; }; } row;
row table[4];
const int limit = 7;
int main(void) { static long calls; calls += limit; return (int)(table[1].pairs[1][2].right + calls); }
";

#[test]
fn parts_of_variables_are_named_by_their_types() {
    let scratch = Scratch::new("variables");
    std::fs::write(scratch.path("v.c"), VARIABLES_SOURCE).unwrap();
    if scratch.run("cc", &["-g", "-O0", "-o", "v", "v.c"]).is_none() {
        return;
    }
    let bytes = std::fs::read(scratch.path("v")).unwrap();
    let elf = Elf::parse(&bytes).unwrap();
    let table = elf.function_address("table").unwrap();
    let limit = elf.function_address("limit").unwrap();
    // A row: 6 bytes, 2 to align, six pairs of 16 bytes, the union of 4, 4 to align.
    let row = 8 + 6 * 16 + 8;
    let expected = [
        (table, "[0].name[0]"),
        (table + 2, "[0].name[2]"),
        (table + 7, "[0]+0x7"),
        (table + row + 8 + 5 * 16 + 8, "[1].pairs[1][2].right"),
        (table + 2 * row + 8 + 6 * 16, "[2].number"),
        (table + 2 * row + 8 + 1, "[2].pairs[0][0].left+0x1"),
    ];
    let mut addresses: Vec<u64> = expected.iter().map(|(address, _)| *address).collect();
    addresses.extend([limit, table + 4 * row]);
    addresses.sort_unstable();
    let parts = super::dwarf::parts(&super::dwarf::Sections::load(&elf).unwrap(), &addresses);
    for (address, part) in expected {
        assert_eq!(parts.get(&address).map(String::as_str), Some(part), "{:#x}", address - table);
    }
    assert_eq!(parts.get(&limit).map(String::as_str), Some(""));
    assert_eq!(
        parts.get(&(table + 4 * row)).filter(|part| part.starts_with('[')),
        None,
        "behind the last row"
    );
}

/// A binary that is counted each time it is read.
struct Counted {
    bytes: Vec<u8>,
    reads: AtomicUsize,
}

impl Files for Counted {
    fn binary(&self, _pid: u32, _mapping: &Mapping, take: &mut dyn FnMut(Bytes) -> bool) {
        self.reads.fetch_add(1, Ordering::Relaxed);
        take(Arc::new(self.bytes.clone()));
    }
}

#[test]
fn a_binary_of_many_processes_is_read_once_for_its_variables() {
    let scratch = Scratch::new("variables-many");
    std::fs::write(scratch.path("v.c"), VARIABLES_SOURCE).unwrap();
    if scratch.run("cc", &["-g", "-O0", "-Wl,--build-id,-z,noseparate-code", "-o", "v", "v.c"]).is_none() {
        return;
    }
    let bytes = std::fs::read(scratch.path("v")).unwrap();
    let table = Elf::parse(&bytes).unwrap().function_address("table").unwrap();
    let build_id = crate::unwind::build_id(bytes.as_slice());
    let files = Counted { bytes, reads: AtomicUsize::new(0) };
    // Each process has the file at another address.
    let base = |process: u32| 0x1000_0000 * u64::from(process + 1);
    let mapping = |process: u32, build_id: &[u8]| Mapping {
        process: ProcessId(process),
        start: base(process),
        end: base(process) + 0x1000,
        path: "/v".to_owned(),
        build_id: build_id.to_owned(),
        ..Mapping::default()
    };
    let addresses = (0..3).map(|process| (ProcessId(process), base(process) + table)).collect();
    let named = |build_id: &[u8]| {
        let mappings: Vec<Mapping> = (0..3).map(|process| mapping(process, build_id)).collect();
        let found = super::words::variables(&addresses, (&mappings, &Processes::default()), &files, None);
        let names = found.into_values().map(|(variable, _)| variable.name + &variable.part);
        (names.collect::<Vec<String>>(), files.reads.swap(0, Ordering::Relaxed))
    };
    let name = || "table[0].name[0]".to_owned();
    assert_eq!(named(&build_id), (vec![name(), name(), name()], 1));
    // Without a build ID, each process may have another file.
    assert_eq!(named(&[]), (vec![name(), name(), name()], 3));
}

/// Go describes types in another unit than the variables of them.
#[test]
fn parts_are_named_by_types_of_another_unit() {
    let scratch = Scratch::new("variables-go");
    let source = "package main\n\nimport \"sync/atomic\"\n\ntype tally struct {\n\tlevel atomic.Int64\n\tcount uint64\n}\n\n\
        var tallies [4]tally\n\nfunc main() {\n\ttallies[2].level.Add(1)\n\ttallies[3].count++\n\tprintln(tallies[3].count)\n}\n";
    std::fs::write(scratch.path("v.go"), source).unwrap();
    if scratch.run("go", &["build", "-o", "v", "v.go"]).is_none() {
        return;
    }
    let bytes = std::fs::read(scratch.path("v")).unwrap();
    let elf = Elf::parse(&bytes).unwrap();
    let tallies = elf.function_address("main.tallies").unwrap();
    let addresses = [tallies + 8, tallies + 32, tallies + 56];
    let parts = super::dwarf::parts(&super::dwarf::Sections::load(&elf).unwrap(), &addresses);
    let parts: Vec<&str> = parts.values().map(String::as_str).collect();
    assert_eq!(parts, ["[0].count", "[2].level.v", "[3].count"]);
}

/// GHC's functions are preceded by a table, and some have symbols marked as data.
#[test]
fn code_with_data_symbols_is_named() {
    let scratch = Scratch::new("object-code");
    let source = "asm(\".text\\n.globl entered\\n.type entered,@object\\nentered: nop\\nnop\\nret\\n.size entered, .-entered\\n\");\n\
        int table[4] = {1};\nint main(void) { return table[1]; }\n";
    std::fs::write(scratch.path("o.c"), source).unwrap();
    if scratch.run("cc", &["-o", "o", "o.c"]).is_none() {
        return;
    }
    let bytes = std::fs::read(scratch.path("o")).unwrap();
    let elf = Elf::parse(&bytes).unwrap();
    let at = |symbol: &str| elf.function_address(symbol).unwrap();
    let (entered, table) = (at("entered") + 1, at("table") + 4);
    let places = elf.functions(&[entered, table]);
    assert_eq!(places.get(&entered).map(|place| place.calls[0].function.as_str()), Some("entered"));
    assert!(!places.contains_key(&table), "data is no code");
}
