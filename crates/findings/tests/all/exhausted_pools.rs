//! Threads that wait for one of a few pool items held by other threads, and waits that only resemble these.

use std::collections::VecDeque;
use std::fmt::Write;

use holdup_findings::Analysis;
use holdup_findings::finding::Confidence;
use holdup_testkit::check::check_lanes;

/// Numbers that look like chance, always the same.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Each thread's ticks, and in which it lets others go.
struct Picture {
    rows: Vec<String>,
    gives: Vec<Vec<usize>>,
}

impl Picture {
    fn new(threads: usize) -> Picture {
        Picture { rows: vec![String::new(); threads], gives: vec![Vec::new(); threads] }
    }

    fn check(&self, expected: &str) -> Analysis {
        let mut text = format!("@cpus {}\n@p park\n@s socket\n", self.rows.len());
        text.push_str("@stack p clone;Shop.order;Pool.take;__futex_wait\n");
        text.push_str("@stack s clone;Shop.order;Bank.ask\n");
        for (number, (row, gives)) in self.rows.iter().zip(&self.gives).enumerate() {
            write!(text, "{} {row}", (b'A' + number as u8) as char).expect("text");
            gives.iter().for_each(|at| write!(text, " holds p {at}..{}", at + 1).expect("text"));
            text.push('\n');
        }
        check_lanes(&(text + expected))
    }
}

/// Six threads with two items. The holder of an item runs, waits for an external response for some ticks,
/// runs, and gives the item to the longest waiter.
fn pool() -> Picture {
    const THREADS: usize = 6;
    const TICKS: usize = 600;
    let (mut picture, mut chance) = (Picture::new(THREADS), Chance(1));
    let mut waiting: VecDeque<usize> = (0..THREADS).collect();
    // The holders of items, and when they give them back.
    let mut has: Vec<(usize, usize, usize)> = Vec::new();
    for tick in 0..TICKS {
        while has.len() < 2 {
            let thread = waiting.pop_front().expect("there are more threads than things");
            let mut until = tick + 4 + chance.below(6) as usize;
            // One at a time, so that each release has one waiter.
            until += usize::from(has.iter().any(|(_, _, other)| *other == until));
            has.push((thread, tick, until));
        }
        for (thread, from, until) in &has {
            let runs = tick == *from || tick == *until;
            picture.rows[*thread].push(if runs { (b'0' + *thread as u8) as char } else { 's' });
        }
        waiting.iter().for_each(|thread| picture.rows[*thread].push('p'));
        if let Some(at) = has.iter().position(|(_, _, until)| *until == tick) {
            let (thread, ..) = has.remove(at);
            picture.gives[thread].push(tick);
            waiting.push_back(thread);
        }
    }
    picture
}

#[test]
fn an_exhausted_pool_is_reported_with_the_use_of_its_items() {
    let analysis = pool().check("");
    let finding =
        analysis.findings.iter().find(|finding| finding.rule == "pool-exhausted").expect("a finding");
    assert_eq!(
        (finding.subject.as_str(), finding.confidence),
        ("the pool that threads wait for in Pool.take", Confidence::Medium)
    );
    let said = finding.summary.join(" ");
    assert!(said.contains("one of 2 items") && said.contains("in Bank.ask for 9"), "{said}");
    // With six items the run takes a third of the time.
    assert!((0.55..0.75).contains(&finding.gain.high), "{:?}", finding.gain);
    assert!(finding.gain.low < finding.gain.high, "{:?}", finding.gain);
}

/// Four threads do their parts of a round, and wait for the last of them, which lets all go.
#[test]
fn the_last_at_a_barrier_gives_nothing_back() {
    let (mut picture, mut chance) = (Picture::new(4), Chance(2));
    for round in 0..40 {
        let mut parts: Vec<u64> = (0..4).map(|_| 2 + chance.below(6)).collect();
        parts[round % 4] = 9;
        for (thread, part) in parts.iter().enumerate() {
            let digit = (b'0' + thread as u8) as char;
            let waits = 10 - *part;
            picture.rows[thread].extend(std::iter::repeat_n(digit, *part as usize));
            picture.rows[thread]
                .extend(std::iter::repeat_n('p', if *part == 9 { 0 } else { waits as usize }));
            if *part == 9 {
                picture.rows[thread].push(digit);
                picture.gives[thread].push(10 * round + 9);
            }
        }
    }
    picture.check("@silent pool-exhausted\n");
}

/// Workers that make tasks for each other: now many of them have one, and now few.
#[test]
fn workers_that_make_work_for_each_other_are_now_many_and_now_few() {
    const THREADS: usize = 6;
    let (mut picture, mut chance) = (Picture::new(THREADS), Chance(3));
    let mut busy = [0usize; THREADS];
    busy[0] = 3;
    for tick in 0..600 {
        for (thread, left) in busy.iter().enumerate() {
            picture.rows[thread].push(if *left > 0 { (b'0' + thread as u8) as char } else { 'p' });
        }
        // Within a wave each task creates two. Then all but one end.
        let grows = tick / 20 % 2 == 0;
        let idle = (0..THREADS).find(|thread| busy[*thread] == 0);
        let giver = (0..THREADS).filter(|thread| busy[*thread] > 0).nth(chance.below(2) as usize);
        let mut others = busy.iter().filter(|left| **left > 0).count();
        for left in busy.iter_mut().filter(|left| **left > 0) {
            // The last one goes on.
            let ends = *left == 1;
            *left -= usize::from(!ends || others > 1);
            others -= usize::from(ends && others > 1);
        }
        if let (true, Some(idle), Some(giver)) = (grows, idle, giver) {
            picture.gives[giver].push(tick);
            busy[idle] = 6 + chance.below(8) as usize;
        }
    }
    picture.check("@silent pool-exhausted\n");
}

/// A ring: each lets the next one go, and always the same.
#[test]
fn a_ring_hands_on_what_it_makes() {
    let mut picture = Picture::new(4);
    for tick in 0..400 {
        for thread in 0..4 {
            let runs = tick % 4 == thread;
            picture.rows[thread].push(if runs { (b'0' + thread as u8) as char } else { 'p' });
            picture.gives[thread].extend(runs.then_some(tick));
        }
    }
    picture.check("@silent pool-exhausted\n");
}
