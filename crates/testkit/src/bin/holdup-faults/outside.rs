//! Faults of which the kernel is a part: the network's delays, quotas, timers, bound threads, children.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

use crate::tools;
use crate::{Plan, Truth};

type Body<'a> = (String, Box<dyn FnOnce() + Send + 'a>);

const REQUEST_BYTES: usize = 12;
const HEAD_BYTES: usize = 4;

/// A client writes each request in two small pieces and waits for the response. The second piece waits until
/// the peer has acknowledged the first, which it delays.
pub fn delayed_ack(mut plan: Plan) -> std::io::Result<Truth> {
    let length = plan.draw(500, 2000);
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let plan = &plan;
    let client = move || {
        let Ok(mut server) = TcpStream::connect(address) else { return };
        let request = [7u8; REQUEST_BYTES];
        let mut answer = [0u8; HEAD_BYTES];
        while plan.goes_on() {
            tools::compute(length);
            let (head, body) = request.split_at(HEAD_BYTES);
            let sent = server.write_all(head).and_then(|()| server.write_all(body));
            if sent.and_then(|()| server.read_exact(&mut answer)).is_err() {
                return;
            }
        }
    };
    with_server(listener, REQUEST_BYTES, client)?;
    Ok(Truth { rules: &["delayed-ack"], names: vec![] })
}

/// Runs a client and a server that responds to each request with the request's head.
fn with_server(
    listener: TcpListener,
    request_bytes: usize,
    client: impl FnOnce() + Send,
) -> std::io::Result<()> {
    let server = move || {
        let Ok((mut client, _)) = listener.accept() else { return };
        let mut request = vec![0u8; request_bytes];
        while client.read_exact(&mut request).is_ok() {
            if client.write_all(&request[..HEAD_BYTES]).is_err() {
                return;
            }
        }
    };
    let bodies: Vec<Body> =
        vec![("client".to_owned(), Box::new(client)), ("server".to_owned(), Box::new(server))];
    tools::together(bodies)
}

/// Two threads compute in a control group that may use less than one CPU. Needs the right to make groups.
pub fn throttled(mut plan: Plan) -> std::io::Result<Truth> {
    let percent = plan.random.within(40, 80);
    let quota = tools::Quota::enter(percent)?;
    let plan = &plan;
    let worker = |number: usize| -> Body {
        let body = move || {
            while plan.goes_on() {
                tools::compute(Duration::from_millis(1));
            }
        };
        (format!("worker-{number}"), Box::new(body))
    };
    let done = tools::together((0..2).map(worker).collect());
    drop(quota);
    done?;
    Ok(Truth { rules: &["cpu-throttled"], names: vec!["worker-".into()] })
}

/// A thread asks for sleeps far shorter than the kernel's slack between pieces of work.
pub fn short_sleeps(mut plan: Plan) -> std::io::Result<Truth> {
    let (asked, length) = (plan.draw(1, 5), plan.draw(30, 60));
    let plan = &plan;
    let body = move || {
        while plan.goes_on() {
            tools::compute(length);
            std::thread::sleep(asked);
        }
    };
    tools::together(vec![("sleeper".to_owned(), Box::new(body))])?;
    Ok(Truth { rules: &["oversleep"], names: vec!["sleeper".into(), "later".into()] })
}

/// Two threads compute that a library has bound to one and the same CPU.
pub fn bound_together(mut plan: Plan) -> std::io::Result<Truth> {
    let length = plan.draw(500, 2000);
    let plan = &plan;
    let worker = |number: usize| -> Body {
        let body = move || {
            tools::bind(tools::VICTIMS);
            while plan.goes_on() {
                tools::compute(length);
            }
        };
        (format!("worker-{number}"), Box::new(body))
    };
    tools::together((0..2).map(worker).collect())?;
    Ok(Truth { rules: &["pinned-together"], names: vec!["worker-".into()] })
}

/// A parent starts one child that computes after the other, and waits for each.
pub fn children_in_turn(mut plan: Plan) -> std::io::Result<Truth> {
    let own = plan.draw(500, 2000);
    let seconds = plan.random.within(120, 180) as f64 / 1000.0;
    let program = std::env::current_exe()?;
    while plan.goes_on() {
        tools::compute(own);
        Command::new(&program).args(["hog", "--seconds", &seconds.to_string()]).status()?;
    }
    Ok(Truth { rules: &["child-wait"], names: vec!["hog".into()] })
}

/// The same two small pieces of each request, which the client's socket sends at once: nothing is wrong.
pub fn prompt_requests(mut plan: Plan) -> std::io::Result<Truth> {
    let length = plan.draw(500, 2000);
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let plan = &plan;
    let client = move || {
        let Ok(mut server) = TcpStream::connect(address) else { return };
        let _ = server.set_nodelay(true);
        let mut answer = [0u8; HEAD_BYTES];
        while plan.goes_on() {
            tools::compute(length);
            let sent = server.write_all(&[7; HEAD_BYTES]).and_then(|()| server.write_all(&[7; HEAD_BYTES]));
            if sent.and_then(|()| server.read_exact(&mut answer)).is_err() {
                return;
            }
        }
    };
    with_server(listener, 2 * HEAD_BYTES, client)?;
    Ok(Truth::default())
}
