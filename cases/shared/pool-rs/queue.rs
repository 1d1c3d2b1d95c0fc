//! One worker's tasks: the owner pushes and pops at the back, thieves take from the front. A thread that
//! finds the queue empty has not taken the lock.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

pub type Task = Box<dyn FnOnce() + Send>;

/// In a cache line of its own, for each is written by another thread.
#[repr(align(128))]
#[derive(Default)]
pub struct Queue {
    tasks: Mutex<VecDeque<Task>>,
    length: AtomicUsize,
}

impl Queue {
    pub fn push(&self, task: Task) {
        let mut tasks = self.tasks.lock().unwrap();
        tasks.push_back(task);
        self.length.store(tasks.len(), Ordering::Release);
    }

    /// The task that its owner put last.
    pub fn newest(&self) -> Option<Task> {
        self.take(VecDeque::pop_back)
    }

    /// The task that waits longest.
    pub fn oldest(&self) -> Option<Task> {
        self.take(VecDeque::pop_front)
    }

    fn take(&self, end: impl FnOnce(&mut VecDeque<Task>) -> Option<Task>) -> Option<Task> {
        // A look without the lock: at worst it is too old, and the next round sees more.
        if self.length.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut tasks = self.tasks.lock().unwrap();
        let task = end(&mut tasks);
        self.length.store(tasks.len(), Ordering::Release);
        task
    }
}
