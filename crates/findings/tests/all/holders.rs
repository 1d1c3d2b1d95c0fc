//! Holders on pictures: the holder of each awaited object, and its activity during the wait.

use holdup_events::{ThreadId, Timestamp, Trace};
use holdup_findings::derive::holders::activity::{Activity, between};
use holdup_findings::derive::holders::{Basis, HoldKind, Holders};
use holdup_findings::derive::locks::LockIndex;
use holdup_findings::derive::roles::Roles;
use holdup_testkit::check::trace_of_lanes;
use holdup_testkit::drawing::START_NS;

struct Picture {
    trace: Trace,
    locks: LockIndex,
    holders: Holders,
}

fn picture(text: &str) -> Picture {
    let (_, trace) = trace_of_lanes(text);
    let roles = Roles::built_in(&trace);
    let locks = LockIndex::new(&trace, &roles);
    let holders = Holders::derive(&trace, &locks, &roles);
    Picture { trace, locks, holders }
}

const TICK_NS: u64 = 1_000_000;

impl Picture {
    fn thread(&self, name: &str) -> ThreadId {
        let row = self.trace.threads.iter().position(|thread| thread.name == name);
        ThreadId(row.unwrap_or_else(|| panic!("no {name}")) as u32)
    }

    fn name(&self, id: Option<ThreadId>) -> &str {
        id.map_or("-", |id| self.trace.threads[id.index()].name.as_str())
    }

    /// Each wait of a thread: kind, holder, basis.
    fn waits(&self, name: &str) -> Vec<(HoldKind, &str, Basis)> {
        let waits = self.holders.of_thread(self.thread(name));
        waits.map(|hold| (hold.kind, self.name(hold.holder), hold.basis)).collect()
    }

    /// The holder in each tick of a thread's first wait.
    fn held(&self, name: &str) -> String {
        let thread = self.thread(name);
        let hold = self.holders.of_thread(thread).next().expect("it waits");
        let slice = self.trace.slices.at(thread, hold.row as usize);
        let pieces = self.holders.over(&self.trace, &self.locks, &slice);
        let ticks = |piece: &holdup_findings::derive::holders::Held| {
            self.name(piece.holder).repeat((piece.to.since(piece.from).0 / TICK_NS) as usize)
        };
        pieces.iter().map(ticks).collect()
    }

    /// A thread's activity in each of some ticks.
    fn does(&self, name: &str, ticks: std::ops::Range<u64>) -> Vec<Activity> {
        let at = |tick| Timestamp(START_NS + tick * TICK_NS);
        let facts = (&self.trace, &self.holders);
        ticks
            .flat_map(|tick| between(facts, self.thread(name), at(tick), at(tick + 1)))
            .map(|piece| piece.activity)
            .collect()
    }
}

#[test]
fn the_releaser_held_the_lock() {
    let picture = picture(
        "@cpus 4\n\
         A  00mmmm00\n\
         B  11111111  holds m 0..6\n\
         C  22222222\n",
    );
    assert_eq!(picture.waits("A"), [(HoldKind::Lock, "B", Basis::Releaser)]);
    assert!(picture.waits("B").is_empty());
}

#[test]
fn a_lock_that_goes_from_hand_to_hand() {
    let picture = picture(
        "@cpus 4\n\
         A  0mmmmmm0\n\
         B  11mm1111  holds m 4..7\n\
         C  22222222  holds m 0..4\n",
    );
    assert_eq!(picture.held("A"), "CCCBBB");
    assert_eq!(picture.waits("A"), [(HoldKind::Lock, "B", Basis::Releaser)]);
    assert_eq!(picture.waits("B"), [(HoldKind::Lock, "C", Basis::Releaser)]);
}

#[test]
fn a_waiter_without_a_waker_is_held_by_the_later_releaser() {
    let picture = picture(
        "@cpus 4\n\
         A  0mmmmmmm\n\
         B  11mm1111\n\
         C  22222222  holds m 0..8\n",
    );
    assert_eq!(picture.held("A"), "CCCBBBB");
    assert_eq!(picture.waits("A"), [(HoldKind::Lock, "B", Basis::LaterReleaser)]);
}

#[test]
fn waits_for_timers_and_disks_have_no_holder() {
    let picture = picture(
        "@s sleep\n@d disk\n@e multiplex\n\
         A  0ss0dd0ss\n",
    );
    let sleep = (HoldKind::Sleep, "-", Basis::Timer);
    let still = (HoldKind::Sleep, "-", Basis::StillWaiting);
    assert_eq!(picture.waits("A"), [sleep, (HoldKind::Disk, "-", Basis::Interrupt), still]);
}

#[test]
fn work_join_pipe_and_child_have_the_one_that_was_waited_for() {
    let picture = picture(
        "@cpus 4\n@c park\n@j join\n@p pipe\n@k child\n\
         A  0cc0jj0pp0kk0\n\
         B  1111111111111  holds c 0..13\n",
    );
    let by = |kind, basis| (kind, "B", basis);
    assert_eq!(
        picture.waits("A"),
        [
            by(HoldKind::Work, Basis::Waker),
            by(HoldKind::Join, Basis::Exit),
            by(HoldKind::PipeEmpty, Basis::Waker),
            by(HoldKind::Child, Basis::Exit),
        ]
    );
}

#[test]
fn activity_of_the_holder_is_derived() {
    let picture = picture(
        "@cpus 2\n@s sleep\n\
         A  0mmmmmmm0\n\
         B  11rr1ss11  holds m 0..8\n\
         ~X ..11.....\n",
    );
    let cpu = holdup_events::CpuId(1);
    let queues = Activity::Queues { cpu, preempted: true };
    let sleep = picture.holders.of_thread(picture.thread("B")).next().expect("it sleeps");
    assert_eq!((sleep.kind, sleep.holder), (HoldKind::Sleep, None));
    let sleeps = Activity::Waits(sleep);
    let runs = Activity::Runs(cpu);
    assert_eq!(picture.does("B", 1..8), [runs, queues, queues, runs, sleeps, sleeps, runs]);
    assert_eq!(picture.does("X", 0..4), [Activity::Elsewhere, Activity::Elsewhere, runs, runs]);
}

#[test]
fn the_same_call_woke_two_and_one_found_nothing() {
    // Both are woken at tick 4. A runs briefly and waits again.
    let picture = picture(
        "@cpus 4\n@tick 5000\n@c park\n\
         A  0ccc0ccc0\n\
         B  1ccc11111\n\
         C  222222222  holds c 0..4\n\
         D  333333333  holds c 4..9\n",
    );
    let waits: Vec<(bool, &str)> = picture
        .holders
        .of_thread(picture.thread("A"))
        .map(|hold| (hold.false_wakeup, picture.name(hold.holder)))
        .collect();
    assert_eq!(waits, [(true, "D"), (false, "D")]);
    assert_eq!(picture.waits("B")[0], (HoldKind::Work, "C", Basis::Waker));
}

/// A mutex in memory that a process shares with one that it forked, or one of each at the same address.
#[test]
fn a_word_that_processes_share_is_one_lock_with_holders_of_all() {
    let locks = |private: bool| {
        let (_, mut trace) = trace_of_lanes(
            "@cpus 2\n@child B\n\
             A  0000mmmm00mmmm  holds m 0..4\n\
             B  1mmm1111111111  holds m 4..8\n",
        );
        let a = trace.threads[0].process;
        let b = trace.threads.iter().find(|thread| thread.name == "B").expect("B").clone();
        trace.processes[b.process.index()].parent = Some(a);
        for wait in &mut trace.waits {
            wait.op &= if private { u32::MAX } else { !128 };
            wait.owner_tid = if wait.process == a { b.tid } else { 0 };
        }
        let roles = Roles::built_in(&trace);
        let locks = LockIndex::new(&trace, &roles);
        let holders = Holders::derive(&trace, &locks, &roles);
        let picture = Picture { trace, locks, holders };
        let last = picture.holders.of_thread(ThreadId(0)).last().expect("A waits");
        (picture.locks.locks.len(), picture.name(last.holder).to_owned())
    };
    assert_eq!(locks(false), (1, "B".to_owned()));
    assert_eq!(locks(true), (2, "-".to_owned()));
}
