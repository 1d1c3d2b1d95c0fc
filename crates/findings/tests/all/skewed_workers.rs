//! Processes that are alike, of which one has nearly all the work, and what only looks so.

use holdup_events::tables::Process;
use holdup_events::{ProcessId, Trace};
use holdup_findings::finding::{Confidence, Finding};
use holdup_findings::{Analysis, analyse};
use holdup_testkit::check::trace_of_lanes;

/// A, B and C communicate with Q. A sends requests to S, which responds after `ticks`. `b` and `c` are the
/// activity of the others. `a` and the text after each lane are its holds.
fn workers(ticks: usize, b: &str, c: &str, service: &str) -> Trace {
    let end = ticks + 1;
    let (_, mut trace) = trace_of_lanes(&format!(
        "@cpus 6\n@repeat 20\n@q multiplex 7\n@p multiplex 232\n@s sleep\n@a multiplex 232\n@b multiplex 232\n@c multiplex 232\n\
         @d multiplex 7\n@e multiplex 7\n@f multiplex 232\n@g multiplex 232\n\
         @child B\n@child C\n@child Q\n@child S\n@child T\n@child U\n\
         A  0{}0{}  holds p 0..1\n\
         B  {b}\n\
         C  {c}\n\
         Q  {}44  holds a 32..33  holds b 31..32  holds c 31..32\n\
         S  p1{}1p{}  holds q {ticks}..{end}\n{service}",
        "q".repeat(ticks),
        "a".repeat(31 - ticks),
        "s".repeat(31),
        "s".repeat(ticks - 2),
        "p".repeat(31 - ticks),
    ));
    let parent = ProcessId(trace.processes.len() as u32);
    trace.processes.push(Process { pid: 900, name: "parent".to_owned(), target: true, parent: None });
    for name in ["A", "B", "C"] {
        let process = process_of(&trace, name).index();
        (trace.processes[process].name, trace.processes[process].parent) =
            ("worker".to_owned(), Some(parent));
    }
    for name in ["S", "T", "U"] {
        if let Some(process) = trace.threads.iter().find(|thread| thread.name == name).map(|one| one.process)
        {
            trace.processes[process.index()].name = "archive".to_owned();
        }
    }
    trace
}

fn process_of(trace: &Trace, name: &str) -> ProcessId {
    trace.threads.iter().find(|thread| thread.name == name).expect("a lane").process
}

/// A lane that only waits for Q's word.
fn waits(letter: &str, cpu: u8) -> String {
    format!("{}{cpu}", letter.repeat(32))
}

fn found(analysis: &Analysis) -> Option<&Finding> {
    analysis.findings.iter().find(|finding| finding.rule == "skewed-workers")
}

#[test]
fn one_of_three_workers_with_all_the_work_is_reported() {
    let analysis = analyse(&workers(30, &waits("b", 2), &waits("c", 3), ""));
    let finding = found(&analysis).expect("a finding");
    assert_eq!(finding.confidence, Confidence::Medium, "{finding:#?}");
    assert!(finding.summary[0].contains("none in the other 2"), "{finding:#?}");
    // Busy for 32 of 33 ticks, and about 11 on average over all. Four of the 33 are not quiet.
    assert!(finding.gain.low == 0.0 && (0.55..0.67).contains(&finding.gain.high), "{:?}", finding.gain);
}

#[test]
fn a_thread_with_another_work_source_is_no_sibling() {
    let mut trace = workers(30, &waits("b", 2), &waits("c", 3), "");
    // Nobody's word ends what C waits for.
    let c = trace.target_threads().find(|id| trace.threads[id.index()].name == "C").expect("C");
    let rows = trace.wakeups.iter().filter(|one| one.wakee != c).copied().collect();
    trace.wakeups = holdup_events::tables::Wakeups::freeze(rows, trace.threads.len());
    assert!(found(&analyse(&trace)).is_none());
}

#[test]
fn workers_with_equal_work_are_not_skewed() {
    let analysis = analyse(&workers(
        30,
        &format!("2{}2b  holds f 0..1", "d".repeat(30)),
        &format!("3{}3c  holds g 0..1", "e".repeat(30)),
        &format!("T  f4{0}4ff  holds d 30..31\nU  g5{0}5gg  holds e 30..31\n", "s".repeat(28)),
    ));
    assert!(found(&analysis).is_none());
}

/// One that waits for work as well as the others has no more than there is: clients ask for no more.
#[test]
fn a_worker_that_waits_for_work_is_not_overloaded() {
    assert!(found(&analyse(&workers(25, &waits("b", 2), &waits("c", 3), ""))).is_none());
}

/// A free process takes the next connection. The least busy ones have little work because there is no more.
#[test]
fn workers_that_accept_connections_are_not_skewed() {
    let told = |call: &str| {
        let mut trace = workers(30, &waits("b", 2), &waits("c", 3), "");
        let wait =
            trace.waits.iter().position(|wait| wait.process == process_of(&trace, "B")).expect("B waits");
        if call == "accept" {
            trace.waits[wait].syscall = 43;
        }
        found(&analyse(&trace)).is_some()
    };
    assert_eq!((told("poll"), told("accept")), (true, false));
}
