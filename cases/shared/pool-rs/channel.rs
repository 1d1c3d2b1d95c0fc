//! Channels between threads, in the order of sending. A channel of size 0 is a rendezvous: send returns when
//! a receiver has taken the value. Any number of threads may send and receive. It cannot be closed.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// A waiting thread: a sender with its value, or a receiver.
struct Waiting<T> {
    value: Mutex<Option<T>>,
    settled: Condvar,
}

impl<T> Waiting<T> {
    fn new(value: Option<T>) -> Arc<Waiting<T>> {
        Arc::new(Waiting { value: Mutex::new(value), settled: Condvar::new() })
    }

    /// Sleeps until there is a value, or until it was taken.
    fn until(&self, there: bool) -> MutexGuard<'_, Option<T>> {
        let value = self.value.lock().unwrap();
        self.settled.wait_while(value, |value| value.is_some() != there).unwrap()
    }

    fn change(&self, change: impl FnOnce(&mut Option<T>) -> Option<T>) -> Option<T> {
        change(&mut self.value.lock().unwrap())
    }
}

/// The thread whose wait is over, if any. It is woken after the channel's lock is released. Otherwise it
/// would wait for the lock.
struct Settled<T>(Option<Arc<Waiting<T>>>);

impl<T> Settled<T> {
    fn wake(self) {
        if let Some(waiting) = self.0 {
            waiting.settled.notify_one();
        }
    }
}

struct State<T> {
    buffer: VecDeque<T>,
    senders: VecDeque<Arc<Waiting<T>>>,
    receivers: VecDeque<Arc<Waiting<T>>>,
}

pub struct Channel<T> {
    size: usize,
    state: Mutex<State<T>>,
}

impl<T> Channel<T> {
    pub fn bounded(size: usize) -> Channel<T> {
        let state = State { buffer: VecDeque::new(), senders: VecDeque::new(), receivers: VecDeque::new() };
        Channel { size, state: Mutex::new(state) }
    }

    pub fn unbounded() -> Channel<T> {
        Channel::bounded(usize::MAX)
    }

    /// Returns the value if there is no receiver and no space. Otherwise the receiver to wake, which has the
    /// value.
    fn deliver(&self, state: &mut State<T>, value: T) -> Result<Settled<T>, T> {
        if let Some(receiver) = state.receivers.pop_front() {
            receiver.change(|place| place.replace(value));
            return Ok(Settled(Some(receiver)));
        }
        if state.buffer.len() < self.size {
            state.buffer.push_back(value);
            return Ok(Settled(None));
        }
        Err(value)
    }

    /// Returns the first value, and the sender to wake.
    fn collect(state: &mut State<T>) -> (Option<T>, Settled<T>) {
        let next = state.buffer.pop_front();
        let Some(sender) = state.senders.pop_front() else { return (next, Settled(None)) };
        let sent = sender.change(Option::take);
        if next.is_none() {
            return (sent, Settled(Some(sender)));
        }
        state.buffer.extend(sent);
        (next, Settled(Some(sender)))
    }

    pub fn send(&self, value: T) {
        let mut state = self.state.lock().unwrap();
        match self.deliver(&mut state, value) {
            Ok(settled) => {
                drop(state);
                settled.wake();
            }
            Err(value) => {
                let own = Waiting::new(Some(value));
                state.senders.push_back(Arc::clone(&own));
                drop(state);
                drop(own.until(false));
            }
        }
    }

    pub fn recv(&self) -> T {
        let mut state = self.state.lock().unwrap();
        if let (Some(value), settled) = Channel::collect(&mut state) {
            drop(state);
            settled.wake();
            return value;
        }
        let own = Waiting::new(None);
        state.receivers.push_back(Arc::clone(&own));
        drop(state);
        let mut value = own.until(true);
        value.take().expect("it waited until there was one")
    }

    /// True if it was taken at once.
    pub fn send_poll(&self, value: T) -> bool {
        let delivered = self.deliver(&mut self.state.lock().unwrap(), value);
        delivered.map(Settled::wake).is_ok()
    }

    pub fn recv_poll(&self) -> Option<T> {
        let (value, settled) = Channel::collect(&mut self.state.lock().unwrap());
        settled.wake();
        value
    }
}
