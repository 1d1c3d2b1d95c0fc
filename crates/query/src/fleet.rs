//! The tables of a dataset as the engine reads them: a view's columns, then those of the partitions, from one file a run.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, StringViewArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::{SchemaProvider, Session, TableProvider};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::expr_rewriter::unnormalize_col;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::object_store::ObjectMeta;
use datafusion::physical_plan::ExecutionPlan;

use crate::dataset::{LABELS, Member, PARTITIONS, column_name};
use crate::views;

/// The schema of a dataset's tables.
#[derive(Debug)]
pub struct Fleet {
    /// The runs.
    pub runs: Arc<Vec<Member>>,
    /// Where they are.
    pub at: ObjectStoreUrl,
}

#[async_trait]
impl SchemaProvider for Fleet {
    fn table_names(&self) -> Vec<String> {
        views::all().iter().map(|view| view.name()).chain([LABELS]).map(str::to_owned).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let Some(columns) = columns(name) else { return Ok(None) };
        Ok(Some(Arc::new(FleetTable {
            name: name.to_owned(),
            runs: Arc::clone(&self.runs),
            at: self.at.clone(),
            schema: schema(columns),
        })))
    }

    fn table_exist(&self, name: &str) -> bool {
        columns(name).is_some()
    }
}

/// The columns of a table's files.
fn columns(table: &str) -> Option<Vec<Field>> {
    if table == LABELS {
        return Some(["label", "value"].map(|name| Field::new(name, DataType::Utf8View, true)).to_vec());
    }
    let view = views::named(table)?;
    let field = |(name, kind, _): (&str, DataType, _)| Field::new(column_name(name), kind, true);
    Some(view.columns().into_iter().map(field).collect())
}

fn schema(columns: Vec<Field>) -> TableSchema {
    let partition = |name| Arc::new(Field::new(name, DataType::Utf8View, false));
    TableSchema::new(Arc::new(Schema::new(columns)), PARTITIONS.map(partition).to_vec())
}

/// A table of all runs.
#[derive(Debug)]
struct FleetTable {
    name: String,
    runs: Arc<Vec<Member>>,
    at: ObjectStoreUrl,
    schema: TableSchema,
}

#[async_trait]
impl TableProvider for FleetTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.schema.table_schema())
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let support = |filter: &&Expr| match is_of_partitions(filter) {
            true => TableProviderFilterPushDown::Exact,
            false => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(support).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let wanted = wanted(state, &self.runs, filters)?;
        let mut files = Vec::new();
        for (run, wanted) in self.runs.iter().zip(wanted) {
            if wanted && let Some(table) = run.table(&self.name)? {
                files.push(file(table, run));
            }
        }
        let groups = FileGroup::new(files).split_files(state.config().target_partitions().max(1));
        let source = Arc::new(ParquetSource::new(self.schema.clone()));
        let config = FileScanConfigBuilder::new(self.at.clone(), source)
            .with_file_groups(groups)
            .with_limit(limit)
            .with_projection_indices(projection.cloned())?
            .build();
        Ok(DataSourceExec::from_data_source(config))
    }
}

fn file(table: ObjectMeta, run: &Member) -> PartitionedFile {
    let values = run.parts.iter().map(|value| ScalarValue::Utf8View(Some(value.clone()))).collect();
    PartitionedFile::new_from_meta(table).with_partition_values(values)
}

/// Whether the filter only depends on a run's partition columns.
fn is_of_partitions(filter: &Expr) -> bool {
    !filter.is_volatile()
        && filter.column_refs().iter().all(|column| PARTITIONS.contains(&column.name.as_str()))
}

/// Which runs all of these filters let through, so that no other is opened.
fn wanted(state: &dyn Session, runs: &[Member], filters: &[Expr]) -> Result<Vec<bool>> {
    let fields = PARTITIONS.map(|name| Field::new(name, DataType::Utf8View, false)).to_vec();
    let schema = Arc::new(Schema::new(fields));
    let column = |part: usize| -> ArrayRef {
        Arc::new(StringViewArray::from_iter_values(runs.iter().map(|run| &run.parts[part])))
    };
    let batch = RecordBatch::try_new(Arc::clone(&schema), (0..PARTITIONS.len()).map(column).collect())?;
    let named = DFSchema::try_from(schema)?;
    let mut wanted = vec![true; runs.len()];
    for filter in filters.iter().filter(|filter| is_of_partitions(filter)) {
        // Whose table a column is of is decided: there is only one here.
        let filter = unnormalize_col(filter.clone());
        let told = state.create_physical_expr(filter, &named)?.evaluate(&batch)?.into_array(runs.len())?;
        let told = told.as_any().downcast_ref::<BooleanArray>();
        for (run, wanted) in wanted.iter_mut().enumerate() {
            // NULL does not pass a filter, as always in SQL.
            *wanted &= told.is_some_and(|told| told.is_valid(run) && told.value(run));
        }
    }
    Ok(wanted)
}
