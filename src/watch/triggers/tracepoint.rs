//! A syscall is called, or another tracepoint of the kernel passed, by a thread of the program.

use holdup_capture::host;
use holdup_capture::tracepoints::{Pass, Tracepoint};
use holdup_events::recording::Fired;
use holdup_events::standing::Standing;
use holdup_events::{Duration, Timestamp};

use super::{Trigger, happened_to, parentheses};

/// Of a place that is passed oftener in a second, by whomever, nothing more is told: each pass costs who makes it.
const PER_SECOND_MAX: u64 = 10_000;

struct Passed {
    category: String,
    name: String,
    /// In the kernel's words; empty: none.
    condition: String,
    /// What is told.
    what: String,
    open: Option<Tracepoint>,
    /// Since when passes are counted, and how many there were.
    window: (Timestamp, u64),
    too_often: bool,
}

/// `syscall:NAME`, `tracepoint:CATEGORY:NAME`, either with `(CONDITION)` behind it; `None`: it is neither.
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
        window: (Timestamp(0), 0),
        too_often: false,
    })))
}

impl Passed {
    /// Counts passes; `true` if there are too many of them.
    fn is_too_often(&mut self, now: Timestamp, count: u64) -> bool {
        if now.since(self.window.0) > Duration(1_000_000_000) {
            self.window = (now, 0);
        }
        self.window.1 += count;
        self.window.1 > PER_SECOND_MAX
    }

    fn tell(&self, passes: &[Pass], standing: &Standing, fire: &mut dyn FnMut(Fired)) {
        let is_target = |pass: &&Pass| standing.threads().get(pass.tid).is_some_and(|thread| thread.target);
        for pass in passes.iter().filter(is_target) {
            fire(happened_to(pass.tid, standing, (pass.at, self.what.clone(), 0)));
        }
    }
}

impl Trigger for Passed {
    fn arm(&mut self) -> anyhow::Result<()> {
        self.open =
            Some(Tracepoint::open(&self.category, &self.name, &self.condition, &host::online_cpus())?);
        Ok(())
    }

    fn step(&mut self, now: Timestamp, standing: &Standing, fire: &mut dyn FnMut(Fired)) {
        let Some(open) = &mut self.open else { return };
        let (passes, lost) = open.drain();
        self.tell(&passes, standing, fire);
        if self.is_too_often(now, passes.len() as u64 + lost) {
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
            window: (Timestamp(0), 0),
            too_often: false,
        }
    }

    #[test]
    fn what_is_written_wrong_says_how_it_is_written() {
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
        passed().tell(&[pass(7), pass(8), pass(9)], &standing, &mut |one| fired.push((one.tid, one.what)));
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
