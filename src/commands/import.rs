//! `holdup import`: recordings made elsewhere.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use holdup_decode::Catalogue;
use holdup_decode::readers::{self, Facts, Wanted};
use holdup_decode::symbols::{Bytes, DebugFile, Files};
use holdup_events::recording::{self, JournalWriter, Manifest};
use holdup_events::tables::{Frames, Mapping, Stacks};

use crate::cli::ImportArgs;
use crate::half_made;
use crate::record::{files, finish, place, unix_ns};

/// A larger file is refused: it is read into memory whole.
const FILE_MAX_BYTES: u64 = 4 << 30;

/// Makes a recording of each file, and prints its verdict.
pub fn execute(args: &ImportArgs) -> Result<ExitCode> {
    if args.output.is_some() && args.files.len() > 1 {
        bail!("-o names one recording, but there are {} files: import them one by one", args.files.len());
    }
    half_made::watch()?;
    for file in &args.files {
        let path = import(file, args).with_context(|| format!("cannot import {}", file.display()))?;
        say!("holdup: imported {} as {}", file.display(), path.display());
        if args.quiet {
            continue;
        }
        let trace = recording::open(&path)?;
        let descriptors = super::descriptors::read(&args.descriptors)?;
        let analysis = holdup_findings::analyse_with(&trace, &descriptors);
        if args.json {
            let ask = super::descriptors::stack_ask(descriptors);
            super::print_json(&holdup_report::to_json_with(&trace, &analysis, &ask))?;
        } else {
            let style = super::style(&std::io::stdout());
            super::print(&holdup_report::render(&trace, &analysis, &[], &style)?)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn import(file: &Path, args: &ImportArgs) -> Result<PathBuf> {
    let packed = read(file)?;
    let bytes = readers::unpack(&packed, FILE_MAX_BYTES)?;
    let reader = readers::detect(&bytes)?;
    let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    // Half a recording would look like a whole one: it is made aside, and goes unless it is finished.
    let place = place::begin_aside(args.output.as_deref(), &stem)?;
    half_made::begin(place.at());
    let written = write(place.at(), file, reader, &bytes, args);
    half_made::finish(place.at(), || {
        written?;
        place.settle()
    })
}

fn read(file: &Path) -> Result<Vec<u8>> {
    let length = std::fs::metadata(file)?.len();
    if length > FILE_MAX_BYTES {
        bail!("it has {length} bytes, more than the {FILE_MAX_BYTES} that can be imported");
    }
    Ok(std::fs::read(file)?)
}

fn write(
    path: &Path,
    file: &Path,
    reader: &dyn readers::Reader,
    bytes: &[u8],
    args: &ImportArgs,
) -> Result<()> {
    let wanted = Wanted { process: args.process.clone().unwrap_or_default() };
    let mut manifest = Manifest {
        format: recording::FORMAT_VERSION,
        holdup: crate::build_name::name().to_owned(),
        command: vec![format!("{} ({})", file.display(), reader.info().name)],
        mode: "import".to_owned(),
        stacks: "none".to_owned(),
        start_unix_ns: unix_ns(),
        ..Manifest::default()
    };
    let mut journal = JournalWriter::create(path, &manifest)?;
    let facts = reader.read(bytes, &wanted, &mut |event| journal.push(&event))?;
    journal.flush();
    drop(journal);
    manifest.host = facts.host.clone();
    (manifest.start_ns, manifest.end_ns) = (facts.span.0.0, facts.span.1.0);
    manifest.backend = facts.backend;
    manifest.backend_reason = facts.limits.clone();
    manifest.sample_period_ns = facts.sample_period_ns;
    manifest.sources = facts.sources.clone();
    if !facts.command.is_empty() {
        manifest.command.splice(.., facts.command.iter().cloned());
    }
    finish::finish_import(path, &mut manifest, &|catalogue, manifest| names(catalogue, manifest, &facts))
}

/// Names of the file itself, else of this machine's binaries as far as they are the ones that were recorded.
fn names(catalogue: &mut Catalogue, manifest: &mut Manifest, facts: &Facts) -> (Stacks, Frames) {
    if let Some(names) = &facts.names {
        return names.resolve(catalogue);
    }
    let kallsyms = match same_kernel(facts) {
        true => std::fs::read_to_string("/proc/kallsyms").unwrap_or_default(),
        false => String::new(),
    };
    finish::name(catalogue, manifest, &Binaries, &kallsyms)
}

/// Whether the recorded kernel is the one that runs here, and lies where it lay.
fn same_kernel(facts: &Facts) -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let notes = std::fs::read("/sys/kernel/notes").unwrap_or_default();
    let id = &facts.kernel.build_id;
    let same_build = id.is_empty() || notes.windows(id.len()).any(|window| window == &id[..]);
    let kallsyms = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let lies_there = kallsyms.lines().take_while(|_| facts.kernel.text_address != 0).any(|line| {
        let mut words = line.split_ascii_whitespace();
        let address = words.next().and_then(|word| u64::from_str_radix(word, 16).ok());
        address == Some(facts.kernel.text_address) && matches!(words.nth(1), Some("_text" | "_stext"))
    });
    facts.host.kernel == release.trim() && same_build && lies_there
}

/// Binaries of this machine, by path and by build id. `/proc/PID` is never used: the recorded processes have
/// exited, and their PIDs may have been reused.
struct Binaries;

impl Files for Binaries {
    fn binary(&self, _pid: u32, mapping: &Mapping, take: &mut dyn FnMut(Bytes) -> bool) {
        let is_path = mapping.path.starts_with('/');
        let _ = is_path && mapped(Path::new(&mapping.path)).is_some_and(&mut *take)
            || cached(&mapping.build_id).is_some_and(&mut *take);
    }

    fn debug(&self, wanted: &DebugFile<'_>, take: &mut dyn FnMut(Bytes) -> bool) {
        let Some((head, tail)) = split(wanted.build_id) else { return };
        let path = format!("/usr/lib/debug/.build-id/{head}/{tail}.debug");
        let _ = mapped(Path::new(&path)).is_some_and(take);
    }
}

/// Only regular files: an imported file can name any path, such as an endless device or a pipe without a
/// writer.
fn mapped(path: &Path) -> Option<Bytes> {
    files::map(&files::open(path)?)
}

/// The copy of the binary in perf's build-id cache.
fn cached(build_id: &[u8]) -> Option<Bytes> {
    let (head, tail) = split(build_id)?;
    let home = PathBuf::from(std::env::var_os("HOME")?);
    mapped(&home.join(".debug/.build-id").join(head).join(tail).join("elf"))
}

fn split(build_id: &[u8]) -> Option<(String, String)> {
    if build_id.is_empty() {
        return None;
    }
    let hex: String = build_id.iter().map(|byte| format!("{byte:02x}")).collect();
    let (head, tail) = hex.split_at_checked(2)?;
    Some((head.to_owned(), tail.to_owned()))
}
