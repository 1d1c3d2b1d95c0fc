//! `api/summary`: the recording, its findings and its threads. The page requests it first.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use holdup_events::tables::Process;
use holdup_events::{Loss, ProcessId, ThreadId, Trace};
use holdup_findings::Finding;
use holdup_findings::analysis::Analysis;
use holdup_findings::derive::class::{CLASSES, Class};
use holdup_findings::derive::cpus::CpuUse;
use holdup_findings::derive::ledger::{ByClass, ThreadLedger};
use holdup_findings::derive::zoom::{CELLS, Tiling};
use holdup_findings::merging::Symptom;
use serde_json::{Value, json};

use super::lanes::cpu_number;
use super::{API_VERSION, Against, Ask, Refusal, Viewer, flame, tables, to_text};
use crate::{figures, json};

pub(super) fn answer(viewer: &Viewer, ask: &Ask) -> Result<String, Refusal> {
    if ask.flag("complete")? {
        viewer.needs_all()?;
    }
    Ok(to_text(&to_json(viewer, &[])))
}

/// Returns the response. `thinned`: the omissions of a file.
pub(super) fn to_json(viewer: &Viewer, thinned: &[String]) -> Value {
    let (trace, ledger) = (&viewer.trace, &viewer.totals);
    // Read once, because the analysis may be completed during this call.
    let all = viewer.analysis.get();
    let (findings, symptoms, skipped): (&[Finding], &[Symptom], &[_]) = match all {
        Some(all) => (&all.findings, &all.symptoms, &all.skipped),
        None => (&[], &[], &[]),
    };
    let mut out = of_recording(trace, &viewer.tiling);
    out.extend([
        ("pending", all.is_none().into()),
        ("classes", classes()),
        (
            "ledger",
            json!({
                "total_ns": ledger.total_ns,
                "classes": ledger.classes,
                "run_queue": json::run_queue(&ledger.run_queue),
                "split_error_ns": ledger.split_error_ns.into_iter().max(),
                "split_known": ledger.split_known,
                "samples": ledger.samples,
            }),
        ),
        ("threads", threads(viewer)),
        ("cpus", viewer.cpus.iter().map(cpu).collect()),
        ("findings", findings.iter().map(|one| json::findings::in_viewer(trace, ledger, one)).collect()),
        ("symptoms", symptoms.iter().map(symptom).collect()),
        ("skipped", skipped.iter().map(|(rule, reason)| json!({"rule": rule, "reason": reason})).collect()),
        ("busiest", all.and_then(|all| all.derived.busiest.as_ref()).map_or(Value::Null, json::busiest)),
        (
            "known_work",
            all.and_then(|all| all.derived.known_work.as_ref()).map_or(Value::Null, json::known_work),
        ),
        ("computes", all.map_or(Value::Null, |all| json::computes(trace, all))),
        ("parallelism", all.map_or(Value::Null, parallelism)),
        ("against", viewer.against.as_ref().map_or(Value::Null, against)),
        ("thinned", json!(thinned)),
    ]);
    json!(out)
}

/// The part of the summary that only needs the small tables: manifest, processes and losses.
pub(super) fn of_recording(trace: &Trace, tiling: &Tiling) -> BTreeMap<&'static str, Value> {
    let manifest = &trace.manifest;
    let loss = figures::loss(trace);
    BTreeMap::from([
        ("api", API_VERSION.into()),
        ("holdup", json!(manifest.holdup)),
        ("command", json!(manifest.command)),
        ("mode", json!(manifest.mode)),
        ("exit_status", json!(manifest.exit_status)),
        ("exit_signal", json!(manifest.exit_signal)),
        ("host", json!(manifest.host)),
        ("start_unix_ns", manifest.start_unix_ns.into()),
        ("wall_ns", trace.wall().0.into()),
        ("backend", figures::backend_name(manifest.backend).into()),
        ("backend_reason", json!(manifest.backend_reason)),
        ("recovered", manifest.recovered.into()),
        ("zoom", json!({"base_ns": tiling.base_ns(), "cells": CELLS, "level_max": tiling.level_max()})),
        ("processes", processes(trace)),
        ("damaged", crate::damage::to_json(trace)),
        ("losses", losses(trace)),
        ("loss", json!({"events": loss.events, "uncounted": loss.uncounted})),
        ("cost", json::cost(trace)),
        ("sources", json!(manifest.sources)),
        ("tables", json!(tables::list())),
        ("flames", json!(flame::list())),
    ])
}

/// The part of a thread's summary that only needs its row.
pub(super) fn of_thread(trace: &Trace, id: ThreadId, slices: u64) -> BTreeMap<&'static str, Value> {
    let row = trace.threads.get(id.index()).cloned().unwrap_or_default();
    BTreeMap::from([
        ("id", id.0.into()),
        ("tid", row.tid.into()),
        ("name", json!(row.name)),
        ("process", row.process.0.into()),
        ("target", row.target.into()),
        ("start_ns", row.start.since(trace.start()).0.into()),
        ("end_ns", row.end.since(trace.start()).0.into()),
        ("slices", slices.into()),
    ])
}

fn symptom(symptom: &Symptom) -> Value {
    json!({
        "of": symptom.root,
        "rule": symptom.finding.rule,
        "subject": symptom.finding.subject,
        "summary": symptom.finding.summary,
    })
}

fn parallelism(all: &Analysis) -> Value {
    let parallelism = &all.derived.parallelism;
    json!({"running_mean": parallelism.running_mean(), "wanting_mean": parallelism.wanting_mean()})
}

fn against(other: &Against) -> Value {
    json!({
        "command": other.manifest.command,
        "wall_ns": other.manifest.end_ns.saturating_sub(other.manifest.start_ns),
    })
}

fn processes(trace: &Trace) -> Value {
    let process = |(id, process): (usize, &Process)| {
        json!({
            "id": id,
            "pid": process.pid,
            "name": process.name,
            "target": process.target,
            "parent": process.parent.map(|parent| parent.0),
        })
    };
    trace.processes.iter().enumerate().map(process).collect()
}

fn losses(trace: &Trace) -> Value {
    let loss = |loss: &Loss| {
        json!({
            "source": loss.source,
            "reason": loss.reason,
            "cpu": cpu_number(loss.cpu),
            "start_ns": loss.start.since(trace.start()).0,
            "end_ns": loss.end.since(trace.start()).0,
            "events": loss.events,
        })
    };
    trace.losses.iter().map(loss).collect()
}

/// Indexed by code, which responses contain. `rank` is the position in reports.
fn classes() -> Value {
    let mut by_code: Vec<(usize, Class)> = Class::ALL.into_iter().enumerate().collect();
    by_code.sort_by_key(|(_, class)| *class as u8);
    debug_assert_eq!(by_code.len(), CLASSES);
    by_code
        .iter()
        .map(|(rank, class)| json!({"name": class.name(), "kind": kind(*class), "rank": rank}))
        .collect()
}

fn kind(class: Class) -> &'static str {
    match class {
        Class::RunQueue => "queue",
        Class::Stolen => "stolen",
        Class::Unknown => "unknown",
        class if class.is_wait() || class == Class::Stopped => "wait",
        _ => "running",
    }
}

/// The program's threads: first those that findings name, then by lost time. Other threads that ran follow.
pub(super) fn ranked_threads(viewer: &Viewer) -> Vec<ThreadId> {
    let mut named: BTreeMap<ThreadId, usize> = BTreeMap::new();
    let findings = viewer.analysis.get().map_or(&[][..], |all| &all.findings);
    let evidence = findings.iter().flat_map(|finding| &finding.evidence);
    for (place, row) in evidence.enumerate() {
        named.entry(row.thread).or_insert(place);
    }
    let mut ranked: Vec<&ThreadLedger> = viewer.totals.threads.iter().collect();
    ranked.sort_by_key(|ledger| {
        (
            named.get(&ledger.thread).copied().unwrap_or(usize::MAX),
            Reverse(lost_ns(&ledger.classes)),
            ledger.thread,
        )
    });
    ranked.into_iter().map(|ledger| ledger.thread).collect()
}

/// Time in which a thread neither ran nor was idle by choice. Only used for the order of lanes.
fn lost_ns(classes: &ByClass) -> u64 {
    let lost = |class: &Class| {
        !class.on_cpu()
            && !matches!(class, Class::WorkWait | Class::Sleep | Class::Stopped | Class::ChildWait)
    };
    Class::ALL.iter().filter(|class| lost(class)).map(|class| classes[*class as usize]).sum()
}

fn threads(viewer: &Viewer) -> Value {
    let ledgers = &viewer.totals.threads;
    let by_thread: BTreeMap<ThreadId, &ThreadLedger> = ledgers.iter().map(|one| (one.thread, one)).collect();
    let own = ranked_threads(viewer).into_iter().map(|id| (id, by_thread.get(&id).copied()));
    let all = (0..viewer.trace.threads.len() as u32).map(ThreadId);
    let is_foreign = |id: &ThreadId| !viewer.trace.threads[id.index()].target;
    let ran = |id: &ThreadId| !viewer.trace.slices.rows(*id).is_empty();
    let foreign = all.filter(|id| is_foreign(id) && ran(id)).map(|id| (id, None));
    own.chain(foreign).map(|(id, ledger)| thread(viewer, id, ledger)).collect()
}

fn thread(viewer: &Viewer, id: ThreadId, ledger: Option<&ThreadLedger>) -> Value {
    let mut out = of_thread(&viewer.trace, id, viewer.trace.slices.rows(id).len() as u64);
    if let Some(ledger) = ledger {
        out.extend([
            ("classes", json!(ledger.classes)),
            ("run_queue", json::run_queue(&ledger.run_queue)),
            ("blocked", ledger.blocked.into()),
            ("preempted", ledger.preempted.into()),
            ("migrations", ledger.migrations.into()),
        ]);
    }
    json!(out)
}

fn cpu(cpu: &CpuUse) -> Value {
    let other = |(process, ns): &(ProcessId, u64)| json!({"process": process.0, "ns": ns});
    json!({
        "cpu": cpu.cpu.0,
        "target_ns": cpu.target_ns,
        "others_ns": cpu.others_ns,
        "stolen_ns": cpu.stolen_ns,
        "idle_ns": cpu.idle_ns,
        "switches": cpu.switches,
        "others": cpu.others.iter().map(other).collect::<Value>(),
    })
}
