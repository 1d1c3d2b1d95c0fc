//! `holdup export`

use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use holdup_findings::derive::stacks::Folding;
use holdup_report::exporters::{FlameTime, Options, nothing_to_export};

use super::locate;
use crate::cli::{ExportArgs, FlameChoice};
use crate::half_made;

/// Writes a recording in another format.
pub fn execute(args: &ExportArgs) -> Result<ExitCode> {
    let exporters = holdup_report::exporters::all();
    let list = || {
        let lines: Vec<String> = exporters
            .iter()
            .map(|exporter| format!("  {:10} {}", exporter.info().name, exporter.info().summary))
            .collect();
        lines.join("\n")
    };
    if args.to == "help" {
        return super::print(&format!("{}\n", list()));
    }
    let Some(exporter) = exporters.iter().find(|exporter| exporter.info().name == args.to) else {
        bail!("'{}' is no format; there are:\n{}", args.to, list());
    };
    let is_of_flame = args.flame != FlameChoice::All || args.against.is_some();
    if is_of_flame && args.to != "flame" {
        bail!(
            "--flame and --against are for `--to flame`; --class CLASS,... selects what `--to {}` holds",
            args.to
        );
    }
    let (path, trace) = locate::open(args.recording.as_deref())?;
    if let Some(why) = nothing_to_export(&trace, exporter.info().holds) {
        bail!("{why}");
    }
    let against = match &args.against {
        Some(path) => Some(locate::open(Some(path))?.1),
        None => None,
    };
    let options = Options {
        selection: super::stacks::selection(&trace, &args.part, args.until)?,
        folding: match &args.part {
            part if part.no_fold || !part.fold.is_empty() => {
                Some(super::stacks::rules(part, Folding::built_in())?)
            }
            part if part.no_inline => Some(super::stacks::rules(part, Folding::none())?),
            _ => None,
        },
        flame: match args.flame {
            FlameChoice::OnCpu => FlameTime::OnCpu,
            FlameChoice::OffCpu => FlameTime::OffCpu,
            FlameChoice::Wakers => FlameTime::Wakers,
            FlameChoice::All => FlameTime::All,
        },
        against: against.as_ref(),
    };
    let stdout = std::io::stdout();
    let is_piped = args.output.is_none() && !stdout.is_terminal();
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let made_up = PathBuf::from(format!("{stem}.{}", exporter.info().extension));
    // Nobody has named it.
    if args.output.is_none() && !is_piped && fs::symlink_metadata(&made_up).is_ok() {
        bail!("{} is there already: name it with -o to have it replaced", made_up.display());
    }
    let analysis = holdup_findings::analyse_with(&trace, &options.selection.descriptors);
    if is_piped {
        let mut out = BufWriter::new(stdout.lock());
        exporter.write(&trace, &analysis, &options, &mut out)?;
        out.flush()?;
        return Ok(ExitCode::SUCCESS);
    }
    let file = args.output.clone().unwrap_or(made_up);
    half_made::watch()?;
    write_aside(&file, |out| Ok(exporter.write(&trace, &analysis, &options, out)?))?;
    say!("holdup: wrote {}", file.display());
    Ok(ExitCode::SUCCESS)
}

/// Writes it under another name first: half a file is none, and what was there stays until the new one is whole.
fn write_aside(file: &Path, write: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    let failed = || format!("cannot write {}", file.display());
    // A device or a pipe is written to; of a link what it leads to is replaced.
    let target = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    if target.exists() && !target.is_file() {
        let mut out = BufWriter::new(File::options().write(true).open(&target).with_context(failed)?);
        write(&mut out)?;
        return out.flush().with_context(failed);
    }
    let (aside, out) = create_aside(&target).with_context(failed)?;
    half_made::begin(&aside);
    let mut out = BufWriter::new(out);
    let written = write(&mut out).and_then(|()| out.flush().with_context(failed));
    half_made::finish(&aside, || {
        let done = written.and_then(|()| {
            // Who may read it stays as it was.
            if let Ok(metadata) = target.metadata() {
                let _ = out.get_ref().set_permissions(metadata.permissions());
            }
            fs::rename(&aside, &target).with_context(failed)
        });
        if done.is_err() {
            let _ = fs::remove_file(&aside);
        }
        done
    })
}

/// A new file beside `file`.
fn create_aside(file: &Path) -> io::Result<(PathBuf, File)> {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".new-{}", std::process::id()));
    let aside = file.with_file_name(name);
    File::create_new(&aside).map(|out| (aside, out))
}
