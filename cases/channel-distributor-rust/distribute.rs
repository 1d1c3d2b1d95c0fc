//! Passes small tasks to a worker through a channel. The argument is the channel's capacity: with 0, each
//! task is a rendezvous of two threads.

#[allow(dead_code, reason = "what other programs use of it")]
#[path = "../shared/pool-rs/channel.rs"]
mod channel;

use std::{env, thread};

use channel::Channel;

fn collatz_steps(mut n: u64) -> u64 {
    let mut steps = 0;
    while n != 1 {
        n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 };
        steps += 1;
    }
    steps
}

fn main() {
    let numbers: Vec<u64> = env::args().skip(1).map(|word| word.parse().expect("a number")).collect();
    let (size, tasks) = (numbers[0] as usize, numbers[1]);
    let work: Channel<Option<u64>> = Channel::bounded(size);
    let steps = thread::scope(|scope| {
        let receive = || {
            let mut sum = 0;
            while let Some(task) = work.recv() {
                sum += collatz_steps(task);
            }
            sum
        };
        let worker = scope.spawn(receive);
        (1..=tasks).for_each(|task| work.send(Some(task)));
        work.send(None);
        worker.join().expect("no panic")
    });
    println!("{steps} steps\nprogress: {tasks} tasks");
}
