//! Channels that serve as pools: tasks take permits from them and return them. Channels that carry work are
//! none.

use holdup_events::tables::{ChannelWait, TaskWaitRow, TaskWindowRow};
use holdup_events::{StackId, Timestamp};
use holdup_findings::{Analysis, Confidence, Finding, analyse};
use holdup_testkit::check::trace_of_lanes;

const TAKES: &str = "runtime.goexit;main.main.func1;main.fetch;runtime.chansend1;runtime.chansend";
const RETURNS: &str = "runtime.goexit;main.main.func1;main.fetch;main.fetch.func1;runtime.chanrecv1;runtime.chanrecv;runtime.recv";

/// Number of turns of 10 ms.
const TURNS: u64 = 60;

/// Waits at a channel: in each turn, one of them ends.
struct Channel {
    /// The waiting tasks, in turn.
    waiters: &'static [u64],
    /// The tasks that end the waits, in turn.
    wakers: &'static [u64],
    sends: bool,
    slots: u32,
    item_bytes: u32,
}

/// Three tasks share one permit. Each waits until the previous holder returns it.
const SEMAPHORE: Channel =
    Channel { waiters: &[2, 3, 1], wakers: &[1, 2, 3], sends: true, slots: 1, item_bytes: 0 };

/// A runs for 2 ms of each 10 and then sleeps. B is idle. In each turn, a task waits at the channel.
fn analysed(channel: &Channel) -> Analysis {
    let (_, mut trace) = trace_of_lanes(&format!(
        "@cpus 2\n@c park\n@s sleep\n@repeat {TURNS}\n@samples A 0..1 user {TAKES}\n@samples A 1..2 user {RETURNS}\n\
         A  11ssssssss\n\
         B  cccccccccc\n"
    ));
    let stacks: Vec<StackId> = trace.samples.iter().take(2).map(|sample| sample.stack).collect();
    // They only bring the stacks into the recording.
    trace.samples.clear();
    let start = trace.start().0;
    let at = |ms: u64| Timestamp(start + ms * 1_000_000);
    let thread = trace.target_threads().next().unwrap();
    let in_turn = |tasks: &[u64], turn: u64| tasks[turn as usize % tasks.len()];
    let row = |turn: u64| TaskWaitRow {
        thread,
        start: at(10 * turn),
        end: at(10 * turn + 10),
        object: 0xc000,
        stack: stacks[0],
        waker: Some(thread),
        waker_stack: stacks[1],
        channel: Some(ChannelWait {
            sends: channel.sends,
            task: in_turn(channel.waiters, turn),
            waker_task: in_turn(channel.wakers, turn),
            slots: channel.slots,
            item_bytes: channel.item_bytes,
        }),
    };
    trace.task_waits.rows = (0..TURNS).map(row).collect();
    let process = trace.threads[thread.index()].process;
    trace.task_waits.windows.push(TaskWindowRow { process, start: at(0), end: at(10 * TURNS) });
    analyse(&trace)
}

fn found(analysis: &Analysis) -> Option<&Finding> {
    analysis.findings.iter().find(|finding| finding.rule == "pool-exhausted")
}

#[test]
fn a_channel_with_senders_that_receive_is_a_pool() {
    let analysis = analysed(&SEMAPHORE);
    let finding = found(&analysis).expect("a finding");
    assert_eq!(
        (finding.subject.as_str(), finding.confidence),
        ("the channel from which tasks take permits in main.fetch", Confidence::Medium)
    );
    let text = finding.summary.join(" ");
    assert!(
        text.contains("3 tasks waited 60 times for the only permit that other tasks held: 1 at a time"),
        "{text}"
    );
    assert!(
        text.contains(
            "sending to a channel in main.fetch, and returns it by receiving from it in main.fetch.func1."
        ),
        "{text}"
    );
    // One task waits while one holds the permit.
    assert!((finding.gain.high - 0.5).abs() < 0.03 && finding.gain.low == 0.0, "{:?}", finding.gain);
}

#[test]
fn a_channel_with_receivers_that_send_items_back_is_a_pool() {
    let analysis = analysed(&Channel { sends: false, slots: 2, item_bytes: 8, ..SEMAPHORE });
    let finding = found(&analysis).expect("a finding");
    assert_eq!(finding.subject, "the channel from which tasks take items in main.fetch");
    assert!(finding.summary[0].contains("one of at most 2 items"), "{:?}", finding.summary);
}

#[test]
fn a_queue_with_senders_that_never_receive_is_no_pool() {
    let queue = Channel { wakers: &[11, 12, 13], item_bytes: 8, ..SEMAPHORE };
    assert!(found(&analysed(&queue)).is_none());
    assert!(found(&analysed(&Channel { sends: false, ..queue })).is_none());
}

/// A worker that makes two pieces of work at a time returns more than it took.
#[test]
fn workers_that_make_work_for_each_other_have_no_pool() {
    let channel = Channel {
        waiters: &[2, 3, 4, 5, 6, 1],
        wakers: &[1, 1, 1, 2, 2, 2],
        sends: false,
        slots: 100,
        item_bytes: 8,
    };
    assert!(found(&analysed(&channel)).is_none());
}

#[test]
fn a_channel_without_slots_is_no_pool() {
    assert!(found(&analysed(&Channel { slots: 0, ..SEMAPHORE })).is_none());
}

/// A loop takes a permit for each task that it starts, and the task returns it. Signals look the same.
#[test]
fn items_without_content_from_other_tasks_are_a_hint() {
    let channel = Channel { waiters: &[1], wakers: &[11, 12, 13], slots: 3, ..SEMAPHORE };
    let analysis = analysed(&channel);
    let finding = found(&analysis).expect("a finding");
    assert_eq!(finding.confidence, Confidence::Low);
    assert!(finding.summary.join(" ").contains("may count signals"), "{:?}", finding.summary);
    // One task that receives them all consumes signals.
    assert!(found(&analysed(&Channel { wakers: &[11], ..channel })).is_none());
}
