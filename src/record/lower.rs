//! The other backends (`perf`, `proc`): the loop that drains them into the journal.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use holdup_capture::lower::{self, Mode, Target};
use holdup_capture::{launch, privileges};
use holdup_events::recording::{Backend, SourceState};
use holdup_events::{Event, Timestamp};

use super::roots::Roots;
use super::runtime_events::RingFeed;
use super::{Other, Outcome, Recorder, Subject, Tally, Watched};

const FLUSH_EVERY: Duration = Duration::from_millis(250);

/// A recording with an open source. The recorded program does not run yet.
pub struct Ready {
    source: Box<dyn lower::Backend>,
    recorder: Recorder,
    target: Target,
}

/// Opens a backend that needs no BPF.
///
/// # Errors
/// If the kernel refuses it, or the process cannot be observed.
pub fn prepare(subject: &Subject, backend: Backend, recorder: Recorder) -> Result<Ready> {
    let (pid, mode) = match subject {
        Subject::Run(held, _) => (held.pid(), Mode::Run),
        Subject::Attach { pid, only: false } => (*pid, Mode::Attach),
        Subject::Attach { pid, only: true } => (*pid, Mode::Only),
        Subject::All => anyhow::bail!("--all needs BPF"),
    };
    let target = Target { pid, mode, sample_hz: recorder.options.freq };
    let source = lower::open(backend, &target).with_context(|| match (mode, lower::hidden(pid)) {
        (Mode::Attach, Some(why)) => format!("cannot record process {pid}: {why}"),
        _ => format!("cannot record process {pid}"),
    })?;
    privileges::drop_unneeded()?;
    Ok(Ready { source, recorder, target })
}

impl Ready {
    /// Records until the end.
    ///
    /// # Errors
    /// The program cannot be run.
    pub fn run(self, subject: Subject) -> Result<Outcome> {
        record(self, subject)
    }
}

fn record(ready: Ready, subject: Subject) -> Result<Outcome> {
    let Ready { mut source, recorder, target: Target { pid, mode, .. } } = ready;
    let mut journal = recorder.journal;
    let processes = BTreeSet::from([pid]);
    let mut tally = Tally::default();
    let mut start_ns = lower::now().0;
    let mut rings = RingFeed::new(recorder.rings, !matches!(mode, Mode::Run), Timestamp(start_ns));
    journal.begin_at(Timestamp(start_ns));
    let mut watched = match subject {
        Subject::Run(held, _) => Watched::Child(held.release()?),
        _ => Watched::Process(Other::new(pid)),
    };
    match watched.released() {
        Some(released) => {
            start_ns = released.0;
            journal.begin_at(released);
        }
        None => launch::watch_signals()?,
    }
    let mut flushed = Instant::now();
    let mut take = |event: Event, journal: &mut super::Output| {
        tally.count(&event);
        journal.push(&event);
    };
    let before = super::own_cost();
    let left = super::start_clock(recorder.length);
    let ending = loop {
        source.drain(&mut |event| take(event, &mut journal));
        rings.step(&processes, &mut |event| journal.push(&event));
        if let Some(ending) = watched.ended() {
            break ending;
        }
        if left().is_zero() || watched.stopped() {
            break None;
        }
        if flushed.elapsed() >= FLUSH_EVERY {
            journal.flush();
            flushed = Instant::now();
        }
        std::thread::sleep(source.interval().min(left()));
    };
    source.finish(&mut |event| take(event, &mut journal));
    let end_ns = lower::now().0;
    let mut cost = super::cost_since(&before);
    let rings = rings.finish((&processes, Timestamp(end_ns)), &mut |event| journal.push(&event));
    journal.flush();
    cost.switches = tally.switches;
    let name = match source.backend() {
        Backend::Perf => "perf",
        _ => "proc",
    };
    let mut sources = vec![SourceState {
        name: name.to_owned(),
        active: true,
        missing: source.missing(),
        events: tally.events,
        lost: tally.lost,
    }];
    sources.extend(rings);
    let (dropped, lag_ns) = (journal.dropped().cloned(), journal.lag().0);
    let memory = watched.memory();
    let threads_seen = tally.threads;
    let roots = Roots::default();
    Ok(Outcome { start_ns, end_ns, threads_seen, lag_ns, ending, memory, cost, sources, dropped, roots })
}
