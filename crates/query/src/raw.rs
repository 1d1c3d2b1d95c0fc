//! A recording's tables as they lie on disk.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::lit;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use holdup_events::recording::TABLES;

use crate::source::RECORDING;

/// A recording's Parquet files, with the value of the column `recording`.
#[derive(Clone, Debug)]
pub struct Files {
    /// The recording's name.
    pub name: Arc<str>,
    /// The directory.
    pub directory: PathBuf,
}

/// The names of all tables.
pub fn names() -> impl Iterator<Item = &'static str> {
    TABLES.iter().map(|table| table.name)
}

/// The table of that name, of all recordings that have it.
///
/// # Errors
/// If a file is no Parquet file, or none is there.
pub async fn table(
    reader: &SessionContext,
    recordings: &[Files],
    name: &str,
) -> Result<Option<Arc<dyn TableProvider>>> {
    if !names().any(|known| known == name) {
        return Ok(None);
    }
    let mut all = None;
    for recording in recordings {
        let file = recording.directory.join(format!("{name}.parquet"));
        if !file.is_file() {
            continue;
        }
        let unreadable = |error: DataFusionError| {
            error.context(format!("raw.{name} of {} cannot be read", recording.name))
        };
        let url = url_of(&std::path::absolute(&file)?);
        let one = reader.read_parquet(url, ParquetReadOptions::default()).await.map_err(unreadable)?;
        let one = if recordings.len() > 1 { labelled(one, &recording.name)? } else { one };
        all = Some(match all {
            None => one,
            Some(all) => datafusion::dataframe::DataFrame::union_by_name(all, one)?,
        });
    }
    Ok(all.map(|frame| frame.into_view()))
}

/// A file's address. Its path as it is would be read as a pattern (`[`, `*`, `?`), or as an address of another kind (`web:1`).
fn url_of(path: &Path) -> String {
    let mut url = "file://".to_owned();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'~' => url.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => url.push(char::from(*byte)),
            byte => url.push_str(&format!("%{byte:02X}")),
        }
    }
    url
}

/// With the recording's name in front.
fn labelled(frame: datafusion::dataframe::DataFrame, name: &str) -> Result<datafusion::dataframe::DataFrame> {
    let columns: Vec<String> = frame.schema().fields().iter().map(|field| field.name().clone()).collect();
    let mut chosen = vec![lit(name).alias(RECORDING)];
    chosen.extend(columns.iter().map(datafusion::prelude::ident));
    frame.select(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_no_patterns() {
        assert_eq!(
            url_of(Path::new("/a/web:1 [x].holdup/waits.parquet")),
            "file:///a/web%3A1%20%5Bx%5D.holdup/waits.parquet"
        );
        assert_eq!(url_of(Path::new("/50%/*?#.parquet")), "file:///50%25/%2A%3F%23.parquet");
    }
}
