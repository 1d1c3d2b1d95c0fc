//! Rules about the holder of a lock while other threads wait for it, on pictures. Also which finding is
//! reported as another one's symptom.

use holdup_events::tables::{Slice, ThreadState};
use holdup_events::{ThreadId, WaitReason};
use holdup_findings::charge::Charge;
use holdup_findings::finding::{About, Finding, Gain};
use holdup_findings::rule::Charged;
use holdup_findings::rules::merge;
use holdup_findings::{Analysis, Confidence};
use holdup_testkit::check::{check_lanes, confidence, trace_of_lanes};

fn symptoms(analysis: &Analysis) -> Vec<(&str, &str)> {
    let names = |symptom: &holdup_findings::merging::Symptom| {
        let rule = analysis.findings[symptom.root].rule;
        (rule, symptom.finding.rule)
    };
    analysis.symptoms.iter().map(names).collect()
}

#[test]
fn preempted_lock_holder_names_holder_and_hog() {
    let analysis = check_lanes(
        "@cpus 2\n@repeat 20\n\
         A     00rrrrrr0mmm  holds m 0..9\n\
        \x20        ^^^^^^        preempted-lock-holder holder=A cost=120\n\
        \x20        ^^^^^^        preempted-lock-holder holder=hog waiter=A\n\
         B     mmmmmmmmm111  holds m 9..12\n\
        \x20      ^^^^^^^^^       preempted-lock-holder waiter=B\n\
         ~hog  ..000000....\n",
    );
    assert_eq!(analysis.findings[0].rule, "preempted-lock-holder", "{:#?}", analysis.findings);
    assert_eq!(confidence(&analysis, "preempted-lock-holder"), Some(Confidence::High));
    assert!((analysis.findings[0].gain.high - 0.5).abs() < 0.01, "{:#?}", analysis.findings[0].gain);
    assert!(
        symptoms(&analysis).contains(&("preempted-lock-holder", "lock-contention")),
        "{:#?}",
        analysis.symptoms
    );
}

#[test]
fn a_preempted_holder_costs_as_much_where_other_programs_have_the_other_cpus() {
    let analysis = check_lanes(
        "@cpus 2\n@repeat 20\n\
         A      00rrrrrr0mmm  holds m 0..9\n\
        \x20        ^^^^^^        preempted-lock-holder holder=A cost=120\n\
         B      mmmmmmmmm111  holds m 9..12\n\
         ~hog   ..000000....\n\
         ~other 111111111...\n",
    );
    let finding = analysis.findings.iter().find(|finding| finding.rule == "preempted-lock-holder").unwrap();
    // The holder keeps its CPU, and passes the CPU with the lock: six of twelve ticks, while the other
    // program runs.
    assert!(finding.gain.low >= 0.4, "{:#?}", finding.gain);
    assert!((finding.gain.high - 0.5).abs() < 0.01, "{:#?}", finding.gain);
}

#[test]
fn a_lock_on_a_file_is_one_lock_for_all_processes() {
    let analysis = check_lanes(
        "@cpus 2\n@m file-lock\n@s sleep\n@child B\n@repeat 20\n\
         A     0ssss1mmmmmm  holds m 0..6\n\
        \x20       ^^^^         blocked-lock-holder holder=A waiter=A\n\
         B     mmmmmm0ssss1  holds m 6..12\n\
        \x20      ^^^^^^        blocked-lock-holder waiter=B\n",
    );
    let locks = &analysis.derived.locks;
    assert_eq!(locks.len(), 1, "{locks:#?}");
    assert_eq!((locks[0].reason, locks[0].waiters), (WaitReason::FileLock, 2), "{locks:#?}");
    let known: u64 = locks[0].held_by.iter().filter(|(who, _)| who.is_some()).map(|(_, ns)| ns).sum();
    assert!(known as f64 > 0.9 * locks[0].wait_ns as f64, "{locks:#?}");
}

/// The kept ones of two findings. One is the lock wait (reported by `rule` for the waits of `who`). The other
/// is that the holder of B's lock was runnable during that time.
fn kept_of(rule: &'static str, who: &str) -> Vec<&'static str> {
    let (_, trace) = trace_of_lanes(
        "@cpus 3\n@n lock\n@repeat 5\nA  0rrrrrrrr0m\nB  1111111mmm1\nC  nnnnnnnnn2n\n~hog  .00000000..\n",
    );
    let is = |slice: &Slice, name: &str| trace.threads[slice.thread.index()].name == name;
    let waits =
        |name: &str| Charge::matching(&trace, |slice| is(slice, name) && slice.state == ThreadState::Blocked);
    let queued = Charge::matching(&trace, |slice| is(slice, "A") && slice.state.waits_for_cpu());
    let finding = |rule, gain| Finding {
        rule,
        about: About::Other,
        subject: format!("lock of {who}"),
        summary: Vec::new(),
        cost_ns: 1,
        gain: Gain { low: gain, high: gain },
        likely: None,
        confidence: Confidence::High,
        evidence: Vec::new(),
        advice: Vec::new(),
    };
    let preempted =
        Charged { finding: finding("preempted-lock-holder", 0.3), charge: queued.and(&trace, &waits("B")) };
    let root = Charged { finding: finding(rule, 0.1), charge: waits(who) };
    merge(&trace, vec![preempted, root]).findings.iter().map(|finding| finding.rule).collect()
}

#[test]
fn a_turn_based_lock_is_not_blamed_on_preemption() {
    // The holder's own queueing is most of what the finding charges.
    assert_eq!(kept_of("interpreter-lock", "B"), ["interpreter-lock"]);
    // For a lock without turns it is the cause.
    assert_eq!(kept_of("lock-contention", "B").first(), Some(&"preempted-lock-holder"));
    // Another lock is another matter.
    assert_eq!(kept_of("interpreter-lock", "C"), ["preempted-lock-holder", "interpreter-lock"]);
}

#[test]
fn priority_inversion_names_the_thread_that_runs_instead() {
    check_lanes(
        "@cpus 2\n@repeat 20\n\
         low     00rrrrrr0mmm  holds m 0..9\n\
        \x20          ^^^^^^        preempted-lock-holder holder=middle\n\
         high    mmmmmmmmm111  holds m 9..12\n\
         middle  cc000000cccc\n@c park\n",
    );
}

/// A holder that hardly gets a CPU because of two computing threads that never take the lock. One thread
/// waits for it. `rest` is the activity of these two while the others do not need the CPU.
fn starved_holder(ticks: usize) -> String {
    let (queues, waits, runs, other) =
        ("r".repeat(ticks), "m".repeat(ticks), "0".repeat(ticks), "1".repeat(ticks));
    format!(
        "@cpus 2\n@repeat 20\n\
         low   0{queues}0mm  holds m 0..{}\n\
         high  m{waits}m00  holds m {}..{}\n\
         work  r{runs}rrr\n\
         more  1{other}111\n",
        ticks + 2,
        ticks + 2,
        ticks + 4,
    )
}

#[test]
fn a_starved_holder_delays_its_waiter_without_idle_cpus() {
    let analysis = check_lanes(&starved_holder(40));
    let first = &analysis.findings[0];
    assert_eq!((first.rule, first.confidence), ("preempted-lock-holder", Confidence::Medium), "{first:#?}");
    // 40 of 44 ticks.
    assert!(first.gain.high >= 40.0 / 44.0 && first.gain.low < 0.05, "{:?}", first.gain);
    assert!(
        first.summary[2].starts_with("Holders and waiters of the lock ran 80.0 ms of the 1.76 s"),
        "{first:#?}"
    );
    assert!(
        first.summary[3].contains("low (") && first.summary[3].contains("its weight is lower"),
        "{first:#?}"
    );
}

#[test]
fn no_priority_inversion_if_the_lock_users_do_the_work() {
    // The same, but they run for a fifth of the time. The first to run takes it from another.
    let analysis = check_lanes(&starved_holder(8));
    assert_eq!(confidence(&analysis, "preempted-lock-holder"), None, "{:#?}", analysis.findings);
}

#[test]
fn losing_the_cpu_without_a_lock_is_not_a_preempted_holder() {
    check_lanes(
        "@cpus 2\n@repeat 20\n@silent preempted-lock-holder\n\
         A     00rrrrrr0000\n\
         B     111111111111\n\
         ~hog  ..000000....\n",
    );
    // Other threads wait for a lock during that time, namely for one that a running thread holds.
    check_lanes(
        "@cpus 3\n@repeat 20\n@silent preempted-lock-holder\n\
         A     00rrrrrr0000\n\
         B     mmmmmmmm1111\n\
         C     22222222mmmm  holds m 0..8\n\
         ~hog  ..000000....\n",
    );
}

#[test]
fn blocked_lock_holder_names_the_holders_activity() {
    let analysis = check_lanes(
        "@cpus 2\n@s sleep\n@repeat 20\n@silent oversleep\n@silent lock-contention\n\
         A  0sssssss0mm  holds m 0..9\n\
        \x20   ^^^^^^^      blocked-lock-holder holder=slept cost=140\n\
         B  mmmmmmmmm11  holds m 9..11\n\
        \x20  ^^^^^^^^^     blocked-lock-holder holder=A waiter=B\n",
    );
    assert!(
        symptoms(&analysis).contains(&("blocked-lock-holder", "lock-contention")),
        "{:#?}",
        analysis.symptoms
    );
}

#[test]
fn sleeping_during_a_working_holder_is_lock_contention() {
    check_lanes(
        "@cpus 3\n@s sleep\n@repeat 20\n@silent blocked-lock-holder\n\
         A  0ssssssss00\n\
         B  mmmmmmmmm11  holds m 9..11\n\
        \x20  ^^^^^^^^^     lock-contention holder=C\n\
         C  222222222mm  holds m 0..9\n",
    );
}

#[test]
fn lock_convoy_fires_where_waking_takes_the_time() {
    let analysis = check_lanes(
        "@cpus 2\n@tick 20000\n@repeat 200\n@silent lock-contention\n\
         A  0mmmmr  holds m 0..1\n\
        \x20   ^^^^    lock-convoy\n\
         B  mr1mmm  holds m 2..3\n\
         C  mmmr0m  holds m 4..5\n",
    );
    // Without late arrivals three of six ticks are left. Without the lock two CPUs have three ticks of work.
    let gain = analysis.findings[0].gain;
    assert!((0.4..0.5).contains(&gain.low) && (gain.high - 0.75).abs() < 0.02, "{gain:#?}");
}

#[test]
fn a_lock_that_is_held_for_long_is_no_convoy() {
    check_lanes(
        "@cpus 2\n@tick 20000\n@repeat 200\n@silent lock-convoy\n\
         A  000000mmmmmmmmmmmmr  holds m 0..6\n\
         B  mmmmmmr11111mmmmmmm  holds m 7..12\n\
         C  mmmmmmmmmmmmr00000m  holds m 13..18\n",
    );
}

#[test]
fn a_next_owner_queued_behind_working_threads_is_no_convoy() {
    check_lanes(
        "@cpus 2\n@tick 20000\n@repeat 200\n@silent lock-convoy\n\
         A  000mmmmrr  holds m 0..1\n\
         B  mrr000mmm  holds m 3..4\n\
         C  mmmmrr000  holds m 6..7\n",
    );
}

#[test]
fn of_a_chain_of_locks_the_last_is_the_cause() {
    let analysis = check_lanes(
        "@cpus 3\n@repeat 20\n\
         A  mmmmmmmm0m  holds m 8..9\n\
         B  nnnnnnn1m1  holds m 0..8 holds n 7..8 holds m 9..10\n\
        \x20  ^^^^^^^      lock-contention holder=0x16e0\n\
         C  2222222n22  holds n 0..7 holds n 8..10\n",
    );
    assert!(analysis.findings[0].subject.contains("0x16e0"), "{:#?}", analysis.findings);
    assert_eq!(analysis.findings.iter().filter(|finding| finding.rule == "lock-contention").count(), 1);
    assert_eq!(symptoms(&analysis), [("lock-contention", "lock-contention")]);
}

#[test]
fn a_holder_that_is_off_its_cpu_for_a_part_is_a_part_of_the_contention() {
    let analysis = check_lanes(
        "@cpus 2\n@repeat 20\n\
         A       0000mmmm0000mmmmm  holds m 0..17\n\
        \x20                   ^^^^^     lock-contention waiter=A\n\
         B       mmmm1111mmmm1rrr1  holds m 0..17\n\
         ~backup .............111.\n",
    );
    let symptoms = analysis.symptoms.iter().map(|symptom| symptom.finding.rule);
    assert!(symptoms.into_iter().any(|rule| rule == "preempted-lock-holder"), "{:#?}", analysis.findings);
    assert!(analysis.findings.iter().all(|finding| finding.rule != "preempted-lock-holder"));
}

#[test]
fn a_deadlock_cycle_is_reported() {
    // Most of the time A holds n and waits for m, and B the reverse. Then one of them gives up.
    let (_, mut trace) = trace_of_lanes("@cpus 4\n@repeat 20\nA  0mmmmmmm0\nB  1nnnnnnn1\n");
    let tids: Vec<u32> = trace.threads.iter().map(|thread| thread.tid).collect();
    for (waiter, other) in [(0, 1), (1, 0)] {
        let wait = trace
            .slices
            .of_thread(ThreadId(waiter))
            .find(|one| one.state == ThreadState::Blocked)
            .unwrap()
            .wait;
        trace.waits[wait.index()].owner_tid = tids[other];
    }
    let analysis = holdup_findings::analyse(&trace);
    let found = analysis.findings.iter().find(|finding| finding.rule == "lock-contention");
    let found = found.unwrap_or_else(|| panic!("{:#?}", analysis.findings));
    assert!(found.summary.iter().any(|line| line.contains("in a cycle (a deadlock)")), "{found:#?}");
    assert!(found.advice[0].contains("in the same order"), "{found:#?}");
}

/// A user cannot shorten the hold time of a library's lock. The library's descriptor has other advice.
#[test]
fn a_librarys_lock_has_advice_of_its_own() {
    let advice = |stack: &str| {
        let analysis = check_lanes(&format!(
            "@cpus 2\n@repeat 20\n@stack m main;work;{stack}\n\
             A  000mmm  holds m 0..3\n\
             B  mmm111  holds m 3..6\n"
        ));
        let found = analysis.findings.iter().find(|finding| finding.rule == "lock-contention");
        found.unwrap_or_else(|| panic!("{:#?}", analysis.findings)).advice.clone()
    };
    let of_malloc = advice("malloc;_int_malloc;__lll_lock_wait_private");
    assert!(of_malloc.len() == 1 && of_malloc[0].contains("jemalloc"), "{of_malloc:?}");
    assert!(advice("pthread_mutex_lock;__lll_lock_wait")[0].starts_with("Hold it for less time"));
}

/// A lock that the kernel knows to be one on a file is a runtime's where its code takes it.
#[test]
fn so_has_a_runtimes_lock_on_a_file() {
    let analysis = check_lanes(
        "@cpus 2\n@m file-lock\n@repeat 20\n@stack m main;php_request_startup;php_session_start;flock\n\
         A  000mmm  holds m 0..3\n\
         B  mmm111  holds m 3..6\n",
    );
    let found = analysis.findings.iter().find(|finding| finding.rule == "lock-contention").unwrap();
    assert!(found.advice.len() == 1 && found.advice[0].contains("session_write_close"), "{found:#?}");
    assert!(
        found.subject.starts_with("lock of an unnamed file ("),
        "its file says which it is: {}",
        found.subject
    );
}

#[test]
fn a_library_lock_with_a_blocked_holder_gets_its_advice() {
    let advice = |stack: &str| {
        let analysis = check_lanes(&format!(
            "@cpus 2\n@d disk\n@repeat 20\n@stack m main;{stack}\n\
             A  0ddddddd0mm  holds m 0..9\n\
             B  mmmmmmmmm11  holds m 9..11\n"
        ));
        let found = analysis.findings.iter().find(|finding| finding.rule == "blocked-lock-holder");
        found.unwrap_or_else(|| panic!("{:#?}", analysis.findings)).advice.clone()
    };
    let of_log = advice("PostgresMain;XLogFlush;LWLockAcquireOrWait;PGSemaphoreLock");
    assert!(of_log.len() == 1 && of_log[0].contains("synchronous_commit"), "{of_log:?}");
    assert!(advice("my_lock")[0].starts_with("Release the lock"));
}

/// For PostgreSQL's heavyweight locks the caller shows the kind, and each kind has its own remedy.
#[test]
fn a_heavyweight_lock_of_postgresql_is_named_by_its_kind() {
    let lock = |caller: &str| {
        let analysis = check_lanes(&format!(
            "@cpus 2\n@d disk\n@repeat 20\n@stack m main;PostgresMain;{caller};LockAcquireExtended;ProcSleep;WaitLatch\n\
             A  0ddddddd0mm  holds m 0..9\n\
             B  mmmmmmmmm11  holds m 9..11\n"
        ));
        let found = analysis.findings.iter().find(|finding| finding.rule == "blocked-lock-holder");
        let found = found.unwrap_or_else(|| panic!("{:#?}", analysis.findings));
        (found.subject.clone(), found.advice.join(" "))
    };
    let kinds = [
        (
            "CommitTransactionCommand;PreCommit_Notify;LockSharedObject",
            "lock of NOTIFY",
            "NOTIFY in few transactions",
        ),
        ("createdb;LockSharedObject", "object lock", "locktype object"),
        ("ExecUpdate;heap_update;XactLockTableWait", "row lock", "SKIP LOCKED"),
        ("ExecUpdate;heap_update;heap_lock_tuple;LockTuple", "row lock", "SKIP LOCKED"),
        (
            "ProcessUtility;LockTableCommand;RangeVarGetRelidExtended;LockRelationOid",
            "table lock",
            "lock_timeout",
        ),
        ("ExecInsert;RelationGetBufferForTuple;LockRelationForExtension", "table extension lock", "COPY"),
        ("ExecResult;pg_advisory_xact_lock_int8", "advisory lock", "a key per item"),
        ("ExecResult", "heavyweight lock", "pg_blocking_pids"),
    ];
    for (caller, name, advised) in kinds {
        let (subject, advice) = lock(caller);
        assert!(subject.starts_with(&format!("PostgreSQL {name} ")), "{caller}: {subject}");
        assert!(advice.contains(advised), "{caller}: {advice}");
    }
}

/// Two variables of one name, of which the first is waited for longer: what each forecast leaves out is its own lock.
#[test]
fn locks_of_one_name_are_forecast_one_by_one() {
    let (_, mut trace) = trace_of_lanes(
        "@cpus 2\n@repeat 20\n\
         A  00000000mmmmmmmm00nn  holds m 0..8  holds n 16..18\n\
         B  1mmmmmmm11111111nn11  holds m 8..16  holds n 18..20\n",
    );
    trace.waits.iter_mut().for_each(|wait| wait.symbol = "lock".to_owned());
    let analysis = holdup_findings::analyse(&trace);
    let mut locks = analysis.findings.iter().filter(|finding| finding.rule == "lock-contention");
    let (first, second) = (locks.next().expect("m"), locks.next().expect("n"));
    assert_eq!(first.subject, second.subject);
    assert!(
        first.cost_ns > second.cost_ns && first.gain.high > second.gain.high + 0.1,
        "{first:#?} {second:#?}"
    );
}
