//! `holdup attach`

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use holdup_capture::launch;
use holdup_capture::lower::{self, procfs};
use holdup_events::recording;
use holdup_findings::derive::class::Class;

use crate::cli::AttachArgs;
use crate::record::progress::Progress;
use crate::record::{self, Done, Recorded, Subject, process_exists};

/// A probe at `malloc` costs as much as ten to hundreds of its calls (docs/kernel-notes.md). Its slow paths
/// are not a representative sample of the allocations.
const NO_ALLOCATIONS: &str = "allocations cannot be sampled in a running process: they need a library that is loaded when the program starts (holdup run --allocs -- CMD). Without it, `report stacks` and the rule allocation-hotspot show the time spent in the allocator";

/// Records what already runs.
pub fn execute(args: &AttachArgs) -> Result<ExitCode> {
    if args.allocs.is_some() {
        bail!(NO_ALLOCATIONS);
    }
    // The report goes to standard error, too: JSON stands alone there.
    let progress = Progress::new(!args.record.quiet && !args.record.json);
    let (subject, command) = match args.pid {
        None => (Subject::All, vec!["(the whole machine)".to_owned()]),
        Some(pid) => {
            must_be_there(pid)?;
            (Subject::Attach { pid, only: args.only }, command_of(pid))
        }
    };
    super::descriptors::read(&args.record.descriptors)?;
    super::outputs::check([&args.record.report], args.record.force)?;
    // Asked while it is there.
    let hidden = args.pid.and_then(lower::hidden);
    let recorded = match record::record(subject, command, args.length, &args.record, &progress)? {
        Done::Recorded(recorded) => recorded,
        Done::Unrecorded(ending) => launch::end_like(ending),
    };
    super::run::report(&recorded, &args.record, &progress).with_context(|| super::run::kept(&recorded))?;
    match hidden {
        Some(why) if sees_nothing(&recorded)? => bail!("nothing of it could be seen: {why}"),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// # Errors
/// If the process does not exist, cannot be observed, or is holdup itself.
pub fn must_be_there(pid: u32) -> Result<()> {
    if pid == std::process::id() {
        bail!("{pid} is holdup itself");
    }
    if lower::procfs::is_hidden(pid) {
        bail!(
            "/proc does not show process {pid}, though it is there (hidepid hides others' processes): run holdup as its user, or as root"
        );
    }
    if !process_exists(pid) {
        bail!("there is no process {pid}");
    }
    Ok(())
}

/// Whether all the time of all threads is of unknown class.
fn sees_nothing(recorded: &Recorded) -> Result<bool> {
    if recorded.unfinished.is_some() {
        return Ok(false);
    }
    let ledger = holdup_findings::analyse(&recording::open(&recorded.path)?).derived.ledger;
    Ok(ledger.class_ns(Class::Unknown) == ledger.total_ns)
}

/// The command line of a process.
pub fn command_of(pid: u32) -> Vec<String> {
    let bytes = std::fs::read(format!("/proc/{}/cmdline", procfs::shown_as(pid))).unwrap_or_default();
    let words: Vec<String> = bytes
        .split(|byte| *byte == 0)
        .filter(|word| !word.is_empty())
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    if words.is_empty() { vec![format!("pid {pid}")] } else { words }
}
