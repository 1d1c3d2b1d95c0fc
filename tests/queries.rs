//! `holdup query`: the queries of docs/sql.md and their answers (`HOLDUP_BLESS=1` writes them), the report's
//! figures by SQL, and the errors for invalid queries.
#![cfg(feature = "sql")]

mod support;

use std::path::Path;
use std::process::Output;

use holdup_events::ObjectKind;
use holdup_events::tables::CallObject;
use holdup_testkit::check::trace_of_lanes;
use holdup_testkit::saved::save;
use serde_json::Value;
use support::busy::busy;
use support::python::python_with;
use support::questions::questions;
use support::{Scratch, holdup, stderr, stdout};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/sql.md");

fn fixture(scratch: &Scratch, name: &str) -> std::path::PathBuf {
    let path = scratch.join(name);
    save(&busy(), &path).expect("a recording");
    path
}

fn ask(scratch: &Scratch, recording: &Path, words: &[&str]) -> Output {
    holdup(scratch).arg("query").arg(recording).args(words).output().expect("holdup runs")
}

/// The rows of an answer.
fn rows(scratch: &Scratch, recording: &Path, sql: &str) -> Vec<Value> {
    let output = ask(scratch, recording, &[sql, "--json"]);
    assert!(output.status.success(), "{sql}: {}", stderr(&output));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    answer["rows"].as_array().expect("rows").clone()
}

fn refused(scratch: &Scratch, recording: &Path, words: &[&str]) -> String {
    let output = ask(scratch, recording, words);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(!said.contains("panicked"), "{said}");
    said
}

#[test]
fn twenty_questions_have_these_answers() {
    let scratch = Scratch::new("query-twenty");
    let recording = fixture(&scratch, "busy.holdup");
    let page = std::fs::read_to_string(PAGE).expect("docs/sql.md");
    let questions = questions(&page, "# Twenty questions");
    assert_eq!(questions.len(), 20);
    let mut blessed = page.clone();
    for question in questions.iter().rev() {
        let output = ask(&scratch, &recording, &[&question.sql]);
        assert!(output.status.success(), "{}: {}", question.sql, stderr(&output));
        let said = stdout(&output);
        assert!(said.lines().count() > 1, "no rows: {}", question.sql);
        blessed.replace_range(question.answer.clone(), &said);
    }
    if std::env::var_os("HOLDUP_BLESS").is_some() {
        std::fs::write(PAGE, &blessed).expect("docs/sql.md");
    } else {
        assert_eq!(blessed, page, "answers of docs/sql.md (HOLDUP_BLESS=1 accepts)");
    }
}

#[test]
fn the_reports_figures_are_those_of_sql() {
    let scratch = Scratch::new("query-report");
    let recording = fixture(&scratch, "busy.holdup");
    let output = holdup(&scratch).arg("report").arg(&recording).arg("--json").output().expect("holdup runs");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let ask = |sql: &str| rows(&scratch, &recording, sql);

    let classes = ask("SELECT class, sum(time_ns) AS ns FROM ledger GROUP BY class");
    assert!(classes.len() > 4, "{classes:?}");
    for row in &classes {
        assert_eq!(row["ns"], report["ledger"]["classes"][row["class"].as_str().expect("a class")], "{row}");
    }
    let by_slices = ask(
        "SELECT class, sum(duration_ns) AS ns FROM slices WHERE target AND class <> 'running' GROUP BY class",
    );
    for row in &by_slices {
        assert_eq!(row["ns"], report["ledger"]["classes"][row["class"].as_str().expect("a class")], "{row}");
    }
    let total = ask("SELECT sum(life_ns) AS life, sum(running_ns) AS running FROM threads WHERE target");
    assert_eq!(total[0]["life"], report["ledger"]["total_ns"]);
    let locks = ask("SELECT name, wait_ns, waits, p99_ns FROM locks ORDER BY wait_ns DESC");
    assert_eq!(locks.len(), report["locks"].as_array().expect("locks").len());
    assert_eq!(locks[0]["wait_ns"], report["locks"][0]["wait_ns"]);
    let by_waits = ask(
        "SELECT lock, sum(duration_ns) AS ns, percentile(duration_ns, 99) AS p99 FROM waits WHERE lock IS NOT NULL GROUP BY lock ORDER BY ns DESC",
    );
    assert_eq!(by_waits[0]["ns"], report["locks"][0]["wait_ns"]);
    assert_eq!(by_waits[0]["p99"].as_f64(), report["locks"][0]["p99_ns"].as_f64());
    let findings = ask("SELECT rule, cost_ns FROM findings WHERE finding IS NOT NULL ORDER BY finding");
    let told = report["findings"].as_array().expect("findings");
    assert_eq!(findings.len(), told.len());
    for (row, finding) in findings.iter().zip(told) {
        assert_eq!((&row["rule"], &row["cost_ns"]), (&finding["rule"], &finding["cost_ns"]));
    }
    let blame = ask("SELECT sum(wait_ns) AS ns FROM blame");
    assert_eq!(blame[0]["ns"], report["waits"]["total_ns"]);
    let raw = ask("SELECT (SELECT count(*) FROM raw.slices) AS raw, (SELECT count(*) FROM slices) AS views");
    assert_eq!(raw[0]["raw"], raw[0]["views"]);
}

#[test]
fn every_view_and_every_raw_table_can_be_read() {
    let scratch = Scratch::new("query-all");
    let recording = fixture(&scratch, "busy.holdup");
    let listed = holdup(&scratch).args(["query", "--schema", "--json"]).output().expect("holdup runs");
    let listed: Value = serde_json::from_slice(&listed.stdout).expect("JSON");
    let tables = listed["rows"].as_array().expect("tables").clone();
    assert!(tables.len() > 40, "{tables:?}");
    for table in tables {
        let name = table["table"].as_str().expect("a name").to_owned();
        let output = ask(&scratch, &recording, &[&format!("SELECT * FROM {name} LIMIT 3"), "--csv"]);
        assert!(output.status.success(), "{name}: {}", stderr(&output));
        let told =
            holdup(&scratch).args(["query", "--schema", &name, "--json"]).output().expect("holdup runs");
        let told: Value = serde_json::from_slice(&told.stdout).expect("JSON");
        let columns: Vec<&str> = told["rows"]
            .as_array()
            .expect("columns")
            .iter()
            .filter_map(|row| row["column"].as_str())
            .collect();
        assert_eq!(stdout(&output).lines().next(), Some(columns.join(",").as_str()), "{name}");
    }
}

#[test]
fn several_recordings_are_distinguished_and_packed_ones_are_read() {
    let scratch = Scratch::new("query-several");
    let first = fixture(&scratch, "a.holdup");
    let packed = scratch.join("b.pack");
    let made = holdup(&scratch).arg("pack").arg(&first).arg("-o").arg(&packed).output().expect("holdup runs");
    assert!(made.status.success(), "{}", stderr(&made));
    for table in ["slices", "raw.slices"] {
        let sql =
            format!("SELECT recording, count(*) AS n FROM {table} GROUP BY recording ORDER BY recording");
        let output = ask(&scratch, &first, &[packed.to_str().expect("a path"), &sql, "--csv"]);
        assert!(output.status.success(), "{}", stderr(&output));
        let said = stdout(&output);
        let counts: Vec<&str> = said.lines().skip(1).filter_map(|line| line.rsplit(',').next()).collect();
        assert_eq!(counts.len(), 2, "{said}");
        assert_eq!(counts[0], counts[1], "{said}");
    }
    let left = std::fs::read_dir(std::env::temp_dir()).expect("a directory").flatten();
    let ours = |name: &str| name.starts_with("holdup-") && name.ends_with("-0") && name.len() < 18;
    assert!(
        left.filter(|entry| ours(&entry.file_name().to_string_lossy())).count() < 8,
        "temporary directories go"
    );
}

#[test]
fn errors_name_the_place_and_the_nearest_name() {
    let scratch = Scratch::new("query-errors");
    let recording = fixture(&scratch, "busy.holdup");
    let said = |sql: &str| refused(&scratch, &recording, &[sql]);
    let cases = [
        ("SELECT thread,\n  durtion_ns FROM slices", ["did you mean duration_ns?", "line 2, column 3"]),
        ("SELECT * FROM slcies", ["no table slcies: did you mean slices?", "line 1, column 15"]),
        ("SELECT * FROM raw.slice", ["did you mean raw.slices?", "no table raw.slice"]),
        ("SELECT name\nFROM threads WHERE (1 2)", ["Expected: )", "line 2, column 23"]),
        ("SELECT percentil(duration_ns, 50) FROM slices", ["did you mean percentile?", "no function"]),
        ("SELECT percentile(duration_ns, 101) FROM slices", ["not from 0 to 100", "101"]),
        ("DROP TABLE slices", ["not supported", "DDL"]),
        ("CREATE EXTERNAL TABLE x STORED AS PARQUET LOCATION '/etc/passwd'", ["DDL", "not supported"]),
        ("COPY slices TO 'x.parquet'", ["DML", "not supported"]),
        ("SELECT * FROM '/etc/passwd'", ["there is no table", "passwd"]),
        ("SELECT * FROM span_join('spans', 'threads', 'nothing')", ["no column nothing", "span_join"]),
        ("SELECT * FROM span_join('spans', 'slcies', 'thread')", ["did you mean slices?", "no table"]),
    ];
    for (sql, wanted) in cases {
        let said = said(sql);
        for word in wanted {
            assert!(said.contains(word), "{sql}: no '{word}' in: {said}");
        }
    }
    let said = refused(&scratch, &recording, &[]);
    assert!(said.contains("is a file"), "{said}");
    let deep = format!("SELECT {}1{}", "(".repeat(2_000), ")".repeat(2_000));
    refused(&scratch, &recording, &[&deep]);
    let long = format!("SELECT {}1", "1+".repeat(1_000));
    let output = ask(&scratch, &recording, &[&long]);
    assert!(output.status.code().is_some(), "it must not crash: {}", stderr(&output));
    let longer = format!("SELECT {}1", "1+".repeat(20_000));
    assert!(refused(&scratch, &recording, &[&longer]).contains("may have 16384"));
}

#[test]
fn memory_is_bounded() {
    let scratch = Scratch::new("query-memory");
    let recording = fixture(&scratch, "busy.holdup");
    let sql = "SELECT count(*) FROM slices a CROSS JOIN slices b CROSS JOIN slices c GROUP BY a.slice, b.slice, c.slice";
    let said = refused(&scratch, &recording, &[sql, "--memory", "2M"]);
    assert!(said.contains("--memory"), "{said}");
}

#[test]
fn damaged_tables_are_an_error_and_no_panic() {
    let scratch = Scratch::new("query-damaged");
    let recording = fixture(&scratch, "busy.holdup");
    let table = recording.join("slices.parquet");
    let whole = std::fs::read(&table).expect("a table");
    for cut in [0, 1, 7, whole.len() / 2, whole.len() - 1] {
        std::fs::write(&table, &whole[..cut]).expect("a damaged table");
        let said = refused(&scratch, &recording, &["SELECT count(thread) FROM raw.slices"]);
        assert!(said.contains("slices"), "{said}");
        // The view has what could be read, and the loss.
        let missing = rows(&scratch, &recording, "SELECT source, reason FROM loss WHERE source = 'slices'");
        assert_eq!(missing.len(), 1, "{missing:?}");
    }
    std::fs::remove_file(&table).expect("a table");
    refused(&scratch, &recording, &["SELECT count(*) FROM raw.slices"]);
    std::fs::remove_file(recording.join("manifest.json")).expect("a manifest");
    let said = refused(&scratch, &recording, &["SELECT 1"]);
    assert!(said.contains("no manifest"), "{said}");
}

/// A question that is asked of a file or of standard input is the same question.
#[test]
fn a_query_is_read_from_a_file_or_from_standard_input() {
    let scratch = Scratch::new("query-file");
    let recording = fixture(&scratch, "a.holdup");
    let sql = "SELECT class, sum(time_ns) AS time_ns\n-- of all threads\nFROM ledger GROUP BY class ORDER BY class\n";
    let file = scratch.join("question.sql");
    std::fs::write(&file, sql).unwrap();
    let name = file.display().to_string();
    let wanted = stdout(&ask(&scratch, &recording, &[sql, "--csv"]));
    assert!(wanted.starts_with("class,time_ns\n") && wanted.lines().count() > 1, "{wanted}");
    assert_eq!(stdout(&ask(&scratch, &recording, &["--csv", "--file", &name])), wanted);
    let mut piped = holdup(&scratch);
    piped.arg("query").arg(&recording).args(["-", "--csv"]);
    let piped = piped.stdin(std::fs::File::open(&file).unwrap()).output().unwrap();
    assert_eq!(stdout(&piped), wanted, "{}", stderr(&piped));
    assert!(refused(&scratch, &recording, &["--file", "/no/such/file"]).contains("/no/such/file"));
    assert!(refused(&scratch, &recording, &[&name]).contains("in a file, with --file"));
    std::fs::write(&file, " \n").unwrap();
    assert!(refused(&scratch, &recording, &["--file", &name]).contains("the query is empty"));
}

/// An interrupted query reports the interruption, and leaves no incomplete file.
#[test]
fn an_interrupted_query_leaves_no_file() {
    let scratch = Scratch::new("query-interrupted");
    let recording = fixture(&scratch, "a.holdup");
    let endless = "SELECT count(*) AS n FROM slices a, slices b, slices c, slices d, slices e, slices f, slices g \
                   WHERE a.start_ns + b.start_ns + c.start_ns + d.start_ns + e.start_ns + f.start_ns + g.start_ns = 1";
    for (signal, status) in [(libc::SIGINT, 130), (libc::SIGTERM, 143)] {
        let file = scratch.join("answer.parquet");
        let mut child = holdup(&scratch);
        child.arg("query").arg(&recording).arg(endless).arg("--parquet").arg(&file);
        let mut child = child.spawn().expect("holdup starts");
        while !file.exists() {
            assert!(child.try_wait().unwrap().is_none(), "it has no end");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        // SAFETY: a signal to a child of ours that has not been waited for.
        assert_eq!(unsafe { libc::kill(child.id() as libc::pid_t, signal) }, 0);
        assert_eq!(child.wait().unwrap().code(), Some(status));
        assert!(!file.exists());
    }
}

#[test]
fn duckdb_and_pandas_give_the_same_answers() {
    let Some(python) = python_with("duckdb, pandas, pyarrow", &["python"]) else { return };
    let scratch = Scratch::new("query-engines");
    let recording = fixture(&scratch, "busy.holdup");
    let exported = scratch.join("views");
    std::fs::create_dir(&exported).expect("a directory");
    for view in holdup_query::views::all() {
        let file = exported.join(format!("{}.parquet", view.name()));
        let sql = format!("SELECT * FROM {}", view.name());
        let output = ask(&scratch, &recording, &[&sql, "--parquet", file.to_str().expect("a path")]);
        assert!(output.status.success(), "{}: {}", view.name(), stderr(&output));
    }
    let page = std::fs::read_to_string(PAGE).expect("docs/sql.md");
    let mut answers = Vec::new();
    for question in questions(&page, "# Twenty questions") {
        let output = ask(&scratch, &recording, &[&question.sql, "--json"]);
        let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let names: Vec<&str> = answer["columns"]
            .as_array()
            .expect("columns")
            .iter()
            .filter_map(|one| one["name"].as_str())
            .collect();
        let row = |row: &Value| -> Value { names.iter().map(|name| row[*name].clone()).collect() };
        let rows: Value = answer["rows"].as_array().expect("rows").iter().map(row).collect();
        answers.push(serde_json::json!([question.elsewhere, rows]));
    }
    let file = scratch.join("answers.json");
    std::fs::write(&file, serde_json::to_vec(&answers).expect("JSON")).expect("answers");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/engines.py");
    let compared = std::process::Command::new(python)
        .arg(script)
        .args([Path::new(PAGE), &exported, &file])
        .output()
        .expect("Python runs");
    assert!(compared.status.success(), "{}", stderr(&compared));
    assert_eq!(stdout(&compared), "", "answers differ");
}

/// Peers at sockets: a fleet query finds the service that costs the most.
#[test]
fn waits_at_sockets_have_their_ends() {
    let scratch = Scratch::new("query-sockets");
    let (_, mut trace) = trace_of_lanes("@cpus 2\n@q socket 45\nA  0qqqqqq0qqq0\n");
    let name = "10.0.0.1:40912 → 10.0.0.2:5432".to_owned();
    for wait in trace.waits.iter_mut().filter(|wait| wait.syscall == 45) {
        (wait.object_kind, wait.object) = (ObjectKind::Socket, 7);
    }
    trace.calls.objects.push(CallObject { kind: ObjectKind::Socket, object: 7, name: name.clone() });
    let recording = scratch.join("sockets.holdup");
    save(&trace, &recording).expect("a recording");
    let by_peer = "SELECT object_name, sum(duration_ns) AS ns FROM waits WHERE object_kind = 'socket' GROUP BY object_name";
    let rows = rows(&scratch, &recording, by_peer);
    assert_eq!(rows.len(), 1);
    assert_eq!(
        (rows[0]["object_name"].as_str(), rows[0]["ns"].as_u64()),
        (Some(name.as_str()), Some(9_000_000))
    );
}

#[test]
fn a_key_that_is_not_known_is_equal_to_no_other() {
    let scratch = Scratch::new("query-null");
    let recording = fixture(&scratch, "busy.holdup");
    let table = "SELECT 0 AS start_ns, 10 AS end_ns, CAST(NULL AS BIGINT) AS k UNION ALL SELECT 0, 10, 1";
    let rows = rows(&scratch, &recording, &format!("SELECT k FROM span_join('{table}', '{table}', 'k')"));
    assert_eq!(rows, [serde_json::json!({ "k": 1 })]);
}

#[test]
fn a_recordings_name_is_no_pattern_of_files() {
    let scratch = Scratch::new("query-names");
    let count = |name: &str| {
        let recording = fixture(&scratch, name);
        rows(&scratch, &recording, "SELECT count(*) FROM raw.slices")
    };
    for name in ["set[avx2] *?#%.holdup", "web:1.holdup"] {
        assert_eq!(count(name), count("plain.holdup"), "{name}");
    }
}
