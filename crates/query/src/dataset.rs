//! Recordings of a fleet as one dataset: `host=H/date=D/run=R/VIEW.parquet`, which every engine with hive partitions reads.
//!
//! A run's directory is made aside and put in its place by one rename: a reader sees all of a run or nothing, and two
//! writers of the same run make one. What a run says of itself lies beside its tables, in `manifest.json`.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::engine::Engine;
use crate::error::QueryError;
use crate::output::write_parquet;
use crate::views;

/// Version of the layout and of the columns that this build writes. A reader refuses a greater one; new views and new
/// columns do not raise it.
pub const VERSION: u64 = 1;

/// The partition columns, outermost first.
pub const PARTITIONS: [&str; 3] = ["host", "date", "run"];

/// A table that every run has, and no recording: what whoever packed it said of it.
pub const LABELS: &str = "labels";

/// What a run says of itself.
const MANIFEST: &str = "manifest.json";

/// A run that is to be added.
#[derive(Clone, Debug)]
pub struct Run {
    /// Values of [`PARTITIONS`]; [`part_name`] makes them fit to be names.
    pub parts: [String; 3],
    /// The recording's manifest, which is kept.
    pub manifest: Value,
    /// Names and values that the user gave it.
    pub labels: Vec<(String, String)>,
}

/// A run of a dataset that can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its directory.
    pub directory: PathBuf,
    /// Values of [`PARTITIONS`].
    pub parts: [String; 3],
}

/// What is there to be read.
#[derive(Clone, Debug, Default)]
pub struct Members {
    /// In the order of their names.
    pub runs: Vec<Member>,
    /// Runs that cannot be read, and why.
    pub refused: Vec<String>,
}

/// What came of adding a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Added {
    /// It is there now, with so many bytes.
    New(PathBuf, u64),
    /// It was there already.
    Known(PathBuf),
}

/// A text as the name of a partition: letters, digits and `._-` are kept, which no engine quotes or escapes.
pub fn part_name(text: &str) -> String {
    let clean = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let name: String = text.chars().map(clean).take(128).collect();
    match name.trim_matches('.') {
        "" => "unknown".to_owned(),
        name => name.to_owned(),
    }
}

/// A column of a view as files have it: what is called like a partition would be there twice.
pub fn column_name(column: &str) -> String {
    match PARTITIONS.contains(&column) {
        true => format!("{column}_name"),
        false => column.to_owned(),
    }
}

/// Adds a run, whose views `engine` answers, to the dataset in `root`; `chosen` are the views' names.
///
/// # Errors
/// If a view cannot be made, or nothing can be written; then nothing is left of it.
pub async fn add(engine: &Engine, root: &Path, run: &Run, chosen: &[String]) -> Result<Added, QueryError> {
    let place = place(root, &run.parts);
    if place.exists() {
        return Ok(Added::Known(place));
    }
    let above = place.parent().unwrap_or(root);
    fs::create_dir_all(above).map_err(named(above))?;
    let aside = root.join(format!(".adding-{}-{}", run.parts[2], std::process::id()));
    let made = fill(engine, &aside, run, chosen).await;
    let put = made.and_then(|bytes| match fs::rename(&aside, &place) {
        Ok(()) => Ok(Added::New(place.clone(), bytes)),
        // Another writer was quicker.
        Err(_) if place.is_dir() => Ok(Added::Known(place.clone())),
        Err(error) => Err(named(&place)(error).into()),
    });
    if !matches!(put, Ok(Added::New(..))) {
        let _ = fs::remove_dir_all(&aside);
    }
    put
}

fn place(root: &Path, parts: &[String; 3]) -> PathBuf {
    PARTITIONS
        .iter()
        .zip(parts)
        .fold(root.to_owned(), |path, (name, value)| path.join(format!("{name}={value}")))
}

/// An error of the file system with the file that it is of.
fn named(path: &Path) -> impl FnOnce(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

async fn fill(engine: &Engine, aside: &Path, run: &Run, chosen: &[String]) -> Result<u64, QueryError> {
    let _ = fs::remove_dir_all(aside);
    fs::create_dir(aside).map_err(named(aside))?;
    for view in views::all().iter().filter(|view| chosen.iter().any(|name| name == view.name())) {
        let column = |(name, ..): (&str, _, _)| format!("{name} AS {}", column_name(name));
        let columns: Vec<String> = view.columns().into_iter().map(column).collect();
        table(engine, aside, view.name(), &format!("SELECT {} FROM {}", columns.join(", "), view.name()))
            .await?;
    }
    table(engine, aside, LABELS, &labels_query(&run.labels)).await?;
    let mut manifest = run.manifest.clone();
    if let Some(manifest) = manifest.as_object_mut() {
        manifest.insert("dataset".to_owned(), VERSION.into());
        manifest.insert(
            "labels".to_owned(),
            run.labels.iter().cloned().map(|(name, value)| (name, Value::String(value))).collect(),
        );
    }
    let file = aside.join(MANIFEST);
    fs::write(&file, format!("{manifest:#}\n")).map_err(named(&file))?;
    let files = fs::read_dir(aside).map_err(named(aside))?.flatten();
    Ok(files.filter_map(|file| file.metadata().ok()).map(|metadata| metadata.len()).sum())
}

async fn table(engine: &Engine, aside: &Path, name: &str, sql: &str) -> Result<(), QueryError> {
    let path = aside.join(format!("{name}.parquet"));
    let file = File::create_new(&path).map_err(named(&path))?;
    let mut answer = engine.ask(sql).await?;
    let durable = file.try_clone().map_err(named(&path))?;
    write_parquet(&mut answer, file, &[("holdup.dataset", VERSION.to_string())]).await?;
    // A name that survives a crash must not stand for bytes that do not.
    durable.sync_all().map_err(named(&path))?;
    Ok(())
}

/// The labels as rows; text is quoted as SQL quotes it.
fn labels_query(labels: &[(String, String)]) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let row = |(label, value): &(String, String)| format!("({}, {})", quoted(label), quoted(value));
    let rows: Vec<String> = labels.iter().map(row).collect();
    match rows.is_empty() {
        true => "SELECT '' AS label, '' AS value WHERE false".to_owned(),
        false => {
            format!("SELECT column1 AS label, column2 AS value FROM (VALUES {}) AS rows", rows.join(", "))
        }
    }
}

/// The runs of the dataset in `root`. What is of another version, or damaged, is told and left out.
///
/// # Errors
/// If the directory cannot be read.
pub fn members(root: &Path) -> io::Result<Members> {
    let mut members = Members::default();
    let top = fs::read_dir(root).map_err(named(root))?;
    drop(top);
    for (host, directory) in partitions(root, PARTITIONS[0]) {
        for (date, directory) in partitions(&directory, PARTITIONS[1]) {
            for (run, directory) in partitions(&directory, PARTITIONS[2]) {
                match version(&directory) {
                    Ok(()) => {
                        let parts = [host.clone(), date.clone(), run];
                        members.runs.push(Member { directory, parts });
                    }
                    Err(why) => members.refused.push(format!("{}: {why}", directory.display())),
                }
            }
        }
    }
    Ok(members)
}

/// Directories `NAME=VALUE` below one, by value.
fn partitions(directory: &Path, name: &str) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let value = |entry: fs::DirEntry| {
        let of = entry.file_name().to_str()?.strip_prefix(name)?.strip_prefix('=')?.to_owned();
        entry.path().is_dir().then(|| (of, entry.path()))
    };
    let mut found: Vec<(String, PathBuf)> = entries.filter_map(value).collect();
    found.sort();
    found
}

/// Whether this build reads a run.
fn version(directory: &Path) -> Result<(), String> {
    let text =
        fs::read(directory.join(MANIFEST)).map_err(|error| format!("{MANIFEST} cannot be read ({error})"))?;
    let manifest: Value =
        serde_json::from_slice(&text).map_err(|error| format!("{MANIFEST} is damaged ({error})"))?;
    match manifest.get("dataset").and_then(Value::as_u64) {
        Some(found) if (1..=VERSION).contains(&found) => Ok(()),
        Some(found) => {
            let by = manifest.get("packed_by").and_then(Value::as_str).unwrap_or("?");
            Err(format!(
                "written by holdup {by} in dataset version {found}; this holdup reads up to {VERSION}: use the newer one"
            ))
        }
        None => Err(format!("{MANIFEST} tells no dataset version")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_partitions_need_no_escapes() {
        assert_eq!(part_name("web-1.example"), "web-1.example");
        assert_eq!(part_name("a/b=c d"), "a_b_c_d");
        assert_eq!(part_name(".."), "unknown");
        assert_eq!(part_name(""), "unknown");
    }

    #[test]
    fn labels_are_quoted() {
        let labels = vec![("release".to_owned(), "B'); DROP".to_owned())];
        assert!(labels_query(&labels).contains("('release', 'B''); DROP')"));
        assert!(labels_query(&[]).ends_with("WHERE false"));
    }
}
