//! Schedulers run tasks, each from a run queue of its own under a mutex. Tasks come in bursts, all to the
//! first scheduler. A scheduler without tasks steals.
//!
//! `one`: a scheduler without work raises a flag ("do not steal from me") and takes one task from another's
//! queue. It puts the task on its own queue, continues its loop, and takes it from there: three locks per task.
//! `half`: it takes half of the other's tasks, at most 100, in one piece. It runs the first at once and puts
//! the rest on its own queue. A locked queue is skipped until the others have been tried. A single task is
//! left in place.
//!
//! At the end it prints statistics of the run queues' locks: tries, collisions, time.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

const BURST: u64 = 2_000;
const STEAL_MAX: usize = 100;

/// A task is the seed of its computation.
type Task = u64;

/// On lines of its own, with what its scheduler has done.
#[repr(align(128))]
struct RunQueue {
    tasks: Mutex<VecDeque<Task>>,
    done: AtomicU64,
    result: AtomicU64,
    keep_out: AtomicBool,
    tries: AtomicU64,
    collisions: AtomicU64,
    waited_ns: AtomicU64,
}

impl RunQueue {
    fn new() -> RunQueue {
        RunQueue {
            tasks: Mutex::default(),
            done: AtomicU64::new(0),
            result: AtomicU64::new(0),
            keep_out: AtomicBool::new(false),
            tries: AtomicU64::new(0),
            collisions: AtomicU64::new(0),
            waited_ns: AtomicU64::new(0),
        }
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, VecDeque<Task>>> {
        self.tries.fetch_add(1, Relaxed);
        let locked = self.tasks.try_lock().ok();
        if locked.is_none() {
            self.collisions.fetch_add(1, Relaxed);
        }
        locked
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Task>> {
        self.try_lock().unwrap_or_else(|| {
            let start = Instant::now();
            let locked = self.tasks.lock().unwrap();
            self.waited_ns.fetch_add(start.elapsed().as_nanos() as u64, Relaxed);
            locked
        })
    }
}

struct Machine {
    queues: Vec<RunQueue>,
    over: AtomicBool,
}

impl Machine {
    fn run(&self, own: usize, task: Task) {
        let mut state = task;
        for _ in 0..300 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        }
        self.queues[own].result.fetch_xor(state, Relaxed);
        self.queues[own].done.fetch_add(1, Relaxed);
    }

    fn other_queues(&self, own: usize) -> impl Iterator<Item = &RunQueue> {
        let count = self.queues.len();
        (1..count).map(move |nth| &self.queues[(own + nth) % count])
    }

    /// True if a task is now on the own queue.
    fn steal_one(&self, own: usize) -> bool {
        self.queues[own].keep_out.store(true, Relaxed);
        for victim in self.other_queues(own).filter(|victim| !victim.keep_out.load(Relaxed)) {
            let stolen = victim.lock().pop_back();
            if let Some(task) = stolen {
                self.queues[own].lock().push_back(task);
                return true;
            }
        }
        false
    }

    /// The first stolen task. The rest is on the own queue.
    fn steal_half(&self, own: usize) -> Option<Task> {
        let mut passed_over = Vec::new();
        for victim in self.other_queues(own) {
            match victim.try_lock() {
                Some(tasks) => {
                    if let Some(task) = self.take_half(own, tasks) {
                        return Some(task);
                    }
                }
                None => passed_over.push(victim),
            }
        }
        passed_over.into_iter().find_map(|victim| self.take_half(own, victim.lock()))
    }

    fn take_half(&self, own: usize, mut tasks: MutexGuard<VecDeque<Task>>) -> Option<Task> {
        let count = (tasks.len() / 2).min(STEAL_MAX);
        let mut stolen = tasks.drain(..count).collect::<VecDeque<Task>>();
        drop(tasks);
        let first = stolen.pop_front()?;
        if !stolen.is_empty() {
            self.queues[own].lock().append(&mut stolen);
        }
        Some(first)
    }

    fn schedule(&self, own: usize, half: bool) {
        while !self.over.load(Relaxed) {
            let next = self.queues[own].lock().pop_front();
            self.queues[own].keep_out.store(false, Relaxed);
            let next = if half { next.or_else(|| self.steal_half(own)) } else { next };
            match next {
                Some(task) => self.run(own, task),
                None if !half && self.steal_one(own) => {}
                None => thread::yield_now(),
            }
        }
    }

    /// Bursts for the first scheduler. The next one comes when most of the last one is done.
    fn feed(&self, bursts: u64) {
        for burst in 0..bursts {
            self.queues[0].lock().extend(burst * BURST..(burst + 1) * BURST);
            while self.sum(|queue| &queue.done) < burst * BURST + BURST * 9 / 10 {
                thread::sleep(Duration::from_micros(50));
            }
        }
        while self.sum(|queue| &queue.done) < bursts * BURST {
            thread::sleep(Duration::from_micros(50));
        }
        self.over.store(true, Relaxed);
    }

    fn sum(&self, count: fn(&RunQueue) -> &AtomicU64) -> u64 {
        self.queues.iter().map(|queue| count(queue).load(Relaxed)).sum()
    }

    fn print_lock_counts(&self) {
        let (tries, collisions) = (self.sum(|queue| &queue.tries), self.sum(|queue| &queue.collisions));
        eprintln!("     lock  id      #tries  #collisions  collisions [%]  time [us]");
        eprintln!(
            "run_queue {:>3} {tries:>11} {collisions:>12} {:>15.4} {:>10}",
            self.queues.len(),
            collisions as f64 * 100.0 / tries as f64,
            self.sum(|queue| &queue.waited_ns) / 1000
        );
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let half = arguments[1] == "half";
    let schedulers: usize = arguments[2].parse().unwrap();
    let bursts: u64 = arguments[3].parse().unwrap();
    let machine = Arc::new(Machine {
        queues: (0..schedulers).map(|_| RunQueue::new()).collect(),
        over: AtomicBool::new(false),
    });
    let threads: Vec<_> = (0..schedulers)
        .map(|own| {
            let machine = Arc::clone(&machine);
            let name = format!("scheduler {own}");
            thread::Builder::new().name(name).spawn(move || machine.schedule(own, half)).unwrap()
        })
        .collect();
    machine.feed(bursts);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    machine.print_lock_counts();
    let result = machine.queues.iter().fold(0, |sum, queue| sum ^ queue.result.load(Relaxed));
    eprintln!("{result:016x}");
    println!("progress: {} tasks", bursts * BURST);
}
