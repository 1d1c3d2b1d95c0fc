//! Windows for counting syscalls, about 2 % of the time. One short window lies at a random place in each
//! stretch of 0.5 s. The first stretches are shorter, so that short runs get a few windows. All windows stay
//! within a part of the budget.
//!
//! Random places avoid aliasing with the program's rhythm. One window per stretch covers the whole run. A
//! window's length is a fixed share of its stretch. Therefore calls in all windows / length of all windows is
//! an unbiased estimate of calls per second for any stretch length.

use std::collections::BTreeMap;
use std::time::Duration;

use holdup_capture::bpf::{CallCost, CallEntry, Session, SyscallCounts};
use holdup_capture::lower;
use holdup_decode::calls::CallDecoder;
use holdup_events::event::SyscallCount;
use holdup_events::recording::SourceState;
use holdup_events::{CpuId, Event, Loss, Timestamp};

use super::calls::MAPS;
use super::random::Random;
use super::skipped_runs;

const NAME: &str = "syscall-windows";
/// Windows' share of the time.
const SHARE: u64 = 50;
const FIRST_STRETCH_NS: u64 = 50_000_000;
const STRETCH_NS: u64 = 500_000_000;
/// A shorter window yields too little for the cost of opening it.
const LENGTH_MIN_NS: u64 = 200_000;
/// Part of the budget that windows may use.
const BUDGET_PART: f64 = 0.25;
/// Opening, closing and reading a window, before it was measured (ns).
const OPENING_NS: f64 = 300_000.0;
/// After so many windows that could not be opened the kernel will not have it.
const FAILURES_MAX: u32 = 3;

/// Opens and closes the windows of one recording.
pub struct SyscallWindows {
    plan: Plan,
    state: State,
    /// By how much counting makes a call slower.
    cost: CallCost,
    /// Maximum cost of windows if the whole budget is left (CPU time per ns).
    allowed_most: f64,
    events: u64,
    /// Calls that the kernel had skipped before the recording began.
    skipped_before: u64,
    failures: u32,
    missing: String,
}

enum State {
    /// No windows.
    Off,
    /// The next one is to be opened at this time, so long (ns).
    Waiting(u64, u64),
    /// Open until this time.
    Open(u64),
}

impl SyscallWindows {
    /// For `budget` percent of all `cpus`. With 0 there are no windows.
    pub fn new(budget: f64, cpus: usize) -> SyscallWindows {
        let allowed_most = budget / 100.0 * cpus.max(1) as f64 * BUDGET_PART;
        SyscallWindows {
            plan: Plan::new(allowed_most, lower::now().0),
            allowed_most,
            state: State::Off,
            cost: CallCost::default(),
            events: 0,
            skipped_before: 0,
            failures: 0,
            missing: String::new(),
        }
    }

    /// Tries what counting costs. Without this, or where the kernel cannot count, there are no windows.
    pub fn prepare(&mut self, session: &Session) {
        if self.plan.allowed <= 0.0 {
            return;
        }
        match session.syscall_cost() {
            Ok(Some(cost)) => {
                self.cost = cost;
                self.plan.call_ns = cost.call_ns;
                self.state = State::Waiting(u64::MAX, 0);
            }
            Ok(None) => {}
            Err(error) => self.missing = error.to_string(),
        }
    }

    /// The program begins to run now.
    pub fn begin(&mut self, session: &Session) {
        self.skipped_before = skipped_runs::calls(session);
        if !matches!(self.state, State::Off) {
            self.plan.stretch_start_ns = lower::now().0;
            self.wait();
        }
    }

    /// Sets the part of the budget (0 to 1) that is left for optional work.
    pub fn allow(&mut self, left: f64) {
        self.plan.allowed = self.allowed_most * left;
    }

    /// Opens or closes a window if one is due. `sink` receives the counts.
    pub fn step(&mut self, session: &mut Session, sink: &mut dyn FnMut(Event)) {
        let now = lower::now().0;
        match self.state {
            State::Waiting(at, length) if now >= at => self.open(session, length),
            State::Open(until) if now >= until => {
                self.close(session, sink);
                self.wait();
            }
            _ => {}
        }
    }

    /// How long the recorder may sleep that would sleep for `pause`.
    pub fn pause(&self, pause: Duration) -> Duration {
        let next = match self.state {
            State::Off => return pause,
            State::Waiting(at, _) | State::Open(at) => at,
        };
        pause.min(Duration::from_nanos(next.saturating_sub(lower::now().0)))
    }

    /// Closes an open window and ends the windows. Returns the state of the source.
    pub fn finish(&mut self, session: &mut Session, sink: &mut dyn FnMut(Event)) -> Option<SourceState> {
        self.close(session, sink);
        // If all calls are counted there are no windows. The losses are then reported with the exact counts.
        let had_none = matches!(self.state, State::Off) && self.events == 0;
        let skipped = || skipped_runs::calls(session).saturating_sub(self.skipped_before);
        let (without_room, skipped) = if had_none { (0, 0) } else { (session.calls_uncounted(), skipped()) };
        for (reason, events) in [("no room", without_room), (Loss::SKIPPED, skipped)] {
            if events > 0 {
                let (start, end) = (Timestamp(self.plan.begin_ns), lower::now());
                let (source, reason) = (NAME.to_owned(), reason.to_owned());
                sink(Event::Loss(Loss { source, reason, cpu: CpuId::NONE, start, end, events }));
            }
        }
        let lost = without_room + skipped;
        let active = !matches!(self.state, State::Off);
        self.state = State::Off;
        let missing = std::mem::take(&mut self.missing);
        let events = self.events;
        (active || !missing.is_empty()).then(|| SourceState {
            name: NAME.to_owned(),
            active,
            missing,
            events,
            lost,
        })
    }

    fn wait(&mut self) {
        let (at, length) = self.plan.next(lower::now().0);
        self.state = State::Waiting(at, length);
    }

    fn open(&mut self, session: &mut Session, length_ns: u64) {
        let (began_ns, from_ns) = (lower::thread_cpu_ns(), lower::now().0);
        match session.open_syscall_window() {
            Ok(Some(start)) => {
                self.plan.before_ns = start.saturating_sub(from_ns);
                self.state = State::Open(start.saturating_add(length_ns));
            }
            Ok(None) => self.wait(),
            Err(error) => self.fail(&error.to_string()),
        }
        self.plan.opening_ns = lower::thread_cpu_ns().saturating_sub(began_ns) as f64;
    }

    fn close(&mut self, session: &mut Session, sink: &mut dyn FnMut(Event)) {
        let began_ns = lower::thread_cpu_ns();
        let closed = session.close_syscall_window();
        let after_ns = lower::now().0;
        match closed {
            Ok(Some(counts)) => {
                self.failures = 0;
                let window = (Timestamp(counts.start_ns), Timestamp(counts.end_ns));
                let sums = decode(&counts);
                let calls = self::counts(&sums).values().sum();
                let took_ns = lower::thread_cpu_ns().saturating_sub(began_ns) as f64;
                self.plan.behind_ns = after_ns.saturating_sub(window.1.0);
                self.plan.learn(calls, window.1.since(window.0).0, took_ns);
                let call_ns = self.cost.for_call(counts.program_ns);
                if counts.program_ns.is_some() {
                    self.plan.call_ns = call_ns; // each thread's first call takes longer than those that were tried
                }
                let cost_ns = call_ns.round() as u32;
                self.emit((window, cost_ns), sums, sink);
            }
            Ok(None) => {}
            Err(error) => self.fail(&error.to_string()),
        }
    }

    fn fail(&mut self, reason: &str) {
        self.failures += 1;
        self.missing = format!("a window could not be opened: {reason}");
        if self.failures >= FAILURES_MAX {
            self.state = State::Off;
        } else {
            self.wait();
        }
    }

    fn emit(
        &mut self,
        ((start, end), cost_ns): ((Timestamp, Timestamp), u32),
        sums: Vec<Event>,
        sink: &mut dyn FnMut(Event),
    ) {
        if end <= start {
            return;
        }
        let mut counts = counts(&sums);
        // A window in which nothing was called is one, too.
        if counts.is_empty() {
            counts.insert((0, -1), 0);
        }
        for ((tgid, syscall), count) in counts {
            self.events += 1;
            sink(Event::SyscallCount(SyscallCount { at: start, until: end, tgid, syscall, count, cost_ns }));
        }
        sums.into_iter().for_each(sink);
    }
}

/// Decodes the entries of a window, without the recorder's own calls.
fn decode(counted: &SyscallCounts) -> Vec<Event> {
    let mut decoder = CallDecoder::default();
    for CallEntry { map, key, values } in &counted.entries {
        if let Some(map) = MAPS.get(*map) {
            decoder.take(*map, key, values);
        }
    }
    let mut sums = Vec::new();
    decoder.emit((Timestamp(counted.start_ns), Timestamp(counted.end_ns)), &mut |event| match &event {
        Event::Calls(calls) if calls.tgid == std::process::id() => {}
        _ => sums.push(event),
    });
    sums
}

/// Calls by process and number.
fn counts(sums: &[Event]) -> BTreeMap<(u32, i32), u64> {
    let mut counts = BTreeMap::new();
    for event in sums {
        if let Event::Calls(calls) = event {
            *counts.entry((calls.tgid, calls.syscall)).or_default() += calls.count;
        }
    }
    counts
}

/// Where the windows are, and how long.
struct Plan {
    begin_ns: u64,
    stretch_start_ns: u64,
    stretch_ns: u64,
    /// CPU time that windows may take in a nanosecond.
    allowed: f64,
    /// Cost of opening a window (ns of CPU time).
    opening_ns: f64,
    /// Cost of closing and reading a window (ns of CPU time).
    closing_ns: f64,
    /// For how long the program was there before and after the last window (ns). The kernel makes every call slower
    /// from the moment at which it begins to attach a program, for which it waits until all CPUs know.
    before_ns: u64,
    behind_ns: u64,
    /// Calls in a nanosecond, in the last window.
    rate: f64,
    /// Added duration of a call in a window (ns).
    call_ns: f64,
    random: Random,
}

impl Plan {
    fn new(allowed: f64, seed: u64) -> Plan {
        Plan {
            begin_ns: seed,
            stretch_start_ns: seed,
            stretch_ns: FIRST_STRETCH_NS,
            allowed,
            opening_ns: OPENING_NS / 2.0,
            closing_ns: OPENING_NS / 2.0,
            before_ns: 0,
            behind_ns: 0,
            rate: 0.0,
            call_ns: 0.0,
            random: Random::new(seed),
        }
    }

    /// Returns the begin and the length of the next window (ns). Begins increase and are not before `now`.
    fn next(&mut self, now: u64) -> (u64, u64) {
        loop {
            let beside_ns = (self.before_ns + self.behind_ns) as f64 * self.rate * self.call_ns;
            let opening_ns = self.opening_ns + self.closing_ns + beside_ns;
            // Stretches in which a window costs too much, whatever its length, are longer.
            let affordable = (2.0 * opening_ns / self.allowed.max(1e-9)).min(3.6e12) as u64;
            let stretch_ns = self.stretch_ns.max(affordable);
            let left = self.allowed * stretch_ns as f64 - opening_ns;
            let fits = (left / (self.rate * self.call_ns).max(1e-9)).min(1e12) as u64;
            let length = (stretch_ns.min(STRETCH_NS) / SHARE).min(fits);
            let start = self.stretch_start_ns;
            self.stretch_start_ns = start.saturating_add(stretch_ns);
            self.stretch_ns = (self.stretch_ns * 2).min(STRETCH_NS);
            if self.stretch_start_ns <= now {
                continue; // passed already
            }
            if length < LENGTH_MIN_NS {
                if stretch_ns >= STRETCH_NS {
                    self.rate /= 2.0; // it may have become quieter
                }
                continue;
            }
            let room = stretch_ns.saturating_sub(length);
            let at = start.saturating_add((room as f64 * self.random.draw()) as u64);
            return (at.max(now), length);
        }
    }

    fn learn(&mut self, calls: u64, window_ns: u64, closing_ns: f64) {
        self.closing_ns = closing_ns;
        self.rate = calls as f64 / window_ns.max(1) as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two CPUs and 2 %: a quarter of that in windows.
    fn plan() -> Plan {
        let mut plan = Plan::new(0.02 * 2.0 * BUDGET_PART, 1_000_000_000);
        (plan.opening_ns, plan.closing_ns, plan.call_ns) = (50_000.0, 50_000.0, 150.0);
        plan
    }

    fn windows(plan: &mut Plan, seconds: u64) -> Vec<(u64, u64)> {
        let (mut all, mut now) = (Vec::new(), plan.begin_ns);
        while now < plan.begin_ns + seconds * 1_000_000_000 {
            let (at, length) = plan.next(now);
            assert!(at >= now);
            all.push((at, length));
            now = at + length;
        }
        all
    }

    #[test]
    fn windows_come_early_and_take_two_percent() {
        let all = windows(&mut plan(), 100);
        assert!(all[0].0 < 1_000_000_000 + FIRST_STRETCH_NS && all[0].1 == FIRST_STRETCH_NS / SHARE);
        assert!((200..=206).contains(&all.len()), "{}", all.len());
        let time: u64 = all.iter().map(|(_, length)| length).sum();
        assert!((1_950_000_000..2_070_000_000).contains(&time), "{time}");
        assert!(all.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
    }

    #[test]
    fn a_storm_makes_them_shorter_and_costly_openings_rarer() {
        let mut storm = plan();
        storm.rate = 0.02; // twenty calls a microsecond, on many CPUs
        let all = windows(&mut storm, 10);
        let cost: f64 = all.iter().map(|(_, length)| *length as f64 * 0.02 * 150.0 + 100_000.0).sum();
        assert!(!all.is_empty() && cost <= 0.01 * 11e9, "{} {cost}", all.len());

        let mut slow = plan();
        (slow.opening_ns, slow.closing_ns) = (10e6, 10e6);
        let all = windows(&mut slow, 100);
        assert!(!all.is_empty() && all.len() as f64 * 20e6 <= 0.01 * 104e9, "{}", all.len());
    }

    #[test]
    fn where_little_of_the_budget_is_left_windows_take_a_part_of_that() {
        let mut windows_of = SyscallWindows::new(2.0, 2);
        assert!((windows_of.plan.allowed - 0.01).abs() < 1e-12);
        windows_of.allow(0.1);
        assert!((windows_of.plan.allowed - 0.001).abs() < 1e-12);
        let mut tight = plan();
        (tight.allowed, tight.rate, tight.call_ns) = (0.001, 5e-5, 6_000.0);
        let all = windows(&mut tight, 100);
        let cost: f64 = all.iter().map(|(_, length)| *length as f64 * 5e-5 * 6_000.0 + 100_000.0).sum();
        assert!(all.len() > 50 && cost <= 0.001 * 104e9, "{} {cost}", all.len());
        windows_of.allow(1.0);
        assert!((windows_of.plan.allowed - 0.01).abs() < 1e-12);
    }

    #[test]
    fn calls_are_slower_while_the_program_comes_and_goes_too() {
        let mut plan = plan();
        (plan.rate, plan.before_ns, plan.behind_ns) = (0.002, 10_000_000, 10_000_000);
        let all = windows(&mut plan, 100);
        let slow: f64 = all.iter().map(|(_, length)| (*length + 20_000_000) as f64 * 0.002 * 150.0).sum();
        assert!(all.len() > 10 && slow <= 0.01 * 104e9, "{} {slow}", all.len());
    }

    #[test]
    fn a_recorder_that_was_kept_waiting_goes_on_from_now() {
        let mut plan = plan();
        let late = plan.begin_ns + 10_000_000_000;
        let (at, _) = plan.next(late);
        assert!((late..late + STRETCH_NS).contains(&at));
    }
}
