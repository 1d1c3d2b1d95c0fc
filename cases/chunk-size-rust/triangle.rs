//! Counts the pairs of near points, each pair once: row i has n - i of them, so the first rows are the
//! longest. The chunk size is the number of rows per task.

#[allow(dead_code, reason = "what other programs use of it")]
#[path = "../shared/pool-rs/pool.rs"]
mod pool;
#[path = "../shared/pool-rs/queue.rs"]
mod queue;

use std::env;
use std::sync::atomic::{AtomicUsize, Ordering};

const POINTS: usize = 4000;

fn place(factor: usize) -> Vec<f64> {
    (0..POINTS).map(|i| (i * factor % 10007) as f64 / 10007.0).collect()
}

#[inline(never)]
fn near_of(i: usize, x: &[f64], y: &[f64], reach: f64) -> usize {
    let near = |j: &usize| (x[i] - x[*j]).powi(2) + (y[i] - y[*j]).powi(2) < reach * reach;
    (i + 1..POINTS).filter(near).count()
}

fn main() {
    let numbers: Vec<usize> = env::args().skip(1).map(|word| word.parse().expect("a number")).collect();
    let (threads, chunk_size, steps) = (numbers[0], numbers[1], numbers[2]);
    let pool = pool::Pool::setup(threads - 1);
    let (x, y) = (place(7919), place(104729));
    let near: Vec<AtomicUsize> = (0..POINTS).map(|_| AtomicUsize::new(0)).collect();
    for step in 1..=steps {
        let reach = 0.001 * step as f64;
        let body = |i: usize| near[i].store(near_of(i, &x, &y, reach), Ordering::Relaxed);
        pool.parallel_for(Some(chunk_size), 0..=POINTS - 1, body);
    }
    let pairs: usize = near.iter().map(|count| count.load(Ordering::Relaxed)).sum();
    println!("{pairs} pairs\nprogress: {steps} steps");
}
