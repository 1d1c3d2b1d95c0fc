//! Verdicts that are easily confused: pictures that differ only in the deciding detail.

use holdup_events::Trace;
use holdup_events::recording::MemoryUse;
use holdup_events::tables::FrameKind;
use holdup_findings::derive::class::Class;
use holdup_findings::{Analysis, Confidence, Finding, analyse};
use holdup_testkit::check::{check_lanes, confidence, trace_of_lanes};

fn of_rule<'a>(analysis: &'a Analysis, rule: &str) -> Option<&'a Finding> {
    analysis.findings.iter().find(|finding| finding.rule == rule)
}

/// Makes the functions of these names the kernel's.
fn in_kernel(trace: &mut Trace, names: &[&str]) {
    for frame in trace.frames.iter_mut().filter(|frame| names.contains(&frame.function.as_str())) {
        (frame.kind, frame.module) = (FrameKind::Kernel, "[kernel]".to_owned());
    }
}

/// Waits of A for `m`, of C for `n`, and of D for `o`. B holds all three.
const THREE_WORDS: &str = "@cpus 4\n@n lock\n@o lock\n@repeat 20\n\
     A  0000mmmm\n\
     B  11111111  holds m 0..8  holds n 0..8  holds o 0..8\n\
     C  2222nnnn\n\
     D  3333oooo\n";

/// The locks of that picture, given the addresses of its words.
fn locks_at(words: [u64; 3]) -> usize {
    let (_, mut trace) = trace_of_lanes(THREE_WORDS);
    let letter = |letter: char| 0x1000 + 16 * u64::from(letter as u32);
    for (word, drawn) in words.iter().zip(['m', 'n', 'o'].map(letter)) {
        for wait in trace.waits.iter_mut().filter(|wait| wait.object == drawn) {
            wait.object = *word;
        }
    }
    analyse(&trace).derived.locks.len()
}

#[test]
fn two_words_of_one_lock_are_reported_once() {
    // Readers' and writers' words of glibc's reader-writer lock, and a lock elsewhere.
    assert_eq!(locks_at([0x5008, 0x500c, 0x6000]), 2);
}

#[test]
fn words_in_a_row_and_words_apart_are_locks_of_their_own() {
    assert_eq!(locks_at([0x5008, 0x500c, 0x5010]), 3);
    assert_eq!(locks_at([0x500c, 0x5010, 0x6000]), 3);
    assert_eq!(locks_at([0x5008, 0x5010, 0x6000]), 3);
}

/// A submits, and waits for the answer.
const RING: &str = "@cpus 2\n@u io-uring\n@repeat 40\n\
     @samples A 0..2 426 main;get;io_uring_enter;asked\n@samples A 2..4 user main;use\n\
     A  00uuuu00\n";

fn ring_class(asked: &str) -> (Analysis, Class) {
    ring_of(&RING.replace("asked", asked), asked)
}

fn ring_of(drawing: &str, asked: &str) -> (Analysis, Class) {
    let (_, mut trace) = trace_of_lanes(drawing);
    in_kernel(&mut trace, &[asked]);
    let analysis = analyse(&trace);
    let longest = Class::ALL.into_iter().filter(|class| class.is_wait());
    let class = longest.max_by_key(|class| analysis.derived.ledger.class_ns(*class)).unwrap();
    (analysis, class)
}

#[test]
fn a_ring_that_reads_a_disk_waits_for_the_disk() {
    let (analysis, class) = ring_class("submit_bio_noacct");
    assert_eq!(class, Class::IoWait);
    assert!(of_rule(&analysis, "blocking-io").is_some(), "{:#?}", analysis.findings);
}

#[test]
fn requests_that_go_many_at_a_time_overlap_already() {
    let asked = "submit_bio_noacct";
    let with = |requests: u64| {
        let ring = format!("@io 0..320 A 426 80 {requests} 0\n{}", RING.replace("asked", asked));
        let finding = of_rule(&ring_of(&ring, asked).0, "blocking-io").cloned().expect("a finding");
        (finding.confidence, finding.summary.join(" "))
    };
    let (alone, batch) = (with(1), with(32));
    assert!(alone.0 > Confidence::Low && alone.1.contains("submits 1.0 requests"), "{alone:?}");
    assert!(batch.0 == Confidence::Low && batch.1.contains("submits 32.0 requests"), "{batch:?}");
}

#[test]
fn a_ring_that_serves_sockets_waits_for_something_to_do() {
    for asked in ["tcp_recvmsg", "io_read"] {
        let (analysis, class) = ring_class(asked);
        assert_eq!(class, Class::WorkWait, "{asked}");
        assert!(of_rule(&analysis, "blocking-io").is_none(), "{asked}");
    }
}

#[test]
fn a_herd_at_instances_of_epoll_of_their_own_is_one_herd() {
    let analysis = check_lanes(
        "@cpus 5\n@tick 5000\n@e multiplex\n@f multiplex\n@g multiplex\n@h multiplex\n@repeat 200\n\
         A  00000000000000000000  holds e 0..20  holds f 0..20  holds g 0..20  holds h 0..20\n\
         B  eeeee1111111111eeeee\n\
         C  fffff2ffffffffffffff\n\
        \x20       ^                thundering-herd waiter=C\n\
         D  ggggg3gggggggggggggg\n\
         E  hhhhh4hhhhhhhhhhhhhh\n",
    );
    let said = of_rule(&analysis, "thundering-herd").unwrap().subject.clone();
    assert!(said.starts_with("3 threads"), "{said}");
}

#[test]
fn event_loops_that_are_woken_one_by_one_are_no_herd() {
    check_lanes(
        "@cpus 5\n@tick 100000\n@e multiplex\n@f multiplex\n@g multiplex\n@repeat 200\n@silent thundering-herd\n\
         A  00000000000000000000  holds e 0..20  holds f 0..20  holds g 0..20\n\
         B  eeeee1eeeeeeeeeeeeee\n\
         C  ffffffffff2fffffffff\n\
         D  ggggggggggggggg3gggg\n",
    );
}

#[test]
fn a_straggler_displaced_by_another_program_is_a_hint() {
    let picture = |other: &str| {
        format!(
            "@cpus 4\n@b barrier\n@repeat 20\n@silent load-imbalance\n\
             A       0rrrr000  holds b 0..8\n\
             B       111bbb11\n\
             C       222bbb22\n\
             {other} .0000...\n"
        )
    };
    let confidence_of =
        |other: &str| confidence(&check_lanes(&picture(other)), "barrier-straggler").expect("a finding");
    assert_eq!(confidence_of("~backup"), Confidence::Low);
    // The program's own thread has the CPU: that is the program's to mend.
    assert_eq!(confidence_of("backup "), Confidence::High);
}

/// A works in memory that it allocates. `call` is made in between.
fn faulting(call: &str) -> (Trace, Analysis) {
    let picture = format!(
        "@cpus 2\n@repeat 20\n\
         @samples A 0..6 user start_thread;main;blur;asm_exc_page_fault;clear_page\n\
         @samples A 6..8 {call}\n\
         A  00000000\n"
    );
    let (_, mut trace) = trace_of_lanes(&picture);
    in_kernel(&mut trace, &["asm_exc_page_fault", "clear_page", "unmap_page_range"]);
    for sample in &mut trace.samples {
        let leaf = trace.stacks.frames(sample.stack).next();
        let is_kernel = leaf.is_some_and(|id| trace.frames[id.index()].kind == FrameKind::Kernel);
        sample.in_kernel = is_kernel;
    }
    let analysis = analyse(&trace);
    (trace, analysis)
}

#[test]
fn memory_that_is_given_back_and_got_again_is_more_than_a_hint() {
    let (_, analysis) = faulting("11 start_thread;main;free;unmap_page_range");
    assert_eq!(confidence(&analysis, "page-fault-storm"), Some(Confidence::Medium));
    let finding = of_rule(&analysis, "page-fault-storm").unwrap();
    // A quarter is spent on freeing. The margin of its forecast is 5.5 points.
    assert!(finding.gain.high > 0.95 && (0.18..0.22).contains(&finding.gain.low), "{finding:#?}");
}

#[test]
fn what_a_command_took_beyond_its_peak_it_took_again() {
    let low = |peak_bytes: u64| {
        let (mut trace, _) = faulting("11 start_thread;main;free;unmap_page_range");
        let memory = MemoryUse { minor_faults: 1000, peak_bytes, page_bytes: 4096 };
        trace.manifest.memory = Some(memory);
        of_rule(&analyse(&trace), "page-fault-storm").unwrap().gain.low
    };
    assert!(low(40_960) > 0.8, "{}", low(40_960));
    // All of its memory was allocated at the same time. A larger page may exceed the counted memory.
    for peak_bytes in [4_096_000, 10_000_000] {
        assert!((0.18..0.22).contains(&low(peak_bytes)), "{}", low(peak_bytes));
    }
}

#[test]
fn memory_that_is_got_once_is_a_hint() {
    let (_, analysis) = faulting("user start_thread;main;blur");
    assert_eq!(confidence(&analysis, "page-fault-storm"), Some(Confidence::Low));
}

#[test]
fn both_sides_of_a_delayed_acknowledgement_lose_the_same_time() {
    // Timers are late by up to two ticks of 4 ms. The waiting thread is reported, whichever threads use the
    // CPUs.
    let analysis = check_lanes(
        "@cpus 2\n@n socket\n@repeat 20\n\
         A     00nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn\n\
         B     11nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn\n\
         ~one  ..000000000000000000000000000000000000000000000000\n\
         ~two  ..111111111111111111111111111111111111111111111111\n",
    );
    let finding = of_rule(&analysis, "delayed-ack").expect("a finding");
    assert!(finding.gain.high > 0.9, "{:?}", finding.gain);
    assert!(finding.subject.starts_with('A'), "{}", finding.subject);
}

#[test]
fn long_calls_are_no_storm_though_their_number_is_not_well_known() {
    // 6,000 calls a second, ± as many. The lower bound is 50 µs each, with twice as many calls.
    check_lanes(
        "@cpus 1\n@repeat 50\n@silent syscall-storm\n\
         @calls 10..20 0 10\n@calls 40..50 0 20\n@calls 110..120 0 10\n@calls 140..150 0 200\n\
         @samples A 0..1 0 main;get\n@samples A 1..2 user main;get\n@samples A 2..4 0 main;get\n\
         @samples A 4..5 user main;get\n@samples A 5..6 0 main;get\n\
         A  000000\n",
    );
    // A million a second, with the same uncertainty. They are short, or it is not known, and the summary
    // states that.
    check_lanes(
        "@cpus 1\n@repeat 50\n\
         @calls 10..20 0 2000\n@calls 40..50 0 4000\n@calls 110..120 0 2000\n@calls 140..150 0 40000\n\
         @samples A 0..1 0 main;get\n@samples A 1..2 user main;get\n@samples A 2..4 0 main;get\n\
         @samples A 4..5 user main;get\n@samples A 5..6 0 main;get\n\
         A  000000\n\
        \x20   ^^^^^^   syscall-storm holder=read\n",
    );
}

#[test]
fn working_alone_because_of_another_program_is_no_serial_section() {
    let picture = |other: &str| {
        format!(
            "@cpus 2\n@b barrier\n@repeat 20\n\
             A       000rrr000  holds b 0..9\n\
             B       111111bbb\n\
             {other} ...000...\n"
        )
    };
    let analysis = check_lanes(&picture("~backup"));
    let sure = analysis.findings.iter().filter(|finding| finding.confidence > Confidence::Low);
    let rules: Vec<&str> = sure.map(|finding| finding.rule).collect();
    assert_eq!(rules, ["noisy-neighbour"], "{:#?}", analysis.findings);
    assert_eq!(confidence(&analysis, "barrier-straggler"), Some(Confidence::Low));
    // Without another program it has more work, and that is reported.
    let analysis = check_lanes(
        "@cpus 2\n@b barrier\n@repeat 20\n@silent noisy-neighbour\n\
         A       000000000  holds b 0..9\n\
         B       111111bbb\n",
    );
    assert_eq!(confidence(&analysis, "load-imbalance"), Some(Confidence::High));
}
