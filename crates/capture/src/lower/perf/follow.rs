//! Converts the rings' records, in time order, to events. Tracks each thread's state, to detect outdated
//! polls, and to assign each stack to its wait.

use std::collections::{BTreeMap, HashSet};

use holdup_events::event::{
    Lifecycle, LifecycleChange, Outcome, RawStack, RawWait, Sample, Snapshot, SnapshotState, Switch,
    TID_UNKNOWN,
};
use holdup_events::{CpuId, Event, Timestamp};

use crate::lower::procfs::SchedStat;
use crate::lower::waits::unknown_wait;
use crate::mappings::{AddressSpaces, mapping_of};
use crate::perf_ring::records::{self, Origin, Parsed, Record};

/// State of the target's threads.
#[derive(Default)]
pub struct Follower {
    threads: BTreeMap<u32, Thread>,
    /// How often a process has replaced its program: part of a stack's identity.
    programs: BTreeMap<u32, u32>,
    stacks: HashSet<u64>,
    spaces: AddressSpaces,
    /// Ids of the events that sample at context switches. All other events sample the CPU.
    pub switch_samplers: HashSet<u64>,
}

/// One thread.
#[derive(Default)]
struct Thread {
    tgid: u32,
    parent_tgid: u32,
    name: String,
    doing: Doing,
    /// Taken as the thread left the CPU. The switch record follows.
    stack: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
enum Doing {
    #[default]
    Unknown,
    Running(CpuId),
    Runnable,
    Blocked {
        since: Timestamp,
        wait: Box<RawWait>,
        polled: bool,
    },
}

/// The result of a poll of /proc.
pub struct Poll {
    /// Thread.
    pub tid: u32,
    /// Start of the poll. The item's time is its end.
    pub began: Timestamp,
    /// The wait, if it was requested and the thread was blocked.
    pub wait: Option<RawWait>,
    /// The scheduler's totals, if requested.
    pub sched: Option<SchedStat>,
}

/// A thread that was there before.
pub struct Found {
    /// Process.
    pub tgid: u32,
    /// Process that started it.
    pub parent_tgid: u32,
    /// Thread.
    pub tid: u32,
    /// Name.
    pub name: String,
    /// The state of the thread.
    pub state: SnapshotState,
    /// The scheduler's totals.
    pub sched: Option<SchedStat>,
}

impl Follower {
    /// Blocked threads whose wait was not polled yet: (since, tgid, tid), longest first.
    pub fn unpolled_waits(&self) -> Vec<(Timestamp, u32, u32)> {
        let mut waits: Vec<(Timestamp, u32, u32)> = self
            .threads
            .iter()
            .filter_map(|(&tid, thread)| match thread.doing {
                Doing::Blocked { since, polled: false, .. } => Some((since, thread.tgid, tid)),
                _ => None,
            })
            .collect();
        waits.sort_unstable();
        waits
    }

    /// The wait of `tid` was polled. Its [`Poll`] follows.
    pub fn mark_polled(&mut self, tid: u32) {
        if let Some(Thread { doing: Doing::Blocked { polled, .. }, .. }) = self.threads.get_mut(&tid) {
            *polled = true;
        }
    }

    /// All threads: (tgid, tid).
    pub fn threads(&self) -> Vec<(u32, u32)> {
        self.threads.iter().map(|(&tid, thread)| (thread.tgid, tid)).collect()
    }

    /// A thread was there before.
    pub fn found(&mut self, at: Timestamp, found: Found, sink: &mut dyn FnMut(Event)) {
        let doing = match &found.state {
            SnapshotState::Running(cpu) => Doing::Running(*cpu),
            SnapshotState::Runnable => Doing::Runnable,
            SnapshotState::Blocked(wait) => Doing::Blocked { since: at, wait: wait.clone(), polled: true },
            _ => Doing::Unknown,
        };
        let Found { tgid, parent_tgid, tid, name, state, sched } = found;
        let thread = Thread { tgid, parent_tgid, name, doing, stack: 0 };
        sink(Event::Snapshot(snapshot(at, tid, &thread, state, sched)));
        self.threads.insert(tid, thread);
    }

    /// Memory was mapped before.
    pub fn found_mapping(&mut self, mapping: holdup_events::event::RawMapping, sink: &mut dyn FnMut(Event)) {
        if self.spaces.map(&mapping) {
            sink(Event::Mapping(mapping));
        }
    }

    /// Applies the result of a poll, unless the thread has run since.
    pub fn poll(&mut self, at: Timestamp, poll: Poll, sink: &mut dyn FnMut(Event)) {
        let Some(thread) = self.threads.get_mut(&poll.tid) else { return };
        if let (Doing::Blocked { since, wait, .. }, Some(seen)) = (&mut thread.doing, poll.wait)
            && *since <= poll.began
        {
            let (stack, stack_every) = (wait.stack, wait.stack_every);
            **wait = RawWait { stack, stack_every, ..seen };
        } else if poll.sched.is_none() {
            return;
        }
        let state = match &thread.doing {
            Doing::Unknown => return,
            Doing::Running(cpu) => SnapshotState::Running(*cpu),
            Doing::Runnable => SnapshotState::Runnable,
            Doing::Blocked { wait, .. } => SnapshotState::Blocked(wait.clone()),
        };
        sink(Event::Snapshot(snapshot(at, poll.tid, thread, state, poll.sched)));
    }

    /// One record of a ring.
    pub fn record(&mut self, parsed: Parsed, sink: &mut dyn FnMut(Event)) {
        let Parsed { origin, record } = parsed;
        let at = Timestamp(origin.at_ns);
        match record {
            Record::Switch(switch) if switch.out => self.leave(origin, switch.preempted, sink),
            Record::Switch(_) => self.arrive(origin, sink),
            Record::Sample(sample) if self.switch_samplers.contains(&origin.id) => {
                let stack = self.intern(origin, sample, sink);
                self.thread(origin).stack = stack;
            }
            Record::Sample(sample) => self.sample(origin, sample, sink),
            Record::Fork(task) => self.fork(at, task, sink),
            Record::Exit(task) => self.exit(origin, task, sink),
            Record::Comm(comm) => self.rename(at, comm, sink),
            Record::Mmap(mmap) => self.found_mapping(mapping_of(mmap, at), sink),
            Record::Lost(_) | Record::LostSamples(_) | Record::Throttle | Record::Unthrottle => (),
            Record::Other(_) => (),
        }
    }

    /// Records are missing: what threads do is not known before their next switch.
    pub fn forget_states(&mut self) {
        for thread in self.threads.values_mut() {
            thread.doing = Doing::Unknown;
            thread.stack = 0;
        }
    }

    fn thread(&mut self, origin: Origin) -> &mut Thread {
        self.threads.entry(origin.tid).or_insert_with(|| Thread { tgid: origin.tgid, ..Thread::default() })
    }

    fn arrive(&mut self, origin: Origin, sink: &mut dyn FnMut(Event)) {
        if is_reaped(origin) {
            return;
        }
        let cpu = cpu(origin);
        self.thread(origin).doing = Doing::Running(cpu);
        sink(Event::Switch(Switch {
            at: Timestamp(origin.at_ns),
            cpu,
            prev_tid: TID_UNKNOWN,
            next_tid: origin.tid,
            ..Switch::default()
        }));
    }

    fn leave(&mut self, origin: Origin, preempted: bool, sink: &mut dyn FnMut(Event)) {
        if is_reaped(origin) {
            return;
        }
        let at = Timestamp(origin.at_ns);
        let stacks_wanted = !self.switch_samplers.is_empty();
        let thread = self.thread(origin);
        let stack = std::mem::take(&mut thread.stack);
        let outcome = if preempted {
            thread.doing = Doing::Runnable;
            Outcome::Preempted
        } else {
            let stack_every = u32::from(stacks_wanted);
            let wait = Box::new(RawWait { stack, stack_every, ..unknown_wait() });
            thread.doing = Doing::Blocked { since: at, wait: wait.clone(), polled: false };
            Outcome::Blocked(wait)
        };
        sink(departure(origin, outcome));
    }

    fn sample(&mut self, origin: Origin, sample: records::Sample, sink: &mut dyn FnMut(Event)) {
        if is_reaped(origin) {
            return;
        }
        let (ip, in_kernel) = (sample.ip, sample.in_kernel);
        let stack = self.intern(origin, sample, sink);
        sink(Event::Sample(Sample {
            at: Timestamp(origin.at_ns),
            cpu: cpu(origin),
            tid: origin.tid,
            tgid: origin.tgid,
            ip,
            in_kernel,
            // In the kernel it may be in any syscall, or a fault: not known.
            syscall: if in_kernel { i32::MIN } else { -1 },
            stack,
            registers: None,
        }));
    }

    /// Returns the id of a sample's stack, and passes the stack on once. 0 without a stack.
    fn intern(&mut self, origin: Origin, sample: records::Sample, sink: &mut dyn FnMut(Event)) -> u64 {
        if sample.addresses.is_empty() {
            return 0;
        }
        let program = self.programs.get(&origin.tgid).copied().unwrap_or(0);
        let id = stack_id(origin.tgid, program, &sample.addresses);
        if self.stacks.insert(id) {
            sink(Event::Stack(RawStack {
                at: Timestamp(origin.at_ns),
                id,
                tgid: origin.tgid,
                kernel_frames: sample.kernel_frames,
                addresses: sample.addresses,
                ..RawStack::default()
            }));
        }
        id
    }

    fn fork(&mut self, at: Timestamp, task: records::Task, sink: &mut dyn FnMut(Event)) {
        let parent = self.threads.get(&task.parent_tid);
        let name = parent.map_or_else(String::new, |parent| parent.name.clone());
        let is_process = task.tgid != task.parent_tgid;
        let parent_tgid =
            if is_process { task.parent_tgid } else { parent.map_or(0, |parent| parent.parent_tgid) };
        let thread = Thread { tgid: task.tgid, parent_tgid, name: name.clone(), ..Thread::default() };
        self.threads.insert(task.tid, thread);
        let change = LifecycleChange::Fork { parent_tid: task.parent_tid };
        sink(lifecycle(at, change, (task.tgid, task.tid), name));
        if is_process {
            for mapping in self.spaces.fork(task.parent_tgid, task.tgid, at) {
                sink(Event::Mapping(mapping));
            }
        }
    }

    /// The kernel removes a thread's events at the begin of its exit. Later events are missing, so the thread
    /// ends here.
    fn exit(&mut self, origin: Origin, task: records::Task, sink: &mut dyn FnMut(Event)) {
        let thread = self.threads.remove(&task.tid).unwrap_or_default();
        let at = Timestamp(task.at_ns);
        sink(lifecycle(at, LifecycleChange::Exit, (task.tgid, task.tid), thread.name));
        let who = Origin { tgid: task.tgid, tid: task.tid, at_ns: task.at_ns, ..origin };
        sink(departure(who, Outcome::Dead));
        if !self.threads.values().any(|thread| thread.tgid == task.tgid) {
            self.spaces.clear(task.tgid);
        }
    }

    fn rename(&mut self, at: Timestamp, comm: records::Comm, sink: &mut dyn FnMut(Event)) {
        if comm.exec {
            self.spaces.clear(comm.tgid);
            *self.programs.entry(comm.tgid).or_default() += 1;
        }
        let origin = Origin { tgid: comm.tgid, tid: comm.tid, ..Origin::default() };
        self.thread(origin).name.clone_from(&comm.name);
        let change = if comm.exec { LifecycleChange::Exec { old_tid: 0 } } else { LifecycleChange::Rename };
        sink(lifecycle(at, change, (comm.tgid, comm.tid), comm.name));
    }
}

/// The record's thread is being reaped: it has no number any more.
fn is_reaped(origin: Origin) -> bool {
    origin.tid == u32::MAX || origin.tid == 0
}

fn cpu(origin: Origin) -> CpuId {
    u16::try_from(origin.cpu).map_or(CpuId::NONE, CpuId)
}

fn departure(origin: Origin, outcome: Outcome) -> Event {
    Event::Switch(Switch {
        at: Timestamp(origin.at_ns),
        cpu: cpu(origin),
        prev_tid: origin.tid,
        next_tid: TID_UNKNOWN,
        prev_tgid: origin.tgid,
        outcome,
        ..Switch::default()
    })
}

fn lifecycle(at: Timestamp, change: LifecycleChange, (tgid, tid): (u32, u32), name: String) -> Event {
    Event::Lifecycle(Lifecycle { at, change, tid, tgid, name, target: true })
}

fn snapshot(
    at: Timestamp,
    tid: u32,
    thread: &Thread,
    state: SnapshotState,
    sched: Option<SchedStat>,
) -> Snapshot {
    Snapshot {
        at,
        tid,
        tgid: thread.tgid,
        parent_tgid: thread.parent_tgid,
        name: thread.name.clone(),
        target: true,
        state,
        exec_ns: sched.map(|sched| sched.exec_ns),
        queue_ns: sched.map(|sched| sched.queue_ns),
    }
}

/// FNV-1a over process, program and addresses, with a final mix. Never 0.
fn stack_id(tgid: u32, program: u32, addresses: &[u64]) -> u64 {
    let head = u64::from(program) << 32 | u64::from(tgid);
    let words = std::iter::once(&head).chain(addresses);
    let bytes = words.flat_map(|word| word.to_le_bytes());
    let hash = bytes
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    (hash ^ hash >> 32).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKER: Origin = Origin { tgid: 10, tid: 11, at_ns: 1000, cpu: 3, id: 7 };

    fn fed(follower: &mut Follower, at_ns: u64, record: Record) -> Vec<Event> {
        let mut events = Vec::new();
        let origin = Origin { at_ns, ..WORKER };
        follower.record(Parsed { origin, record }, &mut |event| events.push(event));
        events
    }

    fn switch(out: bool, preempted: bool) -> Record {
        Record::Switch(records::Switch { out, preempted, other_tid: None })
    }

    fn stack_sample() -> Record {
        let addresses = vec![0x10, 0x20];
        Record::Sample(records::Sample { ip: 0x10, in_kernel: true, kernel_frames: 0, addresses })
    }

    fn blocked(events: &[Event]) -> &RawWait {
        match events {
            [Event::Switch(Switch { outcome: Outcome::Blocked(wait), prev_tid: 11, .. })] => wait,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_switch_record_has_one_side() {
        let mut follower = Follower::default();
        let events = fed(&mut follower, 1, switch(false, false));
        let [Event::Switch(arrival)] = events.as_slice() else { panic!("{events:?}") };
        assert_eq!((arrival.prev_tid, arrival.next_tid, arrival.cpu), (TID_UNKNOWN, 11, CpuId(3)));
        let events = fed(&mut follower, 2, switch(true, true));
        assert!(matches!(&events[..], [Event::Switch(Switch { outcome: Outcome::Preempted, .. })]));
        assert!(follower.unpolled_waits().is_empty());
        let wait = fed(&mut follower, 3, switch(true, false));
        assert_eq!((blocked(&wait).syscall, blocked(&wait).stack_every), (i32::MIN, 0));
        assert_eq!(follower.unpolled_waits(), [(Timestamp(3), 10, 11)]);
    }

    #[test]
    fn a_stack_taken_at_the_switch_goes_with_its_wait() {
        let mut follower = Follower::default();
        follower.switch_samplers.insert(7);
        let events = fed(&mut follower, 1, stack_sample());
        let [Event::Stack(stack)] = events.as_slice() else { panic!("{events:?}") };
        let out = fed(&mut follower, 1, switch(true, false));
        assert_eq!((blocked(&out).stack, blocked(&out).stack_every), (stack.id, 1));
        let out = fed(&mut follower, 2, switch(true, false));
        assert_eq!(blocked(&out).stack, 0, "a stack serves once");
        assert!(fed(&mut follower, 3, stack_sample()).is_empty(), "a stack is told once");
        fed(
            &mut follower,
            4,
            Record::Comm(records::Comm { tgid: 10, tid: 10, exec: true, name: "x".into() }),
        );
        assert_eq!(fed(&mut follower, 5, stack_sample()).len(), 1, "another program, another stack");
    }

    #[test]
    fn a_poll_counts_only_for_the_wait_it_saw() {
        let mut follower = Follower::default();
        fed(&mut follower, 10, switch(true, false));
        follower.mark_polled(11);
        assert!(follower.unpolled_waits().is_empty());
        let mut polled = |began| {
            let wait = Some(RawWait { syscall: 202, ..RawWait::default() });
            let poll = Poll { tid: 11, began: Timestamp(began), wait, sched: None };
            let mut events = Vec::new();
            follower.poll(Timestamp(began + 1), poll, &mut |event| events.push(event));
            events
        };
        assert!(polled(9).is_empty(), "it blocked while we looked");
        let events = polled(10);
        let [Event::Snapshot(Snapshot { state: SnapshotState::Blocked(wait), .. })] = events.as_slice()
        else {
            panic!("{events:?}")
        };
        assert_eq!(wait.syscall, 202);
    }

    #[test]
    fn forks_copy_name_and_memory_and_exits_end() {
        let mut follower = Follower::default();
        fed(
            &mut follower,
            1,
            Record::Comm(records::Comm { tgid: 10, tid: 11, exec: false, name: "w".into() }),
        );
        let mmap = records::Mmap { tgid: 10, start: 0, length: 9, path: "/x".into(), ..Default::default() };
        fed(&mut follower, 2, Record::Mmap(mmap));
        let task = records::Task { tgid: 20, parent_tgid: 10, tid: 20, parent_tid: 11, at_ns: 3 };
        let events = fed(&mut follower, 3, Record::Fork(task));
        let [Event::Lifecycle(born), Event::Mapping(copy)] = events.as_slice() else { panic!("{events:?}") };
        assert_eq!((born.name.as_str(), born.change), ("w", LifecycleChange::Fork { parent_tid: 11 }));
        assert_eq!((copy.tgid, copy.path.as_str(), copy.at), (20, "/x", Timestamp(3)));
        let events = fed(&mut follower, 4, Record::Exit(records::Task { at_ns: 4, ..task }));
        let [Event::Lifecycle(exit), Event::Switch(last)] = events.as_slice() else { panic!("{events:?}") };
        assert_eq!((exit.change, last.prev_tid, &last.outcome), (LifecycleChange::Exit, 20, &Outcome::Dead));
        assert_eq!(follower.threads(), [(10, 11)]);
    }
}
