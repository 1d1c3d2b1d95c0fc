//! Cache-line contention: pictures of when threads ran, with the accessed address of each sample.

use holdup_events::tables::{
    AccessKind, Counter, DataAccess, SampleRow, ThreadState, Variable, WatchpointRow,
};
use holdup_events::{ProcessId, ThreadId, Timestamp, Trace};
use holdup_findings::derive::lines::Sharing;
use holdup_findings::{Analysis, Confidence, analyse};
use holdup_testkit::check::trace_of_lanes;

/// Two threads in parallel, with a sample in each tick.
const SIDE_BY_SIDE: &str = "@cpus 2\n@repeat 20\n@samples A 0..8 user main;work\n@samples B 0..8 user main;work\n\
                            A  00000000\nB  11111111\n";

/// The same, too short for significant samples.
const BRIEFLY: &str = "@cpus 2\n@repeat 2\n@samples A 0..8 user main;work\n@samples B 0..8 user main;work\n\
                       A  00000000\nB  11111111\n";

/// The same, but each runs alone for a third of the time.
const AND_ALONE: &str = "@cpus 2\n@c park\n@repeat 60\n@samples A 0..6 user main;work\n@samples B 0..6 user main;work\n\
                         A  0000cc  holds c 2..4\nB  cc1111  holds c 0..2\n";

/// Analyses a picture. `touch` returns the access of the n-th sample of a thread (0 or 1).
fn analysed(
    lanes: &str,
    touch: impl Fn(usize, usize, &SampleRow) -> Option<(AccessKind, u64)>,
) -> (Trace, Analysis) {
    let (_, mut trace) = trace_of_lanes(lanes);
    let first = trace.samples.first().map_or(0, |sample| sample.thread.index());
    let mut seen = [0, 0];
    for sample in &mut trace.samples {
        let who = sample.thread.index() - first;
        if let Some((kind, address)) = touch(who, seen[who], sample) {
            sample.data = DataAccess { kind, address, bytes: 8 };
        }
        seen[who] += 1;
    }
    let analysis = analyse(&trace);
    (trace, analysis)
}

fn rules(analysis: &Analysis) -> Vec<&str> {
    let ours = ["false-sharing", "shared-counter"];
    let rules = analysis.findings.iter().map(|finding| finding.rule);
    rules.filter(|rule| ours.contains(rule)).collect()
}

#[test]
fn own_bytes_of_one_line_are_false_sharing() {
    let (_, analysis) =
        analysed(SIDE_BY_SIDE, |who, _, _| Some((AccessKind::Update, 0x1000 + 8 * who as u64)));
    assert_eq!(rules(&analysis), ["false-sharing"]);
    let data = &analysis.derived.lines[0];
    assert_eq!((data.sharing, data.lines.as_slice()), (Sharing::False, &[0x1000][..]));
    assert_eq!(data.threads.len(), 2);
    assert_eq!(data.functions[0].0, "work");
    assert_eq!(analysis.findings[0].confidence, Confidence::Medium, "it was never touched alone");
}

#[test]
fn the_same_bytes_are_a_shared_counter() {
    let (_, analysis) = analysed(SIDE_BY_SIDE, |_, _, _| Some((AccessKind::Atomic, 0x1000)));
    assert_eq!(rules(&analysis), ["shared-counter"]);
    assert_eq!(analysis.derived.lines[0].sharing, Sharing::True);
}

/// The first two threads with samples, and a watchpoint's row for each of these hits at an address.
fn watch(trace: &mut Trace, hits: &[(usize, u64)]) {
    let first = trace.samples.first().map_or(0, |sample| sample.thread.0);
    let row = |(who, address): &(usize, u64)| WatchpointRow {
        thread: ThreadId(first + *who as u32),
        address: *address,
        bytes: 8,
        hits: 4,
        ran_ns: 200_000,
        ..WatchpointRow::default()
    };
    trace.watchpoints = hits.iter().map(row).collect();
}

#[test]
fn a_line_is_written_too_if_only_watchpoints_saw_that() {
    let reads = |who: usize, _, _: &SampleRow| Some((AccessKind::Read, 0x1000 + 8 * who as u64));
    let (mut trace, only_read) = analysed(SIDE_BY_SIDE, reads);
    assert!(only_read.derived.lines.is_empty(), "constants are read side by side");
    watch(&mut trace, &[(0, 0x1000), (1, 0x1008)]);
    let analysis = analyse(&trace);
    assert_eq!(rules(&analysis), ["false-sharing"]);
    // Both read what one writes.
    let (mut trace, _) = analysed(SIDE_BY_SIDE, |_, _, _| Some((AccessKind::Read, 0x1000)));
    watch(&mut trace, &[(0, 0x1000)]);
    assert_eq!(rules(&analyse(&trace)), ["shared-counter"]);
}

#[test]
fn watchpoints_take_precedence_over_samples() {
    let own = |who: usize, _: usize, _: &SampleRow| Some((AccessKind::Update, 0x1000 + 8 * who as u64));
    let (mut trace, _) = analysed(BRIEFLY, own);
    watch(&mut trace, &[(0, 0x1000), (1, 0x1008)]);
    let same = analyse(&trace);
    assert_eq!(rules(&same), ["false-sharing"]);
    let text =
        same.findings.iter().flat_map(|finding| &finding.summary).any(|line| line.contains("watchpoints"));
    assert!(text, "it is said");
    watch(&mut trace, &[(0, 0x1000), (1, 0x1000), (1, 0x1008)]);
    assert_eq!(rules(&analyse(&trace)), ["shared-counter"]);
    // Only one thread hit the watchpoint, which shows nothing.
    watch(&mut trace, &[(0, 0x1000)]);
    let alone = analyse(&trace);
    assert_eq!((rules(&alone), alone.derived.lines[0].watched.is_none()), (vec!["false-sharing"], true));
}

/// Go checks a pointer to an array by a read of its first element: rarely, but often enough to hit a
/// watchpoint.
#[test]
fn what_is_looked_at_once_in_a_while_is_not_what_threads_share() {
    let own = |who: usize, _: usize, _: &SampleRow| Some((AccessKind::Update, 0x1000 + 8 * who as u64));
    let (mut trace, _) = analysed(SIDE_BY_SIDE, own);
    watch(&mut trace, &[(0, 0x1000), (1, 0x1000), (1, 0x1008)]);
    let analysis = analyse(&trace);
    assert_eq!(rules(&analysis), ["false-sharing"]);
    let watched = analysis.derived.lines[0].watched.as_ref().expect("it is shown");
    assert_eq!((watched.sharing, watched.common_places), (None, 1));
    // One sample in ten is there: it is.
    let often = |who: usize, n: usize, _: &SampleRow| {
        let at = if n.is_multiple_of(10) { 0x1000 } else { 0x1000 + 8 * who as u64 };
        Some((AccessKind::Update, at))
    };
    let (mut trace, _) = analysed(SIDE_BY_SIDE, often);
    watch(&mut trace, &[(0, 0x1000), (1, 0x1000), (1, 0x1008)]);
    assert_eq!(rules(&analyse(&trace)), ["shared-counter"]);
}

#[test]
fn what_was_watched_of_a_small_part_does_not_decide() {
    // Two lines of one variable. On the line with a tenth of the samples, watchpoints saw common bytes.
    let touch = |who: usize, n: usize, _: &SampleRow| {
        let line = if n.is_multiple_of(10) { 0x1040 } else { 0x1000 };
        Some((AccessKind::Update, line + 8 * who as u64))
    };
    let (mut trace, _) = analysed(BRIEFLY, touch);
    watch(&mut trace, &[(0, 0x1040), (1, 0x1040)]);
    let analysis = analyse(&trace);
    let data = &analysis.derived.lines[0];
    assert_eq!((data.lines.len(), data.sharing), (2, Sharing::False));
    let watched = data.watched.as_ref().expect("it is shown");
    assert_eq!((watched.sharing, watched.hits), (Some(Sharing::True), 8));
}

/// The line in which lies the word of the lock `m`.
const LINE_OF_M: u64 = (0x1000 + 16 * 'm' as u64) / 64 * 64;

/// Own fields of an object with a lock, for which a thread waits for `waits` of `ticks` ticks.
fn fields_next_to_lock(waits: usize, ticks: usize) -> Analysis {
    let picture = format!(
        "@cpus 2\n@repeat 20\n@samples A 0..{ticks} user main;work\n@samples B 0..{ticks} user main;work\n\
         A  {}{}\nB  {}  holds m 0..{ticks}\n",
        "0".repeat(ticks - waits),
        "m".repeat(waits),
        "1".repeat(ticks),
    );
    analysed(&picture, |who, _, _| Some((AccessKind::Update, LINE_OF_M + 8 * who as u64))).1
}

#[test]
fn fields_next_to_a_lock_are_one_shared_object() {
    let analysis = fields_next_to_lock(1, 100);
    assert_eq!(rules(&analysis), ["shared-counter"]);
    assert!(analysis.derived.lines[0].is_waited_on);
}

#[test]
fn fields_next_to_a_contended_lock_belong_to_the_lock() {
    let analysis = fields_next_to_lock(2, 20);
    assert_eq!(rules(&analysis).len(), 0);
    // What the line costs is in that finding's upper end: a tenth is waited, all the rest is at the line.
    let lock = analysis.findings.iter().find(|finding| finding.rule == "lock-contention").expect("it");
    assert!(lock.gain.high > 0.5, "{:?}", lock.gain);
}

#[test]
fn a_fifth_of_common_bytes_is_sharing() {
    // Each fourth access is to a word of both.
    let touch = |who: usize, n: usize, _: &SampleRow| {
        let own = 0x1000 + 8 * who as u64;
        Some((AccessKind::Update, if n.is_multiple_of(4) { 0x1020 } else { own }))
    };
    assert_eq!(rules(&analysed(SIDE_BY_SIDE, touch).1), ["shared-counter"]);
    // Each sixteenth: parts of their own that lie in one line.
    let touch = |who: usize, n: usize, _: &SampleRow| {
        let own = 0x1000 + 8 * who as u64;
        Some((AccessKind::Update, if n.is_multiple_of(16) { 0x1020 } else { own }))
    };
    assert_eq!(rules(&analysed(SIDE_BY_SIDE, touch).1), ["false-sharing"]);
}

#[test]
fn lines_of_their_own_are_silent() {
    let (_, analysis) =
        analysed(SIDE_BY_SIDE, |who, _, _| Some((AccessKind::Update, 0x1000 + 64 * who as u64)));
    assert_eq!((rules(&analysis).len(), analysis.derived.lines.len()), (0, 0));
}

#[test]
fn a_line_that_is_only_read_is_silent() {
    let (_, analysis) = analysed(SIDE_BY_SIDE, |_, _, _| Some((AccessKind::Read, 0x1000)));
    assert_eq!(rules(&analysis).len(), 0);
}

#[test]
fn a_line_that_is_handed_over_once_is_silent() {
    let (trace, _) = analysed(SIDE_BY_SIDE, |_, _, _| None);
    let middle = trace.start().0 + trace.wall().0 / 2;
    let first_one_then_the_other = |who: usize, _, sample: &SampleRow| {
        ((sample.at.0 < middle) == (who == 0)).then_some((AccessKind::Update, 0x1000))
    };
    let (_, analysis) = analysed(SIDE_BY_SIDE, first_one_then_the_other);
    assert_eq!(rules(&analysis).len(), 0);
}

#[test]
fn threads_that_take_turns_on_one_cpu_are_silent() {
    let one_cpu = "@cpus 1\n@repeat 40\n@samples A 0..8 user main;work\n@samples B 0..8 user main;work\n\
                   A  00rr00rr\nB  rr00rr00\n";
    let (_, analysis) = analysed(one_cpu, |_, _, _| Some((AccessKind::Atomic, 0x1000)));
    assert_eq!(rules(&analysis).len(), 0);
}

#[test]
fn the_rules_are_skipped_without_addresses() {
    let (_, analysis) = analysed(SIDE_BY_SIDE, |_, _, _| None);
    for rule in ["false-sharing", "shared-counter"] {
        assert!(analysis.skipped.iter().any(|(name, _)| *name == rule), "{rule}");
    }
}

#[test]
fn the_cost_of_sharing_is_measured_from_solo_time() {
    let shared = |trace: &Trace, sample: &SampleRow| {
        let running = trace.target_threads().filter(|thread| {
            let row = trace.slices.covering(*thread, sample.at);
            row.is_some_and(|row| trace.slices.at(*thread, row).wait.0 == 0)
        });
        running.count() > 1
    };
    let (trace, _) = analysed(AND_ALONE, |_, _, _| None);
    // Always at the access when shared, every second time when alone: half of the shared time is lost.
    let touch = |who: usize, n: usize, sample: &SampleRow| {
        (shared(&trace, sample) || n.is_multiple_of(2))
            .then_some((AccessKind::Update, 0x1000 + 8 * who as u64))
    };
    let (_, analysis) = analysed(AND_ALONE, touch);
    let (low, high) = analysis.derived.lines[0].saved;
    assert!(low > 0.2, "{low}..{high}");
    assert_eq!(analysis.findings[0].confidence, Confidence::High);
    // The same share either way, so no measurable cost.
    let same = |who: usize, n: usize, _: &SampleRow| {
        (n.is_multiple_of(2)).then_some((AccessKind::Update, 0x1000 + 8 * who as u64))
    };
    let (_, analysis) = analysed(AND_ALONE, same);
    assert_eq!(analysis.derived.lines[0].saved.0, 0.0);
}

/// Lets a register count what each thread's loop did until each sample: `alone` times as fast while the other does not run.
fn count_rounds(trace: &mut Trace, alone: u64) {
    const STEP_NS: u64 = 50_000;
    let runs = |thread: ThreadId, at: u64| {
        let row = trace.slices.covering(thread, Timestamp(at));
        row.is_some_and(|row| trace.slices.at(thread, row).state == ThreadState::Running)
    };
    let threads: Vec<ThreadId> = trace.target_threads().collect();
    let mut counted = Vec::new();
    for sample in &trace.samples {
        let beside = |at: &u64| threads.iter().any(|other| *other != sample.thread && runs(*other, *at));
        let steps = (trace.start().0..sample.at.0).step_by(STEP_NS as usize);
        let rounds =
            steps.filter(|at| runs(sample.thread, *at)).map(|at| if beside(&at) { 1 } else { alone });
        counted.push(1000 * rounds.sum::<u64>());
    }
    for (n, (sample, counted)) in trace.samples.iter_mut().zip(counted).enumerate() {
        // No loop is as even as a clock.
        sample.counter = Counter { register: 1, value: counted + 370 * n as u64 % 3000 };
    }
}

#[test]
fn a_loop_counter_gives_the_cost_if_all_samples_are_accesses() {
    let touch = |who: usize, _: usize, _: &SampleRow| Some((AccessKind::Update, 0x1000 + 8 * who as u64));
    let (mut trace, before) = analysed(AND_ALONE, touch);
    assert_eq!(before.derived.lines[0].saved.0, 0.0, "no code beside it tells");
    count_rounds(&mut trace, 10);
    let told = analyse(&trace);
    let (low, high) = told.derived.lines[0].saved;
    // Half of the time is shared. At ten times the speed a tenth of it is left, or a fifth if the CPUs share
    // one core.
    assert!(low > 0.37 && low < 0.41 && high > 0.46 && high < 0.49, "{low}..{high}");
    assert_eq!(told.findings[0].confidence, Confidence::High);
    // Equally fast either way: the lower bound is 0, and the upper bound is half of the shared time.
    count_rounds(&mut trace, 1);
    let (low, high) = analyse(&trace).derived.lines[0].saved;
    assert!(low == 0.0 && high < 0.27, "{low}..{high}");
}

#[test]
fn lines_of_one_variable_are_one_finding() {
    let (mut trace, _) = analysed(SIDE_BY_SIDE, |who, n, _| {
        Some((AccessKind::Update, 0x1000 + 64 * (n % 2) as u64 + 8 * who as u64))
    });
    let process = trace.threads[trace.samples[0].thread.index()].process;
    assert_ne!(process, ProcessId(u32::MAX));
    let named = |address, name: &str| Variable {
        process,
        address,
        name: name.into(),
        part: String::new(),
        module: "/bin/a".into(),
    };
    trace.variables =
        vec![named(0x1000, "table"), named(0x1008, "table"), named(0x1040, "table"), named(0x1048, "table")];
    let analysis = analyse(&trace);
    assert_eq!(rules(&analysis), ["false-sharing"]);
    assert_eq!(analysis.findings[0].subject, "table");
    assert_eq!(analysis.derived.lines[0].lines, [0x1000, 0x1040]);
}
