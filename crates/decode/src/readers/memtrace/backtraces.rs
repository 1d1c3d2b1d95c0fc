//! Backtraces. Each one continues the previous one of its domain, and refers to places by buckets of a cache.
//! The importer maintains the same cache as the writer, including the predicted successor of each bucket.

use std::collections::HashMap;

use crate::imported::Bytes;

/// Maximum length of a backtrace, which only a damaged file exceeds. The part shared with the previous one is
/// kept.
const LENGTH_MAX: usize = 1 << 16;
/// The writer had no cache to check against.
const UNCHECKED: u16 = 0xffff;

/// Data that follows a codeword of a place.
mod tag {
    /// The bucket's place alone.
    pub const HIT: u16 = 0;
    /// And the one that followed it last time.
    pub const HIT_AND_NEXT: u16 = 1;
    /// And so many that followed.
    pub const HIT_AND_MANY: u16 = 2;
}

/// State of one domain. A missing map entry is 0, as in the writer.
#[derive(Default)]
pub(super) struct Backtraces {
    places: HashMap<u16, u64>,
    next: HashMap<u16, u16>,
    /// The last one, root first.
    last: Vec<u64>,
}

/// One bucket of the writer's cache.
#[derive(Clone, Copy, Debug)]
pub(super) struct Check {
    bucket: u16,
    next: u16,
    place: u64,
}

impl Check {
    pub fn read(bytes: &mut Bytes<'_>) -> Option<Check> {
        Some(Check { bucket: bytes.u16()?, next: bytes.u16()?, place: bytes.u64()? })
    }
}

impl Backtraces {
    /// Whether nothing was missed: the cache is as the writer's was.
    pub fn agrees(&self, check: Check) -> bool {
        check.bucket == UNCHECKED
            || (self.next(check.bucket), self.place(check.bucket)) == (check.next, check.place)
    }

    /// The next backtrace, root first: the first `shared` places of the last one, then those of `words` codewords.
    pub fn read(&mut self, bytes: &mut Bytes<'_>, shared: u64, words: u16) -> Option<&[u64]> {
        // The last one may have been cut by the writer: then it is all that there is, but the cache goes on.
        let keeps = usize::try_from(shared).ok().filter(|shared| *shared <= self.last.len());
        let mut read = std::mem::take(&mut self.last);
        let kept = keeps.map_or_else(|| read.clone(), |_| Vec::new());
        read.truncate(keeps.unwrap_or(0));
        let whole = self.extend(&mut read, bytes, words);
        self.last = if keeps.is_some() { read } else { kept };
        whole.map(|()| &self.last[..])
    }

    fn extend(&mut self, read: &mut Vec<u64>, bytes: &mut Bytes<'_>, words: u16) -> Option<()> {
        let mut before = 0;
        for _ in 0..words {
            let word = bytes.u16()?;
            let bucket = word >> 2;
            self.next.insert(before, bucket);
            let more = match word & 3 {
                tag::HIT => 0,
                tag::HIT_AND_NEXT => 1,
                tag::HIT_AND_MANY => bytes.u8()?,
                _ => {
                    self.places.insert(bucket, bytes.u64()?);
                    0
                }
            };
            push(read, self.place(bucket));
            before = bucket;
            for _ in 0..more {
                before = self.next(before);
                push(read, self.place(before));
            }
        }
        Some(())
    }

    fn next(&self, bucket: u16) -> u16 {
        self.next.get(&bucket).copied().unwrap_or(0)
    }

    fn place(&self, bucket: u16) -> u64 {
        self.places.get(&bucket).copied().unwrap_or(0)
    }
}

fn push(read: &mut Vec<u64>, place: u64) {
    if read.len() < LENGTH_MAX {
        read.push(place);
    }
}
