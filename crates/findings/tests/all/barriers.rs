//! Rendezvous of threads on pictures: the site, the last thread to arrive and the cause, and patterns that
//! only resemble a rendezvous.

use holdup_findings::Confidence;
use holdup_findings::derive::class::Class;
use holdup_findings::derive::on_cpu::SampleClasses;
use holdup_findings::derive::rendezvous::{self, MeetingKind};
use holdup_findings::derive::replay::Endings;
use holdup_findings::derive::roles::Roles;
use holdup_findings::derive::timelines::Timelines;
use holdup_findings::descriptors::Descriptors;
use holdup_testkit::check::{check_lanes, confidence};
use holdup_testkit::{assemble, sim};

#[test]
fn load_imbalance_names_the_thread_with_most_work() {
    let analysis = check_lanes(
        "@cpus 4\n@b barrier\n@repeat 20\n@silent barrier-straggler\n@samples A 0..8 user main;sort\n\
         A  00000000  holds b 0..8\n\
        \x20     ^^^^     load-imbalance holder=A cost=240\n\
         B  11bbbb11\n\
         C  22bbbb22\n\
         D  33bbbb33\n",
    );
    let used = &analysis.derived.rendezvous.uses[0];
    assert_eq!(used.meetings, 20);
    assert_eq!(used.lateness_ns, [4_000_000; 3]);
    assert_eq!((used.harm_ns, used.spun_ns), (240_000_000, 0));
    assert_eq!((used.by_last.len(), used.by_last[0].1), (1, 20));
    assert_eq!((used.causes.running_ns, used.causes.total_ns()), (80_000_000, 80_000_000));
    assert_eq!(used.late_at[0].0, "sort");
    // 8 ticks of work and three times 4 are 20: 5 each instead of 8.
    assert_eq!((used.imbalance.low_ns, used.imbalance.high_ns), (60_000_000, 60_000_000));
    assert_eq!(confidence(&analysis, "load-imbalance"), Some(Confidence::High));
    assert_eq!(analysis.findings[0].rule, "load-imbalance", "{:#?}", analysis.findings);
}

/// In 12 ticks one thread runs 12, and three run 2 each on the other CPU. 18 ticks take two CPUs 9 ticks in
/// any division.
#[test]
fn even_shares_of_more_threads_than_cpus_take_the_cpus_that_there_are() {
    let analysis = check_lanes(
        "@cpus 2\n@b barrier\n@repeat 20\n@samples A 0..12 user main;sort\n\
         A  000000000000  holds b 0..12\n\
         B  bbbbbbbb11bb\n\
         C  bbbbbbbbrr11\n\
         D  11bbbbbbrrrr\n",
    );
    let found = analysis.findings.iter().find(|finding| finding.rule == "load-imbalance").unwrap();
    assert!((0.22..0.33).contains(&found.gain.high), "{:?}", found.gain);
}

/// Even shares look so where one CPU is slower than the other.
#[test]
fn a_slightly_longer_share_is_a_hint() {
    let late_by = |waits: usize| {
        let lane = |middle: &str| format!("{0}{1}{0}", "1".repeat(17), middle.repeat(waits));
        let picture = format!(
            "@cpus 2\n@b barrier\n@repeat 20\nA  {}  holds b 0..{}\nB  {}\n",
            lane("1").replace('1', "0"),
            34 + waits,
            lane("b"),
        );
        let analysis = check_lanes(&picture);
        assert_eq!(analysis.derived.rendezvous.uses[0].meetings, 20);
        confidence(&analysis, "load-imbalance")
    };
    assert_eq!(late_by(4), Some(Confidence::Low));
    assert_eq!(late_by(12), Some(Confidence::High));
}

#[test]
fn barrier_straggler_names_the_occupant_of_the_cpu() {
    let analysis = check_lanes(
        "@cpus 4\n@b barrier\n@repeat 20\n@silent load-imbalance\n\
         A       0rrrr000  holds b 0..8\n\
        \x20        ^^^^      barrier-straggler holder=backup\n\
         B       111bbb11\n\
         C       222bbb22\n\
         D       333bbb33\n\
         ~backup .0000...\n",
    );
    let used = &analysis.derived.rendezvous.uses[0];
    // Two of four ticks of waiting for a CPU lie behind the others' arrival, three ticks before the release.
    assert_eq!((used.straggle.low_ns, used.straggle.high_ns), (40_000_000, 60_000_000));
    assert_eq!((used.causes.others_ns, used.causes.running_ns), (40_000_000, 20_000_000));
    // It is the other program's doing.
    assert_eq!(confidence(&analysis, "barrier-straggler"), Some(Confidence::Low));
}

#[test]
fn a_straggler_displaced_by_another_program_is_low_confidence() {
    let beside = |stranger: &str| {
        let analysis = check_lanes(&format!(
            "@cpus 2\n@b barrier\n@repeat 20\n@silent load-imbalance\n\
             A       0000bbbb\n\
             B       rrrr0001  holds b 0..8\n\
             ~backup {stranger}\n"
        ));
        confidence(&analysis, "barrier-straggler")
    };
    assert_eq!(beside("1111111."), Some(Confidence::Low));
    assert_eq!(beside("1......."), Some(Confidence::High));
}

#[test]
fn barrier_straggler_names_a_wait_for_the_disk() {
    let analysis = check_lanes(
        "@cpus 4\n@b barrier\n@d disk\n@repeat 20\n@silent load-imbalance\n\
         A  0dddddd00  holds b 0..9\n\
        \x20   ^^^^^^^^   barrier-straggler holder=io-wait\n\
         B  111bbbbb1\n\
         C  222bbbbb2\n",
    );
    let used = &analysis.derived.rendezvous.uses[0];
    assert_eq!(used.causes.blocked_ns[Class::IoWait as usize], 80_000_000);
}

#[test]
fn an_even_barrier_is_silent() {
    let analysis = check_lanes(
        "@cpus 4\n@tick 100000\n@b barrier\n@repeat 20\n@silent load-imbalance\n@silent barrier-straggler\n\
         A  000000000000000000000000000000000000000000000000000000000000000b  holds b 0..63\n\
         B  1111111111111111111111111111111111111111111111111111111111111111  holds b 63..64\n\
         C  222222222222222222222222222222222222222222222222222222222222222b\n",
    );
    assert_eq!(analysis.derived.rendezvous.uses.len(), 1);
}

#[test]
fn threads_that_are_joined_meet() {
    let analysis = check_lanes(
        "@cpus 4\n@j join\n@repeat 20\n@samples B 1..9 user worker;sort\n\
         A  0jjjjjjjj\n\
         B  .11111111  holds j 0..9\n\
        \x20    ^^^^^^^    load-imbalance waiter=B holder=sort\n\
         C  .222.....\n\
         D  .333.....\n",
    );
    let rendezvous = &analysis.derived.rendezvous;
    assert_eq!(rendezvous.sites[rendezvous.uses[0].site as usize].kind, MeetingKind::Join);
}

#[test]
fn threads_that_spin_before_they_sleep_arrived_when_spinning_began() {
    let analysis = check_lanes(
        "@cpus 4\n@b barrier\n@repeat 20\n@samples A 0..9 user main;sort\n\
         @samples B 0..2 user main;sort\n@samples B 2..4 user main;meet;wait~\n\
         @samples B 8..9 user main;sort\n\
         @samples C 0..2 user main;sort\n@samples C 2..8 user main;meet;wait~\n@samples C 8..9 user main;sort\n\
         A  000000000  holds b 0..9\n\
        \x20     ^^^^^^    load-imbalance holder=A\n\
         B  1111bbbb1\n\
         C  222222222\n\
         D  33bbbbbb3\n",
    );
    let used = &analysis.derived.rendezvous.uses[0];
    assert_eq!(used.meetings, 20);
    // B and C spin, D sleeps at once: six ticks each.
    assert_eq!((used.harm_ns, used.spun_ns), (360_000_000, 240_000_000));
    assert_eq!(analysis.findings[0].rule, "load-imbalance", "{:#?}", analysis.findings);
    assert!(analysis.findings.iter().all(|finding| finding.rule != "spin-wait"));
}

#[test]
fn spinning_threads_are_a_barrier() {
    let analysis = check_lanes(
        "@cpus 2\n@repeat 20\n@samples A 0..10 user main;sort\n\
         @samples B 0..2 user main;sort\n@samples B 2..9 user main;meet;wait~\n\
         @samples B 9..10 user main;sort\n\
         A  0000000000\n\
        \x20     ^^^^^^^    load-imbalance holder=sort\n\
         B  1111111111\n",
    );
    let used = &analysis.derived.rendezvous.uses[0];
    assert_eq!((used.meetings, used.harm_ns), (20, 140_000_000));
    assert_eq!(confidence(&analysis, "load-imbalance"), Some(Confidence::Medium));
}

#[test]
fn queues_turns_and_locks_are_no_barriers() {
    // A dispatcher wakes all workers at once.
    let queue = "@cpus 4\n@c park\n@repeat 20\n\
         A  00000000ccc  holds c 0..8\n\
         B  cccccccc111  holds c 8..11\n\
         C  cccccccc22c\n";
    // Two take turns.
    let turns = "@cpus 4\n@c park\n@repeat 20\n\
         A  0000cccc  holds c 0..4\n\
         B  cccc1111  holds c 4..8\n";
    // A lock goes from one to the next.
    let lock = "@cpus 4\n@repeat 20\n\
         A  0000mmmmmmmm  holds m 0..4\n\
         B  mmmm1111mmmm  holds m 4..8\n\
         C  mmmmmmmm2222  holds m 8..12\n";
    for picture in [queue, turns, lock] {
        let analysis = check_lanes(picture);
        assert!(analysis.derived.rendezvous.uses.is_empty(), "{:#?}", analysis.derived.rendezvous.uses);
    }
}

#[test]
fn barriers_of_random_programs_equal_the_truth() {
    let mut with_barrier = 0;
    for seed in 0..120 {
        let program = sim::whole(seed);
        let simulation = sim::run(&program);
        let trace = assemble(simulation.events.clone(), simulation.manifest.clone());
        let found = rendezvous::derive(
            &trace,
            &SampleClasses::new(&trace, &Descriptors::built_in()),
            (&Timelines::derive(&trace), &Roles::built_in(&trace)),
            &Endings::default(),
        );
        let barriers: Vec<_> = found
            .uses
            .iter()
            .filter(|used| found.sites[used.site as usize].kind == MeetingKind::Barrier)
            .collect();
        let targets = program.threads.iter().filter(|plan| plan.target);
        let meets = targets.clone().any(|plan| plan.ops.contains(&sim::Op::Meet(0)));
        assert_eq!(barriers.len(), usize::from(meets), "seed {seed}: queues and locks are no meetings");
        let Some(used) = barriers.first() else { continue };
        with_barrier += 1;
        let laps = targets.clone().filter_map(|plan| plan.laps).next();
        assert_eq!(Some(used.meetings), laps.map(u64::from), "seed {seed}");
        assert_eq!(used.members.len(), targets.count(), "seed {seed}");
        let waited: u64 =
            simulation.truth.classes.values().map(|classes| classes[Class::JoinWait as usize]).sum();
        assert_eq!(used.harm_ns, waited, "seed {seed}");
        let late = found.meetings.iter().filter(|meeting| meeting.site == used.site);
        let late: u64 = late.map(|meeting| meeting.release.since(meeting.asked).0).sum();
        assert_eq!(used.causes.total_ns(), late, "seed {seed}");
        assert_eq!(used.causes.unknown_ns, 0, "seed {seed}");
        for saved in [used.imbalance, used.straggle] {
            assert!(saved.low_ns <= saved.high_ns && saved.high_ns <= late, "seed {seed}: {saved:?}");
        }
    }
    assert!(with_barrier > 20);
}

/// Two threads find work for a pool in turn. Each wakes all idle threads, the other finder among them, but
/// only half of the pool is idle at a time. They serve requests and do not wait for each other.
#[test]
fn idle_threads_of_a_pool_do_not_meet() {
    let picture = "@cpus 8\n@c park\n@d disk\n@repeat 20\n\
         A  00000000cccc00000000  holds c 0..8\n\
         B  cccc111111111111cccc  holds c 8..16\n\
         C  cccc222222ddddddddd2\n\
         D  cccc333333ddddddddd3\n\
         E  ddddddd4cccc44444444\n\
         F  ddddddd5cccc55555555\n";
    let analysis = check_lanes(picture);
    assert!(analysis.derived.rendezvous.uses.is_empty(), "{:#?}", analysis.derived.rendezvous.uses);
}

/// Two threads that pass items wake all waiters. Two of the woken threads find no item each time. They wait
/// for items, not for each other.
#[test]
fn a_thundering_herd_is_no_barrier() {
    let barriers_seen = |look: usize| {
        let looks =
            |cpu: char| format!("{}{}", cpu.to_string().repeat(look), "c".repeat(20 - look)).repeat(2);
        let analysis = check_lanes(&format!(
            "@cpus 4\n@tick 5000\n@c park\n@repeat 100\n\
             A  {}{}  holds c 19..20\nB  {}{}  holds c 39..40\nC  {}\nD  {}\n",
            "0".repeat(20),
            "c".repeat(20),
            "c".repeat(20),
            "1".repeat(20),
            looks('2'),
            looks('3'),
        ));
        let all = analysis.findings.iter().chain(analysis.symptoms.iter().map(|one| &one.finding));
        all.filter(|finding| ["barrier-straggler", "load-imbalance"].contains(&finding.rule)).count()
    };
    assert_eq!(barriers_seen(1), 0);
    assert!(barriers_seen(10) > 0, "who works behind each meeting meets");
}

/// Writers wait until a background thread has flushed their records. They request it, and the thread waits for
/// requests on a word of its own. It is no member of a barrier.
#[test]
fn writers_that_wait_for_their_background_thread_do_not_meet() {
    let barriers_seen = |flusher: &str| {
        let analysis = check_lanes(&format!(
            "@cpus 4\n@c barrier\n@w park\n@d disk\n@repeat 20\n\
             A  00cccccccc  holds w 0..2\n\
             B  11cccccccc\n\
             C  22cccccccc\n\
             F  {flusher}  holds c 9..10\n"
        ));
        let all = analysis.findings.iter().chain(analysis.symptoms.iter().map(|one| &one.finding));
        all.filter(|finding| finding.rule == "barrier-straggler").count()
    };
    assert_eq!(barriers_seen("ww3dddddd3"), 0);
    // A member that is late each time works towards the barrier from the last one on.
    assert_eq!(barriers_seen("333dddddd3"), 1);
}

/// The workers of a team wait together for the next loop. The worker that is late at its end is a member.
#[test]
fn a_worker_of_a_team_that_waits_for_the_next_loop_is_a_member() {
    let analysis = check_lanes(
        "@cpus 4\n@b barrier\n@k park\n@d disk\n@repeat 20\n\
         A  000bbbbbbb  holds k 0..3\n\
         B  1kk1bbbbbb\n\
         C  2kk2ddddd2  holds b 9..10\n\
         D  3kk3bbbbbb\n",
    );
    let (used, worker) = (analysis.derived.rendezvous.uses.first().expect("a barrier"), 2);
    let [(last, times, _)] = used.by_last[..] else { panic!("{:?}", used.by_last) };
    assert!(last.index() == worker && times >= 18, "{last:?} {times}");
}
