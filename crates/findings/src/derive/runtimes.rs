//! Activity of each runtime or library by role, and the rules of its descriptor that matched nothing.
//!
//! Running time is sampled: a thread's samples divide its own running time. Blocked time is the exact length
//! of the waits that a rule applies to.

use std::collections::BTreeMap;

use holdup_events::tables::{HARDWARE, SpanKind, ThreadState};
use holdup_events::{ProcessId, ThreadId, Trace};

use super::ledger::Ledger;
use super::parallel;
use super::roles::{Basis, Roles};
use super::split::share_error;
use crate::descriptors::{Role, Rule, RuleId};

/// One runtime that was seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuntimeUse {
    /// Id of the runtime.
    pub name: String,
    /// For people.
    pub title: String,
    /// As in its descriptor.
    pub fewer_collections: String,
    /// As in its descriptor.
    pub fewer_threads: String,
    /// Number of the program's processes that contain it.
    pub processes: u32,
    /// Activity by role, largest first.
    pub roles: Vec<RoleUse>,
    /// Rules of its descriptor.
    pub rules: u32,
    /// Rules that matched nothing, by their role and first pattern.
    pub unmatched: Vec<String>,
}

/// One role that a runtime had.
#[derive(Clone, Debug, PartialEq)]
pub struct RoleUse {
    /// The role.
    pub role: Role,
    /// Display name: the lock's name, or the rule's own description. May be empty.
    pub what: String,
    /// Threads that were seen in it.
    pub threads: u32,
    /// On-CPU samples.
    pub samples: u64,
    /// Samples in the kernel, which do not count for the role's class.
    pub kernel_samples: u64,
    /// Running time (ns, sampled), including kernel time.
    pub running_ns: u64,
    /// Half the width of its 95 % interval (ns).
    pub running_error_ns: u64,
    /// Waits.
    pub waits: u64,
    /// Length of these waits (ns).
    pub blocked_ns: u64,
    /// Part of it that is derived from the stacks of other waits on the same futex word (ns).
    pub inferred_ns: u64,
}

/// Events that a runtime reported itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Telling {
    /// Name and version of the runtime.
    pub runtime: String,
    /// Lanes: domains, capabilities, goroutines.
    pub lanes: u64,
    /// Number of events.
    pub events: u64,
    /// Number of events that are matched to a thread.
    pub matched: u64,
    /// Number of spans.
    pub spans: u64,
    /// Number of spans that the program itself defined.
    pub own_spans: u64,
}

/// Events of each runtime, by name. Programs that define their own spans have an empty runtime name.
pub fn event_counts(trace: &Trace) -> Vec<Telling> {
    let mut all: BTreeMap<&str, Telling> = BTreeMap::new();
    for lane in trace.lanes.iter().filter(|lane| lane.runtime != HARDWARE) {
        let telling = all.entry(&lane.runtime).or_default();
        telling.lanes += 1;
        telling.events += lane.events;
        telling.matched += lane.matched;
    }
    for span in trace.spans.rows() {
        let Some(lane) = trace.lanes.get(span.lane as usize) else { continue };
        let telling = all.entry(&lane.runtime).or_default();
        telling.spans += 1;
        telling.own_spans += u64::from(trace.event_name(span.name).kind == SpanKind::User);
    }
    all.into_iter().map(|(runtime, telling)| Telling { runtime: runtime.to_owned(), ..telling }).collect()
}

/// Activity of one thread by one rule.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    samples: u64,
    kernel_samples: u64,
    waits: u64,
    blocked_ns: u64,
    inferred_ns: u64,
}

type ByRule = BTreeMap<RuleId, Sums>;

/// Sums up, the most particular runtime first.
pub fn derive(trace: &Trace, roles: &Roles, ledger: &Ledger) -> Vec<RuntimeUse> {
    let mut by_thread = waits(trace, roles);
    let mut sampled: BTreeMap<ThreadId, u64> = BTreeMap::new();
    for sample in &trace.samples {
        *sampled.entry(sample.thread).or_default() += 1;
        if let (Some(rules), Some(rule)) = (by_thread.get_mut(&sample.thread), roles.of_sample(sample)) {
            let sums = rules.entry(rule).or_default();
            sums.samples += 1;
            sums.kernel_samples += u64::from(sample.in_kernel);
        }
    }
    let running: BTreeMap<ThreadId, u64> =
        ledger.threads.iter().map(|thread| (thread.thread, thread.running_ns())).collect();
    let mut uses: BTreeMap<(usize, Role, String), (RoleUse, f64)> = BTreeMap::new();
    let mut matched = vec![false; roles.descriptors.rules().count()];
    let rules: Vec<(usize, &Rule)> = roles.descriptors.rules().collect();
    for (thread, by_rule) in &by_thread {
        let ran = running.get(thread).copied().unwrap_or(0) as f64;
        let all = sampled.get(thread).copied().unwrap_or(0);
        for (id, sums) in by_rule {
            let Some((runtime, rule)) = rules.get(usize::from(id.0)) else { continue };
            matched[usize::from(id.0)] = true;
            let what = if rule.lock.is_empty() { &rule.what } else { &rule.lock };
            let (used, variance) = uses
                .entry((*runtime, rule.role, what.clone()))
                .or_insert_with(|| (RoleUse::new(rule.role, what), 0.0));
            used.add(sums);
            if sums.samples > 0 {
                used.running_ns += (ran * sums.samples as f64 / all.max(1) as f64).round() as u64;
                *variance += (ran * share_error(sums.samples, all)).powi(2);
            }
        }
    }
    let mut found: BTreeMap<usize, RuntimeUse> = present(trace, roles);
    for ((runtime, ..), (mut used, variance)) in uses {
        used.running_error_ns = variance.sqrt().round() as u64;
        if let Some(found) = found.get_mut(&runtime) {
            found.roles.push(used);
        }
    }
    for ((runtime, rule), _) in rules.iter().zip(&matched).filter(|(_, matched)| !**matched) {
        if let Some(found) = found.get_mut(runtime) {
            found.unmatched.push(format!("{}: {}", rule.role.name(), rule.mark()));
        }
    }
    let mut list: Vec<RuntimeUse> = found.into_values().collect();
    for used in &mut list {
        used.roles.sort_by(|a, b| {
            let cost = |used: &RoleUse| std::cmp::Reverse((used.running_ns, used.blocked_ns));
            (cost(a), a.role, &a.what).cmp(&(cost(b), b.role, &b.what))
        });
    }
    list
}

impl RoleUse {
    fn new(role: Role, what: &str) -> RoleUse {
        RoleUse {
            role,
            what: what.to_owned(),
            threads: 0,
            samples: 0,
            kernel_samples: 0,
            running_ns: 0,
            running_error_ns: 0,
            waits: 0,
            blocked_ns: 0,
            inferred_ns: 0,
        }
    }

    fn add(&mut self, sums: &Sums) {
        self.threads += 1;
        self.samples += sums.samples;
        self.kernel_samples += sums.kernel_samples;
        self.waits += sums.waits;
        self.blocked_ns += sums.blocked_ns;
        self.inferred_ns += sums.inferred_ns;
    }
}

/// Runtimes of the program's processes.
fn present(trace: &Trace, roles: &Roles) -> BTreeMap<usize, RuntimeUse> {
    let mut found: BTreeMap<usize, RuntimeUse> = BTreeMap::new();
    for (row, _) in trace.processes.iter().enumerate().filter(|(_, process)| process.target) {
        for runtime in roles.runtimes_of(ProcessId(row as u32)) {
            let Some(described) = roles.descriptors.runtimes().get(*runtime) else { continue };
            let used = found.entry(*runtime).or_insert_with(|| RuntimeUse {
                name: described.name.clone(),
                title: described.title.clone(),
                fewer_collections: described.fewer_collections.clone(),
                fewer_threads: described.fewer_threads.clone(),
                rules: described.rules.len() as u32,
                ..RuntimeUse::default()
            });
            used.processes += 1;
        }
    }
    found
}

/// Waits of each target thread by rule, with an entry for every target thread.
fn waits(trace: &Trace, roles: &Roles) -> BTreeMap<ThreadId, ByRule> {
    let groups = parallel::thread_groups(trace);
    let parts = parallel::map(groups.len(), |group| {
        let targets = groups[group].clone().map(ThreadId).filter(|id| trace.threads[id.index()].target);
        let of_thread = |thread: ThreadId| {
            let mut by_rule = ByRule::new();
            for slice in trace.slices.of_thread(thread).filter(|slice| slice.state == ThreadState::Blocked) {
                let Some((rule, basis)) = roles.of_wait(&slice) else { continue };
                let sums = by_rule.entry(rule).or_default();
                sums.waits += 1;
                sums.blocked_ns += slice.duration().0;
                sums.inferred_ns += if basis == Basis::Others { slice.duration().0 } else { 0 };
            }
            (thread, by_rule)
        };
        targets.map(of_thread).collect::<Vec<_>>()
    });
    parts.into_iter().flatten().collect()
}
