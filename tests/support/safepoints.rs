//! HotSpot's own log of safepoints (`-Xlog:safepoint:file=FILE:tn`), compared with the recorded ones.

use serde_json::Value;

/// When each logged safepoint was over (ns of CLOCK_MONOTONIC): the thread that asks for them writes it before it asks for the next.
pub fn ends_ns(log: &str) -> Vec<u64> {
    let end = |line: &str| line.strip_prefix('[')?.split_once("ns]")?.0.parse().ok();
    log.lines().filter(|line| line.contains("Safepoint \"")).filter_map(end).collect()
}

/// Checks that each safepoint of the log, from the first recorded one on, was recorded. The only recorded one
/// without a log entry is the one that ends the virtual machine. Returns the number of earlier log entries.
pub fn assert_recorded(report: &Value, log: &str) -> usize {
    let stops = report["gc"]["stops"]["costliest"].as_array().expect("stops");
    let mut asked: Vec<u64> = stops.iter().filter_map(|stop| stop["asked_ns"].as_u64()).collect();
    asked.sort_unstable();
    assert_eq!(report["gc"]["stops"]["count"], asked.len(), "each is listed");
    let ends = ends_ns(log);
    let (Some(first), Some(last)) = (asked.first(), ends.last()) else {
        panic!("{} stops, {} safepoints in the log", asked.len(), ends.len());
    };
    let before = ends.iter().filter(|end| *end < first).count();
    let behind = asked.iter().filter(|asked| *asked > last).count();
    assert!(behind <= 1, "{behind} stops behind the last of the log");
    assert_eq!(
        asked.len() - behind,
        ends.len() - before,
        "of {} in the log {before} were before",
        ends.len()
    );
    // One lies between two ends of the log.
    let logged = &ends[before..];
    for (row, (asked, end)) in asked.iter().zip(logged).enumerate() {
        assert!(asked < end && (row == 0 || *asked > logged[row - 1]), "stop {row}: {asked}, ended {end}");
    }
    before
}
