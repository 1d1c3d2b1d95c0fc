//! Lanes: a recording as a text picture, with the findings expected in it.
//!
//! A row is a thread, a column a tick. Digit = on that CPU, `r` = runnable, `y` = runnable after a yield, `t`
//! = throttled, another letter = blocked on the object of that letter, `.` = absent. Rows with the same name
//! continue the earlier row. A name that begins with `~` is a thread of another program.
//! ```text
//! A  0000mmmmr000
//!        ^^^^         lock-contention waiter=A holder=B cost=4
//! B  111111111...     holds m 0..8
//! ```
//! Carets mark a finding with evidence in these ticks. `waiter` is the evidence's thread (default: the row
//! above), `cost` its total ticks (rounded), `holder` must be named. `holds m 0..8`: this thread wakes
//! waiters for `m` in these ticks. Lines that begin with `@`:
//! - `@m REASON [SYSCALL]`: letter `m` is a wait of that reason ([`WaitReason`]'s name). By default `m` is a
//!   lock
//! - `@stack m FRAME;FRAME`: stack of threads that begin to wait on `m`, root frame first
//! - `@timeout m TICKS`: a wait on `m` has this timeout, at which a timer ends it
//! - `@cpus N`, `@tick NS` (default 1 ms), `@repeat N`: the picture N times in a row
//! - `@child A`: A is a process of its own, which the first thread forks
//! - `@samples A FROM..TO user|SYSCALL FRAME;FRAME`: a sample in each of these ticks in which A runs, root
//!   frame first. A frame `NAME~VARIABLE` (or `NAME~`) is a loop that only polls that variable
//! - `@calls FROM..TO SYSCALL COUNT`: a window with this number of the program's calls, not repeated
//! - `@io FROM..TO THREAD SYSCALL CALLS BYTES FAILED`: calls in such a window on a pipe, of which FAILED
//!   failed with EAGAIN, and the others transferred BYTES each. `SYSCALL:OP` is a call with this operation or
//!   these flags, without an object
//! - `@loss FROM..TO EVENTS`: events lost
//! - `@silent RULE` (or `all`): that rule must find nothing

use std::collections::BTreeMap;
use std::ops::Range;

use holdup_events::WaitReason;

/// A picture, read.
#[derive(Clone, Debug, Default)]
pub struct Lanes {
    /// In the order of their first rows.
    pub threads: Vec<Lane>,
    /// Reason and syscall of each letter that was declared.
    pub waits: BTreeMap<char, (WaitReason, Option<i32>)>,
    /// Stacks of those who go to wait on a letter, root first.
    pub stacks: BTreeMap<char, Vec<String>>,
    /// Ticks after which a wait of that letter would end by itself.
    pub timeouts: BTreeMap<char, u64>,
    /// CPUs of the machine.
    pub cpus: u32,
    /// Length of a tick (ns).
    pub tick_ns: u64,
    /// How often the picture happens.
    pub repeat: u64,
    /// Samples to take.
    pub samples: Vec<SampleLine>,
    /// Windows: ticks, syscall, calls.
    pub calls: Vec<(Range<u64>, i32, u64)>,
    /// Threads that are processes of their own, forked by the first thread.
    pub children: Vec<String>,
    /// Calls with transferred bytes.
    pub io: Vec<IoLine>,
    /// Losses: ticks and events.
    pub losses: Vec<(Range<u64>, u64)>,
    /// Findings that must be there.
    pub expected: Vec<Expected>,
    /// Rules that must find nothing.
    pub silent: Vec<String>,
}

/// One thread.
#[derive(Clone, Debug, Default)]
pub struct Lane {
    /// The name.
    pub name: String,
    /// Of another program.
    pub foreign: bool,
    /// The state in each tick.
    pub ticks: Vec<char>,
    /// Objects it holds, with the ticks.
    pub holds: Vec<(char, Range<u64>)>,
}

/// See `@samples`.
#[derive(Clone, Debug)]
pub struct SampleLine {
    /// The thread.
    pub thread: String,
    /// In which ticks.
    pub ticks: Range<u64>,
    /// Inside which syscall, if any.
    pub syscall: Option<i32>,
    /// Root first.
    pub frames: Vec<String>,
}

/// See `@io`.
#[derive(Clone, Debug)]
pub struct IoLine {
    /// The window's ticks.
    pub ticks: Range<u64>,
    /// The calling thread.
    pub thread: String,
    /// Which syscall.
    pub syscall: i32,
    /// The operation or flags, if it is not on a pipe.
    pub op: Option<u32>,
    /// How often.
    pub calls: u64,
    /// Bytes transferred by a successful call.
    pub bytes: u64,
    /// How many failed with EAGAIN.
    pub failed: u64,
}

/// A finding that must be there.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// Of which rule.
    pub rule: String,
    /// Ticks under the carets.
    pub ticks: Range<u64>,
    /// Thread of the evidence.
    pub waiter: String,
    /// The thread that must be named.
    pub holder: Option<String>,
    /// How many ticks it cost.
    pub cost: Option<u64>,
}

/// Reads a picture.
///
/// # Panics
/// If it is not one: a test's text is wrong.
pub fn parse(text: &str) -> Lanes {
    let mut lanes = Lanes { cpus: 2, tick_ns: 1_000_000, repeat: 1, ..Lanes::default() };
    let mut row: Option<Row> = None;
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            continue;
        }
        if let Some(directive) = trimmed.strip_prefix('@') {
            lanes.directive(directive);
        } else if trimmed.starts_with('^') {
            let row = row.as_ref().unwrap_or_else(|| panic!("no row above: {line}"));
            lanes.expected.push(expected(line, row));
        } else {
            row = Some(lanes.row(line));
        }
    }
    let ticks = lanes.threads.iter().map(|lane| lane.ticks.len()).max().unwrap_or(0);
    for lane in &mut lanes.threads {
        lane.ticks.resize(ticks, '.');
    }
    lanes
}

/// Where the last row stands in its line.
struct Row {
    name: String,
    column: usize,
    first_tick: u64,
}

impl Lanes {
    fn row(&mut self, line: &str) -> Row {
        let mut words = line.split_whitespace();
        let (Some(name), Some(ticks)) = (words.next(), words.next()) else { panic!("not a row: {line}") };
        let column = line.find(name).unwrap_or(0) + name.len();
        let column = column + line[column..].find(ticks).unwrap_or(0);
        let foreign = name.starts_with('~');
        let name = name.trim_start_matches('~');
        let known = self.threads.iter().position(|lane| lane.name == name);
        let index = known.unwrap_or_else(|| {
            self.threads.push(Lane { name: name.to_owned(), foreign, ..Lane::default() });
            self.threads.len() - 1
        });
        let lane = &mut self.threads[index];
        let first_tick = lane.ticks.len() as u64;
        lane.ticks.extend(ticks.chars());
        while let Some(word) = words.next() {
            let (Some(thing), Some(range)) = (words.next(), words.next()) else {
                panic!("not a hold: {line}")
            };
            assert_eq!(word, "holds", "{line}");
            lane.holds.push((thing.chars().next().unwrap_or('?'), range_of(range)));
        }
        Row { name: name.to_owned(), column, first_tick }
    }

    fn directive(&mut self, text: &str) {
        let words: Vec<&str> = text.split_whitespace().collect();
        let number = |at: usize| -> u64 {
            words.get(at).and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("no number: @{text}"))
        };
        match words[0] {
            "child" => self.children.push(words[1].to_owned()),
            "cpus" => self.cpus = number(1) as u32,
            "tick" => self.tick_ns = number(1),
            "repeat" => self.repeat = number(1),
            "timeout" => {
                self.timeouts.insert(words[1].chars().next().unwrap_or('?'), number(2));
            }
            "stack" => {
                self.stacks.insert(words[1].chars().next().unwrap_or('?'), frames_of(words[2]));
            }
            "silent" => self.silent.push(words[1].to_owned()),
            "calls" => self.calls.push((range_of(words[1]), number(2) as i32, number(3))),
            "io" => self.io.push(IoLine {
                ticks: range_of(words[1]),
                thread: words[2].to_owned(),
                syscall: words[3].split(':').next().and_then(|word| word.parse().ok()).expect("a syscall"),
                op: words[3].split_once(':').map(|(_, op)| op.parse().expect("an operation")),
                calls: number(4),
                bytes: number(5),
                failed: number(6),
            }),
            "loss" => self.losses.push((range_of(words[1]), number(2))),
            "samples" => self.samples.push(SampleLine {
                thread: words[1].to_owned(),
                ticks: range_of(words[2]),
                syscall: words[3].parse().ok(),
                frames: frames_of(words[4]),
            }),
            letter if letter.chars().count() == 1 => {
                let reason = WaitReason::ALL.iter().find(|reason| reason.name() == words[1]);
                let reason = *reason.unwrap_or_else(|| panic!("no such reason: @{text}"));
                let syscall = words.get(2).map(|_| number(2) as i32);
                self.waits.insert(letter.chars().next().unwrap_or('?'), (reason, syscall));
            }
            _ => panic!("no such directive: @{text}"),
        }
    }

    /// Returns the wait of a letter.
    pub fn wait_of(&self, letter: char) -> (WaitReason, Option<i32>) {
        self.waits.get(&letter).copied().unwrap_or((WaitReason::Lock, None))
    }

    /// The lane of that name.
    pub fn lane(&self, name: &str) -> Option<&Lane> {
        self.threads.iter().find(|lane| lane.name == name)
    }
}

fn expected(line: &str, row: &Row) -> Expected {
    let from = line.find('^').unwrap_or(0);
    let count = line[from..].chars().take_while(|c| *c == '^').count();
    assert!(from >= row.column, "carets before the row's ticks: {line}");
    let first = row.first_tick + (from - row.column) as u64;
    let mut words = line[from + count..].split_whitespace();
    let rule = words.next().unwrap_or_else(|| panic!("no rule: {line}"));
    let mut expected = Expected {
        rule: rule.to_owned(),
        ticks: first..first + count as u64,
        waiter: row.name.clone(),
        ..Expected::default()
    };
    for word in words {
        match word.split_once('=') {
            Some(("waiter", name)) => expected.waiter = name.to_owned(),
            Some(("holder", name)) => expected.holder = Some(name.to_owned()),
            Some(("cost", ticks)) => expected.cost = ticks.parse().ok(),
            _ => panic!("not understood: {word} in {line}"),
        }
    }
    expected
}

fn frames_of(text: &str) -> Vec<String> {
    text.split(';').map(str::to_owned).collect()
}

fn range_of(text: &str) -> Range<u64> {
    let bounds = text.split_once("..").and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    let (from, to) = bounds.unwrap_or_else(|| panic!("not a range: {text}"));
    from..to
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_of_the_documentation() {
        let lanes = parse(
            "A  0000mmmmr000\n       ^^^^         lock-contention waiter=A holder=B cost=4\nB  111111111...     holds m 0..8\n",
        );
        assert_eq!(lanes.threads[0].ticks.iter().collect::<String>(), "0000mmmmr000");
        assert_eq!(lanes.threads[1].holds, [('m', 0..8)]);
        let expected = &lanes.expected[0];
        assert_eq!((expected.ticks.clone(), expected.cost), (4..8, Some(4)));
        assert_eq!((expected.waiter.as_str(), expected.holder.as_deref()), ("A", Some("B")));
    }
}
