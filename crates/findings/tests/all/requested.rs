//! Collections that a program asks for.

use holdup_findings::{Analysis, analyse};
use holdup_testkit::check::trace_of_lanes;

/// A collects for eight ticks of ten, come to it by these functions.
fn collected(by: &str, beside: &str) -> Analysis {
    let (_, trace) = trace_of_lanes(&format!(
        "@cpus 2\n@repeat 20\n@samples A 0..2 user Py_RunMain;report.build\n\
         @samples A 2..6 user Py_RunMain;report.build;{by};gc_collect_main\n\
         @samples A 6..10 user Py_RunMain;report.build;{beside};gc_collect_main\n\
         A  0000000000\n"
    ));
    analyse(&trace)
}

fn gc_heavy(analysis: &Analysis) -> (String, Vec<String>) {
    let finding = analysis.findings.iter().find(|finding| finding.rule == "gc-heavy");
    let finding = finding.unwrap_or_else(|| panic!("{:#?}", analysis.findings));
    (finding.summary.join(" "), finding.advice.clone())
}

#[test]
fn explicit_collections_get_advice_against_them() {
    let (said, advice) = gc_heavy(&collected("gc_collect", "gc_collect"));
    assert!(said.contains("requests collections with gc_collect for report.build: 100 %"), "{said}");
    assert!(advice.len() == 1 && advice[0].contains("gc.collect()"), "{advice:?}");
}

#[test]
fn partly_explicit_collections_are_reported_with_their_share() {
    let (said, advice) = gc_heavy(&collected("gc_collect", "PyObject_GC_New"));
    assert!(said.contains("for report.build: 50 %"), "{said}");
    assert_eq!(advice.len(), 1, "{advice:?}");
    let (said, advice) = gc_heavy(&collected("PyObject_GC_New", "PyObject_GC_New"));
    assert!(!said.contains("itself requests collections"), "{said}");
    assert!(advice.len() == 2 && advice[0].contains("gc.set_threshold"), "{advice:?}");
}

/// A collects for longer than B, in a small share of its running time.
#[test]
fn the_thread_with_the_largest_collecting_share_comes_first() {
    let (_, trace) = trace_of_lanes(&format!(
        "@cpus 2\n@samples A 0..370 user Py_RunMain;report.build\n\
         @samples A 370..400 user Py_RunMain;report.build;PyObject_GC_New;gc_collect_main\n\
         @samples B 0..28 user Py_RunMain;report.build\n\
         @samples B 28..50 user Py_RunMain;report.build;PyObject_GC_New;gc_collect_main\n\
         A  {}\nB  {}\n",
        "0".repeat(400),
        "1".repeat(50),
    ));
    let (said, _) = gc_heavy(&analyse(&trace));
    assert!(said.starts_with("B ("), "{said}");
}
