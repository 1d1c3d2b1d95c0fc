//! `holdup run`, and what `run` and `attach` print in the end.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use holdup_capture::launch;
use holdup_events::recording;
use holdup_report::text::shell_word;

use super::locate;
use crate::cli::{ForceArgs, RecordArgs, RunArgs};
use crate::experiment::counted::{Counted, Counting};
use crate::record::allocations::Sampler;
use crate::record::progress::Progress;
use crate::record::{self, Beside, Done, Recorded, Subject, runtime_events};

/// Runs, records, reports, and ends as the program ended.
pub fn execute(args: RunArgs) -> Result<ExitCode> {
    let command: Vec<String> = args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    if let Some(parent) = args.end_with {
        launch::end_with(parent)?;
    }
    // Before the program runs: a file that cannot be read must not cost the user a run.
    super::descriptors::read(&args.record.descriptors)?;
    super::outputs::check([&args.record.report], args.record.force)?;
    let rings = runtime_events::prepare(&args.command, args.runtime_events);
    let changes = rings.as_ref().map(|rings| rings.environment(|name| std::env::var_os(name)));
    let mut changes = changes.unwrap_or_default();
    for text in &args.set_env {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        set(&mut changes, (name.into(), value.into()));
    }
    let sampler = args.allocs.map(|every_bytes| Sampler::prepare(every_bytes, &args.command)).transpose()?;
    if let Some(sampler) = &sampler {
        // What a knob loads into the program stays loaded.
        let named = changes.iter().find(|(name, _)| name == "LD_PRELOAD").map(|(_, value)| value.clone());
        let others = named.or_else(|| std::env::var_os("LD_PRELOAD"));
        sampler.environment(others).into_iter().for_each(|change| set(&mut changes, change));
        if !sampler.missing().is_empty() {
            say!("holdup: --allocs: {}", sampler.missing());
        }
    }
    let conditions = launch::Conditions::parse(&args.under).map_err(anyhow::Error::msg)?;
    let held = launch::hold_under(&args.command, &changes, &conditions)?;
    let count = count(&args)?;
    if let Some(file) = &args.unrecorded {
        let ending = time(held, file)?;
        count.write()?;
        launch::end_like(ending);
    }
    // Standard error is the program's, too.
    let progress = Progress::new(false);
    let done = record::record(
        Subject::Run(held, Beside { rings, allocations: sampler }),
        command,
        None,
        &args.record,
        &progress,
    )?;
    if let Err(error) = count.write() {
        say!("holdup: {error:#}");
    }
    let recorded = match done {
        Done::Recorded(recorded) => recorded,
        Done::Unrecorded(ending) => launch::end_like(ending),
    };
    // The program has run: whatever goes wrong in reporting must not change its status.
    if let Err(error) = report(&recorded, &args.record, &progress) {
        say!("holdup: {:#}", error.context(kept(&recorded)));
    }
    match recorded.ending {
        Some(ending) => launch::end_like(ending),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Sets a variable of the program's environment, replacing an earlier value.
fn set(changes: &mut Vec<(OsString, OsString)>, (name, value): (OsString, OsString)) {
    changes.retain(|(changed, _)| *changed != name);
    changes.push((name, value));
}

/// Runs it without a recording, and writes how long it took (ns).
fn time(held: launch::Held, file: &std::path::Path) -> Result<launch::Ending> {
    let started = std::time::Instant::now();
    let ending = held.release()?.wait();
    let took_ns = started.elapsed().as_nanos().to_string();
    super::outputs::write(file, took_ns.as_bytes(), ForceArgs::default())?;
    Ok(ending)
}

/// The events to count for `--count`, and the file for the result.
struct Count<'a>(Option<(Counting, &'a std::path::Path)>);

/// Begins to count.
fn count(args: &RunArgs) -> Result<Count<'_>> {
    let (Some(what), Some(file)) = (&args.count, &args.counted) else { return Ok(Count(None)) };
    let counted = Counted::parse(what).with_context(|| format!("--count {what}: not known"))??;
    let program = args.command.first().context("no command")?;
    Ok(Count(Some((counted.begin(program)?, file))))
}

impl Count<'_> {
    fn write(&self) -> Result<()> {
        let Some((counting, file)) = &self.0 else { return Ok(()) };
        super::outputs::write(file, counting.read()?.to_string().as_bytes(), ForceArgs::default())
    }
}

/// Error text that names the recording if its report failed.
pub fn kept(recorded: &Recorded) -> String {
    format!("the recording is {}, but of its report", recorded.path.display())
}

/// Prints the report of a new recording to the configured destination.
pub fn report(recorded: &Recorded, options: &RecordArgs, progress: &Progress) -> Result<()> {
    let path = &recorded.path;
    if let Some(unfinished) = &recorded.unfinished {
        say!("holdup: {:#}", unfinished.error);
    }
    if options.quiet && options.report.is_none() {
        return Ok(());
    }
    let trace = match &recorded.unfinished {
        Some(unfinished) => locate::from_journal(path, unfinished)?,
        None => recording::open(path)?,
    };
    let descriptors = super::descriptors::read(&options.descriptors)?;
    let analysing = progress.phase("analysing the recording");
    let analysis = holdup_findings::analyse_with(&trace, &descriptors);
    drop(analysing);
    let stderr = std::io::stderr();
    let text = if options.json {
        let ask = super::descriptors::stack_ask(descriptors);
        format!("{:#}\n", holdup_report::to_json_with(&trace, &analysis, &ask))
    } else {
        let style = match &options.report {
            Some(_) => holdup_report::Style { whole: true, ..holdup_report::Style::default() },
            None => super::style(&stderr),
        };
        let (asked, name) = (holdup_report::StackAsk::default(), path.display().to_string());
        let mut text = holdup_report::render_named(&trace, &analysis, (&[], &asked), (&style, Some(&name)))?;
        text.push_str(&format!(
            "\nMore: holdup report {} ledger threads cpus locks syscalls sched stacks\n",
            shell_word(&path.to_string_lossy())
        ));
        text
    };
    match &options.report {
        Some(file) => super::outputs::write(file, text.as_bytes(), options.force)?,
        None if launch::was_closed(libc::STDERR_FILENO) => {
            bail!("standard error is closed: the report has no place (--report FILE gives it one)")
        }
        None => stderr.lock().write_all(text.as_bytes())?,
    }
    Ok(())
}
