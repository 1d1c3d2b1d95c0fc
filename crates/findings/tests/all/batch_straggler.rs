//! Questions that go out in groups, of which each waits for its slowest answer, and what only looks so.

use holdup_findings::finding::{Confidence, Finding};
use holdup_findings::{Analysis, analyse};
use holdup_testkit::check::{check_lanes, trace_of_lanes};

const POLLS: &str = "efguxzk";

/// A polls for answers of B, another process, which polls for questions and for its clock.
fn picture(lanes: &str) -> String {
    let polls: String = POLLS.chars().map(|letter| format!("@{letter} multiplex 232\n")).collect();
    format!(
        "@cpus 4\n@repeat 20\n{polls}@v multiplex 232\n@w multiplex 232\n@timeout w 20\n@timeout v 2\n@p multiplex 232\n@child B\n{lanes}"
    )
}

fn asked(lanes: &str) -> Analysis {
    check_lanes(&picture(lanes))
}

fn found(analysis: &Analysis) -> Option<&Finding> {
    analysis.findings.iter().find(|finding| finding.rule == "batch-straggler")
}

/// Three requests: two get a quick response, the third a late one. `after` is A's activity after that, before
/// the next three requests. `meanwhile` is B's.
fn group(after: &str, meanwhile: &str) -> String {
    format!(
        "A  00000eee0ff0{}0{after}  holds p 0..1  holds u 2..3  holds x 4..5\n\
         B  p1u1x1v1zz1{}1{meanwhile}p  holds e 7..8  holds f 10..11  holds g 31..32\n",
        "g".repeat(20),
        "w".repeat(20),
    )
}

#[test]
fn batches_that_wait_for_their_slowest_response_are_reported() {
    let analysis = asked(&group("", ""));
    let finding = found(&analysis).expect("a finding");
    assert_eq!(finding.confidence, Confidence::Medium, "{finding:#?}");
    assert!(finding.summary[0].contains("20 groups: at least 3 requests"), "{finding:#?}");
    let is_told = |rule: &str| analysis.findings.iter().any(|finding| finding.rule == rule);
    assert!(!is_told("one-at-a-time") && !is_told("oversleep") && !is_told("poll-loop"));
}

#[test]
fn batches_started_by_a_timer_or_another_program_are_not_reported() {
    let told = |after: &str, meanwhile: &str, more: &str| {
        found(&asked(&format!("@c multiplex 232\n@s sleep\n{}{more}", group(after, meanwhile)))).is_some()
    };
    assert!(told("11", "pp", ""), "it works before it asks again");
    assert!(!told("vv0", "ppp", ""), "by its own clock");
    let other = format!("@child C\nC  {}1  holds c 35..36\n", "s".repeat(35));
    assert!(!told("cc0", "ppp", &other), "by another program's word");
}

#[test]
fn a_client_with_constant_requests_in_flight_sends_no_batches() {
    // Two are under way all the time: each answer is followed by a question.
    let analysis = asked(
        "@silent batch-straggler\n\
         A  00000ee0ff0gg0kk0  holds p 0..1  holds u 2..3  holds x 7..8  holds x 10..11\n\
         B  p1u11v1xzz1xzz1zzp  holds e 6..7  holds f 9..10  holds g 12..13  holds k 15..16\n",
    );
    assert!(found(&analysis).is_none());
}

#[test]
fn an_answer_in_pieces_is_no_group() {
    let (rest, sleeps) = ("g".repeat(20), "w".repeat(20));
    asked(&format!(
        "@silent batch-straggler\n\
         A  0eee0ff0{rest}0  holds p 0..1\n\
         B  p1v1zz1{sleeps}1p  holds e 3..4  holds f 6..7  holds g 27..28\n"
    ));
}

/// Another program may have the service's name: a language's runtime.
#[test]
fn the_batch_source_and_the_service_may_share_a_name() {
    let other = format!("@child C\nC  {}1  holds c 35..36\n", "s".repeat(35));
    let lanes = picture(&format!("@c multiplex 232\n@s sleep\n{}{other}", group("cc0", "ppp")));
    let (_, mut trace) = trace_of_lanes(&lanes);
    trace.processes.iter_mut().for_each(|process| process.name = "python3".to_owned());
    assert!(found(&analyse(&trace)).is_none());
}
