//! Work spread over the machine's CPUs with a result that does not depend on how many there are.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use holdup_events::{ThreadId, Trace};

/// More workers than this gain nothing: the tables' memory is the limit.
const WORKERS_MAX: usize = 16;

/// Number of worker threads.
pub fn workers() -> usize {
    std::thread::available_parallelism().map_or(1, |count| count.get()).min(WORKERS_MAX)
}

/// Computes `run(0), run(1), …, run(tasks - 1)` in parallel, and returns the results in that order.
pub fn map<T: Send>(tasks: usize, run: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let workers = workers().min(tasks);
    if workers <= 1 {
        return (0..tasks).map(run).collect();
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let task = next.fetch_add(1, Ordering::Relaxed);
            if task >= tasks {
                return done;
            }
            done.push((task, run(task)));
        }
    };
    let mut results: Vec<(usize, T)> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..workers).map(|_| scope.spawn(work)).collect();
        let mut all = work();
        for other in others {
            match other.join() {
                Ok(done) => all.extend(done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    });
    results.sort_unstable_by_key(|(task, _)| *task);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Computes both results in parallel.
pub fn both<A: Send, B>(a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B) -> (A, B) {
    std::thread::scope(|scope| {
        let a = scope.spawn(a);
        let b = b();
        match a.join() {
            Ok(a) => (a, b),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Rows of the slice table that one task should take: enough to outweigh the start of a thread.
const ROWS_PER_GROUP: usize = 1 << 18;

/// All threads, in contiguous ranges with about equally many slices.
pub fn thread_groups(trace: &Trace) -> Vec<Range<u32>> {
    let mut groups = Vec::new();
    let (mut from, mut rows) = (0u32, 0usize);
    let threads = trace.threads.len() as u32;
    for thread in 0..threads {
        rows += trace.slices.rows(ThreadId(thread)).len();
        if rows >= ROWS_PER_GROUP {
            groups.push(from..thread + 1);
            (from, rows) = (thread + 1, 0);
        }
    }
    if from < threads {
        groups.push(from..threads);
    }
    groups
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_come_in_the_order_of_tasks() {
        assert_eq!(super::map(1000, |task| task * 3), (0..1000).map(|task| task * 3).collect::<Vec<_>>());
        assert!(super::map(0, |task| task).is_empty());
    }
}
