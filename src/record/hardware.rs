//! `--counters`: the hardware counters read with samples, and the reason if there are none.

use holdup_capture::bpf::{COUNTERS_MAX, Counter, USUAL};
use holdup_events::recording::SourceState;

use crate::cli::RecordArgs;

/// The source's name.
pub const SOURCE: &str = "hardware-counters";
/// The default counters, if the machine has them.
const AUTO: &str = "auto";
const NONE: &str = "none";

/// The counters, and why requested ones are missing.
#[derive(Debug, Default)]
pub struct Counting {
    pub counters: Vec<Counter>,
    missing: Vec<String>,
}

impl Counting {
    /// Tries the requested counters. Without samples there are none, because they are read with samples.
    pub fn choose(options: &RecordArgs) -> Counting {
        if options.freq == 0 {
            return Counting::default();
        }
        Counting::asked(&options.counters)
    }

    fn asked(names: &[String]) -> Counting {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        match names[..] {
            [NONE] => Counting::default(),
            [AUTO] => Counting::open(&USUAL, true),
            _ => Counting::open(&names, false),
        }
    }

    /// `together`: one is of no use without the others.
    fn open(names: &[&str], together: bool) -> Counting {
        let mut counting = Counting::default();
        for counter in names.iter().filter_map(|name| Counter::named(name)) {
            match counter.check() {
                Ok(()) => counting.counters.push(counter),
                Err(why) => counting.missing.push(why),
            }
        }
        if together && !counting.missing.is_empty() {
            counting.counters.clear();
            counting.missing.truncate(1);
        }
        counting
    }

    /// In the order of their values.
    pub fn names(&self) -> Vec<&'static str> {
        self.counters.iter().map(|counter| counter.name).collect()
    }

    /// Returns the state of the source for the recording. `refused`: why the counters could not be started,
    /// or empty.
    pub fn source(&self, refused: &str) -> Option<SourceState> {
        let missing = self.missing.iter().map(String::as_str).chain([refused]);
        (!self.counters.is_empty() || !self.missing.is_empty()).then(|| SourceState {
            name: SOURCE.to_owned(),
            active: !self.counters.is_empty() && refused.is_empty(),
            missing: missing.filter(|why| !why.is_empty()).collect::<Vec<_>>().join("; "),
            ..SourceState::default()
        })
    }
}

/// Whether a list of names can be meant.
pub fn parse(name: &str) -> Result<String, String> {
    if [AUTO, NONE].contains(&name) || Counter::named(name).is_some() {
        return Ok(name.to_owned());
    }
    let names: Vec<&str> = Counter::names().collect();
    Err(format!("not known: there are {}, {AUTO} and {NONE}", names.join(", ")))
}

/// The same of the list as a whole.
pub fn check(asked: &[String]) -> Result<(), String> {
    if asked.len() > COUNTERS_MAX {
        return Err(format!(
            "--counters takes {COUNTERS_MAX} at the most: the hardware has few, and each is read at every sample"
        ));
    }
    if asked.len() > 1 && asked.iter().any(|name| [AUTO, NONE].contains(&name.as_str())) {
        return Err(format!("--counters: {AUTO} and {NONE} stand alone"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn software_counters_are_available_and_none_adds_no_source() {
        let counting = Counting::asked(&["none".to_owned()]);
        assert!(counting.counters.is_empty() && counting.source("").is_none());
        let counting = Counting::asked(&["page-faults".to_owned()]);
        let source = counting.source("").unwrap();
        assert!(source.active != counting.counters.is_empty() && source.active == source.missing.is_empty());
        // A counter that passed the test but was refused at the start.
        let late = counting.source("no descriptors left").unwrap();
        assert!(!late.active && late.missing.ends_with("no descriptors left"), "{late:?}");
        // With all that is usual or with none of it.
        let counting = Counting::asked(&["auto".to_owned()]);
        assert!(
            counting.counters.len() == USUAL.len()
                || counting.counters.is_empty() && !counting.missing.is_empty()
        );
    }

    #[test]
    fn unknown_counters_and_invalid_lists_are_refused() {
        assert!(parse("no-such-counter").unwrap_err().contains("cycles, instructions"));
        let of = |names: &[&str]| check(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert!(of(&["cycles", "instructions"]).is_ok() && of(&["auto", "cycles"]).is_err());
        assert!(of(&["cycles", "instructions", "branches", "branch-misses", "page-faults"]).is_err());
    }
}
