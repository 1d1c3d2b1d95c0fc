//! `holdup sweep` and `holdup try`: values of knobs, memory layouts, sizes, and what findings advise.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use holdup_findings::experiment::compare::Question;
use holdup_findings::experiment::trials::{self, Trial};
use holdup_findings::experiment::{Experiment, Setting, growth, layout, sizes, sweep};
use holdup_report::experiment::Answer;

use super::experiment::{self, Shown};
use super::locate;
use crate::cli::experiment::{SweepArgs, TryArgs};
use crate::experiment::knobs::parse_values;
use crate::experiment::rounds;
use crate::experiment::set::{Purpose, Set};

/// Up to this number of settings, all combinations of the knobs' values are run. Above, each value is tried
/// alone.
const FACTORIAL_MAX: usize = 24;
/// Rounds of all layouts.
const LAYOUT_ROUNDS: u32 = 4;
/// Rounds of all sizes.
const SIZE_ROUNDS: u32 = 5;

/// The baseline of `try`.
const AS_IT_WAS: &str = "as it was";

/// Runs and prints.
pub fn execute(args: &SweepArgs) -> Result<ExitCode> {
    args.results.check()?;
    if let Some(path) = &args.runs.resume {
        let purpose = Set::open(path)?.file.purpose;
        let mut runs = args.runs.clone();
        runs.repeats = runs.repeats.or(default_rounds(&purpose));
        let set = experiment::run(&runs, purpose, None, rounds::every_setting)?;
        return answer(set, &rounds::question(&args.runs, 0)).print(&args.results);
    }
    if args.command.is_empty() {
        bail!("name a program behind --");
    }
    let (purpose, settings) = match &args.size {
        _ if args.layout => (Purpose::Layout, layouts(args)),
        Some(size) => (Purpose::Size, of_size(args, size)?),
        None => (Purpose::Sweep, of_knobs(args)?),
    };
    let mut runs = args.runs.clone();
    runs.repeats = runs.repeats.or(default_rounds(&purpose));
    let set = experiment::run(&runs, purpose, Some(settings.into()), rounds::every_setting)?;
    answer(set, &rounds::question(&args.runs, 0)).print(&args.results)
}

fn default_rounds(purpose: &Purpose) -> Option<u32> {
    match purpose {
        Purpose::Layout => Some(LAYOUT_ROUNDS),
        Purpose::Size => Some(SIZE_ROUNDS),
        _ => None,
    }
}

/// Judges a set that belongs neither to `diff` nor to `scale`.
pub fn answer(set: Set, question: &Question) -> Shown {
    let experiment = set.file.experiment;
    let question = Question { seed: experiment.seed, ..*question };
    let answer = match set.file.purpose {
        Purpose::Layout => Answer::Layout(layout::judge(&experiment, question.matters, question.risk)),
        Purpose::Size => Answer::Sizes(sizes::judge(&experiment, question.risk)),
        _ => Answer::Sweep(sweep::judge(&experiment, &question), set.file.trials),
    };
    Shown { experiment, set: Some(set.path), answer }
}

fn layouts(args: &SweepArgs) -> Vec<Setting> {
    let setting = |knobs: Vec<(String, String)>| {
        let name: Vec<String> = knobs.iter().map(|(name, value)| format!("{name}={value}")).collect();
        Setting { name: name.join(" "), knobs, command: args.command.clone() }
    };
    layout::design().into_iter().map(setting).collect()
}

fn of_size(args: &SweepArgs, size: &str) -> Result<Vec<Setting>> {
    let (name, values) = parse_values(size)?;
    let place = format!("{{{name}}}");
    if !args.command.iter().any(|word| word.contains(&place)) {
        bail!("the command has no {place} for the size");
    }
    let setting = |value: String| {
        let number = sizes::parse_size(&value)
            .with_context(|| format!("'{value}' is no size: 10k, 2M or a number"))?;
        // The program is given plain digits: not every one reads 10k.
        let knobs = vec![(name.clone(), format!("{number:.0}"))];
        Ok(Setting { name: format!("{name}={value}"), knobs, command: args.command.clone() })
    };
    let settings: Vec<Setting> = values.into_iter().map(setting).collect::<Result<_>>()?;
    if settings.len() < growth::POINTS_MIN {
        bail!("at least four sizes are needed for a power, five for a power and a constant");
    }
    Ok(settings)
}

fn of_knobs(args: &SweepArgs) -> Result<Vec<Setting>> {
    let knobs: Vec<(String, Vec<String>)> =
        args.set.iter().map(|text| parse_values(text)).collect::<Result<_>>()?;
    if knobs.is_empty() {
        bail!("choose the variable: --set NAME=V1,V2,..., --layout, or --size NAME=N1,N2,...");
    }
    let product: usize = knobs.iter().map(|(_, values)| values.len()).fold(1, usize::saturating_mul);
    let choices = if product <= FACTORIAL_MAX { all_together(&knobs) } else { one_at_a_time(&knobs) };
    if choices.len() < 2 {
        bail!("a knob needs at least two values: the first is the baseline");
    }
    let setting = |choice: Vec<(String, String)>| {
        let name: Vec<String> = choice.iter().map(|(name, value)| format!("{name}={value}")).collect();
        Setting { name: name.join(" "), knobs: choice, command: args.command.clone() }
    };
    Ok(choices.into_iter().map(setting).collect())
}

type Choice = Vec<(String, String)>;

fn all_together(knobs: &[(String, Vec<String>)]) -> Vec<Choice> {
    let mut choices: Vec<Choice> = vec![Vec::new()];
    for (name, values) in knobs {
        let with = |choice: &Choice| {
            let choice = choice.clone();
            let name = name.clone();
            values.iter().map(move |value| {
                let mut choice = choice.clone();
                choice.push((name.clone(), value.clone()));
                choice
            })
        };
        choices = choices.iter().flat_map(with).collect();
    }
    choices
}

/// The baseline, and each other value of each knob with all others at their baseline.
fn one_at_a_time(knobs: &[(String, Vec<String>)]) -> Vec<Choice> {
    let first = |(name, values): &(String, Vec<String>)| Some((name.clone(), values.first()?.clone()));
    let baseline: Choice = knobs.iter().filter_map(first).collect();
    let mut choices = vec![baseline.clone()];
    for (knob, (_, values)) in knobs.iter().enumerate() {
        for value in values.iter().skip(1) {
            let mut choice = baseline.clone();
            choice[knob].1.clone_from(value);
            choices.push(choice);
        }
    }
    choices
}

/// `holdup try`
pub fn execute_try(args: &TryArgs) -> Result<ExitCode> {
    args.results.check()?;
    if args.runs.resume.is_some() {
        let set = experiment::run(&args.runs, Purpose::Try, None, rounds::every_setting)?;
        return answer(set, &rounds::question(&args.runs, 0)).print(&args.results);
    }
    let (path, trace) = locate::open(args.recording.as_deref())?;
    if trace.manifest.mode != "run" {
        bail!("{} was not made by `holdup run`: there is no command to run again", path.display());
    }
    let analysis = holdup_findings::analyse(&trace);
    let trials = trials::suggest(&trace, &analysis);
    if trials.is_empty() && args.results.json {
        let setting = Setting {
            name: AS_IT_WAS.to_owned(),
            knobs: Vec::new(),
            command: trace.manifest.command.clone(),
        };
        let experiment = Experiment { settings: vec![setting], ..Experiment::default() };
        let answer = Answer::Sweep(sweep::judge(&experiment, &rounds::question(&args.runs, 0)), trials);
        return Shown { experiment, set: None, answer }.print(&args.results);
    }
    if trials.is_empty() {
        return super::print(
            "Nothing that the findings advise can be tried without a change of code: see `holdup report findings`.\n",
        );
    }
    let command = trace.manifest.command.clone();
    let setting = |trial: &Trial| Setting {
        name: format!("{}={}", trial.knob, trial.value),
        knobs: vec![(trial.knob.clone(), trial.value.clone())],
        command: command.clone(),
    };
    let mut settings =
        vec![Setting { name: AS_IT_WAS.to_owned(), knobs: Vec::new(), command: command.clone() }];
    settings.extend(trials.iter().map(setting));
    let plan = experiment::Plan { settings, trials };
    let set = experiment::run(&args.runs, Purpose::Try, Some(plan), rounds::every_setting)?;
    answer(set, &rounds::question(&args.runs, 0)).print(&args.results)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_all_meet_and_many_are_tried_alone() {
        let knob =
            |name: &str, count: usize| (name.to_owned(), (0..count).map(|value| value.to_string()).collect());
        let few = all_together(&[knob("a", 2), knob("b", 3)]);
        assert_eq!((few.len(), few[0][1].1.as_str(), few[5][0].1.as_str()), (6, "0", "1"));
        let many: Vec<(String, Vec<String>)> = (0..20).map(|name| knob(&format!("K{name}"), 2)).collect();
        let alone = one_at_a_time(&many);
        assert_eq!(alone.len(), 21);
        assert!(alone[1..].iter().all(|choice| choice.iter().filter(|(_, value)| value == "1").count() == 1));
    }
}
