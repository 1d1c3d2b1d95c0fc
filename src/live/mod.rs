//! Live view of a running flight recorder. At the end of each interval, its events are handed to a thread
//! that makes a [`Moment`] for a screen, lines or metrics. The recorder never waits for that thread.

mod looker;
pub mod metrics;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use holdup_capture::privileges;
use holdup_events::event::RawStack;
use holdup_events::recording::ring::Cut;
use holdup_events::recording::{Cost, Manifest};
use holdup_events::{Duration as Span, Timestamp};
use holdup_findings::descriptors::Descriptors;
use holdup_report::live::Moment;

use crate::record::roots::Roots;
use crate::watch::Mark;
use looker::Looker;

/// Takes each moment.
pub type Look = Box<dyn FnMut(&Moment) + Send>;

/// Configuration of the live view: interval, consumers, metrics.
pub struct Plan {
    /// Length of an interval.
    pub every: Duration,
    /// The consumers of moments, called in order.
    pub looks: Vec<Look>,
    /// One of them has seen enough.
    pub stop: Arc<AtomicBool>,
    /// Counts what fires and is saved, too.
    pub metrics: Option<metrics::Shared>,
    /// Descriptors of runtimes.
    pub descriptors: Descriptors,
}

/// One interval as the recorder hands it over.
pub struct Stretch {
    /// Events of the interval.
    pub cut: Cut<Mark>,
    /// Stacks recorded since the previous interval.
    pub stacks: Vec<RawStack>,
    /// Whether the recorder has repeated all stacks since the previous interval.
    pub is_anew: bool,
    /// Total cost up to the end of the interval.
    pub spent: Cost,
    /// Where its processes' files are.
    pub roots: Roots,
    /// Number of preceding intervals that were skipped because the consumers were busy.
    pub skipped: u64,
}

/// The recorder's end.
pub struct Live {
    every: Span,
    plan: Option<(Plan, Manifest)>,
    sender: Option<SyncSender<Stretch>>,
    thread: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    /// Where the interval that goes on began.
    from: Timestamp,
    due: Timestamp,
    stacks: Vec<RawStack>,
    is_anew: bool,
    skipped: u64,
}

impl Live {
    /// `manifest`: the manifest of the recordings. Intervals start with [`Live::begin`].
    pub fn new(plan: Plan, manifest: Manifest) -> Live {
        Live {
            every: Span(plan.every.as_nanos() as u64),
            stop: plan.stop.clone(),
            plan: Some((plan, manifest)),
            sender: None,
            thread: None,
            from: Timestamp(0),
            due: Timestamp(u64::MAX),
            stacks: Vec::new(),
            is_anew: false,
            skipped: 0,
        }
    }

    /// The first interval begins. Only now are there threads: they have no more privileges than the recorder then.
    pub fn begin(&mut self, at: Timestamp) -> Result<()> {
        (self.from, self.due) = (at, at + self.every);
        let Some((plan, manifest)) = self.plan.take() else { return Ok(()) };
        // At most one interval is queued while another one is evaluated. A longer queue would only make the
        // view older.
        let (sender, stretches) = sync_channel::<Stretch>(1);
        let Plan { mut looks, descriptors, metrics, .. } = plan;
        if let Some(metrics) = metrics {
            metrics.serve()?;
        }
        let work = move || {
            privileges::restore_priority();
            let mut looker = Looker::new(manifest, descriptors);
            while let Ok(stretch) = stretches.recv() {
                let moment = looker.look(stretch);
                looks.iter_mut().for_each(|look| look(&moment));
            }
        };
        let thread = std::thread::Builder::new().name("looker".to_owned()).spawn(work);
        self.thread = Some(thread.context("starting a thread")?);
        self.sender = Some(sender);
        Ok(())
    }

    /// Whether a consumer has asked to stop.
    pub fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The interval is over.
    pub fn is_due(&self, now: Timestamp) -> bool {
        now >= self.due
    }

    /// Where the interval began.
    pub fn from(&self) -> Timestamp {
        self.from
    }

    /// Keeps a stack. Each stack is recorded only once.
    pub fn stack(&mut self, stack: &RawStack) {
        self.stacks.push(stack.clone());
    }

    /// From now on the recorder repeats all stacks.
    pub fn restart_stacks(&mut self) {
        self.is_anew = true;
    }

    /// Hands over the interval if it has ended. The next interval begins at its end.
    pub fn hand_over(&mut self, now: Timestamp, (cut, spent, roots): (Option<Cut<Mark>>, Cost, Roots)) {
        while self.due <= now {
            self.due = self.due + self.every;
        }
        let (Some(cut), Some(sender)) = (cut, &self.sender) else { return };
        self.from = cut.end + Span(1);
        let stretch = Stretch {
            cut,
            stacks: std::mem::take(&mut self.stacks),
            is_anew: std::mem::take(&mut self.is_anew),
            spent,
            roots,
            skipped: self.skipped,
        };
        match sender.try_send(stretch) {
            Ok(()) => self.skipped = 0,
            Err(TrySendError::Full(stretch) | TrySendError::Disconnected(stretch)) => {
                self.skipped += 1;
                (self.stacks, self.is_anew) = (stretch.stacks, stretch.is_anew);
            }
        }
    }

    /// Waits until the handed-over intervals are evaluated and all consumers have finished.
    pub fn finish(&mut self) {
        self.plan = None;
        self.sender = None;
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
