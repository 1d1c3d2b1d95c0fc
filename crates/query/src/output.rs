//! An answer as CSV, JSON, Parquet, or cells for a table on the terminal.

use std::fs::File;
use std::io::Write;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::csv;
use datafusion::arrow::datatypes::{DataType, Field, Float64Type, Int64Type, Schema, SchemaRef};
use datafusion::arrow::json;
use datafusion::arrow::json::writer::JsonArray;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::basic::{Compression, ZstdLevel};
use datafusion::parquet::file::properties::WriterProperties;

use crate::engine::Answer;
use crate::error::QueryError;

/// Version of the keys of an answer in JSON: raised when one changes its meaning or goes.
const SCHEMA_VERSION: u32 = 1;

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> QueryError {
    QueryError::Output(std::io::Error::other(error))
}

/// Writes CSV with a header line. Returns the number of rows.
///
/// # Errors
/// Those of the answer and of `out`.
pub async fn write_csv(answer: &mut Answer, out: &mut (dyn Write + Send)) -> Result<usize, QueryError> {
    let mut rows = 0;
    let mut writer = csv::WriterBuilder::new().with_header(true).build(&mut *out);
    writer.write(&RecordBatch::new_empty(answer.schema.clone())).map_err(written)?;
    while let Some(batch) = answer.next().await? {
        rows += batch.num_rows();
        writer.write(&batch).map_err(written)?;
    }
    Ok(rows)
}

/// Keeps I/O errors: the caller checks whether the reader has closed the output.
fn written(error: datafusion::arrow::error::ArrowError) -> QueryError {
    match error {
        datafusion::arrow::error::ArrowError::IoError(_, error) => QueryError::Output(error),
        datafusion::arrow::error::ArrowError::CsvError(text) if text.contains("Broken pipe") => {
            QueryError::Output(std::io::ErrorKind::BrokenPipe.into())
        }
        other => failed(other),
    }
}

/// Writes one JSON object: names and types of the columns, and the rows as objects. Returns the number of
/// rows.
///
/// # Errors
/// Those of the answer and of `out`.
pub async fn write_json(answer: &mut Answer, out: &mut (dyn Write + Send)) -> Result<usize, QueryError> {
    let column = |field: &std::sync::Arc<Field>| serde_json::json!({"name": field.name(), "type": type_name(field.data_type())});
    let columns: serde_json::Value = answer.schema.fields().iter().map(column).collect();
    write!(out, "{{\"schema_version\":{SCHEMA_VERSION},\"columns\":{columns},\"rows\":")?;
    let mut rows = 0;
    let builder = json::WriterBuilder::new().with_explicit_nulls(true);
    let mut writer = builder.build::<_, JsonArray>(&mut *out);
    while let Some(batch) = answer.next().await? {
        rows += batch.num_rows();
        writer.write(&batch).map_err(written)?;
    }
    writer.finish().map_err(written)?;
    drop(writer);
    writeln!(out, "}}")?;
    Ok(rows)
}

/// As listings and JSON name types.
pub fn type_name(kind: &DataType) -> &'static str {
    match kind {
        DataType::Boolean => "boolean",
        DataType::Float16 | DataType::Float32 | DataType::Float64 => "double",
        kind if kind.is_integer() => "bigint",
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "text",
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "blob",
        DataType::Null => "null",
        _ => "other",
    }
}

/// Writes a Parquet file that every reader opens: text as text, numbers as signed ones if they fit. Returns
/// the number of rows.
///
/// # Errors
/// Those of the answer and of the file.
pub async fn write_parquet(
    answer: &mut Answer,
    file: File,
    metadata: &[(&str, String)],
) -> Result<usize, QueryError> {
    let schema = portable(&answer.schema);
    let zstd = ZstdLevel::try_new(1).map_or(Compression::UNCOMPRESSED, Compression::ZSTD);
    let pairs = metadata.iter().map(|(key, value)| {
        datafusion::parquet::file::metadata::KeyValue::new((*key).to_owned(), value.clone())
    });
    let properties = WriterProperties::builder()
        .set_compression(zstd)
        .set_key_value_metadata(Some(pairs.collect()).filter(|pairs: &Vec<_>| !pairs.is_empty()))
        .build();
    let mut writer = ArrowWriter::try_new(file, schema.clone(), Some(properties)).map_err(failed)?;
    let mut rows = 0;
    while let Some(batch) = answer.next().await? {
        rows += batch.num_rows();
        let columns = batch.columns().iter().zip(schema.fields());
        let columns = columns.map(|(column, field)| cast(column, field.data_type()));
        let columns = columns.collect::<Result<Vec<ArrayRef>, _>>().map_err(failed)?;
        let batch = RecordBatch::try_new(schema.clone(), columns).map_err(failed)?;
        writer.write(&batch).map_err(failed)?;
    }
    writer.close().map_err(failed)?;
    Ok(rows)
}

/// The same with views of text as text, and no nulls of no type.
fn portable(schema: &SchemaRef) -> SchemaRef {
    let kind = |kind: &DataType| match kind {
        DataType::Utf8View | DataType::Dictionary(..) | DataType::Null => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        other => other.clone(),
    };
    let field = |field: &std::sync::Arc<Field>| {
        Field::new(field.name(), kind(field.data_type()), field.is_nullable())
    };
    std::sync::Arc::new(Schema::new(schema.fields().iter().map(field).collect::<Vec<Field>>()))
}

/// One value of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Not known.
    Null,
    /// A whole number.
    Int(i64),
    /// A number with a fraction.
    Real(f64),
    /// Anything else, as text.
    Text(String),
}

/// Rows of an answer as values.
#[derive(Clone, Debug, Default)]
pub struct Cells {
    /// Names of the columns, and whether they hold numbers.
    pub columns: Vec<(String, bool)>,
    /// The first rows.
    pub rows: Vec<Vec<Cell>>,
    /// Rows that were left out.
    pub left_out: usize,
}

impl Cells {
    /// The first `rows_max` rows of an answer.
    ///
    /// # Errors
    /// Those of the answer.
    pub async fn first_rows(answer: &mut Answer, rows_max: usize) -> Result<Cells, QueryError> {
        let columns = answer.schema.fields().iter();
        let columns = columns.map(|field| (field.name().clone(), field.data_type().is_numeric())).collect();
        let mut cells = Cells { columns, ..Cells::default() };
        while let Some(batch) = answer.next().await? {
            let wanted = batch.num_rows().min(rows_max - cells.rows.len());
            cells.left_out += batch.num_rows() - wanted;
            cells.rows.extend(rows(&batch.slice(0, wanted))?);
        }
        Ok(cells)
    }
}

fn rows(batch: &RecordBatch) -> Result<Vec<Vec<Cell>>, QueryError> {
    let mut rows = vec![Vec::with_capacity(batch.num_columns()); batch.num_rows()];
    for column in batch.columns() {
        let cells = cells(column)?;
        for (row, cell) in rows.iter_mut().zip(cells) {
            row.push(cell);
        }
    }
    Ok(rows)
}

fn cells(column: &ArrayRef) -> Result<Vec<Cell>, QueryError> {
    let kind = column.data_type();
    if kind.is_integer() && *kind != DataType::UInt64 {
        let whole = cast(column, &DataType::Int64).map_err(failed)?;
        return Ok(whole
            .as_primitive::<Int64Type>()
            .iter()
            .map(|value| value.map_or(Cell::Null, Cell::Int))
            .collect());
    }
    if kind.is_floating() {
        let real = cast(column, &DataType::Float64).map_err(failed)?;
        return Ok(real
            .as_primitive::<Float64Type>()
            .iter()
            .map(|value| value.map_or(Cell::Null, Cell::Real))
            .collect());
    }
    let options = FormatOptions::default();
    let formatter = ArrayFormatter::try_new(column, &options).map_err(failed)?;
    let cell = |row: usize| match column.is_null(row) {
        true => Cell::Null,
        false => Cell::Text(formatter.value(row).to_string()),
    };
    Ok((0..column.len()).map(cell).collect())
}
