//! `holdup diff`: two commands run in turn, two recordings, or two sets of runs.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use holdup_events::Trace;
use holdup_findings::Analysis;
use holdup_findings::experiment::compare::{Change, Question, Verdict};
use holdup_findings::experiment::{
    Experiment, Run, RunFacts, Setting, collections, difference, facts, within,
};
use holdup_report::experiment::{Answer, Diff, RowChoice};

use super::experiment::{self, Shown};
use super::locate;
use crate::cli::experiment::DiffArgs;
use crate::experiment::set::{Purpose, Set};
use crate::experiment::{rounds, words};

/// One run per command does not show the variation between runs.
const NEEDS_RUNS: &str =
    "--fail-if needs several runs: two commands (--a CMD --b CMD -n 10), or sets of runs";

/// Compares and prints. Returns a failure status if the condition of `--fail-if` holds.
pub fn execute(args: &DiffArgs) -> Result<ExitCode> {
    let condition = args.fail_if.as_deref().map(Condition::parse).transpose()?;
    if condition.is_some() && args.runs.repeats == Some(1) {
        bail!(NEEDS_RUNS);
    }
    args.results.check()?;
    let shown = match (&args.a, &args.b, &args.recordings[..]) {
        (Some(a), Some(b), _) => commands([a, b], args)?,
        (_, _, [set]) if Set::is_at(set) => of_set(Set::open(set)?, args),
        (_, _, [a, b]) if Set::is_at(a) && Set::is_at(b) => sets(&Set::open(a)?, &Set::open(b)?, args)?,
        (_, _, [_, _]) if condition.is_some() => bail!(NEEDS_RUNS),
        (_, _, [a, b]) => recordings(a, b, args)?,
        _ if args.runs.resume.is_some() => {
            let set = experiment::run(&args.runs, Purpose::Diff, None, rounds::against_baseline)?;
            of_set(set, args)
        }
        _ => bail!("name two recordings, or two commands: --a 'CMD' --b 'CMD'"),
    };
    let status = match &shown.answer {
        Answer::Diff(diff) => status(condition, diff),
        _ => ExitCode::SUCCESS,
    };
    match shown.print(&args.results) {
        // A reader that closes the pipe early does not change the exit status.
        Err(error) if !super::is_broken_pipe(&error) => Err(error),
        _ => Ok(status),
    }
}

/// Where nothing can be compared no condition is met, nor is it refuted.
fn status(condition: Option<Condition>, diff: &Diff) -> ExitCode {
    let found = &diff.difference.goal;
    let is_unknown = match condition {
        Some(_) => found.runs < 2,
        None => found.runs == 0,
    };
    match condition {
        _ if is_unknown => ExitCode::from(crate::EXIT_FAILURE),
        Some(condition) if condition.holds(found) => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    }
}

fn commands(texts: [&String; 2], args: &DiffArgs) -> Result<Shown> {
    let setting = |(name, text): (&str, &String)| Setting {
        name: name.to_owned(),
        knobs: Vec::new(),
        command: words::split(text),
    };
    let settings: Vec<Setting> = ["A", "B"].into_iter().zip(texts).map(setting).collect();
    let set = experiment::run(&args.runs, Purpose::Diff, Some(settings.into()), rounds::against_baseline)?;
    Ok(of_set(set, args))
}

/// Compares the first two settings of a set.
pub fn of_set(set: Set, args: &DiffArgs) -> Shown {
    answer(set, &rounds::question(&args.runs, 0), chosen(args))
}

fn chosen(args: &DiffArgs) -> RowChoice {
    RowChoice { max: args.rows, undecided: args.all }
}

/// The same, where there are no flags.
pub fn answer(set: Set, question: &Question, rows: RowChoice) -> Shown {
    let experiment = set.file.experiment;
    let question = Question { seed: experiment.seed, ..*question };
    let name =
        |number: usize| experiment.settings.get(number).map_or(String::new(), |one| one.command.join(" "));
    let names = (name(0), name(1));
    let difference = difference::between(&experiment, (0, 1), &question);
    // The first round that has both recordings.
    let recorded = |run: &Run| recording_of(&set.path, run);
    let stacks = experiment.pairs((0, 1), recorded).into_iter().next();
    let collections = collections::explain(&difference, experiment.goal, question.matters);
    let diff = Diff { names, difference, collections, within: Vec::new(), rows, recordings: None, stacks };
    Shown { experiment, set: Some(set.path), answer: Answer::Diff(diff) }
}

/// The recording of a run of a set, if there is one.
fn recording_of(set: &Path, run: &Run) -> Option<String> {
    (!run.recording.is_empty()).then(|| set.join(&run.recording).display().to_string())
}

fn sets(a: &Set, b: &Set, args: &DiffArgs) -> Result<Shown> {
    let (of_a, of_b) = (&a.file.experiment, &b.file.experiment);
    if of_a.goal != of_b.goal {
        bail!(
            "the runs of one set are judged by {}, those of the other by {}",
            of_a.goal.name(),
            of_b.goal.name()
        );
    }
    let question = rounds::question(&args.runs, of_a.seed);
    let difference = difference::across((of_a, 0), (of_b, 0), &question);
    let names = (a.path.display().to_string(), b.path.display().to_string());
    let mut experiment = of_a.clone();
    experiment.settings.truncate(1);
    experiment.runs.retain(|run| run.setting == 0);
    experiment.settings.extend(of_b.settings.first().cloned());
    let theirs = of_b.runs.iter().filter(|run| run.setting == 0).cloned();
    experiment.runs.extend(theirs.map(|run| Run { setting: 1, ..run }));
    let first = |set: &Set| {
        let mut runs = set.file.experiment.runs_of(0);
        runs.find_map(|run| recording_of(&set.path, run))
    };
    let stacks = first(a).zip(first(b));
    let collections = collections::explain(&difference, experiment.goal, question.matters);
    let diff = Diff {
        names,
        difference,
        collections,
        within: Vec::new(),
        rows: chosen(args),
        recordings: None,
        stacks,
    };
    Ok(Shown { experiment, set: None, answer: Answer::Diff(diff) })
}

fn recordings(a: &Path, b: &Path, args: &DiffArgs) -> Result<Shown> {
    let (path_a, trace_a) = locate::open(Some(a))?;
    let (path_b, trace_b) = locate::open(Some(b))?;
    let (of_a, of_b) = (holdup_findings::analyse(&trace_a), holdup_findings::analyse(&trace_b));
    let question = rounds::question(&args.runs, 0);
    let experiment = Experiment {
        settings: vec![setting("A", &trace_a), setting("B", &trace_b)],
        runs: vec![run(0, (&trace_a, &of_a)), run(1, (&trace_b, &of_b))],
        ..Experiment::default()
    };
    let mut difference = difference::between(&experiment, (0, 1), &question);
    within::add_intervals(&mut difference, (&trace_a, &of_a), (&trace_b, &of_b), &question);
    let within = within::compare(&trace_a, &trace_b, &question);
    let name =
        |path: &Path, trace: &Trace| format!("{} ({})", path.display(), trace.manifest.command.join(" "));
    let names = (name(&path_a, &trace_a), name(&path_b, &trace_b));
    let recordings = Some((path_a.display().to_string(), path_b.display().to_string()));
    let collections = collections::explain(&difference, experiment.goal, question.matters);
    let diff = Diff { names, difference, collections, within, rows: chosen(args), recordings, stacks: None };
    Ok(Shown { experiment, set: None, answer: Answer::Diff(diff) })
}

fn setting(name: &str, trace: &Trace) -> Setting {
    Setting { name: name.to_owned(), knobs: Vec::new(), command: trace.manifest.command.clone() }
}

fn run(setting: usize, (trace, analysis): (&Trace, &Analysis)) -> Run {
    let wall_ns = if trace.manifest.mode == "run" { facts::wall_ns(trace) } else { trace.wall().0 };
    Run { setting, wall_ns, facts: Some(RunFacts::new(trace, analysis)), ..Run::default() }
}

/// Condition for a failure exit status.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Condition {
    Slower(f64),
    Faster(f64),
    Different,
}

impl Condition {
    fn parse(text: &str) -> Result<Condition> {
        let text: String = text.chars().filter(|letter| !letter.is_whitespace()).collect();
        let share = |rest: &str| match rest {
            "" => Some(0.0),
            _ => crate::cli::parse_share(rest.trim_start_matches(['>', '='])).ok(),
        };
        let condition = match text.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(text.len()) {
            end if &text[..end] == "slower" => share(&text[end..]).map(Condition::Slower),
            end if &text[..end] == "faster" => share(&text[end..]).map(Condition::Faster),
            _ => (text == "different").then_some(Condition::Different),
        };
        match condition {
            Some(condition) => Ok(condition),
            None => bail!("--fail-if wants slower>3%, faster>3% or different, not '{text}'"),
        }
    }

    /// The difference is real, and as great as that.
    fn holds(self, found: &Change) -> bool {
        let size = found.relative.abs();
        match self {
            Condition::Slower(limit) => found.verdict == Verdict::Slower && size > limit,
            Condition::Faster(limit) => found.verdict == Verdict::Faster && size > limit,
            Condition::Different => matches!(found.verdict, Verdict::Slower | Verdict::Faster),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read() {
        assert_eq!(Condition::parse("slower > 3%").unwrap(), Condition::Slower(0.03));
        assert_eq!(Condition::parse("slower").unwrap(), Condition::Slower(0.0));
        assert_eq!(Condition::parse("faster>=10").unwrap(), Condition::Faster(0.1));
        assert!(Condition::parse("slower>x").is_err() && Condition::parse("slow").is_err());
    }
}
