//! A syscall is called, or another tracepoint of the kernel passed, by a thread of the program.

use holdup_capture::host;
use holdup_capture::tracepoints::{Pass, Tracepoint};
use holdup_events::recording::Fired;
use holdup_events::standing::Standing;
use holdup_events::{Duration, Timestamp};

use super::{Trigger, happened_to, parentheses};

/// Maximum hits of a place per second, of all processes. Above, the trigger is closed, because each hit costs
/// the thread time.
const PER_SECOND_MAX: u64 = 10_000;
const SECOND: Duration = Duration(1_000_000_000);

/// Returns the hits since the last call, and the number of lost ones ([`Tracepoint::drain`]). Dropping it
/// closes the tracepoint.
type Drain = Box<dyn FnMut() -> (Vec<Pass>, u64)>;

struct Passed {
    category: String,
    name: String,
    /// In the kernel's filter syntax. Empty for none.
    condition: String,
    /// The reported text.
    what: String,
    open: Option<Drain>,
    /// When it was asked last.
    asked: Timestamp,
    /// Hits of the recording that were read before triggers could fire.
    early: Vec<Pass>,
    /// Since when passes are counted, and how many there were.
    window: (Timestamp, u64),
    too_often: bool,
}

/// Parses `syscall:NAME` or `tracepoint:CATEGORY:NAME`, each with an optional `(CONDITION)`. `None` for other
/// text.
pub fn parse(rest: &str) -> Option<Result<Box<dyn Trigger>, String>> {
    if !["syscall:", "tracepoint:"].iter().any(|kind| rest.starts_with(kind)) {
        return None;
    }
    let (place, condition) = match parentheses::split(rest) {
        Ok(parts) => parts,
        Err(why) => return Some(Err(why)),
    };
    let named = match (place.strip_prefix("syscall:"), place.strip_prefix("tracepoint:")) {
        (Some(name), _) if !name.is_empty() => Some(("syscalls".to_owned(), format!("sys_enter_{name}"))),
        (_, Some(path)) => {
            path.split_once(':').map(|(category, name)| (category.to_owned(), name.to_owned()))
        }
        _ => None,
    };
    let Some((category, name)) = named else {
        return Some(Err("write hit:syscall:NAME or hit:tracepoint:CATEGORY:NAME".to_owned()));
    };
    Some(Ok(Box::new(Passed {
        category,
        name,
        condition: condition.to_owned(),
        what: format!("hit {rest}"),
        open: None,
        asked: Timestamp(0),
        early: Vec::new(),
        window: (Timestamp(0), 0),
        too_often: false,
    })))
}

/// Scales hits of a longer time down to one second, since the recorder may have been preempted for longer.
fn in_a_second(count: u64, time: Duration) -> u64 {
    match time > SECOND {
        true => (u128::from(count) * u128::from(SECOND.0) / u128::from(time.0)) as u64,
        false => count,
    }
}

impl Passed {
    /// Counts hits. Returns `true` if they exceed the limit.
    fn is_too_often(&mut self, now: Timestamp, count: u64) -> bool {
        if now.since(self.window.0) > SECOND {
            self.window = (now, 0);
        }
        self.window.1 += count;
        self.window.1 > PER_SECOND_MAX
    }

    fn fire_passes(&self, passes: &[Pass], standing: &Standing, fire: &mut dyn FnMut(Fired)) {
        let is_target = |pass: &&Pass| standing.threads().get(pass.tid).is_some_and(|thread| thread.target);
        for pass in passes.iter().filter(is_target) {
            fire(happened_to(pass.tid, standing, (pass.at, self.what.clone(), 0)));
        }
    }
}

impl Trigger for Passed {
    fn arm(&mut self) -> anyhow::Result<()> {
        let mut open = Tracepoint::open(&self.category, &self.name, &self.condition, &host::online_cpus())?;
        self.open = Some(Box::new(move || open.drain()));
        Ok(())
    }

    /// The tracepoint is open while the BPF programs are loaded, which takes seconds. Hits of that time do
    /// not belong to the recording.
    fn begin(&mut self, at: Timestamp) {
        let Some(drain) = &mut self.open else { return };
        let (mut passes, _) = drain();
        passes.retain(|pass| pass.at >= at);
        (self.early, self.asked, self.window) = (passes, at, (at, 0));
    }

    fn step(&mut self, now: Timestamp, standing: &Standing, fire: &mut dyn FnMut(Fired)) {
        let Some(drain) = &mut self.open else { return };
        let (new, lost) = drain();
        let passes = [std::mem::take(&mut self.early), new].concat();
        self.fire_passes(&passes, standing, fire);
        let time = now.since(std::mem::replace(&mut self.asked, now));
        if self.is_too_often(now, in_a_second(passes.len() as u64 + lost, time)) {
            self.too_often = true;
            self.open = None;
        }
    }

    fn silence(&self) -> Option<String> {
        self.too_often.then(|| {
            format!("it was passed more than {PER_SECOND_MAX} times in a second: no longer watched for")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_events::Event;
    use holdup_events::event::{Lifecycle, LifecycleChange};

    fn passed() -> Passed {
        Passed {
            category: String::new(),
            name: String::new(),
            condition: String::new(),
            what: "hit syscall:fsync".to_owned(),
            open: None,
            asked: Timestamp(0),
            early: Vec::new(),
            window: (Timestamp(0), 0),
            too_often: false,
        }
    }

    const MS: u64 = 1_000_000;

    /// Returns one of the given results per call.
    fn giving(answers: Vec<(Vec<Pass>, u64)>) -> Passed {
        let mut answers = answers.into_iter();
        Passed { open: Some(Box::new(move || answers.next().unwrap_or_default())), ..passed() }
    }

    /// The program has a thread 7.
    fn program() -> Standing {
        let mut standing = Standing::default();
        standing.fold(&Event::Lifecycle(Lifecycle {
            at: Timestamp(1),
            change: LifecycleChange::Rename,
            tid: 7,
            tgid: 7,
            name: "x".to_owned(),
            target: true,
        }));
        standing
    }

    fn passes(count: u64, at_ms: u64) -> Vec<Pass> {
        (0..count).map(|number| Pass { at: Timestamp(at_ms * MS + number), tid: 7 }).collect()
    }

    /// Returns the times (ms) of firings, for steps at these times (ms).
    fn fired(trigger: &mut Passed, looks_ms: &[u64]) -> Vec<u64> {
        let mut all = Vec::new();
        for look in looks_ms {
            trigger.step(Timestamp(look * MS), &program(), &mut |one| all.push(one.at_ns / MS));
        }
        all
    }

    #[test]
    fn what_passed_before_the_recording_began_does_not_fire_or_count() {
        let before = [passes(PER_SECOND_MAX, 2_000), passes(1, 5_001)].concat();
        let mut trigger = giving(vec![(before, 3 * PER_SECOND_MAX), (passes(1, 5_002), 0)]);
        trigger.begin(Timestamp(5_000 * MS));
        assert_eq!(fired(&mut trigger, &[5_100, 5_200]), [5_001, 5_002]);
        assert!(trigger.silence().is_none());
    }

    #[test]
    fn what_came_in_several_seconds_is_no_flood() {
        let many = PER_SECOND_MAX / 2 * 3;
        let mut trigger = giving(vec![(Vec::new(), 0), (Vec::new(), many), (Vec::new(), many)]);
        trigger.begin(Timestamp(5_000 * MS));
        fired(&mut trigger, &[8_000]);
        assert!(trigger.silence().is_none(), "half as many in each second");
        fired(&mut trigger, &[8_900]);
        assert!(trigger.silence().is_some(), "all of them in one");
        assert!(trigger.open.is_none());
    }

    #[test]
    fn syntax_errors_show_the_correct_syntax() {
        let error = |text| parse(text).and_then(Result::err).unwrap_or_default();
        assert!(error("syscall:").contains("hit:syscall:NAME"));
        assert!(error("tracepoint:block").contains("CATEGORY:NAME"));
        for text in ["syscall:write(count > 1", "syscall:write()", "syscall:write(count)1"] {
            assert!(error(text).contains("parentheses"), "{text}");
        }
        assert!(parse("function:main").is_none());
        assert!(matches!(parse("syscall:write(count > 4096)"), Some(Ok(_))));
    }

    #[test]
    fn only_threads_of_the_program_fire() {
        let mut standing = Standing::default();
        let born = |tid, target| Lifecycle {
            at: Timestamp(1),
            change: LifecycleChange::Rename,
            tid,
            tgid: tid,
            name: "x".to_owned(),
            target,
        };
        [born(7, true), born(8, false)].into_iter().for_each(|event| standing.fold(&Event::Lifecycle(event)));
        let mut fired = Vec::new();
        let pass = |tid| Pass { at: Timestamp(5), tid };
        passed()
            .fire_passes(&[pass(7), pass(8), pass(9)], &standing, &mut |one| fired.push((one.tid, one.what)));
        assert_eq!(fired, [(7, "hit syscall:fsync".to_owned())]);
    }

    #[test]
    fn what_is_passed_too_often_in_one_second_is_let_be() {
        let mut passed = passed();
        let second = |number: u64| Timestamp(number * 2_000_000_000);
        assert!((1..5).all(|number| !passed.is_too_often(second(number), PER_SECOND_MAX)));
        assert!(passed.is_too_often(second(4), 1));
    }
}
