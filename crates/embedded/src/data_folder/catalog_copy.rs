//! Copy of all metadata beside the catalog, from which a lost catalog is rebuilt.
//!
//! Written in the background after the catalog has changed, and when the engine closes. It is some seconds old at most,
//! or older if writing it takes long because of many indices. Later changes are in the records of the index folders
//! ([`super::IndexRecord`]).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_model::ilm::Policies;
use firn_model::metadata::{
    ComponentTemplate, DataStream, IndexMetadata, IndexTemplate, Indices, Metadata, PipelineBodies,
};
use firn_model::placement::Placement;
use firn_model::repository::RepositoryMetadata;
use firn_model::settings::SettingsMap;
use firn_model::slm::SnapshotPolicies;
use firn_model::{Error, Result};
use firn_segment::catalog_version::NotedVersion;
use firn_storage::checked_file;
use firn_storage::disk::Disk;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

const FILE: &str = "catalog.copy";
const MAGIC: &str = "firn-catalog-copy";
const FORMAT: u32 = 1;

/// Minimum time between two copies, ms.
const PAUSE_MS_MIN: i64 = 5_000;
/// Writing takes at most 1/50 of the time.
const PAUSE_FACTOR: i64 = 50;

/// Schedule of the copies.
#[derive(Debug, Default)]
pub(crate) struct CatalogCopy {
    schedule: Mutex<Schedule>,
}

#[derive(Debug, Default)]
struct Schedule {
    /// The version of the copy on the disk.
    written: Option<u64>,
    not_before_ms: i64,
}

/// All metadata except version and uuid, each entity as the catalog stores it.
#[derive(Serialize, Deserialize)]
struct Stored {
    indices: Vec<Value>,
    data_streams: Vec<Value>,
    component_templates: Vec<(String, Value)>,
    index_templates: Vec<(String, Value)>,
    repositories: Vec<(String, Value)>,
    cluster_settings: SettingsMap,
    placement: Option<Value>,
    closed_tenants: Vec<String>,
    ilm: Value,
    slm: Value,
    /// Absent in copies of older builds.
    #[serde(default)]
    ingest: Value,
    /// Absent in copies of older builds.
    #[serde(default)]
    event_pipelines: Value,
    /// Absent in copies of older builds.
    #[serde(default)]
    detection_rules: Value,
    /// Absent in copies of older builds.
    #[serde(default)]
    alert_channels: Value,
    /// Absent in copies of older builds.
    #[serde(default)]
    maintenance_windows: Value,
    /// Absent in copies of older builds.
    #[serde(default)]
    enrich_policies: Value,
}

impl CatalogCopy {
    /// Creates a schedule. `written` is the version of the existing copy, if there is one.
    pub(crate) fn new(written: Option<u64>) -> Self {
        Self {
            schedule: Mutex::new(Schedule {
                written,
                not_before_ms: 0,
            }),
        }
    }

    /// Whether a copy must be written now.
    pub(crate) fn is_due(&self, version: u64, now_ms: i64) -> bool {
        let schedule = self.schedule.lock();
        schedule.written != Some(version) && now_ms >= schedule.not_before_ms
    }

    /// Writes a copy unless there is one of that version. `now_ms` is the clock, as writing is limited to a share of
    /// the time.
    pub(crate) fn write(
        &self,
        disk: &dyn Disk,
        path_data: &Path,
        metadata: &Metadata,
        now_ms: &dyn Fn() -> i64,
    ) -> Result<()> {
        let mut schedule = self.schedule.lock();
        if schedule.written == Some(metadata.version) {
            return Ok(());
        }
        let started_ms = now_ms();
        schedule.not_before_ms = started_ms + PAUSE_MS_MIN;
        disk.write_atomic(&path(path_data), &print(metadata)?)?;
        schedule.written = Some(metadata.version);
        let took_ms = (now_ms() - started_ms).max(0);
        schedule.not_before_ms = started_ms + PAUSE_MS_MIN.max(took_ms * PAUSE_FACTOR);
        Ok(())
    }

    /// Reads the copy of a data folder; `None`: there is none. If it is damaged, the error names it.
    pub(crate) fn read(disk: &dyn Disk, path_data: &Path) -> Result<Option<Metadata>> {
        let path = path(path_data);
        match read_file(disk, &path)? {
            None => Ok(None),
            Some(bytes) => parse(&bytes).map(Some).map_err(|reason| damaged(&path, &reason)),
        }
    }

    /// Reads only the version of the copy.
    pub(crate) fn read_version(disk: &dyn Disk, path_data: &Path) -> Result<Option<NotedVersion>> {
        let path = path(path_data);
        match read_file(disk, &path)? {
            None => Ok(None),
            Some(bytes) => {
                let version = split(&bytes).map(|(version, _)| version);
                version.map(Some).map_err(|reason| damaged(&path, &reason))
            }
        }
    }
}

fn path(path_data: &Path) -> PathBuf {
    path_data.join(FILE)
}

fn read_file(disk: &dyn Disk, path: &Path) -> Result<Option<Vec<u8>>> {
    match disk.read(path) {
        Ok(bytes) => Ok(Some(bytes.to_vec())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn damaged(path: &Path, reason: &str) -> Error {
    Error::internal(format!("[{}] is damaged: {reason}", path.display()))
}

/// Formats the copy. The version is in a separate line, so that a start need not parse the rest.
fn print(metadata: &Metadata) -> Result<Vec<u8>> {
    let noted = NotedVersion {
        cluster_uuid: metadata.cluster_uuid.clone(),
        version: metadata.version,
    };
    let stored = Stored {
        indices: metadata.indices.values().map(|index| index.to_json()).collect(),
        data_streams: metadata.data_streams.values().map(|stream| stream.to_json()).collect(),
        component_templates: metadata
            .component_templates
            .iter()
            .map(|(name, template)| (name.clone(), template.to_json()))
            .collect(),
        index_templates: metadata
            .index_templates
            .iter()
            .map(|(name, template)| (name.clone(), template.to_json()))
            .collect(),
        repositories: metadata
            .repositories
            .iter()
            .map(|(name, repository)| (name.clone(), repository.to_json()))
            .collect(),
        cluster_settings: metadata.cluster_settings.clone(),
        placement: metadata.placement.as_ref().map(|placement| placement.print()),
        closed_tenants: metadata.closed_tenants.iter().cloned().collect(),
        ilm: metadata.ilm.to_json(),
        slm: metadata.slm.to_json(),
        ingest: metadata.ingest.to_json(),
        event_pipelines: metadata.event_pipelines.to_json(),
        detection_rules: metadata.detection_rules.to_json(),
        alert_channels: metadata.alert_channels.to_json(),
        maintenance_windows: metadata.maintenance_windows.to_json(),
        enrich_policies: metadata.enrich_policies.to_json(),
    };
    let mut body = serde_json::to_vec(&noted)?;
    body.push(b'\n');
    serde_json::to_writer(&mut body, &stored)?;
    Ok(checked_file::print(MAGIC, FORMAT, &body))
}

fn split(bytes: &[u8]) -> Result<(NotedVersion, &[u8]), String> {
    let body = checked_file::parse(MAGIC, FORMAT, bytes)?;
    let end = body
        .iter()
        .position(|byte| *byte == b'\n')
        .ok_or("its version has no line")?;
    let noted = serde_json::from_slice(&body[..end]).map_err(|error| error.to_string())?;
    Ok((noted, &body[end + 1..]))
}

fn parse(bytes: &[u8]) -> Result<Metadata, String> {
    let (noted, rest) = split(bytes)?;
    let stored: Stored = serde_json::from_slice(rest).map_err(|error| error.to_string())?;
    from_stored(noted, stored).map_err(|error| error.to_string())
}

fn from_stored(noted: NotedVersion, stored: Stored) -> Result<Metadata> {
    fn named<T>(entities: Vec<(String, Value)>, read: impl Fn(&Value) -> Result<T>) -> Result<Vec<(String, Arc<T>)>> {
        entities
            .into_iter()
            .map(|(name, json)| Ok((name, Arc::new(read(&json)?))))
            .collect()
    }
    let indices = stored.indices.iter().map(IndexMetadata::from_json);
    let streams = stored.data_streams.iter().map(DataStream::from_json);
    Ok(Metadata {
        version: noted.version,
        cluster_uuid: noted.cluster_uuid,
        indices: indices.map(|index| index.map(Arc::new)).collect::<Result<Indices>>()?,
        data_streams: streams
            .map(|stream| stream.map(|stream| (stream.name.clone(), Arc::new(stream))))
            .collect::<Result<_>>()?,
        component_templates: named(stored.component_templates, ComponentTemplate::from_json)?
            .into_iter()
            .collect(),
        index_templates: named(stored.index_templates, IndexTemplate::from_json)?
            .into_iter()
            .collect(),
        repositories: named(stored.repositories, RepositoryMetadata::from_json)?
            .into_iter()
            .collect(),
        cluster_settings: stored.cluster_settings,
        configured_settings: SettingsMap::default(),
        transient_settings: SettingsMap::default(),
        placement: stored
            .placement
            .map(|json| Placement::parse(&json).map(Arc::new))
            .transpose()?,
        closed_tenants: Arc::new(stored.closed_tenants.into_iter().collect()),
        ilm: Arc::new(Policies::from_json(&stored.ilm)?),
        slm: Arc::new(SnapshotPolicies::from_json(&stored.slm)?),
        ingest: Arc::new(PipelineBodies::from_json(&stored.ingest)?),
        event_pipelines: Arc::new(PipelineBodies::from_json(&stored.event_pipelines)?),
        detection_rules: Arc::new(PipelineBodies::from_json(&stored.detection_rules)?),
        alert_channels: Arc::new(PipelineBodies::from_json(&stored.alert_channels)?),
        maintenance_windows: Arc::new(PipelineBodies::from_json(&stored.maintenance_windows)?),
        enrich_policies: Arc::new(PipelineBodies::from_json(&stored.enrich_policies)?),
    })
}
