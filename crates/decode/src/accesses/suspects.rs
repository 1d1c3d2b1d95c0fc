//! Selects cache lines to watch while the program still runs. Candidates are lines that several threads on
//! several CPUs access alternately, at least one of them writing, the most sampled first. If a load waits for
//! the line, the store that follows is hardly ever sampled. A line with many samples but no sampled write is
//! therefore watched for writes first.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use holdup_events::CpuId;
use holdup_events::event::Sample;
use holdup_events::tables::DataAccess;

/// Bytes that a CPU takes for itself at a time.
const LINE_BYTES: u64 = 64;
/// Maximum number of tracked cache lines.
const LINES_MAX: usize = 1 << 14;
/// Fewer samples may be chance.
const SAMPLES_MIN: u64 = 8;
/// Fewer changes of thread and CPU from one sample of a line to the next may be chance.
const TURNS_MIN: u64 = 3;
/// Maximum bytes that one watchpoint covers.
const PLACE_BYTES_MAX: u64 = 8;
/// Maximum number of times that a line is watched.
const LOOKS_MAX: u32 = 4;
/// The same for a line without a known write. Most such lines are only read.
const READ_LOOKS_MAX: u32 = 2;
/// Minimum share of such a line in all samples with an access. Watching has a cost, and constants are read
/// everywhere.
const READ_SHARE_MIN: f64 = 0.05;

/// A few bytes: the first one's address, and how many (1, 2, 4 or 8; the address is a multiple of it).
pub type Place = (u64, u32);

/// Lines that may be shared, as samples come.
#[derive(Default)]
pub struct Suspects {
    lines: HashMap<(u32, u64), Line>,
    samples: u64,
}

#[derive(Default)]
struct Line {
    /// Samples by thread, and by accessed place.
    threads: BTreeMap<u32, u64>,
    places: BTreeMap<Place, u64>,
    last: Option<(u32, CpuId)>,
    samples: u64,
    turns: u64,
    is_written: bool,
    /// By a watchpoint, if by no sample.
    seen_written: bool,
    looks: u32,
    watched: BTreeSet<Place>,
}

/// A cache line to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspect {
    /// Process of the memory.
    pub tgid: u32,
    /// Where the line begins.
    pub line: u64,
    /// Threads that access the line, most frequent first.
    pub threads: Vec<u32>,
    /// Accessed places that were not watched yet, most frequent first.
    pub places: Vec<Place>,
    /// A sample wrote to the line. Otherwise only writes must be watched, because analysis counts all hits on
    /// a line without sampled writes as writes.
    pub is_written: bool,
}

impl Suspects {
    /// A sample touched memory.
    pub fn add(&mut self, sample: &Sample, access: &DataAccess) {
        if self.lines.len() >= LINES_MAX {
            self.lines.retain(|_, line| line.threads.len() > 1);
            if self.lines.len() >= LINES_MAX {
                self.lines.clear();
            }
        }
        self.samples += 1;
        let line = self.lines.entry((sample.tgid, access.address - access.address % LINE_BYTES)).or_default();
        line.samples += 1;
        line.is_written |= access.kind.writes();
        *line.threads.entry(sample.tid).or_default() += 1;
        *line.places.entry(place(access)).or_default() += 1;
        let before = line.last.replace((sample.tid, sample.cpu));
        line.turns += u64::from(before.is_some_and(|(tid, cpu)| tid != sample.tid && cpu != sample.cpu));
    }

    /// The most sampled line that is worth a look.
    pub fn worst(&self) -> Option<Suspect> {
        let lines = self.lines.iter().filter(|(_, line)| line.is_suspect(self.samples));
        let ((tgid, at), line) = lines.max_by_key(|(key, line)| (line.is_written, line.samples, **key))?;
        let places = line.places.iter().filter(|(place, _)| !line.watched.contains(place));
        Some(Suspect {
            tgid: *tgid,
            line: *at,
            threads: most(line.threads.iter()),
            places: most(places),
            is_written: line.is_written,
        })
    }

    /// Records that `places` of a suspect were watched. `seen`: at least two threads accessed them, or a
    /// write was seen on a line without a known write. If not `seen`, the places are watched once more.
    pub fn looked(&mut self, suspect: &Suspect, places: &[Place], seen: bool) {
        let Some(line) = self.lines.get_mut(&(suspect.tgid, suspect.line)) else { return };
        line.looks += 1;
        if seen {
            line.watched.extend(places);
            line.seen_written |= !suspect.is_written;
        }
    }

    /// Nothing of it can be watched.
    pub fn give_up(&mut self, suspect: &Suspect) {
        if let Some(line) = self.lines.get_mut(&(suspect.tgid, suspect.line)) {
            line.looks = LOOKS_MAX;
        }
    }

    /// The process exited or executed another program.
    pub fn forget(&mut self, tgid: u32) {
        self.lines.retain(|(owner, _), _| *owner != tgid);
    }
}

impl Line {
    /// Whether the line is worth watching. `samples` is the total number of samples.
    fn is_suspect(&self, samples: u64) -> bool {
        let looks_left = match self.is_written || self.seen_written {
            true => self.looks < LOOKS_MAX,
            false => self.looks < READ_LOOKS_MAX && self.samples as f64 >= READ_SHARE_MIN * samples as f64,
        };
        looks_left
            && self.samples >= SAMPLES_MIN
            && self.turns >= TURNS_MIN
            && self.places.keys().any(|place| !self.watched.contains(place))
    }
}

/// The keys, the most counted first.
fn most<'a, K: Copy + Ord + 'a>(counts: impl Iterator<Item = (&'a K, &'a u64)>) -> Vec<K> {
    let mut counts: Vec<(u64, K)> = counts.map(|(key, count)| (*count, *key)).collect();
    counts.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    counts.into_iter().map(|(_, key)| key).collect()
}

/// The first bytes of an access that one watchpoint can be on.
fn place(access: &DataAccess) -> Place {
    let most = u64::from(access.bytes).clamp(1, PLACE_BYTES_MAX);
    let fits = |bytes: &u64| *bytes <= most && access.address.is_multiple_of(*bytes);
    (access.address, [8, 4, 2, 1].into_iter().find(fits).unwrap_or(1) as u32)
}

#[cfg(test)]
mod tests {
    use holdup_events::tables::AccessKind;

    use super::*;

    fn touch(suspects: &mut Suspects, tid: u32, address: u64, kind: AccessKind) {
        let sample = Sample { tid, tgid: 7, cpu: CpuId(tid as u16 % 2), ..Sample::default() };
        suspects.add(&sample, &DataAccess { kind, address, bytes: 8 });
    }

    #[test]
    fn lines_that_threads_take_from_each_other_are_watched_word_by_word() {
        let mut suspects = Suspects::default();
        assert_eq!(suspects.worst(), None);
        for _ in 0..6 {
            touch(&mut suspects, 1, 0x1000, AccessKind::Write);
            touch(&mut suspects, 2, 0x1008, AccessKind::Write);
        }
        touch(&mut suspects, 2, 0x1010, AccessKind::Read);
        let suspect = suspects.worst().expect("two threads in turns");
        assert_eq!((suspect.line, &suspect.threads[..]), (0x1000, &[2, 1][..]));
        assert_eq!(suspect.places, [(0x1000, 8), (0x1008, 8), (0x1010, 8)]);
        // No access was seen: the places are watched again. An access was seen: only the remaining places are
        // watched.
        suspects.looked(&suspect, &suspect.places[..2], false);
        assert_eq!(suspects.worst().expect("again").places.len(), 3);
        suspects.looked(&suspect, &suspect.places[..2], true);
        assert_eq!(suspects.worst().expect("the rest").places, [(0x1010, 8)]);
        suspects.looked(&suspect, &[(0x1010, 8)], true);
        assert_eq!(suspects.worst(), None, "all was watched");
    }

    #[test]
    fn what_is_read_or_one_threads_or_was_looked_at_often_is_none() {
        let mut suspects = Suspects::default();
        for _ in 0..20 {
            touch(&mut suspects, 1, 0x1000, AccessKind::Read);
            touch(&mut suspects, 2, 0x1008, AccessKind::Read);
            // Lines that are only read are not watched when many other lines are accessed.
            (0..50).for_each(|k| touch(&mut suspects, 1, 0x10000 + k * LINE_BYTES, AccessKind::Read));
            touch(&mut suspects, 1, 0x2000, AccessKind::Write);
            // One CPU: never a turn.
            touch(&mut suspects, 3, 0x3000, AccessKind::Write);
            touch(&mut suspects, 5, 0x3000, AccessKind::Write);
        }
        assert_eq!(suspects.worst(), None);
        touch(&mut suspects, 2, 0x1008, AccessKind::Write);
        for _ in 0..LOOKS_MAX {
            let suspect = suspects.worst().expect("written");
            suspects.looked(&suspect, &suspect.places, false);
        }
        assert_eq!(suspects.worst(), None, "nobody ever came");
    }

    #[test]
    fn what_takes_much_time_and_was_only_seen_read_is_watched_for_writes() {
        let mut suspects = Suspects::default();
        let both = |suspects: &mut Suspects| {
            for _ in 0..6 {
                touch(suspects, 1, 0x1000, AccessKind::Read);
                touch(suspects, 2, 0x1008, AccessKind::Read);
            }
        };
        both(&mut suspects);
        let suspect = suspects.worst().expect("all the time");
        assert!(!suspect.is_written);
        suspects.looked(&suspect, &suspect.places[..1], true);
        let known = suspects.worst().expect("what is left of it");
        assert!(!known.is_written && known.places == [(0x1008, 8)], "by no sample");
        // No thread writes.
        let mut suspects = Suspects::default();
        both(&mut suspects);
        for _ in 0..READ_LOOKS_MAX {
            let suspect = suspects.worst().expect("all the time");
            suspects.looked(&suspect, &suspect.places, false);
        }
        assert_eq!(suspects.worst(), None);
    }

    #[test]
    fn an_exited_process_is_forgotten() {
        let mut suspects = Suspects::default();
        for tid in [1, 2].repeat(10) {
            touch(&mut suspects, tid, 0x1000, AccessKind::Atomic);
        }
        let suspect = suspects.worst().expect("two threads in turns");
        suspects.give_up(&suspect);
        assert_eq!(suspects.worst(), None);
        suspects.forget(7);
        assert!(suspects.lines.is_empty());
    }

    #[test]
    fn watchpoints_are_aligned_and_small() {
        let of = |address, bytes| place(&DataAccess { kind: AccessKind::Read, address, bytes });
        assert_eq!(of(0x1000, 8), (0x1000, 8));
        assert_eq!(of(0x1000, 64), (0x1000, 8));
        assert_eq!(of(0x1004, 8), (0x1004, 4));
        assert_eq!(of(0x1001, 4), (0x1001, 1));
        assert_eq!(of(0x1002, 0), (0x1002, 1));
    }
}
