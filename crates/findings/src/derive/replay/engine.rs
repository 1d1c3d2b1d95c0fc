//! Runs a model: what happens next, until all threads are through.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::steps::{Kind, Model, Step};
use crate::derive::class::{CLASSES, Class};

/// Which thread gets a CPU or a lock first if several compete for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grants {
    /// The order of the recording.
    Recorded,
    /// First come, first served.
    Fifo,
}

/// Result of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Length of the run (ns).
    pub wall_ns: u64,
    /// Thread time by class (ns). All running time is [`Class::Useful`].
    pub classes: [u64; CLASSES],
    /// Waits that nothing would have ended in this order, and that were ended by force.
    pub forced: u64,
}

/// Replays a model.
pub fn run(model: &Model, grants: Grants) -> Outcome {
    let mut engine = Engine::new(model, grants);
    engine.run();
    let last = model.when_timed_end(&engine.ended).unwrap_or(engine.last);
    Outcome { wall_ns: last + model.tail_ns, classes: engine.classes, forced: engine.forced }
}

const NOBODY: u32 = u32::MAX;
const SENT: u32 = u32::MAX - 1;
pub(super) const NEVER: u64 = u64::MAX;
/// Ids from here on are other programs' runs.
const OTHERS: u32 = 1 << 31;

/// Time slice of another program's thread while other threads are runnable (ns), as in Linux's scheduler.
const OTHERS_QUANTUM_NS: u64 = 3_000_000;

/// Time from a thread's decision to wait until it has left its CPU (ns). In some recordings a wakeup precedes
/// the wakee's switch. 99 % of these wakeups precede it by less than this value. The measured maximum is 3.5
/// µs, in five recordings of programs that hand over work (Linux 6.18, x86-64).
const FALLING_ASLEEP_NS: u64 = 4_000;

/// Maximum length of a wait for a CPU (ns). Longer values come only from damaged recordings.
const DELAY_MAX_NS: u64 = 1 << 40;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Thread {
    /// The next step.
    pub(super) next: u32,
    pub(super) end: u32,
    /// Rest of the current run, and the part already done (ns).
    pub(super) left: u64,
    pub(super) done: u64,
    /// Start of the current state.
    pub(super) since: u64,
    /// End of the current run or absence.
    pub(super) due: u64,
    /// End of the current delay, in accumulated idle time.
    pub(super) lag: u64,
    /// Latest end of the last delay, and its recorded end.
    latest: u64,
    lag_ended: Option<u64>,
    pub(super) on_cpu: bool,
    /// Row in `Engine::running`.
    place: u32,
    /// Whether the thread has waited, and has not run since.
    pub(super) is_woken: bool,
    /// Whether only another thread can let it continue.
    blocked: bool,
    /// Whether the thread has the highest priority and does not yield its CPU until it waits.
    pub(super) keeps: bool,
}

struct Lock {
    owner: u32,
    queue: VecDeque<u32>,
}

pub(super) struct Engine<'a> {
    pub(super) model: &'a Model,
    pub(super) grants: Grants,
    pub(super) now: u64,
    /// End of the last run.
    last: u64,
    /// End of each thread.
    ended: Vec<u64>,
    pub(super) threads: Vec<Thread>,
    /// Threads that are not through, and those of them that only another thread lets go on.
    alive: u32,
    blocked: u32,
    idle: u32,
    /// (time, thread): end of a run or an absence.
    pub(super) due: BinaryHeap<Reverse<(u64, u32)>>,
    /// (idle time, thread): end of a delay.
    pub(super) lags: BinaryHeap<Reverse<(u64, u32)>>,
    /// For how long a CPU was idle (ns).
    pub(super) idle_ns: u64,
    /// (rank, thread): runnable threads.
    pub(super) ready: BinaryHeap<Reverse<(u64, u32)>>,
    arrivals: u64,
    /// Running threads, and threads woken and queued since the last check for preemption.
    pub(super) running: Vec<u32>,
    pub(super) newly_woken: Vec<u32>,
    /// The next of the others' runs, and how much of each is done (ns).
    pub(super) others: usize,
    others_done: Vec<u64>,
    /// Threads that may go on now.
    pub(super) woken: Vec<u32>,
    /// The thread that waits for each signal, or [`SENT`].
    signals: Vec<u32>,
    /// Time at which each signal was sent.
    sent_at: Vec<u64>,
    /// Per barrier round: number of arrived members, and the last one of them.
    meetings: Vec<(u32, u32)>,
    /// For each thread, the member that arrived at the same barrier before it.
    came_before: Vec<u32>,
    locks: Vec<Lock>,
    classes: [u64; CLASSES],
    forced: u64,
    /// (recorded time, thread): threads that only another thread can let continue, or that were in this
    /// state. `None` until no thread can continue for the first time.
    stuck: Option<BinaryHeap<Reverse<(u64, u32)>>>,
    /// Threads that entered this state since `stuck` was last searched.
    newly_stuck: Vec<u32>,
}

impl<'a> Engine<'a> {
    fn new(model: &'a Model, grants: Grants) -> Engine<'a> {
        let thread = |number: u32| {
            let steps = model.steps_of(number);
            Thread { next: steps.start as u32, end: steps.end as u32, ..Thread::default() }
        };
        let threads: Vec<Thread> = (0..model.threads()).map(thread).collect();
        let has_steps = |number: &u32| !model.steps_of(*number).is_empty();
        let mut woken: Vec<u32> = (0..model.threads()).filter(has_steps).collect();
        woken.reverse();
        Engine {
            model,
            grants,
            now: 0,
            last: 0,
            ended: vec![0; threads.len()],
            alive: woken.len() as u32,
            blocked: 0,
            came_before: vec![NOBODY; threads.len()],
            threads,
            idle: model.cpus,
            due: BinaryHeap::new(),
            lags: BinaryHeap::new(),
            idle_ns: 0,
            ready: BinaryHeap::new(),
            arrivals: 0,
            running: Vec::new(),
            newly_woken: Vec::new(),
            others: 0,
            others_done: vec![0; model.others.len()],
            woken,
            signals: vec![NOBODY; model.signals as usize],
            sent_at: vec![0; model.signals as usize],
            meetings: vec![(0, NOBODY); model.meetings.len()],
            locks: (0..model.locks).map(|_| Lock { owner: NOBODY, queue: VecDeque::new() }).collect(),
            classes: [0; CLASSES],
            forced: 0,
            stuck: None,
            newly_stuck: Vec::new(),
        }
    }

    fn run(&mut self) {
        loop {
            while let Some(thread) = self.woken.pop() {
                self.go_on(thread);
            }
            if self.alive == 0 {
                return;
            }
            if self.blocked == self.alive {
                self.force();
                continue;
            }
            self.dispatch();
            self.preempt();
            let other = self.model.others.get(self.others).map(|(at, _)| *at);
            let due = self.due.peek().map(|Reverse((at, _))| *at);
            let Some(next) = other.into_iter().chain(due).chain(self.next_lag()).min() else { return };
            self.pass(next.max(self.now));
            self.queue_other_programs(self.now);
            while let Some(Reverse((at, who))) = self.due.peek().copied()
                && at <= self.now
            {
                self.due.pop();
                if who >= OTHERS || self.threads[who as usize].due == at {
                    self.is_due(who);
                }
            }
            while let Some(Reverse((idle_ns, who))) = self.lags.peek().copied()
                && idle_ns <= self.idle_ns
            {
                self.lags.pop();
                if self.threads[who as usize].lag == idle_ns {
                    self.is_due(who);
                }
            }
        }
    }

    fn pass(&mut self, to: u64) {
        self.idle_ns += if self.idle > 0 { to - self.now } else { 0 };
        self.now = to;
    }

    /// End of the first delay if the number of idle CPUs does not change.
    fn next_lag(&self) -> Option<u64> {
        let Reverse((idle_ns, _)) = self.lags.peek().filter(|_| self.idle > 0)?;
        Some(self.now + idle_ns.saturating_sub(self.idle_ns))
    }

    /// A delay passes while any CPU is idle that the thread does not get. If no CPU is idle, it ends at the
    /// latest after its recorded length. The thread then queues with the others.
    fn delay(&mut self, who: u32, step: Step) {
        let (thread, lag_ns) = (&mut self.threads[who as usize], u64::from(step.arg));
        let following = self.model.steps.get(thread.next as usize).filter(|_| thread.next < thread.end);
        let whole_ns = following.map_or(0, |following| following.at.saturating_sub(step.at));
        // One delay after another: that the first was short is no reason why the second should be.
        let from = if thread.lag_ended == Some(step.at) { thread.latest.max(self.now) } else { self.now };
        thread.lag_ended = following.map(|following| following.at);
        thread.latest = from.saturating_add(whole_ns.clamp(lag_ns, DELAY_MAX_NS));
        thread.due = thread.latest;
        thread.lag = self.idle_ns + lag_ns;
        self.lags.push(Reverse((thread.lag, who)));
        self.due.push(Reverse((thread.due, who)));
    }

    /// Gives idle CPUs to runnable threads.
    pub(super) fn dispatch(&mut self) {
        while self.idle > 0
            && let Some(who) = self.first_ready()
        {
            self.idle -= 1;
            if who >= OTHERS {
                self.piece_of_other(who);
            } else {
                self.spent(who, Class::RunQueue);
                let thread = &mut self.threads[who as usize];
                (thread.on_cpu, thread.is_woken) = (true, false);
                thread.place = self.running.len() as u32;
                self.running.push(who);
                self.catch_up_run(who);
                self.piece(who);
            }
        }
    }

    pub(super) fn queue_other_programs(&mut self, until: u64) {
        while let Some((at, _)) = self.model.others.get(self.others)
            && *at <= until
        {
            let rank = self.rank(*at);
            self.ready.push(Reverse((rank, OTHERS + self.others as u32)));
            self.others += 1;
        }
    }

    fn rank(&mut self, recorded: u64) -> u64 {
        self.arrivals += 1;
        match self.grants {
            Grants::Recorded => recorded,
            Grants::Fifo => self.arrivals,
        }
    }

    /// Runs a thread for the rest of its step, or until its time slice ends.
    fn piece(&mut self, who: u32) {
        let thread = &mut self.threads[who as usize];
        thread.since = self.now;
        thread.due = self.now.saturating_add(thread.left.min(self.model.quantum_ns));
        self.due.push(Reverse((thread.due, who)));
    }

    /// The same for another program's run.
    fn piece_of_other(&mut self, who: u32) {
        self.due.push(Reverse((self.now.saturating_add(self.piece_ns_of_other(who)), who)));
    }

    fn piece_ns_of_other(&self, who: u32) -> u64 {
        let number = (who - OTHERS) as usize;
        let run = self.model.others.get(number).zip(self.others_done.get(number));
        run.map_or(0, |((_, length), done)| (length - done).min(OTHERS_QUANTUM_NS))
    }

    /// Another program shares its CPU, as the program's threads do.
    fn other_is_due(&mut self, who: u32) {
        let number = (who - OTHERS) as usize;
        let (at, length) = self.model.others[number];
        let done = self.others_done[number] + self.piece_ns_of_other(who);
        self.others_done[number] = done;
        if done < length && !self.must_yield(at + done) {
            return self.piece_of_other(who);
        }
        self.idle += 1;
        if done < length {
            let rank = self.rank(at + done);
            self.ready.push(Reverse((rank, who)));
        }
    }

    pub(super) fn is_due(&mut self, who: u32) {
        if who >= OTHERS {
            return self.other_is_due(who);
        }
        let thread = &mut self.threads[who as usize];
        (thread.due, thread.lag) = (NEVER, NEVER);
        if thread.on_cpu {
            self.ran(who);
            self.catch_up_run(who);
            if self.threads[who as usize].left > 0 {
                return self.slice_ends(who);
            }
        } else {
            let class = self.class(who);
            // A throttled thread has work and lacks only a CPU.
            if class == Class::RunQueue {
                self.last = self.now;
            }
            self.spent(who, class);
            self.stop_listening(who);
        }
        self.woken.push(who);
    }

    /// Yields the CPU if another thread comes first.
    fn slice_ends(&mut self, who: u32) {
        if !self.threads[who as usize].keeps && self.must_yield(self.turn(who)) {
            self.release(who);
            self.queue(who);
        } else {
            self.piece(who);
        }
    }

    /// Whether another thread comes before a thread whose current work was recorded at `recorded`.
    fn must_yield(&self, recorded: u64) -> bool {
        let first = self.ready.peek().map(|Reverse((rank, _))| *rank);
        first.is_some_and(|first| self.grants == Grants::Fifo || first < recorded)
    }

    /// Recorded time of a thread's next work.
    pub(super) fn recorded(&self, who: u32) -> u64 {
        let thread = &self.threads[who as usize];
        match thread.next as usize {
            next if next == self.model.steps_of(who).start => 0,
            next => self.model.steps[next - 1].at + thread.done,
        }
    }

    /// Recorded time that a thread has reached. A queued thread has not begun the run it is queued for.
    pub(super) fn reached(&self, who: u32) -> u64 {
        let thread = &self.threads[who as usize];
        let (recorded, start) = (self.recorded(who), self.model.steps_of(who).start);
        let Some(current) = (thread.next as usize).checked_sub(1).filter(|current| *current >= start) else {
            return recorded;
        };
        if current == start {
            // A thread that is not yet created has reached nothing.
            return if self.model.steps[start].kind == Kind::Await { 0 } else { recorded };
        }
        let step = self.model.steps[current];
        if step.kind != Kind::Run || thread.on_cpu || recorded != step.at {
            return recorded;
        }
        // Steps without duration that the thread does when it runs again (such as taking a lock) are not done
        // yet.
        let before = self.model.steps[start..current].iter().rev().find(|before| before.at < step.at);
        before.map_or(0, |before| before.at)
    }

    /// Rank of a thread for a CPU. A follower comes after its deciders, and does not come earlier because it
    /// is behind.
    pub(super) fn turn(&self, who: u32) -> u64 {
        self.recorded(who).max(self.pace(who).map_or(0, |pace| pace.saturating_add(1)))
    }

    /// The class of the step that a thread is in.
    fn class(&self, who: u32) -> Class {
        self.model.steps[self.threads[who as usize].next as usize - 1].class
    }

    /// Adds the time since the thread's last change of state to that class.
    fn spent(&mut self, who: u32, class: Class) {
        let thread = &mut self.threads[who as usize];
        self.classes[class as usize] += self.now - thread.since;
        thread.since = self.now;
    }

    pub(super) fn queue(&mut self, who: u32) {
        self.threads[who as usize].since = self.now;
        let rank = if self.threads[who as usize].keeps { 0 } else { self.rank(self.turn(who)) };
        self.ready.push(Reverse((rank, who)));
        if self.threads[who as usize].is_woken {
            self.newly_woken.push(who);
        }
    }

    pub(super) fn release(&mut self, who: u32) {
        let thread = &mut self.threads[who as usize];
        thread.keeps = false;
        if std::mem::take(&mut thread.on_cpu) {
            self.leave_cpu(who);
        }
    }

    fn leave_cpu(&mut self, who: u32) {
        let place = self.threads[who as usize].place as usize;
        self.running.swap_remove(place);
        if let Some(moved) = self.running.get(place) {
            self.threads[*moved as usize].place = place as u32;
        }
        self.idle += 1;
    }

    /// A thread's run is accounted up to now.
    pub(super) fn ran(&mut self, who: u32) {
        let thread = &mut self.threads[who as usize];
        let ran = self.now - thread.since;
        thread.left -= ran;
        thread.done += ran;
        self.last = self.now;
        self.spent(who, Class::Useful);
    }

    /// Goes through a thread's steps up to one that takes time.
    pub(super) fn go_on(&mut self, who: u32) {
        loop {
            let thread = &mut self.threads[who as usize];
            if thread.next == thread.end {
                self.release(who);
                self.alive -= 1;
                self.ended[who as usize] = self.now;
                return;
            }
            let step = self.next_step(who);
            let thread = &mut self.threads[who as usize];
            (thread.next, thread.done) = (thread.next + 1, 0);
            if !self.take(who, step) {
                return;
            }
        }
    }

    /// Takes one step. Returns whether the thread can continue at once.
    fn take(&mut self, who: u32, step: Step) -> bool {
        match step.kind {
            Kind::Run => {
                let thread = &mut self.threads[who as usize];
                let skipped = step.at - self.model.steps[thread.next as usize - 1].at;
                (thread.left, thread.done) = (u64::from(step.arg), skipped);
                if thread.on_cpu {
                    self.piece(who)
                } else {
                    self.queue(who)
                }
                return false;
            }
            Kind::Lag if self.threads[who as usize].on_cpu => {}
            Kind::Away | Kind::Lag => {
                self.release(who);
                let thread = &mut self.threads[who as usize];
                thread.since = self.now;
                if step.kind == Kind::Lag {
                    self.delay(who, step);
                } else {
                    thread.is_woken = true;
                    thread.due = self.now + u64::from(step.arg);
                    self.due.push(Reverse((thread.due, who)));
                }
                return false;
            }
            Kind::Unless => {
                let signal = &mut self.signals[step.arg as usize];
                match *signal {
                    SENT => self.threads[who as usize].next += 1,
                    _ => *signal = who,
                }
            }
            Kind::Keep => self.threads[who as usize].keeps = true,
            Kind::Requeue => self.release(who),
            Kind::AwaitLock if self.grants == Grants::Fifo => {}
            Kind::Await | Kind::AwaitLock => {
                let signal = &mut self.signals[step.arg as usize];
                if *signal != SENT {
                    *signal = who;
                    return self.block(who);
                }
                if self.falls_asleep(who, step.arg) {
                    self.release(who);
                }
            }
            Kind::Signal => self.send(step.arg),
            Kind::Meet => return self.meet(who, step.arg as usize),
            Kind::Take | Kind::Give if self.grants == Grants::Recorded => {}
            Kind::Take => {
                let lock = &mut self.locks[step.arg as usize];
                if lock.owner != NOBODY && lock.owner != who {
                    lock.queue.push_back(who);
                    return self.block(who);
                }
                lock.owner = who;
            }
            Kind::Give => self.let_go(who, step.arg),
        }
        true
    }

    /// Whether the signal came after the thread had decided to wait, but before it left its CPU. The thread
    /// then leaves the CPU all the same, and has to be woken.
    fn falls_asleep(&self, who: u32, signal: u32) -> bool {
        let sent_ago_ns = self.now - self.sent_at[signal as usize];
        let is_late = |lead: &u64| sent_ago_ns <= lead.saturating_add(FALLING_ASLEEP_NS);
        self.threads[who as usize].on_cpu
            && (is_late(&0) || self.model.leads.get(&signal).is_some_and(is_late))
    }

    pub(super) fn send(&mut self, signal: u32) {
        let waiter = std::mem::replace(&mut self.signals[signal as usize], SENT);
        self.sent_at[signal as usize] = self.now;
        if waiter < SENT && self.listens(waiter, signal) {
            self.wake(waiter);
        }
    }

    /// Whether a thread waits for the signal, or sleeps in a nap that the signal ends. A follower may have
    /// left the wait out.
    fn listens(&self, who: u32, signal: u32) -> bool {
        let is_for_it = |back: usize, kinds: &[Kind]| {
            let step = (self.threads[who as usize].next as usize).checked_sub(back);
            let step = step.and_then(|step| self.model.steps.get(step));
            step.is_some_and(|step| kinds.contains(&step.kind) && step.arg == signal)
        };
        let thread = &self.threads[who as usize];
        let waits = thread.blocked && is_for_it(1, &[Kind::Await, Kind::AwaitLock]);
        waits || (!thread.on_cpu && !thread.blocked && is_for_it(2, &[Kind::Unless]))
    }

    pub(super) fn let_go(&mut self, who: u32, lock: u32) {
        let lock = &mut self.locks[lock as usize];
        if lock.owner == who {
            lock.owner = lock.queue.pop_front().unwrap_or(NOBODY);
            let heir = lock.owner;
            self.wake(heir);
        }
    }

    fn meet(&mut self, who: u32, meeting: usize) -> bool {
        let (there, last) = &mut self.meetings[meeting];
        *there += 1;
        if *there < self.model.meetings[meeting] {
            self.came_before[who as usize] = std::mem::replace(last, who);
            return self.block(who);
        }
        let mut next = std::mem::replace(last, NOBODY);
        while next != NOBODY {
            let before = self.came_before[next as usize];
            self.wake(next);
            next = before;
        }
        true
    }

    fn block(&mut self, who: u32) -> bool {
        self.release(who);
        let thread = &mut self.threads[who as usize];
        thread.since = self.now;
        (thread.blocked, thread.is_woken) = (true, true);
        self.blocked += 1;
        if self.stuck.is_some() {
            self.newly_stuck.push(who);
        }
        false
    }

    fn wake(&mut self, who: u32) {
        if who < SENT {
            self.spent(who, self.class(who));
            let thread = &mut self.threads[who as usize];
            match std::mem::take(&mut thread.blocked) {
                true => self.blocked -= 1,
                // From a nap.
                false => thread.due = NEVER,
            }
            self.woken.push(who);
        }
    }

    /// A nap that a signal would have ended is over.
    fn stop_listening(&mut self, who: u32) {
        let before = (self.threads[who as usize].next as usize).checked_sub(2);
        let Some(step) = before.and_then(|before| self.model.steps.get(before)) else { return };
        if step.kind == Kind::Unless && self.signals[step.arg as usize] == who {
            self.signals[step.arg as usize] = NOBODY;
        }
    }

    /// No thread can continue: ends the wait that came first in the recording.
    fn force(&mut self) {
        let Some(who) = self.first_stuck() else {
            // Unreachable. Ends the replay instead of looping forever.
            self.alive = 0;
            return;
        };
        let step = self.model.steps[self.threads[who as usize].next as usize - 1];
        match step.kind {
            Kind::Await | Kind::AwaitLock => self.signals[step.arg as usize] = SENT,
            Kind::Take => self.locks[step.arg as usize].queue.retain(|waiter| *waiter != who),
            Kind::Meet => return self.release_barrier(step.arg as usize),
            _ => {}
        }
        self.forced += 1;
        self.wake(who);
    }

    /// The thread that waited first in the recording, among the threads that only another thread can let
    /// continue.
    fn first_stuck(&mut self) -> Option<u32> {
        let mut stuck = self.stuck.take().unwrap_or_else(|| {
            self.newly_stuck = (0..self.threads.len() as u32).collect();
            BinaryHeap::new()
        });
        for who in std::mem::take(&mut self.newly_stuck) {
            if self.threads[who as usize].blocked {
                stuck.push(Reverse((self.recorded(who), who)));
            }
        }
        let still = |(at, who): (u64, u32)| self.threads[who as usize].blocked && self.recorded(who) == at;
        let first = std::iter::from_fn(|| stuck.pop()).find(|Reverse(entry)| still(*entry));
        self.stuck = Some(stuck);
        first.map(|Reverse((_, who))| who)
    }

    /// Lets all arrived members continue.
    fn release_barrier(&mut self, meeting: usize) {
        self.forced += 1;
        let mut next = std::mem::replace(&mut self.meetings[meeting], (0, NOBODY)).1;
        while next != NOBODY {
            let before = self.came_before[next as usize];
            self.wake(next);
            next = before;
        }
    }
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
