//! One run: the program under `holdup run` as a child, so that nothing that goes wrong in a run harms the others.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use holdup_capture::launch;
use holdup_events::recording;
use holdup_findings::experiment::{Run, RunFacts, facts};

use super::descendants::{self, Others};
use super::drift::Moment;
use super::knobs::Prepared;
use super::preload;
use super::progress::{Progress, Seen};
use crate::cli::experiment::RecordChoice;

/// Interval for checking whether a run has ended.
const POLL: Duration = Duration::from_millis(2);
/// Maximum bytes kept from the end of a failed run's output.
const SAID_MAX: usize = 400;

/// Files of the set's folder in which a run leaves its length (ns) and its calls.
const TOOK: &str = "took";
const COUNTED: &str = "counted";

/// The same for every run of an experiment.
pub struct How<'a> {
    /// The set's folder.
    pub folder: &'a Path,
    /// The recorded data of the run.
    pub record: RecordChoice,
    /// Sampling interval of allocations, in bytes per sample.
    pub allocs: Option<u64>,
    /// The measure of the run.
    pub progress: &'a Progress,
    /// Longer ones are ended.
    pub timeout: Option<Duration>,
    /// Any exit status will do.
    pub ignore_failure: bool,
}

/// How waiting for a child ended. After a timeout, contains the processes that could not be ended.
enum Waited {
    Ended(ExitStatus),
    TooLong(Vec<u32>),
    Stopped(Vec<u32>),
}

/// Makes a run, whose recording is kept under `name`. `None` if the user stopped it.
pub fn make(prepared: &Prepared, name: &str, how: &How) -> Result<Option<Run>> {
    let recording = how.folder.join(name);
    // What a run left that was cut off is not this one's.
    for file in [TOOK, COUNTED] {
        let _ = std::fs::remove_file(how.folder.join(file));
    }
    let (output, errors) = (how.folder.join("stdout"), how.folder.join("stderr"));
    let mut command = command(prepared, &recording, how)?;
    command.stdin(Stdio::null()).stderr(File::create(&errors)?);
    match how.progress.reads_output() {
        true => command.stdout(File::create(&output)?),
        false => command.stdout(Stdio::null()),
    };
    let others = Others::now();
    let before = Moment::now();
    let started = Instant::now();
    let mut child = command.spawn().context("starting a run")?;
    let waited = wait(&mut child, &others, how.timeout)?;
    let elapsed = started.elapsed();
    let drift = before.until(&Moment::now());
    let mut run = Run { drift, ..Run::default() };
    match waited {
        Waited::Stopped(left) => {
            if !left.is_empty() {
                say!("holdup: the run that was stopped{}", goes_on(&left));
            }
            let _ = std::fs::remove_dir_all(&recording);
            return Ok(None);
        }
        Waited::TooLong(left) => run.failure = format!("it took longer than --timeout{}", goes_on(&left)),
        Waited::Ended(status) => judge(&mut run, status, &errors, how),
    }
    run.wall_ns = number_in(&how.folder.join(TOOK)).unwrap_or(elapsed.as_nanos() as u64);
    if recording.is_dir() {
        read(&mut run, &recording, name);
    } else if how.record != RecordChoice::None && run.is_good() {
        run.failure = format!("it was not recorded: {}", end_of(&errors));
    }
    if run.is_good() {
        // The number is searched in the output of both streams.
        let said = [&output, &errors].map(|file| std::fs::read(file).unwrap_or_default());
        let said = said.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        let counted = number_in(&how.folder.join(COUNTED));
        match how.progress.measure(Seen { output: &said, facts: run.facts.as_ref(), counted }) {
            Ok(progress) => run.progress = progress,
            Err(why) => run.failure = why,
        }
    }
    for file in [output, errors, how.folder.join(TOOK), how.folder.join(COUNTED)] {
        let _ = std::fs::remove_file(file);
    }
    Ok(Some(run))
}

fn command(prepared: &Prepared, recording: &Path, how: &How) -> Result<Command> {
    let own = std::env::current_exe().context("finding holdup itself")?;
    let mut command = Command::new(own);
    command.args(["run", "--quiet"]).arg(format!("--end-with={}", std::process::id()));
    match how.record {
        RecordChoice::None => {
            command.arg("--unrecorded").arg(how.folder.join(TOOK));
        }
        RecordChoice::Light => {
            command.args(["--freq", "199", "--budget", "1"]).arg("-o").arg(recording);
        }
        RecordChoice::Full => {
            command.arg("-o").arg(recording);
        }
    }
    if let Some(every) = how.allocs {
        command.arg(format!("--allocs={every}"));
    }
    if let Progress::Calls(what) = how.progress {
        command.arg("--count").arg(what).arg("--counted").arg(how.folder.join(COUNTED));
    }
    for text in &prepared.under {
        command.arg("--under").arg(text);
    }
    for (name, value) in &prepared.env {
        command.arg("--set-env").arg(format!("{name}={value}"));
    }
    if prepared.preload {
        let library = preload::place(how.folder)?.display().to_string();
        let others = std::env::var("LD_PRELOAD").unwrap_or_default();
        command.arg("--set-env").arg(format!("LD_PRELOAD={library} {others}").trim_end());
    }
    command.arg("--").args(&prepared.words);
    Ok(command)
}

fn wait(child: &mut Child, others: &Others, timeout: Option<Duration>) -> Result<Waited> {
    let started = Instant::now();
    loop {
        // A run may make many of them, and zombies count as processes of the user.
        descendants::reap_orphans(Some(child.id()));
        let status = child.try_wait()?;
        // What stopped us stopped the program, too: it is no run, though it may have ended by itself.
        if launch::asked_to_stop() {
            return Ok(Waited::Stopped(others.end_run(child)?));
        }
        if let Some(status) = status {
            return Ok(Waited::Ended(status));
        }
        if timeout.is_some_and(|timeout| started.elapsed() > timeout) {
            return Ok(Waited::TooLong(others.end_run(child)?));
        }
        std::thread::sleep(POLL);
    }
}

/// Error text for a run with processes that could not be ended. Empty without such processes.
fn goes_on(left: &[u32]) -> String {
    let list: Vec<String> = left.iter().map(u32::to_string).collect();
    match left.len() {
        0 => String::new(),
        1 => format!(", and cannot be ended: process {} goes on", list.concat()),
        _ => format!(", and cannot be ended: processes {} go on", list.join(", ")),
    }
}

fn judge(run: &mut Run, status: ExitStatus, errors: &Path, how: &How) {
    use std::os::unix::process::ExitStatusExt;
    if status.success() || (how.ignore_failure && status.code().is_some()) {
        return;
    }
    let how = match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, signal) => format!("killed by signal {}", signal.unwrap_or(0)),
    };
    let said = end_of(errors);
    run.failure = if said.is_empty() { how } else { format!("{how}: {said}") };
}

/// Returns the end of the run's standard error as one line.
fn end_of(errors: &Path) -> String {
    let bytes = std::fs::read(errors).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(SAID_MAX)..]).into_owned();
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(3)..].join(" / ")
}

fn number_in(file: &Path) -> Option<u64> {
    std::fs::read_to_string(file).ok()?.parse().ok()
}

fn read(run: &mut Run, recording: &Path, name: &str) {
    name.clone_into(&mut run.recording);
    match recording::open(recording) {
        Ok(trace) => {
            let analysis = holdup_findings::analyse(&trace);
            run.wall_ns = facts::wall_ns(&trace);
            run.facts = Some(RunFacts::new(&trace, &analysis));
        }
        Err(error) if run.is_good() => run.failure = format!("its recording cannot be read: {error}"),
        Err(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::goes_on;

    #[test]
    fn processes_that_cannot_be_killed_are_reported() {
        assert_eq!(goes_on(&[]), "");
        assert_eq!(goes_on(&[7]), ", and cannot be ended: process 7 goes on");
        assert_eq!(goes_on(&[7, 9]), ", and cannot be ended: processes 7, 9 go on");
    }
}
