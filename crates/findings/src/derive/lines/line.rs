//! The sampled accesses to one line.

use holdup_events::{ThreadId, Timestamp};

use super::{LINE_BYTES, OTHERS_MIN, Touch};

/// One line of memory.
#[derive(Default)]
pub struct Line {
    /// Accesses, in time order after [`Line::order`].
    pub touches: Vec<Touch>,
    /// Writes that only watchpoints saw: address and number of bytes.
    pub seen_written: Vec<(u64, u8)>,
}

/// The threads that touched one byte, with their number of accesses.
#[derive(Clone, Default)]
struct Byte {
    by_thread: Vec<(ThreadId, u32)>,
    written: bool,
}

impl Byte {
    fn add(&mut self, thread: ThreadId, writes: bool) {
        match self.by_thread.iter_mut().find(|(one, _)| *one == thread) {
            Some((_, touches)) => *touches += 1,
            None => self.by_thread.push((thread, 1)),
        }
        self.written |= writes;
    }

    /// Several threads touch it, none of them hardly ever, and one writes.
    fn is_common(&self) -> bool {
        let all: u32 = self.by_thread.iter().map(|(_, touches)| touches).sum();
        let most = self.by_thread.iter().map(|(_, touches)| *touches).max().unwrap_or(0);
        self.written && all > most && f64::from(all - most) >= OTHERS_MIN * f64::from(all)
    }
}

impl Line {
    /// Puts the accesses into the order of time.
    pub fn order(&mut self) {
        self.touches
            .sort_by_key(|touch: &Touch| -> (Timestamp, ThreadId) { (touch.sample.at, touch.sample.thread) });
    }

    /// Whether an access wrote to the line, by a sample or a watchpoint.
    pub fn is_written(&self) -> bool {
        self.is_sampled_written() || !self.seen_written.is_empty()
    }

    /// Whether a sampled access wrote to the line.
    pub fn is_sampled_written(&self) -> bool {
        self.touches.iter().any(|touch| touch.sample.data.kind.writes())
    }

    /// The accesses that took the line from another thread on another CPU.
    pub fn turns(&self) -> impl Iterator<Item = &Touch> + Clone {
        self.touches.windows(2).filter_map(|pair| {
            let (before, after) = (&pair[0].sample, &pair[1].sample);
            (before.thread != after.thread && before.cpu != after.cpu).then_some(&pair[1])
        })
    }

    /// Number of accesses to bytes that several threads touch, each of them often enough, and that one
    /// writes.
    pub fn common(&self) -> u64 {
        let mut seen = vec![Byte::default(); LINE_BYTES as usize];
        for touch in &self.touches {
            let data = &touch.sample.data;
            for byte in &mut seen[range(data.address, data.bytes)] {
                byte.add(touch.sample.thread, data.kind.writes());
            }
        }
        for (address, bytes) in &self.seen_written {
            seen[range(*address, *bytes)].iter_mut().for_each(|byte| byte.written = true);
        }
        let common: Vec<bool> = seen.iter().map(Byte::is_common).collect();
        let is_common = |touch: &&Touch| {
            let data = &touch.sample.data;
            common[range(data.address, data.bytes)].contains(&true)
        };
        self.touches.iter().filter(is_common).count() as u64
    }
}

/// The bytes of its line that an access touches. Bytes after the end belong to the next line.
fn range(address: u64, bytes: u8) -> std::ops::Range<usize> {
    let from = (address % LINE_BYTES) as usize;
    from..(from + usize::from(bytes)).min(LINE_BYTES as usize)
}

#[cfg(test)]
mod tests {
    use holdup_events::tables::{AccessKind, DataAccess, SampleRow};

    use super::*;

    /// Accesses of 8 bytes, as thread, address, and how often.
    fn line(touched: &[(u32, u64, AccessKind, u32)]) -> Line {
        let touch = |(thread, address, kind, _): &(u32, u64, AccessKind, u32)| Touch {
            sample: SampleRow {
                thread: ThreadId(*thread),
                data: DataAccess { kind: *kind, address: *address, bytes: 8 },
                ..SampleRow::default()
            },
            ns: 1.0,
        };
        let times = |one: &(u32, u64, AccessKind, u32)| (0..one.3).map(|_| touch(one)).collect::<Vec<_>>();
        Line { touches: touched.iter().flat_map(times).collect(), ..Line::default() }
    }

    #[test]
    fn rare_accesses_do_not_make_bytes_shared() {
        let (own, other) = ((0, 0x1000, AccessKind::Update, 500), (1, 0x1008, AccessKind::Update, 500));
        assert_eq!(line(&[own, other]).common(), 0);
        // A check of a pointer to the array reads its first byte.
        assert_eq!(line(&[own, other, (1, 0x1000, AccessKind::Read, 10)]).common(), 0);
        assert_eq!(line(&[own, other, (1, 0x1000, AccessKind::Read, 100)]).common(), 600);
        let only_read = [(0, 0x1000, AccessKind::Read, 50), (1, 0x1000, AccessKind::Read, 50)];
        assert_eq!(line(&only_read).common(), 0);
        let mut seen = line(&only_read);
        seen.seen_written = vec![(0x1008, 8)];
        assert_eq!((seen.is_written(), seen.common()), (true, 0), "beside what both read");
        seen.seen_written = vec![(0x1000, 8)];
        assert_eq!(seen.common(), 100);
    }
}
