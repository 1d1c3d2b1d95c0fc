//! Recording round in memory (`holdup watch`): the same loop, whose events go to a flight recorder, and what that asks of it.

use std::ffi::OsString;
use std::rc::Rc;

use anyhow::{Result, anyhow};
use holdup_capture::bpf::Counters;
use holdup_capture::{launch, lower, memory};
use holdup_events::Timestamp;
use holdup_events::recording::{Backend, Cost, SourceState};

use super::backends::{Backends, run_unrecorded};
use super::bpf::{Loop, recorded_streams};
use super::output::Output;
use super::roots::Roots;
use super::{Recorder, Subject, bpf, manifest, unix_ns};
use crate::cli::RecordArgs;
use crate::watch::{Flight, Job, Mark, Plan, Saving, triggers};

/// Records `subject` until it ends or the user stops it, and keeps what the plan's triggers ask for. How a program of ours ended.
pub fn watch(
    mut subject: Subject,
    command: Vec<String>,
    options: &RecordArgs,
    plan: Plan,
) -> Result<Option<launch::Ending>> {
    memory::keep_nothing_large();
    // Before anything happens: a recording that has no place would be lost.
    plan.limits.output.as_deref().map_or(Ok(()), super::place::check_above)?;
    let backends = Backends::choose(options.backend, &subject)?;
    let (backend, reason) = (backends.current(), backends.reason());
    if backend != Backend::Bpf {
        return run_unrecorded(subject, needs_bpf(&reason)).map(Some);
    }
    super::hardware::check(&options.counters).map_err(anyhow::Error::msg)?;
    let program = matches!(subject, Subject::Run(..)).then(|| command.first().map(OsString::from)).flatten();
    let mut manifest = manifest(&subject, command, options, (backend, reason));
    "watch".clone_into(&mut manifest.mode);
    let pid = match &subject {
        Subject::Run(held, _) => held.pid(),
        Subject::Attach { pid, .. } => *pid,
        Subject::All => 1,
    };
    let beside = subject.take_helpers();
    let mut descriptors = crate::commands::descriptors::read(&options.descriptors)?;
    if let Some(text) = triggers::descriptor(&plan.triggers) {
        descriptors = descriptors.with(&[text])?;
    }
    let recorder = Recorder {
        journal: Output::Flight(Box::new(Flight::new(plan, manifest, pid)?)),
        options: options.clone(),
        length: None,
        program,
        rings: beside.rings.map(Rc::new),
        allocations: None,
        descriptors,
    };
    match bpf::prepare(&subject, recorder) {
        Ok(ready) => Ok(ready.run(subject)?.ending),
        Err(error) if backends.may_run_without(&subject) => {
            run_unrecorded(subject, needs_bpf(&format!("{error:#}"))).map(Some)
        }
        Err(error) => Err(error),
    }
}

fn needs_bpf(reason: &str) -> anyhow::Error {
    anyhow!("a flight recorder needs BPF, which is not available here: {reason}. See `holdup doctor`")
}

/// Returns the events delivered and lost since `before`.
fn since(now: &Counters, before: &Counters) -> Counters {
    let mut new = now.clone();
    let all = new.records.iter_mut().zip(&mut new.lost).zip(before.records.iter().zip(&before.lost));
    for ((records, lost), (records_before, lost_before)) in all {
        *records = records.saturating_sub(*records_before);
        *lost = lost.saturating_sub(*lost_before);
    }
    new
}

impl Loop {
    /// Evaluates the triggers, if any. Returns `false` after the last recording has been saved.
    pub(super) fn step_flight(&mut self) -> bool {
        let (seen, now) = (self.drained, lower::now());
        let Output::Flight(flight) = &mut self.journal else { return true };
        let goes_on = flight.step(seen, now);
        let (ripe, look) = (flight.is_ripe(now), flight.look_is_due(now));
        if look || flight.is_due() {
            self.begin_segment(look);
        }
        if look {
            self.look(now);
        }
        if ripe {
            self.save_flight();
        }
        goes_on
    }

    /// The recording begins.
    pub(super) fn begin_at(&mut self, start: Timestamp) -> Result<()> {
        let mark = self.mark();
        match &mut self.journal {
            Output::Flight(flight) => flight.begin_at(start, mark),
            Output::Journal(journal, ..) => {
                journal.begin_at(start);
                Ok(())
            }
        }
    }

    /// Moves the start to the release of the program. No event has been drained since [`Loop::begin_at`].
    pub(super) fn restart_at(&mut self, start: Timestamp) {
        let mark = self.mark();
        match &mut self.journal {
            Output::Flight(flight) => flight.restart_at(start, mark),
            Output::Journal(journal, ..) => journal.begin_at(start),
        }
    }

    /// Passes the events since the last interval to the live view.
    fn look(&mut self, now: Timestamp) {
        let spent = self.spent();
        let roots = self.roots_so_far();
        if let Output::Flight(flight) = &mut self.journal {
            flight.look(now, spent, roots);
        }
    }

    /// Roots, and files that ran.
    fn roots_so_far(&self) -> Roots {
        let mut roots = self.roots.clone();
        roots.keep(self.stack_tables.kept());
        roots
    }

    fn mark(&self) -> Mark {
        Mark { cost: self.spent(), counters: self.session.counters() }
    }

    /// `is_seen`: it begins where the last one is seen to end, though nothing may have happened since long.
    fn begin_segment(&mut self, is_seen: bool) {
        let at = if is_seen { self.drained } else { Timestamp(0) };
        let (mark, missing) = (self.mark(), self.span_probes.missing(triggers::RUNTIME));
        let Output::Flight(flight) = &mut self.journal else { return };
        flight.print_reasons(missing);
        // Where that is refused, definitions go on taking room.
        if flight.begin_segment(at, mark) && self.session.restart_stacks().is_ok() {
            flight.restart_stacks();
        }
    }

    /// Returns the cost so far.
    fn spent(&self) -> Cost {
        let probes = self.probe_cost();
        Cost {
            probes_cpu_ns: probes.total_ns as u64,
            probes_cpu_error_ns: probes.error_ns as u64,
            stacks_cpu_ns: (probes.stacks_ns + probes.waker_stacks_ns) as u64,
            budget_percent: self.budget_percent,
            switches: self.tally.switches,
            ..super::own_cost()
        }
    }

    /// Ends a recording here, as if it were the end, and goes on with the next.
    fn save_flight(&mut self) {
        self.counts.look(&self.session, &mut self.decoder, &mut |event| self.journal.push(&event));
        // The snapshot of thread states and run times makes the last rows exact. Without it they are slightly
        // less exact.
        let _ = self.snapshot(false);
        let end = lower::now();
        self.drain_to_now();
        self.hand_over(end);
    }

    /// Before the end, saves the pending recording with the available events.
    pub(super) fn save_last(&mut self, end: Timestamp) {
        let missing = self.span_probes.missing(triggers::RUNTIME);
        if let Output::Flight(flight) = &mut self.journal {
            flight.print_reasons(missing);
            flight.last_look(end);
        }
        if matches!(&self.journal, Output::Flight(flight) if flight.is_pending()) {
            self.hand_over(end);
        }
    }

    fn hand_over(&mut self, end: Timestamp) {
        let (cost, counters) = (self.spent(), self.session.counters());
        let roots = self.roots_so_far();
        let Output::Flight(flight) = &mut self.journal else { return };
        let Some(Saving { cut, fired, is_requested }) = flight.cut(end) else { return };
        let mut sources = recorded_streams(&since(&counters, &cut.mark.counters));
        sources.push(SourceState {
            name: "mappings".to_owned(),
            active: self.mappings.is_some(),
            ..SourceState::default()
        });
        let start_unix_ns = unix_ns().saturating_sub(lower::now().since(cut.start).0);
        flight.save(Job { cut, fired, cost, sources, roots, start_unix_ns, is_requested });
    }
}
