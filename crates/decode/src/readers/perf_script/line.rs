//! The lines of `perf script`.

use holdup_events::CpuId;
use holdup_events::event::Outcome;

use crate::imported::{NAME_MAX, Switched, cpu, cut, unknown_wait};

/// The line that begins an event.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Head {
    pub name: String,
    pub tid: u32,
    /// 0 if unknown.
    pub tgid: u32,
    pub cpu: CpuId,
    /// Nanoseconds.
    pub at: u64,
    period: u64,
    /// Event with modifiers. Empty for records without an event.
    pub event: String,
    /// The text after the event.
    pub rest: String,
}

/// Value of an event's samples for time analysis, lowest first. The first event with the highest value is
/// imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Usefulness {
    /// Nothing.
    None,
    /// Where programs are.
    Places,
    /// Samples with times, but of unknown period.
    Clock,
    /// Each sample has the CPU time that it represents.
    Time,
}

/// A record that is not of an event (`--show-task-events`, `--show-switch-events`, `--show-lost-events`).
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Task {
    Name { tgid: u32, tid: u32, name: String, exec: bool },
    Fork { tgid: u32, tid: u32, parent_tgid: u32, parent_tid: u32 },
    Exit { tgid: u32, tid: u32 },
    Switch { out: bool, preempted: bool },
    Lost { events: u64 },
}

/// A frame of a stack.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Frame<'a> {
    pub function: &'a str,
    /// Empty if it is not known.
    pub module: &'a str,
    pub in_kernel: bool,
    /// Into the function of the next line that is not.
    pub inlined: bool,
}

impl Head {
    /// `None` if it is no such line.
    pub fn parse(line: &str) -> Option<Head> {
        // The time is the first word of the form digits.digits: with a colon.
        let (before, at, rest) = words(line).find_map(|(start, word)| {
            let at = time(word)?;
            Some((line.get(..start)?, at, line.get(start + word.len()..)?.trim()))
        })?;
        let mut head = Head { at, cpu: CpuId::NONE, ..Head::default() };
        // Before it, from the end: perhaps flags, perhaps a CPU in brackets, then the numbers of the thread.
        let mut before = before.trim_end();
        if let Some((rest, number)) = before.rfind('[').and_then(|bracket| before.split_at_checked(bracket)) {
            let number = number.split(']').next().unwrap_or_default().trim_start_matches('[');
            head.cpu = cpu(number.trim().parse().ok()?);
            before = rest.trim_end();
        }
        let (name, numbers) = before.rsplit_once([' ', '\t'])?;
        (head.tgid, head.tid) = match numbers.split_once('/') {
            Some((tgid, tid)) => (thread_number(tgid)?, thread_number(tid)?),
            None => (0, thread_number(numbers)?),
        };
        cut(name.trim(), NAME_MAX).clone_into(&mut head.name);
        head.event_of(rest);
        Some(head)
    }

    fn event_of(&mut self, rest: &str) {
        if rest.starts_with("PERF_RECORD_") {
            rest.clone_into(&mut self.rest);
            return;
        }
        let mut rest = rest;
        if let Some((number, behind)) = rest.split_once([' ', '\t'])
            && let Ok(period) = number.parse()
        {
            self.period = period;
            rest = behind.trim_start();
        }
        let (event, behind) = rest.split_once([' ', '\t']).unwrap_or((rest, ""));
        event.trim_end_matches(':').clone_into(&mut self.event);
        behind.trim().clone_into(&mut self.rest);
    }

    /// The event without its modifiers: `cycles` of `cycles:ppp`, and of `cpu_core/cycles/P`.
    fn plain_event(&self) -> &str {
        parts(&self.event).name
    }

    /// Whether its samples are of the event that is called `main`, on this kind of core or another.
    pub fn is_of(&self, main: &str) -> bool {
        !main.is_empty() && parts(&self.event) == parts(main)
    }

    /// Value of the event's samples for time analysis.
    pub fn usefulness(&self) -> Usefulness {
        match self.plain_event() {
            "cpu-clock" | "task-clock" if self.period > 0 => Usefulness::Time,
            "cpu-clock" | "task-clock" | "cycles" | "cpu-cycles" | "ref-cycles" => Usefulness::Clock,
            _ if self.shows_places() => Usefulness::Places,
            _ => Usefulness::None,
        }
    }

    /// Whether the samples show code locations. False for a tracepoint.
    pub fn shows_places(&self) -> bool {
        let event = self.plain_event();
        !event.is_empty() && !event.contains(':') && event != "dummy"
    }

    /// CPU time that the sample represents (ns), 0 if unknown.
    pub fn period_ns(&self) -> u64 {
        if matches!(self.plain_event(), "cpu-clock" | "task-clock") { self.period } else { 0 }
    }

    /// The record's content, if it is not a sample.
    pub fn task(&self) -> Option<Task> {
        let rest = self.rest.strip_prefix("PERF_RECORD_")?;
        if let Some(rest) = rest.strip_prefix("SWITCH") {
            let mut words = rest.split_ascii_whitespace().skip_while(|word| word.starts_with('_'));
            let out = words.next()? == "OUT";
            return Some(Task::Switch { out, preempted: words.next() == Some("preempt") });
        }
        if let Some(rest) = rest.strip_prefix("LOST") {
            let events = rest.split_ascii_whitespace().next_back()?.parse().ok()?;
            return Some(Task::Lost { events });
        }
        if let Some(rest) = rest.strip_prefix("COMM") {
            let (kind, rest) = rest.split_once(": ")?;
            let (name, numbers) = rest.rsplit_once(':')?;
            let (tgid, tid) = numbers.split_once('/')?;
            let (tgid, tid) = (thread_number(tgid)?, thread_number(tid)?);
            let name = cut(name, NAME_MAX).to_owned();
            return Some(Task::Name { tgid, tid, name, exec: kind.contains("exec") });
        }
        let mut numbers = rest.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty());
        let mut number = || numbers.next().and_then(|part| part.parse().ok());
        let (tgid, tid) = (number()?, number()?);
        if rest.starts_with("EXIT") {
            return Some(Task::Exit { tgid, tid });
        }
        let fork = || Some(Task::Fork { tgid, tid, parent_tgid: number()?, parent_tid: number()? });
        rest.starts_with("FORK").then(fork).flatten()
    }

    /// The fields of sched_switch.
    pub fn switch(&self) -> Option<Switched> {
        let (prev, next) = self.rest.split_once("==>")?;
        let state = value(prev, "prev_state=")?;
        Some(Switched {
            at: self.at,
            cpu: self.cpu,
            prev_tid: thread_number(value(prev, "prev_pid=")?)?,
            prev_tgid: self.tgid,
            prev_name: between(prev, "prev_comm=", " prev_pid="),
            next_tid: thread_number(value(next, "next_pid=")?)?,
            next_tgid: 0,
            next_name: between(next, "next_comm=", " next_pid="),
            outcome: outcome(state),
        })
    }

    /// Name and tid of the wakee. Older versions of perf print wakeups as `comm:pid [prio] …`.
    pub fn wakee(&self) -> Option<(String, u32)> {
        if let Some(number) = value(&self.rest, " pid=") {
            return Some((between(&self.rest, "comm=", " pid="), thread_number(number)?));
        }
        let (who, _) = self.rest.split_once(" [")?;
        let (name, number) = who.rsplit_once(':')?;
        Some((name.to_owned(), thread_number(number)?))
    }
}

/// Parts of an event's name.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Event<'a> {
    name: &'a str,
    modifiers: &'a str,
    /// The unit that counts is named: there is one for each kind of core.
    of_unit: bool,
}

/// Parses `name:modifiers`, `unit/name:modifiers/` or `unit/name/modifiers`. Any other text is a plain name.
fn parts(event: &str) -> Event<'_> {
    let are_modifiers = |text: &str| text.chars().all(|letter| "ukhGHpPSDIWe".contains(letter));
    let modified = |text| match str::split_once(text, ':') {
        Some((name, modifiers)) if are_modifiers(modifiers) => (name, modifiers),
        _ => (text, ""),
    };
    let in_unit = event.split_once('/').and_then(|(_, rest)| rest.rsplit_once('/'));
    // An event may be given by numbers (`cpu/event=0x3c/`), or by a name and more. It then has no other name.
    let in_unit = in_unit.filter(|(name, _)| !name.is_empty() && !name.contains(['=', ',']));
    match in_unit {
        Some((name, "")) => {
            let (name, modifiers) = modified(name);
            Event { name, modifiers, of_unit: true }
        }
        Some((name, modifiers)) if are_modifiers(modifiers) => Event { name, modifiers, of_unit: true },
        _ => {
            let (name, modifiers) = modified(event);
            Event { name, modifiers, of_unit: false }
        }
    }
}

/// Parses a frame's line: `address function+0xoffset (module)`. For an inlined function, perf prints
/// `(inlined)` instead of the module. Before 5.0, it prints `(inlined)` after the module.
pub(super) fn frame(line: &str) -> Option<Frame<'_>> {
    let (address, rest) = line.trim().split_once(' ')?;
    let address = u64::from_str_radix(address, 16).ok()?;
    let rest = rest.trim_end();
    let (rest, inlined) = rest.strip_suffix(" (inlined)").map_or((rest, false), |rest| (rest, true));
    let named = rest.strip_suffix(')').and_then(|whole| {
        let whole = whole.strip_suffix(" (deleted)").unwrap_or(whole);
        // The arguments of an inlined function are not a module.
        whole.rsplit_once(" (").filter(|(_, module)| !inlined || !module.contains(')'))
    });
    let (function, module) = match named {
        Some(named) => named,
        None if inlined => (rest, ""),
        None => return None,
    };
    let function = match function.rsplit_once("+0x") {
        Some((name, offset)) if offset.chars().all(|c| c.is_ascii_hexdigit()) => name,
        _ => function,
    };
    let in_kernel = address >> 63 == 1;
    if address == 0 && function == "[unknown]" {
        return None;
    }
    let module = match module {
        "[unknown]" => "",
        _ if in_kernel => "[kernel]",
        module => module,
    };
    Some(Frame { function: function.trim(), module, in_kernel, inlined })
}

/// Words with their places.
fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    line.split([' ', '\t']).scan(0, |place, word| {
        let start = *place;
        *place += word.len() + 1;
        Some((start, word))
    })
}

/// `123.456789:` in nanoseconds.
fn time(word: &str) -> Option<u64> {
    let (seconds, fraction) = word.strip_suffix(':')?.split_once('.')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(seconds) || !digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let scale = 10_u64.pow(9 - fraction.len() as u32);
    let fraction = fraction.parse::<u64>().ok()? * scale;
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(fraction)
}

/// A tid or pid. -1 means unknown.
fn thread_number(text: &str) -> Option<u32> {
    text.trim()
        .parse::<i64>()
        .ok()
        .and_then(|number| if number == -1 { Some(u32::MAX) } else { number.try_into().ok() })
}

/// The word behind `key`.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let (_, behind) = text.split_once(key)?;
    behind.split_ascii_whitespace().next()
}

fn between(text: &str, start: &str, end: &str) -> String {
    let behind = text.split_once(start).map_or("", |(_, behind)| behind);
    behind.split_once(end).map_or("", |(between, _)| between).to_owned()
}

/// The state letters of sched_switch.
fn outcome(state: &str) -> Outcome {
    match state.chars().next() {
        _ if state.contains(['X', 'Z', 'x']) => Outcome::Dead,
        Some('R') | None => Outcome::Preempted,
        Some('D' | 'I') => Outcome::Blocked(unknown_wait(2)),
        Some('T') => Outcome::Blocked(unknown_wait(4)),
        Some('t') => Outcome::Blocked(unknown_wait(8)),
        Some(_) => Outcome::Blocked(unknown_wait(1)),
    }
}
