//! The plainest way from events to a trace: for events that a perfect source delivers, in order, with nothing
//! missing. It lets findings be tested by themselves, and is what the real assembly must agree with on such events.

use std::collections::{BTreeMap, HashMap};

use holdup_events::event::*;
use holdup_events::recording::Manifest;
use holdup_events::tables::*;
use holdup_events::{CpuId, Event, FrameId, ProcessId, StackId, ThreadId, Timestamp, Trace, Wait, WaitId};

use crate::drawing::{Drawing, FUNCTION_BYTES, PROGRAM};
use crate::waits::reason_of;

/// Freezes a drawing, its functions named.
pub fn freeze_drawing(drawing: &Drawing) -> Trace {
    let mut trace = freeze(&drawing.events, &drawing.manifest);
    name_functions(&mut trace, &drawing.functions);
    trace
}

/// Gives the frames of a drawing's program their names.
pub fn name_functions(trace: &mut Trace, functions: &[String]) {
    for frame in trace.frames.iter_mut().filter(|frame| frame.module == PROGRAM) {
        if let Some(name) = functions.get((frame.offset / FUNCTION_BYTES) as usize) {
            frame.function = name.clone();
        }
    }
}

/// Freezes events.
pub fn freeze(events: &[Event], manifest: &Manifest) -> Trace {
    let mut plain = Plain { end: Timestamp(manifest.end_ns), ..Plain::default() };
    plain.waits.push(Wait::default());
    for event in events {
        plain.add(event);
    }
    plain.finish(manifest)
}

#[derive(Default)]
struct Plain {
    end: Timestamp,
    trace: Trace,
    ids: HashMap<u32, ThreadId>,
    processes: BTreeMap<u32, ProcessId>,
    rows: Vec<SliceRow>,
    wakeups: Vec<Wakeup>,
    waits: Vec<Wait>,
    stacks: HashMap<u64, StackId>,
    maps: Vec<RawMapping>,
}

impl Plain {
    fn thread(&mut self, tid: u32, tgid: u32, name: &str, target: bool, start: Timestamp) -> ThreadId {
        let next = ProcessId(self.trace.processes.len() as u32);
        let process = *self.processes.entry(tgid).or_insert(next);
        if process == next {
            self.trace.processes.push(Process { pid: tgid, name: name.to_owned(), target, parent: None });
        }
        let id = ThreadId(self.trace.threads.len() as u32);
        self.ids.insert(tid, id);
        self.trace.threads.push(Thread {
            tid,
            process,
            name: name.to_owned(),
            target,
            start,
            end: self.end,
            alive_at_end: true,
            ..Thread::default()
        });
        id
    }

    fn row(&mut self, thread: ThreadId, at: Timestamp, state: ThreadState, cpu: CpuId, wait: WaitId) {
        self.rows.push(SliceRow { thread, start: at, state, cpu, wait, ..SliceRow::default() });
    }

    fn wait(&mut self, thread: ThreadId, raw: &RawWait) -> WaitId {
        let wait = Wait {
            reason: reason_of(raw),
            process: self.trace.threads[thread.index()].process,
            syscall: raw.syscall,
            object_kind: raw.object_kind,
            object: raw.object,
            op: raw.op,
            owner_tid: raw.owner_tid,
        };
        let known = self.waits.iter().position(|known| *known == wait);
        let index = known.unwrap_or_else(|| {
            self.waits.push(wait);
            self.waits.len() - 1
        });
        WaitId(index as u32)
    }

    fn add(&mut self, event: &Event) {
        match event {
            Event::Snapshot(snapshot) => {
                let id =
                    self.thread(snapshot.tid, snapshot.tgid, &snapshot.name, snapshot.target, snapshot.at);
                self.trace.threads[id.index()].began_before = true;
                let (state, wait) = match &snapshot.state {
                    SnapshotState::Runnable => (ThreadState::Runnable, WaitId::NONE),
                    SnapshotState::Blocked(raw) => (ThreadState::Blocked, self.wait(id, raw)),
                    _ => (ThreadState::Untracked, WaitId::NONE),
                };
                self.row(id, snapshot.at, state, CpuId::NONE, wait);
            }
            Event::Lifecycle(Lifecycle {
                change: LifecycleChange::Fork { .. },
                at,
                tid,
                tgid,
                name,
                target,
            }) => {
                let id = self.thread(*tid, *tgid, name, *target, *at);
                self.row(id, *at, ThreadState::Runnable, CpuId::NONE, WaitId::NONE);
            }
            Event::Switch(switch) => self.switch(switch),
            Event::Waking(waking) => self.waking(waking),
            Event::Sample(sample) => {
                self.trace.samples.push(SampleRow {
                    at: sample.at,
                    thread: self.ids[&sample.tid],
                    cpu: sample.cpu,
                    in_kernel: sample.in_kernel,
                    syscall: sample.syscall,
                    stack: self.stacks.get(&sample.stack).copied().unwrap_or(StackId::NONE),
                });
            }
            Event::Stack(stack) => self.stack(stack),
            Event::Mapping(mapping) => self.maps.push(mapping.clone()),
            Event::Loss(loss) => self.trace.losses.push(loss.clone()),
            Event::Lifecycle(_) => {}
        }
    }

    fn switch(&mut self, switch: &Switch) {
        if let Some(id) = self.ids.get(&switch.prev_tid).copied() {
            let (state, wait) = match &switch.outcome {
                Outcome::Untracked => (ThreadState::Untracked, WaitId::NONE),
                Outcome::Preempted => (ThreadState::Preempted, WaitId::NONE),
                Outcome::Yielded => (ThreadState::Yielded, WaitId::NONE),
                Outcome::Throttled => (ThreadState::Throttled, WaitId::NONE),
                Outcome::Blocked(raw) => (ThreadState::Blocked, self.wait(id, raw)),
                Outcome::Dead => {
                    let thread = &mut self.trace.threads[id.index()];
                    (thread.end, thread.alive_at_end) = (switch.at, false);
                    self.ids.remove(&switch.prev_tid);
                    return self.arrive(switch);
                }
            };
            self.row(id, switch.at, state, CpuId::NONE, wait);
        }
        self.arrive(switch);
    }

    fn arrive(&mut self, switch: &Switch) {
        let Some(id) = self.ids.get(&switch.next_tid).copied() else { return };
        if let Some(row) = self.rows.iter_mut().rev().find(|row| row.thread == id)
            && row.state.waits_for_cpu()
        {
            row.cpu = switch.cpu;
        }
        self.row(id, switch.at, ThreadState::Running, switch.cpu, WaitId::NONE);
    }

    fn waking(&mut self, waking: &Waking) {
        let Some(id) = self.ids.get(&waking.wakee_tid).copied() else { return };
        self.wakeups.push(Wakeup {
            at: waking.at,
            wakee: id,
            waker: self.ids.get(&waking.waker_tid).copied().unwrap_or_default(),
            cpu: waking.cpu,
            context: waking.context,
            stack: StackId::NONE,
            waker_object: waking.waker_object,
        });
        self.row(id, waking.at, ThreadState::Runnable, CpuId::NONE, WaitId::NONE);
    }

    fn stack(&mut self, stack: &RawStack) {
        let mut parent = StackId::NONE;
        for (index, address) in stack.addresses.iter().enumerate().rev() {
            let frame = if index < usize::from(stack.kernel_frames) {
                Frame {
                    kind: FrameKind::Kernel,
                    module: "[kernel]".into(),
                    offset: *address,
                    ..Frame::default()
                }
            } else {
                self.user_frame(*address)
            };
            let known = self.trace.frames.iter().position(|known| *known == frame);
            let number = known.unwrap_or_else(|| {
                self.trace.frames.push(frame);
                self.trace.frames.len() - 1
            });
            parent = self.trace.stacks.append(StackRow { frame: FrameId(number as u32), parent, ..StackRow::default() });
        }
        self.stacks.insert(stack.id, parent);
    }

    fn user_frame(&self, address: u64) -> Frame {
        let map = self.maps.iter().find(|map| (map.start..map.end).contains(&address));
        Frame {
            kind: FrameKind::User,
            module: map.map_or_else(String::new, |map| map.path.clone()),
            offset: map.map_or(address, |map| address - map.start + map.file_offset),
            ..Frame::default()
        }
    }

    fn finish(mut self, manifest: &Manifest) -> Trace {
        let ends = self.trace.threads.iter().map(|thread| thread.end).collect();
        self.trace.slices = Slices::freeze(&[self.rows], ends);
        self.trace.wakeups = Wakeups::freeze(self.wakeups, self.trace.threads.len());
        self.trace.waits = self.waits;
        self.trace.samples.sort_by_key(|sample| (sample.thread, sample.at));
        self.trace.manifest = manifest.clone();
        self.trace
    }
}
