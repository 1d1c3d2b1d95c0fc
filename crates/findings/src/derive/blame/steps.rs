//! Waits in time with how many wait: step functions that are made of overlapping stretches.

/// `from..to`, in which `weight` threads wait for `node`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stretch {
    /// A thread's number, or a lock's with [`LOCK`] set.
    pub node: u32,
    /// Start (ns).
    pub from: u64,
    /// End (ns).
    pub to: u64,
    /// Number of waiters.
    pub weight: u32,
}

impl Stretch {
    /// Total time of all waiters (ns).
    #[inline]
    pub(super) fn ns(&self) -> u64 {
        (self.to - self.from) * u64::from(self.weight)
    }
}

/// Marks a node that is a lock.
pub(super) const LOCK: u32 = 1 << 31;

/// Merges `stretches` into disjoint ones, sorted by node and time. Work that many waiters share is then done
/// once.
pub(super) fn merge(mut stretches: Vec<Stretch>) -> Vec<Stretch> {
    stretches.retain(|stretch| stretch.from < stretch.to && stretch.weight > 0);
    // The input has sorted runs (the waits of one thread each), which a stable sort exploits.
    stretches.sort();
    if !stretches.windows(2).any(|pair| pair[0].node == pair[1].node && pair[1].from < pair[0].to) {
        return stretches;
    }
    let mut merged = Vec::with_capacity(stretches.len());
    for group in stretches.chunk_by(|a, b| a.node == b.node) {
        merge_node(group, &mut merged);
    }
    merged
}

fn merge_node(group: &[Stretch], merged: &mut Vec<Stretch>) {
    let Some(node) = group.first().map(|first| first.node) else { return };
    let mut ends: Vec<(u64, u32)> = group.iter().map(|stretch| (stretch.to, stretch.weight)).collect();
    ends.sort_unstable();
    let (mut next_begin, mut next_end) = (0, 0);
    let (mut at, mut weight) = (0u64, 0u32);
    while next_end < ends.len() {
        let begins = group.get(next_begin).filter(|stretch| stretch.from <= ends[next_end].0);
        let (then, plus, minus) = match begins {
            Some(stretch) => (stretch.from, stretch.weight, 0),
            None => (ends[next_end].0, 0, ends[next_end].1),
        };
        if then > at && weight > 0 {
            push(merged, Stretch { node, from: at, to: then, weight });
        }
        at = then;
        weight = weight + plus - minus;
        next_begin += usize::from(begins.is_some());
        next_end += usize::from(begins.is_none());
    }
}

/// Appends, or lengthens the last if nothing changes.
fn push(merged: &mut Vec<Stretch>, next: Stretch) {
    match merged.last_mut() {
        Some(last) if last.node == next.node && last.to == next.from && last.weight == next.weight => {
            last.to = next.to;
        }
        _ => merged.push(next),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretches(rows: &[(u32, u64, u64, u32)]) -> Vec<Stretch> {
        rows.iter().map(|&(node, from, to, weight)| Stretch { node, from, to, weight }).collect()
    }

    #[test]
    fn overlaps_add_up() {
        let merged =
            merge(stretches(&[(1, 0, 10, 1), (1, 5, 20, 2), (2, 0, 3, 1), (1, 20, 30, 2), (1, 7, 7, 9)]));
        assert_eq!(merged, stretches(&[(1, 0, 5, 1), (1, 5, 10, 3), (1, 10, 30, 2), (2, 0, 3, 1)]));
    }

    #[test]
    fn what_does_not_overlap_stays() {
        let rows = stretches(&[(1, 0, 10, 1), (1, 10, 20, 1), (2, 5, 6, 7)]);
        assert_eq!(merge(rows.clone()), rows);
    }
}
