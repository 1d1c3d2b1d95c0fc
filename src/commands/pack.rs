//! `holdup pack`

use std::process::ExitCode;

use anyhow::{Result, bail};
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
        bail!("{}: was not finished; only a finished recording can be packed", path.display());
    }
    let file = args.output.clone().unwrap_or_else(|| {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".pack");
        name.into()
    });
    half_made::watch()?;
    half_made::begin(&recording::pack_aside(&file));
    let bytes = recording::pack(&path, &file)?;
    say!("holdup: wrote {} ({})", file.display(), holdup_report::numbers::bytes(bytes));
    Ok(ExitCode::SUCCESS)
}
