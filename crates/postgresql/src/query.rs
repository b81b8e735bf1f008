//! Query of a table.

use std::future::pending;
use std::time::Duration;

use async_trait::async_trait;
use firn_model::Result;
use firn_pipeline::tables::{PostgresqlDefinition, TableQuery};
use futures_util::TryStreamExt;

use crate::connection::{Connection, connect, print};

/// Time of one query, with the transfer of its rows.
const QUERY_TIME_MAX: Duration = Duration::from_secs(300);
/// Maximum bytes of the rows of a table, as JSON.
const BYTES_MAX: usize = 1 << 30;
/// Pause before a connection that listens is opened anew.
const LISTEN_AGAIN_AFTER: Duration = Duration::from_secs(5);

/// Rows of a query, read over a connection that stays open only to listen.
pub struct PostgresqlQuery {
    definition: PostgresqlDefinition,
    connection: Option<Connection>,
    /// Notifications before the rows were read.
    seen: u64,
}

impl PostgresqlQuery {
    /// Makes the query of a definition; nothing connects.
    ///
    /// # Errors
    /// None; the signature is that of [`firn_pipeline::tables::OpenQuery`].
    pub fn of_definition(definition: &PostgresqlDefinition) -> Result<Box<dyn TableQuery>> {
        Ok(Box::new(Self {
            definition: definition.clone(),
            connection: None,
            seen: 0,
        }))
    }

    async fn connected(&mut self) -> std::result::Result<&mut Connection, String> {
        let definition = &self.definition;
        let connection = connect(&definition.connection_file, definition.certificate_authority.as_deref()).await?;
        if let Some(channel) = &definition.listen {
            let channel = channel.replace('"', "\"\"");
            let listens = connection.client.batch_execute(&format!("LISTEN \"{channel}\"")).await;
            listens.map_err(print)?;
        }
        Ok(self.connection.insert(connection))
    }

    async fn read(&mut self) -> std::result::Result<Vec<String>, String> {
        // A trailing semicolon would end the statement around it; a trailing comment would swallow the rest of its line.
        let query = self.definition.query.trim().trim_end_matches(';').to_owned();
        let statement = format!("SELECT row_to_json(firn_row)::text FROM (\n{query}\n) AS firn_row");
        let connection = match &mut self.connection {
            Some(connection) if !connection.client.is_closed() => self.connection.as_mut(),
            _ => None,
        };
        let connection = match connection {
            Some(connection) => connection,
            None => self.connected().await?,
        };
        // What is announced from here on may be missing in the rows.
        let seen = *connection.notifications.borrow();
        let transaction = connection.client.build_transaction().read_only(true).start();
        let transaction = transaction.await.map_err(print)?;
        let parameters: [&str; 0] = [];
        let rows = transaction.query_raw(&statement, parameters).await.map_err(print)?;
        let mut rows = std::pin::pin!(rows);
        let (mut lines, mut bytes) = (Vec::new(), 0_usize);
        while let Some(row) = rows.try_next().await.map_err(print)? {
            let line: String = row.try_get(0).map_err(print)?;
            bytes += line.len();
            if bytes > BYTES_MAX {
                return Err(format!("the rows have more than {BYTES_MAX} bytes"));
            }
            lines.push(line);
        }
        transaction.commit().await.map_err(print)?;
        self.seen = seen;
        Ok(lines)
    }
}

#[async_trait]
impl TableQuery for PostgresqlQuery {
    async fn rows(&mut self) -> std::result::Result<Vec<String>, String> {
        let read = tokio::time::timeout(QUERY_TIME_MAX, self.read()).await;
        let read = read.unwrap_or_else(|_| Err(format!("no rows within {} s", QUERY_TIME_MAX.as_secs())));
        if read.is_err() || self.definition.listen.is_none() {
            self.connection = None;
        }
        read
    }

    async fn changed(&mut self) {
        if self.definition.listen.is_none() {
            return pending().await;
        }
        let seen = self.seen;
        if let Some(connection) = &mut self.connection
            && connection.notifications.wait_for(|count| *count > seen).await.is_ok()
        {
            return;
        }
        // The connection is gone, and notifications may have been missed.
        self.connection = None;
        tokio::time::sleep(LISTEN_AGAIN_AFTER).await;
    }
}
