//! Page faults and shootdowns: sums, shares of the sampled faults, and the rule.

use holdup_events::tables::{CountKind, FaultRow, FrameKind, KernelCountRow};
use holdup_events::{CpuId, StackId, ThreadId, Timestamp, Trace};
use holdup_findings::{Analysis, Confidence, analyse};
use holdup_testkit::check::{confidence, trace_of_lanes};

const MPROTECT: i32 = 10;

fn counted(thread: u32, what: CountKind, count: u64) -> KernelCountRow {
    let syscall = if what == CountKind::ShootdownsSent { MPROTECT } else { 0 };
    let thread = Some(ThreadId(thread));
    KernelCountRow { thread, cpu: CpuId::NONE, what, syscall, count, ..KernelCountRow::default() }
}

/// A changes protection all the time while B computes. `flushing` of ten of A's samples have this kernel
/// stack.
fn sealing(stack: &str, flushing: u32) -> Trace {
    let picture = format!(
        "@cpus 2\n@repeat 40\n\
         @samples A 0..{flushing} {MPROTECT} start_thread;change;{stack}\n\
         @samples A {flushing}..10 user start_thread;change\n\
         @samples B 0..10 user start_thread;look_up\n\
         A  0000000000\n\
         B  1111111111\n"
    );
    let (_, mut trace) = trace_of_lanes(&picture);
    for frame in &mut trace.frames {
        if stack.split(';').any(|name| name == frame.function) {
            frame.kind = FrameKind::Kernel;
        }
    }
    trace
}

fn with_shootdowns(mut trace: Trace, sent: u64) -> Analysis {
    let tid = |name: &str| {
        trace.threads.iter().position(|thread| thread.name == name).expect("a thread of that name") as u32
    };
    let (a, b) = (tid("A"), tid("B"));
    trace.kernel_counts = vec![
        counted(a, CountKind::MinorFaults, 3),
        counted(a, CountKind::ShootdownsSent, sent),
        counted(b, CountKind::ShootdownInterrupts, sent),
        counted(b, CountKind::ShootdownInterruptNs, sent * 2_000),
    ];
    analyse(&trace)
}

const ASKING: &str = "do_mprotect_pkey;flush_tlb_mm_range;on_each_cpu_cond_mask;smp_call_function_many_cond";

#[test]
fn shootdowns_fire_if_other_cpus_are_interrupted_and_awaited() {
    let analysis = with_shootdowns(sealing(ASKING, 6), 10_000);
    assert_eq!(confidence(&analysis, "tlb-shootdown"), Some(Confidence::High), "{:#?}", analysis.skipped);
    let finding = analysis.findings.iter().find(|finding| finding.rule == "tlb-shootdown").expect("it");
    assert_eq!(finding.subject, "mprotect");
    // A's 240 of 400 ms, and 20 ms in handlers of B's.
    assert_eq!(finding.cost_ns, 240_000_000 + 20_000_000);
    let paging = &analysis.derived.paging;
    assert_eq!(
        (paging.all.sent, paging.all.interrupts, paging.sent_in.clone()),
        (10_000, 10_000, vec![(10, 10_000)])
    );
}

#[test]
fn local_tlb_flushes_send_no_shootdowns() {
    // A flush of the CPU's own TLB uses the same function.
    let alone = "do_mprotect_pkey;flush_tlb_mm_range;flush_tlb_func";
    assert_eq!(confidence(&with_shootdowns(sealing(alone, 6), 3), "tlb-shootdown"), None);
}

#[test]
fn a_few_shootdowns_are_no_finding() {
    assert_eq!(confidence(&with_shootdowns(sealing(ASKING, 0), 50), "tlb-shootdown"), None);
}

#[test]
fn the_rule_is_skipped_without_counts() {
    let analysis = analyse(&sealing(ASKING, 6));
    assert!(analysis.skipped.iter().any(|(rule, _)| *rule == "tlb-shootdown"), "{:?}", analysis.skipped);
}

#[test]
fn faults_that_were_drawn_divide_those_that_were_counted() {
    let mut trace = sealing(ASKING, 6);
    let stack_of = |name: &str| {
        let rows = 1..trace.stacks.rows().len() as u32;
        let leaf = |id: u32| trace.stacks.frames(StackId(id)).next().map(|frame| trace.frame_name(frame));
        rows.map(StackId).find(|id| leaf(id.0).as_deref() == Some(name)).expect("a stack of that leaf")
    };
    let fault = |stack, stands_for, major| FaultRow {
        thread: ThreadId(0),
        at: Timestamp(1),
        stands_for,
        major,
        stack,
        ..FaultRow::default()
    };
    trace.faults = vec![
        fault(stack_of("change"), 30, false),
        fault(stack_of("look_up"), 60, false),
        fault(stack_of("look_up"), 10, true),
    ];
    trace.threads[0].target = true;
    trace.kernel_counts =
        vec![counted(0, CountKind::MinorFaults, 990), counted(0, CountKind::MajorFaults, 10)];
    let paging = analyse(&trace).derived.paging;
    let sites: Vec<(&str, u64, u64)> =
        paging.sites.iter().map(|site| (site.function.as_str(), site.faults, site.major)).collect();
    assert_eq!(sites, [("look_up", 700, 10), ("change", 300, 0)]);
    assert!(paging.sites.iter().all(|site| site.share_error > 0.0));
}

#[test]
fn of_each_thread_what_was_drawn_divides_its_own_faults() {
    let mut trace = sealing(ASKING, 6);
    let ids: Vec<u32> = trace.target_threads().map(|id| id.0).collect();
    let leaf = |name: &str| {
        let found = trace.samples.iter().find(|sample| {
            let leaf = trace.stacks.frames(sample.stack).next();
            leaf.is_some_and(|frame| trace.frame_name(frame) == name)
        });
        found.expect("a sample of that leaf").stack
    };
    let fault = |thread: u32, stack| FaultRow {
        thread: ThreadId(thread),
        stands_for: 50,
        stack,
        ..FaultRow::default()
    };
    // Both have the same number of samples, and one had nine times as many faults.
    let faults = vec![fault(ids[0], leaf("change")), fault(ids[1], leaf("look_up"))];
    trace.faults = faults;
    trace.kernel_counts =
        vec![counted(ids[0], CountKind::MinorFaults, 900), counted(ids[1], CountKind::MinorFaults, 100)];
    let sites = analyse(&trace).derived.paging.sites;
    let said: Vec<(&str, u64)> = sites.iter().map(|site| (site.function.as_str(), site.faults)).collect();
    assert_eq!(said, [("change", 900), ("look_up", 100)]);
}

/// A and B wait for pages of a file, and reclaimed memory `times`. The machine read 100 MB, `again` of them
/// for the second time.
fn short_of_memory(times: u64, again: u64) -> Analysis {
    let (_, mut trace) = trace_of_lanes(
        "@cpus 2\n@f fault\n@repeat 40\n\
         A  0ffffffff0\n\
         B  1ffffffff1\n",
    );
    let of_machine = |what, count| KernelCountRow { thread: None, ..counted(0, what, count) };
    let fault = |row: KernelCountRow| KernelCountRow { syscall: -1, ..row };
    trace.kernel_counts = vec![
        fault(counted(0, CountKind::LimitReclaims, times)),
        // Raised in between. The other process may have more.
        KernelCountRow { end: Timestamp(1), ..counted(0, CountKind::MemoryLimit, 64 << 20) },
        KernelCountRow { end: Timestamp(2), ..counted(0, CountKind::MemoryLimit, 96 << 20) },
        counted(1, CountKind::MemoryLimit, 128 << 20),
        fault(counted(0, CountKind::LimitReclaimNs, times * 10_000)),
        of_machine(CountKind::DiskReadBytes, 100 << 20),
        of_machine(CountKind::RefaultBytes, again << 20),
    ];
    analyse(&trace)
}

#[test]
fn memory_reclaim_fires_where_what_is_read_had_been_there() {
    let analysis = short_of_memory(1_000, 90);
    let finding = analysis.findings.iter().find(|finding| finding.rule == "memory-reclaim").expect("it");
    assert_eq!(finding.confidence, Confidence::High);
    assert!(finding.subject.contains("limit"), "{}", finding.subject);
    let said = finding.summary.join(" ");
    assert!(said.contains("The cgroup's limit is 96.0 MiB"), "{said}");
    // 2 × 320 ms of waits. Some of the 10 ms of reclaim may also be waits.
    assert_eq!(finding.cost_ns, 2 * 320_000_000);
    assert!(finding.gain.high > 0.75, "{:?}", finding.gain);
    assert_eq!(analysis.derived.paging.reclaimed_in, [(-1, 10_000_000)]);
}

#[test]
fn memory_reclaim_is_silent_where_all_is_read_once_and_where_nothing_was_taken_back() {
    for (times, again) in [(1_000, 5), (0, 90), (10, 90)] {
        let analysis = short_of_memory(times, again);
        assert_eq!(confidence(&analysis, "memory-reclaim"), None, "{times} {again}");
    }
}

#[test]
fn memory_reclaim_is_a_hint_where_less_than_half_had_been_there() {
    assert_eq!(confidence(&short_of_memory(1_000, 30), "memory-reclaim"), Some(Confidence::Low));
}

/// A and B wait for pages of a file, with `major` faults. Each sampled fault is `step` pages after the
/// previous one.
fn mapped_file(major: u64, minor: u64, step: i64) -> Analysis {
    mapped_file_at(major, minor, |place| place * step)
}

/// The same. `page` returns the page of each sampled fault of a thread.
fn mapped_file_at(major: u64, minor: u64, page: impl Fn(i64) -> i64) -> Analysis {
    let (_, mut trace) = trace_of_lanes(
        "@cpus 2\n@f fault\n@repeat 40\n\
         A  0ffffffff0\n\
         B  1ffffffff1\n",
    );
    let of_thread = |thread: u32| {
        [(CountKind::MajorFaults, major / 2), (CountKind::MinorFaults, minor / 2)]
            .map(|(what, count)| counted(thread, what, count))
    };
    trace.kernel_counts = [0, 1].map(of_thread).concat();
    trace.faults = (0..200)
        .map(|place: i64| FaultRow {
            thread: ThreadId((place % 2) as u32),
            at: Timestamp(place as u64),
            address: ((1_i64 << 40) + page(place / 2) * 4096) as u64,
            stands_for: 10,
            major: true,
            ..FaultRow::default()
        })
        .collect();
    analyse(&trace)
}

#[test]
fn sequential_faults_on_a_mapped_file_mean_no_readahead() {
    let analysis = mapped_file(20_000, 300, 12);
    let finding = analysis.findings.iter().find(|finding| finding.rule == "mapped-file-faults").expect("it");
    assert_eq!(finding.confidence, Confidence::Medium);
    let said = finding.summary.join(" ");
    assert!(said.contains("1.2 pages per fault") && said.contains("readahead is not effective"), "{said}");
    assert!(finding.advice[0].contains("MADV_RANDOM"), "{:?}", finding.advice);
    assert!(finding.gain.high > 0.75 && finding.gain.low == 0.0, "{:?}", finding.gain);
    assert_eq!(confidence(&analysis, "page-fault-storm"), None);
}

#[test]
fn effective_readahead_and_random_access_get_their_own_advice() {
    let said = |step| {
        let analysis = mapped_file(20_000, 300, step);
        let mut findings = analysis.findings.into_iter();
        let finding = findings.find(|finding| finding.rule == "mapped-file-faults").expect("it");
        assert_eq!(finding.confidence, Confidence::Low);
        (finding.summary.join(" "), finding.advice.join(" "))
    };
    let (ahead, advice) = said(320);
    assert!(ahead.contains("readahead is effective") && !advice.contains("MADV_RANDOM"), "{ahead} {advice}");
    let (here_and_there, advice) = said(-700);
    assert!(
        here_and_there.contains("the access is random") && advice.contains("Store related data together"),
        "{here_and_there}"
    );
}

/// One step in four goes back. So a mostly ascending order is not certain, and a page or two per fault is no
/// readahead.
#[test]
fn of_an_order_that_is_not_sure_nothing_is_concluded() {
    let analysis = mapped_file_at(20_000, 300, |place| 10 * place - if place % 4 == 3 { 20 } else { 0 });
    let finding = analysis.findings.iter().find(|finding| finding.rule == "mapped-file-faults").expect("it");
    let said = finding.summary.last().expect("a summary");
    assert!(said.starts_with("75 %") && said.ends_with("1.6 pages per fault."), "{said}");
    assert_eq!(finding.confidence, Confidence::Low);
}

#[test]
fn a_start_is_no_mapped_file() {
    assert_eq!(confidence(&mapped_file(16, 300, 12), "mapped-file-faults"), None, "a program starts");
}

#[test]
fn few_faults_that_wait_long_are_the_disks() {
    let analysis = mapped_file(60, 9_000, 320);
    let finding = analysis.findings.iter().find(|finding| finding.rule == "mapped-file-faults").expect("it");
    assert_eq!(finding.confidence, Confidence::Low);
    assert!(finding.gain.high > 0.75, "{:?}", finding.gain);
}
