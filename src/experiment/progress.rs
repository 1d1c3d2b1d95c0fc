//! What a run is judged by: its length, a number in its output, or how often it calls a syscall or a function.

use anyhow::{Context, Result, bail};
use holdup_findings::experiment::{Goal, RunFacts, Table};
use regex_lite::Regex;

use super::counted::Counted;
use crate::cli::experiment::{ProgressKind, RecordChoice, RunsArgs};

/// The measure of a run.
#[derive(Clone, Debug)]
pub enum Progress {
    /// Run time.
    Wall,
    /// The last match in its output.
    Output(Regex),
    /// Calls of a syscall, counted in windows of the recording.
    Syscall(String),
    /// Calls that the kernel counts, as [`Counted`] reads it.
    Calls(String),
}

/// The data of a run from which it is measured.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The run's output.
    pub output: &'a str,
    /// Facts from the run's recording.
    pub facts: Option<&'a RunFacts>,
    /// Calls that were counted.
    pub counted: Option<u64>,
}

impl Progress {
    /// Returns the measure and its goal for the given flags.
    pub fn new(args: &RunsArgs) -> Result<(Progress, Goal)> {
        let Some(text) = &args.progress else { return Ok((Progress::Wall, Goal::Wall)) };
        let goal = match args.progress_is {
            ProgressKind::Work => Goal::Work,
            ProgressKind::Rate => Goal::Rate,
            ProgressKind::Cost => Goal::Cost,
        };
        if let Some(name) = text.strip_prefix("syscall:") {
            if args.record == RecordChoice::None {
                bail!("--progress {text} needs a recording of each run: leave --record none out");
            }
            return Ok((Progress::Syscall(name.to_owned()), goal));
        }
        if let Some(counted) = Counted::parse(text) {
            counted.context("--progress")?;
            return Ok((Progress::Calls(text.clone()), goal));
        }
        let regex = Regex::new(text).map_err(|error| anyhow::anyhow!("--progress: {error}"))?;
        if regex.captures_len() != 2 {
            bail!("--progress wants one group that takes the number, as in 'solved ([0-9.]+)'");
        }
        Ok((Progress::Output(regex), goal))
    }

    /// The program's output is needed.
    pub fn reads_output(&self) -> bool {
        matches!(self, Progress::Output(_))
    }

    /// The number of a run, or why there is none.
    pub fn measure(&self, seen: Seen<'_>) -> std::result::Result<Option<f64>, String> {
        let Seen { output, facts, counted } = seen;
        match self {
            Progress::Wall => Ok(None),
            Progress::Output(regex) => last_number(regex, output).map(Some),
            Progress::Calls(what) => match counted {
                Some(count) if count > 0 => Ok(Some(count as f64)),
                Some(_) => Err(format!("{what} was never called")),
                None => Err(format!("calls of {what} were not counted")),
            },
            Progress::Syscall(name) => {
                let rows = facts.map_or(&[][..], |facts| &facts.rows);
                let row = rows.iter().find(|row| row.table == Table::Syscall && row.name == *name);
                match row.and_then(|row| row.count) {
                    Some(count) if count > 0 => Ok(Some(count as f64)),
                    _ => Err(format!(
                        "no call of {name} was seen in the windows in which syscalls are counted"
                    )),
                }
            }
        }
    }
}

fn last_number(regex: &Regex, output: &str) -> std::result::Result<f64, String> {
    let found = regex.captures_iter(output).last().and_then(|found| found.get(1));
    let Some(found) = found else { return Err(format!("its output has nothing that matches '{regex}'")) };
    // 1,234,567 and 1_234_567 are numbers to people.
    let digits = found.as_str().replace([',', '_', ' '], "");
    match digits.parse::<f64>() {
        Ok(number) if number > 0.0 && number.is_finite() => Ok(number),
        Ok(number) => Err(format!("it printed {number}: no progress")),
        Err(_) => Err(format!("'{}' in its output is no number", found.as_str())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_counts() {
        let regex = Regex::new("solved ([0-9.,]+)").unwrap();
        assert_eq!(last_number(&regex, "solved 1\nsolved 1,234.5 /s\n"), Ok(1234.5));
        for (output, why) in [("", "nothing"), ("solved 0", "no progress"), ("solved ...", "no number")] {
            assert!(last_number(&regex, output).unwrap_err().contains(why), "{output}");
        }
    }
}
