//! Listing of tables (columns with units and meaning) and functions. `docs/format.md` describes raw tables,
//! and a test compares it with the written files.

use crate::functions::LIST;
use crate::output::type_name;
use crate::view::ColumnInfo;
use crate::{raw, views};

const FORMAT: &str = include_str!("../../../docs/format.md");

/// A table in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableInfo {
    /// How a query names it.
    pub name: String,
    /// Meaning of a row.
    pub meaning: String,
    /// The columns.
    pub columns: Vec<ColumnInfo>,
}

/// All views, then all raw tables.
pub fn tables() -> Vec<TableInfo> {
    let of_view = |view: &std::sync::Arc<dyn crate::View>| TableInfo {
        name: view.name().to_owned(),
        meaning: view.meaning().to_owned(),
        columns: view
            .columns()
            .into_iter()
            .map(|(name, kind, meaning)| ColumnInfo {
                name: name.to_owned(),
                kind: type_name(&kind).to_owned(),
                meaning: meaning.to_owned(),
            })
            .collect(),
    };
    views::all().iter().map(of_view).chain(raw::names().map(of_raw)).collect()
}

/// Returns the functions that holdup adds to the engine's own: syntax and result.
pub fn functions() -> &'static [(&'static str, &'static str)] {
    LIST
}

/// The table that is meant, or the one that may be.
///
/// # Errors
/// The name that is nearest, if any is near.
pub fn table(name: &str) -> Result<TableInfo, Option<String>> {
    let all = tables();
    match all.iter().find(|table| table.name == name) {
        Some(table) => Ok(table.clone()),
        None => {
            Err(crate::nearest::nearest(name, all.iter().map(|table| table.name.as_str())).map(str::to_owned))
        }
    }
}

fn of_raw(name: &str) -> TableInfo {
    let section = FORMAT.split(&format!("### {name}\n")).nth(1).unwrap_or("");
    let section = section.split("\n##").next().unwrap_or("");
    let cells = |line: &str| -> Option<ColumnInfo> {
        let mut cells = line.strip_prefix("| `")?.trim_end_matches(" |").split(" | ");
        Some(ColumnInfo {
            name: cells.next()?.trim_end_matches('`').to_owned(),
            kind: cells.next()?.to_owned(),
            meaning: cells.collect::<Vec<_>>().join(" | "),
        })
    };
    let columns = section.lines().filter_map(cells).collect();
    TableInfo {
        name: format!("raw.{name}"),
        meaning: "as it lies on disk: docs/format.md".to_owned(),
        columns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_tables_are_listed_with_every_column() {
        for table in holdup_events::recording::TABLES {
            let told = of_raw(table.name);
            let names: Vec<&str> = told.columns.iter().map(|column| column.name.as_str()).collect();
            let wanted: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
            assert_eq!(names, wanted, "{}", table.name);
            assert!(told.columns.iter().all(|column| !column.meaning.is_empty()), "{told:?}");
        }
    }

    #[test]
    fn every_view_describes_its_columns() {
        let all = tables();
        let names: std::collections::BTreeSet<&str> = all.iter().map(|table| table.name.as_str()).collect();
        assert_eq!(names.len(), all.len(), "names are taken once");
        for table in &all {
            let columns: std::collections::BTreeSet<&str> =
                table.columns.iter().map(|column| column.name.as_str()).collect();
            assert_eq!(columns.len(), table.columns.len(), "{}", table.name);
        }
        assert_eq!(table("slcies"), Err(Some("slices".to_owned())));
        assert_eq!(table("elephants"), Err(None));
    }
}
