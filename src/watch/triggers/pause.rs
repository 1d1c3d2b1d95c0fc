//! A thread of the program that does not get on for longer than it should.

use std::collections::HashMap;

use holdup_decode::wait_reason::classify;
use holdup_events::event::Switch;
use holdup_events::recording::Fired;
use holdup_events::standing::{Doing, Standing, StandingThread};
use holdup_events::tables::SpanKind;
use holdup_events::{Duration, Event, Timestamp, WaitReason};
use holdup_report::numbers::duration;

use super::spans::{Ended, OpenSpans};
use super::{Trigger, happened_to};

pub const HELP: &str = "pause:KIND>TIME   a thread waits for longer (lock, run-queue, off-cpu, stop-the-world). Without KIND: any but off-cpu";

/// Extra time for an unfinished pause. Records of a CPU that the hypervisor has preempted may still report
/// its end.
const STILL_MARGIN: Duration = Duration(50_000_000);

/// Which pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Any,
    Lock,
    RunQueue,
    OffCpu,
    StopTheWorld,
}

struct Pause {
    kind: Kind,
    longer_than: Duration,
    spans: OpenSpans,
    /// Start of the off-CPU time of threads whose unfinished pause was reported.
    told: HashMap<u32, Timestamp>,
}

pub fn parse(rest: &str) -> Result<Box<dyn Trigger>, String> {
    let (kind, time) = rest.split_once('>').ok_or("a time is wanted: pause:lock>20ms")?;
    let kind = match kind {
        "" => Kind::Any,
        "lock" => Kind::Lock,
        "run-queue" => Kind::RunQueue,
        "off-cpu" => Kind::OffCpu,
        "stop-the-world" => Kind::StopTheWorld,
        other => {
            return Err(format!(
                "'{other}' is no kind of pause; there are lock, run-queue, off-cpu, stop-the-world"
            ));
        }
    };
    let longer_than = Duration(crate::cli::parse_duration(time)?.as_nanos() as u64);
    Ok(Box::new(Pause { kind, longer_than, spans: OpenSpans::default(), told: HashMap::new() }))
}

/// Since when a thread is off its CPU.
fn off_since(thread: &StandingThread) -> Timestamp {
    match thread.off_since {
        Timestamp(0) => thread.since,
        seen => seen,
    }
}

/// Returns the reasons for which a thread is off its CPU, up to `at`, with their durations. No duration
/// exceeds the off-CPU time.
fn pauses(kind: Kind, thread: &StandingThread, at: Timestamp) -> [Option<(&'static str, Duration)>; 2] {
    let off = off_since(thread);
    // Runnable since it left: it never was blocked.
    let blocked_until = match thread.doing {
        Doing::Blocked => at,
        Doing::Runnable => thread.since,
        _ => off,
    };
    let blocked = blocked_until.since(off);
    let queued = if thread.doing == Doing::Runnable { at.since(thread.since) } else { Duration::ZERO };
    let is_lock = || {
        let reason = classify(&thread.wait);
        matches!(reason, WaitReason::Lock | WaitReason::MmapLock | WaitReason::FileLock)
    };
    let lock = (matches!(kind, Kind::Any | Kind::Lock) && blocked > Duration::ZERO && is_lock())
        .then_some(("waited for a lock", blocked));
    match kind {
        Kind::OffCpu => [Some(("was off its CPU", at.since(off))), None],
        Kind::Any | Kind::RunQueue => [lock, Some(("waited for a CPU", queued))],
        Kind::Lock => [lock, None],
        Kind::StopTheWorld => [None, None],
    }
}

impl Pause {
    fn arrives(&mut self, switch: &Switch, standing: &Standing, fire: &mut dyn FnMut(Fired)) {
        let Some(thread) = standing.threads().get(switch.next_tid).filter(|thread| thread.target) else {
            return;
        };
        if !matches!(thread.doing, Doing::Blocked | Doing::Runnable) {
            return;
        }
        // Nearly always nothing goes on so long.
        if !self.told.is_empty() && self.told.remove(&switch.next_tid) == Some(thread.off_since) {
            return;
        }
        if switch.at.since(off_since(thread)) <= self.longer_than {
            return;
        }
        let over = pauses(self.kind, thread, switch.at).into_iter().flatten();
        for (what, length) in over.filter(|(_, length)| *length > self.longer_than).take(1) {
            let what = format!("{what} for {}", duration(length.0));
            fire(happened_to(switch.next_tid, standing, (switch.at, what, length.0)));
        }
    }

    fn ended(&self, span: &Ended, standing: &Standing, fire: &mut dyn FnMut(Fired)) {
        let stops = matches!(self.kind, Kind::Any | Kind::StopTheWorld)
            && matches!(span.kind, SpanKind::Stop | SpanKind::StopsAll | SpanKind::Stopped);
        if stops && span.length > self.longer_than {
            let what = format!("stopped the world, or stood still for it, for {}", duration(span.length.0));
            fire(happened_to(span.tid, standing, (span.at, what, span.length.0)));
        }
    }
}

impl Trigger for Pause {
    fn event(&mut self, event: &Event, standing: &Standing, fire: &mut dyn FnMut(Fired)) {
        match event {
            Event::Switch(switch) if switch.next_tid != 0 => self.arrives(switch, standing, fire),
            Event::Runtime(tell) => {
                if let Some(span) = self.spans.take(tell) {
                    self.ended(&span, standing, fire);
                }
            }
            _ => {}
        }
    }

    /// Reports unfinished pauses, because a deadlock never ends.
    fn step(&mut self, now: Timestamp, standing: &Standing, fire: &mut dyn FnMut(Fired)) {
        let longer_than = Duration(self.longer_than.0.saturating_add(STILL_MARGIN.0));
        let off = |thread: &StandingThread| matches!(thread.doing, Doing::Blocked | Doing::Runnable);
        let mut still: Vec<(u32, &StandingThread)> =
            standing.threads().iter().filter(|(_, thread)| thread.target && off(thread)).collect();
        still.retain(|(_, thread)| {
            let over = pauses(self.kind, thread, now).into_iter().flatten();
            over.into_iter().any(|(_, length)| length > longer_than)
        });
        still.sort_by_key(|(tid, thread)| (thread.off_since, *tid));
        for (tid, thread) in still {
            if self.told.insert(tid, thread.off_since) == Some(thread.off_since) {
                continue;
            }
            let long = pauses(self.kind, thread, now).into_iter().flatten();
            if let Some((what, length)) = long.into_iter().find(|(_, length)| *length > longer_than) {
                let what = format!("{what} for {}, and still did", duration(length.0));
                fire(happened_to(tid, standing, (now, what, length.0)));
            }
        }
        self.told.retain(|tid, _| standing.threads().get(*tid).is_some_and(off));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_events::CpuId;
    use holdup_events::event::{Outcome, RawWait, Waking};

    const MS: u64 = 1_000_000;

    /// A contended mutex of glibc, or a condition variable.
    fn futex(value: u32) -> Outcome {
        Outcome::Blocked(Box::new(RawWait { syscall: 202, op: 128, value, state: 1, ..RawWait::default() }))
    }

    fn switch(ms: u64, prev_tid: u32, outcome: Outcome, next_tid: u32) -> Event {
        let at = Timestamp(ms * MS);
        Event::Switch(Switch {
            at,
            cpu: CpuId(0),
            prev_tid,
            next_tid,
            prev_tgid: 5,
            outcome,
            ..Switch::default()
        })
    }

    fn waking(ms: u64, wakee_tid: u32) -> Event {
        Event::Waking(Waking { at: Timestamp(ms * MS), wakee_tid, ..Waking::default() })
    }

    /// Returns the firings for events, including a step after the last of them.
    fn fired(trigger: &str, events: &[Event], look_ms: u64) -> Vec<String> {
        let mut armed = parse(trigger).unwrap();
        let (mut standing, mut all) = (Standing::default(), Vec::new());
        for event in events {
            armed.event(event, &standing, &mut |fired| all.push(format!("{} {}", fired.tid, fired.what)));
            standing.fold(event);
        }
        for _ in 0..2 {
            armed.step(Timestamp(look_ms * MS), &standing, &mut |fired| {
                all.push(format!("{} {}", fired.tid, fired.what));
            });
        }
        all
    }

    fn waits(value: u32) -> Vec<Event> {
        vec![
            switch(10, 7, futex(value), 0),
            waking(40, 7),
            switch(43, 0, Outcome::Untracked, 7),
            switch(44, 7, Outcome::Preempted, 8),
            switch(60, 8, futex(0), 7),
        ]
    }

    #[test]
    fn each_kind_fires_for_its_own_pauses() {
        assert_eq!(fired("lock>20ms", &waits(2), 61), ["7 waited for a lock for 30.0 ms"]);
        assert_eq!(
            fired("lock>20ms", &waits(0), 61),
            Vec::<String>::new(),
            "an idle worker's wait is no lock"
        );
        assert_eq!(fired("lock>31ms", &waits(2), 61), Vec::<String>::new());
        assert_eq!(
            fired("run-queue>2ms", &waits(0), 61),
            ["7 waited for a CPU for 3.00 ms", "7 waited for a CPU for 16.0 ms"]
        );
        assert_eq!(fired("off-cpu>32ms", &waits(0), 61), ["7 was off its CPU for 33.0 ms"]);
        assert_eq!(
            fired(">15ms", &waits(2), 61),
            ["7 waited for a lock for 30.0 ms", "7 waited for a CPU for 16.0 ms"]
        );
    }

    #[test]
    fn one_that_never_ends_fires_once() {
        let events = &waits(2)[..1];
        assert_eq!(fired("lock>20ms", events, 70), Vec::<String>::new(), "its end may be on the way");
        assert_eq!(fired("lock>20ms", events, 90), ["7 waited for a lock for 80.0 ms, and still did"]);
    }
}
