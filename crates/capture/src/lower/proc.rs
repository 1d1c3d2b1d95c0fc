//! Backend `proc`: polls /proc of the target and its children. Needs no privilege except the target's user
//! id. Works under seccomp filters that forbid bpf and perf_event_open.
//!
//! All of its data is sampled: events between two polls only appear in the scheduler's totals.

use std::collections::BTreeMap;
use std::time::Duration;
use std::{fs, io};

use holdup_events::event::{Lifecycle, LifecycleChange, RawWait, Snapshot, SnapshotState};
use holdup_events::{CpuId, Event, Loss, Timestamp, recording};

use super::procfs::{self, SchedStat, Stat};
use super::{Backend, Mode, Target, now, thread_cpu_ns, waits};
use crate::mappings::{AddressSpaces, read_maps};

/// Polls are at least this far apart (ns).
const INTERVAL_MIN_NS: u64 = 10_000_000;
/// … and at most this, however many threads there are (ns).
const INTERVAL_MAX_NS: u64 = 500_000_000;
/// The pause between polls is this times what a poll costs in the mean: own cost ≤ 2 % of one CPU.
const COST_FACTOR: u64 = 50;
/// Weight of the previous mean: a poll counts 1/8 in the mean cost. This spreads the cost of one expensive
/// poll (cold pages, many new mappings) over the next ones. One long pause instead would miss state changes
/// of threads.
const COST_WEIGHT: u64 = 8;
/// A poll after more than this number of intervals is late: the threads' states in between are unknown.
const LATE_INTERVALS: u64 = 4;
/// New child processes are looked for this often (ns).
const CHILDREN_INTERVAL_NS: u64 = 30_000_000;
/// Mappings are read this long after a process appears, then at this interval if its size has changed (ns).
const MAPS_FIRST_NS: u64 = 50_000_000;
const MAPS_INTERVAL_NS: u64 = 250_000_000;

/// See the module.
pub struct ProcBackend {
    processes: BTreeMap<u32, Process>,
    threads: BTreeMap<(u32, u32), Thread>,
    spaces: AddressSpaces,
    /// The first poll. Threads that it finds existed before.
    first: bool,
    cost_ns: u64,
    interval_ns: u64,
    polled_at: Timestamp,
    poll_due: Timestamp,
    children_due: Timestamp,
    follows_children: bool,
}

struct Process {
    parent_tgid: u32,
    executable: String,
    maps_due: Timestamp,
    /// `statm` when the maps were read last.
    size: String,
}

#[derive(Default)]
struct Thread {
    name: String,
    started_ticks: u64,
    sched: Option<SchedStat>,
    block_delay_ticks: u64,
}

/// One thread at one poll.
struct Seen {
    at: Timestamp,
    tgid: u32,
    tid: u32,
    stat: Stat,
    sched: Option<SchedStat>,
}

impl ProcBackend {
    /// Fails if there is no such process.
    pub fn open(target: &Target) -> io::Result<ProcBackend> {
        let stat = procfs::stat(target.pid, target.pid).ok_or(io::ErrorKind::NotFound)?;
        let mut backend = ProcBackend {
            processes: BTreeMap::new(),
            threads: BTreeMap::new(),
            spaces: AddressSpaces::default(),
            first: true,
            cost_ns: 0,
            interval_ns: INTERVAL_MIN_NS,
            polled_at: now(),
            poll_due: Timestamp(0),
            children_due: Timestamp(0),
            follows_children: target.mode != Mode::Only,
        };
        let at = now();
        backend.add_process(target.pid, stat.parent_tgid, at);
        if target.mode != Mode::Run
            && let Some(process) = backend.processes.get_mut(&target.pid)
        {
            process.maps_due = at;
        }
        Ok(backend)
    }

    fn add_process(&mut self, tgid: u32, parent_tgid: u32, at: Timestamp) {
        let executable = executable(tgid);
        let maps_due = Timestamp(at.0 + MAPS_FIRST_NS);
        self.processes.insert(tgid, Process { parent_tgid, executable, maps_due, size: String::new() });
    }

    fn poll(&mut self, at: Timestamp, sink: &mut dyn FnMut(Event)) {
        let cost_start = thread_cpu_ns();
        self.emit_late_polls(at, sink);
        if self.follows_children && at >= self.children_due {
            self.children_due = Timestamp(at.0 + CHILDREN_INTERVAL_NS);
            self.find_children(at);
        }
        let processes: Vec<u32> = self.processes.keys().copied().collect();
        let mut alive = Vec::with_capacity(self.threads.len());
        for tgid in processes {
            let before = alive.len();
            for tid in procfs::threads(tgid) {
                if self.poll_thread(tgid, tid, sink) {
                    alive.push((tgid, tid));
                }
            }
            if alive.len() == before {
                self.processes.remove(&tgid);
                self.spaces.clear(tgid);
            } else {
                self.poll_maps(tgid, at, sink);
            }
        }
        self.bury_missing(&alive, sink);
        self.first = false;
        self.pause_for(thread_cpu_ns().saturating_sub(cost_start));
        self.poll_due = Timestamp(now().0 + self.interval_ns);
    }

    /// Sets the pause between polls after one that cost `cost_ns`.
    fn pause_for(&mut self, cost_ns: u64) {
        self.cost_ns = (self.cost_ns * (COST_WEIGHT - 1) + cost_ns) / COST_WEIGHT;
        let wanted_ns = self.cost_ns.saturating_mul(COST_FACTOR);
        self.interval_ns = wanted_ns.clamp(INTERVAL_MIN_NS, INTERVAL_MAX_NS);
    }

    /// Looks that were not taken in time are a loss.
    fn emit_late_polls(&mut self, at: Timestamp, sink: &mut dyn FnMut(Event)) {
        let start = std::mem::replace(&mut self.polled_at, at);
        let missed = at.since(start).0 / self.interval_ns.max(1);
        if missed >= LATE_INTERVALS {
            let (source, reason) = ("proc".to_owned(), "late".to_owned());
            sink(Event::Loss(Loss { source, reason, cpu: CpuId::NONE, start, end: at, events: missed - 1 }));
        }
    }

    fn find_children(&mut self, at: Timestamp) {
        let mut unvisited: Vec<u32> = self.processes.keys().copied().collect();
        while let Some(parent) = unvisited.pop() {
            for child in procfs::children(parent) {
                if child != std::process::id() && !self.processes.contains_key(&child) {
                    self.add_process(child, parent, at);
                    unvisited.push(child);
                }
            }
        }
    }

    /// Returns `false` if the thread has exited.
    fn poll_thread(&mut self, tgid: u32, tid: u32, sink: &mut dyn FnMut(Event)) -> bool {
        let at = now();
        let Some(stat) = procfs::stat(tgid, tid) else { return false };
        if matches!(stat.state, b'Z' | b'X' | b'x') {
            return false;
        }
        let seen = Seen { at, tgid, tid, stat, sched: procfs::schedstat(tgid, tid) };
        let known = self.threads.get(&(tgid, tid));
        if known.is_some_and(|thread| thread.started_ticks != seen.stat.started_ticks) {
            // The number was given to a new thread.
            self.bury((tgid, tid), at, sink);
        }
        let before = self.threads.remove(&(tgid, tid));
        self.announce(before.as_ref(), &seen, sink);
        let Some(state) = state_of(before.as_ref(), &seen) else {
            // It woke while we looked: ask again next time.
            self.threads.insert((tgid, tid), Thread::from(seen));
            return true;
        };
        sink(Event::Snapshot(Snapshot {
            at,
            tid,
            tgid,
            parent_tgid: self.processes.get(&tgid).map_or(0, |process| process.parent_tgid),
            name: seen.stat.name.clone(),
            target: true,
            state,
            exec_ns: seen.sched.map(|sched| sched.exec_ns),
            queue_ns: seen.sched.map(|sched| sched.queue_ns),
        }));
        self.threads.insert((tgid, tid), Thread::from(seen));
        true
    }

    /// Reports new threads and new names.
    fn announce(&mut self, before: Option<&Thread>, seen: &Seen, sink: &mut dyn FnMut(Event)) {
        let change = match before {
            None if self.first => return,
            // Which thread of the process made it cannot be seen.
            None if seen.tid != seen.tgid => LifecycleChange::Fork { parent_tid: seen.tgid },
            None => LifecycleChange::Fork { parent_tid: seen.stat.parent_tgid },
            Some(thread) if thread.name == seen.stat.name => return,
            Some(_) if self.replaced_program(seen) => LifecycleChange::Exec { old_tid: 0 },
            Some(_) => LifecycleChange::Rename,
        };
        sink(Event::Lifecycle(lifecycle(seen.at, change, (seen.tgid, seen.tid), &seen.stat.name)));
    }

    /// A process whose name changed runs another file now.
    fn replaced_program(&mut self, seen: &Seen) -> bool {
        let Some(process) = self.processes.get_mut(&seen.tgid) else { return false };
        let executable = executable(seen.tgid);
        if seen.tid != seen.tgid || executable == process.executable {
            return false;
        }
        process.executable = executable;
        process.size.clear();
        process.maps_due = process.maps_due.min(Timestamp(seen.at.0 + MAPS_FIRST_NS));
        self.spaces.clear(seen.tgid);
        true
    }

    fn poll_maps(&mut self, tgid: u32, at: Timestamp, sink: &mut dyn FnMut(Event)) {
        let Some(process) = self.processes.get_mut(&tgid) else { return };
        if at < process.maps_due {
            return;
        }
        process.maps_due = Timestamp(at.0 + MAPS_INTERVAL_NS);
        let size = address_space_size(tgid);
        if size == process.size {
            return;
        }
        process.size = size;
        for mapping in read_maps(tgid) {
            if self.spaces.map(&mapping) {
                sink(Event::Mapping(mapping));
            }
        }
    }

    fn bury_missing(&mut self, alive: &[(u32, u32)], sink: &mut dyn FnMut(Event)) {
        let at = now();
        // Both are in ascending order.
        let gone: Vec<(u32, u32)> =
            self.threads.keys().filter(|key| alive.binary_search(key).is_err()).copied().collect();
        for key in gone {
            self.bury(key, at, sink);
        }
    }

    fn bury(&mut self, key: (u32, u32), at: Timestamp, sink: &mut dyn FnMut(Event)) {
        let Some(thread) = self.threads.remove(&key) else { return };
        sink(Event::Lifecycle(lifecycle(at, LifecycleChange::Exit, key, &thread.name)));
        sink(Event::Snapshot(Snapshot {
            at,
            tid: key.1,
            tgid: key.0,
            parent_tgid: self.processes.get(&key.0).map_or(0, |process| process.parent_tgid),
            name: thread.name,
            target: true,
            state: SnapshotState::Dead,
            exec_ns: None,
            queue_ns: None,
        }));
    }
}

impl Backend for ProcBackend {
    fn drain(&mut self, sink: &mut dyn FnMut(Event)) {
        let at = now();
        if at >= self.poll_due {
            self.poll(at, sink);
        }
    }

    fn finish(&mut self, sink: &mut dyn FnMut(Event)) {
        for process in self.processes.values_mut() {
            process.maps_due = Timestamp(0);
        }
        self.poll(now(), sink);
    }

    fn backend(&self) -> recording::Backend {
        recording::Backend::Proc
    }

    fn interval(&self) -> Duration {
        Duration::from_nanos(self.poll_due.since(now()).0.max(1_000_000))
    }
}

impl From<Seen> for Thread {
    fn from(seen: Seen) -> Thread {
        Thread {
            name: seen.stat.name,
            started_ticks: seen.stat.started_ticks,
            sched: seen.sched,
            block_delay_ticks: seen.stat.block_delay_ticks,
        }
    }
}

/// Returns the state of the thread. `None` if it changed during the poll.
fn state_of(before: Option<&Thread>, seen: &Seen) -> Option<SnapshotState> {
    if seen.stat.state != b'R' {
        let mut wait = waits::read_wait(seen.tgid, seen.tid, seen.stat.state)?;
        let grew = before.is_some_and(|thread| thread.block_delay_ticks < seen.stat.block_delay_ticks);
        add_block_delay(&mut wait, grew);
        return Some(SnapshotState::Blocked(Box::new(wait)));
    }
    let cpu = CpuId(seen.stat.cpu);
    let grown = before.and_then(|thread| thread.sched).zip(seen.sched).map(|(old, new)| SchedStat {
        exec_ns: new.exec_ns.saturating_sub(old.exec_ns),
        queue_ns: new.queue_ns.saturating_sub(old.queue_ns),
    });
    Some(match grown {
        // The totals only move at ticks and switches: a thread that queues all the time shows neither.
        Some(grown) if grown.exec_ns <= grown.queue_ns => SnapshotState::Runnable,
        _ => SnapshotState::Running(cpu),
    })
}

/// If the kernel function is hidden, the counter of block device delays still shows a disk wait.
fn add_block_delay(wait: &mut RawWait, grew: bool) {
    wait.in_iowait |= wait.state & 0x2 != 0 && grew;
}

fn lifecycle(at: Timestamp, change: LifecycleChange, (tgid, tid): (u32, u32), name: &str) -> Lifecycle {
    Lifecycle { at, change, tid, tgid, name: name.to_owned(), target: true }
}

fn executable(tgid: u32) -> String {
    fs::read_link(format!("/proc/{tgid}/exe"))
        .map_or_else(|_| String::new(), |path| path.to_string_lossy().into())
}

/// Total and text size of `statm`: changes whenever something is mapped.
fn address_space_size(tgid: u32) -> String {
    let statm = fs::read_to_string(format!("/proc/{tgid}/statm")).unwrap_or_default();
    statm.split_ascii_whitespace().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(state: u8, exec_ns: u64, queue_ns: u64) -> Seen {
        let stat = Stat { state, cpu: 3, ..Stat::default() };
        let sched = Some(SchedStat { exec_ns, queue_ns });
        Seen { at: Timestamp(0), tgid: u32::MAX, tid: u32::MAX, stat, sched }
    }

    #[test]
    fn runnable_or_running_by_what_grew() {
        let before = Thread::from(seen(b'R', 100, 100));
        let state = |exec, queue| state_of(Some(&before), &seen(b'R', exec, queue));
        assert_eq!(state(200, 100), Some(SnapshotState::Running(CpuId(3))));
        assert_eq!(state(100, 200), Some(SnapshotState::Runnable));
        assert_eq!(state(100, 100), Some(SnapshotState::Runnable));
        assert_eq!(state_of(None, &seen(b'R', 1, 1)), Some(SnapshotState::Running(CpuId(3))));
    }

    #[test]
    fn stopped_and_disk_states() {
        let state = |letter| match state_of(None, &seen(letter, 1, 1)) {
            Some(SnapshotState::Blocked(wait)) => (wait.state, wait.syscall),
            other => panic!("{other:?}"),
        };
        assert_eq!(state(b'T'), (4, i32::MIN));
        assert_eq!(state(b't'), (8, i32::MIN));
        assert_eq!(state(b'D'), (2, i32::MIN));
        let mut wait = RawWait { state: 2, ..RawWait::default() };
        add_block_delay(&mut wait, true);
        assert!(wait.in_iowait);
    }

    #[test]
    fn a_sleeping_thread_of_this_process_is_seen() {
        let (tell, wait) = std::sync::mpsc::channel::<()>();
        let sleeper = std::thread::spawn(move || wait.recv());
        let target = Target { pid: std::process::id(), mode: Mode::Attach, sample_hz: 0 };
        let mut backend = ProcBackend::open(&target).unwrap();
        let mut events = Vec::new();
        backend.drain(&mut |event| events.push(event));
        let snapshots = events.iter().filter(|event| matches!(event, Event::Snapshot(_))).count();
        assert!(snapshots >= 2, "{events:?}");
        assert!(events.iter().any(|event| matches!(event, Event::Mapping(_))));
        drop(tell);
        let _ = sleeper.join();
        backend.finish(&mut |event| events.push(event));
    }

    #[test]
    fn a_late_look_is_a_loss() {
        let target = Target { pid: std::process::id(), mode: Mode::Attach, sample_hz: 0 };
        let mut backend = ProcBackend::open(&target).unwrap();
        let mut losses = Vec::new();
        let start = backend.polled_at;
        for (at, missed) in [(start.0 + 10_000_000, None), (start.0 + 60_000_000, Some(4))] {
            losses.clear();
            backend.emit_late_polls(Timestamp(at), &mut |event| losses.push(event));
            let told = losses.first().map(|event| match event {
                Event::Loss(loss) => (loss.end, loss.events),
                other => panic!("{other:?}"),
            });
            assert_eq!(told, missed.map(|missed| (Timestamp(at), missed)));
        }
    }

    #[test]
    fn one_dear_poll_is_no_blind_spot_and_many_are_paid_for() {
        let target = Target { pid: std::process::id(), mode: Mode::Attach, sample_hz: 0 };
        let mut backend = ProcBackend::open(&target).unwrap();
        backend.pause_for(8_000_000);
        assert_eq!(backend.interval_ns, 50_000_000);
        for _ in 0..8 {
            backend.pause_for(100_000);
        }
        assert!(backend.interval_ns < 25_000_000, "{}", backend.interval_ns);
        for _ in 0..60 {
            backend.pause_for(4_000_000);
        }
        assert!((190_000_000..=200_000_000).contains(&backend.interval_ns), "{}", backend.interval_ns);
        backend.pause_for(u64::MAX / 100);
        assert_eq!(backend.interval_ns, INTERVAL_MAX_NS);
    }

    #[test]
    fn a_process_that_is_not_there_is_an_error() {
        let target = Target { pid: u32::MAX, ..Target::default() };
        assert!(ProcBackend::open(&target).is_err());
    }
}
