//! Result of hardware watchpoints on a line: which threads touched which bytes at the same time, measured by
//! the CPU.

use std::collections::{BTreeMap, BTreeSet};

use holdup_events::tables::WatchpointRow;
use holdup_events::{ProcessId, ThreadId, Trace};

use super::{COMMON_MIN, LINE_BYTES, OTHERS_MIN, Sharing};

/// Result of watchpoints on a piece of memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Watched {
    /// Accesses that they stopped at.
    pub hits: u64,
    /// Threads that touched any of the memory during that time.
    pub threads: u64,
    /// Places that were touched.
    pub places: u64,
    /// Places that several threads touched, each of them often enough.
    pub common_places: u64,
    /// Kind of sharing. `None` if unclear.
    pub sharing: Option<Sharing>,
    /// Samples of the lines that were watched.
    pub samples: u64,
}

impl Watched {
    /// Drops the result "true sharing" if samples contradict it. A watchpoint stop takes about ten
    /// microseconds. Constantly used bytes and rarely read ones (an array's length, a pointer check)
    /// therefore stop a thread about equally often.
    pub(super) fn doubt_common(&mut self) {
        self.sharing = self.sharing.filter(|sharing| *sharing == Sharing::False);
    }
}

/// By thread: accesses to one place per ns of running time.
type Rates = BTreeMap<ThreadId, f64>;

/// Watchpoint results for these lines, each given with its samples. `None` if no watchpoint was hit by two
/// threads.
pub fn derive(trace: &Trace, process: ProcessId, lines: &[(u64, u64)]) -> Option<Watched> {
    let is_of = |row: &&WatchpointRow| trace.threads[row.thread.index()].process == process;
    let (mut places, mut watched) = (BTreeMap::<(u64, u32), Rates>::new(), Watched::default());
    let mut seen_lines = BTreeSet::new();
    for row in trace.watchpoints.iter().filter(is_of) {
        let line = row.address - row.address % LINE_BYTES;
        if row.hits == 0 || !lines.iter().any(|(address, _)| *address == line) {
            continue;
        }
        seen_lines.insert(line);
        watched.hits += row.hits;
        let rate = row.hits as f64 / row.ran_ns.max(1) as f64;
        *places.entry((row.address, row.bytes)).or_default().entry(row.thread).or_default() += rate;
    }
    let threads: BTreeSet<ThreadId> = places.values().flat_map(|rates| rates.keys().copied()).collect();
    if threads.len() < 2 {
        return None;
    }
    watched.threads = threads.len() as u64;
    watched.places = places.len() as u64;
    watched.common_places = places.values().filter(|rates| is_common(rates)).count() as u64;
    watched.samples =
        lines.iter().filter(|(line, _)| seen_lines.contains(line)).map(|(_, samples)| samples).sum();
    watched.sharing = sharing(places.values());
    Some(watched)
}

fn is_common(rates: &Rates) -> bool {
    let all: f64 = rates.values().sum();
    let most = rates.values().copied().fold(0.0, f64::max);
    all - most >= OTHERS_MIN * all
}

/// Kind of sharing, by the same rule as for samples: common places mean true sharing. Otherwise at least two
/// threads must have places of their own.
fn sharing<'a>(places: impl Iterator<Item = &'a Rates> + Clone) -> Option<Sharing> {
    let sum = |rates: &'a Rates| rates.values().sum::<f64>();
    let all: f64 = places.clone().map(sum).sum();
    let common: f64 = places.clone().filter(|rates| is_common(rates)).map(sum).sum();
    if common >= COMMON_MIN * all {
        return Some(Sharing::True);
    }
    let owner = |rates: &Rates| rates.iter().max_by(|a, b| a.1.total_cmp(b.1)).map(|(thread, _)| *thread);
    let owners: BTreeSet<_> = places.filter(|rates| !is_common(rates)).filter_map(owner).collect();
    (owners.len() > 1).then_some(Sharing::False)
}

#[cfg(test)]
mod tests {
    use holdup_events::tables::Thread;

    use super::*;

    fn trace(rows: &[(u32, u64, u64, u64)]) -> Trace {
        let row = |(thread, address, hits, ran_ns): &(u32, u64, u64, u64)| WatchpointRow {
            thread: ThreadId(*thread),
            address: *address,
            bytes: 8,
            hits: *hits,
            ran_ns: *ran_ns,
            ..WatchpointRow::default()
        };
        Trace {
            threads: vec![Thread::default(); 3],
            watchpoints: rows.iter().map(row).collect(),
            ..Trace::default()
        }
    }

    fn seen(rows: &[(u32, u64, u64, u64)]) -> Option<Watched> {
        derive(&trace(rows), ProcessId(0), &[(0x1000, 90), (0x1040, 10)])
    }

    #[test]
    fn shared_bytes_and_separate_bytes_are_distinguished() {
        let same = seen(&[(0, 0x1000, 4, 200), (1, 0x1000, 4, 300)]).unwrap();
        assert_eq!((same.sharing, same.hits, same.common_places), (Some(Sharing::True), 8, 1));
        assert_eq!(same.samples, 90, "of the line that was watched");
        let own = seen(&[(0, 0x1000, 4, 200), (1, 0x1000, 0, 9_000), (1, 0x1008, 4, 300)]).unwrap();
        assert_eq!((own.sharing, own.places, own.common_places), (Some(Sharing::False), 2, 0));
    }

    #[test]
    fn rare_accesses_do_not_make_a_line_truly_shared() {
        let own = [(0, 0x1000, 4, 200), (1, 0x1008, 4, 200)];
        let reader = seen(&[&own[..], &[(2, 0x1000, 1, 20_000), (2, 0x1008, 1, 20_000)]].concat()).unwrap();
        assert_eq!((reader.sharing, reader.threads), (Some(Sharing::False), 3));
        let writer = seen(&[&own[..], &[(2, 0x1000, 4, 1_000)]].concat()).unwrap();
        assert_eq!(writer.sharing, Some(Sharing::True));
    }

    #[test]
    fn samples_can_make_common_places_doubtful_but_not_own_ones() {
        let mut same = seen(&[(0, 0x1000, 4, 200), (1, 0x1000, 4, 300)]).unwrap();
        same.doubt_common();
        assert_eq!((same.sharing, same.common_places), (None, 1));
        let mut own = seen(&[(0, 0x1000, 4, 200), (1, 0x1008, 4, 300)]).unwrap();
        own.doubt_common();
        assert_eq!(own.sharing, Some(Sharing::False));
    }

    #[test]
    fn a_single_thread_gives_nothing_and_a_rarely_shared_place_is_unclear() {
        assert_eq!(seen(&[(0, 0x1000, 4, 200), (1, 0x1000, 0, 9_000)]), None);
        assert_eq!(seen(&[(0, 0x2000, 4, 200), (1, 0x2000, 4, 200)]), None, "another line");
        assert_eq!(seen(&[(0, 0x1000, 4, 200), (1, 0x1000, 1, 90_000)]).unwrap().sharing, None);
        assert_eq!(seen(&[(0, 0x1000, u64::MAX >> 2, 0), (1, 0x1000, 1, 0)]).unwrap().sharing, None);
    }
}
