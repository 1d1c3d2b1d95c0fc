//! Which of the CPU's counters there are: each is opened by itself, for this process alone, counts for a moment, and is closed.

use std::io;

use super::{Finding, State, good, paranoid_remedy};
use crate::bpf::{Counter, USUAL};

/// The result for one counter: its count, or why it could not be opened.
type Answer = (&'static str, io::Result<u64>);

/// Tries all of them.
pub(super) fn examine() -> Finding {
    let answers = Counter::of_hardware().map(|counter| (counter.name, counter.tried()));
    judge(&answers.collect::<Vec<Answer>>())
}

fn judge(answers: &[Answer]) -> Finding {
    let (mut there, mut silent, mut absent, mut refused) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (name, answer) in answers {
        match answer {
            Ok(0) if USUAL.contains(name) => silent.push((*name).to_owned()),
            Ok(_) => there.push((*name).to_owned()),
            Err(error) if is_absent(error) => absent.push((*name).to_owned()),
            Err(error) => refused.push(format!("{name} ({error})")),
        }
    }
    if there.is_empty() && silent.is_empty() {
        return none_opened(answers);
    }
    let all = USUAL.iter().all(|always| there.iter().any(|name| name == always));
    let parts = [
        ("the CPU counts", there),
        ("opened, but count nothing:", silent),
        ("refused:", refused),
        ("not there:", absent),
    ];
    let parts = parts.into_iter().filter(|(_, names)| !names.is_empty());
    let what =
        parts.map(|(what, names)| format!("{what} {}", names.join(", "))).collect::<Vec<_>>().join("; ");
    if all { good(what) } else { (State::Degraded, what, String::new()) }
}

/// The machine does not have it, as opposed to: this process may not.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EOPNOTSUPP))
}

fn none_opened(answers: &[Answer]) -> Finding {
    let Some(error) =
        answers.iter().find_map(|(_, answer)| answer.as_ref().err().filter(|error| !is_absent(error)))
    else {
        let what =
            "this machine shows no hardware counters (usual in virtual machines): samples come from a timer";
        return (State::Degraded, what.to_owned(), String::new());
    };
    let remedy = match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => paranoid_remedy(1),
        _ => String::new(),
    };
    (State::Degraded, format!("hardware counters: {error}"), remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errno(number: i32) -> io::Result<u64> {
        Err(io::Error::from_raw_os_error(number))
    }

    #[test]
    fn available_and_missing_counters_are_named() {
        let (state, what, remedy) = judge(&[
            ("cycles", Ok(9)),
            ("instructions", Ok(7)),
            ("cache-misses", Ok(0)),
            ("ref-cycles", errno(libc::ENOENT)),
        ]);
        assert_eq!(state, State::Ok);
        assert_eq!(what, "the CPU counts cycles, instructions, cache-misses; not there: ref-cycles");
        assert_eq!(remedy, "");
    }

    #[test]
    fn a_machine_without_counters_is_reported() {
        let (state, what, _) =
            judge(&[("cycles", errno(libc::ENOENT)), ("instructions", errno(libc::EOPNOTSUPP))]);
        assert_eq!(state, State::Degraded);
        assert!(what.starts_with("this machine shows no hardware counters"), "{what}");
    }

    #[test]
    fn counters_that_stand_still_are_not_taken_for_working_ones() {
        let (state, what, _) = judge(&[("cycles", Ok(0)), ("instructions", Ok(7)), ("branches", Ok(3))]);
        assert_eq!(state, State::Degraded);
        assert_eq!(what, "the CPU counts instructions, branches; opened, but count nothing: cycles");
    }

    #[test]
    fn missing_cycles_are_degraded_although_other_counters_work() {
        assert_eq!(judge(&[("cycles", errno(libc::ENOENT)), ("instructions", Ok(7))]).0, State::Degraded);
    }

    #[test]
    fn only_a_lack_of_rights_has_a_remedy() {
        let (state, _, remedy) = judge(&[("cycles", errno(libc::EACCES))]);
        assert_eq!((state, remedy), (State::Degraded, paranoid_remedy(1)));
        let (state, what, remedy) = judge(&[("cycles", errno(libc::EMFILE))]);
        assert_eq!((state, remedy.as_str()), (State::Degraded, ""));
        assert!(what.starts_with("hardware counters: "), "{what}");
    }

    #[test]
    fn one_that_is_refused_hides_no_other() {
        let (state, what, _) =
            judge(&[("cycles", Ok(5)), ("instructions", Ok(5)), ("bus-cycles", errno(libc::EINVAL))]);
        assert_eq!(state, State::Ok);
        assert!(what.starts_with("the CPU counts cycles, instructions; refused: bus-cycles ("), "{what}");
    }

    #[test]
    fn a_counter_that_every_machine_has_counts() {
        match Counter::named("cpu-clock").unwrap().tried() {
            Ok(count) => assert!(count > 0, "nanoseconds passed"),
            Err(error) => eprintln!("skipped: perf_event_open: {error}"),
        }
    }
}
