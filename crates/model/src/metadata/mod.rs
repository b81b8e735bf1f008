//! Cluster metadata (indices, aliases, templates, data streams) and the commands that change it.
//!
//! [`Metadata::apply`] is pure: it takes the state, a command, the time and fresh identifiers, and returns the next
//! state with an outcome, or an error and no change. The caller stores the difference in one transaction.

mod alias_commands;
mod change;
mod cluster_commands;
mod create;
mod data_streams;
mod detection_commands;
mod entities;
mod event_pipeline_commands;
mod global_state;
mod ids;
mod ilm_commands;
mod index_commands;
mod indices;
mod ingest_commands;
mod json;
mod mount;
mod parse;
mod periods;
mod pipeline_bodies;
mod print;
mod private_indices;
mod repository_commands;
mod resolve;
mod rollover;
mod scoped_view;
mod shard_routing;
mod slm_commands;
mod state;
mod target_pipelines;
mod template_commands;
mod templates;
mod tenant_indices;
mod tenant_shard_limits;
mod tiers;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::Value;

pub use cluster_commands::{check_cluster_settings, cluster_setting_defaults};

pub use detection_commands::{DetectionCommand, check_detection_rule_id, detection_rule_id_of};
pub use entities::{AliasMetadata, ComponentTemplate, DataStream, IndexMetadata, IndexTemplate, TemplateContent};
pub use event_pipeline_commands::EventPipelineCommand;
pub use global_state::{GlobalState, IDS_OF};
pub use ilm_commands::IlmCommand;
pub use indices::{Indices, OpenShards};
pub use ingest_commands::{EnrichPolicyCommand, IngestCommand, StoredEnrichPolicy};
pub use periods::{NEW_PERIODS_MAX, event_times};
pub use pipeline_bodies::PipelineBodies;
pub use private_indices::PRIVATE_INDICES_MAX;
pub use resolve::{is_hidden, resolve, resolve_write};
pub use scoped_view::Viewer;
pub use slm_commands::SlmCommand;
pub use state::Metadata;
pub use target_pipelines::{NO_PIPELINE, TargetPipelines};
pub use templates::TIMESTAMP;

use crate::lifecycle::Lifecycle;
use crate::mapping::Mapping;
use crate::placement::Placement;
use crate::repository::RepositoryMetadata;
use crate::settings::{SettingsMap, SnapshotStore};
use crate::tenant::TenantId;
use crate::tier::Tier;

/// Change of metadata that every engine executes. Names inside are as the user wrote them.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// `PUT /name` with the body's parts. Date math in the name is resolved.
    CreateIndex {
        /// The name.
        name: String,
        /// `settings`, nested or flat, with or without `index.`.
        settings: Value,
        /// `mappings`.
        mappings: Option<Value>,
        /// `aliases`, as in the body.
        aliases: Option<Value>,
    },
    /// `PUT /name` by a tenant: creates a private index, which may have the same name as other tenants' indices.
    /// [`Outcome::created_index`] is the tenant's name for it.
    CreateOwnIndex {
        /// The tenant's name for it.
        name: String,
        /// Its owner.
        tenant: TenantId,
        /// As in [`Command::CreateIndex`].
        settings: Value,
        /// `mappings`.
        mappings: Option<Value>,
    },
    /// A write to a name that may not exist: creates an index or data stream by the templates. An existing name changes
    /// nothing.
    AutoCreate {
        /// The name.
        name: String,
        /// The writing tenant; `None`: an operator.
        tenant: Option<TenantId>,
    },
    /// Deletes concrete indices, already resolved. A data stream's write index is refused.
    DeleteIndices {
        /// Concrete names.
        names: Vec<String>,
    },
    /// Deletes indices that a tenant's writes created and that hold no documents, and the data stream if it has no
    /// other indices. Nothing changes if an index has been replaced or was adopted by an operator in the meantime, or
    /// if the data stream has more indices.
    DropUnused {
        /// The tenant whose writes created them.
        tenant: TenantId,
        /// The data stream.
        stream: Option<String>,
        /// Concrete names, each with its uuid.
        indices: BTreeMap<String, String>,
    },
    /// Opens or closes concrete indices.
    SetClosed {
        /// Concrete names.
        names: Vec<String>,
        /// True: close.
        closed: bool,
    },
    /// Merges a mapping into concrete indices.
    PutMapping {
        /// Concrete names.
        names: Vec<String>,
        /// The mapping's JSON.
        mapping: Value,
    },
    /// Changes dynamic settings of concrete indices; `null` resets.
    PutSettings {
        /// Concrete names.
        names: Vec<String>,
        /// Nested or flat.
        settings: Value,
        /// Keep values that are already set.
        preserve_existing: bool,
    },
    /// `POST /_aliases`: all actions or none.
    UpdateAliases {
        /// In order; index names already resolved.
        actions: Vec<AliasAction>,
    },
    /// `PUT /_component_template/name`.
    PutComponentTemplate {
        /// The name.
        name: String,
        /// The body.
        body: Value,
        /// Refuse if it exists.
        create: bool,
    },
    /// Names or wildcards; 404 if nothing matches, 400 if a template is in use.
    DeleteComponentTemplate {
        /// Names.
        names: Vec<String>,
    },
    /// `PUT /_index_template/name`.
    PutIndexTemplate {
        /// The name.
        name: String,
        /// The body.
        body: Value,
        /// Refuse if it exists.
        create: bool,
    },
    /// Names or wildcards.
    DeleteIndexTemplate {
        /// Names.
        names: Vec<String>,
    },
    /// `PUT /_data_stream/name`: needs a matching template with `data_stream`.
    CreateDataStream {
        /// The name.
        name: String,
    },
    /// Creates the backing indices that a data stream with periods lacks for events of these times. Existing ones do
    /// not change.
    CreateBackingIndices {
        /// The data stream.
        stream: String,
        /// ms since epoch UTC, in any order.
        times_ms: Vec<i64>,
    },
    /// `PUT` and `DELETE /_data_stream/name/_lifecycle`; names resolved.
    PutDataStreamLifecycle {
        /// Names.
        names: Vec<String>,
        /// `None`: removes the lifecycle.
        lifecycle: Option<Lifecycle>,
    },
    /// Deletes data streams with their backing indices; names resolved.
    DeleteDataStream {
        /// Names.
        names: Vec<String>,
    },
    /// `POST /target/_rollover[/new_name]`. The engine fills `facts` before it applies.
    Rollover {
        /// Alias with a write index, or data stream.
        target: String,
        /// For aliases; default: the number at the end plus one.
        new_index: Option<String>,
        /// `conditions`, by name; empty: always.
        conditions: IndexMap<String, Value>,
        /// `settings`, `mappings`, `aliases` of the new index.
        body: Value,
        /// Only compute what would happen.
        dry_run: bool,
        /// Measured facts about the write index.
        facts: RolloverFacts,
    },
    /// `POST /_snapshot/repository/snapshot/_mount`.
    MountIndex(Box<MountIndex>),
    /// Placement of tenants in indices created from now on; `None`: by hash.
    PutPlacement {
        /// The table.
        placement: Option<Placement>,
    },
    /// Index lifecycle policies and the progress of indices.
    Ilm(IlmCommand),
    /// Change of ingest pipelines.
    Ingest(IngestCommand),
    /// Event pipelines.
    EventPipeline(EventPipelineCommand),
    /// Detection rules and alert channels.
    Detection(DetectionCommand),
    /// Enrich policies.
    EnrichPolicy(EnrichPolicyCommand),
    /// Snapshot lifecycle policies and their results.
    Slm(SlmCommand),
    /// Refuses writes for a tenant, or accepts them again.
    SetTenantClosed {
        /// The value of the tenant field.
        tenant: String,
        /// True: refuse.
        closed: bool,
    },
    /// Registers a snapshot repository, or replaces its registration. The command does not read the repository.
    PutRepository {
        /// Its name.
        name: String,
        /// Its definition.
        repository: RepositoryMetadata,
    },
    /// Unregisters repositories and keeps their content; names resolved.
    DeleteRepositories {
        /// Names.
        names: Vec<String>,
    },
    /// `persistent` settings of `PUT /_cluster/settings`; `null` resets.
    PutClusterSettings {
        /// Nested or flat.
        settings: Value,
    },
    /// `transient` settings of `PUT /_cluster/settings`; `null` resets.
    PutTransientSettings {
        /// Nested or flat.
        settings: Value,
    },
}

/// Change of metadata by an engine that stores documents and shards itself: a command, or a consequence of what it
/// stored. No request asks for the latter.
#[derive(Debug, Clone, PartialEq)]
pub enum EmbeddedCommand {
    /// A command of a request.
    Portable(Command),
    /// Adds fields found in documents, as a mapping that only adds. Fields past `index.mapping.total_fields.limit` are
    /// omitted (dynamic-as-flattened); the outcome's metadata shows the added fields.
    AddDynamicFields {
        /// One concrete index.
        name: String,
        /// The mapping that adds them.
        mapping: Arc<Mapping>,
    },
    /// Records that the files of a shard lie on another device; the files are already there. It is stored even if
    /// nothing changes, so that a caller that does not know whether it was stored can make sure.
    MoveShard {
        /// The index.
        index: String,
        /// Its uuid: a later index of the same name has another uuid.
        uuid: String,
        /// The number of the shard.
        shard: u32,
        /// New tier.
        tier: Tier,
    },
    /// Adds whole indices and data streams from a snapshot, restored or mounted. Their uuids are fresh, and the files
    /// of restored indices are in place.
    AddIndices {
        /// The indices.
        indices: Vec<Arc<IndexMetadata>>,
        /// Data streams over them.
        data_streams: Vec<Arc<DataStream>>,
        /// Templates and cluster settings from the snapshot.
        global: Option<Box<GlobalState>>,
    },
}

impl From<Command> for EmbeddedCommand {
    fn from(command: Command) -> Self {
        Self::Portable(command)
    }
}
/// An index that reads a snapshot.
#[derive(Debug, Clone, PartialEq)]
pub struct MountIndex {
    /// The new index.
    pub name: String,
    /// The index as in the snapshot.
    pub index: Arc<IndexMetadata>,
    /// Snapshot that it reads.
    pub store: SnapshotStore,
    /// `index_settings`: override those in the snapshot, flat.
    pub settings: SettingsMap,
    /// `ignore_index_settings`: settings in the snapshot that the new index does not inherit; wildcards allowed.
    pub ignored_settings: Vec<String>,
}

/// Measured facts for rollover conditions.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RolloverFacts {
    /// Documents.
    pub doc_count: u64,
    /// Bytes of all primary shards.
    pub size_bytes: u64,
    /// Documents of the largest shard.
    pub shard_doc_count_max: u64,
    /// Bytes of the largest shard.
    pub shard_size_bytes_max: u64,
}

/// One action of `_aliases`.
#[derive(Debug, Clone, PartialEq)]
pub enum AliasAction {
    /// Adds or replaces.
    Add {
        /// Concrete index.
        index: String,
        /// The alias.
        alias: String,
        /// Its parts.
        metadata: AliasMetadata,
    },
    /// Removes; wildcards allowed in `alias`.
    Remove {
        /// Concrete index.
        index: String,
        /// The alias.
        alias: String,
        /// Fail if it does not exist.
        must_exist: bool,
    },
    /// Deletes the index in the same step.
    RemoveIndex {
        /// Concrete index.
        index: String,
    },
}

/// Outcome of a command.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outcome {
    /// False: no change was needed.
    pub changed: bool,
    /// Concrete index created, if one.
    pub created_index: Option<String>,
    /// Only for rollover.
    pub rollover: Option<RolloverOutcome>,
    /// The new state.
    pub metadata: Option<Arc<Metadata>>,
}

/// Result of a rollover.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RolloverOutcome {
    /// Previous write index.
    pub old_index: String,
    /// New write index (in a dry run, its future name).
    pub new_index: String,
    /// Whether it happened.
    pub rolled_over: bool,
    /// Each condition as `[max_docs: 5]`, and whether it is met.
    pub conditions: IndexMap<String, bool>,
    /// Whether the conditions together require a rollover.
    pub is_due: bool,
}

impl Metadata {
    /// Returns the state after `command` and the outcome. `fresh_id` generates 22-character uuids.
    ///
    /// The command applies completely or fails without a change. If no change is needed, the returned state has the
    /// same version and [`Outcome::changed`] is false.
    pub fn apply(
        &self,
        command: &Command,
        now_ms: i64,
        fresh_id: &mut dyn FnMut() -> String,
    ) -> crate::Result<(Arc<Metadata>, Outcome)> {
        self.changed_by(now_ms, fresh_id, |change| change.run(command))
    }

    /// As [`Metadata::apply`], for the commands of an embedded engine.
    pub fn apply_embedded(
        &self,
        command: &EmbeddedCommand,
        now_ms: i64,
        fresh_id: &mut dyn FnMut() -> String,
    ) -> crate::Result<(Arc<Metadata>, Outcome)> {
        self.changed_by(now_ms, fresh_id, |change| change.run_embedded(command))
    }

    fn changed_by(
        &self,
        now_ms: i64,
        fresh_id: &mut dyn FnMut() -> String,
        run: impl FnOnce(&mut change::Change<'_>) -> crate::Result<()>,
    ) -> crate::Result<(Arc<Metadata>, Outcome)> {
        let mut change = change::Change {
            next: self.clone(),
            now_ms,
            fresh_id,
            outcome: Outcome::default(),
        };
        run(&mut change)?;
        let change::Change {
            mut next, mut outcome, ..
        } = change;
        if outcome.changed {
            next.version += 1;
        }
        let next = Arc::new(next);
        outcome.metadata = Some(Arc::clone(&next));
        Ok((next, outcome))
    }
}
