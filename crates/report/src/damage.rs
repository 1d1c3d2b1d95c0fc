//! Damaged tables of a recording, and the data missing because of each.

use holdup_events::Trace;
use holdup_events::recording::TABLES;
use serde_json::{Value, json};

/// Reason of the loss that represents an unreadable table.
const UNREADABLE: &str = "unreadable";
/// Reason of the loss that represents a table whose rows contradict another table or their own order.
const CONTRADICTORY: &str = "contradictory";

/// The data that is missing without a table.
const MISSING: [(&str, &str); 28] = [
    ("processes", "names and parents of processes"),
    ("threads", "all threads, and so nearly all figures"),
    ("slices", "what threads did when: the ledger, waits and most causes"),
    ("steals", "time that the hypervisor took"),
    ("deadlines", "timeouts of waits"),
    ("waits", "reasons and objects of waits: locks, files, sockets"),
    ("wakeups", "wakers of threads, and chains of waits"),
    ("samples", "samples on CPUs: functions that ran, and the split of running time"),
    ("stacks", "all stacks: functions of waits, wakers and samples, and causes that rest on them"),
    ("frames", "names of functions in stacks, and causes that rest on them"),
    ("syscalls", "syscalls in windows, and rates of calls"),
    ("calls", "counted syscalls"),
    ("call_parts", "times, sizes and callers of counted syscalls"),
    ("call_objects", "files, pipes and sockets of counted syscalls"),
    ("allocations", "sampled allocations"),
    ("kernel_counts", "the kernel's counts: CPU times, faults, network and limits"),
    ("faults", "sampled page faults"),
    ("watchpoints", "hits of watchpoints on shared cache lines"),
    ("task_waits", "waits of tasks for locks"),
    ("task_windows", "windows in which tasks were observed"),
    ("mappings", "mapped files, and so the files of functions"),
    ("variables", "names of variables in shared memory"),
    ("spans", "spans that runtimes reported, such as collections"),
    ("counters", "values that runtimes or hardware counters reported"),
    ("marks", "moments that runtimes reported"),
    ("lanes", "sources of spans, counters and marks"),
    ("names", "names of spans, counters and marks"),
    ("loss", "losses while recording: gaps are not known"),
];

/// A damaged table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Name of the table. Its file is `NAME.parquet`.
    pub table: &'static str,
    /// Whether no row can be read. Otherwise rows contradict each other, and were corrected or left out.
    pub unreadable: bool,
    /// The data missing because of it.
    pub missing: &'static str,
}

/// Damaged tables in the order of the format: unreadable tables first, then tables with contradictory rows.
pub fn damaged_tables(trace: &Trace) -> Vec<Damage> {
    let found = |table: &str, reason: &str| {
        trace.losses.iter().any(|loss| loss.source == table && loss.reason == reason)
    };
    let with = |reason: &'static str| {
        TABLES.iter().filter(move |table| found(table.name, reason)).map(move |table| Damage {
            table: table.name,
            unreadable: reason == UNREADABLE,
            missing: missing(table.name),
        })
    };
    with(UNREADABLE).chain(with(CONTRADICTORY)).collect()
}

fn missing(table: &str) -> &'static str {
    MISSING.iter().find(|(name, _)| *name == table).map_or("", |(_, missing)| missing)
}

/// Whether a loss represents a damaged table, not events lost during the recording.
pub(crate) fn is_damage(loss: &holdup_events::Loss) -> bool {
    let is_reason = [UNREADABLE, CONTRADICTORY].contains(&loss.reason.as_str());
    is_reason && TABLES.iter().any(|table| table.name == loss.source)
}

/// A sentence for each unreadable table, and one for all tables with contradictory rows.
pub fn sentences(trace: &Trace) -> Vec<String> {
    let damaged = damaged_tables(trace);
    let unreadable = damaged.iter().filter(|damage| damage.unreadable);
    let mut sentences: Vec<String> = unreadable
        .map(|damage| {
            format!("Damaged: {}.parquet cannot be read. Missing: {}.", damage.table, damage.missing)
        })
        .collect();
    let contradictory: Vec<String> = damaged
        .iter()
        .filter(|damage| !damage.unreadable)
        .map(|damage| format!("{}.parquet", damage.table))
        .collect();
    if !contradictory.is_empty() {
        let why = if sentences.is_empty() { "Damaged" } else { "Because of that" };
        sentences.push(format!(
            "{why}: rows of {} refer to rows that are missing, or are out of order.",
            contradictory.join(", ")
        ));
    }
    sentences
}

/// The same as JSON.
pub(crate) fn to_json(trace: &Trace) -> Value {
    let row = |damage: &Damage| {
        let reason = if damage.unreadable { UNREADABLE } else { CONTRADICTORY };
        json!({ "table": damage.table, "reason": reason, "missing": damage.missing })
    };
    damaged_tables(trace).iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use holdup_events::{CpuId, Loss};

    use super::*;

    fn loss(source: &str, reason: &str) -> Loss {
        Loss {
            source: source.to_owned(),
            reason: reason.to_owned(),
            cpu: CpuId::NONE,
            start: Default::default(),
            end: Default::default(),
            events: 0,
        }
    }

    #[test]
    fn of_every_table_it_is_known_what_is_missing_without_it() {
        for table in TABLES {
            assert!(!missing(table.name).is_empty(), "{}", table.name);
        }
        assert_eq!(TABLES.len(), MISSING.len());
    }

    #[test]
    fn damage_is_distinguished_from_lost_events() {
        let losses = vec![
            loss("slices", CONTRADICTORY),
            loss("sched", "ring-full"),
            loss("records", UNREADABLE),
            loss("stacks", UNREADABLE),
        ];
        let trace = Trace { losses, ..Trace::default() };
        let tables: Vec<(&str, bool)> =
            damaged_tables(&trace).iter().map(|damage| (damage.table, damage.unreadable)).collect();
        assert_eq!(tables, [("stacks", true), ("slices", false)]);
        let sentences = sentences(&trace);
        assert!(sentences[0].starts_with("Damaged: stacks.parquet cannot be read. Missing: all stacks"));
        assert!(sentences[1].starts_with("Because of that: rows of slices.parquet"), "{sentences:?}");
        let is_damage: Vec<bool> = trace.losses.iter().map(is_damage).collect();
        assert_eq!(is_damage, [true, false, false, true]);
    }
}
