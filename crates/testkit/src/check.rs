//! Checks a picture in lanes: what should be found is, what should not is not.

use std::ops::Range;

use holdup_decode::assemble;
use holdup_events::Trace;
use holdup_events::tables::FrameSpin;
use holdup_findings::{Analysis, Confidence, Finding, analyse};

use crate::drawing::{FUNCTION_BYTES, PROGRAM, START_NS, draw, tid};
use crate::lanes::{Expected, Lanes, parse};

/// Makes a recording from a picture, analyses it, and compares the findings with the expected ones. Returns
/// the analysis for checks that a picture cannot express.
///
/// # Panics
/// If an expected finding is missing, or a rule marked silent fires.
pub fn check_lanes(text: &str) -> Analysis {
    let (lanes, trace) = trace_of_lanes(text);
    let analysis = analyse(&trace);
    for expected in &lanes.expected {
        check_expected(&lanes, &trace, &analysis, expected);
    }
    for rule in &lanes.silent {
        let speaks = |finding: &&Finding| rule == "all" || finding.rule == rule;
        let finding = analysis.findings.iter().find(speaks);
        assert!(finding.is_none(), "{rule} must be silent: {finding:#?}\n{text}");
    }
    analysis
}

/// A picture and its trace, its functions named.
pub fn trace_of_lanes(text: &str) -> (Lanes, Trace) {
    let lanes = parse(text);
    let drawing = draw(&lanes);
    let mut trace = assemble(drawing.events, drawing.manifest);
    for frame in trace.frames.iter_mut().filter(|frame| frame.module == PROGRAM) {
        if let Some(name) = drawing.functions.get((frame.offset / FUNCTION_BYTES) as usize) {
            match name.split_once('~') {
                Some((function, watches)) => {
                    (frame.function, frame.watches) = (function.to_owned(), watches.to_owned());
                    frame.spin = FrameSpin::Rereads;
                }
                None => frame.function.clone_from(name),
            }
        }
    }
    (lanes, trace)
}

fn check_expected(lanes: &Lanes, trace: &Trace, analysis: &Analysis, expected: &Expected) {
    let of_rule: Vec<&Finding> =
        analysis.findings.iter().filter(|finding| finding.rule == expected.rule).collect();
    assert!(!of_rule.is_empty(), "{} finds nothing: {:#?}", expected.rule, analysis.derived.occupancy);
    let is_there = |finding: &&&Finding| points_at(lanes, trace, finding, expected);
    let Some(finding) = of_rule.iter().find(is_there) else {
        panic!("no evidence at {:?} of {}: {of_rule:#?}", expected.ticks, expected.waiter)
    };
    if let Some(holder) = &expected.holder {
        let said = finding.summary.join(" ") + &finding.subject;
        assert!(said.contains(holder.as_str()), "{holder} is not named: {said}");
    }
    if let Some(cost) = expected.cost {
        let ticks = (finding.cost_ns + lanes.tick_ns / 2) / lanes.tick_ns;
        assert_eq!(ticks, cost, "cost of {finding:#?}");
    }
    assert!(finding.gain.low <= finding.gain.high && finding.gain.high <= 1.0, "{finding:#?}");
}

/// Whether evidence of the finding lies in these ticks of that thread, in any repetition.
fn points_at(lanes: &Lanes, trace: &Trace, finding: &Finding, expected: &Expected) -> bool {
    let lane = lanes.threads.iter().position(|lane| lane.name == expected.waiter);
    let lane = lane.unwrap_or_else(|| panic!("no thread {}", expected.waiter));
    let length = lanes.threads[lane].ticks.len() as u64;
    finding.evidence.iter().any(|evidence| {
        let whose = trace.threads[evidence.thread.index()].tid == tid(lane);
        let from = (evidence.start.0 - START_NS) / lanes.tick_ns;
        let to = from + evidence.duration.0.div_ceil(lanes.tick_ns).max(1);
        let overlaps = |ticks: Range<u64>| from < ticks.end && ticks.start < to;
        let in_picture = |repetition: u64| {
            overlaps(expected.ticks.start + repetition * length..expected.ticks.end + repetition * length)
        };
        whose && (0..lanes.repeat).any(in_picture)
    })
}

/// The confidence of a rule's first finding, if it has one.
pub fn confidence(analysis: &Analysis, rule: &str) -> Option<Confidence> {
    analysis.findings.iter().find(|finding| finding.rule == rule).map(|finding| finding.confidence)
}
