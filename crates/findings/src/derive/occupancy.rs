//! CPU utilization, and the causes that kept threads off idle CPUs.
//!
//! For each cause of waiting, at each moment: the number of its waiters that could have run on CPUs without
//! work for the program. With `r` running threads and `m` more that could run, the work of a moment would
//! have taken `r / (r + m)` of its time. On a CPU that another program occupies, a waiter would have had its
//! fair share ([`FAIR_PART`]).

use std::collections::BTreeMap;

use holdup_events::tables::SampleRow;
use holdup_events::{Duration, StackId, ThreadId, Timestamp, Trace};

use super::free_capacity::{self, Room};
use super::locks::LockIndex;
use super::parallelism::Parallelism;
use super::roles::Roles;
use super::sweep::{Change, Doing, Sweep, Visitor};
use super::thread_shares::{self, Bottle};
use super::timelines::Timelines;

/// The facts.
#[derive(Clone, Debug, Default)]
pub struct Occupancy {
    /// CPUs that the program may use.
    pub cpus: u32,
    /// The locks, as [`Occupancy::locks_stall`] numbers them.
    pub locks: LockIndex,
    /// Cost of the waits for each lock.
    pub locks_stall: Vec<Stall>,
    /// Waits for the disk.
    pub io: Stall,
    /// Waits for a CPU that threads of the program occupied.
    pub own: Stall,
    /// Waits for a CPU that other processes occupied.
    pub others: Stall,
    /// Times in which only one thread was running or runnable.
    pub serial: Serial,
    /// Room on the CPUs over time.
    pub room: Room,
}

/// Cost of one cause of waiting.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stall {
    /// Upper bound of the saved wall time (ns), if the waiters had run on the available CPUs and the work
    /// were spread evenly.
    pub saved_ns: f64,
    /// Wait time of each thread while it could have had a CPU (ns). If two threads wait while one CPU is
    /// idle, each gets half of the time. A CPU that another program occupies counts with [`FAIR_PART`].
    pub by_thread: BTreeMap<ThreadId, f64>,
    /// Part of `by_thread` during which a CPU was idle (ns).
    pub idle_ns: f64,
}

/// Share of a CPU that a thread would get if it competed with a thread of another program. Two threads of
/// equal weight get half each (sched-design-CFS in the kernel's documentation).
pub const FAIR_PART: f64 = 0.5;

impl Stall {
    fn merge(&mut self, other: Stall) {
        self.saved_ns += other.saved_ns;
        self.idle_ns += other.idle_ns;
        for (thread, ns) in other.by_thread {
            self.credit(thread, ns);
        }
    }

    /// Adds the running time of a sample that the thread could have used otherwise. The saved time is its
    /// share of the threads that ran at that moment, with the work spread evenly.
    pub fn add_sample(&mut self, sample: &SampleRow, ns: f64, timelines: &Timelines) {
        let own = timelines.iter().filter(|(_, line)| line.at(sample.at).is_some_and(|at| at.own()));
        self.saved_ns += ns / own.count().max(1) as f64;
        self.credit(sample.thread, ns);
        self.idle_ns += ns;
    }

    /// Share of `by_thread` during which a CPU was idle (0 to 1).
    pub fn idle_part(&self) -> f64 {
        let all: f64 = self.by_thread.values().sum();
        if all > 0.0 { (self.idle_ns / all).min(1.0) } else { 1.0 }
    }

    /// Adds to a thread's waiting.
    pub fn credit(&mut self, thread: ThreadId, ns: f64) {
        if ns > 0.0 {
            *self.by_thread.entry(thread).or_default() += ns;
        }
    }
}

/// Time in which exactly one thread of the program was running or runnable. Other threads waited for threads
/// (not for a lock), and a CPU did nothing for the program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Serial {
    /// For each such thread: all the time, and that during which another waited to join one or at a
    /// barrier (ns).
    pub by_thread: BTreeMap<ThreadId, (u64, u64)>,
    /// Number of changes to another thread.
    pub turns: u64,
    /// Samples in that time by stack.
    pub samples: BTreeMap<(ThreadId, StackId), u64>,
    /// The longest stretches, the longest first.
    pub longest: Vec<(ThreadId, Timestamp, Duration)>,
    /// The same time by thread and step (ns), without empty steps.
    pub alone_ns: BTreeMap<(ThreadId, u64), u64>,
    /// Length of a step of `alone_ns`.
    pub step: Duration,
}

impl Serial {
    /// The thread that worked alone most, with how long (ns).
    pub fn lone(&self) -> Option<(ThreadId, u64)> {
        let most = self.by_thread.iter().max_by_key(|(id, (ns, _))| (*ns, std::cmp::Reverse(**id)));
        most.map(|(id, (ns, _))| (*id, *ns))
    }

    /// Whether the thread accounts for more than half of the serial time.
    pub fn is_mostly(&self, thread: ThreadId) -> bool {
        let all: u64 = self.by_thread.values().map(|(ns, _)| ns).sum();
        self.by_thread.get(&thread).is_some_and(|(ns, _)| 2 * ns > all)
    }
}

/// Number of steps of [`Serial::alone_ns`]: as fine as any use needs, and few compared with the slices of a
/// long recording.
const SERIAL_STEPS: u64 = 1 << 12;

/// Maximum number of longest serial ranges to keep.
const LONGEST_MAX: usize = 10;

/// Steps of [`Parallelism::over_time`].
const STEPS: u64 = 240;

/// Derives all three in one walk through time.
pub fn derive(trace: &Trace, timelines: &Timelines, roles: &Roles) -> (Occupancy, Parallelism, Vec<Bottle>) {
    let locks = LockIndex::new(trace, roles);
    let sweep = Sweep::new(trace, &locks, roles, timelines);
    let step = Duration(trace.wall().0.div_ceil(STEPS).max(1));
    let windows =
        sweep.walk(|from| (Window::new(trace, sweep.cpus, step, from), thread_shares::Window::new(from)));
    let mut sums = Window::new(trace, sweep.cpus, step, trace.start());
    let bottles = thread_shares::of_windows(windows.into_iter().map(|(window, of_bottles)| {
        sums.merge(window);
        of_bottles
    }));
    let cpus = sweep.cpus;
    let parallelism = sums.parallelism(trace);
    let [io, own, others] = sums.fixed;
    let mut serial = sums.serial;
    keep_longest(&mut serial.longest);
    let stall_of = |lock| sums.locks.remove(&lock).unwrap_or_default();
    let locks_stall = (0..locks.locks.len() as u32).map(stall_of).collect();
    let occupancy = Occupancy { cpus, locks, locks_stall, io, own, others, serial, room: sums.room };
    (occupancy, parallelism, bottles)
}

fn keep_longest(stretches: &mut Vec<(ThreadId, Timestamp, Duration)>) {
    stretches.sort_by_key(|(thread, start, length)| (std::cmp::Reverse(*length), *start, *thread));
    stretches.truncate(LONGEST_MAX);
}

const IO: usize = 0;
const OWN: usize = 1;
const OTHERS: usize = 2;

/// Facts of one window while it is walked.
struct Window<'a> {
    trace: &'a Trace,
    cpus: u32,
    step: Duration,
    // Now.
    runs: u32,
    queues: u32,
    throttled: u32,
    foreign: u32,
    joins: u32,
    works: u32,
    ios: u32,
    lock_waiters: BTreeMap<u32, u32>,
    /// Exclusive or of the numbers of threads that want to run: the thread itself if there is one.
    wanting_xor: u32,
    alone: Option<(ThreadId, Timestamp, bool)>,
    last_alone: Option<ThreadId>,
    // Integrals over time of the chance that a waiter could have had a CPU (ns).
    lock_chance: BTreeMap<u32, f64>,
    fixed_chance: [f64; 3],
    /// Current wait of each thread, with the integrals at its start.
    entered: Vec<Option<(Doing, [f64; 2])>>,
    // Sums.
    locks: BTreeMap<u32, Stall>,
    fixed: [Stall; 3],
    serial: Serial,
    running_ns: Vec<u64>,
    wanting_ns: Vec<u64>,
    step_ns: BTreeMap<u64, u64>,
    room: Room,
}

impl<'a> Window<'a> {
    fn new(trace: &'a Trace, cpus: u32, step: Duration, from: Timestamp) -> Window<'a> {
        Window {
            trace,
            cpus,
            step,
            runs: 0,
            queues: 0,
            throttled: 0,
            foreign: 0,
            joins: 0,
            works: 0,
            ios: 0,
            lock_waiters: BTreeMap::new(),
            wanting_xor: 0,
            alone: None,
            last_alone: None,
            lock_chance: BTreeMap::new(),
            fixed_chance: [0.0; 3],
            entered: vec![None; trace.threads.len()],
            locks: BTreeMap::new(),
            fixed: Default::default(),
            serial: Serial {
                step: Duration(trace.wall().0.div_ceil(SERIAL_STEPS).max(1)),
                ..Serial::default()
            },
            running_ns: Vec::new(),
            wanting_ns: Vec::new(),
            step_ns: BTreeMap::new(),
            room: Room::new(trace, from),
        }
    }

    fn merge(&mut self, other: Window) {
        for (lock, stall) in other.locks {
            self.locks.entry(lock).or_default().merge(stall);
        }
        for (sum, stall) in self.fixed.iter_mut().zip(other.fixed) {
            sum.merge(stall);
        }
        for (thread, (ns, join_ns)) in other.serial.by_thread {
            let sums = self.serial.by_thread.entry(thread).or_default();
            sums.0 += ns;
            sums.1 += join_ns;
        }
        self.serial.turns += other.serial.turns;
        for (key, count) in other.serial.samples {
            *self.serial.samples.entry(key).or_default() += count;
        }
        self.serial.longest.extend(other.serial.longest);
        for (step, ns) in other.serial.alone_ns {
            *self.serial.alone_ns.entry(step).or_default() += ns;
        }
        for (count, ns) in other.running_ns.into_iter().enumerate() {
            add_at(&mut self.running_ns, count, ns);
        }
        for (count, ns) in other.wanting_ns.into_iter().enumerate() {
            add_at(&mut self.wanting_ns, count, ns);
        }
        for (step, ns) in other.step_ns {
            *self.step_ns.entry(step).or_default() += ns;
        }
        self.room.merge(other.room);
    }

    fn parallelism(&mut self, trace: &Trace) -> Parallelism {
        let wall = trace.wall().0;
        let steps = wall.div_ceil(self.step.0);
        let mean = |step: u64| {
            let length = self.step.0.min(wall - step * self.step.0);
            (self.step_ns.get(&step).copied().unwrap_or(0) as f64 / length as f64) as f32
        };
        Parallelism {
            over_time: (0..steps).map(mean).collect(),
            step: self.step,
            running_ns: std::mem::take(&mut self.running_ns),
            wanting_ns: std::mem::take(&mut self.wanting_ns),
        }
    }

    fn count(&mut self, doing: Doing, thread: ThreadId, by: i32) {
        let slot = match doing {
            Doing::Absent | Doing::Elsewhere => return,
            Doing::Foreign => &mut self.foreign,
            Doing::Runs => &mut self.runs,
            Doing::Queues => &mut self.queues,
            Doing::Throttled => &mut self.throttled,
            Doing::Join => &mut self.joins,
            Doing::Work => &mut self.works,
            Doing::Io => &mut self.ios,
            Doing::Lock(lock) => self.lock_waiters.entry(lock).or_default(),
        };
        *slot = slot.wrapping_add_signed(by);
        if let Doing::Lock(lock) = doing
            && self.lock_waiters.get(&lock) == Some(&0)
        {
            self.lock_waiters.remove(&lock);
        }
        if matches!(doing, Doing::Runs | Doing::Queues | Doing::Throttled) {
            self.wanting_xor ^= thread.0;
        }
    }

    /// The integrals that a waiter's share is read from.
    fn chances(&self, doing: Doing) -> Option<[f64; 2]> {
        match doing {
            Doing::Lock(lock) => Some([self.lock_chance.get(&lock).copied().unwrap_or(0.0), 0.0]),
            Doing::Io => Some([self.fixed_chance[IO], 0.0]),
            Doing::Queues => Some([self.fixed_chance[OWN], self.fixed_chance[OTHERS]]),
            _ => None,
        }
    }

    fn enter(&mut self, doing: Doing, thread: ThreadId) {
        if let Some(chances) = self.chances(doing)
            && let Some(entered) = self.entered.get_mut(thread.index())
        {
            *entered = Some((doing, chances));
        }
    }

    fn leave(&mut self, thread: ThreadId) {
        let entered = self.entered.get_mut(thread.index()).and_then(Option::take);
        let Some((doing, then)) = entered else { return };
        let Some(now) = self.chances(doing) else { return };
        let (first, second) = (now[0] - then[0], now[1] - then[1]);
        match doing {
            Doing::Lock(lock) => self.locks.entry(lock).or_default().credit(thread, first),
            Doing::Io => self.fixed[IO].credit(thread, first),
            _ => {
                self.fixed[OWN].credit(thread, first);
                self.fixed[OTHERS].credit(thread, second);
            }
        }
    }

    fn stall(&mut self, ns: f64) {
        let free = self.cpus.saturating_sub(self.runs);
        let idle = self.cpus.saturating_sub(self.runs + self.foreign);
        let runs = f64::from(self.runs);
        let saved = |more: u32| ns * f64::from(more) / (runs + f64::from(more));
        let chance = |more: f64, waiting: u32| ns * more / f64::from(waiting);
        if free > 0 {
            // After the idle CPUs are taken, the other CPUs give their fair share.
            let room = |waiting: u32| {
                let beside = waiting.min(idle);
                let shared = (waiting - beside).min(free - idle);
                f64::from(beside) + FAIR_PART * f64::from(shared)
            };
            for (lock, waiting) in &self.lock_waiters {
                let stall = self.locks.entry(*lock).or_default();
                stall.saved_ns += saved(free.min(*waiting));
                stall.idle_ns += ns * f64::from(idle.min(*waiting));
                *self.lock_chance.entry(*lock).or_default() += chance(room(*waiting), *waiting);
            }
            if self.ios > 0 {
                self.fixed[IO].saved_ns += saved(free.min(self.ios));
                self.fixed[IO].idle_ns += ns * f64::from(idle.min(self.ios));
                self.fixed_chance[IO] += chance(room(self.ios), self.ios);
            }
        }
        // Threads for which a CPU is idle are only on their way to it.
        let stuck = self.queues.saturating_sub(idle);
        let others = stuck.min(self.foreign);
        for (cause, more) in [(OWN, stuck - others), (OTHERS, others)] {
            if more > 0 {
                self.fixed[cause].saved_ns += saved(more);
                self.fixed[cause].idle_ns += ns * f64::from(more);
                self.fixed_chance[cause] += chance(f64::from(more), self.queues);
            }
        }
    }

    /// The only running or runnable thread while others wait for threads and a CPU does nothing for the
    /// program, and whether one of them joins. A runnable thread does not count while other programs occupy
    /// all CPUs, because the delay is not its fault.
    fn alone(&self) -> Option<(ThreadId, bool)> {
        let wanting = self.runs + self.queues + self.throttled;
        let idle = self.cpus.saturating_sub(self.runs + self.foreign) > 0;
        let free = self.runs == 1 && self.cpus > 1;
        let waited_for = self.joins + self.works > 0 && self.lock_waiters.is_empty();
        (wanting == 1 && (idle || free) && waited_for).then_some((ThreadId(self.wanting_xor), self.joins > 0))
    }

    fn end_alone(&mut self, end: Timestamp) {
        let Some((thread, start, join)) = self.alone.take() else { return };
        let length = end.since(start);
        self.serial.turns += u64::from(self.last_alone.replace(thread) != Some(thread));
        let sums = self.serial.by_thread.entry(thread).or_default();
        sums.0 += length.0;
        sums.1 += if join { length.0 } else { 0 };
        self.add_alone(thread, start, end);
        let samples = &self.trace.samples;
        let from = samples.partition_point(|sample| (sample.thread, sample.at) < (thread, start));
        for sample in samples[from..].iter().take_while(|sample| (sample.thread, sample.at) < (thread, end)) {
            *self.serial.samples.entry((thread, sample.stack)).or_default() += 1;
        }
        let longest = &mut self.serial.longest;
        longest.push((thread, start, length));
        if longest.len() >= 8 * LONGEST_MAX {
            keep_longest(longest);
        }
    }

    fn add_alone(&mut self, thread: ThreadId, start: Timestamp, end: Timestamp) {
        let mut at = start.since(self.trace.start()).0;
        let to = end.since(self.trace.start()).0;
        let step = self.serial.step.0;
        while at < to {
            let until = to.min((at / step + 1) * step);
            *self.serial.alone_ns.entry((thread, at / step)).or_default() += until - at;
            at = until;
        }
    }
}

fn add_at(sums: &mut Vec<u64>, index: usize, ns: u64) {
    if sums.len() <= index {
        sums.resize(index + 1, 0);
    }
    sums[index] += ns;
}

impl Visitor for Window<'_> {
    fn change(&mut self, change: &Change) {
        self.leave(change.thread);
        self.count(change.from, change.thread, -1);
        self.count(change.to, change.thread, 1);
        self.enter(change.to, change.thread);
    }

    fn interval(&mut self, start: Timestamp, end: Timestamp) {
        let ns = end.since(start).0;
        add_at(&mut self.running_ns, self.runs as usize, ns);
        add_at(&mut self.wanting_ns, (self.runs + self.queues + self.throttled) as usize, ns);
        self.stall(ns as f64);
        self.room.add(
            start,
            end,
            free_capacity::Doing {
                runs: self.runs,
                wanting: self.runs + self.queues + self.throttled,
                idle: self.cpus.saturating_sub(self.runs + self.foreign),
                free: self.cpus.saturating_sub(self.runs),
            },
        );
        let alone = self.alone();
        if self.alone.map(|(thread, _, join)| (thread, join)) != alone {
            self.end_alone(start);
            self.alone = alone.map(|(thread, join)| (thread, start, join));
        }
        let mut at = start.since(self.trace.start()).0;
        let to = at + ns;
        while at < to && self.runs > 0 {
            let step = at / self.step.0;
            let until = to.min((step + 1) * self.step.0);
            *self.step_ns.entry(step).or_default() += (until - at) * u64::from(self.runs);
            at = until;
        }
    }

    fn finish(&mut self, end: Timestamp) {
        self.end_alone(end);
        for thread in 0..self.entered.len() as u32 {
            self.leave(ThreadId(thread));
        }
    }
}
