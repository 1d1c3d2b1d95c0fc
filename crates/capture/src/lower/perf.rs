//! Backend `perf`: `perf_event_open` as an ordinary user, on the user's own processes.
//!
//! Exact: which thread runs when on which CPU, and whether it left the CPU by preemption. Sampled: the
//! running code. Polled from /proc: the reason for a blocked thread's wait, and the scheduler's totals. Not
//! available: wakers. If the kernel may be observed (perf_event_paranoid ≤ 1), stacks of blocking threads are
//! recorded, too.

mod follow;

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use holdup_events::event::{RawMapping, SnapshotState};
use holdup_events::{CpuId, Event, Loss, Timestamp, recording};

use self::follow::{Follower, Found, Poll};
use super::ordered::Ordered;
use super::{Backend, Mode, Target, now, procfs, thread_cpu_ns, waits};
use crate::mappings::read_maps;
use crate::perf_ring::records::{self, Parsed, Record};
use crate::perf_ring::{self, Attr, Ring, flag, sample};

const SAMPLE_TYPE: u64 =
    sample::IDENTIFIER | sample::IP | sample::TID | sample::TIME | sample::CPU | sample::CALLCHAIN;
/// Maximum locked memory per CPU for an ordinary user (`perf_event_mlock_kb`), minus the first page.
const RING_BYTES_USER: usize = 512 << 10;
const RING_BYTES_ROOT: usize = 4 << 20;
/// Waits at least this long are polled first (ns).
const LONG_WAIT_NS: u64 = 5_000_000;
/// Scheduler totals are read this often (ns).
const TOTALS_INTERVAL_NS: u64 = 50_000_000;
/// Looking into /proc may cost 1/50 = 2 % of one CPU, saved up to this (ns).
const POLL_SHARE: u64 = 50;
const POLL_CREDIT_MAX_NS: u64 = 5_000_000;
/// Attaching repeats until no thread is new, at most so often.
const ATTACH_PASSES_MAX: u32 = 5;

/// See the module.
pub struct PerfBackend {
    events: Events,
    ordered: Ordered<Pending>,
    follower: Follower,
    /// When samples of an event stopped, by event.
    throttled: BTreeMap<u64, (CpuId, Timestamp)>,
    drained: Timestamp,
    totals_due: Timestamp,
    credit_ns: u64,
    /// Some ring was more than 1/8 full at the last drain.
    pressed: bool,
    /// The only recorded process, without its children.
    only: Option<u32>,
}

/// Rings and what writes into them.
struct Events {
    rings: Vec<CpuRing>,
    /// Events that write into another event's ring. Closing them would stop them.
    redirected: Vec<OwnedFd>,
    switch_samplers: HashSet<u64>,
    sample_hz: u32,
    /// [`flag::INHERIT`], and more if it is threads only.
    inherited: u64,
    kernel_visible: bool,
    bytes: Vec<u8>,
}

struct CpuRing {
    cpu: CpuId,
    ring: Option<Ring>,
    /// The last record that was whole.
    last: Timestamp,
}

/// Items to be merged by time.
enum Pending {
    Record(Parsed),
    Poll(Poll),
    Found(Found),
    Mapping(RawMapping),
    Lost(Loss),
}

impl PerfBackend {
    /// Fails where the kernel or a filter forbids perf events, or the target is not ours.
    pub fn open(target: &Target) -> io::Result<PerfBackend> {
        let started = now();
        let mut backend = PerfBackend {
            events: Events::new(target)?,
            ordered: Ordered::default(),
            follower: Follower::default(),
            throttled: BTreeMap::new(),
            drained: started,
            totals_due: started,
            credit_ns: 0,
            pressed: false,
            only: (target.mode == Mode::Only).then_some(target.pid),
        };
        match target.mode {
            Mode::Run => {
                backend.attach_thread(target.pid, target.pid)?;
            }
            Mode::Attach | Mode::Only => backend.attach(target.pid)?,
        }
        backend.follower.switch_samplers.clone_from(&backend.events.switch_samplers);
        Ok(backend)
    }

    /// Adds every thread of `pid` and, if requested, of its descendants. Threads started by an added thread
    /// inherit its events. A fork record distinguishes them from threads that were missed between two passes.
    fn attach(&mut self, pid: u32) -> io::Result<()> {
        let mut added: HashSet<u32> = HashSet::new();
        for _ in 0..ATTACH_PASSES_MAX {
            added.extend(self.take_rings());
            let mut fresh = false;
            for tgid in self.only.map_or_else(|| procfs::process_tree(pid), |only| vec![only]) {
                for tid in procfs::threads(tgid) {
                    if added.insert(tid) {
                        fresh |= self.attach_thread(tgid, tid)?;
                    }
                }
            }
            if !fresh {
                break;
            }
        }
        if added.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { Ok(()) }
    }

    /// Returns `false` if the thread has already exited.
    fn attach_thread(&mut self, tgid: u32, tid: u32) -> io::Result<bool> {
        match self.events.add_thread(tid) {
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(false),
            other => other?,
        }
        if tid == tgid {
            for mapping in read_maps(tgid) {
                self.ordered.push(mapping.at, Pending::Mapping(mapping));
            }
        }
        let at = now();
        if let Some(found) = find_thread(tgid, tid) {
            self.ordered.push(at, Pending::Found(found));
        }
        Ok(true)
    }

    /// Moves all that the rings hold into the queue. Gives the threads whose birth was among it.
    fn take_rings(&mut self) -> Vec<u32> {
        let mut born = Vec::new();
        self.pressed = false;
        let Events { rings, bytes, .. } = &mut self.events;
        for CpuRing { cpu, ring, last } in rings {
            let Some(ring) = ring else { continue };
            let whole = ring.take(bytes);
            self.pressed |= bytes.len() > ring.capacity() / 8;
            let mut used = 0;
            for record in records::split(bytes) {
                used += record.len();
                let Some(parsed) = records::parse(record, SAMPLE_TYPE) else { continue };
                let at = Timestamp(parsed.origin.at_ns);
                match parsed.record {
                    Record::Lost(events) | Record::LostSamples(events) => {
                        let loss = loss(("perf", "ring-full"), *cpu, (*last, at), events);
                        self.ordered.push(at, Pending::Lost(loss));
                    }
                    Record::Fork(task) if self.only.is_some_and(|only| task.tgid != only) => {}
                    Record::Fork(task) => {
                        born.push(task.tid);
                        self.ordered.push(at, Pending::Record(parsed));
                    }
                    _ => self.ordered.push(at, Pending::Record(parsed)),
                }
                *last = at;
            }
            if !whole || used < bytes.len() {
                let at = now();
                self.ordered.push(at, Pending::Lost(loss(("perf", "unreadable"), *cpu, (*last, at), 0)));
            }
        }
        born
    }

    fn give(&mut self, items: Vec<(Timestamp, Pending)>, sink: &mut dyn FnMut(Event)) {
        for (at, item) in items {
            match item {
                Pending::Record(parsed) => {
                    self.throttle(&parsed, sink);
                    self.follower.record(parsed, sink);
                }
                Pending::Poll(poll) => self.follower.poll(at, poll, sink),
                Pending::Found(found) => self.follower.found(at, found, sink),
                Pending::Mapping(mapping) => self.follower.found_mapping(mapping, sink),
                Pending::Lost(loss) => {
                    self.follower.forget_states();
                    sink(Event::Loss(loss));
                }
            }
        }
    }

    /// Samples suppressed by throttling are a loss, reported when throttling ends.
    fn throttle(&mut self, parsed: &Parsed, sink: &mut dyn FnMut(Event)) {
        let origin = parsed.origin;
        match parsed.record {
            Record::Throttle => {
                let cpu = u16::try_from(origin.cpu).map_or(CpuId::NONE, CpuId);
                self.throttled.entry(origin.id).or_insert((cpu, Timestamp(origin.at_ns)));
            }
            Record::Unthrottle => {
                if let Some((cpu, start)) = self.throttled.remove(&origin.id) {
                    sink(self.throttle_loss(origin.id, cpu, (start, Timestamp(origin.at_ns))));
                }
            }
            _ => (),
        }
    }

    fn throttle_loss(&self, id: u64, cpu: CpuId, span: (Timestamp, Timestamp)) -> Event {
        let source = if self.events.switch_samplers.contains(&id) { "stacks" } else { "cpu-samples" };
        Event::Loss(loss((source, "throttled"), cpu, span, 0))
    }

    /// Polls /proc for data that the rings lack, within the budget.
    fn look(&mut self, at: Timestamp) {
        self.credit_ns = (self.credit_ns + at.since(self.drained).0 / POLL_SHARE).min(POLL_CREDIT_MAX_NS);
        let start = thread_cpu_ns();
        let spent = || thread_cpu_ns().saturating_sub(start);
        let totals = at >= self.totals_due;
        if totals {
            self.totals_due = Timestamp(at.0 + TOTALS_INTERVAL_NS);
        }
        for (since, tgid, tid) in self.follower.unpolled_waits() {
            // Half of the credit is kept for long waits.
            let reserve_ns = if at.since(since).0 >= LONG_WAIT_NS { 0 } else { POLL_CREDIT_MAX_NS / 2 };
            if spent() + reserve_ns >= self.credit_ns {
                break;
            }
            self.look_at_wait(tgid, tid);
        }
        if totals {
            for (tgid, tid) in self.follower.threads() {
                if spent() >= self.credit_ns {
                    break;
                }
                self.look_at_totals(tgid, tid);
            }
        }
        self.credit_ns = self.credit_ns.saturating_sub(spent());
    }

    fn look_at_wait(&mut self, tgid: u32, tid: u32) {
        self.follower.mark_polled(tid);
        let began = now();
        let Some(stat) = procfs::stat(tgid, tid) else { return };
        let wait = waits::read_wait(tgid, tid, stat.state);
        if wait.is_some() {
            self.ordered.push(now(), Pending::Poll(Poll { tid, began, wait, sched: None }));
        }
    }

    fn look_at_totals(&mut self, tgid: u32, tid: u32) {
        let began = now();
        let sched = procfs::schedstat(tgid, tid);
        if sched.is_some() {
            self.ordered.push(now(), Pending::Poll(Poll { tid, began, wait: None, sched }));
        }
    }
}

impl Backend for PerfBackend {
    fn drain(&mut self, sink: &mut dyn FnMut(Event)) {
        let seen = now();
        self.take_rings();
        let ripe = self.ordered.ripe(seen);
        self.give(ripe, sink);
        self.look(seen);
        self.drained = seen;
    }

    fn finish(&mut self, sink: &mut dyn FnMut(Event)) {
        self.take_rings();
        for (tgid, tid) in self.follower.threads() {
            self.look_at_totals(tgid, tid);
        }
        let rest = self.ordered.rest();
        self.give(rest, sink);
        let end = now();
        for (id, (cpu, start)) in std::mem::take(&mut self.throttled) {
            sink(self.throttle_loss(id, cpu, (start, end)));
        }
    }

    fn backend(&self) -> recording::Backend {
        recording::Backend::Perf
    }

    fn interval(&self) -> Duration {
        Duration::from_millis(if self.pressed { 1 } else { 5 })
    }

    fn missing(&self) -> String {
        if self.events.kernel_visible {
            return String::new();
        }
        "samples in the kernel and stacks of blocked threads: sysctl kernel.perf_event_paranoid=1".to_owned()
    }
}

impl Events {
    fn new(target: &Target) -> io::Result<Events> {
        let rings: Vec<CpuRing> = crate::host::online_cpus()
            .into_iter()
            .map(|cpu| CpuRing { cpu: CpuId(cpu), ring: None, last: now() })
            .collect();
        crate::host::raise_descriptor_limit();
        // What the kernel allows is asked on ourselves.
        let probe = Attr::new(perf_ring::TYPE_SOFTWARE, perf_ring::SW_CPU_CLOCK);
        let kernel_visible = perf_ring::open(&probe, 0, -1).is_ok();
        if !kernel_visible {
            perf_ring::open(&probe.with(flag::EXCLUDE_KERNEL), 0, -1)?;
        }
        let (redirected, switch_samplers) = (Vec::new(), HashSet::new());
        let inherited = match target.mode {
            Mode::Only => flag::INHERIT | flag::INHERIT_THREAD,
            Mode::Run | Mode::Attach => flag::INHERIT,
        };
        let (sample_hz, bytes) = (target.sample_hz, Vec::new());
        Ok(Events { rings, redirected, switch_samplers, sample_hz, inherited, kernel_visible, bytes })
    }

    /// Opens the events of one thread and its later children on every CPU.
    fn add_thread(&mut self, tid: u32) -> io::Result<()> {
        let main = self.main_attr();
        let at_switch = self.switch_attr();
        for index in 0..self.rings.len() {
            self.add_event(&main, tid, index)?;
            if self.kernel_visible {
                let id = self.add_event(&at_switch, tid, index)?;
                self.switch_samplers.insert(id);
            }
        }
        Ok(())
    }

    fn add_event(&mut self, attr: &Attr, tid: u32, index: usize) -> io::Result<u64> {
        let Some(target) = self.rings.get_mut(index) else { return Err(io::ErrorKind::NotFound.into()) };
        let pid = i32::try_from(tid).map_err(|_| io::ErrorKind::NotFound)?;
        let fd = perf_ring::open_build_ids(attr, pid, i32::from(target.cpu.0))?;
        let id = perf_ring::event_id(&fd)?;
        match &target.ring {
            Some(ring) => {
                perf_ring::redirect(&fd, ring)?;
                self.redirected.push(fd);
            }
            None => target.ring = Some(Ring::map(fd, ring_bytes())?),
        }
        Ok(id)
    }

    /// The event that samples the CPU and reports mappings, names, forks and switches.
    fn main_attr(&self) -> Attr {
        let mut attr = Attr::new(perf_ring::TYPE_SOFTWARE, perf_ring::SW_DUMMY);
        if let Some(period_ns) = 1_000_000_000u64.checked_div(u64::from(self.sample_hz)) {
            attr.config = perf_ring::SW_CPU_CLOCK;
            attr.sample_period = period_ns;
        }
        let kernel = if self.kernel_visible { 0 } else { flag::EXCLUDE_KERNEL };
        attr.carrying(SAMPLE_TYPE).with(
            kernel
                | self.inherited
                | flag::SAMPLE_ID_ALL
                | flag::EXCLUDE_CALLCHAIN_KERNEL
                | flag::CONTEXT_SWITCH
                | flag::MMAP
                | flag::MMAP2
                | flag::COMM
                | flag::COMM_EXEC
                | flag::TASK,
        )
    }

    /// The event that takes a stack when the thread leaves its CPU. Its sample precedes the switch record.
    fn switch_attr(&self) -> Attr {
        let mut attr = Attr::new(perf_ring::TYPE_SOFTWARE, perf_ring::SW_CONTEXT_SWITCHES);
        attr.sample_period = 1;
        attr.carrying(SAMPLE_TYPE).with(self.inherited | flag::SAMPLE_ID_ALL | flag::EXCLUDE_CALLCHAIN_KERNEL)
    }
}

fn ring_bytes() -> usize {
    // SAFETY: asks for a number.
    if unsafe { libc::geteuid() } == 0 { RING_BYTES_ROOT } else { RING_BYTES_USER }
}

fn find_thread(tgid: u32, tid: u32) -> Option<Found> {
    let stat = procfs::stat(tgid, tid)?;
    let state = match stat.state {
        // Running and runnable are not distinguished. The next switch shows it.
        b'R' => SnapshotState::Running(CpuId(stat.cpu)),
        letter => match waits::read_wait(tgid, tid, letter) {
            Some(wait) => SnapshotState::Blocked(Box::new(wait)),
            None => SnapshotState::Runnable,
        },
    };
    let sched = procfs::schedstat(tgid, tid);
    Some(Found { tgid, parent_tgid: stat.parent_tgid, tid, name: stat.name, state, sched })
}

fn loss(
    (source, reason): (&str, &str),
    cpu: CpuId,
    (start, end): (Timestamp, Timestamp),
    events: u64,
) -> Loss {
    Loss { source: source.to_owned(), reason: reason.to_owned(), cpu, start, end, events }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use holdup_events::event::{LifecycleChange, TID_UNKNOWN};

    use super::*;

    /// The events of a shell that waits for a line and then starts a program.
    fn events_of_a_shell(
        open: impl Fn(&Target) -> io::Result<Box<dyn Backend>>,
    ) -> Option<(u32, Vec<Event>)> {
        let mut shell = Command::new("/bin/sh")
            .args(["-c", "read line; /bin/sh -c : ; exit 0"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let target = Target { pid: shell.id(), mode: Mode::Attach, sample_hz: 499 };
        let backend = open(&target);
        let line = shell.stdin.take().unwrap().write_all(b"go\n");
        let mut backend = match backend {
            Ok(backend) => backend,
            Err(error) => {
                println!("skipped: {error}");
                shell.wait().unwrap();
                return None;
            }
        };
        line.unwrap();
        let mut events = Vec::new();
        while shell.try_wait().unwrap().is_none() {
            backend.drain(&mut |event| events.push(event));
        }
        backend.finish(&mut |event| events.push(event));
        Some((shell.id(), events))
    }

    #[test]
    fn an_attached_shell_and_its_child_are_followed() {
        let Some((shell, events)) = events_of_a_shell(|target| Ok(Box::new(PerfBackend::open(target)?)))
        else {
            return;
        };
        assert!(events.windows(2).all(|pair| pair[0].at() <= pair[1].at()), "in time order");
        let arrivals =
            events.iter().filter(|event| matches!(event, Event::Switch(switch) if switch.next_tid == shell));
        assert!(arrivals.count() >= 1);
        let known = |event: &Event| !matches!(event, Event::Switch(switch) if switch.next_tid != TID_UNKNOWN && switch.prev_tid != TID_UNKNOWN);
        assert!(events.iter().all(known), "each switch tells one side");
        let changes = |wanted: fn(&LifecycleChange) -> bool| {
            events
                .iter()
                .filter(|event| matches!(event, Event::Lifecycle(change) if wanted(&change.change)))
                .count()
        };
        assert_eq!(changes(|change| matches!(change, LifecycleChange::Fork { .. })), 1);
        assert_eq!(changes(|change| matches!(change, LifecycleChange::Exec { .. })), 1);
        assert_eq!(changes(|change| matches!(change, LifecycleChange::Exit)), 2);
        assert!(events.iter().any(|event| matches!(event, Event::Mapping(_))));
        assert!(!events.iter().any(|event| matches!(event, Event::Loss(_))));
    }
}
