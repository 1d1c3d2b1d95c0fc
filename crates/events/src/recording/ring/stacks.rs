//! Definitions of stacks. Who tells them tells each one once, so they outlive the segments that were there when they came. Where
//! they take too much room, they are told anew from some moment on, and those of before go with the last segment that began
//! before it: but for those with which threads still wait.
//!
//! Too much is several times what one generation told before it was the only one: samples come with ever new stacks, of which the
//! segments that are still there name few.

use std::collections::BTreeSet;

use super::Chunk;
use crate::event::RawStack;
use crate::recording::journal::Batch;
use crate::standing::{Doing, Standing};
use crate::{Event, Timestamp};

/// Less room than this is not worth it to have them told anew (bytes).
const WORTH_IT: u64 = 1 << 20;
/// Telling all anew is a small part of what is told if they are told so many times until then.
const GENERATION: u64 = 4;

/// See the module.
pub struct Definitions {
    batch: Batch,
    chunks: Vec<Chunk>,
    bytes: u64,
    /// More are too much.
    bytes_max: u64,
    /// What was told while the segments of before were still there: about what segments name (bytes).
    needed: u64,
    /// Those of before, and when they were told anew.
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

    /// Two generations at a time at the most: the next one waits until the last has gone.
    pub fn is_full(&self) -> bool {
        let enough = (self.needed * GENERATION).max(WORTH_IT).min(self.bytes_max / 2);
        self.past.is_none() && self.bytes > enough
    }

    pub fn begin_anew(&mut self, at: Timestamp) {
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
        if let Some(chunk) = Chunk::of(&mut self.batch, &mut Vec::new()) {
            self.bytes += chunk.bytes.len() as u64;
            self.chunks.push(chunk);
        }
    }
}
