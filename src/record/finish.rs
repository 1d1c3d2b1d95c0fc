//! From the journal to the tables of a finished recording.

use std::path::Path;

use anyhow::Result;
use holdup_decode::accesses::Unread;
use holdup_decode::reorder::{Lag, Reorder, horizon_for};
use holdup_decode::symbols::{Files, NoFiles, Symbols};
use holdup_decode::unwind::walk_raw_stacks;
use holdup_decode::{Builder, Catalogue, until};
use holdup_events::recording::{Backend, JournalReader, Manifest, RecordingWriter, SmallTables, SourceState};
use holdup_events::tables::{Frames, Stacks};
use holdup_events::{Duration, Event, Loss, Timestamp};

use super::files::OwnFiles;
use super::roots::Roots;

/// Files whose code has no names that are listed, the most frequent first.
const NOTES_MAX: usize = 6;
/// Name of the source that reports missing symbols.
const SYMBOLS: &str = "symbols";
/// Name of the source that reports samples whose memory access is unknown.
const TOUCHED_MEMORY: &str = "touched-memory";

/// Makes the tables of the recording in `dir` from its journal, and completes it with `manifest`. What the journal
/// had no room for is a loss behind its last event. If it fails, only the journal is there.
pub fn finish(dir: &Path, manifest: &mut Manifest, dropped: Option<Loss>, roots: &Roots) -> Result<()> {
    let made = make_tables((dir, dir), manifest, dropped, roots);
    if made.is_err() {
        let names = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
        for path in names.filter(|path| path.extension().is_some_and(|extension| extension == "parquet")) {
            let _ = std::fs::remove_file(path);
        }
    }
    made
}

/// From the journal in one directory to a recording in the other.
pub fn make_tables(
    (from, to): (&Path, &Path),
    manifest: &mut Manifest,
    dropped: Option<Loss>,
    roots: &Roots,
) -> Result<()> {
    let mut reader = JournalReader::open(from)?.without_dropped();
    let mut tables = RecordingWriter::create(to)?;
    let files = OwnFiles::new(roots, manifest);
    let within = until(reader.by_ref(), Timestamp(manifest.end_ns));
    let mut catalogue = build((within, dropped), manifest, &mut tables, &files);
    // A disk that cannot be read now can perhaps be read later: the journal stays.
    reader.take_failure().map_or(Ok(()), Err)?;
    manifest.cost.switches = manifest.cost.switches.max(catalogue.switches);
    complete(tables, &mut catalogue, manifest, &files)
}

/// Makes a recording of the journal that a recorder left behind in `from`, in the directory `to`.
///
/// # Errors
/// The journal has no manifest that can be read, or a newer holdup wrote it, or a file cannot be read or written.
pub fn recover(from: &Path, to: &Path) -> Result<()> {
    let mut reader = JournalReader::open(from)?;
    let (mut lag, mut last_ns) = (Lag::default(), 0);
    for event in reader.by_ref().filter(|event| !matches!(event, Event::Loss(_))) {
        lag.note(&event);
        last_ns = last_ns.max(event.at().0);
    }
    let mut manifest = reader.into_manifest()?;
    manifest.recovered = true;
    manifest.lag_ns = lag.most().0;
    // The journal does not know when the recorder died: the last event is the end.
    manifest.end_ns = last_ns.max(manifest.start_ns);
    let mut tables = RecordingWriter::create(to)?;
    let roots = Roots::default();
    let files = OwnFiles::new(&roots, &manifest);
    let mut catalogue = build((JournalReader::open(from)?, None), &manifest, &mut tables, &files);
    manifest.cost.switches = catalogue.switches;
    complete(tables, &mut catalogue, &mut manifest, &files)
}

/// `dropped` is a loss of everything after the last event. Chunks overlap in time, so the loss may begin
/// before existing events. It is added after all of them, because it concerns every thread that they name.
fn build(
    (events, dropped): (impl Iterator<Item = Event>, Option<Loss>),
    manifest: &Manifest,
    tables: &mut RecordingWriter,
    files: &dyn Files,
) -> Catalogue {
    let span = (Timestamp(manifest.start_ns), Timestamp(manifest.end_ns));
    let mut builder = Builder::new(span, manifest.backend == Backend::Proc, files);
    let mut order = Reorder::new(horizon_for(Duration(manifest.lag_ns)));
    for event in events {
        order.push(event, &mut |event| builder.push(event, tables));
    }
    order.finish(&mut |event| builder.push(event, tables));
    if let Some(loss) = dropped {
        builder.push(Event::Loss(loss), tables);
    }
    builder.finish(tables)
}

fn complete(
    tables: RecordingWriter,
    catalogue: &mut Catalogue,
    manifest: &mut Manifest,
    files: &OwnFiles<'_>,
) -> Result<()> {
    // The kernel's load address is random at each boot (KASLR).
    let kallsyms = match files.are_of_this_boot() {
        true => std::fs::read_to_string("/proc/kallsyms").unwrap_or_default(),
        false => String::new(),
    };
    let named = name(catalogue, manifest, files, &kallsyms);
    write_small(tables, catalogue, manifest, &named)
}

/// Unwinds the remaining stacks, and names them with `files` and the kernel's symbols.
pub fn name(
    catalogue: &mut Catalogue,
    manifest: &mut Manifest,
    files: &dyn Files,
    kallsyms: &str,
) -> (Stacks, Frames) {
    name_with(catalogue, manifest, files, Symbols::new(files, kallsyms))
}

/// The same, with names as `symbols` gives them.
pub fn name_with(
    catalogue: &mut Catalogue,
    manifest: &mut Manifest,
    files: &dyn Files,
    mut symbols: Symbols<'_>,
) -> (Stacks, Frames) {
    walk_raw_stacks(catalogue, files);
    let named = symbols.resolve(catalogue);
    symbols.name_words(catalogue);
    manifest.sources.retain(|source| source.name != SYMBOLS);
    manifest.sources.extend(naming(symbols.notes()));
    manifest.sources.retain(|source| source.name != TOUCHED_MEMORY);
    manifest.sources.extend(unread_memory(&catalogue.unread));
    named
}

/// Makes stacks and frames from addresses, and adds notes about failures to the manifest.
pub type Naming<'a> = dyn Fn(&mut Catalogue, &mut Manifest) -> (Stacks, Frames) + 'a;

/// Makes the tables of a recording made elsewhere, whose events are in the journal in `dir`.
pub fn finish_import(dir: &Path, manifest: &mut Manifest, name: &Naming) -> Result<()> {
    let mut reader = JournalReader::open(dir)?;
    let mut tables = RecordingWriter::create(dir)?;
    let mut catalogue = build((reader.by_ref(), None), manifest, &mut tables, &NoFiles);
    reader.take_failure().map_or(Ok(()), Err)?;
    manifest.cost.switches = catalogue.switches;
    let named = name(&mut catalogue, manifest);
    write_small(tables, &catalogue, manifest, &named)
}

fn write_small(
    tables: RecordingWriter,
    catalogue: &Catalogue,
    manifest: &mut Manifest,
    (stacks, frames): &(Stacks, Frames),
) -> Result<()> {
    let small = SmallTables {
        processes: &catalogue.processes,
        threads: &catalogue.threads,
        waits: &catalogue.waits,
        stacks,
        frames,
        mappings: &catalogue.mappings,
        variables: &catalogue.variables,
        syscalls: &catalogue.syscalls,
        calls: &catalogue.calls,
        allocations: &catalogue.allocations,
        kernel_counts: &catalogue.kernel_counts,
        faults: &catalogue.faults,
        watchpoints: &catalogue.watchpoints,
        task_waits: &catalogue.task_waits,
        lanes: &catalogue.lanes,
        names: &catalogue.names,
        losses: &catalogue.losses,
    };
    tables.finish(&small, manifest)?;
    Ok(())
}

/// Share of unreadable samples below which no note is made.
const UNREAD_SHARE_MIN: f64 = 0.01;
/// Files that are named.
const UNREAD_PATHS_MAX: usize = 3;

/// Returns a note if the accessed memory of many samples is unknown. Shared cache lines cannot be found
/// there.
fn unread_memory(unread: &Unread) -> Option<SourceState> {
    let mut by_path: Vec<(&String, u64)> =
        unread.by_path.iter().map(|(path, count)| (path, *count)).collect();
    by_path.sort_by_key(|(path, count)| (std::cmp::Reverse(*count), path.to_owned()));
    let samples: u64 = by_path.iter().map(|(_, count)| count).sum();
    let rest = by_path.len().saturating_sub(UNREAD_PATHS_MAX);
    let name =
        |path: &str| if path.is_empty() { "where nothing was known to be mapped" } else { path }.to_owned();
    let named = by_path.iter().take(UNREAD_PATHS_MAX).map(|(path, count)| format!("{} {count}", name(path)));
    let more = (rest > 0).then(|| format!("and {rest} more"));
    let named: Vec<String> = named.chain(more).collect();
    (samples as f64 > UNREAD_SHARE_MIN * unread.samples as f64).then(|| SourceState {
        name: TOUCHED_MEMORY.to_owned(),
        active: true,
        events: unread.samples - samples,
        missing: format!(
            "the code of {samples} of {} samples in user mode could not be read ({}): what memory they touched is not known",
            unread.samples,
            named.join(", ")
        ),
        ..SourceState::default()
    })
}

/// Returns unresolved names as a source's note, where users look for missing data.
fn naming(notes: &[String]) -> Option<SourceState> {
    let rest = notes.len().saturating_sub(NOTES_MAX);
    let more = (rest > 0).then(|| format!("and {rest} more"));
    let missing: Vec<String> = notes.iter().take(NOTES_MAX).cloned().chain(more).collect();
    (!notes.is_empty()).then(|| SourceState {
        name: SYMBOLS.to_owned(),
        active: true,
        missing: missing.join("; "),
        ..SourceState::default()
    })
}
