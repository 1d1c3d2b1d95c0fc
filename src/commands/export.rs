//! `holdup export`

use std::io::{BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
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
        bail!("'{}' is not a format. The formats are:\n{}", args.to, list());
    };
    let is_of_flame = args.flame != FlameChoice::All || args.against.is_some();
    if is_of_flame && args.to != "flame" {
        bail!("--flame and --against are for `--to flame`. For `--to {}` use --class CLASS,...", args.to);
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
    if args.output.is_none() {
        super::stdout()?;
    }
    let is_piped = args.output.is_none() && !stdout.is_terminal();
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let made_up = PathBuf::from(format!("{stem}.{}", exporter.info().extension));
    let file = (!is_piped).then(|| args.output.clone().unwrap_or(made_up));
    super::outputs::check([&file], args.force)?;
    let analysis = holdup_findings::analyse_with(&trace, &options.selection.descriptors);
    let Some(file) = file else {
        let mut out = BufWriter::new(stdout.lock());
        exporter.write(&trace, &analysis, &options, &mut out)?;
        out.flush()?;
        return Ok(ExitCode::SUCCESS);
    };
    half_made::watch()?;
    super::outputs::write_with(&file, args.force, |out| {
        Ok(exporter.write(&trace, &analysis, &options, out)?)
    })?;
    say!("holdup: wrote {}", file.display());
    Ok(ExitCode::SUCCESS)
}
