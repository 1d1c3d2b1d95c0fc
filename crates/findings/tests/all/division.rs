//! Forecasts of locks behind which threads take turns: whether they share one job, on pictures.

use holdup_findings::analyse;
use holdup_testkit::check::trace_of_lanes;

/// The upper bound without a lock. A works under it for eight of ten ticks, and B, in `function`, for two.
fn most(function: &str) -> f64 {
    let (_, trace) = trace_of_lanes(&format!(
        "@cpus 2\n@repeat 40\n@samples A 0..8 user main;scale\n@samples B 8..10 user main;{function}\n\
         A  00000000mm  holds m 0..8\n\
         B  mmmmmmmm11  holds m 8..10\n"
    ));
    let analysis = analyse(&trace);
    let finding = analysis.findings.iter().find(|finding| finding.rule == "lock-contention");
    finding.unwrap_or_else(|| panic!("{:#?}", analysis.findings)).gain.high
}

#[test]
fn pieces_of_one_job_would_be_shared_evenly() {
    let (one_job, two_jobs) = (most("scale"), most("log"));
    assert!((0.45..0.6).contains(&one_job), "{one_job}");
    // A thread with another job has only its own work. The other thread's eight ticks remain.
    assert!((0.15..0.3).contains(&two_jobs), "{two_jobs}");
}
