//! A small recording that the worked questions are asked of.

use holdup_events::recording::SourceState;
use holdup_events::tables::{Lane, SpanKind, SpanRow, Spans, TellName};
use holdup_events::{CpuId, Loss, ProcessId, Timestamp, Trace};
use holdup_testkit::check::trace_of_lanes;

/// A lock, another program that preempts, the disk, and work in spans.
const BUSY: &str = "@cpus 2\n@d disk\n@repeat 40\n\
    @samples worker-1 0..4 user main;work\n@samples worker-2 4..8 0 main;read_all\n\
    worker-1  0000mmmmrr0dd0\n\
    worker-2  mmmm1111011rr1  holds m 4..8\n\
    ~noisy    ....0000.0.00.\n";

/// See [`BUSY`].
pub fn busy() -> Trace {
    let (_, mut trace) = trace_of_lanes(BUSY);
    trace.manifest.command = vec!["./stress".into(), "--threads=2".into()];
    trace.manifest.mode = "run".into();
    trace.manifest.sources =
        vec![SourceState { name: "sched".into(), active: true, events: 1_000, ..SourceState::default() }];
    let name = |kind, text: &str| TellName { kind, text: text.into() };
    trace.names = vec![TellName::default(), name(SpanKind::User, "request"), name(SpanKind::User, "parse")];
    trace.lanes = vec![Lane { process: ProcessId(0), runtime: "lanes 1".into(), ..Lane::default() }];
    let thread = trace.target_threads().next().expect("a thread");
    let (start, tick) = (trace.start().0, 1_000_000);
    let span = |from: u64, to: u64, name| SpanRow {
        thread,
        start: Timestamp(start + from * tick),
        end: Timestamp(start + to * tick),
        lane: 0,
        name,
    };
    let spans =
        (0..40).flat_map(|round| [span(14 * round, 14 * round + 10, 1), span(14 * round, 14 * round + 2, 2)]);
    trace.spans = Spans::freeze(spans.collect());
    trace.losses = vec![Loss {
        source: "sched".into(),
        reason: "ring full".into(),
        cpu: CpuId(1),
        start: Timestamp(start + 5 * tick),
        end: Timestamp(start + 6 * tick),
        events: 3,
    }];
    trace
}
