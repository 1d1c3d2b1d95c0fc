//! The state machine of one thread.
//!
//! `open` is the row of the current state. It is passed on when the next state begins, because it can be
//! refined until then. While the thread runs, `before` is its previous row, for the row "waits for a CPU" in
//! between (see the parent module).

use holdup_events::event::{Outcome, Snapshot, SnapshotState, Switch};
use holdup_events::tables::{Deadline, SliceRow, Steal, TableSink, ThreadState};
use holdup_events::{CpuId, Duration, StackId, ThreadId, Timestamp, WaitId};

/// Wall time beyond accounted time below this is the jitter of reading two clocks.
const STEAL_NOISE: Duration = Duration(20_000);
/// ... and so is less than this share of the slice (1/100).
const STEAL_NOISE_SHARE: u64 = 100;

/// Maximum delay of a switch after the kernel's clock update. Interrupt handlers run between the wakeup and
/// the switch that it causes. A longer delay counts as steal time.
const CLOCK_BEHIND_MAX: Duration = Duration(300_000);

/// Bound on the drift between a run queue's clock and the events' clock, as a share of time (1/10,000). The
/// kernel slews its clock by at most 500 ppm while it is being set, and by about 10 ppm otherwise.
const CLOCK_DRIFT_SHARE: u64 = 10_000;

/// Two switches differ by no more in how long after the clock was read they are seen, but where the later one is late.
const SWITCH_AHEAD_MAX: Duration = Duration(1_000);

/// Maximum time to leave idle. It is usually some microseconds, but a halted virtual CPU may have to wait for
/// its turn on the host.
const IDLE_EXIT_MAX: Duration = Duration(10_000_000);

/// End of a doubt that lasts until the thread's next record.
pub(super) const UNTIL_TOLD: Timestamp = Timestamp(u64::MAX);

/// A wait: interned, with its stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waited {
    /// For what.
    pub wait: WaitId,
    /// With which stack.
    pub stack: StackId,
    /// See [`SliceRow::stack_every`].
    pub every: u16,
}

/// Current state of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Now {
    /// On a CPU. `seen`: its arrival was an event, not a guess.
    Running {
        /// Where.
        cpu: CpuId,
        /// The switch to the thread was recorded.
        seen: bool,
    },
    /// Off CPU: waits for a CPU, is blocked, or is not followed.
    Off,
    /// Dead.
    Gone,
}

/// One living thread.
#[derive(Debug)]
pub struct Live {
    /// The thread's row.
    pub id: ThreadId,
    /// The thread's states are recorded.
    pub target: bool,
    /// Current state.
    pub now: Now,
    pub(super) open: SliceRow,
    before: Option<SliceRow>,
    woken_at: Option<Timestamp>,
    /// Since when its CPU had been idle when it arrived there.
    idle_since: Option<Timestamp>,
    /// Counters at the last switch-out or, for a newborn, zero.
    pub(super) exec_ns: Option<u64>,
    pub(super) queue_ns: Option<u64>,
    /// Events that concern it may be missing in this time.
    pub(super) doubt: Option<(Timestamp, Timestamp)>,
    pub(super) polled_at: Option<Timestamp>,
    /// Waiting for a CPU that polls have shown, and the kernel's counter not yet.
    pub(super) queued_ahead: Duration,
    /// Wall time of its last run that the kernel accounted neither to it nor, as far as is known, to its wait for a CPU.
    unaccounted: Unaccounted,
    /// The thread has not run yet.
    newborn: bool,
    /// When the kernel put the new thread on a run queue, from its counter.
    pub(super) let_go_at: Option<Timestamp>,
    /// Timeout of the last wait. Emitted with its slice, which may turn out to have no length.
    due: Option<Timestamp>,
}

/// Wall time of a run that the kernel did not account: steal time, or the start of the following wait.
#[derive(Clone, Copy, Debug, Default)]
struct Unaccounted {
    /// Beginning of the run.
    start: Timestamp,
    /// All of the run's wall time.
    wall: Duration,
    /// The part that was not accounted.
    left: Duration,
}

impl Unaccounted {
    /// Attributes up to `most` of it to waiting for a CPU. Returns the attributed time.
    fn give(&mut self, most: Duration) -> Duration {
        let given = most.min(self.left);
        self.left = self.left.saturating_sub(given);
        self.wall = self.wall.saturating_sub(given);
        given
    }

    /// The remaining time is steal time, if it exceeds the jitter between the two clocks.
    fn stolen(self, thread: ThreadId) -> Option<Steal> {
        let is_jitter = self.left <= STEAL_NOISE || self.left.0 <= self.wall.0 / STEAL_NOISE_SHARE;
        (!is_jitter).then_some(Steal { thread, slice_start: self.start, stolen: self.left })
    }
}

impl Live {
    /// A thread whose life in the recording begins at `at`, in a state not yet known.
    pub fn new(id: ThreadId, at: Timestamp) -> Live {
        let open = SliceRow {
            thread: id,
            start: at,
            state: ThreadState::Untracked,
            cpu: CpuId::NONE,
            ..SliceRow::default()
        };
        Live {
            id,
            target: false,
            now: Now::Off,
            open,
            before: None,
            woken_at: None,
            idle_since: None,
            exec_ns: None,
            queue_ns: None,
            doubt: None,
            polled_at: None,
            queued_ahead: Duration::ZERO,
            unaccounted: Unaccounted::default(),
            newborn: false,
            let_go_at: None,
            due: None,
        }
    }

    /// Just forked: waits for its first CPU, all counters zero.
    pub fn be_newborn(&mut self, at: Timestamp, target: bool) {
        self.exec_ns = Some(0);
        self.queue_ns = Some(0);
        self.polled_at = Some(at);
        self.newborn = true;
        if target {
            self.open.state = ThreadState::Runnable;
        }
    }

    /// The first record of the thread is a snapshot: its state began before the recording.
    pub fn be_found(&mut self, snapshot: &Snapshot, waited: Waited) {
        self.exec_ns = snapshot.exec_ns;
        self.queue_ns = snapshot.queue_ns;
        match snapshot.state {
            SnapshotState::Running(cpu) if snapshot.target || cpu != CpuId::NONE => {
                self.now = Now::Running { cpu, seen: false };
                self.open.state = ThreadState::Running;
                self.open.cpu = cpu;
            }
            SnapshotState::Runnable => self.open.state = ThreadState::Runnable,
            SnapshotState::Blocked(_) => self.block(waited),
            _ => {}
        }
    }

    /// A further snapshot of a known thread: sets an unknown wait. Counters make pending rows exact.
    pub fn refine(&mut self, snapshot: &Snapshot, waited: Waited, sink: &mut dyn TableSink) {
        match snapshot.state {
            SnapshotState::Blocked(_)
                if self.open.state == ThreadState::Blocked && self.open.wait == WaitId::NONE =>
            {
                self.open.wait = waited.wait;
            }
            SnapshotState::Blocked(_) if self.open.state == ThreadState::Untracked && self.target => {
                self.block(waited)
            }
            SnapshotState::Running(_) if matches!(self.now, Now::Running { .. }) && !self.newborn => {
                self.settle_before(snapshot.queue_ns, sink);
            }
            _ => {}
        }
    }

    fn block(&mut self, waited: Waited) {
        self.open.state = ThreadState::Blocked;
        self.open.wait = waited.wait;
        self.open.stack = waited.stack;
        self.open.stack_every = waited.every;
    }

    /// The thread was made runnable. Only the last wakeup before it runs counts.
    pub fn woken(&mut self, at: Timestamp) {
        if self.now == Now::Off {
            self.woken_at = Some(at);
        }
    }

    /// The thread begins to run on `cpu`.
    pub fn arrive(&mut self, cpu: CpuId, at: Timestamp, sink: &mut dyn TableSink) {
        let at = at.max(self.open.start);
        if self.open.state.waits_for_cpu() {
            self.open.cpu = cpu;
        }
        let before = self.open;
        if !self.is_begun_by_counter(&before) {
            self.pass_on(sink);
        }
        self.before = Some(before);
        self.open = self.row(ThreadState::Running, at);
        self.open.cpu = cpu;
        self.now = Now::Running { cpu, seen: true };
    }

    /// When the thread left its CPU according to the kernel, if `switch` is its switch away.
    ///
    /// The kernel uses its run queue's clock, which is read some hundred nanoseconds before the tracepoint. A
    /// preempting wakeup reads it at the wakeup, and the switch does not read it again
    /// (`rq_clock_skip_update` in kernel/sched/core.c). With this time, running and run-queue times equal
    /// those of `schedstat`. Only durations are known by that clock, so consecutive runs on a CPU depend on
    /// each other.
    pub fn left_at(&self, switch: &Switch) -> Timestamp {
        let Now::Running { cpu, seen: true } = self.now else { return switch.at };
        if cpu != switch.cpu || self.doubt.is_some() {
            return switch.at;
        }
        match (switch.clock_ran_ns, switch.exec_ns, self.exec_ns) {
            (Some(ran), ..) => self.left_after(Duration(ran.get()), switch.at),
            (None, Some(now), Some(before)) => self.left_when_accounted(now.saturating_sub(before), switch),
            _ => switch.at,
        }
    }

    fn left_after(&self, ran: Duration, seen: Timestamp) -> Timestamp {
        let left = Timestamp(self.open.start.0.saturating_add(ran.0));
        // The two clocks do not go at quite the same rate.
        let drift = Duration(ran.0 / CLOCK_DRIFT_SHARE);
        if left <= seen {
            return (left + drift).min(seen);
        }
        // It arrived in sight when it had long run: it came out of idle.
        let is_ahead = left.since(seen) <= SWITCH_AHEAD_MAX;
        if is_ahead { (left - drift).max(seen) } else { seen }
    }

    /// Without that clock, the accounted CPU time replaces the run time. Time taken by interrupt handlers and
    /// the hypervisor then counts as waiting.
    fn left_when_accounted(&self, accounted_ns: u64, switch: &Switch) -> Timestamp {
        let behind = switch.at.since(self.open.start).saturating_sub(Duration(accounted_ns));
        let is_preempted = matches!(switch.outcome, Outcome::Preempted | Outcome::Yielded);
        if is_preempted && behind <= CLOCK_BEHIND_MAX { switch.at - behind } else { switch.at }
    }

    /// Whether the start of `row` is still open when the thread arrives. The thread lost its CPU while
    /// runnable, or was just forked. The kernel's counter will give the start of its wait.
    fn is_begun_by_counter(&self, row: &SliceRow) -> bool {
        let by_counter = match row.state {
            ThreadState::Preempted | ThreadState::Yielded => true,
            ThreadState::Runnable => self.newborn,
            _ => false,
        };
        by_counter && self.queue_ns.is_some()
    }

    /// The thread arrived on a CPU that was idle since `idle`.
    pub fn found_cpu_idle(&mut self, idle: Option<Timestamp>) {
        self.idle_since = idle;
    }

    /// A thread that wakes an idle CPU runs, according to the kernel, from the time it was put on the run
    /// queue. The switch does not update the clock again, so leaving idle (some microseconds) counts as run
    /// time. With this start, running times equal those of `schedstat`.
    fn begin_at_the_kernels_moment(&mut self, at: Timestamp, ran: Option<Duration>) {
        let (Some(ran), Some(idle_since)) = (ran, self.idle_since.take()) else { return };
        if !matches!(self.now, Now::Running { seen: true, .. }) {
            return;
        }
        let ahead = ran.saturating_sub(at.since(self.open.start));
        let Some(before) = self.before.filter(|_| ahead <= IDLE_EXIT_MAX) else { return };
        self.open.start = (self.open.start - ahead).max(before.start).max(idle_since).min(self.open.start);
    }

    /// When the thread began to run, from its counters, if its arrival was not recorded. Some machines run no
    /// tracing in the context of certain processes, so switches away from these are not seen.
    ///
    /// The thread left at `open.start`, and leaves again now. In between, it ran for Δexec according to the
    /// kernel. If no event is known to be missing, that was one run up to now. If the thread waited for a CPU
    /// before, Δqueue must agree.
    pub fn hidden_arrival(
        &self,
        switch: &Switch,
        at: Timestamp,
        cpu_seen_before: Option<Timestamp>,
    ) -> Option<Timestamp> {
        if self.now != Now::Off
            || !self.target
            || self.doubt.is_some()
            || self.open.state == ThreadState::Untracked
        {
            return None;
        }
        let ran = Duration(switch.exec_ns?.checked_sub(self.exec_ns?)?);
        let queued = Duration(switch.queue_ns?.checked_sub(self.queue_ns?)?);
        let slack = Duration(STEAL_NOISE.0 + at.since(self.open.start).0 / STEAL_NOISE_SHARE);
        let arrived = at - ran;
        let earliest = self.open.start.max(cpu_seen_before?);
        if arrived + slack < earliest {
            return None;
        }
        let arrived = arrived.max(earliest);
        let waited = arrived.since(self.open.start);
        // A wait that the counter begins may have begun earlier than was seen.
        let earlier =
            if self.is_begun_by_counter(&self.open) { self.unaccounted.left } else { Duration::ZERO };
        let agrees = waited <= queued + slack && queued <= waited + slack + earlier;
        if agrees || !self.open.state.waits_for_cpu() {
            return Some(arrived);
        }
        // The thread left no CPU in between, because that is always recorded in its own context. Time that
        // the kernel accounted neither to the thread nor to its wait is therefore steal time. Steal time is
        // limited to the run.
        let stolen = waited.saturating_sub(queued);
        (waited > queued && stolen <= ran).then(|| (self.open.start + queued).max(earliest))
    }

    /// The thread leaves `cpu`, so it ran there, but its arrival was not recorded. If this is the first event
    /// of the CPU, the thread ran since the start. Otherwise the start is unknown.
    pub fn arrive_unseen(&mut self, cpu: CpuId, first_on_cpu: bool, at: Timestamp, sink: &mut dyn TableSink) {
        match self.now {
            Now::Running { cpu: CpuId::NONE, .. } if !first_on_cpu => {}
            Now::Running { cpu: CpuId::NONE, .. } => {
                self.open.cpu = cpu;
                self.now = Now::Running { cpu, seen: false };
            }
            Now::Running { cpu: believed, .. } if believed == cpu => {}
            Now::Running { .. } => self.vanish(at, sink),
            _ if self.open.state == ThreadState::Untracked && self.target && first_on_cpu => {
                // The first that we see of it: it has run since its life in the recording began.
                self.open.state = ThreadState::Running;
                self.open.cpu = cpu;
                self.now = Now::Running { cpu, seen: false };
            }
            _ if self.target => {
                let from = self.doubt.map_or(self.open.start, |(from, _)| from).max(self.open.start);
                self.turn_into(ThreadState::Unknown, from, sink);
            }
            _ => {}
        }
    }

    /// The thread is not running any more, but its departure was not recorded.
    pub fn vanish(&mut self, at: Timestamp, sink: &mut dyn TableSink) {
        self.settle_before(None, sink);
        let from = self.doubt.map_or(at, |(from, _)| from.min(at)).max(self.open.start);
        let state = if self.target { ThreadState::Unknown } else { ThreadState::Untracked };
        self.turn_into(state, from, sink);
        self.now = Now::Off;
        self.exec_ns = None;
        self.queue_ns = None;
    }

    /// The thread stops running at `at`. Its running row is complete, and the row before becomes exact.
    pub fn leave(&mut self, at: Timestamp, switch: &Switch, sink: &mut dyn TableSink) {
        let Switch { exec_ns, queue_ns, clock_ran_ns, .. } = *switch;
        let ran = match (exec_ns, self.exec_ns) {
            (Some(now), Some(before)) => Some(Duration(now.saturating_sub(before))),
            _ => None,
        };
        self.settle_doubt(at, ran, sink);
        self.begin_at_the_kernels_moment(at, clock_ran_ns.map(|ran| Duration(ran.get())).or(ran));
        self.settle_before(queue_ns, sink);
        if let (Now::Running { seen: true, .. }, Some(ran)) = (self.now, ran) {
            let wall = at.since(self.open.start);
            let left = wall.saturating_sub(ran);
            self.unaccounted = Unaccounted { start: self.open.start, wall, left };
        }
        self.pass_on(sink);
        self.open = self.row(ThreadState::Unknown, at);
        self.exec_ns = exec_ns;
        self.queue_ns = queue_ns;
        self.woken_at = None;
        self.doubt = None;
        self.newborn = false;
        self.now = Now::Off;
    }

    /// Sets the state after [`Live::leave`].
    pub fn become_after(
        &mut self,
        outcome: &Outcome,
        waited: Waited,
        at: Timestamp,
        sink: &mut dyn TableSink,
    ) {
        self.open.start = self.open.start.max(at);
        match outcome {
            Outcome::Untracked if self.target => self.open.state = ThreadState::Unknown,
            Outcome::Untracked => self.open.state = ThreadState::Untracked,
            Outcome::Preempted => self.open.state = ThreadState::Preempted,
            Outcome::Yielded => self.open.state = ThreadState::Yielded,
            Outcome::Throttled => self.open.state = ThreadState::Throttled,
            Outcome::Blocked(_) => self.block(waited),
            Outcome::Dead => self.now = Now::Gone,
        }
        if !self.is_begun_by_counter(&self.open) {
            self.settle_steal(sink);
        }
    }

    /// After [`Live::become_after`]: when the wait that has just begun is over by itself. One that began before the recording
    /// did is counted from where it began.
    pub fn note_deadline(&mut self, switch: &Switch) {
        let began = self.open.start.min(switch.at);
        self.due = match &switch.outcome {
            Outcome::Blocked(wait) => wait.timeout.due(began),
            _ => None,
        };
    }

    /// `row` is a slice of some length.
    fn emit_deadline(&mut self, row: &SliceRow, sink: &mut dyn TableSink) {
        if let Some(due) = self.due.take()
            && row.state == ThreadState::Blocked
        {
            sink.deadline(Deadline { thread: self.id, slice_start: row.start, due });
        }
    }

    /// The recording ends: passes on the known rows.
    pub fn close(&mut self, end: Timestamp, sink: &mut dyn TableSink) {
        // Events are missing up to the end, so the last known state may have changed.
        let mut lost = self.doubt.filter(|(from, to)| self.target && *from < end && *to >= end);
        let has_arrived = matches!(self.now, Now::Running { seen: true, .. });
        if has_arrived && lost.is_some_and(|(from, to)| to == UNTIL_TOLD && from < self.open.start) {
            // The thread was seen again: its current state is known, but its state in the gap is not.
            self.settle_doubt(end, None, sink);
            lost = None;
        }
        self.settle_before(None, sink);
        let woken = self.woken_at.filter(|at| self.open.state == ThreadState::Blocked && *at < end);
        let lost_from =
            lost.map(|(from, to)| if to == UNTIL_TOLD { from } else { from.max(woken.unwrap_or(from)) });
        let turns = [(woken, ThreadState::Runnable), (lost_from, ThreadState::Unknown)];
        let mut turns: Vec<_> = turns.iter().filter_map(|(at, state)| Some(((*at)?, *state))).collect();
        turns.sort_by_key(|(at, _)| *at);
        for (at, state) in turns {
            self.turn_into(state, at.max(self.open.start), sink);
        }
        if self.open.start < end {
            self.pass_on(sink);
            let open = self.open;
            self.emit_deadline(&open, sink);
        }
        self.now = Now::Gone;
    }

    /// Writes the rows between `before` and the open running row.
    ///
    /// A thread was put on a run queue `Δqueue` before it ran, by the kernel's `sched_info.run_delay`.
    /// Without that counter, the wakeup is used, which is slightly too early (IPI).
    fn settle_before(&mut self, queue_ns: Option<u64>, sink: &mut dyn TableSink) {
        let before = self.before.take();
        match before {
            Some(row) if self.is_begun_by_counter(&row) && self.newborn => {
                self.settle_newborn(row, queue_ns, sink)
            }
            Some(row) if self.is_begun_by_counter(&row) => self.settle_preempted(row, queue_ns, sink),
            Some(row) if row.state == ThreadState::Blocked => self.settle_woken(row, queue_ns, sink),
            _ => {}
        }
        self.settle_steal(sink);
    }

    /// Interrupt handlers may run for long between the preempting wakeup and the switch. The kernel counts
    /// that time as waiting, never as running. See [`Live::preempted_before`].
    fn settle_preempted(&mut self, row: SliceRow, queue_ns: Option<u64>, sink: &mut dyn TableSink) {
        let mut start = row.start;
        if let (Some(now), Some(before)) = (queue_ns, self.queue_ns) {
            let queued = Duration(now.saturating_sub(before));
            start = start - self.unaccounted.give(queued.saturating_sub(self.open.start.since(row.start)));
        }
        sink.slice(SliceRow { start, ..row });
    }

    /// Between the fork and the enqueueing of the new thread, the parent works (`kernel_clone` in
    /// kernel/fork.c). The thread's life begins after that.
    fn settle_newborn(&mut self, row: SliceRow, queue_ns: Option<u64>, sink: &mut dyn TableSink) {
        self.newborn = false;
        let mut start = row.start;
        if let (Some(now), Some(before)) = (queue_ns, self.queue_ns) {
            let queued = Duration(now.saturating_sub(before));
            start = (self.open.start - queued).clamp(row.start, self.open.start.max(row.start));
            self.let_go_at = Some(start);
        }
        if start < self.open.start {
            sink.slice(SliceRow { start, ..row });
        }
    }

    fn settle_woken(&mut self, before: SliceRow, queue_ns: Option<u64>, sink: &mut dyn TableSink) {
        let arrived = self.open.start;
        let queued = match (queue_ns, self.queue_ns) {
            (Some(now), Some(before)) => arrived - Duration(now.saturating_sub(before)),
            _ => self.woken_at.unwrap_or(arrived),
        };
        // The kernel's account of the run may have it begin before the wakeup was seen.
        let queued = queued.max(before.start).min(arrived);
        if before.start < queued {
            self.emit_deadline(&before, sink);
        }
        if queued < arrived {
            let row = SliceRow { start: queued, ..self.row(ThreadState::Runnable, queued) };
            sink.slice(SliceRow { cpu: self.open.cpu, ..row });
        }
        self.woken_at = None;
        if queue_ns.is_some() {
            self.queue_ns = queue_ns;
        }
    }

    /// Stolen: the wall time of the last run that the kernel did not account to the thread.
    fn settle_steal(&mut self, sink: &mut dyn TableSink) {
        if let Some(steal) = std::mem::take(&mut self.unaccounted).stolen(self.id) {
            sink.steal(steal);
        }
    }

    fn settle_doubt(&mut self, at: Timestamp, ran: Option<Duration>, sink: &mut dyn TableSink) {
        let Some((from, _)) = self.doubt.take() else { return };
        let Now::Running { seen: true, .. } = self.now else { return };
        let wall = at.since(self.open.start);
        if from >= self.open.start {
            // It was on its CPU when events went missing. If it was accounted all the time, it never left.
            let slack = STEAL_NOISE.0.max(wall.0 / STEAL_NOISE_SHARE);
            let never_left = ran.is_some_and(|ran| wall.0.abs_diff(ran.0) <= slack);
            if !never_left {
                self.settle_before(None, sink);
                self.turn_into(ThreadState::Unknown, from, sink);
                self.now = Now::Off;
            }
        } else if ran.is_none_or(|ran| ran.0.saturating_sub(STEAL_NOISE.0) > wall.0) {
            // The thread ran unrecorded: its states in the gap and up to this arrival are unknown.
            let certain = self.before.map_or(self.open.start, |before| before.start);
            self.before = self.before.filter(|row| self.is_begun_by_counter(row));
            self.settle_before(None, sink);
            let from = from.max(certain).min(self.open.start);
            sink.slice(SliceRow { start: from, ..self.row(ThreadState::Unknown, from) });
        }
    }

    /// Changes the state at `at`. The open row is passed on.
    fn turn_into(&mut self, state: ThreadState, at: Timestamp, sink: &mut dyn TableSink) {
        if self.open.start < at {
            self.pass_on(sink);
            let open = self.open;
            self.emit_deadline(&open, sink);
        }
        self.open = self.row(state, at);
    }

    pub(super) fn pass_on(&mut self, sink: &mut dyn TableSink) {
        sink.slice(self.open);
    }

    pub(super) fn row(&self, state: ThreadState, start: Timestamp) -> SliceRow {
        SliceRow {
            thread: self.id,
            start: start.max(self.open.start),
            state,
            cpu: CpuId::NONE,
            ..SliceRow::default()
        }
    }
}

/// Every thread that lived, by the index that [`Lives::push`] gave it.
#[derive(Default)]
pub struct Lives {
    all: Vec<Live>,
}

impl Lives {
    /// Adds a thread. Returns its index.
    pub fn push(&mut self, live: Live) -> usize {
        self.all.push(live);
        self.all.len() - 1
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// The thread with an index that `push` gave.
    #[allow(
        clippy::indexing_slicing,
        reason = "no index comes from the input: push gives them, nothing is removed"
    )]
    pub fn at(&mut self, index: usize) -> &mut Live {
        &mut self.all[index]
    }

    /// All of them.
    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut Live> {
        self.all.iter_mut()
    }
}
