//! Code that runtimes generated, read from the memory of living processes. It is in no file, and is lost when
//! the process exits.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use holdup_capture::process_memory;
use holdup_decode::accesses::GeneratedCode;

/// Size of a read (bytes), a power of two.
const PIECE_BYTES: u64 = 4096;
/// Maximum number of pieces of all processes, including earlier versions (16 MiB). Beyond it, the half that
/// was read longest ago is dropped.
const PIECES_MAX: usize = 4096;
/// A piece that is still sampled is read again after so long: runtimes put other code in its place.
const READ_EVERY: Duration = Duration::from_secs(1);
/// A piece with this number of versions is not used.
const VERSIONS_MAX: usize = 8;
/// Maximum number of recorded places per piece.
const PLACES_MAX: usize = 512;

/// The versions of code at an address.
struct Piece {
    read: Instant,
    versions: Vec<Vec<u8>>,
    /// Instruction pointers at which threads were seen, and the index into `versions` at that time.
    places: HashMap<u64, usize>,
}

impl Piece {
    fn is_steady(&self) -> bool {
        self.versions.len() < VERSIONS_MAX
    }

    /// Whether the last read is long ago, or a thread was seen at a new place since.
    fn is_old(&self, ip: u64, now: Instant) -> bool {
        let is_new = !self.places.contains_key(&ip) && self.places.len() < PLACES_MAX;
        self.is_steady() && (is_new || now - self.read >= READ_EVERY)
    }
}

/// By process and address.
#[derive(Default)]
struct Pieces {
    all: HashMap<(u32, u64), Piece>,
    versions: usize,
}

impl Pieces {
    fn forget_half(&mut self) {
        let mut read: Vec<Instant> = self.all.values().map(|piece| piece.read).collect();
        let (_, middle, _) = read.select_nth_unstable(self.all.len() / 2);
        let middle = *middle;
        self.all.retain(|_, piece| piece.read > middle);
        self.versions = self.all.values().map(|piece| piece.versions.len()).sum();
    }
}

/// The pieces, shared between the thread that reads them and later queries.
#[derive(Clone, Default)]
pub struct CodeKept(Arc<Mutex<Pieces>>);

impl CodeKept {
    /// A thread of process `tgid` was seen at `ip`, in executable memory from `start` to `end` that no file holds. Why the code there
    /// could not be read, if it could not.
    pub fn note(&self, tgid: u32, ip: u64, (start, end): (u64, u64)) -> io::Result<()> {
        let mut pieces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        for address in around(ip).filter(|address| *address < end && *address + PIECE_BYTES > start) {
            let is_wanted = pieces.all.get(&(tgid, address)).is_none_or(|piece| piece.is_old(ip, now));
            if !is_wanted {
                continue;
            }
            if pieces.versions >= PIECES_MAX {
                pieces.forget_half();
            }
            let (from, until) = (address.max(start), (address + PIECE_BYTES).min(end));
            let bytes = read(tgid, (address, from, until))?;
            let empty = || Piece { read: now, versions: Vec::new(), places: HashMap::new() };
            let Pieces { all, versions } = &mut *pieces;
            let piece = all.entry((tgid, address)).or_insert_with(empty);
            piece.read = now;
            if piece.versions.last() != Some(&bytes) {
                piece.versions.push(bytes);
                *versions += 1;
            }
            let last = piece.versions.len() - 1;
            piece.places.entry(ip).or_insert(last);
        }
        Ok(())
    }

    /// Returns the versions of the code around an address since a thread was first seen there.
    pub fn around(&self, tgid: u32, ip: u64) -> Vec<GeneratedCode> {
        let pieces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known: Vec<(u64, &Piece)> =
            around(ip).filter_map(|at| Some((at, pieces.all.get(&(tgid, at))?))).collect();
        let first = |piece: &Piece| piece.places.get(&ip).copied();
        let turns = |piece: &Piece| Some(piece.versions.len() - first(piece)?);
        match known.iter().all(|(_, piece)| piece.is_steady() && first(piece).is_some()) {
            true => {
                let most = known.iter().filter_map(|(_, piece)| turns(piece)).max().unwrap_or(0);
                (0..most).map(|turn| joined(&known, ip, turn)).collect()
            }
            false => Vec::new(),
        }
    }
}

/// The piece that holds an address, and its neighbours.
fn around(ip: u64) -> impl Iterator<Item = u64> {
    let middle = ip & !(PIECE_BYTES - 1);
    [middle.checked_sub(PIECE_BYTES), Some(middle), middle.checked_add(PIECE_BYTES)].into_iter().flatten()
}

/// Reads the piece at `address`. Only `from` to `until` is readable memory, the rest is zeros.
fn read(tgid: u32, (address, from, until): (u64, u64, u64)) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; PIECE_BYTES as usize];
    let inside = (from - address) as usize..(until - address) as usize;
    process_memory::read(tgid, from, bytes.get_mut(inside).unwrap_or_default())?;
    Ok(bytes)
}

/// Joins adjacent pieces, each in its version `turn` since a thread was first seen at `ip`, or in its last
/// version.
fn joined(known: &[(u64, &Piece)], ip: u64, turn: usize) -> GeneratedCode {
    let version = |piece: &Piece| {
        let first = piece.places.get(&ip).copied().unwrap_or(0);
        piece.versions.get(first + turn).or(piece.versions.last()).cloned().unwrap_or_default()
    };
    let start = known.first().map_or(0, |(address, _)| *address);
    GeneratedCode { start, bytes: known.iter().flat_map(|(_, piece)| version(piece)).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two pages of this process whose bytes can be changed.
    struct Pages(Vec<u8>);

    impl Pages {
        fn new() -> Pages {
            Pages(vec![0x90; 4 * PIECE_BYTES as usize])
        }

        fn start(&self) -> u64 {
            (self.0.as_ptr() as u64).next_multiple_of(PIECE_BYTES)
        }

        fn set(&mut self, address: u64, byte: u8) {
            let into = (address - self.0.as_ptr() as u64) as usize;
            self.0[into] = byte;
            // Another thread reads the bytes, which the compiler cannot see.
            std::hint::black_box(&self.0);
        }

        fn note(&self, kept: &CodeKept, ip: u64) {
            kept.note(std::process::id(), ip, (self.start(), self.start() + 2 * PIECE_BYTES)).unwrap();
        }
    }

    #[test]
    fn code_is_what_was_there_since_a_thread_came_by() {
        let (mut pages, kept) = (Pages::new(), CodeKept::default());
        let (own, start) = (std::process::id(), pages.start());
        pages.note(&kept, start + 100);
        // Other code is written next to it before a thread runs there.
        pages.set(start + 2000, 0xc3);
        pages.note(&kept, start + 2000);
        let [before, after] = <[GeneratedCode; 2]>::try_from(kept.around(own, start + 100)).unwrap();
        assert_eq!((before.start, before.bytes.len()), (start, 2 * PIECE_BYTES as usize));
        assert_eq!((before.bytes[2000], after.bytes[2000]), (0x90, 0xc3));
        let [only] = <[GeneratedCode; 1]>::try_from(kept.around(own, start + 2000)).unwrap();
        assert_eq!(only.bytes[2000], 0xc3);
        assert!(kept.around(own, start + 300).is_empty(), "nobody was seen there");
        assert!(kept.around(own + 1, start + 100).is_empty(), "another process");
    }

    #[test]
    fn constantly_changing_code_is_not_kept() {
        let (mut pages, kept) = (Pages::new(), CodeKept::default());
        let start = pages.start();
        for turn in 0..2 * VERSIONS_MAX as u64 {
            pages.set(start, turn as u8);
            pages.note(&kept, start + turn);
        }
        assert!(kept.around(std::process::id(), start).is_empty());
        assert_eq!(kept.0.lock().unwrap().all[&(std::process::id(), start)].versions.len(), VERSIONS_MAX);
    }

    #[test]
    fn memory_is_bounded() {
        let kept = CodeKept::default();
        let own = vec![0x90u8; (PIECES_MAX + 100) * PIECE_BYTES as usize];
        let bounds = (own.as_ptr() as u64, own.as_ptr() as u64 + own.len() as u64);
        let places: Vec<u64> = (bounds.0..bounds.1).step_by(PIECE_BYTES as usize).collect();
        places.iter().for_each(|ip| kept.note(std::process::id(), *ip, bounds).unwrap());
        assert!(kept.0.lock().unwrap().versions <= PIECES_MAX);
        assert!(kept.around(std::process::id(), bounds.0).is_empty(), "it was read longest ago");
        assert!(!kept.around(std::process::id(), places[places.len() - 1]).is_empty());
    }

    #[test]
    fn memory_that_cannot_be_read_is_an_error() {
        let kept = CodeKept::default();
        assert!(kept.note(std::process::id(), 0x1000, (0x1000, 0x2000)).is_err());
        assert!(kept.note(u32::MAX, 0x1000, (0x1000, 0x2000)).is_err());
    }
}
