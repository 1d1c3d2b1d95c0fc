//! A seeded simulator: a random program on a few CPUs, as events *and the truth*.
//!
//! Threads compute, lock, push to and pop from queues (condition variables) and pipes, sleep and read the disk;
//! others, foreign, take CPUs away. The truth is added up by the simulated scheduler itself, not from the events.

use std::collections::{BTreeMap, VecDeque};

use holdup_events::event::*;
use holdup_events::recording::Manifest;
use holdup_events::{CpuId, Timestamp, WaitReason};
use holdup_findings::derive::class::{CLASSES, Class};

use crate::random::Random;
use crate::waits::raw_wait;

/// What really happened.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    /// Time by class of each target thread (tid); all running time is `Useful` (ns).
    pub classes: BTreeMap<u32, [u64; CLASSES]>,
    /// Time waited for each lock, by its futex address (ns).
    pub lock_wait_ns: BTreeMap<u64, u64>,
    /// CPUs of the machine.
    pub cpus: u32,
    /// Time of all threads, foreign ones included, on CPUs (ns).
    pub running_ns: u64,
}

/// One simulated recording.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// What a perfect source delivers, in order.
    pub events: Vec<Event>,
    /// What was recorded where.
    pub manifest: Manifest,
    /// What really happened.
    pub truth: Truth,
}

const START_NS: u64 = 1_000_000;
const TGID: u32 = 100;
const FOREIGN_TGID: u32 = 900;
const LOCKS: u64 = 0x1000;
const QUEUES: u64 = 0x2000;
const PIPES: u64 = 0x3000;

/// What a thread does next.
#[derive(Clone, Copy, Debug)]
enum Op {
    Compute(u64),
    Lock(usize),
    Unlock(usize),
    /// To a queue or pipe.
    Push(usize),
    Pop(usize),
    Sleep(u64),
    Disk(u64),
    Spawn,
    Exit,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Unborn,
    Runs,
    Queues,
    Waits(WaitReason, u64),
    Dead,
}

#[derive(Debug)]
struct Thread {
    tid: u32,
    target: bool,
    program: Vec<Op>,
    next_op: usize,
    left_ns: u64,
    state: State,
    since: u64,
    wakes_at: Option<u64>,
}

#[derive(Debug, Default)]
struct Cpu {
    runs: Option<usize>,
    quantum_end: u64,
    left: Option<(usize, Outcome)>,
}

#[derive(Debug, Default)]
struct Gate {
    owner: Option<usize>,
    items: u64,
    waiters: VecDeque<usize>,
}

struct Machine {
    now: u64,
    end: u64,
    quantum: u64,
    threads: Vec<Thread>,
    cpus: Vec<Cpu>,
    ready: VecDeque<usize>,
    locks: Vec<Gate>,
    channels: Vec<Gate>,
    pipes_from: usize,
    events: Vec<Event>,
    truth: Truth,
}

/// The simulation that a seed names.
pub fn simulate(seed: u64) -> Simulation {
    let mut random = Random::new(seed);
    let mut machine = Machine::new(&mut random);
    machine.begin();
    machine.run();
    machine.finish()
}

impl Machine {
    fn new(random: &mut Random) -> Machine {
        let locks = random.within(1, 4) as usize;
        let channels = random.within(1, 4) as usize;
        let targets = random.within(1, 8) as u32;
        let foreign = random.within(0, 4) as u32;
        let mut threads = Vec::new();
        for number in 0..targets + foreign {
            let target = number < targets;
            let program = match target {
                true => program(random, locks, channels, number == 0),
                false => {
                    (0..40).flat_map(|_| [compute(random), Op::Sleep(random.within(1, 80_000))]).collect()
                }
            };
            let unborn = target && number > 0 && random.once_in(4);
            threads.push(Thread {
                tid: if target { TGID + number } else { FOREIGN_TGID + number },
                target,
                program,
                next_op: 0,
                left_ns: 0,
                state: if unborn { State::Unborn } else { State::Queues },
                since: START_NS,
                wakes_at: None,
            });
        }
        let cpus = random.within(1, 5);
        Machine {
            now: START_NS,
            end: START_NS + random.within(200_000, 1_500_000),
            quantum: random.within(5_000, 60_000),
            threads,
            cpus: (0..cpus).map(|_| Cpu::default()).collect(),
            ready: VecDeque::new(),
            locks: (0..locks).map(|_| Gate::default()).collect(),
            pipes_from: channels / 2,
            channels: (0..channels).map(|_| Gate::default()).collect(),
            events: Vec::new(),
            truth: Truth { cpus: cpus as u32, ..Truth::default() },
        }
    }

    /// What is there when the recording begins.
    fn begin(&mut self) {
        for index in 0..self.threads.len() {
            let thread = &self.threads[index];
            if thread.state == State::Unborn {
                continue;
            }
            self.ready.push_back(index);
            self.events.push(Event::Snapshot(Snapshot {
                at: Timestamp(self.now),
                tid: thread.tid,
                tgid: tgid(thread),
                parent_tgid: 1,
                name: name(thread),
                target: thread.target,
                state: if thread.target { SnapshotState::Runnable } else { SnapshotState::Untracked },
                exec_ns: None,
                queue_ns: None,
            }));
        }
        self.dispatch();
    }

    fn run(&mut self) {
        loop {
            let runs_until = |cpu: &Cpu| {
                cpu.runs.map(|thread| (self.now + self.threads[thread].left_ns).min(cpu.quantum_end))
            };
            let on_cpu = self.cpus.iter().filter_map(runs_until).min();
            let timer = self.threads.iter().filter_map(|thread| thread.wakes_at).min();
            let Some(next) = on_cpu.into_iter().chain(timer).min() else { return };
            if next >= self.end {
                return;
            }
            self.advance(next);
            self.timers();
            for cpu in 0..self.cpus.len() {
                self.step(cpu);
            }
            self.dispatch();
        }
    }

    fn advance(&mut self, to: u64) {
        let length = to - self.now;
        for cpu in &self.cpus {
            if let Some(thread) = cpu.runs {
                self.threads[thread].left_ns -= length;
            }
        }
        self.now = to;
    }

    fn timers(&mut self) {
        for index in 0..self.threads.len() {
            if self.threads[index].wakes_at == Some(self.now) {
                self.threads[index].wakes_at = None;
                let context = match self.threads[index].state {
                    State::Waits(WaitReason::Disk, _) => WakeContext::SoftIrq,
                    _ => WakeContext::Timer,
                };
                self.wake(index, None, context);
            }
        }
    }

    /// Goes on with what runs on a CPU after its time is used up.
    fn step(&mut self, cpu: usize) {
        let Some(index) = self.cpus[cpu].runs else { return };
        while self.threads[index].left_ns == 0 {
            let thread = &mut self.threads[index];
            let op = thread.program[thread.next_op];
            thread.next_op = (thread.next_op + 1) % thread.program.len();
            if let Some(outcome) = self.perform(index, op) {
                return self.leave(cpu, outcome);
            }
        }
        if self.now >= self.cpus[cpu].quantum_end {
            if self.ready.is_empty() {
                self.cpus[cpu].quantum_end = self.now + self.quantum;
                return;
            }
            self.change(index, State::Queues);
            self.ready.push_back(index);
            self.leave(cpu, Outcome::Preempted);
        }
    }

    /// Performs an operation of a running thread; tells what becomes of it if it leaves its CPU.
    fn perform(&mut self, index: usize, op: Op) -> Option<Outcome> {
        match op {
            Op::Compute(ns) => self.threads[index].left_ns = ns,
            Op::Lock(lock) => {
                if self.locks[lock].owner.is_some() {
                    self.locks[lock].waiters.push_back(index);
                    return self.block(index, WaitReason::Lock, LOCKS + 16 * lock as u64);
                }
                self.locks[lock].owner = Some(index);
            }
            Op::Unlock(lock) => {
                self.locks[lock].owner = self.locks[lock].waiters.pop_front();
                if let Some(next) = self.locks[lock].owner {
                    self.wake(next, Some(index), WakeContext::Thread);
                }
            }
            Op::Push(channel) => match self.channels[channel].waiters.pop_front() {
                Some(next) => self.wake(next, Some(index), WakeContext::Thread),
                None => self.channels[channel].items += 1,
            },
            Op::Pop(channel) if self.channels[channel].items > 0 => self.channels[channel].items -= 1,
            Op::Pop(channel) => {
                self.channels[channel].waiters.push_back(index);
                let object = 16 * channel as u64;
                return match channel < self.pipes_from {
                    true => self.block(index, WaitReason::Pipe, PIPES + object),
                    false => self.block(index, WaitReason::Park, QUEUES + object),
                };
            }
            Op::Sleep(ns) => {
                self.threads[index].wakes_at = Some(self.now + ns);
                return self.block(index, WaitReason::Sleep, 0);
            }
            Op::Disk(ns) => {
                self.threads[index].wakes_at = Some(self.now + ns);
                return self.block(index, WaitReason::Disk, 77);
            }
            Op::Spawn => self.spawn(index),
            Op::Exit => {
                self.lifecycle(index, LifecycleChange::Exit);
                self.change(index, State::Dead);
                return Some(Outcome::Dead);
            }
        }
        None
    }

    fn spawn(&mut self, parent: usize) {
        let unborn = self.threads.iter().position(|thread| thread.state == State::Unborn);
        if let Some(child) = unborn {
            self.lifecycle(child, LifecycleChange::Fork { parent_tid: self.threads[parent].tid });
            self.threads[child].since = self.now;
            self.threads[child].state = State::Queues;
            self.ready.push_back(child);
        }
    }

    fn lifecycle(&mut self, index: usize, change: LifecycleChange) {
        let thread = &self.threads[index];
        self.events.push(Event::Lifecycle(Lifecycle {
            at: Timestamp(self.now),
            change,
            tid: thread.tid,
            tgid: tgid(thread),
            name: name(thread),
            target: thread.target,
        }));
    }

    fn block(&mut self, index: usize, reason: WaitReason, object: u64) -> Option<Outcome> {
        self.change(index, State::Waits(reason, object));
        if !self.threads[index].target {
            return Some(Outcome::Untracked);
        }
        raw_wait(reason, object).map(|wait| Outcome::Blocked(Box::new(wait)))
    }

    fn wake(&mut self, index: usize, waker: Option<usize>, context: WakeContext) {
        let State::Waits(reason, object) = self.threads[index].state else { return };
        let futex = matches!(reason, WaitReason::Lock | WaitReason::Park);
        if self.threads[index].target {
            let runs_waker = |cpu: &Cpu| waker.is_some() && cpu.runs == waker;
            let cpu = self.cpus.iter().position(runs_waker).unwrap_or(0);
            self.events.push(Event::Waking(Waking {
                at: Timestamp(self.now),
                cpu: CpuId(cpu as u16),
                wakee_tid: self.threads[index].tid,
                waker_tid: waker.map_or(0, |waker| self.threads[waker].tid),
                context,
                waker_syscall: if futex { 202 } else { -1 },
                waker_object: if futex { object } else { 0 },
                stack: 0,
                stack_every: 0,
            }));
        }
        self.change(index, State::Queues);
        self.ready.push_back(index);
    }

    fn leave(&mut self, cpu: usize, outcome: Outcome) {
        let thread = self.cpus[cpu].runs.take();
        self.cpus[cpu].left = thread.map(|thread| (thread, outcome));
    }

    /// Gives idle CPUs to threads that are ready. Whoever left a CPU is seen to leave before it arrives elsewhere.
    fn dispatch(&mut self) {
        let left: Vec<usize> =
            self.cpus.iter().filter_map(|cpu| cpu.left.as_ref().map(|(thread, _)| *thread)).collect();
        let mut arrivals = Vec::new();
        for cpu in 0..self.cpus.len() {
            if self.cpus[cpu].runs.is_some() {
                continue;
            }
            let next = self.ready.pop_front();
            match (self.cpus[cpu].left.take(), next) {
                (Some(prev), Some(next)) if !left.contains(&next) => arrivals.push((cpu, Some(prev), next)),
                (prev, next) => {
                    if let Some(prev) = prev {
                        self.switch(cpu, Some(prev), None);
                    }
                    arrivals.extend(next.map(|next| (cpu, None, next)));
                }
            }
        }
        // Who leaves one CPU may arrive at another: the departures come first.
        arrivals.sort_by_key(|(_, prev, _)| prev.is_none());
        for (cpu, prev, next) in arrivals {
            self.change(next, State::Runs);
            self.cpus[cpu].runs = Some(next);
            self.cpus[cpu].quantum_end = self.now + self.quantum;
            self.switch(cpu, prev, Some(next));
        }
    }

    fn switch(&mut self, cpu: usize, prev: Option<(usize, Outcome)>, next: Option<usize>) {
        let (prev_tid, prev_tgid, outcome) = match prev {
            Some((thread, _)) if !self.threads[thread].target => {
                (self.threads[thread].tid, tgid(&self.threads[thread]), Outcome::Untracked)
            }
            Some((thread, outcome)) => (self.threads[thread].tid, TGID, outcome),
            None => (0, 0, Outcome::Untracked),
        };
        self.events.push(Event::Switch(Switch {
            at: Timestamp(self.now),
            cpu: CpuId(cpu as u16),
            prev_tid,
            next_tid: next.map_or(0, |thread| self.threads[thread].tid),
            prev_tgid,
            outcome,
            exec_ns: None,
            queue_ns: None,
        }));
    }

    fn change(&mut self, index: usize, state: State) {
        let now = self.now;
        let thread = &mut self.threads[index];
        let length = now - thread.since;
        let class = match thread.state {
            State::Unborn | State::Dead => None,
            State::Runs => Some(Class::Useful),
            State::Queues => Some(Class::RunQueue),
            State::Waits(reason, _) => Some(Class::of_wait(reason)),
        };
        if thread.state == State::Runs {
            self.truth.running_ns += length;
        }
        if let (Some(class), true) = (class, thread.target) {
            self.truth.classes.entry(thread.tid).or_default()[class as usize] += length;
        }
        if let State::Waits(WaitReason::Lock, object) = thread.state {
            *self.truth.lock_wait_ns.entry(object).or_default() += length;
        }
        thread.state = state;
        thread.since = now;
    }

    fn finish(mut self) -> Simulation {
        self.now = self.end;
        for index in 0..self.threads.len() {
            let state = self.threads[index].state;
            self.change(index, state);
        }
        let mut manifest = Manifest { start_ns: START_NS, end_ns: self.end, ..Manifest::default() };
        manifest.host.cpus = self.truth.cpus;
        manifest.host.cpus_allowed = self.truth.cpus;
        Simulation { events: self.events, manifest, truth: self.truth }
    }
}

fn tgid(thread: &Thread) -> u32 {
    if thread.target { TGID } else { thread.tid }
}

fn name(thread: &Thread) -> String {
    if thread.target { format!("worker{}", thread.tid - TGID) } else { format!("noise{}", thread.tid) }
}

fn compute(random: &mut Random) -> Op {
    Op::Compute(random.within(1, 30_000))
}

/// A random program; it starts over at its end unless it exits. Locks are never nested, so nothing deadlocks.
fn program(random: &mut Random, locks: usize, channels: usize, spawns: bool) -> Vec<Op> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_names_one_simulation() {
        let (one, two) = (simulate(7), simulate(7));
        assert_eq!(one.events, two.events);
        assert_ne!(one.events, simulate(8).events);
    }

    #[test]
    fn cpus_are_never_more_than_full() {
        for seed in 0..50 {
            let simulation = simulate(seed);
            let wall = simulation.manifest.end_ns - simulation.manifest.start_ns;
            assert!(simulation.truth.running_ns <= wall * u64::from(simulation.truth.cpus), "seed {seed}");
        }
    }
}
