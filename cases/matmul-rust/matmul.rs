//! Fills matrices with random numbers, with parallel_for over the rows, and multiplies them: in sequence, or with
//! parallel_for as well.

#[allow(dead_code, reason = "what other programs use of it")]
#[path = "../shared/pool-rs/pool.rs"]
mod pool;
#[path = "../shared/pool-rs/queue.rs"]
mod queue;

use std::env;
use std::sync::Mutex;

type Row = Vec<u64>;

#[inline(never)]
fn row(a: &Row, b: &[Row]) -> Row {
    (0..b.len())
        .map(|j| a.iter().zip(b).map(|(value, row)| value.wrapping_mul(row[j])).fold(0, u64::wrapping_add))
        .collect()
}

/// Element after element of a long sequence, which any row can start anywhere.
fn random_row(length: usize, start: u64) -> Row {
    let mut state = start;
    let mut next = || {
        (0..100)
            .for_each(|_| state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407));
        state >> 40
    };
    (0..length).map(|_| next()).collect()
}

fn main() {
    let words: Vec<String> = env::args().collect();
    let number = |nth: usize| words[nth].parse::<usize>().expect("a number");
    let (parallel, n, rounds) = (words[1] == "parallel", number(3), number(4));
    let pool = pool::Pool::setup(number(2) - 1);
    let rows_of = |make: &(dyn Fn(usize) -> Row + Sync), parallel: bool| -> Vec<Row> {
        let rows: Vec<Mutex<Row>> = (0..n).map(|_| Mutex::default()).collect();
        let body = |i: usize| *rows[i].lock().unwrap() = make(i);
        if parallel {
            pool.parallel_for(None, 0..=n - 1, body)
        } else {
            (0..n).for_each(body)
        }
        rows.into_iter().map(|row| row.into_inner().unwrap()).collect()
    };
    let mut sum = 0_u64;
    for round in 0..rounds as u64 {
        let a = rows_of(&|i| random_row(n, round * 7919 + i as u64), true);
        let b = rows_of(&|i| random_row(n, round * 104729 + i as u64), true);
        let product = rows_of(&|i| row(&a[i], &b), parallel);
        sum = sum.wrapping_add(product[n - 1][n - 1]);
    }
    println!("{sum}\nprogress: {rounds} products");
}
