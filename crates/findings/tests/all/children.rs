//! Waits for children, and waits that only resemble them.

use holdup_events::tables::Process;
use holdup_findings::analyse;
use holdup_testkit::check::{confidence, trace_of_lanes};

/// A parent with five children polls for the output of one of them, B.
#[test]
fn a_child_that_is_asked_again_and_again_is_no_piece_of_work() {
    let told = |how: &str| {
        // B works for each response, or only reports its progress without a request.
        let lanes = format!(
            "@cpus 4\n@repeat 20\n@q multiplex 232\n@p multiplex 232\n@s sleep\n@child B\n\
             A  0qqqqqqqqq  holds p 0..1\n\
             B  {how}1111111p  holds q 9..10\n"
        );
        let (_, mut trace) = trace_of_lanes(&lanes);
        let ids: Vec<_> = trace.target_threads().collect();
        let process = |number: usize| trace.threads[ids[number].index()].process;
        let (parent, child) = (process(0), process(1));
        trace.processes[child.index()].parent = Some(parent);
        for pid in 900..904 {
            trace.processes.push(Process { pid, name: "cc".to_owned(), target: true, parent: Some(parent) });
        }
        confidence(&analyse(&trace), "child-wait").is_some()
    };
    assert!(told("s1"), "it tells of its own");
    assert!(!told("p1"), "it answers");
}
