//! SCHED: how each thread was scheduled: switches, run-queue delay, and what woke it.

use holdup_events::ThreadId;
use holdup_events::event::WakeContext;
use holdup_findings::derive::ledger::ThreadLedger;

use crate::numbers::{count, duration};
use crate::terminal::View;
use crate::terminal::table::{self, Column};

pub(super) const SUMMARY: &str = "Switches, run-queue delays and wakeups of each thread";

const ROWS_MAX: usize = 40;

pub(super) fn lines(view: &View) -> Vec<String> {
    let threads = &view.analysis.derived.ledger.threads;
    let mut lines = view.heading("SCHEDULING");
    if threads.is_empty() {
        lines.push(super::nothing(view, "The recording holds no thread of the program."));
        return lines;
    }
    let columns = [
        Column::Text("thread"),
        Column::Figure("blocked"),
        Column::Figure("preempt"),
        Column::Figure("migr."),
        Column::Figure("delay"),
        Column::Figure("p99"),
        Column::Figure("max"),
    ];
    let shown = || threads.iter().take(ROWS_MAX);
    let rows: Vec<Vec<String>> = shown().map(|thread| row(view, thread)).collect();
    lines.extend(table::lines(&columns, &rows, view.style));
    lines.push(super::nothing(view, "delay: time runnable without a CPU (mean, p99, maximum)"));
    if threads.len() > ROWS_MAX {
        lines.push(super::nothing(view, &format!("and {} more", threads.len() - ROWS_MAX)));
    }
    // A table of its own: threads' names and numbers leave it no room in the first.
    let woken = shown().map(|thread| vec![view.thread(thread.thread), woken_by(view, thread.thread)]);
    let woken: Vec<Vec<String>> = woken.filter(|row| !row[1].is_empty()).collect();
    if !woken.is_empty() {
        lines.push(String::new());
        lines.extend(table::lines(&[Column::Text("thread"), Column::Text("woken by")], &woken, view.style));
    }
    lines
}

fn row(view: &View, thread: &ThreadLedger) -> Vec<String> {
    let delays = Delays::of_thread(view, thread.thread);
    let said = |ns: Option<u64>| ns.map_or("-".to_owned(), duration);
    vec![
        view.thread(thread.thread),
        count(thread.blocked),
        count(thread.preempted),
        count(thread.migrations),
        said(delays.mean_ns),
        said(delays.p99_ns),
        said(delays.max_ns),
    ]
}

/// How long a thread waited for a CPU at a time (ns).
struct Delays {
    mean_ns: Option<u64>,
    p99_ns: Option<u64>,
    max_ns: Option<u64>,
}

impl Delays {
    /// A wait that goes on in another state (woken, then throttled) is one delay.
    fn of_thread(view: &View, thread: ThreadId) -> Delays {
        let mut lengths: Vec<u64> = Vec::new();
        let mut waiting = false;
        for slice in view.trace.slices.of_thread(thread) {
            let waits = slice.state.waits_for_cpu();
            match lengths.last_mut() {
                Some(last) if waits && waiting => *last += slice.duration().0,
                _ if waits => lengths.push(slice.duration().0),
                _ => {}
            }
            waiting = waits;
        }
        lengths.sort_unstable();
        let sum: u128 = lengths.iter().map(|ns| u128::from(*ns)).sum();
        let rank = (lengths.len() * 99).div_ceil(100).saturating_sub(1);
        Delays {
            mean_ns: (!lengths.is_empty()).then(|| (sum / lengths.len() as u128) as u64),
            p99_ns: lengths.get(rank).copied(),
            max_ns: lengths.last().copied(),
        }
    }
}

/// The most frequent wakers.
fn woken_by(view: &View, thread: ThreadId) -> String {
    let wakeups = view.trace.wakeups.of_thread(thread);
    let mut counts: Vec<(WakeContext, u64)> = WakeContext::ALL.iter().map(|kind| (*kind, 0)).collect();
    for wakeup in wakeups {
        counts[wakeup.context as usize].1 += 1;
    }
    counts.retain(|(_, times)| *times > 0);
    counts.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
    let said = counts.iter().map(|(kind, times)| format!("{} ×{}", kind.name(), count(*times)));
    said.collect::<Vec<_>>().join(", ")
}
