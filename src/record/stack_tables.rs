//! Unwind tables for the mapped binaries of the recorded processes. They are compiled during the recording
//! and passed to the BPF programs. Without a table, stacks through a binary follow frame pointers.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use holdup_capture::bpf::{MappedRows, ROWS_PENDING, UnwindTables};
use holdup_capture::lower::procfs;
use holdup_capture::mappings::{own_vdso, read_maps};
use holdup_capture::privileges;
use holdup_decode::symbols::is_jitdump;
use holdup_decode::unwind::{Row, Segment, Table, build_id, kept, needed};
use holdup_events::event::RawMapping;
use object::{ReadCache, ReadRef};

use super::disk_cache::DiskCache;
use super::files::{self, living};
use super::roots::KeptFile;

/// Makes tables in a thread of its own: a big binary takes a tenth of a second.
pub struct StackTables {
    sender: Option<Sender<Work>>,
    worker: Option<JoinHandle<Maker>>,
    kept: Kept,
}

/// Files that were mapped: should they be replaced before they are named.
type Kept = Arc<Mutex<Vec<KeptFile>>>;

enum Work {
    /// A process and all that it maps now.
    Process(u32, Vec<RawMapping>),
    /// A program that will be run.
    Program(PathBuf),
    /// Answer when everything before is done.
    Flush(Sender<()>),
}

impl StackTables {
    /// Starts the maker, with what nearly every program maps: the C library, its loader, the vdso.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(tables: UnwindTables) -> io::Result<StackTables> {
        let (sender, receiver) = channel();
        let cache = DiskCache::own("binaries");
        let kept = Kept::default();
        let mut maker = Maker {
            tables,
            cache,
            binaries: HashMap::new(),
            problems: Vec::new(),
            kept: kept.clone(),
            lends: false,
        };
        let worker = std::thread::Builder::new().spawn(move || {
            privileges::restore_priority();
            maker.warm_up();
            maker.work(&receiver);
            maker
        })?;
        Ok(StackTables { sender: Some(sender), worker: Some(worker), kept })
    }

    /// Updates the mappings of a process.
    pub fn process(&self, tgid: u32, mappings: Vec<RawMapping>) {
        if let Some(sender) = &self.sender {
            let _ = sender.send(Work::Process(tgid, mappings));
        }
    }

    /// Makes the tables of a program that is about to run, and of its needed libraries, so that they exist at
    /// its first instruction.
    pub fn expect(&self, command: &OsStr) {
        if let Some(sender) = &self.sender
            && let Some(path) = super::program::find(command)
        {
            let _ = sender.send(Work::Program(path));
        }
    }

    /// Waits until all previous requests are processed.
    pub fn flush(&self) {
        let (done, wait) = channel();
        if let Some(sender) = &self.sender
            && sender.send(Work::Flush(done)).is_ok()
        {
            let _ = wait.recv();
        }
    }

    /// The files that it has seen mapped so far.
    pub fn kept(&self) -> Vec<KeptFile> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends the worker. Returns the tables that failed, with the reasons, and the files that it saw mapped.
    pub fn finish(mut self) -> (Vec<String>, Vec<KeptFile>) {
        self.sender = None;
        let maker = self.worker.take().and_then(|worker| worker.join().ok());
        (maker.map_or_else(Vec::new, |maker| maker.problems), self.kept())
    }
}

/// No more files are kept open.
const KEPT_MAX: usize = 128;

/// No more binaries are made ready for a program that has not started.
const EXPECTED_MAX: usize = 100;

/// Where the loader finds a library, most often.
fn find_library(name: &str) -> Option<PathBuf> {
    const FOLDERS: [&str; 6] =
        ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"];
    let own = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let folders = std::env::split_paths(&own).chain(FOLDERS.iter().map(PathBuf::from));
    folders.map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// Identity of a binary.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Identity {
    BuildId(Vec<u8>),
    File { path: String, device: u64, inode: u64, modified_s: i64 },
    Vdso,
}

/// A binary whose rows are in the kernel.
#[derive(Clone, Debug)]
struct Binary {
    segments: Vec<Segment>,
    base: u64,
    first_row: u32,
    rows: u32,
    /// [`Table::lent`], in the form of the BPF programs. 0 for none.
    lent: u64,
}

struct Maker {
    tables: UnwindTables,
    cache: Option<DiskCache>,
    binaries: HashMap<Identity, Option<Binary>>,
    problems: Vec<String>,
    kept: Kept,
    /// Any of the binaries lends frames.
    lends: bool,
}

impl Maker {
    fn warm_up(&mut self) {
        let own = std::process::id();
        for mapping in read_maps(own) {
            self.rows_of(own, &mapping);
        }
    }

    fn work(&mut self, receiver: &Receiver<Work>) {
        while let Ok(work) = receiver.recv() {
            match work {
                Work::Process(tgid, mappings) if mappings.is_empty() => self.tables.forget(tgid),
                Work::Process(tgid, mappings) => self.process(tgid, &mappings),
                Work::Program(path) => self.expect(&path),
                Work::Flush(done) => {
                    let _ = done.send(());
                }
            }
        }
    }

    /// Predicts the files that the loader will map. A wrong prediction only costs time.
    fn expect(&mut self, program: &Path) {
        let mut open = vec![program.to_owned()];
        let mut seen = BTreeSet::new();
        while let Some(path) = open.pop() {
            if seen.len() >= EXPECTED_MAX || !seen.insert(path.clone()) {
                continue;
            }
            let Some(file) = files::open(&path) else { continue };
            let kept = file.try_clone();
            let bytes = ReadCache::new(file);
            let libraries = needed(&bytes);
            open.extend(libraries.iter().filter_map(|name| find_library(name)));
            let build_id = build_id(&bytes);
            let known = Identity::BuildId(build_id.clone());
            if build_id.is_empty() || self.binaries.contains_key(&known) {
                continue;
            }
            self.keep(&path.to_string_lossy(), build_id, kept);
            if let Ok(table) = compile(&bytes, self.cache.as_ref()) {
                self.add(&path.to_string_lossy(), table);
            }
        }
    }

    /// Uses the known tables first, and makes the missing ones afterwards. Otherwise a big program would have
    /// no unwinding until the tables of all its libraries exist.
    fn process(&mut self, tgid: u32, mappings: &[RawMapping]) {
        let mut pending = false;
        let known = mappings.iter().map(|mapping| match self.known(tgid, mapping) {
            Some(rows) => rows,
            None => {
                pending = true;
                MappedRows {
                    start: mapping.start,
                    end: mapping.end,
                    rows: ROWS_PENDING,
                    ..MappedRows::default()
                }
            }
        });
        let known: Vec<MappedRows> = known.collect();
        self.update_process(tgid, mappings, &known);
        if pending {
            let all: Vec<MappedRows> = mappings.iter().map(|mapping| self.rows_of(tgid, mapping)).collect();
            self.update_process(tgid, mappings, &all);
        }
    }

    /// Returns the known rows of a mapping, without compiling a table.
    fn known(&self, tgid: u32, mapping: &RawMapping) -> Option<MappedRows> {
        match identify(tgid, mapping) {
            None => Some(bare(mapping)),
            Some(identity) => self.binaries.get(&identity).map(|binary| mapped(mapping, binary.as_ref())),
        }
    }

    fn update_process(&mut self, tgid: u32, mappings: &[RawMapping], mapped: &[MappedRows]) {
        match self.tables.set_process(tgid, mapped, self.lent(tgid, mappings)) {
            Ok(true) => {}
            Ok(false) => {
                self.problem(format!("process {tgid} has more executable mappings than are followed"));
            }
            Err(error) => self.problem(format!("process {tgid}: {error}")),
        }
    }

    /// Returns the frame on which code without rows may run in this process. 0 for none.
    fn lent(&self, tgid: u32, mappings: &[RawMapping]) -> u64 {
        if !self.lends {
            return 0;
        }
        let binary = |mapping| self.binaries.get(&identify(tgid, mapping)?)?.as_ref();
        mappings.iter().filter_map(binary).map(|binary| binary.lent).find(|lent| *lent != 0).unwrap_or(0)
    }

    fn rows_of(&mut self, tgid: u32, mapping: &RawMapping) -> MappedRows {
        mapped(mapping, self.binary(tgid, mapping).as_ref())
    }

    fn binary(&mut self, tgid: u32, mapping: &RawMapping) -> Option<Binary> {
        let identity = identify(tgid, mapping)?;
        if let Some(known) = self.binaries.get(&identity) {
            return known.clone();
        }
        let found = match &identity {
            Identity::Vdso => table_of_vdso(),
            _ => self.table_of(&identity, &places(tgid, mapping), &mapping.path),
        };
        let binary = match found {
            Ok(table) => self.add(&mapping.path, table),
            Err(reason) => {
                self.problem(format!("{}: {reason}", mapping.path));
                None
            }
        };
        self.binaries.insert(identity, binary.clone());
        binary
    }

    /// The first file with the identity of the mapped one.
    fn table_of(&mut self, identity: &Identity, places: &[PathBuf], path: &str) -> Result<Table, String> {
        let mut reason = "there is no such file".to_owned();
        for place in places {
            let file = match files::open_regular(place) {
                Ok(file) => file,
                Err(error) => {
                    reason = error.to_string();
                    continue;
                }
            };
            let kept = file.try_clone();
            let bytes = ReadCache::new(file);
            let build_id = build_id(&bytes);
            if matches!(identity, Identity::BuildId(mapped) if *mapped != build_id) {
                reason = "the file was replaced after it was mapped (another build id)".to_owned();
                continue;
            }
            self.keep(path, build_id, kept);
            return compile(&bytes, self.cache.as_ref());
        }
        Err(reason)
    }

    fn keep(&mut self, path: &str, build_id: Vec<u8>, file: std::io::Result<File>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(file) = file
            && kept.len() < KEPT_MAX
        {
            kept.push(KeptFile { path: path.to_owned(), build_id, file: Arc::new(file) });
        }
    }

    fn add(&mut self, path: &str, table: Table) -> Option<Binary> {
        let rows = u32::try_from(table.rows.len()).ok()?;
        let Some(first_row) = self.tables.add_rows(table.rows.iter().map(|row| row.pack())) else {
            self.problem(format!("{path}: no room left for its {rows} rows"));
            return None;
        };
        let lent = table.lent().map_or(0, Row::pack);
        self.lends |= lent != 0;
        let binary = Binary { segments: table.segments, base: table.base, first_row, rows, lent };
        if !table.build_id.is_empty() {
            // The same file may be met with its build id and without it.
            self.binaries.insert(Identity::BuildId(table.build_id), Some(binary.clone()));
        }
        Some(binary)
    }

    fn problem(&mut self, what: String) {
        const KEPT: usize = 20;
        if self.problems.len() < KEPT && !self.problems.contains(&what) {
            self.problems.push(what);
        }
    }
}

fn bare(mapping: &RawMapping) -> MappedRows {
    MappedRows { start: mapping.start, end: mapping.end, ..MappedRows::default() }
}

/// Returns the rows of a mapping of `binary`. Without a binary, only its bounds.
fn mapped(mapping: &RawMapping, binary: Option<&Binary>) -> MappedRows {
    let bare = bare(mapping);
    let Some(binary) = binary else { return bare };
    let length = mapping.end.saturating_sub(mapping.start);
    match Table::base_of(&binary.segments, binary.base, (mapping.start, length, mapping.file_offset)) {
        Some(base) => MappedRows { base, first_row: binary.first_row, rows: binary.rows, ..bare },
        None => bare,
    }
}

/// Returns the paths of a mapping's file, the most reliable first. The file at the mapped path may have been
/// replaced.
pub(super) fn places(tgid: u32, mapping: &RawMapping) -> Vec<PathBuf> {
    let mut places = living(tgid, (mapping.start, mapping.end), &mapping.path);
    places.push(PathBuf::from(format!("/proc/{}/root{}", procfs::shown_as(tgid), mapping.path)));
    places
}

/// `None` for code that is in no file: a just-in-time compiler's.
pub(super) fn identify(tgid: u32, mapping: &RawMapping) -> Option<Identity> {
    if mapping.path == "[vdso]" {
        return Some(Identity::Vdso);
    }
    if !mapping.path.starts_with('/') || mapping.path.starts_with("/memfd:") || is_jitdump(&mapping.path) {
        return None;
    }
    if !mapping.build_id.is_empty() {
        return Some(Identity::BuildId(mapping.build_id.clone()));
    }
    let about = places(tgid, mapping).iter().find_map(|place| std::fs::metadata(place).ok())?;
    Some(Identity::File {
        path: mapping.path.clone(),
        device: about.dev(),
        inode: about.ino(),
        modified_s: about.mtime(),
    })
}

fn table_of_vdso() -> Result<Table, String> {
    let vdso = own_vdso().ok_or("it cannot be read")?;
    Table::compile(vdso.as_slice()).map_err(|error| error.to_string())
}

/// The table that was made before, else makes and keeps it.
fn compile<'a, R: ReadRef<'a>>(bytes: R, cache: Option<&DiskCache>) -> Result<Table, String> {
    let id = build_id(bytes);
    let key = kept::key(&id);
    let place = cache.zip(key.as_deref());
    if let Some(table) = place.and_then(|(cache, key)| kept::decode(&cache.read(key)?, &id)) {
        return Ok(table);
    }
    let table = Table::compile(bytes).map_err(|error| error.to_string())?;
    if let (Some((cache, key)), Some(encoded)) = (place, kept::encode(&table)) {
        cache.write(key, &encoded);
    }
    Ok(table)
}
