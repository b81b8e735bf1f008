//! Catalog: all metadata in one redb file, changed in one durable transaction per command.
//!
//! | table | key | value |
//! |---|---|---|
//! | `node` | `format`, `cluster_uuid`, `version` | text |
//! | `node` | `placement` (if there is one) | JSON of the placement table |
//! | `node` | `closed_tenants` (if there are any) | JSON list of names |
//! | `node` | `ilm` (if there is any) | JSON of the lifecycle policies and their mode |
//! | `node` | `slm` (if there is any) | the same of snapshot lifecycle policies |
//! | `node` | `ingest` (if there is any) | JSON of the ingest pipelines by id |
//! | `node` | `event_pipelines` (if there is any) | the same of event pipelines |
//! | `node` | `detection_rules`, `alert_channels`, `maintenance_windows` (if there are any) | the same of detection rules, of alert channels, and of maintenance windows |
//! | `node` | `enrich_policies` (if there is any) | the same of enrich policies, with the index of their records |
//! | `indices`, `data_streams`, `component_templates`, `index_templates` | name | JSON of the entity |
//! | `repositories` | name | JSON of the repository |
//! | `cluster_settings` | flat name | JSON of the value |
//! | `deleted_indices` | uuid | name of an index whose files may still exist |
//!
//! The file is `catalog.redb` in the data folder. A format number higher than
//! [`FORMAT`] is refused, so that an older firn never rewrites a format that it does not know.
//!
//! redb refuses all calls after one I/O error (a full disk, for example), so after an error the
//! file is reopened: its content then decides whether the change was stored.

mod file;
mod inspection;

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_model::ilm::Policies;
use firn_model::mapping::Mapping;
use firn_model::metadata::{
    ComponentTemplate, DataStream, IndexMetadata, IndexTemplate, Indices, Metadata, PipelineBodies,
};
use firn_model::placement::Placement;
use firn_model::repository::RepositoryMetadata;
use firn_model::shared_map::Difference;
use firn_model::slm::SnapshotPolicies;
use firn_model::{Error, ErrorKind, Result};
use firn_storage::disk::Disk;
use redb::backends::InMemoryBackend;
use redb::{
    Database, DatabaseError, ReadTransaction, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition,
    WriteTransaction,
};
use serde_json::Value;

use self::file::CatalogFile;
pub(crate) use self::inspection::Inspection;
pub use self::inspection::is_panic_reported;

/// Format of the tables and their JSON.
pub(crate) const FORMAT: u32 = 1;

/// Previous indices, in the order of names, whose mapping an index may share: the names of mounts of one snapshot
/// differ at the end or in the middle.
const MAPPINGS_COMPARED: usize = 8;

type Table = TableDefinition<'static, &'static str, &'static [u8]>;

const NODE: Table = TableDefinition::new("node");
const INDICES: Table = TableDefinition::new("indices");
const DATA_STREAMS: Table = TableDefinition::new("data_streams");
const COMPONENT_TEMPLATES: Table = TableDefinition::new("component_templates");
const INDEX_TEMPLATES: Table = TableDefinition::new("index_templates");
const REPOSITORIES: Table = TableDefinition::new("repositories");
const CLUSTER_SETTINGS: Table = TableDefinition::new("cluster_settings");
/// The only list by which a start removes files of indices.
const DELETED_INDICES: Table = TableDefinition::new("deleted_indices");

/// Opens the store in a file; replaced in tests.
type Opener = Box<dyn Fn(&Path) -> Result<Database, DatabaseError> + Send>;

/// Open store. One owner; [`Catalog::store`] is called by one thread at a time.
pub(crate) struct Catalog {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    open: Opener,
    /// `None` after an error, until the file can be opened again.
    database: Option<Database>,
}

/// Why a change was not stored.
#[derive(Debug)]
pub(crate) struct StoreFailure {
    pub(crate) error: Error,
    /// It is unknown whether the file has the change. If it has, a start before the next
    /// change applies it; the next change reverts it.
    pub(crate) maybe_stored: bool,
}

impl Catalog {
    /// Opens or creates `catalog.redb`. Fails with the file's name if it is damaged or newer.
    pub(crate) fn open(disk: &Arc<dyn Disk>, path: &Path) -> Result<Self> {
        let own = Arc::clone(disk);
        let open = move |path: &Path| {
            make_durable(&*own, path)?;
            builder().create_with_backend(CatalogFile::open(&*own, path)?)
        };
        Self::open_with(disk, path, Box::new(open))
    }

    fn open_with(disk: &Arc<dyn Disk>, path: &Path, open: Opener) -> Result<Self> {
        let mut catalog = Self {
            disk: Arc::clone(disk),
            path: path.to_owned(),
            open,
            database: None,
        };
        catalog.database = match catalog.connect() {
            // The catalog can be read without writing; the next change opens it again.
            Err(error)
                if error.kind() == ErrorKind::DiskFull && catalog.disk.exists(&catalog.path).unwrap_or(false) =>
            {
                tracing::warn!(%error, "the disk is full: the catalog is opened read-only");
                None
            }
            connected => Some(connected?),
        };
        Ok(catalog)
    }

    /// Returns a copy of the file in memory: opening the file itself may write, to repair it after a crash.
    fn copy(&self) -> Result<Database> {
        let bytes = self.disk.read(&self.path)?;
        let copy = InMemoryBackend::new();
        copy.set_len(bytes.len() as u64)?;
        copy.write(0, &bytes)?;
        let database = builder().create_with_backend(copy).map_err(failed)?;
        Self::prepare(&database)?;
        Ok(database)
    }

    fn connect(&self) -> Result<Database> {
        let path = self.path.display();
        let named = |what: &str, error: Error| {
            Error::new(error.kind(), format!("cannot {what} the catalog [{path}]")).caused_by(error)
        };
        let database = (self.open)(&self.path).map_err(|error| named("open", failed(error)))?;
        Self::prepare(&database).map_err(|error| named("read", error))?;
        Ok(database)
    }

    fn prepare(database: &Database) -> Result<()> {
        let transaction = database.begin_write().map_err(failed)?;
        {
            let mut node = transaction.open_table(NODE).map_err(failed)?;
            let format = match node.get("format").map_err(failed)? {
                Some(stored) => Some(text(stored.value())?.parse::<u32>().map_err(unreadable)?),
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
                REPOSITORIES,
                CLUSTER_SETTINGS,
                DELETED_INDICES,
            ] {
                transaction.open_table(table).map_err(failed)?;
            }
        }
        transaction.commit().map_err(failed)
    }

    /// Reads a catalog's file from a copy in memory, and verifies the checksum of every page. The file is not changed.
    pub(crate) fn inspect(disk: &dyn Disk, path: &Path) -> Result<Inspection> {
        inspection::inspect(disk, path)
    }

    /// Writes a catalog with these contents to a new file; an existing file is replaced.
    pub(crate) fn write_new(
        disk: &Arc<dyn Disk>,
        path: &Path,
        metadata: &Metadata,
        deleted: &HashSet<String>,
    ) -> Result<()> {
        match disk.remove_file(path) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
        let catalog = Self::open(disk, path)?;
        let Some(database) = &catalog.database else {
            return Err(Error::internal("the new catalog is closed"));
        };
        Self::write(database, &Metadata::default(), metadata)?;
        let transaction = database.begin_write().map_err(failed)?;
        {
            let mut table = transaction.open_table(DELETED_INDICES).map_err(failed)?;
            for uuid in deleted {
                table.insert(uuid.as_str(), &b""[..]).map_err(failed)?;
            }
        }
        transaction.commit().map_err(failed)
    }

    /// Verifies the checksum of every page, and repairs damage if possible; returns whether there was none.
    pub(crate) fn check_integrity(&mut self) -> Result<bool> {
        match &mut self.database {
            Some(database) => database.check_integrity().map_err(failed),
            None => Ok(true),
        }
    }

    fn read_deleted(database: &Database) -> Result<HashSet<String>> {
        let transaction = database.begin_read().map_err(failed)?;
        let table = match transaction.open_table(DELETED_INDICES) {
            Ok(table) => table,
            // The file is of an earlier build.
            Err(redb::TableError::TableDoesNotExist(_)) => return Ok(HashSet::new()),
            Err(error) => return Err(failed(error)),
        };
        let mut deleted = HashSet::new();
        for entry in table.iter().map_err(failed)? {
            deleted.insert(entry.map_err(failed)?.0.value().to_owned());
        }
        Ok(deleted)
    }

    /// Removes indices from the list of deletions whose files are gone.
    pub(crate) fn forget_deleted(&mut self, uuids: &[String]) -> Result<()> {
        let Some(database) = &self.database else { return Ok(()) };
        let transaction = database.begin_write().map_err(failed)?;
        {
            let mut table = transaction.open_table(DELETED_INDICES).map_err(failed)?;
            for uuid in uuids {
                table.remove(uuid.as_str()).map_err(failed)?;
            }
        }
        transaction.commit().map_err(failed)
    }

    /// Reads all metadata.
    pub(crate) fn load(&self) -> Result<Metadata> {
        match &self.database {
            Some(database) => Self::read(database),
            None => match self.connect() {
                Err(error) if error.kind() == ErrorKind::DiskFull => Self::read(&self.copy()?),
                connected => Self::read(&connected?),
            },
        }
    }

    fn read(database: &Database) -> Result<Metadata> {
        let transaction = database.begin_read().map_err(failed)?;
        let node = transaction.open_table(NODE).map_err(failed)?;
        let number_or_text = |key: &str| -> Result<Option<String>> {
            match node.get(key).map_err(failed)? {
                Some(stored) => Ok(Some(text(stored.value())?.to_owned())),
                None => Ok(None),
            }
        };
        let version = match number_or_text("version")? {
            Some(version) => version.parse().map_err(unreadable)?,
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
            indices: read_indices(&transaction)?,
            data_streams: entities(read(DATA_STREAMS)?, "data stream", DataStream::from_json)?,
            component_templates: entities(
                read(COMPONENT_TEMPLATES)?,
                "component template",
                ComponentTemplate::from_json,
            )?,
            index_templates: entities(read(INDEX_TEMPLATES)?, "index template", IndexTemplate::from_json)?,
            repositories: entities(read(REPOSITORIES)?, "repository", RepositoryMetadata::from_json)?,
            cluster_settings: read(CLUSTER_SETTINGS)?.into_iter().collect(),
            transient_settings: Default::default(),
            configured_settings: Default::default(),
            cluster_uuid: number_or_text("cluster_uuid")?.unwrap_or_default(),
            placement: match number_or_text("placement")? {
                Some(json) => Some(Arc::new(Placement::parse(&serde_json::from_str(&json)?)?)),
                None => None,
            },
            closed_tenants: match number_or_text("closed_tenants")? {
                Some(json) => Arc::new(serde_json::from_str(&json)?),
                None => Arc::default(),
            },
            ingest: match number_or_text("ingest")? {
                Some(json) => Arc::new(PipelineBodies::from_json(&serde_json::from_str(&json)?)?),
                None => Arc::default(),
            },
            event_pipelines: match number_or_text("event_pipelines")? {
                Some(json) => Arc::new(PipelineBodies::from_json(&serde_json::from_str(&json)?)?),
                None => Arc::default(),
            },
            detection_rules: match number_or_text("detection_rules")? {
                Some(json) => Arc::new(PipelineBodies::from_json(&serde_json::from_str(&json)?)?),
                None => Arc::default(),
            },
            alert_channels: match number_or_text("alert_channels")? {
                Some(json) => Arc::new(PipelineBodies::from_json(&serde_json::from_str(&json)?)?),
                None => Arc::default(),
            },
            maintenance_windows: match number_or_text("maintenance_windows")? {
                Some(json) => Arc::new(PipelineBodies::from_json(&serde_json::from_str(&json)?)?),
                None => Arc::default(),
            },
            enrich_policies: match number_or_text("enrich_policies")? {
                Some(json) => Arc::new(PipelineBodies::from_json(&serde_json::from_str(&json)?)?),
                None => Arc::default(),
            },
            slm: match number_or_text("slm")? {
                Some(json) => Arc::new(SnapshotPolicies::from_json(&serde_json::from_str(&json)?)?),
                None => Arc::default(),
            },
            ilm: match number_or_text("ilm")? {
                Some(json) => Arc::new(Policies::from_json(&serde_json::from_str(&json)?)?),
                None => Arc::default(),
            },
        })
    }

    /// Stores the difference between two states: durable as a whole when this returns `Ok`;
    /// otherwise not stored at all, unless the failure says that it may be.
    pub(crate) fn store(&mut self, old: &Metadata, new: &Metadata) -> Result<(), StoreFailure> {
        let (database, stored) = match self.database.take() {
            Some(database) => (database, None),
            // After an error the file may differ from the caller's state.
            None => {
                let reopened = self.connect().and_then(|database| {
                    let stored = Self::read(&database)?;
                    Ok((database, Some(stored)))
                });
                reopened.map_err(|error| StoreFailure {
                    error,
                    maybe_stored: false,
                })?
            }
        };
        let old = stored.as_ref().unwrap_or(old);
        match Self::write(&database, old, new) {
            Ok(()) => {
                self.database = Some(database);
                Ok(())
            }
            Err(error) => {
                // The file is locked until the database is dropped.
                drop(database);
                self.settle(old, new, error)
            }
        }
    }

    /// After an error: finds out what the file contains, and prepares it for the next change.
    fn settle(&mut self, old: &Metadata, new: &Metadata, error: Error) -> Result<(), StoreFailure> {
        let failure = |error, maybe_stored| Err(StoreFailure { error, maybe_stored });
        let Ok(database) = self.connect() else {
            return failure(error, true);
        };
        // Node settings and transient settings are not stored in the file.
        let stored = Self::read(&database).map(|stored| Metadata {
            configured_settings: new.configured_settings.clone(),
            transient_settings: new.transient_settings.clone(),
            ..stored
        });
        match stored {
            Ok(stored) if stored == *old => {
                self.database = Some(database);
                failure(error, false)
            }
            // The change is in the file, but may not be on the disk: a later sync does not repair a failed
            // one, only another write does.
            Ok(stored) if stored == *new => match Self::write(&database, &Metadata::default(), new) {
                Ok(()) => {
                    self.database = Some(database);
                    Ok(())
                }
                Err(error) => failure(error, true),
            },
            _ => failure(error, true),
        }
    }

    fn write(database: &Database, old: &Metadata, new: &Metadata) -> Result<()> {
        let transaction = database.begin_write().map_err(failed)?;
        {
            let mut node = transaction.open_table(NODE).map_err(failed)?;
            node.insert("version", new.version.to_string().as_bytes())
                .map_err(failed)?;
            node.insert("cluster_uuid", new.cluster_uuid.as_bytes())
                .map_err(failed)?;
            match &new.placement {
                Some(placement) => {
                    let json = serde_json::to_vec(&placement.print())?;
                    node.insert("placement", json.as_slice()).map_err(failed)?;
                }
                None => {
                    node.remove("placement").map_err(failed)?;
                }
            }
            if new.closed_tenants.is_empty() {
                node.remove("closed_tenants").map_err(failed)?;
            } else {
                let json = serde_json::to_vec(&*new.closed_tenants)?;
                node.insert("closed_tenants", json.as_slice()).map_err(failed)?;
            }
            if new.ingest != old.ingest {
                let json = serde_json::to_vec(&new.ingest.to_json())?;
                node.insert("ingest", json.as_slice()).map_err(failed)?;
            }
            if new.event_pipelines != old.event_pipelines {
                let json = serde_json::to_vec(&new.event_pipelines.to_json())?;
                node.insert("event_pipelines", json.as_slice()).map_err(failed)?;
            }
            for (name, new, old) in [
                ("detection_rules", &new.detection_rules, &old.detection_rules),
                ("alert_channels", &new.alert_channels, &old.alert_channels),
                (
                    "maintenance_windows",
                    &new.maintenance_windows,
                    &old.maintenance_windows,
                ),
            ] {
                if new != old {
                    let json = serde_json::to_vec(&new.to_json())?;
                    node.insert(name, json.as_slice()).map_err(failed)?;
                }
            }
            if new.enrich_policies != old.enrich_policies {
                let json = serde_json::to_vec(&new.enrich_policies.to_json())?;
                node.insert("enrich_policies", json.as_slice()).map_err(failed)?;
            }
            if new.slm != old.slm {
                let json = serde_json::to_vec(&new.slm.to_json())?;
                node.insert("slm", json.as_slice()).map_err(failed)?;
            }
            if new.ilm != old.ilm {
                let json = serde_json::to_vec(&new.ilm.to_json())?;
                node.insert("ilm", json.as_slice()).map_err(failed)?;
            }
        }
        store_indices(&transaction, &old.indices, &new.indices)?;
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
        store_changes(
            &transaction,
            REPOSITORIES,
            &old.repositories,
            &new.repositories,
            RepositoryMetadata::to_json,
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

/// Indices mounted from one snapshot have the mapping of the time of the mount, mostly an equal one. They share it:
/// thousands of copies would use most of a node's memory.
fn read_indices(transaction: &ReadTransaction) -> Result<Indices> {
    let table = transaction.open_table(INDICES).map_err(failed)?;
    let mut indices = Indices::default();
    let mut mappings: Vec<Arc<Mapping>> = Vec::new();
    for entry in table.iter().map_err(failed)? {
        let (name, json) = entry.map_err(failed)?;
        let json = serde_json::from_slice(json.value())?;
        let mut index = IndexMetadata::from_json(&json)
            .map_err(|error| Error::internal(format!("cannot read index [{}]", name.value())).caused_by(error))?;
        match mappings.iter().find(|known| **known == index.mapping) {
            Some(known) => index.mapping = Arc::clone(known),
            None => mappings.insert(0, Arc::clone(&index.mapping)),
        }
        mappings.truncate(MAPPINGS_COMPARED);
        indices.insert(Arc::new(index));
    }
    Ok(indices)
}

/// Writes changed indices; unchanged ones are skipped.
fn store_indices(transaction: &WriteTransaction, old: &Indices, new: &Indices) -> Result<()> {
    let mut table = transaction.open_table(INDICES).map_err(failed)?;
    let mut deleted = transaction.open_table(DELETED_INDICES).map_err(failed)?;
    for difference in old.differences(new) {
        match difference {
            Difference::Removed(name, index) => {
                table.remove(name).map_err(failed)?;
                deleted.insert(index.uuid.as_str(), name.as_bytes()).map_err(failed)?;
            }
            Difference::Changed(_, before, after) if before == after => {}
            Difference::Added(name, index) | Difference::Changed(name, _, index) => {
                if let Difference::Changed(_, before, _) = difference
                    && before.uuid != index.uuid
                {
                    deleted.insert(before.uuid.as_str(), name.as_bytes()).map_err(failed)?;
                }
                // The index may be adopted from the quarantine.
                deleted.remove(index.uuid.as_str()).map_err(failed)?;
                let json = serde_json::to_vec(&index.to_json())?;
                table.insert(name, json.as_slice()).map_err(failed)?;
            }
        }
    }
    Ok(())
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
    std::str::from_utf8(bytes).map_err(unreadable)
}

/// Rewrites the current content of the file and syncs it. A sync may have failed before, perhaps in an earlier process:
/// then the kernel treats pages as clean that are not on the disk, and a power loss would lose them together with
/// later changes that build on them.
fn make_durable(disk: &dyn Disk, path: &Path) -> std::io::Result<()> {
    if !disk.exists(path)? {
        return Ok(());
    }
    match disk.rewrite_and_sync(path, 0) {
        // Some file systems cannot write in place. The existing content can be read.
        Err(error) if error.kind() == std::io::ErrorKind::StorageFull => {
            tracing::warn!(path = %path.display(), %error, "cannot rewrite the catalog: the disk is full");
            Ok(())
        }
        outcome => outcome,
    }
}

fn builder() -> redb::Builder {
    let mut builder = Database::builder();
    // The catalog has some megabytes; the default cache of a gigabyte is for databases.
    builder.set_cache_size(8 * 1024 * 1024);
    builder
}

/// Converts an error of the store; a full disk stays a full disk.
fn failed(error: impl Into<redb::Error>) -> Error {
    let error = error.into();
    let reason = format!("the catalog failed: {error}");
    match error {
        redb::Error::Io(error) => Error::new(Error::from(error).kind(), reason),
        _ => Error::internal(reason),
    }
}

fn unreadable(error: impl std::fmt::Display) -> Error {
    Error::internal(format!("the catalog failed: {error}"))
}

#[cfg(test)]
mod tests;
