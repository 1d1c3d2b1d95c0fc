//! Makes the model of a trace.

use std::collections::BTreeMap;

use holdup_events::event::WakeContext;
use holdup_events::tables::{Slice, ThreadState};
use holdup_events::{CpuId, ThreadId, Timestamp, Trace, WaitReason};

use super::change::Edit;
use super::endings::{self, Endings};
use super::kept_cpus::KeptCpus;
use super::lag::Idle;
use super::naps::napped;
use super::other_programs::Strangers;
use super::steps::{Follower, Kind, Model, Step, Timed};
use crate::derive::class::Class;
use crate::derive::kernel_threads::is_kernel_thread;
use crate::derive::locks::LockIndex;
use crate::derive::roles::Roles;
use crate::derive::timelines::Timelines;

/// Input for a model.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    /// The recording.
    pub trace: &'a Trace,
    /// Occupation of each CPU.
    pub timelines: &'a Timelines,
    /// Roles of a runtime's code and threads.
    pub roles: &'a Roles,
    /// The locks, by number.
    pub locks: &'a LockIndex,
    /// CPUs that the program may use.
    pub cpus: u32,
}

/// Waits at a barrier that one thread ends within this time of each other belong to one round (ns).
const MEETING_NS: u64 = 1_000_000;

/// Time slice if no thread was preempted in the recording (ns). The value is the one of current kernels.
const QUANTUM_NS: u64 = 3_000_000;

/// A thread that waits for a CPU as long as this (ns) while one was idle for this part of it may not go there.
const BOUND_MIN_NS: u64 = 4_000_000;
const BOUND_IDLE_MIN: f64 = 0.1;

/// A wait for a CPU of at least this number of rounds of time slices is not due to a lack of CPUs. The thread
/// has a lower priority.
const STARVED_ROUNDS: u64 = 10;

/// Steps hold lengths of 32 bits.
const LENGTH_MAX: u64 = u32::MAX as u64;

/// End of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Signal(u32),
    Lock(u32, u32),
    Meeting(u32),
}

/// End of a wait, and the time from the wakeup until the thread was queued (ns). The waker asks the target
/// CPU to queue the thread, and an idle CPU needs time to react.
#[derive(Clone, Copy, Debug)]
struct Ended {
    row: u32,
    end: End,
    transit_ns: u64,
}

/// Maximum length of a wait for an internal lock of the kernel (ns). A longer wait counts as a wait for the
/// other thread's work.
const MOMENT_MAX_NS: u64 = 1_000_000;

/// Something that a running thread does for others.
type Mark = (ThreadId, u64, Kind, u32);

/// Builds the model of a trace with changes. `endings` decides when each thread ends.
pub fn build(facts: Facts, edit: &Edit, endings: &Endings) -> Model {
    let trace = facts.trace;
    let mut links = Links::new(facts, edit);
    let timed = timed(facts, edit, endings);
    let followers = links.follow(trace, endings, &timed);
    let marks = links.marks(trace);
    let idle = Idle::new(trace, facts.timelines, facts.cpus);
    let mut model = Model {
        signals: links.signals,
        locks: facts.locks.locks.len() as u32,
        followers,
        leads: std::mem::take(&mut links.leads),
        cpus: edit.cpus.unwrap_or(facts.cpus).max(1),
        quantum_ns: if edit.no_preempt { u64::MAX } else { quantum_ns(trace) },
        ..Model::default()
    };
    model.meetings = std::mem::take(&mut links.meetings);
    if !edit.without_others && !edit.no_preempt && !edit.queueless {
        model.others = other_program_runs(facts, edit);
    }
    if edit.queueless {
        model.cpus = trace.threads.len() as u32;
    }
    let threads = trace.target_threads().count() as u64;
    let round_ns = QUANTUM_NS * threads.div_ceil(u64::from(facts.cpus.max(1)));
    let mut last_run = 0;
    let mut marks = marks.as_slice();
    for thread in (0..trace.threads.len() as u32).map(ThreadId) {
        model.of_thread.push(model.steps.len() as u32);
        let count = marks.partition_point(|mark| mark.0 <= thread);
        let (own, later) = marks.split_at(count);
        marks = later;
        if trace.threads[thread.index()].target {
            let ends = links.ends.get(&thread).map(Vec::as_slice).unwrap_or_default();
            let mut writer = Writer {
                facts,
                edit,
                idle: &idle,
                steps: &mut model.steps,
                meetings: &mut model.meetings,
                marks: own,
                ends,
                naps: napped(trace, thread, &signalled(ends)),
                sleeps_for: timed.get(&thread).copied(),
                round_ns,
                sums: Sums::default(),
            };
            writer.thread(thread, links.births.get(&thread).copied());
            let sums = writer.sums;
            last_run = last_run.max(sums.last_run);
            model.taken_ns += sums.taken_ns;
            model.cut_ns += sums.cut_ns;
            model.queued_ns += sums.queued_ns;
            let is_fixed = model.followers.get(thread.index()).is_none_or(|follower| follower.is_none());
            model.work_ns += if is_fixed { sums.work_ns } else { 0 };
            model.timed.extend(endings.is_timed(&timed, thread).then(|| Timed {
                thread: thread.0,
                end: trace.threads[thread.index()].end.since(trace.start()).0,
                taken_ns: sums.taken_ns,
            }));
        }
    }
    model.of_thread.push(model.steps.len() as u32);
    let last = model.when_timed_ended().map_or(last_run.max(trace.start().0), |ns| trace.start().0 + ns);
    model.tail_ns = trace.end().0.saturating_sub(last);
    model
}

/// The waits that a signal ended, by row.
fn signalled(ends: &[Ended]) -> Vec<(u32, u32)> {
    let signal = |ended: &Ended| match ended.end {
        End::Signal(signal) => Some((ended.row, signal)),
        _ => None,
    };
    ends.iter().filter_map(signal).collect()
}

/// Threads that sleep to let others work, with the end of their sleep. Leaves out threads whose own sleep is
/// changed.
fn timed(facts: Facts, edit: &Edit, endings: &Endings) -> BTreeMap<ThreadId, Timestamp> {
    let trace = facts.trace;
    let drops = |thread: ThreadId| {
        trace.slices.rows(thread).any(|row| {
            let slice = trace.slices.at(thread, row);
            endings::is_timer(trace, &slice) && edit.drops(row, class(facts, &slice), None)
        })
    };
    let until = |thread: ThreadId, timed: &[ThreadId]| {
        let told = timed.iter().filter_map(|timed| endings.requests.get(timed)).map(|told| told.at);
        told.max().map(|at| (thread, at))
    };
    let sleepers = endings.timed.iter().filter(|(thread, _)| !drops(**thread));
    sleepers.filter_map(|(thread, timed)| until(*thread, timed)).collect()
}

/// The mean length of runs that others ended.
fn quantum_ns(trace: &Trace) -> u64 {
    let (mut runs, mut ns) = (0u64, 0u64);
    for thread in trace.target_threads() {
        let mut before: Option<Slice> = None;
        for slice in trace.slices.of_thread(thread) {
            if slice.state == ThreadState::Preempted
                && let Some(run) = before.filter(|run| run.state == ThreadState::Running)
            {
                runs += 1;
                ns += run.duration().0;
            }
            before = Some(slice);
        }
    }
    if runs < 10 { QUANTUM_NS } else { (ns / runs).clamp(1_000, QUANTUM_NS) }
}

/// CPU use of other programs on CPUs that the program may use: start, and length after sharing (ns).
fn other_program_runs(facts: Facts, edit: &Edit) -> Vec<(u64, u64)> {
    let (start, without_kernel) = (facts.trace.start().0, edit.without_kernel_threads);
    let kept = KeptCpus::new(facts.trace, &edit.kept_cpus);
    let strangers = match edit.strangers_stay {
        true => Strangers::staying(),
        false => Strangers::new(facts.trace, facts.timelines),
    };
    let all = facts.timelines.iter().count() as u32 <= facts.cpus;
    let mut others = Vec::new();
    for (cpu, timeline) in facts.timelines.iter() {
        if all || timeline.stretches().iter().any(|stretch| stretch.own()) {
            let counts = |thread: ThreadId| {
                let process = facts.trace.threads.get(thread.index()).map(|thread| thread.process);
                !(without_kernel && process.is_some_and(|process| is_kernel_thread(facts.trace, process)))
            };
            let foreign =
                timeline.stretches().iter().filter(|stretch| !stretch.own() && counts(stretch.thread()));
            for run in foreign {
                let left = kept.left_of(cpu, (run.start(), run.end()));
                let pieces = left.flat_map(|span| strangers.pieces(span));
                others.extend(pieces.map(|(from, ns)| (from.0.saturating_sub(start), ns)));
            }
        }
    }
    others.sort_unstable();
    others
}

/// Wakeups between threads: which thread ended which wait.
#[derive(Default)]
struct Links {
    signals: u32,
    meetings: Vec<u32>,
    /// By thread, then row.
    ends: BTreeMap<ThreadId, Vec<Ended>>,
    /// The signal that starts a thread, and when its parent sent it.
    births: BTreeMap<ThreadId, (u32, u64)>,
    /// Time from sending a signal to the wait that the signal ended (ns).
    leads: BTreeMap<u32, u64>,
    sent: Vec<Mark>,
}

/// One wait that a thread of the program ended.
struct Link {
    wakee: ThreadId,
    row: u32,
    waker: ThreadId,
    at: u64,
    began: u64,
    transit_ns: u64,
}

impl Links {
    fn new(facts: Facts, edit: &Edit) -> Links {
        let trace = facts.trace;
        let mut links = Links::default();
        let mut at_barriers: BTreeMap<(u32, u64), Vec<Link>> = BTreeMap::new();
        let mut at_locks: BTreeMap<u32, Vec<(Link, u32)>> = BTreeMap::new();
        for wakee in trace.target_threads() {
            links.birth(trace, wakee);
            for row in trace.slices.rows(wakee) {
                let slice = trace.slices.at(wakee, row);
                let Some(link) = link(trace, &slice, row) else { continue };
                let wait = trace.wait(slice.wait);
                if wait.reason == WaitReason::Barrier {
                    at_barriers.entry((wait.process.0, wait.object)).or_default().push(link);
                    continue;
                }
                let signal = links.signal((link.waker, link.at));
                if link.at < link.began {
                    links.leads.insert(signal, link.began - link.at);
                }
                match facts.locks.of_slice(&slice) {
                    Some(lock) => {
                        links.end(&link, End::Lock(signal, lock));
                        // A thread that does not wait for the lock is not delayed by its holder either.
                        let class = class(facts, &slice);
                        if !edit.drops(row, class, Some(lock)) && !is_for_a_moment(class, &slice) {
                            at_locks.entry(lock).or_default().push((link, signal));
                        }
                    }
                    None => links.end(&link, End::Signal(signal)),
                }
            }
        }
        at_barriers.into_values().for_each(|waits| links.meet(trace, waits));
        for (lock, waits) in at_locks {
            let reason = facts.locks.locks.get(lock as usize).map(|(_, _, reason)| *reason);
            links.hold((lock, reason == Some(WaitReason::MmapLock)), waits);
        }
        links.ends.values_mut().for_each(|ends| ends.sort_unstable_by_key(|ended| ended.row));
        links
    }

    fn signal(&mut self, (sender, at): (ThreadId, u64)) -> u32 {
        let signal = self.signals;
        self.signals += 1;
        self.sent.push((sender, at, Kind::Signal, signal));
        signal
    }

    fn end(&mut self, link: &Link, end: End) {
        let ended = Ended { row: link.row, end, transit_ns: link.transit_ns };
        self.ends.entry(link.wakee).or_default().push(ended);
    }

    /// Lets threads that run until a stop request follow their deciders. A thread that runs until a timer
    /// ends keeps its own work.
    fn follow(
        &mut self,
        trace: &Trace,
        endings: &Endings,
        timed: &BTreeMap<ThreadId, Timestamp>,
    ) -> Vec<Option<Follower>> {
        let mut followers = Vec::new();
        for (thread, request) in &endings.requests {
            if endings.is_timed(timed, *thread) {
                continue;
            }
            let signal = self.signal((request.by, request.at.0));
            self.sent.push((*thread, request.at.0, Kind::Await, signal));
            followers.resize(trace.threads.len(), None);
            followers[thread.index()] = Some(Follower {
                until: request.at.since(trace.start()).0,
                deciders: request.deciders.iter().map(|decider| decider.0).collect(),
            });
        }
        for (thread, follower) in &endings.housekeepers {
            followers.resize(trace.threads.len(), None);
            followers[thread.index()] = Some(follower.clone());
        }
        followers
    }

    /// Starts a thread with a signal from its parent.
    fn birth(&mut self, trace: &Trace, child: ThreadId) {
        let thread = &trace.threads[child.index()];
        let parent = thread.parent.filter(|parent| {
            !thread.began_before && trace.threads.get(parent.index()).is_some_and(|parent| parent.target)
        });
        if let Some(parent) = parent.filter(|parent| *parent != child) {
            let at = ran_at(trace, parent, thread.start.0);
            let signal = self.signal((parent, at));
            self.births.insert(child, (signal, at));
        }
    }

    /// Turns waits at one barrier into rounds. All members continue together when the last one arrives.
    fn meet(&mut self, trace: &Trace, mut waits: Vec<Link>) {
        waits.sort_by_key(|link| (link.at, link.wakee));
        let mut last: Option<(ThreadId, u64)> = None;
        for link in waits {
            let goes_on = last.is_some_and(|(waker, at)| {
                waker == link.waker && link.at - at <= MEETING_NS && at >= link.began
            });
            if !goes_on {
                self.sent.push((link.waker, link.at, Kind::Meet, self.meetings.len() as u32));
                self.meetings.push(1);
            }
            let meeting = self.meetings.len() - 1;
            self.meetings[meeting] += 1;
            // If a thread falls asleep while it is being woken, it arrived before its waker.
            let asleep = link.began.saturating_add(1);
            if let Some((waker, at, ..)) = self.sent.last_mut()
                && *at < asleep
                && ran_at(trace, *waker, asleep) == asleep
            {
                *at = asleep;
            }
            last = Some((link.waker, link.at));
            self.end(&link, End::Meeting(meeting as u32));
        }
    }

    /// When each releaser of a lock took it. The trace only shows that the releaser held the lock when the
    /// waiter arrived. A thread that got the lock from one waiter and releases it to another is assumed to
    /// have held it in between.
    ///
    /// A kernel lock is different: it is released before its thread continues. A later waiter therefore waits
    /// for another critical section.
    fn hold(&mut self, (lock, is_kernels): (u32, bool), mut waits: Vec<(Link, u32)>) {
        let is_let_go = |next: &Link, since: u64| is_kernels && next.began > since;
        waits.sort_by_key(|(link, _)| (link.at, link.wakee));
        let mut owner: Option<ThreadId> = None;
        let mut since = 0;
        for (index, (link, _)) in waits.iter().enumerate() {
            if owner != Some(link.waker) || is_let_go(link, since) {
                self.sent.push((link.waker, link.began.max(since), Kind::Take, lock));
            }
            self.sent.push((link.waker, link.at, Kind::Give, lock));
            (owner, since) = (Some(link.wakee), link.at);
            // If no thread waited for a lock's next holder, its release time is unknown. The earliest
            // possible time is right after the acquisition.
            let next = waits.get(index + 1).map(|(next, _)| next);
            if next.is_none_or(|next| next.waker != link.wakee || is_let_go(next, link.at)) {
                self.sent.push((link.wakee, link.at, Kind::Give, lock));
            }
        }
    }

    /// Steps of each thread that affect other threads, by thread, then time.
    fn marks(&mut self, trace: &Trace) -> Vec<Mark> {
        let mut marks = std::mem::take(&mut self.sent);
        for (thread, at, kind, _) in &mut marks {
            if matches!(kind, Kind::Signal | Kind::Meet) {
                *at = ran_at(trace, *thread, *at);
            }
        }
        // Order at the same time: first take, then signal, then give.
        marks.sort_by_key(|(thread, at, kind, arg)| (*thread, *at, *kind != Kind::Take, *arg));
        marks
    }
}

/// Time at which a thread ran, closest to a moment at which it acted. The kernel timestamps the switch, but a
/// tracepoint may timestamp the action later. An action before a wait must not come after the wait, because
/// other threads wait for it.
fn ran_at(trace: &Trace, thread: ThreadId, at: u64) -> u64 {
    let runs = |row: &usize| trace.slices.at(thread, *row).state == ThreadState::Running;
    let rows = trace.slices.rows(thread);
    let Some(row) = trace.slices.covering(thread, Timestamp(at)) else {
        // The kernel signals a thread's end after the thread has left its CPU for the last time.
        let last = rows.rev().find(runs).map(|row| trace.slices.at(thread, row).end.0);
        return last.filter(|last| *last < at).unwrap_or(at);
    };
    if runs(&row) {
        return at;
    }
    let before = (rows.start..row).rev().find(runs).map(|row| trace.slices.at(thread, row).end.0);
    let after = (row + 1..rows.end).find(runs).map(|row| trace.slices.at(thread, row).start.0);
    match (before, after) {
        (Some(before), Some(after)) if after - at < at - before => after,
        (Some(before), _) => before,
        (None, after) => after.unwrap_or(at),
    }
}

/// The wakeup by a thread of the program that ended a wait.
fn link(trace: &Trace, slice: &Slice, row: usize) -> Option<Link> {
    if slice.state != ThreadState::Blocked {
        return None;
    }
    let wakeup = trace.ended_by(slice)?;
    let waker = trace.threads.get(wakeup.waker.index())?;
    let by_own = wakeup.context == WakeContext::Thread && waker.target && wakeup.waker != slice.thread;
    if !by_own {
        return None;
    }
    let at = ran_at(trace, wakeup.waker, wakeup.at.0);
    Some(Link {
        wakee: slice.thread,
        row: row as u32,
        waker: wakeup.waker,
        at,
        began: slice.start.0,
        transit_ns: slice.end.0.saturating_sub(at.max(slice.start.0)),
    })
}

/// Writes the steps of one thread.
struct Writer<'a> {
    facts: Facts<'a>,
    edit: &'a Edit,
    idle: &'a Idle,
    steps: &'a mut Vec<Step>,
    /// Number of members of each barrier round.
    meetings: &'a mut [u32],
    marks: &'a [Mark],
    ends: &'a [Ended],
    /// Waits that ended by timeout (by row), with the signal that would have ended each of them.
    naps: BTreeMap<usize, u32>,
    /// Until this time the thread sleeps only to let other threads work.
    sleeps_for: Option<Timestamp>,
    /// Time until each thread of the program has had a CPU for a time slice (ns).
    round_ns: u64,
    sums: Sums,
}

/// Sums that accumulate while a thread's steps are written.
#[derive(Clone, Copy, Default)]
struct Sums {
    last_run: u64,
    taken_ns: u64,
    cut_ns: u64,
    /// Waits for a CPU after runs that are cut (ns). A thread that runs less is preempted less often.
    queued_ns: u64,
    /// The run before was cut.
    is_cut: bool,
    work_ns: u64,
    /// The wait before was left out: so is being woken from it.
    is_dropped: bool,
    /// Whether the thread runs at once after the wakeup from the previous wait.
    is_at_once: bool,
}

impl Writer<'_> {
    fn thread(&mut self, thread: ThreadId, birth: Option<(u32, u64)>) {
        let trace = self.facts.trace;
        let life = &trace.threads[thread.index()];
        match birth {
            Some((signal, at)) => {
                let made = Timestamp(at.min(life.start.0));
                self.push((Kind::Await, Class::Unknown), signal, made.0);
                if made < life.start {
                    let idle_ns = self.idle.within(made, life.start);
                    self.lasts((Kind::Lag, Class::Unknown), made.0, idle_ns.max(1));
                }
            }
            None => {
                let before = life.start.since(trace.start()).0;
                self.lasts((Kind::Away, Class::Unknown), trace.start().0, before);
            }
        }
        let rows = trace.slices.rows(thread);
        for row in rows.clone() {
            let slice = trace.slices.at(thread, row);
            match slice.state {
                ThreadState::Running => {
                    if row + 1 < rows.end && self.edit.has(row + 1) && self.loses_cpu(thread, row + 1) {
                        self.push((Kind::Keep, Class::Useful), 0, slice.start.0);
                    }
                    self.running(&slice, row);
                }
                ThreadState::Blocked => self.blocked(&slice, row, row + 1 == rows.end),
                state if state.waits_for_cpu() => self.queues(&slice, row),
                _ if row + 1 == rows.end => {}
                _ => self.lasts((Kind::Away, Class::Unknown), slice.start.0, slice.duration().0),
            }
        }
        // Actions recorded while the thread did not run.
        for (_, at, kind, arg) in std::mem::take(&mut self.marks) {
            self.push((*kind, Class::Useful), *arg, *at);
        }
    }

    fn running(&mut self, slice: &Slice, row: usize) {
        self.sums.last_run = self.sums.last_run.max(slice.end.0);
        let count = self.marks.partition_point(|mark| mark.1 <= slice.end.0);
        let (marks, later) = self.marks.split_at(count);
        self.marks = later;
        let cut_before_ns = self.sums.cut_ns;
        let mut from = slice.start.0;
        for (_, at, kind, arg) in marks {
            let to = (*at).max(from);
            self.run((slice.thread, row), from, to);
            self.push((*kind, Class::Useful), *arg, to);
            from = to;
        }
        self.run((slice.thread, row), from, slice.end.0);
        self.sums.is_cut = self.sums.cut_ns > cut_before_ns;
    }

    fn run(&mut self, (thread, row): (ThreadId, usize), from: u64, to: u64) {
        let is_dropped = self.edit.has(row);
        let (ns, elsewhere) = if is_dropped { (0, 0) } else { self.edit.run_ns(thread, (from, to)) };
        self.sums.cut_ns += if is_dropped { 0 } else { (to - from).saturating_sub(ns + elsewhere) };
        self.sums.taken_ns += (to - from).saturating_sub(ns);
        self.sums.work_ns += ns + elsewhere;
        self.lasts((Kind::Run, Class::Useful), from, ns);
    }

    /// Whether the slice in that row shows that the thread lost its CPU.
    fn loses_cpu(&self, thread: ThreadId, row: usize) -> bool {
        let state = self.facts.trace.slices.at(thread, row).state;
        matches!(state, ThreadState::Preempted | ThreadState::Yielded)
    }

    /// Whether a wait for a CPU has another cause than a lack of CPUs, such as affinity or priority. The
    /// thread then continues when it did in the recording.
    fn is_bound(&self, slice: &Slice, idle_ns: u64) -> bool {
        let ns = slice.duration().0;
        let is_passed = ns >= BOUND_MIN_NS && idle_ns as f64 >= BOUND_IDLE_MIN * ns as f64;
        is_passed || ns >= STARVED_ROUNDS * self.round_ns
    }

    fn queues(&mut self, slice: &Slice, row: usize) {
        if self.edit.queueless {
            return;
        }
        let is_woken = slice.state == ThreadState::Runnable;
        let is_dropped = std::mem::take(&mut self.sums.is_dropped) && is_woken;
        let is_at_once = std::mem::take(&mut self.sums.is_at_once) && is_woken;
        if is_dropped || is_at_once || self.edit.drops(row, Class::RunQueue, None) {
            self.sums.taken_ns += slice.duration().0;
            if is_at_once || self.edit.has(row) {
                self.push((Kind::Keep, Class::RunQueue), 0, slice.start.0);
            }
            return;
        }
        if slice.state == ThreadState::Throttled {
            self.sums.last_run = self.sums.last_run.max(slice.end.0);
            return self.lasts((Kind::Away, Class::RunQueue), slice.start.0, slice.duration().0);
        }
        let gave_up = matches!(slice.state, ThreadState::Preempted | ThreadState::Yielded);
        self.sums.queued_ns += if gave_up && self.sums.is_cut { slice.duration().0 } else { 0 };
        if gave_up && !self.edit.no_preempt {
            self.push((Kind::Requeue, Class::RunQueue), 0, slice.start.0);
        }
        let mut lag = self.idle.within(slice.start, slice.end);
        if self.is_bound(slice, lag) {
            lag = slice.duration().0;
        }
        if self.edit.without_others && slice.cpu != CpuId::NONE {
            let ran = self
                .facts
                .timelines
                .of_cpu(slice.cpu)
                .map_or((0, 0), |cpu| cpu.ran(slice.start, slice.end, &mut 0));
            lag = lag.saturating_sub(ran.1);
        }
        self.lasts((Kind::Lag, Class::RunQueue), slice.start.0, lag);
    }

    fn blocked(&mut self, slice: &Slice, row: usize, is_last: bool) {
        (self.sums.is_dropped, self.sums.is_at_once) = (false, false);
        let ended = self.ends.partition_point(|ended| (ended.row as usize) < row);
        let class = class(self.facts, slice);
        let is_tied = |end: End| matches!(end, End::Meeting(_)) || !is_for_a_moment(class, slice);
        let ended = self.ends.get(ended).filter(|ended| ended.row as usize == row && is_tied(ended.end));
        let end = ended.map(|ended| ended.end);
        let lock = self.facts.locks.of_slice(slice);
        if self.edit.drops(row, class, lock) {
            self.sums.is_dropped = true;
            self.sums.taken_ns += slice.duration().0;
            // A thread that does not wait at the barrier is not a member. The others do not wait for it.
            if let Some(End::Meeting(meeting)) = end {
                self.meetings[meeting as usize] -= 1;
            }
            return;
        }
        match end {
            Some(End::Signal(signal)) => self.push((Kind::Await, class), signal, slice.start.0),
            Some(End::Meeting(meeting)) => self.push((Kind::Meet, class), meeting, slice.start.0),
            Some(End::Lock(signal, lock)) => {
                self.push((Kind::AwaitLock, class), signal, slice.start.0);
                self.push((Kind::Take, class), lock, slice.start.0);
            }
            None if is_last => {}
            None if self.sleeps_for.is_some_and(|until| slice.end <= until)
                && endings::is_long_timer(self.facts.trace, slice) => {}
            None => self.away(slice, class, row),
        }
        let transit_ns = ended.filter(|_| !self.edit.queueless).map_or(0, |ended| ended.transit_ns);
        if self.edit.is_at_once(row) {
            self.sums.is_at_once = true;
            self.sums.taken_ns += transit_ns;
        } else if transit_ns > 0 {
            let woken = Timestamp(slice.end.0 - transit_ns);
            // While all CPUs are busy it waits for one of these, as in a queue, if not for longer than it did.
            self.lasts((Kind::Lag, class), woken.0, self.idle.within(woken, slice.end).max(1));
        }
    }

    /// A wait that no thread ended, which one might have.
    fn away(&mut self, slice: &Slice, class: Class, row: usize) {
        let Some(signal) = self.naps.get(&row).copied() else {
            return self.lasts((Kind::Away, class), slice.start.0, slice.duration().0);
        };
        let (mut at, mut ns) = (slice.start.0, slice.duration().0);
        while ns > 0 {
            let piece = ns.min(LENGTH_MAX);
            self.push((Kind::Unless, class), signal, at);
            self.push((Kind::Away, class), piece as u32, at);
            (at, ns) = (at + piece, ns - piece);
        }
    }

    fn push(&mut self, (kind, class): (Kind, Class), arg: u32, at: u64) {
        let is_lock = matches!(kind, Kind::Take | Kind::Give);
        if is_lock && self.edit.locks.contains(&arg) {
            return;
        }
        self.steps.push(Step { at: at.saturating_sub(self.facts.trace.start().0), arg, kind, class });
    }

    fn lasts(&mut self, what: (Kind, Class), mut at: u64, mut ns: u64) {
        while ns > 0 {
            let piece = ns.min(LENGTH_MAX);
            self.push(what, piece as u32, at);
            (at, ns) = (at + piece, ns - piece);
        }
    }
}

/// Whether a wait is for a short internal lock of the kernel (including `mmap_lock`). It lasts as long as
/// recorded. In another order of events the two threads need not conflict. If the wait were tied to the other
/// thread's next step, it would last until all earlier steps of that thread were done.
fn is_for_a_moment(class: Class, slice: &Slice) -> bool {
    matches!(class, Class::FaultWait | Class::KernelWait) && slice.duration().0 <= MOMENT_MAX_NS
}

/// The class of a blocked slice, as in the ledger.
fn class(facts: Facts, slice: &Slice) -> Class {
    let trace = facts.trace;
    let reason = trace.wait(slice.wait).reason;
    let by_timer = |wakeup: &holdup_events::tables::Wakeup| wakeup.context == WakeContext::Timer;
    match reason {
        WaitReason::Multiplex if trace.ended_by(slice).is_some_and(by_timer) => Class::Sleep,
        _ => facts.roles.class_of_wait(trace, slice),
    }
}
