//! Fills an array with random numbers, in the threads of a pool. A generator has a lock, like those of
//! libraries. Three forms:
//!
//! `shared`: All use one generator.
//! `beside`: Each has its own, but the generators are adjacent in one array and share cache lines.
//! `own`: Each makes its own where it uses it.

#[allow(dead_code, reason = "what other programs use of it")]
#[path = "../shared/pool-rs/pool.rs"]
mod pool;
#[path = "../shared/pool-rs/queue.rs"]
mod queue;

use std::env;
use std::sync::Mutex;

struct Random(u64);

impl Random {
    /// A number below 100.
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64 * 100.0
    }
}

#[inline(never)]
fn fill(generator: &Mutex<Random>, part: &mut [f64]) {
    for place in part {
        *place = generator.lock().unwrap().next();
    }
}

fn main() {
    let words: Vec<String> = env::args().collect();
    let number = |nth: usize| words[nth].parse::<usize>().expect("a number");
    let (form, threads, n, rounds) = (words[1].as_str(), number(2), number(3), number(4));
    let pool = pool::Pool::setup(threads - 1);
    let mut array = vec![0.0; n];
    let parts: Vec<Mutex<&mut [f64]>> = array.chunks_mut(n.div_ceil(threads)).map(Mutex::new).collect();
    let shared = Mutex::new(Random(42));
    let beside: Vec<Mutex<Random>> = (0..threads as u64).map(|i| Mutex::new(Random(i + 1))).collect();
    pool.parallel_for(Some(1), 0..=parts.len() - 1, |i| {
        let own = Mutex::new(Random(i as u64 + 1));
        let generator = match form {
            "shared" => &shared,
            "beside" => &beside[i],
            _ => &own,
        };
        let mut part = parts[i].lock().unwrap();
        (0..rounds).for_each(|_| fill(generator, &mut part));
    });
    drop(parts);
    println!("mean {:.3}\nprogress: {} numbers", array.iter().sum::<f64>() / n as f64, n * rounds);
}
