//! First pass over a file: participating threads, kernel threads, start and end.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use holdup_events::event::{RawWait, SnapshotState, TID_UNKNOWN};
use holdup_events::{CpuId, Timestamp};

use super::{ImportSummary, Record, Records, THROTTLED};
use crate::readers::{ReadError, Wanted};

/// The kernel's own threads are children of this one.
const KTHREADD: u32 = 2;

/// A thread as the survey knows it.
#[derive(Clone, Debug)]
pub(super) struct Person {
    /// Process id (tgid), 0 if unknown.
    pub tgid: u32,
    /// First name of the thread.
    pub name: String,
    /// The thread existed before the recording.
    pub began_before: bool,
    /// State at the start of the recording, derived from the thread's first record.
    pub at_start: SnapshotState,
    /// The thread has records of activity.
    takes_part: bool,
}

/// Threads and time span of a file.
#[derive(Default)]
pub(super) struct Survey {
    pub summary: ImportSummary,
    people: BTreeMap<u32, Person>,
    parents: HashMap<u32, u32>,
    chosen: Option<BTreeSet<u32>>,
    period_sum_ns: u128,
    period_of_first: Option<u64>,
    period_max_ns: u64,
}

impl Survey {
    pub fn new(records: &dyn Records, wanted: &Wanted) -> Result<Survey, ReadError> {
        let mut survey = Survey::default();
        let mut span: Option<(u64, u64)> = None;
        let mut chosen = BTreeSet::new();
        records.each(&mut |record| {
            // Records of the state before the recording have time 0. Mappings may also be older.
            let at = record.at();
            if at > 0 && matches!(record, Record::Sample(_) | Record::Switch(_) | Record::Waking(..)) {
                let (start, end) = span.unwrap_or((at, at));
                span = Some((start.min(at), end.max(at)));
            }
            survey.take(&record);
            if !wanted.process.is_empty() {
                choose(&record, &wanted.process, &mut chosen);
            }
        })?;
        if !wanted.process.is_empty() {
            survey.chosen = Some(survey.descendants(chosen));
        }
        let (start, end) = span.unwrap_or_default();
        survey.summary.span = (Timestamp(start), Timestamp(end));
        let mean = survey.period_sum_ns / u128::from(survey.summary.samples.max(1));
        survey.summary.sample_period_ns = u64::try_from(mean).unwrap_or(0);
        // The time that the first sample represents began before it.
        if !survey.summary.switched {
            survey.summary.span.0 =
                survey.summary.span.0 - holdup_events::Duration(survey.summary.sample_period_ns);
        }
        Ok(survey)
    }

    /// The threads that take part and were there when the recording began.
    pub fn people(&self) -> impl Iterator<Item = (u32, &Person)> {
        self.people.iter().filter(|(_, person)| person.takes_part).map(|(tid, person)| (*tid, person))
    }

    /// The first name of each thread, of those too that do not take part.
    pub fn names(&self) -> HashMap<u32, String> {
        self.people.iter().map(|(tid, person)| (*tid, person.name.clone())).collect()
    }

    /// Whether it takes part.
    pub fn takes_part(&self, tid: u32) -> bool {
        self.people.get(&tid).is_some_and(|person| person.takes_part)
    }

    /// Longest period of a sample (ns).
    pub fn period_max_ns(&self) -> u64 {
        self.period_max_ns
    }

    /// Process of a thread. The thread's own id if its process is unknown.
    pub fn tgid(&self, tid: u32, told: u32) -> u32 {
        match self.people.get(&tid) {
            _ if told != 0 || tid == 0 => told,
            Some(person) if person.tgid != 0 => person.tgid,
            _ => tid,
        }
    }

    /// Whether a thread belongs to the analysed program.
    pub fn is_target(&self, tid: u32, tgid: u32) -> bool {
        if tid == 0 || tid == KTHREADD || self.parents.get(&tid) == Some(&KTHREADD) {
            return false;
        }
        self.chosen.as_ref().is_none_or(|chosen| chosen.contains(&tgid))
    }

    fn person(&mut self, tid: u32, tgid: u32, name: &str) -> &mut Person {
        let person = self.people.entry(tid).or_insert_with(|| Person {
            tgid,
            name: name.to_owned(),
            began_before: true,
            at_start: SnapshotState::Untracked,
            takes_part: false,
        });
        if person.tgid == 0 {
            person.tgid = tgid;
        }
        if person.name.is_empty() {
            name.clone_into(&mut person.name);
        }
        person
    }

    fn seen(&mut self, tid: u32, tgid: u32, name: &str, at_start: SnapshotState) {
        if tid == TID_UNKNOWN || tid == 0 {
            return;
        }
        let person = self.person(tid, tgid, name);
        if !person.takes_part {
            person.takes_part = true;
            person.at_start = at_start;
        }
    }

    fn take(&mut self, record: &Record) {
        match record {
            Record::Name { tid, tgid, name, .. } => {
                self.person(*tid, *tgid, name);
            }
            Record::Fork { at, tid, tgid, parent_tid, parent_tgid } => {
                let new = !self.people.contains_key(tid);
                let person = self.person(*tid, *tgid, "");
                person.began_before &= !(new && *at > 0);
                if tid == tgid || parent_tgid != tgid {
                    self.parents.insert(*tgid, *parent_tgid);
                }
                self.parents.entry(*tid).or_insert(*parent_tid);
            }
            Record::Sample(sampled) => {
                self.summary.samples += 1;
                self.period_sum_ns += u128::from(sampled.period_ns);
                self.period_max_ns = self.period_max_ns.max(sampled.period_ns);
                let first = *self.period_of_first.get_or_insert(sampled.period_ns);
                self.summary.periods_vary |= first != sampled.period_ns;
                let sample = &sampled.sample;
                self.seen(sample.tid, sample.tgid, &sampled.name, SnapshotState::Untracked);
            }
            Record::Switch(switched) => {
                self.summary.switches += 1;
                self.summary.switched = true;
                let running = SnapshotState::Running(switched.cpu);
                self.seen(switched.prev_tid, switched.prev_tgid, &switched.prev_name, running);
                self.seen(
                    switched.next_tid,
                    switched.next_tgid,
                    &switched.next_name,
                    SnapshotState::Runnable,
                );
            }
            Record::Waking(waking, name) => {
                self.summary.wakeups += 1;
                self.seen(waking.wakee_tid, 0, name, SnapshotState::Blocked(unknown_wait(0)));
            }
            Record::Lost { events, reason, .. } => {
                let sum =
                    if *reason == THROTTLED { &mut self.summary.held_back } else { &mut self.summary.lost };
                *sum = sum.saturating_add(*events);
            }
            Record::Exit { .. } | Record::Mapping(_) => {}
        }
    }

    /// The chosen processes and all that they started.
    fn descendants(&self, mut chosen: BTreeSet<u32>) -> BTreeSet<u32> {
        let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
        for (child, parent) in &self.parents {
            children.entry(*parent).or_default().push(*child);
        }
        let mut ask: Vec<u32> = chosen.iter().copied().collect();
        while let Some(parent) = ask.pop() {
            let new = children.get(&parent).into_iter().flatten().filter(|child| chosen.insert(**child));
            ask.extend(new);
        }
        chosen
    }
}

/// Notes the process of a record if it is the one that is wanted, by number or by name.
fn choose(record: &Record, wanted: &str, chosen: &mut BTreeSet<u32>) {
    let number: Option<u32> = wanted.parse().ok();
    let mut consider = |tid: u32, tgid: u32, name: &str| {
        let tgid = if tgid == 0 { tid } else { tgid };
        if (number == Some(tgid) || (number.is_none() && name == wanted)) && tid != TID_UNKNOWN {
            chosen.insert(tgid);
        }
    };
    match record {
        Record::Name { tid, tgid, name, .. } => consider(*tid, *tgid, name),
        Record::Fork { tid, tgid, .. } => consider(*tid, *tgid, ""),
        Record::Sample(sampled) => consider(sampled.sample.tid, sampled.sample.tgid, &sampled.name),
        Record::Switch(switched) => {
            consider(switched.prev_tid, switched.prev_tgid, &switched.prev_name);
            consider(switched.next_tid, switched.next_tgid, &switched.next_name);
        }
        _ => {}
    }
}

/// A wait of which only the task's state bits are known.
pub(crate) fn unknown_wait(state: u32) -> Box<RawWait> {
    Box::new(RawWait { state, syscall: i32::MIN, ..RawWait::default() })
}

/// A CPU number of a file. Implausible numbers give [`CpuId::NONE`].
pub(crate) fn cpu(number: u32) -> CpuId {
    match u16::try_from(number) {
        Ok(number) if number < 8192 => CpuId(number),
        _ => CpuId::NONE,
    }
}
