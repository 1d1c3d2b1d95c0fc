//! Random programs that seeds name.

use super::program::{Op, Plan, Program};
use crate::random::Random;

fn compute(random: &mut Random) -> Op {
    Op::Compute(random.within(1, 30_000))
}

/// Another program's thread: it runs for a while, and again later.
fn noise(random: &mut Random) -> Plan {
    let ops = (0..40).flat_map(|_| [compute(random), Op::Sleep(random.within(1, 80_000))]).collect();
    Plan { target: false, unborn: false, ops, laps: None }
}

/// A program whose threads start over until the recording is cut off.
pub fn endless(seed: u64) -> Program {
    let mut random = Random::new(seed);
    let random = &mut random;
    let locks = random.within(1, 4) as usize;
    let channels = random.within(1, 4) as usize;
    let targets = random.within(1, 8) as u32;
    let foreign = random.within(0, 4) as u32;
    let mut threads = Vec::new();
    for number in 0..targets {
        let ops = mixture(random, locks, channels, number == 0);
        let unborn = number > 0 && random.once_in(4);
        threads.push(Plan { target: true, unborn, ops, laps: None });
    }
    threads.extend((0..foreign).map(|_| noise(random)));
    let cpus = random.within(1, 5) as u32;
    let length_ns = Some(random.within(200_000, 1_500_000));
    Program {
        cpus,
        quantum_ns: random.within(5_000, 60_000),
        length_ns,
        threads,
        locks,
        barging: false,
        channels: vec![0; channels],
        pipes: channels / 2,
        barriers: Vec::new(),
        pools: Vec::new(),
    }
}

/// Operations in any order, repeated unless the thread exits. Locks are never nested, so there is no
/// deadlock.
fn mixture(random: &mut Random, locks: usize, channels: usize, spawns: bool) -> Vec<Op> {
    let mut ops = vec![compute(random)];
    if spawns {
        ops.extend([Op::Spawn, compute(random), Op::Spawn]);
    }
    for _ in 0..random.within(3, 25) {
        match random.within(0, 8) {
            0 | 1 => {
                let lock = random.within(0, locks as u64) as usize;
                ops.extend([Op::Lock(lock), compute(random), Op::Unlock(lock)]);
            }
            2 => ops.push(Op::Pop(random.within(0, channels as u64) as usize)),
            3 | 4 => ops.push(Op::Push(random.within(0, channels as u64) as usize)),
            5 => ops.push(Op::Sleep(random.within(1, 60_000))),
            6 => ops.push(Op::Disk(random.within(1, 90_000))),
            _ => {}
        }
        ops.push(compute(random));
    }
    if random.once_in(5) {
        ops.push(Op::Exit);
    }
    ops
}

/// A program that terminates: all pushed items are popped, and all members of a barrier wait at it equally
/// often.
pub fn whole(seed: u64) -> Program {
    let mut random = Random::new(seed ^ 0x5eed);
    let random = &mut random;
    let targets = random.within(2, 9) as usize;
    let locks = random.within(1, 4) as usize;
    let laps = random.within(30, 80) as u32;
    let queues = if random.once_in(2) { targets / 2 } else { 0 };
    let meets = random.once_in(3);
    let pool = random.once_in(4);
    let capacity = random.within(1, 6);
    let mut threads = Vec::new();
    for number in 0..targets {
        let mut ops = stretch(random, locks);
        if number / 2 < queues {
            // Producer and consumer of one bounded queue: items, and room for items.
            let (items, room) = (number / 2, queues + number / 2);
            let (take, give) = if number % 2 == 0 { (room, items) } else { (items, room) };
            ops.extend([Op::Pop(take), compute(random), Op::Push(give)]);
        }
        if pool {
            ops.push(Op::Work(0));
        }
        if meets {
            ops.push(Op::Meet(0));
        }
        threads.push(Plan { target: true, unborn: false, ops, laps: Some(laps) });
    }
    threads.extend((0..random.within(0, 3)).map(|_| noise(random)));
    let jobs = if pool { random.within(20, 400) } else { 0 };
    let mut channels = vec![0; queues];
    channels.extend(vec![capacity; queues]);
    Program {
        cpus: random.within(1, 5) as u32,
        quantum_ns: random.within(10_000, 60_000),
        length_ns: None,
        threads,
        locks,
        barging: random.once_in(2),
        channels,
        pipes: 0,
        barriers: vec![targets as u32],
        pools: vec![(0..jobs).map(|_| random.within(1_000, 50_000)).collect()],
    }
}

/// Operations of one thread in a lap that need no other thread.
fn stretch(random: &mut Random, locks: usize) -> Vec<Op> {
    let mut ops = vec![compute(random)];
    for _ in 0..random.within(1, 6) {
        match random.within(0, 8) {
            0..=3 => {
                let lock = random.within(0, locks as u64) as usize;
                ops.extend([Op::Lock(lock), compute(random), Op::Unlock(lock)]);
            }
            4 => ops.push(Op::Sleep(random.within(1, 60_000))),
            5 => ops.push(Op::Disk(random.within(1, 90_000))),
            _ => ops.push(Op::Section(random.within(0, 3) as u16, random.within(1, 40_000))),
        }
        ops.push(compute(random));
    }
    ops
}
