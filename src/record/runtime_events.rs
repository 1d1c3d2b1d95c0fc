//! Runtime events of OCaml programs: rings are found, read while the program runs and once more at its end.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use holdup_capture::lower;
use holdup_capture::ring_files::{self, RingDirectory};
use holdup_decode::runtime_events::{ReadAt, RingError, Rings, SOURCE, Span, Tally, Version, is_ocaml};
use holdup_events::recording::SourceState;
use holdup_events::{Event, Timestamp};

use super::{process_exists, program};
use crate::cli::RuntimeEvents;

/// Minimum interval between reads of the rings.
const POLL_EVERY: Duration = Duration::from_millis(10);
/// How often new rings are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How often it is asked whose processes have ended.
const SWEEP_EVERY: Duration = Duration::from_millis(500);
/// A process's maps are asked so often for a ring: it is there before the program's first line.
const TRIES_MAX: u32 = 20;
/// Maximum number of words of a command line that are checked, and the maximum file size (bytes).
const WORDS_MAX: usize = 16;
const BINARY_MAX: u64 = 512 << 20;
/// Events written during a read must not count as future timestamps.
const AHEAD: holdup_events::Duration = holdup_events::Duration(1_000_000_000);

/// A ring file, read by syscalls: if it is truncated at the same time, the recorder must not be killed by
/// SIGBUS.
struct RingFile(File);

impl ReadAt for RingFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> usize {
        let mut read = 0;
        while let Some(rest) = into.get_mut(read..).filter(|rest| !rest.is_empty()) {
            match self.0.read_at(rest, offset.saturating_add(read as u64)) {
                Ok(count) if count > 0 => read += count,
                _ => break,
            }
        }
        read
    }
}

/// Returns a directory for rings if the command, or a word of it, is an OCaml 5 program.
pub fn prepare(command: &[OsString], choice: RuntimeEvents) -> Option<RingDirectory> {
    let wanted = match choice {
        RuntimeEvents::Always => true,
        RuntimeEvents::Never => false,
        RuntimeEvents::Auto => names_ocaml(command),
    };
    wanted.then(RingDirectory::make)?.ok()
}

/// Whether one of the words, or of the words in them, is the name of an OCaml program.
fn names_ocaml(command: &[OsString]) -> bool {
    let inner = |word: &OsString| -> Vec<OsString> {
        let text = word.to_string_lossy();
        let parts = text.split([' ', '\t', '\n', ';', '&', '|', '(', ')']).filter(|part| !part.is_empty());
        parts.map(OsString::from).collect()
    };
    let words = command.iter().flat_map(|word| [vec![word.clone()], inner(word)].concat());
    let files: BTreeSet<PathBuf> = words.take(WORDS_MAX).filter_map(|word| program::find(&word)).collect();
    files.iter().any(|file| is_ocaml_program(file, true))
}

fn is_ocaml_program(path: &Path, follow: bool) -> bool {
    let Some(bytes) = map(path) else { return false };
    match bytes.strip_prefix(b"#!") {
        Some(rest) if follow => {
            let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
            let line = String::from_utf8_lossy(line.get(..256).unwrap_or(line)).into_owned();
            line.split_ascii_whitespace()
                .filter_map(|word| program::find(OsStr::new(word)))
                .any(|file| is_ocaml_program(&file, false))
        }
        Some(_) => false,
        None => is_ocaml(&bytes),
    }
}

/// The bytes of a binary or script, as the file system has them.
fn map(path: &Path) -> Option<memmap2::Mmap> {
    let file = File::open(path).ok()?;
    if !file.metadata().is_ok_and(|file| file.is_file() && file.len() <= BINARY_MAX) {
        return None;
    }
    super::shrunk::read_as_zeros();
    // SAFETY: the bytes are only read, as untrusted input. If the file is truncated, they turn to zeros.
    unsafe { memmap2::Mmap::map(&file) }.ok()
}

/// Reads the rings of a recording's processes.
pub struct RingFeed {
    directory: Option<Rc<RingDirectory>>,
    /// Skip events from before the recording.
    attached: bool,
    from: Timestamp,
    rings: BTreeMap<u32, Rings<RingFile>>,
    /// Sums of rings whose processes have ended.
    ended: Tally,
    any_ended: bool,
    /// Files that are of another format.
    refused: BTreeMap<u32, String>,
    tries: BTreeMap<u32, u32>,
    looked: Instant,
    swept: Instant,
    polled: Instant,
}

impl RingFeed {
    /// For programs that write their rings to `directory`, or to a place that their users chose.
    pub fn new(directory: Option<Rc<RingDirectory>>, attached: bool, from: Timestamp) -> RingFeed {
        let now = Instant::now();
        RingFeed {
            directory,
            attached,
            from,
            rings: BTreeMap::new(),
            ended: Tally::default(),
            any_ended: false,
            refused: BTreeMap::new(),
            tries: BTreeMap::new(),
            looked: now,
            swept: now,
            polled: now,
        }
    }

    /// Sets the start of the recording. Earlier events are dropped.
    pub fn begin(&mut self, from: Timestamp) {
        self.from = from;
    }

    /// Reads new events if a read is due.
    pub fn step(&mut self, processes: &BTreeSet<u32>, sink: &mut dyn FnMut(Event)) {
        if self.looked.elapsed() >= LOOK_EVERY {
            self.look(processes);
            self.looked = Instant::now();
        }
        if self.polled.elapsed() >= POLL_EVERY && !self.rings.is_empty() {
            self.poll(lower::now() + AHEAD, sink);
            self.polled = Instant::now();
        }
        if self.swept.elapsed() >= SWEEP_EVERY {
            self.sweep(processes, sink);
            self.swept = Instant::now();
        }
    }

    /// Reads the rest of the rings of ended processes and removes their files, which frees space. Without
    /// space for its ring, a program is killed.
    fn sweep(&mut self, processes: &BTreeSet<u32>, sink: &mut dyn FnMut(Event)) {
        self.tries.retain(|pid, _| processes.contains(pid));
        // In a namespace of their own processes have other numbers for themselves than we have for them.
        let has_ended = |pid: &u32| processes.contains(pid) && !process_exists(*pid);
        let ended: Vec<u32> = self.rings.keys().copied().filter(has_ended).collect();
        let span = Span { from: self.from, until: lower::now() + AHEAD };
        for pid in ended {
            if self.directory.as_ref().is_some_and(|directory| !directory.remove(pid)) {
                continue;
            }
            let Some(mut rings) = self.rings.remove(&pid) else { continue };
            rings.poll(span, sink);
            let tally = rings.tally();
            self.ended.events += tally.events;
            self.ended.words_lost += tally.words_lost;
            self.ended.broken += tally.broken;
            self.any_ended = true;
        }
    }

    /// Returns the fraction of the fullest ring (0 to 1) that was filled between the last two reads. `None`
    /// without rings.
    pub fn fill(&self) -> Option<f64> {
        self.rings.values().map(|rings| rings.filled()).reduce(f64::max)
    }

    fn poll(&mut self, until: Timestamp, sink: &mut dyn FnMut(Event)) {
        let span = Span { from: self.from, until };
        for rings in self.rings.values_mut() {
            rings.poll(span, sink);
        }
    }

    fn look(&mut self, processes: &BTreeSet<u32>) {
        for (pid, path) in self.directory.iter().flat_map(|directory| directory.files()).collect::<Vec<_>>() {
            if !self.rings.contains_key(&pid) && !self.refused.contains_key(&pid) {
                self.open(pid, &path);
            }
        }
        // Programs may write rings without holdup's request.
        for pid in processes {
            let tries = self.tries.entry(*pid).or_default();
            if *tries >= TRIES_MAX || self.rings.contains_key(pid) {
                continue;
            }
            match ring_files::mapped(*pid) {
                Ok(Some((_, path))) => {
                    *tries += 1;
                    self.open(*pid, &path);
                }
                Ok(None) => *tries += 1,
                // The process has exited, or may not be inspected.
                Err(_) => *tries = TRIES_MAX,
            }
        }
    }

    fn open(&mut self, pid: u32, path: &Path) {
        let Ok(file) = ring_files::open(path) else { return };
        let version =
            map(Path::new(&format!("/proc/{pid}/exe"))).and_then(|bytes| Version::of_binary(&bytes));
        match Rings::open(RingFile(file), pid, version) {
            Ok(mut rings) => {
                if self.attached {
                    rings.skip_before(self.from);
                }
                self.rings.insert(pid, rings);
            }
            Err(RingError::NotYet) => {}
            Err(error) => {
                self.refused.insert(pid, error.to_string());
            }
        }
    }

    /// Reads the events up to the end of the recording, and removes the directory. Returns the state of the
    /// source. `None` if rings were neither requested nor found.
    pub fn finish(
        &mut self,
        (processes, until): (&BTreeSet<u32>, Timestamp),
        sink: &mut dyn FnMut(Event),
    ) -> Option<SourceState> {
        self.look(processes);
        self.poll(until, sink);
        if let Some(directory) = &self.directory
            && processes.iter().any(|pid| process_exists(*pid))
        {
            directory.keep();
        }
        let asked = self.directory.take().is_some();
        let any = self.any_ended || !self.rings.is_empty();
        if !asked && !any && self.refused.is_empty() {
            return None;
        }
        let sum = |field: fn(Tally) -> u64| {
            self.rings.values().map(|rings| field(rings.tally())).sum::<u64>() + field(self.ended)
        };
        let words_lost = sum(|tally| tally.words_lost);
        let mut missing = Vec::new();
        if !any && self.refused.is_empty() {
            missing.push("no program made a ring".to_owned());
        }
        if words_lost > 0 {
            missing.push(format!(
                "{words_lost} words of rings were overwritten before they were read; larger rings: OCAMLRUNPARAM=e=20"
            ));
        }
        missing.extend(self.refused.iter().map(|(pid, why)| format!("process {pid}: {why}")));
        Some(SourceState {
            name: SOURCE.to_owned(),
            active: any,
            missing: missing.join("; "),
            events: sum(|tally| tally.events),
            lost: sum(|tally| tally.broken),
        })
    }
}
