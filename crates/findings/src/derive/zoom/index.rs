//! Making of the sums.

use holdup_events::tables::{SampleRow, Slice, Steal, ThreadState, Wakeup, partition_point_near};
use holdup_events::{ThreadId, Trace};

use super::{AWAKE, Mark, NO_CLASS, STRIDE, Zoom};
use crate::derive::class::{CLASSES, Class};
use crate::derive::ledger::{self, RunQueueSplit};
use crate::derive::parallel;
use crate::derive::roles::Roles;
use crate::derive::samples_of;
use crate::derive::split::PARTS;
use crate::derive::timelines::Timelines;

/// The classes and marks of some threads.
#[derive(Default)]
struct Part {
    class: Vec<u8>,
    marks: Vec<Mark>,
    /// Number of marks of each thread.
    counts: Vec<u32>,
}

pub(super) fn derive(trace: &Trace, timelines: &Timelines, roles: &Roles) -> Zoom {
    let groups = parallel::thread_groups(trace);
    let parts = parallel::map(groups.len(), |group| {
        let mut part = Part::default();
        let mut queues = Queues { timelines, cursors: vec![0; timelines.len()] };
        for thread in groups[group].clone().map(ThreadId) {
            let before = part.marks.len();
            add_thread((trace, roles), thread, &mut queues, &mut part);
            part.counts.push((part.marks.len() - before) as u32);
        }
        part
    });
    let mut zoom = Zoom { marks_of_thread: vec![0], ..Zoom::default() };
    zoom.class.reserve_exact(trace.slices.len());
    zoom.marks.reserve_exact(parts.iter().map(|part| part.marks.len()).sum());
    let mut marks = 0;
    for part in parts {
        zoom.class.extend(part.class);
        zoom.marks.extend(part.marks);
        for count in part.counts {
            marks += count;
            zoom.marks_of_thread.push(marks);
        }
    }
    let mut stolen = 0u64;
    zoom.stolen_before = Vec::with_capacity(trace.steals.len() + 1);
    zoom.stolen_before.push(0);
    for steal in &trace.steals {
        stolen = stolen.saturating_add(steal.stolen.0);
        zoom.stolen_before.push(stolen);
    }
    zoom
}

fn add_thread((trace, roles): (&Trace, &Roles), thread: ThreadId, queues: &mut Queues, part: &mut Part) {
    queues.cursors.fill(0);
    let row = &trace.threads[thread.index()];
    let mut colours = Colours::new(trace, roles, thread);
    let mut mark = Mark::default();
    for (place, mut slice) in trace.slices.of_thread(thread).enumerate() {
        if place > 0 && place % STRIDE == 0 {
            part.marks.push(mark);
        }
        let class = if row.target { Some(colours.class_of(&slice)) } else { colours.of_foreign(&slice) };
        let awake = slice.state == ThreadState::Running && class == Some(Class::GcWait);
        part.class.push(class.map_or(NO_CLASS, |class| class as u8) | if awake { AWAKE } else { 0 });
        slice.start = slice.start.max(row.start);
        slice.end = slice.end.min(row.end).max(slice.start);
        if let Some(class) = class {
            mark.classes[class as usize] += slice.duration().0;
            mark.awake_ns += if awake { slice.duration().0 } else { 0 };
        }
        if class == Some(Class::RunQueue) {
            queues.add(&slice, &mut mark.queued);
        }
    }
    // The mark after the last slice is used at the thread's end.
    let rows = trace.slices.rows(thread).len();
    if rows > 0 && rows % STRIDE == 0 {
        part.marks.push(mark);
    }
}

/// Classes of one thread's slices, queried in time order.
struct Colours<'a> {
    trace: &'a Trace,
    roles: &'a Roles,
    wakeups: &'a [Wakeup],
    steals: &'a [Steal],
    samples: &'a [SampleRow],
}

impl<'a> Colours<'a> {
    fn new(trace: &'a Trace, roles: &'a Roles, thread: ThreadId) -> Colours<'a> {
        Colours {
            trace,
            roles,
            wakeups: trace.wakeups.of_thread(thread),
            steals: ledger::steals_of(&trace.steals, thread),
            samples: samples_of(trace, thread),
        }
    }

    fn class_of(&mut self, slice: &Slice) -> Class {
        match slice.state {
            ThreadState::Running => self.of_running(slice),
            state if state.waits_for_cpu() => Class::RunQueue,
            ThreadState::Blocked => {
                ledger::class_of_blocked((self.trace, self.roles), slice, &mut self.wakeups)
            }
            _ => Class::Unknown,
        }
    }

    fn of_foreign(&mut self, slice: &Slice) -> Option<Class> {
        (slice.state == ThreadState::Running).then(|| self.of_running(slice))
    }

    fn of_running(&mut self, slice: &Slice) -> Class {
        let stolen = ledger::stolen(&mut self.steals, slice.start);
        // Samples before the last query are cut off, so the next samples are near.
        let skipped = partition_point_near(self.samples, 0, |sample| sample.at < slice.start);
        let inside = partition_point_near(&self.samples[skipped..], 0, |sample| sample.at < slice.end);
        let (inside, rest) = self.samples[skipped..].split_at(inside);
        self.samples = rest;
        if stolen > slice.duration().0 / 2 {
            return Class::Stolen;
        }
        let [work, wait] = self.roles.phases.ran(slice.thread, (slice.start, slice.end));
        if work.max(wait) > slice.duration().0 / 2 {
            return if work >= wait { Class::GcWork } else { Class::GcWait };
        }
        let mut counts = [0usize; PARTS];
        for class in inside.iter().map(|sample| self.roles.class_of_sample(sample)) {
            if let Some(part) = Class::ON_CPU.iter().position(|known| *known == class) {
                counts[part] += 1;
            }
        }
        let most = (0..PARTS).rev().max_by_key(|part| counts[*part]).unwrap_or(0);
        Class::ON_CPU[most]
    }
}

/// Occupants of the CPU while a thread waited for it.
pub(super) struct Queues<'a> {
    pub(super) timelines: &'a Timelines,
    /// Place in each CPU's timeline.
    pub(super) cursors: Vec<usize>,
}

impl Queues<'_> {
    pub(super) fn add(&mut self, slice: &Slice, split: &mut RunQueueSplit) {
        split.add_wait(slice, self.timelines, &mut self.cursors);
    }
}

const _: () = assert!(CLASSES < NO_CLASS as usize && NO_CLASS & AWAKE == 0);
