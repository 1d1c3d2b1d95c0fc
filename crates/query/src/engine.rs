//! Answering a query.

use std::path::PathBuf;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{CatalogProvider, MemoryCatalogProvider, SchemaProvider};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::{SendableRecordBatchStream, SessionStateBuilder};
use datafusion::prelude::{SQLOptions, SessionConfig, SessionContext};

use crate::catalogue::{Lazy, Load, Raw, Views};
use crate::dataset::Members;
use crate::error::QueryError;
use crate::fleet::Fleet;
use crate::functions;
use crate::raw::Files;
use crate::run::SQL_BYTES_MAX;

/// A recording that a query is about.
pub struct Subject {
    /// Value of the column `recording`.
    pub name: String,
    /// Where its Parquet files are.
    pub directory: PathBuf,
    /// Reads the recording into memory. Called when a view of it is first used.
    pub load: Load,
}

/// Resources of a query.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Memory for sorting, grouping and joining (bytes). The recording itself, if a view needs it, comes on
    /// top.
    pub memory_bytes: usize,
    /// Number of parallel tasks.
    pub threads: usize,
}

/// Answers queries about some recordings.
pub struct Engine {
    context: SessionContext,
}

/// The rows of an answer, as they come.
pub struct Answer {
    /// The columns.
    pub schema: SchemaRef,
    /// The rows.
    pub batches: SendableRecordBatchStream,
    sql: String,
}

impl Engine {
    /// An engine for these recordings. With several, each table has a first column `recording`.
    ///
    /// # Errors
    /// If the engine cannot be set up.
    pub fn new(subjects: Vec<Subject>, options: Options) -> Result<Engine, QueryError> {
        let mut files = Vec::new();
        let mut recordings = Vec::new();
        for subject in subjects {
            let name: Arc<str> = subject.name.into();
            files.push(Files { name: Arc::clone(&name), directory: subject.directory });
            recordings.push(Lazy::new(name, subject.load));
        }
        let raw = Arc::new(Raw::new(files));
        let views = Views { recordings, raw: Arc::clone(&raw) };
        Engine::with_schemas([("views", Arc::new(views) as _), ("raw", raw)], options)
    }

    /// An engine for a dataset's runs. The last columns of each table are `host`, `date` and `run`.
    ///
    /// # Errors
    /// If the engine cannot be set up.
    pub fn of_dataset(members: Members, options: Options) -> Result<Engine, QueryError> {
        let Members { runs, at, store, .. } = members;
        let fleet: Arc<dyn SchemaProvider> = Arc::new(Fleet { runs: Arc::new(runs), at: at.clone() });
        let engine = Engine::with_schemas([("views", fleet)], options)?;
        if let Some(store) = store {
            engine.context.register_object_store(at.as_ref(), store);
        }
        Ok(engine)
    }

    fn with_schemas<const N: usize>(
        schemas: [(&str, Arc<dyn SchemaProvider>); N],
        options: Options,
    ) -> Result<Engine, QueryError> {
        let failed = |error: datafusion::common::DataFusionError| QueryError::new(&error, "");
        let runtime = RuntimeEnvBuilder::new().with_memory_limit(options.memory_bytes, 1.0);
        let runtime = runtime.build_arc().map_err(failed)?;
        let mut config = SessionConfig::new()
            .with_target_partitions(options.threads)
            .with_default_catalog_and_schema("holdup", "views")
            .with_information_schema(true)
            .with_create_default_catalog_and_schema(false);
        config.options_mut().sql_parser.collect_spans = true;
        let catalogue = MemoryCatalogProvider::new();
        for (name, schema) in schemas {
            catalogue.register_schema(name, schema).map_err(failed)?;
        }
        let state = SessionStateBuilder::new()
            .with_config(config)
            .with_runtime_env(runtime)
            .with_default_features()
            .build();
        let context = SessionContext::new_with_state(state);
        context.register_catalog("holdup", Arc::new(catalogue));
        functions::register(&context);
        Ok(Engine { context })
    }

    /// Plans a query and begins to answer it.
    ///
    /// # Errors
    /// If it makes no sense, with the place and the name that was meant.
    pub async fn ask(&self, sql: &str) -> Result<Answer, QueryError> {
        if sql.len() > SQL_BYTES_MAX {
            return Err(QueryError::TooLong { bytes: sql.len() });
        }
        let failed = |error: datafusion::common::DataFusionError| QueryError::new(&error, sql);
        let reading =
            SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
        let frame = self.context.sql_with_options(sql, reading).await.map_err(failed)?;
        let batches = frame.execute_stream().await.map_err(failed)?;
        Ok(Answer { schema: batches.schema(), batches, sql: sql.to_owned() })
    }

    /// The names of all functions, ours first.
    pub fn functions(&self) -> Vec<String> {
        let state = self.context.state();
        let mut names: Vec<String> = state.scalar_functions().keys().cloned().collect();
        names.extend(state.aggregate_functions().keys().cloned());
        names.extend(state.window_functions().keys().cloned());
        names.sort();
        names.dedup();
        names
    }
}

impl Answer {
    /// Returns the next rows. `None` after the last ones.
    ///
    /// # Errors
    /// If the query fails during the answer: too little memory, or a damaged table.
    pub async fn next(&mut self) -> Result<Option<datafusion::arrow::array::RecordBatch>, QueryError> {
        use futures::StreamExt;
        match self.batches.next().await {
            None => Ok(None),
            Some(Ok(batch)) => Ok(Some(batch)),
            Some(Err(error)) => Err(QueryError::new(&error, &self.sql)),
        }
    }
}
