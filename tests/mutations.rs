//! Damaged foreign input: seeded mutations of real files go through the functions that fuzzers use
//! (`fuzz/src/lib.rs`). None may panic, hang, or use unbounded memory. A failure prints target, seed and
//! step: `HOLDUP_SEED=n` starts there, `HOLDUP_ROUNDS=n` sets the number of steps.

mod support;

#[path = "../fuzz/src/lib.rs"]
mod targets;

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use holdup_decode::readers;
use holdup_decode::wire::size;
use holdup_events::recording::{Encoder, JournalWriter};
use holdup_testkit::random::Random;
use holdup_testkit::sim;
use support::Scratch;

/// Counts allocated bytes and their maximum.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: hands everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(now, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Inputs of these tests have at most some megabytes. A damaged one may use this much memory (bytes).
const MEMORY_MAX: usize = 512 << 20;

/// Damages `bytes` in one of the ways in which files are damaged or forged.
fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    let length = bytes.len() as u64;
    let at = random.within(0, length) as usize;
    match random.within(0, 8) {
        0 => bytes.truncate(at),
        1 if !bytes.is_empty() => bytes[at] ^= 1 << random.within(0, 8),
        2 if !bytes.is_empty() => bytes[at] = random.bits() as u8,
        3 => bytes.splice(at..at, random.bits().to_le_bytes()).for_each(drop),
        // The numbers that overflow.
        4 | 5 => {
            let extreme = [0, u64::MAX, 1 << 63, (1 << 63) - 1, u64::from(u32::MAX), 0x7fff_ffff, 0xffff, 1];
            let number = extreme[random.within(0, extreme.len() as u64) as usize].to_le_bytes();
            let width = [1, 2, 4, 8][random.within(0, 4) as usize].min(bytes.len() - at.min(bytes.len()));
            bytes[at..at + width].copy_from_slice(&number[..width]);
        }
        6 => {
            let end = (at + random.within(1, 64) as usize).min(bytes.len());
            bytes.drain(at..end).for_each(drop);
        }
        _ => {
            let end = (at + random.within(1, 4096) as usize).min(bytes.len());
            let copy = bytes[at..end].to_vec();
            let to = random.within(0, length) as usize;
            bytes.splice(to..to, copy).for_each(drop);
        }
    }
}

/// Every target is fed `files`, whole and damaged.
fn drive(name: &str, files: &[Vec<u8>]) {
    let (_, target) = targets::TARGETS.iter().find(|(known, _)| *known == name).expect("a target");
    keep(name, files);
    // A recording is two dozen files, and all of them are read for each of them.
    let rounds = match name {
        "recording" => 15,
        "packed" | "elf" | "frames" | "debug_info" | "hotspot" => 60,
        _ => 400,
    };
    let asked = std::env::var("HOLDUP_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    let rounds = asked.unwrap_or(rounds);
    let rounds = if std::env::var_os("HOLDUP_QUICK").is_some() { rounds / 10 } else { rounds };
    let first: u64 = std::env::var("HOLDUP_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    for file in files {
        target(file);
        for seed in first..first + rounds {
            let mut random = Random::new(seed);
            let mut damaged = file.clone();
            for step in 0..1 + seed % 6 {
                mutate(&mut damaged, &mut random);
                let before = NOW.load(Ordering::Relaxed);
                MOST.store(before, Ordering::Relaxed);
                let outcome = std::panic::catch_unwind(|| target(&damaged));
                assert!(outcome.is_ok(), "{name}: panics at seed {seed}, step {step}");
                let most = MOST.load(Ordering::Relaxed).saturating_sub(before);
                assert!(most < MEMORY_MAX, "{name}: {most} bytes at seed {seed}, step {step}");
            }
        }
    }
}

/// Where fuzzers start from, if that is asked for.
fn keep(name: &str, files: &[Vec<u8>]) {
    let Some(corpus) = std::env::var_os("HOLDUP_FUZZ_CORPUS") else { return };
    let folder = Path::new(&corpus).join(name);
    std::fs::create_dir_all(&folder).expect("mkdir");
    for (number, file) in files.iter().enumerate() {
        std::fs::write(folder.join(format!("real-{number}")), file).expect("write");
    }
}

fn journals(scratch: &Scratch) -> Vec<Vec<u8>> {
    let journal = |seed: u64| {
        let simulation = sim::simulate(seed);
        let dir = scratch.join(&format!("journal-{seed}"));
        std::fs::create_dir_all(&dir).expect("mkdir");
        let mut writer = JournalWriter::create(&dir, &simulation.manifest).expect("a journal");
        for (number, event) in simulation.events.iter().enumerate() {
            writer.push(event);
            if number % 100 == 99 {
                writer.flush();
            }
        }
        writer.flush();
        std::fs::read(writer.path()).expect("a journal")
    };
    (0..4).map(journal).collect()
}

fn chunks() -> Vec<Vec<u8>> {
    let chunk = |seed: u64| {
        let (mut encoder, mut bytes) = (Encoder::default(), Vec::new());
        sim::simulate(seed).events.iter().take(500).for_each(|event| encoder.encode(event, &mut bytes));
        bytes
    };
    (0..4).map(chunk).collect()
}

/// One record of every kind and a few of the frequent ones, as the kernel programs lay them out.
fn wire_records() -> Vec<Vec<u8>> {
    let sizes = [
        size::SWITCH,
        size::SWITCH_OUT,
        size::SWITCH_BLOCKED,
        size::WAKING,
        size::SAMPLE,
        size::STACK + 64,
        size::THREAD,
        size::THREAD,
        size::THREAD,
        size::THREAD,
        size::SNAPSHOT,
    ];
    let mut random = Random::new(1);
    let mut stream = |records: u64| {
        let mut bytes = Vec::new();
        for number in 0..records {
            let kind = random.within(0, sizes.len() as u64) as usize;
            let mut record: Vec<u8> = (0..sizes[kind]).map(|_| random.within(0, 6) as u8).collect();
            record[..8].copy_from_slice(&(1000 + number * 10).to_le_bytes());
            record[8..12].copy_from_slice(&(number as u32).to_le_bytes());
            record[12..14].copy_from_slice(&(random.within(0, 2) as u16).to_le_bytes());
            record[14] = kind as u8 + 1;
            bytes.extend_from_slice(&(record.len() as u16).to_le_bytes());
            bytes.extend_from_slice(&record);
        }
        bytes
    };
    vec![stream(12), stream(60), stream(300)]
}

/// Records of every type, with bodies of small numbers and the trailer that `sample_id_all` asks for.
fn perf_records() -> Vec<Vec<u8>> {
    let mut random = Random::new(2);
    let mut stream = Vec::new();
    for kind in (1..=21u32).cycle().take(200) {
        let body = 8 * random.within(2, 14) as usize;
        let misc: u16 = [0, 1, 2, 1 << 13, 1 << 14, 3 << 13][random.within(0, 6) as usize];
        stream.extend_from_slice(&kind.to_le_bytes());
        stream.extend_from_slice(&misc.to_le_bytes());
        stream.extend_from_slice(&(8 + body as u16).to_le_bytes());
        stream.extend((0..body).map(|_| if random.once_in(4) { random.within(0, 6) as u8 } else { 0 }));
    }
    vec![stream]
}

fn proc_files() -> Vec<Vec<u8>> {
    ["maps", "stat", "schedstat", "syscall"]
        .iter()
        .filter_map(|name| std::fs::read(format!("/proc/self/{name}")).ok())
        .collect()
}

/// A real recording, with the backend that every machine has.
fn record(scratch: &Scratch) -> std::path::PathBuf {
    let path = scratch.join("real.holdup");
    let script = "for i in 1 2 3 4 5; do sleep 0.02; done; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
    let output = support::holdup(scratch)
        .args(["run", "--quiet", "-o"])
        .arg(&path)
        .args(["--", "sh", "-c", script])
        .output()
        .expect("holdup starts");
    assert!(output.status.success(), "{}", support::stderr(&output));
    path
}

#[test]
fn journals_and_chunks() {
    let scratch = Scratch::new("mutated-journal");
    drive("journal", &journals(&scratch));
    drive("codec", &chunks());
}

#[test]
fn records_of_the_kernel() {
    drive("wire", &wire_records());
    drive("perf_ring", &perf_records());
    drive("maps", &proc_files());
}

#[test]
fn programs() {
    let file = |path: &str| std::fs::read(path).ok().filter(|bytes| bytes.len() < 2_000_000);
    let files: Vec<Vec<u8>> = ["/bin/true", "/bin/sleep", "/lib64/ld-linux-x86-64.so.2"]
        .iter()
        .filter_map(|path| file(path))
        .collect();
    assert!(!files.is_empty(), "no small ELF file on this machine");
    drive("elf", &files);
}

/// Returns the sections of a program with unwind and debug information, each in a file. `None` without the
/// tools.
fn sections_of_a_program(scratch: &Scratch, names: &[&str]) -> Option<Vec<Vec<u8>>> {
    let source = "static inline int twice(int n) { return n * 2; }\n\
                  int main(int count, char **words) { return twice(count) + words[0][0]; }\n";
    std::fs::write(scratch.join("app.c"), source).expect("write");
    let (program, file) = (scratch.join("app"), scratch.join("app.c"));
    let run = |command: &mut Command| command.status().ok().filter(|status| status.success());
    let options = ["-g", "-O1", "-gz=none", "-fasynchronous-unwind-tables", "-o"];
    run(Command::new("cc").args(options).arg(&program).arg(&file))?;
    let section = |name: &&str| {
        let out = scratch.join(&format!("section{name}"));
        let dump = format!("{name}={}", out.display());
        let mut command = Command::new("objcopy");
        command.args(["--dump-section", &dump]).arg(&program).arg(scratch.join("copy"));
        // Compilers differ in which of them they write.
        run(command.stderr(Stdio::null()));
        std::fs::read(out).unwrap_or_default()
    };
    Some(names.iter().map(section).collect())
}

#[test]
fn code_sections() {
    let scratch = Scratch::new("mutated-sections");
    let names = [&[".eh_frame"], targets::DEBUG_SECTIONS].concat();
    let Some(sections) = sections_of_a_program(&scratch, &names) else {
        println!("skipped: there is no compiler");
        return;
    };
    assert!(!sections[0].is_empty() && !sections[2].is_empty(), "there is no objcopy");
    assert!(targets::rows_made(&sections[0]) > 0, "no row is made of the whole section");
    drive("frames", &sections[..1]);
    let behind_length = |bytes: &Vec<u8>| [&(bytes.len() as u32).to_le_bytes()[..], bytes].concat();
    let debug_info: Vec<u8> = sections[1..].iter().flat_map(behind_length).collect();
    assert!(targets::lines_known(&debug_info) > 0, "nothing is found in the whole file");
    drive("debug_info", &[debug_info]);
}

/// A perf map and a jitdump with one function and its lines.
fn generated_code() -> Vec<Vec<u8>> {
    let map =
        (0..200).map(|n| format!("{:x} {:x} JS:*f{n} a.js:{n}:1\n", n * 0x100, 0x80)).collect::<String>();
    let record = |kind: u32, longs: &[u64], rest: &[u8]| {
        let body: Vec<u8> =
            longs.iter().flat_map(|long| long.to_le_bytes()).chain(rest.iter().copied()).collect();
        let head = [kind, 16 + body.len() as u32, 0, 0].into_iter().flat_map(u32::to_le_bytes);
        head.chain(body).collect::<Vec<u8>>()
    };
    let head: Vec<u8> =
        [0x4a69_5444u32, 1, 40, 62, 0, 1, 0, 0, 0, 0].into_iter().flat_map(u32::to_le_bytes).collect();
    let lines = record(2, &[0x1000, 2, 0x1000, 5], b"a.js\0\x10\x10\0\0\0\0\0\0\x06\0\0\0\0\0\0\0\xff\0");
    let load = record(0, &[1, 0, 0x1000, 0x8000, 1], b"hot\0\x90\x90");
    let moved = record(1, &[1, 0, 0x1000, 0x3000, 0x8000, 1], b"");
    vec![map.into_bytes(), [head, lines, load, moved].concat()]
}

/// Rings of OCaml programs. The unused part of a nearly empty ring is cut off.
fn rings() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/runtime_events");
    ["wrapped-d4-e8", "userevents-slotreuse-d8-e12"]
        .iter()
        .map(|name| {
            let packed =
                std::fs::File::open(folder.join(format!("ocaml53-{name}.events.gz"))).expect("a fixture");
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(packed), &mut bytes).expect("gzip");
            // The names of the program's own events come last, 1 MiB of them.
            bytes.truncate(bytes.len() - (1 << 20) + 512);
            bytes
        })
        .collect()
}

#[test]
fn runtime_events() {
    drive("runtime_events", &rings());
}

/// Event files of runtimes. Only the begin of long files, with complete lines if there are lines.
fn of_runtimes(names: &[&str]) -> Vec<Vec<u8>> {
    fixtures("runtimes", names)
}

fn fixtures(folder: &str, names: &[&str]) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(folder);
    let file = |name: &&str| {
        let packed = std::fs::read(folder.join(name)).expect("a fixture");
        let mut bytes = readers::unpack(&packed, 1 << 24).expect("gzip").into_owned();
        bytes.truncate(24 << 10);
        bytes
    };
    names.iter().map(file).collect()
}

#[test]
fn runtimes_of_their_own() {
    drive("chrome_trace", &of_runtimes(&["node20-events.json.gz", "ocaml-eventlog.json"]));
    drive("ghc_eventlog", &of_runtimes(&["ghc902-pause.eventlog", "ghc902-census.eventlog"]));
    drive("go_trace", &of_runtimes(&["go126.trace.gz"]));
    drive("hotspot_log", &of_runtimes(&["jdk17-safepoint-trace.log", "jdk25-zgc.log"]));
    drive("v8_gc", &of_runtimes(&["node20-trace-gc.txt", "node20-trace-gc-nvp.txt"]));
    drive("beam_msacc", &of_runtimes(&["otp25-msacc.terms"]));
}

#[test]
fn races() {
    drive("thread_sanitizer", &fixtures("races", &["tsan.txt"]));
    drive("valgrind_races", &fixtures("races", &["helgrind.txt", "drd.txt"]));
    drive("go_race", &fixtures("races", &["go.txt"]));
}

#[test]
fn profiles() {
    drive("memtrace", &fixtures("profiles", &["ocaml53-words.ctf.gz"]));
    drive("jfr", &fixtures("profiles", &["jdk17-alloc.jfr.gz", "jdk17-tlab.jfr.gz"]));
    drive("pprof", &fixtures("profiles", &["go126-heap.pb.gz", "go126-cpu.pb.gz"]));
}

#[test]
fn what_perf_wrote() {
    drive("perf_data", &fixtures("imports", &["samples.perf", "switches.perf", "sched.perf"]));
    drive("perf_script", &fixtures("imports", &["sched.txt", "switches.txt"]));
    drive("folded", &[b"main;work;inner 3000\nmain;read_[k] 1000\nmain 2\n".to_vec()]);
}

#[test]
fn code_of_runtimes() {
    drive("generated_code", &generated_code());
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/runtimes");
    let pages = ["jdk17-memory.pages.gz", "jdk25-memory.pages.gz"].map(|name| {
        let packed = std::fs::read(folder.join(name)).expect("a fixture");
        readers::unpack(&packed, 1 << 24).expect("gzip").into_owned()
    });
    drive("hotspot", &pages);
}

/// A code object in the layout of each Python version, with its names and lines. It is preceded by the fields
/// of 3.13's table.
fn python_memory(minor: usize) -> Vec<u8> {
    const CODE: usize = 0x400;
    let mut memory = vec![0; 0x1000];
    let mut put = |at: usize, bytes: &[u8]| memory[at..at + bytes.len()].copy_from_slice(bytes);
    let word = |at: usize| (targets::PYTHON + at as u64).to_le_bytes();
    put(0, b"xdebugpy");
    put(8, &0x030d_00f0u64.to_le_bytes());
    // Places in the table, and the offsets there.
    let table: [(usize, u64); 18] = [
        (40, 632),
        (72, 7344),
        (168, 8),
        (184, 72),
        (192, 152),
        (232, 8),
        (240, 0),
        (248, 56),
        (264, 70),
        (280, 112),
        (288, 120),
        (296, 128),
        (304, 136),
        (312, 68),
        (344, 200),
        (520, 16),
        (528, 32),
        (560, 40),
    ];
    table.iter().chain(&[(544, 32), (552, 16)]).for_each(|(at, offset)| put(*at, &offset.to_le_bytes()));
    put(CODE + 8, &word(0));
    let (line, file, name, lines) = match minor {
        ..=10 => (40, 104, 112, 120),
        11 => (72, 112, 120, 136),
        _ => (68, 112, 120, 136),
    };
    put(CODE + line, &7u32.to_le_bytes());
    [(file, 0x800), (name, 0x900), (lines, 0xa00)].iter().for_each(|(at, to)| put(CODE + at, &word(*to)));
    if minor >= 11 {
        put(CODE + 128, &word(0x900));
    }
    let head = if minor >= 12 { 40 } else { 48 };
    for (at, text) in [(0x800, "/srv/app.py"), (0x900, "sweep")] {
        put(at + 16, &(text.len() as u64).to_le_bytes());
        put(at + 32, &(1u32 << 2 | 1 << 5 | 1 << 6).to_le_bytes());
        put(at + head, text.as_bytes());
    }
    put(0xa10, &4u64.to_le_bytes());
    put(0xa20, if minor >= 11 { &[128, 0, 216, 8] } else { &[8, 1, 4, 2] });
    memory
}

#[test]
fn memory_of_python() {
    let memories: Vec<Vec<u8>> = (8..=13).map(python_memory).collect();
    drive("cpython", &memories);
}

#[test]
fn recordings() {
    let scratch = Scratch::new("mutated-recording");
    let real = record(&scratch);
    // SAFETY: read only by this test's own calls, below, on this thread.
    unsafe { std::env::set_var("HOLDUP_FUZZ_RECORDING", &real) };
    let file = |(number, name): (usize, &String)| {
        let mut bytes = vec![number as u8];
        bytes.extend(std::fs::read(real.join(name)).unwrap_or_else(|error| panic!("{name}: {error}")));
        bytes
    };
    let files: Vec<Vec<u8>> = targets::files().iter().enumerate().map(file).collect();
    drive("recording", &files);
    let pack = scratch.join("real.holdup.pack");
    let output = support::holdup(&scratch)
        .arg("pack")
        .arg(&real)
        .arg("-o")
        .arg(&pack)
        .output()
        .expect("holdup starts");
    assert!(output.status.success(), "{}", support::stderr(&output));
    drive("packed", &[std::fs::read(&pack).expect("the pack")]);
}
