//! Calls that fail as often as threads sleep: what a pause before the next try is for. Known only where all calls were counted.

use std::collections::BTreeMap;

use crate::derive::calls::CallUse;
use crate::derive::clocked::Clocked;
use crate::scene::Scene;
use crate::wording::{count, error_name};

/// Maximum number of failures per sleep. The first attempt follows no sleep.
const MORE_MAX: f64 = 1.3;
/// See there.
const FEWER_MIN: f64 = 0.75;
/// Maximum number of calls that are named. More matches would be chance.
const NAMED_MAX: usize = 2;
/// A connection that is under way did not fail.
const EINPROGRESS: u64 = 115;

/// The failures of one syscall of the sleeping threads.
#[derive(Default)]
struct Failing<'a> {
    name: &'a str,
    calls: u64,
    by_error: BTreeMap<u64, u64>,
}

impl Failing<'_> {
    fn failed(&self) -> u64 {
        self.by_error.values().sum()
    }
}

/// Calls of the sleeping threads that fail about as often as these threads sleep. `None` if no call does, or
/// if calls were not counted.
pub fn before_sleeps(scene: &Scene, sleeping: &[Clocked]) -> Option<String> {
    let calls = &scene.derived.calls;
    if !calls.exact {
        return None;
    }
    let sleeps: u64 = sleeping.iter().map(|one| one.sleeps).sum();
    let is_sleepers = |used: &&CallUse| {
        let mut threads = used.threads.iter();
        threads.any(|(id, _)| sleeping.binary_search_by_key(id, |one| one.thread).is_ok())
    };
    let mut failing: BTreeMap<i32, Failing> = BTreeMap::new();
    for used in calls.by_thread.iter().filter(is_sleepers) {
        let one = failing.entry(used.syscall).or_default();
        (one.name, one.calls) = (used.name, one.calls + used.count);
        for (error, times) in used.by_error.iter().filter(|(error, _)| *error != EINPROGRESS) {
            *one.by_error.entry(*error).or_default() += times;
        }
    }
    let is_one = |one: &Failing| {
        let (failed, sleeps) = (one.failed() as f64, sleeps as f64);
        2 * one.failed() > one.calls && failed >= FEWER_MIN * sleeps && failed <= MORE_MAX * sleeps + 1.0
    };
    let mut found: Vec<Failing> = failing.into_values().filter(is_one).collect();
    found.sort_by_key(|one| one.failed().abs_diff(sleeps));
    let said = |one: &Failing| {
        let worst = one.by_error.iter().max_by_key(|(_, times)| **times);
        let error = worst.map_or_else(String::new, |(error, _)| error_name(*error));
        format!("{} ({error}, {})", one.name, count(one.failed(), "time"))
    };
    let named: Vec<String> = found.iter().take(NAMED_MAX).map(said).collect();
    (!named.is_empty())
        .then(|| format!("They made a failing call as often as they slept: {}.", named.join(", ")))
}
