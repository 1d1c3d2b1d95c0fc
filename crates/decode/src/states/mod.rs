//! Events in time order → slices that tile each thread's life, wakeups, samples.
//!
//! The state machine of one thread is in [`live`]. Names, processes and interned values are in [`catalogue`].
//! Threads that are only polled are in [`polled`]. Rows go to a [`TableSink`] as soon as they are final, so
//! memory grows with threads and distinct waits, not with events.
//!
//! The kernel's run-queue delay counter gives the exact wait for a CPU at the time when a thread is switched
//! in. It is read only when the thread is switched out again. The row "waits for a CPU" is therefore written
//! then, before the row "running". A preempted thread's wait begins where the counter puts it.

mod allocations;
mod bearers;
mod catalogue;
mod cpus;
mod live;
mod loss;
mod owners;
mod polled;
mod rounds;
mod spans;
mod stack_words;
mod task_waits;
mod thread_words;

use holdup_events::event::{
    Allocated, FaultSample, Lifecycle, LifecycleChange, Outcome, Sample, Snapshot, SnapshotState, Switch,
    TID_UNKNOWN, Waking,
};
use holdup_events::tables::{FaultRow, SampleRow, TableSink, Wakeup};
use holdup_events::{CpuId, Event, Timestamp};

use crate::accesses::Accesses;
use crate::symbols::Files;
use allocations::Allocations;
pub use catalogue::Catalogue;
use catalogue::Names;
use cpus::Occupants;
use live::{Live, Lives, Now};
use polled::Look;
use spans::Lanes;
use task_waits::Tasks;

/// Builds the tables of one recording.
pub struct Builder<'a> {
    start: Timestamp,
    /// No moment of a switch is behind it.
    end: Timestamp,
    /// Only snapshots come: states between them are estimated ([`polled`]).
    polled: bool,
    /// When the last poll that came late did come.
    late_poll: Option<Timestamp>,
    names: Names,
    live: Lives,
    occupants: Occupants,
    lanes: Lanes,
    accesses: Accesses<'a>,
    allocations: Allocations,
    tasks: Tasks,
    switches: u64,
}

impl<'a> Builder<'a> {
    /// A builder for a recording of the given interval. `polled`: its backend polls /proc. `files` is used to
    /// decode the memory accesses of samples.
    pub fn new((start, end): (Timestamp, Timestamp), polled: bool, files: &'a dyn Files) -> Builder<'a> {
        let end = end.max(start);
        Builder {
            start,
            end,
            polled,
            late_poll: None,
            names: Names::default(),
            live: Lives::default(),
            occupants: Occupants::default(),
            lanes: Lanes::default(),
            accesses: Accesses::new(files),
            allocations: Allocations::default(),
            tasks: Tasks::default(),
            switches: 0,
        }
    }

    /// Takes the next event in the order of time.
    pub fn push(&mut self, event: Event, sink: &mut dyn TableSink) {
        match event {
            Event::Switch(switch) => self.switch(&switch, sink),
            Event::Waking(waking) => self.waking(&waking, sink),
            Event::Sample(sample) => self.sample(&sample, sink),
            Event::Stack(stack) => self.names.define_stack(stack),
            Event::Lifecycle(change) => self.lifecycle(change, sink),
            Event::Snapshot(snapshot) => self.snapshot(snapshot, sink),
            Event::Mapping(mapping) => {
                let process = self.names.map(mapping);
                self.accesses.remapped(process);
            }
            Event::SyscallCount(count) => self.names.count(&count),
            Event::Calls(sums) => self.names.count_calls(&sums),
            Event::ObjectName(name) => self.names.name_object(name),
            Event::Allocated(told) => self.allocated(&told),
            Event::Freed(told) => {
                let thread = self.names.find(told.tid).map(|index| self.live.at(index).id);
                self.allocations.freed(&told, thread);
            }
            Event::Counted(counted) => self.names.counted(&counted, self.start),
            Event::Fault(fault) => self.fault(&fault),
            Event::Watched(watched) => self.names.watched(&watched),
            Event::TaskWait(wait) => self.task_wait(&wait),
            Event::TaskWindow(window) => self.task_window(&window),
            Event::Runtime(tell) => self.take_runtime_event(&tell, sink),
            Event::Affinity(affinity) => self.names.may_run_on(&affinity),
            Event::Loss(loss) => {
                self.doubt(&loss);
                self.names.losses.push(loss);
            }
        }
    }

    /// The recording is over: closes every life. Rows of threads that still live are passed on.
    pub fn finish(mut self, sink: &mut dyn TableSink) -> Catalogue {
        let end = self.end;
        for index in 0..self.live.len() {
            let live = self.live.at(index);
            if live.now != Now::Gone {
                live.close(end, sink);
                self.names.end(live.id, end, true);
            }
        }
        let (lanes, names) = self.lanes.finish(sink);
        Catalogue {
            lanes,
            names,
            variables: self.accesses.shared(),
            unread: self.accesses.unread().clone(),
            allocations: self.allocations.finish(),
            task_waits: self.tasks.finish(end),
            ..self.names.finish(self.start, end, self.switches)
        }
    }

    /// The live thread of `tid`, made up if it is not known: then it was there before.
    fn thread(&mut self, tid: u32, tgid: u32) -> usize {
        if let Some(index) = self.names.find(tid)
            && self.live.at(index).now != Now::Gone
        {
            return index;
        }
        let start = self.start;
        self.born(tid, tgid, start, true)
    }

    /// The current or last thread with this `tid`. Events of a dead thread may arrive late.
    fn last_of(&mut self, tid: u32, tgid: u32) -> usize {
        match self.names.find(tid) {
            Some(index) => index,
            None => self.thread(tid, tgid),
        }
    }

    fn born(&mut self, tid: u32, tgid: u32, at: Timestamp, began_before: bool) -> usize {
        let id = self.names.add_thread(tid, tgid, at, began_before);
        self.live.push(Live::new(id, at))
    }

    fn switch(&mut self, switch: &Switch, sink: &mut dyn TableSink) {
        let at = self.kernels_moment(switch);
        self.switches += 1;
        let mut idle_since = None;
        if switch.prev_tid != 0 && switch.prev_tid != TID_UNKNOWN {
            self.switch_out(switch, at, sink);
        } else if switch.prev_tid == 0 {
            idle_since = self.occupants.touch(switch.cpu, at);
            if let Some(occupant) = self.occupants.take(switch.cpu) {
                self.vanished(occupant, at, sink);
                idle_since = None;
            }
        }
        if switch.next_tid != 0 && switch.next_tid != TID_UNKNOWN {
            self.switch_in(switch, (at, idle_since), sink);
        }
    }

    /// When `switch` happened according to the kernel, see [`Live::left_at`]. The result is not before any
    /// other known event of this CPU or of the leaving thread, and lies within the recording.
    fn kernels_moment(&mut self, switch: &Switch) -> Timestamp {
        let earliest = self.occupants.touched(switch.cpu).unwrap_or(self.start).max(self.start);
        let moment = match self.names.find(switch.prev_tid).filter(|_| switch.prev_tid != 0) {
            Some(index) => {
                let live = self.live.at(index);
                live.left_at(switch).max(live.open.start)
            }
            None => switch.at,
        };
        moment.max(earliest).min(self.end)
    }

    fn switch_out(&mut self, switch: &Switch, at: Timestamp, sink: &mut dyn TableSink) {
        let index = self.leaver(switch, sink);
        if let Now::Running { cpu, .. } = self.live.at(index).now {
            self.occupants.forget(cpu, index, switch.cpu, at);
        }
        let seen_before = self.occupants.touch(switch.cpu, at);
        let arrived = self.live.at(index).hidden_arrival(switch, at, seen_before);
        if let Some(occupant) = self.occupants.take(switch.cpu)
            && occupant != index
        {
            self.vanished(occupant, arrived.unwrap_or(at), sink);
        }
        if !matches!(switch.outcome, Outcome::Untracked | Outcome::Dead) {
            self.follow(index);
        }
        let wait = match &switch.outcome {
            Outcome::Blocked(wait) => self.names.intern_wait(index, wait),
            _ => Default::default(),
        };
        let live = self.live.at(index);
        match arrived {
            Some(arrived) => {
                let whose = (live.id, self.names.process_of(index));
                self.lanes.ran_unseen(whose, (arrived, at));
                live.arrive(switch.cpu, arrived, sink);
            }
            None => live.arrive_unseen(switch.cpu, seen_before.is_none(), at, sink),
        }
        live.leave(at, switch, sink);
        if let Some(let_go_at) = live.let_go_at.take() {
            self.names.let_go(live.id, let_go_at);
        }
        live.become_after(&switch.outcome, wait, at, sink);
        live.note_deadline(switch);
        if live.now == Now::Gone {
            let (id, end) = (live.id, at.max(live.open.start));
            self.names.end(id, end, false);
        }
    }

    /// The thread that leaves a CPU. A thread that takes the tid of its process' ended first thread is about
    /// to exec. Switches may occur in between.
    fn leaver(&mut self, switch: &Switch, sink: &mut dyn TableSink) -> usize {
        let (tid, tgid) = (switch.prev_tid, switch.prev_tgid);
        let first_ended = tid == tgid && self.names.find(tid).is_some_and(|first| self.has_exited(first));
        let occupant = self
            .occupants
            .thread_on(switch.cpu)
            .filter(|index| first_ended && self.names.is_of(*index, tgid));
        if let Some(occupant) = occupant {
            self.take_over(occupant, tid, switch.at.max(self.start), sink);
        }
        let index = self.thread(tid, tgid);
        self.names.belongs_to(index, tgid);
        index
    }

    /// The thread has the tid `tid` from now on. The previous thread with it ends, if its end was not
    /// recorded.
    fn take_over(&mut self, index: usize, tid: u32, at: Timestamp, sink: &mut dyn TableSink) {
        if let Some(first) = self.names.find(tid).filter(|first| *first != index && !self.has_exited(*first))
        {
            self.ends(first, at, sink);
        }
        self.names.renumber(index, tid);
    }

    fn has_exited(&mut self, index: usize) -> bool {
        self.live.at(index).now == Now::Gone
    }

    fn ends(&mut self, index: usize, at: Timestamp, sink: &mut dyn TableSink) {
        let live = self.live.at(index);
        let (id, end) = (live.id, at.max(live.open.start));
        live.close(end, sink);
        self.names.end(id, end, false);
    }

    fn switch_in(
        &mut self,
        switch: &Switch,
        (at, idle_since): (Timestamp, Option<Timestamp>),
        sink: &mut dyn TableSink,
    ) {
        let index = self.thread(switch.next_tid, 0);
        self.occupants.touch(switch.cpu, at);
        if let Some(occupant) = self.occupants.put(switch.cpu, index)
            && occupant != index
        {
            self.vanished(occupant, at, sink);
        }
        let live = self.live.at(index);
        if let Now::Running { cpu, .. } = live.now {
            self.occupants.forget(cpu, index, switch.cpu, at);
            live.vanish(at, sink);
        }
        live.arrive(switch.cpu, at, sink);
        live.found_cpu_idle(idle_since);
    }

    /// `index` cannot be running any more, and we did not see it leave.
    fn vanished(&mut self, index: usize, at: Timestamp, sink: &mut dyn TableSink) {
        self.live.at(index).vanish(at, sink);
    }

    fn follow(&mut self, index: usize) {
        self.live.at(index).target = true;
        self.names.follow(index);
    }

    fn waking(&mut self, waking: &Waking, sink: &mut dyn TableSink) {
        let at = waking.at.max(self.start);
        let wakee = self.thread(waking.wakee_tid, 0);
        let waker = self.thread_or_idle(waking.waker_tid);
        self.live.at(wakee).woken(at);
        sink.wakeup(Wakeup {
            at,
            wakee: self.live.at(wakee).id,
            waker,
            cpu: waking.cpu,
            context: waking.context,
            stack: self.names.intern_stack(waking.stack),
            stack_every: u16::try_from(waking.stack_every).unwrap_or(u16::MAX),
            waker_object: waking.waker_object,
        });
    }

    /// The idle thread is thread "swapper", once for all CPUs.
    fn thread_or_idle(&mut self, tid: u32) -> holdup_events::ThreadId {
        if tid == TID_UNKNOWN {
            return self.thread_or_idle(0);
        }
        let index = self.last_of(tid, 0);
        self.live.at(index).id
    }

    fn sample(&mut self, sample: &Sample, sink: &mut dyn TableSink) {
        let index = self.last_of(sample.tid, sample.tgid);
        let process = self.names.process_of(index).unwrap_or_default();
        let (data, counter) = self.accesses.of_sample(sample, process, &self.names.mappings);
        sink.sample(SampleRow {
            at: sample.at.max(self.start),
            thread: self.live.at(index).id,
            cpu: sample.cpu,
            in_kernel: sample.in_kernel,
            syscall: sample.syscall,
            stack: self.names.intern_stack(sample.stack),
            data,
            counter,
        });
    }

    fn allocated(&mut self, told: &Allocated) {
        let index = self.last_of(told.tid, told.tgid);
        let (thread, stack) = (self.live.at(index).id, self.names.intern_stack(told.stack));
        self.allocations.allocated(&Allocated { at: told.at.max(self.start), ..*told }, thread, stack);
    }

    fn fault(&mut self, told: &FaultSample) {
        let index = self.last_of(told.tid, told.tgid);
        let (thread, stack) = (self.live.at(index).id, self.names.intern_stack(told.stack));
        let FaultSample { address, stands_for, major, in_kernel, .. } = *told;
        let at = told.at.max(self.start);
        self.names.faults.push(FaultRow { thread, at, address, stands_for, major, in_kernel, stack });
    }

    fn lifecycle(&mut self, change: Lifecycle, sink: &mut dyn TableSink) {
        let at = change.at.max(self.start);
        if let LifecycleChange::Exec { old_tid } = change.change {
            let taker =
                self.names.find(old_tid).filter(|index| old_tid != change.tid && !self.has_exited(*index));
            if let Some(taker) = taker.filter(|_| old_tid != 0) {
                self.take_over(taker, change.tid, at, sink);
            }
            self.allocations.forget(change.tgid);
        }
        let index = match change.change {
            LifecycleChange::Fork { parent_tid } => {
                if let Some(old) = self.names.find(change.tid).filter(|old| !self.has_exited(*old)) {
                    self.ends(old, at, sink);
                }
                let index = self.born(change.tid, change.tgid, at, false);
                self.names.parent(index, parent_tid);
                self.live.at(index).be_newborn(at, change.target);
                index
            }
            _ => match self.names.find(change.tid) {
                // A thread that takes the tid of an ended first thread is renamed before the exec event
                // arrives.
                Some(index) if change.change == LifecycleChange::Rename && self.has_exited(index) => return,
                Some(index) => index,
                None if change.change == LifecycleChange::Exit => return,
                None => self.thread(change.tid, change.tgid),
            },
        };
        self.names.belongs_to(index, change.tgid);
        if change.target {
            self.follow(index);
        }
        if change.change != LifecycleChange::Exit {
            let is_program = matches!(change.change, LifecycleChange::Exec { .. });
            self.names.rename(index, &change.name, is_program);
        }
    }

    fn snapshot(&mut self, snapshot: Snapshot, sink: &mut dyn TableSink) {
        let at = snapshot.at.max(self.start);
        if snapshot.state == SnapshotState::Dead {
            if self.polled
                && let Some(index) = self.names.find(snapshot.tid)
            {
                let look = self.look(at);
                self.live.at(index).poll(look, &snapshot, Default::default(), sink);
                self.live.at(index).now = Now::Gone;
                let id = self.live.at(index).id;
                self.names.end(id, at, false);
            }
            return;
        }
        let known = self.names.find(snapshot.tid).filter(|index| self.live.at(*index).now != Now::Gone);
        let index = known.unwrap_or_else(|| {
            // A thread first met after the beginning is new only if no earlier snapshot could show it.
            self.born(snapshot.tid, snapshot.tgid, self.start, true)
        });
        self.names.belongs_to(index, snapshot.tgid);
        self.names.parent_process(index, snapshot.parent_tgid);
        self.names.rename(index, &snapshot.name, false);
        if snapshot.target {
            self.follow(index);
        }
        let wait = match &snapshot.state {
            SnapshotState::Blocked(wait) => self.names.intern_wait(index, wait),
            _ => Default::default(),
        };
        if self.polled {
            let look = self.look(at);
            return self.live.at(index).poll(look, &snapshot, wait, sink);
        }
        let live = self.live.at(index);
        if known.is_none() {
            live.be_found(&snapshot, wait);
            if let Now::Running { cpu, .. } = live.now
                && cpu != CpuId::NONE
            {
                self.occupants.touch(cpu, at);
                if let Some(occupant) = self.occupants.put(cpu, index) {
                    self.vanished(occupant, at, sink);
                }
            }
        } else {
            live.refine(&snapshot, wait, sink);
        }
    }

    fn look(&self, at: Timestamp) -> Look {
        Look { at, late_until: self.late_poll }
    }
}

#[cfg(test)]
mod tests;
