//! `holdup pack`

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use holdup_events::recording;

use super::locate;
use crate::cli::PackArgs;
use crate::half_made;

/// Makes one file of a recording, or adds recordings to a dataset.
pub fn execute(args: &PackArgs) -> Result<ExitCode> {
    #[cfg(feature = "sql")]
    if let Some(root) = &args.dataset.dataset {
        return super::dataset::pack(args, root);
    }
    let path = match &args.recordings[..] {
        [path] => path.clone(),
        [] => locate::newest()?,
        _ => bail!("one recording is packed at a time: {} were named", args.recordings.len()),
    };
    if !path.is_dir() {
        bail!("{}: is no recording's directory", path.display());
    }
    if recording::has_only_journal(&path) {
        bail!("{}: not finished: only a finished recording can be packed", path.display());
    }
    let file = args.output.clone().unwrap_or_else(|| {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".pack");
        name.into()
    });
    super::outputs::refuse_existing(&file, args.force)?;
    half_made::watch()?;
    half_made::begin(&recording::pack_aside(&file));
    let bytes = match file.is_file() {
        true => replace(&path, &file)?,
        false => recording::pack(&path, &file)?,
    };
    say!("holdup: wrote {} ({})", file.display(), holdup_report::numbers::bytes(bytes));
    Ok(ExitCode::SUCCESS)
}

/// Packs `recording` in the place of a file that may go.
fn replace(recording: &Path, file: &Path) -> Result<u64> {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".fresh-{}", std::process::id()));
    let fresh = file.with_file_name(name);
    half_made::begin(&fresh);
    let bytes = recording::pack(recording, &fresh)?;
    half_made::finish(&fresh, || std::fs::rename(&fresh, file))
        .with_context(|| format!("writing {}", file.display()))?;
    Ok(bytes)
}
