//! `holdup watch`

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Result, bail};
use holdup_capture::launch;

use crate::cli::{ForceArgs, RecordArgs, WatchArgs};
use crate::live::{self, metrics};
use crate::record::progress::Progress;
use crate::record::{self, Beside, Subject, runtime_events};
use crate::watch::triggers::Processes;
use crate::watch::triggers::output::{self, Pipes};
use crate::watch::{Armed, Limits, Plan};

/// Scrapers read metrics every few seconds.
const METRICS_EVERY: std::time::Duration = std::time::Duration::from_secs(1);

/// Watches until the program ends or the user stops it. Returns the program's exit status.
pub fn execute(args: WatchArgs) -> Result<ExitCode> {
    // First of all: a signal that comes before its trigger is armed ends this process.
    let triggers = arm(&args)?;
    if args.command.is_empty() {
        // From here on a request to stop is one to end well: what triggers made in the file system is taken away.
        launch::watch_signals()?;
    }
    super::descriptors::read(&args.record.descriptors)?;
    super::outputs::check([&args.record.report], args.record.force)?;
    let live = live(&args)?;
    let (subject, command, pipes) = subject(&args, &triggers)?;
    // From the check above on, the file of --report is ours: each recording replaces the report of the one before.
    let record = RecordArgs { force: ForceArgs { force: true }, ..args.record.clone() };
    let options = args.record;
    let limits = Limits {
        keep: args.keep,
        after: args.after,
        keep_bytes: args.keep_bytes,
        max_saves: args.max_saves,
        cooldown: args.cooldown,
        quota: args.quota,
        output: record.output.clone(),
    };
    let processes = Processes::parse(&args.trigger_process);
    let lost = Arc::new(AtomicU32::new(0));
    let count = lost.clone();
    let report = Box::new(move |recorded: Option<&record::Recorded>| match recorded {
        Some(recorded) => super::run::report(recorded, &record, &Progress::new(false)),
        None => {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
    });
    let ending = record::watch(
        subject,
        command,
        &options,
        Plan { limits, triggers, processes, report, live, pipes: pipes.clone() },
    )?;
    pipes.finish();
    match (ending, lost.load(Ordering::Relaxed)) {
        // A program's status is its own, whatever became of recordings.
        (Some(ending), _) => launch::end_like(ending),
        (None, 0) => Ok(ExitCode::SUCCESS),
        (None, 1) => bail!("a recording could not be saved"),
        (None, lost) => bail!("{lost} recordings could not be saved"),
    }
}

/// Returns the plan for `--metrics`.
fn live(args: &WatchArgs) -> Result<Option<live::Plan>> {
    let Some(metrics) = metrics::Shared::asked(&args.meanwhile, &args.trigger)? else { return Ok(None) };
    Ok(Some(live::Plan {
        every: METRICS_EVERY,
        looks: vec![metrics.look()],
        stop: Arc::default(),
        metrics: Some(metrics),
        descriptors: super::descriptors::read(&args.record.descriptors)?,
    }))
}

/// Arms all triggers that can be installed. For each of the others, the reason is printed.
fn arm(args: &WatchArgs) -> Result<Vec<Armed>> {
    let all: Vec<Armed> = args.trigger.iter().map(|text| Armed::parse(text)).collect::<Result<_>>()?;
    let mut armed = Vec::new();
    for mut trigger in all {
        let needs_command = trigger.output().is_some() && args.command.is_empty();
        let done = match needs_command {
            true => Err(anyhow::anyhow!(
                "only the output of a program that is started by `holdup watch -- CMD` is seen"
            )),
            false => trigger.arm(),
        };
        match done {
            Ok(()) => armed.push(trigger),
            Err(error) => say!("holdup: --trigger {}: {error:#}", trigger.text),
        }
    }
    if armed.is_empty() {
        bail!("no trigger is left that could fire");
    }
    Ok(armed)
}

/// Returns what to record, its name, and the pipes for its output.
fn subject(args: &WatchArgs, triggers: &[Armed]) -> Result<(Subject, Vec<String>, Pipes)> {
    if args.all {
        return Ok((Subject::All, vec!["(the whole machine)".to_owned()], Pipes::default()));
    }
    if let Some(pid) = args.pid {
        super::attach::must_be_there(pid)?;
        return Ok((Subject::Attach { pid, only: false }, super::attach::command_of(pid), Pipes::default()));
    }
    let rings = runtime_events::prepare(&args.command, args.meanwhile.runtime_events);
    let changes = rings.as_ref().map(|rings| rings.environment(|name| std::env::var_os(name)));
    let patterns: Vec<output::Pattern> = triggers.iter().filter_map(Armed::output).collect();
    let (held, pipes) =
        output::tapped(&patterns, || Ok(launch::hold_with(&args.command, &changes.unwrap_or_default())?))?;
    let command = args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    Ok((Subject::Run(held, Beside { rings, allocations: None }), command, pipes))
}
