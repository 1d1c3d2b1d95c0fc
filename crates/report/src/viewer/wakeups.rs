//! `api/wakeups`: arrows from wakers to wakees.

use holdup_events::ThreadId;
use holdup_events::event::WakeContext;
use holdup_events::tables::Wakeup;
use serde_json::{Value, json};

use super::lanes::cpu_number;
use super::{Ask, Refusal, Viewer, to_text};

/// Arrows of an answer.
const ARROWS_MAX: usize = 2000;

pub(super) fn answer(viewer: &Viewer, ask: &Ask) -> Result<String, Refusal> {
    let (from, to) = viewer.range(ask)?;
    let chosen = viewer.threads(ask)?;
    let mut wanted = vec![chosen.is_none(); viewer.trace.threads.len()];
    for id in chosen.iter().flatten() {
        wanted[id.index()] = true;
    }
    let is_wanted = &|id: ThreadId| wanted.get(id.index()).is_some_and(|wanted| *wanted);
    let all = || {
        let wakees = (0..viewer.trace.threads.len() as u32).map(ThreadId);
        wakees.flat_map(|wakee| {
            let rows = viewer.trace.wakeups.of_thread(wakee);
            let first = rows.partition_point(|row| row.at < from);
            let behind = rows.partition_point(|row| row.at < to).max(first);
            let by_wanted = move |row: &&Wakeup| {
                is_wanted(wakee) || row.context == WakeContext::Thread && is_wanted(row.waker)
            };
            rows[first..behind].iter().filter(by_wanted)
        })
    };
    // The same fraction of each wakee's wakeups. They are counted first, because there may be millions.
    let count = all().count();
    let mut arrows: Vec<Wakeup> = all().step_by(count.div_ceil(ARROWS_MAX).max(1)).copied().collect();
    arrows.sort_by_key(|row| (row.at, row.wakee));
    let left_out = count - arrows.len();
    Ok(to_text(&json!({
        "left_out": left_out,
        "at": arrows.iter().map(|row| viewer.since(row.at)).collect::<Vec<_>>(),
        "waker": arrows.iter().map(waker_number).collect::<Vec<_>>(),
        "wakee": arrows.iter().map(|row| row.wakee.0).collect::<Vec<_>>(),
        "cpu": arrows.iter().map(|row| cpu_number(row.cpu)).collect::<Vec<_>>(),
        "context": arrows.iter().map(|row| Value::from(context_code(row.context))).collect::<Vec<_>>(),
    })))
}

/// The waker, -1 if it was no thread.
pub(super) fn waker_number(row: &Wakeup) -> i64 {
    if row.context == WakeContext::Thread { i64::from(row.waker.0) } else { -1 }
}

fn context_code(context: WakeContext) -> u8 {
    match context {
        WakeContext::Thread => 0,
        WakeContext::Timer => 1,
        WakeContext::SoftIrq => 2,
        WakeContext::Irq => 3,
    }
}
