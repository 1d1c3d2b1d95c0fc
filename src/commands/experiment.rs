//! What the commands that run a program several times share: making the runs, opening a set, printing the answer.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use holdup_findings::experiment::compare::Question;
use holdup_findings::experiment::trials::Trial;
use holdup_findings::experiment::{Experiment, Setting};
use holdup_report::experiment::{Answer, RowChoice, Shown as Report};
use holdup_report::text::shell_word;

use crate::cli::experiment::{RecordChoice, ResultArgs, RunsArgs};
use crate::experiment::progress::Progress;
use crate::experiment::rounds::{self, Wanted};
use crate::experiment::set::{Purpose, Set};
use crate::experiment::{knobs, table};
use crate::record;

/// Rows of a table, and the number of workers that is foretold, where a set is reopened.
const ROWS: RowChoice = RowChoice { max: 8, undecided: false };
const AT: u32 = 24;

/// The runs to make.
pub struct Plan {
    /// The settings, the baseline first.
    pub settings: Vec<Setting>,
    /// For `try`: the trial of each setting except the first.
    pub trials: Vec<Trial>,
}

impl From<Vec<Setting>> for Plan {
    fn from(settings: Vec<Setting>) -> Plan {
        Plan { settings, trials: Vec::new() }
    }
}

/// An experiment with its answer.
pub struct Shown {
    /// The finished runs.
    pub experiment: Experiment,
    /// Where it is kept.
    pub set: Option<PathBuf>,
    /// The result of the comparison.
    pub answer: Answer,
}

/// Makes the runs: of a plan, or what a set that is resumed lacks.
pub fn run(args: &RunsArgs, purpose: Purpose, plan: Option<Plan>, wanted: Wanted) -> Result<Set> {
    let mut args = args.clone();
    let mut set = match (&args.resume, plan) {
        (Some(path), _) => {
            let mut set = Set::open(path)?;
            set.hold();
            if set.file.purpose != purpose {
                bail!("{} is of another command: holdup {}", path.display(), set.file.purpose.command());
            }
            resume(&set, &mut args);
            set
        }
        (None, Some(plan)) => create(&args, purpose, plan)?,
        (None, None) => bail!("name a command behind --"),
    };
    let (progress, _) = Progress::new(&args)?;
    if let Err(error) = rounds::make(&mut set, &args, &progress, wanted) {
        return Err(match set.file.experiment.runs.is_empty() {
            true => {
                let _ = std::fs::remove_dir_all(&set.path);
                error
            }
            false => error.context(format!("the runs made so far are kept in {}", set.path.display())),
        });
    }
    if holdup_capture::launch::asked_to_stop() {
        let path = shell_word(&set.path.to_string_lossy());
        say!("holdup: stopped, the runs made so far are saved: --resume {path}");
    }
    Ok(set)
}

fn create(args: &RunsArgs, purpose: Purpose, Plan { settings, trials }: Plan) -> Result<Set> {
    // Errors of a setting are reported before any run starts.
    settings.iter().try_for_each(|setting| knobs::Prepared::new(setting).map(drop))?;
    let (_, goal) = Progress::new(args)?;
    if args.allocs.is_some() && args.record == RecordChoice::None {
        bail!("--allocs needs a recording of each run: leave --record none out");
    }
    let seed = args.seed.unwrap_or_else(|| record::unix_ns() / 1_000_000 % 1_000_000);
    let experiment = Experiment { seed, goal, settings, runs: Vec::new() };
    let mut set = Set::create(args.output.as_deref(), purpose, experiment, args.progress.clone())?;
    // It is saved after each run: a set that is interrupted knows what its settings try.
    set.file.trials = trials;
    set.file.allocs = args.allocs;
    Ok(set)
}

/// A set goes on as it began.
fn resume(set: &Set, args: &mut RunsArgs) {
    use crate::cli::experiment::ProgressKind;
    use holdup_findings::experiment::Goal;
    args.progress.clone_from(&set.file.progress);
    args.allocs = set.file.allocs;
    args.progress_is = match set.file.experiment.goal {
        Goal::Wall | Goal::Work => ProgressKind::Work,
        Goal::Rate => ProgressKind::Rate,
        Goal::Cost => ProgressKind::Cost,
    };
    let runs = &set.file.experiment.runs;
    if runs.iter().any(|run| run.is_good()) && runs.iter().all(|run| run.recording.is_empty()) {
        args.record = RecordChoice::None;
    }
}

/// A set's answer, whatever it is of: what `holdup report` prints.
pub fn reopen(path: &Path) -> Result<Shown> {
    let set = Set::open(path)?;
    let question = Question { seed: set.file.experiment.seed, ..Question::default() };
    Ok(match set.file.purpose {
        Purpose::Diff => super::diff::answer(set, &question, ROWS),
        Purpose::Scale => super::scale::answer(set, AT, &question),
        _ => super::sweep::answer(set, &question),
    })
}

impl ResultArgs {
    /// Checks that the output files can be written, before the runs start.
    pub fn check(&self) -> Result<()> {
        super::outputs::check([&self.table, &self.html], self.force)
    }
}

impl Shown {
    /// Prints the result in the requested form, even if a file cannot be written.
    ///
    /// # Errors
    /// If a file cannot be written, or the reader of the output has closed it.
    pub fn print(&self, args: &ResultArgs) -> Result<ExitCode> {
        let set = self.set.as_ref().map(|path| path.display().to_string());
        let report = Report { experiment: &self.experiment, set, answer: &self.answer };
        let table =
            args.table.as_ref().map_or(Ok(()), |file| table::write(&self.experiment, file, args.force));
        let html = args
            .html
            .as_ref()
            .map_or(Ok(()), |file| super::outputs::write(file, report.html().as_bytes(), args.force));
        let printed = if args.json {
            super::print_json(&report.json())
        } else if args.markdown {
            super::print(&report.markdown())
        } else {
            super::print(&report.render(&super::style(&std::io::stdout())))
        };
        table.and(html).and(printed)
    }
}
