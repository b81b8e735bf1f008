//! Rebuild of a lost or damaged catalog from the files of a data folder.
//!
//! It has three sources, and the newest one counts for each entity: the catalog's file as far as it can be read, the
//! copy of all metadata, and the record in each index folder. Information in no source is reported, never guessed.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_model::metadata::{DataStream, IndexMetadata, Metadata};
use firn_model::tier::Tier;
use firn_model::{Error, Result};
use firn_segment::catalog_version::CatalogVersion;
use firn_shard::Shard;
use firn_storage::disk::Disk;

use super::index_record::{IndexRecord, RecordState};
use super::start_check::Evidence;
use super::{CATALOG_FILE, CatalogCopy, Quarantine};
use crate::catalog::{Catalog, Inspection};
use crate::lock::NodeLock;
use crate::mounts::manifest_file;
use crate::tiers::TierPaths;

/// Report of a rebuild.
#[derive(Debug, Clone, Default)]
pub struct RebuildReport {
    /// Content of each source and what was used of it, one line each.
    pub found: Vec<String>,
    /// Data that could not be used, or is missing, one line each.
    pub problems: Vec<String>,
    /// Number of indices in the new catalog.
    pub index_count: usize,
    /// Version of the new catalog.
    pub version: u64,
    /// New path of the previous catalog, if it existed and was replaced.
    pub replaced: Option<PathBuf>,
}

/// Folder of an index and its record.
struct Folder {
    /// `None`: it is below `indices/`; otherwise its id in the quarantine.
    quarantined: Option<String>,
    tier: Tier,
    dir: PathBuf,
    uuid: String,
    record: Result<Option<IndexRecord>>,
}

/// Rebuilds a catalog from a data folder. Changes nothing unless `apply`; then the new catalog replaces the old one,
/// which stays beside it, and folders of its indices are moved out of the quarantine. No other process may have the
/// data folder open.
pub fn rebuild_catalog(disk: Arc<dyn Disk>, path_data: &Path, tiers: &TierPaths, apply: bool) -> Result<RebuildReport> {
    if !disk.exists(path_data)? {
        return Err(Error::illegal_argument(format!(
            "there is no data folder [{}]",
            path_data.display()
        )));
    }
    let _lock = NodeLock::take(&*disk, path_data)?;
    let evidence = Evidence::gather(&*disk, path_data, tiers)?;
    let quarantine = Quarantine::new(Arc::clone(&disk), path_data, tiers);
    let mut rebuild = Rebuild {
        disk: &*disk,
        path_data,
        report: RebuildReport::default(),
        metadata: Metadata::default(),
        deleted: HashSet::new(),
        newest: 0,
    };
    rebuild.take_stored()?;
    let mut folders: Vec<Folder> = evidence
        .folders
        .into_iter()
        .map(|folder| Folder {
            quarantined: None,
            tier: folder.tier,
            dir: folder.dir,
            uuid: folder.uuid,
            record: folder.record,
        })
        .collect();
    for folder in quarantine.list()? {
        folders.push(Folder {
            quarantined: Some(folder.id),
            tier: folder.tier,
            record: IndexRecord::read(&*disk, &folder.files),
            dir: folder.files,
            uuid: folder.reason.folder,
        });
    }
    rebuild.take_noted(
        evidence.noted.map(|noted| (noted.cluster_uuid, noted.version)),
        &folders,
    )?;
    let brought_back = rebuild.take_folders(&folders)?;
    rebuild.report_missing(&folders);
    rebuild.report_mounts()?;
    let Rebuild {
        mut report,
        mut metadata,
        deleted,
        newest,
        ..
    } = rebuild;
    metadata.version = metadata.version.max(newest) + 1;
    report.version = metadata.version;
    report.index_count = metadata.indices.len();
    if apply {
        report.replaced = put_in_place(&disk, path_data, &metadata, &deleted)?;
        for folder in brought_back {
            let indices = match folder.tier {
                Tier::Hot => path_data.join("indices"),
                tier => match tiers.of(tier) {
                    Some(path) => path.join("indices"),
                    None => continue,
                },
            };
            disk.create_dir_all(&indices)?;
            disk.rename(&folder.dir, &indices.join(&folder.uuid))?;
            disk.sync_dir(&indices)?;
        }
    }
    Ok(report)
}

struct Rebuild<'a> {
    disk: &'a dyn Disk,
    path_data: &'a Path,
    report: RebuildReport,
    metadata: Metadata,
    /// Uuids of deleted indices.
    deleted: HashSet<String>,
    /// Highest version in any source.
    newest: u64,
}

impl Rebuild<'_> {
    fn found(&mut self, line: String) {
        self.report.found.push(line);
    }

    fn problem(&mut self, line: String) {
        self.report.problems.push(line);
    }

    /// Uses the newer of the catalog's file and its copy.
    fn take_stored(&mut self) -> Result<()> {
        let path = self.path_data.join(CATALOG_FILE);
        let mut best: Option<(Metadata, &str)> = None;
        match Catalog::inspect(self.disk, &path) {
            Ok(Inspection::Missing) => self.problem(format!("[{}] is missing", path.display())),
            Ok(Inspection::Empty) => self.problem(format!("[{}] is empty", path.display())),
            Ok(Inspection::Found { metadata, deleted, .. }) if metadata.cluster_uuid.is_empty() => {
                drop(deleted);
                self.problem(format!("[{}] is a new catalog without content", path.display()));
            }
            Ok(Inspection::Found { metadata, deleted, .. }) => {
                self.found(format!(
                    "[{}] of version {}: {} indices, {} data streams",
                    path.display(),
                    metadata.version,
                    metadata.indices.len(),
                    metadata.data_streams.len()
                ));
                self.deleted = deleted;
                best = Some((*metadata, "catalog.redb"));
            }
            Err(error) => self.problem(error.reason().to_owned()),
        }
        match CatalogCopy::read(self.disk, self.path_data) {
            Ok(None) => self.problem("there is no [catalog.copy]".to_owned()),
            Ok(Some(copy)) => {
                self.found(format!(
                    "[catalog.copy] of version {}: {} indices, {} data streams",
                    copy.version,
                    copy.indices.len(),
                    copy.data_streams.len()
                ));
                if best.as_ref().is_none_or(|(stored, _)| stored.version < copy.version) {
                    best = Some((copy, "catalog.copy"));
                }
            }
            Err(error) => self.problem(error.reason().to_owned()),
        }
        if let Some((metadata, source)) = best {
            self.found(format!(
                "templates, policies, repositories, data streams and settings are taken from [{source}]"
            ));
            self.newest = metadata.version;
            self.metadata = metadata;
        } else {
            self.problem(
                "templates, policies, repositories, settings and frozen indices are lost: create them again".to_owned(),
            );
        }
        Ok(())
    }

    /// Determines the cluster uuid and the version.
    fn take_noted(&mut self, noted: Option<(String, u64)>, folders: &[Folder]) -> Result<()> {
        let records = || {
            folders
                .iter()
                .filter_map(|folder| folder.record.as_ref().ok()?.as_ref())
        };
        if self.metadata.cluster_uuid.is_empty() {
            let first = records().next().map(|record| record.cluster_uuid.clone());
            let uuid = noted.as_ref().map(|(uuid, _)| uuid.clone()).or(first);
            self.metadata.cluster_uuid = uuid.ok_or_else(|| {
                Error::illegal_argument(format!(
                    "[{}] has neither a catalog nor a copy of one nor an index folder with a record: there is nothing \
                     to rebuild a catalog from",
                    self.path_data.display()
                ))
            })?;
        }
        if let Some((uuid, version)) = noted
            && uuid == self.metadata.cluster_uuid
        {
            if version > self.newest {
                self.problem(format!(
                    "[catalog.version] says version {version}: {} changes are in no copy",
                    version - self.newest
                ));
            }
            self.newest = self.newest.max(version);
        }
        Ok(())
    }

    /// Uses the indices of folders that are newer than the other sources. Returns the folders to move out of the
    /// quarantine.
    fn take_folders<'f>(&mut self, folders: &'f [Folder]) -> Result<Vec<&'f Folder>> {
        let base_version = self.metadata.version;
        let mut newest: BTreeMap<&str, (&Folder, &IndexRecord)> = BTreeMap::new();
        for folder in folders {
            match &folder.record {
                Ok(Some(record)) => {
                    let known = newest.get(folder.uuid.as_str());
                    if known.is_none_or(|(_, known)| known.catalog_version < record.catalog_version) {
                        newest.insert(&folder.uuid, (folder, record));
                    }
                }
                Ok(None) if self.by_uuid(&folder.uuid).is_some() => {}
                Ok(None) => self.problem(format!(
                    "[{}] has no [index.json]: which index it holds is unknown",
                    folder.dir.display()
                )),
                Err(error) => self.problem(error.reason().to_owned()),
            }
        }
        let mut brought_back = Vec::new();
        for (uuid, (folder, record)) in newest {
            let (dir, name) = (folder.dir.display(), &record.index.name);
            if record.cluster_uuid != self.metadata.cluster_uuid {
                self.problem(format!(
                    "[{dir}] holds index [{name}] of the node with cluster uuid [{}]",
                    record.cluster_uuid
                ));
                continue;
            }
            self.newest = self.newest.max(record.catalog_version);
            if self.deleted.contains(uuid) {
                self.found(format!("[{dir}] holds index [{name}], which was deleted"));
                continue;
            }
            match self.by_uuid(uuid) {
                Some(known) if record.state != RecordState::Live || record.catalog_version <= base_version => {
                    self.found(format!("[{dir}] holds index [{}]", known.name));
                }
                Some(_) => {
                    self.found(format!(
                        "[{dir}] holds index [{name}], with newer metadata, of version {}",
                        record.catalog_version
                    ));
                    self.metadata.indices.insert(Arc::new(record.index.clone()));
                }
                None => {
                    if !self.add_index(folder, record)? {
                        continue;
                    }
                }
            }
            brought_back.extend(
                folders
                    .iter()
                    .filter(|other| other.uuid == uuid && other.quarantined.is_some()),
            );
        }
        Ok(brought_back)
    }

    /// Adds an index that no catalog names; false: it is not added.
    fn add_index(&mut self, folder: &Folder, record: &IndexRecord) -> Result<bool> {
        let (dir, index) = (folder.dir.display(), &record.index);
        if record.state == RecordState::Restoring {
            self.problem(format!(
                "[{dir}] is an unfinished restore of index [{}]: restore it again",
                index.name
            ));
            return Ok(false);
        }
        if record.state == RecordState::Creating && self.is_empty(&folder.dir)? {
            self.found(format!("[{dir}] is an unfinished creation of index [{}]", index.name));
            return Ok(false);
        }
        if let Some(other) = self.metadata.indices.get(&index.name) {
            let uuid = other.uuid.clone();
            self.problem(format!(
                "[{dir}] holds index [{}], whose name index [{uuid}] has: adopt it under another name from the quarantine \
                 once the server runs",
                index.name
            ));
            return Ok(false);
        }
        self.found(format!(
            "[{dir}] holds index [{}], which no catalog contains: it is added",
            index.name
        ));
        self.metadata.indices.insert(Arc::new(index.clone()));
        if let Some(stream) = &index.data_stream {
            self.add_to_stream(&stream.clone(), index);
        }
        Ok(true)
    }

    fn add_to_stream(&mut self, name: &str, index: &IndexMetadata) {
        let known = self.metadata.data_streams.get(name).cloned();
        if known.is_none() {
            self.problem(format!(
                "data stream [{name}] is rebuilt from its indices alone: check its template and lifecycle"
            ));
        }
        let mut stream = known.map_or_else(
            || DataStream {
                name: name.to_owned(),
                indices: Vec::new(),
                generation: 1,
                template: name.to_owned(),
                meta: None,
                hidden: false,
                lifecycle: None,
                made_by: index.made_by.clone(),
            },
            |stream| (*stream).clone(),
        );
        if !stream.indices.contains(&index.name) {
            stream.indices.push(index.name.clone());
            // `.ds-NAME-yyyy.MM.dd-000001`: by day, then by number.
            stream.indices.sort();
        }
        let generations = stream
            .indices
            .iter()
            .filter_map(|index| index.rsplit('-').next()?.parse::<u64>().ok());
        stream.generation = generations.max().unwrap_or(0).max(stream.generation);
        self.metadata.data_streams.insert(name.to_owned(), Arc::new(stream));
    }

    fn is_empty(&self, dir: &Path) -> Result<bool> {
        for shard in self.disk.list(dir)?.iter().filter(|entry| entry.is_dir) {
            if !Shard::holds_nothing(self.disk, &dir.join(&shard.name))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn by_uuid(&self, uuid: &str) -> Option<&Arc<IndexMetadata>> {
        self.metadata.indices.values().find(|index| index.uuid == uuid)
    }

    /// Reports indices without files.
    fn report_missing(&mut self, folders: &[Folder]) {
        let there: HashSet<&str> = folders.iter().map(|folder| folder.uuid.as_str()).collect();
        let missing = self
            .metadata
            .indices
            .values()
            .filter(|index| !index.settings.is_mounted() && !there.contains(index.uuid.as_str()));
        let lines: Vec<String> = missing
            .map(|index| {
                format!(
                    "index [{}] has no folder [{}]: its shards will not serve; restore it from a snapshot, or delete it",
                    index.name, index.uuid
                )
            })
            .collect();
        self.report.problems.extend(lines);
    }

    /// Reports manifests of mounted snapshots that no index of the new catalog reads.
    fn report_mounts(&mut self) -> Result<()> {
        let stores = self
            .metadata
            .indices
            .values()
            .filter_map(|index| index.settings.snapshot.as_ref());
        let read: HashSet<String> = stores.map(|store| manifest_file(store)).collect();
        let entries = match self.disk.list(&self.path_data.join("mounts")) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        for entry in entries {
            let Some(stem) = entry.name.strip_suffix(".mount") else {
                continue;
            };
            if read.contains(&entry.name) {
                continue;
            }
            let mut parts = stem.split('.');
            let (snapshot, _index, repository) = (parts.next(), parts.next(), parts.next());
            let repositories = self.metadata.repositories.keys();
            let name = repositories
                .filter(|name| Some(format!("{:08x}", crc32c::crc32c(name.as_bytes())).as_str()) == repository)
                .map(|name| format!("repository [{name}]"))
                .next()
                .unwrap_or_else(|| "a repository that is not registered".to_owned());
            self.problem(format!(
                "[mounts/{}] is the manifest of an index of snapshot [{}] in {name} that no index reads: mount it again if it \
                 was mounted",
                entry.name,
                snapshot.unwrap_or_default()
            ));
        }
        Ok(())
    }
}

/// Writes a new catalog beside the old one, and exchanges them.
fn put_in_place(
    disk: &Arc<dyn Disk>,
    path_data: &Path,
    metadata: &Metadata,
    deleted: &HashSet<String>,
) -> Result<Option<PathBuf>> {
    let (path, beside) = (path_data.join(CATALOG_FILE), path_data.join("catalog.rebuilt"));
    Catalog::write_new(disk, &beside, metadata, deleted)?;
    let mut replaced = None;
    if disk.exists(&path)? {
        let free = (1..).map(|number| path_data.join(format!("{CATALOG_FILE}.replaced-{number}")));
        let mut free = free.skip_while(|name| disk.exists(name).unwrap_or(true));
        let old = free.next().ok_or_else(|| Error::internal("no name is free"))?;
        disk.rename(&path, &old)?;
        replaced = Some(old);
    }
    disk.rename(&beside, &path)?;
    disk.sync_dir(path_data)?;
    CatalogVersion::new(&metadata.cluster_uuid, metadata.version).write(&**disk, path_data)?;
    CatalogCopy::new(None).write(&**disk, path_data, metadata, &|| 0)?;
    Ok(replaced)
}
