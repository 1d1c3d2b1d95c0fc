//! The report on hand-made recordings: goldens read by people, keys that are documented, names that bite.
//! `HOLDUP_BLESS=1` writes the goldens anew.

mod sockets;

use std::collections::BTreeSet;

use holdup_events::recording::{Cost, Fired, Rung, SourceState};
use holdup_events::tables::{AllocationRow, CountKind, FaultRow, KernelCountRow, PYTHON_MODULE};
use holdup_events::{CpuId, Duration, Loss, StackId, ThreadId, Timestamp, Trace};
use holdup_findings::analysis::Derived;
use holdup_findings::derive::calls::{CallUse, Calls, Histogram};
use holdup_findings::derive::class::Class;
use holdup_findings::derive::garbage;
use holdup_findings::derive::gc::{Gc, LaneGc, Pause, Pauses};
use holdup_findings::derive::hardware::{Counts, Hardware};
use holdup_findings::derive::known_work::Known;
use holdup_findings::derive::lines::{LineThread, SharedData, Watched};
use holdup_findings::derive::occupancy::Stall;
use holdup_findings::derive::peers::Peer;
use holdup_findings::derive::rendezvous::{Causes, Late, Meeting, Rendezvous, SiteUse};
use holdup_findings::derive::runtimes::{RoleUse, RuntimeUse, Telling};
use holdup_findings::derive::spin::{Meanwhile, SpinUse};
use holdup_findings::derive::stacks::{Spot, function_costs};
use holdup_findings::derive::task_locks::{Held, TaskLock};
use holdup_findings::descriptors::Role;
use holdup_findings::merging::Symptom;
use holdup_findings::what_if::{self, what_if};
use holdup_findings::{Analysis, analyse};
use holdup_report::annotate::{Annotation, MachineCode};
use holdup_report::stacks::{Shape, parse_classes};
use holdup_report::{
    DoctorRow, DoctorStatus, StackAsk, Style, list, render, render_named, render_with, to_json, to_json_with,
};
use holdup_testkit::check::trace_of_lanes;
use proptest::prelude::*;
use serde_json::Value;

/// A lock, a foreign program in front, the disk, a late thread.
const BUSY: &str = "@cpus 2\n@d disk\n@repeat 40\n\
    @samples worker-1 0..4 user main;work\n@samples worker-2 4..8 0 main;read_all\n\
    worker-1  0000mmmmrr0dd0\n\
    worker-2  mmmm1111011rr1  holds m 4..8\n\
    ~noisy    ....0000.0.00.\n";

fn manifest(trace: &mut Trace) {
    let manifest = &mut trace.manifest;
    manifest.command = vec!["./stress".into(), "--threads=2".into()];
    manifest.mode = "run".into();
    manifest.cost = Cost {
        recorder_cpu_ns: 4_000_000,
        probes_cpu_ns: 2_000_000,
        probes_cpu_error_ns: 300_000,
        stacks_cpu_ns: 0,
        budget_percent: 0.0,
        switches: 560,
        bytes: 4_480,
        recorder_memory_bytes: 20 << 20,
    };
    let source = |name: &str, events| SourceState {
        name: name.into(),
        active: events > 0,
        missing: if events > 0 { "" } else { "no hardware counters: ask for a machine that has them" }.into(),
        events,
        lost: 0,
    };
    manifest.sources = vec![source("sched", 1_310_000), source("counters", 0)];
}

fn busy() -> (Trace, Analysis) {
    let (_, mut trace) = trace_of_lanes(BUSY);
    manifest(&mut trace);
    let analysis = analyse(&trace);
    (trace, analysis)
}

fn golden(name: &str, said: &str) {
    let path = format!("{}/tests/goldens/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    assert!(said.lines().count() <= 60, "{name} is too long for people:\n{said}");
    if std::env::var_os("HOLDUP_BLESS").is_some() {
        std::fs::write(&path, said).unwrap();
    }
    let wanted = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}\n{said}"));
    assert_eq!(said, wanted, "{name} (HOLDUP_BLESS=1 accepts)");
}

fn sections(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn default_report() {
    let (trace, analysis) = busy();
    golden("report", &render(&trace, &analysis, &[], &Style::default()).unwrap());
    let wide = Style { width: 120, ..Style::default() };
    golden("report-wide", &render(&trace, &analysis, &[], &wide).unwrap());
}

#[test]
fn ascii_report() {
    let (trace, analysis) = busy();
    let style = Style { unicode: false, ..Style::default() };
    let said = render(&trace, &analysis, &sections(&["ledger"]), &style).unwrap();
    assert!(said.is_ascii());
    golden("report-ascii", &said);
}

#[test]
fn every_section() {
    let (trace, analysis) = busy();
    let names = ["locks", "waits", "critical-path"];
    golden("waits", &render(&trace, &analysis, &sections(&names), &Style::default()).unwrap());
    let names = ["threads", "cpus", "syscalls", "sched", "losses", "sources"];
    golden("sections", &render(&trace, &analysis, &sections(&names), &Style::default()).unwrap());
}

fn a_loss(start: Timestamp) -> Loss {
    let (source, reason) = ("sched".into(), "late".into());
    Loss { source, reason, cpu: CpuId::NONE, start, end: start, events: 1 }
}

/// Drawn at two places: small ones that another thread frees, a large one that stays.
fn add_allocations(trace: &mut Trace) {
    let stacks = [0, 1].map(|thread| {
        let sample = trace.samples.iter().find(|sample| sample.thread == ThreadId(thread));
        sample.map(|sample| sample.stack).unwrap_or_default()
    });
    for number in 0..40u64 {
        let at = trace.start() + Duration(number * 1_000_000);
        let is_large = number % 20 == 0;
        trace.allocations.push(AllocationRow {
            thread: ThreadId(u32::from(is_large)),
            at,
            address: 4096 * number,
            bytes: if is_large { 3 << 20 } else { 96 },
            every_bytes: 65_536,
            own_bytes: 32,
            stack: stacks[usize::from(is_large)],
            freed: (!is_large).then_some(at + Duration(5_000)),
            freed_by: (!is_large).then_some(ThreadId(u32::from(number % 2 == 0))),
        });
    }
    let source =
        SourceState { name: "allocations".into(), active: true, events: 78, ..SourceState::default() };
    trace.manifest.sources.push(source);
}

/// Faults of two threads, and shootdowns that one sends to the other.
fn add_faults(trace: &mut Trace) {
    let stack = trace.samples.iter().find(|sample| sample.stack != StackId::NONE).map(|sample| sample.stack);
    let counted = |thread: u32, what, count| KernelCountRow {
        thread: Some(ThreadId(thread)),
        cpu: CpuId::NONE,
        what,
        syscall: if what == CountKind::ShootdownsSent { 10 } else { 0 },
        start: trace.start(),
        end: trace.end(),
        count,
    };
    let mut rows = vec![
        counted(0, CountKind::MinorFaults, 12_000),
        counted(0, CountKind::MajorFaults, 7),
        counted(0, CountKind::ShootdownsSent, 400),
        counted(1, CountKind::MinorFaults, 90),
        counted(1, CountKind::ShootdownInterrupts, 380),
        counted(1, CountKind::ShootdownInterruptNs, 600_000),
        counted(0, CountKind::HugePages, 3),
        counted(0, CountKind::LimitReclaims, 40),
        counted(0, CountKind::LimitReclaimNs, 3_000_000),
    ];
    let of_cpu = |cpu: u16, count| KernelCountRow {
        thread: None,
        cpu: CpuId(cpu),
        ..counted(0, CountKind::CpuShootdowns, count)
    };
    rows.extend([of_cpu(0, 20), of_cpu(1, 365)]);
    let of_machine = |what, count| KernelCountRow { cpu: CpuId::NONE, what, ..of_cpu(0, count) };
    rows.extend([
        of_machine(CountKind::DiskReadBytes, 64 << 20),
        of_machine(CountKind::RefaultBytes, 48 << 20),
    ]);
    let half = trace.start() + Duration(trace.wall().0 / 2);
    for (start, end, user) in [(trace.start(), half, 190_000_000), (half, trace.end(), 90_000_000)] {
        let time = |cpu, what, count| KernelCountRow { what, start, end, ..of_cpu(cpu, count) };
        rows.extend([time(0, CountKind::CpuUser, user), time(0, CountKind::CpuSystem, 80_000_000)]);
        rows.extend([time(1, CountKind::CpuSteal, 10_000_000), time(1, CountKind::CpuIdle, 270_000_000)]);
    }
    trace.kernel_counts = rows;
    let fault = |number: u64| FaultRow {
        thread: ThreadId(0),
        at: trace.start() + Duration(number * 1_000_000),
        address: 4096 * number,
        stands_for: 600,
        stack: stack.unwrap_or_default(),
        ..FaultRow::default()
    };
    trace.faults = (0..20).map(fault).collect();
}

#[test]
fn faults_by_thread_and_place_and_how_times_went() {
    let (_, mut trace) = trace_of_lanes(BUSY);
    manifest(&mut trace);
    add_faults(&mut trace);
    let analysis = analyse(&trace);
    let ask = StackAsk { over_time: true, ..StackAsk::default() };
    let names = sections(&["cpus", "threads"]);
    golden("over-time", &render_with(&trace, &analysis, (&names, &ask), &Style::default()).unwrap());
    golden("faults", &render(&trace, &analysis, &sections(&["faults"]), &Style::default()).unwrap());
}

#[test]
fn allocations_by_site_and_around_a_function() {
    let (mut trace, analysis) = busy();
    let said = |trace: &Trace, ask: &StackAsk| {
        render_with(trace, &analysis, (&sections(&["allocs"]), ask), &Style::default()).unwrap()
    };
    assert!(said(&trace, &StackAsk::default()).contains("holdup run --allocs"));
    add_allocations(&mut trace);
    let ask = StackAsk { operations: Some(1_000), ..StackAsk::default() };
    golden("allocs", &said(&trace, &ask));
    golden("allocs-function", &said(&trace, &StackAsk { function: Some("work".into()), ..ask.clone() }));
    let none = said(&trace, &StackAsk { function: Some("nosuch".into()), ..ask.clone() });
    assert!(none.contains("Nothing was allocated through that function."));
    let mut before = ask;
    before.selection.to = trace.start() + Duration(1);
    assert!(said(&trace, &before).contains("1 allocation drawn"), "{}", said(&trace, &before));
    trace.allocations.clear();
    assert!(said(&trace, &StackAsk::default()).contains("No allocation was drawn"));
}

#[test]
fn stacks_flat_tree_and_around_a_function() {
    let (trace, analysis) = busy();
    let said = |ask: &StackAsk| {
        render_with(&trace, &analysis, (&sections(&["stacks"]), ask), &Style::default()).unwrap()
    };
    golden("stacks", &said(&StackAsk::default()));
    let tree = StackAsk { shape: Shape::Tree, ..StackAsk::default() };
    let named = StackAsk { classes_named: true, selection: parse_classes("on-cpu").unwrap(), ..tree };
    golden("stacks-tree", &said(&named));
    let around = StackAsk { function: Some("work".into()), shape: Shape::Callers, ..named };
    golden("stacks-function", &said(&around));
    let none = StackAsk { function: Some("nosuch".into()), ..StackAsk::default() };
    assert!(said(&none).contains("No stack goes through that function."));
}

/// A loop that calls, and a jump over it: `test; je end; again: call f; dec; jne again; end: ret`.
const CODE: [u8; 15] = [0x85, 0xff, 0x74, 0x0a, 0xe8, 0xf7, 0x0e, 0, 0, 0xff, 0xcf, 0x75, 0xf7, 0xc3, 0xc3];

fn annotated(render: impl Fn(&Annotation) -> String) -> String {
    // The function `work` lies at 0x100 in the picture's file, and was seen at 0x110.
    let (_, trace) = trace_of_lanes("@samples A 0..6 user main;work\nA  00000000\n");
    let mut costs = function_costs(&trace, &holdup_findings::derive::stacks::Selection::all(), "work");
    let offset = costs[0].spots.keys().next().unwrap() - 9;
    let code = MachineCode { offset, address: 0x1100, bytes: CODE.to_vec() };
    let spot = costs[0].spots.values_mut().next().unwrap();
    (spot.file, spot.line) = ("/src/work.c".into(), 7);
    let source = |file: &str, line: u32| (file == "/src/work.c" && line == 7).then(|| "\tn--;".to_owned());
    let name_at = |address: u64| (address == 0x2000).then(|| "f".to_owned());
    render(&Annotation {
        title: "work",
        cost: &costs[0],
        code: &code,
        name_at: &name_at,
        source: &source,
        whole: false,
    })
}

#[test]
fn lines_of_an_interpreted_function_with_their_cost() {
    let (_, trace) = trace_of_lanes("@samples A 0..6 user main;work\nA  00000000\n");
    let mut costs = function_costs(&trace, &holdup_findings::derive::stacks::Selection::all(), "work");
    let cost = &mut costs[0];
    (cost.module, cost.function) = (PYTHON_MODULE.to_owned(), "app.work".to_owned());
    let (at, mut spot) = cost.spots.pop_first().unwrap();
    spot.file = "/src/app.py".to_owned();
    // Two places of line 21, and one of line 3.
    for (place, line) in [(at, 21), (at + 2, 21), (at + 4, 3)] {
        cost.spots.insert(place, Spot { line, ..spot.clone() });
        cost.all.merge(&spot.own);
    }
    let source = |_: &str, line: u32| Some(format!("    step {line}"));
    let (code, name_at) = (MachineCode::default(), |_: u64| None);
    let of_lines = Annotation {
        title: "app.work",
        cost: &costs[0],
        code: &code,
        name_at: &name_at,
        source: &source,
        whole: false,
    };
    golden("annotate-lines", &holdup_report::annotate::render(&of_lines, &Style::default()));
    let rows = holdup_report::annotate::to_json(&of_lines)["instructions"].as_array().unwrap().clone();
    assert_eq!((rows.len(), &rows[18]["line"], &rows[18]["address"]), (19, &21.into(), &21.into()));
}

#[test]
fn instructions_with_their_cost() {
    golden("annotate", &annotated(|it| holdup_report::annotate::render(it, &Style::default())));
    let ascii = Style { unicode: false, ..Style::default() };
    assert!(annotated(|it| holdup_report::annotate::render(it, &ascii)).is_ascii());
}

#[test]
fn poor_recording() {
    let (_, mut trace) = trace_of_lanes("@cpus 4\nA  00000000\n");
    manifest(&mut trace);
    trace.manifest.rung = Rung::Proc;
    trace.manifest.rung_reason = "kernel.perf_event_paranoid is 4".into();
    trace.manifest.recovered = true;
    let gap = |events| Loss {
        source: "sched".into(),
        reason: "ring-full".into(),
        cpu: CpuId(1),
        start: Timestamp(1_001_000_000),
        end: Timestamp(1_002_000_000),
        events,
    };
    trace.losses = vec![gap(1_234), gap(0)];
    let analysis = analyse(&trace);
    let names = sections(&["ledger", "findings", "losses"]);
    golden("poor", &render(&trace, &analysis, &names, &Style::default()).unwrap());
}

#[test]
fn empty_recording() {
    let trace = Trace::default();
    golden("empty", &render(&trace, &analyse(&trace), &[], &Style::default()).unwrap());
}

#[test]
fn doctor_and_list() {
    let row = |name: &str, status, what: &str, remedy: &str| DoctorRow {
        name: name.into(),
        status,
        what: what.into(),
        remedy: remedy.into(),
    };
    let rows = [
        row(
            "bpf-programs",
            DoctorStatus::Missing,
            "loading a program is refused",
            "sudo setcap cap_bpf,cap_perfmon+ep holdup",
        ),
        row("perf-own-processes", DoctorStatus::Ok, "perf_event_open works for own processes", ""),
        row(
            "hardware-counters",
            DoctorStatus::Degraded,
            "the machine has none: figures come from the clock, which is enough for all but cache misses",
            "",
        ),
    ];
    golden(
        "doctor",
        &holdup_report::render_doctor(&rows, "perf", "loading a program is refused", &Style::default()),
    );
    let recordings = [list::Row {
        path: "stress.holdup".into(),
        command: "./stress -n\n".into(),
        started_unix_ns: 1_795_235_400_000_000_000,
        wall_ns: 12_650_000_000,
        bytes: 10_300_000,
    }];
    golden("list", &list::render(&recordings, &Style::default()));
}

#[test]
fn unknown_sections_are_answered_with_the_names() {
    let (trace, analysis) = busy();
    let error = render(&trace, &analysis, &sections(&["ledgr"]), &Style::default()).unwrap_err();
    assert_eq!(error.names, holdup_report::section_names());
    assert!(error.to_string().contains("`ledgr`; there are: ledger, findings, threads"), "{error}");
}

#[test]
fn json_adds_up() {
    let (trace, analysis) = busy();
    let json = to_json(&trace, &analysis);
    let sum = |classes: &Value| -> u64 {
        classes.as_object().unwrap().values().map(|ns| ns.as_u64().unwrap()).sum()
    };
    assert_eq!(sum(&json["ledger"]["classes"]), json["ledger"]["total_ns"].as_u64().unwrap());
    assert_eq!(sum(&json["ledger"]["run_queue"]), analysis.derived.ledger.of(Class::RunQueue));
    assert_eq!(json["threads"].as_array().unwrap().len(), 2);
    for thread in json["threads"].as_array().unwrap() {
        let life = thread["end_ns"].as_u64().unwrap() - thread["start_ns"].as_u64().unwrap();
        assert_eq!(sum(&thread["classes"]), life);
    }
    assert!(!json["findings"].as_array().unwrap().is_empty());
    // 6 ms of CPU in 560 ms on 2 CPUs.
    assert!((json["cost"]["percent"].as_f64().unwrap() - 0.5357).abs() < 0.001);
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

/// Those of experiments are on a page of their own; the commands' own tests hold that against what they print.
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

/// One call, told in each of the three ways.
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

fn some_counts(thread: ThreadId) -> Hardware {
    let of = |cycles| Counts {
        stretches: 1,
        counted_ns: 2_000_000,
        values: vec![(cycles, 2_000_000), (9_000_000, 2_000_000)],
    };
    Hardware {
        names: vec!["cycles".into(), "instructions".into()],
        all: of(6_000_000),
        covered: 0.5,
        by_class: vec![(Class::Useful, of(6_000_000)), (Class::Spin, of(3_000_000))],
        by_thread: vec![(thread, of(6_000_000))],
    }
}

#[test]
fn hardware_counters_come_with_instructions_a_cycle_or_with_why_there_are_none() {
    let (_, mut trace) = trace_of_lanes(BUSY);
    manifest(&mut trace);
    let thread = trace.target_threads().next().expect("a thread");
    let mut analysis = analyse(&trace);
    let told = |trace: &Trace, analysis: &Analysis| {
        render(trace, analysis, &sections(&["counters"]), &Style::default()).unwrap()
    };
    assert!(told(&trace, &analysis).contains("not asked for"));
    let missing = "this machine does not count cycles".to_owned();
    trace.manifest.sources.push(SourceState {
        name: "hardware-counters".into(),
        missing,
        ..SourceState::default()
    });
    assert!(told(&trace, &analysis).contains("does not count cycles"));
    analysis.derived.hardware = some_counts(thread);
    let text = told(&trace, &analysis);
    let row = |name: &str| text.lines().find(|line| line.trim_start().starts_with(name)).expect(name);
    assert!(
        text.contains("50.0 %") && row("useful").ends_with("1.50") && row("spin").ends_with("3.00"),
        "{text}"
    );
    assert!(row("all  ").contains("3,000,000,000"), "{text}");
}

/// A pause whose last thread waited for a CPU.
fn add_a_late_stop(rendezvous: &mut Rendezvous, thread: ThreadId) {
    let (meeting, late) = (rendezvous.meetings.len() as u32, Some(thread));
    rendezvous.meetings.push(Meeting { leader: late, last: late, ..Meeting::default() });
    rendezvous.lates.push(Late { meeting, occupant: late, ..Late::default() });
}

#[test]
fn what_a_flight_recorder_saved_it_for_comes_first() {
    let (_, mut trace) = trace_of_lanes(BUSY);
    manifest(&mut trace);
    let fired = |tid, what: &str| Fired {
        trigger: "pause:lock>20ms".into(),
        at_ns: trace.start().0 + 1_500_000,
        tid,
        thread: "worker\u{1b}[2J".into(),
        what: what.into(),
        length_ns: 0,
    };
    let all = vec![fired(7, "waited for a lock for 31.0 ms"), fired(0, "2"), fired(0, "3"), fired(0, "4")];
    trace.manifest.fired = all;
    let analysis = analyse(&trace);
    let wide = Style { colour: false, width: 100, unicode: true };
    let text = render(&trace, &analysis, &[], &wide).unwrap();
    let lines: Vec<&str> = text.lines().take(5).collect();
    assert!(lines[0].starts_with("Saved at 1.50 ms by pause:lock>20ms: thread 7 (worker"), "{lines:?}");
    assert!(!text.contains('\u{1b}'), "names are foreign text");
    assert_eq!(lines[3], "  and 1 more by the end");
}

/// A lane's wait that ended at that tick of [`BUSY`] fired.
fn pause_of(trace: &Trace, tick: u64) -> Fired {
    let length_ns = 4_000_000;
    let (tid, at_ns) = (trace.threads[0].tid, trace.start().0 + tick * 1_000_000);
    Fired {
        tid,
        at_ns,
        length_ns,
        trigger: "pause:lock>3ms".into(),
        what: "waited".into(),
        ..Fired::default()
    }
}

#[test]
fn of_a_pause_that_fired_the_report_says_why() {
    let (_, mut trace) = trace_of_lanes(BUSY);
    manifest(&mut trace);
    trace.manifest.fired.push(pause_of(&trace, 8));
    let text =
        render(&trace, &analyse(&trace), &[], &Style { colour: false, width: 100, unicode: true }).unwrap();
    let lines: Vec<&str> = text.lines().take(3).collect();
    assert!(
        lines[1].starts_with("  worker-1 (") && lines[1].contains("waited 4.00 ms for a lock"),
        "{lines:?}"
    );
    assert!(
        lines[2].starts_with("  worker-2 (")
            && lines[2].contains(" had it; meanwhile it ran in the kernel for 4.00 ms"),
        "{lines:?}"
    );
    // Nothing is said of a moment in which the thread did not wait, or that is not in the recording.
    for (tick, length_ns) in [(3, 2_000_000), (900_000, 1_000)] {
        trace.manifest.fired = vec![Fired { length_ns, ..pause_of(&trace, tick) }];
        let text = render(&trace, &analyse(&trace), &[], &Style { colour: false, width: 100, unicode: true })
            .unwrap();
        assert_eq!(text.lines().nth(1), Some("./stress --threads=2"), "{tick}");
    }
}

#[test]
fn every_key_is_documented_and_every_documented_key_exists() {
    let (_, mut trace) = trace_of_lanes(BUSY);
    manifest(&mut trace);
    add_faults(&mut trace);
    let mut analysis = analyse(&trace);
    add_allocations(&mut trace);
    trace.manifest.fired.extend([pause_of(&trace, 8), Fired::default()]);
    trace.losses.push(Loss { end: trace.end(), ..a_loss(trace.start()) });
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
    let mut emitted = BTreeSet::new();
    let ask = StackAsk {
        function: Some("work".into()),
        shape: Shape::Tree,
        over_time: true,
        ..StackAsk::default()
    };
    paths(&to_json_with(&trace, &analysis, &ask), "", &mut emitted);
    paths(&of_a_program_that_computes(), "", &mut emitted);
    let annotated = annotated(|it| holdup_report::annotate::to_json(it).to_string());
    paths(&serde_json::from_str(&annotated).unwrap(), "", &mut emitted);
    let forecast = what_if(&trace, &what_if::Ask { cpus: Some(4), ..what_if::Ask::default() }).unwrap();
    paths(&holdup_report::what_if_json(&forecast), "", &mut emitted);
    paths(&holdup_report::doctor_json(&[an_empty_row()], "bpf", ""), "", &mut emitted);
    paths(&list::to_json(&[list::Row::default()]), "", &mut emitted);
    paths(&holdup_report::explain::to_json(&holdup_findings::rules::all()), "", &mut emitted);
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
        meanwhile: vec![(Held::Ran, 1)],
        ..TaskLock::default()
    });
    derived.peers.rows.push(Peer::default());
    derived.told.push(Telling::default());
    derived.known_work = Some(Known::default());
}

fn of_a_program_that_computes() -> serde_json::Value {
    let (_, busy) = trace_of_lanes("@cpus 1\n@repeat 20\n@samples A 0..10 user main;work\nA 0000000000\n");
    to_json_with(&busy, &analyse(&busy), &StackAsk::default())
}

fn an_allocating_function() -> garbage::Site {
    garbage::Site { function: "work".into(), stacks: 1, samples: 1, itself_ns: 1, itself: Stall::default() }
}

/// Columns of the printed characters, told apart from escapes by a terminal's own rule.
fn plain(line: &str) -> String {
    let mut out = String::new();
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        if c == '\x1b' {
            chars.by_ref().find(|c| *c == 'm');
        } else {
            out.push(c);
        }
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_name_is_harmless(name in "\\PC{0,40}|(?s).{0,40}", colour: bool, width in 0usize..200) {
        let (mut trace, _) = busy();
        trace.threads.iter_mut().for_each(|thread| thread.name.clone_from(&name));
        trace.processes.iter_mut().for_each(|process| process.name.clone_from(&name));
        trace.frames.iter_mut().for_each(|frame| frame.function.clone_from(&name));
        trace.manifest.command = vec![name.clone()];
        trace.manifest.rung_reason.clone_from(&name);
        trace.manifest.rung = Rung::Perf;
        trace.manifest.sources.iter_mut().for_each(|source| source.missing.clone_from(&name));
        let mut analysis = analyse(&trace);
        trace.manifest.rung = Rung::Bpf;
        analysis.findings = analyse(&trace).findings;
        let style = Style { colour, width, unicode: true };
        let names: Vec<String> = holdup_report::section_names().iter().map(|name| (*name).to_owned()).collect();
        let said = render(&trace, &analysis, &names, &style).unwrap();
        prop_assert!(colour || !said.contains('\x1b'));
        for line in said.lines().map(plain) {
            prop_assert!(!line.chars().any(char::is_control), "{line:?}");
            prop_assert!(line.chars().count() <= width.clamp(60, 120) + 40, "{line}");
            if name.is_ascii() {
                prop_assert!(line.chars().count() <= width.clamp(60, 120), "{line}");
            }
        }
        serde_json::to_string(&to_json(&trace, &analysis)).unwrap();
        for exporter in holdup_report::exporters::all() {
            let options = holdup_report::exporters::Options::default();
            exporter.write(&trace, &analysis, &options, &mut std::io::sink()).unwrap();
        }
    }
}

#[test]
fn a_finding_says_how_to_look_at_its_worst_place() {
    let (_, trace) = trace_of_lanes(BUSY);
    let analysis = analyse(&trace);
    let asked = StackAsk::default();
    let plain = Style::default();
    let text =
        render_named(&trace, &analysis, (&[], &asked), (&plain, Some("it's.holdup"))).expect("a report");
    let worst = &analysis.findings[0].evidence[0];
    let see = text.lines().find_map(|line| line.trim().strip_prefix("See: holdup view ")).expect("a link");
    let place = see.strip_prefix("'it'\\''s.holdup#t=").and_then(|rest| rest.strip_suffix('\'')).expect(see);
    let (seconds, thread) = place.split_once("&thread=").expect(see);
    assert_eq!(thread, worst.thread.0.to_string());
    let ns = (seconds.parse::<f64>().expect(see) * 1e9).round() as u64;
    let from = worst.start.since(trace.start()).0;
    assert!((from..from + worst.duration.0).contains(&ns), "{see}: {from} for {}", worst.duration.0);
    // Without a name there is nothing to type.
    assert!(!render(&trace, &analysis, &[], &plain).expect("a report").contains("See:"));
}
