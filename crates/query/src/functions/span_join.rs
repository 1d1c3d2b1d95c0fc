//! `span_join('A', 'B' [, 'COLUMN'])`: rows of two tables where they overlap in time.
//!
//! Sweeps over both tables in the order of their starts. The time is that of sorting, plus the length of the
//! answer. A join by inequality would compare each row with each.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, UInt32Array};
use datafusion::arrow::compute::{cast, concat_batches, take};
use datafusion::arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{DataFusionError, Result, ScalarValue, exec_err, plan_err};
use datafusion::dataframe::DataFrame;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::prelude::{SQLOptions, SessionContext};

use crate::run::STACK_BYTES;

use super::sweep::{Interval, pairs};

/// Rows of one batch of the answer.
const BATCH: usize = 8192;
/// Required columns of each table.
const TIMES: [&str; 2] = ["start_ns", "end_ns"];

/// The function.
pub struct SpanJoin {
    context: SessionContext,
}

impl SpanJoin {
    /// A function whose queries `context` executes.
    pub fn new(context: SessionContext) -> SpanJoin {
        SpanJoin { context }
    }
}

impl std::fmt::Debug for SpanJoin {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str("span_join")
    }
}

impl TableFunctionImpl for SpanJoin {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let words = args.exprs().iter().map(word).collect::<Result<Vec<String>>>()?;
        let (a, b, keys) = match &words[..] {
            [a, b] => (a, b, Vec::new()),
            [a, b, keys] => (a, b, keys.split(',').map(|key| key.trim().to_owned()).collect()),
            _ => {
                return plan_err!(
                    "span_join takes two tables or queries, and the column that must be the same"
                );
            }
        };
        let (a, b) = (self.plan(a)?, self.plan(b)?);
        for (name, frame) in [("first", &a), ("second", &b)] {
            for column in keys.iter().map(String::as_str).chain(TIMES) {
                if frame.schema().field_with_unqualified_name(column).is_err() {
                    return plan_err!("span_join: the {name} table has no column {column}");
                }
            }
        }
        let schema = joined_schema(&a, &b, &keys);
        Ok(Arc::new(Joined { a, b, keys, schema }))
    }
}

fn word(expr: &Expr) -> Result<String> {
    match expr {
        Expr::Literal(ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)), _) => {
            Ok(text.clone())
        }
        other => plan_err!("span_join takes names of tables or queries as texts, not {other}"),
    }
}

impl SpanJoin {
    /// Plans a table's name or a query. Planning may wait for files, which is not allowed in the calling
    /// thread, so a separate thread does it.
    fn plan(&self, text: &str) -> Result<DataFrame> {
        let is_name = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
        let sql = if is_name { format!("SELECT * FROM {text}") } else { text.to_owned() };
        let reading =
            SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
        let runtime = tokio::runtime::Handle::try_current()
            .map_err(|error| DataFusionError::External(Box::new(error)))?;
        std::thread::scope(|scope| {
            let plan = || runtime.block_on(self.context.sql_with_options(&sql, reading));
            let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, plan)?;
            thread.join().unwrap_or_else(|_| exec_err!("span_join: planning failed"))
        })
    }
}

/// Key columns, the overlap, then the other columns of A, then those of B.
fn joined_schema(a: &DataFrame, b: &DataFrame, keys: &[String]) -> SchemaRef {
    let mut fields: Vec<Field> = Vec::new();
    for key in keys {
        if let Ok(field) = a.schema().field_with_unqualified_name(key) {
            fields.push(Field::new(key, field.data_type().clone(), true));
        }
    }
    fields.extend(["start_ns", "end_ns", "duration_ns"].map(|name| Field::new(name, DataType::Int64, false)));
    for (frame, is_b) in [(a, false), (b, true)] {
        for field in frame.schema().fields() {
            if let Some(name) = name_of(field.name(), is_b, keys) {
                fields.push(Field::new(name, field.data_type().clone(), true));
            }
        }
    }
    Arc::new(Schema::new(fields))
}

/// Returns the result's name for a column of A or B. `None` if it is left out.
fn name_of(name: &str, is_b: bool, keys: &[String]) -> Option<String> {
    let is_time = TIMES.contains(&name) || name == "duration_ns";
    match is_b {
        _ if keys.iter().any(|key| key == name) => None,
        true => Some(format!("b_{name}")),
        false if is_time => Some(format!("a_{name}")),
        false => Some(name.to_owned()),
    }
}

struct Joined {
    a: DataFrame,
    b: DataFrame,
    keys: Vec<String>,
    schema: SchemaRef,
}

impl std::fmt::Debug for Joined {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str("span_join")
    }
}

#[async_trait]
impl TableProvider for Joined {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let memory = MemoryConsumer::new("span_join").register(&state.runtime_env().memory_pool);
        let (a, b) = (collect(&self.a, &memory).await?, collect(&self.b, &memory).await?);
        let (of_a, of_b) = intervals(&a, &b, &self.keys)?;
        let pairs = pairs(&of_a, &of_b, |bytes| memory.try_grow(bytes))?;
        let columns = projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let schema = Arc::new(self.schema.project(&columns)?);
        let columns = self.columns(&a, &b, &columns)?;
        let both = Both { columns, of_a, of_b, pairs, _memory: memory };
        let rows = Rows { both: Arc::new(both), schema: Arc::clone(&schema) };
        Ok(Arc::new(StreamingTableExec::try_new(schema, vec![Arc::new(rows)], None, [], false, limit)?))
    }
}

async fn collect(frame: &DataFrame, memory: &MemoryReservation) -> Result<RecordBatch> {
    let schema = Arc::clone(frame.schema().inner());
    let batches = frame.clone().collect().await?;
    let all = concat_batches(&schema, &batches)?;
    if all.num_rows() > u32::MAX as usize {
        return exec_err!("span_join: a table has more than {} rows", u32::MAX);
    }
    memory.try_grow(all.get_array_memory_size())?;
    Ok(all)
}

/// Converts the rows of both tables to intervals. Equal keys have equal numbers.
fn intervals(a: &RecordBatch, b: &RecordBatch, keys: &[String]) -> Result<(Vec<Interval>, Vec<Interval>)> {
    let mut of_a = Vec::new();
    let mut of_b = Vec::new();
    for key in keys {
        let (Some(in_a), Some(in_b)) = (a.column_by_name(key), b.column_by_name(key)) else {
            return exec_err!("span_join: no column {key}");
        };
        of_a.push(Arc::clone(in_a));
        of_b.push(cast(in_b, in_a.data_type())?);
    }
    let numbers = numbers(&of_a, &of_b, a.num_rows())?;
    let (numbers_a, numbers_b) = numbers.split_at(numbers.len().min(a.num_rows()));
    Ok((times(a, &of_a, numbers_a)?, times(b, &of_b, numbers_b)?))
}

/// Returns the number of each row's key, the rows of A first. Empty without keys.
fn numbers(of_a: &[ArrayRef], of_b: &[ArrayRef], rows_a: usize) -> Result<Vec<u32>> {
    if of_a.is_empty() {
        return Ok(Vec::new());
    }
    let fields = of_a.iter().map(|column| SortField::new(column.data_type().clone())).collect();
    let converter = RowConverter::new(fields)?;
    let (rows, others) = (converter.convert_columns(of_a)?, converter.convert_columns(of_b)?);
    let mut known = std::collections::HashMap::new();
    let mut numbers = Vec::with_capacity(rows_a + others.num_rows());
    for row in rows.iter().chain(others.iter()) {
        let next = known.len() as u32;
        numbers.push(*known.entry(row.data().to_vec()).or_insert(next));
    }
    Ok(numbers)
}

/// Rows with an unknown time or an unknown part of the key overlap with nothing. NULL is not equal to any
/// value, as in a join.
fn times(batch: &RecordBatch, columns: &[ArrayRef], keys: &[u32]) -> Result<Vec<Interval>> {
    let column = |name: &str| -> Result<ArrayRef> {
        match batch.column_by_name(name) {
            Some(column) => Ok(cast(column, &DataType::Int64)?),
            None => exec_err!("span_join: no column {name}"),
        }
    };
    let (starts, ends) = (column(TIMES[0])?, column(TIMES[1])?);
    let (starts, ends) = (starts.as_primitive::<Int64Type>(), ends.as_primitive::<Int64Type>());
    let row = |row: usize| {
        let has_key = columns.iter().all(|column| column.is_valid(row));
        let known = has_key && starts.is_valid(row) && ends.is_valid(row);
        let end = if known { ends.value(row) } else { i64::MIN };
        Interval { key: keys.get(row).copied().unwrap_or(0), start: starts.value(row), end }
    };
    Ok((0..batch.num_rows()).map(row).collect())
}

/// Where a column of the answer comes from.
enum From {
    /// The overlap's start, end or length.
    Start,
    End,
    Length,
    A(ArrayRef),
    B(ArrayRef),
}

impl Joined {
    /// Where the columns come from that are asked for.
    fn columns(&self, a: &RecordBatch, b: &RecordBatch, asked: &[usize]) -> Result<Vec<From>> {
        let column = |batch: &RecordBatch, name: &str| -> Result<ArrayRef> {
            match batch.column_by_name(name) {
                Some(column) => Ok(Arc::clone(column)),
                None => exec_err!("span_join: no column {name}"),
            }
        };
        let mut all: Vec<From> =
            self.keys.iter().map(|key| Ok(From::A(column(a, key)?))).collect::<Result<_>>()?;
        all.extend([From::Start, From::End, From::Length]);
        for (batch, is_b) in [(a, false), (b, true)] {
            for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
                if name_of(field.name(), is_b, &self.keys).is_some() {
                    let column = Arc::clone(column);
                    all.push(if is_b { From::B(column) } else { From::A(column) });
                }
            }
        }
        let mut all: Vec<Option<From>> = all.into_iter().map(Some).collect();
        let take_out = |index: &usize| all.get_mut(*index).and_then(Option::take);
        Ok(asked.iter().filter_map(take_out).collect())
    }
}

/// Both tables, and which rows go together.
struct Both {
    columns: Vec<From>,
    of_a: Vec<Interval>,
    of_b: Vec<Interval>,
    pairs: Vec<(u32, u32)>,
    /// Held for as long as the rows are.
    _memory: MemoryReservation,
}

impl Both {
    fn batch(&self, schema: &SchemaRef, pairs: &[(u32, u32)]) -> Result<RecordBatch> {
        let rows_a: UInt32Array = pairs.iter().map(|(a, _)| *a).collect();
        let rows_b: UInt32Array = pairs.iter().map(|(_, b)| *b).collect();
        let each = |of: fn(&Interval, &Interval) -> i64| -> ArrayRef {
            let one = |(a, b): &(u32, u32)| of(&self.of_a[*a as usize], &self.of_b[*b as usize]);
            Arc::new(pairs.iter().map(one).collect::<Int64Array>())
        };
        let column = |from: &From| -> Result<ArrayRef> {
            Ok(match from {
                From::Start => each(|a, b| a.start.max(b.start)),
                From::End => each(|a, b| a.end.min(b.end)),
                From::Length => each(|a, b| a.end.min(b.end) - a.start.max(b.start)),
                From::A(column) => take(column, &rows_a, None)?,
                From::B(column) => take(column, &rows_b, None)?,
            })
        };
        let arrays = self.columns.iter().map(column).collect::<Result<Vec<ArrayRef>>>()?;
        let options = datafusion::arrow::array::RecordBatchOptions::new().with_row_count(Some(pairs.len()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)?)
    }
}

/// The answer.
struct Rows {
    both: Arc<Both>,
    schema: SchemaRef,
}

impl std::fmt::Debug for Rows {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "{} rows of span_join", self.both.pairs.len())
    }
}

impl PartitionStream for Rows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (both, schema) = (Arc::clone(&self.both), Arc::clone(&self.schema));
        let starts = (0..both.pairs.len()).step_by(BATCH);
        let batches = starts.map(move |from| {
            let to = (from + BATCH).min(both.pairs.len());
            both.batch(&schema, &both.pairs[from..to])
        });
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), futures::stream::iter(batches)))
    }
}
