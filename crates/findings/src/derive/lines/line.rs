//! The sampled accesses to one line.

use holdup_events::{ThreadId, Timestamp};

use super::{LINE_BYTES, Touch};

/// One line of memory.
#[derive(Default)]
pub struct Line {
    /// In the order of time, once [`Line::order`] was called.
    pub touches: Vec<Touch>,
}

/// Who touched one byte.
#[derive(Clone, Copy, Default)]
struct Byte {
    first: Option<ThreadId>,
    by_several: bool,
    written: bool,
}

impl Line {
    /// Puts the accesses into the order of time.
    pub fn order(&mut self) {
        self.touches
            .sort_by_key(|touch: &Touch| -> (Timestamp, ThreadId) { (touch.sample.at, touch.sample.thread) });
    }

    /// One of the accesses changed it.
    pub fn is_written(&self) -> bool {
        self.touches.iter().any(|touch| touch.sample.data.kind.writes())
    }

    /// The accesses that took the line from another thread on another CPU.
    pub fn turns(&self) -> impl Iterator<Item = &Touch> + Clone {
        self.touches.windows(2).filter_map(|pair| {
            let (before, after) = (&pair[0].sample, &pair[1].sample);
            (before.thread != after.thread && before.cpu != after.cpu).then_some(&pair[1])
        })
    }

    /// How many of the accesses touched a byte that several threads touched and one wrote.
    pub fn common(&self) -> u64 {
        let mut bytes = [Byte::default(); LINE_BYTES as usize];
        for touch in &self.touches {
            let data = &touch.sample.data;
            for byte in &mut bytes[range(data.address, data.bytes)] {
                byte.by_several |= byte.first.is_some_and(|first| first != touch.sample.thread);
                byte.first = byte.first.or(Some(touch.sample.thread));
                byte.written |= data.kind.writes();
            }
        }
        let is_common = |touch: &&Touch| {
            let data = &touch.sample.data;
            bytes[range(data.address, data.bytes)].iter().any(|byte| byte.by_several && byte.written)
        };
        self.touches.iter().filter(is_common).count() as u64
    }
}

/// The bytes of its line that an access touches; what goes beyond is the next line's.
fn range(address: u64, bytes: u8) -> std::ops::Range<usize> {
    let from = (address % LINE_BYTES) as usize;
    from..(from + usize::from(bytes)).min(LINE_BYTES as usize)
}
