//! The slices of a recording a group at a time, three columns of them, and who they are of: what a first look needs, in a
//! fraction of the time that reading all of it takes.

use std::path::Path;

use parquet::errors::Result;

use super::{Place, contained, manifest_of, packed, small};
use crate::recording::RecordingError;
use crate::tables::ThreadState;
use crate::{ThreadId, Timestamp, Trace};

/// A recording whose slices are visited, not kept.
pub struct SliceStarts<'a> {
    place: Place<'a>,
    /// Manifest, processes and threads; every other table is empty.
    pub trace: Trace,
    groups: Vec<usize>,
}

/// Where a slice begins; it lasts until the next of its thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceStart {
    /// Whose it is; may be no row of a damaged recording's threads.
    pub thread: ThreadId,
    /// When it begins.
    pub at: Timestamp,
    /// What the thread is from then on.
    pub state: ThreadState,
}

impl<'a> SliceStarts<'a> {
    /// Opens the recording at `path`.
    ///
    /// # Errors
    /// It is none, or its slices cannot be read.
    pub fn open(path: &'a Path) -> std::result::Result<SliceStarts<'a>, RecordingError> {
        let place = match path.is_dir() {
            true => Place::Directory(path),
            false => Place::Packed(packed::Packed::open(path)?),
        };
        let mut trace = Trace { manifest: manifest_of(path, &place)?, ..Trace::default() };
        let groups = contained(|| {
            small::read_threads(&place, &mut trace)?;
            Ok(place.table("slices")?.groups())
        });
        let groups = groups
            .ok_or(RecordingError::None { path: path.to_owned(), reason: "its slices cannot be read" })?;
        super::sound::make_threads_sound(&mut trace);
        Ok(SliceStarts { place, trace, groups })
    }

    /// How many groups there are: each thread's slices lie in their order, in the order of the groups.
    pub fn groups(&self) -> usize {
        self.groups.len()
    }

    /// Visits the slices of a group; `false` if it cannot be read, and then some may have been visited.
    pub fn visit(&self, group: usize, mut each: impl FnMut(SliceStart)) -> bool {
        contained(|| self.read(group, &mut each)).is_some()
    }

    fn read(&self, group: usize, each: &mut dyn FnMut(SliceStart)) -> Result<()> {
        let rows = self.groups.get(group).copied().unwrap_or(0);
        let table = self.place.table("slices")?;
        let (mut threads, mut starts, mut states) = (Vec::new(), Vec::new(), Vec::new());
        let (mut of, mut at) = (table.narrow(group, "thread")?, table.wide(group, "start_ns")?);
        let mut codes = table.narrow(group, "state")?;
        let mut left = rows;
        // By pieces that stay in the CPU's cache.
        while left > 0 {
            let count = left.min(1 << 14);
            threads.clear();
            starts.clear();
            states.clear();
            of.read(count, &mut threads)?;
            at.read(count, &mut starts)?;
            codes.read(count, &mut states)?;
            for ((thread, start), state) in threads.iter().zip(&starts).zip(&states) {
                each(SliceStart {
                    thread: ThreadId(*thread as u32),
                    at: Timestamp(*start as u64),
                    state: ThreadState::from_code(*state as u8).unwrap_or_default(),
                });
            }
            left -= count;
        }
        Ok(())
    }
}
