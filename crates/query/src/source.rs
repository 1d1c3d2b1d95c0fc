//! A view as the engine reads it: in batches, the asked columns only, several streams at a time.

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, StringViewArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};

use crate::facts::Facts;
use crate::view::View;

/// Rows examined per batch.
const BATCH: usize = 8192;

/// A recording under its name.
#[derive(Clone, Debug)]
pub struct Named {
    /// Value of the column `recording`.
    pub name: Arc<str>,
    /// The recording's facts.
    pub facts: Arc<Facts>,
}

/// A view of one recording, or of several, with a column for the recording's name.
#[derive(Clone)]
pub struct ViewTable {
    view: Arc<dyn View>,
    recordings: Vec<Named>,
    schema: SchemaRef,
}

/// Name of the column with the recording's name.
pub const RECORDING: &str = "recording";

impl ViewTable {
    /// Of these recordings.
    pub fn new(view: Arc<dyn View>, recordings: Vec<Named>) -> ViewTable {
        let mut fields = Vec::new();
        if recordings.len() > 1 {
            fields.push(Field::new(RECORDING, DataType::Utf8View, false));
        }
        fields.extend(view.columns().into_iter().map(|(name, kind, _)| Field::new(name, kind, true)));
        ViewTable { view, recordings, schema: Arc::new(Schema::new(fields)) }
    }
}

impl std::fmt::Debug for ViewTable {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "view {}", self.view.name())
    }
}

#[async_trait]
impl TableProvider for ViewTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let columns: Vec<usize> = match projection {
            Some(columns) => columns.clone(),
            None => (0..self.schema.fields().len()).collect(),
        };
        let schema = Arc::new(self.schema.project(&columns)?);
        let streams = state.config().target_partitions().div_ceil(self.recordings.len().max(1)).max(1);
        let mut parts: Vec<Arc<dyn PartitionStream>> = Vec::new();
        for recording in &self.recordings {
            let places = self.view.places(&recording.facts);
            for places in divided(places, streams) {
                parts.push(Arc::new(Part {
                    view: Arc::clone(&self.view),
                    recording: recording.clone(),
                    several: self.recordings.len() > 1,
                    places,
                    columns: columns.clone(),
                    schema: Arc::clone(&schema),
                }));
            }
        }
        Ok(Arc::new(StreamingTableExec::try_new(schema, parts, None, [], false, limit)?))
    }
}

/// `0..places` in `parts` ranges of whole batches, at least one.
fn divided(places: usize, parts: usize) -> Vec<Range<usize>> {
    let each = places.div_ceil(BATCH).div_ceil(parts).max(1) * BATCH;
    let mut ranges: Vec<Range<usize>> =
        (0..places).step_by(each).map(|from| from..(from + each).min(places)).collect();
    if ranges.is_empty() {
        ranges.push(Range::default());
    }
    ranges
}

/// Some rows of a view.
struct Part {
    view: Arc<dyn View>,
    recording: Named,
    several: bool,
    places: Range<usize>,
    /// Columns of the whole table, including the recording's name.
    columns: Vec<usize>,
    schema: SchemaRef,
}

impl std::fmt::Debug for Part {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "{:?} of view {}", self.places, self.view.name())
    }
}

impl Part {
    fn batch(&self, places: Range<usize>) -> Result<RecordBatch> {
        let own = usize::from(self.several);
        let of_view: Vec<usize> = self.columns.iter().filter_map(|column| column.checked_sub(own)).collect();
        let (arrays, rows) = self.view.batch(&self.recording.facts, places, &of_view);
        let mut arrays = arrays.into_iter();
        let column = |index: &usize| -> Option<ArrayRef> {
            if *index >= own {
                return arrays.next();
            }
            Some(Arc::new(StringViewArray::from_iter_values(std::iter::repeat_n(
                &*self.recording.name,
                rows,
            ))))
        };
        let arrays: Vec<ArrayRef> = self.columns.iter().filter_map(column).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)?)
    }
}

impl PartitionStream for Part {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let part = Part {
            view: Arc::clone(&self.view),
            recording: self.recording.clone(),
            several: self.several,
            places: self.places.clone(),
            columns: self.columns.clone(),
            schema: Arc::clone(&self.schema),
        };
        let starts = self.places.clone().step_by(BATCH);
        let batches = starts.map(move |from| part.batch(from..(from + BATCH).min(part.places.end)));
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), futures::stream::iter(batches)))
    }
}
