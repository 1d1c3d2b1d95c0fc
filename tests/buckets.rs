//! `holdup pack --dataset s3://...` and `holdup query --dataset s3://...`, against a server that speaks S3 (moto).
#![cfg(feature = "s3")]

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};

use holdup_testkit::saved::save;
use support::python::python_with;
use support::{Scratch, busy, holdup, stderr, stdout};

/// A server with the bucket `fleet`, stopped on drop.
struct Server {
    child: Child,
    stop: Option<ChildStdin>,
    url: String,
}

impl Server {
    /// `None` if there is no such server here, with a message.
    fn start() -> Option<Server> {
        let python = python_with("moto.server", &["python-fleet"])?;
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/bucket.py");
        let mut command = Command::new(python);
        command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("Python starts");
        let stop = child.stdin.take();
        let mut url = String::new();
        let out = child.stdout.take().expect("a pipe");
        BufReader::new(out).read_line(&mut url).expect("it says where it is");
        assert!(url.starts_with("http://"), "no server: {url}");
        Some(Server { child, stop, url: url.trim().to_owned() })
    }

    /// Stores an object, without credentials.
    fn put(&self, object: &str, body: &str) {
        let host = self.url.trim_start_matches("http://");
        let mut stream = TcpStream::connect(host).expect("a connection");
        let headers = format!("Host: {host}\r\nContent-Length: {}\r\nConnection: close", body.len());
        stream
            .write_all(format!("PUT {object} HTTP/1.1\r\n{headers}\r\n\r\n{body}").as_bytes())
            .expect("asked");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(answer.contains(" 200 "), "{answer}");
    }

    fn holdup(&self, scratch: &Scratch, words: &[&str]) -> Output {
        at(scratch, &self.url).args(words).output().expect("holdup runs")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        let _ = self.child.wait();
    }
}

/// Uses this server, with arbitrary credentials.
fn at(scratch: &Scratch, url: &str) -> Command {
    let mut command = holdup(scratch);
    let keys = [
        ("AWS_ACCESS_KEY_ID", "someone"),
        ("AWS_SECRET_ACCESS_KEY", "something"),
        ("AWS_REGION", "us-east-1"),
    ];
    command.envs(keys).env("AWS_ENDPOINT_URL", url);
    command
}

fn recording(scratch: &Scratch) -> PathBuf {
    let path = scratch.join("busy.holdup");
    save(&busy::busy(), &path).expect("a recording");
    path
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn a_dataset_in_a_bucket_answers_as_one_in_a_directory_does() {
    let scratch = Scratch::new("bucket");
    let Some(server) = Server::start() else { return };
    let recording = recording(&scratch);
    let directory = scratch.join("fleet");
    for (place, label) in [("s3://fleet/of/mine", "a"), (text(&directory), "a")] {
        let label = format!("release={label}");
        let words = ["pack", "--dataset", place, "--label", &label, text(&recording)];
        let first = server.holdup(&scratch, &words);
        assert!(first.status.success() && stderr(&first).contains("added"), "{}", stderr(&first));
        let again = server.holdup(&scratch, &words);
        assert!(again.status.success() && stderr(&again).contains("is there already"), "{}", stderr(&again));
    }
    for sql in [
        "SELECT host, date, run, name, wait_ns FROM locks ORDER BY wait_ns DESC, name",
        "SELECT state, count(*) AS n, sum(end_ns - start_ns) AS ns FROM slices GROUP BY state ORDER BY state",
        "SELECT label, value, count(*) AS n FROM labels GROUP BY label, value",
        "SELECT count(*) AS n FROM ledger WHERE host = 'nobody'",
    ] {
        let ask = |place: &str| server.holdup(&scratch, &["query", "--dataset", place, sql, "--csv"]);
        let (there, here) = (ask("s3://fleet/of/mine"), ask(text(&directory)));
        assert!(there.status.success(), "{sql}: {}", stderr(&there));
        assert!(stdout(&there).lines().count() > 1, "{sql}: {}", stdout(&there));
        assert_eq!(stdout(&there), stdout(&here), "{sql}");
    }
}

#[test]
fn a_run_counts_once_its_manifest_is_there() {
    let scratch = Scratch::new("bucket-half");
    let Some(server) = Server::start() else { return };
    let recording = recording(&scratch);
    let words = ["pack", "--dataset", "s3://fleet", "--views", "ledger", text(&recording)];
    let packed = server.holdup(&scratch, &words);
    assert!(packed.status.success(), "{}", stderr(&packed));
    // As a packer leaves it that is killed.
    server.put("/fleet/host=web-9/date=2026-11-22/run=half/ledger.parquet", "half");
    let sql =
        ["query", "--dataset", "s3://fleet/", "SELECT count(DISTINCT run) AS runs FROM ledger", "--csv"];
    let asked = server.holdup(&scratch, &sql);
    assert_eq!(stdout(&asked), "runs\n1\n", "{}", stderr(&asked));
    let said = stderr(&asked);
    assert!(
        said.contains("left out: s3://fleet/host=web-9/date=2026-11-22/run=half: it has no manifest.json"),
        "{said}"
    );
}

#[test]
fn unreachable_buckets_are_reported() {
    let scratch = Scratch::new("bucket-none");
    let recording = recording(&scratch);
    let bad = |command: &mut Command, place: &str, wanted: &str| {
        let output =
            command.args(["pack", "--dataset", place, text(&recording)]).output().expect("holdup runs");
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(wanted), "no '{wanted}' in: {}", stderr(&output));
    };
    bad(&mut holdup(&scratch), "gs://fleet/of/mine", "gs:// is not known, s3:// and directories are");
    bad(&mut holdup(&scratch), "s3:///mine", "wanted is s3://BUCKET/PREFIX");
    // A port that was just released has no listener.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|socket| socket.local_addr())
        .expect("a port")
        .port();
    bad(&mut at(&scratch, &format!("http://127.0.0.1:{port}")), "s3://fleet", "s3://fleet: ");
    let nobody = format!("http://127.0.0.1:{port}");
    let mut keyless = holdup(&scratch);
    keyless.env_remove("AWS_ACCESS_KEY_ID").env("AWS_METADATA_ENDPOINT", &nobody);
    bad(&mut keyless, "s3://fleet", "AWS_ACCESS_KEY_ID is not set");
    let Some(server) = Server::start() else { return };
    bad(&mut at(&scratch, &server.url), "s3://nothing/here", "s3://nothing/here: ");
    let empty = server.holdup(&scratch, &["query", "--dataset", "s3://fleet/empty", "SELECT 1"]);
    assert_eq!(empty.status.code(), Some(2), "{}", stderr(&empty));
    assert!(stderr(&empty).contains("it contains no run"), "{}", stderr(&empty));
}
