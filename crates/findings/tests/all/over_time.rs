//! CPUs by the kernel's account, and threads, over time.

use holdup_events::tables::{CountKind, KernelCountRow};
use holdup_events::{CpuId, Timestamp};
use holdup_findings::analyse;
use holdup_findings::derive::cpu_times::{STEPS_MAX, Times};
use holdup_findings::derive::thread_steps;
use holdup_testkit::check::trace_of_lanes;

/// Two threads that take turns, next to another program.
const TURNS: &str = "@cpus 2\n@s sleep\n@repeat 3\n\
    @samples A 0..2 user main;work\n@samples A 2..4 0 main;read\n\
    A       0000ssrr\n\
    B       ssssss00\n\
    ~other  ....1111\n";

#[test]
fn steps_of_threads_tile_their_lives() {
    let (_, trace) = trace_of_lanes(TURNS);
    for count in [1, 3, 7] {
        let steps = thread_steps::derive(&trace, count);
        assert_eq!(steps.threads.len(), 2);
        for (thread, steps) in &steps.threads {
            assert_eq!(steps.len(), count);
            let life = &trace.threads[thread.index()];
            let lived: u64 = steps.iter().map(|step| step.life_ns()).sum();
            assert_eq!(lived, life.end.since(life.start).0, "{thread:?} in {count}");
        }
    }
    // A picture a step: A runs 4 of 8 ms, and is in the kernel for half of it.
    let steps = thread_steps::derive(&trace, 3);
    let a = steps.threads.iter().find(|(id, _)| trace.threads[id.index()].name == "A").expect("A").1[1];
    assert_eq!((a.running_ns, a.queue_ns, a.blocked_ns), (4_000_000, 2_000_000, 2_000_000));
    assert_eq!((a.samples, a.in_kernel), (4, 2));
}

#[test]
fn the_kernels_account_is_summed_and_joined_to_a_few_steps() {
    let (_, mut trace) = trace_of_lanes(TURNS);
    let start = trace.start().0;
    let row = |look: u64, cpu: u16, what, count| KernelCountRow {
        cpu: CpuId(cpu),
        what,
        start: Timestamp(start + look * 1_000_000),
        end: Timestamp(start + (look + 1) * 1_000_000),
        count,
        ..KernelCountRow::default()
    };
    let rows = (0..24).flat_map(|look| {
        [
            row(look, 0, CountKind::CpuUser, 700_000),
            row(look, 0, CountKind::CpuSteal, 300_000),
            row(look, 1, CountKind::CpuIdle, 1_000_000),
            row(look, 1, CountKind::CpuShootdowns, 5),
        ]
    });
    trace.kernel_counts = rows.collect();
    let times = analyse(&trace).derived.cpu_times;
    assert_eq!(times.steps.len(), STEPS_MAX);
    let whole = Times { user: 24 * 700_000, steal: 24 * 300_000, ..Times::default() };
    assert_eq!(times.cpus[0], (CpuId(0), whole));
    assert_eq!(times.cpus[1].1.total(), 24_000_000, "shootdowns are no time");
    // In the third step the other program uses CPU 1 and A CPU 0.
    let named = |step: usize| {
        let who = times.steps[step].who.iter();
        who.map(|(process, ns)| (trace.process_name(*process), *ns)).collect::<Vec<_>>()
    };
    assert_eq!(named(0).len(), 1, "{:?}", named(0));
    assert_eq!(named(2)[0].1, 2_000_000, "{:?}", named(2));
    assert!(named(2)[0].0.contains("other"), "{:?}", named(2));
}
