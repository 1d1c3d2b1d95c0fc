//! The report on hand-made recordings, compared with reviewed golden files. `HOLDUP_BLESS=1` writes the
//! golden files.

mod fired;
mod functions;
mod keys;
mod memory;
mod names;
mod sockets;

use holdup_events::recording::{Backend, Cost, SourceState};
use holdup_events::{CpuId, Loss, ThreadId, Timestamp, Trace};
use holdup_findings::derive::class::Class;
use holdup_findings::derive::hardware::{Counts, Hardware};
use holdup_findings::{Analysis, Confidence, Gain, analyse};
use holdup_report::{DoctorRow, DoctorStatus, StackAsk, Style, list, render, render_named, to_json};
use holdup_testkit::check::trace_of_lanes;
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
fn a_lower_bound_of_cpus_is_not_a_number_of_cpus() {
    let (mut trace, analysis) = busy();
    let head = |trace: &Trace| render(trace, &analysis, &[], &Style::default()).unwrap();
    assert!(head(&trace).contains(" on 2 CPUs with "), "{}", head(&trace));
    trace.manifest.host.cpus_lower_bound = true;
    assert!(head(&trace).contains(" on at least 2 CPUs with "), "{}", head(&trace));
}

#[test]
fn default_report() {
    let (trace, analysis) = busy();
    golden("report", &render(&trace, &analysis, &[], &Style::default()).unwrap());
    let wide = Style { width: 120, ..Style::default() };
    golden("report-wide", &render(&trace, &analysis, &[], &wide).unwrap());
}

#[test]
fn the_head_has_how_the_command_ended() {
    let (mut trace, analysis) = busy();
    let mut head = |status, signal| {
        (trace.manifest.exit_status, trace.manifest.exit_signal) = (status, signal);
        let json = to_json(&trace, &analysis);
        let text = render(&trace, &analysis, &[], &Style::default()).unwrap();
        (text.replace('\n', " "), json["exit_status"].clone(), json["exit_signal"].clone())
    };
    let (text, status, signal) = head(Some(7), None);
    assert!(text.contains("Exit status 7."), "{text}");
    assert_eq!((status, signal), (7.into(), Value::Null));
    let (text, status, signal) = head(Some(137), Some(9));
    assert!(text.contains("Ended by signal 9 (SIGKILL)."), "{text}");
    assert_eq!((status, signal), (137.into(), 9.into()));
    let (text, ..) = head(Some(137), None);
    assert!(text.contains("Exit status 137."), "{text}");
    let (text, ..) = head(None, None);
    assert!(!text.contains("Exit") && !text.contains("Ended"), "{text}");
}

#[test]
fn a_ledger_of_some_threads_gives_their_number() {
    let (mut trace, analysis) = busy();
    trace.manifest.threads_seen = 3001;
    let head = |trace: &Trace| {
        let text = render(trace, &analysis, &[], &Style::default()).unwrap();
        text.split("\n\n").next().unwrap().replace('\n', " ")
    };
    // Threads that were born and never ran have no time: without a loss nothing is missing.
    assert!(!head(&trace).contains("covers"));
    trace.losses.push(Loss {
        source: "journal".into(),
        reason: "disk-full".into(),
        cpu: CpuId::NONE,
        start: Timestamp(1_000_000_000),
        end: Timestamp(1_100_000_000),
        events: 159_000,
    });
    assert!(
        head(&trace).contains("The ledger covers 2 of 3,001 threads. Events of the other threads were lost.")
    );
    assert_eq!(to_json(&trace, &analysis)["threads_seen"], 3001);
}

#[test]
fn chosen_sections_do_not_repeat_the_whole_head() {
    let (trace, analysis) = busy();
    let of = |names: &[&str]| render(&trace, &analysis, &sections(names), &Style::default()).unwrap();
    let head = |text: String| {
        text.lines().take_while(|line| !line.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(head(of(&["locks"])), ["./stress --threads=2"]);
    assert_eq!(head(of(&["locks", "threads"])), ["./stress --threads=2"]);
    assert!(head(of(&[])).len() > 2);
}

#[test]
fn lines_fit_a_narrow_terminal() {
    let (trace, analysis) = busy();
    for columns in [40, 50, 60, 100] {
        let style = Style { width: columns, ..Style::default() };
        let text = render(&trace, &analysis, &[], &style).unwrap();
        for line in text.lines() {
            assert!(line.chars().count() <= columns, "{columns}: {line}");
        }
    }
}

#[test]
fn names_are_whole_where_no_terminal_cuts_them() {
    let long = format!("work_{}", "x".repeat(200));
    let picture = format!("@samples A 0..6 user main;{long}\nA  00000000\n");
    let (_, trace) = trace_of_lanes(&picture);
    let analysis = analyse(&trace);
    let of = |whole| {
        let style = Style { whole, ..Style::default() };
        let tree = StackAsk { shape: holdup_report::stacks::Shape::Tree, ..StackAsk::default() };
        let flat = StackAsk::default();
        [tree, flat].map(|ask| {
            let names = sections(&["stacks"]);
            holdup_report::terminal::render_with(&trace, &analysis, (&names, &ask), &style).unwrap()
        })
    };
    assert!(of(true).iter().all(|text| text.contains(&long)));
    assert!(of(false).iter().all(|text| !text.contains(&long)));
}

/// A fifth of a second of a contended lock, and the same in less than a tenth.
fn contended(repeats: u32) -> Trace {
    let (_, mut trace) = trace_of_lanes(&BUSY.replace("@repeat 40", &format!("@repeat {repeats}")));
    manifest(&mut trace);
    // More than all CPUs of so short a run can give.
    trace.manifest.cost.recorder_cpu_ns = 3 * trace.wall().0;
    trace
}

#[test]
fn a_run_too_short_to_judge_has_hints_only() {
    let trace = contended(6);
    assert!(trace.wall().0 < holdup_findings::too_short::JUDGED_NS_MIN);
    let analysis = analyse(&trace);
    assert!(!analysis.findings.is_empty());
    for finding in &analysis.findings {
        assert_eq!(finding.confidence, holdup_findings::Confidence::Low, "{}", finding.rule);
    }
    let text = render(&trace, &analysis, &[], &Style::default()).unwrap();
    assert!(text.contains("Too short to judge"), "{text}");
    assert!(!text.contains("% of the CPUs"), "{text}");
    let json = to_json(&trace, &analysis);
    assert_eq!((&json["too_short"], &json["cost"]["percent"]), (&true.into(), &Value::Null));

    let trace = contended(15);
    let analysis = analyse(&trace);
    assert!(analysis.findings.iter().any(|finding| finding.confidence > holdup_findings::Confidence::Low));
    let text = render(&trace, &analysis, &[], &Style::default()).unwrap();
    assert!(!text.contains("Too short"), "{text}");
    assert_eq!(to_json(&trace, &analysis)["too_short"], false);
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

#[test]
fn poor_recording() {
    let (_, mut trace) = trace_of_lanes("@cpus 4\n@repeat 20\nA  00000000\n");
    manifest(&mut trace);
    trace.manifest.backend = Backend::Proc;
    trace.manifest.backend_reason = "kernel.perf_event_paranoid is 4".into();
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
fn findings_that_do_not_fit_into_40_lines_are_short() {
    let (trace, mut analysis) = busy();
    let more = analysis.findings[0].clone();
    analysis.findings.extend([more.clone(), more]);
    let advice = |names: &[&str], full: bool| {
        let style = Style { full, ..Style::default() };
        render(&trace, &analysis, &sections(names), &style).unwrap().matches("Try:").count()
    };
    assert_eq!((advice(&[], false), advice(&[], true), advice(&["findings"], false)), (1, 5, 5));
    let text = render(&trace, &analysis, &[], &Style::default()).unwrap();
    assert!(text.contains(" 5 lock-contention   ") && text.contains("holdup report --full"), "{text}");
    analysis.findings.truncate(3);
    let text = render(&trace, &analysis, &[], &Style::default()).unwrap();
    assert!(text.lines().count() <= 40, "{text}");
}

#[test]
fn the_first_sentence_has_cause_cost_gain_and_confidence() {
    let (trace, mut analysis) = busy();
    let first = |analysis: &Analysis| {
        let text = render(&trace, analysis, &[], &Style::default()).unwrap();
        text.split("./stress").next().unwrap().trim_end().replace('\n', " ")
    };
    let sentence = first(&analysis);
    assert!(sentence.starts_with("stress is held up by lock-contention (futex 0x"), "{sentence}");
    assert!(sentence.contains("which costs 320 ms (29 % of all thread time). Without it the run would be "));
    assert!(sentence.ends_with("(confidence: high)."), "{sentence}");
    analysis.findings[0].likely = None;
    analysis.findings[0].confidence = Confidence::Low;
    analysis.findings[0].gain = Gain { low: 0.0, high: 0.4 };
    let hint = first(&analysis);
    assert!(hint.contains(" may be held up by ") && hint.contains("up to 40 % shorter"), "{hint}");
    analysis.findings.clear();
    assert!(!first(&analysis).contains("held up"), "{}", first(&analysis));
}

#[test]
fn unknown_sections_are_answered_with_the_names() {
    let (trace, analysis) = busy();
    let error = render(&trace, &analysis, &sections(&["ledgr"]), &Style::default()).unwrap_err();
    assert_eq!(error.names, holdup_report::section_names());
    assert!(error.to_string().contains("`ledgr`: there are ledger, findings, threads"), "{error}");
}

#[test]
fn json_adds_up() {
    let (trace, analysis) = busy();
    let json = to_json(&trace, &analysis);
    let sum = |classes: &Value| -> u64 {
        classes.as_object().unwrap().values().map(|ns| ns.as_u64().unwrap()).sum()
    };
    assert_eq!(sum(&json["ledger"]["classes"]), json["ledger"]["total_ns"].as_u64().unwrap());
    assert_eq!(sum(&json["ledger"]["run_queue"]), analysis.derived.ledger.class_ns(Class::RunQueue));
    assert_eq!(json["threads"].as_array().unwrap().len(), 2);
    for thread in json["threads"].as_array().unwrap() {
        let life = thread["end_ns"].as_u64().unwrap() - thread["start_ns"].as_u64().unwrap();
        assert_eq!(sum(&thread["classes"]), life);
    }
    assert!(!json["findings"].as_array().unwrap().is_empty());
    // 6 ms of CPU in 560 ms on 2 CPUs.
    assert!((json["cost"]["percent"].as_f64().unwrap() - 0.5357).abs() < 0.001);
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

#[test]
fn a_finding_links_to_its_worst_place() {
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
