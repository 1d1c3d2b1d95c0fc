//! Running time that is made shorter: which parts of it, by samples.

use std::collections::BTreeMap;

use holdup_events::tables::SampleRow;
use holdup_events::{FrameId, ThreadId, Trace};

use crate::derive::class::Class;
use crate::derive::roles::Roles;
use crate::derive::samples_of;
use crate::derive::stacks::folding;

/// Running time of which the samples that match take `left` of their time. Each moment counts with the sample of
/// its thread that is nearest in time.
#[derive(Clone, Debug, Default)]
pub struct Speed {
    /// Of each thread: until when (ns of the recorded clock) what holds.
    of_thread: BTreeMap<ThreadId, Vec<(u64, bool)>>,
    left: f64,
    /// Samples that match.
    pub(super) samples: u64,
    /// Running time that the samples stand for, as a share of all of it.
    pub(super) share: f64,
}

impl Speed {
    /// Of samples that match; `left` of their time remains.
    pub fn new(trace: &Trace, left: f64, matches: impl Fn(&SampleRow) -> bool) -> Speed {
        let mut speed = Speed { left, ..Speed::default() };
        let mut all = 0u64;
        for thread in trace.target_threads() {
            let samples = samples_of(trace, thread);
            let mut parts: Vec<(u64, bool)> = Vec::new();
            for (index, sample) in samples.iter().enumerate() {
                let is = matches(sample);
                all += 1;
                speed.samples += u64::from(is);
                let until = samples.get(index + 1).map_or(u64::MAX, |next| sample.at.0 / 2 + next.at.0 / 2);
                match parts.last_mut() {
                    Some(last) if last.1 == is => last.0 = until,
                    _ => parts.push((until, is)),
                }
            }
            if parts.iter().any(|(_, is)| *is) {
                speed.of_thread.insert(thread, parts);
            }
        }
        speed.share = speed.samples as f64 / all.max(1) as f64;
        speed
    }

    /// Of a function (`*` stands for anything) with its callees.
    pub fn of_function(trace: &Trace, function: &str, left: f64) -> Speed {
        let is = |frame: &FrameId| folding::matches(function, &trace.frame_name(*frame));
        let frames: Vec<bool> = (0..trace.frames.len() as u32).map(|frame| is(&FrameId(frame))).collect();
        let known = |frame: FrameId| frames.get(frame.index()).copied().unwrap_or(false);
        Speed::new(trace, left, |sample| trace.stack_frames(sample.stack).any(known))
    }

    /// Of a class of running time.
    pub fn of_class((trace, roles): (&Trace, &Roles), class: Class, left: f64) -> Speed {
        Speed::new(trace, left, |sample| roles.class_of_sample(sample) == class)
    }

    /// The share of `from..to` that is left (0 to 1).
    pub(super) fn left(&self, thread: ThreadId, from: u64, to: u64) -> f64 {
        let Some(parts) = self.of_thread.get(&thread) else { return 1.0 };
        if to <= from {
            return 1.0;
        }
        let first = parts.partition_point(|(until, _)| *until <= from);
        let (mut at, mut hit) = (from, 0);
        for (until, is) in &parts[first..] {
            let end = (*until).min(to);
            if *is {
                hit += end.saturating_sub(at);
            }
            at = end;
            if at >= to {
                break;
            }
        }
        1.0 - (1.0 - self.left) * hit as f64 / (to - from) as f64
    }
}
