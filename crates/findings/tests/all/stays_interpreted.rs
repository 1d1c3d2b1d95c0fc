//! A JVM's function that is interpreted all along, on pictures.

use holdup_events::tables::GENERATED_MODULE;
use holdup_findings::{Analysis, Confidence, analyse};
use holdup_testkit::check::{confidence, trace_of_lanes};

/// Data: no code is mapped there.
const METHOD: u64 = 0x7f33_9740_f340;

/// Where lanes have the program's code.
const IN_CODE: u64 = 0x40_0100;

/// A and B run for three seconds, in `rate` from `from` to `to` of 300 ticks. Its frames are at `offset` of
/// generated code, `function_offset` bytes after the function's start.
fn run(from: usize, to: usize, (offset, function_offset): (u64, u64)) -> Analysis {
    let samples = |thread: &str| {
        let mut lines = format!("@samples {thread} {from}..{to} user work;cheapest;rate\n");
        for (start, end) in [(0, from), (to, 300)].into_iter().filter(|(start, end)| start < end) {
            lines += &format!("@samples {thread} {start}..{end} user work;cheapest;other\n");
        }
        lines
    };
    let lanes = format!("A  {}\nB  {}\n", "0".repeat(300), "1".repeat(300));
    let text = format!("@cpus 2\n@tick 10000000\n{}{}{lanes}", samples("A"), samples("B"));
    let (_, mut trace) = trace_of_lanes(&text);
    for frame in trace.frames.iter_mut().filter(|frame| frame.function == "rate") {
        (frame.module, frame.offset) = (GENERATED_MODULE.to_owned(), offset);
        frame.function_offset = function_offset;
    }
    analyse(&trace)
}

#[test]
fn a_hot_method_that_stays_interpreted_is_reported() {
    let analysis = run(0, 240, (METHOD, 0));
    let finding = analysis.findings.iter().find(|finding| finding.rule == "stays-interpreted").expect("it");
    assert!(finding.subject.starts_with("rate in "), "{}", finding.subject);
    assert_eq!(finding.confidence, Confidence::High);
    // 80 % of the work. Compiled code takes at most half of it.
    assert!((finding.gain.high - 0.8).abs() < 0.06, "{:?}", finding.gain);
    assert!((finding.gain.low - 0.37).abs() < 0.06, "{:?}", finding.gain);
    assert!(finding.evidence.len() == 2, "{:?}", finding.evidence);
}

#[test]
fn what_is_compiled_or_warms_up_or_is_seldom_is_none() {
    let code = 0x0055_5555_0000_0000;
    for (name, from, to, place) in [
        ("warms up", 0, 90, (METHOD, 0)),
        ("is little of it", 0, 50, (METHOD, 0)),
        ("is compiled: not at its beginning", 0, 240, (code, 64)),
        ("is compiled: its beginning is code", 0, 240, (IN_CODE, 0)),
    ] {
        let analysis = run(from, to, place);
        assert_eq!(confidence(&analysis, "stays-interpreted"), None, "{name}: {:#?}", analysis.findings);
    }
}
