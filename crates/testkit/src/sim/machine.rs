//! The machine that runs a [`Program`]: a scheduler with time slices, locks, queues, barriers, timers.

use std::collections::VecDeque;

use holdup_events::event::*;
use holdup_events::recording::Manifest;
use holdup_events::{CpuId, Timestamp, WaitReason};
use holdup_findings::derive::class::Class;

use super::program::{Op, Program};
use super::{Simulation, Truth};
use crate::waits::{in_round, raw_wait};

const START_NS: u64 = 1_000_000;
const TGID: u32 = 100;
const FOREIGN_TGID: u32 = 900;
const LOCKS: u64 = 0x1000;
const QUEUES: u64 = 0x2000;
const PIPES: u64 = 0x3000;
const BARRIERS: u64 = 0x4000;
const OTHER_CODE: u64 = 0x10_0000;
/// Time between two samples. Only programs with functions are sampled.
const SAMPLE_NS: u64 = 5_000;

/// Where the code of a function is.
pub fn function_address(function: u16) -> u64 {
    0x50_0000 + 0x1000 * u64::from(function)
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
    laps_left: Option<u32>,
    next_op: usize,
    left_ns: u64,
    state: State,
    since: u64,
    /// The function in which it computes.
    function: Option<u16>,
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
    /// Woken to take a lock for which one may barge, and not there yet.
    heirs: VecDeque<usize>,
}

struct Machine {
    now: u64,
    end: Option<u64>,
    quantum: u64,
    barging: bool,
    samples: bool,
    threads: Vec<Thread>,
    cpus: Vec<Cpu>,
    ready: VecDeque<usize>,
    locks: Vec<Gate>,
    channels: Vec<Gate>,
    pipes_from: usize,
    barriers: Vec<(u32, Vec<usize>)>,
    pools: Vec<VecDeque<u64>>,
    events: Vec<Event>,
    truth: Truth,
}

/// Runs a program to its end.
pub fn run(program: &Program) -> Simulation {
    let mut machine = Machine::new(program);
    machine.begin();
    machine.run();
    machine.finish()
}

impl Machine {
    fn new(program: &Program) -> Machine {
        let thread = |(number, plan): (usize, &super::Plan)| Thread {
            tid: number as u32 + if plan.target { TGID } else { FOREIGN_TGID },
            target: plan.target,
            program: plan.ops.clone(),
            laps_left: plan.laps,
            next_op: 0,
            left_ns: 0,
            state: if plan.unborn { State::Unborn } else { State::Queues },
            since: START_NS,
            function: None,
            wakes_at: None,
        };
        Machine {
            now: START_NS,
            end: program.length_ns.map(|length| START_NS + length),
            quantum: program.quantum_ns,
            barging: program.barging,
            samples: program
                .threads
                .iter()
                .flat_map(|plan| &plan.ops)
                .any(|op| matches!(op, Op::Section(..))),
            threads: program.threads.iter().enumerate().map(thread).collect(),
            cpus: (0..program.cpus).map(|_| Cpu::default()).collect(),
            ready: VecDeque::new(),
            locks: (0..program.locks).map(|_| Gate::default()).collect(),
            pipes_from: program.pipes,
            channels: program
                .channels
                .iter()
                .map(|items| Gate { items: *items, ..Gate::default() })
                .collect(),
            barriers: program.barriers.iter().map(|parties| (*parties, Vec::new())).collect(),
            pools: program.pools.iter().map(|jobs| jobs.iter().copied().collect()).collect(),
            events: Vec::new(),
            truth: Truth { cpus: program.cpus, ..Truth::default() },
        }
    }

    /// Records the initial state at the begin of the recording.
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
            let over = |thread: &Thread| !thread.target || thread.state == State::Dead;
            if self.end.is_some_and(|end| next >= end) || self.threads.iter().all(over) {
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

    /// Samples running threads until `to`.
    fn sample(&mut self, to: u64) {
        let first = (self.now - START_NS) / SAMPLE_NS + 1;
        let last = (to - START_NS) / SAMPLE_NS;
        for at in (first..=last).map(|number| START_NS + number * SAMPLE_NS) {
            for (cpu, thread) in self.cpus.iter().enumerate().filter_map(|(cpu, on)| Some((cpu, on.runs?))) {
                let thread = &self.threads[thread];
                if !thread.target {
                    continue;
                }
                self.events.push(Event::Sample(Sample {
                    at: Timestamp(at),
                    cpu: CpuId(cpu as u16),
                    tid: thread.tid,
                    tgid: TGID,
                    ip: thread.function.map_or(OTHER_CODE, function_address),
                    in_kernel: false,
                    syscall: -1,
                    stack: 0,
                    registers: None,
                }));
            }
        }
    }

    fn advance(&mut self, to: u64) {
        if self.samples {
            self.sample(to);
        }
        let length = to - self.now;
        for cpu in &self.cpus {
            if let Some(thread) = cpu.runs {
                self.threads[thread].left_ns -= length;
            }
        }
        for lock in &self.locks {
            let Some(owner) = lock.owner else { continue };
            for waiter in &lock.waiters {
                let pair = (self.threads[*waiter].tid, self.threads[owner].tid);
                *self.truth.held_ns.entry(pair).or_default() += length;
            }
        }
        self.blame(length);
        self.now = to;
    }

    /// Charges the holder of each lock with its waiters' time in `length`.
    fn blame(&mut self, length: u64) {
        for (number, lock) in self.locks.iter().enumerate() {
            let Some(holder) = lock.owner.or_else(|| lock.heirs.front().copied()) else { continue };
            let waited = length * lock.waiters.len() as u64;
            let class = match self.threads[holder].state {
                State::Runs => Class::Useful,
                State::Queues => Class::RunQueue,
                State::Waits(reason, _) => Class::of_wait(reason),
                State::Unborn | State::Dead => Class::Unknown,
            };
            if waited > 0 {
                let key = (LOCKS + 16 * number as u64, self.threads[holder].tid, class);
                *self.truth.lock_blame_ns.entry(key).or_default() += waited;
            }
        }
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

    /// Continues the thread on a CPU after its time slice is used up.
    fn step(&mut self, cpu: usize) {
        let Some(index) = self.cpus[cpu].runs else { return };
        while self.threads[index].left_ns == 0 {
            let op = self.next_op(index);
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

    /// The operation that a thread has come to.
    fn next_op(&mut self, index: usize) -> Op {
        let thread = &mut self.threads[index];
        if thread.next_op == thread.program.len() {
            thread.next_op = 0;
            thread.laps_left = thread.laps_left.map(|laps| laps.saturating_sub(1));
        }
        if thread.laps_left == Some(0) {
            return Op::Exit;
        }
        thread.next_op += 1;
        thread.program[thread.next_op - 1]
    }

    /// Performs an operation of a running thread. Returns the outcome if the thread leaves its CPU.
    fn perform(&mut self, index: usize, op: Op) -> Option<Outcome> {
        match op {
            Op::Compute(ns) => (self.threads[index].left_ns, self.threads[index].function) = (ns, None),
            Op::Section(function, ns) => {
                (self.threads[index].left_ns, self.threads[index].function) = (ns, Some(function));
            }
            Op::Lock(lock) => {
                self.locks[lock].heirs.retain(|heir| *heir != index);
                if self.locks[lock].owner.is_some() {
                    // With barging, the thread checks when it runs again whether the lock is still free.
                    self.threads[index].next_op -= usize::from(self.barging);
                    self.locks[lock].waiters.push_back(index);
                    return self.block(index, WaitReason::Lock, LOCKS + 16 * lock as u64);
                }
                self.locks[lock].owner = Some(index);
            }
            Op::Unlock(lock) => {
                let next = self.locks[lock].waiters.pop_front();
                self.locks[lock].owner = next.filter(|_| !self.barging);
                if let Some(next) = next {
                    self.locks[lock].heirs.extend(self.barging.then_some(next));
                    self.wake(next, Some(index), WakeContext::Thread);
                }
            }
            Op::Meet(barrier) => return self.meet(index, barrier),
            Op::Work(pool) => {
                if let Some(ns) = self.pools[pool].pop_front() {
                    let thread = &mut self.threads[index];
                    (thread.left_ns, thread.function) = (ns, None);
                    thread.next_op -= 1;
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

    fn meet(&mut self, index: usize, barrier: usize) -> Option<Outcome> {
        let (parties, waiters) = &mut self.barriers[barrier];
        if waiters.len() + 1 < *parties as usize {
            waiters.push(index);
            return self.block(index, WaitReason::Barrier, BARRIERS + 16 * barrier as u64);
        }
        for waiter in std::mem::take(waiters) {
            self.wake(waiter, Some(index), WakeContext::Thread);
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
        let mut wait = in_round(reason, self.now, raw_wait(reason, object)?);
        if reason == WaitReason::Lock {
            // A mutex of glibc names its owner.
            let owner = self.locks[(object - LOCKS) as usize / 16].owner;
            wait.owner_tid = owner.map_or(0, |owner| self.threads[owner].tid);
        }
        Some(Outcome::Blocked(Box::new(wait)))
    }

    fn wake(&mut self, index: usize, waker: Option<usize>, context: WakeContext) {
        let State::Waits(reason, object) = self.threads[index].state else { return };
        let futex = matches!(reason, WaitReason::Lock | WaitReason::Park | WaitReason::Barrier);
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

    /// Gives idle CPUs to ready threads. A thread's departure from a CPU is recorded before its arrival on
    /// another.
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
        // A thread that leaves one CPU may arrive at another, so departures come first.
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
            clock_ran_ns: None,
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
        self.now = self.end.unwrap_or(self.now);
        for index in 0..self.threads.len() {
            let state = self.threads[index].state;
            self.change(index, state);
        }
        let mut manifest = Manifest { start_ns: START_NS, end_ns: self.now, ..Manifest::default() };
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
