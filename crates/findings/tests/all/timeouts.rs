//! Waits for answers that nothing but their time-out ended.

use holdup_events::CpuId;
use holdup_events::tables::{CountKind, KernelCountRow};
use holdup_findings::finding::{Confidence, Finding};
use holdup_findings::{Analysis, analyse};
use holdup_testkit::check::{check_lanes, trace_of_lanes};

/// `A` waits for a response for at most 30 ticks, then has the activity `between`, ten times.
fn picture(function: &str, between: &str) -> String {
    let (waits, work) = ("s".repeat(30), "1".repeat(30 + between.len() + 2));
    format!(
        "@repeat 10\n@cpus 2\n@s socket 47\n@f park\n@timeout s 30\n@stack s main;{function};recvmsg\n\
         A  0{waits}0{between}\n~B {work}\n"
    )
}

#[test]
fn name_lookups_without_a_response_are_reported() {
    let analysis = check_lanes(&picture("getaddrinfo", ""));
    let finding =
        analysis.findings.iter().find(|finding| finding.rule == "answer-timeout").expect("a finding");
    assert_eq!(finding.confidence, Confidence::High);
    assert!(finding.subject.contains("lookups without a response"), "{}", finding.subject);
    assert!(finding.gain.high > 0.8, "{:?}", finding.gain);
}

#[test]
fn another_time_out_is_a_hint_if_something_else_follows() {
    let analysis = check_lanes(&picture("ask", "fff0"));
    let finding =
        analysis.findings.iter().find(|finding| finding.rule == "answer-timeout").expect("a finding");
    assert_eq!(finding.confidence, Confidence::Low);
}

#[test]
fn repeated_identical_waits_are_polling() {
    check_lanes(&(picture("ask", "") + "@silent answer-timeout\n"));
}

/// `A` and `B` connect four times, by a wait of `ticks` ticks of 10 ms each. The kernel's network counters
/// are `again` and `full`.
fn connecting(wait: &str, ticks: usize, (again, full): (u64, u64)) -> Analysis {
    let waits = "c".repeat(ticks);
    let (_, mut trace) = trace_of_lanes(&format!(
        "@repeat 4\n@cpus 2\n@tick 10000000\n@c {wait}\n@stack c main;ask\nA  0{waits}0\nB  1{waits}1\n"
    ));
    let counted = |what, count| KernelCountRow { what, count, cpu: CpuId::NONE, ..KernelCountRow::default() };
    trace.kernel_counts =
        vec![counted(CountKind::SynRetransmits, again), counted(CountKind::ListenOverflows, full)];
    analyse(&trace)
}

fn retried(analysis: Analysis) -> Option<Finding> {
    analysis.findings.into_iter().find(|finding| finding.rule == "connect-retry")
}

#[test]
fn connecting_to_a_full_queue_waits_for_a_second() {
    let finding = retried(connecting("socket 42", 101, (8, 30))).expect("a finding");
    assert_eq!(finding.confidence, Confidence::High);
    assert!(finding.subject.contains("queue is full"), "{}", finding.subject);
    assert!(finding.gain.high > 0.9, "{:?}", finding.gain);
    let said = finding.summary.join(" ");
    assert!(said.contains("8 connections ended just after a whole second"), "{said}");
    assert!(said.contains("full 30 times") && said.contains("comes from ask"), "{said}");
    assert!(finding.advice[0].contains("somaxconn"), "{:?}", finding.advice);
}

#[test]
fn retransmits_without_a_full_queue_mean_no_response() {
    let finding = retried(connecting("socket 42", 301, (8, 0))).expect("a finding");
    assert!(finding.subject.contains("without a response"), "{}", finding.subject);
    assert!(finding.advice[0].contains("syn-sent"), "{:?}", finding.advice);
}

#[test]
fn a_wait_for_a_descriptor_may_be_for_a_connection() {
    let finding = retried(connecting("multiplex 7", 101, (8, 30))).expect("a finding");
    assert_eq!(finding.confidence, Confidence::Medium);
    assert_eq!(retried(connecting("multiplex 7", 101, (3, 30))), None, "others sent these packets");
}

/// Also a response each second. If threads connect, only these are reported.
#[test]
fn only_the_connecting_waits_are_reported() {
    let (_, mut trace) = trace_of_lanes(&format!(
        "@repeat 4\n@cpus 2\n@tick 10000000\n@c socket 42\n@d multiplex 7\nA  0{}0\nB  1{}1\n",
        "c".repeat(101),
        "d".repeat(101)
    ));
    let row = KernelCountRow { count: 9, cpu: CpuId::NONE, ..KernelCountRow::default() };
    trace.kernel_counts = vec![KernelCountRow { what: CountKind::SynRetransmits, ..row }];
    let finding = retried(analyse(&trace)).expect("a finding");
    assert!(finding.summary[0].starts_with("4 connections ended"), "{:?}", finding.summary);
    assert_eq!(finding.cost_ns, 4 * 1_010_000_000);
}

#[test]
fn the_accepting_thread_waits_while_event_loops_connect() {
    let finding = retried(connecting("socket 43", 90, (8, 30))).expect("a finding");
    assert_eq!(finding.confidence, Confidence::Medium);
    assert!(finding.summary[0].contains("The accepting thread waited 8 times"), "{:?}", finding.summary);
    assert_eq!(retried(connecting("socket 43", 90, (8, 0))), None, "no queue was full");
    assert_eq!(retried(connecting("socket 43", 90, (1, 30))), None, "one packet is none");
}

#[test]
fn other_waits_are_for_something_else() {
    assert_eq!(retried(connecting("socket 42", 101, (0, 0))), None, "nothing was sent again");
    assert_eq!(retried(connecting("socket 42", 130, (8, 30))), None, "it is no whole second");
    assert_eq!(retried(connecting("socket 42", 40, (8, 30))), None, "it is none at all");
    assert_eq!(retried(connecting("socket 45", 101, (8, 30))), None, "it receives");
}
