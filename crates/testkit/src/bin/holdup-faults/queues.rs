//! Faults of those who wait for each other: barriers, queues, handing to and fro.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use crate::tools;
use crate::{Plan, Truth};

type Body<'a> = (String, Box<dyn FnOnce() + Send + 'a>);

/// The rules for a thread that is late at a barrier.
const LATE: &[&str] = &["barrier-straggler", "load-imbalance"];

/// glibc's barrier.
struct Barrier(Box<std::cell::UnsafeCell<libc::pthread_barrier_t>>);

// SAFETY: a pthread barrier may be used by several threads, and never moves out of its box.
unsafe impl Sync for Barrier {}

impl Barrier {
    fn new(threads: u32) -> Barrier {
        // SAFETY: all zero is a value of the plain C struct, and init fills it in its final place.
        unsafe {
            let barrier = Barrier(Box::new(std::mem::zeroed()));
            libc::pthread_barrier_init(barrier.0.get(), std::ptr::null(), threads);
            barrier
        }
    }

    fn wait(&self) {
        // SAFETY: initialised above.
        unsafe { libc::pthread_barrier_wait(self.0.get()) };
    }
}

/// One of two threads has several times the work of the other, round after round.
pub fn barrier_imbalance(mut plan: Plan) -> std::io::Result<Truth> {
    let (small, times) = (plan.draw(500, 1500), plan.random.within(3, 6) as u32);
    let rounds = rounds(&plan, small * times);
    let barrier = Barrier::new(2);
    let worker = |name: &str, length: Duration, cpu| {
        let barrier = &barrier;
        let body = move || {
            tools::bind(cpu);
            for _ in 0..rounds {
                tools::compute(length);
                barrier.wait();
            }
        };
        (name.to_owned(), Box::new(body) as Box<dyn FnOnce() + Send>)
    };
    tools::together(vec![
        worker("even", small, tools::OTHERS),
        worker("straggler", small * times, tools::VICTIMS),
    ])?;
    Ok(Truth { rules: LATE, names: vec!["straggler".into()] })
}

/// Two threads have the same work, and one of them shares its CPU with a hog.
pub fn barrier_preempted(mut plan: Plan) -> std::io::Result<Truth> {
    let length = plan.draw(3000, 8000);
    let rounds = rounds(&plan, length * 2);
    let barrier = Barrier::new(2);
    let worker = |name: &str, cpu| {
        let barrier = &barrier;
        let body = move || {
            tools::bind(cpu);
            for _ in 0..rounds {
                tools::compute(length);
                barrier.wait();
            }
        };
        (name.to_owned(), Box::new(body) as Box<dyn FnOnce() + Send>)
    };
    tools::together(vec![worker("free", tools::OTHERS), worker("victim", tools::VICTIMS)])?;
    Ok(Truth { rules: &["barrier-straggler", "noisy-neighbour"], names: vec![] })
}

/// How many rounds of that length fit: all threads must make as many.
fn rounds(plan: &Plan, length: Duration) -> u32 {
    let left = plan.until.saturating_duration_since(std::time::Instant::now());
    ((left.as_secs_f64() / length.as_secs_f64()) as u32).max(10)
}

/// A queue of a few places.
struct Queue {
    items: Mutex<VecDeque<Option<u64>>>,
    changed: Condvar,
    places: usize,
}

impl Queue {
    fn new(places: usize) -> Queue {
        Queue { items: Mutex::new(VecDeque::new()), changed: Condvar::new(), places }
    }

    fn put(&self, item: Option<u64>) {
        let Ok(mut items) = self.items.lock() else { return };
        while items.len() >= self.places {
            items = match self.changed.wait(items) {
                Ok(items) => items,
                Err(_) => return,
            };
        }
        items.push_back(item);
        self.changed.notify_one();
    }

    fn take(&self) -> Option<u64> {
        let Ok(mut items) = self.items.lock() else { return None };
        loop {
            if let Some(item) = items.pop_front() {
                self.changed.notify_one();
                return item;
            }
            items = match self.changed.wait(items) {
                Ok(items) => items,
                Err(_) => return None,
            };
        }
    }
}

/// A consumer takes several times as long per item as the producer, so the queue between them is full.
pub fn slow_consumer(mut plan: Plan) -> std::io::Result<Truth> {
    let (produce, times) = (plan.draw(100, 400), plan.random.within(3, 6) as u32);
    let queue = Queue::new(plan.random.within(2, 8) as usize);
    let (plan, queue) = (&plan, &queue);
    let producer = move || {
        while plan.goes_on() {
            tools::compute(produce);
            queue.put(Some(1));
        }
        queue.put(None);
    };
    let consumer = move || {
        while queue.take().is_some() {
            tools::compute(produce * times);
        }
    };
    let bodies: Vec<Body> =
        vec![("producer".to_owned(), Box::new(producer)), ("consumer".to_owned(), Box::new(consumer))];
    tools::together(bodies)?;
    Ok(Truth { rules: &["serial-section"], names: vec!["consumer".into()] })
}

/// Two threads with a queue of one place each way, and hardly any work for an item.
pub fn ping_pong(mut plan: Plan) -> std::io::Result<Truth> {
    let length = plan.draw(1, 6);
    let (there, back) = (Queue::new(1), Queue::new(1));
    let (plan, there, back) = (&plan, &there, &back);
    let asks = move || {
        while plan.goes_on() {
            there.put(Some(1));
            tools::compute(length);
            back.take();
        }
        there.put(None);
    };
    let answers = move || {
        while there.take().is_some() {
            tools::compute(length);
            back.put(Some(1));
        }
    };
    let bodies: Vec<Body> =
        vec![("asks".to_owned(), Box::new(asks)), ("answers".to_owned(), Box::new(answers))];
    tools::together(bodies)?;
    Ok(Truth { rules: &["wakeup-ping-pong"], names: vec!["asks".into(), "answers".into()] })
}
