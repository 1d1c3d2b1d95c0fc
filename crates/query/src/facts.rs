//! One recording, with data that is derived at the first query that needs it.

use std::sync::OnceLock;

use holdup_events::tables::{Process, Thread};
use holdup_events::{CpuId, ProcessId, ThreadId, Timestamp, Trace};
use holdup_findings::Analysis;
use holdup_findings::analysis::{Begun, begin, complete};
use holdup_findings::descriptors::Descriptors;

/// A recording in memory. What the report prints is derived by the same code, once, when it is first asked for.
#[derive(Debug)]
pub struct Facts {
    /// The recording.
    pub trace: Trace,
    begun: OnceLock<Begun>,
    analysis: OnceLock<Analysis>,
}

impl Facts {
    /// Facts of a loaded recording.
    pub fn new(trace: Trace) -> Facts {
        Facts { trace, begun: OnceLock::new(), analysis: OnceLock::new() }
    }

    /// Where the time went, which comes first.
    pub fn begun(&self) -> &Begun {
        self.begun.get_or_init(|| begin(&self.trace, &Descriptors::built_in()))
    }

    /// The complete analysis, as in a report.
    pub fn analysis(&self) -> &Analysis {
        self.analysis.get_or_init(|| {
            let Begun { timelines, roles, ledger } = self.begun();
            complete(&self.trace, timelines, (roles.clone(), ledger.clone()))
        })
    }

    /// A thread's row.
    pub(crate) fn thread(&self, id: ThreadId) -> Option<&Thread> {
        self.trace.threads.get(id.index())
    }

    /// A thread's name.
    pub(crate) fn thread_name(&self, id: ThreadId) -> Option<&str> {
        self.thread(id).map(|thread| thread.name.as_str())
    }

    /// The process of a thread.
    pub(crate) fn process_of(&self, id: ThreadId) -> Option<&Process> {
        self.process(self.thread(id)?.process)
    }

    /// A process's row.
    pub(crate) fn process(&self, id: ProcessId) -> Option<&Process> {
        self.trace.processes.get(id.index())
    }

    /// Seconds since the recording began, as `holdup view` has them.
    pub(crate) fn at_s(&self, at: Timestamp) -> f64 {
        (i128::from(at.0) - i128::from(self.trace.start().0)) as f64 / 1e9
    }
}

/// A CPU's number, if there is one.
pub(crate) fn cpu(id: CpuId) -> Option<i64> {
    (id != CpuId::NONE).then_some(i64::from(id.0))
}
