//! Windows for sampling page faults with their stacks. Faults are sampled all the time while the slowdown
//! stays below a part of the budget. Otherwise they are sampled in one window at a random place in each
//! stretch of 0.5 s.
//!
//! Counts of faults come from the kernel's own counters instead (`kernel_counts.rs`). The weight of a fault
//! sampled in a window is multiplied by stretch length / window length, so that busy and quiet times keep
//! their weights.

use std::collections::BTreeMap;
use std::time::Duration;

use holdup_capture::bpf::{FaultWindow, Session};
use holdup_capture::lower;

use super::random::Random;

/// Part of the budget that sampling faults may use, on the CPU with the most faults. The faulting thread pays
/// the cost.
const BUDGET_PART: f64 = 0.2;
/// Assumed slowdown of a fault by sampling, before it is measured (ns). It is 90 to 130 ns on a virtual
/// machine.
const FAULT_NS: f64 = 110.0;
/// Number of faults after which the slowdown is measured. The measurement takes 3 ms, less than these faults
/// took.
const TRIED_FROM: u64 = 50_000;
const FIRST_LOOK_NS: u64 = 10_000_000;
/// Interval for checking the number of faults while all of them are sampled.
const LOOK_NS: u64 = 100_000_000;
const STRETCH_NS: u64 = 500_000_000;
/// A shorter window yields too few samples for the cost of opening it.
const LENGTH_MIN_NS: u64 = 2_000_000;
/// Sampled faults per window, on the CPU with the most faults.
const DRAWS: f64 = 100.0;
/// Windows that would be this part of the time are open all of it.
const ALWAYS_PART: f64 = 0.5;

/// Opens and closes the windows of one recording.
pub struct FaultWindows {
    /// How much slower a CPU may become (0 to 1).
    allowed: f64,
    /// Slowdown of a fault by sampling (ns), and whether it was measured.
    fault_ns: f64,
    tried: bool,
    state: State,
    random: Random,
    missing: String,
}

enum State {
    /// Never, or no more.
    Off,
    /// Open all the time. `counted` is the last count, the next one is due at `look_ns`.
    Always { look_ns: u64, counted: Counted },
    /// To be opened at `at_ns`, or for all the time if there is no window.
    Shut { at_ns: u64, window: Option<Placed> },
    /// Open until `until_ns`. The stretch continues for `rest_ns` afterwards.
    Open { until_ns: u64, rest_ns: u64, counted: Counted },
}

/// Where a window lies in its stretch.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Placed {
    length_ns: u64,
    /// Rest of the stretch after the window.
    rest_ns: u64,
    /// Samples one fault in this number.
    every: u64,
}

/// Faults until a moment (ns), by CPU.
struct Counted {
    at_ns: u64,
    cpus: BTreeMap<u16, u64>,
}

impl Counted {
    fn now(session: &Session) -> Counted {
        Counted { at_ns: lower::now().0, cpus: session.faults_counted() }
    }

    /// Faults in a nanosecond since `before`, on the CPU that had the most.
    fn rate_since(&self, before: &Counted) -> f64 {
        let before_of = |cpu: &u16| before.cpus.get(cpu).copied().unwrap_or(0);
        let most = self.cpus.iter().map(|(cpu, now)| now.saturating_sub(before_of(cpu))).max();
        most.unwrap_or(0) as f64 / self.at_ns.saturating_sub(before.at_ns).max(1) as f64
    }
}

impl FaultWindows {
    /// For a budget in percent. With 0, faults are not sampled.
    pub fn new(budget: f64) -> FaultWindows {
        FaultWindows {
            allowed: budget / 100.0 * BUDGET_PART,
            fault_ns: FAULT_NS,
            tried: false,
            state: State::Off,
            random: Random::new(lower::now().0),
            missing: String::new(),
        }
    }

    /// The program begins to run now.
    pub fn begin(&mut self, session: &mut Session) {
        if self.allowed > 0.0 {
            self.draw_always(session, FIRST_LOOK_NS);
        }
    }

    /// Opens or closes a window if it is time to.
    pub fn step(&mut self, session: &mut Session) {
        let now = lower::now().0;
        match std::mem::replace(&mut self.state, State::Off) {
            State::Always { look_ns, counted } if now >= look_ns => self.look(session, &counted),
            State::Shut { at_ns, window: None } if now >= at_ns => self.draw_always(session, LOOK_NS),
            State::Shut { at_ns, window: Some(placed) } if now >= at_ns => self.open(session, placed),
            State::Open { until_ns, rest_ns, counted } if now >= until_ns => {
                let rate = Counted::now(session).rate_since(&counted);
                self.set(session, None);
                self.try_cost(session);
                self.place(rate, (until_ns + rest_ns).max(lower::now().0));
            }
            waiting => self.state = waiting,
        }
    }

    /// How long the recorder may sleep that would sleep for `pause`.
    pub fn pause(&self, pause: Duration) -> Duration {
        let next = match self.state {
            State::Shut { at_ns, window: Some(_) } => at_ns,
            State::Open { until_ns, .. } => until_ns,
            // A little later will do.
            _ => return pause,
        };
        pause.min(Duration::from_nanos(next.saturating_sub(lower::now().0)))
    }

    /// Returns the cost of sampling for the programs so far, in addition to the BPF program's own time (ns of
    /// CPU time).
    pub fn cost_ns(&self, session: &Session) -> f64 {
        session.faults_counted().values().sum::<u64>() as f64 * self.fault_ns
    }

    /// Why sampling of faults failed or stopped. Empty if it did not.
    pub fn missing(&self) -> &str {
        &self.missing
    }

    fn look(&mut self, session: &mut Session, before: &Counted) {
        // Once: another CPU's count is asked of that CPU, which is interrupted for it.
        let counted = Counted::now(session);
        let rate = counted.rate_since(before);
        if rate * self.fault_ns <= self.allowed {
            self.state = State::Always { look_ns: counted.at_ns + LOOK_NS, counted };
            return;
        }
        self.set(session, None);
        self.try_cost(session);
        self.place(rate, lower::now().0);
    }

    /// Tries what drawing costs here, once that is worth the trial.
    fn try_cost(&mut self, session: &mut Session) {
        let counted = session.faults_counted().into_values().max().unwrap_or(0);
        if self.tried || counted < TRIED_FROM {
            return;
        }
        self.tried = true;
        match session.fault_cost_ns() {
            Ok(Some(ns)) => self.fault_ns = ns,
            Ok(None) => {}
            Err(error) => self.missing = format!("what drawing page faults costs is not known: {error}"),
        }
    }

    /// Places the window of the stretch that begins at `start_ns`.
    fn place(&mut self, rate: f64, start_ns: u64) {
        let part = self.allowed / (rate * self.fault_ns).max(1e-12);
        self.state = if part >= ALWAYS_PART {
            State::Shut { at_ns: start_ns, window: None }
        } else {
            let (before_ns, placed) = placed((part, rate), self.random.draw());
            State::Shut { at_ns: start_ns + before_ns, window: Some(placed) }
        };
    }

    fn open(&mut self, session: &mut Session, placed: Placed) {
        let counted = Counted::now(session);
        let until_ns = lower::now().0 + placed.length_ns;
        let weight = STRETCH_NS as f64 / placed.length_ns as f64;
        if self.set(session, Some(FaultWindow { end_ns: until_ns, weight, every: placed.every })) {
            self.state = State::Open { until_ns, rest_ns: placed.rest_ns, counted };
        }
    }

    fn draw_always(&mut self, session: &mut Session, look_ns: u64) {
        if self.set(session, Some(FaultWindow::ALWAYS)) {
            let counted = Counted::now(session);
            self.state = State::Always { look_ns: counted.at_ns + look_ns, counted };
        }
    }

    /// Sets the window. Returns whether that succeeded. After a failure, sampling is off.
    fn set(&mut self, session: &mut Session, window: Option<FaultWindow>) -> bool {
        let done = session.draw_faults(window);
        if let Err(error) = &done {
            self.missing = format!("no stacks of page faults: {error}");
        }
        done.is_ok()
    }
}

/// Returns the time before a window in its stretch (ns), and the window. `part` is the window's share of the
/// stretch, `rate` is in faults per ns, `random` is in 0..1.
fn placed((part, rate): (f64, f64), random: f64) -> (u64, Placed) {
    let length_ns = ((STRETCH_NS as f64 * part) as u64).clamp(LENGTH_MIN_NS, STRETCH_NS);
    let room_ns = STRETCH_NS - length_ns;
    let before_ns = ((room_ns as f64 * random) as u64).min(room_ns);
    // Odd: what the program does in pairs is met in both halves.
    let every = (rate * length_ns as f64 / DRAWS) as u64 | 1;
    (before_ns, Placed { length_ns, rest_ns: room_ns - before_ns, every })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows() -> FaultWindows {
        let mut windows = FaultWindows::new(2.0);
        windows.fault_ns = 100.0;
        windows
    }

    #[test]
    fn many_faults_are_drawn_in_windows_that_keep_to_their_part() {
        // 600,000 faults per second would cost 6 %. The limit is 0.4 %.
        let mut windows = windows();
        windows.place(0.0006, 1_000_000_000);
        let State::Shut { at_ns, window: Some(placed) } = windows.state else { panic!("always") };
        assert!((33_000_000..34_000_000).contains(&placed.length_ns), "{placed:?}");
        assert_eq!(at_ns - 1_000_000_000 + placed.length_ns + placed.rest_ns, STRETCH_NS);
    }

    #[test]
    fn few_faults_are_drawn_all_the_time() {
        let mut windows = windows();
        for rate in [0.0, 0.000_04] {
            windows.place(rate, 5);
            assert!(matches!(windows.state, State::Shut { at_ns: 5, window: None }), "{rate}");
        }
    }

    #[test]
    fn a_window_is_somewhere_in_its_stretch_and_no_shorter_than_is_of_use() {
        for random in [0.0, 0.3, 0.999_999] {
            let (before_ns, placed) = placed((1e-6, 0.5), random);
            assert_eq!((placed.length_ns, placed.every), (LENGTH_MIN_NS, 10_001));
            assert_eq!(before_ns + placed.length_ns + placed.rest_ns, STRETCH_NS);
        }
    }

    #[test]
    fn the_cpu_with_the_most_faults_decides() {
        let before = Counted { at_ns: 1_000, cpus: BTreeMap::from([(0, 10), (1, 20)]) };
        let after = Counted { at_ns: 2_000, cpus: BTreeMap::from([(0, 510), (1, 30), (200, 40)]) };
        assert_eq!(after.rate_since(&before), 0.5);
        assert_eq!(before.rate_since(&after), 0.0);
    }
}
