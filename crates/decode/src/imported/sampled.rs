//! Files with only samples: a thread is assumed to run for one period before each sample. Its other states
//! are unknown. Emits snapshots whose CPU time yields running slices.

use std::collections::HashMap;

use holdup_events::event::{Lifecycle, LifecycleChange, Snapshot, SnapshotState};
use holdup_events::{CpuId, Duration, Event, Loss, Timestamp};

use super::survey::Survey;
use super::{Record, Records, SAMPLES, Sampled, StackIds};
use crate::readers::ReadError;
use crate::reorder::Reorder;

/// Samples come early or late, and other threads may have used the CPU in between. Time of a thread's samples
/// that did not fit is carried over to its later samples. The maximum is this number of periods.
const OWED_MAX: u64 = 8;

/// Emits the records in time order. A run begins before its sample.
pub(super) fn emit(
    records: &dyn Records,
    survey: &Survey,
    sink: &mut dyn FnMut(Event),
) -> Result<(), ReadError> {
    let mut order =
        Reorder::new(Duration(survey.period_max_ns().saturating_mul(OWED_MAX + 1).saturating_add(1)));
    let mut teller = Teller {
        survey,
        stacks: StackIds::default(),
        names: survey.names(),
        lives: HashMap::new(),
        ran_until: HashMap::new(),
    };
    let mut forward = |event: Event| order.push(event, sink);
    for (tid, person) in survey.people().filter(|(_, person)| person.began_before) {
        let tgid = survey.tgid(tid, person.tgid);
        if survey.is_target(tid, tgid) {
            teller.begin(survey.summary.span.0, (tid, tgid), &person.name);
            teller.look(survey.summary.span.0, tid, SnapshotState::Untracked, &mut forward);
        }
    }
    records.each(&mut |record| teller.emit_record(record, &mut forward))?;
    teller.finish(survey.summary.span.1, &mut forward);
    order.finish(sink);
    Ok(())
}

/// A thread of the program that lives.
struct Life {
    tgid: u32,
    name: String,
    ran_ns: u64,
    /// See [`OWED_MAX`].
    owed_ns: u64,
    /// End of the emitted part.
    until: Timestamp,
}

struct Teller<'a> {
    survey: &'a Survey,
    stacks: StackIds,
    names: HashMap<u32, String>,
    lives: HashMap<u32, Life>,
    /// End of the last known run of any thread, by CPU.
    ran_until: HashMap<CpuId, Timestamp>,
}

impl Teller<'_> {
    fn emit_record(&mut self, record: Record, sink: &mut dyn FnMut(Event)) {
        let start = self.survey.summary.span.0;
        if let Record::Name { tid, name, .. } = &record {
            self.names.insert(*tid, name.clone());
        }
        match record {
            Record::Name { at, tid, tgid, name, exec } if at > 0 && self.survey.takes_part(tid) => {
                if let Some(life) = self.lives.get_mut(&tid) {
                    name.clone_into(&mut life.name);
                }
                let change =
                    if exec { LifecycleChange::Exec { old_tid: 0 } } else { LifecycleChange::Rename };
                let at = Timestamp(at).max(start);
                sink(self.lifecycle(at, change, (tid, tgid), name));
            }
            Record::Fork { at, tid, tgid, parent_tid, .. } if at > 0 && self.survey.takes_part(tid) => {
                let at = Timestamp(at).max(start);
                self.end(tid, at, sink);
                let name = self.names.get(&parent_tid).cloned().unwrap_or_default();
                self.names.insert(tid, name.clone());
                if self.survey.is_target(tid, tgid) {
                    self.begin(at, (tid, tgid), &name);
                }
                sink(self.lifecycle(at, LifecycleChange::Fork { parent_tid }, (tid, tgid), name));
            }
            Record::Exit { at, tid, .. } if at > 0 => self.end(tid, Timestamp(at).max(start), sink),
            Record::Sample(sampled) => self.sample(sampled, sink),
            Record::Mapping(mut mapping) => {
                mapping.at = mapping.at.max(start);
                sink(Event::Mapping(mapping));
            }
            Record::Lost { at, cpu, events, reason } => sink(Event::Loss(Loss {
                source: SAMPLES.to_owned(),
                reason: reason.to_owned(),
                cpu,
                start: self.ran_until.get(&cpu).copied().unwrap_or(start).min(Timestamp(at).max(start)),
                end: Timestamp(at).max(start),
                events,
            })),
            _ => {}
        }
    }

    fn lifecycle(
        &self,
        at: Timestamp,
        change: LifecycleChange,
        (tid, tgid): (u32, u32),
        name: String,
    ) -> Event {
        let tgid = self.survey.tgid(tid, tgid);
        let target = self.survey.is_target(tid, tgid);
        Event::Lifecycle(Lifecycle { at, change, tid, tgid, name, target })
    }

    fn begin(&mut self, at: Timestamp, (tid, tgid): (u32, u32), name: &str) {
        self.lives.insert(tid, Life { tgid, name: name.to_owned(), ran_ns: 0, owed_ns: 0, until: at });
    }

    fn sample(&mut self, mut sampled: Sampled, sink: &mut dyn FnMut(Event)) {
        let sample = &mut sampled.sample;
        sample.tgid = self.survey.tgid(sample.tid, sample.tgid);
        let (at, cpu, tid) = (sample.at, sample.cpu, sample.tid);
        let period = Duration(sampled.period_ns);
        let start = self.survey.summary.span.0;
        self.stacks.emit(sampled, sink);
        let free = self.ran_until.get(&cpu).copied().filter(|_| cpu != CpuId::NONE).unwrap_or(start);
        self.ran_until.insert(cpu, at.max(free));
        // A sample may come after the thread's exit, and of threads that are not the program's.
        let Some(life) = self.lives.get_mut(&tid) else { return };
        let due_ns = period.0.saturating_add(life.owed_ns);
        let from = (at - Duration(due_ns)).max(life.until).max(free).min(at);
        let told_ns = at.since(from).0;
        life.owed_ns = due_ns.saturating_sub(told_ns).min(period.0.saturating_mul(OWED_MAX));
        if told_ns == 0 {
            return;
        }
        if from > life.until {
            self.look(from, tid, SnapshotState::Untracked, sink);
        }
        if let Some(life) = self.lives.get_mut(&tid) {
            life.ran_ns = life.ran_ns.saturating_add(told_ns);
        }
        self.look(at, tid, SnapshotState::Running(cpu), sink);
    }

    /// Emits a thread's CPU time up to `at`.
    fn look(&mut self, at: Timestamp, tid: u32, state: SnapshotState, sink: &mut dyn FnMut(Event)) {
        let Some(life) = self.lives.get_mut(&tid) else { return };
        life.until = at;
        sink(Event::Snapshot(Snapshot {
            at,
            tid,
            tgid: life.tgid,
            parent_tgid: 0,
            name: life.name.clone(),
            target: true,
            state,
            exec_ns: Some(life.ran_ns),
            queue_ns: Some(0),
        }));
    }

    fn end(&mut self, tid: u32, at: Timestamp, sink: &mut dyn FnMut(Event)) {
        let Some(life) = self.lives.get(&tid) else { return };
        let at = at.max(life.until);
        self.look(at, tid, SnapshotState::Untracked, sink);
        self.look(at, tid, SnapshotState::Dead, sink);
        self.lives.remove(&tid);
    }

    fn finish(&mut self, end: Timestamp, sink: &mut dyn FnMut(Event)) {
        let mut tids: Vec<u32> = self.lives.keys().copied().collect();
        tids.sort();
        for tid in tids {
            self.look(end, tid, SnapshotState::Untracked, sink);
        }
    }
}
