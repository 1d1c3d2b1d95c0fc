//! `holdup query`

use std::fs::File;
use std::io::{BufWriter, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use holdup_events::recording;
use holdup_query::listing::{self, TableInfo};
use holdup_query::{Answer, Cell, Cells, Engine, Facts, Options, QueryError, Runner, Subject};
use holdup_report::rows;

use super::locate::{self, Tables};
use crate::cli::query::QueryArgs;

/// Shells report the end by signal N as exit status 128 + N.
const EXIT_SIGNAL: i32 = 128;

/// Executes a query, or lists tables and functions.
pub fn execute(args: &QueryArgs) -> Result<ExitCode> {
    if let Some(table) = &args.schema {
        return schema(table, args);
    }
    let (recordings, sql) = split(args)?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let options = Options { memory_bytes: usize::try_from(args.memory).unwrap_or(usize::MAX), threads };
    // Those that are unpacked go when they do.
    let mut opened = Vec::new();
    let engine = match &args.dataset {
        Some(root) => match super::dataset::engine(root, options) {
            Err(error) => return interrupted(&error).ok_or(error),
            Ok(engine) => engine,
        },
        None => {
            opened = open(&recordings)?;
            Engine::new(opened.iter().map(subject).collect(), options)?
        }
    };
    // Before there is a file that a signal would leave behind.
    let mut runner = Runner::new(threads)?;
    let form = Form::from_args(args)?;
    let answered = runner.run(async move { form.write(&mut engine.ask(&sql).await?).await });
    drop(opened);
    match answered {
        Ok(said) => {
            said.iter().for_each(|line| say!("holdup: {line}"));
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            // Half an answer is none.
            if let Some(file) = &args.parquet {
                let _ = std::fs::remove_file(file);
            }
            let error = error.into();
            interrupted(&error).ok_or(error)
        }
    }
}

/// Returns the exit status if a signal ended the query.
pub fn interrupted(error: &anyhow::Error) -> Option<ExitCode> {
    match error.downcast_ref()? {
        QueryError::Interrupted { signal } => Some(ExitCode::from((EXIT_SIGNAL + signal) as u8)),
        _ => None,
    }
}

/// The recordings that are named, and the query.
fn split(args: &QueryArgs) -> Result<(Vec<PathBuf>, String)> {
    let mut words = args.words.clone();
    let sql = match &args.file {
        Some(file) => std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?,
        None => match words.pop() {
            Some(word) if word == "-" => {
                let mut text = String::new();
                std::io::stdin()
                    .read_to_string(&mut text)
                    .context("reading the query from standard input")?;
                text
            }
            Some(word) => word.into_string().map_err(|word| {
                anyhow::anyhow!("'{}' is no query: it is not UTF-8", word.to_string_lossy())
            })?,
            None => bail!(
                "a query is wanted, such as \"SELECT * FROM findings\"; `holdup query --schema` lists the tables"
            ),
        },
    };
    if sql.trim().is_empty() {
        bail!("the query is empty");
    }
    if args.file.is_none() && Path::new(&sql).exists() {
        bail!("'{sql}' is a file: the query comes last (or in a file, with --file)");
    }
    if let (Some(_), Some(first)) = (&args.dataset, words.first()) {
        bail!("'{}': --dataset takes no recording, and the query is one word", first.to_string_lossy());
    }
    Ok((words.into_iter().map(PathBuf::from).collect(), sql))
}

fn open(named: &[PathBuf]) -> Result<Vec<Tables>> {
    if named.is_empty() {
        return Ok(vec![locate::tables(None)?]);
    }
    named.iter().map(|path| locate::tables(Some(path))).collect()
}

/// Returns the recording as the engine's subject.
pub fn subject(tables: &Tables) -> Subject {
    let directory = tables.directory.clone();
    Subject {
        name: tables.path.display().to_string(),
        directory: tables.directory.clone(),
        load: Box::new(move || {
            recording::open(&directory).map(Facts::new).map_err(|error| error.to_string())
        }),
    }
}

/// Where an answer goes.
enum Form {
    Table { rows_max: usize },
    Csv,
    Json,
    Parquet(PathBuf, File),
}

impl Form {
    fn from_args(args: &QueryArgs) -> Result<Form> {
        if args.parquet.is_none() {
            super::stdout()?;
        }
        Ok(match &args.parquet {
            Some(file) => Form::Parquet(file.clone(), super::outputs::create(file, args.force)?),
            None if args.csv => Form::Csv,
            None if args.json => Form::Json,
            None => Form::Table { rows_max: args.rows },
        })
    }

    /// Writes the answer. Returns the notes to print about it.
    async fn write(self, answer: &mut Answer) -> Result<Vec<String>, QueryError> {
        let mut out = BufWriter::new(std::io::stdout());
        let mut said = Vec::new();
        match self {
            Form::Csv => _ = holdup_query::write_csv(answer, &mut out).await?,
            Form::Json => _ = holdup_query::write_json(answer, &mut out).await?,
            Form::Parquet(path, file) => {
                let rows = holdup_query::write_parquet(answer, file, &[]).await?;
                said.push(format!(
                    "wrote {} ({})",
                    path.display(),
                    holdup_report::numbers::counted(rows as u64, "row")
                ));
            }
            Form::Table { rows_max } => {
                let cells = Cells::first_rows(answer, rows_max).await?;
                out.write_all(table(&cells).as_bytes())?;
                if cells.left_out > 0 {
                    let left_out = holdup_report::numbers::counted(cells.left_out as u64, "more row");
                    said.push(format!("{left_out}: --rows N, --csv, --json and --parquet give more"));
                }
            }
        }
        out.flush()?;
        Ok(said)
    }
}

fn table(cells: &Cells) -> String {
    let names: Vec<&str> = cells.columns.iter().map(|(name, _)| name.as_str()).collect();
    let cell = |(name, cell): (&&str, &Cell)| match cell {
        Cell::Null => String::new(),
        Cell::Int(value) => rows::whole(name, *value),
        Cell::Real(value) => rows::real(name, *value),
        Cell::Text(text) => text.clone(),
    };
    let lines: Vec<Vec<String>> =
        cells.rows.iter().map(|row| names.iter().zip(row).map(cell).collect()).collect();
    let stdout = std::io::stdout();
    rows::render(&cells.columns, &lines, (&super::style(&stdout), stdout.is_terminal()))
}

fn schema(table: &str, args: &QueryArgs) -> Result<ExitCode> {
    let (headings, lines) = match table {
        "" => (&["table", "row"][..], listing::tables().iter().map(table_line).collect()),
        "functions" => (
            &["function", "result"][..],
            listing::functions()
                .iter()
                .map(|(call, gives)| vec![(*call).to_owned(), (*gives).to_owned()])
                .collect(),
        ),
        name => match listing::table(name) {
            Ok(table) => (&["column", "type", "meaning"][..], column_lines(&table)),
            Err(Some(meant)) => bail!("there is no table {name}: did you mean {meant}?"),
            Err(None) => bail!("there is no table {name}: `holdup query --schema` lists them"),
        },
    };
    if args.json {
        let object = |line: &Vec<String>| -> serde_json::Value {
            let pairs =
                headings.iter().zip(line).map(|(key, value)| ((*key).to_owned(), value.clone().into()));
            serde_json::Value::Object(pairs.collect())
        };
        let rows: Vec<serde_json::Value> = lines.iter().map(object).collect();
        let columns: serde_json::Value =
            headings.iter().map(|name| serde_json::json!({"name": name, "type": "text"})).collect();
        return super::print_json(
            &serde_json::json!({"schema_version": 1, "columns": columns, "rows": rows}),
        );
    }
    let headings: Vec<rows::Heading> = headings.iter().map(|name| ((*name).to_owned(), false)).collect();
    super::print(&rows::render(&headings, &lines, (&super::style(&std::io::stdout()), false)))
}

fn table_line(table: &TableInfo) -> Vec<String> {
    vec![table.name.clone(), table.meaning.clone()]
}

fn column_lines(table: &TableInfo) -> Vec<Vec<String>> {
    table.columns.iter().map(|one| vec![one.name.clone(), one.kind.clone(), one.meaning.clone()]).collect()
}
