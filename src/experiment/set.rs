//! A set of runs on disk: a folder with `set.json`, replaced as a whole after each run, and the runs' recordings.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use holdup_events::recording::store;
use holdup_findings::experiment::Experiment;
use holdup_findings::experiment::trials::Trial;
use serde::{Deserialize, Serialize};

use super::kept_sets;
use crate::record;

/// Version of `set.json` that this build writes. A greater version is rejected. Version 1 contains times
/// only.
const FORMAT: u32 = 2;
/// The description of a set.
pub(super) const FILE: &str = "set.json";
/// Ending of a set's name.
pub(super) const ENDING: &str = "holdup-set";

/// The purpose of a set of runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// Two commands.
    Diff,
    /// Numbers of workers.
    Scale,
    /// Values of knobs.
    Sweep,
    /// Memory layouts.
    Layout,
    /// Sizes of the input.
    Size,
    /// Trying the advice of findings.
    Try,
}

impl Purpose {
    /// The words of the command that makes such a set.
    pub fn command(&self) -> &'static str {
        match self {
            Purpose::Diff => "diff",
            Purpose::Scale => "scale",
            Purpose::Sweep => "sweep --set",
            Purpose::Layout => "sweep --layout",
            Purpose::Size => "sweep --size",
            Purpose::Try => "try",
        }
    }
}

/// `set.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SetFile {
    /// [`FORMAT`] of the writer.
    pub format: u32,
    /// Version of the holdup that wrote it.
    pub holdup: String,
    /// The command that made the set.
    pub purpose: Purpose,
    /// CPUs of the machine.
    pub cpus: u32,
    /// `--progress` and `--progress-is`, as given.
    pub progress: Option<String>,
    /// `--allocs`, as given.
    #[serde(default)]
    pub allocs: Option<u64>,
    /// For `try`: the trial of each setting except the first.
    #[serde(default)]
    pub trials: Vec<Trial>,
    /// The settings and runs.
    pub experiment: Experiment,
}

/// A set that is open.
pub struct Set {
    /// Where.
    pub path: PathBuf,
    /// Content of `set.json`.
    pub file: SetFile,
    /// Locked while runs are added: it is not removed to make room for another.
    held: Option<File>,
}

impl Set {
    /// Keeps it from being removed for as long as this is there.
    pub fn hold(&mut self) {
        self.held = File::open(&self.path).ok().filter(|folder| folder.try_lock_shared().is_ok());
    }

    /// A new one.
    pub fn create(
        named: Option<&Path>,
        purpose: Purpose,
        experiment: Experiment,
        progress: Option<String>,
    ) -> Result<Set> {
        let path = match named {
            Some(path) => make_named(path)?,
            None => make_kept(&experiment)?,
        };
        let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32);
        let holdup = crate::build_name::name().to_owned();
        let mut set = Set {
            path,
            file: SetFile {
                format: FORMAT,
                holdup,
                purpose,
                cpus,
                progress,
                allocs: None,
                trials: Vec::new(),
                experiment,
            },
            held: None,
        };
        set.hold();
        set.save()?;
        Ok(set)
    }

    /// Opens one.
    pub fn open(path: &Path) -> Result<Set> {
        let file = path.join(FILE);
        let text = std::fs::read(&file).with_context(|| format!("{} is no set of runs", path.display()))?;
        let version: serde_json::Value =
            serde_json::from_slice(&text).with_context(|| format!("{} is damaged", file.display()))?;
        let format = version.get("format").and_then(serde_json::Value::as_u64).unwrap_or(0);
        if format == 0 || format > u64::from(FORMAT) {
            bail!("{} has format {format}, this holdup reads up to {FORMAT}", file.display());
        }
        let file: SetFile =
            serde_json::from_value(version).with_context(|| format!("{} is damaged", file.display()))?;
        let experiment = &file.experiment;
        if experiment.runs.iter().any(|run| run.setting >= experiment.settings.len()) {
            bail!("{} is damaged: a run of a setting that is not there", path.display());
        }
        Ok(Set { path: path.to_owned(), file, held: None })
    }

    /// Whether there is one.
    pub fn is_at(path: &Path) -> bool {
        path.join(FILE).is_file()
    }

    /// Writes the description atomically: a concurrent reader gets the old or the new version.
    pub fn save(&self) -> Result<()> {
        let (file, fresh) = (self.path.join(FILE), self.path.join("set.json.new"));
        let text = serde_json::to_vec(&self.file)?;
        let write = || {
            std::fs::write(&fresh, text)?;
            std::fs::rename(&fresh, &file)
        };
        write().with_context(|| format!("writing {}", file.display()))
    }
}

fn make_named(path: &Path) -> Result<PathBuf> {
    if path.exists() {
        let empty = std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
        if Set::is_at(path) {
            bail!("{} is there already: --resume goes on with it", path.display());
        }
        if !empty {
            bail!("{} is in the way: it is no set of runs", path.display());
        }
    }
    record::place::check_above(path)?;
    record::place::make_private(path).with_context(|| format!("cannot write a set to {}", path.display()))?;
    Ok(path.to_owned())
}

fn make_kept(experiment: &Experiment) -> Result<PathBuf> {
    let folder = record::place::make_store()?;
    kept_sets::prune(&folder);
    let command = experiment.settings.first().and_then(|setting| setting.command.first());
    let name = store::name(command.map_or("", String::as_str), record::unix_ns() / 1_000_000_000);
    let stem = name.trim_end_matches(".holdup");
    for attempt in 0..1000 {
        let number = if attempt == 0 { String::new() } else { format!("-{attempt}") };
        let path = folder.join(format!("{stem}{number}.{ENDING}"));
        if !path.exists() {
            record::place::make_private(&path)
                .with_context(|| format!("cannot write to {}", folder.display()))?;
            return Ok(path);
        }
    }
    bail!("too many sets of the same name in {}", folder.display())
}
