//! What tiny-io, retry-storm and status-poll have in common: calls of a kind, and the CPU time that they take.

use holdup_events::recording::SourceState;
use holdup_events::{Duration, ThreadId};

use crate::derive::calls::CallUse;
use crate::derive::split::share_error;
use crate::finding::{Evidence, Gain};
use crate::scene::{EVIDENCE_MAX, Scene};
use crate::wording::{count, percent, rounded, thread, time};

/// Minimum share of all running time that is reported.
const SHARE_MIN: f64 = 0.1;
/// Fewer samples cannot place a share of a tenth.
const SAMPLES_MIN: u64 = 100;
/// Fewer calls a second are ordinary.
const PER_SECOND_MIN: f64 = 1000.0;
/// Threads and objects that are named.
const LISTED_MAX: usize = 3;
/// Sources that count calls: throughout, and now and then.
const COUNTING: [&str; 2] = ["syscalls", "syscall-windows"];

/// Calls of one syscall that have in common what a rule looks for.
#[derive(Clone, Debug)]
pub struct Asked<'a> {
    /// Number of the syscall.
    pub syscall: i32,
    /// Name of the syscall.
    pub name: &'static str,
    /// The uses that they belong to, the most calls first.
    pub uses: Vec<&'a CallUse>,
    /// How many of the calls that were counted.
    pub calls: u64,
    /// Number of counted calls of this syscall.
    pub of: u64,
}

/// Err, with the reason, if no syscalls were counted.
pub fn needs_counts(scene: &Scene) -> Result<(), String> {
    match scene.derived.calls.by_object.is_empty() {
        true => Err(uncounted(&scene.trace.manifest.sources)),
        false => Ok(()),
    }
}

/// Calls that a rule looks for, by syscall. `matches` returns the number of matching calls of a use. Err if
/// no calls were counted.
pub fn find<'a>(scene: &'a Scene, matches: impl Fn(&CallUse) -> u64) -> Result<Vec<Asked<'a>>, String> {
    needs_counts(scene)?;
    let calls = &scene.derived.calls;
    let mut found: Vec<Asked> = Vec::new();
    for one in &calls.by_syscall {
        let mut asked =
            Asked { syscall: one.syscall, name: one.name, uses: Vec::new(), calls: 0, of: one.count };
        for used in calls.by_object.iter().filter(|used| used.syscall == one.syscall) {
            let calls = matches(used);
            if calls > 0 {
                asked.calls += calls;
                asked.uses.push(used);
            }
        }
        if asked.calls > 0 {
            found.push(asked);
        }
    }
    found.retain(|asked| asked.is_costly(scene));
    found.sort_by(|a, b| b.cpu_ns(scene).cmp(&a.cpu_ns(scene)).then(a.syscall.cmp(&b.syscall)));
    Ok(found)
}

/// Why no call was counted.
fn uncounted(sources: &[SourceState]) -> String {
    let mut counting = sources.iter().filter(|source| COUNTING.contains(&source.name.as_str()));
    match counting.next() {
        None => "syscalls were not counted (--budget 0, or the perf or proc backend)".to_owned(),
        Some(source) if !source.missing.is_empty() => {
            format!("syscalls were not counted: {}", source.missing)
        }
        Some(source) if source.events == 0 => {
            "syscalls are counted in short windows, and the run was too short for one".to_owned()
        }
        Some(_) => "no syscall was called in the windows in which syscalls were counted".to_owned(),
    }
}

impl Asked<'_> {
    /// Estimated CPU time of these calls (ns): each takes as long as the others of its number.
    pub fn cpu_ns(&self, scene: &Scene) -> u64 {
        (self.all_cpu_ns(scene).0 as f64 * self.part()) as u64
    }

    fn part(&self) -> f64 {
        self.calls as f64 / self.of.max(1) as f64
    }

    /// CPU time of all calls of this number (ns), and on-CPU samples in them.
    fn all_cpu_ns(&self, scene: &Scene) -> (u64, u64) {
        let mut calls = scene.derived.syscalls.iter();
        calls.find(|call| call.number == self.syscall).map_or((0, 0), |call| (call.cpu_ns, call.samples))
    }

    fn is_costly(&self, scene: &Scene) -> bool {
        let running = scene.derived.ledger.running_ns().max(1) as f64;
        let all = scene.derived.ledger.samples;
        let (cpu_ns, samples) = self.all_cpu_ns(scene);
        let error = share_error(samples, all) * self.part();
        all >= SAMPLES_MIN
            && cpu_ns as f64 * self.part() / running - error >= SHARE_MIN
            && self.per_second(scene) >= PER_SECOND_MIN
    }

    /// Calls a second.
    pub fn per_second(&self, scene: &Scene) -> f64 {
        let rates = &scene.derived.syscall_rates.by_number;
        match rates.get(&self.syscall) {
            Some(rate) => rate.per_second * self.part(),
            None => self.calls as f64 / (scene.derived.calls.counted_ns.max(1) as f64 / 1e9),
        }
    }

    /// A sentence with the rate of these calls and their CPU time.
    pub fn rate_sentence(&self, scene: &Scene, which: &str) -> String {
        let counted = match scene.derived.calls.exact {
            true => "all counted".to_owned(),
            false => format!("counted in {}", count(scene.derived.syscall_rates.windows, "short window")),
        };
        let cpu_ns = self.cpu_ns(scene);
        format!(
            "{} is called {which} {} times a second ({counted}). These calls take {} of CPU time, {} of the total.",
            self.name,
            rounded(self.per_second(scene)),
            time(cpu_ns),
            percent(cpu_ns as f64 / scene.derived.ledger.running_ns().max(1) as f64),
        )
    }

    /// Sentences on the objects and callers of these calls.
    pub fn caller_sentences(&self, scene: &Scene) -> Vec<String> {
        let mut lines = Vec::new();
        let named: Vec<String> = self
            .uses
            .iter()
            .filter(|used| !used.object_name.is_empty())
            .take(LISTED_MAX)
            .map(|used| {
                format!("{} {}", used.object_name, percent(used.count as f64 / self.of.max(1) as f64))
            })
            .collect();
        let callers = |used: &CallUse| used.threads.iter().map(|(id, _)| *id).collect::<Vec<_>>();
        let mut threads: Vec<ThreadId> = self.uses.iter().flat_map(|used| callers(used)).collect();
        threads.sort_unstable();
        threads.dedup();
        if !named.is_empty() {
            lines.push(format!("On: {}.", named.join(", ")));
        }
        let some: Vec<String> = threads.iter().take(LISTED_MAX).map(|id| thread(scene.trace, *id)).collect();
        let more = threads.len().saturating_sub(LISTED_MAX);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        if !some.is_empty() {
            lines.push(format!("By: {}{more}{}.", some.join(", "), self.in_function()));
        }
        lines
    }

    fn in_function(&self) -> String {
        let callers = self.uses.iter().filter_map(|used| used.callers.first());
        callers.max_by_key(|(_, calls)| *calls).map_or_else(String::new, |(name, _)| format!(", in {name}"))
    }

    /// Share of the calls on the same objects that are to be made again.
    pub fn again_share(&self) -> f64 {
        let sums =
            self.uses.iter().fold((0, 0), |(again, all), used| (again + used.again(), all + used.count));
        sums.0 as f64 / sums.1.max(1) as f64
    }

    /// Upper bound: all CPU time of these calls. The lower bound is 0, because the necessary calls are not
    /// known.
    pub fn gain(&self, scene: &Scene) -> Gain {
        Gain { low: 0.0, high: scene.of_wall_if_run(self.cpu_ns(scene) as f64) }
    }

    /// Samples in these calls.
    pub fn evidence(&self, scene: &Scene) -> Vec<Evidence> {
        let callers: Vec<ThreadId> =
            self.uses.iter().flat_map(|used| used.threads.iter().map(|(id, _)| *id)).collect();
        let is_it = |thread: ThreadId| callers.is_empty() || callers.contains(&thread);
        let samples = scene.trace.samples.iter();
        samples
            .filter(|sample| sample.in_kernel && sample.syscall == self.syscall && is_it(sample.thread))
            .take(EVIDENCE_MAX)
            .map(|sample| Evidence {
                table: "samples",
                thread: sample.thread,
                start: sample.at,
                duration: Duration::ZERO,
                note: format!("in {}", self.name),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_for_uncounted_calls_comes_from_the_sources() {
        let source = |name: &str, events: u64, missing: &str| {
            vec![SourceState { name: name.into(), active: true, missing: missing.into(), events, lost: 0 }]
        };
        assert!(uncounted(&source("sched", 9, "")).contains("--budget 0"));
        assert!(uncounted(&source("syscall-windows", 0, "")).contains("too short"));
        assert!(uncounted(&source("syscall-windows", 0, "no room")).ends_with("counted: no room"));
        assert!(uncounted(&source("syscalls", 3, "")).contains("no syscall was called"));
    }
}
