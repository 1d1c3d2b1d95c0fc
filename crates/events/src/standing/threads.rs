//! What each thread does, folded from switches, wakeups, births and deaths.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use crate::event::{
    Affinity, Lifecycle, LifecycleChange, Outcome, RawWait, Snapshot, SnapshotState, Switch, TID_UNKNOWN,
    Waking,
};
use crate::{CpuId, Event, Loss, Timestamp};

/// State of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Doing {
    /// Unknown or not recorded.
    #[default]
    Unknown,
    /// Running on this CPU.
    Running(CpuId),
    /// Waiting for a CPU.
    Runnable,
    /// Blocked. [`StandingThread::wait`] describes the wait.
    Blocked,
    /// Exited.
    Dead,
}

/// One thread.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StandingThread {
    /// Process id (tgid), 0 if unknown.
    pub tgid: u32,
    /// Parent process (tgid), 0 if unknown.
    pub parent_tgid: u32,
    /// Thread name.
    pub name: Arc<str>,
    /// The thread belongs to the traced program.
    pub target: bool,
    /// Current state.
    pub doing: Doing,
    /// Since when.
    pub since: Timestamp,
    /// When the thread last left a CPU, 0 if unknown.
    pub off_since: Timestamp,
    /// The current or last wait.
    pub wait: RawWait,
    /// As in [`Switch::exec_ns`], at its last switch.
    pub exec_ns: Option<u64>,
    /// As in [`Switch::queue_ns`], at its last switch.
    pub queue_ns: Option<u64>,
    /// Number of CPUs on which the thread may run, 0 if unknown.
    pub cpus: u32,
}

/// One multiplication spreads thread ids well enough. Each switch looks up two of them.
#[derive(Clone, Copy, Default)]
struct TidHasher(u64);

impl Hasher for TidHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u32(&mut self, number: u32) {
        let mixed = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

/// Threads by their kernel's number.
#[derive(Clone, Debug, Default)]
pub struct Threads {
    by_tid: HashMap<u32, StandingThread, BuildHasherDefault<TidHasher>>,
}

impl StandingThread {
    /// Updates the state, unless a later one is known. Returns whether it was updated.
    fn become_at(&mut self, at: Timestamp, doing: Doing) -> bool {
        let is_news = at >= self.since;
        if is_news {
            (self.doing, self.since) = (doing, at);
        }
        is_news
    }

    fn rename(&mut self, name: &str) {
        if *self.name != *name {
            self.name = name.into();
        }
    }
}

impl Threads {
    /// State of a thread.
    pub fn get(&self, tid: u32) -> Option<&StandingThread> {
        self.by_tid.get(&tid)
    }

    /// Every one, in no order that means anything.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &StandingThread)> {
        self.by_tid.iter().map(|(tid, thread)| (*tid, thread))
    }

    /// Processes with a living thread.
    pub fn processes(&self) -> BTreeSet<u32> {
        self.by_tid.values().map(|thread| thread.tgid).collect()
    }

    pub(super) fn switch(&mut self, switch: &Switch) {
        let Switch { at, cpu, prev_tid, next_tid, prev_tgid, ref outcome, exec_ns, queue_ns, .. } = *switch;
        if prev_tid != 0 && prev_tid != TID_UNKNOWN {
            let prev = self.by_tid.entry(prev_tid).or_default();
            prev.tgid = if prev_tgid != 0 { prev_tgid } else { prev.tgid };
            let doing = match outcome {
                Outcome::Untracked => Doing::Unknown,
                Outcome::Preempted | Outcome::Yielded | Outcome::Throttled => Doing::Runnable,
                Outcome::Blocked(_) => Doing::Blocked,
                Outcome::Dead => Doing::Dead,
            };
            if at >= prev.off_since {
                prev.off_since = at;
                prev.exec_ns = exec_ns.or(prev.exec_ns);
                prev.queue_ns = queue_ns.or(prev.queue_ns);
            }
            prev.target |= !matches!(outcome, Outcome::Untracked | Outcome::Dead);
            if prev.become_at(at, doing)
                && let Outcome::Blocked(wait) = outcome
            {
                prev.wait.clone_from(wait);
            }
        }
        if next_tid != 0 && next_tid != TID_UNKNOWN {
            self.by_tid.entry(next_tid).or_default().become_at(at, Doing::Running(cpu));
        }
    }

    pub(super) fn waking(&mut self, waking: &Waking) {
        if let Some(wakee) = self.by_tid.get_mut(&waking.wakee_tid)
            && wakee.doing == Doing::Blocked
        {
            wakee.become_at(waking.at, Doing::Runnable);
        }
    }

    pub(super) fn lifecycle(&mut self, change: &Lifecycle) {
        let Lifecycle { at, change: what, tid, tgid, ref name, target } = *change;
        if let LifecycleChange::Fork { parent_tid } = what {
            let parent = self.by_tid.get(&parent_tid).map_or(0, |parent| parent.tgid);
            let before = self.by_tid.remove(&tid);
            // State since after the fork belongs to this thread. Earlier state belongs to a previous thread
            // with the same tid.
            let began = before.filter(|before| before.since >= at);
            let counters = began.is_none().then_some(0);
            let thread = self.by_tid.entry(tid).or_insert_with(|| began.unwrap_or_default());
            thread.parent_tgid = if parent == tgid { 0 } else { parent };
            (thread.exec_ns, thread.queue_ns) = (thread.exec_ns.or(counters), thread.queue_ns.or(counters));
            if target {
                thread.become_at(at, Doing::Runnable);
            }
        }
        if what == LifecycleChange::Exit && !self.by_tid.contains_key(&tid) {
            return;
        }
        let thread = self.by_tid.entry(tid).or_default();
        thread.tgid = tgid;
        thread.target |= target;
        if what != LifecycleChange::Exit {
            thread.rename(name);
        }
    }

    pub(super) fn snapshot(&mut self, snapshot: &Snapshot) {
        let at = snapshot.at;
        let thread = self.by_tid.entry(snapshot.tid).or_default();
        thread.tgid = snapshot.tgid;
        thread.parent_tgid = snapshot.parent_tgid;
        thread.rename(&snapshot.name);
        thread.target |= snapshot.target;
        // For a known thread, the state from its last event is more precise than the snapshot.
        if thread.doing != Doing::Unknown && snapshot.state != SnapshotState::Dead {
            return;
        }
        let doing = match &snapshot.state {
            SnapshotState::Running(cpu) => Doing::Running(*cpu),
            SnapshotState::Runnable => Doing::Runnable,
            SnapshotState::Blocked(_) => Doing::Blocked,
            SnapshotState::Dead => Doing::Dead,
            SnapshotState::Untracked => Doing::Unknown,
        };
        if thread.become_at(at, doing)
            && let SnapshotState::Blocked(wait) = &snapshot.state
        {
            thread.wait.clone_from(wait);
        }
        thread.exec_ns = snapshot.exec_ns;
        thread.queue_ns = snapshot.queue_ns;
    }

    pub(super) fn affinity(&mut self, affinity: &Affinity) {
        self.by_tid.entry(affinity.tid).or_default().cpus = affinity.cpus;
    }

    /// Events of a CPU are missing: what the threads that they may concern do since is not known.
    pub(super) fn doubt(&mut self, loss: &Loss) {
        if !matches!(loss.source.as_str(), "sched" | "journal" | "perf") {
            return;
        }
        for thread in self.by_tid.values_mut().filter(|thread| thread.target) {
            let concerned = match thread.doing {
                Doing::Running(cpu) => loss.cpu == CpuId::NONE || cpu == loss.cpu,
                Doing::Runnable | Doing::Blocked => true,
                Doing::Unknown | Doing::Dead => false,
            };
            if concerned && thread.become_at(loss.end, Doing::Unknown) {
                (thread.exec_ns, thread.queue_ns, thread.off_since) = (None, None, Timestamp(0));
            }
        }
    }

    /// Forgets threads that died before `before`. Returns their tids.
    pub(super) fn forget_dead(&mut self, before: Timestamp) -> BTreeSet<u32> {
        let mut forgotten = BTreeSet::new();
        self.by_tid.retain(|tid, thread| {
            let is_kept = thread.doing != Doing::Dead || thread.since >= before;
            if !is_kept {
                forgotten.insert(*tid);
            }
            is_kept
        });
        forgotten
    }

    /// Passes on one snapshot for each that lives.
    pub(super) fn emit(&self, at: Timestamp, sink: &mut dyn FnMut(Event)) {
        let mut living: Vec<(u32, &StandingThread)> =
            self.iter().filter(|(_, thread)| thread.doing != Doing::Dead).collect();
        living.sort_by_key(|(tid, _)| *tid);
        for (tid, thread) in living {
            let state = match thread.doing {
                Doing::Running(cpu) => SnapshotState::Running(cpu),
                Doing::Runnable if thread.target => SnapshotState::Runnable,
                Doing::Blocked => SnapshotState::Blocked(Box::new(thread.wait.clone())),
                Doing::Dead => SnapshotState::Dead,
                Doing::Unknown | Doing::Runnable => SnapshotState::Untracked,
            };
            sink(Event::Snapshot(Snapshot {
                at,
                tid,
                tgid: thread.tgid,
                parent_tgid: thread.parent_tgid,
                name: thread.name.to_string(),
                target: thread.target,
                state,
                exec_ns: thread.exec_ns,
                queue_ns: thread.queue_ns,
            }));
            if thread.cpus > 0 {
                sink(Event::Affinity(Affinity { at, tid, cpus: thread.cpus }));
            }
        }
    }
}
