//! Common code of the importers: from neutral [`Record`]s to events.
//!
//! There are two cases. If the file has context switches, states are exact, and only the reasons of waits are
//! unknown. If it has only samples, a thread is assumed to run for one sample period before each sample. Its
//! other states are unknown. Such files are emitted as snapshots, as if by polling.

mod bytes;
mod laid;
mod lanes;
mod names;
pub(crate) mod races;
mod sampled;
mod survey;
mod switched;

use holdup_events::event::{Outcome, RawMapping, RawMemory, RawStack, Sample};
use holdup_events::recording::{Backend, Host, SourceState};
use holdup_events::{CpuId, Event, Timestamp};

use crate::readers::{ReadError, Wanted};
pub(crate) use bytes::Bytes;
pub(crate) use laid::Laid;
pub(crate) use lanes::LaneThread;
pub use names::Names;
pub(crate) use names::{NAME_MAX, TEXT_MAX, cut};
use survey::Survey;
pub(crate) use survey::{cpu, unknown_wait};

/// A span of more than 30 days is a broken clock, not a recording (ns).
const SPAN_MAX_NS: u64 = 30 * 24 * 3_600 * 1_000_000_000;

/// Names of sources, for losses and for the manifest.
pub(crate) const SAMPLES: &str = "perf-samples";
pub(crate) const SWITCHES: &str = "perf-sched";

/// Reason of a loss: other switches show that one is missing.
pub(crate) const MISSING_SWITCH: &str = "missing-switches";

/// Reason of a loss: the kernel held samples back.
pub(crate) const THROTTLED: &str = "throttled";

/// An importer's knowledge of a recording, besides its events.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The host, as far as the file describes it.
    pub host: Host,
    /// The command line that made the recording, or empty.
    pub command: Vec<String>,
    /// First and last moment.
    pub span: (Timestamp, Timestamp),
    /// The backend that records as much.
    pub backend: Backend,
    /// Limits of the file: sentences without the last full stop.
    pub limits: String,
    /// Thread time that a sample represents (ns). 0 if there are no samples or they do not represent time.
    pub sample_period_ns: u64,
    /// Sources in the file.
    pub sources: Vec<SourceState>,
    /// For files with names: addresses in stacks are indices into this.
    pub names: Option<Names>,
    /// The kernel, to know whether it is this machine's.
    pub kernel: Kernel,
}

/// Identity of a booted kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kernel {
    /// Address of its symbol `_text` (or `_stext`), 0 if unknown.
    pub text_address: u64,
    /// Build id of the kernel, empty if unknown.
    pub build_id: Vec<u8>,
}

/// A record of an imported file.
#[derive(Clone, Debug)]
pub(crate) enum Record {
    /// A thread has this name from now on.
    Name { at: u64, tid: u32, tgid: u32, name: String, exec: bool },
    /// A thread is born.
    Fork { at: u64, tid: u32, tgid: u32, parent_tid: u32, parent_tgid: u32 },
    /// A thread exits.
    Exit { at: u64, tid: u32, tgid: u32 },
    /// A thread was seen running.
    Sample(Sampled),
    /// A thread stops or starts running.
    Switch(Switched),
    /// A thread is made runnable.
    Waking(holdup_events::event::Waking, String),
    /// A file is mapped.
    Mapping(RawMapping),
    /// Something is missing before this moment.
    Lost { at: u64, cpu: CpuId, events: u64, reason: &'static str },
}

/// See [`Record::Sample`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Sampled {
    /// The sample. Its stack id is unused, because the stack is given here.
    pub sample: Sample,
    /// Thread name, if the record has it.
    pub name: String,
    /// Leaf first.
    pub addresses: Vec<u64>,
    /// How many of them are the kernel's.
    pub kernel_frames: u16,
    /// To be walked later: then the user's addresses are missing.
    pub raw: Option<Box<RawMemory>>,
    /// CPU time that the sample represents (ns), 0 if unknown.
    pub period_ns: u64,
}

/// See [`Record::Switch`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Switched {
    pub at: u64,
    pub cpu: CpuId,
    pub prev_tid: u32,
    pub prev_tgid: u32,
    pub prev_name: String,
    pub next_tid: u32,
    pub next_tgid: u32,
    pub next_name: String,
    pub outcome: Outcome,
}

impl Record {
    fn at(&self) -> u64 {
        match self {
            Record::Name { at, .. }
            | Record::Fork { at, .. }
            | Record::Exit { at, .. }
            | Record::Lost { at, .. } => *at,
            Record::Sample(sampled) => sampled.sample.at.0,
            Record::Switch(switched) => switched.at,
            Record::Waking(waking, _) => waking.at.0,
            Record::Mapping(mapping) => mapping.at.0,
        }
    }
}

/// Records in time order, which can be iterated more than once.
pub(crate) trait Records {
    /// Passes each on.
    fn each(&self, sink: &mut dyn FnMut(Record)) -> Result<(), ReadError>;

    /// Whether a thread ends at its exit record. Otherwise it ends at its last switch.
    fn exits_are_final(&self) -> bool;
}

/// Result of [`retell`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ImportSummary {
    /// First and last moment.
    pub span: (Timestamp, Timestamp),
    /// There are context switches.
    pub switched: bool,
    /// Number of samples.
    pub samples: u64,
    /// Number of context switches.
    pub switches: u64,
    /// Context switches that the others show to be missing.
    pub missing_switches: u64,
    /// Number of wakeups.
    pub wakeups: u64,
    /// Number of events that the file reports as lost, without throttled samples.
    pub lost: u64,
    /// Samples that the kernel held back: each row of a loss is one.
    pub held_back: u64,
    /// Mean thread time per sample (ns).
    pub sample_period_ns: u64,
    /// Samples represent different periods.
    pub periods_vary: bool,
}

impl ImportSummary {
    /// Whether there are samples that represent no time.
    pub fn is_untimed(&self) -> bool {
        self.samples > 0 && self.sample_period_ns == 0
    }

    /// Limits of `format`, as a sentence without the last full stop.
    pub fn limits(&self, format: &str) -> String {
        let wakes = if self.wakeups > 0 { "" } else { ", and has no wakeups" };
        match (self.switched, self.missing_switches, self.is_untimed()) {
            (true, 0, _) => {
                format!("{format}: running times are exact, but it has no wait reasons{wakes}")
            }
            (true, missing, _) => format!(
                "{format}: {missing} context switches are missing, so running times are not known where they are; it does not tell why \
                 threads wait{wakes}"
            ),
            (false, _, true) => format!(
                "{format} with samples that do not stand for time: running times are not known; stacks and exports show each sample as \
                 1 ms, so that only shares mean something; threads that were never sampled are left out"
            ),
            (false, _, false) => format!(
                "{format} with samples alone: running times are estimates, and what a thread does when it does not run is unknown; \
                 threads that were never sampled are left out"
            ),
        }
    }

    /// Lost samples and lost switches. If there are switches, any lost event may be one.
    pub fn losses(&self) -> (u64, u64) {
        let both = self.lost.saturating_add(self.held_back);
        if self.switched { (self.held_back, self.lost) } else { (both, 0) }
    }

    /// Description of missing switches. `none` if the file has no switches.
    pub fn switches_missing(&self, none: &str) -> String {
        match (self.switched, self.missing_switches) {
            (false, _) => none.to_owned(),
            (true, 0) => String::new(),
            (true, missing) => format!(
                "{missing} context switches are missing: a CPU is left by a thread that was not seen to take it"
            ),
        }
    }
}

/// Emits the records as events.
pub(crate) fn retell(
    records: &dyn Records,
    wanted: &Wanted,
    sink: &mut dyn FnMut(Event),
) -> Result<ImportSummary, ReadError> {
    let survey = Survey::new(records, wanted)?;
    if survey.summary.samples == 0 && survey.summary.switches == 0 {
        return Err(ReadError::Empty);
    }
    if survey.summary.span.1.since(survey.summary.span.0).0 > SPAN_MAX_NS {
        return Err(ReadError::Broken { what: "its times are more than 30 days apart", offset: 0 });
    }
    let mut summary = survey.summary.clone();
    if summary.switched {
        summary.missing_switches = switched::emit(records, &survey, sink)?;
        summary.lost = summary.lost.saturating_add(summary.missing_switches);
    } else {
        sampled::emit(records, &survey, sink)?;
    }
    Ok(summary)
}

/// Gives each distinct stack of a process an id, and defines it once. Copies of a stack's memory are all distinct.
#[derive(Default)]
struct StackIds {
    ids: std::collections::HashMap<(u32, u16, Vec<u64>), u64>,
    last: u64,
}

/// More distinct stacks than this are not kept: the rows behind have none.
const STACKS_MAX: u64 = 1 << 21;

impl StackIds {
    /// Emits a sample with its stack.
    fn emit(&mut self, sampled: Sampled, sink: &mut dyn FnMut(Event)) {
        let Sampled { mut sample, addresses, kernel_frames, raw, .. } = sampled;
        if addresses.is_empty() && raw.is_none() {
            sink(Event::Sample(sample));
            return;
        }
        let key = (sample.tgid, kernel_frames, addresses);
        let known = self.ids.get(&key).copied().filter(|_| raw.is_none());
        if let Some(id) = known {
            sample.stack = id;
        } else if self.last < STACKS_MAX {
            self.last += 1;
            sample.stack = self.last;
            let (at, id, tgid) = (sample.at, self.last, sample.tgid);
            let addresses = key.2.clone();
            if raw.is_none() {
                self.ids.insert(key, id);
            }
            let stack = RawStack { at, id, tgid, kernel_frames, addresses, raw, ..RawStack::default() };
            sink(Event::Stack(stack));
        }
        sink(Event::Sample(sample));
    }
}
