//! From the journal to the tables of a finished recording.

use std::path::Path;

use anyhow::Result;
use holdup_decode::reorder::{HORIZON, Reorder};
use holdup_decode::symbols::{Files, Symbols};
use holdup_decode::unwind::walk_raw_stacks;
use holdup_decode::{Builder, Catalogue};
use holdup_events::recording::{JournalReader, Manifest, RecordingWriter, Rung, SmallTables};
use holdup_events::{Event, Loss, Timestamp};

/// Makes the tables of the recording in `dir` from its journal, and completes it with `manifest`. What the journal
/// had no room for is a loss behind its last event. If it fails, only the journal is there.
pub fn finish(dir: &Path, manifest: &mut Manifest, dropped: Option<Loss>) -> Result<()> {
    let made = make_tables(dir, dir, manifest, dropped);
    if made.is_err() {
        let names = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
        for path in names.filter(|path| path.extension().is_some_and(|extension| extension == "parquet")) {
            let _ = std::fs::remove_file(path);
        }
    }
    made
}

/// From the journal in `from` to a recording in `to`.
pub fn make_tables(from: &Path, to: &Path, manifest: &mut Manifest, dropped: Option<Loss>) -> Result<()> {
    let reader = JournalReader::open(from)?;
    let mut tables = RecordingWriter::create(to)?;
    let mut catalogue = build(reader.chain(dropped.map(Event::Loss)), manifest, &mut tables);
    manifest.cost.switches = manifest.cost.switches.max(catalogue.switches);
    complete(tables, &mut catalogue, manifest)
}

/// Makes a recording of the journal that a recorder left behind in `from`, in the directory `to`.
pub fn recover(from: &Path, to: &Path) -> Result<()> {
    let reader = JournalReader::open(from)?;
    let mut manifest = reader.manifest().cloned().unwrap_or_default();
    manifest.recovered = true;
    // The journal does not know when the recorder died: the last event is the end.
    manifest.end_ns = JournalReader::open(from)?
        .filter(|event| !matches!(event, Event::Loss(_)))
        .map(|event| event.at().0)
        .max()
        .unwrap_or(manifest.start_ns)
        .max(manifest.start_ns);
    let mut tables = RecordingWriter::create(to)?;
    let mut catalogue = build(reader, &manifest, &mut tables);
    manifest.cost.switches = catalogue.switches;
    complete(tables, &mut catalogue, &mut manifest)
}

fn build(
    events: impl Iterator<Item = Event>,
    manifest: &Manifest,
    tables: &mut RecordingWriter,
) -> Catalogue {
    let mut builder = Builder::new(Timestamp(manifest.start_ns), manifest.rung == Rung::Proc);
    let mut order = Reorder::new(HORIZON);
    for event in events {
        order.push(event, &mut |event| builder.push(event, tables));
    }
    order.finish(&mut |event| builder.push(event, tables));
    builder.finish(Timestamp(manifest.end_ns), tables)
}

fn complete(tables: RecordingWriter, catalogue: &mut Catalogue, manifest: &mut Manifest) -> Result<()> {
    let kallsyms = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    walk_raw_stacks(catalogue, &OwnFiles, holdup_capture::mappings::own_vdso().as_deref());
    let (stacks, frames) = Symbols::new(&OwnFiles, &kallsyms).resolve(catalogue);
    let small = SmallTables {
        processes: &catalogue.processes,
        threads: &catalogue.threads,
        waits: &catalogue.waits,
        stacks: &stacks,
        frames: &frames,
        mappings: &catalogue.mappings,
        losses: &catalogue.losses,
    };
    tables.finish(&small, manifest)?;
    Ok(())
}

/// Files of this machine, through the process's own root while it lives.
struct OwnFiles;

impl Files for OwnFiles {
    fn read(&self, pid: u32, path: &str) -> Option<Vec<u8>> {
        if !path.starts_with('/') {
            return None;
        }
        std::fs::read(format!("/proc/{pid}/root{path}")).or_else(|_| std::fs::read(path)).ok()
    }

    fn read_debug(&self, build_id: &[u8]) -> Option<Vec<u8>> {
        let hex: String = build_id.iter().map(|byte| format!("{byte:02x}")).collect();
        let (head, tail) = hex.split_at_checked(2)?;
        std::fs::read(format!("/usr/lib/debug/.build-id/{head}/{tail}.debug")).ok()
    }
}
