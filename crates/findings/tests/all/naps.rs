//! Forecasts, on pictures, of programs with threads that wait by the clock. Waits that do not depend on the
//! clock may shrink.

use holdup_findings::derive::locks::LockIndex;
use holdup_findings::derive::replay::{Change, Facts, Replays, forecast};
use holdup_findings::derive::roles::Roles;
use holdup_findings::derive::timelines::Timelines;
use holdup_testkit::{assemble, drawing, lanes};

/// How long a run would take without its only lock (ms).
fn without_lock(picture: &str) -> f64 {
    let drawing = drawing::draw(&lanes::parse(picture));
    let trace = assemble(drawing.events, drawing.manifest);
    let (timelines, roles) = (Timelines::derive(&trace), Roles::built_in(&trace));
    let locks = LockIndex::new(&trace, &roles);
    let facts = Facts { trace: &trace, timelines: &timelines, roles: &roles, locks: &locks, cpus: 4 };
    let unchanged = Replays::new(facts);
    let off = unchanged.wall_ns() as f64 / trace.wall().0 as f64 - 1.0;
    assert!(off.abs() <= 0.01, "the replay with nothing changed is off by {off}");
    forecast(facts, &[Change::WithoutLock(0)], &unchanged).wall_ns as f64 / 1e6
}

/// Two threads that take turns for 360 ms, one for 4 of 10, the other for 6. In parallel they would take 216.
/// `third` is another thread that lives as long.
fn turns_with(third: &str) -> String {
    let turns = |pattern: &str| pattern.repeat(36);
    format!("@cpus 4\nA  {}000\nB  {}1..\n{third}", turns("0000mmmmmm"), turns("mmmm111111"))
}

#[test]
fn housekeeping_scales_with_the_length_of_the_run() {
    let naps = format!("{}2", "s".repeat(120)).repeat(3);
    let ms = without_lock(&turns_with(&format!("@s sleep\nhouse  {naps}\n")));
    assert!((216.0..=235.0).contains(&ms), "{ms} ms");
}

#[test]
fn timed_work_stays_complete() {
    // For a tenth of the time: that is no housekeeping.
    let works = format!("{}22", "s".repeat(18)).repeat(18);
    let ms = without_lock(&turns_with(&format!("@s sleep\nclock  {works}...\n")));
    assert!(ms > 350.0, "{ms} ms");
}

/// A thread that waits for work for a hundred milliseconds at a time, and gets work at the end. It checks for
/// `look` ms.
fn helper(look: usize) -> String {
    let nap = format!("{}{}", "e".repeat(100), "2".repeat(look));
    let waits = format!("{}{}", nap.repeat(3), "e".repeat(363)).chars().take(361).collect::<String>();
    turns_with(&format!("@e park\n@timeout e 100\nhelper  {waits}22\n"))
}

#[test]
fn a_wait_with_a_time_out_ends_when_what_it_is_for_comes() {
    let ms = without_lock(&helper(1));
    assert!((216.0..=240.0).contains(&ms), "{ms} ms");
    // A thread with work after each timeout has periodic work by the clock.
    let ms = without_lock(&helper(15));
    assert!(ms > 300.0, "{ms} ms");
}
