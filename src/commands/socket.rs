//! The socket of `holdup view`: the part of HTTP/1.1 that a browser's GET needs. Each connection has one
//! thread and one request. Browsers open up to six connections and keep idle ones for later, so no request
//! may wait behind an idle connection. The report crate checks access and creates the responses.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use holdup_report::viewer::Response;
use holdup_report::viewer::gate::{HEADERS, MOVED, Request};

/// Longer heads are refused: a browser's are of one or two kilobytes.
const HEAD_MAX: usize = 16 << 10;
/// More connections at once are turned away: a few browsers' worth.
const CONNECTIONS_MAX: usize = 64;
/// Timeout for receiving a request and for sending a response.
const PATIENCE: Duration = Duration::from_secs(20);

/// Serves every connection until the process exits.
pub fn serve(listener: &TcpListener, answer: impl Fn(&Request) -> Response + Sync) {
    let open = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for stream in listener.incoming() {
            let Ok(stream) = stream else {
                // Most likely out of descriptors: those in use will be given back.
                std::thread::sleep(Duration::from_millis(10));
                continue;
            };
            if open.fetch_add(1, Ordering::AcqRel) >= CONNECTIONS_MAX {
                open.fetch_sub(1, Ordering::AcqRel);
                continue;
            }
            let (open, answer) = (&open, &answer);
            scope.spawn(move || {
                // The client may have closed the connection, so an error has no recipient.
                let _ = converse(stream, answer);
                open.fetch_sub(1, Ordering::AcqRel);
            });
        }
    });
}

/// Reads one request and answers it.
fn converse(mut stream: TcpStream, answer: &impl Fn(&Request) -> Response) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    let Some(head) = read_head(&mut stream, PATIENCE)? else { return Ok(()) };
    let (response, with_body) = match parse(&head) {
        Some(request) => (answer(&request), request.method != "HEAD"),
        None => (refusal(), true),
    };
    write(&mut stream, &response, with_body)
}

/// Reads the head of a request, up to the empty line. `None` if the head is missing or too long. The whole
/// head must arrive within `patience`. Otherwise any local client could occupy a connection slot by sending a
/// byte now and then.
fn read_head(stream: &mut TcpStream, patience: Duration) -> io::Result<Option<Vec<u8>>> {
    let until = Instant::now() + patience;
    let mut head = Vec::new();
    let mut piece = [0u8; 2048];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let count = stream.read(&mut piece)?;
        // The end may lie across two pieces.
        let searched = head.len().saturating_sub(3);
        head.extend_from_slice(&piece[..count]);
        if let Some(at) = head[searched..].windows(4).position(|four| four == b"\r\n\r\n") {
            head.truncate(searched + at);
            return Ok(Some(head));
        }
        if count == 0 || head.len() > HEAD_MAX {
            return Ok(None);
        }
    }
}

/// The request that a head asks, if it is one.
fn parse(head: &[u8]) -> Option<Request<'_>> {
    let mut lines = std::str::from_utf8(head).ok()?.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    if words.next().is_some() || !matches!(version, "HTTP/1.1" | "HTTP/1.0") {
        return None;
    }
    let headers = lines.map(|line| line.split_once(':').map(|(name, value)| (name, value.trim())));
    Some(Request { method, target, headers: headers.collect::<Option<Vec<_>>>()? })
}

fn refusal() -> Response {
    Response { status: 400, content_type: "text/plain; charset=utf-8", body: b"not a request\n".to_vec() }
}

fn write(stream: &mut TcpStream, response: &Response, with_body: bool) -> io::Result<()> {
    let mut head = format!("HTTP/1.1 {} {}\r\n", response.status, phrase(response.status));
    for (name, value) in
        HEADERS.iter().chain(&[("Content-Type", response.content_type), ("Connection", "close")])
    {
        head += &format!("{name}: {value}\r\n");
    }
    if response.status == MOVED {
        head += &format!("Location: {}\r\n", String::from_utf8_lossy(&response.body));
    }
    head += &format!("Content-Length: {}\r\n\r\n", response.body.len());
    let mut bytes = head.into_bytes();
    if with_body {
        bytes.extend_from_slice(&response.body);
    }
    stream.write_all(&bytes)
}

/// The reason phrase. Programs read only the number.
fn phrase(status: u16) -> &'static str {
    match status {
        200 => "OK",
        202 => "Accepted",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        421 => "Misdirected Request",
        _ => "See the body",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves on a port of its own for the rest of the process.
    fn start() -> std::net::SocketAddr {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        std::thread::spawn(move || {
            serve(&listener, |request| Response {
                status: 200,
                content_type: "text/plain",
                body: request.target.as_bytes().to_vec(),
            });
        });
        address
    }

    fn ask(stream: &mut TcpStream, request: &str) -> String {
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("text");
        answer
    }

    #[test]
    fn silent_connections_do_not_delay_requests() {
        let address = start();
        let silent: Vec<TcpStream> =
            (0..12).map(|_| TcpStream::connect(address).expect("it listens")).collect();
        for at in 0..6 {
            let mut stream = TcpStream::connect(address).expect("it listens");
            let answer = ask(&mut stream, &format!("GET /{at} HTTP/1.1\r\nHost: x\r\n\r\n"));
            assert!(
                answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with(&format!("\r\n\r\n/{at}")),
                "{answer}"
            );
        }
        drop(silent);
    }

    #[test]
    fn a_head_may_come_in_pieces_and_has_no_body_if_it_asks_for_none() {
        let mut stream = TcpStream::connect(start()).expect("it listens");
        for piece in ["HE", "AD /x HTTP/1.1\r", "\nHost: x\r\n", "\r"] {
            stream.write_all(piece.as_bytes()).expect("sent");
            stream.flush().expect("sent");
        }
        let answer = ask(&mut stream, "\n");
        assert!(answer.contains("Content-Length: 2\r\n") && answer.ends_with("\r\n\r\n"), "{answer}");
    }

    #[test]
    fn a_slow_sender_times_out() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        // Continues until the receiver closes the connection.
        let sender = std::thread::spawn(move || {
            let mut stream = TcpStream::connect(address).expect("it listens");
            while stream.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let (mut stream, _) = listener.accept().expect("somebody");
        let head = read_head(&mut stream, Duration::from_millis(100));
        let kind = head.expect_err("it never ends").kind();
        assert!(matches!(kind, io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock), "{kind:?}");
        drop(stream);
        sender.join().expect("it was told");
    }

    #[test]
    fn a_redirect_has_its_location() {
        let moved = Response { status: MOVED, content_type: "text/plain", body: b"/token/".to_vec() };
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let mut reader = TcpStream::connect(listener.local_addr().expect("an address")).expect("it listens");
        let (mut stream, _) = listener.accept().expect("somebody");
        write(&mut stream, &moved, true).expect("sent");
        drop(stream);
        let mut answer = String::new();
        reader.read_to_string(&mut answer).expect("text");
        assert!(
            answer.starts_with("HTTP/1.1 308 ") && answer.contains("\r\nLocation: /token/\r\n"),
            "{answer}"
        );
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for nonsense in [
            "GET\r\n\r\n",
            "\r\n\r\n",
            "GET / HTTP/2\r\n\r\n",
            "GET / x HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nno colon\r\n\r\n",
        ] {
            let mut stream = TcpStream::connect(start()).expect("it listens");
            assert!(ask(&mut stream, nonsense).starts_with("HTTP/1.1 400 "), "{nonsense:?}");
        }
    }
}
