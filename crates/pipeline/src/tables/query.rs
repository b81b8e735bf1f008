//! Tables whose rows are those of a query of a database: the first version, and the ones that follow it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use firn_model::{Error, Result};
use tokio::sync::watch;

use super::{KeyValueTable, PostgresqlDefinition, Refresh, Table, TableHandle};
use crate::clock::Clock;

const NANOS_PER_MS: i64 = 1_000_000;
/// Pause after a notification before the rows are read: notifications often come in crowds.
const AFTER_NOTIFICATION: Duration = Duration::from_millis(100);

/// Query of a database.
#[async_trait]
pub trait TableQuery: Send {
    /// Reads all rows: one JSON object a line, the columns in the order of the query.
    ///
    /// # Errors
    /// Why there are none. The next call connects anew.
    async fn rows(&mut self) -> std::result::Result<Vec<String>, String>;

    /// Resolves when the database says that the rows have changed, or when it may have said so unheard. Never resolves if it
    /// was not told to.
    async fn changed(&mut self);
}

/// Makes the query of a definition; nothing connects.
pub type OpenQuery = Arc<dyn Fn(&PostgresqlDefinition) -> Result<Box<dyn TableQuery>> + Send + Sync>;

/// A table and its query.
pub(crate) struct QueriedTable {
    pub(crate) handle: Arc<TableHandle>,
    definition: PostgresqlDefinition,
    query: Box<dyn TableQuery>,
}

impl QueriedTable {
    /// Loads the first version.
    ///
    /// # Errors
    /// The rows cannot be read, or are no table.
    pub(crate) async fn load(
        name: &str,
        definition: PostgresqlDefinition,
        mut query: Box<dyn TableQuery>,
        now_ns: i64,
    ) -> Result<Self> {
        let table = read(&definition, &mut *query).await;
        let table = table.map_err(|reason| Error::illegal_argument(format!("table [{name}]: {reason}")))?;
        Ok(Self {
            handle: Arc::new(TableHandle::of_query(name, table, now_ns / NANOS_PER_MS)),
            definition,
            query,
        })
    }

    /// Loads the rows again by interval and by notification, until the pipeline stops.
    pub(crate) async fn follow(mut self, pipeline: Arc<str>, clock: Clock, mut stopped: watch::Receiver<bool>) {
        // A definition with another interval is refused when it is read.
        let interval = Duration::from_millis(self.definition.refresh_ms().unwrap_or(u64::MAX));
        loop {
            let is_notified = tokio::select! {
                () = tokio::time::sleep(interval) => false,
                () = self.query.changed() => true,
                _ = stopped.wait_for(|stopped| *stopped) => return,
            };
            if is_notified {
                tokio::time::sleep(AFTER_NOTIFICATION).await;
            }
            let loaded = tokio::select! {
                loaded = read(&self.definition, &mut *self.query) => loaded,
                _ = stopped.wait_for(|stopped| *stopped) => return,
            };
            if let Refresh::Failed(error) = self.handle.publish(loaded, clock() / NANOS_PER_MS) {
                tracing::warn!(pipeline = &*pipeline, %error, "the last version of a table stays in use");
            }
        }
    }
}

async fn read(
    definition: &PostgresqlDefinition,
    query: &mut dyn TableQuery,
) -> std::result::Result<Box<dyn Table>, String> {
    let mut lines = query.rows().await?;
    if lines.is_empty() && !definition.allow_empty {
        return Err("the query returns no rows; if that is right, set [allow_empty]".to_owned());
    }
    let made = tokio::task::spawn_blocking(move || {
        // The database may return the same rows in another order, which makes no other version.
        lines.sort_unstable();
        KeyValueTable::from_ndjson(lines.join("\n").as_bytes())
    });
    let made = made
        .await
        .map_err(|_| "failed because of a bug, see the log".to_owned())?;
    Ok(Box::new(made?))
}
