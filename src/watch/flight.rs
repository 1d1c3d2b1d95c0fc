//! The flight recorder: the ring of events, the triggers on it, and pending recordings.

use anyhow::Result;
use std::collections::BTreeSet;

use holdup_capture::bpf::Counters;
use holdup_events::event::{RuntimeEvent, RuntimeEventKind};
use holdup_events::recording::ring::{Cut, EventRing, Keep};
use holdup_events::recording::{Cost, Fired, Manifest};
use holdup_events::{Duration, Event, Timestamp};

use super::cooldown::{Cause, Cooldown};
use super::saver::{Counts, Job, Saver};
use super::triggers::output::Pipes;
use super::triggers::{Firing, Firings};
use super::{Armed, Limits, Plan};
use crate::live::{Live, metrics};
use crate::record::roots::Roots;

/// Maximum delay until a fired trigger is noticed: the recorder sleeps between drains.
const SLACK: std::time::Duration = std::time::Duration::from_secs(1);
/// Maximum number of triggers listed in one recording.
const FIRED_MAX: usize = 64;
/// After this number of consecutive failures to save, recording ends.
const FAILURES_MAX: u32 = 10;
/// The lane on which the moments are marked, a number that no runtime gives.
const LANE: u32 = u32::MAX;

/// State at the begin of a segment. A recording that begins there reports the cost and the events since then.
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
    causes: BTreeSet<Cause>,
    /// The user asked for it.
    is_requested: bool,
}

/// The events to save, taken from memory.
pub struct Saving {
    pub cut: Cut<Mark>,
    pub fired: Vec<Fired>,
    pub is_requested: bool,
}

/// See the module.
pub struct Flight {
    ring: EventRing<Mark>,
    triggers: Vec<Armed>,
    /// The pipes for the program's output, which triggers match.
    pipes: Pipes,
    limits: Limits,
    /// Triggers that fired since the last step.
    firings: Firings,
    pending: Option<Pending>,
    cooldown: Cooldown,
    /// The recording is over.
    is_over: bool,
    suppressed: u64,
    saver: Saver,
    /// PID for marks without a thread.
    pid: u32,
    live: Option<Live>,
    metrics: Option<metrics::Shared>,
}

impl Flight {
    /// `manifest`: the manifest of all recordings. `pid`: the program.
    pub fn new(plan: Plan, manifest: Manifest, pid: u32) -> Result<Flight> {
        let Plan { limits, triggers, processes, report, live, pipes } = plan;
        let metrics = live.as_ref().and_then(|plan| plan.metrics.clone());
        let time = limits.keep + limits.after + SLACK;
        let keep = Keep { time: Duration(time.as_nanos() as u64), bytes: limits.keep_bytes };
        Ok(Flight {
            ring: EventRing::new(keep, Mark::default()),
            triggers,
            pipes,
            firings: Firings::new(processes),
            pending: None,
            cooldown: Cooldown::new(limits.cooldown),
            is_over: false,
            suppressed: 0,
            live: live.map(|plan| Live::new(plan, manifest.clone())),
            metrics,
            saver: Saver::new(manifest, limits.output.clone(), limits.quota, report),
            limits,
            pid,
        })
    }

    /// Takes one event.
    pub fn push(&mut self, event: &Event) {
        let Flight { ring, triggers, firings, .. } = self;
        for armed in triggers {
            armed.event(event, ring.standing(), firings);
        }
        ring.push(event);
        if let (Some(live), Event::Stack(stack)) = (&mut self.live, event) {
            live.stack(stack);
        }
    }

    /// Evaluates fired triggers. All events up to `seen` have been read. Threads that were waiting then may
    /// have continued since, if the recorder was preempted. Returns `false` if the flight recorder should
    /// end.
    pub fn step(&mut self, seen: Timestamp, now: Timestamp) -> bool {
        for firing in self.ask(seen) {
            self.note(firing, now);
        }
        if self.ring.take_short() {
            self.saver.print_once(format!(
                "--keep-bytes is too little for --keep: it reaches {:.1} s back",
                now.since(self.ring.begin()).seconds()
            ));
        }
        let is_seen = self.live.as_ref().is_some_and(Live::is_over);
        (!is_seen && !self.ends_by_number() && !self.gives_up()) || self.pending.is_some()
    }

    /// `--max-saves` is reached, and no signal can ask for more.
    fn ends_by_number(&self) -> bool {
        // A recording that is still to be written may fail, and leave room for another.
        if self.saver.counts().limited_kept < self.limits.max_saves {
            return false;
        }
        let requests: Vec<&str> = self
            .triggers
            .iter()
            .filter(|armed| armed.is_request())
            .map(|armed| armed.text.as_str())
            .collect();
        let next = match requests.is_empty() {
            true => "holdup stops recording".to_owned(),
            false => format!("from now on only {} saves", requests.join(", ")),
        };
        self.saver.print_once(format!("--max-saves {} is reached: {next}", self.limits.max_saves));
        requests.is_empty()
    }

    /// Ends the recorder after repeated failures to save. Not if a user requests each recording, because that
    /// user sees the failures.
    fn gives_up(&self) -> bool {
        let gives_up = self.saver.counts().failed_in_a_row >= FAILURES_MAX && !self.is_own();
        if gives_up {
            self.saver.print_once(format!(
                "{FAILURES_MAX} recordings in a row could not be saved: nothing more is recorded"
            ));
        }
        gives_up
    }

    /// Whether all triggers are holdup's own, as in `holdup top`.
    fn is_own(&self) -> bool {
        self.triggers.iter().all(Armed::is_own)
    }

    /// Evaluates the triggers for the last time. The end of the program's output, and its last events, may
    /// fire one.
    pub fn last_look(&mut self, end: Timestamp) {
        self.is_over = true;
        self.pipes.finish();
        for mut firing in self.ask(end) {
            // Output that is read now was written before the end.
            firing.fired.at_ns = firing.fired.at_ns.min(end.0);
            self.note(firing, end);
        }
    }

    /// Returns the triggers that fired since the last call.
    fn ask(&mut self, now: Timestamp) -> Vec<Firing> {
        let Flight { ring, triggers, firings, .. } = self;
        for armed in triggers {
            armed.step(now, ring.standing(), firings);
        }
        firings.drain()
    }

    fn note(&mut self, firing: Firing, now: Timestamp) {
        let cause = Cause::new(&firing);
        let fired = firing.fired;
        if let Some(metrics) = &self.metrics {
            metrics.with(|metrics| metrics.fired(&fired.trigger));
        }
        if let Some(pending) = &mut self.pending {
            if pending.fired.len() < FIRED_MAX {
                pending.causes.insert(cause);
                pending.fired.push(fired.clone());
                self.mark(&fired);
            }
            return;
        }
        let is_requested =
            self.triggers.iter().any(|armed| armed.is_request() && armed.text == fired.trigger);
        if !self.may_save(&cause, is_requested, now) {
            self.suppressed += 1;
            return;
        }
        say!("holdup: {}: {}", fired.trigger, describe(&fired));
        self.mark(&fired);
        self.pending = Some(Pending { seen: now, fired: vec![fired], causes: [cause].into(), is_requested });
    }

    /// Whether a recording may begin with this cause.
    fn may_save(&self, cause: &Cause, is_requested: bool, now: Timestamp) -> bool {
        let Counts { limited_kept, limited_waiting, .. } = self.saver.counts();
        let is_limited =
            limited_kept + limited_waiting >= self.limits.max_saves || self.cooldown.rests(cause, now);
        (is_requested || !is_limited) && !self.gives_up() && self.saver.has_room()
    }

    /// Moves the start of the kept events to `at`.
    pub fn restart_at(&mut self, at: Timestamp, mark: Mark) {
        self.ring.begin_at(at, mark);
    }

    /// The recording begins at `at`. Privileges were dropped by now: threads that are started here have no more.
    pub fn begin_at(&mut self, at: Timestamp, mark: Mark) -> Result<()> {
        // A program of ours writes from its first moment on, which comes next.
        self.pipes.begin()?;
        self.saver.begin()?;
        self.triggers.iter_mut().for_each(|armed| armed.begin(at));
        self.ring.begin_at(at, mark);
        self.live.as_mut().map_or(Ok(()), |live| live.begin(at))
    }

    /// Whether an interval of the live view is due.
    pub fn look_is_due(&self, now: Timestamp) -> bool {
        self.live.as_ref().is_some_and(|live| live.is_due(now))
    }

    /// Passes the events since the last interval to the live view. A segment has just begun.
    pub fn look(&mut self, now: Timestamp, spent: Cost, roots: Roots) {
        let Some(live) = &mut self.live else { return };
        live.hand_over(now, (self.ring.cut_ended_since(live.from()), spent, roots));
        if let Some(metrics) = &self.metrics {
            metrics.with(|metrics| metrics.saved(u64::from(self.saver.counts().kept)));
        }
    }

    /// Whether a new segment is due ([`EventRing::is_due`]).
    pub fn is_due(&self) -> bool {
        self.ring.is_due()
    }

    /// Begins a segment, no earlier than `at`. Returns `true` if all stacks should be repeated.
    pub fn begin_segment(&mut self, at: Timestamp, mark: Mark) -> bool {
        self.ring.begin_segment_at(at, mark)
    }

    /// From now on the recorder repeats all stacks.
    pub fn restart_stacks(&mut self) {
        self.ring.restart_stacks();
        self.live.iter_mut().for_each(Live::restart_stacks);
    }

    /// Prints why triggers cannot fire, each reason once.
    pub fn print_reasons(&self, reasons: Vec<String>) {
        reasons.into_iter().for_each(|reason| self.saver.print_once(format!("--trigger: {reason}")));
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

    /// Takes the events to save, up to `end`.
    pub fn cut(&mut self, end: Timestamp) -> Option<Saving> {
        let Pending { fired, causes, is_requested, .. } = self.pending.take()?;
        let cut = self.ring.cut(end)?;
        self.cooldown.saved(causes, end);
        Some(Saving { cut, fired, is_requested })
    }

    /// Has it written.
    pub fn save(&mut self, job: Job) {
        self.saver.save(job, self.is_over);
    }

    /// A mark on the timeline. Now: the recording is in the order of time.
    fn mark(&mut self, fired: &Fired) {
        let thread = self.ring.standing().threads().get(fired.tid);
        let (tgid, tid) = thread.map_or((self.pid, self.pid), |thread| (thread.tgid, fired.tid));
        let at = Timestamp(fired.at_ns);
        let tell = |what, name: &str| RuntimeEvent { at, tgid, tid, lane: LANE, what, name: name.into() };
        let mark = RuntimeEventKind::Mark { value: fired.length_ns, text: describe(fired).into() };
        self.ring.push(&Event::Runtime(tell(RuntimeEventKind::LaneStart, "holdup watch")));
        self.ring.push(&Event::Runtime(tell(mark, &fired.trigger)));
    }

    /// Waits until all recordings are written, and prints the result.
    pub fn finish(mut self) {
        // A screen restores the terminal before anything is printed.
        self.live.iter_mut().for_each(Live::finish);
        for armed in &self.triggers {
            if let Some(why) = armed.silence() {
                self.saver.print_once(format!("{}: {why}", armed.text));
            }
        }
        let Counts { kept, failed, .. } = self.saver.finish();
        if kept + failed == 0 && self.is_own() {
            return;
        }
        let lost = match failed {
            0 => String::new(),
            failed => format!(", {failed} could not be saved"),
        };
        let more = match self.suppressed {
            0 => String::new(),
            more => format!(", triggers fired {more} times more: see --cooldown, --max-saves, --quota"),
        };
        let memory = crate::record::own_cost().recorder_memory_bytes >> 20;
        let plural = if kept == 1 { "" } else { "s" };
        say!("holdup: saved {kept} recording{plural}, with {memory} MiB of memory at the most{lost}{more}");
    }
}

/// Describes the event and its thread.
fn describe(fired: &Fired) -> String {
    match fired.tid {
        0 => fired.what.clone(),
        tid => format!("thread {tid} ({}) {}", fired.thread, fired.what),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{File, OpenOptions};
    use std::io::Write;
    use std::path::{Path, PathBuf};
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;
    use crate::record::Recorded;
    use crate::watch::Report;
    use crate::watch::triggers::{Processes, Trigger};
    use holdup_events::standing::Standing;

    const NONE: std::time::Duration = std::time::Duration::ZERO;

    /// A directory, and a flight recorder with a trigger that fires by a line.
    struct Flying {
        place: PathBuf,
        line: File,
        flight: Flight,
        second: u64,
    }

    impl Flying {
        /// Not begun yet.
        fn new(name: &str, (max_saves, output): (u32, &Path), report: Report) -> Flying {
            let place = std::env::temp_dir().join(format!("holdup-flight-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&place);
            std::fs::create_dir_all(&place).unwrap();
            let fifo = place.join("line");
            let mut armed = Armed::parse(&format!("line:{}", fifo.display())).unwrap();
            armed.arm().unwrap();
            let line = OpenOptions::new().write(true).open(fifo).unwrap();
            let limits = Limits {
                keep: std::time::Duration::from_secs(10),
                after: NONE,
                keep_bytes: 1 << 20,
                max_saves,
                cooldown: NONE,
                quota: u64::MAX,
                output: Some(place.join(output)),
            };
            let triggers = vec![armed];
            let processes = Processes::default();
            let plan = Plan { limits, triggers, processes, report, live: None, pipes: Pipes::default() };
            let flight = Flight::new(plan, Manifest::default(), std::process::id()).unwrap();
            Flying { place, line, flight, second: 1 }
        }

        fn begin(&mut self) {
            self.flight.begin_at(Timestamp(1_000_000_000), Mark::default()).unwrap();
        }

        /// Makes a step. Returns `true` if the recorder continues.
        fn step(&mut self) -> bool {
            self.second += 1;
            let now = Timestamp(self.second * 1_000_000_000);
            self.flight.step(now, now)
        }

        /// Fires the trigger and hands over the recording. Returns `true` if it was not suppressed.
        fn fire(&mut self) -> bool {
            self.line.write_all(b"now\n").unwrap();
            self.save()
        }

        /// Makes a step and saves a fired trigger. Returns `false` if nothing is saved.
        fn save(&mut self) -> bool {
            self.step();
            let Some(saving) = self.flight.cut(Timestamp(self.second * 1_000_000_000)) else {
                return false;
            };
            let Saving { cut, fired, is_requested } = saving;
            let (cost, sources, roots) = (Cost::default(), Vec::new(), Roots::default());
            self.flight.save(Job { cut, fired, cost, sources, roots, start_unix_ns: 0, is_requested });
            true
        }

        /// Adds a trigger by which the user asks for recordings. What sends to it asks.
        fn add_request(&mut self) -> Sender<()> {
            let (ask, asked) = channel();
            self.flight.triggers.push(Armed::own("signal:USR2", Box::new(Requests(asked))));
            ask
        }

        /// Returns the counts when no recording is waiting.
        fn counts(&self) -> Counts {
            while self.flight.saver.counts().waiting > 0 {
                std::thread::yield_now();
            }
            self.flight.saver.counts()
        }

        fn end(self) {
            self.flight.finish();
            std::fs::remove_dir_all(&self.place).unwrap();
        }
    }

    /// Fires as a signal does.
    struct Requests(Receiver<()>);

    impl Trigger for Requests {
        fn step(&mut self, now: Timestamp, _: &Standing, fire: &mut dyn FnMut(Fired)) {
            if self.0.try_recv().is_ok() {
                fire(Fired { at_ns: now.0, ..Fired::default() });
            }
        }

        fn is_request(&self) -> bool {
            true
        }
    }

    #[test]
    fn a_signal_saves_within_the_cooldown_and_beyond_max_saves() {
        let mut flying = Flying::new("asked", (1, Path::new("w.holdup")), Box::new(|_| Ok(())));
        let ask = flying.add_request();
        flying.flight.cooldown = Cooldown::new(std::time::Duration::from_secs(1_000));
        flying.begin();
        for _ in 0..2 {
            ask.send(()).unwrap();
            assert!(flying.save());
            flying.counts();
        }
        assert!(!flying.fire(), "a recording was saved just before");
        flying.second += 2_000;
        assert!(flying.fire(), "recordings by a signal do not count");
        let counts = flying.counts();
        assert_eq!((counts.kept, counts.limited_kept), (3, 1));
        flying.second += 20_000;
        assert!(!flying.fire(), "one was allowed");
        assert!(flying.step(), "it goes on for the signal");
        ask.send(()).unwrap();
        assert!(flying.save());
        assert_eq!(flying.counts().kept, 4);
        let said = flying.flight.saver.printed();
        assert_eq!(said, ["--max-saves 1 is reached: from now on only signal:USR2 saves"]);
        flying.end();
    }

    /// A recorder that was kept from its CPU has not read yet that a thread went on.
    #[test]
    fn triggers_look_at_what_was_read_not_at_the_clock() {
        let mut flying = Flying::new("seen", (1, Path::new("w.holdup")), Box::new(|_| Ok(())));
        let ask = flying.add_request();
        flying.begin();
        ask.send(()).unwrap();
        flying.second = 9;
        flying.flight.step(Timestamp(7), Timestamp(9_000_000_000));
        let saving = flying.flight.cut(Timestamp(10_000_000_000)).expect("it fired");
        assert_eq!(saving.fired[0].at_ns, 7);
        flying.end();
    }

    #[test]
    fn reaching_max_saves_is_reported() {
        let mut flying = Flying::new("enough", (1, Path::new("w.holdup")), Box::new(|_| Ok(())));
        flying.begin();
        assert!(flying.fire());
        flying.counts();
        assert!(!flying.step());
        assert_eq!(flying.flight.saver.printed(), ["--max-saves 1 is reached: holdup stops recording"]);
        flying.end();
    }

    #[test]
    fn a_cause_that_saved_has_a_growing_cooldown() {
        let mut flying = Flying::new("causes", (9, Path::new("w.holdup")), Box::new(|_| Ok(())));
        flying.flight.cooldown = Cooldown::new(std::time::Duration::from_secs(10));
        flying.begin();
        let mut saved = Vec::new();
        while flying.second < 90 {
            if flying.fire() {
                saved.push(flying.second);
            }
            flying.counts();
        }
        assert_eq!(saved, [2, 12, 32, 72]);
        flying.end();
    }

    #[test]
    fn what_could_not_be_saved_is_none_of_those_that_were_asked_for() {
        let (sender, told): (Sender<bool>, _) = channel();
        let report = move |recorded: Option<&Recorded>| Ok(sender.send(recorded.is_some())?);
        // A file is in the way.
        let mut flying = Flying::new("fails", (1, Path::new("line/w.holdup")), Box::new(report));
        flying.begin();
        for failures in 1..=FAILURES_MAX {
            assert!(flying.fire());
            let counts = flying.counts();
            assert_eq!((counts.kept, counts.failed, counts.failed_in_a_row), (0, failures, failures));
            assert_eq!(flying.step(), failures < FAILURES_MAX);
        }
        assert!(!flying.fire(), "one more would be no better");
        flying.end();
        assert_eq!(told.iter().collect::<Vec<bool>>(), vec![false; FAILURES_MAX as usize]);
    }

    #[test]
    fn as_many_are_kept_as_were_asked_for() {
        let (go, wait): (Sender<()>, Receiver<()>) = channel();
        let wait = std::sync::Mutex::new(wait);
        let report = move |_: Option<&Recorded>| Ok(wait.lock().map(|wait| wait.recv()).unwrap()?);
        let mut flying = Flying::new("keeps", (2, Path::new("w.holdup")), Box::new(report));
        flying.begin();
        assert!(flying.fire());
        let counts = flying.counts();
        assert_eq!((counts.kept, counts.waiting, counts.failed), (1, 0, 0));
        // The report callback of the first recording still runs.
        assert!(flying.fire());
        assert!(!flying.fire(), "the second one will be enough");
        assert!(flying.step(), "unless it fails");
        go.send(()).unwrap();
        assert_eq!(flying.counts().kept, 2);
        assert!(!flying.step());
        go.send(()).unwrap();
        for number in 1..=2 {
            assert!(flying.place.join(format!("w-{number}.holdup/manifest.json")).exists());
        }
        flying.end();
    }

    #[test]
    fn the_writer_has_no_more_privileges_than_the_recorder() {
        // In a thread of its own: other tests keep their rights.
        let test = std::thread::spawn(|| {
            let (sender, told): (Sender<String>, _) = channel();
            let report = move |_: Option<&Recorded>| Ok(sender.send(privileges())?);
            let mut flying = Flying::new("rights", (1, Path::new("line/w.holdup")), Box::new(report));
            holdup_capture::privileges::drop_unneeded().unwrap();
            flying.begin();
            assert!(flying.fire());
            assert_eq!(told.recv().unwrap(), privileges());
            assert!(privileges().contains("NoNewPrivs:\t1"), "{}", privileges());
            flying.end();
        });
        test.join().unwrap();
    }

    /// Privileges of the calling thread.
    fn privileges() -> String {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let wanted = |line: &&str| line.starts_with("Cap") || line.starts_with("NoNewPrivs");
        status.lines().filter(wanted).collect::<Vec<_>>().join("\n")
    }
}
