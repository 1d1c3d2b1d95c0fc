//! Each rule on pictures: one in which it fires, one in which it must stay silent.

use holdup_events::event::WakeContext;
use holdup_events::tables::{Mapping, Wakeup, Wakeups};
use holdup_events::{ProcessId, ThreadId, Trace};
use holdup_findings::{Confidence, analyse};
use holdup_testkit::check::{check_lanes, confidence, trace_of_lanes};

#[test]
fn lock_contention_fires_where_a_cpu_is_idle() {
    let analysis = check_lanes(
        "@cpus 2\n@repeat 20\n\
         A  0000mmmm\n\
        \x20       ^^^^   lock-contention waiter=A holder=B cost=160\n\
         B  mmmm1111  holds m 4..8\n",
    );
    assert_eq!(confidence(&analysis, "lock-contention"), Some(Confidence::High));
    let gain = analysis.findings[0].gain;
    assert!((gain.high - 0.5).abs() < 0.01 && (0.4..0.5).contains(&gain.low), "{gain:?}");
}

#[test]
fn a_lock_that_costs_nothing_is_silent() {
    // CPUs are busy with the program's own work all the time: without the lock nothing would be faster.
    check_lanes(
        "@cpus 1\n@repeat 20\n@silent lock-contention\n\
         A  0000mmmm\n\
         B  mmmm0000  holds m 4..8\n",
    );
    // Idle workers of a pool wait on a condition variable: that is no lock.
    check_lanes(
        "@cpus 4\n@c park\n@repeat 20\n@silent all\n\
         A  00000000\n\
         B  cccccccc\n\
         C  cccccccc\n",
    );
}

#[test]
fn lock_contention_has_no_sure_gain_if_one_thread_never_waits() {
    let analysis = check_lanes(
        "@cpus 4\n@repeat 20\n\
         A  0000mmmm\n\
        \x20       ^^^^   lock-contention holder=B\n\
         B  mmmm1111  holds m 4..8\n\
         C  22222222\n",
    );
    assert_eq!(analysis.findings[0].gain.low, 0.0);
}

#[test]
fn serial_section_names_the_lone_thread_and_its_function() {
    let analysis = check_lanes(
        "@cpus 4\n@c park\n@repeat 20\n@samples A 0..8 user main;parse\n\
         A  00000000cc  holds c 0..8\n\
        \x20   ^^^^^^^^     serial-section holder=parse\n\
         B  cccccccc11  holds c 8..10\n\
         C  cccccccc22\n\
         D  cccccccc33\n",
    );
    let gain = analysis.findings[0].gain;
    // 0.8 of the run is spread over four threads. Lower bound: three quarters of the speed that three more
    // threads add.
    assert!((0.44..0.55).contains(&gain.low) && (gain.high - 0.6).abs() < 0.01, "{gain:?}");
}

#[test]
fn a_pool_that_one_thread_cannot_feed_is_a_serial_section() {
    check_lanes(
        "@cpus 4\n@tick 100000\n@c park\n@repeat 20\n\
         A  0000000000000000000000000000000000000000  holds c 0..40\n\
        \x20   ^^^^^^^^^                                serial-section\n\
         B  ccccccccccccccccccc1cccccccccccccccccccc\n\
         C  ccccccccccccccccccccccccccc2cccccccccccc\n",
    );
}

/// Two that work by turns: what each does alone in a moment is no part of the program that one thread has to do.
#[test]
fn threads_that_are_alone_by_short_turns_are_no_more_than_a_hint_of_a_serial_section() {
    let by_turns = |tick_ns: u64| {
        let analysis = check_lanes(&format!(
            "@cpus 4\n@tick {tick_ns}\n@c park\n@d park\n@repeat 40\n\
             A  00000ddddd  holds c 0..5\n\
             B  ccccc11111  holds d 5..10\n"
        ));
        let told = analysis.findings.iter().chain(analysis.symptoms.iter().map(|one| &one.finding));
        told.filter(|finding| finding.rule == "serial-section").map(|finding| finding.confidence).next()
    };
    assert_eq!(by_turns(100_000), Some(Confidence::Low));
    assert_eq!(by_turns(10_000_000), Some(Confidence::Medium));
}

#[test]
fn serial_section_is_silent_without_threads_that_could_help() {
    // One thread does all the work. The other only waits for its exit.
    check_lanes(
        "@cpus 4\n@j join\n@repeat 20\n@silent all\n\
         A  jjjjjjjj\n\
         B  00000000\n",
    );
    // A helper that takes no part in the work.
    check_lanes(
        "@cpus 4\n@tick 100000\n@c park\n@repeat 20\n@silent all\n\
         A  0000000000000000000000000000000000000000  holds c 0..40\n\
         B  ccccccccccccccccccc1cccccccccccccccccccc\n",
    );
    // A program that waits for the disk.
    check_lanes(
        "@cpus 4\n@d disk\n@repeat 20\n@silent serial-section\n\
         A  0ddddddd\n\
         B  dddd1ddd\n",
    );
}

#[test]
fn a_pool_that_waits_for_something_else_is_no_serial_section() {
    // A computes alone. The pool waits for D, which waits for the network.
    check_lanes(
        "@cpus 4\n@tick 100000\n@c park\n@n socket\n@repeat 20\n@silent serial-section\n\
         A  000000000000000000000000000000\n\
         B  cccccccccccccccccccc1ccccccccc\n\
         C  ccccccccccccccccccccc2cccccccc\n\
         D  nnnnnnnnnnnnnnnnnnn333nnnnnnnn  holds c 0..30\n",
    );
}

#[test]
fn a_holder_at_the_disk_is_named_with_what_it_did() {
    let analysis = check_lanes(
        "@cpus 2\n@d disk\n@repeat 20\n@silent serial-section\n\
         A  0mmmmmmmm0\n\
        \x20   ^^^^^^^^    blocked-lock-holder holder=B cost=120\n\
         B  11dddddd11  holds m 0..9\n",
    );
    // Waiting for the lock is the symptom.
    let symptoms = analysis.symptoms.iter().map(|symptom| &symptom.finding);
    let finding = symptoms.into_iter().find(|finding| finding.rule == "lock-contention").unwrap();
    assert!(finding.summary.iter().any(|line| line.contains("waiting for the disk 75 %")), "{finding:?}");
    assert!(finding.advice[0].contains("while holding it"), "{finding:?}");
}

/// Three threads share one CPU, and one of them waits for a lock. The first thread spins in some of its
/// samples.
fn three_on_one_cpu(first: &str) -> holdup_findings::Analysis {
    check_lanes(&format!(
        "@cpus 1\n@repeat 20\n\
         @samples A 0..3 user main;work\n@samples A 6..9 user main;{first}\n\
         A  000rrr000mmm\n\
        \x20      ^^^       oversubscription waiter=B cost=414\n\
         B  rrr000rrrrrr\n\
         C  rrrrrrrrr000  holds m 9..12\n",
    ))
}

#[test]
fn oversubscription_fires_where_own_threads_queue_and_spin() {
    let analysis = three_on_one_cpu("take;spin_lock~");
    assert_eq!(
        confidence(&analysis, "oversubscription"),
        Some(Confidence::Medium),
        "{:#?}",
        analysis.findings
    );
}

/// The CPU worked all the time: two threads would have had to do the same.
#[test]
fn oversubscription_of_threads_that_sleep_while_they_wait_is_a_hint() {
    let analysis = three_on_one_cpu("work");
    let finding = analysis.findings.iter().find(|finding| finding.rule == "oversubscription").unwrap();
    assert_eq!(finding.confidence, Confidence::Low);
    assert!(
        finding.summary.iter().any(|line| line.contains("fewer threads would have to do")),
        "{finding:?}"
    );
}

#[test]
fn oversubscription_of_threads_that_do_not_depend_is_a_hint() {
    let analysis = check_lanes(
        "@cpus 1\n@repeat 20\n\
         A  000rrr\n\
        \x20      ^^^    oversubscription cost=117\n\
         B  rrr000\n",
    );
    assert_eq!(confidence(&analysis, "oversubscription"), Some(Confidence::Low));
}

#[test]
fn oversubscription_is_silent_if_samples_show_that_threads_only_compute() {
    let queue = |samples: &str| {
        let lanes = "A  000rrr\nB  rrr000\n";
        confidence(&check_lanes(&format!("@cpus 1\n@repeat 20\n{samples}{lanes}")), "oversubscription")
    };
    assert_eq!(queue("@samples A 0..3 user main;work\n@samples B 3..6 user main;work\n"), None);
    let spins = "@samples A 0..3 user main;take;spin_lock~\n@samples B 3..6 user main;work\n";
    assert!(queue(spins).is_some(), "a near miss: A spins");
}

#[test]
fn threads_of_one_name_have_their_functions_in_findings() {
    let named = |first: &str, name: &str| {
        let (_, mut trace) = trace_of_lanes(&lanes_text(first));
        trace.threads.iter_mut().for_each(|thread| thread.name = name.to_owned());
        analyse(&trace).findings.into_iter().flat_map(|finding| finding.summary).collect::<Vec<_>>().join(" ")
    };
    let text = named("consume", "same");
    assert!(text.contains("same (100, consume)") || text.contains("same (101, produce)"), "{text}");
    let text = named("produce", "same");
    assert!(!text.contains(", produce)"), "all threads of the name run it: {text}");
}

/// Two threads that wait for each other's lock, with samples of their functions.
fn lanes_text(first: &str) -> String {
    format!(
        "@cpus 2\n@repeat 20\n@samples A 0..4 user start_thread;{first};f\n\
         @samples B 4..8 user start_thread;produce;g\n\
         A  0000mmmm  holds m 0..4\n\
         B  mmmm1111  holds m 4..8\n"
    )
}

#[test]
fn a_queue_of_other_programs_is_a_noisy_neighbour() {
    let analysis = check_lanes(
        "@cpus 1\n@repeat 20\n@silent oversubscription\n\
         A       000rrr000\n\
        \x20           ^^^       noisy-neighbour holder=backup cost=60\n\
         ~backup ...000...\n",
    );
    let gain = analysis.findings[0].gain;
    assert!((gain.low - 1.0 / 3.0).abs() < 0.01 && (gain.high - 1.0 / 3.0).abs() < 0.01, "{gain:?}");
}

#[test]
fn the_recorder_is_no_neighbour_and_takes_no_part_of_what_one_costs() {
    let picture = "@cpus 1\n@repeat 20\n\
                   A         00rrrr000\n\
                   ~holdup   ..000....\n\
                   ~backup   .....0...\n";
    let (_, mut trace) = trace_of_lanes(picture);
    let found = |trace: &Trace| {
        let analysis = analyse(trace);
        let found = analysis.findings.iter().find(|finding| finding.rule == "noisy-neighbour");
        found.map(|finding| (finding.subject.contains("backup"), finding.cost_ns, finding.gain.high))
    };
    let (backup, all, most) = found(&trace).expect("a neighbour");
    assert!(!backup && all == 80_000_000, "{all}");
    let holdup = trace.processes.iter().find(|process| process.name == "holdup").map(|process| process.pid);
    trace.manifest.recorder_pid = holdup.expect("it");
    let (backup, others, less) = found(&trace).expect("a neighbour");
    assert!(backup && others == all / 4 && less < most / 3.0, "{others} {less} {most}");
    // Only the recorder took the CPU.
    let (_, mut trace) = trace_of_lanes(&picture.replace(".....0...", "........."));
    assert!(found(&trace).is_some());
    trace.manifest.recorder_pid = holdup.expect("it");
    assert_eq!(found(&trace), None);
}

/// Two threads that take turns on one CPU, because another program uses the other CPU most of the time.
const DISPLACED: &str = "@cpus 2\n@repeat 20\n@silent oversubscription\n\
                         A       00rr00rr001100\n\
                         B       rr00rr00rr0011\n\
                         ~backup 1111111111....\n";

#[test]
fn queueing_behind_own_threads_displaced_by_another_program_is_a_noisy_neighbour() {
    let analysis = check_lanes(DISPLACED);
    let finding = &analysis.findings[0];
    assert_eq!((finding.rule, finding.cost_ns), ("noisy-neighbour", 20 * 10 * 1_000_000));
    assert!(finding.subject.starts_with("backup"), "{}", finding.subject);
    assert!(
        finding.summary[1].starts_with("200 ms of it was behind the program's own threads"),
        "{finding:#?}"
    );
    // In ten of fourteen parts of the time both had run at once.
    assert!((finding.gain.high - 5.0 / 14.0).abs() < 0.01, "{:?}", finding.gain);
}

#[test]
fn a_thread_pinned_elsewhere_is_not_delayed_by_another_program() {
    let (_, mut trace) = trace_of_lanes(DISPLACED);
    for thread in &mut trace.threads {
        thread.cpus_allowed = 1;
    }
    let analysis = analyse(&trace);
    assert!(
        analysis.findings.iter().all(|finding| finding.rule != "noisy-neighbour"),
        "{:#?}",
        analysis.findings
    );
}

/// A database on the same machine takes the CPU and answers the program's requests: a hint, with other advice. Responses of
/// a second program (`cache`) do not count as the database's.
#[test]
fn a_program_that_answers_requests_is_a_hint_with_the_number_of_its_responses() {
    let (_, mut trace) = trace_of_lanes(
        "@cpus 1\n@s socket\n@repeat 40\n\
         A         00rrr00sss\n\
         ~database ..000...00\n\
         ~cache    .......0..\n",
    );
    let found = |trace: &Trace| {
        let found = analyse(trace).findings.into_iter().find(|finding| finding.rule == "noisy-neighbour");
        found.expect("a neighbour")
    };
    let stranger = found(&trace);
    assert_eq!(stranger.confidence, Confidence::High);
    let thread = |name: &str| {
        let row = trace.threads.iter().position(|thread| thread.name == name);
        ThreadId(row.expect("a thread of that name") as u32)
    };
    let (database, cache) = (thread("database"), thread("cache"));
    let mut wakeups: Vec<Wakeup> = trace.wakeups.iter().copied().collect();
    let answered = wakeups.iter_mut().filter(|wakeup| wakeup.context == WakeContext::SoftIrq);
    let mut by_database = 0;
    for (at, wakeup) in answered.enumerate() {
        let waker = if at % 2 == 0 { database } else { cache };
        by_database += u64::from(waker == database);
        (wakeup.context, wakeup.waker) = (WakeContext::Thread, waker);
    }
    assert!(by_database >= 20, "{by_database}");
    trace.wakeups = Wakeups::freeze(wakeups, trace.threads.len());
    let partner = found(&trace);
    assert_eq!(partner.confidence, Confidence::Low);
    assert_eq!(partner.cost_ns, stranger.cost_ns);
    assert!(
        partner.summary.join(" ").contains(&format!("woke the target's threads {by_database} times")),
        "{partner:#?}"
    );
    assert!(partner.advice[0].starts_with("Run database"), "{partner:#?}");
}

#[test]
fn a_neighbour_on_another_cpu_is_silent() {
    check_lanes(
        "@cpus 2\n@repeat 20\n@silent all\n\
         A       000000000\n\
         ~backup 111111111\n",
    );
}

#[test]
fn a_queue_behind_own_threads_is_no_neighbour() {
    check_lanes(
        "@cpus 1\n@repeat 20\n@silent noisy-neighbour\n\
         A  000rrr\n\
         B  rrr000\n",
    );
}

#[test]
fn kernel_threads_are_named_as_such() {
    check_lanes(
        "@cpus 1\n@repeat 20\n\
         A            000rrr000\n\
        \x20                ^^^       noisy-neighbour holder=kernel\n\
         ~kworker/0:1 ...000...\n",
    );
}

#[test]
fn blocking_io_fires_where_a_cpu_is_idle() {
    let analysis = check_lanes(
        "@cpus 2\n@d disk 0\n@repeat 20\n@silent sync-per-item\n\
         A  0ddd\n\
        \x20    ^^^   blocking-io holder=read cost=60\n",
    );
    let gain = analysis.findings[0].gain;
    assert!((gain.low - 0.25).abs() < 0.01 && (gain.high - 0.75).abs() < 0.01, "{gain:?}");
}

#[test]
fn a_single_wait_for_the_disk_that_may_gain_nothing_is_a_hint() {
    // A second thread waits for nothing: overlapping gains it nothing.
    let with = |waits: usize| {
        let (a, b) = ("00dddd".repeat(waits), format!("{}{}", "111".repeat(waits), "...".repeat(waits)));
        let picture = format!("@cpus 2\n@d disk 0\n@silent sync-per-item\nA  {a}0\nB  {b}.\n");
        confidence(&check_lanes(&picture), "blocking-io")
    };
    assert_eq!((with(1), with(4)), (Some(Confidence::Low), Some(Confidence::Medium)));
}

#[test]
fn io_that_other_work_hides_is_silent() {
    check_lanes(
        "@cpus 1\n@d disk\n@repeat 20\n@silent blocking-io\n@silent sync-per-item\n\
         A  0ddd\n\
         B  d000\n",
    );
}

#[test]
fn sync_per_item_fires_on_many_syncs() {
    check_lanes(
        "@cpus 2\n@d disk 75\n@repeat 30\n@silent blocking-io\n\
         A  0ddd\n\
        \x20    ^^^   sync-per-item holder=fdatasync cost=90\n",
    );
}

#[test]
fn syncs_of_batches_are_blocking_io() {
    // The same number of syncs, but the work between two syncs takes longer than they do.
    check_lanes(
        "@cpus 2\n@d disk 75\n@repeat 30\n@silent sync-per-item\n\
         A  0000000000d\n\
        \x20            ^   blocking-io holder=fdatasync cost=30\n",
    );
    // What other threads compute is not work between syncs.
    check_lanes(
        "@cpus 3\n@d disk 75\n@repeat 30\n@silent blocking-io\n\
         A  0ddddddddd\n\
        \x20   ^^^^^^^^^   sync-per-item holder=fdatasync cost=270\n\
         B  1111111111\n\
         C  2222222222\n",
    );
}

#[test]
fn a_sync_at_the_end_is_not_one_an_item() {
    check_lanes(
        "@cpus 2\n@d disk 75\n@repeat 2\n@silent sync-per-item\n\
         A  0000000000ddd\n",
    );
}

#[test]
fn syscall_storm_fires_on_many_short_calls() {
    // Samples inside write come one by one between others.
    let analysis = check_lanes(
        "@cpus 1\n@repeat 50\n\
         @samples A 0..1 1 main;put\n@samples A 1..2 user main;put\n@samples A 2..4 1 main;put\n\
         @samples A 4..5 user main;put\n@samples A 5..6 1 main;put\n\
         A  000000\n\
        \x20   ^^^^^^   syscall-storm holder=write\n",
    );
    assert_eq!(confidence(&analysis, "syscall-storm"), Some(Confidence::Medium));
}

#[test]
fn calls_that_end_a_process_or_begin_one_are_no_storm() {
    for syscall in [231, 60, 59, 56] {
        check_lanes(&format!(
            "@cpus 1\n@repeat 50\n@silent syscall-storm\n\
             @samples A 0..1 {syscall} main;end\n@samples A 1..2 user main;end\n@samples A 2..4 {syscall} main;end\n\
             @samples A 4..5 user main;end\n@samples A 5..6 {syscall} main;end\n\
             A  000000\n"
        ));
    }
}

#[test]
fn a_few_long_reads_are_not_a_storm() {
    // As large a share inside read, but in runs: long calls.
    check_lanes(
        "@cpus 1\n@repeat 10\n@silent syscall-storm\n\
         @samples A 0..20 0 main;load\n@samples A 20..30 user main;sum\n\
         A  000000000000000000000000000000\n",
    );
    // Too few samples for a finding.
    check_lanes(
        "@cpus 1\n@repeat 20\n@silent syscall-storm\n\
         @samples A 0..1 1 main;put\n@samples A 1..2 user main;put\n\
         A  00\n",
    );
}

/// 300 ticks, most of them inside read, in runs: as long calls look, and as short ones may when nothing else is done.
const MOSTLY_READ: &str = "@cpus 1\n@repeat 10\n\
     @samples A 0..20 0 main;load\n@samples A 20..30 user main;sum\n\
     A  000000000000000000000000000000\n";

#[test]
fn calls_that_were_counted_and_are_short_are_a_storm() {
    // 200 ms in read, 10,000 or 12,000 calls in 10 ms each: a million a second, 0.6 µs each.
    let analysis = check_lanes(&format!(
        "@calls 10..20 0 10000\n@calls 40..50 0 12000\n@calls 70..80 0 10000\n@calls 110..120 0 12000\n\
        @calls 140..150 0 10000\n@calls 190..200 0 12000\n{MOSTLY_READ}\
        \x20  ^^^^^^^^^^^^^^^^^^^^   syscall-storm holder=read\n"
    ));
    assert_eq!(confidence(&analysis, "syscall-storm"), Some(Confidence::High));
    let storm = analysis.findings.iter().find(|finding| finding.rule == "syscall-storm").unwrap();
    assert!(storm.summary.iter().any(|line| line.contains("1.10 M ± 115 k times a second")), "{storm:?}");
}

#[test]
fn calls_that_were_counted_and_are_long_are_no_storm() {
    // As many samples inside, one by one between others, but calls of a hundred microseconds.
    check_lanes(
        "@cpus 1\n@repeat 50\n@silent syscall-storm\n\
         @calls 10..20 0 60\n@calls 40..50 0 70\n@calls 110..120 0 60\n@calls 140..150 0 70\n\
         @samples A 0..1 0 main;get\n@samples A 1..2 user main;get\n@samples A 2..4 0 main;get\n\
         @samples A 4..5 user main;get\n@samples A 5..6 0 main;get\n\
         A  000000\n",
    );
}

#[test]
fn a_loss_makes_it_a_hint() {
    // 4 of 160 ticks of waiting are not known: the state of A and B from the start of the loss to their next
    // record.
    let analysis = check_lanes(
        "@cpus 2\n@repeat 20\n@loss 0..40 100\n\
         A  0000mmmm\n\
        \x20       ^^^^   lock-contention waiter=A holder=B cost=156\n\
         B  mmmm1111  holds m 4..8\n",
    );
    assert_eq!(confidence(&analysis, "lock-contention"), Some(Confidence::Low));
}

#[test]
fn spin_wait_names_the_loop_and_the_working_thread() {
    let analysis = check_lanes(
        "@cpus 2\n@repeat 20\n\
         @samples A 0..4 user main;work\n@samples A 4..8 user main;take;spin_lock~\n\
         @samples B 0..4 user main;take;spin_lock~\n@samples B 4..8 user main;work\n\
         A  00000000\n\
        \x20       ^^^^   spin-wait holder=spin_lock cost=160\n\
         B  11111111\n\
        \x20   ^^^^       spin-wait holder=B\n",
    );
    let finding = &analysis.findings[0];
    assert_eq!(confidence(&analysis, "spin-wait"), Some(Confidence::High));
    // Both may work in parallel, except for the sampling error. Or one waits for the other's work, and the
    // gain is 0.
    assert!(finding.gain.low == 0.0 && (0.5..0.7).contains(&finding.gain.high), "{finding:?}");
    let spin = &analysis.derived.spins[0];
    assert_eq!(spin.meanwhile.worked.iter().map(|(_, times)| *times).collect::<Vec<_>>(), [80, 80]);
    assert_eq!((spin.meanwhile.starved, spin.meanwhile.nobody), (0, 0));
}

/// Two processes run one program, whose loop each is in: without the spinning of the one, the other takes as long as before.
#[test]
fn the_same_loop_of_another_process_stays() {
    let (_, mut trace) = trace_of_lanes(
        "@cpus 2\n@s sleep\n@repeat 20\n\
         @samples A 0..2 user main;work\n@samples A 2..8 user main;take;spin_lock~\n\
         @samples C 0..1 user main;work\n@samples C 1..4 user main;take;spin_lock~\n\
         A  00000000\n\
         C  1111ssss\n",
    );
    let other = ProcessId(trace.processes.len() as u32);
    trace.processes.push(trace.processes[0].clone());
    trace.mappings.extend(trace.mappings.clone().into_iter().map(|one| Mapping { process: other, ..one }));
    trace.threads[1].process = other;
    let analysis = analyse(&trace);
    let mut spins = analysis.findings.iter().filter(|finding| finding.rule == "spin-wait");
    let (first, second) = (spins.next().expect("of A"), spins.next().expect("of C"));
    assert_eq!(first.subject, second.subject);
    // Each process takes as long, whatever the other does not.
    assert!(first.gain.high < 0.1 && second.gain.high < 0.1, "{first:#?} {second:#?}");
}

/// Two loops, in which `first` and `second` are the functions that wait there.
fn two_loops(first: &str, second: &str) -> holdup_findings::Analysis {
    check_lanes(&format!(
        "@cpus 2\n@repeat 20\n\
         @samples A 0..4 user scheduleWorker;work\n@samples A 4..8 user scheduleWorker;{first};ask~\n\
         @samples B 0..4 user scheduleWorker;{second};ask_again~\n@samples B 4..8 user scheduleWorker;work\n\
         A  00000000\n\
        \x20       ^^^^   spin-wait\n\
         B  11111111\n",
    ))
}

#[test]
fn spin_loops_of_a_runtime_for_one_purpose_are_merged() {
    let analysis = two_loops("GarbageCollect", "gcWorkerThread");
    let spins = &analysis.derived.spins;
    assert_eq!(spins.iter().map(|spin| spin.samples).collect::<Vec<_>>(), [160]);
    let finding = &analysis.findings[0];
    assert_eq!(finding.subject, "GHC runtime: GC threads spin while they wait for each other");
    assert!(finding.advice.iter().any(|advice| advice.contains("+RTS -qg")), "{finding:?}");
    // Loops of the program's own stay two, in the words of its functions.
    let analysis = two_loops("take", "look");
    assert_eq!(analysis.derived.spins.len(), 2);
    assert!(analysis.derived.spins.iter().all(|spin| spin.purpose.is_none()));
}

#[test]
fn spin_wait_reports_that_the_awaited_thread_had_no_cpu() {
    let analysis = check_lanes(
        "@cpus 1\n@repeat 20\n\
         @samples A 0..6 user main;wait~ready\n@samples B 6..8 user main;work\n\
         A  000000rr\n\
        \x20   ^^^^^^     spin-wait waiter=A holder=ready\n\
         B  rrrrrr00\n",
    );
    let finding = &analysis.findings[0];
    assert_eq!(finding.rule, "spin-wait");
    assert!(
        finding.summary.iter().any(|line| line.contains("were runnable without a CPU: B")),
        "{finding:?}"
    );
    assert!(finding.advice[0].contains("fewer"), "{finding:?}");
}

#[test]
fn work_is_no_spin_and_a_little_spin_is_silent() {
    // The same picture, but the loops work.
    check_lanes(
        "@cpus 2\n@repeat 20\n@silent all\n\
         @samples A 0..8 user main;search\n@samples B 0..8 user main;search\n\
         A  00000000\n\
         B  11111111\n",
    );
    // A lock that spins for a moment before it sleeps.
    check_lanes(
        "@cpus 2\n@repeat 20\n@silent spin-wait\n\
         @samples A 0..79 user main;work\n@samples A 79..80 user main;take;spin~\n\
         @samples B 0..80 user main;work\n\
         A  00000000000000000000000000000000000000000000000000000000000000000000000000000000\n\
         B  11111111111111111111111111111111111111111111111111111111111111111111111111111111\n",
    );
}

#[test]
fn copying_is_attributed_to_the_caller() {
    let analysis = check_lanes(
        "@cpus 2\n@repeat 20\n@samples A 0..6 user start_thread;main;forward;__memmove_avx_unaligned_erms\n\
         @samples A 6..8 user start_thread;main;parse\n\
         A  00000000\n\
        \x20   ^^^^^^       copy-heavy holder=forward\n",
    );
    // It does more of that than of anything else.
    assert_eq!(confidence(&analysis, "copy-heavy"), Some(Confidence::Medium));
    let copying = analysis.findings.iter().find(|finding| finding.rule == "copy-heavy").unwrap();
    assert!(copying.summary.contains(&"Callers: forward 100 %. These are called by main 100 %.".to_owned()));
    let gain = analysis.findings.iter().find(|finding| finding.rule == "copy-heavy").unwrap().gain;
    assert!(gain.low == 0.0 && (gain.high - 0.75).abs() < 0.05, "{gain:?}");
}

#[test]
fn copying_less_than_other_work_is_a_hint() {
    let analysis = check_lanes(
        "@cpus 2\n@repeat 20\n@samples A 0..2 user start_thread;main;forward;__memmove_avx_unaligned_erms\n\
         @samples A 2..8 user start_thread;main;parse\n\
         A  00000000\n\
        \x20   ^^           copy-heavy holder=forward\n",
    );
    assert_eq!(confidence(&analysis, "copy-heavy"), Some(Confidence::Low));
}

#[test]
fn a_little_copying_is_silent() {
    check_lanes(
        "@cpus 2\n@repeat 40\n@silent copy-heavy\n\
         @samples A 0..1 user start_thread;main;forward;__memmove_avx_unaligned_erms\n\
         @samples A 1..20 user start_thread;main;parse\n\
         A  00000000000000000000\n",
    );
}

#[test]
fn formatting_is_attributed_to_the_caller_with_its_copies() {
    let analysis = check_lanes(
        "@cpus 2\n@repeat 20\n@silent copy-heavy\n\
         @samples A 0..3 user start_thread;main;log_line;snprintf;__vfprintf_internal\n\
         @samples A 3..6 user start_thread;main;log_line;snprintf;__vfprintf_internal;__memmove_avx_unaligned_erms\n\
         @samples A 6..8 user start_thread;main;parse\n\
         A  00000000\n\
        \x20   ^^^^^^       format-heavy holder=log_line\n",
    );
    // It does more of that than of anything else.
    assert_eq!(confidence(&analysis, "format-heavy"), Some(Confidence::Medium));
}

#[test]
fn encoding_is_attributed_to_the_sender_with_its_allocations() {
    let analysis = check_lanes(
        "@cpus 2\n@repeat 20\n@silent copy-heavy\n@silent allocation-hotspot\n\
         @samples A 0..3 user main;rate;v8::internal::ValueSerializer::WriteObject\n\
         @samples A 3..6 user main;rate;v8::internal::ValueSerializer::WriteObject;v8::internal::Factory::NewJSArray\n\
         @samples A 6..8 user main;parse\n\
         A  00000000\n\
        \x20   ^^^^^^       encode-heavy holder=rate\n",
    );
    assert_eq!(confidence(&analysis, "encode-heavy"), Some(Confidence::Medium));
    // With as much other work it is a hint.
    let analysis = check_lanes(
        "@cpus 2\n@repeat 20\n@samples A 0..2 user main;rate;v8::internal::ValueSerializer::WriteObject\n\
         @samples A 2..8 user main;parse\n\
         A  00000000\n\
        \x20   ^^           encode-heavy holder=rate\n",
    );
    assert_eq!(confidence(&analysis, "encode-heavy"), Some(Confidence::Low));
}

#[test]
fn a_little_packing_is_silent() {
    check_lanes(
        "@cpus 2\n@repeat 40\n@silent encode-heavy\n\
         @samples A 0..1 user main;rate;v8::internal::ValueSerializer::WriteObject\n\
         @samples A 1..20 user main;parse\n\
         A  00000000000000000000\n",
    );
}

#[test]
fn a_program_with_its_own_text_is_silent() {
    // The function's name does not make it formatting, and without a C library there is none.
    check_lanes(
        "@cpus 2\n@repeat 20\n@silent format-heavy\n@silent copy-heavy\n@samples A 0..8 user main;format_report;copy_rows\n\
         A  00000000\n",
    );
}

#[test]
fn allocation_is_attributed_to_the_caller() {
    let analysis = check_lanes(
        "@cpus 2\n@repeat 20\n@samples A 0..3 user start_thread;main;compare;malloc;_int_malloc\n\
         @samples A 3..5 user start_thread;main;compare;free;_int_free\n\
         @samples A 5..8 user start_thread;main;parse\n\
         A  00000000\n\
        \x20   ^^^^^        allocation-hotspot holder=compare\n",
    );
    assert_eq!(confidence(&analysis, "allocation-hotspot"), Some(Confidence::Low));
    let advice = &analysis.findings.iter().find(|one| one.rule == "allocation-hotspot").unwrap().advice;
    assert!(advice[1].contains("run --allocs"), "{advice:?}");
}

/// A static binary contains the allocator's callees next to the program's own functions.
#[test]
fn what_an_allocator_calls_itself_did_not_ask_for_it() {
    check_lanes(
        "@cpus 2\n@repeat 20\n@samples A 0..5 202 start_thread;main;compare;malloc;__wake;__syscall2\n\
         @samples A 5..8 user start_thread;main;parse\n\
         A  00000000\n\
        \x20   ^^^^^        allocation-hotspot holder=compare\n",
    );
}

#[test]
fn a_little_allocating_and_a_pool_of_ones_own_are_silent() {
    // The program's own pool belongs to the program. Its name does not make it an allocator.
    check_lanes(
        "@cpus 2\n@repeat 40\n@silent allocation-hotspot\n\
         @samples A 0..1 user start_thread;main;compare;malloc;_int_malloc\n\
         @samples A 1..20 user start_thread;main;compare;pool_take\n\
         A  00000000000000000000\n",
    );
}
