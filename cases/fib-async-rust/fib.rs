//! Fibonacci numbers by the definition, with tasks. Below the threshold, a number is computed without further
//! tasks. With a low threshold, the tasks cost more than their work.

#[allow(dead_code, reason = "what other programs use of it")]
#[path = "../shared/pool-rs/pool.rs"]
mod pool;
#[path = "../shared/pool-rs/queue.rs"]
mod queue;

use std::env;

use pool::Pool;

fn fib(n: u64) -> u64 {
    if n < 2 { n } else { fib(n - 1) + fib(n - 2) }
}

fn fib_tasks(pool: &'static Pool, threshold: u64, n: u64) -> u64 {
    if n <= threshold {
        return fib(n);
    }
    let other = pool.spawn(move || fib_tasks(pool, threshold, n - 1)).expect("an open pool");
    let own = fib_tasks(pool, threshold, n - 2);
    own + pool.join(&other)
}

fn main() {
    let numbers: Vec<u64> = env::args().skip(1).map(|word| word.parse().expect("a number")).collect();
    let (threads, threshold, n, rounds) = (numbers[0], numbers[1], numbers[2], numbers[3]);
    // For ever, since its tasks hold it.
    let pool: &'static Pool = Box::leak(Box::new(Pool::setup(threads as usize - 1)));
    let wanted = fib(n);
    for _ in 0..rounds {
        assert_eq!(fib_tasks(pool, threshold, n), wanted);
    }
    println!("progress: {rounds} numbers");
}
