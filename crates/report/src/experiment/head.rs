//! The basis of every result: the commands, the number of runs, and the machine's other activity.

use holdup_findings::experiment::surroundings;

use super::Shown;
use super::page::Page;
use crate::numbers::{counted, percent};

/// The setting's command or knobs, as they were given.
pub(super) fn settings(shown: &Shown, page: &mut Page) {
    let experiment = shown.experiment;
    let rounds = experiment.runs.iter().map(|run| run.round + 1).max().unwrap_or(0);
    let mut text = format!(
        "{} of {} in random order (seed {}).",
        counted(u64::from(rounds), "round"),
        counted(experiment.settings.len() as u64, "setting"),
        experiment.seed
    );
    let around = surroundings::summarize(experiment);
    if around.judged > 0 {
        text.push_str(&format!(
            " During the runs other programs used {} of the CPUs, the hypervisor took {}.",
            percent(around.others),
            percent(around.stolen)
        ));
    }
    page.faint(text);
    if around.disturbed > 0 {
        page.faint(format!(
            "{} of {} were disturbed (other programs, the hypervisor, or the frequency): a quiet machine would need fewer runs.",
            around.disturbed,
            counted(around.judged as u64, "run")
        ));
    }
    failures(shown, page);
}

fn failures(shown: &Shown, page: &mut Page) {
    let experiment = shown.experiment;
    for (number, setting) in experiment.settings.iter().enumerate() {
        let failed: Vec<_> = experiment.failures().filter(|run| run.setting == number).collect();
        if let Some(last) = failed.last() {
            page.text(format!(
                "{} of '{}' failed and do not count. The last: {}.",
                counted(failed.len() as u64, "run"),
                setting.name,
                last.failure
            ));
        }
    }
}

/// Where to look further.
pub(super) fn foot(shown: &Shown, page: &mut Page) {
    if let Some(set) = &shown.set {
        page.gap();
        page.faint(format!("Saved in {set}: `holdup report` opens it again, --resume adds runs."));
    }
}
