//! From a picture in lanes to the events of a perfect source.
//!
//! Within a tick, threads first leave CPUs, then wake others, then arrive on CPUs.

use std::collections::BTreeMap;

use holdup_events::event::*;
use holdup_events::recording::Manifest;
use holdup_events::tables::CallPartKind;
use holdup_events::{CpuId, Loss, ObjectKind, Timestamp, WaitReason};

use crate::lanes::Lanes;
use crate::waits::{in_round, raw_wait};

/// First moment of every picture (ns).
pub const START_NS: u64 = 1_000_000_000;

const TGID: u32 = 100;
/// The program's file, as its addresses are mapped.
pub const PROGRAM: &str = "/bin/lanes";
const PROGRAM_START: u64 = 0x40_0000;
const KERNEL_START: u64 = 0xffff_ffff_8100_0000;
/// Bytes of each invented function.
pub const FUNCTION_BYTES: u64 = 0x100;

/// A picture's events, with a manifest.
#[derive(Clone, Debug, Default)]
pub struct Drawing {
    /// In order.
    pub events: Vec<Event>,
    /// The manifest.
    pub manifest: Manifest,
    /// Names of the program's functions. The nth is at n × [`FUNCTION_BYTES`] in the file.
    pub functions: Vec<String>,
}

/// The tid of the nth lane.
pub fn tid(lane: usize) -> u32 {
    TGID + lane as u32
}

/// Draws the events.
///
/// # Panics
/// If two threads are on one CPU in one tick: no machine does that.
pub fn draw(lanes: &Lanes) -> Drawing {
    let mut pen = Pen { lanes, out: Drawing::default(), stacks: BTreeMap::new() };
    for tick in 0..pen.length() {
        pen.assert_possible(tick);
    }
    pen.begin();
    let ticks = pen.length() * lanes.repeat;
    for tick in 0..=ticks {
        pen.tick(tick, tick == ticks);
    }
    pen.finish()
}

struct Pen<'a> {
    lanes: &'a Lanes,
    out: Drawing,
    stacks: BTreeMap<Vec<u64>, u64>,
}

impl Pen<'_> {
    fn length(&self) -> u64 {
        self.lanes.threads.first().map_or(0, |lane| lane.ticks.len() as u64)
    }

    fn assert_possible(&self, tick: u64) {
        let mut busy = BTreeMap::new();
        for (lane, thread) in self.lanes.threads.iter().enumerate() {
            let cpu = self.doing(lane, tick as i64);
            if let Some(other) = cpu.is_ascii_digit().then(|| busy.insert(cpu, &thread.name)).flatten() {
                panic!("{other} and {} are both on CPU {cpu} in tick {tick}", thread.name);
            }
        }
    }

    fn at(&self, tick: u64) -> Timestamp {
        Timestamp(START_NS + tick * self.lanes.tick_ns)
    }

    /// Returns a lane's state in a tick. Absent before and after the picture.
    fn doing(&self, lane: usize, tick: i64) -> char {
        let length = self.length() as i64;
        if tick < 0 || tick >= length * self.lanes.repeat as i64 {
            return '.';
        }
        self.lanes.threads[lane].ticks[(tick % length) as usize]
    }

    fn tgid(&self, lane: usize) -> u32 {
        let child = self.lanes.children.contains(&self.lanes.threads[lane].name);
        if child || self.lanes.threads[lane].foreign { tid(lane) } else { TGID }
    }

    fn wait(&self, letter: char, tick: u64) -> RawWait {
        let (reason, syscall) = self.lanes.wait_of(letter);
        let object = 0x1000 + 16 * letter as u64;
        let mut wait = raw_wait(reason, object).unwrap_or_else(|| panic!("{reason:?} has no raw wait"));
        wait.syscall = syscall.unwrap_or(wait.syscall);
        if let Some(ticks) = self.lanes.timeouts.get(&letter) {
            wait.timeout = Timeout::After(holdup_events::Duration(ticks * self.lanes.tick_ns));
        }
        in_round(reason, tick / self.length().max(1), wait)
    }

    fn wait_with_stack(&mut self, letter: char, tick: u64) -> RawWait {
        let (lanes, at) = (self.lanes, self.at(tick));
        let wait = self.wait(letter, tick);
        match lanes.stacks.get(&letter) {
            Some(frames) => RawWait { stack: self.stack((frames, false), at), stack_every: 1, ..wait },
            None => wait,
        }
    }

    fn begin(&mut self) {
        self.out.events.push(Event::Mapping(RawMapping {
            at: self.at(0),
            tgid: TGID,
            start: PROGRAM_START,
            end: PROGRAM_START + 0x10_0000,
            file_offset: 0,
            path: PROGRAM.to_owned(),
            build_id: Vec::new(),
        }));
        for lane in 0..self.lanes.threads.len() {
            let foreign = self.lanes.threads[lane].foreign;
            let state = match self.doing(lane, 0) {
                _ if foreign => SnapshotState::Untracked,
                '.' => continue,
                digit if digit.is_ascii_digit() => SnapshotState::Runnable,
                'r' | 'y' | 't' => SnapshotState::Runnable,
                letter => SnapshotState::Blocked(Box::new(self.wait(letter, 0))),
            };
            self.out.events.push(Event::Snapshot(Snapshot {
                at: self.at(0),
                tid: tid(lane),
                tgid: self.tgid(lane),
                parent_tgid: 1,
                name: self.lanes.threads[lane].name.clone(),
                target: !foreign,
                state,
                exec_ns: None,
                queue_ns: None,
            }));
        }
    }

    fn tick(&mut self, tick: u64, last: bool) {
        let lanes = 0..self.lanes.threads.len();
        let change = |pen: &Pen, lane| (pen.doing(lane, tick as i64 - 1), pen.doing(lane, tick as i64));
        if last {
            return;
        }
        for lane in lanes.clone() {
            let (was, is) = change(self, lane);
            if was.is_ascii_digit() && was != is {
                self.leave(lane, was, is, tick);
            }
        }
        for lane in lanes.clone() {
            let (was, is) = change(self, lane);
            let foreign = self.lanes.threads[lane].foreign;
            if is_wait(was) && was != is && !foreign {
                self.wake(lane, was, tick);
            } else if tick > 0 && was == '.' && is != '.' && !foreign {
                assert!(!is_wait(is), "born blocked: {}", self.lanes.threads[lane].name);
                self.lifecycle(lane, tick, LifecycleChange::Fork { parent_tid: tid(0) });
            }
        }
        for lane in lanes.clone() {
            let (was, is) = change(self, lane);
            if is.is_ascii_digit() && was != is {
                self.switch(tick, is, Switch { next_tid: tid(lane), ..Switch::default() });
            }
        }
        self.samples(tick);
    }

    fn leave(&mut self, lane: usize, cpu: char, to: char, tick: u64) {
        let foreign = self.lanes.threads[lane].foreign;
        let outcome = match to {
            _ if foreign => Outcome::Untracked,
            '.' => Outcome::Dead,
            'y' => Outcome::Yielded,
            't' => Outcome::Throttled,
            letter if is_wait(letter) => Outcome::Blocked(Box::new(self.wait_with_stack(letter, tick))),
            _ => Outcome::Preempted,
        };
        if outcome == Outcome::Dead {
            self.lifecycle(lane, tick, LifecycleChange::Exit);
        }
        let prev_tgid = self.tgid(lane);
        self.switch(tick, cpu, Switch { prev_tid: tid(lane), prev_tgid, outcome, ..Switch::default() });
    }

    fn switch(&mut self, tick: u64, cpu: char, switch: Switch) {
        let cpu = CpuId(cpu.to_digit(10).unwrap_or(0) as u16);
        self.out.events.push(Event::Switch(Switch { at: self.at(tick), cpu, ..switch }));
    }

    fn lifecycle(&mut self, lane: usize, tick: u64, change: LifecycleChange) {
        self.out.events.push(Event::Lifecycle(Lifecycle {
            at: self.at(tick),
            change,
            tid: tid(lane),
            tgid: self.tgid(lane),
            name: self.lanes.threads[lane].name.clone(),
            target: true,
        }));
    }

    fn wake(&mut self, lane: usize, letter: char, tick: u64) {
        let (reason, _) = self.lanes.wait_of(letter);
        let context = match reason {
            WaitReason::Sleep => WakeContext::Timer,
            _ if self.is_time_up(lane, letter, tick) => WakeContext::Timer,
            WaitReason::Disk | WaitReason::Socket | WaitReason::IoUring => WakeContext::SoftIrq,
            _ => WakeContext::Thread,
        };
        let waker = if context == WakeContext::Thread { self.holder(lane, letter, tick) } else { None };
        let futex = matches!(reason, WaitReason::Lock | WaitReason::Park | WaitReason::Barrier);
        let cpu = waker.and_then(|lane| self.doing(lane, tick as i64 - 1).to_digit(10)).unwrap_or(0);
        self.out.events.push(Event::Waking(Waking {
            at: self.at(tick),
            cpu: CpuId(cpu as u16),
            wakee_tid: tid(lane),
            waker_tid: waker.map_or(0, tid),
            context,
            waker_syscall: if futex { 202 } else { -1 },
            waker_object: if futex { self.wait(letter, tick).object } else { 0 },
            stack: 0,
            stack_every: 0,
        }));
    }

    /// Whether a wait that ends here has reached its timeout.
    fn is_time_up(&self, lane: usize, letter: char, tick: u64) -> bool {
        let waited =
            |most: &u64| (1..=*most).all(|back| self.doing(lane, tick as i64 - back as i64) == letter);
        self.lanes.timeouts.get(&letter).is_some_and(waited)
    }

    /// Returns the last holder: the lane with a `holds`, otherwise the lane of the program that ran just
    /// before.
    fn holder(&self, wakee: usize, letter: char, tick: u64) -> Option<usize> {
        let before = (tick.saturating_sub(1)) % self.length().max(1);
        let others = || (0..self.lanes.threads.len()).filter(|lane| *lane != wakee);
        let holds = |lane: &usize| {
            let mut held = self.lanes.threads[*lane].holds.iter();
            held.any(|(thing, ticks)| *thing == letter && ticks.contains(&before))
        };
        let ran = |lane: &usize| {
            !self.lanes.threads[*lane].foreign && self.doing(*lane, tick as i64 - 1).is_ascii_digit()
        };
        others().find(holds).or_else(|| others().find(ran))
    }

    fn samples(&mut self, tick: u64) {
        let lanes = self.lanes;
        let place = tick % self.length();
        for line in lanes.samples.iter().filter(|line| line.ticks.contains(&place)) {
            let Some(lane) = lanes.threads.iter().position(|lane| lane.name == line.thread) else {
                panic!("no such thread: {}", line.thread)
            };
            let Some(cpu) = self.doing(lane, tick as i64).to_digit(10) else { continue };
            let at = self.at(tick) + holdup_events::Duration(lanes.tick_ns / 2);
            let stack = self.stack((&line.frames, line.syscall.is_some()), at);
            self.out.events.push(Event::Sample(Sample {
                at,
                cpu: CpuId(cpu as u16),
                tid: tid(lane),
                tgid: TGID,
                ip: 0,
                in_kernel: line.syscall.is_some(),
                syscall: line.syscall.unwrap_or(-1),
                stack,
                registers: None,
            }));
        }
    }

    /// The id of a stack of user frames (and, in a syscall, one kernel frame on top).
    fn stack(&mut self, (frames, in_syscall): (&[String], bool), at: Timestamp) -> u64 {
        let mut addresses: Vec<u64> = Vec::new();
        for name in frames.iter().rev() {
            let functions = &mut self.out.functions;
            let number = functions.iter().position(|function| function == name).unwrap_or_else(|| {
                functions.push(name.clone());
                functions.len() - 1
            });
            addresses.push(PROGRAM_START + FUNCTION_BYTES * number as u64 + 0x10);
        }
        let kernel_frames = u16::from(in_syscall);
        if kernel_frames > 0 {
            addresses.insert(0, KERNEL_START);
        }
        let next = self.stacks.len() as u64 + 1;
        if let Some(known) = self.stacks.get(&addresses) {
            return *known;
        }
        self.stacks.insert(addresses.clone(), next);
        self.out.events.push(Event::Stack(RawStack {
            at,
            id: next,
            tgid: TGID,
            kernel_frames,
            addresses,
            ..RawStack::default()
        }));
        next
    }

    /// Sums of calls, and the counts of their window.
    fn io(&mut self) {
        for line in &self.lanes.io {
            let Some(lane) = self.lanes.threads.iter().position(|lane| lane.name == line.thread) else {
                panic!("no such thread: {}", line.thread)
            };
            let (at, until) = (self.at(line.ticks.start), self.at(line.ticks.end));
            let done = line.calls - line.failed;
            let bucket = u64::from(u64::BITS - line.bytes.leading_zeros());
            let parts = [(CallPartKind::Returned, bucket, done), (CallPartKind::Error, 11, line.failed)];
            self.out.events.push(Event::Calls(Box::new(CallSums {
                at,
                until,
                tid: tid(lane),
                tgid: TGID,
                syscall: line.syscall,
                op: line.op.unwrap_or(0),
                object_kind: if line.op.is_some() { ObjectKind::None } else { ObjectKind::Pipe },
                object: if line.op.is_some() { 0 } else { 77 },
                count: line.calls,
                errors: line.failed,
                returned: done * line.bytes,
                parts: parts.into_iter().filter(|(_, _, count)| *count > 0).collect(),
                ..CallSums::default()
            })));
            let (syscall, count, cost_ns) = (line.syscall, line.calls, 0);
            self.out.events.push(Event::SyscallCount(SyscallCount {
                at,
                until,
                tgid: TGID,
                syscall,
                count,
                cost_ns,
            }));
        }
    }

    fn finish(mut self) -> Drawing {
        for (ticks, events) in &self.lanes.losses {
            self.out.events.push(Event::Loss(Loss {
                source: "sched".to_owned(),
                reason: "ring-full".to_owned(),
                cpu: CpuId::NONE,
                start: self.at(ticks.start),
                end: self.at(ticks.end),
                events: *events,
            }));
        }
        for (ticks, syscall, count) in &self.lanes.calls {
            self.out.events.push(Event::SyscallCount(SyscallCount {
                at: self.at(ticks.start),
                until: self.at(ticks.end),
                tgid: TGID,
                syscall: *syscall,
                count: *count,
                cost_ns: 0,
            }));
        }
        self.io();
        // Samples lie within their tick, behind its switches.
        self.out.events.sort_by_key(Event::at);
        let end_ns = START_NS + self.length() * self.lanes.repeat * self.lanes.tick_ns;
        let manifest = &mut self.out.manifest;
        (manifest.start_ns, manifest.end_ns) = (START_NS, end_ns);
        manifest.host.cpus = self.lanes.cpus;
        manifest.host.cpus_allowed = self.lanes.cpus;
        manifest.sample_period_ns = self.lanes.tick_ns;
        self.out
    }
}

fn is_wait(letter: char) -> bool {
    letter.is_ascii_alphabetic() && !matches!(letter, 'r' | 'y' | 't')
}
