//! Four threads that compute, lock, send and sleep.

use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

fn fibonacci(n: u64) -> u64 {
    if n < 2 { n } else { fibonacci(n - 1) + fibonacci(n - 2) }
}

fn main() {
    let total = Arc::new(Mutex::new(0));
    let (sender, receiver) = mpsc::channel();
    for worker in 0..4 {
        let (total, sender) = (total.clone(), sender.clone());
        thread::spawn(move || {
            for turn in 0..2000u64 {
                let value = fibonacci(20 + (turn + worker) % 5);
                *total.lock().unwrap() += value;
                sender.send(value).unwrap();
                if turn % 50 == 0 {
                    thread::sleep(Duration::from_micros(100));
                }
            }
        });
    }
    drop(sender);
    println!("{}", receiver.iter().fold(0u64, u64::wrapping_add));
}
