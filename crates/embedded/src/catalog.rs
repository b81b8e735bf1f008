//! The catalog: all metadata in one redb file, changed in one durable transaction per command.
//!
//! | table | key | value |
//! |---|---|---|
//! | `node` | `format`, `cluster_uuid`, `version` | text |
//! | `indices`, `data_streams`, `component_templates`, `index_templates` | name | JSON of the entity |
//! | `cluster_settings` | flat name | JSON of the value |
//!
//! The file is `catalog.redb` in the data folder. A format number higher than
//! [`FORMAT`] is refused, so that an older firn never rewrites what it does not understand.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use firn_model::metadata::{ComponentTemplate, DataStream, IndexMetadata, IndexTemplate, Metadata};
use firn_model::{Error, Result};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};
use serde_json::Value;

/// Of the tables and their JSON.
pub(crate) const FORMAT: u32 = 1;

type Table = TableDefinition<'static, &'static str, &'static [u8]>;

const NODE: Table = TableDefinition::new("node");
const INDICES: Table = TableDefinition::new("indices");
const DATA_STREAMS: Table = TableDefinition::new("data_streams");
const COMPONENT_TEMPLATES: Table = TableDefinition::new("component_templates");
const INDEX_TEMPLATES: Table = TableDefinition::new("index_templates");
const CLUSTER_SETTINGS: Table = TableDefinition::new("cluster_settings");

/// The open store. One owner; [`Catalog::store`] is called by one thread at a time.
pub(crate) struct Catalog {
    database: Database,
}

impl Catalog {
    /// Opens or makes `catalog.redb`. Fails with the file's name if it is damaged or newer.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let database = Database::builder()
            // The catalog is some megabytes; the default cache of a gigabyte is for databases.
            .set_cache_size(8 * 1024 * 1024)
            .create(path)
            .map_err(|error| Error::internal(format!("cannot open the catalog [{}]: {error}", path.display())))?;
        let catalog = Self { database };
        catalog.prepare().map_err(|error| {
            Error::internal(format!("cannot read the catalog [{}]", path.display())).caused_by(error)
        })?;
        Ok(catalog)
    }

    fn prepare(&self) -> Result<()> {
        let transaction = self.database.begin_write().map_err(failed)?;
        {
            let mut node = transaction.open_table(NODE).map_err(failed)?;
            let format = match node.get("format").map_err(failed)? {
                Some(stored) => Some(text(stored.value())?.parse::<u32>().map_err(failed)?),
                None => None,
            };
            match format {
                Some(format) if format > FORMAT => {
                    return Err(Error::internal(format!(
                        "it has format [{format}], this firn reads up to [{FORMAT}]: use the firn that wrote it or a newer one"
                    )));
                }
                Some(_) => {}
                None => {
                    node.insert("format", FORMAT.to_string().as_bytes()).map_err(failed)?;
                }
            }
            for table in [
                INDICES,
                DATA_STREAMS,
                COMPONENT_TEMPLATES,
                INDEX_TEMPLATES,
                CLUSTER_SETTINGS,
            ] {
                transaction.open_table(table).map_err(failed)?;
            }
        }
        transaction.commit().map_err(failed)
    }

    /// Reads everything.
    pub(crate) fn load(&self) -> Result<Metadata> {
        let transaction = self.database.begin_read().map_err(failed)?;
        let node = transaction.open_table(NODE).map_err(failed)?;
        let number_or_text = |key: &str| -> Result<Option<String>> {
            match node.get(key).map_err(failed)? {
                Some(stored) => Ok(Some(text(stored.value())?.to_owned())),
                None => Ok(None),
            }
        };
        let version = match number_or_text("version")? {
            Some(version) => version.parse().map_err(failed)?,
            None => 0,
        };
        let read = |table: Table| -> Result<Vec<(String, Value)>> {
            let table = transaction.open_table(table).map_err(failed)?;
            let mut entries = Vec::new();
            for entry in table.iter().map_err(failed)? {
                let (key, value) = entry.map_err(failed)?;
                entries.push((key.value().to_owned(), serde_json::from_slice(value.value())?));
            }
            Ok(entries)
        };
        Ok(Metadata {
            version,
            indices: entities(read(INDICES)?, "index", IndexMetadata::from_json)?,
            data_streams: entities(read(DATA_STREAMS)?, "data stream", DataStream::from_json)?,
            component_templates: entities(
                read(COMPONENT_TEMPLATES)?,
                "component template",
                ComponentTemplate::from_json,
            )?,
            index_templates: entities(read(INDEX_TEMPLATES)?, "index template", IndexTemplate::from_json)?,
            cluster_settings: read(CLUSTER_SETTINGS)?.into_iter().collect(),
            cluster_uuid: number_or_text("cluster_uuid")?.unwrap_or_default(),
        })
    }

    /// Stores the difference between two states: durable as a whole when this returns `Ok`, and
    /// nothing of it otherwise.
    pub(crate) fn store(&self, old: &Metadata, new: &Metadata) -> Result<()> {
        let transaction = self.database.begin_write().map_err(failed)?;
        {
            let mut node = transaction.open_table(NODE).map_err(failed)?;
            node.insert("version", new.version.to_string().as_bytes())
                .map_err(failed)?;
            node.insert("cluster_uuid", new.cluster_uuid.as_bytes())
                .map_err(failed)?;
        }
        store_changes(
            &transaction,
            INDICES,
            &old.indices,
            &new.indices,
            IndexMetadata::to_json,
        )?;
        store_changes(
            &transaction,
            DATA_STREAMS,
            &old.data_streams,
            &new.data_streams,
            DataStream::to_json,
        )?;
        store_changes(
            &transaction,
            COMPONENT_TEMPLATES,
            &old.component_templates,
            &new.component_templates,
            ComponentTemplate::to_json,
        )?;
        store_changes(
            &transaction,
            INDEX_TEMPLATES,
            &old.index_templates,
            &new.index_templates,
            IndexTemplate::to_json,
        )?;
        store_settings(&transaction, old, new)?;
        transaction.commit().map_err(failed)
    }
}

fn entities<T>(
    entries: Vec<(String, Value)>,
    what: &str,
    read: impl Fn(&Value) -> Result<T>,
) -> Result<BTreeMap<String, Arc<T>>> {
    entries
        .into_iter()
        .map(|(name, json)| match read(&json) {
            Ok(entity) => Ok((name, Arc::new(entity))),
            Err(error) => Err(Error::internal(format!("cannot read {what} [{name}]")).caused_by(error)),
        })
        .collect()
}

fn store_changes<T: PartialEq>(
    transaction: &WriteTransaction,
    table: Table,
    old: &BTreeMap<String, Arc<T>>,
    new: &BTreeMap<String, Arc<T>>,
    print: impl Fn(&T) -> Value,
) -> Result<()> {
    let mut table = transaction.open_table(table).map_err(failed)?;
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        table.remove(name.as_str()).map_err(failed)?;
    }
    for (name, entity) in new {
        let unchanged = old
            .get(name)
            .is_some_and(|before| Arc::ptr_eq(before, entity) || before == entity);
        if !unchanged {
            let json = serde_json::to_vec(&print(entity))?;
            table.insert(name.as_str(), json.as_slice()).map_err(failed)?;
        }
    }
    Ok(())
}

fn store_settings(transaction: &WriteTransaction, old: &Metadata, new: &Metadata) -> Result<()> {
    let mut table = transaction.open_table(CLUSTER_SETTINGS).map_err(failed)?;
    for name in old.cluster_settings.keys() {
        if !new.cluster_settings.contains_key(name) {
            table.remove(name.as_str()).map_err(failed)?;
        }
    }
    for (name, value) in &new.cluster_settings {
        if old.cluster_settings.get(name) != Some(value) {
            table
                .insert(name.as_str(), serde_json::to_vec(value)?.as_slice())
                .map_err(failed)?;
        }
    }
    Ok(())
}

fn text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(failed)
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::internal(format!("the catalog failed: {error}"))
}
