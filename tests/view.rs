//! `holdup view` over a socket, with the requests of a browser and of an attacker.

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use support::{Scratch, holdup, stderr};

/// A minimal recording, on any backend.
fn recording(scratch: &Scratch) -> PathBuf {
    let path = scratch.join("t.holdup");
    let output = holdup(scratch).args(["run", "-q", "-o"]).arg(&path).args(["--", "sleep", "0.1"]).output();
    let output = output.expect("holdup starts");
    assert!(output.status.success(), "{}", stderr(&output));
    path
}

/// A server that ends with the test.
struct Served {
    child: Child,
    port: u16,
    token: String,
}

impl Served {
    fn start(scratch: &Scratch, recording: &Path) -> Served {
        let mut child = holdup(scratch)
            .args(["view", "--no-open"])
            .arg(recording)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("holdup starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        let rest = line.trim().strip_prefix("http://127.0.0.1:").expect("an address of this machine");
        let (port, token) = rest.trim_end_matches('/').split_once('/').expect("a token");
        Served { child, port: port.parse().expect("a port"), token: token.to_owned() }
    }

    /// Sends `request` with `{token}` and `{port}` filled in. Returns head and body.
    fn send(&self, request: &str) -> (String, String) {
        let request = request.replace("{token}", &self.token).replace("{port}", &self.port.to_string());
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        (head.to_owned(), body.to_owned())
    }

    /// Asks again for as long as the answer is "not yet".
    fn get(&self, path: &str, headers: &str) -> (String, String) {
        loop {
            let answer = self.send(&format!("GET {path} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n"));
            if status(&answer) != "202" {
                return answer;
            }
            assert!(answer.1.contains("\"stage\""), "{}", answer.1);
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const HOST: &str = "Host: 127.0.0.1:{port}\r\n";

fn status(answer: &(String, String)) -> &str {
    answer.0.split(' ').nth(1).unwrap_or("nothing")
}

#[test]
fn the_printed_address_answers_and_no_other_does() {
    let scratch = Scratch::new("view");
    let recording = recording(&scratch);
    let served = Served::start(&scratch, &recording);
    assert!(served.token.len() == 32 && served.token.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let summary = served.get("/{token}/api/summary", HOST);
    assert_eq!(status(&summary), "200", "{}", summary.0);
    let json: serde_json::Value = serde_json::from_str(&summary.1).expect("JSON");
    assert_eq!(json["command"][0], "sleep");
    for wanted in
        ["Content-Security-Policy: default-src 'none'", "nosniff", "no-referrer", "no-store", "DENY"]
    {
        assert!(summary.0.contains(wanted), "{wanted}: {}", summary.0);
    }
    assert!(!summary.0.to_ascii_lowercase().contains("access-control-allow"), "{}", summary.0);
    let page = served.get("/{token}/", HOST);
    assert_eq!(status(&page), "200");
    // Without the last slash the page's relative addresses would lead nowhere.
    let moved = served.get("/{token}", HOST);
    assert_eq!(status(&moved), "308");
    assert!(moved.0.contains(&format!("\r\nLocation: /{}/\r\n", served.token)), "{}", moved.0);
    assert!(page.0.contains("Content-Security-Policy"));

    let refused = [
        ("403", "/api/summary", HOST),
        ("403", "/00000000000000000000000000000000/api/summary", HOST),
        ("421", "/{token}/api/summary", "Host: evil.example\r\n"),
        ("421", "/{token}/api/summary", "Host: evil.example:{port}\r\n"),
        ("421", "/{token}/api/summary", ""),
        ("403", "/{token}/api/summary", "Host: 127.0.0.1:{port}\r\nOrigin: http://evil.example\r\n"),
        ("403", "/{token}/api/summary", "Host: 127.0.0.1:{port}\r\nSec-Fetch-Site: cross-site\r\n"),
        ("400", "/{token}/../../etc/passwd", HOST),
        ("400", "/{token}/%2e%2e/%2e%2e/etc/passwd", HOST),
        ("404", "/{token}/api/nothing", HOST),
        ("400", "/{token}/api/lanes?level=x", HOST),
    ];
    for (wanted, path, headers) in refused {
        let answer = served.get(path, headers);
        assert_eq!(status(&answer), wanted, "{path} {headers}: {}", answer.0);
        assert!(!answer.1.contains("sleep"), "{path}: {}", answer.1);
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"] {
        let request = format!(
            "{method} /{{token}}/api/summary HTTP/1.1\r\n{HOST}Content-Length: 0\r\nConnection: close\r\n\r\n"
        );
        assert_eq!(status(&served.send(&request)), "405", "{method}");
    }
}

#[test]
fn nonsense_does_not_stop_it_and_two_may_look_at_once() {
    let scratch = Scratch::new("view-nonsense");
    let recording = recording(&scratch);
    let (first, second) = (Served::start(&scratch, &recording), Served::start(&scratch, &recording));
    assert_ne!((first.port, &first.token), (second.port, &second.token));
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(100_000));
    for nonsense in ["\r\n\r\n", "GET\r\n\r\n", "\u{0}\u{1}\u{2}", "GET / HTTP/9.9\r\n\r\n", &long] {
        let mut stream = TcpStream::connect(("127.0.0.1", first.port)).expect("it listens");
        let _ = stream.write_all(nonsense.as_bytes());
        let _ = stream.shutdown(std::net::Shutdown::Write);
    }
    for served in [&first, &second] {
        assert_eq!(status(&served.get("/{token}/api/summary", HOST)), "200");
    }
    let path = format!("/{}/api/summary", second.token);
    assert_eq!(status(&first.get(&path, HOST)), "403", "one's token does not open the other");
}

#[test]
fn ctrl_c_ends_it() {
    let scratch = Scratch::new("view-ctrl-c");
    let recording = recording(&scratch);
    let mut served = Served::start(&scratch, &recording);
    // SAFETY: a signal to our own child, which has not been waited for.
    unsafe { libc::kill(served.child.id() as i32, libc::SIGINT) };
    served.child.wait().expect("it ends");
}

#[test]
fn a_truncated_recording_opens_and_reports_missing_parts() {
    let scratch = Scratch::new("view-cut");
    let recording = recording(&scratch);
    let slices = recording.join("slices.parquet");
    let bytes = std::fs::read(&slices).expect("slices");
    std::fs::write(&slices, &bytes[..bytes.len() / 2]).expect("written");
    let served = Served::start(&scratch, &recording);
    let summary = served.get("/{token}/api/summary", HOST);
    assert_eq!(status(&summary), "200", "{}", summary.0);
    let json: serde_json::Value = serde_json::from_str(&summary.1).expect("JSON");
    assert!(!json["losses"].as_array().expect("losses").is_empty(), "{}", summary.1);
    let lane = served.get("/{token}/api/lanes?level=0&tile=0&threads=0", HOST);
    assert_eq!(status(&lane), "200", "{}", lane.0);
}

#[test]
fn what_is_no_recording_is_refused() {
    let scratch = Scratch::new("view-none");
    let output = holdup(&scratch).args(["view", "--no-open", "/no/such.holdup"]).output();
    let output = output.expect("holdup starts");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("/no/such.holdup"), "{}", stderr(&output));
}
