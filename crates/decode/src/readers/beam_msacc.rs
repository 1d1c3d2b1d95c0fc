//! Microstate accounting of the Erlang virtual machine: the output of
//! `erlang:statistics(microstate_accounting)` as text of Erlang terms (`io:format("~p.~n", …)`,
//! `msacc:to_file`) or as JSON.
//!
//! The output has sums without times: the time that each thread of the machine spent in each state. Each
//! thread is shown as running first and then sleeping. Within the running part, the states follow each other.
//! Their real order is unknown.

mod terms;

use holdup_events::event::{RawWait, RuntimeEvent, RuntimeEventKind, Snapshot, SnapshotState};
use holdup_events::recording::{Backend, SourceState};
use holdup_events::tables::SpanKind;
use holdup_events::{CpuId, Event, Timestamp, WaitReason};

use super::{Facts, Info, ReadError, Reader, Wanted};
use terms::{Account, accounts};

/// The format.
pub struct Format;

/// Source name.
const SOURCE: &str = "beam-msacc";
/// Recognising looks this far (bytes).
const LOOK: usize = 16 << 10;
/// The process has no number in it: that of its first thread.
const PID: u32 = 1;
/// The state in which a thread waits for something to do.
const SLEEP: &str = "sleep";
/// A longer sum is no program's (ns: 30 days).
const SUM_MAX_NS: u64 = 30 * 24 * 3_600 * 1_000_000_000;

impl Reader for Format {
    fn info(&self) -> Info {
        Info { name: "beam-msacc", summary: "Microstate accounting of the Erlang VM, as terms or JSON" }
    }

    fn recognises(&self, bytes: &[u8]) -> bool {
        let head = bytes.get(..LOOK).unwrap_or(bytes);
        let has = |word: &[u8]| head.windows(word.len()).any(|window| window == word);
        has(b"counters") && has(b"emulator") && has(b"check_io") && has(b"type")
    }

    fn read(&self, bytes: &[u8], _: &Wanted, sink: &mut dyn FnMut(Event)) -> Result<Facts, ReadError> {
        let text = String::from_utf8_lossy(bytes);
        let (accounts, lost) = accounts(&text);
        let longest = accounts.iter().map(Account::sum_ns).max().unwrap_or(0);
        if longest == 0 {
            return Err(ReadError::Empty);
        }
        if longest > SUM_MAX_NS {
            return Err(ReadError::Broken { what: "its sums are more than 30 days", offset: 0 });
        }
        let mut events = Vec::new();
        for (lane, account) in (0u32..).zip(&accounts) {
            emit_account(lane, account, longest, &mut |event| events.push(event));
        }
        // A stable sort keeps the order of one thread's events with equal times.
        events.sort_by_key(Event::at);
        let count = events.len() as u64;
        events.into_iter().for_each(sink);
        Ok(Facts {
            span: (Timestamp(0), Timestamp(longest)),
            backend: Backend::Proc,
            limits: "microstate accounting: it has only sums, so the times of states are not known: each thread is shown running first, then asleep"
                .to_owned(),
            sources: vec![SourceState {
                name: SOURCE.to_owned(),
                active: true,
                missing: String::new(),
                events: count,
                lost,
            }],
            ..Facts::default()
        })
    }
}

/// Kind of a state's time.
fn kind(state: &str) -> SpanKind {
    match state {
        // No pauses of the program: a process is collected while the others go on.
        "gc" | "gc_full" | "gc_fullsweep" => SpanKind::GcBeside,
        _ => SpanKind::User,
    }
}

fn emit_account(lane: u32, account: &Account, end: u64, sink: &mut dyn FnMut(Event)) {
    let tid = PID + lane;
    let busy = account.sum_ns() - account.sleep_ns();
    let look = |at: u64, state: SnapshotState| {
        Event::Snapshot(Snapshot {
            at: Timestamp(at),
            tid,
            tgid: PID,
            parent_tgid: 0,
            name: format!("{} {}", account.kind, account.id),
            target: true,
            state,
            exec_ns: Some(busy.min(at)),
            queue_ns: Some(0),
        })
    };
    let asleep = || SnapshotState::Blocked(Box::new(RawWait::because(WaitReason::Park)));
    let put = |at: u64, what: RuntimeEventKind, name: &str| {
        Event::Runtime(RuntimeEvent { at: Timestamp(at), tgid: PID, tid, lane, what, name: name.into() })
    };
    sink(look(0, if busy > 0 { SnapshotState::Running(CpuId::NONE) } else { asleep() }));
    sink(put(0, RuntimeEventKind::LaneStart, "beam"));
    let mut at = 0;
    for (state, ns) in account.states.iter().filter(|(state, ns)| state != SLEEP && *ns > 0) {
        sink(put(at, RuntimeEventKind::Begin(kind(state)), state));
        at += ns;
        sink(put(at, RuntimeEventKind::End, state));
    }
    if busy > 0 && busy < end {
        sink(look(busy, asleep()));
    }
    sink(put(end, RuntimeEventKind::LaneEnd, ""));
    sink(look(end, asleep()));
}

#[cfg(test)]
#[path = "beam_msacc/tests.rs"]
mod tests;
