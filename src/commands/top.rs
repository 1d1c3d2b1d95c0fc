//! `holdup top`

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use holdup_capture::launch;
use holdup_report::live::Screen;

use crate::cli::TopArgs;
use crate::live::{self, Look, metrics};
use crate::record::{self, Beside, Subject, runtime_events};
use crate::top::{HeldBack, Lines, Request, Watcher, Wishes, without_input};
use crate::watch::triggers::Processes;
use crate::watch::triggers::output::Pipes;
use crate::watch::{Limits, Plan};

/// Nothing but the user's key saves, and that always does.
const NO_LIMIT: u32 = u32::MAX;

/// Shows intervals until the program ends, the user quits, or `-n` intervals are over. Returns the program's
/// exit status.
pub fn execute(args: TopArgs) -> Result<ExitCode> {
    let is_batch = args.batch || args.record.json;
    if !is_batch {
        Watcher::possible()?;
    }
    let descriptors = super::descriptors::read(&args.record.descriptors)?;
    let metrics = metrics::Shared::asked(&args.meanwhile, &[])?;
    let (subject, command, mut output) = subject(&args, is_batch)?;
    let program = match &subject {
        Subject::Run(held, _) => Some(held.pid()),
        _ => None,
    };
    let wishes = Wishes { stop: Arc::new(AtomicBool::new(false)), save: Request::default(), program };
    let words = Arc::new(Mutex::new(None));
    let mut looks: Vec<Look> = vec![match is_batch {
        true => lines(&args, &wishes)?,
        false => screen(&args, &wishes, (title(&args, &command), words.clone()))?,
    }];
    looks.extend(metrics.as_ref().map(metrics::Shared::look));
    let live = live::Plan { every: args.interval, looks, stop: wishes.stop.clone(), metrics, descriptors };
    let plan = Plan {
        limits: limits(&args),
        triggers: vec![wishes.save.armed()],
        processes: Processes::default(),
        report: Box::new(|_| Ok(())),
        live: Some(live),
        pipes: Pipes::default(),
    };
    let ending = record::watch(subject, command, &args.record, plan);
    for held in words.lock().unwrap_or_else(PoisonError::into_inner).iter_mut().chain(&mut output) {
        held.show(&mut std::io::stderr());
    }
    match ending? {
        Some(ending) => launch::end_like(ending),
        None => Ok(ExitCode::SUCCESS),
    }
}

fn limits(args: &TopArgs) -> Limits {
    Limits {
        keep: args.keep,
        after: std::time::Duration::ZERO,
        keep_bytes: args.keep_bytes,
        max_saves: NO_LIMIT,
        cooldown: std::time::Duration::ZERO,
        quota: u64::MAX,
        output: args.record.output.clone(),
    }
}

fn title(args: &TopArgs, command: &[String]) -> String {
    match args.pid {
        Some(pid) => format!("{} ({pid})", command.join(" ")),
        None => command.join(" "),
    }
}

fn lines(args: &TopArgs, wishes: &Wishes) -> Result<Look> {
    let beside_program = !args.command.is_empty();
    let style = match (&args.record.report, beside_program) {
        (Some(_), _) => holdup_report::Style::default(),
        (None, true) => super::style(&std::io::stderr()),
        (None, false) => super::style(&std::io::stdout()),
    };
    let to = Lines::open(&args.record, beside_program)?;
    let mut lines = Lines::new(to, (args.record.json, style), args.count, wishes.stop.clone());
    Ok(Box::new(move |moment| lines.take(moment)))
}

/// From now on nothing else is written on the terminal.
fn screen(
    args: &TopArgs,
    wishes: &Wishes,
    (title, words): (String, Arc<Mutex<Option<HeldBack>>>),
) -> Result<Look> {
    let style = super::style(&std::io::stdout());
    let screen = Screen::new(title, style.colour, style.unicode);
    *words.lock().unwrap_or_else(PoisonError::into_inner) = HeldBack::begin(libc::STDERR_FILENO)?;
    let watcher = Watcher::start(screen, wishes.clone(), words)?;
    let (mut left, stop) = (args.count, wishes.stop.clone());
    Ok(Box::new(move |moment| {
        watcher.take(moment);
        left = left.map(|left| left.saturating_sub(1));
        if left == Some(0) {
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    }))
}

/// Returns what to record, its name, and the output held back until the screen is closed.
fn subject(args: &TopArgs, is_batch: bool) -> Result<(Subject, Vec<String>, Vec<HeldBack>)> {
    if let Some(pid) = args.pid {
        super::attach::must_be_there(pid)?;
        return Ok((Subject::Attach { pid, only: false }, super::attach::command_of(pid), Vec::new()));
    }
    if args.command.is_empty() {
        return Ok((Subject::All, vec!["(the whole machine)".to_owned()], Vec::new()));
    }
    let rings = runtime_events::prepare(&args.command, args.meanwhile.runtime_events);
    let changes = rings.as_ref().map(|rings| rings.environment(|name| std::env::var_os(name)));
    let mut output = Vec::new();
    if !is_batch {
        for descriptor in [libc::STDOUT_FILENO, libc::STDERR_FILENO] {
            output.extend(HeldBack::begin(descriptor)?);
        }
    }
    let start = || Ok(launch::hold_with(&args.command, &changes.unwrap_or_default())?);
    let held = if is_batch { start() } else { without_input(start) };
    output.iter_mut().for_each(HeldBack::end);
    let command = args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    Ok((Subject::Run(held?, Beside { rings, allocations: None }), command, output))
}
