//! Running time that is made shorter: which parts of it, by samples.

use std::collections::BTreeMap;

use holdup_events::tables::{SampleRow, ThreadState};
use holdup_events::{FrameId, ThreadId, Trace};

use crate::derive::class::Class;
use crate::derive::occupancy::Serial;
use crate::derive::roles::Roles;
use crate::derive::samples_of;
use crate::derive::stacks::folding;

/// Reduction of running time. Each moment is classified by the sample of its thread that is nearest in time.
#[derive(Clone, Debug, Default)]
pub struct Speed {
    /// By thread: share of the running time that is left, up to a time of the recorded clock (ns).
    of_thread: BTreeMap<ThreadId, Vec<(u64, f32)>>,
    /// Samples that match.
    pub(super) samples: u64,
    /// Running time of the matching samples, as a share of all running time.
    pub(super) share: f64,
    /// Whether other CPUs do the work that is left out.
    pub(super) is_spread: bool,
}

impl Speed {
    /// From matching samples. `left` is the remaining share of their time.
    pub fn new(trace: &Trace, left: f64, matches: impl Fn(&SampleRow) -> bool) -> Speed {
        Speed::weighed(trace, |sample| if matches(sample) { 1.0 - left } else { 0.0 })
    }

    /// From a weight for each sample. `taken` returns the share (0 to 1) of its time that is left out.
    pub fn weighed(trace: &Trace, taken: impl Fn(&SampleRow) -> f64) -> Speed {
        let mut speed = Speed::default();
        let (mut all, mut hits) = (0u64, 0.0);
        for thread in trace.target_threads() {
            let samples = samples_of(trace, thread);
            let mut parts: Vec<(u64, f32)> = Vec::new();
            for (index, sample) in samples.iter().enumerate() {
                let taken = taken(sample).clamp(0.0, 1.0);
                all += 1;
                speed.samples += u64::from(taken > 0.0);
                hits += taken;
                let until = samples.get(index + 1).map_or(u64::MAX, |next| sample.at.0 / 2 + next.at.0 / 2);
                add(&mut parts, until, (1.0 - taken) as f32);
            }
            speed.insert(thread, parts);
        }
        speed.share = hits / all.max(1) as f64;
        speed
    }

    /// From the samples of a function with its callees (`*` matches any text).
    pub fn of_function(trace: &Trace, function: &str, left: f64) -> Speed {
        let is = |frame: &FrameId| folding::matches(function, &trace.frame_name(*frame));
        let frames: Vec<bool> = (0..trace.frames.len() as u32).map(|frame| is(&FrameId(frame))).collect();
        let known = |frame: FrameId| frames.get(frame.index()).copied().unwrap_or(false);
        Speed::new(trace, left, |sample| trace.stack_frames(sample.stack).any(known))
    }

    /// From the samples of a class of running time.
    pub fn of_class((trace, roles): (&Trace, &Roles), class: Class, left: f64) -> Speed {
        Speed::new(trace, left, |sample| roles.class_of_sample(sample) == class)
    }

    /// All work of a thread takes the share `left` of its time, because other CPUs do the rest.
    pub fn spread_thread(thread: ThreadId, left: f64) -> Speed {
        let mut speed = Speed { is_spread: true, ..Speed::default() };
        speed.insert(thread, vec![(u64::MAX, left as f32)]);
        speed
    }

    /// Work that a thread does alone while others wait takes the share `left` of its time. Other CPUs do the
    /// rest of the work.
    pub fn spread(trace: &Trace, serial: &Serial, left: f64) -> Speed {
        let mut speed = Speed { is_spread: true, ..Speed::default() };
        let step = serial.step.0.max(1);
        for thread in serial.by_thread.keys() {
            let ran = running_by_step(trace, *thread, step);
            let mut parts: Vec<(u64, f32)> = Vec::new();
            for ((_, number), alone) in serial.alone_ns.range((*thread, 0)..=(*thread, u64::MAX)) {
                let from = trace.start().0 + number * step;
                let ran = ran.get(*number as usize).copied().unwrap_or(0).max(1);
                let share = (*alone as f64 / ran as f64).min(1.0);
                add(&mut parts, from, 1.0);
                add(&mut parts, from + step, (1.0 - share * (1.0 - left)) as f32);
            }
            add(&mut parts, u64::MAX, 1.0);
            speed.insert(*thread, parts);
        }
        speed
    }

    fn insert(&mut self, thread: ThreadId, parts: Vec<(u64, f32)>) {
        if parts.iter().any(|(_, left)| *left < 1.0) {
            self.of_thread.insert(thread, parts);
        }
    }

    /// Whether other CPUs do the work that is left out.
    pub fn is_spread(&self) -> bool {
        self.is_spread
    }

    /// The share of all running time that is left out (0 to 1).
    pub fn taken(&self) -> f64 {
        self.share
    }

    /// Whether no time is reduced.
    pub fn is_empty(&self) -> bool {
        self.of_thread.is_empty()
    }

    /// The share of `from..to` that is left (0 to 1).
    pub(super) fn left(&self, thread: ThreadId, from: u64, to: u64) -> f64 {
        let Some(parts) = self.of_thread.get(&thread) else { return 1.0 };
        if to <= from {
            return 1.0;
        }
        let first = parts.partition_point(|(until, _)| *until <= from);
        let (mut at, mut taken) = (from, 0.0);
        for (until, left) in &parts[first..] {
            let end = (*until).min(to);
            taken += end.saturating_sub(at) as f64 * f64::from(1.0 - left);
            at = end;
            if at >= to {
                break;
            }
        }
        1.0 - taken / (to - from) as f64
    }
}

/// Sets the remaining share up to `until`. Parts must come in time order.
fn add(parts: &mut Vec<(u64, f32)>, until: u64, left: f32) {
    match parts.last_mut() {
        Some((last, _)) if *last >= until => {}
        Some((last, same)) if *same == left => *last = until,
        _ => parts.push((until, left)),
    }
}

/// Running time of a thread in each step of the recording (ns).
fn running_by_step(trace: &Trace, thread: ThreadId, step: u64) -> Vec<u64> {
    let mut ran = vec![0; (trace.wall().0 / step) as usize + 1];
    for slice in trace.slices.of_thread(thread).filter(|slice| slice.state == ThreadState::Running) {
        let mut at = slice.start.since(trace.start()).0;
        let to = slice.end.since(trace.start()).0;
        while at < to {
            let number = at / step;
            let until = to.min((number + 1) * step);
            if let Some(sum) = ran.get_mut(number as usize) {
                *sum += until - at;
            }
            at = until;
        }
    }
    ran
}
