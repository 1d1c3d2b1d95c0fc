//! Which tables a query can name: views by their own names, raw tables as `raw.NAME`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::common::{DataFusionError, Result};
use datafusion::prelude::SessionContext;

use crate::facts::Facts;
use crate::raw::{self, Files};
use crate::source::{Named, ViewTable};
use crate::views;

/// Reads a recording into memory.
pub type Load = Box<dyn Fn() -> Result<Facts, String> + Send + Sync>;

/// A recording that is read when a view of it is asked for.
pub struct Lazy {
    /// The name.
    pub name: Arc<str>,
    load: Load,
    facts: OnceLock<Result<Arc<Facts>, String>>,
}

impl Lazy {
    /// A recording that `load` reads.
    pub fn new(name: Arc<str>, load: Load) -> Lazy {
        Lazy { name, load, facts: OnceLock::new() }
    }

    fn named(&self) -> Result<Named> {
        let facts = self.facts.get_or_init(|| (self.load)().map(Arc::new));
        match facts {
            Ok(facts) => Ok(Named { name: Arc::clone(&self.name), facts: Arc::clone(facts) }),
            Err(reason) => Err(DataFusionError::Execution(reason.clone())),
        }
    }
}

impl std::fmt::Debug for Lazy {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "recording {}", self.name)
    }
}

/// The default schema with the views. Also contains tables on disk without a view of the same name.
#[derive(Debug)]
pub struct Views {
    /// The recordings.
    pub recordings: Vec<Lazy>,
    /// Tables under their own names.
    pub raw: Arc<Raw>,
}

#[async_trait]
impl SchemaProvider for Views {
    fn table_names(&self) -> Vec<String> {
        views::all().iter().map(|view| view.name().to_owned()).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let Some(view) = views::named(name) else { return self.raw.table(name).await };
        let recordings = self.recordings.iter().map(Lazy::named).collect::<Result<Vec<Named>>>()?;
        Ok(Some(Arc::new(ViewTable::new(Arc::clone(view), recordings))))
    }

    fn table_exist(&self, name: &str) -> bool {
        views::named(name).is_some() || self.raw.table_exist(name)
    }
}

/// The schema `raw`: the tables as they lie on disk.
pub struct Raw {
    /// Of which recordings.
    pub recordings: Vec<Files>,
    reader: SessionContext,
    known: Mutex<BTreeMap<String, Arc<dyn TableProvider>>>,
}

impl Raw {
    /// Of these recordings.
    pub fn new(recordings: Vec<Files>) -> Raw {
        Raw { recordings, reader: SessionContext::new(), known: Mutex::default() }
    }
}

impl std::fmt::Debug for Raw {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "tables of {} recordings", self.recordings.len())
    }
}

#[async_trait]
impl SchemaProvider for Raw {
    fn table_names(&self) -> Vec<String> {
        let is_there = |name: &str| {
            let file = format!("{name}.parquet");
            self.recordings.iter().any(|recording| recording.directory.join(&file).is_file())
        };
        raw::names().filter(|name| is_there(name)).map(str::to_owned).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let known = |known: &Mutex<BTreeMap<String, Arc<dyn TableProvider>>>| {
            known.lock().ok().and_then(|known| known.get(name).cloned())
        };
        if let Some(table) = known(&self.known) {
            return Ok(Some(table));
        }
        let table = raw::table(&self.reader, &self.recordings, name).await?;
        if let (Some(table), Ok(mut known)) = (&table, self.known.lock()) {
            known.insert(name.to_owned(), Arc::clone(table));
        }
        Ok(table)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.table_names().iter().any(|known| known == name)
    }
}
