//! The program stops computing, or computes more than it should.

use holdup_capture::host;
use holdup_events::recording::Fired;
use holdup_events::standing::{Doing, Standing};
use holdup_events::{Duration, Event, Timestamp};

use super::{Trigger, happened};

pub const HELP: &str =
    "cpu<10%, cpu>90%  of all CPUs together the program uses less, or more, for a second, after it did not";

const WINDOW: Duration = Duration(1_000_000_000);

struct Cpu {
    below: bool,
    percent: f64,
    cpus: u64,
    window: Timestamp,
    ran: Duration,
    /// Whether the usage was on the other side of the limit since it last fired.
    ready: bool,
}

pub fn parse(rest: &str) -> Result<Box<dyn Trigger>, String> {
    let (below, percent) = match (rest.strip_prefix('<'), rest.strip_prefix('>')) {
        (Some(percent), _) => (true, percent),
        (_, Some(percent)) => (false, percent),
        _ => return Err("write cpu<10% or cpu>90%".to_owned()),
    };
    let percent = crate::cli::parse_percent(percent)?;
    let cpus = host::online_cpus().len().max(1) as u64;
    Ok(Box::new(Cpu { below, percent, cpus, window: Timestamp(0), ran: Duration::ZERO, ready: false }))
}

impl Cpu {
    /// The time from `since`, or from the window's beginning, to `at`.
    fn within(&self, since: Timestamp, at: Timestamp) -> Duration {
        at.since(since.max(self.window))
    }

    fn judge(&mut self, now: Timestamp, fire: &mut dyn FnMut(Fired)) {
        let all = now.since(self.window).0.saturating_mul(self.cpus).max(1);
        let used = self.ran.0 as f64 * 100.0 / all as f64;
        let is_it = if self.below { used < self.percent } else { used > self.percent };
        if is_it && self.ready {
            let seconds = now.since(self.window).seconds();
            fire(happened(now, format!("the program used {used:.1} % of the CPUs for {seconds:.1} s")));
        }
        self.ready = !is_it;
        (self.window, self.ran) = (now, Duration::ZERO);
    }
}

impl Trigger for Cpu {
    fn event(&mut self, event: &Event, standing: &Standing, _: &mut dyn FnMut(Fired)) {
        if let Event::Switch(switch) = event
            && let Some(thread) = standing.threads().get(switch.prev_tid).filter(|thread| thread.target)
            && matches!(thread.doing, Doing::Running(_))
        {
            let ran = self.within(thread.since, switch.at);
            self.ran = Duration(self.ran.0 + ran.0);
        }
    }

    fn step(&mut self, now: Timestamp, standing: &Standing, fire: &mut dyn FnMut(Fired)) {
        if self.window == Timestamp(0) {
            self.window = now;
        }
        if now.since(self.window) < WINDOW {
            return;
        }
        for (_, thread) in standing.threads().iter().filter(|(_, thread)| thread.target) {
            if matches!(thread.doing, Doing::Running(_)) {
                let ran = self.within(thread.since, now);
                self.ran = Duration(self.ran.0 + ran.0);
            }
        }
        self.judge(now, fire);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_events::CpuId;
    use holdup_events::event::{Outcome, Switch};

    const S: u64 = 1_000_000_000;

    #[test]
    fn it_fires_when_the_program_falls_below_and_again_after_it_recovered() {
        let mut cpu = Cpu {
            below: true,
            percent: 30.0,
            cpus: 1,
            window: Timestamp(0),
            ran: Duration::ZERO,
            ready: false,
        };
        let mut standing = Standing::default();
        let mut fired = Vec::new();
        // In each of the seconds 1 to 8, a thread runs this number of tenths of the second.
        for (second, tenths) in (1..).zip([1, 9, 8, 1, 1, 9, 2, 2]) {
            let base = Switch { cpu: CpuId(0), prev_tgid: 5, ..Switch::default() };
            let comes = Switch { at: Timestamp(second * S), next_tid: 7, ..base.clone() };
            let goes = Switch {
                at: Timestamp(second * S + tenths * S / 10),
                prev_tid: 7,
                outcome: Outcome::Preempted,
                ..base
            };
            cpu.step(Timestamp(second * S), &standing, &mut |one| fired.push(one.at_ns / S));
            for event in [Event::Switch(comes), Event::Switch(goes)] {
                cpu.event(&event, &standing, &mut |_| {});
                standing.fold(&event);
            }
        }
        // The usage of the first second is no fall.
        assert_eq!(fired, [5, 8]);
    }
}
