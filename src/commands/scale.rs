//! `holdup scale`: a program with 1..N workers.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use holdup_findings::experiment::compare::Question;
use holdup_findings::experiment::scaling::{self, WORKERS};
use holdup_findings::experiment::{Experiment, Setting};
use holdup_report::experiment::{Answer, Picture};

use super::experiment::{self, Shown};
use super::outputs;
use crate::cli::experiment::ScaleArgs;
use crate::experiment::rounds;
use crate::experiment::set::{Purpose, Set};

/// Up to this number of CPUs, each number of workers is run. Above, the steps grow.
const EACH_MAX: u32 = 8;

/// Runs, prints, and draws if asked.
pub fn execute(args: &ScaleArgs) -> Result<ExitCode> {
    let settings = match args.runs.resume {
        Some(_) => None,
        None => Some(settings(args)?.into()),
    };
    outputs::check([&args.svg, &args.png], args.results.force)?;
    args.results.check()?;
    let set = experiment::run(&args.runs, Purpose::Scale, settings, wanted)?;
    let question = rounds::question(&args.runs, set.file.experiment.seed);
    let shown = answer(set, args.at, &question);
    let mut drawn = Ok(());
    if let Answer::Scale(scaling) = &shown.answer {
        let title =
            shown.experiment.settings.first().map_or(String::new(), |setting| setting.command.join(" "));
        drawn = draw(args, &Picture::speedup(scaling, &title));
    }
    let printed = shown.print(&args.results);
    drawn.and(printed)
}

fn draw(args: &ScaleArgs, picture: &Picture) -> Result<()> {
    let force = args.results.force;
    args.svg.as_ref().map_or(Ok(()), |file| outputs::write(file, picture.svg().as_bytes(), force))?;
    args.png.as_ref().map_or(Ok(()), |file| outputs::write(file, &picture.png(), force))
}

/// Of a set.
pub fn answer(set: Set, at: u32, question: &Question) -> Shown {
    let scaling = scaling::judge(&set.file.experiment, (set.file.cpus, at), question);
    Shown { experiment: set.file.experiment, set: Some(set.path), answer: Answer::Scale(scaling) }
}

/// Ten rounds suffice for the usual large speedups. More rounds only narrow the confidence intervals.
fn wanted(experiment: &Experiment, question: &Question) -> u32 {
    let half = rounds::against_baseline(experiment, question);
    half.min(20)
}

fn settings(args: &ScaleArgs) -> Result<Vec<Setting>> {
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32);
    let mut numbers = if args.workers.is_empty() { default_numbers(cpus) } else { args.workers.clone() };
    numbers.sort_unstable();
    numbers.dedup();
    if args.command.is_empty() {
        bail!("name a program behind --, with {{}} where the number of workers goes");
    }
    let in_command = args.command.iter().any(|word| word.contains("{}"));
    if !in_command && args.env.is_none() && !args.by_cpus {
        bail!("the command has no {{}} for the number of workers: put it in, or use --env NAME or --by-cpus");
    }
    let command: Vec<String> =
        args.command.iter().map(|word| word.replace("{}", &format!("{{{WORKERS}}}"))).collect();
    if args.by_cpus && numbers.last().is_some_and(|most| *most > cpus) {
        bail!("--by-cpus: this machine has only {cpus} CPUs that may be used");
    }
    let allowed = allowed_cpus(args.by_cpus)?;
    let setting = |number: &u32| {
        let mut knobs = Vec::new();
        knobs.push((WORKERS.to_owned(), number.to_string()));
        if let Some(name) = &args.env {
            knobs.push((name.clone(), number.to_string()));
        }
        if args.by_cpus {
            let names: Vec<String> = allowed.iter().take(*number as usize).map(usize::to_string).collect();
            knobs.push(("cpus".to_owned(), names.join(",")));
        }
        Setting { name: format!("{number} workers"), knobs, command: command.clone() }
    };
    Ok(numbers.iter().map(setting).collect())
}

fn default_numbers(cpus: u32) -> Vec<u32> {
    let mut numbers: Vec<u32> = (1..=cpus.min(EACH_MAX)).collect();
    let mut number = EACH_MAX;
    while number < cpus {
        number = (number + number / 2).min(cpus);
        numbers.push(number);
    }
    numbers
}

/// The CPUs that this process may use, by number.
fn allowed_cpus(wanted: bool) -> Result<Vec<usize>> {
    if !wanted {
        return Ok(Vec::new());
    }
    let status = std::fs::read_to_string("/proc/self/status").context("reading /proc/self/status")?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap_or("0").trim();
    let mut cpus = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) {
            cpus.extend(first..=last);
        }
    }
    Ok(cpus)
}

#[cfg(test)]
mod tests {
    use super::default_numbers;

    #[test]
    fn many_cpus_are_not_each_tried() {
        assert_eq!(default_numbers(2), [1, 2]);
        assert_eq!(default_numbers(24), [1, 2, 3, 4, 5, 6, 7, 8, 12, 18, 24]);
    }
}
