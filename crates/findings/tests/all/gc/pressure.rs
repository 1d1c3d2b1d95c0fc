//! What allocates, and which heap would be large enough.

use holdup_events::tables::{CounterRow, Frame, FrameKind, SampleRow, SpanKind, StackRow, Stacks, TellName};
use holdup_events::{FrameId, StackId, Timestamp, Trace};
use holdup_findings::analyse;

use super::{A, B, ROUND, ROUNDS, late, name, of_rule, prompt, trace};

#[test]
fn gc_pressure_advises_the_heap_size_that_halves_collections() {
    let analysis = analyse(&trace(&late()));
    let finding = of_rule(&analysis, "gc-pressure").expect("a finding");
    // 2 MiB are 256 k words.
    assert!(finding.advice[0].contains("s=512k"), "{:?}", finding.advice);
    // Waits for a CPU that another program uses are not due to the threads' allocations.
    assert!(finding.gain.low > 0.05 && (0.1..0.3).contains(&finding.gain.high), "{:?}", finding.gain);
}

#[test]
fn a_minor_heap_that_no_cache_holds_need_not_be_larger() {
    let mut trace = trace(&late());
    for counter in &mut trace.counters {
        let is_it = counter.name == name("minor_allocated");
        counter.value *= if is_it { 16 } else { 1 };
    }
    let analysis = analyse(&trace);
    let finding = of_rule(&analysis, "gc-pressure").expect("a finding");
    assert_eq!(
        (finding.gain.low, finding.confidence),
        (0.0, holdup_findings::Confidence::Low),
        "{finding:#?}"
    );
    assert!(!finding.advice.join(" ").contains("s="), "{:?}", finding.advice);
}

/// `prompt`, in which each round allocates 2 MiB: in half of A's samples, and where it collects, in `site`.
fn fast(site: &str) -> Trace {
    let mut trace = trace(&prompt());
    let frame = |function: &str| Frame {
        kind: FrameKind::User,
        function: function.into(),
        module: "/bin/program".into(),
        ..Frame::default()
    };
    let names = ["main", site, "caml_call_gc", "caml_alloc_small_dispatch", "caml_poll_gc_work"];
    trace.frames = names.map(frame).to_vec();
    let row =
        |frame, parent| StackRow { frame: FrameId(frame), parent: StackId(parent), ..StackRow::default() };
    let rows = [row(0, 0), row(1, 1), row(2, 2), row(3, 3), row(4, 4)];
    trace.stacks = Stacks::from_rows([vec![StackRow::default()], rows.to_vec()].concat());
    let at = |thread, round: u64, us: u64, stack| SampleRow {
        thread,
        at: Timestamp(round * ROUND + us * 1000),
        stack: StackId(stack),
        ..SampleRow::default()
    };
    let of_a =
        (0..ROUNDS).flat_map(|round| [at(A, round, 50, 1), at(A, round, 500, 2), at(A, round, 910, 5)]);
    trace.samples = of_a.chain((0..ROUNDS).map(|round| at(B, round, 500, 1))).collect();
    promote(&mut trace, 0.0);
    trace
}

/// Adds events for the promotion of this share of the allocations.
fn promote(trace: &mut Trace, part: f64) {
    trace.names.push(TellName { kind: SpanKind::User, text: "minor_promoted".into() });
    let name = trace.names.len() as u32 - 1;
    let of = |row: &CounterRow| CounterRow { name, value: (row.value as f64 * part) as u64, ..*row };
    let promoted: Vec<CounterRow> = trace.counters.iter().map(of).collect();
    trace.counters.extend(promoted);
    trace.counters.sort_by_key(|row| (row.thread, row.at));
}

#[test]
fn a_function_with_many_short_lived_allocations_is_named() {
    let analysis = analyse(&fast("compare"));
    let finding = of_rule(&analysis, "allocation-hotspot").expect("a finding");
    assert_eq!((finding.subject.as_str(), finding.confidence), ("compare", holdup_findings::Confidence::Low));
    let said = finding.summary.join(" ");
    assert!(said.contains("(100 stacks): compare 100 %"), "{said}");
    // A third of A's running time. The allocated bytes can account for nearly all of it. Without it, A could
    // continue sooner, B could not.
    assert!(finding.gain.low == 0.0 && (0.1..0.4).contains(&finding.gain.high), "{:?}", finding.gain);
}

#[test]
fn slow_or_long_lived_allocations_are_not_named() {
    let hot = |trace: &Trace| of_rule(&analyse(trace), "allocation-hotspot").is_some();
    let mut slowly = fast("compare");
    slowly.counters.iter_mut().for_each(|counter| counter.value /= 4);
    assert!(!hot(&slowly));
    // The promoted bytes are a fifth of the allocated ones.
    let mut kept = fast("compare");
    promote(&mut kept, 0.2);
    assert!(!hot(&kept));
    // Its runtime does not report promotions.
    let mut untold = fast("compare");
    untold.names.last_mut().expect("what fast told").text = "of_something_else".into();
    assert!(!hot(&untold));
    // Collections begin because another thread requests them.
    let mut asked = fast("compare");
    asked.frames[3].function = "caml_do_pending_actions_res".into();
    assert!(!hot(&asked));
}

#[test]
fn prompt_and_cheap_collections_are_silent() {
    let analysis = analyse(&trace(&prompt()));
    assert_eq!(analysis.derived.gc.minor, ROUNDS);
    assert!(of_rule(&analysis, "stop-the-world-latecomer").is_none(), "{:#?}", analysis.findings);
    assert!(of_rule(&analysis, "gc-pressure").is_none(), "{:#?}", analysis.findings);
}
