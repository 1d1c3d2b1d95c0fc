//! Checks the guarantees of the pool and the channels. Prints a line for each, and exits with 1 if one is
//! broken.

mod channel;
mod pool;
mod queue;

use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use channel::Channel;
use pool::{Closed, Pool};

static BROKEN: AtomicBool = AtomicBool::new(false);

fn check(name: &str, holds: bool) {
    BROKEN.fetch_or(!holds, Ordering::SeqCst);
    println!("{name}: {}", if holds { "holds" } else { "BROKEN" });
}

/// The text with which it panicked.
fn panicked(run: impl FnOnce()) -> Option<String> {
    let with = panic::catch_unwind(AssertUnwindSafe(run)).err()?;
    let fixed = || with.downcast_ref::<&str>().map(|text| text.to_string());
    with.downcast_ref::<String>().cloned().or_else(fixed)
}

fn loops(pool: &Pool) {
    let seen: Vec<AtomicUsize> = (0..1000).map(|_| AtomicUsize::new(0)).collect();
    let at = |i: usize| seen[i].load(Ordering::SeqCst);
    pool.parallel_for(None, 0..=999, |i| _ = seen[i].fetch_add(1, Ordering::SeqCst));
    check("parallel_for visits each index once, and is over when it returns", (0..1000).all(|i| at(i) == 1));
    pool.parallel_for(Some(7), 3..=13, |i| seen[i].store(5, Ordering::SeqCst));
    check("both ends belong to the range", (at(3), at(13), at(2), at(14)) == (5, 5, 1, 1));
    #[allow(clippy::reversed_empty_ranges)]
    pool.parallel_for(None, 5..=4, |_| seen[0].store(9, Ordering::SeqCst));
    check("an empty range does nothing", at(0) == 1);
    let nested = AtomicUsize::new(0);
    pool.parallel_for(Some(1), 1..=20, |_| {
        pool.parallel_for(Some(1), 1..=20, |_| _ = nested.fetch_add(1, Ordering::SeqCst));
    });
    check("loops may be nested", nested.into_inner() == 400);
    let visited = AtomicUsize::new(0);
    let with = panicked(|| {
        pool.parallel_for(Some(1), 0..=63, |i| {
            visited.fetch_add(1, Ordering::SeqCst);
            assert!(i != 10, "odd {i}");
        });
    });
    let all = visited.into_inner() == 64;
    check("parallel_for panics as its body did, after all chunks", with == Some("odd 10".into()) && all);
}

fn fib(pool: &'static Pool, n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let other = pool.spawn(move || fib(pool, n - 1)).unwrap();
    fib(pool, n - 2) + pool.join(&other)
}

fn tasks(pool: &'static Pool) {
    check("join gives the result", pool.join(&pool.spawn(|| 6 * 7).unwrap()) == 42);
    let odd = pool.spawn(|| panic!("odd {}", 3)).unwrap();
    check("join panics as the task did", panicked(|| pool.join(&odd)) == Some("odd 3".into()));
    check("a worker outlives the panic of a task", pool.join(&pool.spawn(|| 1).unwrap()) == 1);
    check("tasks may join tasks", fib(pool, 18) == 2584);
}

fn scans(pool: &Pool) {
    let holds = |n: usize| {
        let elements: Vec<String> = (0..n).map(|i| format!("{i},")).collect();
        let mut sum = String::new();
        let wanted: Vec<String> = elements
            .iter()
            .map(|one| {
                sum += one;
                sum.clone()
            })
            .collect();
        pool.parallel_scan(|a, b| format!("{a}{b}"), &elements) == wanted
    };
    check(
        "parallel_scan keeps the order, for any length",
        [0, 1, 2, 3, 4, 5, 17, 100].into_iter().all(holds),
    );
}

fn polls() {
    let (meeting, two, all) = (Channel::bounded(0), Channel::bounded(2), Channel::unbounded());
    check("size 0 without a receiver: send_poll is refused", !meeting.send_poll("hello"));
    check("nothing sent: recv_poll has none", meeting.recv_poll().is_none() && two.recv_poll().is_none());
    let sent = [1, 2, 3].map(|value| two.send_poll(value));
    check("a bounded channel takes as many as its size", sent == [true, true, false]);
    let got = [two.recv_poll(), two.recv_poll(), two.recv_poll()];
    check("a refused value is not received", got == [Some(1), Some(2), None]);
    check("an unbounded one takes all", (0..1000).all(|value| all.send_poll(value)));
    check("in order", (0..1000).all(|value| all.recv() == value));
}

fn rendezvous() {
    let meeting = Channel::bounded(0);
    let received = AtomicBool::new(false);
    thread::scope(|scope| {
        let sender = scope.spawn(|| {
            meeting.send(1);
            received.load(Ordering::SeqCst)
        });
        // Until the value is taken, the other thread is in send. It reads the result of send after that.
        let mut value = None;
        received.store(true, Ordering::SeqCst);
        while value.is_none() {
            value = meeting.recv_poll();
            thread::yield_now();
        }
        check(
            "size 0: send returns when a receiver has taken the value",
            value == Some(1) && sender.join().unwrap(),
        );
        let receiver = scope.spawn(|| meeting.recv());
        meeting.send(2);
        check("size 0: a receiver that came first gets it", receiver.join().unwrap() == 2);
    });
}

fn crowds(name: &str, channel: Channel<usize>) {
    const EACH: usize = 500;
    let got = thread::scope(|scope| {
        let channel = &channel;
        for base in [0, 10_000] {
            scope.spawn(move || (0..EACH).for_each(|i| channel.send(base + i)));
        }
        let receive = || (0..EACH).map(|_| channel.recv()).collect::<Vec<usize>>();
        [scope.spawn(receive), scope.spawn(receive)].map(|receiver| receiver.join().unwrap())
    });
    let mut all = got.concat();
    all.sort_unstable();
    let lost_none = all.into_iter().eq((0..EACH).chain(10_000..10_000 + EACH));
    check(&format!("size {name}: many senders and receivers lose and double nothing"), lost_none);
    let ordered = |values: &Vec<usize>| {
        [0, 1].into_iter().all(|from| values.iter().filter(|value| **value / 10_000 == from).is_sorted())
    };
    check(&format!("size {name}: each receiver sees each sender's order"), got.iter().all(ordered));
}

fn main() {
    panic::set_hook(Box::new(|_| ()));
    for workers in [0, 1, 3] {
        // For ever, as tasks may hold it.
        let pool: &'static Pool = Box::leak(Box::new(Pool::setup(workers)));
        loops(pool);
        tasks(pool);
        scans(pool);
    }
    let mut pool = Pool::setup(1);
    pool.teardown();
    check("a pool torn down takes no more", matches!(pool.spawn(|| ()), Err(Closed)));
    let shared = Arc::new(Pool::setup(2));
    drop(shared);
    polls();
    rendezvous();
    crowds("0", Channel::bounded(0));
    crowds("1", Channel::bounded(1));
    crowds("10", Channel::bounded(10));
    crowds("unbounded", Channel::unbounded());
    std::process::exit(i32::from(BROKEN.load(Ordering::SeqCst)));
}
