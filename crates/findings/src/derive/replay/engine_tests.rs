//! Tests of the engine on models with a few steps.

use super::*;

const MS: u32 = 1_000_000;

/// Model of threads with these steps: kind, start in the recording, and length. Both times are in units of
/// `unit_ns`.
fn model_in(unit_ns: u32, threads: &[&[(Kind, u64, u32)]]) -> Model {
    let mut model = Model { cpus: 2, quantum_ns: u64::MAX, ..Model::default() };
    for steps in threads {
        model.of_thread.push(model.steps.len() as u32);
        let step = |(kind, at, length): &(Kind, u64, u32)| Step {
            at: at * u64::from(unit_ns),
            arg: length * unit_ns,
            kind: *kind,
            class: Class::Useful,
        };
        model.steps.extend(steps.iter().map(step));
    }
    model.of_thread.push(model.steps.len() as u32);
    model
}

/// The same in ms.
fn model(threads: &[&[(Kind, u64, u32)]]) -> Model {
    model_in(MS, threads)
}

fn wall_ms(threads: &[&[(Kind, u64, u32)]]) -> u64 {
    run(&model(threads), Grants::Recorded).wall_ns / u64::from(MS)
}

#[test]
fn a_delay_passes_while_a_cpu_is_idle() {
    // The third thread was kept on the second CPU until 6. The first CPU was idle from 2 on.
    let first = [(Kind::Run, 0, 2), (Kind::Away, 2, 4), (Kind::Run, 6, 2)];
    let kept = [(Kind::Lag, 0, 4), (Kind::Run, 6, 10)];
    assert_eq!(wall_ms(&[&first, &[(Kind::Run, 0, 6)], &kept]), 16);
    // Both CPUs are busy for longer than the recorded wait. The thread then queues with all others.
    let longer = [(Kind::Run, 0, 9)];
    assert_eq!(wall_ms(&[&longer, &longer, &kept]), 19);
    // A delay that nobody's run explains takes as long as it did.
    assert_eq!(wall_ms(&[&[(Kind::Lag, 0, 4), (Kind::Run, 4, 10)]]), 14);
}

#[test]
fn a_queued_thread_has_not_started_its_next_run() {
    let model = model(&[&[(Kind::Run, 0, 1), (Kind::Away, 1, 4), (Kind::Run, 9, 5)]]);
    let mut engine = Engine::new(&model, Grants::Recorded);
    engine.threads[0].next = 3;
    assert_eq!(engine.reached(0), u64::from(MS), "it queues; before, it was away from 1 on");
    engine.threads[0].on_cpu = true;
    assert_eq!(engine.reached(0), 9 * u64::from(MS));
    // The same for a lock that the thread got, which it takes when it runs.
    let model =
        self::model(&[&[(Kind::Run, 0, 1), (Kind::Away, 1, 4), (Kind::Give, 9, 0), (Kind::Run, 9, 5)]]);
    let mut engine = Engine::new(&model, Grants::Recorded);
    engine.threads[0].next = 4;
    assert_eq!(engine.reached(0), u64::from(MS));
}

/// One thread signals after 100 µs. The other waits for the signal after `ran_ns`, and then needs 10 µs to be
/// queued.
fn signal_then_wait_ns(ran_ns: u32) -> u64 {
    let step = |at, kind, arg| Step { at, arg, kind, class: Class::WorkWait };
    let steps = vec![
        step(0, Kind::Run, 100_000),
        step(100_000, Kind::Signal, 0),
        step(0, Kind::Run, ran_ns),
        step(u64::from(ran_ns), Kind::Await, 0),
        step(u64::from(ran_ns), Kind::Lag, 10_000),
        step(u64::from(ran_ns) + 10_000, Kind::Run, 5_000),
    ];
    let of_thread = vec![0, 2, 6];
    let model = Model { of_thread, steps, signals: 1, cpus: 2, quantum_ns: u64::MAX, ..Model::default() };
    run(&model, Grants::Recorded).wall_ns
}

#[test]
fn a_thread_signalled_while_it_falls_asleep_is_woken() {
    assert_eq!(signal_then_wait_ns(101_000), 116_000);
}

#[test]
fn a_thread_signalled_before_its_wait_continues() {
    assert_eq!(signal_then_wait_ns(110_000), 115_000);
}

const US: u32 = 1_000;

/// Run time of threads with these steps on that number of CPUs (all in µs).
fn wall_us(cpus: u32, threads: &[&[(Kind, u64, u32)]]) -> u64 {
    let model = Model { cpus, ..model_in(US, threads) };
    run(&model, Grants::Recorded).wall_ns / u64::from(US)
}

#[test]
fn a_woken_thread_preempts_a_thread_ahead_of_it() {
    // The thread was woken at 4. It is runnable at 5, when the other thread, which nothing delayed, does its
    // recorded work of 7.
    let woken = [
        (Kind::Away, 0, 5_000),
        (Kind::Run, 4_000, 2_000),
        (Kind::Away, 6_000, 9_000),
        (Kind::Run, 15_000, 1_000),
    ];
    let ahead = [(Kind::Run, 0, 4_000), (Kind::Requeue, 4_000, 0), (Kind::Run, 6_000, 9_000)];
    assert_eq!(wall_us(1, &[&woken, &ahead]), 17_000);
    // A thread that is behind keeps the CPU until it has done its earlier work.
    let late = [
        (Kind::Away, 0, 5_000),
        (Kind::Run, 8_000, 2_000),
        (Kind::Away, 10_000, 20_000),
        (Kind::Run, 30_000, 1_000),
    ];
    let behind = [(Kind::Run, 0, 20_000)];
    assert_eq!(wall_us(1, &[&late, &behind]), 31_000);
}

#[test]
fn two_that_were_woken_do_not_take_a_cpu_from_each_other_without_end() {
    let one = [(Kind::Away, 0, 1_000), (Kind::Run, 1_000, 5_000)];
    assert_eq!(wall_us(1, &[&one, &one, &one]), 16_000);
}

#[test]
fn what_is_at_once_comes_in_the_recorded_order() {
    // The CPU is free at 4,000. The thread that came first in the recording arrives a moment later.
    let first = [(Kind::Run, 0, 4_000)];
    let queued = [(Kind::Away, 0, 1_000), (Kind::Run, 5_000, 3_000)];
    let moment = [
        (Kind::Away, 0, 4_001),
        (Kind::Run, 4_000, 1_000),
        (Kind::Away, 5_000, 5_000),
        (Kind::Run, 10_000, 1_000),
    ];
    assert_eq!(wall_us(1, &[&first, &queued, &moment]), 11_000);
    // After more than that it has to wait.
    let late = [
        (Kind::Away, 0, 4_100),
        (Kind::Run, 4_000, 1_000),
        (Kind::Away, 5_000, 5_000),
        (Kind::Run, 10_000, 1_000),
    ];
    assert!(wall_us(1, &[&first, &queued, &late]) >= 11_099);
}

#[test]
fn a_delay_that_was_short_does_not_shorten_the_next() {
    // The thread was delayed for 4 ms and queued for 6 ms. One of them is over after 3 µs in which a CPU is
    // idle.
    let busy = [(Kind::Run, 0, 40_000)];
    let soon_busy = [(Kind::Away, 0, 2_003), (Kind::Run, 20_000, 9_997)];
    let delayed = [
        (Kind::Away, 0, 2_000),
        (Kind::Lag, 2_000, 3),
        (Kind::Lag, 6_000, 3),
        (Kind::Run, 12_000, 1_000),
        (Kind::Away, 13_000, 40_000),
        (Kind::Run, 53_000, 1_000),
    ];
    assert_eq!(wall_us(2, &[&busy, &soon_busy, &delayed]), 54_000);
}

#[test]
fn a_nap_ends_when_what_it_waits_for_comes() {
    let wall = |sent_after: u32, naps: u32| {
        let sends = [(Kind::Run, 0, sent_after), (Kind::Signal, u64::from(sent_after), 0)];
        let nap = [(Kind::Unless, 0, 0), (Kind::Away, 0, 5), (Kind::Run, 5, 1)];
        let mut waits: Vec<(Kind, u64, u32)> = nap.repeat(naps as usize);
        waits.extend([(Kind::Await, 6, 0), (Kind::Run, 7, 1)]);
        let mut model = model(&[&sends, &waits]);
        model.signals = 1;
        run(&model, Grants::Recorded).wall_ns / u64::from(MS)
    };
    assert_eq!(wall(7, 1), 8, "it comes when the nap is over");
    assert_eq!(wall(1, 1), 3, "it comes in the nap: a look, and what is to be done");
    assert_eq!(wall(1, 3), 5, "the naps behind it are left out, the looks are not");
    assert_eq!(wall(12, 2), 13);
}
