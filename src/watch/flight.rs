//! The flight recorder itself: the ring of events, the triggers that watch it, and what is about to be saved.

use anyhow::Result;
use holdup_capture::bpf::Counters;
use holdup_events::event::{Tell, Told};
use holdup_events::recording::ring::{Cut, EventRing, Keep};
use holdup_events::recording::{Cost, Fired, Manifest};
use holdup_events::{Duration, Event, Timestamp};

use super::saver::{Job, Saver};
use super::triggers::output::Pipes;
use super::{Armed, Limits, Plan};
use crate::live::{Live, metrics};
use crate::record::roots::Roots;

/// A trigger is seen to fire so much later at the most: the recorder sleeps between its looks.
const SLACK: std::time::Duration = std::time::Duration::from_secs(1);
/// Triggers that are told of one recording.
const FIRED_MAX: usize = 64;
/// The lane on which the moments are marked, a number that no runtime gives.
const LANE: u32 = u32::MAX;

/// What is remembered of the beginning of a segment: a recording that begins there tells what was spent and delivered since.
#[derive(Clone, Debug, Default)]
pub struct Mark {
    /// CPU time of the recorder, of its kernel programs, and switches so far.
    pub cost: Cost,
    /// Records made and lost so far.
    pub counters: Counters,
}

/// A recording that will be saved.
struct Pending {
    /// When the first trigger fired, as the recorder saw it.
    seen: Timestamp,
    fired: Vec<Fired>,
}

/// See the module.
pub struct Flight {
    ring: EventRing<Mark>,
    triggers: Vec<Armed>,
    /// Through which the program writes what triggers look at.
    pipes: Pipes,
    limits: Limits,
    /// Fired since the last step.
    fresh: Vec<Fired>,
    pending: Option<Pending>,
    /// When the last one was saved.
    last: Option<Timestamp>,
    saves: u32,
    suppressed: u64,
    saver: Saver,
    /// Whose marks those are that no thread made.
    pid: u32,
    live: Option<Live>,
    metrics: Option<metrics::Shared>,
}

impl Flight {
    /// `manifest`: what every recording's says. `pid`: the program.
    pub fn new(plan: Plan, manifest: Manifest, pid: u32) -> Result<Flight> {
        let Plan { limits, triggers, report, live, pipes } = plan;
        let metrics = live.as_ref().and_then(|plan| plan.metrics.clone());
        let time = limits.keep + limits.after + SLACK;
        let keep = Keep { time: Duration(time.as_nanos() as u64), bytes: limits.keep_bytes };
        Ok(Flight {
            ring: EventRing::new(keep, Mark::default()),
            triggers,
            pipes,
            fresh: Vec::new(),
            pending: None,
            last: None,
            saves: 0,
            suppressed: 0,
            live: live.map(|plan| Live::new(plan, manifest.clone())),
            metrics,
            saver: Saver::start(manifest, limits.output.clone(), limits.quota, report)?,
            limits,
            pid,
        })
    }

    /// Takes one event.
    pub fn push(&mut self, event: &Event) {
        let Flight { ring, triggers, fresh, .. } = self;
        for armed in triggers {
            armed.event(event, ring.standing(), fresh);
        }
        ring.push(event);
        if let (Some(live), Event::Stack(stack)) = (&mut self.live, event) {
            live.stack(stack);
        }
    }

    /// Looks at what fired. `false`: there is nothing more to wait for.
    pub fn step(&mut self, now: Timestamp) -> bool {
        for fired in self.ask(now) {
            self.note(fired, now);
        }
        if self.ring.take_short() {
            self.saver.say_once(format!(
                "--keep-bytes is too little for --keep: it reaches {:.1} s back",
                now.since(self.ring.begin()).seconds()
            ));
        }
        let is_seen = self.live.as_ref().is_some_and(Live::is_over);
        (self.saves < self.limits.max_saves && !is_seen) || self.pending.is_some()
    }

    /// The recording ends: a program's last words, and what it did just before, may be what one waits for.
    pub fn last_look(&mut self, end: Timestamp) {
        self.pipes.finish();
        for fired in self.ask(end) {
            // Of what is read of it now, it is known that it was before.
            self.note(Fired { at_ns: fired.at_ns.min(end.0), ..fired }, end);
        }
    }

    /// What fired since it was asked last.
    fn ask(&mut self, now: Timestamp) -> Vec<Fired> {
        let Flight { ring, triggers, fresh, .. } = self;
        for armed in triggers {
            armed.step(now, ring.standing(), fresh);
        }
        std::mem::take(fresh)
    }

    fn note(&mut self, fired: Fired, now: Timestamp) {
        if let Some(metrics) = &self.metrics {
            metrics.with(|metrics| metrics.fired(&fired.trigger));
        }
        if let Some(pending) = &mut self.pending {
            if pending.fired.len() < FIRED_MAX {
                pending.fired.push(fired.clone());
                self.mark(&fired);
            }
            return;
        }
        let rests = |last: Timestamp| now.since(last).0 < self.limits.cooldown.as_nanos() as u64;
        if self.saves >= self.limits.max_saves || self.last.is_some_and(rests) || !self.saver.has_room() {
            self.suppressed += 1;
            return;
        }
        eprintln!("holdup: {}: {}", fired.trigger, describe(&fired));
        self.mark(&fired);
        self.pending = Some(Pending { seen: now, fired: vec![fired] });
    }

    /// The recording begins at `at`.
    pub fn begin_at(&mut self, at: Timestamp, mark: Mark) -> Result<()> {
        self.ring.begin_at(at, mark);
        self.live.as_mut().map_or(Ok(()), |live| live.begin(at))
    }

    /// Somebody looks at what there is, and it is time for that.
    pub fn look_is_due(&self, now: Timestamp) -> bool {
        self.live.as_ref().is_some_and(|live| live.is_due(now))
    }

    /// Shows what came since the last look; a segment has just begun.
    pub fn look(&mut self, now: Timestamp, spent: Cost, roots: Roots) {
        let Some(live) = &mut self.live else { return };
        live.hand_over(now, (self.ring.cut_ended_since(live.from()), spent, roots));
        if let Some(metrics) = &self.metrics {
            metrics.with(|metrics| metrics.saved(u64::from(self.saver.kept())));
        }
    }

    /// It is time for a new segment ([`EventRing::is_due`]).
    pub fn is_due(&self) -> bool {
        self.ring.is_due()
    }

    /// Begins one, no earlier than at `at`; `true` if all stacks should be told anew.
    pub fn begin_segment(&mut self, at: Timestamp, mark: Mark) -> bool {
        self.ring.begin_segment_at(at, mark)
    }

    /// Stacks are told anew from now on.
    pub fn stacks_begin_anew(&mut self) {
        self.ring.stacks_begin_anew();
        self.live.iter_mut().for_each(Live::stacks_begin_anew);
    }

    /// Says why triggers cannot fire, each reason once.
    pub fn say(&self, reasons: Vec<String>) {
        reasons.into_iter().for_each(|reason| self.saver.say_once(format!("--trigger: {reason}")));
    }

    /// Something fired, and the time after it is over.
    pub fn is_ripe(&self, now: Timestamp) -> bool {
        let after = Duration(self.limits.after.as_nanos() as u64);
        self.pending.as_ref().is_some_and(|pending| now.since(pending.seen) >= after)
    }

    /// Something fired that is not saved yet.
    pub fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Takes out what is to be saved, up to `end`.
    pub fn cut(&mut self, end: Timestamp) -> Option<(Cut<Mark>, Vec<Fired>)> {
        let Pending { fired, .. } = self.pending.take()?;
        let cut = self.ring.cut(end)?;
        (self.last, self.saves) = (Some(end), self.saves + 1);
        Some((cut, fired))
    }

    /// Has it written.
    pub fn save(&mut self, job: Job) {
        self.saver.save(job);
    }

    /// A mark on the timeline. Now: the recording is in the order of time.
    fn mark(&mut self, fired: &Fired) {
        let thread = self.ring.standing().threads().get(fired.tid);
        let (tgid, tid) = thread.map_or((self.pid, self.pid), |thread| (thread.tgid, fired.tid));
        let at = Timestamp(fired.at_ns);
        let tell = |what, name: &str| Tell { at, tgid, tid, lane: LANE, what, name: name.into() };
        let mark = Told::Mark { value: fired.length_ns, text: describe(fired).into() };
        self.ring.push(&Event::Tell(tell(Told::LaneStart, "holdup watch")));
        self.ring.push(&Event::Tell(tell(mark, &fired.trigger)));
    }

    /// Waits until all is written, and says what came of it.
    pub fn finish(mut self) {
        // Whose screen it is gives it back before anything is said.
        self.live.iter_mut().for_each(Live::finish);
        for armed in &self.triggers {
            if let Some(why) = armed.silence() {
                self.saver.say_once(format!("{}: {why}", armed.text));
            }
        }
        let kept = self.saver.finish();
        if kept == 0 && self.triggers.iter().all(Armed::is_own) {
            return;
        }
        let more = match self.suppressed {
            0 => String::new(),
            more => format!("; triggers fired {more} times more: see --cooldown, --max-saves, --quota"),
        };
        let memory = crate::record::own_cost().recorder_memory_bytes >> 20;
        let plural = if kept == 1 { "" } else { "s" };
        eprintln!("holdup: saved {kept} recording{plural}, with {memory} MiB of memory at the most{more}");
    }
}

/// What happened, and to whom.
fn describe(fired: &Fired) -> String {
    match fired.tid {
        0 => fired.what.clone(),
        tid => format!("thread {tid} ({}) {}", fired.thread, fired.what),
    }
}
