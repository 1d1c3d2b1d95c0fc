//! Groups of threads whose names differ only in numbers, such as the workers of a pool. A program with
//! hundreds of threads is reported by groups.

use std::collections::BTreeMap;

use holdup_events::Trace;

use super::class::CLASSES;
use super::ledger::{ByClass, Ledger, on_cpu_ns};

/// Threads of the program with names of one stem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameGroup {
    /// The names' common text, with `*` for each number: `worker-*`.
    pub stem: String,
    /// How many threads.
    pub threads: u64,
    /// Sum of their lives (ns). Equals the sum of `classes`.
    pub life_ns: u64,
    /// Total by class of all threads in the group (ns).
    pub classes: ByClass,
    /// Running time of the thread that ran longest (ns).
    pub most_running_ns: u64,
}

impl NameGroup {
    /// Time on a CPU, steal time excluded (ns).
    pub fn running_ns(&self) -> u64 {
        on_cpu_ns(&self.classes)
    }
}

/// The groups, those with the most running time first.
pub fn derive(trace: &Trace, ledger: &Ledger) -> Vec<NameGroup> {
    let mut groups: BTreeMap<String, NameGroup> = BTreeMap::new();
    for thread in &ledger.threads {
        let name = trace.threads.get(thread.thread.index()).map_or("", |thread| thread.name.as_str());
        let stem = stem(name);
        let group = groups.entry(stem.clone()).or_insert_with(|| NameGroup {
            stem,
            threads: 0,
            life_ns: 0,
            classes: [0; CLASSES],
            most_running_ns: 0,
        });
        group.threads += 1;
        group.life_ns += thread.life.0;
        group.most_running_ns = group.most_running_ns.max(thread.running_ns());
        group.classes.iter_mut().zip(thread.classes).for_each(|(sum, ns)| *sum += ns);
    }
    let mut groups: Vec<NameGroup> = groups.into_values().collect();
    groups.sort_by(|a, b| (b.running_ns(), &a.stem).cmp(&(a.running_ns(), &b.stem)));
    groups
}

/// A name with `*` for each number.
fn stem(name: &str) -> String {
    let mut stem = String::with_capacity(name.len());
    for letter in name.chars() {
        match letter.is_ascii_digit() {
            true if stem.ends_with('*') => {}
            true => stem.push('*'),
            false => stem.push(letter),
        }
    }
    stem
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_events::tables::Thread;
    use holdup_events::{Duration, ThreadId};

    use crate::derive::class::Class;
    use crate::derive::ledger::{RunQueueSplit, ThreadLedger};

    #[test]
    fn numbers_in_names_do_not_count() {
        let stems = ["worker-12", "worker-7", "GC Thread#3", "h2-3-of-16", "main", "", "9"].map(stem);
        assert_eq!(stems, ["worker-*", "worker-*", "GC Thread#*", "h*-*-of-*", "main", "", "*"]);
    }

    #[test]
    fn groups_sum_to_the_ledger() {
        let names = ["main", "io-1", "worker-1", "io-2", "worker-2", "worker-10"];
        let threads = names.map(|name| Thread { name: name.to_owned(), ..Thread::default() }).to_vec();
        let trace = Trace { threads, ..Trace::default() };
        let thread = |number: u64| {
            let mut classes = [0; CLASSES];
            (classes[Class::Useful as usize], classes[Class::Sleep as usize]) = (10 * number, 100);
            ThreadLedger {
                thread: ThreadId(number as u32),
                life: Duration(10 * number + 100),
                classes,
                run_queue: RunQueueSplit::default(),
                blocked: 0,
                preempted: 0,
                migrations: 0,
            }
        };
        let ledger = Ledger { threads: (0..6).map(thread).collect(), ..Ledger::default() };
        let groups = derive(&trace, &ledger);
        let shown: Vec<_> = groups
            .iter()
            .map(|group| (group.stem.as_str(), group.threads, group.running_ns(), group.most_running_ns))
            .collect();
        assert_eq!(shown, [("worker-*", 3, 110, 50), ("io-*", 2, 40, 30), ("main", 1, 0, 0)]);
        assert_eq!(groups.iter().map(|group| group.life_ns).sum::<u64>(), 750);
        assert!(groups.iter().all(|group| group.classes.iter().sum::<u64>() == group.life_ns));
    }
}
