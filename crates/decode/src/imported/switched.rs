//! Files with context switches: states are exact.

use std::collections::{HashMap, HashSet};

use holdup_events::event::{
    Lifecycle, LifecycleChange, Outcome, Snapshot, SnapshotState, Switch, TID_UNKNOWN,
};
use holdup_events::{CpuId, Event, Loss, Timestamp};

use super::survey::{Person, Survey};
use super::{MISSING_SWITCH, Record, Records, SAMPLES, SWITCHES, StackIds, Switched, THROTTLED};
use crate::readers::ReadError;

/// Emits the records, beginning with the initial state of each thread. Returns the number of missing
/// switches.
pub(super) fn emit(
    records: &dyn Records,
    survey: &Survey,
    sink: &mut dyn FnMut(Event),
) -> Result<u64, ReadError> {
    let start = survey.summary.span.0;
    for (tid, person) in survey.people().filter(|(_, person)| person.began_before) {
        sink(at_start(tid, person, survey));
    }
    let mut teller = Teller {
        survey,
        stacks: StackIds::default(),
        names: survey.names(),
        running_on: HashMap::new(),
        gone: HashSet::new(),
        last_on: HashMap::new(),
        start,
        exits_are_final: records.exits_are_final(),
        on_cpu: HashMap::new(),
        missing: 0,
    };
    records.each(&mut |record| teller.emit_record(record, sink))?;
    Ok(teller.missing)
}

fn at_start(tid: u32, person: &Person, survey: &Survey) -> Event {
    let tgid = survey.tgid(tid, person.tgid);
    let target = survey.is_target(tid, tgid);
    let state = match &person.at_start {
        SnapshotState::Running(cpu) => SnapshotState::Running(*cpu),
        state if target => state.clone(),
        _ => SnapshotState::Untracked,
    };
    Event::Snapshot(Snapshot {
        at: survey.summary.span.0,
        tid,
        tgid,
        parent_tgid: 0,
        name: person.name.clone(),
        target,
        state,
        exec_ns: None,
        queue_ns: None,
    })
}

struct Teller<'a> {
    survey: &'a Survey,
    stacks: StackIds,
    names: HashMap<u32, String>,
    /// Where a thread was last seen to begin to run.
    running_on: HashMap<u32, CpuId>,
    /// Threads whose life was ended by their exit.
    gone: HashSet<u32>,
    /// When something was last seen on a CPU.
    last_on: HashMap<CpuId, u64>,
    start: Timestamp,
    exits_are_final: bool,
    /// Which thread has a CPU (0: idle) and since when, if that is known.
    on_cpu: HashMap<CpuId, (u32, u64)>,
    missing: u64,
}

impl Teller<'_> {
    fn emit_record(&mut self, record: Record, sink: &mut dyn FnMut(Event)) {
        if let Record::Name { tid, name, .. } = &record {
            self.names.insert(*tid, name.clone());
        }
        match record {
            Record::Name { at, tid, tgid, name, exec } if at > 0 && self.survey.takes_part(tid) => {
                let change =
                    if exec { LifecycleChange::Exec { old_tid: 0 } } else { LifecycleChange::Rename };
                sink(self.lifecycle(at, change, (tid, tgid), name));
            }
            Record::Fork { at, tid, tgid, parent_tid, .. } if at > 0 && self.survey.takes_part(tid) => {
                // An earlier name belongs to a previous thread with the same tid.
                let name = self.names.get(&parent_tid).cloned().unwrap_or_default();
                self.names.insert(tid, name.clone());
                self.gone.remove(&tid);
                sink(self.lifecycle(at, LifecycleChange::Fork { parent_tid }, (tid, tgid), name));
            }
            Record::Exit { at, tid, tgid } if at > 0 && self.survey.takes_part(tid) => {
                self.on_cpu.retain(|_, (running, _)| *running != tid);
                let name = self.names.get(&tid).cloned().unwrap_or_default();
                sink(self.lifecycle(at, LifecycleChange::Exit, (tid, tgid), name));
                if self.exits_are_final && self.gone.insert(tid) {
                    sink(self.end(at, tid, tgid));
                }
            }
            Record::Switch(switched) => self.switch(switched, sink),
            Record::Waking(waking, _) => {
                self.last_on.insert(waking.cpu, waking.at.0);
                sink(Event::Waking(waking));
            }
            Record::Sample(mut sampled) => {
                sampled.sample.tgid = self.survey.tgid(sampled.sample.tid, sampled.sample.tgid);
                self.stacks.emit(sampled, sink);
            }
            Record::Mapping(mut mapping) => {
                mapping.at = mapping.at.max(self.start);
                sink(Event::Mapping(mapping));
            }
            Record::Lost { at, cpu, events, reason } => {
                match cpu {
                    CpuId::NONE => self.on_cpu.clear(),
                    cpu => drop(self.on_cpu.remove(&cpu)),
                }
                sink(self.loss(at, cpu, events, reason));
            }
            Record::Name { .. } | Record::Fork { .. } | Record::Exit { .. } => {}
        }
    }

    fn lifecycle(&self, at: u64, change: LifecycleChange, (tid, tgid): (u32, u32), name: String) -> Event {
        let tgid = self.survey.tgid(tid, tgid);
        let target = self.survey.is_target(tid, tgid);
        // Records before the first switch are moved to the start.
        let at = Timestamp(at).max(self.start);
        Event::Lifecycle(Lifecycle { at, change, tid, tgid, name, target })
    }

    fn switch(&mut self, switched: Switched, sink: &mut dyn FnMut(Event)) {
        self.note_missing(&switched, sink);
        let Switched { at, cpu, prev_tid, prev_tgid, mut outcome, next_tid, .. } = switched;
        self.last_on.insert(cpu, at);
        if next_tid != TID_UNKNOWN {
            self.running_on.insert(next_tid, cpu);
        }
        let prev_tid = if self.gone.contains(&prev_tid) { TID_UNKNOWN } else { prev_tid };
        let prev_tgid = if prev_tid == TID_UNKNOWN { 0 } else { self.survey.tgid(prev_tid, prev_tgid) };
        if outcome != Outcome::Dead && !self.survey.is_target(prev_tid, prev_tgid) {
            outcome = Outcome::Untracked;
        }
        let at = Timestamp(at);
        sink(Event::Switch(Switch { at, cpu, prev_tid, next_tid, prev_tgid, outcome, ..Switch::default() }));
    }

    /// Counts a switch as missing if a thread leaves a CPU on which another thread ran. `perf` for one
    /// process records only switches away from its threads. Some of its versions record only switches to
    /// idle.
    fn note_missing(&mut self, switched: &Switched, sink: &mut dyn FnMut(Event)) {
        let Switched { at, cpu, prev_tid, next_tid, .. } = *switched;
        if cpu == CpuId::NONE {
            return;
        }
        let before = self.on_cpu.remove(&cpu);
        if next_tid != TID_UNKNOWN {
            self.on_cpu.insert(cpu, (next_tid, at));
        }
        // Context-switch records describe one side each: a thread gets the CPU, but the previous thread's
        // departure is missing.
        let is_other = |running: u32| running != if prev_tid == TID_UNKNOWN { next_tid } else { prev_tid };
        if let Some((_, since)) = before.filter(|(running, _)| is_other(*running)) {
            self.missing += 1;
            let (start, end) = (Timestamp(since).max(self.start), Timestamp(at).max(self.start));
            let (source, reason) = (SWITCHES.to_owned(), MISSING_SWITCH.to_owned());
            sink(Event::Loss(Loss { source, reason, cpu, start, end, events: 1 }));
        }
    }

    /// A thread's last switch, if the file has only its exit.
    fn end(&mut self, at: u64, tid: u32, tgid: u32) -> Event {
        Event::Switch(Switch {
            at: Timestamp(at).max(self.start),
            cpu: self.running_on.remove(&tid).unwrap_or(CpuId::NONE),
            prev_tid: tid,
            next_tid: TID_UNKNOWN,
            prev_tgid: self.survey.tgid(tid, tgid),
            outcome: Outcome::Dead,
            ..Switch::default()
        })
    }

    fn loss(&self, at: u64, cpu: CpuId, events: u64, reason: &str) -> Event {
        let end = Timestamp(at).max(self.start);
        let last = self.last_on.get(&cpu).map_or(self.start, |last| Timestamp(*last).max(self.start));
        let start = last.min(end);
        // Throttling drops samples of one event. Switches are complete.
        let source = if reason == THROTTLED { SAMPLES } else { SWITCHES };
        Event::Loss(Loss { source: source.to_owned(), reason: reason.to_owned(), cpu, start, end, events })
    }
}
