//! Every key of the JSON is documented.

use std::collections::BTreeSet;

use holdup_events::recording::{CpuPlace, Fired};
use holdup_events::{CpuId, Loss, ThreadId, Timestamp, Trace};
use holdup_findings::analyse;
use holdup_findings::analysis::{Analysis, Derived};
use holdup_findings::derive::calls::{CallUse, Calls, Histogram};
use holdup_findings::derive::class::Class;
use holdup_findings::derive::garbage;
use holdup_findings::derive::gc::{Gc, LaneGc, Pause, Pauses};
use holdup_findings::derive::known_work::Known;
use holdup_findings::derive::lines::{LineThread, SharedData, Watched};
use holdup_findings::derive::occupancy::Stall;
use holdup_findings::derive::peers::Peer;
use holdup_findings::derive::rendezvous::{Causes, Late, Meeting, Rendezvous, SiteUse};
use holdup_findings::derive::runtimes::{RoleUse, RuntimeUse, Telling};
use holdup_findings::derive::spin::{Meanwhile, SpinUse};
use holdup_findings::derive::task_locks::{Held, TaskLock};
use holdup_findings::descriptors::Role;
use holdup_findings::merging::Symptom;
use holdup_findings::what_if::{self, what_if};
use holdup_report::stacks::Shape;
use holdup_report::{DoctorRow, DoctorStatus, StackAsk, list, to_json_with};
use holdup_report::{ProgramRow, doctor_json};
use holdup_testkit::check::trace_of_lanes;
use serde_json::Value;

use super::fired::pause_of;
use super::functions::annotated;
use super::memory::{add_allocations, add_faults};
use super::{BUSY, manifest, some_counts};

fn a_loss(start: Timestamp) -> Loss {
    let (source, reason) = ("sched".into(), "late".into());
    Loss { source, reason, cpu: CpuId::NONE, start, end: start, events: 1 }
}

/// Paths of all keys, `[]` for an array's items and `.*` for keys that are names.
fn paths(value: &Value, at: &str, out: &mut BTreeSet<String>) {
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                let named = ["classes", "errors_ns", "blocked_ns", "by_source", "ends"]
                    .iter()
                    .any(|map| at.ends_with(map));
                let dot = if at.is_empty() { "" } else { "." };
                let path = format!("{at}{dot}{}", if named { "*" } else { key });
                if !value.is_array()
                    || value.as_array().is_some_and(|items| items.iter().any(|it| !it.is_object()))
                {
                    out.insert(path.clone());
                }
                paths(value, &path, out);
            }
        }
        Value::Array(items) => {
            let path = format!("{at}[]");
            for item in items.iter().filter(|item| item.is_object()) {
                out.insert(path.clone());
                paths(item, &path, out);
            }
        }
        _ => {}
    }
}

/// Keys of experiments are on a page of their own. The commands' own tests compare that page with the output.
fn documented() -> BTreeSet<String> {
    let page = |name| std::fs::read_to_string(format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR")));
    let text = ["json.md", "json-calls.md", "json-memory.md", "json-over-time.md"]
        .map(|name| page(name).expect(name))
        .concat();
    let key = |line: &str| Some(line.strip_prefix("| `")?.split('`').next()?.to_owned());
    // Answers to queries are another crate's, and tested with the program.
    let is_ours = |section: &&str| !section.starts_with("`holdup query");
    text.split("\n## ").filter(is_ours).flat_map(str::lines).filter_map(key).collect()
}

fn an_empty_row() -> DoctorRow {
    DoctorRow { name: String::new(), status: DoctorStatus::Ok, what: String::new(), remedy: String::new() }
}

fn a_runtime() -> RuntimeUse {
    let used = RoleUse {
        role: Role::GcWork,
        what: "mark".into(),
        threads: 1,
        samples: 2,
        kernel_samples: 1,
        running_ns: 4_000_000,
        running_error_ns: 1_000_000,
        waits: 0,
        blocked_ns: 0,
        inferred_ns: 0,
    };
    RuntimeUse {
        name: "go".into(),
        title: "Go".into(),
        fewer_collections: String::new(),
        fewer_threads: String::new(),
        processes: 1,
        roles: vec![used],
        rules: 2,
        unmatched: vec!["io-poll: any runtime.netpoll".into()],
    }
}

fn some_shared_data() -> SharedData {
    SharedData {
        functions: vec![("work".into(), 1)],
        lines: vec![64],
        threads: vec![LineThread::default()],
        watched: Some(Watched::default()),
        ..SharedData::default()
    }
}

/// One call, recorded in each of the three ways.
fn some_calls(thread: ThreadId) -> Calls {
    let one = || Histogram([(1, 1)].into());
    let used = CallUse {
        threads: vec![(thread, 1)],
        by_error: vec![(11, 1)],
        times: one(),
        asked: one(),
        results: one(),
        callers: vec![("work".into(), 1)],
        ..CallUse::default()
    };
    let list = || vec![used.clone()];
    Calls {
        by_syscall: list(),
        by_object: list(),
        by_thread: list(),
        ring_operations: list(),
        ring_by_object: list(),
        ..Calls::default()
    }
}

/// A pause whose last thread waited for a CPU.
fn add_a_late_stop(rendezvous: &mut Rendezvous, thread: ThreadId) {
    let (meeting, late) = (rendezvous.meetings.len() as u32, Some(thread));
    rendezvous.meetings.push(Meeting { leader: late, last: late, ..Meeting::default() });
    rendezvous.lates.push(Late { meeting, occupant: late, ..Late::default() });
}

/// Makes it a recording of a program that was attached to, and still runs.
fn attach_to(trace: &mut Trace) {
    trace.manifest.mode = "attach".to_owned();
    trace.threads.iter_mut().for_each(|thread| thread.alive_at_end = true);
}

/// The keys that reports and `whatif` emit for this trace.
fn emitted_by_reports(trace: &Trace, analysis: &Analysis) -> BTreeSet<String> {
    let mut emitted = BTreeSet::new();
    let ask = StackAsk {
        function: Some("work".into()),
        shape: Shape::Tree,
        over_time: true,
        ..StackAsk::default()
    };
    paths(&to_json_with(trace, analysis, &ask), "", &mut emitted);
    let forecast = what_if(trace, &what_if::Ask { cpus: Some(4), ..what_if::Ask::default() }).unwrap();
    paths(&holdup_report::what_if_json(&forecast), "", &mut emitted);
    emitted
}

/// The keys of commands that need no recording, and of small recordings of their own.
fn add_emitted_without_a_recording(emitted: &mut BTreeSet<String>) {
    paths(&of_a_program_that_computes(), "", emitted);
    let annotated = annotated(|it| holdup_report::annotate::to_json(it).to_string());
    paths(&serde_json::from_str(&annotated).unwrap(), "", emitted);
    paths(&doctor_json(&[an_empty_row()], &[ProgramRow::default()], "bpf", ""), "", emitted);
    paths(&list::to_json(&[list::Row::default()]), "", emitted);
    paths(&holdup_report::explain::to_json(&holdup_findings::rules::all()), "", emitted);
}

#[test]
fn every_key_is_documented_and_every_documented_key_exists() {
    let (_, mut trace) = trace_of_lanes(BUSY);
    manifest(&mut trace);
    trace.manifest.host.places.push(CpuPlace::default());
    add_faults(&mut trace);
    let mut analysis = analyse(&trace);
    add_allocations(&mut trace);
    trace.manifest.fired.extend([pause_of(&trace, 8), Fired::default()]);
    trace.losses.push(Loss { end: trace.end(), ..a_loss(trace.start()) });
    let (source, reason) = ("marks".to_owned(), "unreadable".to_owned());
    trace.losses.push(Loss { source, reason, events: 0, ..a_loss(trace.start()) });
    analysis.skipped.push(("spin-wait", "no samples".into()));
    let lock = analysis.derived.locks.first_mut().unwrap();
    lock.waiting_at.push(("work".into(), 1));
    let thread = ThreadId(0);
    analysis.derived.spins.push(SpinUse {
        by_thread: vec![(thread, 1)],
        meanwhile: Meanwhile { worked: vec![(thread, 1)], ..Meanwhile::default() },
        ..SpinUse::default()
    });
    let mut causes = Causes::default();
    causes.blocked_ns[Class::IoWait as usize] = 1;
    analysis.derived.rendezvous.uses.push(SiteUse {
        by_last: vec![(thread, 1, 1)],
        late_at: vec![("work".into(), 1)],
        work: vec![(thread, 1)],
        causes,
        ..SiteUse::default()
    });
    add_a_late_stop(&mut analysis.derived.rendezvous, thread);
    analysis.derived.runtimes.push(a_runtime());
    analysis.derived.lines.push(some_shared_data());
    analysis.derived.calls = some_calls(thread);
    analysis.derived.hardware = some_counts(thread);
    let mut pauses = Pauses { count: 1, ..Pauses::default() };
    pauses.bins[0] = 1;
    let lane = LaneGc { threads: vec![thread], pauses: pauses.clone(), ..LaneGc::default() };
    let pause = Pause {
        thread,
        lane: 0,
        start: trace.start(),
        end: trace.end(),
        mostly: "minor".into(),
        mostly_ns: 1,
        ran_ns: 1,
    };
    analysis.derived.gc = Gc { lanes: vec![lane], pauses, slowest: vec![pause], ..Gc::default() };
    analysis.derived.garbage.sites.push(an_allocating_function());
    add_what_is_known(&mut analysis.derived);
    let finding = analysis.findings.first().expect("a finding").clone();
    analysis.symptoms.push(Symptom { root: 0, shared: 0.5, finding });
    let mut emitted = emitted_by_reports(&trace, &analysis);
    attach_to(&mut trace);
    emitted.extend(emitted_by_reports(&trace, &analysis));
    add_emitted_without_a_recording(&mut emitted);
    emitted.remove("[]");
    let documented = documented();
    let of = |a: &BTreeSet<String>, b: &BTreeSet<String>| a.difference(b).cloned().collect::<Vec<_>>();
    assert_eq!(of(&emitted, &documented), Vec::<String>::new(), "emitted but not documented");
    assert_eq!(of(&documented, &emitted), Vec::<String>::new(), "documented but not emitted");
}

fn add_what_is_known(derived: &mut Derived) {
    derived.task_locks.locks.push(TaskLock {
        elsewhere: vec![("work".into(), 1)],
        let_go: vec![("work".into(), 1)],
        holder_activity: vec![(Held::Ran, 1)],
        ..TaskLock::default()
    });
    derived.peers.rows.push(Peer::default());
    derived.runtime_events.push(Telling::default());
    derived.known_work = Some(Known::default());
}

fn of_a_program_that_computes() -> serde_json::Value {
    let (_, busy) = trace_of_lanes("@cpus 1\n@repeat 20\n@samples A 0..10 user main;work\nA 0000000000\n");
    to_json_with(&busy, &analyse(&busy), &StackAsk::default())
}

fn an_allocating_function() -> garbage::Site {
    garbage::Site { function: "work".into(), stacks: 1, samples: 1, itself_ns: 1, itself: Stall::default() }
}
