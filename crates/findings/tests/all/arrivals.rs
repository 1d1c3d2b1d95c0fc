//! Threads that pass a lock in a ring, with a delay from wakeup to run queue: the CPU was idle, or needed an
//! interrupt.

use holdup_events::event::WakeContext;
use holdup_events::recording::Backend;
use holdup_events::tables::{Process, SliceRow, Slices, Thread, ThreadState, Wakeup, Wakeups};
use holdup_events::{CpuId, ThreadId, Timestamp, Trace, Wait, WaitId, WaitReason};
use holdup_findings::derive::lock_holding::Holding;
use holdup_findings::{Analysis, analyse};

const THREADS: u32 = 3;
const ROUNDS: u64 = 400;
const TURN_NS: u64 = 20_000;

/// In each turn of [`TURN_NS`] one thread holds the lock for `held_ns`, and passes it to the next one. The
/// next thread is being woken for the rest of the turn.
fn analysed(held_ns: u64) -> Analysis {
    let turns = ROUNDS * u64::from(THREADS);
    let end = Timestamp(turns * TURN_NS);
    let (mut rows, mut wakeups) = (vec![Vec::new(); THREADS as usize], Vec::new());
    let row = |turn: u64, at, state, wait| SliceRow {
        thread: ThreadId((turn % u64::from(THREADS)) as u32),
        start: Timestamp(at),
        state,
        cpu: CpuId((turn % 2) as u16),
        wait: WaitId(wait),
        ..SliceRow::default()
    };
    for turn in 0..turns {
        let (from, until) = (turn * TURN_NS, turn * TURN_NS + held_ns);
        let own = &mut rows[(turn % u64::from(THREADS)) as usize];
        if own.is_empty() && turn > 0 {
            own.push(row(turn, 0, ThreadState::Blocked, 1));
        }
        own.push(row(turn, from, ThreadState::Running, 0));
        own.push(row(turn, until, ThreadState::Blocked, 1));
        wakeups.push(Wakeup {
            at: Timestamp(until),
            wakee: ThreadId(((turn + 1) % u64::from(THREADS)) as u32),
            waker: ThreadId((turn % u64::from(THREADS)) as u32),
            context: WakeContext::Thread,
            waker_object: 64,
            ..Wakeup::default()
        });
    }
    let mut trace = Trace::default();
    trace.manifest.backend = Backend::Bpf;
    trace.manifest.end_ns = end.0;
    trace.manifest.host.cpus_allowed = 2;
    trace.threads =
        (0..THREADS).map(|id| Thread { tid: 10 + id, target: true, end, ..Thread::default() }).collect();
    trace.processes = vec![Process { target: true, ..Process::default() }];
    trace.slices = Slices::freeze(&rows, vec![end; THREADS as usize]);
    trace.wakeups = Wakeups::freeze(wakeups, THREADS as usize);
    trace.waits = vec![Wait::default(), Wait { reason: WaitReason::Lock, object: 64, ..Wait::default() }];
    analyse(&trace)
}

#[test]
fn on_the_way_to_a_run_queue_a_thread_arrives() {
    let analysis = analysed(TURN_NS / 4);
    assert_eq!(analysis.findings[0].rule, "lock-convoy");
    let holding = &analysis.derived.lock_holding[0];
    let arriving = holding.wall_while(|holding| holding == Holding::Arrives);
    let share = arriving as f64 / holding.contended_ns as f64;
    assert!((share - 0.75).abs() < 0.02, "{share}");
}

#[test]
fn a_lock_that_is_held_for_most_of_each_turn_is_no_convoy() {
    let analysis = analysed(TURN_NS * 9 / 10);
    assert!(
        analysis.findings.iter().all(|finding| finding.rule != "lock-convoy"),
        "{:#?}",
        analysis.findings
    );
}
