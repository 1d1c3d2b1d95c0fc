//! The runner: rounds of runs, each setting once a round in an order made from the seed.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use holdup_capture::launch;
use holdup_findings::experiment::Experiment;
use holdup_findings::experiment::compare::Question;
use holdup_findings::experiment::random::Random;
use holdup_findings::experiment::sweep;

use super::descendants;
use super::knobs::Prepared;
use super::one_run::{self, How};
use super::progress::Progress;
use super::set::Set;
use crate::cli::experiment::RunsArgs;

/// Rounds that are made before their scatter decides how many more.
const PILOT: u32 = 10;
/// A setting that fails so often in a row is left out.
const FAILURES_MAX: usize = 3;

/// How many rounds an experiment asks for, by the scatter of those that were made.
pub type Wanted = fn(&Experiment, &Question) -> u32;

/// Makes runs until there are enough, the time is over, or the user stops it.
pub fn make(set: &mut Set, args: &RunsArgs, progress: &Progress, wanted: Wanted) -> Result<()> {
    let settings = &set.file.experiment.settings;
    let prepared: Vec<Prepared> = settings.iter().map(Prepared::new).collect::<Result<_>>()?;
    launch::watch_signals()?;
    descendants::adopt_orphans()?;
    let started = Instant::now();
    let mut rounds = Rounds { set, args, progress, prepared, started, made: 0, has_round: false };
    rounds.warm_up()?;
    let mut goal = args.repeats.unwrap_or(PILOT);
    let mut round = rounds.next_round();
    let question = question(args, rounds.set.file.experiment.seed);
    loop {
        if round >= goal && args.repeats.is_none() {
            // Asked again when they are made: the pilot may have fallen into a quiet time.
            goal = wanted(&rounds.set.file.experiment, &question).max(PILOT);
        }
        if round >= goal || !rounds.round(round, goal)? {
            break;
        }
        round += 1;
    }
    rounds.print_line("");
    let good = rounds.set.file.experiment.runs.iter().filter(|run| run.is_good()).count();
    if good == 0 {
        match rounds.set.file.experiment.failures().last() {
            // Some programs report a result by their exit status.
            Some(run) if run.failure.starts_with("exit status") => {
                bail!(
                    "no run succeeded: {} (--ignore-failure counts runs whatever their status)",
                    run.failure
                )
            }
            Some(run) => bail!("no run succeeded: {}", run.failure),
            None => bail!("stopped before the first run ended"),
        }
    }
    Ok(())
}

/// Returns the parameters of the comparison.
pub fn question(args: &RunsArgs, seed: u64) -> Question {
    Question { seed, matters: args.matters, ..Question::default() }
}

/// Rounds until the smallest change that matters would be found between the baseline and each other setting.
pub fn against_baseline(experiment: &Experiment, question: &Question) -> u32 {
    let wanted = |setting: usize| {
        let pairs = experiment.pairs((0, setting), |run| run.value(experiment.goal));
        let question = Question { more_is_better: experiment.goal.more_is_better(), ..*question };
        let change = holdup_findings::experiment::compare::paired(&pairs, &question);
        change.runs_to_make().unwrap_or(0)
    };
    (1..experiment.settings.len()).map(wanted).max().unwrap_or(0)
}

/// Returns the rounds needed if there are many settings, with the correction for comparing all of them.
pub fn every_setting(experiment: &Experiment, question: &Question) -> u32 {
    sweep::judge(experiment, question).runs_wanted().unwrap_or(0)
}

struct Rounds<'a> {
    set: &'a mut Set,
    args: &'a RunsArgs,
    progress: &'a Progress,
    prepared: Vec<Prepared>,
    started: Instant,
    /// Runs made by now, warm-up included.
    made: u32,
    /// A round was made, and not only of warming up.
    has_round: bool,
}

impl Rounds<'_> {
    /// The first round that is not whole.
    fn next_round(&self) -> u32 {
        let experiment = &self.set.file.experiment;
        let has = |round: u32, setting: usize| {
            experiment.runs.iter().any(|run| run.round == round && run.setting == setting)
        };
        (0..).find(|round| !(0..self.prepared.len()).all(|setting| has(*round, setting))).unwrap_or(0)
    }

    fn warm_up(&mut self) -> Result<()> {
        if !self.set.file.experiment.runs.is_empty() {
            return Ok(());
        }
        for _ in 0..self.args.warm_up {
            for setting in 0..self.prepared.len() {
                self.print_line(&format!("warming up: {}", self.set.file.experiment.settings[setting].name));
                if self.one(setting, "warm-up.holdup")?.is_none() {
                    return Ok(());
                }
                let _ = std::fs::remove_dir_all(self.set.path.join("warm-up.holdup"));
            }
        }
        Ok(())
    }

    /// Whether there is to be another.
    fn round(&mut self, round: u32, goal: u32) -> Result<bool> {
        let mut order: Vec<usize> = (0..self.prepared.len()).collect();
        Random::part(self.set.file.experiment.seed, u64::from(round)).shuffle(&mut order);
        let runs_before = self.set.file.experiment.runs.len();
        for setting in order {
            let runs = &self.set.file.experiment.runs;
            if runs.iter().any(|run| run.round == round && run.setting == setting)
                || self.is_left_out(setting)
            {
                continue;
            }
            if launch::asked_to_stop() || self.is_late() {
                return Ok(false);
            }
            self.print_status(round, goal, setting);
            let name = self.free_name();
            let Some(mut run) = self.one(setting, &name)? else { return Ok(false) };
            (run.setting, run.round) = (setting, round);
            self.set.file.experiment.runs.push(run);
            self.set.save()?;
        }
        // One whose runs a set that is resumed has already is not made.
        self.has_round |= self.set.file.experiment.runs.len() > runs_before;
        let all_left_out = (0..self.prepared.len()).all(|setting| self.is_left_out(setting));
        Ok(!all_left_out)
    }

    /// A folder for the next run's recording: one that was cut off with its maker may still be in the way, or be written.
    fn free_name(&self) -> String {
        let from = self.set.file.experiment.runs.len() + 1;
        let name = |number: usize| format!("run-{number:03}.holdup");
        (from..).map(name).find(|name| !self.set.path.join(name).exists()).unwrap_or_else(|| name(from))
    }

    /// Never before a whole round: without one there is no answer, however long warming up took.
    fn is_late(&self) -> bool {
        self.started.elapsed() > self.args.time && self.has_round
    }

    /// Whether the setting is left out because its runs failed repeatedly.
    fn is_left_out(&self, setting: usize) -> bool {
        let its = self.set.file.experiment.runs.iter().rev().filter(|run| run.setting == setting);
        its.take_while(|run| !run.is_good()).count() >= FAILURES_MAX
    }

    fn one(&mut self, setting: usize, name: &str) -> Result<Option<holdup_findings::experiment::Run>> {
        let how = How {
            folder: &self.set.path,
            record: self.args.record,
            allocs: self.args.allocs,
            progress: self.progress,
            timeout: self.args.timeout,
            ignore_failure: self.args.ignore_failure,
        };
        self.made += 1;
        one_run::make(&self.prepared[setting], name, &how)
    }

    fn print_status(&self, round: u32, goal: u32, setting: usize) {
        let left = (goal - round) * self.prepared.len() as u32;
        let left = match self.made {
            0 => String::new(),
            made => format!(", {} left", time(self.started.elapsed() / made * left)),
        };
        let name = &self.set.file.experiment.settings[setting].name;
        self.print_line(&format!(
            "round {} of {goal}{left}: {}",
            round + 1,
            holdup_report::text::clean(name)
        ));
    }

    /// Prints a status line, which the next one replaces. Prints nothing without a terminal.
    fn print_line(&self, text: &str) {
        let mut stderr = std::io::stderr();
        if stderr.is_terminal() {
            let text: String = text.chars().take(78).collect();
            let _ = write!(stderr, "\r\x1b[K{text}");
            let _ = stderr.flush();
        }
    }
}

fn time(left: Duration) -> String {
    match left.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds => format!("{} min", seconds.div_ceil(60)),
    }
}
