//! Thread and process ids: reused, taken over by exec, and with late events.

use super::*;
use holdup_events::event::{RawMapping, TaskWindow};

fn lifecycle(at: u64, change: LifecycleChange, (tgid, tid): (u32, u32), name: &str) -> Event {
    let name = name.to_owned();
    Event::Lifecycle(Lifecycle { at: Timestamp(at), change, tid, tgid, name, target: true })
}

fn forked(at: u64, parent_tid: u32, who: (u32, u32)) -> Event {
    lifecycle(at, LifecycleChange::Fork { parent_tid }, who, "work")
}

/// A switch on CPU `cpu` from a thread of process 1.
fn of_one(cpu: u16, switch: Switch) -> Event {
    Event::Switch(Switch { cpu: CpuId(cpu), prev_tgid: if switch.prev_tid == 0 { 0 } else { 1 }, ..switch })
}

fn mapped(at: u64, tgid: u32) -> Event {
    let path = format!("/at/{at}");
    Event::Mapping(RawMapping { at: Timestamp(at), tgid, end: 4096, path, ..RawMapping::default() })
}

/// Process 1 with its first thread, which ends at 200, and thread 2.
fn without_first() -> Vec<Event> {
    vec![
        found(1, SnapshotState::Running(CpuId(0))),
        mapped(10, 1),
        forked(100, 1, (1, 2)),
        of_one(1, switch(110, 0, 2, Outcome::Untracked)),
        of_one(0, switch(200, 1, 0, Outcome::Dead)),
    ]
}

#[test]
fn a_process_outlives_its_first_thread_and_its_end_is_recorded() {
    let mut events = without_first();
    events.extend([
        forked(300, 2, (1, 3)),
        of_one(1, switch(400, 2, 3, Outcome::Dead)),
        mapped(450, 1),
        of_one(1, switch(500, 3, 0, Outcome::Dead)),
        Event::TaskWindow(TaskWindow { at: Timestamp(600), tgid: 1, opens: false }),
    ]);
    let trace = trace(events);
    assert_eq!(trace.processes.iter().filter(|process| process.pid == 1).count(), 1, "{:?}", trace.processes);
    let wholes: Vec<u32> = trace.threads.iter().map(|thread| thread.tid).filter(|tid| *tid != 0).collect();
    assert_eq!(wholes, [1, 2, 3]);
    assert!(trace.mappings.iter().all(|mapping| mapping.process == trace.threads[0].process));
}

#[test]
fn a_number_that_is_given_again_is_another_process() {
    let mut events = without_first();
    events.extend([
        of_one(1, switch(400, 2, 0, Outcome::Dead)),
        forked(500, 9, (1, 1)),
        mapped(510, 1),
        forked(520, 1, (1, 4)),
    ]);
    let trace = trace(events);
    let of = |row: usize| trace.threads[row].process;
    let tids: Vec<u32> = trace.threads.iter().map(|thread| thread.tid).collect();
    let row = |tid: u32, nth: usize| {
        (0..tids.len()).filter(|row| tids[*row] == tid).nth(nth).expect("a thread of that number")
    };
    assert_ne!(of(row(1, 0)), of(row(1, 1)));
    assert_eq!(of(row(1, 1)), of(row(4, 0)));
    assert_eq!(trace.mappings[1].process, of(row(1, 1)));
}

#[test]
fn a_thread_that_runs_another_program_keeps_its_life_and_takes_the_first_ones_number() {
    use ThreadState::*;
    for switched_between in [false, true] {
        let mut events = without_first();
        if switched_between {
            events.push(of_one(1, switch(300, 1, 0, Outcome::Preempted)));
            events.push(of_one(1, switch(320, 0, 1, Outcome::Untracked)));
        }
        events.extend([
            lifecycle(340, LifecycleChange::Rename, (1, 1), "other"),
            lifecycle(350, LifecycleChange::Exec { old_tid: 2 }, (1, 1), "other"),
            of_one(1, switch(400, 1, 0, blocked())),
        ]);
        let trace = trace(events);
        let named: Vec<(u32, &str)> =
            trace.threads.iter().map(|thread| (thread.tid, thread.name.as_str())).collect();
        assert_eq!(named, [(1, "t1"), (1, "other")]);
        assert_eq!(trace.process_name(trace.threads[1].process), "other");
        assert_eq!(states(&trace, 0), [(Running, 0, 200)]);
        let expected = match switched_between {
            false => vec![(Runnable, 100, 110), (Running, 110, 400), (Blocked, 400, END)],
            true => vec![
                (Runnable, 100, 110),
                (Running, 110, 300),
                (Preempted, 300, 320),
                (Running, 320, 400),
                (Blocked, 400, END),
            ],
        };
        assert_eq!(states(&trace, 1), expected);
    }
}
