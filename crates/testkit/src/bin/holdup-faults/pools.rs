//! Faults of pools: too many are woken, or all of them wait for something slow.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use crate::tools;
use crate::{Plan, Truth};

type Body<'a> = (String, Box<dyn FnOnce() + Send + 'a>);

/// Jobs of one length. A worker that takes `None` ends.
#[derive(Default)]
struct Jobs {
    waiting: Mutex<VecDeque<Option<Duration>>>,
    changed: Condvar,
}

impl Jobs {
    fn take(&self) -> Option<Duration> {
        let Ok(mut waiting) = self.waiting.lock() else { return None };
        loop {
            if let Some(job) = waiting.pop_front() {
                return job;
            }
            waiting = match self.changed.wait(waiting) {
                Ok(waiting) => waiting,
                Err(_) => return None,
            };
        }
    }

    /// Puts one job into the queue. Returns the number of queued jobs.
    fn put(&self, job: Option<Duration>) -> usize {
        let Ok(mut waiting) = self.waiting.lock() else { return 0 };
        waiting.push_back(job);
        waiting.len()
    }
}

/// For each job all workers of a large pool are woken, and one of them finds it. One worker would have enough to do: the
/// source is nearly as fast as it, so that neither is what the other waits for.
pub fn herd(mut plan: Plan) -> std::io::Result<Truth> {
    let pause = plan.draw(50, 150);
    let length = pause * 3 / 4;
    let workers = plan.random.within(8, 16) as usize;
    let jobs = Jobs::default();
    let (plan, jobs) = (&plan, &jobs);
    let worker = |number: usize| -> Body {
        let body = move || {
            while let Some(length) = jobs.take() {
                tools::compute(length);
            }
        };
        (format!("worker-{number}"), Box::new(body))
    };
    let mut bodies: Vec<Body> = (0..workers).map(worker).collect();
    let source = move || {
        while plan.goes_on() {
            jobs.put(Some(length));
            jobs.changed.notify_all();
            tools::compute(pause);
        }
        for _ in 0..workers {
            jobs.put(None);
        }
        jobs.changed.notify_all();
    };
    bodies.push(("source".to_owned(), Box::new(source)));
    tools::together(bodies)?;
    Ok(Truth { rules: &["thundering-herd"], names: vec!["worker-".into()] })
}

/// A pool as wide as the machine whose jobs mostly wait for a slow server: work queues up while no CPU has any.
pub fn starved(mut plan: Plan) -> std::io::Result<Truth> {
    let (compute, answer) = (plan.draw(200, 600), plan.draw(2000, 5000));
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let jobs = Jobs::default();
    let (plan, jobs) = (&plan, &jobs);
    const WORKERS: usize = 2;
    let worker = |number: usize| -> Body {
        let body = move || {
            let Ok(mut server) = TcpStream::connect(address) else { return };
            let _ = server.set_nodelay(true);
            let mut byte = [0];
            while let Some(length) = jobs.take() {
                tools::compute(length);
                if server.write_all(&byte).and_then(|()| server.read_exact(&mut byte)).is_err() {
                    return;
                }
            }
        };
        (format!("worker-{number}"), Box::new(body))
    };
    let mut bodies: Vec<Body> = (0..WORKERS).map(worker).collect();
    let source = move || {
        // The queue is never empty, but at the beginning.
        std::thread::sleep(Duration::from_millis(5));
        while plan.goes_on() {
            while jobs.put(Some(compute)) < 4 * WORKERS {
                jobs.changed.notify_one();
            }
            std::thread::sleep(answer / 2);
        }
        for _ in 0..WORKERS {
            jobs.put(None);
        }
        jobs.changed.notify_all();
    };
    bodies.push(("source".to_owned(), Box::new(source)));
    let server = move || serve_slowly(&listener, WORKERS, answer);
    bodies.push(("server".to_owned(), Box::new(server)));
    tools::together(bodies)?;
    Ok(Truth { rules: &["pool-starved"], names: vec!["worker-".into()] })
}

/// Answers each connection's requests after a while, each in a thread of its own: they do not wait for each other.
fn serve_slowly(listener: &TcpListener, connections: usize, answer: Duration) {
    std::thread::scope(|scope| {
        for mut client in listener.incoming().flatten().take(connections) {
            let _ = client.set_nodelay(true);
            let name = std::thread::Builder::new().name("connection".to_owned());
            let serve = move || {
                let mut byte = [0];
                while client.read_exact(&mut byte).is_ok() {
                    std::thread::sleep(answer);
                    if client.write_all(&byte).is_err() {
                        return;
                    }
                }
            };
            if name.spawn_scoped(scope, serve).is_err() {
                return;
            }
        }
    });
}
