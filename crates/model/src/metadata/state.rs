//! All metadata of a node at one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::entities::{ComponentTemplate, DataStream, IndexTemplate};
use super::indices::Indices;
use super::pipeline_bodies::PipelineBodies;
use crate::ilm::Policies;
use crate::placement::Placement;
use crate::repository::RepositoryMetadata;
use crate::settings::SettingsMap;
use crate::slm::SnapshotPolicies;

/// All metadata of a node. Parts are shared, so a clone is cheap.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metadata {
    /// Incremented by every change.
    pub version: u64,
    /// By concrete name.
    pub indices: Indices,
    /// By name.
    pub data_streams: BTreeMap<String, Arc<DataStream>>,
    /// By name.
    pub component_templates: BTreeMap<String, Arc<ComponentTemplate>>,
    /// By name (composable ones).
    pub index_templates: BTreeMap<String, Arc<IndexTemplate>>,
    /// `persistent` settings of `_cluster/settings`, flat.
    pub cluster_settings: SettingsMap,
    /// `transient` settings of `_cluster/settings`, flat. The catalog does not store them, so they end with the
    /// process.
    pub transient_settings: SettingsMap,
    /// Cluster settings from the node's configuration, flat. The catalog does not store them.
    pub configured_settings: SettingsMap,
    /// Generated once, when the data folder is new.
    pub cluster_uuid: String,
    /// Placement of tenants in new indices; `None`: by hash.
    pub placement: Option<Arc<Placement>>,
    /// Tenants that are being deleted: firn refuses writes for them.
    pub closed_tenants: Arc<BTreeSet<String>>,
    /// Snapshot repositories by name.
    pub repositories: BTreeMap<String, Arc<RepositoryMetadata>>,
    /// Index lifecycle policies.
    pub ilm: Arc<Policies>,
    /// Snapshot lifecycle policies.
    pub slm: Arc<SnapshotPolicies>,
    /// Ingest pipelines.
    pub ingest: Arc<PipelineBodies>,
    /// Event pipelines.
    pub event_pipelines: Arc<PipelineBodies>,
    /// Detection rules.
    pub detection_rules: Arc<PipelineBodies>,
    /// Channels that deliver alerts.
    pub alert_channels: Arc<PipelineBodies>,
    /// Times in which alerts are not delivered.
    pub maintenance_windows: Arc<PipelineBodies>,
    /// Enrich policies by name: see [`super::StoredEnrichPolicy`].
    pub enrich_policies: Arc<PipelineBodies>,
}

impl Metadata {
    /// Returns whether an index, alias or data stream has this name.
    pub fn has_name(&self, name: &str) -> bool {
        self.indices.contains_key(name) || self.data_streams.contains_key(name) || self.has_alias(name)
    }

    /// Returns whether any index has this alias.
    pub fn has_alias(&self, name: &str) -> bool {
        self.indices.has_alias(name)
    }
}
