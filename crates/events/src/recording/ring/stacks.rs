//! Definitions of stacks. A source defines each stack once, so definitions outlive the segment in which they
//! arrived. If definitions take too much space, all stacks are defined again from some time on. Earlier
//! definitions are dropped with the last segment that began before that time. Stacks of threads that are
//! still blocked are kept.
//!
//! The limit is several times the size of the definitions made while two generations existed. Samples keep
//! adding new stacks, and the remaining segments refer to few of them.

use std::collections::BTreeSet;

use super::Chunk;
use crate::event::RawStack;
use crate::recording::journal::Batch;
use crate::standing::{Doing, Standing};
use crate::{Event, Timestamp};

/// Minimum size for which defining stacks again is worthwhile (bytes).
const WORTH_IT: u64 = 1 << 20;
/// Size limit of a generation, in multiples of `needed`. Redefinition is then a small part of all
/// definitions.
const GENERATION: u64 = 4;

/// See the module.
pub struct Definitions {
    batch: Batch,
    chunks: Vec<Chunk>,
    bytes: u64,
    /// More are too much.
    bytes_max: u64,
    /// Size of the definitions made while segments of the previous generation existed: approximately the size
    /// that the segments refer to (bytes).
    needed: u64,
    /// The previous generation, and when the current one began.
    past: Option<(Timestamp, Vec<Chunk>)>,
}

impl Definitions {
    pub fn new(bytes_max: u64) -> Definitions {
        Definitions {
            batch: Batch::default(),
            chunks: Vec::new(),
            bytes: 0,
            bytes_max,
            needed: 0,
            past: None,
        }
    }

    pub fn push(&mut self, stack: &RawStack) {
        if self.batch.push(&Event::Stack(stack.clone())) {
            self.seal();
        }
    }

    pub fn bytes(&self) -> u64 {
        let of = |chunks: &[Chunk]| chunks.iter().map(|chunk| chunk.bytes.len() as u64).sum::<u64>();
        self.bytes + self.past.as_ref().map_or(0, |(_, chunks)| of(chunks))
    }

    /// At most two generations exist: the next one starts after the previous one is dropped.
    pub fn is_full(&self) -> bool {
        let enough = (self.needed * GENERATION).max(WORTH_IT).min(self.bytes_max / 2);
        self.past.is_none() && self.bytes > enough
    }

    pub fn restart(&mut self, at: Timestamp) {
        self.seal();
        self.bytes = 0;
        self.past = Some((at, std::mem::take(&mut self.chunks)));
    }

    /// The oldest segment begins at `begin`, with what stood then.
    pub fn drop_before(&mut self, begin: Timestamp, standing: &Standing) {
        let Some((_, chunks)) = self.past.take_if(|(anew, _)| *anew < begin) else { return };
        let wanted: BTreeSet<u64> = standing
            .threads()
            .iter()
            .filter(|(_, thread)| thread.doing == Doing::Blocked && thread.wait.stack != 0)
            .map(|(_, thread)| thread.wait.stack)
            .collect();
        self.seal();
        self.needed = self.bytes;
        for event in chunks.iter().flat_map(Chunk::events) {
            if let Event::Stack(stack) = event
                && wanted.contains(&stack.id)
            {
                self.push(&stack);
            }
        }
    }

    pub fn cut(&mut self) -> Vec<Chunk> {
        self.seal();
        let past = self.past.iter().flat_map(|(_, chunks)| chunks);
        past.chain(&self.chunks).cloned().collect()
    }

    fn seal(&mut self) {
        if let Some(chunk) = Chunk::take_from(&mut self.batch, &mut Vec::new()) {
            self.bytes += chunk.bytes.len() as u64;
            self.chunks.push(chunk);
        }
    }
}
