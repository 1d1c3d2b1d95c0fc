//! Cache lines that several threads accessed, and that are therefore worth a name. Memory use is bounded.

use std::collections::{BTreeSet, HashMap};

use holdup_events::ProcessId;
use holdup_events::tables::{DataAccess, Variable};

/// Bytes that a CPU takes for itself at a time.
const LINE_BYTES: u64 = 64;
/// Maximum number of tracked cache lines. Lines of a single thread are dropped first.
const LINES_MAX: usize = 1 << 17;
/// Addresses of one line that are named.
const ADDRESSES_MAX: usize = 16;

/// The lines so far.
#[derive(Default)]
pub struct Touched {
    lines: HashMap<(ProcessId, u64), Line>,
}

struct Line {
    first: u32,
    by_several: bool,
    written: bool,
    addresses: BTreeSet<u64>,
}

impl Touched {
    /// A thread touched this.
    pub fn add(&mut self, process: ProcessId, tid: u32, access: &DataAccess) {
        if self.lines.len() >= LINES_MAX {
            self.lines.retain(|_, line| line.by_several);
            if self.lines.len() >= LINES_MAX {
                self.lines.clear();
            }
        }
        let line = self.lines.entry((process, access.address / LINE_BYTES)).or_insert_with(|| Line {
            first: tid,
            by_several: false,
            written: false,
            addresses: BTreeSet::new(),
        });
        line.by_several |= line.first != tid;
        line.written |= access.kind.writes();
        if line.addresses.len() < ADDRESSES_MAX {
            line.addresses.insert(access.address);
        }
    }

    /// Accessed addresses on cache lines that several threads accessed, at least one of them writing. Sorted.
    pub fn shared(&self) -> Vec<Variable> {
        let shared = self.lines.iter().filter(|(_, line)| line.by_several && line.written);
        let of = |((process, _), line): (&(ProcessId, u64), &Line)| {
            let variable =
                |address: &u64| Variable { process: *process, address: *address, ..Variable::default() };
            line.addresses.iter().map(variable).collect::<Vec<_>>()
        };
        let mut variables: Vec<Variable> = shared.flat_map(of).collect();
        variables.sort_by_key(|variable| (variable.process, variable.address));
        variables
    }
}
