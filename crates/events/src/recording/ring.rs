//! Memory of a flight recorder: the newest events in the journal's encoding, bounded by time and by bytes.
//! Events are compressed only when saved. Compression in memory would save a fifth of the space, but most
//! events are never saved.
//!
//! The ring consists of segments. Each segment starts with the state at its beginning ([`Standing`]), so it
//! needs no earlier events. The oldest segment is dropped as a whole. A stack is defined once, however often
//! events refer to it. Its definition is therefore also kept outside the segments ([`stacks`]).

mod cut;
mod named;
mod stacks;

use std::collections::VecDeque;
use std::sync::Arc;

pub use cut::Cut;
pub use named::named_stacks;
use stacks::Definitions;

use super::codec::Decoder;
use super::journal::{Batch, Content};
use crate::standing::Standing;
use crate::{Duration, Event, Timestamp};

/// Number of segments in the requested time or space. The ring holds up to one more.
const SEGMENTS: u64 = 8;
/// Chunks that were dropped whose memory is kept for those that come.
const SPARE_MAX: usize = 32;

/// How much is kept.
#[derive(Clone, Copy, Debug)]
pub struct Keep {
    /// At least so long, if `bytes` allow it.
    pub time: Duration,
    /// Chunks of no more than this together, of events and of stacks.
    pub bytes: u64,
}

/// Encoded events, shared with a save in progress.
#[derive(Clone, Debug)]
pub(super) struct Chunk {
    pub bytes: Arc<Vec<u8>>,
    pub content: Content,
}

impl Chunk {
    /// Takes the content of `batch`, if any, with its buffer, and replaces the buffer by one of `spare`.
    /// Reused memory avoids page faults.
    fn take_from(batch: &mut Batch, spare: &mut Vec<Vec<u8>>) -> Option<Chunk> {
        batch.take(|bytes, content| {
            let is_full = bytes.len() * 2 >= bytes.capacity();
            let kept = if is_full {
                std::mem::replace(bytes, spare.pop().unwrap_or_default())
            } else {
                bytes.clone()
            };
            Chunk { bytes: Arc::new(kept), content }
        })
    }

    fn events(&self) -> impl Iterator<Item = Event> {
        Decoder::new(&self.bytes).map_while(Result::ok)
    }
}

struct Segment<M> {
    begin: Timestamp,
    standing: Standing,
    chunks: Vec<Chunk>,
    bytes: u64,
    mark: M,
}

/// See the module. `M` is what the recorder wants to remember of each segment's beginning.
pub struct EventRing<M> {
    keep: Keep,
    batch: Batch,
    spare: Vec<Vec<u8>>,
    segments: VecDeque<Segment<M>>,
    standing: Standing,
    stacks: Definitions,
    /// Bytes of all segments.
    bytes: u64,
    /// Segments were dropped that time alone would have kept.
    is_short: bool,
}

impl<M: Clone> EventRing<M> {
    /// An empty one, whose first segment begins with `mark`.
    pub fn new(keep: Keep, mark: M) -> EventRing<M> {
        let first = Segment {
            begin: Timestamp(0),
            standing: Standing::default(),
            chunks: Vec::new(),
            bytes: 0,
            mark,
        };
        EventRing {
            keep,
            batch: Batch::default(),
            spare: Vec::new(),
            segments: VecDeque::from([first]),
            standing: Standing::default(),
            stacks: Definitions::new(keep.bytes / 4),
            bytes: 0,
            is_short: false,
        }
    }

    /// Takes one event.
    pub fn push(&mut self, event: &Event) {
        if let Event::Stack(stack) = event {
            self.stacks.push(stack);
        }
        self.standing.fold(event);
        if self.batch.push(event) {
            self.seal();
        }
    }

    /// Starts the recording at `at`. Earlier events give the initial state.
    pub fn begin_at(&mut self, at: Timestamp, mark: M) {
        self.seal();
        let standing = self.standing.clone();
        self.segments = VecDeque::from([Segment { begin: at, standing, chunks: Vec::new(), bytes: 0, mark }]);
        self.bytes = 0;
    }

    /// The current state.
    pub fn standing(&self) -> &Standing {
        &self.standing
    }

    /// Whether [`EventRing::begin_segment`] is due.
    pub fn is_due(&self) -> bool {
        let Some(last) = self.segments.back() else { return false };
        let long = self.standing.newest().since(last.begin) >= Duration(self.keep.time.0 / SEGMENTS);
        long || last.bytes + self.batch.bytes() >= self.event_bytes_max() / SEGMENTS
    }

    /// Starts a new segment. All earlier events must be pushed. Drops the oldest segments if there are too
    /// many. Returns `true` if stack definitions take too much space, and all stacks should be defined again
    /// from now on.
    pub fn begin_segment(&mut self, mark: M) -> bool {
        self.begin_segment_at(Timestamp(0), mark)
    }

    /// The same, no earlier than at `at`: nothing is known to come that was before it.
    pub fn begin_segment_at(&mut self, at: Timestamp, mark: M) -> bool {
        self.seal();
        self.standing.purge();
        let begin = (self.standing.newest() + Duration(1)).max(at);
        self.segments.push_back(Segment {
            begin,
            standing: self.standing.clone(),
            chunks: Vec::new(),
            bytes: 0,
            mark,
        });
        self.drop_oldest(begin);
        self.stacks.is_full()
    }

    /// From now on, all stacks are defined again.
    pub fn restart_stacks(&mut self) {
        self.stacks.restart(self.standing.newest());
    }

    /// How far back it reaches now.
    pub fn begin(&self) -> Timestamp {
        self.segments.front().map_or(Timestamp(0), |segment| segment.begin)
    }

    /// Bytes of chunks that it holds.
    pub fn bytes(&self) -> u64 {
        self.bytes + self.stacks.bytes()
    }

    /// Since the last call the room did not last for the time that was asked for.
    pub fn take_short(&mut self) -> bool {
        std::mem::take(&mut self.is_short)
    }

    /// All that it holds up to `end`, to be written while it goes on.
    pub fn cut(&mut self, end: Timestamp) -> Option<Cut<M>> {
        self.seal();
        let first = self.segments.front()?;
        Some(Cut {
            start: first.begin,
            end,
            mark: first.mark.clone(),
            standing: first.standing.clone(),
            chunks: self.segments.iter().flat_map(|segment| segment.chunks.iter().cloned()).collect(),
            stacks: self.stacks.cut(),
        })
    }

    /// The ended segments that began at `from` or later, without stacks. For a caller that reads one interval
    /// after the other and already has the stacks. `None` if there is no such segment.
    pub fn cut_ended_since(&self, from: Timestamp) -> Option<Cut<M>> {
        let open = self.segments.len().checked_sub(1)?;
        let mut ended = self.segments.iter().take(open).skip_while(|segment| segment.begin < from);
        let first = ended.next()?;
        let last_chunks = ended.flat_map(|segment| &segment.chunks);
        Some(Cut {
            start: first.begin,
            end: Timestamp(self.segments.back()?.begin.0.saturating_sub(1)).max(first.begin),
            mark: first.mark.clone(),
            standing: first.standing.clone(),
            chunks: first.chunks.iter().chain(last_chunks).cloned().collect(),
            stacks: Vec::new(),
        })
    }

    fn event_bytes_max(&self) -> u64 {
        self.keep.bytes.saturating_sub(self.stacks.bytes()).max(self.keep.bytes / 2)
    }

    fn seal(&mut self) {
        let Some(chunk) = Chunk::take_from(&mut self.batch, &mut self.spare) else { return };
        if let Some(last) = self.segments.back_mut() {
            let bytes = chunk.bytes.len() as u64;
            self.bytes += bytes;
            last.bytes += bytes;
            last.chunks.push(chunk);
        }
    }

    fn drop_oldest(&mut self, now: Timestamp) {
        while let Some(second) = self.segments.get(1).filter(|_| self.segments.len() > 2) {
            let enough = now.since(second.begin) >= self.keep.time;
            let too_large = self.bytes > self.event_bytes_max();
            if !enough && !too_large {
                break;
            }
            self.is_short |= !enough;
            let Some(dropped) = self.segments.pop_front() else { break };
            self.bytes -= dropped.bytes;
            // A save in progress keeps its chunks.
            let freed = dropped.chunks.into_iter().filter_map(|chunk| Arc::into_inner(chunk.bytes));
            self.spare.extend(freed.take(SPARE_MAX.saturating_sub(self.spare.len())));
        }
        let Some(first) = self.segments.front() else { return };
        self.stacks.drop_before(first.begin, &first.standing);
    }
}

#[cfg(test)]
mod tests;
