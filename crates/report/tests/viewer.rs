//! The viewer's responses, on generated recordings and edge cases: no thread, thousands of threads, hostile
//! names.

#[path = "viewer/part.rs"]
mod part;

use std::io::Read;

use base64::Engine;
use holdup_events::tables::{Mapping, Process, SliceRow, Slices, Thread, ThreadState};
use holdup_events::{CpuId, Loss, ProcessId, ThreadId, Timestamp, Trace};
use holdup_findings::analyse;
use holdup_findings::derive::zoom::first_look::{self, Stretch};
use holdup_findings::descriptors::Descriptors;
use holdup_report::viewer::first_look::answer as answer_first_look;
use holdup_report::viewer::gate::{Gate, Request};
use holdup_report::viewer::page::Asset;
use holdup_report::viewer::{Opening, Refusal, Stage, Viewer, bundle, respond};
use holdup_testkit::check::trace_of_lanes;
use serde_json::Value;

/// A lock, a foreign program in front, the disk, a late thread.
const BUSY: &str = "@cpus 2\n@d disk\n@repeat 40\n\
    @samples worker-1 0..4 user main;work\n@samples worker-2 4..8 0 main;read_all\n\
    worker-1  0000mmmmrr0dd0\n\
    worker-2  mmmm1111011rr1  holds m 4..8\n\
    ~noisy    ....0000.0.00.\n";

const HOSTILE: &str = "</script><script>alert(1)</script>\u{1b}[2J\u{0}\u{202e}&quot;'";

fn viewer(trace: Trace) -> Viewer {
    let analysis = analyse(&trace);
    Viewer::new(trace, analysis)
}

fn busy() -> Viewer {
    viewer(trace_of_lanes(BUSY).1)
}

fn ask(viewer: &Viewer, question: &str) -> Value {
    let (path, query) = question.split_once('?').unwrap_or((question, ""));
    let text = viewer.answer(path, query).unwrap_or_else(|refusal| panic!("{question}: {refusal}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{question}: {error}: {text}"))
}

/// One question of each kind.
const QUESTIONS: &[&str] = &[
    "summary",
    "lanes?level=0&tile=0&threads=0,1",
    "cpus?level=0&tile=0",
    "counters?level=0&tile=0",
    "samples?level=0&tile=0&threads=0,1",
    "spans?level=0&tile=0&threads=0,1",
    "wakeups",
    "wakeups?from=0&to=20000000&threads=0",
    "ledger",
    "ledger?from=0&to=20000000&threads=0",
    "slice?thread=0&at=0",
    "path",
    "path?from=1000000&to=90000000",
    "flame?kind=on-cpu",
    "flame?kind=lock-wait&reverse=1",
    "flame?kind=wakers",
    "flame?kind=all&min=0&threads=0",
    "search?q=w",
    "search",
    "tables/threads",
    "tables/locks",
    "tables/barriers",
    "tables/pauses",
    "tables/gc-lengths",
    "tables/gc-longest",
    "tables/syscalls",
    "tables/functions",
    "tables/cpus",
    "tables/processes",
    "tables/losses",
];

#[test]
fn every_question_has_an_answer_and_always_the_same() {
    let (first, second) = (busy(), busy());
    for question in QUESTIONS {
        let answer = ask(&first, question);
        assert!(answer.is_object(), "{question}");
        assert_eq!(answer, ask(&second, question), "{question}");
    }
}

#[test]
fn the_page_of_the_interface_names_every_question() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/viewer-api.md");
    let page = std::fs::read_to_string(path).expect("the page");
    let known: Vec<&str> = Viewer::questions().collect();
    for name in &known {
        assert!(page.contains(&format!("### `api/{name}")), "{name} is not in docs/viewer-api.md");
    }
    for heading in page.lines().filter_map(|line| line.strip_prefix("### `api/")) {
        let name = heading.split(['`', '?', '/']).next().unwrap_or("");
        assert!(name == "tables" || known.contains(&name), "docs/viewer-api.md has {name}, which is none");
    }
    let summary = ask(&busy(), "summary");
    for key in summary.as_object().expect("an object").keys() {
        assert!(page.contains(&format!("\"{key}\"")), "summary.{key} is not in docs/viewer-api.md");
    }
}

#[test]
fn the_summary_agrees_with_what_can_be_asked() {
    let viewer = busy();
    let summary = ask(&viewer, "summary");
    for table in summary["tables"].as_array().expect("tables") {
        let answer = ask(&viewer, &format!("tables/{}", table["name"].as_str().expect("a name")));
        let columns = answer["columns"].as_array().expect("columns").len();
        let rows = answer["rows"].as_array().expect("rows");
        assert!(rows.iter().all(|row| row.as_array().expect("a row").len() == columns), "{answer}");
        assert_eq!(rows.len(), answer["places"].as_array().expect("places").len());
    }
    for flame in summary["flames"].as_array().expect("flames") {
        let kind = flame["kind"].as_str().expect("a kind");
        let flame = ask(&viewer, &format!("flame?kind={kind}&min=0"));
        let (parents, ns) =
            (flame["parent"].as_array().expect("parents"), flame["ns"].as_array().expect("ns"));
        let roots: u64 = parents
            .iter()
            .zip(ns)
            .filter(|(parent, _)| parent.as_i64() == Some(-1))
            .filter_map(|(_, ns)| ns.as_u64())
            .sum();
        assert_eq!(Some(roots), flame["total_ns"].as_u64(), "{kind}");
        assert!(parents.iter().enumerate().all(|(at, parent)| parent.as_i64() < Some(at as i64)), "{kind}");
    }
    let first = summary["classes"].as_array().expect("classes").first().expect("a class").clone();
    assert_eq!((first["name"].as_str(), first["kind"].as_str()), (Some("useful"), Some("running")));
    assert_eq!(summary["ledger"], {
        let mut whole = ask(&viewer, "ledger");
        let whole = whole.as_object_mut().expect("an object");
        ["start_ns", "end_ns", "threads"].iter().for_each(|key| drop(whole.remove(*key)));
        Value::Object(whole.clone())
    });
}

#[test]
fn a_finding_leads_to_its_slices_and_why() {
    let viewer = busy();
    let summary = ask(&viewer, "summary");
    let findings = summary["findings"].as_array().expect("findings");
    assert!(!findings.is_empty());
    for evidence in findings.iter().flat_map(|finding| finding["evidence"].as_array().expect("evidence")) {
        let (thread, at) = (&evidence["thread"], &evidence["start_ns"]);
        let slice = ask(&viewer, &format!("slice?thread={thread}&at={at}"));
        assert_eq!(slice["row"], evidence["row"], "{evidence}");
        let why = slice["why"].as_array().expect("why");
        assert!(why.len() >= 2 || slice["state"] == "running", "{slice}");
        assert!(why.iter().all(|link| !link["text"].as_str().expect("text").is_empty()), "{slice}");
        let again = ask(&viewer, &format!("slice?thread={thread}&row={}", slice["row"]));
        assert_eq!(slice, again);
    }
}

/// A runtime reports two minor collections within a major one, and its heap.
fn with_runtime_spans() -> Viewer {
    use holdup_events::tables::{CounterRow, Lane, SpanKind, SpanRow, Spans, TellName};
    let mut trace = trace_of_lanes(BUSY).1;
    let start = trace.start();
    let at = |ns: u64| start + holdup_events::Duration(ns);
    let name = |text: &str, kind| TellName { text: text.into(), kind };
    let span = |from, to, name| SpanRow { thread: ThreadId(0), start: at(from), end: at(to), lane: 0, name };
    let spans = [span(1_000_000, 9_000_000, 1), span(2_000_000, 2_000_100, 2), span(2_000_200, 2_000_300, 2)];
    trace.spans = Spans::freeze(spans.to_vec());
    let value = |ns, value| CounterRow { thread: ThreadId(0), at: at(ns), lane: 0, name: 3, value };
    trace.counters = vec![value(0, 5), value(300_000_000, 7)];
    trace.lanes = vec![Lane::default()];
    trace.names = vec![
        TellName::default(),
        name("major", SpanKind::GcWork),
        name("minor", SpanKind::GcWait),
        name("heap words", SpanKind::User),
    ];
    viewer(trace)
}

#[test]
fn spans_are_found_by_name_at_the_longest_of_them() {
    let viewer = with_runtime_spans();
    let found = |text: &str| -> Vec<Value> {
        let answer = ask(&viewer, &format!("search?q={text}"));
        let results = answer["results"].as_array().expect("results").iter();
        results.filter(|one| one["kind"] == "span").cloned().collect()
    };
    let both = found("m%69nor");
    assert_eq!(both.len(), 1, "{both:?}");
    assert_eq!((&both[0]["name"], &both[0]["thread"]), (&Value::from("minor"), &Value::from(0)));
    assert_eq!(both[0]["detail"], "2 spans, the longest 100 ns");
    assert_eq!((number(&both[0]["start_ns"]), number(&both[0]["end_ns"])), (2_000_000, 2_000_100));
    let names: Vec<Value> = found("m").iter().map(|one| one["name"].clone()).collect();
    assert_eq!(names, ["major", "minor"], "the longest first");
    assert!(found("heap").is_empty(), "the name of a counter is no span");
}

#[test]
fn allocation_is_the_running_time_in_allocators() {
    let picture = "@samples A 0..3 user main;parse;malloc\n@samples A 3..8 user main;parse\nA  00000000\n";
    let mut trace = trace_of_lanes(picture).1;
    let whole = |trace: &Trace| ask(&viewer(trace.clone()), "flame?kind=allocation&min=0");
    assert_eq!(whole(&trace)["total_ns"], 0, "nothing tells that this malloc is one");
    let libc =
        Mapping { path: "/usr/lib/libc.so.6".into(), start: 0x1000, end: 0x2000, ..Mapping::default() };
    trace.mappings.push(libc);
    let flame = whole(&trace);
    assert_eq!((&flame["total_ns"], &flame["samples"]), (&Value::from(3_000_000), &Value::from(3)));
    assert_eq!(flame["names"], serde_json::json!(["main", "parse", "malloc"]));
    assert!(number(&flame["error_ns"]) > 0, "three of eight samples");
    let on_cpu = ask(&viewer(trace), "flame?kind=on-cpu&min=0");
    assert_eq!((&on_cpu["total_ns"], &on_cpu["samples"]), (&Value::from(8_000_000), &Value::from(8)));
}

#[test]
fn runtime_spans_are_merged_until_they_are_wide_enough() {
    let viewer = with_runtime_spans();
    let whole = ask(&viewer, "spans?level=0&tile=0&threads=0,1");
    assert_eq!(whole["lanes"][0]["depth"], serde_json::json!([0, 1]), "{whole}");
    assert_eq!(whole["lanes"][0]["name"], serde_json::json!([0, -1]));
    assert_eq!(whole["lanes"][0]["count"], serde_json::json!([1, 2]));
    assert_eq!(whole["lanes"][1]["start"], serde_json::json!([]));
    let zoom = ask(&viewer, "summary")["zoom"].clone();
    let level = zoom["level_max"].as_u64().expect("a number") - 3;
    let tile = 2_000_000 / (zoom["base_ns"].as_u64().expect("a number") >> level);
    let deep = ask(&viewer, &format!("spans?level={level}&tile={tile}&threads=0"));
    assert_eq!(
        (&deep["names"], &deep["kinds"]),
        (&serde_json::json!(["major", "minor"]), &serde_json::json!(["gc-work", "gc-wait"]))
    );
    assert_eq!(deep["lanes"][0]["complete"], true);
    let counters = ask(&viewer, "counters?level=0&tile=0");
    let series = counters["series"].as_array().expect("series");
    let heap = series.iter().find(|one| one["name"] == "runtime/heap words").expect("the heap");
    let values = heap["values"].as_array().expect("values");
    assert_eq!((values[0].as_u64(), values.last().and_then(Value::as_u64)), (Some(5), Some(7)));
}

#[test]
fn the_critical_path_tiles_the_range() {
    let viewer = busy();
    let wall = ask(&viewer, "summary")["wall_ns"].as_u64().expect("a number");
    for (from, to) in [(0, wall), (wall / 7, wall / 3), (wall / 2, wall / 2 + 1000)] {
        let path = ask(&viewer, &format!("path?from={from}&to={to}"));
        let numbers = |key: &str| -> Vec<u64> {
            path[key].as_array().expect(key).iter().map(|one| one.as_u64().expect("a number")).collect()
        };
        let (starts, ends) = (numbers("start"), numbers("end"));
        assert_eq!((starts.first(), ends.last()), (Some(&from), Some(&to)));
        assert!(starts[1..].iter().eq(&ends[..ends.len() - 1]), "{path}");
        assert_eq!(numbers("classes").iter().sum::<u64>(), to - from);
    }
}

#[test]
fn questions_without_sense_are_refused() {
    let viewer = busy();
    let status = |question: &str| {
        let (path, query) = question.split_once('?').unwrap_or((question, ""));
        viewer.answer(path, query).expect_err(question).status()
    };
    let bad = [
        "lanes?level=0&tile=0",
        "lanes?level=x&tile=0&threads=0",
        "lanes?level=0&tile=0&threads=0&colour=1",
        "slice?thread=0",
        "slice?thread=0&at=1&row=1",
        "flame",
        "flame?kind=nothing",
        "flame?kind=on-cpu&min=7",
        "ledger?from=9&to=3",
        "tables/threads?x=1",
        "annotate",
    ];
    for question in bad {
        assert_eq!(status(question), 400, "{question}");
    }
    let absent = [
        "",
        "nothing",
        "tables/nothing",
        "tables/../summary",
        "lanes?level=99&tile=0&threads=0",
        "lanes?level=0&tile=1&threads=0",
        "lanes?level=4294967296&tile=18446744073709551615&threads=0",
        "lanes?level=0&tile=0&threads=4000000000",
        "slice?thread=4000000000&at=0",
        "slice?thread=0&row=99999999",
        "slice?thread=0&at=18446744073709551615",
        "flame?kind=on-cpu&function=no_such_function",
    ];
    assert!(ask(&viewer, "annotate?function=main")["error"].is_string());
    for question in absent {
        assert_eq!(status(question), 404, "{question}");
    }
    assert!(matches!(viewer.answer("ledger", "from=x"), Err(Refusal::Bad(_))));
}

#[test]
fn a_recording_without_threads_is_a_page_all_the_same() {
    let viewer = viewer(Trace::default());
    for question in
        QUESTIONS.iter().filter(|question| !question.contains("thread") && !question.contains("slice"))
    {
        assert!(ask(&viewer, question).is_object(), "{question}");
    }
    assert_eq!(ask(&viewer, "summary")["threads"], Value::Array(vec![]));
    let page = bundle::page(&viewer, &assets(), 1 << 20).expect("a page");
    assert_eq!(unpacked(&page.html)["summary"]["wall_ns"], 0);
}

/// `threads` threads that switch now and then, in one process, with hostile names.
fn crowd(threads: u32) -> Trace {
    let mut trace = Trace::default();
    trace.manifest.end_ns = 10_000_000;
    trace.processes.push(Process { pid: 1, name: HOSTILE.into(), target: true, parent: None });
    let mut rows = Vec::new();
    for thread in 0..threads {
        trace.threads.push(Thread {
            tid: thread + 1,
            process: ProcessId(0),
            name: format!("{HOSTILE} {thread}"),
            target: true,
            start: Timestamp(0),
            end: Timestamp(10_000_000),
            ..Thread::default()
        });
        for step in 0..20u64 {
            let start = Timestamp(step * 500_000 + u64::from(thread));
            let state = if step % 2 == 0 { ThreadState::Preempted } else { ThreadState::Unknown };
            let start = if step == 0 { Timestamp(0) } else { start };
            rows.push(SliceRow {
                thread: ThreadId(thread),
                start,
                state,
                cpu: CpuId(0),
                ..SliceRow::default()
            });
        }
    }
    trace.slices = Slices::freeze(&[rows], vec![Timestamp(10_000_000); threads as usize]);
    trace.losses.push(Loss {
        source: HOSTILE.into(),
        reason: "ring-full".into(),
        cpu: CpuId::NONE,
        start: Timestamp(0),
        end: Timestamp(9),
        events: 3,
    });
    trace
}

#[test]
fn five_thousand_threads_are_answered_a_screen_at_a_time() {
    let viewer = viewer(crowd(5000));
    let summary = ask(&viewer, "summary");
    assert_eq!(summary["threads"].as_array().expect("threads").len(), 5000);
    let list: Vec<String> = (0..256).map(|thread| thread.to_string()).collect();
    let lanes = ask(&viewer, &format!("lanes?level=0&tile=0&threads={}", list.join(",")));
    assert_eq!(lanes["lanes"].as_array().expect("lanes").len(), 256);
    let too_many = format!("level=0&tile=0&threads={},256", list.join(","));
    assert_eq!(viewer.answer("lanes", &too_many).expect_err("too many").status(), 400);
    for question in ["counters?level=9&tile=3", "ledger?from=0&to=5000000", "wakeups", "tables/threads"] {
        assert!(ask(&viewer, question).is_object(), "{question}");
    }
    let page = bundle::page(&viewer, &assets(), 1 << 20).expect("a page");
    assert!(page.html.len() < 3 << 20, "{} bytes", page.html.len());
    assert!(page.thinned.iter().any(|sentence| sentence.contains("4,000")), "{:?}", page.thinned);
}

fn assets() -> Vec<Asset> {
    let asset = |path: &str, text: &str| Asset { path: path.into(), bytes: text.as_bytes().to_vec() };
    vec![
        asset("index.html", "<!doctype html><div id=app></div>"),
        asset("viewer.js", "const end = \"</script>\"; // <!-- "),
        asset("viewer.css", "body { margin: 0 }"),
    ]
}

/// The answers inside a page.
fn unpacked(html: &str) -> Value {
    let begin = html.find("id=\"holdup-bundle\">").expect("a bundle") + "id=\"holdup-bundle\">".len();
    let end = begin + html[begin..].find("</script>").expect("its end");
    let packed = base64::engine::general_purpose::STANDARD.decode(&html[begin..end]).expect("base64");
    let mut text = String::new();
    flate2::read::GzDecoder::new(packed.as_slice()).read_to_string(&mut text).expect("gzip");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn one_file_holds_the_answers_and_loads_nothing() {
    let viewer = busy();
    let page = bundle::page(&viewer, &assets(), 16 << 20).expect("a page");
    let answers = unpacked(&page.html);
    let mut summary = ask(&viewer, "summary");
    summary["thinned"] = serde_json::json!(page.thinned);
    assert_eq!(answers["summary"], summary);
    assert_eq!(answers["tables/threads"], ask(&viewer, "tables/threads"));
    assert_eq!(answers["path"], ask(&viewer, "path"));
    let lanes = ask(&viewer, "lanes?level=0&tile=0&threads=0");
    assert_eq!(answers["lanes/0/0/0"], lanes["lanes"][0]);
    let evidence = &summary["findings"][0]["evidence"][0];
    let key = format!("slices/{}/{}", evidence["thread"], evidence["row"]);
    for link in answers[&key]["why"].as_array().expect("why") {
        let key = format!("slices/{}/{}", link["thread"], link["row"]);
        assert!(link["row"] == -1 || answers.get(&key).is_some(), "{key} is led to");
    }
    assert_eq!(page.html.matches("</script>").count(), 2, "the script's own text does not end it");
    for loads in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!page.html.contains(loads), "{loads}");
    }
    assert!(page.html.contains("default-src 'none'; script-src 'sha256-"));
}

/// Every lane of the file leads down to tiles without merged slices, unless the omissions name it.
#[test]
fn a_file_with_room_is_complete() {
    let viewer = busy();
    let page = bundle::page(&viewer, &assets(), 64 << 20).expect("a page");
    let answers = unpacked(&page.html);
    let answers = answers.as_object().expect("an object");
    for (key, lane) in answers.iter().filter(|(key, _)| key.starts_with("lanes/")) {
        let parts: Vec<u64> = key.split('/').skip(1).map(|part| part.parse().expect("a number")).collect();
        let child = |index: u64| format!("lanes/{}/{}/{index}", parts[0], parts[1] + 1);
        assert!(lane["complete"] == true || answers.contains_key(&child(parts[2] * 2)), "{key}");
    }
    assert!(page.thinned.iter().all(|sentence| !sentence.contains("shorter than")), "{:?}", page.thinned);
}

#[test]
fn hostile_names_are_escaped() {
    let mut trace = crowd(3);
    trace.manifest.command = vec![HOSTILE.into()];
    let viewer = viewer(trace);
    let summary = ask(&viewer, "summary");
    assert_eq!(summary["processes"][0]["name"], HOSTILE);
    assert!(ask(&viewer, "search?q=alert")["results"][0]["name"].as_str().expect("a name").contains("alert"));
    let page = bundle::page(&viewer, &assets(), 1 << 20).expect("a page");
    assert!(!page.html.contains("alert(1)") && page.html.matches("</script>").count() == 2);
    assert_eq!(unpacked(&page.html)["summary"]["command"][0], HOSTILE);
}

#[test]
fn the_progress_of_opening_is_reported() {
    let opening = Opening::new(7, None);
    assert_eq!(opening.answer("summary", ""), Err(Refusal::Later(Stage::Reading)));
    opening.has_read();
    assert_eq!(opening.answer("lanes", "level=0&tile=0"), Err(Refusal::Later(Stage::Lanes)));
    let trace = trace_of_lanes(BUSY).1;
    let begun = holdup_findings::analysis::begin(&trace, &Descriptors::built_in());
    let viewer = opening.put(Viewer::begin(trace, begun));
    let summary = |query: &str| -> Value {
        serde_json::from_str(&opening.answer("summary", query).expect("a summary")).expect("JSON")
    };
    let early = summary("");
    assert_eq!(
        (&early["pending"], early["findings"].as_array().map(Vec::len)),
        (&Value::Bool(true), Some(0))
    );
    let lanes = opening.answer("lanes", "level=0&tile=0&threads=0");
    for late in ["summary?complete=1", "slice?thread=0&at=0", "tables/threads", "path", "search?q=w"] {
        let (path, query) = late.split_once('?').unwrap_or((late, ""));
        assert_eq!(opening.answer(path, query), Err(Refusal::Later(Stage::Findings)), "{late}");
    }
    viewer.complete();
    let all = summary("complete=1");
    assert_eq!(all["pending"], Value::Bool(false));
    assert!(!all["findings"].as_array().expect("a list").is_empty());
    assert_eq!(early["ledger"], all["ledger"]);
    assert_eq!(lanes, opening.answer("lanes", "level=0&tile=0&threads=0"));
    assert_eq!(all, ask(&busy(), "summary"));
}

/// As it is read from a recording: group by group.
fn first_look_of(trace: &Trace) -> Value {
    let threads: Vec<ThreadId> = (0..trace.threads.len() as u32).map(ThreadId).collect();
    let visit = |group: usize, to: &mut Stretch<'_>| {
        for thread in &threads {
            let slices: Vec<_> = trace.slices.of_thread(*thread).collect();
            let half = slices.len() / 2;
            let part = if group == 0 { &slices[..half] } else { &slices[half..] };
            part.iter().for_each(|slice| to.push(*thread, slice.start, slice.state));
        }
        true
    };
    let look = first_look::derive(trace, 2, visit).expect("all was visited");
    serde_json::from_str(&answer_first_look(trace, &look)).expect("JSON")
}

#[test]
fn the_first_look_agrees_with_the_whole_trace() {
    let trace = trace_of_lanes(BUSY).1;
    let (look, viewer) = (first_look_of(&trace), busy());
    let summary = ask(&viewer, "summary");
    for same in
        ["command", "wall_ns", "zoom", "host", "tables", "flames", "processes", "backend", "losses", "loss"]
    {
        assert_eq!(look["summary"][same], summary[same], "{same}");
    }
    for unknown in ["run_queue", "split_error_ns", "samples"] {
        assert_eq!(look["summary"]["ledger"][unknown], Value::Null, "{unknown} is not told as zero");
    }
    let of_kind = |summary: &Value, kind: &str| -> u64 {
        let classes = summary["classes"].as_array().expect("classes").iter();
        let ns = summary["ledger"]["classes"].as_array().expect("times").iter();
        classes.zip(ns).filter(|(class, _)| class["kind"] == kind).map(|(_, ns)| number(ns)).sum()
    };
    for kind in ["running", "queue", "wait", "unknown"] {
        assert_eq!(of_kind(&look["summary"], kind), of_kind(&summary, kind), "{kind}");
    }
    for thread in look["summary"]["threads"].as_array().expect("threads") {
        let life = number(&thread["end_ns"]) - number(&thread["start_ns"]);
        for level in ["0", "1"] {
            let lanes = look.as_object().expect("answers").iter();
            let own = lanes.filter(|(key, _)| key.starts_with(&format!("lanes/{}/{level}/", thread["id"])));
            let mixes = own.flat_map(|(_, lane)| lane["mix"].as_array().expect("mixes"));
            let ns = mixes.flat_map(|mix| mix.as_array().expect("a mix").iter().skip(2).step_by(2));
            assert_eq!(ns.map(number).sum::<u64>(), life, "{thread} {level}");
        }
    }
    let (ours, theirs) = (&look["counters/0/0"], ask(&viewer, "counters?level=0&tile=0"));
    assert_eq!(ours["series"][0], theirs["series"][0], "how many ran");
    assert_eq!(ours["series"][1], theirs["series"][1], "how many wanted to");
}

#[test]
fn the_first_look_reports_losses() {
    let trace = trace_of_lanes(&format!("@loss 3..5 17\n{BUSY}")).1;
    let look = first_look_of(&trace);
    assert_eq!(look["summary"]["loss"]["events"], 17);
    assert_eq!(look["summary"]["losses"], ask(&viewer(trace), "summary")["losses"]);
}

#[test]
fn a_first_look_at_thousands_fills_a_screen_and_no_more() {
    let look = first_look_of(&crowd(5000));
    assert_eq!(look["summary"]["threads"].as_array().expect("threads").len(), 60);
    assert!(look.to_string().len() < 16 << 20, "{} bytes", look.to_string().len());
    let nobody = first_look_of(&Trace::default());
    assert_eq!(nobody["summary"]["threads"], Value::Array(vec![]));
}

#[test]
fn the_first_look_is_served_until_the_trace_is_ready() {
    let opening = Opening::new(7, None);
    assert_eq!(opening.answer("first-look", ""), Err(Refusal::Later(Stage::Reading)));
    opening.show_first(Some("{}".to_owned()));
    assert_eq!(opening.answer("first-look", ""), Ok("{}".to_owned()));
    opening.put(busy());
    assert_eq!(opening.answer("first-look", ""), Ok("null".to_owned()));
    let short = Opening::new(7, None);
    short.show_first(None);
    assert_eq!(short.answer("first-look", ""), Ok("null".to_owned()));
}

#[test]
fn a_flame_graph_shows_changes_since_the_other_recording() {
    let picture = |work: &str| trace_of_lanes(&format!("@samples A 0..4 user main;{work}\nA  00000000\n")).1;
    let (old, new) =
        (picture("sort\n@samples A 4..8 user main;hash"), picture("sort\n@samples A 4..8 user main;copy"));
    let mut flame = Value::Null;
    for question in ["flame?kind=on-cpu&against=1", "flame?kind=on-cpu&against=1&reverse=1"] {
        let viewer = viewer(new.clone()).with_against(old.manifest.clone());
        assert_eq!(viewer.answer("flame", "kind=on-cpu&against=1"), Err(Refusal::Later(Stage::Other)));
        viewer.compare(old.clone());
        assert!(!ask(&viewer, "summary")["against"].is_null());
        flame = ask(&viewer, question);
        let told = |name: &str| -> Vec<(u64, u64)> {
            let at = flame["names"].as_array().expect("names").iter().position(|one| one == name);
            let rows = flame["name"].as_array().expect("nodes").iter().enumerate();
            let rows = rows.filter(|(_, one)| one.as_u64().map(|one| one as usize) == at);
            rows.map(|(row, _)| (number(&flame["ns"][row]), number(&flame["before_ns"][row]))).collect()
        };
        assert_eq!(told("sort"), [(4_000_000, 4_000_000)]);
        assert_eq!(told("copy"), [(4_000_000, 0)]);
    }
    assert_eq!(flame["before_total_ns"], 8_000_000);
    let alone = viewer(new);
    assert!(
        ask(&alone, "flame?kind=on-cpu")["before_ns"].is_null()
            && ask(&alone, "summary")["against"].is_null()
    );
    assert!(alone.answer("flame", "kind=on-cpu&against=1").is_err());
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

#[test]
fn what_was_answered_before_is_answered_before_it_is_read() {
    let first = Opening::new(0, None);
    first.put(busy());
    let asked =
        ["summary?complete=1", "tables/locks", "slice?thread=0&at=0", "lanes?level=0&tile=0&threads=0,1"];
    let answer = |of: &Opening, question: &str| {
        let (path, query) = question.split_once('?').unwrap_or((question, ""));
        of.answer(path, query)
    };
    let answers = asked.map(|question| answer(&first, question).expect("an answer"));
    assert!(first.answer("search", "q=w").is_ok());
    let kept = first.to_keep().expect("something to keep");
    assert_eq!(first.to_keep(), None);
    let second = Opening::new(0, Some(&kept));
    assert_eq!(asked.map(|question| answer(&second, question).expect("an answer")), answers);
    assert_eq!(answer(&second, "summary").as_ref(), Ok(&answers[0]));
    assert_eq!(answer(&second, "search?q=w"), Err(Refusal::Later(Stage::Reading)));
    assert_eq!(answer(&second, "tables/threads"), Err(Refusal::Later(Stage::Reading)));
    for damaged in [&kept[..kept.len() / 2], b"nonsense", b""] {
        assert_eq!(
            answer(&Opening::new(0, Some(damaged)), "summary"),
            Err(Refusal::Later(Stage::Reading)),
            "damaged answers are none"
        );
    }
}

#[test]
fn answers_leave_through_the_gate_only() {
    let opening = Opening::new(0, None);
    opening.put(busy());
    let gate = Gate { port: 4711, token: "feedc0de".into() };
    let respond = |target: &str, host: &str| {
        let request = Request { method: "GET", target, headers: vec![("Host", host)] };
        respond(&opening, &gate, &assets(), &request)
    };
    let summary = respond("/feedc0de/api/summary", "127.0.0.1:4711");
    assert_eq!((summary.status, summary.content_type), (200, "application/json; charset=utf-8"));
    assert_eq!(respond("/feedc0de/", "localhost:4711").body, b"<!doctype html><div id=app></div>");
    assert_eq!(
        respond("/feedc0de/viewer.js", "localhost:4711").content_type,
        "text/javascript; charset=utf-8"
    );
    assert_eq!(respond("/feedc0de/api/nothing", "127.0.0.1:4711").status, 404);
    assert_eq!(respond("/feedc0de/nothing.js", "127.0.0.1:4711").status, 404);
    let denied = respond("/feedc0de/api/summary", "evil.example:4711");
    assert_eq!(denied.status, 421);
    assert!(!String::from_utf8_lossy(&denied.body).contains("worker"));
    assert_eq!(respond("/0000c0de/api/summary", "127.0.0.1:4711").status, 403);
    let moved = respond("/feedc0de", "127.0.0.1:4711");
    assert_eq!((moved.status, moved.body.as_slice()), (308, &b"/feedc0de/"[..]));
    assert_eq!(respond("/0000c0de", "127.0.0.1:4711").status, 403);
}
