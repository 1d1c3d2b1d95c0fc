//! Faults and allocations.

use holdup_events::recording::SourceState;
use holdup_events::tables::{AllocationRow, CountKind, FaultRow, KernelCountRow};
use holdup_events::{CpuId, Duration, StackId, ThreadId, Trace};
use holdup_findings::analyse;
use holdup_report::{StackAsk, Style, render, render_with};
use holdup_testkit::check::trace_of_lanes;

use super::{BUSY, busy, golden, manifest, sections};

/// Samples at two sites: small objects that another thread frees, and a large one that stays.
pub fn add_allocations(trace: &mut Trace) {
    let stacks = [0, 1].map(|thread| {
        let sample = trace.samples.iter().find(|sample| sample.thread == ThreadId(thread));
        sample.map(|sample| sample.stack).unwrap_or_default()
    });
    for number in 0..40u64 {
        let at = trace.start() + Duration(number * 1_000_000);
        let is_large = number % 20 == 0;
        trace.allocations.push(AllocationRow {
            thread: ThreadId(u32::from(is_large)),
            at,
            address: 4096 * number,
            bytes: if is_large { 3 << 20 } else { 96 },
            every_bytes: 65_536,
            own_bytes: 32,
            stack: stacks[usize::from(is_large)],
            freed: (!is_large).then_some(at + Duration(5_000)),
            freed_by: (!is_large).then_some(ThreadId(u32::from(number % 2 == 0))),
        });
    }
    let source =
        SourceState { name: "allocations".into(), active: true, events: 78, ..SourceState::default() };
    trace.manifest.sources.push(source);
}

/// Faults of two threads, and shootdowns that one sends to the other.
pub fn add_faults(trace: &mut Trace) {
    let stack = trace.samples.iter().find(|sample| sample.stack != StackId::NONE).map(|sample| sample.stack);
    let counted = |thread: u32, what, count| KernelCountRow {
        thread: Some(ThreadId(thread)),
        cpu: CpuId::NONE,
        what,
        syscall: if what == CountKind::ShootdownsSent { 10 } else { 0 },
        start: trace.start(),
        end: trace.end(),
        count,
    };
    let mut rows = vec![
        counted(0, CountKind::MinorFaults, 12_000),
        counted(0, CountKind::MajorFaults, 7),
        counted(0, CountKind::ShootdownsSent, 400),
        counted(1, CountKind::MinorFaults, 90),
        counted(1, CountKind::ShootdownInterrupts, 380),
        counted(1, CountKind::ShootdownInterruptNs, 600_000),
        counted(0, CountKind::HugePages, 3),
        counted(0, CountKind::LimitReclaims, 40),
        counted(0, CountKind::LimitReclaimNs, 3_000_000),
    ];
    let of_cpu = |cpu: u16, count| KernelCountRow {
        thread: None,
        cpu: CpuId(cpu),
        ..counted(0, CountKind::CpuShootdowns, count)
    };
    rows.extend([of_cpu(0, 20), of_cpu(1, 365)]);
    let of_machine = |what, count| KernelCountRow { cpu: CpuId::NONE, what, ..of_cpu(0, count) };
    rows.extend([
        of_machine(CountKind::DiskReadBytes, 64 << 20),
        of_machine(CountKind::RefaultBytes, 48 << 20),
    ]);
    let half = trace.start() + Duration(trace.wall().0 / 2);
    for (start, end, user) in [(trace.start(), half, 190_000_000), (half, trace.end(), 90_000_000)] {
        let time = |cpu, what, count| KernelCountRow { what, start, end, ..of_cpu(cpu, count) };
        rows.extend([time(0, CountKind::CpuUser, user), time(0, CountKind::CpuSystem, 80_000_000)]);
        rows.extend([time(1, CountKind::CpuSteal, 10_000_000), time(1, CountKind::CpuIdle, 270_000_000)]);
    }
    trace.kernel_counts = rows;
    let fault = |number: u64| FaultRow {
        thread: ThreadId(0),
        at: trace.start() + Duration(number * 1_000_000),
        address: 4096 * number,
        stands_for: 600,
        stack: stack.unwrap_or_default(),
        ..FaultRow::default()
    };
    trace.faults = (0..20).map(fault).collect();
}

#[test]
fn faults_by_thread_and_place_and_how_times_went() {
    let (_, mut trace) = trace_of_lanes(BUSY);
    manifest(&mut trace);
    add_faults(&mut trace);
    let analysis = analyse(&trace);
    let ask = StackAsk { over_time: true, ..StackAsk::default() };
    let names = sections(&["cpus", "threads"]);
    golden("over-time", &render_with(&trace, &analysis, (&names, &ask), &Style::default()).unwrap());
    golden("faults", &render(&trace, &analysis, &sections(&["faults"]), &Style::default()).unwrap());
}

#[test]
fn allocations_by_site_and_around_a_function() {
    let (mut trace, analysis) = busy();
    let said = |trace: &Trace, ask: &StackAsk| {
        render_with(trace, &analysis, (&sections(&["allocs"]), ask), &Style::default()).unwrap()
    };
    assert!(said(&trace, &StackAsk::default()).contains("holdup run --allocs"));
    add_allocations(&mut trace);
    let ask = StackAsk { operations: Some(1_000), ..StackAsk::default() };
    golden("allocs", &said(&trace, &ask));
    golden("allocs-function", &said(&trace, &StackAsk { function: Some("work".into()), ..ask.clone() }));
    let none = said(&trace, &StackAsk { function: Some("nosuch".into()), ..ask.clone() });
    assert!(none.contains("Nothing was allocated through that function."));
    let mut before = ask;
    before.selection.to = trace.start() + Duration(1);
    assert!(said(&trace, &before).contains("1 allocation sampled"), "{}", said(&trace, &before));
    trace.allocations.clear();
    assert!(said(&trace, &StackAsk::default()).contains("No allocation was sampled"));
}
