//! Locks of tasks whose waits probes recorded: the lock, its holder, and the threads that could have run a
//! waiting task.

use holdup_events::tables::{TaskWaitRow, TaskWindowRow};
use holdup_events::{StackId, Timestamp, Trace};
use holdup_findings::derive::task_locks::Held;
use holdup_findings::merging::Symptom;
use holdup_findings::{Analysis, Confidence, Finding, analyse};
use holdup_testkit::check::trace_of_lanes;

const WAITS: &str = "runtime.goexit;main.count;sync.(*Mutex).Lock;internal/sync.(*Mutex).lockSlow;internal/sync.runtime_SemacquireMutex;runtime.semacquire1;runtime.(*semaRoot).queue";
const JOINS: &str = "runtime.goexit;main.main;sync.(*WaitGroup).Wait;sync.runtime_SemacquireWaitGroup;runtime.semacquire1;runtime.(*semaRoot).queue";
const LETS_GO: &str = "runtime.goexit;main.count;main.count.deferwrap1;sync.(*Mutex).Unlock;internal/sync.(*Mutex).unlockSlow;internal/sync.runtime_Semrelease;runtime.semrelease1;runtime.readyWithTime";

/// A runs for 6 ms of each 10 and then waits for the disk. B, C and D are idle. `waiting` tasks wait
/// throughout for the lock that A releases each time. `told` are the recorded windows (ms).
fn analysed(begins: &str, waiting: u32, told: &[(u64, u64)]) -> Analysis {
    let (_, mut trace) = trace_of_lanes(&format!(
        "@cpus 4\n@c park\n@d disk 75\n@repeat 60\n@samples A 0..1 user {begins}\n@samples A 1..2 user {LETS_GO}\n\
         A  111111dddd\n\
         B  cccccccccc\n\
         C  cccccccccc\n\
         D  cccccccccc\n"
    ));
    let stacks: Vec<StackId> = trace.samples.iter().take(2).map(|sample| sample.stack).collect();
    // They only bring the stacks into the recording.
    trace.samples.clear();
    let at = |ms: u64| Timestamp(trace.start().0 + ms * 1_000_000);
    let holder = trace.target_threads().next().unwrap();
    let wait = |(turn, _): (u64, u32)| TaskWaitRow {
        thread: holder,
        start: at(10 * turn),
        end: at(10 * turn + 10),
        object: 0xc000,
        stack: stacks[0],
        waker: Some(holder),
        waker_stack: stacks[1],
        channel: None,
    };
    let turns = 0..60u64;
    let all = turns.flat_map(|turn| (0..waiting).map(move |nth| (turn, nth))).map(wait);
    let is_told =
        |row: &TaskWaitRow| told.iter().any(|(from, to)| row.start >= at(*from) && row.end <= at(*to));
    let rows: Vec<TaskWaitRow> = all.filter(is_told).collect();
    let process = trace.threads[holder.index()].process;
    let window = |(from, to): &(u64, u64)| TaskWindowRow { process, start: at(*from), end: at(*to) };
    let windows = told.iter().map(window).collect();
    (trace.task_waits.rows, trace.task_waits.windows) = (rows, windows);
    analyse(&trace)
}

fn found(analysis: &Analysis) -> Option<&Finding> {
    analysis.findings.iter().find(|finding| finding.rule == "task-lock")
}

#[test]
fn the_lock_is_named_with_how_many_waited_and_what_its_holders_did() {
    let analysis = analysed(WAITS, 3, &[(0, 600)]);
    let finding = found(&analysis).expect("a finding");
    assert_eq!(
        (finding.subject.as_str(), finding.confidence),
        ("lock taken in main.count", Confidence::High)
    );
    let said = finding.summary.join(" ");
    assert!(said.contains("(sync.(*Mutex).Lock): 3 on average, 180 waits, at most 10.0 ms."), "{said}");
    assert!(
        said.contains("During these waits the threads that release it ran 60 %, waited for the disk 40 %."),
        "{said}"
    );
    assert!(finding.advice[0].starts_with("Do not wait while holding it"), "{:?}", finding.advice);
    // The holder's wait for the disk is reported as a symptom.
    let told = |symptom: &&Symptom| symptom.finding.rule == "sync-per-item";
    let symptom = analysis.symptoms.iter().find(told).expect("a symptom");
    assert_eq!(analysis.findings[symptom.root].rule, "task-lock");
}

/// A writer lets three readers go on at once: it held the lock since the first of them waited.
#[test]
fn a_release_to_several_waiters_was_held_since_the_first_wait() {
    let (mut trace, [begins, lets_go]) = with_stacks("A  000011\nB  111100\n", WAITS);
    let at = |tenths: u64| Timestamp(trace.start().0 + tenths * 100_000);
    let (holder, reader) = (trace.target_threads().next().unwrap(), trace.target_threads().nth(1).unwrap());
    let row = |nth: u64| TaskWaitRow {
        thread: reader,
        start: at(10 + nth),
        // The last that came is the first that goes on.
        end: at(33 - nth),
        object: 0xc000,
        stack: begins,
        waker: Some(holder),
        waker_stack: lets_go,
        channel: None,
    };
    trace.task_waits.rows = (0..3).rev().map(row).collect();
    let locks = analyse(&trace).derived.task_locks.locks;
    assert_eq!(locks[0].holder_activity, [(Held::Ran, 2_300_000)]);
}

/// In addition to A's 6 ms of 10, one more thread runs, or three more. While A waits, all tasks could run in
/// parallel.
#[test]
fn not_more_threads_could_have_run_than_tasks_waited() {
    let high = |waiting| found(&analysed(WAITS, waiting, &[(0, 600)])).map_or(0.0, |found| found.gain.high);
    let (one, three) = (high(1), high(3));
    assert!((one - 0.7).abs() < 0.01 && (three - 0.85).abs() < 0.01, "{one} {three}");
}

/// Recorded for a tenth of the time. The idle time between windows counts like that in the windows.
#[test]
fn windows_speak_for_the_time_between_them() {
    let windows: Vec<(u64, u64)> = (0..3).map(|nth| (200 * nth, 200 * nth + 20)).collect();
    let (whole, part) = (analysed(WAITS, 3, &[(0, 600)]), analysed(WAITS, 3, &windows));
    let (whole, part) = (found(&whole).unwrap(), found(&part).unwrap());
    assert!((whole.gain.high - part.gain.high).abs() < 0.05, "{:?} {:?}", whole.gain, part.gain);
    let said = part.summary.join(" ");
    assert!(
        said.contains("at least 3 on average, 18 waits")
            && said.contains("sampled in windows: 10 % of the time"),
        "{said}"
    );
}

#[test]
fn is_silent_where_tasks_wait_for_each_other_but_for_no_lock() {
    let analysis = analysed(JOINS, 3, &[(0, 600)]);
    assert!(found(&analysis).is_none(), "{:#?}", analysis.findings);
}

/// A wait that began before the window is known from its release. Other waits show the lock.
#[test]
fn a_wait_that_began_before_is_for_the_lock_that_its_waker_lets_go() {
    let mut trace = three_waits(WAITS);
    let first = &mut trace.task_waits.rows[0];
    (first.object, first.stack) = (0, StackId::NONE);
    let locks = analyse(&trace).derived.task_locks.locks;
    assert_eq!((locks.len(), locks[0].waits, locks[0].objects), (1, 3, 1), "{locks:?}");
    // Where those are no locks, it is none.
    let mut trace = three_waits(JOINS);
    trace.task_waits.rows[0].object = 0;
    assert!(analyse(&trace).derived.task_locks.locks.is_empty());
}

/// `lanes`, with the stacks at the begin of a wait and at a release.
fn with_stacks(lanes: &str, begins: &str) -> (Trace, [StackId; 2]) {
    let (_, mut trace) = trace_of_lanes(&format!(
        "@cpus 2\n@samples A 0..1 user {begins}\n@samples A 1..2 user {LETS_GO}\n{lanes}"
    ));
    let stacks = [0, 1].map(|nth: usize| trace.samples[nth].stack);
    trace.samples.clear();
    (trace, stacks)
}

/// Three waits for one object.
fn three_waits(begins: &str) -> Trace {
    let (mut trace, stacks) = with_stacks("A  000000\nB  111111\n", begins);
    let at = |ms: u64| Timestamp(trace.start().0 + ms * 1_000_000);
    let thread = trace.target_threads().next().unwrap();
    let row = |nth: u64| TaskWaitRow {
        thread,
        start: at(nth),
        end: at(nth + 2),
        object: 0xc000,
        stack: stacks[0],
        waker: None,
        waker_stack: stacks[1],
        channel: None,
    };
    trace.task_waits.rows = (0..3).map(row).collect();
    trace
}

/// The recording continues after the process exit. That time does not count as time without waiters.
#[test]
fn mean_waiters_cover_only_the_observed_time() {
    let mut trace = three_waits(WAITS);
    trace.manifest.end_ns += 60_000_000;
    let process = trace.threads[trace.task_waits.rows[0].thread.index()].process;
    let (start, end) = (trace.start(), Timestamp(trace.start().0 + 4_000_000));
    trace.task_waits.windows.push(TaskWindowRow { process, start, end });
    let locks = analyse(&trace).derived.task_locks;
    assert_eq!(locks.waiting(&trace, &locks.locks[0]), 1.5);
}
