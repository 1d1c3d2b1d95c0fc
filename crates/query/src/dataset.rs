//! Recordings of a fleet as one dataset: `host=H/date=D/run=R/VIEW.parquet`. Every engine with hive
//! partitions can read it.
//!
//! A run's directory is made under a temporary name and renamed. A reader therefore sees a complete run or
//! none, and two writers of the same run make one. A run's manifest is next to its tables, in
//! `manifest.json`. `bucket` does the same in a bucket.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
#[cfg(feature = "s3")]
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::object_store::{ObjectMeta, ObjectStore, path::Path as StorePath};
use serde_json::Value;

#[cfg(feature = "s3")]
use crate::bucket::Bucket;
use crate::engine::Engine;
use crate::error::QueryError;
use crate::output::write_parquet;
use crate::views;

/// Version of the layout and the columns that this build writes. A reader rejects a greater one. New views
/// and columns do not increase it.
pub const VERSION: u64 = 1;

/// The partition columns, outermost first.
pub const PARTITIONS: [&str; 3] = ["host", "date", "run"];

/// A table of every run that is not in recordings: the labels given to `holdup pack`.
pub const LABELS: &str = "labels";

/// File with a run's manifest.
pub(crate) const MANIFEST: &str = "manifest.json";

/// Where a dataset lies.
#[derive(Clone, Debug)]
pub enum Root {
    /// In a file system.
    Directory(PathBuf),
    /// In a bucket that speaks S3.
    #[cfg(feature = "s3")]
    Bucket(Bucket),
}

impl Root {
    /// By what the user calls it: a path, or `s3://BUCKET/PREFIX`.
    ///
    /// # Errors
    /// If it is another kind of place, or the bucket's name makes no sense.
    pub fn named(root: &Path) -> Result<Root, QueryError> {
        let Some((scheme, _)) = root.to_str().and_then(|root| root.split_once("://")) else {
            return Ok(Root::Directory(root.to_owned()));
        };
        #[cfg(feature = "s3")]
        if scheme == "s3" {
            return Ok(Root::Bucket(Bucket::open(&root.to_string_lossy())?));
        }
        let reason = match (scheme, cfg!(feature = "s3")) {
            ("s3", false) => "this build has no buckets (the feature `s3`)".to_owned(),
            (_, true) => format!("{scheme}:// is not known, s3:// and directories are"),
            (_, false) => format!("{scheme}:// is not known, directories are"),
        };
        let way = ". Pack into a directory and copy that, as `aws s3 sync` or rclone do";
        Err(QueryError::Bucket { place: root.display().to_string(), reason: reason + way })
    }
}

/// A run that is to be added.
#[derive(Clone, Debug)]
pub struct Run {
    /// Values of [`PARTITIONS`]. [`part_name`] makes them valid names.
    pub parts: [String; 3],
    /// The recording's manifest, which is kept.
    pub manifest: Value,
    /// Names and values that the user gave it.
    pub labels: Vec<(String, String)>,
}

/// A run of a dataset that can be read.
#[derive(Clone, Debug)]
pub struct Member {
    /// Values of [`PARTITIONS`].
    pub parts: [String; 3],
    files: Files,
}

/// Where a run's tables are.
#[derive(Clone, Debug)]
enum Files {
    Directory(PathBuf),
    /// By their names.
    #[cfg_attr(not(feature = "s3"), expect(dead_code, reason = "only buckets list their objects"))]
    Objects(BTreeMap<String, ObjectMeta>),
}

impl Member {
    #[cfg(feature = "s3")]
    pub(crate) fn of_objects(parts: [String; 3], files: BTreeMap<String, ObjectMeta>) -> Member {
        Member { parts, files: Files::Objects(files) }
    }

    /// Returns the file of a table. A run packed with fewer views may lack it.
    pub(crate) fn table(
        &self,
        name: &str,
    ) -> Result<Option<ObjectMeta>, datafusion::common::DataFusionError> {
        let name = format!("{name}.parquet");
        let path = match &self.files {
            Files::Objects(objects) => return Ok(objects.get(&name).cloned()),
            Files::Directory(directory) => directory.join(name),
        };
        if !path.is_file() {
            return Ok(None);
        }
        let metadata = fs::metadata(&path)?;
        Ok(Some(ObjectMeta {
            location: StorePath::from_filesystem_path(path)?,
            last_modified: metadata.modified()?.into(),
            size: metadata.len(),
            e_tag: None,
            version: None,
        }))
    }
}

/// The readable runs of a dataset.
#[derive(Clone, Debug)]
pub struct Members {
    /// In the order of their names.
    pub runs: Vec<Member>,
    /// Runs that cannot be read, and why.
    pub refused: Vec<String>,
    /// By which name the engine knows where they are.
    pub(crate) at: ObjectStoreUrl,
    /// The bucket to read from. `None` for the file system, which the engine has already.
    pub(crate) store: Option<Arc<dyn ObjectStore>>,
}

impl Default for Members {
    fn default() -> Members {
        let at = ObjectStoreUrl::local_filesystem();
        Members { runs: Vec::new(), refused: Vec::new(), at, store: None }
    }
}

/// Result of adding a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Added {
    /// The run was added, with this number of bytes.
    New(PathBuf, u64),
    /// The run existed already.
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

/// The name of a view's column in files: a column with a partition's name would occur twice.
pub fn column_name(column: &str) -> String {
    match PARTITIONS.contains(&column) {
        true => format!("{column}_name"),
        false => column.to_owned(),
    }
}

/// Adds a run to the dataset in `root`. `engine` has its views, and `chosen` the names of the views to write.
///
/// # Errors
/// If a view cannot be made, or a file cannot be written. Then nothing is left in a directory, and only an
/// incomplete run in a bucket.
pub async fn add(engine: &Engine, root: &Root, run: &Run, chosen: &[String]) -> Result<Added, QueryError> {
    match root {
        Root::Directory(root) => add_to_directory(engine, root, run, chosen).await,
        #[cfg(feature = "s3")]
        Root::Bucket(bucket) => add_to_bucket(engine, bucket, run, chosen).await,
    }
}

/// A directory that goes with this value, if it is there still.
struct Aside(PathBuf);

impl Drop for Aside {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn aside_in(directory: &Path, run: &Run) -> PathBuf {
    directory.join(format!(".adding-{}-{}", run.parts[2], std::process::id()))
}

#[cfg(feature = "s3")]
async fn add_to_bucket(
    engine: &Engine,
    bucket: &Bucket,
    run: &Run,
    chosen: &[String],
) -> Result<Added, QueryError> {
    let place = PathBuf::from(bucket.place(&run.parts));
    if bucket.has(&run.parts).await? {
        return Ok(Added::Known(place));
    }
    let private = aside_in(&std::env::temp_dir(), run);
    // An existing directory of another user is neither used nor removed.
    fs::DirBuilder::new().mode(0o700).create(&private).map_err(named(&private))?;
    let private = Aside(private);
    let aside = private.0.join("run");
    let bytes = fill(engine, &aside, run, chosen).await?;
    match bucket.put(&run.parts, &aside).await? {
        true => Ok(Added::New(place, bytes)),
        false => Ok(Added::Known(place)),
    }
}

async fn add_to_directory(
    engine: &Engine,
    root: &Path,
    run: &Run,
    chosen: &[String],
) -> Result<Added, QueryError> {
    let place = place(root, &run.parts);
    if place.exists() {
        return Ok(Added::Known(place));
    }
    let above = place.parent().unwrap_or(root);
    fs::create_dir_all(above).map_err(named(above))?;
    let aside = Aside(aside_in(root, run));
    let bytes = fill(engine, &aside.0, run, chosen).await?;
    match fs::rename(&aside.0, &place) {
        Ok(()) => Ok(Added::New(place, bytes)),
        // Another writer was quicker.
        Err(_) if place.is_dir() => Ok(Added::Known(place)),
        Err(error) => Err(named(&place)(error).into()),
    }
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
    // After a crash, a file's name must not exist without its content.
    durable.sync_all().map_err(named(&path))?;
    Ok(())
}

/// The labels as rows. Text is quoted for SQL.
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

/// Returns the runs of the dataset in `root`. Runs of other versions and damaged ones are reported and left
/// out.
///
/// # Errors
/// If the dataset cannot be read.
pub async fn members(root: &Root) -> Result<Members, QueryError> {
    match root {
        Root::Directory(root) => Ok(members_of_directory(root)?),
        #[cfg(feature = "s3")]
        Root::Bucket(bucket) => bucket.members().await,
    }
}

fn members_of_directory(root: &Path) -> io::Result<Members> {
    let mut members = Members::default();
    let top = fs::read_dir(root).map_err(named(root))?;
    drop(top);
    for (host, directory) in partitions(root, PARTITIONS[0]) {
        for (date, directory) in partitions(&directory, PARTITIONS[1]) {
            for (run, directory) in partitions(&directory, PARTITIONS[2]) {
                match version_in(&directory) {
                    Ok(()) => {
                        let parts = [host.clone(), date.clone(), run];
                        members.runs.push(Member { parts, files: Files::Directory(directory) });
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

fn version_in(directory: &Path) -> Result<(), String> {
    let text =
        fs::read(directory.join(MANIFEST)).map_err(|error| format!("{MANIFEST} cannot be read ({error})"))?;
    version(&text)
}

/// Whether this build reads a run, by its manifest.
pub(crate) fn version(manifest: &[u8]) -> Result<(), String> {
    let manifest: Value =
        serde_json::from_slice(manifest).map_err(|error| format!("{MANIFEST} is damaged ({error})"))?;
    match manifest.get("dataset").and_then(Value::as_u64) {
        Some(found) if (1..=VERSION).contains(&found) => Ok(()),
        Some(found) => {
            let by = manifest.get("packed_by").and_then(Value::as_str).unwrap_or("?");
            Err(format!(
                "written by holdup {by} in dataset version {found}; this holdup reads up to {VERSION}: use the newer one"
            ))
        }
        None => Err(format!("{MANIFEST} has no dataset version")),
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
