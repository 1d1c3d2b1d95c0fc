//! Errors of a query, with the position in its text and a suggested name.

use datafusion::common::{DataFusionError, SchemaError};

use crate::nearest::nearest;
use crate::{raw, views};

/// An error of a query.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// The query makes no sense, or cannot be answered.
    #[error("{message}{}", place(.sql, *.line, *.column))]
    Sql {
        /// The error.
        message: String,
        /// The query.
        sql: String,
        /// Line in the query, from 1. 0 if unknown.
        line: usize,
        /// Column in it, from 1.
        column: usize,
    },
    /// The query needs more memory than its limit.
    #[error(
        "the query needs more memory than it may have ({reason}): give it more with --memory, or ask for less"
    )]
    Memory {
        /// The operator and the requested memory.
        reason: String,
    },
    /// The query is longer than the planner's stack allows.
    #[error("the query has {bytes} bytes, and may have {}", crate::run::SQL_BYTES_MAX)]
    TooLong {
        /// The length.
        bytes: usize,
    },
    /// The query was interrupted.
    #[error("interrupted")]
    Interrupted {
        /// By which signal.
        signal: i32,
    },
    /// A reader gave up.
    #[error("the query failed, perhaps because a table of the recording is damaged: {0}")]
    Failed(String),
    /// A bucket cannot be reached, or refuses.
    #[error("{place}: {reason}")]
    Bucket {
        /// Which one, and where in it.
        place: String,
        /// Why.
        reason: String,
    },
    /// The answer cannot be written.
    #[error("the answer cannot be written: {0}")]
    Output(#[from] std::io::Error),
}

/// The line of the query that is meant, with a mark under the place.
fn place(sql: &str, line: usize, column: usize) -> String {
    let Some(text) = line.checked_sub(1).and_then(|line| sql.lines().nth(line)) else { return String::new() };
    let before: String =
        text.chars().take(column.saturating_sub(1)).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
    format!("\n  line {line}, column {column}:\n    {text}\n    {before}^")
}

impl QueryError {
    /// Converts the engine's error about `sql`. `columns` are the columns of all tables.
    pub(crate) fn new(error: &DataFusionError, sql: &str) -> QueryError {
        let root = error.find_root();
        if let DataFusionError::ResourcesExhausted(reason) = root {
            return QueryError::Memory { reason: first_line(reason).to_owned() };
        }
        let message = message(error, root);
        let (line, column) = position(error, &message).or_else(|| named_place(root, sql)).unwrap_or((0, 0));
        let message = without_position(&message);
        QueryError::Sql { message, sql: sql.to_owned(), line, column }
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or(text)
}

/// Returns the error without the engine's internal wording.
fn message(error: &DataFusionError, root: &DataFusionError) -> String {
    let text = match root {
        DataFusionError::SchemaError(schema, _) => return of_schema(schema),
        DataFusionError::SQL(parse, _) => parse.to_string().replace("sql parser error: ", ""),
        DataFusionError::Plan(text) | DataFusionError::Execution(text) => match error {
            DataFusionError::Context(what, _) => format!("{what}: {text}"),
            _ => text.clone(),
        },
        DataFusionError::Context(..) => root.to_string(),
        _ => match error {
            DataFusionError::Context(what, _) => format!("{what}: {}", root.message()),
            _ => root.message().into_owned(),
        },
    };
    match missing_table(&text) {
        Some(table) => no_table(&table),
        None => match missing_function(&text) {
            Some(function) => format!("there is no function {function} (`--schema functions` lists them)"),
            None => text.trim().to_owned(),
        },
    }
}

fn of_schema(error: &SchemaError) -> String {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => {
            let names: Vec<&str> = valid_fields.iter().map(|one| one.name.as_str()).collect();
            let there = match nearest(&field.name, names.iter().copied()) {
                Some(name) => format!(": did you mean {name}?"),
                None if names.is_empty() => String::new(),
                None => format!(": there are {}", names.join(", ")),
            };
            format!("there is no column {}{there}", field.flat_name())
        }
        SchemaError::AmbiguousReference { field } => {
            format!("{} is in several tables: qualify it, as in slices.{}", field.name, field.name)
        }
        other => other.to_string(),
    }
}

/// `holdup.views.slcies` of "table 'holdup.views.slcies' not found".
fn missing_table(text: &str) -> Option<String> {
    let name = text.strip_prefix("table '")?.strip_suffix("' not found")?;
    let name = name.strip_prefix("holdup.").unwrap_or(name);
    Some(name.strip_prefix("views.").unwrap_or(name).to_owned())
}

fn missing_function(text: &str) -> Option<String> {
    let rest = text.split("nvalid function '").nth(1)?;
    let (name, rest) = rest.split_once('\'')?;
    let meant = rest.split("Did you mean '").nth(1).and_then(|rest| rest.split_once('\''));
    Some(match meant {
        Some((meant, _)) if nearest(name, [meant]).is_some() => format!("{name} (did you mean {meant}?)"),
        _ => name.to_owned(),
    })
}

fn no_table(name: &str) -> String {
    let own = name.strip_prefix("raw.").unwrap_or(name);
    let in_raw = own != name;
    let names: Vec<&str> =
        if in_raw { raw::names().collect() } else { views::all().iter().map(|view| view.name()).collect() };
    let there = match nearest(own, names.iter().copied()) {
        Some(meant) if in_raw => format!(": did you mean raw.{meant}?"),
        Some(meant) => format!(": did you mean {meant}?"),
        None => format!(": there are {}", names.join(", ")),
    };
    format!("there is no table {name}{there}")
}

/// Returns the position that the engine reports, or that its text contains.
fn position(error: &DataFusionError, message: &str) -> Option<(usize, usize)> {
    if let Some(span) = error.diagnostic().and_then(|told| told.span) {
        return Some((span.start.line as usize, span.start.column as usize));
    }
    let (_, rest) = message.split_once(" at Line: ")?;
    let (line, rest) = rest.split_once(", Column: ")?;
    let column: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some((line.trim().parse().ok()?, column.parse().ok()?))
}

fn without_position(message: &str) -> String {
    message.split(" at Line: ").next().unwrap_or(message).to_owned()
}

/// Returns the position of the unknown column in the query, if the engine does not report it.
fn named_place(root: &DataFusionError, sql: &str) -> Option<(usize, usize)> {
    let DataFusionError::SchemaError(error, _) = root else { return None };
    let SchemaError::FieldNotFound { field, .. } = error.as_ref() else { return None };
    let at = sql.to_lowercase().find(&field.name.to_lowercase())?;
    let before = sql.get(..at)?;
    let line = before.matches('\n').count() + 1;
    Some((line, before.rsplit('\n').next().unwrap_or("").chars().count() + 1))
}
