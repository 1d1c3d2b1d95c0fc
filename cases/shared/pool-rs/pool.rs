//! A small task pool over threads: tasks with `spawn` and `join`, `parallel_for`, `parallel_scan`. The terms
//! are those of the OCaml pool in the neighbouring folder: `spawn` is its async, `join` its await, which are
//! reserved words in Rust.
//!
//! Each worker has a queue of its own. It takes its newest task, and a worker without tasks takes another's
//! oldest. A joining thread works until its task is done. Running tasks do not move, so tasks must only wait
//! for each other by `join`.

use std::any::Any;
use std::cell::Cell;
use std::ops::RangeInclusive;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};

use crate::queue::{Queue, Task};

type Outcome<T> = Result<T, Box<dyn Any + Send>>;

thread_local! {
    /// The thread's own queue. 0 for threads that are no workers.
    static OWN: Cell<usize> = const { Cell::new(0) };
}

/// State shared by workers.
struct Shared {
    queues: Vec<Queue>,
    queued: AtomicUsize,
    closed: AtomicBool,
    sleepers: AtomicUsize,
    idle_lock: Mutex<()>,
    idle: Condvar,
}

pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

/// A pool that was torn down takes no more tasks.
#[derive(Debug, PartialEq, Eq)]
pub struct Closed;

/// The future result of a task, or its panic.
pub struct Promise<T> {
    outcome: Mutex<Option<Outcome<T>>>,
    done: AtomicBool,
    /// Set by a thread that sleeps until the task is done.
    awaited: AtomicBool,
}

impl<T> Promise<T> {
    fn is_done(&self) -> bool {
        self.done.load(Ordering::SeqCst)
    }
}

impl Shared {
    fn push(&self, task: Task) {
        self.queues[OWN.get() % self.queues.len()].push(task);
        self.queued.fetch_add(1, Ordering::SeqCst);
        self.wake(|idle| idle.notify_one());
    }

    fn wake(&self, wake: impl FnOnce(&Condvar)) {
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            let _guard = self.idle_lock.lock().unwrap();
            wake(&self.idle);
        }
    }

    fn take(&self) -> Option<Task> {
        if self.queued.load(Ordering::SeqCst) == 0 {
            return None;
        }
        let (own, all) = (OWN.get(), self.queues.len());
        let steal = || (1..all).find_map(|nth| self.queues[(own + nth) % all].oldest());
        let task = self.queues[own % all].newest().or_else(steal)?;
        self.queued.fetch_sub(1, Ordering::SeqCst);
        Some(task)
    }

    /// Runs tasks until `over`, and sleeps while there are none.
    fn work(&self, over: impl Fn() -> bool, before_sleep: impl Fn()) {
        while !over() {
            match self.take() {
                Some(task) => task(),
                None => {
                    before_sleep();
                    self.sleep(&over);
                }
            }
        }
    }

    fn sleep(&self, over: &impl Fn() -> bool) {
        let mut guard = self.idle_lock.lock().unwrap();
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        while self.queued.load(Ordering::SeqCst) == 0 && !over() {
            guard = self.idle.wait(guard).unwrap();
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Pool {
    /// A pool of `workers` threads, helped by joining and looping threads.
    pub fn setup(workers: usize) -> Pool {
        let shared = Arc::new(Shared {
            queues: (0..=workers).map(|_| Queue::default()).collect(),
            queued: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            sleepers: AtomicUsize::new(0),
            idle_lock: Mutex::new(()),
            idle: Condvar::new(),
        });
        let start = |number: usize| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                OWN.set(number);
                shared.work(|| shared.closed.load(Ordering::SeqCst), || ());
            })
        };
        Pool { workers: (1..=workers).map(start).collect(), shared }
    }

    /// Ends the workers. Queued tasks that were not joined may not run.
    pub fn teardown(&mut self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        self.shared.wake(Condvar::notify_all);
        for worker in self.workers.drain(..) {
            worker.join().unwrap();
        }
    }

    pub fn spawn<T: Send + 'static>(
        &self,
        make: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Arc<Promise<T>>, Closed> {
        if self.shared.closed.load(Ordering::SeqCst) {
            return Err(Closed);
        }
        let promise = Arc::new(Promise {
            outcome: Mutex::new(None),
            done: AtomicBool::new(false),
            awaited: AtomicBool::new(false),
        });
        let (kept, shared) = (Arc::clone(&promise), Arc::clone(&self.shared));
        self.shared.push(Box::new(move || {
            let outcome = panic::catch_unwind(AssertUnwindSafe(make));
            *kept.outcome.lock().unwrap() = Some(outcome);
            kept.done.store(true, Ordering::SeqCst);
            if kept.awaited.load(Ordering::SeqCst) {
                shared.wake(Condvar::notify_all);
            }
        }));
        Ok(promise)
    }

    /// Returns the task's result. Panics with the task's panic.
    pub fn join<T>(&self, promise: &Promise<T>) -> T {
        let awaited = || promise.awaited.store(true, Ordering::SeqCst);
        self.shared.work(|| promise.is_done(), awaited);
        match promise.outcome.lock().unwrap().take() {
            Some(Ok(value)) => value,
            Some(Err(panicked)) => panic::resume_unwind(panicked),
            None => panic!("joined twice"),
        }
    }

    /// Halves the range until it is no longer than a chunk. Returns when all of it is done, also if a part panicked: then it
    /// panics with that.
    pub fn parallel_for(
        &self,
        chunk_size: Option<usize>,
        range: RangeInclusive<usize>,
        body: impl Fn(usize) + Sync,
    ) {
        if range.is_empty() {
            return;
        }
        let length = range.end() - range.start() + 1;
        let chunk = chunk_size.unwrap_or(length / (8 * self.shared.queues.len())).max(1);
        self.halves(chunk, range, &body);
    }

    fn halves(&self, chunk: usize, range: RangeInclusive<usize>, body: &(dyn Fn(usize) + Sync)) {
        let (first, last) = range.into_inner();
        if last - first < chunk {
            return (first..=last).for_each(body);
        }
        let middle = first + (last - first) / 2;
        // SAFETY: both are only used by the task, which is over when this function returns or panics.
        let (pool, shared_body): (&'static Pool, &'static (dyn Fn(usize) + Sync)) =
            unsafe { (std::mem::transmute(self), std::mem::transmute(body)) };
        let upper = self.spawn(move || pool.halves(chunk, middle + 1..=last, shared_body));
        let lower = panic::catch_unwind(AssertUnwindSafe(|| self.halves(chunk, first..=middle, body)));
        let upper = match upper {
            Ok(promise) => panic::catch_unwind(AssertUnwindSafe(|| self.join(&promise))),
            Err(Closed) => panic!("a loop in a pool that was torn down"),
        };
        if let Err(panicked) = lower.and(upper) {
            panic::resume_unwind(panicked);
        }
    }

    /// Inclusive: element i of the result is the sum, by `op`, of elements 0 to i.
    pub fn parallel_scan<T: Clone + Send + Sync>(
        &self,
        op: impl Fn(&T, &T) -> T + Sync,
        elements: &[T],
    ) -> Vec<T> {
        let parts = elements.len().min(self.shared.queues.len());
        if parts == 0 {
            return Vec::new();
        }
        let first = |part: usize| part * elements.len() / parts;
        let sums: Vec<Mutex<Vec<T>>> = (0..parts).map(|_| Mutex::new(Vec::new())).collect();
        self.parallel_for(Some(1), 0..=parts - 1, |part| {
            let mut sum: Vec<T> = Vec::new();
            for element in &elements[first(part)..first(part + 1)] {
                let next = sum.last().map_or_else(|| element.clone(), |before| op(before, element));
                sum.push(next);
            }
            *sums[part].lock().unwrap() = sum;
        });
        // The result before each part, in order: each part only needs this value.
        let mut before: Vec<Option<T>> = vec![None];
        for part in 0..parts - 1 {
            let sum = sums[part].lock().unwrap();
            let last = sum.last().expect("a part has an element");
            let next = before[part].as_ref().map_or_else(|| last.clone(), |sum| op(sum, last));
            before.push(Some(next));
        }
        self.parallel_for(Some(1), 0..=parts - 1, |part| {
            if let Some(before) = &before[part] {
                sums[part].lock().unwrap().iter_mut().for_each(|sum| *sum = op(before, sum));
            }
        });
        sums.into_iter().flat_map(|sum| sum.into_inner().unwrap()).collect()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.teardown();
    }
}
