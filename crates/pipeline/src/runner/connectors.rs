//! Connectors of a runner: the sources and queries that its program can open.

use std::sync::Arc;

use firn_model::{Error, Result};

use crate::definition::Definition;
use crate::sources::{Clock, Source};
use crate::tables::{OpenQuery, QueriedTable, TableDefinition};

/// Makes the source of a definition, as this program has it.
pub type OpenSource = Arc<dyn Fn(&Definition) -> Result<Box<dyn Source>> + Send + Sync>;

/// What a program can connect to.
#[derive(Clone)]
pub struct Connectors {
    /// Sources.
    pub open_source: OpenSource,
    /// Queries of tables.
    pub open_query: OpenQuery,
}

impl Connectors {
    /// Returns connectors without queries: a table that needs one is refused.
    pub fn of_sources(open_source: OpenSource) -> Self {
        Self {
            open_source,
            open_query: Arc::new(|_| Err(Error::illegal_argument("this program has no tables of PostgreSQL"))),
        }
    }

    /// Loads the tables of a definition that are read by queries.
    pub(super) async fn load_queries(&self, definition: &Definition, clock: &Clock) -> Result<Vec<QueriedTable>> {
        let mut loaded = Vec::new();
        for (name, table) in &definition.tables {
            if let TableDefinition::Postgresql(query) = table {
                let opened = (self.open_query)(query)?;
                loaded.push(QueriedTable::load(name, query.clone(), opened, clock()).await?);
            }
        }
        Ok(loaded)
    }
}
